//! `/proc/vmstat`: counters and levels by name.

use super::{Look, Took};
use engine::stat::Vmstat;

/// What it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmstatFile(pub Vmstat);

/// How the names of it begin that no other file has.
const OF_VMSTAT: [&str; 8] =
    ["nr_free_pages ", "nr_dirty ", "pgscan_kswapd", "pgscan_direct", "pgsteal_", "allocstall", "pgpgin ", "nr_zone_"];

/// Is a line one of it that no other file has?
#[must_use]
pub fn begins(line: &str) -> bool {
    pair(line).is_some() && OF_VMSTAT.iter().any(|name| line.trim_start().starts_with(name))
}

/// Name and value of a line.
fn pair(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else { return None };
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // Levels of CPUs that are added up late may be below 0 for a moment.
    let number = value.parse::<u64>().ok().or_else(|| value.parse::<i64>().ok().map(|_| 0));
    number.filter(|_| is_name).map(|number| (name, number))
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
        assert!(begins("nr_free_pages 7") && !begins("nr_free_pages") && !begins("oom 7"));
    }
}
