//! The files of a record: their numbers, names, sizes, file systems and disks.

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A device: major and minor number.
pub type Device = [u32; 2];

/// A file that was opened.
#[derive(Clone, Debug)]
pub struct File {
    /// Path of the file; empty if unknown.
    pub name: Vec<u8>,
    /// The device that holds the file.
    pub device: Device,
    /// Inode number of the file.
    pub inode: u64,
    /// A hash of the time at which the file was created; 0 if unknown.
    birth: u32,
    /// Size of the file when the recording first met it, bytes.
    pub first_bytes: u64,
    /// Last known size of the file, bytes.
    pub bytes: u64,
    /// True if the file's last name was removed.
    pub is_deleted: bool,
}

/// The files of a record, by number.
#[derive(Debug, Default)]
pub struct Files {
    all: Vec<File>,
    by_inode: HashMap<(Device, u64), u32>,
    systems: BTreeMap<Device, System>,
}

/// The known facts about the file system on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct System {
    /// Type of the file system, such as `ext4`; empty if unknown.
    kind: String,
    /// `read_ahead_kb` of the file system's disk; `None` if unknown.
    readahead_kib: Option<u64>,
}

/// Types of file systems whose files are not on a disk. The kernel generates the contents of such files when they are
/// read, and does not keep them in the page cache.
const PSEUDO: [&str; 20] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
    "tracefs",
];

/// File systems whose files lie only in memory.
const MEMORY: [&str; 4] = ["devtmpfs", "hugetlbfs", "ramfs", "tmpfs"];

impl Files {
    /// Makes a table that knows the file systems that are mounted now.
    #[must_use]
    pub fn new() -> Self {
        let mut files = Self::default();
        files.look_at_mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        files
    }

    /// Reads the types of the mounted file systems from the text of `mountinfo`, and looks up the readahead of their
    /// disks.
    fn look_at_mounts(&mut self, text: &str) {
        for line in text.lines() {
            let Some((before, behind)) = line.split_once(" - ") else { continue };
            let device = before.split(' ').nth(2).and_then(device_of);
            if let (Some(device), Some(kind)) = (device, behind.split(' ').next()) {
                self.systems
                    .entry(device)
                    .or_insert_with(|| System { kind: kind.to_owned(), readahead_kib: readahead_kib(device) });
            }
        }
    }

    fn system(&mut self, device: Device) -> &System {
        self.systems
            .entry(device)
            .or_insert_with(|| System { kind: String::new(), readahead_kib: readahead_kib(device) })
    }

    /// Returns whether a device number belongs to a pseudo file system, such as procfs, whose files the kernel makes
    /// when they are read.
    pub fn is_pseudo(&mut self, device: Device) -> bool {
        PSEUDO.contains(&&*self.system(device).kind)
    }

    /// Returns the number by which the record refers to a file. A file that was not met before gets a new number. The
    /// name may be empty.
    ///
    /// A file with the same inode and another time of birth is another file.
    pub fn enter(&mut self, device: Device, inode: u64, birth: u32, bytes: u64, name: &[u8]) -> u32 {
        if let Some(number) = self.by_inode.get(&(device, inode)) {
            let file = &mut self.all[*number as usize];
            if file.birth == birth || file.birth == 0 || birth == 0 {
                file.bytes = bytes;
                if file.name.is_empty() {
                    file.name = name.to_owned();
                }
                return *number;
            }
        }
        self.system(device);
        let number = self.all.len() as u32;
        let name = name.strip_suffix(b" (deleted)").unwrap_or(name).to_owned();
        self.all.push(File { name, device, inode, birth, first_bytes: bytes, bytes, is_deleted: false });
        self.by_inode.insert((device, inode), number);
        number
    }

    /// Notes that the file with this inode was deleted, so that a new file may get the inode. Returns the number of the
    /// deleted file; `None` if the file was not seen before.
    pub fn delete(&mut self, device: Device, inode: u64) -> Option<u32> {
        let number = self.by_inode.remove(&(device, inode))?;
        self.all[number as usize].is_deleted = true;
        Some(number)
    }

    /// Returns the number of the file with this inode; `None` if the file was not seen.
    #[must_use]
    pub fn number(&self, device: Device, inode: u64) -> Option<u32> {
        self.by_inode.get(&(device, inode)).copied()
    }

    /// Returns the file with the number `number`, so that the caller can change it; `None` if there is none.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut File> {
        self.all.get_mut(number as usize)
    }

    /// Returns the file with the number `number`; `None` if there is none.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&File> {
        self.all.get(number as usize)
    }

    /// Returns all files, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &File> {
        self.all.iter()
    }

    /// Updates the size of each file that still exists under its recorded name.
    pub fn look_again(&mut self) {
        for file in &mut self.all {
            let path = Path::new(std::ffi::OsStr::from_bytes(&file.name));
            if let Ok(now) = fs::metadata(path)
                && now.ino() == file.inode
            {
                file.bytes = now.len();
            }
        }
    }

    /// Returns the number of files whose file system keeps them only in memory, such as tmpfs.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.iter().filter(|file| MEMORY.contains(&self.kind_of(file))).count()
    }

    /// Returns the type of the file system of a file; empty if it is not known.
    #[must_use]
    pub fn kind_of(&self, file: &File) -> &str {
        self.systems.get(&file.device).map_or("", |system| &system.kind)
    }

    /// Returns `read_ahead_kb` of each device that holds a recorded file, as a JSON object with keys such as `8:1`.
    #[must_use]
    pub fn readahead(&self) -> Value {
        let used = self.systems.iter().filter(|(device, _)| self.iter().any(|file| file.device == **device));
        let found = used.filter_map(|(device, system)| Some((text_of(*device), json!(system.readahead_kib?))));
        Value::Object(found.collect())
    }

    /// Returns the known facts about each file as JSON, in order of the files' numbers: device, inode, file system,
    /// sizes.
    #[must_use]
    pub fn described(&self) -> Value {
        let one = |file: &File| {
            json!({
                "device": text_of(file.device),
                "inode": file.inode,
                "file_system": self.kind_of(file),
                "first_bytes": file.first_bytes,
                "last_bytes": file.bytes,
                "deleted": file.is_deleted,
            })
        };
        Value::Array(self.iter().map(one).collect())
    }
}

/// Returns the text of a device in the form `8:1`: major number, colon, minor number.
#[must_use]
pub fn text_of([major, minor]: Device) -> String {
    format!("{major}:{minor}")
}

/// Reads a device from a text such as `8:1`: major number, colon, minor number. Returns `None` for any other text.
#[must_use]
pub fn device_of(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(':')?;
    Some([major.parse().ok()?, minor.parse().ok()?])
}

/// Returns the value of `read_ahead_kb` that the kernel uses for a device. A partition has the value of its disk.
fn readahead_kib(device: Device) -> Option<u64> {
    let device = text_of(device);
    let files = [
        format!("/sys/class/bdi/{device}/read_ahead_kb"),
        format!("/sys/dev/block/{device}/queue/read_ahead_kb"),
        format!("/sys/dev/block/{device}/../queue/read_ahead_kb"),
    ];
    files.iter().find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_inode_is_another_file() {
        let mut files = Files::default();
        assert_eq!(files.enter([8, 1], 5, 7, 10, b"/a"), 0);
        assert_eq!(files.enter([8, 1], 5, 7, 20, b""), 0);
        assert_eq!(files.enter([8, 2], 5, 7, 20, b"/b"), 1);
        assert_eq!(files.enter([8, 1], 5, 8, 30, b"/c"), 2);
        assert_eq!(files.delete([8, 2], 5), Some(1));
        assert_eq!(files.delete([8, 2], 5), None);
        assert_eq!(files.enter([8, 2], 5, 7, 40, b"/d"), 3);
        assert_eq!(files.get(0).map(|file| (file.first_bytes, file.bytes)), Some((10, 20)));
        assert!(files.get(1).is_some_and(|file| file.is_deleted));
    }

    #[test]
    fn the_kernels_own_files_are_recognised_by_their_mount() {
        let mut files = Files::default();
        files.look_at_mounts(
            "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n25 24 0:22 / /proc rw - proc proc rw\nbroken\n",
        );
        assert!(files.is_pseudo([0, 22]) && !files.is_pseudo([8, 1]) && !files.is_pseudo([99, 9]));
        files.enter([8, 1], 1, 0, 0, b"/x");
        assert_eq!(files.described()[0]["file_system"], "ext4");
    }
}
