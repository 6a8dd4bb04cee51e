//! Caches of kernel objects that reclaim can shrink: directory entries and inodes.
//!
//! The objects lie in slabs ([`super::cache`]). Reclaim drops them in the order of their last use, with a second chance
//! for objects that were in use. A directory entry holds its file's inode, so the inode may be dropped only after the
//! entry. When an inode is dropped, the clean cache pages of its file are dropped, too. An open file holds its
//! directory entry. *Description*: mechanisms/reclaim, 19.

use super::cache::{EmptySlab, SlabCache, SlabKind, SlabNumber};
use super::choices::SlabOrder;
use crate::memory::GroupId;
use machine::atomic::{AtomicU64, Ordering::Relaxed};
use machine::{Lock, LockClass, Machine, Step};
use std::collections::BTreeMap;

/// Number of objects that a shrinker scans in one step (`SHRINK_BATCH`).
pub const SHRINK_BATCH: u64 = 128;

/// Number of disk seeks that are needed to recreate a dropped object (`DEFAULT_SEEKS`).
pub const DEFAULT_SEEKS: u64 = 2;

/// The kind of objects in an object cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Directory entries: 21 of them fit in a slab of one page.
    Dentry,
    /// Inodes: 4 of them fit in a slab of one page, and 32 in a slab of order 3.
    Inode,
}

impl ObjectKind {
    /// Both kinds, in the order in which reclaim shrinks them.
    pub const ALL: [Self; 2] = [Self::Dentry, Self::Inode];

    /// Returns the size of an object in bytes, as on x86-64 with ext4.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Dentry => 192,
            Self::Inode => 1016,
        }
    }
}

/// The place of an object in memory.
#[derive(Clone, Copy, Debug)]
struct ObjectPlace {
    slab: SlabNumber,
    /// The group that the object's memory is charged to.
    group: GroupId,
}

#[derive(Debug)]
struct Object {
    place: ObjectPlace,
    file: Option<u32>,
    is_referenced: bool,
}

#[derive(Debug, Default)]
struct Objects {
    /// Objects that may be dropped, by keys that ascend in the order in which objects were added.
    objects: BTreeMap<u64, Object>,
    /// The key of the next object that is added to `objects`.
    next: u64,
    /// The places of the kernel objects that belong to files, by the file's number.
    files: BTreeMap<u32, FileObject>,
}

/// The state of the kernel object (dentry or inode) that belongs to a file, and where the object is.
#[derive(Clone, Copy, Debug)]
enum FileObject {
    /// The object is marked as in use, so no shrink may drop it. It lies at this place in a slab.
    Held(ObjectPlace),
    /// The object may be dropped: it is in `objects`, under this key.
    Listed(u64),
}

impl Objects {
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
}

/// A cache of kernel objects.
pub struct ObjectCache<M: Machine> {
    kind: ObjectKind,
    slabs: SlabCache<M>,
    objects: M::Lock<Objects>,
    count: AtomicU64,
    /// Number of objects that shrinks should have scanned, but have left for a later shrink.
    pub deferred: AtomicU64,
}

/// The error if an object is to be added, but no slab has a place for it. The caller must first add a block
/// ([`SlabCache::add`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

/// The result of adding an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Added {
    /// The object was added.
    New,
    /// The file already had an object, so none was added, and the place for the new object was given back. If a slab
    /// became empty by this, it is returned here, and the caller has to free it.
    Known(Option<EmptySlab>),
}

/// The objects that a shrink dropped, and the slabs that became empty.
#[derive(Debug, Default)]
pub struct Shrunk {
    /// Number of objects that were dropped.
    pub objects: u64,
    /// Slabs that have become empty, which the caller has to free.
    pub slabs: Vec<EmptySlab>,
    /// For each dropped object that was charged to a group, this group. A group occurs as often as it has dropped
    /// objects.
    pub groups: Vec<GroupId>,
    /// Numbers of the files whose objects were dropped.
    pub files: Vec<u32>,
}

impl<M: Machine> ObjectCache<M> {
    fn new(machine: &M, kind: ObjectKind, order: SlabOrder) -> Self {
        Self {
            kind,
            slabs: SlabCache::new(machine, SlabKind::Reclaimable, kind.bytes(), order),
            objects: machine.lock(LockClass::Other, Objects::default()),
            count: AtomicU64::new(0),
            deferred: AtomicU64::new(0),
        }
    }

    /// Returns the kind of the objects in the cache.
    #[must_use]
    pub const fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Returns the slabs in which the cache's objects lie.
    #[must_use]
    pub const fn slabs(&self) -> &SlabCache<M> {
        &self.slabs
    }

    /// Returns the number of objects in the cache. Reclaim may drop all of them.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Adds an object that is charged to `group`. `file` is the file to which the object belongs, if any. A file has at
    /// most one object in a cache: if the file has one already, nothing is added, and the place that this call took in a
    /// slab is freed again.
    ///
    /// # Errors
    /// Fails if no slab has a place for the object.
    pub fn try_add(&self, file: Option<u32>, group: GroupId) -> Result<Added, NoPlace> {
        let slab = self.slabs.take().ok_or(NoPlace)?;
        let mut objects = self.objects.lock();
        if file.is_some_and(|file| objects.files.contains_key(&file)) {
            drop(objects);
            return Ok(Added::Known(self.slabs.give(slab)));
        }
        let place = ObjectPlace { slab, group };
        match (self.kind, file) {
            (ObjectKind::Inode, Some(file)) => {
                objects.files.insert(file, FileObject::Held(place));
            }
            _ => {
                objects.push_object(Object { place, file, is_referenced: false });
                self.count.fetch_add(1, Relaxed);
            }
        }
        Ok(Added::New)
    }

    /// Records that no task uses a file's object any more. Reclaim may drop the object, but not at the first scan that
    /// meets it.
    pub fn let_go(&self, file: u32) {
        let mut objects = self.objects.lock();
        if let Some(&FileObject::Held(place)) = objects.files.get(&file) {
            objects.push_object(Object { place, file: Some(file), is_referenced: true });
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Marks a file's object as in use until [`ObjectCache::let_go`] is called, so that no shrink drops it. Returns
    /// `false` if the object was dropped before.
    pub fn hold(&self, file: u32) -> bool {
        let mut objects = self.objects.lock();
        let number = match objects.files.get(&file) {
            Some(FileObject::Held(_)) => return true,
            None => return false,
            Some(FileObject::Listed(number)) => *number,
        };
        let object = objects.objects.remove(&number).expect("a listed object is there");
        self.count.fetch_sub(1, Relaxed);
        objects.files.insert(file, FileObject::Held(object.place));
        true
    }

    /// Scans `n` objects, oldest first. An object that was in use since its last scan loses its mark of use and stays;
    /// any other object is dropped. Adds the dropped objects and the slabs that became empty to `shrunk`.
    pub fn shrink(&self, machine: &M, n: u64, shrunk: &mut Shrunk) {
        let mut dropped = Vec::new();
        {
            let mut objects = self.objects.lock();
            machine.spend(Step::SlabObject, n as u32);
            for _ in 0..n {
                let Some(mut object) = objects.pop_oldest() else { break };
                if std::mem::take(&mut object.is_referenced) {
                    objects.push_object(object);
                    continue;
                }
                dropped.push(object);
            }
        }
        self.count.fetch_sub(dropped.len() as u64, Relaxed);
        shrunk.objects += dropped.len() as u64;
        shrunk.files.extend(dropped.iter().filter_map(|object| object.file));
        shrunk.groups.extend(dropped.iter().map(|object| object.place.group).filter(|group| !group.is_root()));
        shrunk.slabs.extend(dropped.iter().filter_map(|object| self.slabs.give(object.place.slab)));
    }

    /// Drops the object of a file that is being removed. Returns the group to which the object was charged, and the
    /// block of the object's slab if the slab is then empty and is not kept. The caller has to free this block. Returns
    /// `None` if the file has no object.
    pub fn remove_file(&self, file: u32) -> Option<(GroupId, Option<EmptySlab>)> {
        let ObjectPlace { slab, group } = {
            let mut objects = self.objects.lock();
            match objects.files.remove(&file)? {
                FileObject::Held(place) => place,
                FileObject::Listed(number) => {
                    self.count.fetch_sub(1, Relaxed);
                    objects.objects.remove(&number).expect("a listed object is there").place
                }
            }
        };
        Some((group, self.slabs.give(slab)))
    }
}

/// The object caches, one for each kind of objects.
pub struct ObjectCaches<M: Machine> {
    caches: [ObjectCache<M>; 2],
}

impl<M: Machine> ObjectCaches<M> {
    pub(super) fn new(machine: &M, order: SlabOrder) -> Self {
        Self { caches: ObjectKind::ALL.map(|kind| ObjectCache::new(machine, kind, order)) }
    }

    /// Returns the cache of objects of a kind.
    pub fn get(&self, kind: ObjectKind) -> &ObjectCache<M> {
        &self.caches[kind as usize]
    }

    /// Returns all caches, in the order in which reclaim shrinks them.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectCache<M>> {
        self.caches.iter()
    }
}
