//! The tasks that write, read and check pages in a random world.

use super::draw::{Role, TaskPlan};
use super::store::{Part, Store, What, map_new_file};
use super::{REFUSALS_MAX, Shared};
use engine::anonymous::{Process, Sharing};
use engine::memory::Gfp;
use engine::stat::Gauge;
use engine::{Error, ReadState, Task};
use machine::{FrameNumber, IoError, Machine, Nanos, Operation, Order};
use sim::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Virtual time at which the tasks of a world stop working, even if work is left. The limit is needed because a task
/// whose group is far above `memory.high` may have to sleep 2 s for each page.
const ENOUGH_TIME: Nanos = Nanos::from_secs(10_000);

/// Largest number of files of one task.
const FILES: usize = 3;

/// Largest number of regions that a task has forked and not dropped.
const CHILDREN: usize = 3;

/// The regions that a task has forked.
pub(super) struct Children {
    stores: Vec<Rc<Store>>,
    /// Decides when the task forks, and what it does with the children. All other random numbers come from elsewhere, so
    /// that they are the same whether tasks fork or not.
    rng: Rng,
}

impl Children {
    /// Draws whether the tasks of a simulated world fork. Returns `false` if the world runs a workload.
    pub fn draw(seed: u64, is_workload: bool) -> bool {
        Rng::new(seed, u64::MAX - 35).below(4) == 0 && !is_workload
    }

    /// Returns no children, for task `number` of the world with the seed `seed`.
    pub fn new(seed: u64, number: u64) -> Self {
        Self { stores: Vec::new(), rng: Rng::new(seed, u64::MAX - 500 - number) }
    }

    /// Returns the position of a random child.
    fn at(&mut self) -> usize {
        self.rng.below(self.stores.len() as u64) as usize
    }

    /// Returns a random child.
    fn one(&mut self) -> Rc<Store> {
        let at = self.at();
        self.stores[at].clone()
    }
}

/// Returns a random range of pages in a store of `pages` pages.
fn random_range(rng: &mut Rng, pages: u32) -> std::ops::Range<u32> {
    let start = rng.below(u64::from(pages)) as u32;
    let length = 1 << rng.below(6);
    start..(start + length).min(pages)
}

/// A running task of a random world (a simulation that is drawn from a seed), with the state of its work.
pub(super) struct Worker {
    shared: Rc<Shared>,
    plan: TaskPlan,
    /// The number of this task. It decides which pages of a shared store the task may write. If a store has `writers`
    /// writers, these are the pages whose number modulo `writers` equals the task's number modulo `writers`.
    number: u32,
    task: Task,
    rng: Rng,
    /// The random generator for the task's operations on memory control groups. All other random numbers come from
    /// `rng`, so that they are the same whether the world has groups or not.
    groups_rng: Rng,
    left_pages: u64,
    state: ReadState,
    /// The simulated process that the task belongs to; `None` if the world (the random machine with its tasks) has no
    /// processes.
    process: Option<Arc<Process>>,
    /// The regions that this task has forked from its memory; `None` if the tasks of the world do not fork.
    children: Option<Children>,
    /// Number of times that an operation of this task failed because memory was exhausted.
    refusals: Cell<u32>,
}

impl Worker {
    /// Creates a worker. `rng` decides what the task does, and `groups_rng` what it does to groups.
    pub fn new(
        shared: &Rc<Shared>,
        plan: TaskPlan,
        number: u32,
        [rng, groups_rng]: [Rng; 2],
        process: Option<Arc<Process>>,
        children: Option<Children>,
    ) -> Self {
        let left_pages = plan.budget_pages;
        let task = Task { process: process.as_ref().map(|process| process.id), ..Task::user() };
        let (shared, state, refusals) = (shared.clone(), ReadState::default(), Cell::new(0));
        Self { shared, plan, number, task, rng, groups_rng, left_pages, state, process, children, refusals }
    }

    /// Works until the task's budget of pages is used up, the task is told to end, or the whole world has used too much
    /// CPU time.
    pub fn run(mut self) {
        match self.plan.role {
            Role::Writer => self.write_files(false),
            Role::Extender => self.write_files(true),
            Role::Sharer => self.use_shared(),
            Role::Toucher => self.touch(),
            Role::Blocks => self.take_blocks(),
            Role::Churn => self.churn(),
            Role::DropCaches => self.drop_caches(),
        }
        self.shared.groups.leave(&self.shared.engine, &mut self.task);
        if let Some(process) = self.process.take().filter(|process| process.is_killed()) {
            self.exit(&process);
        }
    }

    /// Ends the process of this task after the out-of-memory killer has killed it: drops the process's memory. (The
    /// memory of a process that was not killed stays for the last check.)
    fn exit(&self, process: &Process) {
        let owner = |store: &Store| store.what.region().and_then(|region| region.owner);
        let mut mine = Vec::new();
        self.shared.live.borrow_mut().retain(|_, store| {
            let is_mine = owner(store) == Some(process.id);
            if is_mine {
                mine.push(store.clone());
            }
            !is_mine
        });
        mine.iter().for_each(|store| store.drop_all(&self.shared.engine));
        self.shared.engine.access().exit_process(process);
    }

    /// Subtracts `pages` from the task's budget of pages, and sometimes sleeps or computes. Returns whether the task is
    /// to continue.
    fn go_on(&mut self, pages: u64) -> bool {
        self.left_pages = self.left_pages.saturating_sub(pages.max(1));
        self.shared.groups.meddle(&self.shared.engine, &mut self.task, &mut self.groups_rng);
        self.process.iter().for_each(|process| process.enter_group(self.task.group));
        let sim = &self.shared.sim;
        match self.rng.below(64) {
            0 => sim.pause(Nanos(self.rng.below(20_000_000))),
            1..8 => sim.compute(Nanos(self.rng.below(50_000))),
            _ => {}
        }
        let is_over = self.shared.is_late.get() || sim.now() >= ENOUGH_TIME || sim.is_killed();
        self.left_pages > 0 && self.refusals.get() < REFUSALS_MAX && !is_over
    }

    /// Returns the value of a result, or `None` for an error that a program must expect. Panics for any other error,
    /// which is a bug.
    fn expect<T>(&self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::OutOfMemory { .. } | Error::TooManyTables { .. }) => {
                self.shared.out_of_memory.set(self.shared.out_of_memory.get() + 1);
                self.refusals.set(self.refusals.get() + 1);
                None
            }
            Err(Error::Killed) if self.shared.sim.is_killed() => None,
            Err(Error::Write { source: IoError::LogBehind | IoError::Held, .. }) if self.shared.log.is_some() => None,
            Err(Error::Read { .. } | Error::SwapRead { .. } | Error::Write { .. }) if self.shared.has_faults => None,
            Err(error) => panic!("nothing failed, but a task was told: {error}"),
        }
    }

    fn part(&mut self) -> Part {
        match self.rng.below(8) {
            0 => Part::Stamp,
            1 => Part::Rest,
            _ => Part::Whole,
        }
    }

    /// Returns a random range of pages in a store of `pages` pages.
    fn range(&mut self, pages: u32) -> std::ops::Range<u32> {
        random_range(&mut self.rng, pages)
    }

    /// Writes those of the pages `pages` that this task may write: the pages of the store are divided among `writers`
    /// tasks, of which this task is one. Stops at the first error. Returns whether all writes succeeded.
    fn write(&mut self, store: &Store, pages: std::ops::Range<u32>, writers: u32) -> bool {
        let mine = self.number % writers;
        for page in pages.filter(|page| page % writers == mine) {
            let part = self.part();
            let result = store.write(&self.shared, &mut self.task, page, part);
            if self.expect(result).is_none() {
                return false;
            }
        }
        true
    }

    fn verify(&mut self, store: &Store, pages: std::ops::Range<u32>) {
        let mut state = std::mem::take(&mut self.state);
        let result = store.verify(&self.shared.engine, &mut self.task, &mut state, pages);
        self.state = state;
        let _ = self.expect(result);
    }

    fn sync(&mut self, store: &Store) {
        let result = match &store.what {
            What::File(file) => self.shared.engine.access().fsync(&mut self.task, file),
            What::Region(region) | What::Mapped(_, region) => {
                self.shared.engine.access().sync_region(&mut self.task, region)
            }
        };
        let _ = self.expect(result);
    }

    fn make_file(&mut self) -> Option<Rc<Store>> {
        let result = self.shared.engine.access().create(&mut self.task, self.shared.file_device);
        Some(self.shared.add(What::File(self.expect(result)?)))
    }

    fn make_region(&mut self, pages: u32) -> Rc<Store> {
        let is_huge_allowed = self.rng.below(2) == 0;
        let owner = self.task.process;
        self.shared.add(What::Region(self.shared.engine.anonymous().create_region(owner, pages, is_huge_allowed)))
    }

    /// Writes ranges of up to 64 pages to the task's own files, verifies ranges of the files, syncs the files, and
    /// removes them. With `only_extends`, writes only at the end of files.
    fn write_files(&mut self, only_extends: bool) {
        let mut files: Vec<Rc<Store>> = Vec::new();
        loop {
            let operation = self.rng.below(16);
            if files.is_empty() || operation == 0 && files.len() < FILES {
                files.extend(self.make_file());
            } else {
                let at = self.rng.below(files.len() as u64) as usize;
                let file = files[at].clone();
                let (length, limit) = (file.pages(), (self.plan.size_pages / FILES as u32).max(1));
                match operation {
                    1 => self.sync(&file),
                    2..7 if length > 0 => {
                        let pages = self.range(length);
                        self.left_pages = self.left_pages.saturating_sub(pages.len() as u64);
                        self.verify(&file, pages);
                    }
                    7 | 8 if length >= limit || operation == 7 => {
                        self.shared.release(&files.swap_remove(at));
                    }
                    _ => {
                        let start = match only_extends || length < limit && self.rng.below(2) == 0 {
                            true => length,
                            false => self.rng.below(u64::from(length) + 1) as u32,
                        };
                        let pages = start..start + (1 << self.rng.below(7));
                        self.left_pages = self.left_pages.saturating_sub(pages.len() as u64);
                        self.write(&file, pages, 1);
                    }
                }
            }
            if !self.go_on(1) {
                break;
            }
        }
        // About half of the files stay. They are checked after all tasks have ended.
        for file in files {
            if self.rng.below(2) == 0 {
                self.shared.release(&file);
            }
        }
    }

    /// Reads and writes shared files and regions.
    fn use_shared(&mut self) {
        let stores = self.shared.common.borrow().clone();
        let writers = self.shared.sharers;
        loop {
            let at = self.rng.below(stores.len() as u64) as usize;
            let store = &stores[at];
            let pages = self.range(store.pages());
            let count = pages.len() as u64;
            match self.rng.below(8) {
                0..4 => {
                    self.write(store, pages, writers);
                }
                4 if self.rng.below(4) == 0 => self.sync(store),
                _ => self.verify(store, pages),
            }
            if !self.go_on(count) {
                return;
            }
        }
    }

    /// Creates memory for this task: usually an anonymous region, sometimes a mapping of a new file.
    fn make_memory(&mut self, pages: u32) -> Rc<Store> {
        let sharing = match self.rng.below(8) {
            0 => Sharing::Shared,
            1 => Sharing::Private,
            _ => return self.make_region(pages),
        };
        let what = map_new_file(&self.shared.engine, &mut self.task, self.shared.file_device, pages, sharing);
        self.expect(what).map(|what| self.shared.add(what)).unwrap_or_else(|| self.make_region(pages))
    }

    /// Sometimes forks the memory `parent` or one of its children, and uses or drops one of them.
    fn use_children(&mut self, parent: &Rc<Store>) {
        let Some(mut children) = self.children.take() else { return };
        let has_children = !children.stores.is_empty();
        match children.rng.below(32) {
            0 if children.stores.len() < CHILDREN => {
                let of_child = has_children && children.rng.below(4) == 0;
                let forked = if of_child { children.one() } else { parent.clone() };
                children.stores.extend(self.fork(&forked));
            }
            1 if has_children => {
                let at = children.at();
                self.shared.release(&children.stores.swap_remove(at));
            }
            2..8 if has_children => {
                let store = children.one();
                let pages = random_range(&mut children.rng, store.pages());
                for page in pages {
                    let part = if children.rng.below(4) == 0 { Part::Rest } else { Part::Stamp };
                    let result = store.write(&self.shared, &mut self.task, page, part);
                    if self.expect(result).is_none() {
                        break;
                    }
                }
            }
            8..14 if has_children => {
                let store = children.one();
                let pages = random_range(&mut children.rng, store.pages());
                self.verify(&store, pages);
            }
            _ => {}
        }
        self.children = Some(children);
    }

    fn fork(&mut self, parent: &Store) -> Option<Rc<Store>> {
        let shared = self.shared.clone();
        let number = shared.next_number.replace(shared.next_number.get() + 1);
        let store = parent.forked(number, |region| {
            let forked = shared.engine.access().fork_region(&mut self.task, region, region.owner);
            self.expect(forked)
        })?;
        shared.live.borrow_mut().insert(number, store.clone());
        Some(store)
    }

    /// Writes and reads memory of the task's own.
    fn touch(&mut self) {
        let pages = self.plan.size_pages;
        let mut region = self.make_memory(pages);
        loop {
            let range = self.range(pages);
            let count = range.len() as u64;
            match self.rng.below(16) {
                0..8 => {
                    self.write(&region, range, 1);
                }
                8..13 => self.verify(&region, range),
                13 if self.rng.below(4) == 0 => self.sync(&region),
                13 | 14 => {
                    let inner = region.what.region().expect("made as memory");
                    let result = self.shared.engine.access().touch(&mut self.task, inner, range, false);
                    let _ = self.expect(result);
                }
                _ if self.rng.below(8) == 0 => {
                    self.shared.release(&region);
                    region = self.make_memory(pages);
                }
                _ => {}
            }
            self.use_children(&region);
            if !self.go_on(count) {
                break;
            }
        }
        for start in (0..pages).step_by(64) {
            // What is left is verified after all tasks have ended.
            if self.shared.is_late.get() || self.shared.sim.now() >= ENOUGH_TIME {
                break;
            }
            self.verify(&region, start..(start + 64).min(pages));
        }
        if self.rng.below(2) == 0 {
            self.shared.release(&region);
        }
    }

    /// Makes random allocations, and frees them in between and at the end: blocks of free pages of orders 0 to 10,
    /// single kernel pages, and socket buffers. Sometimes reads without the page cache in between.
    fn take_blocks(&mut self) {
        let engine = self.shared.engine.clone();
        let mut blocks: Vec<(FrameNumber, Order)> = Vec::new();
        let mut kernel: Vec<FrameNumber> = Vec::new();
        let mut sent = Vec::new();
        loop {
            let order = Order(match self.rng.below(3) {
                0 => 9,
                _ => self.rng.below(11) as u8,
            });
            let mut gfp = match self.rng.below(5) {
                0 => Gfp::HUGE_PAGE,
                1 => Gfp::ATOMIC,
                2 => Gfp::KERNEL,
                3 => Gfp::RECLAIMABLE,
                _ => Gfp::USER_MOVABLE,
            };
            gfp.repeat = self.rng.below(4) == 0;
            if self.rng.below(4) == 0 {
                gfp.highest_zone =
                    engine.memory().zones[self.rng.below(engine.memory().zones.len() as u64) as usize].kind;
            }
            match self.rng.below(10) {
                0..3 if blocks.len() < 4 => {
                    blocks.extend(engine.allocate().allocate(&mut self.task, gfp, order).ok().map(|head| (head, order)))
                }
                3 if kernel.len() < 512 => {
                    let gfp = Gfp { migrate: Gfp::KERNEL.migrate, ..gfp };
                    // Allocations that may not wait can use up the reserve, so they are made in larger number.
                    for _ in 0..if gfp.wait { 64 } else { 512 } {
                        let page = engine.allocate().allocate_kernel(&mut self.task, gfp, Gauge::NrSlabUnreclaimable);
                        kernel.extend(page);
                    }
                }
                4 => self.read_directly(),
                5 => {
                    for page in kernel.drain(..) {
                        engine.memory().free_kernel(page, Gauge::NrSlabUnreclaimable);
                    }
                }
                6 if sent.len() < 4 => {
                    let bytes = self.rng.below(1 << 18);
                    sent.extend(engine.access().send(&mut self.task, bytes));
                }
                7 if !sent.is_empty() => {
                    let at = self.rng.below(sent.len() as u64) as usize;
                    engine.access().acknowledge(sent.swap_remove(at));
                }
                _ => {
                    if !blocks.is_empty() {
                        let at = self.rng.below(blocks.len() as u64) as usize;
                        let (head, order) = blocks.swap_remove(at);
                        engine.memory().free_block(head, order);
                    }
                }
            }
            if !self.go_on(order.pages().min(64)) {
                break;
            }
        }
        sent.into_iter().for_each(|sent| engine.access().acknowledge(sent));
        for (head, order) in blocks {
            engine.memory().free_block(head, order);
        }
        for page in kernel {
            engine.memory().free_kernel(page, Gauge::NrSlabUnreclaimable);
        }
    }

    fn read_directly(&mut self) {
        let engine = self.shared.engine.clone();
        let pages = 1 + self.rng.below(32) as usize;
        let result = engine.access().direct_buffer(&mut self.task, pages);
        let Some(mut buffer) = self.expect(result) else { return };
        let block = 1 + self.rng.below(4096);
        let read = engine.access().direct_io(Operation::Read, self.shared.file_device, block, &mut buffer, true);
        assert!(read.is_ok() || self.shared.has_faults, "nothing failed, but a task was told: {read:?}");
        engine.access().free_direct_buffer(buffer);
    }

    /// Makes and drops short-lived regions and many small files.
    fn churn(&mut self) {
        let mut empty: Vec<Rc<Store>> = Vec::new();
        loop {
            match self.rng.below(8) {
                0 => {
                    for _ in 0..1 + self.rng.below(128) {
                        empty.extend(self.make_file());
                    }
                }
                1 if self.rng.below(4) == 0 => empty.drain(..).for_each(|file| self.shared.release(&file)),
                _ => {}
            }
            let pages = 1 + self.rng.below(u64::from(self.plan.size_pages)) as u32;
            let store = if self.rng.below(3) == 0 { Some(self.make_region(pages)) } else { self.make_file() };
            let Some(store) = store else {
                if !self.go_on(8) {
                    return;
                }
                continue;
            };
            let is_small = matches!(store.what, What::File(_));
            let count = if is_small { pages.min(4) } else { pages };
            self.write(&store, 0..count, 1);
            if self.rng.below(3) == 0 && store.pages() > 0 {
                let range = self.range(store.pages());
                self.verify(&store, range);
            }
            if !is_small || self.rng.below(4) > 0 {
                self.shared.release(&store);
            }
            if !self.go_on(u64::from(count)) {
                return;
            }
        }
    }

    fn drop_caches(&mut self) {
        loop {
            self.shared.sim.pause(Nanos(self.rng.below(200_000_000)));
            self.shared.engine.access().drop_caches();
            if !self.go_on(self.plan.budget_pages / 16) {
                return;
            }
        }
    }
}
