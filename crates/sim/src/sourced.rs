//! Constants of a machine file, each together with the origin of its value: how it was found.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Ways in which the value of a constant was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The value was chosen so that a simulated figure agrees with a published one; the source names the figure.
    Fitted,
    /// The value is stated in a posting, a paper, or the documentation or defaults of a kernel.
    Published,
    /// The value is stated by the maker of the hardware.
    DataSheet,
    /// The value was measured on real hardware.
    Measured,
    /// The value was calculated from other published figures; the source names these figures.
    Inferred,
    /// The value is unknown, and was assumed because it is plausible. Results that depend on it have to be shown with
    /// other values, too.
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

/// A value with its origin: `{ value = 7200, from = "data-sheet", source = "…" }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The value. Its unit is at the end of the field's name, as in `command_ns`.
    pub value: T,
    /// The way in which the value was found.
    pub from: Origin,
    /// The posting, paper, data sheet or measurement that states the value. For a fitted value, this is the figure to
    /// which the value was fitted.
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
