//! Memory: the engine, the machine under it, and who uses them.

use crate::builder::{Builder, Wrap, check_size};
use crate::error::Error;
use crate::file::{File, OpenOptions, Table};
use crate::machine::task::AbortOnPanic;
use crate::machine::{Host, InUse, Notice, TaskId, use_huge_pages};
use crate::region::Region;
use engine::writeback::DeviceLayout;
use engine::{Engine, KernelTask, Task};
use machine::{Completions, DeviceId, FrameNumber, Machine, PAGE_BYTES};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A page cache and swap-backed memory of a fixed size, managed as Linux manages its own.
///
/// Handles ([`File`], [`Region`]) keep the memory alive. Everything may be used from any thread.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// use highwater::Memory;
///
/// let memory = Memory::builder().size(16 << 20).swap(32 << 20).start()?;
/// let file = memory.create("table.dat")?;
/// file.write_all_at(b"twenty-four bytes of it!", 4096)?;
/// file.sync_data()?;
/// let mut found = [0; 6];
/// file.read_exact_at(&mut found, 4096)?;
/// assert_eq!(&found, b"twenty");
/// memory.shutdown()?;
/// # Ok(())
/// # }
/// ```
pub struct Memory {
    pub(crate) shared: Arc<Shared>,
}

/// What handles share.
pub(crate) struct Shared {
    /// Not that of any other memory of the process.
    number: u64,
    pub engine: Arc<Engine<Host>>,
    /// For as long as the engine's tasks and its users are there: requests that end later are nobody's.
    _receivers: Vec<Arc<dyn Completions + Send + Sync>>,
    pub files: Table,
    /// Kswapd and the flushers.
    kernel_tasks: Mutex<Vec<TaskId>>,
    /// What the engine calls the real devices, which the system numbers.
    backings: Mutex<BTreeMap<u64, DeviceId>>,
    /// Pages that were given back to the system.
    pub balloon: Mutex<Vec<FrameNumber>>,
    /// Nobody may take the swap file for data meanwhile.
    _swap: Option<InUse>,
    pub wrap: Wrap,
    is_shut_down: AtomicBool,
    /// Errors that nobody was there to be told of.
    pub late_errors: Mutex<Vec<Error>>,
}

/// What the engine keeps for a thread, with the number of the memory: how much the thread has dirtied since its last
/// pause. The memory used last comes first. A thread that uses more than eight memories may miss a pause that was
/// due.
// Nothing that is dropped: a thread may use a memory until its last value is gone.
struct Tasks([(u64, Task); 8]);

impl Tasks {
    #[cold]
    fn turn_to(&mut self, memory: u64) {
        let found = self.0.iter().position(|(number, _)| *number == memory);
        let at = found.unwrap_or_else(|| {
            let oldest = self.0.len() - 1;
            self.0[oldest] = (memory, Task::user());
            oldest
        });
        self.0[..=at].rotate_right(1);
    }
}

thread_local! {
    static TASKS: RefCell<Tasks> = RefCell::new(Tasks(std::array::from_fn(|_| (0, Task::user()))));
}

/// What a memory is put together from.
pub(crate) struct Parts {
    pub engine: Arc<Engine<Host>>,
    pub receivers: Vec<Arc<dyn Completions + Send + Sync>>,
    pub swap: Option<InUse>,
    pub wrap: Wrap,
}

/// Memories are numbered from 1.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl Shared {
    /// Calls the engine on behalf of this thread.
    pub fn with_task<R>(&self, call: impl FnOnce(&Engine<Host>, &mut Task) -> R) -> R {
        TASKS.with_borrow_mut(|tasks| {
            if tasks.0[0].0 != self.number {
                tasks.turn_to(self.number);
            }
            call(&self.engine, &mut tasks.0[0].1)
        })
    }

    /// # Errors
    /// When the memory was shut down.
    pub fn check_is_up(&self) -> Result<(), Error> {
        if self.is_shut_down.load(Ordering::Acquire) { Err(Error::ShutDown) } else { Ok(()) }
    }

    /// What the engine calls the device that a file lies on: each has dirty limits and a flusher of its own. Files of a device
    /// count to the first one where there are too many, and where the system has no thread for another flusher.
    pub fn backing_of(&self, metadata: &Metadata) -> DeviceId {
        let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
        let mut backings = self.backings.lock();
        let is_first = backings.is_empty();
        let add = || if is_first { FIRST_DEVICE } else { self.add_backing().unwrap_or(FIRST_DEVICE) };
        *backings.entry(number).or_insert_with(add)
    }

    fn add_backing(&self) -> Option<DeviceId> {
        let mut tasks = self.kernel_tasks.lock();
        // With the lock: who ends the tasks ends this one, too.
        if self.is_shut_down.load(Ordering::Acquire) {
            return None;
        }
        let device = self.engine.add_device(&FILES_LAYOUT)?;
        start_task(&self.engine, KernelTask::Flusher(device), &mut tasks).ok()?;
        Some(device)
    }

    /// Adds pages: those that were given up first, and then those that never were there.
    fn grow(&self, balloon: &mut Vec<FrameNumber>, pages: u64) -> std::io::Result<()> {
        let (engine, zone) = (&self.engine, &self.engine.zones[0]);
        let again = (balloon.len() as u64).min(pages);
        let present = zone.present() + pages - again;
        if present > zone.present() {
            engine.machine.arena().resize(present as u32)?;
        }
        balloon.drain(balloon.len() - again as usize..).for_each(|frame| engine.put_online(frame));
        use_huge_pages(engine.frames.addresses(0..present as u32));
        engine.online_pages(zone, pages - again);
        Ok(())
    }

    /// Gives pages up in steps, so that other requests find free pages meanwhile.
    fn shrink(&self, balloon: &mut Vec<FrameNumber>, pages: u64) -> Result<(), Error> {
        const AT_ONCE: u64 = 256;
        let engine = &self.engine;
        let had = balloon.len();
        let undo = |balloon: &mut Vec<FrameNumber>, error| {
            balloon.drain(had..).for_each(|frame| engine.put_online(frame));
            engine.set_marks();
            Err(error)
        };
        while let Some(surplus) = engine.managed_pages().checked_sub(pages).filter(|surplus| *surplus > 0) {
            let last = balloon.len();
            let most = surplus.min(AT_ONCE) as usize;
            if let Err(error) = self.with_task(|engine, task| engine.take_offline_pages(task, most, balloon)) {
                let bytes = pages * PAGE_BYTES as u64;
                return undo(balloon, Error::OutOfMemory { state: format!("cannot shrink to {bytes} bytes: {error}") });
            }
            let mut given_up: Vec<u32> = balloon[last..].iter().map(|frame| frame.0).collect();
            given_up.sort_unstable();
            for run in given_up.chunk_by(|a, b| a + 1 == *b) {
                if let Err(error) = engine.machine.arena().discard(run[0]..run[run.len() - 1] + 1) {
                    return undo(balloon, Error::System(error));
                }
            }
        }
        Ok(())
    }

    /// Writes everything back and ends the engine's tasks; returns what failed.
    fn shut_down(&self) -> Vec<Error> {
        if self.is_shut_down.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let files = self.files.all();
        let mut errors: Vec<Error> = files.iter().filter_map(|file| file.write_back(self)).collect();
        // A handle may have been dropped meanwhile: then the share here is the last one.
        files.into_iter().for_each(|file| file.release(self));
        self.end_tasks(&mut self.kernel_tasks.lock());
        self.engine.release_waiters();
        errors.append(&mut self.late_errors.lock());
        errors
    }

    /// Ends the engine's tasks.
    fn end_tasks(&self, tasks: &mut Vec<TaskId>) {
        let host = &self.engine.machine;
        tasks.iter().for_each(|task| host.kill(*task));
        tasks.drain(..).for_each(|task| host.join(task).expect("a task that panics ends the process"));
    }

    /// Nothing goes on while `look` looks, if nobody uses the memory: the engine's tasks have ended, and no request is on
    /// its way.
    fn quiesced<T>(&self, look: impl FnOnce(&Engine<Host>) -> T) -> Result<T, Error> {
        let mut tasks = self.kernel_tasks.lock();
        let had_tasks = !tasks.is_empty();
        self.end_tasks(&mut tasks);
        self.engine.machine.wait_until_idle();
        let found = look(&self.engine);
        if had_tasks {
            start_tasks(&self.engine, &mut tasks)?;
        }
        Ok(found)
    }
}

/// Starts what the engine needs to run beside its callers, and adds it to `tasks`: where one cannot be started, those
/// before it are there to be ended.
fn start_tasks(engine: &Arc<Engine<Host>>, tasks: &mut Vec<TaskId>) -> Result<(), Error> {
    engine.kernel_tasks().into_iter().try_for_each(|task| start_task(engine, task, tasks))
}

fn start_task(engine: &Arc<Engine<Host>>, task: KernelTask, tasks: &mut Vec<TaskId>) -> Result<(), Error> {
    let runs = engine.clone();
    let run = move || {
        let _abort = AbortOnPanic::new();
        runs.run(task);
    };
    tasks.push(engine.machine.spawn(&task.name(), run).map_err(Error::System)?);
    Ok(())
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Whoever wants to know what failed calls `shutdown`.
        self.shut_down();
    }
}

/// Errors that [`Memory::shutdown`] met; never empty.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// match memory.shutdown() {
///     Ok(()) => {}
///     Err(highwater::ShutdownError(errors)) => errors.iter().for_each(|error| eprintln!("{error}")),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShutdownError(pub Vec<Error>);

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join("; "))
    }
}

impl std::error::Error for ShutdownError {}

/// Counters and gauges under the names of `/proc/vmstat`; prints like that file.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let vmstat = memory.vmstat();
/// assert_eq!(vmstat.get("pgfault"), 0);
/// assert!(vmstat.to_string().lines().any(|line| line.starts_with("nr_free_pages ")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vmstat(pub BTreeMap<String, u64>);

impl Vmstat {
    /// Returns a counter, by the name that it is printed under; 0 for a name that there is not.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert!(memory.vmstat().get("nr_free_pages") > 3000);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

impl fmt::Display for Vmstat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    }
}

impl Memory {
    /// Begins to describe a memory.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert_eq!(memory.size(), 16 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts the engine's tasks.
    pub(crate) fn of(parts: Parts) -> Result<Self, Error> {
        let shared = Shared {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            engine: parts.engine,
            _receivers: parts.receivers,
            files: Table::default(),
            kernel_tasks: Mutex::default(),
            backings: Mutex::default(),
            balloon: Mutex::default(),
            _swap: parts.swap,
            wrap: parts.wrap,
            is_shut_down: AtomicBool::new(false),
            late_errors: Mutex::default(),
        };
        start_tasks(&shared.engine, &mut shared.kernel_tasks.lock())?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens a file that exists, for reading and writing.
    ///
    /// A file that is open already shares its pages with the new handle. While it is open here, other programs should
    /// leave it alone: what they write past this memory is not seen, or overwritten. Reading does not change the time of
    /// last access of a file that this user owns.
    ///
    /// # Errors
    /// When the system does not open it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "in the file")?;
    /// let file = memory.open(&path)?;
    /// assert_eq!(file.len(), 11);
    /// assert!(memory.open(path.with_extension("gone")).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        OpenOptions::new().write(true).open(self, path)
    }

    /// Creates a file, or empties the one that is there, and opens it for reading and writing.
    ///
    /// # Errors
    /// When the system does not create it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "before")?;
    /// assert!(memory.create(&path)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        OpenOptions::new().write(true).create(true).truncate(true).open(self, path)
    }

    /// Returns anonymous memory of `bytes` bytes, all zeroes. It may be larger than this memory and its swap together
    /// as long as not all of it is written.
    ///
    /// # Errors
    /// When it has more than 2^32 - 1024 pages.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous(1 << 30)?;
    /// heap.write_at(b"far out", 1 << 29)?;
    /// let mut found = [0; 7];
    /// heap.read_at(&mut found, 1 << 29)?;
    /// assert_eq!(&found, b"far out");
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn anonymous(&self, bytes: u64) -> Result<Region, Error> {
        Region::new(self, bytes)
    }

    /// Returns all counters now.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(&[1; 8192], 0)?;
    /// assert_eq!(memory.vmstat().get("nr_dirtied"), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn vmstat(&self) -> Vmstat {
        Vmstat(self.shared.engine.vmstat())
    }

    /// Returns for how long at least one thread had to make room itself before it could go on, since the start.
    ///
    /// The rate at which it grows is the pressure: 0 as long as kswapd keeps up. Linux: `some` in
    /// `/proc/pressure/memory`.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert!(memory.pressure().is_zero());
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn pressure(&self) -> Duration {
        let engine = &self.shared.engine;
        Duration::from_nanos(engine.pressure.total(engine.machine.now()).0)
    }

    /// Returns how much memory there is, bytes: while [`Memory::resize`] makes it smaller, how far that has come.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert_eq!(memory.size(), 16 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared.engine.managed_pages() * PAGE_BYTES as u64
    }

    /// Makes the memory smaller, or larger up to [`Builder::size_max`], while it is used. Memory that is given up
    /// returns to the system. Other requests wait for reclaim meanwhile, as always.
    ///
    /// # Errors
    /// When it would be too small or too large, or when not so much can be made free: then its size is as before.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).size_max(32 << 20).start()?;
    /// memory.resize(32 << 20)?;
    /// memory.resize(8 << 20)?;
    /// assert_eq!(memory.size(), 8 << 20);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn resize(&self, bytes: u64) -> Result<(), Error> {
        let shared = &self.shared;
        shared.check_is_up()?;
        let engine = &shared.engine;
        let pages = bytes / PAGE_BYTES as u64;
        check_size("resize", bytes, engine.zones[0].spanned)?;
        // Held all the time: one after the other.
        let mut balloon = shared.balloon.lock();
        match pages.checked_sub(engine.managed_pages()) {
            Some(more) => shared.grow(&mut balloon, more).map_err(Error::System),
            None => shared.shrink(&mut balloon, pages),
        }
    }

    /// Returns what the system did not grant: huge pages, io_uring, reading past its own cache.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// memory.notices().iter().for_each(|notice| eprintln!("note: {notice}"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.shared.engine.machine.notices()
    }

    /// Drops the clean pages of all files; returns how many.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, [1; 8192])?;
    /// let file = memory.open(&path)?;
    /// file.read_exact_at(&mut [0; 8192], 0)?;
    /// assert_eq!(memory.drop_caches(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drop_caches(&self) -> u64 {
        self.shared.engine.drop_caches()
    }

    /// Looks at every frame, list and counter, and says what does not hold. Nobody may use the memory meanwhile; for
    /// tests. Its own threads are ended before and started again afterwards, and what they have on its way to a disk is
    /// waited for.
    ///
    /// # Errors
    /// The first thing found.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert_eq!(memory.check(), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<(), String> {
        let found = self.shared.quiesced(|engine| engine.check().map_err(|broken| broken.to_string()));
        found.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Writes all files back, ends the memory's threads, and reports every error. What was written is with the system then,
    /// as after a `write`, and not durable: [`File::sync_data`] before. Handles of files that are left read pages that
    /// are in memory; all else of them, and all of regions, is [`Error::ShutDown`].
    ///
    /// # Errors
    /// Everything that could not be written, and everything that failed with nobody there to be told.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(b"written back", 0)?;
    /// memory.shutdown()?;
    /// assert_eq!(std::fs::read(&path)?, b"written back");
    /// assert!(matches!(file.sync_data(), Err(highwater::Error::ShutDown)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(self) -> Result<(), ShutdownError> {
        let errors = self.shared.shut_down();
        if errors.is_empty() { Ok(()) } else { Err(ShutdownError(errors)) }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("frames", &self.shared.engine.frames.len()).finish_non_exhaustive()
    }
}

/// The real device that was met first.
pub(crate) const FIRST_DEVICE: DeviceId = DeviceId(0);

/// Files lie where the system puts them: the engine has no blocks to give.
pub(crate) const FILES_LAYOUT: DeviceLayout = DeviceLayout { file_blocks: 0..0 };

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread has dirtied of one memory is not held against it, nor forgotten, by another.
    #[test]
    fn a_thread_has_a_task_of_its_own_in_each_memory() {
        // Valgrind does not know that io_uring waits.
        let start = || Memory::builder().size(8 << 20).io_uring(false).start().unwrap();
        let memories = [(); 3].map(|()| start());
        let dirtied = |memory: &Memory, pages| {
            memory.shared.with_task(|_, task| {
                task.pages_dirtied += pages;
                task.pages_dirtied
            })
        };
        for round in 1..=3 {
            for (memory, pages) in memories.iter().zip([1, 10, 100]) {
                assert_eq!(dirtied(memory, pages), round * pages);
            }
        }
        (0..8).for_each(|_| assert_eq!(dirtied(&start(), 1), 1));
        assert_eq!(dirtied(&memories[0], 1), 1, "eight others were used since");
    }
}
