//! Policies: which page next.
//!
//! *Holds* what a policy and its caller say to each other: [`Demand`], what a scan of a zone is for, and [`Verdict`], what recent
//! use says of a page. *Flow*: reclaim begins a scan with a demand; the policy says how many pages of which pool to look at,
//! and ages what is not to be looked at yet; reclaim decides the fate of each page, for which it asks for a verdict, and returns
//! those that stay. *Called by* `reclaim`. Reclaim knows no list: priorities, writes and waits are its own, lists are the policy's.
//!
//! Next: [`classic`], active and inactive lists.

pub mod classic;

use machine::Order;

/// What one scan of a zone is for, as far as a policy may take it into account.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// How much of each list: `size >> priority`.
    pub priority: u32,
    /// Pages wanted.
    pub to_reclaim_pages: u64,
    /// Is it kswapd's?
    pub is_kswapd: bool,
    /// May anonymous pages go to swap?
    pub may_swap: bool,
    /// May the caller do I/O, and enter the file system?
    pub may_do_all: bool,
    /// Pages are aged with the aligned blocks of this order in which they lie; [`Order::ZERO`] for single pages.
    pub aged_order: Order,
    /// Nothing was found so far: pages are looked at that would be left alone otherwise.
    pub doubts_marks: bool,
}

/// What recent use says of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "page_references")]
pub enum Verdict {
    /// In use: it is kept longer than others.
    Activate,
    /// Used once: one more round.
    Keep,
    /// Not used.
    Reclaim,
    /// Used once through its file: free it if it is clean, leave it to the flusher otherwise.
    ReclaimClean,
}
