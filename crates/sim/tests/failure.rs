//! Tests that a bug stops the simulation with a message that names the task, the bug and the call path.

mod common;

use common::hard_disk;
use machine::{Completions, DeviceId, FrameNumber, Func, IoError, Lock, LockClass, Machine, Nanos, Operation};
use machine::{Observe, PerCpu, Request, Step};
use sim::{Config, Failure, Sim};
use std::cell::Cell;
use std::rc::Rc;

fn run(config: Config, main: impl FnOnce(&Sim) + 'static) -> Result<(), Failure> {
    let sim = Sim::new(config);
    let machine = sim.clone();
    sim.run("main", move || main(&machine))
}

fn failure(main: impl FnOnce(&Sim) + 'static) -> Failure {
    run(Config::uniform(2, 10), main).expect_err("a failure")
}

#[track_caller]
fn assert_says(failure: &Failure, words: &[&str]) {
    for word in words {
        assert!(failure.message.contains(word), "`{word}` is not in: {failure}");
    }
}

#[test]
fn a_panic_names_the_task_the_path_and_the_time() {
    let failure = failure(|sim| {
        let _span = sim.span(Func::Kswapd);
        let _guard = sim.lock(LockClass::Lru, ());
        sim.compute(Nanos(1000));
        panic!("frame {} isolated twice", 7);
    });
    assert_says(&failure, &["frame 7 isolated twice", "main;kswapd"]);
    assert_eq!(failure.task.as_deref(), Some("main"));
    assert!(failure.time >= Nanos(1000));
}

#[test]
fn a_panic_under_a_lock_with_waiters_ends_the_world_too() {
    let failure = failure(|sim| {
        let lock = Rc::new(sim.lock(LockClass::Lru, ()));
        let _guard = lock.lock();
        let (waiter, other) = (sim.clone(), Rc::clone(&lock));
        sim.spawn("waiter", move || {
            drop(other.lock());
            drop(waiter);
        });
        sim.compute(Nanos(100_000));
        panic!("stop");
    });
    assert_says(&failure, &["stop"]);
}

#[test]
fn a_lock_of_not_higher_rank_is_reported() {
    let failure1 = failure(|sim| {
        let (zone, lru) = (sim.lock(LockClass::Zone, ()), sim.lock(LockClass::Lru, ()));
        let _zone = zone.lock();
        let _lru = lru.lock();
    });
    assert_says(&failure1, &["lock `lru` taken while holding lock `zone`"]);
    let failure2 = failure(|sim| {
        let (a, b) = (sim.lock(LockClass::Lru, ()), sim.lock(LockClass::Lru, ()));
        let _a = a.lock();
        let _b = b.lock();
    });
    assert_says(&failure2, &["lock `lru` taken while holding lock `lru`"]);
}

#[test]
fn a_rising_order_and_a_tried_lock_are_fine() {
    run(Config::uniform(1, 10), |sim| {
        let (lru, zone) = (sim.lock(LockClass::Lru, ()), sim.lock(LockClass::Zone, ()));
        let outer = lru.lock();
        let inner = zone.lock();
        drop(outer);
        assert!(lru.try_lock().is_some());
        drop(inner);
        drop(lru.lock());
        sim.pause(Nanos(1));
    })
    .unwrap();
}

#[test]
fn sleeping_under_a_lock_or_a_slot_is_reported() {
    assert_says(
        &failure(|sim| {
            let lock = sim.lock(LockClass::IPages, ());
            let _guard = lock.lock();
            sim.pause(Nanos(1));
        }),
        &["pause while holding lock `i_pages`"],
    );
    assert_says(
        &failure(|sim| {
            let slots = sim.per_cpu(|_| ());
            let _slot = slots.local();
            let queue = sim.wait_queue();
            sim.sleep(&queue, sim.ticket(&queue), None);
        }),
        &["sleep while holding a per-CPU slot"],
    );
    assert_says(
        &failure(|sim| {
            let lock = sim.lock(LockClass::Table, ());
            let _guard = lock.lock();
            sim.relax();
        }),
        &["relax while holding lock `table`"],
    );
}

#[test]
fn a_slot_taken_twice_and_an_outer_lock_inside_one_are_reported() {
    assert_says(
        &failure(|sim| {
            let slots = sim.per_cpu(|_| ());
            let _slot = slots.local();
            drop(slots.local());
        }),
        &["the slot of CPU 0 is taken by a task that holds it already"],
    );
    assert_says(
        &failure(|sim| {
            let (slots, lock) = (sim.per_cpu(|_| ()), sim.lock(LockClass::Swap, ()));
            let _slot = slots.local();
            drop(lock.lock());
        }),
        &["lock `swap` taken while holding a per-CPU slot"],
    );
}

#[test]
fn a_deadlock_lists_the_tasks_and_where_they_are() {
    let failure = failure(|sim| {
        let queue = Rc::new(sim.wait_queue());
        let (other, its_queue) = (sim.clone(), Rc::clone(&queue));
        sim.spawn("flusher", move || {
            let _span = other.span(Func::Flusher);
            other.sleep(&its_queue, other.ticket(&its_queue), None);
        });
        let _span = sim.span(Func::DirectReclaim);
        sim.sleep(&queue, sim.ticket(&queue), None);
    });
    assert_says(
        &failure,
        &["deadlock", "main: sleeps in main;try_to_free_pages", "flusher: sleeps in flusher;bdi_writeback_workfn"],
    );
}

#[test]
fn a_lock_that_is_never_released_is_a_deadlock() {
    let failure = failure(|sim| {
        let lock = Rc::new(sim.lock(LockClass::Lru, ()));
        let slots = Rc::new(sim.per_cpu(|_| ()));
        // One task holds the lock and waits for the slot. The other holds the slot and waits for the lock. The order of
        // ranks allows both.
        let (its_sim, its_lock, its_slots) = (sim.clone(), Rc::clone(&lock), Rc::clone(&slots));
        sim.spawn("other", move || {
            let _slot = its_slots.local();
            its_sim.compute(Nanos(10_000));
            drop(its_lock.lock());
        });
        let _guard = lock.lock();
        sim.compute(Nanos(5000));
        slots.for_each_cpu(|()| ());
    });
    assert_says(&failure, &["deadlock", "main: spins for per_cpu", "other: spins for lru"]);
}

#[test]
fn shutdown_ends_tasks_that_sleep_for_ever() {
    let ended = Rc::new(Cell::new(0));
    let count = Rc::clone(&ended);
    run(Config::uniform(2, 10), move |sim| {
        let queue = Rc::new(sim.wait_queue());
        for number in 0..5 {
            let (daemon, queue, ended) = (sim.clone(), Rc::clone(&queue), Rc::clone(&count));
            sim.spawn("daemon", move || {
                while !daemon.is_killed() {
                    daemon.sleep(&queue, daemon.ticket(&queue), None);
                    daemon.pause(Nanos::from_secs(number));
                }
                ended.set(ended.get() + 1);
            });
        }
        sim.pause(Nanos::from_millis(10));
    })
    .unwrap();
    assert_eq!(ended.get(), 5);
}

/// A receiver of completions that sets a flag when a request has ended.
struct Noting(Rc<Cell<bool>>);

impl Completions for Noting {
    fn complete(&self, _: Request, _: Result<(), IoError>) {
        self.0.set(true);
    }
}

#[test]
fn a_killed_task_that_waits_for_what_it_holds_back_lets_go_of_it() {
    let written = Rc::new(Cell::new(false));
    let sim = Sim::new(Config { disks: vec![hard_disk()], ..Config::uniform(2, 10) });
    sim.attach(Rc::new(Noting(Rc::clone(&written))));
    let (machine, its_written) = (sim.clone(), Rc::clone(&written));
    sim.run("main", move || {
        let daemon = machine.clone();
        machine.spawn("kswapd0", move || {
            while !daemon.is_killed() {
                daemon.pause(Nanos::from_secs(1));
            }
            daemon.plugged(|| {
                let frames = vec![FrameNumber(0)];
                let (device, operation) = (DeviceId(0), Operation::Write);
                daemon.submit(Request { device, operation, block: 0, frames, is_sync: false });
                while !its_written.get() {
                    daemon.pause(Nanos(1000));
                }
            });
        });
        machine.pause(Nanos::from_millis(10));
    })
    .unwrap();
    assert!(written.get());
}

#[test]
fn a_task_that_does_not_end_is_named_with_its_path() {
    let failure = run(Config { shutdown_limit: Nanos::from_millis(100), ..Config::uniform(2, 10) }, |sim| {
        let daemon = sim.clone();
        sim.spawn("kswapd0", move || {
            let _span = daemon.span(Func::Kswapd);
            let queue = daemon.wait_queue();
            loop {
                daemon.sleep(&queue, daemon.ticket(&queue), None);
            }
        });
        sim.pause(Nanos(1000));
    })
    .unwrap_err();
    assert_says(&failure, &["after the main task returned", "kswapd0:", "kswapd0;kswapd"]);
}

#[test]
fn a_time_limit_ends_a_run() {
    let config = Config { time_limit: Some(Nanos::from_secs(1)), ..Config::uniform(1, 10) };
    let failure = run(config, |sim| {
        loop {
            sim.spend(Step::ScanPage, 1);
        }
    })
    .unwrap_err();
    assert_says(&failure, &["time limit", "main: runs"]);
    assert_eq!(failure.time, Nanos::from_secs(1));
}

struct Careless(Sim, LockClass);

impl Completions for Careless {
    fn complete(&self, _: Request, _: Result<(), IoError>) {
        drop(self.0.lock(self.1, ()).lock());
        self.0.pause(Nanos(1));
    }
}

#[test]
fn what_a_completion_may_not_do_is_reported() {
    for (class, words) in [
        (LockClass::Lru, "pause in an interrupt handler"),
        (LockClass::Swap, "lock `swap` taken in an interrupt handler"),
    ] {
        let sim = Sim::new(Config { disks: vec![hard_disk()], ..Config::uniform(2, 10) });
        sim.attach(Rc::new(Careless(sim.clone(), class)));
        let machine = sim.clone();
        let failure = sim
            .run("main", move || {
                let frames = vec![FrameNumber(0)];
                machine.submit(Request {
                    device: DeviceId(0),
                    operation: Operation::Write,
                    block: 0,
                    frames,
                    is_sync: false,
                });
                machine.pause(Nanos::from_secs(1));
            })
            .unwrap_err();
        assert_says(&failure, &[words]);
        assert_eq!(failure.task.as_deref(), Some("interrupt"));
    }
}

#[test]
fn everything_that_does_not_sleep_may_be_done_outside_of_tasks() {
    let sim = Sim::new(Config::uniform(2, 10));
    let lock = Rc::new(sim.lock(LockClass::Lru, 1));
    let slots = Rc::new(sim.per_cpu(|cpu| cpu));
    let look = || {
        let _span = sim.span(Func::Kswapd);
        *lock.lock() += 1;
        *slots.local() += 1;
        sim.spend(Step::ScanPage, 5);
        sim.compute(Nanos(100));
        sim.wake(sim.uncongested());
        assert!(!sim.is_killed());
    };
    look();
    assert_eq!(sim.now(), Nanos(0));
    let (machine, its_lock) = (sim.clone(), Rc::clone(&lock));
    sim.run("main", move || {
        *its_lock.lock() += 1;
        machine.compute(Nanos(1000));
    })
    .unwrap();
    let ended = sim.now();
    assert!(ended >= Nanos(1000));
    look();
    assert_eq!((sim.now(), *lock.lock()), (ended, 4));
}

/// A task starts a scoped thread, which reads data on the task's stack. The machine fails, and the task never runs
/// again. The thread still runs, so the task's stack must not be freed or used again.
#[test]
fn a_thread_keeps_what_it_borrows_from_a_task_that_is_abandoned() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    static ENDED: AtomicBool = AtomicBool::new(false);
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let failure = failure(|sim| {
        let other = sim.clone();
        sim.spawn("borrower", move || {
            let lent = [7u64; 512];
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !ENDED.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    SEEN.store(lent.iter().sum(), Ordering::Release);
                });
                // This pause never ends.
                other.pause(Nanos(1_000_000));
            });
        });
        sim.pause(Nanos(1000));
        panic!("stop");
    });
    assert_says(&failure, &["stop"]);
    // If the stacks of the failed machine were freed, the new machine's stacks would get their addresses.
    run(Config::uniform(2, 10), |sim| sim.pause(Nanos(1000))).unwrap();
    ENDED.store(true, Ordering::Release);
    while SEEN.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(SEEN.load(Ordering::Acquire), 7 * 512);
}

/// A simulated machine may run inside a task of another machine. The inner machine has stacks of its own. A task of the
/// outer machine must not wait on these stacks.
#[test]
fn a_task_that_waits_on_another_machines_stack_is_reported() {
    let failure = failure(|sim| {
        let (outer, inner) = (sim.clone(), Sim::new(Config::uniform(1, 10)));
        let ended = inner.run("inner", move || outer.pause(Nanos(1000)));
        panic!("inside: {}", ended.expect_err("a failure"));
    });
    assert_says(&failure, &["waits on the stack of another"]);
}

#[test]
#[should_panic(expected = "a machine runs once")]
fn a_machine_that_is_run_by_who_observes_it_is_reported() {
    let sim = Sim::new(Config::uniform(1, 10));
    let inner = sim.clone();
    sim.observe(Nanos(10), move |_| inner.run("again", || {}).unwrap());
    let machine = sim.clone();
    let _ = sim.run("main", move || machine.pause(Nanos(1000)));
}

/// A task runs a second simulated machine on its stack, and within it tries to pause on its own machine. This is not
/// allowed and panics. The task catches the panic and continues. Its own machine must not treat it as asleep, or resume
/// it a second time.
#[test]
fn a_task_that_may_not_wait_has_not_begun_to() {
    run(Config::uniform(2, 10), |sim| {
        let (outer, inner) = (sim.clone(), Sim::new(Config::uniform(1, 10)));
        inner.run("inner", move || outer.pause(Nanos(1000))).expect_err("a failure");
        let slots = sim.per_cpu(|_| ());
        let here = slots.local();
        sim.compute(Nanos(100_000));
        let slept = sim.now();
        drop(here);
        sim.pause(Nanos(1000));
        assert!(sim.now() >= slept + Nanos(1000));
    })
    .unwrap();
}

/// A task that runs on a stack of another machine must not wait for a lock: it panics. After the panic, the task is not
/// in the lock's queue.
#[test]
fn a_task_that_may_not_spin_is_not_in_the_queue_of_the_lock() {
    let is_contended = Rc::new(Cell::new(None));
    let seen = Rc::clone(&is_contended);
    failure(move |sim| {
        let lock = Rc::new(sim.lock(LockClass::Lru, ()));
        let (holder, its_lock) = (sim.clone(), Rc::clone(&lock));
        sim.spawn("holder", move || {
            let _held = its_lock.lock();
            holder.compute(Nanos(100_000));
        });
        sim.compute(Nanos(1000));
        let (wanted, inner) = (Rc::clone(&lock), Sim::new(Config::uniform(1, 10)));
        let failure = inner.run("inner", move || drop(wanted.lock())).expect_err("a failure");
        assert_says(&failure, &["waits on the stack of another"]);
        seen.set(Some(lock.is_contended()));
        panic!("stop");
    });
    assert_eq!(is_contended.get(), Some(false));
}

/// A lock is taken before the run and released by a task during the run. The task's count of held locks does not
/// change.
#[test]
fn a_guard_from_before_the_run_is_nothing_that_a_task_holds() {
    let sim = Sim::new(Config::uniform(2, 10));
    let before: &'static _ = Box::leak(Box::new(sim.lock(LockClass::Lru, ())));
    let guard = before.lock();
    let machine = sim.clone();
    let failure = sim
        .run("main", move || {
            let lock = machine.lock(LockClass::Lru, ());
            let _held = lock.lock();
            drop(guard);
            drop(lock.lock());
        })
        .expect_err("a failure");
    assert_says(&failure, &["lock `lru` taken while holding lock `lru`"]);
    let sim = Sim::new(Config::uniform(2, 10));
    let before: &'static _ = Box::leak(Box::new(sim.per_cpu(|_| ())));
    let slot = before.local();
    let machine = sim.clone();
    let failure = sim.run("main", move || {
        let slots = machine.per_cpu(|_| ());
        let _held = slots.local();
        drop(slot);
        machine.pause(Nanos(1));
    });
    assert_says(&failure.expect_err("a failure"), &["pause while holding a per-CPU slot"]);
}

/// A guard is passed to a task on another CPU and dropped there. This is reported, because otherwise the counts of held
/// locks of both tasks would be wrong.
#[test]
fn a_guard_that_another_task_drops_is_reported() {
    let failure = failure(|sim| {
        let lock: &'static _ = Box::leak(Box::new(sim.lock(LockClass::Lru, ())));
        let place = Rc::new(Cell::new(Some(lock.lock())));
        sim.spawn("other", {
            let place = Rc::clone(&place);
            move || drop(place.take())
        });
        sim.compute(Nanos(100_000));
    });
    assert_says(&failure, &["`lru` is released by who does not hold it"]);
}

/// Combines two misuses of the simulator: a run within a run, and the release of a lock that was taken before the run.
/// Together they once gave a task two guards of one lock at the same time.
#[test]
fn no_task_has_two_guards_of_one_lock() {
    let sim = Sim::new(Config::uniform(2, 10));
    let before: &'static _ = Box::leak(Box::new(sim.lock(LockClass::Lru, ())));
    let lock: &'static _ = Box::leak(Box::new(sim.lock(LockClass::Lru, 7)));
    let (guard, machine) = (before.lock(), sim.clone());
    let both = Rc::new(Cell::new(false));
    let had_both = Rc::clone(&both);
    let failure = sim.run("main", move || {
        let (outer, inner) = (machine.clone(), Sim::new(Config::uniform(1, 10)));
        inner.run("inner", move || outer.pause(Nanos(1000))).expect_err("a failure");
        let first = lock.lock();
        drop(guard);
        let second = lock.lock();
        had_both.set(true);
        drop((first, second));
    });
    assert!(!both.get() && failure.is_err(), "{failure:?}");
}
