//! Tests of virtual time: the order of tasks, their waits for each other, and the effect of interrupts.

mod common;

use common::{free_kernel, hard_disk, now, run_tasks};
use machine::{
    Completions, DeviceId, FrameNumber, Func, IoError, Lock, LockClass, Machine, Nanos, Observe, Operation, PerCpu,
    Request, Step,
};
use sim::{Config, LockFairness, Scheduler, Sim, TaskId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A list to which tasks append.
type Log<T> = Rc<RefCell<Vec<T>>>;

/// Spawns `tasks` tasks that share a log.
fn spawn_all<T: 'static>(
    sim: &Sim,
    tasks: u64,
    act: impl Fn(&Sim, u64, &Log<T>) + Clone + 'static,
) -> (Vec<TaskId>, Log<T>) {
    let log: Log<T> = Rc::default();
    let spawn = |number| {
        let (sim, act, log) = (sim.clone(), act.clone(), Rc::clone(&log));
        sim.clone().spawn("worker", move || act(&sim, number, &log))
    };
    ((0..tasks).map(spawn).collect(), log)
}

#[test]
fn shared_state_changes_in_the_order_of_virtual_time() {
    for cpus in [2, 3, 8, 64] {
        let sim = Sim::new(free_kernel(cpus));
        let (tasks, log) = spawn_all(&sim, cpus as u64, |sim, number, log| {
            for step in 0..100 {
                sim.spend(Step::ScanPage, 1 + (number * 7 + step * 3) as u32 % 5);
                log.borrow_mut().push((now(sim), number));
            }
        });
        run_tasks(&sim, &tasks).unwrap();
        let log = log.borrow();
        assert_eq!(log.len(), 100 * cpus);
        assert!(log.is_sorted(), "equal times go by CPU");
    }
}

#[test]
fn costs_add_up_on_each_cpu_by_itself() {
    let sim = Sim::new(free_kernel(2));
    let (tasks, log) = spawn_all(&sim, 2, |sim, number, log| {
        for _ in 0..10 {
            sim.spend(Step::ScanPage, 1 + number as u32);
        }
        sim.compute(Nanos(500));
        log.borrow_mut().push((number, now(sim)));
    });
    run_tasks(&sim, &tasks).unwrap();
    assert_eq!(*log.borrow(), [(0, 10_500), (1, 20_500)]);
    assert_eq!(sim.cpu_time(tasks[1]), Nanos(20_500));
    assert_eq!(sim.profile(), ["worker 30000", "worker;user 1000"]);
}

/// A task on CPU 0 holds a lock for 100 us. Meanwhile seven tasks on the other CPUs come one after the other, and each
/// wants to hold the lock for 1 us. Returns the order in which the tasks got the lock.
fn lock_order(fairness: LockFairness, seed: u64) -> Vec<u64> {
    let sim = Sim::new(Config { lock_fairness: fairness, seed, ..free_kernel(8) });
    let lock = Rc::new(sim.lock(LockClass::Lru, ()));
    let (tasks, log) = spawn_all(&sim, 8, move |sim, number, log| {
        sim.compute(Nanos(number * 1000));
        let _guard = lock.lock();
        sim.compute(Nanos(if number == 0 { 100_000 } else { 1000 }));
        log.borrow_mut().push(number);
    });
    run_tasks(&sim, &tasks).unwrap();
    let lru = &sim.lock_statistics()[LockClass::Lru as usize];
    assert_eq!((lru.class, lru.acquisitions, lru.contended), ("lru", 8, 7));
    assert_eq!(lru.hold_max, Nanos(100_000));
    assert_eq!(lru.hold_total, Nanos(107_000));
    let waited: u64 = (1..8).map(|number| 100_000 - number * 1000 + (number - 1) * 1000).sum();
    assert_eq!(lru.wait_total, Nanos(waited), "the sum does not depend on the order");
    assert!(sim.profile().contains(&format!("worker;_raw_spin_lock {waited}")), "{:?}", sim.profile());
    log.take()
}

#[test]
fn a_fair_lock_goes_to_whoever_waited_longest() {
    assert_eq!(lock_order(LockFairness::Fifo, 1), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn an_unfair_lock_goes_to_a_winner_that_the_seed_draws() {
    let orders: Vec<_> = (0..10).map(|seed| lock_order(LockFairness::Random, seed)).collect();
    assert!(orders.iter().any(|order| *order != orders[0]), "all seeds draw alike: {:?}", orders[0]);
    assert!(orders.iter().any(|order| !order.is_sorted()));
    assert_eq!(lock_order(LockFairness::Random, 3), orders[3]);
}

#[test]
fn a_handover_costs_the_waiter_and_a_free_lock_its_taker() {
    let mut config = free_kernel(2);
    config.cost = config.cost.with(Step::LockAcquire, 20).with(Step::LockHandover, 300);
    let sim = Sim::new(config);
    let lock = Rc::new(sim.lock(LockClass::Table, ()));
    let (tasks, log) = spawn_all(&sim, 2, move |sim, number, log| {
        sim.compute(Nanos(number));
        let _guard = lock.lock();
        log.borrow_mut().push(now(sim));
        sim.compute(Nanos(1000));
    });
    run_tasks(&sim, &tasks).unwrap();
    assert_eq!(*log.borrow(), [20, 1020 + 300]);
}

/// Two CPUs take turns with a lock. Each time, the CPU waits until the lock's cache lines have travelled from the other
/// CPU, whether it had to wait for the lock or not. A CPU that held the lock last does not wait for lines. The wait for
/// lines does not count as a wait for the lock.
#[test]
fn what_another_cpu_had_last_travels() {
    let mut by_lock = [0; LockClass::ALL.len()];
    by_lock[LockClass::IPages as usize] = 5;
    let sim = Sim::new(Config {
        cache_lines: Some(sim::CacheLines { travel: Nanos(100), by_lock, by_frame: 2 }),
        frames: 8,
        ..free_kernel(2)
    });
    let (index, list) = (Rc::new(sim.lock(LockClass::IPages, ())), Rc::new(sim.lock(LockClass::Lru, ())));
    let (tasks, log) = spawn_all(&sim, 2, move |sim, number, log| {
        sim.compute(Nanos(number * 10));
        for _ in 0..2 {
            // Each task waits while the other holds the lock, so the lock goes back and forth.
            let _guard = index.lock();
            sim.compute(Nanos(1000));
            log.borrow_mut().push((number, now(sim)));
        }
        drop(list.lock());
        sim.spend_on(Step::PteSet, FrameNumber(3), 1);
        log.borrow_mut().push((number, now(sim)));
    });
    run_tasks(&sim, &tasks).unwrap();
    // With fair locks the tasks take turns: 0, 1, 0, 1. After the first time, each holder waits for the lock's lines.
    // The first CPU that touches the frame waits for no lines.
    let expected = [(0, 1000), (1, 2500), (0, 4000), (0, 4000), (1, 5500), (1, 5700)];
    assert_eq!(*log.borrow(), expected);
    let statistics = &sim.lock_statistics()[LockClass::IPages as usize];
    assert_eq!(statistics.hold_total, Nanos(5500), "with what travels");
    let waits = sim.lock_waits();
    assert_eq!(waits.iter().map(|wait| (&*wait.0, wait.1)).collect::<Vec<_>>(), [("worker", "i_pages")]);
    assert_eq!(waits[0].2, statistics.wait_total);
}

#[test]
fn a_visitor_of_a_slot_waits_for_its_holder_and_a_holder_for_its_visitor() {
    let sim = Sim::new(free_kernel(2));
    let slots = Rc::new(sim.per_cpu(|_| ()));
    let (tasks, log) = spawn_all(&sim, 2, move |sim, number, log| {
        if number == 0 {
            let guard = slots.local();
            sim.compute(Nanos(10_000));
            drop(guard);
            sim.compute(Nanos(5000));
            let _guard = slots.local();
            log.borrow_mut().push(("holder", now(sim)));
        } else {
            sim.compute(Nanos(1));
            slots.for_each_cpu(|()| {
                log.borrow_mut().push(("visitor", now(sim)));
                sim.compute(Nanos(20_000));
            });
        }
    });
    run_tasks(&sim, &tasks).unwrap();
    assert_eq!(*log.borrow(), [("visitor", 10_000), ("visitor", 30_000), ("holder", 30_000)]);
}

/// A receiver of completions that records the time of each completion, and takes some time for it.
struct Handler {
    sim: Sim,
    takes: Nanos,
    at: RefCell<Vec<u64>>,
    done: sim::WaitQueue,
}

impl Completions for Handler {
    fn complete(&self, _: Request, result: Result<(), IoError>) {
        assert_eq!(result, Ok(()));
        assert_eq!(self.sim.current(), None);
        self.at.borrow_mut().push(now(&self.sim));
        self.sim.compute(self.takes);
        self.sim.wake(&self.done);
    }
}

fn read_request(block: u64) -> Request {
    Request { device: DeviceId(0), operation: Operation::Read, block, frames: vec![FrameNumber(0)], is_sync: true }
}

/// Submits one read at time 0 and runs `act`. Returns when the interrupt was handled and when `act` ended.
fn read_while(cpus: usize, act: impl Fn(&Sim) + 'static) -> (u64, u64, Sim) {
    let sim = Sim::new(Config { disks: vec![hard_disk()], ..free_kernel(cpus) });
    let takes = Nanos(7000);
    let handler = Rc::new(Handler { sim: sim.clone(), takes, at: RefCell::default(), done: sim.wait_queue() });
    sim.attach(Rc::clone(&handler) as _);
    let end = Rc::new(RefCell::new(0));
    let (machine, ended) = (sim.clone(), Rc::clone(&end));
    sim.run("main", move || {
        machine.submit(read_request(1_000_000));
        act(&machine);
        *ended.borrow_mut() = now(&machine);
    })
    .unwrap();
    let at = handler.at.borrow()[0];
    let end = *end.borrow();
    (at, end, sim)
}

#[test]
fn an_interrupt_splits_a_long_spend() {
    let (at, end, sim) = read_while(1, |sim| sim.compute(Nanos::from_secs(1)));
    assert!(at < 30_000_000, "it waited for the end of the spend: {at}");
    assert_eq!(end, 1_000_000_000 + 7000, "the spend takes as much longer as the handler took");
    assert!(sim.profile().contains(&"main;user 1000000000".to_string()), "{:?}", sim.profile());
    assert!(sim.profile().contains(&"interrupt;end_bio_bh_io_sync;user 7000".to_string()));
    assert_eq!(sim.cpu_statistics()[0].interrupt, Nanos(7000));
}

#[test]
fn an_interrupt_waits_while_interrupts_are_off() {
    let (free, ..) = read_while(1, |sim| sim.compute(Nanos::from_secs(1)));
    let (at, end, sim) = read_while(1, |sim| {
        let lock = sim.lock(LockClass::Lru, ());
        let guard = lock.lock();
        sim.compute(Nanos::from_secs(1));
        drop(guard);
        assert_eq!(now(sim), 1_000_000_000 + 7000, "the handler runs before the task goes on");
    });
    assert!(free < 30_000_000);
    assert_eq!((at, end), (1_000_000_000, 1_000_007_000));
    let lru = &sim.mask_statistics()[LockClass::Lru as usize];
    assert_eq!((lru.cause, lru.count, lru.max), ("lru", 1, Nanos::from_secs(1)));
    // A lock that leaves interrupts on delays nothing.
    let (at, ..) = read_while(1, |sim| {
        let lock = sim.lock(LockClass::PageTable, ());
        let _guard = lock.lock();
        sim.compute(Nanos::from_secs(1));
    });
    assert_eq!(at, free);
    // A slot delays the interrupt.
    let (at, ..) = read_while(1, |sim| {
        let slots = sim.per_cpu(|_| ());
        let _slot = slots.local();
        sim.compute(Nanos::from_secs(1));
    });
    assert_eq!(at, 1_000_000_000);
}

#[test]
fn a_spinner_with_interrupts_on_takes_the_interrupt_and_then_the_lock() {
    let sim = Sim::new(Config { disks: vec![hard_disk()], ..free_kernel(2) });
    let takes = Nanos(7000);
    let handler = Rc::new(Handler { sim: sim.clone(), takes, at: RefCell::default(), done: sim.wait_queue() });
    sim.attach(Rc::clone(&handler) as _);
    let lock = Rc::new(sim.lock(LockClass::PageTable, ()));
    let (tasks, log) = spawn_all(&sim, 2, move |sim, number, log| {
        if number == 1 {
            let _guard = lock.lock();
            sim.compute(Nanos::from_millis(100));
        } else {
            sim.submit(read_request(1_000_000));
            sim.compute(Nanos(1000));
            let _guard = lock.lock();
            log.borrow_mut().push(now(sim));
        }
    });
    run_tasks(&sim, &tasks).unwrap();
    assert!(handler.at.borrow()[0] < 30_000_000);
    assert_eq!(*log.borrow(), [100_000_000]);
}

#[test]
fn a_handler_wakes_the_reader() {
    let sim = Sim::new(Config { disks: vec![hard_disk()], ..free_kernel(4) });
    let handler =
        Rc::new(Handler { sim: sim.clone(), takes: Nanos(10), at: RefCell::default(), done: sim.wait_queue() });
    sim.attach(Rc::clone(&handler) as _);
    let reader = sim.clone();
    let waiting = Rc::clone(&handler);
    sim.run("main", move || {
        for number in 0..100 {
            let ticket = reader.ticket(&waiting.done);
            reader.submit(read_request(number * 1_000_003 % 100_000_000));
            reader.sleep(&waiting.done, ticket, None);
            assert_eq!(waiting.at.borrow().len() as u64, number + 1);
        }
    })
    .unwrap();
    assert_eq!(sim.disk_statistics(DeviceId(0)).reads.ios, 100);
    assert!(sim.now() > Nanos::from_millis(400), "a hard disk seeks: {}", sim.now());
}

#[test]
fn tasks_of_one_cpu_share_it_evenly() {
    let sim = Sim::new(free_kernel(1));
    let (tasks, log) = spawn_all(&sim, 4, |sim, number, log| {
        sim.compute(Nanos::from_millis(400));
        log.borrow_mut().push((number, now(sim)));
    });
    run_tasks(&sim, &tasks).unwrap();
    let log = log.borrow();
    assert_eq!(log.last().unwrap().1, 1_600_000_000, "no time is lost");
    for &(number, end) in log.iter() {
        assert!(end > 1_580_000_000, "task {number} ended at {end} ns: it had more than its share");
    }
    assert!(sim.cpu_statistics()[0].switches >= 390);
}

#[test]
fn a_task_is_not_put_off_while_it_holds_a_lock() {
    let sim = Sim::new(free_kernel(1));
    let lock = Rc::new(sim.lock(LockClass::PageTable, ()));
    let (tasks, log) = spawn_all(&sim, 2, move |sim, number, log| {
        let guard = lock.lock();
        sim.compute(Nanos::from_millis(100));
        log.borrow_mut().push(now(sim));
        drop(guard);
        sim.compute(Nanos(1000 + number));
    });
    run_tasks(&sim, &tasks).unwrap();
    assert_eq!(*log.borrow(), [100_000_000, 200_000_000], "each has its 100 ms in one piece");
}

#[test]
fn a_sleeper_that_wakes_gets_the_cpu_from_a_hog() {
    let sim = Sim::new(free_kernel(1));
    let (tasks, log) = spawn_all(&sim, 2, |sim, number, log| {
        if number == 0 {
            sim.compute(Nanos::from_millis(500));
        } else {
            for _ in 0..20 {
                sim.pause(Nanos::from_millis(10));
                log.borrow_mut().push(now(sim));
            }
        }
    });
    run_tasks(&sim, &tasks).unwrap();
    for pair in log.borrow().windows(2) {
        assert!(pair[1] - pair[0] < 12_000_000, "woken after {} ns of 10 ms", pair[1] - pair[0]);
    }
}

#[test]
fn an_idle_cpu_takes_tasks_from_the_busiest() {
    let sim = Sim::new(free_kernel(4));
    let (tasks, _) = spawn_all(&sim, 16, |sim, number, _: &Log<()>| {
        // The last four tasks are long, so that CPUs run out of tasks at different times.
        sim.compute(Nanos::from_millis(if number < 12 { 10 } else { 40 }));
    });
    run_tasks(&sim, &tasks).unwrap();
    assert!(sim.now() < Nanos::from_millis(85), "4 CPUs took {} for 280 ms of work", sim.now());
    let idle: u64 = sim.cpu_statistics().iter().map(|cpu| cpu.idle.0).sum();
    assert_eq!(idle + 280_000_000, 4 * sim.now().0, "CPUs work or idle");
}

#[test]
fn switching_and_waking_cost_what_the_table_says() {
    let mut config = free_kernel(1);
    config.cost = config.cost.with(Step::ContextSwitch, 1500).with(Step::Wake, 700);
    config.scheduler = Scheduler { wakeup_granularity: Nanos::from_secs(1), ..Scheduler::default() };
    let sim = Sim::new(config);
    let queue = Rc::new(sim.wait_queue());
    let (tasks, log) = spawn_all(&sim, 2, move |sim, number, log| {
        if number == 0 {
            let ticket = sim.ticket(&queue);
            sim.sleep(&queue, ticket, None);
        } else {
            sim.wake(&queue);
        }
        log.borrow_mut().push((number, now(sim)));
    });
    run_tasks(&sim, &tasks).unwrap();
    // Task 0 comes on the CPU and sleeps. Task 1 comes on the CPU and wakes task 0, which continues when task 1 has
    // ended. The main task has waited for the CPU since before task 0 slept.
    assert_eq!(log.borrow()[0], (1, 1500 + 1500 + 700));
    assert_eq!(log.borrow()[1].0, 0);
    assert!(sim.profile().iter().any(|line| line.starts_with("worker;schedule ")), "{:?}", sim.profile());
}

#[test]
fn a_timer_ends_a_pause_to_the_nanosecond() {
    let sim = Sim::new(free_kernel(2));
    let (tasks, log) = spawn_all(&sim, 2, |sim, number, log| {
        sim.pause(Nanos(12_345 + number));
        log.borrow_mut().push(now(sim));
    });
    run_tasks(&sim, &tasks).unwrap();
    assert_eq!(*log.borrow(), [12_345, 12_346]);
    assert!(sim.sleep_profile().contains(&"worker 24691".to_string()), "{:?}", sim.sleep_profile());
}

#[test]
fn spans_nest_in_the_profile() {
    let sim = Sim::new(free_kernel(1));
    let machine = sim.clone();
    sim.run("kswapd0", move || {
        let _outer = machine.span(Func::Kswapd);
        machine.spend(Step::ScanPage, 1);
        {
            let _inner = machine.span(Func::BalancePgdat);
            machine.spend(Step::ScanPage, 2);
        }
        machine.spend(Step::ScanPage, 3);
    })
    .unwrap();
    assert_eq!(sim.profile(), ["kswapd0;kswapd 4000", "kswapd0;kswapd;balance_pgdat 2000"]);
}

#[test]
fn requests_under_way_complete_before_the_run_is_over() {
    let sim = Sim::new(Config { disks: vec![hard_disk()], ..free_kernel(2) });
    let handler =
        Rc::new(Handler { sim: sim.clone(), takes: Nanos(10), at: RefCell::default(), done: sim.wait_queue() });
    sim.attach(Rc::clone(&handler) as _);
    let machine = sim.clone();
    sim.run("main", move || (0..20).for_each(|number| machine.submit(read_request(number * 1_000_003)))).unwrap();
    assert_eq!(handler.at.borrow().len(), 20);
    assert_eq!(Rc::strong_count(&handler), 1, "the machine lets go of its completions");
}

#[test]
fn tasks_are_cheap_to_start() {
    let sim = Sim::new(Config::uniform(4, 10));
    let machine = sim.clone();
    sim.run("main", move || {
        for _ in 0..20_000 {
            let inner = machine.clone();
            let task = machine.spawn("child", move || inner.compute(Nanos(100)));
            assert!(machine.join(task));
            assert!(machine.is_finished(task));
        }
    })
    .unwrap();
}

#[test]
fn who_observes_changes_nothing() {
    let run = |every: Option<Nanos>| {
        let sim = Sim::new(free_kernel(2));
        let seen: Log<u64> = Rc::default();
        let owner = Rc::new(());
        let end: Rc<Cell<Option<u64>>> = Rc::default();
        if let Some(every) = every {
            let (end, owned) = (Rc::clone(&end), (sim.clone(), Rc::clone(&owner)));
            sim.observe_end(move |now| {
                let _ = &owned;
                end.set(Some(now.0));
            });
            let (seen, owned) = (Rc::clone(&seen), (sim.clone(), Rc::clone(&owner)));
            sim.observe(every, move |now| {
                let _ = &owned;
                seen.borrow_mut().push(now.0);
            });
        }
        let (tasks, _) = spawn_all::<u64>(&sim, 3, |sim, number, _| {
            for _ in 0..10 {
                sim.spend(Step::ScanPage, 100);
                sim.pause(Nanos(1000 + number));
            }
        });
        run_tasks(&sim, &tasks).unwrap();
        assert_eq!(Rc::strong_count(&owner), 1, "an observer that owns the machine is let go when the run is over");
        (sim.fingerprint(), seen.take(), end.get())
    };
    let (alone, ..) = run(None);
    let (observed, seen, end) = run(Some(Nanos(2500)));
    // After the main task has ended, at most one more observation comes, because the other tasks end soon.
    let after_end = end.map(|end| seen.iter().filter(|now| **now > end).count());
    assert!(after_end.is_some_and(|after| after <= 1), "{end:?} {seen:?}");
    assert_eq!(alone, observed);
    assert!(seen.len() >= 3 && seen.is_sorted(), "{seen:?}");
    let beats: Vec<u64> = seen.iter().map(|now| now / 2500).collect();
    assert!(beats.windows(2).all(|pair| pair[0] < pair[1]), "at most one look each time: {seen:?}");
}

/// The statistics of interrupts are reset during a run. Interrupts before the reset are no longer counted; only the CPU
/// time of handlers is kept.
#[test]
fn statistics_of_interrupts_begin_anew() {
    let (_, _, sim) = read_while(1, |sim| {
        let lock = sim.lock(LockClass::Lru, ());
        let hold = |time| {
            let guard = lock.lock();
            sim.compute(time);
            drop(guard);
        };
        hold(Nanos::from_secs(1));
        assert_eq!(sim.cpu_statistics()[0].longest_off, Nanos(1_000_007_000));
        sim.restart_interrupt_statistics();
        hold(Nanos::from_millis(2));
    });
    let lru = &sim.mask_statistics()[LockClass::Lru as usize];
    assert_eq!((lru.count, lru.total, lru.max), (1, Nanos::from_millis(2), Nanos::from_millis(2)));
    assert_eq!(lru.by_log2_ns.iter().sum::<u64>(), 1);
    let cpu = sim.cpu_statistics()[0];
    assert_eq!((cpu.longest_off, cpu.handlers, cpu.handled_pages), (Nanos::from_millis(2), 0, 0));
    assert_eq!(cpu.interrupt, Nanos(7000), "time is not forgotten");
}
