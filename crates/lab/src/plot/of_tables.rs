//! Bars and dots of reports: ablations, variants, published figures.

use super::bars::{self, Bars, Group};
use super::scatter::{Dot, Scatter};
use crate::ablation::{Effect, RowAblation};
use crate::fidelity::{FACTOR, Fidelity, Summary, Tally};
use crate::report::{Table, TableRow};

/// Ends of the scale of shares, %: what goes farther is cut off.
const SHARES: (f64, f64) = (-100.0, 200.0);

/// Draws the effect of each difference between two kernels on a row: applied alone, and reverted alone.
#[must_use]
pub fn ablation(rows: &[RowAblation], from: &str, to: &str, table: &Table) -> Bars {
    let percent = |share: Option<f64>| {
        share
            .map(|share| bars::Bar { value: 100.0 * share, shown: format!("{:.0} %", crate::ablation::percent(share)) })
    };
    let panel = |row: &RowAblation| {
        let group = |effect: &Effect| Group {
            name: format!("{} = {}", effect.difference.key, effect.difference.to),
            bars: vec![percent(effect.alone_share), percent(effect.undone_share)],
        };
        let groups: Vec<Group> = row.farthest_first().into_iter().filter(|_| row.has_gap()).map(group).collect();
        let values = || groups.iter().flat_map(|group| group.bars.iter().flatten()).map(|bar| bar.value);
        let least = values().fold(0.0, f64::min).max(SHARES.0);
        let most = values().fold(100.0, f64::max).min(SHARES.1);
        let [old, new] = [row.from, row.to].map(|value| row.format.show(value));
        let unit = &row.unit;
        let what = if row.has_gap() { "share of the way in %" } else { "less than 1 % apart: no shares" };
        bars::Panel {
            caption: format!("{}: {old} {unit} to {new} {unit}, {what}", row.row),
            range: Some((least - if least < 0.0 { 5.0 } else { 0.0 }, most + 5.0)),
            groups,
        }
    };
    Bars {
        title: format!("{}: from {from} to {to}", table.experiment),
        about: vec![table.footer()],
        names: vec!["this difference alone".into(), "all differences, lost without this one".into()],
        panels: rows.iter().map(panel).collect(),
    }
}

/// One row of a table, a bar for each column.
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

/// A panel for each block of the table of variants, with a group for each of its lines.
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

/// Every published figure against the simulated one.
#[must_use]
pub fn fidelity(all: &[Fidelity], seeds: &str) -> Scatter {
    let dots = |it: &Fidelity| -> Vec<Dot> {
        let cells = it.rows.iter().flat_map(|row| &row.cells);
        let dot = |cell: &crate::fidelity::Cell| {
            let y = cell.simulated?.median;
            Some(Dot { x: cell.published, y, is_met: cell.is_met })
        };
        cells.filter_map(dot).collect()
    };
    let tally = |summary: &Summary| summary.plain.and(summary.apart);
    let levels = all.iter().map(|it| tally(&it.summary)).fold(Tally::default(), Tally::and).levels;
    Scatter {
        title: "fidelity: simulated figures against published ones".into(),
        about: vec![
            format!(
                "In the band, and filled: within a factor of {FACTOR}; {} of {} levels above {} are. Rings are farther off.",
                levels.met,
                levels.of,
                crate::fidelity::LEVEL
            ),
            seeds.to_owned(),
        ],
        across: "published".into(),
        up: "simulated".into(),
        groups: all.iter().map(|it| (it.experiment.clone(), dots(it))).collect(),
        factor: FACTOR,
    }
}
