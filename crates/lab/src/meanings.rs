//! Meanings of the keys of machine files and of workload parameters, taken from the comments at their declarations.

use catalogue::group::Group;
use catalogue::hardware::{Before, CacheLines, Cpu, Disk, Network, Programs, Tlb};
use catalogue::{embedded, find};
use documented::DocumentedFields;
use machine::Step;
use sim::disk::config::{CfqConfig, DeadlineConfig, EraseConfig, FlashConfig, QueueConfig, RotationalConfig};

/// The keys of a machine file that no doc comment explains, with their meanings. All other keys are struct fields or
/// steps of the cost table, and take their meanings from the comments there.
const OTHERS: [(&str, &str); 12] = [
    ("about", "One line about it."),
    ("base", "The machine that this one is but for what follows: a name, or a file beside this one."),
    ("memory.nodes", "The nodes of memory, each with its zones."),
    ("memory.nodes.zones", "The zones of a node, lowest first."),
    ("memory.nodes.zones.kind", "Which zone it is: `dma`, `dma32` or `normal`."),
    (
        "memory.nodes.zones.managed_pages",
        "Pages that the allocator manages: present ones without those reserved at boot.",
    ),
    ("memory.nodes.zones.spanned_pages", "Pages that it may grow to; 0 for as many as there are."),
    (
        "memory.nodes.zones.unmovable_part",
        "True if the pageblock at its end, of which only a part belongs to it, is unmovable at the start.",
    ),
    (
        "memory.distances",
        "How far each node's CPUs are from each node's memory, as `numactl --hardware` prints it: 10 for the node itself, 20 where an \
         access takes twice as long. Without it, 20 to all others.",
    ),
    ("memory.limit_pages", "The limit of a memory cgroup that all tasks are in, pages; none without it."),
    (
        "disk.device.model",
        "How the disk works: `rotational` has one arm, so that position decides what a request costs; `flash` has many channels.",
    ),
    (
        "disk.device.queue.elevator.name",
        "Which waiting request is served next: `noop` in order of arrival, `deadline` by block with bounded waits, `cfq` by slices.",
    ),
];

/// Returns every key of a machine file as a path, such as `cpu.count`, with its meaning.
#[must_use]
pub fn of_machines() -> Vec<(String, &'static str)> {
    let sections: [(&str, &[&str], &[&str]); 14] = [
        ("cpu", Cpu::FIELD_NAMES, Cpu::FIELD_DOCS),
        ("cpu.tlb", Tlb::FIELD_NAMES, Tlb::FIELD_DOCS),
        ("cpu.cache_lines", CacheLines::FIELD_NAMES, CacheLines::FIELD_DOCS),
        ("disk", Disk::FIELD_NAMES, Disk::FIELD_DOCS),
        ("disk.device", RotationalConfig::FIELD_NAMES, RotationalConfig::FIELD_DOCS),
        ("disk.device", FlashConfig::FIELD_NAMES, FlashConfig::FIELD_DOCS),
        ("disk.device.erase", EraseConfig::FIELD_NAMES, EraseConfig::FIELD_DOCS),
        ("disk.device.queue", QueueConfig::FIELD_NAMES, QueueConfig::FIELD_DOCS),
        ("disk.device.queue.elevator", DeadlineConfig::FIELD_NAMES, DeadlineConfig::FIELD_DOCS),
        ("disk.device.queue.elevator", CfqConfig::FIELD_NAMES, CfqConfig::FIELD_DOCS),
        ("network", Network::FIELD_NAMES, Network::FIELD_DOCS),
        ("before", Before::FIELD_NAMES, Before::FIELD_DOCS),
        ("before.programs", Programs::FIELD_NAMES, Programs::FIELD_DOCS),
        ("group", Group::FIELD_NAMES, Group::FIELD_DOCS),
    ];
    let others = OTHERS.iter().map(|(path, about)| ((*path).to_owned(), *about));
    let costs = Step::ALL.iter().map(|step| (format!("cost.{}", step.name()), step.about().trim()));
    let mut keys: Vec<(String, &str)> = others.chain(costs).collect();
    for (section, names, docs) in sections {
        for (name, about) in names.iter().zip(docs) {
            let path = format!("{section}.{name}");
            if !keys.iter().any(|(known, _)| *known == path) {
                keys.push((path, about));
            }
        }
    }
    keys
}

/// Returns the meaning of a key of a machine file; `None` if there is no such key. `path` names the key without indices
/// of list elements: `cpu.count`, `memory.nodes.zones.kind`.
#[must_use]
pub fn of_machine(path: &str) -> Option<String> {
    let found = of_machines().into_iter().find(|(known, _)| known == path);
    found.map(|(_, about)| plain(about))
}

/// Returns the meanings of the workload parameter `param`, which can differ between workloads. Each meaning comes with
/// the names of the workloads for which it holds.
#[must_use]
pub fn of_param(param: &str) -> Vec<(String, Vec<&'static str>)> {
    let mut found: Vec<(String, Vec<&'static str>)> = Vec::new();
    for workload in grounds::all() {
        let Some(about) = workload.about_param(param).map(plain) else { continue };
        match found.iter_mut().find(|(known, _)| *known == about) {
            Some((_, names)) => names.push(workload.name()),
            None => found.push((about, vec![workload.name()])),
        }
    }
    found
}

/// Returns the names of the parameters of all built-in experiments, each name once.
#[must_use]
pub fn params() -> Vec<String> {
    let mut found = Vec::new();
    for name in embedded::names("experiments") {
        let Ok(experiment) = find::experiment(name) else { continue };
        let params = grounds::find(&experiment.workload).and_then(|workload| workload.params(&experiment.params));
        collect(&params.unwrap_or_default(), "", &mut found);
    }
    found.sort();
    found.dedup();
    found
}

/// Adds to `found` the paths of the values in the JSON value `value`, at any depth. `path` is the path of `value`
/// itself. An object with a key `from` is a constant that states its origin. It counts as a single value.
fn collect(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    let Some(keys) = value.as_object().filter(|keys| !keys.contains_key("from")) else {
        return found.push(path.to_owned());
    };
    for (key, value) in keys {
        collect(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
    }
}

/// Returns the comment at a declaration as one line, without the brackets of links.
fn plain(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use placed::{Node, Value};

    /// Adds to `found` the paths of all keys below `node`, whose own path is `path`. A path does not have the index of
    /// an item in a list, so all tables of a list give the same paths.
    fn paths(node: &Node, path: &str, found: &mut Vec<String>) {
        match &node.value {
            Value::List(nodes) if nodes.iter().any(|node| matches!(node.value, Value::Table(_))) => {
                nodes.iter().for_each(|node| paths(node, path, found));
            }
            Value::Table(entries) if node.get("from").is_none() => {
                for entry in entries {
                    let path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                    paths(&entry.node, &path, found);
                }
            }
            _ => found.push(path.to_owned()),
        }
    }

    #[test]
    fn every_key_of_every_machine_has_a_meaning() {
        for name in embedded::names("machines") {
            let mut keys = Vec::new();
            paths(&find::machine(name).unwrap().node, "", &mut keys);
            assert!(keys.len() > 60, "{name}: {keys:?}");
            for key in keys {
                // An elevator is a name, or a table.
                assert!(of_machine(&key).is_some_and(|about| about.ends_with(['.', ')'])), "{name}: {key}");
            }
        }
    }

    #[test]
    fn every_parameter_of_every_experiment_has_a_meaning() {
        let params = params();
        assert!(params.contains(&"operations".to_owned()) && params.contains(&"build.units".to_owned()), "{params:?}");
        for param in params {
            assert!(!of_param(&param).is_empty(), "`{param}` has no meaning: `about_param` of its workload gives it");
        }
    }

    #[test]
    fn a_meaning_is_one_line_with_the_workloads_that_have_it() {
        assert_eq!(of_machine("cpu.count").as_deref(), Some("Number of logical CPUs."));
        assert_eq!(of_machine("cost.scan_page").as_deref(), Some(Step::ScanPage.about().trim()));
        assert_eq!((of_machine("cpu.cuont"), of_param("nonesuch")), (None, Vec::new()));
        let found = of_param("sync_every");
        assert!(
            matches!(&found[..], [(about, names)] if !about.contains('\n') && names == &["randwrite"]),
            "{found:?}"
        );
    }
}
