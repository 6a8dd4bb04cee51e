//! Compiles the library that is loaded into recorded programs (`src/shim/lib.rs`). The crate embeds the result by
//! [`include_bytes!`].
//!
//! The library is a single crate without dependencies, compiled by the same compiler. Cargo could build the library
//! only as a package of its own, and this crate could then not embed it.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=src/shim");
    println!("cargo::rerun-if-changed=src/wire.rs");
    let of = |name: &str| env::var(name).unwrap_or_default();
    let library = Path::new(&of("OUT_DIR")).join("shim.so");
    // The shim knows the interfaces of Linux and of glibc on these machines. Elsewhere there is none, which is said at
    // run time.
    let is_known = matches!(&*of("CARGO_CFG_TARGET_ARCH"), "x86_64" | "aarch64");
    if of("CARGO_CFG_TARGET_OS") != "linux" || of("CARGO_CFG_TARGET_ENV") != "gnu" || !is_known {
        fs::write(&library, []).expect("cargo's output folder is writable");
        return;
    }
    let mut compiler = Command::new(of("RUSTC"));
    compiler.args(["--crate-name", "highwater_record_shim", "--crate-type", "cdylib", "--edition", "2024"]);
    compiler.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols", "-C", "codegen-units=1"]);
    // Both sides use all of the layout together, and neither alone.
    compiler.args(["-A", "dead_code", "--target", &of("TARGET"), "src/shim/lib.rs", "-o"]).arg(&library);
    let linker = of("RUSTC_LINKER");
    if !linker.is_empty() {
        compiler.arg("-C").arg(format!("linker={linker}"));
    }
    let status = compiler.status().expect("the compiler starts");
    assert!(status.success(), "the library for recorded programs does not compile: {status}");
}
