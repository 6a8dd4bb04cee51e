//! Page reclaim as Linux designed it, generic over the machine under it.
//!
//! Modules in reading order. Each is a layer, called a *floor*, and uses only the floors below it:
//!
//! * [`interrupt`]: the end of a request to a device, reported by the machine;
//! * [`access`]: what a task does: read, write, touch, fault;
//! * [`allocate`]: the fast path of allocation, and the slow path below the low mark (a reader starts here);
//! * [`reclaim`]: kswapd, direct reclaim, and the decision whether a page is freed, kept or written;
//! * [`compact`]: the decision whether compaction could help, its two scanners, and its deferral;
//! * [`migrate`]: the move of a page to another frame;
//! * [`lru`]: the order in which pages are reclaimed; batches in front of the lists;
//! * [`writeback`]: dirty pages on their way to devices;
//! * [`anonymous`]: regions, and the mappings of a page;
//! * [`swap`]: slots, and the pages that have one;
//! * [`page_cache`]: files, and their pages that are in memory;
//! * [`slab`]: kernel objects, many to a page;
//! * [`memory`]: frames, zones, watermarks, free lists;
//! * `bio`: requests to devices; [`stat`]: counters, open to all floors; [`choice`]: how choices are declared;
//!   [`task`]: the state of a task.
//!
//! In the engine, a floor owns the floor below and dereferences to it. So a call to the floor below is written like any
//! other call, and a call to a higher floor does not compile. A call that goes more than one floor down names the
//! floor: `self.lru().put(…)`.
//!
//! For users, an [`Engine`] dereferences to nothing. It has a method for each floor, from [`Engine::access`] to
//! [`Engine::memory`], so a call names its floor: `engine.access().read(…)`, `engine.memory().zones`.
//!
//! [`kernel`] combines the choices of the modules, [`check`] verifies the whole engine.

pub mod access;
pub mod allocate;
pub mod anonymous;
mod bio;
pub mod check;
pub mod choice;
pub mod compact;
pub mod interrupt;
pub mod kernel;
pub mod lru;
pub mod memory;
pub mod migrate;
pub mod page_cache;
pub mod reclaim;
pub mod slab;
pub mod stat;
pub mod swap;
pub mod task;
pub mod writeback;

pub use access::{Error, KernelTask, ReadPattern, ReadState, Unacknowledged};
pub use kernel::Kernel;
pub use memory::{Layout, LayoutError};
pub use task::Task;

use access::Access;
use allocate::Allocate;
use anonymous::Anonymous;
use compact::Compact;
use lru::Lru;
use machine::Machine;
use memory::{Memory, NodeId};
use migrate::Migrate;
use page_cache::PageCache;
use reclaim::Reclaim;
use slab::Slab;
use stat::Vmstat;
use swap::{Swap, SwapArea, SwapLayout};
use writeback::{DeviceLayout, Writeback};

/// The page reclaim engine, which runs on one machine.
pub struct Engine<M: Machine> {
    access: Access<M>,
}

/// The reason why an engine cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewError {
    /// The layout of the memory cannot be used.
    Layout(LayoutError),
    /// A number is outside of the limits of its key, or the choices ask for the program's own policy and the program
    /// has set none.
    Choices(placed::Error),
}

impl std::fmt::Display for NewError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Layout(error) => error.fmt(f),
            Self::Choices(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NewError {}

impl<M: Machine> Engine<M> {
    /// Creates an engine with all memory free, no files and empty swap.
    ///
    /// # Errors
    /// Fails when the layout is empty, out of order, too small or too large, or when [`kernel::Choices::check`] refuses
    /// the choices.
    pub fn new(
        machine: M,
        choices: &kernel::Choices,
        layout: &Layout,
        devices: &[DeviceLayout],
        swap: SwapLayout,
    ) -> Result<Self, NewError> {
        choices.check().map_err(NewError::Choices)?;
        let memory = Memory::new(machine, choices.memory.clone(), layout).map_err(NewError::Layout)?;
        let slab = Slab::new(memory, choices.slab.clone());
        let page_cache = PageCache::new(slab, choices.page_cache.clone());
        let swap = Swap::new(page_cache, choices.swap.clone(), swap);
        let anonymous = Anonymous::new(swap);
        let writeback = Writeback::new(anonymous, choices.writeback.clone(), devices);
        let lru = Lru::new(writeback, choices.lru.clone(), choices.multigen.clone());
        let compact = Compact::new(Migrate::new(lru), choices.compact.clone());
        let reclaim = Reclaim::new(compact, choices.reclaim.clone());
        let allocate = Allocate::new(reclaim, choices.allocate.clone());
        Ok(Self { access: Access::new(allocate, choices.access.clone()) })
    }

    /// Returns the engine's layer whose methods tasks call to read, write, touch or pin pages.
    #[inline(always)]
    pub fn access(&self) -> &Access<M> {
        &self.access
    }

    /// Returns the engine's layer that allocates blocks of pages, for users that need blocks of their own.
    #[inline(always)]
    pub fn allocate(&self) -> &Allocate<M> {
        &self.access
    }

    /// Returns the engine's layer that reclaims pages: kswapd and direct reclaim.
    #[inline(always)]
    pub fn reclaim(&self) -> &Reclaim<M> {
        &self.access
    }

    /// Returns the engine's layer that compacts memory.
    #[inline(always)]
    pub fn compact(&self) -> &Compact<M> {
        &self.access
    }

    /// Returns the engine's layer that moves pages to other frames.
    #[inline(always)]
    pub fn migrate(&self) -> &Migrate<M> {
        &self.access
    }

    /// Returns the engine's layer that keeps the order in which pages are reclaimed.
    #[inline(always)]
    pub fn lru(&self) -> &Lru<M> {
        &self.access
    }

    /// Returns the engine's layer for writeback: the devices, and the dirty pages of each.
    #[inline(always)]
    pub fn writeback(&self) -> &Writeback<M> {
        &self.access
    }

    /// Returns the engine's layer of anonymous and mapped regions.
    #[inline(always)]
    pub fn anonymous(&self) -> &Anonymous<M> {
        &self.access
    }

    /// Returns the swap area, with its slots.
    #[inline(always)]
    pub fn swap(&self) -> &SwapArea<M> {
        &self.access.swap
    }

    /// Returns the engine's layer of files and their cached pages.
    #[inline(always)]
    pub fn page_cache(&self) -> &PageCache<M> {
        &self.access
    }

    /// Returns the engine's layer of kernel objects.
    #[inline(always)]
    pub fn slab(&self) -> &Slab<M> {
        &self.access
    }

    /// Returns the engine's layer of frames, zones, nodes and their gauges.
    #[inline(always)]
    pub fn memory(&self) -> &Memory<M> {
        &self.access
    }

    /// Returns the machine on which the engine runs: its clock, CPUs, locks, disks and memory.
    #[inline(always)]
    pub fn machine(&self) -> &M {
        &self.memory().machine
    }

    /// Returns the task khugepaged, which makes huge pages of small ones; `None` if this kernel has no khugepaged. The
    /// program that provides the machine starts this task when it makes a region that may have huge pages. If the
    /// program never starts the task, a range whose fault got a small page never gets a huge page.
    #[must_use]
    pub fn khugepaged(&self) -> Option<KernelTask> {
        self.access.khugepaged_task()
    }

    /// Returns the tasks of kswapd and of the flushers. The program that provides the machine starts them together with
    /// the engine. khugepaged is not among them; see [`Engine::khugepaged`].
    #[must_use]
    pub fn kernel_tasks(&self) -> Vec<KernelTask> {
        self.access.kernel_tasks()
    }

    /// Runs one of the engine's tasks, and returns when the task is killed.
    pub fn run(&self, task: KernelTask) {
        self.access.run_kernel_task(task);
    }

    /// Returns all counters and gauges, under their kernel names. Counters of refaults are included only if the kernel
    /// stores a shadow when it evicts a page; Linux before 3.15 has no such counters.
    #[must_use]
    pub fn vmstat(&self) -> Vmstat {
        self.access.vmstat()
    }

    /// Returns the counters of one node, as `/sys/devices/system/node/node0/vmstat` shows them. Only counters that are
    /// kept for each zone are included, each summed over the zones of the node.
    #[must_use]
    pub fn node_vmstat(&self, node: NodeId) -> Vmstat {
        self.access.vmstat_of_node(node)
    }

    /// Checks the whole engine: every frame is in exactly one place, and counters add up. Call it only when no task is
    /// inside the engine.
    ///
    /// # Errors
    /// Fails at the first broken invariant, and names the frame, zone or file and the values.
    pub fn check(&self) -> Result<(), check::Broken> {
        self.access.check()
    }
}
