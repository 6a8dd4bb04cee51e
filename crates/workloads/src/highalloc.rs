//! Allocation of huge pages while kernels are built, and on an idle machine (MMTests `stress-highalloc`;
//! mechanisms/benchmarks, 1.4; mechanisms/huge-pages-trial).
//!
//! Several kernels are built at the same time with one compiler each ([`super::build`]), and `updatedb` walks all
//! files. Then a module requests almost all of memory in huge pages, one every 125 ms, and keeps them until its last
//! request: pass 1. The module frees all of them and repeats the requests: pass 2. Then the builds are killed and their
//! trees deleted. A file as large as memory is written, read and deleted, caches are dropped, and the module makes its
//! requests a third time.
//!
//! The workload measures the successful requests, their latency, and the reclaim that they cause.

use super::build::{self, Build};
use super::meter::add_profile;
use crate::extent::Extent;
use crate::system::{HeldPage, Started, System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::memory::{Gfp, MAX_ORDERS};
use engine::stat::{Vmstat, vmstat};
use figures::counters::difference;
use figures::curves::Curve;
use figures::figure::{Better, Format, Row, RowName, duration_rows, names};
use figures::mmtests;
use figures::scale::Scale;
use figures::usage::CpuTimes;
use machine::{Nanos, Order, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use sim::Sourced;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Number of the source tree that is unpacked first. All other trees are copies of this one. The build of this tree
/// starts last.
const PRIMARY: u64 = 0;

/// Number of pages that one write or read covers: 256 KiB, an assumed value.
const PIECE_PAGES: u64 = 64;

/// Number of pages in a MiB.
const MIB_PAGES: u64 = 256;

/// Name of the file that holds the inode tables. `updatedb` reads this file in addition to the trees.
const INODE_TABLES: &str = "inode tables";

/// Name of the file that is as large as memory.
const LARGE_FILE: &str = "testfile";

/// Parameters of the workload `highalloc` at full scale, from `[params]` in an experiment's file. Sizes and the number
/// of inodes follow the scale. A parameter that the MMTests script sets has the script's value as its default; a
/// parameter with an assumed value has no default.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of copies of the source tree. The copies are built beside the tree itself. This number does not follow
    /// the scale.
    pub copies: Sourced<u64>,
    /// Order of the requested blocks. Default 9, a huge page of x86-64.
    #[serde(default = "order")]
    pub order: u8,
    /// Number of blocks that a pass requests, percent of the blocks of the order `order` that fit in memory. Default
    /// 95.
    #[serde(default = "percent")]
    pub percent: u64,
    /// Time from the start of one request to the start of the next, ms. If a request takes longer, the next request
    /// follows at once. Default 125, which is 16 MB/s for blocks of 2 MiB.
    #[serde(default = "every_ms")]
    pub every_ms: u64,
    /// Time from the start of the last build to the first pass, s. Default 300.
    #[serde(default = "warm_up_s")]
    pub warm_up_s: u64,
    /// Time between two checks for failed builds before the first pass, s. A failed build is restarted. Default 30.
    #[serde(default = "check_s")]
    pub check_s: u64,
    /// Time for which the workload rests after each of the first two passes, s. Default 5.
    #[serde(default = "rest_s")]
    pub rest_s: u64,
    /// Time from the end of the rest after the second pass until the builds are killed, s. Default 180.
    #[serde(default = "before_kill_s")]
    pub before_kill_s: u64,
    /// A pass ends early after a successful request that took longer than this time, s. Default 600.
    #[serde(default = "success_max_s")]
    pub success_max_s: u64,
    /// A pass ends early after a failed request that took longer than this time, s. Default 1200.
    #[serde(default = "failure_max_s")]
    pub failure_max_s: u64,
    /// Value of the sysctl `min_free_kbytes` during the third pass, on the idle machine. Default 1024.
    #[serde(default = "rested_min_free_kib")]
    pub rested_min_free_kib: u64,
    /// Share of the trees' pages that are pinned, so that they can be neither freed nor moved while the trees exist,
    /// per mille. Default 0.
    #[serde(default)]
    pub unmovable_per_mille: u64,
    /// Number of inodes outside of the source trees. `updatedb` first looks up the files of the trees, then these
    /// inodes.
    pub inodes: Sourced<u64>,
    /// Number of inodes in a page of an inode table.
    pub inodes_per_page: Sourced<u64>,
    /// Number of pages that one read of the inode tables covers.
    pub inode_readahead_pages: Sourced<u64>,
    /// CPU time that `updatedb` spends on one file, us.
    pub look_up_us: Sourced<u64>,
    /// Memory that a build holds while it runs, in addition to its compiler's memory, MiB.
    pub held_mib: Sourced<u64>,
    /// Parameters of a build.
    pub build: build::Params,
}

const fn order() -> u8 {
    9
}

const fn percent() -> u64 {
    95
}

const fn every_ms() -> u64 {
    125
}

const fn warm_up_s() -> u64 {
    300
}

const fn check_s() -> u64 {
    30
}

const fn rest_s() -> u64 {
    5
}

const fn before_kill_s() -> u64 {
    180
}

const fn success_max_s() -> u64 {
    600
}

const fn failure_max_s() -> u64 {
    1200
}

const fn rested_min_free_kib() -> u64 {
    1024
}

impl Params {
    /// Returns the number of requests in a pass on a machine that has `memory_pages` pages of memory.
    fn attempts(&self, memory_pages: u64) -> u64 {
        (memory_pages >> self.order) * self.percent / 100
    }
}

/// The workload `highalloc`: allocation of huge pages while kernels are built, and on an idle machine.
#[derive(Debug)]
pub struct Highalloc;

impl Workload for Highalloc {
    type Params = Params;

    const NAME: &'static str = "highalloc";

    const ABOUT: &'static str = "huge pages while kernels are built, and afterwards";

    const SIM_ONLY: Option<&'static str> =
        Some("the other grounds give no blocks of memory, drop no inodes and have no sysctl");

    fn about_param(key: &str) -> Option<&'static str> {
        match key.strip_prefix("build.") {
            Some(key) => build::Params::get_field_docs(key).ok(),
            None => Params::get_field_docs(key).ok(),
        }
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let positive = [
            ("every_ms", params.every_ms),
            ("check_s", params.check_s),
            ("inodes_per_page", params.inodes_per_page.value),
            ("inode_readahead_pages", params.inode_readahead_pages.value),
            ("build.units", params.build.units.value),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("`{name}` is 0: must be at least 1"));
        }
        if usize::from(params.order) >= MAX_ORDERS {
            return Err(format!("`order` is {}: must be at most {}", params.order, MAX_ORDERS - 1));
        }
        for (name, value, most) in [
            ("percent", params.percent, 100),
            ("unmovable_per_mille", params.unmovable_per_mille, 1000),
            ("copies", params.copies.value, COPIES_MAX),
            ("inodes", params.inodes.value, INODES_MAX),
            ("inode_readahead_pages", params.inode_readahead_pages.value, READAHEAD_MAX),
            ("held_mib", params.held_mib.value, HELD_MAX_MIB),
            ("rested_min_free_kib", params.rested_min_free_kib, MIN_FREE_MAX_KIB),
        ] {
            if value > most {
                return Err(format!("`{name}` is {value}: must be at most {most}"));
            }
        }
        params.build.check()?;
        if resources.memory_pages < 4096 {
            return Err(format!("too small for highalloc: {} pages, and 4096 are needed", resources.memory_pages));
        }
        if params.attempts(resources.memory_pages) == 0 {
            return Err(format!(
                "{} % of memory are no block of order {}: there is nothing to ask for",
                params.percent, params.order
            ));
        }
        Ok(())
    }

    fn extent(params: &Params, resources: &Resources, _: Scale) -> Extent {
        let trees = params.copies.value.saturating_add(1);
        let tree_pages = params.build.tree_pages();
        let waits = [
            params.every_ms / 1000,
            params.warm_up_s,
            params.check_s,
            params.rest_s,
            params.before_kill_s,
            params.success_max_s,
            params.failure_max_s,
            params.look_up_us.value / 1_000_000,
            params.build.wait_s(),
        ];
        let pass_s = params.attempts(resources.memory_pages).saturating_mul(params.every_ms) / 1000;
        let units = params.build.units.value.saturating_mul(params.build.unit_operations());
        Extent {
            operations: tree_pages.saturating_add(units).saturating_mul(trees),
            file_pages: tree_pages.saturating_mul(trees).max(resources.memory_pages),
            wait_s: waits.into_iter().chain([pass_s]).max().unwrap_or(0),
            time_s: None,
        }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let attempt = |is_success| Attempt { is_success, took: Nanos(1), ended: Nanos(1), reclaimed: 1 };
        let pass = |name| Pass {
            name,
            planned: 2,
            attempts: vec![attempt(true), attempt(false)],
            before: vmstat::zeroes(),
            counters: vmstat::zeroes(),
        };
        let seen = Seen { passes: PASSES.map(pass).into(), counters: vmstat::zeroes(), ..Seen::default() };
        Some([names(seen.rows()), mmtests_row_names()].concat())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let model = Build::of(&params.build, system.given().scale);
        let inodes = Inodes::make(system, params)?;
        model.install(system)?;
        system.begin_measured();
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let mut profile = Profile::new(system);
        let mut builds = Builds::new(system, params, model);
        builds.start_all(system, params)?;
        let updatedb = {
            let copies = params.copies.value;
            system.start("updatedb", move |system| inodes.walk(system, copies, model))
        };
        builds.start(system, PRIMARY);
        builds.warm_up(system, params);
        profile.end_part(system, "builds");
        let mut passes = Vec::new();
        for number in [0, 1] {
            passes.push(ask(system, params, number)?);
            system.sleep(Nanos::from_secs(params.rest_s));
            profile.end_part(system, PASSES[number]);
        }
        system.sleep(Nanos::from_secs(params.before_kill_s));
        updatedb.kill(system);
        // If memory was exhausted earlier, `updatedb` has failed; then no look-ups are counted.
        let looked_up = updatedb.join(system);
        let (compiled, restarts) = builds.kill(system);
        builds.remove(system)?;
        write_and_read(system)?;
        system.drop_caches_and_slabs()?;
        profile.end_part(system, "builds");
        let min_free_kib = system.set_min_free_kbytes(params.rested_min_free_kib)?;
        let rested = ask(system, params, 2);
        system.set_min_free_kbytes(min_free_kib)?;
        passes.push(rested?);
        profile.end_part(system, PASSES[2]);
        system.end_measured();
        let seen = Seen {
            passes,
            compiled,
            restarts,
            looked_up: looked_up.unwrap_or(0),
            counters: difference(&counters, &system.vmstat()),
            elapsed_s: system.now().since(started).as_secs_f64(),
            cpu: system.cpu_times().since(cpu),
        };
        system.remove(build::COMPILER)?;
        system.remove(INODE_TABLES)?;
        Ok(Measurements { rows: seen.rows(), profile: profile.lines, curves: seen.curves(), ..Measurements::default() })
    }
}

/// Largest value of [`Params::copies`]. There is a limit because each copy has tasks and files of its own.
const COPIES_MAX: u64 = 1000;

/// Largest value of [`Params::inodes`]. There is a limit because each inode is an object of the simulation.
const INODES_MAX: u64 = 1 << 24;

/// Largest number of pages per read of the inode tables: 16 MiB.
const READAHEAD_MAX: u64 = 4096;

/// Largest memory that a build may hold, MiB: 1 TiB.
const HELD_MAX_MIB: u64 = 1 << 20;

/// Largest value of the sysctl `min_free_kbytes`: 1 TiB.
const MIN_FREE_MAX_KIB: u64 = 1 << 30;

/// Names of the passes in published tables.
const PASSES: [&str; 3] = ["Pass 1", "Pass 2", "while Rested"];

/// Names of the two marks that each pass sets in records of memory over time. A pass sets the first mark right before
/// its first request. It sets the second right after its last request, while it still holds its blocks.
const MARKS: [[&str; 2]; 3] = [
    ["Pass 1 begins", "Pass 1 has asked"],
    ["Pass 2 begins", "Pass 2 has asked"],
    ["rested pass begins", "rested pass has asked"],
];

/// CPU time of each part of the run, as folded stacks.
#[derive(Debug)]
struct Profile {
    lines: Vec<String>,
    seen: std::collections::BTreeMap<String, Nanos>,
}

impl Profile {
    fn new<S: System>(system: &S) -> Self {
        Self { lines: Vec::new(), seen: system.profile() }
    }

    /// Ends the part of the run named `part`: appends to `lines` the folded stacks of the CPU time spent since the
    /// previous part ended.
    fn end_part<S: System>(&mut self, system: &S, part: &str) {
        add_profile(&mut self.lines, part, &mut self.seen, system.profile());
    }
}

/// The inodes of the computer's files outside the source trees of the run. A walk over all files looks up each of them.
/// Their number is multiplied by the scale of the run.
#[derive(Clone, Copy, Debug)]
struct Inodes {
    count: u64,
    per_page: u64,
    /// Number of pages that one read of the inode tables covers.
    pages_at_once: u64,
    look_up: Nanos,
}

impl Inodes {
    /// Writes the file that holds the inode tables. Returns the inodes.
    fn make<S: System>(system: &S, params: &Params) -> Result<Self, SystemError> {
        let (count, per_page) = (system.given().scale.of(params.inodes.value), params.inodes_per_page.value);
        write_file(system, INODE_TABLES, count.div_ceil(per_page))?;
        system.sync(&system.open(INODE_TABLES)?)?;
        let pages_at_once = params.inode_readahead_pages.value;
        let look_up = Nanos(params.look_up_us.value * 1000);
        Ok(Self { count, per_page, pages_at_once, look_up })
    }

    /// Looks up every file: first the files of the trees, then the files outside of them. Returns the number of files
    /// looked up.
    fn walk<S: System>(self, system: &S, copies: u64, model: Build) -> Result<u64, SystemError> {
        let mut looked_up = 0;
        for tree in PRIMARY..=PRIMARY + copies {
            for n in (0..model.files()).take_while(|_| !system.is_killed()) {
                drop(system.open(&build::tree_file(tree, n))?);
                system.compute(self.look_up);
                looked_up += 1;
            }
        }
        let mut tables = system.open(INODE_TABLES)?;
        system.expect_random_reads(&mut tables);
        let mut bytes = vec![0; page_bytes(self.pages_at_once) as usize];
        let mut read_until = 0;
        for inode in (0..self.count).take_while(|_| !system.is_killed()) {
            let page = inode / self.per_page;
            if system.look_up(inode as u32)? && page >= read_until {
                system.read(&mut tables, page_bytes(page), &mut bytes)?;
                read_until = page + self.pages_at_once;
            }
            system.compute(self.look_up);
            looked_up += 1;
        }
        Ok(looked_up)
    }
}

/// State of a build that runs.
const RUNNING: u8 = 0;
/// State of a completed build.
const DONE: u8 = 1;
/// State of a failed build.
const FAILED: u8 = 2;

/// A started build of one tree: its task, its progress and its state.
struct Running<S: System> {
    tree: u64,
    /// Number of the next unit to compile.
    next: Arc<AtomicU64>,
    /// State of the build: `RUNNING`, `DONE` or `FAILED`.
    state: Arc<AtomicU8>,
    task: Started<S, Result<(), SystemError>>,
}

/// All builds of a run, and the pinned pages of their trees.
struct Builds<S: System> {
    model: Build,
    trees: u64,
    held_pages: u32,
    unmovable_per_mille: u64,
    running: Vec<Running<S>>,
    restarts: u64,
    held: Vec<HeldPage>,
    /// Number of pages of source trees for which [`Builds::hold`] has already decided whether to pin them.
    pages: u64,
}

impl<S: System> Builds<S> {
    fn new(system: &S, params: &Params, model: Build) -> Self {
        Self {
            model,
            trees: 0,
            held_pages: system.given().scale.of(params.held_mib.value * MIB_PAGES) as u32,
            unmovable_per_mille: params.unmovable_per_mille,
            running: Vec::new(),
            restarts: 0,
            held: Vec::new(),
            pages: 0,
        }
    }

    /// Unpacks the first tree and makes copies of it. Starts the build of each copy as soon as the copy exists.
    fn start_all(&mut self, system: &S, params: &Params) -> Result<(), SystemError> {
        self.model.unpack(system, PRIMARY)?;
        self.trees = 1;
        self.hold(system, PRIMARY)?;
        for copy in (1..=params.copies.value).take_while(|_| !system.is_killed()) {
            self.model.copy(system, PRIMARY, PRIMARY + copy)?;
            self.trees += 1;
            self.hold(system, PRIMARY + copy)?;
            self.start(system, PRIMARY + copy);
        }
        Ok(())
    }

    /// Pins some pages of a tree's files: `unmovable_per_mille` of every thousand, spread evenly. Pinned pages can be
    /// neither freed nor moved until [`Builds::remove`] releases them.
    fn hold(&mut self, system: &S, tree: u64) -> Result<(), SystemError> {
        if self.unmovable_per_mille == 0 {
            return Ok(());
        }
        for n in 0..self.model.files() {
            for page in 0..self.model.file_pages(n) {
                if is_held(self.pages, self.unmovable_per_mille) {
                    let mut file = system.open(&build::tree_file(tree, n))?;
                    self.held.push(system.hold_page(&mut file, page)?);
                }
                self.pages += 1;
            }
        }
        Ok(())
    }

    fn start(&mut self, system: &S, tree: u64) {
        self.go_on(system, tree, Arc::default());
    }

    /// Starts a task that builds source tree number `tree`. The first source file (unit) to compile is the one whose
    /// number is in `next`.
    fn go_on(&mut self, system: &S, tree: u64, next: Arc<AtomicU64>) {
        let (model, held_pages, state) = (self.model, self.held_pages, Arc::new(AtomicU8::new(RUNNING)));
        let (unit, told) = (next.clone(), state.clone());
        let task = system.start(&build::task_name(tree), move |system| {
            let result = make(system, model, tree, held_pages, &unit);
            told.store(if result.is_ok() { DONE } else { FAILED }, Relaxed);
            result
        });
        self.running.push(Running { tree, next, state, task });
    }

    /// Waits until the first pass begins. If a build fails meanwhile, starts it again at the unit that failed.
    fn warm_up(&mut self, system: &S, params: &Params) {
        let end = system.now() + Nanos::from_secs(params.warm_up_s);
        while system.now() < end && !system.is_killed() {
            system.sleep(Nanos::from_secs(params.check_s).min(end.since(system.now())));
            let has_failed = |running: &Running<S>| running.state.load(Relaxed) == FAILED;
            let (failed, others) = std::mem::take(&mut self.running).into_iter().partition(has_failed);
            self.running = others;
            for Running { tree, next, task, .. } in failed {
                // The build may have failed for lack of memory, and is started again.
                let _ = task.join(system);
                self.restarts += 1;
                self.go_on(system, tree, next);
            }
        }
    }

    /// Ends all builds. Returns two sums over the builds: the number of compiled units (source files), and the number
    /// of restarts after failures.
    fn kill(&mut self, system: &S) -> (u64, u64) {
        self.running.iter().for_each(|running| running.task.kill(system));
        let mut compiled = 0;
        for Running { next, task, .. } in std::mem::take(&mut self.running) {
            // An error is expected: the build was killed now, or ran out of memory before.
            let _ = task.join(system);
            compiled += next.load(Relaxed);
        }
        (compiled, self.restarts)
    }

    /// Releases the pinned pages and deletes all trees.
    fn remove(&mut self, system: &S) -> Result<(), SystemError> {
        std::mem::take(&mut self.held).into_iter().for_each(|page| system.release_page(page));
        for tree in PRIMARY..PRIMARY + self.trees {
            self.model.remove_objects(system, tree);
            self.model.remove_sources(system, tree)?;
        }
        Ok(())
    }
}

/// Returns whether page number `page` is pinned, if `per_mille` of every thousand pages are pinned.
const fn is_held(page: u64, per_mille: u64) -> bool {
    page * per_mille / 1000 != (page + 1) * per_mille / 1000
}

/// Runs one build of the source tree `tree`, with one compiler at a time. The build holds `held_pages` pages of memory
/// until it ends.
fn make<S: System>(system: &S, model: Build, tree: u64, held_pages: u32, next: &AtomicU64) -> Result<(), SystemError> {
    let held = system.map(held_pages)?;
    let mut result = system.touch(&held, 0..held_pages, true);
    result = result.and_then(|()| model.compile_all(system, tree, next));
    if result.is_ok() && !system.is_killed() {
        result = model.link(system, tree);
    }
    system.unmap(held);
    result
}

fn write_file<S: System>(system: &S, name: &str, pages: u64) -> Result<(), SystemError> {
    let file = system.create(name)?;
    let bytes = vec![0; page_bytes(PIECE_PAGES) as usize];
    for start in (0..pages).step_by(PIECE_PAGES as usize).take_while(|_| !system.is_killed()) {
        let bytes = &bytes[..page_bytes(PIECE_PAGES.min(pages - start)) as usize];
        system.write(&file, page_bytes(start), bytes)?;
    }
    Ok(())
}

/// Writes a file as large as memory, reads it and deletes it.
fn write_and_read<S: System>(system: &S) -> Result<(), SystemError> {
    write_file(system, LARGE_FILE, system.memory_pages())?;
    let mut file = system.open(LARGE_FILE)?;
    let mut bytes = vec![0; page_bytes(PIECE_PAGES) as usize];
    let end = system.length(&file);
    for start in (0..end).step_by(bytes.len()).take_while(|_| !system.is_killed()) {
        system.read(&mut file, start, &mut bytes)?;
    }
    drop(file);
    system.remove(LARGE_FILE)
}

/// One request for a block of pages: its outcome and duration, and the state of its pass when it ended.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    is_success: bool,
    took: Nanos,
    /// Time from the beginning of the pass to the end of this request.
    ended: Nanos,
    /// Number of pages that were reclaimed from the beginning of the pass to the end of this request.
    reclaimed: u64,
}

/// The record of one pass: its requests, the counters at its beginning, and the growth of the counters during the pass.
#[derive(Debug)]
struct Pass {
    name: &'static str,
    /// Number of requests that the pass planned. A pass that ends early makes fewer requests.
    planned: u64,
    attempts: Vec<Attempt>,
    /// Counters and gauges at the beginning of the pass, which is a series of requests for blocks.
    before: Vmstat,
    /// Growth of the counters during the pass, which is a series of requests for blocks.
    counters: Vmstat,
}

/// Returns the time at which the next request starts. This is the time `begun`, at which the last request started, plus
/// `every`, or `now` if that time has passed.
fn next_start(begun: Nanos, every: Nanos, now: Nanos) -> Nanos {
    (begun + every).max(now)
}

/// Returns the number of pages reclaimed from LRU lists so far, by kswapd and by tasks.
fn reclaimed(counters: &Vmstat) -> u64 {
    counters.iter().filter(|(name, _)| name.starts_with("pgsteal_")).map(|(_, pages)| pages).sum()
}

/// Runs pass `number` of the benchmark: requests blocks of memory at a fixed rate, keeps the blocks that it gets, and
/// frees them at the end. Returns the record of the pass.
fn ask<S: System>(system: &S, params: &Params, number: usize) -> Result<Pass, SystemError> {
    let planned = params.attempts(system.memory_pages());
    let every = Nanos::from_millis(params.every_ms);
    let [success_max, failure_max] = [params.success_max_s, params.failure_max_s].map(Nanos::from_secs);
    let [begins, has_asked] = MARKS[number];
    system.mark(begins);
    let (start, before) = (system.now(), system.vmstat());
    let reclaimed_before = reclaimed(&before);
    let (mut attempts, mut blocks) = (Vec::new(), Vec::new());
    let mut result = Ok(());
    for _ in 0..planned {
        if system.is_killed() {
            break;
        }
        let begun = system.now();
        let block = match system.take_block(Gfp::USER_MOVABLE, Order(params.order)) {
            Ok(block) => block,
            Err(error) => {
                result = Err(error);
                break;
            }
        };
        let now = system.now();
        let (took, ended) = (now.since(begun), now.since(start));
        let is_success = block.is_some();
        let reclaimed = reclaimed(&system.vmstat()) - reclaimed_before;
        attempts.push(Attempt { is_success, took, ended, reclaimed });
        blocks.extend(block);
        if took > if is_success { success_max } else { failure_max } {
            break;
        }
        system.sleep(next_start(begun, every, now).since(now));
    }
    system.mark(has_asked);
    let counters = difference(&before, &system.vmstat());
    blocks.into_iter().for_each(|block| system.give_block_back(block));
    result?;
    Ok(Pass { name: PASSES[number], planned, attempts, before, counters })
}

/// Returns a percentile of the latencies in `sorted`, by the nearest rank. `per_mille` names the percentile: 990 is the
/// 99th.
fn percentile(sorted: &[Nanos], per_mille: usize) -> Nanos {
    let rank = (sorted.len() * per_mille).div_ceil(1000).max(1);
    sorted[rank - 1]
}

impl Pass {
    fn successes(&self) -> u64 {
        self.attempts.iter().filter(|attempt| attempt.is_success).count() as u64
    }

    /// Returns the row with the number of successful requests in percent of the planned requests, rounded down.
    fn success_row(&self) -> Row {
        let percent = 100 * self.successes() / self.planned.max(1);
        Row::new("success", self.name, "% of attempts", Better::Higher, Format::Points(2), percent as f64)
    }

    /// Returns the rows of the requests' latency. Successful and failed requests have rows of their own.
    fn latency_rows(&self) -> Vec<Row> {
        let of = |is_success: bool| {
            let taken = self.attempts.iter().filter(|attempt| attempt.is_success == is_success);
            let mut sorted: Vec<Nanos> = taken.map(|attempt| attempt.took).collect();
            sorted.sort_unstable();
            let what = if is_success { "success" } else { "failure" };
            let row = |(statistic, per_mille): (&str, usize)| {
                let ms = percentile(&sorted, per_mille).as_secs_f64() * 1000.0;
                let name = format!("{} {what} {statistic}", self.name);
                Row::new("requests", name, "ms", Better::Lower, Format::Decimals(3), ms)
            };
            if sorted.is_empty() {
                return Vec::new();
            }
            [("p50", 500), ("p99", 990), ("max", 1000)].map(row).to_vec()
        };
        [of(true), of(false)].concat()
    }

    /// Returns the rows of memory in use at the beginning of the pass, and of reclaim during the pass.
    fn memory_rows(&self) -> Vec<Row> {
        let sum = |names: &[&str]| names.iter().filter_map(|name| self.before.get(*name)).sum::<u64>();
        let held = [
            ("free", sum(&["nr_free_pages"])),
            ("files", sum(&["nr_file_pages"])),
            ("anonymous", sum(&["nr_anon_pages"])),
            ("slabs", sum(&["nr_slab_reclaimable", "nr_slab_unreclaimable"])),
        ];
        let before = held.map(|(what, pages)| {
            let mib = (pages * PAGE_BYTES as u64) as f64 / f64::from(1 << 20);
            let name = format!("{} begins with: {what}", self.name);
            Row::new("memory", name, "MiB", Better::Neutral, Format::Decimals(0), mib)
        });
        let rows = mmtests::vmstat_rows(&self.counters, 1.0);
        let of = |name: &str| rows.iter().find(|row| row.name == name).map_or(0.0, |row| row.value);
        let done = [
            ("kswapd scanned", of("Kswapd pages scanned")),
            ("direct scanned", of("Direct pages scanned")),
            ("reclaimed", of("Kswapd pages reclaimed") + of("Direct pages reclaimed")),
        ];
        let done = done.map(|(what, pages)| {
            Row::new("memory", format!("{}: {what}", self.name), "pages", Better::Lower, Format::Decimals(0), pages)
        });
        let per_block = (self.successes() > 0).then(|| {
            let pages = reclaimed(&self.counters) as f64 / self.successes() as f64;
            let name = format!("{}: reclaimed for each block", self.name);
            Row::new("memory", name, "pages", Better::Lower, Format::Decimals(0), pages)
        });
        [before.to_vec(), done.to_vec(), per_block.into_iter().collect()].concat()
    }

    /// Returns two curves that show how the number of blocks obtained in the pass grows: one over time, and one over
    /// the number of pages reclaimed since the pass began.
    fn curves(&self) -> [Curve; 2] {
        let of = |across: &str, x: fn(&Attempt) -> f64| {
            let mut got = 0;
            let points = self.attempts.iter().map(|attempt| {
                got += u64::from(attempt.is_success);
                (x(attempt), got as f64)
            });
            let points = [(0.0, 0.0)].into_iter().chain(points).collect();
            Curve { name: format!("{}: blocks got", self.name), across: across.to_owned(), points }
        };
        [
            of("time since the pass began, s", |attempt| attempt.ended.as_secs_f64()),
            of("pages reclaimed since it began", |attempt| attempt.reclaimed as f64),
        ]
    }
}

/// The measurements of a run: its passes, builds, look-ups, counters and times.
#[derive(Debug, Default)]
struct Seen {
    passes: Vec<Pass>,
    /// Number of source files that were compiled before the builds were killed.
    compiled: u64,
    /// Number of restarts of failed builds.
    restarts: u64,
    /// Number of files that `updatedb` looked up.
    looked_up: u64,
    /// The growth of counters during the whole run.
    counters: Vmstat,
    elapsed_s: f64,
    cpu: CpuTimes,
}

impl Seen {
    fn rows(&self) -> Vec<Row> {
        let of_passes = |rows: fn(&Pass) -> Vec<Row>| self.passes.iter().flat_map(rows).collect::<Vec<_>>();
        [
            of_passes(|pass| vec![pass.success_row()]),
            of_passes(Pass::latency_rows),
            of_passes(Pass::memory_rows),
            self.load_rows(),
            duration_rows(self.cpu.user.as_secs_f64(), self.cpu.system.as_secs_f64(), self.elapsed_s),
            vmstat_rows(&self.counters, self.elapsed_s),
            compaction_rows(&self.counters),
        ]
        .concat()
    }

    fn curves(&self) -> Vec<Curve> {
        self.passes.iter().flat_map(Pass::curves).collect()
    }

    /// Returns three rows: the number of compiled units, of builds that were started again, and of files that
    /// `updatedb` looked up.
    fn load_rows(&self) -> Vec<Row> {
        let row = |name: &str, unit: &str, better, value: u64| {
            Row::new("load", name, unit, better, Format::Decimals(0), value as f64)
        };
        vec![
            row("Units compiled", "units", Better::Higher, self.compiled),
            row("Builds started again", "builds", Better::Lower, self.restarts),
            row("Files that updatedb looked up", "files", Better::Neutral, self.looked_up),
        ]
    }
}

/// Returns the rows of the group `vmstat` under the names that MMTests used in 2012.
fn vmstat_rows(counters: &Vmstat, elapsed_s: f64) -> Vec<Row> {
    of_2012(mmtests::vmstat_rows(counters, elapsed_s))
}

fn of_2012(mut rows: Vec<Row>) -> Vec<Row> {
    for row in &mut rows {
        row.name = name_of_2012(std::mem::take(&mut row.name));
    }
    rows
}

/// Returns the name that a row of MMTests had in 2012: "Page Ins" for "Sector Reads", and "Page Outs" for "Sector
/// Writes". The unit is KiB under both names. Other names are returned unchanged.
fn name_of_2012(name: String) -> String {
    match name.as_str() {
        "Sector Reads" => "Page Ins".to_owned(),
        "Sector Writes" => "Page Outs".to_owned(),
        _ => name,
    }
}

fn mmtests_row_names() -> Vec<RowName> {
    let known = mmtests::vmstat_row_names().into_iter();
    known.map(|row| RowName { name: name_of_2012(row.name), ..row }).collect()
}

/// Returns the rows of the group `compaction`: the engine's counters of compaction, of requests for blocks of several
/// pages, and of programs' huge pages.
fn compaction_rows(counters: &Vmstat) -> Vec<Row> {
    const BEGINNINGS: [&str; 5] = ["compact", "pgmigrate", "alloc_high_order", "alloc_failed", "thp_"];
    let is_meant = |name: &str| BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    let meant = counters.iter().filter(|(name, _)| is_meant(name));
    meant
        .map(|(name, value)| {
            Row::new("compaction", name, "events", Better::Neutral, Format::Decimals(0), *value as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(successes: u64, failures: u64, planned: u64) -> Pass {
        let attempt = |n: u64, is_success| {
            let took = Nanos(1_000_000 * (n + 1));
            Attempt { is_success, took, ended: Nanos(n * 125_000_000) + took, reclaimed: 10 * n }
        };
        let attempts = (0..successes).map(|n| attempt(n, true)).chain((0..failures).map(|n| attempt(n, false)));
        let attempts = attempts.collect();
        Pass { name: PASSES[0], planned, attempts, before: vmstat::zeroes(), counters: vmstat::zeroes() }
    }

    #[test]
    fn success_is_a_whole_percentage_of_what_was_planned() {
        let of = |successes, failures, planned| pass(successes, failures, planned).success_row().value;
        assert_eq!([of(687, 1103, 1790), of(1790, 0, 1790), of(17, 1773, 1790)], [38.0, 100.0, 0.0]);
        assert_eq!(of(100, 1, 1000), 10.0, "a pass that ended early got nothing afterwards");
    }

    #[test]
    fn latencies_of_successes_and_failures_are_apart() {
        let rows = pass(200, 3, 203).latency_rows();
        let shown: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.value)).collect();
        let expected = [
            ("Pass 1 success p50", 100.0),
            ("Pass 1 success p99", 198.0),
            ("Pass 1 success max", 200.0),
            ("Pass 1 failure p50", 2.0),
            ("Pass 1 failure p99", 3.0),
            ("Pass 1 failure max", 3.0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(pass(1, 0, 1).latency_rows().len(), 3, "no failure, no row of failures");
    }

    #[test]
    fn blocks_got_grow_over_time_and_over_what_was_reclaimed() {
        let [over_time, over_reclaim] = pass(2, 1, 3).curves();
        assert_eq!(over_time.points, [(0.0, 0.0), (0.001, 1.0), (0.127, 2.0), (0.001, 2.0)]);
        assert_eq!(over_reclaim.points, [(0.0, 0.0), (0.0, 1.0), (10.0, 2.0), (0.0, 2.0)]);
    }

    #[test]
    fn pages_reclaimed_are_shared_among_blocks() {
        let mut pass = pass(4, 1, 5);
        pass.counters = [("pgsteal_kswapd_dma32", 100), ("pgsteal_direct_dma", 20), ("pgscan_kswapd_dma32", 999)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        let found = |pass: &Pass| {
            let rows = pass.memory_rows();
            rows.iter().find(|row| row.name == "Pass 1: reclaimed for each block").map(|row| row.value)
        };
        assert_eq!(found(&pass), Some(30.0));
        pass.attempts.retain(|attempt| !attempt.is_success);
        assert_eq!(found(&pass), None, "no block, no share");
    }

    #[test]
    fn a_slow_request_is_followed_at_once() {
        let ms = Nanos::from_millis;
        assert_eq!(next_start(ms(1000), ms(125), ms(1003)), ms(1125));
        assert_eq!(next_start(ms(1000), ms(125), ms(1400)), ms(1400));
    }

    #[test]
    fn pages_that_are_held_lie_evenly() {
        for (per_mille, expected) in [(0, 0), (2, 20), (5, 50), (1000, 10_000)] {
            assert_eq!((0..10_000).filter(|page| is_held(*page, per_mille)).count(), expected);
        }
        let held: Vec<u64> = (0..1500).filter(|page| is_held(*page, 2)).collect();
        assert_eq!(held, [499, 999, 1499]);
    }

    #[test]
    fn counters_of_compaction_are_rows_whatever_there_are() {
        let counters = [("compact_pages_moved", 7), ("compact_stall", 2), ("pgfault", 9)];
        let rows = compaction_rows(&counters.map(|(name, value)| (name.to_owned(), value)).into());
        let shown: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.value)).collect();
        assert_eq!(shown, [("compact_pages_moved", 7.0), ("compact_stall", 2.0)]);
        assert!(vmstat_rows(&vmstat::zeroes(), 1.0).iter().any(|row| row.name == "Page Ins"));
    }
}
