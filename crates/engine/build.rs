//! Build script: makes a table of the kernel files in `kernels/`.

// The engine opens no files, but its build may: it reads the engine's own files.
#![allow(clippy::disallowed_methods)]

use std::{collections::BTreeSet, env, fmt::Write, fs, path::Path};

fn main() {
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("kernels.rs");
    fs::write(out, kernels()).expect("cargo's output folder is writable");
}

/// Returns the Rust code of a slice with the name and the text of each kernel file. The code does not contain the path
/// of the checkout, because several checkouts may share a target folder.
fn kernels() -> String {
    println!("cargo::rerun-if-changed=kernels");
    let files = fs::read_dir("kernels").expect("the crate has kernels").flatten();
    let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".toml")?.to_owned()));
    let mut table = String::from("&[\n");
    for name in names.collect::<BTreeSet<_>>() {
        let path = format!("/kernels/{name}.toml");
        writeln!(table, "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),")
            .expect("strings accept all");
    }
    table + "]"
}
