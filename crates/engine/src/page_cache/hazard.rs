//! Hazard pointers, by which readers hold pages without a reference and without a latch.
//!
//! Taking a reference and a latch changes the page's descriptor, a cache line that this reader and readers on other
//! CPUs then wait for. A clean page that is used often is therefore *open*, which its slot in the index says. A reader
//! of an open page publishes the frame in a hazard pointer of its own and reads the slot again. If the slot has not
//! changed, the reader holds the page until it withdraws the pointer.
//!
//! The cost falls on a task that needs the page exclusively: it *closes* the slot, makes every CPU take notice
//! ([`machine::Hazards::barrier`]), and reads the published pointers. One barrier serves all pages that were closed
//! before it: a page keeps the number of the last barrier that had begun when it was closed. Reclaim closes pages when
//! it clears their use marks, which is one round over the lists before it frees them. So it needs only one barrier for
//! each round. A writer needs one barrier for each open page that it makes dirty. The writer waits for readers without
//! the latch, because a reader that holds the page by a hazard pointer may want the latch as well. A page that leaves
//! its file while a reader holds it stays in its frame until the reader releases it.
//!
//! Only clean pages are opened. A page that was dirty is opened only after [`READS_AFTER_A_WRITE`] reads, so readers of
//! a page that is written repeatedly take a reference and the latch.
//!
//! The flag [`Flags::HAZARD`] is set while hazard pointers may hold a page. The flag is set when the page is opened. A
//! task clears the flag when it has closed the page and then found it in no hazard pointer, while no task could open
//! the page: the page was frozen, its latch was exclusive, or it had left its file.
//!
//! Hazard pointers are used only if the machine has them and the kernel has `lru.activation = "at-scan"`. A use of an
//! open page is not recorded. This is correct as long as the page is marked as used; the task that clears the marks
//! closes the page.

use super::latch::Wait;
use super::{File, FileOwners, PageCache, Shadow};
use crate::memory::{Flags, Owner};
use machine::atomic::{AtomicU32, Ordering};
use machine::{FrameNumber, Hazards, Lock, LockClass, Machine, READS_PER_COUNT, WaitReason, Waiting};

/// Average number of reads after which a page that was dirty is opened again to readers with hazard pointers.
///
/// To open a page is worth its cost only if readers then save more time than the barrier of the next write takes. A
/// read of an open page saves some 80 ns, the cost of a reference and the latch (docs/studies/library-changes.md,
/// "Hazard pointers beside writes"). The barrier took 15 us in a call of `page_mut` while other threads read (two CPUs,
/// Linux 6.18). This is as much time as 190 reads of an open page save.
///
/// The constant is larger than 190, so that a page almost always stays closed if one in a hundred of its uses is a
/// write. One read in 32 is counted, so 1024 reads are 32 counted reads. A use of the page is a counted read with a
/// probability of 0.031, and a write with a probability of 0.01. The probability that 32 counted reads come before one
/// write is (0.031 / 0.041)^32, or 0.01 %. With a constant of 512, and one read in 16 counted, the probability would be
/// 0.8 %. The constant was chosen, and not found by a sweep.
pub const READS_AFTER_A_WRITE: u32 = 1024;

/// Number of counted reads after which a page that was dirty may be opened. One read in [`READS_PER_COUNT`] is counted,
/// so this is the count that [`READS_AFTER_A_WRITE`] reads reach on average.
const COUNTED_READS: u32 = READS_AFTER_A_WRITE / READS_PER_COUNT;

const _: () = assert!(COUNTED_READS <= Flags::READS_MAX, "a page's word counts no more");

/// The frames that readers held by hazard pointers at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    frames: Vec<FrameNumber>,
    /// Number of the last memory barrier (of all threads) that was made before the hazard pointers were read.
    barrier: u32,
}

impl Held {
    /// Returns whether it is certain that no hazard pointer holds the page in `frame`. `closed_at` is the number of
    /// barriers that had begun when the page was last closed to hazard pointers. The page must still be closed.
    #[must_use]
    pub fn is_free(&self, frame: FrameNumber, closed_at: u32) -> bool {
        is_before(closed_at, self.barrier) && self.frames.binary_search(&frame).is_err()
    }
}

/// Returns whether barrier number `number` began after barrier number `begun`. Numbers repeat after 2^32 barriers.
const fn is_before(begun: u32, number: u32) -> bool {
    number.wrapping_sub(begun).cast_signed() > 0
}

/// The state that all readers with hazard pointers share: counts of barriers ([`machine::Hazards::barrier`]), and the
/// tasks and pages that wait until readers release pages.
pub(crate) struct Readers<M: Machine> {
    /// Number of barriers that have begun so far, which is also the number of the barrier that began last.
    /// `barriers_done` is the number of the last complete barrier.
    barriers_begun: AtomicU32,
    barriers_done: AtomicU32,
    /// Number of tasks that wait until readers release a page, plus the number of pages in `cut_off`.
    waits: AtomicU32,
    /// Pages that left their file while readers held them. The list has a reference to each page.
    cut_off: M::Lock<Vec<FrameNumber>>,
}

impl<M: Machine> Readers<M> {
    pub(super) fn new(machine: &M) -> Self {
        Self {
            barriers_begun: AtomicU32::new(0),
            barriers_done: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            cut_off: machine.lock(LockClass::Other, Vec::new()),
        }
    }
}

impl<M: Machine> PageCache<M> {
    /// Lets tasks read a page of a file with hazard pointers, without a reference. The page must have the marks of
    /// frequent use, and the caller must hold the page's latch, shared. Does nothing if the page is dirty, if it was
    /// read too few times since it was last dirty, or if a task waits until readers release pages.
    #[inline]
    pub fn open_page(&self, file: &File<M>, page: u32, frame: FrameNumber, flags: Flags) {
        if flags.has(Flags::DIRTY) || !self.machine.hazards().are_on() {
            return;
        }
        let descriptor = &self.frames[frame];
        // This test comes first, because pages that are written again and again are met most often, and their readers
        // then do no other work here.
        if flags.has(Flags::WRITTEN) && !(self.machine.hazards().counts_read() && descriptor.count_read(COUNTED_READS))
        {
            return;
        }
        // No page is opened while a task waits for readers to release one, be it this page or another.
        if !self.is_hazard_waited_for() {
            descriptor.set(Flags::HAZARD);
            file.index.open(page, frame);
        }
    }

    /// Closes a page to readers with hazard pointers, because the page's marks of use were cleared. Readers with hazard
    /// pointers set no marks, so reclaim would not see their use of the page. The caller has a reference to the page.
    #[inline]
    pub fn close_page(&self, frame: FrameNumber, owners: &mut FileOwners<M>) {
        let descriptor = &self.frames[frame];
        if descriptor.is(Flags::HAZARD)
            && let Some(file) = owners.file_of(self, frame)
            && file.index.close(descriptor.index(), frame)
        {
            // No task can freeze the page before this number is stored, because the caller has a reference.
            descriptor.set_closed_at(self.readers.barriers_begun.load(Ordering::SeqCst));
        }
    }

    /// Returns the frames that readers hold by hazard pointers. Makes no memory barrier, so the result is reliable only
    /// for pages that were closed before the last complete barrier began.
    fn held_at_last_barrier(&self) -> Held {
        let barrier = self.readers.barriers_done.load(Ordering::SeqCst);
        Held { frames: self.machine.hazards().published(), barrier }
    }

    /// Returns the frames that readers hold by hazard pointers, after a barrier that makes all earlier changes of
    /// hazard pointers visible to the caller.
    pub fn held(&self) -> Held {
        let number = self.readers.barriers_begun.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        self.machine.hazards().barrier();
        let later = |done| is_before(done, number).then_some(number);
        let _ = self.readers.barriers_done.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        Held { frames: self.machine.hazards().published(), barrier: number }
    }

    /// Returns whether a hazard pointer holds a page. No new one can: the caller has closed the page to such readers,
    /// or the page has left its file.
    fn is_held(&self, frame: FrameNumber) -> bool {
        self.held().frames.binary_search(&frame).is_ok()
    }

    /// Closes a page to readers with hazard pointers, and returns whether no reader holds the page. The caller has the
    /// page's exclusive latch.
    #[cold]
    pub(super) fn is_let_go(&self, frame: FrameNumber) -> bool {
        self.close_page(frame, &mut FileOwners::default());
        let is_let_go = !self.is_held(frame);
        if is_let_go {
            self.frames[frame].clear(Flags::HAZARD);
        }
        is_let_go
    }

    /// Waits until no reader holds a page by a hazard pointer. The caller has a reference to the page. The calling task
    /// may sleep. Returns `false` if the time `wait` is over before.
    #[cold]
    pub(super) fn wait_until_let_go(&self, frame: FrameNumber, wait: Wait) -> bool {
        if wait == Wait::No {
            return false;
        }
        self.readers.waits.fetch_add(1, Ordering::SeqCst);
        let is_let_go = loop {
            let queue = self.page_queue(frame);
            let ticket = self.machine.ticket(queue);
            self.close_page(frame, &mut FileOwners::default());
            if !self.is_held(frame) {
                break true;
            }
            if self.is_over(wait) {
                break false;
            }
            let waiting = Waiting::begin(&self.machine, WaitReason::PageLatch);
            self.machine.sleep(queue, ticket, wait.deadline());
            drop(waiting);
            self.machine.relax();
        };
        self.readers.waits.fetch_sub(1, Ordering::SeqCst);
        is_let_go
    }

    /// Returns whether a reader that releases a page may have something to do: a task waits until readers release a
    /// page, or a page that left its file is kept because readers still hold it.
    #[inline(always)]
    pub fn is_hazard_waited_for(&self) -> bool {
        self.readers.waits.load(Ordering::Relaxed) != 0
    }

    /// Removes from `pages` the pages that readers still hold, and keeps these pages until readers release them;
    /// [`PageCache::let_go`] then returns them. All of the pages in `pages` have left their files, and the caller has a
    /// reference to each.
    pub(crate) fn keep_held(&self, pages: &mut Vec<FrameNumber>) {
        if !pages.iter().any(|frame| self.frames[*frame].is(Flags::HAZARD)) {
            return;
        }
        let held = self.held().frames;
        let kept: Vec<FrameNumber> = pages.extract_if(.., |frame| held.binary_search(frame).is_ok()).collect();
        if !kept.is_empty() {
            self.readers.waits.fetch_add(kept.len() as u32, Ordering::SeqCst);
            self.readers.cut_off.lock().extend(&kept);
            // A reader may have released one of the pages before the page was in `cut_off`, and so have left the page
            // to this task.
            pages.extend(self.let_go(None));
        }
    }

    /// Returns the kept pages (pages that left their files while readers held them) that no reader holds any more. The
    /// caller gets a reference to each. `let_go` is the page that a reader has just released, if any; if it is not a
    /// kept page, the method returns no page.
    #[must_use]
    pub(crate) fn let_go(&self, let_go: Option<FrameNumber>) -> Vec<FrameNumber> {
        // The lock is held while the hazard pointers are read. A page that is added to `cut_off` later may be held by a
        // reader that was not seen.
        let mut cut_off = self.readers.cut_off.lock();
        if cut_off.is_empty() || let_go.is_some_and(|frame| !cut_off.contains(&frame)) {
            return Vec::new();
        }
        let held = self.held().frames;
        let gone: Vec<FrameNumber> = cut_off.extract_if(.., |frame| held.binary_search(frame).is_err()).collect();
        self.readers.waits.fetch_sub(gone.len() as u32, Ordering::SeqCst);
        gone
    }

    /// Wakes the tasks that wait until readers release a page, after a reader has released it.
    pub(crate) fn wake_hazard_waiters(&self, frame: FrameNumber) {
        self.machine.wake_for(self.page_queue(frame), frame);
    }

    /// Returns whether a page belongs to a file and may be held by hazard pointers.
    #[must_use]
    pub(crate) fn may_be_held(&self, frame: FrameNumber) -> bool {
        self.frames[frame].is(Flags::HAZARD) && matches!(self.frames[frame].owner(), Owner::File(_))
    }

    /// Closes pages, so that no further reader takes them by a hazard pointer. Returns the frames that readers still
    /// hold by hazard pointers. One barrier serves all of the pages. The caller has references to the pages.
    pub(crate) fn close_pages(&self, pages: &[FrameNumber], owners: &mut FileOwners<M>) -> Held {
        for frame in pages {
            self.close_page(*frame, owners);
        }
        let done = self.readers.barriers_done.load(Ordering::SeqCst);
        let is_known = pages.iter().all(|frame| is_before(self.frames[*frame].closed_at(), done));
        if is_known {
            return self.held_at_last_barrier();
        }
        // All of the pages get the present number: the number of a page that was closed 2^31 barriers ago would be
        // taken for a number of the future.
        let begun = self.readers.barriers_begun.load(Ordering::SeqCst);
        pages.iter().for_each(|frame| self.frames[*frame].set_closed_at(begun));
        self.held()
    }

    /// Returns whether, according to `held`, no reader holds a frozen page of a file. If so, clears [`Flags::HAZARD`],
    /// because no task can open the page again while it is frozen.
    pub(crate) fn is_free_of_readers(&self, file: &File<M>, frame: FrameNumber, held: Option<&Held>) -> bool {
        let descriptor = &self.frames[frame];
        if !descriptor.is(Flags::HAZARD) {
            return true;
        }
        let is_open = file.index.find(descriptor.index()).is_some_and(|found| found.is_open());
        let is_free = !is_open && held.is_some_and(|held| held.is_free(frame, descriptor.closed_at()));
        if is_free {
            descriptor.clear(Flags::HAZARD);
        }
        is_free
    }

    /// Removes pages from their files, each as [`PageCache::remove_file_page`] does. Hazard pointers may hold some of
    /// the pages; one barrier serves all of them. The caller has a reference to each page, but not its lock. `shadow`
    /// returns the shadow that a page leaves in its slot. Calls `then` with each page, and with whether it was removed.
    pub(crate) fn remove_mappings(
        &self,
        pages: &[FrameNumber],
        owners: &mut FileOwners<M>,
        shadow: impl Fn(FrameNumber) -> Option<Shadow>,
        mut then: impl FnMut(FrameNumber, bool),
    ) {
        if pages.is_empty() {
            return;
        }
        let held = self.close_pages(pages, owners);
        for &frame in pages {
            let descriptor = &self.frames[frame];
            let is_removed = descriptor.try_lock() && {
                let file = owners.file_of(self, frame).filter(|_| !descriptor.is(Flags::WRITEBACK));
                let is_removed =
                    file.is_some_and(|file| self.remove_file_page(frame, file, Some(&held), shadow(frame)));
                match is_removed {
                    true => descriptor.clear(Flags::LOCKED),
                    false => self.unlock_page(frame),
                }
                is_removed
            };
            then(frame, is_removed);
        }
    }
}
