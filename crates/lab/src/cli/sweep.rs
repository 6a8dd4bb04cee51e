//! The verb `sweep`: runs a grid of simulations, and keeps their results in a store. Runs whose results the store has
//! are not repeated.

use std::path::PathBuf;

use super::{
    End, compare,
    options::parse_word,
    output,
    results::{self, RunsFormat},
};
use catalogue::find;
use grounds::job::Failure;
use kit::words::counted;
use study::bars::{Bars, Waiting};
use study::parquet_table::check_build;
use study::runner;
use study::store::Store;
use study::sweep::{Ran, Shard, Sweep, SweepRun};

/// Arguments of `highwater sweep`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The file that describes the runs; its form is in docs/sweeps.md
    #[arg(value_name = "SWEEP.toml")]
    file: PathBuf,
    /// Keep the results of runs in this folder, and do not repeat runs whose results it has
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Do only a part of the runs: 3/8 is the third of eight parts. When the runs of all parts are done, run without
    /// --shard for the report
    #[arg(long, value_name = "I/N", default_value = "1/1", hide_default_value = true)]
    shard: Shard,
    /// Number of simulations that run at a time [default: one on each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    jobs: Option<u32>,
    /// Show only rows whose names contain one of these words, instead of the rows that the file names
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    rows: Vec<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: RunsFormat,
    /// Write the report to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Check the file and print what would run, without running it
    #[arg(long)]
    dry_run: bool,
}

/// Does those runs of the sweep that the store does not have yet, and shows the results of all runs.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let Arguments { file, store, shard, jobs, rows, format, output, dry_run } = arguments;
    let name = file.display().to_string();
    check_build(store).map_err(|Failure(message)| End::Usage(message))?;
    let text = find::read(file, "a sweep")?;
    let sweep = {
        let _line = Waiting::new(&format!("planning {name}"));
        Sweep::parse(&name, &text, grounds::find)?
    };
    let all = sweep.runs().len();
    if *dry_run {
        let there = Store::existing(store).ok();
        let line = |(_, run): (usize, &SweepRun)| {
            let is_there = there.as_ref().is_some_and(|store| store.has(&run.hash));
            format!("  {} {}\n", if is_there { "there " } else { "to run" }, sweep.title(run))
        };
        let part = sweep.runs().iter().enumerate().filter(|(n, _)| shard.has(*n));
        let lines: Vec<String> = part.map(line).collect();
        return super::print(&format!("{name}: {} of {}\n{}", lines.len(), counted(all, "run"), lines.concat()));
    }
    sweep.check_rows(rows).map_err(End::Usage)?;
    let output = results::open(*format, output.as_ref())?;
    let part = sweep.runs().iter().enumerate().filter(|(n, _)| shard.has(*n));
    let part: Vec<&str> = part.map(|(_, run)| run.hash.as_str()).collect();
    let store = Store::open_for(store, part.iter().copied()).map_err(|Failure(message)| End::Usage(message))?;
    let Ran { done, found, failures, why } = {
        let bars = Bars::new(&name, part.len());
        sweep.run(&store, *shard, jobs.map_or_else(runner::all_cores, |jobs| jobs as usize), &bars)
    };
    let failed = || {
        let told = compare::told(&failures);
        let kept = format!("the store has {} of {}", sweep.there(&store), counted(all, "run"));
        End::Failed(format!("{told}\n{kept}: `highwater results` shows them"))
    };
    if !failures.is_empty() && (*shard != Shard::ALL || sweep.there(&store) == 0) {
        return Err(failed());
    }
    if *shard != Shard::ALL {
        let (Shard { index, count }, there) = (shard, sweep.there(&store));
        let text = format!(
            "part {index} of {count}: {} done, {found} there before; the store has {there} of {all}\n",
            counted(done, "run")
        );
        return output::report(output, |out, _| out.write_all(text.as_bytes()));
    }
    let mut joined = sweep.joined(&store, &why)?;
    let words = if rows.is_empty() { sweep.rows() } else { rows };
    results::keep(&mut joined.tables, &mut joined.runs, words).map_err(End::Usage)?;
    // Failures are in the report, and are repeated here with the commands that repeat the runs.
    let mut losses = output::Losses::default();
    losses.note(results::write(*format, &joined.tables, &joined.runs, output));
    losses.note(if failures.is_empty() { Ok(()) } else { Err(failed()) });
    losses.end()
}
