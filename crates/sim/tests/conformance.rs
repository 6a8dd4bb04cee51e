//! Tests that the simulator passes the conformance suite of the trait `Machine`, with and without random delays of
//! steps, and with fair and random locks.

mod common;

use machine::conformance::{Act, FRAMES, Ground, Stage};
use machine::{Completions, IoError, Nanos, Request};
use sim::{Config, Interleaving, LockFairness, Pct, Perturb, Sim, TaskId};
use std::rc::Rc;

struct Receiver {
    sim: Sim,
    stage: Rc<Stage<Sim>>,
}

impl Completions for Receiver {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        self.stage.receive(&self.sim, request, result);
    }
}

fn config(cpus: usize) -> Config {
    let mut config = Config::uniform(cpus, 50);
    config.frames = FRAMES as usize;
    config.stamps = true;
    config.disks = vec![common::hard_disk()];
    config
}

fn run_on<G: Ground<Machine = Sim>>(config: Config, acts: &[Act<G>], check: Act<G>) {
    let sim = Sim::new(config);
    let stage = Rc::new(Stage::new(&sim));
    sim.attach(Rc::new(Receiver { sim: sim.clone(), stage: Rc::clone(&stage) }));
    let tasks: Vec<TaskId> = acts
        .iter()
        .enumerate()
        .map(|(number, &act)| {
            let (machine, stage) = (sim.clone(), Rc::clone(&stage));
            sim.spawn(&format!("task{number}"), move || act(&machine, &stage))
        })
        .collect();
    let machine = sim.clone();
    let outcome = sim.run("main", move || {
        for task in tasks {
            machine.join(task);
        }
        check(&machine, &stage);
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn kill(sim: &Sim, task: usize) {
    sim.kill(TaskId(task as u32));
}

macro_rules! ground {
    ($module:ident, $configs:expr) => {
        mod $module {
            use super::*;

            pub struct Simulated;

            impl Ground for Simulated {
                type Machine = Sim;

                fn run(acts: &[Act<Self>], check: Act<Self>) {
                    for config in $configs {
                        run_on::<Self>(config, acts, check);
                    }
                }

                fn kill(machine: &Sim, task: usize) {
                    kill(machine, task);
                }
            }

            machine::conformance_tests!(Simulated);
        }
    };
}

ground!(two_cpus, [config(2)]);
ground!(one_cpu, [config(1)]);
ground!(sixteen_cpus_and_random_winners, [Config { lock_fairness: LockFairness::Random, ..config(16) }]);
ground!(
    disturbed,
    (0..20).map(|seed| Config {
        seed,
        interleaving: Interleaving::Perturbed(Perturb {
            delay_chance: 2000,
            delay_max: Nanos(20_000),
            yield_chance: 2000,
        }),
        ..config(1 + seed as usize % 5)
    })
);
ground!(
    by_priority,
    (0..20).map(|seed| Config {
        seed,
        interleaving: Interleaving::ByPriority(Pct {
            depth: 1 + seed as u32 % 5,
            steps: 1 << (4 + seed % 10),
            patience: 1 << 10
        }),
        lock_fairness: if seed % 2 == 0 { LockFairness::Random } else { LockFairness::Fifo },
        ..config(1 + seed as usize % 5)
    })
);
