//! Tables of measurements on real computers.
//!
//! A file in docs/records holds the measurements on one computer on one day. A page has the mark `<!-- records: NAME:
//! FILE … -->`, and below it the mark `<!-- end -->`. This module makes the text between the two: a table of the
//! measurement NAME, with the columns of each FILE side by side, and below the table the method of measurement.

use crate::{Outcome, readme, splice::spliced};
use std::{collections::BTreeMap, fs, path::Path};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

const FOLDER: &str = "docs/records";
const BEGIN: &str = "<!-- records: ";

/// The measurements on one computer on one day.
#[derive(Debug)]
struct Record {
    computer: String,
    date: String,
    commit: String,
    measurements: BTreeMap<String, Measurement>,
}

/// One measurement, made by a command or by another method.
#[derive(Debug)]
struct Measurement {
    /// The method of measurement: a command in backticks, or a description in words. Empty if nothing was measured.
    method: String,
    /// The commit that was measured, if it differs from the commit of the whole record; otherwise empty.
    commit: String,
    /// Heading of the column with the names of rows.
    rows: String,
    /// Headings of the columns with figures; a single empty heading if each row has a single figure.
    columns: Vec<String>,
    /// For each row, in order, its name and its figures by column.
    values: Vec<(String, BTreeMap<String, String>)>,
}

/// Puts the tables of all records into the Markdown pages that have a place for them. If `is_check` is true, writes
/// nothing, and fails if a page is stale.
pub fn write(root: &Path, is_check: bool) -> Outcome {
    let records = read_all(root)?;
    let mut stale = Vec::new();
    for path in readme::texts(root) {
        let old = readme::read(&path)?;
        let told = |error: String| format!("{}: {error}", path.display());
        let new = spliced(&old, BEGIN, &|place| table(&records, place).map(Some)).map_err(told)?;
        if new != old && is_check {
            stale.push(path.display().to_string());
        } else if new != old {
            fs::write(&path, new).map_err(|error| told(error.to_string()))?;
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(format!("stale, run cargo xtask records: {}", stale.join(", "))) }
}

/// Returns the records in the folder by name, which is the name of the record's file without extension.
fn read_all(root: &Path) -> Result<BTreeMap<String, Record>, String> {
    let read = |path: &std::path::PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let record = Record::parse(&readme::read(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((stem, record))
    };
    readme::files_of(&root.join(FOLDER), &["toml"]).iter().map(read).collect()
}

impl Record {
    fn parse(text: &str) -> Result<Self, String> {
        let file = DeTable::parse(text).map_err(|error| error.to_string())?;
        let mut measurements = BTreeMap::new();
        for (name, value) in file.get_ref() {
            if let DeValue::Table(table) = value.get_ref() {
                let told = |error: String| format!("{}: {error}", name.get_ref());
                measurements.insert(named(name), Measurement::of(table).map_err(told)?);
            }
        }
        let file = file.get_ref();
        Ok(Self {
            computer: word(file, "computer"),
            date: word(file, "date"),
            commit: word(file, "commit"),
            measurements,
        })
    }
}

impl Measurement {
    fn of(table: &DeTable<'_>) -> Result<Self, String> {
        let Some(DeValue::Table(rows)) = table.get("values").map(|value| value.get_ref()) else {
            return Err("no `values`".to_owned());
        };
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for (row, value) in rows {
            let cells: Vec<(String, String)> = match value.get_ref() {
                DeValue::Table(cells) if !cells.contains_key("median") => {
                    let cell = |(column, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                        Ok((named(column), figure(value.get_ref())?))
                    };
                    cells.iter().map(cell).collect::<Result<_, String>>()?
                }
                value => vec![(String::new(), figure(value)?)],
            };
            merge(&mut columns, &cells.iter().map(|(column, _)| column.clone()).collect::<Vec<_>>());
            values.push((named(row), cells.into_iter().collect()));
        }
        let method = match word(table, "command") {
            command if command.is_empty() => word(table, "method"),
            command => format!("`{command}`"),
        };
        Ok(Self { method, commit: word(table, "commit"), rows: word(table, "rows"), columns, values })
    }
}

fn named(key: &Spanned<DeString<'_>>) -> String {
    key.get_ref().to_string()
}

/// Returns the text under `key`; empty if there is none.
fn word(table: &DeTable<'_>, key: &str) -> String {
    table.get(key).and_then(|value| value.get_ref().as_str()).unwrap_or_default().to_owned()
}

/// Returns a figure as text. Its forms in the file are `[median, lowest, highest]`, `[from, to]`, `{ median, interval =
/// [from, to] }`, a number and a text. Numbers keep the digits that the file has.
fn figure(value: &DeValue<'_>) -> Result<String, String> {
    let list = |values: &[Spanned<DeValue<'_>>]| {
        values.iter().map(|value| figure(value.get_ref())).collect::<Result<Vec<_>, String>>()
    };
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(with_commas(number.as_str())),
        DeValue::Float(number) => Ok(with_commas(number.as_str())),
        DeValue::Array(values) => match list(values)?.as_slice() {
            [from, to] => Ok(format!("{from} to {to}")),
            [median, lowest, highest] => Ok(format!("{median} ({lowest} to {highest})")),
            _ => Err("neither [from, to] nor [median, lowest, highest]".to_owned()),
        },
        DeValue::Table(table) => {
            let interval = table.get("interval").and_then(|value| value.get_ref().as_array());
            match (table.get("median"), interval.map(|values| list(values)).transpose()?.as_deref()) {
                (Some(median), Some([from, to])) => Ok(format!("{} [{from}, {to}]", figure(median.get_ref())?)),
                _ => Err("neither a figure nor { median, interval = [from, to] }".to_owned()),
            }
        }
        _ => Err("no figure".to_owned()),
    }
}

/// Returns the digits of a number with commas between thousands, from 10,000 on.
fn with_commas(digits: &str) -> String {
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    let (whole, rest) = plain.split_once('.').map_or((plain.as_str(), ""), |(whole, _)| (whole, &plain[whole.len()..]));
    if whole.len() < 5 {
        return plain;
    }
    let grouped = whole.chars().enumerate().flat_map(|(at, digit)| {
        let comma = at > 0 && (whole.len() - at) % 3 == 0;
        comma.then_some(',').into_iter().chain([digit])
    });
    grouped.collect::<String>() + rest
}

/// Adds to `all` the items of `new` that it lacks. Each is placed after the item that precedes it in `new`.
fn merge(all: &mut Vec<String>, new: &[String]) {
    let mut at = 0;
    for name in new {
        match all.iter().position(|it| it == name) {
            Some(found) => at = found + 1,
            None => {
                all.insert(at, name.clone());
                at += 1;
            }
        }
    }
}

/// Returns a Markdown table of one measurement. `place` is a text `NAME: FILE …` that names the measurement and the
/// record files from which its values come.
fn table(records: &BTreeMap<String, Record>, place: &str) -> Result<String, String> {
    let (name, files) = place.split_once(": ").ok_or_else(|| format!("`{place}` names no files"))?;
    let (mut rows, mut columns, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    let mut heading = "";
    let files: Vec<&str> = files.split(' ').collect();
    for file in &files {
        let record = records.get(*file).ok_or_else(|| format!("there is no {FOLDER}/{file}.toml"))?;
        let found = record.measurements.get(name).ok_or_else(|| format!("{file} has no measurement `{name}`"))?;
        merge(&mut rows, &found.values.iter().map(|(row, _)| row.clone()).collect::<Vec<_>>());
        columns.extend(found.columns.iter().map(|column| (record, found, column)));
        heading = &found.rows;
        if !found.method.is_empty() {
            sources.push((found.method.as_str(), source(record, found)));
        }
    }
    let title = |(record, _, column): &(&Record, &Measurement, &String)| match (column.as_str(), files.len()) {
        ("", _) => record.computer.clone(),
        (column, 1) => column.to_owned(),
        (column, _) => format!("{}, {column}", record.computer),
    };
    let mut text = format!("| {heading} | {} |\n", columns.iter().map(title).collect::<Vec<_>>().join(" | "));
    text += &format!("| --- |{}\n", " ---: |".repeat(columns.len()));
    for row in &rows {
        let cells = columns.iter().map(|(_, found, column)| {
            let figures = found.values.iter().find(|(name, _)| name == row);
            figures.and_then(|(_, figures)| figures.get(*column)).map_or("", String::as_str)
        });
        text += &format!("| {row} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    text += "\nMeasured by ";
    let mut methods: Vec<&str> = sources.iter().map(|(method, _)| *method).collect();
    methods.dedup();
    let of_method = |method: &&str| {
        let of_it = sources.iter().filter(|(it, _)| it == method).map(|(_, source)| source.as_str());
        format!("{method}: {}", of_it.collect::<Vec<_>>().join("; "))
    };
    text += &methods.iter().map(of_method).collect::<Vec<_>>().join(". ");
    Ok(text + ".")
}

/// Returns the computer, the day and the commit of a measurement as text.
fn source(record: &Record, found: &Measurement) -> String {
    let commit = if found.commit.is_empty() { &record.commit } else { &found.commit };
    let commit = if commit.is_empty() { String::new() } else { format!(", commit {commit}") };
    format!("{}, {}{commit}", record.computer, record.date)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AIM: &str = "computer = 'aim'\n[hit]\nrows = 'line'\n[hit.values]\n'a' = 3\n'c' = 0.50\n";
    const XEON: &str = "computer = 'Xeon'\ndate = '2026-11-22'\ncommit = '39e3ec6'\n[hit]\ncommand = 'bench'\nrows = 'line'\n\
                        [hit.values]\n'a' = [1.0, 0.9, 1.10]\n'b' = { median = 12_345.5, interval = [1, 2] }\n'c' = [1, 2]\n\
                        [swap]\nmethod = 'a bench'\nrows = 'disk'\n[swap.values]\n'zram' = { 'rate' = 0.64, 'CPU time' = 'much' }\n";

    fn records() -> BTreeMap<String, Record> {
        [("aims", AIM), ("xeon", XEON)].map(|(name, text)| (name.to_owned(), Record::parse(text).unwrap())).into()
    }

    #[test]
    fn records_stand_beside_each_other_with_their_digits() {
        let expected = "| line | aim | Xeon |\n| --- | ---: | ---: |\n| a | 3 | 1.0 (0.9 to 1.10) |\n\
                        | b |  | 12,345.5 [1, 2] |\n| c | 0.50 | 1 to 2 |\n\n\
                        Measured by `bench`: Xeon, 2026-11-22, commit 39e3ec6.";
        assert_eq!(table(&records(), "hit: aims xeon").unwrap(), expected);
    }

    #[test]
    fn columns_of_one_record_keep_the_order_of_the_file() {
        let text = table(&records(), "swap: xeon").unwrap();
        assert!(
            text.starts_with("| disk | rate | CPU time |\n| --- | ---: | ---: |\n| zram | 0.64 | much |\n"),
            "{text}"
        );
    }

    #[test]
    fn a_place_of_nothing_is_told() {
        assert_eq!(table(&records(), "hit: none").unwrap_err(), "there is no docs/records/none.toml");
        assert_eq!(table(&records(), "miss: xeon").unwrap_err(), "xeon has no measurement `miss`");
    }

    #[test]
    fn every_measurement_stands_on_a_page_that_is_up_to_date() {
        let root = crate::root();
        write(&root, true).unwrap();
        let texts: String = readme::texts(&root).iter().map(|path| readme::read(path).unwrap()).collect();
        for (file, record) in read_all(&root).unwrap() {
            for name in record.measurements.keys() {
                let is_shown = texts.lines().any(|line| {
                    let place = line.trim_start().strip_prefix(BEGIN).and_then(|rest| rest.split_once(": "));
                    place.is_some_and(|(it, files)| it == name && files.split(' ').any(|it| it == file))
                });
                assert!(is_shown, "no page shows `{name}` of {file}");
            }
        }
    }
}
