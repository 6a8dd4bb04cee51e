//! A model of Linux's active and inactive lists since 3.15, for use without an engine. It covers pages of files that
//! are read by system calls.
//!
//! A page becomes active at its second use, or when it returns within its refault distance. The model uses the engine's
//! code for shadows, for the length of the inactive list, and for the judgement of pages. It has a scan of its own: a
//! *round* of the model evicts a cluster of 32 pages. Before a round, active pages become inactive if the inactive list
//! is too short, or if a page has returned and become active since the last round (Linux 4.12 and later). The number of
//! pages that become inactive is 32 times the length of the active list, divided by the length of the inactive list, as
//! if one scan took the same share of both lists.

use super::Lists;
use super::age::is_below_ratio;
use super::judge::check_references;
use super::refault::{Packing, Token};
use crate::lru::ListKind;
use crate::lru::policy::{CLUSTER, Insert, Pages, Policy, Seen, Verdict, Victims};
use crate::memory::Flags;
use crate::page_cache::Shadow;
use machine::FrameNumber;

/// A policy that models Linux's active and inactive lists, with refault distances, without an engine.
#[derive(Debug)]
pub struct LinuxModel {
    lists: Lists,
    packing: Packing,
    /// The clock by which shadows record when a page left: the number of pages that were evicted or became active.
    age: u64,
    /// `true` if a page has refaulted and joined the active list since the last round of evictions began.
    has_refaulted: bool,
    /// Number of pages that the present round may still evict.
    left_in_round: u64,
}

impl LinuxModel {
    /// Creates the model, without pages, for a memory of `capacity` pages.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            lists: Lists::default(),
            packing: Packing::new(1, capacity),
            age: 0,
            has_refaulted: false,
            left_in_round: 0,
        }
    }

    fn push(&mut self, pages: &impl Pages, page: FrameNumber) {
        let kind = if pages.is(page, Flags::ACTIVE) { ListKind::ActiveFile } else { ListKind::InactiveFile };
        self.lists.list_mut(kind).push_front(pages, page);
    }

    fn begin_round(&mut self, pages: &impl Pages) {
        let [inactive, active] = [ListKind::InactiveFile, ListKind::ActiveFile].map(|kind| self.lists.list(kind).len());
        let is_wanted = is_below_ratio(inactive, active, inactive + active);
        if std::mem::take(&mut self.has_refaulted) || is_wanted {
            self.age(pages, (CLUSTER * active).div_ceil(inactive.max(1)));
        }
        self.left_in_round = CLUSTER;
    }

    /// Deactivates pages: moves at most `most` pages from the tail of the active list to the head of the inactive list.
    fn age(&mut self, pages: &impl Pages, most: u64) {
        for _ in 0..most {
            let Some(page) = self.lists.list(ListKind::ActiveFile).last() else { return };
            self.lists.list_mut(ListKind::ActiveFile).remove(pages, page);
            pages.clear(page, Flags::ACTIVE);
            pages.set(page, Flags::WORKINGSET);
            self.lists.list_mut(ListKind::InactiveFile).push_front(pages, page);
        }
    }
}

impl<P: Pages> Policy<P> for LinuxModel {
    fn insert(&mut self, pages: &P, page: FrameNumber, how: Insert) {
        if let Some(shadow) = how.shadow() {
            let token = self.packing.unpack(shadow);
            if self.packing.distance(token, self.age) <= self.lists.list(ListKind::ActiveFile).len() {
                self.age += 1;
                self.has_refaulted = true;
                let mark = if token.is_of_workingset { Flags::WORKINGSET } else { Flags::default() };
                pages.set(page, Flags::ACTIVE.with(mark));
            }
        }
        self.push(pages, page);
    }

    fn moves_on_use(&self) -> bool {
        true
    }

    #[inline]
    fn used(&mut self, pages: &P, page: FrameNumber) {
        let flags = pages.flags(page);
        if !flags.has(Flags::REFERENCED) {
            pages.set(page, Flags::REFERENCED);
        } else if !flags.has(Flags::ACTIVE) {
            self.lists.list_mut(ListKind::InactiveFile).remove(pages, page);
            pages.clear(page, Flags::REFERENCED);
            pages.set(page, Flags::ACTIVE);
            self.lists.list_mut(ListKind::ActiveFile).push_front(pages, page);
            self.age += 1;
        }
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        while (out.len() as u64) < want && !out.is_full() {
            if self.left_in_round == 0 {
                self.begin_round(pages);
            }
            if self.lists.list(ListKind::InactiveFile).last().is_none() {
                self.age(pages, CLUSTER);
            }
            let Some(page) = self.lists.list(ListKind::InactiveFile).last() else { return };
            self.lists.list_mut(ListKind::InactiveFile).remove(pages, page);
            self.left_in_round -= 1;
            out.push(page);
        }
    }

    fn judge(&mut self, _: &P, _: FrameNumber, seen: Seen) -> Verdict {
        check_references(seen.touched, seen.is_referenced, seen.is_anon, !seen.is_anon)
    }

    fn put_back(&mut self, pages: &P, page: FrameNumber, verdict: Verdict) {
        if verdict == Verdict::Activate {
            pages.set(page, Flags::ACTIVE);
            self.age += 1;
        }
        self.push(pages, page);
    }

    fn evicted(&mut self, pages: &P, page: FrameNumber) -> Option<Shadow> {
        let is_of_workingset = pages.is(page, Flags::WORKINGSET);
        let shadow = self.packing.pack(Token { lruvec: 0, age: self.age, is_of_workingset });
        self.age += 1;
        Some(shadow)
    }

    fn remove(&mut self, pages: &P, page: FrameNumber) {
        let kind = if pages.is(page, Flags::ACTIVE) { ListKind::ActiveFile } else { ListKind::InactiveFile };
        self.lists.list_mut(kind).remove(pages, page);
    }

    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber)) {
        for kind in [ListKind::InactiveFile, ListKind::ActiveFile] {
            self.lists.list(kind).iter(pages).for_each(&mut *visit);
        }
    }
}
