//! Writes the tables of docs/studies/parallelio.md; [`pictures`] writes the pictures.
//!
//! docs/studies/parallelio.toml lists the inputs of the tables. `plan` reads this file and lists the simulations for
//! each table. `run` runs each simulation once. `table` and `targets` make Markdown from the results; `number` formats
//! the figures. The Markdown goes between `<!-- figures: NAME -->` and `<!-- end -->`.

mod number;
mod plan;
mod run;
mod table;
mod targets;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use crate::{
    Outcome, pictures,
    splice::{names, spliced},
};
use plan::Plan;
use run::{Figures, Simulation};

const PAGE: &str = "docs/studies/parallelio.md";
const PLAN: &str = "docs/studies/parallelio.toml";
const MACHINE: &str = "crates/catalogue/machines/parallelio-8g.toml";
const PRINTED: &str = "crates/catalogue/experiments/parallelio/published.toml";
const BEGIN: &str = "<!-- figures: ";

/// Name of the marked part of the page that shows the commit with which the tables were made.
const COMMIT: &str = "commit";

/// Folders and files on which a simulated figure depends. (The plan and this tool are not among them: they only decide
/// which figures are shown, and in which form.)
const SOURCES: [&str; 2] = ["crates", "Cargo.lock"];

/// Simulated figures, and published figures by kernel.
pub struct Results {
    /// Figures of each simulation.
    pub simulated: BTreeMap<Simulation, Figures>,
    /// Published figures of each kernel.
    pub printed: BTreeMap<String, Figures>,
}

/// Writes tables and draws pictures: those named in `only`, with commas between the names, or all of them. The name
/// `commit` stands for the line that names the commit.
pub fn write(root: &Path, only: Option<&str>) -> Outcome {
    let (pictures, tables): (Vec<&str>, Vec<&str>) = match only {
        Some(only) => only.split(',').partition(|name| name.ends_with(".svg")),
        None => (Vec::new(), Vec::new()),
    };
    let known = pictures::names(root)?;
    if let Some(name) = pictures.iter().find(|name| !known.iter().any(|known| known == **name)) {
        return Err(format!("no picture is called `{name}`; there are {}", known.join(", ")));
    }
    if only.is_none() || !tables.is_empty() {
        write_tables(root, only.map(|_| tables.as_slice()))?;
    }
    pictures::draw(root, |name| only.is_none() || pictures.contains(&name))
}

fn write_tables(root: &Path, only: Option<&[&str]>) -> Outcome {
    let plan = Plan::parse(&read(root, PLAN)?, &read(root, MACHINE)?)?;
    let old = read(root, PAGE)?;
    check_places(&plan, &old)?;
    let wanted: BTreeSet<&str> = match only {
        Some(only) => only.iter().copied().collect(),
        None => plan.tables.keys().map(String::as_str).chain([COMMIT]).collect(),
    };
    let mut runs = BTreeMap::new();
    for &name in wanted.iter().filter(|name| **name != COMMIT) {
        let table = plan.tables.get(name).ok_or_else(|| {
            let names: Vec<&str> = plan.tables.keys().map(String::as_str).collect();
            format!("no table is called `{name}`; there are {}", names.join(", "))
        })?;
        runs.extend(table.runs(&plan)?.into_iter().map(|(title, run)| (run, format!("{name}: {title}"))));
    }
    let commit = commit(root)?;
    let results = Results { simulated: run::all(root, &runs)?, printed: run::printed(&read(root, PRINTED)?)? };
    let body = |name: &str| match plan.tables.get(name) {
        _ if !wanted.contains(name) => Ok(None),
        Some(table) => table.markdown(&plan, &results).map(Some),
        None => Ok(Some(format!("The tables between marks of `cargo xtask figures` are of commit {commit}."))),
    };
    if !wanted.contains(COMMIT) {
        eprintln!("--- {PAGE} keeps the commit that it names: not all tables are made anew");
    }
    // The page is read again, since it may have changed in the minutes that the simulations took.
    let new = spliced(&read(root, PAGE)?, BEGIN, &body)?;
    fs::write(root.join(PAGE), new).map_err(|error| format!("{PAGE}: {error}"))
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
}

/// Checks that the page [`PAGE`] has a place for each table of the plan, and that the plan has a table for each place
/// on the page.
fn check_places(plan: &Plan, page: &str) -> Outcome {
    let places: BTreeSet<&str> = names(page, BEGIN).collect();
    let tables: BTreeSet<&str> = plan.tables.keys().map(String::as_str).chain([COMMIT]).collect();
    match places.symmetric_difference(&tables).next() {
        Some(name) if places.contains(name) => Err(format!("{PAGE} has a place for `{name}`, {PLAN} no such table")),
        Some(name) => Err(format!("{PLAN} has a table `{name}`, {PAGE} no place for it")),
        None => Ok(()),
    }
}

/// Returns the checked-out commit and its date, with `-dirty` if a file on which figures depend differs from that
/// commit. (Texts do not count, since they change when figures are inserted.)
fn commit(root: &Path) -> Result<String, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        if !output.status.success() {
            return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&[&["status", "--porcelain", "--"], SOURCES.as_slice()].concat())?;
    let (commit, date) = (git(&["describe", "--always"])?, git(&["log", "-1", "--format=%cs"])?);
    let dirty = if changed.is_empty() { "" } else { "-dirty" };
    Ok(format!("`{commit}{dirty}` ({date})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_this_repository_has_its_place_and_its_runs() {
        let root = crate::root();
        let plan = Plan::parse(&read(&root, PLAN).unwrap(), &read(&root, MACHINE).unwrap()).unwrap();
        check_places(&plan, &read(&root, PAGE).unwrap()).unwrap();
        for (name, table) in &plan.tables {
            let runs = table.runs(&plan).unwrap();
            assert!(!runs.is_empty(), "{name}");
        }
    }

    #[test]
    fn figures_in_print_are_found_by_kernel() {
        let printed = run::printed(&read(&crate::root(), PRINTED).unwrap()).unwrap();
        assert_eq!(printed["3.10-rc4-vanilla"].of("Ops memcachetest-2385M"), 10989.0);
        assert!(printed["mm1-mmotm-20130606"].of("priority0-715M").is_nan());
    }
}
