//! The schedule in which any step may take longer, and any task may give up its CPU.

use super::{Point, Runner, Schedule, Turn};
use crate::clock::picos;
use crate::rng::Rng;
use machine::Nanos;

/// The probabilities with which steps take longer and tasks give up their CPUs, and the longest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Perturb {
    /// Probability, in units of 1/65536, that a step is delayed by a random time of at most [`Self::delay_max`].
    pub delay_chance: u32,
    /// Longest time by which a delayed step takes longer. All times up to this are equally likely.
    pub delay_max: Nanos,
    /// Probability, in units of 1/65536, that a task gives up its CPU at a step. This happens only at steps at which
    /// the task may be preempted.
    pub yield_chance: u32,
}

pub(crate) struct Perturbed {
    perturb: Perturb,
    chance: Rng,
}

impl Perturbed {
    pub(crate) fn new(perturb: Perturb, chance: Rng) -> Self {
        Self { perturb, chance }
    }
}

impl Schedule for Perturbed {
    fn sees_steps(&self) -> bool {
        true
    }

    fn is_by_rank(&self) -> bool {
        false
    }

    fn rank(&mut self) -> u64 {
        0
    }

    fn turn(&mut self, _: Runner, _: Point) -> Turn {
        let Self { perturb, chance } = self;
        let is_delayed = chance.chance(perturb.delay_chance);
        let delay = if is_delayed { chance.below(picos(perturb.delay_max) + 1) } else { 0 };
        Turn { delay, gives_up: chance.chance(perturb.yield_chance), rank: None }
    }

    fn winner(&mut self, waiting: u64) -> u64 {
        self.chance.below(waiting)
    }
}
