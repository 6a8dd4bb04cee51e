//! `vmstat 1`, as procps prints it: with or without `-n`, `-w`, `-t`.
//!
//! The first line is the average since the computer started and says nothing of now: it is left out, as after a heading with
//! other columns, which begins a new recording in the same file. Sizes are KiB and rates KiB/s, unless `-S` was given, of which the text tells
//! nothing. Nor does it tell the interval, but by the times of `-t`.

use super::{Figures, Sample, Wrong, since, under};
use std::sync::Arc;

/// Does a text begin as one of `vmstat`?
#[must_use]
pub fn is_it(text: &str) -> bool {
    text.lines().find(|line| !line.trim().is_empty()).is_some_and(is_groups)
}

/// The line above the names: `procs -----------memory---------- …`, or `--procs-- …`.
fn is_groups(line: &str) -> bool {
    line.trim_start_matches([' ', '-']).starts_with("procs") && line.contains("--memory--")
}

/// Samples of a recording, as [`read`], that is none where any of it is wrong.
///
/// # Errors
/// The first that is wrong.
pub fn read_whole(file: &str, text: &str, every_s: f64) -> Result<Vec<Sample>, Wrong> {
    let mut wrong = Vec::new();
    let samples = read(file, text, every_s, &mut wrong);
    wrong.into_iter().next().map_or(Ok(samples), Err)
}

/// Samples by the names of their columns: `si`, `so`, `free`. What is wrong is left out, and told: lines that are none of a recording,
/// and where there is none after the average since the start.
///
/// `every_s` is the interval where the text does not tell it by times. What stands before a heading, as times of MMTests do, stands
/// before each of its lines.
pub fn read(file: &str, text: &str, every_s: f64, wrong: &mut Vec<Wrong>) -> Vec<Sample> {
    let mut heading = Heading::default();
    let mut stamp = 0;
    let mut samples: Vec<Sample> = Vec::new();
    let (mut is_average, mut earlier): (bool, Option<f64>) = (true, None);
    let already = wrong.len();
    for (n, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() <= stamp || line.find("procs").is_some_and(|at| is_groups(&line[at..])) {
            continue;
        }
        if let Some(at) = words.windows(2).position(|pair| pair == ["r", "b"]) {
            stamp = at;
            // Headings come again and again; another one is another recording.
            if heading.words != words[at..] {
                (heading, is_average, earlier) = (Heading::of(&words[at..]), true, None);
            }
            continue;
        }
        match figures(&heading, &words[stamp..], file, n) {
            Ok((at_s, values)) => {
                let since = earlier.zip(at_s).map(|(earlier, now)| since(earlier, now));
                if since == Some(None) {
                    wrong.push(Wrong::at(file, n, "expected a time not before that of the line before"));
                    continue;
                }
                earlier = at_s;
                if !std::mem::take(&mut is_average) {
                    let seconds = since.flatten().filter(|time| *time > 0.0).unwrap_or(every_s);
                    samples.push(Sample { seconds, at_s, line: n + 1, values });
                }
            }
            Err(why) => wrong.push(why),
        }
    }
    if samples.is_empty() && wrong.len() == already {
        let what = "expected a line of `vmstat 1` after the first, which is the average since the start";
        wrong.push(Wrong::of(file, what));
    }
    samples
}

/// The names of columns.
#[derive(Default)]
struct Heading {
    words: Vec<String>,
    /// Those with a number.
    numbers: Arc<[String]>,
    has_times: bool,
}

impl Heading {
    fn of(words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        // The last column of -t is a date and a time.
        let has_times = words.last().is_some_and(|last| !last.chars().any(char::is_lowercase));
        Self { numbers: words[..words.len() - usize::from(has_times)].into(), words, has_times }
    }
}

/// The time of a line, where it has one, and its figures.
fn figures(heading: &Heading, words: &[&str], file: &str, line: usize) -> Result<(Option<f64>, Figures), Wrong> {
    let Heading { words: all, numbers: names, has_times } = heading;
    if all.is_empty() {
        return Err(Wrong::at(file, line, "expected the heading of `vmstat`: r b swpd free …"));
    }
    let numbers = names.len();
    let (figures, time) = words.split_at(numbers.min(words.len()));
    let at_s = match time {
        [_, time] if *has_times => Some(
            seconds_of_day(time)
                .ok_or_else(|| Wrong::at(file, line, format!("expected a time such as 15:17:03: found `{time}`")))?,
        ),
        [] => None,
        _ => return Err(Wrong::at(file, line, format!("expected {numbers} numbers: found {}", words.len()))),
    };
    Ok((at_s, under(names, figures, file, line)?))
}

/// Of a time as tools print it: `15:17:03`, or `03:17:03`, of which `PM` is told apart.
pub(super) fn seconds_of_day(word: &str) -> Option<f64> {
    let parts: Vec<f64> = word.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [hours @ 0.0..24.0, minutes @ 0.0..60.0, seconds @ 0.0..61.0] => {
            Some(hours * 3600.0 + minutes * 60.0 + seconds)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian's procps 4 prints it.
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

    #[test]
    fn lines_after_the_first_are_samples() {
        let samples = read_whole("v", PRINTED, 1.0).unwrap();
        assert_eq!(
            samples.iter().map(|it| (it.values["si"], it.values["so"])).collect::<Vec<_>>(),
            [(8.0, 0.0), (0.0, 4.0)]
        );
        assert_eq!(samples[0].seconds, 1.0);
        let timed = read_whole("v", WIDE_WITH_TIMES, 1.0).unwrap();
        assert_eq!((timed.len(), timed[0].seconds, timed[0].values["si"], timed[0].values["gu"]), (1, 2.0, 2.0, 0.0));
        // Where clocks are set back, another zone stands in the heading.
        let set_back = WIDE_WITH_TIMES.replace("UTC", "CET").replace("23:59:58", "22:59:58");
        assert_eq!(read_whole("v", &(WIDE_WITH_TIMES.to_owned() + &set_back), 1.0).map(|all| all.len()), Ok(2));
        assert!(is_it(PRINTED) && is_it(WIDE_WITH_TIMES) && !is_it("pgfault 1\n"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |text: &str| read_whole("v.txt", text, 1.0).unwrap_err().to_string();
        assert_eq!(wrong("7 0 0\n"), "v.txt:1: expected the heading of `vmstat`: r b swpd free …");
        assert!(wrong(&PRINTED.replace("375 99", "375")).starts_with("v.txt:4: expected 17 numbers"));
        assert!(
            wrong(&PRINTED.replace("186856", "x")).starts_with("v.txt:5: expected a number in column bo: found `x`")
        );
        // No kernel counts below 0, or as much as this.
        for odd in ["-186856", "1e30"] {
            let told = wrong(&PRINTED.replace("186856", odd));
            assert_eq!(told, format!("v.txt:5: expected a number from 0 to 2^64 in column bo: found `{odd}`"));
        }
        let back = wrong(&WIDE_WITH_TIMES.replace("00:00:00", "23:59:57"));
        assert_eq!(back, "v.txt:4: expected a time not before that of the line before");
        let first: String = PRINTED.lines().take(3).map(|line| format!("{line}\n")).collect();
        assert!(wrong(&first).contains("after the first"));
    }

    #[test]
    fn times_of_mmtests_may_stand_before_each_line() {
        let stamped: String = PRINTED.lines().map(|line| format!("  1371562  0 -- {line}\n")).collect();
        assert_eq!(read_whole("v", &stamped, 1.0), read_whole("v", PRINTED, 1.0));
    }

    #[test]
    fn other_lines_than_a_wrong_one_are_read() {
        let mut wrong = Vec::new();
        let samples = read("v.txt", &PRINTED.replace("783", "x"), 1.0, &mut wrong);
        assert_eq!((samples.len(), wrong.len(), wrong[0].line), (1, 1, Some(4)));
    }
}
