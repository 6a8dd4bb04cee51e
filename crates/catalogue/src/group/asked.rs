//! Groups that are given on the command line: `--group memcached:max_mib=512,tasks=memcachetest`.

use super::{Group, check_name, check_task};
use documented::DocumentedFields as _;
use placed::one_of;
use std::fmt;
use std::str::FromStr;

/// A group as the command line gives it. It adds a group to the machine, or replaces keys of the machine's group that
/// has the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The group's name, as in `[[group]]`.
    pub name: String,
    /// Keys of `[[group]]` with their values, as TOML.
    keys: Vec<(String, String)>,
}

/// The key of `[[group]]` whose value may be several names.
const TASKS: &str = "tasks";

impl FromStr for Asked {
    type Err = String;

    /// Parses a group from the command line: `NAME` or `NAME:KEY=VALUE,…`. The key `tasks` may have several names as
    /// its value: `tasks=a,b*`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        check_name(name)?;
        let mut found: Vec<(&str, String)> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|_| !rest.is_empty()) {
            match (part.split_once('='), found.last_mut()) {
                (Some((key, value)), _) => found.push((key.trim(), value.trim().to_owned())),
                (None, Some((TASKS, tasks))) if !part.is_empty() => tasks.push_str(&format!(",{part}")),
                (None, _) => {
                    return Err(format!("expected NAME:KEY=VALUE,KEY=VALUE such as a:max_mib=64, found `{part}`"));
                }
            }
        }
        let mut keys: Vec<(String, String)> = Vec::new();
        for (key, value) in found {
            let value = written(key, &value)?;
            if keys.iter().any(|(earlier, _)| earlier == key) {
                return Err(format!("`{key}` is given twice"));
            }
            keys.push((key.to_owned(), value));
        }
        Ok(Self { name: name.to_owned(), keys })
    }
}

/// Converts a value to TOML. `value` is the text that the command line gives for the key `key` of a group. Fails if the
/// key is unknown or the value is not allowed for the key.
fn written(key: &str, value: &str) -> Result<String, String> {
    let known: Vec<&str> = Group::FIELD_NAMES.iter().copied().filter(|key| *key != "name").collect();
    match key {
        _ if !known.contains(&key) => Err(format!("unknown key `{key}`{}", one_of(key, &known))),
        TASKS => {
            let bare = value.trim_start_matches('[').trim_end_matches(']');
            let tasks: Vec<&str> = bare.split(',').map(|task| task.trim().trim_matches(['"', '\''])).collect();
            tasks.iter().try_for_each(|task| check_task(task).map_err(|why| format!("`{TASKS}`: {why}")))?;
            match tasks.iter().find(|task| task.contains(['+', '"', '\\'])) {
                Some(task) => Err(format!("`{TASKS}`: `{task}` has a character that no name of a task has")),
                None => Ok(format!("[\"{}\"]", tasks.join("\",\""))),
            }
        }
        "parent" => check_name(value).map(|()| format!("\"{value}\"")),
        "oom_group" => match value {
            "true" | "false" => Ok(value.to_owned()),
            _ => Err(format!("`{key}`: expected true or false, found `{value}`")),
        },
        "oom_score_adj" => match value.parse::<i16>() {
            Ok(adj) => Ok(adj.to_string()),
            Err(_) => Err(format!("`{key}`: expected a number from -1000 to 1000, found `{value}`")),
        },
        _ => match value.parse::<u64>() {
            Ok(mib) => Ok(mib.to_string()),
            Err(_) if key == "count" => Err(format!("`{key}`: expected a whole number, found `{value}`")),
            Err(_) => Err(format!("`{key}`: expected a whole number of MiB, found `{value}`")),
        },
    }
}

impl Asked {
    /// Returns the changes that add this group to a machine, each with a `+` before it, so that the text can be
    /// appended to the machine's name.
    #[must_use]
    pub fn changes(&self) -> String {
        let Self { name, keys } = self;
        let keys = keys.iter().map(|(key, value)| format!("+group.{name}.{key}={value}"));
        std::iter::once(format!("+group={name}")).chain(keys).collect()
    }

    /// Returns the option of the command line that caused an error about this group. `place` is the place of the error:
    /// one of the changes that [`Asked::changes`] returns. Returns none if the error is about something else.
    #[must_use]
    pub fn option_at(&self, place: &str) -> Option<String> {
        let Self { name, keys } = self;
        if place == format!("group={name}") {
            return Some(format!("--group {name}"));
        }
        let is_it = |(key, value): &&(String, String)| place == format!("group.{name}.{key}={value}");
        keys.iter().find(is_it).map(|(key, value)| format!("--group {name}:{key}={}", plain(value)))
    }
}

/// Returns a TOML value in the form of the command line: without brackets and quotes.
fn plain(value: &str) -> String {
    value.replace(['[', ']', '"'], "")
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, keys } = self;
        let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
        let gap = if keys.is_empty() { "" } else { ":" };
        write!(f, "{name}{gap}{}", keys.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_from_the_command_line() {
        let asked: Asked = "pod/a:max_mib=64,tasks=x,y*,low_mib=0".parse().unwrap();
        let changes = "+group=pod/a+group.pod/a.max_mib=64+group.pod/a.tasks=[\"x\",\"y*\"]+group.pod/a.low_mib=0";
        assert_eq!((asked.changes().as_str(), asked.name.as_str()), (changes, "pod/a"));
        assert_eq!(asked.to_string(), "pod/a:max_mib=64,tasks=x,y*,low_mib=0");
        assert_eq!(asked.to_string().parse::<Asked>().unwrap(), asked);
        let listed: Asked = "a:tasks=[\"x\", y]".parse().unwrap();
        assert_eq!(
            (listed.to_string().as_str(), "a".parse::<Asked>().unwrap().changes().as_str()),
            ("a:tasks=x,y", "+group=a")
        );
        assert_eq!(asked.option_at("group.pod/a.low_mib=0").unwrap(), "--group pod/a:low_mib=0");
        assert_eq!(
            (asked.option_at("group=pod/a").as_deref(), asked.option_at("group=b")),
            (Some("--group pod/a"), None)
        );
    }

    #[test]
    fn what_is_no_group_is_refused_in_words() {
        let wrong = |text: &str| text.parse::<Asked>().unwrap_err();
        assert_eq!(wrong("a:max_mb=5"), "unknown key `max_mb`: did you mean `max_mib`?");
        assert_eq!(wrong("a:max_mib=5G"), "`max_mib`: expected a whole number of MiB, found `5G`");
        assert!(wrong("a b").starts_with("`a b` is no name of a group"));
        assert!(wrong("a:name=b").starts_with("unknown key `name`"));
        assert_eq!(wrong("a:64"), "expected NAME:KEY=VALUE,KEY=VALUE such as a:max_mib=64, found `64`");
        assert!(wrong("a:tasks=").contains("is no name of a task") && wrong("a:tasks=x+y").contains("character"));
        assert!(wrong("a:max_mib=5,").ends_with("found ``"));
        assert_eq!(wrong("a:max_mib=5,low_mib=1,max_mib=6"), "`max_mib` is given twice");
        assert_eq!(wrong("a:tasks=x,tasks=y"), "`tasks` is given twice");
        assert_eq!(wrong("a:max_mb=5,max_mb=6"), "unknown key `max_mb`: did you mean `max_mib`?");
    }
}
