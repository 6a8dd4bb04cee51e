//! Formats figures for cells of a table: three significant digits, and ranges over seeds.

/// Returns a number with three significant digits, in thousands (`k`) or millions (`M`) if this is shorter. A whole
/// number below a thousand is unchanged.
pub fn amount(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        _ if value.is_nan() => return "–".into(),
        size if size.is_infinite() => return "∞".into(),
        size if size >= 999_500.0 => (value / 1e6, " M"),
        size if size >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        _ if unit.is_empty() && scaled.fract() == 0.0 => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$}{unit}")
}

/// Returns the median and range of `values` as text: `18.1 % (12.9..43.4)`; only the median if all values are equal.
pub fn spread(values: &[f64], suffix: &str) -> String {
    spread_by(values, suffix, amount)
}

/// Returns a text with the median of `values`, followed by `suffix`, and with their range. `digits` formats a number.
pub fn spread_by(values: &[f64], suffix: &str, digits: impl Fn(f64) -> String) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [Some(low), Some(high)] = [sorted.first(), sorted.last()].map(|value| value.map(|it| digits(*it))) else {
        return digits(f64::NAN);
    };
    let middle = with(&digits(median(&sorted)), suffix);
    if low == high { middle } else { format!("{middle} ({low}..{high})") }
}

/// Returns a number rounded to a whole number, as text.
pub fn whole(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { amount(value) }
}

/// Returns a number with one decimal.
pub fn tenths(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { amount(value) }
}

/// Returns the text `number` followed by the unit `suffix`. Without a digit in `number`, such as for a missing value,
/// returns `number` alone.
pub fn with(number: &str, suffix: &str) -> String {
    if number.contains(|c: char| c.is_ascii_digit()) { format!("{number}{suffix}") } else { number.into() }
}

fn median(sorted: &[f64]) -> f64 {
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    if low == high { low } else { (low + high) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (35.0, "35"),
            (0.884, "0.88"),
            (48.04, "48.0"),
            (5141.3, "5.14 k"),
            (99_951.0, "100 k"),
            (999_499.0, "999 k"),
            (999_600.0, "1.00 M"),
            (22_629_672.0, "22.6 M"),
            (284_100_000.0, "284 M"),
            (-74_102.0, "-74.1 k"),
            (f64::INFINITY, "∞"),
            (f64::NAN, "–"),
        ];
        for (value, shown) in cases {
            assert_eq!(amount(value), shown, "{value}");
        }
    }

    #[test]
    fn seeds_give_a_median_and_a_range() {
        assert_eq!(spread(&[3.0, 1.0, 2.0, 7.0], " %"), "2.50 % (1..7)");
        assert_eq!(spread(&[5.0, 5.0], ""), "5");
        assert_eq!(spread(&[20.0, f64::INFINITY, f64::INFINITY], ""), "∞ (20..∞)");
        assert_eq!(spread(&[f64::NAN], " s"), "–");
        assert_eq!(spread(&[], " s"), "–");
    }
}
