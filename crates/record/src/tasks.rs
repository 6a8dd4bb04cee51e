//! The tasks of a record: threads, by number, with their process and program.

use serde_json::{Value, json};
use std::collections::HashMap;

/// A thread that appears in a record.
#[derive(Clone, Debug)]
pub struct Task {
    /// Number of the thread in the system.
    pub thread: u32,
    /// Number of the thread's process.
    pub process: u32,
    /// Number of the process that started the thread's process; 0 if unknown.
    pub parent: u32,
    /// Name of the program that the thread runs; empty if unknown.
    pub program: Vec<u8>,
    /// Time at which the thread began, µs. If this is unknown, the time of the thread's first request.
    pub began_us: u64,
    /// Time at which the thread ended, µs; `None` if its end was not seen.
    pub ended_us: Option<u64>,
}

/// The tasks of a record, by number.
#[derive(Debug, Default)]
pub struct Tasks {
    all: Vec<Task>,
    by_thread: HashMap<u32, u32>,
}

impl Tasks {
    /// Returns the number that the record has for the thread `thread`. If the thread is new, adds a task for it, which
    /// begins at `time_us`.
    pub fn of_thread(&mut self, thread: u32, time_us: u64) -> u32 {
        let all = &mut self.all;
        *self.by_thread.entry(thread).or_insert_with(|| {
            let task =
                Task { thread, process: thread, parent: 0, program: Vec::new(), began_us: time_us, ended_us: None };
            all.push(task);
            all.len() as u32 - 1
        })
    }

    /// Returns the task with the record's number `number`; `None` if there is no such task.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Task> {
        self.all.get_mut(number as usize)
    }

    /// Records that a thread has ended. The system may give the thread's number to a new thread, which is then a new
    /// task.
    pub fn end(&mut self, thread: u32, time_us: u64) {
        if let Some(number) = self.by_thread.remove(&thread)
            && let Some(task) = self.all.get_mut(number as usize)
        {
            task.ended_us = Some(time_us);
        }
    }

    /// Returns the main task of each process whose end was not recorded, with the task's number in the record.
    pub fn running(&self) -> impl Iterator<Item = (u32, &Task)> {
        let numbered = self.all.iter().enumerate().map(|(number, task)| (number as u32, task));
        numbered.filter(|(_, task)| task.ended_us.is_none() && task.thread == task.process)
    }

    /// Returns all tasks.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Task> {
        self.all.iter()
    }

    /// Returns the known facts about each task as JSON, in order of the record's numbers.
    #[must_use]
    pub fn described(&self) -> Value {
        let one = |task: &Task| {
            json!({
                "thread": task.thread,
                "process": task.process,
                "parent": task.parent,
                "began_us": task.began_us,
                "ended_us": task.ended_us,
            })
        };
        Value::Array(self.iter().map(one).collect())
    }
}
