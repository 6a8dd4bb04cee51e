//! Runs the conformance suite of `machine::conformance` on the library's machine: with io_uring, with I/O threads, and
//! with a file that goes through the kernel's page cache.

mod common;

use highwater::machine::{Config, Host, Io};
use machine::conformance::{Act, FRAMES, Ground, Stage};
use machine::{Completions, IoError, Operation, Request};
use std::fs::File;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

struct Receiver {
    host: Host,
    stage: Arc<Stage<Host>>,
}

impl Completions for Receiver {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        if request.operation == Operation::Write {
            // The wait makes the disk so slow that its queue becomes full for certain.
            thread::sleep(Duration::from_micros(200));
        }
        self.stage.receive(&self.host, request, result);
    }
}

fn run_on<G: Ground<Machine = Host>>(io: Io, file: File, acts: &[Act<G>], check: Act<G>) {
    // SAFETY: the tests of the suite access each frame from one task at a time.
    let host = unsafe { Host::new(&Config { io, queue_depth: 16, ..Config::new(FRAMES) }) }.expect("1 MiB is there");
    host.add_device(file, "test").expect("threads are there");
    let stage = Arc::new(Stage::new(&host));
    let receiver = Arc::new(Receiver { host: host.clone(), stage: Arc::clone(&stage) });
    let dynamic: Arc<dyn Completions + Send + Sync> = receiver.clone();
    host.attach([Arc::downgrade(&dynamic)]);
    let together = Arc::new(Barrier::new(acts.len()));
    let tasks: Vec<_> = acts
        .iter()
        .enumerate()
        .map(|(number, &act)| {
            let (machine, stage, together) = (host.clone(), Arc::clone(&stage), Arc::clone(&together));
            let run = move || {
                together.wait();
                act(&machine, &stage);
            };
            host.spawn(&format!("task{number}"), run).expect("threads are there")
        })
        .collect();
    for task in tasks {
        host.join(task).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
    check(&host, &stage);
}

fn kill(host: &Host, task: usize) {
    host.kill(highwater::machine::TaskId(task as u32));
}

macro_rules! ground {
    ($module:ident, $io:expr, $file:expr) => {
        mod $module {
            use super::*;

            struct Threads;

            impl Ground for Threads {
                type Machine = Host;

                fn run(acts: &[Act<Self>], check: Act<Self>) {
                    run_on::<Self>($io, $file, acts, check);
                }

                fn kill(machine: &Host, task: usize) {
                    kill(machine, task);
                }
            }

            machine::conformance_tests!(Threads);
        }
    };
}

ground!(over_io_uring, Io::Auto, common::temporary_file());
ground!(over_threads, Io::Threads, common::temporary_file());
ground!(over_a_file_in_memory, Io::Auto, common::memory_file());
