//! What this process uses each file as: one that swap goes to is nobody's data, and one with data is nobody's swap.
//!
//! Other processes are kept out of a swap file by its lock; against one's own process a lock does nothing.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What a file is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Swap,
    Data(Users),
}

/// Memories that have a file with data: one that may write it, or any number of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    Writer,
    Readers(u32),
}

/// Files by device and inode number: by what they are, not by what they are called.
static IN_USE: Mutex<BTreeMap<(u64, u64), Use>> = Mutex::new(BTreeMap::new());

/// A file is in use until this is dropped.
#[derive(Debug)]
pub struct InUse((u64, u64));

impl InUse {
    /// Uses a file as swap, alone.
    ///
    /// # Errors
    /// What it is used as.
    pub(crate) fn as_swap(metadata: &Metadata) -> Result<Self, Use> {
        let key = (metadata.dev(), metadata.ino());
        match IN_USE.lock().entry(key) {
            Entry::Occupied(found) => Err(*found.get()),
            Entry::Vacant(place) => {
                place.insert(Use::Swap);
                Ok(Self(key))
            }
        }
    }

    /// Uses a file for data in one memory, beside others only if none of them may write it: each has a cache of its own.
    ///
    /// # Errors
    /// What it is used as.
    pub(crate) fn as_data(metadata: &Metadata, is_writable: bool) -> Result<Self, Use> {
        let key = (metadata.dev(), metadata.ino());
        match IN_USE.lock().entry(key) {
            Entry::Vacant(place) => {
                place.insert(Use::Data(if is_writable { Users::Writer } else { Users::Readers(1) }));
            }
            Entry::Occupied(mut found) => match found.get_mut() {
                Use::Data(Users::Readers(readers)) if !is_writable => *readers += 1,
                _ => return Err(*found.get()),
            },
        }
        Ok(Self(key))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut in_use = IN_USE.lock();
        match in_use.get_mut(&self.0) {
            Some(Use::Data(Users::Readers(readers))) if *readers > 1 => *readers -= 1,
            _ => drop(in_use.remove(&self.0)),
        }
    }
}
