//! An experiment and its variants, with some figures from all of them in one table.
//!
//! A variant changes values of the machine, of the kernels or of the workload (`[[variant]]` of an experiment). In the
//! table each figure is a block, and each variant is a line of this block.

use std::borrow::Borrow;

use placed::Error;

use crate::bars::Bars;
use crate::plan;
use crate::plan::{JobFailure, Plan, Request, Set, fold};
use catalogue::experiment::{Experiment, Variant};
use catalogue::find;
use grounds::job::Runnable;
use report::plot::memory::VariantMemory;
use report::{Column, Table, TableCell, TableRow, rows};

/// Name by which the table shows the unchanged experiment.
const PLAIN: &str = "as it is";

/// The unchanged experiment and its variants, checked and ready to run.
pub struct Variants {
    plans: Vec<VariantPlan>,
    rows: Vec<String>,
}

/// The plan of the runs of a variant or of the unchanged experiment.
struct VariantPlan {
    name: String,
    plan: Plan,
    /// For each column of `plan`, the index of the same column in the plan of the unchanged experiment.
    columns: Vec<usize>,
}

impl VariantPlan {
    fn new(name: &str, plan: Plan, columns: Vec<usize>) -> Self {
        Self { name: name.to_owned(), plan: plan.titled(|title| format!("{title}, {name}")), columns }
    }
}

/// The results of the unchanged experiment, or of a variant.
#[derive(Clone, Debug)]
struct VariantResults {
    name: String,
    table: Table,
    /// For each column of `table`, the index of the same column in the table of the unchanged experiment.
    columns: Vec<usize>,
}

impl Borrow<Plan> for VariantPlan {
    fn borrow(&self) -> &Plan {
        &self.plan
    }
}

impl Variants {
    /// Makes the plans of the experiment that `request` names and of its variants. If a variant and the request set the
    /// same key, the variant's value counts. `rows` are words that choose the figures to show: those whose names
    /// contain one of the words. Without words, the experiment's file chooses the figures. `only` are words that
    /// choose, in the same way, the variants to run; without words, all variants run. A variant that applies to none of
    /// the request's kernels is left out.
    ///
    /// # Errors
    /// The errors of [`Plan::new`]. Also when the experiment has no variants, or a word of `only` names none of them;
    /// when neither the experiment nor `rows` selects rows; and when a variant sets a key to which the request gives
    /// several values, since that variant would lack columns.
    pub fn new(
        request: &Request,
        rows: &[String],
        only: &[String],
        find: impl Fn(&str) -> Option<&'static dyn Runnable>,
    ) -> Result<Self, Error> {
        let experiment = find::experiment(&request.experiment)?;
        let wrong = |message: String| Error { place: None, message };
        if experiment.variants.is_empty() {
            return Err(wrong(format!("{}: the experiment has no [[variant]]", experiment.file)));
        }
        let is_named = |variant: &Variant, word: &str| variant.name.to_lowercase().contains(&word.to_lowercase());
        if let Some(word) = only.iter().find(|word| !experiment.variants.iter().any(|variant| is_named(variant, word)))
        {
            // The experiment's own error lists the existing variants.
            return Err(experiment.variant(word).err().unwrap_or_else(|| wrong(format!("no variant `{word}`"))));
        }
        let is_wanted = |variant: &&Variant| only.is_empty() || only.iter().any(|word| is_named(variant, word));
        let rows = if rows.is_empty() { experiment.variant_rows.clone() } else { rows.to_vec() };
        if rows.is_empty() {
            return Err(wrong(format!("{}: `variant_rows` is missing: say which rows to show", experiment.file)));
        }
        let plain = Plan::new(request, &find)?;
        if let Some(names) = plain.row_names() {
            rows::check(&names, &rows).map_err(wrong)?;
        }
        let kernels: Vec<String> = plain.columns.iter().map(|column| column.kernel.clone()).collect();
        let mut plans = vec![VariantPlan::new(PLAIN, plain, (0..kernels.len()).collect())];
        for variant in experiment.variants.iter().filter(is_wanted) {
            let told = |error: Error| wrong(format!("variant `{}`: {error}", variant.name));
            let Some(request) = of_variant(request, &experiment, variant).map_err(told)? else { continue };
            let plan = Plan::new(&request, &find).map_err(told)?;
            let columns: Vec<usize> = (0..kernels.len()).filter(|n| is_about(variant, &kernels[*n])).collect();
            if columns.len() != plan.columns.len() {
                let message = "it is about some kernels alone, and a column is of none of those that were asked for";
                return Err(told(wrong(message.to_owned())));
            }
            plans.push(VariantPlan::new(&variant.name, plan, columns));
        }
        Ok(Self { plans, rows })
    }

    /// Returns the plan of the unchanged experiment, then the plan of each variant.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.plans.iter().map(|it| &it.plan)
    }

    /// Returns the title for the progress display.
    #[must_use]
    pub fn title(&self) -> String {
        self.plans[0].plan.title()
    }

    /// Returns the names of all runs of all plans.
    #[must_use]
    pub fn titles(&self) -> Vec<String> {
        self.plans.iter().flat_map(|variant| variant.plan.titles()).collect()
    }

    /// Runs all plans on `threads` threads. Returns the table of results, the memory over time of each variant's runs
    /// (if the request asks for it), and the failed runs.
    #[must_use]
    pub fn run(self, threads: usize) -> (Table, Vec<VariantMemory>, Vec<JobFailure>) {
        let results = {
            let bars = Bars::new(&self.title(), self.titles().len());
            plan::run_all(&self.plans, threads, &bars)
        };
        let count = self.plans[0].columns.len();
        let (mut found, mut memory, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for (VariantPlan { name, plan, columns }, results) in results {
            let seed = plan.seeds[0];
            let of_variant = |it: JobFailure| JobFailure { column: format!("{}, {name}", it.column), ..it };
            failures.extend(results.failures.into_iter().map(of_variant));
            let mut runs = vec![None; count];
            for run in results.memory.into_iter().filter(|run| run.seed == seed) {
                let number = results.table.columns.iter().position(|column| column.id == run.column);
                let number = number.expect("a run is of a column of its own table");
                runs[columns[number]] = Some(run);
            }
            memory.push(VariantMemory { name: name.clone(), runs });
            found.push(VariantResults { name: name.clone(), table: results.table, columns: columns.clone() });
        }
        (side_by_side(&found, &self.rows), memory, failures)
    }
}

/// Returns the request for the variant that `word` names, as [`Experiment::variant`] finds it. This request has the
/// variant's values and kernels; everything else comes from `request`.
///
/// # Errors
/// When the experiment is unknown or wrong, when `word` names no variant or several, when the variant applies to none
/// of the request's kernels, or when it sets a key to which the request gives several values.
pub fn named(request: &Request, word: &str) -> Result<Request, Error> {
    let experiment = find::experiment(&request.experiment)?;
    let variant = experiment.variant(word)?;
    let told = |message: String| Error { place: None, message: format!("variant `{}`: {message}", variant.name) };
    let found = of_variant(request, &experiment, variant).map_err(|error| told(error.to_string()))?;
    found.ok_or_else(|| told(format!("it is about {}, which is not among those that run", variant.kernels.join(", "))))
}

/// Returns whether `variant` is to run with the kernel named `kernel`.
fn is_about(variant: &Variant, kernel: &str) -> bool {
    variant.kernels.is_empty() || variant.kernels.iter().any(|name| name == kernel)
}

/// Returns the request that runs `variant`. It has the variant's own values, and the values of `request` for all other
/// keys. Its kernels are those kernels of `request` to which the variant applies. Returns `None` if there is no such
/// kernel. Fails if `request` lists several values for a key that the variant sets.
fn of_variant(request: &Request, experiment: &Experiment, variant: &Variant) -> Result<Option<Request>, Error> {
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
    let mut kernels = if request.kernels.is_empty() { experiment.kernels.clone() } else { request.kernels.clone() };
    let mut more_kernels = request.more_kernels.clone();
    if !variant.kernels.is_empty() {
        for words in [&mut kernels, &mut more_kernels] {
            let mut kept = Vec::new();
            for word in std::mem::take(words) {
                if is_about(variant, &find::kernel(&word)?.name) {
                    kept.push(word);
                }
            }
            *words = kept;
        }
    }
    if kernels.is_empty() {
        // A request without kernels would mean the experiment's own kernels.
        kernels = std::mem::take(&mut more_kernels);
    }
    Ok((!kernels.is_empty()).then(|| Request { set, kernels, more_kernels, ..request.clone() }))
}

/// Joins the tables of `found` into one table. The first table is that of the unchanged experiment. Each row that
/// `wanted` names becomes a block with a line for each table in `found`.
fn side_by_side(found: &[VariantResults], wanted: &[String]) -> Table {
    let plain = &found[0].table;
    let line = |VariantResults { name: variant, table, columns }: &VariantResults, name: &str| -> Option<TableRow> {
        let row = table.rows.iter().find(|row| row.name == name)?;
        let mut cells = vec![TableCell::default(); plain.columns.len()];
        for (number, cell) in columns.iter().zip(&row.cells) {
            let published = cell.published.filter(|_| variant == PLAIN);
            cells[*number] = TableCell { published, ..cell.clone() };
        }
        let group = row.name.clone();
        let name = format!("{group}: {variant}");
        Some(TableRow { group, name, cells, ..row.clone() })
    };
    let names = wanted_names(found, wanted);
    let rows = names.iter().flat_map(|name| found.iter().filter_map(move |found| line(found, name)));
    // A column's head shows only failures of the unchanged experiment. A variant's failures are listed below the table.
    let note = |VariantResults { name, table, .. }: &VariantResults| -> Vec<String> {
        let told = |column: &Column| Some(format!("{name}: {} {}", column.id, column.failure()?));
        table.columns.iter().filter_map(told).collect()
    };
    let notes = found.iter().filter(|found| found.name != PLAIN).flat_map(note).collect();
    Table {
        rows: rows.collect(),
        fingerprint: Some(fold(found.iter().filter_map(|found| found.table.fingerprint))),
        notes,
        main_rows: Vec::new(),
        ..plain.clone()
    }
}

/// Returns the names of the rows that the words in `wanted` match, in the order of the words. A word that is the whole
/// name of a row matches only this row.
fn wanted_names<'t>(found: &'t [VariantResults], wanted: &[String]) -> Vec<&'t str> {
    let all = || found.iter().flat_map(|found| &found.table.rows).map(|row| row.name.as_str());
    let mut names: Vec<&str> = Vec::new();
    for word in wanted {
        for name in all().filter(|name| rows::is_named(name, word, all())) {
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
    use report::samples::{head, ops};

    /// Returns a result with a column for each number in `columns`: 0 stands for kernel x, 1 for kernel y.
    fn found(name: &str, columns: &[usize], value: f64) -> VariantResults {
        let kernels: Vec<&str> = columns.iter().map(|column| ["x", "y"][*column]).collect();
        let runs = columns.iter().map(|column| vec![vec![ops("Ops a", value), ops("Ops b", value + *column as f64)]]);
        let table = Table::of_runs(head(&kernels, 1), &runs.collect::<Vec<_>>(), None);
        VariantResults { name: name.to_owned(), table, columns: columns.to_vec() }
    }

    #[test]
    fn each_row_is_a_block_and_each_variant_a_line() {
        let all = [found(PLAIN, &[0, 1], 1.0), found("two disks", &[0, 1], 5.0), found("a patch", &[1], 7.0)];
        let table = side_by_side(&all, &["ops b".to_owned()]);
        let lines: Vec<_> = table.rows.iter().map(|row| (row.group.as_str(), row.name.as_str())).collect();
        assert_eq!(lines, [("Ops b", "Ops b: as it is"), ("Ops b", "Ops b: two disks"), ("Ops b", "Ops b: a patch")]);
        let medians = |row: &TableRow| [row.median(0), row.median(1)];
        assert_eq!(medians(&table.rows[1]), [Some(5.0), Some(6.0)]);
        assert_eq!(medians(&table.rows[2]), [None, Some(8.0)], "it is about the second kernel alone");
        // A word matches names that contain it, unless it is a whole name.
        let names = |word: &str| wanted_names(&all[..1], &[word.to_owned()]).len();
        assert_eq!((names("ops"), names("Ops A"), names("none")), (2, 1, 0));
    }

    #[test]
    fn a_variant_has_its_own_value_of_a_key_and_the_request_has_the_others() {
        let set = |key: &str, values: &[&str]| Set {
            key: key.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let experiment = find::experiment("simon").unwrap();
        let asked =
            |values: &[&str]| Request { set: vec![set("a", values), set("b", &["2", "3"])], ..Request::default() };
        let variant = Variant { name: "v".into(), kernels: Vec::new(), set: [("a".to_owned(), "7".to_owned())].into() };
        let of = |values: &[&str]| of_variant(&asked(values), &experiment, &variant);
        assert_eq!(of(&["1"]).unwrap().unwrap().set, [set("a", &["7"]), set("b", &["2", "3"])]);
        assert!(of(&["1", "2"]).unwrap_err().message.contains("--set a"));
    }

    #[test]
    fn a_variant_runs_with_the_kernels_that_it_is_about() {
        let asked = |kernels: &[&str]| Request {
            experiment: "highalloc".into(),
            kernels: kernels.iter().map(|kernel| (*kernel).to_owned()).collect(),
            ..Request::default()
        };
        let of = |kernels: &[&str]| named(&asked(kernels), "PATCH 2").map(|request| request.kernels);
        assert_eq!(of(&[]).unwrap(), ["3.6-revert-v5"]);
        assert_eq!(of(&["3.3.6", "3.6-revert-v5+lru.batch=3"]).unwrap(), ["3.6-revert-v5+lru.batch=3"]);
        let message = of(&["3.3.6"]).unwrap_err().to_string();
        assert!(message.contains("variant `patch 2 alone`: it is about 3.6-revert-v5"), "{message}");
        let message = named(&asked(&[]), "patch").unwrap_err().to_string();
        assert!(message.contains("`patch` may be `patch 2 alone`, `patch 3 alone`"), "{message}");
        let message = named(&asked(&[]), "none of these").unwrap_err().to_string();
        assert!(message.contains("no variant is called `none of these`; there are `no scanners"), "{message}");
    }

    #[test]
    fn an_experiment_without_variants_is_refused() {
        let request = Request { experiment: "parallelio".into(), ..Request::default() };
        let error = Variants::new(&request, &[], &[], grounds::find).err().expect("it has none");
        assert!(error.message.ends_with("the experiment has no [[variant]]"), "{error}");
    }
}
