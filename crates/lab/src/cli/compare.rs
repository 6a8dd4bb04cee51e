//! `highwater compare` and `highwater run`.

use std::{io, path::PathBuf};

use machine::Nanos;

use super::{
    End, Form, command,
    options::{ExperimentOptions, open_svg, parse_word},
    output::{self, Losses},
    saved,
};
use crate::{
    bars::Bars,
    call_tree, generations,
    ground::Ground,
    html, memory_map,
    plan::{JobFailure, Plan, Request},
    plot::{self, flames},
    report::{self, ReportFormat, Show, percent::PercentRule},
    rows,
    series::{self, Every},
    trace::{self, RunTrace, Window},
    variants, workloads,
};

/// Arguments of `highwater compare`.
#[derive(clap::Args)]
pub struct CompareArguments {
    /// A name from `highwater list`, or a file
    experiment: String,
    /// The kernels, in place of the experiment's own; the first is the baseline
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// A kernel, a name or a file, beside the experiment's own. Repeatable
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
    /// The kernel, a name or a file
    #[arg(long, value_name = "KERNEL")]
    kernel: String,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("sampled").multiple(true))]
struct Options {
    #[command(flatten)]
    experiment: ExperimentOptions,
    /// Run a variant that the experiment's file has, by its name or a part of it that no other has. Where both set a key, the
    /// variant's value counts
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Set a saved report behind the columns: the JSON of `run`, `compare`, `stat` or `import`. Its rows are joined by name.
    /// Repeatable
    #[arg(long, value_name = "FILE.json")]
    column: Vec<PathBuf>,
    /// Show published figures under the rows that have them
    #[arg(long)]
    published: bool,
    /// How percentages in brackets are computed
    #[arg(long, value_enum, value_name = "RULE", default_value_t)]
    percent: PercentRule,
    /// Show also how often each class of locks was taken and contended, its times, and the time with interrupts off (`sim`)
    #[arg(long)]
    locks: bool,
    /// Write a profile of virtual CPU time, as folded stacks
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Draw the profile of virtual CPU time as a flame graph, SVG
    #[arg(long, value_name = "FILE.svg")]
    flamegraph: Option<PathBuf>,
    /// Draw how the profile of the second column differs from that of the first, as a flame graph, SVG
    #[arg(long, value_name = "FILE.svg")]
    flamegraph_difference: Option<PathBuf>,
    /// Write the profile as text: self time by task, and inclusive time of all tasks
    #[arg(long, value_name = "FILE")]
    call_tree: Option<PathBuf>,
    /// Write counters over time, as CSV: /proc/vmstat, free pages by zone, the queue of the disk
    #[arg(long, value_name = "FILE", group = "sampled")]
    series: Option<PathBuf>,
    /// Draw physical memory over time: what most of each pageblock is used for, SVG (`sim`)
    #[arg(long, value_name = "FILE.svg", group = "sampled")]
    memory_map: Option<PathBuf>,
    /// Write free blocks by order and migrate type, and pageblocks by type, over time, as CSV (`sim`)
    #[arg(long, value_name = "FILE", group = "sampled")]
    buddyinfo: Option<PathBuf>,
    /// Write generations of pages over time, as text in the form of lru_gen_full of debugfs: their ages, pages, and what became of
    /// each tier (`sim`; kernels with `lru.policy = "multigen"`)
    #[arg(long, value_name = "FILE", group = "sampled")]
    lru_gen: Option<PathBuf>,
    /// The interval of --series, --memory-map, --buddyinfo and --lru-gen, in seconds of the run
    #[arg(long, value_name = "SECONDS", requires = "sampled", default_value = "1", value_parser = parse_every)]
    #[arg(allow_negative_numbers = true)]
    every: Nanos,
    /// Write a trace for ui.perfetto.dev: tasks by CPU, interrupts, locks, disk requests (`sim`)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Trace only this part of each run, in seconds: 2.1..2.9. A trace has at most a million slices
    #[arg(long, value_name = "FROM..TO", requires = "trace", value_parser = parse_window, allow_hyphen_values = true)]
    trace_window: Option<Window>,
}

impl Options {
    /// The first option that needs a profile, if one is given.
    fn wants_profile(&self) -> Option<&'static str> {
        let options = [
            ("--profile", self.profile.is_some()),
            ("--flamegraph", self.flamegraph.is_some()),
            ("--flamegraph-difference", self.flamegraph_difference.is_some()),
            ("--call-tree", self.call_tree.is_some()),
        ];
        options.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// Runs an experiment's kernels and shows their table.
pub fn compare(arguments: &CompareArguments) -> Result<(), End> {
    let CompareArguments { experiment, kernels, kernel, options } = arguments;
    let request = options.experiment.request(experiment, kernels);
    carry_out(Request { more_kernels: kernel.clone(), ..request }, options)
}

/// Runs an experiment with one kernel and shows its column.
pub fn run(RunArguments { experiment, kernel, options }: &RunArguments) -> Result<(), End> {
    carry_out(options.experiment.request(experiment, std::slice::from_ref(kernel)), options)
}

fn carry_out(request: Request, options: &Options) -> Result<(), End> {
    let request = match &options.variant {
        Some(word) => variants::named(&request, word)?,
        None => request,
    };
    let is_page = options.format == ReportFormat::Html;
    let series_every = match options.series {
        Some(_) => Some(Every::Ns(options.every.0)),
        None => is_page.then_some(Every::Some),
    };
    let request = Request {
        profile: options.wants_profile().is_some() || is_page,
        series_every,
        memory_every: (options.memory_map.is_some() || options.buddyinfo.is_some()).then_some(options.every),
        generations_every: options.lru_gen.is_some().then_some(options.every),
        picture: options.experiment.picture.plot.is_some() || is_page,
        trace: options.trace.is_some().then(|| options.trace_window.unwrap_or_default()),
        locks: options.locks,
        ..request
    };
    if let Some(ground) = request.grounds.iter().find(|ground| ground.is_timed_by_the_wall()) {
        let of_sim = [
            ("--trace", request.trace.is_some()),
            ("--memory-map", options.memory_map.is_some()),
            ("--buddyinfo", options.buddyinfo.is_some()),
            ("--lru-gen", options.lru_gen.is_some()),
        ];
        if let Some((option, _)) = of_sim.iter().find(|(_, is_wanted)| *is_wanted) {
            return Err(End::Usage(format!("{option} works on the ground `sim` alone, not on `{ground}`")));
        }
    }
    let is_real = |ground: &Ground| ground.is_timed_by_the_wall();
    if !request.grounds.is_empty() && request.grounds.iter().all(is_real) {
        for (option, is_wanted) in [
            ("--locks", request.locks),
            (options.wants_profile().unwrap_or_default(), options.wants_profile().is_some()),
        ] {
            if is_wanted {
                return Err(End::Usage(format!(
                    "{option} works on the ground `sim`, which is not among those of `--on`"
                )));
            }
        }
    }
    if options
        .series
        .as_ref()
        .and_then(|path| path.extension())
        .is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
    {
        return Err(End::Usage("--series writes CSV, which no file that ends in .parquet should hold".into()));
    }
    let ExperimentOptions { rows, seeds, .. } = &options.experiment;
    let scale = request.scale.filter(|scale| !scale.is_full());
    if let Some(scale) = scale.filter(|_| options.published) {
        return Err(End::Usage(format!("--published: published figures are of full size, not of --scale {scale}")));
    }
    let saved = options.column.iter().map(|path| saved::table(path)).collect::<Result<Vec<_>, End>>()?;
    let form = Form::open(options.format, options.experiment.output.output.as_deref())?;
    let profile = output::open("--profile", options.profile.as_deref())?;
    let series = output::open("--series", options.series.as_deref())?;
    let traced = output::open("--trace", options.trace.as_deref())?;
    let plot = options.experiment.picture.open()?;
    let map = open_svg("--memory-map", options.memory_map.as_deref())?;
    let buddyinfo = output::open("--buddyinfo", options.buddyinfo.as_deref())?;
    let lru_gen = output::open("--lru-gen", options.lru_gen.as_deref())?;
    let flames = open_svg("--flamegraph", options.flamegraph.as_deref())?;
    let flames_apart = open_svg("--flamegraph-difference", options.flamegraph_difference.as_deref())?;
    let call_tree = output::open("--call-tree", options.call_tree.as_deref())?;
    let plan = Plan::new(&request, workloads::find)?;
    let row_names = plan.row_names();
    if let Some(names) = &row_names {
        let of_saved = saved.iter().flat_map(|(_, table)| &table.rows).map(|row| row.name.as_str());
        let names: Vec<&str> = names.iter().map(String::as_str).chain(of_saved).collect();
        let sizes = scale.map_or_else(String::new, |scale| format!("; sizes in names are those at --scale {scale}"));
        let told = |message| End::Usage(format!("{message}{sizes}"));
        rows::check(&names, rows).map_err(told)?;
    }
    if options.experiment.output.is_dry(&plan.title(), &plan.titles())? {
        return Ok(());
    }
    let mut results = {
        let bars = Bars::new(&plan.title(), plan.count());
        plan.run(seeds.threads(), &bars).map_err(|failures| failed(&failures))?
    };
    for (file, table) in saved {
        report::saved::join(&mut results.table, table, &file);
    }
    // A file that cannot be written costs neither the others nor the table.
    let mut losses = Losses::default();
    if let Some(profile) = profile {
        let text = |out: &mut dyn io::Write| results.profile.iter().try_for_each(|line| writeln!(out, "{line}"));
        losses.note(profile.write(text));
    }
    if let Some(file) = flames {
        let svg = flames::picture(&results.table, &results.profile).map_err(End::Failed);
        losses.note(svg.and_then(|svg| file.write(|out| out.write_all(&svg))));
    }
    if let Some(file) = flames_apart {
        let svg = flames::difference(&results.table, &results.profile).map_err(End::Failed);
        losses.note(svg.and_then(|svg| file.write(|out| out.write_all(&svg))));
    }
    if let Some(file) = call_tree {
        losses.note(file.write(|out| call_tree::write(&results.profile, out)));
    }
    if let Some(file) = plot {
        let svg = plot::of_runs(&plan.experiment, &results);
        losses.note(file.write(|out| out.write_all(svg.as_bytes())));
    }
    if let Some(file) = series {
        losses.note(file.write(|out| series::write(&results.series, out)));
    }
    if let Some(file) = map {
        let svg = plot::memory::picture(&plan.experiment, &results.table, &results.memory);
        losses.note(file.write(|out| out.write_all(svg.as_bytes())));
    }
    if let Some(file) = buddyinfo {
        losses.note(file.write(|out| memory_map::write(&results.memory, out)));
    }
    if let Some(file) = lru_gen {
        losses.note(file.write(|out| generations::write(&results.generations, out)));
    }
    if let Some(file) = traced {
        losses.note(file.write(|out| trace::write(&results.traces, out)));
        for warning in results.traces.iter().filter_map(RunTrace::warning) {
            eprintln!("warning: {warning}");
        }
    }
    // Rows that a run may have, and this one has not.
    super::warn_of(rows::keep(&mut results.table, rows).unwrap_or_else(Some));
    let show = Show { published: options.published, percent: options.percent, ..Show::default() };
    let page = |show| html::results::page(&plan, &results, show, &command());
    losses.note(form.write(&results.table, show, page));
    losses.end()
}

/// A time in seconds, at least a millisecond.
pub(super) fn parse_every(text: &str) -> Result<Nanos, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e6).contains(&seconds) => Ok(Nanos((seconds * 1e9) as u64)),
        _ => Err("expected seconds, from 0.001 to 1000000".into()),
    }
}

/// Two times in seconds; the begin or the end of a run where one is left out.
pub(super) fn parse_window(text: &str) -> Result<Window, String> {
    let time = |word: &str, open: Nanos| match word.parse::<f64>() {
        Ok(seconds) if (0.0..=1e6).contains(&seconds) => Some(Nanos((seconds * 1e9) as u64)),
        _ if word.is_empty() => Some(open),
        _ => None,
    };
    let Window { from, to } = Window::default();
    let window = text.split_once("..").and_then(|(begin, end)| {
        let window = Window { from: time(begin, from)?, to: time(end, to)? };
        (window.from < window.to).then_some(window)
    });
    window.ok_or_else(|| "expected seconds, from 0 to 1000000 and the later one last, such as 2.1..2.9".into())
}

pub(super) fn failed(failures: &[JobFailure]) -> End {
    let one = |JobFailure { column, seed, failure, replay }: &JobFailure| {
        format!("{column}, seed {seed}: {failure}\n  replay: {replay}")
    };
    End::Failed(failures.iter().map(one).collect::<Vec<_>>().join("\nerror: "))
}
