//! Numbers and fields in lines of text.

use std::hash::Hasher as _;
use twox_hash::XxHash64;

/// Splits a line at blanks and returns the fields that are not empty.
pub fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Returns the first `N` fields of a line, and the number of fields found, at most `N`. Fields are separated by blanks.
/// A missing field is empty.
pub fn first_fields<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut found = [&b""[..]; N];
    let mut count = 0;
    for field in fields(line).take(N) {
        found[count] = field;
        count += 1;
    }
    (found, count)
}

/// Reads a decimal number without a sign.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Reads a hexadecimal number, with or without `0x` before it; `None` for any other text.
pub fn hex(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| Some(value << 4 | u64::from(char::from(*byte).to_digit(16)?)))
}

/// Reads a number that is written as in C: decimal, hexadecimal after `0x`, or octal after `0`.
pub fn c_number(text: &[u8]) -> Option<u64> {
    if text.starts_with(b"0x") {
        return hex(text);
    }
    number(text)
}

/// Reads a time: a decimal number with an optional fraction, in units of `unit_ns` nanoseconds. Returns the time in µs,
/// rounded down.
pub fn micros(text: &[u8], unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    if fraction.len() == text.len().saturating_sub(1) && whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { number(whole)? };
    // Digits below 10^-15 units do not matter.
    let fraction = &fraction[..fraction.len().min(15)];
    let part = if fraction.is_empty() { 0 } else { number(fraction)? };
    let scale = 10_u128.pow(fraction.len() as u32);
    let ns = u128::from(whole) * u128::from(unit_ns) + u128::from(part) * u128::from(unit_ns) / scale;
    u64::try_from(ns / 1000).ok()
}

/// One second, ns.
pub const SECOND: u64 = 1_000_000_000;

/// Returns the 64-bit key of a text (xxHash64 with seed 0).
pub fn key(text: &[u8]) -> u64 {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(text);
    hasher.finish()
}

/// Reads a date and time such as `YYYY-MM-DD HH:MM:SS.ffffff`. Returns the time from 1970 until then, µs, without
/// regard to time zones.
pub fn date_micros(text: &[u8]) -> Option<u64> {
    let (date, time) = (text.get(..10)?, text.get(11..)?);
    if date[4] != b'-' || date[7] != b'-' || !matches!(text[10], b' ' | b'T') {
        return None;
    }
    let (year, month, day) = (number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970-01-01 of the civil calendar; the year begins in March, so that a leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(days * 86_400_000_000 + clock_micros(time)?)
}

/// Reads a time of day such as `HH:MM:SS[.ffffff]`. Returns the time since midnight, µs.
pub fn clock_micros(text: &[u8]) -> Option<u64> {
    if text.len() < 8 || text[2] != b':' || text[5] != b':' {
        return None;
    }
    let (hours, minutes) = (number(&text[..2])?, number(&text[3..5])?);
    let seconds = micros(&text[6..], SECOND)?;
    (hours < 24 && minutes < 60 && seconds < 61_000_000).then_some((hours * 60 + minutes) * 60_000_000 + seconds)
}

/// Returns the first 40 bytes of a text for use in an error message. Bytes that are not UTF-8, and control characters,
/// are replaced.
pub fn lossy(text: &[u8]) -> String {
    kit::shown::harmless(&String::from_utf8_lossy(&text[..text.len().min(40)])).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!((number(b""), number(b"-1"), number(b"+1"), number(b"1 ")), (None, None, None, None));
        assert_eq!((hex(b"0xff"), hex(b"FF"), hex(b"0x"), hex(b"g")), (Some(255), Some(255), None, None));
        assert_eq!(micros(b"72.531607", SECOND), Some(72_531_607));
        assert_eq!(micros(b"72", SECOND), Some(72_000_000));
        assert_eq!(micros(b".5", SECOND), Some(500_000));
        assert_eq!(micros(b"5.", SECOND), Some(5_000_000));
        assert_eq!((micros(b".", SECOND), micros(b"", SECOND), micros(b"1e3", SECOND)), (None, None, None));
        assert_eq!(micros(b"128166372003061629", 100), Some(12_816_637_200_306_162));
        assert_eq!(micros(b"18446744073709551615", SECOND), None);
        assert_eq!(clock_micros(b"01:02:03.5"), Some(3_723_500_000));
        assert_eq!((clock_micros(b"25:00:00"), clock_micros(b"1:2:3")), (None, None));
        assert_eq!(date_micros(b"1970-01-01 00:00:00"), Some(0));
        assert_eq!(date_micros(b"2024-02-29 12:00:00.000001"), Some(1_709_208_000_000_001));
        assert_eq!((date_micros(b"2024-02-29"), date_micros(b"1969-12-31 00:00:00")), (None, None));
    }
}
