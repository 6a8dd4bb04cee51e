//! Calls of the operating system that the standard library lacks. No other file of the laboratory has unsafe code.

#![allow(unsafe_code)]

use figures::usage::{CpuTimes, Faults};
use machine::{Nanos, PAGE_BYTES};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

/// Memory of one task: anonymous, or of a file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `pages` pages of zeroes.
    ///
    /// # Errors
    /// When the address space has no room.
    pub fn new(pages: u32) -> io::Result<Self> {
        let (start, bytes) = map_zeroes(pages, 0)?;
        // SAFETY: the range is the mapping just made. Where there are no huge pages the advice fails, and need not be given.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self { start, bytes })
    }

    /// Maps `pages` pages of zeroes that begin where a huge page may, without advice for or against huge pages.
    ///
    /// # Errors
    /// When the address space has no room.
    pub fn huge(pages: u32) -> io::Result<Self> {
        let (start, mapped) = map_zeroes(pages, HUGE_PAGE_BYTES)?;
        let bytes = mapped - HUGE_PAGE_BYTES;
        let before = start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: less than a huge page lies before the aligned address, and so much more than `bytes` was mapped.
        let aligned = unsafe { start.add(before) };
        let after = HUGE_PAGE_BYTES - before;
        // SAFETY: both ranges lie in the mapping just made, outside of what is kept of it.
        unsafe {
            if before > 0 {
                libc::munmap(start.as_ptr().cast(), before);
            }
            libc::munmap(aligned.as_ptr().add(bytes).cast(), after);
        }
        Ok(Self { start: aligned, bytes })
    }

    /// Maps `pages` pages of a file from `first` on, for reads and writes.
    ///
    /// # Errors
    /// When the address space has no room, or programs may not run from the file system of an executable mapping.
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
        // SAFETY: the range is the mapping just made. Reads are right without the advice, too.
        unsafe { libc::madvise(start, bytes, advice) };
        let start = NonNull::new(start.cast()).expect("no mapping is at address 0");
        Ok(Self { start, bytes })
    }

    fn check(&self, offset: usize, bytes: usize) {
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(fits, "{bytes} bytes at {offset} of a region of {}", self.bytes);
    }

    /// Copies bytes into the mapping.
    ///
    /// # Panics
    /// When they lie outside of the mapping.
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: the range lies in the mapping, as was just checked, which lives as long as `self`. `Mapping` is not
        // `Sync` and gives out no references, so nobody else of this program is at these bytes, and `bytes` lies elsewhere.
        // Those of a shared file may change by another mapping of it, as memory of a device does: they are only copied.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len()) };
    }

    /// Copies bytes out of the mapping.
    ///
    /// # Panics
    /// When they lie outside of the mapping.
    pub fn load(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        // SAFETY: as in `store`.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Reads a byte, and writes it back if `write` is set.
    ///
    /// # Panics
    /// When it lies outside of the mapping.
    pub fn touch(&self, offset: usize, write: bool) {
        self.check(offset, 1);
        // SAFETY: as in `store`; volatile, so that the access is made though nobody wants the byte.
        let (byte, held) = unsafe {
            let byte = self.start.as_ptr().add(offset);
            (byte, byte.read_volatile())
        };
        if write {
            // SAFETY: as in `store`; a byte is always aligned. Atomic, since another mapping of a file may store there in between.
            let byte = unsafe { AtomicU8::from_ptr(byte) };
            // Where it fails there is another value by now, whose page was written to for that.
            let _ = byte.compare_exchange(held, held, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Bytes of a huge page, and their alignment.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Maps `pages` pages of zeroes and `more` bytes, private to this program. Returns the beginning and the size.
fn map_zeroes(pages: u32, more: usize) -> io::Result<(NonNull<u8>, usize)> {
    // A mapping has a page at least.
    let bytes = pages.max(1) as usize * PAGE_BYTES + more;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new private mapping at an address of the system's choice touches no memory of the program.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok((NonNull::new(start.cast()).expect("no mapping is at address 0"), bytes))
}

/// The mode of a mapping of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileMode {
    /// `true` if what is written stays with the task and never reaches the file.
    pub is_private: bool,
    /// `true` if the mapping is a program's text.
    pub is_executable: bool,
    /// The expected reads.
    pub reads: Reads,
}

/// The reads that are expected of a mapping (`madvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Unknown: the system detects it.
    Unknown,
    /// From the beginning to the end.
    Sequential,
    /// At random: nothing is read ahead.
    Random,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made with it, unmapped once, and no reference to it was given out.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A file mapped for reading, shared with the page cache.
///
/// A page that cannot be read ends the process with SIGBUS. This happens when the disk fails or the file was cut
/// meanwhile; nobody cuts a file in the folder of a run.
#[derive(Debug)]
pub struct FileMapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is memory to be read, and nobody changes where it lies; it goes with the last owner, on any thread.
unsafe impl Send for FileMapping {}
// SAFETY: as for `Send`: all that a shared reference gives out is bytes to be read.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps the first `bytes` bytes of a file, which is at least as long. `is_random` turns readahead off.
    ///
    /// # Errors
    /// When the file is empty, or the address space has no room.
    pub fn new(file: &File, bytes: u64, is_random: bool) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice touches no memory of the program.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if is_random {
            // SAFETY: the range is the mapping just made. Reads are right without the advice, too.
            unsafe { libc::madvise(start, bytes, libc::MADV_RANDOM) };
        }
        let start = NonNull::new(start.cast()).expect("no mapping is at address 0");
        Ok(Self { start, bytes })
    }

    /// Returns the number of pages. The last one may be partial.
    #[must_use]
    #[inline]
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE_BYTES) as u64
    }

    /// Returns the bytes of a page, zeroes after the end of the file. The caller makes sure that nobody writes the page
    /// while they are in use (`workloads::system::System::read_in_place`).
    ///
    /// # Panics
    /// When there is no such page.
    #[must_use]
    #[inline]
    pub fn page(&self, page: u64) -> &[u8] {
        assert!(page < self.pages(), "page {page} of a mapping of {}", self.pages());
        // SAFETY: the page lies in the mapping, which is whole pages long and lives as long as `self`. Its bytes do not
        // change while they are borrowed: the file lies in the folder of one run, whose tasks write no page that is being
        // read in place, and nobody cuts it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(page as usize * PAGE_BYTES), PAGE_BYTES) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `new`, unmapped once, and no reference to it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: all zeroes is a value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the right type, which the call fills.
    unsafe { libc::getrusage(who, &raw mut usage) };
    usage
}

/// Returns the CPU time of all threads of this process so far.
#[must_use]
pub fn cpu_times() -> CpuTimes {
    let nanos = |time: libc::timeval| Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000);
    let usage = usage(libc::RUSAGE_SELF);
    CpuTimes { user: nanos(usage.ru_utime), system: nanos(usage.ru_stime) }
}

/// Returns the faults of this thread so far.
#[must_use]
pub fn faults() -> Faults {
    let usage = usage(libc::RUSAGE_THREAD);
    Faults { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64, major_wait: Nanos(0) }
}

/// Uses a CPU for `time`.
pub fn compute(time: Nanos) {
    let started = thread_time();
    while thread_time().since(started) < time {
        std::hint::spin_loop();
    }
}

/// Returns the CPU time of this thread so far.
fn thread_time() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a structure of the right type, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Makes a write beyond the largest file size (`ulimit -f`) an error instead of the end of the process.
pub fn ignore_size_signal() {
    // SAFETY: no handler is set, and the signal has no other use here.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes a system call that does nothing.
#[inline]
pub fn enter() {
    // SAFETY: the call takes nothing and only returns a number.
    unsafe { libc::getppid() };
}

/// Binds this thread to the first CPU that it may run on. If this is refused, the thread stays unbound.
pub fn stay_on_first_cpu() {
    // SAFETY: all zeroes is the empty set of CPUs, and the calls get it with its size.
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

/// Resources used by processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// CPU time in user mode, s.
    pub user_s: f64,
    /// CPU time in the kernel, s.
    pub system_s: f64,
    /// Faults that waited for I/O.
    pub major_faults: u64,
    /// Faults without I/O.
    pub minor_faults: u64,
}

/// Returns the resources of processes that this one started and has waited for.
pub fn used_by_children() -> Used {
    // SAFETY: all zeroes are a value of the type, and the call writes to it alone.
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

/// Puts a command into a cgroup, by its file `cgroup.procs`, before its program begins. If this fails, the program does
/// not start.
pub fn start_in(command: &mut std::process::Command, procs: std::path::PathBuf) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec the child only opens and writes a file whose name was made before; no lock is taken.
    unsafe { command.pre_exec(move || std::fs::OpenOptions::new().write(true).open(&procs)?.write_all(b"0")) };
}

/// Ties a command's process to the thread that starts it: the system kills the process when that thread has ended, however
/// it ends. A process whose starter is gone already does not begin.
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
    // SAFETY: between fork and exec the child only makes two calls of the system; no lock is taken, nothing is allocated.
    unsafe { command.pre_exec(ask) };
}

/// Advises the system that a descriptor will be read at random offsets. Without support reads are no slower than
/// before.
pub fn expect_random_reads(file: &File) {
    // SAFETY: the call takes a descriptor, which is open, and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

/// Starts to read bytes of a file into memory. Without support they are read on demand.
pub fn start_read(file: &File, offset: u64, bytes: usize) {
    let (Ok(offset), Ok(bytes)) = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes)) else { return };
    // SAFETY: the call takes a descriptor, which is open, and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_WILLNEED) };
}

/// Drops the clean pages of a file from memory.
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
/// When there is no room, or the file system cannot allocate.
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

/// Stops swapping to a file. Its pages return to memory.
///
/// # Errors
/// When memory has no room for them.
pub fn swap_off(path: &Path) -> io::Result<()> {
    // SAFETY: as in `swap_on`.
    with_path(path, |path| unsafe { libc::swapoff(path) })
}

/// Returns whether a file lies in memory instead of on a disk.
///
/// # Errors
/// When the system does not tell.
pub fn is_in_memory(file: &File) -> io::Result<bool> {
    // SAFETY: all zeroes is a value of this structure of numbers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the pointer is to a structure of the right type, which the call fills.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(matches!(found.f_type, libc::TMPFS_MAGIC | RAMFS_MAGIC))
}

const RAMFS_MAGIC: libc::c_long = 0x8584_58f6;
