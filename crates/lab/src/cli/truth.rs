//! The verb `truth`: compares kernel files with a kernel image.

use serde::Serialize;

use super::{
    End, ListFormat, compare,
    options::{GuestOptions, OutputOptions, SeedOptions, each_once, parse_word},
    output, with_command,
};
use catalogue::ground::{Ground, GroundOptions};
use kit::shown;
use report::Table;
use std::fs;
use std::path::{Path, PathBuf};
use study::bars::Bars;
use study::plan::{self, Plan};
use study::truth::{self, Counted, Difference, Held, Load, Record, Recorded, Suite};

/// Arguments of `highwater truth`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Names of loads [default: all]
    loads: Vec<String>,
    /// The kernel image of the guests, a bzImage; see `highwater guest check`. Repeatable
    #[arg(long, value_name = "FILE", required_unless_present = "recorded")]
    kernel_image: Vec<PathBuf>,
    #[command(flatten)]
    guest: GuestOptions,
    /// The kernel files [default: those nearest to the image's version]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, value_parser = parse_word)]
    kernels: Vec<String>,
    /// The folder for the disks of guests; the disks are removed at the end [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write the counters of the guests to a file, after each load
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Start no guest: compare simulations with the counters of guests that this file records
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel_image", "kernel_modules", "dir", "record"])]
    recorded: Option<PathBuf>,
    /// Show all counters, and not only those that diverge; with --dry-run, all runs
    #[arg(long)]
    all: bool,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    format: ListFormat,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// The report of `highwater truth` as JSON.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    notes: &'a [String],
    held: &'a [Held],
    differences: &'a [Difference],
}

/// Runs the loads on the simulator, and also in virtual machines (guests) unless `--recorded` names a file with
/// counters of guests. Reports which simulated counters agree with those of the guests.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let suite = truth::suite();
    let loads = named(&arguments.loads)?;
    let output = arguments.output.open(arguments.format == ListFormat::Html)?;
    let mut keeper = arguments.record.as_deref().map(Keeper::open).transpose()?;
    let recorded = arguments.recorded.as_deref().map(read).transpose()?;
    let plans = match &recorded {
        Some(recorded) => plans_beside(arguments, recorded, &loads)?,
        None => plans_with_guests(arguments, &loads)?,
    };
    let missing = recorded.as_ref().and_then(|record| missing(record, &loads));
    let titles: Vec<String> = plans.iter().flat_map(|(_, plan)| plan.titles()).collect();
    let (loads, plans): (Vec<&Load>, Vec<Plan>) = plans.into_iter().unzip();
    if arguments.output.is_dry("truth", &plans, arguments.all)? {
        return Ok(());
    }
    let bars = Bars::new("truth", titles.len());
    let mut results = Vec::new();
    // A load with guests takes minutes, so its results are recorded at once.
    for some in plans.chunks(if recorded.is_some() { plans.len() } else { 1 }) {
        results.extend(plan::run_all(some, arguments.seeds.threads(), &bars));
        if let Some(keeper) = &mut keeper {
            keeper.keep(suite, loads.iter().zip(&results).map(|(load, (_, results))| (*load, &results.table)))?;
        }
    }
    let failures = compare::all_failures(&results)?;
    let mut notes: Vec<String> = results.iter().flat_map(|(_, results)| results.table.notes.clone()).collect();
    if let Some(record) = &recorded {
        notes.extend(record.notes.clone());
        notes.extend(missing);
    }
    notes.sort_unstable();
    notes.dedup();
    if arguments.seeds.runs == 1 {
        notes.push("one seed of the simulator: `--runs 5` shows how far chance moves its counters".to_owned());
    }
    let of_load = |(load, (_, results)): (&&Load, &(&Plan, plan::Results))| -> Vec<Option<Counted>> {
        let guests: Vec<Recorded> = match &recorded {
            Some(record) => record.runs.iter().filter(|run| run.load == load.name).cloned().collect(),
            None => truth::recorded(suite, load, &results.table),
        };
        guests.iter().map(|guest| truth::counted(suite, guest, &results.table)).collect()
    };
    let counted: Vec<Counted> = loads.iter().zip(&results).flat_map(of_load).flatten().collect();
    let held: Vec<Held> = counted.iter().map(|counted| truth::held(suite, counted)).collect();
    let differences = truth::differences(suite, &counted);
    let text = match arguments.format {
        ListFormat::Text => format!("{}\n{}\n", truth::text(&held, &differences, arguments.all), notes.join("\n")),
        ListFormat::Markdown => truth::page(&held, &differences, arguments.all, &notes).markdown(),
        ListFormat::Html => with_command(truth::page(&held, &differences, arguments.all, &notes)).render(),
        ListFormat::Csv => {
            notes.iter().for_each(|note| shown::warn(note));
            truth::csv(&held, arguments.all)
        }
        ListFormat::Json => shown::json(&Report { schema: 2, notes: &notes, held: &held, differences: &differences }),
    };
    let mut losses = output::Losses::default();
    losses.note(output::report(output, |out, _| out.write_all(text.as_bytes())));
    losses.note(compare::ended(&failures));
    losses.end()
}

/// Returns a note on those of `loads` that a record lacks; none if it has all of them.
fn missing(record: &Record, loads: &[&Load]) -> Option<String> {
    let missing: Vec<&str> = loads.iter().filter(|load| !record.has(load)).map(|load| load.name.as_str()).collect();
    let names = missing.join(", ");
    let note = format!("loads that are not in the record, and that `--kernel-image` runs in a guest: {names}");
    (!missing.is_empty()).then_some(note)
}

/// The file of `--record`, which receives the counters of guests (virtual machines).
struct Keeper<'a> {
    path: &'a Path,
    /// The file as it was opened before the first load ran; none after the first write, since later writes open the
    /// file again.
    opened: Option<output::Output>,
}

impl<'a> Keeper<'a> {
    fn open(path: &'a Path) -> Result<Self, End> {
        Ok(Self { path, opened: Some(output::Output::open(OPTION, path)?) })
    }

    /// Writes the counters of all guests (virtual machines) that have run so far to the file of the option `--record`.
    /// `found` has the loads that were run, each with its results.
    fn keep<'t>(&mut self, suite: &Suite, found: impl Iterator<Item = (&'t Load, &'t Table)>) -> Result<(), End> {
        let mut record = Record::default();
        for (load, table) in found {
            // Only notes on guests are kept. Notes on simulations apply to this run only.
            record.notes.extend(table.notes.iter().filter(|note| note.starts_with("guest")).cloned());
            record.runs.extend(truth::recorded(suite, load, table));
        }
        record.notes.sort_unstable();
        record.notes.dedup();
        let output = self.opened.take().map_or_else(|| output::Output::open(OPTION, self.path), Ok)?;
        output.write(|out| out.write_all(shown::json(&record).as_bytes()))
    }
}

/// The option that names the file to which a [`Keeper`] writes the counters of guests.
const OPTION: &str = "--record";

/// Returns, for each load, the plan that runs it on the simulator and in virtual machines (guests).
fn plans_with_guests<'a>(arguments: &Arguments, loads: &[&'a Load]) -> Result<Vec<(&'a Load, Plan)>, End> {
    let place = GroundOptions {
        folder: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
        kernel_images: arguments.kernel_image.clone(),
        kernel_modules: arguments.guest.kernel_modules.clone(),
        start: arguments.guest.start(),
        ..GroundOptions::default()
    };
    let plan = |load: &&'a Load| plan(arguments, load, &[Ground::Sim, Ground::Guest], &arguments.kernels, &place);
    loads.iter().map(plan).collect()
}

/// Returns, for each load with recorded counters, the plan that simulates the load with the kernel files that the
/// record names. If `--kernels` is given, only kernel files in that list are simulated.
///
/// # Errors
/// Reports wrong usage when the record has none of the loads with any of these kernel files.
fn plans_beside<'a>(arguments: &Arguments, record: &Record, loads: &[&'a Load]) -> Result<Vec<(&'a Load, Plan)>, End> {
    let mut plans = Vec::new();
    for load in loads {
        let of_load = record.runs.iter().filter(|run| run.load == load.name).map(|run| run.kernel.clone());
        let is_asked = |kernel: &String| arguments.kernels.is_empty() || arguments.kernels.contains(kernel);
        let kernels: Vec<String> = of_load.filter(is_asked).collect();
        if !kernels.is_empty() {
            plans.push(plan(arguments, load, &[Ground::Sim], &each_once(&kernels), &GroundOptions::default())?);
        }
    }
    match plans.is_empty() {
        true => {
            let has = |run: &Recorded| format!("{} with {}", run.load, run.kernel);
            let has: Vec<String> = each_once(&record.runs.iter().map(has).collect::<Vec<_>>());
            let has = has.join(", ");
            Err(End::Usage(format!("the record has none of these loads with these kernel files: it has {has}")))
        }
        false => Ok(plans),
    }
}

fn plan<'a>(
    arguments: &Arguments,
    load: &'a Load,
    grounds: &[Ground],
    kernels: &[String],
    place: &GroundOptions,
) -> Result<(&'a Load, Plan), End> {
    let SeedOptions { seed, runs, .. } = arguments.seeds;
    let plan = Plan::new(&load.request(grounds, kernels, place, seed, runs.into()), grounds::find)?;
    match plan.skipped() {
        [] => Ok((load, plan.titled(|title| format!("{} {title}", load.name)))),
        skipped => Err(End::Usage(skipped.join("; "))),
    }
}

/// Reads a file of recorded counters, as `--record` writes it.
fn read(path: &Path) -> Result<Record, End> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| End::Usage(format!("{shown}: cannot be read: {error}")))?;
    Record::parse(&shown, &text).map_err(End::Usage)
}

/// Returns the loads that have the given names, or all loads if no names are given.
fn named(names: &[String]) -> Result<Vec<&'static Load>, End> {
    let loads = &truth::suite().loads;
    if names.is_empty() {
        return Ok(loads.iter().collect());
    }
    let find = |name: &String| {
        loads.iter().find(|load| load.name == *name).ok_or_else(|| {
            let known: Vec<String> = loads.iter().map(|load| format!("  {:<16}{}", load.name, load.about)).collect();
            End::Usage(format!("no load is called `{name}`; those that there are:\n{}", known.join("\n")))
        })
    };
    each_once(names).iter().map(find).collect()
}
