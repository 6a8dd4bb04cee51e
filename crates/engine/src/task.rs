//! The state of a task: every entry of the engine takes the caller's as `&mut Task`.

use crate::page_cache::ReadPattern;
use machine::{DeviceId, Nanos};

/// A task as the engine sees it: its rights and its own counts.
#[derive(Debug, Default)]
pub struct Task {
    /// May use the reserve under the min mark, because what it does makes room (`PF_MEMALLOC`).
    pub may_use_reserve: bool,
    /// Is it a node's kswapd?
    pub is_kswapd: bool,
    /// Is it a kernel task? Kernel tasks are not held back by `throttle_direct_reclaim`.
    pub is_kernel: bool,
    /// May write to a congested queue (`PF_SWAPWRITE`).
    pub may_write_congested: bool,
    /// The device that it is writing a file of: it may write to its queue though that is congested
    /// (`current->backing_dev_info`).
    pub writes_to: Option<DeviceId>,
    /// It faults on a page of a mapped file.
    pub file_fault: Option<FileFault>,
    /// Pages dirtied since the last pause of `balance_dirty_pages`.
    pub pages_dirtied: u64,
    /// Pages that it has dirtied since it began, up to its last look.
    pub pages_dirtied_ever: u64,
    /// Pages to dirty before `balance_dirty_pages` looks again.
    pub pages_dirtied_poll: u64,
    /// When the last dirty pause ended.
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
    /// In which order the task goes through the mapping.
    pub pattern: ReadPattern,
    /// Will the file's page be mapped? A write to a private mapping maps a copy of it.
    pub maps_page: bool,
}

impl Task {
    /// Does it fault on a page of a file, which is about to be mapped?
    pub(crate) fn maps_page_of_file(&self) -> bool {
        self.file_fault.is_some_and(|fault| fault.maps_page)
    }

    /// A program's task: no special rights.
    #[must_use]
    pub fn user() -> Self {
        Self::default()
    }

    /// A node's kswapd.
    #[must_use]
    pub fn kswapd() -> Self {
        Self { may_use_reserve: true, is_kswapd: true, is_kernel: true, may_write_congested: true, ..Self::default() }
    }

    /// Does `work`, which writes a file of the device.
    pub(crate) fn writing_to<T>(&mut self, device: DeviceId, work: impl FnOnce(&mut Self) -> T) -> T {
        self.writes_to = Some(device);
        let done = work(self);
        self.writes_to = None;
        done
    }

    /// The task that makes huge pages of small ones.
    #[must_use]
    pub fn khugepaged() -> Self {
        Self { is_kernel: true, ..Self::default() }
    }

    /// A device's flusher.
    #[must_use]
    pub fn flusher() -> Self {
        Self { is_kernel: true, may_write_congested: true, ..Self::default() }
    }
}
