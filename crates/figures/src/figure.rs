//! [`Row`]: one figure of a report, with its name, its unit, its format, and whether higher or lower is better.
//!
//! Workloads, experiments and reports all use the types of this module. The module depends on none of these.

use serde::{Deserialize, Serialize};

/// The better direction of a figure: higher, lower, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
    /// Neither direction is better; the figure is background information. If MMTests prints a percentage beside it, the
    /// percentage is computed as for `Lower`.
    Neutral,
}

/// The format in which a figure is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A number with this many decimals.
    Decimals(u8),
    /// A whole percentage. The percent sign is in the row's unit, not in the number.
    Percent,
    /// A share in percent with this many decimals. A change of it is printed in percentage points.
    Points(u8),
    /// The time at which something happened, with this many decimals; the value 0 is printed as `never`.
    Moment(u8),
}

impl Format {
    /// Returns `value` as text in this format. [`Format::Percent`] gives one decimal to a value that is no whole
    /// number, such as the median of two whole percentages.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        // A number that is printed as zero gets no minus sign.
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

    /// Returns `value`, or 0 if [`Format::show`] prints it as zero.
    #[must_use]
    pub fn as_shown(self, value: f64) -> f64 {
        // The value 0 of a `Moment` means never, so a very early time must not become 0.
        let is_nothing = !matches!(self, Self::Moment(_)) && self.show(value).parse() == Ok(0.0);
        if is_nothing { 0.0 } else { value }
    }
}

/// One figure of one run: a row of a report, with all that is needed to print it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// Name of the block of rows that contains this row: `Ops`, `duration`, `vmstat`, `iostat`, ….
    pub group: String,
    /// Name of the row, as in `published.toml`. If the figure is a statistic, such as a mean, the name begins with the
    /// name of the statistic.
    pub name: String,
    /// Unit of the figure: `pages`, `ops/s`, ….
    pub unit: String,
    /// States whether a higher or a lower value of the figure is better.
    pub better: Better,
    /// Value of the figure, in `unit`.
    pub value: f64,
    /// Format in which the figure is printed.
    pub format: Format,
}

impl Row {
    /// Makes a row of a report from its parts.
    #[must_use]
    pub fn new(group: &str, name: impl Into<String>, unit: &str, better: Better, format: Format, value: f64) -> Self {
        Self { group: group.into(), name: name.into(), unit: unit.into(), better, value, format }
    }

    /// Returns whether the figure is a time or a rate, or is computed from one. Such a figure is meaningless if the
    /// clock is wrong, as in an emulated virtual machine.
    #[must_use]
    pub fn is_of_time(&self) -> bool {
        const UNITS: [&str; 5] = ["ns", "us", "ms", "s", "MHz"];
        const GROUPS: [&str; 4] = ["cpu", "cpu at full", "cputime", "duration"];
        let is_time = UNITS.contains(&self.unit.as_str()) || self.unit.contains("/s") || self.unit.starts_with("s ");
        is_time || GROUPS.contains(&self.group.as_str())
    }

    /// Makes a row whose figure is a rate with two decimals; a higher rate is better.
    #[must_use]
    pub fn rate(group: &str, name: impl Into<String>, unit: &str, value: f64) -> Self {
        Self::new(group, name, unit, Better::Higher, Format::Decimals(2), value)
    }
}

/// The name of a row of a report, and the name of the block of rows that contains it. The option `--rows` selects rows
/// by either name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowName {
    /// Name of the block of rows, as in [`Row`].
    pub group: String,
    /// Name of the row, as in [`Row`].
    pub name: String,
}

/// Returns the name of each of `rows`, together with the name of its block.
#[must_use]
pub fn names(rows: Vec<Row>) -> Vec<RowName> {
    rows.into_iter().map(|Row { group, name, .. }| RowName { group, name }).collect()
}

/// A figure from a posting or paper, to which a simulated figure is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedFigure {
    /// The published value.
    pub value: f64,
    /// The percentage that the publication prints in brackets beside the value, if any.
    pub percent: Option<f64>,
}

/// Returns the rows of the group `duration`: CPU time in user mode, CPU time in the kernel, and elapsed time, all in
/// seconds and for the whole test.
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
