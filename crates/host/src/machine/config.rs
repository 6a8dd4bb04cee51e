//! The parts of a machine.

use std::thread;

/// The parts of a [`super::Host`]. [`Config::new`] gives defaults that fit the computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames of 4 KiB, at the start.
    pub frames: u32,
    /// Frames with address space, up to which the arena can grow. Default: `frames`.
    pub frames_max: u32,
    /// Keeps the memory of frames out of the system's swap. Default: no.
    pub lock_memory: bool,
    /// Puts the memory of frames into huge pages of the system. Default: yes, as far as it grants them.
    pub huge_pages: bool,
    /// Slots of each per-CPU value. Default: the CPUs that the process may use, at least 2.
    pub shards: usize,
    /// The path to the disk for requests whose submitter does not wait in place. Default: [`Io::Auto`].
    pub io: Io,
    /// Requests of one direction that a device holds; more wait in `submit`. Default: 256.
    pub queue_depth: u32,
    /// Pages of the largest read that the submitting thread performs itself. Default: 4.
    ///
    /// Its submitter waits for such a read anyway. Larger ones are readahead, of which only the beginning is waited for.
    pub inline_pages_max: usize,
    /// Compares blocks that are read with the contents last read or written there. Default: no.
    pub checksums: bool,
    /// Threads that carry out requests where io_uring does not. Default: 4.
    pub io_threads: usize,
    /// Lets threads publish the pages that they read in hazard pointers, if the system permits it. Default: yes.
    pub hazard_pointers: bool,
}

impl Config {
    /// Creates a machine of `frames` frames.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            frames,
            frames_max: frames,
            lock_memory: false,
            huge_pages: true,
            shards: thread::available_parallelism().map_or(1, usize::from).max(2),
            io: Io::default(),
            queue_depth: 256,
            inline_pages_max: 4,
            checksums: false,
            io_threads: 4,
            hazard_pointers: true,
        }
    }
}

/// The way in which requests reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Through io_uring where the system permits it, otherwise through threads; a notice then says so.
    #[default]
    Auto,
    /// Through threads that read and write. For tests, and for systems where io_uring works badly.
    Threads,
}
