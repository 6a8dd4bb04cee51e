//! Pages that readers hold by hazard pointers: without a reference, and without a latch.
//!
//! Taking a reference and a latch changes the page's descriptor: a line of memory that the reader waits for, and that
//! readers on other CPUs wait for in turn. A page that is used often, and clean, is *open* instead: its slot in the index
//! says so. A reader publishes the frame in a hazard pointer of its own and looks at the slot once more; if nothing
//! has changed the page is its until it withdraws the pointer.
//!
//! Whoever needs the page for itself pays for that: it *closes* the slot, and asks the machine which frames are
//! published ([`Machine::published`]), which interrupts every CPU. Reclaim does so once for a list of pages, as it flushes
//! translations of many pages together. A writer does so once, for only clean pages are open. A page that is cut off
//! its file while it is held stays where it is until it is let go.
//!
//! [`Flags::HAZARD`] is set as long as a page may be held that way: from its opening until somebody, after closing
//! it, found it in no hazard pointer, while nobody could open it: the page was frozen, its latch was exclusive, or it was
//! of no file any more.
//!
//! Only where the machine has hazard pointers, and with `lru.activation = at-scan`: uses of open pages are not noted, which
//! is well as long as they are marked as used already. Who takes the marks away closes the page.

use super::{File, FileIndex, Mapping, Owners};
use crate::memory::{Flags, Owner};
use machine::atomic::{AtomicU32, Ordering};
use machine::{FrameNumber, Lock, LockClass, Machine, Step};

/// The frames that were published at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held(Vec<FrameNumber>);

impl Held {
    /// Was this one?
    #[must_use]
    pub fn contains(&self, frame: FrameNumber) -> bool {
        self.0.binary_search(&frame).is_ok()
    }
}

/// What readers with hazard pointers have to look after when they let go.
pub(crate) struct Hazards<M: Machine> {
    /// Those that wait for a page to be let go, and pages in `cut_off`.
    waits: AtomicU32,
    /// Pages that left their file while they were held, each with a reference.
    cut_off: M::Lock<Vec<FrameNumber>>,
}

impl<M: Machine> Hazards<M> {
    pub(super) fn new(machine: &M) -> Self {
        Self { waits: AtomicU32::new(0), cut_off: machine.lock(LockClass::Other, Vec::new()) }
    }
}

impl<M: Machine> Mapping<M> {
    /// The page of a file, held by a hazard pointer; nothing when it is not in memory or not open, or the task has no
    /// hazard pointer left.
    // Nothing more in here: how many pages a processor waits for at the same time is decided by how few instructions
    // lie between them.
    #[inline(always)]
    pub fn get_open(&self, index: &FileIndex, page: u32) -> Option<(FrameNumber, M::Hazard<'_>)> {
        let found = index.find_open(page)?;
        self.machine.spend(Step::IndexLookup, 1);
        let hazard = self.machine.publish(found.frame)?;
        if found.is_unchanged() {
            return Some((found.frame, hazard));
        }
        self.machine.withdraw(hazard);
        None
    }

    /// Opens a page of a file that is marked as used often, if it is clean. The caller has its shared latch.
    #[inline]
    pub fn open_page(&self, file: &File<M>, page: u32, frame: FrameNumber, flags: Flags) {
        if self.machine.has_hazards() && !flags.has(Flags::DIRTY) {
            self.frames[frame].set(Flags::HAZARD);
            file.index.open(page, frame);
        }
    }

    /// The marks of a page's use were taken away: its readers are to leave new ones.
    #[inline]
    pub fn close_page(&self, frame: FrameNumber, owners: &mut Owners<M>) {
        if self.frames[frame].is(Flags::HAZARD)
            && let Some(file) = owners.file_of(self, frame)
        {
            file.index.close(self.frames[frame].index(), frame);
        }
    }

    /// The frames that readers hold by hazard pointers. Of a page that was closed before: all that ever will, until it is
    /// opened again.
    pub fn held(&self) -> Held {
        Held(self.machine.published())
    }

    /// Closes a page whose exclusive latch the caller has, and waits until no reader holds it. *May sleep.*
    #[cold]
    pub(super) fn wait_for_hazards(&self, frame: FrameNumber) {
        self.close_page(frame, &mut Owners::default());
        if self.held().contains(frame) {
            self.hazards.waits.fetch_add(1, Ordering::SeqCst);
            loop {
                let queue = self.page_queue(frame);
                let ticket = self.machine.ticket(queue);
                if !self.held().contains(frame) {
                    break;
                }
                self.machine.sleep(queue, ticket, None);
                self.machine.relax();
            }
            self.hazards.waits.fetch_sub(1, Ordering::SeqCst);
        }
        self.frames[frame].clear(Flags::HAZARD);
    }

    /// Is somebody to be told when a page is let go?
    #[inline(always)]
    pub fn is_hazard_waited_for(&self) -> bool {
        self.hazards.waits.load(Ordering::Relaxed) != 0
    }

    /// Takes those of `pages`, which left their files and to each of which the caller has a reference, that readers
    /// still hold: their references are given back later.
    pub(crate) fn keep_held(&self, pages: &mut Vec<FrameNumber>) {
        if !pages.iter().any(|frame| self.frames[*frame].is(Flags::HAZARD)) {
            return;
        }
        let held = self.held();
        let kept: Vec<FrameNumber> = pages.extract_if(.., |frame| held.contains(*frame)).collect();
        if !kept.is_empty() {
            self.hazards.waits.fetch_add(kept.len() as u32, Ordering::SeqCst);
            self.hazards.cut_off.lock().extend(&kept);
            // Whoever let go before it could know of them has left them here.
            pages.extend(self.let_go());
        }
    }

    /// Pages that left their files, and that no reader holds any more; with a reference of each for the caller.
    #[must_use]
    pub(crate) fn let_go(&self) -> Vec<FrameNumber> {
        // Held while the machine is asked: what comes here later may be held by those that it did not see.
        let mut cut_off = self.hazards.cut_off.lock();
        if cut_off.is_empty() {
            return Vec::new();
        }
        let held = self.held();
        let gone: Vec<FrameNumber> = cut_off.extract_if(.., |frame| !held.contains(*frame)).collect();
        self.hazards.waits.fetch_sub(gone.len() as u32, Ordering::SeqCst);
        gone
    }

    /// A reader let go of a page while somebody waited for that: wakes who waits for this one.
    pub(crate) fn wake_hazard_waiters(&self, frame: FrameNumber) {
        self.machine.wake(self.page_queue(frame));
    }

    /// May a page of a file be held by hazard pointers?
    #[must_use]
    pub(crate) fn may_be_held(&self, frame: FrameNumber) -> bool {
        self.frames[frame].is(Flags::HAZARD) && matches!(self.frames[frame].owner(), Owner::File(_))
    }

    /// As [`Mapping::remove_mapping`], of pages that may be held by hazard pointers and that the caller has a reference of,
    /// but has not locked: asks once who holds them. Calls `then` with each, and whether it was removed.
    pub(crate) fn remove_mappings(
        &self,
        pages: &[FrameNumber],
        owners: &mut Owners<M>,
        mut then: impl FnMut(FrameNumber, bool),
    ) {
        if pages.is_empty() {
            return;
        }
        for frame in pages {
            self.close_page(*frame, owners);
        }
        let held = self.held();
        for &frame in pages {
            let descriptor = &self.frames[frame];
            let is_removed = descriptor.try_lock() && {
                let file = owners.file_of(self, frame).filter(|_| !descriptor.is(Flags::WRITEBACK));
                let is_removed = file.is_some_and(|file| self.remove_mapping(frame, Some(file), Some(&held)));
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
