//! Replaces the functions of stdio (`fread`, `fwrite` and others). Inside of libc, stdio transfers data without calling
//! a function that the shim could replace. So the shim compares the position of the descriptor before and after a call:
//! the bytes between the two positions were read or written. A call that the stream's buffer can serve does not move
//! the position, and is not examined.

use crate::files::{Description, O_APPEND, O_TRUNC, closing, look, opened};
use crate::hook::{quietly, replace};
use crate::pages::admit;
use crate::real::real;
use crate::ring::{emit, is_borrowed, ring};
use crate::sys;
use crate::wire::Kind;
use std::ffi::{c_char, c_int, c_long, c_void};

/// The beginning of glibc's `FILE`, as the macros of its header use it.
#[repr(C)]
pub struct File {
    flags: c_int,
    read_at: *mut u8,
    read_end: *mut u8,
    read_base: *mut u8,
    write_base: *mut u8,
    write_at: *mut u8,
    write_end: *mut u8,
}

type Stream = *mut File;
type Text = *const c_char;

unsafe extern "C" {
    fn fileno(stream: Stream) -> c_int;
    static mut stdin: Stream;
    static mut stdout: Stream;
}

/// Returns the number of bytes in a stream's buffer that the program can read without a system call.
fn readable(stream: Stream) -> usize {
    // SAFETY: streams are glibc's; a reader of the stream is in this thread, or the program has a race.
    unsafe { ((*stream).read_end as usize).saturating_sub((*stream).read_at as usize) }
}

/// Returns the number of bytes in a stream's buffer that are not written to the file yet.
fn pending(stream: Stream) -> usize {
    // SAFETY: as in `readable`.
    unsafe { ((*stream).write_at as usize).saturating_sub((*stream).write_base as usize) }
}

/// Returns the descriptor of a stdio stream, and the open file description behind it; `None` if the file is not
/// recorded. Also notes in the description that stdio uses the file.
fn file_of(stream: Stream) -> Option<(c_int, &'static Description)> {
    // SAFETY: the caller's stream.
    let fd = unsafe { fileno(stream) };
    let file = look(fd)?;
    file.give_to_stdio();
    Some((fd, file))
}

fn catch_up(stream: Stream, is_write: Option<bool>) {
    if !stream.is_null() && ring().is_some() {
        quietly(|| file_of(stream).inspect(|(fd, file)| file.catch_up(*fd, is_write)));
    }
}

/// Makes `call`, a call of stdio that reads at most `wanted` bytes from a stream. If the stream's buffer held fewer
/// bytes, stdio has read from the file, and the read is recorded.
fn read<T>(call: &dyn Fn() -> T, stream: Stream, wanted: usize) -> T {
    let is_served = readable(stream) >= wanted;
    let result = call();
    if !is_served {
        catch_up(stream, Some(false));
    }
    result
}

/// Makes `call`, a call of stdio that reads from a stream. `taken` returns the number of bytes that the call has read,
/// from the call's result; `None` if the result does not tell. If this number is unknown, or larger than the number of
/// bytes in the stream's buffer before the call, stdio has read from the file, and the read is recorded.
fn read_some<T>(call: &dyn Fn() -> T, stream: Stream, taken: impl Fn(&T) -> Option<usize>) -> T {
    let before = readable(stream);
    let result = call();
    if taken(&result).is_none_or(|bytes| bytes > before) {
        catch_up(stream, Some(false));
    }
    result
}

/// Makes `call`, a call of stdio that writes `bytes` bytes to a stream, and returns its result. Normally the bytes only
/// go to the stream's buffer, and nothing is recorded. If the buffer holds another number of bytes than before plus
/// `bytes`, stdio has written to the file, and this write is recorded.
fn write<T>(call: &dyn Fn() -> T, stream: Stream, bytes: usize) -> T {
    let before = pending(stream);
    let result = call();
    if pending(stream) != before + bytes {
        catch_up(stream, Some(true));
    }
    result
}

fn len(text: Text) -> usize {
    // SAFETY: the caller's C string.
    unsafe { std::ffi::CStr::from_ptr(text) }.count_bytes()
}

/// Returns the flags of `open` for a mode of `fopen`.
fn flags(mode: Text) -> c_int {
    // SAFETY: the caller's C string.
    let mode = unsafe { std::ffi::CStr::from_ptr(mode) }.to_bytes();
    let both = mode.contains(&b'+');
    match (mode.first(), both) {
        (Some(b'r'), false) => 0,
        (Some(b'w'), false) => 1 | O_TRUNC,
        (Some(b'a'), false) => 1 | O_APPEND,
        (Some(b'w'), true) => sys::O_RDWR | O_TRUNC,
        (Some(b'a'), true) => sys::O_RDWR | O_APPEND,
        _ => sys::O_RDWR,
    }
}

fn open(stream: Stream, mode: Text) -> Stream {
    if !stream.is_null() && ring().is_some() {
        quietly(|| {
            // SAFETY: libc's stream.
            let fd = unsafe { fileno(stream) };
            let flags = flags(mode);
            if let Some(file) = opened(fd, flags) {
                file.give_to_stdio();
                file.seek(sys::position(fd));
                if flags & O_TRUNC != 0 {
                    emit(Kind::Truncate, 0, 0, 0, file.handle());
                }
            }
        });
    }
    stream
}

/// Writes a stream's buffered bytes, records the write, and removes the stream's descriptor from the table.
fn leave(stream: Stream) {
    if stream.is_null() || ring().is_none() {
        return;
    }
    if pending(stream) > 0 {
        flush(stream);
    }
    // SAFETY: the caller's stream.
    quietly(|| closing(unsafe { fileno(stream) }));
}

/// Writes a stream's buffered bytes to its file and records the write. The stream is about to be closed, which would
/// otherwise write these bytes unseen.
fn flush(stream: Stream) {
    let real = real!(fflush: unsafe extern "C" fn(Stream) -> c_int);
    // SAFETY: the caller's stream.
    quietly(|| unsafe { real(stream) });
    catch_up(stream, Some(true));
}

replace! {
    [fopen, fopen64](path: Text, mode: Text) -> Stream => |call: &dyn Fn() -> Stream, _, mode| open(call(), mode);
    [freopen, freopen64](path: Text, mode: Text, stream: Stream) -> Stream =>
        |call: &dyn Fn() -> Stream, path: Text, mode, stream| {
            if path.is_null() {
                return call();
            }
            leave(stream);
            open(call(), mode)
        };
    [fdopen](fd: c_int, mode: Text) -> Stream => |call: &dyn Fn() -> Stream, fd, _| {
        quietly(|| look(fd).inspect(|file| file.give_to_stdio()));
        call()
    };
    [tmpfile, tmpfile64]() -> Stream => |call: &dyn Fn() -> Stream| open(call(), c"w+".as_ptr());
    [fclose](stream: Stream) -> c_int => |call: &dyn Fn() -> c_int, stream| {
        leave(stream);
        call()
    };
    [fread, fread_unlocked](to: *mut c_void, size: usize, count: usize, stream: Stream) -> usize =>
        |call, to: *mut c_void, size: usize, count, stream| {
            let wanted = size.saturating_mul(count);
            admit(to as usize, wanted, true);
            read(call, stream, wanted)
        };
    [__fread_chk, __fread_unlocked_chk](to: *mut c_void, room: usize, size: usize, count: usize, stream: Stream) -> usize =>
        |call, to: *mut c_void, _, size: usize, count, stream| {
            let wanted = size.saturating_mul(count);
            admit(to as usize, wanted, true);
            read(call, stream, wanted)
        };
    [fgetc, getc, _IO_getc, fgetc_unlocked, getc_unlocked, __uflow, __underflow](stream: Stream) -> c_int =>
        |call, stream| read(call, stream, 1);
    [fgets, fgets_unlocked](to: *mut c_char, size: c_int, stream: Stream) -> *mut c_char =>
        |call, _, _, stream| read_some(call, stream, |line: &*mut c_char| (!line.is_null()).then(|| len(*line)));
    [__fgets_chk](to: *mut c_char, room: usize, size: c_int, stream: Stream) -> *mut c_char =>
        |call, _, _, _, stream| read_some(call, stream, |line: &*mut c_char| (!line.is_null()).then(|| len(*line)));
    [getline](line: *mut *mut c_char, room: *mut usize, stream: Stream) -> isize =>
        |call, _, _, stream| read_some(call, stream, |bytes| usize::try_from(*bytes).ok());
    [getdelim, __getdelim](line: *mut *mut c_char, room: *mut usize, end: c_int, stream: Stream) -> isize =>
        |call, _, _, _, stream| read_some(call, stream, |bytes| usize::try_from(*bytes).ok());
    // SAFETY: libc's own stream.
    [getchar, getchar_unlocked]() -> c_int => |call| read(call, unsafe { stdin }, 1);
    [fwrite, fwrite_unlocked](from: *const c_void, size: usize, count: usize, stream: Stream) -> usize =>
        |call, from: *const c_void, size: usize, count, stream| {
            let bytes = size.saturating_mul(count);
            admit(from as usize, bytes, false);
            write(call, stream, bytes)
        };
    [fputs, fputs_unlocked](text: Text, stream: Stream) -> c_int => |call, text, stream| write(call, stream, len(text));
    // SAFETY: libc's own stream.
    [puts](text: Text) -> c_int => |call, text| write(call, unsafe { stdout }, len(text) + 1);
    [fputc, putc, _IO_putc, fputc_unlocked, putc_unlocked](byte: c_int, stream: Stream) -> c_int =>
        |call, _, stream| write(call, stream, 1);
    [__overflow](stream: Stream, byte: c_int) -> c_int => |call, stream, _| write(call, stream, 1);
    // SAFETY: libc's own stream.
    [putchar, putchar_unlocked](byte: c_int) -> c_int => |call, _| write(call, unsafe { stdout }, 1);
    [fflush, fflush_unlocked](stream: Stream) -> c_int => |call: &dyn Fn() -> c_int, stream: Stream| {
        let result = call();
        if stream.is_null() {
            quietly(crate::files::catch_up_all);
        } else {
            catch_up(stream, None);
        }
        result
    };
    [fseek](stream: Stream, offset: c_long, whence: c_int) -> c_int => |call, stream, _, _| seek(call, stream);
    [fseeko, fseeko64](stream: Stream, offset: i64, whence: c_int) -> c_int => |call, stream, _, _| seek(call, stream);
    [fsetpos, fsetpos64](stream: Stream, to: *const c_void) -> c_int => |call, stream, _| seek(call, stream);
    [rewind](stream: Stream) -> () => |call, stream| seek(call, stream);
}

/// Records a seek of a stream. Before it, stdio writes the stream's buffer; after it, stdio may read a buffer.
fn seek<T>(call: &dyn Fn() -> T, stream: Stream) -> T {
    if pending(stream) > 0 {
        flush(stream);
    } else {
        catch_up(stream, None);
    }
    let before = quietly(|| file_of(stream).map_or(-1, |(fd, _)| sys::position(fd)));
    let result = call();
    if before >= 0 && ring().is_some() {
        quietly(|| {
            if let Some((fd, file)) = file_of(stream) {
                let after = sys::position(fd);
                // SAFETY: as in `readable`.
                let held = unsafe { ((*stream).read_end as usize).saturating_sub((*stream).read_base as usize) };
                file.seek(after);
                if after != before && held > 0 {
                    file.read_at(after - held as i64, held as u64);
                }
            }
        });
    }
    result
}

/// Does the work that is left when the process exits by itself: writes the buffers of stdio, and records the transfers
/// that are not recorded yet.
pub fn end() {
    if ring().is_none() || is_borrowed() {
        return;
    }
    let real = real!(fflush: unsafe extern "C" fn(Stream) -> c_int);
    // SAFETY: null is all streams.
    unsafe { real(std::ptr::null_mut()) };
    crate::files::catch_up_all();
}
