//! A simulated disk: a queue that merges requests, an elevator that chooses the next request, and a model of the time
//! that a request takes.
//!
//! A disk is a state machine without a scheduler: its caller passes the time to it, and asks when to call again. A
//! request goes through these steps:
//!
//! 1. [`Disk::submit`] merges the request into a waiting one, or gives it a slot — `queue`. [`Disk::has_room`] says
//!    whether a slot is free, [`Disk::is_congested`] whether few are.
//! 2. The elevator chooses the request when the disk can take one, perhaps after an idle wait — `elevator`.
//! 3. The disk serves the request, for as long as arm and platter, or channels, need — `rotational`, `flash`.
//! 4. [`Disk::advance`] returns each submitted request separately, in block order.
//!
//! The same calls give the same answers, because all arithmetic is in integers, maps are ordered, and there are no
//! random numbers. After every call that changes the disk, the caller asks [`Disk::next_event`] for a time, and calls
//! [`Disk::advance`] at that time. A later call of `advance` is allowed, and changes nothing inside the disk.
//! Congestion can end in `advance`, and also in `submit` if a merge frees a slot.
//!
//! If requests for the same blocks are in flight together, they are served in any order, as by Linux. A caller that
//! needs an order submits the second request only after the first has ended.
//!
//! Description: mechanisms/reclaim, 22 and 27, mechanisms/parallelio-trial, 4.
//!
//! # A disk in a machine file
//!
//! ```toml
//! [disk]
//! model = "rotational"
//! capacity_blocks       = { value = 122_096_646, from = "data-sheet", source = "500 GB drive of 2013" }
//! rpm                   = { value = 7200, from = "fitted", source = "parallelio: Mean sda-r_await 7.9 ms" }
//! bandwidth_bytes_per_s = { value = 113_000_000, from = "fitted", source = "parallelio: io-duration, 7155 MiB in 64 s" }
//! seek_track_to_track_ns = { value = 1_000_000, from = "data-sheet", source = "7200 rpm drives of 2013" }
//! seek_average_ns       = { value = 8_500_000, from = "data-sheet", source = "7200 rpm drives of 2013" }
//! seek_full_ns          = { value = 18_000_000, from = "data-sheet", source = "7200 rpm drives of 2013" }
//! command_ns            = { value = 150_000, from = "fitted", source = "parallelio: Mean sda-r_await" }
//!
//! [disk.queue]
//! nr_requests       = { value = 4096, from = "fitted", source = "parallelio: Max sda-avgqz" }
//! max_request_pages = { value = 256, from = "fitted", source = "parallelio: Mean sda-avgqz" }
//! elevator          = { name = "cfq" }
//! ```
//!
//! Next: [`config`], the constants; `queue`, where a request comes first.

pub mod config;
mod elevator;
mod fault;
mod flash;
mod queue;
mod rotational;
mod tagged;

pub mod statistics;
#[cfg(test)]
mod tests;

pub use config::DiskConfig;
pub use fault::Fault;

pub use statistics::{DiskStatistics, Interval};

use elevator::{Decision, Elevator};
use fault::Faults;
use flash::Flash;
use machine::{IoError, Nanos, Operation, Request};
use queue::{Entry, Inserted, Part, Queue};
use rotational::Rotational;
use statistics::Accounting;
use std::collections::BTreeMap;

/// A submitted request that the disk has finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request as it was submitted.
    pub request: Request,
    /// Success, or the error of the transfer.
    pub result: Result<(), IoError>,
    /// `true` for the last of the submitted requests that were merged and served together.
    pub is_last: bool,
    /// If the disk has a `command_depth` and this is the last request of its command, the direction of the command;
    /// otherwise `None`. The caller must then call [`Disk::end`] with this direction.
    pub ends: Option<Operation>,
}

/// A disk with its request queue.
#[derive(Debug)]
pub struct Disk {
    capacity_blocks: u64,
    queue: Queue,
    elevator: Elevator,
    model: Model,
    faults: Faults,
    accounting: Accounting,
    /// Entries (merged requests) that the disk serves now. A key has the time at which the entry ends, and a number
    /// that tells entries with equal times apart.
    in_service: BTreeMap<(Nanos, u64), Entry>,
    sync_in_service: u64,
    /// Largest number of commands that the device holds. A command then lasts until the interrupt handler ends it
    /// ([`Disk::end`]). `None` if commands end without the handler.
    command_depth: Option<u64>,
    commands: u64,
    started: u64,
    /// Time at which the elevator is to be asked for the next request to serve; `None` if no time is set.
    decide_at: Option<Nanos>,
    /// Finished requests that [`Disk::advance`] has not returned yet.
    finished: Vec<Finished>,
    /// Time at which the first request of `finished` was finished.
    finished_since: Nanos,
    /// The latest time that a caller has passed to the disk.
    now: Nanos,
}

#[derive(Debug)]
enum Model {
    Rotational(Rotational),
    Flash(Flash),
}

impl Model {
    fn depth(&self) -> u64 {
        match self {
            Self::Rotational(_) => 1,
            Self::Flash(flash) => flash.queue_depth(),
        }
    }

    fn serve(&mut self, now: Nanos, operation: Operation, block: u64, blocks: u64) -> Nanos {
        match self {
            Self::Rotational(disk) => disk.serve(now, operation, block, blocks),
            Self::Flash(disk) => disk.serve(now, operation, block, blocks),
        }
    }
}

impl Disk {
    /// Creates an idle disk.
    ///
    /// # Panics
    /// When [`DiskConfig::check`] refuses the configuration.
    #[must_use]
    pub fn new(config: &DiskConfig) -> Self {
        if let Err(error) = config.check() {
            panic!("not a disk: {error}");
        }
        Self {
            capacity_blocks: config.capacity_blocks(),
            queue: Queue::new(config.queue()),
            elevator: Elevator::new(&config.queue().elevator),
            model: match config {
                DiskConfig::Rotational(config) => Model::Rotational(Rotational::new(config)),
                DiskConfig::Flash(config) => Model::Flash(Flash::new(config)),
            },
            faults: Faults::default(),
            accounting: Accounting::default(),
            in_service: BTreeMap::new(),
            sync_in_service: 0,
            command_depth: config.queue().command_depth.as_ref().map(|depth| depth.value),
            commands: 0,
            started: 0,
            decide_at: None,
            finished: Vec::new(),
            finished_since: Nanos(0),
            now: Nanos(0),
        }
    }

    /// Returns the size of the disk, in blocks of [`machine::BLOCK_BYTES`].
    #[must_use]
    pub fn capacity_blocks(&self) -> u64 {
        self.capacity_blocks
    }

    /// Returns the largest number of pages in a request that merging makes.
    pub(crate) fn max_request_pages(&self) -> u64 {
        self.queue.max_request_pages()
    }

    /// Returns whether the queue has a free place (slot) for a request of the direction `operation`: fewer than
    /// `nr_requests` requests of this direction are allocated.
    #[must_use]
    pub fn has_room(&self, operation: Operation) -> bool {
        self.queue.has_room(operation)
    }

    /// Returns whether this request can be submitted now, because a slot is free or the request merges into a waiting
    /// one.
    #[must_use]
    pub fn can_take(&self, request: &Request) -> bool {
        self.queue.has_room(request.operation) || self.queue.would_merge(request)
    }

    /// Returns whether the queue of the direction `operation` (reads or writes) is congested.
    ///
    /// With `nr_requests` = 128, congestion begins when 113 requests are allocated, which is 7/8 of `nr_requests` plus
    /// one. It ends when fewer than 103 are allocated, which is 13/16 of `nr_requests` minus one.
    #[must_use]
    pub fn is_congested(&self, operation: Operation) -> bool {
        self.queue.is_congested(operation)
    }

    /// Returns the number of allocated requests of this direction, waiting or in service. Merged requests count once.
    #[must_use]
    pub fn allocated(&self, operation: Operation) -> u64 {
        self.queue.allocated(operation)
    }

    /// Puts a request into the queue at `now`. The request is merged with a waiting request of the same direction and
    /// class whose blocks it follows or precedes, if both together have at most `max_request_pages` pages. Otherwise it
    /// gets a slot of its own.
    ///
    /// A request of more than `max_request_pages` is served in one piece and never merges. Times must not run
    /// backwards: a time before the latest one counts as the latest one.
    ///
    /// # Panics
    /// When the request is empty, ends beyond the capacity, or [`Disk::can_take`] refuses it.
    pub fn submit(&mut self, now: Nanos, request: Request) {
        let blocks = request.frames.len() as u64;
        let (operation, block) = (request.operation, request.block);
        assert!(blocks > 0, "{operation:?} of no blocks at block {block}");
        assert!(
            block < self.capacity_blocks && blocks <= self.capacity_blocks - block,
            "{operation:?} of {blocks} blocks at {block} ends beyond the disk's {} blocks",
            self.capacity_blocks
        );
        assert!(self.can_take(&request), "{operation:?} at block {block} submitted to a full queue");

        // Work that was due before `now` is finished. Work that is due at `now` may still include this request.
        self.run(now, Due::Before);
        let now = self.now;

        let fault = self.faults.count_submitted();
        match self.queue.insert(now, Part { request, fault }) {
            Inserted::Allocated => self.accounting.entered(now),
            Inserted::Merged => self.accounting.merged(operation),
            Inserted::Joined => self.accounting.joined(now, operation),
        }
        if self.has_place() {
            self.decide_at = Some(now);
        }
    }

    /// Returns the time at which [`Disk::advance`] must be called next; `None` if the disk is idle. At this time a
    /// request ends, an idle wait ends, or a submitted request can be started.
    ///
    /// After a submission to an idle disk, this is the time of the submission. So requests that are submitted at the
    /// same time merge before the disk takes one.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        if self.finished.is_empty() { self.next_internal_event() } else { Some(self.finished_since) }
    }

    /// Does all the disk's work that is due up to `now`. Appends finished requests to `done` in the order in which they
    /// ended. Requests that were merged are appended in block order.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Finished>) {
        self.run(now, Due::UpTo);
        done.append(&mut self.finished);
    }

    /// Ends a command whose requests [`Disk::advance`] returned: its slot becomes free, and the device can take another
    /// command. Call this only for disks with a `command_depth`; other disks end their commands by themselves.
    ///
    /// # Panics
    /// When the device holds no command.
    pub fn end(&mut self, now: Nanos, operation: Operation) {
        self.run(now, Due::Before);
        assert!(self.commands > 0, "a command is over that was not begun");
        self.commands -= 1;
        self.queue.release(operation);
        if self.has_place() {
            self.decide_at = Some(self.now);
        }
    }

    /// Returns the counters at `now`, as `/proc/diskstats` has them.
    #[must_use]
    pub fn statistics(&self, now: Nanos) -> DiskStatistics {
        self.accounting.snapshot(now)
    }

    /// Injects a fault of the disk, errors of requests or a stall; [`Fault::Mended`] ends the errors of blocks.
    pub fn inject(&mut self, fault: Fault) {
        self.faults.inject(fault);
    }

    fn has_place(&self) -> bool {
        let takes_command = self.command_depth.is_none_or(|depth| self.commands < depth);
        (self.in_service.len() as u64) < self.model.depth() && takes_command
    }

    fn next_internal_event(&self) -> Option<Nanos> {
        let service_end = self.in_service.first_key_value().map(|(&(end, _), _)| end);
        match (service_end, self.decide_at) {
            (Some(end), Some(decide)) => Some(end.min(decide)),
            (end, decide) => end.or(decide),
        }
    }

    /// Handles all events that are due until `until`, each as of its own time. So one late call has the same effect as
    /// a call at the time of each event.
    fn run(&mut self, until: Nanos, due: Due) {
        let until = until.max(self.now);
        while let Some(time) = self.next_internal_event() {
            if time > until || (time == until && due == Due::Before) {
                break;
            }
            self.now = self.now.max(time);
            self.finish_ended();
            self.start_waiting();
        }
        self.now = until;
    }

    fn finish_ended(&mut self) {
        while let Some(service) = self.in_service.first_entry()
            && service.key().0 <= self.now
        {
            let entry = service.remove();
            let operation = entry.class.operation();
            self.accounting.completed(self.now, operation, entry.blocks, entry.entered);
            self.elevator.completed(self.now, entry.class);
            if self.command_depth.is_none() {
                self.queue.release(operation);
            }
            self.sync_in_service -= u64::from(entry.class.is_sync());
            if self.finished.is_empty() {
                self.finished_since = self.now;
            }
            for Part { request, fault } in entry.parts {
                let result = fault.map_or_else(|| self.faults.result(&request), Err);
                self.finished.push(Finished { request, result, is_last: false, ends: None });
            }
            if let Some(last) = self.finished.last_mut() {
                last.is_last = true;
                last.ends = self.command_depth.map(|_| operation);
            }
        }
    }

    fn start_waiting(&mut self) {
        self.decide_at = None;
        while self.has_place() {
            match self.elevator.decide(self.now, &self.queue, self.sync_in_service) {
                Decision::Serve(key) => {
                    let entry = self.queue.take(key);
                    self.start(entry);
                }
                Decision::WaitUntil(time) => {
                    debug_assert!(time > self.now, "waiting at {} until {time}", self.now);
                    self.decide_at = Some(time);
                    return;
                }
                Decision::Nothing => return,
            }
        }
    }

    fn start(&mut self, entry: Entry) {
        self.elevator.started(entry.class, entry.end());
        let begin = self.now.max(self.faults.stalled_until());
        let end = self.model.serve(begin, entry.class.operation(), entry.block, entry.blocks);
        debug_assert!(end > self.now, "a request took no time");
        self.sync_in_service += u64::from(entry.class.is_sync());
        self.commands += u64::from(self.command_depth.is_some());
        self.started += 1;
        self.in_service.insert((end, self.started), entry);
    }
}

/// The last work that a call of [`Disk::run`] does, relative to the time `until`: the call leaves out the work that is
/// due exactly then (`Before`), or does it, too (`UpTo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Before,
    UpTo,
}
