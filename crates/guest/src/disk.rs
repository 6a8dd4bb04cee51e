//! Makes the files that a guest uses as its disks.

use machine::PAGE_BYTES;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Checks that this computer has `mkfs.ext4`, which makes a guest's file system.
///
/// # Errors
/// When `mkfs.ext4` is missing. The error says so in words for the user.
pub fn check_tools() -> Result<(), String> {
    let output = mkfs().arg("-V").stdin(Stdio::null()).output();
    output.map(drop).map_err(|error| missing(&error))
}

fn mkfs() -> Command {
    let mut command = Command::new("mkfs.ext4");
    // The PATH of an ordinary user often lacks the folders of system tools.
    let path_variable = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path_variable}:/usr/sbin:/sbin"));
    command
}

fn missing(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no mkfs.ext4: the package e2fsprogs has it".to_owned(),
        _ => format!("mkfs.ext4: {error}"),
    }
}

/// Makes a sparse file with an ext4 file system, which has the files of the folder `contents`, or none. The inode
/// tables, which must be zeroes, are not written: a sparse file reads as zeroes where nothing was written.
///
/// # Errors
/// When the file cannot be made, or `mkfs.ext4` is missing or fails. The error says so in words for the user.
pub fn with_file_system(path: &Path, bytes: u64, contents: Option<&Path>) -> Result<(), String> {
    let shown = path.display();
    sparse(path, bytes).map_err(|error| format!("cannot make {shown}: {error}"))?;
    let mut command = mkfs();
    command.args([
        "-q",
        "-F",
        "-E",
        "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0",
        "-O",
        "^resize_inode",
        "-N",
        "4096",
    ]);
    if let Some(folder) = contents {
        command.arg("-d").arg(folder);
    }
    let output = command.arg(path).stdin(Stdio::null()).output();
    let output = output.map_err(|error| missing(&error))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("mkfs.ext4 {shown}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Offset of three consecutive numbers in the header of a swap area: the version, the number of the last page, and the
/// number of bad pages.
const VERSION_AT: u64 = 1024;

/// The signature of a swap area, which is at the end of its first page.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";

/// Makes a sparse file that is a swap area with room for `pages` pages.
///
/// # Errors
/// When the file cannot be made.
pub fn with_swap(path: &Path, pages: u64) -> io::Result<()> {
    let file = sparse(path, (pages + 1) * PAGE_BYTES as u64)?;
    write_swap_header(&file, pages)
}

/// Writes the header of a swap area with room for `pages` pages behind the header.
///
/// # Errors
/// When the file cannot be written, or has more than 2^32 pages.
pub fn write_swap_header(file: &File, pages: u64) -> io::Result<()> {
    let last = u32::try_from(pages).map_err(io::Error::other)?;
    let numbers: Vec<u8> = [1, last, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    file.write_all_at(&numbers, VERSION_AT)?;
    file.write_all_at(MAGIC, (PAGE_BYTES - MAGIC.len()) as u64)
}

fn sparse(path: &Path, bytes: u64) -> io::Result<File> {
    let file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_len(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_area_says_how_many_pages_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("swap");
        with_swap(&path, 15).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 16 * PAGE_BYTES);
        assert_eq!(
            (&bytes[1024..1036], &bytes[PAGE_BYTES - 10..PAGE_BYTES]),
            (&[1, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0][..], &MAGIC[..])
        );
    }
}
