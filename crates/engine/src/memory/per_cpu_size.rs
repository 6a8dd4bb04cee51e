//! The sizes of per-CPU lists: the number of pages that a refill brings, and the number of pages that the lists may
//! hold (mechanisms/reclaim, 7).

use super::choices::PerCpuSize as Rule;

/// Largest number of times that the size of a refill is doubled (`CONFIG_PCP_BATCH_SCALE_MAX`).
const DOUBLINGS_MAX: u32 = 5;

/// The sizes of a zone's per-CPU lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerCpuSize {
    /// Number of pages that a flush of a per-CPU list frees, and that a refill of the list takes unless it is doubled.
    pub batch: u32,
    /// Smallest value of the limit on the number of pages on a CPU's lists. It does not apply while kswapd reclaims
    /// because of an allocation that the zone may serve.
    pub high_min: u32,
    /// Largest limit on the number of pages that a CPU's lists hold. If it is larger than `high_min`, the lists can
    /// grow.
    pub high_max: u32,
}

impl PerCpuSize {
    /// Returns the sizes for a zone with `managed` pages and a low mark of `low` pages. `cpus` is the number of CPUs of
    /// the zone's node, each of which has lists of its own.
    ///
    /// # Panics
    /// Panics if `cpus` is 0.
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

/// Returns the size of a batch, in pages, for a zone with `managed` pages. The size grows with the zone, until the zone
/// has `4 * most` MiB.
fn batch(managed: u64, most: u64) -> u32 {
    let base = ((managed / 1024).min(most) / 4).max(1) as u32;
    ((1 << (base * 3 / 2).ilog2()) - 1).max(1)
}

/// The present limits of one CPU's lists for one zone, which change as pages are taken and freed. The limits are not
/// used if the sizes of the lists are fixed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tuning {
    /// Number of pages that the CPU's lists for the zone may hold. Readers clamp it to the zone's `high_min` and
    /// `high_max`, which may have changed since it was set.
    high: u32,
    /// Number of times that a batch is doubled to get the number of pages of the next refill.
    doublings: u32,
}

impl Tuning {
    /// Returns the number of pages that the CPU's lists for the zone may hold at present: the stored limit, brought
    /// into the bounds in `size`.
    fn high(self, size: PerCpuSize) -> u32 {
        // Not `clamp`, which panics if the smaller bound is not first; this can happen while the sizes are being
        // changed.
        self.high.min(size.high_max).max(size.high_min)
    }

    /// Returns the number of pages to take from the zone for an empty per-CPU list. `count` is the number of pages on
    /// all lists of the CPU and zone together. If the lists can grow, also raises their limit by a batch, unless the
    /// zone is below its high mark (`is_scarce` returns `true`).
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

    /// Records that a page was freed to the lists. Returns the limit: the number of pages at which the lists are
    /// flushed. With [`Rule::SixBatches`] the limit is fixed. With other rules, the limit is at most four batches while
    /// kswapd reclaims because of an allocation that the zone may serve (`kswapd_works`). At other times, the limit of
    /// lists that can grow is `high_min` if the zone is below its high mark (`is_scarce` returns `true`).
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

    /// A CPU's list has been tuned to 5000 pages. Then its zone gets smaller sizes, and the list's limit must follow
    /// them. A task that reads the three sizes while they are being changed may get old and new ones mixed, such as a
    /// `high_min` above `high_max`. The functions must accept such sizes, too.
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
