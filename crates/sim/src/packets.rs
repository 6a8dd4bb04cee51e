//! Packets in the simulated network: their arrival at the network card, and the answers to them.

use crate::clock::{nanos, picos};
use crate::device::network::RoundTrip;
use crate::event::EventKind;
use crate::record::fingerprint::Mark;
use crate::record::trace::Activity;
use crate::world::World;
use machine::{Func, Nanos};

impl World {
    /// Starts sending `count` packets at interval `every`, the first at `first`. The sender does not wait for answers.
    pub(crate) fn send_packets(&self, first: Nanos, every: Nanos, count: u32) {
        let network = self.network.as_ref().expect("the machine has a network card");
        assert!(network.left.get() == 0, "packets are being sent already");
        network.every.set(picos(every));
        network.left.set(count);
        if count > 0 {
            self.push_event(picos(first + Nanos(network.config.wire.0 / 2)), EventKind::Packet);
        }
    }

    /// Puts a packet that arrives at the present time into the card. Returns the CPU to interrupt; `None` if the card
    /// has raised its interrupt already.
    pub(crate) fn packet_arrived(&self) -> Option<usize> {
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
        (!network.is_raised.replace(true)).then_some(network.config.cpu)
    }

    /// Answers all packets that wait in the network card. Called in an interrupt handler.
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
