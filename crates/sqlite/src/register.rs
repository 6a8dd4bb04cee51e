//! Registration of a VFS by a program.

#![allow(unsafe_code)]

use crate::api::{Api, c_string};
use crate::database::hold;
use crate::source::Source;
use crate::vfs;
use highwater::Memory;
use libsqlite3_sys as ffi;
use std::ffi::{CString, c_int};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// The reason why a VFS could not be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The name is empty or contains a zero byte.
    Name(String),
    /// SQLite has a VFS of this name already.
    Taken(String),
    /// SQLite has no VFS for journals and temporary files.
    NoDefault,
    /// SQLite refused, with this result code.
    Refused(i32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name:?} cannot be the name of a VFS"),
            Self::Taken(name) => write!(f, "SQLite has a VFS of the name {name:?} already"),
            Self::NoDefault => f.write_str("SQLite has no VFS for journals and temporary files"),
            Self::Refused(code) => write!(f, "SQLite refuses the VFS: result code {code}"),
        }
    }
}

impl std::error::Error for Error {}

/// A registered VFS. Dropping it unregisters the VFS: no more databases are opened on it, and its share of the [`Memory`]
/// ends. Databases that are open stay usable.
///
/// ```
/// use highwater::Memory;
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Arc::new(Memory::builder().size(16 << 20).start()?);
/// let vfs = highwater_sqlite::register(&memory, "mine")?;
/// drop(vfs);
/// let memory = Arc::into_inner(memory).expect("no database is open");
/// memory.shutdown()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the VFS is unregistered at once"]
pub struct Vfs {
    api: Api,
    vfs: NonNull<ffi::sqlite3_vfs>,
    name: String,
}

// SAFETY: the VFS is valid until the process ends, and SQLite's functions for it lock a mutex.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

/// Held from the search for a name to its registration, so that no two VFSs get one name.
static REGISTERING: Mutex<()> = Mutex::new(());

/// Registers a VFS of the name `name` with the SQLite that is linked with this program. Databases on it have their pages
/// in `memory`; journals and temporary files are left to the VFS that is SQLite's default at the time of the call.
///
/// A connection uses the VFS if it is opened with its name, by `sqlite3_open_v2` or by the parameter `vfs` of a URI; or
/// after [`Vfs::make_default`]. A few hundred bytes stay allocated until the process ends, because connections refer to
/// them.
///
/// # Errors
/// When the name is not possible or taken, or SQLite has no default VFS.
///
/// ```
/// # let memory = std::sync::Arc::new(highwater::Memory::builder().size(16 << 20).start()?);
/// let vfs = highwater_sqlite::register(&memory, "first")?;
/// assert!(highwater_sqlite::register(&memory, "first").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register(memory: &Arc<Memory>, name: &str) -> Result<Vfs, Error> {
    register_with(Api::linked(), Source::Given(memory.clone()), name)
}

/// Registers a VFS with the SQLite to which `api` belongs.
///
/// # Errors
/// As [`register`].
pub(crate) fn register_with(api: Api, source: Source, name: &str) -> Result<Vfs, Error> {
    let text = CString::new(name).ok().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Error::Name(name.to_owned()))?;
    let _alone = hold(&REGISTERING);
    if !api.find(Some(&text)).is_null() {
        return Err(Error::Taken(name.to_owned()));
    }
    let real = NonNull::new(api.find(None)).ok_or(Error::NoDefault)?;
    // SAFETY: the default VFS is one of this SQLite. Those of SQLite itself and of this crate are never freed; SQLite's
    // documentation asks the same of others as long as connections use them.
    let vfs = unsafe { vfs::make(api, text, real.as_ptr(), source) };
    let vfs = Vfs { api, vfs: NonNull::new(vfs).ok_or(Error::NoDefault)?, name: name.to_owned() };
    match vfs.set(false) {
        ffi::SQLITE_OK => Ok(vfs),
        code => Err(Error::Refused(code)),
    }
}

impl Vfs {
    fn set(&self, is_default: bool) -> c_int {
        // SAFETY: the VFS is never freed.
        unsafe { self.api.register(self.vfs.as_ptr(), is_default) }
    }

    /// Returns whether the SQLite to which `api` belongs finds this VFS by its name.
    pub(crate) fn is_known_to(&self, api: &Api) -> bool {
        api.find(Some(&c_string(&self.name))) == self.vfs.as_ptr()
    }

    /// Returns the name of the VFS, by which connections ask for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes this VFS the one that connections use if they ask for no other.
    ///
    /// # Errors
    /// When SQLite refuses, which it does only if it could not be initialised.
    pub fn make_default(&self) -> Result<(), Error> {
        match self.set(true) {
            ffi::SQLITE_OK => Ok(()),
            code => Err(Error::Refused(code)),
        }
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        self.api.unregister(self.vfs.as_ptr());
        // SAFETY: `make` has made the VFS.
        let state = unsafe { vfs::state_of(self.vfs.as_ptr()) };
        let source = std::mem::replace(&mut *hold(&state.source), Source::Gone);
        drop(source);
    }
}

impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vfs").field("name", &self.name).finish_non_exhaustive()
    }
}
