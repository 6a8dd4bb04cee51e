//! `highwater swarm`.

use super::{End, options::SeedOptions, output, print};
use crate::{job::Failure, runner, swarm};

/// Arguments of `highwater swarm`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    seeds: SeedOptions,
    /// Go on after a failure, and list every failure at the end
    #[arg(long)]
    keep_going: bool,
}

/// Runs worlds until one fails, or all of them with `--keep-going`.
pub fn run(Arguments { seeds, keep_going }: &Arguments) -> Result<(), End> {
    let SeedOptions { seed, runs: count, .. } = seeds;
    if seed.checked_add(u64::from(*count)).is_none() {
        return Err(End::Usage(format!("seeds from {seed} on: {count} do not fit 64 bits")));
    }
    output::check_standard_output()?;
    let worlds: Vec<u64> = (*seed..seed + u64::from(*count)).collect();
    // What a single world drew is printed; of many it would only take memory.
    let told = |report: swarm::SwarmReport| {
        (*count == 1).then(|| format!("{}\nfingerprint {:016x}\n", report.drawn, report.fingerprint))
    };
    let world = |seed: &u64| match swarm::run(*seed) {
        Ok(report) => Ok(Ok(told(report))),
        Err(failure) if *keep_going => Ok(Err(failure.to_string())),
        Err(failure) => Err(Failure(failure.to_string())),
    };
    let (mut ran, mut text, mut failures) = (0, String::new(), Vec::new());
    for (_, result) in runner::each(&worlds, seeds.threads(), world) {
        ran += 1;
        match result {
            Ok(Ok(told)) => text.push_str(&told.unwrap_or_default()),
            Ok(Err(failure)) | Err(Failure(failure)) => failures.push(failure),
        }
    }
    let (first, last) = (seed, seed + u64::from(*count) - 1);
    if failures.is_empty() {
        if *count > 1 {
            text = format!("{ran} worlds, seeds {first:#x} to {last:#x}: every check holds\n");
        }
        return print(&text);
    }
    let mut message = failures.join("\n");
    if *count > 1 {
        let failed = failures.len();
        message.push_str(&format!("\n{ran} of {count} worlds ran, seeds {first:#x} to {last:#x}: {failed} failed"));
    }
    Err(End::Failed(message))
}
