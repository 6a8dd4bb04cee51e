//! Makes a swap file for the time of a run, and removes it afterwards.

use computer::sys;
use guest::disk::write_swap_header;
use kit::shown;
use machine::PAGE_BYTES;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// A swap file in use. Dropping this value makes the kernel stop using the file, and removes the file.
#[derive(Debug)]
pub struct SwapFile {
    path: PathBuf,
    is_on: bool,
}

impl SwapFile {
    /// Makes a file with room for `pages` pages, and lets the kernel swap to it.
    ///
    /// # Errors
    /// When there is no room, or permission is missing.
    pub fn new(path: PathBuf, pages: u64) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let mut swap = Self { path, is_on: false };
        // The first page is the header.
        sys::allocate(&file, (pages + 1) * PAGE_BYTES as u64)?;
        write_swap_header(&file, pages)?;
        file.sync_all()?;
        sys::swap_on(&swap.path)?;
        swap.is_on = true;
        Ok(swap)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        if self.is_on
            && let Err(error) = sys::swap_off(&self.path)
        {
            // The file must stay while the kernel uses it.
            shown::warn(&format!("{} is still a swap file: {error}; `swapoff` ends that", self.path.display()));
            return;
        }
        // A file that cannot be removed stays.
        let _ = std::fs::remove_file(&self.path);
    }
}
