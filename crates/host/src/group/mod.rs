//! [`Group`]: a memory control group, which has files and regions of one memory, with limits and protection.

pub(crate) mod error;
pub(crate) mod table;

pub use error::GroupError;

use crate::error::Error;
use crate::region::Region;
use crate::shared::Shared;
use engine::memory::{GroupEvent, Limit};
use machine::PAGE_BYTES;
use machine::pressure::Pressure;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use table::{Groups, Node};

/// A memory control group: a part of the files and regions of a [`Memory`](crate::Memory), with limits and protection
/// of their pages. Groups form a tree. They correspond to Linux cgroups (version 2) with the controller `memory`.
///
/// Every page of the group's files and regions is charged to the group and to its ancestors, whichever thread uses the
/// page. A clone is a handle of the same group. Handles may be used from any thread. Files and regions without a group
/// are limited by the size of the memory alone.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// use highwater::{Memory, OpenOptions};
///
/// let memory = Memory::builder().size(16 << 20).groups(2).start()?;
/// let cache = memory.group("cache")?;
/// cache.set_max(1 << 20)?;
/// std::fs::write(&path, vec![1; 4 << 20])?;
/// let file = OpenOptions::new().group(&cache).open(&memory, &path)?;
/// file.read_exact_at(&mut vec![0; 4 << 20], 0)?;
/// assert!(cache.usage() <= 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Group {
    shared: Arc<Shared>,
    node: Arc<Node>,
}

/// The key by which [`OpenOptions`](crate::OpenOptions) refer to a group: the number of its memory and the number of
/// the group itself. Neither number is ever given to another memory or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupKey {
    memory: u64,
    group: u64,
}

impl GroupKey {
    /// Returns the group of the memory `shared` that this key names.
    ///
    /// # Errors
    /// When the group was removed, or belongs to another memory.
    pub(crate) fn find(self, shared: &Shared) -> Result<Arc<Node>, GroupError> {
        if self.memory != shared.number() {
            return Err(GroupError::OtherMemory);
        }
        shared.groups().and_then(|groups| groups.find(self.group)).ok_or(GroupError::Removed)
    }
}

impl Group {
    /// Returns the group called `name` below `parent`, or below the root group if `parent` is `None`. Creates the group
    /// if it does not exist.
    pub(crate) fn get_or_create(shared: &Arc<Shared>, parent: Option<&Arc<Node>>, name: &str) -> Result<Self, Error> {
        shared.check_is_up()?;
        let no_room = || Error::Group { name: name.to_owned(), kind: GroupError::NoRoom { room: 0 } };
        let groups = shared.groups().ok_or_else(no_room)?;
        let node = groups.get_or_create(&shared.engine, parent, name)?;
        Ok(Self { shared: shared.clone(), node })
    }

    pub(crate) fn key(&self) -> GroupKey {
        GroupKey { memory: self.shared.number(), group: self.node.serial }
    }

    fn groups(&self) -> &Groups {
        self.shared.groups().expect("a memory with a group has room for groups")
    }

    fn of_engine(&self) -> &engine::memory::Groups<crate::machine::Host> {
        self.shared.engine.memory().groups.as_ref().expect("a memory with a group has room for groups")
    }

    /// Calls `look`, which reads a figure of the group, and returns the figure. If this group was removed and a new
    /// group has its number, returns `T::default()` instead, because `look` would read the figure of the new group.
    fn read<T: Default>(&self, look: impl FnOnce() -> T) -> T {
        if self.groups().has_number(&self.node) { look() } else { T::default() }
    }

    fn removed(&self) -> Error {
        self.node.refuse(GroupError::Removed)
    }

    /// Returns the names of the group and its ancestors, the top of the tree first, with slashes between them:
    /// `cache/inner`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.node.path
    }

    /// Returns the child called `name`, and creates it if there is none. A new group has no limits and no protection.
    ///
    /// # Errors
    /// As [`Memory::group`](crate::Memory::group); also when this group was removed.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(2).start()?;
    /// let inner = memory.group("cache")?.group("inner")?;
    /// assert_eq!(inner.name(), "cache/inner");
    /// assert!(memory.group("one too many").is_err());
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn group(&self, name: &str) -> Result<Self, Error> {
        Self::get_or_create(&self.shared, Some(&self.node), name)
    }

    /// Returns a region of anonymous memory of `bytes` bytes in this group:
    /// see [`Memory::anonymous`](crate::Memory::anonymous).
    ///
    /// # Errors
    /// When the region would have more than 2^32 - 1024 pages, or the group was removed.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// let heaps = memory.group("heaps")?;
    /// let heap = heaps.anonymous(1 << 20)?;
    /// heap.write_at(&[1; 1 << 20], 0)?;
    /// assert!(heaps.usage() >= 1 << 20);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn anonymous(&self, bytes: u64) -> Result<Region, Error> {
        self.region(bytes, false)
    }

    /// Returns a region of anonymous memory of `bytes` bytes in huge pages, in this group:
    /// see [`Memory::anonymous_huge`](crate::Memory::anonymous_huge).
    ///
    /// # Errors
    /// As [`Group::anonymous`].
    pub fn anonymous_huge(&self, bytes: u64) -> Result<Region, Error> {
        self.region(bytes, true)
    }

    fn region(&self, bytes: u64, huge_pages: bool) -> Result<Region, Error> {
        if self.node.is_removed() {
            return Err(self.removed());
        }
        Region::new(&self.shared, Some(self.node.clone()), bytes, huge_pages)
    }

    /// Sets the largest number of bytes that may be charged to the group and its descendants (`memory.max`), rounded
    /// down to whole pages; `None` stands for no limit, which is the default. If the present charge exceeds the limit,
    /// the call reclaims the excess as far as it can.
    ///
    /// A call that needs a page at the limit reclaims in the group. If nothing can be freed, the call returns
    /// [`Error::OutOfMemory`], which names the group.
    ///
    /// # Errors
    /// When the group was removed.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// let heaps = memory.group("heaps")?;
    /// let heap = heaps.anonymous(8 << 20)?;
    /// heaps.set_max(1 << 20)?;
    /// let full = heap.write_at(&vec![1; 8 << 20], 0).unwrap_err(); // there is no swap
    /// assert!(full.to_string().starts_with("group heaps is full"));
    /// heaps.set_max(None)?;
    /// heap.write_at(&vec![1; 8 << 20], 0)?;
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn set_max(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.set_limit(Limit::Max, bytes.into())
    }

    /// Sets the high limit of the group (`memory.high`), bytes. While more bytes than this are charged to the group,
    /// threads that take further pages of the group are throttled. The number is rounded down to whole pages; `None`
    /// stands for no high limit, which is the default. If the present charge exceeds the limit, the call reclaims the
    /// excess as far as it can.
    ///
    /// A thread that took pages above the limit must reclaim as many pages of the group as it took before it continues.
    /// If the group stays far above the limit, the thread then sleeps for up to 2 s. A thread that pinned a page with a
    /// guard reclaims and sleeps only before its next call that needs a page.
    ///
    /// # Errors
    /// When the group was removed.
    pub fn set_high(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.set_limit(Limit::High, bytes.into())
    }

    /// Sets the number of bytes of the group that reclaim leaves alone while it finds enough elsewhere (`memory.low`),
    /// rounded down to whole pages; `None` stands for all bytes of the group. Default: 0.
    ///
    /// # Errors
    /// When the group was removed.
    pub fn set_low(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.set_limit(Limit::Low, bytes.into())
    }

    /// Sets the number of bytes of the group that reclaim never takes (`memory.min`), rounded down to whole pages.
    /// `None` stands for all bytes of the group. Default: 0. If the protected pages leave too little memory, calls for
    /// other files and regions return [`Error::OutOfMemory`].
    ///
    /// # Errors
    /// When the group was removed.
    pub fn set_min(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.set_limit(Limit::Min, bytes.into())
    }

    /// Sets the largest number of bytes of the group and its descendants that may be in swap (`memory.swap.max`),
    /// rounded down to whole pages; `None` stands for no limit, which is the default.
    ///
    /// # Errors
    /// When the group was removed.
    pub fn set_swap_max(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.set_limit(Limit::SwapMax, bytes.into())
    }

    fn set_limit(&self, limit: Limit, bytes: Option<u64>) -> Result<(), Error> {
        let pages = bytes.map_or(u64::MAX, |bytes| bytes / PAGE_BYTES as u64);
        let entered = self.groups().enter(&self.node).ok_or_else(|| self.removed())?;
        self.of_engine().set_limit(self.node.id, limit, pages);
        drop(entered);
        let excess = self.of_engine().usage(self.node.id).saturating_sub(pages);
        if matches!(limit, Limit::Max | Limit::High) && excess > 0 {
            self.reclaim_pages(excess);
        }
        Ok(())
    }

    /// Returns the number of bytes that are charged to the group and its descendants (`memory.current`). Up to 64 pages
    /// for each shard of the memory may be charged before they are used. For a removed group, returns the number of
    /// bytes that are still charged to it.
    #[must_use]
    pub fn usage(&self) -> u64 {
        self.read(|| self.of_engine().usage(self.node.id) * PAGE_BYTES as u64)
    }

    /// Returns the largest number of bytes that were ever charged to the group and its descendants (`memory.peak`).
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.read(|| self.of_engine().peak(self.node.id) * PAGE_BYTES as u64)
    }

    /// Returns the number of bytes of the group and its descendants that are in swap (`memory.swap.current`).
    #[must_use]
    pub fn swap_usage(&self) -> u64 {
        self.read(|| self.of_engine().swap_usage(self.node.id) * PAGE_BYTES as u64)
    }

    /// Returns counters of the group and its descendants under the names that they have in `memory.stat`. The sizes of
    /// lists, such as `inactive_file`, are bytes; all others count pages or events.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// let stat = memory.group("cache")?.stat();
    /// assert_eq!((stat["active_file"], stat["pgscan"]), (0, 0));
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn stat(&self) -> BTreeMap<String, u64> {
        let in_bytes = |name: &str| name.starts_with("active_") || name.starts_with("inactive_");
        let counters = self.read(|| self.shared.engine.lru().group_stat(self.node.id));
        let of_file = counters.into_iter().filter(|(name, _)| !name.starts_with("memory."));
        of_file.map(|(name, n)| if in_bytes(&name) { (name, n * PAGE_BYTES as u64) } else { (name, n) }).collect()
    }

    /// Returns how often each event has happened in the group, without its descendants, under the names of
    /// `memory.events.local`. For example, `max` counts how often a charge reached the group's limit.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// assert_eq!(memory.group("cache")?.events()["max"], 0);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn events(&self) -> BTreeMap<String, u64> {
        let count = |event: GroupEvent| self.read(|| self.of_engine().events(self.node.id, event));
        GroupEvent::ALL.into_iter().map(|event| (event.name().to_owned(), count(event))).collect()
    }

    /// Returns the pressure on the group: for how long threads were stalled in calls for files and regions of the group
    /// and its descendants (`memory.pressure`). [`Memory::pressure`](crate::Memory::pressure) says which waits count as
    /// stalls.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        self.read(|| self.shared.engine.machine().pressure_of_group(self.node.id.0))
    }

    /// Reclaims `bytes` bytes of pages of the group and its descendants now, in the calling thread (`memory.reclaim`).
    /// Returns the number of freed bytes, which is less than `bytes` if no more can be freed.
    ///
    /// # Errors
    /// When the group was removed or the memory was shut down.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// let cache = memory.group("cache")?;
    /// std::fs::write(&path, vec![1; 4 << 20])?;
    /// let file = highwater::OpenOptions::new().group(&cache).open(&memory, &path)?;
    /// file.read_exact_at(&mut vec![0; 4 << 20], 0)?;
    /// assert!(cache.reclaim(1 << 20)? >= 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim(&self, bytes: u64) -> Result<u64, Error> {
        self.shared.check_is_up()?;
        let freed = self.reclaim_pages(bytes.div_ceil(PAGE_BYTES as u64)).ok_or_else(|| self.removed())?;
        Ok(freed * PAGE_BYTES as u64)
    }

    /// Frees pages of the group, and returns how many; `None` if the group was removed.
    fn reclaim_pages(&self, pages: u64) -> Option<u64> {
        self.shared.with_task(Some(&self.node), |engine, task| {
            (task.group == self.node.id).then(|| engine.reclaim().reclaim_group(task, self.node.id, pages, None))
        })
    }

    /// Removes the group. Its files and regions belong to its parent from then on, or to no group if it has no parent.
    /// Their present pages stay charged to the removed group until they are freed. Until then the group takes one of
    /// the places of [`Builder::groups`](crate::Builder::groups). This call waits for the end of calls on the group's
    /// files and regions that other threads have begun. The calling thread must hold no guard for which such a call may
    /// wait, or the two calls would wait for each other for ever.
    ///
    /// # Errors
    /// When the group has children, or was removed before.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// let old = memory.group("old")?;
    /// old.remove()?;
    /// assert!(old.set_max(1 << 20).is_err());
    /// let new = memory.group("new")?;
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn remove(&self) -> Result<(), Error> {
        self.groups().remove(&self.shared.engine, &self.node)
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.node.path).finish_non_exhaustive()
    }
}
