//! The lives of groups: which group numbers are in use, and which groups are pinned.
//!
//! A task may charge pages to a group that it is not in: a page that comes back from swap is charged to its earlier
//! group. Meanwhile the task *pins* the group. Without the pin, the group could be removed, and a new group with another
//! parent could get its number. The page would later be subtracted from the counters of the wrong parent.
//!
//! A task that pins a group counts the pin, and then reads the group's state. A task that takes a group out of the tree
//! has marked it as removed, and then reads the number of pins. At least one of the two must see the other, hence the
//! fences. *Called by* the tree of groups. *Locks*: states are changed under the lock of the tree; pins need none.

use super::GroupId;
use machine::atomic::Ordering::SeqCst;
use machine::atomic::{AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

/// The state of a group number: unused, or in use by a group that exists, is being removed or was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No group has this number.
    Unused,
    /// The group exists.
    Live,
    /// The group is being removed. It is in the tree.
    Leaving,
    /// The group was removed, but it is still in the tree, because pages in memory or in swap are charged to it or to a
    /// descendant.
    Dying,
}

/// The states of all group numbers, and the pins of the groups.
#[derive(Debug)]
pub struct Lives {
    /// The [`State`] of each group.
    states: Box<[AtomicU8]>,
    /// Number of tasks that pin each group.
    pins: Box<[AtomicU32]>,
}

/// A group that is kept in the tree until the value is dropped.
#[derive(Debug)]
pub struct Pin<'a>(&'a AtomicU32);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // Who sees that the pin is gone must also see what was charged under it.
        self.0.fetch_sub(1, Release);
    }
}

impl Lives {
    /// Creates the states of `count` group numbers, all unused.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            states: (0..count).map(|_| AtomicU8::new(State::Unused as u8)).collect(),
            pins: (0..count).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Returns the number of group numbers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// Returns whether a group is in the state `state`. Returns `false` if `id` is too large for one of these groups.
    #[must_use]
    pub fn is(&self, id: GroupId, state: State) -> bool {
        self.states.get(usize::from(id.0)).is_some_and(|now| now.load(Acquire) == state as u8)
    }

    /// Changes the state of a group.
    ///
    /// # Panics
    /// Panics if `id` is too large for one of these groups.
    pub fn set(&self, id: GroupId, state: State) {
        self.states[usize::from(id.0)].store(state as u8, Release);
    }

    /// Pins a group, so that its number is not used for another group. Returns `None` if the group was removed.
    #[doc(alias = "css_tryget_online")]
    #[must_use]
    pub fn pin(&self, id: GroupId) -> Option<Pin<'_>> {
        let pins = self.pins.get(usize::from(id.0))?;
        pins.fetch_add(1, Relaxed);
        let pin = Pin(pins);
        fence(SeqCst);
        self.is(id, State::Live).then_some(pin)
    }

    /// Returns whether a task pins a group that was marked as removed. If the result is `false`, nobody will pin the
    /// group, and the caller sees all that was charged to it.
    ///
    /// # Panics
    /// Panics if `id` is too large for one of these groups.
    #[must_use]
    pub fn is_pinned(&self, id: GroupId) -> bool {
        fence(SeqCst);
        self.pins[usize::from(id.0)].load(Acquire) > 0
    }
}
