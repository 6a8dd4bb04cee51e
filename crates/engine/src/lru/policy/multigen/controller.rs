//! The feedback controller: which family (anonymous or file pages) is evicted next, and up to which tier
//! (mechanisms/multigen, 4).
//!
//! The controller compares rates of refaults. A rate is the number of pages that came back, divided by the number of
//! pages that were evicted or protected. The counts of the present oldest generation have the full weight. The counts
//! of earlier oldest generations are averaged: each of them has half the weight of the generation that followed it.

use super::choices::{Choices, RateSmoothing, TypeRule};
use super::generations::Seqs;
use super::uses::TIERS;
use crate::lru::Family;
use machine::atomic::{AtomicU64, Ordering::Relaxed};

/// Number that is added to the divisor of the reference rate (its evicted and protected pages) in a comparison with
/// another refault rate (`RateSmoothing::ByBatch`).
const SMOOTHING_PAGES: u64 = 64;

/// A refault rate: a number of refaulted pages, and the number of evicted or protected pages of which it is a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Number of pages that refaulted: they were read again after they were evicted.
    pub refaulted: u64,
    /// Number of pages that were evicted, or protected from eviction.
    pub total: u64,
}

/// The rule by which two refault rates are compared, to decide whether the pages of a tier or a family may be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Smallest number of refaults that can protect a tier. A tier with fewer refaults may be evicted, whatever its
    /// refault rate.
    pub floor: u64,
    /// The amounts that are added to the counts of one of two compared tiers or types, which is the reference.
    pub smoothing: RateSmoothing,
}

impl Rule {
    /// Returns the rule that a kernel's choices name.
    pub const fn of(choices: &Choices) -> Self {
        Self { floor: choices.refault_floor, smoothing: choices.rate_smoothing }
    }

    /// Returns whether pages with the refault rate `candidate` may be evicted before pages with the refault rate
    /// `reference`. Each argument is a rate and a gain; the rate is divided by the gain before the comparison.
    pub fn is_ok_to_evict(&self, reference: (Rate, u64), candidate: (Rate, u64)) -> bool {
        let ((reference, reference_gain), (candidate, candidate_gain)) = (reference, candidate);
        let (total, refaulted, candidate_total) = match self.smoothing {
            RateSmoothing::None => (reference.total.max(1), reference.refaulted, candidate.total.max(1)),
            RateSmoothing::ByBatch => (reference.total + SMOOTHING_PAGES, reference.refaulted + 1, candidate.total),
        };
        let product = |a: u64, b: u64, gain: u64| u128::from(a) * u128::from(b) * u128::from(gain);
        candidate.refaulted < self.floor
            || product(candidate.refaulted, total, reference_gain)
                <= product(refaulted, candidate_total, candidate_gain)
    }

    /// Returns the highest tier of a family whose pages may be evicted. `tiers` has the refault rates of the family's
    /// tiers, from the first one up. A tier is protected if its rate, divided by `gain`, is above the rate in
    /// `reference`, divided by the gain in `reference`. All tiers above a protected tier are protected, too. The first
    /// tier is never protected.
    pub fn tier_limit(&self, reference: (Rate, u64), tiers: &[Rate], gain: u64) -> usize {
        let goes = |rate: &&Rate| self.is_ok_to_evict(reference, (**rate, gain));
        tiers[1..].iter().take_while(goes).count()
    }
}

/// Counts of one tier of a family (anonymous or file pages).
#[derive(Debug, Default)]
struct Counts {
    /// Number of pages of the oldest generation that were evicted.
    evicted: AtomicU64,
    protected: AtomicU64,
    refaulted: AtomicU64,
    /// Decaying average of the number of evicted and protected pages over earlier generations.
    average_total: AtomicU64,
    average_refaulted: AtomicU64,
}

impl Counts {
    fn total_now(&self) -> u64 {
        self.evicted.load(Relaxed) + self.protected.load(Relaxed)
    }

    fn rate(&self) -> Rate {
        Rate {
            refaulted: self.average_refaulted.load(Relaxed) + self.refaulted.load(Relaxed),
            total: self.average_total.load(Relaxed) + self.total_now(),
        }
    }

    fn fold(&self) {
        let fold = |average: &AtomicU64, now: u64| average.store((average.load(Relaxed) + now) / 2, Relaxed);
        fold(&self.average_total, self.total_now());
        fold(&self.average_refaulted, self.refaulted.load(Relaxed));
        // Pages counted between the fold and the reset are lost; the averages are estimates.
        [&self.evicted, &self.protected, &self.refaulted].into_iter().for_each(|count| count.store(0, Relaxed));
    }
}

/// The family (anonymous or file pages) that is evicted next, and the last of its tiers that may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The family that is evicted next.
    pub family: Family,
    /// The last tier that may be evicted.
    pub tier_limit: usize,
}

/// The counts of one lruvec, by which the family and the tiers to evict are chosen. Counts are changed without the
/// lruvec's lock, except by [`Controller::fold`].
#[derive(Debug, Default)]
pub struct Controller {
    counts: [[Counts; TIERS]; 2],
}

/// An event that the controller counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Pages were evicted.
    Evicted,
    /// Pages were old enough to be evicted, and stayed because of their tier.
    Protected,
    /// Evicted pages came back: they refaulted.
    Refaulted,
}

impl Controller {
    /// Adds `pages` to one count of a family's tier.
    pub fn count(&self, what: Count, family: Family, tier: usize, pages: u64) {
        let counts = &self.counts[family as usize][tier];
        let count = match what {
            Count::Evicted => &counts.evicted,
            Count::Protected => &counts.protected,
            Count::Refaulted => &counts.refaulted,
        };
        count.fetch_add(pages, Relaxed);
    }

    /// Folds the counts of a family's oldest generation into the averages, when that generation ends.
    pub fn fold(&self, family: Family) {
        self.counts[family as usize].iter().for_each(Counts::fold);
    }

    /// Returns the refault rates of a family's tiers.
    pub fn rates(&self, family: Family) -> [Rate; TIERS] {
        [0, 1, 2, 3].map(|tier: usize| self.counts[family as usize][tier].rate())
    }

    /// Returns three counts of pages for a tier of a family (anonymous or file pages), counted since the family's
    /// oldest generation became the oldest: pages that refaulted, pages that were evicted, and pages that were
    /// protected.
    pub fn counted(&self, family: Family, tier: usize) -> [u64; 3] {
        let counts = &self.counts[family as usize][tier];
        [&counts.refaulted, &counts.evicted, &counts.protected].map(|count| count.load(Relaxed))
    }

    /// Returns the decaying averages of a family's tier over earlier generations: how many pages refaulted, and how
    /// many were evicted or protected.
    pub fn averages(&self, family: Family, tier: usize) -> Rate {
        let counts = &self.counts[family as usize][tier];
        Rate { refaulted: counts.average_refaulted.load(Relaxed), total: counts.average_total.load(Relaxed) }
    }

    /// Returns the highest tier whose pages may be evicted, among the tiers of a family. The refault rate of each tier
    /// is compared with that of the family's first tier.
    pub fn tier_limit(&self, choices: &Choices, family: Family) -> usize {
        let rates = self.rates(family);
        let margin = u64::from(choices.tier_margin_percent);
        Rule::of(choices).tier_limit((rates[0], 100), &rates[..choices.tiers as usize], margin)
    }

    /// Returns the family that is evicted next, and the last of its tiers that may be evicted. Called only if
    /// `swappiness` is above 0 and pages of both families may be taken.
    pub fn choose(&self, choices: &Choices, swappiness: u64, seqs: &Seqs) -> Choice {
        let of = |family| Choice { family, tier_limit: self.tier_limit(choices, family) };
        let [anon, file] = seqs.min;
        match choices.type_rule {
            TypeRule::OlderThenTierZero | TypeRule::OlderAnonThenTierZero if anon < file => return of(Family::Anon),
            TypeRule::OlderThenTierZero if file < anon => return of(Family::File),
            TypeRule::OlderThenTierZero
            | TypeRule::OlderAnonThenTierZero
            | TypeRule::AllTiers
            | TypeRule::AllTiersStrictly => {}
        }
        if swappiness <= 1 {
            return of(Family::File);
        }
        if swappiness >= 200 {
            return of(Family::Anon);
        }
        let rule = Rule::of(choices);
        let rates = Family::ALL.map(|family| self.rates(family));
        let gains = [swappiness, 200 - swappiness];
        let is_file = |[anon, file]: [Rate; 2]| rule.is_ok_to_evict((anon, gains[0]), (file, gains[1]));
        let sum = |tiers: &[Rate; TIERS]| {
            tiers
                .iter()
                .fold(Rate::default(), |a, b| Rate { refaulted: a.refaulted + b.refaulted, total: a.total + b.total })
        };
        match choices.type_rule {
            TypeRule::AllTiers | TypeRule::AllTiersStrictly => {
                of(if is_file([sum(&rates[0]), sum(&rates[1])]) { Family::File } else { Family::Anon })
            }
            TypeRule::OlderThenTierZero | TypeRule::OlderAnonThenTierZero => {
                let family = if is_file([rates[0][0], rates[1][0]]) { Family::File } else { Family::Anon };
                let other = 1 - family as usize;
                let tiers = &rates[family as usize][..choices.tiers as usize];
                let tier_limit = rule.tier_limit((rates[other][0], gains[other]), tiers, gains[family as usize]);
                Choice { family, tier_limit }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: Rule = Rule { floor: 32, smoothing: RateSmoothing::None };
    const SMOOTHED: Rule = Rule { floor: 64, smoothing: RateSmoothing::ByBatch };

    fn rate(refaulted: u64, total: u64) -> Rate {
        Rate { refaulted, total }
    }

    #[test]
    fn equal_rates_protect_no_tier() {
        for total in [1_000, 10_000, 1_000_000] {
            let rates = [100, 300, 500, 900].map(|permille: u64| [rate(total * permille / 1000, total); 4]);
            for tiers in rates {
                assert_eq!(V2.tier_limit((tiers[0], 1), &tiers, 2), 3, "{total}");
                assert_eq!(SMOOTHED.tier_limit((tiers[0], 2), &tiers, 3), 3, "{total}");
            }
        }
    }

    #[test]
    fn a_tier_that_comes_back_much_more_often_is_protected_with_those_above_it() {
        let tiers = [rate(100, 10_000), rate(160, 10_000), rate(90, 10_000), rate(90, 10_000)];
        assert_eq!(SMOOTHED.tier_limit((tiers[0], 2), &tiers, 3), 0);
        assert_eq!(V2.tier_limit((tiers[0], 1), &tiers, 2), 3, "twice as often is allowed");
        let tiers = [rate(0, 10_000), rate(10, 10_000), rate(5000, 10_000), rate(0, 0)];
        assert_eq!(V2.tier_limit((tiers[0], 1), &tiers, 2), 1, "ten tell nothing");
    }

    fn choices(type_rule: TypeRule) -> Choices {
        Choices { type_rule, refault_floor: 64, rate_smoothing: RateSmoothing::ByBatch, ..Choices::default() }
    }

    fn controller(anon: Rate, file: Rate) -> Controller {
        let controller = Controller::default();
        for (family, rate) in [(Family::Anon, anon), (Family::File, file)] {
            controller.count(Count::Evicted, family, 0, rate.total);
            controller.count(Count::Refaulted, family, 0, rate.refaulted);
        }
        controller
    }

    #[test]
    fn files_go_while_their_rate_is_below_that_of_anonymous_pages_by_swappiness() {
        let seqs = Seqs { max: 3, min: [0, 0] };
        let goes = |swappiness, anon, file| {
            controller(anon, file).choose(&choices(TypeRule::AllTiers), swappiness, &seqs).family
        };
        // With swappiness 60, the types are balanced when their rates are as 60 to 140.
        assert_eq!(goes(60, rate(6_000, 100_000), rate(13_500, 100_000)), Family::File);
        assert_eq!(goes(60, rate(6_000, 100_000), rate(14_500, 100_000)), Family::Anon);
        assert_eq!(goes(1, rate(0, 100_000), rate(90_000, 100_000)), Family::File);
        assert_eq!(goes(200, rate(90_000, 100_000), rate(0, 100_000)), Family::Anon);
        assert_eq!(goes(60, rate(0, 100_000), rate(63, 100)), Family::File, "63 tell nothing");
    }

    #[test]
    fn the_older_type_goes_first() {
        let controller = controller(rate(90_000, 100_000), rate(100, 100_000));
        let family = |rule, min| controller.choose(&choices(rule), 60, &Seqs { max: 5, min }).family;
        assert_eq!(family(TypeRule::OlderThenTierZero, [2, 3]), Family::Anon);
        assert_eq!(family(TypeRule::OlderThenTierZero, [3, 2]), Family::File);
        assert_eq!(family(TypeRule::OlderThenTierZero, [2, 2]), Family::File);
        assert_eq!(family(TypeRule::OlderAnonThenTierZero, [2, 3]), Family::Anon);
        assert_eq!(family(TypeRule::AllTiers, [2, 3]), Family::File);
    }

    #[test]
    fn what_was_counted_is_folded_once_and_decays() {
        let controller = controller(rate(0, 0), rate(40, 100));
        controller.fold(Family::File);
        assert_eq!((controller.rates(Family::File)[0], controller.counted(Family::File, 0)), (rate(20, 50), [0; 3]));
        controller.fold(Family::File);
        assert_eq!(controller.rates(Family::File)[0], rate(10, 25), "a quarter is left after an idle generation");
    }
}
