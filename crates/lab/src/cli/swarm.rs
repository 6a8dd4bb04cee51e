//! `highwater swarm`.

use super::{End, parse_seed, print};
use crate::{job::Failure, runner, swarm};

/// Arguments of `highwater swarm`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The seed of the first world, decimal or 0x…
    #[arg(long, value_name = "N", value_parser = parse_seed, allow_negative_numbers = true)]
    seed: u64,
    /// How many worlds, of this seed and those after it
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// How many worlds run side by side [default: one on each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    jobs: Option<u32>,
}

/// Runs worlds until one fails or all are done.
pub fn run(Arguments { seed, count, jobs }: &Arguments) -> Result<(), End> {
    if seed.checked_add(u64::from(*count)).is_none() {
        return Err(End::Usage(format!("seeds from {seed} on: {count} do not fit 64 bits")));
    }
    let of = |index: usize| seed + index as u64;
    let threads = jobs.map_or_else(runner::all_cores, |jobs| jobs as usize);
    let world = |index| swarm::run(of(index)).map_err(|failure| Failure(failure.to_string()));
    let mut text = String::new();
    for result in runner::each(*count as usize, threads, world) {
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
