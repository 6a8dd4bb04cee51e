//! Summarises a table of figures in a sentence or two: the figures of its first main row, and which columns are better.
//! (An experiment names its main rows.)
//!
//! [`Answer::render`] is the short report: these sentences, a bar for each column's figure in the first main row, a
//! table of the main rows, and how to see the rest. The table always has the first main row. It has as many others as fit
//! the screen. The bars are left out if the screen has no room for them and that row. Reports in Markdown and on pages begin with [`Answer::sentences`].

use super::grid::{self, Cell, Grid, Look, Tone};
use super::percent::PercentRule;
use super::text::{self, Heads};
use crate::show::Show;
use crate::table::{Table, TableRow};
use figures::figure::Better;
use figures::statistics::percent;
use figures::verdict::{Comparison, Verdict};
use kit::words::counted;

/// Largest number of columns that an answer names one by one. For more columns, the answer only says how many of them
/// have each verdict.
const NAMED_MAX: usize = 4;

/// Length of the longest bar, characters. It is not larger on a wide screen, since longer bars show no more.
const BAR_MAX: usize = 50;

/// Smallest width in which bars are drawn, characters. If there is less room, the answer has no bars.
const BAR_MIN: usize = 8;

/// The answer that a table of figures gives: whether each other column is better than the first column in the main row.
#[derive(Clone, Debug)]
pub struct Answer<'t> {
    table: &'t Table,
    /// The main row, which the answer is about: the first of the rows that the experiment names as main rows.
    pub row: &'t TableRow,
    /// Names of the table's columns.
    names: Vec<String>,
}

impl<'t> Answer<'t> {
    /// Returns the answer of a table; none if the table's experiment names no main row, or if the main row is missing.
    #[must_use]
    pub fn of(table: &'t Table) -> Option<Self> {
        let name = table.main_rows.first()?;
        let row = table.rows.iter().find(|row| row.name == *name)?;
        let names = Heads::names(&table.columns);
        Some(Self { table, row, names })
    }

    /// Returns the sentences of the answer. They name the compared columns and the main row, and say for each column
    /// whether it is better than the first.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let Self { table, row, names } = self;
        let direction = direction(row.better);
        let figure = self.figure();
        let [name] = names.as_slice() else {
            let first = format!("{}: {} by {figure}{direction}.", text::title(table), self.what());
            return vec![first, self.verdicts()];
        };
        let Some(value) = row.cells[0].value else {
            return vec![format!("{} with {name}: no run has a figure of {figure}.", table.experiment)];
        };
        let ends = if value.n > 1 {
            format!(" ({} to {}, {})", row.format.show(value.low), row.format.show(value.high), value.ends())
        } else {
            String::new()
        };
        let unit = spaced(&row.unit);
        let killed = if row.cells[0].is_of_survivors {
            " Tasks of the workload were killed: this is of those that were left."
        } else {
            ""
        };
        vec![format!(
            "{} with {name}: {} is {}{unit}{ends}{direction}.{killed}",
            table.experiment,
            row.name,
            row.format.show(value.median)
        )]
    }

    /// Returns the number of columns in words: `4 kernels` if each has a kernel of its own, otherwise `4 columns`.
    fn what(&self) -> String {
        let columns = &self.table.columns;
        let is_alone = |n: usize| columns[..n].iter().all(|it| it.kernel != columns[n].kernel);
        let are_kernels = (0..columns.len()).all(is_alone) && self.table.is_simulated() && !self.table.has_saved();
        counted(columns.len(), if are_kernels { "kernel" } else { "column" })
    }

    /// Returns the name of the main row with its unit.
    fn figure(&self) -> String {
        let TableRow { name, unit, .. } = self.row;
        if unit.is_empty() { name.clone() } else { format!("{name} ({unit})") }
    }

    fn verdicts(&self) -> String {
        let Self { table, row, names } = self;
        let base = &names[0];
        let comparisons: Vec<(usize, Comparison)> =
            (1..names.len()).filter_map(|column| Some((column, row.compared(0, column)?))).collect();
        let mut clauses: Vec<String> = Vec::new();
        if row.median(0).is_none() {
            let why = table.columns[0].failure().unwrap_or_else(|| "has no figure".into());
            clauses.push(format!("{base}, which others are compared with, {why}"));
        }
        if row.cells[0].is_of_survivors {
            clauses.push(format!("tasks of {base} were killed, so that nothing is compared with it"));
        }
        if names.len() <= NAMED_MAX {
            let mut has_base = true;
            for column in 1..names.len() {
                clauses.push(self.clause(column, has_base));
                // The figure of the first column is stated only once.
                has_base &= row.compared(0, column).is_none();
            }
        } else {
            clauses.extend(self.counts(&comparisons));
        }
        let mut text = format!("{}.", clauses.join("; "));
        let mut bases: Vec<String> = Vec::new();
        // If a column and the first have equal figures in all runs, the answer does not ask for more runs.
        let are_same = |column: usize| {
            let [base, own] = [0, column].map(|it| row.cells[it].samples.iter().map(|it| it.value));
            base.eq(own)
        };
        let differing = comparisons.iter().filter(|(column, it)| it.is_known() || !are_same(*column));
        for basis in differing.map(|(_, it)| basis(it)) {
            if !bases.contains(&basis) {
                bases.push(basis);
            }
        }
        if let Some(first) = bases.first_mut() {
            first[..1].make_ascii_uppercase();
            text.push_str(&format!(" {}.", bases.join("; ")));
        }
        text
    }

    /// Returns the part of a sentence that gives the verdict on one column. With `has_base` it includes the figure of
    /// the first column.
    fn clause(&self, column: usize, has_base: bool) -> String {
        let Self { table, row, names } = self;
        let (name, base) = (&names[column], &names[0]);
        let Some(median) = row.median(column) else {
            return match table.columns[column].failure() {
                Some(failure) => format!("{name} {failure}"),
                None => format!("{name} has no such figure"),
            };
        };
        let unit = spaced(&row.unit);
        let own = format!("{}{unit}", row.format.show(median));
        let Some((from, it)) = row.median(0).zip(row.compared(0, column)) else {
            let is_of_survivors = row.cells[column].is_of_survivors;
            let why = if is_of_survivors { ", but tasks of it were killed, so that this is not compared" } else { "" };
            return format!("{name} has {own}{why}");
        };
        let beside = if has_base { format!(" beside {} of {base}", row.format.show(from)) } else { String::new() };
        let change = change(row, from, median);
        let interval = self.interval(from, &it).map_or_else(String::new, |interval| format!(" ({interval})"));
        match it.verdict {
            Verdict::NotToldApart if it.is_known() => {
                format!("{name} is not told apart: {own}{beside}, {change}{interval}")
            }
            Verdict::NotToldApart => format!("{name} has {own}{beside}, {change}"),
            verdict => format!("{name} is {}: {own}{beside}, {change}{interval}", verdict.word()),
        }
    }

    /// Returns the parts of a sentence about one row: how many columns have each verdict, how many columns failed, and
    /// which columns have the smallest and the largest median in this row.
    fn counts(&self, comparisons: &[(usize, Comparison)]) -> Vec<String> {
        let Self { table, row, names } = self;
        let is_known = comparisons.iter().any(|(_, it)| it.is_known());
        let count = |verdict: Verdict| comparisons.iter().filter(|(_, it)| it.verdict == verdict).count();
        let verdicts = [Verdict::Better, Verdict::Worse, Verdict::Other, Verdict::NotToldApart];
        let counted: Vec<String> = verdicts
            .into_iter()
            .filter(|verdict| is_known && count(*verdict) > 0)
            .map(|verdict| format!("{} {}", count(verdict), verdict.word()))
            .collect();
        let mut clauses = Vec::new();
        if !counted.is_empty() {
            clauses.push(format!("Beside {}, {} of {} others", names[0], counted.join(", "), names.len() - 1));
        }
        let failed = table.columns.iter().filter(|column| column.has_failed()).count();
        if failed > 0 {
            clauses.push(format!("{failed} failed"));
        }
        let bereft = row.cells.iter().skip(1).filter(|cell| cell.is_of_survivors).count();
        if bereft > 0 {
            clauses.push(format!("{bereft} not compared, for tasks were killed in them"));
        }
        let of = |column: usize| row.median(column).filter(|median| !median.is_nan()).map(|median| (column, median));
        let numbered = || (0..names.len()).filter_map(of);
        let most = numbered().reduce(|a, b| if b.1 > a.1 { b } else { a });
        let least = numbered().reduce(|a, b| if b.1 < a.1 { b } else { a });
        if let (Some(most), Some(least)) = (most, least) {
            let told = |(column, median): (usize, f64)| format!("{} with {}", row.format.show(median), names[column]);
            let the = if clauses.is_empty() { "The" } else { "the" };
            clauses.push(format!("{the} medians reach from {} to {}", told(least), told(most)));
        }
        clauses
    }

    /// Returns the confidence interval of a change in words; none if the interval is not known.
    fn interval(&self, from: f64, it: &Comparison) -> Option<String> {
        let coverage = percent(it.shift.coverage?);
        let (factor, unit) = scale(self.row, from).unwrap_or((1.0, ""));
        let ends = [it.shift.low, it.shift.high].map(|end| {
            let shown =
                if factor == 1.0 && unit.is_empty() { self.row.format.show(end) } else { rounded(end * factor) };
            if end > 0.0 && !shown.starts_with('+') { format!("+{shown}") } else { shown }
        });
        Some(format!("{coverage} interval {} to {}{unit}", ends[0], ends[1]))
    }

    /// Returns at most `most` of the main rows, in the order of the table. The first main row, which the answer is
    /// about, is always among them.
    fn rows(&self, most: usize) -> Vec<&'t TableRow> {
        let names = &self.table.main_rows;
        let rows = self.table.rows.iter().filter(|row| names.contains(&row.name));
        let (first, others): (Vec<&TableRow>, Vec<&TableRow>) = rows.partition(|row| row.name == self.row.name);
        let kept: Vec<&TableRow> = first.into_iter().chain(others).take(most).collect();
        // The rows are returned in the order of the table.
        self.table.rows.iter().filter(|row| kept.iter().any(|it| std::ptr::eq(*it, *row))).collect()
    }

    /// Returns the short report as text: the sentences of the answer, the bars, and a table of the main rows. The table
    /// always has the first main row, with all columns. It has as many of the other main rows as a screen has room for.
    #[must_use]
    pub fn render(&self, show: Show) -> String {
        let look = show.look;
        let sentences: String = self.sentences().iter().map(|it| grid::hanging("", it, look)).collect();
        let bars = self.bars(look);
        let (all, main) = (self.table.rows.len(), self.rows(usize::MAX).len());
        let foot = text::foot(self.table, show.look);
        let lines = |text: &str| text.lines().count();
        // Between the parts stand empty lines, and the line about the rest of the rows.
        let room = usize::from(look.height).saturating_sub(lines(&sentences) + lines(&foot) + 3);
        let fitting = |room: usize| {
            let mut all = (1..=main).rev().map(|rows| (rows, self.figures(rows, show)));
            all.find(|(_, figures)| lines(figures) <= room)
        };
        let (bars, found) = match fitting(room.saturating_sub(lines(&bars))) {
            Some(found) => (bars, Some(found)),
            None => (String::new(), fitting(room)),
        };
        let (rows, figures) = found.unwrap_or_else(|| (1, self.figures(1, show)));
        let rest = if all > rows { format!("\n{all} rows in all: --all shows them.\n") } else { String::new() };
        let parts = [sentences, bars, figures].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        parts.join("\n") + &rest + if rest.is_empty() { &foot } else { foot.trim_start_matches('\n') }
    }

    /// Returns a table, as text, of at most `most` of the main rows. Rows with the same unit stand together, below
    /// their unit.
    fn figures(&self, most: usize, show: Show) -> String {
        let heads = Heads::of(&self.table.columns).own.into_iter().map(|name| Cell::new(name, Tone::Heading));
        let head = std::iter::once(Cell::default()).chain(heads).collect();
        let (mut lines, mut unit) = (Vec::new(), None);
        for row in self.rows(most) {
            if unit != Some(&row.unit) {
                lines.push(vec![Cell::new(if row.unit.is_empty() { "count" } else { &row.unit }, Tone::Faint)]);
                unit = Some(&row.unit);
            }
            let of = |line: text::Line| [line.label].into_iter().chain(line.figures).collect::<Vec<_>>();
            lines.extend(text::lines_of(self.table, row, &row.group, show).into_iter().map(of));
        }
        let mut grid = Grid { keys: 1, head, lines, texts: vec![0] };
        text::align(&mut grid);
        grid.with_baseline(show.look.width).render(show.look)
    }

    /// Returns a bar for each column of the main row, as text; empty if there is only one column, or if the lines are
    /// too short for bars.
    fn bars(&self, look: Look) -> String {
        let Self { table, row, names } = self;
        let most = (0..names.len()).filter_map(|column| row.median(column)).fold(0.0, |a: f64, b| a.max(b.abs()));
        let wide = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let shown = |column: usize| match row.cells[column].value {
            Some(value) => row.format.show(value.median),
            None if table.columns[column].has_failed() => table.columns[column].cell_of_failure().into(),
            None => "-".into(),
        };
        let figures: Vec<String> = (0..names.len()).map(shown).collect();
        let taken = wide(&mut names.iter().map(|it| it.chars().count()))
            + wide(&mut figures.iter().map(|it| it.chars().count()));
        let verdict = |column: usize| {
            let of = row.comparison(column).filter(Comparison::is_known).map(|it| it.verdict);
            of.map_or_else(Cell::default, |it| Cell::new(it.word(), text::tone(it)))
        };
        let verdicts: Vec<Cell> = (0..names.len()).map(verdict).collect();
        let words = wide(&mut verdicts.iter().map(|it| it.text.chars().count()));
        // Two blanks stand between name and figure, figure and bar, bar and word.
        let room = usize::from(look.width).saturating_sub(taken + words + 6).min(BAR_MAX);
        if names.len() < 2 || room < BAR_MIN || !most.is_normal() {
            return String::new();
        }
        let line = |(column, verdict): (usize, Cell)| {
            let share = row.median(column).map_or(0.0, |median| (median / most).max(0.0));
            vec![
                Cell::from(&*names[column]),
                Cell::from(&*figures[column]),
                Cell::new(bar(share, room), verdict.tone),
                verdict,
            ]
        };
        let lines = verdicts.into_iter().enumerate().map(line).collect();
        Grid { keys: 4, lines, texts: vec![0, 2, 3], ..Grid::default() }.render(look)
    }
}

/// Returns a unit with a space before it.
fn spaced(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

/// Returns the number of runs on which a verdict is based, in words. If there are too few runs, also says what to do.
fn basis(it: &Comparison) -> String {
    let more = if it.is_known() { "" } else { " (--runs 10 tells)" };
    format!("{}{more}", it.basis_words())
}

/// Returns the change from `from` to `to`, two figures of `row`, in words: `110.9 % more`, `3.2 points less`, `the same`.
/// If `from` is 0, the change is in the row's unit.
fn change(row: &TableRow, from: f64, to: f64) -> String {
    let [from, to] = [from, to].map(|value| row.format.as_shown(value));
    let by = (to - from).abs();
    let word = if to > from { "more" } else { "less" };
    match scale(row, from) {
        _ if from == to => "the same".into(),
        Some((factor, unit)) => format!("{}{unit} {word}", rounded(by * factor)),
        None => format!("{}{} {word}", row.format.show(by), spaced(&row.unit)),
    }
}

/// Returns a factor and a unit. A difference to the figure `from` of `row`, multiplied by the factor, is in this unit:
/// percent of `from`, or points. Returns none if the unit would be percent and `from` is 0, since no percentage of 0
/// can be stated.
fn scale(row: &TableRow, from: f64) -> Option<(f64, &'static str)> {
    if PercentRule::default().of(row.format, &row.unit) == PercentRule::Points {
        return Some((1.0, " points"));
    }
    (from != 0.0 && from.is_finite()).then(|| (100.0 / from.abs(), "%"))
}

/// Returns the direction in which figures are better, as the end of a sentence.
const fn direction(better: Better) -> &'static str {
    match better {
        Better::Higher => "; more is better",
        Better::Lower => "; less is better",
        Better::Neutral => "",
    }
}

/// Returns what a table of variants says of its first figure, in sentences: how the other columns compare with the first
/// in the experiment as it is, and between which ends this difference lies with the variants. Returns nothing if the
/// table has one column or more than four, or no variant.
///
/// The first block of such a table has a line for the experiment as it is, and then one for each variant. The name of a
/// line is that of the block, `: ` and the name of the variant.
#[must_use]
pub fn of_variants(table: &Table) -> Vec<String> {
    let names = Heads::names(&table.columns);
    let Some((group, [plain, variants @ ..])) = table.blocks().next() else { return Vec::new() };
    if !(2..=NAMED_MAX).contains(&names.len()) || variants.is_empty() {
        return Vec::new();
    }
    let unit = if plain.unit.is_empty() { String::new() } else { format!(" ({})", plain.unit) };
    let first = format!(
        "{}: {} by {group}{unit}, as it is and with {}{}.",
        text::title(table),
        counted(names.len(), "column"),
        counted(variants.len(), "variant"),
        direction(plain.better)
    );
    // The figures of the first column and of another one, if the line has both.
    let both = |row: &TableRow, column: usize| row.median(0).zip(row.median(column));
    let told = |row: &TableRow, column: usize| both(row, column).map(|(from, to)| change(row, from, to));
    let sentence = |column: usize| -> Option<String> {
        let plain = told(plain, column)?;
        let by = |row: &&TableRow| both(row, column).map_or(f64::NAN, |(from, to)| (to - from) / from.abs().max(1e-9));
        let mut known: Vec<&TableRow> = variants.iter().filter(|row| both(row, column).is_some()).collect();
        known.sort_by(|a, b| by(a).total_cmp(&by(b)));
        let end = |row: &TableRow| {
            let variant = row.name.strip_prefix(&format!("{group}: ")).unwrap_or(&row.name);
            Some(format!("{} ({variant})", told(row, column)?))
        };
        let range = match known[..] {
            [] => String::new(),
            [one] => format!(", and {} with the variant", end(one)?),
            [least, .., most] => format!(", and from {} to {} with the variants", end(least)?, end(most)?),
        };
        Some(format!("Beside {}, {} has {plain} as it is{range}.", names[0], names[column]))
    };
    let mut sentences: Vec<String> = (1..names.len()).filter_map(sentence).collect();
    if let Some(it) = (1..names.len()).find_map(|column| plain.compared(0, column)).filter(|it| !it.is_known()) {
        let mut basis = basis(&it);
        basis[..1].make_ascii_uppercase();
        sentences.push(format!("{basis}."));
    }
    vec![first, sentences.join(" ")]
}

/// Returns a change rounded for reading: without decimals if it is at least 100, with two decimals if it is below 1,
/// otherwise with one.
fn rounded(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 0.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    // A zero has no sign.
    if text.parse() == Ok(0.0) { text.trim_start_matches('-').to_owned() } else { text }
}

/// Returns a bar that fills a part of `room` characters, in steps of an eighth of a character. `share` is the size of
/// the part, from 0 to 1.
fn bar(share: f64, room: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * room as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use crate::table::Failed;
    use figures::figure::{Format, Row};

    fn table(values: &[&[f64]], row: impl Fn(f64) -> Row) -> Table {
        let names = ["old", "new", "other", "d", "e", "f"];
        let seeds = values.iter().map(|values| values.len()).max().unwrap();
        let run = |value: &f64| vec![row(*value), samples::ops("Ops side", 1.0), samples::ops("Ops rest", 2.0)];
        let runs: Vec<_> = values.iter().map(|values| values.iter().map(run).collect()).collect();
        let mut table = Table::of_runs(samples::head(&names[..values.len()], seeds as u64), &runs, None);
        table.main_rows = vec![table.rows[0].name.clone(), "Ops side".into()];
        table
    }

    fn ops(value: f64) -> Row {
        samples::ops("Ops", value)
    }

    fn verdicts(table: &Table) -> String {
        Answer::of(table).unwrap().sentences()[1].clone()
    }

    #[test]
    fn one_seed_tells_the_difference_and_no_verdict() {
        let table = table(&[&[100.0], &[210.0], &[0.0]], ops);
        let sentences = Answer::of(&table).unwrap().sentences();
        assert_eq!(sentences[0], "parallelio: 3 kernels by Ops (ops/s); more is better.");
        assert_eq!(
            sentences[1],
            "new has 210.00 ops/s beside 100.00 of old, 110% more; other has 0.00 ops/s, 100% less. One seed: chance is \
             not known (--runs 10 tells)."
        );
    }

    #[test]
    fn columns_with_the_same_figures_want_no_more_runs() {
        assert_eq!(
            verdicts(&table(&[&[100.0], &[100.0]], ops)),
            "new has 100.00 ops/s beside 100.00 of old, the same."
        );
    }

    #[test]
    fn paired_seeds_tell_the_verdict_with_its_interval() {
        let base = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0, 160.0];
        let plus = |by: f64| base.map(|it| it + by + it / 1000.0);
        let table = table(&[&base, &plus(13.0), &[130.0, 100.0, 131.0, 129.0, 128.0, 160.0, 129.0]], ops);
        let text = verdicts(&table);
        assert!(
            text.starts_with(
                "new is better: 143.13 ops/s beside 130.00 of old, 10.1% more (95.3% interval +10.1 to +10.1%); "
            ),
            "{text}"
        );
        assert!(text.contains("other is not told apart: 129.00 ops/s, 0.77% less ("), "{text}");
        assert!(text.ends_with(". 7 paired seeds."), "{text}");
    }

    #[test]
    fn variants_tell_how_far_a_difference_reaches() {
        // A line for the experiment as it is and one for each variant, with the figures of two columns.
        let variants = |values: &[(&str, [f64; 2])]| {
            let columns = |column: usize| {
                let rows = values.iter().map(|(name, both)| Row {
                    group: "Ops".into(),
                    ..samples::ops(&format!("Ops: {name}"), both[column])
                });
                vec![rows.collect::<Vec<_>>()]
            };
            Table::of_runs(samples::head(&["old", "new"], 1), &[columns(0), columns(1)], None)
        };
        let all = [("as it is", [100.0, 84.0]), ("a", [100.0, 100.0]), ("b", [10.0, 2.0]), ("c", [0.0, 0.0])];
        assert_eq!(
            of_variants(&variants(&all)),
            [
                "parallelio: 2 columns by Ops (ops/s), as it is and with 3 variants; more is better.",
                "Beside old, new has 16.0% less as it is, and from 80.0% less (b) to the same (c) with the variants. One seed: \
                 chance is not known (--runs 10 tells)."
            ]
        );
        assert!(of_variants(&variants(&all[..2]))[1].contains("as it is, and the same (a) with the variant."));
        assert!(of_variants(&variants(&all[..1])).is_empty());
    }

    #[test]
    fn shares_differ_in_points() {
        let row = |value| Row::new("hits", "Hit ratio", "%", Better::Higher, Format::Decimals(2), value);
        let table = table(&[&[60.0], &[63.2]], row);
        assert!(
            verdicts(&table).starts_with("new has 63.20 % beside 60.00 of old, 3.2 points more. One seed"),
            "{}",
            verdicts(&table)
        );
        let text = text::render(&table, Show::default());
        assert!(text.contains("63.20 (  3.2pt)"), "{text}");
    }

    #[test]
    fn what_failed_is_said_first_and_last() {
        let mut found = table(&[&[100.0], &[]], ops);
        found.columns[1].failed = vec![Failed { why: "out of memory".into(), runs: 1, of: 1 }];
        assert_eq!(verdicts(&found), "new failed: out of memory (1 of 1).");
        let text = text::render(&found, Show { is_short: true, ..Show::default() });
        assert!(text.contains("new failed: out of memory (1 of 1)\n"), "{text}");
        let mut found = table(&[&[], &[5.0]], ops);
        found.columns[0].failed = vec![Failed { why: "out of memory".into(), runs: 1, of: 1 }];
        let expected = "old, which others are compared with, failed: out of memory (1 of 1); new has 5.00 ops/s.";
        assert_eq!(verdicts(&found), expected);
    }

    #[test]
    fn many_columns_are_counted() {
        let far: Vec<Vec<f64>> = (0..6).map(|n| (0..6).map(|seed| f64::from(100 * n + seed)).collect()).collect();
        let table = table(&far.iter().map(Vec::as_slice).collect::<Vec<_>>(), ops);
        assert_eq!(
            verdicts(&table),
            "Beside old, 5 better of 5 others; the medians reach from 2.50 with old to 502.50 with f. 6 paired seeds."
        );
    }

    #[test]
    fn a_short_report_has_bars_the_main_rows_and_the_way_to_the_rest() {
        let table = table(&[&[100.0], &[200.0]], ops);
        let look = Look { width: 40, ..Look::default() };
        let text = text::render(&table, Show { look, is_short: true, ..Show::default() });
        let lines: Vec<&str> = text.lines().collect();
        let bars: Vec<&&str> = lines.iter().filter(|line| line.contains('█')).collect();
        assert_eq!(bars, [&"old  100.00  ████████████▌", &"new  200.00  █████████████████████████"]);
        assert!(text.contains("Ops side") && !text.contains("Ops rest"), "{text}");
        assert!(text.contains("\n3 rows in all: --all shows them.\n") && text.contains("fingerprint"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{text}");
        let all = text::render(&table, Show { look, ..Show::default() });
        assert!(all.starts_with("parallelio\n") && all.contains("Ops rest"), "{all}");
    }

    #[test]
    fn a_short_report_fits_the_screen_and_gives_up_rows_then_bars() {
        let table = table(&[&[100.0], &[200.0]], ops);
        let of = |height: u16| {
            let look = Look { height, ..Look::default() };
            text::render(&table, Show { look, is_short: true, ..Show::default() })
        };
        let has = |text: &str| ["Ops side", "█"].map(|part| text.contains(part));
        let whole = of(40).lines().count();
        for (height, expected) in
            [(40, [true; 2]), (whole - 1, [false, true]), (whole - 2, [true, false]), (1, [false, false])]
        {
            let text = of(height as u16);
            assert!(text.lines().count() <= height.max(whole - 4), "{height}: {text}");
            assert!(text.contains("\nOps ") && text.starts_with("parallelio: 2 kernels"), "{height}: {text}");
            assert_eq!(has(&text), expected, "{height}: {text}");
        }
    }

    #[test]
    fn a_short_report_has_the_main_row_with_all_columns_however_wide_they_are() {
        let near = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0, 160.0];
        let far = near.map(|it| it + 50.0);
        let mut found = table(&[&near, &far, &near, &[], &far, &near], ops);
        for column in &mut found.columns {
            let settings = (0..4).map(|n| (format!("section.a_rather_long_key_{n}"), column.id.clone()));
            column.set = settings.collect();
        }
        found.columns[3].failed = vec![Failed { why: "out of memory".into(), runs: 7, of: 7 }];
        found.notes = (0..20).map(|n| format!("note {n}")).collect();
        let text = text::render(&found, Show { is_short: true, ..Show::default() });
        let count = |word: &str| text.lines().filter(|line| line.trim_start().starts_with(word)).count();
        let blocks = count("Ops  ");
        assert!(blocks >= 2, "{text}");
        assert_eq!((count("98.4%, n = 7"), count("Ops side"), count("Ops rest")), (blocks, 0, 0), "{text}");
        assert!(text.matches("130.00").count() >= blocks + 2, "each block has the baseline: {text}");
        assert!(text.contains("\n3 rows in all: --all shows them.\n"), "{text}");
    }

    #[test]
    fn each_bar_has_its_verdict_where_one_is_known() {
        let base = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0, 160.0];
        let chance = [130.0, 100.0, 131.0, 129.0, 128.0, 160.0, 129.0];
        let ends = |runs: usize| -> Vec<String> {
            let found = table(&[&base[..runs], &base.map(|it| it + 50.0)[..runs], &chance[..runs]], ops);
            let text = Answer::of(&found).unwrap().bars(Look::default());
            text.lines()
                .map(|line| line.rsplit(['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉']).next().unwrap().trim().into())
                .collect()
        };
        assert_eq!(ends(7), ["", "better", "not told apart"]);
        assert_eq!(ends(2), ["", "", ""]);
    }

    #[test]
    fn a_table_without_a_main_row_has_no_answer() {
        let mut table = table(&[&[1.0]], ops);
        table.main_rows = vec!["none".into()];
        assert!(Answer::of(&table).is_none());
        table.main_rows.clear();
        assert!(Answer::of(&table).is_none());
    }
}
