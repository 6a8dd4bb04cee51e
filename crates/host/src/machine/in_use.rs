//! A table of the files that this process uses, as swap or for data. No file can be used in both ways at the same time.
//!
//! The lock of a swap file keeps out other processes, but not this process; this table keeps out other parts of this
//! process.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The identity of a file, independent of its name. Two names of one file have one identity, and so have two device
/// nodes of one block device, even on different file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Identity {
    /// A block device, which is identified by its device number.
    Device { number: u64 },
    /// A file that is no block device. It is identified by its inode and the device on which it lies.
    File { device: u64, inode: u64 },
}

impl Identity {
    /// Returns the identity of an open file.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let is_block_device = metadata.file_type().is_block_device();
        Self::of_numbers(is_block_device, metadata.dev(), metadata.ino(), metadata.rdev())
    }

    /// Returns the identity of a file with the inode `inode` on the device `device`. For a block device, these are the
    /// numbers of its node, and `number` is the number of the device itself.
    const fn of_numbers(is_block_device: bool, device: u64, inode: u64, number: u64) -> Self {
        if is_block_device { Self::Device { number } } else { Self::File { device, inode } }
    }
}

/// The use that this process makes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Swap,
    Data(Users),
}

/// The memories of this process that use a file for data: one memory that may write the file, or any number of memories
/// that only read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    Writer,
    Readers(u32),
}

static IN_USE: Mutex<BTreeMap<Identity, Use>> = Mutex::new(BTreeMap::new());

/// A claim on a file: the file counts as in use by this process until the claim is dropped.
#[derive(Debug)]
pub struct InUse(Identity);

impl InUse {
    /// Claims a file as swap, which excludes any other use by this process.
    ///
    /// # Errors
    /// The present use of the file by this process, if there is one.
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

    /// Claims a file for data in one memory. Several memories may claim a file only if none of them may write it,
    /// because each memory has a cache of its own.
    ///
    /// # Errors
    /// The present use of the file, if it excludes the wanted one.
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

    /// The test beside this one makes device nodes only where the computer permits it.
    #[test]
    fn an_identity_is_the_number_of_a_device_and_the_inode_of_any_other_file() {
        let node = |device, inode, number| Identity::of_numbers(true, device, inode, number);
        assert!(node(1, 10, 1800) == node(1, 11, 1800) && node(1, 10, 1800) == node(2, 12, 1800));
        assert!(node(1, 10, 1800) != node(1, 10, 1801));
        let file = |device, inode, number| Identity::of_numbers(false, device, inode, number);
        // A character device has a number, too, which may be that of a block device.
        assert!(file(1, 10, 0) == file(1, 10, 0) && file(1, 10, 1800) != node(1, 10, 1800));
        assert!(file(1, 10, 0) != file(1, 11, 0) && file(1, 10, 0) != file(2, 10, 0));
    }

    #[test]
    fn names_of_one_file_are_one_and_so_are_nodes_of_one_block_device() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let identity = |name: &str| Identity::of(&std::fs::metadata(at(name)).unwrap());
        std::fs::write(at("file"), "here").unwrap();
        std::fs::write(at("other"), "here").unwrap();
        std::fs::hard_link(at("file"), at("second name")).unwrap();
        assert!(identity("file") == identity("second name") && identity("file") != identity("other"));
        // The test does not open the device nodes, so the computer need not have devices with these numbers.
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
