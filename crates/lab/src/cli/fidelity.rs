//! The verb `fidelity`: compares simulated with published figures.

use serde::Serialize;

use super::{
    End, ListFormat, compare,
    options::{OutputOptions, PlotOptions, SeedOptions, each_once, parse_word},
    output, with_command,
};
use catalogue::{embedded, find};
use kit::shown;
use report::html::{Page, Part, Section};
use study::bars::Bars;
use study::fidelity::text::Look;
use study::fidelity::{Fidelity, text};
use study::plan::{Plan, Request, Results};
use study::{pictures, plan, truth};

/// Arguments of `highwater fidelity`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Names or files of experiments with published figures, with spaces or commas between them [default: all]
    #[arg(value_delimiter = ',', value_parser = parse_word)]
    experiments: Vec<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ListFormat,
    /// Show only the published figures that the simulation does not meet
    #[arg(long, conflicts_with = "summary")]
    misses: bool,
    /// Show only the summary of each experiment
    #[arg(long)]
    summary: bool,
    /// With --dry-run: list each run, however many there are
    #[arg(long, requires = "dry_run")]
    all: bool,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    picture: PlotOptions,
}

/// The report of `highwater fidelity` as JSON.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    experiments: &'a [Fidelity],
}

/// Runs the experiments at full size, and reports how the results compare with the published figures.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let output = arguments.output.open(arguments.format == ListFormat::Html)?;
    let plot = arguments.picture.open()?;
    let names = if arguments.experiments.is_empty() { printed()? } else { each_once(&arguments.experiments) };
    // All experiments are checked before any of them runs.
    let plans = names.iter().map(|name| plan(name, arguments)).collect::<Result<Vec<_>, _>>()?;
    let titles: Vec<String> = plans.iter().flat_map(Plan::titles).collect();
    if arguments.output.is_dry("fidelity", &plans, arguments.all)? {
        return Ok(());
    }
    let bars = Bars::new("fidelity", titles.len());
    let results = plan::run_all(&plans, arguments.seeds.threads(), &bars);
    let failures = compare::all_failures(&results)?;
    let of = |(plan, results): (&Plan, Results)| {
        let published = plan.experiment.published.as_ref().expect("looked at before");
        Fidelity::of(&results.table, published)
    };
    let found: Vec<Fidelity> = results.into_iter().map(of).collect();
    let svg = plot.map(|file| (file, pictures::fidelity(&found, &seeds(arguments)).draw()));
    let text = match arguments.format {
        ListFormat::Text => report(&found, arguments, Look::Plain),
        ListFormat::Markdown => report(&found, arguments, Look::Markdown),
        ListFormat::Csv if arguments.summary => text::summary_csv(&found),
        ListFormat::Csv => text::figures_csv(&found, arguments.misses),
        ListFormat::Html => with_command(page(&found, arguments)).render(),
        ListFormat::Json => shown::json(&Report { schema: 1, experiments: &found }),
    };
    let mut losses = output::Losses::default();
    losses.note(output::with_picture(svg, || output::report(output, |out, _| out.write_all(text.as_bytes()))));
    losses.note(compare::ended(&failures));
    losses.end()
}

/// Returns the names of the embedded experiments that have published figures.
fn printed() -> Result<Vec<String>, End> {
    let mut names = Vec::new();
    for name in embedded::names("experiments") {
        if find::experiment(name)?.published.is_some() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Plans runs, at full size, of the kernels for which an experiment has published figures.
fn plan(name: &str, arguments: &Arguments) -> Result<Plan, End> {
    let experiment = find::experiment(name)?;
    let Some(published) = experiment.published else {
        let with = printed()?.join(", ");
        return Err(End::Usage(format!("experiment `{name}` has no published figures; those that have: {with}")));
    };
    let request = Request {
        experiment: name.to_owned(),
        kernels: published.columns,
        seed: arguments.seeds.seed,
        runs: arguments.seeds.runs.into(),
        ..Request::default()
    };
    let plan = Plan::new(&request, grounds::find)?;
    Ok(plan.titled(|title| format!("{} {title}", experiment.name)))
}

fn report(found: &[Fidelity], arguments: &Arguments, look: Look) -> String {
    let mut text = text::summary(found, look);
    for it in found.iter().filter(|_| !arguments.summary) {
        let title = match look {
            Look::Plain => it.experiment.clone(),
            Look::Markdown => format!("### {}\n", it.experiment),
        };
        text.push_str(&format!("\n{title}\n{}", text::figures(it, arguments.misses, look)));
    }
    text.push_str(&format!("\n{}\n", footer(found, arguments)));
    // The page in docs/ shows only published figures.
    if look == Look::Plain {
        text.push_str(&format!("{}\n", truth::last_text(truth::last())));
    }
    text
}

/// Returns an HTML page that compares published figures with simulated ones.
fn page(found: &[Fidelity], arguments: &Arguments) -> Page {
    let picture = Part::Picture(pictures::fidelity(found, &seeds(arguments)).draw());
    let summary = Part::table("Summary", text::summary_grid(found));
    let mut sections = vec![Section::new("Summary", vec![summary, picture])];
    for it in found.iter().filter(|_| !arguments.summary) {
        let figures = Part::table("Figures", text::figures_grid(it, arguments.misses));
        sections.push(Section::new(it.experiment.clone(), vec![figures]));
    }
    Page {
        title: "Published figures beside simulated ones".into(),
        about: vec![footer(found, arguments), truth::last_text(truth::last())],
        sections,
    }
}

/// Returns the line of a report that states the seeds and fingerprints of the runs from which the figures come.
fn footer(found: &[Fidelity], arguments: &Arguments) -> String {
    let seeds = seeds(arguments);
    let prints = found.iter().filter_map(|it| Some(format!("{} {}", it.experiment, it.fingerprint.as_ref()?)));
    format!("{seeds} · fingerprints {}", prints.collect::<Vec<_>>().join(", "))
}

/// Returns a text that names the seeds of the runs, such as `medians of 3 runs, seeds 1 to 3`.
fn seeds(arguments: &Arguments) -> String {
    let SeedOptions { seed, runs, .. } = arguments.seeds;
    match runs {
        1 => format!("seed {seed}"),
        runs => format!("medians of {runs} runs, seeds {seed} to {}", seed + u64::from(runs) - 1),
    }
}
