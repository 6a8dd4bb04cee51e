//! A swap file for the time of a run.

use computer::sys;
use kit::shown;
use machine::PAGE_BYTES;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// Offset of version, last page and number of bad pages in the header of a swap area.
const VERSION_AT: u64 = 1024;

/// The last bytes of the header's page.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";

/// A swap file in use. It is taken out of use and removed when dropped.
#[derive(Debug)]
pub struct SwapFile {
    path: PathBuf,
    is_on: bool,
}

impl SwapFile {
    /// Makes a file with room for so many pages, and lets the kernel swap to it.
    ///
    /// # Errors
    /// When there is no room, or permission is missing.
    pub fn new(path: PathBuf, pages: u64) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let mut swap = Self { path, is_on: false };
        // The first page is the header.
        let pages_all = u32::try_from(pages + 1).map_err(io::Error::other)?;
        sys::allocate(&file, u64::from(pages_all) * PAGE_BYTES as u64)?;
        let numbers: Vec<u8> = [1, pages_all - 1, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        file.write_all_at(&numbers, VERSION_AT)?;
        file.write_all_at(MAGIC, (PAGE_BYTES - MAGIC.len()) as u64)?;
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
        // What cannot be removed stays behind.
        let _ = std::fs::remove_file(&self.path);
    }
}
