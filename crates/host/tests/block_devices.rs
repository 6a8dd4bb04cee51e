//! Tests that two device nodes of one block device count as one file. Skipped where the computer does not permit loop
//! devices.

mod common;

use common::{folder, memory};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device over a file of a megabyte. Dropping the value removes the device.
struct Loop {
    node: PathBuf,
}

impl Loop {
    /// Makes a loop device over a new file at the path `file`. Returns `None` if the system grants no loop device.
    fn new(file: &Path) -> Option<Self> {
        fs::write(file, vec![0; 1 << 20]).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let node = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Self { node: node.trim().into() })
    }

    /// Makes a second device node of the loop device, at `path`. Returns whether the system permitted it.
    fn node_at(&self, path: &Path) -> bool {
        let number = fs::metadata(&self.node).unwrap().rdev();
        let (major, minor) = (libc::major(number).to_string(), libc::minor(number).to_string());
        let made = Command::new("mknod").arg(path).args(["b", &major, &minor]).status();
        made.is_ok_and(|status| status.success())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.node).status();
    }
}

/// Opens a device by two nodes in different folders. Data written through one node are visible through the other, and
/// become durable.
#[test]
fn two_nodes_of_one_device_are_one_file() {
    let folder = folder();
    let other = folder.path().join("other node");
    let Some(device) = Loop::new(&folder.path().join("file")).filter(|device| device.node_at(&other)) else {
        eprintln!("skipped: no loop device, or no right to make a node");
        return;
    };
    let memory = memory();
    let Ok(first) = memory.open(&device.node) else {
        eprintln!("skipped: the loop device cannot be opened");
        return;
    };
    // A file system that is mounted without devices (`nodev`) refuses the open.
    if let Err(error) = fs::File::open(&other) {
        eprintln!("skipped: {error}");
        return;
    }
    let second = memory.open(&other).unwrap();
    first.read_exact_at(&mut [0; 8192], 0).unwrap();
    second.read_exact_at(&mut [0; 8192], 0).unwrap();
    first.write_all_at(b"first", 100).unwrap();
    first.sync_data().unwrap();
    second.write_all_at(b"second", 200).unwrap();
    second.sync_data().unwrap();
    let found = |file: &highwater::File| {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        (&bytes[100..105] == b"first", &bytes[200..206] == b"second")
    };
    assert_eq!((found(&first), found(&second)), ((true, true), (true, true)));
    // Another memory may not write the device by its other name.
    let another = common::memory();
    let error = another.open(&other).unwrap_err().to_string();
    assert!(error.contains("another memory of this process has it"), "{error}");
    drop((first, second));
    let again = memory.open(&device.node).unwrap();
    assert_eq!(found(&again), (true, true), "a durable write was lost");
    memory.check().unwrap();
}
