//! Conversion of texts from other tools to a report. Each recording, and each pair of copies of `/proc/vmstat`, becomes
//! a column.
//!
//! Rows have the names of the kernel's counters, as in a report of `stat`. So one table can have columns of both kinds,
//! those from texts and those of `stat`, and `doctor` can read them all.

use super::Imported;
use crate::doctor::{given::STANDARD_INPUT, source};
use crate::of_recording;
use catalogue::ground::Ground;
use engine::stat::Vmstat;
use figures::counters::difference;
use figures::figure::{Better, Format, Row};
use figures::scale::Scale;
use figures::series::{RunSeries, Series};
use kit::input;
use kit::wrong::Wrong;
use recordings::format::{Recording, Told};
use recordings::{Figures, formats, looks};
use report::{Column, Table, TableHead};
use std::path::{Path, PathBuf};

/// Reads texts from files. Returns a report with a column for each recording in them.
///
/// # Errors
/// When a file cannot be read, when nothing in it is recognised, or when it has no recording but only texts about
/// single moments, from which no growth of counters is known.
pub fn read(files: &[PathBuf]) -> Result<Imported, String> {
    let mut columns: Vec<Column> = Vec::new();
    let (mut rows, mut series, mut warnings, mut notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for path in files {
        let is_piped = path == Path::new("-");
        let file = if is_piped { STANDARD_INPUT.to_owned() } else { path.display().to_string() };
        let told = |why: Wrong| why.to_string();
        let text = if is_piped {
            let input = input::standard("the input").map_err(|error| Wrong::of(&file, input::why(&error)));
            input.and_then(|input| recordings::read_input(&file, input))
        } else {
            recordings::read(path)
        };
        let text = text.map_err(told)?;
        if source::is_it(&text) {
            return Err(format!(
                "{file}: it is a report or a series of `highwater` already: `highwater report` reads it"
            ));
        }
        let document = formats::read(&file, &text, None).map_err(told)?;
        let before = columns.len();
        let mut push = |tool: &str, host: Option<&str>, all: Vec<Row>, of_it: Option<Series>| {
            let name = path.file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy().into_owned());
            let name = if is_piped { "piped".to_owned() } else { name };
            let name = if host.is_some_and(|host| !host.is_empty()) {
                format!("{name}-{}", host.unwrap_or_default())
            } else {
                name
            };
            // A file may have two recordings by the same tool.
            let taken = |columns: &[Column], id: &str| columns.iter().any(|column| column.id == id);
            let mut id = format!("{tool}-{name}");
            let mut n = 2;
            while taken(&columns, &id) {
                id = format!("{tool}-{name}-{n}");
                n += 1;
            }
            columns.push(Column::new(&id, Ground::Linux));
            rows.push(vec![all]);
            series.extend(of_it.map(|series| RunSeries { column: id, seed: 1, series }));
        };
        let mut counters: Vec<&Vmstat> = Vec::new();
        for (_, told) in &document.told {
            match told {
                Told::Recording(recording) => {
                    let found = (!recording.samples.is_empty()).then(|| of_recording::series(recording));
                    let all = rows_of(recording, found.as_ref());
                    notes.extend(recording.assumed.iter().map(|what| format!("{file}: assumed {what}")));
                    push(&recording.tool.replace(' ', "-"), recording.host.as_deref(), all, found);
                }
                Told::Look(looks::Told::Vmstat(looks::VmstatFile(levels))) => counters.push(levels),
                Told::Look(_) => {}
            }
        }
        if let [first, .., last] = counters[..] {
            push("proc-vmstat", None, grown(&difference(first, last)).collect(), None);
        }
        warnings.extend(document.left_out.iter().map(|what| format!("{file}: left out {what}")));
        if columns.len() == before {
            return Err(format!("{file}: it tells of a moment alone, which is no column: `highwater doctor` reads it"));
        }
    }
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    notes.push(format!("texts: {}", names.join(", ")));
    let head = TableHead {
        experiment: "recorded".into(),
        machine: "that of the texts".into(),
        scale: Scale::FULL,
        seeds: Vec::new(),
        fingerprint: None,
        columns,
        notes,
    };
    Ok(Imported { table: Table::of_runs(head, &rows, None), series, warnings })
}

/// Returns a row for each counter, with the amount by which the counter grew. Levels get no row.
fn grown(counters: &Vmstat) -> impl Iterator<Item = Row> {
    let row = |(name, count): (&String, &u64)| {
        Row::new("vmstat", name, "", Better::Neutral, Format::Decimals(0), *count as f64)
    };
    counters.iter().filter(|(name, _)| !is_level(name)).map(row)
}

/// Returns whether the figure `name` of `/proc/vmstat` is a level, such as `nr_free_pages`, and not a count of events.
fn is_level(name: &str) -> bool {
    const COUNTED: [&str; 6] = [
        "nr_dirtied",
        "nr_written",
        "nr_vmscan_write",
        "nr_vmscan_immediate_reclaim",
        "nr_foll_pin_acquired",
        "nr_foll_pin_released",
    ];
    name.starts_with("nr_") && !COUNTED.contains(&name)
}

/// Returns rows (figures of a report) for a recording.
fn rows_of(recording: &Recording, series: Option<&Series>) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(series) = series
        && let (Some(first), Some(last)) = (series.points.first(), series.points.last())
    {
        let elapsed_s = (last.now_ns - first.now_ns) as f64 / 1e9;
        rows.push(Row::new("duration", "Elapsed", "s", Better::Lower, Format::Decimals(2), elapsed_s));
        let named = |at: usize| (&series.names[at], last.values[at].saturating_sub(first.values[at]));
        let counters: Vmstat = (0..series.names.len()).map(named).map(|(name, count)| (name.clone(), count)).collect();
        let stalls = [("memory some", "psi_memory_some_us"), ("memory full", "psi_memory_full_us")];
        rows.extend(grown(&counters).filter(|row| !row.name.starts_with("psi_")));
        rows.extend(stalls.iter().filter_map(|(name, counter)| {
            let percent = *counters.get(*counter)? as f64 / 1e4 / elapsed_s;
            Some(Row::new("pressure", *name, "% of the time", Better::Lower, Format::Decimals(2), percent))
        }));
        let level = |at: usize| series.points.iter().map(move |point| point.values[at]);
        for (at, name) in
            series.names.iter().enumerate().filter(|(_, name)| is_level(name) && !name.starts_with("nr_swap_"))
        {
            let mean = level(at).sum::<u64>() as f64 / series.points.len() as f64;
            rows.push(Row::new("levels", format!("{name}, mean"), "pages", Better::Neutral, Format::Decimals(0), mean));
        }
        let place = |name: &str| series.names.iter().position(|it| it == name);
        if let Some((all, free)) = place("nr_swap_total").zip(place("nr_swap_free")) {
            let parts = [("total", level(all).max()), ("free", level(free).min())];
            let row = |(part, pages): (&str, Option<u64>)| {
                Some(Row::new("swap", part, "pages", Better::Neutral, Format::Decimals(0), pages? as f64))
            };
            rows.extend(parts.into_iter().filter_map(row));
        }
    }
    for (disk, figures) in &recording.disks {
        rows.extend(rows_of_disk(disk, figures));
    }
    rows
}

/// Returns rows with the means of a disk's figures, named as `highwater stat` names them.
fn rows_of_disk(disk: &str, figures: &[Figures]) -> Vec<Row> {
    let columns = [
        ("%util", "busy", "% of the time"),
        ("r_await", "r_await", "ms"),
        ("w_await", "w_await", "ms"),
        ("await", "await", "ms"),
    ];
    let row = |(column, name, unit): (&str, &str, &'static str)| {
        let told: Vec<f64> = figures.iter().filter_map(|sample| sample.get(column)).collect();
        let mean = told.iter().sum::<f64>() / told.len() as f64;
        (!told.is_empty())
            .then(|| Row::new("disks", format!("{disk} {name}"), unit, Better::Lower, Format::Decimals(2), mean))
    };
    columns.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Diagnosis, Patient};

    use std::fs;

    fn row(table: &Table, name: &str, column: usize) -> Option<f64> {
        table.rows.iter().find(|row| row.name == name)?.median(column)
    }

    const VMSTAT: &str = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";

    #[test]
    fn recordings_of_a_paste_are_columns_and_a_saved_import_is_diagnosed_as_the_paste_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paste.txt");
        let line = " 1  3 500000 10000 10 100 4000 3000 9 9 1 1 1 1 1 97 0\n";
        let sar = "10:00:00 pgscank/s pgscand/s pgsteal/s pswpin/s\n10:00:10 8000 4000 1000 3.00\n";
        fs::write(
            &path,
            format!("```\n[root@web1 ~]# vmstat 2\n{VMSTAT}{line}{line}{line}```\nand of sar:\n$ sar -B 10 1\n{sar}"),
        )
        .unwrap();
        let Imported { table, series, warnings } = read(&[path]).unwrap();
        let ids: Vec<&str> = table.columns.iter().map(|column| &*column.id).collect();
        assert_eq!((ids, series.len()), (vec!["vmstat-paste.txt", "sar-paste.txt"], 2));
        assert_eq!((row(&table, "Elapsed", 0), row(&table, "pswpin", 0)), (Some(4.0), Some(4000.0)));
        assert_eq!((row(&table, "pgscan_kswapd", 1), row(&table, "pgscan_kswapd", 0)), (Some(80_000.0), None));
        assert_eq!(row(&table, "nr_free_pages, mean", 0), Some(2500.0));
        assert!(warnings.iter().any(|it| it.contains("left out") && it.contains("(prompt)")), "{warnings:?}");
        let saved = report::json::render(&table);
        let patients: Vec<Patient> = source::patients("p", &saved).unwrap();
        let causes = |patient: &Patient| -> Vec<&str> {
            Diagnosis::of(&patient.signs).findings.iter().map(|it| it.cause).collect()
        };
        assert_eq!(causes(&patients[0]), ["anonymous-thrashing"]);
    }

    #[test]
    fn two_copies_of_counters_are_a_column_and_what_tells_of_a_moment_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let copy = |n: u32| format!("nr_free_pages 5\npgscan_kswapd {n}\npgscan_direct 0\npswpin 7\n");
        let Imported { table, .. } =
            read(&[file("two.txt", &format!("before:\n{}after:\n{}", copy(10), copy(60)))]).unwrap();
        assert_eq!((row(&table, "pgscan_kswapd", 0), row(&table, "nr_free_pages", 0)), (Some(50.0), None));
        let refused = |path: PathBuf| read(&[path]).unwrap_err();
        assert!(refused(file("m.txt", "MemTotal: 8000 kB\nMemFree: 90 kB\n")).contains("tells of a moment alone"));
        assert!(refused(file("x.txt", "hello\n")).contains("nothing is recognised"));
        assert!(refused(file("s.json", "{\"schema\":1}")).contains("`highwater report` reads it"));
        let io = "Device r/s w_await %util\nsda 9 9 9\n\nDevice r/s w_await %util\nsda 9 200 99\n";
        assert_eq!(row(&read(&[file("io.txt", io)]).unwrap().table, "sda busy", 0), Some(99.0));
    }
}
