//! The verb `bench`.

use super::{End, Form, form, with_command};
use grounds::job::Failure;
use report::html::tables;
use report::{ReportFormat, Show};
use std::path::PathBuf;
use study::bench;
use study::bench::Amount;

/// Arguments of `highwater bench`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Number of runs of all measurements; reports show medians and the spread over the runs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    #[arg(allow_negative_numbers = true)]
    runs: u64,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Write the report to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The folder for the file that the measurement reads [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Measures the speed of the simulator and the library in several runs, and shows medians over the runs.
pub fn run(Arguments { runs, format, output, dir }: &Arguments) -> Result<(), End> {
    form::check_is_file(*format)?;
    let form = Form::open(*format, output.as_deref())?;
    let scale = "1/16".parse().expect("a fraction");
    let amount = Amount { runs: *runs, spends: 1_000_000, scale, pages: 1 << 14, hits: 1_000_000 };
    let folder = dir.clone().unwrap_or_else(std::env::temp_dir);
    let table = bench::run(&amount, &folder).map_err(|Failure(message)| End::Failed(message))?;
    form.write(&table, Show::default(), |show| with_command(tables::page(&table, show)))
}
