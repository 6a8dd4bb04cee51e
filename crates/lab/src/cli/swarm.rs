//! The verb `swarm`: tests the engine with random machines, kernels and tasks.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use super::{End, options::SeedOptions, output};
use grounds::job::Failure;
use grounds::swarm::{self, SwarmFailure, SwarmReport};
use kit::interrupt;
use kit::shown::harmless;
use study::runner;

/// Arguments of `highwater swarm`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    seeds: SeedOptions,
    /// Go on after a failure, and list every failure at the end
    #[arg(long)]
    keep_going: bool,
    /// Write the output to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Interval at which the command checks whether it was interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The progress of a swarm, which simulates many worlds. A world is a random machine, kernel and set of tasks.
#[derive(Default)]
struct State {
    ran: u64,
    failures: Vec<String>,
    /// Seeds of the worlds (random simulations) that have begun and have not ended.
    running: BTreeSet<u64>,
    /// The seed after the largest seed whose world (random simulation) has begun; none before the first world has
    /// begun.
    after: Option<u64>,
}

impl State {
    fn began(&mut self, seed: u64) {
        self.running.insert(seed);
        self.after = self.after.max(seed.checked_add(1));
    }

    fn ended(&mut self, seed: u64, failure: Option<&SwarmFailure>) {
        self.running.remove(&seed);
        self.ran += 1;
        self.failures.extend(failure.map(ToString::to_string));
    }

    /// Returns the message that the command prints after an interrupt. The command was to simulate `count` worlds
    /// (random simulations), with seeds from `first` upwards.
    fn interrupted(&self, first: u64, count: u64) -> String {
        let passed = passed(self.ran, self.failures.len() as u64);
        let mut message = self.failures.join("\n");
        if !message.is_empty() {
            message.push('\n');
        }
        message += &format!("interrupted: {} of {count} worlds ran: {passed}", self.ran);
        // The worlds of all lower seeds have ended.
        let next = self.running.first().copied().or(self.after).unwrap_or(first);
        let left = count - (next - first).min(count);
        if left > 0 {
            message += &format!("\n  those that are left: highwater swarm --seed {next:#x} --runs {left}");
        }
        message
    }
}

/// Runs random worlds, one for each seed, until one fails. With `--keep-going`, runs all of them.
pub fn run(Arguments { seeds, keep_going, output }: &Arguments) -> Result<(), End> {
    let SeedOptions { seed: first, runs: count, .. } = *seeds;
    if first.checked_add(u64::from(count)).is_none() {
        return Err(End::Usage(format!("seeds from {first} on: {count} do not fit 64 bits")));
    }
    let file = output::open_report(false, output.as_deref())?;
    if file.is_none() {
        output::check_standard_output()?;
    }
    let worlds: Vec<u64> = (first..first + u64::from(count)).collect();
    // A world's random choices are reported only if it is the only world. For many worlds they would take memory for no
    // use.
    let told = move |report: SwarmReport| {
        (count == 1).then(|| format!("{}\nfingerprint {:016x}\n", report.drawn, report.fingerprint))
    };
    let (state, keep_going) = (Arc::new(Mutex::new(State::default())), *keep_going);
    let seen = state.clone();
    let world = move |seed: &u64| {
        lock(&seen).began(*seed);
        let result = swarm::run(*seed);
        lock(&seen).ended(*seed, result.as_ref().err());
        match result {
            Ok(report) => Ok(Ok(told(report))),
            Err(failure) if keep_going => Ok(Err(failure.to_string())),
            Err(failure) => Err(Failure(failure.to_string())),
        }
    };
    // After an interrupt, running worlds are not waited for: a world may take long.
    let (_guard, threads) = (interrupt::guard(), seeds.threads());
    let (send, results) = mpsc::channel();
    thread::spawn(move || {
        let ended = runner::each(&worlds, threads, world).into_iter().map(|(_, result)| result).collect::<Vec<_>>();
        // After an interrupt nothing receives the result.
        let _ = send.send(ended);
    });
    let ended = loop {
        match results.recv_timeout(LOOK_EVERY) {
            Ok(ended) => break ended,
            Err(RecvTimeoutError::Timeout) if !interrupt::is_set() => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(End::Failed(lock(&state).interrupted(first, count.into())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(End::Failed("the worlds ended without a word".into())),
        }
    };
    let (ran, mut text, mut failures) = (ended.len(), String::new(), Vec::new());
    for result in ended {
        match result {
            Ok(Ok(told)) => text.push_str(&told.unwrap_or_default()),
            Ok(Err(failure)) | Err(Failure(failure)) => failures.push(failure),
        }
    }
    let last = first + u64::from(count) - 1;
    if failures.is_empty() {
        if count > 1 {
            text = format!(
                "{ran} worlds, seeds {first:#x} to {last:#x}, each a random machine, kernel and set of tasks: every check holds\n"
            );
        }
        return output::report(file, |out, _| out.write_all(harmless(&text).as_bytes()));
    }
    let mut message = failures.join("\n");
    if count > 1 {
        let passed = passed(ran as u64, failures.len() as u64);
        message.push_str(&format!("\n{ran} of {count} worlds ran, seeds {first:#x} to {last:#x}: {passed}"));
    }
    Err(End::Failed(message))
}

/// Returns words that say how many of `ran` worlds (random simulations) passed every check, and how many `failed`.
fn passed(ran: u64, failed: u64) -> String {
    let failed_words = if failed == 0 { "none".to_owned() } else { failed.to_string() };
    format!("{} passed every check, {failed_words} failed", ran - failed)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_swarm_says_what_ran_and_what_is_left() {
        let mut state = State::default();
        assert!(
            state.interrupted(16, 9).starts_with("interrupted: 0 of 9 worlds ran: 0 passed every check, none failed\n")
        );
        (16..19).for_each(|seed| state.began(seed));
        [16, 18].iter().for_each(|seed| state.ended(*seed, None));
        assert_eq!(
            state.interrupted(16, 9),
            "interrupted: 2 of 9 worlds ran: 2 passed every check, none failed\n  those that are left: highwater swarm --seed 0x11 --runs 8"
        );
        let failure = SwarmFailure { seed: 17, drawn: "a world".into(), message: "a page is lost".into() };
        state.ended(17, Some(&failure));
        let message = state.interrupted(16, 3);
        assert!(
            message.starts_with("a world\n  a page is lost\n")
                && message.ends_with("3 of 3 worlds ran: 2 passed every check, 1 failed")
        );
    }
}
