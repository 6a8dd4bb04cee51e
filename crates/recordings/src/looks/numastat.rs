//! The table of `numastat -m`, also with `-c`: the `meminfo` of each node, in MiB.

use super::{Look, Meminfo, Took};

/// The table of `numastat -m`. A computer with many nodes has several parts of the table, one below the other, each with
/// a heading of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numastat {
    /// The rows of the table as the files of the nodes have them: sizes in KiB, summed over nodes.
    pub meminfo: Meminfo,
    /// The nodes of the columns; the column `Total` is none of them.
    columns: Vec<u32>,
}

/// Size of the huge pages that are assumed, KiB: the table has sizes of pools instead of numbers of pages.
const HUGE_PAGE_KIB: f64 = 2048.0;

/// Reads the nodes from a heading such as `Node 0 Node 1 Total`.
fn heading(line: &str) -> Option<Vec<u32>> {
    let mut words = line.split_whitespace().peekable();
    let mut nodes = Vec::new();
    while words.peek() == Some(&"Node") {
        words.next();
        nodes.push(words.next()?.parse().ok()?);
    }
    let is_end = matches!((words.next(), words.next()), (None | Some("Total"), None));
    (is_end && !nodes.is_empty()).then_some(nodes)
}

/// Reads a row: its name and its sizes in MiB.
fn row(line: &str) -> Option<(&str, Vec<f64>)> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))?;
    let sizes: Vec<f64> = words.map(crate::number).collect::<Option<_>>()?;
    (!sizes.is_empty()).then_some((name, sizes))
}

/// Returns whether the table begins at the first of `lines`: at its title, or at a heading with `MemTotal` below it.
pub fn begins(lines: &mut dyn Iterator<Item = &str>) -> bool {
    let Some(line) = lines.next() else { return false };
    line.trim_start().starts_with("Per-node system memory usage")
        || heading(line).is_some() && lines.take(3).any(|line| line.trim_start().starts_with("MemTotal "))
}

/// Returns whether a line belongs to the table for certain.
#[must_use]
pub fn holds(line: &str) -> bool {
    heading(line).is_some() || row(line).is_some() || is_rule(line)
}

/// Returns whether a line is the one of dashes below a heading.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && line.bytes().all(|byte| matches!(byte, b'-' | b' '))
}

impl Look for Numastat {
    fn take(&mut self, line: &str) -> Took {
        if line.trim_start().starts_with("Per-node system memory usage") {
            return if self.meminfo.values.is_empty() { Took::Yes } else { Took::Next };
        }
        if let Some(columns) = heading(line) {
            if columns.iter().any(|node| self.meminfo.nodes.contains_key(node)) {
                return Took::Next;
            }
            self.columns = columns;
            return Took::Yes;
        }
        if is_rule(line) {
            return Took::Yes;
        }
        let Some((name, sizes)) = row(line).filter(|(_, sizes)| sizes.len() >= self.columns.len()) else {
            return Took::No;
        };
        let unit = if name.starts_with("HugePages_") { 1024.0 / HUGE_PAGE_KIB } else { 1024.0 };
        for (node, mib) in self.columns.iter().zip(sizes) {
            let value = (mib.max(0.0) * unit) as u64;
            let [total, free] = self.meminfo.nodes.entry(*node).or_default();
            match name {
                "MemTotal" => *total = value,
                "MemFree" => *free = value,
                _ => {}
            }
            let sum = self.meminfo.values.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(value);
        }
        if name.starts_with("HugePages_") {
            self.meminfo.values.insert("Hugepagesize".to_owned(), HUGE_PAGE_KIB as u64);
        }
        Took::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: &str = "
Per-node system memory usage (in MBs):
                          Node 0          Node 1           Total
                 --------------- --------------- ---------------
MemTotal                32058.12        32234.50        64292.62
MemFree                  1024.00           64.25         1088.25
FilePages                8000.00        20000.00        28000.00
HugePages_Total          2048.00            0.00         2048.00
HugePages_Free           1024.00            0.00         1024.00
";

    #[test]
    fn both_forms_of_the_table_are_files_of_nodes() {
        let Numastat { meminfo, .. } = Numastat::of(WIDE);
        assert_eq!(meminfo.nodes, [(0, [32_827_514, 1_048_576]), (1, [33_008_128, 65_792])].into());
        assert_eq!((meminfo.get("FilePages"), meminfo.get("HugePages_Free")), (Some(28_672_000), Some(512)));
        let narrow = "                 Node 0 Node 1 Total\n                 ------ ------ -----\nMemTotal          32058  32234 64292\n\
                      MemFree            1024     64  1088\nActive(anon)          1      2     3\n";
        assert!(begins(&mut narrow.lines()) && begins(&mut WIDE.trim_start().lines()));
        let found = Numastat::of(narrow).meminfo;
        assert_eq!((found.nodes[&1], found.get("Active(anon)")), ([33_007_616, 65_536], Some(3072)));
        // A second table begins another look, and parts of one table belong together.
        let twice = format!("{narrow}{narrow}");
        let lines: Vec<&str> = twice.lines().collect();
        assert_eq!(super::super::all::<Numastat, _>(&lines, |line| line, |line| panic!("{line}")).len(), 2);
        let parts = "Node 0\n------\nMemTotal 100\n\nNode 1 Total\n------ -----\nMemTotal 200 300\n";
        assert_eq!(Numastat::of(parts).meminfo.get("MemTotal"), Some(307_200));
        assert!(!begins(&mut "Node 0, zone Normal\n".lines()) && !begins(&mut "Node 0 Node 1\nnothing\n".lines()));
    }
}
