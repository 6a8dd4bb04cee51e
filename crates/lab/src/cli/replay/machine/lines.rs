//! The figures of a trace on a machine: a line for each size of memory, kernel and other values.

use super::asked::Asked;
use catalogue::ground::Ground;
use report::{Column, Table};

/// The figures of a line, in the order of their columns.
pub const FIGURES: [LineFigure; 6] = [
    LineFigure { row: "Pages read", name: "pages read", key: "pages_read", digits: 0 },
    LineFigure { row: "workingset_refault_file", name: "refaults", key: "workingset_refault_file", digits: 0 },
    LineFigure { row: "Hit ratio", name: "hits, %", key: "hit_percent", digits: 2 },
    LineFigure { row: "pgmajfault", name: "major faults", key: "pgmajfault", digits: 0 },
    LineFigure { row: "Pages written", name: "pages written", key: "pages_written", digits: 0 },
    LineFigure { row: "Elapsed", name: "time, s", key: "elapsed_s", digits: 2 },
];

/// Place of the pages read among [`FIGURES`].
pub const READ: usize = 0;

/// Place of the refaults among [`FIGURES`].
pub const REFAULTS: usize = 1;

/// If the pages read at a nearby size differ by more than this share from those at the size itself, the size is near a
/// cliff.
const CLIFF: f64 = 0.25;

/// A figure of a line.
#[derive(Clone, Copy, Debug)]
pub struct LineFigure {
    /// Name of the row that has the figure.
    pub row: &'static str,
    /// Name in tables.
    pub name: &'static str,
    /// Name in CSV and JSON.
    pub key: &'static str,
    /// Number of digits after the point.
    pub digits: usize,
}

/// The figures at one size of memory.
#[derive(Clone, Debug)]
pub struct Line {
    /// Memory, pages.
    pub pages: u64,
    /// The medians of [`FIGURES`]; none for a figure that the ground does not have, or if the run failed.
    pub figures: [Option<f64>; FIGURES.len()],
    /// The least and the most pages read at this size and at nearby sizes, over all seeds.
    pub range: Option<(f64, f64)>,
    /// Whether a little more or less memory changes the pages read by much.
    pub is_cliff: bool,
}

/// The lines of one kernel with one combination of other values.
#[derive(Clone, Debug)]
pub struct Case {
    /// The kernel, and the ground if it is not the simulator.
    pub kernel: String,
    /// Other values, such as `swappiness=10`.
    pub values: String,
    /// A line for each size of memory, in the order of the user.
    pub lines: Vec<Line>,
    /// Memory and pages read at all sizes that ran, in ascending order.
    pub curve: Vec<(u64, f64)>,
    /// Memory and refaults likewise.
    pub refaults: Vec<(u64, f64)>,
}

impl Case {
    /// Returns the name of the case: kernel and values.
    pub fn name(&self) -> String {
        if self.values.is_empty() { self.kernel.clone() } else { format!("{} {}", self.kernel, self.values) }
    }
}

/// All lines.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The cases, in the order of the runs.
    pub cases: Vec<Case>,
    /// Whether any case has other values than memory and kernel.
    pub has_values: bool,
}

impl Lines {
    /// Takes the figures out of the table of the runs.
    pub fn of(table: &Table, asked: &Asked) -> Self {
        let mut cases: Vec<Columns> = Vec::new();
        for (number, column) in table.columns.iter().enumerate() {
            let Some(pages) = asked.memory_of(column) else { continue };
            let (kernel, values) = (kernel_of(column), values_of(column, asked));
            match cases.iter_mut().find(|case| (&case.kernel, &case.values) == (&kernel, &values)) {
                Some(case) => case.columns.push((pages, number)),
                None => cases.push(Columns { kernel, values, columns: vec![(pages, number)] }),
            }
        }
        let cases: Vec<Case> = cases.into_iter().map(|case| case_of(table, asked, case)).collect();
        let has_values = cases.iter().any(|case| !case.values.is_empty());
        Self { cases, has_values }
    }
}

/// The columns of a case: kernel, other values, and the memory and number of each column.
struct Columns {
    kernel: String,
    values: String,
    columns: Vec<(u64, usize)>,
}

fn kernel_of(column: &Column) -> String {
    if column.ground == Ground::Sim.to_string() {
        column.kernel.clone()
    } else {
        format!("{}-{}", column.ground, column.kernel)
    }
}

fn values_of(column: &Column, asked: &Asked) -> String {
    let is_told = |key: &str| key != asked.memory_key && asked.silent.iter().all(|silent| silent != key);
    let values = column.set.iter().filter(|(key, _)| is_told(key));
    let words: Vec<String> =
        values.map(|(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key))).collect();
    words.join(" ")
}

fn case_of(table: &Table, asked: &Asked, Columns { kernel, values, columns }: Columns) -> Case {
    let row = |figure: &LineFigure| table.rows.iter().find(|row| row.name == figure.row);
    let value = |figure: usize, column: usize| row(&FIGURES[figure])?.median(column);
    let column_of = |pages: u64| columns.iter().find(|(of, _)| *of == pages).map(|(_, column)| *column);
    let curve_of = |figure: usize| {
        let mut curve: Vec<(u64, f64)> =
            columns.iter().filter_map(|(pages, column)| Some((*pages, value(figure, *column)?))).collect();
        curve.sort_by_key(|(pages, _)| *pages);
        curve
    };
    let samples = |column: usize| {
        let cell = row(&FIGURES[READ]).and_then(|row| row.cells.get(column));
        cell.and_then(|cell| cell.value).map(|value| [value.low, value.high])
    };
    let line = |pages: &u64| {
        let pages = *pages;
        let own = column_of(pages);
        let figures = std::array::from_fn(|figure| own.and_then(|column| value(figure, column)));
        let nearby: Vec<usize> = asked.nearby(pages).filter_map(column_of).collect();
        let all: Vec<f64> = nearby.iter().copied().chain(own).filter_map(samples).flatten().collect();
        let range = all.iter().copied().reduce(f64::min).zip(all.iter().copied().reduce(f64::max));
        let is_far = |here: f64, there: f64| (here - there).abs() > CLIFF * here.min(there).max(1.0);
        // A size whose runs failed has no figure, and says nothing about a cliff.
        let read_nearby = || nearby.iter().filter_map(|column| value(READ, *column));
        let is_cliff = figures[READ].is_some_and(|here| read_nearby().any(|there| is_far(here, there)));
        Line { pages, figures, range, is_cliff }
    };
    let lines = asked.memory_pages.iter().map(line).collect();
    Case { lines, curve: curve_of(READ), refaults: curve_of(REFAULTS), kernel, values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::figure::{Better, Format, Row};
    use report::TableHead;
    use study::plan::Request;

    /// Returns the line of a machine of 1000 pages, where runs with 900, 1000 and 1100 pages have read so many pages;
    /// none if a run failed.
    fn line(read: [Option<f64>; 3]) -> Line {
        let asked = Asked {
            request: Request::default(),
            memory_pages: vec![1000],
            memory_key: "memory",
            silent: Vec::new(),
            has_nearby: true,
            given: Vec::new(),
            read_ahead_kb: None,
        };
        let column = |pages: u64| Column {
            id: format!("k memory={pages}"),
            set: [("memory".to_owned(), pages.to_string())].into(),
            ..Column::new("k", Ground::Sim)
        };
        let columns = [900, 1000, 1100].map(column);
        assert_eq!(columns.each_ref().map(|column| asked.is_only_nearby(column)), [true, false, true]);
        let head = TableHead {
            experiment: "trace".into(),
            machine: "m".into(),
            scale: figures::scale::Scale::FULL,
            seeds: vec![1],
            fingerprint: None,
            columns: columns.to_vec(),
            notes: Vec::new(),
        };
        let row = |value| Row::new("g", FIGURES[READ].row, "pages", Better::Lower, Format::Decimals(0), value);
        let runs: [Vec<Vec<Row>>; 3] = read.map(|value| vec![value.map(row).into_iter().collect()]);
        Lines::of(&Table::of_runs(head, &runs, None), &asked).cases.remove(0).lines.remove(0)
    }

    #[test]
    fn a_nearby_size_that_failed_is_no_cliff() {
        let whole = line([Some(5000.0), Some(3000.0), Some(2900.0)]);
        assert_eq!((whole.is_cliff, whole.range), (true, Some((2900.0, 5000.0))));
        let part = line([None, Some(3000.0), Some(2900.0)]);
        assert_eq!((part.is_cliff, part.range), (false, Some((2900.0, 3000.0))));
        assert!(!line([Some(5000.0), None, Some(2900.0)]).is_cliff);
    }
}
