//! [`OpenFile`]: a file that a memory has open. All handles of the file share a single `OpenFile`.

use super::rounds::Rounds;
use crate::error::{Error, PAGES_MAX};
use crate::group::table::Node;
use crate::machine::{Device, Host, Identity, InUse, Use, try_lock_file, try_share_file};
use crate::shared::Shared;
use engine::page_cache::File as Cached;
use machine::PAGE_BYTES;
use parking_lot::{Mutex, RwLock};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A file that is open in a [`Memory`](crate::Memory). All handles of the file share this value.
pub(crate) struct OpenFile {
    pub path: Arc<Path>,
    pub cached: Arc<Cached<Host>>,
    /// The memory control group to which the file's pages are charged; `None` for the root group.
    pub(super) group: Option<Arc<Node>>,
    pub(super) device: Arc<Device>,
    pub(super) key: Identity,
    pub(super) is_writable: bool,
    /// Number of failed writes of the file that were reported to a caller, through any handle.
    pub(super) told: AtomicU32,
    /// True for a regular file, whose length can be set; the length of a block device cannot.
    pub(super) is_regular: bool,
    /// The lock of the file's length. A task that sets the length in the system holds it exclusively; a write that
    /// makes the file longer holds it shared. Without the lock, the data of the write could be cut off by a concurrent
    /// `set_len`.
    pub(super) length: RwLock<()>,
    /// The lock that a thread holds while it appends to the file.
    pub(super) appending: Mutex<()>,
    /// True if the file in the system is still longer than the file is for this `Memory`, because the system has
    /// refused a truncation. The bytes beyond the new length must be removed before the file becomes longer again.
    /// Changed only while `length` is held.
    is_uncut: AtomicBool,
    /// The lock that a thread holds while it repeats a truncation that the system refused before.
    cutting: Mutex<()>,
    /// The commit rounds of the file. In a round, one thread syncs the file for all threads that want this at the time.
    pub(super) rounds: Rounds,
    /// True if the library has locked the file against other processes. The mutex is held while the file is being
    /// locked.
    is_locked: Mutex<bool>,
    /// The claim on the file. While it is held, this process cannot use the file as swap. Another `Memory` of this
    /// process can open the file only if neither memory writes it.
    _in_use: InUse,
}

impl OpenFile {
    /// Makes an [`OpenFile`] of `file`, which is already open in the system. The memory of `shared` will cache its
    /// pages.
    ///
    /// # Errors
    /// When this process already uses the file in a conflicting way, the file is too long, or the system grants no
    /// threads for it.
    pub(super) fn new(
        shared: &Shared,
        path: &Path,
        group: Option<Arc<Node>>,
        file: std::fs::File,
        is_writable: bool,
        is_locked: bool,
    ) -> io::Result<Self> {
        // The metadata are read here and not earlier: until now, another thread may have been closing the same file,
        // and writing its last pages.
        let metadata = file.metadata()?;
        possible_length(&file, &metadata)?;
        let in_use = InUse::as_data(&metadata, is_writable).map_err(|used| {
            let reason = match used {
                Use::Swap => "it is a swap file of this process",
                Use::Data(_) => "another memory of this process has it, and one of both would write it",
            };
            io::Error::new(io::ErrorKind::ResourceBusy, reason)
        })?;
        let host = shared.engine.machine();
        let id = shared.wrap.add_device(host, file, path.display().to_string())?;
        let device = host.device(id).expect("added just now");
        // The file is locked last, so that errors before leave no lock on a descriptor that the caller has duplicated. The
        // length is read after that: the process that had the lock may have written its last pages meanwhile.
        let lock_and_measure = || -> io::Result<(bool, u64)> {
            let is_locked = is_locked && lock(device.file(), is_writable)?;
            Ok((is_locked, possible_length(device.file(), &device.file().metadata()?)?))
        };
        let (is_locked, bytes) = lock_and_measure().inspect_err(|_| drop(host.remove_device(id)))?;
        device.expect_len(bytes);
        let cached = shared.engine.page_cache().add_placed_file(id, shared.backing_of(&metadata), bytes);
        if metadata.is_file() {
            let followed = cached.clone();
            device.follow_length(move || followed.length());
        }
        Ok(Self {
            path: path.into(),
            cached,
            group,
            device,
            key: Identity::of(&metadata),
            is_writable,
            told: AtomicU32::new(0),
            is_regular: metadata.is_file(),
            length: RwLock::new(()),
            appending: Mutex::new(()),
            is_uncut: AtomicBool::new(false),
            cutting: Mutex::new(()),
            rounds: Rounds::default(),
            is_locked: Mutex::new(is_locked),
            _in_use: in_use,
        })
    }

    /// Returns whether `group` is the group that the file got when it was opened.
    pub(super) fn is_in(&self, group: &Arc<Node>) -> bool {
        self.group.as_ref().is_some_and(|own| Arc::ptr_eq(own, group))
    }

    /// Locks the file against other processes, unless an earlier handle has locked it already. Handles that were opened
    /// with `OpenOptions::lock(false)` do not lock it.
    ///
    /// # Errors
    /// When another process has locked the file; also other errors of the system.
    pub(super) fn lock(&self) -> io::Result<()> {
        let mut is_locked = self.is_locked.lock();
        if !*is_locked {
            *is_locked = lock(self.device.file(), self.is_writable)?;
        }
        Ok(())
    }

    /// Writes all dirty pages of the file to the system, without making them durable. Returns an error if a page could
    /// not be written and this was not reported to a caller yet.
    pub fn write_back(&self, shared: &Shared) -> Option<Error> {
        if !self.is_writable {
            return None;
        }
        let start = self.cached.begin_sync();
        self.write_dirty_pages(shared);
        let failure = self.cached.write_error_since(&self.told, start)?;
        let offset = u64::from(failure.page) * PAGE_BYTES as u64;
        Some(Error::Write { path: self.path.clone(), offset, source: failure.source })
    }

    /// Truncates the file on the disk to the length that the file already has in the library. The caller holds the lock
    /// `length`. If the call fails, [`Self::finish_cut`] repeats it later.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn cut_in_system(&self) -> io::Result<()> {
        let cut = self.device.set_len(self.cached.length());
        self.is_uncut.store(cut.is_err(), Ordering::Release);
        cut
    }

    /// Repeats a truncation that the system refused before; does nothing if there is no such truncation. Called before
    /// the file becomes longer, with the lock `length` held. A shared hold is enough: other writes that would make the
    /// file longer wait in this function until the truncation has ended.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn finish_cut(&self) -> io::Result<()> {
        if !self.is_uncut.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = self.cutting.lock();
        if self.is_uncut.load(Ordering::Acquire) { self.cut_in_system() } else { Ok(()) }
    }

    pub(super) fn cannot_set_length(&self, source: io::Error) -> Error {
        Error::File { path: self.path.to_path_buf(), doing: "set the length of the file", source }
    }

    /// Drops an `Arc` of an open file that a handle held. Dropping the last `Arc` closes the file. Returns an error if the
    /// file was closed, and a page could not be written and this was not reported to a caller yet.
    pub(super) fn release(self: Arc<Self>, shared: &Shared) -> Option<Error> {
        shared.files.release(self, |last| last.close(shared)).flatten()
    }

    /// Drops an `Arc` of an open file as [`OpenFile::release`] does. An error is kept for the shutdown of the memory.
    pub fn release_late(self: Arc<Self>, shared: &Shared) {
        let failed = self.release(shared);
        shared.late_errors.lock().extend(failed);
    }

    /// Writes the file's dirty pages, drops all its pages from memory, and closes the file; called when the last handle
    /// is dropped. Returns an error as [`OpenFile::write_back`] does.
    fn close(self, shared: &Shared) -> Option<Error> {
        let failed = self.write_back(shared);
        shared.engine.access().unlink(&self.cached);
        shared.engine.machine().remove_device(self.device.id());
        // The lock belongs to the open file description, which an adopted file shares with descriptors of the caller. A
        // lock that the caller took there stays.
        if self.is_locked.into_inner() {
            self.device.unlock();
        }
        failed
    }
}

/// Longest time for which this process tries to lock a file that another process has locked. The other process may just
/// have been killed. The system releases the locks of a killed process only after the process's last disk request has
/// ended.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Locks a file against other processes until it is closed. If the file system has no locks, does nothing. Returns
/// whether the file is locked.
///
/// # Errors
/// When another process has locked the file; also other errors of the system.
fn lock(file: &std::fs::File, is_writable: bool) -> io::Result<bool> {
    lock_by(|| if is_writable { try_lock_file(file) } else { try_share_file(file) }, is_writable)
}

/// Locks a file as [`lock`] does, by calls of `try_lock`, which returns `false` if another process has locked the file.
fn lock_by(mut try_lock: impl FnMut() -> io::Result<bool>, is_writable: bool) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        match try_lock() {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if began.elapsed() >= LOCK_WAIT {
            let refused =
                if is_writable { "another process has locked it" } else { "another process has locked it for writing" };
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, refused));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the length of a file or block device, bytes.
///
/// # Errors
/// When it is longer than a file of the library can be; also errors of the system.
fn possible_length(file: &std::fs::File, metadata: &std::fs::Metadata) -> io::Result<u64> {
    let bytes = length(file, metadata)?;
    if bytes > PAGES_MAX * PAGE_BYTES as u64 {
        return Err(io::Error::other("it is larger than 16 TiB less 4 MiB"));
    }
    Ok(bytes)
}

/// Returns the length of a regular file or a block device, bytes.
fn length(file: &std::fs::File, metadata: &std::fs::Metadata) -> io::Result<u64> {
    use io::Seek;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let mut file = file;
    file.seek(io::SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_the_system_refuses_is_an_error_except_where_there_are_none() {
        let with = |number| lock_by(|| Err(io::Error::from_raw_os_error(number)), true);
        assert_eq!(with(libc::ENOLCK).unwrap_err().raw_os_error(), Some(libc::ENOLCK));
        assert_eq!(with(libc::EIO).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert!(!with(libc::EOPNOTSUPP).unwrap() && !with(libc::ENOSYS).unwrap());
        let mut answers = [Err(libc::EINTR), Ok(false), Ok(true)].into_iter();
        let next = || answers.next().expect("it is locked").map_err(io::Error::from_raw_os_error);
        assert!(lock_by(next, true).unwrap());
    }
}
