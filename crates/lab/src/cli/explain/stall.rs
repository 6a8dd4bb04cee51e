//! The verb `explain stall`.

use super::super::{
    End, TextFormat,
    beside::parse_window,
    compare::{failed, kernel_of},
    options::{parse_seed, parse_set},
    output::{self, Losses},
    with_command,
};
use figures::scale::Scale;
use figures::trace;
use figures::trace::{RunTrace, Window};
use kit::shown;
use machine::Nanos;
use observe::stalls;
use report::html::Page;
use std::path::PathBuf;
use study::bars::Bars;
use study::plan::{Plan, Request, Set};

/// Arguments of `highwater explain stall`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// The kernel, a name or a file [default: the experiment's first]
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<String>,
    /// Leave out stalls that are shorter than this, ms of the run
    #[arg(long, value_name = "MS", default_value = "10", value_parser = parse_over)]
    over: Nanos,
    /// Number of stalls to explain, the longest first
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    most: u32,
    /// Change a value: KEY of the kernels (`lru.batch`), `params.KEY` of the experiment, `machine.KEY` of the machine. Repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_set)]
    set: Vec<Set>,
    /// Multiply memory, swap, file sizes and disk bandwidth by this number
    #[arg(long, value_name = "1/16", allow_negative_numbers = true)]
    scale: Option<Scale>,
    /// The machine, a name or a file, in place of the experiment's own
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// The random seed, decimal or 0x…
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed, allow_negative_numbers = true)]
    seed: u64,
    /// Write the trace, for ui.perfetto.dev; the explanation of a stall then names its place in the trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Look only at this part of the run, in seconds: 2.1..2.9. A trace has at most a million slices
    #[arg(long, value_name = "FROM..TO", value_parser = parse_window, allow_hyphen_values = true)]
    window: Option<Window>,
    /// The form of the explanation
    #[arg(long, value_enum, default_value_t)]
    format: TextFormat,
    /// Write the explanation to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs an experiment, and shows explanations of its tasks' stalls.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let Arguments { experiment, kernel, over, most, set, scale, machine, seed, window, .. } = arguments;
    let request = Request {
        experiment: experiment.clone(),
        kernels: vec![kernel_of(experiment, kernel.as_ref())?],
        set: set.clone(),
        machine: machine.clone(),
        seed: *seed,
        runs: 1,
        scale: *scale,
        trace: Some(window.unwrap_or_default()),
        ..Request::default()
    };
    let file = output::open_report(arguments.format == TextFormat::Html, arguments.output.as_deref())?;
    let traced = output::open("--trace", arguments.trace.as_deref())?;
    let plan = Plan::new(&request, grounds::find)?;
    let results = {
        let bars = Bars::new(&plan.title(), plan.count());
        plan.run(1, &bars).whole().map_err(|failures| failed(&failures))?
    };
    results.traces.iter().filter_map(RunTrace::warning).for_each(|warning| shown::warn(&warning));
    let found: Vec<_> = results.traces.iter().map(|run| stalls::find(run, *over, *most as usize)).collect();
    let mut losses = Losses::default();
    if let Some(traced) = traced {
        losses.note(traced.write(|out| trace::write(&results.traces, out)));
    }
    let path = arguments.trace.as_ref().map(|path| path.display().to_string());
    let page = || Page {
        title: format!("Why tasks of {experiment} stood still"),
        about: Vec::new(),
        sections: stalls::sections(&found, path.as_deref()),
    };
    losses.note(output::report(file, |out, look| match arguments.format {
        TextFormat::Text => out.write_all(stalls::text(&found, path.as_deref(), look).as_bytes()),
        TextFormat::Markdown => out.write_all(page().markdown().as_bytes()),
        TextFormat::Html => out.write_all(with_command(page()).render().as_bytes()),
        TextFormat::Json => out.write_all(stalls::json(&found).as_bytes()),
    }));
    losses.end()
}

/// Parses a time in ms. The time must be a microsecond or more.
fn parse_over(text: &str) -> Result<Nanos, String> {
    match text.strip_suffix("ms").unwrap_or(text).parse::<f64>() {
        Ok(ms) if (0.001..=1e9).contains(&ms) => Ok(Nanos((ms * 1e6) as u64)),
        _ => Err("expected milliseconds, from 0.001 to 1000000000, such as 10 or 0.5ms".into()),
    }
}
