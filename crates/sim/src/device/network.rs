//! A network card: packets come in from outside at a steady pace, interrupt a CPU, and are answered.
//!
//! The sender is outside of the machine and does not wait for answers. A packet that finds interrupts off on its CPU
//! waits in the card. When interrupts are on again, the card's handler answers all waiting packets. It runs after the
//! handlers of disks, as soft interrupts do: a CPU that keeps ending requests answers no packet ([`Turn`]).

use machine::Nanos;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Number of the card among the devices that interrupt a CPU. No disk has this number.
pub(crate) const CARD: u8 = u8::MAX;

/// A network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The CPU that takes its interrupts.
    pub cpu: usize,
    /// Time on the wire, there and back together.
    pub wire: Nanos,
    /// Time that the CPU takes for one packet and its answer.
    pub packet: Nanos,
    /// Turn of packets beside the ends of requests.
    pub turn: Turn,
    /// Shortest time without interrupts on that CPU that is kept ([`crate::Sim::off_windows`]).
    pub keep_from: Nanos,
}

/// Turns that packets get on a CPU that also ends requests of disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// Packets have their turn after all completed requests, including those that complete meanwhile.
    #[default]
    AfterDisks,
    /// Packets get a turn after each request.
    AfterRequest,
}

/// A packet's way there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Time at which the packet was sent.
    pub sent: Nanos,
    /// Time at which the answer came back; `None` if it is still under way.
    pub returned: Option<Nanos>,
}

/// A time in which a CPU took no interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffWindow {
    /// Begin of the time.
    pub from: Nanos,
    /// End of the time.
    pub to: Nanos,
}

impl OffWindow {
    /// Returns the length of the time.
    #[must_use]
    pub fn length(self) -> Nanos {
        self.to.since(self.from)
    }
}

/// The card, and the sender of its packets.
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
