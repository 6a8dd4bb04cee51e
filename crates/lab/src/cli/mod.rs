//! The command `highwater`, with a module for each verb.
//!
//! Exit status: 0 for success, 1 if the work failed, 2 for wrong usage or wrong input files. Reports go to standard
//! output (or `--output`), everything else to standard error. If a reader closes its pipe, the command ends without a
//! message.

mod ablate;
mod bench;
mod beside;
mod compare;
mod diff;
mod doctor;
mod explain;
mod fidelity;
mod form;
#[cfg(feature = "linux")]
mod guest;
mod import;
mod list;
#[cfg(feature = "linux")]
mod machine;
#[cfg(feature = "linux")]
mod machine_from;
mod options;
mod output;
mod rank;
mod replay;
mod report;
mod results;
mod saved;
#[cfg(feature = "linux")]
mod stat;
mod swarm;
mod sweep;
mod trace;
mod truth;
mod variants;

use form::Form;
use std::{
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use placed::Error;

use ::report::html::{Page, Part, Section};
use ::report::{Look, grid};
use grounds::real_time;
use kit::shown::{harmless, warn};
use kit::{in_use, panics};
use study::plan;

/// Run workloads under different versions of Linux page reclaim, and compare the figures.
#[derive(Parser)]
#[command(name = "highwater", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List kernels, machines, experiments and workloads, with a line about each
    List,
    /// Show every value of a kernel, machine or experiment with its source, or what one key means
    Explain(explain::Arguments),
    /// Run experiments with several kernels, and show a table for each experiment with a column for each kernel
    Compare(compare::CompareArguments),
    /// Run an experiment with one kernel
    Run(compare::RunArguments),
    /// Run an experiment as it is and with each variant of its file, and show a line for each
    Variants(variants::Arguments),
    /// Show the values in which two kernels differ
    Diff(diff::Arguments),
    /// Apply each difference between two kernels alone, and revert each alone, to find the one that changes a figure
    Ablate(ablate::Arguments),
    /// Compare every published figure with the simulated one
    Fidelity(fidelity::Arguments),
    /// Compare kernel files with a real kernel in a virtual machine, and list the counters that diverge, causes before
    /// effects
    Truth(truth::Arguments),
    /// Compare a kernel with all others by the main figure of every experiment
    Rank(rank::Arguments),
    /// Run every combination of kernels, machines and values, or a part of them, and keep the results in a store
    Sweep(sweep::Arguments),
    /// Show the results that `--store` has kept, or copy several folders into one
    Results(results::Arguments),
    /// Show saved reports side by side, as one page with charts or in any other form
    Report(report::Arguments),
    /// Read, describe or make a trace of what programs do to files and caches
    #[command(subcommand)]
    Trace(trace::Which),
    /// Replay a trace on cache policies without time: which share of the requests does each miss, in caches of several sizes?
    Replay(replay::Arguments),
    /// Read logs of MMTests as a report
    Import(import::Arguments),
    /// Test the engine: run random machines, kernels and tasks, and check every page
    Swarm(swarm::Arguments),
    /// Measure the simulator and the library on this computer, in some seconds
    Bench(bench::Arguments),
    /// Report what reclaim of the running kernel did while a command ran, or until Ctrl-C
    #[cfg(feature = "linux")]
    Stat(stat::Arguments),
    /// Describe a computer as a machine file: this one, or another one from pasted texts
    #[cfg(feature = "linux")]
    #[command(subcommand)]
    Machine(machine::Which),
    /// Describe this computer as a machine file; the costs of steps and of the disk are measured by runs on the kernel
    /// and the simulator
    #[cfg(feature = "linux")]
    Calibrate(machine::CalibrateArguments),
    /// Check the requirements of the ground `guest`, a kernel image in a virtual machine
    #[cfg(feature = "linux")]
    #[command(subcommand)]
    Guest(guest::Which),
    /// Diagnose memory in words: of the running kernel, or of saved reports and recordings
    Doctor(doctor::Arguments),
}

/// Verbs grouped by purpose, in the order of `--help`.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Simulate", &["run", "compare", "variants", "ablate", "rank", "fidelity", "truth", "sweep", "swarm"]),
    ("Explain", &["list", "explain", "diff"]),
    ("This computer", &["doctor", "stat", "machine", "calibrate", "guest", "bench"]),
    ("Traces", &["trace", "replay"]),
    ("Reports", &["report", "results", "import", "help"]),
];

/// Returns the definition of the command line for clap. Its help shows the verbs in groups.
fn arguments(look: Look) -> clap::Command {
    let command = Arguments::command();
    let header = *command.get_styles().get_header();
    let width = GROUPS.iter().flat_map(|(_, verbs)| *verbs).map(|verb| verb.len()).max().unwrap_or(0);
    // Help uses at most the width that clap gives to options.
    let look = Look { width: look.width.min(100), ..look };
    let verb = |name: &&str| {
        let about = match (command.find_subcommand(name), *name) {
            (Some(verb), _) => verb.get_about().map(ToString::to_string)?,
            (None, "help") => "Print this, or the help of a verb".to_owned(),
            (None, _) => return None,
        };
        Some(grid::hanging(&format!("  {name:width$}  "), &about, look))
    };
    let groups = GROUPS.map(|(title, verbs)| {
        format!("{header}{title}:{header:#}\n{}", verbs.iter().filter_map(verb).collect::<String>())
    });
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\n{header}Options:{header:#}\n{{options}}",
        groups.join("\n")
    );
    command.help_template(template)
}

/// The reason why a command ends without having done its work. Each reason has an exit status.
enum End {
    /// Wrong usage or wrong input: status 2.
    Usage(String),
    /// The work failed: status 1.
    Failed(String),
    /// The reader of the output closed the pipe: status 0, without a message.
    ClosedPipe,
    /// Arguments that clap does not accept, or a request for help.
    Arguments(clap::Error),
}

impl End {
    /// Prints clap's message, if clap ended the command. Returns success if the message is the help or the version, and
    /// could be written.
    ///
    /// # Errors
    /// Returns `self` if the command ended for another reason, or if the message is about wrong arguments.
    fn told_by_clap(self) -> Result<(), Self> {
        let Self::Arguments(error) = &self else { return Err(self) };
        if !error.use_stderr() {
            output::check_standard_output()?;
        }
        let written = error.print().and_then(|()| io::stdout().flush());
        if error.use_stderr() {
            return Err(self);
        }
        Ok(written?)
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Failed(format!("cannot write the report: {}", output::why(&error))),
        }
    }
}

/// Runs the command with the process's arguments. Returns its exit status.
#[must_use]
pub fn main() -> ExitCode {
    panics::keep_quiet();
    #[cfg(feature = "linux")]
    computer::sys::ignore_size_signal();
    let run = || {
        // The hidden verbs with which this program starts itself are handled before clap. If clap knew them, it would
        // suggest them for mistyped verbs.
        real_time::guest::act_if_first();
        let worked = real_time::apart::work_if_told(grounds::find);
        match worked.or_else(|| real_time::guest::work_if_told(grounds::find)) {
            Some(worked) => Ok(worked?),
            None => carry_out(),
        }
    };
    let end = catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|payload| Err(End::Failed(format!("a bug stopped it: {}", panics::message(&*payload)))));
    let end = match in_use::refused() {
        // A file that is both read and written is an error, whatever the result of the command.
        Some(why) => Err(End::Usage(why)),
        None => end,
    };
    let (message, status) = match end.or_else(End::told_by_clap) {
        Ok(()) | Err(End::ClosedPipe) => return ExitCode::SUCCESS,
        Err(End::Usage(message)) => (message, 2),
        // Shells report 130 for a command that SIGINT ended.
        Err(End::Failed(message)) if kit::interrupt::is_set() => (message, 130),
        Err(End::Failed(message)) => (message, 1),
        Err(End::Arguments(_)) => return ExitCode::from(2),
    };
    // If standard error is closed, too, only the status reports the error.
    let _ = writeln!(io::stderr(), "error: {}", harmless(&message));
    ExitCode::from(status)
}

/// Parses the process's arguments and runs the verb that they name.
fn carry_out() -> Result<(), End> {
    let found = arguments(Look::of_stdout()).try_get_matches().and_then(|found| Arguments::from_arg_matches(&found));
    match found.map_err(End::Arguments)?.verb {
        Verb::List => list::run(),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Compare(arguments) => compare::compare(&arguments),
        Verb::Run(arguments) => compare::run(&arguments),
        Verb::Variants(arguments) => variants::run(&arguments),
        Verb::Diff(arguments) => diff::run(&arguments),
        Verb::Ablate(arguments) => ablate::run(&arguments),
        Verb::Truth(arguments) => truth::run(&arguments),
        Verb::Fidelity(arguments) => fidelity::run(&arguments),
        Verb::Rank(arguments) => rank::run(&arguments),
        Verb::Sweep(arguments) => sweep::run(&arguments),
        Verb::Results(arguments) => results::run(&arguments),
        Verb::Import(arguments) => import::run(&arguments),
        Verb::Trace(which) => trace::run(&which),
        Verb::Replay(arguments) => replay::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Swarm(arguments) => swarm::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        #[cfg(feature = "linux")]
        Verb::Stat(arguments) => stat::run(&arguments),
        #[cfg(feature = "linux")]
        Verb::Machine(machine::Which::Here(arguments)) => machine::here(&arguments),
        #[cfg(feature = "linux")]
        Verb::Machine(machine::Which::From(arguments)) => machine_from::run(&arguments),
        #[cfg(feature = "linux")]
        Verb::Calibrate(arguments) => machine::calibrate(&arguments),
        #[cfg(feature = "linux")]
        Verb::Guest(which) => guest::run(&which),
        Verb::Doctor(arguments) => doctor::run(&arguments),
    }
}

/// Returns the command line that started this process, quoted for a shell.
fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| plan::quoted(&word.to_string_lossy()));
    std::iter::once("highwater".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The form of a text for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum TextFormat {
    /// Text for a terminal.
    #[default]
    #[value(alias = "table")]
    Text,
    /// The text in Markdown.
    Markdown,
    /// The text as JSON, for programs; docs/json.md describes it.
    Json,
    /// One page that opens without a network.
    Html,
}

/// The form of a report that has figures, but is no table with a column for each kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ListFormat {
    /// Text for a terminal.
    #[default]
    #[value(alias = "table")]
    Text,
    /// The text in Markdown.
    Markdown,
    /// A line for each figure or finding, for spreadsheets and programs; docs/json.md names the fields.
    Csv,
    /// The report as JSON, for programs; docs/json.md describes it.
    Json,
    /// One page that opens without a network.
    Html,
}

/// The destination and form of a text.
#[derive(Clone, Debug, clap::Args)]
struct TextOptions {
    /// The form of the text
    #[arg(long, value_enum, default_value_t)]
    format: TextFormat,
    /// Write the text to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl TextOptions {
    /// Writes the output in the requested form. For plain text, it is the result of `text`, which receives the width
    /// and colours of the output. For the other forms, it is made from the result of `page`. An HTML page ends with the
    /// command that made it.
    fn write(&self, text: impl Fn(Look) -> String, page: impl Fn() -> Page) -> Result<(), End> {
        let file = output::open_report(self.format == TextFormat::Html, self.output.as_deref())?;
        output::report(file, |out, look| {
            let text = match self.format {
                TextFormat::Text => text(look),
                TextFormat::Markdown => page().markdown(),
                TextFormat::Json => page().json(),
                TextFormat::Html => with_command(page()).render(),
            };
            out.write_all(text.as_bytes())
        })
    }
}

/// Prints a warning, if there is one, to standard error.
fn warn_of(message: Option<String>) {
    if let Some(message) = message {
        warn(&message);
    }
}

/// Adds a last section to an HTML page: the command line that made the page.
fn with_command(mut page: Page) -> Page {
    page.sections.push(Section::new("Command", vec![Part::Command(command())]));
    page
}

/// Prints a text that depends on the width of standard output.
fn show(text: impl Fn(Look) -> String) -> Result<(), End> {
    output::report(None, |out, look| out.write_all(harmless(&text(look)).as_bytes()))
}

/// Prints a text to standard output.
fn print(text: &str) -> Result<(), End> {
    output::report(None, |out, _| out.write_all(harmless(text).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        arguments(Look::default()).debug_assert();
    }

    #[test]
    fn every_verb_is_in_one_group_of_the_help() {
        let command = Arguments::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        for verb in command.get_subcommands().map(clap::Command::get_name) {
            assert_eq!(grouped.iter().filter(|name| **name == verb).count(), 1, "{verb}");
        }
        let help = arguments(Look::default()).render_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("no `{text}` in {help}"));
        assert!(at("Simulate:") < at("  compare ") && at("  compare ") < at("Explain:"), "{help}");
        assert!(at("This computer:") < at("  doctor ") && at("  import ") < at("Options:"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
