//! `highwater doctor`.

use super::{End, output};
use crate::doctor::{self, Diagnosis, Patient, recorded, source};
use crate::recordings::{self, Wrong};
use crate::shown::warn;
use std::path::{Path, PathBuf};
#[cfg(feature = "linux")]
use std::time::Duration;

/// Arguments of `highwater doctor`.
#[derive(clap::Args)]
pub struct Arguments {
    /// What was recorded: the JSON of `stat`, `run`, `compare` or `results`, the CSV of --series, the text of `vmstat 1` or `sar -B -W`, packed
    /// or not, or a log directory of MMTests; without one, the kernel that runs here
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How long the running kernel is looked at
    #[cfg(feature = "linux")]
    #[arg(long, value_name = "SECONDS", value_parser = super::stat::parse_seconds, default_value = "5", conflicts_with = "file")]
    seconds: Duration,
    /// The interval of a text of `vmstat` without -t, which does not tell it [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval, requires = "file")]
    interval: Option<f64>,
    /// The form of the diagnosis
    #[arg(long, value_enum, default_value_t)]
    format: DiagnosisFormat,
    /// Write the diagnosis to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A form of a diagnosis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum DiagnosisFormat {
    /// Sentences for people, with figures and rules.
    #[default]
    Text,
    /// docs/doctor.md describes it.
    Json,
    /// One page that opens without a network.
    Html,
}

/// Says what ails memory.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let file = output::open("--output", arguments.output.as_deref())?;
    let patients = match &arguments.file {
        Some(path) => saved(path, arguments.interval)?,
        None => vec![here(arguments)?],
    };
    output::report(file, |out, look| match arguments.format {
        DiagnosisFormat::Text => out.write_all(doctor::text(&patients, look).as_bytes()),
        DiagnosisFormat::Html => out.write_all(super::with_command(doctor::page(&patients)).render().as_bytes()),
        DiagnosisFormat::Json => out.write_all(doctor::json(&patients).as_bytes()),
    })
}

/// An interval, s.
fn parse_interval(word: &str) -> Result<f64, String> {
    let seconds = word.parse().ok().filter(|seconds: &f64| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds from 0.001 to 86400".into())
}

/// Those of a saved report.
fn saved(path: &Path, interval: Option<f64>) -> Result<Vec<Patient>, End> {
    let name = path.display().to_string();
    let told = |why: &str| End::Usage(format!("cannot read {}: {why}", path.display()));
    let wrong = |wrong: Wrong| End::Usage(wrong.to_string());
    let kind = std::fs::metadata(path).map_err(|error| told(&output::why(&error)))?;
    let patients = if kind.is_dir() {
        if interval.is_some() {
            return Err(End::Usage(format!(
                "{name}: --interval is for the text of `vmstat`: logs of MMTests have their own"
            )));
        }
        let (patients, left_out) = recorded::patients_of_mmtests(path).map_err(wrong)?;
        left_out.iter().for_each(|wrong| warn(&wrong.to_string()));
        patients
    } else {
        let text = recordings::read(path).map_err(wrong)?;
        match recorded::patient(&name, &text, interval).map_err(wrong)? {
            Some(patient) => vec![patient],
            None => source::patients(&name, &text).map_err(wrong)?,
        }
    };
    if patients.iter().all(|patient| Diagnosis::of(&patient.signs).is_blind()) {
        return Err(told("it has none of the counters that a diagnosis needs"));
    }
    Ok(patients)
}

/// This computer.
#[cfg(feature = "linux")]
fn here(arguments: &Arguments) -> Result<Patient, End> {
    use crate::interrupt;
    use crate::stat::snapshot::Source;
    use std::thread::sleep;
    use std::time::Instant;

    /// How often it is looked whether it is to end.
    const ASK_EVERY: Duration = Duration::from_millis(10);

    if arguments.output.is_none() {
        output::check_standard_output()?;
    }
    let _guard = interrupt::guard();
    let patient = doctor::live::look(&Source::default(), arguments.seconds, |time| {
        let begun = Instant::now();
        while begun.elapsed() < time && !interrupt::is_set() {
            sleep(ASK_EVERY.min(time));
        }
        !interrupt::is_set()
    });
    if Diagnosis::of(&patient.signs).is_blind() {
        return Err(End::Failed(format!("nothing can be said: {}", patient.signs.missing.join("; "))));
    }
    Ok(patient)
}

/// This computer, of which nothing can be read.
#[cfg(not(feature = "linux"))]
fn here(_: &Arguments) -> Result<Patient, End> {
    let why = "this `highwater` was built without the feature `linux`: name a saved report";
    Err(End::Usage(why.into()))
}
