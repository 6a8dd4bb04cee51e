//! The trait [`Backend`], whose implementations move bytes between frames and files, and [`Transfer`], a disk request
//! under way.

use super::cipher::{Cipher, Sealed};
use super::device::{Device, Durable};
use super::generation::Generation;
use super::progress::{Cause, Extent, Next, Progress};
use crate::machine::arena::IoRun;
use crate::machine::sys::{self, Errno};
use machine::{BLOCK_BYTES, Operation, Request};
use smallvec::SmallVec;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread;

/// Largest size, bytes, of a write that ends within a block and goes as a whole through the page cache of the kernel. A
/// larger write that ends within a block is split into two system calls: its whole blocks go by O_DIRECT, the rest
/// through the page cache. For a small write, the second system call would cost more than O_DIRECT saves.
const TAIL_BYTES_MAX: usize = 16 * BLOCK_BYTES;

/// The memory of a request, as a list of contiguous runs. Up to four runs need no allocation.
pub(super) type Runs<'a> = SmallVec<[IoRun<'a>; 4]>;

/// A way to carry out disk requests. Each transfer (request under way) must be ended exactly once: by
/// [`Transfer::perform`], by [`Transfer::fail`], or by a backend of this library.
pub trait Backend: Send + Sync {
    /// Carries out a transfer (request under way) that the caller waits for. In most backends, the transfer is finished
    /// when this function returns. A backend may instead pass the transfer on to another thread; the caller then waits
    /// for its end.
    fn run(&self, transfer: Transfer) {
        transfer.perform();
    }

    /// Carries out transfers (requests under way) in parallel, possibly on other threads. When this function returns,
    /// some transfers may still be under way on those threads. The caller waits for their end.
    fn run_all(&self, transfers: Vec<Transfer>);

    /// Passes a transfer (request under way) to another thread, which carries it out.
    fn start(&self, transfer: Transfer);

    /// Makes the data that were written to a device durable.
    ///
    /// # Errors
    /// Errors of the system.
    fn sync(&self, device: &Device, wanted: Durable) -> io::Result<()> {
        device.sync_in_system(wanted)
    }

    /// Returns whether every request must go through this backend, even a small read that the submitter could carry out
    /// itself.
    fn sees_all(&self) -> bool {
        false
    }
}

/// Reads a few pages on the calling thread, which waits for the read. The function must be fast, because small reads
/// that miss the page cache use it. Therefore it does not count a read that succeeds at once as in flight. The count of
/// requests in flight is needed only to close the device, and a task closes a device only when no other task submits
/// requests to it.
#[inline]
pub(super) fn read_in_place(device: &Arc<Device>, request: Request) {
    if device.backend.sees_all() || device.checksums.is_some() || device.cipher.is_some() {
        return device.backend.run(Transfer::new(Arc::clone(device), request));
    }
    let whole = request.frames.len() * BLOCK_BYTES;
    if device.bytes_within(first_byte(&request), whole) < whole {
        return Transfer::new(Arc::clone(device), request).perform();
    }
    let mut runs = Runs::new();
    device.context.arena.runs(&request.frames, 0, &mut runs);
    let moved = sys::transfer(device.file(), Operation::Read, first_byte(&request), &runs);
    if moved == Ok(whole) && device.lost_in(&request).is_none() {
        device.context.complete(request, Ok(()));
    } else {
        Transfer::new(Arc::clone(device), request).go_on(moved);
    }
}

fn first_byte(request: &Request) -> u64 {
    request.block.checked_mul(BLOCK_BYTES as u64).expect("devices have fewer than 2^52 blocks")
}

/// A place among the requests that a device has in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    None,
    /// A place in the device's queue.
    Queue,
    /// A place in the device's line.
    Line,
}

/// A disk request under way: the request, its device, and what is left to be moved.
#[must_use = "somebody waits for each request"]
pub struct Transfer {
    device: Arc<Device>,
    request: Request,
    /// Number of bytes that the transfer moves. A write moves no bytes after the end of the file.
    bytes: usize,
    /// Number of the request's bytes that lay within the file when the transfer began.
    within: usize,
    /// The group of writes (see [`Generation`]) in which the device counts this write as under way; `None` for a read.
    generation: Option<Generation>,
    /// For a write: the number of truncations of the file by other processes that were noticed before the first attempt
    /// to write. `None` for a read, and before this attempt.
    cuts_before: Option<u32>,
    progress: Progress,
    /// True if the device's end was compared with the expected end for the next attempt of this write.
    is_end_checked: bool,
    /// True if each attempt of this write returns only when the data are durable (`RWF_DSYNC`).
    syncs_itself: bool,
    /// The place that the transfer holds.
    place: Place,
    /// Limit of the number of bytes that the next attempt moves, for tests; `None` for no limit.
    cut: Option<usize>,
    /// The encrypted blocks of a write to an encrypted device, once the first attempt to write has begun; otherwise
    /// empty.
    sealed: Vec<Sealed>,
}

const _: () = assert!(size_of::<Transfer>() <= 256, "docs/library-async.md says what a waiting read takes");

impl Transfer {
    pub(super) fn new(device: Arc<Device>, request: Request) -> Self {
        device.begin();
        let generation = (request.operation == Operation::Write).then(|| device.begin_write());
        let whole = request.frames.len() * BLOCK_BYTES;
        let within = device.bytes_within(first_byte(&request), whole);
        let bytes = match request.operation {
            Operation::Read => whole,
            Operation::Write => within,
        };
        let progress = Progress::default();
        let transfer = Self {
            device,
            request,
            bytes,
            within,
            generation,
            cuts_before: None,
            progress,
            is_end_checked: false,
            syncs_itself: false,
            place: Place::None,
            cut: None,
            sealed: Vec::new(),
        };
        if transfer.request.operation == Operation::Write
            && let Some(checksums) = &transfer.device.checksums
        {
            transfer.for_each_block(|block, bytes| checksums.note(block, bytes));
        }
        transfer
    }

    /// Calls `visit` for each block of the request that begins before the file's end, with the number and the bytes of
    /// the block. The file's end is that at the time when the transfer began. Blocks after it have no known checksum,
    /// and are left out.
    fn for_each_block(&self, mut visit: impl FnMut(u64, &[u8; BLOCK_BYTES])) {
        let mut bytes = [0; BLOCK_BYTES];
        let within = self.within.div_ceil(BLOCK_BYTES);
        for (block, &frame) in (self.request.block..).zip(&self.request.frames).take(within) {
            self.device.context.arena.snapshot(frame, &mut bytes);
            visit(block, &bytes);
        }
    }

    /// Checks a finished transfer and returns the result to report. Data that were read are compared with their
    /// checksums, or decrypted, and bytes after the file's end become zeroes. After a failed write, the checksums of
    /// its blocks, or their nonces and tags, are forgotten.
    fn check(&self, result: Result<(), Cause>) -> Result<(), Cause> {
        if self.request.operation == Operation::Read && self.within < self.bytes {
            // The file in the system may be longer than its owner knows: the system refused to truncate it, or another
            // process has made it longer. The bytes after the owner's end become zeroes. The end at the beginning of
            // the read counts, because a task that truncates within a page waits until the page was read.
            self.zero_from(self.within);
        }
        if (self.request.operation, result) == (Operation::Read, Ok(()))
            && let Some(lost) = self.device.lost_in(&self.request)
        {
            return Err(Cause::Truncated { end: lost.start, expected_end: lost.end });
        }
        if let Some(cipher) = &self.device.cipher {
            return match (self.request.operation, result) {
                (Operation::Read, Ok(())) => self.open(cipher),
                (Operation::Write, Err(cause)) => {
                    cipher.forget(&self.request);
                    Err(cause)
                }
                (_, result) => result,
            };
        }
        let Some(checksums) = &self.device.checksums else { return result };
        match (self.request.operation, result) {
            (Operation::Read, Ok(())) => {
                let mut wrong = None;
                self.for_each_block(|block, bytes| {
                    if !checksums.verify(block, bytes) {
                        wrong.get_or_insert(block);
                    }
                });
                wrong.map_or(Ok(()), |block| Err(self.device.why_wrong(block)))
            }
            (Operation::Write, Err(cause)) => {
                checksums.forget(&self.request);
                Err(cause)
            }
            (_, result) => result,
        }
    }

    /// Encrypts the data of the transfer, which is a write, into separate memory (`sealed`).
    ///
    /// # Errors
    /// When the system grants no memory for the encrypted blocks.
    fn seal(&mut self, cipher: &Cipher) -> Result<(), Errno> {
        let mut sealed: Vec<Sealed> = Vec::new();
        sealed.try_reserve_exact(self.request.frames.len()).map_err(|_| libc::ENOMEM)?;
        for (block, &frame) in (self.request.block..).zip(&self.request.frames) {
            sealed.push(Sealed([0; BLOCK_BYTES]));
            let bytes = &mut sealed.last_mut().expect("pushed just now").0;
            self.device.context.arena.snapshot(frame, bytes);
            cipher.seal(block, bytes).ok_or(libc::ENOMEM)?;
        }
        self.sealed = sealed;
        Ok(())
    }

    /// Decrypts, in place, the data that this transfer has read into the frames.
    fn open(&self, cipher: &Cipher) -> Result<(), Cause> {
        let arena = &self.device.context.arena;
        let mut wrong = None;
        for (block, &frame) in (self.request.block..).zip(&self.request.frames) {
            let mut bytes = [0; BLOCK_BYTES];
            arena.snapshot(frame, &mut bytes);
            if cipher.open(block, &mut bytes) {
                arena.write(frame, 0, &bytes);
            } else {
                wrong.get_or_insert(block);
            }
        }
        wrong.map_or(Ok(()), |block| Err(self.device.why_wrong(block)))
    }

    /// Returns the request that was submitted.
    #[must_use]
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Makes the next attempt move at most `bytes` bytes of the transfer.
    pub fn cut(&mut self, bytes: usize) {
        self.cut = Some(bytes);
    }

    /// Ends the transfer as failed, with an error number of the system.
    pub fn fail(self, os_error: i32) {
        self.finish(Err(Cause::Os(os_error)));
    }

    /// Carries the transfer out on the calling thread, and finishes it.
    pub fn perform(mut self) {
        let moved = self.attempt();
        self.go_on(moved);
    }

    fn attempt(&mut self) -> Result<usize, Errno> {
        self.prepare()?;
        if self.syncs_itself {
            let moved = sys::write_durably(self.file(), self.offset(), &self.runs());
            if !matches!(moved, Err(libc::EOPNOTSUPP | libc::ENOSYS)) {
                return moved;
            }
            // The system is older than Linux 4.7, or the file system does not know the flag. A sync then follows.
            self.syncs_itself = false;
        }
        sys::transfer(self.file(), self.request.operation, self.offset(), &self.runs())
    }

    /// Makes each attempt of this write return only when the data are durable, so that no sync has to follow. Does
    /// nothing if a sync has to follow anyway, because the file has other changes that are not durable. Does nothing
    /// either if the write takes two system calls, each of which would wait for the disk.
    pub(super) fn sync_by_itself(&mut self) {
        let past_direct = self.bytes_past_direct();
        self.syncs_itself = self.request.operation == Operation::Write
            && is_waited_for(&self.request)
            && (past_direct == 0 || past_direct == self.bytes)
            && self.device.changes.unsynced().is_none();
    }

    /// Returns whether each attempt of this write must return only when the data are durable.
    pub(super) const fn syncs_itself(&self) -> bool {
        self.syncs_itself
    }

    /// Checks, before the first attempt of a write, whether another process has truncated the file. Returns the number
    /// of truncations noticed so far.
    pub(super) fn check_end(&mut self) -> u32 {
        self.device.note_if_cut();
        let cuts = self.device.cuts();
        self.note_checked(cuts);
        cuts
    }

    /// Notes that the check of [`Transfer::check_end`] was made for another write of the same file, immediately before
    /// this one. `cuts` is the number of truncations noticed so far.
    pub(super) fn note_checked(&mut self, cuts: u32) {
        self.is_end_checked = true;
        self.cuts_before.get_or_insert(cuts);
    }

    /// Prepares an attempt to move bytes. Before a write, notes whether another process has truncated the file, because
    /// the write may make the file long again and so hide the truncation. Before the first attempt of a write to an
    /// encrypted device, encrypts the data.
    ///
    /// # Errors
    /// When the system grants no memory for the encrypted blocks.
    pub(super) fn prepare(&mut self) -> Result<(), Errno> {
        if self.request.operation == Operation::Read {
            return Ok(());
        }
        if !std::mem::take(&mut self.is_end_checked) {
            self.check_end();
            self.is_end_checked = false;
        }
        let device = Arc::clone(&self.device);
        match &device.cipher {
            Some(cipher) if self.sealed.is_empty() => self.seal(cipher),
            _ => Ok(()),
        }
    }

    /// Returns the number of bytes at the end of the transfer that go through the page cache of the kernel, because
    /// O_DIRECT writes whole blocks only. The number is 0 for a transfer of whole blocks, the whole size of a small
    /// write, and the size of the partial last block of a larger write.
    fn bytes_past_direct(&self) -> usize {
        match self.bytes % BLOCK_BYTES {
            0 => 0,
            _ if !self.device.is_direct() => 0,
            _ if self.bytes <= TAIL_BYTES_MAX => self.bytes,
            tail => tail,
        }
    }

    /// Returns the number of bytes that the next attempt may move if [`Transfer::cut`] has set no limit.
    fn part(&self) -> usize {
        let (direct, done) = (self.bytes - self.bytes_past_direct(), self.progress.done);
        if done < direct { direct - done } else { self.bytes - done }
    }

    /// Returns the handle of the device's file with which the next attempt moves bytes. For a partial last block, this
    /// is the handle that goes through the page cache of the kernel, because O_DIRECT writes whole blocks only.
    pub(super) fn file(&self) -> &File {
        let past_direct = self.bytes_past_direct();
        match past_direct > 0 && self.progress.done >= self.bytes - past_direct {
            true => self.device.buffered_file(),
            false => self.device.file(),
        }
    }

    /// Carries out the rest of the transfer after a first attempt. `moved` is the number of bytes that this attempt
    /// moved, or its error.
    fn go_on(mut self, mut moved: Result<usize, Errno>) {
        loop {
            if let Some(result) = self.advance(moved) {
                return self.finish(result);
            }
            if self.progress.is_idle() {
                thread::yield_now();
            }
            moved = self.attempt();
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns a share of the device, for a caller that passes the transfer on.
    pub(super) fn share_of_device(&self) -> Arc<Device> {
        Arc::clone(&self.device)
    }

    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.device.backend)
    }

    /// Waits for a place in the device's queue, and takes it.
    pub(super) fn take_place(&mut self) {
        assert!(self.place == Place::None, "a transfer has one place");
        self.device.take_place(self.request.operation);
        self.place = Place::Queue;
    }

    /// Notes that the transfer stands in the line of its device, or has a place in it.
    pub(super) fn stand_in_line(&mut self) {
        assert!(self.place == Place::None, "a transfer has one place");
        self.place = Place::Line;
    }

    /// Returns the offset in the file of the first byte that is not moved yet.
    pub(super) fn offset(&self) -> u64 {
        self.extent().offset + self.progress.done as u64
    }

    /// Returns, as contiguous runs, the memory to or from which the next attempt moves bytes. A system call takes only
    /// the first [`sys::RUNS_MAX`] of these runs.
    #[inline]
    pub(super) fn runs(&self) -> Runs<'_> {
        let mut runs = Runs::new();
        if self.sealed.is_empty() {
            self.device.context.arena.runs(&self.request.frames, self.progress.done, &mut runs);
        } else {
            // The pointer is made mutable, but the system only reads the encrypted blocks, because the transfer is a
            // write.
            let start = self.sealed.as_ptr().cast::<u8>().wrapping_add(self.progress.done).cast_mut();
            runs.push(IoRun::new(start, size_of_val(&*self.sealed) - self.progress.done));
        }
        let mut left = self.part().min(self.cut.unwrap_or(usize::MAX));
        if left < self.request.frames.len() * BLOCK_BYTES - self.progress.done {
            runs.retain(|run| {
                run.cut(left);
                left -= run.bytes();
                run.bytes() > 0
            });
        }
        runs
    }

    /// Records `moved`, the result of one attempt to move the transfer's bytes. Returns `None` if a further attempt is
    /// needed, and otherwise the result of the whole transfer.
    #[inline]
    pub(super) fn advance(&mut self, moved: Result<usize, Errno>) -> Option<Result<(), Cause>> {
        let extent = self.extent();
        let device = &self.device;
        self.cut = None;
        match self.progress.advance(extent, moved, || device.ends()) {
            Next::Done => Some(Ok(())),
            Next::ZeroRest => {
                self.zero_from(self.progress.done);
                Some(Ok(()))
            }
            Next::Again => None,
            Next::Buffered => {
                device.fall_back_to_buffered();
                None
            }
            Next::Fail(cause) => {
                if matches!(cause, Cause::Truncated { .. }) {
                    device.note_if_cut();
                }
                Some(Err(cause))
            }
        }
    }

    /// Ends the transfer with `result`, and returns the request to the engine's receiver of completed requests.
    #[inline]
    pub(super) fn finish(self, result: Result<(), Cause>) {
        let result = self.check(result);
        let Self { device, request, bytes, generation, cuts_before, place, syncs_itself, .. } = self;
        if request.operation == Operation::Write {
            if result.is_ok() {
                device.note_written(&request, bytes, cuts_before.unwrap_or_else(|| device.cuts()));
            }
            if result.is_err() || !syncs_itself {
                device.changes.note();
            }
        }
        if let Some(generation) = generation {
            device.end_write(generation);
        }
        let result = result.map_err(|cause| {
            device.note_error(&request, cause);
            cause.as_io_error()
        });
        let has_congestion_ended = place == Place::Queue && device.give_place_back(request.operation);
        device.context.complete(request, result);
        if place == Place::Line {
            device.line.end_one();
        }
        // The count of requests in flight is lowered only now, after the engine was notified: when it is 0, no
        // notification may be outstanding.
        device.end_one();
        if has_congestion_ended {
            device.context.uncongested.wake();
        }
    }

    fn extent(&self) -> Extent {
        Extent { operation: self.request.operation, offset: first_byte(&self.request), bytes: self.bytes }
    }

    /// Fills the request's frames with zeroes, from byte `start` of the request on.
    fn zero_from(&self, start: usize) {
        let arena = &self.device.context.arena;
        let mut offset = start % BLOCK_BYTES;
        for &frame in &self.request.frames[start / BLOCK_BYTES..] {
            arena.zero_from(frame, offset);
            offset = 0;
        }
    }
}

/// Returns whether the request is synchronous, which means that a task waits for its end.
#[inline]
pub(super) fn is_waited_for(request: &Request) -> bool {
    request.is_sync
}

/// Returns whether the request is a read for which no task waits. Such a read is that of a future, whose thread must not
/// sleep until the device's queue has a place.
#[inline]
pub(super) fn is_for_future(request: &Request) -> bool {
    request.operation == Operation::Read && !request.is_sync
}

/// Returns whether the submitter carries out the request itself, if no plug holds the request back. It does so if the
/// request is a read of at most `pages_max` pages, and a task waits for it. A write is never carried out by its
/// submitter, which usually submits several writes before it waits.
#[inline]
pub(super) fn is_read_in_place(request: &Request, pages_max: usize) -> bool {
    request.is_sync && request.operation == Operation::Read && request.frames.len() <= pages_max
}
