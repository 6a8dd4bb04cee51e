//! The counters and gauges of the whole engine, under their names in the kernel.

use super::Access;
use crate::memory::NodeId;
use crate::stat::Vmstat;
use machine::Machine;

impl<M: Machine> Access<M> {
    pub(crate) fn vmstat(&self) -> Vmstat {
        let mut vmstat = self.stat.snapshot();
        vmstat.extend(self.with_counted_refaults(self.memory().vmstat_of(|_| true)));
        let limits = self.writeback().dirty_limits();
        vmstat.insert("nr_dirty_threshold".to_owned(), limits.dirty);
        vmstat.insert("nr_dirty_background_threshold".to_owned(), limits.background);
        vmstat
    }

    pub(crate) fn vmstat_of_node(&self, node: NodeId) -> Vmstat {
        self.with_counted_refaults(self.memory().node_vmstat(node))
    }

    /// Removes from `vmstat` the counters of those refaults that this kernel does not count, because it stores no
    /// shadows for the evicted pages.
    fn with_counted_refaults(&self, mut vmstat: Vmstat) -> Vmstat {
        for event in self.lru().uncounted_refaults() {
            vmstat.remove(event.name());
        }
        vmstat
    }
}
