//! Huge pages become small ones (`split_huge_page`).
//!
//! A huge page is one entry of a list, counted with all its pages, and one entry of a page table. It is split when a part of it
//! is to be treated apart: latched for a copy, or given a place in swap. A split never fails: references that others hold of
//! the huge page stay with its first page, and the other pages get one each, for the entry that maps them now. *Locks*:
//! `page_table`, then `lru`.

use super::Lru;
use crate::anonymous::Region;
use crate::memory::{Flags, Owner};
use crate::stat::{Event, Gauge};
use machine::{FrameNumber, Lock, Machine, Step};

/// Flags that the pages of a huge page inherit once it is split.
pub(super) const INHERITED: Flags = Flags::SWAPBACKED
    .with(Flags::UPTODATE)
    .with(Flags::ACTIVE)
    .with(Flags::REFERENCED)
    .with(Flags::USED_AGAIN)
    .with(Flags::WORKINGSET)
    .with(Flags::USES);

impl<M: Machine> Lru<M> {
    /// Makes small pages of the huge page that is mapped where `page` lies, if there is one; each is mapped by its own entry
    /// then. Those that were on no list with the first page, since that is isolated or waits in a batch, go to the tail of
    /// theirs: reclaim, which took the first, looks at them next.
    pub fn split_huge_page(&self, region: &Region<M>, page: u32) {
        let _guard = region.page_table(page).lock();
        let Some(head) = region.huge_page(page) else { return };
        let pages = self.frames[head].pages() as u32;
        self.machine.spend(Step::PteSet, pages);
        self.split_listed(region, head);
        self.machine.spend(Step::LruMove, pages);
        self.stat.count(Event::ThpSplit, 1);
        region.split_huge(page);
    }

    /// The same for descriptors, under the lock of the lists. `list` puts a tail on its list, and says whether it was counted
    /// there with its head.
    pub(super) fn split_frames(
        &self,
        region: &Region<M>,
        head: FrameNumber,
        inherited: Flags,
        mut list: impl FnMut(FrameNumber) -> bool,
    ) {
        let (zone, descriptor) = (self.zone_of(head), &self.frames[head]);
        let (pages, start) = (descriptor.pages() as u32, descriptor.index());
        let inherited = Flags(descriptor.flags().0 & inherited.0);
        self.frames.unmake_compound(head);
        zone.gauges.add(Gauge::NrAnonTransparentHugepages, -1);
        let mut added = 0;
        // From the end: each goes right behind the head.
        for n in (1..pages).rev() {
            let tail = FrameNumber(head.0 + n);
            let part = &self.frames[tail];
            part.set_free(inherited);
            part.set_owner(Owner::Region(region.id), start + n);
            part.map();
            part.set_references(1);
            added += i64::from(!list(tail));
        }
        if added > 0 {
            let counted = self.kind_of(inherited).gauge();
            zone.gauges.add(counted, added);
        }
    }
}
