//! Regions of mapped memory: anonymous memory, and pages of mapped files.
//!
//! If a process touches a mapped page after the end of the file, the kernel ends the process, but the simulator returns
//! an error. Therefore a region of a file remembers the file's length and checks each access. Files of a run never
//! become shorter. So the region asks the system for the length only if an access goes beyond the remembered length.

use computer::sys;
use engine::ReadPattern;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use workloads::system::{MapMode, Sharing, SystemError, page_bytes};

/// Mapped memory of one task.
#[derive(Debug)]
pub struct Region {
    memory: sys::Mapping,
    file: Option<Mapped>,
}

/// The file that a region maps.
#[derive(Debug)]
struct Mapped {
    name: String,
    file: File,
    /// The page of the file at which the region begins.
    first: u32,
    /// Number of pages from `first` to the end of the file, as the system reported it last.
    known_pages: Cell<u64>,
    /// A token of the file. As long as a region holds such a token, the file is mapped and cannot be removed.
    _token: Arc<()>,
}

impl Region {
    /// Maps `pages` pages of zeroes.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size.
    pub fn anonymous(pages: u32) -> io::Result<Self> {
        Ok(Self { memory: sys::Mapping::new(pages)?, file: None })
    }

    /// Maps `pages` pages of zeroes. They may become huge pages if the kernel makes huge pages without advice.
    ///
    /// # Errors
    /// When the process's address space has no free range of this size.
    pub fn huge(pages: u32) -> io::Result<Self> {
        Ok(Self { memory: sys::Mapping::huge(pages)?, file: None })
    }

    /// Returns the mapping, if it is anonymous memory.
    pub(super) const fn anonymous_memory(&self) -> Option<&sys::Mapping> {
        match self.file {
            Some(_) => None,
            None => Some(&self.memory),
        }
    }

    /// Makes a region of the copy that a child process has of anonymous memory.
    pub(super) const fn of_copy(memory: sys::Mapping) -> Self {
        Self { memory, file: None }
    }

    /// Maps the range `pages` of a file. The region keeps the file's name and a token: as long as such a token exists,
    /// the file cannot be removed.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn of_file(
        (name, file, token): (&str, &File, Arc<()>),
        pages: Range<u32>,
        mode: MapMode,
    ) -> io::Result<Self> {
        let reads = match mode.pattern {
            ReadPattern::Normal => sys::Reads::Unknown,
            ReadPattern::Sequential => sys::Reads::Sequential,
            ReadPattern::Random => sys::Reads::Random,
        };
        let is_private = mode.sharing == Sharing::Private;
        let mode = sys::FileMode { is_private, is_executable: mode.is_executable, reads };
        let memory = sys::Mapping::of_file(file, pages.start, pages.end.saturating_sub(pages.start), mode)?;
        let (name, file, known_pages) = (name.to_owned(), file.try_clone()?, Cell::default());
        Ok(Self { memory, file: Some(Mapped { name, file, first: pages.start, known_pages, _token: token }) })
    }

    /// Returns the region's mapping, for an access to pages of the region before page `end`. For a file, checks that
    /// these pages lie within the file.
    ///
    /// # Errors
    /// When the file ends before the end of the access.
    #[inline]
    pub(super) fn pages(&self, end: u64) -> Result<&sys::Mapping, SystemError> {
        match &self.file {
            Some(file) if end > file.known_pages.get() => file.look(end).map(|()| &self.memory),
            _ => Ok(&self.memory),
        }
    }

    /// Returns the memory for an access to `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// When the file ends before the end of the access.
    #[inline]
    pub(super) fn bytes(&self, offset: u64, bytes: usize) -> Result<&sys::Mapping, SystemError> {
        self.pages((offset + bytes as u64).div_ceil(page_bytes(1)))
    }
}

impl Mapped {
    #[cold]
    fn look(&self, end: u64) -> Result<(), SystemError> {
        let name = &self.name;
        let told = |error: io::Error| SystemError(format!("file `{name}`: {error}"));
        let pages = self.file.metadata().map_err(told)?.len().div_ceil(page_bytes(1));
        self.known_pages.set(pages.saturating_sub(self.first.into()));
        match end > self.known_pages.get() {
            true => Err(SystemError(format!("file `{name}`: a page after its end is touched, it has {pages}"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_huge_pages_is_zeroes_that_can_be_stored_to_at_both_ends() {
        for pages in [1, 511, 1025] {
            let region = Region::huge(pages).unwrap();
            let last = page_bytes(u64::from(pages) - 1);
            // This is a set, because a region of one page has the same first and last offset.
            for offset in std::collections::BTreeSet::from([0, last]) {
                let (memory, mut found) = (region.bytes(offset, 4).unwrap(), [1; 4]);
                memory.load(offset as usize, &mut found);
                assert_eq!(found, [0; 4]);
                memory.store(offset as usize, b"high");
                memory.load(offset as usize, &mut found);
                assert_eq!(&found, b"high");
            }
        }
    }

    fn mapped(pages: u64, range: Range<u32>, mode: MapMode) -> (File, Region) {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.set_len(page_bytes(pages)).unwrap();
        let region = Region::of_file(("f", &file, Arc::default()), range, mode).unwrap();
        (file, region)
    }

    #[test]
    fn a_page_after_the_end_is_an_error_until_the_file_has_grown() {
        let (file, region) = mapped(4, 2..6, MapMode::default());
        assert!(region.pages(2).is_ok());
        assert!(region.pages(3).unwrap_err().0.contains("it has 4"));
        file.set_len(page_bytes(5) - 1).unwrap();
        region.bytes(page_bytes(2), 8).unwrap().touch(page_bytes(2) as usize, true);
        assert!(region.bytes(page_bytes(3), 1).is_err());
    }

    #[test]
    fn what_is_stored_reaches_a_shared_file_and_no_private_one() {
        use std::os::unix::fs::FileExt as _;
        for (sharing, expected) in [(Sharing::Shared, b"high"), (Sharing::Private, b"\0\0\0\0")] {
            let (file, region) = mapped(2, 1..2, MapMode { sharing, ..MapMode::default() });
            region.bytes(0, 4).unwrap().store(0, b"high");
            let (mut found, mut loaded) = ([1; 4], [1; 4]);
            file.read_exact_at(&mut found, page_bytes(1)).unwrap();
            region.bytes(0, 4).unwrap().load(0, &mut loaded);
            assert_eq!((&found, &loaded), (expected, b"high"), "{sharing:?}");
        }
    }
}
