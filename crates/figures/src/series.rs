//! Series: counters of a run over time, for the option `--series`.
//!
//! Most counters have the names of `/proc/vmstat`. Only some runs have the following counters:
//! - `nr_free_pages_dma32` and similar names: the free pages of one zone.
//! - `sda_in_flight`, `sda_reads`, …: the fields of `/proc/diskstats`.
//! - `psi_memory_some_us`, `psi_memory_full_us`, `kswapd_cpu_us`, `nr_swap_total` and `nr_swap_free`: values from other
//!   files of `/proc`.
//! - `nr_blocks_total` and `nr_blocks_free`: the size of the disk for files, and its free part, in blocks of one page.
//! - `memory_events_max`: the number of times that a cgroup reached its limit.
//! - `node0_pgalloc_normal` and similar names: the counters of one node, if there are several nodes.
//! - `server: pgscan` and similar names: the counters of one control group, under the names that the group's rows have
//!   in reports. After the group's path stands a name of `memory.stat`, or `memory.current`, `memory.peak`,
//!   `memory.events.high` and so on. All sizes are in pages.

use std::io;

use engine::{memory::GroupVersion, stat::Vmstat, swap::SwapArea};
use machine::Nanos;
use serde::{Deserialize, Serialize};
use sim::{PressureReader, Sim, disk::DiskStatistics};

use crate::csv_error::io_error;
use crate::engine_view::EngineView;
use kit::wrong::Wrong;

/// The interval at which counters are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Every {
    /// A fixed interval, ns.
    Ns(u64),
    /// An interval that doubles whenever there are more than 1024 records. So a long run of any length ends with 500 to
    /// 1000 records.
    Some,
}

/// A recorder of a run's counters at an interval of virtual time.
#[derive(Clone, Debug)]
pub struct Recorder {
    series: Series,
    every: Nanos,
    next: Nanos,
    most: usize,
    is_over: bool,
}

/// The first interval with [`Every::Some`]. It doubles whenever there are more than [`MOST`] records.
const FIRST: Nanos = Nanos::from_millis(10);
const MOST: usize = 1024;

impl Recorder {
    /// Makes a recorder that records counters at the interval `every` of virtual time.
    #[must_use]
    pub fn new(every: Every) -> Self {
        let (every, most) = match every {
            Every::Ns(time) => (Nanos(time), usize::MAX),
            Every::Some => (FIRST, MOST),
        };
        Self { series: Series::default(), every, next: Nanos(0), most, is_over: false }
    }

    /// Returns the present interval between two records.
    #[must_use]
    pub const fn every(&self) -> Nanos {
        self.every
    }

    /// Returns whether the next record is due: the interval has passed since the last record, and the run has not
    /// ended. The caller should then call [`Recorder::push`].
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.next && !self.is_over
    }

    /// Records the counters at the end of the run. If the last record has the same time in the CSV form (whole
    /// milliseconds), the new record replaces it.
    pub fn end(&mut self, now: Nanos, values: &Vmstat) {
        let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
        self.series.points.pop_if(|last| ms(last.now_ns) == ms(now.0));
        self.series.push(now, values);
        self.is_over = true;
    }

    /// Records the counters at `now`. Drops earlier records if there are too many.
    pub fn push(&mut self, now: Nanos, values: &Vmstat) {
        self.series.push(now, values);
        // Doubling the interval may drop no record, if all are farther apart than the new interval. Therefore the
        // interval is doubled until few enough records are left.
        while self.series.points.len() > self.most {
            self.every = Nanos(self.every.0 * 2);
            let mut kept: Option<u64> = None;
            self.series.points.retain(|point| {
                let is_apart = kept.is_none_or(|kept| point.now_ns >= kept + self.every.0);
                kept = if is_apart { Some(point.now_ns) } else { kept };
                is_apart
            });
        }
        self.next = if self.most == usize::MAX { Nanos(0) } else { now + self.every };
    }

    /// Returns all records of the run.
    #[must_use]
    pub fn finish(self) -> Series {
        self.series
    }
}

/// The recorded counters of one run, over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Series {
    /// Names of the counters, sorted.
    pub names: Vec<String>,
    /// The values of the counters at each recorded moment, in order of time.
    pub points: Vec<Point>,
}

/// The values of all counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Point {
    /// Time since the system started, ns.
    pub now_ns: u64,
    /// The values of the counters, in the order of [`Series::names`].
    pub values: Vec<u64>,
}

/// The recorded counters of one run, with the run's column and seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSeries {
    /// Name of the column to which the run belongs. A report has a column for each kernel.
    pub column: String,
    /// The run's seed.
    pub seed: u64,
    /// The recorded counters.
    pub series: Series,
}

impl Series {
    /// Adds the counters at one moment. Only counters that the first moment had are kept.
    pub fn push(&mut self, now: Nanos, values: &Vmstat) {
        if self.points.is_empty() {
            self.names = values.keys().cloned().collect();
        }
        let values = self.names.iter().map(|name| values.get(name).copied().unwrap_or(0)).collect();
        self.points.push(Point { now_ns: now.0, values });
    }
}

/// Adds to `values` the number of operations that the workload has done so far, under the name `operations`.
pub fn add_operations(values: &mut Vmstat, operations: u64) {
    values.insert("operations".into(), operations);
}

/// Adds to `values` the number of free pages of each zone, under names such as `nr_free_pages_dma32`.
pub fn add_zones(values: &mut Vmstat, engine: &dyn EngineView) {
    for zone in engine.zones() {
        *values.entry(format!("nr_free_pages_{}", zone.name.to_lowercase())).or_default() += zone.free;
    }
}

/// Adds to `values` the counters of each memory node, if there are several, under names such as `node0_pgalloc_normal`.
pub fn add_nodes(values: &mut Vmstat, engine: &dyn EngineView) {
    let nodes = engine.nodes();
    if nodes.len() > 1 {
        for (node, counts) in nodes.into_iter().enumerate() {
            values.extend(counts.into_iter().map(|(name, value)| (format!("node{node}_{name}"), value)));
        }
    }
}

/// Adds to `values` the counters of the disk, in the units of `/proc/diskstats`, under names such as
/// `sda_read_sectors`.
pub fn add_disk(values: &mut Vmstat, disk: &DiskStatistics) {
    let fields = [
        ("in_flight", disk.in_flight),
        ("reads", disk.reads.ios),
        ("read_sectors", disk.reads.sectors),
        ("read_ms", disk.reads.ticks.0 / 1_000_000),
        ("writes", disk.writes.ios),
        ("write_sectors", disk.writes.sectors),
        ("write_ms", disk.writes.ticks.0 / 1_000_000),
        ("io_ms", disk.io_ticks.0 / 1_000_000),
        ("weighted_ms", disk.weighted.0 / 1_000_000),
    ];
    values.extend(fields.map(|(field, value)| (format!("sda_{field}"), value)));
}

/// Adds to `values` the time that tasks were stalled for memory (`/proc/pressure/memory`), and the CPU time of kswapd.
/// Both are in us.
pub fn add_pressure(values: &mut Vmstat, sim: &Sim, reader: &mut PressureReader) {
    let [some, full] = sim.pressure_totals(reader);
    let times =
        [("psi_memory_some_us", some), ("psi_memory_full_us", full), ("kswapd_cpu_us", sim.cpu_time_of("kswapd"))];
    values.extend(times.map(|(name, time)| (name.to_owned(), time.0 / 1000)));
}

/// Adds to `values` the size of swap and the size of its free part, in pages. They correspond to `SwapTotal` and
/// `SwapFree` of `/proc/meminfo`, which are in KiB.
pub fn add_swap(values: &mut Vmstat, swap: &SwapArea<Sim>) {
    let slots = [("nr_swap_total", swap.total_slots()), ("nr_swap_free", swap.free_slots())];
    values.extend(slots.map(|(name, slots)| (name.to_owned(), u64::from(slots))));
}

/// Adds to `values` the number of blocks for files on the disk and the number of free blocks (`f_blocks` and `f_bavail`
/// of `statvfs`). A block is as large as a page. If a memory cgroup limits all tasks, adds the number of times that
/// they reached its limit (`max` of `memory.events`).
pub fn add_room(values: &mut Vmstat, engine: &dyn EngineView) {
    let [all, free] = engine.room();
    values.extend([("nr_blocks_total".to_owned(), all), ("nr_blocks_free".to_owned(), free)]);
    values.extend(engine.times_at_limit().map(|times| ("memory_events_max".to_owned(), times)));
}

/// Names of the counters of a control group, in the order of the rows of a report. Every group has all these counters;
/// a counter that the kernel lacks is 0.
const OF_GROUP: [&str; 17] = [
    "memory.current",
    "memory.peak",
    "memory.swap.current",
    "anon",
    "file",
    "pgscan",
    "pgsteal",
    "pgrefill",
    "pgactivate",
    "pgdeactivate",
    "workingset_refault_anon",
    "workingset_refault_file",
    "memory.events.low",
    "memory.events.high",
    "memory.events.max",
    "memory.events.oom",
    "memory.events.oom_kill",
];

/// Names of the counters that only a control group of version 1 has.
const OF_VERSION_1: [&str; 1] = ["memory.failcnt"];

/// Names of the counters of a control group whose memory and swap are counted together, as in version 1.
const OF_MEMSW: [&str; 3] = ["memory.memsw.usage_in_bytes", "memory.memsw.max_usage_in_bytes", "memory.memsw.failcnt"];

/// Names of those values of a control group that are amounts of memory. All other values count events.
const GAUGES_OF_GROUP: [&str; 7] =
    ["memory.current", "memory.peak", "memory.swap.current", "anon", "file", OF_MEMSW[0], OF_MEMSW[1]];

/// Adds to `values` the counters of the control group `group`, which is of version `version`. `stat` holds the values of
/// `memory.stat`, with sizes in pages, and those of `memory.current` and the group's other files. Values that `stat`
/// lacks are 0.
pub fn add_group(values: &mut Vmstat, group: &str, stat: &Vmstat, version: GroupVersion) {
    let of = |name: &str| stat.get(name).copied();
    let both = |a: &str, b: &str| Some(of(a).unwrap_or(0) + of(b).unwrap_or(0));
    let of_version_1 = OF_VERSION_1.into_iter().filter(|_| version.is_v1());
    let of_memsw = OF_MEMSW.into_iter().filter(|_| version.counts_memsw());
    for name in OF_GROUP.into_iter().chain(of_version_1).chain(of_memsw) {
        let value = match name {
            // A kernel's sizes without lists also contain pages that are on no list at the moment.
            "anon" => both("inactive_anon", "active_anon"),
            "file" => both("inactive_file", "active_file"),
            _ => of(name),
        };
        values.insert(format!("{group}: {name}"), value.unwrap_or(0));
    }
}

/// Splits the name of a group's counter, such as `pod/server: pgscan`, into the group and the counter; `None` for a
/// name of another form.
#[must_use]
pub fn of_group(name: &str) -> Option<(&str, &str)> {
    let names = || OF_GROUP.iter().chain(&OF_VERSION_1).chain(&OF_MEMSW);
    name.split_once(": ").filter(|(_, name)| names().any(|it| it == name))
}

/// Returns the groups whose counters are among `names`, each once, in the order of `names`.
#[must_use]
pub fn groups_in(names: &[String]) -> Vec<&str> {
    let mut groups: Vec<&str> = names.iter().filter_map(|name| Some(of_group(name)?.0)).collect();
    groups.dedup();
    groups
}

/// Returns whether the value called `name` is a gauge, which rises and falls. Otherwise it is a counter, which only
/// rises.
#[must_use]
pub fn is_gauge(name: &str) -> bool {
    const COUNTERS: [&str; 3] = ["nr_dirtied", "nr_written", "nr_vmscan"];
    if let Some((_, name)) = of_group(name) {
        return GAUGES_OF_GROUP.contains(&name);
    }
    let of_node = name.strip_prefix("node").and_then(|rest| rest.split_once('_'));
    let name = of_node.map_or(name, |(_, name)| name);
    name.ends_with("_in_flight") || (name.starts_with("nr_") && !COUNTERS.iter().any(|it| name.starts_with(it)))
}

/// First line of series in CSV form: the names of the fields.
pub const HEADING: &str = "column,seed,seconds,name,value,per_second";

/// Writes the series of runs as CSV: a line for each moment and counter. The line of a counter also has its rate since
/// the previous moment; the line of a gauge has none.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(runs: &[RunSeries], out: &mut dyn io::Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().from_writer(out);
    csv.write_record(HEADING.split(',')).map_err(io_error)?;
    for RunSeries { column, seed, series } in runs {
        let mut earlier: Option<&Point> = None;
        for point in &series.points {
            let seconds = point.now_ns as f64 / 1e9;
            for (n, name) in series.names.iter().enumerate() {
                let value = point.values[n];
                let rate = earlier.filter(|_| !is_gauge(name)).map_or_else(String::new, |earlier| {
                    let elapsed = (point.now_ns - earlier.now_ns) as f64 / 1e9;
                    format!("{:.3}", value.saturating_sub(earlier.values[n]) as f64 / elapsed)
                });
                let (seed, seconds, value) = (seed.to_string(), format!("{seconds:.3}"), value.to_string());
                csv.write_record([column, &seed, &seconds, name, &value, &rate]).map_err(io_error)?;
            }
            earlier = Some(point);
        }
    }
    csv.flush()
}

/// Latest time that [`read`] accepts, s: 317 years, so that the time in ns fits into 64 bits.
const SECONDS_MAX: f64 = 1e10;

/// Returns whether a text is a series in CSV form. The series may begin after empty lines.
#[must_use]
pub fn is_it(text: &str) -> bool {
    text.trim_start().starts_with(HEADING)
}

/// Reads the series of runs from a text that [`write()`] wrote. If the last moment of a run lacks counters, this moment
/// is left out, because the program was stopped while it wrote this moment.
///
/// # Errors
/// When a line belongs to no series, goes back in time, or repeats an earlier line.
pub fn read(file: &str, text: &str) -> Result<Vec<RunSeries>, Wrong> {
    let mut runs: Vec<RunSeries> = Vec::new();
    let mut moment: (u64, Vmstat) = (0, Vmstat::new());
    let end = |runs: &mut Vec<RunSeries>, (now, values): &mut (u64, Vmstat)| {
        if let Some(run) = runs.last_mut().filter(|run| !values.is_empty() && has_all(&run.series, values)) {
            run.series.push(Nanos(*now), values);
        }
        values.clear();
    };
    for record in csv::Reader::from_reader(text.as_bytes()).records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            Wrong::at(file, line.saturating_sub(1) as usize, format!("expected a line of a series: {error}"))
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let told = |what: String| Wrong::at(file, line.saturating_sub(1) as usize, what);
        let [column, seed, seconds, name, value] = [0, 1, 2, 3, 4].map(|field| record.get(field).unwrap_or_default());
        let field = |what: &str, found: &str| told(format!("expected {what}: found `{found}`"));
        let seed: u64 = seed.parse().map_err(|_| field("a seed in column seed", seed))?;
        let time: f64 = seconds
            .parse()
            .ok()
            .filter(|time| (0.0..SECONDS_MAX).contains(time))
            .ok_or_else(|| field(&format!("a time from 0 to {SECONDS_MAX:e} s in column seconds"), seconds))?;
        let value: u64 = value.parse().map_err(|_| field("a whole number from 0 on in column value", value))?;
        let now = (time * 1e9).round() as u64;
        let is_new = runs.last().is_none_or(|run| run.column != column || run.seed != seed);
        if !is_new && now < moment.0 {
            return Err(field("a time not before that of the line above", seconds));
        }
        if is_new && runs.iter().any(|run| run.column == column && run.seed == seed) {
            return Err(told(format!("expected each run once: `{column}`, seed {seed}, is in lines above already")));
        }
        if is_new || now != moment.0 {
            end(&mut runs, &mut moment);
            moment.0 = now;
        }
        if is_new {
            runs.push(RunSeries { column: column.to_owned(), seed, series: Series::default() });
        }
        if moment.1.insert(name.to_owned(), value).is_some() {
            return Err(told(format!("expected each name once at {seconds} s: `{name}` is in a line above already")));
        }
    }
    end(&mut runs, &mut moment);
    Ok(runs)
}

/// Returns whether `values`, the counters at one moment of a run, has all counters that the run's earlier moments have.
fn has_all(series: &Series, values: &Vmstat) -> bool {
    series.names.iter().all(|name| values.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let mut series = Series::default();
        series.push(Nanos::from_secs(1), &values(&[("nr_free_pages", 10), ("pgfree", 100)]));
        series.push(Nanos(3_500_000_000), &values(&[("nr_free_pages", 7), ("pgfree", 350)]));
        let run = |column: &str, seed| RunSeries { column: column.into(), seed, series: series.clone() };
        let runs = [run("a", 1), run("a", 2), run("b", 1)];
        let mut out = Vec::new();
        write(&runs, &mut out).unwrap();
        assert_eq!(read("s", &String::from_utf8(out).unwrap()).unwrap(), runs);
        let cut = format!("{HEADING}\na,1,1,nr_swap_free,9,\na,1,1,pgfree,1,\na,1,2,nr_swap_free,8,\n");
        assert_eq!(read("s", &cut).unwrap()[0].series.points.len(), 1, "nothing is known of pgfree at 2 s");
    }

    #[test]
    fn what_is_no_series_is_told_with_its_line() {
        let wrong = |lines: &str| read("s.csv", &format!("{HEADING}\n{lines}")).unwrap_err().to_string();
        for odd in ["x", "-1", "inf", "NaN", "1e300"] {
            let told = wrong(&format!("a,1,{odd},pgfree,1,\n"));
            assert_eq!(told, format!("s.csv:2: expected a time from 0 to 1e10 s in column seconds: found `{odd}`"));
        }
        let back = wrong("a,1,2,pgfree,1,\na,1,1,pgfree,1,\n");
        assert_eq!(back, "s.csv:3: expected a time not before that of the line above: found `1`");
        assert_eq!(wrong("a,y,2,pgfree,1,\n"), "s.csv:2: expected a seed in column seed: found `y`");
        assert!(wrong("a,1,2,pgfree,-1,\n").ends_with("in column value: found `-1`"));
        // The text is a file that was appended to itself.
        let twice = wrong("a,1,1,pgfree,1,\nb,1,1,pgfree,1,\na,1,1,pgfree,1,\n");
        assert_eq!(twice, "s.csv:4: expected each run once: `a`, seed 1, is in lines above already");
        let twice = wrong("a,1,1,pgfree,1,\na,1,1,pgfree,1,\n");
        assert_eq!(twice, "s.csv:3: expected each name once at 1 s: `pgfree` is in a line above already");
        assert!(wrong("a,1,1\n").starts_with("s.csv:2: expected a line of a series: "));
    }

    fn values(pairs: &[(&str, u64)]) -> Vmstat {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn counts_have_rates_and_levels_have_none() {
        let mut series = Series::default();
        series.push(Nanos::from_secs(1), &values(&[("nr_free_pages", 10), ("pgfree", 100)]));
        series.push(Nanos(3_500_000_000), &values(&[("nr_free_pages", 7), ("pgfree", 350), ("late", 1)]));
        let run = RunSeries { column: "a".into(), seed: 7, series };
        let mut out = Vec::new();
        write(&[run], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "column,seed,seconds,name,value,per_second",
                "a,7,1.000,nr_free_pages,10,",
                "a,7,1.000,pgfree,100,",
                "a,7,3.500,nr_free_pages,7,",
                "a,7,3.500,pgfree,350,100.000",
            ]
        );
    }

    #[test]
    fn a_long_run_leaves_some_moments_at_even_distances() {
        let mut recorder = Recorder::new(Every::Some);
        // The recorder is called every 10 ms in the second half of the run, but only once a second in the first half.
        for n in (0..100_000).filter(|n| *n > 50_000 || n % 100 == 0) {
            let now = Nanos(10_000_000 * n);
            if recorder.is_due(now) {
                recorder.push(now, &values(&[("pgfree", n)]));
            }
        }
        let points = recorder.finish().points;
        assert!((MOST / 3..=MOST).contains(&points.len()), "{}", points.len());
        let apart: Vec<u64> = points.windows(2).map(|pair| pair[1].now_ns - pair[0].now_ns).collect();
        assert!(apart.iter().all(|time| (1_000_000_000..=3_000_000_000).contains(time)), "{apart:?}");
    }

    #[test]
    fn the_end_of_a_run_is_its_last_moment() {
        let ended = |last: u64| {
            let mut recorder = Recorder::new(Every::Ns(1_000_000_000));
            recorder.push(Nanos::from_secs(1), &values(&[("pgfault", 1)]));
            recorder.push(Nanos::from_secs(2), &values(&[("pgfault", 2)]));
            recorder.end(Nanos(last), &values(&[("pgfault", 3)]));
            assert!(!recorder.is_due(Nanos::from_secs(3)), "nothing is recorded of what comes after it");
            let points = recorder.finish().points;
            points.iter().map(|point| (point.now_ns, point.values[0])).collect::<Vec<_>>()
        };
        assert_eq!(ended(2_700_000_000), [(1_000_000_000, 1), (2_000_000_000, 2), (2_700_000_000, 3)]);
        assert_eq!(ended(2_000_400_000), [(1_000_000_000, 1), (2_000_400_000, 3)], "both are at 2.000 s");
    }

    #[test]
    fn a_group_has_its_counters_under_its_path() {
        let mut all = Vmstat::new();
        let stat =
            values(&[("memory.current", 5), ("inactive_file", 2), ("active_file", 1), ("pgscan", 9), ("other", 1)]);
        add_group(&mut all, "pod/a", &stat, GroupVersion::V2);
        let of = |name: &str| all.get(&format!("pod/a: {name}")).copied();
        assert_eq!(
            ["memory.current", "file", "anon", "pgscan", "other"].map(of),
            [Some(5), Some(3), Some(0), Some(9), None]
        );
        let names: Vec<String> = all.keys().cloned().chain(["pgscan".to_owned()]).collect();
        assert_eq!((groups_in(&names), of_group("pod/a: pgscan")), (vec!["pod/a"], Some(("pod/a", "pgscan"))));
        assert!(is_gauge("pod/a: file") && !is_gauge("pod/a: pgscan") && !is_gauge("pod/a: memory.events.high"));
    }

    #[test]
    fn groups_of_version_1_have_counters_of_their_own() {
        let names = |version| {
            let mut all = Vmstat::new();
            add_group(&mut all, "a", &Vmstat::new(), version);
            all.into_keys()
                .filter(|name| name.contains("swap") || name.contains("memsw") || name.contains("failcnt"))
                .collect::<Vec<_>>()
        };
        let (swap, failures) = ("a: memory.swap.current", "a: memory.failcnt");
        assert_eq!(names(GroupVersion::V2), [swap]);
        assert_eq!(names(GroupVersion::V1), [failures, swap]);
        let of_memsw = names(GroupVersion::V1WithMemsw);
        let [of_failures, peak, usage] =
            ["failcnt", "max_usage_in_bytes", "usage_in_bytes"].map(|name| format!("a: memory.memsw.{name}"));
        assert_eq!(of_memsw, [failures, &of_failures, &peak, &usage, swap]);
        assert!(of_memsw.iter().all(|name| of_group(name).is_some()), "a picture or the doctor finds them");
        assert!(
            is_gauge(&usage) && is_gauge(&peak) && is_gauge(swap) && !is_gauge(&of_failures) && !is_gauge(failures)
        );
    }

    #[test]
    fn names_say_what_rises_and_falls() {
        let gauges = ["nr_free_pages_dma32", "sda_in_flight", "nr_dirty_threshold", "nr_dirty"];
        assert!(gauges.iter().all(|name| is_gauge(name)));
        let counters = ["nr_dirtied", "nr_written", "nr_vmscan_write", "pgfault", "sda_reads"];
        assert!(counters.iter().all(|name| !is_gauge(name)));
    }
}
