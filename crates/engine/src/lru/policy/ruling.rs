//! The policy of an engine, and the one place where lists and reclaim call the policy.
//!
//! [`Ruling`] has a variant for each kind of policy. The functions of this module are all the questions that `lru`,
//! `reclaim` and the higher layers of the engine ask of a policy. Each function is one `match`, whose arms call code in
//! the folder of the policy. So a policy's folder knows no other policy, and no other module knows which policy is in
//! use.

use super::classic::{self, Classic, Packing};
use super::in_engine::{InEngine, OwnPolicy, OwnScan};
use super::multigen::placement::Coming;
use super::multigen::{self, GenerationScan, Generational, Multigen};
use super::{Batch, Entries, Insert, Verdict, simple};
use crate::Task;
use crate::anonymous::{Owners, Region};
use crate::lru::batch::Apply;
use crate::lru::choices::{self, Admission, ListChoice, Lists, PolicyKind, ScanUnit};
use crate::lru::{Demand, Family, ListKind, ListName, Lru, Lruvec, Reach, Recent};
use crate::memory::{Flags, GroupId, Zone};
use crate::page_cache::Shadow;
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Func, Lock, Machine, Order, Step};

/// The replacement policy of an engine, and the policy's rules.
pub(in crate::lru) enum Ruling {
    /// Linux's active and inactive lists.
    Classic(Classic),
    /// Linux's multi-generational LRU.
    Multigen(Multigen),
    /// A policy that implements the trait [`Policy`](super::Policy): one of the engine's simple policies, or one from
    /// the program that uses the engine.
    Own(InEngine),
}

/// The state that the policy keeps for an lruvec.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few lruvecs, and each use of one would follow another pointer"
)]
pub(in crate::lru) enum State<M: Machine> {
    /// The state of active and inactive lists.
    Classic(classic::State<M>),
    /// The state of the multi-generational LRU.
    Multigen(Generational<M>),
    /// The state of a policy that implements the trait [`Policy`](super::Policy): the value on which its methods are
    /// called.
    Own(M::Lock<OwnPolicy>),
}

/// The lock guard of an lruvec's lists. The lists stay locked as long as the guard exists.
pub(crate) enum LockedLists<'a, M: Machine> {
    /// The lock guard of the active and inactive lists of the classic policy.
    Classic(<M::Lock<classic::Lists> as Lock<classic::Lists>>::Guard<'a>),
    /// The guard of the lists of the multi-generational LRU.
    Multigen(<M::Lock<multigen::Lists> as Lock<multigen::Lists>>::Guard<'a>),
    /// The guard of the lock around a policy that implements the trait [`Policy`](super::Policy).
    Own(<M::Lock<OwnPolicy> as Lock<OwnPolicy>>::Guard<'a>),
}

/// The state of a scan of LRU lists, in the form that the page-replacement policy in use needs.
pub(crate) enum Scan {
    /// A scan that takes clusters (up to 32 pages) of each list in turn.
    Classic(classic::Scan),
    /// A scan that takes batches of the oldest generation.
    Multigen(GenerationScan),
    /// A scan that takes clusters (up to 32 pages) of the policy's one list.
    Own(OwnScan),
}

impl Ruling {
    /// Creates the page-replacement policy that `choices` names, with state for `lruvecs` lruvecs.
    ///
    /// # Panics
    /// If `choices` names the program's own policy and the program has set none.
    /// [`crate::kernel::Choices::check`], which is called earlier, refuses such choices.
    pub(in crate::lru) fn new(
        choices: &choices::Choices,
        generations: multigen::Choices,
        lruvecs: usize,
        frames: u32,
    ) -> Self {
        match choices.policy {
            PolicyKind::Classic => {
                // `Admission::ByRefault` has shadows of its own, so the classic policy leaves none.
                let refault = match choices.admission {
                    Admission::ByRefault => choices::Refault::Ignored,
                    Admission::Always => choices.refault,
                };
                Self::Classic(Classic::new(refault, lruvecs, frames))
            }
            PolicyKind::Multigen => Self::Multigen(Multigen::new(generations, lruvecs)),
            PolicyKind::Lru => Self::Own(InEngine::new(|| Box::new(simple::Lru::default()))),
            PolicyKind::Clock => Self::Own(InEngine::new(|| Box::new(simple::Clock::default()))),
            PolicyKind::Own => Self::Own(InEngine::new(super::in_engine::make_own)),
        }
    }

    /// Returns the state of an lruvec that has no pages yet.
    pub(in crate::lru) fn state<M: Machine>(&self, machine: &M) -> State<M> {
        match self {
            Self::Classic(_) => State::Classic(Classic::state(machine)),
            Self::Multigen(multigen) => State::Multigen(multigen.state(machine)),
            Self::Own(own) => State::Own(own.state(machine)),
        }
    }

    /// Returns the lists under which pages are counted: those that the policy prescribes, or, if it prescribes none,
    /// `said`, which is the value of `lru.lists`.
    pub(in crate::lru) const fn counted_lists(&self, said: Lists) -> Lists {
        match self {
            Self::Classic(_) => said,
            Self::Multigen(_) => Lists::Four,
            Self::Own(_) => Lists::Two,
        }
    }

    /// Returns whether each node keeps a list of its memory control groups, from which global reclaim takes the next
    /// group (`multigen.memcg_lru`).
    pub(in crate::lru) const fn has_memcg_lru(&self) -> bool {
        match self {
            Self::Multigen(multigen) => multigen.has_memcg_lru(),
            Self::Classic(_) | Self::Own(_) => false,
        }
    }

    /// Returns whether the policy obeys `lru.admission`. With this choice, pages that are read may have to wait before
    /// they go on a list.
    pub(in crate::lru) const fn admits_by_refault(&self) -> bool {
        match self {
            Self::Classic(_) => true,
            Self::Multigen(_) | Self::Own(_) => false,
        }
    }
}

/// Access to the state of one policy, for the code of that policy. Each function panics if another policy is in use.
impl<M: Machine> Lruvec<M> {
    /// Returns the state that the classic policy keeps for this lruvec. Panics if another policy is in use.
    #[inline]
    pub(in crate::lru) fn classic(&self) -> &classic::State<M> {
        match &self.state {
            State::Classic(state) => state,
            State::Multigen(_) | State::Own(_) => unreachable!("classic code runs where classic rules"),
        }
    }

    /// Returns the state of the multi-generational policy.
    #[inline]
    pub(in crate::lru) fn generational(&self) -> &Generational<M> {
        match &self.state {
            State::Multigen(state) => state,
            State::Classic(_) | State::Own(_) => unreachable!("code of generations runs where they rule"),
        }
    }

    /// Returns the state of a policy that implements the trait [`Policy`](super::Policy): a value of the policy, in its
    /// lock.
    #[inline]
    pub(in crate::lru) fn own(&self) -> &M::Lock<OwnPolicy> {
        match &self.state {
            State::Own(policy) => policy,
            State::Classic(_) | State::Multigen(_) => unreachable!("such a policy is asked where it rules"),
        }
    }

    /// Returns the lists of the classic policy, in their lock.
    ///
    /// # Panics
    /// When another policy is in use.
    pub fn classic_lists(&self) -> &M::Lock<classic::Lists> {
        &self.classic().lists
    }
}

/// Access to the rules of one policy, for the code of that policy.
impl<M: Machine> Lru<M> {
    /// Returns how the classic policy packs shadows. Returns `None` if another policy is in use, or if pages leave no
    /// shadows.
    #[inline]
    pub(in crate::lru) const fn packing(&self) -> Option<Packing> {
        match &self.ruling {
            Ruling::Classic(classic) => classic.packing(),
            Ruling::Multigen(_) | Ruling::Own(_) => None,
        }
    }

    /// Returns the multi-generational LRU, if it is the policy.
    #[inline]
    pub(in crate::lru) const fn multigen(&self) -> Option<&Multigen> {
        match &self.ruling {
            Ruling::Multigen(multigen) => Some(multigen),
            Ruling::Classic(_) | Ruling::Own(_) => None,
        }
    }
}

/// Functions that tell the policy about pages that come, are used, and leave.
impl<M: Machine> Lru<M> {
    /// Notes that a page, which is on no list yet, is about to join a list. Returns `None` if the policy has put the
    /// page on a list. Otherwise the page has to go into a batch, and the result says whether it joins its list as an
    /// active page.
    pub(in crate::lru) fn note_coming(&self, frame: FrameNumber, how: Insert, active: bool) -> Option<bool> {
        match &self.ruling {
            Ruling::Classic(_) => {
                let is_missed = how.shadow().is_some_and(|shadow| self.is_refault_activated(frame, shadow));
                Some(is_missed || active)
            }
            Ruling::Multigen(multigen) => {
                self.note_coming_to_generations(multigen, frame, how, active);
                Some(active)
            }
            Ruling::Own(_) => {
                self.insert_own(frame, how);
                None
            }
        }
    }

    /// Notes a use of a page. `flags` are the flags that the page had before this use.
    pub(in crate::lru) fn note_use(&self, frame: FrameNumber, flags: Flags) {
        match &self.ruling {
            Ruling::Classic(_) => self.note_classic_use(frame, flags),
            Ruling::Multigen(multigen) => self.note_file_use(multigen, frame, flags),
            Ruling::Own(own) => self.note_own_use(own, frame, flags),
        }
    }

    /// Notes that a task is about to read a newly allocated page of a file. Only the multi-generational LRU uses this.
    pub(crate) fn note_reader(&self, frame: FrameNumber, reader: &Task) {
        match &self.ruling {
            Ruling::Multigen(multigen) => self.note_reader_in_fault(multigen, frame, reader),
            Ruling::Classic(_) | Ruling::Own(_) => {}
        }
    }

    /// Returns whether a page whose writeback has ended goes to the tail of its list.
    pub(in crate::lru) const fn may_rotate(&self, flags: Flags) -> bool {
        match &self.ruling {
            // An active page goes to the tail only where reclaim makes pages active to have them out of the way.
            Ruling::Classic(_) | Ruling::Multigen(_) => {
                !flags.has(Flags::ACTIVE) || self.choices.unwritten_pages.become_active()
            }
            Ruling::Own(_) => false,
        }
    }

    /// Returns when the list of a page in a batch is chosen. With the multi-generational LRU, it is chosen when the
    /// batch is flushed, by the state of the page at that time.
    pub(in crate::lru) const fn list_choice(&self) -> ListChoice {
        match &self.ruling {
            Ruling::Classic(_) | Ruling::Own(_) => self.choices.list_choice,
            Ruling::Multigen(_) => ListChoice::AtFlush,
        }
    }

    /// Adds, activates or rotates the pages of a batch, as `apply` says. All of the pages lie in one zone. `is_same(n)`
    /// returns whether frame `pages[n]` still holds the page that was put into the batch.
    pub(in crate::lru) fn flush_run(
        &self,
        reach: Reach<'_, M>,
        pages: &[FrameNumber],
        apply: Apply,
        is_same: impl Fn(usize) -> bool,
    ) {
        match &self.ruling {
            Ruling::Classic(_) => self.flush_classic(reach, pages, apply, is_same),
            Ruling::Multigen(multigen) => self.flush_generations(multigen, reach, pages, apply, is_same),
            Ruling::Own(_) => unreachable!("a policy behind the trait has no batches"),
        }
    }

    /// Takes `pages` off their lists, as far as they are on lists. All of `pages` lie in the zone of `reach`.
    pub(in crate::lru) fn unlink(&self, reach: Reach<'_, M>, pages: &[FrameNumber]) {
        if !pages.iter().any(|frame| self.frames[*frame].is(Flags::LRU)) {
            return;
        }
        match &self.ruling {
            Ruling::Classic(_) => self.unlink_classic(reach, pages),
            Ruling::Multigen(_) => self.unlink_generations(reach, pages),
            Ruling::Own(_) => self.unlink_own(reach, pages),
        }
    }

    /// Returns whether the pages of an isolated folio can stay isolated when it is split. A policy of one's own knows only
    /// the pages that were inserted, so they go on its list first.
    pub(crate) const fn keeps_split_pages_isolated(&self) -> bool {
        match &self.ruling {
            Ruling::Classic(_) | Ruling::Multigen(_) => true,
            Ruling::Own(_) => false,
        }
    }

    /// Splits a folio into single pages, under the lock of the lists, and puts them on lists. Returns `false` if other
    /// references prevent the split ([`Lru::split_frames`]).
    pub(in crate::lru) fn split_listed(&self, region: &Region<M>, head: FrameNumber) -> bool {
        match &self.ruling {
            Ruling::Classic(_) => self.split_in_classic(region, head),
            Ruling::Multigen(multigen) => self.split_in_generations(multigen, region, head),
            Ruling::Own(_) => self.split_in_own(region, head),
        }
    }
}

/// Functions that take pages off their lists, and put them back, for callers that name the pages
/// ([`crate::lru::given`]).
impl<M: Machine> Lru<M> {
    /// Locks the lists of an lruvec.
    pub(crate) fn lock_lists<'a>(&self, lruvec: &'a Lruvec<M>) -> LockedLists<'a, M> {
        match &lruvec.state {
            State::Classic(state) => LockedLists::Classic(state.lists.lock()),
            State::Multigen(state) => LockedLists::Multigen(state.lists.lock()),
            State::Own(policy) => LockedLists::Own(policy.lock()),
        }
    }

    /// Returns whether a task waits for the lock of an lruvec's lists.
    pub(crate) fn are_lists_contended(&self, lruvec: &Lruvec<M>) -> bool {
        match &lruvec.state {
            State::Classic(state) => state.lists.is_contended(),
            State::Multigen(state) => state.lists.is_contended(),
            State::Own(policy) => policy.is_contended(),
        }
    }

    /// Isolates the page in `frame`: removes the listed page from its list, and adds a reference to it. Returns
    /// `false`, and changes nothing, if another task is dropping the page's last reference.
    pub(in crate::lru) fn take_given(
        &self,
        lruvec: &Lruvec<M>,
        lists: &mut LockedLists<'_, M>,
        frame: FrameNumber,
        by_family: &mut [u64; Family::ALL.len()],
    ) -> bool {
        match lists {
            LockedLists::Classic(lists) => self.isolate_one(lruvec, lists, frame, by_family),
            LockedLists::Multigen(lists) => self.isolate_given_generation(lruvec, lists, frame, by_family),
            LockedLists::Own(policy) => self.isolate_given_own(&mut ***policy, lruvec, frame, by_family),
        }
    }

    /// Puts back pages of one lruvec and family that were isolated for a purpose other than reclaim. Drops the
    /// references that isolation took.
    pub(in crate::lru) fn put_back_unjudged(&self, lruvec: &Lruvec<M>, family: Family, pages: &[FrameNumber]) {
        match &self.ruling {
            Ruling::Classic(_) => self.putback(lruvec, family, pages, Recent::default()),
            Ruling::Multigen(multigen) => self.put_back_generations(multigen, lruvec, pages, Coming::New),
            Ruling::Own(_) => pages.iter().for_each(|frame| {
                // The policy has forgotten the page, so the page is inserted anew.
                self.insert_own(*frame, Insert::Moved);
                self.put(*frame);
            }),
        }
    }
}

/// The part of the page-replacement policy that reclaim uses: it chooses pages, and takes back those that reclaim did
/// not free.
impl<M: Machine> Lru<M> {
    /// Returns whether reclaim ages lruvecs before its next pass ([`Lru::age_before_pass`]). `has_got_on` is `true`
    /// before the first pass of a reclaim, and if some scan of the previous pass freed enough pages
    /// ([`Lru::has_got_on`]).
    pub(crate) const fn begins_pass_with_ageing(&self, is_kswapd: bool, has_got_on: bool) -> bool {
        match &self.ruling {
            Ruling::Classic(_) => true,
            Ruling::Multigen(multigen) => {
                Self::begins_round_with_ageing(multigen, is_kswapd, has_got_on, self.memcg_lru.is_some())
            }
            Ruling::Own(_) => false,
        }
    }

    /// Returns whether a scan has begun a new generation of its lruvec.
    #[expect(clippy::unused_self, reason = "a question about the policy's scan")]
    pub(crate) const fn has_aged(&self, scan: &Scan) -> bool {
        match scan {
            Scan::Multigen(scan) => scan.has_aged(),
            Scan::Classic(_) | Scan::Own(_) => false,
        }
    }

    /// Returns whether global reclaim can end its walk over the list of groups after it has freed `freed` pages.
    pub(crate) fn is_walk_enough(&self, reach: Reach<'_, M>, demand: &Demand, order: Order, freed: u64) -> bool {
        match &self.ruling {
            Ruling::Multigen(multigen) => self.is_enough(multigen, reach, demand, order, freed),
            Ruling::Classic(_) | Ruling::Own(_) => false,
        }
    }

    /// Returns whether an lruvec has so many pages that a scan at the demand's priority examines some.
    pub(crate) fn is_sizable(&self, reach: Reach<'_, M>, demand: &Demand) -> bool {
        match &self.ruling {
            Ruling::Multigen(_) => self.generations_to_scan(reach, demand) > 0,
            Ruling::Classic(_) | Ruling::Own(_) => true,
        }
    }

    /// Returns whether scans of a protected group are shortened in proportion to its protection. If not, protection
    /// only excludes whole groups.
    pub(crate) const fn protects_in_proportion(&self) -> bool {
        match &self.ruling {
            Ruling::Classic(_) | Ruling::Own(_) => true,
            Ruling::Multigen(_) => false,
        }
    }

    /// Returns whether a scan freed enough pages (`freed`) that reclaim does not need to age pages before its next
    /// pass.
    pub(crate) const fn has_got_on(&self, freed: u64) -> bool {
        freed >= multigen::GOT_ON
    }

    /// Ages pages before a pass of kswapd, so that the pass finds pages to reclaim.
    pub(crate) fn age_before_pass(&self, reach: Reach<'_, M>, demand: &Demand) {
        match &self.ruling {
            Ruling::Classic(_) => self.age_active_anon(reach, demand),
            Ruling::Multigen(multigen) => {
                if self.groups.is_some() {
                    // One group of kswapd's walk.
                    self.machine.spend(Step::WorkItem, 1);
                }
                self.age_before_round(multigen, reach.lruvec, demand);
            }
            Ruling::Own(_) => {}
        }
    }

    /// Charges the CPU time that Linux needs to compute the scan targets of the lists, if the policy computes them once
    /// for a whole scan. A policy that computes them for each batch charges the time elsewhere.
    pub(crate) fn charge_scan_count(&self) {
        match &self.ruling {
            Ruling::Classic(_) | Ruling::Own(_) => self.machine.spend(Step::ScanCount, 1),
            // Generations compute it for each batch.
            Ruling::Multigen(_) => {}
        }
    }

    /// Returns the priority at which a reclaim begins: that of `demand`, or a smaller number that the policy chooses.
    pub(crate) fn first_priority(&self, reach: Reach<'_, M>, demand: &Demand) -> u32 {
        match &self.ruling {
            Ruling::Multigen(multigen) => self.first_priority_of_generations(multigen, reach, demand),
            Ruling::Classic(_) | Ruling::Own(_) => demand.priority,
        }
    }

    /// Begins a scan for a request of `order`.
    pub(crate) fn begin_scan(&self, reach: Reach<'_, M>, demand: Demand, order: Order) -> Scan {
        match &self.ruling {
            Ruling::Classic(_) => Scan::Classic(self.begin_classic_scan(reach, demand)),
            Ruling::Multigen(_) => Scan::Multigen(GenerationScan::new(demand, order)),
            Ruling::Own(_) => Scan::Own(self.begin_own_scan(reach, demand)),
        }
    }

    /// Returns the next batch of a scan that has freed `freed` pages so far. The batch may be empty. Returns `None`
    /// when the scan is over. This function may sleep.
    pub(crate) fn next_batch(&self, reach: Reach<'_, M>, scan: &mut Scan, freed: u64) -> Option<Batch> {
        match (&self.ruling, scan) {
            (Ruling::Classic(_), Scan::Classic(scan)) => self.next_cluster(reach, scan, freed),
            (Ruling::Multigen(multigen), Scan::Multigen(scan)) => {
                self.next_of_generations(multigen, reach, scan, freed)
            }
            (Ruling::Own(_), Scan::Own(scan)) => self.next_of_own(reach, scan, freed),
            (Ruling::Classic(_) | Ruling::Multigen(_) | Ruling::Own(_), _) => {
                unreachable!("another policy began the scan")
            }
        }
    }

    /// Ends a scan. Returns whether the scan skipped a list of active pages although this list had a scan target. Only
    /// the classic policy does this.
    pub(crate) fn end_scan(&self, reach: Reach<'_, M>, scan: &Scan) -> bool {
        match scan {
            Scan::Classic(scan) => {
                self.age_active_anon(reach, scan.demand());
                scan.left_active()
            }
            Scan::Multigen(_) | Scan::Own(_) => false,
        }
    }

    /// Looks again at `pages`, which reclaim did not free. Takes the pages that may have become reclaimable meanwhile
    /// out of `pages`, and returns them for a second try. Prepares the other pages to go back to their lists.
    pub(crate) fn take_out_retried(&self, pages: &mut Entries, may_retry: bool) -> Entries {
        match &self.ruling {
            Ruling::Multigen(multigen) => self.take_out_of_rejected(multigen, pages, may_retry),
            Ruling::Classic(_) | Ruling::Own(_) => Entries::default(),
        }
    }

    /// Puts `stay`, those folios of a batch that were not freed, back on their lists. `written` is the number of pages
    /// of the batch that reclaim is writing, and `freed` the number of those that it has freed.
    pub(crate) fn put_back_batch(
        &self,
        reach: Reach<'_, M>,
        batch: &Batch,
        stay: &[FrameNumber],
        written: u64,
        freed: u64,
    ) {
        for (family, taken) in batch.families() {
            self.put_back_victims(reach.lruvec, family, stay, taken);
            match &self.ruling {
                Ruling::Classic(_) => {
                    let of_taken = match self.choices.scan_unit {
                        ScanUnit::Folios => batch.entries.len() as u64,
                        ScanUnit::Pages => taken,
                    };
                    let scanned = batch.scanned.saturating_sub(of_taken) + taken;
                    self.note_io_cost(reach.lruvec, family, written, scanned.saturating_sub(freed));
                }
                Ruling::Multigen(_) | Ruling::Own(_) => {}
            }
        }
    }

    /// Puts `stay`, those pages of a batch of aligned blocks that were not freed, back on their lists. The batch may
    /// have pages of both families.
    pub(crate) fn put_back_blocks(&self, reach: Reach<'_, M>, batch: &Batch, stay: &[FrameNumber]) {
        // Divides the pages by family before any page is put back: once a page is back, other tasks may free it and
        // change its flags.
        let stay = Family::ALL.map(|family| self.of_family(stay, family).collect::<Vec<_>>());
        for (family, taken) in batch.families() {
            self.put_back_victims(reach.lruvec, family, &stay[family as usize], taken);
        }
    }

    fn put_back_victims(&self, lruvec: &Lruvec<M>, family: Family, stay: &[FrameNumber], taken: u64) {
        match &self.ruling {
            Ruling::Classic(_) => self.put_back_classic(lruvec, family, stay, taken),
            Ruling::Multigen(multigen) => self.put_back_generations(multigen, lruvec, stay, Coming::Rejected),
            Ruling::Own(_) => self.put_back_own(lruvec, stay),
        }
        self.end_isolation(lruvec, family, taken);
    }

    /// Judges an isolated page by its uses since the last judgement, and forgets these uses. `is_wanted` is true if
    /// reclaim wants to free the whole aligned block in which the page lies; the verdict is then [`Verdict::Reclaim`]
    /// even if the page was used. `is_kswapd` is `true` if kswapd reclaims.
    pub(crate) fn judge_page(
        &self,
        frame: FrameNumber,
        is_wanted: bool,
        is_kswapd: bool,
        owners: &mut Owners<M>,
    ) -> Verdict {
        let _span = self.machine.span(Func::PageReferenced);
        let verdict = match &self.ruling {
            Ruling::Classic(_) => self.judge_classic(frame, is_wanted, owners),
            Ruling::Multigen(multigen) => self.judge_in_generations(multigen, frame, is_kswapd, owners),
            Ruling::Own(_) => self.judge_own(frame, owners),
        };
        if is_wanted { Verdict::Reclaim } else { verdict }
    }

    /// Returns whether anonymous pages that are swapped out leave a shadow, which says whether they were in the
    /// workingset.
    pub(crate) fn leaves_shadows_of_anon(&self) -> bool {
        match &self.ruling {
            Ruling::Classic(_) => self.has_refaults(),
            Ruling::Multigen(_) => true,
            Ruling::Own(_) => false,
        }
    }

    /// Returns the shadow of an isolated page that a reclaim of the group `target` is about to evict. Returns `None` if
    /// the page leaves no shadow.
    pub(crate) fn eviction_shadow(&self, frame: FrameNumber, target: GroupId) -> Option<Shadow> {
        match &self.ruling {
            Ruling::Classic(_) => self.shadow_of_classic(frame, target),
            Ruling::Multigen(multigen) => Some(self.shadow_of_generation(multigen, frame)),
            Ruling::Own(_) => self.shadow_of_own(frame),
        }
    }

    /// Tells the policy that a reclaim of the group `target` evicts a page. The page's shadow is already stored in the
    /// slot of its index. Called for each page as soon as it is evicted, when reclaim may not have decided yet on other
    /// pages of the same batch.
    pub(crate) fn note_taken(&self, frame: FrameNumber, target: GroupId) {
        match &self.ruling {
            Ruling::Classic(_) => self.age_by_eviction(frame, target),
            Ruling::Multigen(_) | Ruling::Own(_) => {}
        }
    }

    /// Tells the policy that a reclaim has ended its work on an lruvec.
    pub(crate) fn end_reclaim(&self, lruvec: &Lruvec<M>) {
        match &self.ruling {
            Ruling::Classic(_) => self.note_refaults_seen(lruvec),
            Ruling::Multigen(_) | Ruling::Own(_) => {}
        }
    }

    /// Notes that reclaim has evicted these pages, and that the file pages among them have left shadows.
    pub(crate) fn note_evicted(&self, pages: &[FrameNumber]) {
        match &self.ruling {
            Ruling::Classic(_) => self.note_evicted_to_admission(pages),
            Ruling::Multigen(multigen) => self.note_generations_evicted(multigen, pages),
            Ruling::Own(_) => {}
        }
    }
}

/// Functions that show the state of the policy: counters, lists of pages, checks.
impl<M: Machine> Lru<M> {
    /// Returns the counters of refaults that stay at 0 in this run, because the simulated kernel stores no shadows for
    /// pages of their family. The real kernel does not have these counters in `/proc/vmstat`.
    pub fn uncounted_refaults(&self) -> impl Iterator<Item = ZoneEvent> {
        let by_policy = match self.choices.policy {
            // A program's own policy may return shadows; the simple policies of this engine do not.
            PolicyKind::Multigen | PolicyKind::Own => true,
            PolicyKind::Classic | PolicyKind::Lru | PolicyKind::Clock => self.has_refaults(),
        };
        let of = |events: [ZoneEvent; 3], is_counted: bool| events.into_iter().filter(move |_| !is_counted);
        of(ZoneEvent::WORKINGSET_ANON, by_policy)
            .chain(of(ZoneEvent::WORKINGSET_FILE, by_policy || self.waiting.is_some()))
    }

    /// Returns the list to which a page belongs by its flags. With the multi-generational LRU, this is the list under
    /// which the page is counted.
    pub(crate) fn list_of(&self, frame: FrameNumber) -> ListName {
        ListName(match &self.ruling {
            Ruling::Classic(_) | Ruling::Own(_) => self.kind_of(self.frames[frame].flags()),
            Ruling::Multigen(_) => self.kind_in_generations(frame),
        })
    }

    /// Checks that the numbers that the policy keeps for an lruvec agree with the lruvec's pages.
    ///
    /// # Errors
    /// Returns a description of the first disagreement.
    pub(in crate::lru) fn check_policy(&self, lruvec: &Lruvec<M>) -> Result<(), String> {
        match &self.ruling {
            Ruling::Classic(_) | Ruling::Own(_) => Ok(()),
            Ruling::Multigen(_) => self.check_generations(lruvec),
        }
    }

    /// Calls `visit` for each listed page of a zone, with the list under which the page is counted.
    pub fn for_each_listed(&self, zone: &Zone<M>, mut visit: impl FnMut(ListKind, FrameNumber)) {
        self.lruvecs_of_zone(zone).for_each(|lruvec| self.for_each_listed_in(lruvec, zone, &mut visit));
    }

    /// Calls `visit` for each page that is on a list of the lruvec and lies in the zone, with the list under which the
    /// page is counted.
    pub(in crate::lru) fn for_each_listed_in(
        &self,
        lruvec: &Lruvec<M>,
        zone: &Zone<M>,
        mut visit: impl FnMut(ListKind, FrameNumber),
    ) {
        let visit = |kind, frame| {
            if zone.holds(frame) {
                visit(kind, frame);
            }
        };
        match &self.ruling {
            Ruling::Classic(_) => self.for_each_in_classic(lruvec, visit),
            Ruling::Multigen(_) => self.for_each_in_generations(lruvec, visit),
            Ruling::Own(_) => self.for_each_own(lruvec, visit),
        }
    }
}
