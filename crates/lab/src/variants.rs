//! An experiment as it is and with each of its variants: some figures of all of them in one table.
//!
//! A variant changes values of the machine, of the kernels or of the workload (`[[variant]]` of an experiment). In the
//! table a figure is a block, and a variant a line of it.

use std::borrow::Borrow;

use placed::Error;

use crate::{
    bars::Bars,
    experiment::Variant,
    job::Runnable,
    library,
    plan::{self, JobFailure, Plan, Request, Set, fold},
    report::{Table, TableRow},
    rows,
};

/// What the experiment as it is is called.
const PLAIN: &str = "as it is";

/// The variants of an experiment, checked and ready to run.
pub struct Variants {
    plans: Vec<VariantPlan>,
    rows: Vec<String>,
}

/// One of them.
struct VariantPlan {
    name: String,
    plan: Plan,
}

impl VariantPlan {
    fn new(name: &str, plan: Plan) -> Self {
        Self { name: name.to_owned(), plan: plan.titled(|title| format!("{title}, {name}")) }
    }
}

impl Borrow<Plan> for VariantPlan {
    fn borrow(&self) -> &Plan {
        &self.plan
    }
}

impl Variants {
    /// Those of the experiment that `request` names, each as `request` has it otherwise; where a variant sets a key of the
    /// request, the variant's value counts. `rows` are words in the names of the figures to show; the experiment's own
    /// choice if there are none.
    ///
    /// # Errors
    /// The first thing that is unknown or wrong, as [`Plan::new`]; when the experiment has no variants, or it does
    /// not say which rows to show and nobody else does; when a variant sets a key to which the request gives several
    /// values, since that variant would lack columns.
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
        if let Some(names) = plain.row_names() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            rows::check(&names, &rows).map_err(wrong)?;
        }
        let mut plans = vec![VariantPlan::new(PLAIN, plain)];
        for variant in &experiment.variants {
            let told = |error: Error| wrong(format!("variant `{}`: {error}", variant.name));
            let request = of_variant(request, variant).map_err(told)?;
            plans.push(VariantPlan::new(&variant.name, Plan::new(&request, &find).map_err(told)?));
        }
        Ok(Self { plans, rows })
    }

    /// What all of it is called while it runs.
    #[must_use]
    pub fn title(&self) -> String {
        self.plans[0].plan.title()
    }

    /// How each run is called.
    #[must_use]
    pub fn titles(&self) -> Vec<String> {
        self.plans.iter().flat_map(|variant| variant.plan.titles()).collect()
    }

    /// Runs all of them on `threads` threads.
    ///
    /// # Errors
    /// Every job that failed; what had not begun by then was not run.
    pub fn run(self, threads: usize) -> Result<Table, Vec<JobFailure>> {
        let results = {
            let bars = Bars::new(&self.title(), self.titles().len());
            plan::run_all(&self.plans, threads, &bars)?
        };
        let tables = results.into_iter().map(|(variant, results)| (variant.name.as_str(), results.table));
        Ok(side_by_side(&tables.collect::<Vec<_>>(), &self.rows))
    }
}

/// What a variant is asked for: its own values, and those of `request` for other keys.
fn of_variant(request: &Request, variant: &Variant) -> Result<Request, Error> {
    let mut set = request.set.clone();
    for (key, value) in &variant.set {
        match set.iter_mut().find(|asked| asked.key == *key) {
            Some(Set { values, .. }) if values.len() > 1 => {
                let message = format!("it sets `{key}` itself, so that `--set {key}` can have one value, not several");
                return Err(Error { place: None, message });
            }
            Some(asked) => asked.values = vec![value.clone()],
            None => set.push(Set { key: key.clone(), values: vec![value.clone()] }),
        }
    }
    Ok(Request { set, ..request.clone() })
}

/// One table of many: each of the wanted rows is a block, with a line for each of `tables`.
fn side_by_side(tables: &[(&str, Table)], wanted: &[String]) -> Table {
    let plain = &tables[0].1;
    let line = |(variant, table): &(&str, Table), name: &str| -> Option<TableRow> {
        let row = table.rows.iter().find(|row| row.name == name)?;
        let group = row.name.clone();
        let name = format!("{group}: {variant}");
        let mut row = row.clone();
        if *variant != PLAIN {
            row.cells.iter_mut().for_each(|cell| cell.published = None);
        }
        Some(TableRow { group, name, ..row })
    };
    let names = wanted_names(tables, wanted);
    let rows = names.iter().flat_map(|name| tables.iter().filter_map(move |table| line(table, name)));
    Table {
        rows: rows.collect(),
        fingerprint: Some(fold(tables.iter().filter_map(|(_, table)| table.fingerprint))),
        notes: Vec::new(),
        ..plain.clone()
    }
}

/// The names of the rows that `wanted` words mean, in the order of the words; a word that is a whole name means that row
/// alone.
fn wanted_names<'t>(tables: &'t [(&str, Table)], wanted: &[String]) -> Vec<&'t str> {
    let all = || tables.iter().flat_map(|(_, table)| &table.rows).map(|row| row.name.as_str());
    let mut names: Vec<&str> = Vec::new();
    for word in wanted {
        let is_name = all().any(|name| name.eq_ignore_ascii_case(word));
        let means = |name: &str| if is_name { name.eq_ignore_ascii_case(word) } else { rows::contains(name, word) };
        for name in all().filter(|name| means(name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
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
        assert_eq!(lines, [("Ops b", "Ops b: as it is"), ("Ops b", "Ops b: two disks")]);
        assert_eq!(found.rows[1].median(0), Some(10.0));
        // A word is a part of a name, unless it is a whole one.
        let names = |word: &str| wanted_names(&[(PLAIN, table(1.0))], &[word.to_owned()]).len();
        assert_eq!((names("ops"), names("Ops A"), names("none")), (2, 1, 0));
    }

    #[test]
    fn a_variant_has_its_own_value_of_a_key_and_the_request_has_the_others() {
        let set = |key: &str, values: &[&str]| Set {
            key: key.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let asked =
            |values: &[&str]| Request { set: vec![set("a", values), set("b", &["2", "3"])], ..Request::default() };
        let variant = Variant { name: "v".into(), set: [("a".to_owned(), "7".to_owned())].into() };
        assert_eq!(of_variant(&asked(&["1"]), &variant).unwrap().set, [set("a", &["7"]), set("b", &["2", "3"])]);
        assert!(of_variant(&asked(&["1", "2"]), &variant).unwrap_err().message.contains("--set a"));
    }

    #[test]
    fn an_experiment_without_variants_is_refused() {
        let request = Request { experiment: "parallelio".into(), ..Request::default() };
        let error = Variants::new(&request, &[], crate::workloads::find).err().expect("it has none");
        assert!(error.message.ends_with("the experiment has no [[variant]]"), "{error}");
    }
}
