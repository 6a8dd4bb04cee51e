//! Compares commits (durable writes) by the library with commits by system calls. Also measures the costs of syncing
//! large files, and of opening files beside many open ones.
//!
//! `cargo bench -p highwater --bench files` runs at full size in `HIGHWATER_BENCH_DIR`, or in the target folder; an
//! argument selects the lines whose names contain it. `cargo test` runs the bench at a small size, silently. Each line
//! of the output has two sides, which run in turns, `HIGHWATER_BENCH_ROUNDS` times (default 5). The figure of a line is
//! the median of the rounds' ratios, with the lowest and the highest ratio and the medians of both sides.
//!
//! *Commits*: several threads write 200 bytes to one file and make them durable, with `write_at` and `sync_data` of the
//! library, and with `pwrite` and `fdatasync` of the system. After each round the test checks that the file has all
//! committed data.
//!
//! *Syncs*: one page of a sparse file is written and synced repeatedly, after one page of each 4 MiB of the file was
//! read into memory. The lines compare the CPU time in files of 1, 4 and 64 GiB with that in a file of 0.25 GiB.
//!
//! *CPU of commits*: one page, or eight distant pages, of a file in memory are written and synced by the library, and by
//! `pwrite` with O_DIRECT and `fdatasync`. The lines compare the CPU time of the committing thread. A further line
//! compares a sync of one page beside 10,000 open files with one beside no other file.
//!
//! *Opens*: the cost of opening and closing files while 15,000 other files are open is compared with the cost while 100
//! other files are open.

#![allow(missing_docs, unsafe_code)]

use highwater::{Advice, File, Memory};
use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of bytes that one commit writes.
const RECORD: u64 = 200;

const PAGE: u64 = 4096;

/// The sizes of a run: one set for the bench, a smaller one for tests.
struct Sizes {
    /// Time for which each of the compared logs is written in a round. A thread stops earlier after `commits` commits.
    time: Duration,
    commits: u64,
    /// Number of records that the file has before a round that overwrites records.
    records: u64,
    rounds: usize,
}

const FULL: Sizes = Sizes { time: Duration::from_millis(1500), commits: u64::MAX, records: 300_000, rounds: 5 };
const SMALL: Sizes = Sizes { time: Duration::from_secs(60), commits: 3, records: 1000, rounds: 2 };

/// A file to which records are written durably: a file of this library, or one of the operating system.
trait Log: Sync {
    fn commit(&self, bytes: &[u8], offset: u64);
}

impl Log for File {
    fn commit(&self, bytes: &[u8], offset: u64) {
        self.write_all_at(bytes, offset).expect("the disk works");
        self.sync_data().expect("the disk works");
    }
}

impl Log for fs::File {
    fn commit(&self, bytes: &[u8], offset: u64) {
        self.write_all_at(bytes, offset).expect("the disk works");
        self.sync_data().expect("the disk works");
    }
}

/// The place in the file to which a round writes its records: the end of the file, or the places of old records, which
/// are overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The records go to the end of the file, each after the record before it.
    Appended,
    /// The records overwrite old records, at random places of a file whose pages are in memory.
    Over,
}

/// Returns the contents of record `number` in round `round`.
fn record(number: u64, round: u64) -> [u8; RECORD as usize] {
    let mut bytes = [(number % 251) as u8; RECORD as usize];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&round.to_le_bytes());
    bytes
}

/// Lets `threads` threads commit records to `log`, and returns their commits a second. Checks that the file at `path`
/// then has all committed records.
fn rate(log: &dyn Log, path: &Path, place: Target, threads: u64, round: u64, sizes: &Sizes) -> f64 {
    let (next, start) = (AtomicU64::new(0), Barrier::new(threads as usize + 1));
    let committer = |thread: u64| {
        let mut chance = thread * 7919 + round + 1;
        let mut numbers = Vec::new();
        start.wait();
        let end = Instant::now() + sizes.time;
        while Instant::now() < end && (numbers.len() as u64) < sizes.commits {
            let number = match place {
                Target::Appended => next.fetch_add(1, Ordering::Relaxed),
                Target::Over => {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (chance >> 33) % sizes.records
                }
            };
            log.commit(&record(number, round), number * RECORD);
            numbers.push(number);
        }
        numbers
    };
    let (numbers, took) = thread::scope(|scope| {
        let committer = &committer;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || committer(thread))).collect();
        start.wait();
        let began = Instant::now();
        let numbers: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().expect("nothing fails")).collect();
        (numbers, began.elapsed())
    });
    let file = fs::File::open(path).expect("it is there");
    for &number in &numbers {
        let mut found = [0; RECORD as usize];
        file.read_exact_at(&mut found, number * RECORD).expect("what was committed is there");
        assert!(found == record(number, round), "record {number} of round {round} was committed");
    }
    numbers.len() as f64 / took.as_secs_f64()
}

/// Returns the median, the lowest and the highest of `ratios` as text.
fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", median(&ratios), ratios[0], ratios[ratios.len() - 1])
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The path of the file of a round. The file is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(side: &str, place: Target, records: u64) -> Self {
        let folder = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
        let path = PathBuf::from(folder).join(format!("highwater-commit-{side}-{}", std::process::id()));
        let bytes = if place == Target::Over { records * RECORD } else { 0 };
        fs::write(&path, vec![7; bytes as usize]).expect("the folder can be written to");
        fs::File::open(&path).and_then(|file| file.sync_all()).expect("the disk works");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn own_rate(place: Target, threads: u64, round: u64, sizes: &Sizes) -> f64 {
    let scratch = Scratch::new("own", place, sizes.records);
    let memory = Memory::builder().size(256 << 20).start().expect("memory is there");
    let log = memory.open(&scratch.0).expect("it is there");
    // The library reads the whole file into memory. The system has it in memory already, because it was just written.
    log.read_exact_at(&mut vec![0; log.len() as usize], 0).expect("the disk works");
    rate(&log, &scratch.0, place, threads, round, sizes)
}

fn systems_rate(place: Target, threads: u64, round: u64, sizes: &Sizes) -> f64 {
    let scratch = Scratch::new("system", place, sizes.records);
    let log = fs::File::options().read(true).write(true).open(&scratch.0).expect("it is there");
    rate(&log, &scratch.0, place, threads, round, sizes)
}

/// Returns the times in us that opening and closing a file take while `open` other files stay open.
fn open_cost(folder: &Path, open: usize, times: usize) -> (f64, f64) {
    let memory = Memory::builder().size(64 << 20).start().expect("memory is there");
    let name = |n: usize| folder.join(format!("file {n}"));
    let files: Vec<File> = (0..open).map(|n| memory.create(name(n)).expect("descriptors are there")).collect();
    let paths: Vec<PathBuf> = (0..times).map(|n| name(open + n)).collect();
    paths.iter().for_each(|path| fs::write(path, b"little").expect("there is room"));
    let cost = |began: Instant| began.elapsed().as_secs_f64() * 1e6 / times as f64;
    let began = Instant::now();
    let opened: Vec<File> = paths.iter().map(|path| memory.open(path).expect("descriptors are there")).collect();
    let open_cost = cost(began);
    let began = Instant::now();
    drop(opened);
    let close_cost = cost(began);
    drop(files);
    (open_cost, close_cost)
}

/// A sparse file, opened in a memory of its own, of which one page of each 4 MiB was read.
struct Sparse {
    memory: Memory,
    file: File,
    path: PathBuf,
}

impl Sparse {
    fn new(folder: &Path, bytes: u64) -> Self {
        const STEP: u64 = 4 << 20;
        let memory = Memory::builder().size(64 << 20).start().expect("memory is there");
        let path = folder.join(format!("sparse {bytes}"));
        let file = memory.create(&path).expect("the folder can be written to");
        file.set_len(bytes).expect("the file system has files of this length");
        file.advise(0..0, Advice::Random);
        (0..bytes / STEP).for_each(|step| _ = file.page(step * STEP / PAGE).expect("the disk works"));
        Self { memory, file, path }
    }

    /// Returns the CPU time of writing and syncing one page, us.
    fn sync_cost(&self, syncs: u64, round: u64) -> f64 {
        let at = self.file.len() / 2 + 5 * PAGE;
        let before = thread_cpu_time();
        for n in 0..syncs {
            self.file.commit(&record(round * syncs + n, round), at);
        }
        let cost = (thread_cpu_time() - before) * 1e6 / syncs as f64;
        let mut found = [0; RECORD as usize];
        fs::File::open(&self.path)
            .and_then(|file| file.read_exact_at(&mut found, at))
            .expect("what was synced is there");
        assert!(found == record((round + 1) * syncs - 1, round));
        assert!(self.memory.vmstat().get("nr_dirty") == 0);
        cost
    }
}

/// Returns the CPU time of this thread so far, s.
fn thread_cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for what the system writes.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Compares the CPU time of writing and syncing one page in sparse files of several lengths.
fn compare_syncs(is_bench: bool, rounds: usize) {
    let (sizes, syncs) =
        if is_bench { (&[1 << 28, 1 << 30, 1 << 32, 1 << 36][..], 300) } else { (&[1 << 28, 1 << 30][..], 2) };
    let folder = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
    let files: Vec<Sparse> = sizes.iter().map(|bytes| Sparse::new(folder.path(), *bytes)).collect();
    let mut costs = vec![Vec::new(); sizes.len()];
    for round in 0..rounds as u64 {
        for n in 0..sizes.len() {
            // The order changes from round to round, so that a drift favours no side.
            let n = (n + round as usize) % sizes.len();
            costs[n].push(files[n].sync_cost(syncs, round));
        }
    }
    if is_bench {
        for (bytes, own) in sizes.iter().zip(&costs) {
            let ratios = own.iter().zip(&costs[0]).map(|(own, least)| own / least).collect();
            let (gib, cost) = (*bytes as f64 / f64::from(1 << 30), median(own));
            println!(
                "a sync of one page of {gib} GiB, beside 0.25 GiB: ratio {}, {cost:.1} us of CPU time",
                spread(ratios)
            );
        }
    }
}

/// Number of pages of the file in which the lines "CPU of a commit" write.
const COMMITTED_PAGES: u64 = 1 << 13;

/// Returns the offset of page `page` of commit `commit`: pages of one commit are distant from each other.
fn committed_offset(commit: u64, page: u64) -> u64 {
    (commit * 7919 + page * 1009) % COMMITTED_PAGES * PAGE
}

/// Returns the CPU time of this thread, us, for each of `times` calls of `commit`, which gets its number.
fn cpu_cost(times: u64, mut commit: impl FnMut(u64)) -> f64 {
    let before = thread_cpu_time();
    (0..times).for_each(&mut commit);
    (thread_cpu_time() - before) * 1e6 / times as f64
}

/// Compares the CPU time of commits of one page and of eight distant pages with that of `pwrite` and `fdatasync`.
fn compare_commit_cost(is_bench: bool, rounds: usize) {
    let times = if is_bench { 500 } else { 3 };
    let folder = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
    let path = |name: &str| folder.path().join(name);
    for name in ["own", "system"] {
        fs::write(path(name), vec![1; (COMMITTED_PAGES * PAGE) as usize]).expect("there is room");
        fs::File::open(path(name)).and_then(|file| file.sync_all()).expect("the disk works");
    }
    let memory = Memory::builder().size(128 << 20).start().expect("memory is there");
    let own = memory.open(path("own")).expect("it is there");
    own.read_exact_at(&mut vec![0; own.len() as usize], 0).expect("the disk works");
    let direct = fs::File::options().write(true).custom_flags(libc::O_DIRECT).open(path("system"));
    let system = direct.or_else(|_| fs::File::options().write(true).open(path("system"))).expect("it is there");
    let buffer = memory.contiguous(highwater::Order(0)).expect("memory is there");
    for pages in [1, 8] {
        let own_cost = || {
            cpu_cost(times, |commit| {
                (0..pages).for_each(|page| {
                    own.write_all_at(&[commit as u8; PAGE as usize], committed_offset(commit, page)).expect("written");
                });
                own.sync_data().expect("the disk works");
            })
        };
        let systems_cost = || {
            cpu_cost(times, |commit| {
                (0..pages)
                    .for_each(|page| system.write_all_at(&buffer, committed_offset(commit, page)).expect("written"));
                system.sync_data().expect("the disk works");
            })
        };
        let (mut owns, mut systems) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // The order changes from round to round, so that a drift favours no side.
            if round % 2 == 0 {
                owns.push(own_cost());
            }
            systems.push(systems_cost());
            if round % 2 == 1 {
                owns.push(own_cost());
            }
        }
        if is_bench {
            let ratios = owns.iter().zip(&systems).map(|(own, system)| own / system).collect();
            println!(
                "CPU of a commit of {pages} pages, beside pwrite and fdatasync: ratio {}, {:.1} and {:.1} us",
                spread(ratios),
                median(&owns),
                median(&systems)
            );
        }
    }
}

/// Compares the CPU time of a sync of one page while many other files are open with that while no other file is.
fn compare_syncs_beside_files(is_bench: bool, rounds: usize) {
    let (many, times) = if is_bench { (10_000, 300) } else { (50, 2) };
    raise_descriptor_limit();
    let folder = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
    let sides = ["many", "one"].map(|name| {
        let memory = Memory::builder().size(64 << 20).start().expect("memory is there");
        let others = if name == "many" { many } else { 0 };
        let others: Vec<File> = (0..others)
            .map(|n| memory.create(folder.path().join(format!("other {n}"))).expect("descriptors are there"))
            .collect();
        let file = memory.create(folder.path().join(name)).expect("the folder can be written to");
        file.write_all_at(&[1; 64 * PAGE as usize], 0).expect("written");
        file.sync_data().expect("the disk works");
        (file, others, memory)
    });
    let cost = |side: usize| {
        cpu_cost(times, |commit| sides[side].0.commit(&[commit as u8; PAGE as usize], commit % 64 * PAGE))
    };
    let (mut at_many, mut at_one) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let first = round % 2;
        let costs = [cost(first), cost(1 - first)];
        at_many.push(costs[first]);
        at_one.push(costs[1 - first]);
    }
    if is_bench {
        let ratios = at_many.iter().zip(&at_one).map(|(many, one)| many / one).collect();
        println!(
            "a sync of one page beside {many} open files, beside none: ratio {}, {:.1} and {:.1} us of CPU time",
            spread(ratios),
            median(&at_many),
            median(&at_one)
        );
    }
}

/// Compares the cost of opening and closing a file while 15,000 other files are open with the cost while 100 are open.
fn compare_opens(is_bench: bool, rounds: usize) {
    let (many, times) = if is_bench { (15_000, 300) } else { (200, 5) };
    raise_descriptor_limit();
    let folder = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written to");
    let (mut opens, mut closes) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let cost = |open| open_cost(folder.path(), open, times);
        let (at_many, at_few) = if round % 2 == 0 {
            let at_many = cost(many);
            (at_many, cost(100))
        } else {
            let at_few = cost(100);
            (cost(many), at_few)
        };
        opens.push((at_many.0, at_few.0));
        closes.push((at_many.1, at_few.1));
    }
    if is_bench {
        for (what, costs) in [("opening", opens), ("closing", closes)] {
            let ratios: Vec<f64> = costs.iter().map(|(many, few)| many / few).collect();
            let (at_many, at_few): (Vec<f64>, Vec<f64>) = costs.into_iter().unzip();
            println!(
                "{what} a file beside {many} that are open, beside 100: ratio {}, {:.1} and {:.1} us",
                spread(ratios),
                median(&at_many),
                median(&at_few)
            );
        }
    }
}

/// Raises the limit of open files as far as the system permits.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls only write and read the limit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let sizes = if is_bench { FULL } else { SMALL };
    let rounds = std::env::var("HIGHWATER_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds = rounds.unwrap_or(sizes.rounds);
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (place, word) in [(Target::Appended, "appended"), (Target::Over, "written over")] {
        for threads in [1, 8, 32] {
            let name = format!("200 bytes {word}, {threads} threads");
            if !name.contains(&wanted) {
                continue;
            }
            let (mut own, mut systems) = (Vec::new(), Vec::new());
            for round in 0..rounds as u64 {
                // The order changes from round to round, so that a drift favours no side.
                if round % 2 == 0 {
                    own.push(own_rate(place, threads, round, &sizes));
                }
                systems.push(systems_rate(place, threads, round, &sizes));
                if round % 2 == 1 {
                    own.push(own_rate(place, threads, round, &sizes));
                }
            }
            let ratios: Vec<f64> = own.iter().zip(&systems).map(|(own, systems)| own / systems).collect();
            if is_bench {
                println!("{name}: ratio {}, {:.0} and {:.0} commits/s", spread(ratios), median(&own), median(&systems));
            }
        }
    }
    if "syncs of one page".contains(&wanted) {
        compare_syncs(is_bench, rounds);
    }
    if "CPU of a commit".contains(&wanted) {
        compare_commit_cost(is_bench, rounds);
    }
    if "a sync beside open files".contains(&wanted) {
        compare_syncs_beside_files(is_bench, rounds);
    }
    if "opening and closing".contains(&wanted) {
        compare_opens(is_bench, rounds);
    }
}
