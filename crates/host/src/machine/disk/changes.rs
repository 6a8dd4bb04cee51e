//! The changes of a file that the system may not have made durable yet.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the changes of a file (writes, new lengths) that have ended, and those that are known to be durable. A sync
/// asks the system only if there are changes that are not durable.
///
/// A sync reads the number of ended changes before it calls the system, because the system makes durable what had ended
/// before the call, and perhaps nothing else.
#[derive(Debug)]
pub(super) struct Changes {
    ended: AtomicU64,
    durable: AtomicU64,
}

impl Default for Changes {
    /// Returns the counts of a file that was just opened: earlier users of the file may have left data that are not
    /// durable, which count as one change.
    fn default() -> Self {
        Self { ended: AtomicU64::new(1), durable: AtomicU64::new(0) }
    }
}

impl Changes {
    /// Records that a change has ended. A write that the system made durable by itself is not recorded.
    pub(super) fn note(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of changes that have ended, if some of them may not be durable; otherwise `None`.
    pub(super) fn unsynced(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::SeqCst);
        (self.durable.load(Ordering::SeqCst) < ended).then_some(ended)
    }

    /// Records that the first `ended` changes are durable.
    pub(super) fn note_durable(&self, ended: u64) {
        self.durable.fetch_max(ended, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_ends_during_a_sync_is_left_to_the_next() {
        let changes = Changes::default();
        let seen = changes.unsynced().expect("what earlier users left");
        changes.note();
        changes.note_durable(seen);
        let seen = changes.unsynced().expect("the change during the sync");
        changes.note_durable(seen);
        assert_eq!(changes.unsynced(), None);
        changes.note_durable(1);
        assert_eq!(changes.unsynced(), None, "a slower sync takes nothing back");
    }
}
