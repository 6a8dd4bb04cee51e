//! Medians of a figure over seeds, with confidence intervals.
//!
//! The ends of an interval are two of the values. For `n` independent values, the median of their distribution lies
//! between the `k`th smallest and the `k`th largest value with probability 1 - 2·P(B < k), where B is binomial with `n`
//! trials and probability one half. This holds for any distribution. Two to five values enclose the median in only 50
//! to 94 % of cases, so they are reported as a range. docs/verdicts.md has the details.

use serde::Serialize;

/// Smallest probability with which a confidence interval must contain the true median.
pub const CONFIDENCE: f64 = 0.95;

/// The median of a figure over seeds, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of the confidence interval; the smallest value if there are too few values for an interval.
    pub low: f64,
    /// Upper end of the confidence interval; the largest value if there are too few values for an interval.
    pub high: f64,
    /// Number of seeds.
    pub n: usize,
    /// Probability that the interval contains the true median over all possible seeds. It is at least [`CONFIDENCE`].
    /// `None` if there are too few values for an interval: `low` and `high` are then the smallest and the largest
    /// value.
    pub coverage: Option<f64>,
}

impl Estimate {
    /// Returns the estimate from a single value: the value is the median and both ends of the range.
    #[must_use]
    pub const fn of_one(value: f64) -> Self {
        Self { median: value, low: value, high: value, n: 1, coverage: None }
    }

    /// Returns words that say what `low` and `high` are: `97.9%, n = 10` for a confidence interval, or `range of 3` for
    /// the smallest and the largest of three values.
    #[must_use]
    pub fn ends(&self) -> String {
        ends(self.coverage, self.n)
    }
}

/// Returns a description of the ends `low` and `high` of an estimate from `n` values. It is `97.9%, n = 10` if they are
/// the ends of a confidence interval with this coverage, and `range of 3` if they are the smallest and the largest of
/// values that are too few for such an interval.
#[must_use]
pub fn ends(coverage: Option<f64>, n: usize) -> String {
    match coverage {
        Some(coverage) => format!("{}, n = {n}", percent(coverage)),
        None => format!("range of {n}"),
    }
}

/// Returns a probability as a text in percent, with at most one decimal, rounded down so that it is never overstated.
#[must_use]
pub fn percent(chance: f64) -> String {
    let tenths = (chance * 1000.0 + 1e-6).floor();
    if tenths % 10.0 == 0.0 { format!("{:.0}%", tenths / 10.0) } else { format!("{:.1}%", tenths / 10.0) }
}

/// Returns the median of `samples` with its confidence interval; `None` if there are no samples.
#[must_use]
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    let mut sorted = samples.to_vec();
    let (median, n) = (median(&mut sorted)?, samples.len());
    let (rank, coverage) = median_interval(n).map_or((0, None), |(rank, coverage)| (rank, Some(coverage)));
    Some(Estimate { median, low: sorted[rank], high: sorted[n - 1 - rank], n, coverage })
}

/// Returns the probability with which the confidence interval from `n` values contains the true median; `None` if `n`
/// is too small for an interval.
#[must_use]
pub fn coverage(n: usize) -> Option<f64> {
    Some(median_interval(n)?.1)
}

/// Returns how many of `n` sorted values lie outside the median's confidence interval at each end, and the probability
/// that the interval contains the true median. Returns `None` if even the interval from the smallest to the largest
/// value does not reach [`CONFIDENCE`].
fn median_interval(n: usize) -> Option<(usize, f64)> {
    // `chance` is twice the probability that at most `outside` of the `n` values lie below the median: a sum of
    // binomial coefficients, divided by 2^n. For many values the coefficients would overflow. Therefore coefficient and
    // sum are divided by powers of two on the way; `left` is the exponent by which the sum is still to be divided.
    let (mut coefficient, mut sum, mut left) = (1.0_f64, 1.0_f64, i64::try_from(n).ok()?);
    let mut found = None;
    for outside in 0..n.div_ceil(2) {
        let chance = 2.0 * sum * 2.0_f64.powi(-i32::try_from(left).unwrap_or(i32::MAX));
        if chance > 1.0 - CONFIDENCE {
            break;
        }
        found = Some((outside, 1.0 - chance));
        coefficient *= (n - outside) as f64 / (outside + 1) as f64;
        sum += coefficient;
        if sum > SCALED {
            (coefficient, sum, left) = (coefficient / SCALED, sum / SCALED, left - SCALED_BITS);
        }
    }
    found
}

/// A sum that exceeds 2^`SCALED_BITS` is divided by this power of 2, so that it stays within the range of an `f64`,
/// which ends at 2^1024.
const SCALED_BITS: i64 = 500;
const SCALED: f64 = f64::from_bits((1023 + SCALED_BITS as u64) << 52);

/// Sorts `samples` and returns their median; `None` if there are none. For an even number of samples the median is the
/// mean of the middle two.
#[must_use]
pub fn median(samples: &mut [f64]) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    match (samples.len(), samples.len() / 2) {
        (0, _) => None,
        (n, half) if n % 2 == 1 => Some(samples[half]),
        (_, half) => Some((samples[half - 1] + samples[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{RngCore, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn one_sample_is_all_that_is_known() {
        assert_eq!(estimate(&[7.0]), Some(Estimate::of_one(7.0)));
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn two_to_five_values_have_a_range_and_six_have_an_interval() {
        for n in 2..=5 {
            let samples: Vec<f64> = (1..=n).map(f64::from).collect();
            let found = estimate(&samples).unwrap();
            assert_eq!((found.low, found.high, found.coverage), (1.0, f64::from(n), None));
            assert_eq!(found.ends(), format!("range of {n}"));
        }
        let of = |n: usize| estimate(&(1..=n).map(|it| it as f64).collect::<Vec<_>>()).unwrap();
        // The coverage for six values is 1 - 2/2^6, and for ten values 1 - 2·(1 + 10)/2^10.
        assert_eq!((of(6).low, of(6).high, of(6).coverage), (1.0, 6.0, Some(0.96875)));
        assert_eq!((of(10).low, of(10).high, of(10).ends()), (2.0, 9.0, "97.8%, n = 10".to_owned()));
        assert_eq!((of(15).low, of(15).high, of(15).ends()), (4.0, 12.0, "96.4%, n = 15".to_owned()));
        for n in (6..200).chain([1000, 5000]) {
            let Estimate { low, high, coverage, .. } = of(n);
            assert!(coverage.is_some_and(|it| (0.95..1.0).contains(&it)) && low < high, "{n}: {coverage:?}");
        }
        // For many values the ranks of the ends are those of the normal distribution: n/2 plus and minus 1.96·√n/2.
        assert!((of(5000).low - (2500.0 - 0.98 * 5000_f64.sqrt())).abs() < 2.0, "{:?}", of(5000));
    }

    #[test]
    fn the_interval_holds_the_median_as_often_as_it_says() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        // The distribution is skewed; its median is ln 2.
        let mut draw = || -((random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64).ln();
        for n in [6, 10, 25] {
            let rounds = 4000;
            let mut held = 0;
            for _ in 0..rounds {
                let Estimate { low, high, .. } = estimate(&(0..n).map(|_| draw()).collect::<Vec<_>>()).unwrap();
                held += u32::from((low..=high).contains(&std::f64::consts::LN_2));
            }
            let expected = median_interval(n).unwrap().1;
            let found = f64::from(held) / f64::from(rounds);
            // The tolerance is four standard errors of 4000 rounds.
            assert!((found - expected).abs() < 0.014, "{n}: {found} for {expected}");
        }
    }

    #[test]
    fn an_even_number_has_the_mean_of_the_middle_two() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
