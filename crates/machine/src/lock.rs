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
    /// The index of one file, or of the swap cache (`i_pages`, once `tree_lock`).
    IPages,
    /// LRU lists (`lru_lock`).
    Lru,
    /// Free lists of one zone (`zone.lock`).
    Zone,
    /// Data that are locked last, with no other lock taken inside: free blocks, object caches, index nodes, rates.
    Other,
}

impl LockClass {
    /// Every class, in order of rank.
    pub const ALL: [Self; 8] =
        [Self::Table, Self::Writeback, Self::PageTable, Self::Swap, Self::IPages, Self::Lru, Self::Zone, Self::Other];

    /// Returns the rank of the class. A task that holds a lock may take only locks of higher rank.
    #[must_use]
    pub const fn rank(self) -> u8 {
        self as u8
    }

    /// Returns whether a task that holds a slot of a [`PerCpu`] may take the lock.
    #[must_use]
    pub const fn may_be_taken_in_slot(self) -> bool {
        matches!(self, Self::Lru | Self::Zone | Self::Other)
    }

    /// Returns whether interrupts are off on the CPU that holds the lock, and on a CPU that spins for it.
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

/// A lock around a `T`, made by [`crate::Machine::lock`].
pub trait Lock<T> {
    /// The guard of the lock, which is held until the guard is dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Waits for the lock and takes it.
    fn lock(&self) -> Self::Guard<'_>;

    /// Takes the lock if it is free.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;

    /// Returns whether a task waits for the lock while it is held. `false` if that cannot be determined.
    #[doc(alias = "spin_is_contended")]
    fn is_contended(&self) -> bool {
        false
    }
}

/// A per-CPU value: a slot with a `T` for each CPU. Made by [`crate::Machine::per_cpu`].
pub trait PerCpu<T> {
    /// The guard of a slot, which is held until the guard is dropped. On a simulated machine, interrupts of the CPU are
    /// off meanwhile.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Returns the slot of the CPU that runs the caller. While it holds the slot, the caller may take only locks of the
    /// classes that [`LockClass::may_be_taken_in_slot`] allows. It must not hold a lock of one of these classes already
    /// when it calls this.
    fn local(&self) -> Self::Guard<'_>;

    /// Calls `visit` with every slot in turn. The CPU of a slot cannot use the slot during the call.
    fn for_each_cpu(&self, visit: impl FnMut(&mut T));
}
