//! The queue of future events. The event with the earliest time comes first.

use crate::wait_queue::Sleeper;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The kind of an event: what happens when it is due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The time has come at which a sleep ends.
    Timer(Sleeper),
    /// A device has work that is due.
    Device(u8),
    /// A packet reaches the network card.
    Packet,
    /// The time slice of the task on a CPU ends.
    Slice(u16),
    /// The main task has returned, and the time limit for the return of the other tasks is reached.
    ShutdownLimit,
    /// The time limit of the run is reached.
    TimeLimit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time: u64,
    number: u64,
    pub(crate) kind: EventKind,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The events that are still to come.
pub(crate) struct Events {
    queue: RefCell<BinaryHeap<Reverse<Event>>>,
    made: Cell<u64>,
    next: Cell<u64>,
}

impl Default for Events {
    fn default() -> Self {
        Self { queue: RefCell::default(), made: Cell::new(0), next: Cell::new(u64::MAX) }
    }
}

impl Events {
    /// Returns the time of the earliest event; `u64::MAX` if there is no event.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.get()
    }

    /// Adds an event. Returns whether it is earlier than all others.
    pub(crate) fn push(&self, time: u64, kind: EventKind) -> bool {
        let number = self.made.get();
        self.made.set(number + 1);
        self.queue.borrow_mut().push(Reverse(Event { time, number, kind }));
        let is_earliest = time < self.next.get();
        if is_earliest {
            self.next.set(time);
        }
        is_earliest
    }

    /// Takes the earliest event.
    ///
    /// # Panics
    /// When there is no event.
    pub(crate) fn pop(&self) -> Event {
        let mut queue = self.queue.borrow_mut();
        let Reverse(event) = queue.pop().expect("`next` is the time of an event");
        self.next.set(queue.peek().map_or(u64::MAX, |Reverse(next)| next.time));
        event
    }
}
