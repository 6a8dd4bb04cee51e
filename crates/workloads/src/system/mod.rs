//! The view that a workload has of the ground that it runs on.
//!
//! A workload is written once, against [`System`]; a *ground* implements it: `sim`, in virtual time; `host`, the
//! engine on real memory and threads; `linux`, the kernel of the computer at hand. So nothing here assumes a simulator:
//!
//! * Each task has a `System` of its own, which [`System::spawn`] makes. It may be a thread: what goes into a
//!   task is `Send`, what it finds comes back by [`Started::join`].
//! * Files are shared by name: each task opens its own handle, which keeps its readahead. A region belongs to
//!   the task that mapped it.
//! * Contents are real as far as the ground keeps them ([`System::kept`]): [`contents`] makes and verifies them.
//! * Chance comes from [`System::rng`], time from [`System::now`], never from elsewhere: on `sim` the same seed
//!   then gives the same bytes.
//! * A task that was told to end finds [`System::is_killed`] true, its waits return at once, and operations may
//!   fail: loops ask. Where a user can interrupt the run, all tasks are told, the main one too.
//! * What only some grounds can tell has a default that says nothing: [`System::profile`],
//!   [`System::take_disk_samples`], [`System::engine_view`]; so has a network ([`System::send`]).
//!
//! What a ground prepares before a workload begins (old page cache, a memory limit) and what it checks
//! afterwards is its own: see `grounds::simulation`. [`conformance`] is the suite that every ground passes.
//!
//! Next: [`contents`], then [`crate::workload`], who runs on it.

pub mod conformance;

use ::sim::Rng;
use engine::Unacknowledged;
pub use engine::anonymous::{MapMode, Sharing};
use engine::memory::{Block, Gfp};
use engine::stat::Vmstat;
use figures::engine_view::EngineView;
use figures::scale::Scale;
use figures::usage::{CpuTimes, DiskSample, Faults};
pub use kit::contents;
use kit::contents::{Kept, WrongContents};
use kit::progress::Progress;
use machine::{FrameNumber, Nanos, Order, PAGE_BYTES};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Why an operation failed, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The parts of a run beside its system; every task of it sees the same.
#[derive(Clone, Debug)]
pub struct Given {
    /// The random seed.
    pub seed: u64,
    /// By how much the run is made smaller.
    pub scale: Scale,
    /// The progress, for whoever watches.
    pub progress: Progress,
}

/// A page of a file that is held where it is: it can be neither freed nor moved. Dropping it holds the page for ever: see
/// [`System::release_page`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct HeldPage(
    /// Its frame.
    pub FrameNumber,
);

/// A system with memory, files and tasks, as one task sees it.
///
/// A page is [`PAGE_BYTES`] on every ground.
pub trait System: Sized + 'static {
    /// An open file: one task's handle.
    type File;
    /// Memory of one task: anonymous, or of a mapped file.
    type Region;
    /// A task to wait for.
    type Task;

    /// Returns the parts of this run beside its system.
    fn given(&self) -> &Given;

    /// The generator number `stream` of this run; a workload gives each of its tasks a stream of its own.
    fn rng(&self, stream: u64) -> Rng {
        Rng::new(self.given().seed, stream)
    }

    /// Says when, by [`System::now`], the run will end, if that is known: who watches is told what is left.
    fn expect_end(&self, at: Nanos) {
        self.given().progress.set_total_ns(at.0);
    }

    /// Time since the system started: virtual or of a clock that only goes on.
    fn now(&self) -> Nanos;
    /// Says that the run is at a place that who records memory wants to see, called `name`. The run is the same without.
    fn mark(&self, name: &'static str) {
        let _ = name;
    }
    /// Sleeps; a task that is killed meanwhile, or was, returns at once.
    fn sleep(&self, time: Nanos);
    /// Computes: uses a CPU for `time`.
    fn compute(&self, time: Nanos);

    /// Starts a task. Its body may run on another thread.
    fn spawn(&self, name: &str, body: impl FnOnce(&Self) + Send + 'static) -> Self::Task;
    /// Waits until a task has ended.
    fn join(&self, task: &Self::Task);
    /// Tells a task to end.
    fn kill(&self, task: &Self::Task);
    /// Has this task been told to end?
    fn is_killed(&self) -> bool;

    /// Starts a task that finds something.
    fn start<T: Send + 'static>(&self, name: &str, body: impl FnOnce(&Self) -> T + Send + 'static) -> Started<Self, T> {
        let found = Arc::new(Mutex::new(None));
        let cell = found.clone();
        let task = self.spawn(name, move |system| {
            let result = body(system);
            *cell.lock().expect("nothing panics with it") = Some(result);
        });
        Started { name: name.to_owned(), task, found }
    }

    /// Memory that the system manages, pages.
    fn memory_pages(&self) -> u64;
    /// Free memory, pages.
    fn free_pages(&self) -> u64;
    /// Free pages that reclaim aims at, now; none where the ground does not tell.
    fn high_mark_pages(&self) -> Option<u64> {
        None
    }

    /// Makes a file of `pages` pages whose contents are on the device and not in memory, and say nothing. False where the ground
    /// has no such files: there they are written.
    ///
    /// # Errors
    /// When there is one of that name, or the device is full.
    fn import(&self, name: &str, pages: u64) -> Result<bool, SystemError> {
        let _ = (name, pages);
        Ok(false)
    }
    /// Creates an empty file, open.
    ///
    /// # Errors
    /// When there is one of that name, or memory is exhausted.
    fn create(&self, name: &str) -> Result<Self::File, SystemError>;
    /// Opens a file of this system once more, for this task.
    ///
    /// # Errors
    /// When there is none of that name.
    fn open(&self, name: &str) -> Result<Self::File, SystemError>;
    /// Length of a file, bytes.
    fn length(&self, file: &Self::File) -> u64;
    /// Writes to a file, extending it if need be.
    ///
    /// # Errors
    /// When memory is exhausted, the device fails or is full, or the task was killed.
    fn write(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> Result<(), SystemError>;
    /// Reads from a file; returns the bytes read, fewer than asked for only at its end.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    fn read(&self, file: &mut Self::File, offset: u64, bytes: &mut [u8]) -> Result<usize, SystemError>;
    /// Says that this handle will read at random places: nothing is to be read ahead for it.
    fn expect_random_reads(&self, file: &mut Self::File);
    /// Starts to read one page of a file, if it is not in memory, and does not wait for it: whoever reads it later finds it there
    /// or on its way.
    ///
    /// # Errors
    /// When the ground has no such reads.
    fn start_read(&self, file: &mut Self::File, page: u64) -> Result<(), SystemError>;
    /// Reads one page of a file where it lies in memory, without a copy; what lies after the end of the file is zeroes.
    /// Nobody may write the page until `read` returns: not every ground keeps writers away.
    ///
    /// # Errors
    /// As [`System::read`], and when the page lies after the end.
    fn read_in_place<R>(
        &self,
        file: &mut Self::File,
        page: u64,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, SystemError>;
    /// Makes a file `bytes` long: what lies after that is gone, what is added reads as zeroes.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    fn set_length(&self, file: &Self::File, bytes: u64) -> Result<(), SystemError>;
    /// Does this ground have [`System::map_file`]?
    fn maps_files(&self) -> bool {
        false
    }
    /// Maps pages of a file, so that they are touched, stored to and loaded from as memory is; the file must not be
    /// removed before that is unmapped. A touch after the end of the file fails.
    ///
    /// # Errors
    /// When memory is exhausted, or the ground cannot map files.
    fn map_file(&self, file: &Self::File, pages: Range<u32>, mode: MapMode) -> Result<Self::Region, SystemError> {
        let _ = (file, pages, mode);
        Err(SystemError("files cannot be mapped on this ground".into()))
    }
    /// Waits until what was written is on the device.
    ///
    /// # Errors
    /// When something could not be written.
    fn sync(&self, file: &Self::File) -> Result<(), SystemError>;
    /// Removes a file; open handles can no longer be used.
    ///
    /// # Errors
    /// When there is none of that name.
    fn remove(&self, name: &str) -> Result<(), SystemError>;
    /// Drops the clean pages of this system's files from memory, so that reading them goes to the device.
    ///
    /// # Errors
    /// When the ground does not permit it.
    fn drop_caches(&self) -> Result<(), SystemError>;

    /// Maps anonymous memory that holds zeroes, in pieces smaller than a huge page, as an allocator of small
    /// chunks does.
    ///
    /// # Errors
    /// When there is no room for it in the address space.
    fn map(&self, pages: u32) -> Result<Self::Region, SystemError>;
    /// Maps anonymous memory that holds zeroes, aligned so that it may have huge pages, as an allocator of large arrays does.
    ///
    /// # Errors
    /// When there is no room for it in the address space, or the ground has no such memory.
    fn map_huge(&self, pages: u32) -> Result<Self::Region, SystemError> {
        let _ = pages;
        Err(SystemError("memory with huge pages cannot be mapped on this ground".into()))
    }
    /// Touches a page as [`System::touch`] does, as one of `times` touches of other pages like it: what the processor takes to
    /// find the page counts so often, and the rest once.
    ///
    /// # Errors
    /// As [`System::touch`].
    fn touch_sample(&self, region: &Self::Region, page: u32, write: bool, times: u32) -> Result<(), SystemError> {
        let _ = times;
        self.touch(region, page..page + 1, write)
    }
    /// Touches consecutive pages, as a program does by reading or writing a byte of each; contents stay.
    ///
    /// # Errors
    /// When memory is exhausted, swap fails, or the task was killed.
    fn touch(&self, region: &Self::Region, pages: Range<u32>, write: bool) -> Result<(), SystemError>;
    /// Puts bytes into a region.
    ///
    /// # Errors
    /// As [`System::touch`].
    fn store(&self, region: &Self::Region, offset: u64, bytes: &[u8]) -> Result<(), SystemError>;
    /// Gets bytes out of a region.
    ///
    /// # Errors
    /// As [`System::touch`].
    fn load(&self, region: &Self::Region, offset: u64, bytes: &mut [u8]) -> Result<(), SystemError>;
    /// Unmaps a region.
    fn unmap(&self, region: Self::Region);

    /// Returns the part of the contents of files and regions that this run keeps.
    fn kept(&self) -> Kept;

    /// This task's faults so far.
    fn faults(&self) -> Faults;
    /// CPU time of all tasks so far.
    fn cpu_times(&self) -> CpuTimes;
    /// Counters and gauges under their kernel names; a name that the ground does not have is missing.
    fn vmstat(&self) -> Vmstat;

    /// Pages that this system's tasks have had read from devices so far, readahead included; none where the ground
    /// cannot tell them from what others read.
    fn pages_read_in(&self) -> Option<u64> {
        self.vmstat().get("pgpgin").map(|kib| kib * 1024 / PAGE_BYTES as u64)
    }

    /// Sends so many bytes over the network; what is returned is in the kernel's memory until [`System::acknowledge`]. A ground
    /// without a network sends nothing.
    ///
    /// # Errors
    /// When memory is exhausted.
    fn send(&self, _bytes: u64) -> Result<Unacknowledged, SystemError> {
        Ok(Unacknowledged::default())
    }

    /// The other side has what was sent. Without effect on a ground without a network.
    fn acknowledge(&self, _sent: Unacknowledged) {}

    /// Asks the kernel for a block of 2^`order` pages, as a module of it does; none when it gives none. It comes back by
    /// [`System::give_block_back`].
    ///
    /// # Errors
    /// When the ground gives no blocks.
    fn take_block(&self, gfp: Gfp, order: Order) -> Result<Option<Block>, SystemError> {
        let _ = (gfp, order);
        Err(SystemError("blocks of memory cannot be asked for on this ground".into()))
    }

    /// Gives a block back. Without effect on a ground that gives none.
    fn give_block_back(&self, _block: Block) {}

    /// Looks up a file of which nobody reads more than its inode and name; `number` says which of them. Returns whether its
    /// inode was not in memory.
    ///
    /// # Errors
    /// When memory is exhausted, or the ground has no such files.
    fn look_up(&self, number: u32) -> Result<bool, SystemError> {
        let _ = number;
        Err(SystemError("there are no files but those that were made on this ground".into()))
    }

    /// Drops what [`System::drop_caches`] does, and the inodes and directory entries that nobody uses.
    ///
    /// # Errors
    /// When the ground does not permit it.
    fn drop_caches_and_slabs(&self) -> Result<(), SystemError> {
        Err(SystemError("inodes cannot be dropped on this ground".into()))
    }

    /// Sets the sysctl `min_free_kbytes`; returns what it was.
    ///
    /// # Errors
    /// When the ground does not permit it.
    fn set_min_free_kbytes(&self, kib: u64) -> Result<u64, SystemError> {
        let _ = kib;
        Err(SystemError("`min_free_kbytes` cannot be set on this ground".into()))
    }

    /// Reads a page of a file and holds it until [`System::release_page`]: whoever wants to write it waits so long.
    ///
    /// # Errors
    /// As [`System::read_in_place`], and when the ground holds no pages.
    fn hold_page(&self, file: &mut Self::File, page: u64) -> Result<HeldPage, SystemError> {
        let _ = (file, page);
        Err(SystemError("pages cannot be held on this ground".into()))
    }

    /// Lets a page go that was held. Its file may have been removed. Without effect on a ground that holds none.
    fn release_page(&self, _page: HeldPage) {}

    /// CPU time so far by call path, `task;func;func`; empty where the ground cannot tell.
    fn profile(&self) -> BTreeMap<String, Nanos> {
        BTreeMap::new()
    }
    /// Time spent spinning for locks so far, by call path, as in [`System::profile`], and class of lock; empty where the ground
    /// cannot tell.
    fn lock_waits(&self) -> BTreeMap<(String, &'static str), Nanos> {
        BTreeMap::new()
    }
    /// Takes the samples of iostat for the device under the files since this was last asked; empty where nobody looked.
    fn take_disk_samples(&self) -> Vec<DiskSample> {
        Vec::new()
    }
    /// The machine under this ground, where it is simulated.
    fn machine_view(&self) -> Option<&::sim::Sim> {
        None
    }
    /// The engine under this ground, where it is ours.
    fn engine_view(&self) -> Option<&dyn EngineView> {
        None
    }
}

/// A task that was started by [`System::start`].
pub struct Started<S: System, T> {
    name: String,
    task: S::Task,
    found: Arc<Mutex<Option<T>>>,
}

impl<S: System, T> Started<S, T> {
    /// Waits until it has ended; returns what it found.
    ///
    /// # Panics
    /// When it panicked.
    pub fn join(self, system: &S) -> T {
        system.join(&self.task);
        let found = self.found.lock().expect("nothing panics with it").take();
        found.unwrap_or_else(|| panic!("task `{}` panicked", self.name))
    }

    /// Tells it to end.
    pub fn kill(&self, system: &S) {
        system.kill(&self.task);
    }
}

/// Bytes of so many pages.
#[must_use]
pub const fn page_bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES as u64
}
