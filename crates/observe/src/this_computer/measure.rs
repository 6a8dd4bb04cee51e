//! Measures the cost of steps and the speed of the disk, which `/proc` does not show. This takes some seconds.
//!
//! Each cost is the smallest of seven batches, since other load only adds to it. Times of the disk are medians. No
//! program can run a step of reclaim alone, so steps of reclaim are not measured one by one. `highwater calibrate`
//! instead runs an experiment for each group of such steps on the kernel and on the simulator, and scales the steps of
//! a group by one factor.

use computer::sys;
use computer::sys::Mapping;
use kit::contents::{Kept, Pattern};
use machine::PAGE_BYTES;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

/// Number of batches in a measurement, of which the fastest one counts.
const BATCHES: usize = 7;

/// Number of pages that a batch touches: 64 MiB, more than the caches of a CPU hold.
const PAGES: u32 = 16_384;

/// Size in pages of the file with which the disk is measured: 128 MiB.
const FILE_PAGES: u64 = 32_768;

/// Number of concurrent requests with which the disk's parallelism is measured.
const DEPTH: usize = 32;

/// The measured cost of a step, such as a fault, in the form that machine files have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Name of the step in `[cost]` of machine files.
    pub step: &'static str,
    /// CPU time that one step costs, ns.
    pub ns: u64,
    /// The way in which the cost of the step was measured, in words.
    pub source: &'static str,
}

/// Speed of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Time of a single read of 4 KiB, ns.
    pub read_ns: u64,
    /// Time of a single write of 4 KiB, ns.
    pub write_ns: u64,
    /// Number of reads that the disk serves in parallel, at least 1.
    pub channels: u64,
    /// Sequential read bandwidth with requests of 1 MiB, bytes per second.
    pub read_bytes_per_s: u64,
    /// Sequential write bandwidth with requests of 1 MiB, bytes per second.
    pub write_bytes_per_s: u64,
}

/// Measures batches of `n` operations. Returns the time of one operation in the fastest batch, ns.
fn each_ns(n: u64, mut batch: impl FnMut()) -> u64 {
    let one = |_| {
        let begun = Instant::now();
        batch();
        begun.elapsed().as_nanos() as u64 / n.max(1)
    };
    (0..BATCHES).map(one).min().unwrap_or_default()
}

/// Returns the median of the times, of which there must be at least one.
fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the numbers of [`PAGES`] pages in an order that no prefetcher guesses. The stride has no common divisor with
/// [`PAGES`], so each page comes once.
fn scattered() -> impl Iterator<Item = u32> {
    (0..PAGES).map(|n| n.wrapping_mul(7919) % PAGES)
}

/// Measures how long this computer takes for the steps of the kernel that a program can time, such as a system call or
/// a page fault. During the measurement, there is a file of 64 MiB in `folder`.
///
/// # Errors
/// When the system refuses memory, threads or the file.
pub fn costs(folder: &Path) -> io::Result<Vec<Cost>> {
    const CALLS: u64 = 100_000;
    let syscall = each_ns(CALLS, || (0..CALLS).for_each(|_| sys::enter()));
    let mut mapping = Mapping::new(PAGES)?;
    let fault = {
        let mut least = u64::MAX;
        for _ in 0..BATCHES {
            mapping = Mapping::new(PAGES)?;
            let begun = Instant::now();
            scattered().for_each(|page| mapping.touch(page as usize * PAGE_BYTES, true));
            least = least.min(begun.elapsed().as_nanos() as u64 / u64::from(PAGES));
        }
        least
    };
    let zeroes = [0; PAGE_BYTES];
    let zero =
        each_ns(PAGES.into(), || scattered().for_each(|page| mapping.store(page as usize * PAGE_BYTES, &zeroes)));
    let mut bytes = vec![0; PAGE_BYTES];
    let copy =
        each_ns(PAGES.into(), || scattered().for_each(|page| mapping.load(page as usize * PAGE_BYTES, &mut bytes)));
    let hit = cached_read(folder, &mut bytes)?;
    let switch = switch()?.saturating_sub(syscall).max(1);
    let cost = |step, ns: u64, source| Cost { step, ns: ns.max(1), source };
    Ok(vec![
        cost("syscall_entry", syscall, "a system call that does nothing"),
        cost(
            "fault_entry",
            fault.saturating_sub(zero),
            "first touch of an anonymous page, less the time to fill one with zeroes",
        ),
        cost("zero_page", zero, "4 KiB of zeroes into memory that is not in the cache"),
        cost("copy_page", copy, "4 KiB from memory that is not in the cache"),
        cost(
            "index_lookup",
            hit.saturating_sub(copy + syscall),
            "pread of a cached page, less the system call and the copy",
        ),
        cost("context_switch", switch * 3 / 4, "three quarters of a turn of a byte between two threads on one CPU"),
        cost("wake", switch / 4, "a quarter of a turn of a byte between two threads on one CPU"),
    ])
}

/// Returns the time that a `pread` of 4 KiB from the page cache takes, ns.
fn cached_read(folder: &Path, bytes: &mut [u8]) -> io::Result<u64> {
    let file = tempfile(folder)?;
    for page in 0..PAGES {
        file.write_at(bytes, u64::from(page) * PAGE_BYTES as u64)?;
    }
    let mut failed = None;
    let time = each_ns(PAGES.into(), || {
        for page in scattered() {
            if let Err(error) = file.read_exact_at(bytes, u64::from(page) * PAGE_BYTES as u64) {
                failed = Some(error);
            }
        }
    });
    failed.map_or(Ok(time), Err)
}

/// Sends a byte through two pipes to another thread on the same CPU and back. Returns half of the time of the round
/// trip, ns.
fn switch() -> io::Result<u64> {
    const TURNS: u64 = 5000;
    let (mut ask_out, mut ask_in) = io::pipe()?;
    let (mut answer_out, mut answer_in) = io::pipe()?;
    let answering = std::thread::spawn(move || {
        sys::stay_on_first_cpu();
        let mut byte = [0];
        while ask_out.read_exact(&mut byte).is_ok() && answer_in.write_all(&byte).is_ok() {}
    });
    let asking = std::thread::spawn(move || -> io::Result<u64> {
        sys::stay_on_first_cpu();
        let (mut byte, mut failed) = ([0], None);
        let time = each_ns(2 * TURNS, || {
            for _ in 0..TURNS {
                if let Err(error) = ask_in.write_all(&byte).and_then(|()| answer_out.read_exact(&mut byte)) {
                    failed = Some(error);
                }
            }
        });
        failed.map_or(Ok(time), Err)
    });
    let time = asking.join().map_err(|_| io::Error::other("a thread ended early"))?;
    answering.join().map_err(|_| io::Error::other("a thread ended early"))?;
    time
}

/// Creates a file without a name in a folder.
fn tempfile(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder)
}

/// A buffer at an address that direct I/O accepts.
struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + PAGE_BYTES];
        let from = bytes.as_ptr().align_offset(PAGE_BYTES);
        Self { bytes, from, len }
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

/// Measures the disk that holds `folder`, with a file of 128 MiB and without the page cache.
///
/// # Errors
/// When the file cannot be created, or the file system has no direct I/O.
pub fn disk(folder: &Path) -> io::Result<DiskSpeed> {
    const CHUNK: usize = 1 << 20;
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE | libc::O_DIRECT).open(folder)?;
    let bytes_in_all = FILE_PAGES * PAGE_BYTES as u64;
    let mut chunk = Aligned::new(CHUNK);
    let per_s = |begun: Instant| (bytes_in_all as f64 / begun.elapsed().as_secs_f64()) as u64;
    let mut write_bytes_per_s = 0;
    // The file is written twice, since the first pass also allocates its blocks. The second pass counts.
    for turn in 0..2 {
        let begun = Instant::now();
        for at in (0..bytes_in_all).step_by(CHUNK) {
            for (n, page) in chunk.get().chunks_mut(PAGE_BYTES).enumerate() {
                // The contents compress as well as those that a run writes.
                Pattern::new("calibrate", turn + 1).fill(Kept::Bytes, at + (n * PAGE_BYTES) as u64, page);
            }
            file.write_all_at(chunk.get(), at)?;
        }
        file.sync_data()?;
        write_bytes_per_s = per_s(begun);
    }
    let begun = Instant::now();
    for at in (0..bytes_in_all).step_by(CHUNK) {
        file.read_exact_at(chunk.get(), at)?;
    }
    let read_bytes_per_s = per_s(begun);
    let page_at = |n: u64| n.wrapping_mul(7919) % FILE_PAGES * PAGE_BYTES as u64;
    let mut page = Aligned::new(PAGE_BYTES);
    let read_ns = median_ns(2000, |n| file.read_exact_at(page.get(), page_at(n)))?;
    Pattern::new("calibrate", 3).fill(Kept::Bytes, 0, page.get());
    let write_ns = median_ns(1000, |n| file.write_all_at(page.get(), page_at(n)))?;
    let at_once_ns = reads_at_once(&file)?;
    let channels = (read_ns as f64 / at_once_ns.max(1) as f64).round().max(1.0) as u64;
    Ok(DiskSpeed { read_ns, write_ns, channels, read_bytes_per_s, write_bytes_per_s })
}

fn median_ns(n: u64, mut act: impl FnMut(u64) -> io::Result<()>) -> io::Result<u64> {
    let mut times = Vec::with_capacity(n as usize);
    for turn in 0..n {
        let begun = Instant::now();
        act(turn)?;
        times.push(begun.elapsed().as_nanos() as u64);
    }
    Ok(median(times))
}

/// Reads a file with [`DEPTH`] threads at once. Returns the total time divided by the number of reads, ns.
fn reads_at_once(file: &File) -> io::Result<u64> {
    const READS: u64 = 500;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..DEPTH as u64)
            .map(|reader| {
                scope.spawn(move || -> io::Result<()> {
                    let mut page = Aligned::new(PAGE_BYTES);
                    (0..READS).try_for_each(|n| {
                        let at = (reader * READS + n).wrapping_mul(7919) % FILE_PAGES;
                        file.read_exact_at(page.get(), at * PAGE_BYTES as u64)
                    })
                })
            })
            .collect();
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().map_err(|_| io::Error::other("a thread ended early"))?)
    })?;
    Ok(begun.elapsed().as_nanos() as u64 / (DEPTH as u64 * READS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures the costs of steps and the speed of the disk on this computer. All values must be found and plausible;
    /// the bounds are so wide that a slow computer passes as well.
    #[test]
    fn costs_and_the_disk_are_measured() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let found = match costs(folder.path()) {
            Ok(found) => found,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        assert_eq!(found.len(), 7);
        assert!(found.iter().all(|cost| cost.ns < 100_000_000), "{found:?}");
        match disk(folder.path()) {
            Ok(speed) => assert!(speed.read_ns > 0 && speed.write_ns > 0 && speed.read_bytes_per_s > 0, "{speed:?}"),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }

    #[test]
    fn every_page_is_gone_through_once() {
        let mut pages: Vec<u32> = scattered().collect();
        pages.sort_unstable();
        assert!(pages.into_iter().eq(0..PAGES));
    }
}
