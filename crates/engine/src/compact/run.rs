//! One run of compaction over one zone (`compact_zone`; mechanisms/reclaim, 23.3 and 23.4).

use super::cached::BLOCK_PAGES;
use super::choices::{Capture, Contention, NoTargets, Scanners, Start};
use super::migrate_scanner::BlockScan;
use super::{Compact, Suitability};
use crate::lru::Given;
use crate::memory::{MarkRights, MigrateType, Zone, last_block};
use crate::migrate::Targets;
use crate::stat::Event;
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Func, Machine, Order, Step};

/// A request for a run of compaction: the wanted block, and the way in which the run may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactRequest {
    /// The order of the wanted block; `None` if the whole zone is to be compacted (`/proc/sys/vm/compact_memory`).
    pub order: Option<Order>,
    /// Migrate type of the request for which the run compacts.
    pub kind: MigrateType,
    /// `true` if the run waits for locks and lets other tasks run; `false` if it skips work or gives up instead.
    pub waits: bool,
    /// `true` if the run is kswapd's.
    pub is_kswapd: bool,
}

/// The result of a run of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The outcome of the run, or the reason why nothing was compacted.
    pub suitability: Suitability,
    /// The block that the run took for its request, with one reference on the first page.
    pub captured: Option<FrameNumber>,
    /// `true` if the run gave up because other tasks waited for its lock or its CPU.
    pub was_contended: bool,
}

impl Ended {
    const fn with(suitability: Suitability) -> Self {
        Self { suitability, captured: None, was_contended: false }
    }
}

/// A run of compaction that is under way. Positions are numbers of pages from the zone's start.
pub(super) struct Run {
    pub(super) request: CompactRequest,
    /// Position of the scanner for pages to move.
    pub(super) migrate_at: u32,
    /// Position of the scanner for free pages: the beginning of a pageblock.
    pub(super) free_at: u32,
    /// Position at which the scanner for free pages started in this run.
    pub(super) free_start: u32,
    /// `true` if the scanner for free pages has started again at the zone's end.
    pub(super) is_wrapped: bool,
    /// The pages that are to be moved. They are isolated: off their LRU lists.
    pub(super) pages: Given,
    /// Free blocks that were taken off the free lists.
    pub(super) free: Targets,
    /// `true` if the run gives up because other tasks waited for its lock or its CPU.
    pub(super) is_contended: bool,
    /// `true` once the scanner for pages to move has isolated a page in this run. `found_free` is the same for the
    /// scanner for free pages. With `Start::CachedBoth`, the positions at which later runs start are cached, and a
    /// scanner that passes pageblocks without finding anything advances its cached position only while its field is
    /// `false`.
    pub(super) found_pages: bool,
    pub(super) found_free: bool,
    captured: Option<FrameNumber>,
}

impl<M: Machine> Compact<M> {
    /// Compacts a zone for a request, if compaction could help. The calling task may sleep.
    pub fn compact_zone(&self, zone: &Zone<M>, request: CompactRequest) -> Ended {
        if let Some(order) = request.order {
            let suitability = self.suitable(zone, order);
            if suitability != Suitability::Continue {
                return Ended::with(suitability);
            }
        }
        let _span = self.machine.span(Func::CompactZone);
        match self.choices.scanners {
            Scanners::None => {
                self.machine.spend(Step::WorkItem, 1);
                Ended::with(Suitability::Continue)
            }
            Scanners::Both => {
                let running = &self.state(zone).running;
                if running.fetch_add(1, Relaxed) > 0 {
                    self.stat.count(Event::CompactOverlap, 1);
                }
                let ended = self.run(zone, request);
                running.fetch_sub(1, Relaxed);
                ended
            }
        }
    }

    /// Compacts all zones as far as possible (`/proc/sys/vm/compact_memory`). The calling task may sleep.
    pub fn compact_memory(&self) {
        self.lru().drain_all();
        self.memory().drain_all_per_cpu();
        let request = CompactRequest { order: None, kind: MigrateType::Movable, waits: true, is_kswapd: false };
        for zone in &self.zones {
            self.compact_zone(zone, request);
        }
        self.memory().drain_all_per_cpu();
    }

    fn run(&self, zone: &Zone<M>, request: CompactRequest) -> Ended {
        let mut run = self.begin(zone, request);
        let mut lacks_targets = false;
        let suitability = loop {
            let state = self.progress(zone, &mut run);
            if state != Suitability::Continue {
                break state;
            }
            match self.isolate_migratepages(zone, &mut run) {
                BlockScan::Nothing => continue,
                BlockScan::Abort => break Suitability::Partial,
                BlockScan::Pages => {}
            }
            lacks_targets = self.move_pages(zone, &mut run);
            match self.choices.no_targets {
                NoTargets::EndsRun if lacks_targets => break Suitability::Partial,
                NoTargets::EndsRun | NoTargets::GoesOn => {}
            }
            self.try_capture(zone, &mut run);
        };
        for (head, order) in run.free.take_all() {
            self.free_target(head, order);
        }
        let end = match suitability {
            _ if run.captured.is_some() => Event::CompactRunPartial,
            Suitability::Complete => Event::CompactRunComplete,
            _ if run.is_contended => Event::CompactRunContended,
            _ if lacks_targets => Event::CompactRunNoTargets,
            Suitability::Skipped | Suitability::Continue | Suitability::Partial => Event::CompactRunPartial,
        };
        self.stat.count(end, 1);
        Ended { suitability, captured: run.captured, was_contended: run.is_contended }
    }

    fn begin(&self, zone: &Zone<M>, request: CompactRequest) -> Run {
        let cached = &self.state(zone).cached;
        let last = last_block(zone);
        let (migrate_at, free_at) = match self.choices.start {
            Start::CachedFree | Start::CachedFreeMisplaced | Start::CachedFreeRestricted if request.order.is_some() => {
                (0, cached.free.load(Relaxed))
            }
            Start::Ends | Start::CachedFree | Start::CachedFreeMisplaced | Start::CachedFreeRestricted => (0, last),
            Start::CachedBoth => {
                if request.order.is_none()
                    || !request.is_kswapd && request.order.is_some_and(|order| self.restarts(zone, order))
                {
                    self.forget_marks(zone);
                }
                (cached.migrate.load(Relaxed), cached.free.load(Relaxed))
            }
        };
        // The zone may have become smaller since the position was cached, and a misplaced first position may lie within
        // a pageblock.
        let free_at = free_at.min(last) / BLOCK_PAGES * BLOCK_PAGES;
        Run {
            request,
            migrate_at,
            free_at,
            free_start: free_at,
            is_wrapped: false,
            pages: Given::default(),
            free: Targets::default(),
            is_contended: false,
            found_pages: false,
            found_free: false,
            captured: None,
        }
    }

    /// Returns `Suitability::Continue` if a run goes on, and otherwise the result with which the run ends.
    #[doc(alias = "compact_finished")]
    fn progress(&self, zone: &Zone<M>, run: &mut Run) -> Suitability {
        let ends_contended = match self.choices.contention {
            Contention::EndsRun => run.is_contended,
            Contention::Held | Contention::Released | Contention::GivesUp => false,
        };
        if ends_contended || self.machine.is_killed() {
            return Suitability::Partial;
        }
        if run.free_at <= run.migrate_at && !self.wraps(zone, run) {
            if !run.request.is_kswapd {
                self.state(zone).cached.is_scanned.store(true, Relaxed);
            }
            return Suitability::Complete;
        }
        if run.is_wrapped && run.free_at <= run.free_start {
            return Suitability::Complete;
        }
        let Some(order) = run.request.order else { return Suitability::Continue };
        self.machine.spend(Step::WatermarkCheck, 1);
        if !zone.is_above(zone.low() + order.pages(), order, 0, MarkRights::default()) {
            return if run.captured.is_some() { Suitability::Partial } else { Suitability::Continue };
        }
        let is_there = match self.choices.capture {
            Capture::AfterEachGroup if !run.request.is_kswapd => run.captured.is_some(),
            Capture::AfterEachGroup | Capture::Never => self.memory().has_block_for(zone, order, run.request.kind),
        };
        if is_there { Suitability::Partial } else { Suitability::Continue }
    }

    /// Handles the meeting of the two scanners. With a choice `start` of `CachedFree…`, the scanner for free pages may
    /// have begun at a cached position in a run for a request. It then begins once more, at the end of the zone.
    /// Returns whether the run goes on.
    fn wraps(&self, zone: &Zone<M>, run: &mut Run) -> bool {
        match self.choices.start {
            Start::CachedFree | Start::CachedFreeMisplaced | Start::CachedFreeRestricted
                if run.request.order.is_some() && !run.is_wrapped =>
            {
                let last = last_block(zone);
                self.state(zone).cached.free.store(last, Relaxed);
                run.free_at = last;
                run.is_wrapped = true;
                run.free_at > run.migrate_at
            }
            Start::Ends
            | Start::CachedFree
            | Start::CachedFreeMisplaced
            | Start::CachedFreeRestricted
            | Start::CachedBoth => false,
        }
    }

    /// Moves the isolated pages to free pages. Returns whether there were too few free pages.
    fn move_pages(&self, zone: &Zone<M>, run: &mut Run) -> bool {
        let pages = std::mem::take(&mut run.pages);
        let mut wanted = pages.count();
        // The smallest order of a folio for which a search found no block. The search is not repeated for folios of
        // this order or above.
        let mut lacking: Option<Order> = None;
        let target = |order: Order| {
            if !run.free.has(order) && lacking.is_none_or(|least| order < least) {
                self.isolate_freepages(zone, run, wanted, order);
            }
            let head = run.free.take_or_split(order);
            if head.is_none() && order > Order::ZERO {
                lacking = Some(order);
            }
            wanted = wanted.saturating_sub(order.pages());
            head
        };
        let migrated = self.migrate_pages(&pages.pages, target);
        self.stat.count(Event::CompactBlocksMoved, 1);
        self.lru().put_back_given(&pages, &migrated.stay);
        migrated.lacks_targets
    }

    fn try_capture(&self, zone: &Zone<M>, run: &mut Run) {
        match self.choices.capture {
            Capture::Never => return,
            Capture::AfterEachGroup if run.request.is_kswapd || run.captured.is_some() => return,
            Capture::AfterEachGroup => {}
        }
        let Some(order) = run.request.order else { return };
        let kinds: &[MigrateType] = match run.request.kind {
            MigrateType::Movable => &MigrateType::ALL[..MigrateType::PER_CPU],
            MigrateType::Unmovable => &[MigrateType::Unmovable],
            MigrateType::Reclaimable => &[MigrateType::Reclaimable],
            MigrateType::Reserve => &[],
        };
        run.captured = self.memory().capture(zone, order, kinds);
        self.stat.count(Event::CompactCaptured, run.captured.is_some().into());
    }
}
