//! The tasks that the engine itself needs: kswapd, flushers, khugepaged, the reaper of killed processes.
//!
//! *Flow*: the ground (the simulator or the library) asks which tasks there are and starts each with `run_kernel_task`,
//! which returns when the task is killed.
//! *Called by* [`crate::Engine`]. *Locks*: none.

use super::Access;
use crate::memory::NodeId;
use machine::{DeviceId, Machine, Nanos};

/// A task that the engine itself needs. The simulator or the library starts each of them once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTask {
    /// The kswapd of a node, which reclaims the node's memory.
    Kswapd(NodeId),
    /// The flusher of a device, which writes dirty pages to it.
    Flusher(DeviceId),
    /// Khugepaged, which makes huge pages of small ones ([`crate::Engine::khugepaged`]).
    Khugepaged,
    /// The reaper, which frees the memory of killed processes. It is started at the first kill or earlier.
    OomReaper,
}

impl KernelTask {
    /// Returns the name of the task, as `ps` shows it.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Kswapd(node) => format!("kswapd{}", node.0),
            Self::Flusher(device) => format!("flush-{}", device.0),
            Self::Khugepaged => "khugepaged".to_owned(),
            Self::OomReaper => "oom_reaper".to_owned(),
        }
    }

    /// Returns the memory node whose CPUs the task is bound to, if it is bound.
    #[must_use]
    pub fn node(self) -> Option<usize> {
        match self {
            Self::Kswapd(node) => Some(node.0.into()),
            Self::Flusher(_) | Self::Khugepaged | Self::OomReaper => None,
        }
    }
}

impl<M: Machine> Access<M> {
    pub(crate) fn khugepaged_task(&self) -> Option<KernelTask> {
        self.has_khugepaged().then_some(KernelTask::Khugepaged)
    }

    pub(crate) fn kernel_tasks(&self) -> Vec<KernelTask> {
        let kswapds = self.nodes.iter().map(|node| KernelTask::Kswapd(node.id));
        let flushers = self.backings.iter().map(|backing| KernelTask::Flusher(backing.device));
        kswapds.chain(flushers).collect()
    }

    fn run_flusher(&self, device: DeviceId) {
        let choices = &self.writeback().choices;
        let mut periodic_at = Nanos::from_millis(choices.dirty_writeback_ms);
        while !self.machine.is_killed() {
            let queue = &self.writeback().backing(device).flusher;
            let ticket = self.machine.ticket(queue);
            let has_more = self.writeback().flusher_round(device, &mut periodic_at);
            if !has_more {
                let is_periodic = choices.dirty_writeback_ms > 0;
                self.machine.sleep(queue, ticket, is_periodic.then_some(periodic_at));
            }
        }
    }

    pub(crate) fn run_kernel_task(&self, task: KernelTask) {
        match task {
            KernelTask::Kswapd(node) => self.reclaim().run_kswapd(node),
            KernelTask::Flusher(device) => self.run_flusher(device),
            KernelTask::Khugepaged => self.run_khugepaged(),
            KernelTask::OomReaper => self.run_reaper(),
        }
    }
}
