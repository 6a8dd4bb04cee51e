//! The contents of `/proc/meminfo`, and of nodes' files (`/sys/devices/system/node/node0/meminfo`), whose lines begin
//! with `Node 0`.

use super::{Look, Took};
use std::collections::BTreeMap;

/// The contents of `/proc/meminfo`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meminfo {
    /// Sizes in KiB and numbers of huge pages. The key is the name, such as `MemTotal` or `HugePages_Total`. Values of
    /// several nodes are summed.
    pub values: BTreeMap<String, u64>,
    /// The nodes that the values come from, each with its `MemTotal` and `MemFree`, KiB. Empty if the values are those
    /// of the whole computer.
    pub nodes: BTreeMap<u32, [u64; 2]>,
}

/// Returns whether a line is the first line of `/proc/meminfo` or of a node's `meminfo`: it contains `MemTotal`.
#[must_use]
pub fn begins(line: &str) -> bool {
    parse(line).is_some_and(|(_, name, _)| name == "MemTotal")
}

/// Splits a line into the node (if there is one), the name and the value.
fn parse(line: &str) -> Option<(Option<u32>, &str, u64)> {
    let line = line.trim();
    let of_node = |(node, rest): (&str, _)| Some((node.parse().ok()?, rest));
    let (node, line) = match line.strip_prefix("Node ").and_then(|rest| rest.split_once(' ')).and_then(of_node) {
        Some((node, rest)) => (Some(node), str::trim_start(rest)),
        None => (None, line),
    };
    let (name, value) = line.split_once(':')?;
    let mut words = value.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let is_unit = matches!(words.next(), None | Some("kB" | "KB" | "k")) && words.next().is_none();
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | ')'));
    (is_unit && is_name).then_some((node, name, number))
}

impl Look for Meminfo {
    fn take(&mut self, line: &str) -> Took {
        let Some((node, name, value)) = parse(line) else { return Took::No };
        let is_new_node = node.is_some_and(|node| !self.nodes.contains_key(&node));
        let is_of_all = self.nodes.is_empty() && !self.values.is_empty();
        if name == "MemTotal" && self.values.contains_key(name) && !is_new_node || node.is_some() && is_of_all {
            return Took::Next;
        }
        if let Some(node) = node {
            let [total, free] = self.nodes.entry(node).or_default();
            match name {
                "MemTotal" => *total = value,
                "MemFree" => *free = value,
                _ => {}
            }
        }
        let sum = self.values.entry(name.to_owned()).or_default();
        *sum = if node.is_some() { sum.saturating_add(value) } else { value };
        Took::Yes
    }
}

impl Meminfo {
    /// Returns the value on the line called `name`: a size in KiB, or for the `HugePages_` lines a number of huge
    /// pages. Returns none if there is no such line.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.get(name).copied()
    }

    /// Adds the values that files of other nodes had at the same moment.
    ///
    /// # Errors
    /// When `others` must be of another moment, because it or `self` is about the whole computer, or because both
    /// have values of the same node. The error returns `others`.
    pub fn add_nodes(&mut self, others: Self) -> Result<(), Self> {
        if self.nodes.is_empty() || others.nodes.is_empty() || others.nodes.keys().any(|it| self.nodes.contains_key(it))
        {
            return Err(others);
        }
        for (name, value) in others.values {
            let sum = self.values.entry(name).or_default();
            *sum = sum.saturating_add(value);
        }
        self.nodes.extend(others.nodes);
        Ok(())
    }

    /// Returns total swap and free swap, KiB; none if either is unknown.
    #[must_use]
    pub fn swap_kib(&self) -> Option<[u64; 2]> {
        Some([self.get("SwapTotal")?, self.get("SwapFree")?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kernels_are_read_and_others_are_not() {
        let text = "MemTotal:       65868000 kB\nMemFree:          412000 kB\nActive(anon):      7 kB\nHugePages_Total:     512\n\
                    Hugepagesize:       2048 kB\nVmallocTotal:   34359738367 kB\n\nsome note: of mine\nMemTot";
        let meminfo = Meminfo::of(text);
        assert_eq!(meminfo.values.len(), 6);
        assert_eq!((meminfo.get("Active(anon)"), meminfo.get("HugePages_Total")), (Some(7), Some(512)));
        assert_eq!((meminfo.get("MemAvailable"), meminfo.swap_kib()), (None, None));
        assert!(begins("MemTotal: 5 kB") && !begins("MemTotal") && !begins("Swap: 5"));
    }

    #[test]
    fn nodes_are_added_up_and_a_second_look_is_another() {
        let text = "Node 0 MemTotal: 100 kB\nNode 0 MemFree: 5 kB\nNode 1 MemTotal: 200 kB\nNode 1 MemFree: 7 kB\n";
        let both = Meminfo::of(text);
        assert_eq!((both.get("MemTotal"), both.get("MemFree")), (Some(300), Some(12)));
        assert_eq!(both.nodes, [(0, [100, 5]), (1, [200, 7])].into());
        // Files of two nodes become one reading of the computer, like a text with the lines of both. A second file of a
        // node begins another reading.
        let [mut first, second] =
            ["Node 0 MemTotal: 100 kB\nNode 0 MemFree: 5 kB\n", "Node 1 MemTotal: 200 kB\nNode 1 MemFree: 7 kB\n"]
                .map(Meminfo::of);
        assert_eq!(first.add_nodes(second.clone()), Ok(()));
        assert_eq!(first, both);
        assert_eq!(first.add_nodes(second.clone()), Err(second));
        let mut all = Meminfo::of("MemTotal: 300 kB\n");
        assert_eq!(all.add_nodes(both.clone()), Err(both.clone()));
        assert_eq!(all.take("Node 0 MemTotal: 100 kB"), Took::Next);
        let twice = format!("{text}{text}");
        let lines: Vec<&str> = twice.lines().collect();
        let looks: Vec<Meminfo> = super::super::all(&lines, |line| line, |_| panic!("all are taken"));
        assert_eq!(looks, [both.clone(), both]);
    }
}
