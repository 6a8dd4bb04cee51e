//! Probabilistic concurrency testing (PCT): tasks run in a random order that changes at a few random steps.
//!
//! Each task draws a priority, and only the runnable task with the highest priority runs. At each of `depth` - 1 steps,
//! drawn from the first `steps` of the run, the running task falls to a priority below all drawn ones. A bug that needs
//! `depth` orderings of steps is then found with probability at least 1 / (*tasks* × `steps`^(`depth` - 1)), whatever
//! else the run does (Burckhardt, Kothari, Musuvathi, Nagarakatte, "A Randomized Scheduler with Probabilistic
//! Guarantees of Finding Bugs", ASPLOS 2010, algorithm 1).
//!
//! Two rules are added, because tasks of a machine wait in loops. First, a task that waits in a loop (`Machine::relax`)
//! falls to the lowest priority. Second, a task falls to the lowest priority after each `patience` steps that it took
//! while another task could run. These steps are counted even if the task slept or other tasks ran in between.
//! Otherwise two tasks that take turns would keep a third from running for ever.

use super::{Point, Runner, Schedule, Turn};
use crate::rng::Rng;
use crate::task_id::TaskId;

/// Parameters of a schedule by random priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pct {
    /// Largest number of steps, at least 1, on whose order a bug may depend. Such a bug is found with a known
    /// probability. The order of tasks changes at `depth` - 1 steps.
    pub depth: u32,
    /// Length of the first part of the run, in steps; at least 1. The steps at which the order of tasks changes are
    /// drawn from this part. The best value is the number of steps of the whole run.
    pub steps: u64,
    /// Number of steps that a task may take while another task could run, before it falls to the lowest priority.
    pub patience: u64,
}

/// A rank between those of new tasks, which are lower, and those of tasks that the schedule has moved to a low
/// priority, which are higher. A low rank is a high priority.
const FALLEN: u64 = 1 << 63;

pub(crate) struct Priorities {
    patience: u64,
    chance: Rng,
    /// The steps at which the order of tasks is still to change, each with the rank that the running task gets at this
    /// step. The earliest step is last.
    changes: Vec<(u64, u64)>,
    /// The rank of the task that was the last to fall to the lowest priority. The next task that falls gets a higher
    /// rank, which is a still lower priority.
    lowest: u64,
    /// Number of steps that tasks have taken so far.
    steps: u64,
    /// For each task, the number of steps that it has taken while another task could run. The number starts again at 0
    /// when it exceeds `patience`.
    gone_on: Vec<u64>,
}

impl Priorities {
    /// Creates the schedule. The generator `chance` draws the numbers of the steps at which the order of tasks changes.
    ///
    /// # Panics
    /// When `depth` or `steps` is 0.
    pub(crate) fn new(pct: Pct, mut chance: Rng) -> Self {
        assert!(pct.depth > 0, "a bug needs an ordering of steps, or it is not one of the schedule");
        let depth = u64::from(pct.depth);
        // Change number `i` gives priority `i`. So change number 1 gives the lowest priority, whether it comes early or
        // late.
        let mut changes: Vec<_> =
            (1..depth).map(|number| (1 + chance.below(pct.steps), FALLEN + depth - number)).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        let lowest = FALLEN + depth;
        Self { patience: pct.patience, chance, changes, lowest, steps: 0, gone_on: Vec::new() }
    }

    fn fall_below_all(&mut self) -> u64 {
        self.lowest += 1;
        self.lowest
    }

    /// Counts a step of a task if another task could run (`holds_back`). Returns whether the task has now taken more
    /// than `patience` such steps. If it has, its count starts again at 0.
    fn is_spent(&mut self, task: TaskId, holds_back: bool) -> bool {
        let number = task.0 as usize;
        if self.gone_on.len() <= number {
            self.gone_on.resize(number + 1, 0);
        }
        let gone_on = &mut self.gone_on[number];
        *gone_on += u64::from(holds_back);
        let is_spent = *gone_on > self.patience;
        if is_spent {
            *gone_on = 0;
        }
        is_spent
    }
}

impl Schedule for Priorities {
    fn sees_steps(&self) -> bool {
        true
    }

    fn is_by_rank(&self) -> bool {
        true
    }

    fn rank(&mut self) -> u64 {
        1 + self.chance.below(FALLEN - 1)
    }

    fn turn(&mut self, runner: Runner, at: Point) -> Turn {
        let Some(task) = runner.task else { return Turn::default() };
        self.steps += 1;
        let is_spent = self.is_spent(task, runner.holds_back);
        let mut rank = None;
        while let Some((_, lower)) = self.changes.pop_if(|(step, _)| *step <= self.steps) {
            rank = Some(lower);
        }
        if at == Point::Waits || is_spent {
            rank = Some(self.fall_below_all());
        }
        Turn { rank, ..Turn::default() }
    }

    fn winner(&mut self, waiting: u64) -> u64 {
        self.chance.below(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Runner = Runner { task: Some(TaskId(0)), holds_back: true };

    fn priorities(depth: u32, steps: u64, patience: u64) -> Priorities {
        Priorities::new(Pct { depth, steps, patience }, Rng::new(1, 0))
    }

    /// Lets the schedule `of` decide at each of `steps` steps of one running task. Returns the numbers of the steps at
    /// which it gives the task a new rank, each with this rank minus [`FALLEN`].
    fn falls(of: &mut Priorities, steps: u64, at: Point) -> Vec<(u64, u64)> {
        (1..=steps).filter_map(|step| of.turn(RUNS, at).rank.map(|rank| (step, rank - FALLEN))).collect()
    }

    #[test]
    fn the_order_changes_at_one_step_less_than_the_depth() {
        assert_eq!(falls(&mut priorities(1, 100, u64::MAX), 200, Point::Step), []);
        let mut seen = falls(&mut priorities(4, 1 << 30, u64::MAX), 100, Point::Step);
        assert_eq!(seen, []);
        seen = falls(&mut priorities(4, 1000, u64::MAX), 1000, Point::Step);
        let mut ranks: Vec<u64> = seen.iter().map(|(_, rank)| *rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [1, 2, 3], "{seen:?}");
    }

    #[test]
    fn every_rank_that_is_drawn_is_above_those_that_have_fallen() {
        let mut drawn = priorities(3, 100, 10);
        assert!((0..1000).all(|_| (1..FALLEN).contains(&drawn.rank())));
    }

    #[test]
    fn who_waits_or_goes_on_too_long_falls_below_all() {
        assert_eq!(falls(&mut priorities(2, 1 << 40, 3), 9, Point::Step), [(4, 3), (8, 4)]);
        assert_eq!(falls(&mut priorities(2, 1 << 40, u64::MAX), 2, Point::Waits), [(1, 3), (2, 4)]);
    }

    #[test]
    fn tasks_that_take_turns_fall_too() {
        let of = &mut priorities(1, 1 << 40, 3);
        let takes_turns = (0..8).map(|step| Runner { task: Some(TaskId(step % 2)), holds_back: true });
        let falls: Vec<_> = takes_turns.map(|runner| of.turn(runner, Point::Step).rank.is_some()).collect();
        assert_eq!(falls, [false, false, false, false, false, false, true, true]);
    }

    #[test]
    fn a_handler_takes_no_step() {
        let mut priorities = priorities(2, 1, u64::MAX);
        assert_eq!(priorities.turn(Runner { task: None, holds_back: true }, Point::Step), Turn::default());
        assert_eq!(falls(&mut priorities, 1, Point::Step), [(1, 1)]);
    }
}
