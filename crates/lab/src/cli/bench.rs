//! `highwater bench`.

use super::{End, output};
use crate::bench::{self, Amount};
use crate::job::Failure;
use crate::report::{ReportFormat, Show};
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
    output::check_standard_output()?;
    let scale = "1/16".parse().expect("a fraction");
    let amount = Amount { rounds: 3, spends: 1_000_000, scale, pages: 1 << 14, hits: 1_000_000 };
    let folder = dir.clone().unwrap_or_else(std::env::temp_dir);
    let table = bench::run(&amount, &folder).map_err(|Failure(message)| End::Failed(message))?;
    output::report(None, |out, look| super::write_table(&table, *format, Show { look, ..Show::default() }, out))
}
