//! `replay --memory` and `--what-if`: the trace on a machine, with memory of several sizes.

mod asked;
mod lines;
mod shown;

use super::super::options::{GuestOptions, SeedOptions};
use super::super::trace::{SourceOptions, wrong_input};
use super::super::{End, compare, output};
use super::Format;
use crate::cli::output::Output;
use ::trace::Trace;
use ::trace::read;
use asked::Asked;
use catalogue::ground::Ground;
use kit::interrupt::Leftover;
use kit::shown::warn;
use lines::Lines;
use shown::Shown;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use study::bars::Bars;
use study::plan::{JobFailure, Plan, Set, quoted};

/// Options for a trace on a machine.
#[derive(clap::Args)]
pub struct MachineOptions {
    /// Run the trace on a machine with so much memory: pages read, refaults, hits and time, by size and kernel
    #[arg(long, value_name = "256M,1G", value_delimiter = ',', num_args = 1, value_parser = asked::parse_memory)]
    memory: Vec<u64>,
    /// The kernels of the machine, names or files [default: 6.1-classic,6.1-mglru]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = super::super::options::parse_word)]
    kernels: Vec<String>,
    /// Run the trace with each value, one line for each combination: memory=1G,2G swappiness=10,60 kernel=6.1-classic. Other keys
    /// are choices of kernels, `depth`, `think_us`, or keys as for --set
    #[arg(long, value_name = "KEY=A,B", num_args = 1.., value_parser = super::super::options::parse_set)]
    what_if: Vec<Set>,
    /// Number of tasks that issue requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    depth: Option<u64>,
    /// Sleep of a task after each request, µs
    #[arg(long, value_name = "MICROSECONDS")]
    think: Option<u64>,
    /// Issue each request at its time in the trace, and not as soon as the one before is done
    #[arg(long)]
    timed: bool,
    /// The machine, a name or a file [default: trace-1g]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Change a value, as in `compare`. Repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::super::options::parse_set)]
    set: Vec<Set>,
    /// The grounds on which the trace runs: sim, host, linux, guest
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, default_value = "sim")]
    on: Vec<Ground>,
    /// The folder for the files that `host`, `linux` and `guest` make and remove at the end [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The kernel image of `guest`, a bzImage; repeatable, with a column for each image
    #[arg(long, value_name = "FILE")]
    kernel_image: Vec<PathBuf>,
    #[command(flatten)]
    guest: GuestOptions,
    #[command(flatten)]
    seeds: SeedOptions,
}

impl MachineOptions {
    /// Returns whether the trace is to run on a machine.
    pub fn is_asked(&self) -> bool {
        !self.memory.is_empty() || !self.what_if.is_empty()
    }

    /// Returns an option that has no meaning without a machine, if one is given.
    pub fn given(&self) -> Option<&'static str> {
        [
            ("--kernels", !self.kernels.is_empty()),
            ("--depth", self.depth.is_some()),
            ("--think", self.think.is_some()),
            ("--timed", self.timed),
            ("--machine", self.machine.is_some()),
            ("--set", !self.set.is_empty()),
            ("--dir", self.dir.is_some()),
            // The other options of guests need this one.
            ("--kernel-image", !self.kernel_image.is_empty()),
            ("--on", self.on != [Ground::Sim]),
            // A value that equals the default changes nothing.
            ("--seed", self.seeds.seed != 1),
            ("--runs", self.seeds.runs != 1),
            ("--jobs", self.seeds.jobs.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// A trace in the format `.hwtrace`, in a file of the user or in a temporary file.
struct Own {
    path: PathBuf,
    /// Removes the temporary file when dropped, or when an interrupt ends the process; none for a file of the user.
    _temporary: Option<Leftover>,
    /// The way in which the user makes the file `.hwtrace` that other verbs read.
    kept: Kept,
}

/// How the user makes a file `.hwtrace` from a trace, to give it to other verbs.
enum Kept {
    /// The trace is such a file.
    Already,
    /// The trace is in the format `.hwtrace`, but packed, in a pipe, or under another name.
    Unpacked,
    /// The trace is converted.
    Converted,
}

impl Kept {
    /// Returns the command that shows other rows and reports of a trace, on a machine if one is given, and with a value.
    fn follow_up(&self, source: &SourceOptions, machine: Option<&str>, set: &str) -> String {
        let kept = match self {
            Self::Already => source.file.clone(),
            Self::Unpacked | Self::Converted => source.own_name(),
        };
        let kept = quoted(&kept.display().to_string());
        let machine = machine.map_or_else(String::new, |machine| format!(" --machine {}", quoted(machine)));
        let compare = format!("highwater compare {kept}{machine} --set {set}");
        match self {
            Self::Already => format!("Other rows, reports and pictures: {compare}"),
            Self::Unpacked => {
                format!("Other rows, reports and pictures, with the unpacked trace in the file {kept}: {compare}")
            }
            Self::Converted => format!(
                "Other rows, reports and pictures: highwater trace convert {} --output {kept} && {compare}",
                source.words()
            ),
        }
    }
}

/// Makes a temporary file, which only the user may read, and which an interrupt removes. Returns the file, its path, and
/// the value that removes it when dropped.
fn temporary() -> io::Result<(File, PathBuf, Leftover)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let make = |path: &Path| Leftover::make(path, || options.open(path));
    let made = tempfile::Builder::new().prefix("replay-").suffix(".hwtrace").make(make)?;
    let ((file, leftover), path) = made.keep().map_err(|kept| kept.error)?;
    Ok((file, path, leftover))
}

impl Own {
    /// Returns the trace of a command line. A trace in another format is converted into a temporary file, and so is one
    /// that comes packed, by a pipe, or under a name without the ending `.hwtrace`.
    ///
    /// # Errors
    /// When the trace cannot be read, or no temporary file can be made.
    fn of(source: &SourceOptions) -> Result<(Self, Result<(), End>), End> {
        let file = &source.file;
        if read::is_own(file) && file.extension().is_some_and(|ending| ending == "hwtrace") {
            // Experiments from files are known by a slash or an ending.
            return Ok((Self { path: file.clone(), _temporary: None, kept: Kept::Already }, Ok(())));
        }
        let told = |error: io::Error| End::Failed(format!("cannot make a temporary file: {}", output::why(&error)));
        let (mut temporary, path, leftover) = temporary().map_err(told)?;
        let (kept, verdict) = match read::open(file, &source.options()).map_err(|wrong| wrong_input(&wrong))? {
            read::Opened::Own(trace) => {
                io::copy(&mut trace.bytes(), &mut temporary).map_err(told)?;
                (Kept::Unpacked, Ok(()))
            }
            read::Opened::Other(mut stream) => {
                read::convert(&mut stream, &temporary).map_err(|wrong| wrong_input(&wrong))?;
                (Kept::Converted, super::super::trace::tell(file, stream.counts()))
            }
        };
        Ok((Self { path, _temporary: Some(leftover), kept }, verdict))
    }
}

/// Runs a trace on a machine, and shows the figures by memory, kernel and other values.
pub fn run(
    options: &MachineOptions,
    source: &SourceOptions,
    format: Format,
    file: Option<Output>,
    plot: Option<Output>,
) -> Result<(), End> {
    let (own, verdict) = Own::of(source)?;
    let trace = Trace::open_quick(&own.path).map_err(|wrong| wrong_input(&wrong))?;
    let mut asked = Asked::of(options, &own.path, trace.metadata(), true)?;
    let plan = match Plan::new(&asked.request, grounds::find) {
        Err(error) if asked.has_nearby => {
            // A little less memory than the user asked for may be too little for the load.
            let without = Asked::of(options, &own.path, trace.metadata(), false)?;
            let plan = Plan::new(&without.request, grounds::find)?;
            warn(&format!("sizes of memory within 10 % are not run: {error}"));
            asked = without;
            plan
        }
        plan => plan?,
    };
    drop(trace);
    plan.unused().iter().for_each(|line| warn(line));
    let bars = Bars::new(&plan.title(), plan.count());
    let results = plan.run(options.seeds.threads(), &bars);
    drop(bars);
    if results.is_nothing() {
        return Err(compare::failed(&results.failures));
    }
    let is_only_nearby = |failure: &JobFailure| {
        results.table.columns.iter().any(|column| column.id == failure.column && asked.is_only_nearby(column))
    };
    let (nearby, failures): (Vec<JobFailure>, Vec<JobFailure>) = results.failures.into_iter().partition(is_only_nearby);
    for JobFailure { column, seed, failure, .. } in nearby {
        warn(&format!("ranges for sizes within 10 % lack a run that failed: {column}, seed {seed}: {failure}"));
    }
    let name = source.file.display().to_string();
    let lines = Lines::of(&results.table, &asked);
    let set = format!("{}={}", asked.memory_key, asked.memory_pages[0]);
    let follow_up = own.kept.follow_up(source, options.machine.as_deref(), &set);
    let shown = Shown { name: &name, asked: &asked, lines: &lines, notes: &results.table.notes, follow_up: &follow_up };
    let picture = plot.map(|file| (file, shown.picture()));
    let mut losses = output::Losses::default();
    losses.note(output::with_picture(picture, || {
        output::report(file, |out, look| out.write_all(&shown.in_format(format, look)))
    }));
    losses.note(compare::ended(&failures));
    losses.note(verdict);
    losses.end()
}
