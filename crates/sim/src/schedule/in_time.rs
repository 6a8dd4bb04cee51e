//! The schedule in which virtual time, and not chance, decides the order of CPUs and tasks. There is one exception:
//! with random lock fairness, the CPU that gets a contended lock is drawn.

use super::{Point, Runner, Schedule, Turn};
use crate::rng::Rng;

pub(crate) struct InTime(Rng);

impl InTime {
    pub(crate) fn new(chance: Rng) -> Self {
        Self(chance)
    }
}

impl Schedule for InTime {
    fn sees_steps(&self) -> bool {
        false
    }

    fn is_by_rank(&self) -> bool {
        false
    }

    fn rank(&mut self) -> u64 {
        0
    }

    fn turn(&mut self, _: Runner, _: Point) -> Turn {
        Turn::default()
    }

    fn winner(&mut self, waiting: u64) -> u64 {
        self.0.below(waiting)
    }
}
