//! The request queue: slots, merging, congestion.
//!
//! The queue holds the *entries* that wait for the disk. An entry is one or more submitted requests on consecutive
//! blocks ([`Part`]s, in block order). An entry takes one slot, is served as a whole, and is one request in the counts
//! of iostat. There are three indexes of waiting entries: by first block, for one-way sweeps and front merges; by the
//! block after the last, for back merges; and by age, for requests that have waited long.
//!
//! Flow: [`Queue::insert`] merges a request or takes a slot for it; the elevator picks a [`Key`]. [`Queue::take`] hands
//! the entry to the disk; the entry still counts as allocated. [`Queue::release`] frees the slot when the disk is done
//! with the entry. Only [`super::Disk`] calls these functions.
//!
//! Description: mechanisms/reclaim, 22 (congestion).
//!
//! Next: [`super::elevator`].

use super::config::QueueConfig;
use machine::{IoError, Nanos, Operation, Request};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The classes into which an elevator divides requests. Requests of different classes never merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Class {
    /// A read. Every read counts as a request that a task waits for.
    Read,
    /// A write that a task waits for.
    SyncWrite,
    /// A write for which no task waits.
    BackgroundWrite,
}

impl Class {
    /// All classes of requests.
    pub(super) const ALL: &'static [Self] = &[Self::Read, Self::SyncWrite, Self::BackgroundWrite];
    /// The classes of requests that a task waits for.
    pub(super) const SYNC: &'static [Self] = &[Self::Read, Self::SyncWrite];
    /// The classes of requests that no task waits for.
    pub(super) const BACKGROUND: &'static [Self] = &[Self::BackgroundWrite];
    /// The classes of reads. Reads have only one class.
    pub(super) const READS: &'static [Self] = &[Self::Read];
    /// The classes of writes.
    pub(super) const WRITES: &'static [Self] = &[Self::SyncWrite, Self::BackgroundWrite];

    /// Returns the class of a request: a read, a write that a task waits for, or a write in the background.
    pub(super) fn of(request: &Request) -> Self {
        match (request.operation, request.is_sync) {
            (Operation::Read, _) => Self::Read,
            (Operation::Write, true) => Self::SyncWrite,
            (Operation::Write, false) => Self::BackgroundWrite,
        }
    }

    /// Returns whether a task waits for requests of this class.
    pub(super) fn is_sync(self) -> bool {
        self != Self::BackgroundWrite
    }

    /// Returns the operation of all requests of the class: read or write.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::Read => Operation::Read,
            Self::SyncWrite | Self::BackgroundWrite => Operation::Write,
        }
    }
}

/// The number of an entry (merged requests) of the queue. The entry that arrived first has the lowest number.
pub(super) type EntryId = u64;

/// A submitted request that belongs to an [`Entry`] of the queue. An entry has one or more requests that were merged.
#[derive(Debug)]
pub(super) struct Part {
    pub request: Request,
    /// The error with which the request will fail, if a test chose the request by its number ([`super::Fault::Nth`]).
    pub fault: Option<IoError>,
}

/// One or more merged requests, which take one slot and are served as a whole.
#[derive(Debug)]
pub(super) struct Entry {
    pub class: Class,
    /// Number of the device's block at which the merged requests begin.
    pub block: u64,
    /// Number of blocks of the merged requests together.
    pub blocks: u64,
    /// Time at which the first request of the entry was submitted.
    pub entered: Nanos,
    /// The requests that were merged into this entry, in block order and without gaps; at least one.
    pub parts: VecDeque<Part>,
}

impl Entry {
    /// Returns the block after the entry's last block.
    pub(super) fn end(&self) -> u64 {
        self.block + self.blocks
    }
}

/// The properties of a waiting entry (merged requests) by which an elevator chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub class: Class,
    pub id: EntryId,
    /// Number of the first block of the waiting entry (merged requests).
    pub block: u64,
}

/// The outcome of inserting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// The request became a waiting entry of its own, in a free slot of the queue.
    Allocated,
    /// The request was merged into a waiting entry.
    Merged,
    /// The request joined two waiting entries into one, and one of their slots became free.
    Joined,
}

/// The waiting entries (merged requests) of one class.
#[derive(Debug, Default)]
struct Waiting {
    /// Entries by number, which is also the order of their age.
    entries: BTreeMap<EntryId, Entry>,
    /// Entries by first block. Entries with the same first block are ordered by age.
    by_start: BTreeSet<(u64, EntryId)>,
    /// Entries by the number of the block that follows their last block. Entries that end at the same block are ordered
    /// by age.
    by_end: BTreeSet<(u64, EntryId)>,
}

impl Waiting {
    fn insert(&mut self, id: EntryId, entry: Entry) {
        self.by_start.insert((entry.block, id));
        self.by_end.insert((entry.end(), id));
        let before = self.entries.insert(id, entry);
        debug_assert!(before.is_none(), "entry {id} queued twice");
    }

    fn remove(&mut self, id: EntryId) -> Entry {
        let entry = self.entries.remove(&id).expect("the indexes name waiting entries only");
        let was_indexed = self.by_start.remove(&(entry.block, id)) & self.by_end.remove(&(entry.end(), id));
        debug_assert!(was_indexed, "entry {id} at block {} was not in both indexes", entry.block);
        entry
    }

    /// Returns the oldest waiting entry of the queue that ends just before `block`, and that has at most `blocks_max`
    /// blocks after `blocks` blocks are added.
    fn ending_at(&self, block: u64, blocks: u64, blocks_max: u64) -> Option<EntryId> {
        self.adjacent(&self.by_end, block, blocks, blocks_max)
    }

    /// Returns the oldest waiting entry of the queue that starts at `block`, and that has at most `blocks_max` blocks
    /// after `blocks` blocks are added.
    fn starting_at(&self, block: u64, blocks: u64, blocks_max: u64) -> Option<EntryId> {
        self.adjacent(&self.by_start, block, blocks, blocks_max)
    }

    fn adjacent(&self, index: &BTreeSet<(u64, EntryId)>, block: u64, blocks: u64, blocks_max: u64) -> Option<EntryId> {
        let ids = index.range((block, 0)..=(block, EntryId::MAX)).map(|&(_, id)| id);
        ids.into_iter().find(|id| self.entries[id].blocks + blocks <= blocks_max)
    }
}

/// The number of allocated requests of one direction, waiting or in service, and whether the direction is congested.
#[derive(Debug, Default)]
struct Slots {
    allocated: u64,
    is_congested: bool,
}

/// The request queue of one disk.
#[derive(Debug)]
pub(super) struct Queue {
    nr_requests: u64,
    max_request_pages: u64,
    /// Number of allocated requests at which congestion begins.
    congestion_on: u64,
    /// Number of allocated requests below which congestion ends.
    congestion_off: u64,
    waiting: [Waiting; Class::ALL.len()],
    slots: [Slots; 2],
    entries_made: EntryId,
}

impl Queue {
    pub(super) fn new(config: &QueueConfig) -> Self {
        let nr_requests = config.nr_requests.value;
        let (congestion_on, congestion_off) = congestion_thresholds(nr_requests);
        Self {
            nr_requests,
            max_request_pages: config.max_request_pages.value,
            congestion_on,
            congestion_off,
            waiting: Default::default(),
            slots: Default::default(),
            entries_made: 0,
        }
    }

    pub(super) fn max_request_pages(&self) -> u64 {
        self.max_request_pages
    }

    /// Returns whether a slot is free for `operation`.
    pub(super) fn has_room(&self, operation: Operation) -> bool {
        self.slots[operation as usize].allocated < self.nr_requests
    }

    /// Returns whether the queue is congested for `operation` (reads or writes). It becomes congested when the number
    /// of allocated requests of this operation reaches the upper threshold, and ceases to be when the number falls
    /// below the lower threshold.
    pub(super) fn is_congested(&self, operation: Operation) -> bool {
        self.slots[operation as usize].is_congested
    }

    /// Returns whether the request would merge into a waiting entry.
    pub(super) fn would_merge(&self, request: &Request) -> bool {
        let waiting = &self.waiting[Class::of(request) as usize];
        let blocks = request.frames.len() as u64;
        waiting.ending_at(request.block, blocks, self.max_request_pages).is_some()
            || waiting.starting_at(request.block + blocks, blocks, self.max_request_pages).is_some()
    }

    /// Merges a request into a waiting entry whose blocks it adjoins. If there is no such entry, the request becomes an
    /// entry of its own, in a free slot of the queue.
    pub(super) fn insert(&mut self, now: Nanos, part: Part) -> Inserted {
        let class = Class::of(&part.request);
        let block = part.request.block;
        let blocks = part.request.frames.len() as u64;
        let waiting = &mut self.waiting[class as usize];

        if let Some(id) = waiting.ending_at(block, blocks, self.max_request_pages) {
            let entry = waiting.entries.get_mut(&id).expect("the indexes name waiting entries only");
            waiting.by_end.remove(&(entry.end(), id));
            entry.parts.push_back(part);
            entry.blocks += blocks;
            waiting.by_end.insert((entry.end(), id));
            let (end, entry_blocks) = (entry.end(), entry.blocks);
            return match waiting.starting_at(end, entry_blocks, self.max_request_pages) {
                Some(next) => self.join(class, id, next),
                None => Inserted::Merged,
            };
        }
        if let Some(id) = waiting.starting_at(block + blocks, blocks, self.max_request_pages) {
            let entry = waiting.entries.get_mut(&id).expect("the indexes name waiting entries only");
            waiting.by_start.remove(&(entry.block, id));
            entry.parts.push_front(part);
            entry.block = block;
            entry.blocks += blocks;
            waiting.by_start.insert((block, id));
            let entry_blocks = entry.blocks;
            return match waiting.ending_at(block, entry_blocks, self.max_request_pages) {
                Some(previous) => self.join(class, previous, id),
                None => Inserted::Merged,
            };
        }

        let id = self.entries_made;
        self.entries_made += 1;
        waiting.insert(id, Entry { class, block, blocks, entered: now, parts: VecDeque::from([part]) });
        let slots = &mut self.slots[class.operation() as usize];
        slots.allocated += 1;
        slots.is_congested |= slots.allocated >= self.congestion_on;
        Inserted::Allocated
    }

    /// Joins two adjacent entries into one entry, which has the age of the older entry.
    fn join(&mut self, class: Class, front: EntryId, back: EntryId) -> Inserted {
        let waiting = &mut self.waiting[class as usize];
        let mut entry = waiting.remove(front);
        let mut tail = waiting.remove(back);
        assert_eq!(entry.end(), tail.block, "entries {front} and {back} do not touch");
        entry.blocks += tail.blocks;
        entry.entered = entry.entered.min(tail.entered);
        entry.parts.append(&mut tail.parts);
        waiting.insert(front.min(back), entry);
        self.release(class.operation());
        Inserted::Joined
    }

    /// Takes a waiting entry (merged requests) out of the queue for service. Its slot stays allocated until
    /// [`Queue::release`].
    pub(super) fn take(&mut self, key: Key) -> Entry {
        self.waiting[key.class as usize].remove(key.id)
    }

    /// Frees the slot of an entry (merged requests) that the disk has served.
    pub(super) fn release(&mut self, operation: Operation) {
        let slots = &mut self.slots[operation as usize];
        assert!(slots.allocated > 0, "{operation:?} slot freed, but none is allocated");
        slots.allocated -= 1;
        slots.is_congested &= slots.allocated >= self.congestion_off;
    }

    /// Returns the number of entries of one direction that wait or are in service.
    pub(super) fn allocated(&self, operation: Operation) -> u64 {
        self.slots[operation as usize].allocated
    }

    /// Returns whether no entry of these classes is waiting.
    pub(super) fn is_empty(&self, classes: &[Class]) -> bool {
        classes.iter().all(|&class| self.waiting[class as usize].entries.is_empty())
    }

    /// Returns the oldest of the waiting entries whose class is in `classes`, and the time at which it was submitted.
    /// Returns `None` if no such entry waits.
    pub(super) fn oldest(&self, classes: &[Class]) -> Option<(Key, Nanos)> {
        let firsts = classes.iter().filter_map(|&class| {
            let (&id, entry) = self.waiting[class as usize].entries.first_key_value()?;
            Some((Key { class, id, block: entry.block }, entry.entered))
        });
        firsts.min_by_key(|(key, _)| key.id)
    }

    /// Returns the waiting entry, among those of the classes `classes`, that begins at `block`; if there is none, the
    /// next entry in block order.
    pub(super) fn next_from(&self, classes: &[Class], block: u64) -> Option<Key> {
        let nexts = classes.iter().filter_map(|&class| {
            let &(block, id) = self.waiting[class as usize].by_start.range((block, 0)..).next()?;
            Some(Key { class, id, block })
        });
        nexts.min_by_key(|key| (key.block, key.id))
    }
}

/// Returns the number of allocated requests at which congestion begins, and the number below which it ends. For a
/// `nr_requests` of 128 they are 113 and 103.
///
/// The first is 7/8 of `nr_requests` plus one, the second is 13/16 of `nr_requests` minus one. Each eighth and
/// sixteenth is rounded down, and then subtracted from `nr_requests`. Linux: `blk_queue_congestion_threshold`. Source:
/// mechanisms/reclaim, 22.
#[doc(alias = "blk_queue_congestion_threshold")]
fn congestion_thresholds(nr_requests: u64) -> (u64, u64) {
    let on = nr_requests - nr_requests / 8 + 1;
    let off = (nr_requests - nr_requests / 8 - nr_requests / 16).saturating_sub(1);
    (on.min(nr_requests), off.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sourced::{Origin, Sourced};
    use machine::{DeviceId, FrameNumber};

    fn queue(nr_requests: u64, max_request_pages: u64) -> Queue {
        let test = |value| Sourced::new(value, Origin::Fitted, "test");
        Queue::new(&QueueConfig {
            nr_requests: test(nr_requests),
            max_request_pages: test(max_request_pages),
            ..QueueConfig::default()
        })
    }

    fn part(operation: Operation, block: u64, blocks: u32) -> Part {
        let frames = (0..blocks).map(FrameNumber).collect();
        let request = Request { device: DeviceId(0), operation, block, frames, is_sync: operation == Operation::Read };
        Part { request, fault: None }
    }

    fn write(queue: &mut Queue, block: u64, blocks: u32) -> Inserted {
        queue.insert(Nanos(block), part(Operation::Write, block, blocks))
    }

    #[test]
    fn thresholds_are_113_and_103_of_128() {
        assert_eq!(congestion_thresholds(128), (113, 103));
        assert_eq!(congestion_thresholds(4096), (3585, 3327));
        assert_eq!(congestion_thresholds(1), (1, 1));
        for nr_requests in 1..1000 {
            let (on, off) = congestion_thresholds(nr_requests);
            assert!(1 <= off && off <= on && on <= nr_requests, "{nr_requests}: {on}, {off}");
        }
    }

    #[test]
    fn congestion_begins_at_the_upper_threshold_and_ends_below_the_lower() {
        let mut queue = queue(128, 1);
        for nth in 1..=128 {
            write(&mut queue, nth * 10, 1);
            assert_eq!(queue.is_congested(Operation::Write), nth >= 113, "{nth} allocated");
        }
        assert!(!queue.has_room(Operation::Write));
        assert!(queue.has_room(Operation::Read) && !queue.is_congested(Operation::Read), "reads have their own slots");
        for left in (0..128).rev() {
            let key = queue.next_from(Class::WRITES, 0).expect("entries wait");
            queue.take(key);
            queue.release(Operation::Write);
            assert_eq!(queue.is_congested(Operation::Write), left >= 103, "{left} allocated");
        }
    }

    #[test]
    fn back_front_and_gap_merges_keep_block_order() {
        let mut queue = queue(8, 100);
        assert_eq!(write(&mut queue, 10, 2), Inserted::Allocated);
        assert_eq!(write(&mut queue, 12, 2), Inserted::Merged, "back");
        assert_eq!(write(&mut queue, 8, 2), Inserted::Merged, "front");
        assert_eq!(write(&mut queue, 16, 2), Inserted::Allocated);
        assert_eq!(queue.allocated(Operation::Write), 2);
        assert_eq!(write(&mut queue, 14, 2), Inserted::Joined, "the gap between two entries");
        assert_eq!(queue.allocated(Operation::Write), 1);

        let key = queue.next_from(Class::BACKGROUND, 0).expect("an entry waits");
        let entry = queue.take(key);
        assert_eq!((entry.block, entry.blocks, entry.entered), (8, 10, Nanos(10)));
        let blocks: Vec<u64> = entry.parts.iter().map(|part| part.request.block).collect();
        assert_eq!(blocks, [8, 10, 12, 14, 16]);
        assert!(queue.is_empty(Class::ALL));
    }

    #[test]
    fn no_merge_beyond_the_largest_request_nor_across_classes() {
        let mut queue = queue(8, 4);
        write(&mut queue, 0, 3);
        assert_eq!(write(&mut queue, 3, 2), Inserted::Allocated, "5 pages are more than 4");
        assert_eq!(queue.insert(Nanos(0), part(Operation::Read, 5, 1)), Inserted::Allocated);
        let mut sync = part(Operation::Write, 5, 1);
        sync.request.is_sync = true;
        assert!(!queue.would_merge(&sync.request));
        assert_eq!(queue.insert(Nanos(0), sync), Inserted::Allocated);
        assert!(queue.would_merge(&part(Operation::Write, 5, 1).request));
        assert_eq!(write(&mut queue, 5, 1), Inserted::Merged);
    }

    #[test]
    fn the_same_blocks_twice_are_two_entries() {
        let mut queue = queue(8, 4);
        write(&mut queue, 0, 1);
        assert_eq!(write(&mut queue, 0, 1), Inserted::Allocated);
        assert_eq!(queue.oldest(Class::ALL).map(|(key, _)| key.id), Some(0));
        assert_eq!(queue.next_from(Class::ALL, 0).map(|key| key.id), Some(0), "the older first");
        assert_eq!(queue.next_from(Class::ALL, 1), None);
    }
}
