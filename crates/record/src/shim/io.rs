//! Replaces the functions of libc that read, write and seek by file descriptor.

use crate::files::{copied, look};
use crate::hook::{quietly, replace};
use crate::pages::{admit, admit_parts};
use crate::real::real;
use crate::ring::{count, emit, emit_range};
use crate::sys::Part;
use crate::wire::{Blind, Kind, advice};
use std::ffi::{c_int, c_long, c_uint, c_void};

type Buffer = *mut c_void;

/// Records a read at the file position of a descriptor.
fn read_here(call: &dyn Fn() -> isize, fd: c_int) -> isize {
    let bytes = call();
    if bytes > 0 {
        quietly(|| look(fd).inspect(|it| it.read(fd, bytes as u64)));
    }
    bytes
}

fn write_here(call: &dyn Fn() -> isize, fd: c_int) -> isize {
    let bytes = call();
    if bytes > 0 {
        quietly(|| look(fd).inspect(|it| it.write(fd, bytes as u64)));
    }
    bytes
}

fn read_at(call: &dyn Fn() -> isize, fd: c_int, offset: i64) -> isize {
    let bytes = call();
    if bytes > 0 {
        quietly(|| look(fd).inspect(|it| it.read_at(offset, bytes as u64)));
    }
    bytes
}

fn write_at(call: &dyn Fn() -> isize, fd: c_int, offset: i64) -> isize {
    let bytes = call();
    if bytes > 0 {
        quietly(|| look(fd).inspect(|it| it.write_at(fd, offset, bytes as u64)));
    }
    bytes
}

replace! {
    [read](fd: c_int, to: Buffer, len: usize) -> isize => |call, fd, to: Buffer, len| {
        admit(to as usize, len, true);
        read_here(call, fd)
    };
    [__read_chk](fd: c_int, to: Buffer, len: usize, room: usize) -> isize => |call, fd, to: Buffer, len, _| {
        admit(to as usize, len, true);
        read_here(call, fd)
    };
    [write](fd: c_int, from: Buffer, len: usize) -> isize => |call, fd, from: Buffer, len| {
        admit(from as usize, len, false);
        write_here(call, fd)
    };
    [pread, pread64](fd: c_int, to: Buffer, len: usize, at: i64) -> isize => |call, fd, to: Buffer, len, at| {
        admit(to as usize, len, true);
        read_at(call, fd, at)
    };
    [__pread_chk, __pread64_chk](fd: c_int, to: Buffer, len: usize, at: i64, room: usize) -> isize =>
        |call, fd, to: Buffer, len, at, _| {
            admit(to as usize, len, true);
            read_at(call, fd, at)
        };
    [pwrite, pwrite64](fd: c_int, from: Buffer, len: usize, at: i64) -> isize => |call, fd, from: Buffer, len, at| {
        admit(from as usize, len, false);
        write_at(call, fd, at)
    };
    [readv](fd: c_int, parts: *const Part, count: c_int) -> isize => |call, fd, parts, count| {
        admit_parts(parts, count, true);
        read_here(call, fd)
    };
    [writev](fd: c_int, parts: *const Part, count: c_int) -> isize => |call, fd, parts, count| {
        admit_parts(parts, count, false);
        write_here(call, fd)
    };
    [preadv, preadv64](fd: c_int, parts: *const Part, count: c_int, at: i64) -> isize => |call, fd, parts, count, at| {
        admit_parts(parts, count, true);
        read_at(call, fd, at)
    };
    [pwritev, pwritev64](fd: c_int, parts: *const Part, count: c_int, at: i64) -> isize =>
        |call, fd, parts, count, at| {
            admit_parts(parts, count, false);
            write_at(call, fd, at)
        };
    [preadv2, preadv64v2](fd: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize =>
        |call, fd, parts, count, at, _| {
            admit_parts(parts, count, true);
            if at == -1 { read_here(call, fd) } else { read_at(call, fd, at) }
        };
    [pwritev2, pwritev64v2](fd: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize =>
        |call, fd, parts, count, at, _| {
            admit_parts(parts, count, false);
            if at == -1 { write_here(call, fd) } else { write_at(call, fd, at) }
        };
    [lseek, lseek64](fd: c_int, offset: i64, whence: c_int) -> i64 => |call: &dyn Fn() -> i64, fd, _, _| {
        let position = call();
        if position >= 0 {
            quietly(|| look(fd).inspect(|it| it.seek(position)));
        }
        position
    };
    [fsync, fdatasync](fd: c_int) -> c_int => |call: &dyn Fn() -> c_int, fd| {
        quietly(|| look(fd).inspect(|it| emit(Kind::Sync, 0, 0, 0, it.handle())));
        call()
    };
    [sync_file_range](fd: c_int, offset: i64, len: i64, flags: c_uint) -> c_int =>
        |call: &dyn Fn() -> c_int, fd, offset, len, _| {
            quietly(|| look(fd).inspect(|it| emit_range(Kind::Sync, 0, offset as u64, len as u64, it.handle())));
            call()
        };
    [posix_fadvise, posix_fadvise64](fd: c_int, offset: i64, len: i64, code: c_int) -> c_int =>
        |call: &dyn Fn() -> c_int, fd, offset, len, code| {
            const CODES: [u16; 6] = [
                advice::NORMAL, advice::RANDOM, advice::SEQUENTIAL, advice::WILL_NEED, advice::DONT_NEED,
                advice::NO_REUSE,
            ];
            if let Some(advice) = usize::try_from(code).ok().and_then(|code| CODES.get(code)) {
                let tell = |handle| emit_range(Kind::Advise, *advice, offset as u64, len as u64, handle);
                quietly(|| look(fd).inspect(|it| tell(it.handle())));
            }
            call()
        };
    [readahead](fd: c_int, offset: i64, len: usize) -> isize => |call: &dyn Fn() -> isize, fd, offset, len| {
        let tell = |handle| emit_range(Kind::Advise, advice::WILL_NEED, offset as u64, len as u64, handle);
        quietly(|| look(fd).inspect(|it| tell(it.handle())));
        call()
    };
    [ftruncate, ftruncate64](fd: c_int, size: i64) -> c_int => |call: &dyn Fn() -> c_int, fd, size| {
        let result = call();
        if result == 0 {
            quietly(|| look(fd).inspect(|it| emit(Kind::Truncate, 0, size as u64, 0, it.handle())));
        }
        result
    };
    [fallocate, fallocate64](fd: c_int, mode: c_int, offset: i64, len: i64) -> c_int =>
        |call: &dyn Fn() -> c_int, fd, mode, offset, len| {
            let result = call();
            const PUNCH_HOLE: c_int = 2;
            if result == 0 && mode & PUNCH_HOLE != 0 {
                quietly(|| look(fd).inspect(|it| emit_range(Kind::Punch, 0, offset as u64, len as u64, it.handle())));
            }
            result
        };
    [sendfile, sendfile64](out: c_int, from: c_int, offset: *mut i64, len: usize) -> isize =>
        |call, out, from, offset, _| transfer(call, [from, out], [offset, std::ptr::null_mut()]);
    [copy_file_range](from: c_int, offset: *mut i64, out: c_int, to: *mut i64, len: usize, flags: c_uint) -> isize =>
        |call, from, offset, out, to, _, _| transfer(call, [from, out], [offset, to]);
    [splice](from: c_int, offset: *mut i64, out: c_int, to: *mut i64, len: usize, flags: c_uint) -> isize =>
        |call, from, offset, out, to, _, _| transfer(call, [from, out], [offset, to]);
    [close](fd: c_int) -> c_int => |call: &dyn Fn() -> c_int, fd| {
        quietly(|| crate::files::closing(fd));
        call()
    };
    [close_range](first: c_uint, last: c_uint, flags: c_int) -> c_int => |call: &dyn Fn() -> c_int, first, last, flags| {
        const CLOSE_ON_EXEC: c_int = 4;
        if flags & CLOSE_ON_EXEC == 0 {
            quietly(|| crate::files::closing_range(first, last));
        }
        call()
    };
    [closefrom](first: c_int) -> () => |call: &dyn Fn(), first: c_int| {
        quietly(|| crate::files::closing_range(first.max(0) as c_uint, c_uint::MAX));
        call()
    };
    [dup](fd: c_int) -> c_int => |call: &dyn Fn() -> c_int, fd| {
        let new = call();
        quietly(|| copied(fd, new));
        new
    };
    [dup2](fd: c_int, to: c_int) -> c_int => |call: &dyn Fn() -> c_int, fd, _| {
        let new = call();
        quietly(|| copied(fd, new));
        new
    };
    [dup3](fd: c_int, to: c_int, flags: c_int) -> c_int => |call: &dyn Fn() -> c_int, fd, _, _| {
        let new = call();
        quietly(|| copied(fd, new));
        new
    };
    [fcntl, fcntl64, __fcntl](fd: c_int, command: c_int, argument: usize) -> c_int =>
        |call: &dyn Fn() -> c_int, fd, command, argument| {
            const DUPLICATE: c_int = 0;
            const DUPLICATE_CLOSED: c_int = 1030;
            const SET_FLAGS: c_int = 4;
            let result = call();
            match command {
                DUPLICATE | DUPLICATE_CLOSED => quietly(|| copied(fd, result)),
                SET_FLAGS if result == 0 => {
                    quietly(|| look(fd).inspect(|it| it.set_flags(argument as c_int)));
                }
                _ => {}
            }
            result
        };
}

/// Records a transfer from one descriptor to another, such as `sendfile`. An offset that is not null is the position in
/// its file; otherwise the file position of the descriptor counts.
fn transfer(call: &dyn Fn() -> isize, [from, to]: [c_int; 2], offsets: [*mut i64; 2]) -> isize {
    // SAFETY: the caller's offsets are places or null.
    let [read, written] = offsets.map(|offset| unsafe { offset.as_ref().copied() });
    let bytes = call();
    if bytes > 0 {
        quietly(|| {
            let count = bytes as u64;
            if let Some(file) = look(from) {
                read.map_or_else(|| file.read(from, count), |at| file.read_at(at, count));
            }
            if let Some(file) = look(to) {
                written.map_or_else(|| file.write(to, count), |at| file.write_at(to, at, count));
            }
        });
    }
    bytes
}

/// Replaces `syscall`, to count raw system calls that read or write files and that this library cannot record.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    if let Some(blind) = blind(number) {
        count(blind);
    }
    let real = real!(syscall: unsafe extern "C" fn(c_long, ...) -> c_long);
    // SAFETY: the caller's promise; superfluous arguments are ignored.
    unsafe { real(number, a, b, c, d, e, f) }
}

/// Returns the counter for a raw system call (`syscall`) that the shim cannot record; `None` if calls with this number
/// are not counted.
fn blind(number: c_long) -> Option<Blind> {
    #[cfg(target_arch = "x86_64")]
    const TRANSFERS: &[c_long] = &[0, 1, 9, 17, 18, 19, 20, 40, 295, 296, 326, 327, 328];
    #[cfg(target_arch = "aarch64")]
    const TRANSFERS: &[c_long] = &[63, 64, 65, 66, 67, 68, 69, 70, 71, 222, 285, 286, 287];
    #[cfg(target_arch = "x86_64")]
    const SUBMIT: c_long = 209;
    #[cfg(target_arch = "aarch64")]
    const SUBMIT: c_long = 2;
    const IO_URING_SETUP: c_long = 425;
    match number {
        IO_URING_SETUP => Some(Blind::IoUring),
        SUBMIT => Some(Blind::Aio),
        _ if TRANSFERS.contains(&number) => Some(Blind::RawCall),
        _ => None,
    }
}
