//! `highwater variants`: what an experiment hangs on.

use super::{
    End, compare,
    options::{ExperimentOptions, parse_word},
    output,
};
use crate::{
    plot::of_tables,
    report::{self, ReportFormat, Show},
    variants::Variants,
    workloads,
};

/// Arguments of `highwater variants`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// The kernels, in place of the experiment's own; the first is the baseline
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    #[command(flatten)]
    options: ExperimentOptions,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
}

/// Runs an experiment with each of its variants and shows some of its figures.
pub fn run(Arguments { experiment, kernels, options, format }: &Arguments) -> Result<(), End> {
    let output = options.output.open()?;
    let plot = options.output.open_plot()?;
    output::check_apart(&[("--output", output.as_ref()), ("--plot", plot.as_ref())])?;
    let variants = Variants::new(&options.request(experiment, kernels), &options.rows, workloads::find)?;
    if options.output.is_dry(&variants.title(), &variants.titles())? {
        return Ok(());
    }
    let table = variants.run(options.seeds.threads()).map_err(|failures| compare::failed(&failures))?;
    let svg = plot.map(|file| (file, of_tables::variants(&table).draw()));
    output::with_picture(svg, || {
        output::report(output, |out, look| report::write(&table, *format, Show { look, ..Show::default() }, out))
    })
}
