//! Speed of the simulation: steps per second of wall time.
//!
//! `small`: there is a task on each CPU, and all tasks make short steps of different lengths, so that after nearly
//! every step another CPU is next. `locked`: all tasks compete for one lock. Run: `cargo bench -p highwater-sim`. The
//! rate should be at least 15 M items/s.

use divan::counter::ItemsCount;
use machine::{Lock, LockClass, Machine, Nanos, Observe, Step};
use sim::{Config, Sim};
use std::rc::Rc;

fn main() {
    divan::main();
}

const STEPS: u32 = 1_000_000;

fn spawn_on_each_cpu(sim: &Sim, work: impl Fn(&Sim, u32) + Clone + 'static) {
    let tasks: Vec<_> = (0..sim.cpus() as u32)
        .map(|number| {
            let (sim, work) = (sim.clone(), work.clone());
            let inner = sim.clone();
            inner.spawn("worker", move || work(&sim, number))
        })
        .collect();
    let main = sim.clone();
    sim.run("main", move || {
        for task in tasks {
            main.join(task);
        }
    })
    .unwrap();
}

#[divan::bench(args = [1, 2, 8, 64], sample_count = 5)]
fn small(bencher: divan::Bencher, cpus: usize) {
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        let sim = Sim::new(Config::uniform(cpus, 10));
        spawn_on_each_cpu(&sim, move |sim, number| {
            for step in 0..STEPS / cpus as u32 {
                sim.spend(Step::ScanPage, 1 + (step ^ number) % 3);
            }
        });
        sim.fingerprint()
    });
}

#[divan::bench(sample_count = 5)]
fn nothing_else_runs(bencher: divan::Bencher) {
    bencher.counter(ItemsCount::new(100 * STEPS)).bench_local(|| {
        let sim = Sim::new(Config::uniform(1, 10));
        spawn_on_each_cpu(&sim, move |sim, _| {
            for step in 0..100 * STEPS {
                sim.spend(Step::ScanPage, divan::black_box(step % 4));
            }
        });
    });
}

#[divan::bench(args = [1, 8, 64], sample_count = 5)]
fn locked(bencher: divan::Bencher, cpus: usize) {
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        let sim = Sim::new(Config::uniform(cpus, 10));
        let lock = Rc::new(sim.lock(LockClass::Lru, 0u64));
        spawn_on_each_cpu(&sim, move |sim, _| {
            for _ in 0..STEPS / cpus as u32 {
                *lock.lock() += 1;
                sim.spend(Step::ScanPage, 1);
            }
        });
    });
}

#[divan::bench(sample_count = 5)]
fn spans(bencher: divan::Bencher) {
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        let sim = Sim::new(Config::uniform(1, 10));
        spawn_on_each_cpu(&sim, move |sim, _| {
            for _ in 0..STEPS {
                let _span = sim.span(machine::Func::ShrinkLruvec);
                sim.spend(Step::ScanPage, 1);
            }
        });
    });
}

#[divan::bench(sample_count = 5)]
fn context_switches(bencher: divan::Bencher) {
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        let sim = Sim::new(Config::uniform(4, 10));
        spawn_on_each_cpu(&sim, move |sim, number| {
            for _ in 0..STEPS / 4 {
                sim.pause(Nanos(100 + u64::from(number)));
            }
        });
    });
}
