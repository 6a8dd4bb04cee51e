//! The VFS itself: what SQLite asks before a file is open.
//!
//! The VFS opens main databases. All other files (journals, logs, temporary files) belong to the VFS that was SQLite's
//! default, which opens them in its own form; SQLite then calls its methods and not those of this crate. The files are
//! written in order and read seldom, so that a cache gains nothing for them.

#![allow(unsafe_code)]

use crate::api::Api;
use crate::connection::Connection;
use crate::database::{DATABASES, Wanted, hold};
use crate::failure::{Failure, Outcome};
use crate::methods::{self, OpenFile};
use crate::source::Source;
use libsqlite3_sys::{self as ffi, sqlite3_file, sqlite3_filename, sqlite3_vfs};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

/// The state of a registered VFS. It lives until the process ends, because SQLite has no call that says when the last
/// connection has forgotten a VFS.
pub(crate) struct State {
    pub(crate) api: Api,
    pub(crate) name: CString,
    /// The VFS that was the default one.
    real: *mut sqlite3_vfs,
    pub(crate) source: Mutex<Source>,
}

// SAFETY: SQLite lets any thread call a VFS, and never changes a registered one except for its place in the list. The
// other fields are `Sync`.
unsafe impl Sync for State {}
// SAFETY: as above; nothing of the state belongs to a thread.
unsafe impl Send for State {}

/// Makes a VFS that hands all but databases to `real`. Both the VFS and its state live until the process ends.
///
/// # Safety
/// `real` must be a VFS of the SQLite to which `api` belongs, and valid until the process ends.
pub(crate) unsafe fn make(api: Api, name: CString, real: *mut sqlite3_vfs, source: Source) -> *mut sqlite3_vfs {
    let state: &'static State = Box::leak(Box::new(State { api, name, real, source: Mutex::new(source) }));
    // SAFETY: `real` is valid, as the caller promises.
    let model = unsafe { &*real };
    let vfs = sqlite3_vfs {
        iVersion: 2,
        szOsFile: model.szOsFile.max(size_of::<OpenFile>() as c_int),
        mxPathname: model.mxPathname,
        pNext: std::ptr::null_mut(),
        zName: state.name.as_ptr(),
        pAppData: std::ptr::from_ref(state).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(get_last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    };
    Box::leak(Box::new(vfs))
}

/// Returns the state of a VFS.
///
/// # Safety
/// `vfs` must be one that [`make`] has made.
pub(crate) unsafe fn state_of(vfs: *mut sqlite3_vfs) -> &'static State {
    // SAFETY: `make` put a reference to a state there, which is never freed.
    unsafe { &*(*vfs).pAppData.cast::<State>() }
}

impl State {
    /// Runs a callback of SQLite, logs a failure that has a text, and returns the result code: `on_panic` after a panic,
    /// which must not go on into C.
    pub(crate) fn answer(&self, on_panic: c_int, call: impl FnOnce() -> Outcome) -> c_int {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(())) => ffi::SQLITE_OK,
            Ok(Err(Failure { code, text, .. })) => {
                if !text.is_empty() {
                    self.api.log(code, &text);
                }
                code
            }
            Err(_) => on_panic,
        }
    }

    /// Opens a main database.
    fn open(&'static self, path: &Path, flags: c_int, parameters: &Parameters) -> Outcome<Connection> {
        let has = |flag| flags & flag != 0;
        let write = has(ffi::SQLITE_OPEN_READWRITE);
        let wanted = Wanted {
            write,
            create: has(ffi::SQLITE_OPEN_CREATE),
            new: has(ffi::SQLITE_OPEN_CREATE) && has(ffi::SQLITE_OPEN_EXCLUSIVE),
        };
        let memory = hold(&self.source).memory(parameters.memory.as_deref())?;
        let database = DATABASES.join(&memory, path, wanted)?;
        Ok(Connection::new(database, write, parameters.is_powersafe))
    }

    /// Ends a connection.
    ///
    /// # Errors
    /// When it was the last one of its file, and pages of the file could not be written.
    pub(crate) fn close(connection: Connection) -> Outcome {
        DATABASES.leave(connection.close())
    }
}

/// The parameters that the URI of a database may have.
struct Parameters {
    /// `highwater_memory`: the size of the memory, if it is started for this database.
    memory: Option<String>,
    /// `psow`, as with SQLite's own VFS.
    is_powersafe: bool,
}

/// Returns whether a text is one of SQLite's words for no.
fn is_no(text: &str) -> bool {
    ["0", "no", "off", "false"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the VFS that was registered.
    let state = unsafe { state_of(vfs) };
    if flags & ffi::SQLITE_OPEN_MAIN_DB == 0 || name.is_null() {
        // SAFETY: the arguments are as SQLite passed them, and `file` has room for a file of this VFS.
        return unsafe { delegate!(state.real, xOpen, ffi::SQLITE_CANTOPEN, name, file, flags, out_flags) };
    }
    // SAFETY: `file` has room for a file. Without methods, SQLite does not close a file that could not be opened.
    unsafe { (*file).pMethods = std::ptr::null() };
    state.answer(ffi::SQLITE_CANTOPEN, || {
        // SAFETY: SQLite passes a name that ends in a zero byte.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
        // SAFETY: SQLite passed the name as that of a main database.
        let parameter = |parameter| unsafe { state.api.uri_parameter(name, parameter) };
        let parameters = Parameters {
            memory: parameter(c"highwater_memory"),
            is_powersafe: !parameter(c"psow").is_some_and(|value| is_no(&value)),
        };
        let connection = state.open(path, flags, &parameters)?;
        if !out_flags.is_null() {
            let mode = ffi::SQLITE_OPEN_READONLY | ffi::SQLITE_OPEN_READWRITE;
            let now = if connection.is_writable() { ffi::SQLITE_OPEN_READWRITE } else { ffi::SQLITE_OPEN_READONLY };
            // SAFETY: SQLite passes the place for the flags.
            unsafe { *out_flags = (flags & !mode) | now };
        }
        // SAFETY: `file` has room for `OpenFile`, as `szOsFile` says.
        unsafe { methods::place(file, connection, state) };
        Ok(())
    })
}

/// Calls a method of the VFS that was the default one; returns `$missing` if it has no such method. Unsafe: the arguments
/// must be as SQLite passed them.
macro_rules! delegate {
    ($real:expr, $method:ident, $missing:expr $(, $argument:expr)*) => {
        match (*$real).$method {
            Some(method) => method($real $(, $argument)*),
            None => $missing,
        }
    };
}
use delegate;

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, syncs_folder: c_int) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xDelete, ffi::SQLITE_IOERR_DELETE, name, syncs_folder) }
}

unsafe extern "C" fn access(vfs: *mut sqlite3_vfs, name: *const c_char, flags: c_int, found: *mut c_int) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xAccess, ffi::SQLITE_IOERR_ACCESS, name, flags, found) }
}

unsafe extern "C" fn full_pathname(vfs: *mut sqlite3_vfs, name: *const c_char, room: c_int, out: *mut c_char) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xFullPathname, ffi::SQLITE_CANTOPEN, name, room, out) }
}

unsafe extern "C" fn dl_open(vfs: *mut sqlite3_vfs, name: *const c_char) -> *mut c_void {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xDlOpen, std::ptr::null_mut(), name) }
}

unsafe extern "C" fn dl_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xDlError, (), room, out) }
}

type Symbol = Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)>;

unsafe extern "C" fn dl_sym(vfs: *mut sqlite3_vfs, library: *mut c_void, name: *const c_char) -> Symbol {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xDlSym, None, library, name) }
}

unsafe extern "C" fn dl_close(vfs: *mut sqlite3_vfs, library: *mut c_void) {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xDlClose, (), library) }
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xRandomness, 0, room, out) }
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, micros: c_int) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xSleep, 0, micros) }
}

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, days: *mut f64) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xCurrentTime, ffi::SQLITE_ERROR, days) }
}

unsafe extern "C" fn get_last_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    unsafe { delegate!(state_of(vfs).real, xGetLastError, 0, room, out) }
}

unsafe extern "C" fn current_time_int64(vfs: *mut sqlite3_vfs, millis: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: the arguments are as SQLite passed them.
    let state = unsafe { state_of(vfs) };
    // SAFETY: a VFS of version 1 ends before this method.
    let has_method = unsafe { (*state.real).iVersion >= 2 && (*state.real).xCurrentTimeInt64.is_some() };
    if has_method {
        // SAFETY: as above.
        return unsafe { delegate!(state.real, xCurrentTimeInt64, ffi::SQLITE_ERROR, millis) };
    }
    let mut days = 0.0;
    // SAFETY: there is room for the number of days.
    let code = unsafe { delegate!(state.real, xCurrentTime, ffi::SQLITE_ERROR, &raw mut days) };
    // SAFETY: SQLite passes the place for the time.
    unsafe { *millis = (days * 86_400_000.0) as ffi::sqlite3_int64 };
    code
}
