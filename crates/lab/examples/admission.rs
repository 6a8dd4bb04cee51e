//! Costs and gains of the choice `lru.admission`, which decides whether a page that was read goes on an LRU list. The
//! example counts reads of the disk under many access patterns. It runs the kernel `highwater` on the simulator with
//! each of two values of the choice.
//!
//! Run `cargo run --release --package highwater-lab --example admission [PATTERN]`. With PATTERN, only patterns with
//! this text in their names are run. With `--plot FILE.svg`, the example instead draws how reads of the disk grow with
//! the amount of data. With `--constants`, it instead tries other values for each constant of the rule, on the model of
//! the rule without an engine ([`HighwaterModel`]).

use engine::lru::AdmissionRule;
use engine::lru::policy::Replay;
use engine::lru::policy::classic::HighwaterModel;
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::{Engine, ReadPattern, ReadState, Task, memory::Layout};
use lab::find;
use lab::plot::lines::{Lines, Panel};
use machine::{DeviceId, PAGE_BYTES};
use sim::{Config, Sim};
use std::{cell::RefCell, error::Error, rc::Rc};
use trace::synth::{Settings, Synth};

/// Size of memory, pages.
const MEMORY: u64 = 8192;

/// Number of reads of each pattern: fifty for each page of memory.
const READS: u64 = 50 * MEMORY;

/// The access patterns: the name of each, and the patterns of `highwater trace synth` that make its reads.
const PATTERNS: [(&str, &str); 20] = [
    ("uniform, 2 x memory", "uniform:pages=16384"),
    ("uniform, 4 x memory", "uniform:pages=32768"),
    ("uniform, 8 x memory", "uniform:pages=65536"),
    ("zipf 0.7, 4 x memory", "zipf:pages=32768,theta=0.7"),
    ("zipf 0.9, 4 x memory", "zipf:pages=32768,theta=0.9"),
    ("zipf 1.2, 4 x memory", "zipf:pages=32768,theta=1.2"),
    ("all twice, after 5 %", "twice:after=409"),
    ("all twice, after 20 %", "twice:after=1638"),
    ("all twice, after 50 %", "twice:after=4096"),
    ("a third twice, after 20 %", "twice:after=1638,again=0.33"),
    ("round, 0.9 x memory", "loop:pages=7372"),
    ("round, 1.2 x memory", "loop:pages=9830"),
    ("round, 1.5 x memory", "loop:pages=12288"),
    ("round, 2 x memory", "loop:pages=16384"),
    ("shifting, 0.5 x memory", "uniform:pages=4096,shift-every=40960,shift-by=4096"),
    ("shifting, 0.9 x memory", "uniform:pages=7372,shift-every=40960,shift-by=7372"),
    ("0.7 x memory beside a stream", "uniform:pages=5734 scan"),
    ("recent, 0.5 x memory", "recent:after=4096"),
    ("recent, 1 x memory", "recent:after=8192"),
    ("recent, 2 x memory", "recent:after=16384"),
];

/// Returns the reads of the patterns `text`.
fn synth(text: &str) -> Result<Synth, String> {
    let patterns = text.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    Synth::new(patterns, Settings { requests: READS, ..Settings::default() })
}

/// The result of running a pattern of reads: the number of reads, the number of pages read from the disk (`missed`),
/// and the number of pages reclaimed.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    reads: u64,
    missed: u64,
    reclaimed: u64,
}

fn read(text: &str, admission: &str) -> Result<Found, Box<dyn Error>> {
    let kernel = find::kernel(&format!("highwater+lru.admission={admission}"))?;
    let file = find::machine("randread-512m")?;
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
    let (found, mut reads) = (result.clone(), synth(text)?);
    sim.run("main", move || {
        let mut task = Task::user();
        let files: Vec<_> = reads.files().iter().map(|_| program.page_cache().create_file(DeviceId(0))).collect();
        for file in &files {
            let bytes = 60 * MEMORY * PAGE_BYTES as u64;
            assert!(program.writeback().allocate_blocks(file, bytes), "the disk has room");
        }
        let mut page_bytes = [0; PAGE_BYTES];
        *found.borrow_mut() = reads.try_fold(0, |done, request| {
            let mut state = ReadState::default();
            state.pattern = ReadPattern::Random;
            let file = &files[request.file as usize];
            program.access().read(&mut task, file, &mut state, request.offset, &mut page_bytes).map(|_| done + 1)
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

/// The patterns of reads for which [`curves`] makes a panel with lines over the amount of data: a title, and the
/// pattern up to its number of pages.
const CURVES: [(&str, &str); 3] = [
    ("Read round and round", "loop:pages="),
    ("Read at random, all alike", "uniform:pages="),
    ("Read at random, some far more often (zipf 0.9)", "zipf:theta=0.9,pages="),
];

/// Makes a plot of the share of reads that reach the disk (vertical axis) for several amounts of data (horizontal
/// axis). There is a line for each value of `lru.admission`, and a panel for each pattern of reads.
fn curves() -> Result<Lines, Box<dyn Error>> {
    let admissions = ["always", "by-refault"];
    // Amounts of data, in percent of memory.
    let sizes = [50, 80, 90, 100, 110, 120, 135, 150, 175, 200, 250, 300, 400];
    let mut panels = Vec::new();
    for (name, pattern) in CURVES {
        let line = |admission: &&str| -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
            let point = |size: &u64| {
                let found = read(&format!("{pattern}{}", MEMORY * size / 100), admission)?;
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

/// A constant of the rule: its name, its chosen value, and a function that sets it.
type Constant = (&'static str, u32, fn(&mut AdmissionRule, u32));

/// Returns the constants of the rule, each with the values to try in place of the chosen one.
fn constants() -> [(Constant, &'static [u32]); 9] {
    let chosen = AdmissionRule::CHOSEN;
    [
        (("missed_part", chosen.missed_part, |rule, value| rule.missed_part = value), &[1, 3, 4]),
        (("percent_as_often", chosen.percent_as_often, |rule, value| rule.percent_as_often = value), &[100, 125, 200]),
        (("few_missed", chosen.few_missed, |rule, value| rule.few_missed = value), &[2, 64]),
        (("halved_part", chosen.halved_part, |rule, value| rule.halved_part = value), &[2, 8, 16]),
        (("probe_every", chosen.probe_every, |rule, value| rule.probe_every = value), &[16, 64]),
        (("listed_every", chosen.listed_every, |rule, value| rule.listed_every = value), &[4, 16, 32]),
        (("waiting_most", chosen.waiting_most, |rule, value| rule.waiting_most = value), &[14, 32]),
        (("waiting_part", chosen.waiting_part, |rule, value| rule.waiting_part = value), &[128, 256]),
        (("least_held_part", chosen.least_held_part, |rule, value| rule.least_held_part = value), &[2, 32]),
    ]
}

/// Runs each of `patterns` on the model of the rule with the constants `rule`. Returns the share of reads that went to
/// the disk and the share of pages that were evicted from lists, both in percent of the reads, for each pattern.
fn modelled(patterns: &[(&str, Vec<u32>)], rule: AdmissionRule) -> Vec<[f64; 2]> {
    let run = |(_, keys): &(&str, Vec<u32>)| {
        let memory = u32::try_from(MEMORY).expect("a small memory");
        let highest = keys.iter().max().expect("a pattern has reads");
        let mut replay = Replay::new(HighwaterModel::with_rule(memory, rule), memory, highest + 1);
        let hits = replay.run(keys);
        let reads = keys.len() as f64;
        [reads - hits as f64, replay.policy().evicted_from_lists() as f64].map(|pages| 100.0 * pages / reads)
    };
    patterns.iter().map(run).collect()
}

/// Returns the pages that a pattern reads, as numbers without gaps for each file.
fn keys(text: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    let reads = synth(text)?;
    let file_pages = u32::try_from(60 * MEMORY)?;
    reads.map(|read| Ok(read.file * file_pages + u32::try_from(read.offset / PAGE_BYTES as u64)?)).collect()
}

/// Prints a table with a line for each value of each constant: how the reads that go to the disk change.
fn print_constants() -> Result<(), Box<dyn Error>> {
    let keys = |(name, text): &(&'static str, &str)| Ok::<_, Box<dyn Error>>((*name, keys(text)?));
    let patterns = PATTERNS.iter().map(keys).collect::<Result<Vec<_>, _>>()?;
    let uniform = PATTERNS.iter().position(|(name, _)| *name == "uniform, 4 x memory").ok_or("the pattern is gone")?;
    let chosen = modelled(&patterns, AdmissionRule::CHOSEN);
    let mean = |found: &[[f64; 2]]| found.iter().map(|[read, _]| read).sum::<f64>() / found.len() as f64;
    println!(
        "| constant | value | read from the disk, mean | largest rise, points | largest fall, points | evicted from lists |"
    );
    println!("| --- | ---: | ---: | --- | --- | ---: |");
    println!("| all as chosen | | {:.2} % | | | {:.1} % |", mean(&chosen), chosen[uniform][1]);
    for ((name, value, set), others) in constants() {
        for other in others {
            let mut rule = AdmissionRule::CHOSEN;
            set(&mut rule, *other);
            let found = modelled(&patterns, rule);
            let mut changes: Vec<(f64, &str)> = patterns
                .iter()
                .zip(found.iter().zip(&chosen))
                .map(|((name, _), (new, old))| (new[0] - old[0], *name))
                .collect();
            changes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let told = |(points, name): (f64, &str)| format!("{points:+.2} ({name})");
            let fall = changes.first().filter(|change| change.0 <= -0.005).map_or_else(String::new, |fall| told(*fall));
            let rise = changes.last().filter(|change| change.0 >= 0.005).map_or_else(String::new, |rise| told(*rise));
            let mean = mean(&found);
            println!("| `{name}`, {value} | {other} | {mean:.2} % | {rise} | {fall} | {:.1} % |", found[uniform][1]);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    if wanted == "--constants" {
        return print_constants();
    }
    if wanted == "--plot" {
        let file = arguments.next().ok_or("--plot FILE.svg")?;
        return Ok(std::fs::write(file, curves()?.draw())?);
    }
    println!("| pattern | read from the disk, `always` | `by-refault` | reclaimed, `always` | `by-refault` |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (name, pattern) in PATTERNS.iter().filter(|(name, _)| name.contains(&wanted)) {
        let [always, by_refault] = [read(pattern, "always")?, read(pattern, "by-refault")?];
        let part = |pages: u64| 100.0 * pages as f64 / always.reads as f64;
        let [a, b, c, d] = [always.missed, by_refault.missed, always.reclaimed, by_refault.reclaimed].map(part);
        println!("| {name} | {a:.2} % | {b:.2} % | {c:.1} % | {d:.1} % |");
    }
    Ok(())
}

#[test]
fn a_round_that_is_too_large_keeps_half_of_memory_at_least() {
    let [always, by_refault] = ["always", "by-refault"].map(|admission| read("loop:pages=16384", admission).unwrap());
    assert!(always.missed == always.reads && by_refault.missed < always.reads * 3 / 4, "{always:?} {by_refault:?}");
}
