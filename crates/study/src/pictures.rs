//! Pictures of studies: runs over time, ablations, simulated figures against published ones.

use crate::ablation::{self, Effect, RowAblation};
use crate::fidelity::{self, FACTOR, Fidelity, Summary, Tally};
use crate::plan::Results;
use catalogue::experiment::{Experiment, Picture};
use report::plot::bars::{self, Bars, Group};
use report::plot::scatter::{Dot, Scatter};
use report::{Table, plot};

/// Limits of the scale in a picture of shares, %. A bar for a share beyond a limit is cut off there.
const SHARES: (f64, f64) = (-100.0, 200.0);

/// Returns an experiment's runs as an SVG picture.
#[must_use]
pub fn of_runs(experiment: &Experiment, Results { table, series, traces, curves, .. }: &Results) -> String {
    match experiment.picture {
        Picture::OverTime => plot::over_time::picture(experiment, table, series, curves).draw(),
        Picture::Packets => plot::packets::picture(experiment, table, traces).draw(),
    }
}

/// Returns the effects of the differences between two kernels as bars, two for each row and difference: one for the
/// difference applied alone, one for the difference reverted alone.
#[must_use]
pub fn ablation(rows: &[RowAblation], from: &str, to: &str, table: &Table) -> Bars {
    let percent = |share: Option<f64>| {
        share.map(|share| bars::Bar { value: 100.0 * share, shown: format!("{:.0} %", ablation::percent(share)) })
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

/// Returns a scatter plot of every published figure against the simulated one.
#[must_use]
pub fn fidelity(all: &[Fidelity], seeds: &str) -> Scatter {
    let dots = |it: &Fidelity| -> Vec<Dot> {
        let cells = it.rows.iter().flat_map(|row| &row.cells);
        let dot = |cell: &fidelity::Cell| {
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
                fidelity::LEVEL
            ),
            seeds.to_owned(),
        ],
        across: "published".into(),
        up: "simulated".into(),
        groups: all.iter().map(|it| (it.experiment.clone(), dots(it))).collect(),
        factor: FACTOR,
    }
}
