//! The swap file, to which anonymous pages go: making, sizing, checking and locking it.
//!
//! An *unnamed* file belongs to its process alone and ends with it. A *named* file has a header in its first block that
//! identifies it; the slots for pages follow. An existing file is left untouched if it has no such header, belongs to
//! another user, has a second name, or is in use. An existing swap file is replaced by a new file, so that a process
//! that still has the old one open sees no pages of the new memory.

use super::in_use::{InUse, Use};
use super::kind::irregular_kind;
use super::sys;
use fnv::FnvHasher;
use machine::{BLOCK_BYTES, PAGE_BYTES};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The first bytes of a swap file; the last of them is the version of its header.
const MAGIC: [u8; 16] = *b"highwater swap\x00\x01";
/// Number of bytes of a swap file's header: 16 of magic, 16 of a random identity, and 8 of a checksum of both.
const HEADER_BYTES: usize = 40;

/// An open swap file that nobody else can use. The lock of a named swap file, which is held until the file is closed,
/// keeps out other processes. The claim `in_use` keeps out other parts of this process.
#[derive(Debug)]
pub struct SwapFile {
    file: File,
    slots: u32,
    /// The claim on a named file; `None` for an unnamed file, which nobody else can open.
    in_use: Option<InUse>,
}

impl SwapFile {
    /// Number of the file's first block for pages. Block 0 is for the header.
    pub const FIRST_BLOCK: u64 = 1;

    /// Makes a swap file in `folder` that has no name and holds `bytes` bytes of pages, rounded down to whole pages.
    /// All its blocks are allocated. The system frees the blocks when the file is closed, or when the process ends in
    /// any way.
    ///
    /// # Errors
    /// When the folder does not exist, no file can be made in it, or its file system has too little free space. Also
    /// when `bytes` is less than one page or more than 2^32 - 2 pages.
    pub fn unnamed(folder: impl AsRef<Path>, bytes: u64) -> Result<Self, SwapFileError> {
        let folder = folder.as_ref();
        let slots = slots(folder, bytes)?;
        let failed = |source| SwapFileError::Io { path: folder.to_owned(), doing: "make", source };
        let file = make_unnamed(folder).map_err(failed)?;
        let allocated = allocate(&file, file_bytes(slots));
        allocated.map_err(|source| SwapFileError::Allocate { path: folder.to_owned(), bytes, source })?;
        Ok(Self { file, slots, in_use: None })
    }

    /// Makes a swap file with a name, for `bytes` bytes of pages, rounded down to whole pages. All its blocks are
    /// allocated, and only its owner may read it. An empty file, or a former swap file of the library, is replaced if
    /// it belongs to the caller, has no other name, and is not in use.
    ///
    /// # Errors
    /// When the existing file has other contents than a swap file of the library, belongs to another user, has a second
    /// name, or is in use (as swap, or as data of this process). When the disk has too little space for the file, or
    /// the file cannot be opened, read, written or replaced. When `bytes` is less than one page or more than 2^32 - 2
    /// pages.
    pub fn open(path: impl AsRef<Path>, bytes: u64) -> Result<Self, SwapFileError> {
        let path = path.as_ref();
        let slots = slots(path, bytes)?;
        let failed = |doing| move |source| SwapFileError::Io { path: path.to_owned(), doing, source };
        let in_use = || SwapFileError::InUse { path: path.to_owned() };
        let create = || options().create_new(true).open(path);
        let (file, was_there) = match create() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The old file stays locked until the new one is locked.
                let old = Self::claim(path)?;
                // Truncating the old file frees its blocks, even if other processes still have it open.
                old.set_len(0).and_then(|()| std::fs::remove_file(path)).map_err(failed("replace"))?;
                let file = create().map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => in_use(),
                    _ => failed("make")(error),
                })?;
                if !sys::try_lock_file(&file).map_err(failed("lock"))? {
                    return Err(in_use());
                }
                (file, true)
            }
            created => {
                let file = created.map_err(failed("make"))?;
                if !sys::try_lock_file(&file).map_err(failed("lock"))? {
                    return Err(in_use());
                }
                (file, false)
            }
        };
        let status = file.metadata().map_err(failed("look at"))?;
        let used = InUse::as_swap(&status).map_err(|_| in_use())?;
        let sized = || {
            // The header is written before the file gets its size, because a sized file without a header would not be
            // recognized as a swap file.
            file.write_all_at(&header(new_identity()), 0)?;
            allocate(&file, file_bytes(slots))?;
            file.sync_all()
        };
        if let Err(source) = sized() {
            // The file is removed, or emptied if it existed before. An error of this clean-up is ignored.
            let _ = if was_there { file.set_len(0) } else { std::fs::remove_file(path) };
            return Err(SwapFileError::Allocate { path: path.to_owned(), bytes, source });
        }
        Ok(Self { file, slots, in_use: Some(used) })
    }

    /// Opens and locks an existing file if it may be replaced, and returns it.
    fn claim(path: &Path) -> Result<File, SwapFileError> {
        let failed = |doing| move |source| SwapFileError::Io { path: path.to_owned(), doing, source };
        let foreign = |found: String| SwapFileError::Foreign { path: path.to_owned(), found };
        let in_use = || SwapFileError::InUse { path: path.to_owned() };
        let check_kind =
            |status: &Metadata| irregular_kind(status).map_or(Ok(()), |what| Err(foreign(what.to_owned())));
        // The kind is checked before opening, because opening some kinds of files has effects. It is checked again after
        // that, because the path may by then name something else.
        check_kind(&std::fs::symlink_metadata(path).map_err(failed("look at"))?)?;
        let file = match sys::open_at_once(&mut options(), FLAGS, path) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(foreign("a symbolic link".to_owned()));
            }
            file => file.map_err(failed("open"))?,
        };
        let status = file.metadata().map_err(failed("look at"))?;
        check_kind(&status)?;
        // Even an empty file may be a data file of this process. This is checked before the file is locked, because
        // this process may itself hold the lock.
        InUse::as_swap(&status).map(drop).map_err(|used| match used {
            Use::Swap => in_use(),
            Use::Data(_) => foreign("a file that this process has open".to_owned()),
        })?;
        if !sys::try_lock_file(&file).map_err(failed("lock"))? {
            return Err(in_use());
        }
        let status = file.metadata().map_err(failed("look at"))?;
        if status.uid() != sys::effective_user() {
            return Err(foreign(format!("a file of another user ({})", status.uid())));
        }
        match status.nlink() {
            1 => {}
            // The file has no name any more: another process is just replacing it.
            0 => return Err(in_use()),
            names => return Err(foreign(format!("a file with {names} names"))),
        }
        if status.len() > 0 {
            let mut block = vec![0; BLOCK_BYTES];
            let read = read_some_at(&file, &mut block).map_err(failed("read"))?;
            block.truncate(read);
            if !is_header(&block) {
                return Err(foreign(describe(&block)));
            }
        }
        Ok(file)
    }

    /// Returns the number of pages that fit into the file.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the size of the file, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        file_bytes(self.slots)
    }

    /// Returns whether the file lies in memory, as on tmpfs. Swapping to such a file frees no memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        sys::is_in_memory(&self.file)
    }

    /// Returns the file, for [`super::Host::add_device`], and the claim that keeps other parts of this process from
    /// using the file. The file stays locked; the caller drops the claim after the file.
    #[must_use]
    pub fn into_parts(self) -> (File, Option<InUse>) {
        (self.file, self.in_use)
    }
}

/// Flags of the system with which a swap file is opened: a symbolic link is refused.
const FLAGS: libc::c_int = libc::O_NOFOLLOW;

/// Returns the options to open a file that only its owner may read.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(FLAGS);
    options
}

/// Returns the number of swap slots, of one page each, that `bytes` bytes have. Returns an error that names `path` if
/// this is 0 or too many for slot numbers.
fn slots(path: &Path, bytes: u64) -> Result<u32, SwapFileError> {
    let slots = u32::try_from(bytes / PAGE_BYTES as u64).ok().filter(|slots| (1..u32::MAX).contains(slots));
    slots.ok_or_else(|| SwapFileError::Size { path: path.to_owned(), bytes })
}

fn file_bytes(slots: u32) -> u64 {
    (u64::from(slots) + SwapFile::FIRST_BLOCK) * BLOCK_BYTES as u64
}

/// Makes a file that never has a name. If the file system cannot do that, makes a file whose name is removed at once.
fn make_unnamed(folder: &Path) -> io::Result<File> {
    // O_EXCL: the file cannot be given a name later.
    let unnamed =
        OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE | libc::O_EXCL).open(folder);
    match unnamed {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            let path = folder.join(format!(".highwater-swap-{:032x}", new_identity()));
            let file = options().create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        made => made,
    }
}

fn read_some_at(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Allocates all blocks of a new file, so that a page can be swapped out even when the file system is full.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    // Some file systems allocate all their free blocks before they report that there were too few.
    if bytes > sys::free_bytes(file)? {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    match sys::allocate(file, bytes) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let zeroes = vec![0; 1 << 20];
            let mut at = file.metadata()?.len();
            while at < bytes {
                let part = zeroes.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
                file.write_all_at(&zeroes[..part], at)?;
                at += part as u64;
            }
            Ok(())
        }
        done => done,
    }
}

/// Returns a random number of 128 bits, which identifies one swap file.
fn new_identity() -> u128 {
    let random = || u128::from(RandomState::new().hash_one(std::process::id()));
    random() << 64 | random()
}

fn header(identity: u128) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    block[..16].copy_from_slice(&MAGIC);
    block[16..32].copy_from_slice(&identity.to_le_bytes());
    let check = check(&block[..32]);
    block[32..HEADER_BYTES].copy_from_slice(&check.to_le_bytes());
    block
}

/// Returns whether `block` is the first block of a swap file of this library: a header with a correct checksum.
fn is_header(block: &[u8]) -> bool {
    let identity = block.get(16..32).and_then(|bytes| bytes.try_into().ok()).map(u128::from_le_bytes);
    identity.is_some_and(|identity| block == header(identity))
}

/// Returns the FNV-1a hash of `bytes`, 64 bits.
fn check(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns words that describe the contents of a file's first block, for an error.
fn describe(block: &[u8]) -> String {
    const LINUX: &[u8] = b"SWAPSPACE2";
    if block.get(PAGE_BYTES - LINUX.len()..PAGE_BYTES) == Some(LINUX) {
        return "a swap area of Linux".to_owned();
    }
    if block.starts_with(&MAGIC[..15]) {
        return "a Highwater swap file of another version, or a damaged one".to_owned();
    }
    if block.iter().all(|&byte| byte == 0) {
        return "zeroes".to_owned();
    }
    format!("a file that begins with \"{}\"", block[..block.len().min(16)].escape_ascii())
}

/// The reason why there is no swap file.
#[derive(Debug)]
#[non_exhaustive]
pub enum SwapFileError {
    /// A file with this path exists, and is not a swap file that the library made for this user: it is no regular file,
    /// its contents are other ones, its owner is another user, or it has a second name (a hard link). The file was left
    /// as it is.
    Foreign {
        /// Path of the swap file.
        path: PathBuf,
        /// Words for what was found in place of a swap file: the kind of file, the contents, the foreign owner, or the
        /// number of names.
        found: String,
    },
    /// Another process, or another part of this one, uses the file.
    InUse {
        /// Path of the swap file.
        path: PathBuf,
    },
    /// The file system has too little free space for the file, or does not allow a file of this size.
    Allocate {
        /// Path of the swap file.
        path: PathBuf,
        /// Requested size of the swap file, bytes.
        bytes: u64,
        /// The error that the operating system returned.
        source: io::Error,
    },
    /// The size is less than one page or more than 2^32 - 2 pages.
    Size {
        /// Path of the swap file.
        path: PathBuf,
        /// Requested size of the swap file, bytes.
        bytes: u64,
    },
    /// The system returned an error for another operation on the file, such as opening it.
    Io {
        /// Path of the swap file.
        path: PathBuf,
        /// The action that failed: a verb.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl fmt::Display for SwapFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { path, found } => {
                write!(f, "{}: not a swap file but {found}; it was not touched", path.display())
            }
            Self::InUse { path } => write!(f, "{}: the swap file is in use", path.display()),
            Self::Allocate { path, bytes, source } => {
                write!(f, "{}: cannot allocate {bytes} bytes of swap: {source}", path.display())
            }
            Self::Size { path, bytes } => {
                let why = if *bytes < PAGE_BYTES as u64 { "less than one page" } else { "more than 2^32 - 2 pages" };
                write!(f, "{}: {bytes} bytes of swap are {why}", path.display())
            }
            Self::Io { path, doing, source } => write!(f, "{}: cannot {doing} the swap file: {source}", path.display()),
        }
    }
}

impl std::error::Error for SwapFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Allocate { source, .. } | Self::Io { source, .. } => Some(source),
            Self::Foreign { .. } | Self::InUse { .. } | Self::Size { .. } => None,
        }
    }
}
