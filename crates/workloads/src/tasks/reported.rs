//! The rows of a load's report.

use super::described::{Misses, Params};
use super::run::{self, Durations};
use crate::meter::{Course, latency_rows};
use figures::figure::{Better, Format, Row};
use figures::histogram::Times;
use hdrhistogram::Histogram;

/// The measurements of a run and the parameters of its load, from which the report's rows are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported<'a> {
    pub params: &'a Params,
    pub course: &'a Course,
    /// The durations of operations, by row, in the order of [`Described::row_names`](super::Described::row_names).
    pub durations: &'a Durations,
    /// Number of verified pages, in files that the load's tasks had written.
    pub verified: u64,
}

impl Reported<'_> {
    /// Returns the rows of an invented run that has every row that a run of the load can have.
    pub fn with_everything(params: &Params, course: &Course) -> Vec<Row> {
        let mut durations = run::no_durations(&params.row_names());
        for of_row in &mut durations {
            of_row.record(1).expect("it grows as far as need be");
        }
        Reported { params, course, durations: &durations, verified: 0 }.rows()
    }

    /// Returns all rows of the report: rates, hit ratio, durations of each kind of operation, CPU time and counters,
    /// and verified pages.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.course.rate_rows(&self.params.name);
        // What tasks in the background read in is no miss of the measured operations.
        if !self.params.is_read_in_background() {
            rows.extend(match self.params.misses() {
                Misses::PagesReadIn => {
                    self.params.pages_of_operations().and_then(|pages| self.course.page_hit_row("Hit ratio", pages, 0))
                }
                Misses::MajorFaults => self.course.fault_hit_row("Hit ratio"),
            });
        }
        for (name, durations) in self.rows_with_durations() {
            match durations {
                None => rows.extend(self.course.latency_rows(name)),
                Some(durations) => {
                    rows.extend(self.rate_of(name, durations));
                    rows.extend(latency_rows(name, durations));
                }
            }
        }
        rows.extend(self.course.cost_rows());
        if self.params.writes() {
            let verified = self.verified as f64;
            rows.push(Row::new("verified", "Pages verified", "pages", Better::Neutral, Format::Decimals(0), verified));
        }
        rows
    }

    /// Returns the durations of operations, as histograms for the report's rows of durations.
    pub fn times(&self) -> Vec<Times> {
        let of_row = |(name, durations): (&str, Option<&Histogram<u64>>)| match durations {
            None => self.course.times(name),
            Some(durations) => Times::of(name, durations).into_iter().collect(),
        };
        self.rows_with_durations().flat_map(of_row).collect()
    }

    /// Returns the name of each row of durations, and the durations that the row shows. The durations are `None` for
    /// one row: the row whose operations are exactly the measured ones. Its durations are in `course`, which keeps
    /// those from before memory was full apart from those after it.
    fn rows_with_durations(&self) -> impl Iterator<Item = (&str, Option<&Histogram<u64>>)> {
        let whole = self.params.row_of_all();
        let names = self.params.row_names();
        names
            .into_iter()
            .zip(self.durations)
            .map(move |(name, durations)| (name, (whole != Some(name)).then_some(durations)))
    }

    /// Returns a row with the rate, over the whole run, of the operations whose durations are in the row `name`; none
    /// if the row shows only syncs after writes.
    fn rate_of(&self, name: &str, durations: &Histogram<u64>) -> Option<Row> {
        let rate = durations.len() as f64 / self.course.elapsed_s().max(1e-9);
        let row = format!("Ops {} {name}", self.params.name);
        self.params
            .is_row_of_operations(name)
            .then(|| Row::new("Ops", row, "ops/s", Better::Higher, Format::Decimals(0), rate))
    }
}
