//! [`Builder`]: the settings of a [`Memory`]. The builder checks the settings, and makes the machine and the engine.

use crate::error::Error;
use crate::kernel;
use crate::machine::disk::backend::Backend;
use crate::machine::{Checks, Config, Host, InUse, Io, Notice, SwapFile, collapse_to_huge_pages, use_huge_pages};
use crate::memory::Memory;
use crate::receiver::receivers;
use crate::shared::{FILES_LAYOUT, FIRST_DEVICE, Parts};
use crate::size::check_size;
use crate::wrap::Wrap;
use engine::kernel::{Choices, Kernel};
use engine::memory::FRAMES_MAX;
use engine::slab::choices::SlabOrder;
use engine::swap::SwapLayout;
use engine::{Engine, Layout};
use machine::PAGE_BYTES;
use std::path::PathBuf;
use std::sync::Arc;

/// The *kernel* (set of reclaim policies) that a [`Memory`] is to use: the default one, a built-in one by its name, or
/// one that the caller passes.
#[derive(Clone, Debug)]
enum WantedKernel {
    Default,
    Named(String),
    Given(Box<Kernel>),
}

/// The place of the swap file.
#[derive(Clone, Debug)]
enum SwapPlace {
    /// A file without a name in this folder; `None` stands for the folder of temporary files that outlive a restart
    /// (`TMPDIR`, or else `/var/tmp`).
    Folder(Option<PathBuf>),
    File(PathBuf),
}

/// The settings of a [`Memory`]; [`Builder::start`] makes the memory.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder()
///     .size(16 << 20)
///     .size_max(32 << 20)
///     .swap(64 << 20)
///     .swap_file(&path)
///     .kernel("highwater")
///     .shards(2)
///     .io_threads(2)
///     .io_uring(false)
///     .checksums(true)
///     .start()?;
/// memory.resize(32 << 20)?;
/// assert_eq!(std::fs::metadata(&path)?.len(), (64 << 20) + 4096);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    bytes: u64,
    bytes_max: Option<u64>,
    swap_bytes: Option<u64>,
    swap_place: SwapPlace,
    encrypts_swap: bool,
    kernel: WantedKernel,
    shards: Option<usize>,
    io_threads: Option<usize>,
    uses_io_uring: bool,
    checksums: bool,
    dirty_bytes: Option<u64>,
    locks_memory: bool,
    huge_pages: bool,
    hazard_pointers: bool,
    groups: u16,
    wrap: Wrap,
}

impl SwapPlace {
    /// Returns the name of the builder's method that sets this place of the swap file. Error messages name this method.
    const fn setting(&self) -> &'static str {
        match self {
            Self::Folder(_) => "swap_folder",
            Self::File(_) => "swap_file",
        }
    }

    /// Returns the path of the folder in which the swap file is made or, if the user named the file, the path of the
    /// file. The default folder is that of the variable `TMPDIR`, or `/var/tmp`.
    fn path(&self) -> PathBuf {
        match self {
            Self::Folder(Some(path)) | Self::File(path) => path.clone(),
            Self::Folder(None) => {
                let named = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
                named.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
            }
        }
    }
}

impl Memory {
    /// Returns a builder with the default settings of a memory.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert_eq!(memory.size(), 16 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            bytes_max: None,
            swap_bytes: None,
            swap_place: SwapPlace::Folder(None),
            encrypts_swap: false,
            kernel: WantedKernel::Default,
            shards: None,
            io_threads: None,
            uses_io_uring: true,
            checksums: false,
            dirty_bytes: None,
            locks_memory: false,
            huge_pages: true,
            hazard_pointers: true,
            groups: 0,
            wrap: Wrap::default(),
        }
    }
}

impl Builder {
    /// Sets the size of the memory, bytes, rounded down to whole pages. Default: 256 MiB. At least 4 MiB.
    #[must_use]
    pub const fn size(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the largest size, bytes, to which [`Memory::resize`] can grow the memory. The default, and the smallest
    /// value, is the size at the start. Each page has a descriptor of 32 bytes. Address space for all descriptors,
    /// about a hundredth of the largest size, is taken at the start; the system refuses it if it exceeds the computer's
    /// memory. The descriptor of a page takes memory once the memory has grown to include the page.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert!(memory.resize(32 << 20).is_err(), "its largest size is that at the start");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn size_max(mut self, bytes: u64) -> Self {
        self.bytes_max = Some(bytes);
        self
    }

    /// Sets the size of swap for anonymous memory, bytes. Default: no swap.
    ///
    /// The swap file has no name, no other process can open it, and the system frees it when the memory is dropped or
    /// the process ends in any way. All its blocks are allocated at the start. The file lies in the folder that the
    /// environment variable `TMPDIR` names, or else in `/var/tmp`; [`Builder::swap_folder`] chooses another folder.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(4 << 20).swap(16 << 20).start()?;
    /// let heap = memory.anonymous(12 << 20)?;
    /// (0..12 << 20).step_by(4096).try_for_each(|at| heap.write_at(b"three times the memory", at).map(drop))?;
    /// assert!(memory.vmstat().get("pswpout") > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn swap(mut self, bytes: u64) -> Self {
        self.swap_bytes = Some(bytes);
        self
    }

    /// Sets the folder in which the swap file is made. The file has no name in the folder. If the folder is on tmpfs,
    /// the file lies in memory, so swapping frees no memory; a [`crate::Notice`] then says so.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let memory = highwater::Memory::builder().size(4 << 20).swap(16 << 20).swap_folder(folder.path()).start()?;
    /// assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn swap_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.swap_place = SwapPlace::Folder(Some(folder.into()));
        self
    }

    /// Gives the swap file a name, `path`. The file is created with mode 0600. After the process has ended, the file
    /// remains, with the swapped pages in it. The next memory with the same path replaces it.
    ///
    /// An existing file is replaced only if it is empty or a swap file of Highwater, belongs to this user, has no other
    /// name, and is not in use. Any other file is refused.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(4 << 20).swap(16 << 20).swap_file(&path).start()?;
    /// assert_eq!(std::fs::metadata(&path)?.len(), (16 << 20) + 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn swap_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.swap_place = SwapPlace::File(path.into());
        self
    }

    /// Sets whether swap is encrypted with a random key, which only this memory has and which is lost when the memory
    /// ends. Default: no.
    ///
    /// The cipher is AES-256-GCM-SIV, applied page by page; no two writes look alike. If a page was changed on the
    /// disk, or the disk returns the page of an earlier write, reading it fails, as with checksums. For each page read
    /// or written, encryption takes about 2 us on a processor with instructions for AES, and many times as long on
    /// other processors. It also takes 24 bytes of memory for each page of swap that was ever used.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(4 << 20).swap(16 << 20).encrypt_swap(true).start()?;
    /// let heap = memory.anonymous(12 << 20)?;
    /// (0..12 << 20).step_by(4096).try_for_each(|at| heap.write_at(b"a password", at).map(drop))?;
    /// assert!(memory.vmstat().get("pswpout") > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn encrypt_swap(mut self, is_encrypted: bool) -> Self {
        self.encrypts_swap = is_encrypted;
        self
    }

    /// Sets the *kernel*, the set of reclaim policies that the memory uses. `name_or_path` is the name of a kernel that
    /// comes with the library, or the path of a kernel file. A path contains a `/` or ends in `.toml`. Default:
    /// `highwater`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let path = path.with_extension("toml");
    /// std::fs::write(&path, "base = \"highwater\"\n[access]\nread_ahead_kb = 512\n")?;
    /// let path = path.to_str().expect("UTF-8");
    /// let memory = highwater::Memory::builder().size(16 << 20).kernel(path).start()?;
    /// assert!(highwater::Memory::builder().kernel("nonesuch").start().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn kernel(mut self, name_or_path: impl Into<String>) -> Self {
        self.kernel = WantedKernel::Named(name_or_path.into());
        self
    }

    /// Sets the *kernel*, the set of reclaim policies that the memory uses, to a value that the caller has read from a
    /// file. If the caller has changed this value, the changes are not checked.
    #[doc(hidden)]
    #[must_use]
    pub fn kernel_choices(mut self, kernel: Kernel) -> Self {
        self.kernel = WantedKernel::Given(Box::new(kernel));
        self
    }

    /// Sets the number of shards, 1 to 1024. The lists that Linux has once for each CPU, the memory has once for each
    /// shard. Default: the number of CPUs that the process may use, but at least 2.
    #[must_use]
    pub const fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets the number of threads that read and write if io_uring cannot be used, 1 to 1024. Default: 4.
    #[must_use]
    pub const fn io_threads(mut self, threads: usize) -> Self {
        self.io_threads = Some(threads);
        self
    }

    /// Sets whether io_uring may be used, if the system permits it. Default: yes.
    #[must_use]
    pub const fn io_uring(mut self, is_used: bool) -> Self {
        self.uses_io_uring = is_used;
        self
    }

    /// Sets whether pages of files carry checksums. Default: no. Pages in swap always carry checksums.
    ///
    /// Checksums are kept in memory, 8 bytes a page, from the opening of a file until its last handle is dropped. When
    /// a page is read from the disk, its contents must equal those that were last read from or written to this place;
    /// otherwise the read fails. Checksums thus detect a device that loses or misplaces writes, and another program
    /// that changes the file. They cost about 300 ns for each page of a request.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("ledger");
    /// let memory = highwater::Memory::builder().size(16 << 20).checksums(true).start()?;
    /// let ledger = memory.create(&path)?;
    /// ledger.write_all_at(&[1; 4096], 0)?;
    /// ledger.sync_data()?;
    /// memory.drop_caches();
    /// std::fs::write(&path, [2; 4096])?;
    /// assert!(ledger.read_at(&mut [0; 10], 0).unwrap_err().to_string().ends_with("not what was last read or written there"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn checksums(mut self, are_kept: bool) -> Self {
        self.checksums = are_kept;
        self
    }

    /// Sets whether the memory is locked (`mlock`), so that the system never swaps it out to its own swap. Default: no.
    ///
    /// Memory is still taken from the system only when it is first used. The caller's own buffers are not locked. The
    /// whole size counts as locked. A process may lock as much as `ulimit -l` says; to lock more, it needs the
    /// capability `CAP_IPC_LOCK`.
    ///
    /// ```
    /// match highwater::Memory::builder().size(4 << 20).lock_memory(true).start() {
    ///     Ok(memory) => memory.shutdown()?,
    ///     Err(error) => println!("{error}"), // how much was to be locked, and what the system says
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn lock_memory(mut self, is_locked: bool) -> Self {
        self.locks_memory = is_locked;
        self
    }

    /// Sets whether the system is asked to back the memory by huge pages (`MADV_HUGEPAGE`), which it may refuse.
    /// Default: yes.
    ///
    /// With huge pages, a random hit seldom waits for the processor's page-table walk. A huge page takes 2 MiB of
    /// memory at the first touch of any part of it.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).huge_pages(false).start()?;
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub const fn huge_pages(mut self, are_used: bool) -> Self {
        self.huge_pages = are_used;
        self
    }

    /// Sets whether a hit of a clean page pins the page by a hazard pointer instead of a reference. A hit with a hazard
    /// pointer is not recorded as a use of the page. Benches turn hazard pointers off to measure their gain. Default:
    /// yes.
    #[doc(hidden)]
    #[must_use]
    pub const fn hazard_pointers(mut self, are_used: bool) -> Self {
        self.hazard_pointers = are_used;
        self
    }

    /// Sets the largest number of memory control groups ([`Memory::group`]) that can exist at a time. Default: none.
    /// Groups take 2 bytes for each page of the memory's largest size, and each group takes some hundred bytes to a few
    /// KiB more.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(1).start()?;
    /// let cache = memory.group("cache")?;
    /// cache.set_max(4 << 20)?;
    /// assert!(memory.group("another").is_err());
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub const fn groups(mut self, count: u16) -> Self {
        self.groups = count;
        self
    }

    /// Sets the number of dirty bytes in files above which writers are throttled to the speed of the disk. The flusher,
    /// a thread that writes dirty pages to the disk, starts at half of this limit. By default, the limit is a fifth of
    /// the memory that is free or could be freed, and the flusher starts at a tenth of that memory.
    ///
    /// A program that changes the same pages repeatedly is not throttled as long as the limit exceeds the size of these
    /// pages. A higher limit has a price: a crash loses more unsynced data, a sync has more to write, and reclaim finds
    /// fewer clean pages. The limit may be at most three quarters of the memory's size at the start.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(64 << 20).dirty_limit(32 << 20).start()?;
    /// let too_much = highwater::Memory::builder().size(64 << 20).dirty_limit(64 << 20).start();
    /// assert!(too_much.unwrap_err().to_string().starts_with("dirty_limit: "));
    /// # drop(memory);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub const fn dirty_limit(mut self, bytes: u64) -> Self {
        self.dirty_bytes = Some(bytes);
        self
    }

    /// Sets a function that puts a layer around the backend of each file, for tests. A backend is the part of the
    /// library that carries out disk requests.
    #[doc(hidden)]
    #[must_use]
    pub fn behind(mut self, wrap: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        self.wrap = Wrap::new(wrap);
        self
    }

    /// Makes the memory and starts its threads: kswapd, a flusher (which writes dirty pages to a device), and the
    /// threads for I/O. When a file on another device is opened, a flusher for that device is started.
    ///
    /// # Errors
    /// When a size is too small or too large, the number of shards or threads is 0 or over 1024, the kernel is unknown
    /// or its file has a mistake, the swap file cannot be used, or the system does not grant memory or threads.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let error = highwater::Memory::builder().size(1).start().unwrap_err();
    /// assert_eq!(error.to_string(), "size: 1 bytes of memory are too few: at least 4194304 are needed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(self) -> Result<Memory, Error> {
        let mut choices = self.choices()?;
        check_size("size", self.bytes, u64::from(FRAMES_MAX))?;
        if let Some(bytes) = self.dirty_bytes {
            check_dirty_limit(bytes, self.bytes)?;
            choices.writeback.dirty_bytes = bytes;
            choices.writeback.dirty_background_bytes = bytes / 2;
        }
        // The nodes of files' indexes are on the program's heap, so they take no pages of the memory, whatever the kernel.
        choices.slab.order = SlabOrder::SinglePages;
        let bytes_max = self.bytes_max.unwrap_or(self.bytes);
        check_size("size_max", bytes_max, u64::from(FRAMES_MAX))?;
        if bytes_max < self.bytes {
            let words = format!("size_max: {bytes_max} bytes are fewer than `size`, {}", self.bytes);
            return Err(Error::Builder(words));
        }
        let pages_max = bytes_max / PAGE_BYTES as u64;
        let pages = self.bytes / PAGE_BYTES as u64;
        let mut config = Config::new(pages as u32);
        config.frames_max = pages_max as u32;
        config.io = if self.uses_io_uring { Io::Auto } else { Io::Threads };
        config.shards = check_count("shards", self.shards.unwrap_or(config.shards))?;
        config.io_threads = check_count("io_threads", self.io_threads.unwrap_or(config.io_threads))?;
        config.checksums = self.checksums;
        config.lock_memory = self.locks_memory;
        config.huge_pages = self.huge_pages;
        config.hazard_pointers = self.hazard_pointers;
        // SAFETY: only the engine holds the host. Handles of files and regions touch the bytes of a frame only under
        // the page's latch.
        #[allow(unsafe_code)]
        let host = unsafe { Host::new(&config) }.map_err(Error::System)?;
        let (swap, swap_use) = self.make_swap(&host)?;
        let layout = Layout { groups: self.groups, ..Layout::growing(pages, pages_max) };
        let engine = Engine::new(host.clone(), &choices, &layout, &[FILES_LAYOUT], swap);
        let engine = Arc::new(engine.map_err(|error| Error::Builder(error.to_string()))?);
        if host.arena().has_huge_pages() {
            use_huge_pages(engine.memory().frames.addresses(0..pages as u32));
            // The descriptors of the first frames were touched already, so the system must collapse their memory into
            // huge pages.
            collapse_to_huge_pages(engine.memory().frames.addresses(0..engine.memory().zones[0].online() as u32));
        }
        let receivers = receivers(&engine, config.shards);
        host.attach(receivers.iter().map(Arc::downgrade));
        Memory::of(Parts { engine, receivers, swap: swap_use, wrap: self.wrap.clone() })
    }

    fn choices(&self) -> Result<Choices, Error> {
        match &self.kernel {
            WantedKernel::Default => Ok(kernel::highwater().choices),
            WantedKernel::Named(name) => kernel::find(name).map(|kernel| kernel.choices).map_err(Error::Builder),
            WantedKernel::Given(kernel) => Ok(kernel.choices.clone()),
        }
    }

    fn make_swap(&self, host: &Host) -> Result<(SwapLayout, Option<InUse>), Error> {
        let Some(bytes) = self.swap_bytes else {
            return match &self.swap_place {
                SwapPlace::Folder(None) => Ok((
                    SwapLayout {
                        device: FIRST_DEVICE,
                        first_block: 0,
                        slots: 0,
                        is_synchronous: false,
                        memory_percent: 0,
                    },
                    None,
                )),
                place => Err(Error::Builder(format!("{}: `swap` does not say how much", place.setting()))),
            };
        };
        let path = self.swap_place.path();
        let file = match &self.swap_place {
            SwapPlace::File(_) => SwapFile::open(&path, bytes),
            SwapPlace::Folder(_) => SwapFile::unnamed(&path, bytes),
        }
        .map_err(Error::Swap)?;
        // The engine counts one slot more than the file has pages: its slot 0 is block 0, which holds the file's header
        // and never a page.
        let slots = file.slots() + 1;
        let name = path.display().to_string();
        if file.is_in_memory() {
            host.note(Notice::SwapInMemory { name: name.clone() });
        }
        let bytes = file.bytes();
        let (file, in_use) = file.into_parts();
        let checks = if self.encrypts_swap { Checks::Encryption } else { Checks::Checksums };
        let device = self.wrap.add_swap(host, file, name, bytes, checks).map_err(Error::System)?;
        Ok((
            SwapLayout {
                device,
                first_block: SwapFile::FIRST_BLOCK - 1,
                slots,
                is_synchronous: false,
                memory_percent: 0,
            },
            in_use,
        ))
    }
}

/// Checks that a memory of `size` bytes may have a dirty limit of `bytes` bytes.
///
/// # Errors
/// When the limit is less than 16 pages or more than three quarters of `size`.
fn check_dirty_limit(bytes: u64, size: u64) -> Result<(), Error> {
    let (least, most) = (16 * PAGE_BYTES as u64, size / 4 * 3);
    if (least..=most).contains(&bytes) {
        return Ok(());
    }
    Err(Error::Builder(format!(
        "dirty_limit: {bytes} bytes cannot be: {least} to {most} can, of {size} bytes of memory"
    )))
}

/// Largest number of shards, and largest number of I/O threads, of a memory.
const COUNT_MAX: usize = 1024;

/// Checks that `count` is from 1 to [`COUNT_MAX`], and returns it. `setting` is the name of the builder's setting, for
/// the error.
///
/// # Errors
/// When `count` is 0 or over [`COUNT_MAX`].
fn check_count(setting: &str, count: usize) -> Result<usize, Error> {
    if (1..=COUNT_MAX).contains(&count) {
        return Ok(count);
    }
    Err(Error::Builder(format!("{setting}: {count} cannot be: 1 to {COUNT_MAX} can")))
}
