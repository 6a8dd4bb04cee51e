//! [`Memory`], the type with which an application opens files, makes anonymous regions and reads counters.

use crate::contiguous::Contiguous;
use crate::error::Error;
use crate::file::{File, OpenOptions};
use crate::group::Group;
use crate::log::Log;
use crate::machine::Notice;
use crate::region::Region;
use crate::shared::{Parts, Shared};
use crate::size::check_size;
use engine::memory::MAX_ORDERS;
use machine::pressure::Pressure;
use machine::{Order, PAGE_BYTES};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A page cache and swap-backed anonymous memory, which share a fixed amount of memory. Reclaim works as in Linux.
///
/// Handles ([`File`], [`Region`], [`Log`]) keep the memory alive. The memory and its handles may be used from any thread.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// use highwater::Memory;
///
/// let memory = Memory::builder().size(16 << 20).swap(32 << 20).start()?;
/// let file = memory.create("table.dat")?;
/// file.write_all_at(b"twenty-four bytes of it!", 4096)?;
/// file.sync_data()?;
/// let mut found = [0; 6];
/// file.read_exact_at(&mut found, 4096)?;
/// assert_eq!(&found, b"twenty");
/// memory.shutdown()?;
/// # Ok(())
/// # }
/// ```
pub struct Memory {
    pub(crate) shared: Arc<Shared>,
}

/// The errors that [`Memory::shutdown`] met; the list is never empty.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// match memory.shutdown() {
///     Ok(()) => {}
///     Err(highwater::ShutdownError(errors)) => errors.iter().for_each(|error| eprintln!("{error}")),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShutdownError(pub Vec<Error>);

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join("; "))
    }
}

impl std::error::Error for ShutdownError {}

/// Counters and gauges under the names of `/proc/vmstat`. They are displayed in the format of that file.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let memory = highwater::Memory::builder().size(16 << 20).start()?;
/// let vmstat = memory.vmstat();
/// assert_eq!(vmstat.get("pgfault"), 0);
/// assert!(vmstat.to_string().lines().any(|line| line.starts_with("nr_free_pages ")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vmstat(pub BTreeMap<String, u64>);

impl Vmstat {
    /// Returns the counter or gauge called `name`; 0 for an unknown name.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert!(memory.vmstat().get("nr_free_pages") > 3000);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

impl fmt::Display for Vmstat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    }
}

impl Memory {
    /// Makes a memory of `parts` and starts the engine's tasks.
    pub(crate) fn of(parts: Parts) -> Result<Self, Error> {
        Ok(Self { shared: Arc::new(Shared::start(parts)?) })
    }

    /// Opens an existing file for reading and writing.
    ///
    /// If the memory has the file open already, the new handle shares its pages. While the file is open, other programs
    /// should not write to it: their writes are not seen, or are overwritten. Reading does not change the time of last
    /// access of a file that this user owns.
    ///
    /// # Errors
    /// When the system does not open the file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "in the file")?;
    /// let file = memory.open(&path)?;
    /// assert_eq!(file.len(), 11);
    /// assert!(memory.open(path.with_extension("gone")).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        OpenOptions::new().write(true).open(self, path)
    }

    /// Creates a file, or empties the existing one, and opens it for reading and writing.
    ///
    /// # Errors
    /// When the system does not create the file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, "before")?;
    /// assert!(memory.create(&path)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        OpenOptions::new().write(true).create(true).truncate(true).open(self, path)
    }

    /// Makes a handle of a file that is open in the system already, for example a file without a name. The handle is for
    /// writing if `file` was opened for reading and writing. [`OpenOptions::adopt`] does this with options.
    ///
    /// # Errors
    /// As [`OpenOptions::adopt`].
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let unnamed = memory.adopt(tempfile::tempfile()?)?;
    /// unnamed.write_all_at(b"seen by nobody else", 0)?;
    /// assert_eq!(unnamed.len(), 19);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adopt(&self, file: std::fs::File) -> Result<File, Error> {
        OpenOptions::new().adopt(self, file)
    }

    /// Returns a region of anonymous memory of `bytes` bytes, all zeroes. The region may be larger than this memory and
    /// its swap together, as long as the written pages of the region fit into them.
    ///
    /// # Errors
    /// When the region would have more than 2^32 - 1024 pages.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous(1 << 30)?;
    /// heap.write_at(b"far out", 1 << 29)?;
    /// let mut found = [0; 7];
    /// heap.read_at(&mut found, 1 << 29)?;
    /// assert_eq!(&found, b"far out");
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn anonymous(&self, bytes: u64) -> Result<Region, Error> {
        Region::new(&self.shared, None, bytes, false)
    }

    /// Returns a region of anonymous memory of `bytes` bytes in huge pages (`MADV_HUGEPAGE`). The first write to each 2
    /// MiB takes a contiguous block of 512 pages, if one can be freed at once. The other 511 pages of the block then
    /// need no fault, and the block shares one entry in the processor's page table. Reclaim still treats and swaps each
    /// of the pages separately.
    ///
    /// # Errors
    /// When the region would have more than 2^32 - 1024 pages.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let heap = memory.anonymous_huge(8 << 20)?;
    /// heap.write_at(b"the first of 512 pages", 0)?;
    /// assert_eq!((memory.vmstat().get("pgfault"), memory.vmstat().get("thp_fault_alloc")), (1, 1));
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn anonymous_huge(&self, bytes: u64) -> Result<Region, Error> {
        Region::new(&self.shared, None, bytes, true)
    }

    /// Returns the memory control group called `name`, and creates it if there is none. A new group has no limits and
    /// no protection. Files join a group when they are opened ([`OpenOptions::group`]), and regions when they are made
    /// ([`Group::anonymous`]).
    ///
    /// # Errors
    /// [`Error::Group`] when the name is empty or contains a `/`, when a group of this name is being removed, or when
    /// there are as many groups as [`Builder::groups`](crate::Builder::groups) has room for. [`Error::ShutDown`] after
    /// a shutdown.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).groups(8).start()?;
    /// let cache = memory.group("cache")?;
    /// cache.set_max(8 << 20)?;
    /// cache.set_min(1 << 20)?;
    /// assert_eq!(memory.group("cache")?.usage(), 0);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn group(&self, name: &str) -> Result<Group, Error> {
        Group::get_or_create(&self.shared, None, name)
    }

    /// Makes a log, for which pages of the files wait whose log it becomes by [`File::set_log`]. It is not durable up to any
    /// record yet.
    #[must_use]
    pub fn log(&self) -> Log {
        Log::new(&self.shared)
    }

    /// Returns the present values of all counters and gauges.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(&[1; 8192], 0)?;
    /// assert_eq!(memory.vmstat().get("nr_dirtied"), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn vmstat(&self) -> Vmstat {
        Vmstat(self.shared.engine.vmstat())
    }

    /// Returns the pressure on this memory: for how long threads that called the library were stalled, because they
    /// freed memory themselves, waited for others to do so, or waited for a page that was evicted while it was in use.
    /// The result is displayed in the format of `/proc/pressure/memory`.
    ///
    /// `some` counts the time in which at least one thread is stalled, and is 0 as long as kswapd keeps up. `full`
    /// counts the part of this time in which no other thread is known to work in a call. Threads outside of calls are
    /// not seen, nor are calls that began before the stall. So `full` is at least the time in which really no thread
    /// works.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert_eq!(memory.pressure().some.total_us, 0);
    /// println!("{}", memory.pressure());
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        self.shared.engine.machine().pressure()
    }

    /// Returns the size of the memory, bytes. While [`Memory::resize`] shrinks the memory, this is the size reached so
    /// far.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert_eq!(memory.size(), 16 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared.engine.memory().managed_pages() * PAGE_BYTES as u64
    }

    /// Sets the size of the memory to `bytes` while it is in use, at most to
    /// [`Builder::size_max`](crate::Builder::size_max). Memory that is given up returns to the system. While the memory
    /// shrinks, other threads may have to wait for reclaim.
    ///
    /// # Errors
    /// When `bytes` is too small or too large, when too little memory can be freed, or when page tables of regions and
    /// contiguous blocks would take more than half of the memory. The size is then as before.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).size_max(32 << 20).start()?;
    /// memory.resize(32 << 20)?;
    /// memory.resize(8 << 20)?;
    /// assert_eq!(memory.size(), 8 << 20);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn resize(&self, bytes: u64) -> Result<(), Error> {
        let shared = &self.shared;
        shared.check_is_up()?;
        let engine = &shared.engine;
        let pages = bytes / PAGE_BYTES as u64;
        check_size("resize", bytes, engine.memory().zones[0].spanned)?;
        // The lock is held to the end, so that two calls run one after the other.
        let mut balloon = shared.balloon.lock();
        match pages.checked_sub(engine.memory().managed_pages()) {
            Some(more) => shared.grow(&mut balloon, more).map_err(Error::System),
            None => shared.shrink(&mut balloon, pages),
        }
    }

    /// Returns a notice for each feature that the system did not grant, such as huge pages, io_uring, or requests that
    /// bypass the system's page cache.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// memory.notices().iter().for_each(|notice| eprintln!("note: {notice}"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.shared.engine.machine().notices()
    }

    /// Returns a zeroed block of `4096 << order` bytes of contiguous memory. To free the block, pages of files and
    /// regions are moved, written and dropped. Pages that a guard ([`PageRead`](crate::PageRead),
    /// [`PageWrite`](crate::PageWrite)) holds, and pages of other contiguous blocks, are not moved.
    ///
    /// # Errors
    /// When no block of this size can be freed, or the order is over 10. Also when contiguous blocks and the page tables
    /// of regions would together take more than half of the memory, because this memory cannot be reclaimed.
    ///
    /// ```
    /// use highwater::Order;
    ///
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let blocks: Vec<_> = (0..4).map(|_| memory.contiguous(Order(9))).collect::<Result<_, _>>()?;
    /// assert!(blocks.iter().all(|block| block.len() == 2 << 20 && block.iter().all(|byte| *byte == 0)));
    /// assert!(memory.contiguous(Order(11)).is_err());
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn contiguous(&self, order: Order) -> Result<Contiguous, Error> {
        Contiguous::new(&self.shared, order)
    }

    /// Moves pages together, so that free memory lies in large blocks. Linux: `/proc/sys/vm/compact_memory`.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// memory.compact();
    /// println!("{:?}", memory.buddyinfo());
    /// # Ok::<(), highwater::Error>(())
    /// ```
    pub fn compact(&self) {
        self.shared.engine.compact().compact_memory();
    }

    /// Returns the number of free blocks of each order: `[0]` counts blocks of one page, `[9]` blocks of 512 pages.
    /// Linux: `/proc/buddyinfo`.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert!(memory.buddyinfo().iter().sum::<u64>() > 0);
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn buddyinfo(&self) -> [u64; MAX_ORDERS] {
        let memory = self.shared.engine.memory();
        memory.free_blocks(&memory.zones[0])
    }

    /// Returns the generations of pages with their ages and sizes, in the form of `lru_gen` in debugfs. The text is
    /// empty with a kernel that has no generations.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).kernel("7.2-mglru").start()?;
    /// assert!(memory.lru_gen().contains("node"));
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn lru_gen(&self) -> String {
        self.shared.engine.lru().lru_gen()
    }

    /// Returns the text of [`Memory::lru_gen`] and, for each tier, how many pages refaulted, how many were evicted, and
    /// how many were protected from eviction. The form is that of `lru_gen_full` in debugfs.
    ///
    /// ```
    /// let memory = highwater::Memory::builder().size(16 << 20).kernel("7.2-mglru").start()?;
    /// println!("{}", memory.lru_gen_full());
    /// # Ok::<(), highwater::Error>(())
    /// ```
    #[must_use]
    pub fn lru_gen_full(&self) -> String {
        self.shared.engine.lru().lru_gen_full()
    }

    /// Carries out commands in the form that `lru_gen` in debugfs takes, and returns how many pages they freed. Commas,
    /// semicolons and line ends separate commands.
    ///
    /// `+ memcg node max_gen [can_swap [force_scan]]` checks which pages were used and begins a new generation;
    /// `max_gen` must be the youngest generation. `- memcg node min_gen [swappiness [nr_to_reclaim]]` frees pages of
    /// generations up to `min_gen`, at most up to the third youngest. `memcg` and `node` must be 0. `swappiness` is 0
    /// (files alone) to 200, or `max` (anonymous memory alone); its default is that of the kernel.
    ///
    /// # Errors
    /// [`Error::LruGen`] when a part of the text is no command; no command is then carried out. [`Error::LruGen`] also
    /// when a command is refused: the kernel has no generations, `memcg` or `node` is not 0, or the command does not
    /// allow the generation. The commands before the refused one were then carried out. [`Error::ShutDown`] after a
    /// shutdown.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).kernel("7.2-mglru").start()?;
    /// std::fs::write(&path, [1; 1 << 20])?;
    /// let file = memory.open(&path)?;
    /// file.read_exact_at(&mut [0; 1 << 20], 0)?;
    /// // At first there are four generations, 0 to 3. After two more, the pages that were read before are old.
    /// assert_eq!(memory.lru_gen_command("+ 0 0 3; + 0 0 4")?, 0);
    /// assert_eq!(memory.lru_gen_command("- 0 0 3 60 100")?, 100);
    /// assert!(memory.lru_gen_command("+ 0 0 3").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lru_gen_command(&self, commands: &str) -> Result<u64, Error> {
        self.shared.check_is_up()?;
        self.shared
            .with_task(None, |engine, task| engine.reclaim().lru_gen_command(task, commands))
            .map_err(Error::LruGen)
    }

    /// Drops the clean pages of all files and returns how many it dropped.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// std::fs::write(&path, [1; 8192])?;
    /// let file = memory.open(&path)?;
    /// file.read_exact_at(&mut [0; 8192], 0)?;
    /// assert_eq!(memory.drop_caches(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drop_caches(&self) -> u64 {
        self.shared.engine.access().drop_caches()
    }

    /// Checks that every frame is in exactly one place and that all counters add up. For tests: no other thread may use
    /// the memory meanwhile. The memory's own threads end before the check and start again after it.
    ///
    /// # Errors
    /// The first inconsistency found.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// assert_eq!(memory.check(), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<(), String> {
        let found = self.shared.quiesced(|engine| engine.check().map_err(|broken| broken.to_string()));
        found.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Writes the dirty pages of all files, ends the memory's threads, and reports every error. The data are then with
    /// the system, as after a `write`, but not durable: for durable data, call [`File::sync_data`] before. Remaining
    /// [`File`] handles can still read pages that are in memory; every other use of files and regions returns
    /// [`Error::ShutDown`].
    ///
    /// # Errors
    /// Every file that could not be written, and every failure that could not be reported to a caller.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// let memory = highwater::Memory::builder().size(16 << 20).start()?;
    /// let file = memory.create(&path)?;
    /// file.write_all_at(b"written back", 0)?;
    /// memory.shutdown()?;
    /// assert_eq!(std::fs::read(&path)?, b"written back");
    /// assert!(matches!(file.sync_data(), Err(highwater::Error::ShutDown)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(self) -> Result<(), ShutdownError> {
        let errors = self.shared.shut_down();
        if errors.is_empty() { Ok(()) } else { Err(ShutdownError(errors)) }
    }
}

impl OpenOptions {
    /// Opens a file with these options. Reading does not change the file's time of last access if this user owns it.
    ///
    /// # Errors
    /// When the system does not open the file, or another process has locked it. When the file is neither a regular
    /// file nor a block device, is a swap file of this process, or is larger than 16 TiB less 4 MiB. When the options
    /// ask for writing, and this memory already has the file open for reading only. When another [`Memory`] of this
    /// process has the file open, and one of the two may write it. When the options ask to empty the file, but not to
    /// write it, and the file is not empty. [`Error::Group`] when the group of the options was removed or belongs to
    /// another memory, or when this memory already has the file open, but not in that group.
    pub fn open(self, memory: &Memory, path: impl AsRef<Path>) -> Result<File, Error> {
        self.open_in(&memory.shared, path.as_ref())
    }

    /// Makes a handle of a file that is open in the system already. The handle is for writing if the file was opened for
    /// reading and writing. Of these options, only [`OpenOptions::lock`], [`OpenOptions::group`] and
    /// [`OpenOptions::truncate`] have an effect. The library sets the flags O_DIRECT and O_NOATIME, which then also apply
    /// to descriptors that were duplicated from `file`.
    ///
    /// # Errors
    /// When the file was opened for writing only, with O_APPEND or with O_PATH; also in the cases in which
    /// [`OpenOptions::open`] refuses an open file.
    pub fn adopt(self, memory: &Memory, file: std::fs::File) -> Result<File, Error> {
        self.adopt_in(&memory.shared, file)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("frames", &self.shared.engine.memory().frames.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread dirties pages in several memories in turn. The number of pages that it has dirtied must be kept
    /// separately for each memory: the number is not added to that of another memory. The number is lost after eight
    /// other memories were used.
    #[test]
    fn a_thread_has_a_task_of_its_own_in_each_memory() {
        // Without io_uring, because Valgrind does not know that the system calls of io_uring may sleep.
        let start = || Memory::builder().size(8 << 20).io_uring(false).start().unwrap();
        let memories = [(); 3].map(|()| start());
        let dirtied = |memory: &Memory, pages| {
            memory.shared.with_task(None, |_, task| {
                task.pages_dirtied += pages;
                task.pages_dirtied
            })
        };
        for round in 1..=3 {
            for (memory, pages) in memories.iter().zip([1, 10, 100]) {
                assert_eq!(dirtied(memory, pages), round * pages);
            }
        }
        (0..8).for_each(|_| assert_eq!(dirtied(&start(), 1), 1));
        assert_eq!(dirtied(&memories[0], 1), 1, "eight others were used since");
    }
}
