//! The kind of a file: a regular file, a device, a pipe. Opening or reading some kinds has effects or never ends.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileTypeExt;

/// Returns words for the kind of a file that is no regular file, such as "a pipe (FIFO)"; `None` for a regular file.
pub(crate) fn irregular_kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    let kinds = [
        (kind.is_dir(), "a folder"),
        (kind.is_symlink(), "a symbolic link"),
        (kind.is_fifo(), "a pipe (FIFO)"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device(), "a character device"),
        (kind.is_block_device(), "a block device"),
    ];
    let found = kinds.iter().find(|(is_it, _)| *is_it).map_or("of an unknown kind", |(_, what)| what);
    (!metadata.is_file()).then_some(found)
}

/// Checks that a file is a regular one.
///
/// # Errors
/// When it is not. The error says what the file is.
pub(crate) fn check_is_regular(metadata: &Metadata) -> io::Result<()> {
    match irregular_kind(metadata) {
        Some(what) => Err(io::Error::other(format!("it is {what}, and not a regular file"))),
        None => Ok(()),
    }
}

/// Checks that a file has a length and bytes at each offset: that it is a regular file or a block device.
///
/// # Errors
/// When it is neither. The error says what the file is.
pub(crate) fn check_has_bytes(metadata: &Metadata) -> io::Result<()> {
    match irregular_kind(metadata) {
        Some(what) if !metadata.file_type().is_block_device() => {
            Err(io::Error::other(format!("it is {what}, and neither a regular file nor a block device")))
        }
        _ => Ok(()),
    }
}
