//! Writes a report as a directory of MMTests: each column becomes a folder with one iteration, whose figures are the
//! medians.
//!
//! Rows for which MMTests has logs are written as such logs: counters before and after the test, the test's times,
//! iostat, and the output of memcachetest, Postmark, stress-highalloc and ping. A report has only means and maxima of
//! iostat. So the iostat log gets invented samples that have these means and maxima. All other figures, and the order
//! of all rows, are written to [`ROWS_FILE`] beside the benchmark's logs. The rest of the report is written to
//! [`HEAD_FILE`]. MMTests does not read these two files.

use super::{benchmarks, rows_of_logs};
use engine::stat::Vmstat;
use figures::counters::zone_of;
use figures::figure::{Better, Format, Row};
use kit::draft::{Draft, DraftFolder};
use kit::interrupt;
use kit::wrong::Wrong;
use machine::PAGE_BYTES;
use recordings::mmtests::{Benchmark, Monitors};
use recordings::{mmtests, read_lossy, sysstat};
use report::{Column, Histogram, Table, TableHead, TableRow, json, saved};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Name of the file that lists the rows of one column of a report, in the report's order. Each line is a JSON array
/// about one row: group, name, unit, better direction and format of the row, and its figure if the other logs do not
/// contain it.
pub const ROWS_FILE: &str = "highwater-rows.log";

/// Name of the file that has a report without its rows, in the form of `--format json`: machine, scale, seeds and
/// grounds. Its key `DIGESTS` has a digest of the rows of each column.
pub const HEAD_FILE: &str = "highwater-report.json";

/// Key in [`HEAD_FILE`]. Its value has, for each column's id, the digest of the column's rows. If a digest does not
/// match the logs, logs were added or changed since, so the report's seeds and fingerprint are dropped.
const DIGESTS: &str = "rows_sha256";

/// Returns a digest of a column, made from the names, units and medians of its rows. The order of the rows does not
/// matter.
fn digest<'a>(rows: impl Iterator<Item = (&'a TableRow, f64)>) -> String {
    let line = |(row, value): (&TableRow, f64)| format!("{:?}", (&row.group, &row.name, &row.unit, value.to_bits()));
    let mut lines: Vec<String> = rows.map(line).collect();
    lines.sort_unstable();
    Sha256::digest(lines.join("\n")).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the rows of a column, each with its median.
fn rows_of_column(table: &Table, column: usize) -> impl Iterator<Item = (&TableRow, f64)> {
    table.rows.iter().filter_map(move |row| Some((row, row.median(column)?)))
}

/// Names of rows that show the growth of a single counter, each with the name of the counter.
const FLAT: [(&str, &str); 24] = [
    ("Swap Ins", "pswpin"),
    ("Swap Outs", "pswpout"),
    ("Swap ins", "pswpin"),
    ("Swap outs", "pswpout"),
    ("Major Faults", "pgmajfault"),
    ("Kswapd pages reclaimed", "pgsteal_kswapd_normal"),
    ("Direct pages reclaimed", "pgsteal_direct_normal"),
    ("Direct reclaim pages reclaimed", "pgsteal_direct_normal"),
    ("Page writes by reclaim", "nr_vmscan_write"),
    ("Pages written", "nr_vmscan_write"),
    ("Page reclaim immediate", "nr_vmscan_immediate_reclaim"),
    ("Sector Reads", "pgpgin"),
    ("Sector Writes", "pgpgout"),
    ("Page ins", "pgpgin"),
    ("Page outs", "pgpgout"),
    ("Page rescued immediate", "pgrescued"),
    ("Slabs scanned", "slabs_scanned"),
    ("Direct inode steals", "pginodesteal"),
    ("Kswapd inode steals", "kswapd_inodesteal"),
    ("Kswapd skipped wait", "kswapd_skip_congestion_wait"),
    ("Kswapd skip congestion_wait", "kswapd_skip_congestion_wait"),
    ("Direct reclaims", "allocstall"),
    ("Pages activated", "pgactivate"),
    ("Pages deactivated", "pgdeactivate"),
];

/// Names of further rows, each with the name of the counter, as in [`FLAT`]. These rows are in tables that were posted
/// in 2010 and 2011.
const FLAT_EARLY: [(&str, &str); 2] = [
    ("Kswapd low wmark quickly", "kswapd_low_wmark_hit_quickly"),
    ("Kswapd high wmark quickly", "kswapd_high_wmark_hit_quickly"),
];

/// Counters of reclaim that some kernels keep for each zone. The first two count scanned pages.
const RECLAIM: [&str; 4] = ["pgscan_kswapd", "pgscan_direct", "pgsteal_kswapd", "pgsteal_direct"];

/// Returns the name that an experiment's test has in MMTests.
fn test_of(experiment: &str) -> &str {
    match experiment {
        "highalloc" => "stress-highalloc",
        other => other,
    }
}

/// Writes a table into a new or empty folder, completely or not at all.
///
/// # Errors
/// When the folder is not empty or cannot be written to, or when the user interrupts.
pub fn directory(table: &Table, folder: &Path) -> io::Result<()> {
    check(folder)?;
    let _guard = interrupt::guard();
    let draft = DraftFolder::of(folder)?;
    fill(table, draft.path())?;
    if interrupt::is_set() {
        return Err(io::Error::other("interrupted"));
    }
    draft.finish(HEAD_FILE)
}

/// Writes a table as logs of MMTests into a folder that exists.
fn fill(table: &Table, folder: &Path) -> io::Result<()> {
    let test = name_of_file(test_of(&table.experiment));
    fs::write(folder.join(HEAD_FILE), head_file(table)?)?;
    for (n, run) in folders_of(&table.columns).iter().enumerate() {
        let rows: Vec<(&TableRow, f64)> = rows_of_column(table, n).collect();
        let iteration = folder.join(run).join("iter-0");
        for (path, text) in files(&test, &rows) {
            let path = iteration.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&iteration))?;
            fs::write(path, text)?;
        }
    }
    Ok(())
}

/// Returns the contents of the file [`HEAD_FILE`]: a report without its rows, as JSON, with a digest of each column's
/// rows.
fn head_file(table: &Table) -> io::Result<String> {
    let mut head: serde_json::Value =
        serde_json::from_str(&json::render(&Table { rows: Vec::new(), ..table.clone() }))?;
    let digest = |(n, column): (usize, &Column)| (column.id.clone(), digest(rows_of_column(table, n)).into());
    head[DIGESTS] = table.columns.iter().enumerate().map(digest).collect::<serde_json::Map<_, _>>().into();
    Ok(format!("{head:#}\n"))
}

/// Checks that a folder does not exist or is empty, and can be written to.
///
/// # Errors
/// When the folder is not empty, or cannot be read or written to.
pub fn check(folder: &Path) -> io::Result<()> {
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the folder is not empty"));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let is_there = |place: &&Path| place.as_os_str().is_empty() || place.exists();
    let there = folder.ancestors().find(is_there).unwrap_or(Path::new(""));
    Draft::beside(&there.join("probe")).map(drop)
}

/// A report without its rows, read from a directory that [`directory`] wrote.
pub struct Head {
    folder: PathBuf,
    report: Table,
    /// For each column of the report, by the column's id, a digest of the column's rows; empty if the digests are
    /// unknown.
    digests: BTreeMap<String, String>,
    /// The folders of the report's columns, in order.
    folders: Vec<String>,
}

/// Returns the head (all but the rows) of each report that the benchmarks come from, once for each report. A
/// directory that MMTests itself wrote has no head.
pub fn heads(benchmarks: &[Benchmark], wrong: &mut Vec<Wrong>) -> Vec<Head> {
    let mut places: Vec<PathBuf> = benchmarks.iter().filter_map(|it| Some(head_folder(it)?.0)).collect();
    places.sort();
    places.dedup();
    let head = |folder: PathBuf| {
        let names = [HEAD_FILE.to_owned(), format!("{HEAD_FILE}.gz")];
        let path = names.into_iter().map(|name| folder.join(name)).find(|path| path.symlink_metadata().is_ok())?;
        let read = || -> Result<(Table, BTreeMap<String, String>), Wrong> {
            let text = read_lossy(&path)?;
            let report =
                saved::read(&text).map_err(|what| Wrong { file: path.display().to_string(), line: None, what })?;
            let digests = serde_json::from_str::<serde_json::Value>(&text).ok();
            let digests = digests.and_then(|mut head| serde_json::from_value(head[DIGESTS].take()).ok());
            Ok((report, digests.unwrap_or_default()))
        };
        match read() {
            Ok((report, digests)) => Some(Head { folders: folders_of(&report.columns), folder, report, digests }),
            Err(why) => {
                let what = format!("{}; on what ground and at what scale it ran is not known", why.what);
                wrong.push(Wrong { what, ..why });
                None
            }
        }
    };
    places.into_iter().filter_map(head).collect()
}

/// Splits the path of a benchmark in an imported report. Returns the report's folder, and the name of the folder in it
/// that belongs to the benchmark's column. Returns `None` if the path does not have the form that [`directory`] gives
/// to the paths of benchmarks.
fn head_folder(benchmark: &Benchmark) -> Option<(PathBuf, String)> {
    benchmark.iteration()?;
    let column = fs::canonicalize(benchmark.folder.parent().filter(|it| !it.as_os_str().is_empty())?).ok()?;
    Some((column.parent()?.to_owned(), column.file_name()?.to_str()?.to_owned()))
}

impl Head {
    /// Returns the index of the report's column that a benchmark belongs to; none if the benchmark belongs to another
    /// report or another test.
    #[must_use]
    pub fn place(&self, benchmark: &Benchmark) -> Option<usize> {
        let (folder, column) = head_folder(benchmark)?;
        let is_its = folder == self.folder && name_of_file(test_of(&self.report.experiment)) == benchmark.name;
        self.folders.iter().position(|it| *it == column).filter(|_| is_its)
    }

    /// Returns the column that a benchmark belongs to; none if there is no such column in this report.
    #[must_use]
    pub fn column(&self, benchmark: &Benchmark) -> Option<Column> {
        self.report.columns.get(self.place(benchmark)?).cloned()
    }

    /// Returns the names of the report's main rows.
    #[must_use]
    pub fn main_rows(&self) -> &[String] {
        &self.report.main_rows
    }

    /// Returns whether the rows of an imported column are unchanged since the report was written. The column must come
    /// from a single run, and its rows must match the digest that the report has of them.
    fn is_as_written(&self, imported: &Table, column: usize) -> bool {
        let is_single = imported.rows.iter().filter_map(|row| row.cells.get(column)?.value).all(|value| value.n == 1);
        let written = self.digests.get(&imported.columns[column].id);
        is_single && written == Some(&digest(rows_of_column(imported, column)))
    }

    /// Returns a head with the columns of `imported`, a table that was read from logs; and the written report's
    /// histograms of durations for these columns. The head keeps the report's fingerprint and seeds only if no logs
    /// were added or changed, because a fingerprint and seeds apply to all columns together.
    #[must_use]
    pub fn of_columns(self, imported: &Table) -> (TableHead, Vec<Histogram>) {
        let is_whole = (0..imported.columns.len()).all(|column| self.is_as_written(imported, column));
        let Table { experiment, machine, scale, seeds, fingerprint, columns: own, mut notes, mut histograms, .. } =
            self.report;
        let (columns, of_others) = (imported.columns.clone(), imported.notes.clone());
        let is_of = |id: &String| columns.iter().any(|column| column.id == *id);
        for histogram in &mut histograms {
            histogram.columns.retain(|(id, _)| is_of(id));
        }
        histograms.retain(|histogram| !histogram.columns.is_empty());
        let fingerprint = fingerprint.filter(|_| columns == own && is_whole);
        let seeds = if is_whole { seeds } else { Vec::new() };
        if !is_whole || columns.iter().any(|column| !own.contains(column)) {
            notes.extend(of_others);
        }
        (TableHead { experiment, machine, scale, seeds, fingerprint, columns, notes }, histograms)
    }
}

/// Makes a folder name for each column from the column's id, and returns these names.
fn folders_of(columns: &[Column]) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    for column in columns {
        let name = name_of_file(&column.id);
        let others = (2..).map(|n| format!("{name}_{n}"));
        let free = std::iter::once(name.clone()).chain(others).find(|name| !folders.contains(name));
        folders.extend(free);
    }
    folders
}

/// Largest number of characters in a file's name. In UTF-8 they take at most 240 bytes, and file systems accept 255.
const NAME_CHARS_MAX: usize = 60;

/// Turns a name into a file name: without separators and line breaks, without a dot at the start, and not too long.
fn name_of_file(name: &str) -> String {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || ['/', '\\'].contains(&c);
    let name: String = name.chars().take(NAME_CHARS_MAX).map(|c| if is_odd(c) { '_' } else { c }).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

/// Returns the logs to write for one iteration with the given rows. Each log has its path in the iteration's folder
/// and its contents.
fn files(test: &str, rows: &[(&TableRow, f64)]) -> Vec<(String, String)> {
    let of = |group: &str, name: &str| {
        rows.iter().find(|(row, _)| row.group == group && row.name == name).map(|(_, value)| *value)
    };
    let times = times(&of);
    let elapsed_s = times.map(|times| times[2]).or_else(|| of("duration", "Elapsed"));
    let after = counters(rows, &of, elapsed_s);
    let mut stamp = format!("start :: 0\ntest begin :: {test} 0\n");
    for (when, is_after) in [("start", false), ("end", true)] {
        stamp += &format!("file {when} :: /proc/vmstat\n");
        let value = |value: &u64| if is_after { *value } else { 0 };
        stamp.extend(after.iter().map(|(name, count)| format!("{name} {}\n", value(count))));
        stamp += &format!("file {when} :: /proc/zoneinfo\n");
        let stalled_us = ["some", "full"].map(|who| {
            let total_ms = of("pressure", &format!("memory {who} total"))?;
            Some((who, if is_after { (total_ms * 1e3).round() as u64 } else { 0 }))
        });
        if let [Some(some), Some(full)] = stalled_us {
            stamp += &format!("file {when} :: /proc/pressure/memory\n");
            stamp.extend([some, full].map(|(who, us)| format!("{who} avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n")));
        }
        if let [Some(total), Some(free)] = ["total", "free"].map(|part| of("swap", part))
            && is_after
        {
            let kib = [total, free].map(|pages| pages as u64 * (PAGE_BYTES as u64 / 1024));
            stamp += &format!("file end :: /proc/meminfo\nSwapTotal: {} kB\nSwapFree: {} kB\n", kib[0], kib[1]);
        }
    }
    stamp += &format!("test end :: {test} {}\n", elapsed_s.unwrap_or(0.0));
    if let Some([user, system, elapsed]) = times {
        stamp += &format!("time :: {test} {user} user {system} system {elapsed} elapsed\n");
    }
    stamp += "finish :: 0\n";
    let iostat = iostat(rows);
    let own: Vec<(PathBuf, String)> = own(rows, &of);
    // Figures that can be read back from these logs need not be repeated in [`ROWS_FILE`].
    let mut wrong = Vec::new();
    let found = mmtests::parse("tests-timestamp", &stamp, &mut wrong).pop();
    let found = found.unwrap_or_else(|| Benchmark { name: test.to_owned(), ..Benchmark::default() });
    let disks = iostat.as_ref().map(|text| sysstat::read_iostat("iostat", text, &mut wrong)).unwrap_or_default();
    let back = rows_of_logs(&found, &Monitors { disks, ..Monitors::default() }, &own, &mut wrong);
    debug_assert_eq!(wrong, [], "what is written is right");
    let mut files = vec![("tests-timestamp".to_owned(), stamp)];
    files.extend(iostat.map(|text| (format!("iostat-{test}"), text)));
    let logs = own.into_iter().map(|(path, text)| (format!("{test}/logs/{}", path.display()), text));
    files.extend(logs);
    files.push((format!("{test}/logs/{ROWS_FILE}"), ordered(rows, &back)));
    files
}

/// Returns user, system and elapsed time, s, from the rows with these times; none if one of these rows is missing. The
/// tables of 2010 and 2011 have user and system time in one row; their sum is then returned as user time.
fn times(of: &impl Fn(&str, &str) -> Option<f64>) -> Option<[f64; 3]> {
    let own = ["User", "System", "Elapsed"].map(|name| of("duration", name));
    if let [Some(user), Some(system), Some(elapsed)] = own {
        return Some([user, system, elapsed]);
    }
    let cpu = of("duration", "User/Sys Time Running Test (seconds)")?;
    Some([cpu, 0.0, of("duration", "Total Elapsed Time (seconds)")?])
}

/// Returns whether `name` has the form of a counter's name in `/proc/vmstat`: only small letters, digits and `_`.
/// Returns false for `lru_used_once` and `pgrotate_locked`, counters of the engine that Linux does not have.
fn is_counter(name: &str) -> bool {
    const OF_ENGINE: [&str; 2] = ["lru_used_once", "pgrotate_locked"];
    name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')) && !OF_ENGINE.contains(&name)
}

/// Returns values of counters such that a reader of the logs computes the figures of `rows` from them again. Figures
/// that are not whole numbers are written to [`ROWS_FILE`] instead.
fn counters(rows: &[(&TableRow, f64)], of: &impl Fn(&str, &str) -> Option<f64>, elapsed_s: Option<f64>) -> Vmstat {
    let mut counters = Vmstat::new();
    for (name, counter) in FLAT.iter().chain(&FLAT_EARLY) {
        let groups = ["vmstat", "vmscan", "faults"];
        if let Some(value) = groups.iter().find_map(|group| of(group, name)) {
            counters.insert((*counter).to_owned(), value.max(0.0).round() as u64);
        }
    }
    let own =
        rows.iter().filter(|(row, _)| ["vmstat", "counters"].contains(&row.group.as_str()) && is_counter(&row.name));
    counters.extend(own.map(|(row, value)| (row.name.clone(), value.max(0.0).round() as u64)));
    // If a counter is known for all zones together, values by zone would be invented.
    for event in RECLAIM.iter().filter(|event| counters.contains_key(**event)).copied().collect::<Vec<_>>() {
        counters.retain(|name, _| zone_of(name, event).is_none());
    }
    let minor = ["vmstat", "faults"].iter().find_map(|group| of(group, "Minor Faults"));
    if let Some(minor) = minor {
        let major = counters.get("pgmajfault").copied().unwrap_or(0);
        counters.insert("pgfault".into(), minor.max(0.0).round() as u64 + major);
    }
    let total = |names: [(&str, &str); 2]| names.iter().find_map(|(group, name)| of(group, name));
    let kswapd = total([("vmstat", "Kswapd pages scanned"), ("vmscan", "Kswapd pages scanned")]);
    let direct = total([("vmstat", "Direct pages scanned"), ("vmscan", "Direct reclaim pages scanned")]);
    // An unknown counter must not be written as 0.
    let is_known_of_all = RECLAIM[..2].iter().any(|event| counters.contains_key(*event));
    if kswapd.is_none() && direct.is_none() || is_known_of_all {
        return counters;
    }
    let [mut kswapd, mut direct] = [kswapd, direct].map(|pages| pages.unwrap_or(0.0).round() as u64);
    // A zone has one figure for kswapd and tasks together: kswapd's part is filled first.
    let velocities = rows.iter().filter_map(|(row, value)| {
        let zone = row.name.strip_prefix("Zone ")?.strip_suffix(" velocity")?;
        (row.group == "vmstat").then(|| (zone.to_owned(), (value * elapsed_s.unwrap_or(0.0)).round() as u64))
    });
    let mut zones: BTreeMap<String, u64> = velocities.collect();
    let rest = (kswapd + direct).saturating_sub(zones.values().sum());
    if zones.is_empty() {
        zones.insert("normal".into(), rest);
    }
    for (zone, pages) in zones {
        let by_kswapd = pages.min(kswapd);
        let by_others = (pages - by_kswapd).min(direct);
        (kswapd, direct) = (kswapd - by_kswapd, direct - by_others);
        counters.insert(format!("pgscan_kswapd_{zone}"), by_kswapd);
        counters.insert(format!("pgscan_direct_{zone}"), by_others);
    }
    counters
}

/// Returns a text in the output format of `iostat`. The means and maxima of its samples are those that the rows state.
/// Its first sample stands for the time since boot, and is skipped when the text is read. Returns none if no row is
/// from `iostat`.
fn iostat(rows: &[(&TableRow, f64)]) -> Option<String> {
    let mut devices: BTreeMap<&str, BTreeMap<&str, [f64; 2]>> = BTreeMap::new();
    for (row, value) in rows.iter().filter(|(row, _)| row.group == "iostat") {
        let parts = row.name.split_once(' ').and_then(|(statistic, rest)| Some((statistic, rest.rsplit_once('-')?)));
        let Some((statistic, (device, figure))) = parts else { continue };
        let at = usize::from(statistic == "Max");
        devices.entry(device).or_default().entry(figure).or_default()[at] = *value;
    }
    if devices.is_empty() {
        return None;
    }
    let head = "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n";
    let mut text = String::new();
    for (device, figures) in devices {
        let of = |figure: &str| figures.get(figure).copied().unwrap_or_default();
        let columns = ["avgqz", "await", "r_await", "w_await"].map(of);
        // One sample has the maximum; the other samples share the rest of the sum evenly.
        let needed = columns.iter().map(|[mean, max]| if *mean > 0.0 { (max / mean).ceil() } else { 1.0 });
        let samples = needed.fold(2.0, f64::max).min(1e6) as u32;
        let rest = columns.map(|[mean, max]| (f64::from(samples) * mean - max) / f64::from(samples - 1));
        let line = |values: [f64; 4]| {
            let [queue, all, reads, writes] = values;
            format!("{device} 0 0 1 1 0 0 0 {queue} {all} {reads} {writes} 0 0\n")
        };
        text += &format!("{head}{}\n", line([0.0; 4]));
        text += &format!("{head}{}\n", line(columns.map(|[_, max]| max)));
        for _ in 1..samples {
            text += &format!("{head}{}\n", line(rest));
        }
    }
    Some(text)
}

/// Returns the logs that the benchmark would have written itself if it had measured the figures in `rows`. Each log has
/// its path and its contents.
fn own(rows: &[(&TableRow, f64)], of: &impl Fn(&str, &str) -> Option<f64>) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let sizes: Vec<(u64, f64)> = rows
        .iter()
        .filter_map(|(row, value)| {
            let size = row.name.strip_prefix("Ops memcachetest-")?.strip_suffix('M')?.parse().ok()?;
            Some((size, *value))
        })
        .collect();
    let (mut workloads, mut durations) = (String::new(), String::new());
    for (step, (size, rate)) in sizes.iter().enumerate() {
        workloads += &format!("memcachetest {step} 0\n");
        if let Some(seconds) = of("Ops", &format!("Ops io-duration-{size}M")) {
            durations += &format!("{step} {} {seconds}\n", size << 20);
        }
        files.push((PathBuf::from(format!("memcachetest-{step}-1/mmtests.log")), format!("ops/sec: {rate}\n")));
    }
    if !sizes.is_empty() {
        files.push(("workload-durations.log".into(), workloads));
        files.push(("io-durations.log".into(), durations));
    }
    let mut postmark = String::new();
    for (name, lead) in [
        ("Transactions", "0 seconds of transactions"),
        ("Files created alone", "Creation alone: 0 files"),
        ("Files create/transact", "Mixed with transactions: 0 files"),
        ("Files deleted alone", "Deletion alone: 0 files"),
        ("Files delete/transact", "Mixed with transactions: 0 files"),
        ("Data megabytes read", "0 megabytes read"),
        ("Data megabytes written", "0 megabytes written"),
    ] {
        if let Some(value) = of("postmark", &format!("{name} per second")) {
            postmark += &format!("\t{lead} ({value} per second)\n");
        }
    }
    let mut highalloc = String::new();
    for (name, title) in
        [("Pass 1", "Results Pass 1"), ("Pass 2", "Results Pass 2"), ("while Rested", "Test while Rested")]
    {
        if let Some(share) = of("success", name) {
            highalloc += &format!("{title}\n% Success:        {share}\n");
        }
    }
    let of_ping = |name: &str| of("ping", name);
    let ping = || {
        let counts = ["Packets transmitted", "Packets received", "Packet loss", "Time"].map(of_ping);
        let [Some(sent), Some(back), Some(loss), Some(time)] = counts else { return None };
        let times = ["rtt min", "rtt avg", "rtt max", "rtt mdev", "pipe", "ipg", "ewma"].map(of_ping);
        let [Some(min), Some(avg), Some(max), Some(mdev), Some(pipe), Some(ipg), Some(ewma)] = times else {
            return None;
        };
        Some(format!(
            "{sent} packets transmitted, {back} received, {loss}% packet loss, time {time}ms\n\
             rtt min/avg/max/mdev = {min}/{avg}/{max}/{mdev} ms, pipe {pipe}, ipg/ewma {ipg}/{ewma} ms\n"
        ))
    };
    let texts = [("postmark.log", postmark), ("log.txt", highalloc), ("ping.log", ping().unwrap_or_default())];
    files.extend(texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name.into(), text)));
    debug_assert!(files.iter().all(|(path, _)| benchmarks::is_known(path)), "{files:?}");
    files
}

/// Returns the contents of [`ROWS_FILE`]: a line for each of `rows`, in order. `back` are the rows that were read back
/// from the written logs. A line has the row's figure only if no row in `back` has exactly this figure.
fn ordered(rows: &[(&TableRow, f64)], back: &[Row]) -> String {
    let line = |(row, value): &(&TableRow, f64)| {
        let comes_back = back.iter().any(|it| {
            it.group == row.group && it.name == row.name && it.unit == row.unit && it.value.to_bits() == value.to_bits()
        });
        let mut line = vec![json!(row.group), json!(row.name), json!(row.unit), json!(row.better), json!(row.format)];
        if !comes_back {
            line.push(json!(value));
        }
        format!("{}\n", serde_json::Value::from(line))
    };
    rows.iter().map(line).collect()
}

/// Returns the rows that [`ROWS_FILE`] lists, in the order of this file, with figures from this file or from logs. If a
/// line of the file is wrong, the rows from logs that the file does not list are added at the end.
pub(super) fn in_order(path: &Path, order: &str, mut rows: Vec<Row>, wrong: &mut Vec<Wrong>) -> Vec<Row> {
    type Line = (String, String, String, Better, Format, Option<f64>);
    let file = path.display().to_string();
    let mut told = |line: usize, what: String| wrong.push(Wrong { file: file.clone(), line: Some(line + 1), what });
    let mut found = Vec::new();
    let mut is_whole = true;
    for (n, line) in order.lines().enumerate() {
        let parsed = serde_json::from_str::<Vec<serde_json::Value>>(line).ok().and_then(|mut parts| {
            // A line has no figure if logs have it.
            parts.resize(6, serde_json::Value::Null);
            serde_json::from_value::<Line>(parts.into()).ok()
        });
        let Some((group, name, unit, better, format, value)) = parsed else {
            told(n, format!("expected [group, name, unit, better, format, figure]: found `{line}`"));
            is_whole = false;
            continue;
        };
        let of_logs = rows.iter().position(|row| row.group == group && row.name == name);
        let of_logs = of_logs.map(|at| rows.remove(at).value);
        match value.or(of_logs) {
            Some(value) => found.push(Row { group, name, unit, better, value, format }),
            None => told(n, format!("expected a figure of `{name}` here or in a log, and found none")),
        }
    }
    if !is_whole {
        found.extend(rows);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::vmscan;
    use report::samples;

    fn round_trip(experiment: &str, rows: Vec<Row>) {
        let mut head = TableHead {
            experiment: experiment.into(),
            scale: "1/16".parse().unwrap(),
            notes: vec!["a note".into()],
            ..samples::head(&["x/b", "c", "x_b"], 1)
        };
        head.columns.iter_mut().for_each(|column| column.comparable = false);
        head.columns[1].ground = "host".into();
        let other = rows.iter().map(|row| Row { value: row.value * 2.0 + 1.0, ..row.clone() }).collect();
        let table = Table::of_runs(head, &[vec![rows], vec![other], vec![]], None);
        let folder = tempfile::tempdir().unwrap();
        directory(&table, folder.path()).unwrap();
        assert!(directory(&table, folder.path()).unwrap_err().to_string().contains("not empty"));
        let super::super::Imported { table: back, warnings, .. } =
            super::super::read(folder.path(), None, &[]).unwrap();
        assert_eq!(warnings, [""; 0]);
        assert_eq!(back.rows, table.rows);
        let of_head = |table: &Table| Table { rows: Vec::new(), ..table.clone() };
        assert_eq!(of_head(&back), of_head(&table));
    }

    #[test]
    fn seeds_and_fingerprint_are_of_what_was_written() {
        let head = TableHead { fingerprint: Some(7), ..samples::head(&["a", "b"], 1) };
        let table =
            Table::of_runs(head, &[vec![vec![samples::ops("x", 1.0)]], vec![vec![samples::ops("x", 2.0)]]], None);
        let after = |change: &dyn Fn(&Path)| {
            let folder = tempfile::tempdir().unwrap();
            directory(&table, folder.path()).unwrap();
            change(folder.path());
            let imported = super::super::read(folder.path(), None, &[]).unwrap().table;
            (imported.fingerprint, imported.seeds, imported.notes.len())
        };
        let rows = |folder: &Path, of: &str| folder.join(of).join(&table.experiment).join("logs").join(ROWS_FILE);
        assert_eq!(after(&|_| ()), (Some(7), table.seeds.clone(), table.notes.len()));
        let changed = (None, Vec::new(), table.notes.len() + 1);
        // Another iteration of a column, and another column.
        for to in ["a/iter-1", "c/iter-0"] {
            let added = after(&|folder| {
                let [from_rows, to_rows] = [rows(folder, "a/iter-0"), rows(folder, to)];
                fs::create_dir_all(to_rows.parent().unwrap()).unwrap();
                fs::copy(from_rows, to_rows).unwrap();
                let stamp = |of: &str| folder.join(of).join("tests-timestamp");
                fs::copy(stamp("a/iter-0"), stamp(to)).unwrap();
            });
            assert_eq!(added, changed, "{to}");
        }
        assert_eq!(
            after(&|folder| {
                let path = rows(folder, "b/iter-0");
                fs::write(&path, fs::read_to_string(&path).unwrap().replace("2.0]", "3.0]")).unwrap();
            }),
            changed
        );
        assert_eq!(
            after(&|folder| fs::remove_dir_all(folder.join("b")).unwrap()),
            (None, table.seeds.clone(), table.notes.len())
        );
    }

    #[test]
    fn what_is_written_is_imported_again() {
        let counters: Vmstat = [
            ("pgfault", 5000),
            ("pgmajfault", 30),
            ("pgscan_kswapd_normal", 700),
            ("pgscan_kswapd_dma32", 300),
            ("pgscan_direct_normal", 41),
            ("pgsteal_kswapd_normal", 820),
            ("pgsteal_direct_normal", 7),
            ("pswpout", 3),
            ("nr_vmscan_write", 9),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let samples = [(1.0, 5.0), (90.0, 700.0), (3.0, 0.0)].map(|(avgqz, await_ms)| figures::usage::DiskSample {
            avgqz,
            await_ms,
            r_await_ms: await_ms / 2.0,
            w_await_ms: 2.0 * await_ms,
        });
        let mut rows = vec![
            samples::ops("Ops memcachetest-0M", 23018.0),
            samples::ops("Ops memcachetest-715M", 22767.5),
            Row::new("Ops", "Ops io-duration-715M", "s", Better::Lower, Format::Decimals(2), 21.25),
            Row::new("Ops", "Ops swapin-715M", "pages", Better::Lower, Format::Decimals(2), 17.0),
            Row::new("odd", "a \"name\"\twith everything", "é", Better::Neutral, Format::Moment(1), 0.1 + 0.2),
        ];
        rows.extend(figures::figure::duration_rows(3.25, 1.5, 1_114.219_604_884));
        rows.extend(figures::mmtests::vmstat_rows(&counters, 1_114.219_604_884));
        rows.extend(figures::mmtests::iostat_rows("sda", &samples));
        round_trip("parallelio", rows.clone());
        // Most of these rows are in logs that MMTests itself reads.
        let rows: Vec<TableRow> = Table::of_runs(samples::head(&["a"], 1), &[vec![rows]], None).rows;
        let rows: Vec<(&TableRow, f64)> = rows.iter().filter_map(|row| Some((row, row.median(0)?))).collect();
        let files = files("parallelio", &rows);
        let (_, order) = files.iter().find(|(path, _)| path.ends_with(ROWS_FILE)).unwrap();
        let parts = order.lines().map(|line| serde_json::from_str::<Vec<serde_json::Value>>(line).unwrap());
        let apart: Vec<_> = parts.filter(|parts| parts.len() == 6).map(|parts| parts[1].clone()).collect();
        let of_logs = |name: &str| apart.iter().all(|it| it != name);
        let names = ["Elapsed", "Kswapd velocity", "Zone dma32 velocity", "Minor Faults", "Ops memcachetest-715M"];
        assert!(names.into_iter().all(of_logs) && !of_logs("Ops swapin-715M"), "{apart:#?}");
    }

    /// Checks that the counters that the doctor needs are written, and that a counter whose value is unknown is not
    /// written as 0.
    #[test]
    fn rows_called_as_counters_are_written_as_such() {
        let counters = [("pgscan_kswapd", 700), ("pgsteal_kswapd", 600), ("pswpin", 50), ("lru_used_once", 3)];
        let counters: Vmstat = counters.map(|(name, value)| (name.to_owned(), value)).into();
        let mut rows = figures::figure::duration_rows(3.25, 1.5, 10.0);
        rows.extend(workloads::meter::counter_rows(&counters));
        round_trip("anon", rows.clone());
        let written = |rows: Vec<Row>| {
            let table = Table::of_runs(samples::head(&["a"], 1), &[vec![rows]], None);
            let rows: Vec<(&TableRow, f64)> = rows_of_column(&table, 0).collect();
            let (_, stamp) = files("anon", &rows).into_iter().find(|(path, _)| path == "tests-timestamp").unwrap();
            mmtests::parse("t", &stamp, &mut Vec::new()).pop().unwrap().after.unwrap_or_default()
        };
        let expected = [("pgscan_kswapd", 700), ("pgsteal_kswapd", 600), ("pswpin", 50)];
        assert_eq!(written(rows), expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(written(vec![samples::ops("Ops", 1.0)]), Vmstat::new());
    }

    #[test]
    fn tables_of_2010_passes_and_pings_are_imported_again() {
        let counters: Vmstat = [("allocstall", 3), ("pgscan_direct_normal", 96), ("pgactivate", 5), ("pgpgin", 77)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        let mut rows = vec![Row::new(
            "postmark",
            "Transactions per second",
            "transactions/s",
            Better::Higher,
            Format::Decimals(2),
            26.5,
        )];
        let nanos = machine::Nanos::from_millis;
        let cpu = figures::usage::CpuTimes { user: nanos(3200), system: nanos(43) };
        rows.extend(vmscan::duration_rows(cpu, 79.5));
        rows.extend(vmscan::rows(&counters));
        round_trip("postmark", rows);
        let share =
            |name: &str, value| Row::new("success", name, "% of attempts", Better::Higher, Format::Points(2), value);
        round_trip("highalloc", vec![share("Pass 1", 38.0), share("while Rested", 82.5)]);
        let ping = [("Packets transmitted", "packets", 3000.0), ("rtt max", "ms", 172.125)]
            .map(|(name, unit, value)| Row::new("ping", name, unit, Better::Neutral, Format::Decimals(3), value));
        round_trip("ping", ping.into());
    }
}
