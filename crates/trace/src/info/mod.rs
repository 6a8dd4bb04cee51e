//! [`Info`]: what a trace does, in numbers.
//!
//! An *access* is what a cache counts as a hit or a miss. In a trace of ranges, it is a page that a read, write, load
//! or store touches. In a trace of objects, it is a read or a write. An *object* of the figures is a page in the first
//! case, and an object of the trace in the second.
//!
//! The flow: a first pass over the trace finds its duration. The second pass counts accesses and computes reuse
//! distances ([`distance`]): how many other objects were accessed since the last access to the same object. At the end,
//! [`popularity`] ranks objects by their numbers of accesses.

pub mod distance;
pub mod histogram;
pub mod popularity;

use crate::hwtrace::Trace;
use crate::operation::Operation;
use crate::request::{Kind, PAGE_BYTES, Request};
use distance::{Entry, Reuse};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use histogram::Histogram;
use popularity::Popularity;

/// The limits within which a trace is examined for its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of pages or objects of the trace whose accesses are examined. If the trace has more, only a
    /// sample of them is examined. Each takes 50 to 80 bytes of memory.
    pub objects_max: usize,
    /// Number of intervals into which the duration of the trace is divided.
    pub intervals: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { objects_max: 1 << 23, intervals: 50 }
    }
}

/// The accesses in one interval of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Number of accesses in the interval.
    pub accesses: u64,
    /// Number of the accesses that write.
    pub writes: u64,
    /// Number of different objects that were accessed in the interval (its working set).
    pub objects: u64,
    /// Number of objects whose first access in the whole trace lies in this interval.
    pub new_objects: u64,
    /// Number of bytes that the requests of the interval read and wrote. A page counts only with the bytes that a
    /// request names.
    pub bytes: u64,
}

/// A file of a trace, and how much it was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// Number of the file in the trace's table of files.
    pub file: u32,
    /// Number of reads of pages of the file. A page that is read again counts again.
    pub reads: u64,
    /// Number of writes of pages of the file. A page that is written again counts again.
    pub writes: u64,
}

/// A summary of what the requests of a trace do, in figures.
#[derive(Clone, Debug)]
pub struct Info {
    /// The kind of the trace: its requests address ranges of files, or objects.
    pub kind: Kind,
    /// Number of requests for each operation. Operations without requests are left out.
    pub operations: Vec<(Operation, u64)>,
    /// Number of requests that read, write, load or store.
    pub access_requests: u64,
    /// Number of accesses: reads and writes of a page or of an object.
    pub accesses: u64,
    /// Number of the accesses that write.
    pub writes: u64,
    /// Total length of the requests that read, bytes.
    pub bytes_read: u64,
    /// Total length of the requests that write, bytes.
    pub bytes_written: u64,
    /// Lengths of the requests that access data (reads, writes, loads and stores), bytes.
    pub lengths: Histogram,
    /// Time from the first to the last request, µs; 0 if the trace has no times.
    pub duration_us: u64,
    /// Number of files that requests name.
    pub files: u64,
    /// Number of tasks that made requests.
    pub tasks: u64,
    /// The files that were accessed, those with most accesses first; empty for a trace of objects.
    pub by_file: Vec<FileUse>,
    /// Number of different objects that were accessed.
    pub objects: u64,
    /// Total size of the accessed objects, bytes. For an object that changes its size, the last size counts.
    pub object_bytes: u64,
    /// Number of objects that each followed object stands for. If the number is 1, all objects were followed and all
    /// figures are exact.
    pub objects_per_followed: u64,
    /// Number of accesses that are the first to their object in the trace.
    pub first_accesses: u64,
    /// Reuse distances of all accesses except first ones. A reuse distance is the number of different other objects
    /// that were accessed since the last access to the same object.
    pub distances: Histogram,
    /// The figures of consecutive intervals. The intervals have equal lengths in time or, if the trace has no times,
    /// equal numbers of requests.
    pub intervals: Vec<Interval>,
    /// The distribution of accesses over objects.
    pub popularity: Popularity,
}

impl Info {
    /// Computes the figures of a trace from its requests.
    #[must_use]
    pub fn of(trace: &Trace, limits: Limits) -> Self {
        let duration_us = trace.requests().map(|request| request.time_us).max().unwrap_or(0);
        let intervals = limits.intervals.max(1);
        let mut counter = Counter::new(trace.kind(), limits.objects_max, intervals);
        let last = (trace.len() as u64).saturating_sub(1);
        for (number, request) in trace.requests().enumerate() {
            let (at, of) = if duration_us > 0 { (request.time_us, duration_us) } else { (number as u64, last) };
            let interval = u128::from(at) * intervals as u128 / (u128::from(of) + 1);
            counter.count(&request, interval as usize);
        }
        counter.finish(duration_us)
    }

    /// Returns the share of accesses that miss in an LRU cache of `objects` objects.
    #[must_use]
    pub fn lru_miss_ratio(&self, objects: u64) -> f64 {
        let accesses = self.first_accesses + self.distances.total();
        (accesses - self.distances.below(objects)) as f64 / accesses.max(1) as f64
    }

    /// Returns the share of accesses that are reads (0 to 1).
    #[must_use]
    pub fn read_share(&self) -> f64 {
        (self.accesses - self.writes) as f64 / self.accesses.max(1) as f64
    }
}

/// The counters from which an [`Info`] is made. Each request of the trace is added to them.
struct Counter {
    kind: Kind,
    operations: [u64; Operation::ALL.len()],
    by_file: HashMap<u32, FileUse, FixedState>,
    tasks: HashSet<u32, FixedState>,
    lengths: Histogram,
    bytes: [u64; 2],
    first_accesses: u64,
    distances: Histogram,
    reuse: Reuse,
    intervals: Vec<Interval>,
}

impl Counter {
    fn new(kind: Kind, objects_max: usize, intervals: usize) -> Self {
        Self {
            kind,
            operations: [0; Operation::ALL.len()],
            by_file: HashMap::with_hasher(FixedState::default()),
            tasks: HashSet::with_hasher(FixedState::default()),
            lengths: Histogram::default(),
            bytes: [0; 2],
            first_accesses: 0,
            distances: Histogram::default(),
            reuse: Reuse::new(objects_max),
            intervals: vec![Interval::default(); intervals],
        }
    }

    fn count(&mut self, request: &Request, interval: usize) {
        let Request { operation, file, task, len, .. } = *request;
        if let Some(count) = self.operations.get_mut(operation as usize) {
            *count += 1;
        }
        self.tasks.insert(task);
        if !matches!(operation, Operation::Fork | Operation::Exit) {
            let of_file = self.by_file.entry(file).or_insert(FileUse { file, ..FileUse::default() });
            let pages = request.page_range().map_or(0, |range| range.end() - range.start() + 1);
            match (operation.is_access(), operation.is_write()) {
                (true, false) => of_file.reads += pages,
                (true, true) => of_file.writes += pages,
                (false, _) => {}
            }
        }
        if !operation.is_access() {
            return;
        }
        self.lengths.add(len, 1);
        let sum = &mut self.bytes[usize::from(operation.is_write())];
        *sum = sum.saturating_add(len);
        self.intervals[interval].bytes = self.intervals[interval].bytes.saturating_add(len);
        if self.kind == Kind::Objects {
            return self.access(request.key(), len, request, interval);
        }
        for key in request.page_keys() {
            self.access(key, PAGE_BYTES, request, interval);
        }
    }

    fn access(&mut self, key: u64, bytes: u64, request: &Request, number: usize) {
        let interval = &mut self.intervals[number];
        interval.accesses += 1;
        interval.writes += u64::from(request.operation.is_write());
        let Some(touch) = self.reuse.touch(key) else { return };
        touch.entry.bytes = bytes;
        // Intervals of entries count from 1.
        let is_new_here = std::mem::replace(&mut touch.entry.interval, number as u32 + 1) != number as u32 + 1;
        interval.objects += u64::from(is_new_here) * touch.weight;
        match touch.distance {
            Some(distance) => self.distances.add(distance, touch.weight),
            None => {
                interval.new_objects += touch.weight;
                self.first_accesses += touch.weight;
            }
        }
    }

    fn finish(self, duration_us: u64) -> Info {
        let per_followed = self.reuse.keys_per_kept();
        let entries = self.reuse.entries();
        let bytes = entries.iter().fold(0_u64, |sum, Entry { bytes, .. }| sum.saturating_add(*bytes));
        let files = self.by_file.len() as u64;
        let mut by_file: Vec<FileUse> = self.by_file.into_values().collect();
        by_file.retain(|of_file| self.kind == Kind::Ranges && of_file.reads + of_file.writes > 0);
        by_file.sort_by_key(|of_file| (u64::MAX - of_file.reads - of_file.writes, of_file.file));
        let with_requests = Operation::ALL.into_iter().zip(self.operations).filter(|(_, count)| *count > 0);
        Info {
            kind: self.kind,
            operations: with_requests.collect(),
            access_requests: self.lengths.total(),
            accesses: self.intervals.iter().map(|interval| interval.accesses).sum(),
            writes: self.intervals.iter().map(|interval| interval.writes).sum(),
            bytes_read: self.bytes[0],
            bytes_written: self.bytes[1],
            lengths: self.lengths,
            duration_us,
            files: if self.kind == Kind::Objects { 0 } else { files },
            tasks: self.tasks.len() as u64,
            by_file,
            objects: entries.len() as u64 * per_followed,
            object_bytes: bytes.saturating_mul(per_followed),
            objects_per_followed: per_followed,
            first_accesses: self.first_accesses,
            distances: self.distances,
            intervals: self.intervals,
            popularity: Popularity::of(entries.iter().map(|entry| entry.count).collect()),
        }
    }
}

#[cfg(test)]
mod tests;
