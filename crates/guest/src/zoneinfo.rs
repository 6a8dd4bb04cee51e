//! The zones of a running kernel, from the text of `/proc/zoneinfo`.

use serde::{Deserialize, Serialize};

/// A zone that has pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Zone {
    /// Its node.
    pub node: u8,
    /// Its name: `DMA32`.
    pub name: String,
    /// Free pages on its lists.
    pub free: u64,
    /// Free pages that CPUs keep.
    pub of_cpus: u64,
    /// Pages that the allocator manages.
    pub managed: u64,
    /// Frames from its first to its last, holes included.
    pub spanned: u64,
    /// Number of its first frame.
    pub start: u64,
}

/// Returns the zones with pages, in the order of the text.
#[must_use]
pub fn read(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some((node, name)) = heading(line) {
            zones.push(Zone { node, name: name.to_owned(), ..Zone::default() });
        }
        let Some(zone) = zones.last_mut() else { continue };
        let number = |name: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        let fields = [
            ("pages free", &mut zone.free),
            ("managed", &mut zone.managed),
            ("spanned", &mut zone.spanned),
            ("start_pfn:", &mut zone.start),
        ];
        fields.into_iter().for_each(|(name, field)| *field = number(name).unwrap_or(*field));
        zone.of_cpus += number("count:").unwrap_or(0);
    }
    zones.retain(|zone| zone.managed > 0);
    zones
}

impl Zone {
    /// Returns its name for readers: `Normal`, and on all nodes but the first `Normal of node 1`.
    #[must_use]
    pub fn called(&self) -> String {
        match self.node {
            0 => self.name.clone(),
            node => format!("{} of node {node}", self.name),
        }
    }
}

/// Reads node and name of the first line of a zone, `Node 0, zone   Normal`.
fn heading(line: &str) -> Option<(u8, &str)> {
    let (node, name) = line.strip_prefix("Node ")?.split_once(", zone")?;
    Some((node.trim().parse().ok()?, name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_with_pages_are_read() {
        let text = "Node 0, zone      DMA\n  per-node stats\n  nr_inactive_anon 7\n  pages free     3800\n        min      10\n\
                    \x20       spanned  4095\n        managed  3840\n  pagesets\n    cpu: 0\n              count: 12\n\
                    \x20   cpu: 1\n   count: 30\n  start_pfn:           1\n\
                    Node 0, zone   Normal\n        managed  0\nNode 1, zone      DMA32\n        managed  160\n";
        let dma = Zone { node: 0, name: "DMA".into(), free: 3800, of_cpus: 42, managed: 3840, spanned: 4095, start: 1 };
        let second = Zone { node: 1, name: "DMA32".into(), managed: 160, ..Zone::default() };
        assert_eq!(read(text), [dma, second]);
    }
}
