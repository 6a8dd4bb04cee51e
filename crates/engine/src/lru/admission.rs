//! Admission: the decision which pages go on an LRU list at all (`lru.admission`).
//!
//! When memory is full, most pages that are read reach the tail of their list without a second use, and are evicted. By
//! then the CPU's caches have lost the pages' descriptors, slots and bytes. With
//! [`Admission::ByRefault`](super::choices::Admission::ByRefault) a page that a task reads, and that was not read
//! ahead, first waits with up to 63 other pages that its CPU has read. If it is used again meanwhile, it goes on a
//! list. Otherwise it is dropped: it leaves a shadow in its slot, and the next page takes its frame. If a dropped page
//! is read again soon, it may go on a list then. So reclaim, its locks and kswapd handle only pages that were missed
//! once. The cost is a second read of each page that is used again only later. Where these reads cost more than is
//! saved, all pages go on lists.
//!
//! Two kinds of pages are tested: pages read for the first time in a while, and pages that returned soon. The test asks
//! whether dropped pages of the kind are missed more often than reclaimed pages
//! ([`Workingset::is_missed_more`](super::Workingset::is_missed_more)). So pages that return by chance do not evict
//! others that are as good. Probes give the test data about both kinds: a few pages of a kind that goes on lists are
//! dropped, and a few of the pages that return by chance are put on lists.
//!
//! Description: mechanisms/multigen, 13: quick demotion and ghosts (Yang et al., "FIFO queues are all you need for
//! cache eviction", SOSP 2023); mechanisms/multigen, 9.4: what dropping pages at once saves. Measurements:
//! docs/studies/admission.md.

use super::admission_rule::AdmissionRule;
use super::batch::{Apply, BATCH_MAX, Batch};
use super::workingset::Left;
use super::{Insert, Lru};
use crate::anonymous::Owners;
use crate::memory::{Flags, MarkRights, Owner, Warmth};
use crate::page_cache::Shadow;
use crate::stat::ZoneEvent;
use arrayvec::ArrayVec;
use machine::{FrameNumber, Machine, Order, PerCpu, Step};

/// Largest number of waiting pages on which a reading task decides at once: each of them goes on an LRU list or is
/// freed. The task does so if the page that it reads has to wait for admission, but its CPU has as many waiting pages
/// as it may.
///
/// This work delays the task's own read. When half of the waiting pages, 32, were listed or freed at once, one read in
/// 32 took twice as long, and these slow reads set the 99th percentile. 2, 4, 8, 16 and 32 were tried on zram with 1, 2
/// and 16 threads: docs/studies/library-limits.md.
const JUDGED_MAX: usize = 8;

/// The flags of a page that was used once. The frame of a page with exactly these flags can be given to another page at
/// once.
const USED_ONCE: Flags = Flags::UPTODATE.with(Flags::REFERENCED);

/// The pages that wait on one CPU until it is decided whether they go on an LRU list or are freed. Each page has with
/// it the kind under which it is counted if it is freed.
pub(super) type Waiting = ArrayVec<(FrameNumber, Left), BATCH_MAX>;

impl<M: Machine> Lru<M> {
    /// Takes in a page that a task is about to read: puts it on a list, or lets it wait for admission to a list.
    /// `shadow` is the shadow that the page's slot in the file's index held. A page that is about to be mapped
    /// (`maps_page`) does not wait, because it would go on a list in any case. Pages that are read ahead go on a list
    /// through [`Lru::add`] instead.
    pub fn add_read(&self, frame: FrameNumber, shadow: Option<Shadow>, maps_page: bool) {
        let how = Insert::Read { shadow };
        let Some(waiting) = &self.waiting else { return self.add(frame, how, false) };
        let kind = self.note_refault(frame, shadow);
        if maps_page || kind == Left::Returned && self.lists_next_returned() {
            return self.add(frame, how, false);
        }
        self.frames[frame].get();
        let oldest = {
            let mut waiting = waiting.local();
            // At least the younger half stays, because many pages may be read at the same time.
            let is_full = waiting.len() as u64 >= self.waiting_max();
            let judged = waiting.len().div_ceil(2).min(JUDGED_MAX);
            let oldest: Option<Waiting> = is_full.then(|| waiting.drain(..judged).collect());
            waiting.push((frame, kind));
            oldest
        };
        if let Some(oldest) = oldest {
            self.judge(oldest);
        }
    }

    /// Counts a refault if the page left a shadow when it was last in memory. Returns the kind with which the page's
    /// next shadow is made if the page leaves memory without ever joining a list: [`Left::Returned`] after an early
    /// refault, otherwise [`Left::UsedOnce`].
    fn note_refault(&self, frame: FrameNumber, shadow: Option<Shadow>) -> Left {
        let Some(shadow) = shadow else { return Left::UsedOnce };
        let is_missed = self.workingset.note_refault(shadow);
        let zone = self.memory().zone_of(frame);
        zone.stat.count(ZoneEvent::WorkingsetRefaultFile, 1);
        zone.stat.count(ZoneEvent::WorkingsetActivateFile, is_missed.into());
        if is_missed { Left::Returned } else { Left::UsedOnce }
    }

    /// Returns the largest number of pages that may wait on one CPU for the decision whether they go on LRU lists.
    fn waiting_max(&self) -> u64 {
        AdmissionRule::CHOSEN.waiting_max(self.memory().managed_pages(), self.machine.cpus() as u64)
    }

    /// Returns the largest number of pages that can wait for admission to an LRU list, on all CPUs together. Up to this
    /// many pages are taken from free memory before the first of them is freed again.
    pub(crate) fn waiting_max_of_all(&self) -> u64 {
        if self.waiting.is_some() { self.waiting_max() * self.machine.cpus() as u64 } else { 0 }
    }

    /// Counts one more page that returned soon after it left memory ([`Left::Returned`]). Returns `true` if this page
    /// goes on an LRU list at once, and `false` if it waits for its admission to a list.
    fn lists_next_returned(&self) -> bool {
        let number = self.workingset.count_judged(Left::Returned, 1);
        match self.workingset.is_missed_more(Left::Returned) {
            true => !number.is_multiple_of(AdmissionRule::CHOSEN.probe_every),
            false => number.is_multiple_of(AdmissionRule::CHOSEN.listed_every),
        }
    }

    /// Decides on all pages that wait on this CPU for their admission to a list: each is put on an LRU list, or freed.
    pub(super) fn judge_waiting(&self) {
        if let Some(waiting) = &self.waiting {
            let pages = std::mem::take(&mut *waiting.local());
            self.judge(pages);
        }
    }

    /// Puts on LRU lists those pages of a file that wait on this CPU for the decision on their admission. It frees none
    /// of them: the caller is about to drop all pages of the file and to count them, and a page that was freed here
    /// would be missing from its count.
    pub(super) fn list_waiting(&self, file: u32) {
        if let Some(waiting) = &self.waiting {
            let mut of_file = Batch::new();
            // Each page is asked for its owner once, because another task may take it out of its file meanwhile.
            waiting.local().retain(|(frame, _)| {
                let is_of_file = self.frames[*frame].owner() == Owner::File(file);
                if is_of_file {
                    of_file.push(*frame);
                }
                !is_of_file
            });
            self.flush(&of_file, Apply::Add(None));
        }
    }

    /// Returns whether a page waits on this CPU for its admission to a list.
    pub(super) fn is_waiting(&self, frame: FrameNumber) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.local().iter().any(|(waits, _)| *waits == frame))
    }

    /// Ends the wait of all pages that wait for admission, on all CPUs: puts each of them on a list.
    pub(super) fn list_all_waiting(&self) {
        let Some(waiting) = &self.waiting else { return };
        let mut taken = Vec::new();
        waiting.for_each_cpu(|pages| taken.push(std::mem::take(pages)));
        taken.into_iter().for_each(|pages| self.list(pages));
    }

    /// Ends the wait of `pages` for admission to LRU lists. If memory is short, frees those that were used only once.
    /// But while pages of the kind [`Left::UsedOnce`] are missed more often than evicted pages, frees only one in
    /// [`AdmissionRule::probe_every`] of this kind. Puts all other pages on lists.
    fn judge(&self, mut pages: Waiting) {
        if !pages.is_empty() && !self.has_room() {
            let waited = pages.len() as u32;
            self.machine.spend(Step::ScanPage, waited);
            let mut owners = Owners::default();
            // While pages used once go on lists, they are counted, because one in `probe_every` is
            // dropped as a probe.
            let lists_others = self.workingset.is_missed_more(Left::UsedOnce);
            let others = pages.iter().filter(|(_, kind)| *kind == Left::UsedOnce).count() as u32;
            let mut number = lists_others.then(|| self.workingset.count_judged(Left::UsedOnce, others));
            let mut dropped = [0; Left::ALL.len()];
            pages.retain(|(frame, kind)| {
                let stays = *kind == Left::UsedOnce
                    && number.as_mut().is_some_and(|number| {
                        *number = number.wrapping_add(1);
                        !number.is_multiple_of(AdmissionRule::CHOSEN.probe_every)
                    });
                let is_dropped = !stays && self.drop_used_once(*frame, *kind, &mut owners);
                if is_dropped {
                    dropped[*kind as usize] += 1;
                    self.memory().zone_of(*frame).stat.count(ZoneEvent::LruUsedOnce, 1);
                }
                !is_dropped
            });
            self.note_left(dropped);
        }
        self.list(pages);
    }

    /// Puts `pages` on LRU lists. These are pages that have waited for admission and were admitted.
    fn list(&self, pages: Waiting) {
        let pages: Batch = pages.into_iter().map(|(frame, _)| frame).collect();
        self.flush(&pages, Apply::Add(None));
    }

    /// Returns whether at least one zone is above its high mark, so that pages can be added without reclaim.
    fn has_room(&self) -> bool {
        let class = self.zones.iter().map(|zone| zone.kind as usize).max().unwrap_or_default();
        self.zones.iter().any(|zone| zone.is_above(zone.high(), Order::ZERO, class, MarkRights::default()))
    }

    /// Frees a page that waits for its admission to a list, if the page was used once and is not in use now. Returns
    /// whether it was freed.
    fn drop_used_once(&self, frame: FrameNumber, kind: Left, owners: &mut Owners<M>) -> bool {
        let descriptor = &self.frames[frame];
        if descriptor.flags() != USED_ONCE || descriptor.mappings() > 0 || !descriptor.try_lock() {
            return false;
        }
        let shadow = self.workingset.shadow(kind);
        // The flags are checked again under the page lock. A task that writes or maps the page has either done so
        // before this check, or finds that the page is gone.
        let is_removed = descriptor.flags() == USED_ONCE.with(Flags::LOCKED)
            && descriptor.mappings() == 0
            && owners
                .file_of(self, frame)
                .is_some_and(|file| self.swap_floor().remove_mapping(frame, Some(file), None, Some(shadow)));
        if is_removed {
            descriptor.clear(Flags::LOCKED);
            self.memory().free_folio(frame, Warmth::Hot);
        } else {
            self.page_cache().unlock_page(frame);
        }
        is_removed
    }

    /// Adds the number of file pages among `pages` to the count of evicted pages ([`Left::Evicted`]). Reclaim has just
    /// evicted `pages`. Does nothing with `Admission::Always`.
    pub(super) fn note_evicted_to_admission(&self, pages: &[FrameNumber]) {
        if self.waiting.is_some() {
            let is_of_file = |frame: &&FrameNumber| !self.frames[**frame].is(Flags::SWAPBACKED);
            let evicted = pages.iter().filter(is_of_file).count() as u32;
            self.note_left(Left::Evicted.only(evicted));
        }
    }

    /// Counts pages that have left memory. `left` has one number for each kind of [`Left`].
    fn note_left(&self, left: [u32; Left::ALL.len()]) {
        if left.iter().all(|pages| *pages == 0) {
            return;
        }
        // Lists are short while memory is used for other things. Without this minimum, pages that left short lists a
        // moment ago would count as gone for long.
        let held = self
            .page_cache()
            .listed_file_pages()
            .max(self.memory().managed_pages() / u64::from(AdmissionRule::CHOSEN.least_held_part));
        self.workingset.note_left(left, held as u32);
    }
}
