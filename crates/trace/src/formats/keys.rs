//! Plain keys, one in a line. A decimal number below 2^64 is the key itself; another text is hashed to 64 bits.

use super::text::{key, lossy, number};
use super::{Format, Opened, most_lines};
use crate::read::{Options, Parser, Shape, Sink, Start};
use crate::request::{Kind, Request};

/// The format `keys`: each line is the key of an object.
pub static FORMAT: Format = Format {
    name: "keys",
    about: "keys, one in a line: numbers or texts",
    recognise,
    open: |_, _: &Options| -> Result<Opened, String> { Ok((Shape::Lines, Kind::Objects, Box::new(Keys))) },
};

/// Length of the longest key, bytes, with which a text is still recognised as keys. A text with longer keys is read
/// only if the user names the format.
const LONGEST: usize = 250;

/// Returns whether each of the first lines is a key: one word in valid UTF-8, without the characters that other formats
/// have between fields.
fn recognise(start: Start<'_>) -> bool {
    let is_key = |line: &[u8]| {
        let is_plain =
            |byte: &u8| !byte.is_ascii_whitespace() && !matches!(byte, b',' | b';' | b'(' | b'{' | b'<' | b'#');
        line.len() <= LONGEST && line.iter().all(is_plain) && std::str::from_utf8(line).is_ok()
    };
    start.is_text() && most_lines(start, is_key) && start.lines().take(50).all(is_key)
}

struct Keys;

impl Parser for Keys {
    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), String> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        if line.iter().any(u8::is_ascii_whitespace) {
            return Err(format!("`{}`: expected one key", lossy(line)));
        }
        sink.push(Request { offset: key_of(line), len: 1, ..Request::default() })
    }
}

/// Returns the key for a word. A decimal number is its own key; for any other text, also for `07`, the key is a hash.
pub(super) fn key_of(word: &[u8]) -> u64 {
    let is_plain = word == b"0" || word.first() != Some(&b'0');
    number(word).filter(|_| is_plain).unwrap_or_else(|| key(word))
}
