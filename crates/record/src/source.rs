//! The trait [`Source`], which both ways of recording implement: the shim and tracefs.

use crate::files::Files;
use crate::options::Target;
use crate::tasks::Tasks;
use std::collections::BTreeSet;
use std::io;
use std::process::Command;
use trace::Request;

/// The function to which a source passes each recorded request. An error of this function ends the recording.
pub type Sink<'a> = &'a mut dyn FnMut(&Request) -> io::Result<()>;

/// A running recording, by one of the two ways of recording: the shim or tracefs.
pub trait Source {
    /// Returns the name of this way of recording in the metadata of a record: `shim` or `tracefs`.
    fn name(&self) -> &'static str;

    /// Prepares a command, before it is started, so that its requests are recorded.
    fn prepare(&mut self, command: &mut Command);

    /// Begins to record the running processes `processes`: those of the target, or that of the command that was just
    /// started.
    ///
    /// # Errors
    /// When there is nothing to record. The error is a message for the user.
    fn attach(&mut self, target: &Target, processes: &BTreeSet<u32>) -> Result<(), String>;

    /// Reads the events that have arrived since the last call, and passes their requests to `sink`. Returns the number
    /// of events. With `is_end`, does not wait for events that have begun but are incomplete.
    ///
    /// # Errors
    /// When `sink` fails, or the events cannot be read.
    fn poll(&mut self, is_end: bool, sink: Sink<'_>) -> io::Result<u64>;

    /// Examines the running processes for facts that no event reports. The recorder calls this function from time to
    /// time.
    fn look(&mut self, processes: &BTreeSet<u32>);

    /// Returns how much of the resident shared memory of a process belongs to the recording and not to the program, bytes.
    fn own_memory(&self, process: u32) -> u64;

    /// Returns the present time in µs, on the clock that gives requests their times.
    fn now_us(&self) -> u64;

    /// Ends the recording: passes the last requests to `sink`. No events arrive after this call.
    ///
    /// # Errors
    /// When `sink` fails, or the events cannot be read.
    fn end(&mut self, sink: Sink<'_>) -> io::Result<()>;

    /// Returns the table of the recorded files.
    fn files(&mut self) -> &mut Files;

    /// Returns the table of the recorded tasks (threads).
    fn tasks(&mut self) -> &mut Tasks;

    /// Returns a text for each kind of activity that was seen but is not in the record. Most texts say how often the
    /// activity was seen.
    fn not_seen(&self) -> Vec<String>;

    /// Returns the number of events that are missing in the record, such as those for which the buffer had no room.
    fn lost(&self) -> u64;
}
