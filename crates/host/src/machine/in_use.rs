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
    /// By so many memories at once.
    Data(u32),
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

    /// Uses a file for data, beside others who do; none if it is a swap file.
    pub(crate) fn as_data(metadata: &Metadata) -> Option<Self> {
        let key = (metadata.dev(), metadata.ino());
        match IN_USE.lock().entry(key).or_insert(Use::Data(0)) {
            Use::Swap => return None,
            Use::Data(users) => *users += 1,
        }
        Some(Self(key))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut in_use = IN_USE.lock();
        match in_use.get_mut(&self.0) {
            Some(Use::Data(users)) if *users > 1 => *users -= 1,
            _ => drop(in_use.remove(&self.0)),
        }
    }
}
