//! A VFS for [SQLite](https://sqlite.org): [`highwater`] caches the pages of the database.
//!
//! SQLite has a page cache for each connection. On this VFS that cache can be small: pages that are not in it are mostly
//! in the [`Memory`](highwater::Memory), which all connections share with everything else that uses the same `Memory`.
//! With `PRAGMA mmap_size`, SQLite reads pages there in place, without a copy. Reads and writes of the database file
//! bypass the page cache of the system.
//!
//! ```
//! use highwater::Memory;
//! use rusqlite::{Connection, OpenFlags};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let memory = Arc::new(Memory::builder().size(16 << 20).start()?);
//! let vfs = highwater_sqlite::register(&memory, "highwater")?;
//! let words = Connection::open_with_flags_and_vfs(folder.path().join("words.db"), OpenFlags::default(), "highwater")?;
//! words.execute_batch("PRAGMA mmap_size = 1099511627776; PRAGMA journal_mode = WAL;")?;
//! words.execute_batch("CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('seven');")?;
//! assert_eq!(words.query_row("SELECT word FROM words", [], |row| row.get::<_, String>(0))?, "seven");
//! # drop(words);
//! # drop(vfs);
//! # Ok(())
//! # }
//! ```
//!
//! The file is an ordinary database, which SQLite's own VFS can open later. One process at a time can use it on this VFS;
//! SQLite's own VFS, in this or another process, gets `SQLITE_BUSY` meanwhile. Within the process there may be any number
//! of connections, in any journal mode, also in WAL mode.
//!
//! The crate is also a loadable extension of SQLite: see the function [`sqlite3_highwatersqlite_init`].

#![deny(unsafe_code)]

mod api;
mod connection;
mod database;
mod extension;
mod failure;
mod lock;
mod methods;
mod process_lock;
mod register;
mod shm;
mod source;
mod vfs;

pub use extension::{sqlite3_highwater_init, sqlite3_highwatersqlite_init};
pub use register::{Error, Vfs, register};
