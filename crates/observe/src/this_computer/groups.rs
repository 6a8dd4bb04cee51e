//! The memory control groups of a computer as sections `[[group]]` of its machine file.

use crate::doctor::group::walk;
use crate::stat::snapshot::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A memory control group of version 2 that has a limit or a protection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The group's path below the root group, without a slash in front.
    pub path: String,
    /// `memory.current`, bytes.
    pub used: u64,
    /// `memory.max`, bytes; none if unlimited.
    pub max: Option<u64>,
    /// `memory.high`, bytes; none if unlimited.
    pub high: Option<u64>,
    /// `memory.low`, bytes; none if it is 0. If all memory of the group is protected, this is the largest `u64`.
    pub low: Option<u64>,
    /// `memory.min`, bytes; none if it is 0. If all memory of the group is protected, this is the largest `u64`.
    pub min: Option<u64>,
}

/// Folders, relative to the root of the file system, at which a cgroup hierarchy of version 2 may be mounted.
const HIERARCHIES: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];

/// Largest number of groups that are written into a machine file. A computer with containers may have hundreds.
const WRITTEN_MAX: usize = 24;

/// If a machine file leaves out groups, a comment in the file names at most this number of them.
const NAMED_MAX: usize = 12;

/// Largest number of characters of one part of a group's path in a machine file.
const PART_MAX: usize = 200;

/// Reads the groups that have a limit or a protection. The group with the most memory comes first.
#[must_use]
pub fn read(source: &Source) -> Vec<Group> {
    let has_memory = |root: &Path| {
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        controllers.split_whitespace().any(|it| it == "memory")
    };
    let Some(root) = HIERARCHIES.iter().map(|place| source.path(place)).find(|root| has_memory(root)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    walk(&root, 0, &mut |folder| {
        let path = folder.strip_prefix(&root).unwrap_or(folder).display().to_string();
        // The root group has neither limits nor protection.
        found.extend(of(folder, path).filter(|group| !group.path.is_empty()));
    });
    found.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
    found
}

/// Reads the usage, limits and protections of the cgroup with the folder `folder`. Returns none if the cgroup has
/// neither a limit nor a protection.
fn of(folder: &Path, path: String) -> Option<Group> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let limit = |name: &str| text(name)?.parse::<u64>().ok();
    let protection = |name: &str| match text(name)?.as_str() {
        "max" => Some(u64::MAX),
        bytes => bytes.parse::<u64>().ok().filter(|bytes| *bytes > 0),
    };
    let group = Group {
        used: limit("memory.current").unwrap_or(0),
        max: limit("memory.max"),
        high: limit("memory.high"),
        low: protection("memory.low"),
        min: protection("memory.min"),
        path,
    };
    [group.max, group.high, group.low, group.min].iter().any(Option::is_some).then_some(group)
}

/// Writes groups as sections of a machine file. The parents of a group are written before it.
pub(super) fn write(text: &mut String, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    let (written, left) = groups.split_at(groups.len().min(WRITTEN_MAX));
    text.push_str(
        "\n# Control groups with a limit or a protection, by /sys/fs/cgroup, and the groups above them. They are empty until `tasks = [\"…\"]` \
         puts tasks of a workload into them.\n",
    );
    if !left.is_empty() {
        let named: Vec<String> = left.iter().take(NAMED_MAX).map(|group| harmless(&group.path)).collect();
        let more = left.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(
            text,
            "# These {WRITTEN_MAX} have the most memory of {}; left out: {}{more}.",
            groups.len(),
            named.join(", ")
        );
    }
    let by_path: BTreeMap<&str, &Group> = written.iter().map(|group| (group.path.as_str(), group)).collect();
    let mut paths = BTreeSet::new();
    for group in written {
        let ends = group.path.match_indices('/').map(|(at, _)| at).chain([group.path.len()]);
        paths.extend(ends.map(|end| &group.path[..end]));
    }
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for path in paths {
        let (parent, last) = path.rsplit_once('/').map_or((None, path), |(parent, last)| (Some(parent), last));
        let parent =
            parent.and_then(|parent| names.get(parent)).map_or_else(String::new, |parent| format!("{parent}/"));
        let plain = format!("{parent}{}", part(last));
        // Two names may differ in characters alone that a machine file does not have.
        let is_free = |name: &String| names.values().all(|known| known != name);
        let numbered = (2..).map(|n| format!("{plain}_{n}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or_default();
        section(text, &name, path, by_path.get(path).copied());
        names.insert(path, name);
    }
}

/// Writes the section of one group. If `group` is none, the group has no limit and is written only as the parent of
/// others; its section then has only a name.
fn section(text: &mut String, name: &str, path: &str, group: Option<&Group>) {
    let used = group.map_or_else(String::new, |group| format!("{} MiB used", group.used >> 20));
    let called = if name == path { String::new() } else { harmless(path) };
    let comment = [called, used].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ");
    let comment = if comment.is_empty() { comment } else { format!("  # {comment}") };
    let _ = writeln!(text, "\n[[group]]\nname = \"{name}\"{comment}");
    let Some(Group { max, high, low, min, .. }) = group else { return };
    let mib = |bytes: &u64| bytes.div_ceil(1 << 20);
    let sizes = [("max_mib", max), ("high_mib", high), ("low_mib", low), ("min_mib", min)];
    for (key, size) in sizes {
        let Some(size) = size.as_ref().map(mib) else { continue };
        match max.as_ref().map(mib).filter(|max| size > *max) {
            // Linux takes such a value, which has no effect. The reader of machine files refuses it.
            Some(max) if key == "high_mib" => {
                let _ = writeln!(text, "# memory.high is {size} MiB, above memory.max, {max} MiB: it has no effect.");
            }
            Some(max) => {
                let _ = writeln!(text, "{key} = {max}  # all that the group may have; set are {}", shown(size));
            }
            None => {
                let _ = writeln!(text, "{key} = {}", size.min(MOST_MIB));
            }
        }
    }
}

/// Size, MiB, by which a machine file states that a group may have all memory. It is more than any simulated computer
/// has.
const MOST_MIB: u64 = 1 << 24;

fn shown(mib: u64) -> String {
    if mib > MOST_MIB { "\"max\"".to_owned() } else { format!("{mib} MiB") }
}

/// Converts a part of a path to a name that a group may have in a machine file: replaces characters that are not
/// allowed, and shortens the part.
fn part(part: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    part.chars().map(fit).take(PART_MAX).collect()
}

fn harmless(path: &str) -> String {
    path.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::scratch::write as put;

    fn group(root: &Path, path: &str, files: &[(&str, &str)]) {
        files.iter().for_each(|(file, text)| put(root, &format!("sys/fs/cgroup/{path}/{file}"), text));
    }

    #[test]
    fn groups_with_bounds_are_read_the_largest_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(read(&Source::new(root)).is_empty());
        put(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
        let plain = [("memory.max", "max\n"), ("memory.high", "max\n"), ("memory.low", "0\n"), ("memory.min", "0\n")];
        group(root, "plain", &plain);
        group(root, "a.slice/web@1.service", &[("memory.max", "104857600\n"), ("memory.current", "52428800\n")]);
        group(root, "b", &[("memory.low", "max\n"), ("memory.current", "99999999\n")]);
        let found = read(&Source::new(root));
        let paths: Vec<&str> = found.iter().map(|group| group.path.as_str()).collect();
        assert_eq!(paths, ["b", "a.slice/web@1.service"]);
        assert_eq!((found[0].low, found[1].max, found[1].low), (Some(u64::MAX), Some(100 << 20), None));
        let mut text = String::new();
        write(&mut text, &found);
        assert!(text.contains("[[group]]\nname = \"a_slice\"  # a.slice\n"), "{text}");
        let web = "[[group]]\nname = \"a_slice/web_1_service\"  # a.slice/web@1.service, 50 MiB used\nmax_mib = 100\n";
        assert!(text.contains(web) && text.contains("low_mib = 16777216\n"), "{text}");
    }

    #[test]
    fn names_stay_apart_and_values_without_effect_are_told() {
        let of = |path: &str, max: u64| Group {
            path: path.into(),
            max: Some(max << 20),
            high: Some(9 << 20),
            low: Some(u64::MAX),
            ..Group::default()
        };
        let mut text = String::new();
        write(&mut text, &[of("x.1", 5), of("x_1", 50)]);
        assert!(
            text.contains("name = \"x_1\"  # x.1, 0 MiB used") && text.contains("name = \"x_1_2\"  # x_1,"),
            "{text}"
        );
        assert!(text.contains("# memory.high is 9 MiB, above memory.max, 5 MiB: it has no effect."), "{text}");
        assert!(text.contains("low_mib = 5  # all that the group may have; set are \"max\"\n"), "{text}");
        assert!(text.contains("high_mib = 9\nlow_mib = 50"), "{text}");
    }

    #[test]
    fn of_many_groups_the_largest_are_written() {
        let groups: Vec<Group> =
            (0..40).map(|n| Group { path: format!("g{n}"), max: Some(1 << 20), ..Group::default() }).collect();
        let mut text = String::new();
        write(&mut text, &groups);
        assert_eq!(text.matches("[[group]]").count(), WRITTEN_MAX);
        assert!(text.contains("These 24 have the most memory of 40; left out: g24, g25,"), "{text}");
        assert!(text.contains("g35 and 4 more.\n"), "{text}");
    }
}
