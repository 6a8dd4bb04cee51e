//! The scanner for pages to move, which goes from low frames to high ones, a pageblock at a time
//! (mechanisms/reclaim, 23.5).

use super::Compact;
use super::cached::{BLOCK_PAGES, NOTHING_TO_MOVE};
use super::choices::{Contention, Start};
use super::run::Run;
use crate::lru::{CLUSTER, Family, HeldLists, ListKind};
use crate::memory::{Flags, Folio, MigrateType, PAGEBLOCK_ORDER, Zone};
use crate::stat::Event;
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Func, Machine, Step};

/// Number of scanned frames after which the scanner releases the lock of the LRU lists.
const HELD_FRAMES: u32 = 32;

/// The result of the scan of a pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockScan {
    /// Pages were isolated; they are in [`Run::pages`].
    Pages,
    /// No page of the pageblock was isolated; the run goes on.
    Nothing,
    /// The run of compaction ends.
    Abort,
}

/// The behaviour of a scan while other tasks wait for its lock or its CPU.
enum Others {
    GoOn,
    LetIn,
    GiveUp,
}

impl<M: Machine> Compact<M> {
    /// Takes up to 32 pages of the scanner's pageblock off their LRU lists. Returns the result of the scan.
    pub(super) fn isolate_migratepages(&self, zone: &Zone<M>, run: &mut Run) -> BlockScan {
        let _span = self.machine.span(Func::IsolateMigratepages);
        let start = run.migrate_at;
        let end = (start / BLOCK_PAGES + 1) * BLOCK_PAGES;
        if end > run.free_at {
            run.migrate_at = end;
            return BlockScan::Nothing;
        }
        if !self.may_isolate(zone, run) {
            return BlockScan::Abort;
        }
        if self.passes_by(zone, run, start) {
            self.machine.spend(Step::ScanFrame, 1);
            self.note_passed(zone, run, end);
            run.migrate_at = end;
            return BlockScan::Nothing;
        }
        let (stop, gave_up) = self.isolate_in_block(zone, run, start, end);
        let taken = run.pages.count();
        self.stat.count(Event::CompactMigrateScanned, u64::from(stop - start));
        self.stat.count(Event::CompactIsolated, taken);
        if self.is_marking(run) && stop == end {
            if taken == 0 && start.is_multiple_of(BLOCK_PAGES) {
                self.state(zone).cached.mark(start, NOTHING_TO_MOVE);
            }
            self.note_passed(zone, run, end);
        }
        run.found_pages |= taken > 0;
        run.migrate_at = if gave_up { end } else { stop };
        let ends = match self.choices.contention {
            Contention::EndsRun => gave_up && taken == 0,
            Contention::Held | Contention::Released | Contention::GivesUp => false,
        };
        match taken {
            _ if ends => BlockScan::Abort,
            0 => BlockScan::Nothing,
            _ => BlockScan::Pages,
        }
    }

    /// Waits while too many pages are isolated, and then returns `true`. Returns `false` if too many are isolated and
    /// the run of compaction must not wait, or if the calling task was killed. The calling task may sleep.
    fn may_isolate(&self, zone: &Zone<M>, run: &Run) -> bool {
        while self.are_too_many_isolated_to_move(zone) {
            if !run.request.waits || self.machine.is_killed() {
                return false;
            }
            self.lru().wait_for_putback(|| self.are_too_many_isolated_to_move(zone));
        }
        true
    }

    /// Returns whether a pageblock is skipped. It is skipped if it has the mark [`NOTHING_TO_MOVE`]. A run that does
    /// not wait also skips pageblocks that are not of movable type.
    fn passes_by(&self, zone: &Zone<M>, run: &Run, start: u32) -> bool {
        let is_other = || zone.block_type(FrameNumber(zone.start.0 + start)) != MigrateType::Movable;
        !run.request.waits && is_other()
            || self.is_marking(run) && self.state(zone).cached.is_marked(start, NOTHING_TO_MOVE)
    }

    /// Takes pages of a pageblock off their LRU lists. Returns the position at which the scan stopped, and whether the
    /// scan gave up because other tasks wait for the lock or the CPU.
    fn isolate_in_block(&self, zone: &Zone<M>, run: &mut Run, start: u32, end: u32) -> (u32, bool) {
        let mut offset = start;
        let mut look = Look { lists: None, since: start };
        let mut gave_up = false;
        let takes_first = match self.choices.contention {
            Contention::Held | Contention::Released | Contention::GivesUp => true,
            Contention::EndsRun => false,
        };
        while offset < end && run.pages.count() < CLUSTER {
            let is_due = offset.is_multiple_of(HELD_FRAMES) && offset > start;
            match self.about_others(zone, look.lists.as_ref(), run, is_due) {
                Others::GoOn => {}
                Others::LetIn => {
                    self.account(zone, &mut look, offset);
                    look.lists = None;
                    self.machine.cond_resched();
                }
                Others::GiveUp => {
                    run.is_contended = true;
                    gave_up = true;
                    break;
                }
            }
            if look.lists.is_none() && takes_first {
                look.lists = Some(self.lru().hold_lists(self.lru().lruvec_of(zone)));
            }
            let frames = self.isolate_at(run, &mut look, FrameNumber(zone.start.0 + offset));
            offset = (offset + frames).min(end);
        }
        self.account(zone, &mut look, offset);
        (offset, gave_up)
    }

    /// Isolates the folio at a frame, if the folio is on an LRU list and the run may take it. Returns the number of
    /// frames by which the scan advances.
    fn isolate_at<'a>(&'a self, run: &mut Run, look: &mut Look<'a, M>, frame: FrameNumber) -> u32 {
        let descriptor = &self.frames[frame];
        let flags = descriptor.flags();
        if flags.has(Flags::BUDDY) {
            // The other pages of the free block are on no list, either. If the order of the block is not known, its
            // pages are passed one by one, at the same cost.
            return self.memory().free_order(frame).map_or(1, |order| order.pages() as u32);
        }
        let folio = self.frames.folio(frame);
        // A run that does not wait takes only pages that are easy to take.
        let is_refused = !flags.has(Flags::LRU) || !run.request.waits && flags.has(Flags::WRITEBACK);
        if !is_refused && self.may_move(run, folio) && self.lru().isolate_given(&mut look.lists, folio, &mut run.pages)
        {
            self.machine.spend(Step::IsolatePage, 1);
        }
        folio.frames_from(frame)
    }

    /// Returns whether a run moves folios of this size (`compact.folios`). A folio as large as the wanted block stays:
    /// its move would need a free block of this size, which could serve the request itself. A folio that fills its
    /// pageblock stays, too.
    fn may_move(&self, run: &Run, folio: Folio) -> bool {
        !folio.is_large()
            || self.choices.folios.are_moved()
                && folio.order < run.request.order.map_or(PAGEBLOCK_ORDER, |wanted| wanted.min(PAGEBLOCK_ORDER))
    }

    /// Charges the CPU time for scanning the zone's frames from the end of the last charge, `look.since`, up to
    /// `offset`.
    fn account(&self, zone: &Zone<M>, look: &mut Look<'_, M>, offset: u32) {
        self.machine.spend_on(Step::ScanFrame, zone.start, offset - look.since);
        look.since = offset;
    }

    /// Records that this run has scanned or skipped the pageblock that ends at `end`. If the run has isolated no page
    /// so far, later runs start at `end` or above it.
    fn note_passed(&self, zone: &Zone<M>, run: &Run, end: u32) {
        if self.is_marking(run) && !run.found_pages {
            self.state(zone).cached.migrate.fetch_max(end, Relaxed);
        }
    }

    /// Returns whether a run marks pageblocks in which it finds nothing, and skips marked pageblocks.
    pub(super) fn is_marking(&self, run: &Run) -> bool {
        match self.choices.start {
            Start::CachedBoth => run.request.order.is_some(),
            Start::Ends | Start::CachedFree | Start::CachedFreeMisplaced | Start::CachedFreeRestricted => false,
        }
    }

    fn about_others(&self, zone: &Zone<M>, held: Option<&HeldLists<'_, M>>, run: &Run, is_due: bool) -> Others {
        let somebody_waits = || {
            self.machine.is_resched_due()
                || self.lru().are_lists_contended(held.map_or(self.lru().lruvec_of(zone), HeldLists::lruvec))
        };
        match self.choices.contention {
            Contention::Held => Others::GoOn,
            Contention::Released if is_due || somebody_waits() => Others::LetIn,
            Contention::GivesUp | Contention::EndsRun if somebody_waits() => {
                if run.request.waits {
                    Others::LetIn
                } else {
                    Others::GiveUp
                }
            }
            Contention::GivesUp if is_due => Others::LetIn,
            Contention::Released | Contention::GivesUp | Contention::EndsRun => Others::GoOn,
        }
    }

    /// Returns whether the number of isolated pages of the zone's lruvecs is more than half the number of pages on
    /// their lists.
    fn are_too_many_isolated_to_move(&self, zone: &Zone<M>) -> bool {
        let isolated: u64 = Family::ALL
            .into_iter()
            .map(|family| self.lru().isolated_pages_beside(self.lru().lruvec_of(zone), family))
            .sum();
        let listed: u64 =
            ListKind::ALL.into_iter().map(|kind| self.lru().list_pages_of_all(self.lru().reach(zone), kind)).sum();
        isolated > listed / 2
    }
}

/// The scan of one pageblock.
struct Look<'a, M: Machine> {
    lists: Option<HeldLists<'a, M>>,
    /// The first frame for whose scan no CPU time was charged yet.
    since: u32,
}
