//! The state that the handles of a memory share: the engine, the machine under it, and their tasks.

use crate::error::Error;
use crate::file::table::Table;
use crate::futures::Futures;
use crate::group::table::{Groups, Node};
use crate::machine::task::AbortOnPanic;
use crate::machine::{Host, InUse, TaskId, use_huge_pages};
use crate::wrap::Wrap;
use engine::allocate::OutOfMemory;
use engine::writeback::DeviceLayout;
use engine::{Engine, KernelTask, Task};
use machine::{Completions, DeviceId, FrameNumber, PAGE_BYTES};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The engine's number for the disk on which the first opened file lies.
pub(crate) const FIRST_DEVICE: DeviceId = DeviceId(0);

/// The layout of blocks on each disk, as the engine sees it. It has no blocks for files, because the file system
/// decides where files lie.
pub(crate) const FILES_LAYOUT: DeviceLayout = DeviceLayout { file_blocks: 0..0 };

/// The state that a [`Memory`](crate::Memory) shares with all its files and regions.
pub(crate) struct Shared {
    /// Number of this memory, unique in the process.
    number: u64,
    pub engine: Arc<Engine<Host>>,
    /// The objects that the machine tells when disk requests finish. The machine refers to them only weakly, so this
    /// field keeps them alive. Nothing is told of a request that finishes after this value was dropped.
    _receivers: Vec<Arc<dyn Completions + Send + Sync>>,
    pub files: Table,
    /// The memory control groups; `None` if the memory was started without groups.
    groups: Option<Groups>,
    /// The engine's tasks that run now: kswapd and the flushers.
    kernel_tasks: Mutex<Vec<TaskId>>,
    /// The disks on which opened files lie. The key is the system's number of the disk (`st_dev`, or `st_rdev` of a
    /// block device), and the value is the engine's number.
    backings: Mutex<BTreeMap<u64, DeviceId>>,
    /// Frames that are not in use since the size of this memory was reduced. The operating system has got back their
    /// memory.
    pub balloon: Mutex<Vec<FrameNumber>>,
    /// The claim on the swap file. While it is held, no other `Memory` of this process can open the swap file as a data
    /// file.
    _swap: Option<InUse>,
    pub wrap: Wrap,
    /// The state that futures of this memory share.
    pub futures: Futures,
    is_shut_down: AtomicBool,
    /// Errors that could not be reported to a caller, for example of a file whose last handle was dropped.
    pub late_errors: Mutex<Vec<Error>>,
}

/// A thread's state in each of the eight memories that it used last: the memory's number, and the engine's [`Task`],
/// which counts the pages that the thread has dirtied since it was last throttled. The memory used last comes first. A
/// thread that uses more than eight memories at a time may escape throttling.
// The type has no drop code, because a thread may use a memory until its last thread-local value is dropped.
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

/// The values from which [`Shared::start`] makes the shared state of a [`Memory`](crate::Memory).
pub(crate) struct Parts {
    pub engine: Arc<Engine<Host>>,
    pub receivers: Vec<Arc<dyn Completions + Send + Sync>>,
    pub swap: Option<InUse>,
    pub wrap: Wrap,
}

/// The number of the next memory. Memories are numbered from 1.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl Shared {
    /// Makes the shared state from `parts`, and starts the engine's tasks.
    ///
    /// # Errors
    /// When the system grants no threads for the tasks.
    pub fn start(parts: Parts) -> Result<Self, Error> {
        let groups = parts.engine.memory().groups.as_ref().map(|groups| Groups::new(groups.room()));
        let shared = Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            engine: parts.engine,
            _receivers: parts.receivers,
            files: Table::default(),
            groups,
            kernel_tasks: Mutex::default(),
            backings: Mutex::default(),
            balloon: Mutex::default(),
            _swap: parts.swap,
            wrap: parts.wrap,
            futures: Futures::default(),
            is_shut_down: AtomicBool::new(false),
            late_errors: Mutex::default(),
        };
        start_tasks(&shared.engine, &mut shared.kernel_tasks.lock())?;
        Ok(shared)
    }

    /// Returns the identifier of this memory: a number that is unique in the process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the memory control groups; `None` if the memory was started without groups.
    pub fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    /// Converts an error of the engine about a region or about memory to an error of the library. If a group is full,
    /// the error names the group.
    pub fn error(&self, error: engine::Error) -> Error {
        self.error_of_full_group(&error).unwrap_or_else(|| Error::of_memory(error))
    }

    /// Returns the library's out-of-memory error if `error` is a failed allocation because a memory group had reached
    /// its limit; otherwise `None`.
    pub fn error_of_full_group(&self, error: &engine::Error) -> Option<Error> {
        let engine::Error::OutOfMemory { cause: OutOfMemory { full: Some((group, _, pages)), .. }, .. } = error else {
            return None;
        };
        let (name, bytes) = (self.groups.as_ref()?.path_of(*group), pages * PAGE_BYTES as u64);
        Some(Error::OutOfMemory {
            state: format!("group {name} is full: nothing can be freed of its {bytes} bytes (max)"),
        })
    }

    /// Calls `call` with the engine and this thread's state for this memory, and returns its result. Pages are charged
    /// to `group`. If this group was removed, pages are charged to its nearest ancestor that was not removed. If
    /// `group` is `None`, pages are charged to the root group.
    pub fn with_task<R>(&self, group: Option<&Arc<Node>>, call: impl FnOnce(&Engine<Host>, &mut Task) -> R) -> R {
        TASKS.with_borrow_mut(|tasks| {
            if tasks.0[0].0 != self.number {
                tasks.turn_to(self.number);
            }
            let _call = self.engine.machine().enter_call();
            let task = &mut tasks.0[0].1;
            match &self.groups {
                Some(groups) => groups.call_in(&self.engine, group, task, call),
                None => call(&self.engine, task),
            }
        })
    }

    /// Calls `call` as [`Self::with_task`] does, for a caller that must not sleep. If `call` charges pages above a `high`
    /// limit, no later call of the task makes up for them.
    pub fn with_task_at_once<R>(
        &self,
        group: Option<&Arc<Node>>,
        call: impl FnOnce(&Engine<Host>, &mut Task) -> R,
    ) -> R {
        TASKS.with_borrow_mut(|tasks| {
            if tasks.0[0].0 != self.number {
                tasks.turn_to(self.number);
            }
            let _call = self.engine.machine().enter_call();
            let task = &mut tasks.0[0].1;
            let Some(groups) = &self.groups else { return call(&self.engine, task) };
            // What the thread owes from an earlier call, and to which group, is left to its next call that may sleep.
            let (owed, owed_to) = (std::mem::take(&mut task.over_high_pages), task.group);
            let result = groups.call_in(&self.engine, group, task, call);
            task.over_high_pages = owed;
            if owed > 0 {
                task.group = owed_to;
            }
            result
        })
    }

    /// Returns an error if the memory was shut down.
    pub fn check_is_up(&self) -> Result<(), Error> {
        if self.is_shut_down.load(Ordering::Acquire) { Err(Error::ShutDown) } else { Ok(()) }
    }

    /// Returns the engine's number of the disk on which a file lies. Each disk has its own dirty limits and flusher. If
    /// there are too many disks, or the system grants no thread for another flusher, returns the number of the first
    /// disk, and treats the file as if it lay there.
    pub fn backing_of(&self, metadata: &Metadata) -> DeviceId {
        let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
        let mut backings = self.backings.lock();
        let is_first = backings.is_empty();
        let add = || if is_first { FIRST_DEVICE } else { self.add_backing().unwrap_or(FIRST_DEVICE) };
        *backings.entry(number).or_insert_with(add)
    }

    fn add_backing(&self) -> Option<DeviceId> {
        let mut tasks = self.kernel_tasks.lock();
        // Checked under the lock of the task list: a concurrent `shut_down` either is seen here, or ends the flusher
        // that is started here.
        if self.is_shut_down.load(Ordering::Acquire) {
            return None;
        }
        let device = self.engine.writeback().add_device(&FILES_LAYOUT)?;
        start_task(&self.engine, KernelTask::Flusher(device), &mut tasks).ok()?;
        Some(device)
    }

    /// Adds `pages` pages to the memory. First takes frames from `balloon`: frames that were part of the memory before
    /// and were given back to the system. Makes new frames if `balloon` has too few.
    pub fn grow(&self, balloon: &mut Vec<FrameNumber>, pages: u64) -> std::io::Result<()> {
        let (engine, zone) = (&self.engine, &self.engine.memory().zones[0]);
        let again = (balloon.len() as u64).min(pages);
        let present = zone.present() + pages - again;
        if present > zone.present() {
            engine.machine().arena().resize(present as u32)?;
        }
        balloon.drain(balloon.len() - again as usize..).for_each(|frame| engine.memory().put_online(frame));
        if engine.machine().arena().has_huge_pages() {
            use_huge_pages(engine.memory().frames.addresses(0..present as u32));
        }
        engine.memory().online_pages(zone, pages - again);
        Ok(())
    }

    /// Shrinks the memory to `pages` pages: takes pages away from the allocator, and adds their frames to `balloon`.
    /// Pages are taken away in steps, so that other threads find free pages meanwhile. On an error, gives back the
    /// pages that this call took. It is an error if page tables and contiguous blocks would take too much of the
    /// smaller memory.
    pub fn shrink(&self, balloon: &mut Vec<FrameNumber>, pages: u64) -> Result<(), Error> {
        const AT_ONCE: u64 = 256;
        let engine = &self.engine;
        let had = balloon.len();
        let undo = |balloon: &mut Vec<FrameNumber>, error| {
            balloon.drain(had..).for_each(|frame| engine.memory().put_online(frame));
            engine.memory().set_marks();
            Err(error)
        };
        let check_fixed = || {
            let (fixed, most) = (engine.memory().fixed_pages(), engine.memory().fixed_pages_max(pages));
            if fixed <= most {
                return Ok(());
            }
            let bytes = pages * PAGE_BYTES as u64;
            let state = format!(
                "cannot shrink to {bytes} bytes: page tables and contiguous blocks take {fixed} pages, and may take at \
                 most half of the memory, {most} pages"
            );
            Err(Error::OutOfMemory { state })
        };
        while let Some(surplus) = engine.memory().managed_pages().checked_sub(pages).filter(|surplus| *surplus > 0) {
            // Checked in each step, because other threads may make page tables meanwhile.
            if let Err(error) = check_fixed() {
                return undo(balloon, error);
            }
            let last = balloon.len();
            let most = surplus.min(AT_ONCE) as usize;
            if let Err(error) =
                self.with_task(None, |engine, task| engine.allocate().take_offline_pages(task, most, balloon))
            {
                let bytes = pages * PAGE_BYTES as u64;
                return undo(balloon, Error::OutOfMemory { state: format!("cannot shrink to {bytes} bytes: {error}") });
            }
            let mut given_up: Vec<u32> = balloon[last..].iter().map(|frame| frame.0).collect();
            given_up.sort_unstable();
            for run in given_up.chunk_by(|a, b| a + 1 == *b) {
                if let Err(error) = engine.machine().arena().discard(run[0]..run[run.len() - 1] + 1) {
                    return undo(balloon, Error::System(error));
                }
            }
        }
        check_fixed().or_else(|error| undo(balloon, error))
    }

    /// Writes all files back and ends the engine's tasks. Returns the errors that occurred.
    pub fn shut_down(&self) -> Vec<Error> {
        if self.is_shut_down.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        self.wake_futures();
        let files = self.files.all();
        let mut errors: Vec<Error> = files.iter().filter_map(|file| file.write_back(self)).collect();
        // The application may have dropped all its handles of a file meanwhile. The `Arc` here is then the last one,
        // and releasing it closes the file.
        files.into_iter().for_each(|file| file.release_late(self));
        self.end_tasks(&mut self.kernel_tasks.lock());
        self.engine.access().release_waiters();
        errors.append(&mut self.late_errors.lock());
        errors
    }

    /// Wakes all futures that wait for a page, so that they find that the memory was shut down.
    fn wake_futures(&self) {
        let host = self.engine.machine();
        self.engine.access().page_queues().iter().for_each(|queue| host.wake_everybody(queue));
    }

    /// Ends the engine's tasks.
    fn end_tasks(&self, tasks: &mut Vec<TaskId>) {
        let host = self.engine.machine();
        tasks.iter().for_each(|task| host.kill(*task));
        tasks.drain(..).for_each(|task| host.join(task).expect("a task that panics ends the process"));
    }

    /// Calls `look` with the engine at rest, and returns the result of `look`. Before that, ends the engine's own tasks
    /// and waits for all disk requests; afterwards starts the tasks again. The engine is at rest only if no other
    /// thread uses the memory meanwhile.
    pub fn quiesced<T>(&self, look: impl FnOnce(&Engine<Host>) -> T) -> Result<T, Error> {
        let mut tasks = self.kernel_tasks.lock();
        let had_tasks = !tasks.is_empty();
        self.end_tasks(&mut tasks);
        self.engine.machine().wait_until_idle();
        let found = look(&self.engine);
        if had_tasks {
            start_tasks(&self.engine, &mut tasks)?;
        }
        Ok(found)
    }
}

/// Starts the engine's own tasks, kswapd and flushers, and adds them to `tasks`. If a task cannot be started, returns
/// an error; `tasks` then holds the tasks that were started, so that the caller can end them.
fn start_tasks(engine: &Arc<Engine<Host>>, tasks: &mut Vec<TaskId>) -> Result<(), Error> {
    engine.kernel_tasks().into_iter().try_for_each(|task| start_task(engine, task, tasks))
}

fn start_task(engine: &Arc<Engine<Host>>, task: KernelTask, tasks: &mut Vec<TaskId>) -> Result<(), Error> {
    let runs = engine.clone();
    let run = move || {
        let _abort = AbortOnPanic::new();
        runs.run(task);
    };
    tasks.push(engine.machine().spawn(&task.name(), run).map_err(Error::System)?);
    Ok(())
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Failures are ignored in a drop: an application that wants them calls `Memory::shutdown`.
        self.shut_down();
    }
}
