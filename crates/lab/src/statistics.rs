//! Medians and their intervals over seeds.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// A median over seeds with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of the 95% bootstrap interval; the median itself when `n` is 1.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How many seeds.
    pub n: usize,
}

/// How often the samples are drawn again. The ends of the interval then stand at ranks 50 and 1950.
const RESAMPLES: usize = 2000;

/// The seed of the bootstrap: the same samples give the same interval, everywhere.
const BOOTSTRAP_SEED: u64 = 0x6877_626f_6f74_7331;

/// The median of `samples` and its interval by the percentile bootstrap; `None` of no samples.
///
/// The generator is xoshiro256++ with a fixed seed, so equal samples give equal intervals.
#[must_use]
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    let n = samples.len();
    let median = median(&mut samples.to_vec())?;
    if n == 1 {
        return Some(Estimate { median, low: median, high: median, n });
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(BOOTSTRAP_SEED);
    let mut draw = || samples[((u128::from(random.next_u64()) * n as u128) >> 64) as usize];
    let mut medians: Vec<f64> =
        (0..RESAMPLES).filter_map(|_| self::median(&mut (0..n).map(|_| draw()).collect::<Vec<_>>())).collect();
    medians.sort_by(f64::total_cmp);
    Some(Estimate { median, low: medians[RESAMPLES / 40], high: medians[RESAMPLES - 1 - RESAMPLES / 40], n })
}

/// The median of `samples`, which are put in order; of an even number the mean of the middle two.
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
    use super::*;

    #[test]
    fn one_sample_is_its_own_interval() {
        assert_eq!(estimate(&[7.0]), Some(Estimate { median: 7.0, low: 7.0, high: 7.0, n: 1 }));
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn the_interval_encloses_the_median_and_is_the_same_every_time() {
        let samples: Vec<f64> = (0..21).map(|i| f64::from(i * i)).collect();
        let found = estimate(&samples).unwrap();
        assert_eq!((found.median, found.n), (100.0, 21));
        assert!(found.low < 100.0 && found.low >= 16.0, "{found:?}");
        assert!(found.high > 100.0 && found.high <= 256.0, "{found:?}");
        assert_eq!(estimate(&samples), Some(found));
    }

    #[test]
    fn an_even_number_has_the_mean_of_the_middle_two() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
