//! One figure: its name, its better direction, its format.
//!
//! Workloads, experiments and reports share these words. This module knows none of them.

use serde::{Deserialize, Serialize};

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
    /// Neither: the row is context. Where MMTests prints a percentage, it is computed as for `Lower`.
    Neutral,
}

/// The format of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// With this many decimals.
    Decimals(u8),
    /// A whole percentage without its sign, which the row's unit has.
    Percent,
    /// A share in percent with this many decimals. Changes of it are in points.
    Points(u8),
    /// This many decimals, and `never` for 0: a moment that has not come.
    Moment(u8),
}

impl Format {
    /// Formats `value`. A median of whole percentages may have a half.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        // Nothing is left of a sign when nothing is left of the digits.
        let text = self.digits(value);
        match text.strip_prefix('-') {
            Some(digits) if digits.bytes().all(|digit| b"0.".contains(&digit)) => digits.to_owned(),
            _ => text,
        }
    }

    fn digits(self, value: f64) -> String {
        match self {
            Self::Moment(_) if value == 0.0 => "never".into(),
            Self::Decimals(decimals) | Self::Moment(decimals) | Self::Points(decimals) => {
                format!("{value:.*}", usize::from(decimals))
            }
            Self::Percent if value.fract() == 0.0 => format!("{value:.0}"),
            Self::Percent => format!("{value:.1}"),
        }
    }

    /// Returns `value`, or 0 if [`Format::show`] shows only zeroes.
    #[must_use]
    pub fn as_shown(self, value: f64) -> f64 {
        // Of a moment 0 is never, and no early one.
        let is_nothing = !matches!(self, Self::Moment(_)) && self.show(value).parse() == Ok(0.0);
        if is_nothing { 0.0 } else { value }
    }
}

/// One figure of one run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// The block that contains the row: `Ops`, `duration`, `vmstat`, `iostat`, ….
    pub group: String,
    /// The row's name, as in `published.toml`, with the statistic in front if one is printed.
    pub name: String,
    /// The row's unit: `pages`, `ops/s`, ….
    pub unit: String,
    /// The row's better direction.
    pub better: Better,
    /// The figure.
    pub value: f64,
    /// The row's format.
    pub format: Format,
}

impl Row {
    /// Makes a row.
    #[must_use]
    pub fn new(group: &str, name: impl Into<String>, unit: &str, better: Better, format: Format, value: f64) -> Self {
        Self { group: group.into(), name: name.into(), unit: unit.into(), better, value, format }
    }

    /// Returns whether the figure is a time or a rate, or made of one: where a clock does not count, neither does the figure.
    #[must_use]
    pub fn is_of_time(&self) -> bool {
        const UNITS: [&str; 5] = ["ns", "us", "ms", "s", "MHz"];
        const GROUPS: [&str; 4] = ["cpu", "cpu at full", "cputime", "duration"];
        let is_time = UNITS.contains(&self.unit.as_str()) || self.unit.contains("/s") || self.unit.starts_with("s ");
        is_time || GROUPS.contains(&self.group.as_str())
    }

    /// Makes a row of a rate. Higher is better.
    #[must_use]
    pub fn rate(group: &str, name: impl Into<String>, unit: &str, value: f64) -> Self {
        Self::new(group, name, unit, Better::Higher, Format::Decimals(2), value)
    }
}

/// The name of a row and the block that contains it. `--rows` matches either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowName {
    /// Name of the block, as in [`Row`].
    pub group: String,
    /// Name of the row, as in [`Row`].
    pub name: String,
}

/// Returns the names of rows.
#[must_use]
pub fn names(rows: Vec<Row>) -> Vec<RowName> {
    rows.into_iter().map(|Row { group, name, .. }| RowName { group, name }).collect()
}

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// The percentage in brackets beside it, as printed.
    pub percent: Option<f64>,
}

/// Returns the rows `User`, `System`, `Elapsed` of the group `duration`, seconds of the whole test.
#[must_use]
pub fn duration_rows(user_s: f64, system_s: f64, elapsed_s: f64) -> Vec<Row> {
    [("User", user_s), ("System", system_s), ("Elapsed", elapsed_s)]
        .map(|(name, value)| Row::new("duration", name, "s", Better::Lower, Format::Decimals(2), value))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_percentages_stay_whole() {
        assert_eq!(
            [Format::Percent.show(6.0), Format::Percent.show(6.5), Format::Decimals(3).show(4.6264)],
            ["6", "6.5", "4.626"]
        );
        assert_eq!([Format::Decimals(2).show(-0.001), Format::Percent.show(-0.0)], ["0.00", "0"]);
        assert_eq!([Format::Decimals(0).show(-0.6), Format::Points(1).show(-0.05)], ["-1", "-0.1"]);
        assert_eq!([Format::Moment(2).show(0.0), Format::Moment(2).show(0.031)], ["never", "0.03"]);
    }
}
