//! Tests that equal seeds give equal runs, whatever else the computer runs, and that different seeds give different
//! runs.

mod common;

use common::hard_disk;
use machine::{Completions, DeviceId, FrameNumber, Func, IoError, Lock, LockClass, Machine, Nanos, Operation, PerCpu};
use machine::{Observe, Request, Step};
use sim::{Config, Decisions, Interleaving, LockFairness, Pct, Perturb, Sim};
use std::rc::Rc;
use std::sync::Arc;

struct Shared {
    sim: Sim,
    lru: <Sim as Machine>::Lock<u64>,
    slots: <Sim as Machine>::PerCpu<u64>,
    done: sim::WaitQueue,
}

struct Complete(Rc<Shared>);

impl Completions for Complete {
    fn complete(&self, request: Request, _: Result<(), IoError>) {
        *self.0.lru.lock() += request.frames.len() as u64;
        self.0.sim.wake(&self.0.done);
    }
}

/// Returns the fingerprint, end and profile of a run, as [`run`] does, and its decisions.
fn run_kept(config: Config) -> ((u64, Nanos, Vec<String>), Decisions) {
    let sim = machine_of(config);
    (run_on(&sim), sim.decisions())
}

/// Runs tasks that lock, compute, sleep, and read and write a disk. Returns the fingerprint, the end and the profile.
fn run(config: Config) -> (u64, Nanos, Vec<String>) {
    run_on(&machine_of(config))
}

fn machine_of(config: Config) -> Sim {
    Sim::new(Config { disks: vec![hard_disk()], frames: 64, ..config })
}

fn run_on(sim: &Sim) -> (u64, Nanos, Vec<String>) {
    let shared = Rc::new(Shared {
        sim: sim.clone(),
        lru: sim.lock(LockClass::Lru, 0),
        slots: sim.per_cpu(|_| 0),
        done: sim.wait_queue(),
    });
    sim.attach(Rc::new(Complete(Rc::clone(&shared))));
    let spawn = |number: u32| {
        let shared = Rc::clone(&shared);
        sim.spawn(&format!("task{}", number % 3), move || work(&shared, number))
    };
    let tasks: Vec<_> = (0..12).map(spawn).collect();
    common::run_tasks(sim, &tasks).unwrap();
    sim.mix(*shared.lru.lock());
    (sim.fingerprint(), sim.now(), sim.profile())
}

fn work(shared: &Shared, number: u32) {
    let sim = &shared.sim;
    for round in 0..50u64 {
        let _span = sim.span(Func::ShrinkLruvec);
        let draw = sim.with_rng(|rng| rng.below(100));
        {
            let mut lru = shared.lru.lock();
            sim.spend(Step::ScanPage, draw as u32);
            *lru += draw;
        }
        *shared.slots.local() += draw;
        if draw < 10 {
            shared.slots.for_each_cpu(|slot| {
                sim.spend(Step::LruMove, 1);
                *slot = 0;
            });
        }
        if draw < 20 {
            let operation = if draw < 10 { Operation::Read } else { Operation::Write };
            let frames = vec![FrameNumber(number)];
            let ticket = sim.ticket(&shared.done);
            let block = draw * 1_000_000 + round;
            sim.submit(Request { device: DeviceId(0), operation, block, frames, is_sync: true });
            sim.sleep(&shared.done, ticket, Some(sim.now() + Nanos::from_millis(5)));
        }
        sim.compute(Nanos(draw * 10_000));
    }
}

fn configs(seed: u64) -> Vec<Config> {
    let disturbed = Perturb { delay_chance: 3000, delay_max: Nanos(5000), yield_chance: 3000 };
    let base = Config { seed, ..Config::uniform(4, 50) };
    vec![
        base.clone(),
        Config { stamps: true, ..base.clone() },
        Config { lock_fairness: LockFairness::Random, ..base.clone() },
        Config { interleaving: Interleaving::Perturbed(disturbed), ..base.clone() },
        Config { interleaving: Interleaving::ByPriority(Pct { depth: 4, steps: 20_000, patience: 5000 }), ..base },
    ]
}

#[test]
fn two_runs_and_two_threads_side_by_side_are_equal() {
    let first: Vec<_> = configs(1).into_iter().map(run).collect();
    let threads: Vec<_> =
        (0..2).map(|_| std::thread::spawn(|| configs(1).into_iter().map(run).collect::<Vec<_>>())).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), first);
    }
    assert_eq!(first[0], first[1], "stamps take no virtual time");
    assert_ne!(first[0].0, first[3].0, "a disturbed run is another run");
}

#[test]
fn another_seed_is_another_run() {
    assert_ne!(run(configs(1).remove(0)).0, run(configs(2).remove(0)).0);
    for disturbed in [3, 4] {
        let ends: std::collections::BTreeSet<u64> =
            (0..20).map(|seed| run(configs(seed).remove(disturbed)).0).collect();
        assert_eq!(ends.len(), 20);
    }
}

#[test]
fn a_tasks_generator_depends_on_the_seed_and_its_number_only() {
    let draw = |seed, cpus| {
        let sim = Sim::new(Config { seed, ..Config::uniform(cpus, 10) });
        let drawn = Rc::new(std::cell::RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (machine, drawn) = (sim.clone(), Rc::clone(&drawn));
                sim.spawn("task", move || {
                    let number = machine.with_rng(|rng| rng.next_u64());
                    let id = machine.current().unwrap();
                    drawn.borrow_mut().push((id, number, machine.task_rng().next_u64()));
                })
            })
            .collect();
        common::run_tasks(&sim, &tasks).unwrap();
        let mut drawn = drawn.take();
        drawn.sort_unstable();
        drawn
    };
    assert_eq!(draw(1, 1), draw(1, 4));
    assert_ne!(draw(1, 1), draw(2, 1));
}

#[test]
fn a_run_is_the_same_from_its_decisions() {
    for config in configs(7) {
        let kept = run_kept(Config { keep_decisions: true, ..config.clone() });
        assert_eq!(kept.0, run(config.clone()), "keeping takes no virtual time");
        let interleaving = Interleaving::Replayed(Arc::new(kept.1.clone()));
        assert_eq!(run_kept(Config { keep_decisions: true, interleaving, ..config }), kept);
    }
}
