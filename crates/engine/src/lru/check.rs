//! Invariants of the lists, for the whole-machine check ([`crate::check`]).

use super::{Family, ListKind, Lru};
use crate::memory::Zone;
use machine::{FrameNumber, Machine};

/// The name of an LRU list, for messages and comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListName(pub(super) ListKind);

impl<M: Machine> Lru<M> {
    /// Checks the lists of a zone by visiting each page on them.
    ///
    /// # Errors
    /// Returns a description of the fault. It is a fault if a list has another number of pages than its counter says,
    /// if a page is on a list of another group than its own, or if pages are isolated.
    pub(crate) fn check_lists_of(
        &self,
        zone: &Zone<M>,
        mut visit: impl FnMut(ListName, FrameNumber),
    ) -> Result<(), String> {
        let mut all = [0u64; ListKind::ALL.len()];
        for lruvec in self.lruvecs_of_zone(zone) {
            if zone.id == self.highest_zone(lruvec).id {
                self.check_policy(lruvec)?;
            }
            let mut pages = [0u64; ListKind::ALL.len()];
            let mut stranger = None;
            self.for_each_listed_in(lruvec, zone, |kind, frame| {
                pages[kind as usize] += self.frames.pages(frame);
                if self.frames.group(frame) != lruvec.group {
                    stranger = Some(frame);
                }
                visit(ListName(kind), frame);
            });
            let group = lruvec.group.0;
            if let Some(frame) = stranger {
                let owner = self.frames.group(frame).0;
                return Err(format!("{zone}: {frame} is charged to group {owner}, but on a list of group {group}"));
            }
            for kind in ListKind::ALL {
                let (found, listed) = (pages[kind as usize], lruvec.listed_in(zone.kind, kind));
                all[kind as usize] += found;
                if found != listed {
                    return Err(format!(
                        "{zone}: {found} pages on {kind:?} of group {group}, the lruvec says {listed}"
                    ));
                }
            }
        }
        for kind in ListKind::ALL {
            let (found, counted) = (all[kind as usize], zone.gauges.get(kind.gauge()));
            if found != counted {
                return Err(format!("{zone}: {found} pages on {kind:?}, {} {counted}", kind.gauge().name()));
            }
        }
        for family in Family::ALL {
            let of_lruvecs = self.lruvecs_of_zone(zone).map(|lruvec| lruvec.isolated_pages(family)).sum();
            let isolated = zone.gauges.get(family.isolated()).max(of_lruvecs);
            if isolated > 0 {
                return Err(format!("{zone}: {isolated} {family:?} pages isolated"));
            }
        }
        Ok(())
    }
}
