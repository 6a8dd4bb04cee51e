//! Pictures of a workload's curves and of counters over time, as an experiment defines them.

use super::lines::{Lines, Panel, Plot};
use crate::table::Table;
use catalogue::experiment::{Experiment, PanelUnit, PlotPanel};
use figures::curves::{Curve, RunCurves, Steps};
use figures::series::{RunSeries, Series, groups_in, is_gauge};
use machine::PAGE_BYTES;

/// Largest number of points in a line. A picture has too few pixels to show more.
const POINTS: usize = 230;

/// Largest number of control groups that have panels of their own. The groups with the largest peaks of memory are
/// chosen.
const GROUPS_MAX: usize = 4;

/// Returns a picture of the runs with the first seed, with a line for each run. The workload's curves, if any, are at
/// the top. Below them are the experiment's panels, or the usual panels if the experiment defines none, and panels of
/// control groups.
#[must_use]
pub fn picture(experiment: &Experiment, table: &Table, runs: &[RunSeries], curves: &[RunCurves]) -> Lines {
    let seed = table.seeds.first().copied();
    let curves: Vec<&RunCurves> = curves.iter().filter(|run| Some(run.seed) == seed).collect();
    let runs: Vec<&RunSeries> = runs.iter().filter(|run| Some(run.seed) == seed).collect();
    let mut panels = if experiment.plot.is_empty() { usual() } else { experiment.plot.clone() };
    panels.extend(of_groups(&runs));
    let mut about = vec![experiment.about.clone(), table.footer()];
    if table.seeds.len() > 1 {
        about.push(format!("Drawn is seed {}.", table.seeds[0]));
    }
    Lines {
        title: experiment.name.clone(),
        about,
        names: runs.iter().map(|run| run.column.clone()).collect(),
        across: if table.is_simulated() { "virtual time, s" } else { "time, s" }.to_owned(),
        panels: panels.iter().map(|it| panel(it, &runs)).collect(),
        beside: beside(&curves),
        // The steps of the first run are shown. In other runs a step is longer or shorter by the time that its last
        // bytes take.
        steps: curves.first().map_or_else(Steps::default, |run| run.steps.clone()),
    }
}

/// Returns the panels of a picture for which the experiment names no panels, with the data of `runs`.
#[must_use]
pub fn usual_panels(runs: &[&RunSeries]) -> Vec<Panel> {
    usual().iter().chain(&of_groups(runs)).map(|it| panel(it, runs)).collect()
}

/// Returns two panels for each of the largest control groups of the runs. One shows the group's memory, the other the
/// pages scanned in it. A group that contains other groups has no panels, since its counters are sums over the groups
/// that it contains.
fn of_groups(runs: &[&RunSeries]) -> Vec<PlotPanel> {
    let mut groups: Vec<(&str, u64)> = Vec::new();
    for run in runs {
        for group in groups_in(&run.series.names) {
            let most = largest(&run.series, &format!("{group}: memory.current"));
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, known)) => *known = most.max(*known),
                None => groups.push((group, most)),
            }
        }
    }
    let names: Vec<&str> = groups.iter().map(|(group, _)| *group).collect();
    let has_children =
        |group: &str| names.iter().any(|other| other.strip_prefix(group).is_some_and(|it| it.starts_with('/')));
    groups.retain(|(group, most)| *most > 0 && !has_children(group));
    groups.sort_by_key(|(_, most)| std::cmp::Reverse(*most));
    groups.truncate(GROUPS_MAX);
    let of = |(group, _): (&str, u64)| {
        let panel = |what: &str, counter: &str, unit| PlotPanel {
            caption: format!("{what}, group {group}{}", if unit == PanelUnit::Mib { ", MiB" } else { ", 1/s" }),
            sum: vec![format!("{group}: {counter}")],
            unit,
        };
        [panel("Memory", "memory.current", PanelUnit::Mib), panel("Pages scanned", "pgscan", PanelUnit::Count)]
    };
    groups.into_iter().flat_map(of).collect()
}

/// Returns the largest value of a counter.
fn largest(series: &Series, name: &str) -> u64 {
    let column = series.names.iter().position(|it| it == name);
    column.and_then(|n| series.points.iter().map(|point| point.values[n]).max()).unwrap_or(0)
}

fn panel(panel: &PlotPanel, runs: &[&RunSeries]) -> Panel {
    let lines = runs.iter().map(|run| points(&run.series, panel)).collect();
    Panel { caption: panel.caption.clone(), lines }
}

/// Returns a plot for each of the workload's curves, in rows of plots. A plot has a line for each run. Plots of
/// consecutive curves with the same name stand in one row.
fn beside(runs: &[&RunCurves]) -> Vec<Vec<Plot>> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut rows: Vec<Vec<Plot>> = Vec::new();
    for (n, Curve { name, across, .. }) in first.curves.iter().enumerate() {
        let lines = runs.iter().map(|run| run.curves.get(n).map_or_else(Vec::new, |curve| thinned(&curve.points)));
        let panel = Panel { caption: name.clone(), lines: lines.collect() };
        let plot = Plot { panel, across: across.clone() };
        match rows.last_mut().filter(|row| row[0].panel.caption == *name) {
            Some(row) => row.push(plot),
            None => rows.push(vec![plot]),
        }
    }
    rows
}

/// Thins a line out to about [`POINTS`] evenly spaced points at most. Keeps the last point.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(POINTS).max(1);
    let last = points.last().filter(|_| points.len() % every != 1 && every > 1);
    points.iter().step_by(every).chain(last).copied().collect()
}

/// Returns the panels that are shown for experiments without panels of their own.
fn usual() -> Vec<PlotPanel> {
    let panel = |caption: &str, sum: &[&str], unit| PlotPanel {
        caption: caption.to_owned(),
        sum: sum.iter().map(|name| (*name).to_owned()).collect(),
        unit,
    };
    vec![
        panel("Free memory, MiB", &["nr_free_pages"], PanelUnit::Mib),
        panel("Pages scanned by reclaim, 1/s", &["pgscan_kswapd_*", "pgscan_direct_*"], PanelUnit::Count),
        panel("Read from disks, MiB/s", &["pgpgin"], PanelUnit::KibAsMib),
        panel("Swapped in and out, MiB/s", &["pswpin", "pswpout"], PanelUnit::Mib),
    ]
}

/// Returns the values over time of the gauge `name`, or the rates over time of the counter `name`.
#[must_use]
pub fn course_of(series: &Series, name: &str) -> Vec<(f64, f64)> {
    let panel = PlotPanel { caption: String::new(), sum: vec![name.to_owned()], unit: PanelUnit::Count };
    points(series, &panel)
}

/// Returns the line of a panel, as pairs of a time in seconds and a value: the sum of the panel's gauges, or the summed
/// rate of its counters per second. Neighbouring samples are averaged into one point, so that there are at most
/// `POINTS` points.
fn points(series: &Series, panel: &PlotPanel) -> Vec<(f64, f64)> {
    let fits = |name: &str, word: &str| match word.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == word,
    };
    let columns: Vec<usize> =
        (0..series.names.len()).filter(|n| panel.sum.iter().any(|word| fits(&series.names[*n], word))).collect();
    let factor = match panel.unit {
        PanelUnit::Count => 1.0,
        PanelUnit::Mib => PAGE_BYTES as f64 / f64::from(1 << 20),
        PanelUnit::KibAsMib => 1.0 / 1024.0,
    };
    let is_level = columns.iter().all(|n| is_gauge(&series.names[*n]));
    let value = |n: usize| columns.iter().map(|column| series.points[n].values[*column]).sum::<u64>();
    let seconds = |n: usize| series.points[n].now_ns as f64 / 1e9;
    let Some(last) = series.points.len().checked_sub(1) else { return Vec::new() };
    let width = (seconds(last) - seconds(0)) / POINTS as f64;
    let mut found = Vec::new();
    let mut begin = 0;
    for end in 1..=last {
        if seconds(end) - seconds(begin) < width {
            continue;
        }
        let figure = if is_level {
            (begin + 1..=end).map(value).sum::<u64>() as f64 / (end - begin) as f64
        } else {
            value(end).saturating_sub(value(begin)) as f64 / (seconds(end) - seconds(begin)).max(1e-9)
        };
        found.push((f64::midpoint(seconds(begin), seconds(end)), figure * factor));
        begin = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stat::{Event, Gauge, ZoneEvent};
    use machine::Nanos;

    fn series() -> Series {
        let mut series = Series::default();
        for n in 0..1000_u64 {
            let values = [("nr_free_pages", 256 * n), ("pswpin", 512 * n), ("pswpout", 0), ("other", n * n)];
            let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            series.push(Nanos::from_secs(n), &values);
        }
        series
    }

    #[test]
    fn levels_are_means_and_counts_are_rates() {
        let panel = |sum: &str| PlotPanel { sum: vec![sum.into()], unit: PanelUnit::Mib, ..PlotPanel::default() };
        let free = points(&series(), &panel("nr_free_pages"));
        assert!(free.len() <= POINTS && free.len() > POINTS / 2, "{}", free.len());
        assert_eq!(free[0], (2.5, 3.0), "the mean of 1 to 5 MiB");
        let swapped = points(&series(), &panel("pswp*"));
        assert!(swapped.iter().all(|(_, rate)| *rate == 2.0), "{swapped:?}");
        assert!(points(&Series::default(), &panel("pswpin")).is_empty());
    }

    #[test]
    fn the_largest_groups_have_panels() {
        let mut series = Series::default();
        let groups = [("a", 1), ("b", 5), ("c", 2), ("pod", 9), ("pod/d", 9), ("e", 3)];
        let current = groups.map(|(group, pages)| (format!("{group}: memory.current"), pages));
        series.push(Nanos(0), &current.into_iter().collect());
        let run = RunSeries { column: "k".into(), seed: 1, series };
        let captions: Vec<String> = of_groups(&[&run]).into_iter().map(|panel| panel.caption).collect();
        assert_eq!(captions[..2], ["Memory, group pod/d, MiB", "Pages scanned, group pod/d, 1/s"]);
        assert_eq!(captions.len(), 8);
        assert!(
            captions.iter().all(|caption| !caption.contains("group a,") && !caption.contains("group pod,")),
            "{captions:?}"
        );
        assert!(of_groups(&[]).is_empty());
    }

    #[test]
    fn curves_of_one_name_lie_beside_each_other() {
        let curve = |name: &str, across: &str| Curve {
            name: name.into(),
            across: across.into(),
            points: (0..1000).map(|n| (f64::from(n), f64::from(n))).collect(),
        };
        let run = |column: &str| RunCurves {
            column: column.into(),
            seed: 1,
            curves: vec![curve("got", "time"), curve("got", "pages"), curve("lost", "time")],
            steps: Steps::default(),
        };
        let (a, b) = (run("a"), run("b"));
        let rows = beside(&[&a, &b]);
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let line = &rows[0][1].panel.lines[1];
        assert!(line.len() <= POINTS + 1 && line[0] == (0.0, 0.0) && line.last() == Some(&(999.0, 999.0)), "{line:?}");
        assert!(line.windows(2).all(|pair| pair[0].0 < pair[1].0), "no point comes twice: {line:?}");
    }

    #[test]
    fn every_name_that_an_experiment_draws_is_one_of_a_series() {
        let events = Event::ALL.into_iter().map(Event::name);
        let of_zones = ZoneEvent::ALL.into_iter().map(ZoneEvent::name);
        let gauges = Gauge::ALL.into_iter().map(Gauge::name);
        let others = ["operations", "nr_free_pages_dma32", "nr_free_pages_normal"];
        let names: Vec<&str> = events.chain(gauges).chain(others).collect();
        let zones: Vec<&str> = of_zones.collect();
        let known = |word: &str| match word.strip_suffix("_*") {
            Some(begin) => zones.contains(&begin),
            None => names.contains(&word),
        };
        for name in catalogue::embedded::names("experiments") {
            let experiment = catalogue::find::experiment(name).unwrap();
            for panel in experiment.plot.iter().chain(&usual()) {
                assert!(panel.sum.iter().all(|word| known(word)), "{name}: {:?}", panel.sum);
            }
        }
    }
}
