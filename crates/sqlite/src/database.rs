//! The database files that are open, each with what its connections share: the file, the locks, the shared memory.
//!
//! Locks: the table of files, then nothing else of this crate. `Database::locks` and `Database::shm` are taken alone.

use crate::failure::{Failure, Outcome};
use crate::lock::Locks;
use crate::process_lock;
use crate::shm::Shm;
use highwater::{ErrorKind, File, Memory, OpenOptions};
use libsqlite3_sys as ffi;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The identity of a file, independent of its name: device and inode.
pub(crate) type Identity = (u64, u64);

/// Returns the identity of the file that the system describes so.
pub(crate) fn identity_of(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Locks a mutex. A panic of another holder is ignored: each change under these mutexes is complete, or has not begun.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that all connections to one file share.
#[derive(Debug)]
pub(crate) struct Database {
    /// The memory that caches the file.
    memory: Weak<Memory>,
    /// The handle of which each connection has a clone. It holds the lock against other processes.
    file: File,
    /// Whether the file can be written at all.
    pub(crate) is_writable: bool,
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) locks: Mutex<Locks>,
    pub(crate) shm: Mutex<Shm>,
}

/// The way in which a connection opens a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The connection is going to write.
    pub(crate) write: bool,
    /// A file that is not there is created.
    pub(crate) create: bool,
    /// The file must not be there.
    pub(crate) new: bool,
}

impl Database {
    /// Returns another handle of the file, with a readahead of its own.
    pub(crate) fn handle(&self) -> File {
        self.file.clone()
    }

    fn open(memory: &Arc<Memory>, path: &Path, wanted: Wanted) -> Outcome<Self> {
        let is_new = !path.exists();
        // 0644 is SQLite's own mode of new databases.
        let options =
            OpenOptions::new().mode(0o644).create(wanted.create && wanted.write).create_new(wanted.new && wanted.write);
        // The file is opened for writing even if this connection only reads, since a later one may write it.
        let (file, is_writable) = match options.write(true).open(memory, path) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !wanted.new => {
                (OpenOptions::new().open(memory, path), false)
            }
            opened => (opened, true),
        };
        let file = file.map_err(|error| Failure::of_library(error, ffi::SQLITE_CANTOPEN))?;
        let failed = |doing| {
            let doing = format!("{doing} {}", path.display());
            move |error: std::io::Error| Failure::of_system(&error, &doing, ffi::SQLITE_CANTOPEN)
        };
        process_lock::lock(file.as_fd(), is_writable).map_err(failed("lock"))?;
        if is_new && is_writable {
            // Without this, a crash could lose the file with all that was committed to it.
            let folder = path.parent().unwrap_or(Path::new("/"));
            std::fs::File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(failed("make durable the name of"))?;
        }
        let metadata = file.metadata().map_err(|error| Failure::of_library(error, ffi::SQLITE_CANTOPEN))?;
        if metadata.len() != file.len() {
            // The library read the length before the lock that SQLite's own VFS heeds was taken.
            return Err(Failure::new(ffi::SQLITE_BUSY, "another process has just changed the database"));
        }
        Ok(Self {
            memory: Arc::downgrade(memory),
            file,
            is_writable,
            path: path.to_owned(),
            identity: identity_of(&metadata),
            locks: Mutex::default(),
            shm: Mutex::default(),
        })
    }
}

/// The open files of all VFSs of this process, each with the number of its connections.
#[derive(Debug, Default)]
pub(crate) struct Databases(Mutex<BTreeMap<Identity, (Arc<Database>, u32)>>);

/// The databases that are open. There is one table for all VFSs, because connections to one file must know of each other,
/// and a memory shares one open file among all who open it.
pub(crate) static DATABASES: Databases = Databases(Mutex::new(BTreeMap::new()));

impl Databases {
    /// Opens a file for one more connection. [`Databases::leave`] must follow.
    ///
    /// # Errors
    /// When the file cannot be opened, or another process or memory has it open.
    pub(crate) fn join(&self, memory: &Arc<Memory>, path: &Path, wanted: Wanted) -> Outcome<Arc<Database>> {
        let mut open = hold(&self.0);
        if !wanted.new
            && let Ok(metadata) = std::fs::metadata(path)
            && let Some((database, connections)) = open.get_mut(&identity_of(&metadata))
        {
            if !Weak::ptr_eq(&database.memory, &Arc::downgrade(memory)) {
                return Err(Failure::new(ffi::SQLITE_BUSY, "a VFS with another memory has the database open"));
            }
            *connections += 1;
            return Ok(database.clone());
        }
        let database = Arc::new(Database::open(memory, path, wanted)?);
        open.insert(database.identity, (database.clone(), 1));
        Ok(database)
    }

    /// Ends the use of a file by a connection, whose own handle is closed already. With the last connection the file is
    /// closed, and the locks against other processes end.
    ///
    /// # Errors
    /// When the file is closed and pages of it could not be written.
    pub(crate) fn leave(&self, database: Arc<Database>) -> Outcome {
        let mut open = hold(&self.0);
        let identity = database.identity;
        drop(database);
        let Some((_, connections)) = open.get_mut(&identity) else { return Ok(()) };
        *connections -= 1;
        if *connections > 0 {
            return Ok(());
        }
        // The table is held until the file is closed, so that a connection that opens it meets no lock of this one.
        let last = open.remove(&identity).and_then(|(database, _)| Arc::into_inner(database));
        last.map_or(Ok(()), |database| database.file.close())
            .map_err(|error| Failure::of_library(error, ffi::SQLITE_IOERR_CLOSE))
    }
}
