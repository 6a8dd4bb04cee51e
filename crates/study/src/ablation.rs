//! The effect of each difference between two kernels on a figure: applied alone, and reverted alone.
//!
//! With kernels A and B and a difference d: *alone* is A with d, *undone* is B without it. The share of d is how much of
//! the gap between A and B it closes alone, or opens again when it is undone. Where differences need or replace each
//! other, shares do not add up to 1, and the two shares of a difference disagree. Over several seeds each change has an interval and a
//! verdict, as [`figures::verdict`] has it: A with d beside A, and B beside B without d.

use serde::Serialize;

use catalogue::difference::{Difference, differences};
use catalogue::library;
use figures::figure::Format;
use figures::shift::Shift;
use figures::verdict::{Comparison, Verdict};
use placed::Error;
use report::{Table, TableRow};

/// Two kernels and what separates them.
pub struct Ablation {
    /// As the command line names them; each is a column. The first two are those that are compared.
    kernels: Vec<String>,
    switches: Vec<Switch>,
}

/// A difference, and the columns that show what it does.
struct Switch {
    difference: Difference,
    /// The first kernel with it alone.
    alone: usize,
    /// The second without it.
    undone: usize,
}

/// The columns of the kernels that are compared.
const FROM: usize = 0;
const TO: usize = 1;

/// Two values that differ by a smaller part of the larger are one: there is no gap of which anything could be a share. Reports say
/// so in words.
const GAP_MIN: f64 = 0.01;

/// The findings of an ablation in one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowAblation {
    /// The row.
    pub row: String,
    /// Its unit.
    pub unit: String,
    /// How its values are printed.
    #[serde(skip)]
    pub format: Format,
    /// Its value with the first kernel: the median over the seeds.
    pub from: f64,
    /// With the second.
    pub to: f64,
    /// The least and the most of the first kernel's seeds; none of one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_range: Option<Range>,
    /// The least and the most of the second kernel's seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_range: Option<Range>,
    /// The second beside the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// One for each difference.
    pub effects: Vec<Effect>,
}

/// The effect of one difference on a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The difference.
    #[serde(flatten)]
    pub difference: Difference,
    /// The first kernel with this difference alone.
    pub alone: Option<f64>,
    /// How much of the way that goes; none where there is no way, as [`RowAblation::has_gap`] says.
    pub alone_share: Option<f64>,
    /// The second kernel without this difference.
    pub undone: Option<f64>,
    /// How much of the way is lost by that.
    pub undone_share: Option<f64>,
    /// The least and the most of the seeds with this difference alone; none of one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_range: Option<Range>,
    /// The least and the most of the seeds without this difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_range: Option<Range>,
    /// The first kernel with this difference beside the first without it; none of too few seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_change: Option<Change>,
    /// The second kernel with this difference beside the second without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_change: Option<Change>,
    /// The reason for which runs with this difference alone failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_failed: Option<String>,
    /// The reason for which runs without it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_failed: Option<String>,
}

/// The least and the most of several seeds.
pub type Range = [f64; 2];

/// The range of a column; none of one seed.
fn range(row: &TableRow, column: usize) -> Option<Range> {
    row.cells[column].value.filter(|value| value.n > 1).map(|value| [value.low, value.high])
}

/// The effect of a difference, over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// By how much the row is more.
    pub difference: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The chance that the interval holds it.
    pub coverage: f64,
    /// Its verdict.
    pub verdict: Verdict,
}

impl Change {
    /// A column of a row beside another; none where too few seeds ran.
    fn of(row: &TableRow, base: usize, column: usize) -> Option<Self> {
        let Comparison { shift, verdict, .. } = row.compared(base, column)?;
        let Shift { value, low, high, coverage } = shift;
        Some(Self { difference: value, low, high, coverage: coverage?, verdict })
    }
}

/// A share in whole percent; nothing has no sign.
#[must_use]
pub fn percent(share: f64) -> f64 {
    (100.0 * share).round() + 0.0
}

/// Do two values differ enough to ask why?
fn is_gap(from: f64, to: f64) -> bool {
    from != to && (to - from).abs() >= GAP_MIN * from.abs().max(to.abs())
}

impl RowAblation {
    /// Do the two kernels differ by so much that shares of it mean something: by a hundredth and more?
    #[must_use]
    pub fn has_gap(&self) -> bool {
        is_gap(self.from, self.to)
    }

    /// Returns whether a difference changes the row. Where verdicts are known, one of them says so. Else it does by half a percent of the
    /// gap, or, where there is none, by a hundredth of the value, and by more than seeds differ where there are several.
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

    /// Its effects, those that go farthest first.
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
    /// Finds what separates two kernels.
    ///
    /// # Errors
    /// When one of them is unknown or wrong, or nothing separates them.
    pub fn new(from: &str, to: &str) -> Result<Self, Error> {
        let differences = differences(&library::kernel(from)?, &library::kernel(to)?);
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

    /// The kernels to run, as the command line names them: both, the first with each difference, the second without.
    #[must_use]
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// Returns the findings in a table of [`Ablation::kernels`], row by row; rows that one of the two kernels lacks are left out.
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
        // From 100 to 200: the first difference alone goes all the way, and undone loses nothing.
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
        // Two that cancel each other are told, too.
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
            // Alone it is as far from the first as that is from itself; undone it is farther from the second.
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
