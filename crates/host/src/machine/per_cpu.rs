//! Per-CPU values. Each value has one *slot* for each CPU, with a mutex and in cache lines of its own.
//!
//! The mutex is needed because threads migrate between CPUs and outnumber them. A thread usually finds the slot of its
//! CPU free. If another thread was preempted while holding the slot, or [`machine::PerCpu::for_each_cpu`] is visiting
//! it, the thread uses the next free slot. It may do so because the contents of a slot belong to no particular thread.

use super::lock::Holding;
use super::sys;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

/// A per-CPU value: an array of slots with a `T` each. `Config::shards` is the number of slots.
pub struct Shards<T>(Box<[CachePadded<Mutex<T>>]>);

impl<T> Shards<T> {
    pub(super) fn new(shards: usize, make: impl FnMut(usize) -> T) -> Self {
        Self((0..shards).map(make).map(|value| CachePadded::new(Mutex::new(value))).collect())
    }
}

impl<T: 'static> machine::PerCpu<T> for Shards<T> {
    type Guard<'a> = ShardGuard<'a, T>;

    #[inline]
    fn local(&self) -> ShardGuard<'_, T> {
        let shards = &self.0;
        let own = sys::current_cpu() % shards.len();
        let guard = shards[own].try_lock().unwrap_or_else(|| {
            let others = (own + 1..shards.len()).chain(0..own);
            others.into_iter().find_map(|other| shards[other].try_lock()).unwrap_or_else(|| shards[own].lock())
        });
        ShardGuard { guard, _holding: Holding::slot() }
    }

    fn for_each_cpu(&self, mut visit: impl FnMut(&mut T)) {
        for shard in &self.0 {
            let mut guard = shard.lock();
            let _holding = Holding::slot();
            visit(&mut guard);
        }
    }
}

/// A guard that holds one per-CPU slot of [`Shards`] until it is dropped.
pub struct ShardGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _holding: Holding,
}

impl<T> Deref for ShardGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for ShardGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::PerCpu;

    #[test]
    fn a_held_slot_is_passed_over() {
        let shards = Shards::new(2, |_| 0);
        let mut first = shards.local();
        let mut second = shards.local();
        *first += 1;
        *second += 1;
        drop((first, second));
        let mut seen = Vec::new();
        shards.for_each_cpu(|slot| seen.push(*slot));
        assert_eq!(seen, [1, 1]);
    }
}
