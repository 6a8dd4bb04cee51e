//! Wait queues, in which threads sleep until they are woken.
//!
//! A *ticket* is the number of wakes so far. A sleeper puts itself on the queue's list, checks that the number still
//! equals its ticket, and parks. A waker raises the number, and then checks the list for sleepers. All these accesses
//! are sequentially consistent, so either the sleeper sees the new number or the waker sees the sleeper. A wake without
//! sleepers is one addition and one load.
//!
//! A sleeper sleeps by `thread::park`, and wakes and kills both unpark it. An unpark that was meant for something else
//! only makes the sleeper check the number again. A late waker, which raised the number before the sleeper took its
//! ticket and checked the list afterwards, has only this effect, too. Therefore a sleeper stays on the list until it
//! takes itself off.
//!
//! A woken sleeper is marked on the list and not counted any more. The next wake then goes to another sleeper, or costs
//! as little as a wake without sleepers. The mark is cleared if the sleeper checks again and continues to sleep.
//!
//! A waker unparks sleepers only after it has released the list's lock. Otherwise a woken thread might run in the
//! waker's place, and other wakers would wait for the lock.

use super::task;
use machine::{Nanos, Ticket};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A queue in which threads wait for a wake.
#[derive(Debug, Default)]
pub struct WaitQueue {
    /// Number of wakes so far.
    wakes: AtomicU64,
    /// Number of sleepers on the list that have not been woken.
    asleep: AtomicU32,
    /// Sleepers in order of arrival.
    sleepers: Mutex<VecDeque<Sleeper>>,
}

#[derive(Debug)]
struct Sleeper {
    thread: Thread,
    /// True from the moment at which the sleeper is woken until it has noticed this.
    is_woken: bool,
}

/// The threads that one wake unparks. In most cases there is one, such as kswapd or the waiter for a page.
type Woken = SmallVec<[Thread; 4]>;

impl WaitQueue {
    #[inline]
    pub(super) fn ticket(&self) -> Ticket {
        Ticket(self.wakes.load(Ordering::SeqCst))
    }

    #[inline]
    pub(super) fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake_up_to(usize::MAX);
        }
    }

    /// Wakes up to `most` sleepers that were not woken yet. Sleepers that have waited longest are woken first.
    #[cold]
    fn wake_up_to(&self, most: usize) {
        let woken: Woken = {
            let mut list = self.sleepers.lock();
            let asleep = list.iter_mut().filter(|sleeper| !sleeper.is_woken).take(most);
            let woken: Woken = asleep
                .map(|sleeper| {
                    sleeper.is_woken = true;
                    sleeper.thread.clone()
                })
                .collect();
            self.asleep.fetch_sub(woken.len() as u32, Ordering::SeqCst);
            woken
        };
        woken.iter().for_each(Thread::unpark);
    }

    /// Wakes the sleeper that has waited longest; see [`machine::Machine::wake_first`].
    #[inline]
    pub(super) fn wake_first(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake_up_to(1);
        }
    }

    /// Sleeps as [`machine::Machine::sleep`] does. `deadline` is a time since `began`.
    pub(super) fn sleep(&self, began: Instant, ticket: Ticket, deadline: Option<Nanos>) -> Nanos {
        self.sleep_unless(began, ticket, deadline, task::is_killed)
    }

    /// Sleeps until a wake-up that came after `ticket` was taken, even if the task is killed meanwhile.
    pub(super) fn sleep_unkillable(&self, ticket: Ticket) {
        self.sleep_unless(Instant::now(), ticket, None, || false);
    }

    fn sleep_unless(
        &self,
        began: Instant,
        ticket: Ticket,
        deadline: Option<Nanos>,
        is_ended: impl Fn() -> bool,
    ) -> Nanos {
        let left = || deadline.map_or(Nanos(u64::MAX), |deadline| deadline.since(since(began)));
        let is_over = |left| self.ticket() != ticket || left == Nanos(0) || is_ended();
        let at_first = left();
        if is_over(at_first) {
            return at_first;
        }
        let own = thread::current();
        let own_id = own.id();
        let place = |list: &VecDeque<Sleeper>| {
            let place = list.iter().position(|sleeper| sleeper.thread.id() == own_id);
            place.expect("a sleeper takes itself off the list, nobody else")
        };
        {
            let mut list = self.sleepers.lock();
            list.push_back(Sleeper { thread: own, is_woken: false });
            self.asleep.fetch_add(1, Ordering::SeqCst);
        }
        let at_last = loop {
            let left = left();
            if is_over(left) {
                break left;
            }
            match deadline {
                Some(_) => thread::park_timeout(Duration::from_nanos(left.0)),
                None => thread::park(),
            }
            if self.ticket() == ticket {
                let mut list = self.sleepers.lock();
                let place = place(&list);
                // The mark is cleared before the number is checked again: a wake that came while the mark was set did
                // not unpark this sleeper, and only the number tells of it.
                if std::mem::take(&mut list[place].is_woken) {
                    self.asleep.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        let mut list = self.sleepers.lock();
        let place = place(&list);
        if list.remove(place).is_some_and(|sleeper| !sleeper.is_woken) {
            self.asleep.fetch_sub(1, Ordering::SeqCst);
        }
        at_last
    }
}

/// Returns the time since `began`.
#[inline]
pub(super) fn since(began: Instant) -> Nanos {
    Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_queue_forgets_who_gave_up() {
        let queue = WaitQueue::default();
        let began = Instant::now();
        for _ in 0..3 {
            let deadline = since(began) + Nanos::from_millis(1);
            assert_eq!(queue.sleep(began, queue.ticket(), Some(deadline)), Nanos(0));
        }
        assert_eq!((queue.asleep.load(Ordering::SeqCst), queue.sleepers.lock().len()), (0, 0));
    }

    #[test]
    fn a_token_that_was_meant_for_something_else_ends_no_sleep() {
        let queue = Arc::new(WaitQueue::default());
        let ticket = queue.ticket();
        let sleeper = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.sleep_unkillable(ticket)
        });
        for _ in 0..5 {
            sleeper.thread().unpark();
            thread::sleep(Duration::from_millis(2));
            assert!(!sleeper.is_finished());
        }
        queue.wake();
        sleeper.join().expect("it only sleeps");
        assert_eq!((queue.asleep.load(Ordering::SeqCst), queue.sleepers.lock().len()), (0, 0));
    }

    #[test]
    fn the_first_are_woken_one_by_one() {
        let queue = Arc::new(WaitQueue::default());
        let came_back = Arc::new(Mutex::new(Vec::new()));
        let sleepers: Vec<_> = (0..3)
            .map(|n| {
                let (own, came_back, ticket) = (queue.clone(), came_back.clone(), queue.ticket());
                let sleeper = thread::spawn(move || {
                    own.sleep_unkillable(ticket);
                    came_back.lock().push(n);
                });
                while queue.sleepers.lock().len() <= n {
                    thread::yield_now();
                }
                sleeper
            })
            .collect();
        for n in 0..3 {
            queue.wake_first();
            while came_back.lock().len() <= n {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(2));
            assert_eq!(*came_back.lock(), (0..=n).collect::<Vec<_>>());
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("it only sleeps"));
    }

    #[test]
    fn a_wake_of_who_is_awake_already_takes_no_lock() {
        let queue = WaitQueue::default();
        queue.sleepers.lock().push_back(Sleeper { thread: thread::current(), is_woken: false });
        queue.asleep.store(1, Ordering::SeqCst);
        queue.wake();
        let list = queue.sleepers.lock();
        queue.wake();
        queue.wake_first();
        assert!(list[0].is_woken);
        assert_eq!(queue.asleep.load(Ordering::SeqCst), 0);
        thread::park();
    }

    /// A sleeper takes its ticket and sleeps after a waker has raised the number of wakes, but before this waker checks
    /// the list. The sleeper must continue to sleep, and the next wake must find it.
    #[test]
    fn a_late_waker_takes_nobody_off_the_list() {
        let queue = Arc::new(WaitQueue::default());
        let ticket = queue.ticket();
        let sleeper = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.sleep_unkillable(ticket)
        });
        while queue.asleep.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        queue.wake_up_to(usize::MAX);
        thread::sleep(Duration::from_millis(5));
        assert!(!sleeper.is_finished());
        queue.wake();
        sleeper.join().expect("it only sleeps");
    }
}
