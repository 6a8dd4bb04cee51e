//! Runs simulations. Equal simulations run once, and do not run again with an unchanged program: their reports are kept
//! in the folder `figures/` of the target folder, by program and run.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use crate::{highwater, shown};

/// One simulation: a kernel, a machine and a seed.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Simulation {
    /// Name of the kernel. If the run has a kernel file, this is the name of the kernel on which the file is based.
    pub kernel: String,
    /// Text of the kernel file, if the kernel is changed.
    pub kernel_file: Option<String>,
    /// Text of the machine file, if the machine is not the experiment's.
    pub machine_file: Option<String>,
    /// The seed.
    pub seed: u64,
}

/// The figures of one run, by the names of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Returns the figure of a row; NaN if there is no such row.
    pub fn of(&self, row: &str) -> f64 {
        self.0.get(row).copied().unwrap_or(f64::NAN)
    }

    /// Returns whether the figures include the row called `row`.
    pub fn has(&self, row: &str) -> bool {
        self.0.contains_key(row)
    }

    /// Returns the figures of a report that has one kernel and one seed. `report` is its text in JSON; docs/json.md
    /// describes the format.
    fn of_report(report: &str) -> Result<Self, String> {
        let report: serde_json::Value = serde_json::from_str(report).map_err(|error| error.to_string())?;
        let figure = |row: &serde_json::Value| {
            let name = row["name"].as_str()?;
            let value = row["values"].as_object()?.values().next()?;
            Some((name.to_owned(), value["median"].as_f64().unwrap_or(f64::NAN)))
        };
        let rows = report["rows"].as_array().ok_or("the report has no rows")?;
        Ok(Self(rows.iter().filter_map(figure).collect()))
    }
}

impl FromIterator<(String, f64)> for Figures {
    fn from_iter<T: IntoIterator<Item = (String, f64)>>(figures: T) -> Self {
        Self(figures.into_iter().collect())
    }
}

/// Returns the published figures of each kernel. `text` is the contents of a `published.toml`.
pub fn printed(text: &str) -> Result<BTreeMap<String, Figures>, String> {
    #[derive(serde::Deserialize)]
    struct Published {
        columns: Vec<String>,
        rows: Vec<Row>,
    }
    #[derive(serde::Deserialize)]
    struct Row {
        name: String,
        values: Vec<f64>,
    }
    let Published { columns, rows } = toml::from_str(text).map_err(|error| error.to_string())?;
    let figures = |column| rows.iter().map(|row| (row.name.clone(), row.values[column])).collect();
    Ok(columns.into_iter().enumerate().map(|(column, kernel)| (kernel, figures(column))).collect())
}

/// Returns the figures of all `runs`, which are given with their titles. Runs that this program has not done yet are
/// done now, some in parallel.
pub fn all(root: &Path, runs: &BTreeMap<Simulation, String>) -> Result<BTreeMap<Simulation, Figures>, String> {
    let program = highwater()?;
    let bytes = fs::read(&program).map_err(|error| format!("{}: {error}", program.display()))?;
    let target = program.parent().and_then(Path::parent).expect("the program lies in release/ of the target folder");
    let folder = target.join("figures").join(hashed(&bytes));
    let figures = Mutex::new(BTreeMap::new());
    let failure = Mutex::new(None);
    let left = Mutex::new(runs.iter());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no thread panics").next();
                    let Some((run, title)) = next else { return };
                    match one(root, &program, &folder, run) {
                        Ok(found) => {
                            let mut figures = figures.lock().expect("no thread panics");
                            figures.insert(run.clone(), found);
                            eprintln!("--- {} of {}, {title}", figures.len(), runs.len());
                        }
                        Err(message) => {
                            *failure.lock().expect("no thread panics") = Some(format!("{title}: {message}"));
                            left.lock().expect("no thread panics").by_ref().for_each(drop);
                        }
                    }
                }
            });
        }
    });
    match failure.into_inner().expect("no thread panics") {
        Some(message) => Err(message),
        None => Ok(figures.into_inner().expect("no thread panics")),
    }
}

/// Returns the figures of one run, from its stored report if there is one. Otherwise does the run and stores its
/// report.
fn one(root: &Path, program: &Path, folder: &Path, run: &Simulation) -> Result<Figures, String> {
    let folder = folder.join(hashed(run));
    let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let report = folder.join("report.json");
    if !report.exists() {
        fs::create_dir_all(&folder).map_err(|error| told(&folder, error))?;
        let file = |name: &str, text: &str| -> Result<PathBuf, String> {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| told(&path, error))?;
            Ok(path)
        };
        let mut command = Command::new(program);
        command.current_dir(root).args(["compare", "parallelio", "--format", "json", "--jobs", "1"]);
        command.args(["--seed", &run.seed.to_string()]);
        match &run.kernel_file {
            Some(text) => command.arg("--kernels").arg(file("kernel.toml", text)?),
            None => command.args(["--kernels", &run.kernel]),
        };
        if let Some(text) = &run.machine_file {
            command.arg("--machine").arg(file("machine.toml", text)?);
        }
        let output = command.output().map_err(|error| told(program, error))?;
        if !output.status.success() {
            return Err(format!("{}: {}", shown(&command), String::from_utf8_lossy(&output.stderr).trim_end()));
        }
        // The report gets its name when it is complete, so that an interrupted command leaves no partial report.
        let unnamed = folder.join("report.json.new");
        fs::write(&unnamed, output.stdout).map_err(|error| told(&unnamed, error))?;
        fs::rename(&unnamed, &report).map_err(|error| told(&report, error))?;
    }
    let text = fs::read_to_string(&report).map_err(|error| told(&report, error))?;
    Figures::of_report(&text).map_err(|message| format!("{}: {message}", report.display()))
}

fn hashed(what: &(impl Hash + ?Sized)) -> String {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_gives_its_figures_by_row() {
        let report = r#"{ "rows": [
            { "name": "Swap Ins", "values": { "k": { "median": 3, "low": 3, "high": 3, "n": 1 } } },
            { "name": "none", "values": {} }
        ] }"#;
        let figures = Figures::of_report(report).unwrap();
        assert_eq!(figures.of("Swap Ins"), 3.0);
        assert!(figures.of("none").is_nan() && !figures.has("none"));
        assert!(Figures::of_report("{}").is_err());
    }
}
