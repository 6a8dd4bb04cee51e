//! Linear and logarithmic scales that map figures to pixels, with ticks.

/// A scale along one side of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// The figure at the start of the axis.
    pub from: f64,
    /// The figure at the end of the axis.
    pub to: f64,
    /// True if the axis is logarithmic.
    pub is_log: bool,
}

impl Axis {
    /// Makes a linear scale from 0 to the first tick that is at least `most`.
    #[must_use]
    pub fn up_to(most: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = step(most, 4);
        Self { from: 0.0, to: (most / step).ceil() * step, is_log: false }
    }

    /// Makes a logarithmic scale from a power of ten that is at most `least` to a power of ten that is at least `most`.
    /// `least` must be above 0.
    #[must_use]
    pub fn decades(least: f64, most: f64) -> Self {
        let (low, high) = (least.log10().floor(), most.log10().ceil());
        Self { from: 10_f64.powf(low), to: 10_f64.powf(high.max(low + 1.0)), is_log: true }
    }

    /// Returns the position of a figure on the axis, from 0 at the start to 1 at the end. A figure beyond an end is
    /// placed at this end.
    #[must_use]
    pub fn part(self, value: f64) -> f64 {
        let Self { from, to, is_log } = self;
        let part = match is_log {
            true if value <= 0.0 => 0.0,
            true => (value / from).ln() / (to / from).ln(),
            false => (value - from) / (to - from),
        };
        part.clamp(0.0, 1.0)
    }

    /// Returns the pixel at which a figure is drawn, if the axis goes from pixel `begin` to pixel `end`.
    #[must_use]
    pub fn pixel(self, value: f64, begin: i32, end: i32) -> i32 {
        begin + (f64::from(end - begin) * self.part(value)).round() as i32
    }

    /// Returns the figures at which the axis has ticks. A linear axis has at least `count` ticks.
    #[must_use]
    pub fn ticks(self, count: usize) -> Vec<f64> {
        if self.is_log {
            let (low, high) = (self.from.log10().round() as i32, self.to.log10().round() as i32);
            let every = (high - low) as usize / (count.max(1) * 2) + 1;
            return (low..=high).step_by(every).map(|power| 10_f64.powi(power)).collect();
        }
        let step = step(self.to - self.from, count);
        let (first, last) = ((self.from / step).ceil() as i64, (self.to / step + 1e-9).floor() as i64);
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// Returns a distance between ticks: 1, 2 or 5 times a power of ten. It divides `range` into at least `count` steps,
/// and not into many more.
fn step(range: f64, count: usize) -> f64 {
    let raw = range / count.max(1) as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let digit = [5.0, 2.0].into_iter().find(|digit| raw / power >= *digit).unwrap_or(1.0);
    digit * power
}

/// Returns a figure as text for a tick: `0`, `0.5`, `1200`, `20 k`, `3 M`.
#[must_use]
pub fn label(value: f64) -> String {
    let short = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1e9 => format!("{} G", short(value / 1e9)),
        size if size >= 1e6 => format!("{} M", short(value / 1e6)),
        size if size >= 1e4 => format!("{} k", short(value / 1e3)),
        size if size >= 0.001 => short(value),
        _ => format!("{value:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Axis::up_to(23_018.0).ticks(4), [0.0, 5000.0, 10_000.0, 15_000.0, 20_000.0, 25_000.0]);
        assert_eq!(Axis::up_to(0.0).to, 1.0);
        assert_eq!(Axis::decades(0.7, 261.0).ticks(4), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        let part = Axis { from: 7.65, to: 7.95, is_log: false };
        let labels: Vec<String> = part.ticks(5).into_iter().map(label).collect();
        assert_eq!(labels, ["7.65", "7.7", "7.75", "7.8", "7.85", "7.9", "7.95"]);
    }

    #[test]
    fn a_figure_has_its_place() {
        let axis = Axis::decades(1.0, 100.0);
        assert_eq!([1.0, 10.0, 100.0, 1e9, 0.0].map(|it| axis.pixel(it, 200, 0)), [200, 100, 0, 0, 200]);
        assert_eq!(Axis::up_to(10.0).pixel(5.0, 0, 100), 50);
    }

    #[test]
    fn labels_are_short() {
        let shown = [0.0, 0.5, 1200.0, 20_000.0, 2_500_000.0, 3e9, 1e-5].map(label);
        assert_eq!(shown, ["0", "0.5", "1200", "20 k", "2.5 M", "3 G", "1e-5"]);
    }
}
