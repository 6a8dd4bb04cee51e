//! The layout of MMTests: the table that kernel developers know.

use super::{Show, Table, TableRow, percent};
use crate::figure::Better;

/// Width of a value in a block without brackets, as MMTests prints it.
const PLAIN_WIDTH: usize = 12;
/// Width of a value before its brackets.
const VALUE_WIDTH: usize = 12;
/// The same in the block `Ops`, whose values are larger.
const OPS_WIDTH: usize = 18;
/// Width of a space and a percentage in brackets.
const BRACKET_WIDTH: usize = 10;

/// The whole report.
#[must_use]
pub fn render(table: &Table, show: Show) -> String {
    let mut text = format!("{}\n", table.experiment);
    for (index, (group, rows)) in table.blocks().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        block(table, group, rows, show, &mut text);
    }
    text.push_str(&format!("\n{}\n", table.footer()));
    table.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    text
}

/// Counters of the whole test have no percentages beside them.
pub(super) fn has_brackets(group: &str) -> bool {
    !matches!(group, "duration" | "vmstat" | "vmscan" | "iostat" | "faults" | "diagnosis" | "locks" | "interrupts off")
}

/// One line: its label, and a text for each column.
struct Line {
    label: String,
    cells: Vec<String>,
}

fn block(table: &Table, group: &str, rows: &[TableRow], show: Show, text: &mut String) {
    let brackets = has_brackets(group);
    let lines: Vec<Line> = rows.iter().flat_map(|row| lines_of(row, brackets, show)).collect();
    let least = match (brackets, group) {
        (false, _) => PLAIN_WIDTH,
        (true, "Ops") => OPS_WIDTH + BRACKET_WIDTH,
        (true, _) => VALUE_WIDTH + BRACKET_WIDTH,
    };
    let names: Vec<(&str, &str)> = table.columns.iter().map(|column| cut(&column.id)).collect();
    let label_width = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    // One width for all columns, so that the eye finds them; two spaces keep long names apart.
    let cells = lines.iter().flat_map(|line| &line.cells).map(|cell| cell.chars().count() + 1);
    let headings = names.iter().map(|(above, below)| above.chars().count().max(below.chars().count()) + 2);
    let width = cells.chain(headings).max().unwrap_or(0).max(least);
    let mut line = |label: &str, cells: &[&str]| {
        let mut out = format!("{label:<label_width$}");
        for cell in cells {
            out.push_str(&format!("{cell:>width$}"));
        }
        text.push_str(out.trim_end());
        text.push('\n');
    };
    line("", &names.iter().map(|(above, _)| *above).collect::<Vec<_>>());
    line("", &names.iter().map(|(_, below)| *below).collect::<Vec<_>>());
    for Line { label, cells } in &lines {
        line(label, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// A row's own line, then its interval over several seeds, then what is in print.
fn lines_of(row: &TableRow, brackets: bool, show: Show) -> Vec<Line> {
    let base = row.values.first().copied().flatten().map(|estimate| estimate.median);
    let with_bracket = |value: String, bracket: Option<String>| match (brackets, bracket) {
        (false, _) => value,
        (true, Some(bracket)) => format!("{value} ({bracket})"),
        (true, None) => format!("{value}{:BRACKET_WIDTH$}", ""),
    };
    let cell = |value: f64| {
        let bracket = base.map(|base| show.percent.bracket(row.better, base, value));
        with_bracket(row.format.show(value), bracket)
    };
    let cells = row.values.iter().map(|value| value.map_or_else(String::new, |value| cell(value.median))).collect();
    let mut lines = vec![Line { label: row.name.clone(), cells }];
    if row.values.iter().flatten().any(|value| value.n > 1) {
        let interval = |low, high| format!("[{}, {}]", row.format.show(low), row.format.show(high));
        let cells = row
            .values
            .iter()
            .map(|value| value.map_or_else(String::new, |value| with_bracket(interval(value.low, value.high), None)));
        let counts: Vec<usize> = row.values.iter().flatten().map(|value| value.n).collect();
        let label = match counts.as_slice() {
            [first, rest @ ..] if rest.iter().all(|n| n == first) => format!("  95%, n = {first}"),
            _ => format!("  95%, n = {}", counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        lines.push(Line { label, cells: cells.collect() });
    }
    if show.published && row.published.iter().any(Option::is_some) {
        // Percentages in print are relative to the printed baseline: without its column they mislead.
        let has_base = row.published.first().copied().flatten().is_some();
        let cells = row.published.iter().map(|figure| {
            figure.map_or_else(String::new, |figure| {
                with_bracket(row.format.show(figure.value), figure.percent.filter(|_| has_base).map(percent::bracket))
            })
        });
        lines.push(Line { label: "  in print".into(), cells: cells.collect() });
    }
    lines
}

/// A run's name in two lines: cut at its first `-`, but a `-rc4` directly after stays above. One that has a `-` only in what was
/// set stays whole.
pub(super) fn cut(name: &str) -> (&str, &str) {
    let Some(mut at) = name.find(['-', '+']).filter(|at| name[*at..].starts_with('-')) else { return (name, "") };
    let rest = &name[at + 1..];
    let candidate = rest.split('-').next().unwrap_or("");
    if candidate.strip_prefix("rc").is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit())) {
        at += 1 + candidate.len();
    }
    (&name[..at], name[at..].strip_prefix('-').unwrap_or(""))
}

/// The sign that tells which way a row is better.
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
    use crate::{
        experiment::Published,
        report::{Format, Row, TableHead, tests},
        statistics,
    };

    #[test]
    fn run_names_are_cut_at_the_first_dash_but_keep_a_release_candidate() {
        assert_eq!(cut("3.10.0-rc4-mm1-lessdisrupt-v1"), ("3.10.0-rc4", "mm1-lessdisrupt-v1"));
        assert_eq!(cut("3.10-rc4"), ("3.10-rc4", ""));
        assert_eq!(cut("3.6-revert-v5"), ("3.6", "revert-v5"));
        assert_eq!(cut("2.6.23-rc5-pagevec"), ("2.6.23-rc5", "pagevec"));
        assert_eq!(cut("mm1-mmotm-20130606"), ("mm1", "mmotm-20130606"));
        assert_eq!(cut("6.1-rcu-test"), ("6.1", "rcu-test"));
        assert_eq!(cut("mine"), ("mine", ""));
        assert_eq!(cut("mine+lru.admission=by-refault"), ("mine+lru.admission=by-refault", ""));
    }

    /// The posting's own figures as if they had been run.
    fn posted(names: [&str; 3]) -> Table {
        let text = crate::embedded::text("experiments/parallelio/published.toml").unwrap();
        let published = Published::parse("published.toml", text).unwrap();
        let column = |column: usize| {
            let row = |row: &crate::experiment::PublishedRow| {
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
        let head = TableHead { columns: names.map(tests::column).into(), ..tests::head(&[], 1) };
        Table::of_runs(head, &[column(0), column(1), column(2)], Some(&published))
    }

    const POSTED: [&str; 3] = ["3.10.0-rc4-vanilla", "3.10.0-rc4-mm1-mmotm-20130606", "3.10.0-rc4-mm1-lessdisrupt-v1"];

    #[test]
    fn the_posting_is_laid_out_as_it_was() {
        let show = Show { percent: percent::PercentRule::Mmtests2013, ..Show::default() };
        let text = render(&posted(POSTED), show);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "parallelio",
                "                                        3.10.0-rc4                  3.10.0-rc4                  3.10.0-rc4",
                "                                           vanilla          mm1-mmotm-20130606          mm1-lessdisrupt-v1",
                "Ops memcachetest-0M             23018.00 (  0.00%)          22412.00 ( -2.63%)          22556.00 ( -2.01%)",
            ]
        );
        for line in [
            "Ops io-duration-2385M             133.00 (  0.00%)             21.00 ( 84.21%)             22.00 ( 83.46%)",
            "Ops swaptotal-715M             139693.00 (  0.00%)             19.00 ( 99.99%)              0.00 (  0.00%)",
            "Ops majorfaults-0M                  0.00 (  0.00%)              0.00 (  0.00%)              5.00 (-99.00%)",
            "Kswapd efficiency                        6%                 67%                 66%",
            "Kswapd velocity                   13633.275            1385.369            1420.058",
            "Mean sda-avgqz                168.05               34.64               35.60",
        ] {
            assert!(lines.contains(&line), "{line}\nis not in\n{text}");
        }
        assert_eq!(
            lines.last(),
            Some(&"seed 1 · 3 kernels · machine parallelio-8g · scale 1 · fingerprint 0000000000005f0c")
        );
    }

    #[test]
    fn zero_baselines_print_new_and_gone() {
        let text = render(&posted(POSTED), Show::default());
        assert!(text.contains("0.00 (  0.00%)              5.00 (    new)"), "{text}");
        assert!(text.contains("139693.00 (  0.00%)             19.00 ( 99.99%)              0.00 (   gone)"), "{text}");
    }

    #[test]
    fn figures_in_print_stand_under_their_rows() {
        let names = ["3.10-rc4-vanilla", "mine", "mm1-lessdisrupt-v1"];
        let text = render(&posted(names), Show { published: true, ..Show::default() });
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.starts_with("Ops memcachetest-2385M")).unwrap();
        assert_eq!(
            lines[at + 1],
            "  in print                      10989.00 (  0.00%)                                      23054.00 (109.79%)"
        );
        let other = render(&posted(["mine", "3.10-rc4-vanilla", "x"]), Show { published: true, ..Show::default() });
        assert!(other.lines().any(|line| line.split_whitespace().eq(["in", "print", "10989.00"])), "{other}");
    }

    #[test]
    fn several_seeds_show_their_interval() {
        let run = |value| vec![tests::ops("Ops memcachetest-0M", value)];
        let table =
            Table::of_runs(tests::head(&["a", "b"], 3), &[vec![run(9.0), run(10.0), run(11.0)], vec![run(20.0)]], None);
        assert_eq!(table.rows[0].values[0], statistics::estimate(&[9.0, 10.0, 11.0]));
        let text = render(&table, Show::default());
        assert!(text.contains("  95%, n = 3, 1         [9.00, 11.00]"), "{text}");
        assert!(text.contains("(100.00%)"), "{text}");
    }
}
