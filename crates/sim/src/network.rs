//! A network card: packets come in from outside at a steady pace, interrupt a CPU, and are answered.
//!
//! The sender is outside of the machine and waits for no answer. A packet that finds its CPU with interrupts off waits
//! in the card; when they are on again the card's handler answers all that wait. It runs behind those of the disks, as
//! soft interrupts do: a CPU that goes on ending requests answers nobody ([`Turn`]).

use crate::clock::{nanos, picos};
use crate::fingerprint::Mark;
use crate::trace::Activity;
use crate::world::{EventKind, World};
use machine::{Func, Nanos};
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
    trips: RefCell<Vec<RoundTrip>>,
    /// Packets in the card, by number.
    waiting: RefCell<VecDeque<usize>>,
    is_raised: Cell<bool>,
    /// Time between two packets, and how many are still to come.
    every: Cell<u64>,
    left: Cell<u32>,
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

impl World {
    /// Has `count` packets sent from `first` on, one `every` so often.
    pub(crate) fn send_packets(&self, first: Nanos, every: Nanos, count: u32) {
        let network = self.network.as_ref().expect("the machine has a network card");
        assert!(network.left.get() == 0, "packets are being sent already");
        network.every.set(picos(every));
        network.left.set(count);
        if count > 0 {
            self.push_event(picos(first + Nanos(network.config.wire.0 / 2)), EventKind::Packet);
        }
    }

    /// A packet is in the card, at the present time.
    pub(crate) fn packet_arrived(&self) {
        let network = self.network.as_ref().expect("packets come to a card");
        let sent = nanos(self.clock.get() - picos(Nanos(network.config.wire.0 / 2)));
        let number = {
            let mut trips = network.trips.borrow_mut();
            trips.push(RoundTrip { sent, returned: None });
            trips.len() - 1
        };
        network.waiting.borrow_mut().push_back(number);
        network.left.set(network.left.get() - 1);
        if network.left.get() > 0 {
            self.push_event(self.clock.get() + network.every.get(), EventKind::Packet);
        }
        if !network.is_raised.replace(true) {
            self.raise_interrupt(network.config.cpu, CARD);
        }
    }

    /// In a handler: answers the packets that wait.
    pub(crate) fn answer_packets(&self) {
        let network = self.network.as_ref().expect("packets come to a card");
        network.is_raised.set(false);
        self.within(Func::NetRxAction, || {
            loop {
                let number = network.waiting.borrow_mut().pop_front();
                let Some(number) = number else { return };
                self.spend_picos(picos(network.config.packet));
                let wire = network.config.wire;
                let returned = nanos(self.clock.get()) + Nanos(wire.0 - wire.0 / 2);
                let trip = &mut network.trips.borrow_mut()[number];
                trip.returned = Some(returned);
                let arrived = picos(trip.sent + Nanos(wire.0 / 2));
                self.note(arrived, self.clock.get(), || Activity::Packet { number });
                self.fingerprint.mix(Mark::Packet, self.clock.get(), number as u64);
            }
        });
    }
}
