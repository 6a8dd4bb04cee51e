//! How far a run is.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// How far a simulation is; the simulation stores, others look, and may ask it to end.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    now_ns: Arc<AtomicU64>,
    total_ns: Arc<AtomicU64>,
    operations: Arc<AtomicU64>,
    total_operations: Arc<AtomicU64>,
    is_cancelled: Arc<AtomicBool>,
}

impl Progress {
    /// Asks a simulated run to end soon, as a failure.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Is the run to end?
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// The cell that the simulation stores its virtual time into, in nanoseconds.
    #[must_use]
    pub fn clock(&self) -> Arc<AtomicU64> {
        self.now_ns.clone()
    }

    /// Says that virtual time is at `now_ns`.
    pub fn set_now_ns(&self, now_ns: u64) {
        self.now_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Says that the run will end at about `total_ns` of virtual time; 0 if that is not known.
    pub fn set_total_ns(&self, total_ns: u64) {
        self.total_ns.store(total_ns, Ordering::Relaxed);
    }

    /// Says how many operations the workload has done since its start.
    pub fn set_operations(&self, operations: u64) {
        self.operations.store(operations, Ordering::Relaxed);
    }

    /// Operations done; 0 where the workload counts none.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Says that the run will end after so many operations; 0 if that is not known.
    pub fn set_total_operations(&self, operations: u64) {
        self.total_operations.store(operations, Ordering::Relaxed);
    }

    /// Operations at the end; 0 if that is not known.
    #[must_use]
    pub fn total_operations(&self) -> u64 {
        self.total_operations.load(Ordering::Relaxed)
    }

    /// Virtual time, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Virtual time at the end, ns; 0 if it is not known.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.total_ns.load(Ordering::Relaxed)
    }
}
