//! Draws figures as lines over time or over another growing quantity. The picture has panels, one below the other, with
//! a common horizontal axis. Above the panels there may be plots with axes of their own.
//!
//! Where lines coincide, a few pixels of each line are drawn in turn, so that no line hides another. The names of a
//! run's steps stand above the panels, and the times between steps have another background colour.

use super::canvas::{
    self, Anchor, Area, BAND, FAINT, Frame, Ink, Key, MARGIN, Mark, RULE, TEXT, WIDTH, fill, line, text,
};
use super::scale::{Axis, label};
use figures::curves::{Step, Steps};

/// Height of the plot in a panel, pixels.
const HEIGHT: i32 = 170;
/// Space above a plot for its caption, pixels.
const CAPTION: i32 = 34;
/// Space below the last panel for the axis, pixels.
const FOOT: i32 = 44;
/// Space at the left for the figures of the scale, pixels.
const LEFT: i32 = 64;

/// A panel that shows one quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Subject and unit of the panel.
    pub caption: String,
    /// The points of each line. The lines have the order of their names in [`Lines::names`].
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// A plot of one panel, which has a horizontal axis of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// The plot's panel, which holds the lines.
    pub panel: Panel,
    /// Name and unit of the quantity on the horizontal axis.
    pub across: String,
}

/// A picture of several panels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// Title of the picture.
    pub title: String,
    /// Notes on the picture, such as the origin of the figures.
    pub about: Vec<String>,
    /// Names of the lines. They are the same in all panels.
    pub names: Vec<String>,
    /// Name and unit of the horizontal quantity of the panels.
    pub across: String,
    /// Panels of the picture, which have a common axis.
    pub panels: Vec<Panel>,
    /// Plots above the panels, in rows: the plots of a row stand side by side. Each plot has a horizontal axis of its
    /// own.
    pub beside: Vec<Vec<Plot>>,
    /// The steps of the run, marked on the axis of the panels.
    pub steps: Steps,
}

/// Space between the plots in a row, pixels.
const APART: i32 = 18;

/// Space above the first panel for the names of steps, pixels.
const NAMES: i32 = 22;

/// Two lines whose distance is below this number of pixels count as coinciding.
const NEAR: i32 = 2;

/// Lines that coincide are drawn in turn, so that none hides another. This is the length, in pixels, over which one
/// line is drawn before the next takes its turn. It is long enough to be seen as a dash.
const TURN: i32 = 12;

/// Returns the horizontal axis that fits the lines.
fn axis_across<'a>(lines: impl Iterator<Item = &'a Vec<(f64, f64)>>) -> Axis {
    let ends = lines
        .flatten()
        .map(|(x, _)| *x)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
    let (from, to) = if ends.0 < ends.1 { ends } else { (0.0, 1.0) };
    // A scale that would begin close to 0 begins at 0.
    Axis { from: if from < 0.2 * to && from > 0.0 { 0.0 } else { from }, to, is_log: false }
}

impl Lines {
    /// Returns the picture as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let key = |(n, name): (usize, &String)| Key { mark: Mark::Line, ink: Ink::of(n), name: name.clone() };
        let steps = &self.steps.steps;
        let between =
            (!steps.is_empty()).then(|| Key { mark: Mark::Area, ink: BAND, name: self.steps.between.clone() });
        let frame = Frame {
            title: self.title.clone(),
            about: self.about.clone(),
            keys: self.names.iter().enumerate().map(key).chain(between).collect(),
        };
        let across = axis_across(self.panels.iter().flat_map(|panel| &panel.lines));
        let above = self.beside.len() as i32 * (CAPTION + HEIGHT + FOOT) + if steps.is_empty() { 0 } else { NAMES };
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
            let (left, right) = (MARGIN + LEFT, WIDTH - MARGIN);
            for Step { name, from_s, to_s } in steps {
                let [from, to] = [from_s, to_s].map(|time| across.pixel(*time, left, right));
                // A name without enough room is left out; the names of neighbouring steps show what it must be.
                if canvas::wide(name, 12) <= to - from {
                    let at = (f64::midpoint(from.into(), to.into()) as i32, above - NAMES / 2);
                    text(area, name, at, &canvas::bold(FAINT, 12, Anchor::Middle));
                }
            }
            for (n, panel) in self.panels.iter().enumerate() {
                let bottom = above + (n as i32 + 1) * (CAPTION + HEIGHT);
                for (from, to) in between_steps(steps, across) {
                    let [from, to] = [from, to].map(|time| across.pixel(time, left, right));
                    fill(area, (from, bottom - HEIGHT), (to, bottom), BAND);
                }
                let top = above + n as i32 * (CAPTION + HEIGHT) + CAPTION;
                panel.draw(area, top, (MARGIN, WIDTH - MARGIN), (across, 8), n + 1 == self.panels.len());
            }
            let at = ((MARGIN + LEFT + WIDTH - MARGIN) / 2, height - 10);
            text(area, &self.across, at, &canvas::words(FAINT, 12, Anchor::Middle));
        })
    }
}

impl Plot {
    /// Draws the plot between a left and a right edge, with its own axis.
    fn draw(&self, area: &Area<'_>, top: i32, (left, right): (i32, i32)) {
        let across = axis_across(self.panel.lines.iter());
        self.panel.draw(area, top, (left, right), (across, 4), true);
        let at = ((left + LEFT + right) / 2, top + HEIGHT + 32);
        text(area, &self.across, at, &canvas::words(FAINT, 12, Anchor::Middle));
    }
}

impl Panel {
    /// Draws the panel between a left and a right edge. The horizontal axis, which all panels share, has about `ticks`
    /// ticks. Their values are written only below the last panel.
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
        let place = |(x, y): &(f64, f64)| (across.pixel(*x, left, right), up.pixel(*y, bottom, top));
        let lines: Vec<Vec<(i32, i32)>> = self.lines.iter().map(|points| points.iter().map(place).collect()).collect();
        // The first line is drawn last, in front of the others, since they are compared with it.
        for n in (0..lines.len()).rev() {
            for piece in in_turns(&lines, n) {
                line(area, &piece, Ink::of(n), NEAR as u32);
            }
        }
    }
}

/// Returns the stretches into which the steps of a run divide the horizontal axis: before the first step, between two
/// steps, and after the last step.
fn between_steps(steps: &[Step], across: Axis) -> Vec<(f64, f64)> {
    if steps.is_empty() {
        return Vec::new();
    }
    let begins = std::iter::once(across.from).chain(steps.iter().map(|step| step.to_s));
    let ends = steps.iter().map(|step| step.from_s).chain([across.to]);
    begins.zip(ends).filter(|(from, to)| from < to).collect()
}

/// Returns the pieces of line number `n` that are drawn. Where lines coincide, they are drawn in turns, one for each
/// stretch: line `n` is left out in the stretches in which another line is drawn.
fn in_turns(lines: &[Vec<(i32, i32)>], n: usize) -> Vec<Vec<(i32, i32)>> {
    let own = &lines[n];
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return Vec::new() };
    let has_turn = |x: i32| {
        let Some(y) = height_at(own, x) else { return false };
        let is_near = |line: &usize| height_at(&lines[*line], x).is_some_and(|it| (it - y).abs() < NEAR);
        let near: Vec<usize> = (0..lines.len()).filter(is_near).collect();
        near[(x / TURN) as usize % near.len()] == n
    };
    let mut pieces: Vec<(i32, i32)> = Vec::new();
    for x in (first.0..=last.0).filter(|x| has_turn(*x)) {
        match pieces.last_mut() {
            Some((_, end)) if *end + 1 == x => *end = x,
            _ => pieces.push((x, x)),
        }
    }
    let piece = |(from, to): (i32, i32)| -> Vec<(i32, i32)> {
        // Each piece is a pixel longer at both ends, so that steep parts stay connected.
        let (from, to) = (from - 1, to + 1);
        let cut = |x: i32| height_at(own, x).filter(|_| x > first.0 && x < last.0).map(|y| (x, y));
        let inner = own.iter().copied().filter(|(x, _)| (from..=to).contains(x));
        cut(from).into_iter().chain(inner).chain(cut(to)).collect()
    };
    pieces.into_iter().map(piece).collect()
}

/// Returns the height of a line at the horizontal position `x`; none if `x` is beyond the ends of the line.
fn height_at(line: &[(i32, i32)], x: i32) -> Option<i32> {
    let behind = line.partition_point(|point| point.0 < x);
    let (x1, y1) = *line.get(behind)?;
    if x1 == x {
        return Some(y1);
    }
    let (x0, y0) = *line.get(behind.checked_sub(1)?)?;
    Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
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
        assert!(svg.matches("stroke-width=\"2\"").count() >= 6, "{svg}");
        for word in ["reads, 1/s", "writes, 1/s", "old", "new", "time, s", "got", "pages"] {
            assert!(svg.contains(&format!("{word}\n")), "{word} is missing: {svg}");
        }
        assert_eq!(svg, lines.draw());
    }

    #[test]
    fn no_line_hides_another() {
        let same: Vec<(i32, i32)> = vec![(0, 50), (60, 50), (120, 50)];
        let apart = vec![(0, 10), (120, 10)];
        let lines = [same.clone(), same, apart.clone()];
        let width = |n: usize| -> i32 { in_turns(&lines, n).iter().map(|it| it[it.len() - 1].0 - it[0].0).sum() };
        assert_eq!(in_turns(&lines, 2), [apart]);
        assert!(width(0) > 45 && width(1) > 45, "{} and {} of 120", width(0), width(1));
        let at = |n: usize, x: i32| in_turns(&lines, n).iter().any(|it| it[0].0 <= x && x <= it[it.len() - 1].0);
        assert!((0..=120).all(|x| at(0, x) || at(1, x)), "one of them is everywhere");
        assert_eq!([height_at(&lines[0], 30), height_at(&lines[0], 121)], [Some(50), None]);
    }

    #[test]
    fn steps_have_names_and_what_is_between_another_background() {
        let step = |name: &str, from_s, to_s| Step { name: name.into(), from_s, to_s };
        let steps = vec![step("none copied", 10.0, 45.0), step("149 MiB copied", 55.0, 95.0)];
        let panel = Panel { caption: "ops".into(), lines: vec![vec![(0.0, 1.0), (100.0, 2.0)]] };
        let steps = Steps { steps, between: "it starts anew".into() };
        let svg = Lines { names: vec!["a".into()], panels: vec![panel], steps, ..Lines::default() }.draw();
        let band = format!("fill=\"#{:06X}\"", BAND.light());
        // The four areas are before, between and after the two steps, and in the legend.
        assert_eq!(svg.matches(&format!("{band} stroke")).count(), 4, "{svg}");
        for word in ["none copied", "149 MiB copied", "it starts anew"] {
            assert!(svg.contains(&format!("{word}\n")), "{word}: {svg}");
        }
    }

    #[test]
    fn a_picture_of_nothing_is_one_all_the_same() {
        assert!(Lines::default().draw().contains("</svg>"));
    }
}
