//! The classes of locks, and the traits of locks and per-CPU values.

use std::ops::DerefMut;

/// The class of a lock, named after the data that it protects. The class alone decides in which order locks are taken
/// ([`LockClass::rank`]) and whether interrupts are off while the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LockClass {
    /// The tables of files and regions, in which completions of requests look up the owners of pages.
    Table,
    /// Lists of files that wait for writeback (`wb.list_lock`).
    Writeback,
    /// The page table of one region.
    PageTable,
    /// Swap slots of one device.
    Swap,
    /// The index of one file, or of the swap cache (`i_pages`; in older kernels `tree_lock`).
    IPages,
    /// A lock of LRU lists (`lru_lock`).
    Lru,
    /// Free lists of one zone (`zone.lock`).
    Zone,
    /// Data whose lock is taken last, so that no other lock is taken while it is held: free blocks, object caches,
    /// index nodes, and rates.
    Other,
}

impl LockClass {
    /// All lock classes, in ascending order of rank.
    pub const ALL: [Self; 8] =
        [Self::Table, Self::Writeback, Self::PageTable, Self::Swap, Self::IPages, Self::Lru, Self::Zone, Self::Other];

    /// Returns the rank of the class. A task that holds a lock may take only locks whose rank is higher than that of
    /// the held lock.
    #[must_use]
    pub const fn rank(self) -> u8 {
        self as u8
    }

    /// Returns whether a task that holds a slot of a [`PerCpu`] may take locks of this class.
    #[must_use]
    pub const fn may_be_taken_in_slot(self) -> bool {
        matches!(self, Self::Lru | Self::Zone | Self::Other)
    }

    /// Returns whether interrupts are off on a CPU while it holds a lock of this class, or spins for one.
    #[must_use]
    pub const fn interrupts_off(self) -> bool {
        matches!(self, Self::Table | Self::IPages | Self::Lru | Self::Zone)
    }

    /// Returns the name under which reports show the class.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Writeback => "writeback",
            Self::PageTable => "page_table",
            Self::Swap => "swap",
            Self::IPages => "i_pages",
            Self::Lru => "lru",
            Self::Zone => "zone",
            Self::Other => "other",
        }
    }
}

/// A lock around a `T`. [`crate::Machine::lock`] makes it.
pub trait Lock<T> {
    /// The guard of the lock. The lock is held until the guard is dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Waits for the lock and takes it.
    fn lock(&self) -> Self::Guard<'_>;

    /// Takes the lock if it is free; returns `None` if another task holds it.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;

    /// Returns whether a task waits for the lock, which the caller holds. Returns `false` if the machine cannot
    /// determine this.
    #[doc(alias = "spin_is_contended")]
    fn is_contended(&self) -> bool {
        false
    }
}

/// A per-CPU value: a slot with a `T` for each CPU. [`crate::Machine::per_cpu`] makes it.
pub trait PerCpu<T> {
    /// The guard of a slot. The slot is held until the guard is dropped. On a simulated machine, interrupts of the CPU
    /// are off while the slot is held.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Takes the slot of the CPU that runs the caller, and returns its guard. While the caller holds the slot, it may
    /// take only locks of the classes that [`LockClass::may_be_taken_in_slot`] allows. The caller must not already hold
    /// a lock of one of these classes when it takes the slot.
    fn local(&self) -> Self::Guard<'_>;

    /// Calls `visit` with every slot in turn. The CPU of a slot cannot use the slot during the call.
    fn for_each_cpu(&self, visit: impl FnMut(&mut T));
}
