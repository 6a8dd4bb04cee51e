//! The buddy allocator: free blocks of 2^order pages, which are merged with their buddies when freed. The lists are
//! divided by migrate type.
//!
//! *Locks*: all functions of this module run under the zone's `free` lock. *Description*: mechanisms/reclaim, 6.

use super::choices::{Choices, FallbackRemainder};
use super::frame::{Flags, FrameTable};
use super::free_area::{BLOCK_PAGES, FreeArea, MAX_ORDERS, MigrateType, Mixing, PAGEBLOCK_ORDER};
use super::zone::Zone;
use crate::stat::Gauge;
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Machine, Order, prefetch};

/// A zone's free lists, with the zone and the frame table, which are needed to change the lists.
pub(super) struct FreeLists<'a, M: Machine> {
    zone: &'a Zone<M>,
    frames: &'a FrameTable,
    area: &'a mut FreeArea,
    /// Number of pages put on the free lists minus the number of pages taken off them. The gauge of free pages gets
    /// this number once, when `self` is dropped.
    freed: i64,
}

impl<M: Machine> Drop for FreeLists<'_, M> {
    fn drop(&mut self) {
        // The gauge is changed once, because each change takes its cache line away from CPUs that allocate, which read
        // the gauge.
        if self.freed != 0 {
            self.zone.gauges.add(Gauge::NrFreePages, self.freed);
        }
    }
}

impl<'a, M: Machine> FreeLists<'a, M> {
    /// Creates a value through which the caller changes the free lists `area` of `zone`. The caller holds the lock of
    /// the zone.
    pub const fn new(zone: &'a Zone<M>, frames: &'a FrameTable, area: &'a mut FreeArea) -> Self {
        Self { zone, frames, area, freed: 0 }
    }

    pub(super) const fn zone(&self) -> &'a Zone<M> {
        self.zone
    }

    /// Subtracts `pages` pages from `freed`, because the gauge of free pages counts them already.
    pub(super) const fn uncount(&mut self, pages: u64) {
        self.freed -= pages as i64;
    }

    /// Returns the first page on the order-0 list of a migrate type, which is the next page to be taken from this list.
    pub fn first_single(&self, kind: MigrateType) -> Option<FrameNumber> {
        self.area.list(0, kind).first()
    }

    /// Frees a block of 2^`order` pages, and merges the block with its buddies as far as they are free.
    pub fn free(&mut self, head: FrameNumber, order: Order, kind: MigrateType) {
        let pages = order.pages();
        let mut offset = head.0 - self.zone.start.0;
        let mut order = usize::from(order.0);
        while order < MAX_ORDERS - 1 {
            let Some(buddy) = self.free_buddy(offset, order) else { break };
            let buddy_kind = self.listed_kind(buddy);
            self.unlink(buddy, order, buddy_kind);
            offset &= !(1 << order);
            order += 1;
        }
        let head = self.frame(offset);
        // If the next merge is likely soon, the block goes to the tail of its list, so that it is not taken first.
        let merges_soon = order < MAX_ORDERS - 2 && self.free_buddy(offset & !(1 << order), order + 1).is_some();
        self.link(head, order, kind, merges_soon);
        self.freed += pages as i64;
    }

    /// Takes a block of 2^`order` pages and returns its head; returns `None` if there is none. Tries the lists of
    /// `kind` first, and then frames that are on no list yet. Next come the lists of other types: any block if `mixing`
    /// is allowed, otherwise only blocks of at least a pageblock. The reserve comes last, and only if `mixing` is
    /// allowed.
    pub fn take(&mut self, order: Order, kind: MigrateType, mixing: Mixing, choices: &Choices) -> Option<FrameNumber> {
        let order = usize::from(order.0);
        let head = self
            .take_smallest(order, kind)
            .or_else(|| self.take_deferred(order, kind))
            .or_else(|| self.take_fallback(order, kind, mixing, choices))
            .or_else(|| match mixing {
                Mixing::Allowed => self.take_smallest(order, MigrateType::Reserve),
                Mixing::Avoided => None,
            })?;
        self.freed -= 1 << order;
        Some(head)
    }

    /// Takes the free block that begins at `head` and returns its order; returns `None` if no free block begins there.
    pub fn take_given(&mut self, head: FrameNumber) -> Option<Order> {
        let order = free_order(self.frames, head)?;
        self.unlink(head, usize::from(order.0), self.listed_kind(head));
        self.freed -= order.pages() as i64;
        Some(order)
    }

    /// Takes a block of 2^`order` pages from the lists of `kind` and returns its head. Tries the lists of this order
    /// and of larger orders in turn. Takes from the first list that has a block and whose order `is_allowed` accepts.
    /// The rest of a larger block goes back to the lists of `kind`. If the free block was at least half a pageblock,
    /// its pageblocks become movable.
    pub fn capture(
        &mut self,
        order: Order,
        kind: MigrateType,
        is_allowed: impl Fn(Order) -> bool,
    ) -> Option<FrameNumber> {
        let orders = order.0..MAX_ORDERS as u8;
        let first = |from: u8| self.area.list(usize::from(from), kind).first().map(|head| (from, head));
        let (from, head) = orders.filter_map(first).find(|(from, _)| is_allowed(Order(*from)))?;
        self.unlink(head, usize::from(from), kind);
        self.split(head, usize::from(from), usize::from(order.0), kind);
        self.freed -= order.pages() as i64;
        self.make_movable(head, Order(from));
        Some(head)
    }

    /// Sets the migrate type of the pageblocks that contain a block to movable, if the block is at least half as large
    /// as a pageblock.
    pub fn make_movable(&self, head: FrameNumber, order: Order) {
        if order.0 + 1 >= PAGEBLOCK_ORDER.0 {
            for at in (head.0..head.0 + order.pages() as u32).step_by(BLOCK_PAGES as usize) {
                self.zone.set_block_type(FrameNumber(at), MigrateType::Movable);
            }
        }
    }

    fn take_smallest(&mut self, order: usize, kind: MigrateType) -> Option<FrameNumber> {
        let (from, head) =
            (order..MAX_ORDERS).find_map(|o| self.area.lists[o][kind as usize].first().map(|head| (o, head)))?;
        self.unlink(head, from, kind);
        self.split(head, from, order, kind);
        Some(head)
    }

    /// Takes a block of `kind`, after adding to the free lists some frames that were on no list before. Returns `None`
    /// if there are no such frames, or still no block. This function is called before the lists of other types are
    /// tried.
    fn take_deferred(&mut self, order: usize, kind: MigrateType) -> Option<FrameNumber> {
        if !self.list_deferred() {
            return None;
        }
        self.take_smallest(order, kind)
    }

    /// Takes a block of order `order` or larger from the free lists of another migrate type than `kind`. The largest
    /// blocks are tried first, so that few pageblocks get pages of several migrate types. Returns `None` if there is no
    /// block.
    fn take_fallback(
        &mut self,
        order: usize,
        kind: MigrateType,
        mixing: Mixing,
        choices: &Choices,
    ) -> Option<FrameNumber> {
        const PAGEBLOCK: usize = PAGEBLOCK_ORDER.0 as usize;
        let least = match mixing {
            Mixing::Allowed => order,
            Mixing::Avoided => order.max(PAGEBLOCK),
        };
        for from in (least..MAX_ORDERS).rev() {
            let may_claim = from >= PAGEBLOCK / 2 || choices.pageblock_claim.is_for(kind);
            for donor in kind.fallbacks() {
                let Some(head) = self.area.lists[from][donor as usize].first() else { continue };
                if from < PAGEBLOCK && choices.watermark_boost_by.boosts(may_claim) {
                    self.zone.raise_boost();
                }
                let mut list = donor;
                if may_claim {
                    let moved = self.move_pageblock(head, kind);
                    if moved >= BLOCK_PAGES / 2 {
                        self.zone.set_block_type(head, kind);
                    }
                    list = kind;
                }
                self.unlink(head, from, list);
                if from >= PAGEBLOCK {
                    for block in 0..(1u32 << from) / BLOCK_PAGES as u32 {
                        self.zone.set_block_type(FrameNumber(head.0 + block * BLOCK_PAGES as u32), kind);
                    }
                }
                let rest = match choices.fallback_remainder {
                    FallbackRemainder::DonorList => list,
                    FallbackRemainder::RequestList => kind,
                };
                self.split(head, from, order, rest);
                return Some(head);
            }
        }
        None
    }

    /// Moves the free blocks of `head`'s pageblock to the list of `kind`. Returns the number of free pages in the
    /// pageblock, including free pages that were on this list before.
    fn move_pageblock(&mut self, head: FrameNumber, kind: MigrateType) -> u64 {
        let start = (head.0 - self.zone.start.0) & !(BLOCK_PAGES as u32 - 1);
        let end = (start + BLOCK_PAGES as u32).min(self.zone.spanned as u32);
        let mut moved = 0;
        let mut offset = start;
        while offset < end {
            let frame = self.frame(offset);
            if !self.frames[frame].is(Flags::BUDDY) {
                offset += 1;
                continue;
            }
            let order = self.order_of(frame);
            let listed = self.listed_kind(frame);
            if listed != kind {
                self.unlink(frame, order, listed);
                self.link(frame, order, kind, false);
            }
            moved += 1 << order;
            offset += 1 << order;
        }
        moved
    }

    fn split(&mut self, head: FrameNumber, mut from: usize, order: usize, kind: MigrateType) {
        while from > order {
            from -= 1;
            self.link(FrameNumber(head.0 + (1 << from)), from, kind, false);
        }
    }

    fn free_buddy(&self, offset: u32, order: usize) -> Option<FrameNumber> {
        let buddy = offset ^ (1 << order);
        if u64::from(buddy) + (1 << order) > self.zone.spanned {
            return None;
        }
        let frame = self.frame(buddy);
        (self.frames[frame].is(Flags::BUDDY) && self.order_of(frame) == order).then_some(frame)
    }

    fn frame(&self, offset: u32) -> FrameNumber {
        FrameNumber(self.zone.start.0 + offset)
    }

    fn order_of(&self, head: FrameNumber) -> usize {
        self.frames[head].free_block().0 as usize
    }

    /// Returns the migrate type of the list that a free block is on. This type is stored beside the block's order,
    /// because the type of the pageblock may have changed since the block was put on the list.
    fn listed_kind(&self, head: FrameNumber) -> MigrateType {
        MigrateType::ALL[self.frames[head].free_block().1 as usize]
    }

    /// Adds `blocks` to the count of free blocks of an order. The caller holds the zone's lock, so no other task
    /// changes the count.
    fn count_block(&self, order: usize, blocks: i64) {
        let count = &self.zone.nr_free[order];
        count.store(count.load(Relaxed).wrapping_add_signed(blocks), Relaxed);
    }

    fn link(&mut self, head: FrameNumber, order: usize, kind: MigrateType, at_tail: bool) {
        let frame = &self.frames[head];
        debug_assert!(!frame.is(Flags::BUDDY), "{head} freed twice: {frame:?}");
        frame.set_free_block(order as u32, kind as u32);
        frame.set_free(Flags::BUDDY);
        let list = &mut self.area.lists[order][kind as usize];
        if at_tail {
            list.push_back(self.frames, head);
        } else {
            list.push_front(self.frames, head);
        }
        self.count_block(order, 1);
    }

    fn unlink(&mut self, head: FrameNumber, order: usize, kind: MigrateType) {
        self.area.lists[order][kind as usize].remove(self.frames, head);
        self.frames[head].clear_free(Flags::BUDDY);
        self.count_block(order, -1);
    }
}

/// Returns the order of the free block that begins at a frame; `None` if no free block begins there.
pub(super) fn free_order(frames: &FrameTable, head: FrameNumber) -> Option<Order> {
    let frame = &frames[head];
    // Without the lock, the block may be taken between the two reads. The second read may then return a number that is
    // no order.
    let order = frame.is(Flags::BUDDY).then(|| frame.free_block().0)?;
    ((order as usize) < MAX_ORDERS).then_some(Order(order as u8))
}

/// Prefetches the descriptors of a page's buddies shortly before the page is freed, because freeing the page merges it
/// with buddies that are free.
pub(super) fn prefetch_buddies<M: Machine>(zone: &Zone<M>, frames: &FrameTable, page: FrameNumber) {
    let offset = page.0 - zone.start.0;
    for buddy in [offset ^ 1, (offset & !1) ^ 2] {
        if u64::from(buddy) < zone.spanned {
            prefetch(&raw const frames[FrameNumber(zone.start.0 + buddy)]);
        }
    }
}
