//! Compares the library with the system on one file: hits, misses, and the cost of eviction.
//!
//! `cargo bench -p highwater --bench memory` runs at full size on a file in `HIGHWATER_BENCH_DIR`, or in the target
//! folder; an argument selects the lines whose names contain it. `cargo test` runs the bench at a small size, silently.
//!
//! Each line of the output compares two sides, which run in turns, `HIGHWATER_BENCH_ROUNDS` times (default 15). The
//! figure of a line is the median of the rounds' ratios, with the lowest and the highest ratio. The line also has the
//! ratios of the CPU time of an operation, in the same form, and the rates of the last round. All memory is touched
//! before the first round. Both sides read the same pages, as a hash of the contents proves.

#![allow(missing_docs)]

use hdrhistogram::Histogram;
use highwater::machine::{Arena, Backing};
use highwater::{Advice, File, Memory, OpenOptions, Region};
use io_uring::{IoUring, opcode, types::Fd};
use machine::FrameNumber;
use std::cell::Cell;
use std::fs::File as StdFile;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

const PAGE: u64 = 4096;

/// Number of random seeds that each round sets aside, one for each of its threads. So this is the largest number of
/// threads in a round.
const SEEDS: u64 = 2048;

/// The sizes of a run: one set for the bench, a smaller one for tests.
struct Sizes {
    /// Number of pages of the file that fits into memory.
    hot_pages: u64,
    /// Number of pages of the file that does not fit into a memory of `memory_pages` pages.
    cold_pages: u64,
    memory_pages: u64,
    hits: u64,
    misses: u64,
    /// Number of reads by all threads together, in the measurements with many threads ([`CROWDS`]).
    crowded_reads: u64,
    rounds: usize,
}

const FULL: Sizes = Sizes {
    hot_pages: 1 << 17,
    cold_pages: 1 << 18,
    memory_pages: 1 << 16,
    hits: 2_000_000,
    misses: 40_000,
    crowded_reads: 300_000,
    rounds: 15,
};
const SMALL: Sizes = Sizes {
    hot_pages: 256,
    cold_pages: 4096,
    memory_pages: 1024,
    hits: 500,
    misses: 200,
    crowded_reads: 2000,
    rounds: 2,
};

#[derive(Clone, Copy)]
struct Chance(u64);

impl Chance {
    #[inline]
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Multiplies instead of taking a remainder, because a division costs as much as a hit.
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

/// A file of random words: its path, and two open files of the operating system, one for access through the page cache
/// and one with O_DIRECT.
struct Data {
    path: PathBuf,
    buffered: StdFile,
    direct: StdFile,
}

impl Data {
    fn new(name: &str, pages: u64) -> Self {
        let path = folder().join(format!("highwater-bench-{name}-{}", std::process::id()));
        let file = StdFile::options().read(true).write(true).create(true).truncate(true).open(&path);
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
        let direct = StdFile::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let direct = direct.unwrap_or_else(|_| StdFile::open(&path).expect("it is there"));
        Self { path, buffered: file, direct }
    }

    fn open(&self, memory_pages: u64) -> (Memory, File) {
        self.open_under("highwater", memory_pages)
    }

    fn open_under(&self, kernel: &str, memory_pages: u64) -> (Memory, File) {
        let memory = Memory::builder().kernel(kernel).size(memory_pages * PAGE).start().expect("memory is there");
        let file = memory.open(&self.path).expect("it is there");
        file.advise(0..0, Advice::Random);
        (memory, file)
    }
}

fn folder() -> PathBuf {
    std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into()).into()
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads `n` random pages in place, each through a page guard ([`File::page`]). Returns the XOR of one word of each
/// page.
fn guards(file: &File, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    (0..n).fold(0, |hash, _| hash ^ word(&file.page(chance.below(pages)).expect("the disk works")))
}

/// Reads `n` random pages by copying each into a buffer. Returns the XOR of one word of each page.
fn copies(file: &File, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut buffer = vec![0; PAGE as usize];
    (0..n).fold(0, |hash, _| {
        file.read_exact_at(&mut buffer, chance.below(pages) * PAGE).expect("the disk works");
        hash ^ word(&buffer)
    })
}

/// Copies 64 bytes out of or into a random page, `n` times: `percent` % of the copies are writes, the others are reads.
/// Returns the XOR of the pages' offsets.
fn mixed(file: &File, pages: u64, percent: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut buffer = [0; 64];
    (0..n).fold(0, |hash, _| {
        let (page, is_write) = (chance.below(pages) * PAGE, chance.below(100) < percent);
        if is_write {
            file.write_all_at(&chance.0.to_le_bytes().repeat(8), page).expect("there is room");
        } else {
            file.read_exact_at(&mut buffer, page).expect("the disk works");
        }
        hash ^ page
    })
}

/// Draws `n` random page numbers without reading the pages, to measure the cost of drawing alone. Returns a hash of the
/// numbers.
fn draws(pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    (0..n).fold(0, |hash, _| hash ^ chance.below(pages))
}

/// A buffer with the alignment that O_DIRECT needs.
#[repr(align(4096))]
struct Aligned([u8; PAGE as usize]);

/// Reads `n` random pages by `pread`. Returns the hash of their contents.
fn preads(file: &StdFile, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut buffer = Box::new(Aligned([0; PAGE as usize]));
    (0..n).fold(0, |hash, _| {
        file.read_exact_at(&mut buffer.0, chance.below(pages) * PAGE).expect("the disk works");
        hash ^ word(&buffer.0)
    })
}

/// Reads `n` random pages into buffers, [`BATCH`] pages in each call. Returns the hash of their contents.
fn batches(file: &File, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut buffers = vec![0; BATCH * PAGE as usize];
    (0..n / BATCH as u64).fold(0, |hash, _| {
        let slices = buffers.chunks_mut(PAGE as usize);
        let mut reads: Vec<(&mut [u8], u64)> = slices.map(|slice| (slice, chance.below(pages) * PAGE)).collect();
        file.read_many_at(&mut reads).expect("the disk works");
        reads.iter().fold(hash, |hash, (slice, _)| hash ^ word(slice))
    })
}

/// Reads `n` random pages through io_uring, [`BATCH`] at once. Returns the hash of their contents.
fn rings(file: &StdFile, pages: u64, seed: u64, n: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut ring = IoUring::new(BATCH as u32).expect("io_uring is permitted");
    let mut buffers: Vec<Aligned> = (0..BATCH).map(|_| Aligned([0; PAGE as usize])).collect();
    (0..n / BATCH as u64).fold(0, |hash, _| {
        for buffer in &mut buffers {
            let read = opcode::Read::new(Fd(file.as_raw_fd()), buffer.0.as_mut_ptr(), PAGE as u32);
            // SAFETY: the buffers outlive the requests, all of which are waited for below.
            unsafe { ring.submission().push(&read.offset(chance.below(pages) * PAGE).build()) }.expect("there is room");
        }
        ring.submit_and_wait(BATCH).expect("the ring works");
        for entry in ring.completion() {
            assert_eq!(entry.result(), PAGE as i32, "the disk works");
        }
        buffers.iter().fold(hash, |hash, buffer| hash ^ word(&buffer.0))
    })
}

/// A file mapped for reading.
struct Map {
    bytes: *const u8,
    len: usize,
}

// SAFETY: threads only read the mapping, which does not move.
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
        // SAFETY: the address lies within the mapping, by the line above, and is aligned.
        unsafe { self.bytes.add((page * PAGE) as usize).cast::<u64>().read_volatile() }
    }

    fn loads(&self, pages: u64, seed: u64, n: u64) -> u64 {
        let mut chance = Chance(seed);
        (0..n).fold(0, |hash, _| hash ^ self.word(chance.below(pages)))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and nothing uses it any more.
        unsafe { libc::munmap(self.bytes.cast_mut().cast(), self.len) };
    }
}

/// An arena of frames without the engine above it. Copying from it costs the least that any cache can cost.
struct Bare(Arena);

impl Bare {
    fn new(pages: u64) -> Self {
        let pages = pages as u32;
        // SAFETY: there are no references to the bytes of frames. If two reads meet in one frame, a mixture of their
        // bytes does no harm.
        let arena = unsafe { Arena::new(pages, pages, Backing { is_locked: false, huge_pages: true }) }
            .expect("memory is there");
        (0..pages).for_each(|page| arena.write(FrameNumber(page), 0, &[1; PAGE as usize]));
        Self(arena)
    }

    fn any(&self, chance: &mut Chance) -> FrameNumber {
        FrameNumber(chance.below(self.0.frames().into()) as u32)
    }

    /// Copies `n` random frames into a buffer. Returns a hash of the contents of the frames.
    fn copies(&self, seed: u64, n: u64) -> u64 {
        let mut chance = Chance(seed);
        let mut buffer = vec![0; PAGE as usize];
        (0..n).fold(0, |hash, _| {
            self.0.read(self.any(&mut chance), 0, &mut buffer);
            hash ^ word(&buffer)
        })
    }

    /// Performs `n` operations, each with a random frame. One in `hit_every` operations is like a hit in a cache: it
    /// copies the frame out. Each other operation is like a miss: it reads a random page of a file into the frame, and then
    /// copies the frame out. Returns the hash of the copied contents.
    fn reads(&self, hit_every: u64, file: &StdFile, pages: u64, seed: u64, n: u64) -> u64 {
        let mut chance = Chance(seed);
        let mut buffer = vec![0; PAGE as usize];
        (0..n).fold(0, |hash, n| {
            let frame = self.any(&mut chance);
            if n % hit_every > 0 {
                let (offset, bytes) = (chance.below(pages) * PAGE, self.0.pointer(frame).cast());
                // SAFETY: the frame exists. If two threads read into the same frame, it gets bytes of either.
                let n = unsafe { libc::pread(file.as_raw_fd(), bytes, PAGE as usize, offset as libc::off_t) };
                assert_eq!(n, PAGE as isize, "the disk works");
            }
            self.0.read(frame, 0, &mut buffer);
            hash ^ word(&buffer)
        })
    }
}

/// A histogram of the durations of the operations of all threads, ns.
struct Times(Mutex<Histogram<u64>>);

impl Times {
    fn new() -> Self {
        Self(Mutex::new(Histogram::new(3).expect("three digits can be had")))
    }

    /// Runs `n` operations on one thread and records the duration of each. Returns the hash of their results.
    fn each(&self, n: u64, mut operation: impl FnMut() -> u64) -> u64 {
        let mut times = Histogram::<u64>::new(3).expect("three digits can be had");
        let hash = (0..n).fold(0, |hash, _| {
            let started = Instant::now();
            let found = operation();
            times.record(started.elapsed().as_nanos() as u64).expect("it grows");
            hash ^ found
        });
        self.0.lock().expect("no thread failed").add(times).expect("both grow");
        hash
    }

    /// Returns the 99th percentile of the durations, ns, and removes all durations.
    fn take_p99(&self) -> f64 {
        let mut times = self.0.lock().expect("no thread failed");
        let p99 = times.value_at_quantile(0.99) as f64;
        times.reset();
        p99
    }
}

/// Returns the CPU time of all threads of this process so far, in user mode and in the kernel, s.
fn cpu_time() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: there is room for what the system writes.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0, "always permitted");
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The results of one round, for one of the two variants that a line of the benchmark compares.
struct Measured {
    /// Operations a second.
    rate: f64,
    /// CPU time of the whole process, including kswapd, for each operation, s.
    cpu: f64,
    /// Hash of the contents of all pages that were read.
    hash: u64,
}

fn measure(threads: u64, n: u64, seed: u64, run: &(dyn Fn(u64, u64) -> u64 + Sync)) -> Measured {
    let (cpu_before, started) = (cpu_time(), Instant::now());
    let hash = thread::scope(|scope| {
        // If there is only one thread, it is the calling thread, which stays on one CPU. CPUs differ in speed, because
        // the hardware under them also does other work.
        if threads == 1 {
            return run(seed * SEEDS + 1, n);
        }
        let threads: Vec<_> = (0..threads).map(|t| scope.spawn(move || run(seed * SEEDS + t + 1, n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread failed")).fold(0, |a, b| a ^ b)
    });
    let operations = (threads * n) as f64;
    Measured { rate: operations / started.elapsed().as_secs_f64(), cpu: (cpu_time() - cpu_before) / operations, hash }
}

/// Binds the calling thread to a CPU chosen by `seed`, the seed that [`measure`] gave to the thread. If there are
/// enough CPUs, each thread of the measurement gets a CPU of its own. Has no effect if the system does not permit the
/// binding.
fn keep_to_a_cpu(seed: u64) {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: a set of CPUs is plain numbers, and the system reads only the bytes of the set.
    unsafe {
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(((seed - 1) % SEEDS) as usize % cpus, &mut only);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
    }
}

/// Returns the median, the lowest and the highest value.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

const HITS: [&str; 9] = [
    "hit by guard / pread of cached pages",
    "hit by guard / load through mmap",
    "hit by copy / pread of cached pages",
    "hit by copy, read in no order / pread of cached pages",
    "hit by guard, 2 threads / 1 thread",
    "hit by copy, 2 threads / 1 thread",
    "bare memory: copy / pread of cached pages",
    "bare memory: load through mmap, 2 threads / 1 thread",
    "bare CPU: arithmetic, 2 threads / 1 thread",
];

/// Number of reads that are submitted together in the lines of the bench with `32 at once`.
const BATCH: usize = 32;

const MISSES: [&str; 12] = [
    "just after memory is full / just before",
    "miss, memory empty / O_DIRECT pread",
    "memory full, 1 thread / O_DIRECT pread",
    "memory full, 2 threads / O_DIRECT pread, 2 threads",
    "memory full, 16 threads / O_DIRECT, 16 threads",
    "the same, 1 / p99 of a read",
    "memory full, by guard, 1 thread / O_DIRECT pread",
    "memory full, by guard, 2 threads / O_DIRECT pread, 2 threads",
    "memory full, 32 at once / io_uring, 32 at once",
    "bare memory: read all and copy out / O_DIRECT pread",
    "bare memory: read and copy out / O_DIRECT pread",
    "bare memory: the same, 2 threads / 2 threads",
];

/// Lines for reads and writes of a hot set: the name, the percentage of writes, and the number of threads.
const MIXED: [(&str, u64, u64); 6] = [
    ("1 % writes, 1 thread / without hazard pointers", 1, 1),
    ("1 % writes, 2 threads / without hazard pointers", 1, 2),
    ("5 % writes, 1 thread / without hazard pointers", 5, 1),
    ("5 % writes, 2 threads / without hazard pointers", 5, 2),
    ("20 % writes, 1 thread / without hazard pointers", 20, 1),
    ("20 % writes, 2 threads / without hazard pointers", 20, 2),
];

/// Comparisons of many threads with 16 threads, on a memory so small that it has fewer free pages than there are
/// threads. Each has the name of its line in the output, the percentage of writes, and the number of threads.
const CROWDS: [(&str, u64, u64); 3] = [
    ("16 MiB: 500 threads / 16 threads", 0, 500),
    ("16 MiB, 20 % writes: 500 threads / 16 threads", 20, 500),
    ("16 MiB, 20 % writes: 1500 threads / 16 threads", 20, 1500),
];

/// Lines of the output that compare an encrypted swap file with an unencrypted one, with random accesses to a region of
/// one and a half times the memory. Each has the name of the line and the number of threads.
const SWAPS: [(&str, u64); 2] =
    [("swap, 1 thread: encrypted / as it is", 1), ("swap, 2 threads: encrypted / as it is", 2)];

/// Names of the report's lines that compare huge pages with small ones. The first two lines are about reads of cached
/// file pages, in a memory that the system backs with huge pages, and in one that it does not. The last two are about
/// accesses to a region of a sixteenth of the memory, made of huge pages or of single pages.
const HUGE: [&str; 4] = [
    "system's huge pages: hit by guard / without",
    "system's huge pages: hit by copy / without",
    "region in huge pages: hit by guard / without",
    "region in huge pages: hit of 8 bytes / without",
];

/// Lines of the report that compare the cache with the kernel `7.2-mglru` (multi-generational LRU) to the cache with
/// the kernel `highwater`. Each element holds the name of the line, the number of reading threads, and the percentage
/// of reads that go to a hot set of half the memory. The other reads go to the whole file.
const GENERATIONS: [(&str, u64, u64); 5] = [
    ("7.2-mglru: hit by guard / highwater", 1, 100),
    ("7.2-mglru: memory full, 1 thread / highwater", 1, 0),
    ("7.2-mglru: memory full, 2 threads / highwater", 2, 0),
    ("7.2-mglru: hot set beside reads, 1 thread / highwater", 1, 80),
    ("7.2-mglru: hot set beside reads, 2 threads / highwater", 2, 80),
];

/// Lines of the report that compare a file in a control group without limits with a file of a memory that has no
/// groups. The aim for each is that the CPU time of an operation differs by at most 2 %.
const GROUPS: [&str; 4] = [
    "in a group: hit by guard / without groups",
    "in a group: hit by copy / without groups",
    "in a group: memory full, 1 thread / without groups",
    "in a group: memory full, 2 threads / without groups",
];

/// Size of the memory with which the comparisons of [`CROWDS`] run, pages.
const CROWDED_PAGES: u64 = 4096;

struct Bench {
    filter: Option<String>,
    is_test: bool,
    sizes: Sizes,
    /// Number of rounds measured so far. Each round takes its random seed from this number, so that rounds read
    /// different pages. Equal rounds would together be a loop over the same pages, and caches hit more often in loops
    /// than in random reads.
    measured: Cell<u64>,
}

type Run<'a> = &'a (dyn Fn(u64, u64) -> u64 + Sync);

impl Bench {
    /// Makes one line of the report, which compares the sides `ours` and `theirs`. Each side runs once in each round,
    /// and the sides take turns in running first. A side is given as the number of threads, the number of operations of
    /// each thread, and the operation.
    fn line(&self, name: &str, ours: (u64, u64, Run), theirs: (u64, u64, Run), is_same_work: bool) {
        self.pairs(name, is_same_work, |round| {
            let run = |(threads, n, run): (u64, u64, Run)| measure(threads, n, round, run);
            if round % 2 == 0 {
                let mine = run(ours);
                return (mine, run(theirs));
            }
            let other = run(theirs);
            (run(ours), other)
        });
    }

    /// Makes one line of the report, which compares two sides. In each round, calls `pair`, which measures both sides.
    /// The argument of `pair` is the number of the measurement.
    fn pairs(&self, name: &str, is_same_work: bool, pair: impl Fn(u64) -> (Measured, Measured)) {
        if !self.wants(name) {
            return;
        }
        let (mut rates, mut cpu_times) = (Vec::new(), Vec::new());
        let mut last = (0.0, 0.0);
        for _ in 0..self.sizes.rounds {
            let (mine, other) = pair(self.measured.replace(self.measured.get() + 1));
            assert!(!is_same_work || mine.hash == other.hash, "{name}: other pages were read");
            rates.push(mine.rate / other.rate);
            cpu_times.push(mine.cpu / other.cpu);
            last = (mine.rate, other.rate);
        }
        let (median, low, high) = spread(rates);
        let (cpu, cpu_low, cpu_high) = spread(cpu_times);
        if !self.is_test {
            let (mine, other) = last;
            println!(
                "{name:<52} {median:6.2} ({low:.2} to {high:.2})  CPU {cpu:6.3} ({cpu_low:.3} to {cpu_high:.3})  last \
                 {mine:.3e} / {other:.3e}"
            );
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }

    fn hits(&self) {
        let [guard_pread, guard_load, copy_pread, no_order, two_guards, two_copies, bare_copy, two_loads, two_draws] =
            HITS;
        let Sizes { hot_pages: pages, hits, .. } = self.sizes;
        let data = Data::new("hot", pages);
        // The memory is a quarter larger than the file, so nothing is evicted.
        let (memory, file) = data.open((pages + pages / 4).max(1024));
        // Each page is read four times, so that the engine marks it as used often.
        let warm = |order: fn(u64) -> u64| {
            (0..4 * pages).for_each(|page| drop(file.page(order(page) % pages).expect("the disk works")));
        };
        warm(|page| page);
        let mut buffer = vec![0; PAGE as usize];
        (0..pages).for_each(|page| data.buffered.read_exact_at(&mut buffer, page * PAGE).expect("the disk works"));
        let map = Map::new(&data.buffered, pages);
        let guard = |seed, n| guards(&file, pages, seed, n);
        let copy = |seed, n| copies(&file, pages, seed, n);
        let pread = |seed, n| preads(&data.buffered, pages, seed, n);
        let load = |seed, n| map.loads(pages, seed, n);
        self.line(guard_pread, (1, hits, &guard), (1, hits / 8, &pread), false);
        self.line(guard_load, (1, hits, &guard), (1, hits, &load), true);
        self.line(copy_pread, (1, hits / 8, &copy), (1, hits / 8, &pread), true);
        // Each thread is bound to a CPU of its own. Otherwise two threads might begin on the same CPU, and the round
        // might be over before the system moves one of them.
        let apart = |run: Run<'_>, seed, n| {
            keep_to_a_cpu(seed);
            run(seed, n)
        };
        self.line(two_guards, (2, hits, &|seed, n| apart(&guard, seed, n)), (1, hits, &guard), false);
        self.line(two_copies, (2, hits / 8, &|seed, n| apart(&copy, seed, n)), (1, hits / 8, &copy), false);
        self.line(two_loads, (2, hits, &|seed, n| apart(&load, seed, n)), (1, hits, &load), false);
        let draw = |seed, n| draws(pages, seed, n);
        self.line(two_draws, (2, 16 * hits, &|seed, n| apart(&draw, seed, n)), (1, 16 * hits, &draw), false);
        if self.wants(no_order) {
            memory.drop_caches();
            warm(|page| page * 0x9e37_79b1);
            self.line(no_order, (1, hits / 8, &copy), (1, hits / 8, &pread), true);
        }
        if self.wants(bare_copy) {
            let bare = Bare::new(pages);
            let copy = |seed, n| bare.copies(seed, n);
            self.line(bare_copy, (1, hits / 8, &copy), (1, hits / 8, &pread), false);
        }
    }

    /// Measures reads and writes of a hot set that fits into memory. More of its pages are changed than the dirty
    /// limits allow.
    fn mixed(&self) {
        let Sizes { hot_pages: pages, hits, .. } = self.sizes;
        let pages = pages / 8;
        let data = [Data::new("with", pages), Data::new("without", pages)];
        let start = |data: &Data, with_hazards| {
            let size = (pages * 2).max(1024) * PAGE;
            let memory = Memory::builder().size(size).hazard_pointers(with_hazards).start().expect("memory is there");
            let file = memory.open(&data.path).expect("it is there");
            file.advise(0..0, Advice::Random);
            (0..4 * pages).for_each(|page| drop(file.page(page % pages).expect("the disk works")));
            // Writes each page once. The first write of a page waits for its readers; later writes do not.
            (0..pages).for_each(|page| drop(file.page_mut(page).expect("there is room")));
            file
        };
        let (with, without) = (start(&data[0], true), start(&data[1], false));
        for (name, percent, threads) in MIXED {
            let n = hits / percent;
            self.line(
                name,
                (threads, n, &|seed, n| mixed(&with, pages, percent, seed, n)),
                (threads, n, &|seed, n| mixed(&without, pages, percent, seed, n)),
                true,
            );
        }
    }

    /// Measures random reads and writes of a file of 64 MiB in a memory of 16 MiB, by many threads. The library is not
    /// told that access is random.
    fn crowds(&self) {
        let pages = 4 * CROWDED_PAGES;
        let data = Data::new("crowd", pages);
        let (_memory, file) = data.open(CROWDED_PAGES);
        file.advise(0..0, Advice::Normal);
        let n = self.sizes.crowded_reads;
        for (name, percent, threads) in CROWDS {
            let threads = if self.is_test { 40 } else { threads };
            let run = |seed, n| match percent {
                0 => copies(&file, pages, seed, n),
                _ => mixed(&file, pages, percent, seed, n),
            };
            self.line(name, (threads, n / threads, &run), (16, n / 16, &run), false);
        }
    }

    /// Measures random accesses to a region that is partly in swap: one word of each chosen page is read and written.
    fn swaps(&self) {
        let Sizes { memory_pages, misses, .. } = self.sizes;
        let (memory_pages, pages) = (memory_pages.div_ceil(4).max(1024), (memory_pages * 3).div_ceil(8).max(1536));
        let start = |encrypts| {
            let builder = Memory::builder().size(memory_pages * PAGE).encrypt_swap(encrypts);
            let memory = builder.swap(2 * pages * PAGE).swap_folder(folder()).start().expect("memory is there");
            let region = memory.anonymous(pages * PAGE).expect("address space is there");
            let mut chance = Chance(7);
            for page in 0..pages {
                let bytes: Vec<u8> = (0..PAGE / 8)
                    .flat_map(|_| {
                        chance.below(1);
                        chance.0.to_le_bytes()
                    })
                    .collect();
                region.write_at(&bytes, page * PAGE).expect("swap has room");
            }
            (memory, region)
        };
        let (encrypted, plain) = (start(true), start(false));
        let touch = |region: &Region, seed, n| {
            let mut chance = Chance(seed);
            let mut bytes = [0; 8];
            (0..n).fold(0, |hash, _| {
                let at = chance.below(pages) * PAGE;
                region.read_at(&mut bytes, at).expect("swap can be read");
                let found = word(&bytes);
                region.write_at(&found.wrapping_add(1).to_le_bytes(), at).expect("memory is there");
                hash ^ found
            })
        };
        for (name, threads) in SWAPS {
            self.line(
                name,
                (threads, misses, &|seed, n| touch(&encrypted.1, seed, n)),
                (threads, misses, &|seed, n| touch(&plain.1, seed, n)),
                threads == 1,
            );
        }
    }

    fn huge_pages(&self) {
        let Sizes { hot_pages: pages, hits, .. } = self.sizes;
        let [by_guard, by_copy, region_guard, region_word] = HUGE;
        let size = (pages + pages / 4).max(4096);
        if [by_guard, by_copy].iter().any(|name| self.wants(name)) {
            let data = [Data::new("huge", pages), Data::new("none", pages)];
            let start = |data: &Data, huge_pages| {
                let memory =
                    Memory::builder().size(size * PAGE).huge_pages(huge_pages).start().expect("memory is there");
                let file = memory.open(&data.path).expect("it is there");
                // The pages are read in an order in which neighbours do not follow each other.
                let at = |page: u64| page * 0x9e37_79b1 % pages;
                (0..4 * pages).for_each(|page| drop(file.page(at(page)).expect("the disk works")));
                file
            };
            let (huge, small) = (start(&data[0], true), start(&data[1], false));
            let guards = |file: &File, seed, n| guards(file, pages, seed, n);
            let copies = |file: &File, seed, n| copies(file, pages, seed, n);
            self.line(by_guard, (1, hits, &|s, n| guards(&huge, s, n)), (1, hits, &|s, n| guards(&small, s, n)), true);
            let n = hits / 8;
            self.line(by_copy, (1, n, &|s, n| copies(&huge, s, n)), (1, n, &|s, n| copies(&small, s, n)), true);
        }
        if ![region_guard, region_word].iter().any(|name| self.wants(name)) {
            return;
        }
        // Pages of other regions are written in turns with those of `small`, so that its frames are not neighbours.
        let memory = Memory::builder().size(size * PAGE).start().expect("memory is there");
        let pages = size / 16;
        let [huge, small] = [memory.anonymous_huge(pages * PAGE), memory.anonymous(pages * PAGE)];
        let (huge, small) = (huge.expect("address space is there"), small.expect("address space is there"));
        let others = memory.anonymous(12 * pages * PAGE).expect("address space is there");
        let write = |region: &Region, page: u64| {
            region.write_at(&page.to_le_bytes(), page * PAGE).expect("memory is there");
        };
        (0..pages).for_each(|page| write(&huge, page));
        for n in 0..pages {
            write(&small, n * 0x9e37_79b1 % pages);
            (12 * n..12 * (n + 1)).for_each(|page| write(&others, page));
        }
        assert!(self.is_test || memory.vmstat().get("thp_fault_fallback") == 0, "{}", memory.vmstat());
        let guards = |region: &Region, seed, n| {
            let mut chance = Chance(seed);
            (0..n).fold(0, |hash, _| hash ^ word(&region.page(chance.below(pages)).expect("it is in memory")))
        };
        let words = |region: &Region, seed, n| {
            let (mut chance, mut bytes) = (Chance(seed), [0; 8]);
            (0..n).fold(0, |hash, _| {
                region.read_at(&mut bytes, chance.below(pages) * PAGE).expect("it is in memory");
                hash ^ word(&bytes)
            })
        };
        self.line(region_guard, (1, hits, &|s, n| guards(&huge, s, n)), (1, hits, &|s, n| guards(&small, s, n)), true);
        self.line(region_word, (1, hits, &|s, n| words(&huge, s, n)), (1, hits, &|s, n| words(&small, s, n)), true);
    }

    fn generations(&self) {
        let Sizes { cold_pages: pages, memory_pages, hits, misses, .. } = self.sizes;
        let data = [Data::new("mglru-cold", pages), Data::new("plain-cold", pages)];
        let [(_mglru, mglru), (_highwater, highwater)] =
            [data[0].open_under("7.2-mglru", memory_pages), data[1].open_under("highwater", memory_pages)];
        let reads = |file: &File, hot_percent, seed, n| {
            let mut chance = Chance(seed);
            (0..n).fold(0, |hash, _| {
                let end = if chance.below(100) < hot_percent { memory_pages / 2 } else { pages };
                hash ^ word(&file.page(chance.below(end)).expect("the disk works"))
            })
        };
        for (name, threads, hot_percent) in GENERATIONS {
            if !self.wants(name) {
                continue;
            }
            // Before the first round, enough reads are done that memory is full and each kernel has settled on the
            // pages that it keeps.
            for file in [&mglru, &highwater] {
                reads(file, hot_percent, 3, 4 * memory_pages);
            }
            let n = if hot_percent == 100 { hits } else { misses };
            self.line(
                name,
                (threads, n, &|seed, n| reads(&mglru, hot_percent, seed, n)),
                (threads, n, &|seed, n| reads(&highwater, hot_percent, seed, n)),
                true,
            );
        }
    }

    /// Measures hits and misses of a file in a group, beside those of a file in a memory without groups. The hits are
    /// those of pages that fill half of memory.
    fn groups(&self) {
        let [guard, copy, one, two] = GROUPS;
        let Sizes { cold_pages, memory_pages, hits, misses, .. } = self.sizes;
        let hot_pages = memory_pages / 2;
        // Names of equal length, so that the two files have the same contents.
        let data = [Data::new("in-group", cold_pages), Data::new("no-group", cold_pages)];
        let start = |in_group: bool| {
            let memory = Memory::builder().size(memory_pages * PAGE).groups(in_group.into()).start();
            let memory = memory.expect("memory is there");
            let options = match in_group {
                true => OpenOptions::new().group(&memory.group("cache").expect("there is room for one")),
                false => OpenOptions::new(),
            };
            let file = options.open(&memory, &data[usize::from(!in_group)].path).expect("it is there");
            file.advise(0..0, Advice::Random);
            (memory, file)
        };
        // Hits come first, while no page was evicted. Each page is read four times, so that it is marked as used often.
        let [(_grouped, grouped), (_alone, alone)] = [start(true), start(false)];
        for page in 0..4 * hot_pages {
            for file in [&grouped, &alone] {
                drop(file.page(page % hot_pages).expect("the disk works"));
            }
        }
        let by_guard = |file: &File, seed, n| guards(file, hot_pages, seed, n);
        let by_copy = |file: &File, seed, n| copies(file, hot_pages, seed, n);
        self.line(guard, (1, hits, &|s, n| by_guard(&grouped, s, n)), (1, hits, &|s, n| by_guard(&alone, s, n)), true);
        let n = hits / 8;
        self.line(copy, (1, n, &|s, n| by_copy(&grouped, s, n)), (1, n, &|s, n| by_copy(&alone, s, n)), true);
        if ![one, two].iter().any(|name| self.wants(name)) {
            return;
        }
        let any = |file: &File, seed, n| copies(file, cold_pages, seed, n);
        for file in [&grouped, &alone] {
            any(file, 3, 4 * memory_pages);
        }
        for (name, threads) in [(one, 1), (two, 2)] {
            self.line(
                name,
                (threads, misses, &|s, n| any(&grouped, s, n)),
                (threads, misses, &|s, n| any(&alone, s, n)),
                true,
            );
        }
    }

    fn misses(&self) {
        let [full, empty, one, two, sixteen, times, guard, two_guards, batch, bare_empty, bare_one, bare_two] = MISSES;
        let Sizes { cold_pages: pages, memory_pages, misses, .. } = self.sizes;
        let data = Data::new("cold", pages);
        let (memory, file) = data.open(memory_pages);
        let direct = |seed, n| preads(&data.direct, pages, seed, n);
        let copy = |seed, n| copies(&file, pages, seed, n);
        // While memory is full, three in four reads miss. After `drop_caches`, all reads miss.
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
        let guarded = |seed, n| guards(&file, pages, seed, n);
        let batches = |seed, n| batches(&file, pages, seed, n);
        let rings = |seed, n| rings(&data.direct, pages, seed, n);
        // Reads each page once, so that all reads miss: first until memory is nearly full, then as many again after it
        // is full.
        let order = |seed: u64| move |i: u64| (i * 0x9e37_79b1 + seed * 977) % pages;
        let (before, after) = (memory_pages / 4..memory_pages * 3 / 4, memory_pages * 5 / 4..memory_pages * 7 / 4);
        let each_once = |range: std::ops::Range<u64>, seed: u64| {
            let mut buffer = vec![0; PAGE as usize];
            range.map(order(seed)).fold(0, |hash, page| {
                file.read_exact_at(&mut buffer, page * PAGE).expect("the disk works");
                hash ^ word(&buffer)
            })
        };
        let reads = memory_pages / 2;
        self.pairs(full, false, |seed| {
            memory.drop_caches();
            each_once(0..before.start, seed);
            let other = measure(1, reads, seed, &|_, _| each_once(before.clone(), seed));
            each_once(before.end..after.start, seed);
            (measure(1, reads, seed, &|_, _| each_once(after.clone(), seed)), other)
        });
        let few = misses.min(memory_pages / 4);
        self.line(empty, (1, few, &emptied), (1, few, &direct), true);
        fill();
        self.line(one, (1, misses, &copy), (1, misses, &direct), true);
        self.line(two, (2, misses, &copy), (2, misses, &direct), true);
        self.line(guard, (1, misses, &guarded), (1, misses, &direct), true);
        self.line(two_guards, (2, misses, &guarded), (2, misses, &direct), true);
        if IoUring::new(1).is_ok() {
            self.line(batch, (1, misses, &batches), (1, misses, &rings), true);
        } else if !self.is_test {
            println!("{batch}: skipped: io_uring is not permitted");
        }
        if [bare_empty, bare_one, bare_two].iter().any(|name| self.wants(name)) {
            let bare = Bare::new(memory_pages);
            let least = |seed, n| bare.reads(4, &data.direct, pages, seed, n);
            let all_miss = |seed, n| bare.reads(u64::MAX, &data.direct, pages, seed, n);
            self.line(bare_empty, (1, few, &all_miss), (1, few, &direct), false);
            self.line(bare_one, (1, misses, &least), (1, misses, &direct), false);
            self.line(bare_two, (2, misses, &least), (2, misses, &direct), false);
        }
        self.line(sixteen, (16, misses / 8, &copy), (16, misses / 8, &direct), true);
        let (ours, theirs) = (Times::new(), Times::new());
        let timed_copy = |seed, n| {
            let (mut chance, mut buffer) = (Chance(seed), vec![0; PAGE as usize]);
            ours.each(n, || {
                file.read_exact_at(&mut buffer, chance.below(pages) * PAGE).expect("the disk works");
                word(&buffer)
            })
        };
        let timed_direct = |seed, n| {
            let (mut chance, mut buffer) = (Chance(seed), Box::new(Aligned([0; PAGE as usize])));
            theirs.each(n, || {
                data.direct.read_exact_at(&mut buffer.0, chance.below(pages) * PAGE).expect("the disk works");
                word(&buffer.0)
            })
        };
        self.pairs(times, true, |round| {
            let measured = |run, times: &Times| {
                let measured = measure(16, misses / 8, round, run);
                Measured { rate: 1e9 / times.take_p99(), ..measured }
            };
            (measured(&timed_copy, &ours), measured(&timed_direct, &theirs))
        });
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_test = !arguments.iter().any(|argument| argument == "--bench");
    let filter = arguments.into_iter().find(|argument| !argument.starts_with('-'));
    let mut bench = Bench { filter, is_test, sizes: if is_test { SMALL } else { FULL }, measured: Cell::new(0) };
    if let Ok(rounds) = std::env::var("HIGHWATER_BENCH_ROUNDS") {
        bench.sizes.rounds = rounds.parse().ok().filter(|rounds| *rounds > 0).expect("a number of rounds");
    }
    // The files for a group of lines are made only if one of these lines is wanted.
    if HITS.iter().any(|name| bench.wants(name)) {
        bench.hits();
    }
    if MIXED.iter().any(|(name, ..)| bench.wants(name)) {
        bench.mixed();
    }
    if CROWDS.iter().any(|(name, ..)| bench.wants(name)) {
        bench.crowds();
    }
    if SWAPS.iter().any(|(name, _)| bench.wants(name)) {
        bench.swaps();
    }
    if HUGE.iter().any(|name| bench.wants(name)) {
        bench.huge_pages();
    }
    if GENERATIONS.iter().any(|(name, ..)| bench.wants(name)) {
        bench.generations();
    }
    if GROUPS.iter().any(|name| bench.wants(name)) {
        bench.groups();
    }
    if MISSES.iter().any(|name| bench.wants(name)) {
        bench.misses();
    }
}
