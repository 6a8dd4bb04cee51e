//! Invariants of the lists, for the whole-machine check ([`crate::check`]).

use super::{Family, ListKind, Lru};
use crate::memory::Zone;
use machine::{FrameNumber, Machine};

/// The name of a list, for messages and comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListName(pub(super) ListKind);

impl<M: Machine> Lru<M> {
    /// Visits each page of each list of a zone.
    ///
    /// # Errors
    /// Returns a description if the number of pages on a list differs from its gauge, or if pages are isolated.
    pub(crate) fn check_lists_of(
        &self,
        zone: &Zone<M>,
        mut visit: impl FnMut(ListName, FrameNumber),
    ) -> Result<(), String> {
        let lruvec = self.lruvec_of(zone);
        if zone.id == self.highest_zone(lruvec).id {
            self.check_policy(lruvec)?;
        }
        let mut pages = [0u64; ListKind::ALL.len()];
        self.for_each_listed(zone, |kind, frame| {
            pages[kind as usize] += self.frames.pages(frame);
            visit(ListName(kind), frame);
        });
        for kind in ListKind::ALL {
            let (found, counted) = (pages[kind as usize], zone.gauges.get(kind.gauge()));
            let listed = lruvec.listed_in(zone.kind, kind);
            if found != counted || found != listed {
                let gauge = kind.gauge().name();
                return Err(format!("{zone}: {found} pages on {kind:?}, {gauge} {counted}, of the lruvec {listed}"));
            }
        }
        for family in Family::ALL {
            let isolated = zone.gauges.get(family.isolated()).max(lruvec.isolated_pages(family));
            if isolated > 0 {
                return Err(format!("{zone}: {isolated} {family:?} pages isolated"));
            }
        }
        Ok(())
    }
}
