//! Choices of `[lru]`: batches in front of the LRU lock, and how much of which list is scanned.

use serde::{Deserialize, Serialize};

/// How many evictable lists a zone has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lists {
    /// An active and an inactive one, for anonymous pages and pages of files alike. They are counted as the file lists.
    Two,
    /// An active and an inactive one for each family.
    #[default]
    Four,
}

/// How long the LRU lock is held while pages go back to their lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Putback {
    /// It is released after each batch (`lru.batch`), to drop the references of isolation.
    InBatches,
    /// Until all are back.
    #[default]
    AtOnce,
}

/// When the list of a page in an add batch is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListChoice {
    /// When it is put into the batch: one batch for each list.
    AtAdd,
    /// When the batch is flushed, by the page's state then: a single batch.
    #[default]
    AtFlush,
}

/// What a second access does to a page that still waits in an add batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessedInBatch {
    /// Nothing: the page stays inactive and referenced.
    Ignored,
    /// The page becomes active, if it waits in the batch of the CPU that accesses it; with
    /// `list_choice = "at-add"`, whatever list was chosen for it.
    #[default]
    Obeyed,
}

/// When an add batch is flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddFlush {
    /// By the page that fills it, which is then on its list.
    WhenFilled,
    /// By the page that finds it full, which then waits itself.
    #[default]
    WhenFull,
}

/// How pages go to the tail of the inactive list when their writeback ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// One by one under the LRU lock, in the completion.
    OneByOne,
    /// Through a batch of the completing CPU, without a reference: a frame that was freed meanwhile (on no list, or
    /// with another page) is skipped.
    BatchedWithoutReference,
    /// Through a batch of the completing CPU, with a reference: the page cannot be freed before the batch is flushed.
    #[default]
    Batched,
}

/// When a file page that is used again becomes active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// At its second access: it is moved at once, through a batch, under the LRU lock. Active pages become
    /// inactive in the order in which they became active, used or not.
    #[default]
    OnSecondAccess,
    /// When reclaim scans it: an access is a store to the page's own word, at most two between two scans, and takes
    /// no lock. An active page that was used since the last scan stays active.
    AtScan,
}

/// How a page becomes active at its second access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActivationBatch {
    /// At once, under the LRU lock.
    OneByOne,
    /// Through a batch of the CPU: until it is full, the page is where it was.
    #[default]
    Batched,
}

/// Before which operations a CPU flushes its own batches, however few pages they hold. Unless it is none, pages that
/// wait for [`Admission`] are judged before scans. Before pages of a file are dropped, those that wait go on lists in
/// any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    /// Scans of reclaim, swap-ins, and operations that unmap or drop pages (`lru_add_drain`).
    #[default]
    EveryUse,
    /// Scans of reclaim only.
    Scans,
    /// None: a batch is flushed when it is full, and together with those of all CPUs.
    Nothing,
}

/// Which pages go on a list that a task reads and that were not read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// All.
    #[default]
    Always,
    /// Those that are used again while they wait with up to 63 others of their CPU (with `activation =
    /// "on-second-access"`: by that CPU, and they become active); and all, while memory has room. While dropped pages
    /// are missed more often than reclaimed ones, all but a few go on lists; the same holds for pages that return
    /// soon. The frame of a page that goes on no list is reused at once, still warm. Quick demotion with ghosts
    /// (S3-FIFO); mechanisms/multigen, 13.
    ByRefault,
}

/// When scanning of a zone stops before its targets are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EarlyExit {
    /// Never: all targets are scanned, also by tasks that need one page.
    Never,
    /// Once enough was freed at a priority under 12; the lists left over are not scanned.
    BelowDefaultPriority,
    /// Once enough was freed: direct reclaim at once, kswapd after the larger family was scanned
    /// in the same proportion as the smaller.
    #[default]
    Proportional,
}

/// What the split between anonymous and file pages is at priority 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtPriorityZero {
    /// Both families in full, at any cost.
    #[default]
    Equal,
    /// The same rule as at every other priority.
    Fraction,
}

/// Are anonymous pages scanned while more file pages are inactive than active?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOnly {
    /// Yes, by the recent success of scanning each family.
    Never,
    /// No.
    #[default]
    WhileInactiveSuffices,
}

/// What happens to a list's target that is smaller than a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SmallTargets {
    /// It is saved, plus one page: even a list that is too small for its priority is scanned in the end.
    SavedAndOne,
    /// It is saved until it reaches a cluster: small lists are scanned seldom.
    Saved,
    /// It is scanned as it is.
    #[default]
    AsTheyAre,
}

/// How kswapd scans lists that are small for its priority in a zone that counts as hopeless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopelessScan {
    /// Like all others.
    LikeOthers,
    /// A cluster of each, so that kswapd notices when the zone recovers.
    #[default]
    ACluster,
}

/// What `swappiness` makes of the weights of anonymous and file pages (`anon_prio`, `file_prio`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FamilyWeights {
    /// Swappiness + 1 and 201 - swappiness: anonymous pages are scanned a little even with 0.
    AndOne,
    /// Swappiness and 200 - swappiness.
    #[default]
    AsItIs,
}

/// When active pages are scanned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActiveScan {
    /// Always, the same share of them as of the inactive ones, and before those.
    Always,
    /// When few pages are inactive.
    #[default]
    WhenInactiveLow,
}

/// Which mapped pages of the active list become inactive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappedPages {
    /// None until reclaim is in distress (by its priority, the mapped share of memory and `swappiness`), then
    /// those that were not used. Unmapped pages always do.
    ByDistress,
    /// All, anonymous and file alike.
    #[default]
    LikeOthers,
}

/// Which recent use keeps an inactive page in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceRule {
    /// Any use of a page that is mapped or in the swap cache, of its file's mappings too: it becomes active.
    AnyUse,
    /// Any use of an anonymous page; the second use of a file page.
    #[default]
    ByFamily,
}

/// What happens to an unreferenced file page that two mappings have touched since the last scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappedTwice {
    /// The same as for one mapping: one more round of the inactive list.
    Keep,
    /// It becomes active.
    #[default]
    Activate,
}

/// How many pages of a list may be isolated before the next reclaimer waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolatedLimit {
    /// Any number: nobody waits.
    None,
    /// As many as remain on it.
    Whole,
    /// An eighth of those; for callers that may not enter the file system, as many as remain.
    #[default]
    Eighth,
}

/// How long a reclaimer waits where too many pages of a list are isolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolatedWait {
    /// Until a congested queue has room, at most 100 ms.
    #[default]
    CongestionWait,
    /// Until a reclaimer has put pages back, at most 10 ms.
    ForPutback,
}

/// Which policy orders the pages of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// Linux's active and inactive lists. All other choices of this section are about them.
    #[default]
    Classic,
    /// The page goes that was not used for the longest time. Each use takes the LRU lock.
    Lru,
    /// Pages go in the order in which they came, but for those that were used again meanwhile.
    Clock,
    /// The policy that the program brought (`engine::lru::policy::set_own`).
    Own,
}

/// The section `[lru]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Which policy orders the pages of a zone.
    pub policy: PolicyKind,
    /// How many lists a zone has.
    pub lists: Lists,
    /// Pages of one batch (`PAGEVEC_SIZE`), at least 1.
    pub batch: u32,
    /// When the list of a page in an add batch is decided.
    pub list_choice: ListChoice,
    /// What a second access does to a page in an add batch.
    pub accessed_in_batch: AccessedInBatch,
    /// When an add batch is flushed.
    pub add_flush: AddFlush,
    /// Before which operations all batches of a CPU are flushed.
    pub drain: Drain,
    /// How written pages are rotated.
    pub rotation: Rotation,
    /// When a file page that is used again becomes active.
    pub activation: Activation,
    /// How a page becomes active at its second access.
    pub activation_batch: ActivationBatch,
    /// How long the lock is held while pages go back to their lists.
    pub putback: Putback,
    /// Which pages that were read go on a list.
    pub admission: Admission,
    /// Sysctl `swappiness`, 0 to 100: the preference for reclaiming anonymous pages.
    pub swappiness: u64,
    /// When scanning of a zone stops early.
    pub early_exit: EarlyExit,
    /// The split between anonymous and file pages at priority 0.
    pub at_priority_zero: AtPriorityZero,
    /// Are anonymous pages scanned while inactive file pages suffice?
    pub file_only: FileOnly,
    /// What happens to targets smaller than a cluster.
    pub small_targets: SmallTargets,
    /// How kswapd scans small lists of a hopeless zone.
    pub hopeless_scan: HopelessScan,
    /// How `swappiness` sets the weights of anonymous and file pages.
    pub family_weights: FamilyWeights,
    /// When active pages are scanned.
    pub active_scan: ActiveScan,
    /// Which mapped pages of the active list become inactive.
    pub mapped_pages: MappedPages,
    /// Which recent use keeps an inactive page in memory.
    pub reference_rule: ReferenceRule,
    /// What happens to a file page that two mappings touched.
    pub mapped_twice: MappedTwice,
    /// How many pages of a list may be isolated.
    pub isolated_limit: IsolatedLimit,
    /// How long a reclaimer waits at that limit.
    pub isolated_wait: IsolatedWait,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            policy: PolicyKind::default(),
            lists: Lists::default(),
            batch: 14,
            list_choice: ListChoice::default(),
            accessed_in_batch: AccessedInBatch::default(),
            add_flush: AddFlush::default(),
            drain: Drain::default(),
            rotation: Rotation::default(),
            activation: Activation::default(),
            activation_batch: ActivationBatch::default(),
            putback: Putback::default(),
            admission: Admission::default(),
            swappiness: 60,
            early_exit: EarlyExit::default(),
            at_priority_zero: AtPriorityZero::default(),
            file_only: FileOnly::default(),
            small_targets: SmallTargets::default(),
            hopeless_scan: HopelessScan::default(),
            family_weights: FamilyWeights::default(),
            active_scan: ActiveScan::default(),
            mapped_pages: MappedPages::default(),
            reference_rule: ReferenceRule::default(),
            mapped_twice: MappedTwice::default(),
            isolated_limit: IsolatedLimit::default(),
            isolated_wait: IsolatedWait::default(),
        }
    }
}
