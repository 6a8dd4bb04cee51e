//! Policies: the order in which pages are reclaimed.
//!
//! *Holds* the trait [`Policy`] and the types that a policy and its caller exchange: [`Demand`], the purpose of a scan
//! of an lruvec; [`Insert`], the way in which a page came into memory; [`Seen`] and [`Verdict`], the recent use of a
//! page and the decision that follows from this use. *Flow*: reclaim begins a `Scan` with a demand and asks for one
//! `Batch` after the other. Reclaim decides the fate of each page with the help of a verdict, and puts back the pages
//! that stay. *Called by* `reclaim`, which knows no list: reclaim has the priorities and writes, the policy has the
//! lists.
//!
//! [`classic`] and [`multigen`] are Linux's policies, with batches and the rules of each kernel. They are part of the
//! engine. [`simple`] has other policies, each of a few lines, that implement the trait [`Policy`]. A program can bring
//! its own policy ([`set_own`]). `lru.policy` names the policy in use; only the module `ruling` looks at it. A policy
//! that implements the trait is generic over the table that holds the bits and links of pages ([`Pages`]), so that the
//! same code also runs without an engine ([`replay`]). A model of the classic policy runs there, too
//! ([`classic::ClassicModel`]).
//!
//! Next: [`classic`], active and inactive lists.

pub mod classic;
pub(crate) mod handed;
pub(crate) mod in_engine;
pub mod multigen;
pub mod pages;
pub mod replay;
pub(crate) mod ruling;
pub mod simple;

pub use handed::Blocks;
pub(crate) use handed::{Batch, Entries};
pub use in_engine::{OwnPolicy, set_own};
pub use multigen::command::CommandError;
pub(crate) use multigen::command::Commands;
pub use pages::Pages;
pub use replay::Replay;
pub(crate) use ruling::Scan;

use crate::memory::GroupId;
use crate::page_cache::Shadow;
use arrayvec::ArrayVec;
use machine::{FrameNumber, Order};

/// Largest number of pages for which reclaim asks a policy at once (`SWAP_CLUSTER_MAX`).
pub const CLUSTER: u64 = 32;

/// Pages that a policy has chosen to be evicted, in the order in which they are to be evicted.
pub type Victims = ArrayVec<FrameNumber, { CLUSTER as usize }>;

/// Pages that a scan has taken off a list, and the numbers of scanned and skipped entries.
#[derive(Debug)]
pub struct Taken {
    /// The pages that were taken. A huge page has one entry: its head page.
    pub entries: Victims,
    /// Number of pages that were taken. A huge page counts with all its pages.
    pub pages: u64,
    /// Number of list entries that were scanned, without the skipped ones. A huge page is one entry.
    pub scanned: u64,
    /// Number of list entries that were skipped, because the zone of their pages cannot serve the request.
    pub skipped: u64,
}

/// The way in which a page came into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// A task reads the page, or is about to.
    Read {
        /// The shadow that the page left when it was last evicted ([`Policy::evicted`]); `None` if the page was not in
        /// memory before.
        shadow: Option<Shadow>,
    },
    /// The page was read ahead, and has not been used yet.
    Ahead {
        /// The shadow that the page left when it was last reclaimed, if it was in memory before.
        shadow: Option<Shadow>,
    },
    /// A task writes the page, whose old contents were not read from the device.
    Write,
    /// A page fault made the page, which is anonymous memory.
    Fault,
    /// The page was in memory before, and keeps its marks of use. It was taken off its list to be moved to another
    /// frame, it was split off a huge page, or it is a huge page into which single pages were joined.
    Moved,
    /// The page came back from swap, either wanted by a fault or read ahead.
    SwapIn {
        /// The shadow that the page left in the swap cache when it was reclaimed; `None` if the swap cache holds no
        /// shadow for it.
        shadow: Option<Shadow>,
    },
}

impl Insert {
    /// Returns the shadow that the page left when it was last reclaimed, if it was in memory before.
    #[must_use]
    pub const fn shadow(self) -> Option<Shadow> {
        match self {
            Self::Read { shadow } | Self::Ahead { shadow } | Self::SwapIn { shadow } => shadow,
            Self::Write | Self::Fault | Self::Moved => None,
        }
    }
}

/// The uses of a page since a policy last judged it ([`Policy::judge`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Number of page tables through which the page was accessed since the last verdict, plus one if it was used
    /// through its file. The first use through its file after it came to memory does not count.
    pub touched: u32,
    /// `true` if the page was ever used through its file; `false` if it was read ahead and never used.
    pub is_referenced: bool,
    /// `true` if the page is anonymous memory.
    pub is_anon: bool,
}

/// An order in which pages are reclaimed. One value of the policy orders the pages of one lruvec. All methods except
/// [`Policy::moves_on_use`] are called under the lruvec's lock.
///
/// A page is *listed* from [`Policy::insert`] or [`Policy::put_back`] until [`Policy::victims`] or [`Policy::remove`]
/// takes the page off its list. The links of a listed page belong to the policy; at other times they belong to the
/// caller. `ACTIVE` is the only bit of a page that a policy may change. Uses are noted without the policy, by at most
/// one store, in `REFERENCED` and `USED_AGAIN`. The policy learns of them in [`Seen`].
pub trait Policy<P: Pages + ?Sized>: Send {
    /// Puts a page that came into memory on the policy's lists. `how` states the reason why the page came.
    fn insert(&mut self, pages: &P, page: FrameNumber, how: Insert);

    /// Returns whether the engine calls [`Policy::used`] for each use of a page. Each such call takes the lruvec's
    /// lock.
    fn moves_on_use(&self) -> bool {
        false
    }

    /// Notes the use of a listed page. Called only if [`Policy::moves_on_use`] returns `true`.
    fn used(&mut self, _pages: &P, _page: FrameNumber) {}

    /// Takes up to `want` pages off the lists of the policy, and adds them to `out`, as long as `out` is not full. The
    /// page to evict first comes first.
    fn victims(&mut self, pages: &P, want: u64, out: &mut Victims);

    /// Decides the fate of a page that [`Policy::victims`] has taken off its list. `seen` tells how the page was used.
    fn judge(&mut self, pages: &P, page: FrameNumber, seen: Seen) -> Verdict;

    /// Returns a page to the policy's list, from which [`Policy::victims`] had taken it, because the page stays in
    /// memory. `verdict` is [`Verdict::Activate`] if the page is in use, and another verdict if the page could not
    /// leave.
    fn put_back(&mut self, pages: &P, page: FrameNumber, verdict: Verdict);

    /// Notes that a victim, a page that [`Policy::victims`] has taken off its list, is about to leave memory. Returns
    /// the shadow that stays in its place. If the page is read again, [`Policy::insert`] gets this shadow
    /// ([`Insert::shadow`]). If the page is used at the moment of eviction, it stays in memory, and the engine calls
    /// [`Policy::put_back`].
    fn evicted(&mut self, _pages: &P, _page: FrameNumber) -> Option<Shadow> {
        None
    }

    /// Removes a listed page that leaves memory although the policy did not choose it as a victim. Its file was
    /// truncated, or its owner freed the page.
    fn remove(&mut self, pages: &P, page: FrameNumber);

    /// Visits all listed pages, in any order, for checks.
    fn for_each(&self, pages: &P, visit: &mut dyn FnMut(FrameNumber));
}

/// The purpose of one scan of an lruvec, as far as it matters to a policy.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Priority of the scan. The scan's share of each list is `size >> priority`.
    pub priority: u32,
    /// Number of pages that the reclaim wants to free.
    pub to_reclaim_pages: u64,
    /// `true` if kswapd scans; `false` if another task does.
    pub is_kswapd: bool,
    /// `true` if a memory cgroup at its limit is reclaimed. The amount of free memory then has no effect on the scan.
    pub is_cgroup: bool,
    /// The group whose subtree is reclaimed: the root group, unless a group is at its limit.
    pub group: GroupId,
    /// Number of pages that were freed before this scan by the same reclaim of a group, or by the same walk over the
    /// list of groups; 0 for other reclaims.
    pub freed_before: u64,
    /// `true` if pages within a group's `low` protection may be taken, because nothing else was found.
    pub breaks_low: bool,
    /// `true` if anonymous pages may go to swap.
    pub may_swap: bool,
    /// Value that takes the place of `lru.swappiness`; `None` if `lru.swappiness` applies. The value is 0 to 200, or
    /// 201 for anonymous pages alone.
    pub swappiness: Option<u64>,
    /// `true` if reclaim may do I/O, and may call the file system (`__GFP_IO` and `__GFP_FS`).
    pub may_do_all: bool,
    /// The order of the aligned blocks in which active pages are aged (made inactive); [`Order::ZERO`] if single pages
    /// are aged.
    pub aged_order: Order,
    /// The aligned blocks in which the policy is to take pages off its lists; `None` if single pages are wanted. Not
    /// every policy takes whole blocks.
    pub blocks: Option<Blocks>,
    /// `true` if earlier reclaims of the request freed nothing. The scan then also examines pages that it would
    /// otherwise leave alone.
    pub doubts_marks: bool,
    /// `true` if active pages are aged in any case, because a scan that left them alone found nothing.
    pub forces_aging: bool,
}

impl Demand {
    /// The demand of a task that asks for as many pages as possible, at any cost.
    pub(crate) const ANY: Self = Self {
        priority: 0,
        to_reclaim_pages: u64::MAX,
        is_kswapd: false,
        is_cgroup: false,
        group: GroupId::ROOT,
        freed_before: 0,
        breaks_low: false,
        may_swap: true,
        swappiness: None,
        may_do_all: true,
        aged_order: Order::ZERO,
        blocks: None,
        doubts_marks: false,
        forces_aging: false,
    };

    /// Returns whether the scan may take pages of all groups, because memory as a whole is short. Returns `false` if
    /// the scan takes pages of a group that is at its limit.
    #[inline]
    pub(crate) const fn is_global(&self) -> bool {
        self.group.is_root() && !self.is_cgroup
    }
}

/// The policy's decision on a page that it has taken off its list, made from the page's recent use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "page_references")]
pub enum Verdict {
    /// The page is in use, and is kept longer than pages that are not in use.
    Activate,
    /// The page was used once, and makes one more round of its list.
    Keep,
    /// The page was not used.
    Reclaim,
    /// The page was used once through its file. It is to be freed if it is clean, and left to the flusher otherwise.
    ReclaimClean,
}
