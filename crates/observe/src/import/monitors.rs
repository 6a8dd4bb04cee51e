//! Rows of a report, and series of counters over time, from the output of the monitors of MMTests, such as `iostat`.

use figures::figure::{Better, Format, Row};
use figures::mmtests;
use figures::series::Series;
use figures::usage::DiskSample;
use kit::wrong::Wrong;
use machine::Nanos;
use recordings::mmtests::{Benchmark, Counters};
use recordings::{Figures, Sample};
use std::collections::BTreeMap;

/// Makes a series from the counters at several moments; none if there are no moments. Times count from the first
/// moment.
#[must_use]
pub fn series(moments: &[(f64, Counters)]) -> Option<Series> {
    let (begun, _) = moments.first()?;
    let mut series = Series::default();
    for (time, counters) in moments {
        series.push(Nanos(((time - begun) * 1e9).round() as u64), &counters.vmstat());
    }
    Some(series)
}

/// Returns rows (figures of a report) about all devices, from their samples of `iostat`. The rows are in the group
/// `iostat`.
pub fn iostat_rows(benchmark: &Benchmark, disks: &BTreeMap<String, Vec<Figures>>, wrong: &mut Vec<Wrong>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (device, figures) in disks {
        let samples: Vec<DiskSample> = figures.iter().filter_map(sample).collect();
        if samples.len() < figures.len() {
            let what =
                format!("expected a column avgqu-sz or aqu-sz of `iostat -x` for {device} during {}", benchmark.name);
            wrong.push(Wrong { file: benchmark.folder.display().to_string(), line: None, what });
        }
        rows.extend(mmtests::iostat_rows(device, &samples));
    }
    rows
}

/// Reads a sample of `iostat`, whatever version of it wrote the sample. Returns none if the length of the queue is
/// missing.
fn sample(figures: &Figures) -> Option<DiskSample> {
    let of = |name: &str| figures.get(name);
    let avgqz = of("avgqu-sz").or_else(|| of("aqu-sz"))?;
    let [r_await_ms, w_await_ms] = ["r_await", "w_await"].map(|name| of(name).unwrap_or_default());
    // New versions have no mean time of all requests. It is computed from the times of reads and writes, weighted by
    // their numbers.
    let both = || {
        let [reads, writes] = [of("r/s")?, of("w/s")?];
        Some((reads * r_await_ms + writes * w_await_ms) / (reads + writes).max(f64::MIN_POSITIVE))
    };
    let await_ms = of("await").or_else(both).unwrap_or_default();
    Some(DiskSample { avgqz, await_ms, r_await_ms, w_await_ms })
}

/// Columns of `vmstat`, each with its unit.
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

/// Returns a row for each column of `vmstat`: the mean of the column over all samples. Columns without values have no
/// row.
#[must_use]
pub fn vmstat_means(samples: &[Sample]) -> Vec<Row> {
    let row = |(name, unit): &(&str, &str)| {
        let values: Vec<f64> = samples.iter().filter_map(|sample| sample.values.get(name)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let name = format!("Mean vmstat-{name}");
        let row = || Row::new("vmstat monitor", name, unit, Better::Neutral, Format::Decimals(2), mean);
        (!values.is_empty()).then(row)
    };
    VMSTAT.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recordings::{procps, sysstat};

    #[test]
    fn iostat_of_three_versions_is_read() {
        let of = |text: &str| {
            let mut wrong = Vec::new();
            let disks = sysstat::read_iostat("i", text, &mut wrong);
            assert_eq!(wrong, []);
            sample(&disks["sda"][0]).unwrap()
        };
        let stamped = "   1371562  0 -- Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n\
            1371562  0 -- sda 0 0 1 1 4 4 8 9.0 99 99 99 1 50\n\n1371562  0 -- Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n\
            1371572 10 -- sda 0 0 1 1 4 4 8 3.5 20.5 8 30 1 50\n";
        assert_eq!(of(stamped), DiskSample { avgqz: 3.5, await_ms: 20.5, r_await_ms: 8.0, w_await_ms: 30.0 });
        let old = "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util\nsda 0 0 1 1 4 4 8 9.0 99 1 50\nsda 0 0 1 1 4 4 8 2.0 7 1 50\n";
        assert_eq!(of(old).await_ms, 7.0);
        let new = "Device r/s w/s rkB/s wkB/s r_await w_await aqu-sz %util\nsda 1 3 4 4 8 16 1.5 50\nsda 1 3 4 4 8 16 1.5 50\n";
        assert_eq!(of(new), DiskSample { avgqz: 1.5, await_ms: 14.0, r_await_ms: 8.0, w_await_ms: 16.0 });
    }

    #[test]
    fn a_disk_without_a_queue_is_told() {
        let disks = [("sda".to_owned(), vec![Figures::from([("tps", 1.0)])])].into();
        let mut wrong = Vec::new();
        assert_eq!(iostat_rows(&Benchmark::default(), &disks, &mut wrong), []);
        assert!(wrong[0].what.contains("expected a column avgqu-sz or aqu-sz of `iostat -x` for sda"), "{wrong:?}");
    }

    #[test]
    fn vmstat_has_means_without_its_first_line() {
        let log = "procs -----------memory----------\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa\n\
             9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n 1 0 0 100 1 1 4 8 10 20 30 40 50 5 40 5\n 3 2 0 100 1 1 0 0 10 20 30 40 50 5 40 5\n";
        let mut wrong = Vec::new();
        let rows = vmstat_means(&procps::read("v", log, 1.0, &mut wrong));
        assert_eq!(wrong, []);
        let of = |name: &str| rows.iter().find(|row| row.name == format!("Mean vmstat-{name}")).unwrap().value;
        assert_eq!((rows.len(), of("r"), of("si"), of("us")), (12, 2.0, 2.0, 50.0));
    }

    #[test]
    fn counters_over_time_begin_at_0() {
        let moments = [(100.0, 5), (110.5, 25)]
            .map(|(time, faults)| (time, Counters::of(&[("pgfault".to_owned(), faults)].into(), None)));
        let found = series(&moments).unwrap();
        assert_eq!(
            found.points.iter().map(|it| (it.now_ns, it.values[0])).collect::<Vec<_>>(),
            [(0, 5), (10_500_000_000, 25)]
        );
        assert_eq!(series(&[]), None);
    }
}
