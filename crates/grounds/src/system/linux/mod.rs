//! The ground `linux`: the kernel of this computer.
//!
//! Files go through the kernel's page cache. They can be read in place through a shared mapping, or mapped as a
//! [`region`]. Anonymous memory is a private mapping; tasks are threads, and forked tasks are processes. The cgroup of
//! the process limits memory ([`limit`]).
//!
//! Counters come from the cgroup if it has them, and otherwise from the whole computer: see [`counters`].

pub mod groups;
pub mod limit;
mod pressure;
pub mod region;
pub mod swap;

use super::threads::{Common, Stop, tasks_are_threads};
use computer::counters::{self, Counters};
use computer::{fork, sys};
use engine::stat::Vmstat;
use figures::figure::Row;
use figures::usage::Faults;
use groups::Groups;
use region::Region;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use workloads::system::contents::Kept;
use workloads::system::{
    Advice, Given, MapMode, Pressure, PressureTrigger, ReadPattern, SharedWords, System, SystemError, page_bytes,
};

/// The state that all tasks of a workload share.
#[derive(Debug)]
struct Shared {
    common: Common,
    counters: Counters,
    /// The memory control groups of the machine file; `None` if the machine file has no groups.
    groups: Option<Arc<Groups>>,
    /// The mapping of each file, by the file's name. All tasks share the mapping, which exists as long as a handle uses
    /// it.
    mapped: Mutex<BTreeMap<String, Weak<sys::FileMapping>>>,
    /// A token for each file name. The token exists while a region maps the file, and the file cannot be removed during
    /// that time.
    regions: Mutex<BTreeMap<String, Weak<()>>>,
}

/// This computer's kernel as one task of a workload sees it.
#[derive(Debug)]
pub struct LinuxSystem {
    shared: Arc<Shared>,
    stop: Arc<Stop>,
}

/// A file that one task has open.
#[derive(Debug)]
pub struct OpenFile {
    name: String,
    file: File,
    is_random: bool,
    /// The mapping of the file; `None` before the first read in place, which maps the file.
    mapping: Option<Arc<sys::FileMapping>>,
}

impl LinuxSystem {
    /// Makes a system whose operations are those of the running kernel, with `memory_pages` pages of memory, files in
    /// `folder`, and counters from `counters`. `kept` says how much of each page's contents workloads write and verify.
    ///
    /// # Errors
    /// When the folder lies in memory (tmpfs), because files would then take a part of the limited memory.
    pub fn new(
        folder: PathBuf,
        memory_pages: u64,
        counters: Counters,
        given: Given,
        kept: Kept,
    ) -> Result<Self, SystemError> {
        let told = |error: io::Error| SystemError(format!("{}: {error}", folder.display()));
        if sys::is_in_memory(&File::open(&folder).map_err(told)?).map_err(told)? {
            let folder = folder.display();
            return Err(SystemError(format!("{folder} lies in memory (tmpfs): `--dir` must name a folder on a disk")));
        }
        let common = Common::new(given, folder, memory_pages, kept);
        let shared = Shared { common, counters, groups: None, mapped: Mutex::default(), regions: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), stop: Arc::default() })
    }

    /// Gives the system its memory control groups. The calling task enters the group whose `tasks` name `main`.
    ///
    /// # Errors
    /// When a task was already started, or the kernel refuses.
    pub fn with_groups(self, groups: Groups) -> Result<Self, SystemError> {
        let shared = Arc::into_inner(self.shared).ok_or_else(|| SystemError("a task runs already".into()))?;
        groups.enter_of_main()?;
        Ok(Self { shared: Arc::new(Shared { groups: Some(Arc::new(groups)), ..shared }), stop: self.stop })
    }

    /// Returns the report's rows about the groups of the machine file.
    #[must_use]
    pub fn group_rows(&self) -> Vec<Row> {
        self.shared.groups.as_ref().map_or_else(Vec::new, |groups| groups.rows())
    }

    fn groups(&self) -> Result<&Groups, SystemError> {
        self.shared.groups.as_deref().ok_or_else(|| SystemError("the machine file has no [[group]]".into()))
    }

    /// Returns the state that a child process uses instead of this one. Its locks are free, while other threads of this
    /// process may hold those of this state when it forks. The locks of the groups are taken only when a task starts, and
    /// when the measured part begins and ends: a child does none of these.
    fn for_child(&self) -> Shared {
        let Shared { common, counters, groups, mapped, regions } = &*self.shared;
        let (mapped, regions) = (
            mapped.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            regions.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        );
        Shared {
            common: common.clone(),
            counters: counters.clone(),
            groups: groups.clone(),
            mapped: Mutex::new(mapped),
            regions: Mutex::new(regions),
        }
    }

    fn enter_group_of(&self, task: &str) -> Result<(), SystemError> {
        self.shared.groups.as_ref().map_or(Ok(()), |groups| groups.enter_of_task(task))
    }

    /// Returns the path of the file with the memory pressure (PSI) of the control group `group`. For `None`, returns
    /// the file of the cgroup that limits the workload's memory or, without such a cgroup, the file of the whole
    /// computer.
    fn pressure_file(&self, group: Option<&str>) -> Result<PathBuf, SystemError> {
        if let Some(name) = group {
            return self.groups()?.pressure_file(name);
        }
        let of_limit = self.shared.counters.cgroup().map(|cgroup| cgroup.path.join("memory.pressure"));
        Ok(of_limit.filter(|file| file.exists()).unwrap_or_else(|| "/proc/pressure/memory".into()))
    }

    fn path(&self, name: &str) -> Result<PathBuf, SystemError> {
        self.shared.common.path(name, &[])
    }

    fn open_with(&self, name: &str, options: &OpenOptions) -> Result<OpenFile, SystemError> {
        let file = options.open(self.path(name)?).map_err(|error| words(name, &error))?;
        Ok(OpenFile { name: name.to_owned(), file, is_random: false, mapping: None })
    }

    /// Returns the mapping of a file, which all handles of the file share. If there is none, or if it does not contain
    /// `page` because the file has grown, makes a new mapping of the whole file.
    fn mapping(&self, file: &OpenFile, page: u64) -> Result<Arc<sys::FileMapping>, SystemError> {
        let mut mapped = self.shared.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = mapped.get(&file.name).and_then(Weak::upgrade).filter(|mapping| page < mapping.pages()) {
            return Ok(mapping);
        }
        let bytes = self.length(file);
        let pages = bytes.div_ceil(page_bytes(1));
        if page >= pages {
            let name = &file.name;
            return Err(SystemError(format!("file `{name}`: page {page} lies after its end, it has {pages}")));
        }
        let mapping = sys::FileMapping::new(&file.file, bytes, file.is_random);
        let mapping = Arc::new(mapping.map_err(|error| words(&file.name, &error))?);
        mapped.insert(file.name.clone(), Arc::downgrade(&mapping));
        Ok(mapping)
    }
}

fn words(name: &str, error: &io::Error) -> SystemError {
    let hint = match error.kind() {
        io::ErrorKind::OutOfMemory => ": the load needs more memory or swap than its cgroup allows",
        _ => "",
    };
    SystemError(format!("file `{name}`: {error}{hint}"))
}

impl System for LinuxSystem {
    type File = OpenFile;
    type Region = Region;
    tasks_are_threads!();

    const FORKS: bool = true;

    fn share_words(&self, count: usize) -> Result<SharedWords, SystemError> {
        let told = |error| SystemError(format!("cannot map {count} words: {error}"));
        Ok(Arc::new(fork::SharedWords::new(count).map_err(told)?))
    }

    fn fork(
        &self,
        name: &str,
        regions: &[&Region],
        body: impl FnOnce(&Self, Vec<Region>) -> Vec<u8> + Send + 'static,
        ended: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
    ) -> Result<Self::Task, SystemError> {
        let told = |error: io::Error| SystemError(format!("cannot fork task `{name}`: {error}"));
        let mappings = regions.iter().map(|region| region.anonymous_memory().ok_or(io::ErrorKind::InvalidInput.into()));
        let mappings = mappings.collect::<io::Result<Vec<_>>>().map_err(told)?;
        let stop = Arc::new(Stop::of_process().map_err(told)?);
        let system = Self { shared: Arc::new(self.for_child()), stop: stop.clone() };
        let in_child = move |copies: Vec<sys::Mapping>| {
            let groups = system.shared.groups.as_ref();
            groups.map_or(Ok(()), |groups| groups.enter_of_process(name)).unwrap_or_else(|error| panic!("{error}"));
            body(&system, copies.into_iter().map(Region::of_copy).collect())
        };
        // SAFETY: the child has a state of its own, whose locks are free, and `System::fork` demands of `body` that it
        // takes no other lock, starts no task and prints nothing.
        #[allow(unsafe_code)]
        let child = unsafe { fork::fork(&mappings, in_child) };
        Ok(Self::Task::wait_for(name, child.map_err(told)?, stop, ended))
    }

    fn enter_group(&self, name: Option<&str>) -> Result<(), SystemError> {
        self.groups()?.enter(name)
    }

    fn group_names(&self, name: &str) -> Result<Vec<String>, SystemError> {
        self.groups()?.names_of(name)
    }

    fn begin_measured(&self) {
        self.shared.groups.iter().for_each(|groups| groups.begin_measured());
    }

    fn end_measured(&self) {
        self.shared.groups.iter().for_each(|groups| groups.end_measured());
    }

    fn reclaim_group(&self, name: &str, pages: u64, swappiness: Option<u64>) -> Result<bool, SystemError> {
        self.groups()?.reclaim(name, pages, swappiness)
    }

    fn set_group_limit(&self, name: &str, limit: engine::memory::Limit, pages: u64) -> Result<(), SystemError> {
        self.groups()?.set_limit(name, limit, pages)
    }

    fn group_stat(&self, name: &str) -> Result<Option<Vmstat>, SystemError> {
        self.groups()?.stat(name).map(Some)
    }

    fn pressure(&self, group: Option<&str>) -> Result<Option<Pressure>, SystemError> {
        pressure::read(&self.pressure_file(group)?)
    }

    fn pressure_trigger(&self, group: Option<&str>, trigger: &str) -> Result<PressureTrigger, SystemError> {
        pressure::trigger(&self.pressure_file(group)?, trigger, self.stop.clone())
    }

    fn free_pages(&self) -> u64 {
        self.shared.counters.free_pages(self.shared.common.memory_pages)
    }

    fn create(&self, name: &str) -> Result<OpenFile, SystemError> {
        self.open_with(name, OpenOptions::new().read(true).write(true).create_new(true))
    }

    fn open(&self, name: &str) -> Result<OpenFile, SystemError> {
        self.open_with(name, OpenOptions::new().read(true).write(true))
    }

    fn length(&self, file: &OpenFile) -> u64 {
        file.file.metadata().map_or(0, |data| data.len())
    }

    fn write(&self, file: &OpenFile, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        file.file.write_all_at(bytes, offset).map_err(|error| words(&file.name, &error))
    }

    fn read(&self, file: &mut OpenFile, offset: u64, bytes: &mut [u8]) -> Result<usize, SystemError> {
        let mut done = 0;
        while done < bytes.len() {
            match file.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(words(&file.name, &error)),
            }
        }
        Ok(done)
    }

    fn start_read(&self, file: &mut OpenFile, page: u64) -> Result<(), SystemError> {
        sys::start_read(&file.file, page_bytes(page), page_bytes(1) as usize);
        Ok(())
    }

    fn expect_random_reads(&self, file: &mut OpenFile) {
        sys::expect_random_reads(&file.file);
        file.is_random = true;
    }

    fn advise(&self, file: &mut OpenFile, advice: Advice, range: Range<u64>) -> Result<(), SystemError> {
        let advice = match advice {
            Advice::Pattern(ReadPattern::Normal) => rustix::fs::Advice::Normal,
            Advice::Pattern(ReadPattern::Sequential) => rustix::fs::Advice::Sequential,
            Advice::Pattern(ReadPattern::Random) => rustix::fs::Advice::Random,
            Advice::WillNeed => rustix::fs::Advice::WillNeed,
            Advice::DontNeed => rustix::fs::Advice::DontNeed,
        };
        // A length of 0 would stand for the rest of the file.
        let Some(len) = NonZero::new(range.end.saturating_sub(range.start)) else { return Ok(()) };
        rustix::fs::fadvise(&file.file, range.start, Some(len), advice)
            .map_err(|error| words(&file.name, &error.into()))
    }

    #[inline]
    fn read_in_place<R>(
        &self,
        file: &mut OpenFile,
        page: u64,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, SystemError> {
        if file.mapping.as_ref().is_none_or(|mapping| page >= mapping.pages()) {
            file.mapping = Some(self.mapping(file, page)?);
        }
        let mapping = file.mapping.as_ref().expect("made above");
        Ok(read(mapping.page(page)))
    }

    fn set_length(&self, file: &OpenFile, bytes: u64) -> Result<(), SystemError> {
        file.file.set_len(bytes).map_err(|error| words(&file.name, &error))
    }

    fn maps_files(&self) -> bool {
        true
    }

    fn map_file(&self, file: &OpenFile, pages: Range<u32>, mode: MapMode) -> Result<Region, SystemError> {
        let told = |error: io::Error| SystemError(format!("file `{}`: cannot be mapped: {error}", file.name));
        let token = {
            let mut regions = self.shared.regions.lock().unwrap_or_else(PoisonError::into_inner);
            let token = regions.get(&file.name).and_then(Weak::upgrade).unwrap_or_default();
            regions.insert(file.name.clone(), Arc::downgrade(&token));
            token
        };
        Region::of_file((&file.name, &file.file, token), pages, mode).map_err(told)
    }

    fn sync(&self, file: &OpenFile) -> Result<(), SystemError> {
        file.file.sync_data().map_err(|error| words(&file.name, &error))
    }

    fn remove(&self, name: &str) -> Result<(), SystemError> {
        let regions = || self.shared.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if regions().get(name).is_some_and(|token| token.strong_count() > 0) {
            return Err(SystemError(format!("file `{name}` is mapped")));
        }
        regions().remove(name);
        self.shared.mapped.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        fs::remove_file(self.path(name)?).map_err(|error| words(name, &error))
    }

    fn drop_caches(&self) -> Result<(), SystemError> {
        let told = |error: io::Error| SystemError(format!("cannot drop cached pages: {error}"));
        for entry in fs::read_dir(&self.shared.common.folder).map_err(told)? {
            let entry = entry.map_err(told)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let file = File::open(entry.path()).map_err(told)?;
            sys::drop_pages(&file).map_err(told)?;
        }
        Ok(())
    }

    fn map(&self, pages: u32) -> Result<Region, SystemError> {
        Region::anonymous(pages).map_err(|error| SystemError(format!("cannot map {pages} pages: {error}")))
    }

    fn map_huge(&self, pages: u32) -> Result<Region, SystemError> {
        Region::huge(pages).map_err(|error| SystemError(format!("cannot map {pages} pages: {error}")))
    }

    fn touch(&self, region: &Region, pages: Range<u32>, write: bool) -> Result<(), SystemError> {
        let memory = region.pages(pages.end.into())?;
        pages.for_each(|page| match region.anonymous_memory() {
            // A page must not stay a page of zeroes: Linux 6.12 and later swap such pages without writing them.
            Some(memory) if write => memory.store(page_bytes(u64::from(page) + 1) as usize - 1, &[1]),
            Some(_) | None => memory.touch(page_bytes(page.into()) as usize, write),
        });
        Ok(())
    }

    fn store(&self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        region.bytes(offset, bytes.len())?.store(offset as usize, bytes);
        Ok(())
    }

    fn load(&self, region: &Region, offset: u64, bytes: &mut [u8]) -> Result<(), SystemError> {
        region.bytes(offset, bytes.len())?.load(offset as usize, bytes);
        Ok(())
    }

    fn unmap(&self, region: Region) {
        drop(region);
    }

    fn faults(&self) -> Faults {
        sys::faults()
    }

    fn vmstat(&self) -> Vmstat {
        self.shared.counters.vmstat()
    }

    fn pages_read_in(&self) -> Option<u64> {
        counters::bytes_read_in().map(|bytes| bytes / page_bytes(1))
    }
}
