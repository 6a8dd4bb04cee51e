//! Runs a job of the ground `host` or `linux` in a process of its own.
//!
//! In a fresh process, CPU time, I/O and memory are those of this job alone. If the kernel kills this process for lack
//! of memory, the waiting process still cleans up.
//!
//! The waiting process (`run`) makes a folder for files and, for `linux`, a cgroup that limits memory. It removes both,
//! however the job ends. The working process ([`work_if_told`], the hidden verb `apart`) is put into the cgroup, and
//! reads its order, a line of JSON, from standard input. It answers on standard output with lines of progress and a
//! last line with the outcome. When standard input ends, the waiting process is gone, and the working process ends,
//! too.

use super::folder::Folder;
use super::ground::RealGround;
use crate::job::{Failure, Inside, Job, NamedJob, Outcome, Runnable};
use catalogue::find;
use catalogue::ground::GroundOptions;
use figures::cgroup::Cgroup;
use kit::progress::Progress;
use kit::{interrupt, panics};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Hidden subcommand with which this program is started to run one job in a process of its own, the working process.
const VERB: &str = "apart";

/// Interval at which the process that waits for a job checks whether the job has ended.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Interval at which the working process, which runs a job, reports progress.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Time that an interrupted job has to end by itself before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Longest time for which a job may wait for memory while reclaim frees nothing. After this time the job is killed.
const STARVED: Duration = Duration::from_secs(20);

/// The message to the working process: the job, and the folder and the cgroup in which to run it.
#[derive(Deserialize, Serialize)]
struct Sent {
    order: NamedJob,
    inside: Inside,
}

/// A line that the process which runs a job writes to the process that waits for the job: the progress, or the result.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Progress { now_ns: u64, total_ns: u64 },
    Found(Box<Outcome>),
    Failed(String),
}

/// The process that was started to run one job. The process is killed when this value is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // Errors are ignored: they only mean that the process has ended by itself.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Runs a job in a process of its own, waits for its end, and returns the outcome.
///
/// # Errors
/// When the job failed, was interrupted, or was killed for lack of memory.
pub(super) fn run<R: RealGround>(
    order: &NamedJob,
    place: &GroundOptions,
    job: &Job,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    let _guard = interrupt::guard();
    if interrupt::is_set() {
        return Err(interrupted());
    }
    let failed = |what: &'static str| move |error: io::Error| Failure(format!("{what}: {error}"));
    // The values below are dropped in the reverse order: the process, then its swap, its files, and its limit.
    let limit = R::limit(place, job)?;
    let cgroup = limit.as_ref().map(|limit| limit.cgroup.clone());
    let folder = Folder::new(&place.folder).map_err(failed("cannot make a folder for files"))?;
    let _swap = R::make_swap(place, job, &folder.0).map_err(failed("cannot make a swap file"))?;
    let mut command = Command::new(&place.program);
    command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut worker = Worker(command.spawn().map_err(failed("cannot start a process for the job"))?);
    let (stdin, stdout) = (worker.0.stdin.take(), worker.0.stdout.take());
    let (mut stdin, stdout) = (stdin.expect("it is a pipe"), stdout.expect("it is a pipe"));
    if let Some(cgroup) = &cgroup {
        cgroup.put_in(worker.0.id()).map_err(failed("cannot put the process into its cgroup"))?;
    }
    let sent = Sent { order: order.clone(), inside: Inside { folder: folder.0.clone(), cgroup: cgroup.clone() } };
    let line = serde_json::to_string(&sent).map_err(|error| Failure(format!("cannot tell the process: {error}")))?;
    writeln!(stdin, "{line}").map_err(failed("cannot tell the process"))?;
    let progress = progress.clone();
    let answers = thread::spawn(move || listen(stdout, &progress));
    let ended = wait(&mut worker.0, stdin, cgroup.as_ref()).map_err(failed("cannot wait for the process"))?;
    let answer = answers.join().unwrap_or_else(|_| Err("its answer cannot be read".into()));
    if interrupt::is_set() {
        return Err(interrupted());
    }
    answer.map(|outcome| *outcome).map_err(|message| Failure(why_ended(&ended, message, cgroup.as_ref())))
}

pub(super) fn interrupted() -> Failure {
    Failure("interrupted".into())
}

/// Reads the output of the working process line by line until it ends. Passes reported progress on to `progress`.
/// Returns the outcome, or the message of the failure.
fn listen(stdout: impl Read, progress: &Progress) -> Result<Box<Outcome>, String> {
    let mut found = Err("it ended without a word".into());
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Answer::Progress { now_ns, total_ns }) => {
                progress.set_now_ns(now_ns);
                progress.set_total_ns(total_ns);
            }
            Ok(Answer::Found(outcome)) => found = Ok(outcome),
            Ok(Answer::Failed(message)) => found = Err(message),
            Err(error) => found = Err(format!("its answer cannot be read: {error}")),
        }
    }
    found
}

/// The way in which the working process, which carries out a job, ended.
struct Ended {
    status: ExitStatus,
    /// `true` if the working process was killed because it waited for memory for longer than [`STARVED`] while nothing
    /// could be reclaimed.
    has_starved: bool,
}

/// Waits for the end of the working process. If the user interrupts, closes the process's standard input, so that the
/// process ends; kills the process if it still runs [`GRACE`] later. While the process waits for memory, reclaims
/// memory in its cgroup. If nothing can be reclaimed for longer than [`STARVED`], kills the process.
fn wait(child: &mut Child, stdin: impl Write, cgroup: Option<&Cgroup>) -> io::Result<Ended> {
    let mut stdin = Some(stdin);
    let mut told_at = None;
    let mut starved_since = None;
    let mut has_starved = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended { status, has_starved });
        }
        let starved = cgroup.filter(|cgroup| cgroup.is_out_of_memory());
        if starved.is_none_or(|cgroup| cgroup.help().is_ok()) {
            starved_since = None;
        } else if starved_since.get_or_insert_with(Instant::now).elapsed() > STARVED {
            has_starved = true;
            child.kill()?;
        }
        if interrupt::is_set() {
            stdin.take();
            if told_at.get_or_insert_with(Instant::now).elapsed() > GRACE {
                child.kill()?;
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn why_ended(Ended { status, has_starved }: &Ended, message: String, cgroup: Option<&Cgroup>) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(_) if *has_starved => format!(
            "killed for want of memory: nothing could be reclaimed for {} s; more swap helps, or a larger scale",
            STARVED.as_secs()
        ),
        // Some kernels do not count the kills in a cgroup. In that case the memory limit is the likeliest reason.
        Some(libc::SIGKILL) if cgroup.is_some_and(|cgroup| cgroup.kills() != Some(0)) => {
            "killed for want of memory, by the kernel (see its log): reclaim in the cgroup gave up".into()
        }
        Some(libc::SIGBUS) => {
            "a page of a mapped file could not be read (SIGBUS): the disk failed (see the kernel's log), \
                              or somebody made the file shorter"
                .into()
        }
        Some(signal) => format!("signal {signal} ended the process"),
        None => message,
    }
}

/// If this process was started as a working process, runs the job that standard input describes, and writes the answer
/// to standard output. `find` looks up a workload by its name. Returns `None` in any other process.
///
/// # Errors
/// When the job cannot be read, or the answer cannot be written.
pub fn work_if_told(find: impl Fn(&str) -> Option<&'static dyn Runnable>) -> Option<io::Result<()>> {
    std::env::args_os().skip(1).eq([VERB]).then(|| carry_out(find))
}

fn carry_out(find: impl Fn(&str) -> Option<&'static dyn Runnable>) -> io::Result<()> {
    answer_to(|sent, progress| work(&sent, find, progress))
}

/// Reads one line from standard input, calls `work` with the message in this line, and writes the answer to standard
/// output. If standard input ends meanwhile, the work is interrupted.
pub(super) fn answer_to<S: DeserializeOwned>(
    work: impl FnOnce(S, &Progress) -> Result<Outcome, Failure>,
) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let sent: S = serde_json::from_str(&line)?;
    let _guard = interrupt::guard();
    thread::spawn(|| {
        // Further input is ignored; only its end matters.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        interrupt::set();
    });
    let progress = Progress::default();
    tell_of(progress.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| work(sent, &progress)))
        .unwrap_or_else(|payload| Err(Failure(format!("a bug stopped it: {}", panics::message(&*payload)))));
    answer(&match outcome {
        Ok(outcome) => Answer::Found(Box::new(outcome)),
        Err(Failure(message)) => Answer::Failed(message),
    })
}

fn work(
    Sent { order, inside }: &Sent,
    find: impl Fn(&str) -> Option<&'static dyn Runnable>,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    let experiment = find::experiment(&order.experiment)?;
    let workload = find(&experiment.workload);
    let workload = workload.ok_or_else(|| Failure(format!("no workload is called `{}`", experiment.workload)))?;
    let job = Job {
        experiment: experiment.name,
        kernel: find::kernel(&order.kernel)?,
        machine: Arc::new(find::machine_with(&order.machine, &experiment.groups)?),
        params: experiment.params,
        seed: order.seed,
        scale: order.scale.parse()?,
        profile: false,
        series_every: order.series_every,
        memory_every: None,
        generations_every: None,
        trace: None,
        locks: false,
        ground: order.ground,
        makes_swap: false,
        device_pages: None,
        kernel_image: None,
        inside: Some(inside.clone()),
    };
    workload.run(&job, progress)
}

/// Starts a thread that writes the job's progress to standard output at intervals. The thread ends with the process.
fn tell_of(progress: Progress) {
    let started = Instant::now();
    thread::spawn(move || {
        loop {
            thread::sleep(TELL_EVERY);
            let now_ns = started.elapsed().as_nanos() as u64;
            if answer(&Answer::Progress { now_ns, total_ns: progress.total_ns() }).is_err() {
                return;
            }
        }
    });
}

fn answer(answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
