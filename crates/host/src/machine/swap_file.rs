//! The file that anonymous pages go to: made, sized, checked and locked.
//!
//! Its first block says what it is; slots follow. A file that says anything else is never touched, and a file that another
//! process has is not used twice. What is in the slots of a file that is found means nothing: its process is gone.

use super::in_use::{InUse, Use};
use super::sys;
use machine::{BLOCK_BYTES, PAGE_BYTES};
use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The first bytes of a swap file; the last of them is the version of its header.
const MAGIC: [u8; 16] = *b"highwater swap\x00\x01";
/// Bytes of the header: the magic, the identity, the check.
const HEADER_BYTES: usize = 40;

/// An open, locked swap file. It stays locked until its file is closed, and this process has no other use for it until its
/// [`InUse`] is dropped.
#[derive(Debug)]
pub struct SwapFile {
    file: File,
    path: PathBuf,
    slots: u32,
    identity: u128,
    in_use: InUse,
}

impl SwapFile {
    /// The block of slot 0.
    pub const FIRST_BLOCK: u64 = 1;

    /// Makes a swap file for `bytes` bytes of pages, rounded down to whole ones, or takes over one that was made here before
    /// and that nobody uses. All its blocks are allocated, and only its owner may read it.
    ///
    /// # Errors
    /// When the file has other contents, is in use (as swap, or as data of this process), finds no room, or cannot be opened, read or written; and when `bytes` is
    /// less than a page or more than 2^32 - 2 of them.
    pub fn open(path: impl AsRef<Path>, bytes: u64) -> Result<Self, SwapFileError> {
        let path = path.as_ref();
        let slots = u32::try_from(bytes / PAGE_BYTES as u64).ok().filter(|slots| (1..u32::MAX).contains(slots));
        let slots = slots.ok_or_else(|| SwapFileError::Size { path: path.to_owned(), bytes })?;
        let failed = |doing| move |source| SwapFileError::Io { path: path.to_owned(), doing, source };

        let foreign = |found: String| SwapFileError::Foreign { path: path.to_owned(), found };

        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let (file, is_made) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (options.open(path), false),
            created => (created, true),
        };
        let file = match file {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(foreign("a symbolic link".to_owned()));
            }
            file => file.map_err(failed("open"))?,
        };
        if !sys::try_lock_file(&file).map_err(failed("lock"))? {
            return Err(SwapFileError::InUse { path: path.to_owned() });
        }
        let status = file.metadata().map_err(failed("look at"))?;
        if !status.is_file() {
            return Err(foreign("no regular file".to_owned()));
        }
        // Before anything is written: it may be empty, and yet somebody's data.
        let in_use = InUse::as_swap(&status).map_err(|used| match used {
            Use::Swap => SwapFileError::InUse { path: path.to_owned() },
            Use::Data(_) => foreign("a file that this process has open".to_owned()),
        })?;
        let is_new = status.len() == 0;
        let identity = if is_new {
            let identity = new_identity();
            // Before the file gets its size: one that is found without a header is not from here.
            file.write_all_at(&header(identity), 0).map_err(failed("write"))?;
            identity
        } else {
            let mut block = vec![0; BLOCK_BYTES];
            let read = read_some_at(&file, &mut block).map_err(failed("read"))?;
            block.truncate(read);
            identity_in(&block).ok_or_else(|| foreign(describe(&block)))?
        };

        let sized = || {
            let file_bytes = (u64::from(slots) + Self::FIRST_BLOCK) * BLOCK_BYTES as u64;
            file.set_permissions(Permissions::from_mode(0o600))?;
            allocate(&file, file_bytes)?;
            file.set_len(file_bytes)?;
            file.sync_all()
        };
        if let Err(source) = sized() {
            // Nobody else has seen what is in it. An error changes nothing any more.
            if is_made {
                let _ = std::fs::remove_file(path);
            } else if is_new {
                let _ = file.set_len(0);
            }
            return Err(SwapFileError::Allocate { path: path.to_owned(), bytes, source });
        }
        Ok(Self { file, path: path.to_owned(), slots, identity, in_use })
    }

    /// Returns the number of pages that fit.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number that was drawn for the file when it was made.
    #[must_use]
    pub const fn identity(&self) -> u128 {
        self.identity
    }

    /// Returns the file, for [`super::Host::add_device`], which keeps the lock; and what keeps others of this process from
    /// taking it for something else, to be dropped after it.
    #[must_use]
    pub fn into_parts(self) -> (File, InUse) {
        (self.file, self.in_use)
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

/// Allocates all blocks of a file: a page that is swapped out must find its room.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    // Some file systems take all that they have before they say that it was not enough.
    let has = file.metadata()?.blocks() * 512;
    if bytes.saturating_sub(has) > sys::free_bytes(file)? {
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

/// A number that no other swap file has.
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

/// The identity in a swap file's first block; `None` when it is something else.
fn identity_in(block: &[u8]) -> Option<u128> {
    let identity = u128::from_le_bytes(block.get(16..32)?.try_into().ok()?);
    (block.len() == BLOCK_BYTES && block == header(identity)).then_some(identity)
}

/// FNV-1a, 64 bits.
fn check(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Says what a first block looks like.
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

/// Why there is no swap file.
#[derive(Debug)]
#[non_exhaustive]
pub enum SwapFileError {
    /// The file is there and has other contents. It was not touched.
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is in it.
        found: String,
    },
    /// Another process, or another part of this one, uses it.
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Its file system has no room for it, or the file may not be so large.
    Allocate {
        /// The file.
        path: PathBuf,
        /// Bytes asked for.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// No file of such a size can be used.
    Size {
        /// The file.
        path: PathBuf,
        /// Bytes asked for.
        bytes: u64,
    },
    /// It cannot be used for another reason.
    Io {
        /// The file.
        path: PathBuf,
        /// What failed: a verb.
        doing: &'static str,
        /// What the system said.
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
