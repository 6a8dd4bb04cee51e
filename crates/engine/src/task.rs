//! The state of a task, and the number of the process that it belongs to. Each operation of the engine that works for a
//! task takes the caller's state as `&mut Task`.
//!
//! All floors use this module, so it uses none of them.

use crate::memory::group::id::GroupId;
use crate::page_cache::read_state::ReadPattern;
use machine::{DeviceId, Nanos};

/// A task as the engine sees it: its rights and its counters.
#[derive(Debug, Default)]
pub struct Task {
    /// `true` if the task may use the reserve below the min mark, because its work frees memory (`PF_MEMALLOC`).
    pub may_use_reserve: bool,
    /// `true` if the task is the kswapd of a node.
    pub is_kswapd: bool,
    /// `true` for a kernel task. `throttle_direct_reclaim` does not throttle kernel tasks.
    pub is_kernel: bool,
    /// `true` if the task may write to a congested queue (`PF_SWAPWRITE`).
    pub may_write_congested: bool,
    /// The device of the file that the task is writing. The task may write to this device's queue even if the queue is
    /// congested (`current->backing_dev_info`).
    pub writes_to: Option<DeviceId>,
    /// The memory control group to which the task's pages are charged.
    pub group: GroupId,
    /// The process of the task, if there is one: the owner of the regions that the task maps. If a request of the task
    /// exhausts memory, a process is killed (mechanisms/killer).
    pub process: Option<ProcessId>,
    /// Number of pages that the task has charged while its group, or an ancestor, was above its `memory.high`, and for
    /// which the task has not yet been throttled.
    pub over_high_pages: u64,
    /// The page fault that the task is handling; `None` if it handles no fault, or a fault on an anonymous page.
    pub file_fault: Option<FileFault>,
    /// Number of pages that the task has dirtied since its last pause in `balance_dirty_pages`.
    pub pages_dirtied: u64,
    /// Number of all pages that the task had dirtied at its last check of the dirty limits.
    pub pages_dirtied_ever: u64,
    /// Number of pages that the task may dirty before `balance_dirty_pages` checks the dirty limits again.
    pub pages_dirtied_poll: u64,
    /// Time at which the task's last pause in `balance_dirty_pages` ended.
    pub dirty_paused_at: Nanos,
    /// Number of the task's faults that were served without I/O.
    pub minor_faults: u64,
    /// Number of the task's faults that waited for I/O.
    pub major_faults: u64,
    /// Time that the task has spent waiting in major faults.
    pub major_fault_wait: Nanos,
}

/// The number of a process. Numbers begin with 1 and are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A fault on a page of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// The access pattern of the mapping.
    pub pattern: ReadPattern,
    /// `true` if the file's page itself will be mapped; `false` for a write to a private mapping, which maps a copy.
    pub maps_page: bool,
}

impl Task {
    /// Returns whether the task handles a fault that maps the page of a file, not a copy of the page.
    pub(crate) fn maps_page_of_file(&self) -> bool {
        self.file_fault.is_some_and(|fault| fault.maps_page)
    }

    /// Creates the task of a program, without special rights.
    #[must_use]
    pub fn user() -> Self {
        Self::default()
    }

    /// Creates the task of a program whose pages are charged to a group.
    #[must_use]
    pub fn in_group(group: GroupId) -> Self {
        Self { group, ..Self::default() }
    }

    /// Creates the task of a node's kswapd.
    #[must_use]
    pub fn kswapd() -> Self {
        Self { may_use_reserve: true, is_kswapd: true, is_kernel: true, may_write_congested: true, ..Self::default() }
    }

    /// Runs `work`, which writes a file of `device`, with [`Task::writes_to`] set.
    pub(crate) fn writing_to<T>(&mut self, device: DeviceId, work: impl FnOnce(&mut Self) -> T) -> T {
        self.writes_to = Some(device);
        let done = work(self);
        self.writes_to = None;
        done
    }

    /// Creates the task that makes huge pages of small ones (khugepaged).
    #[must_use]
    pub fn khugepaged() -> Self {
        Self { is_kernel: true, ..Self::default() }
    }

    /// Creates the task of a device's flusher.
    #[must_use]
    pub fn flusher() -> Self {
        Self { is_kernel: true, may_write_congested: true, ..Self::default() }
    }
}
