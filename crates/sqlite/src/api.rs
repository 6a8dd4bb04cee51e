//! The functions of SQLite that the VFS calls: those that are linked with the program, or, in a loadable extension, those
//! that the loading SQLite passes.

#![allow(unsafe_code)]

use libsqlite3_sys::{sqlite3_filename, sqlite3_vfs};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Functions of one SQLite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    mprintf: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char,
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs,
    vfs_register: unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int,
    vfs_unregister: unsafe extern "C" fn(*mut sqlite3_vfs) -> c_int,
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    uri_parameter: unsafe extern "C" fn(sqlite3_filename, *const c_char) -> *const c_char,
}

/// The beginning of `sqlite3_api_routines`, all of whose fields are pointers to functions. SQLite adds fields only at the
/// end, so the places of these are the same in all versions since 3.7.17, which is the oldest with `xFetch`.
#[repr(C)]
pub(crate) struct Routines {
    before_mprintf: [*const c_void; 69],
    mprintf: Option<unsafe extern "C" fn(*const c_char, ...) -> *mut c_char>,
    before_vfs_find: [*const c_void; 71],
    vfs_find: Option<unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs>,
    vfs_register: Option<unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int>,
    vfs_unregister: Option<unsafe extern "C" fn(*mut sqlite3_vfs) -> c_int>,
    before_log: [*const c_void; 23],
    log: Option<unsafe extern "C" fn(c_int, *const c_char, ...)>,
    before_uri_parameter: [*const c_void; 21],
    uri_parameter: Option<unsafe extern "C" fn(sqlite3_filename, *const c_char) -> *const c_char>,
}

const WORD: usize = size_of::<*const c_void>();
const _: () = assert!(std::mem::offset_of!(Routines, mprintf) == 69 * WORD);
const _: () = assert!(std::mem::offset_of!(Routines, vfs_find) == 141 * WORD);
const _: () = assert!(std::mem::offset_of!(Routines, log) == 167 * WORD);
const _: () = assert!(std::mem::offset_of!(Routines, uri_parameter) == 189 * WORD);

impl Api {
    /// Returns the functions of the SQLite that is linked with this program.
    pub(crate) fn linked() -> Self {
        Self {
            mprintf: libsqlite3_sys::sqlite3_mprintf,
            vfs_find: libsqlite3_sys::sqlite3_vfs_find,
            vfs_register: libsqlite3_sys::sqlite3_vfs_register,
            vfs_unregister: libsqlite3_sys::sqlite3_vfs_unregister,
            log: libsqlite3_sys::sqlite3_log,
            uri_parameter: libsqlite3_sys::sqlite3_uri_parameter,
        }
    }

    /// Returns the functions that a SQLite has passed to an extension; `None` if one is missing.
    pub(crate) fn passed(routines: &Routines) -> Option<Self> {
        Some(Self {
            mprintf: routines.mprintf?,
            vfs_find: routines.vfs_find?,
            vfs_register: routines.vfs_register?,
            vfs_unregister: routines.vfs_unregister?,
            log: routines.log?,
            uri_parameter: routines.uri_parameter?,
        })
    }

    /// Returns the VFS of this name, or the default one; null if there is none.
    pub(crate) fn find(&self, name: Option<&CStr>) -> *mut sqlite3_vfs {
        // SAFETY: the name ends in a zero byte, and SQLite only reads it.
        unsafe { (self.vfs_find)(name.map_or(std::ptr::null(), CStr::as_ptr)) }
    }

    /// Registers a VFS, or changes whether a registered one is the default. Returns SQLite's result code.
    ///
    /// # Safety
    /// The VFS must be valid until the process ends, also after it was unregistered, because connections refer to it.
    pub(crate) unsafe fn register(&self, vfs: *mut sqlite3_vfs, is_default: bool) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { (self.vfs_register)(vfs, c_int::from(is_default)) }
    }

    /// Takes a VFS out of SQLite's list. Open connections go on using it.
    pub(crate) fn unregister(&self, vfs: *mut sqlite3_vfs) {
        // SAFETY: SQLite compares the pointer with those in its list, and reads only the VFSs that are in the list.
        unsafe { (self.vfs_unregister)(vfs) };
    }

    /// Writes a line to SQLite's error log.
    pub(crate) fn log(&self, code: c_int, text: &str) {
        let text = c_string(text);
        // SAFETY: the format takes one text, which ends in a zero byte.
        unsafe { (self.log)(code, c"%s".as_ptr(), text.as_ptr()) };
    }

    /// Returns a copy of a text in memory of SQLite, which the receiver frees by `sqlite3_free`. Null if there is no
    /// memory.
    pub(crate) fn copy(&self, text: &CStr) -> *mut c_char {
        // SAFETY: the format takes one text, which ends in a zero byte.
        unsafe { (self.mprintf)(c"%s".as_ptr(), text.as_ptr()) }
    }

    /// Returns the value of a parameter in the URI of a database.
    ///
    /// # Safety
    /// `name` must be a name that SQLite passed to `xOpen` as that of a main database.
    pub(crate) unsafe fn uri_parameter(&self, name: sqlite3_filename, parameter: &CStr) -> Option<String> {
        // SAFETY: `name` is one that SQLite made, as the caller promises, with the parameters behind it.
        let value = unsafe { (self.uri_parameter)(name, parameter.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: SQLite returns a text that ends in a zero byte and lives as long as `name`.
        Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    }
}

/// Returns a text for C, up to its first zero byte.
pub(crate) fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}
