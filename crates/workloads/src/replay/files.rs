//! The files of a run, and the versions of their pages, so that contents can be verified.
//!
//! Each page of a file has a version. A write that replaces all bytes of a page makes the next version; a write of a part
//! writes bytes of the present version. So all bytes of a page are of one version, and a read can be verified whatever
//! its range. Pages in which bytes were skipped, so that a part is zeroes, have version 0 and are not verified until they
//! are replaced.

use super::loaded::{FileOf, Loaded};
use crate::big_file;
use crate::system::contents::{Kept, Pattern};
use crate::system::{System, SystemError};
use machine::{Nanos, PAGE_BYTES};
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

/// Time for which a task sleeps when another task makes the file, or writes the page, that it needs.
const AGAIN: Nanos = Nanos(10_000);

const PAGE: u64 = PAGE_BYTES as u64;

/// Number of bytes that one write of a new file covers.
const PIECE_BYTES: u64 = 64 * PAGE;

/// The file does not exist.
const ABSENT: u8 = 0;
/// A task makes the file.
const MAKING: u8 = 1;
/// The file exists.
const PRESENT: u8 = 2;

/// A file of a run.
#[derive(Debug)]
pub(super) struct ReplayFile {
    pub name: String,
    state: AtomicU8,
    length: AtomicU64,
    /// Number of handles and regions that use the file.
    users: AtomicU32,
    /// Number of regions that map the file. Its length stays as it is meanwhile.
    pub regions: AtomicU32,
    is_deleted: AtomicBool,
    /// For each page twice its version, plus 1 while a task writes the page; none if the trace does not change the file.
    versions: Option<Box<[AtomicU32]>>,
    /// The contents of version 1.
    first: Pattern,
}

/// All files of a run.
#[derive(Debug)]
pub(super) struct Files(Vec<ReplayFile>);

/// Returns the numbers of the pages that a range of bytes touches.
fn pages_of(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// Returns the part of a range of bytes that lies in a page, as a range within the page.
fn within(range: &Range<u64>, page: u64) -> Range<u64> {
    let start = page * PAGE;
    range.start.max(start) - start..range.end.min(start + PAGE) - start
}

impl Files {
    /// Makes the files that exist at the beginning of a trace. None of their pages is in memory afterwards.
    pub fn make<S: System>(system: &S, loaded: &Loaded) -> Result<Self, SystemError> {
        let file = |(number, of): (usize, &FileOf)| {
            let file = ReplayFile::new(format!("file {number}"), of);
            if of.is_used && of.first_bytes > 0 && !system.is_killed() {
                file.make(system, of.first_bytes)?;
            }
            Ok(file)
        };
        let files = loaded.files.iter().enumerate().map(file).collect::<Result<_, SystemError>>()?;
        // Inodes are dropped, too, where that is possible: a program looks its files up.
        if system.drop_caches_and_slabs().is_err() {
            system.drop_caches()?;
        }
        Ok(Self(files))
    }

    /// Returns the file with a number of the trace.
    pub fn get(&self, number: u32) -> Option<&ReplayFile> {
        self.0.get(number as usize)
    }

    /// Syncs the files that were changed, reads them from the device, and verifies them. Removes all files. Returns the
    /// number of verified pages.
    pub fn finish<S: System>(&self, system: &S) -> Result<u64, SystemError> {
        let present = || self.0.iter().filter(|file| file.state.load(Acquire) == PRESENT);
        let changed = || present().filter(|file| file.versions.is_some() && !file.is_deleted.load(Relaxed));
        for file in changed() {
            system.sync(&system.open(&file.name)?)?;
        }
        if changed().next().is_some() {
            system.drop_caches()?;
        }
        let mut verified = 0;
        for file in changed() {
            if !system.is_killed() {
                verified += file.verify_all(system)?;
            }
        }
        for file in present() {
            system.remove(&file.name)?;
        }
        Ok(verified)
    }
}

impl ReplayFile {
    fn new(name: String, of: &FileOf) -> Self {
        let first_pages = of.first_bytes.div_ceil(PAGE);
        let version = |page| AtomicU32::new(if page < first_pages { 2 } else { 0 });
        Self {
            state: AtomicU8::new(ABSENT),
            length: AtomicU64::new(0),
            users: AtomicU32::new(0),
            regions: AtomicU32::new(0),
            is_deleted: AtomicBool::new(false),
            versions: (of.is_changed && of.is_used).then(|| (0..of.most_pages()).map(version).collect()),
            first: Pattern::new(&name, 1),
            name,
        }
    }

    /// Makes the file with `bytes` bytes of version 1 on the device.
    fn make<S: System>(&self, system: &S, bytes: u64) -> Result<(), SystemError> {
        let is_whole = bytes.is_multiple_of(PAGE);
        // An imported file holds no contents, so that only files whose contents are not kept can be imported.
        if !(system.kept() == Kept::Nothing && is_whole && system.import(&self.name, bytes / PAGE)?) {
            let file = system.create(&self.name)?;
            let mut buffer = vec![0; PIECE_BYTES.min(bytes) as usize];
            for start in (0..bytes).step_by(PIECE_BYTES as usize) {
                let piece = &mut buffer[..PIECE_BYTES.min(bytes - start) as usize];
                self.first.fill(system.kept(), start, piece);
                system.write(&file, start, piece)?;
                if system.is_killed() {
                    break;
                }
            }
            system.sync(&file)?;
        }
        self.length.store(bytes, Relaxed);
        self.state.store(PRESENT, Release);
        Ok(())
    }

    /// Returns the length of the file, bytes.
    pub fn length(&self) -> u64 {
        self.length.load(Relaxed)
    }

    /// Opens the file, and makes it if it does not exist. The caller calls [`ReplayFile::close`] afterwards.
    pub fn open<S: System>(&self, system: &S) -> Result<S::File, SystemError> {
        self.users.fetch_add(1, Relaxed);
        loop {
            match self.state.compare_exchange(ABSENT, MAKING, Relaxed, Acquire) {
                Ok(_) => {
                    let made = system.create(&self.name);
                    self.state.store(if made.is_ok() { PRESENT } else { ABSENT }, Release);
                    return made;
                }
                Err(PRESENT) => return system.open(&self.name),
                Err(_) if system.is_killed() => return Err(SystemError("the task was told to end".into())),
                Err(_) => system.sleep(AGAIN),
            }
        }
    }

    /// Ends a use of the file. The last use of a deleted file removes it.
    pub fn close<S: System>(&self, system: &S) -> Result<(), SystemError> {
        let is_last = self.users.fetch_sub(1, Relaxed) == 1;
        if is_last && self.is_deleted.load(Relaxed) { self.remove(system) } else { Ok(()) }
    }

    /// Deletes the file: at once if no handle or region uses it, otherwise when the last use ends.
    pub fn delete<S: System>(&self, system: &S) -> Result<(), SystemError> {
        self.is_deleted.store(true, Relaxed);
        if self.users.load(Relaxed) == 0 { self.remove(system) } else { Ok(()) }
    }

    fn remove<S: System>(&self, system: &S) -> Result<(), SystemError> {
        if self.state.compare_exchange(PRESENT, MAKING, Acquire, Relaxed).is_err() {
            return Ok(());
        }
        system.remove(&self.name)?;
        self.length.store(0, Relaxed);
        self.versions.iter().flat_map(|all| all.iter()).for_each(|version| version.store(0, Relaxed));
        self.is_deleted.store(false, Relaxed);
        self.state.store(ABSENT, Release);
        Ok(())
    }

    /// Returns the contents of a version of a page; none if the page is not verified.
    fn pattern(&self, version: u32) -> Option<std::borrow::Cow<'_, Pattern>> {
        match version {
            0 => None,
            1 => Some(std::borrow::Cow::Borrowed(&self.first)),
            version => Some(std::borrow::Cow::Owned(Pattern::new(&self.name, version.into()))),
        }
    }

    /// Returns the versions of the pages of a range before a read; empty if the trace does not change the file.
    pub fn seen(&self, range: &Range<u64>, seen: &mut Vec<u32>) {
        seen.clear();
        if let Some(versions) = &self.versions {
            let pages = pages_of(range);
            seen.extend(versions[pages.start as usize..pages.end as usize].iter().map(|version| version.load(Relaxed)));
        }
    }

    /// Compares bytes that were read from `range` with what they should be. `seen` has the versions of the pages before
    /// the read; pages that a task has written since are not compared.
    pub fn verify(&self, kept: Kept, range: &Range<u64>, bytes: &[u8], seen: &[u32]) -> Result<(), SystemError> {
        let Some(versions) = &self.versions else {
            return Ok(self.first.verify(kept, range.start, bytes)?);
        };
        for (page, before) in pages_of(range).zip(seen) {
            let is_quiet = before % 2 == 0 && versions[page as usize].load(Relaxed) == *before;
            let Some(pattern) = self.pattern(before / 2).filter(|_| is_quiet) else { continue };
            let part = within(range, page);
            let from = (page * PAGE + part.start - range.start) as usize;
            let part = &bytes[from..from + (part.end - part.start) as usize];
            pattern.verify(kept, page * PAGE + within(range, page).start, part)?;
        }
        Ok(())
    }

    /// Writes a range with `write`, which gets the bytes. Other tasks that write one of its pages wait meanwhile.
    pub fn write<S: System>(
        &self,
        system: &S,
        range: &Range<u64>,
        buffer: &mut Vec<u8>,
        write: impl FnOnce(&[u8]) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        let versions = self.versions.as_ref().expect("a file that the trace writes has versions");
        let mut next = Vec::new();
        buffer.resize((range.end - range.start) as usize, 0);
        for page in pages_of(range) {
            let version = self.claim(system, &versions[page as usize])?;
            let part = within(range, page);
            let version = self.version_after(page, &part, version);
            let at = page * PAGE + part.start;
            let from = (at - range.start) as usize;
            let bytes = &mut buffer[from..from + (part.end - part.start) as usize];
            match self.pattern(version) {
                Some(pattern) => pattern.fill(system.kept(), at, bytes),
                None => bytes.fill(0),
            }
            next.push(version);
        }
        let before = self.length();
        let written = write(buffer);
        if written.is_ok() {
            self.length.fetch_max(range.end, Relaxed);
            // The rest of the page in which the file ended is zeroes if the write begins behind it.
            if range.start > before && !before.is_multiple_of(PAGE) && before / PAGE < range.start / PAGE {
                versions[(before / PAGE) as usize].store(0, Relaxed);
            }
        }
        for (page, version) in pages_of(range).zip(next) {
            // After a failed write, nothing is known of the page.
            versions[page as usize].store(if written.is_ok() { version * 2 } else { 0 }, Relaxed);
        }
        written
    }

    /// Waits until no task writes a page, and claims it. Returns its version.
    fn claim<S: System>(&self, system: &S, version: &AtomicU32) -> Result<u32, SystemError> {
        loop {
            let now = version.load(Relaxed);
            if now.is_multiple_of(2) && version.compare_exchange(now, now + 1, Acquire, Relaxed).is_ok() {
                return Ok(now / 2);
            }
            if system.is_killed() {
                return Err(SystemError(format!("{}: the task was told to end", self.name)));
            }
            system.sleep(AGAIN);
        }
    }

    /// Returns the version of a page after a write of `part` of it.
    fn version_after(&self, page: u64, part: &Range<u64>, version: u32) -> u32 {
        let held = self.length().saturating_sub(page * PAGE).min(PAGE);
        if part.start == 0 && part.end >= held {
            version + 1
        } else if part.start <= held {
            version
        } else {
            0
        }
    }

    /// Sets the length of the file with `set`, which gets it.
    pub fn truncate(&self, bytes: u64, set: impl FnOnce(u64) -> Result<(), SystemError>) -> Result<(), SystemError> {
        let before = self.length();
        set(bytes)?;
        self.length.store(bytes, Relaxed);
        let Some(versions) = &self.versions else { return Ok(()) };
        let forget = |pages: Range<u64>| {
            let pages = pages.start.min(versions.len() as u64) as usize..pages.end.min(versions.len() as u64) as usize;
            versions[pages].iter().for_each(|version| version.store(0, Relaxed));
        };
        match bytes < before {
            true => forget(bytes.div_ceil(PAGE)..versions.len() as u64),
            // The added bytes are zeroes.
            false => forget(before / PAGE..before.div_ceil(PAGE)),
        }
        Ok(())
    }

    /// Reads the file from the device and verifies it. Returns the number of verified pages.
    fn verify_all<S: System>(&self, system: &S) -> Result<u64, SystemError> {
        let mut file = system.open(&self.name)?;
        let (length, mut seen, mut verified) = (self.length(), Vec::new(), 0);
        let mut buffer = vec![0; PIECE_BYTES as usize];
        for start in (0..length).step_by(PIECE_BYTES as usize) {
            let range = start..length.min(start + PIECE_BYTES);
            let bytes = &mut buffer[..(range.end - range.start) as usize];
            big_file::read_whole(system, &mut file, &self.name, start, bytes)?;
            self.seen(&range, &mut seen);
            self.verify(system.kept(), &range, bytes, &seen)?;
            verified += seen.iter().filter(|version| **version >= 2).count() as u64;
        }
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(first_bytes: u64, most_bytes: u64) -> ReplayFile {
        let of = FileOf { first_bytes, most_bytes, is_changed: true, is_used: true, ..FileOf::default() };
        let file = ReplayFile::new("f".into(), &of);
        file.length.store(first_bytes, Relaxed);
        file
    }

    #[test]
    fn a_page_has_one_version_or_is_not_verified() {
        let file = file(5000, 5 * PAGE);
        let after = |page, part, version| file.version_after(page, &part, version);
        assert_eq!(after(0, 0..4096, 1), 2, "all bytes are replaced");
        assert_eq!(after(0, 10..20, 1), 1, "a part");
        assert_eq!(after(1, 0..904, 3), 4, "all bytes that the page has");
        assert_eq!(after(1, 904..1000, 3), 3, "the file grows without a gap");
        assert_eq!(after(1, 905..1000, 3), 0, "a byte of zeroes lies between");
        assert_eq!(after(3, 0..8, 0), 1, "a new page");
    }

    #[test]
    fn truncation_forgets_the_pages_behind_the_end() {
        let file = file(3 * PAGE, 5 * PAGE);
        let version = |page: usize| file.versions.as_ref().unwrap()[page].load(Relaxed) / 2;
        file.truncate(PAGE + 1, |_| Ok(())).unwrap();
        assert_eq!([0, 1, 2, 3].map(version), [1, 1, 0, 0]);
        file.truncate(2 * PAGE, |_| Ok(())).unwrap();
        assert_eq!([0, 1, 2].map(version), [1, 0, 0], "the rest of its page is zeroes");
        assert_eq!(file.length(), 2 * PAGE);
    }
}
