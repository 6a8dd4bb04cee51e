//! The table of a report: the figures of all columns and seeds. Every report format is made from it.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use catalogue::experiment::Published;
use figures::figure::{Better, Format, PublishedFigure, Row, RowName};
use figures::histogram::Histogram;
use figures::scale::Scale;
use figures::statistics::{Estimate, coverage, percent};
use figures::verdict::{Comparison, Sample};
use kit::words::counted;

/// One column of a table: a kernel and the ground where it ran, such as the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Unique name of the column: the name of the kernel, unless several columns have this kernel.
    pub id: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Name of the ground, which is where the workload ran: `sim`, `host`, `linux` or `guest`.
    pub ground: String,
    /// Settings that differ from the kernel file, by key.
    pub set: BTreeMap<String, String>,
    /// `true` if published figures may be compared with this column: its kernel is built into this program, and is not
    /// a user's file of the same name.
    #[serde(skip)]
    pub comparable: bool,
    /// The file of the saved report from which the column was read; none for a column whose runs belong to this report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// Reasons why runs failed, the most frequent first; empty if no run failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failed>,
    /// Number of runs in which the out-of-memory killer ended some of the workload's tasks, but not all. The figures of
    /// such a run are those of the tasks that were left, so that they are not compared.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bereft: usize,
}

fn is_zero(runs: &usize) -> bool {
    *runs == 0
}

/// A reason for which runs of a column failed, and the number of these runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The reason for which the runs failed, without details that vary by seed.
    pub why: String,
    /// Number of runs that failed for this reason.
    pub runs: usize,
    /// Number of all runs of the column.
    pub of: usize,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} of {})", self.why, self.runs, self.of)
    }
}

impl Column {
    /// Makes a column named after its kernel, without changed settings, without published figures, and not from a file.
    #[must_use]
    pub fn new(kernel: &str, ground: impl fmt::Display) -> Self {
        Self {
            id: kernel.to_owned(),
            kernel: kernel.to_owned(),
            ground: ground.to_string(),
            set: BTreeMap::new(),
            comparable: false,
            saved: None,
            failed: Vec::new(),
            bereft: 0,
        }
    }

    /// Adds a failed run with its reason `why`. `of` is the number of all runs of the column.
    pub fn add_failure(&mut self, why: &str, of: usize) {
        match self.failed.iter_mut().find(|it| it.why == why) {
            Some(known) => known.runs += 1,
            None => self.failed.push(Failed { why: why.to_owned(), runs: 1, of }),
        }
        self.failed.sort_by_key(|it| std::cmp::Reverse(it.runs));
    }

    /// Returns the reasons why runs failed, as text: `failed: out of memory (3 of 3)`; none if no run failed.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let reasons: Vec<String> = self.failed.iter().map(ToString::to_string).collect();
        (!reasons.is_empty()).then(|| format!("failed: {}", reasons.join(", ")))
    }

    /// Returns the words for cells of the column that have no figure because its runs failed: `killed (3 of 3)` if the
    /// out-of-memory killer ended all of three tasks, otherwise `failed`.
    #[must_use]
    pub fn cell_of_failure(&self) -> &str {
        let is_kill = |it: &&Failed| it.why.starts_with("killed (");
        self.failed.first().filter(is_kill).map_or("failed", |it| it.why.as_str())
    }

    /// Returns whether every run of the column failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.first().is_some_and(|first| self.failed.iter().map(|it| it.runs).sum::<usize>() >= first.of)
    }
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// Name of the block of rows that contains this row, as in [`Row`].
    pub group: String,
    /// Name of the row, as in [`Row`].
    pub name: String,
    /// Unit of the figures, as in [`Row`].
    pub unit: String,
    /// The direction in which the figures of the row are better: higher or lower, as in [`Row`].
    pub better: Better,
    /// Format of the figures, as in [`Row`].
    pub format: Format,
    /// A cell for each column.
    pub cells: Vec<TableCell>,
}

/// The figures of a row in one column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableCell {
    /// The figure over the column's runs; none if no run has the row.
    pub value: Option<Estimate>,
    /// The figure of each seed.
    pub samples: Vec<Sample>,
    /// `true` if some tasks of the workload were killed in a run of the column ([`Column::bereft`]).
    pub is_of_survivors: bool,
    /// The figure that a posting or paper states for this row and kernel, if any.
    pub published: Option<PublishedFigure>,
}

impl TableRow {
    /// Returns the row's median in a column. `column` is the column's index. None if the column has no figure.
    #[must_use]
    pub fn median(&self, column: usize) -> Option<f64> {
        Some(self.cells.get(column)?.value?.median)
    }

    /// Returns the comparison of a column with the baseline. Returns none for the baseline itself, and if either column
    /// has no value. Also returns none for a row that shows the time at which something happened ([`Format::Moment`]),
    /// because it may not happen in some runs.
    #[must_use]
    pub fn comparison(&self, column: usize) -> Option<Comparison> {
        let is_moment = matches!(self.format, Format::Moment(_));
        if column == 0 || is_moment { None } else { self.compared(0, column) }
    }

    /// Returns the comparison of the column `column` with the column `base`; none if either has no value, or if tasks of
    /// either were killed.
    #[must_use]
    pub fn compared(&self, base: usize, column: usize) -> Option<Comparison> {
        if [base, column].into_iter().any(|it| self.cells.get(it).is_some_and(|cell| cell.is_of_survivors)) {
            return None;
        }
        let samples = |column: usize| Some(self.cells.get(column)?.samples.as_slice());
        Comparison::of(self.better, samples(base)?, samples(column)?)
    }

    /// Returns the indices of the best columns: the column with the best median, and each column whose difference from
    /// it may be chance. Returns no columns in three cases: if that would be all columns, if neither higher nor lower
    /// figures are better, or if the figure is the time at which something happened ([`Format::Moment`]).
    #[must_use]
    pub fn best(&self) -> Vec<usize> {
        let before = |a: f64, b: f64| match self.better {
            Better::Higher => a > b,
            Better::Lower => a < b,
            Better::Neutral => false,
        };
        let is_whole = |column: &usize| !self.cells[*column].is_of_survivors;
        let numbered = (0..self.cells.len()).filter(is_whole).filter_map(|column| Some((column, self.median(column)?)));
        let all: Vec<(usize, f64)> = numbered.filter(|(_, median)| !median.is_nan()).collect();
        let first = all.iter().copied().reduce(|best, it| if before(it.1, best.1) { it } else { best });
        let Some((first, _)) =
            first.filter(|_| self.better != Better::Neutral && !matches!(self.format, Format::Moment(_)))
        else {
            return Vec::new();
        };
        let is_apart = |column: usize| self.compared(first, column).is_some_and(|it| it.verdict.is_told_apart());
        let (worse, best): (Vec<usize>, Vec<usize>) =
            all.iter().map(|(column, _)| *column).partition(|it| is_apart(*it));
        if worse.is_empty() { Vec::new() } else { best }
    }

    /// Returns whether the row has any published figure.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.cells.iter().any(|cell| cell.published.is_some())
    }

    /// Returns whether the first column, which is the baseline of percentages, has a published figure in this row.
    #[must_use]
    pub fn has_published_base(&self) -> bool {
        self.cells.first().is_some_and(|cell| cell.published.is_some())
    }
}

/// The figures of a comparison: a row for each quantity, and a column for each kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the machine.
    pub machine: String,
    /// The factor by which memory, files and disk bandwidth of the experiment were multiplied.
    pub scale: Scale,
    /// The seeds of the runs, in order.
    pub seeds: Vec<u64>,
    /// Hash over the fingerprints of all simulated runs, in the order of columns and seeds; none if no run was
    /// simulated.
    pub fingerprint: Option<u64>,
    /// The columns; the first is the baseline.
    pub columns: Vec<Column>,
    /// Notes, one line each: about runs in real time, or about settings without effect. They are shown below the table
    /// in every format; for CSV, which has no place for them, they are printed on standard error.
    pub notes: Vec<String>,
    /// Names of the rows that the experiment names as main rows. The first is the main row, which the report's answer
    /// is about. Empty if the experiment names none.
    pub main_rows: Vec<String>,
    /// The rows, in the order of their first occurrence in a run.
    pub rows: Vec<TableRow>,
    /// Durations of operations, for workloads that measure each operation.
    pub histograms: Vec<Histogram>,
}

impl Table {
    /// Makes a table from the rows of runs. `runs[column][seed]` holds the rows of one run; it is empty for a run that
    /// failed or was not done. Repetitions without seeds are numbered from 1. The `published` figures are used only at
    /// full size, and left out at other scales.
    #[must_use]
    pub fn of_runs(head: TableHead, runs: &[Vec<Vec<Row>>], published: Option<&Published>) -> Self {
        let TableHead { experiment, machine, scale, seeds, fingerprint, columns, notes } = head;
        let mut found: Vec<(&Row, Vec<Vec<Sample>>)> = Vec::new();
        for (column, runs) in runs.iter().enumerate() {
            let seed = |n: usize| seeds.get(n).copied().unwrap_or(n as u64 + 1);
            for (seed, row) in runs.iter().enumerate().flat_map(|(n, rows)| rows.iter().map(move |row| (seed(n), row)))
            {
                let known = found.iter().position(|(known, _)| known.group == row.group && known.name == row.name);
                let at = known.unwrap_or_else(|| {
                    found.push((row, vec![Vec::new(); columns.len()]));
                    found.len() - 1
                });
                found[at].1[column].push(Sample { seed, value: row.value });
            }
        }
        let published = published.filter(|_| scale.is_full());
        let rows = found.into_iter().map(|(row, samples)| TableRow {
            group: row.group.clone(),
            name: row.name.clone(),
            unit: row.unit.clone(),
            better: row.better,
            format: row.format,
            cells: columns
                .iter()
                .zip(samples)
                .map(|(column, samples)| TableCell {
                    value: figures::statistics::estimate(&samples.iter().map(|it| it.value).collect::<Vec<_>>()),
                    samples,
                    is_of_survivors: column.bereft > 0,
                    published: published
                        .filter(|_| column.comparable)
                        .and_then(|published| published.figure(&row.group, &row.name, &column.kernel)),
                })
                .collect(),
        });
        let rows = in_blocks(rows.collect());
        let (main_rows, histograms) = (Vec::new(), Vec::new());
        Self { experiment, machine, scale, seeds, fingerprint, columns, notes, main_rows, rows, histograms }
    }

    /// Adds those of `rows` that the table does not have yet, with empty cells. `rows` come from runs whose figures do
    /// not count because the runs failed.
    pub fn add_without_figures(&mut self, rows: &[Row]) {
        for row in rows {
            if self.rows.iter().all(|known| known.group != row.group || known.name != row.name) {
                self.rows.push(TableRow {
                    group: row.group.clone(),
                    name: row.name.clone(),
                    unit: row.unit.clone(),
                    better: row.better,
                    format: row.format,
                    cells: vec![TableCell::default(); self.columns.len()],
                });
            }
        }
        self.rows = in_blocks(std::mem::take(&mut self.rows));
    }

    /// Returns the cells of a row, each with its column.
    pub fn cells<'t>(&'t self, row: &'t TableRow) -> impl Iterator<Item = (&'t Column, &'t TableCell)> {
        self.columns.iter().zip(&row.cells)
    }

    /// Returns the names of the table's rows.
    pub fn row_names(&self) -> impl Iterator<Item = RowName> {
        self.rows.iter().map(|row| RowName { group: row.group.clone(), name: row.name.clone() })
    }

    /// Returns the lines to show below the table: its notes, and the columns whose runs failed.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let failed = self.columns.iter().filter_map(|column| {
            let rest = if column.has_failed() { "" } else { "; its figures are of the other runs" };
            Some(format!("{} {}{rest}", column.id, column.failure()?))
        });
        failed.chain(self.notes.iter().cloned()).collect()
    }

    /// Returns whether all columns are simulated.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.columns.iter().all(|column| column.ground == "sim")
    }

    /// Returns whether any column comes from a saved report.
    #[must_use]
    pub fn has_saved(&self) -> bool {
        self.columns.iter().any(|column| column.saved.is_some())
    }

    /// Returns the line that stands below a printed report: seeds, number of columns, machine, scale and fingerprint.
    #[must_use]
    pub fn footer(&self) -> String {
        let seeds = match self.seeds.as_slice() {
            [seed] => format!("seed {seed}"),
            [first, .., last] => {
                let seeds = self.seeds.len();
                let known = match coverage(seeds) {
                    Some(coverage) => format!("{} interval", percent(coverage)),
                    None => "range".into(),
                };
                format!("median and {known} of {seeds} runs, seeds {first} to {last}")
            }
            [] => "no seed".into(),
        };
        // Saved reports have seeds and scales of their own, which their notes state.
        let is_all_saved = self.columns.iter().all(|column| column.saved.is_some());
        if is_all_saved && !self.columns.is_empty() {
            return format!("{} · machine {}", counted(self.columns.len(), "column"), self.machine);
        }
        let is_simulated = self.is_simulated() && !self.has_saved();
        let kernels = counted(self.columns.len(), if is_simulated { "kernel" } else { "column" });
        let Self { machine, scale, .. } = self;
        let mut footer = format!("{seeds} · {kernels} · machine {machine} · scale {scale}");
        if let Some(fingerprint) = self.fingerprint {
            let of = if is_simulated { "" } else { " of sim" };
            footer.push_str(&format!(" · fingerprint{of} {fingerprint:016x}"));
        }
        footer
    }

    /// Returns each group with its rows, in the order of the groups' first rows.
    pub fn blocks(&self) -> impl Iterator<Item = (&str, &[TableRow])> {
        self.rows.chunk_by(|a, b| a.group == b.group).map(|rows| (rows[0].group.as_str(), rows))
    }
}

/// The parts of a [`Table`] other than its rows.
#[derive(Clone, Debug)]
pub struct TableHead {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the machine.
    pub machine: String,
    /// The factor by which memory, files and disk bandwidth of the experiment were multiplied.
    pub scale: Scale,
    /// The seeds of the runs, in order.
    pub seeds: Vec<u64>,
    /// Hash over the fingerprints of all simulated runs; none if no run was simulated.
    pub fingerprint: Option<u64>,
    /// The table's columns.
    pub columns: Vec<Column>,
    /// Notes on runs in real time.
    pub notes: Vec<String>,
}

/// Returns the rows sorted by group. Groups are in the order of their first rows.
pub(crate) fn in_blocks(rows: Vec<TableRow>) -> Vec<TableRow> {
    let mut groups: Vec<String> = Vec::new();
    for row in &rows {
        if !groups.contains(&row.group) {
            groups.push(row.group.clone());
        }
    }
    let mut rows = rows;
    rows.sort_by_key(|row| groups.iter().position(|group| *group == row.group));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{head, ops};
    use figures::figure::duration_rows;

    #[test]
    fn rows_of_several_runs_become_a_median_and_groups_stay_together() {
        let run = |value: f64| vec![ops("Ops a", value), duration_rows(1.0, 2.0, 3.0)[0].clone(), ops("Ops b", 1.0)];
        let runs = vec![vec![run(1.0), run(3.0), run(2.0)], vec![run(5.0), run(6.0), vec![]]];
        let table = Table::of_runs(head(&["a", "b"], 3), &runs, None);
        let names: Vec<&str> = table.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["Ops a", "Ops b", "User"]);
        assert_eq!(table.rows[0].cells[0].value.map(|e| (e.median, e.n)), Some((2.0, 3)));
        assert_eq!(table.rows[0].cells[1].value.map(|e| (e.median, e.n)), Some((5.5, 2)));
        assert_eq!(
            table.blocks().map(|(group, rows)| (group, rows.len())).collect::<Vec<_>>(),
            [("Ops", 2), ("duration", 1)]
        );
    }

    #[test]
    fn footers_name_what_is_needed_to_repeat_a_run() {
        let mut table = Table::of_runs(head(&["a"], 1), &[vec![]], None);
        let end = "1 kernel · machine parallelio-8g · scale 1 · fingerprint 0000000000005f0c";
        assert_eq!(table.footer(), format!("seed 1 · {end}"));
        table.columns[0].ground = "host".into();
        assert!(
            table
                .footer()
                .ends_with("1 column · machine parallelio-8g · scale 1 · fingerprint of sim 0000000000005f0c")
        );
        table.fingerprint = None;
        assert!(table.footer().ends_with("1 column · machine parallelio-8g · scale 1"));
        table.seeds = (1..=5).collect();
        assert!(table.footer().starts_with("median and range of 5 runs, seeds 1 to 5 · "));
        table.seeds = (1..=10).collect();
        assert!(table.footer().starts_with("median and 97.8% interval of 10 runs, seeds 1 to 10 · "));
    }
}
