//! The scanner for free pages, which goes from high frames to low ones, a pageblock at a time
//! (mechanisms/reclaim, 23.6).

use super::Compact;
use super::cached::{BLOCK_PAGES, NOTHING_FREE};
use super::choices::{Contention, Start};
use super::run::Run;
use crate::memory::free_area::FreeArea;
use crate::memory::{Zone, last_block};
use crate::stat::Event;
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Func, Lock, Machine, Order, Step};

impl<M: Machine> Compact<M> {
    /// Takes free pages off their lists until the run has `wanted` free pages, or until this scanner meets the scanner
    /// for pages to move. If the run already has `wanted` free pages but no block of `order`, takes only the free pages
    /// of the next pageblock that has any.
    pub(super) fn isolate_freepages(&self, zone: &Zone<M>, run: &mut Run, wanted: u64, order: Order) {
        let _span = self.machine.span(Func::IsolateFreepages);
        let cached = &self.state(zone).cached;
        let is_marking = self.is_marking(run);
        let lowest = run.migrate_at.next_multiple_of(BLOCK_PAGES);
        let mut at = run.free_at;
        // The highest pageblock that had free pages. The next search begins there, because blocks that were taken there
        // and not used as targets may be free again.
        let mut highest = lowest.min(at);
        let mut held = None;
        let mut has_taken = false;
        let lacks = |run: &Run, has_taken: bool| run.free.pages() < wanted || !has_taken && !run.free.has(order);
        while at > lowest.max(run.migrate_at) && lacks(run, has_taken) {
            at = self.skip_ahead(zone, run, at);
            if at <= lowest {
                break;
            }
            if self.gives_up_search(zone, run) {
                run.is_contended = true;
                break;
            }
            let head = FrameNumber(zone.start.0 + at);
            let is_passed = is_marking && cached.is_marked(at, NOTHING_FREE);
            let mut taken = 0;
            if !is_passed && self.memory().is_suitable_target(zone, head) {
                taken = self.isolate_block(zone, run, at, &mut held);
            } else {
                self.machine.spend(Step::ScanFrame, 1);
            }
            if taken > 0 {
                has_taken = true;
                highest = highest.max(at);
                run.found_free = true;
                self.note_found(zone, run, highest);
            } else if is_marking {
                cached.mark(at, NOTHING_FREE);
                if !run.found_free {
                    cached.free.fetch_min(at, Relaxed);
                }
            }
            if lacks(run, has_taken) {
                at = at.saturating_sub(BLOCK_PAGES);
            }
        }
        drop(held);
        run.free_at = highest;
        self.note_searched(zone, run, highest);
    }

    /// Returns the position at which a search for free pages continues. The position is `at`, unless another run's
    /// scanner has moved the zone's cached position below `at`: then it is the cached position. A run that has started
    /// again at the zone's end ignores a cached position at or below the position of its first start. Only some values
    /// of `compact.start` use the cached position.
    fn skip_ahead(&self, zone: &Zone<M>, run: &Run, at: u32) -> u32 {
        match self.choices.start {
            Start::CachedFree | Start::CachedFreeMisplaced if run.request.order.is_some() => {
                let other = self.state(zone).cached.free.load(Relaxed);
                if (!run.is_wrapped || other > run.free_start) && other < at {
                    self.stat.count(Event::CompactSkipAhead, 1);
                    return other;
                }
                at
            }
            Start::Ends
            | Start::CachedFree
            | Start::CachedFreeMisplaced
            | Start::CachedFreeRestricted
            | Start::CachedBoth => at,
        }
    }

    /// Records that a search has found free pages. `highest` is the highest pageblock with a free page. If
    /// `compact.start` has a value `Start::CachedFree…`, later runs may begin at this pageblock.
    fn note_found(&self, zone: &Zone<M>, run: &Run, highest: u32) {
        let is_told = match self.choices.start {
            Start::CachedFree | Start::CachedFreeMisplaced => run.request.order.is_some(),
            Start::CachedFreeRestricted => run.request.order.is_some() && run.is_wrapped,
            Start::Ends | Start::CachedBoth => false,
        };
        if is_told {
            self.state(zone).cached.free.store(highest, Relaxed);
        }
    }

    /// Records the end of a search for free pages. `highest` is the highest pageblock that had free pages. With
    /// `Start::CachedFreeRestricted`, later runs begin there if the cached position is still the zone's last pageblock.
    fn note_searched(&self, zone: &Zone<M>, run: &Run, highest: u32) {
        let free = &self.state(zone).cached.free;
        let is_told = match self.choices.start {
            Start::CachedFreeRestricted => {
                run.request.order.is_some() && !run.is_wrapped && free.load(Relaxed) == last_block(zone)
            }
            Start::Ends | Start::CachedFree | Start::CachedFreeMisplaced | Start::CachedBoth => false,
        };
        if is_told {
            free.store(highest, Relaxed);
        }
    }

    /// Takes all free pages of one pageblock. Returns their number. `held` is the guard of the zone's lock; with
    /// `Contention::Held` the lock is kept from one pageblock to the next.
    fn isolate_block<'a>(
        &self,
        zone: &'a Zone<M>,
        run: &mut Run,
        at: u32,
        held: &mut Option<<M::Lock<FreeArea> as Lock<FreeArea>>::Guard<'a>>,
    ) -> u64 {
        let end = u64::from(at + BLOCK_PAGES).min(zone.online()) as u32;
        let frame_at = |offset: u32| FrameNumber(zone.start.0 + offset);
        let locks_late = match self.choices.contention {
            Contention::Held | Contention::Released | Contention::GivesUp => false,
            Contention::EndsRun => true,
        };
        if held.is_none() && !locks_late {
            *held = Some(zone.free.lock());
        }
        let (mut offset, mut taken) = (at, 0);
        let mut passed = 0;
        while offset < end {
            let frame = frame_at(offset);
            passed += 1;
            if self.memory().free_order(frame).is_none() {
                offset += 1;
                continue;
            }
            let area = held.get_or_insert_with(|| zone.free.lock());
            let Some(order) = self.memory().take_free_block(zone, area, frame) else {
                offset += 1;
                continue;
            };
            let pages = order.pages() as u32;
            match self.choices.folios.are_moved() {
                true => run.free.add(frame, order),
                false => run.free.add_in_pages(frame, order),
            }
            taken += u64::from(pages);
            offset += pages;
        }
        self.machine.spend_on(Step::ScanFrame, zone.start, passed);
        self.stat.count(Event::CompactFreeScanned, u64::from(passed));
        self.stat.count(Event::CompactIsolated, taken);
        match self.choices.contention {
            Contention::Held => {}
            Contention::Released | Contention::GivesUp | Contention::EndsRun => *held = None,
        }
        taken
    }

    /// Returns whether the search for free pages ends because other tasks wait for the zone's lock or the CPU. A run
    /// that waits for locks does not end its search, but lets the other tasks run.
    fn gives_up_search(&self, zone: &Zone<M>, run: &Run) -> bool {
        match self.choices.contention {
            Contention::Held => return false,
            Contention::Released => {}
            Contention::GivesUp | Contention::EndsRun => {
                if !run.request.waits && (self.machine.is_resched_due() || zone.free.is_contended()) {
                    return true;
                }
            }
        }
        self.machine.cond_resched();
        false
    }
}
