//! Files that a command writes when its work is done, tried before the work begins.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::End;

/// A file that could be opened for writing. What it held stays until [`Output::write`]; a file that was
/// made here is removed again if that never comes.
pub struct Output {
    path: PathBuf,
    file: File,
    is_new: bool,
    is_written: bool,
}

impl Output {
    /// Opens `path`.
    ///
    /// # Errors
    /// When it cannot be written to: wrong usage.
    pub fn open(path: &Path) -> Result<Self, End> {
        let is_new = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| End::Usage(format!("cannot write to {}: {}", path.display(), why(&error))))?;
        Ok(Self { path: path.to_owned(), file, is_new, is_written: false })
    }

    /// Is it the same file as another, under whatever name? A device or a pipe may be written twice.
    pub fn is_same_file(&self, other: &Self) -> bool {
        let identity = |output: &Self| {
            let data = output.file.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((data.dev(), data.ino()))
        };
        identity(self).is_some_and(|file| identity(other) == Some(file))
    }

    /// Replaces what the file held.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(mut self, text: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), End> {
        let failed = |error| End::Failed(format!("cannot write to {}: {}", self.path.display(), why(&error)));
        // A device or a pipe has no length to set.
        if self.file.metadata().is_ok_and(|data| data.is_file()) {
            self.file.set_len(0).map_err(failed)?;
        }
        let mut out = BufWriter::new(&self.file);
        text(&mut out).and_then(|()| out.flush()).map_err(failed)?;
        drop(out);
        self.is_written = true;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // What cannot be removed stays behind empty.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// An error of the system in its own words, without the number that Rust puts behind them.
pub fn why(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
