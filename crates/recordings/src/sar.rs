//! Reader of sysstat's `sar`, with any of its blocks, in any language.
//!
//! A block has a heading, which is a time and names, and lines of figures, each after its time. Blocks with equal times
//! make one sample. Blocks without figures of memory are left out and named by their option. Averages at the end only
//! summarise the lines above them and are skipped.

use super::format::{Format, Recording, Told};
use super::text::{Block, LeftOut, Line};
use super::{Figures, Sample, number, since, under};
use kit::wrong::Wrong;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format of `sar`.
pub const SAR: Format = Format {
    name: "sar",
    how: "a title such as `Linux 6.1.0 (host) … (4 CPU)`; without one, a time and behind it a heading of columns such as pgscank/s",
    begins,
    holds,
    read: read_block,
};

/// Columns by which a block of the output is recognised. Each entry has the column's name, the option with which `sar`
/// prints the block, and `true` if the block is about memory.
const BLOCKS: [(&str, &str, bool); 34] = [
    ("pgpgin/s", "-B", true),
    ("majflt/s", "-B", true),
    ("pgscank/s", "-B", true),
    ("pswpin/s", "-W", true),
    ("kbmemfree", "-r", true),
    ("kbswpfree", "-S", true),
    ("%smem-10", "-q MEM", true),
    ("frmpg/s", "-R", false),
    ("kbhugfree", "-H", true),
    ("DEV", "-d", true),
    ("rxpck/s", "-n DEV", false),
    ("rxerr/s", "-n EDEV", false),
    ("call/s", "-n NFS", false),
    ("scall/s", "-n NFSD", false),
    ("totsck", "-n SOCK", false),
    ("tcp6sck", "-n SOCK6", false),
    ("irec/s", "-n IP", false),
    ("active/s", "-n TCP", false),
    ("IFACE", "-n", false),
    ("%scpu-10", "-q CPU", false),
    ("%sio-10", "-q IO", false),
    ("runq-sz", "-q", false),
    ("proc/s", "-w", false),
    ("cswch/s", "-w", false),
    ("rtps", "-b", false),
    ("dentunusd", "-v", false),
    ("INTR", "-I", false),
    ("TTY", "-y", false),
    ("MHz", "-m CPU", false),
    ("wghMHz", "-m FREQ", false),
    ("FILESYSTEM", "-F", false),
    ("MBfsfree", "-F", false),
    ("total/s", "-n SOFT", false),
    ("CPU", "-u", false),
];

/// Returns the option of `sar` that prints the block with the heading `names`, and whether this program reads the
/// block. Returns none for an unknown heading.
fn block_of(names: &[&str]) -> Option<(&'static str, bool)> {
    BLOCKS.iter().find(|(name, ..)| names.contains(name)).map(|(_, option, is_read)| (*option, *is_read))
}

/// Returns whether words are a heading: no word is a number, and at least one is a known name or has the form of one.
fn is_heading(words: &[&str]) -> bool {
    let is_name = |word: &&str| word.ends_with("/s") || word.starts_with('%') || word.starts_with("kb");
    words.iter().all(|word| number(word).is_none()) && (words.iter().any(is_name) || block_of(words).is_some())
}

/// Reads the kernel's version and the computer's name from a title such as `Linux 6.1.0-18-amd64 (web1) 11/26/26
/// _x86_64_ (4 CPU)`.
pub(super) fn title_of(words: &[&str]) -> Option<(String, Option<String>)> {
    match words {
        ["Linux", version, rest @ ..] if version.starts_with(|c: char| c.is_ascii_digit()) => {
            let host = rest.iter().find_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
            let is_title = host.is_some() && (rest.len() > 1 || words.len() > 3);
            is_title.then(|| ((*version).to_owned(), host.map(str::to_owned)))
        }
        _ => None,
    }
}

/// Words for the first half of a day.
const FORENOON: [&str; 11] = ["AM", "am", "a.m.", "A.M.", "上午", "午前", "오전", "dop.", "vorm.", "SA", "fm"];
/// Words for the second half of a day.
const AFTERNOON: [&str; 11] = ["PM", "pm", "p.m.", "P.M.", "下午", "午後", "오후", "odp.", "nachm.", "CH", "em"];
/// Words of several languages that may stand beside a time of day as `o'clock` does in English, without a meaning of
/// their own.
const CLOCK: [&str; 5] = ["Uhr", "uur", "h", "kl.", "klo"];

/// Returns the hour at which a half of the day begins, from the word for it: 0 for `AM`, 12 for `PM`. Returns none for
/// any other word.
fn half_of(word: &str) -> Option<f64> {
    let is_in = |words: &[&str]| words.contains(&word);
    is_in(&FORENOON).then_some(0.0).or_else(|| is_in(&AFTERNOON).then_some(12.0))
}

/// Splits a line into the time at its start, s since midnight, and the other words. Times have forms such as
/// `10:00:01`, `03:00:01 PM`, `10.00.01`, `10时00分01秒`, `오전 10시 00분 01초`.
fn timed<'w, 't>(words: &'w [&'t str]) -> Option<(f64, &'w [&'t str])> {
    let mut half = words.first().and_then(|word| half_of(word));
    let rest = &words[usize::from(half.is_some() || words.first().is_some_and(|word| CLOCK.contains(word)))..];
    let (first, mut rest) = rest.split_first()?;
    let start = first.find(|c: char| c.is_ascii_digit())?;
    if start > 0 {
        half = Some(half_of(&first[..start])?);
    }
    let mut parts = parts_of(&first[start..])?;
    // In Korean, spaces separate hours, minutes and seconds.
    while parts.len() < 3 && is_unit_of_time(first) {
        let (next, behind) = rest.split_first().filter(|(next, _)| is_unit_of_time(next))?;
        parts.extend(parts_of(next)?);
        rest = behind;
    }
    let [hours, minutes, seconds] = parts[..] else {
        return None;
    };
    match rest {
        [word, behind @ ..] if half_of(word).is_some() => {
            half = half_of(word);
            rest = behind;
        }
        ["a." | "p.", "m.", behind @ ..] => {
            half = Some(if rest[0] == "p." { 12.0 } else { 0.0 });
            rest = behind;
        }
        [word, behind @ ..] if CLOCK.contains(word) => rest = behind,
        _ => {}
    }
    if hours >= 24 || minutes >= 60 || seconds > 60 {
        return None;
    }
    let hours = half.map_or(f64::from(hours), |before| f64::from(hours % 12) + before);
    Some((hours * 3600.0 + f64::from(minutes) * 60.0 + f64::from(seconds), rest))
}

/// Returns whether a word ends with a letter for a unit of time, as `10시` does.
fn is_unit_of_time(word: &str) -> bool {
    word.ends_with(['시', '분', '초', '时', '時', '分', '秒', 'h'])
}

/// Returns the numbers in a word that looks like a time: numbers of two digits, with one or two other characters
/// between them and perhaps after them. Returns none for a date.
fn parts_of(word: &str) -> Option<Vec<u32>> {
    let mut parts = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits > 2 {
            return None;
        }
        parts.push(rest[..digits].parse().ok()?);
        rest = &rest[digits..];
        let between = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let is_of_time = rest[..between].chars().count() <= 2
            && rest[..between].chars().all(|c| c.is_alphabetic() || matches!(c, ':' | '.' | ','));
        if !is_of_time {
            return None;
        }
        rest = &rest[between..];
    }
    Some(parts)
}

fn begins(lines: &[Line<'_>]) -> bool {
    let words = lines[0].words();
    title_of(&words).is_some() || timed(&words).is_some_and(|(_, rest)| !rest.is_empty() && is_heading(rest))
}

fn holds(line: &str) -> bool {
    // Lines of `vmstat` may also have a time at their start.
    let mut words = line.split_whitespace();
    words.next().is_some_and(|word| {
        word.starts_with(|c: char| c.is_ascii_digit()) && parts_of(word).is_some_and(|it| it.len() == 3)
    }) && words.clone().next().is_some_and(|word| !word.contains("procs") && word != "r")
        && words.count() < 40
        && !line.contains("kernel:")
}

/// The current heading, and all headings so far. A heading that occurs again is stored only once.
#[derive(Default)]
pub(super) struct Headings {
    met: Vec<Arc<[String]>>,
    pub(super) now: Arc<[String]>,
}

impl Headings {
    pub(super) fn set(&mut self, words: &[&str]) {
        let known = self.met.iter().find(|names| names.iter().eq(words.iter()));
        self.now = known.cloned().unwrap_or_else(|| {
            let names: Arc<[String]> = words.iter().map(|word| (*word).to_owned()).collect();
            self.met.push(names.clone());
            names
        });
    }

    /// Returns whether a line has averages. Such a line begins with a word (`Average:`, in any language) where other
    /// lines have a time. After the word come the same column names as in an earlier heading, or as many figures as an
    /// earlier heading has columns.
    fn is_average(&self, words: &[&str]) -> bool {
        self.met.iter().any(|names| {
            let Some((lead, rest)) = words.len().checked_sub(names.len()).map(|at| words.split_at(at)) else {
                return false;
            };
            let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
            let figures = rest.iter().filter(|word| number(word).is_some()).count();
            let is_one = rest.iter().eq(names.iter()) || figures + 1 >= rest.len() && figures > 0;
            !lead.is_empty() && lead.iter().all(is_word) && is_one
        })
    }
}

/// A moment in a recording: the number of its day in the text, and the time since that day's midnight, ms.
type Moment = (usize, u64);

/// The samples so far, and the facts from earlier lines that decide how the next line is read.
#[derive(Default)]
struct Reader {
    headings: Headings,
    /// The current block, named by the option of `sar` that prints it, and `true` if this reader uses the block's
    /// figures.
    block: Option<(&'static str, bool)>,
    day: usize,
    title: Vec<String>,
    samples: BTreeMap<Moment, Sample>,
    disks: BTreeMap<String, Vec<Figures>>,
    /// The time of the heading, s.
    heading_at: Option<f64>,
    began: Option<f64>,
    now: Option<f64>,
    seconds: Option<f64>,
}

const DAY: f64 = 86_400.0;

impl Reader {
    /// Returns the moment of a line, in seconds since the midnight before the recording began. `time` is the time of
    /// day of the line, s. If the current heading or the previous line has the same time of day, the line is of the
    /// same moment. Otherwise the line is taken to be of the first day.
    fn place(&self, time: f64) -> f64 {
        let known = [self.heading_at, self.now].into_iter().flatten();
        known.into_iter().find(|known| known.rem_euclid(DAY) == time).unwrap_or(time)
    }

    fn head(&mut self, time: f64, names: &[&str]) {
        let at = self.place(time);
        self.block = block_of(names).or(Some(("of another kind", false)));
        self.headings.set(names);
        (self.heading_at, self.began, self.now) = (Some(at), Some(at), None);
    }

    /// Begins the sample of the time `time`, a time of day, unless the reader is at this time already. Computes the
    /// length of the sample's interval from the time of the sample before.
    fn advance(&mut self, time: f64) {
        if self.now.is_none_or(|now| now.rem_euclid(DAY) != time) {
            let began = self.now.or(self.began).unwrap_or(time);
            let passed = since(began.rem_euclid(DAY), time).filter(|seconds| *seconds > 0.0);
            // If the clock was set back, the interval is assumed to be the same as before.
            let seconds = passed.or(self.seconds).unwrap_or(1.0);
            self.seconds = Some(seconds);
            self.now = Some(passed.map_or(time, |passed| began + passed));
        }
    }

    fn row(&mut self, time: f64, words: &[&str], file: &str, line: usize) -> Result<(), Wrong> {
        let wrong = |what: String| Wrong::at(file, line - 1, what);
        let names = self.headings.now.clone();
        let of_disk = names.first().is_some_and(|name| name == "DEV");
        let values = if of_disk {
            let (_, words) = words.split_first().ok_or_else(|| wrong("expected a device".into()))?;
            let names: Arc<[String]> = names.iter().skip(1).cloned().collect();
            under(&names, words, file, line - 1)?
        } else {
            under(&names, words, file, line - 1)?
        };
        self.advance(time);
        if of_disk {
            self.disks.entry(words[0].to_owned()).or_default().push(values);
            return Ok(());
        }
        let now = self.now.unwrap_or(time);
        let at_s = Some(now + self.day as f64 * DAY);
        let new = |values| Sample { seconds: self.seconds.unwrap_or(1.0), at_s, line, values };
        let moment = |day: usize| (day, (now * 1000.0) as u64);
        let has = |sample: &Sample| sample.values.iter().any(|(name, _)| values.get(name).is_some());
        match self.samples.get_mut(&moment(self.day)) {
            Some(same) if !has(same) => same.values.extend(values),
            Some(same) if values.iter().all(|(name, figure)| same.values.get(name) == Some(figure)) => {
                return Err(wrong("told before".into()));
            }
            // The time was met before with other figures, so another day begins, whose title is missing.
            Some(_) => {
                self.day += 1;
                let at_s = Some(now + self.day as f64 * DAY);
                self.samples.insert(moment(self.day), Sample { at_s, ..new(values) });
            }
            None => {
                self.samples.insert(moment(self.day), new(values));
            }
        }
        Ok(())
    }
}

fn read_block(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let mut reader = Reader::default();
    let mut kernel = None;
    let mut host: Option<String> = None;
    let mut told = Vec::new();
    let last = block.lines.iter().rev().find(|line| !line.is_blank()).map(|line| line.number);
    let mut first_wrong = None;
    for line in block.lines {
        let words = line.words();
        if words.is_empty() {
            continue;
        }
        if let Some((version, name)) = title_of(&words) {
            if host.is_some() && host != name {
                told.extend(finish(std::mem::take(&mut reader), kernel.take(), host.take()));
            }
            // A repeated title belongs to the same day.
            if !reader.title.is_empty() && reader.title != words {
                reader.day += 1;
            }
            reader.title = words.iter().map(|word| (*word).to_owned()).collect();
            (reader.heading_at, reader.began, reader.now) = (None, None, None);
            (kernel, host) = (Some(version), name);
            continue;
        }
        let Some((time, rest)) = timed(&words) else {
            if !reader.headings.is_average(&words) {
                left_out.line(line);
            }
            continue;
        };
        if rest.contains(&"RESTART") || rest.last().is_some_and(|word| *word == "CPU)") {
            reader.headings.now = Arc::default();
            (reader.heading_at, reader.began, reader.now) = (None, None, None);
            continue;
        }
        if is_heading(rest) && !rest.is_empty() {
            reader.head(time, rest);
        }
        match reader.block {
            Some((option, false)) => {
                reader.advance(time);
                left_out.note(line.number, format!("block {option}"));
            }
            Some((_, true)) if is_heading(rest) => {}
            Some(_) if !reader.headings.now.is_empty() => {
                if let Err(why) = reader.row(time, rest, block.file, line.number) {
                    let is_cut = last == Some(line.number) && rest.len() <= reader.headings.now.len();
                    left_out.note(line.number, if is_cut && why.what != "told before" { "cut off" } else { &why.what });
                    first_wrong = first_wrong.or(Some(why));
                }
            }
            _ => left_out.line(line),
        }
    }
    told.extend(finish(reader, kernel, host));
    if told.is_empty() {
        let nothing = || {
            let first = block.lines.first().map_or(0, |line| line.number.saturating_sub(1));
            Wrong::at(block.file, first, NOTHING)
        };
        return Err(first_wrong.unwrap_or_else(nothing));
    }
    Ok(told)
}

/// The message about an input that has a title of `sar` (its first line, with kernel and computer) but no figures of
/// memory.
const NOTHING: &str = "expected figures of `sar -B`, -W, -r or -S below, and found none (`iostat`, `mpstat` and `pidstat` have the same title, \
                       and tell nothing of memory)";

fn finish(reader: Reader, kernel: Option<String>, host: Option<String>) -> Option<Told> {
    let samples: Vec<Sample> = reader.samples.into_values().collect();
    let disks = reader.disks;
    let recording = Recording { tool: "sar", host, kernel, samples, disks, has_times: true, assumed: Vec::new() };
    (!recording.samples.is_empty() || !recording.disks.is_empty()).then_some(Told::Recording(recording))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Document, read as read_text};

    /// Output of `sar` (sysstat 12), from which the tests read.
    const PRINTED: &str = "\
Linux 6.18.44 (vm) \t11/25/26 \t_x86_64_\t(2 CPU)

15:17:05     pswpin/s pswpout/s
15:17:06         1.00      0.00

15:17:05     pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff
15:17:06       224.00   4576.00  34240.00      1.00  44341.00     10.00      5.00     12.00     80.00

15:17:06     pswpin/s pswpout/s
15:17:08         2.00      0.00

Average:     pswpin/s pswpout/s
Average:         1.50      0.00
";

    fn document(text: &str) -> Document {
        read_text("s.txt", text, None).unwrap_or_else(|wrong| panic!("{wrong}:\n{text}"))
    }

    fn recordings(text: &str) -> Vec<Recording> {
        document(text).recordings().cloned().collect()
    }

    fn samples(text: &str) -> Vec<Sample> {
        recordings(text).remove(0).samples
    }

    #[test]
    fn blocks_of_one_time_are_one_sample() {
        let recording = recordings(PRINTED).remove(0);
        assert_eq!((recording.host.as_deref(), recording.kernel.as_deref()), (Some("vm"), Some("6.18.44")));
        let samples = recording.samples;
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].seconds, samples[1].seconds), (1.0, 2.0));
        assert_eq!((samples[0].values["pswpin/s"], samples[0].values["pgscank/s"]), (1.0, 10.0));
        assert_eq!((samples[0].at_s, samples[0].line), (Some(55_026.0), 4));
    }

    /// Returns the recording [`PRINTED`] with the time at the start of each line written by `write`, which gets hours,
    /// minutes and seconds.
    fn retimed(write: impl Fn(u32, u32, u32) -> String) -> String {
        let one = |line: &str| match line
            .get(..8)
            .and_then(|time| time.split(':').map(|it| it.parse().ok()).collect::<Option<Vec<u32>>>())
        {
            Some(time) => format!("{}{}\n", write(time[0], time[1], time[2]), &line[8..]),
            None => format!("{line}\n"),
        };
        PRINTED.lines().map(one).collect()
    }

    #[test]
    fn times_of_many_languages_are_read() {
        let expected = samples(PRINTED);
        let forms: [fn(u32, u32, u32) -> String; 9] = [
            |h, m, s| format!("{:02}:{m:02}:{s:02} PM", h % 12),
            |h, m, s| format!("{:02}:{m:02}:{s:02} p. m.", h % 12),
            |h, m, s| format!("{h:02}.{m:02}.{s:02}"),
            |h, m, s| format!("{h:02}h{m:02}m{s:02}"),
            |h, m, s| format!("{h:02}:{m:02}:{s:02} Uhr"),
            |h, m, s| format!("{h:02}时{m:02}分{s:02}秒"),
            |h, m, s| format!("下午 {:02}:{m:02}:{s:02}", h % 12),
            |h, m, s| format!("下午{:02}时{m:02}分{s:02}秒", h % 12),
            |h, m, s| format!("{h:02}시 {m:02}분 {s:02}초"),
        ];
        for form in forms {
            let text = retimed(form);
            assert_eq!(samples(&text), expected, "{text}");
            assert_eq!(samples(&text.replace(".00 ", ",00 ")), expected);
        }
    }

    #[test]
    fn averages_are_left_out_in_any_language() {
        let expected = samples(PRINTED);
        for word in ["Moyenne :", "Moyenne:", "Durchschn.:", "Среднее:", "平均時間:", "Media"] {
            let document = document(&PRINTED.replace("Average:", word));
            assert!(document.left_out.is_empty(), "{word}: {:?}", document.left_out);
            assert_eq!(document.told, vec![(1, Told::Recording(recordings(PRINTED).remove(0)))]);
            assert_eq!(expected.len(), 2);
        }
    }

    #[test]
    fn a_recording_that_was_joined_to_itself_is_read_once() {
        let twice = document(&PRINTED.repeat(2));
        assert_eq!(twice.told, document(PRINTED).told);
        assert_eq!(twice.left_out, ["lines 17, 20, 23 (told before)"]);
        // The same times on the next day, with and without a title, and on another computer.
        let days = PRINTED.to_owned() + &PRINTED.replace("11/25/26", "11/26/26");
        assert_eq!(samples(&days).len(), 4);
        let other = PRINTED.replace("1.00", "3.00");
        let untitled: String = other.lines().skip(1).map(|line| format!("{line}\n")).collect();
        assert_eq!(
            samples(&format!("{PRINTED}{untitled}")).iter().filter(|it| it.values.get("pgscank/s").is_some()).count(),
            2
        );
        assert_eq!(recordings(&(PRINTED.to_owned() + &PRINTED.replace("(vm)", "(vm2)"))).len(), 2);
    }

    #[test]
    fn a_recording_may_go_over_midnight() {
        let text = PRINTED.replace("15:17:06     pswpin", "23:59:59     pswpin").replace("15:17:08", "00:00:09");
        assert_eq!(samples(&text)[1].seconds, 10.0);
        let live = "\
23:59:58     pswpin/s pswpout/s\n23:59:59 1.00 0.00\n\n23:59:58 pgscank/s pgscand/s\n23:59:59 1.00 0.00\n
23:59:59     pswpin/s pswpout/s\n00:00:00 1.00 0.00\n\n23:59:59 pgscank/s pgscand/s\n00:00:00 1.00 0.00\n
00:00:00     pswpin/s pswpout/s\n00:00:01 1.00 0.00\n\n00:00:00 pgscank/s pgscand/s\n00:00:01 1.00 0.00\n";
        let samples = samples(live);
        assert_eq!((samples.len(), samples[2].values["pgscank/s"]), (3, 1.0));
        assert_eq!(samples[2].at_s, Some(86_401.0));
        assert_eq!(super::tests::samples(&live.replace("pgscank/s pgscand/s", "CPU %idle")).len(), 3);
    }

    #[test]
    fn a_clock_that_was_set_back_loses_no_line() {
        let text = PRINTED.replace("15:17:08", "14:17:07");
        assert_eq!(samples(&text).len(), 2);
    }

    #[test]
    fn blocks_of_other_things_are_named() {
        let text = PRINTED.replace("15:17:06     pswpin/s", "15:17:05 CPU %user %idle\n15:17:06 all 8.00 92.00\n15:17:05 IFACE rxpck/s\n15:17:06 eth0 1.00\n\n15:17:06     pswpin/s");
        let document = document(&text);
        assert_eq!(document.left_out, ["lines 9, 10 (block -u)", "lines 11, 12 (block -n DEV)"]);
        let text = PRINTED.replace("15:17:06     pswpin/s", "15:17:05 DEV tps await %util\n15:17:06 sda 8.00 92.00 99.00\n15:17:06 sdb 8.00 92.00 1.00\n\n15:17:06     pswpin/s");
        let recording = recordings(&text).remove(0);
        assert_eq!((recording.disks["sda"][0]["%util"], recording.samples.len()), (99.0, 2));
        let restart =
            PRINTED.replace("15:17:06     pswpin/s", "15:17:05 LINUX RESTART (2 CPU)\n\n15:17:06     pswpin/s");
        assert_eq!(recordings(&restart), recordings(&PRINTED.replace("\n15:17:06     psw", "\n\n\n15:17:06     psw")));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |text: &str| read_text("s.txt", text, None).unwrap_err().to_string();
        assert_eq!(wrong("Linux 6.1 (vm) (2 CPU)\n"), format!("s.txt:1: {NOTHING}"));
        assert!(wrong("hello\n").starts_with("s.txt:1: nothing is recognised from `hello` on: expected"));
        let told = |text: &str| document(text).left_out;
        assert_eq!(
            told(&PRINTED.replace("44341.00 ", "x ")),
            ["line 7 (expected a number in column pgfree/s: found `x`)"]
        );
        assert_eq!(told(&PRINTED.replace("15:17:08", "x5:17:08")), ["line 10 (a note)"]);
        let cut = &PRINTED[..PRINTED.find("     80.00").unwrap()];
        assert_eq!(told(cut), ["line 7 (cut off)"]);
    }
}
