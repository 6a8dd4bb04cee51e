//! The tree of memory control groups: the groups that exist, their order, and walks of a subtree.
//!
//! Groups are kept in *preorder*, each before its descendants, so that a subtree is a range of the order. A group that
//! is removed while pages are charged to it stays in the tree, so that reclaim still finds its pages
//! (`mem_cgroup_css_offline`). Once its last page was freed, the next call that creates or removes a group takes the
//! removed group out of the tree, and its number can be used again. The code that frees a page does not search for
//! groups without pages, because it may run in an interrupt.

use super::lives::{Lives, Pin, State};
use super::{GroupId, Groups};
use machine::atomic::{AtomicU16, Ordering::Relaxed};
use machine::{Lock, LockClass, Machine};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A limit or a protection of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `memory.max`: a charge that would exceed this limit reclaims first, and fails if reclaim does not free enough
    /// pages.
    Max,
    /// `memory.high`: a task that charges a page while the group has more pages than this must reclaim, and is
    /// throttled.
    High,
    /// `memory.low`: reclaim leaves this number of the group's pages alone while it finds enough pages elsewhere.
    Low,
    /// `memory.min`: reclaim never takes this number of the group's pages.
    Min,
    /// `memory.soft_limit_in_bytes`, of version 1: kswapd takes pages from the group that is farthest above its value.
    Soft,
    /// `memory.swap.max`: the largest number of the group's pages that may be in swap at a time.
    SwapMax,
    /// `memory.memsw.limit_in_bytes`, of version 1: as `Max`, for the group's pages in memory and in swap together.
    Memsw,
}

impl Limit {
    /// All limits and protections, in declaration order.
    pub const ALL: [Self; 7] = [Self::Max, Self::High, Self::Low, Self::Min, Self::Soft, Self::SwapMax, Self::Memsw];

    /// Returns the name of the limit's file in a cgroup's folder.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "memory.max",
            Self::High => "memory.high",
            Self::Low => "memory.low",
            Self::Min => "memory.min",
            Self::Soft => "memory.soft_limit_in_bytes",
            Self::SwapMax => "memory.swap.max",
            Self::Memsw => "memory.memsw.limit_in_bytes",
        }
    }

    /// Returns the value that this limit or protection has in a new group, in pages. `u64::MAX` means that there is no
    /// limit.
    #[must_use]
    pub const fn default_pages(self) -> u64 {
        match self {
            Self::Max | Self::High | Self::Soft | Self::SwapMax | Self::Memsw => u64::MAX,
            Self::Low | Self::Min => 0,
        }
    }
}

/// The reason why a group cannot be created or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The largest number of groups exists already. Removed groups that still have pages are counted, too.
    NoRoom {
        /// The number of groups that can exist at a time.
        room: u16,
    },
    /// There is no group of this number, or the group was removed.
    Unknown(GroupId),
    /// The group has children that were not removed.
    HasChildren(GroupId),
    /// The root group cannot be removed.
    IsRoot,
}

impl std::fmt::Display for GroupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRoom { room: 0 } => {
                f.write_str("this memory was made without groups: its layout says `groups = 0`")
            }
            Self::NoRoom { room } => {
                write!(f, "there are {room} groups, as many as the layout of memory has room for (`groups`)")
            }
            Self::Unknown(id) => write!(f, "there is no group {}", id.0),
            Self::HasChildren(id) => write!(f, "group {} has children: remove them first", id.0),
            Self::IsRoot => f.write_str("the root group cannot be removed"),
        }
    }
}

impl std::error::Error for GroupError {}

/// The groups of a subtree in preorder (parents before children), as they were when this value was made. The type
/// dereferences to a slice.
#[derive(Clone, Debug)]
pub struct Subtree {
    preorder: Arc<Vec<GroupId>>,
    stretch: Range<usize>,
}

impl Deref for Subtree {
    type Target = [GroupId];

    fn deref(&self) -> &[GroupId] {
        &self.preorder[self.stretch.clone()]
    }
}

/// The groups of the tree in preorder, with their positions and the sizes of their subtrees.
#[derive(Debug)]
struct Preorder {
    /// All groups of the tree in preorder (parents before children), the root group first. Walks share the list until
    /// the tree changes.
    preorder: Arc<Vec<GroupId>>,
    /// The position of each group in `preorder`.
    position: Vec<usize>,
    /// The number of groups in each group's subtree, including the group itself.
    size: Vec<usize>,
}

/// The tree of groups.
pub(super) struct Tree<M: Machine> {
    parents: Box<[AtomicU16]>,
    /// The state of each group, and its pins ([`Groups::pin`]). States are changed only under the lock of `order`.
    lives: Lives,
    order: M::Lock<Preorder>,
}

impl<M: Machine> Tree<M> {
    /// Creates a tree that can hold `count` groups, including the root group. At first it has only the root group.
    pub(super) fn new(machine: &M, count: usize) -> Self {
        let order =
            Preorder { preorder: Arc::new(vec![GroupId::ROOT]), position: vec![0; count], size: vec![1; count] };
        let tree = Self {
            parents: (0..count).map(|_| AtomicU16::new(0)).collect(),
            lives: Lives::new(count),
            order: machine.lock(LockClass::Other, order),
        };
        tree.lives.set(GroupId::ROOT, State::Live);
        tree
    }

    /// Returns the parent of a group. For the root group, returns the root group itself.
    #[inline]
    pub(super) fn parent(&self, id: GroupId) -> GroupId {
        GroupId(self.parents[usize::from(id.0)].load(Relaxed))
    }

    fn parent_of(&self, id: GroupId) -> Option<GroupId> {
        (!id.is_root()).then(|| self.parent(id))
    }

    /// Adds a group as the last child of `parent`. First takes removed groups without pages out of the tree, so that
    /// their numbers can be used again. `is_empty` says whether a group has no pages, and `is_named` whether kernel
    /// objects still name a group that was removed.
    fn insert(
        &self,
        parent: GroupId,
        is_empty: impl Fn(GroupId) -> bool,
        is_named: impl Fn(GroupId) -> bool,
    ) -> Result<GroupId, GroupError> {
        let mut order = self.order.lock();
        self.bury(&mut order, is_empty);
        if !self.lives.is(parent, State::Live) {
            return Err(GroupError::Unknown(parent));
        }
        let mut numbers = (0..self.lives.count()).map(|number| GroupId(number as u16));
        let unused = numbers.find(|id| self.lives.is(*id, State::Unused) && !is_named(*id));
        let id = unused.ok_or(GroupError::NoRoom { room: (self.lives.count() - 1) as u16 })?;
        let number = usize::from(id.0);
        let at = order.position[usize::from(parent.0)] + order.size[usize::from(parent.0)];
        Arc::make_mut(&mut order.preorder).insert(at, id);
        self.lives.set(id, State::Live);
        order.size[number] = 1;
        self.parents[number].store(parent.0, Relaxed);
        order.number_from(at);
        for above in std::iter::successors(Some(parent), |id| self.parent_of(*id)) {
            order.size[usize::from(above.0)] += 1;
        }
        Ok(id)
    }

    /// Takes a group that has no children out of the tree.
    fn take_out(&self, order: &mut Preorder, id: GroupId) {
        let number = usize::from(id.0);
        let at = order.position[number];
        Arc::make_mut(&mut order.preorder).remove(at);
        self.lives.set(id, State::Unused);
        order.number_from(at);
        for above in std::iter::successors(self.parent_of(id), |id| self.parent_of(*id)) {
            order.size[usize::from(above.0)] -= 1;
        }
    }

    /// Takes removed groups without pages out of the tree, children before parents. `is_empty` says whether a group has
    /// no pages.
    fn bury(&self, order: &mut Preorder, is_empty: impl Fn(GroupId) -> bool) {
        for at in (1..order.preorder.len()).rev() {
            let id = order.preorder[at];
            if self.lives.is(id, State::Dying) && order.size[usize::from(id.0)] == 1 && is_empty(id) {
                self.take_out(order, id);
            }
        }
    }
}

impl Preorder {
    /// Returns the range of positions that a group and its descendants have in the preorder of the tree. Returns an
    /// empty range if the group does not exist.
    fn stretch(&self, id: GroupId) -> Range<usize> {
        let number = usize::from(id.0);
        let at = self.position[number];
        let exists = self.preorder.get(at) == Some(&id);
        if exists { at..at + self.size[number] } else { 0..0 }
    }

    /// Updates [`Preorder::position`] for the groups from index `from` of the preorder to its end.
    fn number_from(&mut self, from: usize) {
        for at in from..self.preorder.len() {
            self.position[usize::from(self.preorder[at].0)] = at;
        }
    }
}

impl<M: Machine> Groups<M> {
    /// Creates a group below `parent`, with no limits and no protection. [`crate::lru::Lru::create_group`] calls this,
    /// and also resets the state of the group's lruvecs.
    ///
    /// # Errors
    /// Fails if `parent` does not exist, or if the largest number of groups exists already.
    pub(crate) fn create(&self, parent: GroupId) -> Result<GroupId, GroupError> {
        // A task of another group may have charged a removed group for a page from swap, and left a stock.
        self.drain_stocks();
        let id = self.tree.insert(parent, |id| self.is_unused(id), |id| self.kernel.is_named(id))?;
        self.group(id).reset();
        self.begin_objects(id);
        Ok(id)
    }

    /// Returns whether a group has no pages in memory and none in swap, and will get none because no task pins it.
    fn is_unused(&self, id: GroupId) -> bool {
        // Pins first: a task charges the group before it unpins it.
        !self.tree.lives.is_pinned(id) && self.usage(id) == 0 && self.swap_usage(id) == 0
    }

    /// Keeps a group in the tree while a task outside the group charges pages to the group. Returns `None` if the group
    /// was removed.
    pub(crate) fn pin(&self, id: GroupId) -> Option<Pin<'_>> {
        self.tree.lives.pin(id)
    }

    /// Removes a group. The group's pages stay charged to the group until they are freed. The group's kernel objects
    /// are from then on charged to its nearest ancestor that was not removed. All tasks must have left the group.
    /// [`crate::lru::Lru::remove_group`] calls this method, and also updates the list of groups from which reclaim
    /// chooses.
    ///
    /// # Errors
    /// Fails if the group does not exist, has children that were not removed, or is the root group.
    pub(crate) fn remove(&self, id: GroupId) -> Result<(), GroupError> {
        if id.is_root() {
            return Err(GroupError::IsRoot);
        }
        self.drain_stocks();
        {
            let order = self.tree.order.lock();
            if !self.tree.lives.is(id, State::Live) {
                return Err(GroupError::Unknown(id));
            }
            let mut below = order.preorder[order.stretch(id)][1..].iter();
            if below.any(|child| self.tree.lives.is(*child, State::Live)) {
                return Err(GroupError::HasChildren(id));
            }
            self.tree.lives.set(id, State::Leaving);
        }
        // Until the group is dying, nobody takes it out of the tree, and its number is not used again.
        self.reparent_objects(id);
        let mut order = self.tree.order.lock();
        self.tree.lives.set(id, State::Dying);
        self.tree.bury(&mut order, |id| self.is_unused(id));
        Ok(())
    }

    /// Returns the parent of a group; `None` for the root group.
    #[must_use]
    pub fn parent(&self, id: GroupId) -> Option<GroupId> {
        self.tree.parent_of(id)
    }

    /// Returns the groups of a subtree in preorder (parents before children), with `root` first. Removed groups that
    /// still have pages are among them. The result is empty if `root` does not exist.
    #[must_use]
    pub fn subtree(&self, root: GroupId) -> Subtree {
        let order = self.tree.order.lock();
        Subtree { preorder: order.preorder.clone(), stretch: order.stretch(root) }
    }

    /// Returns the group that follows `after` in the preorder of the subtree of `root`. If `after` is `None`, or is no
    /// longer in the subtree, returns `root` itself. Returns `None` after the last group, and if `root` does not exist.
    pub(crate) fn next_in(&self, root: GroupId, after: Option<GroupId>) -> Option<GroupId> {
        let order = self.tree.order.lock();
        let stretch = order.stretch(root);
        let place = |id| order.stretch(id).next().filter(|at| stretch.contains(at));
        let next = after.and_then(place).map_or(stretch.start, |at| at + 1);
        stretch.contains(&next).then(|| order.preorder[next])
    }

    /// Calls `visit` with each child of a group, in the order in which the children were created. The tree is locked
    /// during the call.
    pub(super) fn for_each_child(&self, id: GroupId, mut visit: impl FnMut(GroupId)) {
        let order = self.tree.order.lock();
        let stretch = order.stretch(id);
        let mut at = stretch.start + 1;
        while at < stretch.end {
            let child = order.preorder[at];
            visit(child);
            at += order.size[usize::from(child.0)];
        }
    }

    /// Returns the children of a group, in the order in which the children were created.
    #[must_use]
    pub fn children(&self, id: GroupId) -> Vec<GroupId> {
        let mut children = Vec::new();
        self.for_each_child(id, |child| children.push(child));
        children
    }

    /// Returns whether a group exists, or was removed and is still in the tree.
    pub(crate) fn is_in_tree(&self, id: GroupId) -> bool {
        !self.tree.lives.is(id, State::Unused)
    }

    /// Returns whether a group exists and was not removed.
    #[must_use]
    pub fn is_live(&self, id: GroupId) -> bool {
        self.tree.lives.is(id, State::Live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GroupVersion;
    use sim::{Config, Sim};

    fn groups(room: u16) -> Groups<Sim> {
        Groups::new(&Sim::new(Config::uniform(1, 0)), room, GroupVersion::V2)
    }

    #[test]
    fn a_subtree_is_walked_parents_first() {
        let groups = groups(5);
        let [a, b] = [(); 2].map(|()| groups.create(GroupId::ROOT).unwrap());
        let [aa, ab] = [(); 2].map(|()| groups.create(a).unwrap());
        let aaa = groups.create(aa).unwrap();
        assert_eq!(groups.subtree(GroupId::ROOT)[..], [GroupId::ROOT, a, aa, aaa, ab, b]);
        assert_eq!(groups.subtree(a)[..], [a, aa, aaa, ab]);
        assert_eq!(groups.next_in(a, None), Some(a));
        assert_eq!([a, aa, aaa, ab].map(|id| groups.next_in(a, Some(id))), [Some(aa), Some(aaa), Some(ab), None]);
        assert_eq!(groups.next_in(a, Some(b)), Some(a), "no group of the subtree");
        assert_eq!(groups.children(a), [aa, ab]);
        assert_eq!(groups.children(GroupId::ROOT), [a, b]);
        assert_eq!(groups.children(b), []);
        assert_eq!(groups.create(b), Err(GroupError::NoRoom { room: 5 }));
        assert_eq!(groups.remove(aa), Err(GroupError::HasChildren(aa)));
        assert_eq!(groups.remove(GroupId::ROOT), Err(GroupError::IsRoot));
        groups.remove(aaa).unwrap();
        groups.remove(aa).unwrap();
        assert_eq!(groups.remove(aa), Err(GroupError::Unknown(aa)));
        assert_eq!(groups.create(aa), Err(GroupError::Unknown(aa)));
        assert_eq!(groups.subtree(GroupId::ROOT)[..], [GroupId::ROOT, a, ab, b]);
        assert_eq!(groups.create(b).map(|id| groups.parent(id)), Ok(Some(b)));
    }

    #[test]
    fn a_removed_group_stays_until_its_last_page_is_freed() {
        let groups = groups(1);
        let group = groups.create(GroupId::ROOT).unwrap();
        groups.add(group, 2).unwrap();
        groups.remove(group).unwrap();
        assert!(!groups.is_live(group));
        groups.uncharge(group, 1);
        assert_eq!(groups.subtree(GroupId::ROOT)[..], [GroupId::ROOT, group]);
        assert_eq!(groups.create(GroupId::ROOT), Err(GroupError::NoRoom { room: 1 }));
        groups.uncharge(group, 1);
        assert_eq!(groups.create(GroupId::ROOT), Ok(group));
        assert_eq!(groups.subtree(GroupId::ROOT)[..], [GroupId::ROOT, group]);
    }

    /// Sets up a group that is removed while a task of another group is charging a page to it (holds a pin). The
    /// group's number must not be used again before this page is uncharged, so that the counters of the group's
    /// ancestors stay right.
    #[test]
    fn a_pinned_group_stays_until_its_pages_are_charged() {
        let groups = groups(3);
        let [parent, other] = [(); 2].map(|()| groups.create(GroupId::ROOT).unwrap());
        let group = groups.create(parent).unwrap();
        let pin = groups.pin(group).expect("it is live");
        groups.remove(group).unwrap();
        assert!(groups.pin(group).is_none(), "it was removed");
        assert_eq!(groups.create(other), Err(GroupError::NoRoom { room: 3 }), "its number may still be charged");
        groups.add(group, 1).unwrap();
        drop(pin);
        assert_eq!(groups.create(other), Err(GroupError::NoRoom { room: 3 }), "it has a page");
        groups.uncharge(group, 1);
        assert_eq!((groups.usage(parent), groups.create(other)), (0, Ok(group)));
    }

    #[test]
    fn removed_groups_go_with_their_removed_parents() {
        let groups = groups(3);
        let parent = groups.create(GroupId::ROOT).unwrap();
        let child = groups.create(parent).unwrap();
        groups.add(child, 1).unwrap();
        groups.remove(child).unwrap();
        groups.remove(parent).unwrap();
        assert_eq!(groups.subtree(GroupId::ROOT)[..], [GroupId::ROOT, parent, child]);
        groups.uncharge(child, 1);
        let new = groups.create(GroupId::ROOT).unwrap();
        assert_eq!(groups.subtree(GroupId::ROOT)[..], [GroupId::ROOT, new]);
    }
}
