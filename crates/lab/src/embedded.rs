//! The files of `kernels/`, `machines/` and `experiments/`, inside the binary.

/// Path from the repository's root, and text; sorted by path.
pub static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The text of the file at `path`.
#[must_use]
pub fn text(path: &str) -> Option<&'static str> {
    FILES.binary_search_by_key(&path, |(path, _)| path).ok().map(|at| FILES[at].1)
}

/// The names of a folder: `3.10-rc4-vanilla` for `kernels/3.10-rc4-vanilla.toml`, `parallelio` for
/// `experiments/parallelio/experiment.toml`.
pub fn names(folder: &str) -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(move |(path, _)| {
        let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
        rest.strip_suffix("/experiment.toml").or_else(|| rest.strip_suffix(".toml").filter(|name| !name.contains('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_path_and_name() {
        assert!(FILES.is_sorted());
        assert!(text("experiments/parallelio/published.toml").unwrap().contains("Ops memcachetest-0M"));
        assert_eq!(text("kernels/none.toml"), None);
        assert!(names("experiments").any(|name| name == "parallelio"));
    }
}
