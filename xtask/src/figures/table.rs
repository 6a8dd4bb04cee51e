//! Tables in Markdown.

use serde::Deserialize;

use super::{
    Results,
    number::{amount, spread, spread_by, tenths, whole, with},
    plan::{FiguresTable, Line, RunsTable, Source, plain},
    run::Figures,
};

/// Sizes of the background write, without 0M (no write).
pub const SIZES: [&str; 3] = ["715M", "2385M", "4055M"];

/// Returns the rate of operations during a background write of `size`, in percent of the rate without such a write
/// (0M). Both rates are from the same run.
pub fn operations_percent(figures: &Figures, size: &str) -> f64 {
    100.0 * figures.of(&format!("Ops memcachetest-{size}")) / figures.of("Ops memcachetest-0M")
}

/// Returns the number of pages that were swapped out while a file of the size `size` was written.
pub fn swapped_out(figures: &Figures, size: &str) -> f64 {
    figures.of(&format!("Ops swaptotal-{size}")) - swapped_in(figures, size)
}

/// Returns the number of pages that were swapped in while a file of the size `size` was written.
pub fn swapped_in(figures: &Figures, size: &str) -> f64 {
    figures.of(&format!("Ops swapin-{size}"))
}

/// Returns the ratio of pages scanned in zone Normal to pages scanned in DMA32; infinite if only Normal is scanned.
pub fn zone_ratio(figures: &Figures) -> f64 {
    figures.of("Zone normal velocity") / figures.of("Zone dma32 velocity")
}

/// Returns a line of a Markdown table.
pub fn line(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cells = cells.into_iter().map(|cell| format!(" {} |", cell.as_ref()).replace("  ", " "));
    format!("|{}\n", cells.collect::<String>())
}

/// Returns the first two lines of a Markdown table: the titles, and the alignment of the columns.
pub fn head(titles: &[&str]) -> String {
    line(titles) + "|" + &"---|".repeat(titles.len()) + "\n"
}

/// A set of columns that a table has, one for each figure of the set.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Columns {
    /// The rates of the server and of `dd`.
    Server,
    /// Figures about the work of reclaim.
    Reclaim,
    /// Figures about the disk's request queue.
    Queue,
}

/// A column: title, function that returns its figure, and function that formats this figure.
type Column = (&'static str, fn(&Figures) -> f64, fn(f64) -> String);

/// Columns on the server's operations, on swap traffic, and on the duration of `dd`, each for some sizes of the file
/// that `dd` writes.
const SERVER: [Column; 9] = [
    ("ops 2385M, %", |it| operations_percent(it, "2385M"), whole),
    ("ops 4055M, %", |it| operations_percent(it, "4055M"), whole),
    ("out 715M, k", |it| swapped_out(it, "715M") / 1e3, whole),
    ("out 2385M, k", |it| swapped_out(it, "2385M") / 1e3, whole),
    ("out 4055M, k", |it| swapped_out(it, "4055M") / 1e3, whole),
    ("in 2385M, k", |it| swapped_in(it, "2385M") / 1e3, whole),
    ("in 4055M, k", |it| swapped_in(it, "4055M") / 1e3, whole),
    ("`dd` 2385M, s", |it| it.of("Ops io-duration-2385M"), whole),
    ("`dd` 4055M, s", |it| it.of("Ops io-duration-4055M"), whole),
];

/// Columns about the work that reclaim does in the whole test.
const RECLAIM: [Column; 5] = [
    ("kswapd scanned, M", |it| it.of("Kswapd pages scanned") / 1e6, tenths),
    ("efficiency, %", |it| it.of("Kswapd efficiency"), whole),
    ("scanned directly", |it| it.of("Direct pages scanned"), amount),
    ("Normal : DMA32", zone_ratio, amount),
    ("file pages written", |it| it.of("Page writes file"), amount),
];

/// Columns about the disk's queue: its length, the time that writes wait in it, and figures that depend on it (pages
/// swapped in, the rate of operations, the duration of `dd`).
const QUEUE: [Column; 7] = [
    ("queue, mean", |it| it.of("Mean sda-avgqz"), whole),
    ("queue, most", |it| it.of("Max sda-avgqz"), whole),
    ("w_await, mean, s", |it| it.of("Mean sda-w_await") / 1e3, tenths),
    ("w_await, most, s", |it| it.of("Max sda-w_await") / 1e3, tenths),
    ("in 715M", |it| swapped_in(it, "715M"), amount),
    ("ops 715M, %", |it| operations_percent(it, "715M"), whole),
    ("`dd` 2385M, s", |it| it.of("Ops io-duration-2385M"), whole),
];

impl Columns {
    fn all(self) -> &'static [Column] {
        match self {
            Self::Server => &SERVER,
            Self::Reclaim => &RECLAIM,
            Self::Queue => &QUEUE,
        }
    }

    /// Returns the cells of a line of the table, one for each column: the median and range of the column's figure over
    /// `runs`, which differ only in their seeds.
    fn cells(self, runs: &[Figures]) -> Vec<String> {
        let cell = |(_, of, digits): &Column| spread_by(&runs.iter().map(of).collect::<Vec<_>>(), "", digits);
        self.all().iter().map(cell).collect()
    }
}

impl RunsTable {
    /// Returns the table as Markdown, with a line of the table for each of `lines`. Lines of which all figures are
    /// equal, also those that no column shows, become one line, which names them all.
    pub fn markdown(&self, lines: &[Line], results: &Results) -> String {
        let figures = |line: &Line| match &line.source {
            Source::Runs(runs) => {
                runs.iter().map(|run| results.simulated.get(run).cloned().unwrap_or_default()).collect()
            }
            Source::Print(kernel) => vec![results.printed.get(kernel).cloned().unwrap_or_default()],
        };
        let mut shown: Vec<(Vec<&str>, Vec<Figures>)> = Vec::new();
        for line in lines {
            let figures = figures(line);
            match shown.iter_mut().find(|(_, other)| *other == figures) {
                Some((labels, _)) => labels.push(&line.label),
                None => shown.push((vec![&line.label], figures)),
            }
        }
        let label = |labels: &[&str]| match labels {
            [first, others @ ..] if !others.is_empty() => {
                format!("{first} (equal in every figure: {})", others.join("; "))
            }
            labels => labels.concat(),
        };
        let cells = |(labels, figures): &(Vec<&str>, Vec<Figures>)| {
            line([label(labels)].into_iter().chain(self.columns.cells(figures)))
        };
        let titles: Vec<&str> = [""].into_iter().chain(self.columns.all().iter().map(|(title, ..)| *title)).collect();
        head(&titles) + &shown.iter().map(cells).collect::<String>()
    }
}

impl FiguresTable {
    /// Returns the table as Markdown. Each line is a figure. It has a cell for each kernel with the median and the
    /// range over seeds, and a last cell with the published figures.
    pub fn markdown(&self, results: &Results) -> Result<String, String> {
        let kernels: Vec<&str> = self.kernels.iter().map(|kernel| short(kernel)).collect();
        let mut text = head(&[&["row"], kernels.as_slice(), &["published"]].concat());
        for figure in &self.figures {
            let values = |kernel: &String| -> Result<String, String> {
                let runs = (1..=self.seeds).map(|seed| &results.simulated[&plain(kernel, seed)]);
                let values = runs.map(|figures| match figure.rows().find(|row| !figures.has(row)) {
                    Some(row) => Err(format!("{kernel}: the report has no row `{row}`")),
                    None => Ok(figure.of(figures)),
                });
                Ok(spread(&values.collect::<Result<Vec<_>, _>>()?, figure.suffix()))
            };
            let cells = self.kernels.iter().map(values).collect::<Result<Vec<_>, _>>()?;
            let printed = printed(results, &self.kernels, figure.suffix(), |figures| figure.of(figures));
            let label = figure.label.as_ref().unwrap_or(&figure.row);
            text += &line([label].into_iter().chain(&cells).chain([&printed]));
        }
        Ok(text)
    }
}

/// Returns the text of a table's cell: the published figures of `kernels`, separated by commas, then `suffix`. `of`
/// returns the figure of one kernel. The text is empty if no kernel has the figure.
pub fn printed(results: &Results, kernels: &[impl AsRef<str>], suffix: &str, of: impl Fn(&Figures) -> f64) -> String {
    let value = |kernel: &str| results.printed.get(kernel).map_or(f64::NAN, &of);
    let values: Vec<f64> = kernels.iter().map(|kernel| value(kernel.as_ref())).collect();
    if values.iter().all(|value| value.is_nan()) {
        return String::new();
    }
    with(&values.into_iter().map(amount).collect::<Vec<_>>().join(", "), suffix)
}

/// Returns the short name of a kernel for the heads of columns: `mmotm` for `mm1-mmotm-20130606`.
pub fn short(kernel: &str) -> &str {
    kernel.split('-').find(|part| part.chars().all(char::is_alphabetic)).unwrap_or(kernel)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn figures(operations: f64) -> Figures {
        let rows = [("Ops memcachetest-0M", 200.0), ("Ops memcachetest-715M", operations), ("Ops swapin-715M", 40.0)];
        rows.map(|(row, value)| (row.to_owned(), value)).into_iter().collect()
    }

    #[test]
    fn equal_lines_are_one() {
        let table: RunsTable = toml::from_str("kernel = 'k'\ncolumns = 'queue'").unwrap();
        let runs = [1, 2, 3].map(|seed| plain("k", seed));
        let lines = runs.clone().map(|run| Line { label: format!("s{}", run.seed), source: Source::Runs(vec![run]) });
        let simulated = runs.into_iter().zip([100.0, 50.0, 100.0].map(figures)).collect();
        let text = table.markdown(&lines, &Results { simulated, printed: BTreeMap::new() });
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(
            lines[0].starts_with("| s1 (equal in every figure: s3) |") && lines[0].contains("| 40 | 50 |"),
            "{text}"
        );
        assert!(lines[1].starts_with("| s2 |") && lines.len() == 2, "{text}");
    }

    #[test]
    fn figures_over_seeds_stand_beside_print() {
        let table: FiguresTable = toml::from_str(
            "seeds = 2\nkernels = ['3.10-rc4-vanilla']\nfigures = [{ row = 'Ops memcachetest-715M', percent_of = 'Ops memcachetest-0M', label = 'ops' }]",
        )
        .unwrap();
        let runs = [1, 2].map(|seed| plain("3.10-rc4-vanilla", seed));
        let simulated = runs.into_iter().zip([100.0, 50.0].map(figures)).collect();
        let printed = [("3.10-rc4-vanilla".to_owned(), figures(20.0))].into();
        let results = Results { simulated, printed };
        let expected = "| row | vanilla | published |\n|---|---|---|\n| ops | 37.5 % (25..50) | 10 % |\n";
        assert_eq!(table.markdown(&results).unwrap(), expected);
        let wrong: FiguresTable =
            toml::from_str("seeds = 1\nkernels = ['3.10-rc4-vanilla']\nfigures = [{ row = 'Swap Inns' }]").unwrap();
        assert!(wrong.markdown(&results).unwrap_err().contains("Swap Inns"));
    }

    #[test]
    fn kernels_have_short_names() {
        let names = ["3.10-rc4-vanilla", "mm1-mmotm-20130606", "mm1-lessdisrupt-v1", "7"];
        assert_eq!(names.map(short), ["vanilla", "mmotm", "lessdisrupt", "7"]);
    }
}
