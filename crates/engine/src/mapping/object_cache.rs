//! Caches of kernel objects that reclaim can shrink: directory entries and inodes.
//!
//! Objects lie several to a page; a page is free when all of them are. They are dropped in the order
//! of their last use, with a second chance for those used since. A directory entry holds its file's
//! inode; only when the entry is dropped does the inode come on to its own list, and when that is
//! dropped it takes the file's clean cache pages with it. An open file holds its entry. Description: spec
//! reclaim, 19.

use machine::atomic::{AtomicU64, Ordering::Relaxed};
use machine::{FrameNumber, Lock, LockClass, Machine, Step};
use std::collections::{BTreeMap, VecDeque};

/// Objects looked at in one step (`SHRINK_BATCH`).
pub const SHRINK_BATCH: u64 = 128;

/// Disk seeks that making an object again costs (`DEFAULT_SEEKS`).
pub const DEFAULT_SEEKS: u64 = 2;

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Directory entries: 21 to a page.
    Dentry,
    /// Inodes: 4 to a page.
    Inode,
}

impl ObjectKind {
    /// Both caches, in the order in which they are shrunk.
    pub const ALL: [Self; 2] = [Self::Dentry, Self::Inode];

    const fn objects_per_page(self) -> u16 {
        match self {
            // 192 bytes, and a little under 1 KiB: the sizes of the two on x86-64 with ext4.
            Self::Dentry => 21,
            Self::Inode => 4,
        }
    }
}

#[derive(Debug)]
struct Object {
    page: u32,
    file: Option<u32>,
    is_referenced: bool,
}

#[derive(Debug, Default)]
struct Pages {
    /// Frame and live objects of each slab page.
    slabs: Vec<(FrameNumber, u16)>,
    free_slabs: Vec<u32>,
    /// The page that new objects go to, and how many more it takes.
    current: Option<(u32, u16)>,
    /// Objects that may be dropped, oldest first.
    objects: VecDeque<Object>,
    /// Page of each file's object that is still held.
    held: BTreeMap<u32, u32>,
}

impl Pages {
    /// One object of a page less; returns the page's frame if it was the last.
    fn drop_object(&mut self, page: u32) -> Option<FrameNumber> {
        let (frame, live) = &mut self.slabs[page as usize];
        *live -= 1;
        let frame = *frame;
        let is_current = self.current.is_some_and(|(current, _)| current == page);
        if self.slabs[page as usize].1 > 0 || is_current {
            return None;
        }
        self.free_slabs.push(page);
        Some(frame)
    }
}

/// One cache.
pub struct ObjectCache<M: Machine> {
    kind: ObjectKind,
    pages: M::Lock<Pages>,
    count: AtomicU64,
    /// Objects that were due but not looked at yet.
    pub deferred: AtomicU64,
}

/// What shrinking a cache set free.
#[derive(Debug, Default)]
pub struct Shrunk {
    /// Objects dropped.
    pub objects: u64,
    /// Slab pages without objects, to be freed.
    pub frames: Vec<FrameNumber>,
    /// Files that the dropped objects named.
    pub files: Vec<u32>,
}

impl<M: Machine> ObjectCache<M> {
    fn new(machine: &M, kind: ObjectKind) -> Self {
        Self {
            kind,
            pages: machine.lock(LockClass::Other, Pages::default()),
            count: AtomicU64::new(0),
            deferred: AtomicU64::new(0),
        }
    }

    /// Which cache it is.
    #[must_use]
    pub const fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Objects that may be dropped.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Adds an object if there is a place for it; a file's inode names the file.
    pub fn try_add(&self, file: Option<u32>) -> bool {
        let mut pages = self.pages.lock();
        let Some((page, left)) = pages.current else { return false };
        pages.current = (left > 1).then_some((page, left - 1));
        pages.slabs[page as usize].1 += 1;
        match (self.kind, file) {
            (ObjectKind::Inode, Some(file)) => {
                pages.held.insert(file, page);
            }
            _ => {
                pages.objects.push_back(Object { page, file, is_referenced: false });
                self.count.fetch_add(1, Relaxed);
            }
        }
        true
    }

    /// Nobody holds a file's object any more: it may be dropped, but not at the first look.
    pub fn let_go(&self, file: u32) {
        let mut pages = self.pages.lock();
        if let Some(page) = pages.held.remove(&file) {
            pages.objects.push_back(Object { page, file: Some(file), is_referenced: true });
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Somebody needs a file's object again: it is held until [`ObjectCache::let_go`]. False when it was dropped.
    pub fn hold(&self, file: u32) -> bool {
        let mut pages = self.pages.lock();
        if pages.held.contains_key(&file) {
            return true;
        }
        // Most often it was used lately.
        let Some(at) = pages.objects.iter().rposition(|object| object.file == Some(file)) else { return false };
        let page = pages.objects.remove(at).expect("just found there").page;
        self.count.fetch_sub(1, Relaxed);
        pages.held.insert(file, page);
        true
    }

    /// Gives the cache a page for new objects.
    ///
    /// # Errors
    /// The page, when somebody was faster: with two pages to fill, the first would be forgotten while empty.
    pub fn add_page(&self, frame: FrameNumber) -> Result<(), FrameNumber> {
        let mut pages = self.pages.lock();
        if pages.current.is_some() {
            return Err(frame);
        }
        let page = match pages.free_slabs.pop() {
            Some(page) => {
                pages.slabs[page as usize] = (frame, 0);
                page
            }
            None => {
                pages.slabs.push((frame, 0));
                pages.slabs.len() as u32 - 1
            }
        };
        pages.current = Some((page, self.kind.objects_per_page()));
        Ok(())
    }

    /// Looks at `n` objects, oldest first.
    pub fn shrink(&self, machine: &M, n: u64, shrunk: &mut Shrunk) {
        let mut pages = self.pages.lock();
        machine.spend(Step::SlabObject, n as u32);
        for _ in 0..n {
            let Some(mut object) = pages.objects.pop_front() else { break };
            if std::mem::take(&mut object.is_referenced) {
                pages.objects.push_back(object);
                continue;
            }
            self.count.fetch_sub(1, Relaxed);
            shrunk.objects += 1;
            shrunk.files.extend(object.file);
            shrunk.frames.extend(pages.drop_object(object.page));
        }
    }

    /// Drops the object of a file that is being removed; returns its page if that is free then.
    pub fn remove_file(&self, file: u32) -> Option<FrameNumber> {
        let mut pages = self.pages.lock();
        if let Some(page) = pages.held.remove(&file) {
            return pages.drop_object(page);
        }
        let at = pages.objects.iter().rposition(|object| object.file == Some(file))?;
        let object = pages.objects.remove(at)?;
        self.count.fetch_sub(1, Relaxed);
        pages.drop_object(object.page)
    }

    /// Frames that hold objects.
    pub fn frames(&self) -> Vec<FrameNumber> {
        let pages = self.pages.lock();
        let current = pages.current.map(|(page, _)| page);
        let is_used =
            |(n, slab): (usize, &(FrameNumber, u16))| (slab.1 > 0 || current == Some(n as u32)).then_some(slab.0);
        pages.slabs.iter().enumerate().filter_map(is_used).collect()
    }
}

/// All caches.
pub struct ObjectCaches<M: Machine> {
    caches: [ObjectCache<M>; 2],
}

impl<M: Machine> ObjectCaches<M> {
    pub(super) fn new(machine: &M) -> Self {
        Self { caches: ObjectKind::ALL.map(|kind| ObjectCache::new(machine, kind)) }
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
