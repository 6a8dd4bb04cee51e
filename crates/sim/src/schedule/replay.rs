//! The recorded decisions of a schedule, and their replay.

use super::{Point, Runner, Schedule, Turn};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The decisions of a schedule in one run. Decisions that change nothing are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    is_by_rank: bool,
    sees_steps: bool,
    /// The decisions other than "change nothing". Each comes with the number of the question that it answers: the
    /// schedule is asked again and again, and the questions are counted from 0.
    answers: Vec<(u64, Answer)>,
}

impl Decisions {
    /// Returns the number of decisions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Returns whether there are no decisions: whenever the schedule was asked, it decided to continue unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Rank(u64),
    Turn(Turn),
    Winner(u64),
}

/// A schedule that lets another schedule decide, and records the decisions.
pub(crate) struct Keeper {
    schedule: Box<dyn Schedule>,
    questions: u64,
    kept: Rc<RefCell<Decisions>>,
}

impl Keeper {
    pub(crate) fn new(schedule: Box<dyn Schedule>) -> (Self, Rc<RefCell<Decisions>>) {
        let (is_by_rank, sees_steps) = (schedule.is_by_rank(), schedule.sees_steps());
        let kept = Rc::new(RefCell::new(Decisions { is_by_rank, sees_steps, answers: Vec::new() }));
        (Self { schedule, questions: 0, kept: Rc::clone(&kept) }, kept)
    }

    fn keep(&mut self, answer: Answer) {
        if !matches!(answer, Answer::Turn(turn) if turn == Turn::default()) {
            self.kept.borrow_mut().answers.push((self.questions, answer));
        }
        self.questions += 1;
    }
}

impl Schedule for Keeper {
    fn sees_steps(&self) -> bool {
        self.schedule.sees_steps()
    }

    fn is_by_rank(&self) -> bool {
        self.schedule.is_by_rank()
    }

    fn rank(&mut self) -> u64 {
        let rank = self.schedule.rank();
        self.keep(Answer::Rank(rank));
        rank
    }

    fn turn(&mut self, runner: Runner, at: Point) -> Turn {
        let turn = self.schedule.turn(runner, at);
        self.keep(Answer::Turn(turn));
        turn
    }

    fn winner(&mut self, waiting: u64) -> u64 {
        let winner = self.schedule.winner(waiting);
        self.keep(Answer::Winner(winner));
        winner
    }
}

/// A schedule that repeats recorded decisions.
pub(crate) struct Replay {
    decisions: Arc<Decisions>,
    questions: u64,
    next: usize,
}

impl Replay {
    pub(crate) fn new(decisions: Arc<Decisions>) -> Self {
        Self { decisions, questions: 0, next: 0 }
    }

    fn answer(&mut self) -> Option<Answer> {
        let number = self.questions;
        self.questions += 1;
        let (_, answer) = self.decisions.answers.get(self.next).filter(|(question, _)| *question == number)?;
        self.next += 1;
        Some(*answer)
    }
}

const OTHER_RUN: &str = "these decisions are of another run: they answer another question";

impl Schedule for Replay {
    fn sees_steps(&self) -> bool {
        self.decisions.sees_steps
    }

    fn is_by_rank(&self) -> bool {
        self.decisions.is_by_rank
    }

    fn rank(&mut self) -> u64 {
        let Some(Answer::Rank(rank)) = self.answer() else { panic!("{OTHER_RUN}") };
        rank
    }

    fn turn(&mut self, _: Runner, _: Point) -> Turn {
        match self.answer() {
            None => Turn::default(),
            Some(Answer::Turn(turn)) => turn,
            Some(_) => panic!("{OTHER_RUN}"),
        }
    }

    fn winner(&mut self, _: u64) -> u64 {
        let Some(Answer::Winner(winner)) = self.answer() else { panic!("{OTHER_RUN}") };
        winner
    }
}
