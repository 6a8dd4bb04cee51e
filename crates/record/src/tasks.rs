//! The tasks of a record: threads, by number, with their process and program.

use serde_json::{Value, json};
use std::collections::HashMap;

/// A thread that did something.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its number in the system.
    pub thread: u32,
    /// Its process's.
    pub process: u32,
    /// Its parent's process; 0 if that is not known.
    pub parent: u32,
    /// The name of its program; empty if it is not known.
    pub program: Vec<u8>,
    /// When it began, µs; the first request if that is not known.
    pub began_us: u64,
    /// When it ended, µs.
    pub ended_us: Option<u64>,
}

/// The tasks of a record, by number.
#[derive(Debug, Default)]
pub struct Tasks {
    all: Vec<Task>,
    by_thread: HashMap<u32, u32>,
}

impl Tasks {
    /// Returns the number of the task that is this thread, a new one if it was not known.
    pub fn of_thread(&mut self, thread: u32, time_us: u64) -> u32 {
        let all = &mut self.all;
        *self.by_thread.entry(thread).or_insert_with(|| {
            let task =
                Task { thread, process: thread, parent: 0, program: Vec::new(), began_us: time_us, ended_us: None };
            all.push(task);
            all.len() as u32 - 1
        })
    }

    /// Returns a task.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Task> {
        self.all.get_mut(number as usize)
    }

    /// A task ended: another may get the number of its thread.
    pub fn end(&mut self, thread: u32, time_us: u64) {
        if let Some(number) = self.by_thread.remove(&thread)
            && let Some(task) = self.all.get_mut(number as usize)
        {
            task.ended_us = Some(time_us);
        }
    }

    /// Returns the processes that have not ended as far as is known.
    pub fn running(&self) -> impl Iterator<Item = (u32, &Task)> {
        let numbered = self.all.iter().enumerate().map(|(number, task)| (number as u32, task));
        numbered.filter(|(_, task)| task.ended_us.is_none() && task.thread == task.process)
    }

    /// Returns all tasks.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Task> {
        self.all.iter()
    }

    /// Returns what is known of each task, by number.
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
