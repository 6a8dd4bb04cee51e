//! Figures over time, or over anything that grows: panels below each other on one axis, and above them such with their own.

use super::canvas::{self, Anchor, Area, FAINT, Frame, Ink, Key, MARGIN, Mark, RULE, TEXT, WIDTH, line, text};
use super::scale::{Axis, label};

/// Height of a panel's plot, pixels.
const HEIGHT: i32 = 170;
/// Above it, for its caption.
const CAPTION: i32 = 34;
/// Below the last panel, for the axis.
const FOOT: i32 = 44;
/// Left of it, for the figures of its scale.
const LEFT: i32 = 64;

/// One quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// What it is, and its unit.
    pub caption: String,
    /// Points of each line, in the order of the names.
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// A quantity over something of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// The quantity.
    pub panel: Panel,
    /// What grows to the right, and its unit.
    pub across: String,
}

/// A picture of several quantities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// What a reader must know.
    pub about: Vec<String>,
    /// What the lines are, the same in each panel.
    pub names: Vec<String>,
    /// What grows to the right, and its unit.
    pub across: String,
    /// The quantities.
    pub panels: Vec<Panel>,
    /// Above them, quantities over something of their own: rows of those that stand beside each other.
    pub beside: Vec<Vec<Plot>>,
}

/// Between plots beside each other, pixels.
const APART: i32 = 18;

/// What grows to the right in these lines.
fn axis_across<'a>(lines: impl Iterator<Item = &'a Vec<(f64, f64)>>) -> Axis {
    let ends = lines
        .flatten()
        .map(|(x, _)| *x)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
    let (from, to) = if ends.0 < ends.1 { ends } else { (0.0, 1.0) };
    // A scale that nearly begins at nothing begins there.
    Axis { from: if from < 0.2 * to && from > 0.0 { 0.0 } else { from }, to, is_log: false }
}

impl Lines {
    /// The picture as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let key = |(n, name): (usize, &String)| Key { mark: Mark::Line, ink: Ink::of(n), name: name.clone() };
        let frame = Frame {
            title: self.title.clone(),
            about: self.about.clone(),
            keys: self.names.iter().enumerate().map(key).collect(),
        };
        let across = axis_across(self.panels.iter().flat_map(|panel| &panel.lines));
        let above = self.beside.len() as i32 * (CAPTION + HEIGHT + FOOT);
        let height = above + self.panels.len() as i32 * (CAPTION + HEIGHT) + FOOT;
        frame.draw(height, |area| {
            for (n, row) in self.beside.iter().enumerate() {
                let top = n as i32 * (CAPTION + HEIGHT + FOOT) + CAPTION;
                let width = (WIDTH - 2 * MARGIN + APART) / row.len().max(1) as i32;
                for (n, plot) in row.iter().enumerate() {
                    let left = MARGIN + n as i32 * width;
                    plot.draw(area, top, (left, left + width - APART));
                }
            }
            for (n, panel) in self.panels.iter().enumerate() {
                let top = above + n as i32 * (CAPTION + HEIGHT) + CAPTION;
                panel.draw(area, top, (MARGIN, WIDTH - MARGIN), (across, 8), n + 1 == self.panels.len());
            }
            let at = ((MARGIN + LEFT + WIDTH - MARGIN) / 2, height - 10);
            text(area, &self.across, at, &canvas::words(FAINT, 12, Anchor::Middle));
        })
    }
}

impl Plot {
    /// Draws it between two edges, with its axis.
    fn draw(&self, area: &Area<'_>, top: i32, (left, right): (i32, i32)) {
        let across = axis_across(self.panel.lines.iter());
        self.panel.draw(area, top, (left, right), (across, 4), true);
        let at = ((left + LEFT + right) / 2, top + HEIGHT + 32);
        text(area, &self.across, at, &canvas::words(FAINT, 12, Anchor::Middle));
    }
}

impl Panel {
    /// Draws it between two edges, with about so many ticks on the axis that it shares; their figures stand below the last.
    fn draw(&self, area: &Area<'_>, top: i32, edges: (i32, i32), (across, ticks): (Axis, usize), is_last: bool) {
        let (left, right, bottom) = (edges.0 + LEFT, edges.1, top + HEIGHT);
        text(area, &self.caption, (edges.0, top - 16), &canvas::bold(TEXT, 13, Anchor::Start));
        let most = self.lines.iter().flatten().map(|(_, y)| *y).fold(0.0, f64::max);
        let up = Axis::up_to(most);
        for tick in up.ticks(4) {
            let y = up.pixel(tick, bottom, top);
            line(area, &[(left, y), (right, y)], RULE, 1);
            text(area, &label(tick), (left - 8, y), &canvas::words(FAINT, 12, Anchor::End));
        }
        for tick in across.ticks(ticks) {
            let x = across.pixel(tick, left, right);
            line(area, &[(x, bottom), (x, bottom + 5)], FAINT, 1);
            if is_last {
                text(area, &label(tick), (x, bottom + 15), &canvas::words(FAINT, 12, Anchor::Middle));
            }
        }
        line(area, &[(left, bottom), (right, bottom)], FAINT, 1);
        // The first stands in front: it is what others are compared with.
        for (n, points) in self.lines.iter().enumerate().rev() {
            let place = |(x, y): &(f64, f64)| (across.pixel(*x, left, right), up.pixel(*y, bottom, top));
            let points: Vec<(i32, i32)> = points.iter().map(place).collect();
            line(area, &points, Ink::of(n), 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_drawn_in_each_panel() {
        let panel = |caption: &str| Panel {
            caption: caption.into(),
            lines: vec![vec![(0.0, 1.0), (10.0, 20.0)], vec![(0.0, 3.0), (9.0, 4.0)]],
        };
        let lines = Lines {
            title: "t".into(),
            names: vec!["old".into(), "new".into()],
            across: "time, s".into(),
            panels: vec![panel("reads, 1/s"), panel("writes, 1/s")],
            beside: vec![vec![Plot { panel: panel("got"), across: "pages".into() }]],
            ..Lines::default()
        };
        let svg = lines.draw();
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 6, "{svg}");
        for word in ["reads, 1/s", "writes, 1/s", "old", "new", "time, s", "got", "pages"] {
            assert!(svg.contains(&format!("{word}\n")), "{word} is missing: {svg}");
        }
        assert_eq!(svg, lines.draw());
    }

    #[test]
    fn a_picture_of_nothing_is_one_all_the_same() {
        assert!(Lines::default().draw().contains("</svg>"));
    }
}
