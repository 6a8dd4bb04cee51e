//! Decoding of bytes, in any encoding, to text.

use kit::wrong::Wrong;

/// First bytes of files that are not text. Each comes with the kind of the file, and with advice on how to get a text
/// from it.
const BINARY: [(&[u8], &str); 12] = [
    (
        &[0x96, 0xd5],
        "a binary file of sysstat: write `sadf -j FILE -- -A` or `sar -A -f FILE` into a text, and give that",
    ),
    (
        &[0xd5, 0x96],
        "a binary file of sysstat: write `sadf -j FILE -- -A` or `sar -A -f FILE` into a text, and give that",
    ),
    (&[0xef, 0xbe, 0xed, 0xfe], "a binary file of atop: write `atop -r FILE -P ALL` into a text, and give that"),
    (&[0xfe, 0xed, 0xbe, 0xef], "a binary file of atop: write `atop -r FILE -P ALL` into a text, and give that"),
    (b"PERFILE2", "a binary file of perf, which is not read"),
    (b"LPKSHHRH", "a journal of systemd: write `journalctl -k --file FILE` into a text, and give that"),
    (b"\x7fELF", "a program or a dump of memory, which is not read"),
    (b"KDUMP", "a dump of memory, which is not read: `crash` shows its kernel log by `log`"),
    (b"\x89PNG", "a picture: give the text that it shows"),
    (&[0xff, 0xd8, 0xff], "a picture: give the text that it shows"),
    (b"%PDF", "a PDF: give the text that it shows"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
];

/// Number of bytes at the start of a file that are examined to recognise UTF-16, and number of characters that are
/// examined to recognise a file that is not text.
const LOOKED_AT: usize = 4096;

/// Decodes bytes as UTF-8, as UTF-16 with or without a byte order mark, or else as Latin-1. Zero bytes, which a crash
/// leaves in a file, are left out. Lines that end with a carriage return alone get a line feed instead.
///
/// # Errors
/// When the bytes are not text. The error names the kind of file.
pub fn decode(file: &str, bytes: Vec<u8>) -> Result<String, Wrong> {
    if let Some((_, what)) = BINARY.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Err(Wrong::of(file, format!("it is not text, but {what}")));
    }
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    let mut text = match utf16(start) {
        Some(of_two) => {
            let units: Vec<u16> = bytes.chunks_exact(2).map(|two| of_two([two[0], two[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        None => utf8_or_latin(bytes),
    };
    if text.contains('\0') {
        text.retain(|c| c != '\0');
    }
    if let Some(rest) = text.strip_prefix('\u{feff}') {
        text = rest.to_owned();
    }
    // A single line feed at the end comes from an editor. The output of a terminal has more line feeds.
    if text.contains('\r') && !text.trim_end_matches('\n').contains('\n') {
        text = text.replace('\r', "\n");
    }
    // If more control characters occur than a terminal's escapes need, the bytes are not text.
    let is_odd = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{1b}' | '\u{8}' | '\u{7}' | '\u{c}');
    let (looked_at, odd) =
        text.chars().take(LOOKED_AT).fold((0, 0), |(all, odd), c| (all + 1, odd + usize::from(is_odd(&c))));
    if odd * 20 > looked_at {
        return Err(Wrong::of(file, "it is not text"));
    }
    Ok(text)
}

/// Returns the function that makes a number of the two bytes of a UTF-16 unit, in the text's byte order. The byte order
/// is found from the byte order mark or from the zero bytes of ASCII characters. Returns none if the text is not
/// UTF-16.
fn utf16(start: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match start {
        [0xff, 0xfe, ..] => return Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => return Some(u16::from_be_bytes),
        _ => {}
    }
    // In ASCII as UTF-16, one byte of each pair is 0. In the padding of a file both are 0.
    let zeroes = |at: usize| start.chunks_exact(2).filter(|two| two[at] == 0 && two[1 - at] != 0).count();
    let (first, second, most) = (zeroes(0), zeroes(1), start.len() / 2 / 2);
    match most > 0 {
        true if second > most && first == 0 => Some(u16::from_le_bytes),
        true if first > most && second == 0 => Some(u16::from_be_bytes),
        _ => None,
    }
}

fn utf8_or_latin(bytes: Vec<u8>) -> String {
    let error = match String::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error,
    };
    let bytes = error.as_bytes();
    // If some character of several bytes is valid UTF-8, then invalid bytes are damaged UTF-8, not letters of Latin-1.
    let has_whole = bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii());
    match has_whole {
        true => String::from_utf8_lossy(bytes).into_owned(),
        false => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_encoding_is_read() {
        let text = "10:00:01   pswpin/s\nMoyenne é 1\n";
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let latin: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let marked = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
        for bytes in [
            text.as_bytes().to_vec(),
            marked(&[0xef, 0xbb, 0xbf], text.as_bytes()),
            marked(&[0xff, 0xfe], &le),
            marked(&[0xfe, 0xff], &be),
            le,
            be,
            latin,
            marked(text.as_bytes(), &[0; 5000]),
            marked(&[0; 5000], text.as_bytes()),
            text.replace('\n', "\r").into_bytes(),
        ] {
            assert_eq!(decode("f", bytes.clone()).unwrap(), text, "{bytes:?}");
        }
        let cut = "é a".as_bytes();
        assert_eq!(decode("f", [cut, &cut[..1]].concat()).unwrap(), "é a\u{fffd}");
    }

    #[test]
    fn files_that_are_no_text_are_named() {
        let told = |bytes: &[u8]| decode("f", bytes.to_vec()).unwrap_err().to_string();
        assert!(told(&[0x96, 0xd5, 0x75, 0x21]).contains("sadf -j FILE"));
        assert!(told(b"\x89PNG\r\n").starts_with("f: it is not text, but a picture"));
        assert_eq!(told(&(0..200_u8).cycle().take(3000).collect::<Vec<_>>()), "f: it is not text");
    }
}
