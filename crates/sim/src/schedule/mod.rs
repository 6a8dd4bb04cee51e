//! Schedules make all random decisions about the order of CPUs and tasks.
//!
//! Without chance, the machine decides by virtual time: the CPU with the earliest clock continues, and tasks share a
//! CPU by virtual runtime. A [`Schedule`] adds chance: it makes steps longer, makes tasks yield their CPU, draws the
//! winner of a lock, or orders all tasks by rank. Each kind of schedule is a file: `in_time` only draws winners,
//! `perturbed` disturbs steps at random, `pct` ranks tasks, `replay` repeats the decisions of another schedule.
//!
//! Next: `pct`.

mod in_time;
mod pct;
mod perturbed;
mod replay;

pub use pct::Pct;
pub use perturbed::Perturb;
pub use replay::Decisions;

use crate::config::{Config, Interleaving};
use crate::rng::Rng;
use crate::task_id::TaskId;
use std::cell::RefCell;
use std::rc::Rc;

/// Number of the random stream that all kinds of schedule except `pct` use.
const STREAM: u64 = u64::MAX - 1;
/// Number of the random stream that the schedule `pct` uses.
const PCT_STREAM: u64 = u64::MAX - 2;

/// The kinds of points of a run at which a schedule is asked for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// After a step, at a `cond_resched`, or before the task takes a lock or a per-CPU slot.
    Step,
    /// The task waits in a loop for another task to do something.
    Waits,
}

/// The decision of a schedule at one point of a run. By default, the running task continues unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Time by which the step takes longer, ps.
    pub(crate) delay: u64,
    /// `true` if the task is to yield its CPU. It does so only if it may be preempted and another task waits for the
    /// CPU.
    pub(crate) gives_up: bool,
    /// The new rank of the task, if tasks run by rank (the lowest first); `None` if the rank stays.
    pub(crate) rank: Option<u64>,
}

/// The running task or handler about which a schedule decides.
#[derive(Clone, Copy)]
pub(crate) struct Runner {
    /// The running task; `None` if an interrupt handler runs.
    pub(crate) task: Option<TaskId>,
    /// `true` if another task could run but does not, because it has no CPU or is held back by its rank.
    pub(crate) holds_back: bool,
}

/// The source of all random decisions about the order of CPUs and tasks. A run asks its schedule for decisions. The
/// points at which it asks depend only on the earlier decisions, so that a run can be replayed.
pub(crate) trait Schedule {
    /// Returns whether the schedule decides at single steps of tasks and interrupt handlers. If not, [`Schedule::turn`]
    /// need not be called.
    fn sees_steps(&self) -> bool;

    /// Returns whether only one CPU runs at a time. This is the CPU whose task has the lowest rank of all runnable
    /// tasks; a CPU in a handler comes before all others. The clocks of the other CPUs stop, as if a host held back
    /// these virtual CPUs.
    fn is_by_rank(&self) -> bool;

    /// Returns the rank with which a new task begins. A task with a lower rank runs first.
    fn rank(&mut self) -> u64;

    /// Returns the decision about the running task or handler at a point of the run.
    fn turn(&mut self, runner: Runner, at: Point) -> Turn;

    /// Draws the CPU that gets a lock, if a lock is handed over at random. `waiting` CPUs wait for the lock. Returns
    /// the place of the drawn CPU among the waiting CPUs, from 0.
    fn winner(&mut self, waiting: u64) -> u64;
}

/// Returns the schedule of a configuration, and the list to which the schedule adds its decisions. The list is `None`
/// if decisions are not kept.
pub(crate) fn of(config: &Config) -> (Box<dyn Schedule>, Option<Rc<RefCell<Decisions>>>) {
    let schedule: Box<dyn Schedule> = match &config.interleaving {
        Interleaving::InTime => Box::new(in_time::InTime::new(Rng::new(config.seed, STREAM))),
        Interleaving::Perturbed(perturb) => {
            Box::new(perturbed::Perturbed::new(*perturb, Rng::new(config.seed, STREAM)))
        }
        Interleaving::ByPriority(pct) => Box::new(pct::Priorities::new(*pct, Rng::new(config.seed, PCT_STREAM))),
        Interleaving::Replayed(decisions) => Box::new(replay::Replay::new(decisions.clone())),
    };
    if config.keep_decisions {
        let (keeper, decisions) = replay::Keeper::new(schedule);
        return (Box::new(keeper), Some(decisions));
    }
    (schedule, None)
}
