//! The interface between a workload and its ground.
//!
//! A workload is written once, against [`System`]. A *ground* implements it: `sim`, in virtual time; `host`, the engine
//! on real memory and threads; `linux`, the kernel of this computer. So the interface does not assume a simulator:
//!
//! * Each task has a `System` of its own, made by [`System::spawn`]. A task may be a thread: its inputs are `Send`, and
//!   its result comes back by [`Started::join`].
//! * Files are shared by name. Each task opens its own handle, which keeps its readahead. A region belongs to the task
//!   that mapped it.
//! * Contents are real as far as the ground keeps them ([`System::kept`]). [`contents`] makes and verifies them.
//! * Random numbers come only from [`System::rng`] and time only from [`System::now`]. On `sim` equal seeds then give
//!   equal bytes.
//! * For a task that was told to end, [`System::is_killed`] returns true. Its waits return at once, and its operations
//!   may fail, so loops check for it. If a user interrupts the run, all tasks are told to end, the main task too.
//! * Methods that only some grounds support have a default that returns nothing: [`System::profile`],
//!   [`System::take_disk_samples`], [`System::engine_view`] and the network ([`System::send`]).
//!
//! Each ground has its own preparation before a workload (old page cache, a memory limit) and its own checks
//! afterwards: see `grounds::simulation`. [`conformance`] is the suite that every ground passes.
//!
//! Next: [`contents`], then [`crate::workload`], the trait of workloads that run on this interface.

pub mod conformance;

use ::sim::Rng;
pub use engine::ReadPattern;
use engine::Unacknowledged;
pub use engine::anonymous::{MapMode, Sharing};
use engine::memory::{Block, Gfp, Limit};
use engine::stat::Vmstat;
use figures::engine_view::EngineView;
use figures::scale::Scale;
use figures::usage::{CpuTimes, DiskSample, Faults};
pub use kit::contents;
use kit::contents::{Kept, WrongContents};
use kit::progress::Progress;
pub use machine::pressure::Pressure;
use machine::{FrameNumber, Nanos, Order, PAGE_BYTES};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

/// The cause of a failed operation, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SystemError(pub String);

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SystemError {}

impl From<WrongContents> for SystemError {
    fn from(error: WrongContents) -> Self {
        Self(error.0)
    }
}

/// The parameters of a run that do not depend on the ground. They are equal for all tasks of the run.
#[derive(Clone, Debug)]
pub struct Given {
    /// The random seed.
    pub seed: u64,
    /// Factor by which the sizes of the run are multiplied.
    pub scale: Scale,
    /// The run reports its progress here.
    pub progress: Progress,
}

/// Words of memory that a task shares with the tasks that it starts ([`System::share_words`]).
pub type SharedWords = Arc<dyn Deref<Target = [AtomicU32]> + Send + Sync>;

/// A page of a file that is held, so that it can be neither freed nor moved. Only [`System::release_page`] releases the
/// page; if this value is dropped instead, the page is held for ever.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct HeldPage(
    /// The held page's frame.
    pub FrameNumber,
);

/// A trigger on pressure that [`System::pressure_trigger`] has set for a task. Dropping this value removes the trigger.
pub struct PressureTrigger(Box<WaitForPressure>);

/// A function that waits for an event for at most the given time. Returns whether there was an event.
type WaitForPressure = dyn FnMut(Nanos) -> Result<bool, SystemError>;

impl PressureTrigger {
    /// Makes a trigger from the function that waits for the trigger's events. Implementations of [`System`] call this
    /// function.
    #[must_use]
    pub fn new(wait: impl FnMut(Nanos) -> Result<bool, SystemError> + 'static) -> Self {
        Self(Box::new(wait))
    }

    /// Waits for an event of the trigger for at most `time`. Returns whether there was an event. Returns `false` if the
    /// task is told to end. If an event came before this call, returns at once.
    ///
    /// # Errors
    /// When the system no longer watches the pressure, because the group was removed.
    pub fn wait(&mut self, time: Nanos) -> Result<bool, SystemError> {
        (self.0)(time)
    }
}

/// Advice on the use of a file (`posix_fadvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The file will be read in this pattern. The advice holds for all reads of the handle.
    Pattern(ReadPattern),
    /// The range will be read soon: the system starts to read it.
    WillNeed,
    /// The range is not needed any more: the system drops its clean pages.
    DontNeed,
}

/// A system with memory, files and tasks, as one task sees it.
///
/// A page has [`PAGE_BYTES`] bytes on every system.
pub trait System: Sized + 'static {
    /// A handle of an open file. It belongs to one task.
    type File;
    /// Memory that one task has mapped: anonymous, or from a file.
    type Region;
    /// A started task.
    type Task;

    /// Returns the seed, scale and progress of this run.
    fn given(&self) -> &Given;

    /// Returns random generator number `stream` of this run. A workload gives each of its tasks a stream of its own.
    fn rng(&self, stream: u64) -> Rng {
        Rng::new(self.given().seed, stream)
    }

    /// Announces the time, by [`System::now`], at which the run is expected to end, so that users see the remaining
    /// time.
    fn expect_end(&self, at: Nanos) {
        self.given().progress.set_total_ns(at.0);
    }

    /// Returns the time since the system started, in virtual or monotonic time.
    fn now(&self) -> Nanos;
    /// Gives the present moment a name that records of memory over time show. Marks do not change the run.
    fn mark(&self, name: &'static str) {
        let _ = name;
    }
    /// Sleeps for `time`. If the task is told to end, before or during the sleep, the sleep ends at once.
    fn sleep(&self, time: Nanos);
    /// Keeps a CPU busy for `time`, as a computation does.
    fn compute(&self, time: Nanos);

    /// Starts a task. Its body may run on another thread.
    fn spawn(&self, name: &str, body: impl FnOnce(&Self) + Send + 'static) -> Self::Task;
    /// Waits until a task has ended.
    fn join(&self, task: &Self::Task);
    /// Tells a task to end. In that task, [`System::is_killed`] then returns true.
    fn kill(&self, task: &Self::Task);
    /// Returns whether this task has been told to end.
    fn is_killed(&self) -> bool;

    /// Starts a task whose body returns a result. [`Started::join`] returns this result.
    fn start<T: Send + 'static>(&self, name: &str, body: impl FnOnce(&Self) -> T + Send + 'static) -> Started<Self, T> {
        let found = Arc::new(Mutex::new(Found::Nothing));
        let cell = found.clone();
        let task = self.spawn(name, move |system| {
            let result = body(system);
            *cell.lock().expect("nothing panics with it") = Found::Result(result);
        });
        Started { name: name.to_owned(), task, found }
    }

    /// Returns `count` words of zeroes that this task shares with all tasks that it starts later, also with those that
    /// it forks.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size.
    fn share_words(&self, count: usize) -> Result<SharedWords, SystemError> {
        Ok(Arc::new((0..count).map(|_| AtomicU32::new(0)).collect::<Box<[_]>>()))
    }

    /// `true` if the system can fork ([`System::fork`]).
    const FORKS: bool = false;

    /// Starts a task as a process of its own, which has a copy of anonymous regions of this task as they are now
    /// (`fork`). No page is copied before one of the two writes to it. `body` gets the copies in the order of
    /// `regions`; it unmaps them. It has no other region.
    ///
    /// The process shares with this one only files and the words of [`System::share_words`], and has its own copy of
    /// what `body` captures. So its result is bytes. `ended` gets them in this process; it gets none if the process was
    /// killed, or `body` panicked. Then [`System::join`] panics, too.
    ///
    /// Other threads of this process do not exist in the new one. So `body` must take no lock that they use, start no
    /// task and print nothing, and what it captures must do no harm if it is dropped in both processes.
    ///
    /// # Errors
    /// When memory for the page tables is exhausted, the system cannot fork, or this task was forked itself.
    fn fork(
        &self,
        name: &str,
        regions: &[&Self::Region],
        body: impl FnOnce(&Self, Vec<Self::Region>) -> Vec<u8> + Send + 'static,
        ended: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
    ) -> Result<Self::Task, SystemError> {
        let _ = (name, regions, body, ended);
        Err(SystemError("this ground cannot fork: all tasks are one process".into()))
    }

    /// Forks as [`System::fork`] does. [`Started::join_unless_killed`] returns the result of the body, which is handed
    /// over as JSON: it must have no numbers that are NaN or infinite, and no maps with keys other than text and
    /// numbers.
    ///
    /// # Errors
    /// When [`System::fork`] fails.
    ///
    /// # Panics
    /// The new process panics if JSON cannot represent the result.
    fn fork_and_return<T: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        regions: &[&Self::Region],
        body: impl FnOnce(&Self, Vec<Self::Region>) -> T + Send + 'static,
    ) -> Result<Started<Self, T>, SystemError> {
        let found = Arc::new(Mutex::new(Found::Nothing));
        let cell = found.clone();
        let body =
            |system: &Self, regions| serde_json::to_vec(&body(system, regions)).expect("JSON represents the result");
        let task = self.fork(name, regions, body, move |bytes| {
            let result = bytes.map(|bytes| serde_json::from_slice(&bytes).expect("JSON represents the result"));
            *cell.lock().expect("nothing panics with it") = result.map_or(Found::Killed, Found::Result);
        })?;
        Ok(Started { name: name.to_owned(), task, found })
    }

    /// Returns the names of the memory control groups that belong to one section `[[group]]` of the machine file: the
    /// section with the name `name`. The result is `name` itself, or `name-0`, `name-1` and so on if the section has a
    /// `count`.
    ///
    /// # Errors
    /// When the machine file has no such section, or the system has no control groups.
    fn group_names(&self, name: &str) -> Result<Vec<String>, SystemError> {
        Err(SystemError(format!("no [[group]] `{name}`: this system has no control groups")))
    }

    /// Sets the `oom_score_adj` of this task, and of tasks that it starts: a value from -1000 (never killed) to 1000
    /// (killed first). Does nothing on real kernels, where most tasks are threads of one process.
    fn set_oom_score_adj(&self, adj: i16) {
        let _ = adj;
    }

    /// Moves this task to the memory control group `name` of the machine file; `None` is the root group. Pages that the
    /// task uses first after the move are charged to that group.
    ///
    /// # Errors
    /// When there is no such group, or the system has no groups.
    fn enter_group(&self, name: Option<&str>) -> Result<(), SystemError> {
        let _ = name;
        Err(SystemError("this ground has no memory control groups".into()))
    }

    /// Says that the workload's measured part begins. The rows of memory control groups then count only what happens
    /// after it. A workload that never says so is measured as a whole; if it says so again, the last time counts.
    fn begin_measured(&self) {}

    /// Says that the workload's measured part ends. A workload that does not say so is measured until it ends.
    fn end_measured(&self) {}

    /// Reclaims pages of a group and its descendants, as a write to `memory.reclaim` does. `swappiness` takes the place
    /// of `vm.swappiness` if it is given. Returns whether the requested number of pages was freed.
    ///
    /// # Errors
    /// When there is no such group, or the system has no groups or no file `memory.reclaim`.
    fn reclaim_group(&self, name: &str, pages: u64, swappiness: Option<u64>) -> Result<bool, SystemError> {
        let _ = (name, pages, swappiness);
        Err(SystemError("this ground has no memory control groups".into()))
    }

    /// Returns the figures of a group: those of `memory.stat` and `memory.events` under the names that they have there,
    /// and `memory.current`. Returns none if the system has no groups.
    ///
    /// # Errors
    /// When there is no such group.
    fn group_stat(&self, name: &str) -> Result<Option<Vmstat>, SystemError> {
        let _ = name;
        Ok(None)
    }

    /// Sets a limit or a protection of a group to `pages`, as a write to the file of `limit` does; `u64::MAX` stands
    /// for `max`.
    ///
    /// # Errors
    /// When there is no such group, or the system has no groups or refuses the value.
    fn set_group_limit(&self, name: &str, limit: Limit, pages: u64) -> Result<(), SystemError> {
        let _ = (name, limit, pages);
        Err(SystemError("this ground has no memory control groups".into()))
    }

    /// Kills all processes of a group and its descendants, as a write to `cgroup.kill` does.
    ///
    /// # Errors
    /// When there is no such group, or the system cannot kill it.
    fn kill_group(&self, name: &str) -> Result<(), SystemError> {
        let _ = name;
        Err(SystemError("this ground cannot kill a memory control group: all tasks are one process".into()))
    }

    /// Returns the size of swap and its free part, pages; none if the system does not report them.
    fn swap_pages(&self) -> Option<[u64; 2]> {
        None
    }

    /// Returns the pressure on memory (PSI) of a group with its descendants. With `None` as `group`, returns the
    /// pressure of the whole system. Returns none if the system does not report PSI.
    ///
    /// # Errors
    /// When there is no such group, or its file cannot be read.
    fn pressure(&self, group: Option<&str>) -> Result<Option<Pressure>, SystemError> {
        let _ = group;
        Ok(None)
    }

    /// Sets a trigger on the pressure of a group, or of the whole system for `None`. `trigger` is the text that is
    /// written to a file of PSI, such as `some 150000 1000000`: the line (`some` or `full`), a stall time in us, and
    /// the length of a window in us. An event occurs when tasks have stalled for this time within a window, at most
    /// once in a window. This task can then wait for the events.
    ///
    /// # Errors
    /// When `trigger` is no trigger, there is no such group, or the system has no triggers.
    fn pressure_trigger(&self, group: Option<&str>, trigger: &str) -> Result<PressureTrigger, SystemError> {
        let _ = (group, trigger);
        Err(SystemError("this ground has no triggers on pressure".into()))
    }

    /// Returns the number of pages of memory that the system manages.
    fn memory_pages(&self) -> u64;
    /// Returns the number of free pages.
    fn free_pages(&self) -> u64;
    /// Returns the number of free pages that reclaim aims at now, the high mark; none if the system does not report it.
    fn high_mark_pages(&self) -> Option<u64> {
        None
    }

    /// Makes a file of `pages` pages on the device, with no page in memory. The contents are unspecified. Returns
    /// `false` if the system cannot make such files; the caller then has to write the file.
    ///
    /// # Errors
    /// When a file of this name exists, or the device is full.
    fn import(&self, name: &str, pages: u64) -> Result<bool, SystemError> {
        let _ = (name, pages);
        Ok(false)
    }
    /// Creates an empty file and opens it.
    ///
    /// # Errors
    /// When a file of this name exists, or memory is exhausted.
    fn create(&self, name: &str) -> Result<Self::File, SystemError>;
    /// Opens an existing file of this system for this task. Returns a new handle.
    ///
    /// # Errors
    /// When there is no file of this name.
    fn open(&self, name: &str) -> Result<Self::File, SystemError>;
    /// Returns the length of a file, bytes.
    fn length(&self, file: &Self::File) -> u64;
    /// Writes to a file, and extends it if needed.
    ///
    /// # Errors
    /// When memory is exhausted, the device fails or is full, or the task was killed.
    fn write(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> Result<(), SystemError>;
    /// Reads from a file. Returns the number of bytes read, which is smaller than the length of `bytes` only at the end
    /// of the file.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    fn read(&self, file: &mut Self::File, offset: u64, bytes: &mut [u8]) -> Result<usize, SystemError>;
    /// Announces that the task will read at random offsets through the handle `file`. The system then does no readahead
    /// for the handle.
    fn expect_random_reads(&self, file: &mut Self::File);
    /// Gives advice on a range of bytes of a file. A system may ignore advice.
    ///
    /// # Errors
    /// When the system refuses the range.
    fn advise(&self, file: &mut Self::File, advice: Advice, range: Range<u64>) -> Result<(), SystemError>;
    /// Starts to read one page of a file into memory, if it is not there, and does not wait for the read to end. A
    /// later [`System::read`] finds the page in memory or in flight.
    ///
    /// # Errors
    /// When the system cannot start a read without waiting for it.
    fn start_read(&self, file: &mut Self::File, page: u64) -> Result<(), SystemError>;
    /// Calls `read` with the contents of one page of a file, in place and without a copy. Returns the result of `read`.
    /// Bytes after the end of the file are zeroes. The caller makes sure that no task writes the page until `read`
    /// returns, since not every ground blocks writers.
    ///
    /// # Errors
    /// When memory is exhausted, the device fails, or the page lies after the end of the file.
    fn read_in_place<R>(
        &self,
        file: &mut Self::File,
        page: u64,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, SystemError>;
    /// Sets the length of a file to `bytes`. Data after the new end are dropped; added bytes read as zeroes.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    fn set_length(&self, file: &Self::File, bytes: u64) -> Result<(), SystemError>;
    /// Returns whether this system supports [`System::map_file`].
    fn maps_files(&self) -> bool {
        false
    }
    /// Maps pages of a file. The returned region is touched, stored to and loaded from like anonymous memory. The file
    /// must not be removed before the region is unmapped. A touch after the end of the file fails.
    ///
    /// # Errors
    /// When memory is exhausted, or the system cannot map files.
    fn map_file(&self, file: &Self::File, pages: Range<u32>, mode: MapMode) -> Result<Self::Region, SystemError> {
        let _ = (file, pages, mode);
        Err(SystemError("files cannot be mapped on this ground".into()))
    }
    /// Waits until everything written to a file is on the device.
    ///
    /// # Errors
    /// When some data could not be written.
    fn sync(&self, file: &Self::File) -> Result<(), SystemError>;
    /// Removes a file. Open handles of the file can no longer be used.
    ///
    /// # Errors
    /// When there is no file of this name.
    fn remove(&self, name: &str) -> Result<(), SystemError>;
    /// Drops the clean pages of this system's files from memory, so that later reads go to the device.
    ///
    /// # Errors
    /// When the system does not permit it.
    fn drop_caches(&self) -> Result<(), SystemError>;

    /// Maps anonymous memory of zeroes in pieces smaller than a huge page, as an allocator of small chunks does.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size.
    fn map(&self, pages: u32) -> Result<Self::Region, SystemError>;
    /// Maps anonymous memory of zeroes, aligned so that it may have huge pages, as an allocator of large arrays does.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size, or the system has no memory with huge pages.
    fn map_huge(&self, pages: u32) -> Result<Self::Region, SystemError> {
        let _ = pages;
        Err(SystemError("memory with huge pages cannot be mapped on this ground".into()))
    }
    /// Touches a page once, as a sample that stands for `times` touches. The touch costs `times` address translations;
    /// all other costs are those of a single touch.
    ///
    /// # Errors
    /// When memory is exhausted, swap fails, or the task was killed.
    fn touch_sample(&self, region: &Self::Region, page: u32, write: bool, times: u32) -> Result<(), SystemError> {
        let _ = times;
        self.touch(region, page..page + 1, write)
    }
    /// Says that the task will touch a page soon, so that the simulator's search for the page overlaps with other work.
    /// The run is the same without this call.
    #[inline]
    fn expect_touch(&self, region: &Self::Region, page: u32) {
        let _ = (region, page);
    }
    /// Touches consecutive pages, like a program that reads or writes one byte of each page. Contents do not change,
    /// except that writes may change the last byte of each page of anonymous memory.
    ///
    /// # Errors
    /// When memory is exhausted, swap fails, or the task was killed.
    fn touch(&self, region: &Self::Region, pages: Range<u32>, write: bool) -> Result<(), SystemError>;
    /// Stores bytes into a region.
    ///
    /// # Errors
    /// When memory is exhausted, swap fails, or the task was killed.
    fn store(&self, region: &Self::Region, offset: u64, bytes: &[u8]) -> Result<(), SystemError>;
    /// Loads bytes from a region.
    ///
    /// # Errors
    /// When memory is exhausted, swap fails, or the task was killed.
    fn load(&self, region: &Self::Region, offset: u64, bytes: &mut [u8]) -> Result<(), SystemError>;
    /// Unmaps a region.
    fn unmap(&self, region: Self::Region);

    /// Returns how much of the contents of files and regions this run keeps.
    fn kept(&self) -> Kept;

    /// Returns the faults of this task so far.
    fn faults(&self) -> Faults;
    /// Returns the CPU time of all tasks so far.
    fn cpu_times(&self) -> CpuTimes;
    /// Returns the system's counters and gauges under their kernel names. A figure that the system does not have is
    /// missing.
    fn vmstat(&self) -> Vmstat;

    /// Returns the number of pages that were read from devices for this system's tasks so far, readahead included; none
    /// if the system cannot separate these reads from the reads of others.
    fn pages_read_in(&self) -> Option<u64> {
        self.vmstat().get("pgpgin").map(|kib| kib * 1024 / PAGE_BYTES as u64)
    }

    /// Sends `_bytes` bytes over the network. The data stay in the kernel's memory until [`System::acknowledge`] is
    /// called with the returned value. A system without a network sends nothing.
    ///
    /// # Errors
    /// When memory is exhausted.
    fn send(&self, _bytes: u64) -> Result<Unacknowledged, SystemError> {
        Ok(Unacknowledged::default())
    }

    /// Acknowledges data that was sent; its memory is then freed. Has no effect on a system without a network.
    fn acknowledge(&self, _sent: Unacknowledged) {}

    /// Allocates a block of 2^`order` pages, as a kernel module does. Returns none if the kernel refuses.
    /// [`System::give_block_back`] frees the block.
    ///
    /// # Errors
    /// When the system has no blocks.
    fn take_block(&self, gfp: Gfp, order: Order) -> Result<Option<Block>, SystemError> {
        let _ = (gfp, order);
        Err(SystemError("blocks of memory cannot be asked for on this ground".into()))
    }

    /// Frees a block of memory that [`System::take_block`] allocated. Has no effect on a system without such blocks.
    fn give_block_back(&self, _block: Block) {}

    /// Looks up the directory entry and inode of file number `number`, a file without contents. Returns `true` if the
    /// inode was not in memory before.
    ///
    /// # Errors
    /// When memory is exhausted, or the system has no files without contents.
    fn look_up(&self, number: u32) -> Result<bool, SystemError> {
        let _ = number;
        Err(SystemError("there are no files but those that were made on this ground".into()))
    }

    /// Drops clean file pages, as [`System::drop_caches`] does, and also unused inodes and directory entries.
    ///
    /// # Errors
    /// When the system does not permit it.
    fn drop_caches_and_slabs(&self) -> Result<(), SystemError> {
        Err(SystemError("inodes cannot be dropped on this ground".into()))
    }

    /// Sets the sysctl `min_free_kbytes`. Returns its previous value.
    ///
    /// # Errors
    /// When the system does not permit it.
    fn set_min_free_kbytes(&self, kib: u64) -> Result<u64, SystemError> {
        let _ = kib;
        Err(SystemError("`min_free_kbytes` cannot be set on this ground".into()))
    }

    /// Reads a page of a file and holds it until [`System::release_page`] is called. Tasks that write the page wait
    /// meanwhile.
    ///
    /// # Errors
    /// When memory is exhausted, the device fails, the page lies after the end of the file, or the system cannot hold
    /// pages.
    fn hold_page(&self, file: &mut Self::File, page: u64) -> Result<HeldPage, SystemError> {
        let _ = (file, page);
        Err(SystemError("pages cannot be held on this ground".into()))
    }

    /// Releases a page that [`System::hold_page`] has returned. The page's file may have been removed meanwhile. Has no
    /// effect on a system that cannot hold pages.
    fn release_page(&self, _page: HeldPage) {}

    /// Returns the CPU time that each call path has taken so far, by path. A path is written `task;func;func`. The map
    /// is empty if the system does not measure CPU time.
    fn profile(&self) -> BTreeMap<String, Nanos> {
        BTreeMap::new()
    }
    /// Returns the time spent spinning for locks so far, by call path (as in [`System::profile`]) and class of lock;
    /// empty if the system does not measure it.
    fn lock_waits(&self) -> BTreeMap<(String, &'static str), Nanos> {
        BTreeMap::new()
    }
    /// Returns the iostat samples of the device that holds the files, as far as no earlier call has returned them.
    fn take_disk_samples(&self) -> Vec<DiskSample> {
        Vec::new()
    }
    /// Returns the simulated machine on which this system runs; none if the machine is not simulated.
    fn machine_view(&self) -> Option<&::sim::Sim> {
        None
    }
    /// Returns the engine on which this system runs; none if the system does not show its engine. Only the simulator
    /// shows it.
    fn engine_view(&self) -> Option<&dyn EngineView> {
        None
    }
}

/// The result of a task.
enum Found<T> {
    /// The task has not ended, or it has panicked.
    Nothing,
    /// The task is a process of its own, and was killed or panicked before it had a result.
    Killed,
    Result(T),
}

impl<T> Found<T> {
    fn take(&mut self) -> Option<T> {
        match std::mem::replace(self, Self::Nothing) {
            Self::Result(result) => Some(result),
            Self::Nothing | Self::Killed => None,
        }
    }
}

/// A task started by [`System::start`] or [`System::fork_and_return`].
pub struct Started<S: System, T> {
    name: String,
    task: S::Task,
    found: Arc<Mutex<Found<T>>>,
}

impl<S: System, T> Started<S, T> {
    /// Waits until the task has ended. Returns its result.
    ///
    /// # Panics
    /// When the task panicked, or its process was killed.
    pub fn join(self, system: &S) -> T {
        system.join(&self.task);
        let found = self.found.lock().expect("nothing panics with it").take();
        found.unwrap_or_else(|| panic!("task `{}` panicked or was killed", self.name))
    }

    /// Waits until the task has ended, and returns its result. Returns `None` if the task's process was killed, or the
    /// calling task is told to end before that.
    ///
    /// # Panics
    /// When the task is a process of its own, and panicked.
    pub fn join_unless_killed(self, system: &S) -> Option<T> {
        system.join(&self.task);
        self.found.lock().expect("nothing panics with it").take()
    }

    /// Returns whether the task has its result, or was a process that was killed or panicked. A wait for the task is
    /// then short.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !matches!(*self.found.lock().expect("nothing panics with it"), Found::Nothing)
    }

    /// Tells the task to end.
    pub fn kill(&self, system: &S) {
        system.kill(&self.task);
    }
}

/// Returns the number of bytes in `pages` pages.
#[must_use]
pub const fn page_bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES as u64
}
