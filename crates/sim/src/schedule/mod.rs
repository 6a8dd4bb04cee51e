//! The trait for all chance in the order of CPUs and tasks.
//!
//! The machine decides by virtual time: the CPU with the earliest clock goes on, and tasks share a CPU by virtual
//! runtime. A [`Schedule`] adds chance: longer steps, tasks that yield their CPU, the winner of a lock, or an order of
//! all tasks by rank. Each form is a file: `in_time` only draws winners, `perturbed` disturbs at random, `pct` ranks
//! tasks, `replay` repeats the decisions of another schedule.
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

/// Number of the generator that every form but `pct` draws from.
const STREAM: u64 = u64::MAX - 1;
/// Number of the generator of `pct`.
const PCT_STREAM: u64 = u64::MAX - 2;

/// The kind of point at which a schedule is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// After a step, or before the task takes a lock or a per-CPU slot.
    Step,
    /// The task waits in a loop until another task has done something.
    Waits,
}

/// The answer of a schedule at a point. The default is to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Additional time of the step, ps.
    pub(crate) delay: u64,
    /// Whether the task yields its CPU, if it may and another task waits for it.
    pub(crate) gives_up: bool,
    /// The task has this rank from now on.
    pub(crate) rank: Option<u64>,
}

/// The task, or the handler, that is at a point.
#[derive(Clone, Copy)]
pub(crate) struct Runner {
    /// The task; none in a handler.
    pub(crate) task: Option<TaskId>,
    /// Whether another task could run, except for ranks or for lack of a CPU.
    pub(crate) holds_back: bool,
}

/// Source of chance in the order of CPUs and tasks. The questions of a run depend only on the answers.
pub(crate) trait Schedule {
    /// Returns whether [`Schedule::turn`] is to be asked at each point.
    fn sees_steps(&self) -> bool;

    /// Returns whether only one CPU runs at a time: the one whose task has the lowest rank among runnable tasks. Clocks
    /// of the other CPUs stop, like virtual CPUs that their host holds back. Handlers go first.
    fn is_by_rank(&self) -> bool;

    /// Returns the rank of a new task.
    fn rank(&mut self) -> u64;

    /// Returns the decision at a point.
    fn turn(&mut self, runner: Runner, at: Point) -> Turn;

    /// Returns which of the `waiting` CPUs gets an unfair lock.
    fn winner(&mut self, waiting: u64) -> u64;
}

/// Returns the schedule of a configuration, and where its decisions go if they are kept.
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
