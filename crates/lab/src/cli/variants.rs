//! `highwater variants`: what an experiment hangs on.

use std::{io, path::PathBuf};

use super::{End, compare, output::Output, parse_seed, parse_word};
use crate::{
    plan::Request,
    report::{self, ReportFormat, Show},
    runner,
    scale::Scale,
    variants::Variants,
    workloads,
};

/// Arguments of `highwater variants`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// Kernels in place of the experiment's own; the first is the baseline
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// The rows to show, by their names, in place of the experiment's own choice
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    rows: Vec<String>,
    /// The random seed, decimal or 0x…; the first one with --runs
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed, allow_negative_numbers = true)]
    seed: u64,
    /// How many seeds: the table shows medians and their 95% intervals
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// A smaller experiment, as in `highwater compare`
    #[arg(long, value_name = "1/16", allow_negative_numbers = true)]
    scale: Option<Scale>,
    /// A machine in place of the experiment's own, a name or a file
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// How many simulations run side by side [default: one on each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    jobs: Option<u32>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Write the report to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs an experiment with each of its variants and shows some of its figures.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let Arguments { experiment, kernels, rows, seed, runs, scale, machine, jobs, format, output } = arguments;
    let output = output.as_deref().map(Output::open).transpose()?;
    let request = Request {
        experiment: experiment.clone(),
        kernels: kernels.clone(),
        machine: machine.clone(),
        seed: *seed,
        runs: (*runs).into(),
        scale: *scale,
        ..Request::default()
    };
    let variants = Variants::new(&request, rows, workloads::find)?;
    let threads = jobs.map_or_else(runner::all_cores, |jobs| jobs as usize);
    let table = variants.run(threads).map_err(|failures| compare::failed(&failures))?;
    let write = |out: &mut dyn io::Write| report::write(&table, *format, Show::default(), out);
    match output {
        Some(output) => output.write(write),
        None => Ok(write(&mut io::stdout().lock())?),
    }
}
