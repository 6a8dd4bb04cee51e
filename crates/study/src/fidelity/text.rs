//! The comparison with published figures as text, for a terminal or in Markdown.

use comfy_table::{CellAlignment, Table as TextGrid, presets};

use report::csv::{self, field};
use report::{grid, markdown};

use super::{Cell, Effect, Fidelity, LeftToChance, Row, Share, Tally, Worst};

/// The form of tables: laid out for a terminal, or written as Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Tables for a terminal, whose columns are separated by blanks.
    Plain,
    /// Tables in Markdown.
    Markdown,
}

/// Returns the summary as text: two lines for each experiment, and two for all experiments together. Of two such lines,
/// the first counts all published figures, and the second only those that are not left to chance.
#[must_use]
pub fn summary(all: &[Fidelity], look: Look) -> String {
    let (head, lines) = summary_lines(all);
    grid(&head, lines, look, SUMMARY_NUMBERS)
}

/// Indices of the summary's columns that hold numbers, not words.
const SUMMARY_NUMBERS: std::ops::Range<usize> = 2..7;

/// Indices of the columns that hold numbers, not words, in a table of published figures.
const FIGURE_NUMBERS: std::ops::Range<usize> = 2..8;

/// Returns the summary of the comparisons with published figures as a table of cells.
#[must_use]
pub fn summary_grid(all: &[Fidelity]) -> grid::Grid {
    let (head, lines) = summary_lines(all);
    cells(&head, lines, SUMMARY_NUMBERS)
}

/// Returns the published figures of an experiment as a table of cells. With `misses`, the table has only the figures
/// that the simulation misses in some aspect (see [`missed`]).
#[must_use]
pub fn figures_grid(it: &Fidelity, misses: bool) -> grid::Grid {
    let (head, lines) = figure_lines(it, misses);
    cells(&head, lines, FIGURE_NUMBERS)
}

fn cells(head: &[&str], lines: Vec<Vec<String>>, numbers: std::ops::Range<usize>) -> grid::Grid {
    let texts = (0..head.len()).filter(|column| !numbers.contains(column)).collect();
    let lines = lines.into_iter().map(|line| line.into_iter().map(grid::Cell::from).collect()).collect();
    let head = head.iter().map(|word| grid::Cell::new(*word, grid::Tone::Heading)).collect();
    grid::Grid { keys: 1, head, lines, texts }
}

fn summary_lines(all: &[Fidelity]) -> ([&'static str; 8], Vec<Vec<String>>) {
    let head = [
        "experiment",
        "of rows",
        "effects with the published sign",
        "and its size",
        "levels within x2",
        "apart: signs",
        "levels",
        "worst level",
    ];
    let lines_of = |name: &str, plain: Tally, decidable: Tally, apart: Tally, worst: Option<&Worst>| {
        let shares = |tally: Tally| [tally.signs, tally.sizes, tally.levels].map(of);
        let start = |rows: &str| [name.to_owned(), rows.to_owned()];
        let apart = [apart.signs, apart.levels].map(of);
        let worst = worst.map_or_else(String::new, told);
        [
            start("all").into_iter().chain(shares(plain)).chain(apart).chain([worst]).collect(),
            start("decidable").into_iter().chain(shares(decidable)).chain([const { String::new() }; 3]).collect(),
        ]
    };
    let mut lines: Vec<Vec<String>> = Vec::new();
    for Fidelity { experiment, summary, .. } in all {
        lines.extend(lines_of(experiment, summary.plain, summary.decidable, summary.apart, summary.worst.as_ref()));
    }
    if all.len() > 1 {
        let tally = |of: fn(&Fidelity) -> Tally| all.iter().map(of).fold(Tally::default(), Tally::and);
        let decidable = tally(|it| it.summary.decidable);
        lines.extend(lines_of("all", tally(|it| it.summary.plain), decidable, tally(|it| it.summary.apart), None));
    }
    (head, lines)
}

/// Returns a text with a line for each published figure. With `misses`, the text has only the figures that the
/// simulation misses in some aspect (see [`missed`]).
#[must_use]
pub fn figures(it: &Fidelity, misses: bool, look: Look) -> String {
    let (head, lines) = figure_lines(it, misses);
    grid(&head, lines, look, FIGURE_NUMBERS)
}

fn figure_lines(it: &Fidelity, misses: bool) -> ([&'static str; 10], Vec<Vec<String>>) {
    let head = [
        "figure",
        "kernel",
        "published",
        "here",
        "interval",
        "ratio",
        "published effect",
        "effect here",
        "misses",
        "left to chance",
    ];
    let cells = it.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let shown = cells.filter(|(_, cell)| !misses || !missed(cell).is_empty());
    let lines = shown.map(|(row, cell)| line(row, cell)).collect();
    (head, lines)
}

/// Returns the summary as CSV, with the fields of the table as words.
#[must_use]
pub fn summary_csv(all: &[Fidelity]) -> String {
    let (head, lines) = summary_lines(all);
    csv::text(&head, &lines)
}

/// Returns the published figures of all experiments as CSV: a line for each figure, with figures that are not rounded.
/// With `misses`, the text has only the figures that the simulation misses in some aspect (see [`missed`]).
#[must_use]
pub fn figures_csv(all: &[Fidelity], misses: bool) -> String {
    let head = [
        "experiment",
        "row",
        "unit",
        "apart",
        "kernel",
        "published",
        "median",
        "low",
        "high",
        "n",
        "ratio",
        "published_effect",
        "effect",
        "misses",
        "left_to_chance",
    ];
    let rows = all.iter().flat_map(|it| it.rows.iter().map(|row| (it.experiment.clone(), row)));
    let cells = rows.flat_map(|(experiment, row)| row.cells.iter().map(move |cell| (experiment.clone(), row, cell)));
    let line = |(experiment, row, cell): (String, &Row, &Cell)| {
        let Cell { kernel, published, simulated, ratio, effect, .. } = cell;
        vec![
            experiment,
            row.name.clone(),
            row.unit.clone(),
            row.is_apart.to_string(),
            kernel.clone(),
            published.to_string(),
            field(simulated.map(|it| it.median)),
            field(simulated.map(|it| it.low)),
            field(simulated.map(|it| it.high)),
            field(simulated.map(|it| it.n)),
            field(*ratio),
            field(effect.map(|effect| effect.published)),
            field(effect.and_then(|effect| effect.simulated)),
            missed(cell).join(", "),
            left_to_chance(cell),
        ]
    };
    let lines: Vec<_> = cells.filter(|(.., cell)| !misses || !missed(cell).is_empty()).map(line).collect();
    csv::text(&head, &lines)
}

/// Returns the aspects in which the simulation misses a published figure: its `level`, and the `sign` or the `size` of
/// the kernel's effect. Aspects that do not count are left out.
#[must_use]
pub fn missed(cell: &Cell) -> Vec<&'static str> {
    let level = (cell.counts && !cell.is_met).then_some("level");
    let effect = cell.effect.filter(|effect| effect.counts).and_then(|effect| match effect {
        Effect { has_sign: false, .. } => Some("sign"),
        Effect { has_size: false, .. } => Some("size"),
        _ => None,
    });
    level.into_iter().chain(effect).collect()
}

/// Returns the reason, in words, why chance decides whether the simulated figure of `cell` meets the published one. If
/// chance decides only the level (the figure itself) or only the kernel's effect, the text says which. The text is
/// empty if chance decides neither.
#[must_use]
pub fn left_to_chance(cell: &Cell) -> String {
    let effect = cell.effect.as_ref().map(|effect| effect.left_to_chance);
    match (cell.left_to_chance, effect) {
        (None, None | Some(None)) => String::new(),
        (level, None) => reason(level).to_owned(),
        (level, Some(effect)) if level == effect => reason(level).to_owned(),
        (level, Some(None)) => format!("level: {}", reason(level)),
        (None, Some(effect)) => format!("effect: {}", reason(effect)),
        (level, Some(effect)) => format!("level: {}; effect: {}", reason(level), reason(effect)),
    }
}

fn reason(why: Option<LeftToChance>) -> &'static str {
    match why {
        None => "",
        Some(LeftToChance::FewRuns) => "few runs",
        Some(LeftToChance::Small) => "small",
        Some(LeftToChance::WithinSpread) => "within spread",
    }
}

fn line(row: &Row, cell: &Cell) -> Vec<String> {
    let Cell { kernel, published, simulated, ratio, effect, .. } = cell;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let name = if row.is_apart { format!("{} (apart)", row.name) } else { row.name.clone() };
    let interval = simulated.filter(|it| it.n > 1).map(|it| format!("{} to {}", number(it.low), number(it.high)));
    let mut words = missed(cell).join(", ");
    if simulated.is_none() {
        words.push_str(if words.is_empty() { "not simulated" } else { "; not simulated" });
    }
    vec![
        name,
        kernel.clone(),
        number(*published),
        or_dash(simulated.map(|it| number(it.median))),
        interval.unwrap_or_default(),
        or_dash(ratio.map(|ratio| format!("{ratio:.2}"))),
        effect.map_or_else(String::new, |effect| change(effect.published)),
        effect.map_or_else(String::new, |effect| or_dash(effect.simulated.map(change))),
        words,
        left_to_chance(cell),
    ]
}

/// Returns a share as text: `57 of 66 (86%)`.
fn of(share: Share) -> String {
    let percent = share.percent().map_or_else(String::new, |percent| format!(" ({percent:.0}%)"));
    format!("{} of {}{percent}", share.met, share.of)
}

fn told(Worst { row, kernel, published, simulated }: &Worst) -> String {
    let here = simulated.map_or_else(|| "not simulated".to_owned(), number);
    format!("{row}, {kernel}: {here} for {}", number(*published))
}

/// Returns a change as text: a signed percentage, `new` for a change from zero, or `gone` for a change to zero.
fn change(share: f64) -> String {
    match share {
        share if share.is_infinite() => "new".into(),
        -1.0 => "gone".into(),
        0.0 => "0%".into(),
        // A change that is rounded to zero has no sign.
        share if share.abs() < 0.0005 => "0.0%".into(),
        share if share.abs() < 0.0995 => format!("{:+.1}%", 100.0 * share),
        share => format!("{:+.0}%", 100.0 * share),
    }
}

/// Returns a number as text: without decimals if it is whole or at least 1000, otherwise with two.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn grid(head: &[&str], lines: Vec<Vec<String>>, look: Look, numbers: std::ops::Range<usize>) -> String {
    if look == Look::Markdown {
        return markdown::grid(&cells(head, lines, numbers));
    }
    let mut grid = TextGrid::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(head);
    grid.add_rows(lines);
    for (index, column) in grid.column_iter_mut().enumerate() {
        if numbers.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = grid.lines().map(|line| line.trim_end().to_owned());
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::statistics::estimate;

    fn cell(published: f64, here: &[f64], base: f64) -> Cell {
        Cell::of("new", published, estimate(here), Some((base, estimate(&[base]))))
    }

    #[test]
    fn a_figure_says_what_it_misses() {
        assert_eq!(missed(&cell(1000.0, &[900.0], 500.0)), [""; 0]);
        assert_eq!(missed(&cell(1000.0, &[100.0], 500.0)), ["level", "sign"]);
        assert_eq!(missed(&cell(1000.0, &[550.0], 500.0)), ["size"]);
        assert_eq!(missed(&cell(1000.0, &[], 500.0)), ["level", "sign"]);
        assert_eq!(missed(&cell(50.0, &[9.0], 50.0)), [""; 0]);
    }

    #[test]
    fn a_figure_says_what_of_it_chance_decides() {
        let told = |level, effect| {
            let mut cell = cell(1000.0, &[900.0], 500.0);
            cell.left_to_chance = level;
            cell.effect.as_mut().unwrap().left_to_chance = effect;
            left_to_chance(&cell)
        };
        let (small, within) = (Some(LeftToChance::Small), Some(LeftToChance::WithinSpread));
        assert_eq!([told(None, None), told(small, small), told(small, None)], ["", "small", "level: small"]);
        assert_eq!(
            [told(None, within), told(small, within)],
            ["effect: within spread", "level: small; effect: within spread"]
        );
        let base = Cell { effect: None, left_to_chance: Some(LeftToChance::FewRuns), ..cell(1.0, &[], 1.0) };
        assert_eq!(left_to_chance(&base), "few runs");
    }

    #[test]
    fn changes_and_numbers_are_short() {
        let changes = [1.1443, -0.0263, -1.0, f64::INFINITY, 0.0].map(change);
        assert_eq!(changes, ["+114%", "-2.6%", "gone", "new", "0%"]);
        assert_eq!([12.0, 0.5, 123_456.5, 7.25].map(number), ["12", "0.50", "123456", "7.25"]);
        assert_eq!([of(Share { met: 6, of: 8 }), of(Share::default())], ["6 of 8 (75%)", "0 of 0"]);
    }

    #[test]
    fn both_looks_hold_the_same_cells() {
        let row = Row {
            group: "g".into(),
            name: "a|b".into(),
            unit: "pages".into(),
            is_apart: true,
            cells: vec![cell(1000.0, &[900.0, 1100.0], 500.0)],
        };
        let summary = super::super::Summary::of(std::slice::from_ref(&row));
        let fidelity = Fidelity {
            experiment: "e".into(),
            machine: "m".into(),
            seeds: vec![1, 2],
            fingerprint: None,
            summary,
            rows: vec![row],
        };
        let plain = figures(&fidelity, false, Look::Plain);
        assert!(plain.lines().nth(1).unwrap().contains("a|b (apart)"), "{plain}");
        let markdown = figures(&fidelity, false, Look::Markdown);
        assert!(markdown.lines().nth(2).unwrap().starts_with("| a\\|b (apart) | new "), "{markdown}");
        assert_eq!(figures(&fidelity, true, Look::Plain).lines().count(), 1);
        let all = [fidelity.clone()];
        assert_eq!(figures_csv(&all, false).lines().nth(1), Some("e,a|b,pages,true,new,1000,1000,900,1100,2,1,1,1,,"));
        assert_eq!([figures_csv(&all, true), summary_csv(&all)].map(|text| text.lines().count()), [1, 3]);
        assert!(super::summary(&[fidelity.clone(), fidelity], Look::Plain).contains("\n all"));
    }
}
