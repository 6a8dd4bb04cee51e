//! The use that this process makes of each file: a swap file holds no data of others, and a file with data is no swap
//! file.
//!
//! Other processes are kept out of a swap file by its lock; against one's own process a lock does nothing.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The identity of a file, whatever its name. Two names of one file are one; so are two nodes of one block device, which lie at
/// different places and may be on different file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Identity {
    /// A block device, by its number.
    Device { number: u64 },
    /// Any other file, by the device that it lies on, and its inode.
    File { device: u64, inode: u64 },
}

impl Identity {
    /// Returns the identity of an open file.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::Device { number: metadata.rdev() }
        } else {
            Self::File { device: metadata.dev(), inode: metadata.ino() }
        }
    }
}

/// The use of a file.
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

static IN_USE: Mutex<BTreeMap<Identity, Use>> = Mutex::new(BTreeMap::new());

/// Marks a file as in use until this is dropped.
#[derive(Debug)]
pub struct InUse(Identity);

impl InUse {
    /// Uses a file as swap, alone.
    ///
    /// # Errors
    /// What it is used as.
    pub(crate) fn as_swap(metadata: &Metadata) -> Result<Self, Use> {
        let key = Identity::of(metadata);
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
        let key = Identity::of(metadata);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn names_of_one_file_are_one_and_so_are_nodes_of_one_block_device() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let identity = |name: &str| Identity::of(&std::fs::metadata(at(name)).unwrap());
        std::fs::write(at("file"), "here").unwrap();
        std::fs::write(at("other"), "here").unwrap();
        std::fs::hard_link(at("file"), at("second name")).unwrap();
        assert!(identity("file") == identity("second name") && identity("file") != identity("other"));
        // Nobody opens the devices, so that there need be none of these numbers.
        let make = |name: &str, minor: &str| {
            let made = Command::new("mknod").arg(at(name)).args(["b", "7", minor]).output();
            made.is_ok_and(|output| output.status.success())
        };
        if make("node", "200") && make("second node", "200") && make("other node", "201") {
            assert!(identity("node") == identity("second node") && identity("node") != identity("other node"));
            assert!(matches!(identity("node"), Identity::Device { .. }));
        }
    }
}
