//! The ground `sim`: the engine in a simulated machine.

use super::{CpuTimes, Faults, System, SystemError};
use engine::mapping::{DeviceLayout, File, Region, SwapLayout};
use engine::memory::{Gfp, Layout};
use engine::stat::{Gauge, Vmstat};
use engine::{Engine, ReadState, Task};
use machine::{DeviceId, Func, Machine, Nanos, Operation, PAGE_BYTES};
use sim::Sim;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// What all tasks of one simulated system share.
struct Shared {
    sim: Sim,
    engine: Rc<Engine<Sim>>,
    files: RefCell<BTreeMap<String, Arc<File<Sim>>>>,
}

/// The simulated system as one task sees it.
pub struct SimSystem {
    shared: Rc<Shared>,
    task: RefCell<Task>,
}

/// A file, open for one reader.
pub struct OpenFile {
    file: Arc<File<Sim>>,
    state: ReadState,
}

/// What a simulated system consists of beside its machine.
#[derive(Clone, Debug)]
pub struct SystemConfig {
    /// Memory.
    pub layout: Layout,
    /// Blocks for files, by device.
    pub devices: Vec<DeviceLayout>,
    /// Where swap lies.
    pub swap: SwapLayout,
}

impl SimSystem {
    /// A system on a simulated machine, with the engine's own tasks started.
    ///
    /// # Errors
    /// When the engine cannot work with the layout.
    pub fn new(
        sim: &Sim,
        choices: &engine::kernel::Choices,
        config: &SystemConfig,
    ) -> Result<Self, engine::LayoutError> {
        let engine = Rc::new(Engine::new(sim.clone(), choices, &config.layout, &config.devices, config.swap)?);
        sim.attach(engine.clone());
        for task in engine.kernel_tasks() {
            let engine = engine.clone();
            sim.spawn(&task.name(), move || engine.run(task));
        }
        let shared = Rc::new(Shared { sim: sim.clone(), engine, files: RefCell::default() });
        Ok(Self::for_task(&shared))
    }

    /// The engine, for whoever looks inside: checks, lists, what was there before a run.
    #[must_use]
    pub fn engine(&self) -> &Engine<Sim> {
        &self.shared.engine
    }

    /// The engine, to be kept beyond the run.
    #[must_use]
    pub fn shared_engine(&self) -> Rc<Engine<Sim>> {
        self.shared.engine.clone()
    }

    /// CPU time so far by call path, `task;func;func`.
    #[must_use]
    pub fn profile(&self) -> BTreeMap<String, Nanos> {
        let split = |line: String| {
            let (path, ns) = line.rsplit_once(' ').expect("a folded stack ends with its time");
            (path.to_owned(), Nanos(ns.parse().expect("the time is a number")))
        };
        self.shared.sim.profile().into_iter().map(split).collect()
    }

    /// CPU time of all tasks so far.
    #[must_use]
    pub fn cpu_times(&self) -> CpuTimes {
        let mut times = CpuTimes::default();
        for (path, time) in self.profile() {
            if path.ends_with(Func::User.name()) { times.user += time } else { times.system += time }
        }
        times
    }

    /// Takes memory for the kernel's own use, for good.
    ///
    /// # Errors
    /// When there is not so much.
    pub fn take_kernel_memory(&self, pages: u64) -> Result<(), SystemError> {
        let mut task = self.task.borrow_mut();
        for _ in 0..pages {
            self.engine()
                .allocate_kernel(&mut task, Gfp::KERNEL, Gauge::NrSlabUnreclaimable)
                .map_err(|error| SystemError(error.to_string()))?;
        }
        Ok(())
    }

    /// A file whose contents are on the device already and not in memory.
    ///
    /// # Errors
    /// When there is one of that name, memory for its inode is exhausted, or the device is full.
    pub fn import(&self, name: &str, bytes: u64) -> Result<OpenFile, SystemError> {
        let open = self.create(name)?;
        if !self.engine().allocate_blocks(&open.file, bytes) {
            return Err(SystemError(format!("no room on the device for file `{name}` of {bytes} bytes")));
        }
        Ok(open)
    }

    /// Length of a file, pages; 0 when there is none of that name.
    #[must_use]
    pub fn length_pages(&self, name: &str) -> u64 {
        self.shared.files.borrow().get(name).map_or(0, |file| file.length().div_ceil(PAGE_BYTES as u64))
    }

    /// Writes pages of an imported file past the page cache, in requests of a MiB, and waits for them.
    ///
    /// # Errors
    /// When there is no such file, memory for the buffer is exhausted, or the device fails.
    pub fn write_direct(&self, name: &str, first_page: u64, pages: u64) -> Result<(), SystemError> {
        let file = self.shared.files.borrow().get(name).cloned();
        let file = file.ok_or_else(|| SystemError(format!("there is no file `{name}`")))?;
        for start in (first_page..first_page + pages).step_by(256) {
            let pages = (first_page + pages - start).min(256) as usize;
            let block = file.block(start as u32).ok_or_else(|| SystemError(format!("file `{name}` has a hole")))?;
            let mut buffer = self.engine().direct_buffer(&mut self.task.borrow_mut(), pages).map_err(words)?;
            let written = self.engine().direct_io(Operation::Write, file.device, block, &mut buffer, false);
            self.engine().free_direct_buffer(buffer);
            written.map_err(|error| SystemError(format!("file `{name}`: {error}")))?;
        }
        Ok(())
    }

    fn for_task(shared: &Rc<Shared>) -> Self {
        Self { shared: shared.clone(), task: RefCell::new(Task::user()) }
    }
}

fn words(error: engine::Error) -> SystemError {
    SystemError(error.to_string())
}

impl System for SimSystem {
    type File = OpenFile;
    type Region = Arc<Region<Sim>>;
    type Task = sim::TaskId;

    fn now(&self) -> Nanos {
        self.shared.sim.now()
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
        let shared = self.shared.clone();
        self.shared.sim.spawn(name, move || body(&Self::for_task(&shared)))
    }

    fn join(&self, task: &sim::TaskId) {
        self.shared.sim.join(*task);
    }

    fn kill(&self, task: &sim::TaskId) {
        self.shared.sim.kill(*task);
    }

    fn memory_pages(&self) -> u64 {
        self.engine().zones.iter().map(|zone| zone.managed).sum()
    }

    fn free_pages(&self) -> u64 {
        self.engine().gauge(Gauge::NrFreePages)
    }

    fn create(&self, name: &str) -> Result<OpenFile, SystemError> {
        if self.shared.files.borrow().contains_key(name) {
            return Err(SystemError(format!("file `{name}` exists")));
        }
        let file = self.engine().create(&mut self.task.borrow_mut(), DeviceId(0)).map_err(words)?;
        self.shared.files.borrow_mut().insert(name.to_owned(), file.clone());
        Ok(OpenFile { file, state: ReadState::default() })
    }

    fn write(&self, file: &OpenFile, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        self.engine().write(&mut self.task.borrow_mut(), &file.file, offset, bytes).map_err(words)
    }

    fn read(&self, file: &mut OpenFile, offset: u64, bytes: &mut [u8]) -> Result<usize, SystemError> {
        let OpenFile { file, state } = file;
        self.engine().read(&mut self.task.borrow_mut(), file, state, offset, bytes).map_err(words)
    }

    fn fsync(&self, file: &OpenFile) -> Result<(), SystemError> {
        self.engine().fsync(&mut self.task.borrow_mut(), &file.file).map_err(words)
    }

    fn unlink(&self, name: &str) -> Result<(), SystemError> {
        let file = self.shared.files.borrow_mut().remove(name);
        let file = file.ok_or_else(|| SystemError(format!("there is no file `{name}`")))?;
        self.engine().unlink(&file);
        Ok(())
    }

    fn map(&self, pages: u32) -> Arc<Region<Sim>> {
        self.engine().create_region(pages, false)
    }

    #[inline]
    fn touch(&self, region: &Arc<Region<Sim>>, pages: Range<u32>, write: bool) -> Result<(), SystemError> {
        self.engine().touch(&mut self.task.borrow_mut(), region, pages, write).map_err(words)
    }

    fn unmap(&self, region: Arc<Region<Sim>>) {
        self.engine().drop_region(&region);
    }

    fn faults(&self) -> Faults {
        let task = self.task.borrow();
        Faults { minor: task.minor_faults, major: task.major_faults, major_wait: task.major_fault_wait }
    }

    fn vmstat(&self) -> Vmstat {
        self.engine().vmstat()
    }
}

/// Bytes of so many pages.
#[must_use]
pub const fn page_bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES as u64
}
