//! [`Histogram`]: counts how often each number occurs. Numbers below 1024 are kept exactly, larger ones rounded by at
//! most 0.2 %.

/// A histogram of whole numbers. Numbers below 1024 have a bucket each; above, the range from a power of two to the
/// next is divided into 512 buckets of equal width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

const BITS: u32 = 9;
const PARTS: u64 = 1 << BITS;

/// Returns the index of the bucket in which `value` is counted.
const fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    (shift as u64 * PARTS + (value >> shift)) as usize
}

/// Returns the smallest number that belongs to a bucket, and how many numbers belong to it.
const fn span(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return (bucket, 1);
    }
    let shift = bucket / PARTS - 1;
    ((PARTS + bucket % PARTS) << shift, 1 << shift)
}

impl Histogram {
    /// Counts `times` occurrences of the value `value`.
    #[inline]
    pub fn add(&mut self, value: u64, times: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.total += times;
    }

    /// Returns how many numbers were counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many of the counted numbers are below `end`. If `end` lies within a bucket, the numbers in this
    /// bucket are taken to be spread evenly over it.
    #[must_use]
    pub fn below(&self, end: u64) -> u64 {
        let last = bucket(end);
        let whole: u64 = self.counts.iter().take(last).sum();
        let (first, width) = span(last);
        let part = self
            .counts
            .get(last)
            .map_or(0, |count| (u128::from(*count) * u128::from(end - first) / u128::from(width)) as u64);
        whole + part
    }

    /// Returns a quantile: the smallest counted number such that at least the share `share` (0 to 1) of all counted
    /// numbers are not larger. The result is rounded down to the first number of its bucket. Returns `None` if nothing
    /// was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut sum = 0;
        let bucket = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        bucket.map(|bucket| span(bucket).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        let mut next = 0;
        for number in 0..20_000 {
            let (first, width) = span(number);
            assert_eq!(first, next, "bucket {number}");
            assert_eq!((bucket(first), bucket(first + width - 1)), (number, number));
            next = first + width;
        }
        assert!(bucket(u64::MAX) < 1 << 16);
    }

    #[test]
    fn counts_below_a_bound() {
        let mut histogram = Histogram::default();
        (0..10_000).for_each(|value| histogram.add(value, 2));
        for end in [0, 1, 511, 512, 1000, 4096, 9999] {
            assert_eq!(histogram.below(end), 2 * end, "{end}");
        }
        assert_eq!((histogram.below(1 << 40), histogram.total()), (20_000, 20_000));
        assert_eq!(
            (histogram.quantile(0.0), histogram.quantile(0.05), histogram.quantile(1.0)),
            (Some(0), Some(499), Some(9984))
        );
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
