//! `highwater truth`: holds kernel files against a kernel image.

use serde::Serialize;

use super::{
    End, compare,
    options::{OutputOptions, SeedOptions, each_once, parse_word},
    output,
};
use catalogue::ground::Place;
use kit::shown;
use std::path::PathBuf;
use study::bars::Bars;
use study::plan::{self, Plan, cost};
use study::truth::{self, Held, Load};

/// Arguments of `highwater truth`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Names of loads [default: all]
    loads: Vec<String>,
    /// The kernel, a bzImage; see `highwater guest check`. Repeatable
    #[arg(long, value_name = "FILE", required = true)]
    kernel_image: Vec<PathBuf>,
    /// The folder with its modules [default: lib/modules near the image, or of this computer]
    #[arg(long, value_name = "DIR")]
    kernel_modules: Option<PathBuf>,
    /// The kernel files [default: those nearest to the image's version]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// The folder for disks of guests, which are removed at the end [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Show all counters. Without this, those that diverge
    #[arg(long)]
    all: bool,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// The form of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text.
    #[default]
    Text,
    /// JSON, for programs.
    Json,
}

/// The report as JSON.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    notes: &'a [String],
    held: &'a [Held],
}

/// Runs the loads on `sim` and `guest`, and says which counters agree.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let suite = truth::suite();
    let loads = named(&arguments.loads)?;
    let output = arguments.output.open(false)?;
    let place = Place {
        folder: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
        kernel_images: arguments.kernel_image.clone(),
        kernel_modules: arguments.kernel_modules.clone(),
        ..Place::default()
    };
    let SeedOptions { seed, runs, .. } = arguments.seeds;
    let plan = |load: &&Load| {
        let plan = Plan::new(&load.request(&arguments.kernels, &place, seed, runs.into()), grounds::find)?;
        match plan.skipped() {
            [] => Ok(plan.titled(|title| format!("{} {title}", load.name))),
            skipped => Err(End::Usage(skipped.join("; "))),
        }
    };
    let plans = loads.iter().map(plan).collect::<Result<Vec<_>, End>>()?;
    let titles: Vec<String> = plans.iter().flat_map(Plan::titles).collect();
    if arguments.output.is_dry("truth", &titles, &cost::in_words(&plans))? {
        return Ok(());
    }
    let bars = Bars::new("truth", titles.len());
    let results = plan::run_all(&plans, arguments.seeds.threads(), &bars);
    let failures = compare::all_failures(&results)?;
    let of_load = |(load, (_, results)): (&&Load, &(&Plan, _))| -> Vec<Held> {
        let results: &plan::Results = results;
        truth::held(suite, load, &results.table)
    };
    let held: Vec<Held> = loads.iter().zip(&results).flat_map(of_load).collect();
    let mut notes: Vec<String> = results.iter().flat_map(|(_, results)| results.table.notes.clone()).collect();
    notes.sort_unstable();
    notes.dedup();
    let text = match arguments.format {
        Format::Text => format!("{}\n{}\n", truth::text(&held, arguments.all), notes.join("\n")),
        Format::Json => shown::json(&Report { schema: 1, notes: &notes, held: &held }),
    };
    let mut losses = output::Losses::default();
    losses.note(output::report(output, |out, _| out.write_all(text.as_bytes())));
    losses.note(compare::ended(&failures));
    losses.end()
}

/// Returns the named loads, or all.
fn named(names: &[String]) -> Result<Vec<&'static Load>, End> {
    let loads = &truth::suite().loads;
    if names.is_empty() {
        return Ok(loads.iter().collect());
    }
    let find = |name: &String| {
        loads.iter().find(|load| load.name == *name).ok_or_else(|| {
            let known: Vec<String> = loads.iter().map(|load| format!("  {:<16}{}", load.name, load.about)).collect();
            End::Usage(format!("no load is called `{name}`; those that there are:\n{}", known.join("\n")))
        })
    };
    each_once(names).iter().map(find).collect()
}
