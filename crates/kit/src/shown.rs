//! Display of texts from files that others wrote, and of messages that contain parts of such texts.

use serde::Serialize;
use std::borrow::Cow;
use std::io;

/// The character that is shown in place of a control character, which would act on a terminal.
const REPLACEMENT: char = '\u{fffd}';

/// Returns the text with each control character, except line breaks, replaced by a character that does not act on a
/// terminal. Escape sequences then have no effect.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n';
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    // A tab is shown as a blank.
    let shown = |c| match c {
        '\t' => ' ',
        c if acts(c) => REPLACEMENT,
        c => c,
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Returns a report as JSON that contains no character that acts on a terminal. JSON allows DEL and the 8-bit control
/// characters in strings. This function writes them as escapes, so that a reader of the JSON gets the same strings.
///
/// # Panics
/// When a key of the report is not a string. No report has such keys.
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

/// Calls `text` to write a text to `out`. The text may contain names from files that others wrote. For a terminal,
/// control characters are replaced ([`harmless`]); otherwise the text is written unchanged.
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

/// Prints a warning for the user on standard error.
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
