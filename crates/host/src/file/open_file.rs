//! A file that is open here, once for all its handles.

use super::sync::Rounds;
use crate::error::{Error, PAGES_MAX};
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

/// A file of the system that is open here, once for all its handles.
pub(crate) struct OpenFile {
    pub path: Arc<Path>,
    pub cached: Arc<Cached<Host>>,
    pub(super) device: Arc<Device>,
    pub(super) key: Identity,
    pub(super) is_writable: bool,
    /// Number of failed writes that some handle has reported.
    pub(super) told: AtomicU32,
    /// True where its length can be set. That of a block device cannot.
    pub(super) is_regular: bool,
    /// Held for writing while the length in the system is set, and shared by writes that make the file longer.
    /// Otherwise their data could be cut off before the file is as long here.
    pub(super) length: RwLock<()>,
    /// Whether the system has refused to cut the file to its length here: the bytes behind must go before the file
    /// becomes longer again. Set with `length` held for writing.
    is_uncut: AtomicBool,
    /// Held while a failed cut is tried again.
    cutting: Mutex<()>,
    /// Syncs of the file.
    pub(super) rounds: Rounds,
    /// True where it is locked against other processes. Held while it is being locked.
    is_locked: Mutex<bool>,
    /// Keeps others from taking the file for a swap file, or writing it from another memory.
    _in_use: InUse,
}

impl OpenFile {
    /// Creates the open file of a memory from a file of the system.
    ///
    /// # Errors
    /// When it is in use as something that does not go with this, too long, or the system has no threads for it.
    pub(super) fn new(
        shared: &Shared,
        path: &Path,
        file: std::fs::File,
        is_writable: bool,
        is_locked: bool,
    ) -> io::Result<Self> {
        // Here, and not before: until now another thread may have been closing the file, and writing its last contents.
        let metadata = file.metadata()?;
        let bytes = length(&file, &metadata)?;
        if bytes > PAGES_MAX * PAGE_BYTES as u64 {
            return Err(io::Error::other("it is larger than 16 TiB less 4 MiB"));
        }
        let in_use = InUse::as_data(&metadata, is_writable).map_err(|used| {
            io::Error::other(match used {
                Use::Swap => "it is a swap file of this process",
                Use::Data(_) => "another memory of this process has it, and one of both would write it",
            })
        })?;
        if is_locked {
            lock(&file, is_writable)?;
        }
        let host = shared.engine.machine();
        let id = shared.wrap.add_device(host, file, path.display().to_string())?;
        let device = host.device(id).expect("added just now");
        device.expect_len(bytes);
        let cached = shared.engine.page_cache().add_placed_file(id, shared.backing_of(&metadata), bytes);
        if metadata.is_file() {
            let followed = cached.clone();
            device.follow_length(move || followed.length());
        }
        Ok(Self {
            path: path.into(),
            cached,
            device,
            key: Identity::of(&metadata),
            is_writable,
            told: AtomicU32::new(0),
            is_regular: metadata.is_file(),
            length: RwLock::new(()),
            is_uncut: AtomicBool::new(false),
            cutting: Mutex::new(()),
            rounds: Rounds::default(),
            is_locked: Mutex::new(is_locked),
            _in_use: in_use,
        })
    }

    /// Locks the file against other processes, if that was not done yet: a handle without a lock may have opened it.
    ///
    /// # Errors
    /// When another process has locked it.
    pub(super) fn lock(&self) -> io::Result<()> {
        let mut is_locked = self.is_locked.lock();
        if !*is_locked {
            lock(self.device.file(), self.is_writable)?;
            *is_locked = true;
        }
        Ok(())
    }

    /// Writes all dirty pages, without making them durable. Returns a failure.
    pub fn write_back(&self, shared: &Shared) -> Option<Error> {
        if !self.is_writable {
            return None;
        }
        let failed_before = self.cached.failed_writes();
        self.write_dirty_pages(shared);
        let failure = self.cached.write_error_since(&self.told, failed_before)?;
        let offset = u64::from(failure.page) * PAGE_BYTES as u64;
        Some(Error::Write { path: self.path.clone(), offset, source: failure.source })
    }

    /// Cuts the file in the system where it ends here. The caller holds `length` for writing.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn cut_in_system(&self) -> io::Result<()> {
        let cut = self.device.set_len(self.cached.length());
        self.is_uncut.store(cut.is_err(), Ordering::Release);
        cut
    }

    /// Cuts the file in the system, which once refused it, before the file becomes longer here. The caller holds
    /// `length`. This is as good as exclusive access, because no write makes the file longer before this has succeeded.
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

    /// Releases a share of an open file; the last one closes the file.
    pub fn release(self: Arc<Self>, shared: &Shared) {
        shared.files.release(self, |last| last.close(shared));
    }

    /// Closes the file with its last handle, and drops all its pages.
    fn close(self, shared: &Shared) {
        let failed = self.write_back(shared);
        shared.late_errors.lock().extend(failed);
        shared.engine.access().unlink(&self.cached);
        shared.engine.machine().remove_device(self.device.id());
        self.device.unlock();
    }
}

/// Time for which a locked file is tried again. A killed process keeps its locks until the system has ended its last
/// request.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Locks a file against other processes, until it is closed. Where its file system has no locks, there is none.
fn lock(file: &std::fs::File, is_writable: bool) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let refused = match if is_writable { try_lock_file(file) } else { try_share_file(file) } {
            Ok(true) | Err(_) => return Ok(()),
            Ok(false) if is_writable => "another process has locked it",
            Ok(false) => "another process has locked it for writing",
        };
        if began.elapsed() >= LOCK_WAIT {
            return Err(io::Error::other(refused));
        }
        thread::sleep(Duration::from_millis(5));
    }
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
