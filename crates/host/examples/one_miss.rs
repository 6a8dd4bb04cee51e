//! Reads one page twice: the first read misses and goes to the disk, the second finds the page in memory.
//!
//! For each read the program prints the counters that changed, under their names in `/proc/vmstat`.
//!
//! Run: `cargo run --release --package highwater --example one_miss`

use highwater::{Advice, File, Memory};
use std::error::Error;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const PAGE_SIZE: usize = 4096;

/// Number of pages of the file.
const PAGES: u64 = 256;

/// The number of the page that is read twice.
const PAGE: u64 = 42;

/// Reads the page, and returns the name of each counter that changed with the amount of the change.
fn read(memory: &Memory, file: &File) -> Outcome<Vec<(String, i128)>> {
    let before = memory.vmstat();
    let page = file.page(PAGE)?;
    assert!(page.iter().all(|byte| u64::from(*byte) == PAGE), "another page");
    drop(page);
    let after = memory.vmstat();
    let changes = after.0.iter().map(|(name, value)| (name.clone(), i128::from(*value) - i128::from(before.get(name))));
    Ok(changes.filter(|(_, change)| *change != 0).collect())
}

/// Reads the same page twice. Returns, for each of the two reads, the counters that the read changed, with their
/// changes.
fn run() -> Outcome<[Vec<(String, i128)>; 2]> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("table.dat");
    let bytes: Vec<u8> = (0..PAGES).flat_map(|number| [number as u8; PAGE_SIZE]).collect();
    std::fs::write(&path, bytes)?;

    let memory = Memory::builder().size(16 << 20).start()?;
    let file = memory.open(&path)?;
    file.advise(0..0, Advice::Random); // no readahead
    let changes = [read(&memory, &file)?, read(&memory, &file)?];
    drop(file);
    memory.shutdown()?;
    Ok(changes)
}

fn main() -> Outcome {
    for (changes, which) in run()?.into_iter().zip(["first", "second"]) {
        println!("{which} read of page {PAGE}:");
        changes.iter().for_each(|(name, change)| println!("  {name:<28}{change:>+6}"));
        if changes.is_empty() {
            println!("  no counter changed");
        }
    }
    Ok(())
}

#[test]
fn only_the_first_read_goes_to_the_disk() {
    let [first, second] = run().unwrap();
    assert!(first.iter().any(|(name, change)| name == "pgpgin" && *change == 4), "{first:?}");
    assert!(second.iter().all(|(name, _)| name != "pgpgin"), "{second:?}");
}
