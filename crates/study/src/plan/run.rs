//! Runs the jobs of plans and collects their results.

use super::{JobFailure, Plan, Results, Run};
use crate::runner::Watch;
use crate::store::{Identity, Key, SeedKeys};
use crate::{ranking, runner};
use catalogue::group::Asked;
use figures::curves::RunCurves;
use figures::generations::RunGenerations;
use figures::histogram;
use figures::kernel_log::RunKernelLog;
use figures::memory_map::RunMemory;
use figures::profile::RunProfile;
use figures::series::RunSeries;
use figures::trace::RunTrace;
use fnv::FnvHasher;
use grounds::job::{Failure, Job, Outcome};
use grounds::kernel_log;
use kit::progress::Progress;
use report::{Table, TableHead, rows};
use std::borrow::Borrow;
use std::hash::Hasher;

/// Names of a control group's figures that a report shows as main rows, if the command line gives this group.
const GROUP_ROWS: [&str; 4] = ["memory.peak", "pgscan", "pgsteal", "max"];

/// A run of one of several plans, and its place in the order of the runs of all plans.
struct Turn<'p> {
    /// Position of the run among the runs of all plans.
    number: usize,
    plan: &'p Plan,
    run: &'p Run,
}

/// A completed run with its result.
pub(super) struct Ended<'p> {
    pub run: &'p Run,
    pub outcome: Outcome,
}

/// A run with its outcome, or with the failure that ended it.
type Became<'p> = (&'p Run, Result<Outcome, Failure>);

impl Turn<'_> {
    fn take(&self, watch: &dyn Watch) -> Result<Outcome, Failure> {
        let (plan, run, progress) = (self.plan, self.run, Progress::default());
        let kept = plan.store.as_ref().filter(|_| !run.is_real()).map(|store| (store, plan.key(run)));
        if let Some((store, key)) = &kept
            && run.wants_figures_alone()
            && let Some(found) = store.find(key)?
        {
            watch.found();
            return Ok(found.outcome);
        }
        watch.began(self.number, &run.title, &progress);
        let mut outcome = plan.carry_out(run, &progress);
        watch.ended(self.number);
        // A store has no failed runs.
        let outcome_kept = outcome.as_mut().ok().filter(|outcome| outcome.killed.is_empty());
        if let (Some((store, key)), Some(outcome)) = (&kept, outcome_kept) {
            store.keep(key, outcome)?;
            // A store keeps no durations of operations. They are dropped here, too, so that the report does not depend
            // on which runs were stored.
            outcome.times.clear();
        }
        outcome
    }

    /// Returns the sort key by which the real-time runs of a plan are ordered. The runs of the first seed come first.
    /// The order of columns is reversed from one seed to the next, so that drift of the computer affects all columns
    /// alike.
    fn place(&self) -> (u64, usize) {
        let Run { column, seed, .. } = self.run;
        let round = seed - self.plan.seeds[0];
        (round, if round.is_multiple_of(2) { *column } else { usize::MAX - column })
    }
}

impl Run {
    /// Returns the job that the run carries out: the job of its column, with the run's seed.
    fn job(&self) -> Job {
        Job { seed: self.seed, ..(*self.job).clone() }
    }

    /// Returns whether the run requests figures alone, without a profile and without data over time. A store keeps only
    /// figures.
    fn wants_figures_alone(&self) -> bool {
        let Job { profile, series_every, memory_every, generations_every, trace, .. } = &*self.job;
        !profile && series_every.is_none() && memory_every.or(*generations_every).is_none() && trace.is_none()
    }
}

impl Plan {
    /// Returns the key of a run, which contains everything that determines the run.
    fn key(&self, run: &Run) -> Key {
        Key::of_job(&run.job(), &self.columns[run.column], self.workload.name())
    }

    fn carry_out(&self, run: &Run, progress: &Progress) -> Result<Outcome, Failure> {
        if let Some(failure) = self.unable.get(&run.column) {
            return Err(failure.clone());
        }
        grounds::carry_out(self.workload, &run.job(), &run.order, &self.place, progress)
    }

    /// Returns the keys of the plan's runs, in the order of the runs.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.by_seed(|keys, seed| keys.of_seed(seed))
    }

    /// Returns two things for each run, in the order of the runs: the hash of the run's key, which names the run's file
    /// in a store, and the run's name.
    pub fn names(&self) -> impl Iterator<Item = (String, Identity)> {
        self.by_seed(|keys, seed| keys.name(seed))
    }

    /// Calls `of` for each run, with the keys of the run's column and the run's seed. Returns the results.
    fn by_seed<T>(&self, of: impl Fn(&SeedKeys, u64) -> T + Copy) -> impl Iterator<Item = T> {
        self.runs.chunk_by(|a, b| a.column == b.column).flat_map(move |runs| {
            let keys = SeedKeys::of_job(&runs[0].job, &self.columns[runs[0].column], self.workload.name());
            runs.iter().map(move |run| of(&keys, run.seed))
        })
    }

    /// Returns the key of run number `number`.
    ///
    /// # Panics
    /// When there is no run with this number.
    #[must_use]
    pub fn key_of(&self, number: usize) -> Key {
        self.key(&self.runs[number])
    }

    /// Performs run number `number` on the calling thread. Returns its outcome.
    ///
    /// # Errors
    /// When the run could not be finished.
    ///
    /// # Panics
    /// When there is no run with this number, or a bug stops the run.
    pub fn run_one(&self, number: usize, progress: &Progress) -> Result<Outcome, Failure> {
        self.carry_out(&self.runs[number], progress)
    }

    /// Returns the command that repeats run number `number`.
    ///
    /// # Panics
    /// When there is no run with this number.
    #[must_use]
    pub fn replay(&self, number: usize) -> &str {
        &self.runs[number].replay
    }

    /// Returns the table of `outcomes`, which are in the order of the plan's runs.
    #[must_use]
    pub fn table(&self, outcomes: Vec<Result<Outcome, Failure>>) -> Table {
        self.results(self.runs.iter().zip(outcomes).collect()).table
    }

    /// Runs every job: first the jobs that run in real time, one after the other, then the simulated jobs on `threads`
    /// threads. A failed job does not stop the others. Returns the results.
    #[must_use]
    pub fn run(&self, threads: usize, watch: &dyn Watch) -> Results {
        let mut results = run_all(std::slice::from_ref(self), threads, watch);
        results.pop().expect("one plan has one result").1
    }

    /// Returns the description of a failed run, with `failure` as the reason.
    fn failure(&self, run: &Run, failure: Failure) -> JobFailure {
        let Run { column, seed, replay, .. } = run;
        JobFailure { column: self.columns[*column].id.clone(), seed: *seed, failure, replay: replay.clone() }
    }

    /// Returns the names of the rows of `table` that are shown as main rows. The first is the experiment's `main_row`.
    /// Then come the rows that the experiment's `main_rows` name, and the rows about groups that the user added.
    /// Returns none if the table lacks the first.
    fn main_rows(&self, table: &Table) -> Vec<String> {
        let names = || table.rows.iter().map(|row| row.name.as_str());
        let main = self.experiment.main_row.as_ref().and_then(|word| ranking::main_row(word, names()));
        let words: Vec<&str> = self.experiment.main_rows.iter().map(String::as_str).collect();
        let is_meant = |name: &str| words.iter().any(|word| rows::is_named(name, word, names()));
        // Who gives a group on the command line wants to see what it does.
        let is_of_group = |name: &str| {
            name.split_once(": ").is_some_and(|(path, figure)| {
                let is_it = |group: &Asked| path.rsplit('/').next() == group.name.rsplit('/').next();
                GROUP_ROWS.contains(&figure) && self.groups.iter().any(is_it)
            })
        };
        let others = names().filter(|name| Some(*name) != main && (is_meant(name) || is_of_group(name)));
        main.into_iter().flat_map(|main| std::iter::once(main).chain(others.clone())).map(str::to_owned).collect()
    }

    /// Returns the notes that the report shows beside the figures: which grounds were left out, and facts about each
    /// ground that runs in real time.
    fn notes(&self, ended: &[Ended<'_>]) -> Vec<String> {
        let mut notes = Vec::new();
        // Each note, with the columns in whose runs it was made.
        let mut made: Vec<(String, Vec<usize>)> = Vec::new();
        for Ended { run, outcome } in ended {
            for note in &outcome.notes {
                let note = format!("{}: {note}", run.job.ground);
                match made.iter_mut().find(|(known, _)| *known == note) {
                    Some((_, columns)) if columns.contains(&run.column) => {}
                    Some((_, columns)) => columns.push(run.column),
                    None => made.push((note, vec![run.column])),
                }
            }
        }
        for (note, columns) in made {
            // A note about kills is about its column; others are about the ground.
            let is_of_column = note.contains(kernel_log::KILLED) && columns.len() < self.columns.len();
            notes.push(if is_of_column { format!("{note}, in: {}", self.names_of(&columns)) } else { note });
        }
        if self.seeds.len() == 1 {
            for Ended { run, outcome } in ended.iter().filter(|it| !it.outcome.report.is_empty()) {
                notes.push(format!("{}:", self.columns[run.column].id));
                notes.extend(outcome.report.iter().cloned());
            }
        }
        notes.extend(self.skipped.iter().chain(&self.notes).cloned());
        notes.extend(self.unused());
        notes.extend(self.same_runs(ended));
        notes.extend(self.idle_runs(ended));
        notes
    }

    fn results(&self, became: Vec<Became<'_>>) -> Results {
        let (mut ended, mut failures) = (Vec::new(), Vec::new());
        let mut columns = self.columns.clone();
        for (run, result) in became {
            match result {
                Ok(outcome) => {
                    columns[run.column].bereft += usize::from(outcome.is_bereft);
                    if let Some(failure) = outcome.loss() {
                        columns[run.column].add_failure(&reason(&failure), self.seeds.len());
                        failures.push(self.failure(run, failure));
                    }
                    ended.push(Ended { run, outcome });
                }
                Err(failure) => {
                    columns[run.column].add_failure(&reason(&failure), self.seeds.len());
                    failures.push(self.failure(run, failure));
                }
            }
        }
        let simulated = || ended.iter().filter(|it| !it.run.is_real());
        let head = TableHead {
            experiment: self.experiment.name.clone(),
            // Groups of the command line stand in the notes, where they can be read.
            machine: self.groups.iter().fold(self.machine.name.clone(), |name, it| name.replace(&it.changes(), "")),
            scale: self.scale,
            seeds: self.seeds.clone(),
            fingerprint: simulated().next().map(|_| fold(simulated().map(|it| it.outcome.fingerprint))),
            columns,
            notes: self.notes(&ended),
        };
        let (mut profile, mut series, mut memory, mut traces) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut without_figures = Vec::new();
        let (mut curves, mut rows) = (Vec::new(), vec![vec![Vec::new(); self.seeds.len()]; self.columns.len()]);
        let (mut generations, mut histograms, mut kernel_logs) = (Vec::new(), Vec::new(), Vec::new());
        for Ended { run, outcome } in ended {
            let root = run.title.replace([' ', ';'], "_");
            let (column, seed) = (self.columns[run.column].id.clone(), run.seed);
            let of_run = |stacks| RunProfile { column: column.clone(), root, stacks };
            profile.extend(outcome.profile.map(of_run));
            memory.extend(outcome.memory.map(|moments| RunMemory { column: column.clone(), seed, moments }));
            let of_run = |moments| RunGenerations { column: column.clone(), seed, moments };
            generations.extend(outcome.generations.map(of_run));
            if !outcome.kernel_log.is_empty() {
                kernel_logs.push(RunKernelLog { column: column.clone(), seed, moments: outcome.kernel_log });
            }
            histogram::gather(&mut histograms, &column, outcome.times);
            if !outcome.curves.is_empty() || !outcome.steps.steps.is_empty() {
                let (column, steps) = (column.clone(), outcome.steps);
                curves.push(RunCurves { column, seed, curves: outcome.curves, steps });
            }
            series.extend(outcome.series.map(|series| RunSeries { column, seed, series }));
            traces.extend(outcome.trace.map(|trace| RunTrace { title: run.title.clone(), trace }));
            if outcome.killed.is_empty() {
                rows[run.column][(run.seed - self.seeds[0]) as usize] = outcome.rows;
            } else {
                // What such a run counted is shown only in its kernel log and series.
                without_figures.extend(outcome.rows);
            }
        }
        let mut table = Table::of_runs(head, &rows, self.experiment.published.as_ref());
        table.add_without_figures(&without_figures);
        let table = Table { histograms, main_rows: self.main_rows(&table), ..table };
        Results { table, profile, series, memory, generations, kernel_logs, traces, curves, failures }
    }
}

/// Returns the reason for a failure, such as `out of memory`. Details that vary from seed to seed are left out.
fn reason(Failure(message): &Failure) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = [" (task ", " (at "].iter().filter_map(|word| line.find(word)).min().map_or(line, |end| &line[..end]);
    // A clause with the name of a thing or a file is skipped, since the reason comes after it.
    let is_about = |clause: &&str| clause.contains(['`', '/']);
    let short = line.split(": ").find(|clause| !is_about(clause)).unwrap_or(line);
    short.chars().take(REASON_MAX).collect()
}

/// Largest length of the reason for a failure, in characters: the reason has to fit into a cell of a table.
const REASON_MAX: usize = 80;

/// Runs the jobs of several plans. The jobs in real time come first, one after the other. Then `threads` threads run
/// the simulated jobs in the order of the plans. A thread does not wait for the last job of a plan before it begins a
/// job of the next plan. Returns each plan with its results, failures included. `watch` counts the jobs over all plans.
pub fn run_all<'p, P: Borrow<Plan>>(plans: &'p [P], threads: usize, watch: &dyn Watch) -> Vec<(&'p P, Results)> {
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
    let mut became: Vec<(usize, Became<'_>)> = Vec::new();
    for (turns, threads) in [(&real, 1), (&simulated, threads)] {
        let results = runner::all(turns, threads, |turn| turn.take(watch));
        became.extend(results.into_iter().map(|(turn, result)| (turn.number, (turn.run, result))));
    }
    became.sort_by_key(|(number, _)| *number);
    let mut became = became.into_iter().map(|(_, became)| became);
    let found = plans.iter().map(|it| {
        let plan: &Plan = it.borrow();
        (it, plan.results(became.by_ref().take(plan.runs.len()).collect()))
    });
    found.collect()
}

/// Returns one fingerprint made from `fingerprints` in order (FNV-1a over their bytes).
#[must_use]
pub fn fold(fingerprints: impl Iterator<Item = u64>) -> u64 {
    let mut hasher = FnvHasher::default();
    fingerprints.for_each(|it| hasher.write(&it.to_le_bytes()));
    hasher.finish()
}
