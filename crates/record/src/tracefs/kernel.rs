//! Converts the kernel's trace events into requests of a trace.

use super::inodes::Inodes;
use super::layout::{FIELDS_MAX, What};
use crate::files::{Device, Files};
use crate::tasks::Tasks;
use std::collections::{HashMap, HashSet};
use trace::{Operation, PAGE_BYTES, Request};

/// Shortest time between two checks of the size of a file that is read past its known end, µs.
const LOOK_AGAIN_US: u64 = 10_000;
/// Pseudo device of the kernel, whose inodes are block devices.
pub const BLOCK_DEVICES: Device = [0, 3];

/// One tracepoint event, as the kernel recorded it in its trace buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event, ns since the recording began.
    pub time_ns: u64,
    /// The kind of the event.
    pub what: What,
    /// Thread ID of the thread that caused the event.
    pub thread: u32,
    /// Values of the event's fields, in the order of their names in [`super::layout::EVENTS`].
    pub values: [u64; FIELDS_MAX],
    /// The path of the program, for an event [`What::Exec`]; otherwise empty.
    pub text: Vec<u8>,
}

/// An activity of a task that the task's next event may continue.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// A read of pages up to the page `end`. The kernel reports it in several steps; the latest step so far begins at
    /// the page `start`.
    Read { file: u32, start: u64, end: u64 },
    /// A write up to the byte `end`. The kernel reports it in several steps; the latest step so far begins at the byte
    /// `start`.
    Write { file: u32, start: u64, end: u64 },
    /// A fault-around, which has mapped the pages up to and including page `end`. The next event may be the fault
    /// itself, which names the page that was touched.
    Around { request: Request, end: u64 },
}

/// The state of a recording, as the kernel's events give it so far: files, tasks, and accesses that later events may
/// extend.
#[derive(Debug)]
pub struct Kernel {
    /// The files that appeared in events so far.
    pub files: Files,
    /// The tasks (threads) that appeared in events so far.
    pub tasks: Tasks,
    /// The table that finds files by device and inode number.
    pub inodes: Inodes,
    open: HashMap<u32, Open>,
    /// Time at which the size of each file was last checked, µs, by the number of the file.
    looked: HashMap<u32, u64>,
    /// Threads of the recorder that are to execute the program to be recorded, and have not done so yet.
    preparing: HashSet<u32>,
    /// Number of fault-arounds (faults that map several pages) for which the touched page is not known.
    pub unsure: u64,
}

impl Kernel {
    /// Returns the state of a recording of which no event was handled yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            files: Files::new(),
            tasks: Tasks::default(),
            inodes: Inodes::default(),
            open: HashMap::new(),
            looked: HashMap::new(),
            preparing: HashSet::new(),
            unsure: 0,
        }
    }

    /// Notes that a thread belongs to the recorder until the thread executes the program to be recorded.
    pub fn prepares(&mut self, thread: u32) {
        self.preparing.insert(thread);
    }

    /// Handles an event, and passes the requests that the event completes to `sink`.
    ///
    /// # Errors
    /// When `sink` fails. The error is that of `sink`.
    pub fn take<E>(&mut self, event: &Event, sink: &mut dyn FnMut(&Request) -> Result<(), E>) -> Result<(), E> {
        let time_us = event.time_ns / 1000;
        let task = self.tasks.of_thread(event.thread, time_us);
        let base = Request { time_us, task, ..Request::default() };
        let open = self.open.remove(&task);
        let [first, inode, index, last] = event.values;
        if let Some(Open::Around { request, end }) = open {
            let is_named = event.what == What::Fault
                && self.files.number(device(first), inode) == Some(request.file)
                && (request.offset / PAGE_BYTES..=end).contains(&index);
            if !is_named {
                self.unsure += 1;
                sink(&request)?;
            }
        }
        let is_own = self.preparing.contains(&event.thread);
        match event.what {
            What::Read => match self.file(event, device(first), inode, base, sink)? {
                Some(file) => self.read(base, file, [index, last], open, sink),
                None => Ok(()),
            },
            What::Fault | What::Around if is_own => Ok(()),
            What::Fault | What::Around => {
                let Some(file) = self.file(event, device(first), inode, base, sink)? else { return Ok(()) };
                let offset = index.saturating_mul(PAGE_BYTES);
                let request = Request { operation: Operation::Load, file, offset, len: PAGE_BYTES, ..base };
                if event.what == What::Fault {
                    return sink(&request);
                }
                self.open.insert(task, Open::Around { request, end: last });
                Ok(())
            }
            What::Write => {
                let Some(file) = self.file(event, device(first), inode, base, sink)? else { return Ok(()) };
                let (start, end) = (index, index.saturating_add(last));
                if let Some(file) = self.files.get_mut(file) {
                    file.bytes = file.bytes.max(end);
                }
                // A write by large folios comes in steps, each of which reaches to the end of the write.
                let is_next_step = matches!(open, Some(Open::Write { file: of, start: before, end: to })
                    if of == file && to == end && before < start);
                self.open.insert(task, Open::Write { file, start, end });
                if is_next_step {
                    return Ok(());
                }
                sink(&Request { operation: Operation::Write, file, offset: index, len: last, ..base })
            }
            What::Block => {
                let [_, sector, bytes, _] = event.values;
                // The block device is an inode of the kernel's own, with the device as its number.
                let Some(file) = self.file(event, BLOCK_DEVICES, first, base, sink)? else { return Ok(()) };
                let offset = sector.saturating_mul(bytes);
                sink(&Request { operation: Operation::Read, file, offset, len: bytes, ..base })
            }
            What::Sync => {
                let Some(file) = self.file(event, device(first), inode, base, sink)? else { return Ok(()) };
                sink(&Request { operation: Operation::Sync, file, ..base })
            }
            What::Delete => match self.files.delete(device(first), inode) {
                Some(file) => sink(&Request { operation: Operation::Delete, file, ..base }),
                None => Ok(()),
            },
            What::Fork => self.fork(event, base, sink),
            What::Exec => {
                self.preparing.remove(&event.thread);
                let name = event.text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                if let Some(task) = self.tasks.get_mut(task) {
                    task.program = name.to_vec();
                }
                Ok(())
            }
            What::Exit => {
                self.tasks.end(event.thread, time_us);
                sink(&Request { operation: Operation::Exit, ..base })
            }
        }
    }

    /// Ends the recording: passes the requests of unfinished fault-arounds to `sink`.
    ///
    /// # Errors
    /// The error of `sink`.
    pub fn end<E>(&mut self, sink: &mut dyn FnMut(&Request) -> Result<(), E>) -> Result<(), E> {
        let mut open: Vec<Request> = Vec::new();
        for (_, it) in self.open.drain() {
            if let Open::Around { request, .. } = it {
                open.push(request);
            }
        }
        open.sort_unstable_by_key(|request| (request.time_us, request.task));
        self.unsure += open.len() as u64;
        open.iter().try_for_each(sink)
    }

    /// Handles one event of a read from the page `start` to the page `end`. The kernel looks up the pages of a read in
    /// several steps, with an event for each. Each step reaches to the end of the whole read, which may lie past the
    /// end of the file. So the first step becomes the request, and later steps are ignored.
    fn read<E>(
        &mut self,
        base: Request,
        file: u32,
        [start, end]: [u64; 2],
        open: Option<Open>,
        sink: &mut dyn FnMut(&Request) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_next_step = matches!(open, Some(Open::Read { file: of, start: before, end: to })
            if of == file && to == end && before < start);
        self.open.insert(base.task, Open::Read { file, start, end });
        if is_next_step {
            return Ok(());
        }
        let offset = start.saturating_mul(PAGE_BYTES);
        let mut stop = end.saturating_add(1).saturating_mul(PAGE_BYTES);
        if self.bytes(file) < stop {
            self.look_again(file, base.time_us);
            // A file of unknown size has at least the page that was asked for.
            let bytes = self.bytes(file);
            stop = stop.min(if bytes > offset { bytes } else { offset.saturating_add(PAGE_BYTES) });
        }
        let len = stop.saturating_sub(offset).min(Request::ACCESS_MAX);
        sink(&Request { operation: Operation::Read, file, offset, len, ..base })
    }

    fn bytes(&self, file: u32) -> u64 {
        self.files.get(file).map_or(0, |file| file.bytes)
    }

    fn look_again(&mut self, number: u32, time_us: u64) {
        let looked = self.looked.entry(number).or_insert(0);
        if time_us.saturating_sub(*looked) < LOOK_AGAIN_US {
            return;
        }
        *looked = time_us;
        let Some((device, inode)) = self.files.get(number).map(|file| (file.device, file.inode)) else { return };
        if let (Some(found), Some(file)) = (self.inodes.find(device, inode), self.files.get_mut(number)) {
            file.bytes = found.bytes;
        }
    }

    /// Returns the number that the record gives to a file. If `event` is the first that names the file, also records
    /// that the file was opened. Returns `None` for a file whose contents the kernel makes when they are read.
    fn file<E>(
        &mut self,
        event: &Event,
        device: Device,
        inode: u64,
        base: Request,
        sink: &mut dyn FnMut(&Request) -> Result<(), E>,
    ) -> Result<Option<u32>, E> {
        if let Some(number) = self.files.number(device, inode) {
            return Ok(Some(number));
        }
        if self.files.is_pseudo(device) {
            return Ok(None);
        }
        let found = if device == BLOCK_DEVICES {
            let [major, minor] = self::device(inode);
            super::inodes::FoundFile {
                name: format!("block device {major}:{minor}").into_bytes(),
                bytes: u64::MAX >> 12,
            }
        } else {
            self.inodes.find(device, inode).unwrap_or_default()
        };
        let file = self.files.enter(device, inode, 0, found.bytes, &found.name);
        self.looked.insert(file, event.time_ns / 1000);
        let len = if device == BLOCK_DEVICES { 0 } else { found.bytes };
        sink(&Request { operation: Operation::Open, file, len, ..base })?;
        Ok(Some(file))
    }

    fn fork<E>(
        &mut self,
        event: &Event,
        base: Request,
        sink: &mut dyn FnMut(&Request) -> Result<(), E>,
    ) -> Result<(), E> {
        const THREAD: u64 = 0x1_0000;
        let [child, flags, ..] = event.values;
        let number = self.tasks.of_thread(child as u32, base.time_us);
        let parent = self.tasks.get_mut(base.task).cloned();
        if let (Some(parent), Some(task)) = (parent, self.tasks.get_mut(number)) {
            task.program = parent.program;
            if flags & THREAD != 0 {
                (task.process, task.parent) = (parent.process, parent.parent);
            } else {
                task.parent = parent.process;
            }
        }
        sink(&Request { operation: Operation::Fork, offset: number.into(), ..base })
    }
}

/// Splits `packed`, a device number as the kernel stores it (`dev_t`), into the major and the minor number.
#[must_use]
pub const fn device(packed: u64) -> Device {
    [(packed >> 20) as u32, (packed & 0xf_ffff) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const DEVICE: u64 = 4000 << 20 | 1;

    fn requests(kernel: &mut Kernel, events: &[(What, u32, [u64; 4])]) -> Vec<(Operation, u64, u64)> {
        let mut found = Vec::new();
        for (time, (what, thread, values)) in events.iter().enumerate() {
            let text = if *what == What::Exec { b"/bin/prog".to_vec() } else { Vec::new() };
            let event = Event { time_ns: time as u64 * 1000, what: *what, thread: *thread, values: *values, text };
            let taken = kernel.take(&event, &mut |request| {
                found.push((request.operation, request.offset, request.len));
                Ok::<_, Infallible>(())
            });
            assert_eq!(taken, Ok(()));
        }
        found.retain(|(operation, ..)| *operation != Operation::Open);
        found
    }

    /// Returns a kernel in whose table of files one file is entered: inode 7, with a size of 8 pages minus 100 bytes.
    fn with_file() -> Kernel {
        let mut kernel = Kernel::new();
        kernel.files.enter(device(DEVICE), 7, 0, 8 * PAGE_BYTES - 100, b"/f");
        kernel
    }

    #[test]
    fn steps_are_one_read_and_end_with_the_file() {
        use Operation::Read;
        let mut kernel = with_file();
        let step = |index, last| (What::Read, 5, [DEVICE, 7, index, last]);
        let found = requests(&mut kernel, &[step(0, 31), step(4, 31), step(0, 3), step(0, 3), step(4, 5)]);
        assert_eq!(
            found,
            [(Read, 0, 8 * 4096 - 100), (Read, 0, 4 * 4096), (Read, 0, 4 * 4096), (Read, 4 * 4096, 2 * 4096)]
        );
    }

    #[test]
    fn a_fault_names_the_page_of_its_fault_around() {
        use Operation::{Exit, Load};
        let mut kernel = with_file();
        let around = (What::Around, 5, [DEVICE, 7, 0, 7]);
        let found = requests(
            &mut kernel,
            &[around, (What::Fault, 5, [DEVICE, 7, 3, 0]), around, (What::Exit, 5, [5, 0, 0, 0])],
        );
        assert_eq!(found, [(Load, 3 * 4096, 4096), (Load, 0, 4096), (Exit, 0, 0)]);
        assert_eq!(kernel.unsure, 1);
    }

    #[test]
    fn tasks_have_parents_and_programs() {
        let mut kernel = with_file();
        kernel.prepares(5);
        let events = [
            (What::Fault, 5, [DEVICE, 7, 3, 0]),
            (What::Exec, 5, [0; 4]),
            (What::Fork, 5, [6, 0x1_0000, 0, 0]),
            (What::Fork, 6, [8, 0, 0, 0]),
            (What::Write, 8, [DEVICE, 7, 8 * 4096, 4106]),
            (What::Write, 8, [DEVICE, 7, 9 * 4096, 10]),
            (What::Delete, 8, [DEVICE, 7, 0, 0]),
        ];
        let found = requests(&mut kernel, &events);
        let operations = found.iter().map(|(operation, ..)| *operation).collect::<Vec<_>>();
        assert_eq!(operations, [Operation::Fork, Operation::Fork, Operation::Write, Operation::Delete]);
        let tasks = kernel.tasks.iter().map(|it| (it.thread, it.process, it.parent)).collect::<Vec<_>>();
        assert_eq!(tasks, [(5, 5, 0), (6, 5, 0), (8, 8, 5)]);
        assert!(kernel.tasks.iter().all(|task| task.program == b"prog"));
    }
}
