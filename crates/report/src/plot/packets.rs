//! Pictures of the work that delays packets. A picture shows the part of virtual time around the first run's longest
//! period with interrupts off. It shows this part for each run.

use super::canvas::{Ink, Key, Mark};
use super::timeline::{Bar, Panel, Timeline, Track};
use crate::table::Table;
use catalogue::experiment::Experiment;
use figures::trace::RunTrace;
use machine::Nanos;
use sim::trace::{Activity, Slice};

const OFF: Ink = Ink::of(0);
const REQUEST: Ink = Ink::of(1);
const PACKET: Ink = Ink::of(2);
const WAIT: Ink = Ink::of(3);
const DONE: Ink = Ink::of(5);
const ENDED: Ink = Ink::of(4);

/// Margin of the picture before the longest period with interrupts off, and again after it, as a share of the length of
/// this period.
const AROUND: f64 = 0.15;

/// Returns a picture of the work that delays packets. It shows one run of each column of the table: that with the first
/// seed.
#[must_use]
pub fn picture(experiment: &Experiment, table: &Table, runs: &[RunTrace]) -> Timeline {
    let runs: Vec<&RunTrace> = runs.iter().step_by(table.seeds.len().max(1)).collect();
    let longest = runs.first().and_then(|run| longest(&run.trace.slices, None));
    let (cpu, from, to) = longest.unwrap_or((0, 0.0, 1.0));
    let around = (to - from) * AROUND;
    let range = ((from - around).max(0.0), to + around);
    let key = |ink, name: &str| Key { mark: Mark::Area, ink, name: name.into() };
    let mut about = vec![experiment.about.clone(), table.footer()];
    about.extend(runs.iter().filter_map(|run| run.warning()));
    Timeline {
        title: format!("{}: what packets wait for", experiment.name),
        about,
        keys: vec![
            key(OFF, "interrupts off"),
            key(ENDED, "handler ends a command"),
            key(WAIT, "waits for the LRU lock"),
            key(PACKET, "packet, until it is answered"),
            key(REQUEST, "disk request"),
            key(DONE, "done, waits for the CPU"),
        ],
        across: "virtual time, s".into(),
        range,
        panels: runs.iter().map(|run| panel(run, cpu, range)).collect(),
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// Returns the longest span in which a CPU had its interrupts disabled: the CPU, and the span's start and end, s. A
/// span counts only if it began before the last packet was done, and if it overlaps `range`, where a range is given.
/// Returns none if no span counts.
fn longest(slices: &[Slice], range: Option<(f64, f64)>) -> Option<(usize, f64, f64)> {
    let packets = slices.iter().filter(|slice| matches!(slice.what, Activity::Packet { .. }));
    let last = packets.map(|slice| slice.to).max()?;
    let off = slices.iter().filter(|slice| slice.from <= last).filter_map(|slice| match slice.what {
        Activity::InterruptsOff { cpu, .. } => Some((cpu, slice.from, slice.to)),
        _ => None,
    });
    let is_in = |from, to| range.is_none_or(|(begin, end)| seconds(to) > begin && seconds(from) < end);
    let off = off.filter(|(_, from, to)| is_in(*from, *to)).max_by_key(|(_, from, to)| to.0 - from.0);
    off.map(|(cpu, from, to)| (cpu, seconds(from), seconds(to)))
}

fn panel(run: &RunTrace, cpu: usize, range: (f64, f64)) -> Panel {
    let (begin, end) = range;
    let bar = |from: Nanos, to: Nanos, ink| Bar { from: seconds(from).max(begin), to: seconds(to).min(end), ink };
    let shown = || run.trace.slices.iter().filter(|slice| seconds(slice.to) > begin && seconds(slice.from) < end);
    let bars = |what: &dyn Fn(&Activity) -> Option<Ink>| -> Vec<Bar> {
        shown().filter_map(|slice| Some(bar(slice.from, slice.to, what(&slice.what)?))).collect()
    };
    let mut off = bars(&|what| matches!(what, Activity::InterruptsOff { cpu: of, .. } if *of == cpu).then_some(OFF));
    off.sort_by(|a, b| a.from.total_cmp(&b.from));
    let ended = |what: &Activity| matches!(what, Activity::Interrupt { cpu: of, disk: Some(_), .. } if *of == cpu);
    let waits =
        |what: &Activity| matches!(what, Activity::LockWait { cpu: of, class } if *of == cpu && *class == "lru");
    let packets = shown().filter(|slice| matches!(slice.what, Activity::Packet { .. }));
    let packets = packets.map(|slice| vec![bar(slice.from, slice.to, PACKET)]).collect();
    let mut requests: Vec<&Slice> = shown().filter(|slice| matches!(slice.what, Activity::Request { .. })).collect();
    requests.sort_by_key(|slice| (slice.from, slice.to));
    let mut lanes: Vec<(Nanos, Vec<Bar>)> = Vec::new();
    for slice in requests {
        let Activity::Request { done, .. } = slice.what else { continue };
        let lane = lanes.iter().position(|(free, _)| *free <= slice.from).unwrap_or(lanes.len());
        if lane == lanes.len() {
            lanes.push((Nanos(0), Vec::new()));
        }
        let (free, bars) = &mut lanes[lane];
        *free = slice.to;
        if seconds(done) > begin {
            bars.push(bar(slice.from, done, REQUEST));
        }
        if done < slice.to && seconds(done) < end {
            bars.push(bar(done, slice.to, DONE));
        }
    }
    let one = |name: &str, height, lanes| Track { name: name.into(), height, lanes };
    let mark = longest(&run.trace.slices, Some(range)).map(|(_, from, to)| {
        let words = format!("{:.1} ms without interrupts", 1000.0 * (to - from));
        (from.max(begin), to.min(end), words)
    });
    // A gap is left between commands that follow each other at once.
    let commands: Vec<Bar> = bars(&|what| ended(what).then_some(ENDED));
    Panel {
        caption: run.title.clone(),
        mark,
        tracks: vec![
            one(&format!("CPU {cpu}: interrupts off"), 20, vec![off]),
            one("ends commands", 10, vec![commands]),
            one("waits for the LRU lock", 10, vec![bars(&|what| waits(what).then_some(WAIT))]),
            one("packets", 12, packets),
            one("disk requests", 2, lanes.into_iter().map(|(_, bars)| bars).collect()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{DeviceId, Operation};
    use sim::trace::Trace;

    #[test]
    fn the_longest_time_without_interrupts_is_in_the_middle_with_what_waited() {
        let slice = |from: u64, to: u64, what| Slice { from: Nanos(from * 1_000_000), to: Nanos(to * 1_000_000), what };
        let (disk, operation) = (DeviceId(0), Operation::Write);
        let done = Nanos(1_100_000_000);
        let request = Activity::Request { disk, operation, block: 1, pages: 128, done, has_failed: false };
        let slices = vec![
            slice(5, 6, Activity::InterruptsOff { cpu: 0, cause: "interrupt" }),
            slice(1000, 1200, Activity::InterruptsOff { cpu: 0, cause: "interrupt" }),
            slice(1050, 1200, Activity::Packet { number: 1 }),
            slice(1000, 1200, request),
            slice(3000, 4000, Activity::InterruptsOff { cpu: 0, cause: "interrupt" }),
        ];
        let run = RunTrace { title: "old".into(), trace: Trace { slices, cpus: 1, ..Trace::default() } };
        let experiment = catalogue::find::experiment("ping").unwrap();
        let table = Table::of_runs(crate::samples::head(&["old"], 1), &[], None);
        let found = picture(&experiment, &table, &[run]);
        assert!((found.range.0 - 0.97).abs() < 1e-9 && (found.range.1 - 1.23).abs() < 1e-9, "{:?}", found.range);
        let panel = &found.panels[0];
        assert_eq!(panel.mark.as_ref().unwrap().2, "200.0 ms without interrupts");
        let bars: Vec<usize> = panel.tracks.iter().map(|track| track.lanes.iter().map(Vec::len).sum()).collect();
        assert_eq!(bars, [1, 0, 0, 1, 2], "the request is done before its CPU ends it");
    }
}
