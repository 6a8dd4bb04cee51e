//! Reader of `vmstat -d`: repeated tables of disk counters since boot.
//!
//! A table has two lines of headings and a line for each disk. The growth from one table to the next gives a sample. A
//! single table gives means since boot.

use super::format::{Format, Recording, Told};
use super::procps::{Command, EVERY_S, seconds_of_day, time_in};
use super::text::{Block, LeftOut};
use super::{COUNTED, Figures, number, since};
use kit::wrong::Wrong;
use std::collections::BTreeMap;

/// The format of `vmstat -d`.
pub const DISKS: Format = Format {
    name: "vmstat -d",
    how: "a heading `disk- ----reads---- ----writes---- ----IO----`, or `total merged sectors ms … cur sec`",
    begins: |lines| is_heading(&lines[0].text),
    holds: |line| is_heading(line) || row_of(&line.split_whitespace().collect::<Vec<_>>()).is_some(),
    read,
};

/// Number of figures on a line after the disk's name: reads, merged reads, sectors, ms; the same four for writes;
/// requests in flight, and seconds for which the disk was busy.
const FIGURES: usize = 10;

/// Returns whether a line is one of the two headings of a table.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> =
        line.split(|c: char| c.is_whitespace() || c == '-').filter(|word| !word.is_empty()).collect();
    let are_names = |names: [&str; 4]| words.windows(4).any(|some| some == names);
    are_names(["total", "merged", "sectors", "ms"]) || line.contains("-reads-") && line.contains("-writes-")
}

/// Splits the words of a line into the disk's name, its figures, and the words of the date and time that may follow.
/// Returns none if the line does not have the figures of a disk.
fn row_of<'w, 't>(words: &'w [&'t str]) -> Option<(&'t str, [f64; FIGURES], &'w [&'t str])> {
    let (name, rest) = words.split_first()?;
    let figures: Vec<f64> =
        rest.iter().take(FIGURES).map_while(|word| number(word)).filter(|it| COUNTED.contains(it)).collect();
    let figures = figures.try_into().ok()?;
    let behind = &rest[FIGURES..];
    // The name must not be a number, and at most a date and a time may follow the figures.
    (number(name).is_none() && behind.len() <= 2).then_some((name, figures, behind))
}

/// The figures of the latest line about one disk. A later line about this disk is compared with them.
struct Last {
    figures: [f64; FIGURES],
    at_s: Option<f64>,
}

fn read(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let first = block.lines.first().map_or(1, |line| line.number);
    let told = block.command_before(first, "vmstat").map(Command::of).unwrap_or_default();
    let told_every = block.interval_s.or(told.every_s);
    let last_line = block.lines.iter().rev().find(|line| !line.is_blank()).map(|line| line.number);
    let mut last: BTreeMap<String, Last> = BTreeMap::new();
    let mut disks: BTreeMap<String, Vec<Figures>> = BTreeMap::new();
    let (mut timed, mut samples) = (0, 0);
    for line in block.lines {
        let words = line.words();
        if words.is_empty() || is_heading(&line.text) {
            continue;
        }
        let Some((name, figures, behind)) = row_of(&words) else {
            let is_cut = last_line == Some(line.number)
                && words.len() > 1
                && words[1..].iter().all(|word| number(word).is_some());
            left_out.note(line.number, if is_cut { "cut off" } else { "a note" });
            continue;
        };
        let at_s = behind.iter().find_map(|word| seconds_of_day(time_in(word)));
        let before = last.insert(name.to_owned(), Last { figures, at_s });
        // If figures fell, the disk was removed and came back.
        let Some(before) =
            before.filter(|before| before.figures[..FIGURES - 2].iter().zip(&figures).all(|(a, b)| a <= b))
        else {
            continue;
        };
        let told_s =
            before.at_s.zip(at_s).and_then(|(before, now)| since(before, now)).filter(|seconds| *seconds > 0.0);
        timed += usize::from(told_s.is_some());
        samples += 1;
        let grown: [f64; FIGURES] = std::array::from_fn(|n| figures[n] - before.figures[n]);
        disks.entry(name.to_owned()).or_default().push(means(grown, told_s.or(told_every).unwrap_or(EVERY_S)));
    }
    let mut assumed = Vec::new();
    let has_times = samples > 0 && timed == samples;
    if disks.is_empty() {
        disks = last.into_iter().filter_map(|(name, last)| Some((name, vec![since_start(last.figures)?]))).collect();
        assumed.push(
            "of disks the means since the start of the computer, since there is one table of `vmstat -d`".to_owned(),
        );
    } else if !has_times {
        assumed.push(match (block.interval_s, told.every_s) {
            (Some(_), _) => String::new(),
            (_, Some(every_s)) => format!("an interval of {every_s} s, as the command in the text says"),
            _ => format!("an interval of {EVERY_S} s, since the text tells none (--interval does)"),
        });
        assumed.retain(|it| !it.is_empty());
    }
    if disks.is_empty() {
        return Err(Wrong::at(
            block.file,
            first - 1,
            "expected a disk that did something below the heading of `vmstat -d`",
        ));
    }
    Ok(vec![Told::Recording(Recording { tool: "vmstat -d", disks, has_times, assumed, ..Recording::default() })])
}

/// Returns the mean times of a read and a write, ms, under their names in `iostat`. The mean for reads, or for writes,
/// is left out if the disk served none.
fn waits([reads, _, _, read_ms, writes, _, _, write_ms, ..]: [f64; FIGURES]) -> Vec<(&'static str, f64)> {
    [("r_await", reads, read_ms), ("w_await", writes, write_ms)]
        .into_iter()
        .filter(|(_, requests, _)| *requests > 0.0)
        .map(|(name, requests, ms)| (name, ms / requests))
        .collect()
}

/// Returns a disk's figures for a period of `seconds`, as rates and means. `grown` is the growth of its counters in
/// this period.
fn means(grown: [f64; FIGURES], seconds: f64) -> Figures {
    let [reads, .., busy_s] = grown;
    let mut all = waits(grown);
    // The busy time is printed in whole seconds, so in a short interval it may be a second too long.
    all.extend([
        ("r/s", reads / seconds),
        ("w/s", grown[4] / seconds),
        ("%util", (100.0 * busy_s / seconds).clamp(0.0, 100.0)),
    ]);
    of(&all)
}

/// Returns the mean times of requests since boot; none for a disk without requests.
fn since_start(figures: [f64; FIGURES]) -> Option<Figures> {
    let all = waits(figures);
    (!all.is_empty()).then(|| of(&all))
}

fn of(pairs: &[(&str, f64)]) -> Figures {
    let names = pairs.iter().map(|(name, _)| (*name).to_owned()).collect();
    Figures(vec![(names, pairs.iter().map(|(_, figure)| *figure).collect())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Document, read as read_text};

    const HEADING: &str = "disk- ------------reads------------ ------------writes----------- -----IO------\n       total merged sectors      ms  total merged sectors      ms    cur    sec\n";

    fn table(n: u32, time: &str) -> String {
        format!(
            "loop0       0      0       0       0      0      0       0       0      0      0{time}\nsda    {}    200  900000   {}  {}    700  800000  {}      3   {}{time}\n",
            1000 + n * 100,
            5000 + n * 3000,
            2000 + n * 50,
            9000 + n * 10_000,
            500 + n * 2
        )
    }

    fn told(text: &str) -> (BTreeMap<String, Vec<Figures>>, Vec<String>, bool, Document) {
        let document = read_text("v", text, None).unwrap_or_else(|why| panic!("{why}:\n{text}"));
        let [(_, Told::Recording(recording))] = &document.told[..] else { panic!("{document:?}") };
        (recording.disks.clone(), recording.assumed.clone(), recording.has_times, document)
    }

    #[test]
    fn what_grew_from_table_to_table_is_told_of_each_disk() {
        let text = format!("# vmstat -d 2 3\n{HEADING}{}{}{HEADING}{}\n", table(0, ""), table(1, ""), table(2, ""));
        let (disks, assumed, _, document) = told(&text);
        let sda = &disks["sda"];
        assert_eq!((sda.len(), sda[0]["r_await"], sda[0]["w_await"], sda[0]["%util"]), (2, 30.0, 200.0, 100.0));
        assert_eq!((disks["loop0"][0].get("r_await"), disks["loop0"][0]["%util"]), (None, 0.0));
        assert_eq!(assumed, ["an interval of 2 s, as the command in the text says"]);
        assert_eq!(document.left_out, ["line 1 (prompt)"]);
        // Wide output with times and a note in between, the last line cut.
        let timed = format!(
            "disk- -------------------reads------------------- -------------------writes------------------ ------IO------- -----timestamp-----\n\
             total    merged     sectors          ms     total    merged     sectors          ms     cur     sec                 CET\n\
             {}\nit begins now\n{}sda 1300 2",
            table(0, " 2026-11-26 10:00:00"),
            table(1, " 2026-11-26 10:00:04")
        );
        let (disks, assumed, has_times, document) = told(&timed);
        assert_eq!((disks["sda"][0]["%util"], disks["sda"][0]["r/s"], has_times), (50.0, 25.0, true));
        assert_eq!(
            (assumed.len(), document.left_out),
            (0, vec!["line 6 (a note)".to_owned(), "line 9 (cut off)".into()])
        );
    }

    #[test]
    fn one_table_tells_means_since_the_start() {
        let (disks, assumed, ..) = told(&format!("{HEADING}{}", table(0, "")));
        assert_eq!((disks.len(), disks["sda"][0]["w_await"], assumed.len()), (1, 4.5, 1));
        let idle = format!("{HEADING}loop0 0 0 0 0 0 0 0 0 0 0\n");
        assert!(read_text("v", &idle, None).unwrap_err().what.contains("expected a disk that did something"));
    }
}
