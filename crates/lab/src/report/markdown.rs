//! The report as tables for a text in Markdown.

use super::{Show, Table, TableRow, percent, text};

/// The whole report.
#[must_use]
pub fn render(table: &Table, show: Show) -> String {
    let mut out = format!("## {}\n", escaped(&table.experiment));
    for (group, rows) in table.blocks() {
        out.push_str(&format!("\n| {} | unit | better |", escaped(group)));
        for column in &table.columns {
            out.push_str(&format!(" {} |", escaped(&column.id)));
        }
        out.push_str(&format!("\n| :-- | :-- | :-- |{}\n", " --: |".repeat(table.columns.len())));
        for row in rows {
            line(row, text::has_brackets(group), show, &mut out);
        }
    }
    out.push_str(&format!("\n{}\n", table.footer()));
    table.notes.iter().for_each(|note| out.push_str(&format!("\n{}\n", escaped(note))));
    out
}

fn line(row: &TableRow, brackets: bool, show: Show, out: &mut String) {
    let base = row.median(0);
    out.push_str(&format!("| {} | {} | {} |", escaped(&row.name), escaped(&row.unit), text::arrow(row.better)));
    for (column, cell) in row.cells.iter().enumerate() {
        let Some(value) = cell.value else {
            out.push_str(" |");
            continue;
        };
        out.push_str(&format!(" {}", row.format.show(value.median)));
        if let Some(base) = base.filter(|_| brackets && column > 0) {
            out.push_str(&format!(" ({})", show.percent.of(row.format).bracket(row.better, base, value.median).trim()));
        }
        if value.n > 1 {
            let [low, high] = [value.low, value.high].map(|value| row.format.show(value));
            out.push_str(&format!("<br>{low} to {high}, n = {}", value.n));
        }
        out.push_str(" |");
    }
    out.push('\n');
    if show.published && row.is_published() {
        let has_base = row.has_published_base();
        out.push_str("| published | | |");
        for (column, cell) in row.cells.iter().enumerate() {
            let shown = cell.published.map_or_else(String::new, |figure| {
                let percent = figure.percent.filter(|_| has_base && brackets && column > 0);
                let bracket = percent.map_or_else(String::new, |it| format!(" ({})", percent::bracket(it).trim()));
                format!(" *{}{bracket}*", row.format.show(figure.value))
            });
            out.push_str(&format!("{shown} |"));
        }
        out.push('\n');
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{duration_rows, tests};

    #[test]
    fn each_group_is_a_table() {
        let run = |value| vec![[vec![tests::ops("Ops a|b", value)], duration_rows(1.0, 2.0, 3.0)].concat()];
        let table = Table::of_runs(tests::head(&["x", "y"], 1), &[run(10.0), run(15.0)], None);
        let text = render(&table, Show::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..7],
            [
                "## parallelio",
                "",
                "| Ops | unit | better | x | y |",
                "| :-- | :-- | :-- | --: | --: |",
                "| Ops a\\|b | ops/s | higher | 10.00 | 15.00 (50.00%) |",
                "",
                "| duration | unit | better | x | y |",
            ]
        );
    }
}
