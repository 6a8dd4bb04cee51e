//! The input of a diagnosis: files in any format, directories and standard input. Each computer, column or run found in
//! the input is a patient.
//!
//! [`super::source`] reads reports and series of `highwater`. [`super::recorded`] reads directories of MMTests and
//! texts of other tools. In a directory without logs of MMTests, each recognised file is read, as in the archives of
//! OSWatcher and ExaWatcher.

use super::{Patient, recorded, source};
use kit::input;
use kit::wrong::Wrong;
use recordings::format::Told;
use recordings::formats::Document;
use recordings::text::Text;
use recordings::{files_below, formats};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Number of levels of subdirectories that are searched for files.
const DEPTH_MAX: usize = 8;

/// Largest number of unrecognised files that a warning about a directory names. Further files are only counted.
const UNREAD_MAX: usize = 8;

/// The name of standard input in reports.
pub const STANDARD_INPUT: &str = "standard input";

/// All input of a diagnosis, read and parsed.
#[derive(Debug, Default)]
pub struct Given {
    /// Patients (subjects of the diagnosis) from reports, series and directories of MMTests.
    patients: Vec<Patient>,
    /// Texts of tools such as `vmstat` and `free`, from which patients (subjects of the diagnosis) are made later.
    documents: Vec<Document>,
    /// Warnings about parts of directories that were left out.
    pub warnings: Vec<String>,
}

impl Given {
    /// Adds a file or a directory to the input, or standard input if the path is `-`.
    ///
    /// # Errors
    /// When no part of the file or directory can be read. The error states the fault.
    pub fn read(&mut self, path: &Path, interval_s: Option<f64>) -> Result<(), Wrong> {
        if path == Path::new("-") {
            let input = input::standard("the input").map_err(|error| Wrong::of(STANDARD_INPUT, input::why(&error)))?;
            return self.read_from(input, interval_s);
        }
        if path.is_dir() {
            return self.read_directory(path, interval_s);
        }
        let text = recordings::read(path)?;
        self.add(&path.display().to_string(), &text, interval_s)
    }

    /// Adds the text that `input`, such as standard input, provides.
    ///
    /// # Errors
    /// When the text cannot be read. The error states the fault.
    pub fn read_from(&mut self, input: impl Read, interval_s: Option<f64>) -> Result<(), Wrong> {
        let text = recordings::read_input(STANDARD_INPUT, input)?;
        self.add(STANDARD_INPUT, &text, interval_s)
    }

    fn add(&mut self, file: &str, text: &str, interval_s: Option<f64>) -> Result<(), Wrong> {
        if source::is_it(text) {
            self.patients.extend(source::patients(file, text)?);
            return Ok(());
        }
        match formats::read(file, text, interval_s) {
            Ok(document) => self.documents.push(document),
            Err(why) => {
                // The text may be a pasted report.
                let Some((is_first, report)) = pasted_report(text) else { return Err(why) };
                let read = source::patients(file, &report);
                self.patients.extend(read.map_err(|wrong| if is_first { wrong } else { why })?);
            }
        }
        Ok(())
    }

    fn read_directory(&mut self, folder: &Path, interval_s: Option<f64>) -> Result<(), Wrong> {
        let no_logs = match recorded::patients_of_mmtests(folder) {
            Ok((patients, left_out)) => {
                self.patients.extend(patients);
                self.warnings.extend(left_out.iter().map(Wrong::to_string));
                return Ok(());
            }
            Err(why) => why,
        };
        let mut wrong = Vec::new();
        let mut by_folder: BTreeMap<PathBuf, Vec<Document>> = BTreeMap::new();
        let mut unread: Vec<Wrong> = Vec::new();
        for path in files_below(folder, DEPTH_MAX, &mut wrong) {
            let name = path.display().to_string();
            match recordings::read(&path).and_then(|text| formats::read(&name, &text, interval_s)) {
                Ok(document) => {
                    by_folder.entry(path.parent().unwrap_or(folder).to_owned()).or_default().push(document);
                }
                Err(why) => unread.push(why),
            }
        }
        self.warnings.extend(wrong.iter().map(Wrong::to_string));
        if by_folder.is_empty() {
            let file = folder.display().to_string();
            let what = match unread.first() {
                Some(first) => format!("none of its files is recognised; of {first}"),
                None => no_logs.what,
            };
            return Err(Wrong::of(&file, what));
        }
        if !unread.is_empty() {
            let name = |wrong: &Wrong| {
                let path = Path::new(&wrong.file);
                path.strip_prefix(folder).unwrap_or(path).display().to_string()
            };
            let mut names: Vec<String> = unread.iter().take(UNREAD_MAX).map(name).collect();
            let more = unread.len() - names.len();
            names.extend((more > 0).then(|| format!("{more} more")));
            let files = if unread.len() == 1 { "file" } else { "files" };
            self.warnings.push(format!(
                "{} is not all recognised: left out {} {files}: {}",
                folder.display(),
                unread.len(),
                names.join(", ")
            ));
        }
        self.documents.extend(by_folder.into_iter().flat_map(|(folder, documents)| joined(&folder, documents)));
        Ok(())
    }

    /// Returns the patients (subjects of the diagnosis) in all input. `interval_s` is the time between samples of a
    /// recording without times, and `seconds` is the time between two copies of a text, if the user gave them.
    ///
    /// # Errors
    /// When the user gave `interval_s` although every recording states its times, or `seconds` although no text was
    /// given twice.
    pub fn patients(self, interval_s: Option<f64>, seconds: Option<f64>) -> Result<Vec<Patient>, Wrong> {
        let Self { mut patients, documents, .. } = self;
        if let Some(first) = patients.first().filter(|_| documents.is_empty()) {
            recorded::check_times(&first.name, &documents, interval_s, seconds)?;
        }
        patients.extend(recorded::patients(documents, interval_s, seconds)?);
        Ok(patients)
    }
}

/// Finds a report or a series in a pasted text, which may have other text around it. Returns the report, and `true` if
/// nothing but shell prompts, marks of code blocks (such as three backquotes) and empty lines stands before it. Returns
/// none if there is no report.
#[must_use]
pub fn pasted_report(text: &str) -> Option<(bool, String)> {
    let lines: Vec<_> = Text::of(text).lines.into_iter().map(|line| line.text).collect();
    let begins =
        |at: &usize| !lines[*at].trim().is_empty() && source::is_it(&lines[*at..(at + 2).min(lines.len())].join("\n"));
    let start = (0..lines.len()).find(begins)?;
    // A report in JSON ends with a bracket. A series ends where the text does.
    let is_json = lines[start].trim_start().starts_with(['{', '[']);
    let end =
        lines.iter().rposition(|line| line.trim_end().ends_with(['}', ']'])).filter(|end| is_json && *end >= start);
    let end = end.map_or(lines.len(), |end| end + 1);
    let is_first = lines[..start].iter().all(|line| line.trim().is_empty());
    Some((is_first, lines[start..end].join("\n").trim_start().to_owned()))
}

/// Joins the recordings in the files of a folder into one recording if all come from one tool and one computer. This is
/// of use because the archives of some tools begin a new file each hour.
fn joined(folder: &Path, documents: Vec<Document>) -> Vec<Document> {
    // The tool and the computer, if the file has one recording and nothing else.
    let tool = |document: &Document| match document.told.as_slice() {
        [(_, Told::Recording(recording))] => Some((recording.tool, recording.host.clone())),
        _ => None,
    };
    let first = documents.first().and_then(tool);
    if documents.len() < 2 || first.is_none() || !documents.iter().all(|document| tool(document) == first) {
        return documents;
    }
    let count = documents.len();
    let mut all = documents.into_iter();
    let mut joined = all.next().unwrap_or_default();
    for document in all {
        let later = document.told.into_iter().next();
        if let (Some((_, Told::Recording(recording))), Some((_, Told::Recording(later)))) =
            (joined.told.first_mut(), later)
        {
            recording.append(later);
        }
        joined.left_out.extend(document.left_out);
    }
    joined.file = format!("{} ({count} files)", folder.display());
    vec![joined]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_among_words() {
        let report = "{\n  \"schema\": 1,\n  \"rows\": [\n  ]\n}";
        for text in [
            report.to_owned(),
            format!("Here is it:\n\n```json\n{report}\n```\nThanks!\n"),
            format!("$ highwater stat --format json\n{report}\n$ \n"),
        ] {
            let (_, found) = pasted_report(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(found, report);
        }
        assert_eq!(pasted_report("[root@web1 ~]# free\n[ 1201.4] a line\n"), None);
        let mut given = Given::default();
        let words = "Look at this:\n{ \"name\": \"x\" }\n";
        let why = given.add("f", words, None).unwrap_err().to_string();
        assert!(why.starts_with("f:1: nothing is recognised from `Look at this:` on"), "{why}");
        let why = given.add("f", "```\n{ \"name\": \"x\" }\n```\n", None).unwrap_err().to_string();
        assert!(why.starts_with("f: expected the JSON of"), "{why}");
    }
}
