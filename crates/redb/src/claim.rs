//! A table of the files that databases of this process have open, so that no two databases write one file.
//!
//! The lock of a file (`flock`) keeps out other processes and other memories, but not a second handle in the same
//! memory; this table keeps out a second database.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::{Mutex, PoisonError};

/// The identity of a file, independent of its name: device and inode, or, of a block device, only its device number.
type Identity = (u64, Option<u64>);

/// The databases that a claim permits beside its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// No other database.
    Exclusive,
    /// Other databases with claims of this mode.
    Shared,
}

/// The databases that have a file open: one that may write it, or a number of databases that only read it.
#[derive(Debug)]
enum Users {
    Writer,
    Readers(u32),
}

static CLAIMED: Mutex<BTreeMap<Identity, Users>> = Mutex::new(BTreeMap::new());

/// A claim of a database on a file, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim(Identity);

impl Claim {
    /// Claims a file; returns `None` if another claim excludes this one.
    pub(crate) fn new(metadata: &Metadata, mode: Mode) -> Option<Self> {
        let is_device = metadata.file_type().is_block_device();
        let identity = if is_device { (metadata.rdev(), None) } else { (metadata.dev(), Some(metadata.ino())) };
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        match (claimed.entry(identity), mode) {
            (Entry::Vacant(place), Mode::Exclusive) => _ = place.insert(Users::Writer),
            (Entry::Vacant(place), Mode::Shared) => _ = place.insert(Users::Readers(1)),
            (Entry::Occupied(mut found), Mode::Shared) => match found.get_mut() {
                Users::Readers(readers) => *readers += 1,
                Users::Writer => return None,
            },
            (Entry::Occupied(_), Mode::Exclusive) => return None,
        }
        Some(Self(identity))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        match claimed.get_mut(&self.0) {
            Some(Users::Readers(readers)) if *readers > 1 => *readers -= 1,
            _ => drop(claimed.remove(&self.0)),
        }
    }
}
