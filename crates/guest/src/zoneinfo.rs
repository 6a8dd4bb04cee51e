//! The zones of a running kernel, from the text of `/proc/zoneinfo`.

use serde::{Deserialize, Serialize};

/// A memory zone that has pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Zone {
    /// The number of the zone's node.
    pub node: u8,
    /// The name of the zone, such as `DMA32`.
    pub name: String,
    /// Number of free pages on the zone's lists.
    pub free: u64,
    /// Number of free pages on per-CPU lists.
    pub of_cpus: u64,
    /// Number of pages that the allocator manages.
    pub managed: u64,
    /// Number of frames from the first to the last frame of the zone, including holes.
    pub spanned: u64,
    /// Number of the zone's first frame.
    pub start: u64,
}

/// Reads `text`, the contents of `/proc/zoneinfo`. Returns the zones that have managed pages, in the order of the text.
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
    /// Returns the zone's name for people: `Normal` on the first node, and `Normal of node 1` on another node.
    #[must_use]
    pub fn called(&self) -> String {
        match self.node {
            0 => self.name.clone(),
            node => format!("{} of node {node}", self.name),
        }
    }
}

/// Returns the node and the name of a zone from the first line of its text, such as `Node 0, zone   Normal`; `None` for
/// any other line.
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
