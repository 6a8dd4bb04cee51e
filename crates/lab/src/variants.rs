//! An experiment as it is and with each of its variants: some figures of all of them in one table.
//!
//! A variant changes values of the machine, of the kernels or of the workload (`[[variant]]` of an experiment). In the
//! table a figure is a block, and a variant a line of it.

use std::io::{IsTerminal, stderr};

use engine::kernel::text::{Error, one_of};

use crate::{
    job::Runnable,
    library,
    plan::{JobFailure, Plan, Request, Set, fold},
    progress::Bars,
    report::{Table, TableRow},
};

/// What the experiment as it is is called.
const PLAIN: &str = "as it is";

/// The variants of an experiment, checked and ready to run.
pub struct Variants {
    plans: Vec<(String, Plan)>,
    rows: Vec<String>,
}

impl Variants {
    /// Those of the experiment that `request` names, each as `request` has it otherwise. `rows` are the figures to
    /// show; the experiment's own choice if there are none.
    ///
    /// # Errors
    /// The first thing that is unknown or wrong, as [`Plan::new`]; and when the experiment has no variants, or it does
    /// not say which rows to show and nobody else does.
    pub fn new(
        request: &Request,
        rows: &[String],
        find: impl Fn(&str) -> Option<&'static dyn Runnable>,
    ) -> Result<Self, Error> {
        let experiment = library::experiment(&request.experiment)?;
        let wrong = |message: String| Error { place: None, message };
        if experiment.variants.is_empty() {
            return Err(wrong(format!("{}: the experiment has no [[variant]]", experiment.file)));
        }
        let rows = if rows.is_empty() { experiment.variant_rows.clone() } else { rows.to_vec() };
        if rows.is_empty() {
            return Err(wrong(format!("{}: `variant_rows` is missing: say which rows to show", experiment.file)));
        }
        let plain = Plan::new(request, &find)?;
        if let Some(names) = plain.row_names()
            && let Some(row) = rows.iter().find(|row| !names.iter().any(|name| name.eq_ignore_ascii_case(row)))
        {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            return Err(wrong(format!("no row is called `{row}`{}", one_of(row, &names))));
        }
        let mut plans = vec![(PLAIN.to_owned(), plain)];
        for variant in &experiment.variants {
            let set = variant.set.iter().map(|(key, value)| Set { key: key.clone(), values: vec![value.clone()] });
            let request = Request { set: set.collect(), ..request.clone() };
            let plan = Plan::new(&request, &find)
                .map_err(|error| Error { message: format!("variant `{}`: {error}", variant.name), place: None })?;
            plans.push((variant.name.clone(), plan));
        }
        Ok(Self { plans, rows })
    }

    /// Runs all of them, one after the other, each on `threads` threads.
    ///
    /// # Errors
    /// Those of the first variant that failed.
    pub fn run(&self, threads: usize) -> Result<Table, Vec<JobFailure>> {
        let mut tables = Vec::new();
        for (name, plan) in &self.plans {
            if stderr().is_terminal() {
                eprintln!("{name}");
            }
            let bars = Bars::new(plan.titles());
            tables.push((name.as_str(), plan.run(threads, &bars)?.table));
        }
        Ok(side_by_side(&tables, &self.rows))
    }
}

/// One table of many: each of the wanted rows is a block, with a line for each of `tables`.
fn side_by_side(tables: &[(&str, Table)], wanted: &[String]) -> Table {
    let plain = &tables[0].1;
    let line = |(variant, table): &(&str, Table), name: &String| -> Option<TableRow> {
        let row = table.rows.iter().find(|row| row.name.eq_ignore_ascii_case(name))?;
        let group = format!("{}, {}", row.name, row.unit);
        let name = format!("{group}: {variant}");
        let published = if *variant == PLAIN { row.published.clone() } else { vec![None; row.published.len()] };
        Some(TableRow { group, name, published, ..row.clone() })
    };
    let rows = wanted.iter().flat_map(|name| tables.iter().filter_map(move |table| line(table, name)));
    Table {
        rows: rows.collect(),
        fingerprint: Some(fold(tables.iter().filter_map(|(_, table)| table.fingerprint))),
        notes: Vec::new(),
        ..plain.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{head, ops};

    #[test]
    fn each_row_is_a_block_and_each_variant_a_line() {
        let table = |value: f64| {
            let run = vec![ops("Ops a", value), ops("Ops b", 2.0 * value)];
            Table::of_runs(head(&["x"], 1), &[vec![run]], None)
        };
        let found = side_by_side(&[(PLAIN, table(1.0)), ("two disks", table(5.0))], &["ops b".to_owned()]);
        let lines: Vec<_> = found.rows.iter().map(|row| (row.group.as_str(), row.name.as_str())).collect();
        assert_eq!(lines, [("Ops b, ops/s", "Ops b, ops/s: as it is"), ("Ops b, ops/s", "Ops b, ops/s: two disks")]);
        assert_eq!(found.rows[1].values[0].map(|value| value.median), Some(10.0));
    }

    #[test]
    fn an_experiment_without_variants_is_refused() {
        let request = Request { experiment: "parallelio".into(), ..Request::default() };
        let error = Variants::new(&request, &[], crate::workloads::find).err().expect("it has none");
        assert!(error.message.ends_with("the experiment has no [[variant]]"), "{error}");
    }
}
