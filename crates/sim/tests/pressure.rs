//! Pressure stall information of hand-computed schedules, to the microsecond.

mod common;

use common::free_kernel;
use machine::pressure::{Pressure, Trigger};
use machine::{Machine, Nanos, Observe, Stalled, WaitReason, Waiting};
use sim::{PressureReader, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Runs a main task on a machine whose context switches take no time. Returns the machine after the run.
fn run(cpus: usize, main: impl FnOnce(&Sim) + 'static) -> Sim {
    let sim = Sim::new(free_kernel(cpus));
    let own = sim.clone();
    sim.run("main", move || main(&own)).unwrap();
    sim
}

fn start(sim: &Sim, work: impl FnOnce(&Sim) + 'static) {
    let own = sim.clone();
    sim.spawn("worker", move || work(&own));
}

fn stall_for(sim: &Sim, time: Nanos) {
    let _stalled = Stalled::begin(sim);
    sim.pause(time);
}

/// Returns the total stall times `some` and `full` of a group, us.
fn totals(sim: &Sim, group: u16) -> [u64; 2] {
    let Pressure { some, full } = sim.pressure(group);
    [some.total_us, full.total_us]
}

/// Nested stalls of a task count once. If all other CPUs are idle, a single stalled task counts as *full* (PSI).
#[test]
fn one_task_stalled_of_one_is_full() {
    for cpus in [1, 4] {
        let sim = run(cpus, |sim| {
            let _outer = Stalled::begin(sim);
            stall_for(sim, ms(30));
        });
        assert_eq!(totals(&sim, 0), [30_000, 30_000]);
    }
}

/// One task of the CPU is stalled for 30 ms. During 10 ms of this time, another task works on the CPU, so the stall is
/// full for only 20 ms.
#[test]
fn a_task_that_runs_on_the_same_cpu_ends_full() {
    let sim = run(1, |sim| {
        start(sim, |sim| sim.compute(ms(10)));
        stall_for(sim, ms(30));
    });
    assert_eq!(totals(&sim, 0), [30_000, 20_000]);
}

/// One task is stalled for 30 ms on the first CPU, while another computes for 10 ms on the second. Stall times of CPUs
/// are averaged by time not idle. The first CPU is stalled for 30 of 30 ms, the second for 0 of 10 ms: (30 × 30 + 0 ×
/// 10) / (30 + 10) = 22.5 ms, both for some and for full.
#[test]
fn a_task_that_runs_on_another_cpu_has_its_cpus_weight() {
    let sim = run(2, |sim| {
        start(sim, |sim| sim.compute(ms(10)));
        stall_for(sim, ms(30));
    });
    assert_eq!(totals(&sim, 0), [22_500, 22_500]);
}

/// One task is stalled for 30 ms; another works for 10 ms and is then stalled for 20 ms. With two CPUs, the first CPU
/// is stalled for 30 of 30 ms and the second for 20 of 30 ms: (30 × 30 + 20 × 30) / (30 + 30) = 25 ms. With one CPU, a
/// task is stalled for all 30 ms (`some`). The stall is full for only 20 ms of them, because the other task works for
/// 10 ms.
#[test]
fn two_tasks_stalled_of_two() {
    for (cpus, expected) in [(2, [25_000, 25_000]), (1, [30_000, 20_000])] {
        let sim = run(cpus, |sim| {
            start(sim, |sim| {
                sim.compute(ms(10));
                stall_for(sim, ms(20));
            });
            stall_for(sim, ms(30));
        });
        assert_eq!(totals(&sim, 0), expected);
    }
}

/// On a machine with one CPU, a stalled task computes (reclaims) for 3 ms while another task waits for the CPU. These 3
/// ms count as *some* and as *full* (PSI), because the stalled task has the only CPU.
#[test]
fn a_cpu_that_a_stalled_task_has_is_stalled_in_full() {
    let sim = run(1, |sim| {
        start(sim, |sim| sim.compute(ms(5)));
        let stalled = Stalled::begin(sim);
        sim.compute(ms(3));
        drop(stalled);
        sim.pause(ms(10));
    });
    assert_eq!(totals(&sim, 0), [3000, 3000]);
}

/// One CPU has a stalled task for 30 ms. Meanwhile a task on the other CPU waits. A CPU whose task waits for block I/O
/// is not idle, so both CPUs have a weight of 30 ms: (30 × 30 + 0 × 30) / (30 + 30) = 15 ms. With another reason of the
/// wait the second CPU counts as idle, and the result is 30 ms.
#[test]
fn waits_for_block_io_have_weight() {
    for (reason, expected) in [(WaitReason::PageIo, 15_000), (WaitReason::FileWriteback, 30_000)] {
        let sim = run(2, move |sim| {
            start(sim, move |sim| {
                let _waiting = Waiting::begin(sim, reason);
                sim.pause(ms(30));
            });
            stall_for(sim, ms(30));
        });
        assert_eq!(totals(&sim, 0), [expected, expected], "{reason:?}");
    }
}

/// A task is stalled for 20 ms. It sleeps for the first 10 ms, and its CPU counts as the stalled one. From 5 ms to 25
/// ms another task computes on this CPU. So at 10 ms the stalled task wakes on the second CPU, and reclaims there for
/// 10 ms. The first CPU is not idle for 25 ms: some for 10 ms, full for 5 ms. The second CPU is not idle for 10 ms,
/// with some and full all the time. Stall times of CPUs are averaged by time not idle: some is (10 × 25 + 10 × 10) / 35
/// = 10 ms, and full is (5 × 25 + 10 × 10) / 35 = 6.428 ms.
#[test]
fn a_stall_goes_with_its_task_to_another_cpu() {
    let sim = run(2, |sim| {
        start(sim, |sim| {
            let _stalled = Stalled::begin(sim);
            sim.pause(ms(10));
            sim.compute(ms(10));
        });
        sim.pause(ms(5));
        start(sim, |sim| sim.compute(ms(20)));
        sim.pause(ms(40));
    });
    assert_eq!(totals(&sim, 0), [10_000, 6428]);
}

/// A stall of kswapd does not count as *some*. Work of kswapd does not end *full*, which lasts as long as the only
/// program is stalled.
#[test]
fn a_task_of_the_kernel_does_not_count() {
    let sim = run(1, |sim| {
        let kernel = |sim: &Sim, work: fn(&Sim)| {
            let own = sim.clone();
            sim.set_aside(sim.spawn("kswapd0", move || work(&own)));
        };
        kernel(sim, |sim| stall_for(sim, ms(90)));
        kernel(sim, |sim| sim.compute(ms(25)));
        stall_for(sim, ms(30));
        sim.pause(ms(100));
    });
    assert_eq!(totals(&sim, 0), [30_000, 30_000]);
}

/// Five times, a task is stalled for 1 s and then sleeps for 1 s. The averages over T = 10, 60 and 300 s, updated every
/// 2 s, are then 50 % × (1 - exp(-10 s/T)). They decay during the next 60 s without a stall.
#[test]
fn averages_decay_every_two_seconds() {
    let seen: Rc<RefCell<Vec<[f64; 3]>>> = Rc::default();
    let log = Rc::clone(&seen);
    run(2, move |sim| {
        for _ in 0..5 {
            stall_for(sim, ms(1000));
            sim.pause(ms(1000));
        }
        log.borrow_mut().push(sim.pressure(0).full.percent);
        sim.pause(ms(1999));
        log.borrow_mut().push(sim.pressure(0).some.percent);
        sim.pause(ms(58_001));
        log.borrow_mut().push(sim.pressure(0).some.percent);
    });
    let rounded: Vec<_> = seen.borrow().iter().map(|percent| percent.map(|it| (it * 1e4).round())).collect();
    let first = [316_060.0, 76_759.0, 16_392.0];
    assert_eq!(rounded, [first, first, [783.0, 28_238.0, 13_421.0]]);
}

/// Group 2 is a child of group 1, and group 3 is a sibling of group 1. A task of group 2 is stalled for 30 ms. For 10
/// ms of this time, a task of group 1 computes on the same CPU. For group 2, the stall is full for 30 ms. For group 1
/// and for the machine, it is full for 20 ms. Group 3 has no stall.
#[test]
fn a_task_counts_in_its_group_and_those_above() {
    let sim = run(1, |sim| {
        for (group, parent) in [(1, 0), (2, 1), (3, 0)] {
            sim.note_new_group(group, parent);
        }
        sim.note_group(1);
        start(sim, |sim| {
            sim.note_group(2);
            stall_for(sim, ms(30));
        });
        start(sim, |sim| sim.compute(ms(10)));
        sim.pause(ms(50));
    });
    let groups = [0, 1, 2, 3].map(|group| totals(&sim, group));
    assert_eq!(groups, [[30_000, 20_000], [30_000, 20_000], [30_000, 30_000], [0, 0]]);
}

/// A task is stalled for 10 ms in one group, and then for 7 ms in another, to which it moves during the stall. Each
/// group counts its part only. When a new group takes the number of an old one, its totals begin at 0.
#[test]
fn a_stalled_task_may_move() {
    let sim = run(1, |sim| {
        [1, 2].into_iter().for_each(|group| sim.note_new_group(group, 0));
        let _stalled = Stalled::begin(sim);
        sim.note_group(1);
        sim.pause(ms(10));
        sim.note_group(2);
        sim.pause(ms(7));
    });
    assert_eq!([0, 1, 2].map(|group| totals(&sim, group)[1]), [17_000, 10_000, 7000]);
    sim.note_new_group(1, 0);
    assert_eq!(totals(&sim, 1), [0, 0]);
}

/// The trigger is for 150 ms of *some* within a window of 1 s, and checks the stall time every 0.1 s. A task is stalled
/// from 0.25 s to 3 s. The first check that finds 150 ms is at 0.4 s. After that there is one event a second, the last
/// at 3.4 s. A later stall of 20 ms causes no event.
#[test]
fn a_trigger_has_at_most_one_event_in_a_window() {
    let events: Rc<RefCell<Vec<u64>>> = Rc::default();
    let log = Rc::clone(&events);
    run(2, move |sim| {
        let trigger: Trigger = "some 150000 1000000".parse().unwrap();
        let trigger = sim.pressure_trigger(0, trigger);
        start(sim, |sim| {
            sim.pause(ms(250));
            stall_for(sim, ms(2750));
            sim.pause(ms(3000));
            stall_for(sim, ms(20));
        });
        while sim.now() < ms(7000) {
            if sim.wait_for_pressure(&trigger, ms(7000).since(sim.now())) {
                log.borrow_mut().push(sim.now().0 / 1_000_000);
            }
        }
    });
    assert_eq!(*events.borrow(), [400, 1400, 2400, 3400]);
}

/// A pressure event that happened before a task waits for it ends the task's wait at once. It ends only one wait.
#[test]
fn an_event_waits_for_its_task() {
    run(2, |sim| {
        sim.note_new_group(1, 0);
        let trigger = |group| sim.pressure_trigger(group, "full 100000 500000".parse().unwrap());
        let (of_machine, of_group) = (trigger(0), trigger(1));
        stall_for(sim, ms(300));
        sim.pause(ms(5000));
        let before = sim.now();
        assert!(sim.wait_for_pressure(&of_machine, ms(100)) && sim.now() == before);
        assert!(!sim.wait_for_pressure(&of_machine, ms(100)) && sim.now() >= before + ms(100));
        assert!(!sim.wait_for_pressure(&of_group, ms(100)), "nobody in the group was stalled");
    });
}

/// An observer reads stall times at regular intervals, to record them. The run and the stall times that tasks read must
/// be the same as without it.
#[test]
fn reading_for_a_record_changes_no_figure() {
    let seen = |reads: bool| {
        let reader: Rc<RefCell<Option<PressureReader>>> = Rc::default();
        let calls = Rc::new(Cell::new(0));
        let count = Rc::clone(&calls);
        let sim = run(2, move |sim| {
            if reads {
                *reader.borrow_mut() = Some(sim.pressure_reader());
                let own = sim.clone();
                sim.observe(ms(1), move |_| {
                    let read = own.pressure_totals(reader.borrow_mut().as_mut().unwrap());
                    assert!(read[0] >= read[1]);
                    count.set(count.get() + 1);
                });
            }
            for n in 0..40 {
                start(sim, move |sim| sim.compute(Nanos(1_000_000 + n * 77_000)));
                stall_for(sim, Nanos(2_000_000 + n * 31_000));
                sim.pause(ms(1));
            }
        });
        assert_eq!(calls.get() > 50, reads);
        (totals(&sim, 0), sim.fingerprint())
    };
    assert_eq!(seen(true), seen(false));
}
