//! Verdicts: whether one column of a report is better than another column, is worse, or cannot be distinguished from
//! it.
//!
//! All verdicts come from [`Comparison::of`]: those shown by colours and stars in tables and pages, in the sentence
//! above a report, by `rank` and by `ablate`. If two columns have six or more seeds in common, the runs with equal
//! seeds are compared in pairs. Columns with fewer common seeds are compared as two independent sets
//! ([`crate::shift`]). docs/verdicts.md gives the reasons, and says how often chance makes equal columns look
//! different.

use serde::Serialize;

use crate::{
    figure::Better,
    shift::{self, Shift},
};

/// The value of one figure in one run, with the run's seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seed of the run.
    pub seed: u64,
    /// Value of the figure in this run.
    pub value: f64,
}

/// The verdict on the difference between a column of a report and its base, the column with which it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The figures of the column are better than those of its base, the column with which it is compared.
    Better,
    /// The figures of the column are worse than those of its base, the column with which it is compared.
    Worse,
    /// The columns differ, but this is neither better nor worse: the figure is background information.
    Other,
    /// The columns cannot be told apart: the confidence interval of the difference contains 0, or there are too few
    /// seeds for an interval.
    NotToldApart,
}

impl Verdict {
    /// Returns the word or words with which reports show the verdict.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Other => "told apart",
            Self::NotToldApart => "not told apart",
        }
    }

    /// Returns whether the verdict says that the columns differ more than by chance.
    #[must_use]
    pub const fn is_told_apart(self) -> bool {
        !matches!(self, Self::NotToldApart)
    }
}

/// The way in which the values of two columns were compared: in pairs or as independent sets, with the number of pairs
/// or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Runs with equal seeds were compared in pairs. The value is the number of pairs.
    Pairs(usize),
    /// The values of all runs were compared as two independent sets. The first number is the size of the base's set,
    /// and the second that of the other column's set.
    Sets(usize, usize),
}

/// Smallest number of seeds of each column with which two columns can be told apart when they are compared as
/// independent sets. With three seeds each, the six values have only 20 possible orders by column. So it is too likely
/// that one column has the three largest values by chance.
pub const SEEDS_MIN: usize = 4;

/// A comparison of a column of a report with its base column, in one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The amount by which the column's values exceed the values of the base column.
    pub shift: Shift,
    /// The way in which the values were compared: in pairs or as sets.
    pub basis: Basis,
    /// The verdict: better, worse, only different, or not told apart.
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares the values that a figure has in one column, `own`, with the values that it has in the column to compare
    /// with, `base`. `better` says whether higher or lower values are better. Returns `None` if a column has no values,
    /// or if a value is NaN.
    #[must_use]
    pub fn of(better: Better, base: &[Sample], own: &[Sample]) -> Option<Self> {
        let other = |sample: &Sample| base.iter().find(|it| it.seed == sample.seed);
        let pairs: Vec<f64> = own.iter().filter_map(|sample| Some(sample.value - other(sample)?.value)).collect();
        let values = |samples: &[Sample]| samples.iter().map(|it| it.value).collect::<Vec<_>>();
        let paired = shift::of_pairs(&pairs).map(|shift| (shift, Basis::Pairs(pairs.len())));
        let (shift, basis) = match paired {
            Some((shift, basis)) if shift.coverage.is_some() || own.len().max(base.len()) == 1 => (shift, basis),
            _ => (shift::of_apart(&values(base), &values(own))?, Basis::Sets(base.len(), own.len())),
        };
        let verdict = match (shift.is_told_apart(), better, shift.value > 0.0) {
            (false, ..) => Verdict::NotToldApart,
            (true, Better::Neutral, _) => Verdict::Other,
            (true, Better::Higher, true) | (true, Better::Lower, false) => Verdict::Better,
            (true, Better::Higher, false) | (true, Better::Lower, true) => Verdict::Worse,
        };
        Some(Self { shift, basis, verdict })
    }

    /// Returns whether there are enough seeds for a verdict.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.shift.coverage.is_some()
    }

    /// Returns words for the number of seeds that were compared, such as `10 paired seeds`. If there are too few for a
    /// verdict, the words say so.
    #[must_use]
    pub fn basis_words(&self) -> String {
        match self.basis {
            Basis::Pairs(1) | Basis::Sets(1, 1) => "one seed: chance is not known".into(),
            Basis::Sets(n, m) if n == m && !self.is_known() => format!("{n} seeds: a verdict needs {SEEDS_MIN}"),
            Basis::Sets(n, m) if !self.is_known() => format!("{n} and {m} seeds: too few for a verdict"),
            Basis::Pairs(n) => format!("{n} paired seeds"),
            Basis::Sets(n, m) if n == m => format!("{n} seeds each"),
            Basis::Sets(n, m) => format!("{n} and {m} seeds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Vec<Sample> {
        (1..).zip(values).map(|(seed, value)| Sample { seed, value: *value }).collect()
    }

    fn compared(base: &[f64], own: &[f64]) -> Comparison {
        Comparison::of(Better::Higher, &samples(base), &samples(own)).unwrap()
    }

    fn verdict(better: Better, base: &[f64], own: &[f64]) -> (Verdict, Basis) {
        let found = Comparison::of(better, &samples(base), &samples(own)).unwrap();
        (found.verdict, found.basis)
    }

    const SIX: [f64; 6] = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];

    #[test]
    fn pairs_show_what_sets_do_not() {
        let more: Vec<f64> = SIX.iter().enumerate().map(|(n, it)| it + 1.0 + n as f64 / 10.0).collect();
        assert_eq!(verdict(Better::Higher, &SIX, &more), (Verdict::Better, Basis::Pairs(6)));
        assert_eq!(verdict(Better::Lower, &SIX, &more), (Verdict::Worse, Basis::Pairs(6)));
        assert_eq!(verdict(Better::Lower, &more, &SIX), (Verdict::Better, Basis::Pairs(6)));
        assert_eq!(verdict(Better::Neutral, &more, &SIX), (Verdict::Other, Basis::Pairs(6)));
        let others: Vec<Sample> = samples(&more).into_iter().map(|it| Sample { seed: it.seed + 6, ..it }).collect();
        let found = Comparison::of(Better::Higher, &samples(&SIX), &others).unwrap();
        assert_eq!((found.verdict, found.basis), (Verdict::NotToldApart, Basis::Sets(6, 6)));
    }

    #[test]
    fn one_seed_to_three_have_no_verdict_and_four_have_one_where_sets_lie_apart() {
        for n in 1..=3 {
            let found = compared(&SIX[..n], &[900.0, 901.0, 902.0][..n]);
            assert_eq!(found.verdict, Verdict::NotToldApart);
            let words = ["one seed: chance is not known", "2 seeds: a verdict needs 4", "3 seeds: a verdict needs 4"];
            assert_eq!(found.basis_words(), words[n - 1]);
        }
        let far = [900.0, 901.0, 902.0, 903.0];
        assert_eq!(verdict(Better::Higher, &SIX[..4], &far), (Verdict::Better, Basis::Sets(4, 4)));
        assert_eq!(verdict(Better::Higher, &SIX[..4], &[900.0, 901.0, 902.0, 35.0]).0, Verdict::NotToldApart);
    }

    #[test]
    fn where_runs_failed_what_is_left_may_be_enough() {
        // All five values of one column are above all three of the other. Only 2 of the 56 possible orders of the eight
        // values are as clear, which is less than 5 %.
        let (left, all) = ([900.0, 901.0, 902.0], &SIX[..5]);
        let found = compared(&left, all);
        assert_eq!((found.verdict, found.basis_words()), (Verdict::Worse, "3 and 5 seeds".into()));
        let found = compared(&left, &all[..4]);
        assert_eq!((found.is_known(), found.basis_words()), (false, "3 and 4 seeds: too few for a verdict".into()));
    }

    #[test]
    fn a_run_that_failed_leaves_its_pair_out() {
        let base: Vec<Sample> = samples(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let own: Vec<Sample> =
            base.iter().filter(|it| it.seed != 3).map(|it| Sample { value: it.value + 2.0, ..*it }).collect();
        let found = Comparison::of(Better::Higher, &base, &own).unwrap();
        assert_eq!((found.basis, found.shift.value, found.verdict), (Basis::Pairs(6), 2.0, Verdict::Better));
        assert_eq!(Comparison::of(Better::Higher, &base, &[]), None);
    }
}
