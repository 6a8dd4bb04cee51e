//! System calls that the standard library lacks. The laboratory (the command `highwater`) has no other unsafe code but
//! [`crate::fork`] and its one use.

#![allow(unsafe_code)]

use figures::usage::{CpuTimes, Faults};
use machine::{Nanos, PAGE_BYTES};
use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

/// A memory mapping that one task uses: anonymous memory, or pages of a file. Children that are forked get no copy,
/// unless it is given to them ([`crate::fork::fork`]).
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    /// 0 if this value no longer has the mapping.
    bytes: Cell<usize>,
}

impl Mapping {
    /// Maps `pages` pages of zeroes as anonymous memory, without huge pages.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size.
    pub fn new(pages: u32) -> io::Result<Self> {
        let (start, bytes) = map_zeroes(pages, 0)?;
        // SAFETY: the range is the mapping just made. The advice fails only if the system has no huge pages, and is
        // then not needed.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self::unforked(start, bytes))
    }

    /// Maps `pages` pages of zeroes as anonymous memory, aligned to a huge page. The system's setting decides whether
    /// the mapping gets huge pages.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size.
    pub fn huge(pages: u32) -> io::Result<Self> {
        let (start, mapped) = map_zeroes(pages, HUGE_PAGE_BYTES)?;
        let bytes = mapped - HUGE_PAGE_BYTES;
        let before = start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: less than a huge page lies before the aligned address, and one huge page more than `bytes` was
        // mapped.
        let aligned = unsafe { start.add(before) };
        let after = HUGE_PAGE_BYTES - before;
        // SAFETY: both ranges lie in the mapping just made, outside of the part that is kept.
        unsafe {
            if before > 0 {
                libc::munmap(start.as_ptr().cast(), before);
            }
            libc::munmap(aligned.as_ptr().add(bytes).cast(), after);
        }
        Ok(Self::unforked(aligned, bytes))
    }

    /// Maps `pages` pages of a file, from page `first` on, for reads and writes.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size. Also when `mode` asks for an executable
    /// mapping, and the file lies in a file system that is mounted `noexec`.
    pub fn of_file(file: &File, first: u32, pages: u32, mode: FileMode) -> io::Result<Self> {
        let bytes = pages.max(1) as usize * PAGE_BYTES;
        let run = if mode.is_executable { libc::PROT_EXEC } else { 0 };
        let kind = if mode.is_private { libc::MAP_PRIVATE | libc::MAP_NORESERVE } else { libc::MAP_SHARED };
        let access = libc::PROT_READ | libc::PROT_WRITE | run;
        let offset = libc::off_t::try_from(u64::from(first) * PAGE_BYTES as u64).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice touches no memory of the program.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, file.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let advice = match mode.reads {
            Reads::Unknown => libc::MADV_NORMAL,
            Reads::Sequential => libc::MADV_SEQUENTIAL,
            Reads::Random => libc::MADV_RANDOM,
        };
        // SAFETY: the range is the mapping just made. The advice changes only readahead, so a refusal is ignored.
        unsafe { libc::madvise(start, bytes, advice) };
        let start = NonNull::new(start.cast()).expect("no mapping is at address 0");
        Ok(Self::unforked(start, bytes))
    }

    /// Makes the value for a mapping that was just made, and of which forked children get no copy.
    fn unforked(start: NonNull<u8>, bytes: usize) -> Self {
        let mapping = Self { start, bytes: Cell::new(bytes) };
        mapping.set_forked(false);
        mapping
    }

    /// Sets whether a child process that is forked gets a copy of the mapping. It gets none at first.
    pub(super) fn set_forked(&self, is_forked: bool) {
        let advice = if is_forked { libc::MADV_DOFORK } else { libc::MADV_DONTFORK };
        // SAFETY: the range is the mapping of this value. The advice changes nothing in this process.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes.get(), advice) };
    }

    /// Moves the mapping out of this value, which has no bytes from then on.
    pub(super) fn take(&self) -> Self {
        Self { start: self.start, bytes: Cell::new(self.bytes.replace(0)) }
    }

    fn check(&self, offset: usize, bytes: usize) {
        let all = self.bytes.get();
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= all);
        assert!(fits, "{bytes} bytes at {offset} of a region of {all}");
    }

    /// Copies `bytes` into the mapping. The first byte is stored at byte `offset` of the mapping.
    ///
    /// # Panics
    /// When the bytes lie outside of the mapping.
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: the range was just checked to lie in the mapping, which lives as long as `self`. `Mapping` is not
        // `Sync` and gives out no references, so no other code of this program accesses these bytes, and `bytes` lies
        // elsewhere. If the file is shared, another mapping may change the bytes at any time; they are only copied.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len()) };
    }

    /// Copies bytes out of the mapping into `bytes`, from byte `offset` of the mapping on.
    ///
    /// # Panics
    /// When the bytes lie outside of the mapping.
    pub fn load(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        // SAFETY: the range was just checked to lie in the mapping; `store` says why no other code accesses it.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Reads the byte at `offset` and, if `write` is set, writes the same value back, so that the page becomes dirty.
    ///
    /// # Panics
    /// When the byte lies outside of the mapping.
    pub fn touch(&self, offset: usize, write: bool) {
        self.check(offset, 1);
        // SAFETY: the byte was just checked to lie in the mapping; `store` says why no other code accesses it. The read
        // is volatile, so that it is made although its value is not used.
        let (byte, held) = unsafe {
            let byte = self.start.as_ptr().add(offset);
            (byte, byte.read_volatile())
        };
        if write {
            // SAFETY: the byte lies in the mapping, and a byte is always aligned. The write is atomic, because another
            // mapping of the file may write the byte after the read above.
            let byte = unsafe { AtomicU8::from_ptr(byte) };
            // If the exchange fails, another mapping has changed the byte meanwhile, so the page is dirty anyway.
            let _ = byte.compare_exchange(held, held, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Size and alignment of a huge page, bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Maps `pages` pages and `more` further bytes of zeroes as private anonymous memory. Returns the address and the size
/// in bytes of the mapping.
fn map_zeroes(pages: u32, more: usize) -> io::Result<(NonNull<u8>, usize)> {
    // The system makes no mapping of 0 bytes, so at least one page is mapped.
    let bytes = pages.max(1) as usize * PAGE_BYTES + more;
    let start = map_zeroes_with(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE)?;
    Ok((start, bytes))
}

/// Maps `bytes` bytes of zeroes, which belong to no file, with the flags `flags`. Returns the address.
pub(super) fn map_zeroes_with(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the system's choice touches no memory of the program.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(start.cast()).expect("no mapping is at address 0"))
}

/// The options for mapping a file.
#[derive(Clone, Copy, Debug)]
pub struct FileMode {
    /// `true` for a private mapping: written data stay in the mapping and never reach the file.
    pub is_private: bool,
    /// `true` if the mapping holds the text of a program, which may be executed.
    pub is_executable: bool,
    /// The pattern of reads that is expected.
    pub reads: Reads,
}

/// The pattern of reads that is expected in a mapping (`madvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// No pattern is expected; the system detects the pattern from the reads.
    Unknown,
    /// The pages are expected to be read from the beginning to the end.
    Sequential,
    /// The pages are read at random; nothing is read ahead.
    Random,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes.get() > 0 {
            // SAFETY: the range is the mapping that belongs to this value. It is unmapped only here, and no reference
            // to it was given out.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes.get()) };
        }
    }
}

/// A file mapped for reading, shared with the page cache.
///
/// An access to a page that cannot be read ends the process with SIGBUS. This happens when the disk fails or the file
/// was truncated meanwhile; runs do not truncate their files.
#[derive(Debug)]
pub struct FileMapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is memory that is only read and does not move. Any thread may drop it.
unsafe impl Send for FileMapping {}
// SAFETY: the mapping is memory that is only read and does not move.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps the first `bytes` bytes of a file, which must be at least that long. `is_random` turns readahead off.
    ///
    /// # Errors
    /// When the file is empty, or the system refuses the mapping.
    pub fn new(file: &File, bytes: u64, is_random: bool) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice touches no memory of the program.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if is_random {
            // SAFETY: the range is the mapping just made. The advice changes only readahead, so a refusal is ignored.
            unsafe { libc::madvise(start, bytes, libc::MADV_RANDOM) };
        }
        let start = NonNull::new(start.cast()).expect("no mapping is at address 0");
        Ok(Self { start, bytes })
    }

    /// Returns the number of pages of the mapping. The last page may lie in the file only in part.
    #[must_use]
    #[inline]
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE_BYTES) as u64
    }

    /// Returns the bytes of a page; bytes after the end of the file are zeroes. The caller ensures that no task writes
    /// the page while the bytes are borrowed (`workloads::system::System::read_in_place`).
    ///
    /// # Panics
    /// When there is no such page.
    #[must_use]
    #[inline]
    pub fn page(&self, page: u64) -> &[u8] {
        assert!(page < self.pages(), "page {page} of a mapping of {}", self.pages());
        // SAFETY: the page lies in the mapping, which is whole pages long and lives as long as `self`. The bytes do not
        // change while they are borrowed: only the tasks of one run use the file, and they neither truncate it nor
        // write a page that is being read in place.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(page as usize * PAGE_BYTES), PAGE_BYTES) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `new` made. It is unmapped only here, and no reference to it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: all zeroes is a value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer points to a structure of the right type, which the call fills.
    unsafe { libc::getrusage(who, &raw mut usage) };
    usage
}

/// Returns the CPU time of all threads of this process so far, and of its child processes that have ended and for which
/// this process has waited.
#[must_use]
pub fn cpu_times() -> CpuTimes {
    let nanos = |time: libc::timeval| Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000);
    let [own, children] = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(usage);
    CpuTimes {
        user: nanos(own.ru_utime) + nanos(children.ru_utime),
        system: nanos(own.ru_stime) + nanos(children.ru_stime),
    }
}

/// Returns the numbers of page faults of this thread so far.
#[must_use]
pub fn faults() -> Faults {
    let usage = usage(libc::RUSAGE_THREAD);
    Faults { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64, major_wait: Nanos(0) }
}

/// Keeps the CPU busy until this thread has used the CPU time `time` in this call.
pub fn compute(time: Nanos) {
    let started = thread_time();
    while thread_time().since(started) < time {
        std::hint::spin_loop();
    }
}

/// Returns the CPU time of this thread so far.
fn thread_time() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer points to a structure of the right type, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Makes writes beyond the largest allowed file size (`ulimit -f`) return an error instead of ending the process by
/// SIGXFSZ.
pub fn ignore_size_signal() {
    // SAFETY: no handler is set, and the signal has no other use here.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes sleeps of this thread, and of threads and processes that it starts, end on time. The kernel may otherwise let a
/// sleep end up to 50 µs late, to wake several threads at once.
pub fn sleep_exactly() {
    // SAFETY: the call takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Makes a system call that has no effect, to measure what entering the kernel costs.
#[inline]
pub fn enter() {
    // SAFETY: the call takes no arguments and only returns a number.
    unsafe { libc::getppid() };
}

/// Binds this thread to the first CPU on which it may run. If the system refuses this, the thread stays unbound.
pub fn stay_on_first_cpu() {
    // SAFETY: all zeroes is the empty set of CPUs, and the calls get the set with its size.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let bytes = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, bytes, &raw mut allowed) != 0 {
            return;
        }
        if let Some(first) = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &allowed)) {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first, &mut one);
            libc::sched_setaffinity(0, bytes, &raw const one);
        }
    }
}

/// CPU time and page faults of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// CPU time in user mode, s.
    pub user_s: f64,
    /// CPU time in the kernel, s.
    pub system_s: f64,
    /// Number of faults that waited for I/O.
    pub major_faults: u64,
    /// Number of faults without I/O.
    pub minor_faults: u64,
}

/// Returns the CPU time and page faults of all child processes that have ended and for which this process has waited.
pub fn used_by_children() -> Used {
    // SAFETY: all zeroes are a value of the type, and the call writes only to this value.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Used {
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        major_faults: usage.ru_majflt as u64,
        minor_faults: usage.ru_minflt as u64,
    }
}

/// Makes `command` start its program inside a cgroup. `procs` is the path of the cgroup's file `cgroup.procs`. If the
/// process cannot be put into the cgroup, the program does not start.
pub fn start_in(command: &mut std::process::Command, procs: std::path::PathBuf) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec the child only opens and writes a file whose name was allocated before; it takes no
    // lock.
    unsafe { command.pre_exec(move || std::fs::OpenOptions::new().write(true).open(&procs)?.write_all(b"0")) };
}

/// Makes the system kill the process of `command` when the thread that starts it has ended in any way. If the thread
/// has ended before the program begins, the program does not begin.
pub fn end_with_this_thread(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let starter = std::process::id();
    let ask = move || {
        // SAFETY: both calls take and return numbers only.
        let (asked, parent) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
        match asked {
            0 if parent.cast_unsigned() == starter => Ok(()),
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the child only makes two system calls; it takes no lock and allocates no memory.
    unsafe { command.pre_exec(ask) };
}

/// Advises the system that a file will be read at random offsets. A system that does not support the advice ignores it.
pub fn expect_random_reads(file: &File) {
    // SAFETY: the call takes a descriptor, which is open, and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

/// Asks the system to read `bytes` bytes of a file from `offset` on into the page cache, and does not wait. If the
/// system does not support this, later reads read the bytes from the disk.
pub fn start_read(file: &File, offset: u64, bytes: usize) {
    let (Ok(offset), Ok(bytes)) = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes)) else { return };
    // SAFETY: the call takes a descriptor, which is open, and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_WILLNEED) };
}

/// Drops the clean pages of a file from the system's page cache.
///
/// # Errors
/// When the system refuses.
pub fn drop_pages(file: &File) -> io::Result<()> {
    // SAFETY: the call takes a descriptor, which is open, and numbers.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Extends a file to `bytes` bytes with all blocks allocated.
///
/// # Errors
/// When the file system has not enough free blocks, or does not support allocation.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: the call takes a descriptor, which is open, and numbers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn with_path(path: &Path, call: impl FnOnce(*const libc::c_char) -> libc::c_int) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    if call(path.as_ptr()) == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the kernel swap to a file.
///
/// # Errors
/// When the file is no swap file, or permission is missing.
pub fn swap_on(path: &Path) -> io::Result<()> {
    // SAFETY: the call reads a path that ends with a zero and lives until it returns.
    with_path(path, |path| unsafe { libc::swapon(path, 0) })
}

/// Makes the kernel stop swapping to a file. The pages in the file return to memory.
///
/// # Errors
/// When the pages in the swap file do not fit into memory, when the file is not in use as swap, or when permission is
/// missing.
pub fn swap_off(path: &Path) -> io::Result<()> {
    // SAFETY: the call reads a path that ends with a zero and lives until it returns.
    with_path(path, |path| unsafe { libc::swapoff(path) })
}

/// Returns whether a file lies in memory (tmpfs or ramfs) instead of on a disk.
///
/// # Errors
/// When the system does not report the file system.
pub fn is_in_memory(file: &File) -> io::Result<bool> {
    // SAFETY: all zeroes is a value of this structure of numbers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the pointer points to a structure of the right type, which the call fills.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(matches!(found.f_type, libc::TMPFS_MAGIC | RAMFS_MAGIC))
}

const RAMFS_MAGIC: libc::c_long = 0x8584_58f6;
