//! The configuration of a machine.

use std::thread;

/// The configuration of a [`super::Host`]. [`Config::new`] returns defaults that fit the computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of frames (of 4 KiB) that the machine has at first.
    pub frames: u32,
    /// Number of frames for which address space is reserved, and to which the arena can grow. Default: `frames`.
    pub frames_max: u32,
    /// True to keep the memory of the page frames out of the operating system's swap. Default: false.
    pub lock_memory: bool,
    /// True to put the memory of the page frames into huge pages of the operating system, as far as the operating
    /// system grants them. Default: true.
    pub huge_pages: bool,
    /// Number of copies of each per-CPU value. Default: the number of CPUs that the process may use, but at least 2.
    pub shards: usize,
    /// The means by which disk requests are carried out if the submitting thread does not carry them out itself:
    /// io_uring or threads. Default: [`Io::Auto`].
    pub io: Io,
    /// Largest number of requests of one direction (read or write) that a device has in flight. When so many are in
    /// flight, `submit` waits. Default: 256.
    pub queue_depth: u32,
    /// Largest number of pages in a read that the submitting thread carries out itself. Default: 4.
    ///
    /// The submitter waits for a small read anyway. A larger read is readahead: the submitter waits only for its first
    /// pages, so another thread carries it out.
    pub inline_pages_max: usize,
    /// Keeps a checksum of each block that is read or written, and compares each later read of the block with the
    /// checksum. Default: no.
    pub checksums: bool,
    /// Number of threads that carry out requests if io_uring is not used. Default: 4.
    pub io_threads: usize,
    /// Lets reading threads hold pages by hazard pointers instead of references, if the system permits it
    /// (`membarrier`). Default: yes.
    pub hazard_pointers: bool,
}

impl Config {
    /// Creates the configuration of a machine with `frames` frames.
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

/// The mechanism that carries out disk requests, except those that the submitting thread carries out itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Requests go through io_uring if the system permits it. Otherwise they go through threads, and a notice says so.
    #[default]
    Auto,
    /// Requests go through threads that read and write. This is for tests, and for systems where io_uring works badly.
    Threads,
}
