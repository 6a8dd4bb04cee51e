//! A file that is open here, once for all its handles.

use super::PAGES_MAX;
use super::table::Key;
use crate::error::Error;
use crate::machine::{Device, Host, InUse, Use};
use crate::memory::{FILES, Shared};
use engine::mapping::File as Cached;
use machine::PAGE_BYTES;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A file of the system that is open here, once for all its handles.
pub(crate) struct OpenFile {
    pub path: Arc<Path>,
    pub cached: Arc<Cached<Host>>,
    pub(super) device: Arc<Device>,
    pub(super) key: Key,
    pub(super) is_writable: bool,
    /// Failed writes that some handle was told of.
    pub(super) told: AtomicU32,
    /// Has it a length that can be set? A block device has not.
    pub(super) is_regular: bool,
    /// Was anything of it changed here? If not, its length is not ours to set.
    pub(super) has_changed: AtomicBool,
    /// Held for writing by whoever changes the length in the system, and shared by writes that make the file longer: what
    /// they write must not be cut off before the file is as long here.
    pub(super) length: RwLock<()>,
    /// Held while the system makes the file durable.
    pub(super) syncs: Mutex<()>,
    /// Nobody may take it for a swap file meanwhile, or write it from another memory.
    _in_use: InUse,
}

impl OpenFile {
    /// Opens for a memory what the system has opened.
    ///
    /// # Errors
    /// When it is in use as something that does not go with this, too long, or the system has no threads for it.
    pub(super) fn new(shared: &Shared, path: &Path, file: std::fs::File, is_writable: bool) -> io::Result<Self> {
        // Here, and not before: until now another may have been closing the file, who gave it its last contents.
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
        let host = &shared.engine.machine;
        let id = shared.wrap.add_device(host, file, path.display().to_string())?;
        let device = host.device(id).expect("added just now");
        device.expect_len(bytes);
        Ok(Self {
            path: path.into(),
            cached: shared.engine.add_placed_file(id, FILES, bytes),
            device,
            key: (metadata.dev(), metadata.ino()),
            is_writable,
            told: AtomicU32::new(0),
            is_regular: metadata.is_file(),
            has_changed: AtomicBool::new(false),
            length: RwLock::new(()),
            syncs: Mutex::new(()),
            _in_use: in_use,
        })
    }

    /// Writes all dirty pages and gives the file its length in the system; not yet durable. Returns what failed.
    pub fn write_back(&self, shared: &Shared) -> Vec<Error> {
        if !self.is_writable {
            return Vec::new();
        }
        let written = shared.with_task(|engine, task| engine.fsync_since(task, &self.cached, &self.told));
        let settled = self.settle_len(&self.length.write());
        let written = written.map_err(|error| Error::of_file(&self.path, error));
        [written, settled].into_iter().filter_map(Result::err).collect()
    }

    /// The system's length of the file is whole pages after a write: cuts it to what it is here.
    pub(super) fn settle_len(&self, _held: &RwLockWriteGuard<'_, ()>) -> Result<(), Error> {
        if !self.is_regular || !self.has_changed.load(Ordering::Acquire) {
            return Ok(());
        }
        let bytes = self.cached.length();
        let failed = |source| self.cannot_set_length(source);
        let stored = self.device.file().metadata().map_err(failed)?.len();
        // Where there is less, pages after that are still to be written, or somebody else has cut the file: then who reads
        // what is gone is told.
        if stored >= bytes {
            // Before there is less: nobody may take that for the work of others.
            self.device.expect_len(bytes);
        }
        if stored > bytes {
            self.device.file().set_len(bytes).map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn cannot_set_length(&self, source: io::Error) -> Error {
        Error::File { path: self.path.to_path_buf(), doing: "set the length of the file", source }
    }

    /// Gives a share of an open file back; with the last one it is closed.
    pub fn release(self: Arc<Self>, shared: &Shared) {
        shared.files.release(self, |last| last.close(shared));
    }

    /// The last handle goes: nothing of the file stays in memory.
    fn close(self, shared: &Shared) {
        let mut failed = self.write_back(shared);
        shared.late_errors.lock().append(&mut failed);
        shared.engine.unlink(&self.cached);
        shared.engine.machine.remove_device(self.device.id());
    }
}

/// Length of a regular file or a block device, bytes.
fn length(file: &std::fs::File, metadata: &std::fs::Metadata) -> io::Result<u64> {
    use io::Seek;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let mut file = file;
    file.seek(io::SeekFrom::End(0))
}
