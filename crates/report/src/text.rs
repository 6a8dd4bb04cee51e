//! The text report, with a line for each row and its unit, and a column for each kernel.

use super::answer::Answer;
use super::grid::{self, Cell, Grid, Tone};
use crate::grid::Look;
use crate::show::Show;
use crate::table::{Column, Table, TableCell, TableRow};
use figures::figure::{Better, PublishedFigure};
use figures::statistics::{Estimate, percent};
use figures::verdict::{Comparison, Verdict};

/// Number of columns, those with the name and the unit of a row, that are repeated when a table is too wide for the
/// output and is split into blocks of columns.
const KEYS: usize = 2;
/// Width of a space and a percentage in brackets, characters.
const BRACKET_WIDTH: usize = 10;

/// Text for a figure that is missing because a saved report lacks the row.
const MISSING: &str = "-";

/// Text for a figure that is missing because the runs failed. The reason stands above the figures and below the table.
pub(super) const FAILED: &str = "failed";

/// Returns the report as text. If `show` asks for a short report and the table has a main row, the text compares the
/// columns in the main rows only ([`Answer`]). Otherwise it has all rows.
#[must_use]
pub fn render(table: &Table, show: Show) -> String {
    if let Some(answer) = Answer::of(table).filter(|_| show.is_short) {
        return answer.render(show);
    }
    let (title, mut grid) = grid_of(table, show);
    align(&mut grid);
    let width = show.look.width;
    grid::wrapped(&title, show.look) + &grid.with_baseline(width).render(show.look) + &foot(table, show.look)
}

/// Returns the lines below the figures: which runs the figures are from, and the notes.
#[must_use]
pub fn foot(table: &Table, look: Look) -> String {
    let remarks = table.remarks();
    let lines = std::iter::once(table.footer()).chain(remarks).map(|line| grid::wrapped(&line, look));
    format!("\n{}", lines.collect::<String>())
}

/// Aligns the figures of a column in which only some cells have a percentage in brackets: appends spaces of the same
/// width to the other figures. Intervals end at the right edge of the column, so that they do not widen it.
pub(super) fn align(grid: &mut Grid) {
    let brackets = columns_with_brackets(&grid.lines, grid.keys);
    for (column, cell) in grid.lines.iter_mut().flat_map(|line| line.iter_mut().enumerate()) {
        if brackets.contains(&column) && !cell.text.is_empty() && !cell.text.ends_with([')', ']']) {
            cell.text.push_str(&format!("{:BRACKET_WIDTH$}", ""));
        }
    }
}

/// Returns the title of the table, and its figures as a grid. Each group begins with an empty line and the group's
/// name. The name is left out if the names of all rows in the group begin with it.
#[must_use]
pub fn grid_of(table: &Table, show: Show) -> (String, Grid) {
    let title = title(table);
    let heads = Heads::of(&table.columns);
    let mut lines = Vec::new();
    for (group, rows) in table.blocks() {
        lines.push(Vec::new());
        // If all names in a group begin with the group's name, no line has the group's name alone.
        if !rows.iter().all(|row| row.name.split(' ').next() == Some(group)) {
            lines.push(vec![Cell::new(group, Tone::Heading)]);
        }
        lines.extend(rows.iter().flat_map(|row| lines_of(table, row, group, show)).map(Line::cells));
    }
    let own = heads.own.into_iter().map(|head| Cell::new(head, Tone::Heading));
    let head = ["", "unit"].map(|word| Cell::new(word, Tone::Heading)).into_iter().chain(own).collect();
    (title, Grid { keys: KEYS, head, lines, texts: vec![0, 1] })
}

/// Returns the title of a report: the experiment, and the properties that all columns have in common.
#[must_use]
pub fn title(table: &Table) -> String {
    [vec![table.experiment.clone()], Heads::of(&table.columns).common].concat().join(" · ")
}

/// Returns whether the figures of a group of rows are printed with percentages in brackets. They are not in groups of
/// counters over the whole test, such as `vmstat`.
pub(super) fn has_brackets(group: &str) -> bool {
    const WITHOUT: [&str; 11] = [
        "duration",
        "vmstat",
        "vmscan",
        "iostat",
        "faults",
        "diagnosis",
        "locks",
        "interrupts off",
        "requests",
        "memory",
        "compaction",
    ];
    !WITHOUT.contains(&group)
}

/// The headings of a table's columns: first the properties that all columns have in common, then for each column its
/// other properties.
pub(super) struct Heads {
    /// Properties that all columns have in common, in words, such as `lru.batch = 14`; empty if there is only one
    /// column.
    pub common: Vec<String>,
    /// For each column, lines of text with the properties in which the columns differ.
    pub own: Vec<String>,
}

impl Heads {
    pub(super) fn of(columns: &[Column]) -> Self {
        let changed = |column: &Column| -> Vec<(String, String)> { column.set.clone().into_iter().collect() };
        let parts: Vec<Vec<(String, String)>> = columns
            .iter()
            .map(|column| {
                let of = |key: &str, value: &String| (key.to_owned(), value.clone());
                let saved = column.saved.iter().map(|file| of("saved", file)).collect();
                let name = number(&column.id).map_or(column.kernel.clone(), |n| format!("{}#{n}", column.kernel));
                let failed =
                    column.failed.iter().map(|it| of("failed", &format!("{FAILED} ({} of {})", it.runs, it.of)));
                [vec![of("ground", &column.ground), ("kernel".into(), name)], saved, changed(column), failed.collect()]
                    .concat()
            })
            .collect();
        let is_common = |part: &(String, String)| columns.len() > 1 && parts.iter().all(|of| of.contains(part));
        let mut common: Vec<String> = Vec::new();
        for (key, value) in parts.first().into_iter().flatten().filter(|part| is_common(part)) {
            match key.as_str() {
                "ground" if value == "sim" => {}
                "ground" => common.push(format!("on {value}")),
                "kernel" | "saved" | "failed" => common.push(value.clone()),
                _ => common.push(format!("{key} = {value}")),
            }
        }
        // The ground is left out if all columns are simulated.
        let is_plain = columns.iter().all(|column| column.ground == "sim");
        let own = parts.iter().map(|parts| {
            let own = parts.iter().filter(|part| !(is_common(part) || is_plain && part.0 == "ground"));
            let words = own.map(|(key, value)| match key.as_str() {
                "ground" | "kernel" | "saved" | "failed" => value.clone(),
                _ => format!("{key} = {value}"),
            });
            words.collect::<Vec<_>>().join("\n")
        });
        Self { common, own: own.collect() }
    }

    /// Returns a name for each column, for use in a sentence. The name lists, in one line, the properties that not all
    /// columns share. A column without such properties is named by its id.
    pub(super) fn names(columns: &[Column]) -> Vec<String> {
        let plain: Vec<Column> = columns.iter().map(|column| Column { failed: Vec::new(), ..column.clone() }).collect();
        let own = Self::of(&plain).own.into_iter().zip(columns);
        own.map(|(own, column)| if own.is_empty() { column.id.clone() } else { own.replace('\n', ", ") }).collect()
    }
}

/// Returns the number after `#` at the end of a column's name. The second and later columns of one name have such a
/// number. Returns none for any other column.
fn number(id: &str) -> Option<&str> {
    let (_, number) = id.rsplit_once('#')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
}

/// Returns the indices of the columns in which at least one figure has a percentage in brackets behind it.
fn columns_with_brackets(lines: &[Vec<Cell>], keys: usize) -> Vec<usize> {
    let has = |line: &Vec<Cell>| -> Vec<usize> {
        (keys..line.len()).filter(|column| line[*column].text.ends_with(')')).collect()
    };
    lines.iter().flat_map(has).collect()
}

/// A line of the report: its label and unit, and a cell for each column.
pub(super) struct Line {
    pub label: Cell,
    pub unit: String,
    pub figures: Vec<Cell>,
}

impl Line {
    fn cells(self) -> Vec<Cell> {
        [self.label, self.unit.into()].into_iter().chain(self.figures).collect()
    }
}

/// Returns the lines of the report for a row: the row's figures, the intervals over several seeds, the verdicts on
/// differences from the baseline, and the published figures.
pub(super) fn lines_of(table: &Table, row: &TableRow, group: &str, show: Show) -> Vec<Line> {
    let brackets = has_brackets(group);
    let base = row.median(0);
    let best = if brackets { row.best() } else { Vec::new() };
    let faint =
        |label: String, figures: Vec<Cell>| Line { label: Cell::new(label, Tone::Faint), unit: String::new(), figures };
    let comparisons: Vec<Option<Comparison>> = (0..row.cells.len()).map(|column| row.comparison(column)).collect();
    let figure = |(column, cell): (usize, &TableCell)| -> Cell {
        let Some(Estimate { median, .. }) = cell.value else {
            return match &table.columns[column] {
                it if it.has_failed() => Cell::new(it.cell_of_failure(), Tone::Worse),
                // A figure that a saved report lacks is marked; otherwise an empty cell is enough, since kernels often
                // lack a counter.
                _ if table.has_saved() => Cell::new(MISSING, Tone::Faint),
                _ => Cell::default(),
            };
        };
        let text = row.format.show(median);
        let of = |text: String, tone| Cell { is_best: best.contains(&column), ..Cell::new(text, tone) };
        // The baseline has no percentage, since it is not compared with itself.
        let Some(base) = base.filter(|_| brackets && column > 0) else { return of(text, Tone::Plain) };
        let rule = show.percent.of(row.format, &row.unit);
        let [base, median] = [base, median].map(|value| rule.compared(row.format, value));
        let tone = comparisons[column].map_or(Tone::Plain, |it| tone(it.verdict));
        of(format!("{text} ({})", rule.bracket(row.better, base, median)), tone)
    };
    let name = row.name.strip_prefix(&format!("{group}: ")).unwrap_or(&row.name);
    let figures = row.cells.iter().enumerate().map(figure).collect();
    let mut lines = vec![Line { label: name.into(), unit: row.unit.clone(), figures }];
    let values = || row.cells.iter().map(|cell| cell.value);
    let interval = |low: f64, high: f64| format!("[{}, {}]", row.format.show(low), row.format.show(high));
    if values().flatten().any(|value| value.n > 1) {
        let of = |value: Option<Estimate>| {
            Cell::new(value.map_or_else(String::new, |value| interval(value.low, value.high)), Tone::Faint)
        };
        let mut ends: Vec<String> = values().flatten().map(|value| value.ends()).collect();
        ends.dedup();
        lines.push(faint(format!("  {}", ends.join("; ")), values().map(of).collect()));
    }
    if brackets && comparisons.iter().flatten().any(|it| it.is_known()) {
        let of = |comparison: Option<Comparison>| {
            let known = comparison.filter(|it| it.is_known());
            known.map_or_else(Cell::default, |Comparison { shift, verdict, .. }| {
                let word = if verdict.is_told_apart() { format!("{} ", verdict.word()) } else { String::new() };
                Cell::new(word + &interval(shift.low, shift.high), tone(verdict))
            })
        };
        // The interval of a difference has another coverage than the intervals of the columns above it.
        let mut coverages: Vec<String> =
            comparisons.iter().flatten().filter_map(|it| it.shift.coverage).map(percent).collect();
        coverages.dedup();
        let label = format!("  difference, {}", coverages.join("; "));
        lines.push(faint(label, comparisons.into_iter().map(of).collect()));
    }
    if show.published && row.is_published() {
        // Published percentages are relative to the published baseline, so they would mislead if it is not shown.
        let has_base = row.has_published_base();
        let figure = |(column, cell): (usize, &TableCell)| {
            let Some(PublishedFigure { value, percent }) = cell.published else { return Cell::default() };
            let bracket = percent.filter(|_| has_base && column > 0);
            let bracket = bracket.map(|it| show.percent.of(row.format, &row.unit).printed(it));
            let bracket = bracket.map_or_else(String::new, |bracket| format!(" ({bracket})"));
            Cell::new(row.format.show(value) + &bracket, Tone::Faint)
        };
        lines.push(faint("  published".into(), row.cells.iter().enumerate().map(figure).collect()));
    }
    lines
}

/// Returns the tone (and so the colour) of a cell that shows a verdict.
#[must_use]
pub const fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Better => Tone::Better,
        Verdict::Worse => Tone::Worse,
        Verdict::Other | Verdict::NotToldApart => Tone::Plain,
    }
}

/// Returns the word for the direction in which values are better, `higher` or `lower`; an empty text if neither is.
pub(super) fn arrow(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neutral => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Failed, TableHead};
    use crate::{percent, samples};
    use catalogue::experiment::Published;
    use figures::figure::Format;
    use figures::figure::Row;
    use figures::statistics;

    /// Returns a table of the experiment `parallelio` with columns called `names`. Its figures are published ones, in
    /// place of figures from runs.
    fn posted(names: [&str; 3]) -> Table {
        let text = catalogue::embedded::text("experiments/parallelio/published.toml").unwrap();
        let published = Published::parse("published.toml", text).unwrap();
        let column = |column: usize| {
            let row = |row: &catalogue::experiment::PublishedRow| {
                let format = match (row.group.as_str(), row.unit.as_str()) {
                    (_, "%") => Format::Percent,
                    ("Ops" | "iostat", _) => Format::Decimals(2),
                    (_, "pages/s") => Format::Decimals(3),
                    _ => Format::Decimals(0),
                };
                Row::new(&row.group, row.name.clone(), &row.unit, row.better(), format, row.values[column])
            };
            vec![published.rows.iter().map(row).collect()]
        };
        let head = TableHead { columns: names.map(samples::column).into(), ..samples::head(&[], 1) };
        Table::of_runs(head, &[column(0), column(1), column(2)], Some(&published))
    }

    const POSTED: [&str; 3] = ["3.10-rc4-vanilla", "mm1-mmotm-20130606", "mm1-lessdisrupt-v1"];

    #[test]
    fn each_row_has_its_unit_and_the_baseline_no_percentage() {
        let show = Show { percent: percent::PercentRule::Mmtests2013, ..Show::default() };
        let text = render(&posted(POSTED), show);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "parallelio",
                "                         unit      3.10-rc4-vanilla    mm1-mmotm-20130606    mm1-lessdisrupt-v1",
                "",
                "Ops memcachetest-0M      ops/s             23018.00    22412.00 ( -2.63%)    22556.00 ( -2.01%)",
            ]
        );
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in [
            "Ops io-duration-2385M s 133.00 21.00 ( 84.21%) 22.00 ( 83.46%)",
            "Ops swaptotal-715M pages 139693.00 19.00 ( 99.99%) 0.00 ( 0.00%)",
            "Ops majorfaults-0M faults 0.00 0.00 ( 0.00%) 5.00 (-99.00%)",
            "iostat",
            "Kswapd efficiency % 6 67 66",
            "Kswapd velocity pages/s 13633.275 1385.369 1420.058",
            "Mean sda-avgqz requests 168.05 34.64 35.60",
        ] {
            assert!(lines.iter().any(|it| words(it) == line), "{line}\nis not in\n{text}");
        }
        assert_eq!(
            lines.last(),
            Some(&"seed 1 · 3 kernels · machine parallelio-8g · scale 1 · fingerprint 0000000000005f0c")
        );
    }

    #[test]
    fn no_line_is_wider_than_the_screen_and_one_column_has_no_percentages() {
        for width in [40, 60, 80, 100, 200] {
            let look = Look { width, ..Look::default() };
            let text = render(&posted(POSTED), Show { look, published: true, ..Show::default() });
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{widest} of {width}:\n{text}");
            let blocks = text.lines().filter(|line| line.trim_start().starts_with("unit")).count();
            assert_eq!(blocks > 1, width < 97, "{blocks} at {width}:\n{text}");
        }
        let run = vec![samples::ops("Ops a", 1.0), samples::ops("Ops b", 2.0)];
        let text = render(&Table::of_runs(samples::head(&["a"], 1), &[vec![run]], None), Show::default());
        assert!(!text.contains('('), "{text}");
    }

    #[test]
    fn what_is_told_apart_is_green_or_red_on_a_terminal_and_one_seed_is_neither() {
        let runs =
            |value: f64, seeds: u32| (0..seeds).map(|n| vec![samples::ops("Ops a", value + f64::from(n))]).collect();
        let look = Look { width: 200, is_colored: true, ..Look::default() };
        let line = |seeds: u32| {
            let runs = [100.0, 120.0, 80.0].map(|value| runs(value, seeds));
            let table = Table::of_runs(samples::head(&["a", "b", "c"], seeds.into()), &runs, None);
            assert!(!render(&table, Show::default()).contains('\u{1b}'));
            let text = render(&table, Show { look, ..Show::default() });
            text.lines().find(|line| line.contains("Ops a")).unwrap().to_owned()
        };
        let has_colors = |line: &str| ["\u{1b}[38;5;10m", "\u{1b}[38;5;9m"].map(|it| line.contains(it));
        assert_eq!([1, 3, 6].map(|seeds| has_colors(&line(seeds))), [[false; 2], [false; 2], [true; 2]]);
    }

    #[test]
    fn a_column_that_failed_says_so_and_costs_no_other() {
        let run = |value| vec![samples::ops("Ops a", value)];
        let mut head = samples::head(&["a", "b"], 3);
        head.columns[1].failed = vec![Failed { why: "out of memory".into(), runs: 3, of: 3 }];
        let whole = Table::of_runs(head.clone(), &[vec![run(9.0), run(10.0), run(11.0)], vec![vec![]; 3]], None);
        let text = render(&whole, Show::default());
        let words = |begin: &str| -> Vec<String> {
            let line =
                text.lines().find(|line| line.trim_start().starts_with(begin)).unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(words("Ops a"), ["Ops", "a", "ops/s", "10.00", "failed"]);
        let mut killed = whole.clone();
        killed.columns[1].failed = vec![Failed { why: "killed (2 of 2)".into(), runs: 3, of: 3 }];
        let told = render(&killed, Show::default());
        let line = told.lines().find(|line| line.trim_start().starts_with("Ops a")).unwrap();
        assert!(line.ends_with("  killed (2 of 2)"), "{told}");
        assert!(text.contains("failed (3 of 3)") && text.contains("\nb failed: out of memory (3 of 3)\n"), "{text}");
        head.columns[1].failed[0].runs = 1;
        let part =
            Table::of_runs(head, &[vec![run(9.0), run(10.0), run(11.0)], vec![run(4.0), vec![], run(6.0)]], None);
        assert_eq!(part.rows[0].cells[1].samples.iter().map(|it| it.seed).collect::<Vec<_>>(), [1, 3]);
        let text = render(&part, Show::default());
        assert!(
            text.contains("range of 3; range of 2") && text.contains("(1 of 3); its figures are of the other runs"),
            "{text}"
        );
    }

    #[test]
    fn headings_hold_what_differs_and_the_first_line_what_does_not() {
        let with = |id: &str, kernel: &str, ground: &str, set: &[(&str, &str)]| Column {
            id: id.into(),
            kernel: kernel.into(),
            ground: ground.into(),
            set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            comparable: false,
            saved: None,
            failed: Vec::new(),
            bereft: 0,
        };
        let of = |columns: &[Column]| {
            let Heads { common, own } = Heads::of(columns);
            (common.join(" · "), own.join(" | ").replace('\n', "/"))
        };
        let batch = |value| with("k", "k", "sim", &[("lru.batch", value), ("params.hogs", "2")]);
        let expected = ("k · params.hogs = 2".into(), "lru.batch = 1 | lru.batch = 14".into());
        assert_eq!(of(&[batch("1"), batch("14")]), expected);
        assert_eq!(of(&[batch("1")]), (String::new(), "k/lru.batch = 1/params.hogs = 2".into()));
        let grounds = [with("sim-k", "k", "sim", &[]), with("host-k", "k", "host", &[])];
        assert_eq!(of(&grounds), ("k".into(), "sim | host".into()));
        let host = [with("host-k", "k", "host", &[]), with("host-j", "j", "host", &[])];
        assert_eq!(of(&host), ("on host".into(), "k | j".into()));
        let twice = [with("k", "k", "sim", &[]), with("k#2", "k", "sim", &[])];
        assert_eq!(of(&twice), (String::new(), "k | k#2".into()));
    }

    #[test]
    fn zero_baselines_print_new_and_gone() {
        let text = render(&posted(POSTED), Show::default());
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Ops majorfaults-0M faults 0.00 0.00 ( 0.00%) 5.00 ( new)"), "{text}");
        assert!(words.contains("139693.00 19.00 ( 99.99%) 0.00 ( gone)"), "{text}");
    }

    #[test]
    fn published_figures_stand_under_their_rows() {
        let names = ["3.10-rc4-vanilla", "mine", "mm1-lessdisrupt-v1"];
        let text = render(&posted(names), Show { published: true, ..Show::default() });
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.starts_with("Ops memcachetest-2385M")).unwrap();
        let words: Vec<&str> = lines[at + 1].split_whitespace().collect();
        assert_eq!(words, ["published", "10989.00", "23054.00", "(109.79%)"]);
        let other = render(&posted(["mine", "3.10-rc4-vanilla", "x"]), Show { published: true, ..Show::default() });
        assert!(other.lines().any(|line| line.split_whitespace().eq(["published", "10989.00"])), "{other}");
    }

    #[test]
    fn several_seeds_show_their_interval() {
        let run = |value| vec![samples::ops("Ops memcachetest-0M", value)];
        let table = Table::of_runs(
            samples::head(&["a", "b"], 3),
            &[vec![run(9.0), run(10.0), run(11.0)], vec![run(20.0)]],
            None,
        );
        assert_eq!(table.rows[0].cells[0].value, statistics::estimate(&[9.0, 10.0, 11.0]));
        let text = render(&table, Show::default());
        let interval = text.lines().find(|line| line.starts_with("  range of 3; range of 1 ")).unwrap();
        assert!(interval.contains(" [9.00, 11.00]"), "{text}");
        assert!(!text.contains("difference"), "three seeds and one have no verdict: {text}");
        assert!(text.contains("(100.00%)"), "{text}");
    }

    #[test]
    fn what_differences_are_worth_stands_under_six_seeds_and_more() {
        let runs =
            |value: f64, by: f64| (0..6).map(|n| vec![samples::ops("Ops a", value + by * f64::from(n))]).collect();
        let runs = [runs(100.0, 1.0), runs(120.0, 1.0), runs(97.0, 2.2)];
        let text = render(&Table::of_runs(samples::head(&["a", "b", "c"], 6), &runs, None), Show::default());
        let line = |begin: &str| {
            let line = text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin}: {text}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("  96.8%, n = 6"), "96.8%, n = 6 [100.00, 105.00] [120.00, 125.00] [97.00, 108.00]");
        assert_eq!(line("  difference"), "difference, 96.8% better [20.00, 20.00] [-3.00, 3.00]");
        assert!(text.contains("median and 96.8% interval of 6 runs"), "{text}");
    }

    /// With seven seeds, the interval of a difference covers less than those of the columns.
    #[test]
    fn the_interval_of_a_difference_has_its_own_coverage() {
        let runs = |by: f64| (0..7).map(|n| vec![samples::ops("Ops a", 100.0 + by + f64::from(n))]).collect();
        let table = Table::of_runs(samples::head(&["a", "b"], 7), &[runs(0.0), runs(20.0)], None);
        let text = render(&table, Show::default());
        assert!(text.contains("\n  98.4%, n = 7") && text.contains("\n  difference, 95.3%  "), "{text}");
        let text = crate::markdown::render(&table, Show::default());
        assert!(text.contains("<br>better: difference 20.00 to 20.00, 95.3% |"), "{text}");
    }

    #[test]
    fn a_variant_is_named_without_the_row_that_heads_it() {
        let row = |name: &str| Row::new("rtt max", name, "ms", Better::Lower, Format::Decimals(1), 2.0);
        let rows = vec![row("rtt max: as it is"), row("rtt max: two disks")];
        let text = render(&Table::of_runs(samples::head(&["a"], 1), &[vec![rows]], None), Show::default());
        let lines: Vec<&str> = text.lines().skip(3).take(3).collect();
        assert_eq!(lines, ["rtt max", "as it is   ms    2.0", "two disks  ms    2.0"]);
    }
}
