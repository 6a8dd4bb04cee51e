//! Reader of sysstat's `iostat`, of any version, with `-x`, `-t`, `-h`, `-y` and similar options.
//!
//! A report has a heading that begins or ends with `Device`, and a line for each device. The first report of a
//! recording is the average since boot. It is left out unless it is the only one.

use super::format::{Format, Recording, Told};
use super::sar::{Headings, title_of};
use super::text::{Block, LeftOut, Line};
use super::{Figures, under};
use kit::wrong::Wrong;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The format of `iostat`.
pub const IOSTAT: Format = Format {
    name: "iostat",
    how: "a heading `Device … r/s … %util`, or `Device tps …`",
    begins: |lines| {
        let words = lines[0].words();
        let following = || lines[1..].iter().find(|line| !line.is_blank()).map(Line::words);
        let is_before = |words: &[&str]| words.first().is_some_and(|first| *first == "avg-cpu:");
        let is_it = |words: &[&str]| is_before(words) || is_heading(words);
        // `sar` has the same title, so a heading of `iostat` must follow, perhaps after a time.
        let is_title = title_of(&words).is_some()
            && lines[1..].iter().filter(|line| !line.is_blank()).take(2).any(|line| is_it(&line.words()));
        is_heading(&words)
            || is_title
            || is_before(&words)
                && following().is_some_and(|words| words.iter().all(|word| super::number(word).is_some()))
    },
    holds: |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        is_heading(&words) || words.first().is_some_and(|first| *first == "avg-cpu:")
    },
    read: read_block,
};

/// Names of columns of `iostat`. In the output of every version, the first column after a device's name has one of
/// these names.
const FIRST: [&str; 6] = ["tps", "rrqm/s", "r/s", "d/s", "f/s", "rsec/s"];

/// The position of the device's name in the lines below a heading.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Device {
    /// The device's name stands at the start of the line, after a time of this many words; 0 if there is no time.
    First(usize),
    /// The device's name stands at the end of the line, as `-h` makes `iostat` print it.
    Last,
}

/// Returns what the heading `words` says of the lines below it: the position of the device's name, and the names of the
/// columns. Returns `None` if the words are no heading.
fn heading_of<'w, 't>(words: &'w [&'t str]) -> Option<(Device, &'w [&'t str])> {
    let of_disks = |names: &[&str]| names.first().is_some_and(|name| FIRST.contains(name)) && names.len() > 1;
    if let Some((last, names)) = words.split_last()
        && last.starts_with("Device")
    {
        // The last table that `-xh` prints has only the columns `aqu-sz` and `%util`.
        let is_it = of_disks(names) || *names == ["aqu-sz", "%util"];
        return is_it.then_some((Device::Last, names));
    }
    let at = words.iter().position(|word| word.trim_end_matches(':') == "Device").or_else(|| {
        // The heading is in another language. A heading with a time before it belongs to `sar -d`.
        (words.len() > 1 && of_disks(&words[1..]) && words.contains(&"%util")).then_some(0)
    })?;
    let names = &words[at + 1..];
    // With the word `Device`, any columns are accepted: logs of MMTests may have others.
    (words[at].trim_end_matches(':') == "Device"
        && !names.is_empty()
        && names.iter().all(|it| super::number(it).is_none())
        || of_disks(names))
    .then_some((Device::First(at), names))
}

/// Returns whether words certainly are a heading of `iostat`, and not a sentence that contains `Device`.
fn is_heading(words: &[&str]) -> bool {
    heading_of(words).is_some_and(|(_, names)| {
        names.first().is_some_and(|name| FIRST.contains(name)) && names.len() > 1 || names.contains(&"%util")
    })
}

/// Samples of `iostat`, grouped by device.
#[derive(Debug, Default)]
struct Reports {
    /// Samples by device. For each recording, they are taken from all of its reports except the first report.
    later: BTreeMap<String, Vec<Figures>>,
    /// Samples from the first report of each recording, by device. They are averages since boot.
    averages: BTreeMap<String, Vec<Figures>>,
    /// Devices that were read so far in the current recording, each with the name of its first column.
    met: BTreeSet<(String, String)>,
}

impl Reports {
    fn push(&mut self, device: &str, values: Figures, has_average: bool) {
        let column = values.iter().next().map(|(name, _)| name.to_owned()).unwrap_or_default();
        let is_first = self.met.insert((device.to_owned(), column)) && has_average;
        let all = if is_first { &mut self.averages } else { &mut self.later };
        all.entry(device.to_owned()).or_default().push(values);
    }
}

/// Reads samples of `iostat -x`, of any version. Returns the samples of each device; a sample has columns such as
/// `r_await` and `%util`. The first sample of each device is the average since boot, and is left out. Faulty parts, and
/// a text without figures, are left out and reported.
///
/// If words stand before a heading, such as times of MMTests, then as many words are skipped before each line below the
/// heading.
pub fn read_iostat(file: &str, text: &str, wrong: &mut Vec<Wrong>) -> BTreeMap<String, Vec<Figures>> {
    let already = wrong.len();
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
    let Reports { later: mut devices, averages, .. } =
        reports(file, lines, true, &mut |why| wrong.push(why), &mut |_| ());
    for device in averages.into_keys() {
        devices.entry(device).or_default();
    }
    if devices.is_empty() && wrong.len() == already {
        wrong.push(Wrong::of(file, "expected figures of `iostat -x` under a heading `Device`, and found none"));
    }
    devices
}

/// Reads the reports of `iostat`. Calls `told` with faults, and `note` with the numbers of lines that belong to no
/// report.
fn reports<'a>(
    file: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    has_average: bool,
    told: &mut dyn FnMut(Wrong),
    note: &mut dyn FnMut(usize),
) -> Reports {
    let mut reports = Reports::default();
    let mut heading = Headings::default();
    let mut place = Device::First(0);
    for (number, line) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if title_of(&words).is_some() {
            reports.met.clear();
            heading.now = Arc::default();
            continue;
        }
        if let Some((at, names)) = heading_of(&words) {
            heading.set(names);
            place = at;
            continue;
        }
        let row = match place {
            Device::First(stamp) => words.get(stamp..).unwrap_or_default().split_first(),
            Device::Last => words.split_last(),
        };
        match row {
            Some((device, rest)) if !heading.now.is_empty() => match under(&heading.now, rest, file, number - 1) {
                Ok(values) => reports.push(device, values, has_average),
                Err(_) if is_between_reports(&words, place) => heading.now = Arc::default(),
                Err(why) => told(why),
            },
            Some(_) if !is_between_reports(&words, place) => note(number),
            // A paste may have an empty line after each line.
            _ => {}
        }
    }
    reports
}

/// Returns whether a line separates two reports of devices: it is a time, a title, or a line of the table of CPUs.
fn is_between_reports(words: &[&str], place: Device) -> bool {
    let first = match place {
        Device::First(stamp) => words.get(stamp),
        Device::Last => words.first(),
    };
    first.is_some_and(|word| {
        ["avg-cpu:", "Time:", "Linux"].contains(word) || word.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn read_block(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let first = block.lines.first().map_or(1, |line| line.number);
    let command = block.command_before(first + 1, "iostat");
    let omits_average = command.is_some_and(|line| {
        line.split_whitespace().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('y'))
    });
    let lines = block.lines.iter().map(|line| (line.number, &*line.text));
    let last = block.lines.iter().rev().find(|line| !line.is_blank()).map(|line| line.number);
    let mut unread: Vec<Wrong> = Vec::new();
    let mut notes: Vec<usize> = Vec::new();
    let Reports { later, averages, .. } =
        reports(block.file, lines, !omits_average, &mut |why| unread.push(why), &mut |number| notes.push(number));
    notes.into_iter().for_each(|number| left_out.note(number, "a note"));
    for why in unread {
        let line = why.line.unwrap_or(first);
        let is_row = block
            .lines
            .iter()
            .any(|it| it.number == line && it.words().iter().any(|word| super::number(word).is_some()));
        let what = if Some(line) == last && is_row {
            "cut off".to_owned()
        } else if is_row {
            why.what
        } else {
            "a note".to_owned()
        };
        left_out.note(line, what);
    }
    let mut assumed = Vec::new();
    let disks = match later.is_empty() {
        true => {
            assumed.push(
                "of disks the means since the start of the computer, since there is one report of `iostat`".to_owned(),
            );
            averages
        }
        false => later,
    };
    if disks.is_empty() {
        return Err(Wrong::at(block.file, first - 1, "expected a line of a device under the heading of `iostat`"));
    }
    Ok(vec![Told::Recording(Recording { tool: "iostat", disks, has_times: true, assumed, ..Recording::default() })])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::read;

    #[test]
    fn devices_have_their_figures() {
        let text = "avg-cpu:  %user\n           1.0\n\nDevice r/s w_await %util\nvda 9 9 9\n\n12:00\nDevice: r/s w_await %util\nvda 1.5 20 95\n";
        let mut wrong = Vec::new();
        let found = read_iostat("i", text, &mut wrong);
        assert_eq!((found["vda"].len(), found["vda"][0]["w_await"], wrong.len()), (1, 20.0, 0));
        let told = |text: &str| {
            let mut wrong = Vec::new();
            let found = read_iostat("i", text, &mut wrong);
            (found.len(), wrong.into_iter().map(|it| it.to_string()).collect::<Vec<_>>().join("\n"))
        };
        assert_eq!(told("x\n").1, "i: expected figures of `iostat -x` under a heading `Device`, and found none");
        assert_eq!(told("Device a\nvda x\nvdb 1\n"), (1, "i:2: expected a number in column a: found `x`".into()));
        assert_eq!(told("Device a b\nvda 1\n").1, "i:2: expected 2 numbers, for a b: found 1");
    }

    #[test]
    fn times_may_stand_before_each_line_of_iostat() {
        let stamped = "   1371562  0 -- Device:         r/s     w/s  %util\n\
            1371562  0 -- sda 1 1 50\n1371562  0 -- \n1371572 10 -- avg-cpu:  %user   %nice\n1371572 10 --  1 2\n1371572 10 --\n\
            1371572 10 -- Device:         r/s     w/s  %util\n1371572 10 -- sda 1 2 60,5\n";
        let mut wrong = Vec::new();
        let found = read_iostat("i", stamped, &mut wrong);
        assert_eq!((found["sda"].len(), found["sda"][0]["%util"], wrong), (1, 60.5, vec![]));
    }

    fn disks(text: &str) -> (BTreeMap<String, Vec<Figures>>, Vec<String>, Vec<String>) {
        let document = read("i", text, None).unwrap_or_else(|why| panic!("{why}:\n{text}"));
        let [(_, Told::Recording(recording))] = &document.told[..] else { panic!("{document:?}") };
        (recording.disks.clone(), recording.assumed.clone(), document.left_out.clone())
    }

    const PASTED: &str = "me@h:~$ iostat -xt 2\nLinux 6.1.0 (web1) \t11/26/26 \t_x86_64_\t(4 CPU)\n\n11/26/26 10:00:00\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           5.00    0.00    2.00   40.00    0.00   53.00\n\nDevice            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   w_await  aqu-sz  %util\nsda              1.00      4.00     0.00   0.00    1.00     4.00    2.00     8.00      2.00    0.01   1.00\n\n11/26/26 10:00:02\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           5.00    0.00    2.00   40.00    0.00   53.00\n\nDevice            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   w_await  aqu-sz  %util\nsda            100.00    400.00     0.00   0.00   30.00     4.00  200.00   800.00    240.00   60.01  99.50\n^C\n";

    #[test]
    fn pasted_reports_are_read_without_the_average_since_the_start() {
        let (found, assumed, left_out) = disks(PASTED);
        assert_eq!((found["sda"].len(), found["sda"][0]["%util"], found["sda"][0]["w_await"]), (1, 99.5, 240.0));
        assert_eq!((assumed.len(), left_out), (0, vec!["line 1 (prompt)".to_owned(), "line 17 (^C)".into()]));
        // The text has decimal commas, old columns, the word for `Device` in another language, and a note in between.
        let comma = PASTED.replace("99.50", "99,50").replace("240.00", "240,00");
        assert_eq!(disks(&comma).0, found);
        assert_eq!(disks(&PASTED.replace("Device ", "Device:")).0, found);
        assert_eq!(disks(&PASTED.replace("Device ", "Gerät: ")).0, found);
        let note = PASTED.replacen("\n\n11/26/26 10:00:02", "\n\nand then it came:\n11/26/26 10:00:02", 1);
        assert_eq!(disks(&note).0, found);
        // The first report counts with -y, and if it is the only one.
        assert_eq!(disks(&PASTED.replace("-xt", "-xty")).0["sda"].len(), 2);
        let one = &PASTED[..PASTED.find("11/26/26 10:00:02").unwrap()];
        let (found, assumed, _) = disks(one);
        assert_eq!((found["sda"][0]["%util"], assumed.len()), (1.0, 1));
        // The last line is cut.
        let cut = format!("{}\nsdb 1.00 4.0", PASTED.trim_end_matches("^C\n").trim_end());
        assert_eq!(disks(&cut).2.last().map(String::as_str), Some("line 17 (cut off)"));
    }

    #[test]
    fn a_sentence_about_a_device_and_disks_of_sar_are_no_iostat() {
        for line in ["Device sda is slow today", "kernel: Device mapper", "10:00:01 DEV tps rkB/s wkB/s await %util"] {
            assert!(!is_heading(&line.split_whitespace().collect::<Vec<_>>()), "{line}");
        }
    }

    #[test]
    fn the_device_may_stand_at_the_end_and_columns_in_tables_of_their_own() {
        let report = |util: &str| {
            format!(
                "     r/s     rkB/s  r_await Device\n  100.00      1.2M    30.00 sda\n\n     aqu-sz  %util Device\n   60.00  {util} sda\n\n"
            )
        };
        let text = "     tps    kB_read/s Device\n  1.00   1.2k sda\n".to_owned();
        assert_eq!(disks(&text).0["sda"][0]["tps"], 1.0);
        let text = format!("$ iostat -xh 1\n{}{}", report("1.0%"), report("99.5%"));
        let (found, ..) = disks(&text);
        let known = |name: &str| found["sda"].iter().find_map(|figures| figures.get(name));
        assert_eq!((known("%util"), known("r_await"), known("rkB/s")), (Some(99.5), Some(30.0), Some(1228.8)));
    }
}
