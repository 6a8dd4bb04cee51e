//! A table of the files that this process reads and of those that it will write. A file may not be both read and
//! written, nor be written by two options.
//!
//! [`crate::input::open`] and the store of runs register the files that they read. The command registers the files that
//! it will write. If two uses of a file exclude each other, the one that is registered second is refused. A file is
//! identified by its device and inode number, so links and other spellings of its path are recognised.

use same_file::Handle;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The files that this process has registered so far: files that are read, folders of stores, and files to be written.
#[derive(Default)]
struct Known {
    /// The files that are read: for each path, the role in which the file is read, such as "a kernel".
    read: BTreeMap<PathBuf, String>,
    stores: Vec<PathBuf>,
    written: Vec<Target>,
    next: u64,
    refused: Option<String>,
}

/// Extension of the files in a store (a folder of stored runs). Only the store itself writes such files there.
pub const RUN_ENDING: &str = "parquet";

/// A file or directory that an option of the command names and that will be written.
struct Target {
    number: u64,
    option: String,
    /// Path of the file or directory to be written: the path of its folder with links resolved, then its own name.
    path: PathBuf,
    /// The identity (device and inode) of the file if the target is an open regular file; otherwise `None`, for example
    /// for a directory that is made later.
    file: Option<Handle>,
}

static KNOWN: Mutex<Known> =
    Mutex::new(Known { read: BTreeMap::new(), stores: Vec::new(), written: Vec::new(), next: 0, refused: None });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Records that a file was refused, and returns `message`, the reason. Only the first reason is stored. A reader
    /// may skip a refused file with a warning, but the command then must not write anything ([`refused`]).
    fn refuse(&mut self, message: String) -> String {
        self.refused.get_or_insert_with(|| message.clone());
        message
    }
}

/// Returns the identity of a regular file. Returns `None` for devices and pipes, because a command may read and write
/// the same one.
fn identity(file: &File) -> Option<Handle> {
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    Handle::from_file(file.try_clone().ok()?).ok()
}

/// Returns `path` with all links resolved. If there is no file at `path`, resolves only the links in the path of its
/// folder.
fn plain(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

fn both(option: &str, role: &str, path: &Path) -> String {
    format!("{option} would overwrite {}, which is read as {role}", path.display())
}

/// Registers that this process reads a file. `role` names the use of the file in messages, such as "a kernel".
///
/// # Errors
/// When the file is registered to be written.
pub fn reads(role: &str, path: &Path, file: &File) -> io::Result<()> {
    let Some(own) = identity(file) else { return Ok(()) };
    let mut known = known();
    let target = known.written.iter().find(|target| target.file.as_ref() == Some(&own));
    if let Some(message) = target.map(|target| both(&target.option, role, path)) {
        return Err(io::Error::other(known.refuse(message)));
    }
    known.read.entry(plain(path)).or_insert_with(|| role.to_owned());
    Ok(())
}

/// Registers a folder as a store of runs. The files in it whose names end in `.parquet` belong to the store.
///
/// # Errors
/// When an option of the command line names one of these files, or the folder itself, as an output.
pub fn keeps(folder: &Path) -> Result<(), String> {
    let mut known = known();
    let path = plain(folder);
    if let Some(message) = known.written.iter().find_map(|target| in_store(target, &path)) {
        return Err(known.refuse(message));
    }
    known.stores.push(path);
    Ok(())
}

/// Returns an error message if `target`, a file to be written, is the folder `store`, or belongs to the store of runs
/// in this folder; otherwise `None`.
fn in_store(target: &Target, store: &Path) -> Option<String> {
    let is_run = target.path.extension().is_some_and(|ending| ending == RUN_ENDING);
    let is_within = target.path.parent() == Some(store) && is_run;
    (is_within || target.path == store).then(|| {
        let path = target.path.display();
        format!("{} is in the folder of a store, which has files of runs alone: {path}", target.option)
    })
}

/// The registration of a file that this process will write. It ends when this value is dropped.
#[derive(Debug)]
pub struct Claim(u64);

impl Drop for Claim {
    fn drop(&mut self) {
        known().written.retain(|target| target.number != self.0);
    }
}

/// Registers that a file will be written. `option` is the option of the command that names the file at `path`. `file`
/// is `None` for a directory that is made later.
///
/// # Errors
/// When the file is also read, belongs to a store, or is already written by another option.
pub fn writes(option: &str, path: &Path, file: Option<&File>) -> Result<Claim, String> {
    let file = match file {
        // A device or a pipe may be both read and written.
        Some(file) if identity(file).is_none() => return Ok(Claim(u64::MAX)),
        Some(file) => identity(file),
        None => None,
    };
    let mut known = known();
    let target = Target { number: known.next, option: option.to_owned(), path: plain(path), file };
    // Files that are read are identified anew, by their paths: one of them may have been removed since, and the file to
    // be written may have got its inode number.
    let is_read = |place: &Path| target.file.is_some() && Handle::from_path(place).ok() == target.file;
    let read = known.read.iter().find(|(place, _)| is_read(place)).map(|(_, role)| both(option, role, path));
    let kept = || known.stores.iter().find_map(|store| in_store(&target, store));
    let is_same = |other: &&Target| other.path == target.path || (target.file.is_some() && other.file == target.file);
    let twice = || {
        let other = known.written.iter().find(is_same)?;
        Some(format!("{} and {option} name the same file: each would overwrite the other", other.option))
    };
    match read.or_else(kept).or_else(twice) {
        Some(message) => Err(known.refuse(message)),
        None => {
            let claim = Claim(known.next);
            known.next += 1;
            known.written.push(target);
            Ok(claim)
        }
    }
}

/// Returns the message of the first refused use of a file, such as a write to a file that is also read; `None` if no
/// use was refused. After a refusal the command must write nothing.
#[must_use]
pub fn refused() -> Option<String> {
    known().refused.clone()
}
