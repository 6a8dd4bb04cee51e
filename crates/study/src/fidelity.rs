//! The distance of simulated figures from published ones: each level, and each effect of a kernel against the baseline.
//!
//! A *level* is one published figure: the value of a row with a kernel. An *effect* is the change from the baseline's
//! figure to a kernel's, as a share of the baseline's. Rows that are context (`neutral`) or follow from other rows
//! (`derived`) are counted separately. A figure that the simulation lacks counts as missed; no figure is left out.
//!
//! Counts are given for all figures, and for the figures that are not left to chance. `published.toml` alone decides
//! which figures are left to chance ([`LeftToChance`]): it states the number of runs behind each row.

pub mod text;

use serde::Serialize;

use catalogue::experiment::{Published, PublishedRow, Statistic};
use figures::statistics::Estimate;
use report::Table;

/// Largest published figure that is left out when levels (the figures themselves) are compared. A factor between small
/// figures means little.
pub const LEVEL: f64 = 100.0;

/// A level (the figure itself) is met if the simulated figure is at most this many times the published one, and at
/// least the published one divided by this number.
pub const FACTOR: f64 = 2.0;

/// Smallest published effect that summaries of the comparison count. An effect is the change of a figure from the
/// baseline to another kernel, as a share of the baseline's figure.
pub const EFFECT: f64 = 0.05;

/// Largest factor by which a figure counts as changed when sizes of effects are compared. Larger changes count as this
/// factor, also a change from or to zero. Otherwise a posting that states zero pages would differ infinitely from a
/// simulation with three.
const FAR: f64 = 100.0;

/// Number of runs from which on a published spread or extreme counts. With fewer runs, chance decides the figure.
/// Textbooks call samples of at least this size large.
pub const FEW_RUNS: u32 = 30;

/// Smallest published figure from a single run that counts. Whether the simulation meets a smaller figure is left to
/// chance: a Poisson count of this size already varies by a tenth from run to run.
pub const ONE_RUN: f64 = 100.0;

/// The reasons for which chance, and not a mechanism, decides whether a published figure or effect is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftToChance {
    /// The figure is a spread or an extreme of fewer than [`FEW_RUNS`] runs.
    FewRuns,
    /// The figure is from one run and below [`ONE_RUN`]. For an effect, this is so for both the baseline's and the
    /// kernel's figure.
    Small,
    /// The effect is smaller than the row's published spread for the baseline or for the kernel.
    WithinSpread,
}

/// The agreement between the published and the simulated figures of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fidelity {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the machine.
    pub machine: String,
    /// Seeds of the simulated runs. Simulated figures are medians over these seeds.
    pub seeds: Vec<u64>,
    /// Hash over all runs of the comparison, as in the report of `highwater compare`: 16 hexadecimal digits.
    pub fingerprint: Option<String>,
    /// Summary of the rows.
    pub summary: Summary,
    /// Every published row, in the order of the publication.
    pub rows: Vec<Row>,
}

/// One published row, with a cell for each kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the block of rows that contains this row.
    pub group: String,
    /// Name of the row.
    pub name: String,
    /// Unit of the row.
    pub unit: String,
    /// True if the row is counted apart from the plain rows, because it only gives context or follows from other rows.
    pub is_apart: bool,
    /// A cell for each published kernel.
    pub cells: Vec<Cell>,
}

/// One published figure, and the simulated figure for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Name of the kernel.
    pub kernel: String,
    /// The published figure.
    pub published: f64,
    /// The simulated figure: its median over the seeds, with a confidence interval. None if the simulation does not
    /// report this figure.
    pub simulated: Option<Estimate>,
    /// The simulated figure divided by the published one; 1 if both are zero. None if only the published figure is
    /// zero, or if there is no simulated figure.
    pub ratio: Option<f64>,
    /// True if the ratio is within [`FACTOR`], so that the level (the figure itself) is met.
    pub is_met: bool,
    /// True if summaries count the level (the figure itself), because the published figure is above [`LEVEL`].
    pub counts: bool,
    /// The reason why it is mere chance whether the simulated figure meets the published one; none if it is a matter of
    /// the simulated mechanisms.
    pub left_to_chance: Option<LeftToChance>,
    /// The effect of the kernel compared with the baseline; none for the baseline itself, and none if the baseline's
    /// figure is not published.
    pub effect: Option<Effect>,
}

/// The change from the baseline to a kernel, published and simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The published change, divided by the baseline's published figure. Infinite (null in JSON) if the baseline's
    /// figure is 0 and the kernel's is not.
    pub published: f64,
    /// The simulated change as a share of the baseline; none if either figure is missing.
    pub simulated: Option<f64>,
    /// True if summaries count the effect, because the published effect is at least [`EFFECT`].
    pub counts: bool,
    /// True if the simulated change has the sign, and so the direction, of the published change.
    pub has_sign: bool,
    /// True if the simulated change has the sign and the size of the published change. To compare sizes, each change is
    /// expressed as a factor of at most a hundred. The logarithms of these two factors must be within a factor of
    /// [`FACTOR`] of each other.
    pub has_size: bool,
    /// The reason why it is mere chance whether the simulated change meets the published one; none if it is a matter of
    /// the simulated mechanisms.
    pub left_to_chance: Option<LeftToChance>,
}

/// The share of the published figures that the simulation meets, as two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Of the figures that count, the number that the simulation meets.
    pub met: usize,
    /// Number of all figures that count, whether the simulation meets them or not.
    pub of: usize,
}

/// The shares of the effects and levels of some rows that the simulation meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// The share of the effects whose sign (direction) the simulation meets.
    pub signs: Share,
    /// The share of the effects whose sign (direction) and size the simulation meets.
    pub sizes: Share,
    /// The share of the levels (the figures themselves) that the simulation meets within a factor of [`FACTOR`].
    pub levels: Share,
}

/// The summary of an experiment's rows: how many figures are met, and which figure the simulation misses by the largest
/// factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The shares that are met of the main rows: those that do not follow from other rows, and that do more than give
    /// context.
    pub plain: Tally,
    /// The shares that are met of the rows of `plain`, but only of those figures that a mechanism decides rather than
    /// chance.
    pub decidable: Tally,
    /// The shares that are met of the other rows: those that only give context, or that follow from other rows.
    pub apart: Tally,
    /// The published figure that the simulation misses by the largest factor. Only figures above [`LEVEL`] are
    /// considered; none if no figure is above it.
    pub worst: Option<Worst>,
}

/// The published figure that the simulation misses by the largest factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Name of the figure's row.
    pub row: String,
    /// Name of the kernel whose figure this is.
    pub kernel: String,
    /// The figure that the posting states.
    pub published: f64,
    /// The figure that the simulation gives; none if the simulation has no such row.
    pub simulated: Option<f64>,
}

impl Share {
    fn add(&mut self, is_met: bool) {
        self.met += usize::from(is_met);
        self.of += 1;
    }

    /// Returns the sum of two shares: the numbers of met figures are added, and so are the numbers of all figures.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { met: self.met + other.met, of: self.of + other.of }
    }

    /// Returns the share of the published figures that the simulation meets, percent; none if no published figure
    /// counts.
    #[must_use]
    pub fn percent(self) -> Option<f64> {
        (self.of > 0).then(|| 100.0 * self.met as f64 / self.of as f64)
    }
}

impl Tally {
    /// Adds the level and the effect of a cell to the tally. Each is added only if it counts and `is_wanted` returns
    /// `true` for it. The argument of `is_wanted` is the reason why chance decides the level or the effect; `None` if a
    /// mechanism can decide it.
    fn add(&mut self, cell: &Cell, is_wanted: impl Fn(Option<LeftToChance>) -> bool) {
        if cell.counts && is_wanted(cell.left_to_chance) {
            self.levels.add(cell.is_met);
        }
        if let Some(effect) = cell.effect.filter(|effect| effect.counts && is_wanted(effect.left_to_chance)) {
            self.signs.add(effect.has_sign);
            self.sizes.add(effect.has_size);
        }
    }

    /// Returns the sum of two tallies.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            signs: self.signs.and(other.signs),
            sizes: self.sizes.and(other.sizes),
            levels: self.levels.and(other.levels),
        }
    }
}

impl Fidelity {
    /// Returns the comparison of a table at full size with the published figures.
    #[must_use]
    pub fn of(table: &Table, published: &Published) -> Self {
        let rows: Vec<Row> = published.rows.iter().map(|row| Row::of(row, table, published)).collect();
        Self {
            experiment: table.experiment.clone(),
            machine: table.machine.clone(),
            seeds: table.seeds.clone(),
            fingerprint: table.fingerprint.map(|fingerprint| format!("{fingerprint:016x}")),
            summary: Summary::of(&rows),
            rows,
        }
    }
}

impl Row {
    fn of(row: &PublishedRow, table: &Table, published: &Published) -> Self {
        let here = table.rows.iter().find(|here| here.group == row.group && here.name == row.name);
        let simulated = |kernel: &str| {
            let mut cells = table.cells(here?);
            cells.find(|(column, _)| column.comparable && column.kernel == kernel)?.1.value
        };
        let printed = |kernel: &str| Some(published.figure(&row.group, &row.name, kernel)?.value);
        let base = printed(&published.baseline).map(|base| (base, simulated(&published.baseline)));
        let spread = |kernel: &str| Some(published.figure(&row.group, row.spread.as_ref()?, kernel)?.value);
        let cell = |kernel: &String| {
            let (figure, simulated) = (printed(kernel)?, simulated(kernel));
            let base = base.filter(|_| *kernel != published.baseline);
            let mut cell = Cell::of(kernel, figure, simulated, base);
            cell.left_to_chance = left_to_chance(row, figure.abs());
            if let (Some(effect), Some((base, _))) = (&mut cell.effect, base) {
                let spread = spread(kernel).into_iter().chain(spread(&published.baseline)).reduce(f64::max);
                let is_within = spread.is_some_and(|spread| (figure - base).abs() < spread);
                effect.left_to_chance = left_to_chance(row, figure.abs().max(base.abs()))
                    .or(is_within.then_some(LeftToChance::WithinSpread));
            }
            Some(cell)
        };
        Self {
            group: row.group.clone(),
            name: row.name.clone(),
            unit: row.unit.clone(),
            is_apart: row.neutral || row.derived,
            cells: published.columns.iter().filter_map(cell).collect(),
        }
    }
}

impl Cell {
    /// Compares the published figure of a kernel, `figure`, with the simulated one. `base` holds the published and the
    /// simulated figure of the baseline kernel; it is `None` for the baseline itself, and if the posting has no figure
    /// of the baseline.
    fn of(kernel: &str, figure: f64, simulated: Option<Estimate>, base: Option<(f64, Option<Estimate>)>) -> Self {
        let here = simulated.map(|estimate| estimate.median);
        let ratio = here.and_then(|here| ratio(figure, here));
        let effect = base.map(|(base, base_here)| {
            Effect::of((base, figure), base_here.zip(here).map(|(base, here)| (base.median, here)))
        });
        let is_met = ratio.is_some_and(|ratio| (FACTOR.recip()..=FACTOR).contains(&ratio));
        let counts = figure.abs() > LEVEL;
        let kernel = kernel.to_owned();
        Self { kernel, published: figure, simulated, ratio, is_met, counts, left_to_chance: None, effect }
    }

    /// Returns the factor between the simulated and the published figure, at least 1. It is infinite if a figure is
    /// missing, or if only one figure is zero.
    fn factor(&self) -> f64 {
        self.ratio.map_or(f64::INFINITY, |ratio| ratio.max(ratio.recip()))
    }
}

impl Effect {
    /// Compares the published effect of a kernel with the simulated one. Each argument has the figure of the baseline,
    /// then the figure of the kernel; `simulated` is `None` if the simulation has no figures.
    fn of(published: (f64, f64), simulated: Option<(f64, f64)>) -> Self {
        let (printed, here) = (change(published), simulated.map(change));
        let has_sign = here.is_some_and(|here| here != 0.0 && printed != 0.0 && (here < 0.0) == (printed < 0.0));
        let has_size = has_sign
            && simulated.is_some_and(|simulated| {
                let ratio = reach(simulated) / reach(published);
                (FACTOR.recip()..=FACTOR).contains(&ratio)
            });
        let counts = printed.abs() >= EFFECT;
        Self { published: printed, simulated: here, counts, has_sign, has_size, left_to_chance: None }
    }
}

impl Summary {
    fn of(rows: &[Row]) -> Self {
        let mut summary = Self::default();
        let mut worst: Option<(&Row, &Cell)> = None;
        for row in rows {
            for cell in &row.cells {
                if row.is_apart {
                    summary.apart.add(cell, |_| true);
                } else {
                    summary.plain.add(cell, |_| true);
                    summary.decidable.add(cell, |left_to_chance| left_to_chance.is_none());
                }
                let rank = |cell: &Cell| (cell.factor(), cell.published);
                if cell.counts && worst.is_none_or(|(_, worst)| rank(cell) > rank(worst)) {
                    worst = Some((row, cell));
                }
            }
        }
        summary.worst = worst.map(|(row, cell)| Worst {
            row: row.name.clone(),
            kernel: cell.kernel.clone(),
            published: cell.published,
            simulated: cell.simulated.map(|estimate| estimate.median),
        });
        summary
    }
}

/// Returns the reason why chance decides a figure of a row; none if a mechanism can decide it. Does not look at the
/// row's spread, which matters only for effects.
fn left_to_chance(row: &PublishedRow, figure: f64) -> Option<LeftToChance> {
    match row.statistic {
        Statistic::Spread | Statistic::Extreme if row.runs < FEW_RUNS => Some(LeftToChance::FewRuns),
        _ => (row.runs == 1 && figure < ONE_RUN).then_some(LeftToChance::Small),
    }
}

/// Returns the simulated figure `here` divided by the published figure `printed`; 1 for two zeroes, none if only the
/// published figure is zero.
fn ratio(printed: f64, here: f64) -> Option<f64> {
    match (printed == 0.0, here == 0.0) {
        (true, true) => Some(1.0),
        (true, false) => None,
        _ => Some(here / printed),
    }
}

/// Returns the change from a baseline to a figure, as a share of the baseline.
fn change((base, figure): (f64, f64)) -> f64 {
    if base == figure { 0.0 } else { (figure - base) / base.abs() }
}

/// Returns the natural logarithm of the factor from a baseline to a figure. A factor above [`FAR`] counts as [`FAR`],
/// and one below 1 / [`FAR`] counts as 1 / [`FAR`].
fn reach((base, figure): (f64, f64)) -> f64 {
    let log = if base == figure { 0.0 } else { (figure / base).ln() };
    log.clamp(-FAR.ln(), FAR.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::figure::{Better, Format};
    use report::samples::head;

    const PRINTED: &str = r#"
schema = 1
posting = { author = "a", title = "t", date = "2013-06-28" }
title = "t"
columns = ["old", "new"]
baseline = "old"
pct_rule = "none"
rows = [
    { group = "g", name = "scanned", unit = "pages", better = "lower", values = [1000, 500] },
    { group = "g", name = "swapped", unit = "pages", better = "lower", values = [200, 0] },
    { group = "g", name = "absent", unit = "pages", better = "lower", values = [300, 900] },
    { group = "g", name = "small", unit = "s", better = "lower", values = [10, 10.1] },
    { group = "g", name = "context", unit = "pages", better = "lower", neutral = true, values = [nan, 4000] },
]
"#;

    fn fidelity() -> Fidelity {
        let published = Published::parse("published.toml", PRINTED).unwrap();
        let of = |values: &[(&str, f64)]| -> Vec<figures::figure::Row> {
            let row = |(name, value): &(&str, f64)| {
                figures::figure::Row::new("g", *name, "pages", Better::Lower, Format::Decimals(0), *value)
            };
            values.iter().map(row).collect()
        };
        let old = of(&[("scanned", 1900.0), ("swapped", 90.0), ("small", 1.0), ("context", 7.0)]);
        let new = of(&[("scanned", 2100.0), ("swapped", 0.0), ("small", 1.0), ("context", 3000.0)]);
        let runs = [vec![old], vec![new]];
        Fidelity::of(&Table::of_runs(head(&["old", "new"], 1), &runs, Some(&published)), &published)
    }

    #[test]
    fn levels_and_effects_are_counted_with_what_is_missing() {
        let Summary { plain, apart, worst, .. } = fidelity().summary;
        // The sign of `scanned` is wrong; `swapped` falls to zero as published; `absent` is missed; the published
        // effect of `small` does not count.
        assert_eq!(plain.signs, Share { met: 1, of: 3 });
        assert_eq!(plain.sizes, Share { met: 1, of: 3 });
        // `scanned` is 1.9 and 4.2 times the published figure, `swapped` 0.45 times; `absent` is missed twice; `zero`
        // and `small` do not count.
        assert_eq!(plain.levels, Share { met: 1, of: 5 });
        assert_eq!((apart.signs.of, apart.levels), (0, Share { met: 1, of: 1 }));
        let worst = worst.unwrap();
        assert_eq!((worst.row.as_str(), worst.kernel.as_str(), worst.simulated), ("absent", "new", None));
    }

    #[test]
    fn a_rule_of_the_published_data_says_what_chance_decides() {
        let printed = PRINTED.split("rows = [").next().unwrap().to_owned()
            + r#"rows = [
    { group = "g", name = "one run", unit = "pages", better = "lower", values = [99, 100] },
    { group = "g", name = "small", unit = "s", better = "lower", values = [10, 99.9] },
    { group = "g", name = "mean", unit = "s", better = "lower", runs = 12, spread = "stddev", values = [10, 12] },
    { group = "g", name = "stddev", unit = "s", better = "lower", runs = 12, statistic = "spread", values = [1, 3] },
    { group = "g", name = "far", unit = "s", better = "lower", runs = 12, spread = "stddev", values = [10, 13] },
    { group = "g", name = "max", unit = "s", better = "lower", runs = 29, statistic = "extreme", values = [500, 700] },
    { group = "g", name = "of many", unit = "s", better = "lower", runs = 30, statistic = "extreme", values = [5, 7] },
]
"#;
        let published = Published::parse("published.toml", &printed).unwrap();
        let fidelity =
            Fidelity::of(&Table::of_runs(head(&["old", "new"], 1), &[vec![vec![]], vec![vec![]]], None), &published);
        let found = fidelity.rows.iter().map(|row| {
            let [old, new] = &row.cells[..] else { panic!("{row:?}") };
            (row.name.as_str(), old.left_to_chance, new.left_to_chance, new.effect.unwrap().left_to_chance)
        });
        use LeftToChance::{FewRuns, Small, WithinSpread};
        let few = Some(FewRuns);
        let expected = [
            ("one run", Some(Small), None, None),
            ("small", Some(Small), Some(Small), Some(Small)),
            ("mean", None, None, Some(WithinSpread)),
            ("stddev", few, few, few),
            ("far", None, None, None),
            ("max", few, few, few),
            ("of many", None, None, None),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        // A mechanism can decide the effects of `far` and `of many`. The level of 100 does not count, since it is not
        // above [`LEVEL`].
        let Summary { plain, decidable, .. } = fidelity.summary;
        assert_eq!((plain.signs.of, decidable.signs.of), (6, 2));
        assert_eq!((plain.levels.of, decidable.levels.of), (2, 0));
        let wrong = printed.replace("spread = \"stddev\"", "spread = \"deviation\"");
        assert!(Published::parse("p", &wrong).unwrap_err().to_string().contains("no row `deviation` to be its spread"));
    }

    #[test]
    fn a_change_to_nothing_is_as_large_as_a_hundredfold_one() {
        let gone = Effect::of((1000.0, 0.0), Some((500.0, 1.0)));
        assert!(gone.has_sign && gone.has_size && gone.published == -1.0);
        let new = Effect::of((0.0, 5.0), Some((0.0, 1.0)));
        assert!(new.counts && new.has_sign && new.has_size && new.published.is_infinite());
        let weak = Effect::of((1000.0, 100.0), Some((1000.0, 900.0)));
        assert!(weak.has_sign && !weak.has_size);
        assert!(!Effect::of((1.0, 2.0), Some((1.0, 1.0))).has_sign);
    }

    #[test]
    fn what_is_zero_in_both_is_met_and_a_printed_zero_alone_is_not() {
        assert_eq!([ratio(0.0, 0.0), ratio(0.0, 3.0), ratio(4.0, 0.0)], [Some(1.0), None, Some(0.0)]);
    }
}
