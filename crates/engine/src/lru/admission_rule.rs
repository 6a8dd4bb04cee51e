//! The constants of the rule that admits pages to LRU lists ([`super::admission`]). The engine has the chosen values;
//! other values can be tried on the model of the rule
//! ([`HighwaterModel`](super::policy::classic::HighwaterModel)), as in docs/studies/admission.md.

use super::batch::BATCH_MAX;

/// The constants of the rule that admits pages to LRU lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionRule {
    /// Divisor of the largest refault distance of a page that counts as missed. If memory holds N pages, the distance
    /// is N divided by this. An unused page would have stayed on an inactive list of half of N pages for about N / 2.
    pub missed_part: u32,
    /// The share of missed pages from which pages of a kind go on LRU lists instead of being dropped: percent of the
    /// share of missed pages among evicted pages. It is more than 100, because dropping a page costs less than evicting
    /// it.
    pub percent_as_often: u32,
    /// Largest number of missed pages of a kind that is too small for a comparison of this kind with evicted pages. The
    /// comparison of classes in mechanisms/multigen, 4, uses 64.
    pub few_missed: u32,
    /// Divisor of the interval at which the counts of missed pages are halved. If memory holds N pages, the counts are
    /// halved each time N divided by this have left memory.
    pub halved_part: u32,
    /// Even while pages of a kind go on LRU lists, one page in this many of the kind is dropped instead, as a probe.
    /// There are two kinds: pages that are read for the first time in a while, and pages that return soon. The probes
    /// of a kind show whether its dropped pages are missed (read again soon).
    pub probe_every: u32,
    /// While pages that return soon are dropped instead of listed, one page in this many is listed nevertheless. So
    /// lists stay in use, and show whether the pages that reclaim takes from them are missed (read again soon).
    pub listed_every: u32,
    /// Largest number of pages that wait on one CPU for their admission, at most [`BATCH_MAX`].
    pub waiting_most: u32,
    /// Divisor that limits the pages that wait for admission. On all CPUs together, at most the number of all pages of
    /// memory, divided by this, wait. Each CPU may have one waiting page in any case.
    pub waiting_part: u32,
    /// Divisor that gives a minimum. A refault distance is compared with the number of file pages on lists, but with no
    /// less than the number of all managed pages divided by this. docs/studies/admission.md says what happens without
    /// the minimum.
    pub least_held_part: u32,
}

impl AdmissionRule {
    /// The values that the engine has. The trials from which they come: docs/studies/admission.md.
    pub const CHOSEN: Self = Self {
        missed_part: 2,
        percent_as_often: 150,
        few_missed: 8,
        halved_part: 4,
        probe_every: 32,
        listed_every: 8,
        waiting_most: BATCH_MAX as u32,
        waiting_part: 64,
        least_held_part: 8,
    };

    /// Panics if a value has no meaning: a divisor or an interval of 0, or more waiting pages than a queue holds.
    pub(super) fn check(&self) {
        let Self {
            missed_part,
            halved_part,
            probe_every,
            listed_every,
            waiting_most,
            waiting_part,
            least_held_part,
            ..
        } = *self;
        let divisors = [missed_part, halved_part, probe_every, listed_every, waiting_part, least_held_part];
        assert!(!divisors.contains(&0), "a divisor or an interval is 0: {self:?}");
        assert!((1..=BATCH_MAX as u32).contains(&waiting_most), "1 to {BATCH_MAX} pages can wait: {self:?}");
    }

    /// Returns the largest number of pages that may wait on each of `cpus` CPUs of a memory of `pages` pages.
    pub(super) fn waiting_max(&self, pages: u64, cpus: u64) -> u64 {
        (pages / (u64::from(self.waiting_part) * cpus)).clamp(1, self.waiting_most.into())
    }
}

impl Default for AdmissionRule {
    fn default() -> Self {
        Self::CHOSEN
    }
}
