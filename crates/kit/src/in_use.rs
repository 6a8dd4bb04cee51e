//! Which files this process reads and which it will write: none is both, and none is written as two things.
//!
//! [`crate::input::open`] and the store tell what is read, the command what it will write. What comes second is refused, so that the
//! order does not matter. A file is known by its device and number, so that links and other spellings of its path are seen.

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
    /// As what, by path.
    read: BTreeMap<PathBuf, String>,
    stores: Vec<PathBuf>,
    written: Vec<Target>,
    next: u64,
    refused: Option<String>,
}

/// The ending of the files of a store, which the store alone writes.
pub const RUN_ENDING: &str = "parquet";

/// A file to be written.
struct Target {
    number: u64,
    option: String,
    /// Its folder without links, and its name.
    path: PathBuf,
    /// None of a directory that is made later.
    file: Option<Handle>,
}

static KNOWN: Mutex<Known> =
    Mutex::new(Known { read: BTreeMap::new(), stores: Vec::new(), written: Vec::new(), next: 0, refused: None });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Remembers the first refusal: where what is read is left out with a warning, nothing may be written all the same.
    fn refuse(&mut self, message: String) -> String {
        self.refused.get_or_insert_with(|| message.clone());
        message
    }
}

/// A regular file's identity. A device or a pipe may be read and written.
fn identity(file: &File) -> Option<Handle> {
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    Handle::from_file(file.try_clone().ok()?).ok()
}

/// The path without links; of what is not there, that of its folder.
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

/// Notes that a file is read, as what `role` says: "a kernel".
///
/// # Errors
/// When it is to be written too.
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

/// Notes that files of runs are kept in a folder: those that end in `.parquet` are its own.
///
/// # Errors
/// When one is to be written as something else.
pub fn keeps(folder: &Path) -> Result<(), String> {
    let mut known = known();
    let path = plain(folder);
    if let Some(message) = known.written.iter().find_map(|target| in_store(target, &path)) {
        return Err(known.refuse(message));
    }
    known.stores.push(path);
    Ok(())
}

/// Returns what is wrong with a file to be written, where it would be one of a store's.
fn in_store(target: &Target, store: &Path) -> Option<String> {
    let is_run = target.path.extension().is_some_and(|ending| ending == RUN_ENDING);
    let is_within = target.path.parent() == Some(store) && is_run;
    (is_within || target.path == store).then(|| {
        let path = target.path.display();
        format!("{} is in the folder of a store, which has files of runs alone: {path}", target.option)
    })
}

/// A file that is to be written, as long as this is there.
#[derive(Debug)]
pub struct Claim(u64);

impl Drop for Claim {
    fn drop(&mut self) {
        known().written.retain(|target| target.number != self.0);
    }
}

/// Notes that a file will be written, as the value of an option; `file` is none where it is a directory that is made later.
///
/// # Errors
/// When it is read too, or written as something else.
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

/// Why nothing may be written, if so.
#[must_use]
pub fn refused() -> Option<String> {
    known().refused.clone()
}
