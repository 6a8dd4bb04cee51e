//! The ground `host`: the engine on real memory, threads and files of this process, through the library `highwater`.
//!
//! Files lie in one folder and bypass the kernel's page cache; swap is a file beside them. The library does not count
//! faults by thread, so the counts of faults are those of all tasks together.

use super::threads::{Common, Stop, tasks_are_threads};
use engine::Kernel;
use engine::stat::Vmstat;
use figures::usage::Faults;
use highwater::{File, Memory, OpenOptions, Region};
use machine::Nanos;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use workloads::system::contents::Kept;
use workloads::system::{Advice, Given, Pressure, ReadPattern, System, SystemError, page_bytes};

/// The state that all tasks of a workload share.
struct Shared {
    common: Common,
    /// An open handle of each file, from the file's creation to its removal. Without it, the library would drop the
    /// file's pages whenever no task has the file open.
    files: Mutex<BTreeMap<String, File>>,
    memory: Memory,
}

/// The library as one task of a workload sees it.
pub struct HostSystem {
    shared: Arc<Shared>,
    stop: Arc<Stop>,
}

impl HostSystem {
    /// Starts the library with `memory_pages` pages of memory, `swap_pages` pages of swap, and files in `folder`.
    ///
    /// # Errors
    /// When the library cannot make the memory.
    pub fn new(
        folder: &Path,
        kernel: &Kernel,
        memory_pages: u64,
        swap_pages: u64,
        given: Given,
    ) -> Result<Self, SystemError> {
        let mut builder = Memory::builder().size(page_bytes(memory_pages)).kernel_choices(kernel.clone());
        if swap_pages > 0 {
            builder = builder.swap(page_bytes(swap_pages)).swap_folder(folder);
        }
        let memory = builder.start().map_err(words)?;
        let common = Common::new(given, folder.to_owned(), memory_pages, Kept::Bytes);
        let shared = Shared { common, files: Mutex::default(), memory };
        Ok(Self { shared: Arc::new(shared), stop: Arc::default() })
    }

    /// Does nothing, because this ground has no control groups that a new task could enter.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "ground `linux` has groups")]
    const fn enter_group_of(&self, _task: &str) -> Result<(), SystemError> {
        Ok(())
    }

    /// Returns notes on the resources that the computer did not grant the library.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        self.shared.memory.notices().iter().map(ToString::to_string).collect()
    }

    /// Checks every frame, list and counter after all tasks have ended, and ends the library's own tasks.
    ///
    /// # Errors
    /// When an invariant does not hold, or data could not be written. The error says which.
    pub fn finish(self) -> Result<(), SystemError> {
        let shared = Arc::into_inner(self.shared).ok_or_else(|| SystemError("a task still runs".into()))?;
        drop(shared.files);
        shared.memory.check().map_err(|broken| words(format!("an invariant of the engine is broken: {broken}")))?;
        shared.memory.shutdown().map_err(words)
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.shared.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> Result<PathBuf, SystemError> {
        self.shared.common.path(name, &["swap"])
    }
}

fn words(error: impl Display) -> SystemError {
    SystemError(error.to_string())
}

impl System for HostSystem {
    type File = File;
    type Region = Region;
    tasks_are_threads!();

    fn pressure(&self, group: Option<&str>) -> Result<Option<Pressure>, SystemError> {
        match group {
            None => Ok(Some(self.shared.memory.pressure())),
            Some(_) => Err(SystemError("the library has no memory control groups".into())),
        }
    }

    fn free_pages(&self) -> u64 {
        self.shared.memory.vmstat().get("nr_free_pages")
    }

    fn create(&self, name: &str) -> Result<File, SystemError> {
        let path = self.path(name)?;
        OpenOptions::new().write(true).create_new(true).open(&self.shared.memory, path).map_err(words)?;
        self.files().insert(name.to_owned(), self.open(name)?);
        self.open(name)
    }

    fn open(&self, name: &str) -> Result<File, SystemError> {
        self.shared.memory.open(self.path(name)?).map_err(words)
    }

    fn length(&self, file: &File) -> u64 {
        file.len()
    }

    fn write(&self, file: &File, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        file.write_all_at(bytes, offset).map_err(words)
    }

    #[inline]
    fn read(&self, file: &mut File, offset: u64, bytes: &mut [u8]) -> Result<usize, SystemError> {
        file.read_at(bytes, offset).map_err(words)
    }

    fn start_read(&self, file: &mut File, page: u64) -> Result<(), SystemError> {
        file.advise(page_bytes(page)..page_bytes(page + 1), highwater::Advice::WillNeed);
        Ok(())
    }

    fn expect_random_reads(&self, file: &mut File) {
        file.advise(0..u64::MAX, highwater::Advice::Random);
    }

    fn advise(&self, file: &mut File, advice: Advice, range: Range<u64>) -> Result<(), SystemError> {
        file.advise(
            range,
            match advice {
                Advice::Pattern(ReadPattern::Normal) => highwater::Advice::Normal,
                Advice::Pattern(ReadPattern::Sequential) => highwater::Advice::Sequential,
                Advice::Pattern(ReadPattern::Random) => highwater::Advice::Random,
                Advice::WillNeed => highwater::Advice::WillNeed,
                Advice::DontNeed => highwater::Advice::DontNeed,
            },
        );
        Ok(())
    }

    #[inline]
    fn read_in_place<R>(&self, file: &mut File, page: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, SystemError> {
        file.page(page).map(|guard| read(&guard)).map_err(words)
    }

    fn set_length(&self, file: &File, bytes: u64) -> Result<(), SystemError> {
        file.set_len(bytes).map_err(words)
    }

    fn sync(&self, file: &File) -> Result<(), SystemError> {
        file.sync_data().map_err(words)
    }

    fn remove(&self, name: &str) -> Result<(), SystemError> {
        self.files().remove(name);
        std::fs::remove_file(self.path(name)?).map_err(|error| words(format!("file `{name}`: {error}")))
    }

    fn drop_caches(&self) -> Result<(), SystemError> {
        self.shared.memory.drop_caches();
        Ok(())
    }

    fn map(&self, pages: u32) -> Result<Region, SystemError> {
        self.shared.memory.anonymous(page_bytes(pages.into())).map_err(words)
    }

    fn touch(&self, region: &Region, mut pages: Range<u32>, write: bool) -> Result<(), SystemError> {
        pages.try_for_each(|page| {
            let result =
                if write { region.page_mut(page.into()).map(drop) } else { region.page(page.into()).map(drop) };
            result.map_err(words)
        })
    }

    fn store(&self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        region.write_at(bytes, offset).map_err(words)
    }

    fn load(&self, region: &Region, offset: u64, bytes: &mut [u8]) -> Result<(), SystemError> {
        region.read_at(bytes, offset).map_err(words)
    }

    fn unmap(&self, region: Region) {
        drop(region);
    }

    fn faults(&self) -> Faults {
        let vmstat = self.shared.memory.vmstat();
        let major = vmstat.get("pgmajfault");
        Faults { minor: vmstat.get("pgfault").saturating_sub(major), major, major_wait: Nanos(0) }
    }

    fn vmstat(&self) -> Vmstat {
        self.shared.memory.vmstat().0
    }
}
