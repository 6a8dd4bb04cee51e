//! Histograms: durations of operations, counted in buckets on a logarithmic scale, eight for each factor of ten.

use hdrhistogram::Histogram as Recorded;
use serde::{Deserialize, Serialize};

/// Number of buckets from a duration to ten times this duration.
const PER_DECADE: f64 = 8.0;

/// A histogram: counts of operations by duration. Bucket `n` begins at 10^((first + n) / 8) ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Buckets {
    /// The position of the first bucket: it begins at 10^(first / 8) ns.
    pub first: i32,
    /// Number of operations in each bucket.
    pub counts: Vec<u64>,
}

impl Buckets {
    /// Returns the histogram of recorded durations, ns.
    #[must_use]
    pub fn of(recorded: &Recorded<u64>) -> Self {
        let mut this = Self::default();
        for value in recorded.iter_recorded() {
            this.add(bucket_of(value.value_iterated_to()), value.count_since_last_iteration());
        }
        this
    }

    fn add(&mut self, bucket: i32, count: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            self.counts.splice(0..0, std::iter::repeat_n(0, (self.first - bucket) as usize));
            self.first = bucket;
        }
        let at = (bucket - self.first) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += count;
    }

    /// Adds the counts of another histogram, such as that of another run.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in (other.first..).zip(&other.counts) {
            self.add(bucket, *count);
        }
    }

    /// Returns the points of a step curve: for each bucket, its start in microseconds and its share of the operations
    /// in percent. A final point ends the curve: the end of the last bucket, with that bucket's share.
    #[must_use]
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let all = self.counts.iter().sum::<u64>().max(1) as f64;
        let begin_us = |bucket: i32| libm::pow(10.0, f64::from(bucket) / PER_DECADE) / 1e3;
        let share = |count: &u64| 100.0 * *count as f64 / all;
        let mut points: Vec<(f64, f64)> =
            (self.first..).zip(&self.counts).map(|(bucket, count)| (begin_us(bucket), share(count))).collect();
        if let Some(last) = self.counts.last() {
            points.push((begin_us(self.first + self.counts.len() as i32), share(last)));
        }
        points
    }
}

fn bucket_of(ns: u64) -> i32 {
    libm::floor(PER_DECADE * libm::log10(ns.max(1) as f64)) as i32
}

/// The histogram of one kind of operation in one run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Times {
    /// Name of this kind of operation.
    pub name: String,
    /// Counts of the operations by duration.
    pub buckets: Buckets,
}

impl Times {
    /// Returns the histogram of recorded durations, ns, under `name`; `None` if nothing was recorded.
    #[must_use]
    pub fn of(name: impl Into<String>, recorded: &Recorded<u64>) -> Option<Self> {
        (!recorded.is_empty()).then(|| Self { name: name.into(), buckets: Buckets::of(recorded) })
    }
}

/// The histograms of one kind of operation. A report has a column for each kernel, and each column has one histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Name of the kind of operation, such as `Read`.
    pub name: String,
    /// For each column, its id and one histogram: the durations of these operations in all runs of the column.
    pub columns: Vec<(String, Buckets)>,
}

/// Adds the histograms of a run, `times`, to the histograms of a report, `histograms`. The run belongs to the column
/// `id`.
pub fn gather(histograms: &mut Vec<Histogram>, id: &str, times: Vec<Times>) {
    for Times { name, buckets } in times {
        let at = histograms.iter().position(|it| it.name == name).unwrap_or_else(|| {
            histograms.push(Histogram { name, columns: Vec::new() });
            histograms.len() - 1
        });
        let columns = &mut histograms[at].columns;
        match columns.iter_mut().find(|(known, _)| known == id) {
            Some((_, known)) => known.merge(&buckets),
            None => columns.push((id.to_owned(), buckets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(times: &[u64]) -> Recorded<u64> {
        let mut recorded = Recorded::new(3).unwrap();
        times.iter().for_each(|time| recorded.record(*time).unwrap());
        recorded
    }

    #[test]
    fn every_operation_is_in_the_bucket_of_its_time() {
        let buckets = Buckets::of(&recorded(&[1000, 1100, 10_000, 1]));
        assert_eq!((buckets.first, buckets.counts.len()), (0, 33));
        assert_eq!((buckets.counts[0], buckets.counts[24], buckets.counts[32]), (1, 2, 1));
        let shares = buckets.shares();
        assert_eq!(shares[24], (1.0, 50.0));
        assert!((shares[33].0 - 13.335).abs() < 0.01, "{shares:?}");
        assert_eq!(Times::of("Read", &recorded(&[])), None);
    }

    #[test]
    fn runs_of_a_column_are_added_up() {
        let mut all = Vec::new();
        let times = |times: &[u64]| Times::of("Read", &recorded(times)).into_iter().collect::<Vec<_>>();
        gather(&mut all, "a", times(&[100_000]));
        gather(&mut all, "b", times(&[1]));
        gather(&mut all, "a", times(&[1000, 100_000]));
        assert_eq!(all.len(), 1);
        let (id, buckets) = &all[0].columns[0];
        assert_eq!((id.as_str(), buckets.first, buckets.counts.len()), ("a", 24, 17));
        assert_eq!((buckets.counts[0], buckets.counts[16]), (1, 2));
    }
}
