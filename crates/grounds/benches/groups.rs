//! Measures what memory control groups cost the simulator: page events per second of CPU time, without groups, with one
//! group, and with 1,000 groups.
//!
//! Run: `cargo bench -p highwater-grounds`. An argument selects the lines whose names contain it, and
//! `HIGHWATER_BENCH_ROUNDS` sets the number of rounds (default 7). `cargo test` runs each side once at a small size,
//! silently.
//!
//! There are two workloads, both of random reads of a file larger than memory. In `randread`, 1,000 tasks read single
//! pages, and of 1,000 groups each holds one task. In `many`, one task reads 16 adjacent pages at a time, and enters the
//! group of these pages before. A read of `many` costs the simulator a fraction of a read of `randread`, so that groups
//! weigh more. No group has a limit, and the sides of a comparison differ only in the number of groups.
//!
//! The sides run in turns. Each line of the output first has a side's rates in millions per second of CPU time of the
//! simulating thread, medians of all rounds. *Page events* are pages allocated, freed, faulted, scanned, reclaimed and
//! moved between lists. *Reads* are the pages that the tasks read, of which each side reads equally many. Then come the
//! ratios of these rates to the rates without groups in the same round: median, lowest and highest. A ratio of 0.5 means
//! twice the CPU time. The two ratios differ where groups change how much reclaim a read needs. The aims for page events
//! are 0.98 with one group, and 0.5 with 1,000.

use catalogue::find;
use catalogue::group::{Group, MAIN};
use figures::scale::Scale;
use grounds::job::{Job, Outcome};
use kit::progress::Progress;
use placed::Node;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// The library's kernel, and the latest one of Linux. The second has generations.
const KERNELS: [&str; 2] = ["highwater", "7.2-mglru"];

/// The workloads.
const WORKLOADS: [&str; 2] = ["randread", "many"];

/// The sides of a comparison: the name of each, and its number of groups.
const SIDES: [(&str, u16); 3] = [("no groups", 0), ("1 group", 1), ("1,000 groups", 1000)];

/// Number of tasks of `randread`: one for each of 1,000 groups.
const TASKS: u64 = 1000;

/// The size of a run.
struct Size {
    scale: &'static str,
    /// Number of reads by each task of `randread`.
    reads_per_task: u64,
    /// Number of reads of `many`, percent of the number of pages in the file.
    read_percent: u64,
    rounds: usize,
}

const FULL: Size = Size { scale: "1", reads_per_task: 500, read_percent: 300, rounds: 7 };
const SMALL: Size = Size { scale: "1/16", reads_per_task: 20, read_percent: 100, rounds: 1 };

/// Returns the simulation of a workload on a kernel with `groups` control groups, and the number of pages that its tasks
/// read.
fn job(kernel: &str, workload: &str, groups: u16, size: &Size) -> (Job, u64) {
    let scale: Scale = size.scale.parse().expect("a fraction");
    let mut machine = find::machine("randread-512m").expect("the machine is embedded");
    let file_pages = 2 * scale.of(machine.memory.usable_pages());
    let Size { reads_per_task, read_percent, .. } = size;
    let (mut params, tasks, reads) = match workload {
        // The main task writes the file before it is read.
        "randread" => (
            format!("tasks = {TASKS}\noperations = {reads_per_task}\n"),
            vec!["*".to_owned(), MAIN.to_owned()],
            TASKS * reads_per_task,
        ),
        _ => (format!("file_percent = 200\nread_percent = {read_percent}\n"), vec![], file_pages * read_percent / 100),
    };
    if groups > 0 {
        machine.groups.push(Group { name: "job".into(), count: Some(groups), tasks, ..Group::default() });
        params += if workload == "many" { "group = 'job'\n" } else { "" };
    }
    let job = Job::simulated(
        workload,
        find::kernel(kernel).expect("the kernel is embedded"),
        Arc::new(machine),
        Node::parse("bench", &params).expect("it is TOML"),
        scale,
    );
    (job, reads)
}

/// Simulates a job on this thread. Returns the CPU time that this took, s, and the outcome.
fn simulate(job: &Job) -> (f64, Outcome) {
    let workload = grounds::find(&job.experiment).expect("the workload exists");
    let started = cpu_time();
    let outcome = workload.run(job, &Progress::default()).expect("the run ends");
    (cpu_time() - started, outcome)
}

/// Returns the CPU time of this thread so far, s.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the median, the lowest and the highest value.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

/// Runs all sides in turns, and returns a line for each. `name` is the beginning of the lines.
fn compare(name: &str, jobs: &[(Job, u64)], rounds: usize) -> Vec<String> {
    let mut outcomes = Vec::new();
    // For each round and side, the rates of page events and of reads, M/s.
    let mut rates: Vec<Vec<[f64; 2]>> = Vec::new();
    for _ in 0..rounds {
        let round: Vec<_> = jobs.iter().map(|(job, reads)| (simulate(job), *reads)).collect();
        let rates_of = |((cpu_s, outcome), reads): &((f64, Outcome), u64)| {
            [outcome.page_events, *reads].map(|count| count as f64 / 1e6 / cpu_s)
        };
        rates.push(round.iter().map(rates_of).collect());
        outcomes = round.into_iter().map(|((_, outcome), _)| outcome).collect();
    }
    let line = |(side, outcome): (usize, &Outcome)| {
        let [events, reads] = [0, 1].map(|what| {
            let [rate, ..] = spread(rates.iter().map(|round| round[side][what]).collect());
            let ratios = rates.iter().map(|round| round[side][what] / round[0][what]);
            let [ratio, low, high] = spread(ratios.collect());
            format!("{rate:6.3}, ratio {ratio:.3} ({low:.3} to {high:.3})")
        });
        let (groups, millions) = (SIDES[side].0, outcome.page_events as f64 / 1e6);
        let work = format!("{millions:.2} M page events, work {:016x}", outcome.fingerprint);
        format!("{name}, {groups:<12}  M page events/s {events}  M reads/s {reads}  {work}")
    };
    outcomes.iter().enumerate().map(line).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let filter = arguments.into_iter().find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut size = if is_bench { FULL } else { SMALL };
    if let Ok(rounds) = std::env::var("HIGHWATER_BENCH_ROUNDS") {
        size.rounds = rounds.parse().ok().filter(|rounds| *rounds > 0).expect("a number of rounds");
    }
    for (workload, kernel) in WORKLOADS.iter().flat_map(|workload| KERNELS.map(|kernel| (workload, kernel))) {
        let name = format!("{workload}, {kernel}");
        if !name.contains(&filter) {
            continue;
        }
        let jobs = SIDES.map(|(_, groups)| job(kernel, workload, groups, &size));
        for line in compare(&name, &jobs, size.rounds) {
            if is_bench {
                println!("{line}");
            }
        }
    }
}
