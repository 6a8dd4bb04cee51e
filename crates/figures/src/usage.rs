//! Time, faults and disk samples of a run, as a system tells them.

use machine::Nanos;

/// How a task's faults went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Served without I/O.
    pub minor: u64,
    /// Waited for I/O.
    pub major: u64,
    /// Time spent waiting in major faults; 0 where the ground cannot tell.
    pub major_wait: Nanos,
}

impl Faults {
    /// Returns the times since `earlier`.
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
    /// In programs.
    pub user: Nanos,
    /// In the engine, or the kernel.
    pub system: Nanos,
}

impl CpuTimes {
    /// Returns the time used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user.since(earlier.user), system: self.system.since(earlier.system) }
    }
}

/// The figures of iostat for one device over one interval (MMTests: 10 s).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskSample {
    /// Mean requests in the queue and on the device.
    pub avgqz: f64,
    /// Mean time from submission to completion of all requests, ms; 0 of none.
    pub await_ms: f64,
    /// Mean time of a read, ms.
    pub r_await_ms: f64,
    /// Mean time of a write, ms.
    pub w_await_ms: f64,
}
