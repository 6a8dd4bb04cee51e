//! Embeds the files of `machines/` and `experiments/` as a table of path and text, and a hash of the sources that decide
//! what a run finds.
//!
//! Nothing here or in the table says where the checkout lies: several may share a target folder.

use std::{env, fmt::Write, fs, path::Path};

fn main() {
    let mut paths = Vec::new();
    for folder in ["machines", "experiments"] {
        println!("cargo::rerun-if-changed={folder}");
        collect(Path::new(folder), &mut paths);
    }
    paths.sort();
    let mut table = String::from("&[\n");
    for path in paths {
        let name = path.replace('\\', "/");
        let from_here = format!("/{name}");
        writeln!(table, "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {from_here:?}))),")
            .expect("strings accept all");
    }
    table.push(']');
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("embedded.rs");
    fs::write(out, table).expect("cargo's output folder is writable");
    println!("cargo::rustc-env=HIGHWATER_SOURCES={:016x}", hash_of_sources());
}

/// Folders whose code decides what a run finds. Those of other crates are there in a checkout alone; a published package
/// is known by its version.
const DECIDING: [&str; 5] = ["src", "../engine/src", "../machine/src", "../placed/src", "../sim/src"];

/// What of `src` only shows, keeps or asks for what runs find.
const NOT_DECIDING: [&str; 30] = [
    "src/ablation.rs",
    "src/bars.rs",
    "src/call_tree.rs",
    "src/cli",
    "src/doctor",
    "src/draft.rs",
    "src/fidelity",
    "src/fidelity.rs",
    "src/html",
    "src/import",
    "src/input.rs",
    "src/known_names.rs",
    "src/meanings.rs",
    "src/plot",
    "src/profile.rs",
    "src/ranking.rs",
    "src/real_time",
    "src/recordings",
    "src/results.rs",
    "src/runner.rs",
    "src/shown.rs",
    "src/stalls",
    "src/stalls.rs",
    "src/stat",
    "src/store",
    "src/sweep.rs",
    "src/swarm",
    "src/this_computer",
    "src/values.rs",
    "src/versions.rs",
];

/// A hash over the sources (FNV-1a), the same wherever the checkout lies and however its lines end.
fn hash_of_sources() -> u64 {
    let gone = NOT_DECIDING.iter().find(|path| !Path::new(path).exists());
    assert!(gone.is_none(), "{gone:?} is not there: what has another name now decides what a run finds");
    let mut files = Vec::new();
    for folder in DECIDING.map(Path::new) {
        if folder.is_dir() {
            println!("cargo::rerun-if-changed={}", folder.display());
            sources(folder, &mut files);
        }
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |bytes: &[u8]| {
        for byte in bytes.iter().filter(|byte| **byte != b'\r') {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (name, path) in files {
        take(name.as_bytes());
        take(&[0]);
        take(&fs::read(path).expect("a source file is readable"));
        take(&[0]);
    }
    hash
}

/// Source files, each by its name with `/` between folders and by its path.
fn sources(folder: &Path, files: &mut Vec<(String, std::path::PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.to_str().expect("UTF-8 path").replace('\\', "/");
        if NOT_DECIDING.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push((name, path));
        }
    }
}

fn collect(folder: &Path, paths: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            paths.push(path.to_str().expect("UTF-8 path").to_owned());
        }
    }
}
