//! A network card: packets come in from outside at a steady pace, interrupt a CPU, and are answered.
//!
//! The sender is outside of the machine and waits for no answer. A packet that finds its CPU with interrupts off waits
//! in the card; when they are on again the card's handler answers all that wait. It runs behind those of the disks, as
//! soft interrupts do: a CPU that goes on ending requests answers nobody ([`Turn`]).

use machine::Nanos;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The card among what interrupts a CPU: no disk has this number.
pub(crate) const CARD: u8 = u8::MAX;

/// A network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The CPU that takes its interrupts.
    pub cpu: usize,
    /// Time on the wire, there and back together.
    pub wire: Nanos,
    /// Time that the CPU takes for one packet, from the card's memory to the answer in it.
    pub packet: Nanos,
    /// When packets get their turn beside the ends of requests.
    pub turn: Turn,
    /// Times without interrupts on that CPU that were at least as long are kept ([`crate::Sim::off_windows`]).
    pub keep_from: Nanos,
}

/// When do packets get their turn on a CPU that also ends requests of disks?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// After all requests that are found complete, those too that complete meanwhile.
    #[default]
    AfterDisks,
    /// After each request.
    AfterRequest,
}

/// A packet's way there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// When it was sent.
    pub sent: Nanos,
    /// When its answer was back; none if it is still under way.
    pub returned: Option<Nanos>,
}

/// A time in which a CPU took no interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffWindow {
    /// Its begin.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
}

impl OffWindow {
    /// How long it was.
    #[must_use]
    pub fn length(self) -> Nanos {
        self.to.since(self.from)
    }
}

/// The card, and who sends to it.
pub(crate) struct Network {
    pub(crate) config: NetworkConfig,
    pub(crate) trips: RefCell<Vec<RoundTrip>>,
    /// Packets in the card, by number.
    pub(crate) waiting: RefCell<VecDeque<usize>>,
    pub(crate) is_raised: Cell<bool>,
    /// Time between two packets, and how many are still to come.
    pub(crate) every: Cell<u64>,
    pub(crate) left: Cell<u32>,
}

impl Network {
    pub(crate) fn new(config: NetworkConfig) -> Self {
        Self {
            config,
            trips: RefCell::default(),
            waiting: RefCell::default(),
            is_raised: Cell::new(false),
            every: Cell::new(0),
            left: Cell::new(0),
        }
    }

    pub(crate) fn round_trips(&self) -> Vec<RoundTrip> {
        self.trips.borrow().clone()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }
}
