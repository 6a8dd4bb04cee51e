//! Tests that the Python package is built with the same crate versions as everything else.

use std::{collections::BTreeSet, fs, path::Path};

/// Returns the name and version of each crate in a lock file.
fn crates(path: &Path) -> BTreeSet<(String, String)> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let value =
        |line: &str, key: &str| Some(line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned());
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(2).filter_map(|pair| Some((value(pair[0], "name")?, value(pair[1], "version")?))).collect()
}

#[test]
fn both_lock_files_name_the_same_versions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let [ours, theirs] = ["Cargo.lock", "python/Cargo.lock"].map(|path| crates(&root.join(path)));
    let known: BTreeSet<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
    let other: Vec<_> = theirs.difference(&ours).filter(|(name, _)| known.contains(name.as_str())).collect();
    assert!(other.is_empty(), "python/Cargo.lock has other versions: copy Cargo.lock there and check: {other:?}");
    assert!(theirs.iter().any(|(name, _)| name == "pyo3"));
}
