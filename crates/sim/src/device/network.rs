//! A network card: packets arrive from outside at a steady pace, interrupt a CPU, and are answered.
//!
//! The sender is outside of the machine and does not wait for answers. If interrupts are off on the card's CPU, a
//! packet waits in the card. When interrupts are on again, the card's handler answers all waiting packets. It runs
//! after the handlers of disks, as soft interrupts do. So a CPU that keeps ending disk requests answers no packet,
//! unless [`Turn`] says otherwise.

use machine::Nanos;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Number that stands for the network card among the devices that interrupt a CPU. No disk has this number.
pub(crate) const CARD: u8 = u8::MAX;

/// The configuration of a simulated network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The CPU that takes the card's interrupts.
    pub cpu: usize,
    /// Time that a packet and its answer spend on the wire; the sum of both ways.
    pub wire: Nanos,
    /// Time that the CPU takes for one packet and its answer.
    pub packet: Nanos,
    /// The order in which the card's CPU answers packets and ends disk requests, if it does both.
    pub turn: Turn,
    /// A period with interrupts off, on the CPU that takes the card's interrupts, is recorded if it is at least this
    /// long. [`crate::Sim::off_windows`] returns the recorded periods.
    pub keep_from: Nanos,
}

/// The order in which a CPU answers packets and ends disk requests, if the same CPU does both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// Packets are answered after all completed disk requests, including requests that complete while the handler runs.
    #[default]
    AfterDisks,
    /// Packets are answered each time that the handler has ended a disk command. This applies to disks with a
    /// `command_depth`.
    AfterRequest,
}

/// A packet, from its sending to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Time at which the packet was sent.
    pub sent: Nanos,
    /// Time at which the answer came back; `None` if it has not come back yet.
    pub returned: Option<Nanos>,
}

/// A period in which a CPU took no interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffWindow {
    /// Begin of the period in which the CPU took no interrupts.
    pub from: Nanos,
    /// End of the period in which the CPU took no interrupts.
    pub to: Nanos,
}

impl OffWindow {
    /// Returns the time for which the CPU took no interrupts.
    #[must_use]
    pub fn length(self) -> Nanos {
        self.to.since(self.from)
    }
}

/// The state of the network card, and of the other computer that sends packets to it.
pub(crate) struct Network {
    pub(crate) config: NetworkConfig,
    pub(crate) trips: RefCell<Vec<RoundTrip>>,
    /// Numbers of the packets that wait in the card.
    pub(crate) waiting: RefCell<VecDeque<usize>>,
    pub(crate) is_raised: Cell<bool>,
    /// Time between two packets, ps.
    pub(crate) every: Cell<u64>,
    /// Number of packets that are still to come.
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
