//! Parts that all pictures share: colours for light and dark pages, a title, a legend, text.
//!
//! A picture is drawn in the colours of a light page. If the reader prefers a dark page, the picture's style sheet
//! replaces each colour by its counterpart for dark pages. Therefore every colour has one meaning, and each meaning has
//! its own colour.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontFamily, FontStyle, IntoFont as _, RGBColor, ShapeStyle, TextStyle};

/// Width of every picture, pixels.
pub const WIDTH: i32 = 960;

/// Space around the contents of a picture, pixels.
pub const MARGIN: i32 = 16;

/// Height of a line in the legend, pixels.
const LEGEND_LINE: i32 = 20;

/// A color as two RGB values: the first for a light background, the second for a dark one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink(u32, u32);

/// The colour of the background of pictures.
pub const PAPER: Ink = Ink(0xff_ff_ff, 0x0d_11_17);
/// The colour of text and of important lines.
pub const TEXT: Ink = Ink(0x1f_23_28, 0xe6_ed_f3);
/// The colour of explanatory text.
pub const FAINT: Ink = Ink(0x59_63_6e, 0x91_98_a1);
/// The colour of the lines of scales, such as axes and ticks.
pub const RULE: Ink = Ink(0xd1_d9_e0, 0x3d_44_4d);
/// Colour of areas in the background, behind more important parts of a picture.
pub const BAND: Ink = Ink(0xee_f1_f4, 0x1c_21_28);

/// Colours of series. A series is all lines or bars that have the same name. The colours are readable on light and dark
/// pages, and by readers who cannot tell red from green.
pub const SERIES: [Ink; 7] = [
    Ink(0xbc_4c_00, 0xf0_88_3e),
    Ink(0x09_69_da, 0x44_93_f8),
    Ink(0x1a_7f_37, 0x3f_b9_50),
    Ink(0x82_50_df, 0xab_7d_f8),
    Ink(0xbf_39_89, 0xf7_78_ba),
    Ink(0x9a_67_00, 0xd2_99_22),
    Ink(0x1b_7c_83, 0x39_c5_cf),
];

impl Ink {
    /// Returns the colour of series number `n`; colours repeat after the last one.
    #[must_use]
    pub const fn of(n: usize) -> Self {
        SERIES[n % SERIES.len()]
    }

    /// Returns the colour on a light page, as red, green and blue in one number.
    #[must_use]
    pub const fn light(self) -> u32 {
        self.0
    }

    /// Returns the colour on a dark page, as red, green and blue in one number.
    #[must_use]
    pub const fn dark(self) -> u32 {
        self.1
    }

    /// Returns the colour on a light page, as the colour type of the drawing library.
    #[must_use]
    pub const fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.0.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// Returns the style of an area filled with the colour.
    #[must_use]
    pub fn filled(self) -> ShapeStyle {
        self.rgb().filled()
    }

    /// Returns the style of a line that has this colour and is `width` pixels wide.
    #[must_use]
    pub fn line(self, width: u32) -> ShapeStyle {
        self.rgb().stroke_width(width)
    }
}

/// Returns every colour that pictures use.
pub fn all_inks() -> impl Iterator<Item = Ink> {
    [PAPER, TEXT, FAINT, RULE, BAND].into_iter().chain(SERIES)
}

/// The area that a picture is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The part of a text that is placed at the given coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The beginning of the text lies at the coordinates.
    Start,
    /// The middle of the text lies at the coordinates.
    Middle,
    /// The end of the text lies at the coordinates.
    End,
}

/// Returns the style of a text with `size` in pixels.
#[must_use]
pub fn words(ink: Ink, size: i32, anchor: Anchor) -> TextStyle<'static> {
    let across = match anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    // The drawing library divides sizes by 1.24.
    let font = (FontFamily::SansSerif, f64::from(size) * 1.24).into_font();
    TextStyle { font, color: ink.rgb().to_backend_color(), pos: Pos::new(across, VPos::Center) }
}

/// Returns the style of a bold text with `size` in pixels.
#[must_use]
pub fn bold(ink: Ink, size: i32, anchor: Anchor) -> TextStyle<'static> {
    let mut style = words(ink, size, anchor);
    style.font = style.font.style(FontStyle::Bold);
    style
}

/// The symbol that stands for a series, in the picture and in its legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The symbol is a line.
    Line,
    /// The symbol is a filled area.
    Area,
    /// The symbol is a point.
    Point,
}

/// An entry of a legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Symbol of the series, which the legend explains.
    pub mark: Mark,
    /// Colour of the series, which the legend explains.
    pub ink: Ink,
    /// Name of the series, as the legend shows it.
    pub name: String,
}

/// The title, notes and legend of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Title of the picture.
    pub title: String,
    /// Notes on the picture, such as the origin of the figures.
    pub about: Vec<String>,
    /// Entries of the legend.
    pub keys: Vec<Key>,
}

/// The reason why drawing into a string cannot fail, for use in panic messages.
const WRITES: &str = "a string takes everything";

impl Frame {
    /// Draws title, notes and legend, and calls `body` to draw below them on an area with the height `height`. Returns
    /// the SVG.
    #[must_use]
    pub fn draw(&self, height: i32, body: impl FnOnce(&Area<'_>)) -> String {
        let rows = self.legend();
        let about: Vec<String> = self.about.iter().flat_map(|line| broken(line, WIDTH - 2 * MARGIN)).collect();
        let head = MARGIN + 26 + 17 * about.len() as i32 + LEGEND_LINE * rows.len() as i32 + 6;
        let size = (WIDTH as u32, (head + height + MARGIN) as u32);
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&PAPER.rgb()).expect(WRITES);
            text(&root, &self.title, (MARGIN, MARGIN + 8), &bold(TEXT, 17, Anchor::Start));
            for (n, line) in about.iter().enumerate() {
                text(&root, line, (MARGIN, MARGIN + 30 + 17 * n as i32), &words(FAINT, 12, Anchor::Start));
            }
            let top = head - LEGEND_LINE * rows.len() as i32 - 2;
            for (n, row) in rows.iter().enumerate() {
                let y = top + LEGEND_LINE * n as i32 + LEGEND_LINE / 2;
                for (key, x) in row {
                    key.draw(&root, *x, y);
                }
            }
            let (_, below) = root.split_vertically(head);
            body(&below.margin(0, MARGIN, 0, 0));
            root.present().expect(WRITES);
        }
        styled(&svg, &self.title)
    }

    /// Returns the rows of the legend. A row is a list of entries. With each entry comes its horizontal position in the
    /// picture, pixels.
    fn legend(&self) -> Vec<Vec<(&Key, i32)>> {
        let mut rows: Vec<Vec<(&Key, i32)>> = Vec::new();
        let mut x = WIDTH;
        for key in &self.keys {
            let width = 30 + wide(&key.name, 13) + 22;
            if x + width > WIDTH - MARGIN {
                rows.push(Vec::new());
                x = MARGIN;
            }
            rows.last_mut().expect("the first key begins a row").push((key, x));
            x += width;
        }
        rows
    }
}

impl Key {
    fn draw(&self, area: &Area<'_>, x: i32, y: i32) {
        match self.mark {
            Mark::Line => line(area, &[(x, y), (x + 22, y)], self.ink, 3),
            Mark::Area => fill(area, (x + 4, y - 6), (x + 20, y + 6), self.ink),
            Mark::Point => point(area, (x + 14, y), self.ink, true),
        }
        text(area, &self.name, (x + 29, y), &words(TEXT, 13, Anchor::Start));
    }
}

/// Returns the width of a text, pixels. The width is approximate, since sans-serif fonts differ.
#[must_use]
pub fn wide(text: &str, size: i32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.62).ceil() as i32
}

/// Returns a text broken into lines, each at most about `width` pixels wide.
fn broken(text: &str, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if wide(line, 12) + wide(word, 12) < width => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Draws a text. `at` is the place of the style's anchor (the beginning, middle or end of the text), at half of the
/// text's height.
pub fn text(area: &Area<'_>, words: &str, at: (i32, i32), style: &TextStyle<'_>) {
    area.draw(&Text::new(words.to_owned(), at, style.clone())).expect(WRITES);
}

/// Draws a line through `points`.
pub fn line(area: &Area<'_>, points: &[(i32, i32)], ink: Ink, width: u32) {
    area.draw(&PathElement::new(points.to_vec(), ink.line(width))).expect(WRITES);
}

/// Fills the rectangle whose opposite corners are `from` and `to`.
pub fn fill(area: &Area<'_>, from: (i32, i32), to: (i32, i32), ink: Ink) {
    area.draw(&Rectangle::new([from, to], ink.filled())).expect(WRITES);
}

/// Draws a point: a disc if it is filled, otherwise a ring.
pub fn point(area: &Area<'_>, at: (i32, i32), ink: Ink, is_filled: bool) {
    let style = if is_filled { ink.filled() } else { ink.line(2) };
    area.draw(&Circle::new(at, 4, style)).expect(WRITES);
}

/// Returns `svg` with two additions: a title for screen readers, and style rules with the colours for browsers in dark
/// mode.
fn styled(svg: &str, title: &str) -> String {
    let rules = all_inks().map(|Ink(light, dark)| {
        format!("[fill=\"#{light:06X}\"]{{fill:#{dark:06x}}}[stroke=\"#{light:06X}\"]{{stroke:#{dark:06x}}}")
    });
    let escaped = title.replace('&', "&amp;").replace('<', "&lt;");
    let head = format!(
        "<title>{escaped}</title>\n<style>text{{font-family:system-ui,\"Segoe UI\",\"DejaVu Sans\",sans-serif}}\
         @media(prefers-color-scheme:dark){{{}}}</style>\n",
        rules.collect::<String>()
    );
    let (open, rest) = svg.split_once(">\n").expect("the first element is open");
    format!("{open}>\n{head}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_title_a_legend_and_colors_for_dark_pages() {
        let key = |n| Key { mark: Mark::Line, ink: Ink::of(n), name: format!("kernel {n}") };
        let frame = Frame { title: "a < b & c".into(), about: vec!["seed 1".into()], keys: vec![key(0), key(1)] };
        let svg = frame.draw(100, |area| line(area, &[(0, 0), (10, 10)], TEXT, 1));
        assert!(svg.starts_with("<svg ") && svg.contains("<title>a &lt; b &amp; c</title>"), "{svg}");
        assert!(svg.contains("kernel 1") && svg.contains("seed 1"), "{svg}");
        // Every colour in the drawing has a counterpart for dark pages.
        for part in svg.split("=\"#").skip(1) {
            let ink = &part[..6];
            assert!(svg.contains(&format!("[fill=\"#{ink}\"]")), "{ink} has none: {svg}");
        }
    }

    #[test]
    fn no_two_meanings_have_one_color() {
        let inks: Vec<Ink> = all_inks().collect();
        for (n, ink) in inks.iter().enumerate() {
            assert!(inks[..n].iter().all(|other| other.0 != ink.0), "{ink:?}");
        }
    }

    #[test]
    fn a_long_line_is_broken_between_words() {
        let lines = broken(&"word ".repeat(40), 300);
        assert!(lines.len() > 1 && lines.iter().all(|line| wide(line, 12) <= 300), "{lines:?}");
    }

    #[test]
    fn a_long_legend_has_several_rows() {
        let key = |n: usize| Key { mark: Mark::Area, ink: Ink::of(n), name: "a-kernel-with-a-name".into() };
        let frame = Frame { keys: (0..9).map(key).collect(), ..Frame::default() };
        let rows = frame.legend();
        assert!(rows.len() > 1);
        assert_eq!(rows.iter().map(Vec::len).sum::<usize>(), 9);
    }
}
