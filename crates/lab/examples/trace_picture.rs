//! Draws some tracks of a trace as a picture (SVG), for texts:
//!
//! ```sh
//! highwater run ping --kernel 2.6.23-rc5 --trace ping.pftrace --trace-window 7.69..7.92
//! cargo run --release --package highwater-lab --example trace_picture -- ping.pftrace docs/ping.svg \
//!     --tracks "CPU 0,CPU 0 interrupts off,CPU 0 locks,sda,packets"
//! ```

use clap::Parser;
use lab::trace::read::{Row, Shown, rows};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text, Title};

/// Draw tracks of a trace as a picture
#[derive(Parser)]
struct Arguments {
    /// What `--trace` wrote
    trace: PathBuf,
    /// The SVG file to write
    picture: PathBuf,
    /// Names of tracks, in order from the top; of several runs those of all
    #[arg(long, value_delimiter = ',', required = true)]
    tracks: Vec<String>,
}

/// Lengths are those of the picture, pixels.
const WIDTH: f64 = 1000.0;
/// Left of the slices, for names of tracks.
const MARGIN: f64 = 130.0;
const AXIS: f64 = 30.0;
const GAP: f64 = 14.0;
/// Of a slice, where a track has one row; and where it has many.
const HIGH: f64 = 16.0;
const LOW: f64 = 3.0;
/// More rows than these are drawn low, without words.
const ROWS_MAX: usize = 3;
/// A character of a label, about.
const CHARACTER: f64 = 6.2;

/// What is drawn: a slice, or many short ones of one name beside each other.
#[derive(Debug, PartialEq)]
struct Bar<'a> {
    name: &'a str,
    depth: usize,
    from: f64,
    to: f64,
    /// Of its width, how much is slices.
    filled: f64,
}

/// Bars for slices, at `place` of their times; those of a name less than half a pixel apart are one.
fn bars<'a>(slices: &'a [Shown], place: &dyn Fn(u64) -> f64) -> Vec<Bar<'a>> {
    let mut in_order: Vec<&Shown> = slices.iter().collect();
    in_order.sort_by_key(|slice| (slice.depth, slice.from, slice.to));
    let mut bars: Vec<Bar<'_>> = Vec::new();
    let mut last_of = BTreeMap::new();
    for slice in in_order {
        let (from, to, kind) = (place(slice.from), place(slice.to), (slice.depth, slice.name.as_str()));
        match last_of.get(&kind).and_then(|index: &usize| bars.get_mut(*index)) {
            Some(bar) if from - bar.to < 0.5 && to - from < 2.0 => {
                bar.to = to;
                bar.filled += to - from;
            }
            _ => {
                last_of.insert(kind, bars.len());
                bars.push(Bar { name: &slice.name, depth: slice.depth, from, to, filled: to - from });
            }
        }
    }
    bars
}

/// Told apart by what it is, whatever it is called after that.
fn color(name: &str) -> &'static str {
    const OTHERS: [&str; 6] = ["#8da0cb", "#a6d854", "#66c2a5", "#b3b3b3", "#e5c494", "#80b1d3"];
    match name {
        "interrupt" => "#d7301f",
        "packet" => "#1a9850",
        "write" | "read" => "#6baed6",
        "done, waits for its CPU" => "#fdae61",
        _ if name.starts_with("sd") => "#fc8d59",
        _ if name.starts_with("waits for") => "#756bb1",
        _ if name.starts_with("holds") => "#cbc9e2",
        _ => OTHERS[name.bytes().fold(0, |sum, byte| (sum * 31 + usize::from(byte)) % OTHERS.len())],
    }
}

fn draw(rows: &[Row], tracks: &[String]) -> Result<Document, String> {
    let of = |track: &str| -> Vec<&Row> { rows.iter().filter(|row| row.track == track).collect() };
    if let Some(none) = tracks.iter().find(|track| of(track).is_empty()) {
        let mut known: Vec<&str> = rows.iter().map(|row| row.track.as_str()).collect();
        known.dedup();
        return Err(format!("there is no track `{none}`: there are {}", known.join(", ")));
    }
    let all = || tracks.iter().flat_map(|track| of(track)).flat_map(|row| &row.slices);
    let (first, last) = (all().map(|slice| slice.from).min(), all().map(|slice| slice.to).max());
    let (first, last) = first.zip(last).filter(|(first, last)| first < last).ok_or("nothing is on these tracks")?;
    let scale = (WIDTH - MARGIN) / (last - first) as f64;
    let place = |time: u64| MARGIN + (time - first) as f64 * scale;
    let mut picture = Group::new().set("font-family", "sans-serif").set("font-size", 11);
    let mut top = AXIS;
    for track in tracks {
        let rows = of(track);
        let is_low = rows.len() > ROWS_MAX;
        let height = if is_low { LOW } else { HIGH };
        picture = picture.add(Text::new(track.as_str()).set("x", 2).set("y", top + 12.0));
        let begun = top;
        for row in &rows {
            let bars = bars(&row.slices, &place);
            for bar in &bars {
                let (y, width) = (top + bar.depth as f64 * height, bar.to - bar.from);
                let solid = if width > 0.0 { (bar.filled / width).clamp(0.15, 1.0) } else { 1.0 };
                let rectangle = Rectangle::new().set("x", rounded(bar.from)).set("y", y);
                let rectangle = rectangle.set("width", rounded(width.max(0.4))).set("height", height - 1.0);
                let rectangle = rectangle.set("fill", color(bar.name)).set("fill-opacity", rounded(solid));
                picture = picture.add(if is_low { rectangle } else { rectangle.add(Title::new(bar.name)) });
                if !is_low && width > CHARACTER * bar.name.len() as f64 {
                    let text = Text::new(bar.name).set("x", rounded(bar.from + 2.0)).set("y", y + 11.5);
                    picture = picture.add(text);
                }
            }
            let deepest = bars.iter().map(|bar| bar.depth).max().unwrap_or(0);
            top += (deepest + 1) as f64 * height;
        }
        top = top.max(begun + HIGH) + GAP;
    }
    // Ticks at whole steps of 1, 2 or 5 times a power of ten, eight at most.
    let steps = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let step = steps.into_iter().find(|step| (last - first) / step < 8).expect("steps grow");
    for time in (first.div_ceil(step)..=last / step).map(|n| n * step) {
        let x = rounded(place(time));
        let line = Line::new().set("x1", x).set("x2", x).set("y1", 16).set("y2", top - GAP);
        let words = format!("{:.4} s", time as f64 / 1e9);
        picture = picture.add(line.set("stroke", "#999").set("stroke-width", 0.5));
        picture = picture.add(Text::new(words).set("x", x).set("y", 12).set("text-anchor", "middle"));
    }
    let back = Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white");
    Ok(Document::new().set("viewBox", (0, 0, WIDTH + 30.0, top)).add(back).add(picture))
}

/// Digits that can be seen.
fn rounded(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

fn main() -> ExitCode {
    let Arguments { trace, picture, tracks } = Arguments::parse();
    let drawn = std::fs::read(&trace)
        .map_err(|error| error.to_string())
        .and_then(|bytes| rows(&bytes))
        .and_then(|rows| draw(&rows, &tracks))
        .map_err(|message| format!("{}: {message}", trace.display()));
    let written = drawn.and_then(|document| {
        svg::save(&picture, &document).map_err(|error| format!("cannot write {}: {error}", picture.display()))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, from: u64, to: u64, depth: usize) -> Shown {
        Shown { name: name.into(), from, to, depth, figures: Default::default() }
    }

    #[test]
    fn short_slices_of_one_name_are_one_bar_and_others_are_not() {
        let slices = [
            shown("a", 0, 1, 1),
            shown("a", 2, 3, 1),
            shown("b", 3, 4, 1),
            shown("a", 90, 95, 1),
            shown("c", 0, 100, 0),
        ];
        let bars = bars(&slices, &|time| time as f64 / 4.0);
        let found: Vec<_> = bars.iter().map(|bar| (bar.name, bar.from, bar.to, bar.filled)).collect();
        let expected =
            [("c", 0.0, 25.0, 25.0), ("a", 0.0, 0.75, 0.5), ("b", 0.75, 1.0, 0.25), ("a", 22.5, 23.75, 1.25)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_picture_has_its_tracks_and_says_which_there_are() {
        let row = |track: &str, slices| Row { track: track.into(), slices };
        let rows = [row("CPU 0", vec![shown("hog 1", 0, 1000, 0)]), row("sda", vec![shown("write", 10, 500, 0)])];
        let drawn = draw(&rows, &["sda".into(), "CPU 0".into()]).unwrap().to_string();
        assert!(drawn.contains(">hog 1<") && drawn.contains("write") && drawn.contains("0.0000 s"), "{drawn}");
        assert_eq!(draw(&rows, &["sdb".into()]).unwrap_err(), "there is no track `sdb`: there are CPU 0, sda");
    }
}
