//! `collectl -P`, the lines that it makes for plots.
//!
//! Samples have the names of `sar`'s columns, so that who asks needs no other.

use super::formats::{Format, Recording, Told};
use super::procps::seconds_of_day;
use super::text::{Block, LeftOut};
use super::{COUNTED, Figures, Sample, Wrong, number};

/// `collectl -P`.
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

/// Columns of memory, and what `sar` calls them. Rates are pages a second.
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

/// The names of a heading that has columns of memory.
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
        // Lines of how it was recorded begin with the sign of a comment.
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
    // A line is of the time since the one before; how long the first one is they all tell.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::formats::read as read_text;

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
