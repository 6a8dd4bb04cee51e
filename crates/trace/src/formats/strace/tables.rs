//! Tables of the things to which system calls refer: the descriptors and mappings of each process, and the files by
//! path.

use crate::operation::Operation;
use crate::read::Sink;
use crate::request::{Flags, Request};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// An open file description.
#[derive(Clone, Debug, Default)]
pub struct OpenFile {
    /// Number of the file; none for something that has no pages, such as a pipe or a file of `/proc`.
    pub file: Option<u32>,
    /// The path that was opened. If it is a folder, calls such as `openat` can name files relative to it.
    pub path: Vec<u8>,
    /// Number of the open file description, from 1.
    pub handle: u32,
    /// Offset in the file at which the next `read` or `write` begins.
    pub position: u64,
    /// Flags that each read and write through this open file description has.
    pub flags: Flags,
}

/// A file descriptor of a process.
#[derive(Clone, Debug)]
pub struct Descriptor {
    /// The open file description to which the descriptor refers.
    pub open: Rc<RefCell<OpenFile>>,
    /// True if `execve` closes the descriptor.
    pub closes_on_exec: bool,
}

/// A mapping of a file. Its key in the table is its first address.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// The first address after the mapping.
    pub end: u64,
    /// Number of the mapped file.
    pub file: u32,
    /// Number of the open file description through which the file was mapped.
    pub handle: u32,
    /// Offset in the file of the byte that is mapped at the mapping's first address.
    pub offset: u64,
}

/// The tables of a process: its descriptors, its mappings and its working directory. Threads of one process share the
/// tables.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The number by which the trace identifies the process as a task.
    pub task: u32,
    /// The open descriptors of the process, by number.
    pub descriptors: Rc<RefCell<HashMap<u64, Descriptor>>>,
    /// The files that the process has mapped, by the first address of each mapping.
    pub mappings: Rc<RefCell<BTreeMap<u64, Mapping>>>,
    /// Working directory of the process; empty if it is not known.
    pub folder: Rc<RefCell<Vec<u8>>>,
}

impl Process {
    /// Returns the state of a new child of this process. `task` is the number of the child's task in the trace. The
    /// child shares the tables that `shares` names, and gets copies of the other tables.
    fn child(&self, task: u32, shares: Shares) -> Self {
        let Self { descriptors, mappings, folder, .. } = self;
        Self {
            task,
            descriptors: if shares.descriptors { Rc::clone(descriptors) } else { copy(descriptors) },
            mappings: if shares.memory { Rc::clone(mappings) } else { copy(mappings) },
            folder: if shares.descriptors { Rc::clone(folder) } else { copy(folder) },
        }
    }
}

/// All processes and files of the traced computer, as far as the lines read so far show them.
#[derive(Debug, Default)]
pub struct World {
    processes: HashMap<u64, Process>,
    last: Option<u64>,
    paths: HashMap<Vec<u8>, u32>,
    sizes: HashMap<u32, u64>,
    handles: u32,
    /// The number of the process whose `fork` or `clone` has not returned yet, and the tables that the new process will
    /// share with it. `None` if there is no such process.
    forking: Option<(u64, Shares)>,
    /// Processes whose first line in the output of strace came before the `fork` or `clone` that started them returned.
    early: HashSet<u64>,
    /// Number of descriptors and mappings that were copied into the tables of new processes.
    copied: usize,
}

/// The tables that a new process shares with the process that starts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    descriptors: bool,
    memory: bool,
}

impl Shares {
    /// Reads from the arguments of `clone` what the new process shares with its parent: with `CLONE_FILES` the table of
    /// descriptors, with `CLONE_VM` the memory.
    pub fn of(arguments: &[u8]) -> Self {
        let has = |flag: &[u8]| arguments.windows(flag.len()).any(|part| part == flag);
        Self { descriptors: has(b"CLONE_FILES"), memory: has(b"CLONE_VM") }
    }

    /// Returns the union: a table is shared if `self` or `other` says so.
    pub const fn or(self, other: Self) -> Self {
        Self { descriptors: self.descriptors || other.descriptors, memory: self.memory || other.memory }
    }
}

/// All processes and files of the traced computer, together with the process that makes a call and the time of the
/// call.
pub struct View<'a> {
    /// All processes and files of the traced computer.
    pub world: &'a mut World,
    /// The process that makes the call.
    pub process: Process,
    number: u64,
    time_us: u64,
}

impl World {
    /// Returns the view that process `number` has of all processes and files. A process that was not seen before counts
    /// as a child of the process whose `fork` or `clone` has not returned yet. If there is no such process, the new
    /// process shares the tables of the process of the previous line.
    pub fn of(&mut self, number: u64, time_us: u64, sink: &mut Sink) -> View<'_> {
        let process = match self.processes.get(&number) {
            Some(process) => process.clone(),
            None => {
                let like = |process: u64| self.processes.get(&process).cloned();
                let process = match self.forking {
                    Some((parent, shares)) => {
                        self.early.insert(number);
                        let parent = like(parent).unwrap_or_default();
                        let shares = self.bounded(&parent, shares, sink);
                        parent.child(task(number, sink), shares)
                    }
                    None => Process { task: task(number, sink), ..self.last.and_then(like).unwrap_or_default() },
                };
                self.processes.insert(number, process.clone());
                process
            }
        };
        self.last = Some(number);
        View { world: self, process, number, time_us }
    }

    /// Notes that a process is starting another process. `shares` says which tables the two will share.
    pub const fn forks(&mut self, process: u64, shares: Shares) {
        self.forking = Some((process, shares));
    }

    /// Returns what a child shares with `parent`. This is `shares`, unless the tables that were copied for children
    /// have more than about a million entries. The child then shares all tables of its parent, so that memory stays
    /// bounded. No real trace is known to need this.
    fn bounded(&mut self, parent: &Process, shares: Shares, sink: &mut Sink) -> Shares {
        const MOST: usize = 1 << 20;
        if shares.descriptors && shares.memory {
            return shares;
        }
        let copied = parent.descriptors.borrow().len() + parent.mappings.borrow().len();
        if self.copied + copied > MOST {
            sink.not_seen("descriptors of processes beyond the first million: parents' are taken");
            return Shares { descriptors: true, memory: true };
        }
        self.copied += copied;
        shares
    }

    /// Ends process `number`, and closes its descriptors unless another thread shares them.
    pub fn exit(&mut self, number: u64, time_us: u64, sink: &mut Sink) -> Result<(), String> {
        self.early.remove(&number);
        let Some(process) = self.processes.remove(&number) else { return Ok(()) };
        let view = View { world: self, process, number, time_us };
        // Other threads keep the table.
        if Rc::strong_count(&view.process.descriptors) == 1 {
            let mut open: Vec<_> = view.process.descriptors.borrow_mut().drain().collect();
            view.world.copied = view.world.copied.saturating_sub(open.len());
            open.sort_by_key(|(number, _)| *number);
            for (_, descriptor) in open {
                view.release(&descriptor.open, sink)?;
            }
        }
        view.push(sink, Request { operation: Operation::Exit, ..Request::default() })
    }
}

fn task(number: u64, sink: &mut Sink) -> u32 {
    sink.tasks.intern(number.to_string().as_bytes())
}

impl View<'_> {
    /// Passes a request of this call to the sink, with the time of the call and the number of its task.
    pub fn push(&self, sink: &mut Sink, request: Request) -> Result<(), String> {
        sink.push(Request { time_us: self.time_us, task: self.process.task, ..request })
    }

    /// Notes that this process has started the process `number`, which shares this process's tables or gets copies of
    /// them, as `shares` says.
    pub fn fork(&mut self, number: u64, shares: Shares, sink: &mut Sink) -> Result<(), String> {
        self.world.forking = self.world.forking.filter(|(process, _)| *process != self.number);
        let task = task(number, sink);
        if !self.world.early.remove(&number) {
            let shares = self.world.bounded(&self.process, shares, sink);
            self.world.processes.insert(number, self.process.child(task, shares));
        }
        self.push(sink, Request { operation: Operation::Fork, offset: task.into(), ..Request::default() })
    }

    /// Does what `execve` does to the tables: the process gets its own copy of the descriptors, without those that
    /// `execve` closes, and an empty table of mappings.
    pub fn exec(&mut self, sink: &mut Sink) -> Result<(), String> {
        let kept = copy(&self.process.descriptors);
        let mut closed: Vec<_> = kept.borrow_mut().extract_if(|_, descriptor| descriptor.closes_on_exec).collect();
        closed.sort_by_key(|(number, _)| *number);
        self.process.descriptors = kept;
        self.process.mappings = Rc::default();
        self.world.processes.insert(self.number, self.process.clone());
        for (_, descriptor) in closed {
            self.release(&descriptor.open, sink)?;
        }
        Ok(())
    }

    /// Returns the open file description that a descriptor refers to. `path` is the path that strace shows for the
    /// descriptor, if any. If the descriptor is unknown or has another path, a new description of `path` takes its
    /// place.
    pub fn open_file(
        &mut self,
        descriptor: u64,
        path: Option<&[u8]>,
        sink: &mut Sink,
    ) -> Option<Rc<RefCell<OpenFile>>> {
        let found = self.process.descriptors.borrow().get(&descriptor).map(|found| Rc::clone(&found.open));
        let Some(path) = path else { return found };
        if let Some(found) = found.filter(|found| found.borrow().path == path) {
            return Some(found);
        }
        let open = self.describe(path, Flags::NONE, sink);
        let there = Descriptor { open: Rc::clone(&open), closes_on_exec: false };
        self.process.descriptors.borrow_mut().insert(descriptor, there);
        Some(open)
    }

    /// Makes a new open file description for the file at `path`.
    pub fn describe(&mut self, path: &[u8], flags: Flags, sink: &mut Sink) -> Rc<RefCell<OpenFile>> {
        let file = has_pages(path).then(|| self.file(path, sink));
        self.world.handles = self.world.handles.wrapping_add(1).max(1);
        let handle = self.world.handles;
        Rc::new(RefCell::new(OpenFile { file, path: path.to_vec(), handle, position: 0, flags }))
    }

    /// Makes `descriptor` refer to the open file description `open`. If `descriptor` was in use, it is closed first, as
    /// `dup2` does.
    pub fn install(
        &mut self,
        descriptor: u64,
        open: Rc<RefCell<OpenFile>>,
        closes_on_exec: bool,
        sink: &mut Sink,
    ) -> Result<(), String> {
        let before = self.process.descriptors.borrow_mut().insert(descriptor, Descriptor { open, closes_on_exec });
        before.map_or(Ok(()), |before| self.release(&before.open, sink))
    }

    /// Removes a descriptor of the present process. Closes the open file description if no other descriptor refers to
    /// it.
    pub fn close(&mut self, descriptor: u64, sink: &mut Sink) -> Result<(), String> {
        let before = self.process.descriptors.borrow_mut().remove(&descriptor);
        before.map_or(Ok(()), |before| self.release(&before.open, sink))
    }

    /// Gives the sink the request [`Operation::Close`] if `open` is the last reference to its open file description.
    /// Does nothing if the file has no pages.
    fn release(&self, open: &Rc<RefCell<OpenFile>>, sink: &mut Sink) -> Result<(), String> {
        let OpenFile { file: Some(file), handle, .. } = *open.borrow() else { return Ok(()) };
        if Rc::strong_count(open) > 1 {
            return Ok(());
        }
        self.push(sink, Request { operation: Operation::Close, file, handle, ..Request::default() })
    }

    /// Returns the number of the file at a path. A path that was not used before gets a new number.
    pub fn file(&mut self, path: &[u8], sink: &mut Sink) -> u32 {
        *self.world.paths.entry(path.to_vec()).or_insert_with(|| sink.files.push(path))
    }

    /// Returns the number of the file at a path; `None` if the path was not used before.
    pub fn known_file(&self, path: &[u8]) -> Option<u32> {
        self.world.paths.get(path).copied()
    }

    /// Forgets a path. Returns the file that had this path.
    pub fn forget(&mut self, path: &[u8]) -> Option<u32> {
        self.world.paths.remove(path)
    }

    /// Gives `file` the path `path`. Returns the file that had this path before.
    pub fn rename(&mut self, path: &[u8], file: u32) -> Option<u32> {
        self.world.paths.insert(path.to_vec(), file)
    }

    /// Returns the size of a file, bytes; 0 if it is not known.
    pub fn size(&self, file: u32) -> u64 {
        self.world.sizes.get(&file).copied().unwrap_or(0)
    }

    /// Notes that a file is at least `end` bytes long.
    pub fn grow(&mut self, file: u32, end: u64) {
        let size = self.world.sizes.entry(file).or_insert(0);
        *size = end.max(*size);
    }

    /// Sets the size of the file with the number `file`, as far as it is known from the trace.
    pub fn set_size(&mut self, file: u32, bytes: u64) {
        self.world.sizes.insert(file, bytes);
    }

    /// Makes a path absolute. A relative path is taken from `folder` or, if that is none, from the process's working
    /// directory. If this folder is not known, the path stays relative.
    pub fn absolute(&self, folder: Option<&[u8]>, path: &[u8]) -> Vec<u8> {
        if path.starts_with(b"/") {
            return path.to_vec();
        }
        let own = self.process.folder.borrow();
        let folder = folder.unwrap_or(&own);
        let path = path.strip_prefix(b"./").unwrap_or(path);
        if folder.is_empty() {
            path.to_vec()
        } else {
            [folder.strip_suffix(b"/").unwrap_or(folder), b"/", path].concat()
        }
    }
}

fn copy<T: Clone>(of: &Rc<RefCell<T>>) -> Rc<RefCell<T>> {
    Rc::new(RefCell::new(of.borrow().clone()))
}

/// Returns whether a path names a file that may have pages on a disk. Returns `false` for paths in `/proc` and `/sys`,
/// for terminals, and for what strace calls `pipe:[1]`, `socket:[1]` or `anon_inode:…`.
fn has_pages(path: &[u8]) -> bool {
    const WITHOUT: [&[u8]; 11] = [
        b"/proc/",
        b"/sys/",
        b"/dev/null",
        b"/dev/zero",
        b"/dev/full",
        b"/dev/tty",
        b"/dev/pts",
        b"/dev/ptmx",
        b"/dev/urandom",
        b"/dev/random",
        b"/dev/fd/",
    ];
    let is_path = path.starts_with(b"/") || !path.contains(&b':');
    is_path && !WITHOUT.iter().any(|start| path.starts_with(start))
}
