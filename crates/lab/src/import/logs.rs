//! `tests-timestamp` and the logs of monitors.

use crate::figure::{Better, Format, Row};
use crate::series::{Series, is_gauge};
use crate::system::DiskSample;
use engine::stat::Vmstat;
use machine::Nanos;
use std::collections::BTreeMap;

/// One test of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// `/proc/vmstat` before it.
    pub before: Option<Vmstat>,
    /// And after it.
    pub after: Option<Vmstat>,
    /// User, system and elapsed time, s.
    pub times: Option<[f64; 3]>,
}

/// The tests of a `tests-timestamp`, in order.
#[must_use]
pub fn tests(log: &str) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    for line in log.lines() {
        if let Some(name) = line.strip_prefix("test begin :: ").and_then(|rest| rest.split_whitespace().next()) {
            // A test that is run again counts with its last run.
            tests.retain(|test| test.name != name);
            tests.push(Test { name: name.to_owned(), ..Test::default() });
        } else if let Some(rest) = line.strip_prefix("time :: ") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let [name, user, "user", system, "system", elapsed, "elapsed"] = words[..] else { continue };
            let times = [user, system, elapsed].map(str::parse::<f64>);
            if let ([Ok(user), Ok(system), Ok(elapsed)], Some(test)) =
                (times, tests.iter_mut().find(|it| it.name == name))
            {
                test.times = Some([user, system, elapsed]);
            }
        }
    }
    add_snapshots(&mut tests, log);
    tests
}

/// Adds snapshots of `/proc/vmstat` that stand between the marks of each test.
pub fn add_snapshots(tests: &mut [Test], log: &str) {
    let mut at: Option<usize> = None;
    let mut counters: Option<(bool, Vmstat)> = None;
    let put = |tests: &mut [Test], at: Option<usize>, counters: &mut Option<(bool, Vmstat)>| {
        if let (Some((is_after, found)), Some(at)) = (counters.take(), at)
            && !found.is_empty()
        {
            let test = &mut tests[at];
            *if is_after { &mut test.after } else { &mut test.before } = Some(found);
        }
    };
    for line in log.lines() {
        let mark = ["file start :: ", "file end :: ", "test begin :: ", "test end :: "]
            .into_iter()
            .find_map(|mark| Some((mark, line.strip_prefix(mark)?)));
        if let Some((mark, rest)) = mark {
            put(tests, at, &mut counters);
            match mark {
                "test begin :: " => {
                    let name = rest.split_whitespace().next();
                    at = tests.iter().position(|test| Some(test.name.as_str()) == name);
                }
                "test end :: " => at = None,
                _ if rest.trim() == "/proc/vmstat" => counters = Some((mark == "file end :: ", Vmstat::new())),
                _ => {}
            }
        } else if let (Some((_, found)), Some((name, value))) = (&mut counters, counter(line)) {
            found.insert(name.to_owned(), value);
        }
    }
    put(tests, at, &mut counters);
}

/// A line of `/proc/vmstat`; a gauge that reads negative for a moment is none.
fn counter(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(' ')?;
    Some((name, value.trim().parse().ok()?))
}

/// The snapshots of the monitor `proc-vmstat`: each begins with `time: SECONDS`, or with the first name coming again, then a second
/// later each.
#[must_use]
pub fn snapshots(log: &str) -> Series {
    let mut series = Series::default();
    let (mut now, mut values) = (0_u64, Vmstat::new());
    let mut first: Option<String> = None;
    let mut has_times = false;
    let mut end = |now: u64, values: &mut Vmstat| {
        if !values.is_empty() {
            series.push(Nanos(now), values);
            values.clear();
        }
    };
    for line in log.lines() {
        if let Some(time) = line.strip_prefix("time: ").and_then(|rest| rest.trim().parse::<f64>().ok()) {
            end(now, &mut values);
            (now, has_times) = ((time * 1e9).round().max(0.0) as u64, true);
        } else if let Some((name, value)) = counter(line) {
            if !has_times && first.as_deref() == Some(name) {
                end(now, &mut values);
                now += 1_000_000_000;
            }
            first.get_or_insert_with(|| name.to_owned());
            values.insert(name.to_owned(), value);
        }
    }
    end(now, &mut values);
    // Times of a clock are those since the first.
    let begin = series.points.first().map_or(0, |point| point.now_ns);
    series.points.iter_mut().for_each(|point| point.now_ns = point.now_ns.saturating_sub(begin));
    series.points.dedup_by_key(|point| point.now_ns);
    series
}

/// What counters grew by from the first moment to the last; none of one moment.
#[must_use]
pub fn growth(series: &Series) -> Option<Vmstat> {
    let [first, .., last] = series.points.as_slice() else { return None };
    let names = series.names.iter().enumerate().filter(|(_, name)| !is_gauge(name));
    Some(names.map(|(n, name)| (name.clone(), last.values[n].saturating_sub(first.values[n]))).collect())
}

/// Seconds from the first moment to the last.
#[must_use]
pub fn span_s(series: &Series) -> Option<f64> {
    let [first, .., last] = series.points.as_slice() else { return None };
    Some((last.now_ns - first.now_ns) as f64 / 1e9)
}

/// Samples of `iostat -x`, by device: of any version, its columns are found by their heading, and what stands before the heading's
/// first word (a time, as MMTests has it) stands before each line. The first report of a device covers the time since boot.
#[must_use]
pub fn iostat(log: &str) -> BTreeMap<String, Vec<DiskSample>> {
    let mut samples: BTreeMap<String, Vec<DiskSample>> = BTreeMap::new();
    let mut seen: Vec<String> = Vec::new();
    let mut head: Option<(usize, Vec<&str>)> = None;
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = words.iter().position(|word| *word == "Device" || *word == "Device:") {
            head = Some((at, words[at..].to_vec()));
            continue;
        }
        let Some((at, names)) = &head else { continue };
        let Some(own) = words.get(*at..).filter(|own| own.len() == names.len()) else { continue };
        let of = |wanted: &[&str]| -> Option<f64> {
            let n = names.iter().position(|name| wanted.contains(name))?;
            own[n].parse().ok()
        };
        let Some(avgqz) = of(&["avgqu-sz", "aqu-sz"]) else { continue };
        let [r_await, w_await] = [of(&["r_await"]), of(&["w_await"])].map(Option::unwrap_or_default);
        // Since it has none of its own, that of all requests is the mean of both kinds by their number.
        let both = || {
            let [reads, writes] = [of(&["r/s"])?, of(&["w/s"])?];
            Some((reads * r_await + writes * w_await) / (reads + writes).max(f64::MIN_POSITIVE))
        };
        let await_ms = of(&["await"]).or_else(both).unwrap_or_default();
        let device = own[0].to_owned();
        if !seen.contains(&device) {
            seen.push(device);
            continue;
        }
        samples.entry(device).or_default().push(DiskSample {
            avgqz,
            await_ms,
            r_await_ms: r_await,
            w_await_ms: w_await,
        });
    }
    samples
}

/// Columns of `vmstat` and their units.
const VMSTAT: [(&str, &str); 12] = [
    ("r", "tasks"),
    ("b", "tasks"),
    ("si", "KiB/s"),
    ("so", "KiB/s"),
    ("bi", "blocks/s"),
    ("bo", "blocks/s"),
    ("in", "1/s"),
    ("cs", "1/s"),
    ("us", "%"),
    ("sy", "%"),
    ("id", "%"),
    ("wa", "%"),
];

/// The means of `vmstat N` over its lines but the first, which covers the time since boot.
#[must_use]
pub fn vmstat_means(log: &str) -> Vec<Row> {
    let mut head: Option<(usize, Vec<&str>)> = None;
    let mut sums: Vec<(f64, u32)> = vec![(0.0, 0); VMSTAT.len()];
    let mut is_first = true;
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = words.windows(2).position(|pair| pair == ["r", "b"]) {
            head = Some((at, words[at..].to_vec()));
            continue;
        }
        let Some((at, names)) = &head else { continue };
        let Some(own) = words.get(*at..).filter(|own| own.len() >= names.len()) else { continue };
        if own[0].parse::<f64>().is_err() || std::mem::take(&mut is_first) {
            continue;
        }
        for ((name, _), sum) in VMSTAT.iter().zip(&mut sums) {
            let value = names.iter().position(|it| it == name).and_then(|n| own[n].parse::<f64>().ok());
            if let Some(value) = value {
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
    }
    let row = |((name, unit), (sum, n)): (&(&str, &str), &(f64, u32))| {
        let name = format!("Mean vmstat-{name}");
        (*n > 0)
            .then(|| Row::new("vmstat monitor", name, unit, Better::Neutral, Format::Decimals(2), sum / f64::from(*n)))
    };
    VMSTAT.iter().zip(&sums).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::TIMESTAMP;
    use super::*;

    #[test]
    fn a_test_has_its_counters_before_and_after_and_its_times() {
        let found = super::tests(TIMESTAMP);
        let [test] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((test.name.as_str(), test.times), ("parallelio", Some([3.25, 1.5, 10.0])));
        let of = |counters: &Option<Vmstat>| counters.as_ref().unwrap()["pgfault"];
        assert_eq!((of(&test.before), of(&test.after)), (1000, 5000));
        assert_eq!(test.before.as_ref().unwrap().len(), 5, "zoneinfo is another file");
    }

    #[test]
    fn snapshots_begin_with_a_time_or_with_the_first_name() {
        let timed = snapshots("time: 100\nnr_free_pages 5\npgfault 1\ntime: 110\nnr_free_pages 4\npgfault 21\n");
        assert_eq!((span_s(&timed), growth(&timed).unwrap()), (Some(10.0), [("pgfault".to_owned(), 20)].into()));
        let bare = snapshots("nr_free_pages 5\npgfault 1\nnr_free_pages 4\npgfault 2\n");
        assert_eq!((bare.points.len(), span_s(&bare)), (2, Some(1.0)));
        assert_eq!(growth(&snapshots("pgfault 1\n")), None);
    }

    #[test]
    fn iostat_of_three_versions_is_read() {
        let stamped = "   1371562  0 -- Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n\
            1371562  0 -- sda 0 0 1 1 4 4 8 9.0 99 99 99 1 50\n\n1371572 10 -- sda 0 0 1 1 4 4 8 3.5 20.5 8 30 1 50\n";
        let sample = DiskSample { avgqz: 3.5, await_ms: 20.5, r_await_ms: 8.0, w_await_ms: 30.0 };
        assert_eq!(iostat(stamped), [("sda".to_owned(), vec![sample])].into());
        let old = "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util\nsda 0 0 1 1 4 4 8 9.0 99 1 50\nsda 0 0 1 1 4 4 8 2.0 7 1 50\n";
        assert_eq!(iostat(old)["sda"][0].await_ms, 7.0);
        let new = "Device r/s w/s rkB/s wkB/s r_await w_await aqu-sz %util\nsda 1 3 4 4 8 16 1.5 50\nsda 1 3 4 4 8 16 1.5 50\n";
        assert_eq!(iostat(new)["sda"][0], DiskSample { avgqz: 1.5, await_ms: 14.0, r_await_ms: 8.0, w_await_ms: 16.0 });
    }

    #[test]
    fn vmstat_has_means_without_its_first_line() {
        let log = "procs -----------memory----------\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa\n\
             9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n 1 0 0 100 1 1 4 8 10 20 30 40 50 5 40 5\n 3 2 0 100 1 1 0 0 10 20 30 40 50 5 40 5\n";
        let rows = vmstat_means(log);
        let of = |name: &str| rows.iter().find(|row| row.name == format!("Mean vmstat-{name}")).unwrap().value;
        assert_eq!((rows.len(), of("r"), of("si"), of("us")), (12, 2.0, 2.0, 50.0));
    }
}
