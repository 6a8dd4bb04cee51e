//! Finds the path and size of a file by its inode number, which is all that the kernel's events state.

use crate::files::Device;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The path and size of a file that was found by its inode number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFile {
    /// The path of the file; empty if the path is not known.
    pub name: Vec<u8>,
    /// The file's size, bytes.
    pub bytes: u64,
}

/// Finds paths by inode numbers: through the mounted file systems, and through the files that processes have open.
#[derive(Debug, Default)]
pub struct Inodes {
    mounts: HashMap<Device, Option<File>>,
    /// Paths of files that a process was seen to have open or mapped, by device and inode.
    seen: HashMap<(Device, u64), PathBuf>,
}

impl Inodes {
    /// Returns the path and size of the file with the inode `inode`; `None` if the file is not found. The file is found
    /// if its file system can open files by inode number alone, as ext4 can, or if a process was seen to use the file.
    pub fn find(&mut self, device: Device, inode: u64) -> Option<FoundFile> {
        self.by_handle(device, inode).or_else(|| {
            let path = self.seen.get(&(device, inode))?;
            let metadata = fs::metadata(path).ok().filter(|it| it.ino() == inode)?;
            Some(FoundFile { name: path.as_os_str().as_bytes().to_vec(), bytes: metadata.len() })
        })
    }

    fn by_handle(&mut self, device: Device, inode: u64) -> Option<FoundFile> {
        let mount = self.mounts.entry(device).or_insert_with(|| mount_of(device)).as_ref()?;
        let file = File::from(open(mount, u32::try_from(inode).ok()?).ok()?);
        let metadata = file.metadata().ok().filter(|it| it.ino() == inode)?;
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        let mut name = path.into_os_string().into_vec();
        // A file that no name is known of has `/` in its place.
        if name == b"/" || name.ends_with(b" (deleted)") {
            name.clear();
        }
        Some(FoundFile { name, bytes: metadata.len() })
    }

    /// Stores the paths of the files that a process has open or mapped.
    pub fn look_at(&mut self, process: u32) {
        for folder in ["fd", "map_files"] {
            for entry in fs::read_dir(format!("/proc/{process}/{folder}")).into_iter().flatten().flatten() {
                let (Ok(metadata), Ok(path)) = (fs::metadata(entry.path()), fs::read_link(entry.path())) else {
                    continue;
                };
                if metadata.is_file() {
                    self.seen.insert((parts(metadata.dev()), metadata.ino()), path);
                }
            }
        }
    }
}

/// Returns the major and the minor number of a device.
fn parts(device: u64) -> Device {
    [rustix::fs::major(device), rustix::fs::minor(device)]
}

/// Opens a mount point of the file system on a device; `None` if it is not mounted or cannot be opened.
fn mount_of(device: Device) -> Option<File> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let wanted = crate::files::text_of(device);
    text.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (found, _root, point) = (fields.next()?, fields.next()?, fields.next()?);
        // A mount point with strange characters has them in octal numbers.
        (found == wanted && !point.contains('\\')).then(|| File::open(Path::new(point)).ok()).flatten()
    })
}

/// Opens a file by its inode number, whatever the inode's generation is.
fn open(mount: &File, inode: u32) -> io::Result<OwnedFd> {
    /// `struct file_handle`, with eight bytes of handle.
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        inode: u32,
        generation: u32,
    }
    const INODE_AND_GENERATION: i32 = 1;
    let mut handle = Handle { bytes: 8, kind: INODE_AND_GENERATION, inode, generation: 0 };
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOATIME;
    // SAFETY: the structure is as long as its first field says, and lives until the call returns.
    let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_open_is_found_by_its_inode() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 5000]).unwrap();
        let file = File::open(&path).unwrap();
        let metadata = file.metadata().unwrap();
        let device = parts(metadata.dev());
        let mut inodes = Inodes::default();
        inodes.look_at(std::process::id());
        let found = inodes.find(device, metadata.ino()).expect("this process has the file open");
        assert_eq!(found, FoundFile { name: path.as_os_str().as_bytes().to_vec(), bytes: 5000 });
        assert_eq!(inodes.find([4095, 9], 1), None);
    }
}
