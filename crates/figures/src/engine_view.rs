//! [`EngineView`]: read access to the state of an engine, for [`crate::series`] and for workloads.

use engine::{
    Engine,
    memory::{NodeId, Zone},
    reclaim::{KswapdCalls, PriorityZero},
    stat::Vmstat,
};
use machine::{DeviceId, Machine};
use std::fmt;

/// Read access to the state of the engine on which a workload runs. A workload that runs on a real kernel has no such
/// access.
pub trait EngineView {
    /// Returns the first scan that reclaim has made at priority 0 since the last call of this method; `None` if it made
    /// none.
    fn take_first_priority_zero(&self) -> Option<PriorityZero>;
    /// Returns the number and the durations of kswapd's runs of `balance_pgdat`, on all nodes, since the last call of
    /// this method.
    fn take_kswapd_calls(&self) -> KswapdCalls;
    /// Returns the name, the pages and the free pages of each zone of all nodes. Lower zones come first.
    fn zones(&self) -> Vec<ZoneView>;
    /// Returns the counters of each node, under the names of `/proc/vmstat`.
    fn nodes(&self) -> Vec<Vmstat>;
    /// Returns two numbers of blocks of the first disk: the number of all blocks that files may use, and the number of
    /// free blocks that are not reserved for dirty pages.
    fn room(&self) -> [u64; 2];
    /// Returns how often the tasks reached their common memory limit; `None` if there is no limit.
    fn times_at_limit(&self) -> Option<u64>;
}

/// The size and the free pages of one zone, as [`EngineView::zones`] returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneView {
    /// Node that contains the zone.
    pub node: NodeId,
    /// The zone's name as the kernel prints it.
    pub name: &'static str,
    /// Number of the zone's pages that the allocator manages.
    pub pages: u64,
    /// Number of the zone's free pages.
    pub free: u64,
}

impl fmt::Display for ZoneView {
    /// Writes the zone's name: `Normal` on the first node, `Normal of node 1` on another node.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            NodeId(0) => f.write_str(self.name),
            NodeId(node) => write!(f, "{} of node {node}", self.name),
        }
    }
}

impl<M: Machine> EngineView for Engine<M> {
    fn take_first_priority_zero(&self) -> Option<PriorityZero> {
        self.reclaim().take_first_priority_zero()
    }

    fn take_kswapd_calls(&self) -> KswapdCalls {
        let calls = self.memory().nodes.iter().map(|node| self.reclaim().take_kswapd_calls(node.id));
        calls.fold(KswapdCalls::default(), KswapdCalls::and)
    }

    fn zones(&self) -> Vec<ZoneView> {
        let view = |zone: &Zone<M>| {
            let (name, pages, free) = (zone.kind.name(), zone.managed(), zone.free_pages());
            ZoneView { node: zone.node, name, pages, free }
        };
        self.memory().zones.iter().map(view).collect()
    }

    fn nodes(&self) -> Vec<Vmstat> {
        self.memory().nodes.iter().map(|node| self.node_vmstat(node.id)).collect()
    }

    fn room(&self) -> [u64; 2] {
        self.writeback().room(DeviceId(0))
    }

    fn times_at_limit(&self) -> Option<u64> {
        self.memory().limit_pages().map(|_| self.allocate().times_at_limit())
    }
}
