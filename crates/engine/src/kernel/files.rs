//! The kernel files that come with the engine, `crates/engine/kernels/*.toml`, by name.

use super::Source;

/// Name and text of each kernel file, sorted by name.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Returns the names of all kernel files, sorted: `3.10-rc4-vanilla` for `kernels/3.10-rc4-vanilla.toml`.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns the text of the kernel file `name`; `None` if there is no such file.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    FILES.binary_search_by_key(&name, |(name, _)| name).ok().map(|at| FILES[at].1)
}

/// Returns the text of the kernel file `name`, with its path from the repository's root; `None` if there is no such
/// file.
#[must_use]
pub fn source(name: &str) -> Option<Source> {
    text(name).map(|text| Source { file: format!("crates/engine/kernels/{name}.toml"), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_name() {
        assert!(FILES.is_sorted() && names().any(|name| name == "highwater"));
        assert!(text("2.6.23-rc5").unwrap().contains("about"));
        assert_eq!(source("highwater").unwrap().file, "crates/engine/kernels/highwater.toml");
        assert_eq!(text("none"), None);
    }
}
