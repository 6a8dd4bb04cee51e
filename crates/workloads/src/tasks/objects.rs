//! Files and regions of a load while it runs, and the versions of their pages, so that contents can be verified.

use crate::big_file;
use crate::system::contents::Pattern;
use crate::system::{MapMode, Sharing, System, SystemError, page_bytes};
use machine::PAGE_BYTES;
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

    /// Reads pages, and verifies those that no task writes meanwhile. Returns the time of the read.
    pub fn read<S: System>(
        &self,
        system: &S,
        file: &mut S::File,
        page: u64,
        bytes: &mut [u8],
    ) -> Result<machine::Nanos, SystemError> {
        let offset = page_bytes(page);
        let done = |page: u64| self.versions.as_ref().map_or(1, |all| all[page as usize].done.load(Relaxed));
        let before: Vec<u32> = match self.versions {
            Some(_) => (page..).take(bytes.len() / PAGE_BYTES).map(done).collect(),
            None => Vec::new(),
        };
        let started = system.now();
        big_file::read_whole(system, file, &self.name, offset, bytes)?;
        let time = system.now().since(started);
        match &self.versions {
            None => Pattern::new(&self.name, 1).verify(system.kept(), offset, bytes)?,
            Some(versions) => {
                for ((page, bytes), before) in (page..).zip(bytes.chunks(PAGE_BYTES)).zip(before) {
                    if versions[page as usize].begun.load(Relaxed) == before {
                        Pattern::new(&self.name, before.into()).verify(system.kept(), page_bytes(page), bytes)?;
                    }
                }
            }
        }
        Ok(time)
    }

    /// Writes the next version of pages. Returns the time of the write; none if another task writes one of the pages,
    /// so that nothing was written.
    pub fn write<S: System>(
        &self,
        system: &S,
        file: &S::File,
        page: u64,
        bytes: &mut [u8],
    ) -> Result<Option<machine::Nanos>, SystemError> {
        let versions = self.versions.as_ref().expect("a file that a step writes has versions");
        let pages = page..page + (bytes.len() / PAGE_BYTES) as u64;
        let mut claimed = pages.start;
        for page in pages.clone() {
            let version = &versions[page as usize];
            let done = version.done.load(Relaxed);
            if version.begun.compare_exchange(done, done + 1, Relaxed, Relaxed).is_err() {
                break;
            }
            claimed += 1;
        }
        let release = |to: fn(&Version)| versions[page as usize..claimed as usize].iter().for_each(to);
        if claimed < pages.end {
            release(|version| version.begun.store(version.done.load(Relaxed), Relaxed));
            return Ok(None);
        }
        for (page, bytes) in pages.zip(bytes.chunks_mut(PAGE_BYTES)) {
            let version = versions[page as usize].begun.load(Relaxed);
            Pattern::new(&self.name, version.into()).fill(system.kept(), page_bytes(page), bytes);
        }
        let started = system.now();
        system.write(file, page_bytes(page), bytes)?;
        let time = system.now().since(started);
        release(|version| version.done.store(version.begun.load(Relaxed), Relaxed));
        Ok(Some(time))
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
    /// The name from which the region's test pattern is made.
    name: String,
    pub pages: u64,
    /// The version of each page.
    versions: Vec<u32>,
    /// Whether the contents of the region's pages are checked. They are not if the region maps a file that tasks write.
    is_verified: bool,
}

impl<S: System> Mapped<S> {
    /// Maps anonymous memory of `pages` pages.
    pub fn anonymous(system: &S, name: String, pages: u64, has_huge: bool) -> Result<Self, SystemError> {
        let region = if has_huge { system.map_huge(pages as u32)? } else { system.map(pages as u32)? };
        // Version 0 stands for a page that was never stored, which is a page of zeroes.
        Ok(Self { region, name, pages, versions: vec![0; pages as usize], is_verified: true })
    }

    /// Maps a file from its beginning to its end.
    pub fn file(system: &S, file: &Arc<SharedFile>, is_private: bool) -> Result<Self, SystemError> {
        let sharing = if is_private { Sharing::Private } else { Sharing::Shared };
        let mode = MapMode { sharing, ..MapMode::default() };
        let region = system.map_file(&system.open(&file.name)?, 0..file.pages as u32, mode)?;
        let is_verified = file.versions.is_none();
        Ok(Self {
            region,
            name: file.name.clone(),
            pages: file.pages,
            versions: vec![1; file.pages as usize],
            is_verified,
        })
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

    /// Stores the next version of a page. Returns the time of the store.
    pub fn store(&mut self, system: &S, page: u64, bytes: &mut [u8]) -> Result<machine::Nanos, SystemError> {
        let version = &mut self.versions[page as usize];
        Pattern::new(&self.name, u64::from(*version) + 1).fill(system.kept(), page_bytes(page), bytes);
        let started = system.now();
        system.store(&self.region, page_bytes(page), bytes)?;
        *version += 1;
        Ok(system.now().since(started))
    }

    /// Loads a page and verifies it. Returns the time of the load.
    pub fn load(&self, system: &S, page: u64, bytes: &mut [u8]) -> Result<machine::Nanos, SystemError> {
        let started = system.now();
        system.load(&self.region, page_bytes(page), bytes)?;
        let time = system.now().since(started);
        match self.versions[page as usize] {
            0 => {}
            version if self.is_verified => {
                Pattern::new(&self.name, version.into()).verify(system.kept(), page_bytes(page), bytes)?;
            }
            _ => {}
        }
        Ok(time)
    }

    pub fn unmap(self, system: &S) {
        system.unmap(self.region);
    }
}
