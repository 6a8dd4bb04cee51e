//! The ground `sim`: the engine in a simulated machine.

use crate::groups::NamedGroups;
use crate::kernel_log;
use catalogue::group::Group;
use catalogue::hardware::ProgramWork;
use engine::anonymous::region::ENTRIES;
use engine::anonymous::{Process, ProcessId, Region};
use engine::memory::group::kernel::STACK_BYTES;
use engine::memory::{Block, Gfp, GroupId, KernelMemory, Layout, Limit, ZoneKind};
use engine::page_cache::File;
use engine::stat::{Gauge, Vmstat};
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::{Engine, KernelTask, ReadPattern, ReadState, Task, Unacknowledged};
use figures::engine_view::EngineView;
use figures::figure::Row;
use figures::scale::Scale;
use figures::usage::{CpuTimes, DiskSample, Faults};
use foldhash::fast::FixedState;
use machine::atomic::AtomicU32;
use machine::pressure::{Trigger, TriggerError};
use machine::{DeviceId, Func, Machine, Nanos, Observe, Operation, Order, PAGE_BYTES, Step};
use sim::Sim;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use workloads::system::contents::Kept;
use workloads::system::{Advice, Given, HeldPage, MapMode, Pressure, PressureTrigger, System, SystemError, page_bytes};

/// Number of the random stream that decides which kernel pages were freed before a run.
const KERNEL_MEMORY_STREAM: u64 = 900;

/// The state that all tasks of one simulated system share.
struct Shared {
    sim: Sim,
    engine: Rc<Engine<Sim>>,
    /// Files by name. No code iterates over them, so the order does not matter.
    files: RefCell<HashMap<String, Arc<File<Sim>>, FixedState>>,
    given: Given,
    kept: Kept,
    program_work: ProgramWork,
    samples: DiskSamples,
    kernel_tasks: RefCell<Vec<sim::TaskId>>,
    has_khugepaged: Cell<bool>,
    has_reaper: Cell<bool>,
    /// The task of each running process, by the number of the process. The main task's process is not included.
    processes: RefCell<BTreeMap<u32, sim::TaskId>>,
    /// The number of the main task's process.
    main: Cell<u32>,
    /// Number of processes that the workload has started.
    started: Cell<usize>,
    /// The lines that the simulated kernel logged. Each line begins with its time.
    kernel_log: RefCell<Vec<String>>,
    /// The memory control groups of the machine file.
    groups: Rc<RefCell<NamedGroups>>,
    /// The function that is called when the workload sets a mark, which is a named point in its run.
    at_marks: RefCell<Option<AtMark>>,
}

/// A function that is called when the workload sets a mark (a named point in its run). It gets the time of the mark and
/// the mark's name.
type AtMark = Box<dyn FnMut(Nanos, &'static str)>;

/// The samples of disk statistics, which the task `iostat` takes and others read.
pub type DiskSamples = Arc<Mutex<Vec<DiskSample>>>;

/// The simulated system as one task of a workload sees it.
pub struct SimSystem {
    shared: Rc<Shared>,
    process: Arc<Process>,
    task: RefCell<Task>,
}

/// A file that one task has open.
pub struct OpenFile {
    engine: Rc<Engine<Sim>>,
    file: Arc<File<Sim>>,
    state: ReadState,
    /// The page that the task last read in place, that is, without a copy.
    last_in_place: Option<u32>,
    /// The number of failed writes of the file that this handle has already reported.
    seen_failures: AtomicU32,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.engine.access().close(&self.file);
    }
}

/// The configuration of the engine's memory and disks in a simulated system. The configuration of the simulated machine
/// is a [`sim::Config`].
#[derive(Clone, Debug)]
pub struct SystemConfig {
    /// The nodes and zones of memory, and the limit on the memory of the tasks.
    pub layout: Layout,
    /// The blocks of each device that are used for files.
    pub devices: Vec<DeviceLayout>,
    /// The device and the blocks that are used for swap.
    pub swap: SwapLayout,
    /// True if the machine keeps the first eight bytes of each page (a stamp), so that workloads can verify contents.
    pub stamps: bool,
    /// CPU times that programs take for their own work.
    pub program_work: ProgramWork,
}

impl SimSystem {
    /// Makes a system on a simulated machine and starts the engine's own tasks.
    ///
    /// # Errors
    /// When the engine cannot work with the layout.
    pub fn new(
        sim: &Sim,
        choices: &engine::kernel::Choices,
        config: &SystemConfig,
        given: Given,
    ) -> Result<Self, engine::NewError> {
        let engine = Rc::new(Engine::new(sim.clone(), choices, &config.layout, &config.devices, config.swap)?);
        sim.attach(engine.clone());
        let kernel_tasks = engine.kernel_tasks().into_iter().map(|task| {
            let engine = engine.clone();
            let id = sim.spawn_on(task.node(), &task.name(), move || engine.run(task));
            sim.set_aside(id);
            id
        });
        let kernel_tasks = RefCell::new(kernel_tasks.collect());
        let kept = if config.stamps { Kept::Stamps } else { Kept::Nothing };
        let (files, samples) = (RefCell::default(), DiskSamples::default());
        let (has_khugepaged, at_marks, groups) = (Cell::new(false), RefCell::default(), Rc::default());
        let sim = sim.clone();
        let shared = Rc::new(Shared {
            sim,
            engine,
            files,
            given,
            kept,
            program_work: config.program_work,
            samples,
            kernel_tasks,
            has_khugepaged,
            has_reaper: Cell::new(false),
            processes: RefCell::default(),
            main: Cell::new(0),
            started: Cell::new(0),
            kernel_log: RefCell::default(),
            groups,
            at_marks,
        });
        let of_kill = Rc::downgrade(&shared);
        shared.sim.on_kill_process(move |process| {
            if let Some(shared) = of_kill.upgrade() {
                shared.end_process(process);
            }
        });
        let process = shared.engine.anonymous().create_process("main", GroupId::ROOT);
        shared.main.set(process.id.0);
        Ok(Self::for_process(&shared, process))
    }

    /// Creates the memory control groups of a machine file, and sets their limits, multiplied by `scale`. The calling
    /// task stays in the root group.
    ///
    /// # Errors
    /// When the engine cannot create all groups of the machine file.
    pub fn create_groups(&self, groups: &[Group], scale: Scale) -> Result<(), SystemError> {
        *self.shared.groups.borrow_mut() = NamedGroups::create(self.engine(), groups, scale).map_err(SystemError)?;
        Ok(())
    }

    /// Returns the report's rows about memory control groups, of all groups.
    #[must_use]
    pub fn group_rows(&self) -> Vec<Row> {
        self.shared.groups.borrow().rows(self.engine())
    }

    /// Returns the control groups with their names, for code that records the groups' counters during the run. There
    /// are no groups until [`SimSystem::create_groups`] is called.
    #[must_use]
    pub fn shared_groups(&self) -> Rc<RefCell<NamedGroups>> {
        self.shared.groups.clone()
    }

    /// Returns notes about groups without tasks or without pages. `rows` are the rows of the groups at the end of the
    /// run.
    #[must_use]
    pub fn group_notes(&self, rows: &[Row]) -> Vec<String> {
        self.shared.groups.borrow().notes(rows)
    }

    /// Moves the calling task to the memory control group for tasks named `task`: the group that has this name in its
    /// list `tasks`. If there is no such group, the calling task stays in its group.
    pub fn enter_group_of(&self, task: &str) {
        if let Some(group) = self.shared.groups.borrow().of_task(task) {
            self.move_to(group);
        }
    }

    fn move_to(&self, group: GroupId) {
        self.engine().memory().enter_group(&mut self.task.borrow_mut(), group);
        self.process.enter_group(group);
        self.process.set_oom_score_adj(self.shared.groups.borrow().oom_score_adj(group));
    }

    fn group(&self, name: &str) -> Result<GroupId, SystemError> {
        let id = self.shared.groups.borrow().id(name);
        id.ok_or_else(|| SystemError(format!("the machine file has no [[group]] `{name}`")))
    }

    /// Returns the engine. Callers use it for checks, to print lists, and to prepare the state before a run.
    #[must_use]
    pub fn engine(&self) -> &Engine<Sim> {
        &self.shared.engine
    }

    /// Returns the engine in a form that can be kept after the run.
    #[must_use]
    pub fn shared_engine(&self) -> Rc<Engine<Sim>> {
        self.shared.engine.clone()
    }

    /// Ends the engine's own tasks, so that none of them holds pages.
    pub fn end_kernel_tasks(&self) {
        for task in self.shared.kernel_tasks.take() {
            self.kill(&task);
            self.join(&task);
        }
    }

    /// Starts khugepaged, if the kernel has it and it was not started yet. This is called for the first region that may
    /// have huge pages, so that runs without such regions have no additional task.
    fn start_khugepaged(&self) {
        let Some(task) = self.engine().khugepaged().filter(|_| !self.shared.has_khugepaged.replace(true)) else {
            return;
        };
        let engine = self.shared.engine.clone();
        let id = self.shared.sim.spawn_on(task.node(), &task.name(), move || engine.run(task));
        self.shared.sim.set_aside(id);
        self.shared.kernel_tasks.borrow_mut().push(id);
    }

    /// Charges the virtual time that the TLB takes to translate the addresses of `pages`. Each page was touched `times`
    /// times. Does nothing if the machine has no TLB.
    #[inline]
    fn translate(&self, region: &Region<Sim>, pages: Range<u32>, times: u32) {
        // Checked first because most machine files describe no TLB, and touches are the most frequent simulated
        // operation.
        if self.shared.sim.has_tlb() {
            self.look_up_translations(region, pages, times);
        }
    }

    #[inline(never)]
    fn look_up_translations(&self, region: &Region<Sim>, pages: Range<u32>, times: u32) {
        for page in pages {
            let is_huge = region.huge_page(page).is_some();
            let of_its_size = if is_huge { page / ENTRIES } else { page };
            self.shared.sim.translate(region.id, of_its_size, is_huge, times);
        }
    }

    /// Sets the function that is called at each mark of the workload ([`System::mark`]).
    pub fn on_mark(&self, look: impl FnMut(Nanos, &'static str) + 'static) {
        *self.shared.at_marks.borrow_mut() = Some(Box::new(look));
    }

    /// Returns the list to which the disk samples of the run are added.
    #[must_use]
    pub fn disk_samples(&self) -> DiskSamples {
        self.shared.samples.clone()
    }

    /// Takes `pages` pages for the kernel, and frees all of them but `kept` pages. The kept pages are scattered.
    ///
    /// # Errors
    /// When there are fewer than `pages` free pages.
    pub fn take_kernel_memory(&self, pages: u64, kept: u64) -> Result<(), SystemError> {
        let mut task = self.task.borrow_mut();
        let mut rng = self.rng(KERNEL_MEMORY_STREAM);
        let mut taken = Vec::new();
        for _ in 0..pages {
            let page = self.engine().allocate().allocate_kernel(&mut task, Gfp::KERNEL, Gauge::NrSlabUnreclaimable);
            taken.push(page.map_err(|error| SystemError(error.to_string()))?);
        }
        for left in (kept + 1..=pages).rev() {
            let page = taken.swap_remove(rng.below(left) as usize);
            self.engine().memory().free_kernel(page, Gauge::NrSlabUnreclaimable);
        }
        Ok(())
    }

    /// Takes a block of kernel memory from zone DMA, and never frees it. Does nothing if there is no zone DMA.
    ///
    /// # Errors
    /// When zone DMA has no such block free.
    pub fn take_dma_pool(&self, order: Order) -> Result<(), SystemError> {
        if !self.engine().memory().zones.iter().any(|zone| zone.kind == ZoneKind::Dma) {
            return Ok(());
        }
        let gfp = Gfp { highest_zone: ZoneKind::Dma, ..Gfp::KERNEL };
        let block = System::take_block(self, gfp, order)?;
        let words = || SystemError(format!("`before.dma_pool_kib`: no free block of order {} in zone DMA", order.0));
        // A block that is only dropped stays taken.
        block.map(drop).ok_or_else(words)
    }

    /// Creates a file whose contents are already on the device, but not in memory.
    ///
    /// # Errors
    /// When a file of this name exists, there is no memory for the inode, or the device is full.
    pub fn import_file(&self, name: &str, bytes: u64) -> Result<OpenFile, SystemError> {
        let open = self.create(name)?;
        if !self.engine().writeback().allocate_blocks(&open.file, bytes) {
            return Err(SystemError(format!("no room on the device for file `{name}` of {bytes} bytes")));
        }
        Ok(open)
    }

    /// Returns the length of a file, pages; 0 if no file has this name.
    #[must_use]
    pub fn length_pages(&self, name: &str) -> u64 {
        self.shared.files.borrow().get(name).map_or(0, |file| file.length().div_ceil(PAGE_BYTES as u64))
    }

    /// Writes pages of an imported file in requests of 1 MiB that bypass the page cache, and waits for the requests.
    ///
    /// # Errors
    /// When there is no such file, there is no memory for the buffer, or the device fails.
    pub fn write_direct(&self, name: &str, first_page: u64, pages: u64) -> Result<(), SystemError> {
        let file = self.file(name)?;
        for start in (first_page..first_page + pages).step_by(256) {
            let pages = (first_page + pages - start).min(256) as usize;
            let block = u32::try_from(start).ok().and_then(|start| file.block(start));
            let block = block.ok_or_else(|| SystemError(format!("file `{name}` has a hole")))?;
            let mut buffer = self
                .engine()
                .access()
                .direct_buffer(&mut self.task.borrow_mut(), pages)
                .map_err(|error| self.words(error))?;
            let written = self.engine().access().direct_io(Operation::Write, file.device, block, &mut buffer, false);
            self.engine().access().free_direct_buffer(buffer);
            written.map_err(|error| SystemError(format!("file `{name}`: {error}")))?;
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Result<Arc<File<Sim>>, SystemError> {
        let file = self.shared.files.borrow().get(name).cloned();
        file.ok_or_else(|| SystemError(format!("there is no file `{name}`")))
    }

    fn open_file(&self, file: Arc<File<Sim>>) -> Result<OpenFile, SystemError> {
        let engine = self.shared.engine.clone();
        engine.access().open(&mut self.task.borrow_mut(), &file).map_err(|error| self.words(error))?;
        let seen_failures = AtomicU32::new(file.failed_writes());
        Ok(OpenFile { engine, file, state: ReadState::default(), last_in_place: None, seen_failures })
    }

    /// Pins a page of a file for reading, and returns its frame.
    fn pin(&self, open: &mut OpenFile, page: u64) -> Result<machine::FrameNumber, SystemError> {
        let OpenFile { file, state, last_in_place, .. } = open;
        let pages = file.length().div_ceil(page_bytes(1));
        if page >= pages {
            return Err(SystemError(format!("page {page} lies after the end of a file of {pages} pages")));
        }
        let page = page as u32;
        let is_new_use = last_in_place.replace(page) != Some(page);
        match self.engine().access().pin_cached(file, page, || is_new_use) {
            Some((frame, _)) => Ok(frame),
            None => {
                let mut task = self.task.borrow_mut();
                self.engine().access().pin_for_read(&mut task, file, state, page, 1).map_err(|error| self.words(error))
            }
        }
    }

    /// Advances virtual time by the duration of a copy of `bytes` bytes to or from a program's own memory, and of the
    /// program's work on these bytes. Copies by the engine are not included.
    fn work_as_program(&self, bytes: usize) {
        let pages = bytes.div_ceil(PAGE_BYTES);
        {
            let _program = self.shared.sim.span(Func::User);
            self.shared.sim.spend(Step::CopyPage, pages as u32);
        }
        self.work_on(pages, self.shared.program_work.touch);
    }

    /// Advances virtual time by the duration of a program's own work on `pages` pages, each of which takes `each`.
    fn work_on(&self, pages: usize, each: Nanos) {
        if each > Nanos(0) {
            self.shared.sim.compute(Nanos(each.0 * pages as u64));
        }
    }

    fn for_process(shared: &Rc<Shared>, process: Arc<Process>) -> Self {
        let task = Task { process: Some(process.id), ..Task::in_group(process.group()) };
        Self { shared: shared.clone(), process, task: RefCell::new(task) }
    }

    /// Returns the lines that the simulated kernel logged, each with its time. For each process killed for lack of
    /// memory there is a report of several lines.
    #[must_use]
    pub fn kernel_log(&self) -> Vec<String> {
        self.shared.kernel_log.borrow().clone()
    }

    /// Returns the ID of the main process, and the number of further processes that the workload has started.
    #[must_use]
    pub fn started(&self) -> (ProcessId, usize) {
        (self.process.id, self.shared.started.get())
    }

    /// Returns an error if the process of this task was killed for lack of memory. The task then ends, as after
    /// SIGKILL.
    #[inline]
    fn alive(&self) -> Result<(), SystemError> {
        if self.process.is_killed() { Err(self.killed()) } else { Ok(()) }
    }

    #[cold]
    fn killed(&self) -> SystemError {
        let Process { id, name, .. } = &*self.process;
        SystemError(format!("process {} (`{name}`) was killed for lack of memory", id.0))
    }

    /// Creates a process for a new task. It is in the group of the machine file that has the task's name in its list, or
    /// in the group of this task.
    fn new_process(&self, name: &str) -> Arc<Process> {
        let named = self.shared.groups.borrow().of_task(name);
        let group = named.unwrap_or_else(|| self.task.borrow().group);
        let process = self.engine().anonymous().create_process(name, group);
        let adj =
            named.map_or_else(|| self.process.oom_score_adj(), |id| self.shared.groups.borrow().oom_score_adj(id));
        process.set_oom_score_adj(adj);
        process
    }

    /// Starts the task of a new process. The body is boxed, so that this is compiled once.
    fn spawn_process(&self, name: &str, process: Arc<Process>, body: Box<dyn FnOnce(&Self)>) -> sim::TaskId {
        let shared = self.shared.clone();
        let (number, group) = (process.id.0, process.group());
        let started = process.clone();
        // The task that starts another pays for its stack; the other enters its own group later.
        let payer = self.engine().allocate().charge_stack(&mut self.task.borrow_mut());
        let task = self.shared.sim.spawn(name, move || {
            let system = Self::for_process(&shared, process);
            system.engine().memory().enter_group(&mut system.task.borrow_mut(), group);
            body(&system);
            // A task that ends by itself leaves what it did not unmap, so that older runs stay as they were.
            if system.process.is_killed() {
                system.engine().access().exit_process(&system.process);
            }
            system.process.set_gone();
            shared.engine.memory().free_object(payer, KernelMemory::KernelStack, STACK_BYTES);
            shared.processes.borrow_mut().remove(&number);
        });
        self.shared.processes.borrow_mut().insert(number, task);
        if started.is_killed() {
            // It was killed before it had a task.
            self.shared.sim.kill(task);
        }
        self.shared.started.update(|started| started + 1);
        task
    }

    /// Returns the error that the workload sees for an error of the engine.
    fn words(&self, error: engine::Error) -> SystemError {
        if self.process.is_killed() { self.killed() } else { SystemError(error.to_string()) }
    }
}

impl Shared {
    /// Ends the task of a process that the engine kills, and logs the kill. At the first kill, starts the reaper. It is
    /// not started earlier, so that runs without kills have no additional task.
    fn end_process(&self, process: u32) {
        let last = self.engine.allocate().last_kill();
        if let Some((n, kill)) = last.filter(|(_, kill)| kill.candidates[kill.victim].id.0 == process) {
            let lines = kernel_log::lines(&self.engine, &self.groups.borrow(), &kill, n);
            self.kernel_log.borrow_mut().extend(lines);
        }
        if !self.has_reaper.replace(true) {
            let (engine, reaper) = (self.engine.clone(), KernelTask::OomReaper);
            let id = self.sim.spawn(&reaper.name(), move || engine.run(reaper));
            self.sim.set_aside(id);
            self.kernel_tasks.borrow_mut().push(id);
        }
        // The main task is not started by a task. A process that is about to get its task is ended then.
        let of_main = || self.sim.main_task().filter(|_| process == self.main.get());
        let task = self.processes.borrow().get(&process).copied().or_else(of_main);
        task.into_iter().for_each(|task| self.sim.kill(task));
    }
}

/// Returns the range of pages in which `bytes` bytes from `offset` on lie.
fn pages_of(offset: u64, bytes: usize) -> Range<u32> {
    (offset / PAGE_BYTES as u64) as u32..(offset + bytes as u64).div_ceil(PAGE_BYTES as u64) as u32
}

impl System for SimSystem {
    type File = OpenFile;
    type Region = Arc<Region<Sim>>;
    type Task = sim::TaskId;

    fn given(&self) -> &Given {
        &self.shared.given
    }

    fn now(&self) -> Nanos {
        self.shared.sim.now()
    }

    fn mark(&self, name: &'static str) {
        if let Some(look) = self.shared.at_marks.borrow_mut().as_mut() {
            look(self.now(), name);
        }
    }

    fn sleep(&self, time: Nanos) {
        self.shared.sim.pause(time);
    }

    fn compute(&self, time: Nanos) {
        self.shared.sim.compute(time);
    }

    fn is_killed(&self) -> bool {
        self.shared.sim.is_killed()
    }

    fn spawn(&self, name: &str, body: impl FnOnce(&Self) + Send + 'static) -> sim::TaskId {
        let process = self.new_process(name);
        self.spawn_process(name, process, Box::new(body))
    }

    const FORKS: bool = true;

    fn fork(
        &self,
        name: &str,
        regions: &[&Arc<Region<Sim>>],
        body: impl FnOnce(&Self, Vec<Arc<Region<Sim>>>) -> Vec<u8> + Send + 'static,
        ended: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
    ) -> Result<sim::TaskId, SystemError> {
        self.alive()?;
        let process = self.new_process(name);
        let mut copies = Vec::new();
        for region in regions {
            let access = self.engine().access();
            match access.fork_region(&mut self.task.borrow_mut(), region, Some(process.id)) {
                Ok(copy) => copies.push(copy),
                Err(error) => {
                    copies.iter().for_each(|copy: &Arc<Region<Sim>>| access.drop_region(copy));
                    process.set_gone();
                    return Err(self.words(error));
                }
            }
        }
        Ok(self.spawn_process(name, process, Box::new(move |system| ended(Some(body(system, copies))))))
    }

    fn join(&self, task: &sim::TaskId) {
        self.shared.sim.join(*task);
    }

    fn kill(&self, task: &sim::TaskId) {
        self.shared.sim.kill(*task);
    }

    fn enter_group(&self, name: Option<&str>) -> Result<(), SystemError> {
        let group = name.map_or(Ok(GroupId::ROOT), |name| self.group(name))?;
        self.move_to(group);
        Ok(())
    }

    fn set_oom_score_adj(&self, adj: i16) {
        self.process.set_oom_score_adj(adj);
    }

    fn group_names(&self, name: &str) -> Result<Vec<String>, SystemError> {
        let names = self.shared.groups.borrow().names_of(name);
        names.ok_or_else(|| SystemError(format!("the machine file has no [[group]] `{name}`")))
    }

    fn begin_measured(&self) {
        self.shared.groups.borrow().begin_measured(self.engine());
    }

    fn end_measured(&self) {
        self.shared.groups.borrow().end_measured(self.engine());
    }

    fn reclaim_group(&self, name: &str, pages: u64, swappiness: Option<u64>) -> Result<bool, SystemError> {
        let group = self.group(name)?;
        let mut task = self.task.borrow_mut();
        Ok(self.engine().reclaim().reclaim_group(&mut task, group, pages, swappiness) >= pages)
    }

    fn set_group_limit(&self, name: &str, limit: Limit, pages: u64) -> Result<(), SystemError> {
        let group = self.group(name)?;
        let groups = self.engine().memory().groups.as_ref().expect("a group has a name");
        let version = groups.version();
        if !version.has_limit(limit) {
            return Err(SystemError(format!("`{name}` is a group of {version}, which has no {}", limit.name())));
        }
        groups.set_limit(group, limit, pages);
        Ok(())
    }

    fn kill_group(&self, name: &str) -> Result<(), SystemError> {
        self.engine().allocate().kill_group(self.group(name)?);
        Ok(())
    }

    fn swap_pages(&self) -> Option<[u64; 2]> {
        let swap = self.engine().swap();
        Some([swap.total_slots().into(), swap.free_slots().into()])
    }

    fn group_stat(&self, name: &str) -> Result<Option<Vmstat>, SystemError> {
        Ok(Some(self.engine().lru().group_stat(self.group(name)?)))
    }

    fn pressure(&self, group: Option<&str>) -> Result<Option<Pressure>, SystemError> {
        let group = group.map_or(Ok(GroupId::ROOT), |name| self.group(name))?;
        Ok(Some(self.shared.sim.pressure(group.0)))
    }

    fn pressure_trigger(&self, group: Option<&str>, trigger: &str) -> Result<PressureTrigger, SystemError> {
        let group = group.map_or(Ok(GroupId::ROOT), |name| self.group(name))?;
        let trigger: Trigger = trigger.parse().map_err(|error: TriggerError| SystemError(error.to_string()))?;
        let sim = self.shared.sim.clone();
        let trigger = sim.pressure_trigger(group.0, trigger);
        Ok(PressureTrigger::new(move |time| Ok(sim.wait_for_pressure(&trigger, time))))
    }

    fn memory_pages(&self) -> u64 {
        self.engine().memory().usable_pages()
    }

    fn free_pages(&self) -> u64 {
        let memory = self.engine().memory();
        let free = memory.gauge(Gauge::NrFreePages);
        memory.limit_pages().map_or(free, |limit| free.min(limit.saturating_sub(memory.charged_pages())))
    }

    fn high_mark_pages(&self) -> Option<u64> {
        // A cgroup has no watermarks, so there is no high mark. A workload then takes memory to be full when reclaim
        // has freed a first page.
        let has_marks = self.engine().memory().limit_pages().is_none();
        has_marks.then(|| self.engine().memory().zones.iter().map(|zone| zone.high()).sum())
    }

    fn import(&self, name: &str, pages: u64) -> Result<bool, SystemError> {
        self.import_file(name, page_bytes(pages))?;
        Ok(true)
    }

    fn create(&self, name: &str) -> Result<OpenFile, SystemError> {
        if self.shared.files.borrow().contains_key(name) {
            return Err(SystemError(format!("file `{name}` exists")));
        }
        let file = self
            .engine()
            .access()
            .create(&mut self.task.borrow_mut(), DeviceId(0))
            .map_err(|error| self.words(error))?;
        self.shared.files.borrow_mut().insert(name.to_owned(), file.clone());
        self.open_file(file)
    }

    fn open(&self, name: &str) -> Result<OpenFile, SystemError> {
        self.open_file(self.file(name)?)
    }

    fn length(&self, file: &OpenFile) -> u64 {
        file.file.length()
    }

    fn write(&self, file: &OpenFile, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        self.alive()?;
        self.work_on(bytes.len().div_ceil(PAGE_BYTES), self.shared.program_work.write);
        self.engine()
            .access()
            .write(&mut self.task.borrow_mut(), &file.file, offset, bytes)
            .map_err(|error| self.words(error))
    }

    fn read(&self, file: &mut OpenFile, offset: u64, bytes: &mut [u8]) -> Result<usize, SystemError> {
        self.alive()?;
        let OpenFile { file, state, .. } = file;
        self.engine()
            .access()
            .read(&mut self.task.borrow_mut(), file, state, offset, bytes)
            .map_err(|error| self.words(error))
    }

    fn start_read(&self, file: &mut OpenFile, page: u64) -> Result<(), SystemError> {
        self.alive()?;
        // A page whose number has more than 32 bits lies after the end of every file.
        let Ok(page) = u32::try_from(page) else { return Ok(()) };
        self.engine().access().start_read(&mut self.task.borrow_mut(), &file.file, page..page.saturating_add(1));
        Ok(())
    }

    fn expect_random_reads(&self, file: &mut OpenFile) {
        file.state.pattern = ReadPattern::Random;
    }

    fn advise(&self, file: &mut OpenFile, advice: Advice, range: Range<u64>) -> Result<(), SystemError> {
        self.alive()?;
        let end = range.end.min(file.file.length());
        let pages = pages_of(range.start, end.saturating_sub(range.start) as usize);
        match advice {
            Advice::Pattern(pattern) => file.state.pattern = pattern,
            // Far behind the end of a file, the numbers of pages have more than 32 bits.
            _ if range.start >= end => {}
            Advice::WillNeed => self.engine().access().prefetch(&mut self.task.borrow_mut(), &file.file, pages),
            // Only pages that lie in the range as a whole are dropped.
            Advice::DontNeed => {
                let first = range.start.div_ceil(PAGE_BYTES as u64) as u32;
                self.engine().lru().invalidate_pages(&file.file, first..pages.end.max(first));
            }
        }
        Ok(())
    }

    fn read_in_place<R>(
        &self,
        file: &mut OpenFile,
        page: u64,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, SystemError> {
        // The bytes are copied for the reader, because a simulated machine keeps only a stamp of them. The copy takes
        // no virtual time.
        let mut bytes = [0; PAGE_BYTES];
        let frame = {
            let _span = self.shared.sim.span(Func::FileRead);
            let frame = self.pin(file, page)?;
            self.shared.sim.read_frame(frame, 0, &mut bytes);
            frame
        };
        let result = read(&bytes);
        self.engine().access().unpin_read(frame);
        Ok(result)
    }

    fn set_length(&self, file: &OpenFile, bytes: u64) -> Result<(), SystemError> {
        self.engine()
            .access()
            .set_length(&mut self.task.borrow_mut(), &file.file, bytes)
            .map_err(|error| self.words(error))
    }

    fn maps_files(&self) -> bool {
        true
    }

    fn map_file(&self, file: &OpenFile, pages: Range<u32>, mode: MapMode) -> Result<Arc<Region<Sim>>, SystemError> {
        let Range { start, end } = pages;
        self.engine()
            .access()
            .map_file(&mut self.task.borrow_mut(), &file.file, start, end - start, mode)
            .map_err(|error| self.words(error))
    }

    fn sync(&self, file: &OpenFile) -> Result<(), SystemError> {
        let OpenFile { file, seen_failures, .. } = file;
        self.engine()
            .access()
            .fsync_since(&mut self.task.borrow_mut(), file, seen_failures)
            .map_err(|error| self.words(error))
    }

    fn remove(&self, name: &str) -> Result<(), SystemError> {
        let file = self.file(name)?;
        if file.is_mapped() {
            return Err(SystemError(format!("file `{name}` is mapped")));
        }
        self.shared.files.borrow_mut().remove(name);
        self.engine().access().unlink(&file);
        Ok(())
    }

    fn drop_caches(&self) -> Result<(), SystemError> {
        self.engine().access().drop_caches();
        Ok(())
    }

    fn map(&self, pages: u32) -> Result<Arc<Region<Sim>>, SystemError> {
        Ok(self.engine().anonymous().create_region(Some(self.process.id), pages, false))
    }

    fn map_huge(&self, pages: u32) -> Result<Arc<Region<Sim>>, SystemError> {
        self.start_khugepaged();
        Ok(self.engine().anonymous().create_region(Some(self.process.id), pages, true))
    }

    #[inline]
    fn touch(&self, region: &Arc<Region<Sim>>, pages: Range<u32>, write: bool) -> Result<(), SystemError> {
        self.alive()?;
        self.engine()
            .access()
            .touch(&mut self.task.borrow_mut(), region, pages.clone(), write)
            .map_err(|error| self.words(error))?;
        self.translate(region, pages, 1);
        Ok(())
    }

    #[inline]
    fn expect_touch(&self, region: &Arc<Region<Sim>>, page: u32) {
        region.prefetch_entry(page);
    }

    #[inline]
    fn touch_sample(&self, region: &Arc<Region<Sim>>, page: u32, write: bool, times: u32) -> Result<(), SystemError> {
        self.alive()?;
        self.engine()
            .access()
            .touch(&mut self.task.borrow_mut(), region, page..page + 1, write)
            .map_err(|error| self.words(error))?;
        self.translate(region, page..page + 1, times);
        Ok(())
    }

    fn store(&self, region: &Arc<Region<Sim>>, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        self.alive()?;
        self.work_as_program(bytes.len());
        self.engine()
            .access()
            .store(&mut self.task.borrow_mut(), region, offset, bytes)
            .map_err(|error| self.words(error))?;
        self.translate(region, pages_of(offset, bytes.len()), 1);
        Ok(())
    }

    fn load(&self, region: &Arc<Region<Sim>>, offset: u64, bytes: &mut [u8]) -> Result<(), SystemError> {
        self.alive()?;
        self.work_as_program(bytes.len());
        self.engine()
            .access()
            .load(&mut self.task.borrow_mut(), region, offset, bytes)
            .map_err(|error| self.words(error))?;
        self.translate(region, pages_of(offset, bytes.len()), 1);
        Ok(())
    }

    fn unmap(&self, region: Arc<Region<Sim>>) {
        self.engine().access().drop_region(&region);
    }

    fn kept(&self) -> Kept {
        self.shared.kept
    }

    fn faults(&self) -> Faults {
        let task = self.task.borrow();
        Faults { minor: task.minor_faults, major: task.major_faults, major_wait: task.major_fault_wait }
    }

    fn cpu_times(&self) -> CpuTimes {
        let mut times = CpuTimes::default();
        for (path, time) in self.profile() {
            if path.ends_with(Func::User.name()) { times.user += time } else { times.system += time }
        }
        times
    }

    fn vmstat(&self) -> Vmstat {
        self.engine().vmstat()
    }

    fn lock_waits(&self) -> BTreeMap<(String, &'static str), Nanos> {
        self.shared.sim.lock_waits().into_iter().map(|(path, class, time)| ((path, class), time)).collect()
    }

    fn profile(&self) -> BTreeMap<String, Nanos> {
        let split = |line: String| {
            let (path, ns) = line.rsplit_once(' ').expect("a folded stack ends with its time");
            (path.to_owned(), Nanos(ns.parse().expect("the time is a number")))
        };
        self.shared.sim.profile().into_iter().map(split).collect()
    }

    fn send(&self, bytes: u64) -> Result<Unacknowledged, SystemError> {
        self.engine().access().send(&mut self.task.borrow_mut(), bytes).map_err(|error| self.words(error))
    }

    fn acknowledge(&self, sent: Unacknowledged) {
        self.engine().access().acknowledge(sent);
    }

    fn take_block(&self, gfp: Gfp, order: Order) -> Result<Option<Block>, SystemError> {
        Ok(self.engine().access().take_block(&mut self.task.borrow_mut(), gfp, order).ok())
    }

    fn give_block_back(&self, block: Block) {
        self.engine().memory().take_back(block);
    }

    fn look_up(&self, number: u32) -> Result<bool, SystemError> {
        self.engine().access().look_up(&mut self.task.borrow_mut(), number).map_err(|error| self.words(error))
    }

    fn drop_caches_and_slabs(&self) -> Result<(), SystemError> {
        self.engine().access().drop_caches();
        self.engine().reclaim().drop_slabs(&mut self.task.borrow_mut());
        Ok(())
    }

    fn set_min_free_kbytes(&self, kib: u64) -> Result<u64, SystemError> {
        let was = self.engine().memory().min_free_kbytes();
        self.engine().memory().set_min_free_kbytes(kib);
        Ok(was)
    }

    fn hold_page(&self, file: &mut OpenFile, page: u64) -> Result<HeldPage, SystemError> {
        let _span = self.shared.sim.span(Func::FileRead);
        self.pin(file, page).map(HeldPage)
    }

    fn release_page(&self, page: HeldPage) {
        let HeldPage(frame) = page;
        self.engine().access().unpin_read(frame);
    }

    fn take_disk_samples(&self) -> Vec<DiskSample> {
        std::mem::take(&mut *self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn machine_view(&self) -> Option<&Sim> {
        Some(&self.shared.sim)
    }

    fn engine_view(&self) -> Option<&dyn EngineView> {
        Some(self.engine())
    }
}
