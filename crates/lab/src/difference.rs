//! What separates two kernels, value by value.

use engine::kernel::{Kernel, Origin, Setting, text::Value};
use serde::Serialize;

/// One value that two kernels do not share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Section and key: `reclaim.kswapd_floor`.
    pub key: String,
    /// In the first kernel, as a file has it.
    pub from: String,
    /// In the second.
    pub to: String,
    /// The comment beside the value in whichever file departs from the other: the patch that brought it.
    pub source: Option<String>,
    /// File and line of that.
    pub place: Option<String>,
}

/// The values in which `to` differs from `from`, in the order of the engine's modules.
#[must_use]
pub fn differences(from: &Kernel, to: &Kernel) -> Vec<Difference> {
    let pairs = from.settings.iter().zip(&to.settings);
    let differing = pairs.filter(|(a, b)| {
        debug_assert_eq!((&a.section, &a.key), (&b.section, &b.key), "all kernels have all values, in one order");
        a.value != b.value
    });
    let difference = |(a, b): (&Setting, &Setting)| {
        let told = [b, a].into_iter().find_map(|setting| match &setting.origin {
            Origin::File { place, source: Some(source), .. } => Some((place.to_string(), source.clone())),
            _ => None,
        });
        let (place, source) = told.unzip();
        Difference {
            key: format!("{}.{}", a.section, a.key),
            from: plain(&a.value),
            to: plain(&b.value),
            source,
            place,
        }
    };
    differing.map(difference).collect()
}

/// A value as it is written after `KEY=`: names of choices without their quotes.
#[must_use]
pub fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library;

    #[test]
    fn a_patch_is_found_by_what_it_changes() {
        let (old, new) = ("3.10-rc4-vanilla", "mm1-mmotm-20130606");
        let (old, new) = (library::kernel(old).unwrap(), library::kernel(new).unwrap());
        let found = differences(&old, &new);
        let floor = found.iter().find(|difference| difference.key == "reclaim.kswapd_floor").unwrap();
        assert_eq!((floor.from.as_str(), floor.to.as_str()), ("zero", "one"));
        assert!(floor.source.as_deref().unwrap().contains("do not allow kswapd to scan at maximum priority"));
        // Back again, the source is that of the file that departs from the other.
        let back = differences(&new, &old);
        assert_eq!(back.len(), found.len());
        assert!(back.iter().all(|difference| difference.source.is_some()), "{back:?}");
        assert_eq!(differences(&old, &old), []);
    }

    #[test]
    fn each_difference_can_be_set_alone() {
        let (old, new) = (library::kernel("3.10-rc4-vanilla").unwrap(), library::kernel("highwater").unwrap());
        for Difference { key, to, .. } in differences(&old, &new) {
            let changed = library::kernel(&format!("3.10-rc4-vanilla+{key}={to}")).unwrap();
            let left = differences(&old, &changed);
            assert_eq!(left.iter().map(|left| (&left.key, &left.to)).collect::<Vec<_>>(), [(&key, &to)]);
        }
    }
}
