//! Makes the requests of a trace from the events that the recording library (the shim) sends.

use crate::elf::Program;
use crate::files::{Device, Files};
use crate::tasks::Tasks;
use crate::wire::{Event, Kind, OpenText, advice, flag};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use trace::{Flags, Operation, Request};

/// Sums over the requests of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of requests of all kinds.
    pub requests: u64,
    /// Number of read requests.
    pub reads: u64,
    /// Number of bytes that all reads together transferred.
    pub read_bytes: u64,
    /// Number of write requests.
    pub writes: u64,
    /// Number of bytes that all writes together transferred.
    pub written_bytes: u64,
    /// Number of recorded touches (reads or writes) of mapped pages.
    pub touches: u64,
    /// Number of times that a file was mapped.
    pub mappings: u64,
}

impl Sums {
    /// Adds a request to the sums.
    pub fn add(&mut self, request: &Request) {
        self.requests += 1;
        match request.operation {
            Operation::Read => {
                self.reads += 1;
                self.read_bytes += request.len;
            }
            Operation::Write => {
                self.writes += 1;
                self.written_bytes += request.len;
            }
            Operation::Load | Operation::Store => self.touches += 1,
            Operation::Map => self.mappings += 1,
            _ => {}
        }
    }
}

/// The present state of the recorded files and processes, which is worked out from the events that the shim sends.
#[derive(Debug)]
pub struct Follower {
    /// The files that were opened so far.
    pub files: Files,
    /// The tasks (threads) that were seen so far.
    pub tasks: Tasks,
    /// For each open file description: its file, or `None` if the file is one of the kernel's own.
    handles: HashMap<u32, Option<u32>>,
    /// Open file descriptions that were mapped: their pages may be touched after the last descriptor is closed.
    mapped: HashSet<u32>,
    /// For each process that has called `execve`, and has not yet become the new program: the path of this program.
    starting: BTreeMap<u32, Vec<u8>>,
    /// Programs that were started but cannot be recorded, by path, each with the reason.
    pub not_followed: BTreeMap<Vec<u8>, String>,
    /// Processes into which the shim was loaded, now or earlier.
    pub processes: BTreeSet<u32>,
    /// Number of times that a process opened a file whose contents the kernel generates, such as a file of `/proc`.
    pub pseudo: u64,
    /// Number of events that could not be interpreted, because earlier events were lost.
    pub lost: u64,
}

impl Default for Follower {
    fn default() -> Self {
        Self::new()
    }
}

impl Follower {
    /// Returns the state before the first event: no files and no tasks.
    #[must_use]
    pub fn new() -> Self {
        Self {
            files: Files::new(),
            tasks: Tasks::default(),
            handles: HashMap::new(),
            mapped: HashSet::new(),
            starting: BTreeMap::new(),
            not_followed: BTreeMap::new(),
            processes: BTreeSet::new(),
            pseudo: 0,
            lost: 0,
        }
    }

    /// Updates the state of the recorded processes by an event and the event's text. Returns the request that the event
    /// describes; `None` if the event describes no request.
    pub fn take(&mut self, event: &Event, text: &[u8]) -> Option<Request> {
        let time_us = event.time_ns / 1000;
        let len = if event.flags & flag::LEN_IN_PAGES != 0 { u64::from(event.len) << 12 } else { event.len.into() };
        if event.kind != Kind::Exec {
            // A process that does something else has not become another program.
            self.starting.remove(&event.thread);
        }
        let mut request = Request { time_us, offset: event.offset, len, handle: event.handle, ..Request::default() };
        match event.kind {
            Kind::Text => None,
            Kind::Exec => {
                self.starts(event.offset as u32, event.flags & flag::FOUND != 0, text);
                None
            }
            Kind::Start => {
                self.started(event, text);
                None
            }
            Kind::Thread | Kind::Fork => self.forked(event, request),
            Kind::Exit => {
                request.task = self.tasks.of_thread(event.thread, time_us);
                self.tasks.end(event.thread, time_us);
                Some(Request { operation: Operation::Exit, offset: 0, len: 0, handle: 0, ..request })
            }
            Kind::Open => {
                request.task = self.tasks.of_thread(event.thread, time_us);
                self.open(event, text, request)
            }
            Kind::Delete => {
                request.task = self.tasks.of_thread(event.thread, time_us);
                self.delete(event, request)
            }
            Kind::Rename => {
                self.rename(event, text);
                None
            }
            _ => {
                request.task = self.tasks.of_thread(event.thread, time_us);
                self.access(event, request)
            }
        }
    }

    /// Handles the event that a process is about to execute the program at `path`: keeps the path until the program has
    /// started. Does nothing for a child of `posix_spawn` (`is_spawned`) whose program has already started.
    fn starts(&mut self, process: u32, is_spawned: bool, path: &[u8]) {
        // A child by `posix_spawn` may have told of itself before its parent does.
        if is_spawned && self.processes.contains(&process) {
            return;
        }
        self.starting.insert(process, path.to_vec());
    }

    fn started(&mut self, event: &Event, name: &[u8]) {
        let process = event.offset as u32;
        self.starting.remove(&process);
        self.processes.insert(process);
        let number = self.tasks.of_thread(process, event.time_ns / 1000);
        if let Some(task) = self.tasks.get_mut(number) {
            (task.process, task.parent) = (process, event.len);
            task.program = name.to_vec();
        }
    }

    /// Handles the event that a thread has started a thread or a process. Returns the request that records this in the
    /// trace; `None` if the event names the same number as starter and as new thread.
    fn forked(&mut self, event: &Event, request: Request) -> Option<Request> {
        let time_us = request.time_us;
        let (starter, new) = match event.kind {
            Kind::Thread => (event.offset as u32, event.thread),
            _ => (event.thread, event.offset as u32),
        };
        if starter == new {
            return None;
        }
        let (task, child) = (self.tasks.of_thread(starter, time_us), self.tasks.of_thread(new, time_us));
        let program = self.tasks.get_mut(task).map(|task| task.program.clone()).unwrap_or_default();
        if let Some(child) = self.tasks.get_mut(child) {
            if event.kind == Kind::Thread {
                child.process = starter;
            } else {
                child.parent = starter;
            }
            if child.program.is_empty() {
                child.program = program;
            }
        }
        Some(Request { operation: Operation::Fork, task, offset: child.into(), len: 0, handle: 0, ..request })
    }

    fn open(&mut self, event: &Event, text: &[u8], request: Request) -> Option<Request> {
        let Some((own, path)) = OpenText::of_bytes(text) else {
            self.lost += 1;
            return None;
        };
        if self.files.is_pseudo(own.device) {
            self.pseudo += 1;
            self.handles.insert(event.handle, None);
            return None;
        }
        let file = self.files.enter(own.device, own.inode, own.birth, event.offset, path);
        self.handles.insert(event.handle, Some(file));
        const SYNC: u32 = 0o10000;
        const DIRECT: u32 = if cfg!(target_arch = "x86_64") { 0o40000 } else { 0o200_000 };
        let mut flags = Flags::NONE;
        for (bit, of_trace) in [(SYNC, Flags::SYNC), (DIRECT, Flags::DIRECT)] {
            if event.len & bit != 0 {
                flags |= of_trace;
            }
        }
        Some(Request { operation: Operation::Open, file, flags, offset: 0, len: event.offset, ..request })
    }

    fn delete(&mut self, event: &Event, request: Request) -> Option<Request> {
        if event.flags & flag::LAST_NAME == 0 {
            return None;
        }
        let file = self.files.delete(device(event.handle), event.offset)?;
        Some(Request { operation: Operation::Delete, file, offset: 0, len: 0, handle: 0, ..request })
    }

    /// Handles the renaming of a file: records the new name if no name of the file was known before.
    fn rename(&mut self, event: &Event, text: &[u8]) {
        let Some(number) = self.files.number(device(event.handle), event.offset) else { return };
        let mut names = text.split(|byte| *byte == 0);
        if let (Some(_), Some(new), Some(file)) = (names.next(), names.next(), self.files.get_mut(number))
            && file.name.is_empty()
        {
            file.name = new.to_vec();
        }
    }

    /// Handles an event of a handle of an open file. Returns the request that the trace gets for the event; `None` if
    /// the event makes no request.
    fn access(&mut self, event: &Event, mut request: Request) -> Option<Request> {
        let Some(of_handle) = self.handles.get(&event.handle) else {
            self.lost += 1;
            return None;
        };
        request.file = (*of_handle)?;
        request.operation = operation(event)?;
        for (bit, of_trace) in [
            (flag::DIRECT, Flags::DIRECT),
            (flag::SYNC, Flags::SYNC),
            (flag::APPEND, Flags::APPEND),
            (flag::SHARED, Flags::SHARED),
        ] {
            if event.kind != Kind::Advise && event.flags & bit != 0 {
                request.flags |= of_trace;
            }
        }
        let file = self.files.get_mut(request.file)?;
        match event.kind {
            Kind::Close if !self.mapped.contains(&event.handle) => {
                self.handles.remove(&event.handle);
            }
            Kind::Map => {
                self.mapped.insert(event.handle);
            }
            Kind::Write => file.bytes = file.bytes.max(request.offset + request.len),
            Kind::Truncate => file.bytes = request.offset,
            _ => {}
        }
        Some(request)
    }

    /// Checks each program that was started and whose process never reported to the recorder. If the library for
    /// recording cannot be loaded into the program, records the reason in `not_followed`.
    pub fn end(&mut self) {
        for (_, path) in std::mem::take(&mut self.starting) {
            let program = Program::through_scripts(Path::new(OsStr::from_bytes(&path)));
            if let Some(why) = program.why_not() {
                self.not_followed.insert(path, why);
            }
        }
    }
}

/// Unpacks the major and the minor number of a device from the number that an event holds.
const fn device(packed: u32) -> Device {
    [packed >> 20, packed & 0xf_ffff]
}

fn operation(event: &Event) -> Option<Operation> {
    Some(match event.kind {
        Kind::Close => Operation::Close,
        Kind::Read => Operation::Read,
        Kind::Write => Operation::Write,
        Kind::Map => Operation::Map,
        Kind::Unmap => Operation::Unmap,
        Kind::Load => Operation::Load,
        Kind::Store => Operation::Store,
        Kind::Sync => Operation::Sync,
        Kind::Truncate => Operation::Truncate,
        Kind::Punch => Operation::Punch,
        Kind::Advise => match event.flags & !flag::LEN_IN_PAGES {
            advice::NORMAL => Operation::AdviseNormal,
            advice::RANDOM => Operation::AdviseRandom,
            advice::SEQUENTIAL => Operation::AdviseSequential,
            advice::WILL_NEED => Operation::AdviseWillNeed,
            advice::DONT_NEED => Operation::AdviseDontNeed,
            advice::NO_REUSE => Operation::AdviseNoReuse,
            _ => return None,
        },
        _ => return None,
    })
}
