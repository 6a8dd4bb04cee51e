//! The methods of an open database file, which SQLite calls: each turns its arguments into those of a method of
//! [`Connection`], and the outcome into a result code.

#![allow(unsafe_code)]

use crate::connection::Connection;
use crate::failure::{Failure, Outcome};
use crate::lock::Level;
use crate::vfs::State;
use libsqlite3_sys::{self as ffi, sqlite3_file, sqlite3_int64, sqlite3_io_methods};
use std::ffi::{c_int, c_void};

/// A file of this VFS, in memory that SQLite provides.
#[repr(C)]
pub(crate) struct OpenFile {
    base: sqlite3_file,
    connection: *mut Connection,
    state: *const State,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

/// Makes an open file of a connection.
///
/// # Safety
/// At `file` there must be room for an [`OpenFile`], which is aligned for pointers.
pub(crate) unsafe fn place(file: *mut sqlite3_file, connection: Connection, state: &'static State) {
    let connection = Box::into_raw(Box::new(connection));
    let open = OpenFile { base: sqlite3_file { pMethods: &raw const METHODS }, connection, state };
    // SAFETY: there is room, as the caller promises.
    unsafe { file.cast::<OpenFile>().write(open) };
}

/// Runs `call` for the connection of an open file, and returns a result code.
///
/// # Safety
/// `file` must be one that [`place`] has made and that is not closed. No other thread may use it meanwhile; SQLite ensures
/// this by the mutex of the connection.
unsafe fn with(file: *mut sqlite3_file, on_panic: c_int, call: impl FnOnce(&mut Connection) -> Outcome) -> c_int {
    // SAFETY: the file is open, and this thread alone uses it, as the caller promises. The state is never freed.
    let (connection, state) = unsafe {
        let open = &*file.cast::<OpenFile>();
        (&mut *open.connection, &*open.state)
    };
    state.answer(on_panic, || {
        call(connection).inspect_err(|failure| {
            if failure.errno != 0 {
                connection.last_errno = failure.errno;
            }
        })
    })
}

/// Returns an offset or a length that SQLite passed.
fn count(number: impl TryInto<u64>, code: c_int) -> Outcome<u64> {
    number.try_into().map_err(|_| Failure::new(code, "a negative offset or length"))
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: `place` has made the file, and SQLite closes it once. The state is never freed.
    let (connection, state) = unsafe {
        let open = &mut *file.cast::<OpenFile>();
        open.base.pMethods = std::ptr::null();
        (Box::from_raw(open.connection), &*open.state)
    };
    state.answer(ffi::SQLITE_IOERR_CLOSE, || State::close(*connection))
}

unsafe extern "C" fn read(file: *mut sqlite3_file, buffer: *mut c_void, amount: c_int, offset: sqlite3_int64) -> c_int {
    let code = ffi::SQLITE_IOERR_READ;
    let read = |connection: &mut Connection| {
        let (offset, amount) = (count(offset, code)?, count(amount, code)?);
        // SAFETY: SQLite passes a buffer of `amount` bytes, in memory that it got from C, and uses it for nothing else
        // meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), amount as usize) };
        connection.read(bytes, offset)
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, code, read) }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    buffer: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let code = ffi::SQLITE_IOERR_WRITE;
    let write = |connection: &mut Connection| {
        let (offset, amount) = (count(offset, code)?, count(amount, code)?);
        // SAFETY: SQLite passes a buffer of `amount` bytes, and does not change it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), amount as usize) };
        connection.write(bytes, offset)
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, code, write) }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, bytes: sqlite3_int64) -> c_int {
    let code = ffi::SQLITE_IOERR_TRUNCATE;
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, code, |connection| connection.truncate(count(bytes, code)?)) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // The flags may ask for less than all metadata, which is what SQLite's own VFS always does, or for macOS's full sync.
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_FSYNC, |connection| connection.sync()) }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, bytes: *mut sqlite3_int64) -> c_int {
    let size = |connection: &mut Connection| {
        // SAFETY: SQLite passes the place for the length.
        unsafe { *bytes = connection.len() as sqlite3_int64 };
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_FSTAT, size) }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    let code = ffi::SQLITE_IOERR_LOCK;
    let lock = |connection: &mut Connection| {
        connection.lock(Level::of_number(level).ok_or_else(|| Failure::new(code, "there is no such lock"))?)
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, code, lock) }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    let code = ffi::SQLITE_IOERR_UNLOCK;
    let unlock = |connection: &mut Connection| {
        connection.unlock(Level::of_number(level).ok_or_else(|| Failure::new(code, "there is no such lock"))?);
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, code, unlock) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, found: *mut c_int) -> c_int {
    let check = |connection: &mut Connection| {
        // SAFETY: SQLite passes the place for the answer.
        unsafe { *found = c_int::from(connection.is_reserved()) };
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, check) }
}

/// Sets a switch to `asked`, or leaves it if that is negative, and returns the switch.
fn switch(value: &mut bool, asked: c_int) -> c_int {
    if asked >= 0 {
        *value = asked != 0;
    }
    c_int::from(*value)
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, control: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite passes an open file, whose state is never freed.
    let state = unsafe { &*(*file.cast::<OpenFile>()).state };
    let number = argument.cast::<c_int>();
    let act = |connection: &mut Connection| {
        let settings = &mut connection.settings;
        // SAFETY: with each of these controls, SQLite's documentation says what `argument` points to: an `int`, for sizes
        // a `sqlite3_int64`, for the name a pointer. The two sizes may be unaligned for all that is said there.
        unsafe {
            match control {
                ffi::SQLITE_FCNTL_LOCKSTATE => *number = connection.level() as c_int,
                ffi::SQLITE_FCNTL_LAST_ERRNO => *number = connection.last_errno,
                ffi::SQLITE_FCNTL_CHUNK_SIZE => settings.chunk = u64::try_from(*number).unwrap_or(0),
                ffi::SQLITE_FCNTL_SIZE_HINT => {
                    let bytes = argument.cast::<sqlite3_int64>().read_unaligned();
                    connection.hint_size(u64::try_from(bytes).unwrap_or(0))?;
                }
                ffi::SQLITE_FCNTL_PERSIST_WAL => *number = switch(&mut settings.keeps_wal, *number),
                ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => *number = switch(&mut settings.is_powersafe, *number),
                ffi::SQLITE_FCNTL_HAS_MOVED => *number = c_int::from(connection.has_moved()),
                ffi::SQLITE_FCNTL_VFSNAME => {
                    *argument.cast::<*mut std::ffi::c_char>() = state.api.copy(&state.name);
                }
                ffi::SQLITE_FCNTL_MMAP_SIZE => {
                    let place = argument.cast::<sqlite3_int64>();
                    let (asked, before) = (place.read_unaligned(), settings.mmap);
                    if asked >= 0 {
                        settings.mmap = asked;
                    }
                    place.write_unaligned(before);
                }
                _ => return Err(Failure::of_code(ffi::SQLITE_NOTFOUND)),
            }
        }
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_ERROR, act) }
}

unsafe extern "C" fn sector_size(_file: *mut sqlite3_file) -> c_int {
    // The library writes whole pages.
    4096
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // Nothing is said of atomic writes, of their order, or of appended data: the library writes pages in any order, and
    // a page may be torn when power fails. A torn page has old and new sectors, and outside of the bytes that were
    // written both are the same. Bytes of a page can be read alone.
    // SAFETY: SQLite passes an open file, whose connection no other thread uses.
    let settings = unsafe { (*(*file.cast::<OpenFile>()).connection).settings };
    let powersafe = if settings.is_powersafe { ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE } else { 0 };
    powersafe | ffi::SQLITE_IOCAP_SUBPAGE_READ
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes the place for the pointer.
    unsafe { *out = std::ptr::null_mut() };
    let map = |connection: &mut Connection| {
        let found = connection.shm_map(region, bytes, extend != 0)?;
        let pointer = found.map_or(std::ptr::null_mut(), |region| region.as_ptr().cast_mut().cast());
        // SAFETY: SQLite passes the place for the pointer. The region lives until `shm_unmap`; its words are atomic ones,
        // which may be written through a shared pointer.
        unsafe { *out = pointer };
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_SHMMAP, map) }
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, first: c_int, number: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_SHMLOCK, |connection| connection.shm_lock(first, number, flags)) }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    let barrier = |connection: &mut Connection| {
        connection.shm_barrier();
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_ERROR, barrier) };
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, _deletes: c_int) -> c_int {
    // There is no file to delete.
    let unmap = |connection: &mut Connection| {
        connection.shm_unmap();
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_SHMMAP, unmap) }
}

unsafe extern "C" fn fetch(
    file: *mut sqlite3_file,
    offset: sqlite3_int64,
    amount: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes the place for the pointer.
    unsafe { *out = std::ptr::null_mut() };
    let code = ffi::SQLITE_IOERR_READ;
    let fetch = |connection: &mut Connection| {
        let bytes = connection.fetch(count(offset, code)?, count(amount, code)?);
        // SAFETY: SQLite passes the place for the pointer. It does not write to the page.
        unsafe { *out = bytes.map_or(std::ptr::null_mut(), |bytes| bytes.cast_mut().cast()) };
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, code, fetch) }
}

unsafe extern "C" fn unfetch(file: *mut sqlite3_file, _offset: sqlite3_int64, page: *mut c_void) -> c_int {
    let unfetch = |connection: &mut Connection| {
        // Null asks to unmap the file, of which nothing is mapped.
        if !page.is_null() {
            connection.unfetch(page.cast::<u8>().cast_const());
        }
        Ok(())
    };
    // SAFETY: SQLite passes an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_READ, unfetch) }
}
