//! The list of all choices, and for each value of a choice the first kernel that has this value.
//!
//! Each choice is declared by the layer of the engine (the *floor*) that reads it ([`crate::choice`]).

pub use crate::choice::{Choice, Condition, FACTS, Named, Section};

use super::{Kernel, Origin, SECTIONS, Setting, defaults, files};
use placed::Value;
use std::sync::LazyLock;

/// The first kernel that gives a choice a particular value, and the source that the kernel's file states for the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// Name of the kernel.
    pub kernel: String,
    /// Source of the value, from the comment in the kernel's file.
    pub source: String,
}

impl Choice {
    /// Returns the choice that `path` names. `path` is a key with its section, such as `lru.swappiness`, or without it.
    /// Returns `None` if there is no such choice.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Self> {
        all().find(|it| path == it.key || path.split_once('.') == Some((it.section, it.key)))
    }

    /// Returns all conditions under which the choice is read: the conditions of its section and its own conditions.
    pub fn conditions(&self) -> impl Iterator<Item = &'static Condition> {
        let of_section =
            SECTIONS.iter().find(|section| section.name == self.section).map_or(&[][..], |it| it.conditions);
        of_section.iter().chain(self.own_conditions)
    }

    /// Returns the reason why the engine does not read this choice; `None` if no reason is known. The reason is the
    /// value of another key, or a fact of the machine, that breaks a condition of this choice, such as `lru.policy =
    /// classic`. `value_of` returns the value of the key or fact with a given name. If it returns `None`, the condition
    /// on this key or fact counts as fulfilled.
    ///
    /// A condition on a key is also broken if the engine does not read that key.
    #[must_use]
    pub fn unused(&self, value_of: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        self.conditions().find_map(|condition| {
            let value = value_of(condition.what)?;
            let holds = condition.values.contains(&value.as_str()) == condition.is_one;
            if !holds {
                return Some(format!("{} = {value}", condition.what));
            }
            Self::find(condition.what)?.unused(value_of)
        })
    }

    /// Returns the default value: the value in [`super::ROOT`]. A kernel has this value if neither its file nor the
    /// file of any of its bases names the key.
    ///
    /// # Panics
    /// Never panics, because every choice has a default.
    #[must_use]
    pub fn default(&self) -> Value {
        let defaults = defaults();
        let node = defaults.get(self.section).and_then(|section| section.get(self.key));
        node.expect("the struct has all keys that were declared with it").value.clone()
    }

    /// Returns, in words, which numbers the choice may have; `None` if the values of the choice are names.
    #[must_use]
    pub fn range(&self) -> Option<String> {
        let numbers = if matches!(self.default(), Value::List(_)) { "whole numbers" } else { "a whole number" };
        Some(match self.limits? {
            (least, i64::MAX) => format!("{numbers}, at least {least}"),
            (least, most) => format!("{numbers} from {least} to {most}"),
        })
    }

    /// Returns all values that this choice has in the kernels of the engine, each with the first kernel that has it. A
    /// kernel counts as later than the kernels that it is built on.
    ///
    /// # Panics
    /// Never panics, because the kernels of the engine are sound, as tests prove.
    #[must_use]
    pub fn in_kernels(&self) -> Vec<(Value, Since)> {
        let mut found: Vec<(Value, Since)> = Vec::new();
        for kernel in KERNELS.iter() {
            let setting = kernel.settings.iter().find(|it| it.section == self.section && it.key == self.key);
            let Some(Setting { value, origin: Origin::File { kernel, source, .. }, .. }) = setting else { continue };
            if found.iter().all(|(other, _)| other != value) {
                let since = Since { kernel: kernel.clone(), source: source.clone().unwrap_or_default() };
                found.push((value.clone(), since));
            }
        }
        found
    }

    /// Returns the first kernel that has `value`, in the order of [`Choice::in_kernels`]; `None` if no kernel has it.
    #[must_use]
    pub fn since(&self, value: &Value) -> Option<Since> {
        self.in_kernels().into_iter().find_map(|(found, since)| (found == *value).then_some(since))
    }
}

/// The kernels that come with the engine, sorted so that a base comes before the kernels that are built on it.
static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    let mut kernels: Vec<Kernel> = files::names().filter_map(Kernel::built_in).collect();
    kernels.sort_by_key(|kernel| kernel.bases.len());
    kernels
});

/// Returns every choice of a kernel, in the order of [`super::Choices`].
pub fn all() -> impl Iterator<Item = &'static Choice> {
    super::SECTIONS.iter().flat_map(|section| section.choices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ROOT;

    #[test]
    fn every_key_and_every_value_has_a_meaning() {
        let mut kernel = Kernel::built_in(ROOT).unwrap();
        let keys: Vec<String> = kernel.settings.iter().map(|it| format!("{}.{}", it.section, it.key)).collect();
        assert_eq!(all().map(Choice::path).collect::<Vec<_>>(), keys);
        for it in all() {
            let path = it.path();
            assert!(!it.about().is_empty(), "{path} has no comment");
            for value in it.values {
                kernel.set(&path, value.name).unwrap_or_else(|error| panic!("{error}"));
                assert!(!value.about().is_empty(), "{path}: `{}` has no comment", value.name);
            }
            assert_eq!(matches!(it.default(), Value::Text(_)), !it.values.is_empty(), "{path}");
            assert_eq!(it.limits.is_none(), !it.values.is_empty(), "{path} is a number without limits, or a name with");
        }
    }

    #[test]
    fn a_swarm_draws_each_choice_at_a_time_of_its_own_and_from_values_that_it_may_have() {
        let mut orders: Vec<u32> = all().map(|it| it.draw_order).collect();
        orders.sort_unstable();
        let expected: Vec<u32> = (0..).take(orders.len()).collect();
        assert_eq!(orders, expected, "`drawn` of a new choice is {}", orders.len() - 1);
        let mut kernel = Kernel::built_in(ROOT).unwrap();
        for it in all() {
            let drawn = it.drawn();
            assert!(
                drawn.len() > 1 && drawn.iter().any(|value| *value != drawn[0]),
                "{} is always the same",
                it.path()
            );
            for value in drawn {
                kernel.set(&it.path(), &value).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn conditions_name_keys_that_there_are_and_values_that_they_may_have() {
        let mut kernel = Kernel::built_in(ROOT).unwrap();
        for it in all() {
            for Condition { what, values, .. } in it.conditions() {
                assert!(!values.is_empty(), "{}: {what}", it.path());
                if !what.contains('.') {
                    assert!(FACTS.contains(what), "{}: no fact is `{what}`", it.path());
                    continue;
                }
                assert_ne!(*what, it.path());
                for value in *values {
                    kernel.set(what, value).unwrap_or_else(|error| panic!("{}: {error}", it.path()));
                }
            }
        }
    }

    #[test]
    fn a_choice_that_is_not_read_says_why() {
        let unused = |path: &str, known: &[(&str, &str)]| {
            let value_of =
                |what: &str| known.iter().find(|(key, _)| *key == what).map(|(_, value)| (*value).to_owned());
            Choice::find(path).unwrap().unused(&value_of)
        };
        let classic = [("lru.policy", "classic")];
        assert_eq!(unused("multigen.tiers", &classic).as_deref(), Some("lru.policy = classic"));
        assert_eq!(unused("multigen.tiers", &[("lru.policy", "multigen")]), None);
        assert_eq!(unused("multigen.tiers", &[]), None, "nothing is known");
        assert_eq!(unused("lru.active_scan", &classic), None);
        let huge = [("access.khugepaged", "on"), ("access.huge_pages", "never")];
        assert_eq!(unused("access.khugepaged_defrag", &huge).as_deref(), Some("access.huge_pages = never"));
        let nodes = |count| unused("reclaim.zone_reclaim_mode", &[("memory nodes", count)]);
        assert_eq!((nodes("1").as_deref(), nodes("2")), (Some("memory nodes = 1"), None));
    }

    #[test]
    fn a_choice_is_found_with_and_without_its_section() {
        let found = Choice::find("lru.swappiness").unwrap();
        assert_eq!(Choice::find("swappiness").unwrap().path(), found.path());
        assert_eq!((found.limits, found.default()), (Some((0, 200)), Value::Integer(60)));
        assert!(Choice::find("reclaim.swappiness").is_none());
    }

    #[test]
    fn the_first_kernel_that_has_a_value_says_where_it_is_from() {
        let since = |path: &str, value: &str| Choice::find(path).unwrap().since(&Value::Text(value.into()));
        let Since { kernel, source } = since("reclaim.kswapd_priority", "by-scan-volume").unwrap();
        assert_eq!(kernel, "mm1-mmotm-20130606");
        assert!(source.contains("flatten kswapd priority loop"), "{source}");
        assert_eq!(since("lru.policy", "clock"), None);
    }
}
