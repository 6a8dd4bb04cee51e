//! What the two means of recording have in common.

use crate::files::Files;
use crate::session::Target;
use crate::tasks::Tasks;
use std::collections::BTreeSet;
use std::io;
use std::process::Command;
use trace::Request;

/// What a source gives its requests to. An error ends the recording.
pub type Sink<'a> = &'a mut dyn FnMut(&Request) -> io::Result<()>;

/// A means of recording while it runs.
pub trait Source {
    /// Returns its name in metadata: `shim` or `tracefs`.
    fn name(&self) -> &'static str;

    /// Prepares a command so that it is recorded.
    fn prepare(&mut self, command: &mut Command);

    /// Begins with processes that run: those of the target, or the command that was just started.
    ///
    /// # Errors
    /// In words, when there is nothing to record.
    fn attach(&mut self, target: &Target, processes: &BTreeSet<u32>) -> Result<(), String>;

    /// Takes what has come since the last call. Returns how much that was. At the end nothing more is waited for.
    ///
    /// # Errors
    /// When the sink fails, or the means does.
    fn poll(&mut self, is_end: bool, sink: Sink<'_>) -> io::Result<u64>;

    /// Looks at the processes that run, now and then, for what the means itself does not tell.
    fn look(&mut self, processes: &BTreeSet<u32>);

    /// Returns the time now, on the clock of the requests, µs.
    fn now_us(&self) -> u64;

    /// Ends the recording: nothing comes any more.
    ///
    /// # Errors
    /// When the sink fails, or the means does.
    fn end(&mut self, sink: Sink<'_>) -> io::Result<()>;

    /// Returns the files.
    fn files(&mut self) -> &mut Files;

    /// Returns the tasks.
    fn tasks(&mut self) -> &mut Tasks;

    /// Returns what was seen and is not in the record, in words, each with its number.
    fn not_seen(&self) -> Vec<String>;

    /// Returns events that were lost.
    fn lost(&self) -> u64;
}
