//! What `replay --memory` shows.

use super::asked::{Asked, READ_AHEAD, size_name};
use super::lines::{Case, FIGURES, Line, Lines, READ, REFAULTS};
use crate::cli::options::each_once;
use crate::cli::replay::Format;
use crate::cli::replay::shown::grouped;
use crate::cli::with_command;
use ::trace::request::PAGE_BYTES;
use report::Look;
use report::grid::{self, Cell, Grid, Tone};
use report::html::{Chart, Page, Part, Section};
use report::plot::lines::{Lines as Picture, Panel};
use serde_json::json;
use study::parquet_table::{Cells, encode};

/// Pages of a MiB.
const MIB: f64 = (1 << 20) as f64 / PAGE_BYTES as f64;

/// The figures of a trace on a machine, with what the report says of them.
pub struct Shown<'a> {
    /// Name of the trace.
    pub name: &'a str,
    /// What the user asked for.
    pub asked: &'a Asked,
    /// The figures.
    pub lines: &'a Lines,
    /// Notes of the runs.
    pub notes: &'a [String],
    /// The note that names the command for other reports of the trace.
    pub follow_up: &'a str,
}

/// Returns how many times as large one figure is as another, in words.
fn times(more: f64, less: f64) -> String {
    match more / less {
        ratio if ratio >= 10.0 => format!("{ratio:.0} times as many pages"),
        ratio if ratio >= 1.095 => format!("{ratio:.1} times as many pages"),
        ratio if ratio > 1.005 => format!("{:.0} % more pages", 100.0 * (ratio - 1.0)),
        ratio if ratio >= 0.995 => "as many pages".to_owned(),
        ratio => format!("{:.0} % fewer pages", 100.0 * (1.0 - ratio)),
    }
}

/// Returns less memory in words: as a share of the more memory if it is a usual one.
fn less_memory(less: u64, more: u64) -> String {
    let share = less as f64 / more as f64;
    let names = [(0.5, "half the memory"), (0.25, "a quarter of the memory"), (1.0 / 3.0, "a third of the memory")];
    let (less, more) = (size_name(less), size_name(more));
    match names.iter().find(|(of, _)| (share - of).abs() < 0.005) {
        Some((_, words)) => format!("With {words} ({less} in place of {more})"),
        None => format!("With {less} of memory in place of {more}"),
    }
}

impl Shown<'_> {
    /// Returns the answer to what the user asks, in a few sentences.
    fn answer(&self) -> String {
        let Some(case) =
            self.lines.cases.iter().find(|case| case.lines.iter().any(|line| line.figures[READ].is_some()))
        else {
            return String::new();
        };
        let known = || case.lines.iter().filter(|line| line.figures[READ].is_some());
        let (Some(most), Some(least)) = (known().max_by_key(|line| line.pages), known().min_by_key(|line| line.pages))
        else {
            return String::new();
        };
        let mut text = match most.pages == least.pages {
            true => self.answer_of_one(case, most),
            false => Self::answer_of_two(case, least, most),
        };
        let cliffs: Vec<String> =
            case.lines.iter().filter(|line| line.is_cliff).map(|line| size_name(line.pages)).collect();
        if !cliffs.is_empty() {
            text += &format!(
                " A cliff is near {}: there, 10 % of memory more or less changes the pages read by more than a quarter.",
                cliffs.join(" and ")
            );
        }
        text + &self.comparison(case) + &self.unfelt() + &self.seeds()
    }

    /// Says which values change no figure of any kernel.
    fn unfelt(&self) -> String {
        let figures = |case: &Case| case.lines.iter().map(|line| line.figures).collect::<Vec<_>>();
        let cases = &self.lines.cases;
        let is_felt =
            |case: &Case| cases.iter().any(|other| other.kernel == case.kernel && figures(other) != figures(case));
        let values = each_once(&cases.iter().map(|case| case.values.as_str()).collect::<Vec<_>>());
        if values.len() < 2 || cases.iter().any(is_felt) {
            return String::new();
        }
        format!(" {} make no difference to this load.", values.join(" and "))
    }

    /// Says of how many seeds the figures are, if of several.
    fn seeds(&self) -> String {
        match self.asked.request.runs {
            0 | 1 => String::new(),
            runs => format!(" The figures are medians of {runs} seeds."),
        }
    }

    fn answer_of_one(&self, case: &Case, line: &Line) -> String {
        let pages = line.figures[READ].unwrap_or(0.0);
        let refaults = line.figures[REFAULTS].map_or_else(String::new, |refaults| {
            format!("; {} were in memory before and came back (refaults)", grouped(refaults as u64))
        });
        let range = match line.range.filter(|_| self.asked.has_nearby) {
            Some((low, high)) => {
                format!(" ({} to {} with 10 % of memory less or more)", grouped(low as u64), grouped(high as u64))
            }
            None => String::new(),
        };
        format!(
            "With {} of memory and {}, the load reads {} pages ({:.0} MiB) from the disk{range}{refaults}.",
            size_name(line.pages),
            case.name(),
            grouped(pages as u64),
            pages / MIB
        )
    }

    fn answer_of_two(case: &Case, least: &Line, most: &Line) -> String {
        let (few, many) = (most.figures[READ].unwrap_or(0.0), least.figures[READ].unwrap_or(0.0));
        let begin = format!("{} and {}, the load reads", less_memory(least.pages, most.pages), case.name());
        if few < 1.0 {
            return format!("{begin} {} pages from the disk, and none with more.", grouped(many as u64));
        }
        // The range of the quotient: both figures at nearby sizes.
        let range = match (least.range, most.range) {
            (Some((low, high)), Some((few_low, few_high))) if few_low >= 1.0 => {
                format!(" ({:.2} to {:.2} times for sizes within 10 %)", low / few_high, high / few_low)
            }
            _ => String::new(),
        };
        format!("{begin} {}{range}: {} in place of {}.", times(many, few), grouped(many as u64), grouped(few as u64))
    }

    /// Compares the other cases with the first, at the least memory.
    fn comparison(&self, case: &Case) -> String {
        let at = |case: &Case| {
            let known = case.lines.iter().filter(|line| line.figures[READ].is_some());
            known.min_by_key(|line| line.pages).map(|line| (line.pages, line.figures[READ].unwrap_or(0.0)))
        };
        let Some((pages, own)) = at(case).filter(|(_, own)| *own >= 1.0) else { return String::new() };
        let others = self.lines.cases.iter().filter(|other| other.name() != case.name());
        let best = others.filter_map(|other| Some((other.name(), at(other).filter(|(of, _)| *of == pages)?.1)));
        let Some((name, read)) = best.min_by(|a, b| a.1.total_cmp(&b.1)) else { return String::new() };
        format!(" With {} of memory, {name} reads {}.", size_name(pages), times(read, own))
    }

    fn grid(&self) -> Grid {
        let names =
            |has_values: bool| if has_values { vec!["memory", "kernel", "with"] } else { vec!["memory", "kernel"] };
        let mut head: Vec<Cell> =
            names(self.lines.has_values).into_iter().map(|name| Cell::new(name, Tone::Heading)).collect();
        let keys = head.len();
        head.extend(FIGURES.iter().map(|figure| Cell::new(figure.name.replacen(' ', "\n", 1), Tone::Heading)));
        if self.asked.has_nearby {
            head.push(Cell::new("pages read,\n±10 % memory", Tone::Heading));
            head.push(Cell::new("", Tone::Heading));
        }
        let line = |case: &Case, line: &Line| {
            let mut cells = vec![Cell::from(size_name(line.pages)), Cell::from(case.kernel.clone())];
            if self.lines.has_values {
                cells.push(Cell::from(case.values.clone()));
            }
            for (figure, value) in FIGURES.iter().zip(line.figures) {
                cells.push(Cell::from(match value {
                    None => "-".to_owned(),
                    Some(value) if figure.digits == 0 => grouped(value as u64),
                    Some(value) => format!("{value:.*}", figure.digits),
                }));
            }
            if self.asked.has_nearby {
                let range = line.range.map_or_else(String::new, |(low, high)| {
                    format!("{} to {}", grouped(low as u64), grouped(high as u64))
                });
                cells.push(Cell::from(range));
                cells.push(Cell::new(if line.is_cliff { "cliff" } else { "" }, Tone::Worse));
            }
            cells
        };
        let mut lines = Vec::new();
        // Lines of one size stand together.
        for number in 0..self.asked.memory_pages.len() {
            lines.extend(self.lines.cases.iter().map(|case| line(case, &case.lines[number])));
        }
        Grid { keys, head, lines, texts: (1..keys).collect() }
    }

    fn notes(&self) -> Vec<String> {
        // The runs' own notes on columns that are alike have long names of columns; the table shows that itself.
        let is_on_columns = |note: &&String| ALIKE.iter().any(|begin| note.starts_with(begin));
        let mut notes: Vec<String> = self.notes.iter().filter(|note| !is_on_columns(note)).cloned().collect();
        if !self.asked.given.is_empty() {
            notes.push(format!("All lines: {}.", self.asked.given.join(", ")));
        }
        if let Some(kib) = self.asked.read_ahead_kb {
            let is_simulated = self.asked.request.grounds == [catalogue::ground::Ground::Sim];
            let of_disk = if is_simulated { "" } else { ". A real disk has a value of its own" };
            notes.push(format!("read_ahead_kb is {kib}, as recorded (--set {READ_AHEAD}=128 changes it){of_disk}."));
        }
        notes.push(self.follow_up.to_owned());
        notes
    }

    /// Returns the report in a form.
    pub fn in_format(&self, format: Format, look: Look) -> Vec<u8> {
        match format {
            Format::Table => self.text(look).into_bytes(),
            Format::Markdown => self.page().markdown().into_bytes(),
            Format::Csv => self.csv().into_bytes(),
            Format::Json => self.json().into_bytes(),
            Format::Html => with_command(self.page()).render().into_bytes(),
            Format::Parquet => self.parquet(),
        }
    }

    fn text(&self, look: Look) -> String {
        let mut text = grid::prose(&self.answer(), look);
        text += &format!("\n{}\n", self.grid().render(look));
        self.notes().iter().for_each(|note| text += &grid::prose(note, look));
        text
    }

    fn page(&self) -> Page {
        let [read, refaults] = self.panels();
        let chart = |panel| Chart::of_panel(panel, &self.case_names(), ACROSS, "curves");
        let sections = vec![
            Section::new("By memory", vec![Part::table("By memory", self.grid())]),
            Section::new("Pages read and refaults", vec![Part::Charts(vec![chart(read), chart(refaults)])]),
        ];
        let about = std::iter::once(self.answer()).chain(self.notes()).collect();
        Page { title: format!("{} on a machine", self.name), about, sections }
    }

    /// Returns a picture of the pages read and the refaults by memory, with a curve for each case.
    pub fn picture(&self) -> String {
        let picture = Picture {
            title: format!("{} on a machine", self.name),
            about: vec![self.answer()],
            names: self.case_names(),
            across: ACROSS.to_owned(),
            panels: self.panels().to_vec(),
            ..Picture::default()
        };
        picture.draw()
    }

    fn case_names(&self) -> Vec<String> {
        self.lines.cases.iter().map(Case::name).collect()
    }

    fn panels(&self) -> [Panel; 2] {
        let points = |curve: &[(u64, f64)]| curve.iter().map(|(pages, value)| (*pages as f64 / MIB, *value)).collect();
        let panel = |caption: &str, curve: fn(&Case) -> &[(u64, f64)]| Panel {
            caption: caption.to_owned(),
            lines: self.lines.cases.iter().map(|case| points(curve(case))).collect(),
        };
        [panel("Pages read", |case| &case.curve), panel("Refaults, pages", |case| &case.refaults)]
    }

    /// Returns each line with its case, lines of one size together.
    fn all(&self) -> impl Iterator<Item = (&Case, &Line)> {
        let numbers = 0..self.asked.memory_pages.len();
        numbers.flat_map(|number| self.lines.cases.iter().map(move |case| (case, &case.lines[number])))
    }

    fn csv(&self) -> String {
        let figures: Vec<&str> = FIGURES.iter().map(|figure| figure.key).collect();
        let mut text =
            format!("memory_bytes,kernel,values,{},pages_read_low,pages_read_high,cliff\n", figures.join(","));
        let or_empty = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        for (case, line) in self.all() {
            let mut fields =
                vec![(line.pages * PAGE_BYTES).to_string(), case.kernel.clone(), case.values.replace(',', ";")];
            fields.extend(line.figures.map(or_empty));
            fields.extend([or_empty(line.range.map(|it| it.0)), or_empty(line.range.map(|it| it.1))]);
            fields.push(line.is_cliff.to_string());
            text += &(fields.join(",") + "\n");
        }
        text
    }

    /// Returns the report as a Parquet file, with the columns of [`Self::csv`].
    fn parquet(&self) -> Vec<u8> {
        let figures: String = FIGURES.iter().map(|figure| format!("optional double {};\n", figure.key)).collect();
        let schema = format!(
            "message replay {{
                required int64 memory_bytes (INTEGER(64, false));
                required binary kernel (UTF8);
                required binary values (UTF8);
                {figures}
                optional double pages_read_low;
                optional double pages_read_high;
                required binary cliff (UTF8);
            }}"
        );
        let lines: Vec<(&Case, &Line)> = self.all().collect();
        let texts = |of: &dyn Fn(&Case, &Line) -> String| {
            Cells::Texts(lines.iter().map(|(case, line)| of(case, line)).collect())
        };
        let optional =
            |of: &dyn Fn(&Line) -> Option<f64>| Cells::Optional(lines.iter().map(|(_, line)| of(line)).collect());
        let cells = |column: usize| match column {
            0 => Cells::Numbers(lines.iter().map(|(_, line)| line.pages * PAGE_BYTES).collect()),
            1 => texts(&|case, _| case.kernel.clone()),
            2 => texts(&|case, _| case.values.clone()),
            _ => match column - 3 {
                figure if figure < FIGURES.len() => optional(&|line| line.figures[figure]),
                after if after == FIGURES.len() => optional(&|line| Some(line.range?.0)),
                after if after == FIGURES.len() + 1 => optional(&|line| Some(line.range?.1)),
                _ => texts(&|_, line| line.is_cliff.to_string()),
            },
        };
        encode(&schema, cells, vec![("highwater.trace".to_owned(), self.name.to_owned())])
    }

    fn json(&self) -> String {
        let rows = self.all().map(|(case, line)| {
            let mut row = serde_json::Map::new();
            row.insert("memory_bytes".into(), json!(line.pages * PAGE_BYTES));
            row.insert("kernel".into(), json!(case.kernel));
            row.insert("values".into(), json!(case.values));
            for (figure, value) in FIGURES.iter().zip(line.figures) {
                row.insert(figure.key.into(), json!(value));
            }
            row.insert("pages_read_low".into(), json!(line.range.map(|it| it.0)));
            row.insert("pages_read_high".into(), json!(line.range.map(|it| it.1)));
            row.insert("is_cliff".into(), json!(line.is_cliff));
            serde_json::Value::Object(row)
        });
        kit::shown::json(&json!({
            "schema": 1,
            "answer": self.answer(),
            "trace": self.name,
            "read_ahead_kb": self.asked.read_ahead_kb,
            "notes": self.notes(),
            "rows": rows.collect::<Vec<_>>(),
        }))
    }
}

/// How notes begin that name columns with equal figures, or columns whose memory was never full.
const ALIKE: [&str; 2] = ["these columns are the same run", "no page was reclaimed, for"];

/// Name of the horizontal axis of curves.
const ACROSS: &str = "memory, MiB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_told_in_the_words_of_their_size() {
        let told = |more, less| times(more, less);
        assert_eq!(told(320.0, 100.0), "3.2 times as many pages");
        assert_eq!(told(1250.0, 100.0), "12 times as many pages");
        assert_eq!(told(104.0, 100.0), "4 % more pages");
        assert_eq!(told(100.0, 100.0), "as many pages");
        assert_eq!(told(80.0, 100.0), "20 % fewer pages");
        assert_eq!(less_memory(65_536, 131_072), "With half the memory (256M in place of 512M)");
        assert_eq!(less_memory(90_000, 131_072), "With 360000K of memory in place of 512M");
    }
}
