//! `/proc/meminfo`, and the files of nodes (`/sys/devices/system/node/node0/meminfo`), whose lines begin with `Node 0`.

use super::{Look, Took};
use std::collections::BTreeMap;

/// The contents of `/proc/meminfo`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meminfo {
    /// By name: sizes in KiB, and numbers of huge pages (`HugePages_Total`). Of several nodes the sum.
    pub values: BTreeMap<String, u64>,
    /// The nodes of which they are; empty where they are of the whole computer.
    nodes: Vec<String>,
}

/// Lines that are in no look but this.
#[must_use]
pub fn begins(line: &str) -> bool {
    parse(line).is_some_and(|(_, name, _)| name == "MemTotal")
}

/// Node, name and value of a line.
fn parse(line: &str) -> Option<(Option<&str>, &str, u64)> {
    let line = line.trim();
    let (node, line) = match line.strip_prefix("Node ").and_then(|rest| rest.split_once(' ')) {
        Some((node, rest)) if node.parse::<u32>().is_ok() => (Some(node), rest.trim_start()),
        _ => (None, line),
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
        let is_new_node = node.is_some_and(|node| !self.nodes.iter().any(|it| it == node));
        if name == "MemTotal" && self.values.contains_key(name) && !is_new_node {
            return Took::Next;
        }
        if is_new_node {
            self.nodes.extend(node.map(str::to_owned));
        }
        let sum = self.values.entry(name.to_owned()).or_default();
        *sum = if node.is_some() { sum.saturating_add(value) } else { value };
        Took::Yes
    }
}

impl Meminfo {
    /// A size, KiB, or a number of huge pages; none where there is no such line.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.get(name).copied()
    }

    /// Swap and what is free of it, KiB; none where either is not told.
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
        let twice = format!("{text}{text}");
        let lines: Vec<&str> = twice.lines().collect();
        let looks: Vec<Meminfo> = super::super::all(&lines, |line| line, |_| panic!("all are taken"));
        assert_eq!(looks, [both.clone(), both]);
    }
}
