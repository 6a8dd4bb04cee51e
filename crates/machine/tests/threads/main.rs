//! Runs the conformance suite of `machine` on a small machine of real threads and standard locks, to show that the
//! trait `Machine` does not assume a simulator.

#[path = "machine.rs"]
mod thread_machine;

use machine::conformance::{Act, FRAMES, Ground, Stage};
use std::sync::Arc;
use std::thread;
use thread_machine::{Receive, ThreadMachine};

machine::conformance_tests!(Threads);

struct Threads;

impl Ground for Threads {
    type Machine = ThreadMachine;

    fn run(acts: &[Act<Self>], check: Act<Self>) {
        let machine = ThreadMachine::new(acts.len(), FRAMES);
        let stage = Arc::new(Stage::new(&machine));
        let receiving = Arc::clone(&stage);
        let receive: Receive = Box::new(move |machine, request, result| receiving.receive(machine, request, result));
        machine.receive_with(receive);
        thread::scope(|scope| {
            let device = machine.clone();
            scope.spawn(move || device.serve());
            let tasks: Vec<_> = acts
                .iter()
                .enumerate()
                .map(|(number, act)| {
                    let (machine, stage) = (machine.clone(), Arc::clone(&stage));
                    scope.spawn(move || {
                        machine.enter_task(number);
                        act(&machine, &stage);
                    })
                })
                .collect();
            let results: Vec<_> = tasks.into_iter().map(|task| task.join()).collect();
            machine.end();
            for result in results {
                result.expect("a task failed");
            }
        });
        check(&machine, &stage);
    }

    fn kill(machine: &ThreadMachine, task: usize) {
        machine.kill(task);
    }
}
