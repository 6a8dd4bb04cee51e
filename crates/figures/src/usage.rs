//! CPU time, faults and disk samples of a run, as its system reports them.

use machine::Nanos;

/// Faults of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Faults without I/O.
    pub minor: u64,
    /// Faults that waited for I/O.
    pub major: u64,
    /// Time spent waiting in major faults; 0 if the ground cannot tell.
    pub major_wait: Nanos,
}

impl Faults {
    /// Returns the faults since `earlier`, with the time spent in them.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            minor: self.minor - earlier.minor,
            major: self.major - earlier.major,
            major_wait: self.major_wait.since(earlier.major_wait),
        }
    }
}

/// CPU time of all tasks of a system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// CPU time spent in programs.
    pub user: Nanos,
    /// CPU time spent in the engine or the kernel.
    pub system: Nanos,
}

impl CpuTimes {
    /// Returns the CPU time used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user.since(earlier.user), system: self.system.since(earlier.system) }
    }
}

/// The figures of iostat for one device over one interval (MMTests: 10 s).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskSample {
    /// Mean number of requests in the queue and on the device.
    pub avgqz: f64,
    /// Mean time from submission to completion of all requests, ms; 0 without requests.
    pub await_ms: f64,
    /// Mean time of a read, ms.
    pub r_await_ms: f64,
    /// Mean time of a write, ms.
    pub w_await_ms: f64,
}
