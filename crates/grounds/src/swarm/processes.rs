//! Processes of a random world, among which the out-of-memory killer chooses. Each task of such a world has its own
//! process, to which its anonymous memory belongs.

use super::chance::pick;
use engine::anonymous::Process;
use engine::{Engine, KernelTask};
use sim::{Rng, Sim, TaskId};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Values from which the `oom_score_adj` of each process is drawn.
const ADJUSTS: [i16; 6] = [Process::NEVER, -500, 0, 0, 0, Process::FIRST];

/// Draws whether the tasks of a simulated world are processes. Returns `false` if the world runs a workload. The draw
/// has its own random stream, so that it does not change the other properties of worlds.
pub(super) fn draw(seed: u64, is_workload: bool) -> bool {
    Rng::new(seed, u64::MAX - 34).below(4) == 0 && !is_workload
}

/// The numbers of a world's processes, each with the task of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks(Rc<RefCell<Vec<(u32, TaskId)>>>);

impl Tasks {
    /// Makes the simulator end the task of a process when the process is killed, and starts the out-of-memory reaper.
    /// Returns the task of the reaper.
    pub fn begin(&self, sim: &Sim, engine: &Rc<Engine<Sim>>) -> TaskId {
        let (tasks, world) = (self.0.clone(), sim.clone());
        sim.on_kill_process(move |process| {
            let killed = tasks.borrow().iter().find(|(of, _)| *of == process).map(|(_, task)| *task);
            killed.into_iter().for_each(|task| world.kill(task));
        });
        let (engine, reaper) = (engine.clone(), KernelTask::OomReaper);
        sim.spawn(&reaper.name(), move || engine.run(reaper))
    }

    /// Notes that `task` is the task of `process`.
    pub fn add(&self, process: &Process, task: TaskId) {
        self.0.borrow_mut().push((process.id.0, task));
    }
}

/// Creates the process of a task. The process's `oom_score_adj` is drawn from the world's seed and the task's number.
pub(super) fn create(engine: &Engine<Sim>, name: &str, seed: u64, number: u64) -> Arc<Process> {
    let process = engine.anonymous().create_process(name, engine::memory::GroupId::ROOT);
    process.set_oom_score_adj(pick(&mut Rng::new(seed, u64::MAX - 300 - number), &ADJUSTS));
    process
}
