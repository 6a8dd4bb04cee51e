//! The sections `[[group]]` of machine and experiment files: memory control groups, and the tasks in them.
//!
//! A section stands for one group, or for many alike (`count`). `lay_over` adds the groups of an experiment to those of
//! a machine, and [`asked`] those of the command line. `resolve` then gives each group its path and puts parents first,
//! and `check` refuses impossible groups.

pub mod asked;
mod layers;

use documented::DocumentedFields;
use engine::memory::{GroupVersion, Limit};
use figures::scale::Scale;
use placed::{Error, Node, Place};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub use asked::Asked;
pub(crate) use layers::{declare, lay_over, position, resolve};

/// A memory control group. It is of version 1 if a group of the machine has `soft_mib` or `memsw_mib`, or if `[memory]`
/// has `group_version = "v1"`; otherwise of version 2. Sizes that are left out are those of a new group: no limits, no
/// protection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Path of the group below the root group: `pod/server` is a child of `pod`. If `parent` is set, `name` is only the
    /// last part of this path.
    pub name: String,
    /// Name or path of the group's parent. Once the machine file has been read, this is none: the path of the parent is
    /// then a part of `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Number of groups that the section stands for, each with the same limits. `count = 3` makes `name-0`, `name-1` and
    /// `name-2`, which may have no children. Default: one group called `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u16>,
    /// `memory.max`, MiB at full scale: the largest amount of memory that may be charged to the group. The group's
    /// `high_mib`, `low_mib` and `min_mib` may not be above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mib: Option<u64>,
    /// `memory.high`, MiB at full scale: tasks that charge above it reclaim, and are throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_mib: Option<u64>,
    /// `memory.low`, MiB at full scale: reclaim leaves this much of the group's memory alone while it finds enough
    /// elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_mib: Option<u64>,
    /// `memory.min`, MiB at full scale: reclaim always leaves this much of the group's memory alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_mib: Option<u64>,
    /// `memory.soft_limit_in_bytes`, MiB at full scale: when memory runs short, kswapd first takes pages from the group
    /// that is farthest above this size. It may be above `max_mib`, as in Linux, but then the group never gets there. All
    /// groups of the machine are then of version 1: `max_mib` is `memory.limit_in_bytes`, and they have no sizes besides
    /// these two and `memsw_mib`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_mib: Option<u64>,
    /// `memory.memsw.limit_in_bytes`, MiB at full scale: the largest amount of memory and swap together that may be
    /// charged to the group. It needs `max_mib`, and may not be below it. All groups of the machine are then of version
    /// 1, as with `soft_mib`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memsw_mib: Option<u64>,
    /// `memory.swap.max`, MiB at full scale: the largest amount of the group's memory that may be in swap at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_max_mib: Option<u64>,
    /// `memory.oom.group`: if one process of the group is killed for lack of memory, all of them are.
    #[serde(default, skip_serializing_if = "is_off")]
    pub oom_group: bool,
    /// `oom_score_adj` of the group's tasks, from -1000 (never killed) to 1000 (killed first). Default 0. On ground
    /// `sim` only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub oom_score_adj: i16,
    /// Names of the workload's tasks in the group. A name that ends with `*` is a prefix. A task that no group names is
    /// in the group of the task that started it. With `count`, the number at the end of a task's name chooses one of
    /// the groups, modulo `count`: if `count` is 5, `reader 12` is in the group with the number 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_off(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(adj: &i16) -> bool {
    *adj == 0
}

impl Group {
    /// Returns the path of the parent; none if the parent is the root group.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.name.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Returns the paths of the groups that the section describes: one, or with the key `count` that many, such as
    /// `pod-0` and `pod-1`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let Some(count) = self.count else { return vec![self.name.clone()] };
        (0..count).map(|n| format!("{}-{n}", self.name)).collect()
    }

    /// Returns the number of groups that all sections of `groups` create together. A section creates `count` groups, or
    /// one if it has no `count`.
    #[must_use]
    pub fn total(groups: &[Self]) -> usize {
        groups.iter().map(|group| group.count.map_or(1, usize::from)).sum()
    }

    /// Returns the group to which the workload's task `name` belongs, as an index into the groups that the section
    /// describes (one group, or `count` groups). Returns none if the section does not name the task.
    #[must_use]
    pub fn of_task(&self, name: &str) -> Option<usize> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = name[name.len() - digits..].parse().unwrap_or_default();
        self.has_task(name).then(|| number % usize::from(self.count.unwrap_or(1)).max(1))
    }

    /// Returns whether the group's key `tasks` names the workload's task `name`.
    #[must_use]
    pub fn has_task(&self, name: &str) -> bool {
        self.tasks.iter().any(|task| names(task, name))
    }

    /// Returns the names and prefixes in the group's key `tasks` that fit no task of the workload. The argument `tasks`
    /// has the names of all tasks of the workload.
    pub fn unmet<'g>(&'g self, tasks: &'g BTreeSet<String>) -> impl Iterator<Item = &'g String> {
        self.tasks.iter().filter(|task| !tasks.iter().any(|name| names(task, name)))
    }

    /// Returns the key that makes the group one of version 1; `None` if it has no such key.
    #[must_use]
    pub fn key_of_version_1(&self) -> Option<&'static str> {
        let keys = [("soft_mib", self.soft_mib), ("memsw_mib", self.memsw_mib)];
        keys.into_iter().find(|(_, size)| size.is_some()).map(|(key, _)| key)
    }

    /// Returns the version of all `groups` of a machine. `given` is the version that the machine file states. Keys of the
    /// groups that this version does not have (`soft_mib`, `memsw_mib`) take precedence.
    #[must_use]
    pub fn version(groups: &[Self], given: GroupVersion) -> GroupVersion {
        if groups.iter().any(|group| group.memsw_mib.is_some()) {
            GroupVersion::V1WithMemsw
        } else if !given.is_v1() && groups.iter().any(|group| group.key_of_version_1().is_some()) {
            GroupVersion::V1
        } else {
            given
        }
    }

    /// Returns the limits and protections that are set, each with its size in pages at `scale`.
    #[must_use]
    pub fn limits(&self, scale: Scale) -> Vec<(Limit, u64)> {
        let limits = [
            (Limit::Max, self.max_mib),
            (Limit::High, self.high_mib),
            (Limit::Low, self.low_mib),
            (Limit::Min, self.min_mib),
            (Limit::Soft, self.soft_mib),
            (Limit::SwapMax, self.swap_max_mib),
            (Limit::Memsw, self.memsw_mib),
        ];
        limits.into_iter().filter_map(|(limit, mib)| Some((limit, scale.of(mib?.saturating_mul(256))))).collect()
    }

    /// Returns the keys of the sizes that are set, each with its size, MiB.
    fn sizes(&self) -> Vec<(&'static str, u64)> {
        let sizes = [
            ("max_mib", self.max_mib),
            ("high_mib", self.high_mib),
            ("low_mib", self.low_mib),
            ("min_mib", self.min_mib),
            ("soft_mib", self.soft_mib),
            ("swap_max_mib", self.swap_max_mib),
            ("memsw_mib", self.memsw_mib),
        ];
        sizes.into_iter().filter_map(|(key, size)| Some((key, size?))).collect()
    }
}

/// Name of a workload's first task, which makes the files and starts the other tasks.
pub const MAIN: &str = "main";

/// Returns whether `task`, an element of a group's key `tasks`, fits the task called `name`. A `task` that ends with
/// `*` is a prefix. No prefix fits [`MAIN`], so that the files of a load are made outside of its group.
fn names(task: &str, name: &str) -> bool {
    match task.strip_suffix('*') {
        Some(prefix) => name != MAIN && name.starts_with(prefix),
        None => name == task,
    }
}

/// Largest number of groups in a machine file.
const GROUPS_MAX: usize = 2000;

/// Largest size of a group, MiB: less than 2^63 bytes, which Linux, too, takes for no limit.
const SIZE_MAX_MIB: u64 = (1 << 43) - 1;

/// Largest length of one part of a group's path, in bytes. Linux has the same limit for file names.
const NAME_MAX: usize = 255;

/// Returns whether a text can be a part of a group's path. It must be a possible file name, because a guest makes a
/// folder of this name.
fn is_name(part: &str) -> bool {
    (1..=NAME_MAX).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Checks the groups of a machine after [`resolve`]. `file` is the machine's file.
///
/// # Errors
/// When there are too many groups, when a group has an impossible name, task, count or `oom_score_adj`, when its name
/// is taken or its parent does not exist, when a size is above [`SIZE_MAX_MIB`], when `high_mib`, `low_mib` or `min_mib` is
/// above the group's `max_mib`, when its `memsw_mib` is below it, or when it has a key of another version than the groups.
/// The error is about the first such group, and has file and line.
pub(crate) fn check(groups: &[Group], file: &Node) -> Result<(), Error> {
    let tables = layers::tables(file);
    let place = |n: usize, key: &str| {
        let node = tables.get(n).and_then(|table| table.get(key).or_else(|| table.get("name")));
        node.map_or(&file.place, |node| &node.place).clone()
    };
    let refuse = |place: &Place, why: String| Err(Error::at(place, format!("in [[group]]: {why}")));
    if Group::total(groups) > GROUPS_MAX {
        let at = (0..groups.len()).find(|n| Group::total(&groups[..=*n]) > GROUPS_MAX).unwrap_or_default();
        return refuse(&place(at, "name"), format!("at most {GROUPS_MAX} groups can be"));
    }
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (n, group) in groups.iter().enumerate() {
        if let Err(why) = check_name(&group.name) {
            return refuse(&place(n, "name"), why);
        }
        if let Some(why) = group.tasks.iter().find_map(|task| check_task(task).err()) {
            return refuse(&place(n, "tasks"), format!("`tasks`: {why}"));
        }
        if !(-1000..=1000).contains(&group.oom_score_adj) {
            let why = format!("`oom_score_adj` is {}: must be from -1000 to 1000", group.oom_score_adj);
            return refuse(&place(n, "oom_score_adj"), why);
        }
        if group.count == Some(0) {
            return refuse(&place(n, "count"), "`count`: expected 1 or more, found 0".to_owned());
        }
        // Sections may not share a name either, by which a parameter of a workload may name all groups of a section.
        let names = group.count.map(|_| group.name.clone()).into_iter().chain(group.names());
        for name in names {
            if known.insert(name.clone(), n).is_some() {
                return refuse(&place(n, "name"), format!("there are two groups `{name}`"));
            }
        }
        if let Some(parent) = group.parent()
            && known.get(parent).is_none_or(|of| groups[*of].count.is_some())
        {
            let why = format!("the parent of `{}` is missing: expected a [[group]] `{parent}`", group.name);
            return refuse(&place(n, "name"), why);
        }
        if let Some((key, size)) = group.sizes().into_iter().find(|(_, size)| *size > SIZE_MAX_MIB) {
            let why = format!("`{key}` of `{}` is {size}: at most {SIZE_MAX_MIB} MiB can be", group.name);
            return refuse(&place(n, key), why);
        }
        let sizes = [("high_mib", group.high_mib), ("low_mib", group.low_mib), ("min_mib", group.min_mib)];
        for (key, size) in sizes {
            if let Some((size, max)) = size.zip(group.max_mib).filter(|(size, max)| size > max) {
                let why = format!("`{key}` of `{}` is {size}, above its `max_mib`, {max}: {}", group.name, above(key));
                return refuse(&place(n, key), why);
            }
        }
        if let Err(why) = check_memsw(group) {
            return refuse(&place(n, "memsw_mib"), why);
        }
    }
    let given = file.get("memory").and_then(|memory| memory.get("group_version")).and_then(Node::as_text);
    check_version(groups, given).map_err(|(n, key, why)| Error::at(&place(n, key), format!("in [[group]]: {why}")))
}

/// Checks that a limit of memory and swap together is not below the group's limit of memory.
///
/// # Errors
/// When it is below, or when the group has no limit of memory: no limit is then above the one of memory. The error says
/// so.
fn check_memsw(group: &Group) -> Result<(), String> {
    let name = &group.name;
    match (group.memsw_mib, group.max_mib) {
        (Some(memsw), None) => Err(format!(
            "`memsw_mib` of `{name}` is {memsw}, and `{name}` has no `max_mib`: expected one of at most {memsw}"
        )),
        (Some(memsw), Some(max)) if memsw < max => Err(format!(
            "`memsw_mib` of `{name}` is {memsw}, below its `max_mib`, {max}: memory and swap together are no less than memory"
        )),
        _ => Ok(()),
    }
}

/// Checks that groups of version 1, if there are some, have no keys of version 2. `given` is the value of
/// `group_version` in the machine file, if it has this key.
///
/// # Errors
/// The number of the first group that has such a key, the key, and the error in words.
fn check_version(groups: &[Group], given: Option<&str>) -> Result<(), (usize, &'static str, String)> {
    let first = groups.iter().find_map(|group| Some((&group.name, group.key_of_version_1()?)));
    let reason = match (first, given) {
        (Some((name, key)), _) => format!("`{key}` of `{name}`"),
        (None, Some(given)) if given.starts_with("v1") => format!("`group_version = \"{given}\"`"),
        (None, _) => return Ok(()),
    };
    for (n, group) in groups.iter().enumerate() {
        let keys = [
            ("high_mib", group.high_mib.is_some()),
            ("low_mib", group.low_mib.is_some()),
            ("min_mib", group.min_mib.is_some()),
            ("swap_max_mib", group.swap_max_mib.is_some()),
            ("oom_group", group.oom_group),
        ];
        if let Some((key, _)) = keys.into_iter().find(|(_, is_set)| *is_set) {
            let why = format!(
                "`{key}` of `{}` is of version 2, but {reason} makes all groups those of version 1",
                group.name
            );
            return Err((n, key, why));
        }
    }
    Ok(())
}

/// Returns, in words for an error message, the reason why the size `key` cannot be larger than `max_mib`.
fn above(key: &str) -> &'static str {
    match key {
        "high_mib" => "the group never gets there",
        _ => "the group never has as many pages to protect",
    }
}

/// Checks that a text can be the path of a group.
///
/// # Errors
/// When the text cannot be a path. The error says why.
fn check_name(name: &str) -> Result<(), String> {
    if name.split('/').all(is_name) {
        return Ok(());
    }
    Err(format!(
        "`{name}` is no name of a group: expected letters, digits, `-` and `_`, such as `server` or `pod/server`"
    ))
}

/// Checks that a text can name tasks.
///
/// # Errors
/// When the text cannot name tasks. The error says why.
fn check_task(task: &str) -> Result<(), String> {
    if !task.is_empty() && !task.strip_suffix('*').unwrap_or(task).contains('*') {
        return Ok(());
    }
    Err(format!("`{task}` is no name of a task: expected a name, or a prefix with `*` at its end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_tasks_by_name_or_prefix() {
        let group = Group { tasks: vec!["server*".into(), "main".into()], ..Group::default() };
        assert!(["server", "server-3", "main"].iter().all(|name| group.has_task(name)));
        let all = Group { tasks: vec!["*".into()], ..Group::default() };
        assert!(all.has_task("server") && !all.has_task("main"), "the first task is named by its full name alone");
        assert!(["main2", "serve", ""].iter().all(|name| !group.has_task(name)));
    }

    #[test]
    fn a_section_may_stand_for_many_groups() {
        let group = Group { name: "job".into(), count: Some(3), tasks: vec!["reader *".into()], ..Group::default() };
        assert_eq!(group.names(), ["job-0", "job-1", "job-2"]);
        assert_eq!(
            ["reader 0", "reader 4", "reader", "reader x"].map(|task| group.of_task(task)),
            [Some(0), Some(1), None, Some(0)]
        );
        let one = Group { name: "one".into(), tasks: vec!["main".into()], ..Group::default() };
        assert_eq!(
            (one.names(), one.of_task("main"), Group::total(&[group, one.clone()])),
            (vec!["one".into()], Some(0), 4)
        );
    }

    #[test]
    fn names_that_fit_no_task_are_known() {
        let group = Group { tasks: ["a*", "b", "c*"].map(Into::into).to_vec(), ..Group::default() };
        let tasks = ["a1", "main", "b2"].map(String::from).into();
        assert_eq!(group.unmet(&tasks).collect::<Vec<_>>(), ["b", "c*"]);
    }

    #[test]
    fn limits_follow_the_scale() {
        let group = Group { max_mib: Some(8), min_mib: Some(0), ..Group::default() };
        assert_eq!(group.limits("1/4".parse().unwrap()), [(Limit::Max, 512), (Limit::Min, 0)]);
    }

    #[test]
    fn a_key_of_version_1_makes_all_groups_those_of_version_1() {
        let version = |soft_mib, memsw_mib, given| {
            let group = Group { soft_mib, memsw_mib, ..Group::default() };
            Group::version(&[Group::default(), group], given)
        };
        use GroupVersion::{V1, V1WithMemsw, V2};
        assert_eq!([V2, V1, V1WithMemsw].map(|given| version(None, None, given)), [V2, V1, V1WithMemsw]);
        assert_eq!([V2, V1, V1WithMemsw].map(|given| version(Some(1), None, given)), [V1, V1, V1WithMemsw]);
        assert_eq!([V2, V1].map(|given| version(Some(1), Some(1), given)), [V1WithMemsw; 2]);
    }

    /// Linux, too, takes a soft limit above the hard limit, which then takes precedence.
    #[test]
    fn a_soft_limit_may_be_above_the_hard_limit() {
        let group = Group { name: "a".into(), max_mib: Some(8), soft_mib: Some(9), ..Group::default() };
        assert_eq!(check(&[group], &Node::parse("m.toml", "about = \"x\"\n").unwrap()), Ok(()));
    }

    #[test]
    fn wrong_groups_are_refused_with_their_line() {
        let told = |text: &str| {
            let mut node = Node::parse("m.toml", text).unwrap();
            let checked = resolve(&mut node).and_then(|()| {
                let groups: Vec<Group> = node.get("group").unwrap().read()?;
                check(&groups, &node)
            });
            checked.unwrap_err().to_string()
        };
        assert_eq!(
            told("[[group]]\nname = \"a\"\n[[group]]\nname = \"a\"\n"),
            "m.toml:4: in [[group]]: there are two groups `a`"
        );
        assert_eq!(
            told("[[group]]\nname = \"a/b\"\n"),
            "m.toml:2: in [[group]]: the parent of `a/b` is missing: expected a [[group]] `a`"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\nmax_mib = 8\nlow_mib = 9\n"),
            "m.toml:4: in [[group]]: `low_mib` of `a` is 9, above its `max_mib`, 8: the group never has as many pages to protect"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\nhigh_mib = 9\nmax_mib = 8\n"),
            "m.toml:3: in [[group]]: `high_mib` of `a` is 9, above its `max_mib`, 8: the group never gets there"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\nsoft_mib = 9\n[[group]]\nname = \"b\"\nlow_mib = 8\n"),
            "m.toml:6: in [[group]]: `low_mib` of `b` is of version 2, but `soft_mib` of `a` makes all groups those of version 1"
        );
        assert_eq!(
            told("[memory]\ngroup_version = \"v1\"\n[[group]]\nname = \"a\"\nmax_mib = 8\nhigh_mib = 4\n"),
            "m.toml:6: in [[group]]: `high_mib` of `a` is of version 2, but `group_version = \"v1\"` makes all groups those of version 1"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\nmax_mib = 8\nmemsw_mib = 9\nswap_max_mib = 8\n"),
            "m.toml:5: in [[group]]: `swap_max_mib` of `a` is of version 2, but `memsw_mib` of `a` makes all groups those of version 1"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\nmax_mib = 9\nmemsw_mib = 8\n"),
            "m.toml:4: in [[group]]: `memsw_mib` of `a` is 8, below its `max_mib`, 9: memory and swap together are no less than memory"
        );
        // In pages, this size would be more than a number can be, and so no limit.
        assert_eq!(
            told(&format!("[[group]]\nname = \"a\"\nmax_mib = 9\nmemsw_mib = {}\n", 1_u64 << 55)),
            "m.toml:4: in [[group]]: `memsw_mib` of `a` is 36028797018963968: at most 8796093022207 MiB can be"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\nmemsw_mib = 8\n"),
            "m.toml:3: in [[group]]: `memsw_mib` of `a` is 8, and `a` has no `max_mib`: expected one of at most 8"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\ntasks = [\"ok\", \"*x\"]\n"),
            "m.toml:3: in [[group]]: `tasks`: `*x` is no name of a task: expected a name, or a prefix with `*` at its end"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\ncount = 2\n[[group]]\nname = \"a-1\"\n"),
            "m.toml:5: in [[group]]: there are two groups `a-1`"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\ncount = 2001\n"),
            "m.toml:2: in [[group]]: at most 2000 groups can be"
        );
        assert_eq!(
            told("[[group]]\nname = \"a\"\ncount = 2\n[[group]]\nname = \"a-1/b\"\n"),
            "m.toml:5: in [[group]]: the parent of `a-1/b` is missing: expected a [[group]] `a-1`"
        );
        assert_eq!(
            told("[[group]]\nname = \"/a\"\n"),
            "m.toml:2: in [[group]]: `/a` is no name of a group: expected letters, digits, `-` and `_`, such as `server` or `pod/server`"
        );
    }
}
