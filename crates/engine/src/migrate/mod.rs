//! Migrate: a page moves to another frame.
//!
//! *Flow*: the caller has isolated pages and has free frames of the same zone. Each page without references but its
//! owner's is copied, its owner gets the new frame in one step, and the old frame is free ([`Migrate::migrate_pages`]).
//! A page of a file keeps its place in the index with its tags (`file_page`), an anonymous one its entry with the
//! accessed and dirty bits and its swap slot (`anonymous_page`). Pages that are pinned, latched, being read or being
//! written stay. *Called by* `compact`. *Locks*: the page lock by try; then `page_table`, then `i_pages`; then the
//! shared latch, by try; `lru` and `zone` after them. *Description*: mechanisms/reclaim, 23.7.
//!
//! Other tasks read the page until it has its new frame: it is copied under the shared latch, and only then frozen,
//! while the new frame's number is written. A lookup in that time looks again. Readers with hazard pointers
//! ([`crate::page_cache::hazard`]) are in no word of the frame: before a round the pages that they may hold are closed,
//! and one barrier shows which they do hold. Those stay.
//!
//! Next: [`crate::compact`], which says which pages and where to.

mod anonymous_page;
mod file_page;

use crate::anonymous::Owners;
use crate::lru::Lru;
use crate::memory::{Flags, Owner, Warmth};
use crate::page_cache::hazard::Held;
use crate::stat::Event;
use machine::{FrameNumber, Func, Machine, Order, Step};
use std::ops::Deref;

/// Rounds over a list: pages that were in use are tried again.
const ROUNDS: u32 = 10;

/// The flags that a page takes along to another frame. Not among them are [`Flags::LOCKED`], [`Flags::LRU`],
/// [`Flags::HAZARD`], and flags of a frame without a page.
const CARRIED: Flags = Flags::REFERENCED
    .with(Flags::UPTODATE)
    .with(Flags::DIRTY)
    .with(Flags::SWAPCACHE)
    .with(Flags::RECLAIM)
    .with(Flags::SWAPBACKED)
    .with(Flags::USED_AGAIN)
    .with(Flags::WORKINGSET)
    .with(Flags::USES)
    .with(Flags::WRITE_FAILED);

/// The layer (*floor*) of the engine that moves pages between frames.
pub struct Migrate<M: Machine> {
    lru: Lru<M>,
}

impl<M: Machine> Deref for Migrate<M> {
    type Target = Lru<M>;
    #[inline]
    fn deref(&self) -> &Lru<M> {
        &self.lru
    }
}

/// The result for a set of pages to be moved.
#[derive(Debug, Default)]
pub struct Migrated {
    /// Pages that have new frames; their old ones are free.
    pub moved: u64,
    /// Pages that stay, isolated as before.
    pub stay: Vec<FrameNumber>,
    /// `true` if pages stayed because no frame was left to move them to.
    pub lacks_targets: bool,
}

/// The result for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// The page has a new frame.
    Done,
    /// The page is in use, and may be moved later.
    Busy,
    /// The page cannot be moved.
    Never,
}

impl<M: Machine> Migrate<M> {
    /// Creates the floor.
    pub const fn new(lru: Lru<M>) -> Self {
        Self { lru }
    }

    /// Moves isolated pages to frames from `target`: free ones of the same zone, without a reference. *May sleep.*
    ///
    /// It waits for no page. By mechanisms/reclaim, 23.7, a caller that does not reclaim waits for a page's lock. But
    /// the lock's holder may itself wait, in a small zone, until the other pages are back on their lists.
    pub fn migrate_pages(&self, pages: &[FrameNumber], mut target: impl FnMut() -> Option<FrameNumber>) -> Migrated {
        let _span = self.machine.span(Func::MigratePages);
        let mut owners = Owners::default();
        let mut result = Migrated::default();
        let mut left = pages.to_vec();
        let mut next_target = None;
        for _ in 0..ROUNDS {
            let may_be_held: Vec<_> = left.iter().copied().filter(|frame| self.may_be_held(*frame)).collect();
            let held = (!may_be_held.is_empty()).then(|| self.close_pages(&may_be_held, &mut owners));
            let mut again = Vec::new();
            let mut rest = left.into_iter();
            while let Some(from) = rest.next() {
                let Some(to) = next_target.take().or_else(&mut target) else {
                    result.lacks_targets = true;
                    result.stay.push(from);
                    result.stay.extend(rest.by_ref());
                    result.stay.append(&mut again);
                    break;
                };
                match self.move_page(from, to, &mut owners, held.as_ref()) {
                    Move::Done => result.moved += 1,
                    Move::Busy => {
                        again.push(from);
                        next_target = Some(to);
                    }
                    Move::Never => {
                        result.stay.push(from);
                        next_target = Some(to);
                    }
                }
                self.machine.cond_resched();
            }
            left = again;
            if left.is_empty() {
                break;
            }
        }
        result.stay.append(&mut left);
        if let Some(unused) = next_target {
            self.free_target(unused);
        }
        self.stat.count(Event::PgmigrateSuccess, result.moved);
        self.stat.count(Event::PgmigrateFail, result.stay.len() as u64);
        result
    }

    /// Frees a frame that was meant as a target and not used.
    pub(crate) fn free_target(&self, frame: FrameNumber) {
        self.free(frame, Order::ZERO, Warmth::Hot);
    }

    fn move_page(&self, from: FrameNumber, to: FrameNumber, owners: &mut Owners<M>, held: Option<&Held>) -> Move {
        let descriptor = &self.frames[from];
        debug_assert!(
            std::ptr::eq(self.zone_of(from), self.zone_of(to)),
            "{from} is to be moved to another zone, where it is not counted: {to}"
        );
        self.machine.spend(Step::ScanFrame, 1);
        if !descriptor.try_lock() {
            return Move::Busy;
        }
        let flags = descriptor.flags();
        let moved = if flags.has(Flags::ERROR) || flags.has(Flags::COMPOUND) || !flags.has(Flags::UPTODATE) {
            Move::Never
        } else if flags.has(Flags::WRITEBACK) {
            Move::Busy
        } else {
            match descriptor.owner() {
                Owner::None => Move::Never,
                Owner::File(_) => self.move_file_page(from, to, owners, held),
                Owner::Region(_) => self.move_anonymous_page(from, to, owners),
            }
        };
        if moved != Move::Done {
            self.unlock_page(from);
            return moved;
        }
        self.machine.spend_on(Step::MigratePage, to, 1);
        self.add_moved(to, flags.has(Flags::ACTIVE));
        // No other task can wait for the lock, because it would have a reference.
        descriptor.reset_free();
        self.free(from, Order::ZERO, Warmth::Hot);
        Move::Done
    }

    /// Copies the bytes of the locked page `from` to the free frame `to` and freezes the page. Returns `false` if a
    /// task writes it, or if its references are not `references`.
    fn copy_and_freeze(&self, from: FrameNumber, to: FrameNumber, references: u32) -> bool {
        let old = &self.frames[from];
        if !old.try_latch(false) {
            return false;
        }
        // A writer would have the exclusive latch, and a task that fills the page its lock.
        self.machine.copy_frame(from, to);
        let is_frozen = old.freeze_latched(references);
        if !is_frozen {
            self.unlatch(from, false);
        }
        is_frozen
    }

    /// Gives `to`, which has the bytes, the state of the frozen frame `from`, with `references` references. The index
    /// or entry of its owner still names `from`.
    fn copy_page_state(&self, from: FrameNumber, to: FrameNumber, references: u32) {
        let (old, new) = (&self.frames[from], &self.frames[to]);
        self.prepare_given(to, 0);
        new.set_free(Flags(old.flags().0 & CARRIED.0));
        new.set_owner(old.owner(), old.index());
        if old.is(Flags::SWAPCACHE) {
            new.set_swap_slot(old.swap_slot());
        }
        new.set_references(references);
    }
}
