//! The contents of `/proc/vmstat`: counters and levels by name.

use super::{Look, Took};
use engine::stat::Vmstat;

/// The contents of `/proc/vmstat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmstatFile(pub Vmstat);

/// Prefixes of the names in `/proc/vmstat`.
const NAMES: [&str; 31] = [
    "nr_",
    "pg",
    "psw",
    "workingset_",
    "allocstall",
    "slabs_scanned",
    "kswapd_",
    "pageoutrun",
    "drop_",
    "oom_kill",
    "numa_",
    "compact_",
    "htlb_",
    "unevictable_",
    "thp_",
    "swap_",
    "swpin_",
    "swpout_",
    "zsw",
    "zone_",
    "balloon_",
    "direct_map_",
    "ksm_",
    "cow_",
    "vma_",
    "vmalloc_",
    "kstack_",
    "kmsan_",
    "demote_",
    "promote_",
    "hugetlb_",
];

/// Beginnings of the names of some counters. A text is recognised as `/proc/vmstat` by one of them: every useful part
/// of `/proc/vmstat` has such a counter, and no zone in `/proc/zoneinfo` has one.
const COUNTERS: [&str; 6] = ["pgscan_", "pgsteal_", "pgpgin ", "pgfault ", "pswpin ", "allocstall"];

/// Returns whether lines begin a `/proc/vmstat`: all of them may belong to it, and one has a counter that
/// `/proc/zoneinfo` lacks.
pub fn begins(lines: &mut dyn Iterator<Item = &str>) -> bool {
    let mut lines = lines.take_while(|line| holds(line));
    lines.any(|line| COUNTERS.iter().any(|name| line.trim_start().starts_with(name)))
}

/// Returns whether a line may belong to `/proc/vmstat`.
#[must_use]
pub fn holds(line: &str) -> bool {
    pair(line).is_some_and(|(name, _)| NAMES.iter().any(|it| name.starts_with(it)))
}

/// Largest value of a counter that is accepted. With this limit, the sum of a counter over all zones fits into 64 bits.
const COUNTED_MAX: u64 = 1 << 60;

/// Reads the name and the value from a line.
fn pair(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else { return None };
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // A level that CPUs update late may be below 0 for a moment.
    let number = value.parse::<u64>().ok().or_else(|| value.parse::<i64>().ok().map(|_| 0));
    number.filter(|number| is_name && *number < COUNTED_MAX).map(|number| (name, number))
}

impl Look for VmstatFile {
    fn take(&mut self, line: &str) -> Took {
        let Some((name, value)) = pair(line) else { return Took::No };
        if self.0.contains_key(name) {
            return Took::Next;
        }
        self.0.insert(name.to_owned(), value);
        Took::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_copies_in_one_text_are_two() {
        let text = "nr_free_pages 10\npgscan_kswapd 5\nnr_dirty -3\n\n12:00:01\nnr_free_pages 11\npgscan_kswapd 9\n";
        let lines: Vec<&str> = text.lines().collect();
        let mut left_out = Vec::new();
        let looks: Vec<VmstatFile> = super::super::all(&lines, |line| line, |line| left_out.push(*line));
        assert_eq!((looks.len(), looks[0].0["nr_dirty"], looks[1].0["pgscan_kswapd"]), (2, 0, 9));
        assert_eq!(left_out, ["12:00:01"]);
        let begins = |text: &str| begins(&mut text.lines());
        assert!(begins("nr_free_pages 7\npgfault 9\n") && begins("pgscan_kswapd 5\n"));
        // Lines of a zone, lines of a cgroup, and a line without a number.
        assert!(
            !begins("nr_free_pages 7\nnr_mlock 3\n  pagesets\npgfault 9\n")
                && !begins("anon 7\npgfault 3\n")
                && !begins("pgfault x\n")
        );
    }
}
