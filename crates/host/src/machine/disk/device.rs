//! A device: one open file, block for block, or one block device.

use super::backend::Backend;
use super::checksums::Checksums;
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
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Failed requests that a device remembers, the latest.
const ERRORS_MAX: usize = 64;

/// Who gets finished requests. Weak: it owns the machine.
pub type Receiver = Weak<dyn Completions + Send + Sync>;

/// What all devices of a machine have in common.
pub(super) struct Context {
    pub arena: Arc<Arena>,
    pub receivers: OnceLock<Box<[Receiver]>>,
    /// How many devices' queues are congested, by operation: reclaim asks for each page. Below 0 for a moment, where the end
    /// of a congestion is counted before its beginning.
    pub congested: [AtomicI32; 2],
    /// Woken whenever a device's queue stops being congested.
    pub uncongested: WaitQueue,
    pub notices: Arc<Notices>,
}

impl Context {
    /// Hands a finished request over. Nobody waits for it when its receiver is gone.
    #[inline]
    pub(super) fn complete(&self, request: Request, result: Result<(), IoError>) {
        let receivers = self.receivers.get().expect("a machine is attached before requests are submitted");
        if let Some(receiver) = receivers[sys::current_cpu() % receivers.len()].upgrade() {
            receiver.complete(request, result);
        }
    }
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The name of the device, as it was added.
    pub name: Arc<str>,
    /// Read or write.
    pub operation: Operation,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes of the request.
    pub bytes: u64,
    /// Why.
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

/// An open file that requests go to: block `b` is its 4096 bytes from `4096 * b` on.
pub struct Device {
    id: DeviceId,
    name: Arc<str>,
    file: File,
    is_direct: AtomicBool,
    /// Bytes that are in the file if only its owner truncates it.
    expected_end: AtomicU64,
    /// How often that was changed.
    expectations: AtomicU32,
    /// Requests that have not been finished.
    in_flight: AtomicU32,
    /// Somebody waits until none is in flight.
    is_closing: AtomicBool,
    idle: WaitQueue,
    /// By [`Operation`].
    places: [Places; 2],
    /// Woken when a place is given back.
    room: WaitQueue,
    errors: Mutex<VecDeque<RequestError>>,
    pub(super) checksums: Option<Checksums>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) context: Arc<Context>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Device");
        f.field("id", &self.id).field("name", &self.name).field("is_direct", &self.is_direct).finish_non_exhaustive()
    }
}

/// What a device is made from.
pub(super) struct Parts {
    pub id: DeviceId,
    pub name: Arc<str>,
    pub file: File,
    pub is_direct: bool,
    pub queue_depth: u32,
    pub checksums: Option<Checksums>,
    pub backend: Arc<dyn Backend>,
    pub context: Arc<Context>,
}

impl Device {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            id: parts.id,
            name: parts.name,
            file: parts.file,
            is_direct: AtomicBool::new(parts.is_direct),
            expected_end: AtomicU64::new(0),
            expectations: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            is_closing: AtomicBool::new(false),
            idle: WaitQueue::default(),
            places: [Places::new(parts.queue_depth), Places::new(parts.queue_depth)],
            room: WaitQueue::default(),
            errors: Mutex::default(),
            checksums: parts.checksums,
            backend: parts.backend,
            context: parts.context,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> DeviceId {
        self.id
    }

    /// The name that it was added under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file, for `sync_data`, `set_len`, `metadata`. Reading and writing it past the machine goes past the pages in
    /// memory too.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Do requests go past the page cache of the kernel?
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }

    /// Says that the file holds at least `bytes` bytes from now on, as far as its owner knows. Default: 0.
    ///
    /// A read that ends earlier than that fails, for somebody else has truncated the file; beyond it, what the file does
    /// not have reads as zeroes. The owner says so after it made the file longer, and before it makes it shorter, when
    /// nothing after its new end is being written any more: a write says so, too, for all before its last block.
    pub fn expect_len(&self, bytes: u64) {
        self.expected_end.store(bytes, Ordering::SeqCst);
        self.note_expected(bytes);
    }

    /// Says that the file may hold no more than `bytes` bytes from now on: as [`Device::expect_len`] before it is made
    /// shorter, for an owner who does not know whether so many are there yet.
    pub fn expect_at_most(&self, bytes: u64) {
        self.expected_end.fetch_min(bytes, Ordering::SeqCst);
        self.note_expected(bytes);
    }

    fn note_expected(&self, bytes: u64) {
        self.expectations.fetch_add(1, Ordering::SeqCst);
        if let Some(checksums) = &self.checksums {
            // What it had beyond that is gone.
            checksums.forget_from(bytes.div_ceil(machine::BLOCK_BYTES as u64));
        }
    }

    /// A write has ended: the file is longer than what lies before its last block, of which the owner may cut a part off.
    pub(super) fn note_written(&self, request: &Request) {
        let last = request.block + request.frames.len().saturating_sub(1) as u64;
        let end = last * machine::BLOCK_BYTES as u64;
        if self.expected_end.load(Ordering::Relaxed) < end {
            self.expected_end.fetch_max(end, Ordering::SeqCst);
        }
    }

    /// Requests that have not been finished, but for small reads that their submitters are carrying out themselves.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Takes the failed requests that are remembered, the last 64, oldest first.
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

    /// Where the file ends, now and as its owner expects, at one point in time.
    pub(super) fn ends(&self) -> Result<Ends, Errno> {
        loop {
            let changes = self.expectations.load(Ordering::SeqCst);
            let expected = self.expected_end.load(Ordering::SeqCst);
            let (now, is_fixed) = self.end()?;
            if self.expectations.load(Ordering::SeqCst) == changes {
                return Ok(Ends { now, expected, is_fixed });
            }
        }
    }

    /// Why a block is not what it was: others cut the file off, and it is a hole by now, or it was changed.
    #[cold]
    pub(super) fn why_wrong(&self, block: u64) -> Cause {
        match self.ends() {
            Ok(Ends { now, expected, .. }) if now < expected => Cause::Truncated { end: now, expected_end: expected },
            _ => Cause::Checksum { block },
        }
    }

    /// Where it ends now, and whether that is a block device's end.
    fn end(&self) -> Result<(u64, bool), Errno> {
        let end = || {
            let status = self.file.metadata()?;
            if status.is_file() {
                Ok((status.len(), false))
            } else {
                Ok(((&self.file).seek(SeekFrom::End(0))?, status.file_type().is_block_device()))
            }
        };
        end().map_err(|error: io::Error| error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// The file system does not do what it promised: from now on through the page cache of the kernel.
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

    /// Waits until nothing is in flight.
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

    /// Takes a place in the queue, waiting for it.
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

    /// Gives a place back. True when that ended a congestion.
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
