//! A run as a Parquet file with a line for each figure, in typed columns.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parquet::{
    basic::Compression,
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
        reader::{FileReader as _, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    record::RowAccessor as _,
    schema::parser::parse_message_type,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    StoredRun,
    key::{Identity, Key, hash_of},
};
use figures::figure::{Better, Format, Row};
use grounds::job::Outcome;

/// The columns, in order; docs/sweeps.md describes them.
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

/// Index of the first column that differs by line, not by run.
const GROUP: usize = 7;

/// The head of a file: its run without the rows.
#[derive(Deserialize, Serialize)]
struct Head {
    identity: Identity,
    fingerprint: String,
    virtual_time_ns: u64,
    page_events: u64,
    #[serde(default)]
    is_idle: bool,
    report: Vec<String>,
    /// Hash over everything that a reader takes from the file.
    digest: String,
}

/// Names of entries in the footer.
const HEAD: &str = "highwater.run";
const DECIDED_BY: &str = "highwater.key";

/// Encodes a run as the bytes of a file.
///
/// # Panics
/// Never: data written to memory are well-formed.
#[must_use]
pub fn encode(key: &Key, outcome: &Outcome) -> Vec<u8> {
    let Outcome { fingerprint, virtual_time_ns, page_events, is_idle, report, .. } = outcome;
    let head = Head {
        identity: key.identity.clone(),
        fingerprint: format!("{fingerprint:016x}"),
        virtual_time_ns: *virtual_time_ns,
        page_events: *page_events,
        is_idle: *is_idle,
        report: report.clone(),
        digest: digest(&key.hash, &key.identity, outcome),
    };
    let head = serde_json::to_string(&head).expect("texts and numbers");
    let footer = vec![pair(HEAD, head), pair(DECIDED_BY, key.text.clone())];
    let run = StoredRun { hash: key.hash.clone(), identity: key.identity.clone(), outcome: outcome.clone() };
    write(&[run], footer)
}

/// Encodes runs as the bytes of one file with the same columns, in order.
#[must_use]
pub fn joined(runs: &[StoredRun]) -> Vec<u8> {
    write(runs, Vec::new())
}

fn pair(key: &str, value: String) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value) }
}

fn write(runs: &[StoredRun], footer: Vec<KeyValue>) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("a fixed schema"));
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(concat!("highwater ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata((!footer.is_empty()).then_some(footer))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build();
    let mut bytes = Vec::new();
    let columns = schema.get_fields().len();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).expect("memory takes all");
    let mut group = file.next_row_group().expect("memory takes all");
    for column in 0..columns {
        let mut writer = group.next_column().expect("memory takes all").expect("the schema has that many");
        let written = match cells(runs, column) {
            Cells::Texts(cells) => writer.typed::<ByteArrayType>().write_batch(&cells, None, None),
            Cells::Numbers(cells) => writer.typed::<Int64Type>().write_batch(&cells, None, None),
            Cells::Values(cells) => writer.typed::<DoubleType>().write_batch(&cells, None, None),
        };
        written.expect("memory takes all");
        writer.close().expect("memory takes all");
    }
    group.close().expect("memory takes all");
    file.close().expect("memory takes all");
    bytes
}

/// The cells of a column.
enum Cells {
    Texts(Vec<ByteArray>),
    Numbers(Vec<i64>),
    Values(Vec<f64>),
}

/// Returns the cells of a column, by its number in the schema.
fn cells(runs: &[StoredRun], column: usize) -> Cells {
    let lines = || runs.iter().flat_map(|run| run.outcome.rows.iter().map(move |row| (run, row)));
    let texts = |of: &dyn Fn(&StoredRun, &Row) -> String| {
        Cells::Texts(lines().map(|(run, row)| ByteArray::from(of(run, row).into_bytes())).collect())
    };
    // Of a number without sign the same bits.
    let numbers = |of: &dyn Fn(&StoredRun) -> u64| Cells::Numbers(lines().map(|(run, _)| of(run) as i64).collect());
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

/// Decodes the bytes of a file into a run and its key.
///
/// # Errors
/// The fault of the file.
pub fn decode(bytes: Vec<u8>) -> Result<StoredRun, String> {
    // What is read may be damaged in any way, and the reader is not ours.
    catch_unwind(AssertUnwindSafe(|| read(bytes))).unwrap_or_else(|_| Err("it is no Parquet file, or damaged".into()))
}

fn read(bytes: Vec<u8>) -> Result<StoredRun, String> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(|error| error.to_string())?;
    let footer = reader.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let footer: HashMap<String, String> = footer.into_iter().filter_map(|pair| Some((pair.key, pair.value?))).collect();
    let of = |key: &str| footer.get(key).ok_or_else(|| format!("it has no `{key}` in its footer: no run of a store"));
    let head: Head = serde_json::from_str(of(HEAD)?).map_err(|error| format!("`{HEAD}`: {error}"))?;
    let hash = hash_of(of(DECIDED_BY)?);
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    let rows = rows.map(|row| {
        let row = row.map_err(|error| error.to_string())?;
        let text = |column: usize| row.get_string(column).cloned().map_err(|error| error.to_string());
        Ok(Row {
            group: text(GROUP)?,
            name: text(GROUP + 1)?,
            unit: text(GROUP + 2)?,
            better: better_of(&text(GROUP + 3)?)?,
            format: format_of(&text(GROUP + 4)?)?,
            value: row.get_double(GROUP + 5).map_err(|error| error.to_string())?,
        })
    });
    let outcome = Outcome {
        rows: rows.collect::<Result<_, String>>()?,
        fingerprint: u64::from_str_radix(&head.fingerprint, 16).map_err(|_| "its fingerprint is none")?,
        virtual_time_ns: head.virtual_time_ns,
        page_events: head.page_events,
        is_idle: head.is_idle,
        report: head.report,
        ..Outcome::default()
    };
    if digest(&hash, &head.identity, &outcome) != head.digest {
        return Err("its contents are not those that were written".into());
    }
    Ok(StoredRun { hash, identity: head.identity, outcome })
}

/// Returns a hash over everything that a reader takes from a file.
fn digest(hash: &str, identity: &Identity, outcome: &Outcome) -> String {
    let Outcome { rows, fingerprint, virtual_time_ns, page_events, is_idle, report, .. } = outcome;
    let mut all = Sha256::new();
    let mut take = |text: &str| {
        all.update((text.len() as u64).to_le_bytes());
        all.update(text.as_bytes());
    };
    take(hash);
    take(&serde_json::to_string(identity).expect("texts and numbers"));
    // Files of before say nothing of it.
    let idle = if *is_idle { " idle" } else { "" };
    take(&format!("{fingerprint:016x} {virtual_time_ns} {page_events}{idle}"));
    report.iter().for_each(|line| take(line));
    for Row { group, name, unit, better, value, format } in rows {
        let figure = format!("{} {} {:016x}", better_word(*better), format_word(*format), value.to_bits());
        [group, name, unit, &figure].into_iter().for_each(|text| take(text));
    }
    all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the word for a direction in files.
#[must_use]
pub const fn better_word(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neutral => "neutral",
    }
}

fn better_of(word: &str) -> Result<Better, String> {
    let known = [Better::Higher, Better::Lower, Better::Neutral];
    known.into_iter().find(|better| better_word(*better) == word).ok_or_else(|| format!("`better` is `{word}`"))
}

/// Returns the word for a format: `decimals-2`.
fn format_word(format: Format) -> String {
    match format {
        Format::Decimals(decimals) => format!("decimals-{decimals}"),
        Format::Percent => "percent".into(),
        Format::Points(decimals) => format!("points-{decimals}"),
        Format::Moment(decimals) => format!("moment-{decimals}"),
    }
}

fn format_of(word: &str) -> Result<Format, String> {
    let wrong = || format!("`format` is `{word}`");
    let (kind, decimals) = word.split_once('-').unwrap_or((word, "0"));
    let decimals = decimals.parse().map_err(|_| wrong())?;
    match kind {
        "decimals" => Ok(Format::Decimals(decimals)),
        "percent" => Ok(Format::Percent),
        "points" => Ok(Format::Points(decimals)),
        "moment" => Ok(Format::Moment(decimals)),
        _ => Err(wrong()),
    }
}

/// Returns the names and types of the columns, as in a table of the documents.
#[cfg(test)]
pub(super) fn columns() -> Vec<String> {
    let lines = SCHEMA.lines().filter_map(|line| line.trim().strip_prefix("required "));
    lines.map(|line| line.split([' ', ';']).nth(1).expect("a name").to_owned()).collect()
}
