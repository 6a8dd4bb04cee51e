//! Files: opened here, cached here, read and written past the system's own cache.

use crate::error::Error;
use crate::machine::{Device, HazardPointer, InUse, Use, copy};
use crate::memory::{FILES, Memory, Shared};
use crate::page::{PageRead, PageWrite};
use engine::mapping::File as Cached;
use engine::{Engine, ReadPattern, ReadState, Task};
use machine::{FrameNumber, IoError, PAGE_BYTES};
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::machine::Host;

/// Pages of the largest file or region: 16 TiB, less what keeps numbers of pages, rounded up, within 32 bits.
pub(crate) const PAGES_MAX: u64 = u32::MAX as u64 - 1023;

/// A file of the system that is open here, once for all its handles.
pub(crate) struct OpenFile {
    pub path: Arc<Path>,
    pub cached: Arc<Cached<Host>>,
    device: Arc<Device>,
    key: (u64, u64),
    is_writable: bool,
    /// Failed writes that some handle was told of.
    told: AtomicU32,
    /// Has it a length that can be set? A block device has not.
    is_regular: bool,
    /// Was anything of it changed here? If not, its length is not ours to set.
    has_changed: AtomicBool,
    /// Held for writing by whoever changes the length in the system, and shared by writes that make the file longer: what
    /// they write must not be cut off before the file is as long here.
    length: RwLock<()>,
    /// Held while the system makes the file durable.
    syncs: Mutex<()>,
    /// Nobody may take it for a swap file meanwhile, or write it from another memory.
    _in_use: InUse,
}

impl OpenFile {
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
    fn settle_len(&self, _held: &RwLockWriteGuard<'_, ()>) -> Result<(), Error> {
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

    fn cannot_set_length(&self, source: io::Error) -> Error {
        Error::File { path: self.path.to_path_buf(), doing: "set the length of the file", source }
    }

    /// Gives a share of an open file back; with the last one it is closed.
    pub fn release(self: Arc<Self>, shared: &Shared) {
        // Under the lock of the table: nobody opens the file anew while it goes.
        let mut files = shared.files.lock();
        let key = self.key;
        if let Some(last) = Arc::into_inner(self) {
            files.remove(&key);
            last.close(shared);
        }
    }

    /// The last handle goes: nothing of the file stays in memory.
    fn close(&self, shared: &Shared) {
        let mut failed = self.write_back(shared);
        shared.late_errors.lock().append(&mut failed);
        shared.engine.unlink(&self.cached);
        shared.engine.machine.remove_device(self.device.id());
    }
}

/// How a file is opened, in the manner of [`std::fs::OpenOptions`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("log");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let log = highwater::OpenOptions::new().write(true).create(true).open(&memory, &path)?;
/// assert_eq!(log.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
}

impl OpenOptions {
    /// Returns options for reading a file that exists.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "read")?;
    /// let file = highwater::OpenOptions::new().open(&memory, &path)?;
    /// assert!(file.write_at(b"not written", 0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether the file may be written. Default: no.
    #[must_use]
    pub const fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Says whether the file is created if it does not exist. Default: no.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Says whether the file must not exist yet. Default: no.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let new = highwater::OpenOptions::new().write(true).create_new(true);
    /// assert!(new.open(&memory, &path).is_ok() && new.open(&memory, &path).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Says whether the file is emptied. Default: no.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "before")?;
    /// let file = highwater::OpenOptions::new().write(true).truncate(true).open(&memory, &path)?;
    /// assert_eq!(std::fs::metadata(&path)?.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Opens a file. Reading does not change its time of last access if this user owns it.
    ///
    /// # Errors
    /// When the system does not open it, it is no regular file or block device, a swap file of this process, or larger
    /// than 16 TiB; when this process has it open for reading only and it is to be written, or another memory has it and one of the two writes; and
    /// when a
    /// file that is not empty is to be emptied and not written.
    pub fn open(self, memory: &Memory, path: impl AsRef<Path>) -> Result<File, Error> {
        let shared = &memory.shared;
        shared.check_is_up()?;
        let path = path.as_ref();
        let failed = |source| Error::File { path: path.to_owned(), doing: "open the file", source };
        // Before it is opened: some other things than files wait for somebody else to open them, too.
        if let Ok(metadata) = std::fs::metadata(path) {
            check_kind(&metadata).map_err(failed)?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(self.write).create(self.create).create_new(self.create_new);
        let open = {
            // Held from here: while the last handle of the file goes, its length in the system is not that of its contents.
            let mut files = shared.files.lock();
            let file = options.open(path).map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            check_kind(&metadata).map_err(failed)?;
            let bytes = length(&file, &metadata).map_err(failed)?;
            if bytes > PAGES_MAX * PAGE_BYTES as u64 {
                return Err(failed(io::Error::other("it is larger than 16 TiB less 4 MiB")));
            }
            let key = (metadata.dev(), metadata.ino());
            match files.get(&key).and_then(std::sync::Weak::upgrade) {
                Some(open) if self.write && !open.is_writable => {
                    return Err(failed(io::Error::other("it is open here already, for reading only")));
                }
                Some(open) => open,
                None => {
                    let in_use = InUse::as_data(&metadata, self.write).map_err(|used| {
                        failed(io::Error::other(match used {
                            Use::Swap => "it is a swap file of this process",
                            Use::Data(_) => "another memory of this process has it, and one of both would write it",
                        }))
                    })?;
                    let host = &shared.engine.machine;
                    let id = shared.wrap.add_device(host, file, path.display().to_string()).map_err(failed)?;
                    let device = host.device(id).expect("added just now");
                    device.expect_len(bytes);
                    let cached = shared.engine.add_placed_file(id, FILES, bytes);
                    let (is_writable, is_regular) = (self.write, metadata.is_file());
                    let (path, told, length) = (path.into(), AtomicU32::new(0), RwLock::new(()));
                    let has_changed = AtomicBool::new(false);
                    let open = Arc::new(OpenFile {
                        path,
                        cached,
                        device,
                        key,
                        is_writable,
                        told,
                        is_regular,
                        has_changed,
                        length,
                        syncs: Mutex::new(()),
                        _in_use: in_use,
                    });
                    files.insert(key, Arc::downgrade(&open));
                    open
                }
            }
        };
        let seen_failures = AtomicU32::new(open.cached.failed_writes());
        let (state, is_random) = (Mutex::new(ReadState::default()), AtomicBool::new(false));
        let (cached, is_writable) = (open.cached.clone(), self.write);
        let engine = shared.engine.clone();
        let file = File {
            engine,
            shared: shared.clone(),
            cached,
            open: Some(open),
            is_writable,
            seen_failures,
            state,
            is_random,
        };
        if self.truncate && !file.is_empty() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

/// Where a read of a batch goes, and from which byte of the file on it is.
type Wanted<'a> = (&'a mut [u8], u64);

/// Pages that a batch of reads has in flight at most, but for a single read that is larger.
const BATCH_PAGES: u32 = 64;

/// Pages that bytes of a file lie in.
fn pages_of(offset: u64, bytes: usize) -> Range<u32> {
    let end = offset.saturating_add(bytes as u64).min(PAGES_MAX * PAGE_BYTES as u64);
    (offset / PAGE_BYTES as u64).min(PAGES_MAX) as u32..end.div_ceil(PAGE_BYTES as u64) as u32
}

/// Says of neighbours whether they are in one batch, so that it has at most `most` pages.
fn pages_up_to(most: u32) -> impl FnMut(&Wanted<'_>, &Wanted<'_>) -> bool {
    let count = |(bytes, offset): &Wanted<'_>| pages_of(*offset, bytes.len()).len() as u32;
    let mut pages = None;
    move |first, second| {
        let before = pages.unwrap_or_else(|| count(first));
        let after = before.saturating_add(count(second));
        pages = Some(if after <= most { after } else { count(second) });
        after <= most
    }
}

/// Is it something that has pages?
fn check_kind(metadata: &std::fs::Metadata) -> io::Result<()> {
    if metadata.is_file() || metadata.file_type().is_block_device() {
        return Ok(());
    }
    let what = if metadata.is_dir() { "it is a folder" } else { "it is neither a regular file nor a block device" };
    Err(io::Error::other(what))
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

/// How a part of a file is going to be used (`posix_fadvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing special: what looks sequential is read ahead.
    Normal,
    /// From the beginning to the end: more is read ahead. Holds for the handle.
    Sequential,
    /// Here and there: nothing is read ahead. Holds for the handle.
    Random,
    /// Soon: reading of the range is started.
    WillNeed,
    /// Not any more: clean pages of the range are dropped.
    DontNeed,
}

/// A handle of a file. Reading what is in memory takes no lock and no system call.
///
/// Dropping the last handle of a file writes its dirty pages, does not sync them, and forgets the file: other files are opened
/// and closed after that. What could not be written is gone then, and [`Memory::shutdown`] reports it; [`File::sync_data`]
/// before, if that matters.
pub struct File {
    /// That of `shared`; here, too, for a hit looks at little else.
    engine: Arc<Engine<Host>>,
    pub(crate) shared: Arc<Shared>,
    cached: Arc<Cached<Host>>,
    /// There until the handle is dropped.
    open: Option<Arc<OpenFile>>,
    is_writable: bool,
    seen_failures: AtomicU32,
    state: Mutex<ReadState>,
    /// Is it read here and there? Then nobody asks for its state.
    is_random: AtomicBool,
}

thread_local! {
    /// The page that this thread used last, of those that were not known to be used often: of which file, and which.
    static LAST_USED: Cell<(u32, u32)> = const { Cell::new((u32::MAX, u32::MAX)) };
}

/// Is this another page than the thread's last?
#[inline]
fn is_new_use(file: u32, page: u32) -> bool {
    LAST_USED.replace((file, page)) != (file, page)
}

impl File {
    pub(crate) fn opened(&self) -> &Arc<OpenFile> {
        self.open.as_ref().expect("taken only when the handle is dropped")
    }

    #[inline]
    pub(crate) fn cached(&self) -> &Arc<Cached<Host>> {
        &self.cached
    }

    fn error(&self, error: engine::Error) -> Error {
        Error::of_file(&self.opened().path, error)
    }

    /// The caller is about to change the file: may it?
    fn begin_change(&self) -> Result<(), Error> {
        self.shared.check_is_up()?;
        if !self.is_writable {
            return Err(Error::ReadOnly { path: self.opened().path.clone() });
        }
        let has_changed = &self.opened().has_changed;
        if !has_changed.load(Ordering::Relaxed) {
            has_changed.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Returns the length, bytes.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(b"five.", 100)?;
    /// assert_eq!(file.len(), 105);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> u64 {
        self.cached().length()
    }

    /// Is it empty?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from byte `offset` on, and returns how many bytes: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// When a page cannot be read, or memory for it is exhausted. Bytes before it were read.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words");
    /// std::fs::write(&path, "three words here")?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let mut found = [0; 100];
    /// let n = memory.open(&path)?.read_at(&mut found, 6)?;
    /// assert_eq!(&found[..n], b"words here");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Error> {
        let mut end = self.len().min(offset.saturating_add(bytes.len() as u64));
        let mut at = offset;
        while at < end {
            let page = at / PAGE_BYTES as u64;
            let last_page = (end - 1) / PAGE_BYTES as u64;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let wanted = (PAGE_BYTES - in_page).min((end - at) as usize);
            self.engine.prefetch_page(&self.cached, page as usize, in_page, wanted);
            let guard = match self.pin_open(page) {
                Some(guard) => guard,
                None => match self.pin(page as u32, (last_page - page + 1) as u32) {
                    Ok(frame) => PageRead::of_file(&self.engine, frame),
                    Err(error) => return Err(*error),
                },
            };
            // With the page in hand: what was cut off before is not read as zeroes that the file never had.
            end = end.min(self.len());
            if end <= at {
                break;
            }
            let n = (PAGE_BYTES - in_page).min((end - at) as usize);
            let from = (at - offset) as usize;
            copy(&guard[in_page..in_page + n], &mut bytes[from..from + n]);
            at += n as u64;
        }
        Ok((at - offset) as usize)
    }

    /// Does many reads: into each slice from its offset on. Pages that are missing are read from the device side by side, not
    /// one after the other. Returns how many bytes each got: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// As [`File::read_at`], of the first read that failed; those before it were done.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("letters");
    /// std::fs::write(&path, [[b'a'; 4096], [b'b'; 4096], [b'c'; 4096]].concat())?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let (mut first, mut last) = ([0; 2], [0; 5]);
    /// let read = memory.open(&path)?.read_many_at(&mut [(&mut first, 4095), (&mut last, 12286)])?;
    /// assert_eq!((read, &first, &last[..2]), (vec![2, 2], b"ab", &b"cc"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_many_at(&self, reads: &mut [(&mut [u8], u64)]) -> Result<Vec<usize>, Error> {
        let mut counts = Vec::with_capacity(reads.len());
        for batch in reads.chunk_by_mut(pages_up_to(BATCH_PAGES)) {
            self.start_reads(batch)?;
            for (bytes, offset) in batch {
                counts.push(self.read_at(bytes, *offset)?);
            }
        }
        Ok(counts)
    }

    /// Reads the pages that are missing for a batch of reads, all at the same time.
    fn start_reads(&self, batch: &[(&mut [u8], u64)]) -> Result<(), Error> {
        self.shared.check_is_up()?;
        let _plug = self.shared.engine.machine.plug();
        self.shared.with_task(|engine, task| {
            for (bytes, offset) in batch {
                let pages = pages_of(*offset, bytes.len());
                engine.start_read(task, self.cached(), pages);
            }
        });
        Ok(())
    }

    /// Reads exactly `bytes.len()` bytes from byte `offset` on.
    ///
    /// # Errors
    /// As [`File::read_at`]; and when the file ends before.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "short")?;
    /// let file = memory.open(&path)?;
    /// let mut bytes = [0; 3];
    /// file.read_exact_at(&mut bytes, 2)?;
    /// assert_eq!(&bytes, b"ort");
    /// assert!(file.read_exact_at(&mut bytes, 3).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        let n = self.read_at(bytes, offset)?;
        if n == bytes.len() {
            return Ok(());
        }
        let end = format!("it ends {n} bytes after byte {offset}, and {} were asked for", bytes.len());
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, end);
        Err(Error::File { path: self.opened().path.to_path_buf(), doing: "read so far in the file", source })
    }

    /// Writes from byte `offset` on, extending the file if need be, and returns how many bytes: all of them. They are
    /// durable after [`File::sync_data`].
    ///
    /// # Errors
    /// When memory is exhausted, a page that is written in part cannot be read, the last page of the file that was to go to the
    /// disk could not be written and much is dirty ([`Error::Write`]), the handle is read-only, the file would be
    /// larger than 16 TiB less 4 MiB, or it is a block device that ends before. Bytes before that were written, but for the last
    /// two.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// assert_eq!(file.write_at(b"after a hole", 10_000)?, 12);
    /// assert_eq!(file.len(), 10_012);
    /// let mut hole = [1; 100];
    /// file.read_exact_at(&mut hole, 5000)?;
    /// assert_eq!(hole, [0; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Error> {
        self.begin_change()?;
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= PAGES_MAX * PAGE_BYTES as u64);
        if end.is_none() {
            return Err(Error::TooLong { bytes: offset.saturating_add(bytes.len() as u64) });
        }
        let cached = self.cached();
        let within = |engine: &Engine<Host>, task: &mut Task| engine.write_within(task, cached, offset, bytes);
        let done = match end.filter(|end| *end <= cached.length()) {
            Some(_) => self.shared.with_task(within).map_err(|error| self.error(error))?,
            None => 0,
        };
        if done < bytes.len() {
            if !self.opened().is_regular {
                let source = io::Error::other("a block device is as long as it is");
                let path = self.opened().path.to_path_buf();
                return Err(Error::File { path, doing: "write after the end of the file", source });
            }
            // Past a `set_len` that waits: whom that one waits for may in turn wait for a page of this thread.
            let _longer = self.opened().length.read_recursive();
            self.shared
                .with_task(|engine, task| engine.write(task, cached, offset + done as u64, &bytes[done..]))
                .map_err(|error| self.error(error))?;
        }
        Ok(bytes.len())
    }

    /// Writes all of `bytes` from byte `offset` on.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.write_at(bytes, offset).map(|_| ())
    }

    /// Makes the file `bytes` long, in the system, too: what lies after that is gone, what is added reads as zeroes.
    ///
    /// # Errors
    /// When the page that the new end cuts cannot be read, the handle is read-only, or the system refuses.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(b"cut here", 0)?;
    /// file.set_len(3)?;
    /// file.set_len(5)?;
    /// assert_eq!(std::fs::read(&path)?.len(), 5);
    /// let mut bytes = [1; 5];
    /// file.read_exact_at(&mut bytes, 0)?;
    /// assert_eq!(&bytes, b"cut\0\0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_len(&self, bytes: u64) -> Result<(), Error> {
        self.begin_change()?;
        if bytes > PAGES_MAX * PAGE_BYTES as u64 {
            return Err(Error::TooLong { bytes });
        }
        let (open, cached) = (self.opened(), self.cached());
        if !open.is_regular {
            return Err(open.cannot_set_length(io::Error::other("a block device is as long as it is")));
        }
        let held = open.length.write();
        let refused = |source| open.cannot_set_length(source);
        let grow = || -> Result<(), Error> {
            let file = open.device.file();
            if file.metadata().map_err(refused)?.len() < bytes {
                file.set_len(bytes).map_err(refused)?;
            }
            Ok(())
        };
        let is_cut = bytes < cached.length();
        if !is_cut {
            // If the system refuses, nothing has changed.
            grow()?;
        }
        self.shared
            .with_task(|engine, task| engine.set_length(task, cached, bytes))
            .map_err(|error| self.error(error))?;
        if is_cut {
            // Nobody reads from the disk what lies after the new end any more, and none of it is still being written.
            open.device.expect_at_most(bytes);
            // What was written before the new end may not have come there yet. Not sooner: while what lies after it was still
            // being written, this would have cut that off, and who read it would have been told that somebody else did.
            grow()?;
        }
        open.settle_len(&held)
    }

    /// Writes everything that was written to the file, through whatever handle, and waits until it is durable.
    ///
    /// # Errors
    /// When a page could not be written since this handle was last told: the pages are still in memory and will be
    /// written again.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let log = memory.create(&path)?;
    /// log.write_all_at(b"begin; ", 0)?;
    /// log.write_all_at(b"commit", 7)?;
    /// log.sync_data()?;
    /// assert_eq!(std::fs::read(&path)?, b"begin; commit");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync_data(&self) -> Result<(), Error> {
        self.sync("sync the data of the file", std::fs::File::sync_data)
    }

    /// As [`File::sync_data`], and what the system knows of the file is durable, too.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), Error> {
        self.sync("sync the file", std::fs::File::sync_all)
    }

    fn sync(&self, doing: &'static str, sync: impl Fn(&std::fs::File) -> io::Result<()>) -> Result<(), Error> {
        self.shared.check_is_up()?;
        let (open, cached) = (self.opened(), self.cached());
        let failed_before = cached.failed_writes();
        let written = self.shared.with_task(|engine, task| engine.fsync_since(task, cached, &self.seen_failures));
        let note_told = || open.told.fetch_max(self.seen_failures.load(Ordering::Acquire), Ordering::AcqRel);
        note_told();
        // While somebody makes the file longer there is nothing to be cut yet, and no use in waiting for it.
        let held = open.length.try_write().filter(|_| open.is_writable);
        let settled = held.map_or(Ok(()), |held| open.settle_len(&held));
        // One after the other: the system tells only one, and takes what it could not write for written. All must hear of it.
        let synced = {
            let _alone = open.syncs.lock();
            let synced = sync(open.device.file());
            if let Err(source) = &synced {
                let cause = source.raw_os_error().map_or(IoError::Device, IoError::Os);
                cached.note_write_error((cached.length() / PAGE_BYTES as u64) as u32, cause);
            }
            synced
        };
        let failed_meanwhile = cached.write_error_since(&self.seen_failures, failed_before);
        note_told();
        written.map_err(|error| self.error(error))?;
        synced.map_err(|source| Error::File { path: open.path.to_path_buf(), doing, source })?;
        settled?;
        match failed_meanwhile {
            Some(failure) => {
                let offset = u64::from(failure.page) * PAGE_BYTES as u64;
                Err(Error::Write { path: open.path.clone(), offset, source: failure.source })
            }
            None => Ok(()),
        }
    }

    /// Pins page `page` (of 4096 bytes) for reading: its bytes without a copy. Others may read it meanwhile; who wants to
    /// write it waits. Bytes after the end of the file are zeroes.
    ///
    /// # Errors
    /// When the page lies after the end or has 16383 readers already, or as [`File::read_at`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("table");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let table = memory.create(&path)?;
    /// table.set_len(8 * 4096)?;
    /// table.page_mut(3)?[..4].copy_from_slice(b"head");
    /// assert_eq!(&table.page(3)?[..4], b"head");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn page(&self, page: u64) -> Result<PageRead<'_>, Error> {
        // A page that is open is one of the file, unless it was cut off just now.
        if let Some(guard) = self.pin_open(page) {
            return Ok(guard);
        }
        match self.pin_within(page) {
            Ok(frame) => Ok(PageRead::of_file(&self.engine, frame)),
            Err(error) => Err(*error),
        }
    }

    #[cold]
    #[inline(never)]
    fn pin_within(&self, page: u64) -> Result<FrameNumber, Box<Error>> {
        let is_within = || {
            let pages = self.pages();
            if page < pages { Ok(()) } else { Err(Box::new(Error::OutOfRange { page, pages })) }
        };
        is_within()?;
        let frame = self.pin(page as u32, 1)?;
        // It may have been cut off meanwhile: then it is let go.
        is_within().inspect_err(|_| drop(PageRead::of_file(&self.engine, frame)))?;
        Ok(frame)
    }

    /// Pins page `page` for writing, alone: its bytes without a copy. It counts as written. Of the file's last page, what
    /// lies after the file's end is zeroes again when the guard is dropped. Who dirties more than the disk takes waits in
    /// here, before the page is his.
    ///
    /// # Errors
    /// When the page lies after the end, the handle is read-only, or as [`File::write_at`].
    pub fn page_mut(&self, page: u64) -> Result<PageWrite<'_>, Error> {
        self.begin_change()?;
        let pages = self.pages();
        if page >= pages {
            return Err(Error::OutOfRange { page, pages });
        }
        let cached = self.cached();
        let frame =
            self.shared.with_task(|engine, task| engine.pin_for_write(task, cached, page as u32)).map_err(|error| {
                match error {
                    // Cut off just now.
                    engine::Error::BeyondEnd { .. } => Error::OutOfRange { page, pages: self.pages() },
                    other => self.error(other),
                }
            })?;
        Ok(PageWrite::of_file(&self.shared, cached, frame))
    }

    #[inline]
    fn pages(&self) -> u64 {
        self.cached().length().div_ceil(PAGE_BYTES as u64)
    }

    /// A page that is open to readers with hazard pointers.
    // Inlined, all of it, and nothing larger than two registers comes from what is not: a guard that goes through memory
    // on its way to the caller costs more than finding the page.
    #[inline(always)]
    fn pin_open(&self, page: u64) -> Option<PageRead<'_>> {
        let (engine, index) = (&self.engine, &self.cached.index);
        let page = usize::try_from(page).ok()?;
        // Twice, so that nothing is put together for both: each instruction that writes a register is 3 % of a hit.
        let pinned = match index.slot_in_head(page) {
            Some(slot) => engine.pin_open(slot),
            None => index.slot_behind(page).and_then(|slot| engine.pin_open(slot)),
        };
        let pinned = pinned.or_else(|| self.pin_open_slowly(page));
        pinned.map(|(frame, hazard)| PageRead::of_open(engine, frame, hazard))
    }

    /// The same by any hazard pointer that the thread has left.
    #[cold]
    #[inline(never)]
    fn pin_open_slowly(&self, page: usize) -> Option<(FrameNumber, HazardPointer<'_>)> {
        self.engine.pin_open_slowly(self.cached.index.slot(page)?)
    }

    /// A page with a reference and the shared latch, from memory or from the device.
    #[inline(never)]
    fn pin(&self, page: u32, wanted_pages: u32) -> Result<FrameNumber, Box<Error>> {
        let cached = self.cached();
        match self.shared.engine.pin_cached(cached, page, || is_new_use(cached.id, page)) {
            Some((frame, _)) => Ok(frame),
            None => self.pin_slowly(page, wanted_pages),
        }
    }

    #[cold]
    fn pin_slowly(&self, page: u32, wanted_pages: u32) -> Result<FrameNumber, Box<Error>> {
        self.shared.check_is_up()?;
        let pin = |state: &mut ReadState| {
            self.shared
                .with_task(|engine, task| engine.pin_for_read(task, self.cached(), state, page, wanted_pages))
                .map_err(|error| self.error(error).into())
        };
        if self.is_random.load(Ordering::Relaxed) {
            let mut state = ReadState::default();
            state.pattern = ReadPattern::Random;
            return pin(&mut state);
        }
        // A copy: other readers of this handle must not wait for this one's disk.
        let mut state = self.state.lock().clone();
        let pinned = pin(&mut state);
        let mut kept = self.state.lock();
        // What was advised meanwhile holds.
        state.pattern = kept.pattern;
        *kept = state;
        pinned
    }

    /// Says how a part of the file, in bytes, is going to be used. Sequential and random hold for all of the handle.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, vec![1; 1 << 20])?;
    /// let file = memory.open(&path)?;
    /// file.advise(0..0, highwater::Advice::Sequential);
    /// file.advise(0..65536, highwater::Advice::WillNeed);
    /// file.read_exact_at(&mut [0; 65536], 0)?;
    /// file.advise(0..65536, highwater::Advice::DontNeed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advise(&self, range: Range<u64>, advice: Advice) {
        let end = range.end.min(self.len());
        let pages = (range.start.min(end) / PAGE_BYTES as u64) as u32..end.div_ceil(PAGE_BYTES as u64) as u32;
        let set = |pattern| {
            let mut state = self.state.lock();
            state.pattern = pattern;
            self.is_random.store(pattern == ReadPattern::Random, Ordering::Relaxed);
        };
        match advice {
            Advice::Normal => set(ReadPattern::Normal),
            Advice::Sequential => set(ReadPattern::Sequential),
            Advice::Random => set(ReadPattern::Random),
            Advice::WillNeed if pages.start < pages.end => {
                self.shared.with_task(|engine, task| engine.prefetch(task, self.cached(), pages));
            }
            Advice::DontNeed if pages.start < pages.end => {
                self.shared.engine.invalidate_pages(self.cached(), pages);
            }
            Advice::WillNeed | Advice::DontNeed => {}
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.release(&self.shared);
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.opened().path).field("len", &self.len()).finish_non_exhaustive()
    }
}
