//! One figure: its name, its better direction, its format.
//!
//! Workloads, experiments and reports all use these types. This module depends on none of them.

use serde::{Deserialize, Serialize};

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
    /// Neither is better: the row is context. Where MMTests prints a percentage, it is computed as for `Lower`.
    Neutral,
}

/// The format of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A number with this many decimals.
    Decimals(u8),
    /// A whole percentage without the percent sign, which the row's unit contains.
    Percent,
    /// A share in percent with this many decimals. Its changes are in percentage points.
    Points(u8),
    /// A moment with this many decimals, or `never` for the value 0: the moment has not come.
    Moment(u8),
}

impl Format {
    /// Returns `value` in this format. A median of whole percentages may have a half.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        // If all digits are zeroes, no sign is shown either.
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
        // For a moment the value 0 means never, so an early moment must not become 0.
        let is_nothing = !matches!(self, Self::Moment(_)) && self.show(value).parse() == Ok(0.0);
        if is_nothing { 0.0 } else { value }
    }
}

/// One figure of one run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// Name of the block that contains the row: `Ops`, `duration`, `vmstat`, `iostat`, ….
    pub group: String,
    /// Name of the row, as in `published.toml`, with the statistic in front if one is printed.
    pub name: String,
    /// Unit of the figure: `pages`, `ops/s`, ….
    pub unit: String,
    /// Better direction of the figure.
    pub better: Better,
    /// The figure.
    pub value: f64,
    /// Format of the figure.
    pub format: Format,
}

impl Row {
    /// Makes a row.
    #[must_use]
    pub fn new(group: &str, name: impl Into<String>, unit: &str, better: Better, format: Format, value: f64) -> Self {
        Self { group: group.into(), name: name.into(), unit: unit.into(), better, value, format }
    }

    /// Returns whether the figure is a time or a rate, or is made of one. On a ground whose clock says nothing, such a
    /// figure says nothing.
    #[must_use]
    pub fn is_of_time(&self) -> bool {
        const UNITS: [&str; 5] = ["ns", "us", "ms", "s", "MHz"];
        const GROUPS: [&str; 4] = ["cpu", "cpu at full", "cputime", "duration"];
        let is_time = UNITS.contains(&self.unit.as_str()) || self.unit.contains("/s") || self.unit.starts_with("s ");
        is_time || GROUPS.contains(&self.group.as_str())
    }

    /// Makes a row whose figure is a rate. Higher is better.
    #[must_use]
    pub fn rate(group: &str, name: impl Into<String>, unit: &str, value: f64) -> Self {
        Self::new(group, name, unit, Better::Higher, Format::Decimals(2), value)
    }
}

/// The name of a row and the name of the block that contains it. A word of `--rows` matches either name.
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
    /// The percentage printed in brackets beside the figure; none if there is none.
    pub percent: Option<f64>,
}

/// Returns the rows `User`, `System`, `Elapsed` of the group `duration`: seconds over the whole test.
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
