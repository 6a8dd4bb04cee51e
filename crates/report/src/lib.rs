//! Results of runs and the formats in which they are reported.
//!
//! A workload returns [rows](figures::figure::Row), and [`Table`] holds the rows of all columns and seeds. [`text`],
//! [`json`], [`csv`], [`markdown`] and [`crate::html`] write a table; [`saved`] reads the output of [`json`].
//! [`answer`] summarises a table in a sentence or two. [`mod@percent`] has MMTests' rules for the percentages in
//! brackets. [`plot`] draws pictures; [`rows`] selects rows by words.

pub mod answer;
pub mod csv;
pub mod grid;
pub mod html;
pub mod json;
pub mod markdown;
pub mod percent;
pub mod plot;
pub mod rows;
pub mod samples;
pub mod saved;
pub mod show;
pub mod table;
pub mod text;

use std::io;

use kit::shown::write_fields;

pub use figures::histogram::Histogram;
pub use grid::Look;
pub use show::Show;
pub use table::{Column, Failed, Table, TableCell, TableHead, TableRow};

/// An output format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// A table for people: as wide as the terminal, or 100 columns wide in a file or a pipe.
    #[default]
    #[value(alias = "text")]
    Table,
    /// JSON, which docs/json.md describes.
    Json,
    /// CSV, with a line for each row and column.
    Csv,
    /// Markdown tables, for use in a text.
    Markdown,
    /// One page with charts, which opens without a network; docs/report.md describes it.
    Html,
    /// A directory as MMTests writes it. The option --output names the directory.
    Mmtests,
}

/// Writes a table in one format.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(table: &Table, format: ReportFormat, show: Show, out: &mut dyn io::Write) -> io::Result<()> {
    match format {
        ReportFormat::Table => out.write_all(text::render(table, show).as_bytes()),
        ReportFormat::Json => out.write_all(json::render(table).as_bytes()),
        ReportFormat::Csv => write_fields(out, show.look.is_terminal, |out| csv::write(&[table], out)),
        ReportFormat::Markdown => out.write_all(markdown::render(table, show).as_bytes()),
        ReportFormat::Mmtests => Err(io::Error::new(io::ErrorKind::InvalidInput, "MMTests' logs are a directory")),
        ReportFormat::Html => out.write_all(html::tables::page(table, show).render().as_bytes()),
    }
}

/// Writes several tables in one format. Tables of text stand below each other, JSON is one list, and CSV is one file
/// with the experiment as a field. A single table is written as by [`write()`].
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_all(tables: &[&Table], format: ReportFormat, show: Show, out: &mut dyn io::Write) -> io::Result<()> {
    match (tables, format) {
        ([table], _) => write(table, format, show, out),
        (_, ReportFormat::Json) => out.write_all(json::render_list(tables.iter().copied()).as_bytes()),
        (_, ReportFormat::Csv) => write_fields(out, show.look.is_terminal, |out| csv::write(tables, out)),
        _ => tables.iter().enumerate().try_for_each(|(n, table)| {
            out.write_all(if n == 0 { b"" } else { b"\n" })?;
            write(table, format, show, out)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{head, ops};

    #[test]
    fn names_do_nothing_to_a_terminal_and_stay_as_they_are_in_files() {
        let name = "Ops \u{1b}[2J\u{9b}31m";
        let table = Table::of_runs(head(&["a"], 1), &[vec![vec![ops(name, 1.0)]]], None);
        let of = |tables: &[&Table], format, is_terminal| {
            let look = Look { is_terminal, ..Look::default() };
            let mut out = Vec::new();
            write_all(tables, format, Show { look, ..Show::default() }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let acts = |text: &str| text.contains(|c: char| c.is_control() && c != '\n');
        for tables in [&[&table][..], &[&table, &table]] {
            for format in [ReportFormat::Table, ReportFormat::Json, ReportFormat::Csv, ReportFormat::Markdown] {
                assert!(!acts(&of(tables, format, true)), "{format:?}: {:?}", of(tables, format, true));
            }
            assert!(of(tables, ReportFormat::Csv, false).contains(name), "a program reads names as they are");
        }
        assert_eq!(saved::read(&of(&[&table], ReportFormat::Json, false)).unwrap().rows[0].name, name);
    }
}
