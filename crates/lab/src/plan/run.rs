//! Runs the jobs of plans and puts together what they found.

use std::borrow::Borrow;

use super::{JobFailure, Plan, Results, Run};
use crate::{
    generations::RunGenerations,
    grounds,
    job::{Failure, Outcome},
    memory_map::RunMemory,
    progress::Progress,
    report::{Table, TableHead},
    runner::{self, Watch},
    series::RunSeries,
    trace::RunTrace,
    workload::RunCurves,
};

/// A run of one of several plans, in its turn.
struct Turn<'p> {
    /// Its number among the runs of all plans.
    number: usize,
    plan: &'p Plan,
    run: &'p Run,
}

/// A run, and what it found.
struct Ended<'p> {
    run: &'p Run,
    outcome: Outcome,
}

impl Turn<'_> {
    fn take(&self, watch: &dyn Watch) -> Result<Outcome, Failure> {
        let (Run { title, job, order, .. }, progress) = (self.run, Progress::default());
        watch.began(self.number, title, &progress);
        let outcome = grounds::carry_out(self.plan.workload, job, order, &self.plan.place, &progress);
        watch.ended(self.number);
        outcome
    }

    /// Where a run of real time stands among those of its plan: seed by seed, and to and fro over the columns, so that what
    /// drifts on the computer meets all of them alike.
    fn place(&self) -> (u64, usize) {
        let Run { column, job, .. } = self.run;
        let round = job.seed - self.plan.seeds[0];
        (round, if round.is_multiple_of(2) { *column } else { usize::MAX - column })
    }

    fn failure(&self, failure: Failure) -> JobFailure {
        let Run { column, job, replay, .. } = self.run;
        let column = self.plan.columns[*column].id.clone();
        JobFailure { column, seed: job.seed, failure, replay: replay.clone() }
    }
}

impl Plan {
    /// Runs every job: first those of real time, one after the other; then the simulated ones on `threads` threads.
    ///
    /// # Errors
    /// Every job that failed; what had not begun by then was not run.
    pub fn run(&self, threads: usize, watch: &dyn Watch) -> Result<Results, Vec<JobFailure>> {
        let mut results = run_all(std::slice::from_ref(self), threads, watch)?;
        Ok(results.pop().expect("one plan has one result").1)
    }

    /// What a reader must know beside the figures: what was skipped, and what each ground of real time was like.
    fn notes(&self, ended: &[Ended<'_>]) -> Vec<String> {
        let mut notes = Vec::new();
        for Ended { run, outcome } in ended {
            for note in &outcome.notes {
                let note = format!("{}: {note}", run.job.ground);
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        if self.seeds.len() == 1 {
            for Ended { run, outcome } in ended.iter().filter(|it| !it.outcome.report.is_empty()) {
                notes.push(format!("{}:", self.columns[run.column].id));
                notes.extend(outcome.report.iter().cloned());
            }
        }
        notes.extend(self.skipped.iter().cloned());
        notes
    }

    fn results(&self, ended: Vec<Ended<'_>>) -> Results {
        let simulated = || ended.iter().filter(|it| !it.run.is_real());
        let head = TableHead {
            experiment: self.experiment.name.clone(),
            machine: self.machine.name.clone(),
            scale: self.scale,
            seeds: self.seeds.clone(),
            fingerprint: simulated().next().map(|_| fold(simulated().map(|it| it.outcome.fingerprint))),
            columns: self.columns.clone(),
            notes: self.notes(&ended),
        };
        let (mut profile, mut series, mut memory, mut traces) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut curves, mut rows) = (Vec::new(), vec![Vec::new(); self.columns.len()]);
        let mut generations = Vec::new();
        for Ended { run, outcome } in ended {
            let root = run.title.replace([' ', ';'], "_");
            profile.extend(outcome.profile.into_iter().flatten().map(|line| format!("{root};{line}")));
            let (column, seed) = (self.columns[run.column].id.clone(), run.job.seed);
            memory.extend(outcome.memory.map(|moments| RunMemory { column: column.clone(), seed, moments }));
            let of_run = |moments| RunGenerations { column: column.clone(), seed, moments };
            generations.extend(outcome.generations.map(of_run));
            if !outcome.curves.is_empty() {
                curves.push(RunCurves { column: column.clone(), seed, curves: outcome.curves });
            }
            series.extend(outcome.series.map(|series| RunSeries { column, seed, series }));
            traces.extend(outcome.trace.map(|trace| RunTrace { title: run.title.clone(), trace }));
            rows[run.column].push(outcome.rows);
        }
        let table = Table::of_runs(head, &rows, self.experiment.published.as_ref());
        Results { table, profile, series, memory, generations, traces, curves }
    }
}

/// Runs the jobs of several plans: first those of real time, one after the other; then the simulated ones of all plans
/// on `threads` threads, in the order of the plans, so that no thread waits for the last job of one. Each plan comes back
/// with its results. Who watches counts the jobs over all plans.
///
/// # Errors
/// Every job that failed; what had not begun by then was not run.
pub fn run_all<'p, P: Borrow<Plan>>(
    plans: &'p [P],
    threads: usize,
    watch: &dyn Watch,
) -> Result<Vec<(&'p P, Results)>, Vec<JobFailure>> {
    let (mut real, mut simulated, mut number) = (Vec::new(), Vec::new(), 0);
    for plan in plans.iter().map(Borrow::borrow) {
        let first = real.len();
        for run in &plan.runs {
            let turns = if run.is_real() { &mut real } else { &mut simulated };
            turns.push(Turn { number, plan, run });
            number += 1;
        }
        real[first..].sort_by_key(Turn::place);
    }
    let (mut ended, mut failures) = (Vec::new(), Vec::new());
    for (turns, threads) in [(&real, 1), (&simulated, threads)] {
        if !failures.is_empty() {
            break;
        }
        for (turn, result) in runner::each(turns, threads, |turn| turn.take(watch)) {
            match result {
                Ok(outcome) => ended.push((turn.number, Ended { run: turn.run, outcome })),
                Err(failure) => {
                    let mut failure = turn.failure(failure);
                    if plans.len() > 1 {
                        failure.column = format!("{} {}", turn.plan.experiment.name, failure.column);
                    }
                    failures.push(failure);
                }
            }
        }
    }
    if !failures.is_empty() {
        return Err(failures);
    }
    ended.sort_by_key(|(number, _)| *number);
    let mut ended = ended.into_iter().map(|(_, ended)| ended);
    let found = plans.iter().map(|it| {
        let plan: &Plan = it.borrow();
        (it, plan.results(ended.by_ref().take(plan.runs.len()).collect()))
    });
    Ok(found.collect())
}

/// One fingerprint of many, order included (FNV-1a over their bytes).
pub(crate) fn fold(fingerprints: impl Iterator<Item = u64>) -> u64 {
    let bytes = fingerprints.flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
