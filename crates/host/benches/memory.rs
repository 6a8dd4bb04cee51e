//! The library beside the system's own ways, over one file: hits, misses, and what eviction costs.
//!
//! `cargo bench -p highwater --bench memory` runs at full size over a file in `HIGHWATER_BENCH_DIR`, or in the target
//! folder (an argument chooses the lines whose names contain it); `cargo test` at a small size, silently. The two sides of
//! a line run in turns, round by round, and its figure is the median of the rounds' ratios, with the lowest and the
//! highest. All memory was touched before. Both sides read the same pages, as the hash of what they found proves.

#![allow(missing_docs)]

use highwater::{Advice, File, Memory};
use std::fs::{File as StdFile, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

const PAGE: u64 = 4096;

/// Sizes at full length, and in tests.
struct Sizes {
    /// Of the file that fits memory.
    hot_pages: u64,
    /// Of the file that does not, and of the memory that it does not fit.
    cold_pages: u64,
    memory_pages: u64,
    hits: u64,
    misses: u64,
    rounds: usize,
}

const FULL: Sizes = Sizes {
    hot_pages: 1 << 17,
    cold_pages: 1 << 18,
    memory_pages: 1 << 16,
    hits: 2_000_000,
    misses: 40_000,
    rounds: 7,
};
const SMALL: Sizes = Sizes { hot_pages: 256, cold_pages: 4096, memory_pages: 1024, hits: 500, misses: 200, rounds: 2 };

#[derive(Clone, Copy)]
struct Chance(u64);

impl Chance {
    #[inline]
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Not a remainder: a division costs as much as a hit.
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

/// A file of random words, and three ways to it.
struct Data {
    path: PathBuf,
    buffered: StdFile,
    direct: StdFile,
}

impl Data {
    fn new(name: &str, pages: u64) -> Self {
        let folder = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
        let path = PathBuf::from(folder).join(format!("highwater-bench-{name}-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.expect("the folder can be written to");
        let mut chance = Chance(name.len() as u64 + 1);
        let mut block = vec![0; 1 << 20];
        for at in (0..pages * PAGE).step_by(block.len()) {
            block.chunks_exact_mut(8).for_each(|word| {
                chance.below(1);
                word.copy_from_slice(&chance.0.to_le_bytes());
            });
            file.write_all_at(&block, at).expect("there is room");
        }
        file.set_len(pages * PAGE).expect("it can be cut");
        file.sync_all().expect("the disk works");
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let direct = direct.unwrap_or_else(|_| StdFile::open(&path).expect("it is there"));
        Self { path, buffered: file, direct }
    }

    fn open(&self, memory_pages: u64) -> (Memory, File) {
        let memory = Memory::builder().size(memory_pages * PAGE).start().expect("memory is there");
        let file = memory.open(&self.path).expect("it is there");
        file.advise(0..0, Advice::Random);
        (memory, file)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Random pages by guard.
fn guards(file: &File, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    (0..n).fold(0, |hash, _| hash ^ word(&file.page(chance.below(pages)).expect("the disk works")))
}

/// Random pages by copy.
fn copies(file: &File, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut buffer = vec![0; PAGE as usize];
    (0..n).fold(0, |hash, _| {
        file.read_exact_at(&mut buffer, chance.below(pages) * PAGE).expect("the disk works");
        hash ^ word(&buffer)
    })
}

/// A buffer that O_DIRECT takes.
#[repr(align(4096))]
struct Aligned([u8; PAGE as usize]);

/// Random pages by `pread`.
fn preads(file: &StdFile, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut buffer = Box::new(Aligned([0; PAGE as usize]));
    (0..n).fold(0, |hash, _| {
        file.read_exact_at(&mut buffer.0, chance.below(pages) * PAGE).expect("the disk works");
        hash ^ word(&buffer.0)
    })
}

/// A file mapped for reading.
struct Map {
    bytes: *const u8,
    len: usize,
}

// SAFETY: mapped read-only.
unsafe impl Sync for Map {}

impl Map {
    fn new(file: &StdFile, pages: u64) -> Self {
        let len = (pages * PAGE) as usize;
        // SAFETY: a new mapping, at an address that the system chooses.
        let bytes =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(bytes, libc::MAP_FAILED, "address space is there");
        let map = Self { bytes: bytes.cast_const().cast(), len };
        (0..pages).for_each(|page| {
            std::hint::black_box(map.word(page));
        });
        map
    }

    #[inline]
    fn word(&self, page: u64) -> u64 {
        assert!(page * PAGE < self.len as u64);
        // SAFETY: inside the mapping, by the line above; aligned.
        unsafe { self.bytes.add((page * PAGE) as usize).cast::<u64>().read_volatile() }
    }

    fn loads(&self, pages: u64, seed: u64, n: u64) -> u64 {
        let mut chance = Chance(seed);
        (0..n).fold(0, |hash, _| hash ^ self.word(chance.below(pages)))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, used by nobody any more.
        unsafe { libc::munmap(self.bytes.cast_mut().cast(), self.len) };
    }
}

/// Operations a second of `threads` threads, each with a seed of its own, and what they found.
fn rate(threads: u64, n: u64, seed: u64, run: &(dyn Fn(u64, u64) -> u64 + Sync)) -> (f64, u64) {
    let started = Instant::now();
    let hash = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|t| scope.spawn(move || run(seed * 64 + t + 1, n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread failed")).fold(0, |a, b| a ^ b)
    });
    ((threads * n) as f64 / started.elapsed().as_secs_f64(), hash)
}

struct Bench {
    filter: Option<String>,
    is_test: bool,
    sizes: Sizes,
}

type Run<'a> = &'a (dyn Fn(u64, u64) -> u64 + Sync);

impl Bench {
    /// One line: ours beside theirs, in turns; both threads and operations as given.
    fn line(&self, name: &str, ours: (u64, u64, Run), theirs: (u64, u64, Run), is_same_work: bool) {
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return;
        }
        let mut ratios = Vec::new();
        let mut last = (0.0, 0.0);
        for round in 0..self.sizes.rounds as u64 {
            let (mine, found) = rate(ours.0, ours.1, round, ours.2);
            let (other, expected) = rate(theirs.0, theirs.1, round, theirs.2);
            assert!(!is_same_work || found == expected, "{name}: other pages were read");
            ratios.push(mine / other);
            last = (mine, other);
        }
        ratios.sort_by(f64::total_cmp);
        let (low, median, high) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
        if !self.is_test {
            let (mine, other) = last;
            println!("{name:<58} {median:6.2}  ({low:.2} to {high:.2})   last {mine:.3e} / {other:.3e} a second");
        }
    }

    fn hits(&self) {
        let Sizes { hot_pages: pages, hits, .. } = self.sizes;
        let data = Data::new("hot", pages);
        // A quarter more than the file: nothing is evicted.
        let (_memory, file) = data.open((pages + pages / 4).max(1024));
        (0..pages).for_each(|page| drop(file.page(page).expect("the disk works")));
        let mut buffer = vec![0; PAGE as usize];
        (0..pages).for_each(|page| data.buffered.read_exact_at(&mut buffer, page * PAGE).expect("the disk works"));
        let map = Map::new(&data.buffered, pages);
        let guard = |seed, n| guards(&file, pages, seed, n);
        let copy = |seed, n| copies(&file, pages, seed, n);
        let pread = |seed, n| preads(&data.buffered, pages, seed, n);
        let load = |seed, n| map.loads(pages, seed, n);
        self.line("hit by guard / pread of cached pages", (1, hits, &guard), (1, hits / 8, &pread), false);
        self.line("hit by guard / load through mmap", (1, hits, &guard), (1, hits, &load), true);
        self.line("hit by copy / pread of cached pages", (1, hits / 8, &copy), (1, hits / 8, &pread), true);
        self.line("hit by guard, 2 threads / 1 thread", (2, hits, &guard), (1, hits, &guard), false);
        self.line("hit by copy, 2 threads / 1 thread", (2, hits / 8, &copy), (1, hits / 8, &copy), false);
    }

    fn misses(&self) {
        let Sizes { cold_pages: pages, memory_pages, misses, .. } = self.sizes;
        let data = Data::new("cold", pages);
        let (memory, file) = data.open(memory_pages);
        let direct = |seed, n| preads(&data.direct, pages, seed, n);
        let copy = |seed, n| copies(&file, pages, seed, n);
        // Three in four miss while memory is full, all of them when the cache was dropped.
        let fill = || {
            let mut seed = 1000;
            while memory.vmstat().get("pgsteal_kswapd_normal") + memory.vmstat().get("pgsteal_direct_normal") == 0 {
                copies(&file, pages, seed, memory_pages / 4);
                seed += 1;
            }
        };
        let emptied = |seed, n| {
            let hash = copies(&file, pages, seed, n);
            memory.drop_caches();
            hash
        };
        let few = misses.min(memory_pages / 4);
        self.line("miss, memory empty / O_DIRECT pread", (1, few, &emptied), (1, few, &direct), true);
        fill();
        self.line("memory full, 1 thread / O_DIRECT pread", (1, misses, &copy), (1, misses, &direct), true);
        self.line("memory full, 2 threads / O_DIRECT pread, 2 threads", (2, misses, &copy), (2, misses, &direct), true);
        self.line(
            "memory full, 16 threads / O_DIRECT, 16 threads",
            (16, misses / 8, &copy),
            (16, misses / 8, &direct),
            true,
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_test = !arguments.iter().any(|argument| argument == "--bench");
    let filter = arguments.into_iter().find(|argument| !argument.starts_with('-'));
    let bench = Bench { filter, is_test, sizes: if is_test { SMALL } else { FULL } };
    bench.hits();
    bench.misses();
}
