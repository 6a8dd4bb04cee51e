//! Sorts more records than memory holds, in a region whose pages go to a swap file when necessary.
//!
//! An array of u64 lies in a [`highwater::Region`] several times as large as memory. The program does not deal with
//! disks: it is a recursive merge sort of pages. A range is divided into [`FAN_IN`] parts, each part is sorted, and the
//! parts are merged into the other half of the region. Because of the recursion, small ranges are sorted and merged
//! while they are in memory, whatever the memory's size. Only merges of ranges larger than memory go to the disk.
//!
//! Afterwards the program checks that no record is less than the one before it. Two sums over the records show that
//! they are the same records as before the sort. If a check fails, the program exits with 1.
//!
//! Run: `cargo run --release -p highwater --example sort`, with `-- --help` for sizes.

use clap::Parser;
use highwater::{Memory, PageRead, PageWrite, Region};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const PAGE: u64 = 4096;
const RECORD: usize = 8;
const RECORDS: usize = PAGE as usize / RECORD;
const MIB: u64 = 1 << 20;

/// Number of sorted runs that are merged at once. Each run has one page pinned meanwhile.
const FAN_IN: u64 = 32;

fn record(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at * RECORD..(at + 1) * RECORD].try_into().expect("8 bytes"))
}

fn set_record(page: &mut [u8], at: usize, record: u64) {
    page[at * RECORD..(at + 1) * RECORD].copy_from_slice(&record.to_le_bytes());
}

/// A sorted run of pages, which is read from the front to the back.
struct Run<'a> {
    region: &'a Region,
    pages: Range<u64>,
    page: PageRead<'a>,
    /// Index of the next record in `page`.
    at: usize,
}

impl<'a> Run<'a> {
    fn new(region: &'a Region, mut pages: Range<u64>) -> Outcome<Self> {
        let first = pages.next().ok_or("an empty run")?;
        Ok(Self { region, pages, page: region.page(first)?, at: 0 })
    }

    fn next(&mut self) -> Outcome<Option<u64>> {
        if self.at == RECORDS {
            let Some(page) = self.pages.next() else { return Ok(None) };
            self.page = self.region.page(page)?;
            self.at = 0;
        }
        self.at += 1;
        Ok(Some(record(&self.page, self.at - 1)))
    }
}

/// A sorted run of pages that is being written: records are appended at its end.
struct Output<'a> {
    region: &'a Region,
    pages: Range<u64>,
    page: Option<PageWrite<'a>>,
    at: usize,
}

impl Output<'_> {
    fn push(&mut self, record: u64) -> Outcome {
        if self.at == RECORDS || self.page.is_none() {
            let next = self.pages.next().ok_or("more records came out than went in")?;
            // The guard of the full page is dropped first, so that only one page is pinned.
            self.page = None;
            self.page = Some(self.region.page_mut(next)?);
            self.at = 0;
        }
        set_record(self.page.as_mut().expect("just set"), self.at, record);
        self.at += 1;
        Ok(())
    }
}

/// A region whose first half is the array of `pages` pages to be sorted. The second half, of the same size, is for
/// merging.
struct Sorter<'a> {
    region: &'a Region,
    pages: u64,
}

impl Sorter<'_> {
    /// Returns the pages of the region that belong to a range of the array: in the second half if `is_other` is true,
    /// otherwise in the first.
    fn in_half(&self, range: &Range<u64>, is_other: bool) -> Range<u64> {
        let skipped = if is_other { self.pages } else { 0 };
        range.start + skipped..range.end + skipped
    }

    /// Sorts a range of the array. The result lies in the second half of the region if `is_wanted_in_other` is true,
    /// otherwise in the first.
    fn sort(&self, range: Range<u64>, is_wanted_in_other: bool) -> Outcome {
        if range.end - range.start == 1 {
            return self.sort_page(range.start, is_wanted_in_other);
        }
        let part = (range.end - range.start).div_ceil(FAN_IN);
        let parts: Vec<_> =
            range.clone().step_by(part as usize).map(|start| start..(start + part).min(range.end)).collect();
        for part in &parts {
            self.sort(part.clone(), !is_wanted_in_other)?;
        }
        let runs = parts.iter().map(|part| Run::new(self.region, self.in_half(part, !is_wanted_in_other)));
        let pages = self.in_half(&range, is_wanted_in_other);
        merge(runs.collect::<Outcome<_>>()?, Output { region: self.region, pages, page: None, at: 0 })
    }

    fn sort_page(&self, page: u64, is_wanted_in_other: bool) -> Outcome {
        let mut records = {
            let page = self.region.page(page)?;
            std::array::from_fn::<u64, RECORDS, _>(|at| record(&page, at))
        };
        records.sort_unstable();
        let target = self.in_half(&(page..page + 1), is_wanted_in_other).start;
        let mut page = self.region.page_mut(target)?;
        records.iter().enumerate().for_each(|(at, record)| set_record(&mut page, at, *record));
        Ok(())
    }
}

fn merge(mut runs: Vec<Run>, mut output: Output) -> Outcome {
    let mut heap = BinaryHeap::with_capacity(runs.len());
    for (number, run) in runs.iter_mut().enumerate() {
        heap.extend(run.next()?.map(|record| Reverse((record, number))));
    }
    while let Some(mut least) = heap.peek_mut() {
        let Reverse((record, number)) = *least;
        output.push(record)?;
        match runs[number].next()? {
            Some(next) => *least = Reverse((next, number)),
            None => drop(std::collections::binary_heap::PeekMut::pop(least)),
        }
    }
    Ok(())
}

/// Two checksums over records, which do not depend on the order of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums(u64, u64);

impl Sums {
    fn add(&mut self, record: u64) {
        self.0 = self.0.wrapping_add(record);
        self.1 = self.1.wrapping_add((record ^ (record >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
    }
}

fn fill(region: &Region, pages: u64) -> Outcome<Sums> {
    let (mut sums, mut chance) = (Sums::default(), 0x5eed_u64);
    for number in 0..pages {
        let mut page = region.page_mut(number)?;
        for at in 0..RECORDS {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            set_record(&mut page, at, chance);
            sums.add(chance);
        }
    }
    Ok(sums)
}

fn compare(region: &Region, pages: u64, expected: Sums) -> Outcome {
    let (mut sums, mut last) = (Sums::default(), 0);
    for number in 0..pages {
        let page = region.page(number)?;
        for at in 0..RECORDS {
            let record = record(&page, at);
            if record < last {
                return Err(format!("record {at} of page {number} is less than the one before").into());
            }
            sums.add(record);
            last = record;
        }
    }
    if sums == expected { Ok(()) } else { Err("other records came out than went in".into()) }
}

/// Sorts u64 records in anonymous memory larger than memory.
#[derive(Parser, Clone, Debug)]
struct Options {
    /// Memory, MiB.
    #[arg(long, default_value_t = 8)]
    memory: u64,
    /// Size of the records, MiB. The sort needs the same amount of memory again.
    #[arg(long, default_value_t = 32)]
    records: u64,
    /// Folder of the swap file, which is removed at the end.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
}

/// Runs `work` and prints how long it took and how much it moved to and from swap.
fn phase<R>(what: &str, memory: &Memory, work: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
    let before = memory.vmstat();
    let began = Instant::now();
    let result = work()?;
    let seconds = began.elapsed().as_secs_f64();
    let after = memory.vmstat();
    let mib = |name| (after.get(name) - before.get(name)) / (MIB / PAGE);
    println!("{what:<10}{seconds:>8.2} s{:>9} MiB to swap{:>9} MiB back", mib("pswpout"), mib("pswpin"));
    Ok(result)
}

fn run(options: &Options) -> Outcome {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let pages = (options.records * MIB / PAGE).max(1);
    // Swap has room for both halves of the region, because a page that was read back into memory may keep its slot.
    let swap = 2 * pages * PAGE + MIB;
    let memory = Memory::builder().size(options.memory * MIB).swap(swap).swap_folder(folder.path()).start()?;
    let region = memory.anonymous(2 * pages * PAGE)?;
    memory.notices().iter().for_each(|notice| println!("notice: {notice}"));
    println!("{} records in {} MiB, {} MiB of memory", pages * RECORDS as u64, options.records, options.memory);

    let sums = phase("fill", &memory, || fill(&region, pages))?;
    phase("sort", &memory, || Sorter { region: &region, pages }.sort(0..pages, false))?;
    phase("compare", &memory, || compare(&region, pages, sums))?;
    drop(region);
    memory.shutdown()?;
    println!("sorted, and the same records as before");
    Ok(())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn more_than_memory_is_sorted() {
    run(&Options::parse_from(["sort", "--memory", "4", "--records", "9"])).unwrap();
}

#[test]
fn a_wrong_order_and_a_wrong_record_are_seen() {
    let memory = Memory::builder().size(4 << 20).start().unwrap();
    let region = memory.anonymous(4 * PAGE).unwrap();
    let sums = fill(&region, 2).unwrap();
    assert!(compare(&region, 2, sums).unwrap_err().to_string().contains("is less than the one before"));
    Sorter { region: &region, pages: 2 }.sort(0..2, false).unwrap();
    compare(&region, 2, sums).unwrap();
    set_record(&mut region.page_mut(1).unwrap(), RECORDS - 1, u64::MAX);
    assert!(compare(&region, 2, sums).unwrap_err().to_string().contains("other records"));
}
