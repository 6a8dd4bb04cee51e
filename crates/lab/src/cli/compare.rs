//! `highwater compare` and `highwater run`.

use std::{io, path::PathBuf};

use machine::Nanos;

use super::{End, output::Output, parse_seed, parse_word, rows};
use crate::{
    ground::{Ground, Place},
    plan::{JobFailure, Plan, Request, Set},
    progress::Bars,
    report::{self, ReportFormat, Show, percent::PercentRule},
    runner,
    scale::Scale,
    series,
    trace::{self, RunTrace, Window},
    workloads,
};

/// Arguments of `highwater compare`.
#[derive(clap::Args)]
pub struct CompareArguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// Kernels in place of the experiment's own; the first is the baseline
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// A kernel beside them, a name or a file; may be given again
    #[arg(long, value_name = "FILE")]
    kernel: Vec<String>,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `highwater run`.
#[derive(clap::Args)]
pub struct RunArguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// The kernel, a name or a file
    #[arg(long, value_name = "KERNEL")]
    kernel: String,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
struct Options {
    /// A value of the kernels to change (`lru.batch`), of the experiment (`params.KEY`) or of its machine (`machine.cpu.count`),
    /// as a file would have it, or several: a column for each; may be given again
    #[arg(long, value_name = "KEY=A,B", value_parser = parse_set)]
    set: Vec<Set>,
    /// The random seed, decimal or 0x…; the first one with --runs
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed, allow_negative_numbers = true)]
    seed: u64,
    /// How many seeds: the table shows medians and their 95% intervals
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// A smaller experiment: memory, swap, files and the disk's bandwidth multiplied by this, not the time that it
    /// simulates nor the disk's latencies; no figures in print then
    #[arg(long, value_name = "1/16", allow_negative_numbers = true)]
    scale: Option<Scale>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Show figures in print under the rows that have them
    #[arg(long)]
    published: bool,
    /// Show only rows with one of these in their names, in any case; `.` is any character
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    rows: Vec<String>,
    /// The rule of the percentages in brackets
    #[arg(long, value_enum, value_name = "RULE", default_value_t)]
    percent: PercentRule,
    /// Add rows of how often each class of locks was taken and waited for, and how long interrupts were off (`sim`)
    #[arg(long)]
    locks: bool,
    /// Write where virtual time goes, as folded stacks
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write counters over time, as CSV: under their names in /proc/vmstat, free pages by zone, the disk's queue
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// How often, in seconds of the run
    #[arg(long, value_name = "SECONDS", requires = "series", default_value = "1", value_parser = parse_every)]
    #[arg(allow_negative_numbers = true)]
    every: Nanos,
    /// Write what happened when, for the Perfetto UI: tasks by CPU, interrupts, locks, disk requests (`sim`)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Only this part of each run, in seconds of its time, such as 2.1..2.9; a trace has a million slices at most
    #[arg(long, value_name = "FROM..TO", requires = "trace", value_parser = parse_window, allow_hyphen_values = true)]
    trace_window: Option<Window>,
    /// A machine in place of the experiment's own, a name or a file
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// What to run on: `sim`, `host`, `linux`; a column for each, and each kernel where it has kernels
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, default_value = "sim")]
    on: Vec<Ground>,
    /// Where `host` and `linux` make their files, in a fresh folder [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Let `linux` use all the memory of the computer where no cgroup can be made
    #[arg(long)]
    no_limit: bool,
    /// Give `linux` a swap file of the machine's size, in its folder and for the time of the run; needs root
    #[arg(long)]
    swap: bool,
    /// How many simulations run side by side [default: one on each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    jobs: Option<u32>,
    /// Write the report to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs an experiment's kernels and shows their table.
pub fn compare(arguments: &CompareArguments) -> Result<(), End> {
    let CompareArguments { experiment, kernels, kernel, options } = arguments;
    let (kernels, more_kernels) = (kernels.clone(), kernel.clone());
    let request = Request { experiment: experiment.clone(), kernels, more_kernels, ..Request::default() };
    carry_out(request, options)
}

/// Runs an experiment with one kernel and shows its column.
pub fn run(RunArguments { experiment, kernel, options }: &RunArguments) -> Result<(), End> {
    let request = Request { experiment: experiment.clone(), kernels: vec![kernel.clone()], ..Request::default() };
    carry_out(request, options)
}

fn carry_out(request: Request, options: &Options) -> Result<(), End> {
    let request = Request {
        set: merged(&options.set),
        machine: options.machine.clone(),
        seed: options.seed,
        runs: options.runs.into(),
        scale: options.scale,
        profile: options.profile.is_some(),
        series_every: options.series.is_some().then_some(options.every),
        trace: options.trace.is_some().then(|| options.trace_window.unwrap_or_default()),
        locks: options.locks,
        grounds: grounds(&options.on),
        place: Place {
            folder: options.dir.clone().unwrap_or_else(std::env::temp_dir),
            is_limited: !options.no_limit,
            makes_swap: options.swap,
            ..Place::default()
        },
        ..request
    };
    if let Some(ground) = request.grounds.iter().find(|ground| ground.is_timed_by_the_wall() && request.trace.is_some())
    {
        return Err(End::Usage(format!("--trace is of the ground `sim` alone, not of `{ground}`")));
    }
    let is_real = |ground: &Ground| ground.is_timed_by_the_wall();
    if !request.grounds.is_empty() && request.grounds.iter().all(is_real) {
        for (option, is_wanted) in [("--locks", request.locks), ("--profile", request.profile)] {
            if is_wanted {
                return Err(End::Usage(format!("{option} is of the ground `sim`, which is not among those of `--on`")));
            }
        }
    }
    if options
        .series
        .as_ref()
        .and_then(|path| path.extension())
        .is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
    {
        return Err(End::Usage("--series writes CSV, which no file that ends in .parquet should hold".into()));
    }
    let scale = options.scale.filter(|scale| !scale.is_full());
    if let Some(scale) = scale.filter(|_| options.published) {
        return Err(End::Usage(format!("--published: figures in print are of full size, not of --scale {scale}")));
    }
    let output = options.output.as_deref().map(Output::open).transpose()?;
    let profile = options.profile.as_deref().map(Output::open).transpose()?;
    let series = options.series.as_deref().map(Output::open).transpose()?;
    let traced = options.trace.as_deref().map(Output::open).transpose()?;
    let files = [("--output", &output), ("--profile", &profile), ("--series", &series), ("--trace", &traced)];
    for (n, (name, file)) in files.iter().enumerate() {
        for (other, earlier) in &files[..n] {
            if let (Some(file), Some(earlier)) = (file, earlier)
                && file.is_same_file(earlier)
            {
                let message = format!("{other} and {name} name the same file: each would overwrite the other");
                return Err(End::Usage(message));
            }
        }
    }
    let plan = Plan::new(&request, workloads::find)?;
    let row_names = plan.row_names();
    if let Some(names) = &row_names {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sizes = scale.map_or_else(String::new, |scale| format!("; sizes in names are those at --scale {scale}"));
        let told = |message| End::Usage(format!("{message}{sizes}"));
        rows::check(&names, &options.rows).map_err(told)?;
    }
    let threads = options.jobs.map_or_else(runner::all_cores, |jobs| jobs as usize);
    let mut results = {
        let bars = Bars::new(plan.titles());
        plan.run(threads, &bars).map_err(|failures| failed(&failures))?
    };
    if let Some(profile) = profile {
        let text = |out: &mut dyn io::Write| results.profile.iter().try_for_each(|line| writeln!(out, "{line}"));
        profile.write(text)?;
    }
    if let Some(file) = series {
        file.write(|out| series::write(&results.series, out))?;
    }
    if let Some(file) = traced {
        file.write(|out| trace::write(&results.traces, out))?;
        for warning in results.traces.iter().filter_map(RunTrace::warning) {
            eprintln!("warning: {warning}");
        }
    }
    match rows::keep(&mut results.table, &options.rows) {
        // A row that a run may have, and this one has not.
        Err(message) if row_names.is_some() && !results.table.rows.is_empty() => eprintln!("warning: {message}"),
        Err(message) if row_names.is_some() => return Err(End::Failed(message)),
        kept => kept.map_err(End::Usage)?,
    }
    let show = Show { published: options.published, percent: options.percent };
    let write = |out: &mut dyn io::Write| report::write(&results.table, options.format, show, out);
    match output {
        Some(output) => output.write(write),
        None => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            write(&mut out)?;
            Ok(io::Write::flush(&mut out)?)
        }
    }
}

/// A time in seconds, at least a millisecond.
fn parse_every(text: &str) -> Result<Nanos, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e6).contains(&seconds) => Ok(Nanos((seconds * 1e9) as u64)),
        _ => Err("expected seconds, from 0.001 to 1000000".into()),
    }
}

/// Two times in seconds; the begin or the end of a run where one is left out.
fn parse_window(text: &str) -> Result<Window, String> {
    let time = |word: &str, open: Nanos| match word.parse::<f64>() {
        Ok(seconds) if (0.0..=1e6).contains(&seconds) => Some(Nanos((seconds * 1e9) as u64)),
        _ if word.is_empty() => Some(open),
        _ => None,
    };
    let Window { from, to } = Window::default();
    let window = text.split_once("..").and_then(|(begin, end)| {
        let window = Window { from: time(begin, from)?, to: time(end, to)? };
        (window.from < window.to).then_some(window)
    });
    window.ok_or_else(|| "expected seconds, from 0 to 1000000 and the later one last, such as 2.1..2.9".into())
}

/// A key, and values for it between commas.
fn parse_set(text: &str) -> Result<Set, String> {
    let wrong = || format!("expected KEY=VALUE or KEY=VALUE,VALUE,… such as lru.batch=1,14, found `{text}`");
    let (key, values) = text.split_once('=').ok_or_else(wrong)?;
    let values: Vec<String> = values_of(values).into_iter().map(|value| value.trim().to_owned()).collect();
    if key.trim().is_empty() || values.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(Set { key: key.trim().to_owned(), values })
}

/// Values between commas; those in brackets and between quotes are of one value.
fn values_of(text: &str) -> Vec<&str> {
    let (mut depth, mut is_quoted) = (0_i32, false);
    text.split(|c: char| {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' if !is_quoted => depth += 1,
            ']' if !is_quoted => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !is_quoted
    })
    .collect()
}

/// A key that is given again has more values.
fn merged(sets: &[Set]) -> Vec<Set> {
    let mut merged: Vec<Set> = Vec::new();
    for set in sets {
        match merged.iter_mut().find(|earlier| earlier.key == set.key) {
            Some(earlier) => earlier.values.extend(set.values.iter().cloned()),
            None => merged.push(set.clone()),
        }
    }
    merged
}

/// The grounds asked for, each once.
fn grounds(asked: &[Ground]) -> Vec<Ground> {
    let mut grounds = Vec::new();
    for ground in asked {
        if !grounds.contains(ground) {
            grounds.push(*ground);
        }
    }
    grounds
}

pub(super) fn failed(failures: &[JobFailure]) -> End {
    let one = |JobFailure { column, seed, failure, replay }: &JobFailure| {
        format!("{column}, seed {seed}: {failure}\n  replay: {replay}")
    };
    End::Failed(failures.iter().map(one).collect::<Vec<_>>().join("\nerror: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_commas_that_are_not_within_one() {
        let of = |text: &str| parse_set(text).map(|set| set.values);
        assert_eq!(of("lru.batch=1, 14"), Ok(vec!["1".into(), "14".into()]));
        assert_eq!(of("params.mib=[20, 40],\"a,b\""), Ok(vec!["[20, 40]".into(), "\"a,b\"".into()]));
        assert!(of("lru.batch=1,,2").is_err() && of("lru.batch").is_err());
    }

    #[test]
    fn a_key_that_comes_again_has_the_values_of_both() {
        let sets = ["lru.batch=1", "params.hogs=2", "lru.batch=14,31"].map(|text| parse_set(text).unwrap());
        let merged = merged(&sets);
        assert_eq!(merged[0].values, ["1", "14", "31"]);
        assert_eq!((merged.len(), merged[1].key.as_str()), (2, "params.hogs"));
    }
}
