//! The metadata of a record: what was recorded, how and for how long, and what the record lacks.

use crate::hash::Hasher;
use crate::memory::Course;
use crate::options::Options;
use crate::source::Source;
use serde_json::{Value, json};
use std::fs;
use trace::{Metadata, Names};

/// Returns the names of all files and of all tasks of the record, in order of their numbers. Names are hashed if there
/// is a `hasher`.
pub fn names(source: &mut dyn Source, hasher: Option<&Hasher>) -> (Names, Names) {
    let (mut files, mut tasks) = (Names::new(), Names::new());
    for file in source.files().iter() {
        match hasher {
            Some(hasher) => files.push(&hasher.path(&file.name)),
            None => files.push(&file.name),
        };
    }
    for task in source.tasks().iter() {
        let program = match hasher {
            Some(hasher) => hasher.word(&task.program).into_bytes(),
            None => task.program.clone(),
        };
        let mut name = program;
        name.extend_from_slice(format!(" {}", task.thread).as_bytes());
        tasks.push(&name);
    }
    (files, tasks)
}

/// Returns the metadata of a record. `elapsed_us` is the duration of the recording, µs.
pub fn metadata(options: &Options, source: &mut dyn Source, course: &Course, elapsed_us: u64) -> Metadata {
    let mut metadata = Metadata::new();
    let mut put = |key: &str, value: Value| metadata.insert(key.to_owned(), value);
    let command = options.target.described();
    let command = options.hasher.as_ref().map_or(command.clone(), |hasher| hasher.word(command.as_bytes()));
    put("source", json!(command));
    put("format", json!("recorded"));
    put("means", json!(source.name()));
    put("elapsed_us", json!(elapsed_us));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    put("kernel", json!(release.trim()));
    put("names_hashed", json!(options.hasher.is_some()));
    let first = source.files().iter().enumerate().map(|(number, file)| (number.to_string(), json!(file.first_bytes)));
    put("file_bytes", Value::Object(first.collect()));
    put("files", source.files().described());
    put("tasks", source.tasks().described());
    put("readahead_kib", source.files().readahead());
    put("rss", course.described());
    put("memory_peak", course.peaks());
    if let Some(sets) = course.working_sets() {
        put("working_set", sets);
    }
    put("lost_events", json!(source.lost()));
    let hidden = |line: String| if options.hasher.is_some() { hide(&line, options) } else { line };
    put("not_seen", source.not_seen().into_iter().map(hidden).map(Value::from).collect());
    metadata
}

/// Replaces the path at the beginning of `line` by the path's hash, if names are to be hidden. The line is about a
/// program that could not be recorded: the program's path, a colon and the reason.
fn hide(line: &str, options: &Options) -> String {
    match (&options.hasher, line.starts_with('/'), line.split_once(": ")) {
        (Some(hasher), true, Some((path, why))) => {
            format!("{}: {why}", String::from_utf8_lossy(&hasher.path(path.as_bytes())))
        }
        _ => line.to_owned(),
    }
}
