//! Replaces the functions of libc that open, rename, remove and truncate files by path, and those that open or close
//! folders, or change the working or the root folder.

use crate::files::{Name, O_TRUNC, forget_paths, opened, opened_as};
use crate::hook::{quietly, replace};
use crate::pages::admit_text;
use crate::paths;
use crate::real::real;
use crate::ring::{emit, emit_text, ring};
use crate::sys::{self, AT_FDCWD, Stat};
use crate::wire::{Kind, flag};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

type Path = *const c_char;

unsafe extern "C" {
    fn dirfd(stream: *mut c_void) -> c_int;
}

/// Defines replacements for functions such as `open`, whose arguments are a path, flags and an optional mode. The mode
/// is a variadic argument in C. On the supported processors it is passed like any other argument.
macro_rules! opens {
    ($([$($name:ident),+] $folder:tt;)+) => {
        $($(opens!(@ $name $folder);)+)+
    };
    (@ $name:ident ()) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: Path, flags: c_int, mode: c_uint) -> c_int {
            admit_text(path);
            let real = real!($name: unsafe extern "C" fn(Path, c_int, ...) -> c_int);
            // SAFETY: the caller's promise to libc's function of this name.
            note(unsafe { real(path, flags, mode) }, flags, (AT_FDCWD, path))
        }
    };
    (@ $name:ident ($folder:ident)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($folder: c_int, path: Path, flags: c_int, mode: c_uint) -> c_int {
            admit_text(path);
            let real = real!($name: unsafe extern "C" fn(c_int, Path, c_int, ...) -> c_int);
            // SAFETY: the caller's promise to libc's function of this name.
            note(unsafe { real($folder, path, flags, mode) }, flags, ($folder, path))
        }
    };
}

opens! {
    [open, open64, __open_2, __open64_2]();
    [openat, openat64, __openat_2, __openat64_2](folder);
}

/// Records that a file was opened as the descriptor `fd`, unless `fd` is negative because the call failed. Returns
/// `fd`.
fn note(fd: c_int, flags: c_int, name: Name) -> c_int {
    if fd >= 0 {
        quietly(|| {
            // SAFETY: libc has just opened this path.
            if let Some(file) = unsafe { opened_as(fd, flags, name) }
                && flags & O_TRUNC != 0
            {
                emit(Kind::Truncate, 0, 0, 0, file.handle());
            }
        });
    }
    fd
}

replace! {
    [creat, creat64](path: Path, mode: c_uint) -> c_int => |call: &dyn Fn() -> c_int, path, _| {
        admit_text(path);
        const O_WRONLY: c_int = 1;
        note(call(), O_WRONLY | O_TRUNC, (AT_FDCWD, path))
    };
    [mkstemp, mkstemp64](path: *mut c_char) -> c_int => |call: &dyn Fn() -> c_int, path: *mut c_char| {
        note(call(), sys::O_RDWR, (AT_FDCWD, path))
    };
    [mkostemp, mkostemp64](path: *mut c_char, flags: c_int) -> c_int =>
        |call: &dyn Fn() -> c_int, path: *mut c_char, flags| {
            note(call(), sys::O_RDWR | flags, (AT_FDCWD, path))
        };
    [truncate, truncate64](path: Path, size: i64) -> c_int => |call: &dyn Fn() -> c_int, path: Path, size| {
        admit_text(path);
        let result = call();
        if result == 0 && ring().is_some() {
            quietly(|| truncated(path, size));
        }
        result
    };
    [unlink](path: Path) -> c_int => |call, path| removes(call, AT_FDCWD, path);
    [unlinkat](folder: c_int, path: Path, flags: c_int) -> c_int => |call, folder, path, _| removes(call, folder, path);
    [remove](path: Path) -> c_int => |call, path| removes(call, AT_FDCWD, path);
    [rename](old: Path, new: Path) -> c_int => |call, old, new| renames(call, [AT_FDCWD; 2], [old, new], 0);
    [renameat](from: c_int, old: Path, to: c_int, new: Path) -> c_int =>
        |call, from, old, to, new| renames(call, [from, to], [old, new], 0);
    [renameat2](from: c_int, old: Path, to: c_int, new: Path, flags: c_uint) -> c_int =>
        |call, from, old, to, new, flags| renames(call, [from, to], [old, new], flags);
}

/// Records that the file at `path` was truncated to `size` bytes. Opens the file for this, because the program may not
/// have it open.
fn truncated(path: Path, size: i64) {
    // SAFETY: the caller's path.
    let fd = unsafe { sys::open(path) };
    if let Some(file) = opened(fd, sys::O_RDWR) {
        emit(Kind::Truncate, 0, size as u64, 0, file.handle());
        crate::files::leave(fd);
    }
    if fd >= 0 {
        sys::close(fd);
    }
}

/// Returns the metadata of the file at a path if the file is a regular one and a recording is running.
fn before(folder: c_int, path: Path) -> Option<Stat> {
    ring()?;
    // SAFETY: the caller's path.
    unsafe { sys::stat_name(folder, path) }.filter(Stat::is_regular)
}

/// Packs the major and the minor number of a file's device into one number.
fn device(stat: &Stat) -> u32 {
    stat.device[0] << 20 | stat.device[1] & 0xf_ffff
}

fn tell_deleted(stat: &Stat) {
    let flags = if stat.links == 1 { flag::LAST_NAME } else { 0 };
    emit(Kind::Delete, flags, stat.inode, 0, device(stat));
}

fn removes(call: &dyn Fn() -> c_int, folder: c_int, path: Path) -> c_int {
    admit_text(path);
    let gone = quietly(|| before(folder, path));
    let result = call();
    if result == 0
        && let Some(stat) = gone
    {
        quietly(|| {
            forget_paths();
            tell_deleted(&stat);
        });
    }
    result
}

fn renames(call: &dyn Fn() -> c_int, folders: [c_int; 2], [old, new]: [Path; 2], flags: c_uint) -> c_int {
    const EXCHANGE: c_uint = 2;
    for path in [old, new] {
        admit_text(path);
    }
    let moved = quietly(|| before(folders[0], old));
    let target = quietly(|| before(folders[1], new)).filter(|_| flags & EXCHANGE == 0);
    let result = call();
    if result == 0 {
        quietly(|| {
            forget_paths();
            if let Some(stat) = target.filter(|it| moved.is_none_or(|moved| moved.inode != it.inode)) {
                tell_deleted(&stat);
            }
            if let Some(stat) = moved {
                // SAFETY: the caller's paths.
                let [old, new] = [old, new].map(|path| unsafe { CStr::from_ptr(path) }.to_bytes());
                emit_text(Kind::Rename, 0, stat.inode, 0, device(&stat), &[old, b"\0", new]);
            }
        });
    }
    result
}

fn forget_stream(stream: *mut c_void) {
    if !stream.is_null() {
        // SAFETY: the caller's stream.
        paths::forget(unsafe { dirfd(stream) });
    }
}

replace! {
    [chdir](path: Path) -> c_int => |call: &dyn Fn() -> c_int, path| {
        admit_text(path);
        let result = call();
        paths::forget(AT_FDCWD);
        result
    };
    [fchdir](fd: c_int) -> c_int => |call: &dyn Fn() -> c_int, _| {
        let result = call();
        paths::forget(AT_FDCWD);
        result
    };
    [chroot](path: Path) -> c_int => |call: &dyn Fn() -> c_int, _| {
        let result = call();
        paths::forget_all();
        result
    };
    [opendir](path: Path) -> *mut c_void => |call: &dyn Fn() -> *mut c_void, path| {
        admit_text(path);
        let stream = call();
        quietly(|| forget_stream(stream));
        stream
    };
    [closedir](stream: *mut c_void) -> c_int => |call: &dyn Fn() -> c_int, stream| {
        quietly(|| forget_stream(stream));
        call()
    };
}
