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
//! A file belongs to one process at a time, which [`highwater`] ensures by a lock (`flock`). redb's modes in which
//! several processes share a database do not work on this backend.

#![deny(unsafe_code)]

use highwater::{File, Memory, OpenOptions};
use redb::StorageBackend;
use std::io;
use std::path::Path;

/// A file of a [`Memory`], as storage of a redb database.
#[derive(Debug)]
pub struct Backend(File);

impl Backend {
    /// Opens the file of a database, and creates it if there is none.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(memory: &Memory, path: impl AsRef<Path>) -> Result<Self, highwater::Error> {
        OpenOptions::new().write(true).create(true).open(memory, path).map(Self::from)
    }
}

/// Makes a backend of a file, which was opened for reading and writing. No other handle of the file may write it.
impl From<File> for Backend {
    fn from(file: File) -> Self {
        // redb reads pages of a tree in the order of keys, not in the order of the file.
        file.advise(0..0, highwater::Advice::Random);
        Self(file)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset).map_err(io::Error::from)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len).map_err(io::Error::from)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data().map_err(io::Error::from)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset).map_err(io::Error::from)
    }
}
