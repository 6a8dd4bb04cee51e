//! Physical memory over time. Each run has a strip in which time goes to the right and frame numbers go upwards. Below
//! the strip is a map of pageblocks for each moment that the run marked with a name.

use super::canvas::{self, Anchor, Area, BAND, FAINT, Frame, Ink, Key, MARGIN, Mark, TEXT, WIDTH, fill, line, text};
use super::scale::{Axis, label};
use crate::table::Table;
use catalogue::experiment::Experiment;
use figures::memory_map::{Moment, Most, RunMemory};

/// Space at the left of a strip (the memory of one run over time) for memory sizes, pixels.
const LEFT: i32 = 50;
/// Space above a strip for its caption, pixels.
const CAPTION: i32 = 28;
/// Space below each strip, pixels.
const GAP: i32 = 12;
/// Space below the last strip for the axis, pixels.
const FOOT: i32 = 44;
/// Width of a cell in a strip, pixels.
const CELL: i32 = 4;
/// Width of a cell in a strip (the memory of one run over time) in a picture of several variants, pixels.
const SMALL_CELL: i32 = 3;
/// Largest height of a strip, pixels.
const HEIGHT: i32 = 192;
/// Largest number of cells that stand above each other in a strip.
const ROWS: usize = 64;
/// Height of each strip in a picture of several variants, pixels.
const SMALL_HEIGHT: i32 = 72;
/// Largest number of rows of cells in each strip, in a picture of several variants.
const SMALL_ROWS: usize = 36;
/// Space above a strip for its caption, if the picture shows several variants, pixels.
const SMALL_CAPTION: i32 = 20;
/// Space below a strip, if the picture shows several variants, pixels.
const SMALL_GAP: i32 = 6;
/// Distance from the left edge of one map (the pageblocks at one moment) to the left edge of the next, pixels.
const MAP: i32 = ACROSS as i32 * CELL + APART;
/// Space between the maps of two marked moments, pixels.
const APART: i32 = 12;
/// Number of pageblocks in a row of a map.
const ACROSS: usize = 36;
/// Height of the line of text that names the moment that a map shows, pixels.
const MARK_LINE: i32 = 18;
/// Size of a pageblock, MiB.
const BLOCK_MIB: f64 = 2.0;
/// Name of the time axis for simulated runs.
const VIRTUAL_TIME: &str = "virtual time, s";

/// Returns an SVG picture of the contents of physical memory over time, with a strip for each run of the table that has
/// the table's first seed.
#[must_use]
pub fn picture(experiment: &Experiment, table: &Table, runs: &[RunMemory]) -> String {
    let seed = table.seeds.first().copied();
    let runs: Vec<&RunMemory> = runs.iter().filter(|run| Some(run.seed) == seed).collect();
    let mut about = vec![
        experiment.about.clone(),
        table.footer(),
        "A cell is what more than half of most of its pageblocks is. Low frames are at the bottom.".to_owned(),
    ];
    if table.seeds.len() > 1 {
        about.push(format!("Drawn is seed {}.", table.seeds[0]));
    }
    let time = if table.is_simulated() { Time::Shared } else { Time::OfEach };
    draw(&format!("{}: physical memory", experiment.name), about, &runs, time)
}

/// The time axes of a picture's strips. A strip shows the memory of one run over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// All strips share one axis of virtual time.
    Shared,
    /// Each strip has its own axis, since the same work takes a second in a simulation and a minute in an emulated
    /// guest.
    OfEach,
}

/// The memory over time in the runs of a variant, which is the experiment with one change.
#[derive(Clone, Debug)]
pub struct VariantMemory {
    /// Name of the variant.
    pub name: String,
    /// The variant's run with the first seed, for each column in the table of the unchanged experiment; none if the
    /// variant does not apply to the column's kernel.
    pub runs: Vec<Option<RunMemory>>,
}

/// Returns a picture of the memory in an experiment and in each variant, as SVG. The experiment and each variant have a
/// row of strips, one for each column of `table`. A strip shows the memory over time in the run with the first seed.
#[must_use]
pub fn of_variants(table: &Table, lines: &[VariantMemory]) -> String {
    let mut about = vec![
        table.footer(),
        "A line is a variant, and a strip a run: time grows to the right, frames from the bottom up. A cell is what more than half \
         of most of its pageblocks is. Lines across a strip are the moments right before and after each pass."
            .to_owned(),
    ];
    if table.seeds.len() > 1 {
        about.push(format!("Drawn is seed {}.", table.seeds[0]));
    }
    let columns: Vec<&str> = table.columns.iter().map(|column| column.id.as_str()).collect();
    draw_lines(&format!("{}: physical memory by variant", table.experiment), about, &columns, lines)
}

fn draw_lines(title: &str, about: Vec<String>, columns: &[&str], lines: &[VariantMemory]) -> String {
    let frame = Frame { title: title.to_owned(), about, keys: keys() };
    let axis = axis_of(lines.iter().flat_map(|line| line.runs.iter().flatten()));
    let each = (WIDTH - 2 * MARGIN) / columns.len().max(1) as i32;
    let sides = |n: usize| {
        let left = MARGIN + n as i32 * each + LEFT;
        (left, left + each - LEFT - GAP)
    };
    let line_height = SMALL_CAPTION + SMALL_HEIGHT + SMALL_GAP;
    frame.draw(CAPTION + line_height * lines.len() as i32 + FOOT, |area| {
        for (n, column) in columns.iter().enumerate() {
            text(area, column, (sides(n).0, 14), &canvas::bold(TEXT, 14, Anchor::Start));
        }
        let mut top = CAPTION;
        for VariantMemory { name, runs } in lines {
            text(area, name, (MARGIN, top + 10), &canvas::words(TEXT, 13, Anchor::Start));
            for (n, run) in runs.iter().enumerate() {
                let Some(run) = run else { continue };
                let (left, right) = sides(n);
                let top = top + SMALL_CAPTION;
                let size = Strip { left, right, top, height: SMALL_HEIGHT, rows: SMALL_ROWS, cell: SMALL_CELL };
                strip(area, run, size, axis);
            }
            top += line_height;
        }
        for (left, right) in (0..columns.len()).map(sides) {
            time_axis(area, (left, right), top, axis, VIRTUAL_TIME);
        }
    })
}

/// Returns the legend of the colors.
fn keys() -> Vec<Key> {
    Most::ALL.map(|most| Key { mark: Mark::Area, ink: ink(most), name: most.words().to_owned() }).to_vec()
}

/// Returns a time axis from the start of the runs to the last moment of any run.
fn axis_of<'r>(runs: impl Iterator<Item = &'r RunMemory>) -> Axis {
    let last = runs.filter_map(|run| run.moments.last()).map(|moment| moment.now_ns).max().unwrap_or(0);
    Axis { from: 0.0, to: (last as f64 / 1e9).max(1e-3), is_log: false }
}

/// Draws the time axis below strips.
fn time_axis(area: &Area<'_>, (left, right): (i32, i32), top: i32, axis: Axis, across: &str) {
    for tick in axis.ticks(((right - left) / 100).max(1) as usize) {
        let x = axis.pixel(tick, left, right);
        text(area, &label(tick), (x, top + 4), &canvas::words(FAINT, 12, Anchor::Middle));
    }
    text(area, across, ((left + right) / 2, top + 26), &canvas::words(FAINT, 12, Anchor::Middle));
}

fn draw(title: &str, about: Vec<String>, runs: &[&RunMemory], time: Time) -> String {
    let frame = Frame { title: title.to_owned(), about, keys: keys() };
    let axis = axis_of(runs.iter().copied());
    let (left, right) = (MARGIN + LEFT, WIDTH - MARGIN);
    let (feet, across) = match time {
        Time::Shared => (1, VIRTUAL_TIME),
        Time::OfEach => (runs.len() as i32, "time, s"),
    };
    let strips = (CAPTION + HEIGHT + GAP) * runs.len() as i32 + FOOT * feet;
    let maps_below: i32 = runs.iter().map(|run| maps_height(run)).sum();
    frame.draw(strips + maps_below, |area| {
        let mut top = 0;
        for run in runs {
            text(area, &run.column, (MARGIN, top + 14), &canvas::bold(TEXT, 14, Anchor::Start));
            let size = Strip { left, right, top: top + CAPTION, height: HEIGHT, rows: ROWS, cell: CELL };
            let axis = if time == Time::OfEach { axis_of([*run].into_iter()) } else { axis };
            strip(area, run, size, axis);
            top += CAPTION + HEIGHT + GAP;
            if time == Time::OfEach {
                time_axis(area, (left, right), top, axis, across);
                top += FOOT;
            }
        }
        if time == Time::Shared {
            time_axis(area, (left, right), top, axis, across);
        }
        top = strips;
        for run in runs.iter().filter(|run| maps_height(run) > 0) {
            text(area, &run.column, (MARGIN, top + 14), &canvas::bold(TEXT, 14, Anchor::Start));
            maps(area, run, top + CAPTION);
            top += maps_height(run);
        }
    })
}

/// Returns the marked moments of a run with their names, but at most as many as fit side by side.
fn marked(run: &RunMemory) -> impl Iterator<Item = (&str, &Moment)> {
    let room = (WIDTH - 2 * MARGIN + APART) / MAP;
    run.moments.iter().filter_map(|moment| Some((moment.mark.as_deref()?, moment))).take(room as usize)
}

/// Returns the height, pixels, of the maps of a run (the pageblocks at each marked moment) with their captions; 0 if
/// the run has no marked moments.
fn maps_height(run: &RunMemory) -> i32 {
    let rows = marked(run).map(|(_, moment)| blocks_of(moment).div_ceil(ACROSS)).max();
    rows.map_or(0, |rows| CAPTION + MARK_LINE + rows as i32 * CELL + GAP)
}

/// Draws a map for each marked moment of a run. A map has a cell for each pageblock. The pageblock with the lowest
/// frame numbers is at the bottom left.
fn maps(area: &Area<'_>, run: &RunMemory, top: i32) {
    let bottom = top + maps_height(run) - CAPTION - GAP;
    for (n, (mark, moment)) in marked(run).enumerate() {
        let left = MARGIN + n as i32 * MAP;
        text(area, mark, (left, top + 6), &canvas::words(FAINT, 11, Anchor::Start));
        let blocks: Vec<Most> = moment.zones.iter().flat_map(|zone| &zone.most).copied().collect();
        let mut rows: Vec<Vec<Option<Most>>> =
            blocks.chunks(ACROSS).map(|row| row.iter().copied().map(Some).collect()).collect();
        rows.iter_mut().for_each(|row| row.resize(ACROSS, None));
        for (row, column, height, width, most) in joined(rows) {
            let x = left + column as i32 * CELL;
            let y = bottom - row as i32 * CELL;
            fill(area, (x, y - height as i32 * CELL), (x + width as i32 * CELL, y), ink(most));
        }
    }
}

/// The position and resolution of a strip, which shows the memory of one run over time; in pixels.
#[derive(Clone, Copy, Debug)]
struct Strip {
    left: i32,
    right: i32,
    top: i32,
    height: i32,
    /// Largest number of rows of cells in the strip.
    rows: usize,
    /// Width of a cell, pixels. A cell is a rectangle of the strip for some memory at one moment.
    cell: i32,
}

/// Draws the strip of a run: the use of memory over time. The strip has memory sizes at its left edge, and a vertical
/// line at each marked moment.
fn strip(area: &Area<'_>, run: &RunMemory, size: Strip, axis: Axis) {
    let Strip { left, right, top, height: strip_height, rows, cell } = size;
    let blocks = run.moments.iter().map(blocks_of).max().unwrap_or(0);
    if blocks == 0 {
        return;
    }
    let columns = ((right - left) / cell).max(1) as usize;
    let cells = cells(&run.moments, blocks.min(rows), blocks, columns, axis);
    let rows = cells.len() as i32;
    let bottom = top + strip_height;
    for (row, column, height, width, most) in joined(cells) {
        let from = (left + column as i32 * cell, bottom - strip_height * (row + height) as i32 / rows);
        let to = (left + (column + width) as i32 * cell, bottom - strip_height * row as i32 / rows);
        fill(area, from, to, ink(most));
    }
    for moment in run.moments.iter().filter(|moment| moment.mark.is_some()) {
        let x = axis.pixel(moment.now_ns as f64 / 1e9, left, right);
        line(area, &[(x, top - 5), (x, bottom)], TEXT, 1);
    }
    for (y, mib) in [(bottom - 6, 0.0), (top + 6, blocks as f64 * BLOCK_MIB)] {
        text(area, &format!("{mib} MiB"), (left - 6, y), &canvas::words(FAINT, 11, Anchor::End));
    }
}

fn blocks_of(moment: &Moment) -> usize {
    moment.zones.iter().map(|zone| zone.most.len()).sum()
}

/// Returns what each cell of a strip shows, row by row. Each row stands for a range of pageblocks, those with the
/// lowest frame numbers first, and each column for a span of time. A cell is none if no moment was recorded in its
/// span.
fn cells(moments: &[Moment], rows: usize, blocks: usize, columns: usize, axis: Axis) -> Vec<Vec<Option<Most>>> {
    let mut counts = vec![vec![[0_u32; Most::ALL.len()]; columns]; rows];
    let mut begin = 0;
    for (n, moment) in moments.iter().enumerate() {
        // A moment stands for the time up to the next moment. The last moment stands only for itself, since the run has
        // ended then.
        let place = |ns: u64| (axis.part(ns as f64 / 1e9) * columns as f64) as usize;
        let end = moments.get(n + 1).map_or(begin + 1, |next| place(next.now_ns)).min(columns);
        let from = begin.min(columns - 1);
        for (block, most) in moment.zones.iter().flat_map(|zone| &zone.most).enumerate() {
            let row = &mut counts[block * rows / blocks];
            row[from..end.max(from + 1)].iter_mut().for_each(|cell| cell[*most as usize] += 1);
        }
        begin = end;
    }
    let most = |cell: &[u32; Most::ALL.len()]| {
        let (n, count) = cell.iter().enumerate().rev().max_by_key(|(_, count)| **count)?;
        (*count > 0).then_some(Most::ALL[n])
    };
    counts.iter().map(|row| row.iter().map(most).collect()).collect()
}

/// Joins adjacent cells with equal contents to rectangles. Returns for each rectangle its row, column, height, width
/// and contents.
fn joined(mut cells: Vec<Vec<Option<Most>>>) -> Vec<(usize, usize, usize, usize, Most)> {
    let mut found = Vec::new();
    for row in 0..cells.len() {
        let mut column = 0;
        while column < cells[row].len() {
            let Some(most) = cells[row][column] else {
                column += 1;
                continue;
            };
            let width = cells[row][column..].iter().take_while(|cell| **cell == Some(most)).count();
            let range = column..column + width;
            let is_same = |row: &&mut Vec<Option<Most>>| row[range.clone()].iter().all(|cell| *cell == Some(most));
            let height = cells[row..].iter_mut().take_while(is_same).map(|row| row[range.clone()].fill(None)).count();
            found.push((row, column, height, width, most));
            column += width;
        }
    }
    found
}

const fn ink(most: Most) -> Ink {
    match most {
        Most::Free => BAND,
        Most::File => Ink::of(1),
        Most::Anonymous => Ink::of(0),
        Most::Kernel => Ink::of(3),
        Most::Whole => Ink::of(2),
        Most::Mixed => FAINT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::samples::memory_run as run;

    #[test]
    fn blocks_that_are_handed_out_one_after_the_other_are_a_stair() {
        let axis = Axis { from: 0.0, to: 8.0, is_log: false };
        let cells = cells(&run().moments, 8, 8, 8, axis);
        for (row, cells) in cells.iter().enumerate() {
            for (column, most) in cells.iter().enumerate() {
                let expected = if row == 0 {
                    Most::Kernel
                } else if row <= column {
                    Most::Whole
                } else {
                    Most::Free
                };
                assert_eq!(*most, Some(expected), "row {row}, column {column}");
            }
        }
        let pieces = joined(cells);
        assert_eq!(pieces[0], (0, 0, 1, 8, Most::Kernel));
        assert_eq!(pieces.iter().map(|(_, _, height, width, _)| height * width).sum::<usize>(), 64);
    }

    #[test]
    fn each_variant_has_a_line_and_no_strip_where_it_has_no_run() {
        let line = |name: &str, runs: Vec<Option<RunMemory>>| VariantMemory { name: name.to_owned(), runs };
        let lines = [line("as it is", vec![Some(run()), Some(run())]), line("a patch", vec![None, Some(run())])];
        let svg = draw_lines("memory", Vec::new(), &["x", "y"], &lines);
        assert_eq!(svg.matches("16 MiB").count(), 3, "{svg}");
        for (words, times) in [("as it is\n", 1), ("a patch\n", 1), ("virtual time, s\n", 2), ("x\n", 1)] {
            assert_eq!(svg.matches(&format!(">\n{words}")).count(), times, "{words:?}: {svg}");
        }
    }

    #[test]
    fn each_run_has_a_strip_and_the_legend_says_all_colors() {
        let run = run();
        let svg = draw("memory", Vec::new(), &[&run, &run], Time::Shared);
        assert!(Most::ALL.iter().all(|most| svg.contains(most.words())), "{svg}");
        assert_eq!(svg.matches("16 MiB").count(), 2);
        assert_eq!(svg.matches("here\n").count(), 2, "the moment that has a name has a map in each run: {svg}");
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(draw("nothing", Vec::new(), &[], Time::Shared).starts_with("<svg "));
    }

    #[test]
    fn runs_of_several_grounds_have_a_time_axis_each() {
        let (short, long) = (run(), run());
        let svg = draw("memory", Vec::new(), &[&short, &long], Time::OfEach);
        assert_eq!(svg.matches(">\ntime, s\n").count(), 2, "{svg}");
    }
}
