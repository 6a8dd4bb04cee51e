//! The page of a comparison: figures, counters over time, CPU time, kernels and machine.

use crate::plan::{Plan, Results};
use catalogue::difference::{Difference, differences};
use catalogue::experiment::Picture;
use catalogue::hardware::Hardware;
use engine::kernel::Kernel;
use figures::profile;
use figures::profile::{ColumnProfile, RunProfile, View};
use figures::series::RunSeries;
use kit::words::differ;
use placed::{Entry, Node, Value};
use report::grid::{Cell, Grid, Tone};
use report::html::{Chart, Counters, Flame, Page, Part, Section, tables};
use report::plot::lines::{Lines, Plot};
use report::plot::{over_time, packets};
use report::{Show, Table};

/// Largest number of lines in a list of differences between kernels that is shown open. A longer list is shown folded.
const DIFFERENCES_OPEN: usize = 40;

/// Returns an HTML page with the results of the command line `command`, which ran one plan or several. Each plan has
/// its own sections.
#[must_use]
pub fn page(found: &[(Plan, Results)], show: Show, command: &str) -> Page {
    let mut sections = Vec::new();
    let mut machines: Vec<&Hardware> = Vec::new();
    for (plan, results) in found {
        let of = (found.len() > 1).then(|| plan.experiment.name.clone());
        sections.extend(of_plan(plan, results, show).into_iter().map(|section| Section { of: of.clone(), ..section }));
        if !machines.iter().any(|it| it.name == plan.machine().name) {
            machines.push(plan.machine());
        }
    }
    let kernels: Vec<(&str, Kernels<'_>)> =
        found.iter().map(|(plan, _)| (plan.experiment.name.as_str(), plan.kernels())).collect();
    sections.extend(differences_of_all(&kernels));
    sections.push(Section::new("Machine", machines.into_iter().map(machine).collect()));
    sections.push(Section::new("Command", vec![Part::Command(command.to_owned())]));
    let about = found.iter().flat_map(|(plan, results)| {
        let about = &plan.experiment.about;
        let name = if found.len() > 1 { format!("{}: ", plan.experiment.name) } else { String::new() };
        [format!("{name}{about}"), results.table.footer()]
    });
    let titles: Vec<String> = found.iter().map(|(_, results)| tables::title(&results.table, show)).collect();
    Page { title: titles.join("; "), about: about.collect(), sections }
}

/// Returns the sections of a plan's runs: figures, counters over time, times of operations, CPU time.
fn of_plan(plan: &Plan, results: &Results, show: Show) -> Vec<Section> {
    let Results { table, series, curves, traces, profile, .. } = results;
    let mut sections: Vec<Section> = tables::answer(table).into_iter().chain([tables::figures(table, show)]).collect();
    let mut over_time_parts = Vec::new();
    let lines = over_time::picture(&plan.experiment, table, series, curves);
    over_time_parts.extend(charts(lines));
    if plan.experiment.picture == Picture::Packets && !traces.is_empty() {
        let svg = packets::picture(&plan.experiment, table, traces).draw();
        over_time_parts.push(Part::Picture(svg));
    }
    over_time_parts.extend(counters(table, series));
    if !over_time_parts.is_empty() {
        if let [first, _, ..] = table.seeds[..] {
            over_time_parts.insert(0, Part::Words(format!("Seed {first} of {}.", table.seeds.len())));
        }
        sections.push(Section::new("Over time", over_time_parts));
    }
    sections.extend(tables::times(table));
    sections.extend(flames(profile));
    sections
}

/// Returns the part of the page that has a chart for each plot in `lines`; none if there is nothing to plot. Plots with
/// a horizontal axis of their own come first. Plots over time follow, which are zoomed together.
fn charts(lines: Lines) -> Option<Part> {
    let Lines { names, across, panels, beside, .. } = lines;
    let own = beside.into_iter().flatten().map(|plot: Plot| Chart::of_plot(plot, &names));
    let shared = panels.into_iter().filter(|panel| panel.lines.iter().any(|line| !line.is_empty()));
    let shared: Vec<Chart> = shared.map(|panel| Chart::of_panel(panel, &names, &across, "time")).collect();
    let charts: Vec<Chart> = own.chain(shared).collect();
    (!charts.is_empty()).then_some(Part::Charts(charts))
}

/// Returns the charts of counters over time, for the first seed.
fn counters(table: &Table, series: &[RunSeries]) -> Option<Part> {
    let runs: Vec<&RunSeries> = series.iter().filter(|run| Some(&run.seed) == table.seeds.first()).collect();
    let across = if table.is_simulated() { "virtual time, s" } else { "time, s" };
    let counters = Counters::of(&runs, across);
    (!counters.is_empty()).then_some(Part::Counters(counters))
}

/// Returns the section with charts of counters over time, from a file that `--series` wrote. The charts show only runs
/// with the first seed. Returns none if the file has no runs.
#[must_use]
pub fn of_series(title: &str, runs: &[RunSeries]) -> Option<Section> {
    let seed = runs.first()?.seed;
    let runs: Vec<&RunSeries> = runs.iter().filter(|run| run.seed == seed).collect();
    let names = runs.iter().map(|run| run.column.clone()).collect();
    let panels = over_time::usual_panels(&runs);
    let lines = Lines { names, across: "time, s".into(), panels, ..Lines::default() };
    let counters = Counters::of(&runs, "time, s");
    let counters = (!counters.is_empty()).then_some(Part::Counters(counters));
    Some(Section::new(title, charts(lines).into_iter().chain(counters).collect()))
}

/// Returns the section with the kernel's CPU time: a flame graph for each column, divided by task. Returns none if no
/// CPU time was recorded.
fn flames(profile: &[RunProfile]) -> Option<Section> {
    let columns = profile::columns(profile, View::default());
    let flame = |column: &ColumnProfile| Flame::of(&column.column, &column.by_task());
    of_flames(&columns, columns.iter().map(flame).collect())
}

/// Returns a section with the flame graphs that are not empty; none if all are empty.
fn of_flames(columns: &[ColumnProfile], flames: Vec<Flame>) -> Option<Section> {
    let flames: Vec<Flame> = flames.into_iter().filter(|flame| !flame.is_empty()).collect();
    let words = "CPU time by call path, in virtual time where the machine is simulated. A click, a tap or Enter zooms in, Escape zooms out.";
    let left_out = columns.iter().any(|column| column.left_out_ns > 0);
    let left_out = if left_out { " Time that programs spend in their own code is left out." } else { "" };
    let words = Part::Words(format!("{words}{left_out}"));
    (!flames.is_empty()).then(|| Section::new("Where time goes", vec![words, Part::Flames(flames)]))
}

/// Returns a section with flame graphs, made from `text`, the contents of a file that `--profile` wrote: folded stacks,
/// in which each line begins with the name of a run. Returns `None` if there are no stacks.
#[must_use]
pub fn of_stacks(text: &str) -> Option<Section> {
    let columns = profile::columns(&profile::read(text), View::default());
    of_flames(&columns, columns.iter().map(|column| Flame::of(&column.column, &column.stacks)).collect())
}

/// For each column of a table, its id and its kernel.
type Kernels<'k> = Vec<(&'k str, &'k Kernel)>;

/// Returns the section that lists the differences between the kernel of each column and the kernel of the first column.
/// Each difference has the source that a kernel file states for it.
#[must_use]
pub fn differences_of(kernels: &[(&str, &Kernel)]) -> Option<Section> {
    differences_of_all(&[("", kernels.to_vec())])
}

/// The choices in which two kernels, `from` and `to`, differ.
struct Apart<'k> {
    from: &'k str,
    to: &'k str,
    /// Number of choices that a kernel has: those with equal values in the two kernels, and those with different ones.
    values: usize,
    found: Vec<Difference>,
    /// Names of the experiments that compare the kernels `from` and `to`.
    of: Vec<&'k str>,
}

/// Returns the section of differences between the kernels of several experiments. The differences between a pair of
/// kernels are listed only once. If only some of the experiments compare the pair, the list names these experiments.
fn differences_of_all<'k>(all: &[(&'k str, Kernels<'k>)]) -> Option<Section> {
    let mut apart: Vec<Apart<'_>> = Vec::new();
    for (experiment, kernels) in all {
        let Some(((from, base), others)) = kernels.split_first() else { continue };
        for (to, kernel) in others {
            let found = differences(base, kernel);
            if found.is_empty() {
                continue;
            }
            match apart.iter_mut().find(|it| it.from == *from && it.found == found) {
                Some(known) if known.of.contains(experiment) => {}
                Some(known) => known.of.push(experiment),
                None => apart.push(Apart { from, to, values: base.settings.len(), found, of: vec![experiment] }),
            }
        }
    }
    let parts_of = |Apart { from, to, values, found, of }: Apart<'_>| {
        let experiments = if of.len() < all.len() { format!(" ({})", of.join(", ")) } else { String::new() };
        let caption = format!("{from} to {to}: {}{experiments}", differ(found.len(), values));
        let grid = difference_grid(&found);
        if found.len() <= DIFFERENCES_OPEN {
            vec![Part::Heading(caption.clone()), Part::table(caption, grid)]
        } else {
            vec![Part::folded(caption, grid)]
        }
    };
    let parts: Vec<Part> = apart.into_iter().flat_map(parts_of).collect();
    (!parts.is_empty()).then(|| Section::new("Kernels", parts))
}

/// Returns a table with a line for each difference between two kernels. A line has the key, the value in each of the
/// two kernels, the source of the value, and the place of this source in a kernel file.
#[must_use]
pub fn difference_grid(found: &[Difference]) -> Grid {
    let line = |it: &Difference| -> Vec<Cell> {
        let of = |text: &Option<String>| Cell::new(text.clone().unwrap_or_default(), Tone::Faint);
        vec![it.key.clone().into(), it.from.clone().into(), it.to.clone().into(), of(&it.source), of(&it.place)]
    };
    Grid {
        keys: 1,
        head: head(&["value", "from", "to", "source", "place"]),
        lines: found.iter().map(line).collect(),
        texts: (0..5).collect(),
    }
}

/// Returns `words` as the cells of a table's heading.
#[must_use]
pub fn head(words: &[&str]) -> Vec<Cell> {
    words.iter().map(|word| Cell::new(*word, Tone::Heading)).collect()
}

/// Returns a part of a page, shown folded, that lists every value of a machine and the origin of each value.
#[must_use]
pub fn machine(machine: &Hardware) -> Part {
    let about = if machine.about.is_empty() { String::new() } else { format!(": {}", machine.about) };
    let caption = format!("{}{about}", machine.name);
    Part::folded(caption, values(&machine.node))
}

/// Returns a table of all values in a file, by section. Each value has its place (file and line) and the comment on its
/// line.
#[must_use]
pub fn values(node: &Node) -> Grid {
    let mut lines = Vec::new();
    for Entry { key, node, .. } in node.entries().iter().filter(|entry| entry.key != "about") {
        let several = match &node.value {
            Value::List(nodes) if nodes.iter().any(|node| matches!(node.value, Value::Table(_))) => {
                nodes.iter().collect()
            }
            _ => vec![node],
        };
        for node in several {
            lines.push(Vec::new());
            if matches!(node.value, Value::Table(_)) {
                lines.push(vec![Cell::new(key.clone(), Tone::Heading)]);
            }
            lines.extend(lines_of(key, node));
        }
    }
    Grid { keys: 1, head: head(&["key", "value", "source"]), lines, texts: (0..3).collect() }
}

fn lines_of(key: &str, node: &Node) -> Vec<Vec<Cell>> {
    let line = |path: String, value: String, node: &Node| -> Vec<Cell> {
        let source = node.comment.as_ref().map_or_else(String::new, |comment| format!(": {comment}"));
        vec![path.into(), value.into(), Cell::new(format!("{}{source}", node.place), Tone::Faint)]
    };
    let found = catalogue::values::listed(node);
    if found.is_empty() {
        return vec![line(key.to_owned(), catalogue::values::constant(node), node)];
    }
    found.into_iter().map(|(path, value, node)| line(path, value, node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::samples::profile_run as run;

    #[test]
    fn stacks_of_all_seeds_of_a_column_are_together() {
        let runs = [
            run("a", "a_seed_1", &["run;x 3", "warm-up;x;user 90"]),
            run("a", "a_seed_2", &["run;x 4", "warm-up;b 5"]),
            run("ab", "ab_seed_1", &["run;x 7"]),
        ];
        let section = flames(&runs).unwrap();
        let Part::Flames(flames) = &section.parts[1] else { panic!("no flames") };
        assert_eq!(flames[0].json(), serde_json::json!(["a", 12, [["x", 7, []], ["b", 5, []]]]));
        assert_eq!(flames.len(), 2);
        let section = of_stacks("a_seed_1;x 3\nb;x 4\na_seed_2;x 1\n").unwrap();
        assert!(matches!(&section.parts[1], Part::Flames(flames) if flames.len() == 2), "seeds are added up");
        assert!(of_stacks("").is_none());
    }

    #[test]
    fn differences_come_with_their_sources() {
        let kernels = ["3.10-rc4-vanilla", "mm1-mmotm-20130606"].map(|name| catalogue::find::kernel(name).unwrap());
        let section = differences_of(&[("old", &kernels[0]), ("new", &kernels[1]), ("again", &kernels[1])]).unwrap();
        let [Part::Heading(caption), Part::Table { grid, .. }] = &section.parts[..] else { panic!("{section:?}") };
        assert!(caption.starts_with("old to new: "), "{caption}");
        let floor = grid.lines.iter().find(|line| line[0].text == "reclaim.kswapd_floor").unwrap();
        assert!(floor[3].text.contains("do not allow kswapd to scan at maximum priority"), "{floor:?}");
        assert!(differences_of(&[("old", &kernels[0])]).is_none());
    }

    #[test]
    fn what_separates_kernels_of_several_experiments_stands_once() {
        let kernels = ["3.10-rc4-vanilla", "mm1-mmotm-20130606", "highwater"];
        let kernels = kernels.map(|name| catalogue::find::kernel(name).unwrap());
        let pair = |n: usize| vec![("old", &kernels[0]), ("new", &kernels[n])];
        let captions = |all: &[(&str, Kernels<'_>)]| {
            let parts = differences_of_all(all).unwrap().parts;
            let caption = |part: &Part| match part {
                Part::Table { caption, .. } => Some(caption.clone()),
                _ => None,
            };
            parts.iter().filter_map(caption).collect::<Vec<_>>()
        };
        let all = captions(&[("anon", pair(1)), ("scan", pair(1))]);
        assert!(matches!(&all[..], [only] if !only.contains("anon")), "{all:?}");
        let some = captions(&[("anon", pair(1)), ("scan", pair(2)), ("ping", pair(1))]);
        assert!(some[0].ends_with("(anon, ping)") && some[1].ends_with("(scan)") && some.len() == 2, "{some:?}");
    }

    #[test]
    fn every_value_of_a_machine_has_its_origin() {
        let found = catalogue::find::machine("parallelio-8g").unwrap();
        let Part::Table { grid, .. } = machine(&found) else { panic!("no table") };
        let of = |key: &str| grid.lines.iter().find(|line| line.first().is_some_and(|cell| cell.text == key)).cloned();
        assert!(of("count").is_some_and(|line| line[1].text.starts_with("8 (")), "{:?}", of("count"));
        assert!(grid.lines.iter().filter(|line| line.len() == 3).all(|line| !line[2].text.is_empty()));
    }
}
