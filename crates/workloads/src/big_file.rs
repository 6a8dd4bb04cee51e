//! A file with contents that can be verified.

use crate::system::contents::Pattern;
use crate::system::{System, SystemError, page_bytes};
use machine::PAGE_BYTES;

/// Number of pages of a file that one write or read covers.
const PIECE_PAGES: u64 = 64;

/// Writes a file named `name` of `pages` pages, filled with version 1 of the test pattern of this name. Then syncs the
/// file and drops it from memory.
///
/// # Errors
/// When the file cannot be written, or when the system does not drop caches.
pub fn make<S: System>(system: &S, name: &str, pages: u64) -> Result<(), SystemError> {
    let kept = system.kept();
    let pattern = Pattern::new(name, 1);
    let file = system.create(name)?;
    let mut bytes = vec![0; page_bytes(PIECE_PAGES) as usize];
    for start in (0..pages).step_by(PIECE_PAGES as usize) {
        if system.is_killed() {
            break;
        }
        let bytes = &mut bytes[..page_bytes(PIECE_PAGES.min(pages - start)) as usize];
        pattern.fill(kept, page_bytes(start), bytes);
        system.write(&file, page_bytes(start), bytes)?;
    }
    system.sync(&file)?;
    drop(file);
    system.drop_caches()
}

/// Puts a file of `pages` pages on the device, with no page in memory. [`System::import`] makes the file if the system
/// supports it; otherwise [`make`] writes it.
///
/// # Errors
/// When the file cannot be written, when the device is full, or when the system does not drop caches.
pub fn provide<S: System>(system: &S, name: &str, pages: u64) -> Result<(), SystemError> {
    if system.import(name, pages)? { Ok(()) } else { make(system, name, pages) }
}

/// Reads a file from beginning to end and verifies each page with the pattern that `pattern` returns for it. Returns
/// the number of pages read.
///
/// # Errors
/// When the file cannot be read, ends early, or has wrong contents.
pub fn read_through<S: System>(
    system: &S,
    name: &str,
    pages: u64,
    pattern: impl Fn(u64) -> Pattern,
) -> Result<u64, SystemError> {
    let kept = system.kept();
    let mut file = system.open(name)?;
    let mut bytes = vec![0; page_bytes(PIECE_PAGES) as usize];
    for start in (0..pages).step_by(PIECE_PAGES as usize) {
        if system.is_killed() {
            return Ok(start);
        }
        let bytes = &mut bytes[..page_bytes(PIECE_PAGES.min(pages - start)) as usize];
        read_whole(system, &mut file, name, page_bytes(start), bytes)?;
        for (page, bytes) in (start..).zip(bytes.chunks(PAGE_BYTES)) {
            pattern(page).verify(kept, page_bytes(page), bytes)?;
        }
    }
    Ok(pages)
}

/// Fills `bytes` with the contents of a file from `offset` on.
///
/// # Errors
/// When the file cannot be read, or ends before `bytes` is full.
pub fn read_whole<S: System>(
    system: &S,
    file: &mut S::File,
    name: &str,
    offset: u64,
    bytes: &mut [u8],
) -> Result<(), SystemError> {
    let read = system.read(file, offset, bytes)?;
    if read == bytes.len() {
        return Ok(());
    }
    Err(SystemError(format!("file `{name}` ended {read} bytes after byte {offset}, where it is longer")))
}
