//! System calls that are made without libc. They change no `errno`, and do not call the functions of libc that this
//! library replaces.

use std::ffi::{c_char, c_int, c_void};

/// A part of a transfer with several buffers (`struct iovec`).
#[repr(C)]
pub struct Part {
    pub base: *mut c_void,
    pub len: usize,
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub const CLOSE: usize = 3;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const SIGACTION: usize = 13;
    pub const SIGPROCMASK: usize = 14;
    pub const MREMAP: usize = 25;
    pub const NANOSLEEP: usize = 35;
    pub const GETPID: usize = 39;
    pub const FCNTL: usize = 72;
    pub const GETPPID: usize = 110;
    pub const GETTID: usize = 186;
    pub const OPENAT: usize = 257;
    pub const READLINKAT: usize = 267;
    pub const STATX: usize = 332;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const CLOSE: usize = 57;
    pub const LSEEK: usize = 62;
    pub const MMAP: usize = 222;
    pub const MPROTECT: usize = 226;
    pub const MUNMAP: usize = 215;
    pub const SIGACTION: usize = 134;
    pub const SIGPROCMASK: usize = 135;
    pub const MREMAP: usize = 216;
    pub const NANOSLEEP: usize = 101;
    pub const GETPID: usize = 172;
    pub const FCNTL: usize = 25;
    pub const GETPPID: usize = 173;
    pub const GETTID: usize = 178;
    pub const OPENAT: usize = 56;
    pub const READLINKAT: usize = 78;
    pub const STATX: usize = 291;
}

/// Makes a system call. Returns what the kernel returns: a negative error number on failure.
///
/// # Safety
/// As for the system call.
#[inline]
unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the registers are those of the kernel's interface; it changes rcx and r11.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _,
            options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the registers are those of the kernel's interface.
    unsafe {
        std::arch::asm!("svc 0", in("x8") number, inlateout("x0") a[0] => result, in("x1") a[1], in("x2") a[2],
            in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

pub const PROT_READ: c_int = 1;
pub const PROT_WRITE: c_int = 2;
pub const MAP_SHARED: c_int = 1;
pub const MAP_FIXED: c_int = 16;
pub const MAP_ANONYMOUS: c_int = 32;
pub const O_CLOEXEC: c_int = 0o2_000_000;
pub const O_RDWR: c_int = 2;
pub const AT_FDCWD: c_int = -100;

/// The fields of the result of `statx` that this library uses.
#[derive(Clone, Copy)]
pub struct Stat {
    pub mode: u32,
    pub links: u32,
    pub inode: u64,
    pub size: u64,
    pub device: [u32; 2],
    pub birth: u32,
}

impl Stat {
    pub fn is_regular(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    pub fn is_block_device(&self) -> bool {
        self.mode & 0o170_000 == 0o060_000
    }
}

/// Returns the facts about a file (`statx`), which is named by a path relative to `folder`. With an empty path and
/// `AT_EMPTY_PATH`, `folder` is the file's descriptor. Returns `None` if the call fails.
///
/// # Safety
/// `path` must point to a C string.
unsafe fn statx(folder: c_int, path: *const c_char, flags: usize) -> Option<Stat> {
    const BASIC_AND_BIRTH: usize = 0x0fff;
    let mut found = [0u64; 32];
    let out = found.as_mut_ptr() as usize;
    // SAFETY: the caller's path; the result has 256 bytes.
    let result = unsafe { call(number::STATX, [folder as usize, path as usize, flags, BASIC_AND_BIRTH, out, 0]) };
    if result != 0 {
        return None;
    }
    // By words: 1 the attributes, 2 links and user, 3 group and mode, 4 inode, 5 size, 10 birth, 16 and 17 devices.
    let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
    let is_block = high(found[3]) & 0o170_000 == 0o060_000;
    let device = if is_block { found[16] } else { found[17] };
    Some(Stat {
        links: low(found[2]),
        mode: high(found[3]) & 0xffff,
        inode: found[4],
        size: found[5],
        birth: low(found[10]) ^ low(found[11]).rotate_left(16),
        device: [low(device), high(device)],
    })
}

/// Returns the metadata of an open file; `None` if `statx` fails.
pub fn stat_descriptor(fd: c_int) -> Option<Stat> {
    // SAFETY: an empty path is one.
    unsafe { statx(fd, c"".as_ptr(), 0x1000) }
}

/// Returns the metadata of the file at a path, without following a symbolic link; `None` if `statx` fails.
///
/// # Safety
/// `path` must point to a C string.
pub unsafe fn stat_name(folder: c_int, path: *const c_char) -> Option<Stat> {
    // SAFETY: the caller's promise.
    unsafe { statx(folder, path, 0x100) }
}

/// Returns the position of an open file; a negative error number if the file has no position.
pub fn position(fd: c_int) -> i64 {
    // SAFETY: it changes nothing.
    unsafe { call(number::LSEEK, [fd as usize, 0, 1, 0, 0, 0]) as i64 }
}

pub fn process() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { call(number::GETPID, [0; 6]) as u32 }
}

pub fn parent() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { call(number::GETPPID, [0; 6]) as u32 }
}

pub fn thread() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { call(number::GETTID, [0; 6]) as u32 }
}

/// Returns the flags of an open file (`F_GETFL`); 0 if the descriptor is not open.
pub fn open_flags(fd: c_int) -> c_int {
    // SAFETY: it changes nothing.
    let flags = unsafe { call(number::FCNTL, [fd as usize, 3, 0, 0, 0, 0]) };
    flags.max(0) as c_int
}

/// Opens a path for reading and writing.
///
/// # Safety
/// `path` is a C string.
pub unsafe fn open(path: *const c_char) -> c_int {
    let flags = (O_RDWR | O_CLOEXEC) as usize;
    // SAFETY: the caller's promise.
    unsafe { call(number::OPENAT, [AT_FDCWD as usize, path as usize, flags, 0, 0, 0]) as c_int }
}

pub fn close(fd: c_int) {
    // SAFETY: callers close what they opened.
    unsafe { call(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Writes the path of the open file `fd` to `buffer`, as the link in `/proc/self/fd` states the path. With
/// [`AT_FDCWD`], writes the path of the working folder. Returns the path's length, bytes.
pub fn path_of(fd: c_int, buffer: &mut [u8]) -> usize {
    // "/proc/self/fd/" and the number.
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let (mut digits, mut count, mut rest) = ([0u8; 10], 0, fd.max(0) as u32);
    loop {
        digits[count] = b'0' + (rest % 10) as u8;
        (count, rest) = (count + 1, rest / 10);
        if rest == 0 {
            break;
        }
    }
    for at in 0..count {
        link[14 + at] = digits[count - 1 - at];
    }
    let from = if fd == AT_FDCWD { c"/proc/self/cwd".as_ptr() as usize } else { link.as_ptr() as usize };
    // SAFETY: the link ends with a zero, the buffer has its length.
    let found = unsafe {
        call(number::READLINKAT, [AT_FDCWD as usize, from, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0])
    };
    found.max(0) as usize
}

/// Maps memory. Returns what the kernel returns.
///
/// # Safety
/// As for `mmap`.
pub unsafe fn mmap(at: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> isize {
    // SAFETY: the caller's promise.
    unsafe { call(number::MMAP, [at as usize, len, prot as usize, flags as usize, fd as usize, offset as usize]) }
}

/// Unmaps memory. Returns what the kernel returns.
///
/// # Safety
/// As for `munmap`.
pub unsafe fn munmap(at: *mut c_void, len: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { call(number::MUNMAP, [at as usize, len, 0, 0, 0, 0]) }
}

/// Moves or resizes a mapping. Returns what the kernel returns.
///
/// # Safety
/// As for `mremap`.
pub unsafe fn mremap(at: *mut c_void, old: usize, new: usize, flags: c_int, to: *mut c_void) -> isize {
    // SAFETY: the caller's promise.
    unsafe { call(number::MREMAP, [at as usize, old, new, flags as usize, to as usize, 0]) }
}

/// Changes the protection of the memory at `at` by the system call `mprotect`. Returns what the kernel returns.
///
/// # Safety
/// No code may rely on an access to this memory that `prot` forbids.
pub unsafe fn mprotect(at: usize, len: usize, prot: c_int) -> isize {
    // SAFETY: the caller's promise.
    unsafe { call(number::MPROTECT, [at, len, prot as usize, 0, 0, 0]) }
}

/// Sleeps for `ns` nanoseconds, which must be less than one second.
pub fn sleep_ns(ns: u64) {
    let time = [0u64, ns];
    // SAFETY: the time lives until the call returns.
    unsafe { call(number::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Blocks all signals of this thread except SIGSEGV and SIGBUS. Returns the previous signal mask.
pub fn block_signals() -> u64 {
    let (all, mut before) = (!(1u64 << 10 | 1 << 6), 0u64);
    let (new, old) = ((&raw const all) as usize, (&raw mut before) as usize);
    // SAFETY: both masks have 8 bytes.
    unsafe { call(number::SIGPROCMASK, [0, new, old, 8, 0, 0]) };
    before
}

/// Sets the signal mask of this thread.
pub fn set_signals(mask: u64) {
    // SAFETY: the mask has 8 bytes.
    unsafe { call(number::SIGPROCMASK, [2, (&raw const mask) as usize, 0, 8, 0, 0]) };
}

/// Resets the action of a signal to the default (`SIG_DFL`), which ends the process.
pub fn set_default(signal: c_int) {
    let action = [0u64; 4];
    // SAFETY: the kernel's structure has at most 32 bytes; all zero is SIG_DFL.
    unsafe { call(number::SIGACTION, [signal as usize, action.as_ptr() as usize, 0, 8, 0, 0]) };
}
