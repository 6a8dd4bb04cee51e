//! The plan in docs/studies/parallelio.toml: the inputs of each table, and the kernel and machine files for them.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table as Keys, Value};

use super::{
    Results,
    run::{Figures, Simulation},
    table::Columns,
    targets,
};

/// The descriptions of all tables of figures, and the changed machines that lines of these tables name.
pub struct Plan {
    /// For each name of a table, the description of the table.
    pub tables: BTreeMap<String, Table>,
    machines: BTreeMap<String, Keys>,
    reclaim_costs: Vec<String>,
    machine: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    reclaim_costs: Vec<String>,
    #[serde(default)]
    machines: BTreeMap<String, Keys>,
    tables: BTreeMap<String, Table>,
}

/// The description of a table of figures: its form, and what its lines and columns are.
#[derive(Deserialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub enum Table {
    /// A line for each of the targets P1 to P10, with the number of seeds, from 1 to [`Targets::seeds`], that meet it.
    Targets(Targets),
    /// A line for each figure and a column for each kernel, with median and range over seeds.
    Figures(FiguresTable),
    /// A line for each simulation or set of seeds, and a column for each figure of a set of figures (`columns`).
    Runs(RunsTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// The last seed; the first is 1.
    pub seeds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FiguresTable {
    /// The last seed; the first is 1.
    pub seeds: u64,
    /// Names of the kernels, which are the columns.
    pub kernels: Vec<String>,
    /// The figures that the table shows, one in each line.
    pub figures: Vec<TableFigure>,
}

/// A figure in a table: a row of the report, and its conversion.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFigure {
    /// Name of the row in the report.
    pub row: String,
    /// Name that the table shows for the figure; none if it is the name of the report's row.
    pub label: Option<String>,
    /// Name of a row whose value is subtracted from the value of `row`.
    less: Option<String>,
    /// The number by which the value is divided; none if it is shown undivided.
    per: Option<f64>,
    /// If the figure is shown as a percentage of another row's value, the name of that row.
    percent_of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsTable {
    /// The set of figures that the table shows, one in each column.
    pub columns: Columns,
    /// Name of the kernel for each line of the table that names no kernel itself.
    kernel: String,
    /// The lines of the table.
    #[serde(default)]
    rows: Vec<Row>,
    /// Name of another table. This table has the same lines as that one, with `kernel` in place of that table's kernel.
    rows_of: Option<String>,
}

/// A line of a [`RunsTable`]: its label, and the kernel, the machine and the seeds of its runs.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    label: String,
    /// Name of the kernel, or of the base of the line's kernel file.
    kernel: Option<String>,
    /// `true` if the line shows published figures.
    #[serde(default)]
    print: bool,
    /// The seeds over which the line shows median and range; seed 1 by default.
    #[serde(default)]
    seeds: Vec<u64>,
    /// Changes to the kernel, in the form of a kernel file.
    #[serde(default)]
    choices: Keys,
    /// Names of the plan's sets of machine changes that apply to the line's machine file.
    #[serde(default)]
    on: Vec<String>,
    /// Changes to the machine file in addition to those of the sets in `on`.
    #[serde(default)]
    machine: Keys,
    /// Factor by which the costs of reclaim are multiplied.
    reclaim_costs: Option<f64>,
}

/// A line of a [`RunsTable`], which names the source of the line's figures.
pub struct Line {
    /// First cell of the line.
    pub label: String,
    /// The runs, or the published kernel, whose figures the line shows.
    pub source: Source,
}

/// The source of the figures in one line of a [`RunsTable`].
pub enum Source {
    /// Simulations that differ only in their seeds.
    Runs(Vec<Simulation>),
    /// Published figures: those that the posting states for the kernel with this name.
    Print(String),
}

impl Plan {
    /// Makes a plan. `plan` is the text of the plan's file. `machine` is the text of the base machine file, to which
    /// the lines of a table may make changes.
    pub fn parse(plan: &str, machine: &str) -> Result<Self, String> {
        let PlanText { reclaim_costs, machines, tables } =
            toml::from_str(plan).map_err(|error| format!("{}: {error}", super::PLAN))?;
        let machine: Keys = machine.parse().map_err(|error| format!("{}: {error}", super::MACHINE))?;
        Ok(Self { tables, machines, reclaim_costs, machine: Value::Table(machine) })
    }

    /// Returns the text of a changed kernel file, for the simulation that fills the line `row` of a table. `base` is
    /// the name of the kernel that the file changes. Returns `None` if the line makes no change to the kernel.
    fn kernel_file(base: &str, row: &Row) -> Result<Option<String>, String> {
        if row.choices.is_empty() {
            return Ok(None);
        }
        let mut keys = Keys::new();
        keys.insert("base".into(), base.into());
        keys.insert("about".into(), row.label.as_str().into());
        keys.extend(row.choices.clone());
        toml::to_string(&keys).map(Some).map_err(|error| format!("{}: {error}", row.label))
    }

    /// Returns the text of a changed machine file, for the simulation that fills the line `row` of a table. Returns
    /// `None` if the line makes no change to the machine.
    fn machine_file(&self, row: &Row) -> Result<Option<String>, String> {
        let told = |error| format!("{}: {error}", row.label);
        let mut machine = self.machine.clone();
        let named =
            row.on.iter().map(|name| self.machines.get(name).ok_or_else(|| told(format!("no machine `{name}`"))));
        for changes in named.chain([Ok(&row.machine)]) {
            change(&mut machine, &Value::Table(changes?.clone())).map_err(told)?;
        }
        if let Some(factor) = row.reclaim_costs {
            for step in &self.reclaim_costs {
                let cost = machine.get_mut("cost").and_then(|costs| costs.get_mut(step)?.get_mut("ns"));
                let cost = cost.ok_or_else(|| told(format!("the machine has no cost.{step}")))?;
                let ns = cost.as_integer().ok_or_else(|| told(format!("cost.{step} is no whole number")))?;
                *cost = Value::Integer((ns as f64 * factor).round() as i64);
            }
        }
        if machine == self.machine {
            return Ok(None);
        }
        toml::to_string(&machine).map(Some).map_err(|error| told(error.to_string()))
    }
}

/// Replaces `value` by `by`. If both are tables, only the keys in `by` change. If `value` is a list and `by` a table,
/// the keys of `by` are the indices of the items that change. If `value` is a constant with an origin (a table with the
/// key `value` or `ns`) and `by` is a plain value, only the value of this key changes.
fn change(value: &mut Value, by: &Value) -> Result<(), String> {
    match (&mut *value, by) {
        (Value::Table(keys), Value::Table(changes)) => {
            for (key, by) in changes {
                match keys.get_mut(key) {
                    Some(value) => change(value, by).map_err(|error| format!("{key}.{error}"))?,
                    None => drop(keys.insert(key.clone(), by.clone())),
                }
            }
        }
        (Value::Array(values), Value::Table(changes)) => {
            for (key, by) in changes {
                let value = key.parse().ok().and_then(|index: usize| values.get_mut(index));
                change(value.ok_or_else(|| format!("{key}: there is no such entry"))?, by)
                    .map_err(|error| format!("{key}.{error}"))?;
            }
        }
        (Value::Table(constant), by) => {
            let key = ["value", "ns"].into_iter().find(|key| constant.contains_key(*key));
            let key = key.ok_or_else(|| format!(": a section, not a constant that could be {by}"))?;
            constant.insert(key.into(), by.clone());
        }
        (value, by) => *value = by.clone(),
    }
    Ok(())
}

impl Table {
    /// Returns the simulations that the table needs, with a title for each.
    pub fn runs(&self, plan: &Plan) -> Result<Vec<(String, Simulation)>, String> {
        Ok(match self {
            Self::Targets(Targets { seeds }) => grid(&targets::KERNELS, *seeds),
            Self::Figures(table) => grid(&table.kernels, table.seeds),
            Self::Runs(table) => {
                let titled = |line: Line| match line.source {
                    Source::Runs(runs) => {
                        runs.into_iter().map(|run| (format!("{} seed {}", line.label, run.seed), run)).collect()
                    }
                    Source::Print(_) => Vec::new(),
                };
                table.lines(plan)?.into_iter().flat_map(titled).collect()
            }
        })
    }

    /// Returns the table as Markdown.
    pub fn markdown(&self, plan: &Plan, results: &Results) -> Result<String, String> {
        match self {
            Self::Targets(Targets { seeds }) => Ok(targets::markdown(*seeds, results)),
            Self::Figures(table) => table.markdown(results),
            Self::Runs(table) => Ok(table.markdown(&table.lines(plan)?, results)),
        }
    }
}

/// Returns a run for each unchanged kernel with each seed from 1 to `seeds`, with a title for each run.
fn grid(kernels: &[impl AsRef<str>], seeds: u64) -> Vec<(String, Simulation)> {
    let runs = kernels.iter().flat_map(|kernel| (1..=seeds).map(move |seed| plain(kernel.as_ref(), seed)));
    runs.map(|run| (format!("{} seed {}", run.kernel, run.seed), run)).collect()
}

/// Returns the run of an unchanged kernel on the experiment's machine.
pub fn plain(kernel: &str, seed: u64) -> Simulation {
    Simulation { kernel: kernel.into(), kernel_file: None, machine_file: None, seed }
}

impl TableFigure {
    /// Returns the value of this figure, in the unit that [`TableFigure::suffix`] returns.
    pub fn of(&self, figures: &Figures) -> f64 {
        let value = figures.of(&self.row) - self.less.as_ref().map_or(0.0, |row| figures.of(row));
        let whole = self.percent_of.as_ref().map_or(1.0, |row| figures.of(row) / 100.0);
        value / whole / self.per.unwrap_or(1.0)
    }

    /// Returns the unit of this figure.
    pub fn suffix(&self) -> &'static str {
        if self.percent_of.is_some() { " %" } else { "" }
    }

    /// Returns the names of the report's rows that this figure uses.
    pub fn rows(&self) -> impl Iterator<Item = &String> {
        [Some(&self.row), self.less.as_ref(), self.percent_of.as_ref()].into_iter().flatten()
    }
}

impl RunsTable {
    /// Returns the lines of the table, each with the source of its figures.
    pub fn lines(&self, plan: &Plan) -> Result<Vec<Line>, String> {
        let rows = match &self.rows_of {
            None => &self.rows,
            Some(name) => match plan.tables.get(name) {
                Some(Table::Runs(table)) if self.rows.is_empty() => &table.rows,
                _ => return Err(format!("rows_of = \"{name}\": no table of runs, or there are other rows")),
            },
        };
        rows.iter().map(|row| self.line_of(row, plan)).collect()
    }

    fn line_of(&self, row: &Row, plan: &Plan) -> Result<Line, String> {
        let kernel = row.kernel.as_ref().unwrap_or(&self.kernel);
        if row.print {
            return Ok(Line { label: row.label.clone(), source: Source::Print(kernel.clone()) });
        }
        let run = Simulation {
            kernel: kernel.clone(),
            kernel_file: Plan::kernel_file(kernel, row)?,
            machine_file: plan.machine_file(row)?,
            seed: 1,
        };
        let seeds = if row.seeds.is_empty() { &[1] } else { row.seeds.as_slice() };
        let runs = seeds.iter().map(|&seed| Simulation { seed, ..run.clone() }).collect();
        Ok(Line { label: row.label.clone(), source: Source::Runs(runs) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "\
[cost]
scan = { ns = 5, from = \"assumed\" }
free = { ns = 7, from = \"assumed\" }
[[disk]]
queue = { depth = { value = 4096, from = \"fitted\" }, elevator = { name = \"cfq\" } }
";

    fn plan(rows: &str) -> Plan {
        let head = "reclaim_costs = [\"scan\"]\n[machines]\nslow.cost.free = 9\n[tables.a]\nform = \"runs\"\ncolumns = \"server\"\nkernel = \"k\"\n";
        Plan::parse(&format!("{head}rows = [{rows}]\n"), MACHINE).unwrap()
    }

    fn runs(rows: &str) -> Vec<(String, Simulation)> {
        let plan = plan(rows);
        plan.tables["a"].runs(&plan).unwrap()
    }

    fn machine(row: &str) -> Value {
        let run = runs(&format!("{{ label = \"a\", {row} }}")).remove(0).1;
        Value::Table(run.machine_file.unwrap().parse().unwrap())
    }

    #[test]
    fn a_line_without_changes_needs_no_files() {
        assert_eq!(runs("{ label = 'a' }, { label = 'b', print = true }"), [("a seed 1".to_owned(), plain("k", 1))]);
        let seeds = runs("{ label = 'a', kernel = 'l', seeds = [2, 3] }");
        assert_eq!(seeds, [2, 3].map(|seed| (format!("a seed {seed}"), plain("l", seed))));
    }

    #[test]
    fn choices_become_a_kernel_file_on_the_kernel() {
        let run = runs("{ label = 'a', choices = { reclaim.floor = 'one' } }").remove(0).1;
        let text = run.kernel_file.unwrap();
        assert_eq!(text, "base = \"k\"\nabout = \"a\"\n\n[reclaim]\nfloor = \"one\"\n");
    }

    #[test]
    fn a_machine_is_changed_where_the_line_says() {
        let queue = &machine("machine = { disk.0.queue.depth = 128 }")["disk"][0]["queue"];
        assert_eq!(
            (queue["depth"]["value"].as_integer(), queue["depth"]["from"].as_str()),
            (Some(128), Some("fitted"))
        );
        let elevator = &machine("machine = { disk.0.queue.elevator = { slice = 80 } }")["disk"][0]["queue"]["elevator"];
        assert_eq!((elevator["name"].as_str(), elevator["slice"].as_integer()), (Some("cfq"), Some(80)));
        let costs = |row: &str| {
            let costs = machine(row)["cost"].clone();
            ["scan", "free"].map(|step| costs[step]["ns"].as_integer().unwrap())
        };
        assert_eq!(costs("reclaim_costs = 0.5"), [3, 7]);
        assert_eq!(costs("on = ['slow']"), [5, 9]);
    }

    #[test]
    fn a_change_that_finds_no_place_is_told() {
        let wrong = |row: &str| {
            let plan = plan(&format!("{{ label = 'a', {row} }}"));
            plan.tables["a"].runs(&plan).unwrap_err()
        };
        assert_eq!(wrong("machine = { disk.1.queue = 1 }"), "a: disk.1: there is no such entry");
        assert_eq!(wrong("on = ['fast']"), "a: no machine `fast`");
        assert!(wrong("machine = { disk.0.queue = 1 }").contains("a section"));
    }

    #[test]
    fn a_figure_is_a_row_and_what_is_done_to_it() {
        let figures: Figures =
            [("out", 30.0), ("in", 10.0), ("list", 40.0)].map(|(row, v)| (row.into(), v)).into_iter().collect();
        let of = |text: &str| toml::from_str::<TableFigure>(text).unwrap().of(&figures);
        assert_eq!(of("row = 'out'"), 30.0);
        assert_eq!(of("row = 'out'\nless = 'in'\npercent_of = 'list'"), 50.0);
        assert_eq!(of("row = 'out'\nper = 10"), 3.0);
        assert!(of("row = 'gone'").is_nan());
    }
}
