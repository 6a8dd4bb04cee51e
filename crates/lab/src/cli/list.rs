//! `highwater list`.

use placed::{Error, Node};

use super::{End, print};
use crate::{embedded, experiment::Published, library, workloads};

/// What an experiment is, and in a line below what it takes and what it is compared with.
fn experiment(name: &str) -> Result<String, Error> {
    let experiment = library::experiment(name)?;
    let sim_only = workloads::find(&experiment.workload).is_some_and(|workload| workload.sim_only().is_some());
    let mut facts = vec![if sim_only { "sim" } else { "sim, host, linux" }.to_owned()];
    let count = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    facts.extend(count(experiment.variants.len(), "variants"));
    facts.extend(count(experiment.published.as_ref().map_or(0, Published::count), "published figures"));
    facts.extend(experiment.cpu_s.map(|seconds| format!("about {seconds} s of CPU time")));
    Ok(format!("{}\n{}", experiment.about, facts.join(" · ")))
}

/// Prints everything that has a name, with one line about each.
pub fn run() -> Result<(), End> {
    let kernel = |name: &str| library::kernel(name).map(|kernel| kernel.about);
    let machine = |name: &str| {
        let text = embedded::text(&format!("machines/{name}.toml")).unwrap_or_default();
        let node = Node::parse(name, text)?;
        node.get("about").map_or(Ok(String::new()), Node::read)
    };
    let mut text = String::new();
    let mut block = |title: &str, lines: Vec<(&str, String)>| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{title}\n"));
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (mut name, about) in lines {
            // What does not fit beside a name stands below, and so do further lines.
            for line in about.lines() {
                text.push_str(format!("  {name:<width$}  {line}").trim_end());
                text.push('\n');
                name = "";
            }
        }
    };
    let named = |folder: &str, about: &dyn Fn(&str) -> Result<String, _>| {
        let line = |name| Ok((name, about(name)?));
        embedded::names(folder).map(line).collect::<Result<Vec<_>, placed::Error>>()
    };
    block("kernels", named("kernels", &kernel)?);
    block("machines", named("machines", &machine)?);
    block("experiments", named("experiments", &experiment)?);
    block("workloads", workloads::all().iter().map(|it| (it.name(), it.about().to_owned())).collect());
    print(&text)
}
