//! A swap area: slots, the search for free slots, and the cache of pages that have a slot.
//!
//! Each slot has a use count, with a bit for the use by the swap cache. One `swap` lock guards all slots. New slots are
//! taken from runs of 256 free slots, so that pages that are written together lie together on the device
//! (mechanisms/reclaim, 20.1). The swap cache is an index by slot, guarded by its `i_pages` lock
//! (mechanisms/reclaim, 20.2).

use crate::memory::{GroupId, GroupVersion, SlotMove};
use crate::page_cache::FileIndex;
use machine::{DeviceId, FrameNumber, Lock, LockClass, Machine, Order, Step};

/// Number of slots of a cluster (`SWAPFILE_CLUSTER`).
const CLUSTER: u32 = 256;

/// The bit of a slot's use count that says that the swap cache uses the slot.
const CACHE: u16 = 1 << 15;

/// A set of numbers below a bound. It has a bit for each number and, for each word of these bits, a second bit that
/// says whether the word is not 0. Without the second bits, a search for the next number would examine a million slots
/// in a nearly full area of 4 GiB.
#[derive(Debug)]
struct Numbers {
    words: Box<[u64]>,
    /// A bit for each word of `words`: 1 if the word is not 0, that is, if a number of the set has its bit in the word.
    has_any: Box<[u64]>,
}

impl Numbers {
    fn none(bound: u32) -> Self {
        let words = bound.div_ceil(64) as usize;
        Self { words: vec![0; words].into(), has_any: vec![0; words.div_ceil(64)].into() }
    }

    fn all(bound: u32) -> Self {
        let ones = |bits: usize| {
            let mut words = vec![u64::MAX; bits.div_ceil(64)];
            if let Some(last) = words.last_mut().filter(|_| !bits.is_multiple_of(64)) {
                *last = (1 << (bits % 64)) - 1;
            }
            words.into_boxed_slice()
        };
        Self { words: ones(bound as usize), has_any: ones(bound.div_ceil(64) as usize) }
    }

    fn set(&mut self, number: u32, is_in: bool) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        self.words[word] = if is_in { self.words[word] | bit } else { self.words[word] & !bit };
        let (above, bit) = (word / 64, 1 << (word % 64));
        let has_any = self.words[word] != 0;
        self.has_any[above] = if has_any { self.has_any[above] | bit } else { self.has_any[above] & !bit };
    }

    /// Returns the smallest member of the set that is at least `from`; `None` if there is none.
    fn next(&self, from: u32) -> Option<u32> {
        let word = from as usize / 64;
        let here = self.words.get(word)? & u64::MAX << (from % 64);
        if here != 0 {
            return Some(word as u32 * 64 + here.trailing_zeros());
        }
        let next = word + 1;
        let masks = std::iter::once(u64::MAX << (next % 64)).chain(std::iter::repeat(u64::MAX));
        let mut above = (next / 64..self.has_any.len()).zip(masks);
        let word = above.find_map(|(at, mask)| {
            let words = self.has_any[at] & mask;
            (words != 0).then(|| at * 64 + words.trailing_zeros() as usize)
        })?;
        Some(word as u32 * 64 + self.words[word].trailing_zeros())
    }
}

/// The slots of one swap area.
#[derive(Debug)]
pub struct Slots {
    /// For each slot, the number of its uses by page tables, and the bit [`CACHE`]. Only [`Slots::set_uses`] changes
    /// it.
    uses: Box<[u16]>,
    /// For each slot, the control group to which it is charged; 0 if it is charged to none. The array is empty if
    /// memory has no groups.
    owners: Box<[u16]>,
    /// The owners (control groups) of slots that became free since the last call of [`Slots::take_freed`].
    freed: Vec<GroupId>,
    /// The moves of pages of groups since the last call of [`Slots::take_moved`]; `None` if nobody needs them, because no
    /// group can have a limit of memory and swap together.
    moved: Option<Vec<(GroupId, SlotMove)>>,
    /// Slots that neither a page table nor the swap cache uses.
    unused: Numbers,
    /// Slots that the swap cache uses, and no page table.
    only_cached: Numbers,
    free: u32,
    lowest: u32,
    highest: u32,
    cluster_next: u32,
    cluster_left: u32,
}

impl Slots {
    /// Creates the state of a swap area with `slots` slots. All slots are free except slot 0, which is never used.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        Self {
            uses: vec![0; slots as usize].into_boxed_slice(),
            owners: Box::default(),
            freed: Vec::new(),
            moved: None,
            unused: Numbers::all(slots),
            only_cached: Numbers::none(slots),
            free: slots.saturating_sub(1),
            lowest: 1,
            highest: slots.saturating_sub(1),
            cluster_next: 1,
            cluster_left: 0,
        }
    }

    /// Adds a table that records, for each slot, the control group to which the slot is charged. At first this is the
    /// root group for all slots. `version` is the version of the groups, which says whether moves of their pages are
    /// recorded, too.
    #[must_use]
    pub fn with_owners(self, version: GroupVersion) -> Self {
        let moved = version.counts_memsw().then(Vec::new);
        Self { owners: vec![0; self.uses.len()].into_boxed_slice(), moved, ..self }
    }

    /// Returns the control group to which a slot is charged, or the root group if the slot is charged to none.
    #[must_use]
    pub fn owner(&self, slot: u32) -> GroupId {
        self.owners.get(slot as usize).map_or(GroupId::ROOT, |owner| GroupId(*owner))
    }

    /// Returns the control groups to which the slots are charged, in order of the slots. The iterator is empty if
    /// memory has no groups.
    pub(crate) fn owners(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.owners.iter().map(|owner| GroupId(*owner))
    }

    /// Returns the control groups of the slots whose page is not in memory.
    pub(crate) fn owners_of_swapped_out(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.owners().zip(&self.uses).filter(|(_, uses)| **uses & CACHE == 0).map(|(owner, _)| owner)
    }

    /// Records that a slot in use is charged to a group.
    pub fn set_owner(&mut self, slot: u32, owner: GroupId) {
        self.owners[slot as usize] = owner.0;
    }

    /// Returns the group of each slot that was charged to a group and became free since the last call.
    pub fn take_freed(&mut self) -> Vec<GroupId> {
        std::mem::take(&mut self.freed)
    }

    /// Returns the moves of pages of groups between swap and memory since the last call, in their order. The result is
    /// empty if no group can have a limit of memory and swap together ([`GroupVersion::counts_memsw`]).
    pub fn take_moved(&mut self) -> Vec<(GroupId, SlotMove)> {
        self.moved.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Returns the number of free slots.
    #[must_use]
    pub const fn free(&self) -> u32 {
        self.free
    }

    /// Returns the number of usable slots.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.uses.len().saturating_sub(1) as u32
    }

    /// Returns the number of page-table entries that refer to a swap slot.
    #[must_use]
    pub fn uses(&self, slot: u32) -> u16 {
        self.uses[slot as usize] & !CACHE
    }

    /// Returns whether the slot's use count says that the slot's page is in the swap cache.
    #[must_use]
    pub fn is_cached(&self, slot: u32) -> bool {
        self.uses[slot as usize] & CACHE != 0
    }

    /// Returns `true` if neither a page table nor the swap cache uses the slot.
    #[must_use]
    pub fn is_free(&self, slot: u32) -> bool {
        self.uses[slot as usize] == 0
    }

    /// Takes a free slot for the swap cache, and returns it with the number of slots that were looked at; returns
    /// `None` if no slot is free.
    ///
    /// With `or_cached`, the returned slot may also be a slot that only the swap cache uses. Such a slot is not taken;
    /// the caller may free it by dropping its page from the swap cache.
    pub fn take(&mut self, or_cached: bool) -> Option<FoundSlot> {
        if self.free == 0 {
            return None;
        }
        let mut looked_at = 1;
        if self.cluster_left == 0 {
            if self.free >= CLUSTER
                && let Some(start) = self.find_cluster(&mut looked_at)
            {
                self.cluster_next = start;
            }
            self.cluster_left = CLUSTER;
        }
        self.cluster_left -= 1;
        let from = if self.cluster_next > self.highest { self.lowest } else { self.cluster_next };
        let slot = self
            .first_usable(from, self.highest, or_cached, &mut looked_at)
            .or_else(|| self.first_usable(self.lowest, from, or_cached, &mut looked_at))
            .expect("the count of free slots says that there is one");
        self.cluster_next = slot + 1;
        let is_free = self.uses[slot as usize] == 0;
        if is_free {
            self.set_uses(slot, CACHE);
            self.free -= 1;
            if slot == self.lowest {
                self.lowest += 1;
            }
        }
        Some(FoundSlot { slot, is_free, looked_at })
    }

    /// Takes an aligned block of 2^`order` free slots for the swap cache. Returns the first slot of the block with the
    /// number of slots that were looked at; returns `None` if there is no such block.
    #[doc(alias = "swap_alloc_cluster")]
    pub fn take_block(&mut self, order: Order) -> Option<FoundSlot> {
        let slots = 1 << order.0;
        let (mut start, mut looked_at) = (self.lowest.next_multiple_of(slots), 0);
        while self.free >= slots && start + slots <= self.highest + 1 {
            let block = &self.uses[start as usize..(start + slots) as usize];
            looked_at += slots;
            match block.iter().rposition(|uses| *uses != 0) {
                Some(used) => start = (start + used as u32 + 1).next_multiple_of(slots),
                None => {
                    (start..start + slots).for_each(|slot| self.set_uses(slot, CACHE));
                    self.free -= slots;
                    return Some(FoundSlot { slot: start, is_free: true, looked_at });
                }
            }
        }
        None
    }

    /// Finds the first [`CLUSTER`] consecutive free slots. Returns the first of these slots. Adds to `looked_at` the
    /// number of slots that a search slot by slot would examine. In fact this search skips most slots: if some of the
    /// next [`CLUSTER`] slots are used, it goes on after the last used one.
    fn find_cluster(&self, looked_at: &mut u32) -> Option<u32> {
        let mut start = self.lowest;
        while start + CLUSTER <= self.highest + 1 {
            let run = &self.uses[start as usize..(start + CLUSTER) as usize];
            match run.iter().rposition(|uses| *uses != 0) {
                Some(used) => start += used as u32 + 1,
                None => {
                    *looked_at += start + CLUSTER - self.lowest;
                    return Some(start);
                }
            }
        }
        *looked_at += (self.highest + 1).saturating_sub(self.lowest);
        None
    }

    fn first_usable(&self, from: u32, to: u32, or_cached: bool, looked_at: &mut u32) -> Option<u32> {
        let only_cached = or_cached.then(|| self.only_cached.next(from)).flatten();
        let found = self.unused.next(from).into_iter().chain(only_cached).min().filter(|slot| *slot <= to);
        // Counts the slots that a search slot by slot would examine.
        *looked_at += found.unwrap_or(to).saturating_sub(from);
        found
    }

    fn set_uses(&mut self, slot: u32, uses: u16) {
        let before = std::mem::replace(&mut self.uses[slot as usize], uses);
        if (before == 0) != (uses == 0) {
            self.unused.set(slot, uses == 0);
        }
        if (before == CACHE) != (uses == CACHE) {
            self.only_cached.set(slot, uses == CACHE);
        }
    }

    /// Records one more reference to the slot from a page table.
    pub fn duplicate(&mut self, slot: u32) {
        assert!(self.uses[slot as usize] != 0, "swap slot {slot} is free");
        assert!(
            self.uses(slot) < CACHE - 1,
            "swap slot {slot} has {} uses, as many as can be counted",
            self.uses(slot)
        );
        self.set_uses(slot, self.uses[slot as usize] + 1);
    }

    /// Removes one reference to the slot from a page table. Returns whether the slot is free now.
    pub fn release(&mut self, slot: u32) -> bool {
        assert!(self.uses(slot) > 0, "swap slot {slot} has no page-table use");
        self.set_uses(slot, self.uses[slot as usize] - 1);
        if self.uses[slot as usize] == 0 {
            self.note_moved(slot, SlotMove::Back);
        }
        self.note_free(slot)
    }

    /// Records that the swap cache uses a slot, because the slot's page is about to be read into memory.
    pub fn set_cached(&mut self, slot: u32) {
        self.note_moved(slot, SlotMove::Back);
        self.set_uses(slot, self.uses[slot as usize] | CACHE);
    }

    /// Ends the swap cache's use of the slot. Returns whether the slot is free now.
    pub fn clear_cached(&mut self, slot: u32) -> bool {
        assert!(self.is_cached(slot), "swap slot {slot} is not in the cache");
        self.set_uses(slot, self.uses[slot as usize] & !CACHE);
        if self.uses[slot as usize] != 0 {
            self.note_moved(slot, SlotMove::Out);
        }
        self.note_free(slot)
    }

    fn note_moved(&mut self, slot: u32, to: SlotMove) {
        let owner = self.owner(slot);
        if let Some(moved) = self.moved.as_mut().filter(|_| !owner.is_root()) {
            moved.push((owner, to));
        }
    }

    fn note_free(&mut self, slot: u32) -> bool {
        if self.uses[slot as usize] != 0 {
            return false;
        }
        self.free += 1;
        self.lowest = self.lowest.min(slot);
        let owner = self.owner(slot);
        if !owner.is_root() {
            self.freed.push(owner);
            self.set_owner(slot, GroupId::ROOT);
        }
        true
    }
}

/// A slot that [`Slots::take`] found, or the first slot of a block that [`Slots::take_block`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSlot {
    /// Number of the found slot in its swap area.
    pub slot: u32,
    /// `true` if the slot was free and is taken for the caller; `false` if only the swap cache uses the slot.
    pub is_free: bool,
    /// Number of slots that were looked at.
    pub looked_at: u32,
}

/// A swap area: a range of blocks of a device, one for each slot.
pub struct SwapArea<M: Machine> {
    /// The block device on which the area lies.
    pub device: DeviceId,
    /// Number of the device's block that belongs to slot 0.
    pub first_block: u64,
    /// The use counts and owners of the slots.
    pub slots: M::Lock<Slots>,
    /// The swap cache: for each slot, the page in memory that has this slot, if there is one.
    pub cache: FileIndex,
    /// The lock under which the swap cache is changed.
    pub i_pages: M::Lock<()>,
    free: machine::atomic::AtomicU32,
    total: u32,
}

impl<M: Machine> SwapArea<M> {
    /// Creates an area of `slots` slots whose blocks begin at `first_block`. 0 slots means no swap. `groups` is the version
    /// of the control groups; `None` if memory has none.
    #[must_use]
    pub fn new(machine: &M, device: DeviceId, first_block: u64, slots: u32, groups: Option<GroupVersion>) -> Self {
        let map = Slots::new(slots);
        let map = match groups {
            Some(version) => map.with_owners(version),
            None => map,
        };
        let (free, total) = (map.free(), map.total());
        Self {
            device,
            first_block,
            slots: machine.lock(LockClass::Swap, map),
            cache: FileIndex::default(),
            i_pages: machine.lock(LockClass::IPages, ()),
            free: machine::atomic::AtomicU32::new(free),
            total,
        }
    }

    /// Returns the number of free slots, read without the lock.
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.free.load(machine::atomic::Ordering::Relaxed)
    }

    /// Returns the number of usable slots.
    #[must_use]
    pub const fn total_slots(&self) -> u32 {
        self.total
    }

    /// Returns whether more than half of swap is in use (`vm_swap_full`).
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.free_slots() < self.total.div_ceil(2)
    }

    /// Returns whether less than a sixteenth of swap is free. Neighbouring slots then hold unrelated pages.
    #[must_use]
    pub fn is_almost_full(&self) -> bool {
        self.free_slots() < self.total / 16
    }

    /// Calls `change` with the slots under their lock, and updates the number of free slots that is read without the
    /// lock.
    pub fn with_slots<R>(&self, machine: &M, change: impl FnOnce(&mut Slots) -> R) -> R {
        let mut slots = self.slots.lock();
        let result = change(&mut slots);
        self.free.store(slots.free(), machine::atomic::Ordering::Relaxed);
        machine.spend(Step::SwapSlot, 1);
        result
    }

    /// Returns the number of the block of the device that holds the contents of a slot.
    #[must_use]
    pub const fn block(&self, slot: u32) -> u64 {
        self.first_block + slot as u64
    }

    /// Returns the page of the swap cache that holds the contents of a slot; `None` if there is none.
    #[must_use]
    pub fn cached(&self, slot: u32) -> Option<FrameNumber> {
        self.cache.get(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_in_runs_and_count_down() {
        let mut slots = Slots::new(1025);
        let first = slots.take(false).map(|found| found.slot);
        let second = slots.take(false).map(|found| found.slot);
        assert_eq!((first, second), (Some(1), Some(2)));
        slots.duplicate(1);
        assert!(!slots.clear_cached(1), "a page table still refers to it");
        assert!(slots.release(1));
        let mut taken = 0;
        while slots.take(false).is_some() {
            taken += 1;
        }
        assert_eq!((taken, slots.free()), (1023, 0));
    }

    proptest::proptest! {
        #[test]
        fn a_cluster_is_where_who_goes_slot_by_slot_finds_it(used in proptest::collection::vec(1_u32..1500, 0..12), lowest in 1_u32..1400) {
            let mut slots = Slots::new(1500);
            used.iter().for_each(|slot| slots.uses[*slot as usize] = 1);
            slots.lowest = lowest;
            let (mut run, mut slowly, mut looked_at) = (0, None, 0);
            for slot in lowest..1500 {
                looked_at += 1;
                run = if slots.uses[slot as usize] == 0 { run + 1 } else { 0 };
                if run == CLUSTER {
                    slowly = Some(slot + 1 - CLUSTER);
                    break;
                }
            }
            let mut looked_at_fast = 0;
            proptest::prop_assert_eq!(slots.find_cluster(&mut looked_at_fast), slowly);
            proptest::prop_assert_eq!(looked_at_fast, looked_at);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_slot_is_where_who_goes_slot_by_slot_finds_it(
            total in 1_u32..9000,
            changes in proptest::collection::vec((0_u32..9000, 0..4_usize), 0..60),
            full in 0_u32..9000,
            from in 0_u32..9000,
            length in 0_u32..9000,
            or_cached in proptest::bool::ANY,
        ) {
            let mut slots = Slots::new(total);
            (0..full.min(total)).for_each(|slot| slots.set_uses(slot, 2));
            for (slot, uses) in changes.into_iter().filter(|(slot, _)| *slot < total) {
                slots.set_uses(slot, [0, 1, CACHE, CACHE + 1][uses]);
            }
            let (from, to) = (from % total, (from % total + length).min(total - 1));
            let is_usable = |slot: &u32| match slots.uses[*slot as usize] {
                0 => true,
                uses => or_cached && uses == CACHE,
            };
            let slowly = (from..=to).find(is_usable);
            let mut looked_at = 0;
            proptest::prop_assert_eq!(slots.first_usable(from, to, or_cached, &mut looked_at), slowly);
            proptest::prop_assert_eq!(looked_at, slowly.unwrap_or(to) - from);
        }
    }

    #[test]
    fn a_block_of_slots_is_aligned_and_free() {
        let mut slots = Slots::new(64);
        (0..9).for_each(|_| _ = slots.take(false).expect("63 slots are free"));
        slots.clear_cached(5);
        assert_eq!(slots.take_block(Order(3)).map(|found| found.slot), Some(16));
        assert_eq!((16..24).map(|slot| slots.is_cached(slot)).collect::<Vec<_>>(), [true; 8]);
        assert_eq!((slots.take_block(Order(5)).map(|found| found.slot), slots.free()), (Some(32), 15));
        assert_eq!((slots.take_block(Order(4)), slots.free()), (None, 15));
        assert_eq!(slots.take_block(Order(2)).map(|found| found.slot), Some(12));
    }

    /// A list of moves grows under the lock of the slots, so it is kept only where a limit of memory and swap together
    /// can need it.
    #[test]
    fn moves_are_recorded_only_for_limits_of_memory_and_swap() {
        let moved = |version| {
            let mut slots = Slots::new(8).with_owners(version);
            let slot = slots.take(false).expect("seven slots are free").slot;
            slots.set_owner(slot, GroupId(3));
            slots.duplicate(slot);
            slots.clear_cached(slot);
            slots.set_cached(slot);
            slots.clear_cached(slot);
            slots.release(slot);
            assert_eq!(slots.take_freed(), [GroupId(3)]);
            slots.take_moved()
        };
        assert_eq!([GroupVersion::V2, GroupVersion::V1].map(moved), [[], []]);
        let moves = [SlotMove::Out, SlotMove::Back, SlotMove::Out, SlotMove::Back];
        assert_eq!(moved(GroupVersion::V1WithMemsw), moves.map(|to| (GroupId(3), to)));
    }

    #[test]
    fn slots_that_only_the_cache_holds_can_be_found() {
        let mut slots = Slots::new(6);
        for _ in 0..4 {
            let taken = slots.take(false).expect("five slots are free");
            slots.duplicate(taken.slot);
        }
        slots.clear_cached(1);
        slots.release(1);
        slots.release(3);
        let found = |slots: &mut Slots, or_cached| slots.take(or_cached).map(|found| (found.slot, found.is_free));
        assert_eq!(found(&mut slots, true), Some((5, true)), "the next of the cluster");
        slots.duplicate(5);
        assert_eq!(found(&mut slots, true), Some((1, true)), "free, and before slot 3");
        slots.duplicate(1);
        slots.clear_cached(5);
        slots.release(5);
        assert_eq!(found(&mut slots, true), Some((3, false)), "only the cache holds it");
        assert_eq!(found(&mut slots, false), Some((5, true)));
        assert_eq!((found(&mut slots, true), slots.free()), (None, 0));
    }
}
