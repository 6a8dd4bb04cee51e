//! Caches of kernel objects that reclaim can shrink: directory entries and inodes.
//!
//! Objects lie several to a slab of one or more pages; a slab is free when all of them are. They are dropped in the order
//! of their last use, with a second chance for those used since. A directory entry holds its file's
//! inode; only when the entry is dropped does the inode come on to its own list, and when that is
//! dropped it takes the file's clean cache pages with it. An open file holds its entry. Description: spec
//! reclaim, 19.

use super::choices::SlabOrder;
use machine::atomic::{AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Lock, LockClass, Machine, Order, PAGE_BYTES, Step};
use std::collections::BTreeMap;

/// Objects looked at in one step (`SHRINK_BATCH`).
pub const SHRINK_BATCH: u64 = 128;

/// Disk seeks that making an object again costs (`DEFAULT_SEEKS`).
pub const DEFAULT_SEEKS: u64 = 2;

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Directory entries: 21 to a page.
    Dentry,
    /// Inodes: 4 to a page, 32 to a block of order 3.
    Inode,
}

impl ObjectKind {
    /// Both caches, in the order in which they are shrunk.
    pub const ALL: [Self; 2] = [Self::Dentry, Self::Inode];

    /// Bytes of one object: on x86-64 with ext4.
    const fn bytes(self) -> u64 {
        match self {
            Self::Dentry => 192,
            Self::Inode => 1016,
        }
    }
}

/// Largest order of a slab (`slub_max_order`).
const SLAB_ORDER_MAX: u8 = 3;

/// The order of SLUB's slabs of objects of so many bytes: the smallest that holds `4 × (fls(CPUs) + 1)` of them and wastes
/// no more than a sixteenth; else than an eighth; else than a quarter; else the same for fewer objects (balance notes, 6).
#[must_use]
pub fn slub_order(object_bytes: u64, cpus: usize) -> Order {
    let fls = u64::from(usize::BITS - cpus.leading_zeros());
    let slab_bytes = |order: u8| (PAGE_BYTES as u64) << order;
    let most = (4 * (fls + 1)).min(slab_bytes(SLAB_ORDER_MAX) / object_bytes);
    for objects in (2..=most).rev() {
        for part in [16, 8, 4] {
            let is_good = |order: &u8| {
                let bytes = slab_bytes(*order);
                bytes / object_bytes >= objects && bytes % object_bytes <= bytes / part
            };
            if let Some(order) = (0..=SLAB_ORDER_MAX).find(is_good) {
                return Order(order);
            }
        }
    }
    Order((0..SLAB_ORDER_MAX).find(|order| slab_bytes(*order) >= object_bytes).unwrap_or(SLAB_ORDER_MAX))
}

#[derive(Debug)]
struct Object {
    slab: u32,
    file: Option<u32>,
    is_referenced: bool,
}

/// Pages that hold objects.
#[derive(Clone, Copy, Debug)]
struct Slab {
    head: FrameNumber,
    order: Order,
    /// Objects in it.
    live: u16,
}

#[derive(Debug, Default)]
struct Slabs {
    slabs: Vec<Slab>,
    free_slabs: Vec<u32>,
    /// The slab that new objects go to, and how many more it takes.
    current: Option<(u32, u16)>,
    /// Objects that may be dropped, oldest first.
    objects: BTreeMap<u64, Object>,
    /// Number of the next of them.
    next: u64,
    /// Where the objects of files are, by the file's number.
    files: BTreeMap<u32, FileObject>,
}

/// Where the object of a file is.
#[derive(Clone, Copy, Debug)]
enum FileObject {
    /// In use, in this slab.
    Held(u32),
    /// Among those that may be dropped, with this number.
    Listed(u64),
}

impl Slabs {
    fn push_object(&mut self, object: Object) {
        if let Some(file) = object.file {
            self.files.insert(file, FileObject::Listed(self.next));
        }
        self.objects.insert(self.next, object);
        self.next += 1;
    }

    fn pop_oldest(&mut self) -> Option<Object> {
        let (_, object) = self.objects.pop_first()?;
        object.file.inspect(|file| {
            self.files.remove(file);
        });
        Some(object)
    }

    /// One object of a slab less; returns the slab's block if it was the last.
    fn drop_object(&mut self, slab: u32) -> Option<(FrameNumber, Order)> {
        let Slab { head, order, live } = &mut self.slabs[slab as usize];
        *live -= 1;
        let is_current = self.current.is_some_and(|(current, _)| current == slab);
        if *live > 0 || is_current {
            return None;
        }
        self.free_slabs.push(slab);
        Some((*head, *order))
    }
}

/// One cache.
pub struct ObjectCache<M: Machine> {
    kind: ObjectKind,
    order: Order,
    slabs: M::Lock<Slabs>,
    count: AtomicU64,
    /// Objects that were due but not looked at yet.
    pub deferred: AtomicU64,
}

/// What shrinking a cache set free.
#[derive(Debug, Default)]
pub struct Shrunk {
    /// Objects dropped.
    pub objects: u64,
    /// Slabs without objects, to be freed.
    pub slabs: Vec<(FrameNumber, Order)>,
    /// Files that the dropped objects named.
    pub files: Vec<u32>,
}

impl<M: Machine> ObjectCache<M> {
    fn new(machine: &M, kind: ObjectKind, order: SlabOrder) -> Self {
        Self {
            kind,
            order: match order {
                SlabOrder::SinglePages => Order::ZERO,
                SlabOrder::Slub => slub_order(kind.bytes(), machine.cpus()),
            },
            slabs: machine.lock(LockClass::Other, Slabs::default()),
            count: AtomicU64::new(0),
            deferred: AtomicU64::new(0),
        }
    }

    /// Which cache it is.
    #[must_use]
    pub const fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// The order of the blocks that it wants for objects.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }

    /// Objects that may be dropped.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Adds an object if there is a place for it; a file's inode names the file. A file has one at most: whoever is slower
    /// to add it adds none.
    pub fn try_add(&self, file: Option<u32>) -> bool {
        let mut slabs = self.slabs.lock();
        if file.is_some_and(|file| slabs.files.contains_key(&file)) {
            return true;
        }
        let Some((slab, left)) = slabs.current else { return false };
        slabs.current = (left > 1).then_some((slab, left - 1));
        slabs.slabs[slab as usize].live += 1;
        match (self.kind, file) {
            (ObjectKind::Inode, Some(file)) => {
                slabs.files.insert(file, FileObject::Held(slab));
            }
            _ => {
                slabs.push_object(Object { slab, file, is_referenced: false });
                self.count.fetch_add(1, Relaxed);
            }
        }
        true
    }

    /// Nobody holds a file's object any more: it may be dropped, but not at the first look.
    pub fn let_go(&self, file: u32) {
        let mut slabs = self.slabs.lock();
        if let Some(&FileObject::Held(slab)) = slabs.files.get(&file) {
            slabs.push_object(Object { slab, file: Some(file), is_referenced: true });
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Somebody needs a file's object again: it is held until [`ObjectCache::let_go`]. False when it was dropped.
    pub fn hold(&self, file: u32) -> bool {
        let mut slabs = self.slabs.lock();
        let number = match slabs.files.get(&file) {
            Some(FileObject::Held(_)) => return true,
            None => return false,
            Some(FileObject::Listed(number)) => *number,
        };
        let object = slabs.objects.remove(&number).expect("a listed object is there");
        self.count.fetch_sub(1, Relaxed);
        slabs.files.insert(file, FileObject::Held(object.slab));
        true
    }

    /// Gives the cache a block for new objects.
    ///
    /// # Errors
    /// The block, when somebody was faster: with two slabs to fill, the first would be forgotten while empty.
    pub fn add_slab(&self, head: FrameNumber, order: Order) -> Result<(), FrameNumber> {
        let mut slabs = self.slabs.lock();
        if slabs.current.is_some() {
            return Err(head);
        }
        let slab = Slab { head, order, live: 0 };
        let number = match slabs.free_slabs.pop() {
            Some(number) => {
                slabs.slabs[number as usize] = slab;
                number
            }
            None => {
                slabs.slabs.push(slab);
                slabs.slabs.len() as u32 - 1
            }
        };
        let objects = order.pages() * PAGE_BYTES as u64 / self.kind.bytes();
        slabs.current = Some((number, objects as u16));
        Ok(())
    }

    /// Looks at `n` objects, oldest first.
    pub fn shrink(&self, machine: &M, n: u64, shrunk: &mut Shrunk) {
        let mut slabs = self.slabs.lock();
        machine.spend(Step::SlabObject, n as u32);
        for _ in 0..n {
            let Some(mut object) = slabs.pop_oldest() else { break };
            if std::mem::take(&mut object.is_referenced) {
                slabs.push_object(object);
                continue;
            }
            self.count.fetch_sub(1, Relaxed);
            shrunk.objects += 1;
            shrunk.files.extend(object.file);
            shrunk.slabs.extend(slabs.drop_object(object.slab));
        }
    }

    /// Drops the object of a file that is being removed; returns its slab if that is free then.
    pub fn remove_file(&self, file: u32) -> Option<(FrameNumber, Order)> {
        let mut slabs = self.slabs.lock();
        let slab = match slabs.files.remove(&file)? {
            FileObject::Held(slab) => slab,
            FileObject::Listed(number) => {
                self.count.fetch_sub(1, Relaxed);
                slabs.objects.remove(&number).expect("a listed object is there").slab
            }
        };
        slabs.drop_object(slab)
    }

    /// The blocks that hold objects.
    pub fn blocks(&self) -> Vec<(FrameNumber, Order)> {
        let slabs = self.slabs.lock();
        let current = slabs.current.map(|(slab, _)| slab);
        let is_used =
            |(n, slab): (usize, &Slab)| (slab.live > 0 || current == Some(n as u32)).then_some((slab.head, slab.order));
        slabs.slabs.iter().enumerate().filter_map(is_used).collect()
    }
}

/// All caches.
pub struct ObjectCaches<M: Machine> {
    caches: [ObjectCache<M>; 2],
}

impl<M: Machine> ObjectCaches<M> {
    pub(super) fn new(machine: &M, order: SlabOrder) -> Self {
        Self { caches: ObjectKind::ALL.map(|kind| ObjectCache::new(machine, kind, order)) }
    }

    /// The cache of a kind.
    pub fn get(&self, kind: ObjectKind) -> &ObjectCache<M> {
        &self.caches[kind as usize]
    }

    /// All caches, in the order in which they are shrunk.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectCache<M>> {
        self.caches.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_grow_with_the_number_of_cpus() {
        let inode = |cpus| slub_order(ObjectKind::Inode.bytes(), cpus);
        assert_eq!([1, 2, 4, 8, 64].map(inode), [1, 2, 2, 3, 3].map(Order));
        assert_eq!(slub_order(ObjectKind::Dentry.bytes(), 8), Order::ZERO, "21 to a page are enough");
        assert_eq!(slub_order(2048, 4), Order(3), "16 objects of 2 KiB");
        assert_eq!(slub_order(8192, 8), Order(3), "at most order 3, however few it holds");
    }

    #[test]
    fn much_waste_is_taken_only_where_no_order_has_less() {
        // 5 to a page would leave 96 bytes over, but 8 are wanted: 10 in two pages.
        assert_eq!(slub_order(800, 1), Order(1));
        // 700 bytes: 11 in two pages leave 492, a little under a sixteenth of 8192.
        assert_eq!(slub_order(700, 1), Order(1));
    }
}
