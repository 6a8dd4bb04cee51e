//! The open files of this process: the open file description to which each descriptor refers, and the file position of
//! each description.

use crate::paths;
use crate::ring::{count, emit, emit_range, emit_text, is_borrowed, next_handle, ring};
use crate::sys::{self, Stat};
use crate::wire::{Blind, Kind, OpenText, flag};
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Largest number of file descriptors, and of open file descriptions, that are recorded.
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

/// Set if C streams (stdio) use the file, whose reads and writes the shim cannot see. This and the following constants
/// are bits of [`Description::state`], in addition to those of [`flag`].
const STDIO: u16 = 1 << 8;
const SHARED: u16 = 1 << 9;
const READS: u16 = 1 << 10;
const WRITES: u16 = 1 << 11;

/// An open file description that refers to a regular file or a block device.
pub struct Description {
    /// Number of file descriptors that refer to this open file description; 0 if this entry of the table is free.
    descriptors: AtomicU32,
    pub handle: AtomicU32,
    state: AtomicU16,
    /// Number of forks of the process before the file was opened. After a later fork, a child shares the file position.
    forks: AtomicU32,
    position: AtomicI64,
}

/// For each descriptor: [`UNKNOWN`], [`IGNORED`], or 2 plus the index of its open file description in [`DESCRIPTIONS`].
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
/// One more than the highest file descriptor that ever had a [`Description`].
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// Keys of files whose paths this process has sent to the recorder. A key is computed from the file's device and inode.
/// Its highest 12 bits are its index in this table. 0 is an empty place.
static TOLD: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// The descriptor of a folder, and a path relative to this folder; the path is null if unknown.
pub type Name = (c_int, *const c_char);
const NAMELESS: Name = (sys::AT_FDCWD, std::ptr::null());

/// Notes that the process has forked, so that the child shares the file positions of all open files.
pub fn note_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// Returns the open file description of a descriptor; `None` if its file is not recorded.
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

/// Adds a descriptor that is not in the table yet: the process opened the descriptor before this library was loaded, or
/// by a call that the library does not replace. Returns the descriptor's open file description; `None` if its file is
/// not recorded.
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

/// Adds to the table a descriptor that a call of libc has just returned. Returns the descriptor's open file
/// description; `None` if the file is not recorded.
///
/// # Safety
/// The path in `name` must be null or a C string.
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

/// Adds to the table a descriptor that libc has just opened for a file whose path is unknown. Returns the same as
/// [`opened_as`].
pub fn opened(fd: c_int, flags: c_int) -> Option<&'static Description> {
    // SAFETY: there is no name.
    unsafe { opened_as(fd, flags, NAMELESS) }
}

/// Adds an open file description for a descriptor, and records the opening. Does nothing if the file is neither a
/// regular file nor a block device.
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

/// Takes the first free entry of [`DESCRIPTIONS`] from the index `fd` on, or else the first one before it. Returns the
/// entry with its index; `None` if no entry is free.
fn take(fd: usize) -> Option<(usize, &'static Description)> {
    let (before, behind) = DESCRIPTIONS.split_at(fd);
    let all = behind.iter().enumerate().map(|(at, it)| (fd + at, it)).chain(before.iter().enumerate());
    let free = |it: &Description| it.descriptors.compare_exchange(0, 1, Relaxed, Relaxed).is_ok();
    all.into_iter().find(|(_, it)| free(it))
}

/// Records the opening of a file. The event has the file's path, unless the recorder has the path already.
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

/// Forgets which paths the recorder knows, because a file was renamed or removed. The next opening of each file sends
/// the file's path to the recorder again.
pub fn forget_paths() {
    TOLD.iter().for_each(|told| told.store(0, Relaxed));
    paths::forget_all();
}

/// Removes a descriptor from the table. If it was the last one of its open file description, records that the
/// description was closed.
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

/// Records that the program is about to close a descriptor.
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

/// Records that the descriptor `new` is now a duplicate of `old` (`dup`).
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

/// Records the reads and writes that stdio has made in all open files and that this library has not seen.
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

/// Records that the program is about to close all descriptors from `first` to `last`.
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

    /// Returns the [`flag`] bits that events about reads and writes of this file get.
    fn flags(&self) -> u16 {
        self.state.load(Relaxed) & (flag::DIRECT | flag::SYNC)
    }

    /// Notes that stdio uses the file from now on. This recording library (the shim) cannot see the reads and writes
    /// that stdio makes.
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

    /// Returns whether only calls that the shim sees can change the file's position.
    fn is_own(&self) -> bool {
        self.state.load(Relaxed) & (STDIO | SHARED) == 0 && self.forks.load(Relaxed) == FORKS.load(Relaxed)
    }

    /// Records that the program has set the file position.
    pub fn seek(&self, position: i64) {
        self.position.store(position, Relaxed);
    }

    /// Records a read of `bytes` bytes at the file position, and advances the position.
    pub fn read(&self, fd: c_int, bytes: u64) {
        let offset = self.advance(fd, bytes, false);
        emit_range(Kind::Read, self.flags(), offset, bytes, self.handle());
    }

    /// Records a write of `bytes` bytes at the file position, or at the end of a file that was opened to append.
    pub fn write(&self, fd: c_int, bytes: u64) {
        let append = self.state.load(Relaxed) & flag::APPEND;
        let offset = self.advance(fd, bytes, append != 0);
        emit_range(Kind::Write, self.flags() | append, offset, bytes, self.handle());
    }

    /// Records a read of `bytes` bytes from `offset` on. The file position does not change.
    pub fn read_at(&self, offset: i64, bytes: u64) {
        emit_range(Kind::Read, self.flags(), offset as u64, bytes, self.handle());
    }

    /// Records a write of `bytes` bytes from `offset` on. If the file was opened to append, Linux ignores `offset` and
    /// writes at the end.
    pub fn write_at(&self, fd: c_int, offset: i64, bytes: u64) {
        let append = self.state.load(Relaxed) & flag::APPEND;
        let end = if append != 0 { sys::stat_descriptor(fd).map(|stat| stat.size.saturating_sub(bytes)) } else { None };
        emit_range(Kind::Write, self.flags() | append, end.unwrap_or(offset as u64), bytes, self.handle());
    }

    /// Moves the file's position past `bytes` transferred bytes. Returns the offset at which the transfer began.
    fn advance(&self, fd: c_int, bytes: u64, is_at_end: bool) -> u64 {
        if self.is_own() && !is_at_end {
            return self.position.fetch_add(bytes as i64, Relaxed) as u64;
        }
        let after = sys::position(fd);
        self.position.store(after, Relaxed);
        (after as u64).saturating_sub(bytes)
    }

    /// Records a read or write of stdio, if the file's position has moved forward since the last call. `is_write` is
    /// `None` if the caller does not know whether stdio read or wrote.
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
