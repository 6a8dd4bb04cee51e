//! A scatter plot of pairs of figures on logarithmic scales.

use super::canvas::{
    self, Anchor, Area, BAND, FAINT, Frame, Ink, Key, MARGIN, Mark, PAPER, RULE, fill, line, point, text,
};
use super::scale::{Axis, label};
use plotters::element::Polygon;

/// Width and height of the plot, pixels.
const SIDE: (i32, i32) = (820, 620);
/// Space at the left for the scale, pixels.
const LEFT: i32 = 84;
/// Space below the plot for the scale, pixels.
const FOOT: i32 = 56;
/// Width of the strip for figures of 0, which a logarithmic scale cannot show, pixels. The strip lies between the axis
/// and the logarithmic part of the plot.
const ZERO: i32 = 48;

/// A point of the plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// The figure that determines the point's horizontal place.
    pub x: f64,
    /// The figure that determines the point's vertical place.
    pub y: f64,
    /// True if the two figures differ by at most the factor of the plot. If not, the point is drawn as a ring.
    pub is_met: bool,
}

/// A scatter plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scatter {
    /// Title of the picture.
    pub title: String,
    /// Notes on the picture, such as the origin of the figures.
    pub about: Vec<String>,
    /// Name of the horizontal quantity.
    pub across: String,
    /// Name of the vertical quantity.
    pub up: String,
    /// The points of each group, with the name of the group.
    pub groups: Vec<(String, Vec<Dot>)>,
    /// Largest factor between the two figures of a point at which they count as near to each other.
    pub factor: f64,
}

impl Scatter {
    /// Returns the picture as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let key = |(n, (name, _)): (usize, &(String, Vec<Dot>))| Key {
            mark: Mark::Point,
            ink: Ink::of(n),
            name: name.clone(),
        };
        let frame = Frame {
            title: self.title.clone(),
            about: self.about.clone(),
            keys: self.groups.iter().enumerate().map(key).collect(),
        };
        frame.draw(SIDE.1 + FOOT + 10, |area| self.plot(area))
    }

    fn plot(&self, area: &Area<'_>) {
        let figures = || self.groups.iter().flat_map(|(_, dots)| dots).flat_map(|dot| [dot.x, dot.y]);
        let least = figures().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let most = figures().fold(0.0, f64::max);
        let axis = if least < most { Axis::decades(least, most) } else { Axis::decades(1.0, 10.0) };
        let (left, right) = (MARGIN + LEFT, MARGIN + LEFT + SIDE.0);
        let (top, bottom) = (6, 6 + SIDE.1);
        let across = |value: f64| if value > 0.0 { axis.pixel(value, left + ZERO, right) } else { left + ZERO / 3 };
        let up = |value: f64| if value > 0.0 { axis.pixel(value, bottom - ZERO, top) } else { bottom - ZERO / 3 };
        self.band(area, axis, &across, &up);
        for tick in axis.ticks(6) {
            let (x, y) = (across(tick), up(tick));
            line(area, &[(x, top), (x, bottom)], RULE, 1);
            line(area, &[(left, y), (right, y)], RULE, 1);
            text(area, &label(tick), (x, bottom + 14), &canvas::words(FAINT, 12, Anchor::Middle));
            text(area, &label(tick), (left - 8, y), &canvas::words(FAINT, 12, Anchor::End));
        }
        text(area, "0", (across(0.0), bottom + 14), &canvas::words(FAINT, 12, Anchor::Middle));
        text(area, "0", (left - 8, up(0.0)), &canvas::words(FAINT, 12, Anchor::End));
        line(area, &[(across(axis.from), up(axis.from)), (across(axis.to), up(axis.to))], FAINT, 1);
        line(area, &[(left, top), (left, bottom), (right, bottom)], FAINT, 1);
        for (n, (_, dots)) in self.groups.iter().enumerate() {
            for dot in dots {
                point(area, (across(dot.x), up(dot.y)), Ink::of(n), dot.is_met);
            }
        }
        text(area, &self.across, ((left + right) / 2, bottom + 36), &canvas::words(FAINT, 12, Anchor::Middle));
        let style = canvas::words(FAINT, 12, Anchor::Middle).transform(plotters::style::FontTransform::Rotate270);
        text(area, &self.up, (MARGIN + 8, (top + bottom) / 2), &style);
    }

    /// Draws the area of the points whose two figures differ by at most the factor of the plot.
    fn band(&self, area: &Area<'_>, axis: Axis, across: &dyn Fn(f64) -> i32, up: &dyn Fn(f64) -> i32) {
        let Axis { from, to, .. } = axis;
        let factor = self.factor.max(1.0);
        let corners = [
            (from, from),
            (from, from * factor),
            (to / factor, to),
            (to, to),
            (to, to / factor),
            (from * factor, from),
        ];
        let place = |(x, y): (f64, f64)| (across(x), up(y));
        fill(area, (across(from), up(to)), (across(to), up(from)), PAPER);
        area.draw(&Polygon::new(corners.map(place).to_vec(), BAND.filled())).expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dot_is_drawn_zeroes_too_and_those_that_are_off_are_rings() {
        let dot = |x, y, is_met| Dot { x, y, is_met };
        let dots = vec![dot(10.0, 12.0, true), dot(1e6, 10.0, false), dot(0.0, 3.0, false)];
        let scatter = Scatter { groups: vec![("ping".into(), dots)], factor: 2.0, ..Scatter::default() };
        let svg = scatter.draw();
        let circles: Vec<&str> = svg.lines().filter(|line| line.starts_with("<circle")).collect();
        // One of the four circles is in the legend.
        assert_eq!(circles.len(), 4, "{svg}");
        assert_eq!(circles.iter().filter(|circle| circle.contains("fill=\"none\"")).count(), 2, "{circles:?}");
        assert!(svg.contains("ping\n") && svg.contains("1 M\n"));
    }
}
