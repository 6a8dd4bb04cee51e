//! The verbs `compare` and `run`.

use std::{borrow::Borrow, path::PathBuf};

use super::{
    End, Form,
    beside::BesideOptions,
    command,
    options::{ExperimentOptions, each_once, parse_word},
    output::Losses,
    saved,
};
use catalogue::find;
use catalogue::ground::Ground;
use figures::figure::RowName;
use figures::locks;
use figures::scale::Scale;
use figures::series::Every;
use kit::{interrupt, shown};
use report::percent::PercentRule;
use report::{ReportFormat, Show, Table, rows};
use study::bars::Bars;
use study::plan::{JobFailure, Plan, Request, Results};
use study::{pictures, variants};

/// Arguments of `highwater compare`.
#[derive(clap::Args)]
pub struct CompareArguments {
    /// The experiments, names from `highwater list` or files; each gets a table
    #[arg(required = true, value_name = "EXPERIMENT", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    experiments: Vec<String>,
    /// The kernels to compare; the first is the baseline [default: those of the experiment; with `guest`, those nearest
    /// to the kernel image]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// A kernel, a name or a file, to compare in addition to those of the experiment. Repeatable
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `highwater run`.
#[derive(clap::Args)]
pub struct RunArguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// The kernel, a name or a file [default: the first of the experiment; with `guest`, the one nearest to the kernel
    /// image]
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    experiment: ExperimentOptions,
    /// Run a variant from the experiment's file, given by its name or by a part that no other variant's name has. If
    /// the variant and --set give a value to one key, the variant's value counts
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Add the columns of a saved report (the JSON of `run`, `compare`, `stat` or `import`) after those of the runs.
    /// Rows with equal names are joined. Repeatable
    #[arg(long, value_name = "FILE.json")]
    column: Vec<PathBuf>,
    /// Show all rows; with --dry-run, all runs. By default (without --all, --rows and --locks), a table shows the answer
    /// and the rows to look at first
    #[arg(long)]
    all: bool,
    /// Show published figures under the rows that have them
    #[arg(long)]
    published: bool,
    /// The rule by which percentages in brackets are computed
    #[arg(long, value_enum, value_name = "RULE", default_value_t)]
    percent: PercentRule,
    /// Also show, for each class of locks, how often and for how long its locks were held and waited for; and the time
    /// with interrupts off (`sim`)
    #[arg(long)]
    locks: bool,
    #[command(flatten)]
    beside: BesideOptions,
}

/// Runs several kernels in each experiment, one experiment after the other. Shows a table for each experiment.
pub fn compare(arguments: &CompareArguments) -> Result<(), End> {
    let CompareArguments { experiments, kernels, kernel, options } = arguments;
    let experiments = each_once(experiments);
    if experiments.len() > 1 {
        check_several(options, experiments.len())?;
    }
    let request = |experiment: &String| Request {
        more_kernels: kernel.clone(),
        ..options.experiment.request(experiment, kernels)
    };
    carry_out(experiments.iter().map(request).collect(), options)
}

/// Runs an experiment with one kernel. Shows a table with one column, that of the kernel.
pub fn run(RunArguments { experiment, kernel, options }: &RunArguments) -> Result<(), End> {
    let place = options.experiment.request(experiment, &[]).place;
    let fitting = options.experiment.on.iter().flat_map(|ground| grounds::fitting_kernels(*ground, &place)).next();
    let kernel = kernel_of(experiment, kernel.as_ref().or(fitting.map(ToOwned::to_owned).as_ref()))?;
    carry_out(vec![options.experiment.request(experiment, &[kernel])], options)
}

/// Returns the kernel to run: `named`, or the experiment's first kernel if `named` is none.
pub(super) fn kernel_of(experiment: &str, named: Option<&String>) -> Result<String, End> {
    match named {
        Some(kernel) => Ok(kernel.clone()),
        // The reader of experiments refuses an experiment without kernels.
        None => Ok(find::experiment(experiment)?.kernels.swap_remove(0)),
    }
}

/// Refuses options that work with one experiment only. `named` is the number of experiments, which is more than one.
fn check_several(options: &Options, named: usize) -> Result<(), End> {
    let of_one = [
        ("--variant", options.variant.is_some()),
        ("--column", !options.column.is_empty()),
        ("--plot", options.experiment.picture.plot.is_some()),
        ("--format mmtests", options.format == ReportFormat::Mmtests),
    ];
    let given = of_one.iter().find_map(|(name, is_given)| is_given.then_some(*name)).or(options.beside.wants_any());
    match given {
        Some(name) => Err(End::Usage(format!("{name} works with one experiment: {named} were named"))),
        None => Ok(()),
    }
}

/// Refuses options that do not work on the grounds of a request: the systems, such as `sim` and `linux`, on which its
/// runs take place.
fn check_grounds(request: &Request, options: &Options) -> Result<(), End> {
    let is_real = |ground: &Ground| ground.is_timed_by_the_wall();
    let unsupported = |ground: &Ground| Some((*ground, options.beside.unsupported_on(*ground)?));
    if let Some((ground, (option, grounds))) = request.grounds.iter().find_map(unsupported) {
        return Err(End::Usage(format!("{option} works on the {grounds}, not on `{ground}`")));
    }
    let unanswered = options.locks.then_some("--locks").or(options.beside.wants_profile());
    match unanswered {
        Some(option) if !request.grounds.is_empty() && request.grounds.iter().all(is_real) => {
            Err(End::Usage(format!("{option} works on the ground `sim`, which is not among those of `--on`")))
        }
        _ => Ok(()),
    }
}

/// Applies the options to `request`: the variant of the experiment that they name, and all the data that the runs must
/// record for the report. Refuses options that the grounds of the request do not support.
fn completed(request: Request, options: &Options) -> Result<Request, End> {
    let request = match &options.variant {
        Some(word) => variants::named(&request, word)?,
        None => request,
    };
    let request = options.beside.of(request).sized_for_guests()?;
    let is_page = options.format == ReportFormat::Html;
    let request = Request {
        profile: request.profile || is_page,
        series_every: request.series_every.or(is_page.then_some(Every::Some)),
        picture: options.experiment.picture.plot.is_some() || is_page,
        locks: options.locks,
        ..request
    };
    check_grounds(&request, options)?;
    Ok(request)
}

fn carry_out(requests: Vec<Request>, options: &Options) -> Result<(), End> {
    let requests = requests.into_iter().map(|request| completed(request, options)).collect::<Result<Vec<_>, End>>()?;
    let ExperimentOptions { rows, seeds, .. } = &options.experiment;
    let scale = requests.iter().find_map(|request| request.scale).filter(|scale| !scale.is_full());
    if let Some(scale) = scale.filter(|_| options.published) {
        return Err(End::Usage(format!("--published: published figures are of full size, not of --scale {scale}")));
    }
    let saved = options.column.iter().map(|path| saved::table(path)).collect::<Result<Vec<_>, End>>()?;
    let form = Form::open(options.format, options.experiment.output.output.as_deref())?;
    let plot = options.experiment.picture.open()?;
    let beside = options.beside.open()?;
    let is_several = requests.len() > 1;
    // If there are several experiments, the messages name the one that they are about.
    let of = |name: &str| if is_several { format!("{name}: ") } else { String::new() };
    let plan = |request: &Request| {
        Plan::new(request, grounds::find).map_err(|error| End::Usage(of(&request.experiment) + &error.to_string()))
    };
    let plans = requests.iter().map(plan).collect::<Result<Vec<_>, End>>()?;
    plans.iter().try_for_each(|plan| options.beside.check_columns(plan.columns.len())).map_err(End::Usage)?;
    let row_names: Option<Vec<Vec<RowName>>> = plans.iter().map(Plan::row_names).collect();
    if let Some(names) = row_names {
        let of_saved = saved.iter().flat_map(|(_, table)| table.row_names());
        let names: Vec<RowName> = names.into_iter().flatten().chain(of_saved).collect();
        check_rows(&names, rows, scale, options.locks).map_err(End::Usage)?;
    }
    for plan in &plans {
        plan.unused().iter().for_each(|line| shown::warn(&format!("{}{line}", of(&plan.experiment.name))));
    }
    if options.experiment.output.dry_run {
        return plans
            .iter()
            .try_for_each(|plan| options.experiment.output.is_dry(&plan.title(), &[plan], options.all).map(drop));
    }
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for plan in plans {
        let bars = Bars::new(&plan.title(), plan.count());
        let results = plan.run(seeds.threads(), &bars);
        let of_plan = |it: &JobFailure| JobFailure { column: of(&plan.experiment.name) + &it.column, ..it.clone() };
        failures.extend(results.failures.iter().map(of_plan));
        found.push((plan, results));
        if interrupt::is_set() {
            return Err(if failures.is_empty() { End::Failed("interrupted".into()) } else { failed(&failures) });
        }
    }
    // If no run ended well, there is nothing to report, and an earlier report is kept.
    let is_nothing = found.iter().all(|(_, results)| results.is_nothing());
    let Some((plan, results)) = found.first_mut().filter(|_| !is_nothing) else {
        return Err(failed(&failures));
    };
    // If one file cannot be written, the other files and the table still are.
    let mut losses = Losses::default();
    for (file, table) in saved {
        report::saved::join(&mut results.table, table, &file);
    }
    if let Some(file) = plot {
        let svg = pictures::of_runs(&plan.experiment, results);
        losses.note(file.write(|out| out.write_all(svg.as_bytes())));
    }
    beside.write(plan, results, &mut losses);
    // Warns about rows of `--rows` that a run may have, but these runs do not have.
    super::warn_of(
        rows::keep_of_all(found.iter_mut().map(|(_, results)| &mut results.table), rows).unwrap_or_else(Some),
    );
    let is_short = rows.is_empty() && !options.all && !options.locks;
    let show = Show { published: options.published, percent: options.percent, is_short, ..Show::default() };
    let tables: Vec<&Table> = found.iter().map(|(_, results)| &results.table).collect();
    let page = |show| study::page::page(&found, show, &command());
    losses.note(form.write_all(&tables, show, page));
    losses.note(ended(&failures));
    losses.end()
}

/// Checks that each word of `--rows` matches the name of a row that the runs may have.
fn check_rows(names: &[RowName], words: &[String], scale: Option<Scale>, has_locks: bool) -> Result<(), String> {
    let of_locks = if has_locks { Vec::new() } else { locks::names() };
    let is_of_locks = |word: &&String| !rows::means_any(names, word) && rows::means_any(&of_locks, word);
    if let Some(word) = words.iter().find(is_of_locks) {
        return Err(format!("--rows {word}: rows of locks are there with --locks"));
    }
    let sizes = scale.map_or_else(String::new, |scale| format!("\nSizes in names are those at --scale {scale}."));
    rows::check(names, words).map_err(|message| format!("{message}{sizes}"))
}

/// Returns the failed runs of several plans, each with the name of its experiment.
///
/// # Errors
/// When some run failed, and either no run has a result or an interrupt ended the command.
pub(super) fn all_failures<P: Borrow<Plan>>(found: &[(P, Results)]) -> Result<Vec<JobFailure>, End> {
    let of_plan = |(plan, results): &(P, Results)| {
        let name = plan.borrow().experiment.name.clone();
        let named = move |it: JobFailure| JobFailure { column: format!("{name} {}", it.column), ..it };
        results.failures.clone().into_iter().map(named).collect::<Vec<_>>()
    };
    let failures: Vec<JobFailure> = found.iter().flat_map(of_plan).collect();
    let is_nothing = found.iter().all(|(_, results)| results.is_nothing());
    if !failures.is_empty() && (is_nothing || interrupt::is_set()) { Err(failed(&failures)) } else { Ok(failures) }
}

/// Returns success if no run failed, otherwise an error that names the failed runs. Called after the report was
/// written.
pub(super) fn ended(failures: &[JobFailure]) -> Result<(), End> {
    if failures.is_empty() { Ok(()) } else { Err(failed(failures)) }
}

pub(super) fn failed(failures: &[JobFailure]) -> End {
    End::Failed(told(failures))
}

/// Returns a text about failed runs: for each run, its message and the command that repeats the run.
pub(super) fn told(failures: &[JobFailure]) -> String {
    let one = |JobFailure { column, seed, failure, replay }: &JobFailure| {
        format!("{column}, seed {seed}: {failure}\n  replay: {replay}")
    };
    failures.iter().map(one).collect::<Vec<_>>().join("\nerror: ")
}
