//! `replay --memory` and `--what-if`: the trace on a machine, with memory of several sizes.

mod asked;
mod lines;
mod shown;

use super::super::options::SeedOptions;
use super::super::trace::{SourceOptions, wrong_input};
use super::super::{End, compare, output};
use super::Format;
use crate::cli::output::Output;
use ::trace::Trace;
use ::trace::read;
use asked::Asked;
use catalogue::ground::Ground;
use kit::shown::warn;
use lines::Lines;
use shown::Shown;
use std::path::PathBuf;
use study::bars::Bars;
use study::plan::{Plan, Set};
use tempfile::NamedTempFile;

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
    /// The folder for the files that `host` and `linux` make and remove at the end [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
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
            ("--on", self.on != [Ground::Sim]),
        ]
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// A trace in the format `.hwtrace`, in a file of the user or in a temporary file.
struct Own {
    path: PathBuf,
    /// Removes the temporary file when dropped; none for a file of the user.
    _temporary: Option<NamedTempFile>,
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
            return Ok((Self { path: file.clone(), _temporary: None }, Ok(())));
        }
        let told =
            |error: std::io::Error| End::Failed(format!("cannot make a temporary file: {}", output::why(&error)));
        let temporary = tempfile::Builder::new().prefix("replay-").suffix(".hwtrace").tempfile().map_err(told)?;
        let verdict = match read::open(file, &source.options()).map_err(|wrong| wrong_input(&wrong))? {
            read::Opened::Own(trace) => {
                std::io::copy(&mut trace.bytes(), &mut temporary.as_file()).map_err(told)?;
                Ok(())
            }
            read::Opened::Other(mut stream) => {
                read::convert(&mut stream, temporary.as_file()).map_err(|wrong| wrong_input(&wrong))?;
                super::super::trace::tell(file, stream.counts())
            }
        };
        Ok((Self { path: temporary.path().to_owned(), _temporary: Some(temporary) }, verdict))
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
    let name = source.file.display().to_string();
    let lines = Lines::of(&results.table, &asked);
    let shown = Shown { name: &name, asked: &asked, lines: &lines, notes: &results.table.notes };
    let picture = plot.map(|file| (file, shown.picture()));
    let mut losses = output::Losses::default();
    losses.note(output::with_picture(picture, || {
        output::report(file, |out, look| out.write_all(shown.in_format(format, look).as_bytes()))
    }));
    losses.note(compare::ended(&results.failures));
    losses.note(verdict);
    losses.end()
}
