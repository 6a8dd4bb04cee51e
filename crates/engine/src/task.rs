//! The state of a task: every entry of the engine takes the caller's as `&mut Task`.

use crate::page_cache::ReadPattern;
use machine::{DeviceId, Nanos};

/// A task as the engine sees it: its rights and its own counts.
#[derive(Debug, Default)]
pub struct Task {
    /// The task may use the reserve under the min mark, because its work frees memory (`PF_MEMALLOC`).
    pub may_use_reserve: bool,
    /// `true` for a node's kswapd.
    pub is_kswapd: bool,
    /// `true` for a kernel task. Kernel tasks are not held back by `throttle_direct_reclaim`.
    pub is_kernel: bool,
    /// The task may write to a congested queue (`PF_SWAPWRITE`).
    pub may_write_congested: bool,
    /// The device to which the task writes a file. It may write to this device's queue even if it is congested
    /// (`current->backing_dev_info`).
    pub writes_to: Option<DeviceId>,
    /// The fault on a page of a mapped file that the task handles.
    pub file_fault: Option<FileFault>,
    /// Pages dirtied since the last pause of `balance_dirty_pages`.
    pub pages_dirtied: u64,
    /// Pages that the task has dirtied since it began, up to its last check.
    pub pages_dirtied_ever: u64,
    /// Pages to dirty before `balance_dirty_pages` looks again.
    pub pages_dirtied_poll: u64,
    /// Time at which the last dirty pause ended.
    pub dirty_paused_at: Nanos,
    /// Faults served without I/O.
    pub minor_faults: u64,
    /// Faults that waited for I/O.
    pub major_faults: u64,
    /// Time spent waiting in major faults.
    pub major_fault_wait: Nanos,
}

/// A fault on a page of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// The access pattern of the mapping.
    pub pattern: ReadPattern,
    /// `true` if the file's page will be mapped. A write to a private mapping maps a copy of it.
    pub maps_page: bool,
}

impl Task {
    /// Returns whether the task faults on a page of a file that is about to be mapped.
    pub(crate) fn maps_page_of_file(&self) -> bool {
        self.file_fault.is_some_and(|fault| fault.maps_page)
    }

    /// Creates a program's task: no special rights.
    #[must_use]
    pub fn user() -> Self {
        Self::default()
    }

    /// Creates a node's kswapd.
    #[must_use]
    pub fn kswapd() -> Self {
        Self { may_use_reserve: true, is_kswapd: true, is_kernel: true, may_write_congested: true, ..Self::default() }
    }

    /// Runs `work`, which writes a file of the device.
    pub(crate) fn writing_to<T>(&mut self, device: DeviceId, work: impl FnOnce(&mut Self) -> T) -> T {
        self.writes_to = Some(device);
        let done = work(self);
        self.writes_to = None;
        done
    }

    /// Creates the task that makes huge pages of small ones.
    #[must_use]
    pub fn khugepaged() -> Self {
        Self { is_kernel: true, ..Self::default() }
    }

    /// Creates a device's flusher.
    #[must_use]
    pub fn flusher() -> Self {
        Self { is_kernel: true, may_write_congested: true, ..Self::default() }
    }
}
