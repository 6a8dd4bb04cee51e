//! Remembers the paths of open folders. The path of a file that is opened in such a folder then needs no system call.

use crate::sys::{self, AT_FDCWD};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Number of folders whose paths are kept. The first one is the working directory.
const FOLDERS: usize = 64;
const PATH_MAX: usize = 1024;
/// The value of [`Folder::fd`] in an entry of [`REMEMBERED`] that is free.
const NONE: c_int = -1;

struct Folder {
    /// The folder's file descriptor; [`AT_FDCWD`] for the working folder; [`NONE`] if the entry is free.
    fd: AtomicI32,
    is_locked: AtomicBool,
    /// The path, and its length. Only the thread that has set `is_locked` uses them.
    path: UnsafeCell<([u8; PATH_MAX], usize)>,
}

// SAFETY: the path is only used under the lock.
unsafe impl Sync for Folder {}

static REMEMBERED: [Folder; FOLDERS] = [const {
    Folder { fd: AtomicI32::new(NONE), is_locked: AtomicBool::new(false), path: UnsafeCell::new(([0; PATH_MAX], 0)) }
}; FOLDERS];

fn place(folder: c_int) -> &'static Folder {
    let at = if folder == AT_FDCWD { 0 } else { 1 + folder.unsigned_abs() as usize % (FOLDERS - 1) };
    &REMEMBERED[at]
}

/// Writes the path of a file, which was opened as `name` in `folder`, into `buffer`. Returns the length of the path,
/// bytes; 0 if only the kernel can tell the path.
///
/// # Safety
/// `name` is a C string.
pub unsafe fn write(folder: c_int, name: *const c_char, buffer: &mut [u8]) -> usize {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    // Names there may stand for others, and `..` for any folder.
    let is_special = |path: &[u8]| path.starts_with(b"/proc/") || path.starts_with(b"/dev/");
    if name.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return 0;
    }
    if name.starts_with(b"/") {
        return if is_special(name) { 0 } else { join(&[name], buffer) };
    }
    let name = name.strip_prefix(b"./").unwrap_or(name);
    let place = place(folder);
    // A thread, or a signal handler, that comes in between asks the kernel.
    if place.is_locked.swap(true, Ordering::Acquire) {
        return 0;
    }
    // SAFETY: this thread has the lock.
    let (path, len) = unsafe { &mut *place.path.get() };
    if place.fd.load(Ordering::Relaxed) != folder {
        *len = sys::path_of(folder, path);
        place.fd.store(if *len < PATH_MAX { folder } else { NONE }, Ordering::Relaxed);
    }
    let path = path.get(..*len).unwrap_or_default();
    let is_known = place.fd.load(Ordering::Relaxed) == folder && path.starts_with(b"/") && !is_special(path);
    let slash: &[u8] = if path == b"/" { b"" } else { b"/" };
    let written = if is_known { join(&[path, slash, name], buffer) } else { 0 };
    place.is_locked.store(false, Ordering::Release);
    written
}

/// Writes the parts one after the other to `buffer`. Returns their total length, bytes; 0 if the buffer is too small.
fn join(parts: &[&[u8]], buffer: &mut [u8]) -> usize {
    let mut at = 0;
    for part in parts {
        let Some(to) = buffer.get_mut(at..at + part.len()) else { return 0 };
        to.copy_from_slice(part);
        at += part.len();
    }
    at
}

/// Forgets the path of a folder whose descriptor was closed or now refers to another folder.
pub fn forget(fd: c_int) {
    let place = place(fd);
    if place.fd.load(Ordering::Relaxed) == fd {
        place.fd.store(NONE, Ordering::Relaxed);
    }
}

/// Forgets the paths of all folders, because a rename may have changed them.
pub fn forget_all() {
    REMEMBERED.iter().for_each(|folder| folder.fd.store(NONE, Ordering::Relaxed));
}
