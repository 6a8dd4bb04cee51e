//! Tests of failing disk requests: the affected caller gets the error, and nothing else is lost.
//!
//! One run has 4 MiB of memory, a file of 3 MiB, and a region of 6 MiB with swap. File and region are written, synced
//! and read back, while one request fails or moves fewer bytes than requested. The operation that gets the error is
//! repeated, and then succeeds. At the end every byte is right, in memory and in the closed file. The test repeats the
//! run with another failing request each time.

use highwater::machine::disk::faults::{Fault, Faults, Script};
use highwater::{Advice, Error, Memory};
use std::sync::Arc;

const PAGE: u64 = 4096;
const FILE_PAGES: u64 = 768;
const REGION_PAGES: u64 = 1536;

fn page(number: u64, version: u64) -> Vec<u8> {
    (number * 1000 + version).to_le_bytes().repeat(PAGE as usize / 8)
}

/// The outcome of one run, in which at most one disk request fails.
#[derive(Debug, Default)]
struct Outcome {
    /// Number of disk requests in the run.
    requests: u64,
    /// The errors that operations of the run returned.
    errors: Vec<String>,
}

impl Outcome {
    /// Carries out an operation that may fail because of the run's single fault, and repeats the operation after a
    /// failure. Returns its result.
    fn twice<T>(&mut self, mut operation: impl FnMut() -> Result<T, Error>) -> T {
        for _ in 0..3 {
            match operation() {
                Ok(done) => return done,
                Err(error) => self.errors.push(error.to_string()),
            }
        }
        panic!("failed three times for one fault: {:?}", self.errors);
    }
}

fn story(script: &Arc<Script>) -> Outcome {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("file");
    let faults = script.clone();
    let memory = Memory::builder()
        .size(4 << 20)
        .swap(16 << 20)
        .swap_folder(folder.path())
        .behind(move |backend| Faults::wrap(&faults, backend))
        .start()
        .unwrap();
    let mut outcome = Outcome::default();
    let file = memory.create(&path).unwrap();
    file.advise(0..0, Advice::Random);
    let region = memory.anonymous(REGION_PAGES * PAGE).unwrap();
    for number in 0..FILE_PAGES {
        outcome.twice(|| file.write_all_at(&page(number, 1), number * PAGE));
    }
    outcome.twice(|| file.sync_data());
    for number in 0..REGION_PAGES {
        outcome.twice(|| region.write_at(&page(number, 2), number * PAGE));
    }
    // Writes of half a page, for which the page must be read first if it is not in memory.
    for number in (0..FILE_PAGES).step_by(3) {
        outcome.twice(|| file.write_all_at(&page(number, 3)[..2048], number * PAGE));
    }
    let mut found = vec![0; PAGE as usize];
    for number in (0..REGION_PAGES).rev() {
        outcome.twice(|| region.read_at(&mut found, number * PAGE));
        assert!(found == page(number, 2), "region, page {number}");
    }
    let expected = |number| {
        let mut bytes = page(number, 1);
        if number % 3 == 0 {
            bytes[..2048].copy_from_slice(&page(number, 3)[..2048]);
        }
        bytes
    };
    for number in 0..FILE_PAGES {
        outcome.twice(|| file.read_exact_at(&mut found, number * PAGE));
        assert!(found == expected(number), "file, page {number}");
    }
    outcome.twice(|| file.sync_data());
    drop(region);
    drop(file);
    memory.check().unwrap();
    if let Err(error) = memory.shutdown() {
        outcome.errors.push(error.to_string());
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, FILE_PAGES * PAGE);
    for (number, found) in bytes.chunks(PAGE as usize).enumerate() {
        assert!(found == expected(number as u64), "file, page {number} after it was closed");
    }
    outcome.requests = script.seen();
    outcome
}

/// Repeats the run, each time with another failing request: about forty times, or once for every request if
/// HIGHWATER_ALL_FAULTS is set.
#[test]
fn each_request_may_fail_once() {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    let requests = story(&Script::new()).requests;
    assert!(requests > 1000, "only {requests} requests");
    let step = if std::env::var_os("HIGHWATER_ALL_FAULTS").is_some() { 1 } else { requests as usize / 40 };
    let faults = [Fault::Fail(EIO), Fault::Shorten(512), Fault::Fail(ENOSPC)];
    let (mut told, mut failed) = (0, 0);
    for (n, request) in (0..requests).step_by(step).enumerate() {
        let script = Script::new();
        let fault = faults[n % faults.len()];
        script.set(request, fault);
        let outcome = story(&script);
        let words = |what: &str| outcome.errors.iter().any(|error| error.contains(what));
        match fault {
            Fault::Shorten(_) => assert_eq!(outcome.errors, Vec::<String>::new(), "request {request} was cut short"),
            // A write to swap that fails affects no caller: the page stays in memory.
            Fault::Fail(_) => {
                assert!(outcome.errors.len() <= 1, "request {request}: {:?}", outcome.errors);
                let names = words("file: ") || words("swap slot ");
                assert!(outcome.errors.is_empty() || names && words("failed: "), "{:?}", outcome.errors);
                failed += 1;
                told += outcome.errors.len();
            }
        }
    }
    println!("{requests} requests; {failed} failed, {told} operations were told");
    assert!(told > 0, "no failure reached anybody");
}

/// A read of one page may request many pages by readahead, from a file or from swap. If this large request fails, the
/// reader still gets its page, which is then read alone.
#[test]
fn a_failed_request_for_many_pages_is_told_to_nobody_whose_page_can_be_read() {
    const EIO: i32 = 5;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let script = Script::new();
    let faults = script.clone();
    let memory = Memory::builder()
        .size(4 << 20)
        .swap(16 << 20)
        .swap_folder(folder.path())
        .behind(move |backend| Faults::wrap(&faults, backend))
        .start()
        .unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    for number in 0..FILE_PAGES {
        file.write_all_at(&page(number, 1), number * PAGE).unwrap();
    }
    file.sync_data().unwrap();
    file.advise(0..u64::MAX, Advice::DontNeed);
    let mut found = vec![0; PAGE as usize];
    let before = script.seen();
    script.set(before, Fault::Fail(EIO));
    for number in 0..FILE_PAGES {
        file.read_exact_at(&mut found, number * PAGE).unwrap();
        assert!(found == page(number, 1), "file, page {number}");
    }
    assert!(script.seen() > before);
    let region = memory.anonymous(REGION_PAGES * PAGE).unwrap();
    for number in 0..REGION_PAGES {
        region.write_at(&page(number, 2), number * PAGE).unwrap();
    }
    // Swap is not read ahead while memory is short. Therefore another region takes memory and is dropped, which leaves
    // free pages.
    let room = memory.anonymous(256 * PAGE).unwrap();
    for number in 0..256 {
        room.write_at(&page(number, 3), number * PAGE).unwrap();
    }
    drop(room);
    let before = script.seen();
    script.set(before, Fault::Fail(EIO));
    for number in 0..REGION_PAGES {
        region.read_at(&mut found, number * PAGE).unwrap();
        assert!(found == page(number, 2), "region, page {number}");
    }
    assert!(script.seen() > before);
    // If the device fails every read, the reader gets an error that names the page.
    file.advise(0..u64::MAX, Advice::DontNeed);
    script.set_all(Some(Fault::Fail(EIO)));
    let error = file.read_exact_at(&mut found, 5 * PAGE).unwrap_err().to_string();
    assert!(error.contains("byte 20480"), "{error}");
    script.set_all(None);
    file.read_exact_at(&mut found, 5 * PAGE).unwrap();
    assert!(found == page(5, 1));
}
