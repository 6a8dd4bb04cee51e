//! Limits the memory of a process by a cgroup of its own, version 2 or 1.
//!
//! The process that makes the cgroup stays outside of it, and puts the limited process into it. When the limited
//! process ends, the cgroup is empty and can be removed.

use figures::cgroup::{Cgroup, Version};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io};

/// A cgroup that limits memory. Dropping this value removes the cgroup.
#[derive(Debug)]
pub struct Limit {
    /// The cgroup that has the limit.
    pub cgroup: Cgroup,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl Limit {
    /// Makes a cgroup with a limit of `bytes`.
    ///
    /// # Errors
    /// When a requirement is missing. The error names it, in words for the user.
    pub fn new(bytes: u64) -> Result<Self, String> {
        let mut tried = Vec::new();
        for (parent, version) in places() {
            match Self::in_parent(&parent, version, bytes) {
                Ok(limit) => return Ok(limit),
                Err(error) => tried.push(format!("{}: {error}", parent.display())),
            }
        }
        if tried.is_empty() {
            return Err("no cgroup with the memory controller is mounted".into());
        }
        Err(format!("no cgroup can be made that limits memory ({})", tried.join("; ")))
    }

    fn in_parent(parent: &Path, version: Version, bytes: u64) -> io::Result<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("highwater-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        // From here on, dropping `limit` removes the cgroup.
        let limit = Self { cgroup: Cgroup { path, version } };
        let file = match version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        let file = limit.cgroup.path.join(file);
        if !file.exists() {
            return Err(io::Error::other("the memory controller is not handed on to it"));
        }
        fs::write(file, bytes.to_string())?;
        Ok(limit)
    }

    /// When the cgroup's memory is exhausted, its tasks now wait instead of being killed. Only cgroups of version 1 can
    /// do that: in version 2 the kernel kills the limited process. While tasks wait, the caller must free memory in the
    /// cgroup ([`Cgroup::help`]).
    ///
    /// A kernel considers memory exhausted when sixteen tries of reclaim in a row have freed nothing. This can happen
    /// even with most of swap free: while pages wait to be written to swap, or while they are used faster than reclaim
    /// scans them.
    #[must_use]
    pub fn waiting(self) -> Self {
        if self.cgroup.version == Version::V1 {
            let _ = fs::write(self.cgroup.path.join("memory.oom_control"), "1");
        }
        self
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // A process that has just ended may still be in the cgroup for a moment.
        for _ in 0..100 {
            match fs::remove_dir(&self.cgroup.path) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                // A cgroup that cannot be removed stays, empty.
                _ => return,
            }
        }
    }
}

/// Returns the folders in which a new cgroup may be made, each with the version of its cgroups. The folders in which
/// this is most likely permitted come first.
///
/// In version 1 such a folder is the cgroup of this process. In version 2 the first folder is the parent of that
/// cgroup, because a cgroup with processes cannot enable controllers for children. The second is the cgroup itself,
/// which works only if it is the root.
fn places() -> Vec<(PathBuf, Version)> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    places_of(&own, &mounts)
}

fn places_of(own: &str, mounts: &str) -> Vec<(PathBuf, Version)> {
    let mut places = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let version = match mount.kind {
            "cgroup2" => Version::V2,
            "cgroup" if mount.options.split(',').any(|option| option == "memory") => Version::V1,
            _ => continue,
        };
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = match version {
                Version::V1 => controllers.split(',').any(|controller| controller == "memory"),
                Version::V2 => controllers.is_empty(),
            };
            is_it.then_some(path)
        });
        let Some(path) = path else { continue };
        let inside = Path::new(path).strip_prefix(mount.root).unwrap_or(Path::new(path));
        let own = Path::new(mount.point).join(inside.strip_prefix("/").unwrap_or(inside));
        let top = Path::new(mount.point);
        if version == Version::V2 && own != top {
            places.extend(own.parent().map(|parent| (parent.to_owned(), version)));
        }
        places.push((own, version));
    }
    places
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let mut right = right.split(' ');
        Some(Self { root: left.next()?, point: left.next()?, kind: right.next()?, options: right.nth(1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_from_where_the_process_is() {
        let version_1 = "25 1 0:21 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                         26 1 0:22 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
        assert_eq!(
            places_of("4:memory:/jobs/7\n1:cpu:/\n0::/\n", version_1),
            [("/sys/fs/cgroup/memory/jobs/7".into(), Version::V1)]
        );
        let version_2 = "25 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            places_of("0::/user.slice/app.scope\n", version_2),
            [
                ("/sys/fs/cgroup/user.slice".into(), Version::V2),
                ("/sys/fs/cgroup/user.slice/app.scope".into(), Version::V2)
            ]
        );
        assert_eq!(places_of("0::/\n", version_2), [("/sys/fs/cgroup/".into(), Version::V2)]);
        let inside = "25 1 0:21 /docker/9 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(places_of("4:memory:/docker/9\n", inside), [("/sys/fs/cgroup/memory/".into(), Version::V1)]);
        assert!(places_of("0::/\n", "").is_empty());
    }
}
