//! The code of programs: mapped files, of which a process uses one function at a time.

use crate::choose::{Chooser, Distribution};
use crate::system::{MapMode, Sharing, System, SystemError};
use machine::Nanos;
use sim::Rng;
use std::ops::Range;

/// The way in which processes call the functions of their code: function size, distribution and CPU time of a call.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Number of consecutive pages that form a function and are used together.
    pub function_pages: u32,
    /// Exponent of Zipf's law, by which functions are chosen.
    pub theta: f64,
    /// Mean CPU time of one call of a function.
    pub call: Nanos,
}

/// Files of code that a process has mapped, with the chooser that draws functions for the process to call.
#[derive(Debug)]
pub struct Code<S: System> {
    regions: Vec<S::Region>,
    functions_per_file: u64,
    chooser: Chooser,
    how: Use,
}

impl<S: System> Code<S> {
    /// Maps files of code: for each number in `files`, the file whose name consists of `name` and this number. Each
    /// file has `pages` pages. The mappings are executable and private. Returns the mapped code.
    ///
    /// # Errors
    /// When memory is exhausted, or the system cannot map files.
    pub fn map(system: &S, name: &str, files: Range<u64>, pages: u32, how: Use) -> Result<Self, SystemError> {
        let text = MapMode { sharing: Sharing::Private, is_executable: true, ..MapMode::default() };
        let map = |n| system.map_file(&system.open(&file_name(name, n))?, 0..pages, text);
        let regions = files.clone().map(map).collect::<Result<_, SystemError>>()?;
        let functions_per_file = functions(pages, how.function_pages);
        let chooser = Chooser::new(Distribution::Zipf, how.theta, (files.end - files.start) * functions_per_file);
        Ok(Self { regions, functions_per_file, chooser, how })
    }

    /// Calls a random function: touches its pages and computes.
    ///
    /// # Errors
    /// When memory is exhausted, or the code cannot be read.
    pub fn call(&self, system: &S, rng: &mut Rng) -> Result<(), SystemError> {
        let function = self.chooser.next(rng);
        let region = &self.regions[(function / self.functions_per_file) as usize];
        let pages = pages_of((function % self.functions_per_file) as u32, self.how.function_pages);
        system.touch(region, pages, false)?;
        // The time of a call is random. With equal times, processes would fall into step and all need the same pages at
        // once.
        system.compute(Nanos(self.how.call.0 / 2 + rng.below(self.how.call.0 + 1)));
        Ok(())
    }

    /// Touches all code once, like the start of a program.
    ///
    /// # Errors
    /// When memory is exhausted, or the code cannot be read.
    pub fn start(&self, system: &S) -> Result<(), SystemError> {
        let all = 0..self.functions_per_file as u32 * self.how.function_pages;
        self.regions.iter().try_for_each(|region| system.touch(region, all.clone(), false))
    }

    /// Unmaps the files in which the code lies.
    pub fn unmap(self, system: &S) {
        self.regions.into_iter().for_each(|region| system.unmap(region));
    }
}

/// Puts `files` files of code, called `name 0`, `name 1` and so on, on the device. Each file has `pages` pages, and
/// none of them is in memory.
///
/// # Errors
/// When a file of this name exists already, or the device is full.
pub fn install<S: System>(system: &S, name: &str, files: u64, pages: u32) -> Result<(), SystemError> {
    (0..files).try_for_each(|n| crate::big_file::provide(system, &file_name(name, n), pages.into()))
}

/// Removes the files of code that [`install`] made.
///
/// # Errors
/// When a file does not exist.
pub fn remove<S: System>(system: &S, name: &str, files: u64) -> Result<(), SystemError> {
    (0..files).try_for_each(|n| system.remove(&file_name(name, n)))
}

fn file_name(name: &str, n: u64) -> String {
    format!("{name} {n}")
}

/// Returns the number of whole functions in a file of `pages` pages.
fn functions(pages: u32, function_pages: u32) -> u64 {
    u64::from((pages / function_pages).max(1))
}

fn pages_of(function: u32, function_pages: u32) -> Range<u32> {
    function * function_pages..(function + 1) * function_pages
}
