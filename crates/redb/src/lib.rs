//! A storage backend for [redb](https://docs.rs/redb) whose pages [`highwater`] caches.
//!
//! redb has a cache of its own for pages in the form that it works with. On this backend that cache can be small:
//! pages that are not in it are mostly in the [`Memory`], which the database shares with everything else that uses the
//! same `Memory`. Reads and writes of the disk bypass the page cache of the system.
//!
//! ```
//! use highwater::Memory;
//! use highwater_redb::Backend;
//! use redb::{Database, ReadableDatabase, TableDefinition};
//!
//! const TABLE: TableDefinition<u64, &str> = TableDefinition::new("words");
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let memory = Memory::builder().size(16 << 20).start()?;
//! let backend = Backend::open(&memory, folder.path().join("words.redb"))?;
//! let database = Database::builder().set_cache_size(1 << 20).create_with_backend(backend)?;
//! let write = database.begin_write()?;
//! write.open_table(TABLE)?.insert(7, "seven")?;
//! write.commit()?;
//! assert_eq!(database.begin_read()?.open_table(TABLE)?.get(7)?.map(|word| word.value().len()), Some(5));
//! # Ok(())
//! # }
//! ```
//!
//! A file belongs to one process at a time, which [`highwater`] ensures by a lock (`flock`). Within the process, one
//! database at a time can have the file open for writing, or any number of databases for reading only; redb returns
//! `DatabaseAlreadyOpen` otherwise. redb's modes in which several processes share a database do not work on this
//! backend.

#![deny(unsafe_code)]

mod claim;

use claim::{Claim, Mode};
use highwater::{File, Memory, OpenOptions};
use redb::{BackendError, StorageBackend};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A file of a [`Memory`], as storage of a redb database.
#[derive(Debug)]
pub struct Backend {
    file: File,
    /// The claim of the database that has the backend open, from redb's lock of the storage to its release.
    claim: Mutex<Option<Claim>>,
}

impl Backend {
    /// Opens the file of a database, and creates it if there is none.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(memory: &Memory, path: impl AsRef<Path>) -> Result<Self, highwater::Error> {
        OpenOptions::new().write(true).create(true).open(memory, path).map(Self::from)
    }

    /// Claims the whole file for a database. Returns whether the claim succeeded: it fails if another database of this
    /// process has a claim that excludes it.
    fn try_claim(&self, range: (Bound<u64>, Bound<u64>), mode: Mode) -> Result<bool, BackendError> {
        if !is_whole(range) {
            return Err(BackendError::Unsupported);
        }
        let metadata = self.file.metadata().map_err(|error| BackendError::Io(error.into()))?;
        let mut held = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return Ok(false);
        }
        *held = Claim::new(&metadata, mode);
        Ok(held.is_some())
    }

    /// Releases the claim of the database, if it has one.
    fn release(&self) {
        drop(self.claim.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Returns whether a range of bytes covers all of a storage, whatever its length.
const fn is_whole(range: (Bound<u64>, Bound<u64>)) -> bool {
    matches!(range, (Bound::Unbounded | Bound::Included(0), Bound::Unbounded))
}

/// Makes a backend of a file, which was opened for reading and writing. No other handle of the file may write it.
impl From<File> for Backend {
    fn from(file: File) -> Self {
        // redb reads pages of a tree in the order of keys, not in the order of the file.
        file.advise(0..0, highwater::Advice::Random);
        Self { file, claim: Mutex::new(None) }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset).map_err(io::Error::from)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(io::Error::from)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data().map_err(io::Error::from)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset).map_err(io::Error::from)
    }

    fn close(&self) -> io::Result<()> {
        self.release();
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.try_claim((start, end), Mode::Exclusive)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.try_claim((start, end), Mode::Shared)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if !is_whole((start, end)) {
            return Err(BackendError::Unsupported);
        }
        self.release();
        Ok(())
    }
}
