//! `highwater bench`.

use super::{End, form, output, with_command};
use crate::bench::{self, Amount};
use crate::html::tables;
use crate::job::Failure;
use crate::report::{self, ReportFormat, Show};
use std::path::PathBuf;

/// Arguments of `highwater bench`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// The folder for the file that is read [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Measures, and shows the medians of all rounds.
pub fn run(Arguments { format, dir }: &Arguments) -> Result<(), End> {
    form::check_is_file(*format)?;
    output::check_standard_output()?;
    let scale = "1/16".parse().expect("a fraction");
    let amount = Amount { rounds: 3, spends: 1_000_000, scale, pages: 1 << 14, hits: 1_000_000 };
    let folder = dir.clone().unwrap_or_else(std::env::temp_dir);
    let table = bench::run(&amount, &folder).map_err(|Failure(message)| End::Failed(message))?;
    output::report(None, |out, look| match format {
        ReportFormat::Html => out.write_all(with_command(tables::page(&table, Show::default())).render().as_bytes()),
        format => report::write(&table, *format, Show { look, ..Show::default() }, out),
    })
}
