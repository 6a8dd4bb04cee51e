//! Choices of `[lru]`: batches in front of the LRU lock.

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

/// The section `[lru]` of a kernel file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
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
}

impl Default for Choices {
    fn default() -> Self {
        Self {
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
        }
    }
}
