//! Texts of others, as they are shown: names out of files, and messages that hold them.

use serde::Serialize;
use std::borrow::Cow;
use std::io;

/// The replacement of a character that would do something to a terminal.
const REPLACEMENT: char = '\u{fffd}';

/// A text in which no character but a line break does anything to a terminal: escape sequences are replaced by what can be seen.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n';
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    // A tab is a blank of some width.
    let shown = |c| match c {
        '\t' => ' ',
        c if acts(c) => REPLACEMENT,
        c => c,
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// A report as JSON in which no character acts on a terminal: those that JSON itself lets stand in texts, DEL and the controls of 8 bits,
/// are escaped, and mean the same.
///
/// # Panics
/// When a report has keys that are no texts: none has.
#[must_use]
pub fn json(report: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(report).expect("keys are texts") + "\n";
    let acts = |c: char| ('\u{7f}'..='\u{9f}').contains(&c);
    if !json.contains(acts) {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if acts(c) {
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    text
}

/// Writes a text of fields that others named: where a terminal shows it as [`harmless`], and else as it is, for programs that read it.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_fields(
    out: &mut dyn io::Write,
    is_terminal: bool,
    text: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    if !is_terminal {
        return text(out);
    }
    let mut bytes = Vec::new();
    text(&mut bytes)?;
    out.write_all(harmless(&String::from_utf8_lossy(&bytes)).as_bytes())
}

/// Says on standard error what a user should know.
pub fn warn(message: &str) {
    eprintln!("warning: {}", harmless(message));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_replaced() {
        assert_eq!(harmless("a\u{1b}[31mb\u{9b}c\td\ne\r"), "a\u{fffd}[31mb\u{fffd}c d\ne\u{fffd}");
        assert!(matches!(harmless("zone é\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_has_no_such_character_and_means_the_same() {
        let name = "a\u{1b}[31m\u{7f}\u{9b}2J é\n\t";
        let text = json(&serde_json::json!({ name: name }));
        assert!(!text.trim_end().contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()[name], name);
    }
}
