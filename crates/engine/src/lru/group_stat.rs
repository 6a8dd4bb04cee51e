//! The counters of a memory control group, under their names in `memory.stat` and `memory.events`.

use super::lruvec::{COUNTED, Lruvec};
use super::{ListKind, Lru};
use crate::memory::{GroupEvent, GroupGauge, GroupId, KernelMemory};
use crate::stat::Vmstat;
use machine::{Machine, PAGE_BYTES};

impl<M: Machine> Lru<M> {
    /// Returns the counters of a group. `memory.current`, `memory.peak`, `memory.swap.current`, `memory.memsw.*` and the
    /// gauges and events of `memory.stat` include the group's descendants. Only groups of
    /// version 1 with limits of memory and swap together have `memory.memsw.*`, and only groups of version 1 have
    /// `memory.failcnt`, which is `memory.events.max`. `memory.events.high` and the like count
    /// only the group's own events. Gauges count pages. The result is empty if memory has no groups.
    #[must_use]
    #[doc(alias = "memory.stat")]
    pub fn group_stat(&self, group: GroupId) -> Vmstat {
        let mut stat = self.group_counts(group);
        let Some(groups) = &self.groups else { return stat };
        stat.insert("memory.current".into(), groups.usage(group));
        stat.insert("memory.peak".into(), groups.peak(group));
        stat.insert("memory.swap.current".into(), groups.swap_usage(group));
        if groups.version().counts_memsw() {
            stat.insert("memory.memsw.usage_in_bytes".into(), groups.memsw_usage(group));
            stat.insert("memory.memsw.max_usage_in_bytes".into(), groups.memsw_peak(group));
        }
        let lruvecs = self.lruvecs_of_group(group);
        // The tree is not locked, so that a recorder may look while a task holds its lock. Numbers of no group have no
        // pages.
        let numbers = (0..groups.room()).map(|number| GroupId(number as u16));
        let below: Vec<GroupId> = numbers.filter(|id| groups.is_within(*id, group)).collect();
        let listed =
            |lruvec: &Lruvec<M>, kind| -> u64 { below.iter().map(|id| self.beside(lruvec, *id).listed(kind)).sum() };
        for gauge in GroupGauge::ALL {
            stat.insert(gauge.name().into(), below.iter().map(|id| groups.gauge(*id, gauge)).sum());
        }
        for kind in KernelMemory::ALL {
            stat.insert(kind.name().into(), groups.kernel_bytes(&below, kind).div_ceil(PAGE_BYTES as u64));
        }
        for (name, kind) in [
            ("inactive_anon", ListKind::InactiveAnon),
            ("active_anon", ListKind::ActiveAnon),
            ("inactive_file", ListKind::InactiveFile),
            ("active_file", ListKind::ActiveFile),
        ] {
            stat.insert(name.into(), lruvecs.iter().map(|lruvec| listed(lruvec, kind)).sum());
        }
        stat
    }

    /// Returns those counters of [`Self::group_stat`] that count events and never fall. Takes no lock, so that a reader
    /// during a run does not change it.
    #[must_use]
    pub fn group_counts(&self, group: GroupId) -> Vmstat {
        let mut stat = Vmstat::new();
        let Some(groups) = &self.groups else { return stat };
        if groups.version().counts_memsw() {
            stat.insert("memory.memsw.failcnt".into(), groups.memsw_failures(group));
        }
        if groups.version().is_v1() {
            stat.insert("memory.failcnt".into(), groups.events(group, GroupEvent::Max));
        }
        for event in GroupEvent::ALL {
            stat.insert(format!("memory.events.{}", event.name()), groups.events(group, event));
        }
        let lruvecs = self.lruvecs_of_group(group);
        for event in COUNTED {
            let name = event.name();
            let count: u64 = lruvecs.iter().map(|lruvec| self.events_of(lruvec, event)).sum();
            for sum in ["pgscan", "pgsteal"].into_iter().filter(|sum| name.starts_with(&format!("{sum}_"))) {
                *stat.entry(sum.to_owned()).or_default() += count;
            }
            stat.insert(name.to_owned(), count);
        }
        stat
    }
}
