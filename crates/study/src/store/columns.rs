//! Reads and writes the columns of a Parquet file that has the results of runs.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use parquet::{
    file::reader::{FileReader as _, SerializedFileReader},
    record::RowAccessor as _,
};

use super::{
    StoredRun,
    file::{better_word, format_word},
};
use crate::parquet_table::{self, Cells};
use figures::figure::Row;

/// The columns of a run's file, in order, as a Parquet schema; docs/sweeps.md describes them.
const SCHEMA: &str = "message highwater {
    required binary run (UTF8);
    required binary experiment (UTF8);
    required binary machine (UTF8);
    required binary scale (UTF8);
    required binary kernel (UTF8);
    required binary set (UTF8);
    required int64 seed (INTEGER(64, false));
    required binary group (UTF8);
    required binary name (UTF8);
    required binary unit (UTF8);
    required binary better (UTF8);
    required binary format (UTF8);
    required double value;
    required binary fingerprint (UTF8);
    required int64 virtual_time_ns (INTEGER(64, false));
}";

/// Index of the first column whose cells differ from line to line of a run. The cells of the columns before it are
/// equal in all lines of a run.
const GROUP: usize = 7;

/// The contents of a run's Parquet file. The first part has the texts of the footer, by name. The second part has, for
/// each line, the five texts that may differ from line to line, and the line's value.
pub(super) type Contents = (HashMap<String, String>, Vec<([String; 5], f64)>);

/// Returns `runs` encoded as the bytes of a file, with the texts `footer` in its footer.
pub(super) fn write(runs: &[StoredRun], footer: Vec<(String, String)>) -> Vec<u8> {
    parquet_table::encode(SCHEMA, |column| cells(runs, column), footer)
}

/// Returns the cells of the column with the number `column` in the schema.
fn cells(runs: &[StoredRun], column: usize) -> Cells {
    let lines = || runs.iter().flat_map(|run| run.outcome.rows.iter().map(move |row| (run, row)));
    let texts =
        |of: &dyn Fn(&StoredRun, &Row) -> String| Cells::Texts(lines().map(|(run, row)| of(run, row)).collect());
    let numbers = |of: &dyn Fn(&StoredRun) -> u64| Cells::Numbers(lines().map(|(run, _)| of(run)).collect());
    match column {
        0 => texts(&|run, _| run.hash.clone()),
        1 => texts(&|run, _| run.identity.experiment.clone()),
        2 => texts(&|run, _| run.identity.machine.clone()),
        3 => texts(&|run, _| run.identity.scale.clone()),
        4 => texts(&|run, _| run.identity.kernel.clone()),
        5 => texts(&|run, _| serde_json::to_string(&run.identity.set).expect("texts")),
        6 => numbers(&|run| run.identity.seed),
        7 => texts(&|_, row| row.group.clone()),
        8 => texts(&|_, row| row.name.clone()),
        9 => texts(&|_, row| row.unit.clone()),
        10 => texts(&|_, row| better_word(row.better).to_owned()),
        11 => texts(&|_, row| format_word(row.format)),
        12 => Cells::Values(lines().map(|(_, row)| row.value).collect()),
        13 => texts(&|run, _| format!("{:016x}", run.outcome.fingerprint)),
        _ => numbers(&|run| run.outcome.virtual_time_ns),
    }
}

/// Returns the contents of a file from the bytes that [`write`] encoded.
///
/// # Errors
/// When the file is faulty. The error states the fault.
pub(super) fn read(bytes: Vec<u8>) -> Result<Contents, String> {
    // A damaged file can hold any bytes, and the library that reads them may panic.
    let read = catch_unwind(AssertUnwindSafe(|| contents(bytes)));
    read.unwrap_or_else(|_| Err("it is no Parquet file, or damaged".into()))
}

fn contents(bytes: Vec<u8>) -> Result<Contents, String> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(|error| error.to_string())?;
    let footer = reader.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let footer = footer.into_iter().filter_map(|pair| Some((pair.key, pair.value?))).collect();
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    let lines = rows.map(|row| {
        let row = row.map_err(|error| error.to_string())?;
        let text = |column: usize| row.get_string(column).cloned().map_err(|error| error.to_string());
        let texts = [text(GROUP)?, text(GROUP + 1)?, text(GROUP + 2)?, text(GROUP + 3)?, text(GROUP + 4)?];
        Ok((texts, row.get_double(GROUP + 5).map_err(|error| error.to_string())?))
    });
    Ok((footer, lines.collect::<Result<_, String>>()?))
}

/// Returns the name of each column of a file, in order.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let lines = SCHEMA.lines().filter_map(|line| line.trim().strip_prefix("required "));
    lines.map(|line| line.split([' ', ';']).nth(1).expect("a name").to_owned()).collect()
}
