//! The output of `trace info`: as text, as a page, as a picture.

use ::trace::Info;
use ::trace::info::Interval;
use ::trace::read::Loaded;
use ::trace::request::{Kind, PAGE_BYTES};
use report::Look;
use report::grid::{self, Grid};
use report::html::{Chart, Page, Part, Section};
use report::plot::lines::{Lines, Panel, Plot};

/// A trace, its name, and a summary of it in numbers.
pub struct Described<'a> {
    /// The summary of the trace, in numbers.
    pub info: &'a Info,
    /// The trace, and how it was read.
    pub loaded: &'a Loaded,
    /// Name of the trace's file.
    pub name: &'a str,
}

/// Sizes of the caches for which miss ratios are shown, each in ten-thousandths of the number of all objects.
const SIZES: [u64; 8] = [10, 100, 200, 500, 1000, 2000, 5000, 10_000];
/// Largest number of files that are listed by name.
const FILES: usize = 10;
/// Largest number of characters that are shown of a file's name. Of a longer name, only the end is shown.
const NAME: usize = 60;
/// Largest number of time intervals that the text lists. Pictures and pages show all intervals.
const LINES: usize = 10;

impl Described<'_> {
    /// Returns the noun for the items of this trace that a cache would hold: `pages` or `objects`.
    const fn objects(&self) -> &'static str {
        match self.info.kind {
            Kind::Ranges => "pages",
            Kind::Objects => "objects",
        }
    }

    /// Returns up to three sentences about the trace: its requests and accesses, the misses of a small LRU cache, and
    /// the popularity of its pages or objects.
    fn answer(&self) -> String {
        let (info, objects) = (self.info, self.objects());
        if info.accesses == 0 {
            return format!("{} requests, and none of them reads or writes.", grouped(self.loaded.trace.len() as u64));
        }
        let about = if info.objects_per_followed > 1 { "about " } else { "" };
        let tenth = info.objects / 10;
        let mut text = format!(
            "{} requests access {about}{} different {objects} ({}) {} times; {} % of the accesses read.",
            grouped(self.loaded.trace.len() as u64),
            grouped(info.objects),
            bytes(info.object_bytes),
            grouped(info.accesses),
            percent(info.read_share())
        );
        if tenth > 0 {
            let misses = percent(info.lru_miss_ratio(tenth));
            text += &format!(" With room for a tenth of these {objects}, {misses} % of the accesses miss under LRU.");
        }
        if let Some(theta) = info.popularity.theta {
            let off = percent(info.popularity.difference);
            text += &format!(
                " Popularity is nearest to Zipf's law with exponent {theta:.2}, off by up to {off} % of the accesses."
            );
        }
        text
    }

    /// Returns the whole description of the trace as text.
    pub fn text(&self, look: Look) -> String {
        let page = self.page_of(LINES);
        let mut text = page.about.iter().map(|words| grid::prose(words, look)).collect::<String>();
        for section in page.sections {
            text += &format!("\n{}\n", section.title);
            for part in section.parts {
                match part {
                    Part::Words(words) => text += &grid::prose(&words, look),
                    Part::Table { grid, .. } => text += &grid.render(look),
                    _ => {}
                }
            }
        }
        text
    }

    /// Returns the whole description of the trace as an HTML page with charts.
    pub fn page(&self) -> Page {
        let mut page = self.page_of(usize::MAX);
        let charts = |plots: Vec<Plot>| {
            Part::Charts(plots.into_iter().map(|plot| Chart::of_plot(plot, &self.line_names())).collect())
        };
        for (title, plots) in [
            ("Working set over time", self.over_time()),
            ("Reuse", vec![self.misses()]),
            ("Popularity", vec![self.popularity()]),
        ] {
            if let Some(section) = page.sections.iter_mut().find(|section| section.title == title) {
                section.parts.push(charts(plots));
            }
        }
        page
    }

    /// Returns a picture of the trace over time, as SVG.
    pub fn picture(&self) -> String {
        let panels = self.over_time();
        let across = panels.first().map_or_else(String::new, |plot| plot.across.clone());
        let lines = Lines {
            title: self.name.to_owned(),
            about: vec![self.answer()],
            names: self.line_names(),
            across,
            panels: panels.into_iter().map(|plot| plot.panel).collect(),
            beside: vec![vec![self.misses(), self.popularity()]],
            ..Lines::default()
        };
        lines.draw()
    }

    fn line_names(&self) -> Vec<String> {
        vec!["the trace".into(), "Zipf's law".into()]
    }

    fn page_of(&self, intervals: usize) -> Page {
        let mut page = Page { title: self.name.to_owned(), about: vec![self.answer()], sections: Vec::new() };
        let mut add = |title: &str, parts: Vec<Part>| page.sections.push(Section::new(title, parts));
        add("Requests", self.requests());
        if self.info.accesses > 0 {
            add("Working set over time", self.working_set(intervals));
            add("Reuse", self.reuse());
            add("Popularity", self.popular());
        }
        if !self.info.by_file.is_empty() {
            add("Files", self.files());
        }
        page
    }

    fn requests(&self) -> Vec<Part> {
        let (info, objects) = (self.info, self.objects());
        let mut lines = vec![
            ("format".to_owned(), self.loaded.format.to_owned()),
            ("requests".to_owned(), grouped(self.loaded.trace.len() as u64)),
        ];
        lines.extend(
            info.operations.iter().map(|(operation, count)| (format!("  {}", operation.name()), grouped(*count))),
        );
        lines.push((format!("different {objects}"), grouped(info.objects)));
        lines.push((format!("bytes of these {objects}"), bytes(info.object_bytes)));
        lines.push((format!("accesses to {objects}"), grouped(info.accesses)));
        lines.push(("  that write".to_owned(), grouped(info.writes)));
        lines.push(("bytes read".to_owned(), bytes(info.bytes_read)));
        lines.push(("bytes written".to_owned(), bytes(info.bytes_written)));
        for (name, share) in [("median", 0.5), ("largest", 1.0)] {
            if let Some(length) = info.lengths.quantile(share) {
                lines.push((format!("{name} request"), bytes(length)));
            }
        }
        if info.kind == Kind::Ranges {
            lines.push(("files".to_owned(), grouped(info.files)));
        }
        lines.push(("tasks".to_owned(), grouped(info.tasks)));
        let duration =
            if info.duration_us > 0 { seconds(info.duration_us) } else { "the trace has no times".to_owned() };
        lines.push(("duration".to_owned(), duration));
        let lines = lines.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
        let mut parts = vec![Part::table("requests", Grid { lines, texts: vec![0], ..Grid::default() })];
        if info.objects_per_followed > 1 {
            parts.push(Part::Words(format!(
                "One in {} {objects} was followed. Numbers of {objects}, reuse and popularity are estimates from these.",
                info.objects_per_followed
            )));
        }
        for unseen in
            self.loaded.trace.metadata().get("not_seen").and_then(|list| list.as_array()).into_iter().flatten()
        {
            parts.push(Part::Words(format!("The trace cannot tell: {}.", unseen.as_str().unwrap_or_default())));
        }
        parts
    }

    /// Returns the time, s, at which interval number `interval` (from 0) ends, if the trace is divided into `of` equal
    /// intervals. If the trace has no times, returns the percentage of all requests up to that end.
    fn end_of(&self, interval: usize, of: usize) -> f64 {
        let whole = if self.info.duration_us > 0 { self.info.duration_us as f64 / 1e6 } else { 100.0 };
        whole * (interval + 1) as f64 / of as f64
    }

    fn across(&self) -> &'static str {
        if self.info.duration_us > 0 { "time, s" } else { "requests, %" }
    }

    fn working_set(&self, most: usize) -> Vec<Part> {
        let objects = self.objects();
        let all = &self.info.intervals;
        let each = all.len().div_ceil(most.min(all.len()).max(1));
        let head = ["until", "accesses", "that read, %", objects, "new", "bytes"];
        let is_whole = each == 1;
        let mut lines = Vec::new();
        for (n, group) in all.chunks(each).enumerate() {
            let sum = |of: fn(&Interval) -> u64| group.iter().map(of).sum::<u64>();
            let (accesses, writes) = (sum(|one| one.accesses), sum(|one| one.writes));
            // Objects of several intervals cannot be added: the mean of them is shown.
            let working_set = sum(|one| one.objects) / group.len() as u64;
            let reads =
                if accesses == 0 { "-".to_owned() } else { percent((accesses - writes) as f64 / accesses as f64) };
            let end = self.end_of(n * each + group.len() - 1, all.len());
            let until = if self.info.duration_us > 0 { seconds((end * 1e6) as u64) } else { format!("{end:.0} %") };
            let cells = [
                until,
                grouped(accesses),
                reads,
                grouped(working_set),
                grouped(sum(|one| one.new_objects)),
                bytes(sum(|one| one.bytes)),
            ];
            lines.push(cells.into_iter().map(Into::into).collect());
        }
        let head = head.into_iter().map(Into::into).collect();
        let length = if self.info.duration_us > 0 {
            seconds(self.info.duration_us / all.len() as u64)
        } else {
            format!("{} % of the requests", 100 / all.len())
        };
        let mut words = format!(
            "The column {objects} has how many different {objects} were accessed within {length}: the working set"
        );
        words += if is_whole { "." } else { ", as the mean over the line." };
        vec![Part::Words(words), Part::table("working set", Grid { head, lines, ..Grid::default() })]
    }

    fn reuse(&self) -> Vec<Part> {
        let (info, objects) = (self.info, self.objects());
        let all = info.first_accesses + info.distances.total();
        let first = percent(info.first_accesses as f64 / all.max(1) as f64);
        let mut words = format!("{first} % of the accesses are the first to their {}.", objects.trim_end_matches('s'));
        if let [Some(quarter), Some(half), Some(most)] = [0.25, 0.5, 0.9].map(|share| info.distances.quantile(share)) {
            words += &format!(
                " Of the others, a quarter come after at most {} different other {objects}, half after {}, nine of ten after {}.",
                grouped(quarter),
                grouped(half),
                grouped(most)
            );
        }
        let head = ["room for", objects, "misses under LRU, %"].into_iter().map(Into::into).collect();
        let size_of = |parts: u64| (u128::from(info.objects) * u128::from(parts) / 10_000) as u64;
        let sizes = SIZES.into_iter().map(|parts| (parts, size_of(parts))).filter(|(_, size)| *size > 0);
        let lines = sizes.map(|(parts, size)| {
            let share = format!("{} %", parts as f64 / 100.0);
            vec![share.into(), grouped(size).into(), percent(info.lru_miss_ratio(size)).into()]
        });
        let grid = Grid { head, lines: lines.collect(), ..Grid::default() };
        vec![Part::Words(words), Part::table("misses under LRU", grid)]
    }

    fn popular(&self) -> Vec<Part> {
        let (popularity, objects) = (&self.info.popularity, self.objects());
        let once = percent(popularity.once as f64 / popularity.objects.max(1) as f64);
        let mut words = format!("{once} % of the {objects} are accessed once.");
        if let Some(theta) = popularity.theta {
            words += &format!(
                " Under Zipf's law, the {} of rank r has a share proportional to r to the power of -{theta:.3}. The exponent is the \
                 likeliest for these counts.",
                objects.trim_end_matches('s')
            );
        }
        let head =
            [format!("most popular {objects}"), "of all, %".into(), "accesses, %".into(), "by Zipf's law, %".into()];
        let head = head.into_iter().map(Into::into).collect();
        let lines = popularity.points.iter().map(|point| {
            let share = point.objects as f64 / popularity.objects as f64;
            vec![
                grouped(point.objects).into(),
                percent(share).into(),
                percent(point.share).into(),
                percent(point.by_law).into(),
            ]
        });
        let grid = Grid { head, lines: lines.collect(), ..Grid::default() };
        vec![Part::Words(words), Part::table("popularity", grid)]
    }

    fn files(&self) -> Vec<Part> {
        let all = &self.info.by_file;
        let lines = all.iter().take(FILES).map(|of_file| {
            let name = self.loaded.trace.file_name(of_file.file);
            let number = || format!("file {}", of_file.file);
            let name = name.map_or_else(number, |name| end_of(&String::from_utf8_lossy(name)));
            vec![name.into(), grouped(of_file.reads).into(), grouped(of_file.writes).into()]
        });
        let head = ["file", "pages read", "pages written"].into_iter().map(Into::into).collect();
        let grid = Grid { head, lines: lines.collect(), texts: vec![0], ..Grid::default() };
        let mut parts = vec![Part::table("files", grid)];
        if all.len() > FILES {
            parts.push(Part::Words(format!("{} further files are not shown.", grouped((all.len() - FILES) as u64))));
        }
        parts
    }

    fn over_time(&self) -> Vec<Plot> {
        let all = &self.info.intervals;
        let course = |of: &mut dyn FnMut(&Interval) -> f64| -> Vec<Vec<(f64, f64)>> {
            let points = all.iter().enumerate().map(|(n, one)| (self.end_of(n, all.len()), of(one)));
            vec![points.collect(), Vec::new()]
        };
        let (unit, size) = match self.info.kind {
            Kind::Ranges => ("MiB", PAGE_BYTES as f64 / f64::from(1 << 20)),
            Kind::Objects => ("objects", 1.0),
        };
        let mut so_far = 0.0;
        let plots = [
            (format!("Working set of each interval, {unit}"), course(&mut |one| one.objects as f64 * size)),
            (
                format!("Accessed so far, {unit}"),
                course(&mut |one| {
                    so_far += one.new_objects as f64 * size;
                    so_far
                }),
            ),
            ("Accesses of each interval".to_owned(), course(&mut |one| one.accesses as f64)),
        ];
        let plot = |(caption, lines)| Plot { panel: Panel { caption, lines }, across: self.across().to_owned() };
        plots.into_iter().map(plot).collect()
    }

    fn misses(&self) -> Plot {
        let info = self.info;
        let sizes = (0..=100).map(|part| (u128::from(info.objects) * part / 100) as u64);
        let points = sizes.zip(0..).map(|(size, part)| (f64::from(part), 100.0 * info.lru_miss_ratio(size)));
        let lines = vec![points.collect(), Vec::new()];
        Plot {
            panel: Panel { caption: "Misses under LRU, %".into(), lines },
            across: format!("room, % of {}", self.objects()),
        }
    }

    fn popularity(&self) -> Plot {
        let popularity = &self.info.popularity;
        let log = |number: u64| (number as f64).log10();
        let points: Vec<(f64, f64)> = popularity.counts.iter().map(|(rank, count)| (log(*rank), log(*count))).collect();
        let mut lines = vec![points, Vec::new()];
        if let (Some(theta), Some(first)) = (popularity.theta, popularity.points.first()) {
            let top = (first.by_law * popularity.accesses as f64).log10();
            lines[1] = lines[0].iter().map(|(rank, _)| (*rank, (top - theta * rank).max(0.0))).collect();
        }
        Plot { panel: Panel { caption: "Accesses, log10".into(), lines }, across: "rank, log10".into() }
    }
}

/// Returns a name, or only the end of a name that is too long to be shown.
fn end_of(name: &str) -> String {
    let cut = name.chars().count().saturating_sub(NAME);
    if cut == 0 { name.to_owned() } else { format!("…{}", name.chars().skip(cut + 1).collect::<String>()) }
}

/// Returns a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a share as text: its percentage with one decimal, without a sign.
fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Returns a number of bytes as text, in the largest unit that is not larger than the number.
fn bytes(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(bits, _)| bytes >= 1 << bits);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(bits, unit)| format!("{:.1} {unit}", bytes as f64 / (1_u64 << bits) as f64),
    )
}

/// Returns a time as text with a unit that suits its size: us, ms or s.
fn seconds(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}
