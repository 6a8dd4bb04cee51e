//! The memory control groups of a machine file on a real kernel: folders of the hierarchy of version 2.
//!
//! The kernel puts whole processes into groups, not threads, and all tasks of a workload are threads of one process,
//! unless they were forked. So a task that enters a group moves all of them there. Pages that were charged before stay
//! where they are. Therefore only one group of the machine file can have tasks of the workload that were not forked,
//! and its `tasks` must name all of them.

use super::pressure;
use crate::groups::{self, Counts, MeasuredPart};
use crate::real_time::RECORDER;
use catalogue::group::{Group, MAIN};
use engine::memory::{GroupVersion, Limit};
use engine::stat::Vmstat;
use figures::counters::named;
use figures::figure::Row;
use figures::scale::Scale;
use machine::PAGE_BYTES;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};
use workloads::system::SystemError;

/// Names of the counters of `memory.stat` that are converted from bytes to pages.
const SIZES: [&str; 4] = ["inactive_anon", "active_anon", "inactive_file", "active_file"];

/// The memory control groups of a run on a real kernel.
#[derive(Debug)]
pub struct Groups {
    /// The folder of the real cgroup that serves as the root group of the run.
    root: PathBuf,
    names: BTreeSet<String>,
    sections: Vec<Group>,
    /// The name of the task that was started first, and the name of its group, which is empty for the root group.
    /// `None` until a task is started.
    first: Mutex<Option<(String, String)>>,
    measured: Mutex<MeasuredPart>,
}

impl Groups {
    /// Makes the groups of a machine file below the folder `root`, and sets their limits, multiplied by `scale`.
    ///
    /// # Errors
    /// When the kernel refuses a group or a limit.
    pub fn create(root: &Path, groups: &[Group], scale: Scale) -> Result<Self, SystemError> {
        let told = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| SystemError(format!("{path}: {error}"))
        };
        let write = |path: PathBuf, text: &str| fs::write(&path, text).map_err(told(&path));
        for group in groups {
            let parent = group.parent().map_or_else(|| root.to_owned(), |parent| root.join(parent));
            write(parent.join("cgroup.subtree_control"), "+memory")?;
            for folder in group.names().iter().map(|name| root.join(name)) {
                fs::create_dir(&folder).map_err(told(&folder))?;
                for (limit, pages) in group.limits(scale) {
                    write(folder.join(limit.name()), &(pages * PAGE_BYTES as u64).to_string())?;
                }
                if group.oom_group {
                    write(folder.join("memory.oom.group"), "1")?;
                }
            }
        }
        let names = groups.iter().flat_map(Group::names).collect();
        Ok(Self {
            root: root.to_owned(),
            names,
            sections: groups.to_vec(),
            first: Mutex::default(),
            measured: Mutex::default(),
        })
    }

    /// Returns the names of the groups that were created from the section `name` of the machine file.
    ///
    /// # Errors
    /// When the machine file has no such section.
    pub fn names_of(&self, name: &str) -> Result<Vec<String>, SystemError> {
        let section = self.sections.iter().find(|group| group.name == name);
        section.map(Group::names).ok_or_else(|| SystemError(format!("the machine file has no [[group]] `{name}`")))
    }

    /// Returns the folder of a group.
    ///
    /// # Errors
    /// When the machine file has no such group.
    fn folder(&self, name: &str) -> Result<PathBuf, SystemError> {
        match self.names.contains(name) {
            true => Ok(self.root.join(name)),
            false => Err(SystemError(format!("the machine file has no [[group]] `{name}`"))),
        }
    }

    /// Moves this process to a group; `None` is the root group.
    ///
    /// # Errors
    /// When the machine file has no such group, or the kernel refuses.
    pub fn enter(&self, name: Option<&str>) -> Result<(), SystemError> {
        let folder = name.map_or_else(|| Ok(self.root.clone()), |name| self.folder(name))?;
        let told = |error| SystemError(format!("cannot enter group `{}`: {error}", name.unwrap_or("/")));
        // 0 stands for the process that writes.
        fs::write(folder.join("cgroup.procs"), "0").map_err(told)
    }

    /// Moves this process to the group whose `tasks` name [`MAIN`], if there is one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter_of_main(&self) -> Result<(), SystemError> {
        if self.sections.iter().any(|group| group.has_task(MAIN)) { self.enter_of_task(MAIN) } else { Ok(()) }
    }

    /// Moves this process to the group whose `tasks` list the name `task`. That task is about to start. Does nothing if
    /// no group of the machine file has `tasks`, or if the task records counters and so does not belong to the
    /// workload.
    ///
    /// # Errors
    /// When an earlier task belongs to another group: on this ground all tasks are one process, which can be in one
    /// group only. Also when the kernel refuses.
    pub fn enter_of_task(&self, task: &str) -> Result<(), SystemError> {
        if task.starts_with(RECORDER) || self.sections.iter().all(|group| group.tasks.is_empty()) {
            return Ok(());
        }
        let group = self.of_task(task).unwrap_or_default();
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match &*first {
            Some((_, of)) if *of == group => Ok(()),
            Some((other, of)) => Err(SystemError(format!(
                "task `{task}` is in group `/{group}`, and task `{other}` in `/{of}`: on a real kernel all tasks of a \
                 workload are one process, which is in one group; `tasks = [\"*\"]` names all of them"
            ))),
            None => {
                self.enter(Some(&*group).filter(|group| !group.is_empty()))?;
                *first = Some((task.to_owned(), group));
                Ok(())
            }
        }
    }

    /// Returns the name of the group whose `tasks` list the name `task`.
    fn of_task(&self, task: &str) -> Option<String> {
        let named = |group: &Group| group.of_task(task).map(|n| group.names().swap_remove(n));
        self.sections.iter().find_map(named)
    }

    /// Moves this process, which was forked for the task `task`, to the group whose `tasks` list that name. The process
    /// stays in the group of its parent if there is none.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter_of_process(&self, task: &str) -> Result<(), SystemError> {
        self.of_task(task).map_or(Ok(()), |group| self.enter(Some(&group)))
    }

    /// Makes the kernel reclaim `pages` pages of a group, by a write to `memory.reclaim`. Returns `false` if the kernel
    /// freed fewer pages.
    ///
    /// # Errors
    /// When the machine file has no such group, or the kernel has no file `memory.reclaim` or refuses the value.
    pub fn reclaim(&self, name: &str, pages: u64, swappiness: Option<u64>) -> Result<bool, SystemError> {
        let with = swappiness.map_or_else(String::new, |swappiness| format!(" swappiness={swappiness}"));
        let text = format!("{}{with}", pages * PAGE_BYTES as u64);
        match fs::write(self.folder(name)?.join("memory.reclaim"), text) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(SystemError(format!("group `{name}`: memory.reclaim: {error}"))),
        }
    }

    /// Writes a limit or protection of a group.
    ///
    /// # Errors
    /// When the machine file has no such group, or the kernel refuses.
    pub fn set_limit(&self, name: &str, limit: Limit, pages: u64) -> Result<(), SystemError> {
        let text = if pages == u64::MAX { "max".to_owned() } else { (pages * PAGE_BYTES as u64).to_string() };
        let told = |error| SystemError(format!("group `{name}`: {}: {error}", limit.name()));
        fs::write(self.folder(name)?.join(limit.name()), text).map_err(told)
    }

    /// Returns the path of the file with a group's pressure (PSI).
    ///
    /// # Errors
    /// When the machine file has no such group.
    pub fn pressure_file(&self, name: &str) -> Result<PathBuf, SystemError> {
        Ok(self.folder(name)?.join("memory.pressure"))
    }

    /// Records that the workload's measured part begins, so that the rows of groups count only what happens after it.
    pub fn begin_measured(&self) {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).begin(self.figures());
    }

    /// Records that the workload's measured part ends.
    pub fn end_measured(&self) {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).end(self.figures());
    }

    /// Returns for each section `[[group]]` the sums of the counters and of the pressure over its groups. Files that
    /// cannot be read count as empty.
    fn figures(&self) -> Counts {
        let pressure = |name: &str| pressure::read(&self.pressure_file(name).ok()?).ok().flatten();
        let of = |section: &Group| {
            let names = section.names();
            let stat = groups::sum(names.iter().map(|name| self.stat(name).unwrap_or_default()));
            (stat, groups::sum_pressure(names.iter().map(|name| pressure(name).unwrap_or_default())))
        };
        self.sections.iter().map(of).collect()
    }

    /// Returns the report's rows about all groups. Counts of events cover the measured part of the run; amounts of
    /// memory are those of now.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let figures = self.measured.lock().unwrap_or_else(PoisonError::into_inner).of(self.figures());
        let sections = self.sections.iter().zip(figures);
        sections.flat_map(|(group, (stat, pressure))| groups::rows(group, GroupVersion::V2, &stat, &pressure)).collect()
    }

    /// Returns the counters of a group, as [`workloads::system::System::group_stat`] says.
    ///
    /// # Errors
    /// When the machine file has no such group.
    pub fn stat(&self, name: &str) -> Result<Vmstat, SystemError> {
        let folder = self.folder(name)?;
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let mut stat = named(&read("memory.stat"));
        for size in SIZES {
            if let Some(bytes) = stat.get_mut(size) {
                *bytes /= PAGE_BYTES as u64;
            }
        }
        stat.extend(
            named(&read("memory.events.local")).into_iter().map(|(name, n)| (format!("memory.events.{name}"), n)),
        );
        for file in ["memory.current", "memory.peak", "memory.swap.current"] {
            stat.extend(
                read(file).trim().parse::<u64>().ok().map(|bytes| (file.to_owned(), bytes / PAGE_BYTES as u64)),
            );
        }
        Ok(stat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tasks_of_a_process_enter_the_group_that_names_them_and_no_second_one() {
        let root = tempfile::tempdir().unwrap();
        let group = |name: &str, task: &str| Group { name: name.into(), tasks: vec![task.into()], ..Group::default() };
        let sections = [group("server", "server*"), group("backup", "backup")];
        let groups = Groups::create(root.path(), &sections, Scale::FULL).unwrap();
        let entered = |folder: &str| root.path().join(folder).join("cgroup.procs").exists();

        groups.enter_of_task("record series").unwrap();
        assert!(!entered("") && !entered("server"));
        groups.enter_of_task("server 0").unwrap();
        assert!(entered("server"));
        groups.enter_of_task("server 1").unwrap();
        for (other, of) in [("backup", "/backup"), ("client", "/")] {
            let told = groups.enter_of_task(other).unwrap_err().0;
            assert!(told.starts_with(&format!("task `{other}` is in group `{of}`, and task `server 0` in `/server`:")));
        }
        assert!(!entered("backup"));
        // A process of its own goes where its name says, and otherwise stays where it is.
        groups.enter_of_process("client").unwrap();
        assert!(!entered("") && !entered("backup"));
        groups.enter_of_process("backup").unwrap();
        assert!(entered("backup"));
    }
}
