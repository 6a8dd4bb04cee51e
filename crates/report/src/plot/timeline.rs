//! Events over time: bars on tracks, in panels below each other on one axis.

use super::canvas::{self, Anchor, Area, BAND, FAINT, Frame, Ink, Key, MARGIN, RULE, TEXT, WIDTH, fill, line, text};
use super::scale::{Axis, label};

/// Space at the left for the names of tracks, pixels.
const LEFT: i32 = 150;
/// Space above a panel for its caption and mark, pixels.
const CAPTION: i32 = 56;
/// Space below a panel, pixels.
const GAP: i32 = 14;
/// Space between tracks, pixels.
const BETWEEN: i32 = 10;
/// Space below the last panel for the axis, pixels.
const FOOT: i32 = 44;
/// Bars of one colour in a lane are joined if they are at most this many pixels apart.
const NEAR: i32 = 1;

/// An event, drawn as a bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Start of the event, in the unit of the time axis.
    pub from: f64,
    /// End of the event, in the unit of the time axis.
    pub to: f64,
    /// Color of the bar.
    pub ink: Ink,
}

/// A track of the picture: lanes with bars of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// Name of the track.
    pub name: String,
    /// Height of a lane, pixels: that of a bar and of the gap below it.
    pub height: i32,
    /// Lanes of bars. In a lane, a later bar may cover an earlier one.
    pub lanes: Vec<Vec<Bar>>,
}

/// A panel with the events of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Caption of the panel.
    pub caption: String,
    /// The part of the time axis that is highlighted, if any: its start, its end and its name.
    pub mark: Option<(f64, f64, String)>,
    /// Tracks of the panel, from the top.
    pub tracks: Vec<Track>,
}

/// A timeline of events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Title of the timeline.
    pub title: String,
    /// Notes on the picture, such as the origin of the figures.
    pub about: Vec<String>,
    /// Legend of the colors.
    pub keys: Vec<Key>,
    /// Name and unit of the horizontal quantity.
    pub across: String,
    /// Start and end of the axis.
    pub range: (f64, f64),
    /// A panel for each run.
    pub panels: Vec<Panel>,
}

impl Timeline {
    /// Returns the picture as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let frame = Frame { title: self.title.clone(), about: self.about.clone(), keys: self.keys.clone() };
        let (from, to) = self.range;
        let axis = Axis { from, to, is_log: false };
        let height = self.panels.iter().map(Panel::height).sum::<i32>() + FOOT;
        frame.draw(height, |area| {
            let mut top = 0;
            for panel in &self.panels {
                panel.draw(area, top, axis);
                top += panel.height();
            }
            for tick in axis.ticks(8) {
                let x = axis.pixel(tick, MARGIN + LEFT, WIDTH - MARGIN);
                text(area, &label(tick), (x, top + 4), &canvas::words(FAINT, 12, Anchor::Middle));
            }
            let middle = (MARGIN + LEFT + WIDTH - MARGIN) / 2;
            text(area, &self.across, (middle, top + 26), &canvas::words(FAINT, 12, Anchor::Middle));
        })
    }
}

impl Track {
    fn height(&self) -> i32 {
        (self.height * self.lanes.len() as i32).max(14) + BETWEEN
    }
}

impl Panel {
    fn height(&self) -> i32 {
        CAPTION + self.tracks.iter().map(Track::height).sum::<i32>() + GAP
    }

    fn draw(&self, area: &Area<'_>, top: i32, axis: Axis) {
        let (left, right) = (MARGIN + LEFT, WIDTH - MARGIN);
        let (first, bottom) = (top + CAPTION, top + self.height() - GAP);
        text(area, &self.caption, (MARGIN, top + 14), &canvas::bold(TEXT, 14, Anchor::Start));
        fill(area, (left, first - 4), (right, bottom), BAND);
        for tick in axis.ticks(8) {
            let x = axis.pixel(tick, left, right);
            line(area, &[(x, first - 4), (x, bottom)], RULE, 1);
        }
        let mut y = first;
        for track in &self.tracks {
            let height = track.height();
            text(area, &track.name, (left - 10, y + (height - BETWEEN) / 2), &canvas::words(TEXT, 12, Anchor::End));
            for lane in &track.lanes {
                for (from, to, ink) in joined(lane, |time| axis.pixel(time, left, right)) {
                    let gap = i32::from(track.height > 2);
                    // On tracks with high bars the smallest width of a bar is larger, so that short events are not
                    // overlooked.
                    let least = 1 + i32::from(track.height > 6);
                    fill(area, (from, y), (to.max(from + least), y + track.height - gap), ink);
                }
                y += track.height;
            }
            y += height - track.height * track.lanes.len() as i32;
        }
        if let Some((from, to, words)) = &self.mark {
            let (from, to, y) = (axis.pixel(*from, left, right), axis.pixel(*to, left, right), first - 14);
            for x in [from, to] {
                line(area, &[(x, y - 5), (x, bottom)], FAINT, 1);
            }
            line(area, &[(from, y), (to, y)], TEXT, 2);
            let middle =
                ((from + to) / 2).clamp(left + canvas::wide(words, 13) / 2, right - canvas::wide(words, 13) / 2);
            text(area, words, (middle, y - 13), &canvas::bold(TEXT, 13, Anchor::Middle));
        }
    }
}

/// Returns the bars of a lane in pixels: start, end and colour. Adjacent bars of one colour are joined.
fn joined(lane: &[Bar], place: impl Fn(f64) -> i32) -> Vec<(i32, i32, Ink)> {
    let mut found: Vec<(i32, i32, Ink)> = Vec::new();
    for bar in lane {
        let (from, to) = (place(bar.from), place(bar.to));
        match found.iter_mut().rev().find(|(.., ink)| *ink == bar.ink) {
            Some(last) if last.0 <= from && from <= last.1 + NEAR => last.1 = last.1.max(to),
            _ => found.push((from, to, bar.ink)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bars_of_one_color_are_one_and_others_are_not() {
        let bar = |from, to, n| Bar { from, to, ink: Ink::of(n) };
        let lane = [bar(0.0, 100.0, 0), bar(0.0, 1.0, 1), bar(2.0, 3.0, 1), bar(3.0, 4.0, 2), bar(90.0, 95.0, 1)];
        let found: Vec<_> = joined(&lane, |time| time as i32).into_iter().map(|(from, to, _)| (from, to)).collect();
        assert_eq!(found, [(0, 100), (0, 3), (3, 4), (90, 95)]);
    }

    #[test]
    fn tracks_and_what_is_marked_have_their_words() {
        let track = Track { name: "packets".into(), height: 8, lanes: vec![vec![]] };
        let panel = Panel {
            caption: "2.6.23-rc5".into(),
            mark: Some((2.0, 8.0, "200 ms without interrupts".into())),
            tracks: vec![track],
        };
        let svg = Timeline { range: (0.0, 10.0), panels: vec![panel], ..Timeline::default() }.draw();
        for words in ["packets\n", "2.6.23-rc5\n", "200 ms without interrupts\n"] {
            assert!(svg.contains(words), "{words} is missing: {svg}");
        }
    }
}
