//! [`Loaded`]: a trace with what a run needs to know of it before it begins.

use super::places::{PART_BYTES, Places};
use super::resident::Resident;
use ::trace::{Flags, Kind, Operation, PAGE_BYTES, Request, Trace};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Stands for a request that belongs to no open file.
pub(super) const NO_HANDLE: u32 = u32::MAX;

/// Only the used parts of a file are replayed ([`Places`]) if the file is so many times as large as these parts. A file
/// without a recorded size is most likely a device.
const SPARSE: u64 = 2;

/// Factor that stands for [`SPARSE`] if the size of the file was recorded.
const SPARSE_OF_KNOWN: u64 = 8;

/// A file whose size was recorded is replayed as a whole up to this size, bytes.
const WHOLE_BYTES: u64 = 64 << 20;

/// Number of parts of one file beyond which duplicates are removed.
const PARTS_MAX: usize = 1 << 20;

/// Largest number of pages of a file: page numbers have 32 bits.
const FILE_PAGES_MAX: u64 = u32::MAX as u64;

/// A file of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct FileOf {
    /// Length at the beginning of the trace, bytes. 0 also stands for a file that does not exist yet.
    pub first_bytes: u64,
    /// Largest length during the trace, bytes.
    pub most_bytes: u64,
    /// Whether the trace writes, stores, truncates or deletes it.
    pub is_changed: bool,
    /// Whether the trace truncates or deletes it.
    pub is_shortened: bool,
    /// Whether any request of the trace accesses it.
    pub is_used: bool,
    /// The used parts, if only these are replayed.
    pub places: Option<Places>,
}

impl FileOf {
    /// Returns the largest number of pages that the file has during the trace.
    pub const fn most_pages(&self) -> u64 {
        if self.is_used { self.most_bytes.div_ceil(PAGE_BYTES) } else { 0 }
    }
}

/// A trace, and what follows from all of its requests.
#[derive(Debug)]
pub(super) struct Loaded {
    pub name: String,
    pub trace: Trace,
    /// The files, by their numbers in the trace.
    pub files: Vec<FileOf>,
    /// For each request, the number of the open file (handle) that it uses, counted from 0 in the order of the first
    /// use; [`NO_HANDLE`] if it uses none.
    pub handle_of: Vec<u32>,
    /// For each handle, the number of the last request that uses it.
    pub last_use: Vec<u32>,
    /// The recorded memory that is no file.
    pub resident: Resident,
    /// Time of the last request, µs.
    pub time_us: u64,
    /// Number of reads, writes, loads and stores.
    pub accesses: u64,
    /// Number of pages that these access, counted anew for each request.
    pub page_accesses: u64,
}

/// A trace that was loaded from a file, with what told the file apart then.
struct Kept {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
    loaded: Arc<Loaded>,
}

/// The trace that was loaded last, so that the runs of a comparison read it once.
static LAST: Mutex<Option<Kept>> = Mutex::new(None);

/// Loads the trace in a file, unless it is the one that was loaded last and the file is unchanged.
pub(super) fn load(path: &Path) -> Result<Arc<Loaded>, String> {
    let told = |error: std::io::Error| format!("{}: {}", path.display(), kit::input::why(&error));
    let about = fs::metadata(path).map_err(told)?;
    let (bytes, modified) = (about.len(), about.modified().map_err(told)?);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = last.as_ref().filter(|kept| (&*kept.path, kept.bytes, kept.modified) == (path, bytes, modified))
    {
        return Ok(kept.loaded.clone());
    }
    let trace = Trace::open(path).map_err(|wrong| {
        format!("{wrong}; `highwater trace convert` makes a trace in the format .hwtrace from other formats")
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let loaded = Arc::new(Loaded::of(name, trace));
    *last = Some(Kept { path: path.to_owned(), bytes, modified, loaded: loaded.clone() });
    Ok(loaded)
}

/// Returns whether a run issues a request. Transfers past the page cache, and reads that the recorded system made ahead
/// by itself, are left out: the replaying system reads ahead by its own rules.
pub(super) const fn is_replayed(request: &Request) -> bool {
    !request.flags.has(Flags::DIRECT) && !request.flags.has(Flags::READAHEAD)
}

impl Loaded {
    /// Makes one pass over the requests of a trace.
    fn of(name: String, trace: Trace) -> Self {
        let mut sizes = Sizes::of(&trace);
        let mut handles = Handles::default();
        let (mut time_us, mut accesses, mut page_accesses) = (0, 0, 0);
        for (number, request) in (0..).zip(trace.requests()) {
            time_us = time_us.max(request.time_us);
            handles.take(number, &request);
            if !is_replayed(&request) {
                continue;
            }
            if request.operation.is_access() {
                accesses += 1;
                page_accesses += request.page_range().map_or(0, |pages| pages.end() - pages.start() + 1);
            }
            sizes.take(&request);
        }
        let resident = Resident::of(trace.metadata());
        let Handles { handle_of, last_use, .. } = handles;
        let files = sizes.finish();
        Self { name, trace, files, handle_of, last_use, resident, time_us, accesses, page_accesses }
    }

    /// Refuses a trace that cannot be replayed on a machine.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if self.trace.kind() == Kind::Objects {
            return Err(format!(
                "{name}: it is a trace of cached objects, which are no files: expected a trace of ranges of files"
            ));
        }
        if self.accesses == 0 {
            return Err(format!("{name}: no request reads, writes, loads or stores through the page cache"));
        }
        if self.trace.len() >= NO_HANDLE as usize {
            return Err(format!("{name}: it has {} requests: expected less than {NO_HANDLE}", self.trace.len()));
        }
        match self.files.iter().enumerate().find(|(_, file)| file.most_pages() > FILE_PAGES_MAX) {
            Some((number, file)) => {
                Err(format!("{name}: file {number} has {} pages: expected at most {FILE_PAGES_MAX}", file.most_pages()))
            }
            None => Ok(()),
        }
    }

    /// Returns the ranges in the file of a run that stand for a range of a file of the trace.
    pub fn ranges(&self, request: &Request) -> Vec<std::ops::Range<u64>> {
        let range = request.offset..request.offset + request.len;
        match self.files.get(request.file as usize).and_then(|file| file.places.as_ref()) {
            Some(places) => places.ranges(range),
            None => vec![range],
        }
    }
}

/// Finds the lengths of files from the requests, and from what the trace says of itself.
struct Sizes {
    files: Vec<FileOf>,
    /// The length of each file at the present request, bytes.
    now: Vec<u64>,
    /// For each file, whether its size was recorded, and the parts that were used.
    parts: Vec<(bool, Vec<u64>)>,
}

impl Sizes {
    fn of(trace: &Trace) -> Self {
        let recorded = trace.metadata().get("file_bytes").and_then(|sizes| sizes.as_object());
        let mut sizes = Self { files: Vec::new(), now: Vec::new(), parts: Vec::new() };
        for number in 0..trace.file_names() as u32 {
            let bytes = recorded.and_then(|sizes| sizes.get(&number.to_string())?.as_u64());
            sizes.file(number);
            if let Some(bytes) = bytes {
                sizes.parts[number as usize].0 = true;
                let file = &mut sizes.files[number as usize];
                (file.first_bytes, file.most_bytes, sizes.now[number as usize]) = (bytes, bytes, bytes);
            }
        }
        sizes
    }

    fn file(&mut self, number: u32) -> &mut FileOf {
        let number = number as usize;
        while self.files.len() <= number {
            self.files.push(FileOf::default());
            self.now.push(0);
            self.parts.push((false, Vec::new()));
        }
        &mut self.files[number]
    }

    fn take(&mut self, request: &Request) {
        let Request { file: number, offset, len, operation, .. } = *request;
        let at = number as usize;
        let end = offset.saturating_add(len);
        match operation {
            Operation::Read | Operation::Load | Operation::Write | Operation::Store if len > 0 => {
                let is_write = operation.is_write();
                let file = self.file(number);
                file.is_used = true;
                file.is_changed |= is_write;
                if end > self.now[at] {
                    // A program read bytes here that it has not written: the file had them before. A store extends no
                    // file, and a device without recorded size was there before its first write, too.
                    if operation != Operation::Write {
                        self.files[at].first_bytes = self.files[at].first_bytes.max(end);
                    }
                    self.now[at] = end;
                    self.files[at].most_bytes = self.files[at].most_bytes.max(end);
                }
                let parts = &mut self.parts[at].1;
                for part in offset / PART_BYTES..=(end - 1) / PART_BYTES {
                    if parts.last() != Some(&part) {
                        parts.push(part);
                    }
                }
                if parts.len() >= PARTS_MAX {
                    parts.sort_unstable();
                    parts.dedup();
                }
            }
            Operation::Open => {
                let file = self.file(number);
                if !file.is_used && file.first_bytes == 0 && file.most_bytes == 0 {
                    (file.first_bytes, file.most_bytes) = (len, len);
                    self.now[at] = len;
                }
            }
            Operation::Truncate => {
                let file = self.file(number);
                (file.is_changed, file.is_shortened) = (true, true);
                file.most_bytes = file.most_bytes.max(offset);
                self.now[at] = offset;
            }
            Operation::Delete => {
                let file = self.file(number);
                (file.is_changed, file.is_shortened) = (true, true);
                self.now[at] = 0;
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Vec<FileOf> {
        for (file, (is_known, parts)) in self.files.iter_mut().zip(self.parts) {
            let places = Places::of(parts);
            let is_sparse = match is_known {
                false => file.most_bytes > SPARSE * places.bytes(),
                true => file.most_bytes > WHOLE_BYTES.max(SPARSE_OF_KNOWN * places.bytes()),
            };
            // A file that is cut off or removed is no device.
            if file.is_used && is_sparse && !file.is_shortened {
                // The requests name parts of a device, which all exist.
                (file.first_bytes, file.most_bytes) = (places.bytes(), places.bytes());
                file.places = Some(places);
            }
        }
        self.files
    }
}

/// Numbers the open files of a trace.
#[derive(Default)]
struct Handles {
    handle_of: Vec<u32>,
    last_use: Vec<u32>,
    /// The open files at the present request: by number of the open file description and of the file, or, where the
    /// source does not tell it, of the task and of the file.
    open: HashMap<(bool, u32, u32), u32>,
}

impl Handles {
    fn take(&mut self, number: u32, request: &Request) {
        use Operation::{Close, Delete, Exit, Fork, Open};
        let is_of_none = matches!(request.operation, Fork | Exit | Delete)
            || request.operation == Operation::Truncate && request.handle == 0;
        if is_of_none {
            self.handle_of.push(NO_HANDLE);
            return;
        }
        let key = match request.handle {
            0 => (false, request.task, request.file),
            handle => (true, handle, request.file),
        };
        if request.operation == Open {
            // The number of an open file description that was closed is used again.
            self.open.remove(&key);
        }
        let next = self.last_use.len() as u32;
        let handle = *self.open.entry(key).or_insert(next);
        if handle == next {
            self.last_use.push(number);
        }
        self.last_use[handle as usize] = number;
        self.handle_of.push(handle);
        if request.operation == Close && request.handle == 0 {
            self.open.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: Operation, file: u32, offset: u64, len: u64) -> Request {
        Request { operation, file, offset, len, ..Request::default() }
    }

    fn loaded(requests: Vec<Request>) -> Loaded {
        Loaded::of("test".into(), Trace::from_requests(Kind::Ranges, requests).unwrap())
    }

    #[test]
    fn a_file_was_there_before_as_far_as_it_is_read_before_it_is_written() {
        use Operation::{Read, Truncate, Write};
        let found = loaded(vec![
            request(Read, 0, 4096, 100),
            request(Write, 1, 0, 8192),
            request(Read, 1, 0, 8192),
            request(Write, 0, 5000, 5000),
            request(Truncate, 1, 100, 0),
            request(Write, 2, 0, 10),
            request(Read, 2, 0, 20),
        ]);
        let of = |file: usize| (found.files[file].first_bytes, found.files[file].most_bytes);
        assert_eq!([of(0), of(1), of(2)], [(4196, 10_000), (0, 8192), (20, 20)]);
        assert_eq!((found.accesses, found.page_accesses), (6, 1 + 2 + 2 + 2 + 1 + 1));
    }

    #[test]
    fn a_large_device_of_which_little_is_used_becomes_its_used_parts() {
        let far = 500 << 30;
        let found = loaded(vec![request(Operation::Read, 0, far, 4096), request(Operation::Write, 0, 0, 4096)]);
        assert_eq!(found.files[0].most_bytes, 2 * PART_BYTES);
        assert_eq!(
            found.ranges(&request(Operation::Read, 0, far, 4096)),
            std::slice::from_ref(&(PART_BYTES..PART_BYTES + 4096))
        );
    }

    #[test]
    fn open_files_are_numbered_and_their_last_uses_known() {
        use Operation::{Close, Open, Read};
        let of = |operation, handle, task| Request { handle, task, ..request(operation, 0, 0, 1) };
        let requests =
            vec![of(Open, 9, 0), of(Read, 9, 0), of(Read, 0, 1), of(Read, 0, 2), of(Close, 9, 0), of(Open, 9, 0)];
        let found = loaded(requests);
        assert_eq!(found.handle_of, [0, 0, 1, 2, 0, 3]);
        assert_eq!(found.last_use, [4, 2, 3, 5]);
    }

    #[test]
    fn traces_without_files_or_accesses_are_refused() {
        let objects = Trace::from_requests(Kind::Objects, [request(Operation::Read, 0, 7, 10)]).unwrap();
        assert!(Loaded::of("o".into(), objects).check().unwrap_err().starts_with("o: it is a trace of cached objects"));
        let direct = Request { flags: Flags::DIRECT, ..request(Operation::Read, 0, 0, 4096) };
        assert!(loaded(vec![direct]).check().unwrap_err().contains("no request reads"));
    }
}
