//! What works less well than it could on this computer. The library prints nothing: whoever started it asks.

use parking_lot::Mutex;
use std::fmt;

/// Something that the system did not grant, and what is used instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// No huge pages for the arena.
    NoHugePages,
    /// No hazard pointers: the system does not permit `membarrier`, or lacks it. Who reads a page changes its descriptor.
    NoHazardPointers,
    /// io_uring is not permitted; threads read and write.
    NoIoUring {
        /// The system's error number, 0 when a needed operation is missing.
        os_error: i32,
    },
    /// The swap file lies in memory (tmpfs): swapping makes no room.
    SwapInMemory {
        /// The folder, or the file.
        name: String,
    },
    /// A file is read and written through the page cache of the kernel: its file system has no other way.
    Buffered {
        /// The file.
        name: String,
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
            Self::Buffered { name } => write!(f, "{name}: no O_DIRECT on its file system, the kernel caches it too"),
        }
    }
}

/// The notices so far, each once.
#[derive(Debug, Default)]
pub(super) struct Notices(Mutex<Vec<Notice>>);

impl Notices {
    pub(super) fn add(&self, notice: Notice) {
        let mut notices = self.0.lock();
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    pub(super) fn all(&self) -> Vec<Notice> {
        self.0.lock().clone()
    }
}
