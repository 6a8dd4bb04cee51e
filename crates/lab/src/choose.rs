//! Which page comes next: each equally likely, or some far more often than others.

use serde::{Deserialize, Serialize};
use sim::Rng;

/// How often each page is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Each as often as any other: the hit ratio is the part of them that memory holds, whatever is kept.
    #[default]
    Uniform,
    /// The page of rank k as often as k to the power of minus theta: what is kept decides the hit ratio.
    Zipf,
}

/// Chooses among pages.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// Among so many, each equally likely.
    Uniform(u64),
    /// By rank; ranks are scattered over the pages.
    Zipf(Zipf, Scatter),
}

impl Chooser {
    /// A chooser among `pages` pages; `theta` counts for zipf alone.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn new(distribution: Distribution, theta: f64, pages: u64) -> Self {
        assert!(pages > 0, "there is no page to choose");
        match distribution {
            Distribution::Uniform => Self::Uniform(pages),
            Distribution::Zipf => Self::Zipf(Zipf::new(pages, theta), Scatter::new(pages)),
        }
    }

    /// The next page.
    #[inline]
    pub fn next(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform(pages) => rng.below(*pages),
            Self::Zipf(zipf, scatter) => scatter.page(zipf.rank(rng)),
        }
    }
}

/// Ranks from 0, the rank k with a chance in proportion to (k + 1) to the power of minus theta.
///
/// By rejection from the integral (W. Hörmann, G. Derflinger: "Rejection-inversion to generate variates from
/// monotone discrete distributions", 1996): no table, for it would lie in the memory that is measured.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    accepted_below: f64,
}

impl Zipf {
    /// `theta` is above 0.
    #[must_use]
    pub fn new(ranks: u64, theta: f64) -> Self {
        let mut zipf =
            Self { ranks: ranks as f64, theta, integral_first: 0.0, integral_last: 0.0, accepted_below: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.ranks + 0.5);
        zipf.accepted_below = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let unit = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let drawn = self.integral_last + unit * (self.integral_first - self.integral_last);
            let x = self.inverse(drawn);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.ranks);
            if rank - x <= self.accepted_below || drawn >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// Integral of the weight from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.theta) * log;
        // (e^t - 1) / t, whose limit at 0 is 1.
        let slope = if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t / 2.0 };
        slope * log
    }

    fn inverse(&self, integral: f64) -> f64 {
        let t = (integral * (1.0 - self.theta)).max(-1.0);
        // ln(1 + t) / t, whose limit at 0 is 1.
        let slope = if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t / 2.0 };
        libm::exp(slope * integral)
    }
}

/// Puts ranks on pages, so that frequent ones do not lie side by side: one page for each rank.
#[derive(Clone, Debug)]
pub struct Scatter {
    pages: u64,
    step: u64,
}

impl Scatter {
    fn new(pages: u64) -> Self {
        // Steps of about the golden section of all pages, with no divisor in common with them, meet each page once.
        let start = (pages as f64 * 0.618_033_988_75) as u64;
        let step = (start.max(1)..).find(|step| gcd(*step, pages) == 1).expect("some number has no common divisor");
        Self { pages, step }
    }

    fn page(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.step) % u128::from(self.pages)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const DRAWS: u32 = 400_000;
        for (ranks, theta) in [(1, 0.9), (10, 0.5), (1000, 0.99), (1000, 1.0), (1000, 1.2)] {
            let zipf = Zipf::new(ranks, theta);
            let mut rng = Rng::new(1, 0);
            let mut counts = vec![0_u32; ranks as usize];
            for _ in 0..DRAWS {
                counts[zipf.rank(&mut rng) as usize] += 1;
            }
            let weight = |rank: usize| libm::pow((rank + 1) as f64, -theta);
            let total: f64 = (0..ranks as usize).map(weight).sum();
            for rank in [0, 1, 4, 9, 99] {
                let Some(found) = counts.get(rank) else { continue };
                let expected = f64::from(DRAWS) * weight(rank) / total;
                // Six deviations of the count.
                let off = (f64::from(*found) - expected).abs();
                assert!(off <= 6.0 * expected.sqrt(), "{ranks} by {theta}: rank {rank} {found}, expected {expected}");
            }
        }
    }

    #[test]
    fn every_page_has_a_rank() {
        for pages in [1, 2, 10, 1000, 4096, 131_071] {
            let scatter = Scatter::new(pages);
            let mut seen = vec![false; pages as usize];
            for rank in 0..pages {
                assert!(!std::mem::replace(&mut seen[scatter.page(rank) as usize], true), "{pages}: rank {rank}");
            }
        }
        let near = Scatter::new(1 << 20);
        assert!(near.page(1).abs_diff(near.page(2)) > 1000, "frequent pages lie side by side");
    }
}
