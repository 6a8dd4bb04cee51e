//! Restores a line that was copied from a terminal or a web page to the text that was shown there.

use std::borrow::Cow;

/// Returns a line without escapes, tags and overtyped characters. Special spaces, dashes and entities become plain
/// characters.
pub fn clean(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches(['\r', '\0']).trim_start_matches(['\u{feff}', '\0']);
    let is_plain = |byte: u8| matches!(byte, b'\t' | b' '..=b'~') && byte != b'&' && byte != b'<';
    if line.bytes().all(is_plain) {
        return Cow::Borrowed(line);
    }
    let line = typed(&without_escapes(line));
    let line: String = line.chars().filter_map(plain).collect();
    Cow::Owned(entities(&tags(&line)))
}

/// Returns the plain character that a program would have printed in place of `c`, such as `-` for a long dash; none for
/// an invisible character.
fn plain(c: char) -> Option<char> {
    match c {
        '\t' => Some(c),
        // Spaces of all widths.
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => Some(' '),
        // Dashes that word processors make from two or three hyphens, and the minus sign.
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => None,
        c if c.is_control() => None,
        c => Some(c),
    }
}

/// Removes terminal escape sequences: colours, titles, cursor movements.
fn without_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let kind = match c {
            '\u{9b}' => Some('['),
            '\u{1b}' => chars.next(),
            c => {
                out.push(c);
                continue;
            }
        };
        match kind {
            // A control sequence ends with a letter or one of a few other characters.
            Some('[') => {
                while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                chars.next_if(|c| matches!(c, '@'..='~'));
            }
            // A string for the terminal ends with a bell, or with an escape and a backslash.
            Some(']' | 'P' | '_' | '^' | 'X') => {
                while let Some(c) = chars.next() {
                    if c == '\u{7}' || c == '\u{9c}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            // The selection of a character set has one more character.
            Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
                chars.next();
            }
            _ => {}
        }
    }
    out
}

/// Returns the line as a terminal shows it after backspaces and carriage returns: later characters replace those that
/// the cursor went back over.
fn typed(line: &str) -> String {
    if !line.contains(['\u{8}', '\r', '\u{7f}']) {
        return line.to_owned();
    }
    let mut seen: Vec<char> = Vec::new();
    let mut at: usize = 0;
    for c in line.chars() {
        match c {
            '\u{8}' | '\u{7f}' => at = at.saturating_sub(1),
            '\r' => at = 0,
            c if at < seen.len() => {
                seen[at] = c;
                at += 1;
            }
            c => {
                seen.push(c);
                at += 1;
            }
        }
    }
    seen.into_iter().collect()
}

/// HTML tags that are removed, because they may be copied together with a text.
const TAGS: [&str; 13] =
    ["pre", "code", "br", "p", "div", "span", "b", "tt", "blockquote", "samp", "font", "strong", "kbd"];

/// Removes HTML tags from a line.
fn tags(line: &str) -> Cow<'_, str> {
    if !line.contains('<') {
        return Cow::Borrowed(line);
    }
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, tag)) = rest.split_once('<') {
        out.push_str(before);
        let name = tag.trim_start_matches('/');
        let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
        match tag.split_once('>').filter(|_| TAGS.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            Some((_, behind)) => rest = behind,
            None => {
                out.push('<');
                rest = tag;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Replaces the HTML entities in a line by the characters that they stand for.
fn entities(line: &str) -> String {
    const NAMED: [(&str, &str); 10] = [
        ("nbsp", " "),
        ("lt", "<"),
        ("gt", ">"),
        ("amp", "&"),
        ("quot", "\""),
        ("apos", "'"),
        ("ndash", "-"),
        ("mdash", "-"),
        ("ensp", " "),
        ("emsp", " "),
    ];
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, entity)) = rest.split_once('&') {
        out.push_str(before);
        let known = entity.split_once(';').and_then(|(name, behind)| {
            let of_number = || {
                let number = name.strip_prefix('#')?;
                let number = match number.strip_prefix(['x', 'X']) {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                };
                plain(char::from_u32(number)?).map(String::from)
            };
            let named = NAMED.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
            Some((named.or_else(of_number)?, behind))
        });
        match known {
            Some((text, behind)) => {
                out.push_str(&text);
                rest = behind;
            }
            None => {
                out.push('&');
                rest = entity;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_it_was_seen() {
        for (line, seen) in [
            ("a plain line\r", "a plain line"),
            ("\u{1b}[1;31m 1\u{1b}[0m  2\u{1b}[K", " 1  2"),
            ("\u{1b}]0;root@web1: ~\u{7}$ vmstat 1", "$ vmstat 1"),
            ("\u{1b}]0;title\u{1b}\\x\u{1b}(By", "xy"),
            ("vmstat 11\u{8} \u{8}", "vmstat 1 "),
            ("abc\rxy", "xyc"),
            ("1\u{a0}\u{a0}2\u{202f}3", "1  2 3"),
            ("procs \u{2014}\u{2014}\u{2014}memory", "procs ---memory"),
            ("&lt;a&gt;&nbsp;&amp;&#39;&#x31; &no; &", "<a> &'1 &no; &"),
            ("<pre>procs</pre><br/> 1 < 2", "procs 1 < 2"),
            ("zzz <11/26/2026 10:00:00>", "zzz <11/26/2026 10:00:00>"),
            ("\u{1b}[", ""),
            ("\u{1b}", ""),
        ] {
            assert_eq!(clean(line), seen, "{line:?}");
        }
    }
}
