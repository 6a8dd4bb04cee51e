//! Files that `run` and `compare` write beside their report: profiles, series, pictures and traces, each in its own
//! file.

use std::{io, path::PathBuf};

use machine::Nanos;

use super::{
    End,
    options::open_svg,
    output::{self, Losses, Output},
};
use catalogue::ground::Ground;
use figures::profile::View;
use figures::series::Every;
use figures::trace::{RunTrace, Window};
use figures::{call_tree, generations, kernel_log, memory_map, profile, series, trace};
use kit::shown;
use report::plot;
use report::plot::flames;
use study::plan::{Plan, Request, Results};

/// Options that ask for files in addition to the report of a command.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("sampled").multiple(true), group = clap::ArgGroup::new("profiled").multiple(true))]
pub struct BesideOptions {
    /// Write a profile of virtual CPU time as folded stacks; each stack begins with the name of its run
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Draw a flame graph (SVG) of the virtual CPU time that the kernel spent, by task, for all seeds together
    #[arg(long, value_name = "FILE.svg", group = "profiled")]
    flamegraph: Option<PathBuf>,
    /// Draw a flame graph (SVG) that shows how the profile of the second column differs from that of the first
    #[arg(long, value_name = "FILE.svg", group = "profiled")]
    flamegraph_difference: Option<PathBuf>,
    /// Write a text on where the kernel spent virtual CPU time: self time by task, and inclusive time of all tasks
    #[arg(long, value_name = "FILE", group = "profiled")]
    call_tree: Option<PathBuf>,
    /// Also show the time that programs spend in their own code, in flame graphs and call trees
    #[arg(long, requires = "profiled")]
    user_time: bool,
    /// Write counters over time, as CSV: /proc/vmstat, free pages by zone, the queue of the disk
    #[arg(long, value_name = "FILE", group = "sampled")]
    series: Option<PathBuf>,
    /// Draw a picture (SVG) of physical memory over time: for each pageblock, what most of its pages are used for
    /// (`sim`, `guest`)
    #[arg(long, value_name = "FILE.svg", group = "sampled")]
    memory_map: Option<PathBuf>,
    /// Write, as CSV over time, how many free blocks there are of each order and migrate type, and how many pageblocks
    /// of each type (`sim`, `guest`)
    #[arg(long, value_name = "FILE", group = "sampled")]
    buddyinfo: Option<PathBuf>,
    /// Write the generations of pages over time, as text in the form of lru_gen_full of debugfs: ages, numbers of
    /// pages, and what reclaim did with each tier (`sim`, `guest`; kernels with `lru.policy = "multigen"`)
    #[arg(long, value_name = "FILE", group = "sampled")]
    lru_gen: Option<PathBuf>,
    /// Write the report that the simulated kernel logs for each process that it kills, in the form of dmesg (`sim`)
    #[arg(long, value_name = "FILE")]
    kernel_log: Option<PathBuf>,
    /// The interval of --series, --memory-map, --buddyinfo and --lru-gen, in seconds of the run
    #[arg(long, value_name = "SECONDS", requires = "sampled", default_value = "1", value_parser = parse_every)]
    #[arg(allow_negative_numbers = true)]
    every: Nanos,
    /// Write a trace for ui.perfetto.dev: tasks by CPU, interrupts, locks, disk requests (`sim`)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Trace only this part of each run, in seconds: 2.1..2.9. A trace has at most a million slices
    #[arg(long, value_name = "FROM..TO", requires = "trace", value_parser = parse_window, allow_hyphen_values = true)]
    trace_window: Option<Window>,
}

impl BesideOptions {
    /// Returns the first given option that needs a profile; none if no such option is given.
    pub fn wants_profile(&self) -> Option<&'static str> {
        let options = [
            ("--profile", self.profile.is_some()),
            ("--flamegraph", self.flamegraph.is_some()),
            ("--flamegraph-difference", self.flamegraph_difference.is_some()),
            ("--call-tree", self.call_tree.is_some()),
        ];
        first_given(&options)
    }

    /// Returns the first option that the user gave and that `ground` does not support, with words for the grounds that
    /// support the option. Returns none if `ground` supports all given options.
    pub fn unsupported_on(&self, ground: Ground) -> Option<(&'static str, &'static str)> {
        const SIM: &str = "ground `sim` alone, which knows every task at every moment";
        const SIM_AND_GUEST: &str = "grounds `sim` and `guest` alone";
        let is_sim = ground == Ground::Sim;
        let tells_memory = is_sim || ground == Ground::Guest;
        let options = [
            ("--trace", self.trace.is_some(), is_sim, SIM),
            ("--kernel-log", self.kernel_log.is_some(), is_sim, SIM),
            ("--memory-map", self.memory_map.is_some(), tells_memory, SIM_AND_GUEST),
            ("--buddyinfo", self.buddyinfo.is_some(), tells_memory, SIM_AND_GUEST),
            ("--lru-gen", self.lru_gen.is_some(), tells_memory, SIM_AND_GUEST),
        ];
        let unsupported = options.iter().find(|(_, is_given, is_supported, _)| *is_given && !is_supported);
        unsupported.map(|(name, .., grounds)| (*name, *grounds))
    }

    /// Refuses `--flamegraph-difference` unless there are two columns.
    ///
    /// # Errors
    /// When the option is given, and there are more or fewer than two columns.
    pub fn check_columns(&self, columns: usize) -> Result<(), String> {
        if self.flamegraph_difference.is_none() || columns == 2 {
            return Ok(());
        }
        Err(format!("--flamegraph-difference: expected two columns, to set beside each other; here are {columns}"))
    }

    /// Returns the name of the first given option that asks for a file; none if no such option is given.
    pub fn wants_any(&self) -> Option<&'static str> {
        let series = self.series.is_some().then_some("--series");
        let others = [("--trace", self.trace.is_some()), ("--memory-map", self.memory_map.is_some())];
        let texts = [
            ("--buddyinfo", self.buddyinfo.is_some()),
            ("--lru-gen", self.lru_gen.is_some()),
            ("--kernel-log", self.kernel_log.is_some()),
        ];
        self.wants_profile().or(first_given(&others)).or(first_given(&texts)).or(series)
    }

    /// Returns `request` with one change: its runs also record the data for the files that the options of this command
    /// ask for.
    pub fn of(&self, request: Request) -> Request {
        Request {
            profile: self.wants_profile().is_some(),
            series_every: self.series.is_some().then_some(Every::Ns(self.every.0)),
            memory_every: (self.memory_map.is_some() || self.buddyinfo.is_some()).then_some(self.every),
            generations_every: self.lru_gen.is_some().then_some(self.every),
            trace: self.trace.is_some().then(|| self.trace_window.unwrap_or_default()),
            ..request
        }
    }

    /// Opens the output file of each option that is given, such as `--series` and `--trace`.
    ///
    /// # Errors
    /// Reports wrong usage when a file cannot be written to, or has an extension for another kind of file.
    pub fn open(&self) -> Result<Beside, End> {
        let ending = self.series.as_ref().and_then(|path| path.extension());
        if ending.is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
            let why = "--series writes CSV, which no file that ends in .parquet should hold";
            return Err(End::Usage(why.into()));
        }
        Ok(Beside {
            profile: output::open("--profile", self.profile.as_deref())?,
            series: output::open("--series", self.series.as_deref())?,
            trace: output::open("--trace", self.trace.as_deref())?,
            map: open_svg("--memory-map", self.memory_map.as_deref())?,
            buddyinfo: output::open("--buddyinfo", self.buddyinfo.as_deref())?,
            lru_gen: output::open("--lru-gen", self.lru_gen.as_deref())?,
            kernel_log: output::open("--kernel-log", self.kernel_log.as_deref())?,
            flames: open_svg("--flamegraph", self.flamegraph.as_deref())?,
            flames_apart: open_svg("--flamegraph-difference", self.flamegraph_difference.as_deref())?,
            call_tree: output::open("--call-tree", self.call_tree.as_deref())?,
            view: View { user_time: self.user_time },
        })
    }
}

/// Returns the name of the first option in `options` that is given; none if none of them is given.
fn first_given(options: &[(&'static str, bool)]) -> Option<&'static str> {
    options.iter().find_map(|(name, is_given)| is_given.then_some(*name))
}

/// The files to write in addition to a report. They are opened before the work begins.
pub struct Beside {
    profile: Option<Output>,
    series: Option<Output>,
    trace: Option<Output>,
    map: Option<Output>,
    buddyinfo: Option<Output>,
    lru_gen: Option<Output>,
    kernel_log: Option<Output>,
    flames: Option<Output>,
    flames_apart: Option<Output>,
    call_tree: Option<Output>,
    /// The part of CPU time that the profiles show: with or without the programs' own code.
    view: View,
}

impl Beside {
    /// Writes the files. If a file cannot be written, adds the error to `losses` and still writes the other files.
    pub fn write(self, plan: &Plan, results: &Results, losses: &mut Losses) {
        let Self {
            profile: stacks,
            series,
            trace,
            map,
            buddyinfo,
            lru_gen,
            kernel_log,
            flames,
            flames_apart,
            call_tree,
            view,
        } = self;
        if let Some(file) = stacks {
            let text =
                |out: &mut dyn io::Write| profile::lines(&results.profile).try_for_each(|line| writeln!(out, "{line}"));
            losses.note(file.write(text));
        }
        if let Some(file) = flames {
            let svg = flames::picture(&results.table, &results.profile, view).map_err(End::Failed);
            losses.note(svg.and_then(|svg| file.write(|out| out.write_all(&svg))));
        }
        if let Some(file) = flames_apart {
            let svg = flames::difference(&results.table, &results.profile, view).map_err(End::Failed);
            losses.note(svg.and_then(|svg| file.write(|out| out.write_all(&svg))));
        }
        if let Some(file) = call_tree {
            losses.note(file.write(|out| call_tree::write(&results.profile, view, out)));
        }
        if let Some(file) = series {
            losses.note(file.write(|out| series::write(&results.series, out)));
        }
        if let Some(file) = map {
            let svg = plot::memory::picture(&plan.experiment, &results.table, &results.memory);
            losses.note(file.write(|out| out.write_all(svg.as_bytes())));
        }
        if let Some(file) = buddyinfo {
            losses.note(file.write(|out| memory_map::write(&results.memory, out)));
        }
        if let Some(file) = lru_gen {
            losses.note(file.write(|out| generations::write(&results.generations, out)));
        }
        if let Some(file) = kernel_log {
            losses.note(file.write(|out| kernel_log::write(&results.kernel_logs, out)));
        }
        if let Some(file) = trace {
            losses.note(file.write(|out| trace::write(&results.traces, out)));
            for warning in results.traces.iter().filter_map(RunTrace::warning) {
                shown::warn(&warning);
            }
        }
    }
}

/// Parses an interval in seconds. The interval must be a millisecond or more.
pub(super) fn parse_every(text: &str) -> Result<Nanos, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e6).contains(&seconds) => Ok(Nanos((seconds * 1e9) as u64)),
        _ => Err("expected seconds, from 0.001 to 1000000".into()),
    }
}

/// Parses `FROM..TO`, two times in seconds. A missing time stands for the start or the end of a run.
pub(super) fn parse_window(text: &str) -> Result<Window, String> {
    let time = |word: &str, open: Nanos| match word.parse::<f64>() {
        Ok(seconds) if (0.0..=1e6).contains(&seconds) => Some(Nanos((seconds * 1e9) as u64)),
        _ if word.is_empty() => Some(open),
        _ => None,
    };
    let Window { from, to } = Window::default();
    let window = text.split_once("..").and_then(|(begin, end)| {
        let window = Window { from: time(begin, from)?, to: time(end, to)? };
        (window.from < window.to).then_some(window)
    });
    window.ok_or_else(|| "expected seconds, from 0 to 1000000 and the later one last, such as 2.1..2.9".into())
}
