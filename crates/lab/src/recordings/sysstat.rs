//! `iostat -x`, as sysstat prints it.

use super::sar::Headings;
use super::{Figures, Wrong, under};
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// Returns whether it is the first word of a line of times, or of the shares of CPUs.
fn is_between_reports(word: &str) -> bool {
    ["avg-cpu:", "Time:", "Linux"].contains(&word) || word.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

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
