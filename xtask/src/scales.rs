//! Writes docs/scales.md: every experiment with every kernel at every scale, and whether the main row keeps its sign.
//!
//! Each run is a process of its own, so a failure affects only this run. The result of a run is written at once as a
//! line of docs/scales.csv, the record. Between `<!-- scales: NAME -->` and `<!-- end -->` the page shows what the
//! record holds.

mod page;
mod record;
mod sign;

use std::{collections::BTreeSet, fs, iter, path::Path, process::Command, sync::Mutex, thread};

use crate::{Outcome, highwater, shown, splice::spliced};
use record::{Case, Experiment, MainFigure, Record};

const PAGE: &str = "docs/scales.md";
const RECORD: &str = "docs/scales.csv";
const BEGIN: &str = "<!-- scales: ";

/// The scales, the cheapest first.
pub const SCALES: [&str; 4] = ["1/16", "1/8", "1/4", "1"];

/// Number of seeds that confirm a change of sign. If two kernels are equal, all five figures of one are above or all
/// are below the five of the other in 0.8 % of cases.
const SEEDS: u64 = 5;

/// The runs that the command line requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Names of the experiments, separated by commas; all experiments by default.
    pub experiments: Option<&'a str>,
    /// The scales, separated by commas; all scales by default.
    pub scales: Option<&'a str>,
    /// Names of the kernels, separated by commas; all kernels by default.
    pub kernels: Option<&'a str>,
    /// `true` if only those runs are requested whose outcomes the record (`docs/scales.csv`) lacks.
    pub missing: bool,
}

/// Does the requested runs, and adds their outcomes to the record (`docs/scales.csv`). Then does the runs with further
/// seeds that the record lacks, for kernels that are better than the first kernel at one scale and worse at another: of
/// the requested experiments, scales and kernels only. Then writes the page about scales (`docs/scales.md`).
pub fn write(root: &Path, wanted: Wanted<'_>) -> Outcome {
    let all = experiments(root)?;
    let mut record = Record::read(&root.join(RECORD))?;
    let mut cases = cases(root, &all)?;
    for (what, list, known) in [
        ("experiment", wanted.experiments, all.iter().map(|it| it.name.as_str()).collect::<BTreeSet<_>>()),
        ("scale", wanted.scales, BTreeSet::from(SCALES)),
        ("kernel", wanted.kernels, cases.iter().map(|case| case.kernel.as_str()).collect()),
    ] {
        if let Some(unknown) = list.into_iter().flat_map(|list| list.split(',')).find(|it| !known.contains(it)) {
            return Err(format!("there is no {what} `{unknown}`"));
        }
    }
    let is_wanted = |list: Option<&str>, word: &str| list.is_none_or(|list| list.split(',').any(|it| it == word));
    let is_asked_for = |case: &Case| {
        is_wanted(wanted.experiments, &case.experiment)
            && is_wanted(wanted.scales, &case.scale)
            && is_wanted(wanted.kernels, &case.kernel)
    };
    cases.retain(|case| is_asked_for(case) && !(wanted.missing && record.has(case)));
    run_into(&mut record, &all, cases, Some(&root.join(RECORD)))?;
    let mut doubtful = doubtful(&record, &all);
    doubtful.retain(is_asked_for);
    run_into(&mut record, &all, doubtful, Some(&root.join(RECORD)))?;
    write_page(root)
}

/// Writes docs/scales.md anew, with the figures and the summary that follow from docs/scales.csv, the record of runs.
pub fn write_page(root: &Path) -> Outcome {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    fs::write(root.join(PAGE), of_record(root, &page)?).map_err(|error| format!("{PAGE}: {error}"))
}

/// Returns the text of the documentation page about scales, with its tables made anew from the record of runs. `page`
/// is the page's present text. Experiments of which the record has no run are left out.
fn of_record(root: &Path, page: &str) -> Result<String, String> {
    let (mut all, record) = (experiments(root)?, Record::read(&root.join(RECORD))?);
    all.retain(|experiment| record.lines().any(|(case, _)| case.experiment == experiment.name));
    let changes = sign::Change::all()?;
    let body = |name: &str| match name {
        "summary" => Ok(Some(page::summary(&all, &record, &changes))),
        "figures" => Ok(Some(page::figures(&all, &record))),
        _ => Err(format!("{PAGE}: there is no table `{name}`")),
    };
    spliced(page, BEGIN, &body)
}

/// Does all runs at all scales and compares them with the record.
///
/// # Errors
/// When a run fails that does not fail in the record, or when a sign differs between scales without a listed reason.
pub fn check(root: &Path) -> Outcome {
    let all = experiments(root)?;
    let known = Record::read(&root.join(RECORD))?;
    let mut record = Record::default();
    run_into(&mut record, &all, cases(root, &all)?, None)?;
    let again = doubtful(&record, &all);
    run_into(&mut record, &all, again, None)?;
    let changes = sign::Change::all()?;
    println!("{}", page::summary(&all, &record, &changes));
    let failed = record.lines().filter(|(case, found)| found.is_err() && !known.fails(case));
    let failed = failed.map(|(case, found)| format!("{case}: {}", found.as_ref().err().cloned().unwrap_or_default()));
    let changed = all.iter().flat_map(|experiment| {
        let kernels = sign::kernels_that_change(experiment, &record, &SCALES);
        kernels.into_iter().filter(|kernel| !changes.iter().any(|change| change.is_of(&experiment.name, kernel))).map(
            |kernel| {
                format!(
                    "{}, {kernel}: `{}` is better at one scale and worse at another",
                    experiment.name, experiment.main_row
                )
            },
        )
    });
    let wrong: Vec<String> = failed.chain(changed).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns the runs with the seeds after the first that the record lacks. Such runs are wanted for a kernel that is
/// better than its experiment's first kernel at one scale and worse at another, and for this first kernel.
fn doubtful(record: &Record, all: &[Experiment]) -> Vec<Case> {
    let mut cases = BTreeSet::new();
    for experiment in all {
        for kernel in sign::kernels_that_change(experiment, record, &SCALES) {
            for (kernel, scale) in
                [&kernel, &experiment.kernels[0]].into_iter().flat_map(|it| SCALES.map(|scale| (it, scale)))
            {
                let of_seed = |seed| Case::new(&experiment.name, kernel, scale, seed);
                if record.has(&of_seed(1)) {
                    cases.extend((2..=SEEDS).map(of_seed).filter(|case| !record.has(case)));
                }
            }
        }
    }
    cases.into_iter().collect()
}

/// Returns the runs of all experiments, in ascending order of scale. At each scale, each experiment has one run with
/// each kernel: first with the experiment's own kernels, then with all others. All runs have the same seed.
fn cases(root: &Path, all: &[Experiment]) -> Result<Vec<Case>, String> {
    let kernels = names(&root.join("crates/engine/kernels"), ".toml")?;
    let mut cases = Vec::new();
    for (scale, experiment) in SCALES.into_iter().flat_map(|scale| all.iter().map(move |it| (scale, it))) {
        let others = kernels.iter().filter(|kernel| !experiment.kernels.contains(kernel));
        let kernels = experiment.kernels.iter().chain(others);
        cases.extend(kernels.map(|kernel| Case::new(&experiment.name, kernel, scale, 1)));
    }
    Ok(cases)
}

/// Returns all experiments, sorted by name.
fn experiments(root: &Path) -> Result<Vec<Experiment>, String> {
    let folder = root.join("crates/catalogue/experiments");
    names(&folder, "")?.iter().map(|name| Experiment::read(&folder, name)).collect()
}

/// Returns the names in a folder that end with `end`, sorted and without this ending.
fn names(folder: &Path, end: &str) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(end)?.to_owned()));
    Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
}

/// Does the runs `cases`, as many in parallel as there are cores. Each result is at once added to the record, and
/// written to the record's file if one is given.
fn run_into(record: &mut Record, all: &[Experiment], cases: Vec<Case>, file: Option<&Path>) -> Outcome {
    if cases.is_empty() {
        return Ok(());
    }
    let program = highwater()?;
    let count = cases.len();
    let (cases, record) = (Mutex::new(cases.into_iter().enumerate()), Mutex::new((record, Ok(()))));
    let next = || cases.lock().expect("nothing panics in there").next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                for (n, case) in iter::from_fn(next) {
                    let main_row = all.iter().find(|it| it.name == case.experiment).map_or("", |it| &it.main_row);
                    let found = run(&program, &case, main_row);
                    eprintln!(
                        "--- {} of {count}: {case}: {}",
                        n + 1,
                        found.as_ref().map_or_else(Clone::clone, ToString::to_string)
                    );
                    let mut record = record.lock().expect("nothing panics in there");
                    record.0.note(case, found);
                    if let Some(file) = file {
                        record.1 = record.0.write(file);
                    }
                }
            });
        }
    });
    record.into_inner().expect("nothing panics in there").1
}

/// Runs the experiment of `case` once. Returns the figure of the row `main_row`, or the reason why the run failed.
fn run(program: &Path, case: &Case, main_row: &str) -> Result<MainFigure, String> {
    let Case { experiment, kernel, scale, seed } = case;
    let seed = seed.to_string();
    let mut command = Command::new(program);
    command.args(["run", experiment, "--kernel", kernel, "--scale", scale, "--seed", &seed, "--format", "json"]);
    let output = command.output().map_err(|error| format!("{}: {error}", shown(&command)))?;
    let report = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return MainFigure::of_report(&report, main_row);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let why = told.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("it ended without a word");
    Err(why.strip_prefix(&format!("{kernel}, seed {seed}: ")).unwrap_or(why).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_record_says() {
        let root = crate::root();
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        assert!(page == of_record(&root, &page).unwrap(), "{PAGE} is stale: run `cargo xtask scales --page`");
        assert!(
            page.matches("<details>").count() > 10 && Record::read(&root.join(RECORD)).unwrap().lines().count() > 300
        );
    }

    #[test]
    fn every_kernel_is_run_at_every_scale_and_the_smallest_first() {
        let all = experiments(&crate::root()).unwrap();
        let cases: Vec<Case> = cases(&crate::root(), &all).unwrap();
        let kernels = names(&crate::root().join("crates/engine/kernels"), ".toml").unwrap();
        for (experiment, scale) in all.iter().flat_map(|it| SCALES.map(|scale| (it, scale))) {
            let of_it: Vec<&Case> =
                cases.iter().filter(|case| case.experiment == experiment.name && case.scale == scale).collect();
            assert_eq!(of_it[0].kernel, experiment.kernels[0], "the others are set beside it");
            assert!(kernels.iter().all(|kernel| of_it.iter().filter(|case| case.kernel == *kernel).count() == 1));
        }
        assert!(cases.is_sorted_by_key(|case| SCALES.iter().position(|scale| *scale == case.scale)));
    }
}
