//! Makes a fresh folder for the files of a job, and removes it afterwards.

use kit::shown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// A fresh folder. Dropping this value removes the folder with its contents.
pub(crate) struct Folder(pub(crate) PathBuf);

static MADE: AtomicU32 = AtomicU32::new(0);

impl Folder {
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("highwater-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        // The path is absolute, because two processes with different working folders use it.
        fs::canonicalize(&path).map(Self)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            shown::warn(&format!("{} could not be removed: {error}", self.0.display()));
        }
    }
}
