//! Makes bar charts from tables: one of a single row, with a bar for each column, and one of a whole table of variants.

use super::bars::{self, Bars, Group};
use crate::table::{Table, TableRow};

/// Returns a picture of one row of a table, with a bar for each column.
#[must_use]
pub fn main_row(table: &Table, row: &TableRow) -> Bars {
    let bar = |median: f64| bars::Bar { value: median, shown: row.format.show(median) };
    let group = |n: usize| Group { name: table.columns[n].id.clone(), bars: vec![row.median(n).map(bar)] };
    let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
    let panel = bars::Panel {
        caption: format!("{}{unit}", row.name),
        groups: (0..table.columns.len()).map(group).collect(),
        range: None,
    };
    Bars {
        title: table.experiment.clone(),
        about: vec![table.footer()],
        names: vec![String::new()],
        panels: vec![panel],
    }
}

/// Returns a picture of a table of variants, with a panel for each block and a group of bars for each line of the
/// block.
#[must_use]
pub fn variants(table: &Table) -> Bars {
    let panels = table.blocks().map(|(group, rows)| bars::Panel {
        caption: format!("{group}, {}", rows[0].unit),
        groups: rows
            .iter()
            .map(|row| Group {
                name: row.name.strip_prefix(&format!("{group}: ")).unwrap_or(&row.name).to_owned(),
                bars: row
                    .cells
                    .iter()
                    .map(|cell| {
                        cell.value.map(|value| bars::Bar { value: value.median, shown: row.format.show(value.median) })
                    })
                    .collect(),
            })
            .collect(),
        range: None,
    });
    Bars {
        title: format!("{}: what it depends on", table.experiment),
        about: vec![table.footer()],
        names: table.columns.iter().map(|column| column.id.clone()).collect(),
        panels: panels.collect(),
    }
}
