//! The fate of isolated pages: freed, written, kept, or made active (`shrink_page_list`).
//!
//! Each step first decides ([`Verdict`] of the policy, [`check_writeback`], [`check_dirty`]: pure functions)
//! and then acts. The page lock is only tried. Description: mechanisms/reclaim, 13 (≥36).

use super::choices::{LumpyReclaim, PageoutTrigger, WritebackMet};
use super::control::COSTLY_ORDER;
use super::removals::Removals;
use super::{DEF_PRIORITY, Reclaim, ScanControl};
use crate::anonymous::Owners;
use crate::lru::{Isolated, Lru, Verdict};
use crate::memory::{Flags, List, Warmth, Zone, ZoneFlag};
use crate::stat::Event;
use crate::task::Task;
use crate::writeback::WritePage;
use machine::{FrameNumber, Func, Machine, Operation, Order, Step, WaitReason};

/// Pages between the one that is looked at and the one whose slot is asked for: some hundred nanoseconds of work.
const SLOTS_AHEAD: usize = 4;

/// The states of the pages of one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// Dirty pages.
    pub dirty: u64,
    /// Dirty file pages that no writer has queued.
    pub unqueued_dirty: u64,
    /// Pages whose device is congested, or that were met under writeback before.
    pub congested: u64,
    /// Pages under writeback.
    pub writeback: u64,
    /// Pages under writeback that kswapd met for the second time.
    pub immediate: u64,
    /// Pages that reclaim itself has begun to write.
    pub written: u64,
}

/// The decision on a page under writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writeback {
    /// Mark it, so that it is the next to go when its write ends, and keep it.
    Mark,
    /// Keep it.
    Keep,
    /// Keep it. It was marked before: whoever reclaims is faster than the disk.
    MetAgain,
    /// Wait until it is written, and look at it again.
    Wait,
}

/// The scanner that meets a page under writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetBy {
    /// Kswapd.
    Kswapd,
    /// A task that reclaims.
    Task,
    /// A task whose memory cgroup is at its limit, and which may wait for what writes the page.
    TaskAtLimit,
}

/// Judges a page under writeback.
#[must_use]
pub fn check_writeback(met: WritebackMet, by: MetBy, is_marked: bool, zone_is_full: bool) -> Writeback {
    match (met, by) {
        (WritebackMet::Keep, _) => Writeback::Keep,
        (WritebackMet::Mark | WritebackMet::CountImmediate, MetBy::TaskAtLimit) if is_marked => Writeback::Wait,
        (WritebackMet::CountImmediate, MetBy::Kswapd) if is_marked && zone_is_full => Writeback::MetAgain,
        (WritebackMet::Mark | WritebackMet::CountImmediate, _) => Writeback::Mark,
    }
}

/// The decision on a dirty page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// Leave it to the flusher, and free it as soon as that has written it.
    MarkForReclaim,
    /// Keep it.
    Keep,
    /// Write it now.
    Pageout,
}

/// The facts about a dirty page and about who looks at it.
#[derive(Clone, Copy, Debug)]
pub struct DirtyPage {
    /// Does it belong to a file (and not to swap)?
    pub is_file: bool,
    /// May the reclaimer write file pages at all: is it kswapd, and is its trigger met?
    pub may_write_file: bool,
    /// Its recent use.
    pub verdict: Verdict,
    /// May the caller enter what writes it?
    pub may_enter_fs: bool,
}

/// Judges a dirty page.
#[must_use]
pub fn check_dirty(page: DirtyPage) -> Dirty {
    if page.is_file && !page.may_write_file {
        Dirty::MarkForReclaim
    } else if page.verdict == Verdict::ReclaimClean || !page.may_enter_fs {
        Dirty::Keep
    } else {
        Dirty::Pageout
    }
}

/// The fate of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its owner gave it up: free it.
    Free,
    /// Back to its list.
    Keep,
    /// Back to its list; already unlocked.
    KeepUnlocked,
    /// To the active list.
    Activate,
    /// Unlocked, and written by now: it is to be looked at again.
    LookAgain,
    /// Waits in [`Removals`], locked.
    FreeWithOthers,
    /// As `Free`, if no reader turns out to hold it by a hazard pointer; unlocked, and still its owner's.
    FreeUnlessHeld,
}

impl<M: Machine> Reclaim<M> {
    /// Decides the fate of isolated pages, oldest first; returns those that stay.
    #[doc(alias = "shrink_page_list")]
    pub(super) fn shrink_pages(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        taken: &[FrameNumber],
        control: &mut ScanControl,
        counts: &mut ListCounts,
    ) -> Isolated {
        let _span = self.machine.span(Func::ShrinkPageList);
        let mut owners = Owners::default();
        let mut removals = Removals::default();
        let mut survivors = Isolated::new();
        let mut free = Isolated::new();
        let mut may_be_held = Isolated::new();
        let mut activated = 0;
        // Descriptors of the next list, which nobody touched of late: where that begins, the last page's link still says after
        // `isolate`. Half of them while pages are judged, half while they are freed: each link waits for memory.
        let mut next = taken.last().copied();
        let mut look_ahead = |n: usize| {
            if n.is_multiple_of(2) {
                next = next.and_then(|next| List::look_before(&self.frames, next));
            }
        };
        'pages: for (n, &frame) in taken.iter().enumerate() {
            // Nor did anybody touch the slots of this one's pages.
            if let Some(soon) = taken.get(n + SLOTS_AHEAD) {
                owners.prefetch_slot(self, *soon);
            }
            look_ahead(n);
            let descriptor = &self.frames[frame];
            self.machine.spend_on(Step::ScanPage, frame, 1);
            let fate = loop {
                if !descriptor.try_lock() {
                    control.met.locked += 1;
                    survivors.push(frame);
                    self.note_kept(control, false);
                    continue 'pages;
                }
                control.scanned += 1;
                match self.shrink_page(task, zone, frame, control, counts, (&mut owners, &mut removals)) {
                    Fate::LookAgain => {}
                    fate => break fate,
                }
            };
            match fate {
                Fate::Free => {
                    self.age_by_eviction(frame);
                    descriptor.clear(Flags::LOCKED);
                    free.push(frame);
                    continue;
                }
                Fate::FreeWithOthers => continue,
                Fate::FreeUnlessHeld => {
                    may_be_held.push(frame);
                    continue;
                }
                Fate::KeepUnlocked | Fate::LookAgain => {}
                Fate::Keep => self.unlock_page(frame),
                Fate::Activate => {
                    if descriptor.is(Flags::SWAPCACHE) && self.swap.is_nearly_full() {
                        self.try_to_free_swap(frame);
                    }
                    self.activate_isolated(frame);
                    activated += 1;
                    self.unlock_page(frame);
                }
            }
            survivors.push(frame);
            self.note_kept(control, descriptor.is(Flags::WRITEBACK));
        }
        self.stat.count(Event::Pgactivate, activated);
        self.remove_waiting(&mut removals);
        removals.removed.iter().for_each(|frame| self.age_by_eviction(*frame));
        free.extend(removals.removed);
        control.met.held += removals.stayed.len() as u64;
        for frame in removals.stayed {
            survivors.push(frame);
            self.note_kept(control, false);
        }
        let shadow = |frame| self.eviction_shadow(frame);
        self.remove_mappings(&may_be_held, &mut owners, shadow, |frame, is_removed| {
            if is_removed {
                self.age_by_eviction(frame);
                free.push(frame);
            } else {
                control.met.held += 1;
                survivors.push(frame);
                self.note_kept(control, false);
            }
        });
        control.met.freed += free.len() as u64;
        let _span = self.machine.span(Func::FreePageList);
        self.machine.spend_on(Step::FreePage, zone.start, free.len() as u32);
        self.note_evicted(&free);
        for (n, frame) in free.into_iter().enumerate() {
            look_ahead(n);
            self.free(frame, Order::ZERO, Warmth::Cold);
        }
        survivors
    }

    /// A page that stays spoils its block; one that is being written will be free soon. With `LumpyReclaim::ByOrder`
    /// blocks are taken for what was asked for, whatever becomes of them.
    fn note_kept(&self, control: &mut ScanControl, is_written: bool) {
        control.takes_blocks &= match self.choices.lumpy_reclaim {
            LumpyReclaim::ByOrder => true,
            LumpyReclaim::AlignedBlocks | LumpyReclaim::SameList | LumpyReclaim::Never => is_written,
        };
    }

    fn shrink_page(
        &self,
        task: &mut Task,
        zone: &Zone<M>,
        frame: FrameNumber,
        control: &mut ScanControl,
        counts: &mut ListCounts,
        (owners, removals): (&mut Owners<M>, &mut Removals<M>),
    ) -> Fate {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        let is_file = !flags.has(Flags::SWAPBACKED);
        if flags.has(Flags::WRITE_FAILED) && !flags.has(Flags::WRITEBACK) {
            // Nobody knows when it can be written: out of the way, and of the counts by which reclaimers wait for writes.
            control.met.write_failed += 1;
            return Fate::Activate;
        }
        if descriptor.mappings() > 0 && !control.may_unmap {
            control.met.mapped += 1;
            return Fate::Keep;
        }
        if descriptor.mappings() > 0 || flags.has(Flags::SWAPCACHE) {
            control.scanned += 1;
        }
        let mut may_enter_fs = control.gfp.fs || flags.has(Flags::SWAPCACHE) && control.gfp.io;
        let on_sight = self.choices.dirty_accounting.is_on_sight();
        if on_sight {
            self.count_on_sight(is_file, flags, frame, counts, owners);
        }
        if flags.has(Flags::WRITEBACK) && control.waits_for_writeback && control.takes_blocks && may_enter_fs {
            self.remove_waiting(removals);
            self.wait_for_clear(frame, WaitReason::PageWriteback);
            if descriptor.is(Flags::WRITE_FAILED) {
                control.met.write_failed += 1;
                return Fate::Activate;
            }
        } else if flags.has(Flags::WRITEBACK) {
            let (is_marked, zone_is_full) = (flags.has(Flags::RECLAIM), zone.is(ZoneFlag::WRITEBACK));
            let by = match control.is_kswapd {
                true => MetBy::Kswapd,
                false if control.is_cgroup && may_enter_fs => MetBy::TaskAtLimit,
                false => MetBy::Task,
            };
            match check_writeback(self.choices.writeback_met, by, is_marked, zone_is_full) {
                Writeback::Wait => {
                    // It has gone round its list while it was being written: the rest of the list is no nearer to its end.
                    self.remove_waiting(removals);
                    self.unlock_page(frame);
                    self.wait_for_clear(frame, WaitReason::PageWriteback);
                    return Fate::LookAgain;
                }
                Writeback::MetAgain => counts.immediate += 1,
                Writeback::Keep => {}
                Writeback::Mark => {
                    descriptor.set(Flags::RECLAIM);
                    counts.writeback += 1;
                }
            }
            control.met.under_writeback += 1;
            return self.unwritten();
        }

        let is_taken_with_block = control.takes_blocks
            && match self.choices.lumpy_reclaim {
                LumpyReclaim::ByOrder | LumpyReclaim::AlignedBlocks | LumpyReclaim::Never => true,
                LumpyReclaim::SameList => false,
            };
        let verdict = self.judge_page(frame, is_taken_with_block, owners);
        match verdict {
            Verdict::Activate | Verdict::Keep => {
                control.met.used += 1;
                return if verdict == Verdict::Keep { Fate::Keep } else { Fate::Activate };
            }
            Verdict::Reclaim | Verdict::ReclaimClean => {}
        }

        if !is_file && !flags.has(Flags::SWAPCACHE) {
            if !control.gfp.io || !control.may_swap {
                control.met.not_swappable += 1;
                return Fate::Keep;
            }
            if descriptor.is(Flags::COMPOUND) {
                if self.swap.free_slots() == 0 {
                    control.met.not_swappable += 1;
                    return Fate::Activate;
                }
                if !self.split_for_swap(frame, owners) {
                    // Its owner went away: whoever holds the last reference frees it.
                    control.met.held += 1;
                    return Fate::Keep;
                }
            }
            if !self.add_to_swap(frame) {
                control.met.not_swappable += 1;
                return Fate::Activate;
            }
            may_enter_fs = true;
        }
        if descriptor.mappings() > 0 {
            self.try_to_unmap(frame, owners);
            if descriptor.mappings() > 0 {
                control.met.mapped += 1;
                return Fate::Keep;
            }
        }
        if descriptor.is(Flags::DIRTY) {
            if !on_sight {
                counts.dirty += 1;
            }
            let page = DirtyPage {
                is_file,
                may_write_file: self.is_pageout_triggered(zone, frame, control),
                verdict,
                may_enter_fs,
            };
            match check_dirty(page) {
                Dirty::MarkForReclaim => {
                    self.stat.count(Event::NrVmscanImmediateReclaim, 1);
                    descriptor.set(Flags::RECLAIM);
                    control.met.dirty += 1;
                    return self.unwritten();
                }
                Dirty::Pageout if !control.may_write => {
                    control.met.dirty += 1;
                    return Fate::Keep;
                }
                Dirty::Keep => {
                    control.met.dirty += 1;
                    return Fate::Keep;
                }
                Dirty::Pageout => {
                    self.remove_waiting(removals);
                    let before = counts.written;
                    if let Some(fate) = self.pageout(task, frame, control, counts, owners) {
                        let is_written = counts.written > before;
                        control.met.written += u64::from(is_written);
                        control.met.dirty += u64::from(!is_written);
                        return fate;
                    }
                }
            }
        }
        let file = if is_file { owners.file_of(self, frame) } else { None };
        if is_file && file.is_none() || !is_file && !descriptor.is(Flags::SWAPCACHE) {
            // Its owner went away: whoever holds the last reference frees it.
            control.met.held += 1;
            return Fate::Keep;
        }
        if let Some(file) = file.filter(|_| self.removes_by_file() && !self.may_be_held(frame)) {
            self.remove_with_others(removals, file, frame, self.eviction_shadow(frame));
            return Fate::FreeWithOthers;
        }
        if self.remove_mapping(frame, file.map(AsRef::as_ref), None, self.eviction_shadow(frame)) {
            return Fate::Free;
        }
        if !self.may_be_held(frame) {
            control.met.held += 1;
            return Fate::Keep;
        }
        self.unlock_page(frame);
        Fate::FreeUnlessHeld
    }

    /// Makes small pages of a huge page, which has one place in swap for each; they go on the lists, to be looked at next. False
    /// when nobody maps it any more.
    fn split_for_swap(&self, head: FrameNumber, owners: &mut Owners<M>) -> bool {
        let start = self.frames[head].index();
        let Some(region) = owners.region_of(self, head) else { return false };
        self.split_huge_page(region, start);
        !self.frames[head].is(Flags::COMPOUND)
    }

    fn count_on_sight(
        &self,
        is_file: bool,
        flags: Flags,
        frame: FrameNumber,
        counts: &mut ListCounts,
        owners: &mut Owners<M>,
    ) {
        // Flushers never clean anonymous pages: they say nothing of how writers keep up.
        let dirty = is_file && flags.has(Flags::DIRTY);
        let writeback = is_file && flags.has(Flags::WRITEBACK);
        counts.dirty += u64::from(dirty || writeback);
        counts.unqueued_dirty += u64::from(dirty && !writeback);
        // A clean page of a congested device counts, too: among such pages a zone is not congested by its dirty ones.
        let is_congested = is_file
            && self.machine.is_any_congested(Operation::Write)
            && owners.file_of(self, frame).is_some_and(|file| self.machine.is_congested(file.device, Operation::Write));
        counts.congested += u64::from(is_congested || writeback && flags.has(Flags::RECLAIM));
    }

    /// Returns the fate of a page that was met under writeback, or left to the flusher.
    fn unwritten(&self) -> Fate {
        let lru: &Lru<M> = self;
        if lru.choices.unwritten_pages.become_active() { Fate::Activate } else { Fate::Keep }
    }

    fn is_pageout_triggered(&self, zone: &Zone<M>, frame: FrameNumber, control: &ScanControl) -> bool {
        match self.choices.pageout_trigger {
            PageoutTrigger::Always => true,
            PageoutTrigger::Priority => control.is_kswapd && control.priority < DEF_PRIORITY - 2,
            PageoutTrigger::DirtySeen => control.is_kswapd && zone.is(ZoneFlag::TAIL_LRU_DIRTY),
            PageoutTrigger::DirtySeenTwice => {
                control.is_kswapd && zone.is(ZoneFlag::TAIL_LRU_DIRTY) && self.frames[frame].is(Flags::RECLAIM)
            }
            PageoutTrigger::Never => false,
        }
    }

    /// Writes one dirty page; nothing when it is clean, locked, and may be freed at once.
    fn pageout(
        &self,
        task: &Task,
        frame: FrameNumber,
        control: &ScanControl,
        counts: &mut ListCounts,
        owners: &mut Owners<M>,
    ) -> Option<Fate> {
        let _span = self.machine.span(Func::Pageout);
        let descriptor = &self.frames[frame];
        let at_write = !self.choices.dirty_accounting.is_on_sight();
        let mut keep = || {
            counts.congested += u64::from(at_write);
            Some(Fate::Keep)
        };
        // Somebody else refers to it: it could not be freed after the write; and whoever found it mapped may
        // still write to it, which must not be taken for written.
        if descriptor.references_exact() != 2 {
            return keep();
        }
        let file = owners.file_of(self, frame).cloned();
        let device = file.as_ref().map_or(self.swap.device, |file| file.device);
        // The swap device's own congestion is not looked at (mechanisms/reclaim, 22).
        let for_block = match self.choices.lumpy_reclaim {
            LumpyReclaim::AlignedBlocks => control.takes_blocks && control.order > COSTLY_ORDER,
            LumpyReclaim::ByOrder | LumpyReclaim::SameList | LumpyReclaim::Never => false,
        };
        let may_write_congested = task.may_write_congested || task.writes_to == Some(device) || for_block;
        if file.is_some() && !may_write_congested && self.machine.is_congested(device, Operation::Write) {
            return keep();
        }
        if file.is_some() && !self.try_hold_still(frame) {
            return keep();
        }
        descriptor.set(Flags::RECLAIM);
        self.machine.spend(Step::WritePage, 1);
        let written = match &file {
            Some(file) => {
                if !self.clear_dirty_for_io(file, frame) {
                    self.let_change(frame);
                    return None;
                }
                self.write_file_page(file, frame)
            }
            None => {
                descriptor.clear(Flags::DIRTY);
                self.write_swap_page(frame)
            }
        };
        self.stat.count(Event::NrVmscanWrite, 1);
        counts.written += u64::from(written == WritePage::Submitted);
        let is_at_once = file.is_none() && self.swap_is_synchronous();
        if (control.waits_for_writeback || is_at_once) && written == WritePage::Submitted {
            self.wait_for_clear(frame, WaitReason::PageWriteback);
        }
        if !descriptor.is(Flags::WRITEBACK) {
            descriptor.clear(Flags::RECLAIM);
        }
        if written == WritePage::Submitted && descriptor.flags().0 & (Flags::WRITEBACK.0 | Flags::DIRTY.0) != 0 {
            return Some(Fate::KeepUnlocked);
        }
        if written != WritePage::Submitted || !descriptor.try_lock() {
            return Some(Fate::KeepUnlocked);
        }
        if descriptor.flags().0 & (Flags::WRITEBACK.0 | Flags::DIRTY.0) != 0 {
            return Some(Fate::Keep);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kswapd_counts_a_page_met_twice_only_in_a_zone_full_of_writeback() {
        let again = |by, is_marked, full| {
            check_writeback(WritebackMet::CountImmediate, by, is_marked, full) == Writeback::MetAgain
        };
        assert!(again(MetBy::Kswapd, true, true));
        assert!(!again(MetBy::Task, true, true));
        assert!(!again(MetBy::Kswapd, false, true) && !again(MetBy::Kswapd, true, false));
        assert_eq!(check_writeback(WritebackMet::Mark, MetBy::Kswapd, true, true), Writeback::Mark);
    }

    #[test]
    fn only_a_task_at_its_limit_waits_and_only_for_a_page_that_it_meets_again() {
        for met in [WritebackMet::Mark, WritebackMet::CountImmediate] {
            assert_eq!(check_writeback(met, MetBy::TaskAtLimit, true, false), Writeback::Wait);
            assert_eq!(check_writeback(met, MetBy::TaskAtLimit, false, true), Writeback::Mark);
            assert_eq!(check_writeback(met, MetBy::Task, true, true), Writeback::Mark);
        }
        assert_eq!(check_writeback(WritebackMet::Keep, MetBy::TaskAtLimit, true, true), Writeback::Keep);
    }

    #[test]
    fn file_pages_are_left_to_the_flusher_until_kswapd_is_triggered() {
        let page = DirtyPage { is_file: true, may_write_file: false, verdict: Verdict::Reclaim, may_enter_fs: true };
        assert_eq!(check_dirty(page), Dirty::MarkForReclaim);
        assert_eq!(check_dirty(DirtyPage { may_write_file: true, ..page }), Dirty::Pageout);
        assert_eq!(check_dirty(DirtyPage { is_file: false, ..page }), Dirty::Pageout);
        assert_eq!(check_dirty(DirtyPage { is_file: false, may_enter_fs: false, ..page }), Dirty::Keep);
        let once = DirtyPage { may_write_file: true, verdict: Verdict::ReclaimClean, ..page };
        assert_eq!(check_dirty(once), Dirty::Keep);
    }
}
