//! Allocates chosen free pages: target pages for compaction, and the free block that compaction has made.
//!
//! *Locks*: the zone's `free` lock. The caller of [`Memory::take_free_block`] holds it; [`Memory::capture`] and
//! [`Memory::has_block_for`] take it. *Description*: mechanisms/reclaim, 23.6 and 23.8.

use super::buddy::{FreeLists, free_order};
use super::free_area::{BLOCK_PAGES, FreeArea, MigrateType, PAGEBLOCK_ORDER};
use super::watermark::MarkRights;
use super::{Folio, Memory, Zone};
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Lock, Machine, Order, Step};

impl<M: Machine> Memory<M> {
    /// Returns the order of the free block that begins at a frame; `None` if no free block begins there. If the caller
    /// does not hold the zone's lock, the block may be taken at any moment.
    #[inline]
    pub(crate) fn free_order(&self, head: FrameNumber) -> Option<Order> {
        free_order(&self.frames, head)
    }

    /// Returns whether compaction may move other pages to the free pages of the pageblock that begins at `head`. It may
    /// if the pageblock is of movable type, or free as a whole.
    #[doc(alias = "suitable_migration_target")]
    pub(crate) fn is_suitable_target(&self, zone: &Zone<M>, head: FrameNumber) -> bool {
        match zone.block_type(head) {
            MigrateType::Movable => true,
            MigrateType::Reserve => false,
            MigrateType::Unmovable | MigrateType::Reclaimable => {
                self.free_order(head).is_some_and(|order| order >= PAGEBLOCK_ORDER)
            }
        }
    }

    /// Takes the free block that begins at `head` off its list and returns its order. The pages of the block have no
    /// reference. Returns `None` if no free block begins there, or if the zone would not stay above its low mark.
    /// `area` has the free lists of the zone.
    #[doc(alias = "split_free_page")]
    pub(crate) fn take_free_block(&self, zone: &Zone<M>, area: &mut FreeArea, head: FrameNumber) -> Option<Order> {
        let order = self.free_order(head).filter(|order| self.may_take(zone, *order))?;
        self.machine.spend(Step::BuddyTake, 1);
        let mut lists = FreeLists::new(zone, &self.frames, area);
        lists.take_given(head)?;
        lists.make_movable(head, order);
        zone.stat.count(ZoneEvent::Pgalloc, order.pages());
        Some(order)
    }

    /// Prepares a page, or the first page of a block, for use after it was taken off its list, and gives the page
    /// `references` references.
    pub(crate) fn prepare_given(&self, frame: FrameNumber, references: u32) {
        let descriptor = &self.frames[frame];
        debug_assert!(
            descriptor.flags().0 == 0 && descriptor.references() == 0,
            "{frame} was not free: {descriptor:?}"
        );
        descriptor.clear_private();
        descriptor.set_references(references);
    }

    /// Turns a block that [`Memory::take_free_block`] took, or a part of such a block, into a folio that has no
    /// references.
    pub(crate) fn prepare_given_folio(&self, folio: Folio) {
        for frame in folio.frames() {
            self.prepare_given(frame, 0);
        }
        if folio.is_large() {
            self.frames.make_folio(folio.head, folio.order);
        }
    }

    /// Takes a block of 2^`order` pages from the free lists of the first type in `kinds` that has one, and gives its
    /// first page one reference. Returns `None` if no type has such a block, if the zone would not stay above its low
    /// mark, or if another task holds the zone's lock.
    #[doc(alias = "compact_capture_page")]
    pub(crate) fn capture(&self, zone: &Zone<M>, order: Order, kinds: &[MigrateType]) -> Option<FrameNumber> {
        if !zone.has_free_block(order) {
            return None;
        }
        let mut area = zone.free.try_lock()?;
        self.machine.spend(Step::BuddyTake, 1);
        let mut lists = FreeLists::new(zone, &self.frames, &mut area);
        let head = kinds.iter().find_map(|kind| lists.capture(order, *kind, |from| self.may_take(zone, from)))?;
        drop(lists);
        self.prepare_given(head, 1);
        zone.stat.count(ZoneEvent::Pgalloc, order.pages());
        Some(head)
    }

    /// Returns whether the zone's free lists could serve a request for 2^`order` pages of the type `kind`, either from
    /// the lists of this type or with a whole pageblock of another type.
    pub(crate) fn has_block_for(&self, zone: &Zone<M>, order: Order, kind: MigrateType) -> bool {
        if !zone.has_free_block(order) {
            return false;
        }
        let area = zone.free.lock();
        (usize::from(order.0)..super::MAX_ORDERS).any(|from| {
            let kinds = if from >= usize::from(PAGEBLOCK_ORDER.0) { &MigrateType::ALL[..] } else { &[kind][..] };
            kinds.iter().any(|kind| !area.list(from, *kind).is_empty())
        })
    }

    fn may_take(&self, zone: &Zone<M>, order: Order) -> bool {
        zone.is_above(zone.low() + order.pages(), Order::ZERO, 0, MarkRights::default())
    }
}

/// Returns the offset of a zone's last online pageblock from the zone's start, in pages.
pub(crate) fn last_block<M: Machine>(zone: &Zone<M>) -> u32 {
    (zone.online().saturating_sub(1) / BLOCK_PAGES * BLOCK_PAGES) as u32
}
