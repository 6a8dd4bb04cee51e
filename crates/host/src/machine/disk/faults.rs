//! A backend that makes disk requests fail on purpose, for tests of the layers above the machine.

use super::backend::{Backend, Transfer};
use super::device::{Device, Durable};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A fault that a test injects into a disk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request fails with this error number of the system, and moves no bytes.
    Fail(i32),
    /// The first system call for the request transfers at most this number of bytes. With O_DIRECT, the number must be
    /// a multiple of 512.
    Shorten(usize),
}

/// The faults that a test injects into a device's requests. Requests are numbered from 0 in the order in which they are
/// carried out.
#[derive(Debug, Default)]
pub struct Script(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    seen: u64,
    faults: BTreeMap<u64, Fault>,
    every: Option<Fault>,
    syncs: u64,
    failed_sync: Option<i32>,
}

impl Script {
    /// Creates a script that injects no faults into disk requests; faults can be added.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Injects `fault` into the request with the number `number`.
    pub fn set(&self, number: u64, fault: Fault) {
        self.0.lock().faults.insert(number, fault);
    }

    /// Injects `fault` into every request from now on; `None` stops this.
    pub fn set_all(&self, fault: Option<Fault>) {
        self.0.lock().every = fault;
    }

    /// Makes the next sync fail with this error number, without a system call.
    pub fn fail_sync(&self, os_error: i32) {
        self.0.lock().failed_sync = Some(os_error);
    }

    /// Returns the number of syncs that the disk has been asked for so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Returns the number of requests that the disk has received so far.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.0.lock().seen
    }

    fn next_sync(&self) -> Option<i32> {
        let mut lines = self.0.lock();
        lines.syncs += 1;
        lines.failed_sync.take()
    }

    fn next(&self) -> Option<Fault> {
        let mut lines = self.0.lock();
        let number = lines.seen;
        lines.seen += 1;
        lines.faults.remove(&number).or(lines.every)
    }
}

/// A backend that injects the faults of a [`Script`] into requests. Requests that the script makes fail end with an
/// error. All other requests, some of them shortened, go to another backend, which this one wraps.
pub struct Faults {
    inner: Arc<dyn Backend>,
    script: Arc<Script>,
}

impl Faults {
    /// Returns a backend that injects the faults of `script` into requests. Requests that the script makes fail end
    /// with an error. All other requests, some of them shortened, go to `inner`.
    #[must_use]
    pub fn wrap(script: &Arc<Script>, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Self { inner, script: Arc::clone(script) })
    }

    /// Applies the script's fault, if any, to the next request, `transfer`. Returns the transfer, or `None` if it has
    /// failed.
    fn pass(&self, mut transfer: Transfer) -> Option<Transfer> {
        match self.script.next() {
            Some(Fault::Fail(os_error)) => {
                transfer.fail(os_error);
                return None;
            }
            Some(Fault::Shorten(bytes)) => transfer.cut(bytes),
            None => {}
        }
        Some(transfer)
    }
}

impl Backend for Faults {
    fn sync(&self, device: &Device, wanted: Durable) -> io::Result<()> {
        match self.script.next_sync() {
            Some(os_error) => Err(io::Error::from_raw_os_error(os_error)),
            None => self.inner.sync(device, wanted),
        }
    }

    fn sees_all(&self) -> bool {
        true
    }

    fn run(&self, transfer: Transfer) {
        if let Some(transfer) = self.pass(transfer) {
            self.inner.run(transfer);
        }
    }

    fn run_all(&self, transfers: Vec<Transfer>) {
        let passed: Vec<Transfer> = transfers.into_iter().filter_map(|transfer| self.pass(transfer)).collect();
        self.inner.run_all(passed);
    }

    fn start(&self, transfer: Transfer) {
        if let Some(transfer) = self.pass(transfer) {
            self.inner.start(transfer);
        }
    }
}
