//! Reader of `vmstat 1` of any version of procps, with or without `-a`, `-n`, `-S`, `-t`, `-w`.
//!
//! The first line after the first heading of each recording is the average since boot. This line is left out, since it
//! does not describe the present. Sizes are KiB and rates KiB/s, unless `-S` was given. The unit is taken from a
//! command in the text, or inferred if there is none. The interval is taken from a command, or from times that `-t`
//! prints or that stand before each line.

use super::format::{Format, Recording, Told};
use super::looks::Look as _;
use super::text::{Block, LeftOut, Line};
use super::{Figures, Sample, looks, since, under};
use engine::stat::Vmstat;
use kit::wrong::Wrong;
use std::sync::Arc;

/// The format of `vmstat 1`.
pub const VMSTAT: Format = Format {
    name: "vmstat 1",
    how: "a heading with `r b` and `swpd` or `si`; without one, lines of 16 to 18 numbers whose last four to six, the shares of CPUs, add up to 100",
    begins,
    holds,
    read: read_block,
};

/// The format of `vmstat -s`.
pub const SUMS: Format = Format {
    name: "vmstat -s",
    how: "a line `N K total memory`",
    begins: |lines| lines[0].text.trim_end().ends_with("K total memory"),
    holds: |line| sum_of(line).is_some(),
    read: read_sums,
};

/// Lines of `vmstat -s` that are read. For each line: the words after its number, the name of the same counter in
/// `/proc/vmstat`, and the divisor that converts the line's number to the unit of this counter.
const OF_SUMS: [(&str, &str, u64); 6] = [
    ("pages swapped in", "pswpin", 1),
    ("pages swapped out", "pswpout", 1),
    ("pages paged in", "pgpgin", 1),
    ("pages paged out", "pgpgout", 1),
    ("K free memory", "nr_free_pages", 4),
    ("K swap cache", "nr_file_pages", 4),
];

/// Splits a line of `vmstat -s` into the number and the words after it.
fn sum_of(line: &str) -> Option<(u64, &str)> {
    let (number, words) = line.trim().split_once(' ')?;
    number.parse().ok().filter(|_| words.trim().starts_with(char::is_alphabetic)).map(|number| (number, words.trim()))
}

/// Lines of `vmstat -s` about sizes, each with the name of the same size in `/proc/meminfo`.
const SIZES_OF_SUMS: [(&str, &str); 5] = [
    ("K total memory", "MemTotal"),
    ("K free memory", "MemFree"),
    ("K buffer memory", "Buffers"),
    ("K total swap", "SwapTotal"),
    ("K free swap", "SwapFree"),
];

/// Reads copies of the output of `vmstat -s`. Each copy has some of the counters of `/proc/vmstat` and some of the sizes
/// of `/proc/meminfo`, and is returned as a partial copy of each file.
fn read_sums(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    let mut copies: Vec<Vmstat> = Vec::new();
    let mut sizes: Vec<String> = Vec::new();
    for line in block.lines.iter().filter(|line| !line.is_blank()) {
        let Some((number, words)) = sum_of(&line.text) else {
            left_out.line(line);
            continue;
        };
        if words == "K total memory" || copies.is_empty() {
            copies.push(Vmstat::new());
            sizes.push(String::new());
        }
        if let (Some((_, name)), Some(sizes)) = (SIZES_OF_SUMS.iter().find(|it| it.0 == words), sizes.last_mut()) {
            sizes.push_str(&format!("{name}: {number} kB\n"));
        }
        let known = OF_SUMS.iter().find(|(known, ..)| *known == words);
        if let (Some((_, name, kib)), Some(copy)) = (known, copies.last_mut()) {
            copy.insert((*name).to_owned(), number / kib);
        }
    }
    let counters = copies.into_iter().map(|copy| looks::Told::Vmstat(looks::VmstatFile(copy)));
    let sizes = sizes.iter().map(|text| looks::Told::Meminfo(looks::Meminfo::of(text)));
    Ok(counters.chain(sizes).map(Told::Look).collect())
}

/// The interval that is assumed if none is stated, s: that of `vmstat 1`.
pub(super) const EVERY_S: f64 = 1.0;

/// The columns of `vmstat`, in the order in which all its versions print them. Before procps 3.3 there was no `st`, and
/// before 4.0.4 no `gu`.
const COLUMNS: [&str; 18] =
    ["r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa", "st", "gu"];

/// Smallest number of columns in a line of figures without a known heading. A line with fewer columns is not
/// recognised.
const COLUMNS_MIN: usize = 16;

/// Columns of `vmstat` that hold sizes of memory.
const SIZES: [&str; 6] = ["swpd", "free", "buff", "cache", "inact", "active"];

/// Returns whether a line is the one above the column names: `procs -----------memory---------- …`, or `--procs-- …`.
fn is_groups(line: &str) -> bool {
    let rest = line.trim_start_matches([' ', '-']);
    rest.starts_with("procs") && rest.contains("memory")
}

/// Returns the index of the first column name among the words of a heading.
fn names_at(words: &[&str]) -> Option<usize> {
    // Headings of other systems have other columns.
    let is_of_linux = |at: &usize| words[*at..].iter().any(|word| ["swpd", "si"].contains(word));
    words.windows(2).position(|pair| pair == ["r", "b"]).filter(is_of_linux)
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a line has figures: the CPU shares at its end add up to 100 except for rounding.
fn is_row(words: &[&str]) -> bool {
    let shares = 12;
    let sum = || words[shares..].iter().filter_map(|word| word.parse::<u64>().ok()).fold(0, u64::saturating_add);
    (COLUMNS_MIN..=COLUMNS.len()).contains(&words.len())
        && words.iter().all(|word| is_number(word))
        && (97..=103).contains(&sum())
}

/// Smallest number of lines of figures that count as a recording even without a heading.
const ROWS_MIN: usize = 3;

fn begins(lines: &[Line<'_>]) -> bool {
    let words = lines[0].words();
    if names_at(&words).is_some() {
        return true;
    }
    let following = || lines[1..].iter().filter(|line| !line.is_blank());
    if is_of_archive(&words) {
        let is_before = |line: &&Line<'_>| is_of_archive(&line.words()) || is_groups(&line.text);
        return following()
            .take(ARCHIVE_LINES_MAX)
            .find(|line| !is_before(line))
            .is_some_and(|line| names_at(&line.words()).is_some());
    }
    if words.iter().any(|word| word.contains("procs")) {
        return lines[0].text.find("procs").is_some_and(|at| is_groups(&lines[0].text[at..]))
            && following()
                .next()
                .is_some_and(|line| names_at(&line.words()).is_some() || is_translated(&line.words(), lines));
    }
    let rows = || following().take(2 * ROWS_MIN).filter(|line| is_row(&line.words())).count() + 1;
    (is_row(&words) && rows() >= ROWS_MIN) || is_translated(&words, lines)
}

/// Returns whether a line is a heading in another language than English: it has as many names as one of the next lines
/// has figures.
fn is_translated(words: &[&str], lines: &[Line<'_>]) -> bool {
    (COLUMNS_MIN..=COLUMNS.len()).contains(&words.len())
        && words.iter().all(|word| !word.contains(|c: char| c.is_ascii_digit()))
        && lines.iter().take(4).any(|line| line.words().len() == words.len() && is_row(&line.words()))
}

fn holds(line: &str) -> bool {
    let mut words = 0;
    line.split_whitespace().all(|word| {
        words += 1;
        is_number(word)
    }) && words >= COLUMNS_MIN
        || is_groups(line)
}

/// The options in a command line of `vmstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Command {
    /// The interval between two lines of figures, s; none if the command names no interval.
    pub(super) every_s: Option<f64>,
    /// Size of the unit that `-S` or `--unit` names, KiB.
    unit_kib: Option<f64>,
    /// True if the average since boot is not printed (`-y`).
    omits_average: bool,
}

impl Command {
    pub(super) fn of(line: &str) -> Self {
        let words = line.split(|c: char| c.is_whitespace() || "`'\"".contains(c)).filter(|word| !word.is_empty());
        let mut words = words.skip_while(|word| !word.ends_with("vmstat")).skip(1);
        let mut this = Self::default();
        while let Some(word) = words.next() {
            if let Some(unit) = word.strip_prefix("--unit") {
                this.unit_kib = unit.strip_prefix('=').or_else(|| words.next()).and_then(unit_kib);
            } else if word.starts_with("--") {
                this.omits_average |= word == "--no-first";
            } else if let Some(options) = word.strip_prefix('-') {
                this.omits_average |= options.split('S').next().is_some_and(|letters| letters.contains('y'));
                if let Some((_, unit)) = options.split_once('S') {
                    this.unit_kib =
                        Some(unit).filter(|unit| !unit.is_empty()).or_else(|| words.next()).and_then(unit_kib);
                } else if options.ends_with('p') {
                    words.next();
                }
            } else {
                this.every_s = word.parse().ok().filter(|seconds: &f64| (0.001..=86_400.0).contains(seconds));
                break;
            }
        }
        this
    }
}

/// Returns the size in KiB of the unit that `-S` names; none for an unknown name.
fn unit_kib(name: &str) -> Option<f64> {
    match name {
        "k" => Some(1000.0 / 1024.0),
        "K" => Some(1.0),
        "m" => Some(1e6 / 1024.0),
        "M" => Some(1024.0),
        _ => None,
    }
}

/// The heading of a recording.
#[derive(Default)]
struct Heading {
    words: Vec<String>,
    /// Names of the columns that have numbers.
    numbers: Arc<[String]>,
}

impl Heading {
    fn of(words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        // With `-t` the last column is a date and a time, and its heading is the name of a time zone.
        let has_zone = words.last().is_some_and(|last| !last.chars().any(char::is_lowercase));
        Self { numbers: words[..words.len() - usize::from(has_zone)].into(), words }
    }

    fn by_number(columns: usize) -> Self {
        Self::of(&COLUMNS[..columns])
    }
}

/// A line of figures: the words before the figures, the figures, and the words after them.
struct Row<'w, 't> {
    before: &'w [&'t str],
    figures: &'w [&'t str],
    behind: &'w [&'t str],
}

impl<'w, 't> Row<'w, 't> {
    /// Splits the words of a line at its figures: `columns` numbers in a row. They begin after `stamp` words, or else
    /// after words that include a time of day. Returns none if the line has no figures.
    fn of(words: &'w [&'t str], stamp: usize, columns: usize) -> Option<Self> {
        let is_it = |at: &usize| {
            let figures = words.get(*at..at + columns);
            // No number may follow the figures. Numbers before the figures must belong to a time.
            figures.is_some_and(|figures| figures.iter().all(|word| super::number(word).is_some()))
                && words.get(at + columns).is_none_or(|word| super::number(word).is_none())
                && (*at == stamp || words[..*at].iter().any(|word| seconds_of_day(time_in(word)).is_some()))
        };
        let at = std::iter::once(stamp).chain(0..words.len().min(MARKS_MAX)).find(is_it)?;
        let (before, rest) = words.split_at(at);
        let (figures, behind) = rest.split_at(columns);
        Some(Self { before, figures, behind })
    }

    /// Returns the time of the line, s; none if it has no time.
    fn at_s(&self) -> Option<f64> {
        self.behind.iter().chain(self.before).find_map(|word| seconds_of_day(time_in(word)))
    }
}

/// Largest number of words that a time at the beginning of a line may have. `Thu Nov 26 10:00:01 UTC 2026 |` has seven.
const MARKS_MAX: usize = 8;

/// Returns the time of day in a word such as `[10:00:01]` or `2026-11-26T10:00:01.123456+00:00`.
pub(super) fn time_in(word: &str) -> &str {
    let word = word.trim_matches(|c: char| "[]()<>,|;".contains(c)).trim_end_matches(['Z', ':']);
    let time = word.rsplit_once('T').map_or(word, |(_, time)| time);
    time.split(['+', '-']).next().unwrap_or(time)
}

/// Reads a time of day as tools print it, s: `15:17:03`, or `03:17:03` with `PM` as a separate word.
pub(super) fn seconds_of_day(word: &str) -> Option<f64> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) || word.len() > 20 {
        return None;
    }
    let parts: Vec<f64> = word.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [hours @ 0.0..24.0, minutes @ 0.0..60.0, seconds @ 0.0..61.0] => {
            Some(hours * 3600.0 + minutes * 60.0 + seconds)
        }
        _ => None,
    }
}

/// Reads the time in a line of `date`, such as `Thu Nov 26 10:00:01 UTC 2026`, `2026-11-26 10:00:01` or
/// `2026-11-26T10:00:01+00:00`, or in the line `zzz ***Thu Nov 26 10:00:01 UTC 2026` of an archive. Returns the seconds
/// since midnight.
pub(super) fn clock_of(words: &[&str]) -> Option<f64> {
    let is_year = |word: &&str| {
        let year = word.split_once('-').map_or(*word, |(year, _)| year);
        year.len() == 4 && year.starts_with("20") && is_number(year)
    };
    let is_date = words.first().is_some_and(|word| *word == "zzz") || (words.len() <= 8 && words.iter().any(is_year));
    words.iter().find_map(|word| seconds_of_day(time_in(word))).filter(|_| is_date)
}

/// Returns whether a line is one of those that OSWatcher and ExaWatcher write into their archives before the figures.
pub(super) fn is_of_archive(words: &[&str]) -> bool {
    const NAMES: [&str; 5] = ["zzz", "SNAP_INTERVAL", "CPU_CORES", "VCPUS", "OSWBB_ARCHIVE_DEST"];
    match words {
        [first, ..] if NAMES.contains(first) => true,
        ["Linux", second, ..] => second.starts_with("OSW"),
        [first, ..] => first.starts_with('#'),
        [] => false,
    }
}

/// Largest number of consecutive lines that an archive of OSWatcher or ExaWatcher has before the figures.
const ARCHIVE_LINES_MAX: usize = 20;

/// Reads the interval from ExaWatcher's line `# Sample Interval(s):  5`.
fn interval_of_archive(words: &[&str]) -> Option<f64> {
    words.windows(2).find(|pair| pair[0] == "Interval(s):").and_then(|pair| pair[1].parse().ok())
}

/// The samples so far, and the facts from earlier lines that decide how the next line is read.
#[derive(Default)]
struct Reader {
    heading: Heading,
    stamp: usize,
    is_average: bool,
    samples: Vec<Sample>,
    /// The figures on the line that shows averages since boot. If another recording follows, its first line shows
    /// nearly the same averages, and is recognised by them.
    average: Option<Figures>,
    /// The time of the previous line of figures, s.
    earlier: Option<f64>,
    /// Difference between the clock of the archive and the times in its lines of figures, s: several hours if `vmstat -t`
    /// ran in another time zone.
    shift_s: f64,
    /// Line number of the previous line of figures.
    last: Option<usize>,
    /// Distance between lines of figures: 1, or 2 if an empty line follows each.
    spacing: usize,
    /// The last time that stood on a line of its own, s, and the number of lines of figures since that line.
    clock: Option<(f64, u32)>,
    /// True if a line with a time of its own stands between the previous line of figures and the next: an archive or a
    /// loop prints the time and then calls `vmstat` anew.
    has_clock_since: bool,
    every_s: f64,
    command: Command,
    is_by_number: bool,
    /// True if the previous line is a heading. Another recording may begin there; the next line of figures may then be
    /// an average since boot.
    may_be_average: bool,
    /// Number of lines of figures with a time.
    timed: usize,
}

/// Smallest height of a terminal, lines. A tool repeats its heading once per height of the terminal, so a heading that
/// comes back after fewer lines begins another recording.
const LINES_OF_TERMINAL_MIN: usize = 10;

impl Reader {
    /// Takes in a heading, which names the columns of the lines after it. The heading begins another recording if it
    /// differs from the last one, if a time or other text stands before it, or if it follows fewer samples than a
    /// terminal has lines.
    fn head(&mut self, heading: Heading, stamp: usize, number: usize) {
        let since_last = self.last.map_or(usize::MAX, |last| number - last);
        let is_new = self.heading.words != heading.words
            || since_last > self.spacing.max(1) + 1
            || self.has_clock_since
            || self.samples.len() < LINES_OF_TERMINAL_MIN;
        if is_new {
            (self.is_average, self.earlier) = (!self.command.omits_average, None);
        }
        self.may_be_average = true;
        (self.heading, self.stamp) = (heading, stamp);
    }

    fn row(&mut self, row: &Row<'_, '_>, file: &str, number: usize) -> Result<(), Wrong> {
        let values = under(&self.heading.numbers, row.figures, file, number - 1)?;
        let told = row.at_s();
        // The line with the time above the figures counts where both are known.
        if let (Some(told), Some((clock, 0))) = (told, self.clock) {
            self.shift_s = shift(told, clock);
        }
        let told = told.map(|told| (told + self.shift_s).rem_euclid(DAY_S));
        let seconds = self.earlier.zip(told).and_then(|(earlier, now)| since(earlier, now)).filter(|time| *time > 0.0);
        let by_clock = self.clock.as_mut().map(|(clock, lines)| {
            *lines += 1;
            *clock + f64::from(*lines - 1) * self.every_s
        });
        let at_s = told.or(by_clock);
        if let Some(last) = self.last {
            self.spacing = number - last;
        }
        self.has_clock_since = false;
        (self.earlier, self.last) = (told, Some(number));
        self.timed += usize::from(told.is_some());
        // Another recording of the same computer begins with nearly the same average since boot.
        let is_like_average =
            |figures: &Figures| self.average.as_ref().is_some_and(|average| is_like(figures, average));
        let is_another = std::mem::take(&mut self.may_be_average)
            && is_like_average(&values)
            && self.samples.last().is_some_and(|sample| !is_like_average(&sample.values));
        if std::mem::take(&mut self.is_average) || is_another {
            self.average.get_or_insert(values);
            return Ok(());
        }
        self.samples.push(Sample { seconds: seconds.unwrap_or(self.every_s), at_s, line: number, values });
        Ok(())
    }
}

const DAY_S: f64 = 86_400.0;

/// Smallest difference between two clocks, s, that is one between time zones: all are multiples of a quarter of an hour.
const ZONE_S: f64 = 900.0;

/// Returns the difference between the time zones of a line's own time and of the time above it, s. A difference of less
/// than half the smallest one between zones is time that has passed.
fn shift(told: f64, clock: f64) -> f64 {
    ((clock - told) / ZONE_S).round() * ZONE_S
}

/// Returns whether the rates and shares in `figures` are nearly equal to those of the average since boot.
fn is_like(figures: &Figures, average: &Figures) -> bool {
    COLUMNS[6..].iter().all(|name| match figures.get(name).zip(average.get(name)) {
        Some((one, other)) => (one - other).abs() <= (0.05 * one.max(other)).max(1.0),
        None => true,
    })
}

fn read_block(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Vec<Told>, Wrong> {
    read_lines(block, left_out).map(|recording| vec![Told::Recording(recording)])
}

fn read_lines(block: &Block<'_>, left_out: &mut LeftOut) -> Result<Recording, Wrong> {
    let mut reader = Reader { every_s: block.interval_s.unwrap_or(EVERY_S), ..Reader::default() };
    let mut told_every = block.interval_s;
    let mut groups = None;
    let mut first_wrong: Option<Wrong> = None;
    let last = block.lines.iter().rev().find(|line| !line.is_blank()).map(|line| line.number);
    for (n, line) in block.lines.iter().enumerate() {
        let words = line.words();
        if words.is_empty() {
            continue;
        }
        if line.text.find("procs").is_some_and(|at| is_groups(&line.text[at..])) {
            groups = Some(line.number);
            continue;
        }
        let is_first = reader.heading.words.is_empty();
        let names = names_at(&words);
        if let Some(at) = names.or_else(|| (is_first && is_translated(&words, &block.lines[n..])).then_some(0)) {
            if let Some(command) = block.command_before(line.number, "vmstat") {
                reader.command = Command::of(command);
                told_every = block.interval_s.or(reader.command.every_s).or(told_every);
                reader.every_s = told_every.unwrap_or(EVERY_S);
            }
            let heading = match names {
                Some(_) => Heading::of(&words[at..]),
                None => Heading::by_number(words.len()),
            };
            reader.is_by_number |= names.is_none();
            reader.head(heading, at, groups.take().unwrap_or(line.number));
            continue;
        }
        if is_first && is_row(&words) {
            reader.heading = Heading::by_number(words.len());
            reader.is_by_number = true;
        }
        let columns = reader.heading.numbers.len();
        if columns > 0
            && let Some(row) = Row::of(&words, reader.stamp, columns)
        {
            if let Err(why) = reader.row(&row, block.file, line.number) {
                left_out.note(line.number, &why.what);
                first_wrong = first_wrong.or(Some(why));
            }
            continue;
        }
        if let Some(clock) = clock_of(&words) {
            (reader.clock, reader.has_clock_since) = (Some((clock, 0)), true);
        }
        if is_of_archive(&words) {
            // Lines in which an archive describes itself are expected here.
            if let Some(every_s) = interval_of_archive(&words).filter(|_| block.interval_s.is_none()) {
                (told_every, reader.every_s) = (Some(every_s), every_s);
            }
        } else if columns > 0 && is_broken_row(&words) {
            let why = under(&reader.heading.numbers, &words, block.file, line.number - 1).err();
            let cut = "cut off".to_owned();
            let what = why.as_ref().filter(|_| last != Some(line.number)).map_or(cut, |why| why.what.clone());
            left_out.note(line.number, what);
            first_wrong = first_wrong.or(why);
        } else {
            left_out.line(line);
        }
    }
    finish(reader, told_every, block, first_wrong)
}

/// Returns whether a line consists mostly of numbers, as a cut or damaged line does.
fn is_broken_row(words: &[&str]) -> bool {
    let numbers = words.iter().filter(|word| super::number(word).is_some()).count();
    numbers * 2 > words.len() && words.len() > 1
}

fn finish(
    reader: Reader,
    told_every: Option<f64>,
    block: &Block<'_>,
    first_wrong: Option<Wrong>,
) -> Result<Recording, Wrong> {
    let Reader { mut samples, command, is_by_number, timed, .. } = reader;
    if samples.is_empty() {
        let first = block.lines.first().map_or(0, |line| line.number.saturating_sub(1));
        let what = "expected a line of `vmstat 1` after the first, which is the average since the start: `vmstat 1 10` prints more";
        return Err(first_wrong.unwrap_or_else(|| Wrong::at(block.file, first, what)));
    }
    let mut assumed = Vec::new();
    if is_by_number {
        assumed.push("the columns of `vmstat` by their number, since no heading names them".to_owned());
    }
    // The first line of a recording may have no earlier time, so times count if most lines have them.
    let has_times = timed > samples.len() / 2;
    match told_every {
        Some(every_s) if block.interval_s.is_none() && command.every_s == Some(every_s) && !has_times => {
            assumed.push(format!("an interval of {every_s} s, as the command in the text says"));
        }
        None if !has_times => {
            assumed.push(format!("an interval of {EVERY_S} s, since the text tells none (--interval does)"));
        }
        _ => {}
    }
    convert(&mut samples, command.unit_kib, &mut assumed);
    Ok(Recording { tool: "vmstat", samples, has_times, assumed, ..Recording::default() })
}

/// Smallest plausible sum of free memory and caches, KiB. A smaller sum shows that the sizes are in a larger unit.
const TOO_SMALL_KIB: f64 = 2048.0;

/// If the sum of free memory and caches is below this number, and some size is no multiple of 4, the sizes may be in
/// MiB. As a number of MiB, it is 256 GiB; as a number of KiB, it is 256 MiB.
const MAY_BE_MIB: f64 = 262_144.0;

/// Smallest ratio of used swap to free memory and caches at which sizes whose unit is unclear are taken to be in KiB,
/// not in MiB. Only computers too small to be measured in MiB reach this ratio.
const MOST_IN_SWAP: f64 = 8.0;

/// Sum of free memory and caches from which on sizes whose unit is unclear are not taken to be in MiB (as MiB it is
/// 64 GiB) if pages are swapped out while at least [`FREE_MUCH`] percent of the sum are free.
const MUCH_MIB: f64 = 65_536.0;

/// Share of free memory in free memory and caches, percent, at which a computer with 64 GiB does not swap out.
const FREE_MUCH: f64 = 15.0;

/// Largest plausible rate of swapping, MiB/s. Swap in compressed memory reaches this rate.
const SWAP_MIB_PER_S: f64 = 16_384.0;

/// Converts the sizes in `samples` to KiB. `unit` is the number of KiB in the unit that the command sets with `-S`. If
/// `unit` is none, the sizes count as KiB, or as MiB where KiB would be implausible.
fn convert(samples: &mut [Sample], unit: Option<f64>, assumed: &mut Vec<String>) {
    let sizes = |sample: &Sample| SIZES.map(|name| sample.values.get(name).unwrap_or_default());
    let most = samples.iter().map(|sample| sizes(sample)[1..].iter().sum::<f64>()).fold(0.0, f64::max);
    // The kernel counts in whole pages, of 4 KiB or more.
    let is_whole = samples.iter().all(|sample| sizes(sample).iter().all(|size| size % super::PAGE_KIB == 0.0));
    let in_swap = samples.iter().map(|sample| sizes(sample)[0]).fold(0.0, f64::max);
    let value = |sample: &Sample, name: &str| sample.values.get(name).unwrap_or_default();
    let swaps_beside_free = samples.iter().any(|sample| {
        value(sample, "so") > 0.0 && value(sample, "free") * 100.0 >= FREE_MUCH * most && most >= MUCH_MIB
    });
    let may_be_mib = most < MAY_BE_MIB && in_swap < MOST_IN_SWAP * most && !swaps_beside_free;
    let is_mib = most > 0.0 && (most < TOO_SMALL_KIB || (may_be_mib && !is_whole));
    let kib = match unit {
        Some(kib) => kib,
        None if is_mib => 1024.0,
        None => return,
    };
    if kib == 1.0 {
        return;
    }
    // If swap is on a disk, swapped pages are also counted in `bi` and `bo`, which are in KiB whatever `-S` says. Some
    // versions do not convert `si` and `so` to the unit. Swap in compressed memory moves no blocks.
    let sum = |names: [&str; 2]| -> f64 {
        samples.iter().flat_map(|sample| names.map(|name| sample.values.get(name).unwrap_or_default())).sum()
    };
    let (swapped, blocks) = (sum(["si", "so"]), sum(["bi", "bo"]));
    let fastest =
        samples.iter().flat_map(|sample| ["si", "so"].map(|name| sample.values.get(name).unwrap_or_default()));
    let is_too_fast = fastest.fold(0.0, f64::max) * kib > SWAP_MIB_PER_S * 1024.0;
    let are_rates = !is_too_fast && (swapped * kib <= 2.0 * blocks || swapped > 1.1 * blocks);
    for sample in samples {
        SIZES.iter().for_each(|name| sample.values.scale(name, kib));
        if are_rates {
            ["si", "so"].iter().for_each(|name| sample.values.scale(name, kib));
        }
    }
    let name = match kib {
        1024.0.. => "MiB",
        1.0.. => "units of 1,000,000 bytes",
        _ => "units of 1,000 bytes",
    };
    let rates = if are_rates { "sizes and rates of swap" } else { "sizes, but not rates of swap," };
    let why = match unit {
        Some(_) => "as the command in the text says".to_owned(),
        None => format!("since {most} KiB of free memory and caches are no computer (-S M)"),
    };
    assumed.push(format!("{rates} in {name}, {why}"));
}

/// Reads samples by the names of their columns (`si`, `so`, `free`) from a log in the form in which `vmstat` wrote
/// it. Faulty parts are left out and reported: lines that belong to no recording, and a recording without a line
/// after the average since boot.
///
/// `every_s` is the interval if the text has no times. If words stand before a heading, such as times of MMTests,
/// then as many words are skipped before each line of figures.
pub fn read(file: &str, text: &str, every_s: f64, wrong: &mut Vec<Wrong>) -> Vec<Sample> {
    let lines: Vec<Line<'_>> =
        text.lines().enumerate().map(|(n, line)| Line { number: n + 1, text: line.into() }).collect();
    let mut left_out = LeftOut::default();
    let block = Block { file, lines: &lines, commands: &[], interval_s: Some(every_s) };
    let read = read_lines(&block, &mut left_out);
    wrong.extend(left_out.iter().map(|(line, what)| Wrong::at(file, line - 1, what)));
    read.map(|recording| recording.samples).unwrap_or_else(|why| {
        wrong.extend(left_out.is_empty().then_some(why));
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Document, read as read_text};

    /// Output of `vmstat` of procps 4, from Debian.
    const PRINTED: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 7  0      0 7702728 102612 9169288   36   47 40799 10924 1053 3067 55  8 35  3  0
 7  0      0 7702728 102612 9169288    8    0     0     0  783  375 99  1  0  0  0
 6  0      0 7702728 102612 9169288    0    4     8 186856 1004  649 96  4  0  1  0
";

    const WIDE_WITH_TIMES: &str = "\
--procs-- -----------------------memory---------------------- ---swap-- -----io---- -system-- ----------cpu---------- -----timestamp-----
   r    b         swpd         free         buff        cache   si   so    bi    bo   in   cs  us  sy  id  wa  st  gu                 UTC
   7    0            0      7625500       102628      9173356   36   47 40796 10925 1053 3066  55   8  35   3   0   0 2026-11-25 23:59:58
   7    0            0      7625500       102628      9173356    2    0     0  3568  655  464  99   2   0   0   0   0 2026-11-26 00:00:00
";

    fn document(text: &str) -> Document {
        read_text("v.txt", text, None).unwrap()
    }

    fn recording(text: &str) -> Recording {
        let document = document(text);
        assert_eq!(document.told.len(), 1, "{:?}", document.told);
        document.recordings().next().unwrap().clone()
    }

    fn swapped(text: &str) -> Vec<(f64, f64)> {
        recording(text).samples.iter().map(|it| (it.values["si"], it.values["so"])).collect()
    }

    #[test]
    fn each_section_of_an_archive_begins_with_an_average() {
        // The averages since boot change from section to section, and are like no sample.
        let section = |n: u32| {
            format!(
                "zzz ***Thu Nov 26 10:{n:02}:02 CET 2026\n{heading}\n 3 1 500000 922122 9000 2096714 {} 5000 9000 9000 1200 1800 9 20 51 20 0\n\
                 4 0 500000 953134 9000 2176980 0 0 27 59 979 1544 5 3 91 1 0\n4 0 500000 972162 9000 1845282 1 0 30 60 812 1415 5 3 91 1 0\n",
                4000 - 60 * n,
                heading = PRINTED.lines().take(2).collect::<Vec<_>>().join("\n"),
            )
        };
        let text: String = (0..40).map(section).collect();
        assert_eq!(swapped(&text), [(0.0, 0.0), (1.0, 0.0)].repeat(40));
    }

    #[test]
    fn sizes_of_a_small_computer_that_swaps_are_in_kib() {
        let row =
            |free: u32, so: u32| format!(" 1 6 641273 {free} 3011 173273 3900 {so} 4300 5200 3000 5100 7 11 11 71 0\n");
        let heading: String = PRINTED.lines().take(2).map(|line| format!("{line}\n")).collect();
        let free =
            |so: u32| recording(&format!("{heading}{}{}", row(70_103, so), row(70_103, so))).samples[0].values["free"];
        // As MiB, 68 GiB would be free while pages go to swap.
        assert_eq!(free(5100), 70_103.0);
        assert_eq!(free(0), 70_103.0 * 1024.0);
    }

    #[test]
    fn lines_after_the_first_are_samples() {
        assert_eq!(swapped(PRINTED), [(8.0, 0.0), (0.0, 4.0)]);
        let recording_of = |text: &str| recording(text).samples;
        let samples = recording_of(PRINTED);
        assert_eq!((samples[0].seconds, samples[0].line), (1.0, 4));
        let timed = recording_of(WIDE_WITH_TIMES);
        assert_eq!((timed.len(), timed[0].seconds, timed[0].values["si"], timed[0].values["gu"]), (1, 2.0, 2.0, 0.0));
        // When a clock is set back, the heading names another time zone.
        let set_back = WIDE_WITH_TIMES.replace("UTC", "CET").replace("23:59:58", "22:59:58");
        assert_eq!(recording_of(&(WIDE_WITH_TIMES.to_owned() + &set_back)).len(), 2);
    }

    #[test]
    fn a_line_that_is_wrong_is_left_out_and_told() {
        let told = |text: &str| document(text).left_out;
        assert_eq!(
            told(&PRINTED.replace("375 99", "375"))[0].split(", for").next(),
            Some("line 4 (expected 17 numbers")
        );
        assert_eq!(told(&PRINTED.replace("783", "x")), ["line 4 (expected a number in column in: found `x`)"]);
        assert_eq!(told(&PRINTED.replace("96  4  0  1  0\n", "96 ")), ["line 5 (cut off)"]);
        // If every line is wrong, the error is about the first.
        let all_wrong = PRINTED.replace("9169288", "nan");
        let why = read_text("v.txt", &all_wrong, None).unwrap_err().to_string();
        assert_eq!(why, "v.txt:3: expected a number in column cache: found `nan`");
        // No kernel counts below 0, or as high as 1e30.
        for odd in ["-783", "1e30"] {
            let expected = format!("line 4 (expected a number from 0 to 2^64 in column in: found `{odd}`)");
            assert_eq!(told(&PRINTED.replace("783", odd)), [expected]);
        }
        let first: String = PRINTED.lines().take(3).map(|line| format!("{line}\n")).collect();
        let wrong = read_text("v.txt", &first, None).unwrap_err().to_string();
        assert!(wrong.starts_with("v.txt:1: expected a line of `vmstat 1` after the first"), "{wrong}");
    }

    #[test]
    fn logs_that_nobody_pasted_tell_what_is_wrong() {
        let mut wrong = Vec::new();
        let samples = read("v.txt", &PRINTED.replace("783", "x"), 1.0, &mut wrong);
        assert_eq!((samples.len(), wrong.len(), wrong[0].line), (1, 1, Some(4)));
        let stamped: String = PRINTED.lines().map(|line| format!("  1371562  0 -- {line}\n")).collect();
        let mut wrong = Vec::new();
        assert_eq!(read("v", &stamped, 1.0, &mut wrong), read("v", PRINTED, 1.0, &mut wrong));
        assert_eq!(wrong, []);
    }

    #[test]
    fn times_before_each_line_are_those_of_its_samples() {
        let stamps: [fn(usize) -> String; 5] = [
            |n| format!("10:00:0{} ", 2 * n),
            |n| format!("Nov 26 10:00:0{} ", 2 * n),
            |n| format!("[2026-11-26 10:00:0{}] ", 2 * n),
            |n| format!("2026-11-26T10:00:0{}+0100 ", 2 * n),
            |n| format!("Thu Nov 26 10:00:0{} UTC 2026: ", 2 * n),
        ];
        for stamp in stamps {
            let text: String = PRINTED.lines().enumerate().map(|(n, line)| format!("{}{line}\n", stamp(n))).collect();
            let samples = recording(&text).samples;
            assert_eq!(samples.iter().map(|it| it.values["si"]).collect::<Vec<_>>(), [8.0, 0.0], "{text}");
            assert_eq!(samples[1].seconds, 2.0, "{text}");
        }
        // Only lines with figures have a time.
        let text: String = PRINTED
            .lines()
            .enumerate()
            .map(|(n, line)| if n < 2 { format!("{line}\n") } else { format!("10:00:0{n} {line}\n") })
            .collect();
        assert_eq!(recording(&text).samples[1].at_s, Some(36_004.0));
    }

    #[test]
    fn each_recording_begins_with_an_average() {
        let other = PRINTED.replace("   8    0     0", "  80    0     0");
        for between in ["", "\n\n", "^C\n$ vmstat 1\n", "Later on:\n"] {
            let text = format!("{PRINTED}{between}{other}");
            assert_eq!(swapped(&text), [(8.0, 0.0), (0.0, 4.0), (80.0, 0.0), (0.0, 4.0)], "{between:?}");
        }
        // A heading that is repeated within a recording is followed by no average.
        let (heading, lines) = PRINTED.split_at(PRINTED.match_indices('\n').nth(1).unwrap().0 + 1);
        let (average, samples) = lines.split_at(lines.find('\n').unwrap() + 1);
        let text = format!("{heading}{average}{}{heading}{samples}", samples.repeat(10));
        assert_eq!(swapped(&text).len(), 22);
        // After the same number of lines, another recording is recognised by its average.
        let text = format!("{heading}{average}{}{heading}{average}{samples}", samples.repeat(10));
        assert_eq!(swapped(&text).len(), 22);
    }

    #[test]
    fn lines_without_a_heading_are_known_by_the_shares_of_cpus() {
        let cut: String = PRINTED.lines().skip(2).map(|line| format!("{line}\n")).collect();
        let recording = recording(&cut);
        assert_eq!(recording.samples.len(), 3);
        assert!(recording.assumed[0].starts_with("the columns of `vmstat` by their number"));
        let translated = PRINTED.replace(
            " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st",
            "a b c d e f g h i j k l m n o p q",
        );
        assert_eq!(swapped(&translated), [(8.0, 0.0), (0.0, 4.0)]);
        let old = PRINTED
            .replace(" r  b ", " r  b  w ")
            .replace("\n 7  0 ", "\n 7  0  0 ")
            .replace("\n 6  0 ", "\n 6  0  0 ");
        assert_eq!(swapped(&old), [(8.0, 0.0), (0.0, 4.0)]);
    }

    #[test]
    fn an_interval_is_taken_from_the_command() {
        for (command, seconds) in [
            ("$ vmstat 5", 5.0),
            ("# vmstat -n -S M 10 3 | tee log", 10.0),
            ("me@h:~$ vmstat -w", 1.0),
            ("This is `vmstat 2`:", 2.0),
        ] {
            let recording = recording(&format!("{command}\n{PRINTED}"));
            assert_eq!(recording.samples[0].seconds, seconds, "{command}");
            assert_eq!(recording.assumed[0].contains("as the command in the text says"), seconds > 1.0);
        }
        let command = |every_s, unit_kib| Command { every_s, unit_kib, omits_average: false };
        assert_eq!(Command::of("vmstat -wS m 3"), command(Some(3.0), Some(1e6 / 1024.0)));
        assert_eq!(Command::of("LC_ALL=C vmstat --unit=K -t 3"), command(Some(3.0), Some(1.0)));
        assert_eq!(Command::of("vmstat -SM"), command(None, Some(1024.0)));
    }

    #[test]
    fn with_y_the_first_line_is_a_sample() {
        for (command, samples) in [("vmstat 1", 2), ("vmstat -y 1", 3), ("vmstat -wy 1", 3), ("vmstat --no-first 1", 3)]
        {
            assert_eq!(recording(&format!("$ {command}\n{PRINTED}")).samples.len(), samples, "{command}");
        }
    }

    #[test]
    fn the_unit_of_a_command_is_named() {
        for (unit, name) in [("k", "units of 1,000 bytes"), ("m", "units of 1,000,000 bytes"), ("M", "MiB")] {
            let assumed = recording(&format!("$ vmstat -S {unit} 1\n{PRINTED}")).assumed.join("; ");
            assert!(assumed.contains(name), "{unit}: {assumed}");
        }
    }

    #[test]
    fn sizes_that_are_no_computer_are_mib() {
        let heading: String = PRINTED.lines().take(2).map(|line| format!("{line}\n")).collect();
        let line = |free: u32, cache: u32, si: u32, bi: u32| {
            format!(" 2  5 892 {free} 4 {cache} {si} {si} {bi} {bi} 3100 5200  8 12 10 70  0\n")
        };
        let of = |command: &str, free: u32, cache: u32, si: u32, bi: u32| {
            let recording = recording(&format!("{command}{heading}{0}{0}", line(free, cache, si, bi)));
            let values = &recording.samples[0].values;
            (values["free"], values["si"], recording.assumed.len())
        };
        assert_eq!(of("", 78, 200, 40, 45_000), (78.0 * 1024.0, 40.0 * 1024.0, 2));
        // A router with 32 MiB, a computer with 250 GiB whose sizes are in MiB, and a large computer whose sizes are in
        // KiB.
        assert_eq!(of("", 3000, 8000, 40, 45), (3000.0, 40.0, 1));
        assert_eq!(of("", 90_001, 160_003, 0, 45), (90_001.0 * 1024.0, 0.0, 2));
        assert_eq!(of("", 900_012, 1_600_044, 40, 45), (900_012.0, 40.0, 1));
        // Versions that do not convert rates. The commands that state a unit follow below.
        assert_eq!(of("", 78, 200, 40_000, 45_000), (78.0 * 1024.0, 40_000.0, 2));
        // Swap in compressed memory.
        assert_eq!(of("", 78, 200, 40, 5), (78.0 * 1024.0, 40.0 * 1024.0, 2));
        assert_eq!(of("$ vmstat -S M 1\n", 900_012, 1_600_044, 0, 45).0, 900_012.0 * 1024.0);
        assert_eq!(of("$ vmstat -S k 1\n", 1024, 2048, 0, 45).0, 1000.0);
    }

    #[test]
    fn sections_of_an_archive_each_have_an_average() {
        let section = |time: &str| format!("zzz ***Thu Nov 26 {time} UTC 2026\n{PRINTED}");
        let text = format!(
            "Linux OSWbb v8.3.2 web1\nSNAP_INTERVAL 30\nCPU_CORES 8\n{}{}",
            section("10:00:01"),
            section("10:00:31")
        );
        let recording = recording(&text);
        let times: Vec<Option<f64>> = recording.samples.iter().map(|sample| sample.at_s).collect();
        assert_eq!(times, [Some(36_002.0), Some(36_003.0), Some(36_032.0), Some(36_033.0)]);
        assert!(!recording.has_times);
        let text = format!(
            "# Starting Time: 11/26/2026 10:00:00\n# Sample Interval(s):   5\nzzz <11/26/2026 10:00:00> Count:720\n{PRINTED}"
        );
        assert_eq!(super::tests::recording(&text).samples[0].seconds, 5.0);
    }

    #[test]
    fn sums_are_counters_since_the_start() {
        let copy = |swapped_in: u32| {
            format!("      8000000 K total memory\n       400000 K free memory\n       {swapped_in} pages swapped in\n")
        };
        let told = document(&format!("$ vmstat -s\n{}$ vmstat -s\n{}", copy(1000), copy(3000))).told;
        let pages = |n: usize| match &told[n].1 {
            Told::Look(looks::Told::Vmstat(file)) => (file.0["pswpin"], file.0["nr_free_pages"]),
            other => panic!("{other:?}"),
        };
        assert_eq!((pages(0), pages(1)), ((1000, 100_000), (3000, 100_000)));
        let sizes = |n: usize| match &told[n].1 {
            Told::Look(looks::Told::Meminfo(look)) => look.values.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((sizes(2)["MemTotal"], sizes(3)["MemFree"], told.len()), (8_000_000, 400_000, 4));
    }
}
