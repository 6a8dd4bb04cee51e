//! Measures how fast file pages that are in memory (hits) can be read: through the library, and through the running
//! kernel.

use super::folder::Folder;
use crate::job::Failure;
use crate::system::host::HostSystem;
use crate::system::linux::LinuxSystem;
use catalogue::find;
use computer::counters::Counters;
use figures::figure::Row;
use figures::scale::Scale;
use kit::progress::Progress;
use machine::PAGE_BYTES;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;
use workloads::big_file;
use workloads::random::Access;
use workloads::system::contents::{Kept, Pattern};
use workloads::system::{Given, System, SystemError, page_bytes};

/// Name of the file whose pages are read.
const FILE: &str = "bench.dat";

/// Two page caches to compare, each with a file whose pages are all in memory: the library's, and the running kernel's.
pub struct Hits {
    host: HostSystem,
    linux: Option<LinuxSystem>,
    /// Number of pages of each file.
    pages: u64,
    notes: Vec<String>,
    /// The folder with the library's file and the running kernel's file. The folder is removed when this value is
    /// dropped, after both files are closed.
    _made: Folder,
}

impl Hits {
    /// Makes one file of `pages` pages for the library and one for the running kernel, in a fresh folder inside
    /// `folder`.
    ///
    /// # Errors
    /// When a file cannot be made. If `folder` lies in memory (tmpfs), there is no error: the running kernel is left
    /// out, with a note.
    pub fn new(pages: u64, folder: &Path) -> Result<Self, Failure> {
        let made =
            Folder::new(folder).map_err(|error| format!("cannot make a folder in {}: {error}", folder.display()))?;
        let given = Given { seed: 1, scale: Scale::FULL, progress: Progress::default() };
        let words = |error: SystemError| Failure(error.0);
        // The memory is a quarter larger than the file, so that nothing is evicted. The library needs at least 4 MiB.
        let memory_pages = (pages + pages / 4).max(1024);
        let [ours, theirs] = ["host", "linux"].map(|name| made.0.join(name));
        for folder in [&ours, &theirs] {
            std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let host = HostSystem::new(&ours, &find::kernel("highwater")?, memory_pages, 0, given.clone());
        let host = host.map_err(words)?;
        make(&host, pages).map_err(words)?;
        let mut notes = host.notices();
        let linux = match LinuxSystem::new(theirs, memory_pages, Counters::new(None), given, Kept::Bytes) {
            Ok(linux) => {
                make(&linux, pages).map_err(words)?;
                Some(linux)
            }
            Err(missing) => {
                notes.push(format!("linux: skipped: {missing}"));
                None
            }
        };
        Ok(Self { host, linux, pages, notes, _made: made })
    }

    /// Returns notes for readers of the rows: resources that the computer did not grant, and parts that were skipped.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Reads `hits` random pages in place and `hits / 4` random pages by copy, both through the library and through the
    /// kernel. Returns the rates as rows.
    ///
    /// # Errors
    /// When a page cannot be read, or the library and the kernel read different bytes.
    pub fn rows(&self, hits: u64, seed: u64) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        for (how, access, hits) in [("in place", Access::InPlace, hits), ("by copy", Access::Copy, hits / 4)] {
            let measured = |rate: f64, of: &str| Row::rate("hits", format!("M hits/s {how}, {of}"), "M/s", rate / 1e6);
            let (rate, found) = read(&self.host, self.pages, access, hits, seed).map_err(|error| error.0)?;
            rows.push(measured(rate, "library"));
            if let Some(linux) = &self.linux {
                let (rate, expected) = read(linux, self.pages, access, hits, seed).map_err(|error| error.0)?;
                let of = if access == Access::InPlace { "mmap" } else { "pread" };
                rows.push(measured(rate, of));
                if found != expected {
                    return Err(Failure(format!("hit {how}: the library and the running kernel read other bytes")));
                }
            }
        }
        Ok(rows)
    }

    /// Removes the library's file and checks the engine's invariants. Because this method consumes the value, the
    /// folder and the running kernel's file in it are removed, too.
    ///
    /// # Errors
    /// When a file cannot be removed, or an invariant of the engine does not hold.
    pub fn finish(self) -> Result<(), Failure> {
        let gone = |error: SystemError| Failure(error.0);
        self.host.remove(FILE).map_err(gone)?;
        self.host.finish().map_err(gone)
    }
}

/// Makes the file whose pages are read, and reads all of it into memory.
fn make<S: System>(system: &S, pages: u64) -> Result<(), SystemError> {
    big_file::make(system, FILE, pages)?;
    let pattern = |_| Pattern::new(FILE, 1);
    big_file::read_through(system, FILE, pages, pattern).map(drop)
}

/// Reads `hits` random pages. Returns the pages read per second, and a hash of their contents.
fn read<S: System>(system: &S, pages: u64, access: Access, hits: u64, seed: u64) -> Result<(f64, u64), SystemError> {
    let mut file = system.open(FILE)?;
    system.expect_random_reads(&mut file);
    let mut rng = system.rng(seed);
    let mut bytes = vec![0; PAGE_BYTES];
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    // Each page is first read once, because the first access through a mapping faults, and is no hit.
    if access == Access::InPlace {
        (0..pages)
            .try_for_each(|page| system.read_in_place(&mut file, page, |bytes| black_box(word(bytes))).map(drop))?;
    }
    let started = Instant::now();
    let mut hash = 0;
    for _ in 0..hits {
        let page = rng.below(pages);
        hash ^= match access {
            Access::Copy => {
                big_file::read_whole(system, &mut file, FILE, page_bytes(page), &mut bytes)?;
                word(&bytes)
            }
            Access::InPlace | Access::Mapped => system.read_in_place(&mut file, page, word)?,
        };
    }
    Ok((hits as f64 / started.elapsed().as_secs_f64(), hash))
}
