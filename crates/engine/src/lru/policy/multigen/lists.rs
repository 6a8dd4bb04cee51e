//! The lists of one lruvec: one for each generation, family and kind of zone.
//!
//! A page's flags may name another generation than that of the list on which the page is. So the code that takes a page
//! off its list does not know from the flags which list this is. Therefore the outer links of a list's first and last
//! page hold the number of the list, which is above all numbers of frames.

use super::generations::{GENERATIONS, ZONES};
use crate::lru::Family;
use crate::memory::{FRAMES_MAX, Links, ZoneKind};
use machine::FrameNumber;

const LISTS: usize = GENERATIONS * 2 * ZONES;

/// Number of an LRU list. It encodes the slot of the list's generation, the family of the list's pages (anonymous or
/// file pages), and the kind of zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListId(u8);

impl ListId {
    /// Returns the number of the list for the generation in slot `slot`, a family and a kind of zone.
    pub const fn new(slot: usize, family: Family, zone: ZoneKind) -> Self {
        Self(((slot * 2 + family as usize) * ZONES + zone as usize) as u8)
    }

    /// Returns the slot of the list's generation.
    pub const fn slot(self) -> usize {
        self.0 as usize / (2 * ZONES)
    }

    /// Returns the numbers of all lists.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..LISTS as u8).map(Self)
    }

    /// Returns the link that marks both ends of the list: a number above all numbers of frames.
    const fn end(self) -> u32 {
        FRAMES_MAX + self.0 as u32
    }
}

/// Returns the frame to which a link leads. If the link leads to the end of a list, returns the number of this list as
/// an error.
const fn decode(link: u32) -> Result<FrameNumber, usize> {
    if link < FRAMES_MAX { Ok(FrameNumber(link)) } else { Err((link - FRAMES_MAX) as usize) }
}

/// The links of a list to its first and its last page. If the list is empty, both are the link that marks the ends of
/// this list ([`ListId::end`]).
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// The lists of an lruvec's generations, one for each generation, family and kind of zone. Young pages come to the head
/// of a list, old pages leave at its tail.
#[derive(Debug)]
pub struct Lists([Ends; LISTS]);

impl Default for Lists {
    fn default() -> Self {
        Self(std::array::from_fn(|n| {
            let end = ListId(n as u8).end();
            Ends { first: end, last: end }
        }))
    }
}

impl Lists {
    /// Returns whether a list is empty.
    pub fn is_empty(&self, list: ListId) -> bool {
        self.last(list).is_none()
    }

    /// Returns the page at the tail of a list; `None` if the list is empty.
    pub fn last(&self, list: ListId) -> Option<FrameNumber> {
        decode(self.0[list.0 as usize].last).ok()
    }

    /// Puts a page at the head of a list.
    pub fn push_front(&mut self, pages: &impl Links, list: ListId, page: FrameNumber) {
        let next = self.0[list.0 as usize].first;
        self.link(pages, list.end(), page, next);
    }

    /// Puts a page at the tail of a list.
    pub fn push_back(&mut self, pages: &impl Links, list: ListId, page: FrameNumber) {
        let previous = self.0[list.0 as usize].last;
        self.link(pages, previous, page, list.end());
    }

    /// Puts `page` behind `before`, nearer to the tail of the list that `before` is on.
    pub fn insert_behind(&mut self, pages: &impl Links, before: FrameNumber, page: FrameNumber) {
        let next = pages.next(before);
        self.link(pages, before.0, page, next);
    }

    fn link(&mut self, pages: &impl Links, previous: u32, page: FrameNumber, next: u32) {
        pages.set_previous(page, previous);
        pages.set_next(page, next);
        self.set_next(pages, previous, page.0);
        self.set_previous(pages, next, page.0);
    }

    /// Takes a listed page off its list.
    pub fn remove(&mut self, pages: &impl Links, page: FrameNumber) {
        let (previous, next) = (pages.previous(page), pages.next(page));
        debug_assert!(self.next(pages, previous) == page.0, "{page} is on no list");
        self.set_next(pages, previous, next);
        self.set_previous(pages, next, previous);
    }

    fn next(&self, pages: &impl Links, of: u32) -> u32 {
        decode(of).map_or_else(|list| self.0[list].first, |page| pages.next(page))
    }

    fn set_next(&mut self, pages: &impl Links, of: u32, to: u32) {
        match decode(of) {
            Ok(page) => pages.set_next(page, to),
            Err(list) => self.0[list].first = to,
        }
    }

    fn set_previous(&mut self, pages: &impl Links, of: u32, to: u32) {
        match decode(of) {
            Ok(page) => pages.set_previous(page, to),
            Err(list) => self.0[list].last = to,
        }
    }

    /// Returns the pages of a list from head to tail.
    pub fn iter<'a>(&self, pages: &'a impl Links, list: ListId) -> impl Iterator<Item = FrameNumber> + 'a {
        let first = decode(self.0[list.0 as usize].first).ok();
        std::iter::successors(first, |page| decode(pages.next(*page)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::FrameTable;

    #[test]
    fn pages_leave_lists_that_nobody_names() {
        let frames = FrameTable::new(16).unwrap();
        let mut lists = Lists::default();
        let of = |lists: &Lists, list| lists.iter(&frames, list).map(|page| page.0).collect::<Vec<_>>();
        let all: Vec<ListId> = ListId::all().collect();
        let (a, b) = (all[0], all[LISTS - 1]);
        for n in 0..4 {
            lists.push_front(&frames, a, FrameNumber(n));
            lists.push_back(&frames, b, FrameNumber(n + 8));
        }
        lists.insert_behind(&frames, FrameNumber(2), FrameNumber(5));
        assert_eq!((of(&lists, a), of(&lists, b)), (vec![3, 2, 5, 1, 0], vec![8, 9, 10, 11]));
        for page in [0, 5, 3, 11, 8] {
            lists.remove(&frames, FrameNumber(page));
        }
        assert_eq!((of(&lists, a), of(&lists, b)), (vec![2, 1], vec![9, 10]));
        assert_eq!((lists.last(a), lists.last(b)), (Some(FrameNumber(1)), Some(FrameNumber(10))));
        for page in [1, 2] {
            lists.remove(&frames, FrameNumber(page));
        }
        assert!(lists.is_empty(a) && all[1..LISTS - 1].iter().all(|list| lists.is_empty(*list)));
        lists.push_back(&frames, a, FrameNumber(7));
        assert_eq!(of(&lists, a), [7]);
    }

    #[test]
    fn a_list_knows_its_slot() {
        for slot in 0..GENERATIONS {
            for (family, zone) in Family::ALL.into_iter().flat_map(|f| ZoneKind::ALL.map(|zone| (f, zone))) {
                assert_eq!(ListId::new(slot, family, zone).slot(), slot);
            }
        }
    }
}
