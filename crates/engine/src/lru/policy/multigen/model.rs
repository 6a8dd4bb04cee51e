//! A model of the multi-generational LRU for use without an engine: files that are read by system calls, in one zone.
//!
//! The model uses the engine's code for lists, generations, counts of uses, tiers, the controller, placement, shadows,
//! and the decision whether a generation begins. Only the scan is the model's own. A scan of the engine has a priority
//! and a target, and page tables are walked before it. The model's scan has none of these: it returns one page to evict
//! at each call. A *round* of the model evicts as many pages as the engine isolates under one hold of the lock, and
//! examines at most 4096 pages. Generations begin between two rounds.

use super::ageing::{Ages, is_wanted_before_round, is_wanted_in_scan};
use super::choices::{Choices, FileUse, IsolatedMarks};
use super::controller::{Controller, Count};
use super::evict::{LOOKED_AT_MAX, Sorted, next_slot, sorted};
use super::generations::{GENERATIONS, GENERATIONS_MIN, Generations, slot_in, slot_of, with_slot};
use super::lists::{ListId, Lists};
use super::placement::{Coming, place};
use super::refault::{Left, Packing};
use super::uses;
use crate::lru::Family;
use crate::lru::policy::{Demand, Insert, Pages, Policy, Seen, Verdict, Victims};
use crate::memory::{Flags, ZoneKind};
use crate::page_cache::Shadow;
use machine::{FrameNumber, Nanos};

const ZONE: ZoneKind = ZoneKind::Normal;

/// The families whose pages may be taken: only file pages, because the model has no anonymous pages.
const FILES_ALONE: [bool; Family::ALL.len()] = [false, true];

/// A policy that models the multi-generational LRU without an engine. [`MultigenModel::new`] takes the choices of a
/// kernel.
#[derive(Debug)]
pub struct MultigenModel {
    choices: Choices,
    packing: Packing,
    lists: Lists,
    generations: Generations,
    controller: Controller,
    /// The highest tier whose pages may be evicted in this round.
    tier_limit: usize,
    /// Number of pages that may still be evicted before the next round of eviction begins.
    left_in_round: u32,
    /// Number of pages that may still be examined in the present round of eviction.
    left_to_look_at: u64,
}

impl MultigenModel {
    /// Creates the model, without pages, with the choices of a kernel.
    #[must_use]
    pub fn new(choices: Choices) -> Self {
        Self {
            choices,
            packing: Packing::new(1),
            lists: Lists::default(),
            generations: Generations::new(Nanos(0)),
            controller: Controller::default(),
            tier_limit: 0,
            left_in_round: 0,
            left_to_look_at: 0,
        }
    }

    /// Returns the number of the oldest generation that has a list. The model has only file pages.
    fn oldest(&self) -> u64 {
        self.generations.seqs().min[Family::File as usize]
    }

    fn list(&mut self, pages: &impl Pages, page: FrameNumber, flags: Flags, coming: Coming) {
        let Choices { placement, rejected, .. } = self.choices;
        let to = place(placement, rejected, flags, coming, &self.generations.seqs());
        let slot = slot_of(to.seq);
        // The generation stands for the activity of a listed page.
        write(pages, page, with_slot(flags.without(Flags::ACTIVE), slot));
        self.generations.add(slot, Family::File, ZONE, 1);
        let list = ListId::new(slot, Family::File, ZONE);
        match to.at_tail {
            true => self.lists.push_back(pages, list, page),
            false => self.lists.push_front(pages, list, page),
        }
    }

    /// Takes a listed page off its list.
    fn unlist(&mut self, pages: &impl Pages, page: FrameNumber) {
        self.lists.remove(pages, page);
        self.generations.add(slot_in(pages.flags(page)), Family::File, ZONE, -1);
    }

    /// Moves a listed page to the generation of another slot, and clears its count of uses.
    fn move_to(&mut self, pages: &impl Pages, page: FrameNumber, slot: usize, at_tail: bool) {
        self.unlist(pages, page);
        write(pages, page, with_slot(uses::cleared(self.choices.use_marks, pages.flags(page)), slot));
        self.generations.add(slot, Family::File, ZONE, 1);
        let list = ListId::new(slot, Family::File, ZONE);
        match at_tail {
            true => self.lists.push_back(pages, list, page),
            false => self.lists.push_front(pages, list, page),
        }
    }

    fn begin_round(&mut self, pages: &impl Pages) {
        let (rule, ages) = (self.choices.ageing, Ages::of(&self.generations, FILES_ALONE));
        // A round stands for one of kswapd and for one of a task, at any priority below the first.
        if is_wanted_before_round(rule, &ages) || is_wanted_in_scan(rule, &ages, &Demand::ANY, false) {
            self.begin_generation(pages);
        }
        self.tier_limit = self.controller.tier_limit(&self.choices, Family::File);
        self.left_in_round = self.choices.isolate_batch;
        self.left_to_look_at = self.generations.all_pages(Family::File).min(LOOKED_AT_MAX);
    }

    fn begin_generation(&mut self, pages: &impl Pages) {
        let seqs = self.generations.seqs();
        if seqs.generations(Family::File) == GENERATIONS as u64 {
            self.give_up_oldest(pages);
        }
        if seqs.generations(Family::Anon) == GENERATIONS as u64 {
            self.generations.set_min(Family::Anon, seqs.min[Family::Anon as usize] + 1);
        }
        self.generations.advance_max(Nanos(0));
    }

    /// Moves the pages of the oldest generation to the next one.
    fn give_up_oldest(&mut self, pages: &impl Pages) {
        let slot = slot_of(self.oldest());
        while let Some(page) = self.lists.last(ListId::new(slot, Family::File, ZONE)) {
            let tier = uses::tier(self.choices.use_marks, self.choices.tiers, pages.flags(page));
            self.controller.count(Count::Protected, Family::File, tier, 1);
            self.move_to(pages, page, next_slot(slot), true);
        }
        self.end_oldest(1);
    }

    /// Notes that the oldest `generations` generations have no pages any more.
    fn end_oldest(&self, generations: u64) {
        self.controller.fold(Family::File);
        self.generations.set_min(Family::File, self.oldest() + generations);
    }

    /// Ends generations from the oldest on, until one has pages or only two generations remain.
    fn end_empty(&self) {
        let seqs = self.generations.seqs();
        let is_empty = |seq: &u64| self.lists.is_empty(ListId::new(slot_of(*seq), Family::File, ZONE));
        let ended = (self.oldest()..seqs.max + 1 - GENERATIONS_MIN).take_while(is_empty).count();
        if ended > 0 {
            self.end_oldest(ended as u64);
        }
    }

    /// Takes the next victim off its list.
    fn take_victim(&mut self, pages: &impl Pages) -> Option<FrameNumber> {
        if self.generations.all_pages(Family::File) == 0 {
            return None;
        }
        loop {
            if self.left_in_round == 0 || self.left_to_look_at == 0 {
                self.begin_round(pages);
            }
            self.end_empty();
            if !self.generations.seqs().is_evictable(Family::File) {
                self.begin_generation(pages);
                continue;
            }
            let slot = slot_of(self.oldest());
            let Some(page) = self.lists.last(ListId::new(slot, Family::File, ZONE)) else { continue };
            self.left_to_look_at -= 1;
            let flags = pages.flags(page);
            let Choices { use_marks, tiers, saturated, dirty_at_tail, isolated_marks, .. } = self.choices;
            let tier = uses::tier(use_marks, tiers, flags);
            match sorted(flags, slot, tier > self.tier_limit, true, saturated, dirty_at_tail) {
                Sorted::Protected => {
                    self.controller.count(Count::Protected, Family::File, tier, 1);
                    self.move_to(pages, page, next_slot(slot), false);
                }
                Sorted::Lifted | Sorted::Elsewhere | Sorted::Ineligible | Sorted::ToWrite | Sorted::Locked => {
                    self.move_to(pages, page, next_slot(slot), false);
                }
                Sorted::Old => {
                    self.left_in_round -= 1;
                    self.unlist(pages, page);
                    if matches!(isolated_marks, IsolatedMarks::FirstTaken) {
                        write(pages, page, uses::isolated(flags));
                    }
                    return Some(page);
                }
            }
        }
    }
}

/// Sets the state bits of a page to `flags`.
fn write(pages: &impl Pages, page: FrameNumber, flags: Flags) {
    let before = pages.flags(page);
    if before != flags {
        pages.clear(page, before.without(flags));
        pages.set(page, flags.without(before));
    }
}

impl<P: Pages> Policy<P> for MultigenModel {
    fn insert(&mut self, pages: &P, page: FrameNumber, how: Insert) {
        let before = pages.flags(page);
        // The page joins a list first, and is used then.
        let mut flags = before.without(Flags::REFERENCED);
        if let Some(shadow) = how.shadow() {
            let left = self.packing.decode(shadow);
            if self.packing.is_recent(left, &self.choices, &self.generations.seqs(), Family::File) {
                self.controller.count(Count::Refaulted, Family::File, left.tier(&self.choices), 1);
                flags = left.returned(&self.choices, false, flags);
            }
        }
        if before.has(Flags::REFERENCED) {
            flags = uses::used(self.choices.use_marks, flags);
        }
        self.list(pages, page, flags, Coming::New);
    }

    fn moves_on_use(&self) -> bool {
        true
    }

    #[inline]
    fn used(&mut self, pages: &P, page: FrameNumber) {
        let flags = pages.flags(page);
        match self.choices.file_use {
            FileUse::Counted if uses::is_saturated(flags) => {}
            FileUse::Counted => write(pages, page, uses::used(self.choices.use_marks, flags)),
            FileUse::Activates if !flags.has(Flags::REFERENCED) => pages.set(page, Flags::REFERENCED),
            FileUse::Activates => {
                let youngest = slot_of(self.generations.seqs().max);
                if slot_in(flags) != youngest {
                    self.move_to(pages, page, youngest, false);
                }
            }
        }
    }

    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims) {
        while (out.len() as u64) < want && !out.is_full() {
            let Some(page) = self.take_victim(pages) else { return };
            out.push(page);
        }
    }

    /// Activates a page that was accessed through several page tables since the last verdict, or through a page table
    /// and through its file. Uses through the file alone do not activate the page, because they already count in the
    /// page's tier.
    fn judge(&mut self, _: &P, _: FrameNumber, seen: Seen) -> Verdict {
        if seen.touched > 1 { Verdict::Activate } else { Verdict::Reclaim }
    }

    fn put_back(&mut self, pages: &P, page: FrameNumber, verdict: Verdict) {
        let active = if verdict == Verdict::Activate { Flags::ACTIVE } else { Flags::default() };
        self.list(pages, page, pages.flags(page).with(active), Coming::Rejected);
    }

    fn evicted(&mut self, pages: &P, page: FrameNumber) -> Option<Shadow> {
        let flags = pages.flags(page);
        let tier = uses::tier(self.choices.use_marks, self.choices.tiers, flags);
        self.controller.count(Count::Evicted, Family::File, tier, 1);
        Some(self.packing.encode(Left {
            seq: self.oldest(),
            lruvec: 0,
            is_workingset: flags.has(Flags::WORKINGSET),
            counted: uses::counted(flags),
        }))
    }

    fn remove(&mut self, pages: &P, page: FrameNumber) {
        self.unlist(pages, page);
    }

    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber)) {
        for slot in 0..GENERATIONS {
            self.lists.iter(pages, ListId::new(slot, Family::File, ZONE)).for_each(&mut *visit);
        }
    }
}
