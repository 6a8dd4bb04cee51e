//! Converts errors of a CSV writer to I/O errors.

use std::io;

/// Returns the I/O error that caused an error of a CSV writer. Callers need the kind of the I/O error, to distinguish a
/// closed pipe from a full disk.
#[must_use]
pub fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
