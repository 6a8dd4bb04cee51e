//! The plan of a comparison: it is checked before any run begins, and its runs fill a table.

mod column;
pub mod cost;
mod guest;
mod notes;
mod run;
mod sets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{kernel::Kernel, lru::choices::PolicyKind};
use machine::Nanos;
use placed::Error;

use crate::ranking;
use crate::store::Store;
use catalogue::experiment::{Experiment, Picture};
use catalogue::find;
use catalogue::ground::{Ground, GroundOptions};
use catalogue::group;
use catalogue::hardware::Hardware;
pub use column::quoted;
use column::{column, number, replay};
use figures::curves::RunCurves;
use figures::figure::RowName;
use figures::generations::RunGenerations;
use figures::kernel_log::RunKernelLog;
use figures::memory_map::RunMemory;
use figures::profile::RunProfile;
use figures::scale::Scale;
use figures::series::{Every, RunSeries};
use figures::trace::{RunTrace, Window};
use figures::{locks, nodes};
use grounds::job::{Failure, Job, NamedJob, Runnable};
use report::{Column, Table, rows};
pub use run::fold;
pub use run::run_all;
pub use sets::Set;
pub use sets::{OF_MACHINE, OF_PARAMS};
use sets::{Setup, with_each};
use workloads::system::page_bytes;

/// A comparison as the user requests it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Name or file of the experiment.
    pub experiment: String,
    /// Names or files of kernels to run in place of the experiment's kernels; empty for the experiment's kernels.
    pub kernels: Vec<String>,
    /// Names or files of kernels that run in addition to the kernels of the experiment, or to those that `kernels`
    /// names.
    pub more_kernels: Vec<String>,
    /// Values for keys of the kernels, of the machine or of the workload. If keys have several values, each combination
    /// of values runs.
    pub set: Vec<Set>,
    /// Name or file of a machine to use in place of the experiment's machine, if one is given.
    pub machine: Option<String>,
    /// Control groups that the user defines. A group with a new name is added. A group with the name of one of the
    /// machine's or the experiment's groups replaces keys of that group.
    pub groups: Vec<group::Asked>,
    /// The first seed. The other seeds are the numbers after it.
    pub seed: u64,
    /// Number of seeds, at least 1.
    pub runs: u64,
    /// Factor by which memory, swap, files and disk bandwidth are multiplied; full size by default.
    pub scale: Option<Scale>,
    /// True to record CPU time by call path.
    pub profile: bool,
    /// Interval between records of counters; `None` records nothing.
    pub series_every: Option<Every>,
    /// Interval between records of the state of memory; `None` records nothing.
    pub memory_every: Option<Nanos>,
    /// Interval between records of the generations of pages (multi-gen LRU); `None` records nothing.
    pub generations_every: Option<Nanos>,
    /// True to record the data for a picture of the runs.
    pub picture: bool,
    /// The part of each run that is traced; `None` traces nothing.
    pub trace: Option<Window>,
    /// True to report how often locks were taken and how long interrupts were off.
    pub locks: bool,
    /// The grounds (systems) to run on; a simulated machine by default.
    pub grounds: Vec<Ground>,
    /// Files and limits of the grounds that run in real time.
    pub place: GroundOptions,
    /// The folder for results of simulated runs, if they are to be kept.
    pub store: Option<PathBuf>,
    /// Lines to show below the report.
    pub notes: Vec<String>,
}

/// A checked comparison, ready to run: its columns, seeds and runs.
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// The columns of the table: one for each combination of a kernel, a machine with parameters, and a ground.
    pub columns: Vec<Column>,
    /// The random seeds with which the jobs run.
    pub seeds: Vec<u64>,
    /// The factor by which memory, swap, files and disk bandwidth are multiplied.
    pub scale: Scale,
    workload: &'static dyn Runnable,
    machine: Arc<Hardware>,
    /// The control groups that the command line adds or changes.
    groups: Vec<group::Asked>,
    place: GroundOptions,
    /// The runs, ordered by column and seed.
    runs: Vec<Run>,
    /// The store of results of simulated runs, if they are to be kept.
    store: Option<Store>,
    /// Lines of text for the report, one for each requested ground on which nothing is run, with the reason.
    skipped: Vec<String>,
    /// The columns whose runs cannot begin, such as one with too little swap, each with the reason.
    unable: BTreeMap<usize, Failure>,
    /// Lines to show below the report, after the lines about the grounds in `skipped`.
    notes: Vec<String>,
}

/// One run of a plan.
#[derive(Clone, Debug)]
struct Run {
    /// Index of the run's column in the table of results.
    column: usize,
    /// The run's name: the name of its column, and its seed if the plan has several seeds.
    title: String,
    /// The run's job without the seed, shared by all seeds of a column.
    job: Arc<Job>,
    seed: u64,
    /// The description of the run's job. A process that is started for a run in real time gets this description.
    order: NamedJob,
    /// The command that repeats the run.
    replay: String,
}

impl Run {
    fn is_real(&self) -> bool {
        self.job.ground.is_timed_by_the_wall()
    }
}

/// A kernel, with the word by which a command line names it: the kernel's name or file, followed by changes of its
/// values.
#[derive(Clone, Debug)]
struct NamedKernel {
    word: String,
    kernel: Kernel,
}

/// The properties that all runs of one column of the table share: a kernel, a machine with parameters, and the ground
/// (system) on which the runs take place.
#[derive(Clone, Copy)]
struct Subject<'r> {
    named: &'r NamedKernel,
    setup: &'r Setup,
    ground: Ground,
    /// Number of pages that fit on the device that holds the ground's files. None if this number is unknown, or if the
    /// device is simulated, so that the machine file decides its size.
    device_pages: Option<u64>,
    /// The kernel image that a guest boots.
    image: Option<&'r Path>,
    /// True if the comparison has several kernel images, so that the column's name must tell them apart.
    is_one_of_images: bool,
}

/// The results of a comparison: the table of figures, and the recorded data of every run.
#[derive(Clone, Debug)]
pub struct Results {
    /// The table of figures.
    pub table: Table,
    /// CPU time by call path, for the run of each job; empty if not requested.
    pub profile: Vec<RunProfile>,
    /// Counters over time of every job; empty if not requested.
    pub series: Vec<RunSeries>,
    /// Memory over time of every job; empty if not requested.
    pub memory: Vec<RunMemory>,
    /// The generations of pages over time, for the run of each job; empty if not requested.
    pub generations: Vec<RunGenerations>,
    /// The lines that each simulated kernel logged.
    pub kernel_logs: Vec<RunKernelLog>,
    /// Events over time of every job; empty if not requested.
    pub traces: Vec<RunTrace>,
    /// Curves that pictures show in addition to counters over time; empty if the workload has none.
    pub curves: Vec<RunCurves>,
    /// Failed runs. The other fields hold the results of the other runs.
    pub failures: Vec<JobFailure>,
}

impl Results {
    /// Returns the results if no run failed.
    ///
    /// # Errors
    /// When at least one run failed. The error is the list of all failed runs.
    pub fn whole(self) -> Result<Self, Vec<JobFailure>> {
        if self.failures.is_empty() { Ok(self) } else { Err(self.failures) }
    }

    /// Returns whether every run of the plan failed, so that the table has no rows.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.table.rows.is_empty() && self.table.columns.iter().all(Column::has_failed)
    }
}

/// A failed job, with the reason and the command that repeats the job.
#[derive(Clone, Debug)]
pub struct JobFailure {
    /// Name of the column to which the job belongs.
    pub column: String,
    /// The seed of the job.
    pub seed: u64,
    /// Reason why the job failed.
    pub failure: Failure,
    /// The command that repeats the job.
    pub replay: String,
}

impl Plan {
    /// Makes a plan: finds everything that `request` names (workloads by `find`), and has each workload check its jobs.
    ///
    /// # Errors
    /// When something in the request is unknown or wrong. The message names the first such item.
    pub fn new(request: &Request, find: impl Fn(&str) -> Option<&'static dyn Runnable>) -> Result<Self, Error> {
        let experiment = find::experiment(&request.experiment)?;
        let fitting: Vec<String> = match request.kernels.is_empty() {
            true => request
                .grounds
                .iter()
                .flat_map(|it| grounds::fitting_kernels(*it, &request.place))
                .map(Into::into)
                .collect(),
            false => Vec::new(),
        };
        let own = if fitting.is_empty() { &experiment.kernels } else { &fitting };
        let words = if request.kernels.is_empty() { own } else { &request.kernels };
        let workload = find(&experiment.workload).ok_or_else(|| no_workload(&experiment))?;
        let plain = Setup::all(&Request { set: Vec::new(), ..request.clone() }, &experiment)?;
        sets::check_owners(request, &experiment, &plain[0], workload)?;
        let of_kernels = request.set.iter().filter(|set| set.is_of_kernel());
        let words = of_kernels.fold(words.iter().chain(&request.more_kernels).cloned().collect(), with_each);
        let kernels = find::kernels(words.iter().map(String::as_str)).map_err(|error| {
            let is_own = |name: &String| error.message.contains(&format!("`{name}`"));
            match request.kernels.is_empty() && error.place.is_none() && experiment.kernels.iter().any(is_own) {
                true => Error::at(&experiment.name_places.kernels, error.message),
                false => error,
            }
        })?;
        let named = |(kernel, word): (Kernel, String)| {
            let refused = |error: Error| Error { message: format!("kernel `{word}`: {}", error.message), ..error };
            kernel.choices.check().map_err(refused)?;
            Ok(NamedKernel { kernel, word })
        };
        let kernels = kernels.into_iter().zip(words).map(named).collect::<Result<Vec<_>, Error>>()?;
        let setups = Setup::all(request, &experiment)?;
        let refused = |ground: &Ground| Some((*ground, workload.refused_on(*ground)?));
        if let Some((ground, why)) = request.grounds.iter().find_map(refused) {
            let message = format!("experiment `{}` does not run on the ground `{ground}`: {why}", experiment.name);
            return Err(Error { place: None, message });
        }
        let plan = Self::of(request, experiment, &kernels, &setups, workload)?;
        plan.check_main_row(&plain[0])?;
        Ok(plan)
    }

    /// Checks that runs with the parameters of the experiment's file can report the rows that the file names as
    /// `main_row` and `main_rows`. Names of rows may contain sizes: names at full size and names at this scale are
    /// accepted.
    fn check_main_row(&self, plain: &Setup) -> Result<(), Error> {
        let Experiment { main_row, main_row_place, main_rows, main_rows_place, .. } = &self.experiment;
        let (Some(row), Some(first)) = (main_row, self.runs.first()) else { return Ok(()) };
        let own = Job { machine: plain.machine.clone(), params: plain.params.clone(), ..(*first.job).clone() };
        let full = Job { scale: Scale::FULL, ..own.clone() };
        let (Some(names), Some(of_scale)) = (self.row_names_of(&full), self.row_names_of(&own)) else { return Ok(()) };
        let known: Vec<&str> = names.iter().chain(&of_scale).map(|row| row.name.as_str()).collect();
        let told = |place: &Option<placed::Place>, key: &str, word: &str| {
            let message = format!("`{key}`: no run has the row `{word}`; {}", rows::listed(&names));
            Err(Error { place: place.clone(), message })
        };
        if ranking::main_row(row, known.iter().copied()).is_none() {
            return told(main_row_place, "main_row", row);
        }
        match main_rows.iter().find(|word| !known.iter().any(|name| rows::contains(name, word))) {
            Some(word) => told(main_rows_place, "main_rows", word),
            None => Ok(()),
        }
    }

    /// Makes a plan from the parts that [`Plan::new`] found.
    fn of(
        request: &Request,
        experiment: Experiment,
        kernels: &[NamedKernel],
        setups: &[Setup],
        workload: &'static dyn Runnable,
    ) -> Result<Self, Error> {
        let Some(last) = request.seed.checked_add(request.runs.max(1) - 1) else {
            let message = format!("seeds {} and the {} after it do not fit 64 bits", request.seed, request.runs - 1);
            return Err(Error { place: None, message });
        };
        if request.generations_every.is_some() {
            kernels.iter().try_for_each(check_generations)?;
        }
        let seeds: Vec<u64> = (request.seed..=last).collect();
        let drawn = request.picture.then_some(experiment.picture);
        let mut plain = Job {
            experiment: experiment.name.clone(),
            kernel: kernels[0].kernel.clone(),
            machine: setups[0].machine.clone(),
            params: setups[0].params.clone(),
            seed: request.seed,
            scale: request.scale.unwrap_or(Scale::FULL),
            profile: request.profile,
            series_every: request.series_every.or((drawn == Some(Picture::OverTime)).then_some(Every::Some)),
            memory_every: request.memory_every,
            generations_every: request.generations_every,
            trace: None,
            locks: request.locks,
            ground: Ground::Sim,
            makes_swap: request.place.makes_swap,
            device_pages: None,
            kernel_image: None,
            inside: None,
        };
        let grounds = if request.grounds.is_empty() { &[Ground::Sim][..] } else { &request.grounds };
        let folder = &request.place.folder;
        if grounds.iter().any(|ground| ground.is_timed_by_the_wall()) && !folder.is_dir() {
            // A missing folder is an error of the user, not something that the computer lacks.
            return Err(Error { place: None, message: format!("--dir {}: there is no such folder", folder.display()) });
        }
        let (mut subjects, mut left_out, mut unable) = (Vec::new(), Vec::new(), BTreeMap::new());
        for &ground in grounds {
            let of_ground = subjects_of(ground, &request.place, kernels, setups);
            let memory_bytes = page_bytes(of_ground[0].job(&plain, request.seed).memory_pages());
            let missing = grounds::ready(ground, &request.place, memory_bytes).map_err(Failure);
            match missing.and_then(|()| check_all(&of_ground, &plain, request.seed, workload)) {
                Ok(faults) => {
                    unable.extend(faults.into_iter().map(|(n, why)| (subjects.len() + n, why)));
                    subjects.extend(of_ground);
                }
                Err(Failure(message)) if grounds.len() == 1 => return Err(Error { place: None, message }),
                Err(Failure(why)) => left_out.push((ground, why)),
            }
        }
        let skipped: Vec<String> = left_out.iter().map(|(ground, why)| format!("{ground}: skipped: {why}")).collect();
        if subjects.is_empty() {
            // A fault that all grounds report alike is stated once, without their names.
            let is_one_matter = left_out.iter().all(|(_, why)| *why == left_out[0].1);
            let message = if is_one_matter { left_out.swap_remove(0).1 } else { skipped.join("; ") };
            return Err(Error { place: None, message });
        }
        let machine = setups[0].machine.clone();
        plain.trace = match request.trace {
            Some(window) => Some(window.of_each(subjects.len() * seeds.len())),
            None if drawn == Some(Picture::Packets) => {
                let cpu = machine.network.as_ref().map_or(0, |network| network.interrupt_cpu.value);
                Some(Window::default().of_waits(cpu))
            }
            None => None,
        };
        let mut columns: Vec<Column> = subjects.iter().map(|subject| column(subject, grounds)).collect();
        number(&mut columns);
        // With other groups, the experiment is not the published one.
        columns.iter_mut().for_each(|column| column.comparable &= request.groups.is_empty());
        let several = seeds.len() > 1;
        let jobs: Vec<Arc<Job>> = subjects.iter().map(|it| Arc::new(it.job(&plain, request.seed))).collect();
        let run = |column: usize, seed: u64| {
            let (subject, id, job) = (&subjects[column], &columns[column].id, jobs[column].clone());
            let title = if several { format!("{id} seed {seed}") } else { id.clone() };
            let order = NamedJob { seed, ..subject.order(&job) };
            Run { column, title, order, replay: replay(request, subject, seed), job, seed }
        };
        let runs = (0..columns.len()).flat_map(|column| seeds.iter().map(move |seed| (column, *seed)));
        let runs = runs.map(|(column, seed)| run(column, seed)).collect();
        let (scale, place) = (plain.scale, request.place.clone());
        let of_group = |group: &group::Asked| format!("--group {group}");
        let notes = request.groups.iter().map(of_group).chain(request.notes.iter().cloned()).collect();
        let groups = request.groups.clone();
        let plan = Self {
            experiment,
            columns,
            seeds,
            scale,
            workload,
            machine,
            groups,
            place,
            runs,
            store: None,
            skipped,
            unable,
            notes,
        };
        let store = match &request.store {
            Some(_) if subjects.iter().all(|subject| subject.ground.is_timed_by_the_wall()) => {
                let message = "--store keeps simulated runs, of the ground `sim`, which is not among those of `--on`";
                return Err(Error { place: None, message: message.into() });
            }
            Some(folder) => {
                let hashes: Vec<String> = plan.names().map(|(hash, _)| hash).collect();
                let store = Store::open_for(folder, hashes.iter().map(String::as_str));
                Some(store.map_err(|Failure(message)| Error { place: None, message })?)
            }
            None => None,
        };
        Ok(Self { store, ..plan })
    }

    /// Returns the names of the rows that the table may have; none if they are not known before the plan runs.
    #[must_use]
    pub fn row_names(&self) -> Option<Vec<RowName>> {
        self.row_names_of(&self.runs.first()?.job)
    }

    /// Returns the names of the rows that a job may report; none if the names are not known before the job runs.
    fn row_names_of(&self, job: &Job) -> Option<Vec<RowName>> {
        let mut names = self.workload.row_names(job)?;
        if job.locks {
            names.extend(locks::names());
        }
        if job.ground == Ground::Sim {
            names.extend(nodes::names(job.machine.memory.nodes.len()));
        }
        Some(names)
    }

    /// Returns the id and the kernel of each column. Leaves out columns that run on this computer's own kernel, which
    /// no kernel file describes.
    #[must_use]
    pub fn kernels(&self) -> Vec<(&str, &Kernel)> {
        let job = |n: usize| self.runs.iter().find(|run| run.column == n).map(|run| &run.job);
        let of_file = |n: usize| job(n).filter(|job| grounds::running_kernel(job.ground).is_none());
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(n, column)| Some((column.id.as_str(), &of_file(n)?.kernel))).collect()
    }

    /// Returns a line for each requested ground that is left out. The line states the reason.
    #[must_use]
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Returns the machine of the first column.
    #[must_use]
    pub fn machine(&self) -> &Hardware {
        &self.machine
    }

    /// Returns the title of the progress display. The title states the virtual or real duration of each run, if it is
    /// known.
    #[must_use]
    pub fn title(&self) -> String {
        let times = self.runs.iter().map(|run| self.workload.extent(&run.job)?.time_s).collect::<Option<Vec<u64>>>();
        let time = times.and_then(|times| Some((*times.iter().min()?, *times.iter().max()?)));
        let is_real = self.runs.iter().all(Run::is_real);
        let whose = if is_real { "" } else { " of virtual time" };
        let name = &self.experiment.name;
        match time {
            None => name.clone(),
            Some((least, most)) if least == most => format!("{name} of about {most} s{whose}"),
            Some((least, most)) => format!("{name} of about {least} to {most} s{whose}"),
        }
    }

    /// Returns the number of runs of the plan.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// Returns the name of each run.
    #[must_use]
    pub fn titles(&self) -> Vec<String> {
        self.runs.iter().map(|run| run.title.clone()).collect()
    }

    /// Renames each run: calls `name` with the run's present name, and stores the result as the new name. The present
    /// name is the column's name, followed by the seed if the plan has several seeds. Returns the plan.
    #[must_use]
    pub fn titled(mut self, name: impl Fn(&str) -> String) -> Self {
        self.runs.iter_mut().for_each(|run| run.title = name(&run.title));
        self
    }
}

/// Checks the jobs on one ground, one for each of its columns, before any job runs. Returns the columns that cannot run,
/// by their number on this ground, each with the reason: they fail, and others run.
///
/// # Errors
/// When no job can run, or when the value that `--set` gives to a parameter is at fault. The error is the first fault.
fn check_all(
    subjects: &[Subject<'_>],
    plain: &Job,
    seed: u64,
    workload: &dyn Runnable,
) -> Result<Vec<(usize, Failure)>, Failure> {
    let mut faults = Vec::new();
    for (n, subject) in subjects.iter().enumerate() {
        if let Err(Failure(why)) = workload.check(&subject.job(plain, seed)) {
            let told = subject.setup.told(&why);
            if told != why {
                return Err(Failure(told));
            }
            faults.push((n, Failure(why)));
        }
    }
    if faults.len() == subjects.len() && !faults.is_empty() { Err(faults.swap_remove(0).1) } else { Ok(faults) }
}

/// Returns a subject for each column whose runs take place on `ground`. There is one column for each combination of a
/// kernel, a setup (machine and parameters) and a kernel image.
fn subjects_of<'r>(
    ground: Ground,
    place: &'r GroundOptions,
    kernels: &'r [NamedKernel],
    setups: &'r [Setup],
) -> Vec<Subject<'r>> {
    // No kernel file describes the running kernel, so one column is enough.
    let kernels = if grounds::running_kernel(ground).is_some() { &kernels[..1] } else { kernels };
    let device_pages = grounds::device_pages(ground, place);
    let images: Vec<Option<&Path>> = match ground {
        Ground::Guest if !place.kernel_images.is_empty() => {
            place.kernel_images.iter().map(|it| Some(it.as_path())).collect()
        }
        _ => vec![None],
    };
    let pairs = kernels.iter().flat_map(|named| setups.iter().map(move |setup| (named, setup)));
    let is_one_of_images = images.len() > 1;
    let subject = move |named, setup, image| Subject { named, setup, ground, device_pages, image, is_one_of_images };
    let of_image = |image| pairs.clone().map(move |(named, setup)| subject(named, setup, image));
    images.into_iter().flat_map(of_image).collect()
}

impl Subject<'_> {
    /// Returns the job of this subject with the seed `seed`. Values common to all subjects are taken from `plain`.
    fn job(&self, plain: &Job, seed: u64) -> Job {
        Job {
            kernel: self.named.kernel.clone(),
            machine: self.setup.machine.clone(),
            params: self.setup.params.clone(),
            ground: self.ground,
            device_pages: self.device_pages,
            kernel_image: self.image.map(Path::to_owned),
            seed,
            ..plain.clone()
        }
    }

    /// Returns a description of `job`, which is a job of this subject. The description is passed to the process that
    /// runs the job.
    fn order(&self, job: &Job) -> NamedJob {
        NamedJob {
            experiment: self.setup.experiment_word.clone(),
            kernel: self.named.word.clone(),
            machine: self.setup.machine_word.clone(),
            ground: self.ground,
            seed: job.seed,
            scale: job.scale.to_string(),
            series_every: job.series_every,
        }
    }
}

/// Checks that the kernel has generations of pages (multi-gen LRU).
fn check_generations(named: &NamedKernel) -> Result<(), Error> {
    if let PolicyKind::Multigen = named.kernel.choices.lru.policy {
        return Ok(());
    }
    let message = format!(
        "kernel `{}` has no generations, which --lru-gen shows: they need lru.policy = \"multigen\"",
        named.word
    );
    Err(Error { place: None, message })
}

fn no_workload(experiment: &Experiment) -> Error {
    let names: Vec<&str> = grounds::all().iter().map(|workload| workload.name()).collect();
    let hint = placed::one_of(&experiment.workload, &names);
    Error::at(&experiment.name_places.workload, format!("no workload is called `{}`{hint}", experiment.workload))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use figures::profile;
    use grounds::job::Outcome;
    use kit::progress::Progress;
    use report::samples::ops;

    /// A workload that reports the seed, the size of a batch and the kernel's name, and fails on request.
    struct Echo;

    impl Runnable for Echo {
        fn name(&self) -> &'static str {
            "echo"
        }

        fn about(&self) -> &'static str {
            "answers with what it is asked"
        }

        fn check(&self, job: &Job) -> Result<(), Failure> {
            if job.scale.as_f64() < 0.1 { Err(Failure("needs at least 64 MiB".into())) } else { Ok(()) }
        }

        fn run(&self, job: &Job, progress: &Progress) -> Result<Outcome, Failure> {
            progress.set_total_ns(10);
            progress.set_now_ns(10);
            let batch = job.kernel.choices.lru.batch;
            match job.seed {
                13 => return Err(Failure("swap is full: all 64 slots in use".into())),
                14 => panic!("frame 0x2 isolated twice"),
                _ => {}
            }
            let rows = vec![ops("Ops batch", f64::from(batch)), ops("Ops seed", job.seed as f64)];
            let profile = job.profile.then(|| vec!["kswapd0;balance_pgdat 7".into()]);
            Ok(Outcome {
                rows,
                fingerprint: job.seed ^ u64::from(batch),
                virtual_time_ns: 10,
                profile,
                is_idle: job.seed == 7,
                ..Outcome::default()
            })
        }
    }

    fn plan(request: &Request, words: &[&str]) -> Result<Plan, Error> {
        let machine = find::machine("parallelio-8g").unwrap();
        let kernel = |(index, word): (usize, &&str)| {
            let text = format!("[lru]\nbatch = {}\n", 10 + index);
            let none = |_: &str| Err(String::new());
            let kernel = Kernel::parse(word.trim_end_matches(".toml"), "k.toml", &text, &none).unwrap();
            NamedKernel { word: (*word).to_owned(), kernel }
        };
        let kernels: Vec<NamedKernel> = words.iter().enumerate().map(kernel).collect();
        let experiment = find::experiment("parallelio").unwrap();
        let mut setup = setup(machine, &experiment);
        setup.machine_word = request.machine.clone().unwrap_or(setup.machine_word);
        Plan::of(request, experiment, &kernels, &[setup], &Echo)
    }

    fn request(seed: u64, runs: u64) -> Request {
        Request { experiment: "parallelio".into(), seed, runs, ..Request::default() }
    }

    #[test]
    fn a_table_is_the_same_with_any_number_of_simulations_side_by_side() {
        let run = |threads| plan(&request(1, 3), &["a", "b"]).unwrap().run(threads, &()).whole().unwrap().table;
        let table = run(1);
        let medians =
            |row: usize| table.rows[row].cells.iter().map(|cell| cell.value.unwrap().median).collect::<Vec<_>>();
        assert_eq!((medians(0), medians(1)), (vec![10.0, 11.0], vec![2.0, 2.0]));
        assert_eq!((table.seeds.as_slice(), table.fingerprint), ([1, 2, 3].as_slice(), run(8).fingerprint));
        assert_eq!(table, run(8));
        assert_ne!(table.fingerprint, plan(&request(2, 3), &["a", "b"]).unwrap().run(1, &()).table.fingerprint);
    }

    #[test]
    fn kernels_of_one_name_are_told_apart_and_files_are_not_compared_with_print() {
        let plan = plan(&request(1, 1), &["a", "a", "a.toml"]).unwrap();
        let ids: Vec<(&str, bool)> =
            plan.columns.iter().map(|column| (column.id.as_str(), column.comparable)).collect();
        assert_eq!(ids, [("a", true), ("a#2", true), ("a#3", false)]);
        assert!(plan.columns.iter().all(|column| column.set.is_empty()));
    }

    fn setup(machine: Hardware, experiment: &Experiment) -> Setup {
        Setup {
            machine: Arc::new(machine),
            machine_word: experiment.machine.clone(),
            params: experiment.params.clone(),
            experiment_word: experiment.name.clone(),
            set: BTreeMap::new(),
        }
    }

    #[test]
    fn keys_of_the_machine_and_parameters_make_columns_too() {
        let set = |key: &str, values: &[&str]| Set {
            key: key.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let sets = [set("machine.cpu.count", &["2", "4"]), set("params.sweeps", &["3"])];
        let request = Request { experiment: "parallelio".into(), set: sets[..1].to_vec(), ..Request::default() };
        let experiment = find::experiment("parallelio").unwrap();
        let setups = Setup::all(&request, &experiment).unwrap();
        assert_eq!(setups.iter().map(|it| it.machine.cpu.count.value).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(setups[1].machine_word, "parallelio-8g+cpu.count=4");
        assert_eq!(setups[1].set["machine.cpu.count"], "4");
        let wrong = Request { set: sets.to_vec(), ..request };
        let error = Plan::new(&wrong, grounds::find).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("--set params.sweeps=3: unknown key `sweeps`"), "{error}");
        // The second column's region does not fit into memory: it fails alone.
        let sets = vec![set("params.region_percent", &["150", "900"])];
        let wrong = Request { experiment: "anon".into(), set: sets, ..Request::default() };
        let plan = Plan::new(&wrong, grounds::find).unwrap();
        assert_eq!((plan.unable.len(), plan.count()), (2, 4), "with each of two kernels");
        let is_told = |Failure(why): &Failure| why.starts_with("machine `") && why.contains("do not fit");
        assert!(plan.unable.values().all(is_told), "{:?}", plan.unable);
    }

    #[test]
    fn a_changed_kernel_is_a_column_of_its_own_and_not_compared_with_print() {
        let set = |key: &str, values: &[&str]| Set {
            key: key.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let words = with_each(vec!["highwater".into()], &set("lru.batch", &["1", "14"]));
        let words = with_each(words, &set("lru.swappiness", &["0"]));
        assert_eq!(words[0], "highwater+lru.batch=1+lru.swappiness=0");
        let named = NamedKernel { word: words[0].clone(), kernel: find::kernel(&words[0]).unwrap() };
        let setup = setup(find::machine("parallelio-8g").unwrap(), &find::experiment("parallelio").unwrap());
        let subject = Subject {
            named: &named,
            setup: &setup,
            ground: Ground::Sim,
            device_pages: None,
            image: None,
            is_one_of_images: false,
        };
        let column = column(&subject, &[Ground::Sim]);
        assert_eq!(column.id, words[0]);
        assert_eq!(
            (column.kernel.as_str(), column.set["lru.batch"].as_str(), column.comparable),
            ("highwater", "1", false)
        );
    }

    #[test]
    fn profiles_stand_under_their_columns() {
        let wanted = Request { profile: true, ..request(1, 2) };
        let results = plan(&wanted, &["a"]).unwrap().run(2, &());
        let stacks = ["a_seed_1;kswapd0;balance_pgdat 7", "a_seed_2;kswapd0;balance_pgdat 7"];
        assert_eq!(profile::lines(&results.profile).collect::<Vec<_>>(), stacks);
        let table = plan(&request(1, 2), &["a"]).unwrap().run(2, &()).table;
        assert_eq!(table, results.table, "a profile changes no figure");
    }

    #[test]
    fn columns_that_are_the_same_run_and_runs_without_reclaim_are_told() {
        let notes = |seed, words: &[&str]| plan(&request(seed, 2), words).unwrap().run(1, &()).table.notes;
        // Each column's kernel has a batch of its own, and the fingerprint depends on the seed and the batch.
        assert_eq!(notes(1, &["a", "b"]), [""; 0]);
        let same = plan(&request(1, 2), &["a"]).unwrap();
        let mut twice = plan(&request(1, 2), &["a", "b"]).unwrap();
        twice.runs[2].job = same.runs[0].job.clone();
        twice.runs[3].job = same.runs[1].job.clone();
        assert_eq!(twice.run(1, &()).table.notes, ["these columns are the same runs: a, b"]);
        // Runs with seed 7 reclaim no page; runs with seed 8 do.
        assert_eq!(notes(7, &["a", "b"]), [""; 0]);
        let idle = plan(&request(7, 1), &["a", "b"]).unwrap().run(1, &()).table.notes;
        assert!(matches!(&idle[..], [note] if note.starts_with("no page was reclaimed: memory never")), "{idle:?}");
    }

    #[test]
    fn settings_that_nothing_reads_are_told() {
        let set = |key: &str, values: &[&str]| Set {
            key: key.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let unused = |kernels: &[&str], sets: &[Set]| {
            let kernels = kernels.iter().map(|kernel| (*kernel).to_owned()).collect();
            let request = Request { experiment: "randread".into(), kernels, set: sets.to_vec(), ..request(1, 1) };
            Plan::new(&request, grounds::find).unwrap().unused()
        };
        let tiers = [set("multigen.tiers", &["2", "4"])];
        let classic = "multigen.tiers: unused with lru.policy = classic";
        assert_eq!(unused(&["6.18-classic"], &tiers), [classic]);
        assert_eq!(unused(&["7.2-mglru"], &tiers), [""; 0]);
        let both = format!("{classic} (6.18-classic+multigen.tiers=2, 6.18-classic+multigen.tiers=4)");
        assert_eq!(unused(&["6.18-classic", "7.2-mglru"], &tiers), [both]);
        let node = [set("reclaim.zone_reclaim_mode", &["1"])];
        assert_eq!(unused(&["6.18-classic"], &node), ["reclaim.zone_reclaim_mode: unused with memory nodes = 1"]);
    }

    #[test]
    fn failures_and_panics_come_with_the_command_that_repeats_them() {
        let wanted = Request { scale: "1/2".parse().ok(), machine: Some("a b.toml".into()), ..request(12, 2) };
        let failures = plan(&wanted, &["a.toml"]).unwrap().run(1, &()).whole().unwrap_err();
        let [JobFailure { column, seed: 13, failure, replay }] = failures.as_slice() else { panic!("{failures:?}") };
        assert_eq!((column.as_str(), failure.0.as_str()), ("a", "swap is full: all 64 slots in use"));
        assert_eq!(replay, "highwater run parallelio --kernel a.toml --seed 13 --machine 'a b.toml' --scale 1/2");
        let failures = plan(&request(14, 1), &["a"]).unwrap().run(1, &()).failures;
        assert!(failures[0].failure.0.contains("frame 0x2 isolated twice"), "{failures:?}");
    }

    #[test]
    fn a_run_that_fails_costs_only_itself() {
        let results = plan(&request(12, 4), &["a", "b"]).unwrap().run(2, &());
        assert_eq!((results.failures.len(), results.is_nothing()), (4, false));
        let told: Vec<Option<String>> = results.table.columns.iter().map(Column::failure).collect();
        let both = "failed: swap is full (1 of 4), a bug stopped it (1 of 4)";
        assert_eq!(told, [Some(both.into()), Some(both.into())]);
        let seeds: Vec<u64> = results.table.rows[1].cells[1].samples.iter().map(|it| it.seed).collect();
        assert_eq!(seeds, [12, 15], "values stand with their seeds");
        assert!(plan(&request(13, 2), &["a"]).unwrap().run(1, &()).is_nothing());
    }

    #[test]
    fn what_the_workload_refuses_never_runs() {
        let tiny = Request { scale: "1/64".parse().ok(), ..request(1, 1) };
        assert_eq!(plan(&tiny, &["a"]).err().unwrap().to_string(), "needs at least 64 MiB");
        assert!(plan(&request(u64::MAX, 2), &["a"]).is_err());
    }
}
