//! A device: one open file or block device, divided into blocks of 4096 bytes, which receives disk requests.

use super::backend::Backend;
use super::changes::Changes;
use super::checksums::Checksums;
use super::cipher::Cipher;
use super::end::End;
use super::generation::{Generation, Generations};
use super::line::Line;
use super::progress::{Cause, Ends};
use super::queue::Places;
use crate::machine::arena::Arena;
use crate::machine::notice::{Notice, Notices};
use crate::machine::sys::{self, Errno};
use crate::machine::wait::WaitQueue;
use machine::{Completions, DeviceId, IoError, Operation, Request};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Largest number of failed requests that a device remembers. If more requests fail, it forgets the oldest.
const ERRORS_MAX: usize = 64;

/// A weak reference to the object that is told when requests finish: a handle of the engine. A strong reference would
/// form a cycle, because the engine owns the machine.
pub type Receiver = Weak<dyn Completions + Send + Sync>;

/// The state that all devices of a machine have in common.
pub(super) struct Context {
    pub arena: Arc<Arena>,
    pub receivers: OnceLock<Box<[Receiver]>>,
    /// The number of devices with a congested queue of reads, and of writes, indexed by [`Operation`]. The numbers are
    /// kept as counters because reclaim asks for each page whether any queue is congested. A counter may be below 0 for
    /// a moment, if the end of a congestion is counted before its beginning.
    pub congested: [AtomicI32; 2],
    /// Wait queue that is woken whenever a device's queue stops being congested.
    pub uncongested: WaitQueue,
    pub notices: Arc<Notices>,
}

impl Context {
    /// Passes a finished request to the receiver of the CPU that runs the caller. If the receiver no longer exists,
    /// drops the request, because then no task waits for it.
    #[inline]
    pub(super) fn complete(&self, request: Request, result: Result<(), IoError>) {
        let receivers = self.receivers.get().expect("a machine is attached before requests are submitted");
        if let Some(receiver) = receivers[sys::current_cpu() % receivers.len()].upgrade() {
            receiver.complete(request, result);
        }
    }
}

/// A failed disk request, as a device remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The name under which the device was added.
    pub name: Arc<str>,
    /// The operation: a read or a write.
    pub operation: Operation,
    /// Offset of the request's first byte in the file.
    pub offset: u64,
    /// Number of bytes of the request.
    pub bytes: u64,
    /// The reason why the request failed.
    pub cause: Cause,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, operation, offset, bytes, cause } = self;
        let operation = match operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        write!(f, "{name}: {operation} of {bytes} bytes at byte {offset} failed: {cause}")
    }
}

impl std::error::Error for RequestError {}

/// A function that returns the length of a file, bytes, as the owner of the file sees it. The owner is the code that
/// added the device.
type Length = Box<dyn Fn() -> u64 + Send + Sync>;

/// The part of a file that a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The data written to the file, and the metadata needed to find them (`fdatasync`).
    Data,
    /// The data written to the file, and all of the file's metadata (`fsync`).
    All,
}

/// An open file that receives requests. Block `b` is the 4096 bytes of the file from byte `4096 * b` on.
pub struct Device {
    id: DeviceId,
    name: Arc<str>,
    file: File,
    is_direct: AtomicBool,
    /// A second handle of the file, whose I/O goes through the kernel's page cache. It is opened when it is first
    /// needed; `None` if the file cannot be opened again.
    buffered: OnceLock<Option<File>>,
    /// True for a regular file in a file system.
    is_regular: bool,
    /// `true` for a block device, whose length never changes.
    is_block: bool,
    end: End,
    /// A function that returns the length of the file as its owner (the code that added the device) sees it. Not set if
    /// the file always ends with a whole block.
    length: OnceLock<Length>,
    writes: Generations,
    pub(super) changes: Changes,
    /// Number of requests that were submitted and have not finished, except small reads on the submitting thread.
    in_flight: AtomicU32,
    /// `true` while a thread waits until no request is in flight.
    is_closing: AtomicBool,
    idle: WaitQueue,
    /// The places in the device's queue for reads, and those for writes, indexed by [`Operation`].
    places: [Places; 2],
    /// The reads of futures, which have places of their own.
    pub(super) line: Line,
    /// Wait queue of tasks that wait for a place in the device's request queue.
    room: WaitQueue,
    errors: Mutex<VecDeque<RequestError>>,
    pub(super) checksums: Option<Checksums>,
    pub(super) cipher: Option<Cipher>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) context: Arc<Context>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Device");
        f.field("id", &self.id).field("name", &self.name).field("is_direct", &self.is_direct).finish_non_exhaustive()
    }
}

/// The arguments from which a [`Device`] is made.
pub(super) struct Parts {
    pub id: DeviceId,
    pub name: Arc<str>,
    pub file: File,
    pub is_direct: bool,
    pub queue_depth: u32,
    pub checksums: Option<Checksums>,
    pub cipher: Option<Cipher>,
    pub backend: Arc<dyn Backend>,
    pub context: Arc<Context>,
}

impl Device {
    pub(super) fn new(parts: Parts) -> Self {
        let kind = parts.file.metadata().ok().map(|status| status.file_type());
        Self {
            id: parts.id,
            name: parts.name,
            file: parts.file,
            is_direct: AtomicBool::new(parts.is_direct),
            buffered: OnceLock::new(),
            is_regular: kind.is_some_and(|kind| kind.is_file()),
            is_block: kind.is_some_and(|kind| kind.is_block_device()),
            end: End::default(),
            length: OnceLock::new(),
            writes: Generations::default(),
            changes: Changes::default(),
            in_flight: AtomicU32::new(0),
            is_closing: AtomicBool::new(false),
            idle: WaitQueue::default(),
            places: [Places::new(parts.queue_depth), Places::new(parts.queue_depth)],
            line: Line::new(parts.queue_depth),
            room: WaitQueue::default(),
            errors: Mutex::default(),
            checksums: parts.checksums,
            cipher: parts.cipher,
            backend: parts.backend,
            context: parts.context,
        }
    }

    /// Returns the number of the device.
    #[must_use]
    pub const fn id(&self) -> DeviceId {
        self.id
    }

    /// Returns the name under which the device was added.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file, for `sync_data`, `set_len` and `metadata`. Reading or writing this file bypasses the machine,
    /// and therefore the pages in memory.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether requests bypass the page cache of the kernel.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }

    /// Returns a handle of the file that goes through the page cache of the kernel, for partial blocks.
    pub(super) fn buffered_file(&self) -> &File {
        let reopened = self.buffered.get_or_init(|| {
            // If there is no /proc or no free descriptor, all requests go through the page cache.
            sys::reopen_for_writing(&self.file).inspect_err(|_| self.fall_back_to_buffered()).ok()
        });
        reopened.as_ref().unwrap_or(&self.file)
    }

    /// Makes written data durable.
    ///
    /// # Errors
    /// When the system reports an error. It has then discarded the data that it could not write.
    pub fn sync(&self, wanted: Durable) -> io::Result<()> {
        self.backend.sync(self, wanted)
    }

    /// Makes the system sync the file, unless all data are durable already.
    pub(super) fn sync_in_system(&self, wanted: Durable) -> io::Result<()> {
        let unsynced = self.changes.unsynced();
        match wanted {
            Durable::Data if unsynced.is_none() => return Ok(()),
            Durable::Data => self.file.sync_data(),
            Durable::All => self.file.sync_all(),
        }?;
        if let Some(ended) = unsynced {
            self.changes.note_durable(ended);
        }
        Ok(())
    }

    /// Releases the file's lock, if the file is locked.
    pub fn unlock(&self) {
        sys::unlock_file(&self.file);
    }

    // ---- the end of the file ----

    /// Sets `length`, a function that returns the length that the file has for its owner (the caller), which need not
    /// end at a block. A write puts no byte after this length into the file. Without such a function, all bytes of the
    /// last block count as bytes of the file.
    pub fn follow_length(&self, length: impl Fn() -> u64 + Send + Sync + 'static) {
        assert!(self.length.set(Box::new(length)).is_ok(), "{}: its length is followed already", self.name);
    }

    /// Returns how many of the `bytes` bytes from `offset` on lie before the end of the file. The end is the one that
    /// the function set by [`Self::follow_length`] returns. Without such a function, all bytes count.
    pub(super) fn bytes_within(&self, offset: u64, bytes: usize) -> usize {
        let within = self.length.get().map_or(u64::MAX, |length| length().saturating_sub(offset));
        bytes.min(usize::try_from(within).unwrap_or(usize::MAX))
    }

    /// Sets the *expected length* of the file to `bytes`: from now on, the caller, which owns the file, knows that the
    /// file is at least so long. Before the first call the expected length is 0.
    ///
    /// If a read finds that the file ends before the expected length, the read fails, because another process has
    /// truncated the file. Beyond the expected length, missing bytes read as zeroes.
    ///
    /// The owner sets the expected length after it has lengthened the file, and before it shortens the file, once
    /// nothing after the new end is being written. A completed write raises the expected length to the end of the
    /// write. But if no function was set by [`Device::follow_length`], the write raises the expected length only to one
    /// block before the end of the write, because the owner may have truncated the file within the last block.
    pub fn expect_len(&self, bytes: u64) {
        self.end.expect(bytes);
        self.forget_checksums_after(bytes);
    }

    fn forget_checksums_after(&self, bytes: u64) {
        if let Some(checksums) = &self.checksums {
            checksums.forget_from(bytes.div_ceil(machine::BLOCK_BYTES as u64));
        }
    }

    /// Extends the file to at least `bytes` bytes in the operating system. Never shortens the file.
    ///
    /// # Errors
    /// Errors of the system. Nothing has changed then.
    pub fn lengthen(&self, bytes: u64) -> io::Result<()> {
        if self.end_in_system()? >= bytes {
            return Ok(());
        }
        let lengthened = self.lengthen_in_system(bytes);
        self.changes.note();
        lengthened
    }

    fn lengthen_in_system(&self, bytes: u64) -> io::Result<()> {
        // A write that is under way, or that begins now, may make the file longer than `bytes`. Setting the length must
        // not cut off what it writes.
        if sys::lengthen(&self.file, bytes)? {
            return Ok(());
        }
        self.writes.wait();
        if self.end_in_system()? < bytes { self.file.set_len(bytes) } else { Ok(()) }
    }

    /// Sets the length of the file in the system to `bytes`. No write that began earlier adds bytes after the new end.
    /// Before the call, the owner (the code that added the device) must already have set its own length of the file to
    /// `bytes` or less.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        // Waits for writes that began before the owner saw the new length, and so may write after the new end.
        self.writes.wait();
        self.note_if_cut();
        // The expected length is lowered before the file becomes shorter, so that no thread takes this for a truncation
        // by another process.
        self.end.expect_at_most(bytes);
        self.forget_checksums_after(bytes);
        if self.end_in_system()? != bytes {
            let is_set = self.file.set_len(bytes);
            self.changes.note();
            is_set?;
        }
        self.end.expect(bytes);
        Ok(())
    }

    /// Allocates disk space for the bytes of `range` (`fallocate`), and makes the file at least as long as
    /// the end of the range.
    ///
    /// # Errors
    /// Errors of the system. The file in the system may be longer then.
    pub fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.note_if_cut();
        let allocated = sys::fallocate(&self.file, 0, range.clone());
        self.changes.note();
        allocated?;
        if self.end.expected() < range.end {
            self.end.expect(range.end);
        }
        Ok(())
    }

    /// Checks that the file system can punch holes, by a hole after the end of the file, which changes nothing. `len` is
    /// the length of the file with what was not written to the disk yet: the hole must not meet a write of it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn check_punch(&self, len: u64) -> io::Result<()> {
        let block = machine::BLOCK_BYTES as u64;
        let after_end = self.end.expected().max(len).next_multiple_of(block);
        let hole = after_end..after_end + block;
        sys::fallocate(&self.file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, hole)
    }

    /// Replaces the blocks of `range`, which begins and ends with a block, by a hole. No write that began earlier puts
    /// bytes into the hole.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.writes.wait();
        self.note_if_cut();
        let block = machine::BLOCK_BYTES as u64;
        let blocks = range.start / block..range.end / block;
        let forget = || self.checksums.iter().for_each(|sums| sums.forget_range(blocks.start, blocks.end));
        forget();
        let punched = sys::fallocate(&self.file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, range);
        self.changes.note();
        // A write that began meanwhile may have put a block on the disk before the hole was made, and noted its checksum.
        forget();
        if punched.is_ok() {
            self.end.forget_lost(blocks);
        }
        punched
    }

    pub(super) fn begin_write(&self) -> Generation {
        self.writes.begin()
    }

    pub(super) fn end_write(&self, generation: Generation) {
        self.writes.end(generation);
    }

    /// Returns how many truncations of the file by other processes were noticed.
    pub(super) fn cuts(&self) -> u32 {
        self.end.cuts()
    }

    /// Records that the write `request` has put `bytes` bytes into the file. `cuts_before` is the number of truncations
    /// by other processes that were noticed before the write began.
    pub(super) fn note_written(&self, request: &Request, bytes: usize, cuts_before: u32) {
        if bytes == 0 {
            return;
        }
        let block = machine::BLOCK_BYTES;
        // If the device does not know the length that the owner sees, the owner may have truncated the file within the
        // last block. That block then does not count.
        let sure = if self.length.get().is_some() { bytes } else { bytes.saturating_sub(block) };
        let blocks = request.block..request.block + bytes.div_ceil(block) as u64;
        self.end.note_written(blocks, request.block * block as u64 + sure as u64, cuts_before);
    }

    /// Checks whether another process has truncated the file, and if it has, remembers the lost bytes.
    pub(super) fn note_if_cut(&self) {
        if !self.is_regular || self.end.expected() == 0 {
            return;
        }
        // If the system does not return the file's length, the file counts as not truncated.
        while let Ok(ends) = self.ends() {
            if ends.now >= ends.expected || self.end.note_cut(ends.now, ends.expected) {
                return;
            }
        }
    }

    /// Looks for the first of the request's blocks that is lost because another process truncated the file. Returns the
    /// range of lost bytes around this block; `None` if none of the request's blocks is lost.
    #[inline]
    pub(super) fn lost_in(&self, request: &Request) -> Option<Range<u64>> {
        self.end.lost_in(request)
    }

    /// Returns the number of unfinished requests, without the small reads that their submitters carry out themselves.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Removes and returns the failed requests that the device remembers, oldest first. A device remembers the latest
    /// 64.
    pub fn take_errors(&self) -> Vec<RequestError> {
        self.errors.lock().drain(..).collect()
    }

    pub(super) fn note_error(&self, request: &Request, cause: Cause) {
        let mut errors = self.errors.lock();
        if errors.len() == ERRORS_MAX {
            errors.pop_front();
        }
        errors.push_back(RequestError {
            name: Arc::clone(&self.name),
            operation: request.operation,
            offset: request.block * machine::BLOCK_BYTES as u64,
            bytes: (request.frames.len() * machine::BLOCK_BYTES) as u64,
            cause,
        });
    }

    /// Returns the file's length in the system, and the length that its owner expects, as they were at one point in
    /// time.
    pub(super) fn ends(&self) -> Result<Ends, Errno> {
        loop {
            let changes = self.end.changes();
            let expected = self.end.expected();
            let now = self.end_in_system().map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
            if self.end.changes() == changes {
                return Ok(Ends { now, expected, is_fixed: self.is_block });
            }
        }
    }

    /// Returns the reason why a block has other contents than its checksum says. Either another process has truncated
    /// the file, so that the block is now a hole; or something has changed the block.
    #[cold]
    pub(super) fn why_wrong(&self, block: u64) -> Cause {
        match self.ends() {
            // A write looks for truncations before it goes to the disk. A truncation between the look and the disk is
            // noticed only here.
            Ok(Ends { now, expected, .. }) if now < expected || self.cuts() > 0 => {
                Cause::Truncated { end: now, expected_end: expected }
            }
            _ => Cause::Checksum { block },
        }
    }

    /// Returns the device's length in the system now, in bytes.
    ///
    /// The length is found by a seek to the end, which disturbs nothing, because no other code uses the file position
    /// of the handle. `fstat` would make writes slower: it also asks for the time of last change. Since 6.13, Linux
    /// then gives the next write a new time of change, which makes the inode dirty again, so that a commit of one page
    /// takes 50 % longer.
    fn end_in_system(&self) -> io::Result<u64> {
        (&self.file).seek(SeekFrom::End(0))
    }

    /// Sends all further requests through the page cache of the kernel, because O_DIRECT does not work with this file.
    pub(super) fn fall_back_to_buffered(&self) {
        if self.is_direct.swap(false, Ordering::Relaxed) && sys::set_direct(&self.file, false).is_ok() {
            self.context.notices.add(Notice::Buffered { name: self.name.to_string() });
        }
    }

    pub(super) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn end_one(&self) {
        let before = self.in_flight.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "{}: a request ended twice", self.name);
        if self.is_closing.load(Ordering::SeqCst) {
            self.idle.wake();
        }
    }

    /// Waits until no request is in flight.
    pub(super) fn drain(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        loop {
            let ticket = self.idle.ticket();
            if self.in_flight() == 0 {
                return;
            }
            self.idle.sleep_unkillable(ticket);
        }
    }

    /// Waits until the device's queue has a free place for a request of the direction `operation`, and takes this
    /// place.
    pub(super) fn take_place(&self, operation: Operation) {
        let places = &self.places[operation as usize];
        loop {
            let ticket = self.room.ticket();
            if let Some(has_begun) = places.try_take() {
                if has_begun {
                    self.context.congested[operation as usize].fetch_add(1, Ordering::SeqCst);
                }
                return;
            }
            self.room.sleep_unkillable(ticket);
        }
    }

    /// Frees a place in the queue of reads or writes. Returns `true` if this ended the queue's congestion.
    pub(super) fn give_place_back(&self, operation: Operation) -> bool {
        let has_ended = self.places[operation as usize].give_back();
        if has_ended {
            self.context.congested[operation as usize].fetch_sub(1, Ordering::SeqCst);
        }
        self.room.wake();
        has_ended
    }

    pub(super) fn is_congested(&self, operation: Operation) -> bool {
        self.places[operation as usize].is_congested()
    }
}
