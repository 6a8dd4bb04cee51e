//! Tables of text cells for people: aligned, at most as wide as the screen, and in colour on a terminal.
//!
//! Columns that do not fit side by side go into blocks below each other. Each block repeats the first columns. Output
//! to a file or a pipe has a fixed width and no colours, so that it depends only on the figures.

use kit::shown::harmless;
use std::borrow::Cow;
use std::io::{IsTerminal, stdout};

use terminal_size::{Height, Width, terminal_size_of};

use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, presets};

/// Width of output to a file or a pipe, characters.
pub const FIXED_WIDTH: u16 = 100;

/// Height of the screen for which output to a file or a pipe is made, lines. Terminals open with 24 to 50 lines, and a
/// laptop's screen shows 40.
pub const FIXED_HEIGHT: u16 = 40;

/// Number of blanks between two columns.
const GAP: u16 = 2;

/// Smallest width, in characters, to which a text column is narrowed by breaking its lines. The other columns keep
/// their widths.
const LEAST: usize = 20;

/// Smallest width, in characters, of the text that [`hanging`] puts to the right of `lead`; with less room, the text
/// begins on a new line. On a screen narrower than twice this number, the smallest width is half of the screen.
const BESIDE: usize = 40;

/// Size and colours of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Length of the longest line, characters.
    pub width: u16,
    /// Number of lines that a short report should have at most.
    pub height: u16,
    /// True if colours are used.
    pub is_colored: bool,
    /// True if the output goes to a terminal.
    pub is_terminal: bool,
}

impl Default for Look {
    /// Returns the look of output to a file or a pipe.
    fn default() -> Self {
        Self { width: FIXED_WIDTH, height: FIXED_HEIGHT, is_colored: false, is_terminal: false }
    }
}

impl Look {
    /// Returns the look of standard output. A terminal has its own width and height, and colours unless `NO_COLOR` or
    /// `TERM=dumb` turns them off. The last line of a terminal is left for the shell's prompt.
    #[must_use]
    pub fn of_stdout() -> Self {
        if !stdout().is_terminal() {
            return Self::default();
        }
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let size = terminal_size_of(stdout()).map(|(Width(width), Height(height))| (width, height));
        let width = size.map(|(width, _)| width).filter(|width| *width > 0).unwrap_or(FIXED_WIDTH);
        let height = size.map(|(_, height)| height).filter(|height| *height > 0).map_or(FIXED_HEIGHT, |it| it - 1);
        Self { width, height, is_colored: !is_set("NO_COLOR") && !is_dumb, is_terminal: true }
    }
}

/// The meaning of a cell, which its colour shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// The cell has none of the other meanings.
    #[default]
    Plain,
    /// The cell is a heading.
    Heading,
    /// The cell's value is better than the baseline's.
    Better,
    /// The cell's value is worse than the baseline's.
    Worse,
    /// The cell is less important than its neighbours.
    Faint,
}

/// A cell of a [`Grid`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Text of the cell. Line breaks make several lines.
    pub text: String,
    /// Tone of the cell.
    pub tone: Tone,
    /// True if the cell is the best of its line. Pages mark such a cell; text does not.
    pub is_best: bool,
}

impl Cell {
    /// Makes a cell. Control characters that would act on a terminal are replaced.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        let text = match harmless(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(text) => text,
        };
        Self { text, tone, is_best: false }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table of text cells, in lines and columns. If it is too wide, [`Grid::render`] divides the columns into blocks,
/// which stand below each other.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Number of columns at the left that every block repeats, if the grid is too wide for one block.
    pub keys: usize,
    /// The cells of the heading, which every block repeats.
    pub head: Vec<Cell>,
    /// The lines below the head. Cells that are missing at the end of a line are empty.
    pub lines: Vec<Vec<Cell>>,
    /// Indices of the columns that hold text. Other columns hold figures, which are aligned to the right.
    pub texts: Vec<usize>,
}

impl Grid {
    /// Returns the grid as text, with a line break at the end of each line.
    #[must_use]
    pub fn render(&self, look: Look) -> String {
        let blocks = self.blocks(self.columns(), look.width);
        let blocks: Vec<String> = blocks.iter().map(|block| self.block(block, look)).collect();
        blocks.join("\n")
    }

    /// Repeats the baseline, which is the first column after the keys, in every block of the grid. Does nothing if the
    /// widest other column would not fit into `width` beside the keys and the baseline.
    #[must_use]
    pub fn with_baseline(mut self, width: u16) -> Self {
        let widths: Vec<usize> = (0..self.columns()).map(|column| self.width(column)).collect();
        let (keys, others) = widths.split_at((self.keys + 1).min(widths.len()));
        let wanted = |widest: &usize| keys.iter().sum::<usize>() + keys.len() * usize::from(GAP) + widest;
        if others.iter().max().is_some_and(|widest| wanted(widest) <= usize::from(width)) {
            self.keys += 1;
        }
        self
    }

    /// Returns the number of columns in the grid.
    fn columns(&self) -> usize {
        self.lines.iter().map(Vec::len).chain([self.head.len()]).max().unwrap_or(0)
    }

    /// Divides the columns into blocks that fit into `width`. Returns the indices of the columns in each block.
    fn blocks(&self, columns: usize, width: u16) -> Vec<Vec<usize>> {
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let of = |block: &[usize]| block.iter().map(|column| widths[*column]).sum::<usize>();
        let keys: Vec<usize> = (0..self.keys.min(columns)).collect();
        let mut blocks = vec![keys.clone()];
        for (column, own) in widths.iter().enumerate().skip(keys.len()) {
            let block = blocks.last_mut().expect("there is one from the start");
            let gaps = block.len() * usize::from(GAP);
            if block.len() > keys.len() && of(block) + gaps + own > usize::from(width) {
                blocks.push(keys.clone());
            }
            blocks.last_mut().expect("there is one from the start").push(column);
        }
        blocks
    }

    /// Returns the length of the longest line in a column, characters.
    fn width(&self, column: usize) -> usize {
        let cells = self.lines.iter().chain([&self.head]).filter_map(|line| line.get(column));
        cells.flat_map(|cell| cell.text.lines()).map(|line| line.chars().count()).max().unwrap_or(0)
    }

    /// Returns the column whose text is wrapped to fit a block of `columns` into `width`: the widest of the text
    /// columns. Returns none if the block would not fit even with this column wrapped.
    fn breaks(&self, columns: &[usize], width: u16) -> Option<usize> {
        let widest = columns.iter().copied().filter(|it| self.texts.contains(it)).max_by_key(|it| self.width(*it))?;
        let others =
            columns.iter().filter(|column| **column != widest).map(|column| self.width(*column)).sum::<usize>();
        let gaps = columns.len() * usize::from(GAP);
        (others + gaps + LEAST <= usize::from(width)).then_some(widest)
    }

    fn block(&self, columns: &[usize], look: Look) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_width(look.width);
        if look.is_colored {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let cells = |line: &[Cell]| -> Vec<comfy_table::Cell> {
            columns.iter().map(|column| shown(line.get(*column), look)).collect()
        };
        if self.head.iter().any(|cell| !cell.text.is_empty()) {
            table.set_header(cells(&self.head));
        }
        table.add_rows(self.lines.iter().map(|line| cells(line)));
        let gaps = columns.len().saturating_sub(1) * usize::from(GAP);
        let wanted = columns.iter().map(|column| self.width(*column)).sum::<usize>() + gaps;
        let fits = wanted <= usize::from(look.width);
        table.set_content_arrangement(if fits { ContentArrangement::Disabled } else { ContentArrangement::Dynamic });
        let breaks = self.breaks(columns, look.width);
        for (place, (column, shape)) in columns.iter().zip(table.column_iter_mut()).enumerate() {
            shape.set_padding((0, if place + 1 < columns.len() { GAP } else { 0 }));
            let is_text = self.texts.contains(column);
            if !is_text {
                shape.set_cell_alignment(CellAlignment::Right);
            }
            // Text columns are made narrower first, so that no figure and no name is cut in two.
            if !fits && (!is_text || breaks.is_some_and(|breaks| breaks != *column)) {
                let gap = if place + 1 < columns.len() { GAP } else { 0 };
                let width = u16::try_from(self.width(*column)).unwrap_or(u16::MAX).min(look.width / 2) + gap;
                shape.set_constraint(ColumnConstraint::LowerBoundary(comfy_table::Width::Fixed(width)));
            }
        }
        table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

fn shown(cell: Option<&Cell>, look: Look) -> comfy_table::Cell {
    let Some(Cell { text, tone, .. }) = cell else { return comfy_table::Cell::new("") };
    let shown = comfy_table::Cell::new(text);
    match tone {
        _ if !look.is_colored => shown,
        Tone::Plain => shown,
        Tone::Heading => shown.add_attribute(Attribute::Bold),
        Tone::Better => shown.fg(Color::Green),
        Tone::Worse => shown.fg(Color::Red),
        Tone::Faint => shown.add_attribute(Attribute::Dim),
    }
}

/// Returns `lead` followed by a text that is broken between words at the width of the screen. The second and later
/// lines are indented so that they begin below the text's first word. If little room is left to the right of `lead`,
/// the text begins on a new line, indented by four blanks.
#[must_use]
pub fn hanging(lead: &str, text: &str, look: Look) -> String {
    let (lead, text) = (&*harmless(lead), &*harmless(text));
    let own = lead.chars().count();
    let (width, margin) = (usize::from(look.width), lead.chars().take_while(|it| *it == ' ').count() + 4);
    let room = width.saturating_sub(own);
    let begins_below = room < BESIDE.min(width / 2) && text.chars().count() > room && margin + LEAST <= width;
    let indent = if begins_below { margin } else { own };
    let mut lines = if begins_below { vec![lead.trim_end().to_owned()] } else { Vec::new() };
    let mut line = if begins_below { " ".repeat(indent) } else { lead.to_owned() };
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let gap = usize::from(!is_empty);
        if !is_empty && line.chars().count() + gap + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
        } else if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Returns `text` with its lines broken at the width of the screen. `text` has paragraphs, separated by empty lines.
#[must_use]
pub fn prose(text: &str, look: Look) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| hanging("", paragraph, look));
    paragraphs.collect::<Vec<_>>().join("\n")
}

/// Returns a single paragraph broken between words at the width of the screen.
#[must_use]
pub fn wrapped(text: &str, look: Look) -> String {
    let text = &*harmless(text);
    if text.chars().count() <= usize::from(look.width) {
        return format!("{text}\n");
    }
    let line = vec![Cell::from(text)];
    Grid { keys: 1, lines: vec![line], texts: vec![0], ..Grid::default() }.render(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_hangs_behind_its_lead_or_below_it() {
        let look = |width| Look { width, ..Look::default() };
        let text = "which page goes next, and when it goes";
        assert_eq!(hanging("  a  ", text, look(60)), "  a  which page goes next, and when it goes\n");
        assert_eq!(hanging("  a  ", text, look(26)), "  a  which page goes next,\n     and when it goes\n");
        assert_eq!(
            hanging("  a long name  ", text, look(28)),
            "  a long name\n      which page goes next,\n      and when it goes\n"
        );
        assert_eq!(hanging("  a", "", look(60)), "  a\n");
        assert_eq!(hanging("\u{1b}[1ma ", "b\u{7}", look(60)), "\u{fffd}[1ma b\u{fffd}\n");
        assert_eq!(wrapped("a\u{1b}c", look(60)), "a\u{fffd}c\n");
        assert_eq!(Cell::from("a\u{1b}c").text, "a\u{fffd}c");
        assert_eq!(prose("one\ntwo\n\nthree\n", look(60)), "one two\n\nthree\n");
    }

    fn look(width: u16) -> Look {
        Look { width, ..Look::default() }
    }

    fn grid() -> Grid {
        let line = |cells: [&str; 5]| cells.map(Cell::from).to_vec();
        Grid {
            keys: 2,
            head: line(["", "unit", "vanilla", "patched", "other"]),
            lines: vec![
                line(["pages scanned", "pages", "100", "20", "3"]),
                vec![],
                line(["time", "s", "1.50", "2", ""]),
            ],
            texts: vec![0, 1],
        }
    }

    #[test]
    fn the_baseline_is_in_every_block_where_it_leaves_room() {
        let heads = |width| -> Vec<String> {
            let text = grid().with_baseline(width).render(look(width));
            let heads = text.lines().filter(|line| line.trim_start().starts_with("unit"));
            heads.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(heads(80), ["unit vanilla patched other"]);
        assert_eq!(heads(40), ["unit vanilla patched", "unit vanilla other"]);
        assert_eq!(heads(37), ["unit vanilla", "unit patched other"]);
    }

    #[test]
    fn figures_end_below_each_other() {
        let expected = [
            "               unit   vanilla  patched  other",
            "pages scanned  pages      100       20      3",
            "",
            "time           s         1.50        2",
        ];
        assert_eq!(grid().render(look(80)).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn columns_that_do_not_fit_stand_in_another_block() {
        let expected = [
            "               unit   vanilla",
            "pages scanned  pages      100",
            "",
            "time           s         1.50",
            "",
            "               unit   patched  other",
            "pages scanned  pages       20      3",
            "",
            "time           s            2",
        ];
        assert_eq!(grid().render(look(37)).lines().collect::<Vec<_>>(), expected);
        for width in 12..60 {
            let text = grid().render(look(width));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{widest} of {width}:\n{text}");
        }
    }

    #[test]
    fn colours_take_no_room() {
        let mut grid = grid();
        grid.lines[0][3].tone = Tone::Better;
        grid.head[3].tone = Tone::Heading;
        let text = grid.render(Look { width: 80, is_colored: true, ..Look::default() });
        assert!(text.contains("\u{1b}[38;5;10m"), "{text:?}");
        let mut plain = String::new();
        let mut parts = text.split('\u{1b}');
        plain.push_str(parts.next().unwrap());
        parts.for_each(|part| plain.push_str(part.split_once('m').unwrap().1));
        let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
        assert_eq!(trimmed, grid.render(look(80)).lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_long_text_is_broken_before_names_and_figures_are() {
        let line = vec![Cell::from("reclaim.kswapd_floor=one"), Cell::from("100%"), Cell::from("a source ".repeat(20))];
        let grid = Grid { keys: 3, lines: vec![line], texts: vec![0, 2], ..Grid::default() };
        let text = grid.render(look(60));
        assert!(text.starts_with("reclaim.kswapd_floor=one  100%  a source"), "{text}");
        assert!(text.lines().count() > 4 && text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn a_long_line_is_broken_between_words() {
        assert_eq!(wrapped("seed 1 · machine m", look(10)), "seed 1 ·\nmachine m\n");
        assert_eq!(wrapped("seed 1", look(10)), "seed 1\n");
    }
}
