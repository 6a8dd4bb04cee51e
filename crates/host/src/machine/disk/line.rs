//! The line of a device: reads that no thread waits for, because futures want them. A thread that submits a request to a
//! full queue sleeps until a place is free; a future must not. So its reads have places of their own, and without a free
//! place they stand in line. The end of a read starts the next one.

use super::backend::Transfer;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// The reads of futures on one device: those in flight, and those that wait for a place.
pub(super) struct Line {
    /// Largest number of reads in flight.
    depth: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_flight: u32,
    waiting: VecDeque<Transfer>,
    /// `true` while a thread starts reads. A read may end while it is being started, and its end would then start the next
    /// one. With this mark, only the first of these calls starts reads, one after the other.
    is_starting: bool,
}

impl Line {
    pub(super) fn new(depth: u32) -> Self {
        Self { depth, state: Mutex::default() }
    }

    /// Starts a read, or lets it wait until another one has ended. Does not sleep.
    pub(super) fn start(&self, mut transfer: Transfer) {
        transfer.stand_in_line();
        self.state.lock().waiting.push_back(transfer);
        self.start_waiting();
    }

    /// Notes that a read has ended, and starts the next one.
    pub(super) fn end_one(&self) {
        {
            let mut state = self.state.lock();
            state.in_flight = state.in_flight.checked_sub(1).expect("each read of a line ends once");
            if state.waiting.is_empty() {
                return;
            }
        }
        self.start_waiting();
    }

    fn start_waiting(&self) {
        let mut state = self.state.lock();
        if state.is_starting {
            return;
        }
        state.is_starting = true;
        while state.in_flight < self.depth
            && let Some(transfer) = state.waiting.pop_front()
        {
            state.in_flight += 1;
            drop(state);
            transfer.backend().start(transfer);
            state = self.state.lock();
        }
        state.is_starting = false;
    }
}
