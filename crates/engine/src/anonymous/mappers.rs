//! The lists of the regions that map each file.

use super::Region;
use crate::page_cache::File;
use machine::atomic::Ordering::Release;
use machine::{Lock, LockClass, Machine};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The list of the regions that map a file. The list is replaced as a whole, so that it can be walked without a lock.
type Mappers<M> = Arc<[Weak<Region<M>>]>;

/// For each mapped file, by the file's number, the list of the regions that map it. The type is a map because few files
/// are ever mapped.
type MappersByFile<M> = BTreeMap<u32, Mappers<M>>;

/// Number of locks for the lists of mappers. Files that were made one after the other have different locks, so tasks
/// seldom compete for the same lock.
const MAPPER_LOCKS: usize = 64;

/// The regions that map each file.
pub(super) struct FileMappers<M: Machine>(Box<[M::Lock<MappersByFile<M>>]>);

impl<M: Machine> FileMappers<M> {
    pub(super) fn new(machine: &M) -> Self {
        Self((0..MAPPER_LOCKS).map(|_| machine.lock(LockClass::Other, BTreeMap::new())).collect())
    }

    pub(super) fn of(&self, file: &File<M>) -> Mappers<M> {
        let mappers = self.lock_of(file).lock().get(&file.id).cloned();
        mappers.unwrap_or_else(|| Arc::new([]))
    }

    /// Replaces the list of the regions that map `file`. `change` gets the present list and returns the new one.
    pub(super) fn change(&self, file: &File<M>, change: impl FnOnce(&[Weak<Region<M>>]) -> Mappers<M>) {
        let mut lists = self.lock_of(file).lock();
        let mappers = change(lists.get(&file.id).map_or(&[], |mappers| mappers));
        file.mapper_count.store(mappers.len() as u32, Release);
        match mappers.is_empty() {
            true => lists.remove(&file.id),
            false => lists.insert(file.id, mappers),
        };
    }

    fn lock_of(&self, file: &File<M>) -> &M::Lock<MappersByFile<M>> {
        &self.0[file.id as usize % MAPPER_LOCKS]
    }
}
