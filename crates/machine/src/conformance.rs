//! The test suite that every [`crate::Machine`] passes.
//!
//! To run the suite, an implementor of `Machine` writes a [`Ground`]. A ground starts the tasks of a test on a new
//! machine, with a [`Stage`] (state) that the tasks share. Each test is a function that is generic over the ground;
//! [`conformance_tests!`](crate::conformance_tests) makes a `#[test]` of each.
//!
//! The tests may run in real time and on one core. An expected event comes within milliseconds; a deadline that must
//! not pass is tens of seconds away.

use crate::atomic::{AtomicU64, Ordering};
use crate::note::HeldBack;
use crate::{
    DeviceId, FrameNumber, Func, Hazards, IoError, Lock, LockClass, Machine, Nanos, Note, Observe, Operation, PerCpu,
    Request, Stalled, Step, WaitReason, Waiting,
};

/// The least number of frames that a machine under test must have.
pub const FRAMES: u32 = 256;
/// The least number of blocks that device 0 of a machine under test must have.
pub const BLOCKS: u64 = 1 << 20;

/// A time much longer than any test takes: a wait of this length shows that a wake-up was lost.
const NEVER: Nanos = Nanos::from_secs(30);
/// Time that a test gives to a task to fall asleep. When it has passed, the test takes the task to be asleep.
const SHORT: Nanos = Nanos::from_millis(20);

/// A function that a task of a test carries out, with its machine and the state that the tasks share.
pub type Act<G> = fn(&<G as Ground>::Machine, &Stage<<G as Ground>::Machine>);

/// Makes a machine under test for each test of the suite, and starts the test's tasks on this machine.
pub trait Ground: Sized {
    /// The machine under test.
    type Machine: Machine;

    /// Runs one test. The method makes a machine of at least two CPUs with [`FRAMES`] frames and a device of [`BLOCKS`]
    /// blocks, and a [`Stage`] for the machine. For each of `acts`, it starts a task that carries out the act; the
    /// tasks are numbered from 0 and start at once. For each finished request, it calls [`Stage::receive`]. When all
    /// tasks have returned, it calls `check`.
    fn run(acts: &[Act<Self>], check: Act<Self>);

    /// Tells task number `task` of a test to end ([`Machine::is_killed`]). Another task of the test calls this.
    fn kill(machine: &Self::Machine, task: usize);
}

/// A finished request and its result.
type Finished = (Request, Result<(), IoError>);

/// The state that the tasks of one test share: locks, wait queues, counters, and the requests that have finished.
pub struct Stage<M: Machine> {
    count: M::Lock<u64>,
    other: M::Lock<u64>,
    slots: M::PerCpu<u64>,
    queue: M::WaitQueue,
    done: M::WaitQueue,
    finished: M::Lock<Vec<Finished>>,
    seen: [AtomicU64; 4],
}

impl<M: Machine> Stage<M> {
    /// Makes the shared state of a test, with locks and wait queues of `machine`.
    pub fn new(machine: &M) -> Self {
        Self {
            count: machine.lock(LockClass::IPages, 0),
            other: machine.lock(LockClass::Zone, 0),
            slots: machine.per_cpu(|_| 0),
            queue: machine.wait_queue(),
            done: machine.wait_queue(),
            finished: machine.lock(LockClass::Lru, Vec::new()),
            seen: Default::default(),
        }
    }

    /// Stores a finished request and its result for the test. The [`Ground`] that runs the test calls this in
    /// [`crate::Completions::complete`].
    pub fn receive(&self, machine: &M, request: Request, result: Result<(), IoError>) {
        call_what_never_sleeps(machine);
        self.finished.lock().push((request, result));
        machine.wake(&self.done);
    }

    fn add(&self, index: usize, n: u64) -> u64 {
        self.seen[index].fetch_add(n, Ordering::SeqCst) + n
    }

    fn get(&self, index: usize) -> u64 {
        self.seen[index].load(Ordering::SeqCst)
    }

    /// Waits at `queue` until `is_done` returns `true`. Another task makes the condition true and then wakes `queue`.
    fn wait_until(&self, machine: &M, queue: &M::WaitQueue, mut is_done: impl FnMut() -> bool) {
        let deadline = machine.now() + NEVER;
        loop {
            let ticket = machine.ticket(queue);
            if is_done() {
                return;
            }
            let left = machine.sleep(queue, ticket, Some(deadline));
            assert!(left > Nanos(0) || is_done(), "a wake-up was lost");
        }
    }
}

/// Calls the methods of [`Machine`] that may be called in any context. The methods that access the bytes of frames are
/// left out.
fn call_what_never_sleeps<M: Machine>(machine: &M) {
    let _span = machine.span(Func::ReleasePages);
    let before = machine.now();
    let _ = (machine.node(), machine.is_killed(), machine.is_resched_due());
    assert!(machine.cpus() > 0 && machine.counter_rows() > 0);
    let mut numbers = Vec::new();
    machine.per_cpu(|number| numbers.push(number));
    assert_eq!(numbers, (0..machine.cpus()).collect::<Vec<_>>(), "a slot for each CPU, in order");
    // The lock is made but not taken, because the caller may hold a lock of a higher rank.
    drop(machine.lock(LockClass::Other, 7));
    let queue = machine.wait_queue();
    machine.ticket(&queue);
    machine.wake(&queue);
    machine.wake_first(&queue);
    machine.wake(machine.uncongested());
    machine.spend(Step::EndPage, 1);
    machine.spend_on(Step::EndPage, FrameNumber(0), 1);
    machine.prefetch_frame(FrameNumber(FRAMES), 0, 8);
    let _ = (machine.is_congested(DeviceId(0), Operation::Read), machine.is_any_congested(Operation::Write));
    let _ = machine.hazards().are_on();
    assert!(machine.now() >= before, "time ran backwards");
}

/// Runs a test in which `tasks` tasks each carry out `act`. When all have returned, calls `check`.
fn run_alike<G: Ground>(tasks: usize, act: Act<G>, check: Act<G>) {
    G::run(&vec![act; tasks], check);
}

fn nothing<M: Machine>(_: &M, _: &Stage<M>) {}

/// Tests that no addition is lost when tasks add to a value under its lock.
pub fn a_lock_has_one_holder_at_a_time<G: Ground>() {
    fn act<M: Machine>(machine: &M, stage: &Stage<M>) {
        for _ in 0..500 {
            let mut count = stage.count.lock();
            let before = *count;
            machine.spend(Step::ScanPage, 3);
            *count = before + 1;
        }
    }
    run_alike::<G>(8, act, |_, stage| assert_eq!(*stage.count.lock(), 8 * 500));
}

/// Tests that `try_lock` takes a free lock and fails on a held one, and that a task may take locks of rising rank.
pub fn try_lock_takes_free_locks_only<G: Ground>() {
    fn act<M: Machine>(machine: &M, stage: &Stage<M>) {
        for _ in 0..200 {
            let Some(mut count) = stage.count.try_lock() else {
                machine.pause(Nanos(1000));
                continue;
            };
            assert!(stage.count.try_lock().is_none(), "a held lock was taken again");
            let before = *count;
            *stage.other.lock() += 1;
            machine.spend(Step::ScanPage, 1);
            *count = before + 1;
        }
    }
    run_alike::<G>(4, act, |_, stage| {
        assert_eq!(*stage.count.lock(), *stage.other.lock());
        assert!(*stage.count.lock() > 0);
    });
}

/// Tests that a sleep returns at once if the queue is woken after the task took its ticket and before the task sleeps.
pub fn a_wake_after_the_ticket_is_not_lost<G: Ground>() {
    G::run(
        &[|machine, stage| {
            let ticket = machine.ticket(&stage.queue);
            machine.wake(&stage.queue);
            let deadline = machine.now() + NEVER;
            let left = machine.sleep(&stage.queue, ticket, Some(deadline));
            assert!(left > Nanos(0), "slept through a wake");
            let ticket = machine.ticket(&stage.queue);
            machine.wake(&stage.queue);
            assert_eq!(machine.sleep(&stage.queue, ticket, None), Nanos(u64::MAX));
        }],
        nothing,
    );
}

/// Tests that no wake-up is lost between two tasks that wake each other in turn, 200 times each.
pub fn no_wake_up_is_lost_in_ping_pong<G: Ground>() {
    fn play<M: Machine>(machine: &M, stage: &Stage<M>, parity: u64) {
        for _ in 0..200 {
            stage.wait_until(machine, &stage.queue, || stage.get(0) % 2 == parity);
            stage.add(0, 1);
            machine.wake(&stage.queue);
        }
    }
    G::run(&[|machine, stage| play(machine, stage, 0), |machine, stage| play(machine, stage, 1)], |_, stage| {
        assert_eq!(stage.get(0), 400);
    });
}

/// Tests a sleep that no wake-up ends. The sleep must last until its deadline, and the call must return 0 as the time
/// that is left.
pub fn a_deadline_passes<G: Ground>() {
    G::run(
        &[|machine, stage| {
            let deadline = machine.now() + SHORT;
            let ticket = machine.ticket(&stage.queue);
            assert_eq!(machine.sleep(&stage.queue, ticket, Some(deadline)), Nanos(0));
            assert!(machine.now() >= deadline, "woke {} before {deadline}", machine.now());
            // A deadline that has passed already.
            let ticket = machine.ticket(&stage.queue);
            assert_eq!(machine.sleep(&stage.queue, ticket, Some(Nanos(0))), Nanos(0));
        }],
        nothing,
    );
}

/// Tests that a sleep returns the remaining time if a wake-up ends it before its deadline.
pub fn an_early_wake_leaves_time<G: Ground>() {
    G::run(
        &[
            |machine, stage| {
                let deadline = machine.now() + NEVER;
                let ticket = machine.ticket(&stage.queue);
                stage.add(0, 1);
                machine.wake(&stage.done);
                let left = machine.sleep(&stage.queue, ticket, Some(deadline));
                assert!(left > Nanos(0) && left <= NEVER, "{left} left of {NEVER}");
            },
            |machine, stage| {
                stage.wait_until(machine, &stage.done, || stage.get(0) == 1);
                machine.pause(SHORT);
                machine.wake(&stage.queue);
            },
        ],
        nothing,
    );
}

/// Tests that one wake ends the sleep of all tasks at a queue.
pub fn a_wake_wakes_all<G: Ground>() {
    fn sleeper<M: Machine>(machine: &M, stage: &Stage<M>) {
        let ticket = machine.ticket(&stage.queue);
        stage.add(0, 1);
        machine.wake(&stage.done);
        let deadline = machine.now() + NEVER;
        assert!(machine.sleep(&stage.queue, ticket, Some(deadline)) > Nanos(0), "slept through a wake");
        stage.add(1, 1);
    }
    G::run(
        &[sleeper, sleeper, sleeper, sleeper, sleeper, |machine, stage| {
            stage.wait_until(machine, &stage.done, || stage.get(0) == 5);
            machine.wake(&stage.queue);
        }],
        |_, stage| assert_eq!(stage.get(1), 5),
    );
}

/// Tests that n calls of `wake_first` wake all n sleepers, even if some of the tasks are only about to sleep. One call
/// may wake more than one sleeper.
pub fn as_many_wakes_of_the_first_as_sleepers_wake_all<G: Ground>() {
    const SLEEPERS: u64 = 5;
    fn sleeper<M: Machine>(machine: &M, stage: &Stage<M>) {
        let ticket = machine.ticket(&stage.queue);
        stage.add(0, 1);
        machine.wake(&stage.done);
        let deadline = machine.now() + NEVER;
        assert!(machine.sleep(&stage.queue, ticket, Some(deadline)) > Nanos(0), "slept through a wake");
        stage.add(1, 1);
        machine.wake(&stage.done);
    }
    fn waker<M: Machine>(machine: &M, stage: &Stage<M>) {
        stage.wait_until(machine, &stage.done, || stage.get(0) == SLEEPERS);
        (0..SLEEPERS).for_each(|_| machine.wake_first(&stage.queue));
        stage.wait_until(machine, &stage.done, || stage.get(1) == SLEEPERS);
    }
    G::run(&[sleeper, sleeper, sleeper, sleeper, sleeper, waker], |_, stage| assert_eq!(stage.get(1), SLEEPERS));
}

/// Tests that a pause lasts its full time, with or without wake-ups.
pub fn a_pause_lasts<G: Ground>() {
    G::run(
        &[
            |machine, _| {
                let began = machine.now();
                machine.pause(SHORT);
                assert!(machine.now().since(began) >= SHORT, "paused for {}", machine.now().since(began));
            },
            |machine, stage| machine.wake(&stage.queue),
        ],
        nothing,
    );
}

/// Tests that a kill ends a sleep and a pause, and that a killed task does not sleep any more.
pub fn a_kill_ends_waits<G: Ground>() {
    G::run(
        &[
            |machine, stage| {
                assert!(!machine.is_killed());
                let ticket = machine.ticket(&stage.queue);
                stage.add(0, 1);
                machine.wake(&stage.done);
                let began = machine.now();
                machine.sleep(&stage.queue, ticket, Some(began + NEVER));
                assert!(machine.is_killed());
                machine.pause(NEVER);
                machine.sleep(&stage.queue, machine.ticket(&stage.queue), None);
                assert!(machine.now().since(began) < NEVER, "a kill did not end a wait");
            },
            |machine, stage| {
                stage.add(0, 1);
                machine.wake(&stage.done);
                let began = machine.now();
                machine.pause(NEVER);
                assert!(machine.is_killed());
                assert!(machine.now().since(began) < NEVER, "a kill did not end a pause");
            },
            |machine, stage| {
                stage.wait_until(machine, &stage.done, || stage.get(0) == 2);
                machine.pause(SHORT);
                G::kill(machine, 0);
                G::kill(machine, 1);
                assert!(!machine.is_killed());
            },
        ],
        nothing,
    );
}

/// Tests that time does not run backwards, whatever work the engine does.
pub fn time_goes_forward<G: Ground>() {
    fn act<M: Machine>(machine: &M, _: &Stage<M>) {
        let mut last = machine.now();
        for _ in 0..100 {
            machine.spend(Step::LruMove, 10);
            machine.relax();
            assert!(machine.now() >= last, "{} after {last}", machine.now());
            last = machine.now();
        }
    }
    run_alike::<G>(3, act, nothing);
}

/// Tests that a per-CPU slot has one holder at a time, and that visits to all slots find everything that tasks added to
/// the slots, exactly once.
pub fn slots_are_exclusive_and_a_visit_sees_all<G: Ground>() {
    fn count<M: Machine>(machine: &M, stage: &Stage<M>) {
        for _ in 0..500 {
            let mut slot = stage.slots.local();
            let before = *slot;
            machine.spend(Step::LruMove, 2);
            *slot = before + 1;
        }
    }
    fn drain<M: Machine>(machine: &M, stage: &Stage<M>) {
        for _ in 0..20 {
            let mut visits = 0;
            stage.slots.for_each_cpu(|slot| {
                let taken = *slot;
                machine.spend(Step::LruMove, 1);
                assert_eq!(*slot, taken, "a slot changed under its visitor");
                stage.add(0, taken);
                *slot = 0;
                visits += 1;
            });
            assert_eq!(visits, machine.cpus());
            machine.pause(Nanos(5000));
        }
    }
    G::run(&[count, count, drain, count, count], |_, stage| {
        stage.slots.for_each_cpu(|slot| {
            stage.add(0, *slot);
        });
        assert_eq!(stage.get(0), 4 * 500);
    });
}

/// Tests that a task that holds a per-CPU slot can take a lock of a class that [`LockClass::may_be_taken_in_slot`]
/// allows.
pub fn a_slot_drains_under_an_inner_lock<G: Ground>() {
    fn act<M: Machine>(machine: &M, stage: &Stage<M>) {
        for _ in 0..200 {
            let mut slot = stage.slots.local();
            *slot += 1;
            if *slot >= 14 {
                let mut total = stage.other.lock();
                machine.spend(Step::LruMove, 14);
                *total += std::mem::take(&mut *slot);
            }
        }
    }
    run_alike::<G>(4, act, |_, stage| {
        let mut total = *stage.other.lock();
        stage.slots.for_each_cpu(|slot| total += *slot);
        assert_eq!(total, 4 * 200);
    });
}

/// Tests that the methods for any context may be called by a task that holds a lock and a per-CPU slot, and that a
/// wake-up from such a task is not lost. The test of these methods in interrupt context is in [`Stage::receive`].
pub fn what_never_sleeps_may_be_called_under_locks<G: Ground>() {
    G::run(
        &[
            |machine, stage| {
                stage.wait_until(machine, &stage.queue, || stage.get(0) == 1);
                let mut bytes = [0; 8];
                machine.read_frame(FrameNumber(4), 0, &mut bytes);
                assert_eq!(bytes, [7; 8]);
            },
            |machine, stage| {
                let _outer = stage.count.lock();
                call_what_never_sleeps(machine);
                let _slot = stage.slots.local();
                let _inner = stage.other.lock();
                call_what_never_sleeps(machine);
                machine.zero_frame(FrameNumber(3));
                machine.write_frame(FrameNumber(3), 0, &[7; 8]);
                machine.copy_frame(FrameNumber(3), FrameNumber(4));
                stage.add(0, 1);
                machine.wake(&stage.queue);
            },
        ],
        nothing,
    );
}

/// Tests that a task gets a CPU although other tasks, more than there are CPUs, wait for this task in loops that call
/// `relax`.
pub fn tasks_that_relax_let_others_run<G: Ground>() {
    fn relaxes<M: Machine>(machine: &M, stage: &Stage<M>) {
        while stage.get(0) == 0 {
            machine.spend(Step::ScanPage, 1);
            machine.relax();
        }
        machine.cond_resched();
    }
    fn acts<M: Machine>(machine: &M, stage: &Stage<M>) {
        machine.spend(Step::ScanPage, 100);
        stage.add(0, 1);
    }
    G::run(&[relaxes, relaxes, relaxes, relaxes, relaxes, relaxes, relaxes, relaxes, acts], nothing);
}

/// Tests that spans and notes for a profile or trace ([`crate::Observe`]) do not change what a task does. A task waits
/// and takes a lock inside open spans, and reports a note; another task wakes it. Both tasks must end.
pub fn what_is_observed_goes_on_as_without<G: Ground>() {
    G::run(
        &[
            |machine, stage| {
                let _outer = machine.span(Func::DirectReclaim);
                let _stalled = Stalled::begin(machine);
                let began = machine.now();
                {
                    let _inner = machine.span(Func::CongestionWait);
                    let _nested = Stalled::begin(machine);
                    let _waiting = Waiting::begin(machine, WaitReason::NoProgress);
                    stage.wait_until(machine, &stage.queue, || stage.get(0) == 1);
                }
                let _guard = stage.count.lock();
                let _span = machine.span(Func::FreePages);
                machine.note(|| {
                    let held = HeldBack { began, device: DeviceId(0), dirty_pages: 1, limit_pages: 1 };
                    Note::HeldBack(held)
                });
            },
            |machine, stage| {
                stage.add(0, 1);
                machine.wake(&stage.queue);
            },
        ],
        nothing,
    );
}

/// Tests that frames can be zeroed and copied, and that what is written to the first eight bytes of a frame (its
/// *stamp*) can be read back. A ground need not keep the other bytes.
pub fn frames_hold_their_stamps<G: Ground>() {
    G::run(
        &[|machine, _| {
            let (a, b) = (FrameNumber(1), FrameNumber(2));
            let read = |frame| {
                let mut bytes = [1; 8];
                machine.read_frame(frame, 0, &mut bytes);
                bytes
            };
            machine.zero_frame(a);
            machine.zero_frame(b);
            machine.write_frame(a, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
            machine.copy_frame(a, b);
            machine.write_frame(a, 2, &[9]);
            machine.write_frame(a, crate::PAGE_BYTES - 1, &[1]);
            assert_eq!(read(a), [1, 2, 9, 4, 5, 6, 7, 8]);
            assert_eq!(read(b), [1, 2, 3, 4, 5, 6, 7, 8]);
            let mut part = [0; 3];
            machine.read_frame(b, 6, &mut part);
            assert_eq!(part[..2], [7, 8]);
            machine.zero_frame(a);
            assert_eq!(read(a), [0; 8]);
        }],
        nothing,
    );
}

fn request(operation: Operation, block: u64, frames: std::ops::Range<u32>) -> Request {
    Request {
        device: DeviceId(0),
        operation,
        block,
        frames: frames.map(FrameNumber).collect(),
        is_sync: operation == Operation::Read,
    }
}

/// Tests that each request completes once. Also tests that a read returns the bytes that the frames held when the write
/// of the same blocks was submitted.
pub fn requests_complete_once_and_carry_contents<G: Ground>() {
    const REQUESTS: u64 = 16;
    const LEN: u64 = 4;
    fn act<M: Machine>(machine: &M, stage: &Stage<M>) {
        let all_done = |n: u64| move || stage.finished.lock().len() as u64 == n;
        for number in 0..REQUESTS {
            let first = (number * LEN) as u32;
            for frame in first..first + LEN as u32 {
                machine.write_frame(FrameNumber(frame), 0, &(u64::from(frame) + 1000).to_le_bytes());
            }
            machine.submit(request(Operation::Write, number * 1000, first..first + LEN as u32));
        }
        stage.wait_until(machine, &stage.done, all_done(REQUESTS));
        for frame in 0..FRAMES {
            machine.zero_frame(FrameNumber(frame));
        }
        for number in 0..REQUESTS {
            // The blocks are read into frames from which none of them was written. The last block of each read was
            // never written at all.
            let first = ((REQUESTS + number) * LEN) as u32;
            machine.submit(request(Operation::Read, number * 1000 + 1, first..first + LEN as u32));
        }
        stage.wait_until(machine, &stage.done, all_done(2 * REQUESTS));
        for number in 0..REQUESTS {
            for place in 0..LEN {
                let mut bytes = [0; 8];
                machine.read_frame(FrameNumber(((REQUESTS + number) * LEN + place) as u32), 0, &mut bytes);
                let expected = if place + 1 < LEN { number * LEN + place + 1 + 1000 } else { 0 };
                assert_eq!(u64::from_le_bytes(bytes), expected, "request {number}, block {place}");
            }
        }
    }
    G::run(&[act], |machine, stage| {
        machine.spend(Step::EndPage, 1);
        let finished = stage.finished.lock();
        assert!(finished.iter().all(|(_, result)| result.is_ok()));
        for operation in [Operation::Read, Operation::Write] {
            let mut blocks: Vec<u64> = finished
                .iter()
                .filter(|(request, _)| request.operation == operation)
                .map(|(request, _)| request.block / 1000)
                .collect();
            blocks.sort_unstable();
            assert_eq!(blocks, (0..REQUESTS).collect::<Vec<_>>(), "{operation:?}: not each request once");
        }
    });
}

/// Tests that all requests complete when many tasks together submit more of them than the device's queue holds.
pub fn a_full_queue_makes_submitters_wait<G: Ground>() {
    // Number of requests of each task. Each request has a frame of its own, because several are under way at a time.
    const EACH: u64 = FRAMES as u64 / 4;
    fn act<M: Machine>(machine: &M, stage: &Stage<M>) {
        let task = stage.add(0, 1) - 1;
        for number in 0..EACH {
            let nth = task * EACH + number;
            let frame = nth as u32;
            machine.submit(request(Operation::Read, nth * 7919 % (BLOCKS - 1), frame..frame + 1));
        }
        stage.wait_until(machine, &stage.done, || stage.finished.lock().len() as u64 == 4 * EACH);
    }
    run_alike::<G>(4, act, |_, stage| assert_eq!(stage.finished.lock().len() as u64, 4 * EACH));
}

/// Tests requests that a machine holds back within [`Machine::plugged`]: each request reaches its device once, at the
/// latest when the task sleeps or `plugged` returns.
pub fn requests_held_back_complete_once<G: Ground>() {
    const REQUESTS: u64 = 40;
    fn act<M: Machine>(machine: &M, stage: &Stage<M>) {
        let submit = |numbers: std::ops::Range<u64>| {
            for number in numbers {
                // Some requests follow each other on the device, some go backwards, and some are far apart.
                let block = [number, 500 - number, number * 1000][number as usize % 3];
                let frame = number as u32;
                machine.submit(request(Operation::Write, block, frame..frame + 1));
            }
        };
        machine.plugged(|| {
            submit(0..REQUESTS / 2);
            stage.wait_until(machine, &stage.done, || stage.finished.lock().len() as u64 == REQUESTS / 2);
            // `plugged` within `plugged` changes nothing.
            machine.plugged(|| submit(REQUESTS / 2..REQUESTS));
        });
        stage.wait_until(machine, &stage.done, || stage.finished.lock().len() as u64 == REQUESTS);
    }
    G::run(&[act], |_, stage| {
        let finished = stage.finished.lock();
        assert!(finished.iter().all(|(_, result)| result.is_ok()));
        let mut frames: Vec<u32> =
            finished.iter().flat_map(|(request, _)| &request.frames).map(|frame| frame.0).collect();
        frames.sort_unstable();
        assert_eq!(frames, (0..REQUESTS as u32).collect::<Vec<_>>());
    });
}

/// Tests that every task finds a frame that another task has published in a hazard pointer, until the frame is
/// withdrawn. The test does nothing on a machine without hazard pointers.
pub fn what_is_published_is_found_until_it_is_withdrawn<G: Ground>() {
    const FRAME: FrameNumber = FrameNumber(5);
    G::run(
        &[
            |machine, stage| {
                let hazards = machine.hazards();
                if !hazards.are_on() {
                    let published = [hazards.publish(FRAME), hazards.publish_at_once(FRAME)];
                    return assert!(published.iter().all(Option::is_none) && hazards.published().is_empty());
                }
                // `publish` and `publish_at_once` use the same hazard pointers.
                let hazard = hazards.publish(FRAME);
                let at_once = hazards.publish_at_once(FrameNumber(3));
                let second = at_once.or_else(|| hazards.publish(FrameNumber(3)));
                stage.add(0, 1);
                machine.wake(&stage.queue);
                stage.wait_until(machine, &stage.done, || stage.get(0) == 2);
                hazards.withdraw(second.expect("a task has several"));
                hazards.barrier();
                assert_eq!(hazards.published(), [FRAME]);
                hazards.withdraw(hazard.expect("a task has one"));
                assert_eq!(hazards.published(), []);
                if let Some(hazard) = hazards.publish_at_once(FRAME) {
                    assert_eq!(hazards.published(), [FRAME]);
                    hazards.withdraw(hazard);
                }
            },
            |machine, stage| {
                let hazards = machine.hazards();
                if hazards.are_on() {
                    stage.wait_until(machine, &stage.queue, || stage.get(0) == 1);
                    hazards.barrier();
                    assert_eq!(hazards.published(), [FrameNumber(3), FRAME]);
                    stage.add(0, 1);
                    machine.wake(&stage.done);
                }
            },
        ],
        nothing,
    );
}

/// Tests that a device with too many writes becomes congested, and that tasks are woken when the congestion ends.
pub fn the_end_of_congestion_is_told<G: Ground>() {
    G::run(
        &[|machine, stage| {
            let mut submitted = 0;
            while !machine.is_any_congested(Operation::Write) {
                assert!(submitted < 10_000, "never congested");
                machine.submit(request(Operation::Write, submitted * 7919 % (BLOCKS - 1), 0..1));
                submitted += 1;
            }
            let queue = machine.uncongested();
            stage.wait_until(machine, queue, || !machine.is_congested(DeviceId(0), Operation::Write));
            stage.wait_until(machine, &stage.done, || stage.finished.lock().len() as u64 == submitted);
        }],
        nothing,
    );
}

/// Makes a `#[test]` of each test of the conformance suite, for the machine of one [`Ground`].
#[macro_export]
macro_rules! conformance_tests {
    ($ground:ty) => {
        $crate::conformance_tests!(@ $ground:
            a_lock_has_one_holder_at_a_time
            try_lock_takes_free_locks_only
            a_wake_after_the_ticket_is_not_lost
            no_wake_up_is_lost_in_ping_pong
            a_deadline_passes
            an_early_wake_leaves_time
            a_wake_wakes_all
            as_many_wakes_of_the_first_as_sleepers_wake_all
            a_pause_lasts
            a_kill_ends_waits
            time_goes_forward
            slots_are_exclusive_and_a_visit_sees_all
            a_slot_drains_under_an_inner_lock
            what_never_sleeps_may_be_called_under_locks
            tasks_that_relax_let_others_run
            what_is_observed_goes_on_as_without
            frames_hold_their_stamps
            requests_complete_once_and_carry_contents
            a_full_queue_makes_submitters_wait
            requests_held_back_complete_once
            the_end_of_congestion_is_told
            what_is_published_is_found_until_it_is_withdrawn
        );
    };
    (@ $ground:ty: $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                $crate::conformance::$test::<$ground>();
            }
        )*
    };
}
