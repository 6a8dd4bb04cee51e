//! Families of pages and the four lists on which pages are counted, whatever policy orders them.

use crate::memory::Flags;
use crate::stat::Gauge;

/// A family of pages: anonymous pages or file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Pages whose backing store is swap.
    Anon,
    /// Pages of files.
    File,
}

impl Family {
    /// Both families, anonymous pages and file pages. The family `f` is at index `f as usize`.
    pub const ALL: [Self; 2] = [Self::Anon, Self::File];

    /// Returns the family's inactive list.
    #[must_use]
    pub const fn inactive(self) -> ListKind {
        match self {
            Self::Anon => ListKind::InactiveAnon,
            Self::File => ListKind::InactiveFile,
        }
    }

    /// Returns the family's active list.
    #[must_use]
    pub const fn active(self) -> ListKind {
        match self {
            Self::Anon => ListKind::ActiveAnon,
            Self::File => ListKind::ActiveFile,
        }
    }

    /// Returns the gauge that counts the family's isolated pages.
    #[must_use]
    pub const fn isolated(self) -> Gauge {
        match self {
            Self::Anon => Gauge::NrIsolatedAnon,
            Self::File => Gauge::NrIsolatedFile,
        }
    }
}

/// One of the four LRU lists: active or inactive, of anonymous pages or of file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// The inactive list of anonymous pages: pages that are reclaimed next.
    InactiveAnon,
    /// The active list of anonymous pages: pages in use.
    ActiveAnon,
    /// The inactive list of file pages: pages that are reclaimed next.
    InactiveFile,
    /// The active list of file pages: pages in use.
    ActiveFile,
}

impl ListKind {
    /// All lists. Scans visit them in this order, except with `ActiveScan::Always`.
    pub const ALL: [Self; 4] = [Self::InactiveAnon, Self::ActiveAnon, Self::InactiveFile, Self::ActiveFile];

    /// Returns the list to which a page with these flags belongs.
    #[must_use]
    pub const fn of(flags: Flags) -> Self {
        match (flags.has(Flags::SWAPBACKED), flags.has(Flags::ACTIVE)) {
            (true, false) => Self::InactiveAnon,
            (true, true) => Self::ActiveAnon,
            (false, false) => Self::InactiveFile,
            (false, true) => Self::ActiveFile,
        }
    }

    /// Returns the family of the list.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::InactiveAnon | Self::ActiveAnon => Family::Anon,
            Self::InactiveFile | Self::ActiveFile => Family::File,
        }
    }

    /// Returns whether the list is one of the two active lists.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::ActiveAnon | Self::ActiveFile)
    }

    /// Returns the gauge that counts the list's pages.
    #[must_use]
    pub const fn gauge(self) -> Gauge {
        match self {
            Self::InactiveAnon => Gauge::NrInactiveAnon,
            Self::ActiveAnon => Gauge::NrActiveAnon,
            Self::InactiveFile => Gauge::NrInactiveFile,
            Self::ActiveFile => Gauge::NrActiveFile,
        }
    }
}
