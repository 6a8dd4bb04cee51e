//! The list of memory control groups that a node keeps for global reclaim (`multigen.memcg_lru`).
//!
//! Source: mechanisms/multigen, 7.
//!
//! For each lruvec of the root group, this module has a list of all groups. Groups lie in two generations, the old one
//! and the young one, each of eight bins. Reclaim takes groups of the old generation, starting from a random bin. What
//! it achieved in a group decides to which place the group moves ([`Move`]). When the old generation is empty, the
//! young one becomes the old one. *Called by* `reclaim` for its walks, and by [`Lru::create_group`] and
//! [`Lru::remove_group`]. *Locks*: one of the class `Other` for each list. *Description*: mechanisms/multigen, 7.

use super::{Lru, Lruvec};
use crate::memory::GroupId;
use machine::{Lock, LockClass, Machine};

/// Number of bins of a generation (`MEMCG_NR_BINS`).
const BINS: usize = 8;

/// Number of generations that have groups: the old one and the young one.
const GENERATIONS: usize = 2;

/// The link that marks the end of a list of groups.
const NONE: u16 = u16::MAX;

/// The place to which a group is moved on the list of groups. The bin within a generation is always chosen at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The tail of the generation in which the group is (`MEMCG_LRU_TAIL`). The group is marked, so that its next visit
    /// shows that it was moved there.
    Tail,
    /// The head of the generation in which the group is (`MEMCG_LRU_HEAD`).
    Head,
    /// The head of the old generation (`MEMCG_LRU_OLD`).
    Old,
    /// The tail of the young generation (`MEMCG_LRU_YOUNG`).
    Young,
    /// The group leaves the list, because it no longer exists.
    Gone,
}

/// The place of a memory control group on a list of groups.
#[derive(Clone, Copy, Debug)]
struct Entry {
    before: u16,
    after: u16,
    /// Number of the generation in which the group is; `None` if the group is not on the list.
    generation: Option<u64>,
    bin: u8,
    /// `true` if the group was moved to the tail since it came into its generation (its segment is `MEMCG_LRU_TAIL`).
    is_at_tail: bool,
}

impl Entry {
    const OFF: Self = Self { before: NONE, after: NONE, generation: None, bin: 0, is_at_tail: false };
}

/// The first and the last group of a bin, which is a doubly linked list of groups.
#[derive(Clone, Copy, Debug)]
struct Bin {
    first: u16,
    last: u16,
}

/// A list of all groups. Each lruvec of the root group has such a list.
#[derive(Debug)]
struct List {
    /// Number of the old generation. The young one has the next number.
    old: u64,
    bins: [[Bin; BINS]; GENERATIONS],
    /// Number of groups in each generation, indexed by the generation's number modulo two.
    counts: [usize; GENERATIONS],
    entries: Box<[Entry]>,
    /// State of the random number generator that selects bins.
    chance: u64,
}

/// The state of a walk over the groups of the old generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    generation: u64,
    first_bin: usize,
    /// Number of bins that the walk has finished.
    bins_done: usize,
    at: Option<GroupId>,
    /// Number of groups that the walk may still visit. The walk ends when this number is 0, because groups that are
    /// moved to the tail of their generation would otherwise be visited again and again.
    visits_left: usize,
}

/// A group that a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visited {
    /// The memory control group.
    pub(crate) group: GroupId,
    /// `true` if an earlier visit moved the group to the tail of the generation.
    pub(crate) is_at_tail: bool,
}

const fn slot(generation: u64) -> usize {
    (generation % GENERATIONS as u64) as usize
}

impl List {
    fn new(groups: usize, seed: u64) -> Self {
        Self {
            old: 0,
            bins: [[Bin { first: NONE, last: NONE }; BINS]; GENERATIONS],
            counts: [0; GENERATIONS],
            entries: vec![Entry::OFF; groups].into(),
            chance: seed,
        }
    }

    /// Returns a random bin (SplitMix64). The sequence of bins is the same in every run.
    fn random_bin(&mut self) -> usize {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.chance;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % BINS as u64) as usize
    }

    fn entry(&mut self, id: u16) -> &mut Entry {
        &mut self.entries[usize::from(id)]
    }

    /// Takes a group off the list. Does nothing if the group is not on the list.
    fn remove(&mut self, id: GroupId) {
        let Entry { before, after, generation, bin, .. } = std::mem::replace(self.entry(id.0), Entry::OFF);
        let Some(generation) = generation else { return };
        match before {
            NONE => self.bins[slot(generation)][usize::from(bin)].first = after,
            before => self.entry(before).after = after,
        }
        match after {
            NONE => self.bins[slot(generation)][usize::from(bin)].last = before,
            after => self.entry(after).before = before,
        }
        self.counts[slot(generation)] -= 1;
    }

    /// Puts a group that is not on the list into a random bin of the generation `generation`. If `is_first` is set, it
    /// becomes the bin's first group, otherwise the last.
    fn insert(&mut self, id: GroupId, generation: u64, is_first: bool, is_at_tail: bool) {
        let number = self.random_bin();
        let bin = self.bins[slot(generation)][number];
        let (before, after) = if is_first { (NONE, bin.first) } else { (bin.last, NONE) };
        *self.entry(id.0) = Entry { before, after, generation: Some(generation), bin: number as u8, is_at_tail };
        match before {
            NONE => self.bins[slot(generation)][number].first = id.0,
            before => self.entry(before).after = id.0,
        }
        match after {
            NONE => self.bins[slot(generation)][number].last = id.0,
            after => self.entry(after).before = id.0,
        }
        self.counts[slot(generation)] += 1;
    }

    /// Puts a new group at the tail of the old generation.
    fn add(&mut self, id: GroupId) {
        self.remove(id);
        self.insert(id, self.old, false, false);
    }

    /// Moves a group that is on the list to the place `to`. Does nothing if the group is not on the list. If the move
    /// empties the old generation, makes the young generation the old one.
    fn apply(&mut self, id: GroupId, to: Move) {
        let Some(now) = self.entry(id.0).generation else { return };
        self.remove(id);
        match to {
            Move::Tail => self.insert(id, now, false, true),
            Move::Head => self.insert(id, now, true, false),
            Move::Old => self.insert(id, self.old, true, false),
            Move::Young => self.insert(id, self.old + 1, false, false),
            Move::Gone => {}
        }
        self.advance();
    }

    fn advance(&mut self) {
        if self.counts[slot(self.old)] == 0 && self.counts[slot(self.old + 1)] > 0 {
            self.old += 1;
        }
    }

    fn begin(&mut self) -> Cursor {
        let visits_left = 2 * (self.counts[0] + self.counts[1]);
        Cursor { generation: self.old, first_bin: self.random_bin(), bins_done: 0, at: None, visits_left }
    }

    /// Moves the group that the walk visited last to the place `done`, if this is given. Then returns the next group of
    /// the walk.
    fn next(&mut self, cursor: &mut Cursor, done: Option<Move>) -> Option<Visited> {
        let bin = (cursor.first_bin + cursor.bins_done) % BINS;
        let visited = cursor.at.take();
        // Without a group that was just visited, and if others have moved it meanwhile, the bin begins anew.
        let is_here = |entry: &Entry| entry.generation == Some(cursor.generation) && usize::from(entry.bin) == bin;
        let here = visited.map(|id| *self.entry(id.0)).filter(is_here);
        let mut next = here.map_or(self.bins[slot(cursor.generation)][bin].first, |entry| entry.after);
        if let (Some(id), Some(to)) = (visited, done) {
            self.apply(id, to);
        }
        if self.old != cursor.generation || cursor.visits_left == 0 {
            return None;
        }
        while next == NONE {
            cursor.bins_done += 1;
            if cursor.bins_done == BINS {
                return None;
            }
            next = self.bins[slot(cursor.generation)][(cursor.first_bin + cursor.bins_done) % BINS].first;
        }
        let group = GroupId(next);
        cursor.at = Some(group);
        cursor.visits_left -= 1;
        Some(Visited { group, is_at_tail: self.entry(next).is_at_tail })
    }
}

/// The lists from which global reclaim takes memory control groups.
pub(crate) struct MemcgLru<M: Machine> {
    /// For each lruvec of the root group, indexed by the lruvec's number: a list of all groups.
    lists: Box<[M::Lock<List>]>,
}

impl<M: Machine> MemcgLru<M> {
    /// Creates `lruvecs` lists, one for each lruvec of the root group, each for at most `groups` groups. At first, each
    /// list has only the root group.
    pub(super) fn new(machine: &M, lruvecs: usize, groups: usize) -> Self {
        let list = |seed: usize| {
            let mut list = List::new(groups, seed as u64);
            list.add(GroupId::ROOT);
            machine.lock(LockClass::Other, list)
        };
        Self { lists: (0..lruvecs).map(list).collect() }
    }

    fn list_of(&self, lruvec: &Lruvec<M>) -> &M::Lock<List> {
        &self.lists[usize::from(lruvec.of_root.0)]
    }

    /// Puts a new memory control group on the lists of all nodes.
    pub(super) fn add(&self, id: GroupId) {
        self.lists.iter().for_each(|list| list.lock().add(id));
    }

    /// Moves a memory control group to another place on the lists of all nodes.
    pub(crate) fn apply(&self, id: GroupId, to: Move) {
        self.lists.iter().for_each(|list| list.lock().apply(id, to));
    }

    /// Begins a walk over the list of groups of an lruvec. The walk begins at a random bin of the old generation.
    pub(crate) fn begin(&self, lruvec: &Lruvec<M>) -> Cursor {
        self.list_of(lruvec).lock().begin()
    }

    /// Returns the next group of the walk; `None` after the last bin, or once the walk's generation is empty. Before
    /// that, moves the group that the walk visited last to the place `done`, if `done` is given. With [`Move::Gone`],
    /// that group leaves the list, but only if `exists` says that no group has its number: a new group may have got the
    /// number of the removed one.
    pub(crate) fn next(
        &self,
        lruvec: &Lruvec<M>,
        cursor: &mut Cursor,
        done: Option<Move>,
        exists: impl Fn(GroupId) -> bool,
    ) -> Option<Visited> {
        let mut list = self.list_of(lruvec).lock();
        let stays = done == Some(Move::Gone) && cursor.at.is_some_and(exists);
        list.next(cursor, done.filter(|_| !stays))
    }

    /// Ends a walk. If `done` is given, moves the group that the walk visited last to this place. [`Move::Gone`] is an
    /// exception: the group stays on the list, and the next walk that comes to it takes it off.
    pub(crate) fn end(&self, lruvec: &Lruvec<M>, cursor: Cursor, done: Option<Move>) {
        // The next walk takes a group off that no longer exists.
        if let (Some(id), Some(to)) = (cursor.at, done.filter(|to| *to != Move::Gone)) {
            self.list_of(lruvec).lock().apply(id, to);
        }
    }

    /// Returns the groups on the list of an lruvec: first the groups of the old generation, then those of the young
    /// one, each bin from its head.
    #[must_use]
    pub(crate) fn order(&self, lruvec: &Lruvec<M>) -> [Vec<GroupId>; GENERATIONS] {
        let list = self.list_of(lruvec).lock();
        [list.old, list.old + 1].map(|generation| {
            let first = list.bins[slot(generation)].iter().map(|bin| bin.first);
            let after = |id: &u16| Some(list.entries[usize::from(*id)].after).filter(|id| *id != NONE);
            first
                .filter(|id| *id != NONE)
                .flat_map(|first| std::iter::successors(Some(first), after))
                .map(GroupId)
                .collect()
        })
    }
}

impl<M: Machine> Lru<M> {
    /// Returns the memory control groups in the order in which global reclaim visits them. They are on a list that
    /// `lruvec` has, an lruvec of the root group. The first vector is the old generation of the list, the second the
    /// young one. Within a generation, a walk begins at a random bin. Both vectors are empty if the kernel keeps no
    /// such list.
    #[must_use]
    pub fn memcg_lru_order(&self, lruvec: &Lruvec<M>) -> [Vec<GroupId>; 2] {
        self.memcg_lru.as_ref().map(|lists| lists.order(lruvec)).unwrap_or_default()
    }

    /// Checks that each group of the tree is on each list once.
    ///
    /// # Errors
    /// Returns a description of a group that is missing from a list, or is on it more than once.
    pub(crate) fn check_memcg_lru(&self) -> Result<(), String> {
        let (Some(lists), Some(groups)) = (&self.memcg_lru, &self.groups) else { return Ok(()) };
        for lruvec in self.lruvecs_of_group(GroupId::ROOT) {
            let listed = lists.order(lruvec).concat();
            for id in groups.subtree(GroupId::ROOT).iter() {
                let count = listed.iter().filter(|listed| *listed == id).count();
                if count != 1 {
                    return Err(format!("group {} is {count} times on the list of groups", id.0));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(groups: u16) -> List {
        let mut list = List::new(usize::from(groups), 1);
        (0..groups).for_each(|id| list.add(GroupId(id)));
        list
    }

    /// Walks over the old generation of `list`. `done` is called for each visited group, and returns where the walk
    /// moves the group, if anywhere. Returns the visited groups in order.
    fn walk(list: &mut List, done: impl Fn(Visited) -> Option<Move>) -> Vec<u16> {
        let (mut cursor, mut last, mut seen) = (list.begin(), None, Vec::new());
        while let Some(visited) = list.next(&mut cursor, last) {
            seen.push(visited.group.0);
            last = done(visited);
        }
        seen
    }

    fn sorted(mut groups: Vec<u16>) -> Vec<u16> {
        groups.sort_unstable();
        groups
    }

    #[test]
    fn a_walk_visits_each_group_of_the_old_generation_once() {
        let mut list = list(100);
        let first = walk(&mut list, |_| None);
        assert_eq!(sorted(first.clone()), (0..100).collect::<Vec<_>>());
        let starts: std::collections::BTreeSet<u16> = (0..64).map(|_| walk(&mut list, |_| None)[0]).collect();
        assert_eq!(starts.len(), BINS, "it begins at a random bin");
        assert_eq!(walk(&mut self::list(100), |_| None), first, "chance is the same in every run");
    }

    #[test]
    fn the_young_generation_is_old_when_the_old_one_is_empty() {
        let mut list = list(10);
        assert_eq!(walk(&mut list, |it| (it.group.0 != 3).then_some(Move::Young)).len(), 10);
        assert_eq!((walk(&mut list, |_| None), list.old), (vec![3], 0));
        list.apply(GroupId(3), Move::Young);
        assert_eq!((list.old, sorted(walk(&mut list, |_| None))), (1, (0..10).collect()));
    }

    #[test]
    fn a_walk_ends_when_its_generation_is_empty() {
        let mut list = list(10);
        assert_eq!(walk(&mut list, |_| Some(Move::Young)).len(), 10);
        assert_eq!(list.old, 1);
    }

    #[test]
    fn a_group_at_the_tail_is_known_at_the_next_visit_and_not_in_the_next_generation() {
        let mut list = list(4);
        let is_marked = |list: &mut List| {
            let (mut cursor, mut marked, mut done) = (list.begin(), Vec::new(), None);
            while let Some(visited) = list.next(&mut cursor, done.take()) {
                if visited.is_at_tail {
                    marked.push(visited.group.0);
                }
            }
            marked
        };
        list.apply(GroupId(2), Move::Tail);
        assert_eq!(is_marked(&mut list), [2]);
        (0..4).for_each(|id| list.apply(GroupId(id), Move::Young));
        assert_eq!(is_marked(&mut list), []);
    }

    #[test]
    fn a_walk_that_sends_all_groups_to_the_tail_ends() {
        let mut list = list(20);
        assert!(walk(&mut list, |_| Some(Move::Tail)).len() <= 40);
    }

    #[test]
    fn a_removed_group_is_first_in_its_bin_of_the_old_generation() {
        let mut list = list(50);
        list.apply(GroupId(7), Move::Young);
        list.apply(GroupId(7), Move::Old);
        let entry = list.entries[7];
        assert_eq!((entry.generation, entry.before), (Some(0), NONE));
        list.remove(GroupId(7));
        assert_eq!(walk(&mut list, |_| None).len(), 49);
    }
}
