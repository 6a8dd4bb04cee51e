//! Files and regions of a load while it runs, and the versions of their pages, so that contents can be verified.

use crate::big_file;
use crate::system::contents::Pattern;
use crate::system::{MapMode, Sharing, System, SystemError, page_bytes};
use machine::{Nanos, PAGE_BYTES};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A file of a load, shared by all tasks that use it.
#[derive(Debug)]
pub(super) struct SharedFile {
    pub name: String,
    pub pages: u64,
    /// The version of each page; none if no task writes the file.
    versions: Option<Vec<Version>>,
}

/// Two version numbers of a page: that of the last write that has begun, and that of the last write that is done. They
/// differ while a task writes the page.
#[derive(Debug)]
struct Version {
    begun: AtomicU32,
    done: AtomicU32,
}

impl SharedFile {
    pub fn new(name: String, pages: u64, is_written: bool) -> Self {
        let first = || Version { begun: AtomicU32::new(1), done: AtomicU32::new(1) };
        Self { name, pages, versions: is_written.then(|| (0..pages).map(|_| first()).collect()) }
    }

    /// Writes the file to the device, with version 1 of each page.
    pub fn make<S: System>(&self, system: &S) -> Result<(), SystemError> {
        big_file::make(system, &self.name, self.pages)
    }

    /// Returns, for each of `count` pages from `page` on, the version whose write is complete. Returns an empty list if
    /// no task writes the file.
    fn done(&self, page: u64, count: usize) -> Vec<u32> {
        let of_page = |version: &Version| version.done.load(Relaxed);
        self.versions.iter().flat_map(|all| &all[page as usize..][..count]).map(of_page).collect()
    }

    /// Compares pages with what was written last. `before` has the versions that were done before the pages were read;
    /// pages that a task has written since are not compared.
    fn verify_read<S: System>(&self, system: &S, page: u64, bytes: &[u8], before: &[u32]) -> Result<(), SystemError> {
        let Some(versions) = &self.versions else {
            return Ok(Pattern::new(&self.name, 1).verify(system.kept(), page_bytes(page), bytes)?);
        };
        for ((page, bytes), before) in (page..).zip(bytes.chunks(PAGE_BYTES)).zip(before) {
            if versions[page as usize].begun.load(Relaxed) == *before {
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

    /// Writes the next version of pages with `write`. Returns the time of the write; none if another task writes one of
    /// the pages, so that nothing was written.
    fn write_with<S: System>(
        &self,
        system: &S,
        page: u64,
        bytes: &mut [u8],
        write: impl FnOnce(&[u8]) -> Result<(), SystemError>,
    ) -> Result<Option<Nanos>, SystemError> {
        let versions = self.versions.as_ref().expect("a file that a step writes has versions");
        let pages = &versions[page as usize..][..bytes.len() / PAGE_BYTES];
        let claim = |version: &Version| {
            let done = version.done.load(Relaxed);
            version.begun.compare_exchange(done, done + 1, Relaxed, Relaxed).is_ok()
        };
        let claimed = pages.iter().take_while(|version| claim(version)).count();
        if claimed < pages.len() {
            pages[..claimed].iter().for_each(|version| version.begun.store(version.done.load(Relaxed), Relaxed));
            return Ok(None);
        }
        for ((page, version), bytes) in (page..).zip(pages).zip(bytes.chunks_mut(PAGE_BYTES)) {
            let version = version.begun.load(Relaxed);
            Pattern::new(&self.name, version.into()).fill(system.kept(), page_bytes(page), bytes);
        }
        let started = system.now();
        write(bytes)?;
        let time = system.now().since(started);
        pages.iter().for_each(|version| version.done.store(version.begun.load(Relaxed), Relaxed));
        Ok(Some(time))
    }

    /// Writes the next version of pages. Returns the time of the write; none if another task writes one of the pages,
    /// so that nothing was written.
    pub fn write<S: System>(
        &self,
        system: &S,
        file: &S::File,
        page: u64,
        bytes: &mut [u8],
    ) -> Result<Option<Nanos>, SystemError> {
        self.write_with(system, page, bytes, |bytes| system.write(file, page_bytes(page), bytes))
    }

    /// Syncs a file that was written, drops it from memory, and reads it from the device. Returns the number of verified
    /// pages, 0 if no task writes the file.
    pub fn verify<S: System>(&self, system: &S) -> Result<u64, SystemError> {
        let Some(versions) = &self.versions else { return Ok(0) };
        let file = system.open(&self.name)?;
        system.sync(&file)?;
        drop(file);
        system.drop_caches()?;
        big_file::read_through(system, &self.name, self.pages, |page| {
            Pattern::new(&self.name, versions[page as usize].done.load(Relaxed).into())
        })
    }
}

/// Memory that a task has mapped.
pub(super) struct Mapped<S: System> {
    region: S::Region,
    pub pages: u64,
    contents: Contents,
}

/// The place in which the versions of a region's pages are recorded.
enum Contents {
    /// This value records the versions: the name of the region's pattern, and the version of each page. Version 0 is
    /// that of a page that was never stored, which is a page of zeroes.
    Own(String, Vec<u32>),
    /// The shared file, which other tasks use, too, records the versions.
    OfFile(Arc<SharedFile>),
}

impl<S: System> Mapped<S> {
    /// Maps anonymous memory of `pages` pages.
    pub fn anonymous(system: &S, name: String, pages: u64, has_huge: bool) -> Result<Self, SystemError> {
        let region = if has_huge { system.map_huge(pages as u32)? } else { system.map(pages as u32)? };
        Ok(Self { region, pages, contents: Contents::Own(name, vec![0; pages as usize]) })
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
        Ok(Self { region, pages: file.pages, contents })
    }

    /// Stores each page once, in order.
    pub fn store_all(&mut self, system: &S, bytes: &mut [u8]) -> Result<(), SystemError> {
        for page in 0..self.pages {
            if system.is_killed() {
                break;
            }
            self.store(system, page, bytes)?;
        }
        Ok(())
    }

    /// Stores the next version of a page. Returns the time of the store; 0 if another task writes the page of a shared
    /// file, so that nothing was stored.
    pub fn store(&mut self, system: &S, page: u64, bytes: &mut [u8]) -> Result<Nanos, SystemError> {
        let (name, versions) = match &mut self.contents {
            Contents::Own(name, versions) => (name, versions),
            Contents::OfFile(file) => {
                let store = |bytes: &[u8]| system.store(&self.region, page_bytes(page), bytes);
                return Ok(file.write_with(system, page, bytes, store)?.unwrap_or_default());
            }
        };
        let version = &mut versions[page as usize];
        Pattern::new(name, u64::from(*version) + 1).fill(system.kept(), page_bytes(page), bytes);
        let started = system.now();
        system.store(&self.region, page_bytes(page), bytes)?;
        *version += 1;
        Ok(system.now().since(started))
    }

    /// Loads a page and verifies it. Returns the time of the load.
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
