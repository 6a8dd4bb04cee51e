//! The open files of this process: which descriptor belongs to which open file description, and its position.

use crate::paths;
use crate::real::{errno, set_errno};
use crate::ring::{count, emit, emit_range, emit_text, is_borrowed, next_handle, ring};
use crate::sys::{self, Stat};
use crate::wire::{Blind, Kind, OpenText, flag};
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of descriptors and of descriptions that are followed.
const LIMIT: usize = 1 << 16;

pub const O_ACCMODE: c_int = 3;
pub const O_TRUNC: c_int = 0o1000;
pub const O_APPEND: c_int = 0o2000;
const O_DSYNC: c_int = 0o10000;
#[cfg(target_arch = "x86_64")]
const O_DIRECT: c_int = 0o40000;
#[cfg(not(target_arch = "x86_64"))]
const O_DIRECT: c_int = 0o200_000;
const O_PATH: c_int = 0o10_000_000;

/// Bits of [`Description::state`] besides those of [`flag`].
const STDIO: u16 = 1 << 8;
const SHARED: u16 = 1 << 9;
const READS: u16 = 1 << 10;
const WRITES: u16 = 1 << 11;

/// An open file description of a file that has pages.
pub struct Description {
    /// Number of descriptors; 0: free.
    descriptors: AtomicU32,
    pub handle: AtomicU32,
    state: AtomicU16,
    /// The number of forks before the opening: after another one the position is shared with a child.
    forks: AtomicU32,
    position: AtomicI64,
}

/// For each descriptor: [`UNKNOWN`], [`IGNORED`], or 2 more than the number of its description.
static DESCRIPTORS: [AtomicU32; LIMIT] = [const { AtomicU32::new(UNKNOWN) }; LIMIT];
static DESCRIPTIONS: [Description; LIMIT] = [const {
    Description {
        descriptors: AtomicU32::new(0),
        handle: AtomicU32::new(0),
        state: AtomicU16::new(0),
        forks: AtomicU32::new(0),
        position: AtomicI64::new(0),
    }
}; LIMIT];
const UNKNOWN: u32 = 0;
const IGNORED: u32 = 1;

static FORKS: AtomicU32 = AtomicU32::new(0);
/// One more than the highest descriptor that was ever followed.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// Files whose paths are with the recorder, by device and inode.
static TOLD: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// A name relative to a folder; null if it is not known.
pub type Name = (c_int, *const c_char);
const NAMELESS: Name = (sys::AT_FDCWD, std::ptr::null());

/// Does `hook` without a change of `errno`.
#[inline]
pub fn quietly<T>(hook: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = hook();
    set_errno(before);
    result
}

/// From now on, positions of what is open are shared with another process.
pub fn note_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// Returns the description of a descriptor, if it is a file that is followed.
#[inline]
pub fn look(fd: c_int) -> Option<&'static Description> {
    ring()?;
    let Some(entry) = usize::try_from(fd).ok().and_then(|fd| DESCRIPTORS.get(fd)) else {
        if fd >= 0 {
            count(Blind::HighDescriptor);
        }
        return None;
    };
    match entry.load(Relaxed) {
        UNKNOWN => find(fd),
        IGNORED => None,
        number => DESCRIPTIONS.get(number as usize - 2),
    }
}

/// Looks at a descriptor for the first time: it was there before this library, or came past it.
#[cold]
fn find(fd: c_int) -> Option<&'static Description> {
    if is_borrowed() {
        return None;
    }
    let stat = sys::stat_descriptor(fd)?;
    let description = enter(fd, &stat, sys::open_flags(fd), flag::FOUND, NAMELESS)?;
    description.state.fetch_or(SHARED | STDIO, Relaxed);
    description.position.store(sys::position(fd), Relaxed);
    Some(description)
}

/// Enters what libc opened under this descriptor.
///
/// # Safety
/// `name` is the path that was opened, relative to a folder, as a C string or null.
pub unsafe fn opened_as(fd: c_int, flags: c_int, name: Name) -> Option<&'static Description> {
    if ring().is_none() || fd < 0 || is_borrowed() {
        return None;
    }
    paths::forget(fd);
    let entry = DESCRIPTORS.get(fd as usize)?;
    if entry.load(Relaxed) > IGNORED {
        leave(fd);
    }
    if flags & O_PATH != 0 {
        entry.store(IGNORED, Relaxed);
        return None;
    }
    let stat = sys::stat_descriptor(fd)?;
    enter(fd, &stat, flags, 0, name)
}

/// Enters what libc opened under this descriptor, by a name that is not known here.
pub fn opened(fd: c_int, flags: c_int) -> Option<&'static Description> {
    // SAFETY: there is no name.
    unsafe { opened_as(fd, flags, NAMELESS) }
}

/// Takes a description for the descriptor and tells the recorder, if the file has pages.
fn enter(fd: c_int, stat: &Stat, open: c_int, found: u16, name: Name) -> Option<&'static Description> {
    let entry = DESCRIPTORS.get(fd as usize)?;
    if !stat.is_regular() && !stat.is_block_device() {
        entry.store(IGNORED, Relaxed);
        return None;
    }
    let (number, description) = take(fd as usize)?;
    let handle = next_handle();
    let mut state = 0;
    for (bit, is_set) in [
        (flag::DIRECT, open & O_DIRECT != 0),
        (flag::SYNC, open & O_DSYNC != 0),
        (flag::APPEND, open & O_APPEND != 0),
        (READS, open & O_ACCMODE != 1),
        (WRITES, open & O_ACCMODE != 0),
    ] {
        state |= if is_set { bit } else { 0 };
    }
    description.handle.store(handle, Relaxed);
    description.state.store(state, Relaxed);
    description.forks.store(FORKS.load(Relaxed), Relaxed);
    description.position.store(0, Relaxed);
    entry.store(number as u32 + 2, Relaxed);
    HIGHEST.fetch_max(fd as u32 + 1, Relaxed);
    tell(fd, stat, open, found, handle, name);
    Some(description)
}

/// Takes a free description, the one with the descriptor's number if it can be had.
fn take(fd: usize) -> Option<(usize, &'static Description)> {
    let (before, behind) = DESCRIPTIONS.split_at(fd);
    let all = behind.iter().enumerate().map(|(at, it)| (fd + at, it)).chain(before.iter().enumerate());
    let free = |it: &Description| it.descriptors.compare_exchange(0, 1, Relaxed, Relaxed).is_ok();
    all.into_iter().find(|(_, it)| free(it))
}

/// Tells the recorder of an open file, with the path if it was not told before.
fn tell(fd: c_int, stat: &Stat, open: c_int, flags: u16, handle: u32, (folder, name): Name) {
    let text = OpenText { inode: stat.inode, device: stat.device, mode: stat.mode, birth: stat.birth };
    let mut path = [0; 4096];
    let key = file_key(stat);
    let told = &TOLD[(key >> 52) as usize];
    let mut len = 0;
    if told.load(Relaxed) != key {
        if !name.is_null() {
            // SAFETY: the name is a C string, as callers of `opened_as` promise.
            len = unsafe { paths::write(folder, name, &mut path) };
        }
        if len == 0 {
            len = sys::path_of(fd, &mut path);
        }
    }
    told.store(key, Relaxed);
    emit_text(Kind::Open, flags, stat.size, open as u32, handle, &[&text.to_bytes(), &path[..len]]);
}

/// Returns a number for a file, never 0, whose high bits are well mixed.
fn file_key(stat: &Stat) -> u64 {
    let device = u64::from(stat.device[0]) << 20 ^ u64::from(stat.device[1]);
    (stat.inode ^ device.rotate_left(40) ^ u64::from(stat.birth).rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        | 1
}

/// The path of a file changed or went: it is told again at the next opening.
pub fn forget_paths() {
    TOLD.iter().for_each(|told| told.store(0, Relaxed));
    paths::forget_all();
}

/// Removes a descriptor.
pub fn leave(fd: c_int) {
    let Some(entry) = usize::try_from(fd).ok().and_then(|fd| DESCRIPTORS.get(fd)) else { return };
    let number = entry.swap(UNKNOWN, Relaxed);
    if number <= IGNORED {
        return;
    }
    let Some(description) = DESCRIPTIONS.get(number as usize - 2) else { return };
    let handle = description.handle.load(Relaxed);
    if description.descriptors.fetch_sub(1, Relaxed) == 1 {
        emit(Kind::Close, 0, 0, 0, handle);
    }
}

/// A descriptor is about to be closed by the program.
pub fn closing(fd: c_int) {
    paths::forget(fd);
    let is_known = usize::try_from(fd).ok().and_then(|fd| DESCRIPTORS.get(fd)).is_some_and(|it| it.load(Relaxed) != 0);
    if !is_known || !crate::ring::was_open() || is_borrowed() {
        return;
    }
    if let Some(description) = look(fd)
        && description.has(STDIO)
    {
        description.catch_up(fd, None);
    }
    leave(fd);
}

/// `new` is a copy of `old` now.
pub fn copied(old: c_int, new: c_int) {
    if old == new || new < 0 || ring().is_none() || is_borrowed() {
        return;
    }
    let found = look(old);
    paths::forget(new);
    leave(new);
    let Some(entry) = DESCRIPTORS.get(new as usize) else { return };
    let Some(description) = found else {
        entry.store(UNKNOWN, Relaxed);
        return;
    };
    description.descriptors.fetch_add(1, Relaxed);
    let number = DESCRIPTORS[old as usize].load(Relaxed);
    entry.store(number, Relaxed);
    HIGHEST.fetch_max(new as u32 + 1, Relaxed);
}

/// Catches up with what stdio read and wrote unseen in all files, and returns the open descriptors' number.
pub fn catch_up_all() {
    for fd in 0..HIGHEST.load(Relaxed).min(LIMIT as u32) as c_int {
        if DESCRIPTORS[fd as usize].load(Relaxed) > IGNORED
            && let Some(description) = look(fd)
            && description.has(STDIO)
        {
            description.catch_up(fd, None);
        }
    }
}

/// Closes all descriptors from `first` to `last`, or those that an exec would close is left to the recorder.
pub fn closing_range(first: u32, last: u32) {
    paths::forget_all();
    for fd in first..=last.min(HIGHEST.load(Relaxed)) {
        closing(fd as c_int);
    }
}

impl Description {
    fn has(&self, bits: u16) -> bool {
        self.state.load(Relaxed) & bits == bits
    }

    pub fn handle(&self) -> u32 {
        self.handle.load(Relaxed)
    }

    /// Returns the bits that go along with transfers.
    fn flags(&self) -> u16 {
        self.state.load(Relaxed) & (flag::DIRECT | flag::SYNC)
    }

    /// From now on stdio, which reads and writes unseen, uses the file, too.
    pub fn give_to_stdio(&self) {
        self.state.fetch_or(STDIO, Relaxed);
    }

    pub fn set_flags(&self, open: c_int) {
        for (bit, is_set) in [(flag::DIRECT, open & O_DIRECT != 0), (flag::APPEND, open & O_APPEND != 0)] {
            if is_set {
                self.state.fetch_or(bit, Relaxed);
            } else {
                self.state.fetch_and(!bit, Relaxed);
            }
        }
    }

    /// Returns whether nobody but the functions of this library changes the position.
    fn is_own(&self) -> bool {
        self.state.load(Relaxed) & (STDIO | SHARED) == 0 && self.forks.load(Relaxed) == FORKS.load(Relaxed)
    }

    /// The position was set.
    pub fn seek(&self, position: i64) {
        self.position.store(position, Relaxed);
    }

    /// `bytes` were read at the position.
    pub fn read(&self, fd: c_int, bytes: u64) {
        let offset = self.advance(fd, bytes, false);
        emit_range(Kind::Read, self.flags(), offset, bytes, self.handle());
    }

    /// `bytes` were written at the position.
    pub fn write(&self, fd: c_int, bytes: u64) {
        let append = self.state.load(Relaxed) & flag::APPEND;
        let offset = self.advance(fd, bytes, append != 0);
        emit_range(Kind::Write, self.flags() | append, offset, bytes, self.handle());
    }

    /// `bytes` were read from `offset` on.
    pub fn read_at(&self, offset: i64, bytes: u64) {
        emit_range(Kind::Read, self.flags(), offset as u64, bytes, self.handle());
    }

    /// `bytes` were written from `offset` on; Linux writes at the end of a file that appends, wherever it is told to.
    pub fn write_at(&self, fd: c_int, offset: i64, bytes: u64) {
        let append = self.state.load(Relaxed) & flag::APPEND;
        let end = if append != 0 { sys::stat_descriptor(fd).map(|stat| stat.size.saturating_sub(bytes)) } else { None };
        emit_range(Kind::Write, self.flags() | append, end.unwrap_or(offset as u64), bytes, self.handle());
    }

    /// Moves the position behind `bytes` that were transferred, and returns where they began.
    fn advance(&self, fd: c_int, bytes: u64, is_at_end: bool) -> u64 {
        if self.is_own() && !is_at_end {
            return self.position.fetch_add(bytes as i64, Relaxed) as u64;
        }
        let after = sys::position(fd);
        self.position.store(after, Relaxed);
        (after as u64).saturating_sub(bytes)
    }

    /// Records what moved the position since it was last seen: what stdio read or wrote. `is_write` is `None` if that
    /// is not known.
    pub fn catch_up(&self, fd: c_int, is_write: Option<bool>) {
        let after = sys::position(fd);
        let before = self.position.swap(after, Relaxed);
        let is_write = is_write.unwrap_or(!self.has(READS)) && self.has(WRITES);
        if after <= before || before < 0 || !is_write && !self.has(READS) {
            return;
        }
        let kind = if is_write { Kind::Write } else { Kind::Read };
        emit_range(kind, self.flags(), before as u64, (after - before) as u64, self.handle());
    }
}
