//! The files that this process reads and those that it will write. A file may not be both, nor be written twice.
//!
//! [`crate::input::open`] and the store report files that are read, the command those to be written. The second use is
//! refused, in either order. A file is known by its device and inode number, so links and other spellings of its path
//! are recognised.

use same_file::Handle;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The files known so far.
#[derive(Default)]
struct Known {
    /// Roles of the files that are read, by path.
    read: BTreeMap<PathBuf, String>,
    stores: Vec<PathBuf>,
    written: Vec<Target>,
    next: u64,
    refused: Option<String>,
}

/// Extension of the files of a store. Only the store writes such files.
pub const RUN_ENDING: &str = "parquet";

/// A file to be written.
struct Target {
    number: u64,
    option: String,
    /// The target's folder with links resolved, and its name.
    path: PathBuf,
    /// The open file; none for a directory that is made later.
    file: Option<Handle>,
}

static KNOWN: Mutex<Known> =
    Mutex::new(Known { read: BTreeMap::new(), stores: Vec::new(), written: Vec::new(), next: 0, refused: None });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Remembers the first refusal. A reader may skip a refused file with a warning, but nothing may be written then.
    fn refuse(&mut self, message: String) -> String {
        self.refused.get_or_insert_with(|| message.clone());
        message
    }
}

/// Returns the identity of a regular file. Devices and pipes may be both read and written.
fn identity(file: &File) -> Option<Handle> {
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    Handle::from_file(file.try_clone().ok()?).ok()
}

/// Returns the path with links resolved; for a missing file, that of its folder.
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

/// Notes that a file is read in a role, such as "a kernel".
///
/// # Errors
/// When the file is to be written, too.
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

/// Notes a folder that holds files of runs. Files there that end in `.parquet` belong to the store.
///
/// # Errors
/// When one of them is to be written as something else.
pub fn keeps(folder: &Path) -> Result<(), String> {
    let mut known = known();
    let path = plain(folder);
    if let Some(message) = known.written.iter().find_map(|target| in_store(target, &path)) {
        return Err(known.refuse(message));
    }
    known.stores.push(path);
    Ok(())
}

/// Returns an error if a file to be written would be one of a store's files.
fn in_store(target: &Target, store: &Path) -> Option<String> {
    let is_run = target.path.extension().is_some_and(|ending| ending == RUN_ENDING);
    let is_within = target.path.parent() == Some(store) && is_run;
    (is_within || target.path == store).then(|| {
        let path = target.path.display();
        format!("{} is in the folder of a store, which has files of runs alone: {path}", target.option)
    })
}

/// A file that is to be written, until this is dropped.
#[derive(Debug)]
pub struct Claim(u64);

impl Drop for Claim {
    fn drop(&mut self) {
        known().written.retain(|target| target.number != self.0);
    }
}

/// Notes that a file will be written, as the value of an option. `file` is none for a directory that is made later.
///
/// # Errors
/// When the file is read, too, or written as something else.
pub fn writes(option: &str, path: &Path, file: Option<&File>) -> Result<Claim, String> {
    let file = match file {
        // A device or a pipe.
        Some(file) if identity(file).is_none() => return Ok(Claim(u64::MAX)),
        Some(file) => identity(file),
        None => None,
    };
    let mut known = known();
    let target = Target { number: known.next, option: option.to_owned(), path: plain(path), file };
    // A file that was removed since may have left its number to this one: what is read is looked at anew.
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

/// Returns the first refusal; after one, nothing may be written.
#[must_use]
pub fn refused() -> Option<String> {
    known().refused.clone()
}
