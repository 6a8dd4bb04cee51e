//! The verb `list`: prints the names of all kernels, machines, experiments and workloads.

use placed::{Error, Node};

use super::{End, show};
use catalogue::experiment::{Experiment, Published};
use catalogue::ground::Ground;
use catalogue::{embedded, find};
use clap::ValueEnum as _;
use kit::words::counted;
use report::Look;
use report::grid::hanging;

/// Names, each with the lines of its description.
type Lines = Vec<(&'static str, Vec<String>)>;

/// Prints the names of all kernels, machines, experiments and workloads, with their descriptions.
pub fn run() -> Result<(), End> {
    let kernel = |name: &str| find::kernel(name).map(|kernel| vec![kernel.about]);
    let machine = |name: &str| {
        let text = embedded::text(&format!("machines/{name}.toml")).unwrap_or_default();
        let about = Node::parse(name, text)?.get("about").map_or(Ok(String::new()), Node::read)?;
        Ok(vec![about])
    };
    let experiment = |name: &str| {
        let experiment = find::experiment(name)?;
        let facts = facts(&experiment);
        Ok(vec![experiment.about, facts])
    };
    let blocks = [
        ("kernels", named("kernels", kernel)?),
        ("machines", named("machines", machine)?),
        ("experiments", named("experiments", experiment)?),
        ("workloads", grounds::all().iter().map(|it| (it.name(), vec![it.about().to_owned()])).collect()),
    ];
    show(|look| blocks.iter().map(|(title, lines)| block(title, lines, look)).collect::<Vec<_>>().join("\n"))
}

/// Returns the names of the embedded files in a folder, each with its description.
fn named(folder: &str, about: impl Fn(&str) -> Result<Vec<String>, Error>) -> Result<Lines, Error> {
    embedded::names(folder).map(|name| Ok((name, about(name)?))).collect()
}

/// Returns a line of facts about an experiment: the grounds on which it can run, the number of its variants, the number
/// of its published figures, and the CPU time of its runs.
fn facts(experiment: &Experiment) -> String {
    let workload = grounds::find(&experiment.workload);
    let runs_on = |ground: &&Ground| workload.is_none_or(|workload| workload.refused_on(**ground).is_none());
    let grounds: Vec<String> = Ground::value_variants().iter().filter(runs_on).map(Ground::to_string).collect();
    let mut facts = vec![grounds.join(", ")];
    let count = |count: usize, what: &str| (count > 0).then(|| counted(count, what));
    facts.extend(count(experiment.variants.len(), "variant"));
    facts.extend(count(experiment.published.as_ref().map_or(0, Published::count), "published figure"));
    facts.extend(experiment.cpu_s.map(|seconds| format!("{seconds} s of CPU time")));
    facts.join(" · ")
}

/// Returns a text: the title `title`, and below it the names with their descriptions.
fn block(title: &str, lines: &Lines, look: Look) -> String {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("{title}\n");
    for (name, about) in lines {
        for (number, line) in about.iter().enumerate() {
            let name = if number == 0 { name } else { "" };
            text.push_str(&hanging(&format!("  {name:<width$}  "), line, look));
        }
    }
    text
}
