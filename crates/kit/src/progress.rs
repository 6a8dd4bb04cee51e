//! [`Progress`]: how far a run is, for other threads.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The progress of a run, in virtual time and in operations of the run's workload. The run stores its progress here.
/// Other threads read it, and may ask the run to end. A clone is a handle of the same progress.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    now_ns: Arc<AtomicU64>,
    total_ns: Arc<AtomicU64>,
    operations: Arc<AtomicU64>,
    total_operations: Arc<AtomicU64>,
    is_cancelled: Arc<AtomicBool>,
}

impl Progress {
    /// Asks a simulated run to end soon. The run then ends as if it had failed.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Progress::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Returns the atomic in which the simulator stores the run's virtual time, ns.
    #[must_use]
    pub fn clock(&self) -> Arc<AtomicU64> {
        self.now_ns.clone()
    }

    /// Sets the virtual time that the run has reached, ns.
    pub fn set_now_ns(&self, now_ns: u64) {
        self.now_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Sets the virtual time at which the run will end, ns; 0 if unknown.
    pub fn set_total_ns(&self, total_ns: u64) {
        self.total_ns.store(total_ns, Ordering::Relaxed);
    }

    /// Sets the number of operations that the workload has done since its start.
    #[inline]
    pub fn set_operations(&self, operations: u64) {
        self.operations.store(operations, Ordering::Relaxed);
    }

    /// Returns the number of operations that the workload has done; 0 if the workload does not count operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Sets the number of operations after which the run will end; 0 if unknown.
    pub fn set_total_operations(&self, operations: u64) {
        self.total_operations.store(operations, Ordering::Relaxed);
    }

    /// Returns the number of operations after which the run will end; 0 if unknown.
    #[must_use]
    pub fn total_operations(&self) -> u64 {
        self.total_operations.load(Ordering::Relaxed)
    }

    /// Returns the virtual time that the run has reached, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Returns the virtual time at which the run will end, ns; 0 if unknown.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.total_ns.load(Ordering::Relaxed)
    }
}
