//! Batches in front of the LRU lock ("pagevecs").
//!
//! Insertions, activations and rotations are parked in small per-CPU arrays, and applied under one hold of the lock for
//! each run of pages of one lruvec in one zone. A parked page has one more reference, so that it cannot be freed or
//! reclaimed until its CPU flushes. With `Rotation::BatchedWithoutReference` a parked page can be freed, and the flush
//! passes over a frame that no longer holds the page. Description: mechanisms/reclaim, 8 and 9.

use super::choices::{ActivationBatch, AddFlush, ListChoice, Rotation};
use super::{Insert, ListKind, Lru};
use crate::memory::{Flags, Frame, Owner};
use crate::stat::Event;
use arrayvec::ArrayVec;
use machine::{FrameNumber, Func, Machine, PerCpu, Step};

/// Number of pages that the largest batch can hold; `lru.batch` may not be above it.
pub const BATCH_MAX: usize = 64;

pub(super) type Batch = ArrayVec<FrameNumber, BATCH_MAX>;

/// The batches of one CPU.
#[derive(Debug, Default)]
pub struct Batches {
    /// Pages to insert. With `ListChoice::AtAdd` there is a batch for each list; otherwise all pages are in the first
    /// batch.
    add: [Batch; ListKind::ALL.len()],
    activate: Batch,
    rotate: Batch,
    /// The owner of each page in `rotate`, and the page's number within that owner; empty if the batch holds references
    /// to its pages.
    rotate_places: Vec<OwnedPage>,
}

/// The owner of a page, and the page's number within that owner.
type OwnedPage = (Owner, u32);

fn place_of(descriptor: &Frame) -> OwnedPage {
    (descriptor.owner(), descriptor.index())
}

/// The operation that a flush applies to each page of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Apply {
    /// Insert the page on this list. With `None`, insert it on the list that the page's state selects at the flush.
    Add(Option<ListKind>),
    Activate,
    Rotate,
}

impl<M: Machine> Lru<M> {
    /// Returns the size of a batch. [`crate::kernel::Choices::check`] makes sure that it is within `1..=BATCH_MAX`.
    pub(super) fn batch_pages(&self) -> usize {
        self.choices.batch as usize
    }

    /// Adds an unlisted page to a list of its family (anonymous or file): to the active list if `active` is `true`, and
    /// otherwise to the inactive list. `how` says where the page comes from; some policies use it.
    #[doc(alias = "lru_cache_add")]
    pub fn add(&self, frame: FrameNumber, how: Insert, active: bool) {
        let Some(active) = self.note_coming(frame, how, active) else { return };
        let descriptor = &self.frames[frame];
        descriptor.get();
        let family_flags = if descriptor.is_anon() { Flags::SWAPBACKED } else { Flags::default() };
        let chosen = match self.list_choice() {
            ListChoice::AtAdd if active => Some(self.kind_of(family_flags.with(Flags::ACTIVE))),
            ListChoice::AtAdd => Some(self.kind_of(family_flags)),
            ListChoice::AtFlush => {
                if active {
                    descriptor.set(Flags::ACTIVE);
                }
                None
            }
        };
        let mut full = Batch::new();
        {
            let mut batches = self.batches.local();
            let batch = &mut batches.add[chosen.map_or(0, |kind| kind as usize)];
            match self.choices.add_flush {
                AddFlush::WhenFull => {
                    self.take_if_full(batch, &mut full);
                    batch.push(frame);
                }
                AddFlush::WhenFilled => {
                    batch.push(frame);
                    self.take_if_full(batch, &mut full);
                }
            }
        }
        self.flush(&full, Apply::Add(chosen));
    }

    /// Moves the pages of a batch into the empty batch `full` if the batch is full.
    fn take_if_full(&self, batch: &mut Batch, full: &mut Batch) {
        if batch.len() >= self.batch_pages() {
            std::mem::swap(batch, full);
        }
    }

    /// Notes one use of a page. With the classic policy and without `Activation::AtScan`, each use moves an inactive
    /// page to the next of these states: referenced; active; active and referenced.
    #[inline(always)]
    #[doc(alias = "mark_page_accessed")]
    pub fn mark_accessed(&self, frame: FrameNumber) {
        self.machine.spend(Step::MarkAccessed, 1);
        let flags = self.frames[frame].flags();
        // With `Activation::AtScan`, most uses of a frequently used page end here, without a write to its flags.
        if !flags.has(Flags::REFERENCED.with(Flags::USED_AGAIN)) {
            self.note_use(frame, flags);
        }
    }

    /// Returns whether a page is in one of this CPU's batches of pages that wait to be put on an LRU list.
    pub(super) fn is_in_local_batch(&self, frame: FrameNumber) -> bool {
        self.batches.local().add.iter().any(|batch| batch.contains(&frame))
    }

    /// Moves a page from an inactive list to the active list, at once or through a batch.
    pub(super) fn activate(&self, frame: FrameNumber) {
        self.frames[frame].get();
        match self.choices.activation_batch {
            ActivationBatch::Batched => self.park(frame, |batches| &mut batches.activate, Apply::Activate),
            ActivationBatch::OneByOne => self.flush(&[frame], Apply::Activate),
        }
    }

    /// Moves a page, whose writeback has just ended, to the tail of its family's inactive list, so that the page is
    /// scanned next. Called in interrupt context.
    #[doc(alias = "rotate_reclaimable_page")]
    pub fn rotate(&self, frame: FrameNumber) {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        if !flags.has(Flags::LRU) || flags.0 & (Flags::LOCKED.0 | Flags::DIRTY.0) != 0 || !self.may_rotate(flags) {
            return;
        }
        match self.choices.rotation {
            Rotation::Batched => {
                self.machine.spend(Step::PageReference, 1);
                descriptor.get();
                self.machine.spend(Step::BatchPage, 1);
                self.park(frame, |batches| &mut batches.rotate, Apply::Rotate);
            }
            Rotation::BatchedWithoutReference => {
                self.machine.spend(Step::BatchPage, 1);
                self.park_unheld(frame);
            }
            // The page needs no reference: it is under writeback until this function has returned, so it cannot be
            // freed.
            Rotation::OneByOne => self.flush(&[frame], Apply::Rotate),
        }
    }

    fn park(&self, frame: FrameNumber, batch: impl FnOnce(&mut Batches) -> &mut Batch, apply: Apply) {
        let mut full = Batch::new();
        {
            let mut batches = self.batches.local();
            let batch = batch(&mut batches);
            batch.push(frame);
            self.take_if_full(batch, &mut full);
        }
        self.flush(&full, apply);
    }

    /// Adds a page to the batch of pages to rotate, without taking a reference to the page.
    fn park_unheld(&self, frame: FrameNumber) {
        let (mut pages, mut places) = (Batch::new(), Vec::new());
        {
            let mut batches = self.batches.local();
            batches.rotate.push(frame);
            batches.rotate_places.push(place_of(&self.frames[frame]));
            self.take_if_full(&mut batches.rotate, &mut pages);
            if !pages.is_empty() {
                places = std::mem::take(&mut batches.rotate_places);
            }
        }
        self.flush_parked(&pages, &places, Apply::Rotate);
    }

    /// Drains the local CPU's batches before reclaim scans, because a scan finds only pages on lists. Then lists or
    /// frees the pages that wait for admission.
    pub fn drain_before_scan(&self) {
        self.drain_local();
        self.judge_waiting();
    }

    /// Drains the local CPU's batches before pages are unmapped, dropped or searched for, because a page with a batch's
    /// reference looks as if it were in use.
    pub fn drain_before_use(&self) {
        self.drain_local();
    }

    /// Applies the local CPU's batches: each page that waits in a batch is added, activated or rotated.
    #[doc(alias = "lru_add_drain")]
    fn drain_local(&self) {
        let _span = self.machine.span(Func::LruAddDrain);
        let taken = std::mem::take(&mut *self.batches.local());
        self.flush_all(taken);
    }

    /// Applies the batches of all CPUs, and puts pages that wait for admission on lists.
    pub fn drain_all(&self) {
        let mut taken = Vec::new();
        self.batches.for_each_cpu(|batches| taken.push(std::mem::take(batches)));
        taken.into_iter().for_each(|batches| self.flush_all(batches));
        self.list_all_waiting();
    }

    fn flush_all(&self, batches: Batches) {
        for (kind, batch) in ListKind::ALL.into_iter().zip(&batches.add) {
            let chosen = match self.list_choice() {
                ListChoice::AtAdd => Some(kind),
                ListChoice::AtFlush => None,
            };
            self.flush(batch, Apply::Add(chosen));
        }
        self.flush_parked(&batches.rotate, &batches.rotate_places, Apply::Rotate);
        self.flush(&batches.activate, Apply::Activate);
        self.release_orphans();
    }

    pub(super) fn flush(&self, pages: &[FrameNumber], apply: Apply) {
        self.flush_parked(pages, &[], apply);
    }

    /// Charges the simulated time that it takes to move the pages of a flushed batch. Called by a policy that has
    /// locked its lists.
    pub(super) fn charge_flush(&self, apply: Apply, pages: &[FrameNumber]) {
        let step = match apply {
            Apply::Rotate => {
                self.stat.count(Event::PgrotateLocked, 1);
                Step::RotatePage
            }
            Apply::Add(_) | Apply::Activate => Step::LruMove,
        };
        self.machine.spend(step, pages.len() as u32);
    }

    /// Applies `apply` to the pages of a batch. If the batch holds no references to its pages, `places` has the owner
    /// of each page and the page's number within that owner. A frame that now has another owner or number no longer
    /// holds the page that was put into the batch. If the batch holds references, `places` is empty.
    fn flush_parked(&self, pages: &[FrameNumber], places: &[OwnedPage], apply: Apply) {
        if pages.is_empty() {
            return;
        }
        let _span = self.machine.span(match apply {
            Apply::Add(_) => Func::PagevecLruAdd,
            Apply::Activate => Func::ActivatePage,
            Apply::Rotate => Func::RotatePage,
        });
        let mut rest = pages;
        while let Some(first) = rest.first() {
            let zone = self.memory().zone_of(*first);
            let reach = self.reach_of_page(zone, *first);
            let is_of_run = |frame: &FrameNumber| zone.holds(*frame) && self.frames.group(*frame) == reach.lruvec.group;
            // A page that the batch does not hold may change its group between both looks.
            let run = rest.iter().take_while(|frame| is_of_run(frame)).count().max(1);
            let places = places.get(pages.len() - rest.len()..).unwrap_or_default();
            let (pages, others) = rest.split_at(run);
            rest = others;
            // A page that was freed may have come back for another group, on another lruvec.
            let is_same = |n: usize| {
                let (place, group) = (places.get(n), self.frames.group(pages[n]));
                place.is_none_or(|place| *place == place_of(&self.frames[pages[n]]) && group == reach.lruvec.group)
            };
            self.flush_run(reach, pages, apply, is_same);
        }
        match (apply, self.choices.rotation) {
            (Apply::Rotate, Rotation::OneByOne | Rotation::BatchedWithoutReference) => {}
            (Apply::Rotate, Rotation::Batched) => {
                self.machine.spend(Step::PageReference, pages.len() as u32);
                self.put_pages(pages);
            }
            (Apply::Add(_) | Apply::Activate, _) => self.put_pages(pages),
        }
    }
}
