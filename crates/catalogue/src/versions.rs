//! Versions of Linux in the names of kernel files.

use crate::embedded;

/// Major and minor number of a version of Linux, such as (6, 8).
pub type Version = (u32, u32);

/// Returns the version at the beginning of a name: `6.8` for `6.8.0-45-generic`, `v6.8` and `linux-6.8`. Returns none
/// if the name does not begin with a version.
#[must_use]
pub fn version(name: &str) -> Option<Version> {
    let lower = name.to_lowercase();
    let bare = lower.trim_start_matches("linux").trim_start_matches(['-', ' ']).trim_start_matches('v');
    let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|word| word.parse().ok());
    let (major, rest) = bare.split_once('.')?;
    Some((major.parse().ok()?, digits(rest)?))
}

/// Returns whether the kernel file called `name` is a released version of Linux without further patches. If `multigen`
/// is true, the file must have the multi-generational LRU; otherwise the file must not have it.
fn is_released(name: &str, multigen: bool) -> bool {
    let rest = name.split_once('-').map_or("", |(_, rest)| rest);
    if multigen { rest == "mglru" } else { ["mainline", "classic", "rc4-vanilla", ""].contains(&rest) }
}

/// Returns the names of the kernel files of released versions of Linux, each with its version, oldest first. With
/// `multigen`, these are the files with the multi-generational LRU, otherwise those without it.
#[must_use]
pub fn released(multigen: bool) -> Vec<(Version, &'static str)> {
    let mut known: Vec<(Version, &str)> = embedded::names("kernels")
        .filter(|name| is_released(name, multigen))
        .filter_map(|name| Some((version(name)?, name)))
        .collect();
    known.sort_unstable();
    known
}

/// Returns the name of the kernel file nearest to a version: the newest file of this version or an older one, or the
/// oldest file if all are newer. If `multigen` is true, only files with the multi-generational LRU are considered;
/// otherwise, only files without it.
///
/// # Panics
/// When no kernel file is built in.
#[must_use]
pub fn nearest(wanted: Version, multigen: bool) -> &'static str {
    let known = released(multigen);
    let older = known.iter().rev().find(|(version, _)| *version <= wanted);
    older.or(known.first()).expect("kernel files are built in").1
}

/// Returns the end of the error message for an unknown kernel name that begins with a version. The text suggests the
/// files of this version, or else the nearest files before and after it. Returns none if the name does not begin with a
/// version.
#[must_use]
pub fn hint(name: &str) -> Option<String> {
    let wanted = version(name)?;
    let of_it = |multigen: bool| released(multigen).into_iter().filter(move |(version, _)| *version == wanted);
    let of_it: Vec<String> = of_it(false).chain(of_it(true)).map(|(_, name)| format!("`{name}`")).collect();
    if !of_it.is_empty() {
        return Some(format!(": did you mean {}?", of_it.join(" or ")));
    }
    let around = |multigen: bool| {
        let known = released(multigen);
        let older = known.iter().rev().find(|(version, _)| *version <= wanted);
        let newer = known.iter().find(|(version, _)| *version > wanted);
        let names: Vec<String> = older.into_iter().chain(newer).map(|(_, name)| format!("`{name}`")).collect();
        names.join(" and ")
    };
    let lower = name.to_lowercase();
    let says_multigen = ["mglru", "multigen", "lru_gen"].iter().any(|word| lower.contains(word));
    // The multi-generational LRU came with 6.1.
    let may_be_multigen = !lower.contains("classic") && wanted >= (6, 1);
    Some(match (says_multigen, may_be_multigen) {
        (true, _) => format!(": the nearest with generations are {}", around(true)),
        (false, true) => format!(": the nearest are {}; with generations {}", around(false), around(true)),
        (false, false) => format!(": the nearest are {}", around(false)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_what_a_name_begins_with() {
        let all = ["6.8.0-45-generic", "v6.8", "linux-6.8", "Linux 6.8.1", "6.8", "6.8-rc3"];
        assert_eq!(all.map(version), [Some((6, 8)); 6]);
        assert_eq!(["highwater", "mglru-v1", "6", "v", ""].map(version), [None; 5]);
    }

    #[test]
    fn a_version_without_a_file_names_those_around_it() {
        assert_eq!(hint("5.13").as_deref(), Some(": the nearest are `5.12-mainline` and `5.15`"));
        assert_eq!(hint("5.13.0-91-generic"), hint("v5.13"));
        assert_eq!(hint("5.15.0-91-generic").as_deref(), Some(": did you mean `5.15`?"));
        let both = hint("6.8").unwrap();
        assert!(
            both.contains("`6.6-classic` and `6.12-classic`; with generations `6.6-mglru` and `6.12-mglru`"),
            "{both}"
        );
        assert_eq!(
            hint("6.8-mglru").as_deref(),
            Some(": the nearest with generations are `6.6-mglru` and `6.12-mglru`")
        );
        assert_eq!(hint("6.8-classic").as_deref(), Some(": the nearest are `6.6-classic` and `6.12-classic`"));
        assert_eq!(hint("6.1").as_deref(), Some(": did you mean `6.1-classic` or `6.1-mglru`?"));
        assert_eq!(hint("9.9").as_deref(), Some(": the nearest are `6.18-classic`; with generations `7.2-mglru`"));
        assert_eq!(hint("vanilla"), None);
    }
}
