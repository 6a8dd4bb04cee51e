//! Options that several verbs share, each declared once here.
//!
//! [`SeedOptions`] are for every verb that simulates, [`OutputOptions`] for every verb that reports on experiments, and
//! [`PlotOptions`] for verbs that draw. [`ExperimentOptions`] contains all of them, for verbs that run an experiment.

use std::borrow::Borrow;
use std::path::{Path, PathBuf};

use super::{
    End,
    output::{self, Output, check_standard_output},
    show,
};
use catalogue::ground::{Ground, GroundOptions, Start};
use catalogue::group::Asked;
use figures::cgroup::Version;
use figures::scale::Scale;
use report::{Look, grid};
use study::plan::{Plan, Request, Set, cost};
use study::runner;

/// Options for the seeds of simulations, and for the number of simulations at a time.
#[derive(Clone, Debug, clap::Args)]
pub struct SeedOptions {
    /// The random seed, decimal or 0x…; with --runs, the first seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Number of runs: one for each seed, from --seed upwards. With several seeds, reports show medians and verdicts:
    /// docs/verdicts.md
    #[arg(long, value_name = "N", alias = "count", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub runs: u32,
    /// Number of simulations that run at a time [default: one on each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    pub jobs: Option<u32>,
}

impl SeedOptions {
    /// Returns the number of threads on which simulations run.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.jobs.map_or_else(runner::all_cores, |jobs| jobs as usize)
    }
}

/// Options for the destination of a report, and for a dry run, which only prints what would run.
#[derive(Clone, Debug, clap::Args)]
pub struct OutputOptions {
    /// Write the report to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Check the arguments and print what would run, without running it
    #[arg(long)]
    pub dry_run: bool,
}

impl OutputOptions {
    /// Opens the file of `--output`; returns none if this option is not given. `is_page` states whether the report is a
    /// page of HTML.
    ///
    /// # Errors
    /// When the file cannot be written to, when there is neither a file nor a standard output, or when a page would go
    /// to a terminal.
    pub(super) fn open(&self, is_page: bool) -> Result<Option<Output>, End> {
        if self.output.is_none() {
            check_standard_output()?;
        }
        output::open_report(is_page, self.output.as_deref())
    }

    /// Returns whether the user asked for a dry run (`--dry-run`). If so, first prints what would run, and the cost.
    /// Few runs have a line each. More than a screen of runs have a line for each of `plans`, unless `lists_all` is set.
    ///
    /// # Errors
    /// When standard output cannot be written to.
    pub(super) fn is_dry<P: Borrow<Plan>>(&self, title: &str, plans: &[P], lists_all: bool) -> Result<bool, End> {
        if self.dry_run {
            show(|look| dry(title, plans, lists_all, look))?;
        }
        Ok(self.dry_run)
    }
}

/// Largest number of runs that a dry run lists one by one, unless it is asked for all.
const LISTED_MAX: usize = 30;

/// Returns the text of a dry run: the number of runs, the runs or a line for each plan, and the cost.
fn dry<P: Borrow<Plan>>(title: &str, plans: &[P], lists_all: bool, look: Look) -> String {
    let titles: Vec<String> = plans.iter().flat_map(|plan| plan.borrow().titles()).collect();
    let cost = cost::in_words(plans.iter().map(Borrow::borrow));
    let head = format!("{title}: {} to run", titles.len());
    if lists_all || titles.len() <= LISTED_MAX {
        return format!("{head}\n  {}\n{cost}", titles.join("\n  "));
    }
    let cost: String = cost.lines().map(|line| grid::hanging("", line, look)).collect();
    let mut columns: Vec<&str> = Vec::new();
    for column in plans.iter().flat_map(|plan| &plan.borrow().columns) {
        if !columns.contains(&column.id.as_str()) {
            columns.push(&column.id);
        }
    }
    let columns = grid::hanging("columns: ", &columns.join(", "), look);
    let table = cost::by_experiment(plans.iter().map(Borrow::borrow)).render(look);
    format!("{head}\n{cost}\n{columns}\n{table}\n--all lists each run.\n")
}

/// The option `--plot`, which writes a picture in addition to the report.
#[derive(Clone, Debug, clap::Args)]
pub struct PlotOptions {
    /// Draw the figures of the report in this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

impl PlotOptions {
    /// Opens the file of `--plot`; returns none if this option is not given.
    ///
    /// # Errors
    /// When the file cannot be written to, or when its name has an ending other than `.svg`.
    pub(super) fn open(&self) -> Result<Option<Output>, End> {
        open_svg("--plot", self.plot.as_deref())
    }
}

/// Opens `path`, the file that the option `option` names for a picture; returns none if `path` is none.
///
/// # Errors
/// When the file cannot be written to, or when its name has an ending other than `.svg`.
pub(super) fn open_svg(option: &str, path: Option<&Path>) -> Result<Option<Output>, End> {
    let Some(path) = path else { return Ok(None) };
    let is_other = path.extension().is_some_and(|ending| !ending.eq_ignore_ascii_case("svg"));
    if is_other {
        return Err(End::Usage(format!("{option} writes SVG: {} should end in .svg", path.display())));
    }
    Output::open(option, path).map(Some)
}

/// Options for the start of kernel images in virtual machines (the ground `guest`).
#[derive(Clone, Debug, clap::Args)]
pub struct GuestOptions {
    /// The folder with modules of the kernel of `guest` [default: lib/modules near the kernel image, or of this
    /// computer]
    #[arg(long, value_name = "DIR", requires = "kernel_image")]
    pub kernel_modules: Option<PathBuf>,
    /// Words to append to the command line of the kernel of `guest`, such as "movablecore=64M"
    #[arg(long, value_name = "WORDS", requires = "kernel_image", default_value = "", hide_default_value = true)]
    #[arg(allow_hyphen_values = true, value_parser = parse_append)]
    pub kernel_append: String,
    /// Version of the cgroup that limits memory in `guest`, if the machine file has `limit_pages`
    #[arg(long, value_name = "1|2", requires = "kernel_image", default_value = "2", value_parser = parse_cgroup_version)]
    pub cgroup_version: Version,
    /// Let the clock of an emulated `guest` count its instructions, so that two runs differ only by the times of disk
    /// accesses
    #[arg(long, requires = "kernel_image")]
    pub icount: bool,
}

impl GuestOptions {
    /// Returns the settings with which virtual machines are started.
    #[must_use]
    pub fn start(&self) -> Start {
        let Self { kernel_append, cgroup_version, icount, .. } = self;
        Start { append: kernel_append.clone(), cgroup: *cgroup_version, counts_instructions: *icount }
    }
}

/// Parses the words to append to a kernel's command line. They must be one line of visible characters.
fn parse_append(text: &str) -> Result<String, String> {
    let is_line = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    if is_line { Ok(text.trim().to_owned()) } else { Err("expected a line of visible ASCII characters".into()) }
}

/// Parses a cgroup version: `1` or `2`.
fn parse_cgroup_version(text: &str) -> Result<Version, String> {
    match text {
        "1" => Ok(Version::V1),
        "2" => Ok(Version::V2),
        _ => Err("expected 1 or 2".into()),
    }
}

/// Options for a run of an experiment.
#[derive(Clone, Debug, clap::Args)]
pub struct ExperimentOptions {
    /// Change a value: KEY of the kernels (`lru.batch`), `params.KEY` of the experiment, `machine.KEY` of the machine.
    /// If the command compares columns, each of several values makes a column. Repeatable
    #[arg(long, value_name = "KEY=A,B", value_parser = parse_set)]
    pub set: Vec<Set>,
    /// Multiply memory, swap, file sizes and disk bandwidth by this number; simulated time and the latency of the disk
    /// do not change. Published figures are then not shown
    #[arg(long, value_name = "1/16", allow_negative_numbers = true)]
    pub scale: Option<Scale>,
    /// The machine to use in place of the experiment's own: a name or a file
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Give the machine a memory control group, or change one: KEY as in `[[group]]` of a machine file (`max_mib`, `high_mib`,
    /// `low_mib`, `min_mib`, `parent`, `tasks`). Repeatable: docs/simulator.md
    #[arg(long, value_name = "NAME:KEY=VALUE,…")]
    pub group: Vec<Asked>,
    /// Show only rows whose names contain one of these words; capitals do not matter, and `.` is any character
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    pub rows: Vec<String>,
    /// The grounds on which to run; each makes a column, but `sim`, `host` and `guest` make a column for each kernel
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, default_value = "sim")]
    pub on: Vec<Ground>,
    /// The folder for the files that `host`, `linux` and `guest` make and remove at the end [default: the system's
    /// temporary folder]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Run on `linux` without a limit of memory if no cgroup can be made
    #[arg(long)]
    pub no_limit: bool,
    /// Give `linux` a swap file for the time of the run, as large as the swap of the simulated machine; needs root
    #[arg(long)]
    pub swap: bool,
    /// The kernel image of `guest`, a bzImage; repeatable, with a column for each image
    #[arg(long, value_name = "FILE")]
    pub kernel_image: Vec<PathBuf>,
    /// Options for the start of `guest`.
    #[command(flatten)]
    pub guest: GuestOptions,
    /// Keep the results of simulated runs in this folder, and do not repeat runs whose results it has: docs/sweeps.md
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// The options for seeds and threads.
    #[command(flatten)]
    pub seeds: SeedOptions,
    /// The options for the destination of the report.
    #[command(flatten)]
    pub output: OutputOptions,
    /// The option for a picture in addition to the report.
    #[command(flatten)]
    pub picture: PlotOptions,
}

impl ExperimentOptions {
    /// Makes a request to run an experiment with `kernels`. If `kernels` is empty, the experiment's own kernels run.
    #[must_use]
    pub fn request(&self, experiment: &str, kernels: &[String]) -> Request {
        Request {
            experiment: experiment.to_owned(),
            kernels: kernels.to_vec(),
            set: merged(&self.set),
            machine: self.machine.clone(),
            groups: self.group.clone(),
            seed: self.seeds.seed,
            runs: self.seeds.runs.into(),
            scale: self.scale,
            grounds: each_once(&self.on),
            place: GroundOptions {
                folder: self.dir.clone().unwrap_or_else(std::env::temp_dir),
                is_limited: !self.no_limit,
                makes_swap: self.swap,
                kernel_images: self.kernel_image.clone(),
                kernel_modules: self.guest.kernel_modules.clone(),
                start: self.guest.start(),
                ..GroundOptions::default()
            },
            store: self.store.clone(),
            ..Request::default()
        }
    }
}

/// Parses one word of a comma-separated list.
pub(super) fn parse_word(text: &str) -> Result<String, String> {
    let word = text.trim();
    if word.is_empty() { Err("expected names with commas between them, found none".into()) } else { Ok(word.into()) }
}

/// Parses a seed: decimal, or hexadecimal after `0x`.
pub(super) fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a whole number from 0 up of 64 bits, or one in hexadecimal after 0x".into())
}

/// Parses a key with its comma-separated values.
pub(super) fn parse_set(text: &str) -> Result<Set, String> {
    let wrong = || format!("expected KEY=VALUE or KEY=VALUE,VALUE,… such as lru.batch=1,14, found `{text}`");
    let (key, values) = text.split_once('=').ok_or_else(wrong)?;
    let values: Vec<String> = values_of(values).into_iter().map(|value| value.trim().to_owned()).collect();
    if key.trim().is_empty() || values.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(Set { key: key.trim().to_owned(), values })
}

/// Splits a text into values at commas, except within brackets and quotes.
fn values_of(text: &str) -> Vec<&str> {
    let (mut depth, mut is_quoted) = (0_i32, false);
    text.split(|c: char| {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' if !is_quoted => depth += 1,
            ']' if !is_quoted => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !is_quoted
    })
    .collect()
}

/// Merges all changes of one key into a single change with all the values.
fn merged(sets: &[Set]) -> Vec<Set> {
    let mut merged: Vec<Set> = Vec::new();
    for set in sets {
        match merged.iter_mut().find(|earlier| earlier.key == set.key) {
            Some(earlier) => earlier.values.extend(set.values.iter().cloned()),
            None => merged.push(set.clone()),
        }
    }
    merged
}

/// Returns the words of `asked` in their order, each only once.
pub(super) fn each_once<T: Clone + PartialEq>(asked: &[T]) -> Vec<T> {
    let mut all = Vec::new();
    for one in asked {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!([parse_seed("12"), parse_seed("0x51a7")], [Ok(12), Ok(0x51a7)]);
        assert!(parse_seed("one").is_err() && parse_seed("-1").is_err());
    }

    #[test]
    fn values_lie_between_commas_that_are_not_within_one() {
        let of = |text: &str| parse_set(text).map(|set| set.values);
        assert_eq!(of("lru.batch=1, 14"), Ok(vec!["1".into(), "14".into()]));
        assert_eq!(of("params.mib=[20, 40],\"a,b\""), Ok(vec!["[20, 40]".into(), "\"a,b\"".into()]));
        assert!(of("lru.batch=1,,2").is_err() && of("lru.batch").is_err());
    }

    #[test]
    fn a_key_that_comes_again_has_the_values_of_both() {
        let sets = ["lru.batch=1", "params.hogs=2", "lru.batch=14,31"].map(|text| parse_set(text).unwrap());
        let merged = merged(&sets);
        assert_eq!(merged[0].values, ["1", "14", "31"]);
        assert_eq!((merged.len(), merged[1].key.as_str()), (2, "params.hogs"));
    }
}
