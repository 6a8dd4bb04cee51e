//! The sizes of per-CPU lists: pages that a refill brings, and pages that a list may hold (mechanisms/reclaim, 7).

use super::choices::PerCpuSize as Rule;

/// Doublings of a refill at most (`CONFIG_PCP_BATCH_SCALE_MAX`).
const DOUBLINGS_MAX: u32 = 5;

/// The sizes of a zone's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerCpuSize {
    /// Pages of a flush, and of a refill that is not doubled.
    pub batch: u32,
    /// Pages that a list may hold in any case.
    pub high_min: u32,
    /// Pages that a list may hold that has grown.
    pub high_max: u32,
}

impl PerCpuSize {
    /// Returns the sizes of a zone with `managed` pages and a low mark of `low` pages; `cpus` of its node have a list each.
    ///
    /// # Panics
    /// If `cpus` is 0.
    #[must_use]
    pub fn new(rule: Rule, managed: u64, low: u64, cpus: u64) -> Self {
        let by_low_mark = |batch: u32| ((low / cpus) as u32).max(4 * batch);
        match rule {
            Rule::SixBatches => {
                let batch = batch(managed, 128);
                Self { batch, high_min: 6 * batch, high_max: 6 * batch }
            }
            Rule::ByLowMark => {
                let batch = batch(managed, 256);
                Self { batch, high_min: by_low_mark(batch), high_max: by_low_mark(batch) }
            }
            Rule::Tuned => {
                let batch = batch(managed, 256);
                let high_min = by_low_mark(batch);
                Self { batch, high_min, high_max: high_min.max((managed / 8 / cpus) as u32) }
            }
        }
    }

    const fn can_grow(self) -> bool {
        self.high_max > self.high_min
    }
}

/// Returns the batch of a zone; it stops growing at `4 * most` MiB.
fn batch(managed: u64, most: u64) -> u32 {
    let base = ((managed / 1024).min(most) / 4).max(1) as u32;
    ((1 << (base * 3 / 2).ilog2()) - 1).max(1)
}

/// The present limits of a CPU's lists of a zone, which follow their use. Unused where sizes are fixed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tuning {
    /// Pages that they may hold; the sizes of the moment limit it.
    high: u32,
    /// Doublings of the next refill.
    doublings: u32,
}

impl Tuning {
    /// Returns the pages that the lists may hold now.
    fn high(self, size: PerCpuSize) -> u32 {
        // The sizes may just be changing: not `clamp`, which wants the smaller one first.
        self.high.min(size.high_max).max(size.high_min)
    }

    /// Returns the number of pages of a refill of lists with `count` pages. They may hold more afterwards, unless the zone is
    /// below its high mark (`is_scarce`).
    pub(super) fn refill(&mut self, size: PerCpuSize, count: u32, is_scarce: impl FnOnce() -> bool) -> u32 {
        if !size.can_grow() {
            return size.batch;
        }
        self.high = self.high(size);
        if !is_scarce() {
            self.high = (self.high + size.batch).min(size.high_max);
        }
        let most = self.high.saturating_sub(count + size.batch).max(size.batch);
        let doubled = size.batch << self.doublings;
        if doubled <= most && self.doublings < DOUBLINGS_MAX {
            self.doublings += 1;
        }
        doubled.min(most)
    }

    /// Notes that a page was freed to the lists. Returns the number of pages at which they are flushed: fewer while kswapd
    /// works, and where the zone is below its high mark (`is_scarce`) no more than in any case.
    pub(super) fn limit_at_free(
        &mut self,
        rule: Rule,
        size: PerCpuSize,
        kswapd_works: bool,
        is_scarce: impl FnOnce() -> bool,
    ) -> u32 {
        match rule {
            Rule::SixBatches => return size.high_min,
            Rule::ByLowMark | Rule::Tuned => {}
        }
        let high = self.high(size);
        let limit = if kswapd_works {
            high.min(4 * size.batch)
        } else if size.can_grow() && is_scarce() {
            size.high_min
        } else {
            high
        };
        if size.can_grow() {
            self.doublings /= 2;
            if limit < high {
                self.high = high.saturating_sub(size.batch).max(size.high_min);
            }
        }
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_grows_with_the_zone() {
        let sizes = |rule, managed| PerCpuSize::new(rule, managed, 800, 2);
        let size = |batch, high_min, high_max| PerCpuSize { batch, high_min, high_max };
        assert_eq!(sizes(Rule::SixBatches, 1 << 20), size(31, 186, 186));
        assert_eq!(sizes(Rule::SixBatches, 100), size(1, 6, 6));
        assert_eq!(sizes(Rule::ByLowMark, 1 << 20), size(63, 400, 400));
        assert_eq!(sizes(Rule::ByLowMark, 110_306), size(31, 400, 400));
        assert_eq!(sizes(Rule::Tuned, 110_306), size(31, 400, 6894));
        assert_eq!(sizes(Rule::Tuned, 100), size(1, 400, 400), "the low mark is larger than the share");
    }

    #[test]
    fn refills_double_until_pages_are_freed() {
        let size = PerCpuSize::new(Rule::Tuned, 110_306, 800, 1);
        let mut tuning = Tuning::default();
        let refills: Vec<u32> = (0..7).map(|_| tuning.refill(size, 0, || false)).collect();
        assert_eq!(refills, [31, 62, 124, 248, 496, 955, 986], "up to 32 batches, and what the lists may hold");
        assert_eq!(tuning.limit_at_free(Rule::Tuned, size, false, || false), 800 + 7 * 31);
        assert_eq!(tuning.refill(size, 0, || true), 124, "half as many doublings");
        let fixed = PerCpuSize::new(Rule::ByLowMark, 110_306, 800, 1);
        assert_eq!([Tuning::default(), tuning].map(|mut it| it.refill(fixed, 0, || false)), [31; 2]);
    }

    #[test]
    fn lists_hold_less_while_kswapd_works_and_where_memory_is_scarce() {
        let size = PerCpuSize::new(Rule::Tuned, 110_306, 800, 1);
        let mut tuning = Tuning { high: 2000, doublings: 0 };
        assert_eq!(tuning.limit_at_free(Rule::Tuned, size, true, || false), 124);
        assert_eq!(tuning.limit_at_free(Rule::Tuned, size, false, || false), 1969);
        assert_eq!(tuning.limit_at_free(Rule::Tuned, size, false, || true), 800);
        assert_eq!(tuning.limit_at_free(Rule::Tuned, size, false, || false), 1938);
    }

    /// Sizes are three numbers that others may read while they change.
    #[test]
    fn lists_of_a_zone_that_changes_follow_its_sizes() {
        let mut tuning = Tuning { high: 5000, doublings: 0 };
        let smaller = PerCpuSize { batch: 31, high_min: 200, high_max: 1000 };
        assert_eq!(tuning.limit_at_free(Rule::Tuned, smaller, false, || false), 1000);
        let torn = PerCpuSize { batch: 31, high_min: 800, high_max: 200 };
        assert_eq!(tuning.limit_at_free(Rule::Tuned, torn, true, || true), 124);
        assert_eq!(
            (tuning.limit_at_free(Rule::Tuned, torn, false, || true), tuning.refill(torn, 0, || true)),
            (800, 31)
        );
        let fixed = PerCpuSize { batch: 31, high_min: 186, high_max: 186 };
        assert_eq!(tuning.limit_at_free(Rule::SixBatches, fixed, true, || true), 186);
    }
}
