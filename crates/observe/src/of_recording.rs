//! Conversion of recordings to counters over time in the form of `--series`, which `report` draws.

use engine::stat::Vmstat;
use figures::series::Series;
use machine::Nanos;
use recordings::PAGE_KIB;
use recordings::format::Recording;
use recordings::looks::formats::{COPIES_OF_PRESSURE, COPIES_OF_VMSTAT};

/// The way in which a column of a recording is converted to a counter or a level of `/proc/vmstat`.
enum Is {
    /// The column is a rate per second. This factor converts the rate to the unit of the counter, pages or events.
    Rate(f64),
    /// The column is the number of events since the sample before. The counter grows by this number.
    Count,
    /// The column is a level in KiB, which is converted to pages.
    Level,
}

/// Columns of recording tools such as `vmstat` and `sar`, each with its counter of `/proc/vmstat`.
const COLUMNS: [(&str, &str, Is); 33] = [
    ("si", "pswpin", Is::Rate(1.0 / PAGE_KIB)),
    ("so", "pswpout", Is::Rate(1.0 / PAGE_KIB)),
    ("bi", "pgpgin", Is::Rate(1.0)),
    ("bo", "pgpgout", Is::Rate(1.0)),
    ("free", "nr_free_pages", Is::Level),
    ("cache", "nr_file_pages", Is::Level),
    ("pgscank/s", "pgscan_kswapd", Is::Rate(1.0)),
    ("pgscand/s", "pgscan_direct", Is::Rate(1.0)),
    ("pgsteal/s", "pgsteal", Is::Rate(1.0)),
    ("pswpin/s", "pswpin", Is::Rate(1.0)),
    ("pswpout/s", "pswpout", Is::Rate(1.0)),
    ("pgpgin/s", "pgpgin", Is::Rate(1.0)),
    ("pgpgout/s", "pgpgout", Is::Rate(1.0)),
    ("fault/s", "pgfault", Is::Rate(1.0)),
    ("majflt/s", "pgmajfault", Is::Rate(1.0)),
    ("pgfree/s", "pgfree", Is::Rate(1.0)),
    ("%smem", "psi_memory_some_us", Is::Rate(1e4)),
    ("%fmem", "psi_memory_full_us", Is::Rate(1e4)),
    ("kbmemfree", "nr_free_pages", Is::Level),
    ("kbcached", "nr_file_pages", Is::Level),
    ("kbdirty", "nr_dirty", Is::Level),
    ("kbanonpg", "nr_anon_pages", Is::Level),
    ("kbshmem", "nr_shmem", Is::Level),
    ("kbslabreclaimable", "nr_slab_reclaimable", Is::Level),
    ("kbslabunreclaimable", "nr_slab_unreclaimable", Is::Level),
    ("kbswptotal", "nr_swap_total", Is::Level),
    ("kbswpfree", "nr_swap_free", Is::Level),
    ("pgscan", "pgscan", Is::Count),
    ("pgsteal", "pgsteal", Is::Count),
    ("allocstall", "allocstall", Is::Count),
    ("pswpin", "pswpin", Is::Count),
    ("pswpout", "pswpout", Is::Count),
    ("oom_kill", "oom_kill", Is::Count),
];

/// Converts a recording to a series: counters and levels at the end of each sample. Times count from the start of the
/// recording, without the gaps between samples.
#[must_use]
pub fn series(recording: &Recording) -> Series {
    if [COPIES_OF_VMSTAT, COPIES_OF_PRESSURE].contains(&recording.tool) {
        return of_copies(recording);
    }
    let samples = &recording.samples;
    let known = |name: &str| samples.iter().any(|sample| sample.values.get(name).is_some());
    let columns: Vec<_> = COLUMNS.iter().filter(|(column, ..)| known(column)).collect();
    let mut sums = vec![0.0; columns.len()];
    let mut series = Series::default();
    let mut now_s = 0.0;
    let mut push = |now_s: f64, sums: &[f64]| {
        let pairs = columns.iter().zip(sums).map(|((_, counter, _), sum)| ((*counter).to_owned(), sum.round() as u64));
        series.push(Nanos((now_s * 1e9) as u64), &pairs.collect::<Vmstat>());
    };
    for (n, sample) in samples.iter().enumerate() {
        for ((column, _, is), sum) in columns.iter().zip(&mut sums) {
            // If a sample does not have a level, the last known value is used.
            match (sample.values.get(column), is) {
                (Some(value), Is::Rate(units)) => *sum += value * units * sample.seconds,
                (Some(value), Is::Count) => *sum += value,
                (Some(value), Is::Level) => *sum = value / PAGE_KIB,
                (None, _) => {}
            }
        }
        if n == 0 {
            let begun: Vec<f64> = columns
                .iter()
                .zip(&sums)
                .map(|((.., is), sum)| if matches!(is, Is::Level) { *sum } else { 0.0 })
                .collect();
            push(0.0, &begun);
        }
        now_s += sample.seconds;
        push(now_s, &sums);
    }
    series
}

/// Converts copies of `/proc/vmstat` or of PSI, whose samples have the values of counters and not their growth.
fn of_copies(recording: &Recording) -> Series {
    let name = |name: &str| match (recording.tool, name) {
        (COPIES_OF_PRESSURE, name) => format!("psi_memory_{name}_us"),
        (_, name) => name.to_owned(),
    };
    let mut series = Series::default();
    let mut now_s = 0.0;
    for sample in &recording.samples {
        now_s += sample.seconds;
        let values: Vmstat = sample.values.iter().map(|(of, value)| (name(of), value as u64)).collect();
        series.push(Nanos((now_s * 1e9) as u64), &values);
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use recordings::formats::read;

    #[test]
    fn copies_of_counters_are_points_as_they_are() {
        let copy = |second: u32, come: u32| {
            format!("Thu Nov 26 10:00:{second:02} UTC 2026\nnr_free_pages 70\npswpin {come}\npgscan_kswapd 5\n")
        };
        let text = [copy(0, 100), copy(10, 150), copy(20, 170)].concat();
        let series = series(read("s", &text, None).unwrap().recordings().next().unwrap());
        let at = |n: usize, name: &str| series.points[n].values[series.names.iter().position(|it| it == name).unwrap()];
        assert_eq!(
            [0, 1, 2].map(|n| (series.points[n].now_ns / 1_000_000_000, at(n, "pswpin"))),
            [(0, 100), (10, 150), (20, 170)]
        );
        let psi = |second: u32| {
            format!("2026-11-26 10:00:{second:02}\nsome avg10=0.00 avg60=0.00 avg300=0.00 total={second}\n")
        };
        let text = [psi(0), psi(10), psi(20)].concat();
        let document = read("s", &text, None).unwrap();
        assert_eq!(super::series(document.recordings().next().unwrap()).names, ["psi_memory_some_us"]);
    }

    #[test]
    fn rates_become_counters_and_levels_pages() {
        let text = "10:00:00 pswpin/s pswpout/s\n10:00:10 5.00 1.00\n10:00:20 1.00 0.00\n\n10:00:00 kbmemfree kbcached\n10:00:10 400 40\n10:00:20 800 40\n";
        let document = read("s", text, None).unwrap();
        let series = series(document.recordings().next().unwrap());
        let at = |n: usize, name: &str| series.points[n].values[series.names.iter().position(|it| it == name).unwrap()];
        assert_eq!(series.points.iter().map(|point| point.now_ns / 1_000_000_000).collect::<Vec<_>>(), [0, 10, 20]);
        assert_eq!([0, 1, 2].map(|n| at(n, "pswpin")), [0, 50, 60]);
        assert_eq!([0, 1, 2].map(|n| at(n, "nr_free_pages")), [100, 100, 200]);
    }
}
