//! Texts of others, as they are shown: names out of files, and messages that hold them.

use std::borrow::Cow;

/// What stands for a character that would do something to a terminal.
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
}
