//! [`Worker`]: a task that issues requests of a trace.

use super::Params;
use super::files::{Files, ReplayFile};
use super::loaded::{Loaded, NO_HANDLE, is_replayed};
use super::resident::Followed;
use crate::meter::Tally;
use crate::system::{Advice, MapMode, ReadPattern, Sharing, System, SystemError, page_bytes};
use ::trace::{Flags, Operation, PAGE_BYTES, Request};
use machine::Nanos;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of bytes that one call reads or writes. It is larger than the largest readahead window.
const CALL_BYTES: u64 = 16 << 20;

/// A task waits while it is this many requests ahead of the slowest task, for each task.
const AHEAD: u64 = 64;

/// Interval at which a task that is ahead looks at the others.
const LOOK_EVERY: Nanos = Nanos(20_000);

/// Bytes of each page that a load reads.
const LOADED_BYTES: u64 = 8;

/// Counts of what was done, and of what could not be done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Pages that reads, writes, loads and stores accessed.
    pub page_accesses: u64,
    /// Requests that were left out because they go past the page cache, or were reads ahead.
    pub passed_by: u64,
    /// Requests behind the end of their file.
    pub behind_end: u64,
    /// Truncations of files that were mapped, and holes that were punched: they were left out.
    pub not_shortened: u64,
    /// Mappings whose pages no request touches.
    pub maps: u64,
    /// Loads and stores.
    pub touches: u64,
}

/// The counts of all tasks.
#[derive(Debug, Default)]
pub(super) struct AllCounts(Mutex<Counts>);

impl AllCounts {
    pub fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, of: &Counts) {
        let mut all = self.lock();
        all.page_accesses += of.page_accesses;
        all.passed_by += of.passed_by;
        all.behind_end += of.behind_end;
        all.not_shortened += of.not_shortened;
        all.maps += of.maps;
        all.touches += of.touches;
    }
}

/// What all tasks of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    pub loaded: Arc<Loaded>,
    pub files: Files,
    pub counts: AllCounts,
    timed: bool,
    think: Nanos,
    /// For each task, the number of the request that it does now; `u64::MAX` when it has done all.
    at: Vec<AtomicU64>,
    /// How far the memory that is no file has followed the trace; the tasks wait for it if `holds_memory` is set.
    pub followed: Followed,
    holds_memory: bool,
}

impl Shared {
    pub fn new(loaded: Arc<Loaded>, files: Files, params: &Params) -> Self {
        Self {
            loaded,
            files,
            counts: AllCounts::default(),
            timed: params.timed,
            think: Nanos(params.think_us.saturating_mul(1000)),
            at: (0..params.depth).map(|_| AtomicU64::new(0)).collect(),
            followed: Followed::default(),
            holds_memory: params.resident,
        }
    }

    /// Returns the number of the task that issues a request. All requests of a file that the trace truncates or deletes
    /// have one task, because a task that reads or writes a file does not expect another task to cut it off meanwhile.
    fn worker_of(&self, number: usize, request: &Request) -> usize {
        let is_shortened = self.loaded.files.get(request.file as usize).is_some_and(|file| file.is_shortened);
        let by = match self.loaded.handle_of[number] {
            handle if handle != NO_HANDLE && !is_shortened => handle,
            _ => request.file,
        };
        by as usize % self.at.len()
    }
}

/// A mapping of a file in a task.
struct Mapped<S: System> {
    region: S::Region,
    mode: MapMode,
    /// Whether a page of a private mapping was stored to, so that its contents are no longer those of the file.
    is_copied: bool,
}

/// An open file of a task.
struct Handle<S: System> {
    number: u32,
    file: S::File,
    mapped: Option<Mapped<S>>,
    mode: MapMode,
    /// Bytes of the file that are mapped.
    map_bytes: u64,
}

/// A task that issues requests of a trace.
pub(super) struct Worker<'a, S: System> {
    system: &'a S,
    shared: &'a Shared,
    number: usize,
    /// The open files, by the number of the handle. The order of a `HashMap` is not used.
    handles: HashMap<u32, Handle<S>>,
    buffer: Vec<u8>,
    seen: Vec<u32>,
    counts: Counts,
}

impl<'a, S: System> Worker<'a, S> {
    pub fn new(system: &'a S, shared: &'a Shared, number: usize) -> Self {
        let (handles, counts) = (HashMap::new(), Counts::default());
        Self { system, shared, number, handles, buffer: Vec::new(), seen: Vec::new(), counts }
    }

    /// Issues the requests of this task, in the order of the trace.
    pub fn run(mut self, tally: &mut Tally) -> Result<(), SystemError> {
        tally.begin(self.system);
        let done = self.all(tally);
        self.shared.at[self.number].store(u64::MAX, Relaxed);
        // After a failure or an interrupt, handles are left that have not come to their last use.
        let left: Vec<u32> = self.handles.keys().copied().collect();
        let closed = left.into_iter().try_for_each(|handle| self.close(handle));
        self.shared.counts.add(&self.counts);
        done.and(closed)
    }

    fn all(&mut self, tally: &mut Tally) -> Result<(), SystemError> {
        let (shared, begun) = (self.shared, self.system.now());
        let course = Some(&shared.loaded.resident).filter(|course| shared.holds_memory && course.most_pages() > 0);
        let (mut samples, mut checked_us) = (0, 0);
        for (number, request) in shared.loaded.trace.requests().enumerate() {
            if shared.at.len() > 1 && shared.worker_of(number, &request) != self.number {
                continue;
            }
            if tally.is_over() || self.system.is_killed() {
                break;
            }
            self.wait_for_others(number as u64);
            // Most requests have the time of the one before, or lie before the next sample.
            if let Some(course) = course.filter(|_| request.time_us > checked_us) {
                checked_us = request.time_us;
                let until = course.samples_until(request.time_us);
                if until > samples {
                    samples = until;
                    shared.followed.wait(self.system, tally, samples);
                }
            }
            if shared.timed {
                let at = begun + Nanos(request.time_us.saturating_mul(1000));
                let now = self.system.now();
                if at > now {
                    self.system.sleep(at.since(now));
                }
            }
            let handle = shared.loaded.handle_of[number];
            let started = self.system.now();
            self.request(&request, handle)?;
            if request.operation.is_access() {
                tally.count(self.system.now().since(started));
                if shared.think > Nanos(0) {
                    self.system.sleep(shared.think);
                }
            }
            if handle != NO_HANDLE && shared.loaded.last_use[handle as usize] as usize == number {
                self.close(handle)?;
            }
        }
        Ok(())
    }

    /// Waits while this task is far ahead of the slowest one.
    fn wait_for_others(&self, number: u64) {
        let at = &self.shared.at;
        at[self.number].store(number, Relaxed);
        if at.len() == 1 {
            return;
        }
        let slowest = || at.iter().map(|at| at.load(Relaxed)).min().unwrap_or(u64::MAX);
        while number > slowest().saturating_add(AHEAD * at.len() as u64) && !self.system.is_killed() {
            self.system.sleep(LOOK_EVERY);
        }
    }

    fn request(&mut self, request: &Request, handle: u32) -> Result<(), SystemError> {
        if !is_replayed(request) {
            self.counts.passed_by += u64::from(request.operation.is_access());
            return Ok(());
        }
        match request.operation {
            Operation::Read | Operation::Write | Operation::Load | Operation::Store => {
                for range in self.shared.loaded.ranges(request) {
                    self.access(request.operation, request.file, handle, range)?;
                }
                if request.operation == Operation::Write && request.flags.has(Flags::SYNC) {
                    self.sync(handle)?;
                }
                Ok(())
            }
            Operation::Map => self.map(request, handle),
            Operation::Unmap => self.unmap(request, handle),
            Operation::Sync => self.sync(handle),
            Operation::Truncate => self.truncate(request, handle),
            Operation::Delete => match self.shared.files.get(request.file) {
                Some(file) => file.delete(self.system),
                None => Ok(()),
            },
            Operation::AdviseNormal
            | Operation::AdviseRandom
            | Operation::AdviseSequential
            | Operation::AdviseWillNeed
            | Operation::AdviseDontNeed => self.advise(request, handle),
            Operation::Punch => {
                self.counts.not_shortened += 1;
                Ok(())
            }
            // A file is opened at its first use, and closed after its last.
            Operation::Open if request.flags.has(Flags::DIRECT) => Ok(()),
            Operation::Open => self.open_existing(request.file, handle),
            Operation::Close | Operation::AdviseNoReuse | Operation::Fork | Operation::Exit | Operation::Unknown => {
                Ok(())
            }
        }
    }

    /// Opens a file that exists, so that its inode is in memory even if nothing is read.
    fn open_existing(&mut self, number: u32, handle: u32) -> Result<(), SystemError> {
        match self.shared.files.get(number).filter(|file| file.length() > 0) {
            Some(_) => self.handle(number, handle).map(drop),
            None => Ok(()),
        }
    }

    fn file(&self, number: u32) -> Result<&'a ReplayFile, SystemError> {
        let file = self.shared.files.get(number);
        file.ok_or_else(|| SystemError(format!("the trace has no file {number}")))
    }

    /// Returns the handle, and opens its file if this is the first use.
    fn handle(&mut self, number: u32, handle: u32) -> Result<&mut Handle<S>, SystemError> {
        if !self.handles.contains_key(&handle) {
            let file = self.file(number)?.open(self.system)?;
            let mode = MapMode::default();
            self.handles.insert(handle, Handle { number, file, mapped: None, mode, map_bytes: 0 });
        }
        Ok(self.handles.get_mut(&handle).expect("it was just opened"))
    }

    fn close(&mut self, handle: u32) -> Result<(), SystemError> {
        let Some(mut open) = self.handles.remove(&handle) else { return Ok(()) };
        let file = self.file(open.number)?;
        Self::drop_region(self.system, file, &mut open);
        drop(open);
        file.close(self.system)
    }

    fn drop_region(system: &S, file: &ReplayFile, open: &mut Handle<S>) {
        if let Some(mapped) = open.mapped.take() {
            system.unmap(mapped.region);
            file.regions.fetch_sub(1, Relaxed);
        }
    }

    /// Does a read, write, load or store of a range of a file.
    fn access(
        &mut self,
        operation: Operation,
        number: u32,
        handle: u32,
        mut range: Range<u64>,
    ) -> Result<(), SystemError> {
        let file = self.file(number)?;
        if operation != Operation::Write {
            // Reads and touches end with the file.
            range.end = range.end.min(file.length());
        }
        if range.is_empty() {
            self.counts.behind_end += 1;
            return Ok(());
        }
        self.counts.page_accesses += (range.end - 1) / PAGE_BYTES - range.start / PAGE_BYTES + 1;
        match operation {
            Operation::Read => self.in_calls(range, |worker, range| worker.read(file, number, handle, &range)),
            Operation::Write => self.in_calls(range, |worker, range| worker.write(file, number, handle, &range)),
            Operation::Load => self.load(file, number, handle, &range),
            _ => self.in_calls(range, |worker, range| worker.store(file, number, handle, &range)),
        }
    }

    /// Divides a range into the parts that one call transfers each.
    fn in_calls(
        &mut self,
        range: Range<u64>,
        mut call: impl FnMut(&mut Self, Range<u64>) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + CALL_BYTES);
            call(self, at..end)?;
            at = end;
        }
        Ok(())
    }

    fn read(&mut self, file: &ReplayFile, number: u32, handle: u32, range: &Range<u64>) -> Result<(), SystemError> {
        let (mut bytes, mut seen) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.seen));
        let system = self.system;
        file.seen(range, &mut seen);
        let wanted = (range.end - range.start) as usize;
        if bytes.len() < wanted {
            bytes.resize(wanted, 0);
        }
        let open = self.handle(number, handle)?;
        let read = system.read(&mut open.file, range.start, &mut bytes[..wanted])?;
        // Another task may have truncated the file meanwhile.
        let found = range.start..range.start + read as u64;
        if read < wanted && file.length() >= range.end {
            let name = &file.name;
            return Err(SystemError(format!("{name} ended at byte {}, where it is longer", found.end)));
        }
        if read > 0 {
            file.verify(system.kept(), &found, &bytes[..read], &seen)?;
        }
        (self.buffer, self.seen) = (bytes, seen);
        Ok(())
    }

    fn write(&mut self, file: &ReplayFile, number: u32, handle: u32, range: &Range<u64>) -> Result<(), SystemError> {
        let (system, mut bytes) = (self.system, std::mem::take(&mut self.buffer));
        let open = self.handle(number, handle)?;
        file.write(system, range, &mut bytes, |bytes| system.write(&open.file, range.start, bytes))?;
        self.buffer = bytes;
        Ok(())
    }

    /// Returns the region of a handle. Maps the file if it is not mapped, or is mapped in another mode.
    fn region(&mut self, file: &ReplayFile, number: u32, handle: u32) -> Result<&mut Mapped<S>, SystemError> {
        let system = self.system;
        let pages = self.shared.loaded.files[number as usize].most_pages();
        let open = self.handle(number, handle)?;
        if open.mapped.as_ref().is_some_and(|mapped| mapped.mode != open.mode) {
            Self::drop_region(system, file, open);
        }
        if open.mapped.is_none() {
            let region = system.map_file(&open.file, 0..pages as u32, open.mode)?;
            file.regions.fetch_add(1, Relaxed);
            open.mapped = Some(Mapped { region, mode: open.mode, is_copied: false });
        }
        Ok(open.mapped.as_mut().expect("it was just mapped"))
    }

    /// Reads the first bytes of each page of a range through a mapping; on systems that map no files, in place.
    fn load(&mut self, file: &ReplayFile, number: u32, handle: u32, range: &Range<u64>) -> Result<(), SystemError> {
        let (system, mut seen) = (self.system, std::mem::take(&mut self.seen));
        self.counts.touches += 1;
        for page in range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) {
            let start = page_bytes(page);
            let part = start..(start + LOADED_BYTES).min(file.length());
            if part.is_empty() {
                break;
            }
            file.seen(&part, &mut seen);
            let (mut bytes, len) = ([0; LOADED_BYTES as usize], (part.end - part.start) as usize);
            let is_of_file = if system.maps_files() {
                let mapped = self.region(file, number, handle)?;
                system.load(&mapped.region, start, &mut bytes[..len])?;
                !mapped.is_copied
            } else {
                let open = self.handle(number, handle)?;
                system.read_in_place(&mut open.file, page, |found| bytes[..len].copy_from_slice(&found[..len]))?;
                true
            };
            if is_of_file {
                file.verify(system.kept(), &part, &bytes[..len], &seen)?;
            }
        }
        self.seen = seen;
        Ok(())
    }

    fn store(&mut self, file: &ReplayFile, number: u32, handle: u32, range: &Range<u64>) -> Result<(), SystemError> {
        if !self.system.maps_files() {
            self.counts.touches += 1;
            return self.write(file, number, handle, range);
        }
        let (system, mut bytes) = (self.system, std::mem::take(&mut self.buffer));
        self.counts.touches += 1;
        let mapped = self.region(file, number, handle)?;
        if mapped.mode.sharing == Sharing::Private {
            mapped.is_copied = true;
            let pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
            system.touch(&mapped.region, pages.start as u32..pages.end as u32, true)?;
        } else {
            file.write(system, range, &mut bytes, |bytes| system.store(&mapped.region, range.start, bytes))?;
        }
        self.buffer = bytes;
        Ok(())
    }

    /// Notes the mode of a mapping. The file is mapped when a page is touched.
    fn map(&mut self, request: &Request, handle: u32) -> Result<(), SystemError> {
        self.counts.maps += 1;
        if self.shared.files.get(request.file).is_none_or(|file| file.length() == 0) {
            return Ok(());
        }
        let open = self.handle(request.file, handle)?;
        open.map_bytes = open.map_bytes.saturating_add(request.len);
        open.mode.sharing = if request.flags.has(Flags::SHARED) { Sharing::Shared } else { Sharing::Private };
        Ok(())
    }

    /// Unmaps the file when all bytes are unmapped that were mapped.
    fn unmap(&mut self, request: &Request, handle: u32) -> Result<(), SystemError> {
        let (system, file) = (self.system, self.file(request.file)?);
        if let Some(open) = self.handles.get_mut(&handle) {
            open.map_bytes = open.map_bytes.saturating_sub(request.len);
            if open.map_bytes == 0 {
                Self::drop_region(system, file, open);
            }
        }
        Ok(())
    }

    fn sync(&mut self, handle: u32) -> Result<(), SystemError> {
        // A file that was not opened has nothing to write.
        match self.handles.get(&handle) {
            Some(open) => self.system.sync(&open.file),
            None => Ok(()),
        }
    }

    fn truncate(&mut self, request: &Request, handle: u32) -> Result<(), SystemError> {
        let (system, file) = (self.system, self.file(request.file)?);
        if !self.shared.loaded.files[request.file as usize].is_used {
            return Ok(());
        }
        // A touch of a page that was cut off would end the process on a real kernel.
        if file.regions.load(Relaxed) > 0 && request.offset < file.length() {
            self.counts.not_shortened += 1;
            return Ok(());
        }
        if file.length() == 0 && request.offset == 0 {
            return Ok(());
        }
        if handle != NO_HANDLE {
            let open = self.handle(request.file, handle)?;
            return file.truncate(request.offset, |bytes| system.set_length(&open.file, bytes));
        }
        let open = file.open(system)?;
        let set = file.truncate(request.offset, |bytes| system.set_length(&open, bytes));
        drop(open);
        set.and(file.close(system))
    }

    fn advise(&mut self, request: &Request, handle: u32) -> Result<(), SystemError> {
        let (system, file) = (self.system, self.file(request.file)?);
        if file.length() == 0 {
            return Ok(());
        }
        // Advice without a length is meant to the end of the file.
        let len = if request.len > 0 { request.len } else { file.length().saturating_sub(request.offset) };
        let ranges = self.shared.loaded.ranges(&Request { len, ..*request });
        let pattern = |pattern| (Advice::Pattern(pattern), Some(pattern));
        let (advice, pattern) = match request.operation {
            Operation::AdviseRandom => pattern(ReadPattern::Random),
            Operation::AdviseSequential => pattern(ReadPattern::Sequential),
            Operation::AdviseWillNeed => (Advice::WillNeed, None),
            Operation::AdviseDontNeed => (Advice::DontNeed, None),
            _ => pattern(ReadPattern::Normal),
        };
        let open = self.handle(request.file, handle)?;
        if let Some(pattern) = pattern {
            open.mode.pattern = pattern;
        }
        ranges.into_iter().try_for_each(|range| system.advise(&mut open.file, advice, range))
    }
}
