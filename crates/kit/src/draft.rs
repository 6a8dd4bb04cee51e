//! Drafts: files and folders that are written under a hidden name, and get their own name when they are complete. Files
//! are also synced to the disk.

use crate::interrupt::Leftover;
use same_file::Handle;
use std::{
    fs::{self, File},
    io::{self, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// A file that is written under a hidden name in the folder of its final name. If the draft is dropped before it is
/// finished, or an interrupt ends the process, the hidden file is removed.
#[derive(Debug)]
pub struct Draft {
    file: File,
    path: PathBuf,
    becomes: PathBuf,
    leftover: Option<Leftover>,
}

impl Draft {
    /// Makes a hidden file in the folder of `becomes`, under a name that no other process or thread uses.
    ///
    /// # Errors
    /// When no file can be made in the folder.
    pub fn beside(becomes: &Path) -> io::Result<Self> {
        let path = hidden(becomes);
        let (file, leftover) = Leftover::make(&path, || File::create_new(&path))?;
        Ok(Self { file, path, becomes: becomes.to_owned(), leftover: Some(leftover) })
    }

    /// Makes a hidden file as [`Draft::beside`] does. Only the owner may read and write the file, whatever `umask` is.
    ///
    /// # Errors
    /// When no file can be made in the folder.
    #[cfg(unix)]
    pub fn private_beside(becomes: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = hidden(becomes);
        let make = || fs::OpenOptions::new().write(true).read(true).create_new(true).mode(0o600).open(&path);
        let (file, leftover) = Leftover::make(&path, make)?;
        Ok(Self { file, path, becomes: becomes.to_owned(), leftover: Some(leftover) })
    }

    /// Returns the draft's file, to which the caller writes. It has a hidden name until the draft is finished.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and renames it to its final name.
    ///
    /// # Errors
    /// When the sync or the renaming fails. An existing file then stays as it was.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        self.sync_folder()
    }

    /// Syncs the file and gives it its final name, even if the existing file of this name cannot be replaced by
    /// renaming (such as a mount point). In that case the contents of `there`, the existing file, are overwritten. An
    /// error of syncing the folder is ignored, so the new name may be lost in a crash.
    ///
    /// # Errors
    /// When the file cannot be renamed and the existing file cannot be overwritten.
    pub fn finish_over(mut self, there: &File) -> io::Result<()> {
        self.file.sync_all()?;
        if self.rename().is_ok() {
            // Syncing the folder fails if this process may not read the folder. That is ignored.
            let _ = self.sync_folder();
            return Ok(());
        }
        write_over(there, &self.becomes, &fs::read(&self.path)?)
    }

    fn rename(&mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.becomes)?;
        if let Some(leftover) = self.leftover.take() {
            leftover.keep();
        }
        Ok(())
    }

    /// Syncs the folder of the file, which makes the file's new name durable.
    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.becomes.parent().filter(|folder| !folder.as_os_str().is_empty());
        if cfg!(unix) { File::open(folder.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
    }
}

/// Replaces the contents of `there`, the open file at the path `path`, by `bytes`. If the write fails, restores the
/// earlier contents.
///
/// # Errors
/// When the file cannot be written, or when `path` now names another file.
pub fn write_over(there: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if Handle::from_path(path)? != Handle::from_file(there.try_clone()?)? {
        return Err(io::Error::other("another file has taken its place"));
    }
    // If this process may not read the file, its earlier contents cannot be restored.
    let before = fs::read(path).ok();
    let write = |bytes: &[u8]| -> io::Result<()> {
        let mut there = there;
        there.rewind()?;
        there.write_all(bytes)?;
        there.set_len(bytes.len() as u64)
    };
    // The file is not truncated before it is written. Its blocks then remain for restoring the earlier contents, even
    // if the disk is full.
    write(bytes).inspect_err(|_| drop(before.map(|before| write(&before))))
}

/// A folder that is filled under a hidden name until it is complete. If the draft is dropped before it is finished, the
/// folder is removed.
///
/// If the target does not exist yet, the hidden folder lies beside it. If the target exists and is empty, the hidden
/// folder lies inside it, so that the target stays the same folder.
#[derive(Debug)]
pub struct DraftFolder {
    path: PathBuf,
    becomes: PathBuf,
    is_within: bool,
    is_done: bool,
}

impl DraftFolder {
    /// Makes a hidden folder, whose files will be moved to the folder `becomes` once they are complete. Also makes the
    /// folders above `becomes`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn of(becomes: &Path) -> io::Result<Self> {
        let is_within = becomes.is_dir();
        let path = if is_within {
            hidden(&becomes.join("folder"))
        } else {
            fs::create_dir_all(becomes.parent().unwrap_or(Path::new("")))?;
            hidden(becomes)
        };
        fs::create_dir(&path)?;
        Ok(Self { path, becomes: becomes.to_owned(), is_within, is_done: false })
    }

    /// Returns the path of the hidden folder, which the caller fills.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the files of the draft to the target folder, the file `last` after all others. A reader that finds `last`
    /// there also finds all other files.
    ///
    /// # Errors
    /// When a file cannot be moved. The target then stays as it was.
    pub fn finish(mut self, last: &str) -> io::Result<()> {
        if !self.is_within {
            fs::rename(&self.path, &self.becomes)?;
            self.is_done = true;
            return Ok(());
        }
        let entries = fs::read_dir(&self.path)?.collect::<io::Result<Vec<_>>>()?;
        let mut names: Vec<_> = entries.iter().map(fs::DirEntry::file_name).collect();
        names.sort_by_key(|name| name == last);
        for (n, name) in names.iter().enumerate() {
            if let Err(error) = fs::rename(self.path.join(name), self.becomes.join(name)) {
                // Moves the earlier files back to the draft.
                names[..n].iter().for_each(|name| drop(fs::rename(self.becomes.join(name), self.path.join(name))));
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Drop for DraftFolder {
    fn drop(&mut self) {
        if !self.is_done {
            // A folder that cannot be removed stays under its hidden name, which no reader looks for.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns a new path for a hidden file in the folder in which `beside` lies. No other process or thread uses the path.
fn hidden(beside: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    // The time is part of the name, because computers that share a folder may have processes with the same number.
    let when = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let name = beside.file_name().unwrap_or_default().to_string_lossy();
    beside.with_file_name(format!(".{name}.{process}.{next}.{when:x}.tmp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_as_a_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let draft = Draft::beside(&path).unwrap();
        draft.file().write_all(b"ne").unwrap();
        drop(draft);
        let there = |name: &Path| fs::read_to_string(name).unwrap();
        assert_eq!((there(&path).as_str(), fs::read_dir(&folder).unwrap().count()), ("old", 1));
        let draft = Draft::beside(&path).unwrap();
        draft.file().write_all(b"new").unwrap();
        draft.finish().unwrap();
        assert_eq!((there(&path).as_str(), fs::read_dir(&folder).unwrap().count()), ("new", 1));
        assert!(Draft::beside(&folder.path().join("none/a")).is_err());
        // A folder cannot be replaced by renaming a file, and is not the open file.
        let (taken, other) = (folder.path().join("taken"), folder.path().join("other"));
        fs::create_dir(&taken).unwrap();
        fs::write(&other, "longer than that").unwrap();
        let draft = Draft::beside(&taken).unwrap();
        draft.file().write_all(b"newer").unwrap();
        assert!(draft.finish_over(&File::options().write(true).open(&other).unwrap()).is_err());
        assert_eq!((there(&other).as_str(), fs::read_dir(&folder).unwrap().count()), ("longer than that", 3));
    }

    #[test]
    fn what_is_written_over_a_file_is_found_there_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let there = || fs::read_to_string(&path).unwrap();
        fs::write(&path, "a longer text").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        write_over(&file, &path, b"short").unwrap();
        assert_eq!(there(), "short");
        // Nothing can be written to a file that is open only for reading.
        assert!(write_over(&File::open(&path).unwrap(), &path, b"x").is_err());
        assert_eq!(there(), "short");
        fs::rename(&path, folder.path().join("b")).unwrap();
        assert!(write_over(&file, &path, b"lost").is_err(), "the name is gone");
        fs::write(&path, "theirs").unwrap();
        assert!(write_over(&file, &path, b"lost").is_err(), "another file has it");
        assert_eq!(there(), "theirs");
    }

    #[test]
    fn a_folder_is_there_as_a_whole_or_not_at_all() {
        let top = tempfile::tempdir().unwrap();
        let there = |folder: &Path| {
            let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<Vec<_>>()
        };
        for name in ["a/new", "a"] {
            let folder = top.path().join(name);
            let fill = || {
                let draft = DraftFolder::of(&folder).unwrap();
                fs::create_dir(draft.path().join("below")).unwrap();
                fs::write(draft.path().join("below/x"), "x").unwrap();
                draft
            };
            let was_there = folder.is_dir();
            drop(fill());
            assert_eq!(folder.is_dir(), was_there);
            assert_eq!(there(&top.path().join("a")), [""; 0], "nothing temporary stays");
            fill().finish("x").unwrap();
            assert_eq!(there(&folder), ["below"]);
            assert_eq!(fs::read_to_string(folder.join("below/x")).unwrap(), "x");
            fs::remove_dir_all(top.path().join("a")).unwrap();
            fs::create_dir(top.path().join("a")).unwrap();
        }
        // Another process has filled the target meanwhile.
        let folder = top.path().join("b");
        let draft = DraftFolder::of(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("theirs"), "").unwrap();
        assert!(draft.finish("x").is_err());
        assert_eq!(there(&folder), ["theirs"]);
        assert!(there(top.path()).iter().all(|name| ["a", "b"].contains(&name.as_str())));
    }
}
