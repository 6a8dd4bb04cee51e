//! memcached beside a growing background write (MMTests `parallelio`; mechanisms/benchmarks, 1.1).
//!
//! A server holds a little over two thirds of memory in chunks of one slab class. One client fills the server. Then,
//! for 200 seconds, the client gets (two thirds) or sets (one third) random items. Once most of memory is in use, `dd`
//! writes zeroes to a new file and syncs it. All sizes are fractions of memory.

use super::meter::add_profile;
use crate::extent::{self, Extent};
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::reclaim::PriorityZero;
use engine::stat::Vmstat;
use figures::counters::difference;
use figures::curves::{Step, Steps};
use figures::engine_view::EngineView;
use figures::figure::{Better, Format, Row, RowName, duration_rows, names};
use figures::mmtests;
use figures::scale::Scale;
use figures::usage::Faults;
use machine::{NANOS_PER_SECOND, Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use sim::{Rng, Sourced};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of a value, bytes.
const VALUE_BYTES: u64 = 16384;

/// Size of an item, bytes: value, key and header.
const ITEM_BYTES: u64 = VALUE_BYTES + 72;

/// Size in bytes that the client takes for the size of an item when it computes how many items fit in memory. It is
/// larger than the true size, [`ITEM_BYTES`].
const ITEM_BYTES_ASSUMED: u64 = VALUE_BYTES + 4096;

/// Size of a chunk in the slab class of memcached to which the items belong, bytes. The slab classes have the default
/// growth factor.
const CHUNK_BYTES: u64 = 17352;

/// Size of a slab page of memcached, bytes.
const SLAB_BYTES: u64 = 1 << 20;
/// Size of a slab page of memcached, in pages of the machine.
const SLAB_PAGES: u64 = SLAB_BYTES / PAGE_BYTES as u64;

/// Number of chunks in a slab page.
const SLAB_CHUNKS: u64 = SLAB_BYTES / CHUNK_BYTES;

/// Size of each write by `dd`, bytes.
const BLOCK_BYTES: u64 = 1 << 20;

/// Largest value of [`Params::steps`]. There is a limit because each step is a round of the workload.
const STEPS_MAX: u64 = 1000;

/// Time in which `dd` reads a block of zeroes: 1 MiB at 16 GB/s.
const ZERO_BLOCK: Nanos = Nanos(64_000);

/// Parameters of the workload `parallelio`, from `[params]` in an experiment's file. A parameter that the benchmark's
/// own script sets has the script's value as its default. Parameters with fitted or assumed values have no defaults;
/// the experiment's file states the origin of these values.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Seconds for which the client queries the filled server. Default 200.
    #[serde(default = "run_s")]
    pub run_s: u64,
    /// Seconds for which each round waits before it starts the server. Default 10.
    #[serde(default = "settle_s")]
    pub settle_s: u64,
    /// Time that one operation takes when everything is in memory, ns at full scale. At a smaller scale the time is
    /// longer, so that each item is used as often as at full scale.
    pub operation_ns: Sourced<u64>,
    /// Time that storing one item takes while the server is filled, ns at full scale.
    pub populate_ns: Sourced<u64>,
    /// Number of rounds with a background write, which follow a first round without a write. The first write is as
    /// large as a tenth of memory. From one write to the next, the size grows by an equal step: seven tenths of memory,
    /// divided by this number. If the number is 0, only the round without a write is run. Default 3.
    #[serde(default = "steps")]
    pub steps: u64,
    /// Seconds between the moment when most of memory is in use and the start of the background write. Default 5.
    #[serde(default = "write_delay_s")]
    pub write_delay_s: u64,
}

fn run_s() -> u64 {
    200
}

fn settle_s() -> u64 {
    10
}

fn steps() -> u64 {
    3
}

fn write_delay_s() -> u64 {
    5
}

/// Sizes that follow from the size of memory.
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
        // One spare chunk lets a set store the new item before it frees the old one.
        let region_pages = (items + 1).div_ceil(SLAB_CHUNKS) * SLAB_PAGES;
        Self { memory_bytes, items, region_pages }
    }

    /// Returns the size of the background write in each round, bytes: 0 in the first round. In the `steps` following
    /// rounds, it grows by even steps from a tenth of memory to almost four fifths.
    fn writes(self, steps: u64) -> Vec<u64> {
        let rest = self.memory_bytes / 5;
        let (least, most) = (rest / 2, rest * 4);
        let sizes = (0..steps).map(|step| least + step * (most - least) / steps);
        std::iter::once(0).chain(sizes).collect()
    }
}

/// Returns the pages of memcached's memory that an item touches. The item lies at the beginning of chunk number
/// `chunk`.
fn chunk_pages(chunk: u64) -> Range<u32> {
    let start = chunk / SLAB_CHUNKS * SLAB_BYTES + chunk % SLAB_CHUNKS * CHUNK_BYTES;
    let page = PAGE_BYTES as u64;
    (start / page) as u32..((start + ITEM_BYTES - 1) / page + 1) as u32
}

/// The results of one round: operations, faults, the background write and counters.
#[derive(Clone, Debug, Default)]
struct Round {
    operations: u64,
    faults: Faults,
    write_started: Nanos,
    write_time: Nanos,
    counters: Vmstat,
    /// The first scan by reclaim at priority 0. It is `None` if the system does not show its engine, and `Some(None)`
    /// if the round had no such scan.
    priority_zero: Option<Option<PriorityZero>>,
}

impl Round {
    fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// The workload `parallelio`: a memcached that fits in memory, beside background writes of growing size.
#[derive(Debug)]
pub struct Parallelio;

impl Workload for Parallelio {
    type Params = Params;

    const NAME: &'static str = "parallelio";

    const ABOUT: &'static str = "a memcached that fits in memory, beside background writes of growing size";

    const SIM_ONLY: Option<&'static str> =
        Some("the time of its server's operations is fitted to a computer of 2013, and takes that computer's memory");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        if params.operation_ns.value == 0 || params.populate_ns.value == 0 {
            return Err("`operation_ns` and `populate_ns` must be above 0: no server answers in no time".to_owned());
        }
        if params.steps > STEPS_MAX {
            return Err(format!("`steps` is {}: must be at most {STEPS_MAX}", params.steps));
        }
        let Resources { memory_pages, used_pages, swap_pages } = *resources;
        let sizes = Sizes::of_memory(memory_pages);
        let needed = sizes.region_pages + used_pages;
        if needed > memory_pages + swap_pages {
            return Err(format!(
                "too small for parallelio: {memory_pages} pages of memory and {swap_pages} of swap, where the server \
                 takes {} and {used_pages} are in use before",
                sizes.region_pages
            ));
        }
        let apart = |pair: &[u64]| pair[0] >> 20 < pair[1] >> 20;
        if !sizes.writes(params.steps).windows(2).all(apart) {
            return Err(format!(
                "`steps` is {}: sizes of writes are less than 1 MiB apart, and rows are named after their MiB",
                params.steps
            ));
        }
        if sizes.items < 1000 {
            let Sizes { items, .. } = sizes;
            return Err(format!(
                "too small for parallelio: {memory_pages} pages hold {items} items, and 1000 are needed"
            ));
        }
        Ok(())
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let Params { settle_s, run_s, steps, write_delay_s, .. } = *params;
        let times = Times::of(params, scale);
        let items = Sizes::of_memory(resources.memory_pages).items;
        let populate_s = (u128::from(items) * u128::from(times.populate.0) / 1_000_000_000) as u64;
        let rounds = steps.saturating_add(2);
        let round_s = settle_s.saturating_add(run_s).saturating_add(populate_s);
        let operations = extent::times(run_s, times.operation.0).saturating_add(items);
        Extent {
            time_s: Some(round_s.saturating_mul(rounds)),
            wait_s: write_delay_s,
            operations: operations.saturating_mul(rounds),
            file_pages: 0,
        }
    }

    fn row_names(params: &Params, resources: &Resources) -> Option<Vec<RowName>> {
        let round = |bytes| (bytes, Round { priority_zero: Some(None), ..Round::default() });
        let sizes = Sizes::of_memory(resources.memory_pages);
        let rounds: Vec<(u64, Round)> = sizes.writes(params.steps).into_iter().map(round).collect();
        let samples = [figures::usage::DiskSample { avgqz: 1.0, await_ms: 1.0, r_await_ms: 1.0, w_await_ms: 1.0 }];
        let rows = [round_rows(&rounds, params), duration_rows(1.0, 1.0, 1.0), mmtests::iostat_rows("sda", &samples)];
        Some([names(rows.concat()), mmtests::vmstat_row_names()].concat())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let sizes = Sizes::of_memory(system.memory_pages());
        let times = Times::of(params, system.given().scale);
        let populate = Nanos(sizes.items * times.populate.0);
        let round = Nanos::from_secs(params.settle_s + params.run_s) + populate;
        let started = system.now();
        system.expect_end(started + Nanos(round.0 * (params.steps + 2)));
        let cpu_started = system.cpu_times();
        system.begin_measured();
        let counters = system.vmstat();
        // Samples taken before this point do not belong to this run.
        system.take_disk_samples();
        let mut profile = Vec::new();
        let mut seen = system.profile();
        // The warm-up is a round without a background write. Its figures are dropped.
        let (_, asked) = run_round(system, params, sizes, times, 0, 0)?;
        add_profile(&mut profile, "warm-up", &mut seen, system.profile());
        let mut rounds = Vec::new();
        let between = "memcached starts anew and is filled, without an operation for its client".to_owned();
        let step = |name: String, asked: Range<Nanos>| Step {
            name,
            from_s: asked.start.as_secs_f64(),
            to_s: asked.end.as_secs_f64(),
        };
        let mut steps = Steps { steps: vec![step("warm-up".into(), asked)], between };
        for (n, bytes) in sizes.writes(params.steps).into_iter().enumerate() {
            let (round, asked) = run_round(system, params, sizes, times, n as u64 + 1, bytes)?;
            let name = if bytes == 0 { "nothing copied".to_owned() } else { format!("{} MiB copied", bytes >> 20) };
            steps.steps.push(step(name, asked));
            rounds.push((bytes, round));
            add_profile(&mut profile, &format!("{}M", bytes >> 20), &mut seen, system.profile());
        }
        let elapsed_s = system.now().since(started).as_secs_f64();
        system.end_measured();
        let cpu = system.cpu_times().since(cpu_started);
        let (mut rows, diagnosis): (Vec<Row>, Vec<Row>) =
            round_rows(&rounds, params).into_iter().partition(|row| row.group == "Ops");
        rows.extend(duration_rows(cpu.user.as_secs_f64(), cpu.system.as_secs_f64(), elapsed_s));
        rows.extend(mmtests::vmstat_rows(&difference(&counters, &system.vmstat()), elapsed_s));
        rows.extend(mmtests::iostat_rows("sda", &system.take_disk_samples()));
        rows.extend(diagnosis);
        Ok(Measurements { rows, profile, steps, ..Measurements::default() })
    }
}

/// Durations of the client's operations in a run: the durations at full scale, divided by the scale of the run.
#[derive(Clone, Copy, Debug)]
struct Times {
    operation: Nanos,
    populate: Nanos,
}

impl Times {
    fn of(params: &Params, scale: Scale) -> Self {
        let at_scale = |ns: &Sourced<u64>| Nanos((ns.value as f64 / scale.as_f64()) as u64);
        Self { operation: at_scale(&params.operation_ns), populate: at_scale(&params.populate_ns) }
    }
}

fn round_rows(rounds: &[(u64, Round)], params: &Params) -> Vec<Row> {
    type Figure = fn(&Round, &Params) -> Option<f64>;
    let figures: [(&str, &str, &str, Better, Figure); 9] = [
        ("Ops", "memcachetest", "ops/s", Better::Higher, |round, params| {
            Some((round.operations / params.run_s.max(1)) as f64)
        }),
        ("Ops", "io-duration", "s", Better::Lower, |round, _| Some((round.write_time.0 / NANOS_PER_SECOND) as f64)),
        ("Ops", "swaptotal", "pages", Better::Lower, |round, _| {
            Some((round.counter("pswpin") + round.counter("pswpout")) as f64)
        }),
        ("Ops", "swapin", "pages", Better::Lower, |round, _| Some(round.counter("pswpin") as f64)),
        ("Ops", "minorfaults", "faults", Better::Lower, |round, _| {
            Some((round.counter("pgfault") - round.counter("pgmajfault")) as f64)
        }),
        ("Ops", "majorfaults", "faults", Better::Lower, |round, _| Some(round.counter("pgmajfault") as f64)),
        // The time from the start of the write to the first scan by reclaim at priority 0, and the number of inactive
        // anonymous pages at that scan. Both are 0 if there was no such scan. There are no rows if the system does not
        // show its engine.
        ("diagnosis", "priority0", "s", Better::Neutral, |round, _| {
            let time = |zero: PriorityZero| zero.at.since(round.write_started).as_secs_f64();
            Some(round.priority_zero?.map_or(0.0, time))
        }),
        ("diagnosis", "priority0-inactiveanon", "pages", Better::Neutral, |round, _| {
            Some(round.priority_zero?.map_or(0.0, |zero| zero.inactive_anon_pages as f64))
        }),
        ("diagnosis", "faultwait", "s", Better::Lower, |round, _| Some(round.faults.major_wait.as_secs_f64())),
    ];
    let mut rows = Vec::new();
    for (group, figure_name, unit, better, figure) in figures {
        for (bytes, round) in rounds {
            let label = if group == "Ops" { "Ops " } else { "" };
            let name = format!("{label}{figure_name}-{}M", bytes >> 20);
            let format = if figure_name == "priority0" { Format::Moment(2) } else { Format::Decimals(2) };
            let row = |value| Row::new(group, name, unit, better, format, value);
            rows.extend(figure(round, params).map(row));
        }
    }
    rows
}

/// Runs round number `round` with a background write of `write_bytes` bytes. Returns the round's results, and the
/// period in which the client queried the server.
fn run_round<S: System>(
    system: &S,
    params: &Params,
    sizes: Sizes,
    times: Times,
    round: u64,
    write_bytes: u64,
) -> Result<(Round, Range<Nanos>), SystemError> {
    let counters = system.vmstat();
    let take_priority_zero = || system.engine_view().map(EngineView::take_first_priority_zero);
    take_priority_zero();
    system.sleep(Nanos::from_secs(params.settle_s));
    // A server at the limit of its control group may be filled long before memory is.
    let filled = Arc::new(AtomicBool::new(false));
    let client = {
        let (run, filled) = (Nanos::from_secs(params.run_s), filled.clone());
        system.start("memcachetest", move |system| serve(system, run, sizes, times, system.rng(1000 + round), &filled))
    };
    let writer = (write_bytes > 0).then(|| {
        let delay = Nanos::from_secs(params.write_delay_s);
        system.start("dd", move |system| {
            write_behind(system, delay, sizes, write_bytes, system.rng(2000 + round), &filled)
        })
    });
    let served = client.join(system);
    let ended = system.now();
    let asked = Nanos(ended.0.saturating_sub(Nanos::from_secs(params.run_s).0))..ended;
    let counters = difference(&counters, &system.vmstat());
    let mut written = (Nanos(0), Nanos(0));
    if let Some(writer) = writer {
        written = writer.join(system)?;
        system.remove("background")?;
    }
    let ((operations, faults), (write_started, write_time)) = (served?, written);
    let priority_zero = take_priority_zero();
    Ok((Round { operations, faults, write_started, write_time, counters, priority_zero }, asked))
}

/// Runs server and client in one task: fills the server, then queries it for the time `run`. Returns the number of
/// queries done, and the task's faults during the queries.
fn serve<S: System>(
    system: &S,
    run: Nanos,
    sizes: Sizes,
    times: Times,
    mut rng: Rng,
    is_filled: &AtomicBool,
) -> Result<(u64, Faults), SystemError> {
    let memory = system.map(sizes.region_pages as u32)?;
    let mut chunks: Vec<u32> = (0..sizes.items as u32).collect();
    for &chunk in &chunks {
        system.compute(times.populate);
        system.touch(&memory, chunk_pages(u64::from(chunk)), true)?;
    }
    let filled = system.faults();
    is_filled.store(true, Ordering::Relaxed);
    // Chunks of a slab class are reused last in, first out.
    let mut free = sizes.items as u32;
    let end = system.now() + run;
    let mut operations = 0;
    // Progress counts the operations of all rounds.
    let progress = &system.given().progress;
    let before = progress.operations();
    let mut draw = || (rng.below(sizes.items) as usize, rng.below(100) < 33);
    let mut next = draw();
    while system.now() < end && !system.is_killed() {
        let (item, is_set) = std::mem::replace(&mut next, draw());
        let next_free = if is_set { chunks[item] } else { free };
        // If the next operation is on the same item, this is the wrong chunk, which only costs time.
        let next_chunk = if next.1 { next_free } else { chunks[next.0] };
        system.expect_touch(&memory, chunk_pages(u64::from(next_chunk)).start);
        system.compute(times.operation);
        if is_set {
            system.touch(&memory, chunk_pages(u64::from(free)), true)?;
            std::mem::swap(&mut free, &mut chunks[item]);
        } else {
            system.touch(&memory, chunk_pages(u64::from(chunks[item])), false)?;
        }
        operations += 1;
        progress.set_operations(before + operations);
    }
    let during = system.faults().since(filled);
    system.unmap(memory);
    Ok((operations, during))
}

/// Runs `dd`: waits until most of memory is in use or the server is filled, and for `delay` after that. Then writes
/// `bytes` bytes to a file and syncs the file. Returns the start and the duration of the write.
///
/// The benchmark's script checks memory every two seconds. A random delay from the run's seed decides when the first
/// check is, as if the script had been started by hand.
fn write_behind<S: System>(
    system: &S,
    delay: Nanos,
    sizes: Sizes,
    bytes: u64,
    mut rng: Rng,
    is_filled: &AtomicBool,
) -> Result<(Nanos, Nanos), SystemError> {
    let goal = sizes.memory_bytes / 5 * 4 / 5 * 4;
    system.sleep(Nanos(rng.below(2 * NANOS_PER_SECOND)));
    let is_early = || page_bytes(system.memory_pages() - system.free_pages()) < goal;
    while is_early() && !is_filled.load(Ordering::Relaxed) && !system.is_killed() {
        system.sleep(Nanos::from_secs(2));
    }
    system.sleep(delay);
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
    system.sync(&file)?;
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
    fn the_fitted_time_of_an_operation_is_the_inverse_of_the_printed_rate() {
        let experiment = catalogue::find::experiment("parallelio").unwrap();
        let params: Params = experiment.params.read().unwrap();
        let printed = experiment.published.unwrap().figure("Ops", "Ops memcachetest-0M", "3.10-rc4-vanilla").unwrap();
        assert_eq!(params.operation_ns.from, sim::Origin::Fitted);
        assert_eq!(params.operation_ns.value, (NANOS_PER_SECOND as f64 / printed.value) as u64);
    }

    #[test]
    fn a_time_without_an_origin_is_refused() {
        let wrong = |text: &str| {
            let node = placed::Node::parse("e.toml", text).unwrap();
            node.read::<Params>().unwrap_err().to_string()
        };
        assert_eq!(wrong("steps = 1\noperation_ns = 50_000\n"), "e.toml:2: expected a table, found 50000");
        assert_eq!(wrong("steps = 1\n"), "e.toml:1: key `operation_ns` is missing");
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
