//! The verb `rank`: ranks kernels by the main figure of every experiment.

use serde::Serialize;
use std::path::PathBuf;

use super::{
    End, ListFormat, compare,
    options::{OutputOptions, SeedOptions, each_once, parse_word},
    output, with_command,
};
use catalogue::{embedded, find};
use figures::figure::{Better, RowName};
use figures::scale::Scale;
use figures::statistics::{coverage, percent};
use figures::verdict::SEEDS_MIN;
use kit::shown;
use report::csv::{self, field};
use report::grid::{Cell, Grid, Tone};
use report::html::{Page, Part, Section};
use report::{grid, markdown, rows};
use study::bars::Bars;
use study::plan;
use study::plan::{Plan, Request};
use study::ranking::{Ranked, Ranking, Standing, main_row};

/// Arguments of `highwater rank`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Names or files of experiments, with spaces or commas between them [default: all]
    #[arg(value_delimiter = ',', value_parser = parse_word)]
    experiments: Vec<String>,
    /// The kernel whose rank is reported, a name or a file
    #[arg(long, value_name = "KERNEL", default_value = "highwater")]
    of: String,
    /// The kernels with which the kernel of --of is compared, names or files [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// Multiply memory, swap, file sizes and disk bandwidth by this number; simulated time and the latency of the disk
    /// do not change
    #[arg(long, value_name = "1/16", allow_negative_numbers = true)]
    scale: Option<Scale>,
    /// Keep the results of runs in this folder, and do not repeat runs whose results it has: docs/sweeps.md
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ListFormat,
    /// Show only the results of the kernel that --of names
    #[arg(long)]
    summary: bool,
    /// With --dry-run: list each run, however many there are
    #[arg(long, requires = "dry_run")]
    all: bool,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// The report of `highwater rank` as JSON.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    of: &'a str,
    seeds: &'a [u64],
    experiments: &'a [Ranking],
}

/// Runs the requested kernels in the requested experiments, and reports how the kernels rank in each experiment.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let file = arguments.output.open(arguments.format == ListFormat::Html)?;
    let names: Vec<String> = if arguments.experiments.is_empty() {
        embedded::names("experiments").map(str::to_owned).collect()
    } else {
        each_once(&arguments.experiments)
    };
    // All experiments are checked before any of them runs.
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for name in &names {
        match plan(name, arguments, arguments.scale) {
            Ok(found) => all.push(found),
            // An experiment that only `--scale` makes impossible is left out, and the others run.
            Err(End::Usage(why)) if names.len() > 1 && plan(name, arguments, None).is_ok() => {
                shown::warn(&format!("{name} is left out: {why}"));
                left_out.push(name.as_str());
            }
            Err(end) => return Err(end),
        }
    }
    if all.is_empty() {
        return Err(End::Usage("no experiment runs at this scale".into()));
    }
    let (rows, plans): (Vec<String>, Vec<Plan>) = all.into_iter().unzip();
    let of = plans[0].columns[0].id.clone();
    let titles: Vec<String> = plans.iter().flat_map(Plan::titles).collect();
    if arguments.output.is_dry("rank", &plans, arguments.all)? {
        return Ok(());
    }
    let results = {
        let bars = Bars::new("rank", titles.len());
        plan::run_all(&plans, arguments.seeds.threads(), &bars)
    };
    let failures = compare::all_failures(&results)?;
    // If no run of an experiment ended well, it has no ranking. Failures are reported at the end.
    let results = || results.iter().zip(&rows).filter(|((_, results), _)| !results.is_nothing());
    let found = results().map(|((_, results), row)| Ranking::of(&results.table, row));
    let found = found.collect::<Result<Vec<Ranking>, String>>().map_err(End::Failed)?;
    let seeds = &plans[0].seeds;
    let about = about(seeds, &found, &left_out);
    let mut losses = output::Losses::default();
    let written = output::report(file, |out, look| {
        let text = match arguments.format {
            ListFormat::Text => {
                let rankings = found
                    .iter()
                    .filter(|_| !arguments.summary)
                    .map(|it| format!("\n{}{}", grid::wrapped(&heading(it), look), ranking(it).render(look)));
                let rankings: String = rankings.collect();
                format!("{}{rankings}\n{}", summary(&of, &found).render(look), grid::wrapped(&about, look))
            }
            ListFormat::Markdown => {
                let rankings = found.iter().filter(|_| !arguments.summary);
                let rankings: String =
                    rankings.map(|it| format!("\n### {}\n\n{}", heading(it), markdown::grid(&ranking(it)))).collect();
                format!("{}{rankings}\n{about}\n", markdown::grid(&summary(&of, &found)))
            }
            ListFormat::Html => with_command(page(&of, &found, about.clone(), arguments.summary)).render(),
            ListFormat::Csv => {
                csv::text(&FIELDS, &found.iter().flat_map(|it| fields(it, &of, arguments.summary)).collect::<Vec<_>>())
            }
            ListFormat::Json => {
                let report = Report { schema: 2, of: &of, seeds, experiments: &found };
                shown::json(&report)
            }
        };
        out.write_all(text.as_bytes())
    });
    losses.note(written);
    losses.note(compare::ended(&failures));
    losses.end()
}

/// Returns the name of an experiment's main row (the figure by which its kernels are ranked), and the plan of the
/// experiment's runs. The kernel of `--of` comes first in the plan.
fn plan(name: &str, arguments: &Arguments, scale: Option<Scale>) -> Result<(String, Plan), End> {
    let experiment = find::experiment(name)?;
    let Some(row) = experiment.main_row else {
        let message = format!("{}: it has no `main_row`: which row says that a kernel is better?", experiment.file);
        return Err(End::Usage(message));
    };
    let others: Vec<String> = if arguments.kernels.is_empty() {
        embedded::names("kernels").map(str::to_owned).collect()
    } else {
        each_once(&arguments.kernels)
    };
    let others = others.into_iter().filter(|kernel| *kernel != arguments.of);
    let request = Request {
        experiment: name.to_owned(),
        kernels: std::iter::once(arguments.of.clone()).chain(others).collect(),
        seed: arguments.seeds.seed,
        runs: arguments.seeds.runs.into(),
        scale,
        store: arguments.store.clone(),
        ..Request::default()
    };
    let plan = Plan::new(&request, grounds::find)?;
    let lacks_it = |names: &Vec<RowName>| main_row(&row, names.iter().map(|row| row.name.as_str())).is_none();
    if let Some(names) = plan.row_names().filter(lacks_it) {
        let message = format!(
            "{}: `main_row`: at this scale no run has the row `{row}`; {}",
            experiment.file,
            rows::listed(&names)
        );
        return Err(End::Usage(message));
    }
    if plan.columns.len() < 2 {
        return Err(End::Usage("--kernels: at least one other kernel is needed".into()));
    }
    Ok((row, plan.titled(|title| format!("{} {title}", experiment.name))))
}

const fn direction(ranking: &Ranking) -> &'static str {
    match ranking.better {
        Better::Lower => "less is better",
        _ => "more is better",
    }
}

/// Returns a heading with the name of an experiment and of the figure by which its kernels are ranked (the main row).
fn heading(ranking: &Ranking) -> String {
    format!("{}: {} ({})", ranking.experiment, named_row(ranking), direction(ranking))
}

/// Returns the name and the unit of the figure by which kernels are ranked (the main row).
fn named_row(ranking: &Ranking) -> String {
    let unit = if ranking.unit.is_empty() { String::new() } else { format!(", {}", ranking.unit) };
    format!("{}{unit}", ranking.row)
}

fn median(ranking: &Ranking, place: &Ranked) -> String {
    place.value.map_or_else(|| "-".into(), |value| ranking.format.show(value.median))
}

fn head(words: &[&str]) -> Vec<Cell> {
    words.iter().map(|word| Cell::new(*word, Tone::Heading)).collect()
}

/// Returns the median of a kernel as text, with its confidence interval in brackets unless the interval is empty. For a
/// failed run, returns the failure.
fn figure(ranking: &Ranking, place: &Ranked) -> String {
    place.value.map_or_else(
        || place.failed.clone().unwrap_or_else(|| "-".into()),
        |value| {
            let [median, low, high] = [value.median, value.low, value.high].map(|it| ranking.format.show(it));
            if low == high { median } else { format!("{median} ({low} to {high})") }
        },
    )
}

fn ahead(place: &Ranked) -> String {
    place.ahead.map_or_else(String::new, |share| {
        let percent = format!("{:+.1}%", 100.0 * share);
        // A difference that is rounded to zero has no sign.
        if matches!(&*percent, "-0.0%" | "+0.0%") { "0.0%".to_owned() } else { percent }
    })
}

const fn tone(verdict: Standing) -> Tone {
    match verdict {
        Standing::Better => Tone::Better,
        Standing::NotToldApart | Standing::NotCompared => Tone::Plain,
        Standing::Worse => Tone::Worse,
        Standing::NoFigure => Tone::Faint,
    }
}

/// Returns a table with a line for each experiment: the main figure of the kernel `of`, the figure of the best other
/// kernel, and the verdict on the two.
fn summary(of: &str, found: &[Ranking]) -> Grid {
    let line = |it: &Ranking| {
        let (own, rival) = (it.place(of)?, it.rival(of)?);
        let figures = [median(it, own), median(it, rival), rival.kernel.clone(), ahead(own)];
        let names = [it.experiment.clone(), named_row(it)];
        let mut line: Vec<Cell> = names.into_iter().chain(figures).map(Cell::from).collect();
        line.push(Cell::new(own.verdict.word(), tone(own.verdict)));
        Some(line)
    };
    Grid {
        keys: 1,
        head: head(&["experiment", "main figure", of, "best other", "which", "ahead", "verdict"]),
        lines: found.iter().filter_map(line).collect(),
        texts: vec![0, 1, 4, 6],
    }
}

/// Returns a table of cells with the ranking of the kernels in an experiment.
fn ranking(it: &Ranking) -> Grid {
    let line = |(n, place): (usize, &Ranked)| {
        let [number, kernel] = [(n + 1).to_string(), place.kernel.clone()].map(Cell::from);
        let verdict = Cell::new(place.verdict.word(), tone(place.verdict));
        vec![number, kernel, figure(it, place).into(), ahead(place).into(), verdict]
    };
    Grid {
        keys: 2,
        head: head(&["", "kernel", &it.unit, "ahead", "verdict"]),
        lines: it.places.iter().enumerate().map(line).collect(),
        texts: vec![1, 4],
    }
}

/// Names of the fields in a line of CSV.
const FIELDS: [&str; 13] = [
    "experiment",
    "row",
    "unit",
    "better",
    "place",
    "kernel",
    "median",
    "low",
    "high",
    "n",
    "ahead",
    "verdict",
    "failed",
];

/// Returns the ranking of the kernels in an experiment as lines of CSV, which have the [`FIELDS`]. With `is_summary`,
/// there is only the line of the kernel `of`.
fn fields(it: &Ranking, of: &str, is_summary: bool) -> Vec<Vec<String>> {
    let better = if it.better == Better::Lower { "lower" } else { "higher" };
    let line = |(n, place): (usize, &Ranked)| {
        let Ranked { kernel, value, ahead, verdict, failed } = place;
        let fields: [String; FIELDS.len()] = [
            it.experiment.clone(),
            it.row.clone(),
            it.unit.clone(),
            better.to_owned(),
            (n + 1).to_string(),
            kernel.clone(),
            field(value.map(|it| it.median)),
            field(value.map(|it| it.low)),
            field(value.map(|it| it.high)),
            field(value.map(|it| it.n)),
            field(*ahead),
            verdict.word().to_owned(),
            field(failed.as_ref()),
        ];
        fields.to_vec()
    };
    let places = it.places.iter().enumerate().filter(|(_, place)| !is_summary || place.kernel == of);
    places.map(line).collect()
}

fn page(of: &str, found: &[Ranking], about: String, is_summary: bool) -> Page {
    let mut sections = vec![Section::new("Summary", vec![Part::table("Summary", summary(of, found))])];
    for it in found.iter().filter(|_| !is_summary) {
        let parts = vec![Part::Words(heading(it)), Part::table("Kernels", ranking(it))];
        sections.push(Section::new(it.experiment.clone(), parts));
    }
    Page { title: format!("How {of} stands in every experiment"), about: vec![about], sections }
}

/// Returns the text below a ranking's title. It states the runs behind the figures (seeds, scale, experiments left out,
/// fingerprints), and the meaning of the column `ahead`.
fn about(seeds: &[u64], found: &[Ranking], left_out: &[&str]) -> String {
    let few = if seeds.len() < SEEDS_MIN { format!(": a verdict needs {SEEDS_MIN} seeds") } else { String::new() };
    let runs = match seeds {
        [seed] => format!("seed {seed}{few}"),
        [first, .., last] => {
            let n = seeds.len();
            let known = coverage(n).map_or_else(|| "ranges".into(), |it| format!("{} intervals", percent(it)));
            format!("medians of {n} runs, seeds {first} to {last}, with {known}{few}")
        }
        [] => String::new(),
    };
    let scale =
        found.first().filter(|it| it.scale != "1").map_or_else(String::new, |it| format!(" · scale {}", it.scale));
    let prints = found.iter().filter_map(|it| Some(format!("{} {}", it.experiment, it.fingerprint.as_ref()?)));
    let left_out = match left_out {
        [] => String::new(),
        names => format!(" · too small at this scale, and left out: {}", names.join(", ")),
    };
    format!(
        "{runs}{scale}{left_out} · `ahead` and the verdict are beside the best of the others (docs/verdicts.md) · fingerprints {}",
        prints.collect::<Vec<_>>().join(", ")
    )
}
