//! Golden reports: the whole report of each experiment at a small size, compared byte for byte.
//!
//! If a change of the code changes a report, a test here fails, and the difference is to be reviewed. If the difference
//! is intended, `HIGHWATER_BLESS=1 cargo test --test golden` writes the reports.

use std::{fs, path::Path, process::Command};

use lab::plan::{Plan, Request, Set};
use lab::{embedded, find, grounds};

/// Checks that the names of a report's rows are among those that the run's plan lists. The words of `--rows` are
/// checked against the plan's list, so a name that is missing there could not be selected.
fn check_rows_are_known(name: &str, scale: &str, set: &[String], report: &str) {
    let set = set.iter().map(|set| {
        let (key, value) = set.split_once('=').expect("KEY=VALUE");
        Set { key: key.into(), values: vec![value.into()] }
    });
    let request = Request {
        experiment: name.into(),
        seed: 1,
        runs: 1,
        scale: scale.parse().ok(),
        set: set.collect(),
        ..Request::default()
    };
    let plan = Plan::new(&request, grounds::find).unwrap_or_else(|error| panic!("{error}"));
    let known = plan.row_names().unwrap_or_else(|| panic!("{name} does not say what rows it has"));
    // A line of a row has a name, two spaces and figures. Heads, notes and the last line do not.
    let found: Vec<&str> = report.lines().filter_map(|line| line.split_once("  ")).map(|(name, _)| name).collect();
    let found = found.into_iter().filter(|name| !name.is_empty());
    let unknown: Vec<&str> = found.filter(|name| !known.iter().any(|known| known.name == *name)).collect();
    assert!(unknown.is_empty(), "{name}: {unknown:?} are not among {known:?}");
}

/// Experiments whose short report (the form that `compare` prints by default) has a golden copy: `parallelio` has three
/// kernels, `anon` has two, `randread-pmem` also has rows in %, whose differences are in points, and the main row of
/// `hotset` is in %.
const SHORT: [&str; 4] = ["parallelio", "anon", "randread-pmem", "hotset"];

/// Columns and lines on a laptop's screen.
const SCREEN: (usize, usize) = (100, 40);

#[test]
fn short_reports_are_as_they_were_and_fit_a_screen() {
    for name in SHORT {
        let experiment = find::experiment(name).unwrap_or_else(|error| panic!("{error}"));
        let scale = experiment.smoke_scale.expect("it has a golden report").to_string();
        let found = report(name, &scale, &experiment.smoke_set, &[]);
        let widest = found.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= SCREEN.0 && found.lines().count() <= SCREEN.1, "{name}: {found}");
        check(name, "answer.smoke.txt", &found);
    }
}

/// Compares a report with the golden report, or writes the golden report.
fn check(name: &str, file: &str, found: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalogue/experiments").join(name).join(file);
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        return fs::write(&golden, found).expect("the experiment's folder is writable");
    }
    let expected = fs::read_to_string(&golden)
        .unwrap_or_else(|error| panic!("{}: {error}; HIGHWATER_BLESS=1 writes it", golden.display()));
    assert_eq!(found, expected, "{name}: if this is meant, run HIGHWATER_BLESS=1 cargo test --test golden");
}

fn report(experiment: &str, scale: &str, set: &[String], more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(["compare", experiment, "--scale", scale, "--seed", "1"]).args(more);
    let output = command.args(set.iter().flat_map(|set| ["--set", set])).output();
    let output = output.expect("the binary was built for this test");
    assert!(output.status.success(), "{experiment}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("reports are UTF-8")
}

#[test]
fn reports_are_as_they_were_and_the_same_side_by_side() {
    for name in embedded::names("experiments") {
        let experiment = find::experiment(name).unwrap_or_else(|error| panic!("{error}"));
        let row = experiment.main_row.as_ref().unwrap_or_else(|| panic!("{name} has no `main_row`"));
        let Some(scale) = experiment.smoke_scale else { continue };
        let found = report(name, &scale.to_string(), &experiment.smoke_set, &["--all", "--jobs", "1"]);
        assert!(found.lines().any(|line| line.starts_with(row.as_str())), "{name}: no row `{row}` in {found}");
        check_rows_are_known(name, &scale.to_string(), &experiment.smoke_set, &found);
        assert_eq!(
            found,
            report(name, &scale.to_string(), &experiment.smoke_set, &["--all", "--jobs", "2"]),
            "{name}: the report depends on what runs beside it"
        );
        check(name, "report.smoke.txt", &found);
    }
}
