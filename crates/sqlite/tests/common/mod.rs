//! A memory, a VFS of its own and a path for a database.

#![allow(dead_code)]

use highwater::Memory;
use highwater_sqlite::Vfs;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub struct Setup {
    memory: Arc<Memory>,
    vfs: Vfs,
    path: PathBuf,
    _folder: Option<TempDir>,
}

impl Setup {
    /// A memory of `bytes`, and a path in a new folder.
    pub fn new(bytes: u64) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { _folder: Some(folder), ..Self::at(Path::new("."), bytes) }.in_folder()
    }

    fn in_folder(mut self) -> Self {
        self.path = self._folder.as_ref().unwrap().path().join("data.db");
        self
    }

    /// A memory of `bytes` for the database at `path`.
    pub fn at(path: &Path, bytes: u64) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let memory = Arc::new(Memory::builder().size(bytes).start().unwrap());
        let vfs = highwater_sqlite::register(&memory, &name).unwrap();
        Self { memory, vfs, path: path.to_owned(), _folder: None }
    }

    /// Registers one more VFS for the same memory.
    pub fn second_vfs(&self) -> Vfs {
        highwater_sqlite::register(&self.memory, &format!("{}-second", self.vfs.name())).unwrap()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn try_open(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        Connection::open_with_flags_and_vfs(&self.path, flags, self.vfs.name())
    }

    pub fn open(&self) -> Connection {
        let connection = self.try_open(OpenFlags::default()).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    }

    /// Checks the memory and shuts it down. No database may be open.
    pub fn end(self) {
        self.memory.check().unwrap();
        drop(self.vfs);
        Arc::into_inner(self.memory).expect("no database is open").shutdown().unwrap();
    }
}

/// Sets the journal mode, and whether pages are read in place.
pub fn set_mode(connection: &Connection, mode: &str, in_place: bool) {
    let set: String = connection.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0)).unwrap();
    assert!(set.eq_ignore_ascii_case(mode), "{set}");
    let bytes = if in_place { 1u64 << 40 } else { 0 };
    connection.execute_batch(&format!("PRAGMA mmap_size = {bytes}")).unwrap();
}

pub fn check(connection: &Connection) {
    let found: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}

/// A simple pseudo-random number generator.
pub fn next(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}
