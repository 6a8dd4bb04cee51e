//! Flushes of batches: pages go on lists, and listed pages move between lists.

use crate::lru::batch::Apply;
use crate::lru::{ListKind, Lru, Reach};
use crate::memory::Flags;
use crate::stat::Event;
use machine::{FrameNumber, Lock, Machine, Step};

impl<M: Machine> Lru<M> {
    /// Adds, activates or rotates the pages of a batch, as `apply` says. All of the pages lie in one zone. `is_same(n)`
    /// returns whether frame `pages[n]` still holds the page that was put into the batch.
    pub(in crate::lru) fn flush_classic(
        &self,
        reach: Reach<'_, M>,
        pages: &[FrameNumber],
        apply: Apply,
        is_same: impl Fn(usize) -> bool,
    ) {
        let mut lists = reach.lruvec.classic().lists.lock();
        self.charge_flush(apply, pages);
        for (n, &frame) in pages.iter().enumerate() {
            let descriptor = &self.frames[frame];
            let flags = descriptor.flags();
            let family = self.kind_of(flags).family() as usize;
            // A huge page counts with all its pages in the gauges of lists, and as one page in `recent_scanned` and
            // `recent_rotated`.
            let weight = self.frames.pages(frame) as i64;
            match apply {
                Apply::Add(chosen) => {
                    debug_assert!(!flags.has(Flags::LRU), "{frame} is on a list already: {descriptor:?}");
                    if chosen.is_some_and(ListKind::is_active) {
                        descriptor.set(Flags::ACTIVE);
                    }
                    let kind = self.kind_of(descriptor.flags());
                    descriptor.set(Flags::LRU);
                    lists.list_mut(kind).push_front(&self.frames, frame);
                    self.count_listed(reach.lruvec, reach.zone, kind, weight);
                    lists.recent_scanned[family] += 1;
                    lists.recent_rotated[family] += u64::from(kind.is_active());
                }
                Apply::Activate if flags.has(Flags::LRU) && !flags.has(Flags::ACTIVE) => {
                    let from = self.kind_of(flags);
                    lists.list_mut(from).remove(&self.frames, frame);
                    descriptor.set(Flags::ACTIVE);
                    let to = from.family().active();
                    lists.list_mut(to).push_front(&self.frames, frame);
                    self.count_listed(reach.lruvec, reach.zone, from, -weight);
                    self.count_listed(reach.lruvec, reach.zone, to, weight);
                    lists.recent_scanned[family] += 1;
                    lists.recent_rotated[family] += 1;
                    self.stat.count(Event::Pgactivate, weight as u64);
                }
                Apply::Rotate if flags.has(Flags::LRU) && self.may_rotate(flags) && is_same(n) => {
                    let from = self.kind_of(flags);
                    let to = from.family().inactive();
                    lists.list_mut(from).remove(&self.frames, frame);
                    if from.is_active() {
                        descriptor.clear(Flags::ACTIVE);
                        self.count_listed(reach.lruvec, reach.zone, from, -weight);
                        self.count_listed(reach.lruvec, reach.zone, to, weight);
                    }
                    lists.list_mut(to).push_back(&self.frames, frame);
                    self.stat.count(Event::Pgrotated, weight as u64);
                }
                // The page was isolated, activated or freed since it was parked, or the frame holds another page by
                // now.
                Apply::Activate | Apply::Rotate => {}
            }
        }
    }

    /// Takes those of `pages` that are on lists off their lists. All of `pages` lie in one zone.
    pub(in crate::lru) fn unlink_classic(&self, reach: Reach<'_, M>, pages: &[FrameNumber]) {
        let mut lists = reach.lruvec.classic().lists.lock();
        let mut moved = 0;
        for &frame in pages {
            let descriptor = &self.frames[frame];
            if descriptor.is(Flags::LRU) {
                let kind = self.kind_of(descriptor.flags());
                lists.list_mut(kind).remove(&self.frames, frame);
                descriptor.clear(Flags::LRU);
                self.count_listed(reach.lruvec, reach.zone, kind, -(self.frames.pages(frame) as i64));
                moved += 1;
            }
        }
        self.machine.spend(Step::LruMove, moved);
    }
}
