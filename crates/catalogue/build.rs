//! Embeds the files of `machines/` and `experiments/` as a table of path and text.
//!
//! The table does not contain the path of the checkout: several checkouts may share a target folder.

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
