//! Lines of a kernel log, without the prefixes of loggers.
//!
//! `dmesg` prints `[ 1201.402113] ` before a message. With `-T` it prints `[Thu Nov 26 10:00:00 2026] `, and with `-x`
//! it adds `kern  :warn  : ` at the start. The console prints `<4>`. syslog and journalctl write a time, a host and
//! `kernel: `. Kernels with `PRINTK_CALLER` add the task after the time, `[  T801] `. Programs of Kubernetes, such as
//! kubelet, quote the kernel behind `I0102 15:04:05.000000    1234 file.go:123] `, which syslog may prefix, too.

/// A line of a kernel log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line's number, from 1.
    pub number: usize,
    /// The time as the log has it; none if the line has no time.
    pub at: Option<&'a str>,
    /// The kernel's message: the line without what loggers put before it.
    pub text: &'a str,
}

/// Removes the prefixes that loggers put before lines, and returns the lines with their numbers. If rsyslog joined
/// several lines with `#012`, splits them again.
pub fn lines<'a>(lines: impl IntoIterator<Item = (usize, &'a str)>) -> impl Iterator<Item = Line<'a>> {
    lines.into_iter().flat_map(|(number, line)| {
        let (at, first) = strip(line);
        first.split("#012").map(move |text| Line { number, at, text: text.trim() })
    })
}

/// Returns whether a line begins with a time in a form that loggers write.
#[must_use]
pub fn has_time(line: &str) -> bool {
    strip(line).0.is_some()
}

/// Returns the kernel's message in a line: the line without what loggers put before it.
#[must_use]
pub fn message(line: &str) -> &str {
    strip(line).1
}

/// Largest number of words that a logger's prefix may have before `kernel:`. The words are a time of up to five words,
/// a facility and a host; one more word is accepted.
const WORDS_BEFORE_MAX: usize = 8;

/// Splits a line into its time and its text.
fn strip(line: &str) -> (Option<&str>, &str) {
    let mut at = None;
    let mut rest = line.trim();
    loop {
        let (stamp, after) = if let Some(after) = level(rest) {
            (None, after)
        } else if let Some((stamp, after)) = bracket(rest) {
            (stamp, after)
        } else if let Some((stamp, after)) = klog(rest) {
            (Some(stamp), after)
        } else if let Some((before, after)) = logger(rest, at.is_some()).or_else(|| program(rest)) {
            (time_of(before), after)
        } else if let Some((stamp, after)) = rest.split_once(' ').filter(|(word, _)| is_iso_time(word)) {
            (Some(stamp), after)
        } else {
            return (at, rest);
        };
        at = at.or(stamp);
        rest = after.trim_start();
    }
}

/// Returns the text after a prefix that states the log level, such as `<4>` or `kern  :warn  :`; none if there is no
/// such prefix.
fn level(text: &str) -> Option<&str> {
    if let Some((number, after)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        return is_number.then_some(after);
    }
    const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    let (facility, rest) = text.split_once(':')?;
    let (level, after) = rest.split_once(':')?;
    (facility.trim_end() == "kern" && LEVELS.contains(&level.trim())).then_some(after)
}

/// If `text` begins with a bracket that has a time or a task, such as `[ 12.3]` or `[T12]`, returns the time, if it is
/// one, and the text after the bracket. Returns none for any other bracket, such as that of a process in a table, whose
/// number has no decimal point.
fn bracket(text: &str) -> Option<(Option<&str>, &str)> {
    let (inside, after) = text.strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim();
    let first = inside.trim_start_matches('+').chars().next()?;
    let rest = inside.get(1..).unwrap_or_default();
    let is_number = inside.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b' '));
    let is_seconds = first.is_ascii_digit() && is_number && inside.contains('.');
    // Dates have forms such as `Thu Nov 26 10:00:00 2026`, `Nov26 10:00` and `2026-11-26T10:00:00,123456+00:00`.
    let is_date = inside.contains(':') && inside.bytes().filter(u8::is_ascii_digit).count() >= 6;
    let is_caller = matches!(first, 'T' | 'C') && !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match (is_seconds || is_date, is_caller) {
        (true, _) => Some((Some(inside), after)),
        (_, true) => Some((None, after)),
        _ => None,
    }
}

/// Splits a line at a logger's `kernel:` into the prefix and the kernel's message. The prefix may have a host and, if
/// no time was found yet, a time. Returns none if the line has no `kernel:`, or if the kernel's own message contains
/// it.
fn logger(text: &str, has_time: bool) -> Option<(&str, &str)> {
    let at = text.find("kernel:")?;
    let (before, after) = (&text[..at], &text[at + "kernel:".len()..]);
    let words = before.split_whitespace().count();
    let is_one = before.is_empty()
        || before.ends_with(' ')
            && words <= WORDS_BEFORE_MAX
            && (has_time || before.bytes().any(|byte| byte.is_ascii_digit()));
    // After a cgroup, a process or a trace, `kernel:` is part of the kernel's own sentence.
    (is_one && !before.contains(['=', '(', '<'])).then_some((before.trim_end(), after))
}

/// Splits a line of a program of Kubernetes into its time and its message: `I0102 15:04:05.000000    1234 file.go:123] `
/// begins with the severity, the month and the day. Returns none for any other line.
fn klog(text: &str) -> Option<(&str, &str)> {
    let (head, after) = text.split_once("] ")?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let [day, time, _, place] = words[..] else { return None };
    let digits = day.strip_prefix(['I', 'W', 'E', 'F']).filter(|digits| digits.len() == 4)?;
    let is_it = digits.bytes().all(|byte| byte.is_ascii_digit()) && time.contains(':') && place.contains(".go:");
    let end = head.find(time)? + time.len();
    is_it.then(|| (&text[..end], after))
}

/// Splits a line that syslog or journalctl wrote for a program behind the program's name and number, such as
/// `Nov 26 10:00:00 host kubelet[812]: `. Returns none for any other line.
fn program(text: &str) -> Option<(&str, &str)> {
    let at = text.find("]: ")?;
    let before = &text[..at];
    let (head, number) = before.rsplit_once('[')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_prefix = head.split_whitespace().count() <= WORDS_BEFORE_MAX && !head.contains(['=', '(', '<']);
    (is_number && is_prefix && time_of(before).is_some()).then(|| (before, &text[at + "]: ".len()..]))
}

/// Returns whether a word is a time in the form of `dmesg --time-format iso`, which has no bracket.
fn is_iso_time(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= 19
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && word.contains(':')
}

/// Returns the time with which a logger's prefix `before` begins, such as `Nov 29 05:45:31`. It consists of all words
/// up to the first that begins with a digit and contains a colon. Returns `None` if the first six words include no such
/// word.
fn time_of(before: &str) -> Option<&str> {
    let mut end = 0;
    for piece in before.split_inclusive(' ').take(6) {
        let word = piece.trim_end();
        if word.contains(':') && word.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(&before[..end + word.len()]);
        }
        end += piece.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loggers_write_before_a_line_is_taken_off() {
        let said = "kswapd0 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0";
        for (before, at) in [
            ("", None),
            ("[ 1201.402113] ", Some("1201.402113")),
            ("[1201.402113]", Some("1201.402113")),
            ("<4>[ 1201.402113] ", Some("1201.402113")),
            ("<4>", None),
            ("kern  :warn  : [ 1201.402113] ", Some("1201.402113")),
            ("[Thu Nov 26 10:00:00 2026] ", Some("Thu Nov 26 10:00:00 2026")),
            ("[  +0.000003] ", Some("+0.000003")),
            ("[Nov26 10:00] ", Some("Nov26 10:00")),
            ("2026-11-26T10:00:00,123456+00:00 ", Some("2026-11-26T10:00:00,123456+00:00")),
            ("[ 1201.402113][  T801] ", Some("1201.402113")),
            ("[ 1201.402113] [   C0] ", Some("1201.402113")),
            ("Nov 26 10:00:00 host kernel: ", Some("Nov 26 10:00:00")),
            ("Nov 26 10:00:00 host kernel: [ 1201.402113] ", Some("Nov 26 10:00:00")),
            ("Nov  6 10:00:00 host kernel:[1201.402113] ", Some("Nov  6 10:00:00")),
            ("2026-11-26T10:00:00.123456+00:00 host kernel: [ 1201.402113] ", Some("2026-11-26T10:00:00.123456+00:00")),
            ("2026-11-26 10:00:00 host kernel: ", Some("2026-11-26 10:00:00")),
            ("Thu Nov 26 10:00:00 2026 kern.warn kernel: [ 1201.4] ", Some("Thu Nov 26 10:00:00")),
            ("[ 1201.402113] host kernel: ", Some("1201.402113")),
            ("I0102 15:04:05.000000    1234 kmsg.go:123] ", Some("I0102 15:04:05.000000")),
            ("Nov 26 10:00:00 host kubelet[812]: W1126 10:00:00.123456  812 oom.go:7] ", Some("Nov 26 10:00:00")),
            ("2026-11-26T10:00:00+0000 host node-problem-detector[8]: ", Some("2026-11-26T10:00:00+0000")),
            ("kernel: ", None),
        ] {
            let line = format!("{before}{said}");
            let found: Vec<Line<'_>> = lines([(1, &*line)]).collect();
            assert_eq!(found, [Line { number: 1, at, text: said }], "{before}");
        }
    }

    #[test]
    fn a_process_of_a_table_and_a_trace_keep_their_brackets() {
        for line in ["[  456]     0   456     2662 udevd", "[<ffffffff810d05d1>] ? foo+0x1/0x2", "[ pid ]   uid  tgid"]
        {
            let stamped = format!("[    1.000002] {line}");
            assert_eq!(lines([(1, line), (2, &stamped)]).map(|line| line.text).collect::<Vec<_>>(), [line, line]);
        }
        let one = "Nov 26 10:00:00 h kernel: active_anon:1 inactive_anon:2#012 active_file:3";
        let texts: Vec<&str> = lines([(1, one)]).map(|line| line.text).collect();
        assert_eq!(texts, ["active_anon:1 inactive_anon:2", "active_file:3"]);
    }
}
