//! The contents of `/proc/buddyinfo`, which has the free blocks of each zone by order, and of `/proc/pagetypeinfo`,
//! which counts them by migrate type.

use super::zoneinfo::heading;
use super::{Look, Took};

/// The contents of `/proc/buddyinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buddyinfo {
    /// For each zone: its node, its name, and the number of free blocks of each order, from order 0 on.
    pub zones: Vec<(u32, String, Vec<u64>)>,
}

/// Largest number of orders that a line may have. No kernel has more.
const ORDERS_MAX: usize = 32;

/// Returns whether a line belongs to `/proc/buddyinfo`.
#[must_use]
pub fn begins(line: &str) -> bool {
    blocks(line).is_some()
}

/// Reads the node, the name and the numbers of free blocks from a line `Node 0, zone   Normal     3      2      1`.
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

/// The free blocks in `/proc/pagetypeinfo`, summed over migrate types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pagetypeinfo {
    /// Numbers of free blocks of each zone and order, summed over migrate types.
    pub blocks: Buddyinfo,
    /// Node, zone and migrate type of each line that was added to the sums.
    met: Vec<(u32, String, String)>,
    /// True if the heading `Number of …` has been read. The lines below it count all pageblocks of each migrate type,
    /// and not free blocks.
    is_behind: bool,
}

/// Returns whether a line certainly belongs to `/proc/pagetypeinfo`.
#[must_use]
pub fn begins_types(line: &str) -> bool {
    typed(line).is_some()
        || line.starts_with("Free pages count per migrate type")
        || line.starts_with("Page block order:")
        || line.starts_with("Pages per block:")
}

/// Returns whether a line that follows lines of `/proc/pagetypeinfo` may belong to the same file.
#[must_use]
pub fn holds_types(line: &str) -> bool {
    begins_types(line) || line.starts_with("Number of ") || heading(line).is_some()
}

/// Reads the node, the zone, the migrate type and the numbers of free blocks from a line
/// `Node    0, zone   Normal, type    Unmovable     1 0`.
fn typed(line: &str) -> Option<(u32, &str, &str, Vec<u64>)> {
    let (before, behind) = line.split_once(", type ")?;
    let (node, zone, "") = heading(before)? else { return None };
    let mut words = behind.split_whitespace();
    let name = words.next()?;
    // Newer kernels stop counting at 100,000, and print `>100000`.
    let numbers: Option<Vec<u64>> = words.map(|word| word.trim_start_matches('>').parse().ok()).collect();
    numbers.filter(|numbers| (1..=ORDERS_MAX).contains(&numbers.len())).map(|numbers| (node, zone, name, numbers))
}

impl Look for Pagetypeinfo {
    fn take(&mut self, line: &str) -> Took {
        if let Some((node, zone, name, numbers)) = typed(line) {
            let this = (node, zone.to_owned(), name.to_owned());
            if self.met.contains(&this) {
                return Took::Next;
            }
            self.met.push(this);
            let zones = &mut self.blocks.zones;
            let place =
                zones.iter().position(|(its, known, _)| (*its, &**known) == (node, zone)).unwrap_or_else(|| {
                    zones.push((node, zone.to_owned(), Vec::new()));
                    zones.len() - 1
                });
            let sums = &mut zones[place].2;
            sums.resize(sums.len().max(numbers.len()), 0);
            sums.iter_mut().zip(numbers).for_each(|(sum, blocks)| *sum = sum.saturating_add(blocks));
            return Took::Yes;
        }
        self.is_behind |= line.starts_with("Number of ");
        match begins_types(line) || line.starts_with("Number of ") || self.is_behind && heading(line).is_some() {
            true => Took::Yes,
            false => Took::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_all_types_are_added_up_and_the_table_behind_is_none_of_them() {
        let text = "Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type at order       0      1      2\n\
            Node    0, zone   Normal, type    Unmovable      5      3      0\nNode    0, zone   Normal, type      Movable >100000     1      2\n\n\
            Number of blocks type     Unmovable      Movable\nNode 0, zone   Normal            7           90\n";
        assert!(text.lines().filter(|line| !line.is_empty()).all(holds_types));
        assert_eq!(Pagetypeinfo::of(text).blocks.zones, [(0, "Normal".into(), vec![100_005, 4, 2])]);
        assert!(begins_types("Page block order: 9") && !begins_types("Node 0, zone   Normal   7   90"));
    }

    #[test]
    fn blocks_are_read_by_order() {
        let found = Buddyinfo::of("Node 0, zone   Normal     3      2      1 \nNode 1, zone    DMA32     0      1 \n");
        assert_eq!(found.zones, [(0, "Normal".into(), vec![3, 2, 1]), (1, "DMA32".into(), vec![0, 1])]);
        // Lines of `/proc/zoneinfo` and of `/proc/pagetypeinfo` are similar.
        assert!(!begins("Node 0, zone   Normal") && !begins("Node    0, zone      DMA, type    Unmovable      1"));
    }
}
