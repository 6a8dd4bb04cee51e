//! Classic: an active and an inactive list for anonymous pages, and for pages of files.
//!
//! *Flow*: [`scan_count`] says how many pages of each list a scan looks at; [`scan`] takes clusters of each list in turn, ages
//! active ones itself ([`age`]) and hands inactive ones out by [`Pool`] ([`isolate`]); [`judge`] says what recent use makes of a
//! page. *Locks*: `lru`, for each cluster. *Description*: mechanisms/reclaim, 8, 10 to 12 and 14.4.

pub mod age;
mod alone;
pub mod check;
pub mod isolate;
pub mod judge;
pub mod lruvec;
pub mod scan;
pub mod scan_count;

pub use alone::Classic;
pub use check::ListName;
pub use isolate::{BlockVictims, Recent};
pub use lruvec::{Family, ListKind, Lruvec};
pub use scan::Scan;

/// Pages that are looked at together: those of one inactive list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool(Family);

impl Pool {
    /// The pages of a family that are next to go.
    pub(in crate::lru) const fn of(family: Family) -> Self {
        Self(family)
    }

    /// Its family.
    pub(in crate::lru) const fn family(self) -> Family {
        self.0
    }
}
