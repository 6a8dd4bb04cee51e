//! Waits for signals that no order of the tasks can end, found before a run.

use super::described::{Described, TaskOf};
use super::step::{Action, Repeated, Step};
use std::collections::BTreeMap;

/// Most steps that the check plays. A description whose tasks still make progress then is accepted.
const STEPS_MAX: u64 = 1 << 20;

/// Refuses a description in which a task waits for ever in its steps before the measurement or in its first round.
///
/// The check plays the tasks without their work: a task does its steps until it waits for a signal that has not been
/// given often enough. First all tasks do their steps before the measurement, because no task begins its rounds before
/// all others have done them. Counters only grow, so the order of the tasks does not matter. A task may wait for ever in a
/// later round: it ends with the run. Turns are taken as soon as a task asks for them.
///
/// # Errors
/// A list of all tasks that wait for ever, each with its step and the signal.
pub(super) fn check(described: &Described) -> Result<(), String> {
    let mut counters = BTreeMap::new();
    let mut players: Vec<Player<'_>> =
        described.kinds().flat_map(|(name, task)| (0..task.count).map(move |_| Player::of(name, task))).collect();
    let mut steps_left = STEPS_MAX;
    let mut waits = play(&mut players, &mut counters, &mut steps_left, true);
    if waits.is_empty() {
        waits = play(&mut players, &mut counters, &mut steps_left, false);
    }
    if waits.is_empty() { Ok(()) } else { Err(format!("these tasks wait for ever: {}", waits.join("; "))) }
}

/// Plays all tasks until each waits or has ended; if `is_before`, at most to the end of its steps before the
/// measurement. Returns where tasks wait for ever, either in these steps or in their first round. Returns nothing if
/// `steps_left` reaches 0.
fn play<'a>(
    players: &mut [Player<'a>],
    counters: &mut BTreeMap<&'a str, u64>,
    steps_left: &mut u64,
    is_before: bool,
) -> Vec<String> {
    let is_in_time = |player: &Player<'_>| !is_before || player.is_before();
    let mut has_moved = true;
    while has_moved {
        has_moved = false;
        for player in players.iter_mut() {
            while *steps_left > 0 && is_in_time(player) && player.play(counters) {
                (has_moved, *steps_left) = (true, *steps_left - 1);
            }
        }
        if *steps_left == 0 {
            return Vec::new();
        }
    }
    let is_early = |player: &&Player<'_>| is_in_time(player) && player.rounds == 0;
    let mut waits: Vec<String> = players.iter().filter(is_early).filter_map(Player::wait).collect();
    waits.dedup();
    waits
}

/// A task whose waits and signals are played.
struct Player<'a> {
    name: &'a str,
    task: &'a TaskOf,
    /// Number of the next step, counted through `before` and `steps`.
    next: usize,
    /// Number of rounds that the task has done.
    rounds: u64,
    /// For each signal, the value of its counter up to which the task has waited.
    waited: BTreeMap<&'a str, u64>,
}

impl<'a> Player<'a> {
    fn of(name: &'a str, task: &'a TaskOf) -> Self {
        Self { name, task, next: 0, rounds: 0, waited: BTreeMap::new() }
    }

    /// Returns the next step; `None` if the task has ended. A task without waits in its rounds ends after one round in
    /// which its signals count for all rounds.
    fn step(&self) -> Option<&'a Step> {
        let ended = self.task.rounds.is_some_and(|rounds| self.rounds >= rounds) || self.rounds > 0 && self.is_free();
        let mut steps = self.task.before.iter().chain(&self.task.steps);
        if ended { None } else { steps.nth(self.next) }
    }

    /// Returns whether the task has steps before the measurement left.
    fn is_before(&self) -> bool {
        self.rounds == 0 && self.next < self.task.before.len()
    }

    /// Returns whether the task never waits in its rounds.
    fn is_free(&self) -> bool {
        !self.task.steps.iter().any(|step| matches!(step.action, Action::Wait(..)))
    }

    /// Does the next step. Returns `false` if the task waits or has ended.
    fn play(&mut self, counters: &mut BTreeMap<&'a str, u64>) -> bool {
        let Some(step) = self.step() else { return false };
        let is_round = self.next >= self.task.before.len();
        match &step.action {
            Action::Signal(name) => {
                let rounds = if is_round && self.is_free() { self.task.rounds.unwrap_or(u64::MAX) } else { 1 };
                let counter = counters.entry(name).or_default();
                let times = if matches!(step.repeated, Repeated::For(_)) { u64::MAX } else { times(step) };
                *counter = counter.saturating_add(times.saturating_mul(rounds));
            }
            Action::Wait(name, count) => {
                let waited = self.waited.entry(name).or_default();
                let needed = waited.saturating_add(count.saturating_mul(times(step)));
                if counters.get(name.as_str()).copied().unwrap_or(0) < needed {
                    return false;
                }
                *waited = needed;
            }
            _ => {}
        }
        self.next += 1;
        if self.next == self.task.before.len() + self.task.steps.len() {
            (self.next, self.rounds) = (self.task.before.len(), self.rounds + 1);
        }
        true
    }

    /// Says where the task waits; `None` if it has ended.
    fn wait(&self) -> Option<String> {
        let Action::Wait(signal, _) = &self.step()?.action else { return None };
        let before = self.task.before.len();
        let (list, n) = if self.next < before { ("before", self.next) } else { ("steps", self.next - before) };
        Some(format!("task `{}` in `{list}`, step {}, for the signal `{signal}`", self.name, n + 1))
    }
}

/// Returns how often a step certainly does its action.
fn times(step: &Step) -> u64 {
    match step.repeated {
        Repeated::Operations(times) => times,
        Repeated::Percent(_) | Repeated::For(_) => 1,
    }
}
