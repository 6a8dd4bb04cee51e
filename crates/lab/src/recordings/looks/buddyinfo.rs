//! `/proc/buddyinfo`: free blocks of each zone by order.

use super::zoneinfo::heading;
use super::{Look, Took};

/// The contents of `/proc/buddyinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buddyinfo {
    /// Node and name of each zone, and its free blocks from order 0 on.
    pub zones: Vec<(u32, String, Vec<u64>)>,
}

/// No kernel has more orders.
const ORDERS_MAX: usize = 32;

/// Returns whether a line is of `/proc/buddyinfo`.
#[must_use]
pub fn begins(line: &str) -> bool {
    blocks(line).is_some()
}

/// Node, name and blocks of a line `Node 0, zone   Normal     3      2      1`.
fn blocks(line: &str) -> Option<(u32, &str, Vec<u64>)> {
    let (node, name, numbers) = heading(line)?;
    let numbers: Option<Vec<u64>> = numbers.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers.filter(|numbers| (1..=ORDERS_MAX).contains(&numbers.len())).map(|numbers| (node, name, numbers))
}

impl Look for Buddyinfo {
    fn take(&mut self, line: &str) -> Took {
        let Some((node, name, numbers)) = blocks(line) else { return Took::No };
        if self.zones.iter().any(|(its, zone, _)| (*its, &**zone) == (node, name)) {
            return Took::Next;
        }
        self.zones.push((node, name.to_owned(), numbers));
        Took::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_by_order() {
        let found = Buddyinfo::of("Node 0, zone   Normal     3      2      1 \nNode 1, zone    DMA32     0      1 \n");
        assert_eq!(found.zones, [(0, "Normal".into(), vec![3, 2, 1]), (1, "DMA32".into(), vec![0, 1])]);
        // That of zoneinfo, and of pagetypeinfo.
        assert!(!begins("Node 0, zone   Normal") && !begins("Node    0, zone      DMA, type    Unmovable      1"));
    }
}
