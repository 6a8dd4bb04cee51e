//! Disks: the open files and block devices on which requests are carried out.
//!
//! Each open file or block device is a [`Device`]; its block `b` is the 4096 bytes from byte `4096 * b` on. Devices are
//! added and removed while the machine runs; finding a device takes no lock. A request takes these steps:
//!
//! 1. `Disks::submit` finds the device; a `plug` may hold the request back for a moment, so that it goes to the disk
//!    with others;
//! 2. a small read whose submitter waits is carried out by the submitter, with one system call and no switch; several
//!    held-back requests of a waiting submitter go in parallel through a borrowed ring, and a single one is carried out
//!    in place — `backend`, `ring`;
//! 3. any other request waits for a place in the device's queue (`queue` knows when it is congested), and is carried
//!    out by the thread of the background ring, or by threads that read and write — `ring`, `pool`. A read for which no
//!    task waits is that of a future; its submitter does not wait, but the read stands in `line`;
//! 4. `progress` decides on the result: the request is done, its rest is tried again, bytes beyond the file's end
//!    become zeroes, or the request fails;
//! 5. the finished request goes to the receiver: [`machine::Completions::complete`].
//!
//! Requests bypass the page cache of the kernel (O_DIRECT) if the file system supports it. A partial last block is
//! nevertheless written through the page cache, exactly to its last byte, so that a file is never longer than its owner
//! has made it. A device may be encrypted (`cipher`). `end` tracks the ends of files, and truncations by other
//! processes.
//!
//! *Locks*: `free_numbers` is held for a moment, only while a device is added or removed. In the modules below, each
//! lock is taken alone.
//!
//! Next: `device`.

#[doc(hidden)]
pub mod backend;
mod changes;
mod checksums;
mod cipher;
mod device;
mod end;
#[cfg(feature = "faults")]
pub mod faults;
mod generation;
mod line;
mod plug;
mod pool;
mod progress;
mod queue;
mod ring;

pub use device::{Device, Durable, Receiver, RequestError};
pub use plug::Plug;
pub use progress::Cause;

use super::arena::Arena;
use super::config::{Config, Io};
use super::notice::{Notice, Notices};
use super::sys;
use super::wait::WaitQueue;
use arc_swap::ArcSwapOption;
use backend::{Backend, Transfer, is_for_future, is_read_in_place, is_waited_for, read_in_place};
use checksums::Checksums;
use cipher::Cipher;
use device::{Context, Parts};
use machine::{DeviceId, IoError, Operation, Request};
use parking_lot::Mutex;
use pool::Pool;
use ring::Rings;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The way in which the library checks that data read from a device equal the data last written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// Each block has a checksum if [`Config::checksums`] says so. Otherwise data are not checked.
    AsConfigured,
    /// Each block has a checksum, whatever [`Config::checksums`] says.
    Checksums,
    /// Each block is encrypted and has an authentication tag, which is checked when the block is read. Only this device
    /// has the key. The key is lost with the device.
    Encryption,
}

/// The disks of one machine.
pub(super) struct Disks {
    /// The devices, indexed by their numbers; `None` if the device was removed.
    table: boxcar::Vec<ArcSwapOption<Device>>,
    /// Numbers of removed devices, which new devices get first. The lock is held while a device is added.
    free_numbers: Mutex<BTreeSet<u32>>,
    context: Arc<Context>,
    queue_depth: u32,
    inline_pages_max: usize,
    has_checksums: bool,
    rings: Option<Arc<Rings>>,
    io_threads: usize,
    pool: Mutex<Option<Arc<Pool>>>,
}

impl Disks {
    pub(super) fn new(config: &Config, arena: Arc<Arena>, notices: Arc<Notices>) -> Self {
        let rings = match config.io {
            Io::Threads => None,
            Io::Auto => Rings::new(config.io_threads, Arc::clone(&notices))
                .map_err(|os_error| notices.add(Notice::NoIoUring { os_error }))
                .ok(),
        };
        let (congested, uncongested) = Default::default();
        let context = Context { arena, receivers: OnceLock::new(), congested, uncongested, notices };
        Self {
            table: boxcar::Vec::new(),
            free_numbers: Mutex::default(),
            context: Arc::new(context),
            queue_depth: config.queue_depth,
            inline_pages_max: config.inline_pages_max,
            has_checksums: config.checksums,
            rings,
            io_threads: config.io_threads,
            pool: Mutex::default(),
        }
    }

    pub(super) fn attach(&self, receivers: Box<[Receiver]>) {
        assert!(!receivers.is_empty(), "somebody receives requests");
        assert!(self.context.receivers.set(receivers).is_ok(), "requests have a receiver already");
    }

    // ---- devices ----

    pub(super) fn add(
        &self,
        file: File,
        name: Arc<str>,
        checks: Checks,
        wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend>,
    ) -> io::Result<DeviceId> {
        let is_direct = sys::promises_direct(file.as_fd()) != Some(false) && sys::set_direct(&file, true).is_ok();
        if !is_direct {
            self.context.notices.add(Notice::Buffered { name: name.to_string() });
        }
        // Without this flag (O_NOATIME), the system would check on each read whether to update the file's time of last
        // access. The check takes 6 % of a read's time if several threads read one file. If another user owns the file,
        // the flag cannot be set, and the time is updated.
        let _ = sys::keep_access_time(&file);
        let backend: Arc<dyn Backend> = match &self.rings {
            Some(rings) if is_direct => Arc::clone(rings) as _,
            _ => self.pool()?,
        };
        let mut free = self.free_numbers.lock();
        let number = free.first().copied().map_or_else(|| self.table.count(), |number| number as usize);
        let id =
            device_id(number).ok_or_else(|| io::Error::other(format!("all {number} device numbers are in use")))?;
        let (queue_depth, context) = (self.queue_depth, Arc::clone(&self.context));
        let (has_checksums, is_encrypted) = match checks {
            Checks::AsConfigured => (self.has_checksums, false),
            Checks::Checksums => (true, false),
            Checks::Encryption => (false, true),
        };
        let checksums = has_checksums.then(Checksums::default);
        let cipher = is_encrypted.then(Cipher::new).transpose()?;
        let backend = wrap(backend);
        let parts = Parts { id, name, file, is_direct, queue_depth, checksums, cipher, backend, context };
        let device = Arc::new(Device::new(parts));
        if free.remove(&id.0) {
            self.table[number].store(Some(device));
        } else {
            self.table.push(ArcSwapOption::new(Some(device)));
        }
        Ok(id)
    }

    pub(super) fn remove(&self, id: DeviceId) -> Option<Arc<Device>> {
        let device = self.table.get(id.index())?.swap(None)?;
        device.drain();
        self.free_numbers.lock().insert(id.0);
        Some(device)
    }

    pub(super) fn device(&self, id: DeviceId) -> Option<Arc<Device>> {
        self.table.get(id.index())?.load_full()
    }

    /// Waits until no request is in flight.
    pub(super) fn wait_until_idle(&self) {
        for device in self.table.iter().filter_map(|(_, device)| device.load_full()) {
            while device.in_flight() > 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }

    fn pool(&self) -> io::Result<Arc<Pool>> {
        let mut pool = self.pool.lock();
        if pool.is_none() {
            *pool = Some(Pool::new(self.io_threads)?);
        }
        Ok(Arc::clone(pool.as_ref().expect("made just now")))
    }

    // ---- requests ----

    #[inline]
    pub(super) fn submit(&self, request: Request) {
        let device = self.table.get(request.device.index()).map(ArcSwapOption::load);
        let Some(device) = device.as_ref().and_then(|device| device.as_ref()) else {
            // Another thread has removed the device, which callers must not do while requests are submitted.
            return self.context.complete(request, Err(IoError::Device));
        };
        if plug::is_plugged(self.identity()) {
            self.start_all(plug::hold(Transfer::new(Arc::clone(device), request)));
        } else if is_read_in_place(&request, self.inline_pages_max) {
            read_in_place(device, request);
        } else {
            start(Transfer::new(Arc::clone(device), request));
        }
    }

    pub(super) fn plug(&self, syncs: Option<DeviceId>) -> Plug<'_> {
        Plug { disks: self, is_own: plug::begin(self.identity(), syncs), _thread: PhantomData }
    }

    /// Starts the requests that a plug of the calling thread holds back; called before the thread sleeps.
    #[inline]
    pub(super) fn unplug_before_sleep(&self) {
        let transfers = plug::take_before_sleep(self.identity());
        if !transfers.is_empty() {
            self.start_all(transfers);
        }
    }

    /// Submits `transfers`, which a plug held back. First starts those for which no task waits; then carries out those
    /// for which the calling thread waits.
    fn start_all(&self, transfers: Vec<Transfer>) {
        let (mut waited_for, others) = split(transfers, |transfer| is_waited_for(transfer.request()));
        others.into_iter().for_each(start);
        // Transfers of different backends are carried out one backend after the other.
        while let Some(first) = waited_for.first() {
            let backend = first.backend();
            let is_same = |transfer: &Transfer| Arc::ptr_eq(&transfer.device().backend, &backend);
            let (mut now, later) = split(waited_for, is_same);
            waited_for = later;
            check_ends_once(&mut now);
            match now.len() {
                1 => backend.run(now.pop().expect("there is one")),
                _ => backend.run_all(now),
            }
        }
    }

    pub(super) fn is_congested(&self, id: DeviceId, operation: Operation) -> bool {
        let device = self.table.get(id.index()).map(ArcSwapOption::load);
        device.is_some_and(|device| device.as_ref().is_some_and(|device| device.is_congested(operation)))
    }

    pub(super) fn is_any_congested(&self, operation: Operation) -> bool {
        self.context.congested[operation as usize].load(Ordering::SeqCst) > 0
    }

    pub(super) fn uncongested(&self) -> &WaitQueue {
        &self.context.uncongested
    }

    fn identity(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

/// Splits `transfers` into those for which `is_true` returns `true`, and the others. Copies nothing if `is_true`
/// returns `true` for all.
fn split(transfers: Vec<Transfer>, is_true: impl Fn(&Transfer) -> bool) -> (Vec<Transfer>, Vec<Transfer>) {
    if transfers.iter().all(&is_true) { (transfers, Vec::new()) } else { transfers.into_iter().partition(is_true) }
}

/// Checks, once for all writes of a batch to one file, whether another process has truncated the file. Each check is a
/// system call.
fn check_ends_once(transfers: &mut [Transfer]) {
    let is_same = |a: &Transfer, b: &Transfer| std::ptr::eq(a.device(), b.device());
    for of_file in transfers.chunk_by_mut(is_same) {
        let mut writes = of_file.iter_mut().filter(|transfer| transfer.request().operation == Operation::Write);
        if let Some(first) = writes.next() {
            let cuts = first.check_end();
            writes.for_each(|transfer| transfer.note_checked(cuts));
        }
    }
}

fn start(mut transfer: Transfer) {
    if is_for_future(transfer.request()) {
        let device = transfer.share_of_device();
        return device.line.start(transfer);
    }
    transfer.take_place();
    transfer.backend().start(transfer);
}

fn device_id(number: usize) -> Option<DeviceId> {
    number.try_into().ok().map(DeviceId)
}
