//! Choices of `[lru]`: batches in front of the LRU lock, and how much of which list is scanned.

use crate::choice::choices;

choices! {
    /// The LRU lists of a zone: the policy that orders the pages, the batches in front of the LRU lock, and the share
    /// of each list that is scanned.
    [lru]

    /// The policy that orders the pages of a zone.
    policy: PolicyKind = Classic, drawn 7 {
        /// Linux's active and inactive lists. Most other choices of this section are about these lists.
        Classic drawn 6,
        /// Linux's generations: see `[multigen]`.
        Multigen drawn 2,
        /// The least recently used page is reclaimed first. Each use of a page takes the LRU lock.
        Lru,
        /// Pages are reclaimed in the order in which they came, except those that were used again meanwhile.
        Clock,
        /// The program's own policy (`engine::lru::policy::set_own`).
        Own drawn 0,
    }

    /// The evictable lists of a zone.
    lists: Lists = Two, drawn 5, unless "lru.policy" in ["multigen"] {
        /// One active and one inactive list, each for anonymous and file pages together. All pages are counted as file
        /// pages.
        Two,
        /// An active and an inactive list for anonymous pages, and another two for file pages.
        Four,
    }

    /// Number of pages in one batch (`PAGEVEC_SIZE`), at least 1.
    batch: u32 = 14 in 1..=64, drawn 8: [1, 2, 14, 31, 64];

    /// A new page waits in a batch before it is added to an LRU list. This choice says when the kernel decides to which
    /// list the page goes.
    list_choice: ListChoice = AtAdd, drawn 9, unless "lru.policy" in ["multigen"] {
        /// When the page is put into the batch. There is one batch for each list.
        AtAdd,
        /// When the batch is flushed, by the page's state at that time. There is a single batch.
        AtFlush,
    }

    /// A new page waits in a batch before it is added to an LRU list. This choice says what a second access does to a
    /// page that still waits there.
    accessed_in_batch: AccessedInBatch = Ignored, drawn 10, with "lru.activation" in ["on-second-access"] {
        /// No effect: the page stays inactive and referenced.
        Ignored,
        /// The page becomes active, if it waits in a batch of the CPU that accesses the page. With
        /// `list_choice = "at-add"`, this happens regardless of the list that was chosen for the page.
        Obeyed,
    }

    /// When the batch of pages that wait to be added to LRU lists is flushed.
    add_flush: AddFlush = WhenFilled, drawn 11 {
        /// The batch is flushed when a page fills it. The flush includes this page.
        WhenFilled,
        /// The batch is flushed when it is full and another page is to be added. After the flush, this page waits in
        /// the emptied batch.
        WhenFull,
    }

    /// The way in which a page moves to the tail of the inactive list when its writeback ends.
    rotation: Rotation = OneByOne, drawn 12 {
        /// One by one, each under the LRU lock, when the write completes.
        OneByOne,
        /// Through a batch of the CPU on which the write completes. The batch takes no references to pages. A frame
        /// whose page was freed meanwhile is skipped: it is on no list, or holds another page.
        BatchedWithoutReference,
        /// Through a batch of the CPU on which the write completes. The batch takes a reference to each page, so the
        /// page cannot be freed before the batch is flushed.
        Batched,
    }

    /// States when a file page becomes active after its second use: at this use, or when reclaim scans the page.
    activation: Activation = OnSecondAccess, drawn 13, unless "lru.policy" in ["multigen"] {
        /// A page becomes active at its second access, which moves it to the active list under the LRU lock, at once or
        /// through a batch (`activation_batch`). Active pages become inactive in the order in which they became active,
        /// whether or not they were used since.
        OnSecondAccess,
        /// A page becomes active when reclaim scans it. An access takes no lock: it stores to the page's own word, at
        /// most twice between two scans. An active page that was used since the last scan stays active.
        AtScan,
    }

    /// The second access to a page can activate the page. This choice says whether the page then moves to the active
    /// list at once.
    activation_batch: ActivationBatch = OneByOne, drawn 14 {
        /// Yes: the task that accesses the page takes the LRU lock and moves the page.
        OneByOne,
        /// No: the page waits in a batch of the CPU. Until the batch is full, the page stays at its place on the
        /// inactive list.
        Batched,
    }

    /// The interval at which reclaim releases the LRU lock while it puts isolated pages back on their lists.
    putback: Putback = InBatches, drawn 6, unless "lru.policy" in ["multigen"] {
        /// The lock is released after each batch of pages (`lru.batch`), to drop the references that isolation took.
        InBatches,
        /// The lock is released only after all pages are back on their lists.
        AtOnce,
    }

    /// Which pages go on an LRU list after a task has read them from the disk. Pages that are read ahead always go on a
    /// list.
    admission: Admission = Always, drawn 15, unless "lru.policy" in ["multigen"] {
        /// All pages that a task reads go on a list.
        Always,
        /// A page goes on a list if it is used again while it waits for admission, with up to 63 other pages of its
        /// CPU. (With `activation = "on-second-access"` the same CPU must use the page again, and the page becomes
        /// active.) While memory has room, all pages go on lists. Nearly all pages also go on lists while dropped pages
        /// are read again soon more often than pages that reclaim evicts. This last rule is applied separately to pages
        /// that return soon after they left. The frame of a page that goes on no list is reused at once, while the
        /// frame is still in the CPU's caches. The rule is the quick demotion of S3-FIFO, which remembers dropped pages
        /// as ghosts (mechanisms/multigen, 13).
        ByRefault,
    }

    /// Whether a reclaimed page leaves a shadow entry, and which list the page joins if it is read again. This choice
    /// applies only with `admission = "always"`, because `admission = "by-refault"` leaves shadow entries of its own.
    refault: Refault = Ignored, drawn 112, with "lru.admission" in ["always"] {
        /// No shadow entry: a page that is read again counts as new.
        Ignored,
        /// A shadow, which records when the page left. File pages and anonymous pages that go to swap leave a shadow. A
        /// page that comes back joins the active list if its refault distance is at most the size of the workingset:
        /// the active pages of its family (anonymous pages or file pages), and all pages of the other family. Anonymous
        /// pages count only while swap has room.
        ByWorkingset,
    }

    /// The time after which reclaim sees changes of the counters of cgroups. Reclaim uses two kinds of them: the number
    /// of refaulted pages that became active, and the number of pages on each active and inactive list. By them it
    /// decides whether active pages become inactive (`active_scan = "when-low-or-refaulted"`), and whether evicted
    /// pages that come back become active (`refault = "by-workingset"`).
    cgroup_counters: CgroupCounters = AtOnce, drawn 141, unless "lru.policy" in ["multigen"] {
        /// Reclaim sees each change at once.
        AtOnce,
        /// Every two seconds, when the counters of memory cgroups are added up. Between these times reclaim uses the
        /// last sums. A task whose reclaim has found nothing uses the exact number of pages on lists instead, except at
        /// a cgroup's limit.
        EveryTwoSeconds,
    }

    /// Sysctl `swappiness`, 0 to 200: the preference for reclaiming anonymous pages. With values above 100, which exist
    /// since Linux 5.8, anonymous pages are preferred to file pages.
    swappiness: u64 = 60 in 0..=200, drawn 35: [0, 1, 60, 100];

    /// The measure by which scanning is divided between anonymous pages and pages of files.
    family_balance: FamilyBalance = ByRotation, drawn 113 {
        /// The share of recently scanned pages that were found in use, for each of the two kinds.
        ByRotation,
        /// The numbers of recent reads and writes that the eviction of anonymous pages caused, and that the eviction of
        /// file pages caused: refaults of workingset pages, and pages that reclaim wrote. Pages found in use cost
        /// nothing.
        ByIo,
        /// As `by-io`, and each page that was scanned without success counts as 1/32 of a read.
        ByIoAndRotation,
    }

    /// Smallest number of inactive pages of a family (anonymous or file pages). If there are fewer, reclaim deactivates
    /// pages of the family.
    inactive_ratio: InactiveRatio = OfZone, drawn 114, unless "lru.policy" in ["multigen"] {
        /// For file pages, the limit is the number of active file pages. For anonymous pages, the limit is the number
        /// of active anonymous pages divided by isqrt(10 × size of the zones in GiB).
        OfZone,
        /// For each family, the limit is the number of the family's active pages divided by isqrt(10 × size of the
        /// family in GiB), or by 1 if the family is smaller than 1 GiB.
        OfFamily,
    }

    /// The condition under which reclaim scans only anonymous pages because few file pages are left.
    few_files: FewFiles = ScansAnon, drawn 115, with "lru.lists" in ["four"], unless "swap slots" in ["0"] {
        /// File pages and free pages together are no more than the high marks.
        ScansAnon,
        /// File pages and free pages together are no more than the high marks, no active anonymous pages are to become
        /// inactive, and at this priority at least one inactive anonymous page is to be scanned. After a scan that
        /// found nothing, the condition on file pages and free pages is enough.
        ScansInactiveAnon,
    }

    /// Whether a scan of a zone can end early, before it has scanned as many pages of each list as its targets say.
    early_exit: EarlyExit = Never, drawn 37, unless "lru.policy" in ["multigen"] {
        /// A scan never ends early: it reaches all its targets, even if the task needs only one page.
        Never,
        /// The scan ends once enough pages were freed, if the priority is below 12. The remaining lists are not
        /// scanned.
        BelowDefaultPriority,
        /// The scan ends once enough pages were freed. Direct reclaim then stops at once. Kswapd first scans the larger
        /// family (anonymous or file pages) in the same proportion as the smaller family.
        Proportional,
        /// As `proportional`, except that kswapd also stops at once if one of the two families has nothing left to be
        /// scanned.
        ProportionalOfBoth,
    }

    /// The way in which scanning is divided between anonymous and file pages at priority 0. At this priority reclaim
    /// scans whole lists.
    at_priority_zero: AtPriorityZero = Equal, drawn 48, with "lru.lists" in ["four"], unless "swap slots" in ["0"] {
        /// No division: anonymous and file pages are both scanned in full, whatever this costs.
        Equal,
        /// Scanning is divided as at every other priority.
        Fraction,
    }

    /// If enough file pages are inactive, reclaim can scan only file pages. This choice says when it does so.
    file_only: FileOnly = Never, drawn 61, with "lru.lists" in ["four"], unless "swap slots" in ["0"] {
        /// There is no such condition: anonymous and file pages are both scanned, in proportion to the recent success
        /// of scanning each kind.
        Never,
        /// Only file pages are scanned as long as enough file pages are inactive, by the rule of `inactive_ratio`.
        WhileInactiveSuffices,
        /// Only file pages are scanned if no active file pages need to become inactive, and at this priority at least
        /// one inactive file page is to be scanned.
        WhileInactiveIsScanned,
    }

    /// The reaction of reclaim if it is to scan fewer pages of a list than a cluster (32 pages). The number of pages
    /// that it is to scan is the *target*.
    small_targets: SmallTargets = SavedAndOne, drawn 62, unless "lru.policy" in ["multigen"] {
        /// At each scan, the target plus one page is added to a saved sum. The list is scanned when the sum reaches a
        /// cluster. So even a list that is too small for its priority is scanned in the end.
        SavedAndOne,
        /// At each scan, the target is added to a saved sum. The list is scanned when the sum reaches a cluster, so
        /// small lists are scanned seldom.
        Saved,
        /// The list is scanned for as many pages as the small target says.
        AsTheyAre,
    }

    /// The way in which kswapd scans a small list of a zone that counts as hopeless (`reclaim.hopeless`). The scan
    /// target of a list is its length shifted right by the priority. A list is small if its scan target is 0.
    hopeless_scan: HopelessScan = LikeOthers, drawn 63, unless "lru.policy" in ["multigen"] {
        /// Kswapd scans the list as in all other zones.
        LikeOthers,
        /// Kswapd scans a cluster of the list, so that it notices when the zone recovers.
        ACluster,
    }

    /// The way in which the weights of anonymous pages and of file pages (`anon_prio`, `file_prio`) are computed from
    /// `swappiness`.
    family_weights: FamilyWeights = AndOne, drawn 64, with "lru.family_balance" in ["by-rotation"], unless "lru.policy" in ["multigen"] {
        /// The weights are swappiness + 1 and 201 - swappiness: anonymous pages are scanned a little even with
        /// swappiness 0.
        AndOne,
        /// The weights are swappiness and 200 - swappiness.
        AsItIs,
    }

    /// Condition under which active pages are scanned.
    active_scan: ActiveScan = Always, drawn 70, unless "lru.policy" in ["multigen"] {
        /// The active list is always scanned, before the inactive list. The same share of both lists is scanned.
        Always,
        /// Active pages are scanned if few pages of the family (anonymous pages, or file pages) are inactive, by the
        /// rule of `inactive_ratio`.
        WhenInactiveLow,
        /// Active pages are scanned if few pages of the family are inactive (`inactive_ratio`), or if some evicted
        /// pages of the family refaulted and became active since the last reclaim (`refault`). This is checked once a
        /// scan. If a direct reclaim has left active pages alone and freed nothing, it scans again without this check.
        WhenLowOrRefaulted,
    }

    /// The mapped pages of the active list that become inactive.
    mapped_pages: MappedPages = ByDistress, drawn 71, unless "lru.policy" in ["multigen"] {
        /// Mapped pages stay active until reclaim is in distress. From then on, mapped pages that were not used become
        /// inactive. Distress depends on the priority, the mapped share of memory and `swappiness`. Unmapped pages
        /// always become inactive.
        ByDistress,
        /// Mapped pages become inactive like other pages, even if they were used. Only used pages of a program's text
        /// stay active, and, with `activation = "at-scan"`, all used file pages.
        LikeOthers,
    }

    /// The recent use that keeps an inactive page in memory.
    reference_rule: ReferenceRule = AnyUse, drawn 72, unless "lru.policy" in ["multigen"] {
        /// Any use keeps the page, if the page or its file is mapped, or the page is in the swap cache. The page
        /// becomes active.
        AnyUse,
        /// An anonymous page is kept by any use, a file page by its second use.
        ByFamily,
        /// Any page is kept by its second use.
        SecondUse,
    }

    /// The treatment of an inactive file page if two mappings have touched it since the last scan, and its referenced
    /// flag is not set.
    mapped_twice: MappedTwice = Keep, drawn 60, unless "lru.policy" in ["multigen"] {
        /// The page makes another round of the inactive list, as if one mapping had touched it.
        Keep,
        /// The page becomes active.
        Activate,
    }

    /// The list to which reclaim moves an inactive page that it cannot free yet, because the page is under writeback or
    /// because reclaim leaves the write to the flusher.
    unwritten_pages: UnwrittenPages = StayInactive, drawn 116 {
        /// The page goes to the head of the inactive list.
        StayInactive,
        /// The page goes to the active list until its writeback ends, out of the way of scans.
        BecomeActive,
    }

    /// Number of isolated pages of a list above which reclaimers wait.
    isolated_limit: IsolatedLimit = None, drawn 68 {
        /// Reclaimers never wait, however many pages are isolated.
        None,
        /// Reclaimers wait while more pages of a list are isolated than remain on it.
        Whole,
        /// Reclaimers wait while more pages of a list are isolated than an eighth of those that remain on it. A caller
        /// that may not enter the file system waits only while more pages are isolated than remain, because tasks that
        /// wait inside the file system may wait for this caller.
        Eighth,
    }

    /// The unit in which a scan of active and inactive lists counts. A scan takes folios off a list until it has counted
    /// as many units as it wants, 32 at most.
    scan_unit: ScanUnit = Folios, drawn 169, unless "lru.policy" in ["multigen"] {
        /// Folios: a huge page counts once, so a scan may isolate 32 huge pages at once. They count as 32 scanned pages.
        Folios,
        /// Pages: a scan isolates at most one huge page, which counts as 512 scanned pages.
        Pages,
    }

    /// The way in which a reclaimer sleeps if too many pages of a list are isolated.
    isolated_wait: IsolatedWait = CongestionWait, drawn 69 {
        /// The reclaimer sleeps until a congested device queue has room, at most 100 ms.
        CongestionWait,
        /// The reclaimer sleeps until another reclaimer has put pages back, at most 10 ms.
        ForPutback,
        /// The reclaimer sleeps until another reclaimer has put pages back, at most 20 ms.
        ReclaimThrottle,
    }
}

impl ScanUnit {
    /// Returns how much a folio of `pages` pages counts.
    pub(crate) const fn count(self, pages: u64) -> u64 {
        match self {
            Self::Folios => 1,
            Self::Pages => pages,
        }
    }
}

impl Activation {
    /// Returns whether scans, and not accesses, decide which file pages become active.
    pub(crate) const fn is_at_scan(self) -> bool {
        match self {
            Self::AtScan => true,
            Self::OnSecondAccess => false,
        }
    }
}

impl UnwrittenPages {
    /// Returns whether pages that reclaim leaves unwritten go to the active list.
    pub(crate) const fn become_active(self) -> bool {
        match self {
            Self::BecomeActive => true,
            Self::StayInactive => false,
        }
    }
}

impl ReferenceRule {
    /// Returns whether a file page must be used twice to be kept in memory ([`Self::ByFamily`] and
    /// [`Self::SecondUse`]).
    pub(crate) const fn is_by_family(self) -> bool {
        match self {
            Self::ByFamily | Self::SecondUse => true,
            Self::AnyUse => false,
        }
    }
}

impl FamilyBalance {
    /// Returns whether refaults of a family, and pages of the family that reclaim wrote, count as a cost of the family.
    pub(crate) const fn counts_io(self) -> bool {
        match self {
            Self::ByIo | Self::ByIoAndRotation => true,
            Self::ByRotation => false,
        }
    }

    /// Returns whether pages that were scanned without success count as a cost of their family.
    pub(crate) const fn counts_rotation(self) -> bool {
        match self {
            Self::ByIoAndRotation => true,
            Self::ByIo | Self::ByRotation => false,
        }
    }
}

impl AccessedInBatch {
    /// Returns whether a second access makes a page in an add batch active.
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
