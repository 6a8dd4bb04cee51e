//! One figure: what it is called, which way it is better, how it is printed.
//!
//! The words that workloads, experiments and reports share; nothing here knows any of them.

use serde::{Deserialize, Serialize};

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The higher the better.
    Higher,
    /// The lower the better.
    Lower,
    /// Neither: context for other rows. Where MMTests prints a percentage, it is as for `Lower`.
    Neutral,
}

/// How a figure is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// With this many decimals.
    Decimals(u8),
    /// As a whole percentage, without its sign: the row's unit says it.
    Percent,
    /// A share in percent, with this many decimals; a change of it is told in points.
    Points(u8),
    /// With this many decimals; 0 as `never`: a time that has not come.
    Moment(u8),
}

impl Format {
    /// `value` in this form; a median of whole percentages may have a half.
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

    /// `value`, or 0 where [`Format::show`] shows nothing but zeroes of it.
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
    /// The block that it stands in: `Ops`, `duration`, `vmstat`, `iostat`, ….
    pub group: String,
    /// Its name, as in `published.toml`; with the statistic in front where one is printed.
    pub name: String,
    /// Its unit: `pages`, `ops/s`, ….
    pub unit: String,
    /// Which way it is better.
    pub better: Better,
    /// The figure.
    pub value: f64,
    /// How it is printed.
    pub format: Format,
}

impl Row {
    /// A row.
    #[must_use]
    pub fn new(group: &str, name: impl Into<String>, unit: &str, better: Better, format: Format, value: f64) -> Self {
        Self { group: group.into(), name: name.into(), unit: unit.into(), better, value, format }
    }

    /// A row of a rate: more is better.
    #[must_use]
    pub fn rate(group: &str, name: impl Into<String>, unit: &str, value: f64) -> Self {
        Self::new(group, name, unit, Better::Higher, Format::Decimals(2), value)
    }
}

/// The name of a row, and the block that it stands in: `--rows` means it by either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowName {
    /// As in [`Row`].
    pub group: String,
    /// As in [`Row`].
    pub name: String,
}

/// The names of rows.
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

/// The rows `User`, `System`, `Elapsed` of the group `duration`, seconds of the whole test.
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
