//! The locks of this machine: adaptive mutexes, whose waiters spin briefly and then sleep.
//!
//! In debug builds each thread tracks the classes that it holds. As on the simulator, a thread panics if it takes a
//! lock against the order ([`LockClass::rank`]), or waits with a lock held. In release builds a lock is one byte beside
//! its value.

use machine::LockClass;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

thread_local! {
    static HELD: Held = const { Held { classes: Cell::new(0), slots: Cell::new(0) } };
}

/// Counts of the locks and per-CPU slots that the thread holds. Kept in debug builds only.
struct Held {
    /// Number of locks of each class that the thread holds: one byte for each class, in order of the classes' ranks.
    classes: Cell<u64>,
    /// Number of per-CPU slots ([`super::Shards`]) that the thread holds.
    slots: Cell<u32>,
}

/// A guard that counts a lock of a class, or a per-CPU slot, as held until the guard is dropped. Empty in release
/// builds.
pub(super) struct Holding(#[cfg(debug_assertions)] Option<LockClass>);

impl Holding {
    #[inline]
    fn lock(_class: LockClass) -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.classes.set(held.classes.get() + (1 << (8 * _class.rank()))));
        Self(
            #[cfg(debug_assertions)]
            Some(_class),
        )
    }

    #[inline]
    pub(super) fn slot() -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.slots.set(held.slots.get() + 1));
        Self(
            #[cfg(debug_assertions)]
            None,
        )
    }
}

#[cfg(debug_assertions)]
impl Drop for Holding {
    fn drop(&mut self) {
        HELD.with(|held| match self.0 {
            Some(class) => held.classes.set(held.classes.get() - (1 << (8 * class.rank()))),
            None => held.slots.set(held.slots.get() - 1),
        });
    }
}

/// Panics in debug builds when the thread may not wait for a lock of `class`: it holds a lock of the same or a higher
/// rank, or a per-CPU slot under which such a lock is not allowed.
#[inline]
fn assert_rising(class: LockClass) {
    if cfg!(debug_assertions) {
        HELD.with(|held| {
            let not_lower = held.classes.get() >> (8 * class.rank());
            if not_lower != 0 {
                let held = LockClass::ALL[(u32::from(class.rank()) + not_lower.trailing_zeros() / 8) as usize];
                panic!("lock `{}` taken while holding lock `{}`: ranks must rise", class.name(), held.name());
            }
            let is_inner = class.may_be_taken_in_slot();
            let is_allowed = held.slots.get() == 0 || is_inner;
            assert!(is_allowed, "lock `{}` taken while holding a per-CPU slot", class.name());
        });
    }
}

/// Panics in debug builds when the thread, which is about to sleep, holds a lock or a per-CPU slot. `doing` is the
/// thread's action, for the message.
#[inline]
pub(super) fn assert_none_held(doing: &str) {
    if cfg!(debug_assertions) {
        HELD.with(|held| {
            let classes =
                LockClass::ALL.into_iter().filter(|class| held.classes.get() >> (8 * class.rank()) & 0xff != 0);
            let names: Vec<_> = classes.map(LockClass::name).collect();
            assert!(names.is_empty(), "{doing} while holding lock `{}`", names.join("`, `"));
            assert_eq!(held.slots.get(), 0, "{doing} while holding a per-CPU slot");
        });
    }
}

/// A lock of this machine: an adaptive mutex with the class that the engine gave it.
pub struct AdaptiveLock<T> {
    class: LockClass,
    mutex: Mutex<T>,
}

impl<T> AdaptiveLock<T> {
    pub(super) const fn new(class: LockClass, value: T) -> Self {
        Self { class, mutex: Mutex::new(value) }
    }
}

impl<T: 'static> machine::Lock<T> for AdaptiveLock<T> {
    type Guard<'a> = AdaptiveGuard<'a, T>;

    #[inline]
    fn lock(&self) -> AdaptiveGuard<'_, T> {
        assert_rising(self.class);
        AdaptiveGuard { guard: self.mutex.lock(), _holding: Holding::lock(self.class) }
    }

    #[inline]
    fn try_lock(&self) -> Option<AdaptiveGuard<'_, T>> {
        // Trying never waits, so a thread may try locks in any order of classes.
        let guard = self.mutex.try_lock()?;
        Some(AdaptiveGuard { guard, _holding: Holding::lock(self.class) })
    }
}

/// A guard that holds an [`AdaptiveLock`] until it is dropped.
pub struct AdaptiveGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _holding: Holding,
}

impl<T> Deref for AdaptiveGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for AdaptiveGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Lock;

    #[test]
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "lock `lru` taken while holding lock `zone`: ranks must rise")
    )]
    fn a_lock_out_of_order_is_a_panic_in_debug_builds() {
        let (lru, zone) = (AdaptiveLock::new(LockClass::Lru, ()), AdaptiveLock::new(LockClass::Zone, ()));
        drop((lru.lock(), zone.lock()));
        let _zone = zone.lock();
        drop(lru.try_lock().expect("nobody holds it, and trying is allowed"));
        let _lru = lru.lock();
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "sleep while holding lock `i_pages`"))]
    fn sleeping_with_a_lock_is_a_panic_in_debug_builds() {
        let lock = AdaptiveLock::new(LockClass::IPages, ());
        drop(lock.lock());
        assert_none_held("sleep");
        let _guard = lock.lock();
        assert_none_held("sleep");
    }

    #[test]
    fn a_lock_is_small_in_release_builds() {
        assert!(size_of::<AdaptiveLock<()>>() <= 2);
        assert_eq!(size_of::<Holding>(), usize::from(cfg!(debug_assertions)));
    }
}
