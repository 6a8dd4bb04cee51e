//! Files that are there as a whole, on the disk, or not at all.

use crate::interrupt::Leftover;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// A file that is written beside the one that it becomes; dropped, or when an interrupt ends the process, it is removed.
#[derive(Debug)]
pub struct Draft {
    file: File,
    path: PathBuf,
    becomes: PathBuf,
    leftover: Option<Leftover>,
}

impl Draft {
    /// A file in the folder of `becomes`, under a name that no other process or thread uses, and that is hidden.
    ///
    /// # Errors
    /// When the folder takes no file.
    pub fn beside(becomes: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Hosts that share a folder may have processes of one number.
        let when = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let name = becomes.file_name().unwrap_or_default().to_string_lossy();
        let path = becomes.with_file_name(format!(".{name}.{process}.{next}.{when:x}.tmp"));
        let (file, leftover) = Leftover::make(&path, || File::create_new(&path))?;
        Ok(Self { file, path, becomes: becomes.to_owned(), leftover: Some(leftover) })
    }

    /// The file, to be written to.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Gives it the name of the file that it becomes, once all of it is on the disk.
    ///
    /// # Errors
    /// When that fails: the file that is there stays as it was.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        self.sync_folder()
    }

    /// The same, where what counts is that it is read: what cannot be renamed, since something is mounted there, is copied over what the
    /// file that is there holds, and the folder need not be on the disk.
    ///
    /// # Errors
    /// When that fails.
    pub fn finish_over(mut self, there: &File) -> io::Result<()> {
        self.file.sync_all()?;
        if self.rename().is_ok() {
            // Who may not read the folder cannot.
            let _ = self.sync_folder();
            return Ok(());
        }
        there.set_len(0)?;
        io::copy(&mut File::open(&self.path)?, &mut { there }).map(drop)
    }

    fn rename(&mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.becomes)?;
        if let Some(leftover) = self.leftover.take() {
            leftover.keep();
        }
        Ok(())
    }

    /// The new name is on the disk once its folder is.
    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.becomes.parent().filter(|folder| !folder.as_os_str().is_empty());
        if cfg!(unix) { File::open(folder.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

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
        // A folder cannot be replaced by a file, as what is mounted cannot: the open file gets it.
        let (taken, other) = (folder.path().join("taken"), folder.path().join("other"));
        fs::create_dir(&taken).unwrap();
        fs::write(&other, "longer than that").unwrap();
        let draft = Draft::beside(&taken).unwrap();
        draft.file().write_all(b"newer").unwrap();
        draft.finish_over(&File::options().write(true).open(&other).unwrap()).unwrap();
        assert_eq!((there(&other).as_str(), fs::read_dir(&folder).unwrap().count()), ("newer", 3));
    }
}
