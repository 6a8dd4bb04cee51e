//! What every choice of a kernel means, by the comments on the fields and variants of `choices.rs`.

use super::{LIMITS, defaults};
use placed::Value;

/// One key of a kernel file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The section: a module of the engine.
    pub section: &'static str,
    /// The key in it.
    pub key: &'static str,
    /// What it decides.
    pub about: &'static str,
    /// Names of its values, and what each does; none where it is a number.
    pub values: &'static [(&'static str, &'static str)],
}

/// Every key of a kernel file, in the order of [`super::Choices`].
pub static CHOICES: &[Choice] = include!(concat!(env!("OUT_DIR"), "/choices.rs"));

impl Choice {
    /// The choice under a section and a key, `lru.swappiness`, or under a key alone.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Self> {
        CHOICES.iter().find(|it| path == it.key || path.split_once('.') == Some((it.section, it.key)))
    }

    /// Smallest and largest, of a number that has limits.
    #[must_use]
    pub fn limits(&self) -> Option<(i64, i64)> {
        let limit = LIMITS.iter().find(|limit| (limit.0, limit.1) == (self.section, self.key))?;
        Some((limit.2, limit.3))
    }

    /// What the code has where no file says anything.
    #[must_use]
    pub fn default(&self) -> Option<Value> {
        Some(defaults().get(self.section)?.get(self.key)?.value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    #[test]
    fn every_key_and_every_value_has_a_meaning() {
        let mut kernel = Kernel::of_defaults("k");
        let keys: Vec<(String, String)> =
            kernel.settings.iter().map(|it| (it.section.clone(), it.key.clone())).collect();
        let told: Vec<(String, String)> = CHOICES.iter().map(|it| (it.section.into(), it.key.into())).collect();
        assert_eq!(told, keys);
        for it in CHOICES {
            let path = format!("{}.{}", it.section, it.key);
            assert!(!it.about.is_empty(), "{path} has no comment");
            for (value, about) in it.values {
                kernel.set(&path, value).unwrap_or_else(|error| panic!("{error}"));
                assert!(!about.is_empty(), "{path}: `{value}` has no comment");
            }
            // The message about a wrong name lists all: none is missing here.
            let wrong = kernel.set(&path, "no-such-value").unwrap_err().message;
            let listed = wrong.matches('`').count() / 2;
            if wrong.contains("known are") {
                assert_eq!(listed, it.values.len() + 2, "{wrong}");
            }
            assert_eq!(matches!(it.default(), Some(Value::Text(_))), !it.values.is_empty(), "{path}");
        }
    }

    #[test]
    fn a_choice_is_found_with_and_without_its_section() {
        let found = Choice::find("lru.swappiness").unwrap();
        assert_eq!(Choice::find("swappiness"), Some(found));
        assert_eq!((found.limits(), found.default()), (Some((0, 100)), Some(Value::Integer(60))));
        assert_eq!(Choice::find("reclaim.swappiness"), None);
    }
}
