//! The reasons why a call of SQLite fails, as result codes.

use highwater::ErrorKind;
use libsqlite3_sys as ffi;
use std::ffi::c_int;
use std::io;

/// A result code of SQLite other than `SQLITE_OK`, and for its error log a text.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The result code.
    pub(crate) code: c_int,
    /// The text for the log; empty if the code is an everyday one, such as that of a lock which another holds.
    pub(crate) text: String,
    /// The error number of the system, or 0.
    pub(crate) errno: i32,
}

/// A result of a callback.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Makes a failure that is not logged.
    pub(crate) const fn of_code(code: c_int) -> Self {
        Self { code, text: String::new(), errno: 0 }
    }

    /// Makes a failure with a text for the log.
    pub(crate) fn new(code: c_int, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), errno: 0 }
    }

    /// Makes a failure of an error of the library. Its result code is `code`, unless SQLite has one for its kind.
    pub(crate) fn of_library(error: highwater::Error, code: c_int) -> Self {
        let code = match error.kind() {
            ErrorKind::StorageFull => ffi::SQLITE_FULL,
            ErrorKind::OutOfMemory => ffi::SQLITE_IOERR_NOMEM,
            ErrorKind::ReadOnly => ffi::SQLITE_READONLY,
            ErrorKind::AlreadyOpen => ffi::SQLITE_BUSY,
            _ => code,
        };
        let text = error.to_string();
        Self { code, text, errno: io::Error::from(error).raw_os_error().unwrap_or(0) }
    }

    /// Makes a failure of an error of the system, at what is said in `doing`.
    pub(crate) fn of_system(error: &io::Error, doing: &str, code: c_int) -> Self {
        let code = if error.kind() == io::ErrorKind::ResourceBusy { ffi::SQLITE_BUSY } else { code };
        Self { code, text: format!("cannot {doing}: {error}"), errno: error.raw_os_error().unwrap_or(0) }
    }
}
