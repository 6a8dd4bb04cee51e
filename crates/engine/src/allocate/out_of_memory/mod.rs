//! The out-of-memory killer: the end of a request that finds nothing to reclaim (`out_of_memory`).
//!
//! *Holds* the kills so far, and the killed processes whose end the reaper waits for. *Flow*: a request of an order up
//! to 3 that has exhausted memory, or a charge that has exhausted a control group, calls `kill_for`. `kill_for` chooses
//! the process with the largest [`badness`] and tells the machine to end the process. The request then tries again, and
//! so does every other request that exhausts memory meanwhile: until the killed process has returned its memory, no
//! other process is chosen. The module is called by `slow`, `charge`; `access` runs the reaper. *Locks*: no lock is
//! held while a process is killed. *Description*: mechanisms/killer.
//!
//! A request fails if no process can be killed, for example where the user of the engine has created no processes.

pub mod badness;

use super::Allocate;
use super::throttle_high::TICK;
use crate::anonymous::{Process, ProcessId, Resident};
use crate::memory::{Gfp, GroupEvent, GroupId, Limit};
use crate::reclaim::control::COSTLY_ORDER;
use crate::stat::Event;
use crate::task::Task;
use machine::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use machine::{Lock, LockClass, Machine, Nanos, Order, WaitReason, Waiting};
use std::sync::Arc;

/// Time after which the reaper frees the memory of a killed process that has not ended by itself (`OOM_REAPER_DELAY`).
const REAPER_DELAY: Nanos = Nanos::from_secs(2);

/// The memory that a request has exhausted: all memory, or that of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// All memory of the machine.
    Memory,
    /// The memory that a control group may use up to its limit.
    Group(GroupId),
}

/// A process that the out-of-memory killer could choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The number of the process.
    pub id: ProcessId,
    /// The name of the process.
    pub name: String,
    /// The control group of the process.
    pub group: GroupId,
    /// The process's `oom_score_adj`, in thousandths of the exhausted memory.
    pub oom_score_adj: i16,
    /// The memory that the process uses.
    pub resident: Resident,
}

/// A run of the out-of-memory killer that killed a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Time of the kill.
    pub at: Nanos,
    /// The memory that was exhausted.
    pub exhausted: Exhausted,
    /// Name and `oom_score_adj` of the process whose request exhausted the memory; `None` for a task that belongs to no
    /// process.
    pub by: Option<(String, i16)>,
    /// The allocation flags of the request that exhausted the memory.
    pub gfp: Gfp,
    /// The order of the request that exhausted the memory.
    pub order: Order,
    /// The processes that the killer could choose, in order of their numbers.
    pub candidates: Vec<Candidate>,
    /// Index of the killed process in `candidates`.
    pub victim: usize,
    /// The group that was killed as a whole because its `memory.oom.group` is set; `None` if only the victim was
    /// killed.
    pub whole: Option<GroupId>,
    /// Indices, in `candidates`, of the processes that were killed with the victim because they are in the group
    /// `whole`.
    pub others: Vec<usize>,
}

/// Outlook of an allocation that has exhausted memory, after the out-of-memory killer has looked for a process to kill.
/// It decides whether the allocation tries again or fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hope {
    /// A killed process will give memory back: the request tries again.
    Memory,
    /// No process can be killed: the request fails.
    None,
}

/// The state of the out-of-memory killer.
pub(super) struct Killer<M: Machine> {
    /// `true` while a task chooses a process (`oom_lock`).
    is_busy: AtomicBool,
    kills: M::Lock<Vec<Kill>>,
    /// Killed processes, with the times at which the reaper may free their memory.
    to_reap: M::Lock<Vec<(Nanos, Arc<Process>)>>,
    reaper: M::WaitQueue,
}

impl<M: Machine> Killer<M> {
    pub(super) fn new(machine: &M) -> Self {
        Self {
            is_busy: AtomicBool::new(false),
            kills: machine.lock(LockClass::Other, Vec::new()),
            to_reap: machine.lock(LockClass::Other, Vec::new()),
            reaper: machine.wait_queue(),
        }
    }
}

impl<M: Machine> Allocate<M> {
    /// Kills a process because a request has exhausted memory, unless a process that was killed before still has memory
    /// to return. Then waits a moment. The calling task may sleep.
    #[doc(alias = "out_of_memory")]
    ///
    /// `has_room` returns whether the request can now be met. It is called once this task is the only task that may
    /// choose a process to kill, because other tasks may have freed enough memory before.
    pub(super) fn kill_for(
        &self,
        task: &Task,
        exhausted: Exhausted,
        gfp: Gfp,
        order: Order,
        has_room: impl FnOnce() -> bool,
    ) -> Hope {
        if order > COSTLY_ORDER || gfp.repeat || !self.anonymous().has_mortal_processes() {
            return Hope::None;
        }
        if self.killer.is_busy.swap(true, AcqRel) {
            // Another task chooses a process; it may be this one.
            self.wait_for_victim();
            return Hope::Memory;
        }
        let hope = if has_room() { Hope::Memory } else { self.choose_and_kill(task, exhausted, gfp, order) };
        self.killer.is_busy.store(false, Release);
        if hope == Hope::Memory && !self.machine.is_killed() {
            self.wait_for_victim();
        }
        hope
    }

    fn wait_for_victim(&self) {
        let _waiting = Waiting::begin(&self.machine, WaitReason::OomKill);
        self.machine.pause(TICK);
    }

    fn choose_and_kill(&self, task: &Task, exhausted: Exhausted, gfp: Gfp, order: Order) -> Hope {
        let is_within = |process: &Arc<Process>| match (exhausted, &self.groups) {
            (Exhausted::Group(group), Some(groups)) => groups.is_within(process.group(), group),
            (Exhausted::Group(_) | Exhausted::Memory, _) => true,
        };
        let processes: Vec<_> = self.anonymous().processes().into_iter().filter(is_within).collect();
        if processes.iter().any(|process| process.is_dying()) {
            return Hope::Memory;
        }
        let candidates: Vec<_> = processes
            .iter()
            .map(|process| Candidate {
                id: process.id,
                name: process.name.clone(),
                group: process.group(),
                oom_score_adj: process.oom_score_adj(),
                resident: self.anonymous().resident(process.id),
            })
            .collect();
        let total_pages = self.pages_of(exhausted);
        let points = processes.iter().zip(&candidates).map(|(process, candidate)| {
            // The reaper has freed what there was.
            let is_left = !process.is_killed();
            is_left.then(|| badness::badness(&candidate.resident, candidate.oom_score_adj, total_pages)).flatten()
        });
        let Some(victim) = badness::worst(points) else { return Hope::None };
        let (whole, others) = self.killed_with(exhausted, victim, &processes);
        let at = self.machine.now();
        let by = self.anonymous().processes().into_iter().find(|process| Some(process.id) == task.process);
        let by = by.map(|process| (process.name.clone(), process.oom_score_adj()));
        let kill = Kill { at, exhausted, by, gfp, order, candidates, victim, whole, others: others.clone() };
        self.killer.kills.lock().push(kill);
        for n in std::iter::once(victim).chain(others) {
            self.kill(&processes[n], at);
        }
        Hope::Memory
    }

    /// Returns the size of the exhausted memory in pages; `oom_score_adj` counts in thousandths of this size. It is the
    /// size of all memory and swap, or of as much memory and swap as the limits of the exhausted group allow
    /// (`oom_control.totalpages`).
    fn pages_of(&self, exhausted: Exhausted) -> u64 {
        let (memory, swap) = (self.memory().usable_pages(), u64::from(self.swap.total_slots()));
        match (exhausted, &self.groups) {
            (Exhausted::Group(group), Some(groups)) => {
                let each = memory.min(groups.limit(group, Limit::Max)) + swap.min(groups.limit(group, Limit::SwapMax));
                each.min(groups.limit(group, Limit::Memsw))
            }
            (Exhausted::Group(_) | Exhausted::Memory, _) => memory + swap,
        }
    }

    /// Returns the group that is killed as a whole with a victim, and the other processes in the group, which are
    /// killed, too. The group is the highest one with `memory.oom.group` set, from the victim's group up to the
    /// exhausted group.
    fn killed_with(
        &self,
        exhausted: Exhausted,
        victim: usize,
        processes: &[Arc<Process>],
    ) -> (Option<GroupId>, Vec<usize>) {
        let Some(groups) = &self.groups else { return (None, Vec::new()) };
        let top = match exhausted {
            Exhausted::Group(group) => group,
            Exhausted::Memory => GroupId::ROOT,
        };
        let above = groups.with_ancestors(processes[victim].group());
        let whole = above.into_iter().rfind(|id| groups.is_within(*id, top) && groups.is_oom_group(*id));
        let Some(whole) = whole else { return (None, Vec::new()) };
        groups.count(whole, GroupEvent::OomGroupKill);
        let dies = |n: &usize| {
            let process = &processes[*n];
            let may_die = process.oom_score_adj() != Process::NEVER && !process.is_killed();
            *n != victim && may_die && groups.is_within(process.group(), whole)
        };
        (Some(whole), (0..processes.len()).filter(dies).collect())
    }

    /// Kills all processes of a group and its descendants, as a write to `cgroup.kill` does. The kills are not counted
    /// as events. No request for memory waits until the memory of these processes is free.
    #[doc(alias = "cgroup.kill")]
    pub fn kill_group(&self, group: GroupId) {
        let Some(groups) = &self.groups else { return };
        let is_within = |process: &&Arc<Process>| !process.is_killed() && groups.is_within(process.group(), group);
        self.anonymous().processes().iter().filter(is_within).for_each(|process| {
            process.set_reaped();
            self.machine.kill_process(process.id.0);
        });
    }

    fn kill(&self, process: &Arc<Process>, at: Nanos) {
        self.stat.count(Event::OomKill, 1);
        if let Some(groups) = self.groups.as_ref().filter(|_| !process.group().is_root()) {
            groups.count(process.group(), GroupEvent::OomKill);
        }
        process.set_killed();
        self.killer.to_reap.lock().push((at + REAPER_DELAY, process.clone()));
        self.machine.kill_process(process.id.0);
        self.machine.wake(&self.killer.reaper);
    }

    /// Returns the last kill, and the number of kills before it; `None` if there was no kill.
    pub fn last_kill(&self) -> Option<(usize, Kill)> {
        let kills = self.killer.kills.lock();
        kills.last().map(|kill| (kills.len() - 1, kill.clone()))
    }

    /// Returns the kills so far, in order of time.
    pub fn kills(&self) -> Vec<Kill> {
        self.killer.kills.lock().clone()
    }

    /// Removes and returns the killed processes whose memory the reaper may free now. Also returns the time at which
    /// the reaper may free the memory of the next process.
    pub(crate) fn take_to_reap(&self, now: Nanos) -> (Vec<Arc<Process>>, Option<Nanos>) {
        let mut left = self.killer.to_reap.lock();
        let due = left.iter().filter(|(at, _)| *at <= now).map(|(_, process)| process.clone()).collect();
        left.retain(|(at, _)| *at > now);
        (due, left.iter().map(|(at, _)| *at).min())
    }

    /// Removes a process that has ended from the list of processes that the reaper waits for.
    pub(crate) fn forget_to_reap(&self, id: ProcessId) {
        self.killer.to_reap.lock().retain(|(_, process)| process.id != id);
    }

    /// Returns the queue in which the reaper waits.
    pub(crate) fn reaper_queue(&self) -> &M::WaitQueue {
        &self.killer.reaper
    }
}
