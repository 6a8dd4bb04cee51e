//! Results of the runs in a store. Runs are selected by experiment, kernel and the like, and shown as tables or as one
//! list with a line for each figure of each run.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    io,
    str::FromStr,
};

use crate::plan::fold;
use crate::store::{Identity, StoredRun, file};
use catalogue::ground::Ground;
use catalogue::{embedded, find};
use figures::csv_error::io_error;
use figures::figure::Row;
use figures::scale::Scale;
use grounds::job::Outcome;
use report::{Column, Table, TableHead, rows};

/// A selection of runs: a run is selected if its value for `key` is one of `values`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Where {
    /// The key: `experiment`, `kernel`, `machine`, `scale`, `seed`, or a key whose value was changed for a run.
    pub key: String,
    /// The accepted values of the key. A run is selected if its value of the key is among them.
    pub values: Vec<String>,
}

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected KEY=VALUE or KEY=VALUE,VALUE,… such as kernel=highwater, found `{text}`");
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

/// Returns the value of a key for a run; none if the run has no such key.
fn value_of(identity: &Identity, key: &str) -> Option<String> {
    match key {
        "experiment" => Some(identity.experiment.clone()),
        "kernel" => Some(identity.kernel.clone()),
        "machine" => Some(identity.machine.clone()),
        "scale" => Some(identity.scale.clone()),
        "seed" => Some(identity.seed.to_string()),
        _ => identity.set.get(key).cloned(),
    }
}

/// Returns the runs that match every selection in `wanted`, in order.
///
/// # Errors
/// When no run has the key of a selection, or no run has one of the selection's values for this key. The message lists
/// the existing keys or values.
pub fn matching(runs: Vec<StoredRun>, wanted: &[Where]) -> Result<Vec<StoredRun>, String> {
    for Where { key, values } in wanted {
        let there: BTreeSet<String> = runs.iter().filter_map(|run| value_of(&run.identity, key)).collect();
        if there.is_empty() && !runs.is_empty() {
            let of_sets = runs.iter().flat_map(|run| run.identity.set.keys().map(String::as_str));
            let known: BTreeSet<&str> =
                ["experiment", "kernel", "machine", "scale", "seed"].into_iter().chain(of_sets).collect();
            let known: Vec<&str> = known.into_iter().collect();
            return Err(format!("--where {key}: no run has it{}", placed::one_of(key, &known)));
        }
        if let Some(value) = values.iter().find(|value| !there.contains(*value)) {
            let there: Vec<&str> = there.iter().map(String::as_str).collect();
            return Err(format!("--where {key}: no run has `{value}`, only {}", there.join(", ")));
        }
    }
    let fits = |run: &StoredRun| {
        let is = |it: &Where| value_of(&run.identity, &it.key).is_some_and(|value| it.values.contains(&value));
        wanted.iter().all(is)
    };
    Ok(runs.into_iter().filter(fits).collect())
}

/// Makes a table for each experiment, machine and scale. A table has a column for each kernel and each set of changes
/// to it; a column has the figures over all seeds. Columns are ordered as in a comparison: first the experiment's
/// kernels, then other kernels by name. Columns of one kernel are ordered by the changed keys, then by their values:
/// numbers by size, then words.
#[must_use]
pub fn tables(runs: &[StoredRun]) -> Vec<Table> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&StoredRun>> = BTreeMap::new();
    for run in runs {
        let Identity { experiment, scale, .. } = &run.identity;
        groups.entry((experiment, run.identity.plain_machine(), scale)).or_default().push(run);
    }
    groups.into_iter().map(|((experiment, machine, scale), runs)| table(experiment, machine, scale, &runs)).collect()
}

fn table(experiment: &str, machine: &str, scale: &str, runs: &[&StoredRun]) -> Table {
    let mut columns: Vec<(Column, Vec<(u64, &Outcome)>)> = Vec::new();
    for StoredRun { identity, outcome, .. } in runs {
        let id = identity.column();
        let at = columns.iter().position(|(column, _)| column.id == id).unwrap_or_else(|| {
            let set = identity.set.clone();
            columns.push((Column { id, set, ..Column::new(&identity.kernel, Ground::Sim) }, Vec::new()));
            columns.len() - 1
        });
        columns[at].1.push((identity.seed, outcome));
    }
    let kernels = if embedded::names("experiments").any(|known| known == experiment) {
        find::experiment(experiment).map_or_else(|_| Vec::new(), |experiment| experiment.kernels)
    } else {
        Vec::new()
    };
    columns.sort_by(|(a, _), (b, _)| in_order(&kernels, a, b));
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.identity.seed).collect();
    let head = TableHead {
        experiment: experiment.to_owned(),
        machine: machine.to_owned(),
        scale: scale.parse().unwrap_or(Scale::FULL),
        seeds: seeds.into_iter().collect(),
        fingerprint: Some(fold(columns.iter().flat_map(|(_, found)| found.iter().map(|(_, it)| it.fingerprint)))),
        columns: columns.iter().map(|(column, _)| column.clone()).collect(),
        notes: Vec::new(),
    };
    // A column may lack runs with some of the seeds.
    let run = |found: &[(u64, &Outcome)], seed: &u64| {
        found.iter().find(|(of, _)| of == seed).map_or_else(Vec::new, |(_, outcome)| outcome.rows.clone())
    };
    let runs = columns.iter().map(|(_, found)| head.seeds.iter().map(|seed| run(found, seed)).collect());
    let runs: Vec<Vec<Vec<Row>>> = runs.collect();
    Table::of_runs(head, &runs, None)
}

/// Compares two columns, to sort them: by the place of their kernel in `kernels` (the experiment's order), then by the
/// name of the kernel, the changed keys, and the id.
fn in_order(kernels: &[String], a: &Column, b: &Column) -> Ordering {
    let place = |column: &Column| {
        let of = |word: &String| kernels.iter().position(|kernel| kernel == word);
        of(&column.id).or_else(|| of(&column.kernel)).unwrap_or(usize::MAX)
    };
    let value = |(x, y): (&String, &String)| match (x.parse::<f64>(), y.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.total_cmp(&y),
        // Numbers come before words.
        (x_is, y_is) => x_is.is_err().cmp(&y_is.is_err()).then_with(|| x.cmp(y)),
    };
    let by_size = || {
        let both = a.set.iter().zip(&b.set).map(|((x, of_x), (y, of_y))| x.cmp(y).then_with(|| value((of_x, of_y))));
        both.fold(Ordering::Equal, Ordering::then).then(a.set.len().cmp(&b.set.len()))
    };
    place(a).cmp(&place(b)).then_with(|| a.kernel.cmp(&b.kernel)).then_with(by_size).then_with(|| a.id.cmp(&b.id))
}

/// Removes the rows that `words` do not select. A word selects each row whose name contains the word, and all rows of
/// the block that has exactly this name. If there are no words, all rows stay.
pub fn keep_rows(runs: &mut [StoredRun], words: &[String]) {
    if !words.is_empty() {
        let is_meant = |row: &Row| words.iter().any(|word| rows::is_meant(&row.group, &row.name, word));
        runs.iter_mut().for_each(|run| run.outcome.rows.retain(is_meant));
    }
}

/// The figures of several runs as one long table (a data frame), with a line for each figure of each run. Each key that
/// the user set for at least one of the runs has a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Columns of text, each with its name. A cell is none if the run of its line does not have the column's key.
    pub texts: Vec<(String, Vec<Option<String>>)>,
    /// Column of seeds: for each line of the table, the seed of its run.
    pub seeds: Vec<u64>,
    /// Column of figures: for each line of the table, its figure.
    pub values: Vec<f64>,
}

/// Number of text columns before the column of the seed, if no run has changed keys: experiment, machine, scale and
/// kernel.
const BEFORE_SEED: usize = 4;

impl Frame {
    /// Makes the table from `runs`, in their order. Each row of a run's report becomes a line.
    #[must_use]
    pub fn of(runs: &[StoredRun]) -> Self {
        let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.identity.set.keys()).collect();
        let lines = || runs.iter().flat_map(|run| run.outcome.rows.iter().map(move |row| (run, row)));
        let column = |name: &str, of: &dyn Fn(&StoredRun, &Row) -> Option<String>| {
            (name.to_owned(), lines().map(|(run, row)| of(run, row)).collect())
        };
        let mut texts = vec![
            column("experiment", &|run, _| Some(run.identity.experiment.clone())),
            column("machine", &|run, _| Some(run.identity.plain_machine().to_owned())),
            column("scale", &|run, _| Some(run.identity.scale.clone())),
            column("kernel", &|run, _| Some(run.identity.kernel.clone())),
        ];
        texts.extend(keys.into_iter().map(|key| column(key, &|run, _| run.identity.set.get(key).cloned())));
        texts.extend([
            column("group", &|_, row| Some(row.group.clone())),
            column("name", &|_, row| Some(row.name.clone())),
            column("unit", &|_, row| Some(row.unit.clone())),
            column("better", &|_, row| Some(file::better_word(row.better).to_owned())),
            column("fingerprint", &|run, _| Some(format!("{:016x}", run.outcome.fingerprint))),
            column("run", &|run, _| Some(run.hash.clone())),
        ]);
        let seeds = lines().map(|(run, _)| run.identity.seed).collect();
        Self { texts, seeds, values: lines().map(|(_, row)| row.value).collect() }
    }

    /// Returns the names of all columns, in the order in which a results file has them.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let (before, after) = self.texts.split_at(self.seed_at());
        before
            .iter()
            .map(|(name, _)| name.as_str())
            .chain(["seed"])
            .chain(after.iter().map(|(name, _)| name.as_str()))
            .chain(["value"])
            .collect()
    }

    /// Returns the number of text columns before the column of the seed. They have the run's names, and the values of
    /// changed keys.
    fn seed_at(&self) -> usize {
        self.texts.iter().position(|(name, _)| name == "group").unwrap_or(BEFORE_SEED)
    }

    /// Writes the list of runs as CSV: the names of the columns, then a line for each figure of each run.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn write_csv(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut csv = ::csv::WriterBuilder::new().from_writer(out);
        csv.write_record(self.names()).map_err(io_error)?;
        let (before, after) = self.texts.split_at(self.seed_at());
        let cell = |column: &[Option<String>], line: usize| column[line].clone().unwrap_or_default();
        for (line, (seed, value)) in self.seeds.iter().zip(&self.values).enumerate() {
            let texts = |columns: &[(String, Vec<Option<String>>)]| -> Vec<String> {
                columns.iter().map(|(_, column)| cell(column, line)).collect()
            };
            let fields =
                texts(before).into_iter().chain([seed.to_string()]).chain(texts(after)).chain([value.to_string()]);
            csv.write_record(fields).map_err(io_error)?;
        }
        csv.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::samples::ops;

    fn run(kernel: &str, set: &[(&str, &str)], seed: u64, value: f64) -> StoredRun {
        let identity = Identity {
            experiment: "parallelio".into(),
            machine: "parallelio-8g".into(),
            scale: "1/16".into(),
            kernel: kernel.into(),
            set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            seed,
        };
        let outcome =
            Outcome { rows: vec![ops("Ops a", value), ops("Ops b", 1.0)], fingerprint: seed, ..Outcome::default() };
        StoredRun { hash: format!("{kernel}{seed}"), identity, outcome }
    }

    fn runs() -> Vec<StoredRun> {
        vec![
            run("x", &[], 1, 1.0),
            run("x", &[], 2, 3.0),
            run("x", &[("lru.batch", "14")], 1, 5.0),
            run("y", &[], 1, 7.0),
        ]
    }

    fn hashes(wanted: &[&str]) -> Result<usize, String> {
        let wanted: Vec<Where> = wanted.iter().map(|text| text.parse().unwrap()).collect();
        matching(runs(), &wanted).map(|runs| runs.len())
    }

    #[test]
    fn runs_are_found_by_what_they_are_called() {
        assert_eq!(hashes(&[]), Ok(4));
        assert_eq!(hashes(&["kernel=x"]), Ok(3));
        assert_eq!(hashes(&["kernel=x,y", "seed=1"]), Ok(3));
        assert_eq!(hashes(&["lru.batch=14"]), Ok(1));
        assert_eq!(hashes(&["kernel=z"]).unwrap_err(), "--where kernel: no run has `z`, only x, y");
        assert_eq!(hashes(&["kernl=x"]).unwrap_err(), "--where kernl: no run has it: did you mean `kernel`?");
        assert!("kernel".parse::<Where>().is_err() && "kernel=".parse::<Where>().is_err());
    }

    #[test]
    fn a_table_has_a_column_for_each_kernel_and_change() {
        let tables = tables(&runs());
        let [table] = tables.as_slice() else { panic!("{tables:?}") };
        assert_eq!(
            table.columns.iter().map(|column| column.id.as_str()).collect::<Vec<_>>(),
            ["x", "x+lru.batch=14", "y"]
        );
        assert_eq!(table.rows[0].cells[0].value.map(|it| (it.median, it.n)), Some((2.0, 2)));
        assert_eq!(table.seeds, [1, 2]);
    }

    #[test]
    fn a_list_has_a_column_for_each_key() {
        let frame = Frame::of(&runs()[1..3]);
        let mut out = Vec::new();
        frame.write_csv(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "experiment,machine,scale,kernel,lru.batch,seed,group,name,unit,better,fingerprint,run,value"
        );
        assert_eq!(lines[1], "parallelio,parallelio-8g,1/16,x,,2,Ops,Ops a,ops/s,higher,0000000000000002,x2,3");
        assert!(lines[3].starts_with("parallelio,parallelio-8g,1/16,x,14,1,"), "{text}");
        assert_eq!(lines.len(), 5);
    }
}
