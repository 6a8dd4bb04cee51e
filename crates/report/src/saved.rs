//! Reads reports that were saved as JSON, and joins them with other reports.

use crate::table::{Column, Failed, Table, TableCell, TableRow};
use figures::figure::{Better, Format, PublishedFigure};
use figures::histogram::Buckets;
use figures::histogram::Histogram;
use figures::scale::Scale;
use figures::statistics::{CONFIDENCE, Estimate};
use figures::verdict::Sample;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, error::Category};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Size of the largest file that is read as a report, bytes.
pub const BYTES_MAX: u64 = 64 << 20;

/// Length of the longest row name that is accepted, bytes.
const NAME_BYTES_MAX: usize = 4096;

/// Largest number of characters of a wrong name that a message shows.
const SHOWN_CHARS_MAX: usize = 100;

/// The text in messages that says which files are reports.
pub const EXPECTED: &str = "expected the JSON of `highwater run`, `compare`, `stat` or `import`";

/// A report as [`super::json`] writes it. Unknown keys are ignored, since later versions may have added them.
#[derive(serde::Deserialize)]
struct Report {
    schema: u32,
    experiment: String,
    #[serde(default)]
    scale: Option<String>,
    #[serde(default)]
    seeds: Vec<u64>,
    #[serde(default)]
    fingerprint: Option<String>,
    machine: String,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    main_rows: Vec<String>,
    columns: Vec<ReportColumn>,
    rows: Vec<ReportRow>,
    #[serde(default)]
    histograms: Vec<ReportTimes>,
}

#[derive(serde::Deserialize)]
struct ReportColumn {
    id: String,
    kernel: String,
    ground: String,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    saved: Option<String>,
    #[serde(default)]
    failed: Vec<Failed>,
    #[serde(default)]
    bereft: usize,
}

#[derive(serde::Deserialize)]
struct ReportRow {
    group: String,
    name: String,
    unit: String,
    better: Better,
    #[serde(default)]
    format: Option<Format>,
    values: Map<String, Value>,
    #[serde(default)]
    published: Map<String, Value>,
}

#[derive(serde::Deserialize)]
struct ReportEstimate {
    median: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    n: usize,
    /// Probability that the interval from `low` to `high` contains the true value. Reports of earlier versions lack
    /// this key: their intervals all have a probability of 95 %.
    #[serde(default, deserialize_with = "given")]
    coverage: Option<Option<f64>>,
    #[serde(default)]
    samples: Vec<(u64, Option<f64>)>,
}

/// Deserializes a key that is present in the report. Returns `Some(None)` if its value is null, so that the key differs
/// from one that is absent.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[derive(serde::Deserialize)]
struct ReportTimes {
    name: String,
    values: BTreeMap<String, Buckets>,
}

/// Returns the table in the JSON that `run`, `compare`, `stat` or `import` wrote.
///
/// # Errors
/// When the text is not such JSON. The error says what is missing, and where.
pub fn read(text: &str) -> Result<Table, String> {
    one(&value_of(text)?, text)
}

/// Returns the tables in one report, or in a list of reports as `compare A,B` and `results` write it.
///
/// # Errors
/// The errors of [`read`]. Each error in a list states the number of the report, from 1. An empty list is an error,
/// too.
pub fn read_all(text: &str) -> Result<Vec<Table>, String> {
    let value = value_of(text)?;
    let Value::Array(values) = value else { return Ok(vec![one(&value, text)?]) };
    if values.is_empty() {
        return Err(told("it is a list without a report"));
    }
    let numbered = |why: String, n: usize| format!("report {n} of the list: {why}");
    values.iter().zip(1..).try_for_each(|(value, n)| check_kind(value).map_err(|why| numbered(why, n)))?;
    let reports: Vec<Report> = report_in(text)?;
    reports.into_iter().zip(1..).map(|(report, n)| table_of(report).map_err(|why| numbered(told(why), n))).collect()
}

/// Returns a name for each report of one file: the name of its experiment. If reports of this experiment differ in
/// machine, scale or seeds, the name includes them.
#[must_use]
pub fn names(tables: &[Table]) -> Vec<String> {
    let name = |table: &Table| {
        let of_it = |it: &&Table| it.experiment == table.experiment;
        let same: Vec<&Table> = tables.iter().filter(of_it).collect();
        let mut name = table.experiment.clone();
        if same.iter().any(|it| it.machine != table.machine) {
            name += &format!(" on {}", table.machine);
        }
        if same.iter().any(|it| it.scale != table.scale) {
            name += &format!(" at {}", table.scale);
        }
        if same.iter().any(|it| it.seeds != table.seeds) {
            name += &format!(" of seeds {:?}", table.seeds);
        }
        name
    };
    tables.iter().map(name).collect()
}

/// Reads a text that holds one saved report. `value` is the text as parsed JSON. Fails if the JSON value is no report.
fn one(value: &Value, text: &str) -> Result<Table, String> {
    check_kind(value)?;
    table_of(report_in(text)?).map_err(told)
}

fn told(why: impl std::fmt::Display) -> String {
    format!("{EXPECTED}, but {why}")
}

fn value_of(text: &str) -> Result<Value, String> {
    let Once(value) = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => told(error),
        _ => told(format!("it is not JSON: {error}")),
    })?;
    Ok(value)
}

/// A JSON value in which no object has the same key twice. With a repeated key it would be unclear which value counts.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OnceVisitor).map(Self)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Once(value)) = list.next_element()? {
            all.push(value);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if all.contains_key(&key) {
                let name: String = key.chars().take(SHOWN_CHARS_MAX).collect();
                return Err(de::Error::custom(format!("the key `{name}` is there twice")));
            }
            let Once(value) = map.next_value()?;
            all.insert(key, value);
        }
        Ok(all.into())
    }
}

/// Returns an error if the keys of a value show that it is not a report.
fn check_kind(value: &Value) -> Result<(), String> {
    let what = match value {
        Value::Object(keys) if keys.contains_key("patients") => "it is a diagnosis of `doctor`",
        Value::Object(keys) if keys.contains_key("experiments") => "it is a report of `fidelity`",
        Value::Object(keys) if keys.contains_key("from") && keys.contains_key("to") => "it is one of `ablate`",
        Value::Object(_) => return Ok(()),
        Value::Array(_) => "it is a list",
        _ => "it is no object",
    };
    Err(told(what))
}

/// Parses a report or a list of reports from its text. The caller has already parsed the text to a [`Value`]. It is
/// parsed again because errors state a line only when a text is parsed, not a [`Value`].
fn report_in<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    serde_json::from_str(text).map_err(told)
}

fn table_of(report: Report) -> Result<Table, String> {
    let columns: Vec<Column> = report
        .columns
        .into_iter()
        .map(|ReportColumn { id, kernel, ground, set, saved, failed, bereft }| Column {
            id,
            set,
            saved,
            failed,
            bereft,
            ..Column::new(&kernel, ground)
        })
        .collect();
    if report.schema != 1 {
        return Err(format!("its `schema` is {}, not 1", report.schema));
    }
    if columns.is_empty() {
        return Err("it has no column".into());
    }
    if let Some(row) = report.rows.iter().find(|row| row.name.len() > NAME_BYTES_MAX) {
        return Err(format!("the name of a row has {} bytes: at most {NAME_BYTES_MAX} can be", row.name.len()));
    }
    for (n, column) in columns.iter().enumerate() {
        if columns[..n].iter().any(|it| it.id == column.id) {
            return Err(format!("two of its columns are called `{}`", column.id));
        }
    }
    for row in &report.rows {
        if let Some(id) = row.values.keys().find(|id| columns.iter().all(|column| column.id != **id)) {
            return Err(format!("row `{}` has a value for `{id}`, which is none of its columns", row.name));
        }
    }
    let rows: Vec<TableRow> =
        report.rows.into_iter().map(|row| row_of(row, &columns, &report.seeds)).collect::<Result<_, String>>()?;
    // A report made by joining others may have two rows with equal names and different units.
    let mut known = BTreeSet::new();
    if let Some(row) = rows.iter().find(|row| !known.insert((&row.group, &row.name, &row.unit))) {
        return Err(format!("two of its rows in `{}` are called `{}`", row.group, row.name));
    }
    let scale = report.scale.map_or(Ok(Scale::FULL), |scale| scale.parse())?;
    let fingerprint = match report.fingerprint {
        Some(digits) => Some(
            u64::from_str_radix(&digits, 16).map_err(|_| format!("its fingerprint `{digits}` is not hexadecimal"))?,
        ),
        None => None,
    };
    let histogram = |ReportTimes { name, mut values }: ReportTimes| Histogram {
        name,
        columns: columns.iter().filter_map(|it| Some((it.id.clone(), values.remove(&it.id)?))).collect(),
    };
    let histograms = report.histograms.into_iter().map(histogram).collect();
    Ok(Table {
        experiment: report.experiment,
        machine: report.machine,
        scale,
        seeds: report.seeds,
        fingerprint,
        columns,
        notes: report.notes,
        main_rows: report.main_rows,
        rows,
        histograms,
    })
}

fn row_of(row: ReportRow, columns: &[Column], seeds: &[u64]) -> Result<TableRow, String> {
    let ReportRow { group, name, unit, better, format, mut values, published } = row;
    let told = |id: &str, why: &dyn std::fmt::Display| format!("row `{name}`, column `{id}`: {why}");
    let mut cells = Vec::new();
    for Column { id, bereft, .. } in columns {
        let (value, samples) = match values.remove(id) {
            Some(value) => {
                let estimate: ReportEstimate = serde_json::from_value(value).map_err(|error| told(id, &error))?;
                let (value, samples) = estimate.read(seeds);
                (Some(value), samples)
            }
            None => (None, Vec::new()),
        };
        let published = published.get(id).and_then(Value::as_f64).map(|value| PublishedFigure { value, percent: None });
        cells.push(TableCell { value, samples, is_of_survivors: *bereft > 0, published });
    }
    let format = format.unwrap_or_else(|| {
        let is_whole = cells.iter().filter_map(|cell| cell.value).all(|value| value.median.fract() == 0.0);
        Format::Decimals(if is_whole { 0 } else { 2 })
    });
    Ok(TableRow { group, name, unit, better, format, cells })
}

impl ReportEstimate {
    /// Returns the figures of a cell of a saved report: the estimate over the seeds, and the value for each seed. If
    /// the report states no values for seeds, and the estimate is of a single run, the estimate's median is taken as
    /// the value for the report's seed (1 if the report names none).
    fn read(self, seeds: &[u64]) -> (Estimate, Vec<Sample>) {
        // A value that is no number is null in JSON.
        let [median, low, high] = [self.median, self.low, self.high].map(|value| value.unwrap_or(f64::NAN));
        let earlier = (self.n > 1).then_some(CONFIDENCE);
        let value = Estimate { median, low, high, n: self.n, coverage: self.coverage.unwrap_or(earlier) };
        let sample = |(seed, value): (u64, Option<f64>)| Sample { seed, value: value.unwrap_or(f64::NAN) };
        let samples: Vec<Sample> = match seeds {
            _ if !self.samples.is_empty() => self.samples.into_iter().map(sample).collect(),
            [seed] if self.n == 1 => vec![Sample { seed: *seed, value: median }],
            [] if self.n == 1 => vec![Sample { seed: 1, value: median }],
            _ => Vec::new(),
        };
        (value, samples)
    }
}

/// Appends the columns of a saved report to a table. Each row of the report is joined with the table's row of the same
/// group, name and unit. If the table has no such row, the row is joined with the only row of that name and unit in
/// another group. If there is none or more than one, the row is added to the table. A row that only the table or only
/// the report has is empty in the columns of the other.
pub fn join(table: &mut Table, saved: Table, file: &str) {
    let before = table.columns.len();
    let added = saved.columns.len();
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for column in saved.columns {
        let mut id = format!("{} ({file})", column.id);
        let mut n = 1;
        while table.columns.iter().any(|known| known.id == id) {
            n += 1;
            id = format!("{} ({file})#{n}", column.id);
        }
        ids.insert(column.id, id.clone());
        let saved = Some(column.saved.map_or_else(|| file.to_owned(), |earlier| format!("{earlier} in {file}")));
        table.columns.push(Column { id, saved, ..column });
    }
    table.rows.iter_mut().for_each(|row| row.cells.resize(before + added, TableCell::default()));
    for row in saved.rows {
        let known = place_of(&table.rows, &row, before);
        let at = known.unwrap_or_else(|| {
            let cells = vec![TableCell::default(); before];
            table.rows.push(TableRow { cells, ..row.clone() });
            table.rows.len() - 1
        });
        let cells = &mut table.rows[at].cells;
        cells.truncate(before);
        cells.extend(row.cells);
    }
    table.rows = crate::table::in_blocks(std::mem::take(&mut table.rows));
    for Histogram { name, columns } in saved.histograms {
        let named = columns.into_iter().filter_map(|(id, buckets)| Some((ids.get(&id)?.clone(), buckets)));
        match table.histograms.iter_mut().find(|it| it.name == name) {
            Some(known) => known.columns.extend(named),
            None => table.histograms.push(Histogram { name, columns: named.collect() }),
        }
    }
    let scale = if saved.scale.is_full() { String::new() } else { format!(", scale {}", saved.scale) };
    let seeds = match saved.seeds.as_slice() {
        [] => String::new(),
        [seed] => format!(", seed {seed}"),
        [first, .., last] => format!(", seeds {first} to {last}"),
    };
    let print = saved.fingerprint.map_or_else(String::new, |print| format!(", fingerprint {print:016x}"));
    table.notes.push(format!("{file}: {}, machine {}{scale}{seeds}{print}", saved.experiment, saved.machine));
    table.notes.extend(saved.notes.into_iter().map(|note| format!("{file}: {note}")));
}

/// Returns the index in `rows` of the table's row that takes the values of `row`, a row of a saved report. The two rows
/// must have the same name and unit, and the table's row must have no value yet in the report's columns, which begin at
/// `before`. A row of the same group is taken first. If there is none, the only such row of another group is taken.
/// Returns none if no row fits, or if several rows of other groups fit.
fn place_of(rows: &[TableRow], row: &TableRow, before: usize) -> Option<usize> {
    let is_free = |it: &TableRow| it.cells[before..].iter().all(|cell| cell.value.is_none());
    let fits = |it: &TableRow| it.name == row.name && it.unit == row.unit && is_free(it);
    if let Some(at) = rows.iter().position(|it| it.group == row.group && fits(it)) {
        return Some(at);
    }
    let mut others = (0..rows.len()).filter(|at| fits(&rows[*at]));
    let first = others.next();
    first.filter(|_| others.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json, samples, text};
    use figures::figure::Row;
    use figures::histogram::{Times, gather};

    fn table() -> Table {
        let row = |name: &str, value| Row::new("vmstat", name, "pages", Better::Lower, Format::Decimals(3), value);
        let run = |value| vec![vec![samples::ops("Ops a", value), row("scanned", 7.0)]];
        let mut table =
            Table::of_runs(samples::head(&["a", "b"], 1), &[run(9.5), vec![vec![row("other", 0.125)]]], None);
        let mut recorded = hdrhistogram::Histogram::new(3).unwrap();
        recorded.record(5000).unwrap();
        gather(&mut table.histograms, "a", Times::of("Read", &recorded).into_iter().collect());
        table.columns.iter_mut().for_each(|column| column.comparable = false);
        table
    }

    #[test]
    fn what_was_written_is_read_again() {
        assert_eq!(read(&json::render(&table())), Ok(table()));
    }

    #[test]
    fn seeds_verdicts_and_failures_are_read_again() {
        let runs =
            |value: f64| (0..6).map(|n| vec![samples::ops("Ops a", value + f64::from(n * n))]).collect::<Vec<_>>();
        let mut head = samples::head(&["a", "b", "c"], 6);
        head.columns[2].failed = vec![Failed { why: "out of memory".into(), runs: 2, of: 6 }];
        let mut some = runs(12.0);
        some[1] = Vec::new();
        some[4] = Vec::new();
        let mut table = Table::of_runs(head, &[runs(10.0), runs(20.0), some], None);
        table.columns.iter_mut().for_each(|column| column.comparable = false);
        table.main_rows = vec!["Ops a".into()];
        let read_again = read(&json::render(&table)).unwrap();
        assert_eq!(read_again, table);
        assert_eq!(read_again.rows[0].comparison(1), table.rows[0].comparison(1));
        // A report of an earlier version has neither the seeds' values nor a coverage. Its intervals have a probability
        // of 95 %.
        let earlier = json::render(&table).replace("\"coverage\"", "\"a\"").replace("\"samples\"", "\"b\"");
        let row = &read(&earlier).unwrap().rows[0];
        assert_eq!((row.cells[0].value.unwrap().ends(), row.comparison(1)), ("95%, n = 6".into(), None));
    }

    #[test]
    fn reports_may_be_in_a_list() {
        let text = json::render(&table());
        assert_eq!(read_all(&text), Ok(vec![table()]));
        let list = format!("[\n{text},\n{}]\n", text.replace("parallelio\"", "anon\""));
        let tables = read_all(&list).unwrap();
        assert_eq!(names(&tables), ["parallelio", "anon"]);
        assert_eq!(
            names(&[table(), Table { scale: "1/4".parse().unwrap(), ..table() }]),
            ["parallelio at 1", "parallelio at 1/4"]
        );
        assert!(read_all("[]").unwrap_err().contains("a list without a report"));
        let told = read_all(&format!("[{text}, []]")).unwrap_err();
        assert!(
            told.starts_with("report 2 of the list: expected the JSON of") && told.ends_with("it is a list"),
            "{told}"
        );
    }

    #[test]
    fn a_report_of_an_earlier_version_has_no_formats() {
        let text = json::render(&table()).replace("\"format\"", "\"other\"").replace("\"histograms\"", "\"others\"");
        let formats: Vec<Format> = read(&text).unwrap().rows.into_iter().map(|row| row.format).collect();
        assert_eq!(formats, [Format::Decimals(2), Format::Decimals(0), Format::Decimals(2)]);
    }

    #[test]
    fn what_is_something_else_is_told() {
        let wrong = |text: &str| read(text).unwrap_err();
        assert!(
            wrong("group,name").starts_with(
                "expected the JSON of `highwater run`, `compare`, `stat` or `import`, but it is not JSON: "
            )
        );
        assert!(wrong("{\"schema\": 1, \"patients\": []}").contains("but it is a diagnosis of `doctor`"));
        assert!(wrong("{\"schema\": 1}").contains("missing field `experiment`"));
        assert!(wrong("[]").contains("but it is a list") && wrong("7").contains("but it is no object"));
        let text = json::render(&table());
        assert!(wrong(&text.replace("\"schema\": 1", "\"schema\": 2")).contains("its `schema` is 2, not 1"));
        assert!(wrong(&text.replace("\"scale\": \"1\"", "\"scale\": \"x\"")).contains("expected a fraction"));
        assert!(wrong(&text.replace("\"id\": \"b\"", "\"id\": \"a\"")).contains("two of its columns are called `a`"));
        let twice = text.replace("\"name\": \"scanned\"", "\"name\": \"other\"");
        assert!(wrong(&twice).contains("two of its rows in `vmstat` are called `other`"), "{}", wrong(&twice));
        assert!(wrong(&text.replace("\"median\": 9.5", "\"median\": \"x\"")).contains("row `Ops a`, column `a`"));
    }

    #[test]
    fn a_key_that_is_there_twice_is_told_wherever_it_is() {
        let text = json::render(&table());
        let wrong = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            read(&text.replacen(from, to, 1)).unwrap_err()
        };
        let line = 1 + text[..text.find("\"median\"").unwrap()].matches('\n').count();
        let told = wrong("\"median\"", "\"median\": 1,\n\"median\"");
        assert!(told.contains(&format!("but the key `median` is there twice at line {} ", line + 1)), "{told}");
        let told =
            wrong("\"values\": {\n", "\"values\": {\n\"a\": {\"median\": 1, \"low\": 1, \"high\": 1, \"n\": 1},\n");
        assert!(told.contains("but the key `a` is there twice at line "), "{told}");
        assert!(wrong("\"machine\"", "\"machine\": \"x\", \"machine\"").contains("the key `machine` is there twice"));
        let list = read_all(&format!("[{}]", text.replacen("\"id\"", "\"id\": \"x\", \"id\"", 1)));
        assert!(list.unwrap_err().contains("the key `id` is there twice"));
    }

    #[test]
    fn rows_are_joined_by_name_and_what_is_missing_is_told() {
        let mut mine = table();
        let mut other = table();
        other.columns.truncate(1);
        other.rows.iter_mut().for_each(|row| row.cells.truncate(1));
        // One row belongs to another group, and one has another unit.
        other.rows[1].group = "counters".into();
        other.rows[2].unit = "MiB".into();
        other.rows[2].cells[0] = TableCell { value: Some(Estimate::of_one(3.0)), ..TableCell::default() };
        join(&mut mine, other.clone(), "server.json");
        join(&mut mine, other, "server.json");
        let ids: Vec<&str> = mine.columns.iter().map(|column| column.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "a (server.json)", "a (server.json)#2"]);
        let medians = |row: &TableRow| (0..4).map(|n| row.median(n)).collect::<Vec<_>>();
        let rows: Vec<_> = mine.rows.iter().map(|row| (row.name.as_str(), medians(row))).collect();
        assert_eq!(rows[0], ("Ops a", vec![Some(9.5), None, Some(9.5), Some(9.5)]));
        assert_eq!(rows[1], ("scanned", vec![Some(7.0), None, Some(7.0), Some(7.0)]));
        assert_eq!(rows[2], ("other", vec![None, Some(0.125), None, None]));
        assert_eq!(rows[3], ("other", vec![None, None, Some(3.0), Some(3.0)]));
        assert_eq!(mine.histograms[0].columns.len(), 3);
        let text = text::render(&mine, crate::Show::default());
        let line = text.lines().find(|line| line.starts_with("scanned")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["scanned", "pages", "7.000", "-", "7.000", "7.000"]);
        assert!(
            text.contains("server.json: parallelio, machine parallelio-8g, seed 1, fingerprint 0000000000005f0c"),
            "{text}"
        );
        assert!(text.contains("4 columns"), "{text}");
    }
}
