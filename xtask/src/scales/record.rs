//! The record: a CSV file with the outcomes of runs of experiments, by kernel, scale and seed.

use std::{collections::BTreeMap, fmt, fs, io, path::Path};

use serde::Deserialize;

/// First line of the CSV file with the record: the names of the columns.
const HEAD: &str = "experiment,kernel,scale,seed,value,unit,better,error";

/// The part of an experiment's file that `cargo xtask scales` needs.
#[derive(Clone, Debug, Deserialize)]
pub struct Experiment {
    /// Name of the experiment's folder.
    #[serde(skip)]
    pub name: String,
    /// Names of the experiment's kernels. All kernels after the first are compared with the first.
    pub kernels: Vec<String>,
    /// Name of the experiment's main row.
    pub main_row: String,
}

impl Experiment {
    /// Reads the experiment `name` from its file, `experiment.toml` in the subfolder `name` of `folder`.
    pub fn read(folder: &Path, name: &str) -> Result<Self, String> {
        let file = folder.join(name).join("experiment.toml");
        let told = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| told(&error))?;
        let experiment: Self = toml::from_str(&text).map_err(|error| told(&error))?;
        Ok(Self { name: name.to_owned(), ..experiment })
    }
}

/// A run of an experiment with one kernel, at one scale, with one seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the kernel file, followed by the choices that the run changes in it, if any:
    /// `3.6-capture-v5+access.huge_pages=never`.
    pub kernel: String,
    /// Scale of the run, as text.
    pub scale: String,
    /// Seed of the run.
    pub seed: u64,
}

impl Case {
    /// Makes a case, which names one run.
    pub fn new(experiment: &str, kernel: &str, scale: &str, seed: u64) -> Self {
        Self { experiment: experiment.into(), kernel: kernel.into(), scale: scale.into(), seed }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { experiment, kernel, scale, seed } = self;
        write!(f, "run {experiment} --kernel {kernel} --scale {scale} --seed {seed}")
    }
}

/// The figure of a run's main row.
#[derive(Clone, Debug, PartialEq)]
pub struct MainFigure {
    /// The value of the main row, in the unit that the field `unit` names.
    pub value: f64,
    /// Unit of the value.
    pub unit: String,
    /// `true` if a higher value is better.
    pub is_higher_better: bool,
}

impl fmt::Display for MainFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.unit)
    }
}

impl MainFigure {
    /// Returns the figure that the report of one run has in the row `main_row`. A `main_row` that ends with `-` stands
    /// for the last row whose name begins with it, as in an experiment's file. docs/json.md describes reports.
    ///
    /// # Errors
    /// When the report is no JSON, or has no such row or no figure in it.
    pub fn of_report(report: &str, main_row: &str) -> Result<Self, String> {
        let report: serde_json::Value = serde_json::from_str(report).map_err(|error| error.to_string())?;
        let is_main = |name: &str| name == main_row || main_row.ends_with('-') && name.starts_with(main_row);
        let rows = report["rows"].as_array().ok_or("the report has no rows")?;
        let row = rows.iter().rfind(|row| row["name"].as_str().is_some_and(is_main));
        let row = row.ok_or_else(|| format!("the report has no row `{main_row}`"))?;
        let value = row["values"].as_object().and_then(|values| values.values().next()?["median"].as_f64());
        Ok(Self {
            value: value.ok_or_else(|| format!("row `{main_row}` has no figure"))?,
            unit: row["unit"].as_str().unwrap_or_default().to_owned(),
            is_higher_better: row["better"].as_str() == Some("higher"),
        })
    }
}

/// The outcome of each run: the value of the experiment's main row, or the reason why the run failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record(BTreeMap<Case, Result<MainFigure, String>>);

impl Record {
    /// Returns the record in a file; an empty record if there is no file.
    pub fn read(file: &Path) -> Result<Self, String> {
        match fs::read_to_string(file) {
            Ok(text) => Self::parse(&text).map_err(|error| format!("{}: {error}", file.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("line 1: expected `{HEAD}`"));
        }
        let parsed =
            |(n, line): (usize, &str)| Self::parse_line(line).ok_or_else(|| format!("line {}: expected {HEAD}", n + 2));
        lines.enumerate().map(parsed).collect::<Result<_, _>>().map(Self)
    }

    fn parse_line(line: &str) -> Option<(Case, Result<MainFigure, String>)> {
        // The reason for a failure is the last field, since it may contain commas.
        let mut fields = line.splitn(8, ',');
        let mut next = || fields.next();
        let (experiment, kernel, scale, seed) = (next()?, next()?, next()?, next()?.parse().ok()?);
        let case = Case::new(experiment, kernel, scale, seed);
        let (value, unit, better, error) = (next()?, next()?, next()?, next()?);
        if value.is_empty() {
            return (!error.is_empty()).then(|| (case, Err(error.to_owned())));
        }
        let is_higher_better = match better {
            "higher" => true,
            "lower" => false,
            _ => return None,
        };
        Some((case, Ok(MainFigure { value: value.parse().ok()?, unit: unit.to_owned(), is_higher_better })))
    }

    /// Writes the record to a file.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        fs::write(file, self.text()).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn text(&self) -> String {
        let line = |(case, found): (&Case, &Result<MainFigure, String>)| {
            let Case { experiment, kernel, scale, seed } = case;
            let found = match found {
                Ok(MainFigure { value, unit, is_higher_better }) => {
                    format!("{value},{unit},{},", if *is_higher_better { "higher" } else { "lower" })
                }
                Err(why) => format!(",,,{}", why.replace('\n', " ")),
            };
            format!("{experiment},{kernel},{scale},{seed},{found}\n")
        };
        format!("{HEAD}\n{}", self.0.iter().map(line).collect::<String>())
    }

    /// Adds the outcome of a run to the record.
    pub fn note(&mut self, case: Case, found: Result<MainFigure, String>) {
        self.0.insert(case, found);
    }

    /// Returns whether the record has an outcome of the run `case`.
    pub fn has(&self, case: &Case) -> bool {
        self.0.contains_key(case)
    }

    /// Returns whether the record says that the run `case` failed.
    pub fn fails(&self, case: &Case) -> bool {
        self.of(case).is_some_and(Result::is_err)
    }

    /// Returns the outcome of the run `case`; `None` if the record does not have this run.
    pub fn of(&self, case: &Case) -> Option<&Result<MainFigure, String>> {
        self.0.get(case)
    }

    /// Returns all runs with their outcomes.
    pub fn lines(&self) -> impl Iterator<Item = (&Case, &Result<MainFigure, String>)> {
        self.0.iter()
    }

    /// Returns the figures of all successful runs of one experiment with one kernel at one scale, in the order of the
    /// runs' seeds.
    pub fn figures(&self, experiment: &str, kernel: &str, scale: &str) -> Vec<&MainFigure> {
        let (from, to) = [0, u64::MAX].map(|seed| Case::new(experiment, kernel, scale, seed)).into();
        self.0.range(from..=to).filter_map(|(_, found)| found.as_ref().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = Record::default();
        let found = |value| Ok(MainFigure { value, unit: "ops/s".into(), is_higher_better: true });
        record.note(Case::new("anon", "a", "1/4", 1), found(0.1 + 0.2));
        record.note(Case::new("anon", "a", "1/4", 3), found(7.0));
        record.note(Case::new("anon", "a+lru.batch=14", "1/4", 1), found(1e300));
        record.note(Case::new("anon", "b", "1", 1), Err("out of memory: 3 pages, 5 slots".into()));
        assert_eq!(Record::parse(&record.text()).unwrap(), record);
        let values = |kernel| record.figures("anon", kernel, "1/4").iter().map(|it| it.value).collect::<Vec<_>>();
        assert_eq!((values("a"), values("b")), (vec![0.1 + 0.2, 7.0], vec![]));
        assert!(record.fails(&Case::new("anon", "b", "1", 1)) && !record.has(&Case::new("anon", "b", "1", 2)));
        for wrong in ["", "anon,a,1/4\n", "anon,a,1/4,1,x,ops/s,higher,\n", "anon,a,1/4,1,5,ops/s,more,\n"] {
            assert!(Record::parse(&format!("{HEAD}\n{wrong}")).is_err() != wrong.is_empty(), "{wrong}");
        }
    }

    #[test]
    fn the_main_row_may_be_the_last_of_several_sizes() {
        let row = |name: &str, value: f64| {
            format!(r#"{{"name":"{name}","unit":"s","better":"lower","values":{{"k":{{"median":{value}}}}}}}"#)
        };
        let report = format!(r#"{{"rows":[{},{},{}]}}"#, row("Ops x-0M", 1.0), row("Ops x-9M", 2.0), row("Ops y", 3.0));
        let of = |name| MainFigure::of_report(&report, name).map(|it| (it.value, it.is_higher_better));
        assert_eq!((of("Ops x-"), of("Ops y")), (Ok((2.0, false)), Ok((3.0, false))));
        assert!(of("Ops z").unwrap_err().contains("no row `Ops z`"));
    }
}
