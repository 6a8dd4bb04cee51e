//! Files of a memory cgroup, in version 1 and 2: `memory.stat`, `memory.events`, `memory.current`, `memory.max`,
//! `memory.pressure` and similar ones.
//!
//! A file with one number is recognised by its name alone. The name stands before each line, as `grep` writes it
//! (`memory.max:524288000`); or above the file's lines, as `head` and `tail` write it (`==> memory.max <==`); or it is
//! the name of the file that is read.

use super::pressure::{self, Pressure};
use super::{Look, Took};
use crate::kernel_log::Numbers;
use std::collections::BTreeMap;

/// The contents of the files of one cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupFiles {
    /// The path of the cgroup, taken from the paths of its files; none if the files were named without a path.
    pub path: Option<String>,
    /// The numbers in each file, by the name of the file (such as `memory.stat`) and then by the name of the number
    /// (such as `anon`). If a file has only one number, the number has the empty name. A file that has only the word
    /// `max` has no number here; `unlimited` names it.
    pub files: BTreeMap<String, Numbers>,
    /// Names of the files that have only the word `max`.
    pub unlimited: Vec<String>,
    /// The contents of `memory.pressure`.
    pub pressure: Pressure,
    /// Name of the file that is being read: the lines that follow belong to it. None if no name was found so far.
    file: Option<String>,
}

/// Names in `memory.stat`, of cgroup version 1 or 2, that occur in no other file.
const OF_STAT: [&str; 9] = [
    "hierarchical_memory_limit",
    "total_rss",
    "rss_huge",
    "total_cache",
    "file_mapped",
    "slab_unreclaimable",
    "anon_thp",
    "kernel_stack",
    "sock",
];

/// Names of the counters in `memory.events`.
const OF_EVENTS: [&str; 6] = ["low", "high", "max", "oom", "oom_kill", "oom_group_kill"];

/// The first two names in each kind of file whose lines begin with a name: `memory.stat` of cgroup version 2,
/// `memory.stat` of version 1, `memory.events` from its first line on, `memory.events` from its third line on, and
/// `memory.oom_control`.
const FIRST: [[&str; 2]; 5] =
    [["anon", "file"], ["cache", "rss"], ["low", "high"], ["max", "oom"], ["oom_kill_disable", "under_oom"]];

/// Returns whether the contents of a file of a memory cgroup begin at the first of `lines`. They do if this line
/// contains the name of such a file, or if the first two lines begin with the first two names in such a file.
pub fn begins(lines: &mut dyn Iterator<Item = &str>) -> bool {
    let Some(line) = lines.next() else { return false };
    if file_of_heading(line).is_some() || named(line).is_some() {
        return true;
    }
    let name = |line: &str| pair(line).map(|(name, _)| name.to_owned());
    let (Some(first), Some(second)) = (name(line), lines.next().and_then(name)) else { return false };
    FIRST.iter().any(|names| *names == [&*first, &*second])
}

/// Returns whether a line may belong to a file of a memory cgroup. A line of PSI is such a line only within
/// `memory.pressure`; elsewhere it belongs to a file of the whole computer.
#[must_use]
pub fn holds(line: &str) -> bool {
    pair(line).is_some() || file_of_heading(line).is_some() || named(line).is_some() || pressure::begins(line)
}

/// Name of the file that has PSI.
const PRESSURE: &str = "memory.pressure";

/// Known names of memory files of cgroups. A file may have been saved under a name that only begins with one of these.
const FILES: [&str; 22] = [
    "memory.stat",
    "memory.events",
    "memory.events.local",
    "memory.current",
    "memory.peak",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "memory.pressure",
    "memory.swap.current",
    "memory.swap.max",
    "memory.swap.high",
    "memory.swap.events",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.failcnt",
    "memory.memsw.usage_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.memsw.failcnt",
    "memory.oom_control",
];

/// Returns the name of the cgroup's memory file that a path leads to, such as `memory.max`. A suffix after a known
/// name is ignored, as in `memory.stat.before` or `memory.events-2.txt`.
#[must_use]
pub fn file_name(path: &str) -> Option<&str> {
    let name = path.trim().rsplit('/').next()?;
    let is_known = |known: &&&str| {
        name.strip_prefix(**known).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    if let Some(known) = FILES.iter().filter(is_known).max_by_key(|known| known.len()) {
        return Some(known);
    }
    let rest = name.strip_prefix("memory.")?;
    let is_name = !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    is_name.then_some(name)
}

/// Returns whether a line may come from a file of a cgroup (such as `memory.max`) whose name was not saved with it: the
/// line is a word and a number, a number alone, or `max`.
#[must_use]
pub fn is_of_one_file(line: &str) -> bool {
    let line = line.trim();
    pair(line).is_some() || line == "max" || line.parse::<u64>().is_ok()
}

/// Reads the path from a line `==> /sys/fs/cgroup/a/memory.max <==`.
fn file_of_heading(line: &str) -> Option<&str> {
    let path = line.trim().strip_prefix("==>")?.strip_suffix("<==")?.trim();
    file_name(path).map(|_| path)
}

/// Splits a line such as `/sys/fs/cgroup/a/memory.max:524288000`, `memory.max = max` or `memory.max: 5` into the path
/// and the rest.
fn named(line: &str) -> Option<(&str, &str)> {
    let (path, rest) = line.trim().split_once([':', '='])?;
    file_name(path).map(|_| (path.trim(), rest.trim()))
}

/// Reads the name and the number from a line `anon 519155712`.
fn pair(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_whitespace();
    let (name, value, None) = (words.next()?, words.next()?, words.next()) else { return None };
    value.parse().ok().map(|value| (name, value))
}

impl CgroupFiles {
    /// Sets the file to which the following lines belong.
    pub fn begin_file(&mut self, path: &str) {
        if let Some(name) = file_name(path) {
            let folder = path.trim().rsplit_once('/').map(|(folder, _)| folder.trim_end_matches('/'));
            let is_told = |folder: &&str| !folder.trim_start_matches(['.', '/']).is_empty();
            self.path = self.path.take().or_else(|| folder.filter(is_told).map(str::to_owned));
            self.file = Some(name.to_owned());
        }
    }

    /// Returns whether a path belongs to a cgroup other than the one that the lines read so far are from.
    fn is_of_another(&self, path: &str) -> bool {
        let folder = path.rsplit_once('/').map(|(folder, _)| folder);
        self.path.as_deref().zip(folder).is_some_and(|(known, folder)| known != folder)
    }

    /// Returns the number called `name` in a file; none if the number is unknown or unlimited. `name` is empty for a
    /// file with only one number.
    #[must_use]
    pub fn get(&self, file: &str, name: &str) -> Option<u64> {
        self.files.get(file)?.get(name).copied()
    }

    /// Guesses, from the name in a line, the file to which the line belongs; none if no file is likely.
    fn guess(&self, name: &str) -> Option<&'static str> {
        let is_of_control = matches!(name, "under_oom" | "oom_kill_disable");
        match (OF_EVENTS.contains(&name), is_of_control) {
            (_, true) => Some("memory.oom_control"),
            (true, _) => Some("memory.events"),
            (false, false) if self.files.contains_key("memory.stat") || OF_STAT.contains(&name) => Some("memory.stat"),
            // The names with which `memory.stat` begins.
            (false, false) if matches!(name, "anon" | "file" | "kernel" | "cache" | "rss") => Some("memory.stat"),
            _ => None,
        }
    }

    fn insert(&mut self, file: &str, name: &str, value: u64) -> Took {
        let numbers = self.files.entry(file.to_owned()).or_default();
        if numbers.contains_key(name) {
            return Took::Next;
        }
        numbers.insert(name.to_owned(), value);
        Took::Yes
    }
}

impl Look for CgroupFiles {
    fn take(&mut self, line: &str) -> Took {
        if let Some(path) = file_of_heading(line) {
            let is_again = file_name(path).is_some_and(|name| match name {
                PRESSURE => self.pressure != Pressure::default(),
                name => self.files.contains_key(name) || self.unlimited.iter().any(|it| it == name),
            });
            if is_again || self.is_of_another(path) {
                return Took::Next;
            }
            self.begin_file(path);
            return Took::Yes;
        }
        if line.starts_with("==>") && line.trim_end().ends_with("<==") {
            // The heading of another file, whose lines belong to no cgroup.
            self.file = None;
            return Took::No;
        }
        let (file, rest) = match named(line) {
            Some((path, _)) if self.is_of_another(path) => return Took::Next,
            Some((path, rest)) => {
                let before = self.file.take();
                self.begin_file(path);
                (std::mem::replace(&mut self.file, before), rest)
            }
            None => (self.file.clone(), line.trim()),
        };
        if let Some((name, value)) = pair(rest) {
            let file = file.or_else(|| self.guess(name).map(str::to_owned));
            return file.map_or(Took::No, |file| self.insert(&file, name, value));
        }
        let Some(file) = file else { return Took::No };
        if file == PRESSURE {
            return self.pressure.take(rest);
        }
        match rest.parse() {
            Ok(value) => self.insert(&file, "", value),
            Err(_) if rest == "max" => {
                self.unlimited.push(file);
                Took::Yes
            }
            Err(_) => Took::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_above_or_in_front() {
        let expected = [("memory.current", 524_288), ("memory.high", 600_000)];
        let above = "==> /sys/fs/cgroup/a/memory.current <==\n524288\n\n==> /sys/fs/cgroup/a/memory.high <==\n600000\n\n\
                     ==> /sys/fs/cgroup/a/memory.max <==\nmax\n==> /sys/fs/cgroup/a/memory.events <==\nmax 7\noom_kill 1\n";
        let front = "/sys/fs/cgroup/a/memory.current:524288\n/sys/fs/cgroup/a/memory.high:600000\n/sys/fs/cgroup/a/memory.max:max\n\
                     /sys/fs/cgroup/a/memory.events:max 7\n/sys/fs/cgroup/a/memory.events:oom_kill 1\n";
        for text in [above, front] {
            let found = CgroupFiles::of(text);
            assert_eq!(found.path.as_deref(), Some("/sys/fs/cgroup/a"));
            assert!(expected.iter().all(|(file, value)| found.get(file, "") == Some(*value)), "{found:?}");
            assert_eq!(
                (found.unlimited.as_slice(), found.get("memory.events", "max")),
                (&["memory.max".to_owned()][..], Some(7))
            );
        }
        let other = front.replace("/a/memory.events:max 7", "/b/memory.events:max 7");
        let lines: Vec<&str> = other.lines().collect();
        let looks: Vec<CgroupFiles> = super::super::all(&lines, |line| line, |_| ());
        assert_eq!(
            looks.iter().map(|it| it.path.as_deref().unwrap()).collect::<Vec<_>>(),
            ["/sys/fs/cgroup/a", "/sys/fs/cgroup/b", "/sys/fs/cgroup/a"]
        );
    }

    #[test]
    fn stalls_belong_to_the_group_whose_file_they_stand_in() {
        let line = |percent: &str| format!("some avg10={percent} avg60=0.00 avg300=0.00 total=7");
        let above = format!(
            "==> /g/a/memory.max <==\nmax\n==> /g/a/memory.pressure <==\n{}\n==> /g/b/memory.pressure <==\n{}\n",
            line("1.00"),
            line("2.00")
        );
        let front = format!("/g/a/memory.pressure:{}\n/g/b/memory.pressure:{}\n", line("1.00"), line("2.00"));
        for text in [above, front] {
            let lines: Vec<&str> = text.lines().collect();
            let looks: Vec<CgroupFiles> = super::super::all(&lines, |line| line, |line| panic!("{line}"));
            let waited: Vec<f64> = looks.iter().map(|look| look.pressure.some.unwrap().percent[0]).collect();
            assert_eq!(waited, [1.0, 2.0]);
            assert_eq!(looks[1].path.as_deref(), Some("/g/b"));
        }
        let mut stat = CgroupFiles::of("anon 1\nfile 2\nkernel_stack 3\n");
        assert_eq!(stat.take(&line("1.00")), Took::No, "whose it is, the text does not tell");
    }

    #[test]
    fn a_file_without_its_name_is_known_by_its_lines() {
        let stat = CgroupFiles::of("anon 519155712\nfile 4096\nkernel_stack 65536\nslab_unreclaimable 7\npgfault 3\n");
        assert_eq!((stat.get("memory.stat", "anon"), stat.get("memory.stat", "pgfault")), (Some(519_155_712), Some(3)));
        let events = CgroupFiles::of("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n");
        assert_eq!(events.get("memory.events", "oom_kill"), Some(2));
        let mut alone = CgroupFiles::default();
        alone.begin_file("/tmp/x/memory.limit_in_bytes");
        assert_eq!(alone.take("9223372036854771712"), Took::Yes);
        assert_eq!(alone.get("memory.limit_in_bytes", ""), Some(9_223_372_036_854_771_712));
        let begins = |text: &str| begins(&mut text.lines());
        assert!(begins("low 0\nhigh 3\n") && begins("==> memory.max <==") && begins("memory.max:max"));
        assert!(!begins("max 3\n") && !begins("anon 5\n") && !begins("nr_free_pages 5\npgfault 3\n"));
    }
}
