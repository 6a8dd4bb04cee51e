//! [`Scale`]: the factor by which an experiment is made smaller.

use std::{fmt, num::NonZeroU32, str::FromStr};

/// The scale of an experiment: a factor by which the machine's memory, swap and disk bandwidth, and the sizes in the
/// workload, are multiplied. Virtual time and disk latencies are not scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    numerator: NonZeroU32,
    denominator: NonZeroU32,
}

impl Scale {
    /// Full size (factor 1), at which figures are compared with published ones.
    pub const FULL: Self = Self { numerator: NonZeroU32::MIN, denominator: NonZeroU32::MIN };

    /// Returns `value` multiplied by the scale, rounded down, and at most `u64::MAX`.
    #[must_use]
    pub fn of(self, value: u64) -> u64 {
        let scaled = u128::from(value) * u128::from(self.numerator.get()) / u128::from(self.denominator.get());
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Returns the scale as a number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator.get()) / f64::from(self.denominator.get())
    }

    /// Returns whether this scale is full size.
    #[must_use]
    pub fn is_full(self) -> bool {
        self == Self::FULL
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator.get() {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

impl FromStr for Scale {
    type Err = String;

    /// Reads a scale in one of the forms `1/16`, `1` and `0.25`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a fraction such as 1/16, or 1 for full size; found `{text}`");
        let (numerator, denominator): (u64, u64) = match (text.split_once('/'), text.split_once('.')) {
            (Some((above, below)), _) => (above.trim().parse().ok(), below.trim().parse().ok()),
            (None, Some((whole, digits))) if digits.len() <= 6 && digits.bytes().all(|b| b.is_ascii_digit()) => {
                (format!("{whole}{digits}").parse().ok(), Some(10_u64.pow(digits.len() as u32)))
            }
            (None, _) => (text.trim().parse().ok(), Some(1)),
        }
        .both()
        .ok_or_else(wrong)?;
        let common = greatest_common_divisor(numerator, denominator);
        if numerator == 0 || denominator == 0 {
            return Err(format!("a scale is above 0; found `{text}`"));
        }
        let small = |number: u64| u32::try_from(number / common).ok().and_then(NonZeroU32::new).ok_or_else(wrong);
        let scale = Self { numerator: small(numerator)?, denominator: small(denominator)? };
        if scale.as_f64() > 64.0 || scale.as_f64() < 1.0 / 65536.0 {
            return Err(format!("a scale is from 1/65536 to 64; found `{text}`"));
        }
        Ok(scale)
    }
}

trait Both<T> {
    fn both(self) -> Option<(T, T)>;
}

impl<T> Both<T> for (Option<T>, Option<T>) {
    fn both(self) -> Option<(T, T)> {
        self.0.zip(self.1)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_read_in_lowest_terms() {
        let shown = |text: &str| text.parse::<Scale>().map(|scale| scale.to_string());
        assert_eq!(shown("1/16").unwrap(), "1/16");
        assert_eq!(shown("2/32").unwrap(), "1/16");
        assert_eq!(shown("0.25").unwrap(), "1/4");
        assert_eq!(shown("4/4").unwrap(), "1");
        assert!("1".parse::<Scale>().unwrap().is_full());
        assert!("0".parse::<Scale>().unwrap_err().contains("above 0"));
        assert!("1/0".parse::<Scale>().is_err());
        assert!("small".parse::<Scale>().unwrap_err().contains("1/16"));
        assert!("1/1000000".parse::<Scale>().unwrap_err().contains("1/65536"));
    }

    #[test]
    fn values_are_rounded_down() {
        assert_eq!("1/16".parse::<Scale>().unwrap().of(715), 44);
        assert_eq!(Scale::FULL.of(u64::MAX), u64::MAX);
    }
}
