//! A lock against SQLite's own VFS.
//!
//! The library locks files by `flock`, which keeps out only those who use `flock`. SQLite's own VFS locks bytes of the
//! file by `fcntl`. So these bytes are locked here, too, for as long as the file is open.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The first of the bytes that SQLite locks (`PENDING_BYTE`), and their number: the bytes of pending and reserved locks,
/// and the 510 of shared ones.
const BYTES: (libc::off_t, libc::off_t) = (0x4000_0000, 512);

/// Locks the bytes that SQLite's own VFS locks: all of them alone, or, for a file that is only read, beside other readers.
/// The lock belongs to the open file, and ends when it is closed. On a file system without such locks nothing happens.
///
/// # Errors
/// With the kind [`io::ErrorKind::ResourceBusy`] when SQLite's own VFS has the file open in a way that excludes this
/// one, in this process or another.
pub(crate) fn lock(file: BorrowedFd<'_>, is_exclusive: bool) -> io::Result<()> {
    // SAFETY: all bits zero are a value of this structure of numbers.
    let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
    wanted.l_type = if is_exclusive { libc::F_WRLCK } else { libc::F_RDLCK } as libc::c_short;
    wanted.l_whence = libc::SEEK_SET as libc::c_short;
    (wanted.l_start, wanted.l_len) = BYTES;
    loop {
        // SAFETY: the descriptor is open, and the system only reads the structure.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another SQLite has the database open"));
            }
            Some(libc::EINVAL | libc::ENOLCK | libc::EOPNOTSUPP) => return Ok(()),
            _ => return Err(error),
        }
    }
}
