//! Compares redb on the library with redb on its own file backend: the same database, the same limit of memory, in turns.
//!
//! `cargo bench -p highwater-redb` runs at full size in `HIGHWATER_BENCH_DIR`, or in the target folder; an argument
//! selects the lines whose names contain it. `cargo test` runs the bench at a small size, silently.
//!
//! Each side runs in a process of its own, in a memory control group with a limit (`memory.max`), which counts redb's
//! cache, the library's memory and the page cache of the system. Where the system permits no group, the bench says so,
//! and the page cache of the system is not limited. The file is dropped from the page cache of the system before each
//! run. The sides run in turns, `HIGHWATER_BENCH_ROUNDS` times (default 3). The figure of a line is the median of the
//! rounds' ratios (library / own backend), with the lowest and the highest.
//!
//! The loads: reads of random keys, uniformly or by Zipf's law; a mix of 90 % reads and 10 % inserts, with a durable
//! transaction for each 100 inserts; and durable transactions of one insert each. Every value that is read is verified.

#![allow(missing_docs, unsafe_code)]

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use highwater::Memory;
use highwater_redb::Backend;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("table");

/// Number of bytes of a value.
const VALUE: usize = 400;

/// The sizes of a run: one set for the bench, a smaller one for tests.
#[derive(Clone, Copy)]
struct Sizes {
    /// The limit of a side's control group, MiB.
    limit_mib: u64,
    records: u64,
    warm_up: Duration,
    time: Duration,
    rounds: usize,
}

const FULL: Sizes =
    Sizes { limit_mib: 96, records: 600_000, warm_up: Duration::from_secs(4), time: Duration::from_secs(4), rounds: 3 };
const SMALL: Sizes = Sizes {
    limit_mib: 64,
    records: 2000,
    warm_up: Duration::from_millis(20),
    time: Duration::from_millis(50),
    rounds: 1,
};

/// Memory of a side that is neither cache, MiB: the program, its threads, and redb's transactions.
const OVERHEAD_MIB: u64 = 24;

/// redb's cache on the library's side, MiB. The rest is the library's.
const SMALL_CACHE_MIB: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// redb on the library.
    Library,
    /// redb on its own file backend.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    Zipf,
    Uniform,
    Mix,
    Commits,
}

impl Load {
    const ALL: [(Self, u64); 5] =
        [(Self::Zipf, 1), (Self::Uniform, 1), (Self::Zipf, 4), (Self::Mix, 1), (Self::Commits, 1)];

    fn name(self, threads: u64) -> String {
        let load = match self {
            Self::Zipf => "reads by Zipf's law",
            Self::Uniform => "uniform reads",
            Self::Mix => "90 % reads, 10 % inserts",
            Self::Commits => "commits of one insert",
        };
        if threads == 1 { load.to_owned() } else { format!("{load}, {threads} threads") }
    }
}

#[derive(Debug, Parser)]
#[command(about = "Compares redb on the library with redb on its own backend.")]
struct Arguments {
    /// Only lines whose names contain this.
    filter: Option<String>,
    /// Given by `cargo bench`: runs at full size.
    #[arg(long)]
    bench: bool,
    /// Part of its memory, in percent, that redb's own cache has on its own backend; the rest is for the page cache.
    #[arg(long, default_value_t = 50)]
    own_cache: u64,
    /// Runs one side in this process (internal).
    #[arg(long, hide = true, num_args = 6)]
    run: Option<Vec<String>>,
}

/// A pseudo-random number generator.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number from 0 up to, but not, 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a key: uniform, or by Zipf's law with exponent 0.99 (by the method of Gray et al., as YCSB does), spread
    /// over all keys.
    fn key(&mut self, records: u64, zipf: Option<&Zipf>) -> u64 {
        let rank = match zipf {
            None => return self.next() % records,
            Some(zipf) => zipf.rank(self.fraction()),
        };
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % records
    }
}

struct Zipf {
    records: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    fn new(records: u64) -> Self {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-Self::THETA)).sum::<f64>();
        let (all, two) = (zeta(records), zeta(2));
        let eta = (1.0 - (2.0 / records as f64).powf(1.0 - Self::THETA)) / (1.0 - two / all);
        Self { records: records as f64, zeta: all, eta }
    }

    fn rank(&self, u: f64) -> u64 {
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(Self::THETA) {
            return 1;
        }
        (self.records * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - Self::THETA))) as u64
    }
}

/// Returns the value of a key in its version `version`.
fn value(key: u64, version: u64) -> [u8; VALUE] {
    let mut bytes = [0; VALUE];
    let mut word = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version;
    for part in bytes.chunks_exact_mut(8) {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        part.copy_from_slice(&word.to_le_bytes());
    }
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

fn verify(key: u64, found: &[u8]) {
    let version = u64::from_le_bytes(found[..8].try_into().expect("8 bytes"));
    assert!(found == value(key, version), "key {key} has a wrong value");
}

fn make_database(path: &Path, records: u64) {
    let database = Database::builder().set_cache_size(256 << 20).create(path).expect("a database");
    for first in (0..records).step_by(20_000) {
        let write = database.begin_write().expect("a transaction");
        {
            let mut table = write.open_table(TABLE).expect("a table");
            for key in first..(first + 20_000).min(records) {
                table.insert(key, &value(key, 0)[..]).expect("an insert");
            }
        }
        write.commit().expect("a commit");
    }
}

/// Returns the CPU time of this process so far, us.
fn cpu_time_us() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for what the system writes.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Runs the operations of one thread until `end`, and records how long each takes, in ns.
fn run_thread(database: &Database, load: Load, thread: u64, sizes: &Sizes, end: Instant, times: &mut Histogram<u64>) {
    let mut chance = Chance(thread * 7919 + 1);
    let zipf = (load != Load::Uniform && load != Load::Commits).then(|| Zipf::new(sizes.records));
    let (mut version, mut inserts, mut n) = (1, Vec::new(), 0u64);
    let insert = |keys: &[u64], version: u64| {
        let write = database.begin_write().expect("a transaction");
        {
            let mut table = write.open_table(TABLE).expect("a table");
            for key in keys {
                table.insert(key, &value(*key, version)[..]).expect("an insert");
            }
        }
        write.commit().expect("a commit");
    };
    loop {
        let began = Instant::now();
        if began >= end {
            return;
        }
        n += 1;
        let key = chance.key(sizes.records, zipf.as_ref());
        version += 1;
        match load {
            Load::Commits => insert(&[key], version),
            Load::Mix if n % 10 == 0 => {
                inserts.push(key);
                if inserts.len() == 100 {
                    insert(&inserts, version);
                    inserts.clear();
                }
            }
            _ => {
                let table = database.begin_read().expect("a transaction").open_table(TABLE).expect("a table");
                verify(key, table.get(key).expect("a read").expect("all keys are there").value());
            }
        }
        times.record(began.elapsed().as_nanos() as u64).expect("the histogram grows");
    }
}

/// The figures of a run: operations a second, CPU us of an operation, and percentiles of an operation's time, us.
#[derive(Clone, Copy, Debug)]
struct Figures {
    rate: f64,
    cpu: f64,
    p99: f64,
    p999: f64,
}

fn run(database: &Database, load: Load, threads: u64, sizes: &Sizes) -> Figures {
    let on_threads = |time: Duration, seed: u64| {
        let end = Instant::now() + time;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut times = Histogram::new(3).expect("three digits");
                        run_thread(database, load, thread + seed, sizes, end, &mut times);
                        times
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("nothing fails")).reduce(|mut all, times| {
                all.add(&times).expect("the histogram grows");
                all
            })
        })
        .expect("a thread at least")
    };
    on_threads(sizes.warm_up, 100);
    let (began, cpu) = (Instant::now(), cpu_time_us());
    let times = on_threads(sizes.time, 200);
    let (took, cpu, count) = (began.elapsed().as_secs_f64(), cpu_time_us() - cpu, times.len().max(1) as f64);
    let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    Figures { rate: count / took, cpu: cpu / count, p99: at(0.99), p999: at(0.999) }
}

fn run_side(side: Side, load: Load, threads: u64, path: &Path, own_cache: u64, sizes: &Sizes) -> Figures {
    let room = (sizes.limit_mib - OVERHEAD_MIB) << 20;
    match side {
        Side::Own => {
            let cache = room as usize / 100 * own_cache as usize;
            run(&Database::builder().set_cache_size(cache).open(path).expect("a database"), load, threads, sizes)
        }
        Side::Library => {
            let cache = SMALL_CACHE_MIB << 20;
            let memory = Memory::builder().size(room - cache).start().expect("memory is there");
            let backend = Backend::open(&memory, path).expect("a file");
            let mut builder = Database::builder();
            let database = builder.set_cache_size(cache as usize).create_with_backend(backend).expect("a database");
            let figures = run(&database, load, threads, sizes);
            drop(database);
            memory.shutdown().expect("all is written");
            figures
        }
    }
}

/// A memory control group with a limit. The group is removed when the value is dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes a group, below the hierarchy of version 2 or of version 1; `None` where the system permits none.
    fn new(limit: u64) -> Option<Self> {
        let name = format!("highwater-engines-{}", std::process::id());
        for (root, file) in [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")] {
            let folder = Path::new(root).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self(folder);
            if group.0.join(file).exists() && fs::write(group.0.join(file), limit.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Writes a file back and drops it from the page cache of the system.
fn drop_from_page_cache(path: &Path) {
    let file = fs::File::open(path).expect("it is there");
    file.sync_all().expect("the disk works");
    // SAFETY: no memory is passed.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Runs a side in a process of its own, in `group`.
fn run_in_group(side: Side, load: Load, threads: u64, path: &Path, own_cache: u64, group: Option<&Path>) -> Figures {
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let group = group.map_or(String::new(), |group| group.display().to_string());
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--run", &word(&side), &word(&load), &threads.to_string()])
        .args([&path.display().to_string(), &own_cache.to_string(), &group])
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [rate, cpu, p99, p999] = figures[..] else { panic!("{side:?} failed: {} {text}", output.status) };
    Figures { rate, cpu, p99, p999 }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

/// Returns the median, the lowest and the highest of ratios as text.
fn spread(ratios: &[f64]) -> String {
    let (low, high) = ratios.iter().fold((f64::MAX, 0f64), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    format!("{:.2} ({low:.2} to {high:.2})", median(ratios))
}

/// Runs one side in this process, which first enters a control group, and prints the figures.
fn run_alone(words: &[String]) {
    let [side, load, threads, path, own_cache, group] = words else { unreachable!("clap counts") };
    if !group.is_empty() {
        fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string()).expect("the group is there");
    }
    let side = Side::from_str(side, true).expect("a side");
    let load = Load::from_str(load, true).expect("a load");
    let number = |text: &str| text.parse().expect("a number");
    let Figures { rate, cpu, p99, p999 } =
        run_side(side, load, number(threads), Path::new(path), number(own_cache), &FULL);
    println!("{rate} {cpu} {p99} {p999}");
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(words) = &arguments.run {
        return run_alone(words);
    }
    let sizes = if arguments.bench { FULL } else { SMALL };
    let rounds = std::env::var("HIGHWATER_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(sizes.rounds);
    let folder = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
    let path = folder.path().join("database");
    make_database(&path, sizes.records);
    let group = if arguments.bench { ControlGroup::new(sizes.limit_mib << 20) } else { None };
    if arguments.bench {
        let mib = fs::metadata(&path).expect("it is there").len() >> 20;
        match &group {
            Some(_) => println!("a database of {mib} MiB, each side in a control group of {} MiB", sizes.limit_mib),
            None => println!("a database of {mib} MiB; no control group: the system's page cache is not limited"),
        }
    }
    for (load, threads) in Load::ALL {
        let name = load.name(threads);
        if arguments.filter.as_ref().is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let mut figures = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            // The order changes from round to round, so that a drift favours no side.
            let sides = if round % 2 == 0 { [Side::Library, Side::Own] } else { [Side::Own, Side::Library] };
            for side in sides {
                drop_from_page_cache(&path);
                let cache = arguments.own_cache;
                figures[usize::from(side == Side::Own)].push(match arguments.bench {
                    true => run_in_group(side, load, threads, &path, cache, group.as_ref().map(|group| &*group.0)),
                    false => run_side(side, load, threads, &path, cache, &sizes),
                });
            }
        }
        if arguments.bench {
            let [library, own] = &figures;
            let ratio = |of: fn(&Figures) -> f64| {
                let ratios: Vec<f64> = library.iter().zip(own).map(|(library, own)| of(library) / of(own)).collect();
                spread(&ratios)
            };
            let of = |side: &[Figures], of: fn(&Figures) -> f64| median(&side.iter().map(of).collect::<Vec<_>>());
            println!("{name}: rate {}, CPU {}", ratio(|side| side.rate), ratio(|side| side.cpu));
            for (name, side) in [("library", library), ("own", own)] {
                println!(
                    "    {name}: {:.0} a second, {:.1} us of CPU, p99 {:.0} us, p99.9 {:.0} us",
                    of(side, |side| side.rate),
                    of(side, |side| side.cpu),
                    of(side, |side| side.p99),
                    of(side, |side| side.p999)
                );
            }
        }
    }
}
