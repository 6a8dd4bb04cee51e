//! Policies that implement the trait [`Policy`], in the engine: one lock and one value of the policy for each lruvec.
//!
//! A policy orders anonymous and file pages together. All of them are counted as inactive file pages (`lru.lists =
//! "two"`). There are no batches: each insertion takes the lock, and so does each use if the policy wants to know all
//! uses. Otherwise a use is a store to the page's word: `REFERENCED` for the first use, `USED_AGAIN` for later ones.
//! `USED_AGAIN` is cleared when a scan asks how often the page was used.

use super::{Batch, CLUSTER, Demand, Entries, Insert, Pages, Policy, Seen, Taken, Verdict, Victims};
use crate::anonymous::{Owners, Region};
use crate::lru::choices::EarlyExit;
use crate::lru::huge::{INHERITED, MAPPED};
use crate::lru::{DEF_PRIORITY, Family, ListKind, Lru, Lruvec, Reach};
use crate::memory::{Flags, FrameTable, Warmth, ZoneKind};
use crate::page_cache::Shadow;
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Func, Lock, LockClass, Machine, Step};
use std::sync::OnceLock;

/// A policy that runs in the engine: it orders the pages of the frame table.
pub type OwnPolicy = Box<dyn Policy<FrameTable>>;

/// The function that makes the state, for one lruvec, of the policy that the program itself brings; empty until
/// [`set_own`] sets it.
static OWN: OnceLock<fn() -> OwnPolicy> = OnceLock::new();

/// Sets the program's own eviction policy. From then on, kernels with `lru.policy = "own"` use it. `make` makes the
/// policy's state for one lruvec, and is called for each lruvec.
///
/// # Errors
/// Returns an error if the program has already set a policy.
pub fn set_own(make: fn() -> OwnPolicy) -> Result<(), AlreadySet> {
    OWN.set(make).map_err(|_| AlreadySet)
}

/// The error that a program gets if it has already set a policy ([`set_own`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadySet;

impl std::fmt::Display for AlreadySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this program has brought a policy before")
    }
}

impl std::error::Error for AlreadySet {}

/// Returns whether a policy was set with [`set_own`].
pub(crate) fn has_own() -> bool {
    OWN.get().is_some()
}

/// Creates an instance of the page-replacement policy that the program using the engine has set.
///
/// # Panics
/// Panics if the program has set no policy.
pub(super) fn make_own() -> OwnPolicy {
    OWN.get().expect("the choices were checked")()
}

/// A policy that implements the trait [`Policy`], as the engine uses it.
pub(in crate::lru) struct InEngine {
    make: fn() -> OwnPolicy,
    moves_on_use: bool,
}

impl InEngine {
    /// Creates the policy. `make` creates the state of the policy for one lruvec.
    pub(in crate::lru) fn new(make: fn() -> OwnPolicy) -> Self {
        Self { make, moves_on_use: make().moves_on_use() }
    }

    /// Returns the policy's state for an lruvec that has no pages yet, inside the lock that protects the state.
    pub(in crate::lru) fn state<M: Machine>(&self, machine: &M) -> M::Lock<OwnPolicy> {
        machine.lock(LockClass::Lru, (self.make)())
    }
}

/// The list under which all pages are counted, because the policy keeps one list only.
const COUNTED: ListKind = ListKind::InactiveFile;

/// The state of a scan of an lruvec's list. A policy of this kind keeps only one list for each lruvec.
#[derive(Clone, Debug)]
pub(crate) struct OwnScan {
    demand: Demand,
    /// Number of pages that the scan still has to examine.
    left: u64,
    has_begun: bool,
    /// `true` if the scan is over, because enough pages were freed.
    is_over: bool,
}

impl OwnScan {
    /// Notes that a cluster was scanned. `freed` is the number of pages that were freed since the scan began. If it is
    /// enough, ends the scan, unless `early_exit` forbids this.
    const fn end_cluster(&mut self, freed: u64, early_exit: EarlyExit) {
        if freed >= self.demand.to_reclaim_pages {
            self.is_over = match early_exit {
                EarlyExit::Never => false,
                EarlyExit::BelowDefaultPriority => self.demand.priority < DEF_PRIORITY,
                // Kswapd would go on with the other lists in proportion, but there is only one list.
                EarlyExit::Proportional => !self.demand.is_kswapd,
                EarlyExit::ProportionalOfBoth => true,
            };
        }
    }
}

/// The functions of [`Lru`] for a policy that implements the trait [`Policy`].
impl<M: Machine> Lru<M> {
    /// Hands a page that has come into memory to the policy of its lruvec, which puts the page on one of its lists.
    /// `how` states the reason why the page came.
    pub(in crate::lru) fn insert_own(&self, frame: FrameNumber, how: Insert) {
        let _span = self.machine.span(Func::PagevecLruAdd);
        let zone = self.memory().zone_of(frame);
        let refault = match how {
            Insert::SwapIn { .. } => ZoneEvent::WorkingsetRefaultAnon,
            Insert::Read { .. } | Insert::Ahead { .. } | Insert::Write | Insert::Fault | Insert::Moved => {
                ZoneEvent::WorkingsetRefaultFile
            }
        };
        let lruvec = self.lruvec_of_page(frame);
        self.count_in(lruvec, zone, refault, how.shadow().is_some().into());
        let mut policy = lruvec.own().lock();
        self.machine.spend(Step::LruMove, 1);
        self.frames[frame].set(Flags::LRU);
        self.count_listed(lruvec, zone, COUNTED, self.frames.weight(frame) as i64);
        policy.insert(&self.frames, frame, how);
    }

    /// Notes a use of a page. `flags` are the flags that the page had before this use.
    pub(in crate::lru) fn note_own_use(&self, own: &InEngine, frame: FrameNumber, flags: Flags) {
        if !flags.has(Flags::REFERENCED) {
            self.frames[frame].set(Flags::REFERENCED);
        }
        if own.moves_on_use {
            let mut policy = self.lruvec_of_page(frame).own().lock();
            self.machine.spend(Step::LruMove, 1);
            // Under the lock, no other task takes the page off the list meanwhile.
            if self.frames[frame].is(Flags::LRU) {
                policy.used(&self.frames, frame);
            }
        } else if flags.has(Flags::REFERENCED) {
            self.frames[frame].set(Flags::USED_AGAIN);
        }
    }

    /// Begins a scan of the policy's only list, and computes the scan target: the number of pages to scan. With the
    /// values `saved` and `saved-and-one` of `lru.small_targets`, targets smaller than a cluster (32 pages) are added
    /// up until their sum reaches a cluster. This list has one such sum. The classic policy has a sum for each of its
    /// lists (mechanisms/reclaim, 10.1); here, a sum for the active list, which is always empty, would only cause scans
    /// of nothing.
    pub(in crate::lru) fn begin_own_scan(&self, reach: Reach<'_, M>, demand: Demand) -> OwnScan {
        let share = self.share(reach, self.list_pages(reach, COUNTED), &demand);
        OwnScan { demand, left: self.target(reach.lruvec, COUNTED, share), has_begun: false, is_over: false }
    }

    /// Returns the next cluster (up to 32 pages) of a scan that has freed `freed` pages so far. The cluster may be
    /// empty. Returns `None` when the scan is over. This function may sleep.
    pub(in crate::lru) fn next_of_own(&self, reach: Reach<'_, M>, scan: &mut OwnScan, freed: u64) -> Option<Batch> {
        if std::mem::replace(&mut scan.has_begun, true) {
            self.machine.cond_resched();
            scan.end_cluster(freed, self.choices.early_exit);
        }
        if scan.is_over || scan.left == 0 || self.machine.is_killed() {
            return None;
        }
        let pages = scan.left.min(CLUSTER);
        scan.left -= pages;
        let _span = self.machine.span(Func::ShrinkInactiveList);
        if let Some(batch) = self.prepare_cluster(reach, COUNTED.family(), &scan.demand) {
            return Some(batch);
        }
        let taken = self.isolate_own(reach, pages);
        let mut entries = Entries::default();
        entries.add(&taken.entries);
        // The policy knows no aligned blocks. If the demand asks for blocks, the pages that the policy hands out are
        // treated as if they had been taken with their blocks.
        let has_blocks = scan.demand.blocks.is_some();
        let batch = Batch::new(COUNTED.family(), entries, taken.pages, taken.scanned);
        Some(Batch { has_blocks, counted: taken.scanned + taken.skipped, ..batch })
    }

    /// Takes up to `pages` victims off the list. Puts a victim back if its zone cannot serve the request, or if its
    /// last reference is being dropped.
    fn isolate_own(&self, reach: Reach<'_, M>, pages: u64) -> Taken {
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut victims = Victims::new();
        let mut policy = reach.lruvec.own().lock();
        policy.victims(&self.frames, pages.min(CLUSTER), &mut victims);
        self.machine.spend_on(Step::IsolatePage, reach.zone.start, victims.len() as u32);
        let (mut scanned, mut skipped) = (0, 0);
        let mut by_zone = [0; ZoneKind::ALL.len()];
        victims.retain(|frame| {
            if self.is_of_higher_zone(reach, *frame) {
                skipped += 1;
                self.memory().zone_of(*frame).stat.count(ZoneEvent::Pgskip, 1);
                policy.put_back(&self.frames, *frame, Verdict::Keep);
                return false;
            }
            scanned += 1;
            let is_taken = self.frames[*frame].get_unless_zero();
            match is_taken {
                true => {
                    self.frames[*frame].clear(Flags::LRU);
                    by_zone[self.list_zone(reach.zone, *frame).kind as usize] += self.frames.weight(*frame);
                }
                // The last reference is being dropped; the task that drops it takes the page off the list.
                false => policy.put_back(&self.frames, *frame, Verdict::Keep),
            }
            is_taken
        });
        let weight = self.uncount(reach.lruvec, COUNTED, by_zone);
        self.count_isolated(reach.lruvec, Family::File, weight);
        reach.zone.note_scanned(scanned);
        Taken { entries: victims, pages: weight, scanned, skipped }
    }

    /// Takes the listed page in `frame` off the policy's list, and takes one more reference to the page, for a caller
    /// that moves the page to another frame. Returns `false`, and leaves the page alone, if its last reference is being
    /// dropped.
    pub(in crate::lru) fn isolate_given_own(
        &self,
        policy: &mut dyn Policy<FrameTable>,
        lruvec: &Lruvec<M>,
        frame: FrameNumber,
        by_family: &mut [u64; Family::ALL.len()],
    ) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.get_unless_zero() {
            return false;
        }
        policy.remove(&self.frames, frame);
        descriptor.clear(Flags::LRU);
        let weight = self.frames.weight(frame);
        self.count_listed(lruvec, self.list_zone(self.highest_zone(lruvec), frame), COUNTED, -(weight as i64));
        self.count_isolated(lruvec, Family::File, weight);
        by_family[Family::File as usize] += weight;
        true
    }

    /// Splits a huge page into small ones, and puts them on the policy's list. Returns `false` if other references
    /// prevent the split ([`Lru::split_frames`]).
    pub(in crate::lru) fn split_in_own(&self, region: &Region<M>, head: FrameNumber) -> bool {
        let mut policy = self.lruvec_of_page(head).own().lock();
        let is_listed = self.frames[head].is(Flags::LRU);
        // Without `ACTIVE`, which reclaim may have set on the isolated head: here all pages are counted as inactive.
        let inherited = INHERITED.without(Flags::ACTIVE);
        self.split_frames(region, head, inherited, MAPPED, |tail| {
            self.frames[tail].set(Flags::LRU);
            policy.insert(&self.frames, tail, Insert::Moved);
            is_listed
        })
    }

    /// Puts isolated pages back on the policy's list, and drops the references that isolation took.
    pub(in crate::lru) fn put_back_own(&self, lruvec: &Lruvec<M>, pages: &[FrameNumber]) {
        let _span = self.machine.span(Func::PutbackInactivePages);
        let zone = self.highest_zone(lruvec);
        let mut gone = Victims::new();
        {
            let mut policy = lruvec.own().lock();
            for &frame in pages {
                let descriptor = &self.frames[frame];
                // While a page is isolated, `ACTIVE` is a mark of reclaim, not of the policy.
                let verdict = match descriptor.test_clear(Flags::ACTIVE) {
                    true => Verdict::Activate,
                    false => Verdict::Keep,
                };
                let weight = self.frames.weight(frame) as i64;
                let its_zone = self.list_zone(zone, frame);
                // Set before the reference is dropped: the task that drops the last reference takes a page with this
                // flag off its list.
                descriptor.set(Flags::LRU);
                policy.put_back(&self.frames, frame, verdict);
                self.count_listed(lruvec, its_zone, COUNTED, weight);
                if descriptor.put() {
                    // All other users released the page meanwhile.
                    policy.remove(&self.frames, frame);
                    self.count_listed(lruvec, its_zone, COUNTED, -weight);
                    descriptor.clear(Flags::LRU);
                    gone.push(frame);
                }
            }
            self.machine.spend(Step::LruMove, pages.len() as u32);
        }
        gone.into_iter().for_each(|frame| self.memory().free_folio(frame, Warmth::Cold));
    }

    /// Takes those of `pages` that are on the policy's list off the list.
    pub(in crate::lru) fn unlink_own(&self, reach: Reach<'_, M>, pages: &[FrameNumber]) {
        let mut policy = reach.lruvec.own().lock();
        let mut moved = 0;
        for frame in pages.iter().filter(|frame| self.frames[**frame].is(Flags::LRU)) {
            policy.remove(&self.frames, *frame);
            self.frames[*frame].clear(Flags::LRU);
            self.count_listed(reach.lruvec, reach.zone, COUNTED, -(self.frames.weight(*frame) as i64));
            moved += 1;
        }
        self.machine.spend(Step::LruMove, moved);
    }

    /// Asks the policy for its verdict on a page. The verdict depends on the uses of the page since the last verdict.
    pub(in crate::lru) fn judge_own(&self, frame: FrameNumber, owners: &mut Owners<M>) -> Verdict {
        let descriptor = &self.frames[frame];
        let mapped = self.anonymous().page_referenced(frame, owners);
        let touched = mapped.touched + u32::from(descriptor.test_clear(Flags::USED_AGAIN));
        let is_referenced = descriptor.is(Flags::REFERENCED);
        self.page_cache().close_page(frame, owners);
        let seen = Seen { touched, is_referenced, is_anon: descriptor.is_anon() };
        self.lruvec_of_page(frame).own().lock().judge(&self.frames, frame, seen)
    }

    /// Returns the shadow that the program's own policy makes for a page that is about to leave memory; `None` if the
    /// policy makes no shadow.
    pub(in crate::lru) fn shadow_of_own(&self, frame: FrameNumber) -> Option<Shadow> {
        self.lruvec_of_page(frame).own().lock().evicted(&self.frames, frame)
    }

    /// Calls `visit` for each listed page of an lruvec. All these pages are counted as pages of one LRU list,
    /// [`COUNTED`].
    pub(in crate::lru) fn for_each_own(&self, lruvec: &Lruvec<M>, mut visit: impl FnMut(ListKind, FrameNumber)) {
        lruvec.own().lock().for_each(&self.frames, &mut |frame| visit(COUNTED, frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::choices::{Choices, PolicyKind, SmallTargets};
    use crate::lru::policy::simple;
    use crate::memory::{Layout, Memory, MigrateType};
    use machine::Order;
    use machine::atomic::Ordering::Relaxed;
    use sim::{Config, Sim};

    /// For a test: an LRU policy that panics if a page comes to `put_back` without its bit `LRU`.
    #[derive(Default)]
    struct Probe(simple::Lru);

    impl Policy<FrameTable> for Probe {
        fn insert(&mut self, pages: &FrameTable, page: FrameNumber, how: Insert) {
            self.0.insert(pages, page, how);
        }

        fn victims(&mut self, pages: &FrameTable, want: u64, out: &mut Victims) {
            self.0.victims(pages, want, out);
        }

        fn judge(&mut self, pages: &FrameTable, page: FrameNumber, seen: Seen) -> Verdict {
            self.0.judge(pages, page, seen)
        }

        fn put_back(&mut self, pages: &FrameTable, page: FrameNumber, verdict: Verdict) {
            assert!(pages[page].is(Flags::LRU), "another task may drop the last reference, and looks for the mark");
            self.0.put_back(pages, page, verdict);
        }

        fn remove(&mut self, pages: &FrameTable, page: FrameNumber) {
            self.0.remove(pages, page);
        }

        fn for_each(&self, pages: &FrameTable, visit: &mut dyn FnMut(FrameNumber)) {
            Policy::<FrameTable>::for_each(&self.0, pages, visit);
        }
    }

    #[test]
    fn a_page_has_its_mark_when_it_is_put_back() {
        set_own(|| Box::new(Probe::default())).unwrap();
        let memory = Memory::new(Sim::new(Config::uniform(1, 0)), Default::default(), &Layout::flat(2048)).unwrap();
        let lru = Lru::over(memory, Choices { policy: PolicyKind::Own, ..Choices::default() });
        let reach = lru.reach(&lru.zones[0]);
        let frame = lru.take(reach.zone, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
        lru.insert_own(frame, Insert::Write);
        let taken = lru.isolate_own(reach, 1);
        assert_eq!((taken.entries.as_slice(), taken.scanned, taken.skipped), ([frame].as_slice(), 1, 0));
        lru.put_back_own(reach.lruvec, &taken.entries);
        assert!(lru.frames[frame].is(Flags::LRU));
        assert_eq!(lru.list_pages(reach, COUNTED), 1);
        // The last reference is that of isolation.
        let taken = lru.isolate_own(reach, 1);
        lru.frames[frame].put();
        lru.put_back_own(reach.lruvec, &taken.entries);
        assert_eq!(lru.list_pages(reach, COUNTED), 0);
    }

    #[test]
    fn scans_save_up_a_target_for_the_one_list_that_there_is() {
        let machine = Sim::new(Config::uniform(1, 0));
        let memory = Memory::new(machine, Default::default(), &Layout::flat(2048)).unwrap();
        let choices =
            Choices { policy: PolicyKind::Lru, small_targets: SmallTargets::SavedAndOne, ..Choices::default() };
        let lru = Lru::over(memory, choices);
        let reach = lru.reach(&lru.zones[0]);
        let demand = Demand { priority: DEF_PRIORITY, ..Demand::ANY };
        let targets: Vec<u64> = (0..2 * CLUSTER).map(|_| lru.begin_own_scan(reach, demand).left).collect();
        // The list has no pages, so each target is the one page that is added.
        let clusters: Vec<usize> = (0..targets.len()).filter(|n| targets[*n] > 0).collect();
        assert_eq!(clusters, [31, 63]);
        lru.begin_own_scan(reach, demand);
        let saved = ListKind::ALL.map(|kind| reach.lruvec.saved_targets[kind as usize].load(Relaxed));
        assert_eq!(saved, ListKind::ALL.map(|kind| u64::from(kind == COUNTED)));
    }
}
