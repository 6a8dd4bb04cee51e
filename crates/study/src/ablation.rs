//! The effect of each difference between two kernels on a figure, applied alone and reverted alone.
//!
//! For kernels A and B and a difference d, *alone* is A with d, and *undone* is B without d. The share of d is the part
//! of the gap between A and B that d closes alone, or opens again when undone. If differences depend on or replace each
//! other, shares do not add up to 1, and the two shares of a difference disagree. With several seeds, two changes for
//! each difference have an interval and a verdict from [`figures::verdict`]: A with d compared with A, and B compared
//! with B without d.

use serde::Serialize;

use catalogue::difference::{Difference, differences};
use catalogue::find;
use figures::figure::Format;
use figures::shift::Shift;
use figures::verdict::{Comparison, Verdict};
use placed::Error;
use report::{Table, TableRow};

/// Two kernels, and the differences between them.
pub struct Ablation {
    /// Names of the kernels of all columns, as on the command line. The first two are the kernels that are compared.
    kernels: Vec<String>,
    switches: Vec<Switch>,
}

/// One of the differences between the two compared kernels, with the indices of the two columns that show its effect.
struct Switch {
    difference: Difference,
    /// Index of the column of the first kernel with only this difference applied.
    alone: usize,
    /// Index of the column that shows the second kernel after this one difference was reverted.
    undone: usize,
}

/// Index of the column of the first kernel.
const FROM: usize = 0;
/// Index of the column of the second kernel.
const TO: usize = 1;

/// Smallest relative difference between a row's values with two kernels that counts as a gap. Only a gap is divided
/// into shares, because shares of a smaller difference would mean nothing. Texts of reports state this number in words.
const GAP_MIN: f64 = 0.01;

/// One row of a report for two kernels, with the effect that each difference between the kernels has on the row's
/// value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowAblation {
    /// Name of the row.
    pub row: String,
    /// Unit of the row.
    pub unit: String,
    /// Format of the row's values.
    #[serde(skip)]
    pub format: Format,
    /// The row's value with the first kernel: the median over the seeds.
    pub from: f64,
    /// The row's value with the second kernel: the median over the seeds.
    pub to: f64,
    /// Smallest and largest value of the row with the first kernel, over the seeds; none if there is only one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_range: Option<Range>,
    /// Smallest and largest value of the row with the second kernel, over the seeds; none if there is only one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_range: Option<Range>,
    /// The change of the row's value from the first kernel to the second, with a verdict; none if there are too few
    /// seeds to judge the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The effect of each difference.
    pub effects: Vec<Effect>,
}

/// The effect of one difference on a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The difference between the two kernels.
    #[serde(flatten)]
    pub difference: Difference,
    /// The row's value, if only this difference is applied to the first kernel.
    pub alone: Option<f64>,
    /// The share of the gap (between the two kernels' values) that this difference closes if it alone is applied to the
    /// first kernel; none if there is no gap ([`RowAblation::has_gap`]).
    pub alone_share: Option<f64>,
    /// The row's value for the second kernel, if only this difference is reverted in it.
    pub undone: Option<f64>,
    /// The share of the gap (between the two kernels' values) that opens again if this difference alone is reverted in
    /// the second kernel; none if there is no gap ([`RowAblation::has_gap`]).
    pub undone_share: Option<f64>,
    /// Smallest and largest value of the row over the seeds with the first kernel and only this difference applied;
    /// none if there is only one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_range: Option<Range>,
    /// Smallest and largest value of the row over the seeds with the second kernel and only this difference reverted;
    /// none if there is only one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_range: Option<Range>,
    /// The change of the row from one column to another: from the first kernel to the first kernel with only this
    /// difference applied; none if there are too few seeds to judge it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_change: Option<Change>,
    /// The change from one column to another: from the second kernel with only this difference reverted, to the
    /// unchanged second kernel. None if there are too few seeds to judge it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_change: Option<Change>,
    /// The reason why runs of the first kernel with only this difference applied failed; none if no run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_failed: Option<String>,
    /// The reason why runs of the second kernel with only this difference reverted failed; none if no run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_failed: Option<String>,
}

/// Smallest and largest value over several seeds.
pub type Range = [f64; 2];

/// Returns the smallest and largest value of a column in a row; none if there is only one seed.
fn range(row: &TableRow, column: usize) -> Option<Range> {
    row.cells[column].value.filter(|value| value.n > 1).map(|value| [value.low, value.high])
}

/// The change of a row's value from one column to another, over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Increase of the row's value; negative for a decrease.
    pub difference: f64,
    /// Lower end of the confidence interval of `difference`.
    pub low: f64,
    /// Upper end of the confidence interval of `difference`.
    pub high: f64,
    /// Probability with which the confidence interval, from `low` to `high`, contains the true value of `difference`.
    pub coverage: f64,
    /// The verdict on the change: whether the columns differ, and which is better.
    pub verdict: Verdict,
}

impl Change {
    /// Returns the change of a row from column `base` to column `column`; none if there are too few seeds to judge it.
    fn of(row: &TableRow, base: usize, column: usize) -> Option<Self> {
        let Comparison { shift, verdict, .. } = row.compared(base, column)?;
        let Shift { value, low, high, coverage } = shift;
        Some(Self { difference: value, low, high, coverage: coverage?, verdict })
    }
}

/// Returns a share in percent, rounded to a whole number; never returns -0.
#[must_use]
pub fn percent(share: f64) -> f64 {
    (100.0 * share).round() + 0.0
}

/// Returns whether the relative difference of two values is large enough to be a gap.
fn is_gap(from: f64, to: f64) -> bool {
    from != to && (to - from).abs() >= GAP_MIN * from.abs().max(to.abs())
}

impl RowAblation {
    /// Returns whether the row's values with the two kernels differ by at least 1 %, so that shares of the gap are
    /// meaningful.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        is_gap(self.from, self.to)
    }

    /// Returns whether one of the differences between the two kernels, whose effect is `effect`, changes this row. If
    /// the effect has verdicts, one of them must say that the values with and without the difference can be told apart.
    /// Without verdicts, the difference must change the value by at least half a percent of the gap between the two
    /// kernels' values, or by 1 % if there is no such gap. With several seeds, the ranges of values with and without
    /// the difference must not overlap, either.
    #[must_use]
    pub fn is_changed_by(&self, effect: &Effect) -> bool {
        let mut known = [effect.alone_change, effect.undone_change].into_iter().flatten().peekable();
        if known.peek().is_some() {
            return known.any(|change| change.verdict.is_told_apart());
        }
        let lies_apart = |own: Option<Range>, base: Option<Range>| {
            own.zip(base).is_none_or(|([low, high], base)| high < base[0] || base[1] < low)
        };
        let is_other = |share: Option<f64>, value: Option<f64>, than: f64| match self.has_gap() {
            true => share.is_some_and(|share| percent(share).abs() >= 0.5),
            false => value.is_some_and(|value| is_gap(than, value)),
        };
        let Effect { alone, alone_share, alone_range, undone, undone_share, undone_range, .. } = effect;
        is_other(*alone_share, *alone, self.from) && lies_apart(*alone_range, self.from_range)
            || is_other(*undone_share, *undone, self.to) && lies_apart(*undone_range, self.to_range)
    }

    /// Returns the row's effects, the largest effect first.
    #[must_use]
    pub fn farthest_first(&self) -> Vec<&Effect> {
        let mut effects: Vec<&Effect> = self.effects.iter().collect();
        let reach = |effect: &Effect| {
            let ways = [effect.alone.map(|alone| alone - self.from), effect.undone.map(|undone| self.to - undone)];
            ways.into_iter().flatten().fold(0.0, |most: f64, way| most.max(way.abs()))
        };
        effects.sort_by(|a, b| reach(b).total_cmp(&reach(a)));
        effects
    }
}

impl Ablation {
    /// Finds the differences between two kernels. Returns the ablation, which lists the kernels to run.
    ///
    /// # Errors
    /// When a kernel is unknown or wrong, or when the kernels do not differ.
    pub fn new(from: &str, to: &str) -> Result<Self, Error> {
        let differences = differences(&find::kernel(from)?, &find::kernel(to)?);
        if differences.is_empty() {
            let message = format!("no value differs between `{from}` and `{to}`: there is nothing to ablate");
            return Err(Error { place: None, message });
        }
        let mut kernels = vec![from.to_owned(), to.to_owned()];
        let mut add = |base: &str, it: &Difference, value: &str| {
            kernels.push(format!("{base}+{}={value}", it.key));
            kernels.len() - 1
        };
        let alone: Vec<usize> = differences.iter().map(|it| add(from, it, &it.to)).collect();
        let switch = |(difference, alone): (Difference, usize)| {
            let undone = add(to, &difference, &difference.from);
            Switch { difference, alone, undone }
        };
        let switches = differences.into_iter().zip(alone).map(switch).collect();
        Ok(Self { kernels, switches })
    }

    /// Returns the names of the kernels to run, as on the command line. The first two are the compared kernels. Then
    /// come, for each difference, the first kernel with only this difference applied; and last, for each difference,
    /// the second kernel with only this difference reverted.
    #[must_use]
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// Returns the results of the ablation for each row of `table`, whose columns are those of [`Ablation::kernels`].
    /// Leaves out rows in which one of the two compared kernels has no value.
    #[must_use]
    pub fn of_table(&self, table: &Table) -> Vec<RowAblation> {
        table.rows.iter().filter_map(|row| self.of_row(table, row)).collect()
    }

    fn of_row(&self, table: &Table, row: &TableRow) -> Option<RowAblation> {
        let (from, to) = (row.median(FROM)?, row.median(TO)?);
        let share = |part: f64| is_gap(from, to).then(|| part / (to - from));
        let effects = self.switches.iter().map(|Switch { difference, alone, undone }| {
            let [alone_failed, undone_failed] = [alone, undone].map(|column| table.columns[*column].failure());
            let (alone_change, undone_change) = (Change::of(row, FROM, *alone), Change::of(row, *undone, TO));
            let (alone_range, undone_range) = (range(row, *alone), range(row, *undone));
            let (alone, undone) = (row.median(*alone), row.median(*undone));
            Effect {
                difference: difference.clone(),
                alone,
                alone_share: alone.and_then(|alone| share(alone - from)),
                undone,
                undone_share: undone.and_then(|undone| share(to - undone)),
                alone_range,
                undone_range,
                alone_change,
                undone_change,
                alone_failed,
                undone_failed,
            }
        });
        let (name, unit, format) = (row.name.clone(), row.unit.clone(), row.format);
        let change = Change::of(row, FROM, TO);
        let (from_range, to_range) = (range(row, FROM), range(row, TO));
        let effects = effects.collect();
        Some(RowAblation { row: name, unit, format, from, to, from_range, to_range, change, effects })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::samples::{head, ops};

    #[test]
    fn shares_are_parts_of_the_way() {
        let ablation = Ablation::new("mm1-mmotm-20130606", "mm1-lessdisrupt-v1").unwrap();
        let kernels = ablation.kernels();
        let count = ablation.switches.len();
        assert_eq!(kernels.len(), 2 + 2 * count);
        assert!(kernels[2].starts_with("mm1-mmotm-20130606+"), "{kernels:?}");
        let ids: Vec<&str> = kernels.iter().map(String::as_str).collect();
        // The values go from 100 to 200: the first difference alone closes the whole gap, and reverting it opens
        // nothing.
        let value = |n: usize| if n == 0 || n > 2 && n < 2 + count { 100.0 } else { 200.0 };
        let runs: Vec<_> = (0..kernels.len()).map(|n| vec![vec![ops("Ops", value(n))]]).collect();
        let table = Table::of_runs(head(&ids, 1), &runs, None);
        let found = &ablation.of_table(&table)[0];
        assert_eq!((found.from, found.to, found.effects[0].alone_share), (100.0, 200.0, Some(1.0)));
        assert!(found.effects.iter().all(|effect| effect.undone_share == Some(0.0)));
        assert!(found.effects[1..].iter().all(|effect| effect.alone_share == Some(0.0)));
    }

    #[test]
    fn of_values_as_good_as_equal_nothing_has_a_share() {
        let ablation = Ablation::new("mm1-mmotm-20130606", "mm1-lessdisrupt-v1").unwrap();
        let ids: Vec<&str> = ablation.kernels().iter().map(String::as_str).collect();
        let found = |to: f64| {
            let runs: Vec<_> =
                (0..ids.len()).map(|n| vec![vec![ops("Ops", if n == 1 { to } else { 100.0 })]]).collect();
            ablation.of_table(&Table::of_runs(head(&ids, 1), &runs, None)).remove(0)
        };
        assert!(!found(100.9).has_gap() && found(100.9).effects.iter().all(|effect| effect.undone_share.is_none()));
        assert!(found(99.0).has_gap() && !found(100.0).has_gap());
        // Without a gap, a difference that changes the row is reported, too: another difference may cancel it.
        let (row, alone) = (found(100.0), Some(150.0));
        let moving = Effect { alone, ..row.effects[0].clone() };
        assert!(row.is_changed_by(&moving) && !row.is_changed_by(&row.effects[0]));
        assert!(found(102.0).has_gap() && found(102.0).effects.iter().all(|effect| effect.undone_share == Some(1.0)));
    }

    #[test]
    fn what_seeds_differ_by_is_no_change() {
        let ablation = Ablation::new("mm1-mmotm-20130606", "mm1-lessdisrupt-v1").unwrap();
        let ids: Vec<&str> = ablation.kernels().iter().map(String::as_str).collect();
        let far = 2 + ablation.switches.len();
        let values = |n: usize| match n {
            FROM => [100.0, 120.0],
            TO => [200.0, 220.0],
            // Alone, this difference stays within the range of the first kernel; undone, it goes beyond the range of
            // the second.
            2 => [105.0, 121.0],
            n if n == far => [150.0, 160.0],
            n if n < far => [100.0, 120.0],
            _ => [200.0, 220.0],
        };
        let runs: Vec<_> = (0..ids.len()).map(|n| values(n).map(|value| vec![ops("Ops", value)]).into()).collect();
        let row = ablation.of_table(&Table::of_runs(head(&ids, 2), &runs, None)).remove(0);
        assert_eq!((row.from_range, row.effects[0].alone_range), (Some([100.0, 120.0]), Some([105.0, 121.0])));
        assert!(row.is_changed_by(&row.effects[0]), "undone it is");
        let alone = Effect { undone_range: Some([150.0, 220.0]), ..row.effects[0].clone() };
        assert!(!row.is_changed_by(&alone) && !row.is_changed_by(&row.effects[1]));
    }

    #[test]
    fn a_kernel_and_itself_are_told_apart_by_nothing() {
        let message = Ablation::new("highwater", "highwater").err().unwrap().to_string();
        assert!(message.contains("nothing to ablate"), "{message}");
    }
}
