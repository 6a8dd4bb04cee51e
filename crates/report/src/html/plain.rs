//! A page as Markdown and as JSON: the page's words and tables, without charts and pictures.

use super::{Page, Part};
use crate::grid::{Cell, Grid, Tone};
use crate::markdown;
use kit::shown;
use serde_json::{Map, Value, json};

impl Page {
    /// Returns the page as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n", one_line(&self.title));
        self.about
            .iter()
            .filter(|words| !words.is_empty())
            .for_each(|words| text += &format!("\n{}\n", one_line(words)));
        for section in &self.sections {
            text += &format!("\n### {}\n", one_line(&section.heading()));
            for part in &section.parts {
                let part = match part {
                    Part::Words(words) => one_line(words) + "\n",
                    Part::Heading(words) => format!("#### {}\n", one_line(words)),
                    Part::Lines(lines) => fenced("", &lines.join("\n")),
                    Part::Command(command) => fenced("sh", command),
                    Part::Table { grid, .. } => markdown::grid(&flat(grid)),
                    Part::Charts(_) | Part::Counters(_) | Part::Flames(_) | Part::Picture(_) => continue,
                };
                text += &format!("\n{part}");
            }
        }
        text
    }

    /// Returns the page as JSON, which docs/json.md describes.
    #[must_use]
    pub fn json(&self) -> String {
        let part = |part: &Part| match part {
            Part::Words(words) | Part::Heading(words) => Some(json!({ "text": words })),
            Part::Lines(lines) => Some(json!({ "text": lines.join("\n") })),
            Part::Command(command) => Some(json!({ "command": command })),
            Part::Table { caption, grid, .. } => Some(json!({ "table": caption, "rows": rows(grid) })),
            Part::Charts(_) | Part::Counters(_) | Part::Flames(_) | Part::Picture(_) => None,
        };
        let sections = self.sections.iter().map(|section| {
            let parts: Vec<Value> = section.parts.iter().filter_map(part).collect();
            json!({ "title": section.heading(), "parts": parts })
        });
        let about: Vec<&String> = self.about.iter().filter(|words| !words.is_empty()).collect();
        let sections: Vec<Value> = sections.collect();
        shown::json(&json!({ "schema": 1, "title": self.title, "about": about, "sections": sections }))
    }
}

fn one_line(text: &str) -> String {
    shown::harmless(text).replace('\n', " ")
}

/// Puts `text` between two Markdown code fences, which are longer than any fence within `text`. `language` is the
/// language that the first fence names.
fn fenced(language: &str, text: &str) -> String {
    let text = shown::harmless(text);
    let runs = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(runs + 1));
    format!("{fence}{language}\n{text}\n{fence}\n")
}

/// Returns the text of the line `line` if the line is the title of a block of rows: a single cell in the style of
/// headings. Returns none for other lines.
fn block_of(line: &[Cell]) -> Option<&str> {
    match line {
        [only] if only.tone == Tone::Heading => Some(&only.text),
        _ => None,
    }
}

/// Returns a grid without the empty lines between blocks, and with the names of blocks emphasised.
fn flat(grid: &Grid) -> Grid {
    let lines = grid.lines.iter().filter(|line| !line.is_empty());
    let line = |line: &Vec<Cell>| match block_of(line) {
        Some(block) => vec![Cell::new(format!("**{block}**"), Tone::Heading)],
        None => line.clone(),
    };
    Grid { lines: lines.map(line).collect(), ..grid.clone() }
}

/// Returns each line of a grid as an object with a key for each column. If blocks of lines have names, the object also
/// has the name of its block.
fn rows(grid: &Grid) -> Vec<Value> {
    let mut block = None;
    let mut rows = Vec::new();
    for line in grid.lines.iter().filter(|line| !line.is_empty()) {
        if let Some(name) = block_of(line) {
            block = Some(name);
            continue;
        }
        let mut row = Map::new();
        row.extend(block.map(|block| ("block".to_owned(), Value::from(block))));
        for (n, cell) in line.iter().enumerate() {
            let head = grid.head.get(n).map(|head| head.text.clone()).filter(|head| !head.is_empty());
            let key = head.filter(|head| !row.contains_key(head)).unwrap_or_else(|| format!("column {}", n + 1));
            row.insert(key, Value::from(cell.text.trim()));
        }
        rows.push(Value::Object(row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Section;

    fn page() -> Page {
        let head = ["key", "value", "value"].map(|word| Cell::new(word, Tone::Heading)).into();
        let lines =
            vec![vec![], vec![Cell::new("lru", Tone::Heading)], vec!["batch".into(), "14 | 15".into(), "x".into()]];
        let grid = Grid { keys: 1, head, lines, texts: vec![0] };
        let parts = vec![
            Part::Words("Two\nlines".into()),
            Part::table("Values", grid),
            Part::Picture("<svg/>".into()),
            Part::Lines(vec!["a ``` b".into()]),
        ];
        Page { title: "kernel k".into(), about: vec!["a test".into()], sections: vec![Section::new("Values", parts)] }
    }

    #[test]
    fn words_and_tables_become_markdown() {
        let text = page().markdown();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[..7], ["## kernel k", "", "a test", "", "### Values", "", "Two lines"]);
        assert_eq!(lines[8], "| key | value | value |");
        assert!(lines[10].starts_with("| **lru** |") && lines[11] == "| batch | 14 \\| 15 | x |", "{text}");
        assert!(text.ends_with("\n````\na ``` b\n````\n") && !text.contains("svg"), "{text}");
    }

    #[test]
    fn programs_get_a_row_for_each_line() {
        let value: Value = serde_json::from_str(&page().json()).unwrap();
        let parts = &value["sections"][0]["parts"];
        let expected = json!({ "block": "lru", "key": "batch", "value": "14 | 15", "column 3": "x" });
        assert_eq!(parts[1], json!({ "table": "Values", "rows": [expected] }));
        assert_eq!((value["title"].as_str(), parts.as_array().unwrap().len()), (Some("kernel k"), 3));
    }
}
