//! Tests with the sample trace in the folder that the environment variable `HIGHWATER_TRACES` names: four files with
//! the same requests. Without the variable, the tests are skipped.

use crate::read::{Options, load};
use crate::request::Kind;
use std::collections::HashSet;
use std::path::PathBuf;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("HIGHWATER_TRACES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: HIGHWATER_TRACES does not name the folder of the sample trace");
    }
    folder
}

#[test]
fn the_four_files_have_the_same_requests() {
    let Some(folder) = folder() else { return };
    for (name, format) in [
        ("cloudPhysicsIO.csv", "csv"),
        ("cloudPhysicsIO.vscsi", "vscsi-1"),
        ("cloudPhysicsIO.oracleGeneral.bin", "oracleGeneral"),
        ("cloudPhysicsIO.txt", "keys"),
    ] {
        let loaded = load(&folder.join(name), &Options::default()).unwrap();
        assert_eq!((loaded.format, loaded.counts.unparsed, loaded.trace.len()), (format, 0, 113_872));
        let unit = if loaded.trace.kind() == Kind::Ranges { 512 } else { 1 };
        let starts: HashSet<u64> = loaded.trace.requests().map(|request| request.offset / unit).collect();
        assert_eq!(starts.len(), 48_974, "{name}");
        let reads = loaded.trace.requests().filter(|request| !request.operation.is_write()).count();
        assert_eq!(reads, if unit == 512 { 46_974 } else { 113_872 }, "{name}");
    }
}

#[test]
fn requests_are_split_into_the_pages_that_are_printed() {
    use sha2::{Digest as _, Sha256};
    let Some(folder) = folder() else { return };
    for name in ["cloudPhysicsIO.csv", "cloudPhysicsIO.vscsi"] {
        let trace = load(&folder.join(name), &Options::default()).unwrap().trace;
        let mut sum = Sha256::new();
        let (mut accesses, mut by_reads, mut pages) = (0_u64, 0_u64, HashSet::new());
        for request in trace.requests() {
            for key in request.page_keys() {
                sum.update(key.to_le_bytes());
                pages.insert(key);
                accesses += 1;
                by_reads += u64::from(!request.operation.is_write());
            }
        }
        assert_eq!((accesses, by_reads, pages.len()), (1_141_869, 485_700, 269_210));
        let digits: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, "5ab2531ab98297b2b13c4785566da661f932763765b185866b409a9e9daad084");
    }
}
