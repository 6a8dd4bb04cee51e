//! A tracing instance of tracefs. It has buffers and settings of its own, so that it does not disturb other users of
//! tracing.

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Largest size of the trace buffers of all CPUs together, KiB.
const BUFFERS_KIB: u64 = 256 << 10;
/// Largest size of the trace buffer of one CPU, KiB.
const BUFFER_KIB: u64 = 8 << 10;
const PREFIX: &str = "highwater-";

/// An instance of tracefs, which has trace buffers of its own. It is removed when this value is dropped.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    root: PathBuf,
    /// The mount of tracefs that only this process sees; `None` if tracefs was already mounted.
    _mount: Option<OwnedFd>,
}

impl Instance {
    /// Makes an instance that traces nothing yet.
    ///
    /// # Errors
    /// When this process may not trace, or the kernel has no tracefs. The error is a message for the user.
    pub fn new() -> Result<Self, String> {
        let (root, mount) = root()?;
        let instances = root.join("instances");
        remove_abandoned(&instances);
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| said(&folder, &error))?;
        let instance = Self { folder, root, _mount: mount };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "mono")?;
        let cpus = instance.buffers().map_err(|error| said(&instance.folder, &error))?.len() as u64;
        let kib = (BUFFERS_KIB / cpus.max(1)).min(BUFFER_KIB);
        instance.set("buffer_size_kb", &kib.to_string())?;
        instance.set("options/event-fork", "1")?;
        Ok(instance)
    }

    /// Returns the path of the file `file` in the folder of this instance of tracefs.
    #[must_use]
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Reads the file `file` in the root folder of tracefs, which all instances share.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn common(&self, file: &str) -> io::Result<String> {
        // Some of these files give all that they have to the first read, and nothing to a second one.
        let mut bytes = vec![0; 1 << 14];
        let len = fs::File::open(self.root.join(file))?.read(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..len]).into_owned())
    }

    /// Writes `value` to the file `file`, a setting of this instance of tracefs.
    ///
    /// # Errors
    /// When the kernel refuses the value. The error is a text for the user.
    pub fn set(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.path(file);
        write(&path, value).map_err(|error| said(&path, &error))
    }

    /// Adds a thread to the traced threads of the instance (`set_event_pid`).
    ///
    /// # Errors
    /// When the thread has ended, or the kernel refuses to trace it.
    pub fn add(&self, thread: u32) -> io::Result<()> {
        append(&self.path("set_event_pid"), thread.to_string().as_bytes())
    }

    /// Returns the paths of the folders `per_cpu/cpuN`, which have the trace buffers of the CPUs.
    ///
    /// # Errors
    /// When the folder `per_cpu` cannot be read.
    pub fn buffers(&self) -> io::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(self.path("per_cpu"))? {
            folders.push(entry?.path());
        }
        folders.sort();
        Ok(folders)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        // In an instance whose buffers are open this fails; the next recording removes it then.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

/// Appends `value` to a file of tracefs that holds a list, such as `set_event_pid`. Allocates no memory except for the
/// path.
pub fn append(path: &Path, value: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(value)
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("cannot trace: {}: {}", path.display(), kit::input::why(error))
}

/// Returns the path of tracefs. If tracefs is not mounted, mounts it without a place in the file system, and also
/// returns the mount. It is unmounted when the returned descriptor is closed.
fn root() -> Result<(PathBuf, Option<OwnedFd>), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("the kernel's tracing is for root alone; a command can be recorded without it".to_owned());
    }
    for path in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        if Path::new(path).join("instances").is_dir() {
            return Ok((PathBuf::from(path), None));
        }
    }
    let mounted = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|system| {
        fsconfig_create(&system)?;
        fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    });
    let mount =
        mounted.map_err(|error| format!("cannot trace: this system does not let tracefs be mounted: {error}"))?;
    Ok((PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd())), Some(mount)))
}

/// Removes the tracefs instances that recorders left behind when they were killed: those whose names have the number of
/// a process that does not exist any more.
fn remove_abandoned(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another recorder may remove it at the same time.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
