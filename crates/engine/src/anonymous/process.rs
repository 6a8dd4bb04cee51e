//! Processes, which own regions and among which the out-of-memory killer chooses (mechanisms/killer).
//!
//! The user of the engine creates processes, and stores the number of a process in [`crate::Task::process`] of each of
//! the process's tasks. Without processes, as in the library, nothing can be killed.

use super::{Anonymous, Region, Resident};
use crate::memory::GroupId;
use crate::task::ProcessId;
use machine::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};
use machine::{Lock, Machine};
use std::sync::{Arc, OnceLock};

/// The state of a process, as the out-of-memory killer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// The process runs.
    Alive,
    /// The process was killed, and its memory has not been freed yet.
    Killed,
    /// The process was killed, and no request waits for its memory: the reaper has freed as much of the memory as it
    /// could, or the process's group was killed on demand.
    Reaped,
    /// The process has ended.
    Gone,
}

/// A process: the owner of regions.
#[derive(Debug)]
pub struct Process {
    /// The number of the process.
    pub id: ProcessId,
    /// The name of the process.
    pub name: String,
    group: AtomicU16,
    /// The process's `oom_score_adj`, as the bits of an `i16`.
    oom_score_adj: AtomicU16,
    state: AtomicU8,
}

impl Process {
    /// Value of `oom_score_adj` at which a process is never killed (`OOM_SCORE_ADJ_MIN`).
    pub const NEVER: i16 = -1000;

    /// Value of `oom_score_adj` at which a process is killed first (`OOM_SCORE_ADJ_MAX`).
    pub const FIRST: i16 = 1000;

    /// Returns the control group of the process.
    #[must_use]
    pub fn group(&self) -> GroupId {
        GroupId(self.group.load(Relaxed))
    }

    /// Moves the process to a control group. The pages of the process stay charged to its earlier groups.
    pub fn enter_group(&self, group: GroupId) {
        self.group.store(group.0, Relaxed);
    }

    /// Returns the number that the out-of-memory killer adds to the size of the process, in thousandths of the memory
    /// that is exhausted (`/proc/PID/oom_score_adj`).
    #[must_use]
    pub fn oom_score_adj(&self) -> i16 {
        self.oom_score_adj.load(Relaxed).cast_signed()
    }

    /// Sets the number that the out-of-memory killer adds to the size of the process, in thousandths of the memory that
    /// is exhausted. A value outside of the range from -1000 to 1000 counts as the nearest value in this range.
    pub fn set_oom_score_adj(&self, adj: i16) {
        self.oom_score_adj.store(adj.clamp(Self::NEVER, Self::FIRST).cast_unsigned(), Relaxed);
    }

    /// Returns whether the process was killed, by the out-of-memory killer or with its group, and has not ended yet.
    #[inline]
    #[must_use]
    pub fn is_killed(&self) -> bool {
        let state = self.state.load(Relaxed);
        state == State::Killed as u8 || state == State::Reaped as u8
    }

    /// Returns whether the process was killed, and the reaper has not yet freed its memory.
    #[must_use]
    pub(crate) fn is_dying(&self) -> bool {
        self.state.load(Relaxed) == State::Killed as u8
    }

    pub(crate) fn set_killed(&self) {
        self.state.store(State::Killed as u8, Relaxed);
    }

    pub(crate) fn set_reaped(&self) {
        self.state.store(State::Reaped as u8, Relaxed);
    }

    /// Records that the process has ended, so that the out-of-memory killer does not choose it. Regions that still
    /// belong to the process stay as they are.
    pub fn set_gone(&self) {
        self.state.store(State::Gone as u8, Relaxed);
    }

    fn is_gone(&self) -> bool {
        self.state.load(Relaxed) == State::Gone as u8
    }
}

/// Number of processes that the first part of [`Processes`] can hold. Each further part can hold twice as many
/// processes as the part before it.
const FIRST_PART: u32 = 64;

/// Number of parts of [`Processes`]. Together the parts can hold a process for every [`ProcessId`].
const PARTS: usize = 26;

/// A part of [`Processes`]: a place for each process whose number falls into the part.
type Part = Box<[OnceLock<Arc<Process>>]>;

/// All processes, including those that have ended. The table has no lock, because the start of a task must take no
/// simulated time.
#[derive(Debug, Default)]
pub(super) struct Processes {
    count: AtomicU32,
    parts: [OnceLock<Part>; PARTS],
}

impl Processes {
    /// Returns the position in `parts` of the process that was added as number `n`, counted from 0: the index of the
    /// part, and the index within this part.
    const fn place(n: u32) -> (usize, usize) {
        let part = (n / FIRST_PART + 1).ilog2();
        (part as usize, (n - FIRST_PART * ((1 << part) - 1)) as usize)
    }

    fn add(&self, make: impl FnOnce(ProcessId) -> Process) -> Arc<Process> {
        let n = self.count.fetch_add(1, Relaxed);
        let (part, place) = Self::place(n);
        let places = self.parts[part].get_or_init(|| (0..FIRST_PART << part).map(|_| OnceLock::new()).collect());
        places[place].get_or_init(|| Arc::new(make(ProcessId(n + 1)))).clone()
    }

    /// Returns the processes that have not ended, in order of their numbers.
    fn iter(&self) -> impl Iterator<Item = &Arc<Process>> {
        let places = (0..self.count.load(Relaxed)).map(Self::place);
        let added = places.filter_map(|(part, place)| self.parts[part].get()?[place].get());
        added.filter(|process| !process.is_gone())
    }
}

impl<M: Machine> Anonymous<M> {
    /// Creates a process in a control group, with an `oom_score_adj` of 0. The call takes no simulated time. If the
    /// process is killed and never ends, requests wait for its memory until [`crate::KernelTask::OomReaper`] runs.
    pub fn create_process(&self, name: &str, group: GroupId) -> Arc<Process> {
        self.processes.add(|id| Process {
            id,
            name: name.to_owned(),
            group: AtomicU16::new(group.0),
            oom_score_adj: AtomicU16::new(0),
            state: AtomicU8::new(State::Alive as u8),
        })
    }

    /// Returns all processes that have not ended, in order of their numbers.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.processes.iter().cloned().collect()
    }

    /// Returns whether there is a process that may be killed.
    pub(crate) fn has_mortal_processes(&self) -> bool {
        self.processes.iter().any(|process| process.oom_score_adj() != Process::NEVER)
    }

    /// Returns the regions of a process, in order of their numbers.
    pub(crate) fn regions_of(&self, id: ProcessId) -> Vec<Arc<Region<M>>> {
        let regions = self.regions.lock();
        regions.entries.values().filter(|region| region.owner == Some(id)).cloned().collect()
    }

    /// Counts the memory of a process by its page tables. The call takes real time in proportion to the process's
    /// memory. It takes no simulated time, because a real kernel does not count these pages but keeps their numbers up
    /// to date.
    pub fn resident(&self, id: ProcessId) -> Resident {
        let mut sum = Resident::default();
        for region in self.regions_of(id) {
            sum.mapped += u64::from(region.pages);
            region.add_resident(&mut sum);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for n in 0..100_000 {
            assert_eq!(Processes::place(n), next, "{n}");
            let is_last = next.1 + 1 == (FIRST_PART << next.0) as usize;
            next = if is_last { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_found() {
        let processes = Processes::default();
        let make = |id| Process {
            id,
            name: "a".into(),
            group: AtomicU16::new(0),
            oom_score_adj: AtomicU16::new(0),
            state: AtomicU8::new(State::Alive as u8),
        };
        let added: Vec<_> = (0..200).map(|_| processes.add(make)).collect();
        added[7].set_gone();
        let found: Vec<_> = processes.iter().map(|process| process.id.0).collect();
        assert_eq!(found, (1..=200).filter(|id| *id != 8).collect::<Vec<_>>());
    }
}
