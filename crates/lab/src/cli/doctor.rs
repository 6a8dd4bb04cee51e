//! The verb `doctor`: finds problems of memory reclaim in recordings, or on this computer.

use super::{End, ListFormat, output};
use kit::input;
use kit::shown::warn;
use kit::wrong::Wrong;
use observe::doctor;
use observe::doctor::given::Given;
use observe::doctor::{Diagnosis, Patient};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `highwater doctor`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The recordings, one or several files: the JSON of `stat`, `run`, `compare` or `results`; the CSV of --series;
    /// pasted texts of other tools (docs/doctor-texts.md lists them); or a directory of these or of MMTests logs,
    /// packed by gzip or not; `-` is standard input [default: piped input, or else the kernel of this computer]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Time for which to observe the running kernel [default: 5]; if copies of /proc/vmstat, of PSI or of files of a
    /// cgroup are given, the time from one copy to the next
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Diagnose only this cgroup: its path below /sys/fs/cgroup, or its name
    #[cfg(feature = "linux")]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "pid", "interval"])]
    cgroup: Option<String>,
    /// Diagnose this process, and its cgroup
    #[cfg(feature = "linux")]
    #[arg(long, value_name = "PID", conflicts_with_all = ["files", "interval"])]
    pid: Option<u32>,
    /// Seconds between the lines of a recording of `vmstat`, if it ran without -t and so printed no times [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    interval: Option<f64>,
    /// The form of the diagnosis
    #[arg(long, value_enum, default_value_t)]
    format: ListFormat,
    /// Write the diagnosis to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Diagnoses the memory of the systems in saved recordings, or of this computer if no recordings are given.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let file = output::open_report(arguments.format == ListFormat::Html, arguments.output.as_deref())?;
    let patients = match saved(arguments)? {
        Some(patients) => patients,
        None => vec![here(arguments)?],
    };
    if arguments.format == ListFormat::Csv {
        // CSV has no place for what is not about a finding.
        patients.iter().flat_map(|patient| &patient.left_out).for_each(|it| warn(&format!("left out: {it}")));
    }
    output::report(file, |out, look| {
        let text = match arguments.format {
            ListFormat::Text => doctor::text(&patients, look),
            ListFormat::Markdown => doctor::page(&patients).markdown(),
            ListFormat::Csv => doctor::csv(&patients),
            ListFormat::Json => doctor::json(&patients),
            ListFormat::Html => super::with_command(doctor::page(&patients)).render(),
        };
        out.write_all(text.as_bytes())
    })
}

/// Parses an interval in seconds.
fn parse_interval(word: &str) -> Result<f64, String> {
    let seconds = word.parse().ok().filter(|seconds: &f64| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds from 0.001 to 86400".into())
}

/// Parses a time in seconds, with or without an `s` after it.
fn parse_seconds(word: &str) -> Result<Duration, String> {
    match word.strip_suffix('s').unwrap_or(word).parse::<f64>() {
        Ok(seconds) if (0.01..=1e8).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, from 0.01 to 100000000, such as 1 or 0.5s".into()),
    }
}

/// Reads the patients (the recorded systems to diagnose) from the named files or from piped input. Returns none if
/// there is no input.
fn saved(arguments: &Arguments) -> Result<Option<Vec<Patient>>, End> {
    let wrong = |wrong: Wrong| End::Usage(wrong.to_string());
    #[cfg(feature = "linux")]
    if arguments.cgroup.is_some() || arguments.pid.is_some() {
        return Ok(None);
    }
    let mut given = Given::default();
    for path in &arguments.files {
        given.read(path, arguments.interval).map_err(wrong)?;
    }
    if arguments.files.is_empty() {
        let piped = input::piped();
        output::check_apart()?;
        let Some(piped) = piped else {
            return match arguments.interval {
                Some(_) => Err(End::Usage("--interval is for the text of `vmstat`: name its file".into())),
                None => Ok(None),
            };
        };
        given.read_from(piped, arguments.interval).map_err(wrong)?;
    }
    given.warnings.iter().for_each(|warning| warn(warning));
    let mut patients =
        given.patients(arguments.interval, arguments.seconds.map(|time| time.as_secs_f64())).map_err(wrong)?;
    if patients.iter().all(|patient| Diagnosis::of(&patient.signs).is_blind()) {
        let names: Vec<String> = arguments.files.iter().map(|path| path.display().to_string()).collect();
        let mut missing: Vec<&str> = patients.iter().flat_map(|it| &it.signs.missing).map(String::as_str).collect();
        missing.dedup();
        let lacks = if missing.is_empty() { String::new() } else { format!(": it lacks {}", missing.join(", ")) };
        return Err(End::Usage(format!(
            "cannot read {}: it has none of the counters that a diagnosis needs{lacks}; settings, slab caches and processes tell something beside \
             /proc/meminfo or a recording",
            names.join(", ")
        )));
    }
    if arguments.files.len() > 1 || arguments.files.iter().any(|path| path.is_dir()) {
        // The answer comes first: a file without an illness must not stand before one with an illness.
        patients.sort_by_cached_key(|patient| Diagnosis::of_patient(patient).has_no_illness());
    }
    Ok(Some(patients))
}

/// Observes this computer for some seconds. Returns it as a patient, the system to diagnose.
#[cfg(feature = "linux")]
fn here(arguments: &Arguments) -> Result<Patient, End> {
    use kit::interrupt;
    use observe::doctor::live::Whom;
    use observe::stat::snapshot::Source;
    use std::thread::sleep;
    use std::time::Instant;

    /// Time for which the computer is observed by default.
    const LOOK: Duration = Duration::from_secs(5);

    /// Interval at which the command checks whether the user has interrupted it (Ctrl-C).
    const ASK_EVERY: Duration = Duration::from_millis(10);

    if arguments.output.is_none() {
        output::check_standard_output()?;
    }
    let _guard = interrupt::guard();
    let source = Source::default();
    let whom = match (&arguments.cgroup, arguments.pid) {
        (Some(name), _) => Whom::Cgroup(doctor::group::find(&source, name).map_err(End::Usage)?),
        (None, Some(pid)) => Whom::Process(pid),
        (None, None) => Whom::Computer,
    };
    let patient = doctor::live::look(&source, &whom, arguments.seconds.unwrap_or(LOOK), |time| {
        let begun = Instant::now();
        while begun.elapsed() < time && !interrupt::is_set() {
            sleep(ASK_EVERY.min(time));
        }
        !interrupt::is_set()
    });
    let patient = patient.map_err(End::Failed)?;
    if Diagnosis::of(&patient.signs).is_blind() {
        return Err(End::Failed(format!("nothing can be said: {}", patient.signs.missing.join("; "))));
    }
    Ok(patient)
}

/// Returns an error, because this program was built without the feature `linux` and so cannot observe the computer.
#[cfg(not(feature = "linux"))]
fn here(_: &Arguments) -> Result<Patient, End> {
    let why = "this `highwater` was built without the feature `linux`: name a saved report";
    Err(End::Usage(why.into()))
}
