//! `sar -B -W` and `iostat -x`, as sysstat prints them.
//!
//! A block of `sar` is a heading of names behind a time, and lines of figures behind theirs. Blocks of the same times are of one
//! sample. Averages at the end are left out: they are of the same lines.

use super::procps::seconds_of_day;
use super::{Figures, Sample, Wrong, number, since, under};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Does a text begin as one of sysstat?
#[must_use]
pub fn is_it(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| line.starts_with("Linux ") && line.contains('(') && line.trim_end().ends_with("CPU)"))
}

/// The heading that holds, of those that were met: each is kept once.
#[derive(Default)]
struct Headings {
    met: Vec<Arc<[String]>>,
    now: Arc<[String]>,
}

impl Headings {
    fn set(&mut self, words: &[&str]) {
        let known = self.met.iter().find(|names| names.iter().eq(words.iter()));
        self.now = known.cloned().unwrap_or_else(|| {
            let names: Arc<[String]> = words.iter().map(|word| (*word).to_owned()).collect();
            self.met.push(names.clone());
            names
        });
    }

    /// Is it a line of averages? It has a word for them in the language of who recorded it in the place of a time, and names or figures
    /// under a heading that was met.
    fn is_average(&self, words: &[&str]) -> bool {
        self.met.iter().any(|names| {
            let Some((lead, rest)) = words.len().checked_sub(names.len()).map(|at| words.split_at(at)) else {
                return false;
            };
            let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
            let is_one = rest.iter().eq(names.iter()) || rest.iter().all(|word| number(word).is_some());
            !lead.is_empty() && lead.iter().all(is_word) && is_one
        })
    }
}

/// The time at the head of a line, and the words behind it.
fn timed<'w, 't>(words: &'w [&'t str]) -> Option<(f64, &'w [&'t str])> {
    let (first, rest) = words.split_first()?;
    let time = seconds_of_day(first)?;
    const NOON: f64 = 43_200.0;
    match rest {
        ["AM", rest @ ..] => Some((time % NOON, rest)),
        ["PM", rest @ ..] => Some((time % NOON + NOON, rest)),
        rest => Some((time, rest)),
    }
}

/// Samples of `sar` by the names of their columns: `pgscank/s`, `pswpin/s`. Blocks that are by device or CPU are refused.
///
/// # Errors
/// The first line that is none of `sar -B -W`; and where there is no figure at all.
pub fn read_sar(file: &str, text: &str) -> Result<Vec<Sample>, Wrong> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut heading = Headings::default();
    let mut earlier = None;
    // The title has the day; what was told of it is not told again.
    let (mut title, mut told) = ("", BTreeSet::new());
    for (n, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Linux") {
            title = line;
            continue;
        }
        if words.is_empty() || heading.is_average(&words) {
            continue;
        }
        let Some((time, rest)) = timed(&words) else {
            return Err(Wrong::at(file, n, format!("expected a time such as 15:17:05 first: found `{}`", words[0])));
        };
        if rest.contains(&"RESTART") {
            (heading.now, earlier) = (Arc::default(), None);
            continue;
        }
        if rest.first().is_some_and(|word| number(word).is_none()) {
            if let Some(other) = rest.iter().find(|word| !word.ends_with("/s") && **word != "%vmeff") {
                let what = format!("expected columns of `sar -B -W`, such as pgscank/s and pswpin/s: found `{other}`");
                return Err(Wrong::at(file, n, what));
            }
            heading.set(rest);
            earlier = Some(time);
            continue;
        }
        let values = under(&heading.now, rest, file, n)?;
        let began = earlier.ok_or_else(|| Wrong::at(file, n, "expected a heading before figures"))?;
        let seconds = since(began, time).filter(|seconds| *seconds > 0.0);
        let seconds = seconds.ok_or_else(|| Wrong::at(file, n, "expected a time after that of the line before"))?;
        if !told.insert((title, words[0], rest.len() < words.len() - 1 && words[1] == "PM", heading.now.clone())) {
            return Err(Wrong::at(file, n, format!("expected each time of a day once: found {} again", words[0])));
        }
        match samples
            .iter_mut()
            .find(|sample| sample.at_s == Some(time) && sample.values.iter().all(|(key, _)| values.get(key).is_none()))
        {
            Some(same) => same.values.extend(values),
            None => samples.push(Sample { seconds, at_s: Some(time), line: n + 1, values }),
        }
        earlier = Some(time);
    }
    if samples.is_empty() {
        return Err(Wrong::of(file, "expected figures of `sar -B -W`, and found none"));
    }
    Ok(samples)
}

/// Samples of `iostat -x` of any version, by device: `r_await`, `%util`. The first of each device is the average since the start, and
/// left out. So is what is wrong: it is told, as is a text without a figure.
///
/// What stands before a heading, as times of MMTests do, stands before each of its lines.
pub fn read_iostat(file: &str, text: &str, wrong: &mut Vec<Wrong>) -> BTreeMap<String, Vec<Figures>> {
    let mut devices: BTreeMap<String, Vec<Figures>> = BTreeMap::new();
    let mut heading = Headings::default();
    let mut stamp = 0;
    let already = wrong.len();
    for (n, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = words.iter().position(|word| word.trim_end_matches(':') == "Device") {
            heading.set(&words[at + 1..]);
            stamp = at;
            continue;
        }
        match words.get(stamp..).unwrap_or_default().split_first() {
            Some((device, rest)) if !heading.now.is_empty() => match under(&heading.now, rest, file, n) {
                Ok(values) => devices.entry((*device).to_owned()).or_default().push(values),
                Err(_) if is_between_reports(device) => heading.now = Arc::default(),
                Err(why) => wrong.push(why),
            },
            _ => heading.now = Arc::default(),
        }
    }
    if devices.is_empty() && wrong.len() == already {
        wrong.push(Wrong::of(file, "expected figures of `iostat -x` under a heading `Device`, and found none"));
    }
    for samples in devices.values_mut() {
        samples.remove(0);
    }
    devices
}

/// Is it the first word of a line of times, or of what CPUs did?
fn is_between_reports(word: &str) -> bool {
    ["avg-cpu:", "Time:", "Linux"].contains(&word) || word.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As sysstat 12 prints it.
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

    #[test]
    fn blocks_of_one_time_are_one_sample() {
        let samples = read_sar("s", PRINTED).unwrap();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].seconds, samples[1].seconds), (1.0, 2.0));
        assert_eq!((samples[0].values["pswpin/s"], samples[0].values["pgscank/s"]), (1.0, 10.0));
        assert!(is_it(PRINTED) && !is_it("Linux rules\n"));
        let in_the_evening = PRINTED
            .replace("15:17:0", "03:17:0")
            .replace("  pswpin/s", " PM  pswpin/s")
            .replace("05     pg", "05 PM pg");
        let in_the_evening = in_the_evening.replace("06       ", "06 PM ").replace("08       ", "08 PM ");
        assert_eq!(read_sar("s", &in_the_evening).unwrap(), samples);
    }

    #[test]
    fn averages_are_left_out_in_any_language() {
        let samples = read_sar("s", PRINTED).unwrap();
        for word in ["Moyenne :", "Moyenne:", "Durchschn.:", "Среднее:", "平均時間:", "Media"] {
            assert_eq!(read_sar("s", &PRINTED.replace("Average:", word)).as_ref(), Ok(&samples), "{word}");
        }
    }

    #[test]
    fn a_recording_that_was_joined_to_itself_is_refused() {
        let twice = PRINTED.repeat(2);
        let line = PRINTED.lines().count() + 4;
        let expected = format!("s:{line}: expected each time of a day once: found 15:17:06 again");
        assert_eq!(read_sar("s", &twice).unwrap_err().to_string(), expected);
        // The same times of the day after.
        let days = PRINTED.to_owned() + &PRINTED.replace("11/25/26", "11/26/26");
        assert_eq!(read_sar("s", &days).unwrap().len(), 4);
    }

    #[test]
    fn a_recording_may_go_over_midnight() {
        let text = PRINTED.replace("15:17:06     pswpin", "23:59:59     pswpin").replace("15:17:08", "00:00:09");
        assert_eq!(read_sar("s", &text).unwrap()[1].seconds, 10.0);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |text: &str| read_sar("s.txt", text).unwrap_err().to_string();
        assert_eq!(wrong("Linux 6 (2 CPU)\n"), "s.txt: expected figures of `sar -B -W`, and found none");
        assert!(wrong(&PRINTED.replace("pswpin/s", "CPU")).starts_with("s.txt:3: expected columns of `sar -B -W`"));
        assert!(
            wrong(&PRINTED.replace("44341.00 ", "x ")).starts_with("s.txt:7: expected a number in column pgfree/s")
        );
        assert!(wrong(&PRINTED.replace("15:17:08", "15:17:06")).starts_with("s.txt:10: expected a time after"));
        assert!(wrong(&PRINTED.replace("15:17:08", "15:17:05")).starts_with("s.txt:10: expected a time after"));
        assert!(wrong(&PRINTED.replace("15:17:08", "14:00:00")).starts_with("s.txt:10: expected a time after"));
        assert!(wrong("hello\n").starts_with("s.txt:1: expected a time"));
        assert!(wrong(&PRINTED.replace("15:17:08", "x5:17:08")).starts_with("s.txt:10: expected a time such as"));
        assert!(wrong(&PRINTED.replace("1.50 ", "x ")).starts_with("s.txt:13: expected a time such as"));
    }

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
}
