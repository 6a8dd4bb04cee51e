//! Hashes the sources that determine the result of a run.
//!
//! The output does not contain the path of the checkout: several checkouts may share a target folder.

use fnv::FnvHasher;
use std::{
    fs,
    hash::Hasher,
    path::{Path, PathBuf},
};

fn main() {
    println!("cargo::rustc-env=HIGHWATER_SOURCES={:016x}", hash_of_sources());
}

/// Files and folders whose code determines the result of a run. The paths into other crates exist only in a checkout; a
/// published package is identified by its version.
const DECIDING: [&str; 10] = [
    "src/plan.rs",
    "src/plan",
    "../catalogue/src",
    "../engine/src",
    "../figures/src",
    "../grounds/src",
    "../machine/src",
    "../placed/src",
    "../sim/src",
    "../workloads/src",
];

/// Files and folders inside those of [`DECIDING`] whose code does not determine the result of a run, because it only
/// measures or displays.
const NOT_DECIDING: [&str; 3] = ["../catalogue/src/values.rs", "../grounds/src/real_time", "../grounds/src/swarm"];

/// Returns an FNV-1a hash over the sources, independent of the path of the checkout and of line endings.
fn hash_of_sources() -> u64 {
    let is_checkout = Path::new("../catalogue").exists();
    let gone = NOT_DECIDING.iter().find(|path| is_checkout && !Path::new(path).exists());
    assert!(gone.is_none(), "{gone:?} is not there: what has another name now decides what a run finds");
    let mut files = Vec::new();
    for path in DECIDING.map(Path::new).into_iter().filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
        sources(path, &mut files);
    }
    files.sort();
    let mut hasher = FnvHasher::default();
    let mut take = |bytes: &[u8]| bytes.split(|byte| *byte == b'\r').for_each(|part| hasher.write(part));
    for (name, path) in files {
        take(name.as_bytes());
        take(&[0]);
        take(&fs::read(path).expect("a source file is readable"));
        take(&[0]);
    }
    hasher.finish()
}

/// Adds the source files at a path to `files`, each with its name (`/` between folders) and its path.
fn sources(path: &Path, files: &mut Vec<(String, PathBuf)>) {
    let name = path.to_str().expect("UTF-8 path").replace('\\', "/");
    if NOT_DECIDING.contains(&name.as_str()) {
        return;
    }
    if let Ok(entries) = fs::read_dir(path) {
        entries.flatten().for_each(|entry| sources(&entry.path(), files));
    } else if path.extension().is_some_and(|ending| ending == "rs") {
        files.push((name, path.to_owned()));
    }
}
