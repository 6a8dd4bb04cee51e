//! A constant together with where it comes from.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Origins of the value of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Chosen so that a simulated figure meets a published one; the source names the figure.
    Fitted,
    /// Stated in a posting, a paper, a kernel's documentation or its defaults.
    Published,
    /// Stated by the maker of the hardware.
    DataSheet,
    /// Measured on real hardware.
    Measured,
    /// Worked out from other published figures; the source says from which.
    Inferred,
    /// Unknown, and assumed as plausible. Results that depend on it have to be shown with other values.
    Assumed,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fitted => "fitted",
            Self::Published => "published",
            Self::DataSheet => "data-sheet",
            Self::Measured => "measured",
            Self::Inferred => "inferred",
            Self::Assumed => "assumed",
        })
    }
}

/// A value that says where it comes from: `{ value = 7200, from = "data-sheet", source = "…" }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The value, in the unit that the name of the field ends with.
    pub value: T,
    /// The way in which the value was found.
    pub from: Origin,
    /// The print, data sheet or measurement; for a fitted value, the figure that it was fitted to.
    pub source: String,
}

impl<T> Sourced<T> {
    /// Joins a value with its origin and the text of its source.
    #[must_use]
    pub fn new(value: T, from: Origin, source: &str) -> Self {
        Self { value, from, source: source.to_owned() }
    }
}

impl<T: fmt::Display> fmt::Display for Sourced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {})", self.value, self.from, self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sourced_value_prints_its_origin() {
        let rpm = Sourced::new(7200, Origin::DataSheet, "label");
        assert_eq!(rpm.to_string(), "7200 (data-sheet: label)");
    }
}
