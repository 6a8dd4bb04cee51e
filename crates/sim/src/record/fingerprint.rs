//! The fingerprint of a run: a hash of all events, in order. Equal runs have equal fingerprints.

use std::cell::Cell;

/// The kind of event that is mixed into the fingerprint.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Mark {
    Event = 1,
    Switch,
    Idle,
    HandOver,
    Wake,
    Sleep,
    Interrupt,
    InterruptEnd,
    Submit,
    Spawn,
    End,
    Lab,
    Packet,
}

/// A running hash of events and states. Equal runs end with equal hashes.
pub(crate) struct Fingerprint(Cell<u64>);

impl Fingerprint {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed ^ 0x6a09_e667_f3bc_c908))
    }

    #[inline]
    pub(crate) fn mix(&self, mark: Mark, time: u64, id: u64) {
        let mixed = step(self.0.get(), time ^ (mark as u64) << 56);
        self.0.set(step(mixed, id));
    }

    pub(crate) fn get(&self) -> u64 {
        let mut hash = self.0.get();
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^ hash >> 32
    }
}

#[inline]
fn step(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
