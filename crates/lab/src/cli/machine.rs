//! The verbs `machine here` and `calibrate`.

use super::compare::failed;
use super::{End, output};
use catalogue::ground::{Ground, GroundOptions};
use kit::{interrupt, shown};
use observe::stat::snapshot::Source;
use observe::this_computer::load::{Load, WARN_FROM_PERCENT};
use observe::this_computer::text::{GROUPS, Group, Measured};
use observe::this_computer::{Computer, measure, nearest, text};
use study::bars::Bars;
use study::plan::{Plan, Request, Set};

use machine::PAGE_BYTES;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The computer to describe.
#[derive(clap::Subcommand)]
pub enum Which {
    /// Describe this computer as a machine file, from what its kernel reports
    Here(Arguments),
    /// Describe another computer as a machine file, from its /proc/zoneinfo, /proc/meminfo or kernel log
    From(super::machine_from::Arguments),
}

/// Arguments of `highwater calibrate`.
#[derive(clap::Args)]
pub struct CalibrateArguments {
    /// Make only the measurements that take some seconds: steps that a program can time, and the disk. The costs of
    /// steps of reclaim keep their assumed values
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    computer: Arguments,
}

/// Arguments that the verbs `highwater machine here` and `highwater calibrate` have in common.
#[derive(clap::Args)]
pub struct Arguments {
    /// The limit of a memory cgroup around all tasks, as --on linux makes one: 512M, 2G
    #[arg(long, value_name = "BYTES", value_parser = super::stat::parse_bytes)]
    limit: Option<u64>,
    /// The folder for the files of workloads; the disk on which it lies becomes the machine's disk [default: the
    /// system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write the machine file to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The memory limit that `calibrate` uses if none is given, bytes.
const LIMIT_DEFAULT: u64 = 256 << 20;

/// The row (a figure of a report) by which `calibrate` compares this computer's kernel with the simulator.
const ROW: &str = "System s per M ops";

impl Arguments {
    fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    fn limit_pages(&self, computer: &Computer) -> Result<Option<u64>, End> {
        let Some(bytes) = self.limit else { return Ok(None) };
        let pages = bytes / PAGE_BYTES as u64;
        let least = engine::memory::LEAST_PAGES;
        if pages < least {
            return Err(End::Usage(format!("--limit: at least {} KiB are needed", least * 4)));
        }
        if pages > computer.pages() && computer.pages() > 0 {
            let most = computer.pages() * 4;
            return Err(End::Usage(format!("--limit: this computer has {most} KiB of memory, less than that")));
        }
        Ok(Some(pages))
    }

    fn computer(&self) -> Result<Computer, End> {
        let folder = self.folder();
        if !folder.is_dir() {
            return Err(End::Usage(format!("--dir {}: no such folder", folder.display())));
        }
        let computer = Computer::read(&Source::default(), &folder);
        computer.missing.iter().for_each(|why| shown::warn(&format!("left out: {why}")));
        text::two_devices(&computer).iter().for_each(|why| shown::warn(why));
        Ok(computer)
    }
}

/// Writes the machine file of this computer, from what the kernel reports.
pub fn here(arguments: &Arguments) -> Result<(), End> {
    let file = output::open("--output", arguments.output.as_deref())?;
    let computer = arguments.computer()?;
    let limit_pages = arguments.limit_pages(&computer)?;
    let text = text::machine(&computer, limit_pages, &Measured::default())?;
    output::report(file, |out, _| out.write_all(text.as_bytes()))
}

/// Writes the machine file of this computer, from what the kernel reports and from measurements. After an interrupt,
/// the file has the measurements that were finished before it.
pub fn calibrate(CalibrateArguments { quick, computer: arguments }: &CalibrateArguments) -> Result<(), End> {
    let file = output::open("--output", arguments.output.as_deref())?;
    let computer = arguments.computer()?;
    let limit_pages = arguments.limit_pages(&computer)?;
    let _guard = interrupt::guard();
    let before = Load::now();
    let folder = arguments.folder();
    let told = |error: std::io::Error| End::Failed(format!("cannot measure in {}: {error}", folder.display()));
    let mut course = Course::new(if *quick { 0 } else { GROUPS.len() });
    course.begin("system calls, faults, copies, switches");
    let mut measured = Measured { costs: measure::costs(&folder).map_err(told)?, ..Measured::default() };
    let mut left = Vec::new();
    if course.is_stopped() {
        left.push("the disk");
    } else {
        course.begin(&format!("the disk under {}", folder.display()));
        match measure::disk(&folder) {
            Ok(speed) => measured.disk = Some(speed),
            Err(error) => fail(&mut measured, format!("the disk is left as it is assumed: {error}")),
        }
    }
    // The factors are fitted with this many pages of memory, even if the user gave no limit. The machine file states a
    // limit only if the user gave one.
    let fitted_in = limit_pages.unwrap_or(LIMIT_DEFAULT / PAGE_BYTES as u64);
    for (n, group) in GROUPS.iter().enumerate() {
        if *quick || course.is_stopped() {
            left.push(group.about);
            continue;
        }
        course.begin(&format!("{}, here and simulated", group.about));
        match factor(&computer, fitted_in, &measured, n, &folder) {
            Ok(factor) => measured.factors[n] = Some(factor),
            Err(_) if interrupt::is_set() => left.push(group.about),
            Err(End::Usage(why) | End::Failed(why)) => {
                fail(&mut measured, format!("costs of {} are left as they are assumed: {why}", group.about));
            }
            Err(other) => return Err(other),
        }
    }
    let is_stopped = course.is_stopped();
    if !left.is_empty() {
        let why = if is_stopped { "stopped before all was measured" } else { "--quick" };
        measured.failures.push(format!("{} ({why}): left as assumed", left.join(", ")));
    }
    measured.others_percent = before.zip(Load::now()).and_then(|(before, now)| now.others_since(before));
    if let Some(others) = measured.others_percent.filter(|others| *others >= WARN_FROM_PERCENT) {
        shown::warn(&format!(
            "others and the kernel's own tasks used {others:.0} % of all CPUs meanwhile: costs may be told too high"
        ));
    }
    let text = text::machine(&computer, limit_pages, &measured)?;
    output::report(file, |out, _| out.write_all(text.as_bytes()))?;
    match is_stopped {
        true => {
            Err(End::Failed(format!("interrupted: the machine file is partial; as assumed is {}", left.join(", "))))
        }
        false => Ok(()),
    }
}

/// Warns of a failed measurement, and records its reason.
fn fail(measured: &mut Measured, why: String) {
    shown::warn(&why);
    measured.failures.push(why);
}

/// Typical duration of each step of a calibration, s: the measurement of costs, the measurement of the disk, and one
/// step for each group in [`GROUPS`]. The durations were measured on 26 Nov 2026 on a computer with 2 CPUs and a
/// virtual disk that takes 0.07 ms for a read. That computer has no swap, so the duration for swapped pages is taken
/// from random reads. Slower disks take longer, above all rotating ones.
const TOOK_S: [f64; 2 + GROUPS.len()] = [0.9, 0.8, 32.2, 32.2, 12.6];

/// The progress of a calibration, shown on standard error.
struct Course {
    begun: Instant,
    /// Number of the calibration's steps that have begun; `steps` is the number of all steps.
    step: usize,
    steps: usize,
}

impl Course {
    fn new(groups: usize) -> Self {
        let steps = 2 + groups;
        let expected: f64 = TOOK_S[..steps].iter().sum();
        eprintln!(
            "calibrate: {steps} steps, about {expected:.0} s where the disk answers in 0.07 ms, minutes on one that turns; Ctrl-C writes what is measured by then"
        );
        Self { begun: Instant::now(), step: 0, steps }
    }

    /// Begins the next step of the calibration, and prints it with an estimate of the remaining time.
    fn begin(&mut self, what: &str) {
        let left = self.left_s(self.begun.elapsed());
        self.step += 1;
        eprintln!("calibrate: step {} of {}, about {left:.0} s left: {what}", self.step, self.steps);
    }

    /// Estimates the time of the remaining steps, s, from [`TOOK_S`] and from `elapsed`, the time that the finished
    /// steps took.
    fn left_s(&self, elapsed: Duration) -> f64 {
        let sum = |steps: &[f64]| steps.iter().sum::<f64>();
        let (before, after) = TOOK_S[..self.steps].split_at(self.step);
        let slower = if before.is_empty() { 1.0 } else { elapsed.as_secs_f64() / sum(before) };
        sum(after) * slower
    }

    fn is_stopped(&self) -> bool {
        interrupt::is_set()
    }
}

/// Range of plausible factors by which the assumed costs of a group of steps are multiplied. A measured factor outside
/// the range is refused, because the computer was probably busy.
const FACTORS: std::ops::RangeInclusive<f64> = 0.05..=50.0;

/// Returns the factor by which to multiply the assumed costs of the kernel steps of group number `n` in [`GROUPS`].
/// With this factor, the group's experiment takes as much system CPU time in the simulator as on this computer.
fn factor(computer: &Computer, limit_pages: u64, measured: &Measured, n: usize, folder: &Path) -> Result<f64, End> {
    let Group { experiment, set, about, .. } = &GROUPS[n];
    let kernel = nearest::kernel(computer);
    let scratch = Scratch::new(folder, experiment)?;
    // The ground `linux` makes no groups, and the experiments have no tasks for them.
    let computer = &Computer { groups: Vec::new(), ..computer.clone() };
    let system_s = |ground: Ground, factor: f64| -> Result<f64, End> {
        let mut of_factor = measured.clone();
        of_factor.factors[n] = Some(factor);
        let text = text::machine(computer, Some(limit_pages), &of_factor)?;
        std::fs::write(&scratch.path, text)?;
        let request = Request {
            experiment: (*experiment).to_owned(),
            kernels: vec![kernel.clone()],
            machine: Some(scratch.path.display().to_string()),
            set: set.iter().map(|(key, value)| Set { key: (*key).into(), values: vec![(*value).into()] }).collect(),
            grounds: vec![ground],
            place: GroundOptions { folder: folder.to_owned(), ..GroundOptions::default() },
            ..Request::default()
        };
        let plan = Plan::new(&request, grounds::find)?;
        let bars = Bars::new(&plan.title(), plan.count());
        let results = plan.run(1, &bars).whole().map_err(|failures| {
            if !interrupt::is_set() {
                scratch.is_kept.set(true);
            }
            failed(&failures)
        })?;
        let row = results.table.rows.iter().find(|row| row.name == ROW);
        row.and_then(|row| row.median(0)).ok_or_else(|| End::Failed(format!("`{ground}` has no row `{ROW}`")))
    };
    let goal = system_s(Ground::Linux, 1.0)?;
    let [once, twice] = [system_s(Ground::Sim, 1.0)?, system_s(Ground::Sim, 2.0)?];
    if twice <= once {
        return Err(End::Failed("dearer steps do not cost the simulated system more".into()));
    }
    let exact = 1.0 + (goal - once) / (twice - once);
    eprintln!(
        "measured: {goal:.2} s of system time for a million {about}; simulated {once:.2}, and {twice:.2} with steps twice as dear"
    );
    if exact <= 0.0 {
        let why = "the other steps cost the simulated system more than all do here: is the computer busy?";
        return Err(End::Failed(why.into()));
    }
    if !FACTORS.contains(&exact) {
        return Err(End::Failed(format!("{exact:.2} times as dear is not believed: is the computer busy?")));
    }
    Ok(exact)
}

/// A machine file that exists during the measurement, and is then removed. After a failed run the file is kept, because
/// the command that repeats the run names it.
struct Scratch {
    path: PathBuf,
    is_kept: Cell<bool>,
}

impl Scratch {
    fn new(folder: &Path, experiment: &str) -> Result<Self, End> {
        let path = folder.join(format!("highwater-calibrate-{}-{experiment}.toml", std::process::id()));
        std::fs::write(&path, "").map_err(|error| End::Failed(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self { path, is_kept: Cell::new(false) })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            // If the file cannot be removed, a few KiB remain.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_expected_by_what_the_steps_before_took() {
        let course = |step| Course { begun: Instant::now(), step, steps: TOOK_S.len() };
        assert!((course(0).left_s(Duration::ZERO) - TOOK_S.iter().sum::<f64>()).abs() < 1e-9);
        let (before, after) = (TOOK_S[0] + TOOK_S[1], TOOK_S[2..].iter().sum::<f64>());
        let left = course(2).left_s(Duration::from_secs_f64(3.0 * before));
        assert!((left - 3.0 * after).abs() < 1e-6, "{left}");
    }

    #[test]
    fn the_machine_file_of_a_failed_run_stays_for_its_replay() {
        let folder = tempfile::tempdir().unwrap();
        let left = || std::fs::read_dir(folder.path()).unwrap().count();
        let scratch = Scratch::new(folder.path(), "anon").unwrap_or_else(|_| panic!("a file can be made"));
        drop(scratch);
        assert_eq!(left(), 0);
        let scratch = Scratch::new(folder.path(), "anon").unwrap_or_else(|_| panic!("a file can be made"));
        scratch.is_kept.set(true);
        drop(scratch);
        assert_eq!(left(), 1);
    }
}
