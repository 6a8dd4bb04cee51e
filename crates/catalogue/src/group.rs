//! The sections `[[group]]` of a machine file: memory control groups, and the tasks in them.

use documented::DocumentedFields;
use engine::memory::Limit;
use figures::scale::Scale;
use placed::{Error, Node, Value};
use serde::{Deserialize, Serialize};

/// A memory control group of version 2. Sizes that are left out are those of a new group: no limits, no protection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Path of the group below the root group. `pod/server` is a child of `pod`, which stands before it in the file.
    pub name: String,
    /// `memory.max`, MiB at full scale: no charge goes above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mib: Option<u64>,
    /// `memory.high`, MiB at full scale: tasks that charge above it reclaim, and are throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_mib: Option<u64>,
    /// `memory.low`, MiB at full scale: reclaim leaves these pages alone while it finds enough elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_mib: Option<u64>,
    /// `memory.min`, MiB at full scale: reclaim never takes these pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_mib: Option<u64>,
    /// `memory.swap.max`, MiB at full scale: no more pages of the group are in swap at a time.
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
    /// in the group of the task that started it.
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
    /// Returns the path of the parent; none if it is the root group.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.name.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Returns whether the group names a task of the workload.
    #[must_use]
    pub fn has_task(&self, name: &str) -> bool {
        self.tasks.iter().any(|task| match task.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == task,
        })
    }

    /// Returns the limits and protections that are set, each with its pages at a scale.
    #[must_use]
    pub fn limits(&self, scale: Scale) -> Vec<(Limit, u64)> {
        let limits = [
            (Limit::Max, self.max_mib),
            (Limit::High, self.high_mib),
            (Limit::Low, self.low_mib),
            (Limit::Min, self.min_mib),
            (Limit::SwapMax, self.swap_max_mib),
        ];
        limits.into_iter().filter_map(|(limit, mib)| Some((limit, scale.of(mib?.saturating_mul(256))))).collect()
    }
}

/// Largest number of groups in a machine file.
const GROUPS_MAX: usize = 1000;

/// Longest part of a group's path, as of a name in a file system.
const NAME_MAX: usize = 255;

/// Returns whether a text can be a part of a group's path, which is a folder in a guest.
fn is_name(part: &str) -> bool {
    (1..=NAME_MAX).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Checks the groups of a machine file, whose node is `file`.
///
/// # Errors
/// The first group whose name is taken, is no path, or has a parent that does not stand before it; with file and line.
pub(crate) fn check(groups: &[Group], file: &Node) -> Result<(), Error> {
    let place = |n: usize| {
        let tables = match file.get("group").map(|node| &node.value) {
            Some(Value::List(tables)) => tables.as_slice(),
            _ => &[],
        };
        tables.get(n).and_then(|table| table.get("name")).map_or(&file.place, |name| &name.place).clone()
    };
    if groups.len() > GROUPS_MAX {
        return Err(Error::at(&place(GROUPS_MAX), format!("in [[group]]: at most {GROUPS_MAX} groups can be")));
    }
    for (n, group) in groups.iter().enumerate() {
        let refuse = |why: String| Err(Error::at(&place(n), format!("in [[group]]: {why}")));
        let is_path = group.name.split('/').all(is_name);
        if !is_path {
            return refuse(format!(
                "`{}` is no name of a group: expected letters, digits, `-` and `_`, such as `server` or `pod/server`",
                group.name
            ));
        }
        if !(-1000..=1000).contains(&group.oom_score_adj) {
            return refuse(format!("`oom_score_adj` is {}: must be from -1000 to 1000", group.oom_score_adj));
        }
        let is_pattern = |task: &String| !task.is_empty() && !task.strip_suffix('*').unwrap_or(task).contains('*');
        if let Some(task) = group.tasks.iter().find(|task| !is_pattern(task)) {
            return refuse(format!(
                "`tasks`: `{task}` is no name of a task: expected a name, or a prefix with `*` at its end"
            ));
        }
        if groups[..n].iter().any(|other| other.name == group.name) {
            return refuse(format!("there are two groups `{}`", group.name));
        }
        if let Some(parent) = group.parent()
            && groups[..n].iter().all(|other| other.name != parent)
        {
            return refuse(format!(
                "the parent of `{}` is missing: expected a [[group]] `{parent}` before it",
                group.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_tasks_by_name_or_prefix() {
        let group = Group { tasks: vec!["server*".into(), "main".into()], ..Group::default() };
        assert!(["server", "server-3", "main"].iter().all(|name| group.has_task(name)));
        assert!(["main2", "serve", ""].iter().all(|name| !group.has_task(name)));
    }

    #[test]
    fn limits_follow_the_scale() {
        let group = Group { max_mib: Some(8), min_mib: Some(0), ..Group::default() };
        assert_eq!(group.limits("1/4".parse().unwrap()), [(Limit::Max, 512), (Limit::Min, 0)]);
    }

    #[test]
    fn wrong_groups_are_refused_with_their_line() {
        let told = |text: &str| {
            let node = Node::parse("m.toml", text).unwrap();
            let groups: Vec<Group> = node.get("group").unwrap().read().unwrap();
            check(&groups, &node).unwrap_err().to_string()
        };
        assert_eq!(
            told("[[group]]\nname = \"a\"\n[[group]]\nname = \"a\"\n"),
            "m.toml:4: in [[group]]: there are two groups `a`"
        );
        assert_eq!(
            told("[[group]]\nname = \"a/b\"\n"),
            "m.toml:2: in [[group]]: the parent of `a/b` is missing: expected a [[group]] `a` before it"
        );
        assert_eq!(
            told("[[group]]\nname = \"/a\"\n"),
            "m.toml:2: in [[group]]: `/a` is no name of a group: expected letters, digits, `-` and `_`, such as `server` or `pod/server`"
        );
    }
}
