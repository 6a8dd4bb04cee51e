//! The machine and experiment files that are built into this crate, and the names of the engine's kernel files.

use engine::kernel::{Source, files};

/// Path and text of each built-in file, sorted by path. Paths are relative to this crate's folder.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Returns the text of the built-in file at `path`, which is relative to this crate's folder; none if there is no such
/// file.
#[must_use]
pub fn text(path: &str) -> Option<&'static str> {
    FILES.binary_search_by_key(&path, |(path, _)| path).ok().map(|at| FILES[at].1)
}

/// Returns the built-in file at `path`, relative to this crate's folder; none if there is no such file. The path in the
/// returned source is relative to the repository's root.
#[must_use]
pub fn source(path: &str) -> Option<Source> {
    text(path).map(|text| Source { file: format!("crates/catalogue/{path}"), text: text.to_owned() })
}

/// Returns the names of the built-in kernels, machines or experiments, which lie in `folder`: `3.10-rc4-vanilla` for
/// `kernels/3.10-rc4-vanilla.toml`, `parallelio` for `experiments/parallelio/experiment.toml`.
pub fn names(folder: &str) -> impl Iterator<Item = &'static str> {
    let kernels = files::names().filter(move |_| folder == "kernels");
    let own = FILES.iter().filter_map(move |(path, _)| {
        let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
        rest.strip_suffix("/experiment.toml").or_else(|| rest.strip_suffix(".toml").filter(|name| !name.contains('/')))
    });
    kernels.chain(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_path_and_name() {
        assert!(FILES.is_sorted());
        assert!(text("experiments/parallelio/published.toml").unwrap().contains("Ops memcachetest-0M"));
        assert_eq!(source("machines/ping-8g.toml").unwrap().file, "crates/catalogue/machines/ping-8g.toml");
        assert_eq!(text("machines/none.toml"), None);
        assert!(names("experiments").any(|name| name == "parallelio"));
        assert!(names("kernels").any(|name| name == "highwater"));
    }
}
