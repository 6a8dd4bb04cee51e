//! Notices about features that the system did not grant, so that the library works less well than it could. The library
//! prints no notice; a program gets the notices from `Memory::notices`.

use parking_lot::Mutex;
use std::fmt;

/// Something that the system did not grant, and what is used instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The system does not back the memory with huge pages.
    NoHugePages,
    /// There are no hazard pointers, because the system does not permit `membarrier`, or lacks it. Instead, each read
    /// of a page counts a reference in the page's descriptor.
    NoHazardPointers,
    /// io_uring is not permitted; instead, threads read and write.
    NoIoUring {
        /// The `errno` with which the kernel refused io_uring; 0 if the kernel has io_uring without an operation that
        /// the library needs.
        os_error: i32,
    },
    /// The swap file lies in memory (tmpfs), so swapping frees no memory.
    SwapInMemory {
        /// The name of the swap file or, for an unnamed file, of its folder.
        name: String,
    },
    /// A file is read and written through the page cache of the kernel, because its file system offers no other way.
    Buffered {
        /// The name of the file that goes through the kernel's page cache.
        name: String,
    },
    /// Further files, which no [`Notice::Buffered`] names, go through the page cache of the kernel. Their names are not
    /// kept, because there may be any number of such files.
    BufferedMore {
        /// Number of times that a file which no [`Notice::Buffered`] names was opened.
        count: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHugePages => f.write_str("no huge pages: the system does not grant them to this process"),
            Self::NoHazardPointers => f.write_str(
                "no hazard pointers, readers count themselves at each page: the system permits no membarrier",
            ),
            Self::NoIoUring { os_error } => {
                f.write_str("no io_uring, threads read and write instead: ")?;
                match os_error {
                    0 => f.write_str("this kernel's lacks an operation"),
                    &number => write!(f, "{}", std::io::Error::from_raw_os_error(number)),
                }
            }
            Self::SwapInMemory { name } => {
                write!(f, "{name}: the swap file lies in memory there, which swapping does not free")
            }
            Self::BufferedMore { count } => {
                write!(f, "{count} more files opened without O_DIRECT, the kernel caches them too")
            }
            Self::Buffered { name } => write!(f, "{name}: no O_DIRECT on its file system, the kernel caches it too"),
        }
    }
}

/// Largest number of files that are named in notices. The limit is needed because a program may open any number of
/// files.
const FILES_MAX: usize = 16;

/// The notices so far, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Notices(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    notices: Vec<Notice>,
    /// Number of notices so far that name a file.
    files: usize,
    /// Number of notices about a file that were not kept, because [`FILES_MAX`] other notices already name a file.
    more_files: u64,
}

impl Notices {
    pub(super) fn add(&self, notice: Notice) {
        let mut noted = self.0.lock();
        if noted.notices.contains(&notice) {
            return;
        }
        if matches!(notice, Notice::Buffered { .. }) {
            if noted.files == FILES_MAX {
                noted.more_files += 1;
                return;
            }
            noted.files += 1;
        }
        noted.notices.push(notice);
    }

    pub(super) fn all(&self) -> Vec<Notice> {
        let noted = self.0.lock();
        let more = (noted.more_files > 0).then_some(Notice::BufferedMore { count: noted.more_files });
        noted.notices.iter().cloned().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_do_not_grow_with_the_files_that_are_opened() {
        let notices = Notices::default();
        notices.add(Notice::NoHugePages);
        for number in (0..1000).chain(0..10) {
            notices.add(Notice::Buffered { name: format!("file {number}") });
        }
        notices.add(Notice::NoHugePages);
        let all = notices.all();
        assert_eq!(all.len(), 1 + FILES_MAX + 1, "{all:?}");
        assert_eq!(all.last(), Some(&Notice::BufferedMore { count: 1000 - FILES_MAX as u64 }));
    }
}
