//! The contents of `/proc/zoneinfo`.

use super::{Look, Took};
use std::collections::BTreeMap;

/// A zone of `/proc/zoneinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// The zone's node.
    pub node: u32,
    /// The zone's name: `DMA`, `Normal`.
    pub name: String,
    /// Numbers of pages. The key is the name in the file: `free`, `boost`, `min`, `low`, `high`, `spanned`, `present`,
    /// `managed`, `cma`, or a counter such as `nr_free_cma`.
    pub pages: BTreeMap<String, u64>,
    /// Numbers of pages (`protection`) that the zone reserves against requests that could use a higher zone, one number
    /// for each zone. The index is the number of the higher zone.
    pub protection: Vec<u64>,
    /// Number of CPUs that keep lists of free pages of the zone (per-CPU lists).
    pub cpus: usize,
}

impl Zone {
    /// Returns the number of pages that the file states under `name`; none if the file has no such name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.pages.get(name).copied()
    }

    /// Returns the number of pages that the allocator manages. Linux before 3.9 does not report it; the number of
    /// present pages is returned then.
    #[must_use]
    pub fn managed(&self) -> u64 {
        self.get("managed").or_else(|| self.get("present")).unwrap_or(0)
    }

    /// Returns the zone's name in reports, such as `Normal`. On nodes other than the first the node is added: `Normal
    /// of node 1`.
    #[must_use]
    pub fn called(&self) -> String {
        called(self.node, &self.name)
    }
}

/// Returns the name of a node's zone in reports, such as `Normal`. On nodes other than the first the node is added:
/// `Normal of node 1`.
#[must_use]
pub fn called(node: u32, name: &str) -> String {
    if node == 0 { name.to_owned() } else { format!("{name} of node {node}") }
}

/// The zones in `/proc/zoneinfo`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zoneinfo {
    /// The zones. Zones without pages are included.
    pub zones: Vec<Zone>,
    /// The part of a zone to which the following lines belong.
    part: Part,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Marks,
    /// Counters of the node. They stand among the lines of the node's first zone.
    NodeStats,
    /// The part of a zone's text about its per-CPU lists of free pages. A line `high` in this part is a limit of such a
    /// list, not the zone's high mark.
    Batches,
}

/// Returns whether a line is the first line of a zone.
#[must_use]
pub fn begins(line: &str) -> bool {
    heading(line).is_some_and(|(.., rest)| rest.is_empty())
}

/// Reads the node, the name and the rest from a line `Node 0, zone   Normal`.
pub(super) fn heading(line: &str) -> Option<(u32, &str, &str)> {
    let (node, rest) = line.trim().strip_prefix("Node ")?.split_once(", zone ")?;
    let rest = rest.trim_start();
    let (name, numbers) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((node.trim().parse().ok()?, name, numbers.trim()))
}

impl Look for Zoneinfo {
    fn take(&mut self, line: &str) -> Took {
        if let Some((node, name, "")) = heading(line) {
            if self.zones.iter().any(|zone| (zone.node, &*zone.name) == (node, name)) {
                return Took::Next;
            }
            self.zones.push(Zone { node, name: name.to_owned(), ..Zone::default() });
            self.part = Part::Marks;
            return Took::Yes;
        }
        let Some(zone) = self.zones.last_mut() else { return Took::No };
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, value) = match words.as_slice() {
            ["per-node", "stats"] => {
                self.part = Part::NodeStats;
                return Took::Yes;
            }
            ["vm", "stats", "threshold:", ..] => return Took::Yes,
            ["pagesets"] => {
                self.part = Part::Batches;
                return Took::Yes;
            }
            ["cpu:", _] => {
                zone.cpus += 1;
                return Took::Yes;
            }
            ["pages", "free", value] => {
                self.part = Part::Marks;
                ("free", *value)
            }
            ["protection:", ..] => {
                let list = line.split_once(':').map_or("", |(_, list)| list);
                let numbers = list.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
                zone.protection = numbers.collect();
                return Took::Yes;
            }
            // Kernels before 4.8 print `scanned  0`, some of them with `(aa: 1 ia: 2)` after it.
            [name, value, ..] if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => (*name, *value),
            [name, ..] if name.ends_with(':') => return Took::Yes,
            _ => return Took::No,
        };
        // No zone has so many pages. Sums over zones stay within 64 bits.
        let Some(value) = value.parse().ok().filter(|value: &u64| *value < 1 << 50) else { return Took::No };
        if self.part == Part::Marks {
            zone.pages.entry(name.to_owned()).or_insert(value);
        }
        Took::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first node in `/proc/zoneinfo` of Linux 6.x, shortened.
    const TEXT: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 1190
      nr_slab_reclaimable 9
  pages free     2816
        boost    0
        min      33
        low      41
        high     49
        spanned  4095
        present  3997
        managed  3840
        cma      0
        protection: (0, 1918, 7834, 7834, 7834)
      nr_free_pages 2816
      nr_free_cma  0
  pagesets
    cpu: 0
              count: 0
              high:  0
              batch: 1
  vm stats threshold: 4
  node_unreclaimable:  0
  start_pfn:           1
Node 0, zone   Normal
  pages free     120
        min      10
        managed  4000
  pagesets
    cpu: 0
              high:  186
    cpu: 1
              high:  186
Node 1, zone  Movable
  pages free     0
        managed  0
        protection: (0, 0)
";

    #[test]
    fn zones_are_read_and_neither_nodes_nor_batches_are_taken_for_them() {
        let found = Zoneinfo::of(TEXT);
        let [dma, normal, movable] = found.zones.as_slice() else { panic!("{found:?}") };
        assert_eq!((dma.get("free"), dma.get("high"), dma.get("nr_free_cma")), (Some(2816), Some(49), Some(0)));
        assert_eq!((dma.get("nr_inactive_anon"), &*dma.protection), (None, &[0, 1918, 7834, 7834, 7834][..]));
        assert_eq!((normal.get("high"), normal.managed(), normal.cpus), (None, 4000, 2));
        assert_eq!((movable.called(), movable.managed()), ("Movable of node 1".into(), 0));
        assert!(begins("Node 0, zone   Normal") && !begins("Node 0, zone   Normal   1   2"));
    }

    #[test]
    fn what_a_cut_or_an_old_text_lacks_is_none() {
        let cut = Zoneinfo::of(
            "        low      20\nNode 0, zone  DMA32\n  pages free     7\n        min      1\n        lo",
        );
        assert_eq!((cut.zones.len(), cut.zones[0].get("free"), cut.zones[0].get("low")), (1, Some(7), None));
        let old = "Node 0, zone   Normal\n  pages free     7\n        scanned  0 (aa: 1 ia: 2 af: 3 if: 4)\n        present  9\n";
        assert_eq!(Zoneinfo::of(old).zones[0].managed(), 9);
    }
}
