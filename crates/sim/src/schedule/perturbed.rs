//! Any step may take longer, and any task may give up its CPU.

use super::{Point, Runner, Schedule, Turn};
use crate::clock::picos;
use crate::rng::Rng;
use machine::Nanos;

/// The disturbance of steps and locks in a swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Perturb {
    /// Chance out of 65536 that a step takes longer.
    pub delay_chance: u32,
    /// Longest delay; each length up to it is equally likely.
    pub delay_max: Nanos,
    /// Chance out of 65536 that the task gives up its CPU, where it may.
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
