//! Lines of strace: process, time, and a call with its arguments and result.

use crate::formats::text::{SECOND, c_number, clock_micros, lossy, micros, number};

/// A line of strace's output, split into process, time and event.
pub struct Line<'a> {
    /// Number of the process; 0 if the line has none, because strace follows a single process.
    pub process: u64,
    /// The time at the beginning of the line.
    pub time: Time,
    /// The event that the line states after the process and the time.
    pub spoken: Spoken<'a>,
}

/// The event that a line of strace's output reports.
pub enum Spoken<'a> {
    /// An event that does not concern files: a signal, or a note of strace.
    Nothing,
    /// The process ends.
    Exit,
    /// The start of a system call (`<unfinished ...>`). Lines of other tasks come before the rest of the call.
    Unfinished(&'a [u8]),
    /// The rest of a call whose start was an earlier line, [`Self::Unfinished`].
    Resumed(&'a [u8]),
    /// The text of a system call that starts and ends on this line.
    Call(&'a [u8]),
}

/// The time at the start of a line, in one of the forms that options of strace choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The line has no time.
    Unknown,
    /// The time since 1970, µs (`-ttt`).
    Absolute(u64),
    /// The time since midnight, µs (`-t`, `-tt`).
    OfDay(u64),
    /// The time since the line before this one, µs (`-r`).
    Since(u64),
}

/// A clock that converts the times of lines, in whatever form `strace` printed them, to microseconds on one time scale.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    now_us: u64,
    days: u64,
}

impl Clock {
    /// Returns the time of the next line, µs. `time` is the time that the line states. A line that states no time has
    /// the time of the line before.
    pub fn at(&mut self, time: Time) -> u64 {
        const DAY_US: u64 = 86_400_000_000;
        match time {
            Time::Unknown => {}
            Time::Absolute(us) => self.now_us = us,
            Time::Since(us) => self.now_us = self.now_us.saturating_add(us),
            Time::OfDay(us) => {
                // A time that is far back is one after midnight.
                let before = self.now_us.saturating_sub(self.days.saturating_mul(DAY_US));
                self.days += u64::from(us + DAY_US / 2 < before);
                self.now_us = self.days.saturating_mul(DAY_US).saturating_add(us);
            }
        }
        self.now_us
    }
}

/// A system call that strace reports.
pub struct Call<'a> {
    /// Name of the system call.
    pub name: &'a [u8],
    /// The arguments, as strace writes them.
    pub arguments: Vec<&'a [u8]>,
    /// The result if the call succeeded; none if it failed. The path of a returned descriptor follows it if strace was
    /// run with `-y`.
    pub result: Option<&'a [u8]>,
}

impl<'a> Call<'a> {
    /// Returns the text of argument `n`, counted from 0; empty if there is no such argument.
    pub fn argument(&self, n: usize) -> &'a [u8] {
        self.arguments.get(n).copied().unwrap_or_default()
    }

    /// Returns argument `n` (from 0) as a number; none if it is no number.
    pub fn number(&self, n: usize) -> Option<u64> {
        c_number(self.argument(n))
    }

    /// Returns the result as a number; none if the call failed.
    pub fn returned(&self) -> Option<u64> {
        c_number(before_path(self.result?).0)
    }
}

/// Splits a descriptor such as `3</tmp/a>` into its number and its path. The path is none if strace printed none.
pub fn before_path(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'<') {
        Some(at) => {
            let end = text.iter().rposition(|byte| *byte == b'>').filter(|end| *end > at);
            (text[..at].trim_ascii(), end.map(|end| &text[at + 1..end]))
        }
        None => (text.trim_ascii(), None),
    }
}

/// Splits a line of strace's output into three parts: the number of the process, the time, and the rest, which is what
/// strace says about a system call. Returns `None` for an empty line, and a message if the line has another form.
pub fn split(text: &[u8]) -> Result<Option<Line<'_>>, String> {
    let mut rest = text.trim_ascii();
    if rest.is_empty() {
        return Ok(None);
    }
    if rest.starts_with(b"strace: ") {
        return Ok(Some(Line { process: 0, time: Time::Unknown, spoken: Spoken::Nothing }));
    }
    let mut process = 0;
    if let Some(after) = rest.strip_prefix(b"[pid ") {
        let end = after.iter().position(|byte| *byte == b']').ok_or("expected `]` after the process")?;
        process = number(after[..end].trim_ascii()).ok_or("expected a number after `[pid`")?;
        rest = after[end + 1..].trim_ascii();
    } else if let Some((first, after)) = word(rest)
        && let Some(value) = number(first)
    {
        (process, rest) = (value, after);
    }
    let mut time = Time::Unknown;
    if let Some((first, after)) = word(rest)
        && let Some(found) = time_of(first)
    {
        (time, rest) = (found, after);
    }
    let spoken = spoken(rest).ok_or_else(|| format!("`{}`: expected a system call", lossy(rest)))?;
    Ok(Some(Line { process, time, spoken }))
}

/// Splits a text after its first word. Returns the word, and the rest without the blanks before it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(u8::is_ascii_whitespace)?;
    Some((&text[..end], text[end..].trim_ascii_start()))
}

fn time_of(word: &[u8]) -> Option<Time> {
    /// Smallest time that is taken as a time since 1970, us: a day in 1973. A smaller time is the time since the line
    /// before, which is never this long.
    const EPOCH_US: u64 = 100_000_000_000_000;
    if let Some(us) = clock_micros(word) {
        return Some(Time::OfDay(us));
    }
    let word = word.strip_prefix(b"+").unwrap_or(word);
    let us = micros(word, SECOND).filter(|_| word.contains(&b'.'))?;
    Some(if us >= EPOCH_US { Time::Absolute(us) } else { Time::Since(us) })
}

fn spoken(rest: &[u8]) -> Option<Spoken<'_>> {
    if rest.starts_with(b"+++ ") {
        return Some(Spoken::Exit);
    }
    if rest.starts_with(b"--- ") || rest.starts_with(b"strace: ") {
        return Some(Spoken::Nothing);
    }
    if rest.starts_with(b"<... ") {
        let mark = b" resumed>";
        let at = rest.windows(mark.len()).position(|part| part == mark)?;
        return Some(Spoken::Resumed(&rest[at + mark.len()..]));
    }
    let name = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if name == 0 || rest.get(name) != Some(&b'(') {
        return None;
    }
    if let Some(start) = rest.strip_suffix(b"<unfinished ...>") {
        return Some(Spoken::Unfinished(start));
    }
    Some(Spoken::Call(rest))
}

/// Returns whether a line looks like output of strace. The format of an input is recognised by this.
pub fn is_line(text: &[u8]) -> bool {
    match split(text) {
        Ok(Some(Line { spoken: Spoken::Call(text), .. })) => call(text).is_ok(),
        Ok(Some(Line { spoken: Spoken::Resumed(_) | Spoken::Unfinished(_), .. })) => true,
        Ok(Some(Line { spoken: Spoken::Exit | Spoken::Nothing, .. })) => {
            !text.starts_with(b"+++") && !text.starts_with(b"---")
        }
        _ => false,
    }
}

/// Splits the text of a call into its name, its arguments and its result.
pub fn call(text: &[u8]) -> Result<Call<'_>, String> {
    let wrong = |expected: &str| format!("`{}`: {expected}", lossy(text));
    let open = text.iter().position(|byte| *byte == b'(').ok_or_else(|| wrong("expected `(`"))?;
    let (arguments, close) = arguments(text, open).ok_or_else(|| wrong("expected `)` after the arguments"))?;
    let rest = text[close + 1..].trim_ascii();
    let rest = rest.strip_prefix(b"=").ok_or_else(|| wrong("expected `=` and the result"))?.trim_ascii();
    // A path of `-y` may have blanks: the result ends behind it.
    let end = match rest.iter().position(|byte| matches!(byte, b' ' | b'<')) {
        Some(at) if rest[at] == b'<' => rest.iter().rposition(|byte| *byte == b'>').map_or(at, |end| end + 1),
        Some(at) => at,
        None => rest.len(),
    };
    let result = &rest[..end];
    let is_done = !result.is_empty() && !result.starts_with(b"-") && result != b"?";
    Ok(Call { name: &text[..open], arguments, result: is_done.then_some(result) })
}

/// Splits the arguments of a call, which stand between the `(` at byte `open` and the matching `)`. Returns the
/// arguments and the place of this `)`; `None` if it is missing.
fn arguments(text: &[u8], open: usize) -> Option<(Vec<&[u8]>, usize)> {
    /// Largest number of arguments of a call.
    const MOST: usize = 32;
    let mut found = Vec::new();
    let mut depth = 0_u32;
    let (mut start, mut at) = (open + 1, open + 1);
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_string(text, at)?,
            b'<' => at = end_of_path(text, at),
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..at].trim_ascii();
                if !last.is_empty() || !found.is_empty() {
                    found.push(last);
                }
                return Some((found, at));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 && found.len() < MOST => {
                found.push(text[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the index of the quotation mark that ends a string; `None` if the string has no end. `start` is the index of
/// the quotation mark that begins the string.
fn end_of_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the index of the `>` that ends a descriptor's path, which begins after the `<` at index `start`. A path may
/// contain `>`, so only a `>` at the end of an argument counts. If the `<` begins no path, as in the sign `<<`, returns
/// `start`.
fn end_of_path(text: &[u8], start: usize) -> usize {
    if start == 0 || !(text[start - 1].is_ascii_digit() || text[start - 1] == b'D') {
        return start;
    }
    let ends = |at: usize| matches!(text.get(at + 1), None | Some(b',' | b')' | b']' | b'}' | b' ' | b'('));
    (start + 1..text.len()).find(|at| text[*at] == b'>' && ends(*at)).unwrap_or(start)
}

/// Returns the text of a string argument without its escapes. Returns none if the argument is no string, or if strace
/// has shortened it.
pub fn string(argument: &[u8]) -> Option<Vec<u8>> {
    let inner = argument.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescaped(inner))
}

/// Returns a text without the escapes of C: `\n`, `\"`, `\x7f`, `\177`.
pub fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        at += 1;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let Some(&escaped) = text.get(at) else { break };
        at += 1;
        let digits = |from: usize, most: usize, radix: u32| {
            text[from..].iter().take(most).take_while(|byte| char::from(**byte).is_digit(radix)).count()
        };
        let value = |from: usize, len: usize, radix: u32| {
            text[from..from + len]
                .iter()
                .fold(0, |sum, byte| sum * radix + char::from(*byte).to_digit(radix).unwrap_or(0)) as u8
        };
        plain.push(match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 11,
            b'f' => 12,
            b'x' => {
                let len = digits(at, 2, 16);
                at += len;
                value(at - len, len, 16)
            }
            b'0'..=b'7' => {
                let len = digits(at - 1, 3, 8);
                at += len - 1;
                value(at - len, len, 8)
            }
            other => other,
        });
    }
    plain
}
