//! The state that a policy keeps in the descriptor of each page: two list links, and some flags.

use crate::memory::{Flags, FrameTable, Links};
use machine::FrameNumber;

/// A table of pages: the engine's frame table, or a table for a policy that runs without an engine ([`super::replay`]).
pub trait Pages: Links {
    /// Returns whether all bits of `flag` are set in the page's flags.
    fn is(&self, page: FrameNumber, flag: Flags) -> bool;
    /// Sets the bits of `flag` in the page's flags.
    fn set(&self, page: FrameNumber, flag: Flags);
    /// Clears the bits of `flag` in the page's flags.
    fn clear(&self, page: FrameNumber, flag: Flags);
    /// Clears a bit in the page's flags, and returns whether the bit was set before.
    fn test_clear(&self, page: FrameNumber, flag: Flags) -> bool;
    /// Returns the page's flags.
    fn flags(&self, page: FrameNumber) -> Flags;
    /// Returns the number of pages that one entry of a policy stands for: more than 1 for a huge page.
    fn weight(&self, _: FrameNumber) -> u64 {
        1
    }
}

impl Pages for FrameTable {
    #[inline]
    fn is(&self, page: FrameNumber, flag: Flags) -> bool {
        self[page].is(flag)
    }

    #[inline]
    fn set(&self, page: FrameNumber, flag: Flags) {
        self[page].set(flag);
    }

    #[inline]
    fn clear(&self, page: FrameNumber, flag: Flags) {
        self[page].clear(flag);
    }

    #[inline]
    fn test_clear(&self, page: FrameNumber, flag: Flags) -> bool {
        self[page].test_clear(flag)
    }

    #[inline]
    fn flags(&self, page: FrameNumber) -> Flags {
        self[page].flags()
    }

    #[inline]
    fn weight(&self, page: FrameNumber) -> u64 {
        self.pages(page)
    }
}
