//! A folder with results of runs: a Parquet file for each run, named by the hash of everything that determines the run.
//!
//! [`key`] makes the hash, and [`mod@file`] the bytes of the file, which needs the feature `parquet`. A run is stored
//! completely or not at all: its file gets its name once it is on the disk. Several processes may use one folder at a
//! time; if two of them do an equal run, they write equal bytes.

#[cfg(feature = "parquet")]
mod columns;
#[cfg(not(feature = "parquet"))]
#[path = "no_columns.rs"]
mod columns;
pub mod file;
pub mod key;

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

pub use key::{Identity, Key, SeedKeys};

use crate::parquet_table::check_build;
use grounds::job::{Failure, Outcome};
use kit::draft::Draft;
use kit::in_use;

/// A run that is in a store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// The hash that is the name of the run's file in the store.
    pub hash: String,
    /// Name of the run.
    pub identity: Identity,
    /// Outcome of the run: figures and texts, without counters over time and without a profile.
    pub outcome: Outcome,
}

impl StoredRun {
    /// Returns whether the figures, the fingerprint and the virtual time of this run equal those of `outcome`. They
    /// must be equal if both runs have equal keys.
    #[must_use]
    pub fn agrees(&self, outcome: &Outcome) -> bool {
        let figures = |outcome: &Outcome| {
            let bits = outcome.rows.iter().map(|row| (row.group.clone(), row.name.clone(), row.value.to_bits()));
            (outcome.fingerprint, outcome.virtual_time_ns, bits.collect::<Vec<_>>())
        };
        figures(&self.outcome) == figures(outcome)
    }
}

/// A folder that holds a file for each stored run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

/// Largest size of a run's file, bytes; a typical file has 15 KB.
const BYTES_MAX: u64 = 64 << 20;

/// Extension of a run's file.
pub use kit::in_use::RUN_ENDING as ENDING;

impl Store {
    /// Opens the store in a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// When the folder cannot be created, no file can be created in it, this command writes an output file whose path
    /// is that of a run's file in the folder, or this crate was built without its feature `parquet`.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        check_build(folder)?;
        let store = Self { folder: folder.to_owned() };
        if folder.exists() && !folder.is_dir() {
            return Err(Failure(format!("cannot keep runs in {}: it is not a folder", folder.display())));
        }
        let tried = fs::create_dir_all(folder).and_then(|()| Draft::beside(&folder.join("probe")).map(drop));
        tried.map_err(|error| store.failed("cannot keep runs in", folder, &error))?;
        in_use::keeps(folder).map_err(Failure)?;
        Ok(store)
    }

    /// Opens the store in a folder for the runs with `hashes`. If the store has all of these runs, the folder may be
    /// read-only.
    ///
    /// # Errors
    /// The errors of [`Store::existing`] if the store has all of the runs, otherwise those of [`Store::open`].
    pub fn open_for<'h>(folder: &Path, mut hashes: impl Iterator<Item = &'h str>) -> Result<Self, Failure> {
        let there = Self { folder: folder.to_owned() };
        if hashes.all(|hash| there.has(hash)) { Self::existing(folder) } else { Self::open(folder) }
    }

    /// Opens the store in an existing folder.
    ///
    /// # Errors
    /// When there is no such folder, when an option of the command line names the folder or the file of one of
    /// its runs as an output, or when this crate was built without its feature `parquet`.
    pub fn existing(folder: &Path) -> Result<Self, Failure> {
        check_build(folder)?;
        if folder.is_dir() {
            in_use::keeps(folder).map_err(Failure)?;
            return Ok(Self { folder: folder.to_owned() });
        }
        let why = if folder.exists() { "it is not a folder" } else { "there is no such folder" };
        Err(Failure(format!("{}: {why}", folder.display())))
    }

    /// Returns the store's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a run's file.
    #[must_use]
    pub fn path(&self, hash: &str) -> PathBuf {
        self.folder.join(hash).with_extension(ENDING)
    }

    /// Returns whether the run with this hash is stored.
    #[must_use]
    pub fn has(&self, hash: &str) -> bool {
        self.path(hash).exists()
    }

    /// Returns the stored run that has the key `key`; none if no such run is stored.
    ///
    /// # Errors
    /// When the run's file cannot be read, is damaged, or holds another run.
    pub fn find(&self, key: &Key) -> Result<Option<StoredRun>, Failure> {
        match self.read(&self.path(&key.hash)) {
            Ok(None) => Ok(None),
            Ok(Some(run)) if run.identity == key.identity => Ok(Some(run)),
            Ok(Some(_)) => Err(damaged(&self.path(&key.hash), "it holds another run than its name says")),
            Err(failure) => Err(failure),
        }
    }

    /// Stores the outcome of a run. An existing file of the run stays as it is.
    ///
    /// # Errors
    /// When the file cannot be written, or when the existing file has another outcome.
    pub fn keep(&self, key: &Key, outcome: &Outcome) -> Result<(), Failure> {
        match self.find(key)? {
            None => self.write(&key.hash, &file::encode(key, outcome)),
            Some(run) if run.agrees(outcome) => Ok(()),
            Some(run) => Err(Failure(format!(
                "{}: the same run has found something else: fingerprint {:016x} there, {:016x} now",
                self.path(&key.hash).display(),
                run.outcome.fingerprint,
                outcome.fingerprint
            ))),
        }
    }

    /// Stores a run that another process has made. `bytes` are the contents of the run's file. Returns the run.
    ///
    /// # Errors
    /// When the bytes are damaged, or the file cannot be written.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<StoredRun, Failure> {
        let run =
            file::decode(bytes.to_vec()).map_err(|why| Failure(format!("a run that was sent is damaged: {why}")))?;
        if !self.path(&run.hash).exists() {
            self.write(&run.hash, bytes)?;
        }
        Ok(run)
    }

    /// Returns all runs, sorted by experiment, machine, scale, kernel, changes and seed.
    ///
    /// # Errors
    /// When the folder or a file cannot be read, or a file is damaged.
    pub fn runs(&self) -> Result<Vec<StoredRun>, Failure> {
        let runs = self.files()?.into_iter().filter_map(|path| self.read(&path).transpose());
        let mut runs = runs.collect::<Result<Vec<_>, Failure>>()?;
        runs.sort_by(|a, b| (&a.identity, &a.hash).cmp(&(&b.identity, &b.hash)));
        Ok(runs)
    }

    /// Copies from `other` the runs that are not in this store. Returns the number of copied runs, and the number of
    /// runs that were in both stores.
    ///
    /// # Errors
    /// When a file in either store is damaged or cannot be read or written, or when a run has different outcomes in the
    /// two stores.
    pub fn take_all(&self, other: &Self) -> Result<(usize, usize), Failure> {
        let (mut copied, mut there) = (0, 0);
        for path in other.files()? {
            let Some(run) = other.read(&path)? else { continue };
            match self.read(&self.path(&run.hash))? {
                Some(known) if known.agrees(&run.outcome) => there += 1,
                Some(_) => {
                    let (ours, theirs) = (self.path(&run.hash), other.path(&run.hash));
                    let message = format!("{} and {} are of one run and differ", ours.display(), theirs.display());
                    return Err(Failure(message));
                }
                None => {
                    let bytes = read_file(&path).map_err(|error| self.failed("cannot read", &path, &error))?;
                    self.write(&run.hash, &bytes)?;
                    copied += 1;
                }
            }
        }
        Ok((copied, there))
    }

    /// Returns the paths of the runs' files, sorted by name.
    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let entries = fs::read_dir(&self.folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let entries = entries.map_err(|error| self.failed("cannot read", &self.folder, &error))?;
        let is_run = |path: &PathBuf| {
            let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
            !is_hidden && path.extension().is_some_and(|ending| ending == ENDING)
        };
        let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).filter(is_run).collect();
        paths.sort();
        Ok(paths)
    }

    /// Returns the run in the file at `path`; none if there is no file.
    fn read(&self, path: &Path) -> Result<Option<StoredRun>, Failure> {
        let bytes = match read_file(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("cannot read", path, &error)),
        };
        let run = file::decode(bytes).map_err(|why| damaged(path, &why))?;
        if path.file_stem().is_none_or(|stem| stem.to_string_lossy() != run.hash) {
            return Err(damaged(path, "it holds another run than its name says"));
        }
        Ok(Some(run))
    }

    /// Writes the file of a run and syncs it to the disk. If a step fails, the file is either complete or absent, never
    /// a part.
    fn write(&self, hash: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path(hash);
        let written = Draft::beside(&path).and_then(|draft| {
            draft.file().write_all(bytes)?;
            draft.finish()
        });
        written.map_err(|error| self.failed("cannot write", &path, &error))
    }

    fn failed(&self, what: &str, path: &Path, error: &io::Error) -> Failure {
        let text = error.to_string();
        Failure(format!("{what} {}: {}", path.display(), text.split(" (os error").next().unwrap_or_default()))
    }
}

/// Returns the bytes of a run's file, which must be a regular file within the size limit.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if about.len() > BYTES_MAX {
        return Err(io::Error::other(format!("it has {} bytes, and a run at most {BYTES_MAX}", about.len())));
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    let file = File::open(path)?;
    in_use::reads("a run of the store", path, &file)?;
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn damaged(path: &Path, why: &str) -> Failure {
    Failure(format!("{}: damaged: {why}; move it away to have the run done again", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use figures::figure::{Better, Format, Row};

    fn key(seed: u64) -> Key {
        let identity = Identity {
            experiment: "parallelio".into(),
            machine: "parallelio-8g".into(),
            scale: "1/16".into(),
            kernel: "mine".into(),
            set: [("lru.batch".to_owned(), "14".to_owned())].into(),
            seed,
        };
        let text = format!("seed {seed}\n");
        Key { hash: key::hash_of(&text), text, identity }
    }

    fn outcome(value: f64) -> Outcome {
        let row = |name: &str, better, format, value| Row::new("Ops", name, "ops/s", better, format, value);
        Outcome {
            rows: vec![
                row("a", Better::Higher, Format::Decimals(2), value),
                row("b, \"c\" µ", Better::Lower, Format::Percent, -0.0),
                row("d", Better::Neutral, Format::Points(1), f64::NAN),
                row("e", Better::Neutral, Format::Moment(3), f64::MIN_POSITIVE),
            ],
            fingerprint: u64::MAX - 3,
            virtual_time_ns: 1 << 40,
            page_events: 9,
            report: vec!["a line".into()],
            ..Outcome::default()
        }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("runs")).unwrap();
        (folder, store)
    }

    #[test]
    fn a_store_that_has_all_runs_is_left_as_it_is() {
        let (_folder, store) = store();
        let hash = key(1).hash;
        let is_touched = || {
            let long_ago = std::time::UNIX_EPOCH;
            File::open(store.folder()).unwrap().set_modified(long_ago).unwrap();
            Store::open_for(store.folder(), [hash.as_str()].into_iter()).unwrap();
            fs::metadata(store.folder()).unwrap().modified().unwrap() != long_ago
        };
        assert!(is_touched(), "it is tried whether a file can be made");
        store.keep(&key(1), &outcome(0.1)).unwrap();
        assert!(!is_touched(), "it may be one that others may only read");
    }

    #[test]
    fn a_run_comes_back_to_the_last_bit() {
        let (_folder, store) = store();
        assert_eq!(store.find(&key(1)).unwrap(), None);
        store.keep(&key(1), &outcome(0.1)).unwrap();
        let run = store.find(&key(1)).unwrap().unwrap();
        assert!(run.agrees(&outcome(0.1)) && !run.agrees(&outcome(0.2)));
        // NaN is not equal to itself, so the outcomes are compared as text.
        assert_eq!(format!("{:?}", run.outcome), format!("{:?}", outcome(0.1)));
        assert_eq!(store.runs().unwrap().len(), 1);
        let left: Vec<_> = fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [format!("{}.parquet", key(1).hash).as_str()], "nothing temporary stays");
    }

    #[test]
    fn a_run_without_figures_is_one_too() {
        let (_folder, store) = store();
        store.keep(&key(1), &Outcome::default()).unwrap();
        assert_eq!(store.find(&key(1)).unwrap().unwrap().outcome, Outcome::default());
    }

    #[test]
    fn the_same_run_with_other_figures_is_refused() {
        let (_folder, store) = store();
        store.keep(&key(1), &outcome(1.0)).unwrap();
        store.keep(&key(1), &outcome(1.0)).unwrap();
        let Failure(message) = store.keep(&key(1), &outcome(2.0)).unwrap_err();
        assert!(message.contains("the same run has found something else"), "{message}");
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_or_is_too_large_is_refused() {
        let (_folder, store) = store();
        let path = store.path(&key(1).hash);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let Failure(message) = store.find(&key(1)).unwrap_err();
        assert!(message.contains("it is no regular file"), "{message}");
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        let Failure(message) = store.find(&key(1)).unwrap_err();
        assert!(message.contains("and a run at most"), "{message}");
    }

    #[test]
    fn whatever_byte_is_damaged_is_noticed_and_nothing_is_overwritten() {
        let (_folder, store) = store();
        store.keep(&key(1), &outcome(1.0)).unwrap();
        let path = store.path(&key(1).hash);
        let sound = fs::read(&path).unwrap();
        let (mut silent, mut told) = (0, 0);
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x41;
            match file::decode(bytes) {
                // A change is not noticed in columns that repeat the footer for other readers, and in statistics, which
                // are not read here.
                Ok(run) => {
                    assert!(run.agrees(&outcome(1.0)) && run.identity.seed == 1, "byte {at}");
                    silent += 1;
                }
                Err(_) => told += 1,
            }
        }
        // Half of the file is the footer, in which a change of any byte is noticed.
        assert!(told > silent, "{told} of {} are told", sound.len());
        for length in [0, 4, sound.len() / 2, sound.len() - 1] {
            fs::write(&path, &sound[..length]).unwrap();
            for result in [store.find(&key(1)).map(drop), store.keep(&key(1), &outcome(1.0)), store.runs().map(drop)] {
                let Failure(message) = result.unwrap_err();
                assert!(message.starts_with(&format!("{}: damaged: ", path.display())), "{message}");
            }
            assert_eq!(fs::read(&path).unwrap(), &sound[..length]);
        }
    }

    #[test]
    fn a_file_under_another_name_is_damaged() {
        let (_folder, store) = store();
        store.keep(&key(1), &outcome(1.0)).unwrap();
        fs::rename(store.path(&key(1).hash), store.path(&key(2).hash)).unwrap();
        let Failure(message) = store.find(&key(2)).unwrap_err();
        assert!(message.contains("it holds another run than its name says"), "{message}");
    }

    #[test]
    fn many_writers_of_one_folder_are_fine() {
        let (_folder, store) = store();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|seed| store.keep(&key(seed), &outcome(seed as f64)).unwrap()));
            }
        });
        assert_eq!(store.runs().unwrap().len(), 20);
    }

    #[test]
    fn stores_are_merged() {
        let (_folder, a) = store();
        let (_other, b) = store();
        a.keep(&key(1), &outcome(1.0)).unwrap();
        b.keep(&key(1), &outcome(1.0)).unwrap();
        b.keep(&key(2), &outcome(2.0)).unwrap();
        assert_eq!(a.take_all(&b).unwrap(), (1, 1));
        assert_eq!(fs::read(a.path(&key(2).hash)).unwrap(), fs::read(b.path(&key(2).hash)).unwrap());
        fs::remove_file(b.path(&key(2).hash)).unwrap();
        b.keep(&key(2), &outcome(3.0)).unwrap();
        assert!(a.take_all(&b).unwrap_err().0.ends_with("are of one run and differ"));
    }

    #[test]
    fn the_documents_have_every_column() {
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sweeps.md"));
        let Ok(page) = page else { return };
        for column in columns::names() {
            assert!(page.contains(&format!("| `{column}` |")), "docs/sweeps.md: {column}");
        }
    }
}
