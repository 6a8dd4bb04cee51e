//! Texts as users paste them from a terminal, a mail, a ticket or a page, and their cleaning.
//!
//! [`decode()`] turns bytes in any usual encoding into text, or names the kind of file. [`Text::of`] splits the text into
//! lines and removes, in this order: terminal escapes and overtyped characters, entities and marks of pages, quotes and
//! code fences, line numbers, prompts with their commands, and the lines of `script` and `watch`. [`LeftOut`] lists the
//! removed parts.
//!
//! Next: [`super::formats`], which recognises the lines that remain.

mod characters;
mod decode;
mod prompt;

pub use decode::decode;
pub use prompt::Prompt;

use std::borrow::Cow;
use std::collections::BTreeMap;

/// A line of a pasted text, after prompts, quoting marks and tags were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// The line's number in the file, from 1.
    pub number: usize,
    /// The line's text, without prompts, quoting marks, tags and the like.
    pub text: Cow<'t, str>,
}

impl Line<'_> {
    /// Returns the words of the line.
    #[must_use]
    pub fn words(&self) -> Vec<&str> {
        self.text.split_whitespace().collect()
    }

    /// Returns whether the line has nothing but white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// A text from which prompts, line numbers, quoting marks and the like were removed.
#[derive(Clone, Debug, Default)]
pub struct Text<'t> {
    /// The lines that remain after the cleaning.
    pub lines: Vec<Line<'t>>,
    /// The commands typed after prompts, each with the number of its line.
    pub commands: Vec<(usize, String)>,
    /// The computers that prompts name, each once, in the order of the text.
    pub hosts: Vec<String>,
    /// The lines and parts of lines that were removed, with the reasons.
    pub left_out: LeftOut,
}

/// Consecutive lines of a text that have one format.
#[derive(Clone, Copy, Debug)]
pub struct Block<'t> {
    /// Name of the file that the text is from.
    pub file: &'t str,
    /// The lines of the block, in the order of the file.
    pub lines: &'t [Line<'t>],
    /// The commands typed after prompts, each with the number of its line.
    pub commands: &'t [(usize, String)],
    /// Length of a sample, s; none if the user did not give it.
    pub interval_s: Option<f64>,
}

impl Block<'_> {
    /// Returns the last command typed before line `number`.
    #[must_use]
    pub fn last_command(&self, number: usize) -> Option<&str> {
        self.commands.iter().rev().find(|(at, _)| *at < number).map(|(_, command)| command.as_str())
    }

    /// Returns the last of the commands that were typed before line `number` and that run the program `tool`; none if
    /// there is no such command.
    #[must_use]
    pub fn command_before(&self, number: usize, tool: &str) -> Option<&str> {
        let before = self.commands.iter().rev().filter(|(at, _)| *at < number);
        before.map(|(_, command)| command.as_str()).find(|command| prompt::calls(command, tool))
    }
}

/// The lines that no reader used: the number of each line, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<usize, String>);

/// Largest number of line numbers that [`LeftOut::told`] lists for one reason. If more lines were left out for this
/// reason, it gives only their count, and the numbers of the first and the last.
const NAMED_MAX: usize = 3;

impl LeftOut {
    /// Records that line `number` was left out, and the reason. A reason that was recorded earlier for this line stays.
    pub fn note(&mut self, number: usize, reason: impl Into<String>) {
        self.0.entry(number).or_insert_with(|| reason.into());
    }

    /// Records that a line was left out because it belongs to no format. A blank line is not recorded.
    pub fn line(&mut self, line: &Line<'_>) {
        if !line.is_blank() {
            self.note(line.number, "a note");
        }
    }

    /// Returns whether no line was left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of each line that was left out, and the reason, in the order of the lines.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.iter().map(|(number, reason)| (*number, reason.as_str()))
    }

    /// Returns the numbers of the lines that were left out, grouped by the reason, in the order of each group's first
    /// line: `line 1 (prompt)`, `lines 7, 9 (^C)`, `12 lines from 3 to 30 (a note)`.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<usize>)> = Vec::new();
        for (number, reason) in self.iter() {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, lines)) => lines.push(number),
                None => reasons.push((reason, vec![number])),
            }
        }
        let one = |(reason, lines): &(&str, Vec<usize>)| match lines.as_slice() {
            [one] => format!("line {one} ({reason})"),
            [first, .., last] if lines.len() > NAMED_MAX => {
                format!("{} lines from {first} to {last} ({reason})", lines.len())
            }
            some => {
                let numbers: Vec<String> = some.iter().map(usize::to_string).collect();
                format!("lines {} ({reason})", numbers.join(", "))
            }
        };
        reasons.iter().map(one).collect()
    }
}

impl<'t> Text<'t> {
    /// Splits `text` into lines, and removes what does not come from a tool: terminal escapes, quotation marks of
    /// mails, line numbers, and fences and prompts around the output.
    #[must_use]
    pub fn of(text: &'t str) -> Self {
        let mut this = Self::default();
        let mut lines: Vec<Line<'t>> = text
            .split('\n')
            .enumerate()
            .map(|(n, line)| Line { number: n + 1, text: characters::clean(line) })
            .collect();
        lines.pop_if(|last| last.text.is_empty());
        lines.iter_mut().for_each(unquote);
        strip_numbers(&mut lines);
        lines.iter_mut().for_each(unquote);
        lines.retain_mut(|line| this.keep_unfenced(line) && this.keep_unprompted(line));
        this.lines = lines;
        this
    }

    /// Removes the marks of a code block, such as three backquotes, from a line. Returns `false` if the line is to be
    /// dropped. This is so if at most one word is left, which is the language of the block.
    fn keep_unfenced(&mut self, line: &mut Line<'t>) -> bool {
        let trimmed = line.text.trim();
        let Some(inner) = fenced(trimmed) else {
            return true;
        };
        // The language after a fence is one word.
        if inner.split_whitespace().nth(1).is_none() {
            self.left_out.note(line.number, "code fence");
            return false;
        }
        line.text = Cow::Owned(inner.to_owned());
        true
    }

    /// Returns `false` if the line is not output of a tool, such as a prompt with a command, and is to be left out.
    /// Otherwise removes marks such as `^C` from the line's end, and returns `true`.
    fn keep_unprompted(&mut self, line: &mut Line<'t>) -> bool {
        let Some(Prompt { what, command }) = prompt::of(&line.text) else {
            self.commands.extend(prompt::mentioned(&line.text).map(|command| (line.number, command)));
            let output = prompt::without_interrupt(&line.text);
            if output.len() < line.text.len() {
                line.text = Cow::Owned(output.to_owned());
            }
            return true;
        };
        if let Some(command) = command {
            self.commands.push((line.number, command));
        }
        if let Some(host) = prompt::host(&line.text).filter(|host| !self.hosts.iter().any(|known| known == host)) {
            self.hosts.push(host.to_owned());
        }
        self.left_out.note(line.number, what);
        false
    }
}

/// Removes the marks of a quotation (`>`, `|`) from the start of a line, and the bars of a table.
fn unquote(line: &mut Line<'_>) {
    let unquoted = unquoted(&line.text);
    if unquoted.len() < line.text.len() {
        line.text = Cow::Owned(unquoted.into_owned());
    }
}

/// Returns a line without the quoting marks at its start (`> `, `| `, or several of them) and without the bars of a
/// table.
fn unquoted(line: &str) -> Cow<'_, str> {
    let start = line.trim_start();
    if !start.starts_with(['>', '|']) {
        return Cow::Borrowed(line);
    }
    let rest = start.trim_start_matches(['>', '|', ' ']);
    match start.starts_with('|') && rest.trim_end().ends_with('|') {
        true => Cow::Owned(rest.replace('|', " ")),
        false => Cow::Borrowed(rest),
    }
}

/// Removes a code fence from a line: that of Markdown (three backquotes), Jira (`{code}`) or a web forum (`[code]`).
/// Returns the rest of the line; none if the line has no fence.
fn fenced(trimmed: &str) -> Option<&str> {
    const MARKS: [&str; 9] =
        ["{noformat}", "{code}", "[code]", "[/code]", "[quote]", "[/quote]", "{quote}", "[CODE]", "[/CODE]"];
    if let Some(inner) = ["```", "~~~"].iter().find_map(|fence| trimmed.strip_prefix(fence)) {
        return Some(inner.trim_matches(['`', '~']));
    }
    if let Some(inner) = MARKS.iter().find_map(|mark| trimmed.strip_prefix(mark)) {
        return Some(MARKS.iter().find_map(|mark| inner.strip_suffix(mark)).unwrap_or(inner));
    }
    if trimmed.starts_with("{code:") {
        return trimmed.split_once('}').map(|(_, inner)| inner);
    }
    let inner = MARKS.iter().find_map(|mark| trimmed.strip_suffix(mark));
    let inner = inner.or_else(|| trimmed.strip_prefix('`').map(|inner| inner.trim_end_matches('`')));
    inner.or_else(|| trimmed.ends_with('`').then(|| trimmed.trim_end_matches('`')))
}

/// Returns the line number that `cat -n`, `nl` or `grep -n` put before a line, and the length of the prefix.
fn numbered(line: &str) -> Option<(usize, usize)> {
    let start = line.len() - line.trim_start().len();
    let digits = line[start..].bytes().take_while(u8::is_ascii_digit).count();
    let number = line[start..start + digits].parse().ok()?;
    let rest = &line[start + digits..];
    // `10:00:01` is a time, not a line number.
    let is_time = |rest: &str| {
        let bytes = rest.as_bytes();
        matches!(bytes, [b':', b'0'..=b'9', b'0'..=b'9', b':', b'0'..=b'9', b'0'..=b'9', ..])
            && bytes.get(6).is_none_or(|byte| *byte != b':')
    };
    match rest.chars().next() {
        None => Some((number, line.len())),
        Some(':') if is_time(rest) => None,
        Some(':' | '-' | '|' | '\t') => Some((number, start + digits + 1)),
        Some(' ') => Some((number, start + digits)),
        Some(_) => None,
    }
}

/// Removes line numbers from a paragraph in which each line has the next number (`cat -n`) or a later one (`grep -n`).
///
/// A column of increasing figures, such as process numbers, is not taken for line numbers, because the heading above it
/// has no number.
fn strip_numbers(lines: &mut [Line<'_>]) {
    let mut at = 0;
    while at < lines.len() {
        let Some((first, _)) = numbered(&lines[at].text)
            .filter(|_| at == 0 || lines[at - 1].is_blank() || !lines[at - 1].text.contains("  "))
        else {
            at += 1;
            continue;
        };
        let (mut last, mut end) = ((first, lines[at].number), at + 1);
        for (n, line) in lines.iter().enumerate().skip(at + 1).filter(|(_, line)| !line.is_blank()) {
            let Some((number, _)) = numbered(&line.text).filter(|(number, _)| *number > last.0) else {
                break;
            };
            let is_next = number == last.0 + 1 || number - last.0 == line.number - last.1;
            if !is_next && !line.text.contains([':', '-']) {
                break;
            }
            (last, end) = ((number, line.number), n + 1);
        }
        let is_named = |line: &Line<'_>| {
            numbered(&line.text).is_some_and(|(_, length)| {
                line.text[length..]
                    .trim_start()
                    .starts_with(|c: char| c.is_alphabetic() || matches!(c, '-' | '[' | '#' | '$'))
            })
        };
        if end - at > 1 && lines[at..end].iter().any(is_named) {
            for line in &mut lines[at..end] {
                let length = numbered(&line.text).map_or(0, |(_, length)| length);
                line.text = Cow::Owned(line.text[length..].to_owned());
            }
        }
        at = end;
    }
}
