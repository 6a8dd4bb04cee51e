//! The table of the files that a memory has open. Its keys are identities (device and inode), not names, so a file has
//! one cache even if it is opened under several names.
//!
//! The lock of the table is held only for a lookup. While a file is being opened or closed, its place in the table is
//! marked as busy; only threads that open the same file wait for that.

use super::OpenFile;
use crate::error::Error;
use crate::machine::Identity as Key;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

/// The files that one memory has open.
#[derive(Default)]
pub(crate) struct Table {
    places: Mutex<HashMap<Key, Slot>>,
    /// The condition variable that is signalled when the opening or closing of a file has ended. The file's place is
    /// then no longer [`Slot::Busy`].
    settled: Condvar,
}

enum Slot {
    /// Another thread is opening or closing the file.
    Busy,
    Open(Weak<OpenFile>),
}

impl Table {
    /// Returns an `Arc` of the open file with the key `key`. If the file is not open yet, opens it by calling `open`.
    /// If another thread is opening or closing the file, first waits until that is done.
    ///
    /// # Errors
    /// The errors of `open`.
    pub(super) fn get_or_open(
        &self,
        key: Key,
        open: impl FnOnce() -> Result<OpenFile, Error>,
    ) -> Result<Arc<OpenFile>, Error> {
        let mut places = self.places.lock();
        loop {
            match places.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(Slot::Busy);
                    break;
                }
                Entry::Occupied(place) => {
                    if let Slot::Open(open) = place.get() {
                        return Ok(open.upgrade().expect("with its last share a file leaves the table"));
                    }
                }
            }
            self.settled.wait(&mut places);
        }
        drop(places);
        let busy = Busy { table: self, key, becomes: None };
        let open = Arc::new(open()?);
        busy.settle(Slot::Open(Arc::downgrade(&open)));
        Ok(open)
    }

    /// Releases one `Arc` of an open file. If it is the last one, calls `close`, removes the file from the table, and
    /// returns the result of `close`.
    pub(super) fn release<R>(&self, share: Arc<OpenFile>, close: impl FnOnce(OpenFile) -> R) -> Option<R> {
        let last = {
            // The last `Arc` is taken apart under the table's lock, so that no thread clones it meanwhile.
            let mut places = self.places.lock();
            let last = Arc::into_inner(share)?;
            places.insert(last.key, Slot::Busy);
            last
        };
        let _busy = Busy { table: self, key: last.key, becomes: None };
        Some(close(last))
    }

    /// Waits until no file is being opened or closed, then returns an `Arc` of each open file.
    pub(crate) fn all(&self) -> Vec<Arc<OpenFile>> {
        let mut places = self.places.lock();
        while places.values().any(|place| matches!(place, Slot::Busy)) {
            self.settled.wait(&mut places);
        }
        let open = |place: &Slot| match place {
            Slot::Open(open) => open.upgrade(),
            Slot::Busy => None,
        };
        places.values().filter_map(open).collect()
    }
}

/// A guard for a file that this thread is opening or closing, while its entry in the table is marked as busy. When the
/// guard is dropped, the entry is replaced by the one given to [`Busy::settle`], or removed if that was not called.
/// Threads that wait for the entry are woken.
struct Busy<'a> {
    table: &'a Table,
    key: Key,
    becomes: Option<Slot>,
}

impl Busy<'_> {
    fn settle(mut self, place: Slot) {
        self.becomes = Some(place);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut places = self.table.places.lock();
        match self.becomes.take() {
            Some(place) => _ = places.insert(self.key, place),
            None => _ = places.remove(&self.key),
        }
        drop(places);
        self.table.settled.notify_all();
    }
}
