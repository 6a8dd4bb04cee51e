//! Starts the command to record, or attaches to running processes, and writes the record.

use crate::elf::{Program, find};
use crate::follow::Sums;
use crate::memory::{Course, descendants};
use crate::metadata;
use crate::options::{Means, Options, Target};
use crate::shim::Shim;
use crate::source::Source;
use crate::tracefs::Tracefs;
use kit::draft::Draft;
use kit::interrupt;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trace::{Kind, Operation, Request, Writer};

/// The reason why a recording has no record.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The user's request is wrong: for example, the command does not exist, or the process does not run.
    Usage(String),
    /// The request is right, but a step of the recording failed. The text says which step and why.
    Failed(String),
}

impl Error {
    fn failed(what: &str, error: &io::Error) -> Self {
        Self::Failed(format!("{what}: {}", kit::input::why(error)))
    }
}

/// The results of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// Sums over the requests.
    pub sums: Sums,
    /// Number of files that were opened.
    pub files: usize,
    /// Number of opened files that lie in memory only (tmpfs).
    pub files_in_memory: usize,
    /// Size of the record, bytes.
    pub record_bytes: u64,
    /// Duration of the recording.
    pub elapsed: Duration,
    /// Exit status of the recorded command; `None` if no command was recorded, or if the command still runs.
    pub status: Option<ExitStatus>,
    /// True if the user's interrupt (such as Ctrl-C) ended the recording.
    pub is_interrupted: bool,
    /// Process IDs of the processes that the command started and that outlived the command.
    pub left: Vec<u32>,
    /// The kinds of activity that the record lacks, in words.
    pub not_seen: Vec<String>,
    /// Largest resident memory of the processes, bytes. Pages of files do not count.
    pub peak_resident: u64,
    /// Largest kernel memory, bytes. The flag is true if this is all kernel memory of a cgroup, and false if it is only
    /// the page tables of the processes.
    pub peak_kernel: (u64, bool),
}

/// Interval at which the recorder checks whether the recording has to end, while no events arrive.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Records a command, a process or a cgroup. Returns when the recorded processes have ended, or when `seconds` of the
/// options are over.
///
/// If the caller holds an [`interrupt::Guard`], Ctrl-C, SIGTERM and SIGHUP end the recording, and the record is
/// complete. SIGTERM and SIGHUP are passed on to the command; the terminal sends the signal of Ctrl-C to the command
/// itself. If `seconds` are over before the command ends, the record is complete, the command continues, and this
/// function returns when the command has ended.
///
/// # Errors
/// When the command does not exist, or cannot be recorded in the way that the options name. Also when the record cannot
/// be written: then no record is left. If the command was already running, this function returns when it has ended.
pub fn record(options: &Options) -> Result<Recorded, Error> {
    let mut source: Box<dyn Source> = match options.means {
        Means::Shim { pages_open } => Box::new(shim(options, pages_open)?),
        Means::Tracefs => Box::new(Tracefs::new().map_err(Error::Failed)?),
    };
    // A record has names of files, which are nobody else's business.
    let draft = Draft::private_beside(&options.output)
        .map_err(|error| Error::failed(&format!("cannot write {}", options.output.display()), &error))?;
    let written = |error: io::Error| Error::failed(&format!("cannot write {}", options.output.display()), &error);
    let file = draft.file().try_clone().map_err(written)?;
    let mut writer = Writer::new(file, Kind::Ranges).map_err(written)?;
    let mut session = Session {
        source: &mut *source,
        sums: Sums::default(),
        course: Course::new(options.watch.clone()),
        begun: Instant::now(),
    };
    let mut child = start(options, session.source)?;
    let processes = match &child {
        Some(child) => BTreeSet::from([child.id()]),
        None => processes_of(&options.target, None),
    };
    session.source.attach(&options.target, &processes).map_err(Error::Usage)?;
    let status = session.run(options, child.as_mut(), &mut writer);
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            drop(writer);
            drop(draft);
            if let Some(child) = child.as_mut() {
                eprintln!("warning: the recording ends here ({error}); the command goes on");
                wait(child);
            }
            return Err(written(error));
        }
    };
    session.finish(options, child, status, writer, draft)
}

/// Makes the source that records a command through the recording library (the shim). Fails if the target is no command,
/// or if the library cannot be loaded into it.
fn shim(options: &Options, pages_open: u64) -> Result<Shim, Error> {
    let Target::Command(command) = &options.target else {
        let why = "a library cannot be loaded into a process that runs: record it by tracefs, as root";
        return Err(Error::Usage(why.to_owned()));
    };
    let name = command.first().map(String::as_str).unwrap_or_default();
    let Some(path) = find(name) else {
        return Err(Error::Usage(format!("cannot run `{name}`: there is no such program")));
    };
    if let Some(why) = Program::through_scripts(&path).why_not() {
        let hint = "root can record it by tracefs (--tracefs)";
        return Err(Error::Failed(format!("nothing would be recorded: {} {why}; {hint}", path.display())));
    }
    Shim::new(pages_open).map_err(|error| Error::failed("cannot record", &error))
}

/// Returns the numbers of the target's processes that run at present. `child` is the command, if the target is one.
fn processes_of(target: &Target, child: Option<&Child>) -> BTreeSet<u32> {
    match target {
        Target::Command(_) => child.map(|child| descendants([child.id()])).unwrap_or_default(),
        Target::Process(process) => descendants([*process]),
        Target::Cgroup(path) => {
            let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            text.lines().filter_map(|line| line.parse().ok()).collect()
        }
    }
}

/// Starts the command that is to be recorded. If the options name a cgroup, the command runs in this cgroup. Returns
/// the process. Returns `None`, and starts nothing, if the target is a running process or a cgroup.
fn start(options: &Options, source: &mut dyn Source) -> Result<Option<Child>, Error> {
    let Target::Command(words) = &options.target else { return Ok(None) };
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::Usage("a command is expected behind `--`".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(cgroup) = &options.watch.cgroup {
        enter(&mut command, cgroup.path.join("cgroup.procs"));
    }
    source.prepare(&mut command);
    command.spawn().map(Some).map_err(|error| {
        let said = format!("cannot run `{program}`: {error}");
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Error::Usage(said),
            _ => Error::Failed(said),
        }
    })
}

/// Makes the command enter a cgroup when it starts. `procs` is the path of the cgroup's file `cgroup.procs`.
fn enter(command: &mut Command, procs: PathBuf) {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;
    let enter = move || fs::OpenOptions::new().write(true).open(&procs)?.write_all(b"0");
    // SAFETY: between fork and exec the child only opens and writes a file whose name was allocated before; it takes
    // no lock.
    unsafe { command.pre_exec(enter) };
}

/// Waits for the end of a command after its recording has ended. Meanwhile, passes SIGTERM and SIGHUP on to the
/// command.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let mut is_told = false;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        pass_on(child, &mut is_told);
        sleep(Duration::from_millis(10));
    }
}

fn pass_on(child: &Child, is_told: &mut bool) {
    if interrupt::is_passed_on() && !*is_told {
        // The command may just have ended.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        *is_told = true;
    }
}

/// The state of a running recording.
struct Session<'a> {
    source: &'a mut dyn Source,
    sums: Sums,
    course: Course,
    begun: Instant,
}

type Out = Writer<fs::File>;

impl Session<'_> {
    /// Writes the requests that the source has ready to the trace. Returns the number of events that the source read.
    /// With `is_end`, ends the source, writes its last requests, and returns 0.
    fn take(&mut self, is_end: bool, writer: &mut Out) -> io::Result<u64> {
        let sums = &mut self.sums;
        let mut sink = |request: &Request| put(sums, writer, request);
        if is_end { self.source.end(&mut sink).map(|()| 0) } else { self.source.poll(false, &mut sink) }
    }

    /// Records until the target has ended, the time is over, or an interrupt comes. Returns how the command ended.
    fn run(
        &mut self,
        options: &Options,
        mut child: Option<&mut Child>,
        writer: &mut Out,
    ) -> io::Result<Option<ExitStatus>> {
        let mut is_told = false;
        let mut status = None;
        loop {
            let taken = self.take(false, writer)?;
            if self.course.is_due() {
                let processes = processes_of(&options.target, child.as_deref());
                self.source.look(&processes);
                self.course.look(self.source.now_us(), &processes, &|process| self.source.own_memory(process));
                let is_gone = processes.iter().all(|process| !fs::exists(format!("/proc/{process}")).unwrap_or(false));
                if child.is_none() && is_gone {
                    break;
                }
            }
            if let Some(child) = child.as_mut() {
                status = child.try_wait()?;
                if status.is_some() {
                    break;
                }
                pass_on(child, &mut is_told);
            } else if interrupt::is_set() {
                break;
            }
            if options.seconds.is_some_and(|seconds| self.begun.elapsed() >= seconds) {
                break;
            }
            if taken < 256 {
                sleep(LOOK_EVERY);
            }
        }
        self.take(true, writer)?;
        Ok(status)
    }

    /// Completes the record: writes an end event for each process that has ended without one, then the names and the
    /// metadata. After that, waits for the command if it still runs.
    fn finish(
        mut self,
        options: &Options,
        mut child: Option<Child>,
        mut status: Option<ExitStatus>,
        mut writer: Out,
        draft: Draft,
    ) -> Result<Recorded, Error> {
        let written = |error: io::Error| Error::failed(&format!("cannot write {}", options.output.display()), &error);
        let now_us = self.source.now_us();
        let left = self.end_tasks(now_us, child.as_ref(), &mut writer).map_err(written)?;
        let elapsed = self.begun.elapsed();
        self.source.files().look_again();
        let metadata = metadata::metadata(options, self.source, &self.course, elapsed.as_micros() as u64);
        let (files, tasks) = metadata::names(self.source, options.hasher.as_ref());
        let file = writer.finish(&files, &tasks, &metadata).map_err(written)?;
        let record_bytes = file.metadata().map_err(written)?.len();
        draft.finish().map_err(written)?;
        if status.is_none()
            && let Some(child) = child.as_mut()
        {
            status = wait(child);
        }
        let not_seen = metadata["not_seen"].as_array().into_iter().flatten();
        Ok(Recorded {
            sums: self.sums,
            files: files.len(),
            files_in_memory: self.source.files().in_memory(),
            record_bytes,
            elapsed,
            status,
            is_interrupted: interrupt::is_set(),
            left,
            not_seen: not_seen.filter_map(|line| line.as_str().map(str::to_owned)).collect(),
            peak_resident: self.course.peak_resident(),
            peak_kernel: (self.course.peak_kernel(), self.course.has_cgroup()),
        })
    }

    /// Writes an end event for each process that has ended without one. Returns the processes that still run, except
    /// the command.
    fn end_tasks(&mut self, now_us: u64, child: Option<&Child>, writer: &mut Out) -> io::Result<Vec<u32>> {
        let own = child.map(Child::id);
        let is_there = |process: u32| fs::exists(format!("/proc/{process}")).unwrap_or(false);
        let running = self.source.tasks().running().map(|(number, task)| (number, task.process)).collect::<Vec<_>>();
        let mut left = Vec::new();
        for (task, process) in running {
            if is_there(process) {
                if Some(process) != own {
                    left.push(process);
                }
                continue;
            }
            let request = Request { time_us: now_us, task, operation: Operation::Exit, ..Request::default() };
            put(&mut self.sums, writer, &request)?;
            self.source.tasks().end(process, now_us);
        }
        Ok(left)
    }
}

/// Writes a request to the record, and adds it to `sums`.
fn put(sums: &mut Sums, writer: &mut Out, request: &Request) -> io::Result<()> {
    match writer.push(request) {
        Ok(()) => {
            sums.add(request);
            Ok(())
        }
        // A program may ask for any range, such as one beyond all limits: nothing is there to be cached.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(error) => Err(error),
    }
}
