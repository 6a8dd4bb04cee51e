//! A model of the lists of Highwater's own kernel for use without an engine: files that are read by system calls, on
//! one CPU.
//!
//! A page that is read first waits in a batch of up to 64 pages, and then goes on a list or is dropped (`lru.admission
//! = "by-refault"`, [`admission`](crate::lru::admission)). A page that was used becomes active when the scan reaches it
//! (`lru.activation = "at-scan"`). The model shares code with the engine: the lists, the record of pages that left
//! ([`Workingset`]), the test for too few inactive pages, and the judgement of a page by its recent use. When the
//! caller wants pages to evict, the model returns them one by one. A *round* is a scan of 32 pages.

use super::Lists;
use super::age::is_file_inactive_low;
use super::judge::check_references;
use crate::lru::AdmissionRule;
use crate::lru::policy::{CLUSTER, Insert, Pages, Policy, Seen, Verdict, Victims};
use crate::lru::{Left, ListKind, Workingset};
use crate::memory::{Flags, List};
use crate::page_cache::Shadow;
use arrayvec::ArrayVec;
use machine::FrameNumber;

/// A model of Highwater's own page-replacement policy. It works on page numbers alone, without an engine.
#[derive(Debug)]
pub struct HighwaterModel {
    lists: Lists,
    /// Pages that wait for their admission to a list, the youngest first. Waiting pages that returned soon after they
    /// were dropped have the flag [`RETURNED`].
    waiting: List,
    waiting_max: u64,
    least_held: u64,
    workingset: Workingset,
    /// Number of pages that the present round of the scan may still take from the inactive list.
    left_in_round: u64,
    /// Pages that waited for their admission and were then chosen for eviction, each with the kind of shadow that it is
    /// to leave.
    dropped: ArrayVec<(FrameNumber, Left), { CLUSTER as usize }>,
    rule: AdmissionRule,
    /// Number of pages that were evicted from a list.
    evicted_from_lists: u64,
}

/// The flag of a waiting page that returned soon after it had left memory. The flag uses the bit for pages that are
/// read ahead, because the model reads no pages ahead.
const RETURNED: Flags = Flags::READAHEAD;

impl HighwaterModel {
    /// Creates the model of a memory of `capacity` pages that holds no pages yet.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self::with_rule(capacity, AdmissionRule::CHOSEN)
    }

    /// Creates the model as [`HighwaterModel::new`] does, with other constants than the engine's.
    ///
    /// # Panics
    /// When a divisor or an interval of the rule is 0, or more pages may wait than a queue holds, or none.
    #[must_use]
    pub fn with_rule(capacity: u32, rule: AdmissionRule) -> Self {
        rule.check();
        let capacity = u64::from(capacity);
        Self {
            lists: Lists::default(),
            waiting: List::default(),
            waiting_max: rule.waiting_max(capacity, 1),
            least_held: capacity / u64::from(rule.least_held_part),
            workingset: Workingset::with_rule(rule),
            left_in_round: 0,
            dropped: ArrayVec::new(),
            rule,
            evicted_from_lists: 0,
        }
    }

    /// Returns the number of pages that were evicted from a list so far. All other evicted pages were dropped while
    /// they waited for their admission to a list.
    #[must_use]
    pub const fn evicted_from_lists(&self) -> u64 {
        self.evicted_from_lists
    }

    fn push(&mut self, pages: &impl Pages, page: FrameNumber) {
        let kind = if pages.is(page, Flags::ACTIVE) { ListKind::ActiveFile } else { ListKind::InactiveFile };
        self.lists.list_mut(kind).push_front(pages, page);
    }

    /// Removes the page that has waited for the longest time from the waiting list. Returns the page and its kind:
    /// whether it had returned soon after it left memory. Returns `None` if no page waits.
    fn take_waiting(&mut self, pages: &impl Pages) -> Option<(FrameNumber, Left)> {
        let page = self.waiting.last()?;
        self.waiting.remove(pages, page);
        let kind = if pages.test_clear(page, RETURNED) { Left::Returned } else { Left::UsedOnce };
        Some((page, kind))
    }

    /// Returns whether the next page of the kind [`Left::Returned`] goes on an LRU list at once. If pages of this kind
    /// are missed more often than evicted pages, all of them go on a list except one in `probe_every`. Otherwise only
    /// one in `listed_every` goes on a list.
    fn lists_next_returned(&self) -> bool {
        let number = self.workingset.count_judged(Left::Returned, 1);
        match self.workingset.is_missed_more(Left::Returned) {
            true => !number.is_multiple_of(self.rule.probe_every),
            false => number.is_multiple_of(self.rule.listed_every),
        }
    }

    /// Returns whether `page`, which was taken off the waiting list, goes on an LRU list. It does if it was used while
    /// it waited. It also does if its kind is [`Left::UsedOnce`] and such pages are missed more often than evicted
    /// pages; only one such page in `probe_every` then does not.
    fn goes_on_list(&self, pages: &impl Pages, page: FrameNumber, kind: Left) -> bool {
        let stays = kind == Left::UsedOnce && self.workingset.is_missed_more(Left::UsedOnce) && {
            let number = self.workingset.count_judged(Left::UsedOnce, 1).wrapping_add(1);
            !number.is_multiple_of(self.rule.probe_every)
        };
        stays || pages.is(page, Flags::USED_AGAIN)
    }

    /// Begins a round of the scan. If too few pages are inactive, takes up to a cluster of pages from the tail of the
    /// active list, and makes inactive those that were not used; the others go back to the head of the active list.
    fn begin_round(&mut self, pages: &impl Pages) {
        self.left_in_round = CLUSTER;
        let [inactive, active] = [ListKind::InactiveFile, ListKind::ActiveFile].map(|kind| self.lists.list(kind).len());
        if is_file_inactive_low(inactive, active) {
            self.age(pages);
        }
    }

    fn age(&mut self, pages: &impl Pages) {
        for _ in 0..CLUSTER {
            let Some(page) = self.lists.list(ListKind::ActiveFile).last() else { return };
            self.lists.list_mut(ListKind::ActiveFile).remove(pages, page);
            let was_used = pages.test_clear(page, Flags::REFERENCED);
            if !(pages.test_clear(page, Flags::USED_AGAIN) || was_used) {
                pages.clear(page, Flags::ACTIVE);
            }
            self.push(pages, page);
        }
    }

    /// Takes the next page to be evicted. Pages wait for admission before they go on a list. If enough pages wait,
    /// decides about the oldest ones, and takes the first page that is refused. Otherwise takes the oldest inactive
    /// page, or, if the lists are empty, a waiting page.
    fn take_victim(&mut self, pages: &impl Pages) -> Option<FrameNumber> {
        while self.waiting.len() >= self.waiting_max {
            let (page, kind) = self.take_waiting(pages)?;
            if !self.goes_on_list(pages, page, kind) {
                self.dropped.push((page, kind));
                return Some(page);
            }
            self.push(pages, page);
        }
        if self.left_in_round == 0 {
            self.begin_round(pages);
        }
        while self.lists.list(ListKind::InactiveFile).last().is_none() {
            if self.lists.list(ListKind::ActiveFile).last().is_none() {
                let (page, _) = self.take_waiting(pages)?;
                return Some(page);
            }
            self.age(pages);
        }
        let page = self.lists.list(ListKind::InactiveFile).last()?;
        self.lists.list_mut(ListKind::InactiveFile).remove(pages, page);
        self.left_in_round -= 1;
        Some(page)
    }
}

impl<P: Pages> Policy<P> for HighwaterModel {
    fn insert(&mut self, pages: &P, page: FrameNumber, how: Insert) {
        let is_missed = how.shadow().is_some_and(|shadow| self.workingset.note_refault(shadow));
        if is_missed && self.lists_next_returned() {
            return self.push(pages, page);
        }
        // While memory has room, the oldest page goes on a list to make room. Otherwise there is room by now.
        if self.waiting.len() >= self.waiting_max
            && let Some((oldest, _)) = self.take_waiting(pages)
        {
            self.push(pages, oldest);
        }
        if is_missed {
            pages.set(page, RETURNED);
        }
        self.waiting.push_front(pages, page);
    }

    fn moves_on_use(&self) -> bool {
        true
    }

    #[inline]
    fn used(&mut self, pages: &P, page: FrameNumber) {
        let is_first = !pages.is(page, Flags::REFERENCED);
        pages.set(page, if is_first { Flags::REFERENCED } else { Flags::USED_AGAIN });
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        while (out.len() as u64) < want && !out.is_full() {
            let Some(page) = self.take_victim(pages) else { return };
            out.push(page);
        }
    }

    fn judge(&mut self, pages: &P, page: FrameNumber, seen: Seen) -> Verdict {
        pages.clear(page, Flags::REFERENCED);
        let verdict = check_references(seen.touched, seen.is_referenced, seen.is_anon, !seen.is_anon);
        if verdict == Verdict::Keep {
            pages.set(page, Flags::REFERENCED);
        }
        verdict
    }

    fn put_back(&mut self, pages: &P, page: FrameNumber, verdict: Verdict) {
        self.dropped.retain(|(dropped, _)| *dropped != page);
        if verdict == Verdict::Activate {
            pages.set(page, Flags::ACTIVE);
        }
        self.push(pages, page);
    }

    fn evicted(&mut self, _: &P, page: FrameNumber) -> Option<Shadow> {
        let at = self.dropped.iter().position(|(dropped, _)| *dropped == page);
        let kind = at.map_or(Left::Evicted, |at| self.dropped.swap_remove(at).1);
        let shadow = self.workingset.shadow(kind);
        self.evicted_from_lists += u64::from(kind == Left::Evicted);
        let listed: u64 =
            [ListKind::InactiveFile, ListKind::ActiveFile].iter().map(|kind| self.lists.list(*kind).len()).sum();
        self.workingset.note_left(kind.only(1), listed.max(self.least_held) as u32);
        Some(shadow)
    }

    fn remove(&mut self, pages: &P, page: FrameNumber) {
        let waits = self.waiting.iter(pages).any(|waits| waits == page);
        let list = match (waits, pages.is(page, Flags::ACTIVE)) {
            (true, _) => &mut self.waiting,
            (false, true) => self.lists.list_mut(ListKind::ActiveFile),
            (false, false) => self.lists.list_mut(ListKind::InactiveFile),
        };
        list.remove(pages, page);
    }

    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber)) {
        for list in [&self.waiting, self.lists.list(ListKind::InactiveFile), self.lists.list(ListKind::ActiveFile)] {
            list.iter(pages).for_each(&mut *visit);
        }
    }
}
