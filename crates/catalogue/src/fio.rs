//! Job files of fio, read as experiments whose load the workload `tasks` runs.
//!
//! The keys and their meanings are those of the documentation of fio 3. A key that changes the load and is not known
//! here is an error; keys about reports and about how fio itself runs are left out. docs/tasks.md lists the differences
//! from fio.

use placed::{Error, Place};
use std::fmt::Write as _;

/// Name of the machine on which the jobs of a fio file run by default.
const MACHINE: &str = "randread-512m";

/// The kernels that are compared by default.
const KERNELS: &str = r#"["6.1-classic", "6.1-mglru"]"#;

/// Largest size of one request, bytes. It is the largest that the workload `tasks` permits.
const BLOCK_MAX: u64 = 16 << 20;

/// Largest number of tasks of a load. The workload `tasks` permits no more.
const TASKS_MAX: u64 = 1024;

/// Keys of fio that are ignored: they do not change what the load does, or fio needs them to behave as the workload
/// here always does.
const HARMLESS: [&str; 33] = [
    "allow_file_create",
    "clat_percentiles",
    "create_on_open",
    "create_serialize",
    "description",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "end_fsync",
    "exitall",
    "fallocate",
    "file_service_type",
    "gtod_reduce",
    "group_reporting",
    "invalidate",
    "lat_percentiles",
    "log_avg_msec",
    "name",
    "new_group",
    "norandommap",
    "openfiles",
    "overwrite",
    "per_job_logs",
    "percentile_list",
    "randrepeat",
    "randseed",
    "refill_buffers",
    "thread",
    "unlink",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
];

/// A line `key=value` of a section.
#[derive(Clone, Debug)]
struct Line {
    key: String,
    value: String,
    line: usize,
}

/// A section of a job file.
#[derive(Debug)]
struct Section {
    name: String,
    line: usize,
    lines: Vec<Line>,
}

/// A job of the file: the load that the keys of its section and of `[global]` describe.
#[derive(Clone, Debug)]
struct Job {
    name: String,
    line: usize,
    is_random: bool,
    /// Share of operations that write, percent.
    write_percent: u64,
    kib: u64,
    mib: Option<u64>,
    filename: Option<String>,
    jobs: u64,
    depth: u64,
    is_mapped: bool,
    runtime_s: Option<u64>,
    is_time_based: bool,
    zipf: Option<f64>,
    rate: Option<f64>,
    think_us: u64,
    sync_every: u64,
}

/// Returns the text of an experiment with the load of a job file. `file` is the name of the file in errors, and `name`
/// the name of the load in the report.
///
/// # Errors
/// When the text is no job file, or has a key or value that is not known here.
pub fn experiment(file: &str, name: &str, text: &str) -> Result<String, Error> {
    let place = |line: usize| Place { file: file.into(), line };
    let sections = sections(text).map_err(|(line, message)| Error::at(&place(line), message))?;
    let (globals, jobs): (Vec<Section>, Vec<Section>) =
        sections.into_iter().partition(|section| section.name == "global");
    let global: Vec<Line> = globals.into_iter().flat_map(|section| section.lines).collect();
    let mut read = Vec::new();
    for section in &jobs {
        read.push(Job::of(section, &global).map_err(|(line, message)| Error::at(&place(line), message))?);
    }
    if read.is_empty() {
        return Err(Error::at(&place(1), "the file has no job: expected a section such as `[job]`"));
    }
    for (n, job) in read.iter().enumerate() {
        if let Some(other) = read[..n].iter().find(|other| other.name == job.name) {
            let message = format!("two jobs are called `{}`, here and on line {}", job.name, other.line);
            return Err(Error::at(&place(job.line), message));
        }
    }
    described(name, &read).map_err(|(line, message)| Error::at(&place(line), message))
}

/// An error: the line, and the message.
type Wrong = (usize, String);

/// Divides a job file into its sections.
fn sections(text: &str) -> Result<Vec<Section>, Wrong> {
    let mut sections: Vec<Section> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = text.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or((line, format!("`{text}` has no `]`")))?;
            sections.push(Section { name: word(name), line, lines: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err((line, format!("expected a section such as `[global]` before `{text}`")));
        };
        // A key without a value, such as `time_based`, is switched on.
        let (key, value) = text.split_once('=').unwrap_or((text, "1"));
        section.lines.push(Line { key: key.trim().to_owned(), value: value.trim().to_owned(), line });
    }
    Ok(sections)
}

/// Returns a name with only those characters that names of files and tasks may have.
fn word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let word: String = name.trim().chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    if word.is_empty() { "job".into() } else { word }
}

impl Job {
    /// Makes a job from the keys of `[global]`, and then from those of the job's own section.
    fn of(section: &Section, global: &[Line]) -> Result<Self, Wrong> {
        let mut job = Self {
            name: section.name.clone(),
            line: section.line,
            is_random: false,
            write_percent: 0,
            kib: 4,
            mib: None,
            filename: None,
            jobs: 1,
            depth: 1,
            is_mapped: false,
            runtime_s: None,
            is_time_based: false,
            zipf: None,
            rate: None,
            think_us: 0,
            sync_every: 0,
        };
        let (mut mix, mut bytes_per_s) = (None, None);
        let mut is_mixed = false;
        for Line { key, value, line } in global.iter().chain(&section.lines) {
            let wrong = |expected: &str| (*line, format!("`{key}={value}`: expected {expected}"));
            let number = || value.parse::<u64>().map_err(|_| wrong("a whole number"));
            match key.as_str() {
                "rw" | "readwrite" => {
                    let (is_random, percent, is_both) = match value.as_str() {
                        "read" => (false, 0, false),
                        "write" => (false, 100, false),
                        "randread" => (true, 0, false),
                        "randwrite" => (true, 100, false),
                        "rw" | "readwrite" => (false, 50, true),
                        "randrw" => (true, 50, true),
                        _ => return Err(wrong("read, write, rw, randread, randwrite or randrw")),
                    };
                    (job.is_random, job.write_percent, is_mixed) = (is_random, percent, is_both);
                }
                "bs" | "blocksize" => {
                    let is_possible = |bytes: &u64| *bytes > 0 && bytes.is_multiple_of(4096) && *bytes <= BLOCK_MAX;
                    let expected = "one size in whole pages, such as 4k, and at most 16m";
                    job.kib = bytes(value).filter(is_possible).ok_or_else(|| wrong(expected))? / 1024;
                }
                "size" | "filesize" => {
                    let bytes = bytes(value).filter(|bytes| *bytes > 0).ok_or_else(|| wrong("a size, such as 1g"))?;
                    job.mib = Some(bytes.div_ceil(1 << 20));
                }
                "filename" if value.contains(':') => return Err(wrong("one file")),
                "filename" => job.filename = Some(word(value)),
                "numjobs" => job.jobs = few(number()?).ok_or_else(|| wrong("a number from 1 to 1024"))?,
                "iodepth" => job.depth = few(number()?).ok_or_else(|| wrong("a number from 1 to 1024"))?,
                "ioengine" => match value.as_str() {
                    "psync" | "sync" | "vsync" | "pvsync" | "pvsync2" | "io_uring" | "libaio" | "posixaio" => {
                        job.is_mapped = false;
                    }
                    "mmap" => job.is_mapped = true,
                    _ => return Err(wrong("psync, sync, pvsync, pvsync2, io_uring, libaio or mmap")),
                },
                "direct" if value != "0" => {
                    return Err((*line, "`direct=1` goes past the page cache, so that nothing is reclaimed".into()));
                }
                "buffered" if value == "0" => {
                    return Err((*line, "`buffered=0` goes past the page cache, so that nothing is reclaimed".into()));
                }
                "direct" | "buffered" => {}
                "runtime" => job.runtime_s = Some(seconds(value).ok_or_else(|| wrong("a time, such as 30 or 5m"))?),
                "time_based" => job.is_time_based = value != "0",
                "random_distribution" => {
                    job.zipf = match value.split_once(':') {
                        None if value == "random" => None,
                        Some(("zipf", theta)) => {
                            let theta = theta.parse::<f64>().ok().filter(|theta| *theta > 0.0 && *theta <= 10.0);
                            Some(
                                theta
                                    .ok_or_else(|| wrong("random, or zipf:THETA with THETA above 0 and at most 10"))?,
                            )
                        }
                        _ => return Err(wrong("random, or zipf:THETA")),
                    };
                }
                "rwmixread" | "rwmixwrite" => {
                    let percent = number()?;
                    if percent > 100 {
                        return Err(wrong("a percentage"));
                    }
                    mix = Some(if key == "rwmixread" { 100 - percent } else { percent });
                }
                "fsync" | "fdatasync" => job.sync_every = number()?,
                "rate_iops" => {
                    let rate = value.parse::<f64>().ok().filter(|rate| *rate >= 0.001 && *rate <= 1e9);
                    job.rate = Some(rate.ok_or_else(|| wrong("operations per second, from 0.001 on"))?);
                }
                "rate" => {
                    let rate = bytes(value).filter(|rate| *rate > 0);
                    bytes_per_s = Some(rate.ok_or_else(|| wrong("bytes per second, such as 10m"))?);
                }
                "thinktime" => job.think_us = number()?,
                "fadvise_hint" if value == "1" => {}
                key if HARMLESS.contains(&key) || key.starts_with("verify") => {}
                _ => return Err((*line, format!("`{key}` is not known here: it may change the load"))),
            }
        }
        if is_mixed {
            job.write_percent = mix.unwrap_or(50);
        }
        if let Some(bytes) = bytes_per_s {
            job.rate = Some(bytes as f64 / (job.kib * 1024) as f64);
        }
        if job.is_mapped && job.kib != 4 {
            return Err((job.line, format!("`ioengine=mmap` of job `{}`: expected bs=4k", job.name)));
        }
        Ok(job)
    }

    /// Returns the number of tasks that use one file. For random requests by system calls, there is a task for each
    /// request that fio keeps in flight (`iodepth`). Otherwise there is one task: sequential requests wait for the same
    /// readahead, and a task takes faults on a mapping one after another.
    fn tasks(&self) -> u64 {
        if self.is_random && !self.is_mapped { self.depth } else { 1 }
    }
}

/// Returns the text of an experiment file that runs `jobs`, the jobs of a fio file.
fn described(name: &str, jobs: &[Job]) -> Result<String, Wrong> {
    let seconds = jobs.iter().filter(|job| job.is_time_based).filter_map(|job| job.runtime_s).max();
    if let Some(job) = jobs.iter().find(|job| job.is_time_based && job.runtime_s.is_none()) {
        return Err((job.line, format!("job `{}` is `time_based` and has no `runtime`", job.name)));
    }
    let mut text = format!(
        "about = \"the job file {name} of fio\"\nmachine = \"{MACHINE}\"\nworkload = \"tasks\"\nkernels = {KERNELS}\n\
         main_row = \"Ops {name}\"\nmain_rows = [\"Hit ratio\", \" p99\", \"pgscan_direct\", \"allocstall\"]\n\n[params]\nname = \"{name}\"\n\
         fills_memory = true\n"
    );
    if let Some(seconds) = seconds {
        let _ = writeln!(text, "seconds = {seconds}");
    }
    let mut files: Vec<(String, u64)> = Vec::new();
    let (mut regions, mut tasks) = (String::new(), String::new());
    for job in jobs {
        // Each clone of a job has a file of its own, unless the job names one.
        for clone in 0..job.jobs {
            let kind = if job.jobs == 1 { job.name.clone() } else { format!("{}-{clone}", job.name) };
            let file = job.filename.clone().unwrap_or_else(|| kind.clone());
            match (files.iter_mut().find(|(known, _)| *known == file), job.mib) {
                (Some((_, largest)), mib) => *largest = mib.unwrap_or(0).max(*largest),
                (None, Some(mib)) => files.push((file.clone(), mib)),
                (None, None) => return Err((job.line, format!("job `{}` has no `size`", job.name))),
            }
            if job.is_mapped {
                let _ = writeln!(regions, "[params.region.\"{kind}\"]\nfile = \"{file}\"");
            }
            let _ = write!(tasks, "{}", task(job, &kind, &file, seconds.is_some()));
        }
    }
    for (file, mib) in files {
        let _ = writeln!(text, "[params.file.\"{file}\"]\nmib = {mib}");
    }
    Ok(text + &regions + &tasks)
}

/// Returns the section `[params.task]` for one clone of a fio job. The key `numjobs` of a job says how many clones it
/// has.
fn task(job: &Job, kind: &str, file: &str, is_timed: bool) -> String {
    let order = if job.is_random { "random" } else { "sequential" };
    let mut keys = format!("order = \"{order}\", row = \"{} read\"", job.name);
    if let Some(theta) = job.zipf.filter(|_| job.is_random) {
        let _ = write!(keys, ", distribution = \"zipf\", theta = {theta:?}");
    }
    if let Some(rate) = job.rate {
        let _ = write!(keys, ", rate = {:?}", rate / job.tasks() as f64);
    }
    if job.think_us > 0 {
        let _ = write!(keys, ", think_us = {}", job.think_us);
    }
    // A round is one pass over the file, of which each task does its share.
    let percent = (100 / job.tasks()).max(1);
    let _ = write!(keys, ", percent = {percent}");
    let syncs = if job.sync_every > 0 && job.write_percent > 0 {
        format!(", sync_every = {}, sync_row = \"{} sync\"", job.sync_every, job.name)
    } else {
        String::new()
    };
    let writes = format!("write_row = \"{} write\"", job.name);
    let step = match (job.is_mapped, job.write_percent) {
        (true, percent) => format!("touch = \"{kind}\", {keys}, store_percent = {percent}"),
        (false, 0) => format!("read = \"{file}\", {keys}, kib = {}", job.kib),
        (false, 100) => format!("write = \"{file}\", {keys}, kib = {}{syncs}", job.kib).replace(" read\"", " write\""),
        (false, percent) => {
            format!("read = \"{file}\", {keys}, kib = {}, write_percent = {percent}, {writes}{syncs}", job.kib)
        }
    };
    let before = if job.is_mapped { format!("before = [{{ map = \"{kind}\" }}]\n") } else { String::new() };
    let rounds = if is_timed { "" } else { "rounds = 1\n" };
    format!("[params.task.\"{kind}\"]\ncount = {}\n{rounds}{before}steps = [{{ {step} }}]\n", job.tasks())
}

/// Returns `number` if it is allowed as the number of jobs, or of requests in flight, in a fio file; otherwise none.
fn few(number: u64) -> Option<u64> {
    (1..=TASKS_MAX).contains(&number).then_some(number)
}

/// Converts a size such as `4k`, `1g` or `4096` to bytes; returns none if `value` is not a size. As in fio, `k` is
/// 1024.
fn bytes(value: &str) -> Option<u64> {
    let value = value.to_ascii_lowercase();
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match value[digits.len()..].trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Returns the number of seconds in a time such as `30`, `30s` or `5m`, rounded up; none if it is no time.
fn seconds(value: &str) -> Option<u64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    Some(match &value[digits.len()..] {
        "" | "s" => number,
        "ms" => number.div_ceil(1000),
        "m" => number.checked_mul(60)?,
        "h" => number.checked_mul(3600)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    fn read(text: &str) -> Experiment {
        let text = experiment("job.fio", "job", text).unwrap_or_else(|error| panic!("{error}"));
        Experiment::parse("job", ("job.fio", &text), None).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn a_job_is_a_task_with_its_file() {
        let found = read(
            "; a comment\n[global]\nrw=randrw\nbs=8k\nrwmixread=70\nsize=1g\nruntime=5m\ntime_based\n\n[db]\niodepth=4\nioengine=io_uring\nfsync=32\n",
        );
        let param = |path: &[&str]| {
            path.iter().try_fold(&found.params, |node, key| node.get(key)).map(|node| node.value.to_string())
        };
        assert_eq!(param(&["seconds"]).as_deref(), Some("300"));
        assert_eq!(param(&["file", "db", "mib"]).as_deref(), Some("1024"));
        assert_eq!(param(&["task", "db", "count"]).as_deref(), Some("4"));
        let steps = param(&["task", "db", "steps"]).unwrap();
        for part in ["read = \"db\"", "kib = 8", "write_percent = 30", "sync_every = 32", "order = \"random\""] {
            assert!(steps.contains(part), "{part}: {steps}");
        }
    }

    #[test]
    fn clones_have_files_of_their_own_unless_the_job_names_one() {
        let files = |text: &str| {
            let found = read(text);
            let placed::Value::Table(files) = &found.params.get("file").unwrap().value else { panic!("no table") };
            files.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>()
        };
        assert_eq!(files("[a]\nrw=read\nsize=64m\nnumjobs=2\n"), ["a-0", "a-1"]);
        assert_eq!(files("[a]\nrw=read\nsize=64m\nnumjobs=2\nfilename=/tmp/x\n"), ["-tmp-x"]);
    }

    #[test]
    fn what_is_wrong_or_unknown_is_said_with_its_line() {
        let told = |text: &str| experiment("job.fio", "job", text).unwrap_err().to_string();
        for (text, expected) in [
            ("rw=read\n", "job.fio:1: expected a section"),
            ("[a\n", "job.fio:1: `[a` has no `]`"),
            ("[a]\nrw=trim\n", "job.fio:2: `rw=trim`: expected read, write"),
            ("[a]\nsize=1g\nbs=3k\n", "job.fio:3: `bs=3k`: expected one size in whole pages"),
            ("[a]\nrw=read\n", "job.fio:1: job `a` has no `size`"),
            ("[a]\nsize=1g\ndirect=1\n", "job.fio:3: `direct=1` goes past the page cache"),
            ("[a]\nsize=1g\nstonewall\n", "job.fio:3: `stonewall` is not known here"),
            ("[a]\nsize=1g\ntime_based\n", "job.fio:1: job `a` is `time_based` and has no `runtime`"),
            ("[a]\nsize=1g\n[a]\nsize=1g\n", "job.fio:3: two jobs are called `a`, here and on line 1"),
            ("[global]\nrw=read\n", "job.fio:1: the file has no job"),
            ("[a]\nsize=99999999999t\n", "job.fio:2: `size=99999999999t`: expected a size"),
            (
                "[a]\nsize=1g\nnumjobs=99999999999\n",
                "job.fio:3: `numjobs=99999999999`: expected a number from 1 to 1024",
            ),
            (
                "[a]\nsize=1g\nbs=1g\n",
                "job.fio:3: `bs=1g`: expected one size in whole pages, such as 4k, and at most 16m",
            ),
            ("[a]\nsize=1g\nrandom_distribution=zipf:nan\n", "job.fio:3: `random_distribution=zipf:nan`: expected"),
            ("[a]\nsize=1g\nrate=0\n", "job.fio:3: `rate=0`: expected bytes per second"),
            ("[a]\nsize=1g\nrwmixread=101\n", "job.fio:3: `rwmixread=101`: expected a percentage"),
            ("[a]\nsize=1g\nfilename=a:b\n", "job.fio:3: `filename=a:b`: expected one file"),
        ] {
            assert!(told(text).starts_with(expected), "{text}: {}", told(text));
        }
    }
}
