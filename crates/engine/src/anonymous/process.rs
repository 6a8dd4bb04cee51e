//! Processes: owners of regions, among which the out-of-memory killer chooses (mechanisms/killer).
//!
//! A process is created by the user of the engine, who names it in [`crate::Task::process`] of each of its tasks. Where
//! nobody creates a process, as in the library, nothing can be killed.

use super::{Anonymous, Region};
use crate::memory::GroupId;
use machine::atomic::{AtomicU8, AtomicU16, Ordering::Relaxed};
use machine::{Lock, LockClass, Machine};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a process. Numbers begin with 1 and are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// The state of a process, as the killer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// The process runs.
    Alive,
    /// The process was killed, and its memory has not come back yet.
    Killed,
    /// The process was killed, and the reaper has freed what it could.
    Reaped,
}

/// A process: the owner of regions.
#[derive(Debug)]
pub struct Process {
    /// The number of the process.
    pub id: ProcessId,
    /// The name of the process.
    pub name: String,
    group: AtomicU16,
    /// The bits of an `i16`.
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

    /// Moves the process to a control group. Its pages stay charged to the groups that they were charged to.
    pub fn enter_group(&self, group: GroupId) {
        self.group.store(group.0, Relaxed);
    }

    /// Returns what the killer adds to the size of the process, in thousandths of the memory for which it chooses
    /// (`/proc/PID/oom_score_adj`).
    #[must_use]
    pub fn oom_score_adj(&self) -> i16 {
        self.oom_score_adj.load(Relaxed).cast_signed()
    }

    /// Sets what the killer adds to the size of the process. Values outside -1000 to 1000 count as the nearest of them.
    pub fn set_oom_score_adj(&self, adj: i16) {
        self.oom_score_adj.store(adj.clamp(Self::NEVER, Self::FIRST).cast_unsigned(), Relaxed);
    }

    /// Returns whether the process was killed because memory was exhausted.
    #[inline]
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.state.load(Relaxed) != State::Alive as u8
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
}

/// The memory of a process, pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Length of all regions (`total_vm`).
    pub mapped: u64,
    /// Anonymous pages in memory.
    pub anon: u64,
    /// Pages of files that are mapped.
    pub file: u64,
    /// Anonymous pages in swap.
    pub swapped: u64,
    /// Page-table pages.
    pub tables: u64,
}

impl Resident {
    /// Returns the pages in memory (`rss`).
    #[must_use]
    pub const fn rss(&self) -> u64 {
        self.anon + self.file
    }
}

/// All processes.
pub(super) struct Processes<M: Machine> {
    entries: M::Lock<(u32, BTreeMap<ProcessId, Arc<Process>>)>,
}

impl<M: Machine> Processes<M> {
    pub(super) fn new(machine: &M) -> Self {
        Self { entries: machine.lock(LockClass::Table, (0, BTreeMap::new())) }
    }
}

impl<M: Machine> Anonymous<M> {
    /// Creates a process in a control group, with an `oom_score_adj` of 0.
    pub fn create_process(&self, name: &str, group: GroupId) -> Arc<Process> {
        let mut entries = self.processes.entries.lock();
        entries.0 += 1;
        let process = Arc::new(Process {
            id: ProcessId(entries.0),
            name: name.to_owned(),
            group: AtomicU16::new(group.0),
            oom_score_adj: AtomicU16::new(0),
            state: AtomicU8::new(State::Alive as u8),
        });
        entries.1.insert(process.id, process.clone());
        process
    }

    /// Returns all processes, by number.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.processes.entries.lock().1.values().cloned().collect()
    }

    /// Returns whether there is a process.
    pub(crate) fn has_processes(&self) -> bool {
        !self.processes.entries.lock().1.is_empty()
    }

    /// Removes a process, which has no regions left, from the table of processes.
    pub(crate) fn forget_process(&self, id: ProcessId) {
        self.processes.entries.lock().1.remove(&id);
    }

    /// Returns the regions of a process, by number.
    pub(crate) fn regions_of(&self, id: ProcessId) -> Vec<Arc<Region<M>>> {
        let regions = self.regions.lock();
        regions.entries.values().filter(|region| region.owner == Some(id)).cloned().collect()
    }

    /// Counts the memory of a process by its page tables. This takes real time in proportion to the process's memory,
    /// but no simulated time: a kernel has these numbers at hand.
    pub fn resident(&self, id: ProcessId) -> Resident {
        let mut sum = Resident::default();
        for region in self.regions_of(id) {
            sum.mapped += u64::from(region.pages);
            region.add_resident(&mut sum);
        }
        sum
    }
}
