//! Completions: the machine under the engine (the *ground*) calls this module when a request to a device has ended, and
//! the module updates the lower layers (*floors*) of the engine.
//!
//! *Flow*: the end of a read makes its pages valid and unlocks them. The end of a write ends the writeback of all its
//! pages. Pages that reclaim waits for are also rotated to the tail of their list. The module is called by the ground,
//! in interrupt context. So no function of this module sleeps, allocates memory or submits requests. *Description*:
//! mechanisms/reclaim, 8.2.

use crate::Engine;
use crate::access::Access;
use crate::anonymous::Owners;
use crate::memory::Flags;
use machine::{Completions, FrameNumber, IoError, Machine, Operation, Request, Step};

impl<M: Machine> Completions for Engine<M> {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        self.access().end_request(&request, result);
    }
}

impl<M: Machine> Access<M> {
    fn end_request(&self, request: &Request, result: Result<(), IoError>) {
        self.machine.spend(Step::EndPage, request.frames.len() as u32);
        let mut owners = Owners::default();
        for &frame in &request.frames {
            let frame = self.writeback().end_copy(frame);
            if self.frames[frame].is(Flags::KERNEL) {
                self.end_direct(frame, result);
                continue;
            }
            match request.operation {
                Operation::Read => self.end_read(frame, result),
                Operation::Write => self.end_write(frame, result, &mut owners),
            }
        }
    }

    fn end_direct(&self, frame: FrameNumber, result: Result<(), IoError>) {
        if let Err(error) = result {
            self.frames[frame].note_read_error(error);
        }
        self.page_cache().unlock_page(frame);
    }

    /// Ends the read of a page. When the last page of a folio has been read, marks the folio as up to date and unlocks
    /// it. But if the read of one of its pages failed, stores the error for the folio instead of the mark.
    pub(crate) fn end_read(&self, page: FrameNumber, result: Result<(), IoError>) {
        let folio = self.frames.folio(page);
        let Some(result) = self.frames.end_io(folio, result) else { return };
        let frame = folio.head;
        match result {
            Ok(()) => self.frames[frame].set(Flags::UPTODATE),
            Err(error) => self.frames[frame].note_read_error(error),
        }
        self.page_cache().unlock_page(frame);
    }

    fn end_write(&self, page: FrameNumber, result: Result<(), IoError>, owners: &mut Owners<M>) {
        let folio = self.frames.folio(page);
        let Some(result) = self.frames.end_io(folio, result) else { return };
        let frame = folio.head;
        let descriptor = &self.frames[frame];
        let file = owners.file_of(self, frame);
        if let (Ok(()), Some(file)) = (result, file) {
            self.writeback().end_good_write(file, frame);
        }
        if let Err(error) = result {
            match file {
                Some(file) => self.writeback().end_failed_write(file, frame, error),
                // No file has the page: its contents exist nowhere else, so it must stay dirty.
                None => descriptor.set(Flags::DIRTY),
            }
            descriptor.clear(Flags::RECLAIM);
        }
        let is_waited_for = descriptor.test_clear(Flags::RECLAIM);
        if is_waited_for {
            self.lru().rotate(frame);
        }
        self.writeback().end_writeback(frame, file.map(AsRef::as_ref));
        self.reclaim().note_written(frame, folio.order.pages());
        // When a waiter wakes up, the page can be freed already, and no longer counts as under writeback.
        if is_waited_for {
            self.machine.wake(&self.written);
        }
    }
}
