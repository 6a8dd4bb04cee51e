//! A flood ping from another machine, while memory hogs swap (posting of Hisashi Hifumi, 2007;
//! mechanisms/benchmarks, 1.5).
//!
//! The sender does not wait for answers and sends one packet per interval. A period with interrupts off that lies
//! between two packets delays no packet. The report therefore also lists these periods, and computes the largest round
//! trip that they would cause if the packets were sent at other moments of the interval.

use crate::extent::{Extent, TIME_MAX_S};
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::stat::Vmstat;
use figures::counters::difference;
use figures::figure::{Better, Format, Row, RowName, duration_rows, names};
use figures::histogram::Times;
use figures::locks::mask_rows;
use figures::scale::Scale;
use hdrhistogram::Histogram;
use machine::Nanos;
use serde::{Deserialize, Serialize};
use sim::{CpuStatistics, MaskStatistics, OffWindow, RoundTrip, Sim, Sourced};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Parameters of the workload `ping`, from `[params]` in an experiment's file. A parameter that the posting states
/// (Hisashi Hifumi, 2007) has the posting's value as its default; a parameter with an assumed value has no default.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of packets. Default 3000.
    #[serde(default = "packets")]
    pub packets: u32,
    /// Time between two packets, ns.
    pub interval_ns: Sourced<u64>,
    /// Number of hogs, the tasks that write memory.
    pub hogs: Sourced<u64>,
    /// Time between the starts of two successive hogs, ms.
    pub apart_ms: Sourced<u64>,
    /// Amount of memory that all hogs together write, percent of the machine's memory.
    pub percent: Sourced<u64>,
    /// CPU time that a hog spends on one page, ns.
    pub page_ns: Sourced<u64>,
    /// Time from the first swap-out of a page until the run counts as steady, seconds. Default 5.
    #[serde(default = "steady_after")]
    pub steady_after_s: u64,
}

fn packets() -> u32 {
    3000
}

fn steady_after() -> u64 {
    5
}

/// Number of pages that a hog touches between two checks whether it must end.
const PIECE: u32 = 256;

/// Interval at which the workload checks whether any page has been swapped out since the start.
const LOOK_EVERY: Nanos = Nanos::from_millis(10);

/// Longest time for which the workload waits for missing answers after the last packet was sent.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// The start of each hog is delayed by a random time below this, ns, because people do not start programs to the
/// microsecond.
const START_WITHIN: u64 = 1_000_000;

/// Number of series of packets for which [`max_by_phase`] computes the largest round trip; it returns the median. The
/// packets are not sent. A series has one packet per interval. Each series starts later than the one before by an equal
/// part of the interval.
const PHASES: u64 = 20;

/// Longest duration of any part of this workload.
const LONGEST: Nanos = Nanos::from_secs(TIME_MAX_S);

/// The workload `ping`: another computer sends a flood ping to this one, while tasks write more pages than fit into
/// memory.
#[derive(Debug)]
pub struct Ping;

impl Workload for Ping {
    type Params = Params;

    const NAME: &'static str = "ping";

    const ABOUT: &'static str = "a flood ping from another computer, beside tasks that write more than memory";

    const SIM_ONLY: Option<&'static str> = Some("only a simulated machine has a simulated network card");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let Resources { memory_pages, used_pages, swap_pages } = *resources;
        let positive = [
            ("packets", params.packets.into()),
            ("interval_ns", params.interval_ns.value),
            ("page_ns", params.page_ns.value),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("`{name}` must be above 0"));
        }
        let hogs = params.hogs.value;
        let times = [
            ("interval_ns", params.interval_ns.value.checked_mul(params.packets.into())),
            ("apart_ms", params.apart_ms.value.checked_mul(1_000_000).and_then(|ns| ns.checked_mul(hogs))),
            ("steady_after_s", params.steady_after_s.checked_mul(1_000_000_000)),
            ("page_ns", Some(params.page_ns.value)),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_none_or(|ns| ns > LONGEST.0)) {
            return Err(format!("`{name}` makes the run longer than {} s", LONGEST.as_secs_f64()));
        }
        let pages = memory_pages.saturating_mul(params.percent.value) / 100;
        if hogs == 0 || pages / hogs == 0 || pages / hogs > u64::from(u32::MAX / 2) {
            return Err(format!("{pages} pages for {hogs} hogs: each needs at least one"));
        }
        if pages.saturating_add(used_pages) > memory_pages / 10 * 9 + swap_pages {
            return Err(format!("{} % of memory do not fit memory and swap", params.percent.value));
        }
        Ok(())
    }

    fn extent(params: &Params, _: &Resources, _: Scale) -> Extent {
        let time_s = params.interval_ns.value.saturating_mul(params.packets.into()).div_ceil(1_000_000_000);
        Extent { time_s: Some(time_s), operations: params.packets.into(), ..Extent::default() }
    }

    fn row_names(params: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let trip = |sent: u64| RoundTrip { sent: Nanos(sent), returned: Some(Nanos(sent + 1)) };
        let masks = Sim::new(sim::Config::uniform(1, 1)).mask_statistics();
        let seen = Seen {
            trips: vec![trip(0), trip(1_000_000)],
            windows: Vec::new(),
            cpu: CpuStatistics::default(),
            masks: masks.into_iter().map(|mask| MaskStatistics { count: 1, ..mask }).collect(),
            counters: Vmstat::new(),
            steady_from: Nanos(0),
            elapsed_s: 1.0,
            user_s: 0.0,
            system_s: 0.0,
        };
        let rows = seen.rows(&Statistics::of(&seen.trips)?, params);
        Some(names(rows))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let card = system.machine_view().and_then(|sim| Some((sim, sim.network_cpu()?)));
        let (sim, cpu) = card.ok_or_else(|| SystemError("the machine has no [network]: nobody can ping it".into()))?;
        let seen = watch(system, sim, cpu, params)?;
        let statistics = Statistics::of(&seen.trips)
            .ok_or_else(|| SystemError(format!("none of {} packets came back", seen.trips.len())))?;
        let profile = system.profile().into_iter().map(|(path, time)| format!("run;{path} {}", time.0)).collect();
        let times = Times::of("Packets", &statistics.histogram).into_iter().collect();
        let rows = seen.rows(&statistics, params);
        Ok(Measurements { rows, report: statistics.words(), profile, times, ..Measurements::default() })
    }
}

/// The measurements of one run: round trips, periods with interrupts off, counters and times.
struct Seen {
    trips: Vec<RoundTrip>,
    windows: Vec<OffWindow>,
    /// Statistics of the CPU that takes the network card's interrupts.
    cpu: CpuStatistics,
    masks: Vec<MaskStatistics>,
    /// The growth of counters during the run.
    counters: Vmstat,
    /// Time from which the run counts as steady.
    steady_from: Nanos,
    elapsed_s: f64,
    user_s: f64,
    system_s: f64,
}

fn watch<S: System>(system: &S, sim: &Sim, cpu: usize, params: &Params) -> Result<Seen, SystemError> {
    let pages = (system.memory_pages() * params.percent.value / 100 / params.hogs.value) as u32;
    system.begin_measured();
    let (counters, times, began) = (system.vmstat(), system.cpu_times(), system.now());
    let interval = Nanos(params.interval_ns.value);
    sim.restart_interrupt_statistics();
    let last = began + Nanos(interval.0 * u64::from(params.packets - 1));
    system.expect_end(last);
    sim.send_packets(began, interval, params.packets);
    let is_over = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..params.hogs.value)
        .map(|n| {
            let (over, time) = (is_over.clone(), Nanos(params.page_ns.value));
            let start = Nanos(params.apart_ms.value * 1_000_000 * n);
            system.start(&format!("hog {n}"), move |system| hog(system, n, pages, start, time, &over))
        })
        .collect();
    let has_swapped = || {
        let of = |vmstat: &Vmstat| vmstat.get("pswpout").copied().unwrap_or(0);
        of(&system.vmstat()) > of(&counters)
    };
    let mut steady_from = last;
    while system.now() < last && !system.is_killed() {
        if has_swapped() {
            steady_from = system.now() + Nanos::from_secs(params.steady_after_s);
            system.sleep(Nanos(last.since(system.now()).0));
        } else {
            system.sleep(LOOK_EVERY);
        }
    }
    let is_back = |trips: &[RoundTrip]| {
        trips.len() == params.packets as usize && trips.iter().all(|trip| trip.returned.is_some())
    };
    let patience = system.now() + PATIENCE;
    while !is_back(&sim.round_trips()) && system.now() < patience && !system.is_killed() {
        system.sleep(LOOK_EVERY);
    }
    let elapsed = system.now().since(began);
    let times = system.cpu_times().since(times);
    system.end_measured();
    let seen = Seen {
        trips: sim.round_trips(),
        windows: sim.off_windows(),
        cpu: sim.cpu_statistics()[cpu],
        masks: sim.mask_statistics(),
        counters: difference(&counters, &system.vmstat()),
        steady_from,
        elapsed_s: elapsed.as_secs_f64(),
        user_s: times.user.as_secs_f64(),
        system_s: times.system.as_secs_f64(),
    };
    is_over.store(true, Relaxed);
    hogs.into_iter().map(|hog| hog.join(system)).collect::<Result<Vec<()>, SystemError>>()?;
    Ok(seen)
}

/// Runs hog number `n`: writes its pages in order, again and again, until it is told to end.
fn hog<S: System>(
    system: &S,
    n: u64,
    pages: u32,
    start: Nanos,
    time: Nanos,
    is_over: &AtomicBool,
) -> Result<(), SystemError> {
    let mut rng = system.rng(n);
    system.sleep(start + Nanos(rng.below(START_WITHIN)));
    let region = system.map(pages)?;
    let goes_on = || !is_over.load(Relaxed) && !system.is_killed();
    let mut touched = Ok(());
    while goes_on() && touched.is_ok() {
        for first in (0..pages).step_by(PIECE as usize) {
            if !goes_on() || touched.is_err() {
                break;
            }
            touched = (first..pages.min(first + PIECE)).try_for_each(|page| {
                system.compute(Nanos(time.0 / 2 + rng.below(time.0 + 1)));
                system.touch(&region, page..page + 1, true)
            });
        }
    }
    system.unmap(region);
    // A hog that was told to end in the middle of a page has not failed.
    if system.is_killed() { Ok(()) } else { touched }
}

/// The summary that ping prints at its end.
#[derive(Clone, Debug, PartialEq)]
struct Statistics {
    transmitted: usize,
    received: usize,
    /// Time between the first and the last packet sent, ms.
    time_ms: f64,
    min: f64,
    avg: f64,
    max: f64,
    mdev: f64,
    /// Largest number of packets in flight at once.
    pipe: usize,
    /// Mean time between two packets, ms.
    ipg: f64,
    /// Running mean of round trips, ms. Each new round trip has a weight of 1/8.
    ewma: f64,
    /// Durations of all round trips, ns.
    histogram: Histogram<u64>,
}

fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

impl Statistics {
    /// Returns the statistics of `trips`; none if no packet came back.
    fn of(trips: &[RoundTrip]) -> Option<Self> {
        let back: Vec<(Nanos, Nanos)> = trips.iter().filter_map(|trip| Some((trip.sent, trip.returned?))).collect();
        let times: Vec<f64> = back.iter().map(|(sent, returned)| ms(returned.since(*sent))).collect();
        let (first, last) = (trips.first()?.sent, trips.last()?.sent);
        let n = times.len() as f64;
        let avg = times.iter().sum::<f64>() / n;
        let mean_square = times.iter().map(|time| time * time).sum::<f64>() / n;
        let mut by_return = back.clone();
        by_return.sort_by_key(|(_, returned)| *returned);
        let mut answered = by_return.iter().map(|(_, returned)| *returned).peekable();
        let (mut returned, mut pipe) = (0, 0);
        for (sent_before, trip) in trips.iter().enumerate() {
            while answered.next_if(|at| *at <= trip.sent).is_some() {
                returned += 1;
            }
            pipe = pipe.max(sent_before + 1 - returned);
        }
        let running = |mean: Option<f64>, (sent, returned): &(Nanos, Nanos)| {
            let time = ms(returned.since(*sent));
            Some(mean.map_or(time, |mean| mean + (time - mean) / 8.0))
        };
        let mut histogram = Histogram::new(3).expect("three digits are a precision");
        for (sent, returned) in &back {
            histogram.record(returned.since(*sent).0).expect("a histogram that grows takes any time");
        }
        Some(Self {
            transmitted: trips.len(),
            received: back.len(),
            time_ms: ms(last.since(first)),
            min: times.iter().copied().reduce(f64::min)?,
            avg,
            max: times.iter().copied().reduce(f64::max)?,
            mdev: (mean_square - avg * avg).max(0.0).sqrt(),
            pipe,
            ipg: ms(last.since(first)) / (trips.len() as f64 - 1.0).max(1.0),
            ewma: by_return.iter().fold(None, running)?,
            histogram,
        })
    }

    fn loss_percent(&self) -> f64 {
        100.0 * (self.transmitted - self.received) as f64 / self.transmitted as f64
    }

    /// Returns the lines of text that ping prints.
    fn words(&self) -> Vec<String> {
        let Self { transmitted, received, time_ms, min, avg, max, mdev, pipe, ipg, ewma, .. } = self;
        let loss = self.loss_percent();
        let pipe = if *pipe > 1 { format!("pipe {pipe}, ") } else { String::new() };
        vec![
            "--- testmachine ping statistics ---".to_owned(),
            format!(
                "{transmitted} packets transmitted, {received} received, {loss:.0}% packet loss, time {time_ms:.0}ms"
            ),
            format!(
                "rtt min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms, {pipe}ipg/ewma {ipg:.3}/{ewma:.3} ms"
            ),
        ]
    }

    fn rows(&self) -> Vec<Row> {
        use Better::{Higher, Lower, Neutral};
        let row = |name, unit, better, decimals, value| {
            Row::new("ping", name, unit, better, Format::Decimals(decimals), value)
        };
        let at = |quantile| ms(Nanos(self.histogram.value_at_quantile(quantile)));
        vec![
            row("Packets transmitted", "packets", Neutral, 0, self.transmitted as f64),
            row("Packets received", "packets", Higher, 0, self.received as f64),
            row("Packet loss", "%", Lower, 0, self.loss_percent()),
            row("Time", "ms", Neutral, 0, self.time_ms),
            row("rtt min", "ms", Lower, 3, self.min),
            row("rtt avg", "ms", Lower, 3, self.avg),
            row("rtt max", "ms", Lower, 3, self.max),
            row("rtt mdev", "ms", Lower, 3, self.mdev),
            row("pipe", "packets", Lower, 0, self.pipe as f64),
            row("ipg", "ms", Neutral, 3, self.ipg),
            row("ewma", "ms", Lower, 3, self.ewma),
            row("rtt 99%", "ms", Lower, 3, at(0.99)),
            row("rtt 99.9%", "ms", Lower, 3, at(0.999)),
        ]
    }
}

/// Returns the largest round trip, ms, that periods with interrupts off would cause if nothing else delayed packets.
/// The round trip depends on the moments at which packets are sent. So it is computed for several series of packets,
/// which start at different moments within one interval, and the median is returned.
fn max_by_phase(windows: &[OffWindow], began: Nanos, interval: Nanos, least_ms: f64) -> f64 {
    let of_phase = |phase: u64| {
        let first = began.0 + phase * interval.0 / PHASES;
        let waits = windows.iter().filter_map(|window| {
            let after = window.from.0.saturating_sub(first).div_ceil(interval.0);
            window.to.0.checked_sub(first + after * interval.0)
        });
        waits.max().unwrap_or(0)
    };
    let mut longest: Vec<u64> = (0..PHASES).map(of_phase).collect();
    longest.sort_unstable();
    let middle = longest.len() / 2;
    least_ms + ms(Nanos(u64::midpoint(longest[middle - 1], longest[middle])))
}

impl Seen {
    fn rows(&self, statistics: &Statistics, params: &Params) -> Vec<Row> {
        let mut rows = statistics.rows();
        rows.extend(self.interrupt_rows(statistics, params));
        let happened = self.masks.iter().filter(|mask| mask.count > 0);
        rows.extend(happened.flat_map(mask_rows));
        rows.extend(self.swap_rows());
        rows.extend(duration_rows(self.user_s, self.system_s, self.elapsed_s));
        rows
    }

    fn interrupt_rows(&self, statistics: &Statistics, params: &Params) -> Vec<Row> {
        let row = |name, unit, decimals, value| {
            Row::new("interrupts", name, unit, Better::Lower, Format::Decimals(decimals), value)
        };
        let began = self.trips.first().map_or(Nanos(0), |trip| trip.sent);
        let interval = Nanos(params.interval_ns.value);
        let is_steady = |trip: &&RoundTrip| trip.sent >= self.steady_from;
        let steady = self.trips.iter().filter(is_steady).filter_map(|trip| Some(trip.returned?.since(trip.sent)));
        let long = self.windows.iter().filter(|window| window.length() >= Nanos::from_millis(5)).count();
        let pages = self.cpu.handled_pages as f64 / self.cpu.handlers.max(1) as f64;
        let mut rows = vec![
            row("Longest without interrupts", "ms", 3, ms(self.cpu.longest_off)),
            row("Times over 5 ms without", "times", 0, long as f64),
            row("rtt max by phase", "ms", 3, max_by_phase(&self.windows, began, interval, statistics.min)),
        ];
        rows.extend(steady.max().map(|longest| row("rtt max when steady", "ms", 3, ms(longest))));
        rows.push(row("Pages per interrupt mean", "pages", 1, pages));
        rows.push(row("Pages per interrupt most", "pages", 0, self.cpu.handled_pages_max as f64));
        rows
    }

    fn swap_rows(&self) -> Vec<Row> {
        let row = |(name, counter): (&str, &str)| {
            let value = self.counters.get(counter).copied().unwrap_or(0) as f64;
            let unit = if counter == "pgrotate_locked" { "times" } else { "pages" };
            Row::new("vmstat", name, unit, Better::Neutral, Format::Decimals(0), value)
        };
        let named = [
            ("Swap outs", "pswpout"),
            ("Swap ins", "pswpin"),
            ("Pages rotated", "pgrotated"),
            ("LRU lock for rotation", "pgrotate_locked"),
        ];
        named.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(sent_us: u64, took_us: u64) -> RoundTrip {
        RoundTrip { sent: Nanos(sent_us * 1000), returned: Some(Nanos((sent_us + took_us) * 1000)) }
    }

    #[test]
    fn statistics_are_those_of_ping() {
        let trips = [trip(0, 100), trip(10_000, 25_000), trip(20_000, 15_000), trip(30_000, 5_000), trip(40_000, 100)];
        let found = Statistics::of(&trips).unwrap();
        assert_eq!((found.transmitted, found.received, found.pipe), (5, 5, 3));
        assert_eq!((found.min, found.max, found.time_ms, found.ipg), (0.1, 25.0, 40.0, 10.0));
        assert!((found.avg - 9.04).abs() < 1e-9 && (found.mdev - 9.658_28).abs() < 1e-5, "{:?}", found.words());
        assert_eq!(
            found.words()[1..],
            [
                "5 packets transmitted, 5 received, 0% packet loss, time 40ms",
                "rtt min/avg/max/mdev = 0.100/9.040/25.000/9.658 ms, pipe 3, ipg/ewma 10.000/4.147 ms"
            ]
        );
    }

    #[test]
    fn a_lost_packet_is_counted_and_has_no_round_trip() {
        let lost = RoundTrip { sent: Nanos(5_000_000), returned: None };
        let found = Statistics::of(&[trip(0, 100), lost]).unwrap();
        assert_eq!((found.transmitted, found.received, found.loss_percent()), (2, 1, 50.0));
        assert!(Statistics::of(&[lost]).is_none());
    }

    #[test]
    fn a_window_is_seen_by_the_packet_that_comes_first_in_it() {
        let window = |from: u64, to: u64| OffWindow { from: Nanos(from * 1_000_000), to: Nanos(to * 1_000_000) };
        let by = |windows: &[OffWindow]| max_by_phase(windows, Nanos(0), Nanos::from_millis(20), 1.0);
        assert_eq!(by(&[]), 1.0);
        // The grids are a millisecond apart: in each grid some packet comes within the window's first 20 ms.
        assert_eq!(by(&[window(100, 200)]), 1.0 + 100.0 - 9.5);
        // Half of the grids have no packet in this window.
        assert_eq!(by(&[window(100, 110)]), 1.0 + 0.5);
    }
}
