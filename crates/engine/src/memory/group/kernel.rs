//! Kernel memory of groups: objects in slabs, which are charged by their size, and the stacks of tasks
//! (mechanisms/groups, 1).
//!
//! Objects of many groups lie in one slab. So a group is charged not for slabs but for its objects. The charge is the
//! number of pages that the bytes of the objects fill, rounded up. An object names the group for which it was made.
//! When this group is removed, its parent takes over the charge, so that no object keeps a removed group
//! (`obj_cgroup`). The number of the removed group is not used again while an object names it.

use super::{GroupId, Groups};
use machine::atomic::{AtomicU64, Ordering::Relaxed};
use machine::{Lock, LockClass, Machine, PAGE_BYTES};

/// Bytes of a task's kernel stack on x86-64 (`THREAD_SIZE`).
pub const STACK_BYTES: u64 = 16 << 10;

/// A kind of kernel memory that is charged to groups by its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelMemory {
    /// Objects of slab caches that reclaim can free.
    SlabReclaimable,
    /// Objects that reclaim cannot free.
    SlabUnreclaimable,
    /// Stacks of tasks in the kernel.
    KernelStack,
}

impl KernelMemory {
    /// All kinds of kernel memory that is charged by size.
    pub const ALL: [Self; 3] = [Self::SlabReclaimable, Self::SlabUnreclaimable, Self::KernelStack];

    /// Returns the name of the kind in `memory.stat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlabReclaimable => "slab_reclaimable",
            Self::SlabUnreclaimable => "slab_unreclaimable",
            Self::KernelStack => "kernel_stack",
        }
    }
}

/// The kernel memory that is charged to one group.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Number of pages that are charged to the group for its kernel objects.
    pages: u64,
    /// Bytes of the group's kernel objects, by [`KernelMemory`].
    bytes: [u64; KernelMemory::ALL.len()],
}

impl Held {
    /// Returns the number of pages that the group's kernel objects would fill if they had `more` bytes more, rounded
    /// up.
    fn filled(&self, more: u64) -> u64 {
        (self.bytes.iter().sum::<u64>() + more).div_ceil(PAGE_BYTES as u64)
    }
}

/// The kernel memory of each group, and the group to which the kernel objects of each group are charged. Both are
/// indexed by the number of a group.
#[derive(Debug)]
struct Accounts {
    held: Vec<Held>,
    /// For each group, the group that is now charged for the kernel objects that were allocated for it: the group
    /// itself, or after its removal its nearest ancestor that was not removed.
    payers: Vec<GroupId>,
}

/// The kernel memory of all groups.
pub(super) struct KernelMemories<M: Machine> {
    accounts: M::Lock<Accounts>,
    /// For each group, indexed by the group's number: the number of bytes of kernel objects that were allocated for the
    /// group. The entries are changed under the lock of `accounts`.
    named: Box<[AtomicU64]>,
}

impl<M: Machine> KernelMemories<M> {
    pub(super) fn new(machine: &M, count: usize) -> Self {
        let payers = (0..count).map(|number| GroupId(number as u16)).collect();
        Self {
            accounts: machine.lock(LockClass::Other, Accounts { held: vec![Held::default(); count], payers }),
            named: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns whether a kernel object exists that was allocated for the group.
    pub(super) fn is_named(&self, id: GroupId) -> bool {
        self.named[usize::from(id.0)].load(Relaxed) > 0
    }
}

impl<M: Machine> Groups<M> {
    /// Returns how many pages have to be charged to a group before it takes an object of `bytes` bytes.
    pub(crate) fn pages_lacking(&self, id: GroupId, bytes: u64) -> u64 {
        let accounts = self.kernel.accounts.lock();
        let held = &accounts.held[usize::from(accounts.payers[usize::from(id.0)].0)];
        held.filled(bytes).saturating_sub(held.pages)
    }

    /// Notes a new object of a group, for which `charged` pages were charged to the group. If they are too few, because
    /// another task was faster, the missing pages are charged over the limits.
    #[doc(alias = "obj_cgroup_charge")]
    pub(crate) fn take_object(&self, id: GroupId, kind: KernelMemory, bytes: u64, charged: u64) {
        if id.is_root() {
            return;
        }
        let mut accounts = self.kernel.accounts.lock();
        let payer = accounts.payers[usize::from(id.0)];
        let held = &mut accounts.held[usize::from(payer.0)];
        held.pages += charged;
        held.bytes[kind as usize] += bytes;
        let missing = held.filled(0).saturating_sub(held.pages);
        held.pages += missing;
        self.kernel.named[usize::from(id.0)].fetch_add(bytes, Relaxed);
        // Under the lock, so that the group is not removed between the two counts.
        self.add_forced(payer, missing);
    }

    /// Uncharges a freed kernel object of `bytes` bytes. `id` is the group that was stored with the object at its
    /// allocation. The group that pays for the object is `id` or, if this group was removed since, an ancestor.
    #[doc(alias = "obj_cgroup_uncharge")]
    pub(crate) fn give_object(&self, id: GroupId, kind: KernelMemory, bytes: u64) {
        if id.is_root() {
            return;
        }
        let mut accounts = self.kernel.accounts.lock();
        let payer = accounts.payers[usize::from(id.0)];
        let held = &mut accounts.held[usize::from(payer.0)];
        debug_assert!(held.bytes[kind as usize] >= bytes, "group {} lost {bytes} bytes that it had not", payer.0);
        held.bytes[kind as usize] -= bytes;
        let left_over = held.pages - held.filled(0);
        held.pages -= left_over;
        self.kernel.named[usize::from(id.0)].fetch_sub(bytes, Relaxed);
        self.uncharge(payer, left_over);
    }

    /// Moves the charges for the kernel objects of a removed group to its nearest ancestor that was not removed.
    #[doc(alias = "memcg_reparent_objcgs")]
    pub(super) fn reparent_objects(&self, id: GroupId) {
        let mut accounts = self.kernel.accounts.lock();
        let parent = self.tree.parent(id);
        let payer = accounts.payers[usize::from(parent.0)];
        accounts.payers.iter_mut().filter(|of| **of == id).for_each(|of| *of = payer);
        let Held { pages, bytes } = std::mem::take(&mut accounts.held[usize::from(id.0)]);
        let held = &mut accounts.held[usize::from(payer.0)];
        held.bytes.iter_mut().zip(bytes).for_each(|(sum, more)| *sum += more);
        // Two objects that each fill a part of a page may share one now.
        let shared = (held.pages + pages).saturating_sub(held.filled(0));
        held.pages += pages - shared.min(pages);
        self.uncharge(id, pages);
        self.add_forced(payer, pages - shared.min(pages));
    }

    /// Records that kernel objects of the new group `id` are charged to this group itself, not to one of its ancestors.
    pub(super) fn begin_objects(&self, id: GroupId) {
        self.kernel.accounts.lock().payers[usize::from(id.0)] = id;
    }

    /// Returns the number of pages that are charged to a group for kernel objects and stacks. Those of its descendants
    /// are not counted.
    #[must_use]
    pub fn kernel_pages(&self, id: GroupId) -> u64 {
        self.kernel.accounts.lock().held[usize::from(id.0)].pages
    }

    /// Returns the size of the kernel memory of kind `kind` that is charged to the groups `ids`, as a sum in bytes.
    pub(crate) fn kernel_bytes(&self, ids: &[GroupId], kind: KernelMemory) -> u64 {
        let accounts = self.kernel.accounts.lock();
        ids.iter().map(|id| accounts.held[usize::from(id.0)].bytes[kind as usize]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Config, Sim};

    const INODE: u64 = 1016;

    fn groups(room: u16) -> Groups<Sim> {
        Groups::new(&Sim::new(Config::uniform(1, 0)), room, crate::memory::GroupVersion::V2)
    }

    #[test]
    fn objects_are_charged_in_pages_that_they_fill() {
        let groups = groups(1);
        let group = groups.create(GroupId::ROOT).unwrap();
        let kind = KernelMemory::SlabReclaimable;
        assert_eq!(groups.pages_lacking(group, INODE), 1);
        groups.add(group, 1).unwrap();
        groups.take_object(group, kind, INODE, 1);
        assert_eq!((1..4).map(|_| groups.take_object(group, kind, INODE, 0)).count(), 3);
        assert_eq!((groups.usage(group), groups.kernel_pages(group)), (1, 1), "four inodes are 4,064 bytes");
        assert_eq!(groups.pages_lacking(group, INODE), 1);
        groups.take_object(group, kind, INODE, 0);
        assert_eq!((groups.usage(group), groups.kernel_bytes(&[group], kind)), (2, 5 * INODE));
        (0..5).for_each(|_| groups.give_object(group, kind, INODE));
        assert_eq!((groups.usage(group), groups.kernel_bytes(&[group], kind)), (0, 0));
        groups.take_object(GroupId::ROOT, kind, INODE, 0);
        assert_eq!(groups.kernel_bytes(&[GroupId::ROOT], kind), 0, "the root group pays for nothing");
    }

    #[test]
    fn the_parent_of_a_removed_group_pays_for_its_objects() {
        let groups = groups(2);
        let parent = groups.create(GroupId::ROOT).unwrap();
        let child = groups.create(parent).unwrap();
        let kind = KernelMemory::KernelStack;
        groups.take_object(parent, kind, 100, 0);
        groups.take_object(child, kind, STACK_BYTES, 0);
        assert_eq!((groups.usage(parent), groups.usage(child)), (5, 4));
        groups.remove(child).unwrap();
        assert_eq!(groups.subtree(parent)[..], [parent], "no object keeps a removed group");
        assert_eq!((groups.usage(parent), groups.kernel_bytes(&[parent], kind)), (5, STACK_BYTES + 100));
        assert_eq!(groups.create(parent), Err(super::super::GroupError::NoRoom { room: 2 }), "its number is named");
        groups.remove(parent).unwrap();
        assert_eq!(groups.subtree(GroupId::ROOT).len(), 1);
        groups.give_object(child, kind, STACK_BYTES);
        groups.give_object(parent, kind, 100);
        assert_eq!(groups.kernel_bytes(&[GroupId::ROOT, parent, child], kind), 0);
        let [a, b] = [(); 2].map(|()| groups.create(GroupId::ROOT).unwrap());
        groups.take_object(b, kind, 1, 0);
        assert_eq!((groups.usage(a), groups.usage(b)), (0, 1), "numbers that are used again pay for themselves");
    }
}
