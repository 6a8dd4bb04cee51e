//! Write-ahead logging in a random world: each write of a whole file has a record in a log, and gives its page the
//! record's number, or holds the page until the record is durable. The log becomes durable from time to time. Before it
//! does, no stamp of a later record may be on a disk.

use super::Shared;
use super::chance::log_between;
use engine::Engine;
use engine::page_cache::{File, Log as Durable};
use machine::{Machine, Nanos};
use sim::{Rng, Sim, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Draws whether the writes of a world are logged, and the interval at which the log becomes durable. Returns `None` if
/// they are not, or if the world runs a workload. The draw has its own random stream, so that it does not change the other
/// properties of worlds.
pub(super) fn draw(seed: u64, is_workload: bool) -> Option<Nanos> {
    let mut rng = Rng::new(seed, u64::MAX - 36);
    let is_logged = rng.below(4) == 0 && !is_workload;
    is_logged.then(|| Nanos(log_between(&mut rng, 20_000, 200_000_000)))
}

/// A record of the log that is not durable yet: the stamp that a page of a file is about to get.
struct Record {
    file: Arc<File<Sim>>,
    page: u32,
    stamp: [u8; 8],
    /// Whether the page is held and has no number.
    is_held: bool,
}

/// The log of a world.
#[derive(Default)]
pub(super) struct Log {
    /// The records that are not durable, the oldest first.
    records: RefCell<VecDeque<Record>>,
    durable: Cell<u64>,
    /// Draws which pages are held; `None` in half of the worlds, in which none is.
    holds: Option<RefCell<Rng>>,
    /// The engine's log of all files; `None` in half of the worlds, in which each file has its own.
    of_all: Option<Arc<Durable<Sim>>>,
}

impl Log {
    /// Creates the empty log of the world with the seed `seed`.
    pub fn new(seed: u64, engine: &Engine<Sim>) -> Self {
        let is_of_all = Rng::new(seed, u64::MAX - 38).below(2) == 0;
        let mut holds = Rng::new(seed, u64::MAX - 40);
        let holds = (holds.below(2) == 0).then(|| RefCell::new(holds));
        Self { of_all: is_of_all.then(|| engine.access().create_log()), holds, ..Self::default() }
    }

    /// Adds a record: page `page` of `file` is about to get the stamp `stamp`. Gives the page the record's number, or holds
    /// the page.
    pub fn add(&self, shared: &Shared, file: &Arc<File<Sim>>, page: u32, stamp: u64) {
        let access = shared.engine.access();
        // Other tasks may run during calls of the engine, and use the log.
        if let Some(log) = &self.of_all {
            assert!(access.set_log(file, log), "file {} has another log", file.id);
        }
        let is_to_be_held = self.holds.as_ref().is_some_and(|rng| rng.borrow_mut().below(4) == 0);
        let is_held = is_to_be_held && access.hold_page(file, page);
        let number = {
            let mut records = self.records.borrow_mut();
            records.push_back(Record { file: file.clone(), page, stamp: stamp.to_le_bytes(), is_held });
            self.durable.get() + records.len() as u64
        };
        if !is_held {
            access.raise_log_number(file, page, number);
        }
    }

    /// Checks that no stamp of a record that is not durable is on its disk, or on the way there.
    ///
    /// # Panics
    /// When one is.
    fn check(&self, sim: &Sim) {
        for (n, Record { file, page, stamp, .. }) in (1..).zip(self.records.borrow().iter()) {
            let is_early = file.block(*page).is_some_and(|block| sim.has_stamp(file.device, block, *stamp));
            let (number, durable) = (self.durable.get() + n, self.durable.get());
            assert!(
                !is_early,
                "page {page} of file {} was written before record {number}; durable: {durable}",
                file.id
            );
        }
    }

    /// Makes all records durable that exist, and tells the engine.
    fn make_durable(&self, shared: &Shared) {
        let records = self.records.take();
        self.durable.set(self.durable.get() + records.len() as u64);
        let access = shared.engine.access();
        // Other tasks may run during the calls. They may make files, and add records.
        if let Some(log) = &self.of_all {
            access.note_log_durable(log, self.durable.get());
        } else {
            let files: Vec<_> = shared.live.borrow().values().filter_map(|store| store.what.file().cloned()).collect();
            files.iter().for_each(|file| access.note_log_durable(&access.log_of(file), self.durable.get()));
        }
        for Record { file, page, .. } in records.into_iter().filter(|record| record.is_held) {
            let has_later = self.records.borrow().iter().any(|later| later.file.id == file.id && later.page == page);
            if !has_later {
                access.release_page(&file, page);
            }
        }
    }
}

/// Starts the task that makes the log durable, if the world has one. The task ends when it is killed, and makes everything
/// durable then.
pub(super) fn start(shared: &Rc<Shared>, interval: Nanos) -> TaskId {
    let shared = shared.clone();
    shared.sim.clone().spawn("log", move || {
        let log = shared.log.as_ref().expect("the world has a log");
        loop {
            shared.sim.pause(interval);
            log.check(&shared.sim);
            log.make_durable(&shared);
            if shared.sim.is_killed() {
                return;
            }
        }
    })
}
