//! The rows and the remarks of a replay's report.

use super::loaded::Loaded;
use super::worker::Counts;
use crate::meter::Course;
use figures::counters;
use figures::figure::{Better, Format, Row};
use machine::PAGE_BYTES;

/// KiB of a page.
const PAGE_KIB: u64 = PAGE_BYTES as u64 / 1024;

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported<'a> {
    pub course: &'a Course,
    pub counts: &'a Counts,
    /// Number of pages of changed files that were read from the device and verified at the end.
    pub verified: u64,
}

impl Reported<'_> {
    /// Returns the rows of an invented run that has every row.
    pub fn with_everything(course: &Course) -> Vec<Row> {
        let counts = Counts { page_accesses: 1, ..Counts::default() };
        Reported { course, counts: &counts, verified: 0 }.rows()
    }

    /// Returns all rows of the report.
    pub fn rows(&self) -> Vec<Row> {
        let pages = |name: &str, better, value: u64| {
            Row::new("replay", name, "pages", better, Format::Decimals(0), value as f64)
        };
        let mut rows = Vec::new();
        let read = self.course.pages_read_in();
        rows.extend(read.map(|read| pages("Pages read", Better::Lower, read)));
        let written = counters::sum(&self.course.counters, "pgpgout").map(|kib| kib / PAGE_KIB);
        rows.extend(written.map(|written| pages("Pages written", Better::Lower, written)));
        let accesses = self.counts.page_accesses;
        rows.push(pages("Page accesses", Better::Neutral, accesses));
        if let Some(read) = read.filter(|_| accesses > 0) {
            let share = 100.0 * (1.0 - read as f64 / accesses as f64).max(0.0);
            rows.push(Row::new("replay", "Hit ratio", "%", Better::Higher, Format::Decimals(2), share));
        }
        rows.push(pages("Pages verified", Better::Neutral, self.verified));
        rows.extend(self.course.rate_rows("replay"));
        rows.extend(self.course.latency_rows("Request"));
        rows.extend(self.course.cost_rows());
        rows
    }

    /// Returns a line for everything of the trace that the run could not do.
    pub fn report(&self, loaded: &Loaded) -> Vec<String> {
        let Counts { passed_by, behind_end, not_shortened, maps, touches, page_accesses: accesses, .. } = *self.counts;
        let mut lines = Vec::new();
        let mut told = |count: u64, what: &str| {
            if count > 0 {
                lines.push(format!("{}: {count} {what}", loaded.name));
            }
        };
        told(passed_by, "requests were left out: they go past the page cache, or were reads ahead");
        told(behind_end, "requests lie behind the end of their file, and did nothing");
        told(not_shortened, "truncations of mapped files, and holes, were left out");
        if touches == 0 {
            told(maps, "mappings have no recorded touches, so that mapped files are missing: record with --pages");
        }
        if let Some(read) = self.course.pages_read_in().filter(|read| accesses > 0 && *read > accesses) {
            lines.push(format!(
                "the hit ratio is 0 because more pages were read ({read}) than accessed ({accesses}): by readahead, from \
                 swap, or again"
            ));
        }
        lines
    }
}
