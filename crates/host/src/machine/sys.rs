//! System calls that the standard library does not have, as safe functions. The unsafe code of the machine is in this
//! module and in `arena`, `copy`, `hazard` and `disk::ring`.

#![allow(unsafe_code)]

use super::arena::IoRun;
use machine::Operation;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Largest number of buffers (runs of memory) that one `preadv` or `pwritev` takes. Linux: `UIO_MAXIOV`.
pub(super) const RUNS_MAX: usize = 1024;

/// An error number that a system call reported.
pub(super) type Errno = i32;

fn checked(returned: isize) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| last_errno())
}

fn last_errno() -> Errno {
    io::Error::last_os_error().raw_os_error().expect("the last error of the system has a number")
}

fn checked_io(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a file at least `bytes` bytes long without changing its contents. Never makes the file shorter, even if
/// another process makes it longer meanwhile. Returns `false` if the file system does not support `fallocate`, or has
/// no free space for the last block, which this call allocates.
///
/// # Errors
/// Errors of the system. Nothing has changed then.
pub(super) fn lengthen(file: &File, bytes: u64) -> io::Result<bool> {
    let too_long = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let Some(last) = bytes.checked_sub(1) else { return Ok(true) };
    let last = libc::off_t::try_from(last).map_err(too_long)?;
    loop {
        // SAFETY: no memory is passed.
        match checked_io(unsafe { libc::fallocate(file.as_raw_fd(), 0, last, 1) }) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOSPC | libc::EDQUOT)
                ) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads bytes of a file into `runs` (runs of adjacent frames), or writes the bytes of the runs to the file. In the
/// file, the bytes begin at `offset`. Makes one system call, and returns the number of bytes moved, which may be fewer
/// than the runs have.
pub(super) fn transfer(file: &File, operation: Operation, offset: u64, runs: &[IoRun<'_>]) -> Result<usize, Errno> {
    let (fd, offset) = (file.as_raw_fd(), offset as libc::off_t);
    if offset < 0 {
        return Err(libc::EFBIG);
    }
    checked(match operation {
        Operation::Read => read_runs(fd, offset, runs),
        Operation::Write => write_runs(fd, offset, runs),
    })
}

fn read_runs(fd: RawFd, offset: libc::off_t, runs: &[IoRun<'_>]) -> libc::ssize_t {
    if let [run] = runs {
        // SAFETY: the run is memory of an arena, and the arena stays mapped while the run lives.
        return unsafe { libc::pread(fd, run.pointer().cast(), run.bytes(), offset) };
    }
    let runs = &runs[..runs.len().min(RUNS_MAX)];
    // SAFETY: the vector describes exactly `runs.len()` runs, which are mapped while they live.
    unsafe { libc::preadv(fd, IoRun::as_io_vectors(runs), runs.len() as libc::c_int, offset) }
}

/// Writes runs of memory to a file. Meanwhile a task that holds a page's latch may change the page, which then becomes
/// dirty and is written again. The thread sanitizer reports this as a race, so its list of exceptions names this
/// function.
#[inline(never)]
fn write_runs(fd: RawFd, offset: libc::off_t, runs: &[IoRun<'_>]) -> libc::ssize_t {
    if let [run] = runs {
        // SAFETY: the run is memory of an arena, and the arena stays mapped while the run lives.
        return unsafe { libc::pwrite(fd, run.pointer().cast(), run.bytes(), offset) };
    }
    let runs = &runs[..runs.len().min(RUNS_MAX)];
    // SAFETY: the vector describes exactly `runs.len()` runs, which are mapped while they live.
    unsafe { libc::pwritev(fd, IoRun::as_io_vectors(runs), runs.len() as libc::c_int, offset) }
}

/// Writes runs of frames to a file, from byte `offset` of the file on, and returns when the written bytes are durable, and
/// with them the metadata that are needed to find them (`RWF_DSYNC`). Makes one system call and returns the number of
/// bytes written, which may be fewer than the runs have.
pub(super) fn write_durably(file: &File, offset: u64, runs: &[IoRun<'_>]) -> Result<usize, Errno> {
    let offset = libc::off_t::try_from(offset).map_err(|_| libc::EFBIG)?;
    checked(write_runs_durably(file.as_raw_fd(), offset, &runs[..runs.len().min(RUNS_MAX)]))
}

/// Writes runs of memory to a file durably. As with [`write_runs`], another task may change the pages meanwhile, and the
/// thread sanitizer's list of exceptions names this function.
#[inline(never)]
fn write_runs_durably(fd: RawFd, offset: libc::off_t, runs: &[IoRun<'_>]) -> libc::ssize_t {
    let (vector, count) = (IoRun::as_io_vectors(runs), runs.len() as libc::c_int);
    // SAFETY: the vector describes exactly `runs.len()` runs, which are mapped while they live.
    unsafe { libc::pwritev2(fd, vector, count, offset, libc::RWF_DSYNC) }
}

/// Sets whether requests to an open file bypass the page cache of the kernel (O_DIRECT).
pub(super) fn set_direct(file: &File, is_direct: bool) -> io::Result<()> {
    set_flag(file, libc::O_DIRECT, is_direct)
}

/// Opens a file without waiting, unless another program has a lease on the file: then waits until the lease has ended.
/// A pipe (FIFO) opens at once even if no process has its other end open, so the caller has to refuse pipes. Reads and
/// writes of the opened file wait as usual. `flags` are further flags for `open`.
pub(crate) fn open_at_once(options: &mut OpenOptions, flags: libc::c_int, path: &Path) -> io::Result<File> {
    let at_once = options.clone().custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = match at_once {
        // Another program has a lease on the file, and the system has told it to give the lease up. A second, ordinary
        // open waits until it has, about 45 seconds at most.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return options.custom_flags(flags).open(path),
        opened => opened?,
    };
    set_flag(&file, libc::O_NONBLOCK, false)?;
    Ok(file)
}

/// Makes reads of an open file leave its time of last access unchanged (O_NOATIME). The system allows this only to the
/// file's owner.
pub(super) fn keep_access_time(file: &File) -> io::Result<()> {
    set_flag(file, libc::O_NOATIME, true)
}

fn set_flag(file: &File, flag: libc::c_int, is_set: bool) -> io::Result<()> {
    let flags = status_flags(file)?;
    let wanted = if is_set { flags | flag } else { flags & !flag };
    // SAFETY: no memory is passed.
    checked_io(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, wanted) })
}

/// Allocates blocks for the first `bytes` bytes of a file, and makes the file at least that long.
pub(super) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    fallocate(file, 0, 0..bytes)
}

/// Allocates or frees the blocks of a range of a file, as `mode` says (`fallocate`).
pub(super) fn fallocate(file: &File, mode: libc::c_int, range: std::ops::Range<u64>) -> io::Result<()> {
    let offset = |at: u64| libc::off_t::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    let (start, end) = (offset(range.start)?, offset(range.end)?);
    loop {
        // SAFETY: no memory is passed.
        match checked_io(unsafe { libc::fallocate(file.as_raw_fd(), mode, start, end - start) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Returns the flags with which a file was opened: its access mode and its status flags (`F_GETFL`).
pub(crate) fn status_flags(file: &File) -> io::Result<libc::c_int> {
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 { Err(io::Error::last_os_error()) } else { Ok(flags) }
}

/// Returns the number of free bytes that this user may use in the file system of `file`.
pub(super) fn free_bytes(file: &File) -> io::Result<u64> {
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `status` has room for the answer.
    checked_io(unsafe { libc::fstatvfs(file.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: all bytes zero are a valid `statvfs`, and the call only wrote into it.
    let status = unsafe { status.assume_init() };
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

/// Returns whether a file lies in memory, as on tmpfs; `false` if this is unknown.
pub(super) fn is_in_memory(file: &File) -> bool {
    let mut status = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `status` has room for the answer.
    let returned = unsafe { libc::fstatfs(file.as_raw_fd(), status.as_mut_ptr()) };
    // SAFETY: all bytes zero are a valid `statfs`, and the call only wrote into it.
    let status = unsafe { status.assume_init() };
    const RAMFS_MAGIC: libc::c_long = 0x8584_58f6;
    returned == 0 && [libc::TMPFS_MAGIC, RAMFS_MAGIC].contains(&status.f_type)
}

/// Returns the number of the effective user of this process. This user owns the files that the process creates.
pub(super) fn effective_user() -> u32 {
    // SAFETY: no memory is passed.
    unsafe { libc::geteuid() }
}

/// Locks a file exclusively (`flock`) for this open handle. Returns `false` if another handle holds a lock on the file.
pub(crate) fn try_lock_file(file: &File) -> io::Result<bool> {
    try_flock(file, libc::LOCK_EX)
}

/// Locks a file in shared mode (`flock`) for this open handle. Returns `false` if another handle holds an exclusive
/// lock on the file.
pub(crate) fn try_share_file(file: &File) -> io::Result<bool> {
    try_flock(file, libc::LOCK_SH)
}

fn try_flock(file: &File, how: libc::c_int) -> io::Result<bool> {
    // SAFETY: no memory is passed.
    match checked_io(unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) }) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases the lock (`flock`) that an open handle of a file holds. Closing the file would not suffice if a process
/// that is just being started has inherited the handle.
pub(super) fn unlock_file(file: &File) {
    // SAFETY: no memory is passed.
    let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Opens an open file once more, for writing through the page cache of the kernel.
pub(super) fn reopen_for_writing(file: &File) -> io::Result<File> {
    File::options().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Time slice that [`runs_early`] gives a thread: the shortest that Linux grants.
const EARLY_SLICE_NS: u64 = 100_000;

/// Gives the calling thread short time slices, so that it runs soon after it gets work, even if more threads than CPUs
/// compute. The thread's share of CPU time stays the same. No effect on Linux before 6.12.
pub(super) fn runs_early() -> io::Result<()> {
    let mut attributes = std::mem::MaybeUninit::<libc::sched_attr>::zeroed();
    let size = size_of::<libc::sched_attr>();
    // SAFETY: `attributes` has room for the answer.
    let returned = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, attributes.as_mut_ptr(), size, 0) };
    checked_io(returned as libc::c_int)?;
    // SAFETY: all bytes zero are valid `sched_attr`, and the call only wrote into it.
    let mut attributes = unsafe { attributes.assume_init() };
    attributes.sched_runtime = EARLY_SLICE_NS;
    // SAFETY: the call reads `attributes`, and writes their size if the system knows another size.
    checked_io(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw mut attributes, 0) } as libc::c_int)
}

/// Returns the number of the CPU that runs the caller; the thread may move to another CPU at any time.
#[inline]
pub(super) fn current_cpu() -> usize {
    // SAFETY: no memory is passed.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(0)
}

/// Registers this process for [`interrupt_all`], and returns whether the system permits it.
pub(super) fn can_interrupt_all() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// Interrupts all CPUs that run this process. When this returns, earlier stores by the threads on those CPUs are
/// visible to every thread.
///
/// # Panics
/// When [`can_interrupt_all`] has not returned `true` before.
pub(super) fn interrupt_all() {
    while !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        // The call failed because the system lacks memory for a moment; it is tried again.
        assert_eq!(last_errno(), libc::ENOMEM, "membarrier: {}", io::Error::last_os_error());
        std::thread::yield_now();
    }
}

fn membarrier(command: libc::membarrier_cmd) -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Makes an eventfd: a counter that another thread can wait for with a read.
pub(super) fn event_counter() -> io::Result<File> {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else uses it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Returns whether the file system supports direct I/O (`O_DIRECT`) in whole pages, as `statx` reports it. Returns
/// `None` if `statx` reports nothing on direct I/O, as on kernels before 6.1.
pub(super) fn promises_direct(file: BorrowedFd<'_>) -> Option<bool> {
    use machine::PAGE_BYTES;
    let mut status = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let (fd, empty) = (file.as_raw_fd(), c"".as_ptr());
    // SAFETY: `status` has room for the answer, and the path is empty and ends in zero.
    let returned = unsafe { libc::statx(fd, empty, libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, status.as_mut_ptr()) };
    // SAFETY: all bytes zero are a valid `statx`, and the call only wrote into it.
    let status = unsafe { status.assume_init() };
    if returned != 0 || status.stx_mask & libc::STATX_DIOALIGN == 0 {
        return None;
    }
    let fits = |alignment: u32| alignment != 0 && PAGE_BYTES.is_multiple_of(alignment as usize);
    Some(fits(status.stx_dio_mem_align) && fits(status.stx_dio_offset_align))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_lengthened_is_never_shortened_and_keeps_its_contents() {
        let file = tempfile::tempfile().unwrap();
        let length = || file.metadata().unwrap().len();
        file.write_all_at(b"kept", 5000).unwrap();
        if !lengthen(&file, 100_001).unwrap() {
            return;
        }
        assert_eq!(length(), 100_001);
        assert!(lengthen(&file, 20).unwrap() && lengthen(&file, 0).unwrap());
        assert_eq!(length(), 100_001, "it was longer already");
        let mut found = [0; 6];
        file.read_exact_at(&mut found, 4999).unwrap();
        assert_eq!(&found, b"\0kept\0");
        assert_eq!(lengthen(&file, u64::MAX).unwrap_err().raw_os_error(), Some(libc::EFBIG));
    }
}
