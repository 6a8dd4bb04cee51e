//! Compares SQLite on the library with SQLite on its own VFS: the same database, the same limit of memory, in turns.
//!
//! `cargo bench -p highwater-sqlite` runs at full size in `HIGHWATER_BENCH_DIR`, or in the target folder; an argument
//! selects the lines whose names contain it. `cargo test` runs the bench at a small size, silently.
//!
//! Each side runs in a process of its own, in a memory control group with a limit (`memory.max`), which counts SQLite's
//! cache, the library's memory and the page cache of the system. Where the system permits no group, the bench says so,
//! and the page cache of the system is not limited. The file is dropped from the page cache of the system before each
//! run. The sides run in turns, `HIGHWATER_BENCH_ROUNDS` times (default 3). The figure of a line is the median of the
//! rounds' ratios (library / own backend), with the lowest and the highest.
//!
//! The loads: reads of random keys, uniformly or by Zipf's law; a mix of 90 % reads and 10 % inserts, with a durable
//! transaction for each 100 inserts; and durable transactions of one insert each, in WAL mode and with a journal. All
//! other loads run in WAL mode. `PRAGMA synchronous` is FULL. Every value that is read is verified.
//!
//! On the library, SQLite reads pages in place, by `xFetch`; with `--copies`, it reads them into its cache.

#![allow(missing_docs, unsafe_code)]

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use highwater::Memory;
use rusqlite::{Connection, OpenFlags, params};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Memory of a side that is neither cache, MiB: the program, its threads, and SQLite's transactions.
const OVERHEAD_MIB: u64 = 24;

/// SQLite's cache on the library's side, MiB, for each thread. The rest is the library's.
const SMALL_CACHE_MIB: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// SQLite on the library.
    Library,
    /// SQLite on its own VFS.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    Zipf,
    Uniform,
    Mix,
    Commits,
    /// Commits with a rollback journal in place of a log.
    Journal,
}

impl Load {
    const ALL: [(Self, u64); 6] =
        [(Self::Zipf, 1), (Self::Uniform, 1), (Self::Zipf, 4), (Self::Mix, 1), (Self::Commits, 1), (Self::Journal, 1)];

    fn name(self, threads: u64) -> String {
        let load = match self {
            Self::Zipf => "reads by Zipf's law",
            Self::Uniform => "uniform reads",
            Self::Mix => "90 % reads, 10 % inserts",
            Self::Commits => "commits of one insert",
            Self::Journal => "commits of one insert, with a journal",
        };
        if threads == 1 { load.to_owned() } else { format!("{load}, {threads} threads") }
    }
}

/// The settings of a run: the size of the own cache on one side, and the way of reading on the other.
#[derive(Clone, Copy)]
struct Settings {
    /// As [`Arguments::own_cache`].
    own_cache: u64,
    /// Whether SQLite reads pages in place on the library.
    in_place: bool,
}

#[derive(Debug, Parser)]
#[command(about = "Compares SQLite on the library with SQLite on its own VFS.")]
struct Arguments {
    /// Only lines whose names contain this.
    filter: Option<String>,
    /// Given by `cargo bench`: runs at full size.
    #[arg(long)]
    bench: bool,
    /// Part of its memory, in percent, that SQLite's caches have on its own VFS; the rest is for the page cache.
    #[arg(long, default_value_t = 50)]
    own_cache: u64,
    /// On the library, SQLite reads pages into its cache and not in place.
    #[arg(long)]
    copies: bool,
    /// Runs one side in this process (internal).
    #[arg(long, hide = true, num_args = 7)]
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

/// A connection, and the way in which it is opened again by other threads.
struct Opened<'a> {
    path: &'a Path,
    vfs: &'a str,
    /// SQLite's cache, KiB.
    cache_kib: u64,
    in_place: bool,
    load: Load,
}

impl Opened<'_> {
    fn connection(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(self.path, flags, self.vfs).expect("a database");
        let mode = if self.load == Load::Journal { "DELETE" } else { "WAL" };
        let set: String = connection
            .query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0))
            .expect("the mode can be set");
        assert!(set.eq_ignore_ascii_case(mode), "{set}");
        let bytes = if self.in_place { 1u64 << 40 } else { 0 };
        connection
            .execute_batch(&format!(
                "PRAGMA mmap_size = {bytes}; PRAGMA cache_size = -{}; PRAGMA synchronous = FULL",
                self.cache_kib
            ))
            .expect("the settings are possible");
        connection
    }
}

fn make_database(path: &Path, records: u64) {
    let connection = Connection::open(path).expect("a database");
    connection
        .execute_batch("PRAGMA synchronous = OFF; CREATE TABLE rows (key INTEGER PRIMARY KEY, value BLOB)")
        .expect("a table");
    for first in (0..records).step_by(20_000) {
        connection.execute_batch("BEGIN").expect("a transaction");
        {
            let mut insert = connection.prepare("INSERT INTO rows VALUES (?, ?)").expect("a statement");
            for key in first..(first + 20_000).min(records) {
                insert.execute(params![key as i64, &value(key, 0)[..]]).expect("an insert");
            }
        }
        connection.execute_batch("COMMIT").expect("a commit");
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
fn run_thread(
    connection: &Connection,
    load: Load,
    thread: u64,
    sizes: &Sizes,
    end: Instant,
    times: &mut Histogram<u64>,
) {
    let mut chance = Chance(thread * 7919 + 1);
    let is_by_zipf = matches!(load, Load::Zipf | Load::Mix);
    let zipf = is_by_zipf.then(|| Zipf::new(sizes.records));
    let mut statements = ["BEGIN IMMEDIATE", "COMMIT", "REPLACE INTO rows VALUES (?, ?)"]
        .map(|text| connection.prepare(text).expect("a statement"));
    let mut select = connection.prepare("SELECT value FROM rows WHERE key = ?").expect("a statement");
    let mut insert = |keys: &[u64], version: u64| {
        let [begin, commit, replace] = &mut statements;
        begin.execute([]).expect("a transaction");
        for key in keys {
            replace.execute(params![*key as i64, &value(*key, version)[..]]).expect("an insert");
        }
        commit.execute([]).expect("a commit");
    };
    let (mut version, mut inserts, mut n) = (1, Vec::new(), 0u64);
    loop {
        let began = Instant::now();
        if began >= end {
            return;
        }
        n += 1;
        let key = chance.key(sizes.records, zipf.as_ref());
        version += 1;
        match load {
            Load::Commits | Load::Journal => insert(&[key], version),
            Load::Mix if n % 10 == 0 => {
                inserts.push(key);
                if inserts.len() == 100 {
                    insert(&inserts, version);
                    inserts.clear();
                }
            }
            _ => {
                let mut rows = select.query([key as i64]).expect("a read");
                let row = rows.next().expect("a read").expect("all keys are there");
                verify(key, row.get_ref(0).expect("a value").as_blob().expect("bytes"));
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

fn run(opened: &Opened, threads: u64, sizes: &Sizes) -> Figures {
    let load = opened.load;
    // A connection of each thread stays open from the warm-up on, with its cache.
    let connections: Vec<_> = (0..threads).map(|_| std::sync::Mutex::new(opened.connection())).collect();
    let on_threads = |time: Duration, seed: u64| {
        let end = Instant::now() + time;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .zip(&connections)
                .map(|(thread, connection)| {
                    scope.spawn(move || {
                        let mut times = Histogram::new(3).expect("three digits");
                        let connection = connection.lock().expect("nothing fails");
                        run_thread(&connection, load, thread + seed, sizes, end, &mut times);
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

fn run_side(side: Side, load: Load, threads: u64, path: &Path, settings: Settings, sizes: &Sizes) -> Figures {
    let room = (sizes.limit_mib - OVERHEAD_MIB) << 20;
    match side {
        Side::Own => {
            let cache_kib = (room >> 10) / 100 * settings.own_cache / threads;
            run(&Opened { path, vfs: "unix", cache_kib, in_place: false, load }, threads, sizes)
        }
        Side::Library => {
            let cache = (SMALL_CACHE_MIB << 20) * threads;
            let memory = Arc::new(Memory::builder().size(room - cache).start().expect("memory is there"));
            let vfs = highwater_sqlite::register(&memory, "highwater").expect("a VFS");
            let opened =
                Opened { path, vfs: vfs.name(), cache_kib: SMALL_CACHE_MIB << 10, in_place: settings.in_place, load };
            let figures = run(&opened, threads, sizes);
            drop(vfs);
            Arc::into_inner(memory).expect("no database is open").shutdown().expect("all is written");
            figures
        }
    }
}

/// A memory control group with a limit. The group is removed when the value is dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes a group, below the hierarchy of version 2 or of version 1; `None` where the system permits none.
    fn new(limit: u64) -> Option<Self> {
        let name = format!("highwater-sqlite-{}", std::process::id());
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
fn run_in_group(
    side: Side,
    load: Load,
    threads: u64,
    path: &Path,
    settings: Settings,
    group: Option<&Path>,
) -> Figures {
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let group = group.map_or(String::new(), |group| group.display().to_string());
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--run", &word(&side), &word(&load), &threads.to_string()])
        .args([&path.display().to_string(), &settings.own_cache.to_string(), &settings.in_place.to_string(), &group])
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
    let [side, load, threads, path, own_cache, in_place, group] = words else { unreachable!("clap counts") };
    if !group.is_empty() {
        fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string()).expect("the group is there");
    }
    let side = Side::from_str(side, true).expect("a side");
    let load = Load::from_str(load, true).expect("a load");
    let number = |text: &str| text.parse().expect("a number");
    let settings = Settings { own_cache: number(own_cache), in_place: in_place == "true" };
    let Figures { rate, cpu, p99, p999 } = run_side(side, load, number(threads), Path::new(path), settings, &FULL);
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
                let settings = Settings { own_cache: arguments.own_cache, in_place: !arguments.copies };
                figures[usize::from(side == Side::Own)].push(match arguments.bench {
                    true => run_in_group(side, load, threads, &path, settings, group.as_ref().map(|group| &*group.0)),
                    false => run_side(side, load, threads, &path, settings, &sizes),
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
