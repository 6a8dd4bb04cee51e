//! LFU: evicts the object with the fewest uses since it was cached. Of several such objects, evicts the one that
//! reached this number of uses first.
//!
//! R. L. Mattson et al., "Evaluation techniques for storage hierarchies", 1970. Each request takes constant time, as in
//! K. Shah, A. Mitra, D. Matani, "An O(1) algorithm for implementing the LFU cache eviction scheme", 2010. An evicted
//! object loses its count. State: 4 bytes for each distinct object, 16 bytes for each cached object, and 24 bytes for
//! each different number of uses.

use crate::list::{List, NONE, Nodes};
use crate::{Cache, Weigh};
use machine::prefetch;

/// All cached objects that were used `uses` times.
#[derive(Clone, Copy, Debug)]
struct Group {
    uses: u32,
    /// The objects, ordered by the moment at which they reached `uses` uses. The object that reached it first is at the
    /// tail.
    list: List,
    /// Index of the group with the next smaller number of uses. The field `more` is the index of the group with the
    /// next larger number. In a free group, `fewer` is the index of the next free group.
    fewer: u32,
    more: u32,
}

/// A cache with the policy LFU: groups of objects with equal numbers of uses, linked in ascending order of these
/// numbers.
#[derive(Debug)]
pub struct Lfu<W> {
    weigh: W,
    capacity: u64,
    held: u64,
    /// For each object, the index of its node in `nodes`, or `NONE` if the object is not cached.
    index: Vec<u32>,
    nodes: Nodes,
    /// For each node of an object, the number of its group in `groups`.
    group_of: Vec<u32>,
    groups: Vec<Group>,
    free: u32,
    /// Index, in `groups`, of the group whose objects have the fewest uses.
    first: u32,
}

impl<W: Weigh> Lfu<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        Self {
            weigh,
            capacity,
            held: 0,
            index: vec![NONE; objects as usize],
            nodes: Nodes::default(),
            group_of: Vec::new(),
            groups: Vec::new(),
            free: NONE,
            first: NONE,
        }
    }

    /// Makes an empty group for objects with `uses` uses, links it between the groups `fewer` and `more`, and returns
    /// its number.
    fn make_group(&mut self, uses: u32, fewer: u32, more: u32) -> u32 {
        let group = Group { uses, list: List::default(), fewer, more };
        let number = match self.groups.get(self.free as usize) {
            Some(free) => {
                let number = std::mem::replace(&mut self.free, free.fewer);
                self.groups[number as usize] = group;
                number
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        };
        match self.groups.get_mut(fewer as usize) {
            Some(fewer) => fewer.more = number,
            None => self.first = number,
        }
        if let Some(more) = self.groups.get_mut(more as usize) {
            more.fewer = number;
        }
        number
    }

    /// Removes the group with index `number` if it has no objects.
    fn drop_if_empty(&mut self, number: u32) {
        let Group { list, fewer, more, .. } = self.groups[number as usize];
        if !list.is_empty() {
            return;
        }
        match self.groups.get_mut(fewer as usize) {
            Some(fewer) => fewer.more = more,
            None => self.first = more,
        }
        if let Some(more) = self.groups.get_mut(more as usize) {
            more.fewer = fewer;
        }
        self.groups[number as usize].fewer = self.free;
        self.free = number;
    }

    fn use_again(&mut self, node: u32) {
        let old = self.group_of[node as usize];
        let Group { uses, more, list, .. } = self.groups[old as usize];
        let more_uses = uses.saturating_add(1);
        let is_next = self.groups.get(more as usize).is_some_and(|group| group.uses == more_uses);
        if list.len() == 1 && !is_next && uses != u32::MAX {
            // The only object of its group takes the group along.
            self.groups[old as usize].uses = more_uses;
            return;
        }
        self.groups[old as usize].list.remove(&mut self.nodes, node);
        let new = if is_next { more } else { self.make_group(more_uses, old, more) };
        self.groups[new as usize].list.push(&mut self.nodes, node);
        self.group_of[node as usize] = new;
        self.drop_if_empty(old);
    }

    fn evict(&mut self) {
        let group = self.first;
        let node = self.groups[group as usize].list.tail();
        let evicted = self.nodes.value(node);
        self.groups[group as usize].list.remove(&mut self.nodes, node);
        self.nodes.give_back(node);
        self.drop_if_empty(group);
        self.index[evicted as usize] = NONE;
        self.held -= self.weigh.of(evicted);
    }

    fn insert(&mut self, id: u32) {
        let first = self.first;
        let group = match self.groups.get(first as usize) {
            Some(group) if group.uses == 1 => first,
            _ => self.make_group(1, NONE, first),
        };
        let node = self.nodes.take(id);
        self.groups[group as usize].list.push(&mut self.nodes, node);
        match self.group_of.get_mut(node as usize) {
            Some(of) => *of = group,
            None => self.group_of.push(group),
        }
        self.index[id as usize] = node;
    }
}

impl<W: Weigh> Cache for Lfu<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let node = self.index[id as usize];
        if node != NONE {
            self.use_again(node);
            return true;
        }
        let weight = self.weigh.of(id);
        if weight > self.capacity {
            return false;
        }
        while self.held + weight > self.capacity {
            self.evict();
        }
        self.insert(id);
        self.held += weight;
        false
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.index.as_ptr().wrapping_add(id as usize));
    }

    #[inline]
    fn look_near(&self, id: u32) {
        let node = self.index[id as usize];
        self.nodes.look_at(node);
        prefetch(self.group_of.as_ptr().wrapping_add(node as usize));
    }

    fn bytes(&self) -> u64 {
        let words = self.index.capacity() + self.group_of.capacity();
        (words * size_of::<u32>() + self.groups.capacity() * size_of::<Group>()) as u64 + self.nodes.bytes()
    }
}
