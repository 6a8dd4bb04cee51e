//! The percentages that tables show in brackets beside figures: the change from the baseline's figure. A positive
//! percentage is an improvement.

use figures::figure::{Better, Format};

/// The rule by which the percentage beside a figure is computed from the figure and the baseline's figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PercentRule {
    /// The rule of MMTests today. In tables, a change from zero shows as `new` and a change to zero as `gone`. A value
    /// that is printed as zero counts as zero.
    #[default]
    Current,
    /// The rule of MMTests of 2012 and 2013. A fall to zero shows as 0.00, and a rise from zero as -99, or as 100 if
    /// higher figures are better.
    #[value(name = "mmtests-2013")]
    Mmtests2013,
    /// The rule of MMTests of 2010 and 2011: the change is relative to the new value, not to the baseline.
    #[value(name = "mmtests-2010")]
    Mmtests2010,
    /// Percentage points: the difference of two shares. In a table with any rule, rows of [`Format::Points`] use
    /// points, as the posting on stress-highalloc of 2012 does. In a table with [`PercentRule::Current`], all rows with
    /// a unit in percent use points.
    #[value(skip)]
    Points,
}

impl PercentRule {
    /// Returns the rule for a row with this format and unit in a table with the rule `self`: either `self` or
    /// [`PercentRule::Points`].
    #[must_use]
    pub fn of(self, format: Format, unit: &str) -> Self {
        match format {
            Format::Points(_) => Self::Points,
            _ if self == Self::Current && unit.starts_with('%') => Self::Points,
            Format::Decimals(_) | Format::Percent | Format::Moment(_) => self,
        }
    }

    /// Returns the value to use in a comparison. Under the current rule this is 0 if `value` is printed as zero,
    /// otherwise `value` itself. Under the rules of earlier years it is always `value` itself, since the tables of
    /// those years print more digits.
    #[must_use]
    pub fn compared(self, format: Format, value: f64) -> f64 {
        if self == Self::Current { format.as_shown(value) } else { value }
    }

    /// Returns the change from `base` to `new`, in percent or percentage points; positive if `new` is better.
    #[must_use]
    pub fn percent(self, better: Better, base: f64, new: f64) -> f64 {
        let higher = better == Better::Higher;
        if base == new || (base.is_nan() && new.is_nan()) {
            return 0.0;
        }
        match self {
            Self::Points if higher => new - base,
            Self::Points => base - new,
            Self::Mmtests2010 if new == 0.0 => 0.0,
            Self::Mmtests2010 if higher => (new - base) * 100.0 / new,
            Self::Mmtests2010 => -((new - base) * 100.0 / new),
            Self::Mmtests2013 if new == 0.0 => 0.0,
            Self::Current if new == 0.0 && !higher => 100.0,
            _ if base == 0.0 || base.is_nan() => {
                if higher {
                    100.0
                } else {
                    -99.0
                }
            }
            _ if higher => new * 100.0 / base - 100.0,
            _ => 100.0 - new * 100.0 / base,
        }
    }

    /// Returns the change from `base` to `new` as the text that stands between brackets, seven characters wide:
    /// `114.43%`, `  2.63%`, `    new`, `  3.2pt`.
    #[must_use]
    pub fn bracket(self, better: Better, base: f64, new: f64) -> String {
        match self {
            Self::Current if base == 0.0 && new != 0.0 => format!("{:>7}", "new"),
            Self::Current if base != 0.0 && new == 0.0 => format!("{:>7}", "gone"),
            Self::Points => self.printed(self.percent(better, base, new)),
            _ => bracket(self.percent(better, base, new)),
        }
    }

    /// Returns the text for a change, as it stands between brackets in tables. `change` is in percent or percentage
    /// points.
    #[must_use]
    pub fn printed(self, change: f64) -> String {
        if self == Self::Points { points(change) } else { bracket(change) }
    }
}

/// Returns a percentage as tables show it in brackets: with two decimals, followed by `%`.
fn bracket(percent: f64) -> String {
    // If all digits are zeroes, no sign is shown either.
    format!("{:>6.2}%", if percent.abs() < 0.005 { 0.0 } else { percent })
}

/// Returns a difference in percentage points as tables show it in brackets: with one decimal, followed by `pt`.
fn points(points: f64) -> String {
    format!("{:>5.1}pt", if points.abs() < 0.05 { 0.0 } else { points })
}

#[cfg(test)]
mod tests {
    use super::{PercentRule::*, *};
    use catalogue::experiment::Published;

    #[test]
    fn every_percentage_of_the_posting_of_2013_is_recomputed() {
        let text = catalogue::embedded::text("experiments/parallelio/published.toml").unwrap();
        let published = Published::parse("published.toml", text).unwrap();
        let mut checked = 0;
        for row in &published.rows {
            for (value, printed) in row.values.iter().zip(&row.pct) {
                let percent = Mmtests2013.percent(row.better, row.values[0], *value);
                assert_eq!(format!("{percent:.2}"), format!("{printed:.2}"), "{}: {value}", row.name);
                checked += 1;
            }
        }
        assert_eq!(checked, 24 * 3);
    }

    #[test]
    fn the_rule_of_2010_divides_by_the_new_value() {
        assert_eq!(format!("{:.2}", Mmtests2010.percent(Better::Higher, 250.0, 416.0)), "39.90");
        assert_eq!(format!("{:.2}", Mmtests2010.percent(Better::Lower, 420.0, 520.0)), "-19.23");
        assert_eq!(format!("{:.2}", Mmtests2010.percent(Better::Higher, 520.0, 420.0)), "-23.81");
        assert_eq!(Mmtests2010.percent(Better::Lower, 520.0, 0.0), 0.0);
        assert_eq!(format!("{:.2}", Current.percent(Better::Higher, 250.0, 416.0)), "66.40");
    }

    /// Checks that the changes in percentage points that the posting prints are computed again from its figures. Points
    /// are differences, so this must also work for a baseline of 0, from which no ratio can be computed.
    #[test]
    fn every_point_of_the_posting_of_2012_is_recomputed() {
        let text = catalogue::embedded::text("experiments/highalloc/published.toml").unwrap();
        let published = Published::parse("published.toml", text).unwrap();
        let rows: Vec<_> = published.rows.iter().filter(|row| row.group == "success").collect();
        assert_eq!(rows.len(), 3);
        let rule = Current.of(Format::Points(2), "% of attempts");
        for row in rows {
            let points = row.values.iter().map(|value| rule.percent(row.better, row.values[0], *value));
            assert_eq!(points.collect::<Vec<_>>(), row.pct, "{}", row.name);
        }
        assert_eq!(rule.bracket(Better::Higher, 0.0, 38.0), " 38.0pt");
        assert_eq!(Current.of(Format::Percent, "pages"), Current);
        assert_eq!([Current, Mmtests2013].map(|rule| rule.of(Format::Percent, "%")), [Points, Mmtests2013]);
        assert_eq!(Current.of(Format::Decimals(1), "% of a CPU").bracket(Better::Lower, 40.0, 36.8), "  3.2pt");
        assert_eq!(Points.bracket(Better::Higher, 100.0, 0.0), "-100.0pt");
    }

    #[test]
    fn zeroes_have_their_special_cases() {
        assert_eq!(Mmtests2013.percent(Better::Lower, 139_693.0, 0.0), 0.0);
        assert_eq!(Current.percent(Better::Lower, 139_693.0, 0.0), 100.0);
        assert_eq!(Current.percent(Better::Higher, 5.0, 0.0), -100.0);
        assert_eq!(Current.percent(Better::Lower, 0.0, 5.0), -99.0);
        assert_eq!(Current.percent(Better::Higher, 0.0, 5.0), 100.0);
        assert_eq!(Current.percent(Better::Lower, 0.0, 0.0), 0.0);
    }

    #[test]
    fn tables_say_new_and_gone() {
        assert_eq!(Current.bracket(Better::Lower, 0.0, 5.0), "    new");
        assert_eq!(Current.bracket(Better::Lower, 5.0, 0.0), "   gone");
        assert_eq!(Current.bracket(Better::Lower, 0.0, 0.0), "  0.00%");
        let compared = |value| Current.compared(Format::Decimals(2), value);
        assert_eq!(Current.bracket(Better::Lower, compared(0.004), compared(0.001)), "  0.00%");
        assert_eq!(Current.bracket(Better::Lower, compared(5.0), compared(0.001)), "   gone");
        assert_eq!(compared(0.006), 0.006);
        assert_eq!(Current.compared(Format::Decimals(0), 0.5), 0.0);
        assert_eq!(Mmtests2013.compared(Format::Decimals(0), 0.5), 0.5);
        assert_eq!(Current.bracket(Better::Higher, 100_000.0, 99_999.0), "  0.00%");
        assert_eq!(Mmtests2013.bracket(Better::Lower, 0.0, 5.0), "-99.00%");
        assert_eq!(Current.bracket(Better::Higher, 10_989.0, 23_564.0), "114.43%");
    }
}
