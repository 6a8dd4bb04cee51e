//! Runs the jobs of plans and puts together what they found.

use super::{JobFailure, Plan, Results};
use crate::{
    apart,
    job::{Failure, Outcome, Progress},
    report::{Table, TableHead},
    runner::{self, Watch},
    series::RunSeries,
    trace::RunTrace,
};

impl Plan {
    /// Runs every job: first those of real time, one after the other; then the simulated ones on `threads` threads.
    ///
    /// # Errors
    /// Every job that failed; what had not begun by then was not run.
    pub fn run(&self, threads: usize, watch: &dyn Watch) -> Result<Results, Vec<JobFailure>> {
        let mut results = run_all(std::slice::from_ref(self), threads, watch)?;
        Ok(results.pop().expect("one plan has one result"))
    }

    fn is_real(&self, job: usize) -> bool {
        self.jobs[job].ground.is_timed_by_the_wall()
    }

    /// Jobs of real time in the order in which they run: seed by seed, and to and fro over the columns, so that what
    /// drifts on the computer meets all of them alike.
    fn turns(&self) -> Vec<usize> {
        let round = |seed: usize| {
            let columns = 0..self.columns.len();
            let columns: Vec<usize> = if seed.is_multiple_of(2) { columns.collect() } else { columns.rev().collect() };
            columns.into_iter().map(move |column| column * self.seeds.len() + seed)
        };
        (0..self.seeds.len()).flat_map(round).filter(|job| self.is_real(*job)).collect()
    }

    /// Job `index`, which whoever watches knows as number `number`.
    fn run_one(&self, index: usize, number: usize, watch: &dyn Watch) -> Result<Outcome, Failure> {
        let (job, progress) = (&self.jobs[index], Progress::default());
        watch.began(number, &progress);
        let outcome = if self.is_real(index) {
            apart::run(&self.orders[index], &self.place, job, &progress)
        } else {
            self.workload.run(job, &progress)
        };
        watch.ended(number);
        outcome
    }

    fn failure(&self, index: usize, failure: Failure) -> JobFailure {
        let column = self.column(index).id.clone();
        JobFailure { column, seed: self.jobs[index].seed, failure, replay: self.replays[index].clone() }
    }

    /// What a reader must know beside the figures: what was skipped, and what each ground of real time was like.
    fn notes(&self, outcomes: &[Outcome]) -> Vec<String> {
        let mut notes = Vec::new();
        for (index, outcome) in outcomes.iter().enumerate() {
            for note in &outcome.notes {
                let note = format!("{}: {note}", self.jobs[index].ground);
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        if self.seeds.len() == 1 {
            for (index, outcome) in outcomes.iter().enumerate().filter(|(_, outcome)| !outcome.report.is_empty()) {
                notes.push(format!("{}:", self.column(index).id));
                notes.extend(outcome.report.iter().cloned());
            }
        }
        notes.extend(self.skipped.iter().cloned());
        notes
    }

    fn results(&self, mut outcomes: Vec<Outcome>) -> Results {
        let simulated = || outcomes.iter().enumerate().filter(|(n, _)| !self.is_real(*n));
        let fingerprint = simulated().next().map(|_| fold(simulated().map(|(_, outcome)| outcome.fingerprint)));
        let head = TableHead {
            experiment: self.experiment.name.clone(),
            machine: self.machine.name.clone(),
            scale: self.scale,
            seeds: self.seeds.clone(),
            fingerprint,
            columns: self.columns.clone(),
            notes: self.notes(&outcomes),
        };
        let titles = self.titles();
        let stacks = |(title, outcome): (&String, &Outcome)| -> Vec<String> {
            let root = title.replace([' ', ';'], "_");
            outcome.profile.iter().flatten().map(|line| format!("{root};{line}")).collect()
        };
        let profile = titles.iter().zip(&outcomes).flat_map(stacks).collect();
        let series = outcomes.iter_mut().enumerate().filter_map(|(index, outcome)| {
            let column = self.column(index).id.clone();
            Some(RunSeries { column, seed: self.jobs[index].seed, series: outcome.series.take()? })
        });
        let series = series.collect();
        let traces = titles
            .iter()
            .zip(&mut outcomes)
            .filter_map(|(title, outcome)| Some(RunTrace { title: title.clone(), trace: outcome.trace.take()? }));
        let traces = traces.collect();
        let mut rows = outcomes.into_iter().map(|outcome| outcome.rows);
        let runs: Vec<Vec<_>> = self.columns.iter().map(|_| rows.by_ref().take(self.seeds.len()).collect()).collect();
        let table = Table::of_runs(head, &runs, self.experiment.published.as_ref());
        Results { table, profile, series, traces }
    }
}

/// Runs the jobs of several plans: first those of real time, one after the other; then the simulated ones of all plans
/// on `threads` threads, in the order of the plans, so that no thread waits for the last job of one. Who watches counts
/// the jobs over all plans.
///
/// # Errors
/// Every job that failed; what had not begun by then was not run.
pub fn run_all(plans: &[Plan], threads: usize, watch: &dyn Watch) -> Result<Vec<Results>, Vec<JobFailure>> {
    let mut results: Vec<Vec<_>> = plans.iter().map(|plan| plan.jobs.iter().map(|_| None).collect()).collect();
    let mut failures = Vec::new();
    let before = |plan: usize| plans[..plan].iter().map(|plan| plan.jobs.len()).sum::<usize>();
    let jobs = |of: fn(&Plan) -> Vec<usize>| -> Vec<(usize, usize)> {
        plans.iter().enumerate().flat_map(|(n, plan)| of(plan).into_iter().map(move |job| (n, job))).collect()
    };
    let simulated = |plan: &Plan| (0..plan.jobs.len()).filter(|job| !plan.is_real(*job)).collect();
    for (turn, threads) in [(jobs(Plan::turns), 1), (jobs(simulated), threads)] {
        if !failures.is_empty() {
            break;
        }
        let found = runner::each(turn.len(), threads, |n| {
            let (plan, job) = turn[n];
            plans[plan].run_one(job, before(plan) + job, watch)
        });
        for (&(plan, job), result) in turn.iter().zip(found) {
            if let Some(Err(failure)) = &result {
                let mut failure = plans[plan].failure(job, failure.clone());
                if plans.len() > 1 {
                    failure.column = format!("{} {}", plans[plan].experiment.name, failure.column);
                }
                failures.push(failure);
            }
            results[plan][job] = result;
        }
    }
    let outcomes = results.into_iter().map(|results| results.into_iter().collect::<Option<Result<Vec<_>, _>>>());
    let found = plans.iter().zip(outcomes).map(|(plan, outcomes)| match outcomes {
        Some(Ok(outcomes)) => Some(plan.results(outcomes)),
        _ => None,
    });
    found.collect::<Option<Vec<_>>>().ok_or(failures)
}

/// One fingerprint of many, order included (FNV-1a over their bytes).
pub(crate) fn fold(fingerprints: impl Iterator<Item = u64>) -> u64 {
    let bytes = fingerprints.flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
