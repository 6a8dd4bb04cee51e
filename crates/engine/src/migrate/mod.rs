//! Migration: moves folios to other frames.
//!
//! *Flow*: the caller has isolated folios and has free blocks of the same zone. A folio can move if only its owner and
//! the caller have references to it. The folio is copied, its owner (an index or page-table entries) gets the new
//! frames in one step, and the old frames are freed ([`Migrate::migrate_pages`]). A folio of a file keeps its places in
//! the index with their tags (`file_page`). An anonymous folio keeps its entries with their accessed and dirty bits,
//! and its swap slots (`anonymous_page`). Folios that are pinned, latched, being read or being written stay. Folios as
//! large as a pageblock, such as huge pages, stay, too. The module is called by `compact`. *Locks*: the page lock,
//! which is only tried; then `page_table`, then `i_pages`; then the shared latch of the page, which is only tried; and
//! last `lru` and `zone`. *Description*: mechanisms/reclaim, 23.7; mechanisms/modern, 5, for folios larger than a page.
//!
//! Other tasks can read a page until its owner has the new frame. The page is copied under the shared latch, and is
//! frozen only while the new frame's number is written; a lookup during that time tries again. Readers with hazard
//! pointers ([`crate::page_cache::hazard`]) are not counted in the page's descriptor. So before each round, the pages
//! that such readers may hold are closed to new hazard pointers, and one barrier shows which pages are held. The held
//! pages stay. Folios larger than a page are never open to hazard pointers.
//!
//! Next: [`crate::compact`], which chooses the pages to move and the frames to move them to.

mod anonymous_page;
mod file_page;
mod targets;

pub use targets::Targets;

use crate::anonymous::Owners;
use crate::lru::Lru;
use crate::memory::{FOLIO_ORDER_MAX, Flags, Folio, GroupId, Owner, Warmth};
use crate::page_cache::hazard::Held;
use crate::stat::Event;
use machine::{FrameNumber, Func, Machine, Order, Step};
use std::ops::Deref;

/// Number of rounds over the list of folios to move. A folio that was in use in one round is tried again in the next.
const ROUNDS: u32 = 10;

/// The flags that a page keeps when it moves to another frame. The flags [`Flags::LOCKED`], [`Flags::LRU`],
/// [`Flags::HAZARD`] and [`Flags::COMPOUND`] are left out, because the new frames get them separately, or not at all.
/// Flags of frames that hold no page are left out, too.
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

/// The result of moving a list of folios.
#[derive(Debug, Default)]
pub struct Migrated {
    /// Number of pages that have new frames. Their old frames are free.
    pub moved: u64,
    /// The heads of folios that were not moved. They are still isolated.
    pub stay: Vec<FrameNumber>,
    /// `true` if some single pages were not moved because no free frame was left to move them to.
    pub lacks_targets: bool,
}

/// The result of moving one folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// The folio has new frames.
    Done,
    /// The folio is in use; a later attempt may succeed.
    Busy,
    /// The folio cannot be moved.
    Never,
}

impl<M: Machine> Migrate<M> {
    /// Creates this layer of the engine, above the layer `lru`.
    pub const fn new(lru: Lru<M>) -> Self {
        Self { lru }
    }

    /// Moves isolated folios to other frames. `heads` has the first frame of each folio. `target` is called with an
    /// order, and returns a free block of this order that lies in the folios' zone and has no reference. It returns
    /// `None` if there is no such block. A folio for which no block is found stays. Returns the number of moved pages,
    /// and the folios that were not moved. The calling task may sleep.
    ///
    /// The call never waits for the lock of a folio. In Linux, a caller outside of reclaim may wait for the lock
    /// (mechanisms/reclaim, 23.7). Here the wait might not end: in a small zone, the holder of the lock may itself wait
    /// until the caller's other pages are back on their lists.
    pub fn migrate_pages(
        &self,
        heads: &[FrameNumber],
        mut target: impl FnMut(Order) -> Option<FrameNumber>,
    ) -> Migrated {
        let _span = self.machine.span(Func::MigratePages);
        let mut owners = Owners::default();
        let mut result = Migrated::default();
        let mut left = heads.to_vec();
        let mut unused = Targets::default();
        for _ in 0..ROUNDS {
            let may_be_held: Vec<_> =
                left.iter().copied().filter(|frame| self.page_cache().may_be_held(*frame)).collect();
            let held = (!may_be_held.is_empty()).then(|| self.page_cache().close_pages(&may_be_held, &mut owners));
            let mut again = Vec::new();
            let mut rest = left.into_iter();
            while let Some(head) = rest.next() {
                let from = self.frames.folio(head);
                let found = unused.take(from.order).or_else(|| target(from.order));
                let Some(to) = found.or_else(|| unused.take_or_split(from.order)) else {
                    result.stay.push(head);
                    if from.is_large() {
                        // A smaller folio may still find a target.
                        continue;
                    }
                    result.lacks_targets = true;
                    result.stay.extend(rest.by_ref());
                    result.stay.append(&mut again);
                    break;
                };
                match self.move_folio(from, Folio { head: to, ..from }, &mut owners, held.as_ref()) {
                    Move::Done => result.moved += u64::from(from.pages()),
                    Move::Busy => {
                        again.push(head);
                        unused.add(to, from.order);
                    }
                    Move::Never => {
                        result.stay.push(head);
                        unused.add(to, from.order);
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
        for (head, order) in unused.take_all() {
            self.free_target(head, order);
        }
        self.stat.count(Event::PgmigrateSuccess, result.moved);
        self.stat.count(Event::PgmigrateFail, result.stay.iter().map(|head| self.frames.pages(*head)).sum());
        result
    }

    /// Frees a block that was meant to receive a folio, but was not used.
    pub(crate) fn free_target(&self, head: FrameNumber, order: Order) {
        self.memory().free(head, order, Warmth::Hot);
    }

    fn move_folio(&self, from: Folio, to: Folio, owners: &mut Owners<M>, held: Option<&Held>) -> Move {
        let descriptor = &self.frames[from.head];
        debug_assert!(
            std::ptr::eq(self.memory().zone_of(from.head), self.memory().zone_of(to.head)),
            "{from:?} is to be moved to another zone, where it is not counted: {to:?}"
        );
        self.machine.spend(Step::ScanFrame, 1);
        if !descriptor.try_lock() {
            return Move::Busy;
        }
        let flags = descriptor.flags();
        let is_movable = !flags.has(Flags::ERROR) && flags.has(Flags::UPTODATE) && from.order < FOLIO_ORDER_MAX;
        let moved = if !is_movable {
            Move::Never
        } else if flags.has(Flags::WRITEBACK) {
            Move::Busy
        } else {
            match descriptor.owner() {
                Owner::None => Move::Never,
                Owner::File(_) => self.move_file_folio(from, to, owners, held),
                Owner::Region(_) => self.move_anonymous_folio(from, to, owners),
            }
        };
        if moved != Move::Done {
            self.page_cache().unlock_page(from.head);
            return moved;
        }
        self.machine.spend_on(Step::MigratePage, to.head, from.pages());
        self.add_moved(to.head, flags.has(Flags::ACTIVE));
        // No other task can wait for the lock, because that task would have a reference. The flag `COMPOUND`, which
        // makes the frames a folio, stays, so that they are freed as one block.
        descriptor.clear_free(Flags(!Flags::COMPOUND.0));
        self.memory().free_folio(from.head, Warmth::Hot);
        Move::Done
    }

    /// Copies the bytes of the locked folio `from` to the free frames `to`, and freezes `from`. Does not freeze it, and
    /// returns `false`, if a task is writing the folio's bytes or if the folio does not have exactly `references`
    /// references.
    fn copy_and_freeze(&self, from: Folio, to: Folio, references: u32) -> bool {
        let old = &self.frames[from.head];
        if !old.try_latch(false) {
            return false;
        }
        // No other task can change the bytes: a writer would have the exclusive latch, and a task that fills the page
        // would have the lock.
        for (from, to) in from.frames().zip(to.frames()) {
            self.machine.copy_frame(from, to);
        }
        let is_frozen = old.freeze_latched(references);
        if !is_frozen {
            self.page_cache().unlatch(from.head, false);
        }
        is_frozen
    }

    /// Makes a folio of the frames `to`, with the state of the frozen folio `from` and with `references` references.
    /// The bytes are already copied. The owner's index or page-table entries still name `from`, and `to` has no
    /// mappings yet.
    fn copy_folio_state(&self, from: Folio, to: Folio, references: u32) {
        let (old, new) = (&self.frames[from.head], &self.frames[to.head]);
        self.memory().prepare_given_folio(to);
        // The charge moves with the contents; no counter changes.
        self.frames.set_group(to.head, to.order, self.frames.group(from.head));
        self.frames.set_group(from.head, from.order, GroupId::ROOT);
        new.set_free(Flags(old.flags().0 & CARRIED.0));
        new.set_owner(old.owner(), old.index());
        if old.is(Flags::SWAPCACHE) {
            new.set_swap_slot(old.swap_slot());
        }
        new.set_references(references);
    }
}
