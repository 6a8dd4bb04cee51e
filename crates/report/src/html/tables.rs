//! Makes the parts of an HTML page from tables of figures.

use super::{Chart, Page, Part, Section};
use crate::answer::Answer;
use crate::plot::of_tables;
use crate::show::Show;
use crate::table::Table;
use crate::text;

/// Returns an HTML page that shows one table, such as the report of `highwater stat` or a saved report.
#[must_use]
pub fn page(table: &Table, show: Show) -> Page {
    let sections = [answer(table), Some(figures(table, show)), times(table)].into_iter().flatten().collect();
    Page { title: title(table, show), about: vec![table.footer()], sections }
}

/// Returns the page that shows several tables, each in a section of its own. For a single table, returns the same page
/// as [`page`].
#[must_use]
pub fn page_of_all(tables: &[Table], show: Show) -> Page {
    if let [table] = tables {
        return page(table, show);
    }
    let section = |table: &Table| {
        let sections = [answer(table), Some(figures(table, show)), times(table)];
        let parts = sections.into_iter().flatten().flat_map(|section| section.parts);
        Section::new(title(table, show), parts.chain([Part::Words(table.footer())]).collect())
    };
    let about = vec![format!("{} tables: of each experiment, machine and scale one", tables.len())];
    Page { title: "What a store holds".into(), about, sections: tables.iter().map(section).collect() }
}

/// Returns the title of a table's page.
#[must_use]
pub fn title(table: &Table, show: Show) -> String {
    text::grid_of(table, show).0
}

/// Returns the section "Answer" of a table: its sentences and, if the table has several columns, a picture of the main
/// row as bars. Returns none if the experiment names no main row.
#[must_use]
pub fn answer(table: &Table) -> Option<Section> {
    let answer = Answer::of(table)?;
    let mut parts = vec![Part::Words(answer.sentences().join(" "))];
    if table.columns.len() > 1 {
        parts.push(Part::Picture(of_tables::main_row(table, answer.row).draw()));
    }
    Some(Section::new("Answer", parts))
}

/// Returns the section with the figures of the text report and the notes below them.
#[must_use]
pub fn figures(table: &Table, show: Show) -> Section {
    let mut parts = Vec::new();
    if table.columns.len() > 1 {
        let words = "The first column is what others are compared with; in brackets is the change, and more than 0 is better. Green is \
                     told apart from it and better, red told apart and worse; a star marks the best of a row, and what is not told apart \
                     from that. Fewer than four seeds tell nothing apart.";
        parts.push(Part::Words(words.into()));
    }
    parts.push(Part::table("Figures", text::grid_of(table, show).1));
    let remarks = table.remarks();
    if !remarks.is_empty() {
        parts.push(Part::Lines(remarks));
    }
    Section::new("Figures", parts)
}

/// Returns the section with the durations of operations; none if they were not measured.
#[must_use]
pub fn times(table: &Table) -> Option<Section> {
    let charts: Vec<Chart> = table.histograms.iter().map(Chart::of_times).collect();
    (!charts.is_empty()).then(|| Section::new("Latency", vec![Part::Charts(charts)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{head, ops};

    #[test]
    fn every_line_of_the_text_is_a_row_of_the_page() {
        let of = |value: f64| vec![ops("Ops a", value), ops("Ops b<c", 3.0)];
        let run = |value: f64| vec![of(value), of(value + 1.0), of(value), of(value + 0.5)];
        let mut table = Table::of_runs(head(&["x", "y"], 4), &[run(1.0), run(4.0)], None);
        table.main_rows = vec!["Ops a".into()];
        let page = page(&table, Show::default()).render();
        let [answer, figures] =
            ["y is better: 4.25 ops/s beside 1.25 of x", "Figures</h2>"].map(|it| page.find(it).unwrap());
        assert!(answer < figures, "the answer comes first");
        // Removes elements and keeps the text in them.
        let (mut text, mut is_in) = (String::new(), false);
        for c in page.chars() {
            match c {
                '<' => (is_in, text) = (true, text + " "),
                '>' => is_in = false,
                c if !is_in => text.push(c),
                _ => {}
            }
        }
        let words = |text: &str| text.replace(['(', ')', '★'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let flat = words(&text.replace("&lt;", "<"));
        for line in text::render(&table, Show::default()).lines().filter(|line| !line.is_empty()) {
            assert!(flat.contains(&words(line)), "{line} is not in {flat}");
        }
        assert_eq!(page.matches("class=\"star\"").count(), 1, "the best of each row of different figures: {page}");
    }
}
