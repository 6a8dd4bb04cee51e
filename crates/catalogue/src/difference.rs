//! Differences between two kernels, value by value.

use std::{collections::BTreeSet, sync::Arc};

use engine::kernel::{Kernel, Origin, Setting};
use placed::Value;
use serde::Serialize;

/// A value that differs between two kernels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Section and key of the value: `reclaim.kswapd_floor`.
    pub key: String,
    /// The value in the first kernel, as a kernel file states it.
    pub from: String,
    /// The value in the second kernel, as a kernel file states it.
    pub to: String,
    /// The comment on the line of the kernel file that changes the value. It names the patch that made the change. None
    /// if there is no comment.
    pub source: Option<String>,
    /// File and line of the comment in `source`; none if only the command line changes the value.
    pub place: Option<String>,
}

/// Returns the values in which `to` differs from `from`, in the order of the engine's modules.
#[must_use]
pub fn differences(from: &Kernel, to: &Kernel) -> Vec<Difference> {
    let pairs = from.settings.iter().zip(&to.settings);
    let differing = pairs.filter(|(a, b)| {
        debug_assert_eq!((&a.section, &a.key), (&b.section, &b.key), "all kernels have all values, in one order");
        a.value != b.value
    });
    let (from_files, to_files) = (files(from), files(to));
    let difference = |(a, b): (&Setting, &Setting)| {
        let departs = |setting: &Setting, other: &BTreeSet<Arc<str>>| match &setting.origin {
            Origin::File { place, .. } => !other.contains(&place.file),
            Origin::Set => true,
            Origin::Default => false,
        };
        let departing = if !departs(b, &from_files) && departs(a, &to_files) { a } else { b };
        let (place, source) = match &departing.origin {
            Origin::File { place, source, .. } => (Some(place.to_string()), source.clone()),
            Origin::Default | Origin::Set => (None, None),
        };
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

/// Returns the names of the kernel files in which the values of a kernel's choices are set.
fn files(kernel: &Kernel) -> BTreeSet<Arc<str>> {
    let file = |setting: &Setting| match &setting.origin {
        Origin::File { place, .. } => Some(place.file.clone()),
        Origin::Default | Origin::Set => None,
    };
    kernel.settings.iter().filter_map(file).collect()
}

/// Returns a value in the form that it has on the command line after `KEY=`: a value that is a name has no quotes.
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
    use crate::find;

    #[test]
    fn a_patch_is_found_by_what_it_changes() {
        let (old, new) = ("3.10-rc4-vanilla", "mm1-mmotm-20130606");
        let (old, new) = (find::kernel(old).unwrap(), find::kernel(new).unwrap());
        let found = differences(&old, &new);
        let floor = found.iter().find(|difference| difference.key == "reclaim.kswapd_floor").unwrap();
        assert_eq!((floor.from.as_str(), floor.to.as_str()), ("zero", "one"));
        assert!(floor.source.as_deref().unwrap().contains("do not allow kswapd to scan at maximum priority"));
        // In the other direction, the comments are those of the newer kernel's file, too.
        let back = differences(&new, &old);
        assert_eq!(back.len(), found.len());
        assert!(back.iter().all(|difference| difference.source.is_some()), "{back:?}");
        assert_eq!(differences(&old, &old), []);
    }

    #[test]
    fn a_value_without_a_comment_has_none_of_its_base() {
        let base = find::kernel("3.10-rc4-vanilla").unwrap();
        let text = "base = \"3.10-rc4-vanilla\"\n[reclaim]\nkswapd_floor = \"one\"\n[lru]\nswappiness = 10 # a guess\n";
        let resolve = |name: &str| Ok(engine::kernel::files::source(name).unwrap());
        let mine = Kernel::parse("mine", "mine.toml", text, &resolve).unwrap();
        let told = |from: &Kernel, to: &Kernel| -> Vec<(Option<String>, Option<String>)> {
            differences(from, to).into_iter().map(|it| (it.place, it.source)).collect()
        };
        let of_mine = [(Some("mine.toml:5".into()), Some("a guess".into())), (Some("mine.toml:3".into()), None)];
        assert_eq!(told(&base, &mine), of_mine);
        assert_eq!(told(&mine, &base), of_mine);
        // The comments are also found between two kernels with a common base. A value that the command line sets has no
        // comment.
        let other = find::kernel("3.10-rc4-vanilla+lru.batch=3").unwrap();
        assert_eq!(told(&mine, &other), [&[(None, None)], &of_mine[..]].concat());
    }

    #[test]
    fn each_difference_can_be_set_alone() {
        let (old, new) = (find::kernel("3.10-rc4-vanilla").unwrap(), find::kernel("highwater").unwrap());
        for Difference { key, to, .. } in differences(&old, &new) {
            let changed = find::kernel(&format!("3.10-rc4-vanilla+{key}={to}")).unwrap();
            let left = differences(&old, &changed);
            assert_eq!(left.iter().map(|left| (&left.key, &left.to)).collect::<Vec<_>>(), [(&key, &to)]);
        }
    }
}
