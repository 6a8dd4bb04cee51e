//! Sizes of caches, as users write them.

use ::trace::request::{Kind, PAGE_BYTES};

/// The size of a cache, as the user gave it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// The size is this share of the trace's distinct pages or objects, or of the sum of their bytes.
    Share(f64),
    /// The size is this number of pages or objects.
    Number(u64),
    /// The size is this number of bytes.
    Bytes(u64),
}

/// The unit in which the sizes of a replay's caches are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Pages of 4 KiB.
    Pages,
    /// Objects. Each object counts as one, whatever its size.
    Objects,
    /// Bytes. Each object counts as its size in bytes.
    Bytes,
}

impl Unit {
    /// Returns the unit in which a replay counts the sizes of its caches, `sizes`, for a trace of the kind `kind`.
    ///
    /// # Errors
    /// For a trace of objects, when some sizes are in bytes and others are numbers of objects.
    pub fn of(sizes: &[Size], kind: Kind) -> Result<Self, String> {
        let has = |wanted: fn(&Size) -> bool| sizes.iter().any(wanted);
        match kind {
            Kind::Ranges => Ok(Self::Pages),
            Kind::Objects if !has(|size| matches!(size, Size::Bytes(_))) => Ok(Self::Objects),
            Kind::Objects if has(|size| matches!(size, Size::Number(_))) => {
                Err("a cache of objects counts objects or bytes: expected one of them in all sizes".to_owned())
            }
            Kind::Objects => Ok(Self::Bytes),
        }
    }

    /// Returns the plural of this unit's name, such as `pages`, for reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Objects => "objects",
            Self::Bytes => "bytes",
        }
    }
}

impl Size {
    /// Returns the size for a replay that counts in `unit`. Bytes are converted to pages if the replay counts pages.
    #[must_use]
    pub const fn in_unit(self, unit: Unit) -> ::cache::Size {
        match (self, unit) {
            (Self::Share(share), _) => ::cache::Size::Share(share),
            (Self::Bytes(bytes), Unit::Pages) => ::cache::Size::Absolute(bytes / PAGE_BYTES),
            (Self::Number(number) | Self::Bytes(number), _) => ::cache::Size::Absolute(number),
        }
    }

    /// Returns the size as text that the command line also accepts: `10%`, `1000`, `64M`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Share(share) => format!("{}%", rounded(share * 100.0)),
            Self::Number(number) => number.to_string(),
            Self::Bytes(bytes) => {
                let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
                let whole = units.into_iter().find(|(bits, _)| bytes.is_multiple_of(1 << bits) && bytes > 0);
                whole.map_or_else(|| format!("{bytes}B"), |(bits, unit)| format!("{}{unit}", bytes >> bits))
            }
        }
    }
}

/// Returns a number rounded to four digits after the point, so that no digits of rounding errors are shown.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// Parses a share such as `5%`, and returns it as a fraction (0.05). Returns `None` if the text is no number from 0 to
/// 100 with `%`.
#[must_use]
pub fn parse_share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Parses a size.
///
/// # Errors
/// When the text is no size above 0. The error says what was expected.
pub fn parse(text: &str) -> Result<Size, String> {
    let text = text.trim();
    let wrong = || "expected a share up to 100 % such as 5%, a number such as 10000, or bytes such as 64M".to_owned();
    if text.ends_with('%') {
        return parse_share(text).filter(|share| *share > 0.0).map(Size::Share).ok_or_else(wrong);
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
    let bits = match &text[digits.len()..] {
        "" => return Ok(Size::Number(number)),
        "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << bits).map(Size::Bytes).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shares_numbers_or_bytes() {
        let of = |text: &str| parse(text).map(|size| (size, size.name()));
        assert_eq!(of("0.1%"), Ok((Size::Share(0.001), "0.1%".into())));
        assert_eq!(of("4096"), Ok((Size::Number(4096), "4096".into())));
        assert_eq!(of("64MiB"), Ok((Size::Bytes(64 << 20), "64M".into())));
        assert_eq!(of("100B"), Ok((Size::Bytes(100), "100B".into())));
        assert!(["", "0", "0%", "101%", "-1", "5x", "99999999T", "NaN%"].into_iter().all(|text| of(text).is_err()));
    }

    #[test]
    fn objects_are_counted_or_weighed_and_not_both() {
        let (number, bytes, share) = (Size::Number(5), Size::Bytes(1 << 20), Size::Share(0.5));
        assert_eq!(Unit::of(&[number, bytes], Kind::Ranges), Ok(Unit::Pages));
        assert_eq!(bytes.in_unit(Unit::Pages), ::cache::Size::Absolute(256));
        assert_eq!(Unit::of(&[number, share], Kind::Objects), Ok(Unit::Objects));
        assert_eq!(Unit::of(&[share, bytes], Kind::Objects), Ok(Unit::Bytes));
        assert!(Unit::of(&[number, bytes], Kind::Objects).is_err());
    }
}
