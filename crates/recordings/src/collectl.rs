//! Readers of the output of `collectl`: lines for plots (`-P`), and terminal output, short or with `--verbose`.
//!
//! The columns of the samples get the names that `sar` uses, so that the rules of `doctor` need no other names.

use super::format::{Format, Recording, Told};
use super::looks::size_kib;
use super::procps::seconds_of_day;
use super::text::{Block, LeftOut};
use super::{COUNTED, Figures, Sample, number, since};
use kit::wrong::Wrong;

/// The format of `collectl -P`.
pub const PLOT: Format = Format {
    name: "collectl -P",
    how: "a heading `#Date Time … [MEM]Free …`, with spaces or commas",
    begins: |lines| names_of(&lines[0].text).is_some(),
    holds: |line| {
        let date = line.split([' ', ',']).next().unwrap_or_default();
        date.len() == 8 && date.starts_with("20") && date.bytes().all(|byte| byte.is_ascii_digit())
    },
    read,
};

/// Names of collectl's columns about memory, each with the name of the same figure in `sar`. Rates are in pages per
/// second.
const COLUMNS: [(&str, &str); 14] = [
    ("[MEM]Tot", "kbmemtotal"),
    ("[MEM]Free", "kbmemfree"),
    ("[MEM]Buf", "kbbuffers"),
    ("[MEM]Cached", "kbcached"),
    ("[MEM]Anon", "kbanonpg"),
    ("[MEM]Shared", "kbshmem"),
    ("[MEM]Dirty", "kbdirty"),
    ("[MEM]SwapTot", "kbswptotal"),
    ("[MEM]SwapFree", "kbswpfree"),
    ("[MEM]SwapIn", "pswpin/s"),
    ("[MEM]SwapOut", "pswpout/s"),
    ("[MEM]PageMajFaults", "majflt/s"),
    ("[MEM]PageFaults", "fault/s"),
    ("[MEM]SUnreclaim", "kbslabunreclaimable"),
];

fn fields(line: &str) -> Vec<&str> {
    line.split([' ', ',', '\t']).filter(|field| !field.is_empty()).collect()
}

/// Returns the names in a heading that has columns of memory; none for any other line.
fn names_of(line: &str) -> Option<Vec<String>> {
    let names = fields(line.trim().strip_prefix('#')?);
    let is_one = names.starts_with(&["Date", "Time"]) && names.iter().any(|name| name.starts_with("[MEM]"));
    is_one.then(|| names.into_iter().map(str::to_owned).collect())
}

fn read(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let mut names: Vec<String> = Vec::new();
    let mut moments: Vec<(usize, f64, Figures)> = Vec::new();
    let mut days: Vec<String> = Vec::new();
    for line in block.lines {
        if let Some(heading) = names_of(&line.text) {
            names = heading;
            continue;
        }
        let words = fields(&line.text);
        // Lines about how the recording was made begin with `#`.
        if words.is_empty() || words[0].starts_with('#') {
            continue;
        }
        let time = words.get(1).and_then(|time| seconds_of_day(time));
        let (Some(time), true) = (time, words.len() == names.len()) else {
            left_out.note(line.number, if words.len() > 2 && time.is_some() { "cut off" } else { "a note" });
            continue;
        };
        if days.last().is_none_or(|day| day != words[0]) {
            days.push(words[0].to_owned());
        }
        let day = (days.len() - 1) as f64;
        let figure = |name: &str| {
            let at = names.iter().position(|column| column == name)?;
            number(words[at]).filter(|figure| COUNTED.contains(figure))
        };
        let pairs: Vec<(&str, f64)> =
            COLUMNS.iter().filter_map(|(name, called)| Some((*called, figure(name)?))).collect();
        let called = pairs.iter().map(|(name, _)| (*name).to_owned()).collect();
        let values = Figures(vec![(called, pairs.iter().map(|(_, figure)| *figure).collect())]);
        moments.push((line.number, time + day * 86_400.0, values));
    }
    // A line covers the time since the line before. The first line is assumed to cover the shortest interval of the
    // others.
    let usual = moments.windows(2).map(|pair| pair[1].1 - pair[0].1).filter(|seconds| *seconds > 0.0).reduce(f64::min);
    let Some(usual) = usual else {
        let line = block.lines.first().map_or(0, |line| line.number.saturating_sub(1));
        return Err(Wrong::at(block.file, line, "expected two lines of figures of `collectl -P` below at least"));
    };
    let mut samples: Vec<Sample> = Vec::new();
    for (line, at_s, values) in moments {
        let since = samples.last().and_then(|last| last.at_s).map(|last| at_s - last);
        let seconds = since.filter(|seconds| *seconds > 0.0).unwrap_or(usual);
        samples.push(Sample { seconds, at_s: Some(at_s), line, values });
    }
    Ok(vec![Told::Recording(Recording { tool: "collectl", samples, has_times: true, ..Recording::default() })])
}

/// The format of `collectl` on a terminal.
pub const TEXT: Format = Format {
    name: "collectl",
    how: "a heading `#Free Buff Cach …`, or `# MEMORY SUMMARY` and `# Total Used Free …` below it",
    begins: |lines| {
        let is_it = |line: &str| is_summary(line) || heading_of(line).is_some_and(|names| are_of_memory(&names));
        let first = lines[0].text.trim_start();
        // Number of lines that may stand above the heading: other sections of a record, or the groups of columns.
        let above = match (first.starts_with("### RECORD"), first.starts_with("#<") || waited_for(first).is_some()) {
            (true, _) => SECTION_LINES_MAX,
            (_, true) => GROUP_LINES_MAX,
            _ => 0,
        };
        let following = lines.iter().skip(1).filter(|line| !line.is_blank()).take(above).map(|line| &*line.text);
        is_it(first) || following.take_while(|line| !line.trim_start().starts_with("### RECORD")).any(is_it)
    },
    holds: |line| {
        let line = line.trim_start();
        line.starts_with('#') && (line.starts_with("###") || line.contains('<') || heading_of(line).is_some())
    },
    read: read_text,
};

/// Largest number of lines in a heading, from the line that names groups of columns to the line with the column names,
/// including notes between them.
const GROUP_LINES_MAX: usize = 8;

/// Largest number of lines in a record before its lines about memory. There may be a line for each CPU and each disk.
const SECTION_LINES_MAX: usize = 500;

/// Returns whether a line is the title of the section about memory, which `collectl --verbose` prints.
fn is_summary(line: &str) -> bool {
    line.trim_start().starts_with("# MEMORY SUMMARY")
}

/// Returns the column names in a heading such as `#Time   cpu sys … Free Buff Cach` or `#   Total    Used    Free …`.
/// Returns none for any other line.
fn heading_of(line: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = line.trim_start().strip_prefix('#')?.split_whitespace().collect();
    let is_name = |name: &&str| number(name).is_none() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '%');
    (names.len() > 2 && names.iter().all(is_name)).then_some(names)
}

fn are_of_memory(names: &[&str]) -> bool {
    names.windows(3).any(|three| three == ["Free", "Buff", "Cach"])
        || names.windows(4).any(|four| four == ["Total", "Used", "Free", "Buff"])
}

/// Returns the name that each column has in `sar`; none for a column that is not read. Some of the given names occur
/// twice: `Total` for memory and for swap, `In` for swap and for files.
fn called(names: &[&str]) -> Vec<Option<&'static str>> {
    let start = names.iter().position(|name| matches!(*name, "Total" | "Free")).unwrap_or(0);
    let nth = |at: usize| names[start..at].iter().filter(|name| **name == names[at]).count();
    let is_of_files = |at: usize| names[..at].contains(&"MajFt");
    let one = |at: usize| match (names[at], nth(at)) {
        ("Total", 0) => Some("kbmemtotal"),
        ("Free", 0) => Some("kbmemfree"),
        ("Buff", 0) => Some("kbbuffers"),
        ("Cach" | "Cached", 0) => Some("kbcached"),
        ("Anon", 0) => Some("kbanonpg"),
        ("Total", 1) => Some("kbswptotal"),
        ("Free", 1) => Some("kbswpfree"),
        ("In", _) => Some(if is_of_files(at) { "pgpgin/s" } else { "pswpin/s" }),
        ("Out", _) => Some(if is_of_files(at) { "pgpgout/s" } else { "pswpout/s" }),
        ("Fault", _) => Some("fault/s"),
        ("MajFt", _) => Some("majflt/s"),
        _ => None,
    };
    (0..names.len()).map(|at| if at < start { None } else { one(at) }).collect()
}

/// Reads the figure `word` of the column `name`, which `collectl` may have abbreviated: a size with its unit, or a
/// count in thousands.
fn short(word: &str, name: &str) -> Option<f64> {
    let figure = match name.starts_with("kb") {
        true => size_kib(word, 1.0),
        false => number(word).or_else(|| match word.split_at(word.len().checked_sub(1)?) {
            (figure, "K") => Some(number(figure)? * 1e3),
            (figure, "M") => Some(number(figure)? * 1e6),
            _ => None,
        }),
    };
    figure.filter(|figure| COUNTED.contains(figure))
}

/// Returns the interval that a command requests (`-i 5`, `-i5`, `--interval 5`), s; 1 if it requests none.
fn interval_of(command: &str) -> f64 {
    let mut words = command.split_whitespace();
    let value = words.by_ref().find_map(|word| {
        let rest = word.strip_prefix("--interval").or_else(|| word.strip_prefix("-i"))?;
        Some(rest.trim_start_matches('=').to_owned())
    });
    let value = value.map(|value| if value.is_empty() { words.next().unwrap_or_default().to_owned() } else { value });
    let seconds = value.and_then(|value| value.split(':').next()?.parse().ok());
    seconds.filter(|seconds: &f64| (0.001..=86_400.0).contains(seconds)).unwrap_or(1.0)
}

/// Reads the interval, s, from `waiting for 5 second sample...`.
fn waited_for(line: &str) -> Option<f64> {
    line.trim().strip_prefix("waiting for ")?.split_whitespace().next()?.parse().ok()
}

/// Reads the computer's name and the time in s since 1970 from `### RECORD    2 >>> web1 <<< (1600781272.251) (Tue Sep
/// 22 15:27:52 2020) ###`.
fn record_of(line: &str) -> Option<(&str, f64)> {
    let (host, rest) = line.trim_start().strip_prefix("### RECORD")?.split_once(">>>")?.1.split_once("<<<")?;
    let seconds = rest.trim_start().strip_prefix('(')?.split(')').next()?.parse().ok()?;
    Some((host.trim(), seconds))
}

fn read_text(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let first = block.lines.first().map_or(1, |line| line.number);
    let command = block.command_before(first + 1, "collectl");
    let mut every_s = block.interval_s.or(command.map(interval_of));
    let mut names: Vec<&str> = Vec::new();
    let (mut host, mut recorded) = (None, None);
    let mut moments: Vec<(usize, Option<f64>, Figures)> = Vec::new();
    let last = block.lines.iter().rev().find(|line| !line.is_blank()).map(|line| line.number);
    for line in block.lines.iter().filter(|line| !line.is_blank()) {
        if let Some((name, seconds)) = record_of(&line.text) {
            host = host.or_else(|| Some(name.to_owned()));
            recorded = Some(seconds);
            continue;
        }
        if let Some(heading) = heading_of(&line.text) {
            names = heading;
            continue;
        }
        if line.text.trim_start().starts_with('#') {
            continue;
        }
        if let Some(seconds) = waited_for(&line.text) {
            every_s = block.interval_s.or(Some(seconds));
            continue;
        }
        if !are_of_memory(&names) {
            left_out.note(
                line.number,
                if number(line.words().last().copied().unwrap_or("-")).is_some() {
                    "figures of other things"
                } else {
                    "a note"
                },
            );
            continue;
        }
        // If lines have times, the times have a column of their own.
        let words = line.words();
        let figures = called(&names);
        let all: Option<Vec<(&str, f64)>> = (words.len() == names.len())
            .then(|| {
                figures
                    .iter()
                    .zip(&words)
                    .filter_map(|(name, word)| name.map(|name| Some((name, short(word, name)?))))
                    .collect()
            })
            .flatten();
        let Some(all) = all else {
            let is_row =
                words.iter().filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).count() * 2 > words.len();
            left_out.note(
                line.number,
                match (is_row, last == Some(line.number)) {
                    (true, true) => "cut off".to_owned(),
                    (true, false) => {
                        format!("expected {} figures, for {}: found {}", names.len(), names.join(" "), words.len())
                    }
                    _ => "a note".to_owned(),
                },
            );
            continue;
        };
        let at = names.iter().position(|name| *name == "Time");
        let at_s = at.and_then(|at| seconds_of_day(words[at])).or(recorded);
        let called = all.iter().map(|(name, _)| (*name).to_owned()).collect();
        moments.push((line.number, at_s, Figures(vec![(called, all.iter().map(|(_, figure)| *figure).collect())])));
    }
    if moments.is_empty() {
        return Err(Wrong::at(block.file, first - 1, "expected a line of figures below the heading of `collectl`"));
    }
    let has_times = moments.iter().all(|(_, at_s, _)| at_s.is_some()) && moments.len() > 1;
    let mut assumed = Vec::new();
    if !has_times && every_s.is_none() {
        assumed.push("an interval of 1 s, since the text tells none (--interval does)".to_owned());
    }
    let passed = |before: Option<f64>, now: Option<f64>| since(before?, now?).filter(|seconds| *seconds > 0.0);
    let usual = moments.windows(2).filter_map(|pair| passed(pair[0].1, pair[1].1)).reduce(f64::min);
    let mut earlier = None;
    let mut samples: Vec<Sample> = Vec::new();
    for (line, at_s, values) in moments {
        let seconds = passed(earlier, at_s).or(usual.filter(|_| has_times)).or(every_s).unwrap_or(1.0);
        earlier = at_s;
        samples.push(Sample { seconds, at_s: at_s.filter(|_| has_times), line, values });
    }
    Ok(vec![Told::Recording(Recording { tool: "collectl", host, samples, has_times, assumed, ..Recording::default() })])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::read as read_text;

    fn told(text: &str) -> (Recording, Vec<String>) {
        let document = read_text("c", text, None).unwrap_or_else(|wrong| panic!("{wrong}:\n{text}"));
        let [(_, Told::Recording(recording))] = &document.told[..] else { panic!("{document:?}") };
        (recording.clone(), document.left_out)
    }

    #[test]
    fn short_lines_of_a_terminal_are_read_with_their_units() {
        let text = "me@h:~$ collectl -sm -i 5\nwaiting for 5 second sample...\n#<-----------Memory----------->\n#Free Buff Cach Inac Slab  Map\n   \
            2G 220M   1G   1G 210M   3G\n 512M 220M 98304K  1G 210M   3G\nhere it hangs\n  90M  1M";
        let (recording, left_out) = told(text);
        let [first, second] = &recording.samples[..] else { panic!("{recording:?}") };
        assert_eq!(
            (first.seconds, first.values["kbmemfree"], first.values["kbbuffers"]),
            (5.0, 2_097_152.0, 225_280.0)
        );
        assert_eq!((second.values["kbcached"], recording.has_times, recording.assumed.len()), (98_304.0, false, 0));
        assert_eq!(left_out, ["line 1 (prompt)", "line 7 (a note)", "line 8 (cut off)"]);
        // Lines with times and with columns about other things.
        let timed = "#         <----CPU[HYPER]-----><-----------Memory----------->\n#Time     cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map\n\
            10:00:00    5   1  1000   2000   2G 220M   1G   1G 210M   3G\n10:00:10    5   1  1000   2000   1G 220M   1G   1G 210M   3G\n";
        let (recording, _) = told(timed);
        assert_eq!(
            (recording.samples.len(), recording.samples[1].seconds, recording.samples[1].at_s),
            (2, 10.0, Some(36_010.0))
        );
        assert_eq!(recording.samples[1].values["kbmemfree"], 1_048_576.0);
    }

    #[test]
    fn the_long_form_tells_of_swap_and_paging_beside_other_sections() {
        let section = "# CPU SUMMARY (INTR, CTXSW & PROC /sec)\n#User  Nice   Sys  Wait   IRQ  Soft Steal  Idle\n    1     0     1     0     0     0     0    98\n\n\
            # MEMORY SUMMARY\n#<-------------------------------Physical Memory-------------------------------------><-----------Swap------------><-------Paging------>\n\
            #   Total    Used    Free    Buff  Cached    Slab  Mapped    Anon  Commit  Locked Inact Total  Used  Free   In  Out Fault MajFt   In  Out\n";
        let row = "    7847M   7671M 180620K 119208K   1989M 326232K   1000M   5055M  17554M     80K  617M 2047M  203M 1844M  900  12K  1836   310 4000 5000\n";
        let record =
            |at: u32| format!("### RECORD    1 >>> web1 <<< (16007812{at}.251) (Tue Sep 22 15:27:52 2020) ###\n\n");
        let text = format!("{}{section}{row}\n{}{section}{row}", record(70), record(80));
        let (recording, left_out) = told(&text);
        let values = &recording.samples[1].values;
        assert_eq!(
            (recording.samples.len(), recording.samples[1].seconds, recording.host.as_deref()),
            (2, 10.0, Some("web1"))
        );
        assert_eq!(
            (values["kbmemtotal"], values["kbswptotal"], values["kbswpfree"]),
            (8_035_328.0, 2_096_128.0, 1_888_256.0)
        );
        assert_eq!(
            (values["pswpin/s"], values["pswpout/s"], values["pgpgin/s"], values["majflt/s"]),
            (900.0, 12_000.0, 4000.0, 310.0)
        );
        assert!(left_out.iter().all(|it| it.contains("other things") || it.contains("a note")), "{left_out:?}");
        // A text without sections and times, in which the heading is repeated for each screen.
        let rows = format!(
            "# MEMORY SUMMARY\n#   Total    Used    Free    Buff  Cached    Slab  Mapped    Anon  Commit  Locked Inact Total  Used  Free   In  Out Fault MajFt   In  Out\n{row}{row}"
        );
        let (recording, _) = told(&format!("{rows}{rows}"));
        assert_eq!((recording.samples.len(), recording.assumed.len()), (4, 1));
    }

    #[test]
    fn lines_for_plots_are_read_with_spaces_and_with_commas() {
        let text = "################################\n# Collectl:   V4.3.1  HiRes: 1  Options: -sm -P\n################################\n\
            #Date Time [CPU]User% [MEM]Tot [MEM]Free [MEM]SwapTot [MEM]SwapFree [MEM]SwapIn [MEM]SwapOut [MEM]PageMajFaults\n\
            20261126 10:00:10 1 8000000 100000 2000000 1000 900 800 70\n20261126 10:00:20 1 8000000 100000 2000000 1000 900 800 70\n20261126 10:0";
        for text in [text.to_owned(), text.replace(' ', ",")] {
            let document = read_text("c", &text, None).unwrap_or_else(|wrong| panic!("{wrong}"));
            let Some((_, Told::Recording(recording))) = document.told.into_iter().next() else {
                panic!("no recording")
            };
            let sample = &recording.samples[1];
            assert_eq!((recording.samples.len(), sample.seconds, sample.at_s), (2, 10.0, Some(36_020.0)));
            assert_eq!(
                (sample.values["pswpin/s"], sample.values["kbswpfree"], sample.values["majflt/s"]),
                (900.0, 1000.0, 70.0)
            );
            assert_eq!(document.left_out.last().map(String::as_str), Some("lines 2, 7 (a note)"));
        }
    }
}
