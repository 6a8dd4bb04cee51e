//! A connection's database file: what SQLite asks of it, in safe code.
//!
//! SQLite calls the methods of one connection from one thread at a time.

use crate::database::{Database, hold, identity_of};
use crate::failure::{Failure, Outcome};
use crate::lock::Level;
use crate::shm::{Held, Kind, LOCKS};
use highwater::{ErrorKind, File, OwnedPageRead};
use libsqlite3_sys as ffi;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Size of a page of the library, bytes.
const PAGE: u64 = 4096;

/// A page that SQLite reads in place.
struct Fetched {
    page: u64,
    guard: OwnedPageRead,
}

/// The settings of a connection's file that SQLite changes by file controls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The file grows in steps of so many bytes; 0 for no steps (`SQLITE_FCNTL_CHUNK_SIZE`).
    pub(crate) chunk: u64,
    /// Number of bytes at the beginning of the file that are read in place (`PRAGMA mmap_size`).
    pub(crate) mmap: i64,
    /// The log stays when the last connection is closed (`SQLITE_FCNTL_PERSIST_WAL`).
    pub(crate) keeps_wal: bool,
    /// A write changes no byte outside of its range, even if power fails meanwhile
    /// (`SQLITE_FCNTL_POWERSAFE_OVERWRITE`).
    pub(crate) is_powersafe: bool,
}

/// The database file of one connection.
pub(crate) struct Connection {
    fetched: Vec<Fetched>,
    file: Arc<File>,
    pub(crate) database: Arc<Database>,
    level: Level,
    shm: Option<Held>,
    is_writable: bool,
    pub(crate) settings: Settings,
    pub(crate) last_errno: i32,
}

impl Connection {
    /// Makes a connection to an open database, which writes it only if `is_writable`.
    pub(crate) fn new(database: Arc<Database>, is_writable: bool, is_powersafe: bool) -> Self {
        Self {
            fetched: Vec::new(),
            file: Arc::new(database.handle()),
            is_writable: is_writable && database.is_writable,
            database,
            level: Level::None,
            shm: None,
            settings: Settings { chunk: 0, mmap: 0, keeps_wal: false, is_powersafe },
            last_errno: 0,
        }
    }

    /// Returns whether the connection can write.
    pub(crate) const fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Releases all locks and pages, closes the connection's handle, and returns the database that it used.
    pub(crate) fn close(mut self) -> Arc<Database> {
        self.fetched.clear();
        self.unlock(Level::None);
        self.shm_unmap();
        self.database
    }

    /// Reads from byte `offset` on. Bytes after the end of the file become zeroes.
    ///
    /// # Errors
    /// `SQLITE_IOERR_SHORT_READ` when the file ends before the range does.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> Outcome {
        let found = self.file.read_at(bytes, offset);
        let found = found.map_err(|error| Failure::of_library(error, ffi::SQLITE_IOERR_READ))?;
        if found < bytes.len() {
            bytes[found..].fill(0);
            return Err(Failure::of_code(ffi::SQLITE_IOERR_SHORT_READ));
        }
        Ok(())
    }

    /// Writes from byte `offset` on.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Outcome {
        self.check_writable()?;
        let end = offset.saturating_add(bytes.len() as u64);
        self.check_not_fetched(offset / PAGE..end.div_ceil(PAGE), ffi::SQLITE_IOERR_WRITE)?;
        self.file.write_all_at(bytes, offset).map_err(|error| Failure::of_library(error, ffi::SQLITE_IOERR_WRITE))
    }

    /// Sets the length of the file to `bytes`, rounded up to whole steps of growth.
    pub(crate) fn truncate(&self, bytes: u64) -> Outcome {
        self.check_writable()?;
        let bytes = self.in_chunks(bytes);
        self.check_not_fetched(bytes / PAGE..u64::MAX, ffi::SQLITE_IOERR_TRUNCATE)?;
        self.file.set_len(bytes).map_err(|error| Failure::of_library(error, ffi::SQLITE_IOERR_TRUNCATE))
    }

    fn in_chunks(&self, bytes: u64) -> u64 {
        match self.settings.chunk {
            0 => bytes,
            chunk => bytes.div_ceil(chunk).saturating_mul(chunk),
        }
    }

    /// Makes the file long enough for `bytes` bytes if it grows in steps.
    pub(crate) fn hint_size(&self, bytes: u64) -> Outcome {
        let (length, wanted) = (self.file.len(), self.in_chunks(bytes));
        if self.settings.chunk == 0 || wanted <= length {
            return Ok(());
        }
        self.check_writable()?;
        match self.file.allocate(length..wanted) {
            // The hint is of no use on this file system, and does no harm.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            done => done.map_err(|error| Failure::of_library(error, ffi::SQLITE_IOERR_WRITE)),
        }
    }

    fn check_writable(&self) -> Outcome {
        if self.is_writable { Ok(()) } else { Err(Failure::of_code(ffi::SQLITE_READONLY)) }
    }

    /// Checks that none of `pages` is one that this connection reads in place: to change it, the thread would wait for
    /// itself. SQLite gives a page back before it changes it, so this fails only if SQLite breaks its own rules.
    fn check_not_fetched(&self, pages: Range<u64>, code: c_int) -> Outcome {
        match self.fetched.iter().find(|fetched| pages.contains(&fetched.page)) {
            None => Ok(()),
            Some(Fetched { page, .. }) => {
                let path = self.database.path.display();
                Err(Failure::new(code, format!("page {page} of {path} is to be changed while it is read in place")))
            }
        }
    }

    /// Makes all data durable that were written to the file, by any connection.
    pub(crate) fn sync(&self) -> Outcome {
        self.file.sync_data().map_err(|error| Failure::of_library(error, ffi::SQLITE_IOERR_FSYNC))
    }

    /// Returns the length of the file, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Raises the connection's lock. `SQLITE_BUSY` if another connection excludes it.
    pub(crate) fn lock(&mut self, wanted: Level) -> Outcome {
        let is_raised = hold(&self.database.locks).raise(&mut self.level, wanted);
        if is_raised { Ok(()) } else { Err(Failure::of_code(ffi::SQLITE_BUSY)) }
    }

    /// Lowers the connection's lock.
    pub(crate) fn unlock(&mut self, to: Level) {
        hold(&self.database.locks).lower(&mut self.level, to);
    }

    /// Returns the connection's lock.
    pub(crate) const fn level(&self) -> Level {
        self.level
    }

    /// Returns whether any connection is going to write, or writes.
    pub(crate) fn is_reserved(&self) -> bool {
        hold(&self.database.locks).is_reserved()
    }

    /// Returns whether the name of the file now stands for another file, or for none.
    pub(crate) fn has_moved(&self) -> bool {
        let found = std::fs::metadata(&self.database.path);
        !found.is_ok_and(|metadata| identity_of(&metadata) == self.database.identity)
    }

    /// Returns a region of the shared memory, as [`Shm::region`](crate::shm::Shm::region).
    pub(crate) fn shm_map(&mut self, number: i32, bytes: i32, extend: bool) -> Outcome<Option<Arc<[AtomicU64]>>> {
        if !self.database.is_writable {
            // A process that may write could change the database beside us: its locks are in a file that is not used here.
            let text = "a database that cannot be written is not read in WAL mode";
            return Err(Failure::new(ffi::SQLITE_CANTOPEN, text));
        }
        let mut shm = hold(&self.database.shm);
        if self.shm.is_none() {
            self.shm = Some(shm.join());
        }
        shm.region(number, bytes, extend).map_err(|text| Failure::new(ffi::SQLITE_IOERR_SHMMAP, text))
    }

    /// Takes or releases locks of the shared memory; `SQLITE_BUSY` if another connection excludes them.
    pub(crate) fn shm_lock(&mut self, first: c_int, count: c_int, flags: c_int) -> Outcome {
        let wrong = || Failure::new(ffi::SQLITE_IOERR_SHMLOCK, "no such lock of shared memory is possible");
        let range = usize::try_from(first).ok().zip(usize::try_from(count).ok());
        let range = range.and_then(|(first, count)| Some(first..first.checked_add(count)?));
        let range = range.filter(|range| !range.is_empty() && range.end <= LOCKS).ok_or_else(wrong)?;
        let kind = if flags & ffi::SQLITE_SHM_EXCLUSIVE != 0 { Kind::Exclusive } else { Kind::Shared };
        let held = self.shm.as_mut().ok_or_else(wrong)?;
        let mut shm = hold(&self.database.shm);
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            shm.unlock(held, range, kind);
            return Ok(());
        }
        if shm.lock(held, range, kind) { Ok(()) } else { Err(Failure::of_code(ffi::SQLITE_BUSY)) }
    }

    /// Orders accesses of the shared memory before the call and after it, for all threads.
    pub(crate) fn shm_barrier(&self) {
        fence(Ordering::SeqCst);
        // As in SQLite's own VFS, the mutex orders them even where a fence alone would not order plain accesses of C.
        drop(hold(&self.database.shm));
    }

    /// Ends the use of the shared memory.
    pub(crate) fn shm_unmap(&mut self) {
        if let Some(held) = self.shm.take() {
            hold(&self.database.shm).leave(held);
        }
    }

    /// Returns the bytes of a page in place, or `None` if SQLite has to read the range instead. The bytes stay valid and
    /// unchanged until [`Connection::unfetch`], because a guard holds the page.
    ///
    /// A range must be a whole page of the library. With smaller pages of a database, one guard would also hold neighbours
    /// of the page, and SQLite may write those meanwhile.
    pub(crate) fn fetch(&mut self, offset: u64, amount: u64) -> Option<*const u8> {
        let end = offset.checked_add(amount)?;
        if amount != PAGE
            || !offset.is_multiple_of(PAGE)
            || end > self.settings.mmap.max(0) as u64
            || end > self.file.len()
        {
            return None;
        }
        let page = offset / PAGE;
        // If this fails, the read that follows fails, too, and reports the reason.
        let guard = self.file.page_owned(page).ok()?;
        let bytes = guard.as_ptr();
        self.fetched.push(Fetched { page, guard });
        Some(bytes)
    }

    /// Gives a page back that [`Connection::fetch`] returned. Other pointers are ignored.
    pub(crate) fn unfetch(&mut self, bytes: *const u8) {
        // The page that was taken last is mostly the first to go.
        if let Some(at) = self.fetched.iter().rposition(|fetched| fetched.guard.as_ptr() == bytes) {
            self.fetched.swap_remove(at);
        }
    }
}
