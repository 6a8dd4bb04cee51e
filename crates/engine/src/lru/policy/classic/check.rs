//! Invariants of the lists, for the whole-machine check ([`crate::check`]).

use super::{Family, ListKind};
use crate::lru::Lru;
use crate::memory::Zone;
use machine::{FrameNumber, Lock, Machine};

/// A list, for messages and comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListName(ListKind);

impl<M: Machine> Lru<M> {
    /// The list that a page belongs on by its flags, or that counts it.
    pub(crate) fn list_of(&self, frame: FrameNumber) -> ListName {
        ListName(match &self.multigen {
            Some(multigen) => self.kind_in_generations(multigen, frame),
            None => self.kind_of(self.frames[frame].flags()),
        })
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
        if let Some(multigen) = &self.multigen {
            self.check_generations(multigen, zone)?;
        }
        let mut pages = [0u64; ListKind::ALL.len()];
        self.for_each_listed(zone, |kind, frame| {
            pages[kind as usize] += self.frames[frame].pages();
            visit(ListName(kind), frame);
        });
        for kind in ListKind::ALL {
            let (found, counted) = (pages[kind as usize], zone.gauges.get(kind.gauge()));
            if found != counted {
                let gauge = kind.gauge().name();
                return Err(format!("{zone}: {found} pages on {kind:?}, {gauge} {counted}"));
            }
        }
        for family in Family::ALL {
            let isolated = zone.gauges.get(family.isolated());
            if isolated > 0 {
                return Err(format!("{zone}: {isolated} {family:?} pages isolated"));
            }
        }
        Ok(())
    }

    /// All pages of a zone that are on lists.
    pub fn for_each_listed(&self, zone: &Zone<M>, mut visit: impl FnMut(ListKind, FrameNumber)) {
        if let Some(own) = &self.own {
            return self.for_each_own(own, zone, |kind, frame| {
                if zone.holds(frame) {
                    visit(kind, frame);
                }
            });
        }
        if let Some(multigen) = &self.multigen {
            return self.for_each_in_generations(multigen, zone, visit);
        }
        let lruvec = self.lruvec(zone).lock();
        for kind in ListKind::ALL {
            lruvec
                .list(kind)
                .iter(&self.frames)
                .filter(|frame| zone.holds(*frame))
                .for_each(|frame| visit(kind, frame));
        }
    }
}
