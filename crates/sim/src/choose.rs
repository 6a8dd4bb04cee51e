//! Random choice of pages: uniform, or by Zipf's law.

use crate::Rng;
use serde::{Deserialize, Serialize};

/// The rule for how often each page is chosen for an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All pages are chosen equally often. The hit ratio is then the share of pages that are in memory; which pages
    /// these are does not matter.
    #[default]
    Uniform,
    /// The page of rank k, counted from 1, is chosen with a probability proportional to k to the power of minus theta.
    /// The hit ratio then depends on which pages reclaim keeps in memory.
    Zipf,
}

/// Chooses random pages, by a distribution.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// Chooses uniformly among this number of pages.
    Uniform(u64),
    /// Draws a Zipf rank, and chooses the page to which the scatter maps this rank.
    Zipf(Zipf, Scatter),
}

impl Chooser {
    /// Makes a chooser among `pages` pages. `theta` matters only for [`Distribution::Zipf`].
    ///
    /// # Panics
    /// When `pages` is 0.
    #[must_use]
    pub fn new(distribution: Distribution, theta: f64, pages: u64) -> Self {
        assert!(pages > 0, "there is no page to choose");
        match distribution {
            Distribution::Uniform => Self::Uniform(pages),
            Distribution::Zipf => Self::Zipf(Zipf::new(pages, theta, COLUMNS), Scatter::new(pages)),
        }
    }

    /// Makes a chooser that draws Zipf ranks by rejection only, without an alias table. This chooser decides which
    /// pages of files are in a simulated machine's memory before a run, so any change of it changes the figures of
    /// simulated runs.
    ///
    /// # Panics
    /// When `pages` is 0.
    #[must_use]
    pub fn zipf_by_rejection(theta: f64, pages: u64) -> Self {
        assert!(pages > 0, "there is no page to choose");
        Self::Zipf(Zipf::new(pages, theta, 0), Scatter::new(pages))
    }

    /// Returns a random page.
    #[inline]
    pub fn next(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform(pages) => rng.below(*pages),
            Self::Zipf(zipf, scatter) => scatter.page(zipf.rank(rng)),
        }
    }
}

/// Draws Zipf ranks, counted from 0. The probability of rank k is proportional to (k + 1) to the power of minus theta.
///
/// Most draws give one of the first ranks. An alias table gives these ranks, with two look-ups per draw (A. J. Walker:
/// "An efficient method for generating discrete random variables with general distributions", 1977). The table makes a
/// draw cheap, so that it does not cost more than the operation that a workload measures. The table is small, since it
/// lies in the same memory as what the workload measures. Ranks outside the table are drawn by rejection, from the
/// integral of the weights (W. Hörmann, G. Derflinger: "Rejection-inversion to generate variates from monotone discrete
/// distributions", 1996).
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The alias table of the first ranks. A draw from the table picks each column with equal probability.
    columns: Vec<Column>,
    /// Probability that a draw gives a rank outside the alias table.
    others: f64,
    ranks: f64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    accepted_below: f64,
}

/// A column of the alias table. A draw below the threshold `own` gives the column's own rank; any other draw gives the
/// rank `other`.
#[derive(Clone, Copy, Debug)]
struct Column {
    own: f32,
    other: u32,
}

/// Largest number of ranks in the alias table. The full table has 32 KiB, which fits in a processor's second-level
/// cache.
const COLUMNS: u64 = 4096;

impl Zipf {
    /// Makes a sampler that draws from `ranks` ranks. The exponent `theta` must be above 0. At most `columns_max` ranks
    /// are in the alias table.
    #[must_use]
    pub fn new(ranks: u64, theta: f64, columns_max: u64) -> Self {
        let in_table = ranks.min(columns_max);
        let mut zipf = Self {
            columns: Vec::new(),
            others: 0.0,
            ranks: ranks as f64,
            theta,
            integral_first: 0.0,
            integral_last: 0.0,
            accepted_below: 0.0,
        };
        let weights: Vec<f64> = (1..=in_table).map(|rank| zipf.weight(rank as f64)).collect();
        let of_first: f64 = weights.iter().sum();
        zipf.columns = columns(&weights, of_first);
        // The first rank after the table.
        let next = in_table as f64 + 1.0;
        zipf.integral_first = zipf.integral(next + 0.5) - zipf.weight(next);
        zipf.integral_last = zipf.integral(zipf.ranks + 0.5);
        zipf.accepted_below = next + 1.0 - zipf.inverse(zipf.integral(next + 1.5) - zipf.weight(next + 1.0));
        // The sum of the weights outside the table: exact for few ranks, otherwise by the Euler-Maclaurin formula with
        // an error below a millionth.
        let of_others = match ranks - in_table {
            few if few < 100_000 => (0..few).map(|n| zipf.weight(next + n as f64)).sum(),
            _ => {
                let ends = zipf.weight(next) + zipf.weight(zipf.ranks);
                zipf.integral(zipf.ranks) - zipf.integral(next) + ends / 2.0
            }
        };
        zipf.others = of_others / (of_first + of_others);
        zipf
    }

    #[inline]
    fn rank(&self, rng: &mut Rng) -> u64 {
        if self.columns.is_empty() {
            return self.other_rank(rng);
        }
        let unit = unit(rng);
        if unit >= self.others {
            // Numbers from `others` up are uniform, too: scaled to the number of columns, they choose a column.
            let at = (unit - self.others) / (1.0 - self.others) * self.columns.len() as f64;
            let number = (at as usize).min(self.columns.len() - 1);
            let column = self.columns[number];
            return if at - (number as f64) < f64::from(column.own) { number as u64 } else { u64::from(column.other) };
        }
        self.other_rank(rng)
    }

    fn other_rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let drawn = self.integral_last + unit(rng) * (self.integral_first - self.integral_last);
            let x = self.inverse(drawn);
            let rank = libm::floor(x + 0.5).clamp(self.columns.len() as f64 + 1.0, self.ranks);
            if rank - x <= self.accepted_below || drawn >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// Returns the integral from 1 to `x` of `weight`, the function that gives the weight of a rank.
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

/// Returns a uniform random number from 0 (inclusive) to 1 (exclusive).
#[inline]
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns the columns of an alias table for `weights`, whose sum is `sum`. All columns have equal probability.
fn columns(weights: &[f64], sum: f64) -> Vec<Column> {
    // Heights in units of a full column: a full column has the height 1.
    let mut heights: Vec<f64> = weights.iter().map(|weight| weight / sum * weights.len() as f64).collect();
    let mut columns: Vec<Column> = (0..weights.len() as u32).map(|other| Column { own: 1.0, other }).collect();
    let (mut low, mut high): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|rank| heights[*rank] < 1.0);
    while let (Some(&from), Some(to)) = (high.last(), low.pop()) {
        columns[to] = Column { own: heights[to] as f32, other: from as u32 };
        heights[from] -= 1.0 - heights[to];
        if heights[from] < 1.0 {
            high.pop();
            low.push(from);
        }
    }
    columns
}

/// A one-to-one mapping from ranks to pages. Pages with neighbouring ranks, which are chosen about equally often, do
/// not lie next to each other.
#[derive(Clone, Debug)]
pub struct Scatter {
    pages: u64,
    step: u64,
}

impl Scatter {
    fn new(pages: u64) -> Self {
        // A step without a common divisor with the number of pages reaches each page once. A step near the golden
        // section of that number puts successive ranks far apart.
        let start = (pages as f64 * 0.618_033_988_75) as u64;
        let step = (start.max(1)..).find(|step| gcd(*step, pages) == 1).expect("some number has no common divisor");
        Self { pages, step }
    }

    #[inline]
    fn page(&self, rank: u64) -> u64 {
        if let Some(product) = rank.checked_mul(self.step) {
            return product % self.pages;
        }
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
        for (ranks, theta) in
            [(1, 0.9), (10, 0.5), (1000, 0.99), (1000, 1.0), (1000, 1.2), (4097, 0.8), (100_000, 1.2), (300_000, 1.0)]
        {
            let mut rng = Rng::new(1, 0);
            let mut counts = vec![0_u32; ranks as usize];
            // Half of the draws use the table, the other half use rejection alone.
            for columns in [COLUMNS, 0] {
                let zipf = Zipf::new(ranks, theta, columns);
                (0..DRAWS / 2).for_each(|_| counts[zipf.rank(&mut rng) as usize] += 1);
            }
            let weight = |rank: usize| libm::pow((rank + 1) as f64, -theta);
            let total: f64 = (0..ranks as usize).map(weight).sum();
            let all = ranks as usize;
            for part in [0..1, 1..2, 4..5, 9..10, 99..100, 2000..4096, 4096..4097, 4097..8000, 4096..all, all / 2..all]
            {
                if part.end > all || part.is_empty() {
                    continue;
                }
                let found: u32 = counts[part.clone()].iter().sum();
                let expected = f64::from(DRAWS) * part.clone().map(weight).sum::<f64>() / total;
                // The count may be off by six standard deviations.
                let off = (f64::from(found) - expected).abs();
                assert!(off <= 6.0 * expected.sqrt(), "{ranks} by {theta}: {part:?} {found}, expected {expected}");
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
