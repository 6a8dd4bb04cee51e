//! The elevator of a disk, which decides which waiting request is served next.
//!
//! An elevator examines the [`Queue`] and decides: serve an entry, wait until a time, or do nothing. It is asked
//! whenever the disk can take a request: after a completion, after a submission while a place is free, and at the end
//! of a wait that it requested.
//!
//! Description: mechanisms/parallelio-trial, 4 ("disk"); the `deadline` and `cfq` chapters of the
//! kernel's block documentation.
//!
//! Next: [`super::rotational`], which says how long a request takes.

use super::config::{CfqConfig, DeadlineConfig, ElevatorConfig, SyncArrival};
use super::queue::{Class, Key, Queue};
use machine::{Nanos, Operation};

/// An elevator's decision on what to do when the disk can serve another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take this entry (merged requests) out of the queue and serve it.
    Serve(Key),
    /// Requests wait, but a better one may come soon. Ask the elevator again at this time, or earlier if a request is
    /// submitted.
    WaitUntil(Nanos),
    /// No request waits.
    Nothing,
}

/// The elevator of one disk.
#[derive(Debug)]
pub(super) enum Elevator {
    Noop,
    Deadline(Deadline),
    Cfq(Cfq),
}

impl Elevator {
    pub(super) fn new(config: &ElevatorConfig) -> Self {
        match config {
            ElevatorConfig::Noop => Self::Noop,
            ElevatorConfig::Deadline(config) => Self::Deadline(Deadline::new(config)),
            ElevatorConfig::Cfq(config) => Self::Cfq(Cfq::new(config)),
        }
    }

    /// Decides what to do when the disk can serve another request. `sync_in_service` is the number of requests in
    /// service that a task waits for.
    pub(super) fn decide(&mut self, now: Nanos, queue: &Queue, sync_in_service: u64) -> Decision {
        match self {
            Self::Noop => match queue.oldest(Class::ALL) {
                Some((key, _)) => Decision::Serve(key),
                None => Decision::Nothing,
            },
            Self::Deadline(deadline) => match deadline.decide(now, queue) {
                Some(key) => Decision::Serve(key),
                None => Decision::Nothing,
            },
            Self::Cfq(cfq) => cfq.decide(now, queue, sync_in_service),
        }
    }

    /// Notes that the disk has begun to serve the entry (merged requests) that [`Elevator::decide`] chose last. `end`
    /// is the number of the block after the entry.
    pub(super) fn started(&mut self, class: Class, end: u64) {
        match self {
            Self::Noop => {}
            Self::Deadline(deadline) => deadline.position[class.operation() as usize] = Some(end),
            Self::Cfq(cfq) => cfq.position[Group::of(class) as usize] = end,
        }
    }

    /// Notes that the disk has finished an entry (merged requests) of this class.
    pub(super) fn completed(&mut self, now: Nanos, class: Class) {
        if let Self::Cfq(cfq) = self
            && class.is_sync()
        {
            cfq.sync_completed = Some(now);
        }
    }
}

/// The elevator `deadline`, which serves requests in batches. The requests of a batch have one direction and are served
/// in block order.
#[derive(Debug)]
pub(super) struct Deadline {
    expire: [Nanos; 2],
    fifo_batch: u64,
    writes_starved: u64,
    /// Direction of the present batch, and number of requests of this batch that were served so far.
    batch: Option<(Operation, u64)>,
    /// Number of batches of reads that were begun while writes waited, counted since the last batch of writes.
    reads_passed: u64,
    /// For each direction, the block from which the sweep continues; `None` before the direction's first request.
    position: [Option<u64>; 2],
}

impl Deadline {
    fn new(config: &DeadlineConfig) -> Self {
        Self {
            expire: [Nanos::from_millis(config.read_expire_ms.value), Nanos::from_millis(config.write_expire_ms.value)],
            fifo_batch: config.fifo_batch.value,
            writes_starved: config.writes_starved.value,
            batch: None,
            reads_passed: 0,
            position: [None; 2],
        }
    }

    fn decide(&mut self, now: Nanos, queue: &Queue) -> Option<Key> {
        if let Some((operation, served)) = &mut self.batch
            && *served < self.fifo_batch
            && let Some(key) = sweep_ahead(queue, *operation, self.position)
        {
            *served += 1;
            return Some(key);
        }
        self.begin_batch(now, queue)
    }

    fn begin_batch(&mut self, now: Nanos, queue: &Queue) -> Option<Key> {
        let reads_wait = !queue.is_empty(Class::READS);
        let writes_wait = !queue.is_empty(Class::WRITES);
        let operation = match (reads_wait, writes_wait) {
            (false, false) => {
                self.batch = None;
                return None;
            }
            (true, true) if self.reads_passed < self.writes_starved => {
                self.reads_passed += 1;
                Operation::Read
            }
            (true, false) => Operation::Read,
            (_, true) => {
                self.reads_passed = 0;
                Operation::Write
            }
        };
        let (oldest, entered) = queue.oldest(classes(operation)).expect("a direction is chosen because it has entries");
        let is_expired = now.since(entered) >= self.expire[operation as usize];
        let ahead = if is_expired { None } else { sweep_ahead(queue, operation, self.position) };
        self.batch = Some((operation, 1));
        Some(ahead.unwrap_or(oldest))
    }
}

/// Returns the next waiting entry (merged requests) in the sweep of one direction: the first entry, in block order, at
/// or after the sweep's position. Returns `None` if there is none, or if the sweep has no position yet.
fn sweep_ahead(queue: &Queue, operation: Operation, position: [Option<u64>; 2]) -> Option<Key> {
    queue.next_from(classes(operation), position[operation as usize]?)
}

fn classes(operation: Operation) -> &'static [Class] {
    match operation {
        Operation::Read => Class::READS,
        Operation::Write => Class::WRITES,
    }
}

/// The two kinds of requests that [`Cfq`] serves in separate time slices: synchronous (a task waits) and background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Sync,
    Background,
}

impl Group {
    fn of(class: Class) -> Self {
        if class.is_sync() { Self::Sync } else { Self::Background }
    }

    fn classes(self) -> &'static [Class] {
        match self {
            Self::Sync => Class::SYNC,
            Self::Background => Class::BACKGROUND,
        }
    }
}

/// A time slice of one group.
#[derive(Clone, Copy, Debug)]
struct Slice {
    group: Group,
    end: Nanos,
    /// Number of requests served in the slice.
    served: u64,
}

/// The elevator `cfq`, which alternates between time slices for synchronous requests, for which tasks wait, and time
/// slices for background requests. If no synchronous request is left in a synchronous slice, the disk may stay idle for
/// a while to wait for the next one.
///
/// Each of the two kinds of requests ([`Group`]) is served in one-way sweeps of its own. A new time slice continues the
/// sweep where the last slice of this kind ended.
#[derive(Debug)]
pub(super) struct Cfq {
    /// Length of a time slice: for synchronous requests, and for background requests.
    slice: [Nanos; 2],
    background_requests: u64,
    idle: Nanos,
    /// Age from which a request is old: for synchronous requests, and for background requests. A time slice begins with
    /// the oldest request of its kind if that request is old.
    expire: [Nanos; 2],
    sync_arrival: SyncArrival,
    current: Option<Slice>,
    /// `true` if the elevator was asked for a request while none waited, and has chosen no request since.
    ran_empty: bool,
    /// Time at which a synchronous request was last completed.
    sync_completed: Option<Nanos>,
    /// For each group (synchronous requests, background requests), the block from which the group's sweep continues.
    position: [u64; 2],
}

impl Cfq {
    fn new(config: &CfqConfig) -> Self {
        let millis = |sync: u64, background: u64| [Nanos::from_millis(sync), Nanos::from_millis(background)];
        Self {
            slice: millis(config.slice_sync_ms.value, config.slice_async_ms.value),
            background_requests: config.slice_async_requests.value,
            idle: Nanos::from_millis(config.slice_idle_ms.value),
            expire: millis(config.fifo_expire_sync_ms.value, config.fifo_expire_async_ms.value),
            sync_arrival: config.sync_arrival,
            current: None,
            ran_empty: false,
            sync_completed: None,
            position: [0; 2],
        }
    }

    fn decide(&mut self, now: Nanos, queue: &Queue, sync_in_service: u64) -> Decision {
        let sync_waits = !queue.is_empty(Class::SYNC);
        let background_waits = !queue.is_empty(Class::BACKGROUND);
        if !sync_waits && !background_waits {
            self.ran_empty = true;
            return Decision::Nothing;
        }
        let preferred = if sync_waits { Group::Sync } else { Group::Background };

        // If a slice ended while no request waited, the next slice goes to the preferred group and not to the group
        // whose turn it would be.
        let current = self.current.filter(|slice| !(self.ran_empty && now >= slice.end));
        match current {
            None => self.serve_new_slice(now, queue, preferred),
            Some(slice) if slice.group == Group::Sync => {
                if now >= slice.end {
                    let next = if background_waits { Group::Background } else { Group::Sync };
                    return self.serve_new_slice(now, queue, next);
                }
                if sync_waits {
                    return self.serve(now, queue, slice);
                }
                match self.anticipation_end(slice, sync_in_service) {
                    Some(end) if now < end => Decision::WaitUntil(end),
                    _ => self.serve_new_slice(now, queue, Group::Background),
                }
            }
            Some(slice) => {
                let is_preempted = sync_waits && self.sync_arrival == SyncArrival::Preempts;
                let is_used_up = now >= slice.end || slice.served >= self.background_requests;
                if is_preempted || is_used_up || !background_waits {
                    return self.serve_new_slice(now, queue, preferred);
                }
                self.serve(now, queue, slice)
            }
        }
    }

    /// Returns the time until which the disk is kept idle so that another synchronous request can arrive in this slice.
    /// Returns `None` if no synchronous request is in service and none has been completed yet.
    fn anticipation_end(&self, slice: Slice, sync_in_service: u64) -> Option<Nanos> {
        if sync_in_service > 0 {
            return Some(slice.end);
        }
        Some((self.sync_completed? + self.idle).min(slice.end))
    }

    fn serve_new_slice(&mut self, now: Nanos, queue: &Queue, group: Group) -> Decision {
        self.serve(now, queue, Slice { group, end: now + self.slice[group as usize], served: 0 })
    }

    fn serve(&mut self, now: Nanos, queue: &Queue, mut slice: Slice) -> Decision {
        let classes = slice.group.classes();
        let (oldest, entered) = queue.oldest(classes).expect("a group is served because it has entries");
        let is_expired = slice.served == 0 && now.since(entered) >= self.expire[slice.group as usize];
        let ahead = if is_expired { None } else { queue.next_from(classes, self.position[slice.group as usize]) };
        let key = match ahead {
            Some(key) => key,
            None if is_expired => oldest,
            None => queue.next_from(classes, 0).unwrap_or(oldest),
        };
        slice.served += 1;
        self.current = Some(slice);
        self.ran_empty = false;
        Decision::Serve(key)
    }
}
