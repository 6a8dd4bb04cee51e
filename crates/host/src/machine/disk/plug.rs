//! A plug: requests of the calling thread are held back, so that they go to the disk together.
//!
//! They go when the plug is dropped, when there are `REQUESTS_MAX`, and before the thread sleeps in the machine, which
//! might be for one of them. Linux: `blk_start_plug`, `blk_finish_plug`.

use super::backend::Transfer;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Requests that a plug holds back at most.
pub(super) const REQUESTS_MAX: usize = 64;

thread_local! {
    static PLUGGED: RefCell<Plugged> = const { RefCell::new(Plugged { owner: 0, depth: 0, transfers: Vec::new() }) };
}

struct Plugged {
    /// The owner of the requests that are held back: the address of the machine's disks, or 0.
    owner: usize,
    /// Plugs of that machine on this thread.
    depth: u32,
    transfers: Vec<Transfer>,
}

/// Calls `look` with the held-back transfers of the thread. If the thread is ending and they are gone, none are held
/// back.
fn with_plugged<R>(look: impl FnOnce(&mut Plugged) -> R) -> Option<R> {
    PLUGGED.try_with(|plugged| look(&mut plugged.borrow_mut())).ok()
}

/// Begins to hold requests of `owner` back; false when the thread has a plug of another machine.
pub(super) fn begin(owner: usize) -> bool {
    with_plugged(|plugged| {
        let is_free = plugged.depth == 0 || plugged.owner == owner;
        if is_free {
            plugged.owner = owner;
            plugged.depth += 1;
        }
        is_free
    })
    .unwrap_or(false)
}

/// Ends a plug. Returns the transfers to send now.
pub(super) fn end() -> Vec<Transfer> {
    with_plugged(|plugged| {
        plugged.depth -= 1;
        if plugged.depth == 0 { std::mem::take(&mut plugged.transfers) } else { Vec::new() }
    })
    .unwrap_or_default()
}

/// Returns whether `owner` holds requests of this thread back.
#[inline]
pub(super) fn is_plugged(owner: usize) -> bool {
    with_plugged(|plugged| plugged.depth > 0 && plugged.owner == owner).unwrap_or(false)
}

/// Holds a transfer back. Returns the transfers to send now, if the plug is full.
pub(super) fn hold(transfer: Transfer) -> Vec<Transfer> {
    PLUGGED.with_borrow_mut(|plugged| {
        plugged.transfers.push(transfer);
        if plugged.transfers.len() < REQUESTS_MAX { Vec::new() } else { take(plugged) }
    })
}

/// Takes the transfers that `owner` holds back on this thread, which is about to sleep.
#[inline]
pub(super) fn take_before_sleep(owner: usize) -> Vec<Transfer> {
    with_plugged(|plugged| if plugged.owner == owner { take(plugged) } else { Vec::new() }).unwrap_or_default()
}

fn take(plugged: &mut Plugged) -> Vec<Transfer> {
    std::mem::take(&mut plugged.transfers)
}

/// Holds requests of the calling thread back until it is dropped. See [`super::super::Host::plug`].
#[must_use = "requests go to the disk when the plug is dropped"]
pub struct Plug<'a> {
    pub(super) disks: &'a super::Disks,
    pub(super) is_own: bool,
    /// Stays on its thread.
    pub(super) _thread: PhantomData<*const ()>,
}

impl Drop for Plug<'_> {
    fn drop(&mut self) {
        if self.is_own {
            self.disks.start_all(end());
        }
    }
}
