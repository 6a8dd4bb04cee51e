//! What a workload sees of the ground that it runs on.
//!
//! A workload is written once, against [`System`]; `sim` runs it in virtual time ([`sim`]). Files are
//! shared by name; a region belongs to the task that made it.

pub mod sim;

use engine::stat::Vmstat;
use machine::Nanos;
use std::fmt;
use std::ops::Range;

/// Why an operation failed, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemError(pub String);

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SystemError {}

/// How a task's faults went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Served without I/O.
    pub minor: u64,
    /// Waited for I/O.
    pub major: u64,
    /// Time spent waiting in major faults.
    pub major_wait: Nanos,
}

/// CPU time of all tasks of a system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In programs.
    pub user: Nanos,
    /// In the engine.
    pub system: Nanos,
}

impl CpuTimes {
    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user.since(earlier.user), system: self.system.since(earlier.system) }
    }
}

/// A system with memory, files and tasks. Each task has its own; [`System::spawn`] makes it.
pub trait System: Sized + 'static {
    /// An open file.
    type File;
    /// Anonymous memory.
    type Region;
    /// A task to wait for.
    type Task;

    /// Time since the system started.
    fn now(&self) -> Nanos;
    /// Sleeps.
    fn sleep(&self, time: Nanos);
    /// Computes: uses a CPU for `time`.
    fn compute(&self, time: Nanos);
    /// Has this task been told to end?
    fn is_killed(&self) -> bool;

    /// Starts a task.
    fn spawn(&self, name: &str, body: impl FnOnce(&Self) + Send + 'static) -> Self::Task;
    /// Waits until a task has ended.
    fn join(&self, task: &Self::Task);
    /// Tells a task to end.
    fn kill(&self, task: &Self::Task);

    /// Memory that the system manages, pages.
    fn memory_pages(&self) -> u64;
    /// Free memory, pages.
    fn free_pages(&self) -> u64;

    /// Creates an empty file.
    ///
    /// # Errors
    /// When there is one of that name, or memory is exhausted.
    fn create(&self, name: &str) -> Result<Self::File, SystemError>;
    /// Writes to a file.
    ///
    /// # Errors
    /// When memory is exhausted, the device fails, or the task was killed.
    fn write(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> Result<(), SystemError>;
    /// Reads from a file; returns the bytes read.
    ///
    /// # Errors
    /// When memory is exhausted or the device fails.
    fn read(&self, file: &mut Self::File, offset: u64, bytes: &mut [u8]) -> Result<usize, SystemError>;
    /// Waits until what was written is on the device.
    ///
    /// # Errors
    /// When something could not be written.
    fn fsync(&self, file: &Self::File) -> Result<(), SystemError>;
    /// Removes a file.
    ///
    /// # Errors
    /// When there is none of that name.
    fn unlink(&self, name: &str) -> Result<(), SystemError>;

    /// Maps anonymous memory in pieces smaller than a huge page, as an allocator of small chunks does.
    fn map(&self, pages: u32) -> Self::Region;
    /// Touches consecutive pages.
    ///
    /// # Errors
    /// When memory is exhausted, swap fails, or the task was killed.
    fn touch(&self, region: &Self::Region, pages: Range<u32>, write: bool) -> Result<(), SystemError>;
    /// Unmaps a region.
    fn unmap(&self, region: Self::Region);

    /// This task's faults so far.
    fn faults(&self) -> Faults;
    /// Counters and gauges under their kernel names.
    fn vmstat(&self) -> Vmstat;
}
