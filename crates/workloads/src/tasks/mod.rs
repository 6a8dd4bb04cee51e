//! A load that is described in a file, without Rust: tasks with files, memory, and steps that they do again and again.
//!
//! The page docs/tasks.md explains the description. [`Described`] has the parts of a description, and [`Action`] has
//! the actions of a step. Each task of the description is a task of the system; on the simulator it is a process with
//! memory of its own. Contents of files and memory are verified. At the end all files that were written are read from
//! the device once more.

mod described;
mod objects;
mod reported;
mod run;
mod signals;
mod step;
mod within;

use crate::extent::Extent;
use crate::meter::{Course, LOOK_EVERY, Length, Measured, Tally, measure_tasks};
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
pub use described::{Described, FileOf, Misses, Params, RegionOf, TaskOf};
use documented::DocumentedFields;
use figures::figure::{RowName, names};
use figures::scale::Scale;
use machine::Nanos;
use objects::SharedFile;
use reported::Reported;
use run::{Load, Task};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
pub use step::{AccessOrder, Action, Places, Repeated, Step};

/// The files of a task, by the names that the description gives them.
type Files = BTreeMap<String, Arc<SharedFile>>;

/// Number of random streams that the tasks of a kind have by default.
const STREAMS: u64 = 10_000;

/// The workload `tasks`: a load that is described in a file.
#[derive(Debug)]
pub struct Tasks;

impl Workload for Tasks {
    type Params = Params;

    const NAME: &'static str = "tasks";

    const ABOUT: &'static str = "a load described in the experiment's file: tasks with files, memory and steps";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        let mut parts = key.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("file"), Some(_), Some(key)) => FileOf::get_field_docs(key).ok(),
            (Some("region"), Some(_), Some(key)) => RegionOf::get_field_docs(key).ok(),
            (Some("task"), Some(_), Some(key)) => TaskOf::get_field_docs(key).ok(),
            _ => Described::get_field_docs(key).ok(),
        }
    }

    fn groups(params: &Params) -> Vec<&str> {
        params.task.values().filter_map(|task| task.group.as_deref()).collect()
    }

    fn forks(params: &Params) -> bool {
        params.task.values().any(|task| !task.child.is_empty())
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let Resources { memory_pages, used_pages, swap_pages } = *resources;
        let check_pages =
            |what: &str, pages: u64, tasks: u64| match (tasks.max(1)..u64::from(u32::MAX)).contains(&pages) {
                true => Ok(pages),
                false => Err(format!(
                    "{what} of {pages} pages for {tasks} tasks: at least a page for each, and less than 16 TiB"
                )),
            };
        for (name, file) in &params.file {
            let tasks = if file.of_each_task { 1 } else { params.users(|task| params.uses_file(task, name)) };
            check_pages(&format!("file `{name}`"), file.size().pages(memory_pages, Scale::FULL), tasks)?;
        }
        let mut all = used_pages;
        for (name, region) in params.region.iter().filter(|(_, region)| region.file.is_none()) {
            let tasks = params.users(|task| task.uses_region(name));
            let pages = region.size().pages(memory_pages, Scale::FULL);
            all = all.saturating_add(check_pages(&format!("region `{name}`"), pages, tasks)?);
        }
        // A tenth of memory is left for pages outside the regions.
        if all > memory_pages / 10 * 9 + swap_pages && all > used_pages {
            return Err(format!(
                "{all} pages of regions and of what is in use do not fit 90 % of {memory_pages} pages of memory and {swap_pages} of swap"
            ));
        }
        Ok(())
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let of_file = |(name, file): (&String, &FileOf)| {
            let files = if file.of_each_task { params.users(|task| params.uses_file(task, name)) } else { 1 };
            file.size().pages(resources.memory_pages, scale).saturating_mul(files)
        };
        let file_pages = params.file.iter().map(of_file).fold(0, u64::saturating_add);
        let done = params.task.values().filter(|task| task.measured).map(|task| {
            let operations =
                params.operations.or_else(|| Some(task.rounds?.saturating_mul(task.operations_at_least())));
            task.count.saturating_mul(operations.unwrap_or(0))
        });
        let time_s = match (params.seconds, params.full_s) {
            (Some(seconds), _) => Some(seconds),
            (None, Some(full)) => Some(full.saturating_add(params.filling_s)),
            (None, None) => None,
        };
        let steps = params.task.values().flat_map(|task| task.before.iter().chain(&task.steps).chain(&task.child));
        let wait_s = steps.map(Step::wait_s).max().unwrap_or(0);
        Extent { time_s, wait_s, operations: done.fold(file_pages, u64::saturating_add), file_pages }
    }

    fn row_names(params: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(Reported::with_everything(params, &Course::with_everything())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let members = members(params);
        let files = make_files(system, params, &members)?;
        let load = Arc::new(Load::of(system, params)?);
        let measured = Measured {
            name: &params.name,
            tasks: members.iter().filter(|member| member.task(params).measured).count() as u64,
            length: length(params),
            fills_memory: params.fills_memory || params.full_s.is_some(),
            keeps_step: params.keeps_step,
            look_every: LOOK_EVERY,
        };
        let task_names: Vec<String> =
            members.iter().map(|member| format!("{} {}", member.kind, member.number)).collect();
        let durations = Arc::new(Mutex::new(run::no_durations(&load.rows)));
        let (found, files_of) = (durations.clone(), files.clone());
        let course = measure_tasks(system, &measured, &task_names, move |system, index, tally: &mut Tally| {
            let of_task =
                Task::start(system, &load, &members[index as usize], &files_of[index as usize])?.run(tally)?;
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            for (all, of_task) in found.iter_mut().zip(of_task) {
                all.add(of_task).expect("it grows as far as need be");
            }
            Ok(())
        })?;
        let verified = remove_files(system, &files)?;
        let durations = durations.lock().unwrap_or_else(PoisonError::into_inner);
        let reported = Reported { params, course: &course, durations: &durations, verified };
        Ok(Measurements { rows: reported.rows(), times: reported.times(), ..Measurements::default() })
    }
}

/// A task of a load: its kind, and its number among the tasks of its kind.
#[derive(Clone, Debug)]
struct Member {
    kind: String,
    number: u64,
    /// Number of the stream of random numbers from which the task draws.
    stream: u64,
}

impl Member {
    /// Returns the description that `params` has for tasks of this task's kind.
    fn task<'a>(&self, params: &'a Params) -> &'a TaskOf {
        &params.task[&self.kind]
    }
}

/// Returns all tasks of a load. The tasks that are measured come first.
fn members(params: &Params) -> Vec<Member> {
    let of_kind = |(kind, task): (&String, &TaskOf)| {
        let position = params.task.get_index_of(kind).unwrap_or(0) as u64;
        let stream = task.stream.unwrap_or((position + 1) * STREAMS);
        let kind = kind.clone();
        (0..task.count).map(move |number| Member { kind: kind.clone(), number, stream: stream + number })
    };
    params.kinds().flat_map(of_kind).collect()
}

/// Makes the files of a load. Returns the files of each task, by the names that the description gives them.
fn make_files<S: System>(system: &S, params: &Params, members: &[Member]) -> Result<Arc<Vec<Files>>, SystemError> {
    let make = |name: String, described: &str, file: &FileOf| {
        let pages = file.size().pages(system.memory_pages(), system.given().scale);
        let file = SharedFile::new(system, name, pages, params.is_written(described))?;
        file.make(system)?;
        Ok::<_, SystemError>(Arc::new(file))
    };
    let mut shared = Files::new();
    for (name, file) in params.file.iter().filter(|(_, file)| !file.of_each_task) {
        shared.insert(name.clone(), make(name.clone(), name, file)?);
    }
    let mut all = Vec::new();
    for member in members {
        let mut files = shared.clone();
        for (name, file) in params.file.iter().filter(|(_, file)| file.of_each_task) {
            if params.uses_file(member.task(params), name) {
                let own = format!("{name} of {} {}", member.kind, member.number);
                files.insert(name.clone(), make(own, name, file)?);
            }
        }
        all.push(files);
    }
    Ok(Arc::new(all))
}

/// Verifies the files that were written, and removes all files. Returns the number of verified pages.
fn remove_files<S: System>(system: &S, files: &[Files]) -> Result<u64, SystemError> {
    let by_name: BTreeMap<&str, &Arc<SharedFile>> =
        files.iter().flat_map(BTreeMap::values).map(|file| (file.name.as_str(), file)).collect();
    let mut verified = 0;
    for file in by_name.into_values() {
        verified += file.verify(system)?;
        system.remove(&file.name)?;
    }
    Ok(verified)
}

/// Returns the condition that ends the measurement.
fn length(params: &Params) -> Length {
    match (params.operations, params.seconds, params.full_s) {
        (Some(operations), _, _) => Length::Operations(operations),
        (None, Some(seconds), _) => Length::Steady(Nanos::from_secs(seconds)),
        (None, None, Some(full)) => {
            Length::Time { full: Nanos::from_secs(full), filling: Nanos::from_secs(params.filling_s) }
        }
        // The rounds of the measured tasks end the run.
        (None, None, None) => Length::Operations(u64::MAX),
    }
}
