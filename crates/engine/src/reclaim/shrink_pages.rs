//! Carries out the fates of isolated pages: frees, writes, keeps or activates them (`shrink_page_list`).
//!
//! [`decide_fate`] returns each next step, and one `match` carries it out. Reclaim never waits for a page lock.
//! Description: mechanisms/reclaim, 13; of its variants, those marked "≥36" (since Linux 3.6).

use super::choices::{LumpyReclaim, PageoutTrigger, SplitPages};
use super::control::COSTLY_ORDER;
use super::fate::{Fate, ScanRights, SeenPage, Why, Writeback, decide_fate};
use super::removals::Removals;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::anonymous::Owners;
use crate::lru::huge::Tails;
use crate::lru::{CLUSTER, Isolated, Reach};
use crate::memory::{FOLIO_ORDER_MAX, Flags, List, Warmth, ZoneFlag};
use crate::stat::Event;
use crate::task::Task;
use crate::writeback::WritePage;
use arrayvec::ArrayVec;
use machine::{FrameNumber, Func, Machine, Operation, Step};
use std::ops::Range;

/// Distance, in pages, between the page that is examined and the page whose slot in its file's index is prefetched.
/// Examining this many pages takes some hundred nanoseconds.
const SLOTS_AHEAD: usize = 4;

/// Counts of the pages of one scanned list, by state. All pages of a folio count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// Number of pages whose fate was decided. The pages of a folio that was split meanwhile count, too.
    pub taken: u64,
    /// Number of scanned pages of the list that are dirty.
    pub dirty: u64,
    /// Number of dirty file pages whose write has not begun.
    pub unqueued_dirty: u64,
    /// Number of pages whose device is congested, plus the number of other pages that are under writeback and already
    /// were when an earlier scan met them.
    pub congested: u64,
    /// Number of pages under writeback.
    pub writeback: u64,
    /// Number of pages under writeback that kswapd met for the second time, in a zone full of pages under writeback.
    pub immediate: u64,
    /// Number of pages that reclaim itself has begun to write.
    pub written: u64,
    /// Number of pages that were freed.
    pub freed: u64,
}

/// The work that remains for a page after its fate was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The page has left its file or the swap cache, and is to be freed.
    Free,
    /// The page goes back to its list.
    Keep,
    /// The page goes back to its list. The page is already unlocked.
    KeepUnlocked,
    /// The page goes to the active list.
    Activate,
    /// The page is unlocked and has been written by now. Its fate is to be decided again.
    LookAgain,
    /// The page stays locked in [`Removals`], and is freed together with other pages of its file.
    FreeWithOthers,
    /// The page is to be freed, unless a reader holds the page by a hazard pointer. The page is unlocked, and has not
    /// left its owner (its file or the swap cache) yet.
    FreeUnlessHeld,
}

/// The frames of pages that were split off folios, without the folios' first pages: a range for each folio.
pub(super) type SplitOff = ArrayVec<Range<u32>, { CLUSTER as usize }>;

/// The pages whose fate a call of `shrink_pages` has decided so far, in a list for each kind of fate.
struct PageList<M: Machine> {
    owners: Owners<M>,
    removals: Removals<M>,
    split_off: SplitOff,
    /// Pages that reclaim keeps in memory.
    survivors: Isolated,
    /// Pages that were removed from their owners and are freed next.
    free: Isolated,
    /// Pages that can be freed, unless a reader turns out to hold them by a hazard pointer.
    may_be_held: Isolated,
}

impl<M: Machine> Default for PageList<M> {
    fn default() -> Self {
        Self {
            owners: Owners::default(),
            removals: Removals::default(),
            split_off: SplitOff::new(),
            survivors: Isolated::new(),
            free: Isolated::new(),
            may_be_held: Isolated::new(),
        }
    }
}

impl<M: Machine> Reclaim<M> {
    /// Decides for each of the isolated pages `taken`, oldest first, what happens to it, and frees or writes it
    /// accordingly. Returns the pages that were not freed, and the isolated pages of split folios whose fate is not
    /// decided yet.
    #[doc(alias = "shrink_page_list")]
    pub(super) fn shrink_pages(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        taken: &[FrameNumber],
        control: &mut ScanControl,
        counts: &mut ListCounts,
    ) -> (Isolated, SplitOff) {
        let _span = self.machine.span(Func::ShrinkPageList);
        let mut list = PageList::default();
        let mut activated = 0;
        // Prefetches descriptors of the list's next pages, which no task has touched lately. After `isolate`, the link
        // of the last page taken still leads to them. Half of the descriptors are prefetched while pages are judged,
        // half while pages are freed, because each link followed waits for memory.
        let mut next = taken.last().copied();
        let mut look_ahead = |n: usize| {
            if n.is_multiple_of(2) {
                next = next.and_then(|next| List::look_before(&self.frames, next));
            }
        };
        'pages: for (n, &frame) in taken.iter().enumerate() {
            // Prefetches the slot of a later page in its file's index: no task has touched the slots of this list's
            // pages lately, either.
            if let Some(soon) = taken.get(n + SLOTS_AHEAD) {
                list.owners.prefetch_slot(self, *soon);
            }
            look_ahead(n);
            let descriptor = &self.frames[frame];
            self.machine.spend_on(Step::ScanPage, frame, 1);
            let pages = self.frames.pages(frame);
            counts.taken += pages;
            let outcome = loop {
                if !descriptor.try_lock() {
                    control.met.locked += pages;
                    self.keep(&mut list.survivors, frame, control, false);
                    continue 'pages;
                }
                control.scanned += pages;
                match self.shrink_page(task, reach, frame, control, counts, &mut list) {
                    Outcome::LookAgain => {}
                    outcome => break outcome,
                }
            };
            match outcome {
                Outcome::Free => {
                    self.lru().note_taken(frame, control.group);
                    descriptor.clear(Flags::LOCKED);
                    list.free.push(frame);
                    continue;
                }
                Outcome::FreeWithOthers => continue,
                Outcome::FreeUnlessHeld => {
                    list.may_be_held.push(frame);
                    continue;
                }
                Outcome::KeepUnlocked | Outcome::LookAgain => {}
                Outcome::Keep => self.page_cache().unlock_page(frame),
                Outcome::Activate => {
                    if descriptor.is(Flags::SWAPCACHE) && self.swap_floor().is_swap_full_for(frame) {
                        self.swap_floor().try_to_free_swap(frame);
                    }
                    self.lru().activate_isolated(frame);
                    activated += self.frames.pages(frame);
                    self.page_cache().unlock_page(frame);
                }
            }
            self.keep(&mut list.survivors, frame, control, descriptor.is(Flags::WRITEBACK));
        }
        self.stat.count(Event::Pgactivate, activated);
        counts.freed += self.free_list(reach, &mut list, control, look_ahead);
        (list.survivors, list.split_off)
    }

    /// Frees all pages of `list` that can be freed. Pages that still belong to an owner are first taken from the owner.
    /// Returns the number of freed pages.
    fn free_list(
        &self,
        reach: Reach<'_, M>,
        list: &mut PageList<M>,
        control: &mut ScanControl,
        mut look_ahead: impl FnMut(usize),
    ) -> u64 {
        let PageList { owners, removals, survivors, free, may_be_held, .. } = list;
        let target = control.group;
        self.remove_waiting(removals);
        removals.removed.iter().for_each(|frame| self.lru().note_taken(*frame, target));
        free.extend(removals.removed.iter().copied());
        for frame in &removals.stayed {
            control.met.held += self.frames.pages(*frame);
            self.keep(survivors, *frame, control, false);
        }
        let shadow = |frame| self.lru().eviction_shadow(frame, target);
        self.page_cache().remove_mappings(may_be_held, owners, shadow, |frame, is_removed| {
            if is_removed {
                self.lru().note_taken(frame, control.group);
                free.push(frame);
            } else {
                control.met.held += self.frames.pages(frame);
                self.keep(survivors, frame, control, false);
            }
        });
        let _span = self.machine.span(Func::FreePageList);
        self.machine.spend_on(Step::FreePage, reach.zone.start, free.len() as u32);
        self.lru().note_evicted(free);
        let mut freed = 0;
        for (n, frame) in free.iter().enumerate() {
            look_ahead(n);
            freed += self.frames.pages(*frame);
            self.memory().free_folio(*frame, Warmth::Cold);
        }
        control.met.freed += freed;
        freed
    }

    /// Adds a page to `survivors`, the pages that reclaim does not free. Unless the page is under writeback, the
    /// aligned block in which it lies cannot become free soon; so from then on, this reclaim takes no more pages only
    /// to free whole blocks. With `LumpyReclaim::ByOrder`, it still does, because there the requested order alone
    /// decides whether blocks are taken.
    fn keep(&self, survivors: &mut Isolated, frame: FrameNumber, control: &mut ScanControl, is_written: bool) {
        survivors.push(frame);
        control.takes_blocks &= match self.choices.lumpy_reclaim {
            LumpyReclaim::ByOrder => true,
            LumpyReclaim::AlignedBlocks | LumpyReclaim::SameList | LumpyReclaim::Never => is_written,
        };
    }

    /// Decides, step by step, whether one locked page is freed, and does the steps. Returns the work that remains for
    /// the page.
    fn shrink_page(
        &self,
        task: &mut Task,
        reach: Reach<'_, M>,
        frame: FrameNumber,
        control: &mut ScanControl,
        counts: &mut ListCounts,
        list: &mut PageList<M>,
    ) -> Outcome {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        let mut pages = self.frames.pages(frame);
        let mut counted_twice = false;
        let mut seen = self.see(reach, frame, flags);
        let scan = ScanRights::of(control, self.choices.writeback_met);
        loop {
            match decide_fate(&seen, &scan) {
                Fate::Count => {
                    seen.is_counted = true;
                    counted_twice = seen.is_mapped || seen.in_swap_cache;
                    control.scanned += pages * u64::from(counted_twice);
                    self.count_on_sight(seen.is_file, flags, frame, counts, &mut list.owners);
                }
                Fate::WaitForWrite => {
                    self.remove_waiting(&mut list.removals);
                    self.page_cache().wait_on_writeback(frame);
                    seen.under_writeback = false;
                    seen.write_failed = descriptor.is(Flags::WRITE_FAILED);
                }
                Fate::Judge => {
                    let is_wanted = self.is_taken_with_block(control);
                    seen.verdict = Some(self.lru().judge_page(frame, is_wanted, control.is_kswapd, &mut list.owners));
                    self.see_again(&mut seen, reach, frame, control);
                }
                Fate::Split => {
                    seen.is_compound = !self.split_for_swap(frame, list);
                    if seen.is_compound {
                        // The owner of the page went away, or other tasks hold the page.
                        return stay(Why::Held, Outcome::Keep, pages, control);
                    }
                    // The other pages are counted when they are scanned themselves.
                    control.scanned -= (pages - 1) * (1 + u64::from(counted_twice));
                    pages = 1;
                }
                Fate::AddToSwap => {
                    seen.in_swap_cache = self.swap_floor().add_to_swap(frame);
                    match (seen.in_swap_cache, seen.goes_whole) {
                        (true, _) => self.see_again(&mut seen, reach, frame, control),
                        // No block of slots is free, so the folio is split into pages.
                        (false, true) => seen.goes_whole = false,
                        (false, false) => return stay(Why::NotSwappable, Outcome::Activate, pages, control),
                    }
                }
                Fate::Unmap => {
                    self.anonymous().try_to_unmap(frame, &mut list.owners);
                    seen.was_unmapped = true;
                    self.see_again(&mut seen, reach, frame, control);
                }
                Fate::Pageout => {
                    if let Some(outcome) = self.write_out(task, frame, pages, control, counts, list) {
                        return outcome;
                    }
                    seen.is_dirty = false;
                }
                Fate::Unwritten(state) => return self.leave_unwritten(frame, state, control, counts, list),
                Fate::LeaveToFlusher => return self.leave_to_flusher(frame, control, counts),
                Fate::Keep(why) => {
                    if why == Why::Dirty {
                        self.count_at_write(pages, counts);
                    }
                    return stay(why, Outcome::Keep, pages, control);
                }
                Fate::Activate(why) => return stay(why, Outcome::Activate, pages, control),
                Fate::Remove => return self.remove_from_owner(frame, seen.is_file, control, list),
            }
        }
    }

    /// Writes a locked page of `pages` pages, and counts it as met dirty, or as met while it is written. Returns the work
    /// that remains for the page; none if the page is clean now and its next step is to be decided.
    fn write_out(
        &self,
        task: &mut Task,
        frame: FrameNumber,
        pages: u64,
        control: &mut ScanControl,
        counts: &mut ListCounts,
        list: &mut PageList<M>,
    ) -> Option<Outcome> {
        self.count_at_write(pages, counts);
        self.remove_waiting(&mut list.removals);
        let before = counts.written;
        let outcome = self.pageout(task, frame, control, counts, &mut list.owners)?;
        let is_written = counts.written > before;
        control.met.written += pages * u64::from(is_written);
        control.met.dirty += pages * u64::from(!is_written);
        Some(outcome)
    }

    /// Returns the facts on which reclaim decides its first step with a page, such as unmapping or writing it. They are
    /// read from the page's descriptor and its `flags`.
    fn see(&self, reach: Reach<'_, M>, frame: FrameNumber, flags: Flags) -> SeenPage {
        let under_writeback = flags.has(Flags::WRITEBACK);
        SeenPage {
            is_file: !flags.has(Flags::SWAPBACKED),
            write_failed: flags.has(Flags::WRITE_FAILED),
            under_writeback,
            is_marked: flags.has(Flags::RECLAIM),
            zone_is_full: under_writeback && reach.zone.is(ZoneFlag::WRITEBACK),
            is_mapped: self.frames[frame].mappings() > 0,
            in_swap_cache: flags.has(Flags::SWAPCACHE),
            ..SeenPage::default()
        }
    }

    /// Brings `seen`, the facts known of a page, up to date: reads again those that a step or another task may have
    /// changed.
    fn see_again(&self, seen: &mut SeenPage, reach: Reach<'_, M>, frame: FrameNumber, control: &ScanControl) {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        seen.is_mapped = descriptor.mappings() > 0;
        seen.is_compound = flags.has(Flags::COMPOUND);
        seen.has_swap_room = seen.is_compound && self.swap.free_slots() > 0;
        seen.goes_whole = seen.is_compound && self.goes_whole(frame);
        seen.is_dirty = flags.has(Flags::DIRTY);
        seen.may_write_file = seen.is_dirty && self.is_pageout_triggered(reach, flags, control);
    }

    /// Returns whether a large folio is to go to swap as a whole.
    fn goes_whole(&self, frame: FrameNumber) -> bool {
        self.swap_floor().choices.folios.are_whole() && self.frames.folio(frame).order < FOLIO_ORDER_MAX
    }

    /// Returns whether the reclaim `control` takes pages even if they were used lately, because it wants to free whole
    /// aligned blocks.
    fn is_taken_with_block(&self, control: &ScanControl) -> bool {
        control.takes_blocks
            && match self.choices.lumpy_reclaim {
                LumpyReclaim::ByOrder | LumpyReclaim::AlignedBlocks | LumpyReclaim::Never => true,
                LumpyReclaim::SameList => false,
            }
    }

    /// Marks a dirty page, so that it is freed as soon as the flusher has written it. Returns the outcome for the page.
    fn leave_to_flusher(&self, frame: FrameNumber, control: &mut ScanControl, counts: &mut ListCounts) -> Outcome {
        let pages = self.frames.pages(frame);
        self.count_at_write(pages, counts);
        self.stat.count(Event::NrVmscanImmediateReclaim, pages);
        self.frames[frame].set(Flags::RECLAIM);
        control.met.dirty += pages;
        self.unwritten()
    }

    /// Carries out `state`, the decision on a page under writeback: marks the page, counts it, or waits for the write.
    /// Returns the work that remains for the page.
    fn leave_unwritten(
        &self,
        frame: FrameNumber,
        state: Writeback,
        control: &mut ScanControl,
        counts: &mut ListCounts,
        list: &mut PageList<M>,
    ) -> Outcome {
        let pages = self.frames.pages(frame);
        match state {
            Writeback::Wait => {
                // The page has gone round its list while it was being written, so pages further on in the list will not
                // be written sooner.
                self.remove_waiting(&mut list.removals);
                self.page_cache().unlock_page(frame);
                self.page_cache().wait_on_writeback(frame);
                return Outcome::LookAgain;
            }
            Writeback::MetAgain => counts.immediate += pages,
            Writeback::Keep => {}
            Writeback::Mark => {
                self.frames[frame].set(Flags::RECLAIM);
                counts.writeback += pages;
            }
        }
        control.met.under_writeback += pages;
        self.unwritten()
    }

    /// Takes a clean page out of its file or the swap cache. Does this now, or puts the page into `list` so that it is
    /// taken together with other pages of its file. Returns the work that remains for the page.
    fn remove_from_owner(
        &self,
        frame: FrameNumber,
        is_file: bool,
        control: &mut ScanControl,
        list: &mut PageList<M>,
    ) -> Outcome {
        let file = if is_file { list.owners.file_of(self, frame) } else { None };
        if is_file && file.is_none() || !is_file && !self.frames[frame].is(Flags::SWAPCACHE) {
            // The page's owner went away.
            return stay(Why::Held, Outcome::Keep, self.frames.pages(frame), control);
        }
        if let Some(file) =
            file.filter(|_| self.page_cache().removes_by_file() && !self.page_cache().may_be_held(frame))
        {
            self.remove_with_others(&mut list.removals, file, frame, self.lru().eviction_shadow(frame, control.group));
            return Outcome::FreeWithOthers;
        }
        if self.swap_floor().remove_mapping(
            frame,
            file.map(AsRef::as_ref),
            None,
            self.lru().eviction_shadow(frame, control.group),
        ) {
            return Outcome::Free;
        }
        if !self.page_cache().may_be_held(frame) {
            return stay(Why::Held, Outcome::Keep, self.frames.pages(frame), control);
        }
        self.page_cache().unlock_page(frame);
        Outcome::FreeUnlessHeld
    }

    /// Splits a large folio into single pages, each of which will get a swap slot. `reclaim.split_pages` says when the
    /// pages behind the head are scanned. Returns `false` if the folio is not mapped any more, or other tasks hold it.
    fn split_for_swap(&self, head: FrameNumber, list: &mut PageList<M>) -> bool {
        let (start, pages) = (self.frames[head].index(), self.frames.pages(head) as u32);
        let Some(region) = list.owners.region_of(self, head) else { return false };
        let tails = match self.choices.split_pages {
            SplitPages::AtOnce if self.lru().keeps_split_pages_isolated() => Tails::Isolated,
            SplitPages::AtOnce | SplitPages::Later => Tails::Listed,
        };
        let is_split_here = match region.huge_page(start) == Some(head) {
            true => self.lru().split_isolated_huge_page(region, start, head, tails),
            false => self.lru().split_mapped_folio(region, head, tails),
        };
        // The pages of a folio that another task has split meanwhile are on lists.
        if is_split_here && tails == Tails::Isolated {
            list.split_off.push(head.0 + 1..head.0 + pages);
        }
        is_split_here || !self.frames[head].is(Flags::COMPOUND)
    }

    /// Adds a page to the counts of dirty, unqueued dirty and congested pages, before any other step of reclaim with
    /// the page. Does nothing unless `reclaim.dirty_accounting` says that pages are counted on sight.
    fn count_on_sight(
        &self,
        is_file: bool,
        flags: Flags,
        frame: FrameNumber,
        counts: &mut ListCounts,
        owners: &mut Owners<M>,
    ) {
        if !self.choices.dirty_accounting.is_on_sight() {
            return;
        }
        // Flushers never clean anonymous pages, so these do not show whether writeback keeps up.
        let dirty = is_file && flags.has(Flags::DIRTY);
        let writeback = is_file && flags.has(Flags::WRITEBACK);
        let pages = self.frames.pages(frame);
        counts.dirty += pages * u64::from(dirty || writeback);
        counts.unqueued_dirty += pages * u64::from(dirty && !writeback);
        // A clean page of a congested device counts as congested, too. Then `congested` can exceed `dirty`, and the
        // zone is not marked congested.
        let is_congested = is_file
            && self.machine.is_any_congested(Operation::Write)
            && owners.file_of(self, frame).is_some_and(|file| self.machine.is_congested(file.device, Operation::Write));
        counts.congested += pages * u64::from(is_congested || writeback && flags.has(Flags::RECLAIM));
    }

    /// Counts the pages of a dirty folio at the moment when reclaim decides whether to write it. Does nothing if reclaim
    /// counts dirty pages when it first meets them (`reclaim.dirty_accounting`).
    fn count_at_write(&self, pages: u64, counts: &mut ListCounts) {
        counts.dirty += pages * u64::from(!self.choices.dirty_accounting.is_on_sight());
    }

    /// Returns where a page goes that reclaim found under writeback, or left for the flusher to write: to the active
    /// list or back to its list, as `lru.unwritten_pages` says.
    fn unwritten(&self) -> Outcome {
        if self.lru().choices.unwritten_pages.become_active() { Outcome::Activate } else { Outcome::Keep }
    }

    fn is_pageout_triggered(&self, reach: Reach<'_, M>, flags: Flags, control: &ScanControl) -> bool {
        match self.choices.pageout_trigger {
            PageoutTrigger::Always => true,
            PageoutTrigger::Priority => control.is_kswapd && control.priority < DEF_PRIORITY - 2,
            PageoutTrigger::DirtySeen => control.is_kswapd && reach.zone.is(ZoneFlag::TAIL_LRU_DIRTY),
            PageoutTrigger::DirtySeenTwice => {
                control.is_kswapd && reach.zone.is(ZoneFlag::TAIL_LRU_DIRTY) && flags.has(Flags::RECLAIM)
            }
            PageoutTrigger::Never => false,
        }
    }

    /// Writes one dirty page. Returns `None` if the page is then clean and locked, and may be freed at once. Otherwise
    /// returns the outcome.
    fn pageout(
        &self,
        task: &Task,
        frame: FrameNumber,
        control: &ScanControl,
        counts: &mut ListCounts,
        owners: &mut Owners<M>,
    ) -> Option<Outcome> {
        let _span = self.machine.span(Func::Pageout);
        let descriptor = &self.frames[frame];
        let at_write = !self.choices.dirty_accounting.is_on_sight();
        let pages = self.frames.pages(frame);
        let mut keep = || {
            counts.congested += pages * u64::from(at_write);
            Some(Outcome::Keep)
        };
        // Another task has a reference. The page could not be freed after the write, and a task that found it mapped
        // may still change it, so it must not count as written.
        if descriptor.references_exact() != 2 {
            return keep();
        }
        let file = owners.file_of(self, frame).cloned();
        let device = file.as_ref().map_or(self.swap.device, |file| file.device);
        // The congestion of the swap device does not matter (mechanisms/reclaim, 22).
        let for_block = match self.choices.lumpy_reclaim {
            LumpyReclaim::AlignedBlocks => control.takes_blocks && control.order > COSTLY_ORDER,
            LumpyReclaim::ByOrder | LumpyReclaim::SameList | LumpyReclaim::Never => false,
        };
        let may_write_congested = task.may_write_congested || task.writes_to == Some(device) || for_block;
        if file.is_some() && !may_write_congested && self.machine.is_congested(device, Operation::Write) {
            return keep();
        }
        if file.is_some() && !self.writeback().try_hold_still(frame) {
            return keep();
        }
        if let Some(file) = &file
            && let Some(why) = self.writeback().waits_for(file, frame)
        {
            self.writeback().put_off(file, frame, why, None);
            self.writeback().let_change(frame);
            return Some(Outcome::Keep);
        }
        descriptor.set(Flags::RECLAIM);
        self.machine.spend(Step::WritePage, 1);
        let written = match &file {
            Some(file) => {
                if !self.writeback().clear_dirty_for_io(file, frame) {
                    self.writeback().let_change(frame);
                    return None;
                }
                self.writeback().write_file_page(file, frame)
            }
            None => {
                descriptor.clear(Flags::DIRTY);
                self.writeback().write_swap_page(frame)
            }
        };
        self.stat.count(Event::NrVmscanWrite, pages);
        counts.written += pages * u64::from(written == WritePage::Submitted);
        let is_at_once = file.is_none() && self.swap_floor().swap_is_synchronous();
        if (control.waits_for_writeback || is_at_once) && written == WritePage::Submitted {
            self.page_cache().wait_on_writeback(frame);
        }
        if !descriptor.is(Flags::WRITEBACK) {
            descriptor.clear(Flags::RECLAIM);
        }
        if written == WritePage::Submitted && descriptor.flags().0 & (Flags::WRITEBACK.0 | Flags::DIRTY.0) != 0 {
            return Some(Outcome::KeepUnlocked);
        }
        if written != WritePage::Submitted || !descriptor.try_lock() {
            return Some(Outcome::KeepUnlocked);
        }
        if descriptor.flags().0 & (Flags::WRITEBACK.0 | Flags::DIRTY.0) != 0 {
            return Some(Outcome::Keep);
        }
        None
    }
}

/// Counts the pages of a folio that reclaim leaves in memory for the reason `why`, and returns `outcome`.
const fn stay(why: Why, outcome: Outcome, pages: u64, control: &mut ScanControl) -> Outcome {
    why.count(pages, &mut control.met);
    outcome
}
