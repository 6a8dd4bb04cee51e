//! Options to open a file.

use super::{File, OpenFile};
use crate::error::Error;
use crate::group::{Group, GroupError, GroupKey};
use crate::machine::{Identity, check_has_bytes, open_at_once, status_flags};
use crate::shared::Shared;
use engine::ReadState;
use parking_lot::Mutex;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Options to open a file, in the manner of [`std::fs::OpenOptions`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("log");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let log = highwater::OpenOptions::new().write(true).create(true).open(&memory, &path)?;
/// assert_eq!(log.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    is_unlocked: bool,
    mode: Option<u32>,
    custom_flags: i32,
    group: Option<GroupKey>,
}

impl OpenOptions {
    /// Returns options for reading an existing file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "read")?;
    /// let file = highwater::OpenOptions::new().open(&memory, &path)?;
    /// assert!(file.write_at(b"not written", 0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the file may be written. Default: no.
    #[must_use]
    pub const fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Sets whether the file is created if it does not exist. Default: no.
    #[must_use]
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether the file must be a new one: opening an existing file fails. Default: no.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let new = highwater::OpenOptions::new().write(true).create_new(true);
    /// assert!(new.open(&memory, &path).is_ok() && new.open(&memory, &path).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Sets whether the file is emptied when it is opened. Default: no.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "before")?;
    /// let file = highwater::OpenOptions::new().write(true).truncate(true).open(&memory, &path)?;
    /// assert_eq!(std::fs::metadata(&path)?.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Sets whether the file is locked against other processes while it is open (`flock`). A file that is opened for
    /// reading only is locked in shared mode, otherwise exclusively. The lock keeps out only processes that use
    /// `flock`, too. Default: yes, if the file system has locks. All handles of a file share one lock: the first handle
    /// that asks for it takes it, and dropping the last handle releases it. A lock that the caller took on an adopted file
    /// stays, unless a handle has asked for the lock, too.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let options = highwater::OpenOptions::new().write(true).create(true);
    /// let file = options.lock(false).open(&memory, &path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn lock(mut self, is_locked: bool) -> Self {
        self.is_unlocked = !is_locked;
        self
    }

    /// Sets the permission bits of a file that is created; the process's umask takes some of them away. Default: 0o666.
    ///
    /// ```
    /// # use std::os::unix::fs::PermissionsExt;
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let options = highwater::OpenOptions::new().write(true).create(true).mode(0o600);
    /// let secret = options.open(&memory, folder.path().join("secret"))?;
    /// assert_eq!(secret.metadata()?.permissions().mode() & 0o777, 0o600);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets further flags of the system's `open`, such as `O_NOFOLLOW`. Default: none. Opening fails with flags that
    /// would change where the library writes: `O_APPEND`, `O_TRUNC` (see [`OpenOptions::truncate`]) and `O_PATH`.
    #[must_use]
    pub const fn custom_flags(mut self, flags: i32) -> Self {
        self.custom_flags = flags;
        self
    }

    /// Sets the memory control group to which the file's pages are charged, until the last handle of the file is
    /// dropped. By default, a file that is not open yet gets no group, and a file that is already open keeps its group.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// let logs = memory.group("logs")?;
    /// let log = highwater::OpenOptions::new().write(true).create(true).group(&logs).open(&memory, &path)?;
    /// log.write_all_at(&[1; 4096], 0)?;
    /// assert!(logs.usage() >= 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn group(mut self, group: &Group) -> Self {
        self.group = Some(group.key());
        self
    }

    /// Opens the file at `path`, as [`OpenOptions::open`] describes. The pages of the file are kept in the memory whose
    /// state is `shared`.
    pub(crate) fn open_in(self, shared: &Arc<Shared>, path: &Path) -> Result<File, Error> {
        shared.check_is_up()?;
        let failed = |source| Error::File { path: path.to_owned(), doing: "open the file", source };
        let refused = libc::O_APPEND | libc::O_TRUNC | libc::O_PATH;
        if self.custom_flags & refused != 0 {
            let reason = "the custom flags O_APPEND, O_TRUNC and O_PATH are not possible";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        // The kind is checked before opening, because opening some kinds of files has effects. It is checked again
        // later, because the path may by then name something else.
        if let Ok(metadata) = std::fs::metadata(path) {
            check_has_bytes(&metadata).map_err(failed)?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(self.write).create(self.create).create_new(self.create_new);
        if let Some(mode) = self.mode {
            options.mode(mode);
        }
        let file = open_at_once(&mut options, self.custom_flags, path).map_err(failed)?;
        self.join(shared, path, file)
    }

    /// Makes a handle of a file that the caller has opened in the system, as [`OpenOptions::adopt`] describes.
    pub(crate) fn adopt_in(mut self, shared: &Arc<Shared>, file: std::fs::File) -> Result<File, Error> {
        shared.check_is_up()?;
        let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let path = name.unwrap_or_else(|_| format!("file descriptor {}", file.as_raw_fd()).into());
        let failed = |source| Error::File { path: path.clone(), doing: "adopt the file", source };
        let flags = status_flags(&file).map_err(failed)?;
        let reason = match flags & libc::O_ACCMODE {
            _ if flags & libc::O_PATH != 0 => Some("it was opened with O_PATH"),
            libc::O_WRONLY => Some("it was opened for writing only, and the library has to read it, too"),
            _ if flags & libc::O_APPEND != 0 => {
                Some("it was opened with O_APPEND, so the system writes at its end only")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        self.write = flags & libc::O_ACCMODE == libc::O_RDWR;
        self.join(shared, &path, file)
    }

    /// Makes a handle of `file`. If the memory has the file open already, the handle shares its pages, and `file` is
    /// closed.
    fn join(self, shared: &Arc<Shared>, path: &Path, file: std::fs::File) -> Result<File, Error> {
        let failed = |source| Error::File { path: path.to_owned(), doing: "open the file", source };
        let no_group = |kind| Error::Group { name: format!("of {}", path.display()), kind };
        let group = self.group.map(|key| key.find(shared)).transpose().map_err(no_group)?;
        let metadata = file.metadata().map_err(failed)?;
        check_has_bytes(&metadata).map_err(failed)?;
        let open = shared.files.get_or_open(Identity::of(&metadata), || {
            OpenFile::new(shared, path, group.clone(), file, self.write, !self.is_unlocked).map_err(failed)
        })?;
        let joined = if self.write && !open.is_writable {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "it is open here already, for reading only"))
        } else if self.is_unlocked {
            Ok(())
        } else {
            open.lock()
        };
        if let Err(error) = joined {
            open.release_late(shared);
            return Err(failed(error));
        }
        if let Some(group) = group.filter(|group| !open.is_in(group)) {
            open.release_late(shared);
            return Err(group.refuse(GroupError::OtherGroup));
        }
        let seen_failures = AtomicU32::new(open.cached.failed_writes());
        let (state, is_random) = (Mutex::new(ReadState::default()), AtomicBool::new(false));
        let (cached, is_writable) = (open.cached.clone(), self.write);
        let engine = shared.engine.clone();
        let file = File {
            engine,
            shared: shared.clone(),
            cached,
            open: Some(open),
            is_writable,
            seen_failures,
            state,
            is_random,
        };
        if self.truncate && !file.is_empty() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}
