//! Converts a run to the bytes of its file, and back. The file has a line for each figure, in typed columns, and a
//! footer that holds everything else about the run. The module `columns` writes and reads lines and footer.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    StoredRun, columns,
    key::{Identity, Key, hash_of},
};
use figures::figure::{Better, Format, Row};
use grounds::job::Outcome;

/// The head of a run's file: everything about the run except its rows.
#[derive(Deserialize, Serialize)]
struct Head {
    identity: Identity,
    fingerprint: String,
    virtual_time_ns: u64,
    page_events: u64,
    #[serde(default)]
    is_idle: bool,
    report: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Hash over everything that [`decode`] takes from the file.
    digest: String,
}

/// Key of the footer's entry that holds the [`Head`], as JSON.
const HEAD: &str = "highwater.run";
const DECIDED_BY: &str = "highwater.key";

/// Returns a run encoded as the bytes of a file.
///
/// # Panics
/// Never: data written to memory are well-formed.
#[must_use]
pub fn encode(key: &Key, outcome: &Outcome) -> Vec<u8> {
    let Outcome { fingerprint, virtual_time_ns, page_events, is_idle, report, notes, .. } = outcome;
    let head = Head {
        identity: key.identity.clone(),
        fingerprint: format!("{fingerprint:016x}"),
        virtual_time_ns: *virtual_time_ns,
        page_events: *page_events,
        is_idle: *is_idle,
        report: report.clone(),
        notes: notes.clone(),
        digest: digest(&key.hash, &key.identity, outcome),
    };
    let head = serde_json::to_string(&head).expect("texts and numbers");
    let footer = vec![(HEAD.to_owned(), head), (DECIDED_BY.to_owned(), key.text.clone())];
    let run = StoredRun { hash: key.hash.clone(), identity: key.identity.clone(), outcome: outcome.clone() };
    columns::write(&[run], footer)
}

/// Returns the bytes of a single file that holds all of `runs`, in order. The file has the same columns as the file of
/// one run.
#[must_use]
pub fn joined(runs: &[StoredRun]) -> Vec<u8> {
    columns::write(runs, Vec::new())
}

/// Decodes the bytes of a file. Returns the run with its hash and its name.
///
/// # Errors
/// When the file is faulty. The error states the fault.
pub fn decode(bytes: Vec<u8>) -> Result<StoredRun, String> {
    let (footer, lines) = columns::read(bytes)?;
    let of = |key: &str| footer.get(key).ok_or_else(|| format!("it has no `{key}` in its footer: no run of a store"));
    let head: Head = serde_json::from_str(of(HEAD)?).map_err(|error| format!("`{HEAD}`: {error}"))?;
    let hash = hash_of(of(DECIDED_BY)?);
    let rows = lines.into_iter().map(|(texts, value)| {
        let [group, name, unit, better, format] = texts;
        Ok(Row { group, name, unit, better: better_of(&better)?, format: format_of(&format)?, value })
    });
    let outcome = Outcome {
        rows: rows.collect::<Result<_, String>>()?,
        fingerprint: u64::from_str_radix(&head.fingerprint, 16).map_err(|_| "its fingerprint is none")?,
        virtual_time_ns: head.virtual_time_ns,
        page_events: head.page_events,
        is_idle: head.is_idle,
        report: head.report,
        notes: head.notes,
        ..Outcome::default()
    };
    if digest(&hash, &head.identity, &outcome) != head.digest {
        return Err("its contents are not those that were written".into());
    }
    Ok(StoredRun { hash, identity: head.identity, outcome })
}

/// Returns a hash of all parts of a stored run that [`decode`] reads from its file. `hash` is the hash of the run's
/// key.
fn digest(hash: &str, identity: &Identity, outcome: &Outcome) -> String {
    let Outcome { rows, fingerprint, virtual_time_ns, page_events, is_idle, report, notes, .. } = outcome;
    let mut all = Sha256::new();
    let mut take = |text: &str| {
        all.update((text.len() as u64).to_le_bytes());
        all.update(text.as_bytes());
    };
    take(hash);
    take(&serde_json::to_string(identity).expect("texts and numbers"));
    // Nothing is added for runs that scanned pages, so that older files keep their hash.
    let idle = if *is_idle { " idle" } else { "" };
    take(&format!("{fingerprint:016x} {virtual_time_ns} {page_events}{idle}"));
    report.iter().for_each(|line| take(line));
    notes.iter().for_each(|note| take(&format!("note {note}")));
    for Row { group, name, unit, better, value, format } in rows {
        let figure = format!("{} {} {:016x}", better_word(*better), format_word(*format), value.to_bits());
        [group, name, unit, &figure].into_iter().for_each(|text| take(text));
    }
    all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the word by which a file states which values of a row are better: `higher`, `lower`, or `neutral` for
/// neither.
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

/// Returns the word that stands for a format in files, such as `decimals-2`.
pub(super) fn format_word(format: Format) -> String {
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
