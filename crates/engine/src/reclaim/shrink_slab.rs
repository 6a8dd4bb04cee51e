//! Shrinking object caches in proportion to page reclaim (mechanisms/reclaim, 19).

use super::Reclaim;
use super::choices::{DeferredObjects, StolenPages};
use crate::lru::CLUSTER;
use crate::memory::KernelMemory;
use crate::slab::object_cache::{DEFAULT_SEEKS, ObjectKind, SHRINK_BATCH, Shrunk};
use crate::stat::Event;
use crate::task::Task;
use machine::atomic::Ordering::Relaxed;
use machine::{Func, Machine};

/// Number that a request to drop all objects passes to [`Reclaim::shrink_slab`] twice: as the number of scanned pages,
/// and as the number of LRU pages. As the two are equal, each cache is scanned as a whole.
const DROPPED_PART: u64 = 1000;

/// A request to drop all objects ends after a round that drops at most this number of objects. The request cannot wait
/// for a round that drops none, because other tasks make new objects all the time.
const DROPPED_FEW: u64 = 10;

/// The result of shrinking the object caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Number of dropped objects.
    pub objects: u64,
    /// Number of pages that were freed with these objects and count towards the target of the reclaim.
    pub pages: u64,
}

impl<M: Machine> Reclaim<M> {
    /// Scans a part of each object cache. The part is in proportion to `scanned` / `lru_pages`, the share of the pages
    /// on LRU lists that reclaim has scanned. Returns what was dropped.
    pub(super) fn shrink_slab(&self, task: &mut Task, scanned: u64, lru_pages: u64) -> Dropped {
        let _span = self.machine.span(Func::ShrinkSlab);
        let scanned = if scanned == 0 { CLUSTER } else { scanned };
        let mut dropped = Dropped::default();
        for cache in self.object_caches.iter() {
            let count = cache.count();
            let is_damped = match self.choices.deferred_objects {
                DeferredObjects::Damped => true,
                DeferredObjects::All => false,
            };
            // Without damping, an empty cache forgets its deferred work.
            if count == 0 && is_damped {
                continue;
            }
            let delta =
                (u128::from(4 * scanned / DEFAULT_SEEKS) * u128::from(count) / u128::from(lru_pages + 1)) as u64;
            let mut total = cache.deferred.swap(0, Relaxed) + delta;
            // Callers that may not enter the file system leave work behind. The next caller does not do it all at once.
            if is_damped && delta < count / 4 {
                total = total.min(count / 2);
            }
            total = total.min(2 * count);
            let mut shrunk = Shrunk::default();
            while total >= SHRINK_BATCH {
                cache.shrink(&self.machine, SHRINK_BATCH, &mut shrunk);
                self.stat.count(Event::SlabsScanned, SHRINK_BATCH);
                total -= SHRINK_BATCH;
                self.machine.cond_resched();
            }
            cache.deferred.fetch_add(total, Relaxed);
            dropped.objects += shrunk.objects;
            dropped.pages += self.free_shrunk(task, cache.kind(), &shrunk);
        }
        dropped
    }

    /// Drops the unused objects of all caches (`drop_caches`), and with each inode the clean pages of its file.
    /// Continues until a round drops hardly any object. Returns the number of dropped objects.
    #[doc(alias = "drop_slab")]
    pub fn drop_slabs(&self, task: &mut Task) -> u64 {
        let mut dropped = 0;
        loop {
            // All pages count as scanned, so each object is examined twice.
            let round = self.shrink_slab(task, DROPPED_PART, DROPPED_PART).objects;
            dropped += round;
            if round <= DROPPED_FEW || self.machine.is_killed() {
                return dropped;
            }
        }
    }

    /// Frees the memory that is left over when slab objects (dentries, inodes) were dropped: their empty slabs, and the
    /// page cache of dropped inodes. Returns the number of freed pages that count towards reclaim's target.
    fn free_shrunk(&self, task: &Task, kind: ObjectKind, shrunk: &Shrunk) -> u64 {
        let mut freed: u64 = shrunk.slabs.iter().map(|slab| self.free_slab(*slab)).sum();
        for group in &shrunk.groups {
            self.memory().free_object(*group, KernelMemory::SlabReclaimable, kind.bytes());
        }
        for id in &shrunk.files {
            // The file was opened while its object was being dropped: its pages stay.
            if self.page_cache().file(*id).is_some_and(|file| file.is_open()) {
                continue;
            }
            if kind == ObjectKind::Dentry {
                self.object_caches.get(ObjectKind::Inode).let_go(*id);
                continue;
            }
            let Some(file) = self.page_cache().file(*id) else { continue };
            let pages = self.lru().invalidate_file(&file);
            let event = if task.is_kswapd { Event::KswapdInodesteal } else { Event::Pginodesteal };
            self.stat.count(event, pages);
            freed += match self.choices.stolen_pages {
                StolenPages::Counted => pages,
                StolenPages::NotCounted => 0,
            };
        }
        freed
    }
}
