//! Choices of `[lru]`: batches in front of the LRU lock.

use serde::{Deserialize, Serialize};

/// How many lists of pages that can be reclaimed a zone has.
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
    /// After each batch (`lru.batch`) it is let go, so that the references of isolation can be dropped.
    InBatches,
    /// Until all are back.
    #[default]
    AtOnce,
}

/// When is the list of a page decided that waits in an add batch?
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
    /// By the page that fills it, which is then on its list at once.
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
    /// Through a batch of the completing CPU that has no reference of its own: what was freed meanwhile is on no list, or
    /// another's page, and passed over.
    BatchedWithoutReference,
    /// Through a batch of the completing CPU, which refers to the page: nobody can free it before the batch is flushed.
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
    /// When reclaim comes by: an access is a store to the page's own word, at most two of them between two
    /// scans, and takes no lock. An active page that was used since the last scan stays active.
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

/// Before what a CPU applies what waits in its own batches, however few pages they hold. Before scans, unless it is nothing, those
/// are judged that wait for [`Admission`]; before pages of a file are dropped, those of it go on lists in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    /// Scans of reclaim, swap-ins, and whatever unmaps or drops pages (`lru_add_drain`).
    #[default]
    EveryUse,
    /// Scans of reclaim alone.
    Scans,
    /// Nothing: a batch is applied when it is full, and with those of all CPUs.
    Nothing,
}

/// Which pages that a task reads, and that nobody reads ahead, go on a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// All.
    #[default]
    Always,
    /// Those that are used again while they wait with up to 63 others of their CPU (with `activation = "on-second-access"`: by that
    /// CPU, and they are active then), and all, while memory has room. Of those that left memory not long ago, and of the others, all
    /// but a few go on lists while dropped ones of the kind are missed more often than what reclaim takes. What does not go on one is
    /// free again, as warm as it came. Quick demotion with ghosts (S3-FIFO); mechanisms/multigen, 13.
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
    /// Before what all batches of a CPU are flushed.
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
