//! Hazard pointers, in which a thread publishes the frames that it is reading, instead of taking references.
//!
//! Each reading thread has a record of sixteen pointers, a cache line that only this thread writes. The thread
//! publishes and withdraws a frame by a plain store. The cost is on the other side: a task that asks for published
//! frames makes the system interrupt all CPUs that run this process (`membarrier`). For each reading thread, either its
//! store is then visible to the task, or its access to the frame comes after the interruption. If the system does not
//! permit `membarrier`, nothing is published.
//!
//! A thread gets its record with its first use of a machine, and returns it when it ends. If a guard was moved to
//! another thread, its frame stays published in the old thread's record until the guard is dropped.

#![allow(unsafe_code)]

use super::sys;
use machine::FrameNumber;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use std::sync::{Arc, Weak};

/// Number of hazard pointers of a thread in one machine: as many as fill one cache line. The cache line after them
/// stays unused, because processors fetch two lines at a time.
const RECORD: usize = 16;
/// Largest number of threads that have hazard pointers in one machine at the same time. Threads beyond this number have
/// none.
const RECORDS: usize = 1024;

/// The two highest bits of a word in which a hazard pointer publishes a frame. They are set so that the word is not 0
/// even for frame 0; no frame number has either bit. In the slot of a page that is open to readers with hazard
/// pointers, both bits are set, too. So the slot's word is published unchanged.
const PUBLISHED: u32 = 0b11 << 30;

const _: () = assert!(engine::memory::FRAMES_MAX <= !PUBLISHED + 1);

#[repr(align(128))]
struct Record([AtomicU32; RECORD]);

thread_local! {
    /// The state of the random number generator that decides which reads of a page are counted as uses.
    static CHANCE: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// A hazard pointer in which a frame is published. As long as the frame is published, nobody reuses it.
#[derive(Clone, Copy, Debug)]
pub struct HazardPointer<'a>(&'a AtomicU32);

/// The hazard pointers of one machine; clones share them.
#[derive(Clone)]
pub struct Hazards {
    /// The number of the machine among all machines of this process, from 1. Stored here and not behind `table`, so
    /// that a hit of the cache follows no pointer to read it.
    id: u64,
    /// True if the machine has hazard pointers. Stored here and not behind `table`, because every hit of the cache
    /// reads it.
    is_on: bool,
    table: Arc<Table>,
}

/// The hazard-pointer records of one machine, one for each reading thread.
struct Table {
    /// The records. A word of a record is a hazard pointer: 0 if it is free, otherwise [`PUBLISHED`] together with the
    /// number of the frame that the thread has published.
    records: Box<[Record]>,
    /// Number of records that were ever used.
    used: AtomicU32,
    /// Numbers of the records that were used and now belong to no thread, so that new threads may take them.
    free: Mutex<Vec<u32>>,
    /// Number of barriers (interruptions of all CPUs) that have begun. A barrier begins only while the lock of
    /// `barriers_done` is held.
    barriers_begun: AtomicU64,
    /// The number of the latest barrier that is done. Barriers are numbered from 1 in the order in which they begin.
    barriers_done: Mutex<u64>,
}

/// The record that a thread gets if all [`RECORDS`] records of the machine are taken. No pointer in this record is ever
/// free, so a thread with this record publishes nothing.
static IN_USE: Record = Record([const { AtomicU32::new(u32::MAX) }; RECORD]);

thread_local! {
    /// The number of the machine that the thread used last, and the thread's record of hazard pointers in this machine.
    static CURRENT: Cell<(u64, *const Record)> = const { Cell::new((0, ptr::null())) };
    /// The thread's records of hazard pointers in all machines that it has used.
    static OWNED: RefCell<Owned> = const { RefCell::new(Owned(Vec::new())) };
}

/// A thread's records of hazard pointers: for each record, the table of its machine, and its number in this table. The
/// records return to their machines when the thread ends.
struct Owned(Vec<(Weak<Table>, u32)>);

impl Drop for Owned {
    fn drop(&mut self) {
        // Other thread-local values of this thread may be dropped later and still read pages. They then do so without
        // hazard pointers.
        CURRENT.set((0, ptr::null()));
        for (table, record) in self.0.drain(..) {
            if let Some(table) = table.upgrade() {
                table.free.lock().push(record);
            }
        }
    }
}

/// Returns whether a hazard pointer publishes nothing. If another thread withdrew the frame from the pointer, that
/// thread's accesses to the frame come before the next publication in the pointer.
#[inline(always)]
fn is_free(pointer: &AtomicU32) -> bool {
    pointer.load(Ordering::Acquire) == 0
}

/// Publishes a frame in a free hazard pointer.
#[inline(always)]
fn publish_in(pointer: &AtomicU32, frame: FrameNumber) -> HazardPointer<'_> {
    // A release store: a thread that sees this word also sees all earlier stores to records.
    pointer.store(PUBLISHED | frame.0, Ordering::Release);
    compiler_fence(Ordering::SeqCst);
    HazardPointer(pointer)
}

impl Hazards {
    /// Creates the hazard-pointer records of a machine. The hazard pointers are used only if `is_wanted` is true and
    /// the system permits `membarrier`.
    pub(super) fn new(is_wanted: bool) -> Self {
        static MACHINES: AtomicU64 = AtomicU64::new(0);
        let is_on = is_wanted && sys::can_interrupt_all();
        let empty = |_| Record(std::array::from_fn(|_| AtomicU32::new(0)));
        let table = Table {
            records: (0..RECORDS).map(empty).collect(),
            used: AtomicU32::new(0),
            free: Mutex::new(Vec::new()),
            barriers_begun: AtomicU64::new(0),
            barriers_done: Mutex::new(0),
        };
        Self { id: MACHINES.fetch_add(1, Ordering::Relaxed) + 1, is_on, table: Arc::new(table) }
    }

    /// Returns the calling thread's record of hazard pointers in this machine; `None` if this is not the machine that
    /// the thread used last.
    #[inline(always)]
    fn current_record(&self) -> Option<&Record> {
        let (id, record) = CURRENT.get();
        // SAFETY: the numbers are equal, so the pointer is to one of this machine's records, which stay in place as
        // long as the machine lives, or to the static `IN_USE`.
        (id == self.id).then(|| unsafe { &*record })
    }

    /// Returns the calling thread's record of hazard pointers in this machine, and makes it the current one. Takes a
    /// new record at the thread's first use of the machine.
    #[cold]
    fn own_record(&self) -> Option<&Record> {
        let find = |owned: &RefCell<Owned>| {
            let mut owned = owned.borrow_mut();
            let is_here = |(table, _): &&(Weak<Table>, u32)| std::ptr::eq(table.as_ptr(), Arc::as_ptr(&self.table));
            if let Some((_, record)) = owned.0.iter().find(is_here) {
                return Some(*record);
            }
            owned.0.retain(|(table, _)| table.strong_count() > 0);
            let record = self.table.take_record()?;
            owned.0.push((Arc::downgrade(&self.table), record));
            Some(record)
        };
        // `try_with` fails if the thread is ending and has already returned its records.
        let record = OWNED.try_with(find).ok()?.map_or(&IN_USE, |record| &self.table.records[record as usize]);
        CURRENT.set((self.id, record));
        Some(record)
    }
}

impl machine::Hazards for Hazards {
    type Pointer<'a> = HazardPointer<'a>;

    #[inline]
    fn are_on(&self) -> bool {
        self.is_on
    }

    /// Returns at random whether this read of a page is counted as a use. If every n-th read were counted, a loop over
    /// n pages would never count some of the pages.
    #[inline]
    fn counts_read(&self) -> bool {
        // A linear congruential generator, of which only the highest bits matter. It must be cheap, because each read
        // of a page that was written comes here. (Knuth, "Seminumerical Algorithms", 3.3.4; the constants come from
        // "Numerical Recipes", 7.1.)
        let state = CHANCE.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        CHANCE.set(state);
        state < u32::MAX / machine::READS_PER_COUNT
    }

    /// Publishes a frame in any free hazard pointer of the thread; returns `None` if no pointer is free.
    fn publish(&self, frame: FrameNumber) -> Option<HazardPointer<'_>> {
        let Record(pointers) = self.current_record().or_else(|| self.own_record())?;
        pointers.iter().find(|pointer| is_free(pointer)).map(|pointer| publish_in(pointer, frame))
    }

    /// Publishes a frame in the thread's first hazard pointer. Returns `None` if this pointer is not free, or if the
    /// thread used another machine last.
    #[inline(always)]
    fn publish_at_once(&self, frame: FrameNumber) -> Option<HazardPointer<'_>> {
        let first = &self.current_record()?.0[0];
        is_free(first).then(|| publish_in(first, frame))
    }

    #[inline(always)]
    fn withdraw(&self, HazardPointer(pointer): HazardPointer<'_>) {
        pointer.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// Ensures that all CPUs that run this process were interrupted after this call began. Either this thread
    /// interrupts them (`membarrier`), or another thread does so after this call began, and this thread waits for it.
    fn barrier(&self) {
        if !self.are_on() {
            return;
        }
        fence(Ordering::SeqCst);
        // Any barrier with this number or a higher one begins after this point.
        let wanted = self.table.barriers_begun.load(Ordering::SeqCst) + 1;
        let mut done = self.table.barriers_done.lock();
        if *done < wanted {
            let number = self.table.barriers_begun.fetch_add(1, Ordering::SeqCst) + 1;
            sys::interrupt_all();
            *done = number;
        }
        drop(done);
        fence(Ordering::SeqCst);
    }

    fn published(&self) -> Vec<FrameNumber> {
        let records = &self.table.records[..self.table.used.load(Ordering::Acquire) as usize];
        let pointers = records.iter().flat_map(|record| &record.0).map(|pointer| pointer.load(Ordering::Acquire));
        let mut frames: Vec<FrameNumber> =
            pointers.filter(|stored| *stored != 0).map(|stored| FrameNumber(stored & !PUBLISHED)).collect();
        frames.sort_unstable();
        frames
    }
}

impl Table {
    fn take_record(&self) -> Option<u32> {
        let mut free = self.free.lock();
        free.pop().or_else(|| {
            let used = self.used.load(Ordering::Relaxed);
            ((used as usize) < self.records.len()).then(|| {
                self.used.store(used + 1, Ordering::SeqCst);
                used
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Hazards as _;

    #[test]
    fn what_is_published_is_found_until_it_is_taken_back() {
        let hazards = Hazards::new(true);
        if !hazards.are_on() {
            return;
        }
        assert!(hazards.publish_at_once(FrameNumber(7)).is_none(), "a thread gets its record when it asks for any");
        let all: Vec<_> = (0..RECORD as u32).map(|n| hazards.publish(FrameNumber(40 - n)).unwrap()).collect();
        assert!(hazards.publish(FrameNumber(7)).is_none(), "a thread has {RECORD}");
        assert!(hazards.publish_at_once(FrameNumber(7)).is_none(), "not over what is published");
        assert_eq!(hazards.published(), (25..=40).map(FrameNumber).collect::<Vec<_>>());
        all.into_iter().for_each(|pointer| hazards.withdraw(pointer));
        assert_eq!(hazards.published(), []);
        let first = hazards.publish_at_once(FrameNumber(0)).unwrap();
        assert_eq!(hazards.published(), [FrameNumber(0)]);
        hazards.withdraw(first);
    }

    #[test]
    fn who_waits_for_a_barrier_takes_one_that_began_later() {
        let hazards = Hazards::new(true);
        if !hazards.are_on() {
            return;
        }
        // Four threads ask for a barrier while a first one is under way. One more barrier is enough for all four.
        let held = hazards.table.barriers_done.lock();
        hazards.table.barriers_begun.fetch_add(1, Ordering::SeqCst);
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| hazards.barrier())));
            std::thread::sleep(std::time::Duration::from_millis(50));
            let mut held = held;
            *held = 1;
        });
        assert_eq!((hazards.table.barriers_begun.load(Ordering::SeqCst), *hazards.table.barriers_done.lock()), (2, 2));
    }

    #[test]
    fn a_record_outlives_its_thread() {
        let (first, second) = (Hazards::new(true), Hazards::new(true));
        if !first.are_on() {
            return;
        }
        let held = std::thread::scope(|scope| {
            let publish =
                || (first.publish(FrameNumber(1)), second.publish(FrameNumber(2)), first.publish(FrameNumber(3)));
            scope.spawn(publish).join().unwrap()
        });
        assert_eq!(
            (first.published(), second.published()),
            (vec![FrameNumber(1), FrameNumber(3)], vec![FrameNumber(2)])
        );
        // The next thread gets the same record, in which one pointer is still published.
        let next = std::thread::scope(|scope| scope.spawn(|| first.publish(FrameNumber(4))).join().unwrap());
        assert_eq!(first.table.used.load(Ordering::Relaxed), 1);
        first.withdraw(held.0.unwrap());
        assert_eq!(first.published(), [FrameNumber(3), FrameNumber(4)]);
        first.withdraw(next.unwrap());
        assert_eq!(first.published(), [FrameNumber(3)]);
    }

    #[test]
    fn more_threads_than_records_do_without() {
        let hazards = Hazards::new(true);
        if !hazards.are_on() {
            return;
        }
        hazards.table.used.store(RECORDS as u32, Ordering::Relaxed);
        assert!(hazards.publish(FrameNumber(1)).is_none());
        hazards.table.used.store(0, Ordering::Relaxed);
    }
}
