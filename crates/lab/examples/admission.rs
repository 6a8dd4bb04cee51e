//! Costs and gains of the choice `lru.admission`, which decides whether a page that was read goes on an LRU list. The
//! example counts reads of the disk under many access patterns. It runs the kernel `highwater` on the simulator with
//! each of two values of the choice.
//!
//! Run `cargo run --release --package highwater-lab --example admission [PATTERN]`. With PATTERN, only patterns with
//! this text in their names are run. With `--plot FILE.svg`, the example instead draws how reads of the disk grow with
//! the amount of data.

use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::{Engine, ReadPattern, ReadState, Task, memory::Layout};
use lab::choose::{Chooser, Distribution};
use lab::library;
use lab::plot::lines::{Lines, Panel};
use machine::{DeviceId, PAGE_BYTES};
use sim::{Config, Rng, Sim};
use std::{cell::RefCell, error::Error, rc::Rc};

/// Size of memory, pages.
const MEMORY: u64 = 8192;

/// The numbers of the pages that are read, in the order of the reads.
type Reads = Box<dyn Iterator<Item = u64>>;

/// An access pattern: its name, and a function that returns the page numbers of its reads, drawn with the given random
/// numbers.
struct Pattern {
    name: &'static str,
    reads: fn(Rng) -> Reads,
}

/// Returns `of_memory` percent of memory, in pages.
const fn percent(of_memory: u64) -> u64 {
    MEMORY * of_memory / 100
}

fn drawn(chooser: Chooser, mut rng: Rng) -> Reads {
    Box::new((0..50 * MEMORY).map(move |_| chooser.next(&mut rng)))
}

fn uniform(pages: u64, rng: Rng) -> Reads {
    drawn(Chooser::new(Distribution::Uniform, 0.0, pages), rng)
}

fn zipf(theta: f64, rng: Rng) -> Reads {
    drawn(Chooser::new(Distribution::Zipf, theta, 4 * MEMORY), rng)
}

/// Returns a sequence of page reads. Each page is read once; then, with a probability of `chance` percent, it is read a
/// second time, after the first reads of `later` other pages.
fn twice(later: u64, chance: u64, mut rng: Rng) -> Reads {
    Box::new((0..25 * MEMORY).flat_map(move |page| {
        let again = page.checked_sub(later).filter(|_| rng.below(100) < chance);
        [Some(page), again].into_iter().flatten()
    }))
}

fn round(pages: u64) -> Reads {
    Box::new((0..50 * MEMORY).map(move |n| n % pages))
}

/// Returns reads of random pages in a set of `pages` pages, all equally likely. After every `5 * MEMORY` reads, a set
/// of other pages replaces the set.
fn shifting(pages: u64, mut rng: Rng) -> Reads {
    Box::new((0..50 * MEMORY).map(move |n| n / (5 * MEMORY) * pages + rng.below(pages)))
}

/// Returns a sequence of page reads. Every second read is of a random page of a set of `pages` pages. Each other read
/// is of a page that is read only this once.
fn beside_stream(pages: u64, mut rng: Rng) -> Reads {
    Box::new((0..50 * MEMORY).map(move |n| if n % 2 == 0 { rng.below(pages) } else { pages + n }))
}

/// Returns reads of which four in five repeat an earlier one. The distance to the earlier read is exponentially
/// distributed with a mean of `reads` reads.
fn recent(reads: u64, mut rng: Rng) -> Reads {
    let mut history: Vec<u64> = Vec::new();
    let mut new = 0;
    Box::new((0..50 * MEMORY).map(move |_| {
        let part = (rng.below(1 << 32) as f64 + 1.0) / (1_u64 << 32) as f64;
        let ago = (-part.ln() * reads as f64) as usize;
        let page = match history.len().checked_sub(ago + 1) {
            Some(at) if rng.below(5) > 0 => history[at],
            _ => {
                new += 1;
                new - 1
            }
        };
        history.push(page);
        page
    }))
}

const PATTERNS: [Pattern; 20] = [
    Pattern { name: "uniform, 2 x memory", reads: |rng| uniform(2 * MEMORY, rng) },
    Pattern { name: "uniform, 4 x memory", reads: |rng| uniform(4 * MEMORY, rng) },
    Pattern { name: "uniform, 8 x memory", reads: |rng| uniform(8 * MEMORY, rng) },
    Pattern { name: "zipf 0.7, 4 x memory", reads: |rng| zipf(0.7, rng) },
    Pattern { name: "zipf 0.9, 4 x memory", reads: |rng| zipf(0.9, rng) },
    Pattern { name: "zipf 1.2, 4 x memory", reads: |rng| zipf(1.2, rng) },
    Pattern { name: "all twice, after 5 %", reads: |rng| twice(percent(5), 100, rng) },
    Pattern { name: "all twice, after 20 %", reads: |rng| twice(percent(20), 100, rng) },
    Pattern { name: "all twice, after 50 %", reads: |rng| twice(percent(50), 100, rng) },
    Pattern { name: "a third twice, after 20 %", reads: |rng| twice(percent(20), 33, rng) },
    Pattern { name: "round, 0.9 x memory", reads: |_| round(percent(90)) },
    Pattern { name: "round, 1.2 x memory", reads: |_| round(percent(120)) },
    Pattern { name: "round, 1.5 x memory", reads: |_| round(percent(150)) },
    Pattern { name: "round, 2 x memory", reads: |_| round(2 * MEMORY) },
    Pattern { name: "shifting, 0.5 x memory", reads: |rng| shifting(percent(50), rng) },
    Pattern { name: "shifting, 0.9 x memory", reads: |rng| shifting(percent(90), rng) },
    Pattern { name: "0.7 x memory beside a stream", reads: |rng| beside_stream(percent(70), rng) },
    Pattern { name: "recent, 0.5 x memory", reads: |rng| recent(percent(50), rng) },
    Pattern { name: "recent, 1 x memory", reads: |rng| recent(MEMORY, rng) },
    Pattern { name: "recent, 2 x memory", reads: |rng| recent(2 * MEMORY, rng) },
];

/// The result of running a pattern of reads: the number of reads, the number of pages read from the disk (`missed`),
/// and the number of pages reclaimed.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    reads: u64,
    missed: u64,
    reclaimed: u64,
}

fn read(reads: impl FnOnce(Rng) -> Reads, admission: &str) -> Result<Found, Box<dyn Error>> {
    let kernel = library::kernel(&format!("highwater+lru.admission={admission}"))?;
    let file = library::machine("randread-512m")?;
    let disks = vec![file.disks[0].device.clone()];
    let devices = [DeviceLayout { file_blocks: 1000..16_000_000 }];
    let swap = SwapLayout { device: DeviceId(0), first_block: 1, slots: 0, is_synchronous: false, memory_percent: 0 };
    let sim = Sim::new(Config { cost: file.cost, disks, seed: 1, ..Config::uniform(2, 0) });
    let engine = Rc::new(Engine::new(sim.clone(), &kernel.choices, &Layout::flat(MEMORY), &devices, swap)?);
    sim.attach(engine.clone());
    for task in engine.kernel_tasks() {
        let engine = engine.clone();
        sim.spawn(&task.name(), move || engine.run(task));
    }
    let (program, result) = (engine.clone(), Rc::new(RefCell::new(Ok(0))));
    let (found, reads) = (result.clone(), reads(Rng::new(1, 1)));
    sim.run("main", move || {
        let mut task = Task::user();
        let file = program.page_cache().create_file(DeviceId(0));
        assert!(program.writeback().allocate_blocks(&file, 60 * MEMORY * PAGE_BYTES as u64), "the disk has room");
        let mut page_bytes = [0; PAGE_BYTES];
        *found.borrow_mut() = reads.enumerate().try_fold(0, |_, (n, page)| {
            let mut state = ReadState::default();
            state.pattern = ReadPattern::Random;
            let offset = page * PAGE_BYTES as u64;
            program.access().read(&mut task, &file, &mut state, offset, &mut page_bytes).map(|_| n as u64 + 1)
        });
    })?;
    let reads = result.borrow().clone()?;
    let vmstat = engine.vmstat();
    Ok(Found {
        reads,
        missed: vmstat["pgpgin"] / 4,
        reclaimed: vmstat["pgsteal_kswapd_normal"] + vmstat["pgsteal_direct_normal"],
    })
}

/// The name of a pattern of reads, and a function that makes the reads for a given number of pages.
type Curve = (&'static str, fn(u64, Rng) -> Reads);

/// The patterns of reads for which [`curves`] makes a panel with lines over the amount of data.
const CURVES: [Curve; 3] = [
    ("Read round and round", |pages, _| round(pages)),
    ("Read at random, all alike", uniform),
    ("Read at random, some far more often (zipf 0.9)", |pages, rng| {
        drawn(Chooser::new(Distribution::Zipf, 0.9, pages), rng)
    }),
];

/// Makes a plot of the share of reads that reach the disk (vertical axis) for several amounts of data (horizontal
/// axis). There is a line for each value of `lru.admission`, and a panel for each pattern of reads.
fn curves() -> Result<Lines, Box<dyn Error>> {
    let admissions = ["always", "by-refault"];
    // Amounts of data, in percent of memory.
    let sizes = [50, 80, 90, 100, 110, 120, 135, 150, 175, 200, 250, 300, 400];
    let mut panels = Vec::new();
    for (name, reads) in CURVES {
        let line = |admission: &&str| -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
            let point = |size: &u64| {
                let found = read(|rng| reads(percent(*size), rng), admission)?;
                Ok((*size as f64 / 100.0, 100.0 * found.missed as f64 / found.reads as f64))
            };
            sizes.iter().map(point).collect()
        };
        let lines = admissions.iter().map(line).collect::<Result<_, _>>()?;
        panels.push(Panel { caption: format!("{name}: read from the disk, % of all reads"), lines });
    }
    Ok(Lines {
        title: "lru.admission: which reads go to the disk".into(),
        about: vec![
            "kernel highwater · 32 MiB of memory · 50 reads for each page of memory, the first fill included".into(),
        ],
        names: admissions.map(|admission| format!("admission = {admission}")).into(),
        across: "pages that are read, in sizes of memory".into(),
        panels,
        ..Lines::default()
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    if wanted == "--plot" {
        let file = arguments.next().ok_or("--plot FILE.svg")?;
        return Ok(std::fs::write(file, curves()?.draw())?);
    }
    println!("| pattern | read from the disk, `always` | `by-refault` | reclaimed, `always` | `by-refault` |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for pattern in PATTERNS.iter().filter(|pattern| pattern.name.contains(&wanted)) {
        let [always, by_refault] = [read(pattern.reads, "always")?, read(pattern.reads, "by-refault")?];
        let part = |pages: u64| 100.0 * pages as f64 / always.reads as f64;
        let [a, b, c, d] = [always.missed, by_refault.missed, always.reclaimed, by_refault.reclaimed].map(part);
        println!("| {} | {a:.2} % | {b:.2} % | {c:.1} % | {d:.1} % |", pattern.name);
    }
    Ok(())
}

#[test]
fn a_round_that_is_too_large_keeps_half_of_memory_at_least() {
    let pattern = PATTERNS.iter().find(|pattern| pattern.name == "round, 2 x memory").unwrap();
    let [always, by_refault] = ["always", "by-refault"].map(|admission| read(pattern.reads, admission).unwrap());
    assert!(always.missed == always.reads && by_refault.missed < always.reads * 3 / 4, "{always:?} {by_refault:?}");
}
