//! [`Popularity`]: the distribution of accesses over objects, compared with Zipf's law.

/// The distribution of accesses over objects, by rank. The most accessed object has rank 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Popularity {
    /// Number of objects that were counted. If only a sample was counted, the trace has more.
    pub objects: u64,
    /// Number of accesses to the objects that were counted.
    pub accesses: u64,
    /// Number of objects that were accessed only once.
    pub once: u64,
    /// The exponent theta under which the counted accesses are most likely, if they follow Zipf's law: the object of
    /// rank r then has a share of accesses proportional to r^-theta. `None` if fewer than two objects were counted.
    pub theta: Option<f64>,
    /// Largest difference, at any rank looked at, between the share of accesses that objects up to this rank have and
    /// the share that they have by Zipf's law.
    pub difference: f64,
    /// Points of the curve of popularity, at chosen ranks.
    pub points: Vec<Point>,
    /// Pairs of a rank and the number of accesses of the object with this rank. The ranks are evenly spaced on a
    /// logarithmic scale.
    pub counts: Vec<(u64, u64)>,
}

/// A point of the curve of popularity: the share of all accesses that the most accessed objects have together, from
/// rank 1 to some rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Rank up to which objects are counted: the point stands for this many objects, those with the most accesses.
    pub objects: u64,
    /// Share of all accesses that the objects up to this rank have.
    pub share: f64,
    /// Share of all accesses that the objects up to this rank would have by Zipf's law with the fitted exponent.
    pub by_law: f64,
}

impl Popularity {
    /// Computes the popularity of objects. `counts` has the number of accesses of each object, in any order.
    #[must_use]
    pub fn of(mut counts: Vec<u64>) -> Self {
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let objects = counts.len() as u64;
        let accesses: u64 = counts.iter().sum();
        let theta = theta(&counts);
        let law = Law::new(theta.unwrap_or(0.0), objects);
        let mut points = Vec::new();
        let (mut sum, mut difference) = (0, 0.0_f64);
        let (wanted, ranks) = (wanted(objects), spread(objects));
        let mut shown = Vec::new();
        let mut by_law = law.shares();
        for (rank, count) in (1..=objects).zip(&counts) {
            sum += count;
            let is_shown = wanted.binary_search(&rank).is_ok();
            let is_spread = ranks.binary_search(&rank).is_ok();
            if is_shown || is_spread {
                let (share, by_law) = (sum as f64 / accesses as f64, by_law(rank));
                difference = difference.max((share - by_law).abs());
                if is_shown {
                    points.push(Point { objects: rank, share, by_law });
                }
                if is_spread {
                    shown.push((rank, *count));
                }
            }
        }
        let once = counts.iter().rev().take_while(|count| **count == 1).count() as u64;
        Self { objects, accesses, once, theta, difference, points, counts: shown }
    }
}

/// Returns the ranks up to which the share of accesses is shown: powers of ten, and fractions of all `objects` objects,
/// such as a half and a hundredth.
fn wanted(objects: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10)).take_while(|power| *power < objects);
    let parts = [100, 20, 10, 5, 2].into_iter().map(|part| objects / part).filter(|ranks| *ranks > 0);
    let mut wanted: Vec<u64> = powers.chain(parts).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// Returns a few hundred ranks from 1 to at most `objects`, spread about evenly on a logarithmic scale.
fn spread(objects: u64) -> Vec<u64> {
    let next = |rank: &u64| Some((rank + rank / 32).max(rank + 1));
    std::iter::successors(Some(1), next).take_while(|rank| *rank <= objects).collect()
}

/// Returns the exponent of Zipf's law with which `counts`, the largest first, are most likely; `None` for fewer than
/// two counts. With this exponent, the law's mean of the logarithm of the rank equals the mean over the counted
/// accesses. The exponent is found by bisection: the law's mean falls when the exponent grows.
fn theta(counts: &[u64]) -> Option<f64> {
    const MOST: f64 = 10.0;
    if counts.len() < 2 {
        return None;
    }
    let accesses: u64 = counts.iter().sum();
    let logs: f64 = counts.iter().enumerate().map(|(n, count)| *count as f64 * libm::log((n + 1) as f64)).sum();
    let mean = logs / accesses as f64;
    let (mut low, mut high) = (0.0, MOST);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if Law::new(middle, counts.len() as u64).mean_log() > mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(f64::midpoint(low, high))
}

/// Zipf's law for a number of objects. To save time, ranks are put into groups: low ranks have groups of their own, and
/// each later group has ranks that differ by less than 1 %. Each rank of a group counts with the weight of the group's
/// middle rank. So shares are still exact to six digits.
struct Law {
    /// For each group of ranks: its last rank, the weight of all its ranks together, and the logarithm of its middle
    /// rank.
    groups: Vec<(u64, f64, f64)>,
    sum: f64,
}

impl Law {
    fn new(theta: f64, objects: u64) -> Self {
        let mut groups = Vec::new();
        let (mut first, mut sum) = (1, 0.0);
        while first <= objects {
            let last = (first + first / 128).min(objects);
            let log = libm::log(f64::midpoint(first as f64, last as f64));
            let weight = libm::exp(-theta * log) * (last - first + 1) as f64;
            groups.push((last, weight, log));
            sum += weight;
            first = last + 1;
        }
        Self { groups, sum }
    }

    fn mean_log(&self) -> f64 {
        self.groups.iter().map(|(_, weight, log)| weight * log).sum::<f64>() / self.sum
    }

    /// Returns a function of a rank: the share of accesses (0 to 1) that, by Zipf's law, go to the objects up to this
    /// rank. Ranks must not fall from one call to the next.
    fn shares(&self) -> impl FnMut(u64) -> f64 {
        let (mut n, mut before, mut first) = (0, 0.0, 1);
        move |ranks| {
            while let Some((last, weight, _)) = self.groups.get(n) {
                if *last > ranks {
                    let part = (ranks + 1).saturating_sub(first) as f64 / (last + 1 - first) as f64;
                    return (before + weight * part) / self.sum;
                }
                before += weight;
                first = last + 1;
                n += 1;
            }
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Rng;
    use sim::choose::{Chooser, Distribution};

    #[test]
    fn the_exponent_of_a_drawn_law_is_found() {
        for theta in [0.6, 0.9, 1.0, 1.3] {
            let chooser = Chooser::new(Distribution::Zipf, theta, 2000);
            let mut rng = Rng::new(7, 0);
            let mut counts = vec![0_u64; 2000];
            (0..400_000).for_each(|_| counts[chooser.next(&mut rng) as usize] += 1);
            counts.retain(|count| *count > 0);
            let found = Popularity::of(counts);
            assert!((found.theta.unwrap() - theta).abs() < 0.03, "{theta}: {:?}", found.theta);
            assert!(found.difference < 0.01, "{theta}: {}", found.difference);
            let first = found.points[0];
            assert!((first.share - first.by_law).abs() < 0.01);
        }
    }

    #[test]
    fn shares_by_the_law_are_exact() {
        let mut shares = Vec::new();
        let law = Law::new(0.8, 100_000);
        let mut of = law.shares();
        for ranks in [1, 2, 10, 1000, 5003, 100_000] {
            shares.push((ranks, of(ranks)));
        }
        let sum = |ranks: u64| (1..=ranks).map(|rank| libm::pow(rank as f64, -0.8)).sum::<f64>();
        for (ranks, share) in shares {
            assert!((share - sum(ranks) / sum(100_000)).abs() < 1e-5, "{ranks}: {share}");
        }
    }

    #[test]
    fn few_objects() {
        assert_eq!(Popularity::of(vec![]).theta, None);
        assert_eq!(Popularity::of(vec![5]).theta, None);
        let even = Popularity::of(vec![3; 1000]);
        assert!(even.theta.unwrap() < 1e-3 && even.difference < 1e-3 && even.once == 0);
        assert_eq!(Popularity::of(vec![1, 1, 9]).once, 2);
        assert!(Popularity::of(vec![1_000_000, 1]).theta.unwrap() > 9.0);
    }
}
