//! Readers of `atop` as text (files of `atop -w` that `atop -r` shows, or output to a pipe) and of `atop -P`.
//!
//! Both forms report intervals. The first interval is the time since boot and is left out. Counters are named as in
//! `/proc/vmstat`, levels as in `sar`.

use super::format::{Format, Recording, Told};
use super::procps::seconds_of_day;
use super::text::{Block, LeftOut, Line};
use super::{COUNTED, Figures, Sample, number};
use kit::wrong::Wrong;

/// The format of `atop` as text.
pub const TEXT: Format = Format {
    name: "atop",
    how: "a line `ATOP - HOST … 10s elapsed`",
    begins: |lines| header(&lines[0].words()).is_some(),
    holds: |line| line.matches('|').count() >= 2,
    read: read_text,
};

/// The format of `atop -P`.
pub const PARSABLE: Format = Format {
    name: "atop -P",
    how: "lines of a label such as MEM, SWP or PAG, a computer, seconds since 1970, a date, a time and an interval",
    begins: |lines| {
        let words = lines[0].words();
        labelled(&words).is_some()
            || (words == ["RESET"] && lines.get(1).is_some_and(|next| labelled(&next.words()).is_some()))
    },
    holds: |line| {
        matches!(line.trim(), "SEP" | "RESET") || labelled(&line.split_whitespace().collect::<Vec<_>>()).is_some()
    },
    read: read_parsable,
};

/// A recording that is being read: the samples so far, and the fields of the present sample.
#[derive(Default)]
struct Building {
    recording: Recording,
    pairs: Vec<(String, f64)>,
    seconds: f64,
    at_s: Option<f64>,
    line: usize,
    is_since_start: bool,
}

impl Building {
    fn begin(&mut self, seconds: f64, at_s: Option<f64>, line: usize, is_since_start: bool) {
        self.end();
        (self.seconds, self.line, self.is_since_start) = (seconds, line, is_since_start);
        // A time that is earlier in the day than the one before belongs to a later day.
        const DAY: f64 = 86_400.0;
        let last = self.recording.samples.last().and_then(|sample| sample.at_s);
        self.at_s = at_s.map(|at_s| match last {
            Some(last) if at_s < last => at_s + DAY * ((last - at_s) / DAY).ceil(),
            _ => at_s,
        });
    }

    fn add(&mut self, name: &str, figure: f64) {
        if COUNTED.contains(&figure) && !self.pairs.iter().any(|(known, _)| known == name) {
            self.pairs.push((name.to_owned(), figure));
        }
    }

    fn end(&mut self) {
        let pairs = std::mem::take(&mut self.pairs);
        if !pairs.is_empty() && !self.is_since_start && self.seconds > 0.0 {
            let names = pairs.iter().map(|(name, _)| name.clone()).collect();
            let values = Figures(vec![(names, pairs.iter().map(|(_, figure)| *figure).collect())]);
            let (seconds, at_s, line) = (self.seconds, self.at_s, self.line);
            self.recording.samples.push(Sample { seconds, at_s, line, values });
        }
    }

    fn finish(mut self, block: &Block<'_>) -> Result<Vec<Told>, Wrong> {
        self.end();
        if self.recording.samples.is_empty() {
            let line = block.lines.first().map_or(0, |line| line.number.saturating_sub(1));
            let what = "expected a sample of `atop` with lines MEM, SWP or PAG after the first, which is of the time since the start";
            return Err(Wrong::at(block.file, line, what));
        }
        (self.recording.tool, self.recording.has_times) = ("atop", true);
        Ok(vec![Told::Recording(self.recording)])
    }
}

/// Reads the computer, the time and the interval (s) from a header: `ATOP - web1   2026/11/26  10:00:10   -----   10s
/// elapsed`.
fn header<'t>(words: &[&'t str]) -> Option<(&'t str, Option<f64>, f64)> {
    let ["ATOP", "-", host, rest @ .., elapsed, "elapsed"] = words else {
        return None;
    };
    Some((host, rest.iter().find_map(|word| seconds_of_day(word)), seconds_of(elapsed)?))
}

/// Reads a duration, s, such as `10s`, `10m0s`, `1h2m3s`, `2d3h`.
fn seconds_of(word: &str) -> Option<f64> {
    let mut seconds = 0.0;
    let mut rest = word;
    while !rest.is_empty() {
        let at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let unit = match rest.as_bytes()[at] {
            b'd' => 86_400.0,
            b'h' => 3600.0,
            b'm' => 60.0,
            b's' => 1.0,
            _ => return None,
        };
        seconds += rest[..at].parse::<u32>().ok().map(f64::from)? * unit;
        rest = &rest[at + 1..];
    }
    (seconds > 0.0).then_some(seconds)
}

/// Reads a figure: a count, which `atop` abbreviates if it is long (`9000`, `12e5`), a size such as `1.2G`, which is
/// converted to KiB, or a share (`20%`).
fn figure_of(word: &str) -> Option<f64> {
    let units = [('K', 1.0), ('M', 1024.0), ('G', 1024.0 * 1024.0), ('T', 1024.0 * 1024.0 * 1024.0)];
    match units.iter().find(|(unit, _)| word.ends_with(*unit)) {
        Some((unit, kib)) => Some(number(word.trim_end_matches(*unit))? * kib),
        None => number(word.trim_end_matches('%')),
    }
}

/// Fields that are read. Each has the label of its line, its name in the line, and the name that it gets in a sample.
const FIELDS: [(&str, &str, &str); 18] = [
    ("PAG", "scan", "pgscan"),
    ("PAG", "steal", "pgsteal"),
    ("PAG", "stall", "allocstall"),
    ("PAG", "swin", "pswpin"),
    ("PAG", "swout", "pswpout"),
    ("PAG", "oomkill", "oom_kill"),
    ("PAG", "compact", "compact_stall"),
    ("MEM", "tot", "kbmemtotal"),
    ("MEM", "free", "kbmemfree"),
    ("MEM", "cache", "kbcached"),
    ("MEM", "dirty", "kbdirty"),
    ("MEM", "buff", "kbbuffers"),
    ("MEM", "slrec", "kbslabreclaimable"),
    ("MEM", "shmem", "kbshmem"),
    ("SWP", "tot", "kbswptotal"),
    ("SWP", "free", "kbswpfree"),
    ("PSI", "memsome", "%smem"),
    ("PSI", "memfull", "%fmem"),
];

fn read_text(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let mut building = Building::default();
    let mut is_first = true;
    for line in block.lines {
        let words = line.words();
        if let Some((host, at_s, seconds)) = header(&words) {
            // The first sample is left out if another line says that it covers the time since boot, or if it is far
            // longer than the others.
            building.begin(seconds, at_s, line.number, std::mem::take(&mut is_first) && is_since_start(block, line));
            building.recording.host = Some(host.to_owned());
        } else if line.text.contains('|') {
            add_fields(&mut building, &line.text);
        } else if !line.is_blank() && !is_of_processes(&words) {
            left_out.line(line);
        }
    }
    building.finish(block)
}

/// Returns whether the sample that begins at `header_line` covers the time since boot.
fn is_since_start(block: &Block<'_>, header_line: &Line<'_>) -> bool {
    let behind = block.lines.iter().skip_while(|line| line.number <= header_line.number);
    let sample = behind.take_while(|line| header(&line.words()).is_none());
    let says_so = sample.into_iter().any(|line| line.text.to_ascii_lowercase().contains("since boot"));
    let others = block.lines.iter().filter_map(|line| header(&line.words())).map(|(.., seconds)| seconds);
    let longest_other = others.skip(1).fold(0.0, f64::max);
    let own = header(&header_line.words()).map_or(0.0, |(.., seconds)| seconds);
    // A time more than ten times as long as the longest other interval is no interval.
    says_so || (longest_other > 0.0 && own > 10.0 * longest_other)
}

/// Adds the known figures on a line such as `MEM | tot 15.5G | free 201.3M |` to the sample that is being built.
fn add_fields(building: &mut Building, line: &str) {
    let mut fields = line.split('|').map(str::trim);
    let label = fields.next().unwrap_or_default();
    for field in fields {
        let mut words = field.split_whitespace();
        let (Some(name), Some(figure)) = (words.next(), words.next().and_then(figure_of)) else {
            continue;
        };
        if let Some((.., called)) = FIELDS.iter().find(|(of, known, _)| *of == label && *known == name) {
            building.add(called, figure);
        }
    }
}

/// Returns whether a line belongs to the table of processes, which is not read: it is the heading of this table, or
/// begins with a number.
fn is_of_processes(words: &[&str]) -> bool {
    words.first().is_some_and(|word| ["PID", "***"].contains(word) || word.bytes().all(|byte| byte.is_ascii_digit()))
        || words.last().is_some_and(|word| word.contains('/'))
}

/// Splits a line of `atop -P` into the label, the computer, the time, the interval, and the rest.
fn labelled<'w, 't>(words: &'w [&'t str]) -> Option<(&'t str, &'t str, f64, f64, &'w [&'t str])> {
    let [label, host, epoch, date, time, seconds, rest @ ..] = words else {
        return None;
    };
    let is_label = label.len() >= 3 && label.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let is_date = date.split('/').count() == 3;
    (is_label && is_date && epoch.parse::<u64>().is_ok())
        .then_some(())
        .and_then(|()| Some((*label, *host, seconds_of_day(time)?, number(seconds)?, rest)))
}

/// The fields that are read from lines of `atop -P`. An entry has the label of the line, the position of the field
/// among the words after the interval (from 0), and the name of the figure in a sample. Sizes are in pages; the field
/// at position 0 is the size of a page, bytes.
const PLACES: [(&str, usize, &str); 14] = [
    ("PAG", 1, "pgscan"),
    ("PAG", 2, "allocstall"),
    ("PAG", 4, "pswpin"),
    ("PAG", 5, "pswpout"),
    ("PAG", 6, "oom_kill"),
    ("PAG", 7, "compact_stall"),
    ("MEM", 1, "kbmemtotal"),
    ("MEM", 2, "kbmemfree"),
    ("MEM", 3, "kbcached"),
    ("MEM", 4, "kbbuffers"),
    ("MEM", 6, "kbdirty"),
    ("MEM", 9, "kbshmem"),
    ("SWP", 1, "kbswptotal"),
    ("SWP", 2, "kbswpfree"),
];

fn read_parsable(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let mut building = Building::default();
    let mut is_since_start = false;
    let mut now = None;
    for line in block.lines {
        let words = line.words();
        match words[..] {
            [] | ["SEP"] => {
                is_since_start &= words.is_empty();
                continue;
            }
            ["RESET"] => {
                is_since_start = true;
                continue;
            }
            _ => {}
        }
        let Some((label, host, at_s, seconds, fields)) = labelled(&words) else {
            left_out.line(line);
            continue;
        };
        let stamp = words[2];
        if now != Some((stamp, is_since_start)) {
            building.begin(seconds, Some(at_s), line.number, is_since_start);
            building.recording.host = Some(host.to_owned());
            now = Some((stamp, is_since_start));
        }
        let field = |at: usize| fields.get(at).and_then(|word| number(word));
        let page_kib = field(0).map_or(super::PAGE_KIB, |bytes| bytes / 1024.0);
        for (_, at, name) in PLACES.iter().filter(|(of, ..)| *of == label) {
            if let Some(figure) = field(*at) {
                building.add(name, if name.starts_with("kb") { figure * page_kib } else { figure });
            }
        }
        // Field 0 is `y` if the computer has PSI. Then come groups of four fields for CPUs, memory (some) and memory
        // (full): the shares over 10, 60 and 300 s, and the total time, us.
        if let ("PSI", Some(&"y")) = (label, fields.first()) {
            for (at, name) in [(8, "%smem"), (12, "%fmem")] {
                if let Some(us) = field(at) {
                    building.add(name, us / 1e4 / seconds);
                }
            }
        }
    }
    building.finish(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::read as read_text;

    fn samples(text: &str) -> Vec<Sample> {
        let document = read_text("a", text, None).unwrap_or_else(|wrong| panic!("{wrong}"));
        let Some((_, Told::Recording(recording))) = document.told.into_iter().next() else {
            panic!("no recording");
        };
        assert_eq!((recording.tool, recording.host.as_deref()), ("atop", Some("web1")));
        recording.samples
    }

    #[test]
    fn text_is_read_without_the_time_since_the_start() {
        let sample = |time: &str, elapsed: &str, scan: &str| {
            format!(
                "ATOP - web1             2026/11/26  {time}             -----------------             {elapsed} elapsed\n\
                 PRC | sys    1.20s | user   3.40s | #proc    200 | #zombie    0 | #exit      0 |\n\
                 MEM | tot    15.5G | free  201.3M | cache   1.2G | dirty   0.4M | buff   10.3M | slab  300.1M |\n\
                 SWP | tot     2.0G | free   10.0M |              | vmcom   9.0G | vmlim   9.8G |\n\
                 PAG | scan  {scan} | steal  20000 | stall    100 | swin   10000 | swout  12e3 |\n\
                 PSI | cpusome   3% | memsome  20% | memfull  10% | iosome   0% |\n\
                 \n    PID SYSCPU USRCPU  VGROW  RGROW  CPU CMD  1/20\n    801  0.10s  1.20s  4K 0K 13% worker\n\n"
            )
        };
        let start =
            sample("10:00:00", "2d3h", "9e9").replace("\n\n", "\n   *** System and Process Activity since Boot ***\n");
        let text = format!("{start}{}{}", sample("10:10:00", "10m0s", "90000"), sample("10:20:00", "10m0s", "5"));
        let samples = samples(&text);
        let values = &samples[0].values;
        assert_eq!((samples.len(), samples[0].seconds, samples[0].at_s), (2, 600.0, Some(36_600.0)));
        assert_eq!((values["pgscan"], values["pswpout"], values["allocstall"]), (90_000.0, 12_000.0, 100.0));
        assert_eq!(
            (values["kbswpfree"], values["kbswptotal"], values["%smem"]),
            (10_240.0, 2.0 * 1024.0 * 1024.0, 20.0)
        );
    }

    #[test]
    fn parsable_lines_are_read_without_the_time_since_the_start() {
        let sample = |time: u32, scan: u32| {
            format!(
                "PAG web1 17641512{time} 2026/11/26 10:00:{time} 10 4096 {scan} 100 0 10000 12000 -1 5 0 0\n\
                 SWP web1 17641512{time} 2026/11/26 10:00:{time} 10 4096 524288 2560 0 2000 3000\n\
                 PSI web1 17641512{time} 2026/11/26 10:00:{time} 10 y 1.0 1.0 1.0 9 2.0 2.0 2.0 2000000 1.0 1.0 1.0 1000000 0 0 0 0 0 0 0 0\nSEP\n"
            )
        };
        let samples = samples(&format!("RESET\n{}{}{}", sample(10, 7), sample(20, 90_000), sample(30, 5)));
        let values = &samples[0].values;
        assert_eq!((samples.len(), samples[0].seconds, samples[1].at_s), (2, 10.0, Some(36_030.0)));
        assert_eq!((values["pgscan"], values["pswpin"], values["kbswpfree"]), (90_000.0, 10_000.0, 10_240.0));
        assert_eq!((values["%smem"], values["%fmem"], values.get("oom_kill")), (20.0, 10.0, None));
    }
}
