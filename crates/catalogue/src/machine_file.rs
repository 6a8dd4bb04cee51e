//! A machine file: one simulated computer, every constant with its origin.
//!
//! ```toml
//! about = "8 GiB, 8 CPUs, one 7200 rpm disk"
//! base = "…"    # another machine, from which everything comes that this file does not set; optional
//! [memory]      # nodes and zones
//! [cpu]         # number of CPUs, locks, caches
//! [cost]        # CPU time of each step: { ns = 90, from = "fitted", source = "…" }
//! [[disk]]      # a block device; one such table for each
//! [network]     # a network card, if it has one
//! [before]      # contents of memory before the run
//! [[group]]     # a memory control group; one such table for each
//! ```
//!
//! The crates that use a section define its type. This module reads the file and knows the line of every value, so that
//! an error names file, line and the nearest known key.

use crate::group::{self, Group};
use placed::{Entry, Error, Node, Place};
use serde::de::DeserializeOwned;

/// A machine file, generic over the types of its sections.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFile<Memory, Cpu, Cost, Disk, Network, Before> {
    /// Name of the machine: the name of its file, without folder and extension.
    pub name: String,
    /// Name by which messages refer to the machine file.
    pub file: String,
    /// Names of the machines that this machine is based on, nearest first.
    pub bases: Vec<String>,
    /// Description of the machine in one line.
    pub about: String,
    /// The memory of the machine: its nodes and zones.
    pub memory: Memory,
    /// The CPUs.
    pub cpu: Cpu,
    /// The cost of each step.
    pub cost: Cost,
    /// The block devices.
    pub disks: Vec<Disk>,
    /// The network card, if the machine has one.
    pub network: Option<Network>,
    /// The contents of memory before the run.
    pub before: Before,
    /// The memory control groups, parents first.
    pub groups: Vec<Group>,
    /// The whole file with the keys of its bases, for messages and explanations.
    pub node: Node,
}

/// Keys at the top level of a machine file.
const KEYS: [&str; 9] = ["about", "base", "memory", "cpu", "cost", "disk", "network", "before", "group"];

/// The words that the key `from` of a constant may have. Each names a way in which the constant's value was found.
const ORIGINS: [&str; 6] = ["published", "data-sheet", "measured", "fitted", "inferred", "assumed"];

impl<Memory, Cpu, Cost, Disk, Network, Before> MachineFile<Memory, Cpu, Cost, Disk, Network, Before>
where
    Memory: DeserializeOwned,
    Cpu: DeserializeOwned,
    Cost: DeserializeOwned,
    Disk: DeserializeOwned,
    Network: DeserializeOwned,
    Before: DeserializeOwned,
{
    /// Makes a machine from its parsed file, to which changes were already applied. `file` is the file's name in
    /// messages.
    ///
    /// # Errors
    /// When the file is faulty. The error is the first fault, with file and line: an unknown or missing section or key,
    /// a value of the wrong type, or an origin (`from`) that is not a known word.
    pub fn of_node(name: &str, file: &str, mut node: Node) -> Result<Self, Error> {
        node.only(&KEYS)?;
        group::resolve(&mut node)?;
        check_origins(&node)?;
        let mut ordered = node.clone();
        tags_first(&mut ordered);
        let section = |key: &str| {
            ordered.get(key).ok_or_else(|| Error::at(&node.place, format!("section [{key}] of the machine is missing")))
        };
        Ok(Self {
            name: name.to_owned(),
            file: file.to_owned(),
            bases: Vec::new(),
            about: node.get("about").map(Node::read).transpose()?.unwrap_or_default(),
            memory: in_section("memory", section("memory")?)?,
            cpu: in_section("cpu", section("cpu")?)?,
            cost: in_section("cost", section("cost")?)?,
            disks: ordered.get("disk").map(|node| in_section("disk", node)).transpose()?.unwrap_or_default(),
            network: ordered.get("network").map(|node| in_section("network", node)).transpose()?,
            before: in_section("before", section("before")?)?,
            groups: groups_of(&node)?,
            node,
        })
    }
}

/// Reads the groups of a machine file, and checks them.
fn groups_of(node: &Node) -> Result<Vec<Group>, Error> {
    let groups: Vec<Group> = node.get("group").map(|node| in_section("group", node)).transpose()?.unwrap_or_default();
    group::check(&groups, node)?;
    Ok(groups)
}

/// Moves the keys `model` and `name` to the front of each table, because they decide how the other keys are read.
fn tags_first(node: &mut Node) {
    use placed::Value;
    match &mut node.value {
        Value::List(nodes) => nodes.iter_mut().for_each(tags_first),
        Value::Table(entries) => {
            entries.sort_by_key(|entry| !["model", "name"].contains(&entry.key.as_str()));
            entries.iter_mut().for_each(|entry| tags_first(&mut entry.node));
        }
        _ => {}
    }
}

/// Reads one section of a machine file. An error names the section and the key, and shows how the value of the key is
/// written.
fn in_section<T: DeserializeOwned>(name: &str, node: &Node) -> Result<T, Error> {
    node.read().map_err(|error| {
        let message = with_key(name, node, &error);
        // Groups are a list of sections.
        let section = if name == "group" { "[[group]]".to_owned() } else { format!("[{name}]") };
        Error { message: format!("in {section}: {message}"), ..error }
    })
}

/// Returns the message of `error`, a wrong value in a section of a machine file, with the value's key added. If the key
/// is that of a constant, the message also shows how a constant is written.
fn with_key(section: &str, node: &Node, error: &Error) -> String {
    let message = &error.message;
    let entry = error.place.as_ref().and_then(|place| entry_at(node, place));
    let Some(Entry { key, node: found, .. }) = entry else {
        let is_list = matches!(node.value, placed::Value::List(_)) && message.ends_with("is missing");
        let anew = format!(": `[[{section}]]` gives all {section}s anew, `[{section}]` changes the base's");
        return if is_list { format!("{message}{anew}") } else { message.clone() };
    };
    let unit = if section == "cost" { "ns" } else { "value" };
    let value = |value: &placed::Value| format!("`{key} = {{ {unit} = {value}, from = \"assumed\", source = \"…\" }}`");
    let of_table = || ["value", "ns"].into_iter().find_map(|unit| Some(value(&found.get(unit)?.value)));
    let is_of_constant = ["from", "source", "value", "ns"].iter().any(|key| message.contains(&format!("key `{key}`")));
    match message.strip_prefix("expected a table") {
        Some(rest) => format!("`{key}`: expected a constant with where it is from, {}{rest}", value(&found.value)),
        None if is_of_constant => match of_table() {
            Some(form) => format!("`{key}`: {message}: {form}"),
            None => format!("`{key}`: {message}"),
        },
        None if ["expected ", "unknown value "].iter().any(|begin| message.starts_with(begin)) => {
            format!("`{key}`: {message}")
        }
        None => message.clone(),
    }
}

/// Returns the first entry whose key and value are both at `place` (file and line), in a table or in the tables within
/// it; none if there is no such entry.
fn entry_at<'n>(node: &'n Node, place: &Place) -> Option<&'n Entry> {
    if let placed::Value::List(nodes) = &node.value {
        return nodes.iter().find_map(|node| entry_at(node, place));
    }
    let own = node.entries().iter().find(|entry| entry.place == *place && entry.node.place == *place);
    own.or_else(|| node.entries().iter().find_map(|entry| entry_at(&entry.node, place)))
}

/// Checks that the key `from` of every constant, which says how the value was found, has a known word.
fn check_origins(node: &Node) -> Result<(), Error> {
    use placed::{Value, one_of};
    match &node.value {
        Value::List(nodes) => nodes.iter().try_for_each(check_origins),
        Value::Table(entries) => entries.iter().try_for_each(|entry| match entry.node.as_text() {
            Some(origin) if entry.key == "from" && !ORIGINS.contains(&origin) => {
                let message = format!("unknown origin `{origin}`{}", one_of(origin, &ORIGINS));
                Err(Error::at(&entry.place, message))
            }
            _ => check_origins(&entry.node),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Constant {
        ns: u64,
        from: String,
        #[serde(default)]
        source: String,
    }
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Cost {
        scan_page: Constant,
    }
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Cpu {
        count: u32,
    }
    type Any = std::collections::BTreeMap<String, u64>;
    type Machine = MachineFile<Any, Cpu, Cost, Any, Any, Any>;

    const TEXT: &str = "about = \"small\"\n[memory]\n[cpu]\ncount = 8\n[cost]\nscan_page = { ns = 90, from = \"fitted\" }\n[[disk]]\nbytes = 1\n[before]\n";

    fn parse(text: &str) -> Result<Machine, String> {
        Node::parse("machines/m.toml", text)
            .and_then(|node| Machine::of_node("m", "machines/m.toml", node))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn sections_become_their_types() {
        let machine = parse(TEXT).unwrap();
        assert_eq!((machine.cpu.count, machine.cost.scan_page.ns, machine.disks.len()), (8, 90, 1));
        assert_eq!((machine.name.as_str(), machine.about.as_str()), ("m", "small"));
    }

    #[test]
    fn what_is_wrong_is_told_with_line_section_and_nearest_name() {
        let wrong = |from: &str, to: &str| parse(&TEXT.replace(from, to)).unwrap_err();
        assert_eq!(wrong("[cost]", "[costs]"), "machines/m.toml:5: unknown section `costs`: did you mean `cost`?");
        assert_eq!(wrong("[before]", ""), "machines/m.toml:1: section [before] of the machine is missing");
        assert_eq!(
            wrong("scan_page", "scan_pages"),
            "machines/m.toml:6: in [cost]: unknown key `scan_pages`: did you mean `scan_page`?"
        );
        assert_eq!(
            wrong("= 8", "= \"8\""),
            "machines/m.toml:4: in [cpu]: `count`: expected a whole number from 0 to 4294967295, found \"8\""
        );
        assert_eq!(wrong("fitted", "fited"), "machines/m.toml:6: unknown origin `fited`: did you mean `fitted`?");
    }
}
