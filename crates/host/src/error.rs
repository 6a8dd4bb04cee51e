//! The errors that the library returns to an application.

use crate::group::error::GroupError;
use crate::machine::SwapFileError;
use engine::lru::policy::multigen::command::CommandError;
use engine::memory::{MAX_ORDERS, READERS_MAX};
use machine::{IoError, Order};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of pages of the largest file or region: 16 TiB, minus a margin that keeps rounded-up page numbers within 32
/// bits.
pub(crate) const PAGES_MAX: u64 = u32::MAX as u64 - 1023;

/// The reason why a call of the library failed. Each variant names what the caller needs in order to act: the file, the
/// byte, the cause.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let error = memory.open(path.join("nowhere")).unwrap_err();
/// assert!(matches!(&error, highwater::Error::File { doing: "open the file", .. }));
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, created or examined, or its length could not be set.
    File {
        /// Path of the file.
        path: PathBuf,
        /// The action that failed, such as `open the file`.
        doing: &'static str,
        /// The error that the operating system returned.
        source: io::Error,
    },
    /// A page of a file could not be read.
    Read {
        /// Path of the file.
        path: Arc<Path>,
        /// Offset of the page in the file, bytes.
        offset: u64,
        /// The error of the device that holds the file.
        source: IoError,
    },
    /// Pages of a file could not be written to the disk. A sync returns this error if a page could not be written and
    /// the handle has not reported this yet. A write to the file returns it if memory holds too many pages that still
    /// cannot be written. If `source` is [`IoError::LogBehind`], the pages must not be written before the log, and each
    /// sync of such a page returns this error. With the kernel `highwater` (or `writeback.write_failure = "keep-dirty"`), the pages stay in
    /// memory, dirty, and are written again later. Other kernels drop them.
    Write {
        /// Path of the file.
        path: Arc<Path>,
        /// First byte of the last page that could not be written.
        offset: u64,
        /// The error of the device that holds the file.
        source: IoError,
    },
    /// The handle was opened for reading only.
    ReadOnly {
        /// Path of the file.
        path: Arc<Path>,
    },
    /// The requested page lies after the end of its file or region.
    OutOfRange {
        /// The number of the requested page in its file or region.
        page: u64,
        /// Number of pages of the file or region.
        pages: u64,
    },
    /// The requested bytes reach beyond the end of the region.
    OutOfBytes {
        /// Offset of the first requested byte in the region.
        offset: u64,
        /// Number of the requested bytes.
        bytes: u64,
        /// Number of bytes of the region.
        len: u64,
    },
    /// A file or region would be longer than 16 TiB less 4 MiB.
    TooLong {
        /// Number of bytes that the file or region would have.
        bytes: u64,
    },
    /// A block of contiguous memory would have more than 1024 pages.
    OrderTooLarge {
        /// The base-2 logarithm of the block's number of pages.
        order: Order,
    },
    /// A page could not be read back from swap.
    SwapRead {
        /// The number of the swap slot that could not be read.
        slot: u32,
        /// The error of the device that holds swap.
        source: IoError,
    },
    /// A page already has as many read guards ([`PageRead`](crate::PageRead)) as it can have:
    /// [`engine::memory::READERS_MAX`] (16383).
    TooManyReaders {
        /// The number of the page in its file or region.
        page: u64,
    },
    /// All memory is in use and none can be freed, because swap is full or dirty pages cannot be written. Or a
    /// [`Group`](crate::Group) is at its `max`, and nothing can be freed in the group.
    OutOfMemory {
        /// The state of the memory, in words.
        state: String,
    },
    /// The swap file cannot be used.
    Swap(SwapFileError),
    /// The builder's settings are wrong: for example, the size is too small or too large, or a kernel file has a
    /// mistake.
    Builder(String),
    /// A page cannot have a log number ([`PageWrite::raise_log_number`](crate::PageWrite::raise_log_number)) or be held
    /// ([`PageWrite::hold`](crate::PageWrite::hold)), or a file not have this log
    /// ([`File::set_log`](crate::File::set_log)). The text says why.
    WriteOrder(&'static str),
    /// No more pages can be held ([`PageWrite::hold`](crate::PageWrite::hold)).
    TooManyHeld {
        /// The number of pages that may be held at present, in all files of the memory. It changes with the amount of
        /// memory that is free or has pages of files.
        pages: u64,
    },
    /// A memory control group cannot be used as asked.
    Group {
        /// The names of the group and its ancestors, the top of the tree first, with slashes between them. The names
        /// are unknown if a file was to be opened in a group that was removed or belongs to another memory. In this
        /// case, the text is the word `of` and the path of the file.
        name: String,
        /// The reason why the group cannot be used.
        kind: GroupError,
    },
    /// A text for [`Memory::lru_gen_command`](crate::Memory::lru_gen_command) contains a part that is no command, or a
    /// command that was refused.
    LruGen(CommandError),
    /// The system does not grant memory or threads.
    System(io::Error),
    /// The memory was shut down.
    ShutDown,
}

/// The kind of an [`Error`], by which a program can decide what to do. [`Error::kind`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is in use in a way that excludes this one: another process has locked it, this process uses it as swap or
    /// in another `Memory`, or it is open for reading only.
    AlreadyOpen,
    /// A file that was to be created exists already.
    AlreadyExists,
    /// There is no such file.
    NotFound,
    /// The system does not permit the action.
    PermissionDenied,
    /// The handle was opened for reading only.
    ReadOnly,
    /// The disk is full, or a limit of the user or of the file's size is reached.
    StorageFull,
    /// All memory, or all of a group's memory, is in use, and nothing can be freed; or the system grants no memory.
    OutOfMemory,
    /// A page or a byte lies after the end.
    OutOfRange,
    /// The arguments or settings are not possible.
    InvalidInput,
    /// The system or the file system cannot do this.
    Unsupported,
    /// Contents are not what was last written.
    Corrupt,
    /// Pages must not be written yet, because the log is not durable up to their log numbers
    /// ([`PageWrite::raise_log_number`](crate::PageWrite::raise_log_number)).
    LogBehind,
    /// Pages must not be written yet, because the program holds them ([`PageWrite::hold`](crate::PageWrite::hold)). All
    /// other pages could be written.
    Held,
    /// No more pages can be held ([`PageWrite::hold`](crate::PageWrite::hold)).
    TooManyHeld,
    /// Another program has cut the bytes off the file.
    Truncated,
    /// A page has as many readers as it can have.
    TooManyReaders,
    /// The memory was shut down.
    ShutDown,
    /// The disk, or the system, failed in another way.
    Other,
}

impl ErrorKind {
    fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ResourceBusy => Self::AlreadyOpen,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::PermissionDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::StorageFull
            }
            io::ErrorKind::OutOfMemory => Self::OutOfMemory,
            io::ErrorKind::InvalidInput => Self::InvalidInput,
            io::ErrorKind::Unsupported => Self::Unsupported,
            io::ErrorKind::UnexpectedEof => Self::OutOfRange,
            _ => Self::Other,
        }
    }
}

impl Error {
    /// Returns what went wrong, without taking the error.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use highwater::{ErrorKind, Memory, OpenOptions};
    ///
    /// let memory = Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "read by one, written by the other")?;
    /// let reader = OpenOptions::new().open(&memory, &path)?;
    /// assert_eq!(memory.open(&path).unwrap_err().kind(), ErrorKind::AlreadyOpen);
    /// # drop(reader);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File { source, .. } | Self::System(source) => ErrorKind::of_io(source),
            Self::Read { source, .. } | Self::Write { source, .. } | Self::SwapRead { source, .. } => match source {
                IoError::NoSpace => ErrorKind::StorageFull,
                IoError::Os(number) => ErrorKind::of_io(&io::Error::from_raw_os_error(*number)),
                IoError::Truncated => ErrorKind::Truncated,
                IoError::Checksum => ErrorKind::Corrupt,
                IoError::LogBehind => ErrorKind::LogBehind,
                IoError::Held => ErrorKind::Held,
                IoError::Device => ErrorKind::Other,
            },
            Self::ReadOnly { .. } => ErrorKind::ReadOnly,
            Self::OutOfRange { .. } | Self::OutOfBytes { .. } => ErrorKind::OutOfRange,
            Self::TooLong { .. }
            | Self::OrderTooLarge { .. }
            | Self::Group { .. }
            | Self::LruGen(_)
            | Self::Builder(_)
            | Self::Swap(SwapFileError::Size { .. }) => ErrorKind::InvalidInput,
            Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::WriteOrder(_) => ErrorKind::Unsupported,
            Self::TooManyHeld { .. } => ErrorKind::TooManyHeld,
            Self::Swap(SwapFileError::Io { source, .. } | SwapFileError::Allocate { source, .. }) => {
                ErrorKind::of_io(source)
            }
            Self::Swap(_) => ErrorKind::Other,
            Self::TooManyReaders { .. } => ErrorKind::TooManyReaders,
            Self::ShutDown => ErrorKind::ShutDown,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, doing, source } => write!(f, "{}: cannot {doing}: {source}", path.display()),
            Self::Read { path, offset, source } => {
                write!(f, "{}: read at byte {offset} failed: {source}", path.display())
            }
            Self::Write { path, offset, source } => {
                write!(f, "{}: write at byte {offset} failed: {source}", path.display())
            }
            Self::ReadOnly { path } => write!(f, "{}: opened for reading only", path.display()),
            Self::OutOfRange { page, pages } => {
                let there_are =
                    if *pages == 1 { "there is 1 page".to_owned() } else { format!("there are {pages} pages") };
                write!(f, "page {page} is after the end: {there_are}")
            }
            Self::OutOfBytes { offset, bytes, len } => {
                write!(f, "{bytes} bytes at byte {offset} do not lie within the region: it has {len} bytes")
            }
            Self::TooLong { bytes } => {
                let most = PAGES_MAX * machine::PAGE_BYTES as u64;
                write!(f, "{bytes} bytes are too many for a file or region: {most} are the most")
            }
            Self::OrderTooLarge { order } => {
                write!(f, "there are no blocks of {order}: {} is the largest", Order(MAX_ORDERS as u8 - 1))
            }
            Self::SwapRead { slot, source } => write!(f, "swap slot {slot}: read failed: {source}"),
            Self::TooManyReaders { page } => {
                write!(f, "page {page} has {READERS_MAX} guards for reading, which is as many as can be")
            }
            Self::OutOfMemory { state } => f.write_str(state),
            Self::Swap(source) => source.fmt(f),
            Self::Builder(message) => f.write_str(message),
            Self::WriteOrder(why) => write!(f, "writes cannot be ordered: {why}"),
            Self::TooManyHeld { pages } => write!(f, "no more pages can be held: at present {pages} are the most"),
            Self::Group { name, kind } => write!(f, "group {name}: {kind}"),
            Self::LruGen(source) => source.fmt(f),
            Self::System(source) => write!(f, "the system does not grant what is needed: {source}"),
            Self::ShutDown => f.write_str("the memory was shut down"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } | Self::System(source) => Some(source),
            Self::Read { source, .. } | Self::Write { source, .. } | Self::SwapRead { source, .. } => Some(source),
            Self::Swap(source) => Some(source),
            Self::LruGen(source) => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::File { source, .. } | Error::System(source) => source.kind(),
            Error::Read { source, .. } | Error::Write { source, .. } | Error::SwapRead { source, .. } => match source {
                IoError::NoSpace => io::ErrorKind::StorageFull,
                IoError::Os(number) => io::Error::from_raw_os_error(*number).kind(),
                IoError::Truncated => io::ErrorKind::UnexpectedEof,
                IoError::Checksum => io::ErrorKind::InvalidData,
                IoError::Device | IoError::LogBehind | IoError::Held => io::ErrorKind::Other,
            },
            Error::ReadOnly { .. } => io::ErrorKind::PermissionDenied,
            Error::OutOfRange { .. }
            | Error::OutOfBytes { .. }
            | Error::TooLong { .. }
            | Error::OrderTooLarge { .. }
            | Error::Group { .. }
            | Error::LruGen(_)
            | Error::Builder(_) => io::ErrorKind::InvalidInput,
            Error::WriteOrder(_) => io::ErrorKind::Unsupported,
            Error::OutOfMemory { .. } | Error::TooManyHeld { .. } => io::ErrorKind::OutOfMemory,
            Error::Swap(SwapFileError::Io { source, .. } | SwapFileError::Allocate { source, .. }) => source.kind(),
            Error::Swap(SwapFileError::Size { .. }) => io::ErrorKind::InvalidInput,
            Error::Swap(_) | Error::ShutDown | Error::TooManyReaders { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl Error {
    /// Converts an error of the engine about the file at `path` to an error of the library.
    pub(crate) fn of_file(path: &Arc<Path>, error: engine::Error) -> Self {
        match error {
            engine::Error::Read { offset, source, .. } => Self::Read { path: path.clone(), offset, source },
            engine::Error::Write { offset, source, .. } => Self::Write { path: path.clone(), offset, source },
            engine::Error::NoSpace { offset, .. } => {
                Self::Write { path: path.clone(), offset, source: IoError::NoSpace }
            }
            engine::Error::NoIndex { offset, .. } => Self::OutOfMemory {
                state: format!(
                    "{}: the system grants no memory for the index of the file up to byte {offset}",
                    path.display()
                ),
            },
            other => Self::of_memory(other),
        }
    }

    /// Converts an error of the engine about a region or about memory to an error of the library.
    pub(crate) fn of_memory(error: engine::Error) -> Self {
        match error {
            engine::Error::SwapRead { slot, source } => Self::SwapRead { slot, source },
            engine::Error::OutOfMemory { .. } | engine::Error::TooManyTables { .. } => {
                Self::OutOfMemory { state: error.to_string() }
            }
            engine::Error::TooManyReaders { page } => Self::TooManyReaders { page: page.into() },
            engine::Error::Killed => Self::ShutDown,
            engine::Error::BeyondEnd { .. } => unreachable!("the library maps no files: {error}"),
            engine::Error::Read { .. }
            | engine::Error::Write { .. }
            | engine::Error::NoSpace { .. }
            | engine::Error::NoIndex { .. } => {
                unreachable!("{error}, without a file at hand")
            }
        }
    }
}
