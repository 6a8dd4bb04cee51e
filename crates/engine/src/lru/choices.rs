//! Choices of `[lru]`: batches in front of the LRU lock, and how much of which list is scanned.

use crate::choice::choices;

choices! {
    /// Batches in front of the LRU lock, and the share of each list that is scanned.
    [lru]

    /// The policy that orders the pages of a zone.
    policy: PolicyKind = Classic, drawn 7 {
        /// Linux's active and inactive lists. All other choices of this section are about them.
        Classic drawn 6,
        /// Linux's generations: see `[multigen]`.
        Multigen drawn 2,
        /// The least recently used page goes first. Each use takes the LRU lock.
        Lru,
        /// Pages go in the order in which they came, except those that were used again meanwhile.
        Clock,
        /// The program's own policy (`engine::lru::policy::set_own`).
        Own drawn 0,
    }

    /// The evictable lists of a zone.
    lists: Lists = Two, drawn 5, unless "lru.policy" in ["multigen"] {
        /// An active and an inactive one, for anonymous pages and pages of files alike. They are counted as the file lists.
        Two,
        /// An active and an inactive one for each family.
        Four,
    }

    /// Pages of one batch (`PAGEVEC_SIZE`), at least 1.
    batch: u32 = 14 in 1..=64, drawn 8: [1, 2, 14, 31, 64];

    /// Time at which the list of a page in an add batch is decided.
    list_choice: ListChoice = AtAdd, drawn 9, unless "lru.policy" in ["multigen"] {
        /// When it is put into the batch: one batch for each list.
        AtAdd,
        /// When the batch is flushed, by the page's state then: a single batch.
        AtFlush,
    }

    /// Effect of a second access on a page that still waits in an add batch.
    accessed_in_batch: AccessedInBatch = Ignored, drawn 10, with "lru.activation" in ["on-second-access"] {
        /// None: the page stays inactive and referenced.
        Ignored,
        /// The page becomes active, if it waits in the batch of the CPU that accesses it; with `list_choice =
        /// "at-add"`, regardless of the list that was chosen for it.
        Obeyed,
    }

    /// Time at which an add batch is flushed.
    add_flush: AddFlush = WhenFilled, drawn 11 {
        /// By the page that fills it, which is then on its list.
        WhenFilled,
        /// By the page that finds it full, which then waits itself.
        WhenFull,
    }

    /// The way in which pages go to the tail of the inactive list when their writeback ends.
    rotation: Rotation = OneByOne, drawn 12 {
        /// One by one under the LRU lock, in the completion.
        OneByOne,
        /// Through a batch of the completing CPU, without a reference: a frame that was freed meanwhile (on no list, or
        /// with another page) is skipped.
        BatchedWithoutReference,
        /// Through a batch of the completing CPU, with a reference: the page cannot be freed before the batch is flushed.
        Batched,
    }

    /// Time at which a file page that is used again becomes active.
    activation: Activation = OnSecondAccess, drawn 13, unless "lru.policy" in ["multigen"] {
        /// At its second access: it is moved at once, through a batch, under the LRU lock. Active pages become
        /// inactive in the order in which they became active, used or not.
        OnSecondAccess,
        /// When reclaim scans it: an access is a store to the page's own word, at most two between two scans, and takes
        /// no lock. An active page that was used since the last scan stays active.
        AtScan,
    }

    /// The way in which a page becomes active at its second access.
    activation_batch: ActivationBatch = OneByOne, drawn 14 {
        /// At once, under the LRU lock.
        OneByOne,
        /// Through a batch of the CPU: until it is full, the page stays in its place.
        Batched,
    }

    /// Time for which the LRU lock is held while pages go back to their lists.
    putback: Putback = InBatches, drawn 6, unless "lru.policy" in ["multigen"] {
        /// It is released after each batch (`lru.batch`), to drop the references of isolation.
        InBatches,
        /// Until all pages are back.
        AtOnce,
    }

    /// The pages that go on a list, among those that a task reads and that were not read ahead.
    admission: Admission = Always, drawn 15, unless "lru.policy" in ["multigen"] {
        /// All of them.
        Always,
        /// Pages that are used again while they wait with up to 63 others of their CPU. (With `activation =
        /// "on-second-access"` the use must be by that CPU, and the page becomes active.) While memory has room, all
        /// pages. While dropped pages are missed more often than reclaimed ones, all but a few. The same rule holds
        /// separately for pages that return soon. The frame of a page that goes on no list is reused at once, while it
        /// is in the CPU's caches. Quick demotion with ghosts (S3-FIFO); mechanisms/multigen, 13.
        ByRefault,
    }

    /// The trace that a reclaimed page leaves, and the list of a page that comes back. Only with `admission =
    /// "always"`, because admission has its own shadows otherwise.
    refault: Refault = Ignored, drawn 112, with "lru.admission" in ["always"] {
        /// None: a page that comes back counts as new.
        Ignored,
        /// Each leaves a shadow: pages of files, and anonymous pages that go to swap. A page that comes back joins the
        /// active list if its refault distance is at most the workingset: the active pages of its family, and all pages
        /// of the other family (anonymous ones only as far as swap has room).
        ByWorkingset,
    }

    /// Time at which reclaim learns how many pages came back and joined the active list (`active_scan =
    /// "when-low-or-refaulted"`), and how many are active and inactive. By these it decides whether active pages become
    /// inactive, and whether pages that come back become active (`refault = "by-workingset"`).
    cgroup_counters: CgroupCounters = AtOnce, drawn 141, unless "lru.policy" in ["multigen"] {
        /// At once.
        AtOnce,
        /// Every two seconds, when the counters of memory cgroups are added up. Between two sums nothing changes, as
        /// far as reclaim knows. A task that has reclaimed in vain counts anew, but not at a cgroup's limit.
        EveryTwoSeconds,
    }

    /// Sysctl `swappiness`, 0 to 200: the preference for reclaiming anonymous pages. Above 100, as from 5.8 on, they go
    /// before pages of files.
    swappiness: u64 = 60 in 0..=200, drawn 35: [0, 1, 60, 100];

    /// The measure by which scanning is divided between anonymous pages and pages of files.
    family_balance: FamilyBalance = ByRotation, drawn 113 {
        /// The share of recently scanned pages that were found in use, in each family.
        ByRotation,
        /// The recent cost in reads and writes of taking pages of each family: pages of the workingset that came back,
        /// and pages that reclaim wrote. Uses cost nothing.
        ByIo,
        /// As `by-io`, and each page that was scanned in vain counts as a thirty-second of a read.
        ByIoAndRotation,
    }

    /// Number of inactive pages of a family below which active ones become inactive.
    inactive_ratio: InactiveRatio = OfZone, drawn 114, unless "lru.policy" in ["multigen"] {
        /// Of files, the number of active ones. Of anonymous pages, the number of active ones divided by isqrt(10 ×
        /// size of the zones in GiB).
        OfZone,
        /// Of both families, the number of active ones divided by isqrt(10 × size of the family in GiB), or by 1 in a
        /// family under 1 GiB.
        OfFamily,
    }

    /// Condition under which only anonymous pages are scanned, because next to no pages of files are left.
    few_files: FewFiles = ScansAnon, drawn 115, with "lru.lists" in ["four"], unless "swap slots" in ["0"] {
        /// File pages and free pages together are no more than the high marks.
        ScansAnon,
        /// File pages and free pages together are no more than the high marks; but not if anonymous pages are to become
        /// inactive, or the inactive ones are too few for the priority.
        ScansInactiveAnon,
    }

    /// Time at which scanning of a zone stops before its targets are used up.
    early_exit: EarlyExit = Never, drawn 37, unless "lru.policy" in ["multigen"] {
        /// Never: all targets are scanned, also by tasks that need one page.
        Never,
        /// Once enough was freed at a priority below 12; the lists left over are not scanned.
        BelowDefaultPriority,
        /// Once enough was freed: direct reclaim at once, kswapd after the larger family was scanned
        /// in the same proportion as the smaller.
        Proportional,
        /// Likewise, but kswapd stops at once, too, where nothing is left to be scanned of one of the families.
        ProportionalOfBoth,
    }

    /// The split between anonymous and file pages at priority 0.
    at_priority_zero: AtPriorityZero = Equal, drawn 48, with "lru.lists" in ["four"], unless "swap slots" in ["0"] {
        /// None: both families are scanned in full, at any cost.
        Equal,
        /// The split of every other priority.
        Fraction,
    }

    /// States whether anonymous pages are scanned while more file pages are inactive than active.
    file_only: FileOnly = Never, drawn 61, with "lru.lists" in ["four"], unless "swap slots" in ["0"] {
        /// Yes, by the recent success of scanning each family.
        Never,
        /// No.
        WhileInactiveSuffices,
        /// No, if the inactive file pages are enough for the priority, and active ones need not become inactive.
        WhileInactiveIsScanned,
    }

    /// Treatment of a list's target that is smaller than a cluster.
    small_targets: SmallTargets = SavedAndOne, drawn 62, unless "lru.policy" in ["multigen"] {
        /// It is saved, plus one page: even a list that is too small for its priority is scanned in the end.
        SavedAndOne,
        /// It is saved until it reaches a cluster: small lists are scanned seldom.
        Saved,
        /// It is scanned as it is.
        AsTheyAre,
    }

    /// The way in which kswapd scans lists that are small for its priority, in a zone that counts as hopeless.
    hopeless_scan: HopelessScan = LikeOthers, drawn 63, unless "lru.policy" in ["multigen"] {
        /// Like all others.
        LikeOthers,
        /// A cluster of each, so that kswapd notices when the zone recovers.
        ACluster,
    }

    /// The weights of anonymous and file pages (`anon_prio`, `file_prio`), made of `swappiness`.
    family_weights: FamilyWeights = AndOne, drawn 64, with "lru.family_balance" in ["by-rotation"], unless "lru.policy" in ["multigen"] {
        /// Swappiness + 1 and 201 - swappiness: anonymous pages are scanned a little even with 0.
        AndOne,
        /// Swappiness and 200 - swappiness.
        AsItIs,
    }

    /// Condition under which active pages are scanned.
    active_scan: ActiveScan = Always, drawn 70, unless "lru.policy" in ["multigen"] {
        /// None: always the same share of them as of the inactive ones, and before those.
        Always,
        /// Few pages are inactive.
        WhenInactiveLow,
        /// Few pages of the family are inactive, or some of those that left have been missed since the last reclaim
        /// (`refault`). Checked once a scan; direct reclaim that frees nothing for it scans again without it.
        WhenLowOrRefaulted,
    }

    /// The mapped pages of the active list that become inactive.
    mapped_pages: MappedPages = ByDistress, drawn 71, unless "lru.policy" in ["multigen"] {
        /// None until reclaim is in distress (by its priority, the mapped share of memory and `swappiness`), then those
        /// that were not used. Unmapped pages always become inactive.
        ByDistress,
        /// All, anonymous and file alike.
        LikeOthers,
    }

    /// The recent use that keeps an inactive page in memory.
    reference_rule: ReferenceRule = AnyUse, drawn 72, unless "lru.policy" in ["multigen"] {
        /// Any use of a page that is mapped or in the swap cache, of its file's mappings too: it becomes active.
        AnyUse,
        /// Any use of an anonymous page; the second use of a file page.
        ByFamily,
        /// The second use of any page.
        SecondUse,
    }

    /// Treatment of an unreferenced file page that two mappings have touched since the last scan.
    mapped_twice: MappedTwice = Keep, drawn 60, unless "lru.policy" in ["multigen"] {
        /// As for one mapping: another round of the inactive list.
        Keep,
        /// It becomes active.
        Activate,
    }

    /// The place of an inactive page that reclaim meets under writeback, or leaves to the flusher.
    unwritten_pages: UnwrittenPages = StayInactive, drawn 116 {
        /// The head of the inactive list.
        StayInactive,
        /// The active list, out of the way of scans, until its writeback ends.
        BecomeActive,
    }

    /// Number of pages of a list that may be isolated before the next reclaimer waits.
    isolated_limit: IsolatedLimit = None, drawn 68 {
        /// Any number: no reclaimer waits.
        None,
        /// As many as remain on the list.
        Whole,
        /// An eighth of the pages that remain on the list; for callers that may not enter the file system, as many as
        /// remain.
        Eighth,
    }

    /// Wait of a reclaimer if too many pages of a list are isolated.
    isolated_wait: IsolatedWait = CongestionWait, drawn 69 {
        /// Until a congested queue has room, at most 100 ms.
        CongestionWait,
        /// Until a reclaimer has put pages back, at most 10 ms.
        ForPutback,
        /// Until a reclaimer has put pages back, at most 20 ms.
        ReclaimThrottle,
    }
}

impl Activation {
    /// Returns whether scans decide, and not accesses.
    pub(crate) const fn is_at_scan(self) -> bool {
        match self {
            Self::AtScan => true,
            Self::OnSecondAccess => false,
        }
    }
}

impl UnwrittenPages {
    /// Returns whether the pages go to the active list.
    pub(crate) const fn become_active(self) -> bool {
        match self {
            Self::BecomeActive => true,
            Self::StayInactive => false,
        }
    }
}

impl ReferenceRule {
    /// Returns whether a page has to be used a second time through its file.
    pub(crate) const fn is_by_family(self) -> bool {
        match self {
            Self::ByFamily | Self::SecondUse => true,
            Self::AnyUse => false,
        }
    }
}

impl FamilyBalance {
    /// Returns whether pages written by a scan count.
    pub(crate) const fn counts_io(self) -> bool {
        match self {
            Self::ByIo | Self::ByIoAndRotation => true,
            Self::ByRotation => false,
        }
    }

    /// Returns whether pages scanned in vain count.
    pub(crate) const fn counts_rotation(self) -> bool {
        match self {
            Self::ByIoAndRotation => true,
            Self::ByIo | Self::ByRotation => false,
        }
    }
}

impl AccessedInBatch {
    /// Returns whether the page becomes active.
    pub(crate) const fn is_obeyed(self) -> bool {
        match self {
            Self::Obeyed => true,
            Self::Ignored => false,
        }
    }
}

impl Lists {
    /// Returns whether anonymous pages and pages of files have separate lists.
    pub(crate) const fn have_families(self) -> bool {
        match self {
            Self::Four => true,
            Self::Two => false,
        }
    }
}
