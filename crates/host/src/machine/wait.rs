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
//! A future waits by its [`Waker`], which it puts on a second list of the queue ([`WaitQueue::register`]), with the number
//! of the page for which it waits. The protocol is that of a sleeper. A wake for one page
//! ([`machine::Machine::wake_for`]) takes only the wakers of this page off the list, because a queue serves many pages,
//! and a wake of all of them would cost more than the reads. A waker that was taken off the list is woken once, by a
//! thread that may run code of the application ([`super::wakers`]).
//!
//! A waker unparks sleepers only after it has released the list's lock. Otherwise a woken thread might run in the
//! waker's place, and other wakers would wait for the lock.

use super::task;
use machine::{Nanos, Ticket};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A queue in which threads wait for a wake.
#[derive(Debug, Default)]
pub struct WaitQueue {
    /// Number of wakes so far.
    wakes: AtomicU64,
    /// Number of sleepers on the list that have not been woken, and of wakers.
    asleep: AtomicU32,
    /// Sleepers in order of arrival.
    sleepers: Mutex<VecDeque<Sleeper>>,
    /// The wakers of futures.
    registered: Mutex<Registered>,
}

/// The wakers that wait at one queue.
#[derive(Debug, Default)]
struct Registered {
    /// Number of the last registration.
    last: u64,
    waiting: Vec<Registration>,
}

#[derive(Debug)]
struct Registration {
    number: u64,
    key: u32,
    waker: Waker,
}

/// The wakers that one wake takes off a queue's list, and that must be called.
pub(super) type TakenWakers = SmallVec<[Waker; 4]>;

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
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.wakes.load(Ordering::SeqCst))
    }

    /// Wakes all sleepers of a queue at which no futures wait.
    #[inline]
    pub(super) fn wake(&self) {
        if self.count_wake() {
            self.wake_up_to(usize::MAX);
        }
    }

    /// Counts a wake. Returns `true` if there is somebody to be woken, which the caller has to do by
    /// [`WaitQueue::wake_all`].
    #[inline]
    pub(super) fn count_wake(&self) -> bool {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.asleep.load(Ordering::SeqCst) > 0
    }

    /// Wakes all sleepers. Takes the wakers with the key `key` off the list, or all wakers if `key` is `None`, and returns
    /// them.
    #[cold]
    pub(super) fn wake_all(&self, key: Option<u32>) -> TakenWakers {
        self.wake_up_to(usize::MAX);
        let mut registered = self.registered.lock();
        let is_meant = |registration: &mut Registration| key.is_none_or(|key| registration.key == key);
        let taken: TakenWakers = registered.waiting.extract_if(.., is_meant).map(|taken| taken.waker).collect();
        self.asleep.fetch_sub(taken.len() as u32, Ordering::SeqCst);
        taken
    }

    /// Registers a waker, which the next wake for `key` or for all keys takes off the list. Returns the number of the
    /// registration, for [`WaitQueue::deregister`]. Returns `None`, and registers nothing, if the queue was woken since
    /// `ticket` was taken; the caller then checks again what it waits for.
    pub(crate) fn register(&self, ticket: Ticket, key: u32, waker: &Waker) -> Option<u64> {
        // The waker is cloned, and dropped below, without the lock, because both run code of the application.
        let waker = waker.clone();
        let mut registered = self.registered.lock();
        registered.last += 1;
        let number = registered.last;
        registered.waiting.push(Registration { number, key, waker });
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let is_woken = self.ticket() != ticket;
        let unneeded = if is_woken { self.remove(&mut registered, number) } else { None };
        drop(registered);
        drop(unneeded);
        (!is_woken).then_some(number)
    }

    /// Removes the registration `number`, if no wake has taken it off the list. The waker is then not called.
    pub(crate) fn deregister(&self, number: u64) {
        let removed = self.remove(&mut self.registered.lock(), number);
        drop(removed);
    }

    fn remove(&self, registered: &mut Registered, number: u64) -> Option<Registration> {
        let place = registered.waiting.iter().position(|registration| registration.number == number)?;
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        Some(registered.waiting.swap_remove(place))
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

    /// A waker of the test, which counts its calls.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl std::task::Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_waker_is_taken_once_and_only_by_a_wake_for_its_key() {
        let queue = WaitQueue::default();
        let counts = [(); 3].map(|()| Arc::new(Counting::default()));
        let wakers: Vec<Waker> = counts.iter().map(|count| Waker::from(count.clone())).collect();
        let ticket = queue.ticket();
        let numbers: Vec<u64> =
            (0..3).map(|n| queue.register(ticket, n as u32 / 2, &wakers[n]).expect("nobody woke it")).collect();
        queue.deregister(numbers[1]);
        assert!(queue.count_wake());
        queue.wake_all(Some(7)).into_iter().for_each(Waker::wake);
        queue.wake_all(Some(0)).into_iter().for_each(Waker::wake);
        queue.wake_all(Some(0)).into_iter().for_each(Waker::wake);
        let calls = || counts.each_ref().map(|count| count.0.load(Ordering::SeqCst));
        assert_eq!((calls(), queue.asleep.load(Ordering::SeqCst)), ([1, 0, 0], 1));
        assert_eq!(queue.register(ticket, 0, &wakers[0]), None, "it was woken since the ticket was taken");
        queue.wake_all(None).into_iter().for_each(Waker::wake);
        queue.deregister(numbers[2]);
        assert_eq!((calls(), queue.asleep.load(Ordering::SeqCst)), ([1, 0, 1], 0));
        assert!(!queue.count_wake());
        drop(wakers);
        assert!(counts.iter().all(|count| Arc::strong_count(count) == 1), "the queue keeps no waker");
    }

    /// Three threads wake a queue for the one page, while another thread registers for it again and again, each time with
    /// the check that a future makes: the number of wakes it has seen. No wake may be lost.
    #[test]
    fn no_wake_is_lost_between_a_check_and_a_registration() {
        const WAKES: u64 = 2000;
        struct Unparks(Thread);
        impl std::task::Wake for Unparks {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let (queue, done) = (WaitQueue::default(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..WAKES {
                        done.fetch_add(1, Ordering::SeqCst);
                        if queue.count_wake() {
                            queue.wake_all(Some(1)).into_iter().for_each(Waker::wake);
                        }
                    }
                });
            }
            let waker = Waker::from(Arc::new(Unparks(thread::current())));
            let mut seen = 0;
            while seen < 3 * WAKES {
                let ticket = queue.ticket();
                let now = done.load(Ordering::SeqCst);
                if now != seen {
                    seen = now;
                } else if let Some(number) = queue.register(ticket, 1, &waker) {
                    thread::park();
                    queue.deregister(number);
                }
            }
        });
        assert_eq!(queue.asleep.load(Ordering::SeqCst), 0);
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
