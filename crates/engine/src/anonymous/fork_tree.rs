//! The regions that `fork` has made of one another (`anon_vma_chain`).
//!
//! After a fork, the parent and the child map the same anonymous pages, read-only, each page at the same place in both
//! regions. A page's descriptor names one region as its owner. Only this region and its descendants, the regions that
//! were forked from it, directly or not, can map the page. So the reverse map of the page visits these.
//!
//! A region that is dropped leaves an empty region with its number, as long as a descendant is there: pages that it owned
//! may still be mapped in those. *Locks*: that of the list of members, inside which no other is taken. *Description*:
//! mechanisms/fork.

use super::Region;
use machine::{Lock, LockClass, Machine};
use std::sync::{Arc, Weak};

/// A region of a tree.
struct Member<M: Machine> {
    id: u32,
    /// The number of the region from which this one was forked; `None` for the root.
    parent: Option<u32>,
    region: Weak<Region<M>>,
    /// `true` if the region was dropped.
    is_closed: bool,
}

impl<M: Machine> Clone for Member<M> {
    fn clone(&self) -> Self {
        Self { id: self.id, parent: self.parent, region: self.region.clone(), is_closed: self.is_closed }
    }
}

/// The regions of a tree. Parents come before their children.
type Members<M> = Arc<[Member<M>]>;

/// A region, and all regions that were forked from it or from each other.
pub(crate) struct ForkTree<M: Machine> {
    /// The number of the first region.
    pub(crate) root: u32,
    /// The list is replaced as a whole, so that it can be walked without a lock.
    members: M::Lock<Members<M>>,
}

impl<M: Machine> ForkTree<M> {
    pub(super) fn new(machine: &M, root: &Arc<Region<M>>) -> Self {
        let first = Member { id: root.id, parent: None, region: Arc::downgrade(root), is_closed: false };
        Self { root: root.id, members: machine.lock(LockClass::Other, Arc::new([first])) }
    }

    /// Adds a region that was forked from the region with the number `parent`.
    pub(super) fn add(&self, child: &Arc<Region<M>>, parent: u32) {
        let child = Member { id: child.id, parent: Some(parent), region: Arc::downgrade(child), is_closed: false };
        let mut members = self.members.lock();
        *members = members.iter().cloned().chain([child]).collect();
    }

    /// Notes that the region with the number `id` was dropped. Returns the numbers that no page needs any more: those of
    /// dropped regions without a descendant that is left.
    pub(super) fn close(&self, id: u32) -> Vec<u32> {
        let mut members = self.members.lock();
        let mut left: Vec<Member<M>> = members.to_vec();
        left.iter_mut().filter(|member| member.id == id).for_each(|member| member.is_closed = true);
        let mut gone = Vec::new();
        // Children come behind their parents, so one pass from the end finds all.
        for at in (0..left.len()).rev() {
            let is_parent = left.iter().any(|member| member.parent == Some(left[at].id));
            if left[at].is_closed && !is_parent {
                gone.push(left.remove(at).id);
            }
        }
        *members = left.into();
        gone
    }

    /// Returns the regions that may map a page of the region with the number `owner`: this region and its descendants.
    /// Parents come before their children. A region that is forked meanwhile may be left out.
    pub(super) fn descendants(&self, owner: u32) -> impl Iterator<Item = Arc<Region<M>>> {
        let members = self.members.lock().clone();
        let mut found: Vec<u32> = Vec::new();
        (0..members.len()).filter_map(move |at| {
            let Member { id, parent, region, .. } = &members[at];
            let is_one = *id == owner || parent.is_some_and(|parent| found.contains(&parent));
            if !is_one {
                return None;
            }
            found.push(*id);
            region.upgrade()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Config, Sim};

    /// A tree of regions 0 to 4: 1 and 2 were forked from 0, 3 from 1, and 4 from 3.
    #[expect(clippy::arc_with_non_send_sync, reason = "on other machines a region is shared by threads")]
    fn tree() -> (ForkTree<Sim>, Vec<Arc<Region<Sim>>>) {
        let machine = Sim::new(Config::uniform(1, 0));
        let regions: Vec<_> = (0..5).map(|id| Arc::new(Region::new(&machine, id, None, 8, false, None))).collect();
        let tree = ForkTree::new(&machine, &regions[0]);
        for (child, parent) in [(1, 0), (2, 0), (3, 1), (4, 3)] {
            tree.add(&regions[child], parent);
        }
        (tree, regions)
    }

    #[test]
    fn a_region_and_what_was_forked_from_it_may_map_its_pages() {
        let (tree, _regions) = tree();
        let of = |owner| tree.descendants(owner).map(|region| region.id).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(2), of(4), of(9)), (vec![0, 1, 2, 3, 4], vec![1, 3, 4], vec![2], vec![4], vec![]));
    }

    #[test]
    fn a_number_is_kept_until_the_last_descendant_is_dropped() {
        let (tree, _regions) = tree();
        assert_eq!(tree.close(1), [], "3 may map its pages");
        assert_eq!(tree.close(0), []);
        assert_eq!(tree.close(3), []);
        assert_eq!(tree.descendants(1).count(), 3, "pages of 1 may be mapped in 4");
        assert_eq!(tree.close(4), [4, 3, 1]);
        assert_eq!(tree.close(2), [2, 0]);
        assert_eq!(tree.descendants(0).count(), 0);
    }
}
