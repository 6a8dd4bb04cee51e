//! Types for the CPU time, page faults and disk statistics of a run, whether a simulator or a real kernel measured
//! them.

use machine::Nanos;

/// Numbers of page faults of a task, and the time that the task waited in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Number of faults without I/O.
    pub minor: u64,
    /// Number of faults that waited for I/O.
    pub major: u64,
    /// Time that the task waited in major faults; 0 if it was not measured, as on a real kernel.
    pub major_wait: Nanos,
}

impl Faults {
    /// Returns the numbers of faults since the measurement `earlier`, and the time waited since then.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            minor: self.minor - earlier.minor,
            major: self.major - earlier.major,
            major_wait: self.major_wait.since(earlier.major_wait),
        }
    }
}

/// CPU time of all tasks of a run, in programs and in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// CPU time spent in programs.
    pub user: Nanos,
    /// CPU time spent in the kernel, or in the engine that takes the kernel's place.
    pub system: Nanos,
}

impl CpuTimes {
    /// Returns the CPU time used since the measurement `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user.since(earlier.user), system: self.system.since(earlier.system) }
    }
}

/// One sample of iostat for one device. Its values are averages over an interval, which is 10 s in MMTests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskSample {
    /// Mean number of requests in the queue and on the device.
    pub avgqz: f64,
    /// Mean time from submission to completion over all requests, ms; 0 if there were no requests.
    pub await_ms: f64,
    /// Mean time of a read, ms.
    pub r_await_ms: f64,
    /// Mean time of a write, ms.
    pub w_await_ms: f64,
}
