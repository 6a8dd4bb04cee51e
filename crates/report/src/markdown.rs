//! The report as Markdown tables.

use comfy_table::{CellAlignment, presets};

use super::{answer::Answer, grid::Grid, text};
use crate::show::Show;
use crate::table::{Table, TableRow};
use figures::statistics::percent;
use kit::shown::harmless;

/// Returns the whole report as Markdown.
#[must_use]
pub fn render(table: &Table, show: Show) -> String {
    let mut out = format!("## {}\n", escaped(&table.experiment));
    for sentence in Answer::of(table).iter().flat_map(Answer::sentences) {
        out.push_str(&format!("\n{}\n", escaped(&sentence)));
    }
    for (group, rows) in table.blocks() {
        out.push_str(&format!("\n| {} | unit | better |", escaped(group)));
        for column in &table.columns {
            out.push_str(&format!(" {} |", escaped(&column.id)));
        }
        out.push_str(&format!("\n| :-- | :-- | :-- |{}\n", " --: |".repeat(table.columns.len())));
        for row in rows {
            line(table, row, text::has_brackets(group), show, &mut out);
        }
    }
    out.push_str(&format!("\n{}\n", escaped(&table.footer())));
    table.remarks().iter().for_each(|note| out.push_str(&format!("\n{}\n", escaped(note))));
    out
}

/// Returns the results of an experiment's variants as Markdown. Each kernel has a table, with a line for each variant
/// and a column for each figure.
#[must_use]
pub fn variants(table: &Table) -> String {
    let mut out = format!("## {}\n", escaped(&table.experiment));
    let blocks: Vec<_> = table.blocks().collect();
    // The name of a variant's line is the name of its block, then that of the variant.
    let name_of = |group: &str, row: &TableRow| row.name.strip_prefix(&format!("{group}: ")).map(str::to_owned);
    let mut names: Vec<String> = Vec::new();
    for name in blocks.iter().flat_map(|(group, rows)| rows.iter().filter_map(move |row| name_of(group, row))) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for (n, column) in table.columns.iter().enumerate() {
        out.push_str(&format!("\n| `{}` |", escaped(&column.id)));
        for (group, rows) in &blocks {
            let unit = &rows[0].unit;
            let unit = if unit.is_empty() { String::new() } else { format!(", {}", escaped(unit)) };
            out.push_str(&format!(" {}{unit} |", escaped(group)));
        }
        out.push_str(&format!("\n| :-- |{}\n", " --: |".repeat(blocks.len())));
        for name in &names {
            let cell = |(group, rows): &(&str, &[TableRow])| {
                let row = rows.iter().find(|row| name_of(group, row).as_ref() == Some(name))?;
                let value = row.cells[n].value?;
                let [median, low, high] = [value.median, value.low, value.high].map(|value| row.format.show(value));
                Some(if value.n > 1 { format!("{median}, {low} to {high}") } else { median })
            };
            let cells: Vec<Option<String>> = blocks.iter().map(cell).collect();
            if cells.iter().any(Option::is_some) {
                let cells: String = cells.into_iter().map(|cell| format!(" {} |", cell.unwrap_or_default())).collect();
                out.push_str(&format!("| {} |{cells}\n", escaped(name)));
            }
        }
    }
    out.push_str(&format!("\n{}\n", escaped(&table.footer())));
    out
}

fn line(table: &Table, row: &TableRow, brackets: bool, show: Show, out: &mut String) {
    let base = row.median(0);
    out.push_str(&format!("| {} | {} | {} |", escaped(&row.name), escaped(&row.unit), text::arrow(row.better)));
    for (column, cell) in row.cells.iter().enumerate() {
        let Some(value) = cell.value else {
            let failure = table.columns[column].failure().filter(|_| table.columns[column].has_failed());
            out.push_str(&failure.map_or_else(|| " |".into(), |failure| format!(" {} |", escaped(&failure))));
            continue;
        };
        out.push_str(&format!(" {}", row.format.show(value.median)));
        if let Some(base) = base.filter(|_| brackets && column > 0) {
            let rule = show.percent.of(row.format, &row.unit);
            let [base, median] = [base, value.median].map(|value| rule.compared(row.format, value));
            out.push_str(&format!(" ({})", rule.bracket(row.better, base, median).trim()));
        }
        if value.n > 1 {
            let [low, high] = [value.low, value.high].map(|value| row.format.show(value));
            out.push_str(&format!("<br>{low} to {high}, {}", value.ends()));
        }
        if let Some(it) = row.comparison(column).filter(|it| brackets && it.is_known()) {
            let [low, high] = [it.shift.low, it.shift.high].map(|value| row.format.show(value));
            let coverage = it.shift.coverage.map(|it| format!(", {}", percent(it))).unwrap_or_default();
            out.push_str(&format!("<br>{}: difference {low} to {high}{coverage}", it.verdict.word()));
        }
        out.push_str(" |");
    }
    out.push('\n');
    if show.published && row.is_published() {
        let has_base = row.has_published_base();
        let rule = show.percent.of(row.format, &row.unit);
        out.push_str("| published | | |");
        for (column, cell) in row.cells.iter().enumerate() {
            let shown = cell.published.map_or_else(String::new, |figure| {
                let percent = figure.percent.filter(|_| has_base && brackets && column > 0);
                let bracket = percent.map_or_else(String::new, |it| format!(" ({})", rule.printed(it).trim()));
                format!(" *{}{bracket}*", row.format.show(figure.value))
            });
            out.push_str(&format!("{shown} |"));
        }
        out.push('\n');
    }
}

/// Returns a grid as one Markdown table. The colours of its cells are lost.
#[must_use]
pub fn grid(grid: &Grid) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(grid.head.iter().map(|cell| escaped(&cell.text)));
    table.add_rows(grid.lines.iter().map(|line| line.iter().map(|cell| escaped(&cell.text)).collect::<Vec<_>>()));
    for (index, column) in table.column_iter_mut().enumerate() {
        if !grid.texts.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Returns a text escaped for use in a cell of a table. Unescaped, a line break or a `|` would end the cell.
fn escaped(text: &str) -> String {
    harmless(text).replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use figures::figure::duration_rows;

    #[test]
    fn variants_are_lines_of_a_table_for_each_kernel() {
        let run = |a, b| vec![vec![samples::ops("Ops a", a), samples::ops("Ops b", b)]];
        let mut table = Table::of_runs(samples::head(&["x", "y"], 1), &[run(1.0, 2.0), run(3.0, 4.0)], None);
        let rows = std::mem::take(&mut table.rows);
        for row in rows {
            for (variant, kernels) in [("as it is", 2), ("a patch", 1)] {
                let (group, name) = (row.name.clone(), format!("{}: {variant}", row.name));
                let mut cells = row.cells.clone();
                cells[kernels..].fill(crate::TableCell::default());
                table.rows.push(TableRow { group, name, cells, ..row.clone() });
            }
        }
        let text = variants(&table);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..10],
            [
                "",
                "| `x` | Ops a, ops/s | Ops b, ops/s |",
                "| :-- | --: | --: |",
                "| as it is | 1.00 | 2.00 |",
                "| a patch | 1.00 | 2.00 |",
                "",
                "| `y` | Ops a, ops/s | Ops b, ops/s |",
                "| :-- | --: | --: |",
                "| as it is | 3.00 | 4.00 |",
            ]
        );
    }

    #[test]
    fn each_group_is_a_table() {
        let name = "Ops a|b\nc\u{1b}[31m";
        let run = |value| vec![[vec![samples::ops(name, value)], duration_rows(1.0, 2.0, 3.0)].concat()];
        let table = Table::of_runs(samples::head(&["x", "y"], 1), &[run(10.0), run(15.0)], None);
        let text = render(&table, Show::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..7],
            [
                "## parallelio",
                "",
                "| Ops | unit | better | x | y |",
                "| :-- | :-- | :-- | --: | --: |",
                "| Ops a\\|b c\u{fffd}[31m | ops/s | higher | 10.00 | 15.00 (50.00%) |",
                "",
                "| duration | unit | better | x | y |",
            ]
        );
    }
}
