//! Invariants of the lists, for the whole-machine check ([`crate::check`]).

use super::{Family, ListKind};
use crate::lru::Lru;
use crate::memory::{Flags, Zone};
use machine::{FrameNumber, Lock, Machine};

/// A list, for messages and comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListName(ListKind);

impl<M: Machine> Lru<M> {
    /// The list that a page with such flags belongs on.
    pub(crate) fn list_of(&self, flags: Flags) -> ListName {
        ListName(self.kind_of(flags))
    }

    /// Shows each page of each list of a zone.
    ///
    /// # Errors
    /// When a list has other pages than its gauge says, or pages are isolated: what was found.
    pub(crate) fn check_lists_of(
        &self,
        zone: &Zone<M>,
        mut visit: impl FnMut(ListName, FrameNumber),
    ) -> Result<(), String> {
        let mut pages = [0u64; ListKind::ALL.len()];
        self.for_each_listed(zone, |kind, frame| {
            pages[kind as usize] += self.frames[frame].pages();
            visit(ListName(kind), frame);
        });
        for kind in ListKind::ALL {
            let (found, counted) = (pages[kind as usize], self.list_pages(zone, kind));
            if found != counted {
                let (zone, gauge) = (zone.kind.name(), kind.gauge().name());
                return Err(format!("zone {zone}: {found} pages on {kind:?}, {gauge} {counted}"));
            }
        }
        for family in Family::ALL {
            let isolated = self.isolated_pages(zone, family);
            if isolated > 0 {
                return Err(format!("zone {}: {isolated} {family:?} pages isolated", zone.kind.name()));
            }
        }
        Ok(())
    }

    /// All pages on all lists of a zone.
    pub fn for_each_listed(&self, zone: &Zone<M>, mut visit: impl FnMut(ListKind, FrameNumber)) {
        if let Some(own) = &self.own {
            return self.for_each_own(own, zone, visit);
        }
        let lruvec = self.lruvec(zone).lock();
        for kind in ListKind::ALL {
            for frame in lruvec.list(kind).iter(&self.frames) {
                visit(kind, frame);
            }
        }
    }
}
