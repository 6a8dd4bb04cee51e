//! Free blocks to which compaction moves pages, by order.

use crate::memory::{Folio, MAX_ORDERS};
use machine::{FrameNumber, Order};

/// Free blocks, by order, that were taken off the free lists. Their frames have no reference and no state.
#[derive(Debug, Default)]
pub struct Targets {
    by_order: [Vec<FrameNumber>; MAX_ORDERS],
    pages: u64,
}

impl Targets {
    /// Returns the number of pages in all these free blocks together.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns whether there is a block of at least this order.
    #[must_use]
    pub fn has(&self, order: Order) -> bool {
        self.by_order[usize::from(order.0)..].iter().any(|blocks| !blocks.is_empty())
    }

    /// Adds the block of order `order` whose first frame is `head`.
    pub fn add(&mut self, head: FrameNumber, order: Order) {
        self.by_order[usize::from(order.0)].push(head);
        self.pages += order.pages();
    }

    /// Adds each page of a block as a block of order 0.
    pub fn add_in_pages(&mut self, head: FrameNumber, order: Order) {
        let pages = Folio { head, order }.frames();
        self.by_order[0].extend(pages);
        self.pages += order.pages();
    }

    /// Takes the block of exactly this order that was added last; returns `None` if there is no such block.
    pub fn take(&mut self, order: Order) -> Option<FrameNumber> {
        let head = self.by_order[usize::from(order.0)].pop()?;
        self.pages -= order.pages();
        Some(head)
    }

    /// Takes a block of this order. If there is none, splits the smallest larger block and takes its first part. The
    /// other parts stay, in the largest blocks that they can form. Returns `None` if no block is large enough.
    pub fn take_or_split(&mut self, order: Order) -> Option<FrameNumber> {
        let from = (order.0..MAX_ORDERS as u8).find(|from| !self.by_order[usize::from(*from)].is_empty())?;
        let head = self.take(Order(from))?;
        for rest in (order.0..from).map(Order) {
            self.add(FrameNumber(head.0 + rest.pages() as u32), rest);
        }
        Some(head)
    }

    /// Takes out all blocks, those of the smallest order first. Returns the first frame and the order of each.
    pub fn take_all(&mut self) -> impl Iterator<Item = (FrameNumber, Order)> + '_ {
        self.pages = 0;
        let orders = (0..).map(Order).zip(&mut self.by_order);
        orders.flat_map(|(order, blocks)| blocks.drain(..).map(move |head| (head, order)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_block_is_split_into_aligned_parts_and_no_page_is_lost() {
        let mut targets = Targets::default();
        targets.add(FrameNumber(64), Order(5));
        targets.add(FrameNumber(8), Order(1));
        assert!(targets.has(Order(5)) && !targets.has(Order(6)));
        assert_eq!((targets.take(Order(0)), targets.take_or_split(Order(6))), (None, None));
        assert_eq!(targets.take_or_split(Order(0)), Some(FrameNumber(8)), "the smallest block is split");
        assert_eq!(targets.take_or_split(Order(2)), Some(FrameNumber(64)));
        assert_eq!(targets.pages(), 1 + 28);
        let rest: Vec<_> = targets.take_all().collect();
        assert_eq!(rest, [(9, 0), (68, 2), (72, 3), (80, 4)].map(|(head, order)| (FrameNumber(head), Order(order))));
        assert!(rest.iter().all(|(head, order)| u64::from(head.0) % order.pages() == 0));
        assert_eq!(targets.pages(), 0);
    }

    #[test]
    fn pages_of_a_block_are_taken_from_its_end() {
        let mut targets = Targets::default();
        targets.add_in_pages(FrameNumber(16), Order(3));
        assert!(!targets.has(Order(1)) && targets.pages() == 8);
        let taken: Vec<_> = std::iter::from_fn(|| targets.take_or_split(Order(0))).collect();
        assert_eq!(taken, (16..24).rev().map(FrameNumber).collect::<Vec<_>>());
        assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 8);
    }
}
