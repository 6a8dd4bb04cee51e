//! Files and regions of a load while it runs, and the versions of their pages, so that contents can be verified.

use crate::big_file;
use crate::system::contents::Pattern;
use crate::system::{MapMode, SharedWords, Sharing, System, SystemError, page_bytes};
use machine::{Nanos, PAGE_BYTES};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A file of a load, shared by all tasks that use it.
pub(super) struct SharedFile {
    pub name: String,
    pub pages: u64,
    /// The words of each page's [`Version`]; none if no task writes the file.
    versions: Option<SharedWords>,
}

/// Number of words of a [`Version`].
const VERSION_WORDS: usize = 3;

/// The number of a task or child that writes pages of files, from 1.
pub(super) type Writer = u32;

/// Value of [`Version::writer`] if the last write was cut short, so that the page may have any version from `done` to
/// `begun`.
const CUT: Writer = Writer::MAX;

/// Two version numbers of a page: that of the last write that has begun, and that of the last write that is done. They
/// differ while a task writes the page. Processes share these words.
#[derive(Clone, Copy, Debug)]
struct Version<'a> {
    begun: &'a AtomicU32,
    done: &'a AtomicU32,
    /// The last writer of the page, or [`CUT`]; 0 if there was none.
    writer: &'a AtomicU32,
}

impl Version<'_> {
    fn of([begun, done, writer]: &[AtomicU32; VERSION_WORDS]) -> Version<'_> {
        Version { begun, done, writer }
    }

    fn is_done(&self) -> bool {
        self.begun.load(Relaxed) == self.done.load(Relaxed)
    }

    /// Begins the next version. Returns `false` if another task is writing the page.
    fn claim(&self, writer: Writer) -> bool {
        if self.writer.compare_exchange(CUT, writer, Relaxed, Relaxed).is_ok() {
            self.begun.fetch_add(1, Relaxed);
            return true;
        }
        let done = self.done.load(Relaxed);
        let is_claimed = self.begun.compare_exchange(done, done + 1, Relaxed, Relaxed).is_ok();
        if is_claimed {
            self.writer.store(writer, Relaxed);
        }
        is_claimed
    }

    /// Takes a claim back: nothing was written.
    fn give_back(&self) {
        self.begun.fetch_sub(1, Relaxed);
        if !self.is_done() {
            self.cut();
        }
    }

    /// Notes that the write of the page was cut short.
    fn cut(&self) {
        self.writer.store(CUT, Relaxed);
    }
}

/// Returns the versions of `pages`, from all words of a file.
fn versions_of(words: &SharedWords, pages: Range<usize>) -> impl Iterator<Item = Version<'_>> {
    words.as_chunks().0[pages].iter().map(Version::of)
}

impl SharedFile {
    /// Describes a file of `pages` pages, which tasks write if `is_written` is set.
    pub fn new<S: System>(system: &S, name: String, pages: u64, is_written: bool) -> Result<Self, SystemError> {
        let new = || {
            let words = system.share_words(pages as usize * VERSION_WORDS)?;
            for version in versions_of(&words, 0..pages as usize) {
                version.begun.store(1, Relaxed);
                version.done.store(1, Relaxed);
            }
            Ok::<_, SystemError>(words)
        };
        let versions = is_written.then(new).transpose()?;
        Ok(Self { name, pages, versions })
    }

    /// Returns the versions of `count` pages from `page` on; none if no task writes the file.
    fn versions(&self, page: u64, count: usize) -> impl Iterator<Item = Version<'_>> {
        self.versions.iter().flat_map(move |words| versions_of(words, page as usize..page as usize + count))
    }

    /// Writes the file to the device, with version 1 of each page.
    pub fn make<S: System>(&self, system: &S) -> Result<(), SystemError> {
        big_file::make(system, &self.name, self.pages)
    }

    /// Returns, for each of `count` pages from `page` on, the latest version that was written completely. Returns an
    /// empty list if no task writes the file.
    fn done(&self, page: u64, count: usize) -> Vec<u32> {
        self.versions(page, count).map(|version| version.done.load(Relaxed)).collect()
    }

    /// Compares the bytes that were read from pages with the bytes that each page should have. `before` holds, for each
    /// page, the version whose write was complete before the read. A page that a task has begun to write since then is
    /// not compared.
    fn verify_read<S: System>(&self, system: &S, page: u64, bytes: &[u8], before: &[u32]) -> Result<(), SystemError> {
        if self.versions.is_none() {
            return Ok(Pattern::new(&self.name, 1).verify(system.kept(), page_bytes(page), bytes)?);
        }
        let versions = self.versions(page, before.len());
        for (((page, version), bytes), before) in (page..).zip(versions).zip(bytes.chunks(PAGE_BYTES)).zip(before) {
            if version.begun.load(Relaxed) == *before {
                Pattern::new(&self.name, (*before).into()).verify(system.kept(), page_bytes(page), bytes)?;
            }
        }
        Ok(())
    }

    /// Reads pages and verifies them. Returns the time of the read.
    pub fn read<S: System>(
        &self,
        system: &S,
        file: &mut S::File,
        page: u64,
        bytes: &mut [u8],
    ) -> Result<Nanos, SystemError> {
        let before = self.done(page, bytes.len() / PAGE_BYTES);
        let started = system.now();
        big_file::read_whole(system, file, &self.name, page_bytes(page), bytes)?;
        let time = system.now().since(started);
        self.verify_read(system, page, bytes, &before)?;
        Ok(time)
    }

    /// Fills `bytes` with the next version of the pages' contents, and calls `write` with it. Returns the duration of
    /// `write`. Returns `None`, without a call of `write`, if another task is writing one of the pages.
    fn write_with<S: System>(
        &self,
        system: &S,
        page: u64,
        (writer, bytes): (Writer, &mut [u8]),
        write: impl FnOnce(&[u8]) -> Result<(), SystemError>,
    ) -> Result<Option<Nanos>, SystemError> {
        let count = bytes.len() / PAGE_BYTES;
        let claimed = self.versions(page, count).take_while(|version| version.claim(writer)).count();
        if claimed < count {
            self.versions(page, claimed).for_each(|version| version.give_back());
            return Ok(None);
        }
        for ((page, version), bytes) in (page..).zip(self.versions(page, count)).zip(bytes.chunks_mut(PAGE_BYTES)) {
            let version = version.begun.load(Relaxed);
            Pattern::new(&self.name, version.into()).fill(system.kept(), page_bytes(page), bytes);
        }
        let started = system.now();
        if let Err(error) = write(bytes) {
            self.versions(page, count).for_each(|version| version.cut());
            return Err(error);
        }
        let time = system.now().since(started);
        self.versions(page, count).for_each(|version| version.done.store(version.begun.load(Relaxed), Relaxed));
        Ok(Some(time))
    }

    /// Writes the next version of pages. Returns the time of the write; none if another task writes one of the pages,
    /// so that nothing was written.
    pub fn write<S: System>(
        &self,
        system: &S,
        file: &S::File,
        page: u64,
        (writer, bytes): (Writer, &mut [u8]),
    ) -> Result<Option<Nanos>, SystemError> {
        self.write_with(system, page, (writer, bytes), |bytes| system.write(file, page_bytes(page), bytes))
    }

    /// Notes that the writes of `writer` were cut short: its process was killed.
    pub fn cut_writes_of(&self, writer: Writer) {
        let is_its = |version: &Version| version.writer.load(Relaxed) == writer && !version.is_done();
        self.versions(0, self.pages as usize).filter(is_its).for_each(|version| version.cut());
    }

    /// Finds out which version the pages have whose last write was cut short, because its task was told to end: one
    /// that was being written, or the one before.
    fn settle_cut_writes<S: System>(&self, system: &S) -> Result<(), SystemError> {
        let versions = self.versions(0, self.pages as usize);
        let mut cut = (0..).zip(versions).filter(|(_, version)| !version.is_done()).peekable();
        if cut.peek().is_none() {
            return Ok(());
        }
        let (mut file, mut bytes) = (system.open(&self.name)?, vec![0; PAGE_BYTES]);
        for (page, version) in cut {
            let possible = version.done.load(Relaxed)..=version.begun.load(Relaxed);
            big_file::read_whole(system, &mut file, &self.name, page_bytes(page), &mut bytes)?;
            let has = |version: &u32| {
                Pattern::new(&self.name, (*version).into()).verify(system.kept(), page_bytes(page), &bytes).is_ok()
            };
            if let Some(found) = possible.into_iter().find(has) {
                version.done.store(found, Relaxed);
            }
        }
        Ok(())
    }

    /// Verifies the contents of the file if tasks write it: syncs it, drops the system's caches, and reads every page.
    /// Returns the number of verified pages; 0 if no task writes the file.
    pub fn verify<S: System>(&self, system: &S) -> Result<u64, SystemError> {
        if self.versions.is_none() {
            return Ok(0);
        }
        let file = system.open(&self.name)?;
        system.sync(&file)?;
        drop(file);
        system.drop_caches()?;
        self.settle_cut_writes(system)?;
        let written = self.done(0, self.pages as usize);
        big_file::read_through(system, &self.name, self.pages, |page| {
            Pattern::new(&self.name, written[page as usize].into())
        })
    }
}

/// Memory that a task has mapped.
pub(super) struct Mapped<S: System> {
    region: S::Region,
    pub pages: u64,
    contents: Contents,
    is_of_file: bool,
}

/// The contents of an anonymous region at a fork: the name of its pattern, and the version of each page.
pub(super) struct Copied {
    name: String,
    versions: Vec<u32>,
}

/// The place in which the versions of a region's pages are recorded.
enum Contents {
    /// In this value: the name of the region's pattern, and the version of each page. Version 0 means that the page was
    /// never stored, so that it is full of zeroes.
    Own(String, Vec<u32>),
    /// In the file that the region maps. Other tasks use this file, too.
    OfFile(Arc<SharedFile>),
}

impl<S: System> Mapped<S> {
    /// Maps anonymous memory of `pages` pages.
    pub fn anonymous(system: &S, name: String, pages: u64, has_huge: bool) -> Result<Self, SystemError> {
        let region = if has_huge { system.map_huge(pages as u32)? } else { system.map(pages as u32)? };
        Ok(Self { region, pages, contents: Contents::Own(name, vec![0; pages as usize]), is_of_file: false })
    }

    /// Maps a file from its beginning to its end.
    pub fn file(system: &S, file: &Arc<SharedFile>, is_private: bool) -> Result<Self, SystemError> {
        let sharing = if is_private { Sharing::Private } else { Sharing::Shared };
        let mode = MapMode { sharing, ..MapMode::default() };
        let region = system.map_file(&system.open(&file.name)?, 0..file.pages as u32, mode)?;
        let contents = match is_private {
            true => Contents::Own(file.name.clone(), vec![1; file.pages as usize]),
            false => Contents::OfFile(file.clone()),
        };
        Ok(Self { region, pages: file.pages, contents, is_of_file: true })
    }

    /// Returns the region if it is anonymous; `None` if it maps a file.
    pub const fn anonymous_region(&self) -> Option<&S::Region> {
        match self.contents {
            Contents::Own(..) if !self.is_of_file => Some(&self.region),
            Contents::Own(..) | Contents::OfFile(_) => None,
        }
    }

    /// Returns the description of the contents that a copy of the region has now, so that a child can verify them.
    pub fn copied(&self) -> Copied {
        let Contents::Own(name, versions) = &self.contents else { unreachable!("a region of a file is not copied") };
        Copied { name: name.clone(), versions: versions.clone() }
    }

    /// Returns the copy of a region that a child process has.
    pub fn of_child(region: S::Region, copied: Copied) -> Self {
        let Copied { name, versions } = copied;
        let pages = versions.len() as u64;
        Self { region, pages, contents: Contents::Own(name, versions), is_of_file: false }
    }

    /// Stores each page once, in order.
    pub fn store_all(&mut self, system: &S, writer: Writer, bytes: &mut [u8]) -> Result<(), SystemError> {
        for page in 0..self.pages {
            if system.is_killed() {
                break;
            }
            self.store(system, page, (writer, bytes))?;
        }
        Ok(())
    }

    /// Stores the next version of a page's contents through the mapping. Returns the duration of the store. Returns 0
    /// without a store if the mapped file is shared and another task is writing this page.
    pub fn store(&mut self, system: &S, page: u64, (writer, bytes): (Writer, &mut [u8])) -> Result<Nanos, SystemError> {
        let (name, versions) = match &mut self.contents {
            Contents::Own(name, versions) => (name, versions),
            Contents::OfFile(file) => {
                let store = |bytes: &[u8]| system.store(&self.region, page_bytes(page), bytes);
                return Ok(file.write_with(system, page, (writer, bytes), store)?.unwrap_or_default());
            }
        };
        let version = &mut versions[page as usize];
        Pattern::new(name, u64::from(*version) + 1).fill(system.kept(), page_bytes(page), bytes);
        let started = system.now();
        system.store(&self.region, page_bytes(page), bytes)?;
        *version += 1;
        Ok(system.now().since(started))
    }

    /// Loads a page through the mapping and verifies its contents. Returns the duration of the load alone.
    pub fn load(&self, system: &S, page: u64, bytes: &mut [u8]) -> Result<Nanos, SystemError> {
        let before = match &self.contents {
            Contents::Own(..) => Vec::new(),
            Contents::OfFile(file) => file.done(page, 1),
        };
        let started = system.now();
        system.load(&self.region, page_bytes(page), bytes)?;
        let time = system.now().since(started);
        match &self.contents {
            Contents::OfFile(file) => file.verify_read(system, page, bytes, &before)?,
            Contents::Own(name, versions) => match versions[page as usize] {
                0 => {}
                version => Pattern::new(name, version.into()).verify(system.kept(), page_bytes(page), bytes)?,
            },
        }
        Ok(time)
    }

    pub fn unmap(self, system: &S) {
        system.unmap(self.region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_a_killed_process_are_cut_and_those_of_others_are_not() {
        let words: Vec<AtomicU32> = (0..3 * VERSION_WORDS).map(|_| AtomicU32::new(0)).collect();
        let words: SharedWords = Arc::new(words.into_boxed_slice());
        let file = SharedFile { name: "f".into(), pages: 3, versions: Some(words) };
        let [first, second, third] = [0, 1, 2].map(|page| file.versions(page, 1).next().unwrap());
        assert!(first.claim(1) && second.claim(2) && third.claim(1));
        third.done.store(1, Relaxed);
        assert!(!first.claim(3) && !second.claim(3), "another task writes them");

        file.cut_writes_of(1);
        assert!(first.claim(3) && !second.claim(3) && third.claim(3));
        let versions = |version: &Version<'_>| [version.begun.load(Relaxed), version.done.load(Relaxed)];
        assert_eq!([versions(&first), versions(&second), versions(&third)], [[2, 0], [1, 0], [2, 1]]);
        // A claim on a cut page that is given back leaves the page cut.
        first.give_back();
        assert_eq!((versions(&first), first.writer.load(Relaxed)), ([1, 0], CUT));
    }
}
