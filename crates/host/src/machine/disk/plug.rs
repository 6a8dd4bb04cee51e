//! Plugs. A plug holds back requests of the calling thread, so that they go to the disk together.
//!
//! The held requests go to the disk when the plug is dropped, when `REQUESTS_MAX` requests are held, and before the
//! thread sleeps in the machine, because the thread might wait for one of them. Linux: `blk_start_plug`,
//! `blk_finish_plug`.

use super::backend::Transfer;
use machine::DeviceId;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Largest number of requests that a plug holds back.
pub(super) const REQUESTS_MAX: usize = 64;

thread_local! {
    static PLUGGED: RefCell<Plugged> = const { RefCell::new(Plugged { owner: 0, depth: 0, syncs: None, transfers: Vec::new() }) };
}

struct Plugged {
    /// The machine to which the held-back requests go, as the address of its [`super::Disks`]; 0 for none.
    owner: usize,
    /// Number of plugs that this thread has made for the machine `owner` and not dropped yet.
    depth: u32,
    /// The device that this thread syncs once the held-back requests have ended; `None` if it syncs none.
    syncs: Option<DeviceId>,
    transfers: Vec<Transfer>,
}

/// Calls `look` with the state of this thread's plugs, and returns the result of `look`. Returns `None` if the thread
/// is ending and this thread-local state was already dropped.
fn with_plugged<R>(look: impl FnOnce(&mut Plugged) -> R) -> Option<R> {
    PLUGGED.try_with(|plugged| look(&mut plugged.borrow_mut())).ok()
}

/// Begins to hold back (plug) this thread's requests to the disks of one machine. `owner` identifies the machine: it is
/// the address of the machine's `Disks`. `syncs` is the device, if any, that the thread is about to sync. Returns
/// `false`, and holds nothing back, if the thread already holds back requests to the disks of another machine, or if the
/// thread is ending.
pub(super) fn begin(owner: usize, syncs: Option<DeviceId>) -> bool {
    with_plugged(|plugged| {
        let is_free = plugged.depth == 0 || plugged.owner == owner;
        if is_free {
            plugged.owner = owner;
            plugged.depth += 1;
            plugged.syncs = syncs;
        }
        is_free
    })
    .unwrap_or(false)
}

/// Ends a plug of this thread. If it was the outermost plug, returns the held-back transfers, which the caller must
/// start; otherwise returns no transfers.
pub(super) fn end() -> Vec<Transfer> {
    with_plugged(|plugged| {
        plugged.depth -= 1;
        if plugged.depth == 0 { take(plugged) } else { Vec::new() }
    })
    .unwrap_or_default()
}

/// Returns whether this thread has a plug that holds back requests to the disks of the machine `owner`. The machine is
/// identified by the address of its `Disks`.
#[inline]
pub(super) fn is_plugged(owner: usize) -> bool {
    with_plugged(|plugged| plugged.depth > 0 && plugged.owner == owner).unwrap_or(false)
}

/// Holds back a transfer. If [`REQUESTS_MAX`] transfers are then held, returns all of them, and the caller must start
/// them; otherwise returns none.
pub(super) fn hold(transfer: Transfer) -> Vec<Transfer> {
    PLUGGED.with_borrow_mut(|plugged| {
        plugged.transfers.push(transfer);
        if plugged.transfers.len() < REQUESTS_MAX { Vec::new() } else { take(plugged) }
    })
}

/// Returns the transfers that this thread's plug holds back for the machine `owner`, and removes them from the plug.
/// The machine is identified by the address of its `Disks`. Called when the thread is about to sleep.
#[inline]
pub(super) fn take_before_sleep(owner: usize) -> Vec<Transfer> {
    with_plugged(|plugged| if plugged.owner == owner { take(plugged) } else { Vec::new() }).unwrap_or_default()
}

/// Removes and returns the held-back transfers. If there is only one, and it is all that the thread's sync of a file has
/// to write, the system is asked to write and to sync in one call.
fn take(plugged: &mut Plugged) -> Vec<Transfer> {
    let mut transfers = std::mem::take(&mut plugged.transfers);
    if let [only] = &mut transfers[..]
        && plugged.syncs == Some(only.device().id())
    {
        only.sync_by_itself();
    }
    transfers
}

/// A guard that holds back requests of the calling thread until it is dropped. See [`super::super::Host::plug`].
#[must_use = "requests go to the disk when the plug is dropped"]
pub struct Plug<'a> {
    pub(super) disks: &'a super::Disks,
    pub(super) is_own: bool,
    /// Keeps the guard on its thread: makes it neither `Send` nor `Sync`.
    pub(super) _thread: PhantomData<*const ()>,
}

impl Drop for Plug<'_> {
    fn drop(&mut self) {
        if self.is_own {
            self.disks.start_all(end());
        }
    }
}
