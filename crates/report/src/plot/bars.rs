//! Groups of horizontal bars, in panels below each other.

use super::canvas::{self, Anchor, Area, FAINT, Frame, Ink, Key, MARGIN, Mark, RULE, TEXT, WIDTH, fill, line, text};
use super::scale::{Axis, label};

/// Height of a bar, pixels.
const BAR: i32 = 13;
/// Space between two groups of bars, pixels.
const GAP: i32 = 10;
/// Space above a panel for its caption, pixels.
const CAPTION: i32 = 40;
/// Space below a panel for its scale, pixels.
const FOOT: i32 = 30;
/// Largest width for the names at the left, pixels.
const NAMES_MAX: i32 = 400;
/// Width for the figures at the ends of bars, pixels.
const FIGURES: i32 = 84;
/// If the largest figure of a panel is more than this many times the smallest, the panel's scale is logarithmic.
const FAR: f64 = 50.0;

/// One figure, drawn as a bar, with its printed form.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The figure, which is shown by the length of the bar.
    pub value: f64,
    /// Printed form of the figure.
    pub shown: String,
}

/// A group of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Bars of the group, in the order of the picture's [`Bars::names`]. In place of a missing figure, there is no bar.
    pub bars: Vec<Option<Bar>>,
}

/// A panel that shows one quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Subject and unit of the panel.
    pub caption: String,
    /// Groups of the panel, from the top.
    pub groups: Vec<Group>,
    /// Smallest and largest figure on the panel's scale. A bar that would be longer is cut off. If none, the scale is
    /// computed from the figures.
    pub range: Option<(f64, f64)>,
}

/// A bar chart, as a picture with one or several panels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Title of the picture.
    pub title: String,
    /// Notes on the picture, such as the origin of the figures.
    pub about: Vec<String>,
    /// Names of the bars within each group, in order.
    pub names: Vec<String>,
    /// Panels of the picture.
    pub panels: Vec<Panel>,
}

impl Bars {
    /// Returns the picture as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let key = |(n, name): (usize, &String)| Key { mark: Mark::Area, ink: Ink::of(n), name: name.clone() };
        // A single bar per group needs no legend.
        let keys = self.names.iter().enumerate().filter(|_| self.names.len() > 1).map(key).collect();
        let frame = Frame { title: self.title.clone(), about: self.about.clone(), keys };
        let names = self.panels.iter().flat_map(|panel| &panel.groups).map(|group| canvas::wide(&group.name, 12));
        let left = MARGIN + names.max().unwrap_or(0).clamp(60, NAMES_MAX) + 12;
        let height = self.panels.iter().map(Panel::height).sum();
        frame.draw(height, |area| {
            let mut top = 0;
            for panel in &self.panels {
                panel.draw(area, top, left);
                top += panel.height();
            }
        })
    }
}

impl Group {
    fn height(&self) -> i32 {
        self.bars.len() as i32 * BAR + GAP
    }
}

impl Panel {
    fn height(&self) -> i32 {
        CAPTION + self.groups.iter().map(Group::height).sum::<i32>() + FOOT
    }

    fn axis(&self) -> Axis {
        if let Some((from, to)) = self.range {
            return Axis { from, to, is_log: false };
        }
        let values = || self.groups.iter().flat_map(|group| group.bars.iter().flatten()).map(|bar| bar.value);
        let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let most = values().fold(0.0, f64::max);
        if most / least > FAR { Axis::decades(least / 2.0, most) } else { Axis::up_to(most) }
    }

    fn draw(&self, area: &Area<'_>, top: i32, left: i32) {
        let (right, axis) = (WIDTH - MARGIN - FIGURES, self.axis());
        let bottom = top + self.height() - FOOT;
        let scale = if axis.is_log { ", logarithmic scale" } else { "" };
        let caption = format!("{}{scale}", self.caption);
        text(area, &caption, (MARGIN, top + 18), &canvas::bold(TEXT, 13, Anchor::Start));
        for tick in axis.ticks(6) {
            let x = axis.pixel(tick, left, right);
            line(area, &[(x, top + CAPTION - 4), (x, bottom)], RULE, 1);
            text(area, &label(tick), (x, bottom + 11), &canvas::words(FAINT, 12, Anchor::Middle));
        }
        // Bars begin at 0, or at the beginning of a logarithmic scale.
        let begin = axis.pixel(if axis.is_log { axis.from } else { 0.0 }, left, right);
        let mut y = top + CAPTION;
        for group in &self.groups {
            let middle = y + group.bars.len() as i32 * BAR / 2;
            text(
                area,
                &fitting(&group.name, left - MARGIN - 12),
                (left - 8, middle),
                &canvas::words(TEXT, 12, Anchor::End),
            );
            for (n, bar) in group.bars.iter().enumerate() {
                if let Some(Bar { value, shown }) = bar {
                    let end = axis.pixel(*value, left, right);
                    let from = begin.min(end);
                    // A figure of 0 is drawn one pixel wide.
                    let to = begin.max(end).max(from + 1);
                    fill(area, (from, y + 1), (to, y + BAR - 1), Ink::of(n));
                    text(area, shown, (to.max(begin) + 6, y + BAR / 2), &canvas::words(FAINT, 11, Anchor::Start));
                }
                y += BAR;
            }
            y += GAP;
        }
        line(area, &[(begin, top + CAPTION - 4), (begin, bottom)], FAINT, 1);
    }
}

/// Returns a name that fits a width in pixels; the end of a long name is cut off.
fn fitting(name: &str, width: i32) -> String {
    if canvas::wide(name, 12) <= width {
        return name.to_owned();
    }
    let most = (1..name.chars().count()).rev().find(|n| canvas::wide(&name[..at(name, *n)], 12) + 12 <= width);
    format!("{}…", &name[..at(name, most.unwrap_or(1))])
}

/// Returns the byte offset of character number `n` in a text.
fn at(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, values: &[f64]) -> Group {
        let bar = |value: &f64| Some(Bar { value: *value, shown: format!("{value} ms") });
        Group { name: name.into(), bars: values.iter().map(bar).collect() }
    }

    #[test]
    fn every_figure_has_a_bar_and_its_number() {
        let panel =
            Panel { caption: "rtt max, ms".into(), groups: vec![group("as it is", &[187.0, 0.9])], range: None };
        let bars = Bars { names: vec!["old".into(), "new".into()], panels: vec![panel], ..Bars::default() };
        let svg = bars.draw();
        for words in ["187 ms\n", "0.9 ms\n", "as it is\n", "rtt max, ms, logarithmic scale\n", "old\n"] {
            assert!(svg.contains(words), "{words} is missing: {svg}");
        }
    }

    #[test]
    fn figures_of_one_size_have_an_even_scale_from_nothing() {
        let panel = Panel { groups: vec![group("a", &[3.0, 4.0])], ..Panel::default() };
        assert_eq!(panel.axis(), Axis::up_to(4.0));
    }

    #[test]
    fn names_that_are_too_long_are_cut() {
        let name = fitting(&"väl".repeat(40), 100);
        assert!(name.ends_with('…') && canvas::wide(&name, 12) <= 112, "{name}");
        assert_eq!(fitting("short", 100), "short");
    }
}
