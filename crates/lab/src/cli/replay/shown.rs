//! The report of `replay`: as text, as a page, as a picture, as CSV and as JSON.

use crate::untimed::sizes::{Size, Unit};
use crate::untimed::source::Results;
use ::cache::Kind as Policy;
use ::trace::request::Kind;
use report::Look;
use report::grid::{self, Cell, Grid, Tone};
use report::html::{Chart, Page, Part, Section};
use report::plot::lines::{Lines, Panel};
use serde_json::json;
use study::parquet_table::{Cells, encode};

/// A miss ratio, with its standard error if it is an estimate.
#[derive(Clone, Copy)]
struct Ratio {
    value: f64,
    error: Option<f64>,
}

/// The figures of one policy at one cache size.
struct Line {
    policy: Policy,
    capacity: u64,
    misses: Ratio,
    bytes: Option<Ratio>,
    is_rough: bool,
    /// Number of misses, and memory of the cache's state in bytes; none if only a sample was replayed.
    counted: Option<(u64, u64)>,
}

/// The results of a replay, with the names that the report shows.
pub struct Shown<'a> {
    name: &'a str,
    kind: Kind,
    unit: Unit,
    sizes: &'a [Size],
    lines: Vec<Line>,
    requests: u64,
    warm_up: u64,
    objects: u64,
    /// The cache size that counts as 100 %: the number of all pages, objects or bytes of the trace, depending on
    /// `unit`.
    whole: u64,
    /// The sampling rate, and the numbers of requests and objects of the sample; `None` if the whole trace was
    /// replayed.
    sampled: Option<(f64, u64, u64)>,
}

impl<'a> Shown<'a> {
    /// Turns the results of a replay into the lines and totals that the report shows.
    pub fn new(name: &'a str, kind: Kind, unit: Unit, results: &Results, sizes: &'a [Size]) -> Self {
        match results {
            Results::All(report) => {
                let line = |row: &::cache::Row| Line {
                    policy: row.policy,
                    capacity: row.capacity,
                    misses: Ratio { value: row.miss_ratio(), error: None },
                    bytes: row.byte_miss_ratio().map(|value| Ratio { value, error: None }),
                    is_rough: false,
                    counted: Some((row.misses, row.state_bytes)),
                };
                let whole = if unit == Unit::Bytes { report.object_bytes.unwrap_or(0) } else { report.objects };
                let lines = report.rows.iter().map(line).collect();
                let (requests, warm_up, objects) = (report.requests, report.warm_up, report.objects);
                Self { name, kind, unit, sizes, lines, requests, warm_up, objects, whole, sampled: None }
            }
            Results::Sampled(estimates) => {
                let line = |row: &::cache::Estimate| Line {
                    policy: row.policy,
                    capacity: row.capacity,
                    misses: Ratio { value: row.miss_ratio, error: Some(row.error) },
                    bytes: row.byte_miss_ratio.map(|(value, error)| Ratio { value, error: Some(error) }),
                    is_rough: row.is_rough,
                    counted: None,
                };
                let (requests, objects) = estimates.sampled;
                let whole = if unit == Unit::Bytes { estimates.object_bytes } else { estimates.objects };
                Self {
                    name,
                    kind,
                    unit,
                    sizes,
                    lines: estimates.rows.iter().map(line).collect(),
                    requests: estimates.requests,
                    warm_up: estimates.warm_up,
                    objects: estimates.objects,
                    whole,
                    sampled: Some((estimates.rate, requests, objects)),
                }
            }
        }
    }

    /// Returns an iterator over the policies. It yields the lines of a policy, one for each cache size.
    fn policies(&self) -> impl Iterator<Item = &[Line]> {
        self.lines.chunks(self.sizes.len().max(1))
    }

    /// Returns the word for the things that the trace requests: `pages` or `objects`.
    const fn objects_word(&self) -> &'static str {
        match self.kind {
            Kind::Ranges => "pages",
            Kind::Objects => "objects",
        }
    }

    /// Returns the line of the policy, other than the optimum, that has the fewest misses at a cache size.
    fn best(&self, size: usize, ratio: impl Fn(&Line) -> Option<f64>) -> Option<&Line> {
        let lines = self.policies().filter_map(|lines| lines.get(size)).filter(|line| line.policy != Policy::Optimal);
        lines
            .filter(|line| ratio(line).is_some())
            .min_by(|a, b| ratio(a).unwrap_or(1.0).total_cmp(&ratio(b).unwrap_or(1.0)))
    }

    /// Returns the names of the other policies, without the optimum, that miss as often as `best` at a cache size.
    fn as_good(&self, size: usize, best: &Line) -> Vec<&'static str> {
        let lines = self.policies().filter_map(|lines| lines.get(size));
        let others = lines.filter(|line| line.policy != best.policy && line.policy != Policy::Optimal);
        others.filter(|line| line.misses.value == best.misses.value).map(|line| line.policy.name()).collect()
    }

    /// Returns a sentence that names the policy with the fewest misses, at the middle one of the cache sizes, and
    /// compares it with LRU and with the optimum. The text is empty if no policy was replayed.
    fn answer(&self) -> String {
        // The size in the middle of the list stands for all.
        let size = self.sizes.len() / 2;
        let at =
            |policy: Policy| self.policies().find_map(|lines| lines.get(size).filter(|line| line.policy == policy));
        let Some(best) = self.best(size, |line| Some(line.misses.value)).or(at(Policy::Optimal)) else {
            return String::new();
        };
        let room = match self.sizes[size] {
            size @ Size::Share(_) => format!("{} of the {}", size.name().replace('%', " %"), self.objects_word()),
            Size::Number(_) | Size::Bytes(_) => {
                format!("{} {}", grouped(self.lines[size].capacity), self.unit.word())
            }
        };
        let equals = self.as_good(size, best);
        let names = [&[best.policy.name()], &equals[..]].concat().join(", ");
        let verb = if equals.is_empty() { "misses least" } else { "miss least, and equally often" };
        let mut text = format!("With room for {room}, {names} {verb}: {} % of the requests", percent(best.misses));
        let is_of_best = |policy: Policy| policy == best.policy || equals.contains(&policy.name());
        if let Some(lru) = at(Policy::Lru).filter(|_| !is_of_best(Policy::Lru)) {
            text += &format!("; lru misses {} %", percent(lru.misses));
        }
        if let Some(optimal) = at(Policy::Optimal).filter(|_| best.policy != Policy::Optimal) {
            text += &format!("; optimal, which knows the future, {} %", percent(optimal.misses));
        }
        text + "."
    }

    /// Returns notes about the trace and the method.
    fn notes(&self) -> Vec<String> {
        let about = if self.sampled.is_some() { "about " } else { "" };
        let mut trace = format!(
            "{}: {} requests for {about}{} different {}",
            self.name,
            grouped(self.requests),
            grouped(self.objects),
            self.objects_word()
        );
        if self.warm_up > 0 {
            trace += &format!("; the first {} requests fill the caches and are not counted", grouped(self.warm_up));
        }
        let mut notes = vec![trace + "."];
        if let Some((rate, requests, objects)) = self.sampled {
            notes.push(format!(
                "Estimated from {} requests for {} {}, {:.3} % of all. ± is the standard error of the sample.",
                grouped(requests),
                grouped(objects),
                self.objects_word(),
                rate * 100.0
            ));
        }
        if self.lines.iter().any(|line| line.is_rough) {
            notes.push(
                "Figures with a question mark come from caches of less than 100 sampled objects; their errors may be larger."
                    .to_owned(),
            );
        }
        notes
    }

    /// Returns a table of the miss ratio that `ratio` selects, with a line for each policy and a column for each size
    /// of the caches.
    fn grid(&self, ratio: impl Fn(&Line) -> Option<Ratio>) -> Grid {
        let head = self.sizes.iter().enumerate().map(|(n, size)| {
            let name = match size {
                Size::Share(_) => size.name().replace('%', " %"),
                Size::Number(_) | Size::Bytes(_) => size.name(),
            };
            let capacity = self.lines.get(n).map_or(0, |line| line.capacity);
            Cell::new(format!("{name}\n{}", grouped(capacity)), Tone::Heading)
        });
        let head = std::iter::once(Cell::new("policy", Tone::Heading)).chain(head).collect();
        let best: Vec<Option<f64>> = (0..self.sizes.len())
            .map(|size| {
                let value = |line: &Line| ratio(line).map(|ratio| ratio.value);
                self.best(size, value).and_then(value)
            })
            .collect();
        let lines = self.policies().map(|lines| {
            let cells = lines.iter().zip(&best).map(|(line, best)| {
                let Some(ratio) = ratio(line) else { return Cell::from("-") };
                let text = percent(ratio) + if line.is_rough { "?" } else { "" };
                let is_best = line.policy != Policy::Optimal && Some(ratio.value) == *best;
                Cell::new(text, if is_best { Tone::Better } else { Tone::Plain })
            });
            std::iter::once(Cell::from(lines[0].policy.name())).chain(cells).collect()
        });
        Grid { keys: 1, head, lines: lines.collect(), texts: vec![0] }
    }

    /// Returns whether, for at least one cache, the miss ratio by bytes differs from the miss ratio by requests. The
    /// two are equal if all objects have one size.
    fn tells_bytes(&self) -> bool {
        let differ = |line: &Line| line.bytes.is_some_and(|bytes| (bytes.value - line.misses.value).abs() > 1e-9);
        self.lines.iter().any(differ)
    }

    /// Returns the tables with their captions.
    fn grids(&self) -> Vec<(&'static str, Grid)> {
        let mut grids = vec![("Misses, % of the requests", self.grid(|line| Some(line.misses)))];
        if self.tells_bytes() {
            grids.push(("Missed bytes, % of the requested bytes", self.grid(|line| line.bytes)));
        }
        grids
    }

    /// Returns the whole report as text.
    pub fn text(&self, look: Look) -> String {
        let mut text = grid::prose(&self.answer(), look);
        for (caption, grid) in self.grids() {
            text += &format!("\n{caption}, by room in {}\n{}", self.unit.word(), grid.render(look));
        }
        text += "\n";
        self.notes().iter().for_each(|note| text += &grid::prose(note, look));
        text
    }

    /// Returns the whole report as a page of HTML.
    pub fn page(&self) -> Page {
        let mut sections = Vec::new();
        for ((caption, grid), panel) in self.grids().into_iter().zip(self.panels()) {
            let chart = Chart::of_panel(panel, &self.names(), &self.across(), "curves");
            sections.push(Section::new(caption, vec![Part::Charts(vec![chart]), Part::table(caption, grid)]));
        }
        let about = std::iter::once(self.answer()).chain(self.notes()).collect();
        Page { title: format!("Replay of {}", self.name), about, sections }
    }

    /// Returns a picture of the miss ratios, with a curve for each policy.
    pub fn picture(&self) -> String {
        let lines = Lines {
            title: format!("Replay of {}", self.name),
            about: vec![self.answer()],
            names: self.names(),
            across: self.across(),
            panels: self.panels(),
            ..Lines::default()
        };
        lines.draw()
    }

    fn names(&self) -> Vec<String> {
        self.policies().map(|lines| lines[0].policy.name().to_owned()).collect()
    }

    fn across(&self) -> String {
        format!("room, % of the {}", if self.unit == Unit::Bytes { "objects' bytes" } else { self.objects_word() })
    }

    fn panels(&self) -> Vec<Panel> {
        let panel = |caption: &str, ratio: &dyn Fn(&Line) -> Option<Ratio>| {
            let curve = |lines: &[Line]| {
                let point = |line: &Line| {
                    Some((100.0 * line.capacity as f64 / self.whole.max(1) as f64, 100.0 * ratio(line)?.value))
                };
                let mut points: Vec<(f64, f64)> = lines.iter().filter_map(point).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points
            };
            Panel { caption: caption.to_owned(), lines: self.policies().map(curve).collect() }
        };
        let mut panels = vec![panel("Misses, % of the requests", &|line| Some(line.misses))];
        if self.tells_bytes() {
            panels.push(panel("Missed bytes, % of the requested bytes", &|line| line.bytes));
        }
        panels
    }

    /// Returns all lines, each with the name of the cache size for which the line has the results.
    fn named(&self) -> impl Iterator<Item = (String, &Line)> {
        self.policies().flat_map(|lines| self.sizes.iter().map(|size| size.name()).zip(lines))
    }

    /// Returns the whole report as CSV. Figures that do not exist are empty.
    pub fn csv(&self) -> String {
        let mut text =
            "policy,size,capacity,unit,miss_ratio,error,byte_miss_ratio,byte_error,misses,state_bytes\n".to_owned();
        let or_empty = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
        let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        for (size, line) in self.named() {
            let fields = [
                line.policy.name().to_owned(),
                size,
                line.capacity.to_string(),
                self.unit.word().to_owned(),
                format!("{:.6}", line.misses.value),
                or_empty(line.misses.error),
                or_empty(line.bytes.map(|bytes| bytes.value)),
                or_empty(line.bytes.and_then(|bytes| bytes.error)),
                whole(line.counted.map(|(misses, _)| misses)),
                whole(line.counted.map(|(_, bytes)| bytes)),
            ];
            text += &(fields.join(",") + "\n");
        }
        text
    }

    /// Returns the whole report as a Parquet file, with the columns of [`Self::csv`].
    pub fn parquet(&self) -> Vec<u8> {
        const SCHEMA: &str = "message replay {
            required binary policy (UTF8);
            required binary size (UTF8);
            required int64 capacity (INTEGER(64, false));
            required binary unit (UTF8);
            required double miss_ratio;
            optional double error;
            optional double byte_miss_ratio;
            optional double byte_error;
            optional double misses;
            optional double state_bytes;
        }";
        let texts = |of: &dyn Fn(&(String, &Line)) -> String| Cells::Texts(self.named().map(|it| of(&it)).collect());
        let optional = |of: &dyn Fn(&Line) -> Option<f64>| Cells::Optional(self.lines.iter().map(of).collect());
        let cells = |column| match column {
            0 => texts(&|(_, line)| line.policy.name().to_owned()),
            1 => texts(&|(size, _)| size.clone()),
            2 => Cells::Numbers(self.lines.iter().map(|line| line.capacity).collect()),
            3 => texts(&|_| self.unit.word().to_owned()),
            4 => Cells::Values(self.lines.iter().map(|line| line.misses.value).collect()),
            5 => optional(&|line| line.misses.error),
            6 => optional(&|line| Some(line.bytes?.value)),
            7 => optional(&|line| line.bytes?.error),
            8 => optional(&|line| Some(line.counted?.0 as f64)),
            _ => optional(&|line| Some(line.counted?.1 as f64)),
        };
        encode(SCHEMA, cells, vec![("highwater.trace".to_owned(), self.name.to_owned())])
    }

    /// Returns the whole report as JSON.
    pub fn json(&self) -> String {
        let rows: Vec<serde_json::Value> = self
            .named()
            .map(|(size, line)| {
                json!({
                    "policy": line.policy.name(),
                    "size": size,
                    "capacity": line.capacity,
                    "miss_ratio": line.misses.value,
                    "error": line.misses.error,
                    "byte_miss_ratio": line.bytes.map(|bytes| bytes.value),
                    "byte_error": line.bytes.and_then(|bytes| bytes.error),
                    "is_rough": line.is_rough,
                    "misses": line.counted.map(|(misses, _)| misses),
                    "state_bytes": line.counted.map(|(_, bytes)| bytes),
                })
            })
            .collect();
        let sample = self
            .sampled
            .map(|(rate, requests, objects)| json!({ "rate": rate, "requests": requests, "objects": objects }));
        kit::shown::json(&json!({
            "schema": 1,
            "answer": self.answer(),
            "trace": self.name,
            "unit": self.unit.word(),
            "requests": self.requests,
            "warm_up": self.warm_up,
            "objects": self.objects,
            "sample": sample,
            "rows": rows,
        }))
    }
}

/// Returns a ratio in percent, with its standard error if it is an estimate.
fn percent(ratio: Ratio) -> String {
    let value = format!("{:.2}", ratio.value * 100.0);
    ratio.error.map_or(value.clone(), |error| format!("{value} ±{:.2}", error * 100.0))
}

/// Returns a number in decimal, with a comma between each two groups of three digits.
pub(super) fn grouped(number: u64) -> String {
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
