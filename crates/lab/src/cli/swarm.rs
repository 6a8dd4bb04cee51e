//! `highwater swarm`.

use super::{End, options::SeedOptions, print};
use crate::{job::Failure, runner, swarm};

/// Arguments of `highwater swarm`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    seeds: SeedOptions,
}

/// Runs worlds until one fails or all are done.
pub fn run(Arguments { seeds }: &Arguments) -> Result<(), End> {
    let SeedOptions { seed, runs: count, .. } = seeds;
    if seed.checked_add(u64::from(*count)).is_none() {
        return Err(End::Usage(format!("seeds from {seed} on: {count} do not fit 64 bits")));
    }
    let of = |index: usize| seed + index as u64;
    let world = |index| swarm::run(of(index)).map_err(|failure| Failure(failure.to_string()));
    let mut text = String::new();
    for result in runner::each(*count as usize, seeds.threads(), world) {
        match result {
            Some(Ok(report)) if *count == 1 => {
                text.push_str(&format!("{}\nfingerprint {:016x}\n", report.drawn, report.fingerprint));
            }
            Some(Ok(_)) | None => {}
            Some(Err(failure)) => return Err(End::Failed(failure.to_string())),
        }
    }
    if *count > 1 {
        text.push_str(&format!(
            "{count} worlds, seeds {:#x} to {:#x}: every check holds\n",
            seed,
            of(*count as usize - 1)
        ));
    }
    print(&text)
}
