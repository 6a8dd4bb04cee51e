//! memcached beside a growing background write (MMTests `parallelio`; spec: benchmarks, 1.1).
//!
//! A server holds a little over two thirds of memory in chunks of one slab class. One client fills it,
//! then for 200 seconds gets (two thirds) or sets (one third) an item chosen at random. Once most of
//! memory is in use, `dd` writes zeroes to a new file and syncs it. Sizes are fractions of memory.

use super::before;
use crate::job::{Failure, Job, Outcome, Progress, Workload};
use crate::report::mmtests::{self, Sample};
use crate::report::{Better, Format, Row, duration_rows};
use crate::simulation::{self, Found, Simulation};
use crate::system::sim::{SimSystem, page_bytes};
use crate::system::{Faults, System, SystemError};
use engine::reclaim::PriorityZero;
use engine::stat::Vmstat;
use machine::{NANOS_PER_SECOND, Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use sim::Rng;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Bytes of a value.
const VALUE_BYTES: u64 = 16384;

/// Bytes of an item: value, key and header.
const ITEM_BYTES: u64 = VALUE_BYTES + 72;

/// Bytes that the client takes an item to need, by which it computes their number.
const ITEM_BYTES_ASSUMED: u64 = VALUE_BYTES + 4096;

/// Bytes of a chunk of the slab class that items fall into, with the default growth factor.
const CHUNK_BYTES: u64 = 17352;

/// Bytes and pages of a slab page of memcached.
const SLAB_BYTES: u64 = 1 << 20;
const SLAB_PAGES: u64 = SLAB_BYTES / PAGE_BYTES as u64;

/// Chunks of a slab page.
const SLAB_CHUNKS: u64 = SLAB_BYTES / CHUNK_BYTES;

/// Bytes that `dd` writes at once.
const BLOCK_BYTES: u64 = 1 << 20;

/// How long `dd` takes to read a block of zeroes: 1 MiB at 16 GB/s.
const ZERO_BLOCK: Nanos = Nanos(64_000);

/// The `[params]` of an experiment.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Seconds that the client asks the filled server.
    pub run_s: u64,
    /// Seconds before the server starts.
    pub settle_s: u64,
    /// Time of one operation when everything is in memory, ns at full scale. At a smaller scale it is
    /// longer, so that each item is used as often.
    pub operation_ns: u64,
    /// Time of storing one item while the server is filled, ns at full scale.
    pub populate_ns: u64,
    /// Increments between the smallest and the largest write; 0 leaves only the size 0.
    pub steps: u64,
    /// Seconds from when most of memory is in use until the write starts.
    pub write_delay_s: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            run_s: 200,
            settle_s: 10,
            // 23018 operations a second with everything resident (printed, size 0).
            operation_ns: 43_444,
            populate_ns: 43_444,
            steps: 3,
            write_delay_s: 5,
        }
    }
}

/// Sizes that follow from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    memory_bytes: u64,
    items: u64,
    region_pages: u64,
}

impl Sizes {
    fn of_memory(pages: u64) -> Self {
        let memory_bytes = page_bytes(pages);
        let items = memory_bytes / 5 * 4 / ITEM_BYTES_ASSUMED;
        // One chunk more, so that a set can store before it frees.
        let region_pages = (items + 1).div_ceil(SLAB_CHUNKS) * SLAB_PAGES;
        Self { memory_bytes, items, region_pages }
    }

    /// Bytes of each background write: nothing, then from a tenth of memory up.
    fn writes(self, steps: u64) -> Vec<u64> {
        let rest = self.memory_bytes / 5;
        let (least, most) = (rest / 2, rest * 4);
        let sizes = (0..steps).map(|step| least + step * (most - least) / steps);
        std::iter::once(0).chain(sizes).collect()
    }
}

/// Pages of a chunk that an item touches.
fn chunk_pages(chunk: u64) -> Range<u32> {
    let start = chunk / SLAB_CHUNKS * SLAB_BYTES + chunk % SLAB_CHUNKS * CHUNK_BYTES;
    let page = PAGE_BYTES as u64;
    (start / page) as u32..((start + ITEM_BYTES - 1) / page + 1) as u32
}

/// What one round found.
#[derive(Clone, Debug, Default)]
struct Round {
    operations: u64,
    faults: Faults,
    write_started: Nanos,
    write_time: Nanos,
    counters: Vmstat,
    priority_zero: Option<PriorityZero>,
}

/// The workload.
#[derive(Debug)]
pub struct Parallelio;

impl Workload for Parallelio {
    fn name(&self) -> &'static str {
        "parallelio"
    }

    fn about(&self) -> &'static str {
        "a memcached that fits memory, and a background write of growing size"
    }

    fn check(&self, job: &Job) -> Result<(), Failure> {
        let _: Params = job.params.read()?;
        let simulation = Simulation::of_job(job)?;
        let memory = simulation.layout.pages();
        let sizes = Sizes::of_memory(memory);
        let needed = sizes.region_pages + before::pages(&simulation.before, job.scale);
        if needed > memory + u64::from(simulation.swap_slots()) || sizes.items < 1000 {
            return Err(Failure(format!(
                "machine `{}` at scale {} is too small for parallelio: {memory} pages of memory, where the server \
                 alone takes {} and at least 1000 items are needed (this makes {})",
                job.machine.name, job.scale, sizes.region_pages, sizes.items
            )));
        }
        Ok(())
    }

    fn run(&self, job: &Job, progress: &Progress) -> Result<Outcome, Failure> {
        let params: Params = job.params.read()?;
        let simulation = Simulation::of_job(job)?;
        let sizes = Sizes::of_memory(simulation.layout.pages());
        let round_s =
            params.settle_s + params.run_s + sizes.items * job_time(params.populate_ns, job) / NANOS_PER_SECOND;
        progress.set_total_ns((params.steps + 2) * round_s * NANOS_PER_SECOND);
        let before = simulation.before.clone();
        let scale = job.scale;
        let seed = job.seed;
        simulation::run(job, simulation, progress, move |system, samples| {
            before::prepare(&before, system, scale)?;
            run_rounds(system, &params, sizes, scale.as_f64(), seed, samples)
        })
    }
}

fn job_time(ns: u64, job: &Job) -> u64 {
    (ns as f64 / job.scale.as_f64()) as u64
}

fn run_rounds(
    system: &SimSystem,
    params: &Params,
    sizes: Sizes,
    scale: f64,
    seed: u64,
    samples: &Mutex<Vec<Sample>>,
) -> Result<Found, SystemError> {
    samples.lock().expect("no task of this simulation panicked").clear();
    let started = system.now();
    let cpu_started = system.cpu_times();
    let counters = system.vmstat();
    let mut profile = Vec::new();
    let mut seen = system.profile();
    // The warm-up is a round without a write whose figures are dropped.
    run_round(system, params, sizes, scale, seed, 0, 0)?;
    add_profile(&mut profile, "warm-up", &mut seen, system.profile());
    let mut rounds = Vec::new();
    for (n, bytes) in sizes.writes(params.steps).into_iter().enumerate() {
        rounds.push((bytes, run_round(system, params, sizes, scale, seed, n as u64 + 1, bytes)?));
        add_profile(&mut profile, &format!("{}M", bytes >> 20), &mut seen, system.profile());
    }
    let elapsed = system.now().since(started);
    let cpu = system.cpu_times().since(cpu_started);
    let (mut rows, diagnosis): (Vec<Row>, Vec<Row>) =
        round_rows(&rounds, params).into_iter().partition(|row| row.group == "Ops");
    rows.extend(duration_rows(cpu.user.as_secs_f64(), cpu.system.as_secs_f64(), elapsed.as_secs_f64()));
    rows.extend(mmtests::vmstat_rows(&simulation::difference(&counters, &system.vmstat()), elapsed.as_secs_f64()));
    rows.extend(mmtests::iostat_rows("sda", &samples.lock().expect("no task of this simulation panicked")));
    rows.extend(diagnosis);
    Ok(Found { rows, profile })
}

/// Adds the time spent since `seen` under `part`.
fn add_profile(
    profile: &mut Vec<String>,
    part: &str,
    seen: &mut BTreeMap<String, Nanos>,
    now: BTreeMap<String, Nanos>,
) {
    for (path, time) in &now {
        let spent = time.since(seen.get(path).copied().unwrap_or_default());
        if spent > Nanos(0) {
            profile.push(format!("{part};{path} {}", spent.0));
        }
    }
    *seen = now;
}

fn round_rows(rounds: &[(u64, Round)], params: &Params) -> Vec<Row> {
    type Figure = fn(&Round, &Params) -> f64;
    let swap_total: Figure = |round, _| {
        ["pswpin", "pswpout"].iter().map(|name| round.counters.get(*name).copied().unwrap_or(0) as f64).sum()
    };
    let priority_zero: Figure =
        |round, _| round.priority_zero.map_or(0.0, |zero| zero.at.since(round.write_started).as_secs_f64());
    let candidates: Figure = |round, _| round.priority_zero.map_or(0.0, |zero| zero.inactive_anon_pages as f64);
    let figures: [(&str, &str, &str, Better, Figure); 9] = [
        ("Ops", "memcachetest", "ops/s", Better::Higher, |round, params| {
            (round.operations / params.run_s.max(1)) as f64
        }),
        ("Ops", "io-duration", "s", Better::Lower, |round, _| (round.write_time.0 / NANOS_PER_SECOND) as f64),
        ("Ops", "swaptotal", "pages", Better::Lower, swap_total),
        ("Ops", "swapin", "pages", Better::Lower, |round, _| round.counters["pswpin"] as f64),
        ("Ops", "minorfaults", "faults", Better::Lower, |round, _| {
            (round.counters["pgfault"] - round.counters["pgmajfault"]) as f64
        }),
        ("Ops", "majorfaults", "faults", Better::Lower, |round, _| round.counters["pgmajfault"] as f64),
        // When, after the write began, reclaim first scanned everything, and the anonymous pages that it
        // then had before it; 0 where it never did.
        ("diagnosis", "priority0", "s", Better::Neutral, priority_zero),
        ("diagnosis", "priority0-inactiveanon", "pages", Better::Neutral, candidates),
        ("diagnosis", "faultwait", "s", Better::Lower, |round, _| round.faults.major_wait.as_secs_f64()),
    ];
    let mut rows = Vec::new();
    for (group, name, unit, better, figure) in figures {
        for (bytes, round) in rounds {
            let label = if group == "Ops" { "Ops " } else { "" };
            let name = format!("{label}{name}-{}M", bytes >> 20);
            rows.push(Row::new(group, name, unit, better, Format::Decimals(2), figure(round, params)));
        }
    }
    rows
}

fn run_round(
    system: &SimSystem,
    params: &Params,
    sizes: Sizes,
    scale: f64,
    seed: u64,
    round: u64,
    write_bytes: u64,
) -> Result<Round, SystemError> {
    let counters = system.vmstat();
    system.engine().take_first_priority_zero();
    let result: Arc<Mutex<Result<Round, SystemError>>> = Arc::new(Mutex::new(Ok(Round::default())));
    system.sleep(Nanos::from_secs(params.settle_s));
    let client = {
        let (params, result) = (params.clone(), result.clone());
        system.spawn("memcachetest", move |system| {
            let found = serve(system, &params, sizes, scale, Rng::new(seed, 1000 + round));
            let mut result = result.lock().expect("no task of this simulation panicked");
            match found {
                Ok((operations, faults)) => {
                    if let Ok(round) = &mut *result {
                        (round.operations, round.faults) = (operations, faults);
                    }
                }
                Err(error) => *result = Err(error),
            }
        })
    };
    let writer = (write_bytes > 0).then(|| {
        let (params, result) = (params.clone(), result.clone());
        system.spawn("dd", move |system| {
            let found = write_behind(system, &params, sizes, write_bytes, Rng::new(seed, 2000 + round));
            let mut result = result.lock().expect("no task of this simulation panicked");
            match found {
                Ok((started, time)) => {
                    if let Ok(round) = &mut *result {
                        (round.write_started, round.write_time) = (started, time);
                    }
                }
                Err(error) => *result = Err(error),
            }
        })
    });
    system.join(&client);
    let counters = simulation::difference(&counters, &system.vmstat());
    if let Some(writer) = writer {
        system.join(&writer);
        system.unlink("background")?;
    }
    let mut round = result.lock().expect("no task of this simulation panicked").clone()?;
    round.counters = counters;
    round.priority_zero = system.engine().take_first_priority_zero();
    Ok(round)
}

/// Server and client: fills the server, then asks it; returns the operations done and the faults of both.
fn serve(
    system: &SimSystem,
    params: &Params,
    sizes: Sizes,
    scale: f64,
    mut rng: Rng,
) -> Result<(u64, Faults), SystemError> {
    let memory = system.map(sizes.region_pages as u32);
    let populate = Nanos((params.populate_ns as f64 / scale) as u64);
    let operation = Nanos((params.operation_ns as f64 / scale) as u64);
    let mut chunks: Vec<u32> = (0..sizes.items as u32).collect();
    for &chunk in &chunks {
        system.compute(populate);
        system.touch(&memory, chunk_pages(u64::from(chunk)), true)?;
    }
    let filled = system.faults();
    // Chunks of one class are reused last in, first out.
    let mut free = sizes.items as u32;
    let end = system.now() + Nanos::from_secs(params.run_s);
    let mut operations = 0;
    while system.now() < end && !system.is_killed() {
        let item = rng.below(sizes.items) as usize;
        let is_set = rng.below(100) < 33;
        system.compute(operation);
        if is_set {
            system.touch(&memory, chunk_pages(u64::from(free)), true)?;
            std::mem::swap(&mut free, &mut chunks[item]);
        } else {
            system.touch(&memory, chunk_pages(u64::from(chunks[item])), false)?;
        }
        operations += 1;
    }
    let faults = system.faults();
    system.unmap(memory);
    let during = Faults {
        minor: faults.minor - filled.minor,
        major: faults.major - filled.major,
        major_wait: faults.major_wait.since(filled.major_wait),
    };
    Ok((operations, during))
}

/// `dd`: waits until most of memory is in use, then writes and syncs; returns when that began and
/// how long it took.
///
/// The script that waits is started by hand as it were: where its looks fall between two seconds depends
/// on the seed.
fn write_behind(
    system: &SimSystem,
    params: &Params,
    sizes: Sizes,
    bytes: u64,
    mut rng: Rng,
) -> Result<(Nanos, Nanos), SystemError> {
    let goal = sizes.memory_bytes / 5 * 4 / 5 * 4;
    system.sleep(Nanos(rng.below(2 * NANOS_PER_SECOND)));
    while page_bytes(system.memory_pages() - system.free_pages()) < goal && !system.is_killed() {
        system.sleep(Nanos::from_secs(2));
    }
    system.sleep(Nanos::from_secs(params.write_delay_s));
    let started = system.now();
    let zeroes = vec![0; BLOCK_BYTES as usize];
    let file = system.create("background")?;
    let mut at = 0;
    while at < bytes {
        let n = BLOCK_BYTES.min(bytes - at);
        system.compute(ZERO_BLOCK);
        system.write(&file, at, &zeroes[..n as usize])?;
        at += n;
    }
    system.fsync(&file)?;
    Ok((started, system.now().since(started)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_in_print_at_7156_mib() {
        let sizes = Sizes::of_memory(7156 * 256);
        let mib: Vec<u64> = sizes.writes(3).into_iter().map(|bytes| bytes >> 20).collect();
        assert_eq!(mib, [0, 715, 2385, 4055]);
        assert_eq!(sizes.items, 293_109, "4 fifths of memory in items of 20 KiB");
        assert_eq!(sizes.region_pages >> 8, 4886, "MiB resident: 68 % of memory");
    }

    #[test]
    fn an_item_touches_five_or_six_pages_of_its_own_slab() {
        for chunk in 0..SLAB_CHUNKS * 3 {
            let pages = chunk_pages(chunk);
            assert!((5..=6).contains(&pages.len()), "{pages:?}");
            let slab = chunk / SLAB_CHUNKS * SLAB_PAGES;
            assert!(u64::from(pages.start) >= slab && u64::from(pages.end) <= slab + SLAB_PAGES, "{pages:?}");
        }
    }
}
