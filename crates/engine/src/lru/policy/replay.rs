//! A policy without an engine: requests for keys are hits or misses, and nothing takes time.
//!
//! The code of the policy is the engine's. A [`Slab`] with 16 bytes for each page replaces the frame descriptors, and a
//! loop replaces zones, locks and batches. The cache holds up to `capacity` pages. On a hit, the use of the page is
//! noted. On a miss with a full cache, the policy names victims until its verdict on one of them is to evict it. The
//! requested page takes the slot of the evicted page.
//!
//! ```
//! use engine::lru::policy::{Replay, simple::Clock};
//!
//! let mut replay = Replay::new(Clock::default(), 2, 10);
//! let hits: Vec<bool> = [1, 2, 1, 3, 1, 2].into_iter().map(|key| replay.request(key)).collect();
//! // When page 3 came, page 1 had been used again, so page 2 was evicted.
//! assert_eq!(hits, [false, false, true, false, true, false]);
//! ```

use super::{Insert, Pages, Policy, Seen, Verdict, Victims};
use crate::memory::{Flags, Links};
use crate::page_cache::Shadow;
use machine::{FrameNumber, prefetch};
use std::cell::Cell;

/// The state of one page: 16 bytes.
#[derive(Debug, Default)]
struct Entry {
    next: Cell<u32>,
    previous: Cell<u32>,
    flags: Cell<u32>,
    key: Cell<u32>,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// The table of pages of a [`Replay`], which takes the place of the engine's frame table. It belongs to one thread.
#[derive(Debug)]
pub struct Slab(Box<[Entry]>);

impl Slab {
    #[inline]
    fn entry(&self, page: FrameNumber) -> &Entry {
        &self.0[page.index()]
    }
}

impl Links for Slab {
    #[inline]
    fn next(&self, page: FrameNumber) -> u32 {
        self.entry(page).next.get()
    }

    #[inline]
    fn previous(&self, page: FrameNumber) -> u32 {
        self.entry(page).previous.get()
    }

    #[inline]
    fn set_next(&self, page: FrameNumber, to: u32) {
        self.entry(page).next.set(to);
    }

    #[inline]
    fn set_previous(&self, page: FrameNumber, to: u32) {
        self.entry(page).previous.set(to);
    }

    #[inline]
    fn look_at(&self, page: FrameNumber) {
        prefetch(&raw const *self.entry(page));
    }
}

impl Pages for Slab {
    #[inline]
    fn is(&self, page: FrameNumber, flag: Flags) -> bool {
        Flags(self.entry(page).flags.get()).has(flag)
    }

    #[inline]
    fn set(&self, page: FrameNumber, flag: Flags) {
        let flags = &self.entry(page).flags;
        flags.set(flags.get() | flag.0);
    }

    #[inline]
    fn clear(&self, page: FrameNumber, flag: Flags) {
        let flags = &self.entry(page).flags;
        flags.set(flags.get() & !flag.0);
    }

    #[inline]
    fn test_clear(&self, page: FrameNumber, flag: Flags) -> bool {
        let was_set = self.is(page, flag);
        self.clear(page, flag);
        was_set
    }

    #[inline]
    fn flags(&self, page: FrameNumber) -> Flags {
        Flags(self.entry(page).flags.get())
    }
}

/// The entry of a key in a [`Replay`]: the number of the key's page, the shadow that the page left when it was evicted,
/// or nothing. An entry has 32 bits, as in the index of a file.
#[derive(Clone, Copy)]
struct Slot(u32);

impl Slot {
    const NONE: Self = Self(u32::MAX);
    const IS_SHADOW: u32 = 1 << 31;

    const fn page(self) -> Option<FrameNumber> {
        if self.0 & Self::IS_SHADOW == 0 { Some(FrameNumber(self.0)) } else { None }
    }

    fn shadow(self) -> Option<Shadow> {
        (self.0 != Self::NONE.0 && self.0 & Self::IS_SHADOW != 0).then(|| Shadow::of_bits(self.0))
    }
}

/// A cache without an engine. Each request asks for the page of a key. If the cache is full, a policy decides which
/// page is evicted.
pub struct Replay<T> {
    policy: T,
    moves_on_use: bool,
    pages: Slab,
    /// A slot for each key. It holds the frame of the key's page if this page is cached; otherwise it holds the page's
    /// shadow, if there is one.
    slots: Vec<Slot>,
    used: u32,
}

impl<T: Policy<Slab>> Replay<T> {
    /// Creates an empty cache of `capacity` pages for keys below `keys`.
    ///
    /// # Panics
    /// When `capacity` is 0, or above 2^31 - 1 pages.
    #[must_use]
    pub fn new(policy: T, capacity: u32, keys: u32) -> Self {
        assert!(capacity > 0 && capacity < Slot::IS_SHADOW, "{capacity} pages cannot be cached");
        let pages = Slab((0..capacity).map(|_| Entry::default()).collect());
        let moves_on_use = policy.moves_on_use();
        Self { policy, moves_on_use, pages, slots: vec![Slot::NONE; keys as usize], used: 0 }
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> &T {
        &self.policy
    }

    /// Returns the size, in bytes, of the memory that this cache uses for its pages and for the slots of all keys.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (size_of_val::<[Entry]>(&self.pages.0) + self.slots.capacity() * size_of::<Slot>()) as u64
    }

    /// Requests a key's page, which is in the cache afterwards. Returns whether it was there before.
    ///
    /// # Panics
    /// When the key is not below the number of keys.
    #[inline]
    pub fn request(&mut self, key: u32) -> bool {
        let slot = self.slots[key as usize];
        let Some(page) = slot.page() else {
            self.miss(key, slot);
            return false;
        };
        if self.moves_on_use {
            self.policy.used(&self.pages, page);
        } else {
            self.pages.set(page, Flags::USED_AGAIN);
        }
        true
    }

    /// Requests many keys in order. Returns how many were in the cache. This is faster than one call for each key,
    /// because the slots and pages of later keys are prefetched while earlier keys are handled.
    ///
    /// # Panics
    /// When a key is not below the number of keys.
    pub fn run(&mut self, keys: &[u32]) -> u64 {
        /// Distance, in keys, between the key that is served and the key whose slot (or page) is prefetched. Serving
        /// this many keys takes some hundred nanoseconds. No other value was tried.
        const SLOT_AHEAD: usize = 16;
        const PAGE_AHEAD: usize = 8;
        let mut hits = 0;
        for (n, key) in keys.iter().enumerate() {
            if let Some(soon) = keys.get(n + SLOT_AHEAD) {
                prefetch(&raw const self.slots[*soon as usize]);
            }
            if let Some(page) = keys.get(n + PAGE_AHEAD).and_then(|soon| self.slots[*soon as usize].page()) {
                self.pages.look_at(page);
            }
            hits += u64::from(self.request(*key));
        }
        hits
    }

    fn miss(&mut self, key: u32, slot: Slot) {
        let page = if self.used < self.pages.0.len() as u32 {
            self.used += 1;
            FrameNumber(self.used - 1)
        } else {
            self.evict()
        };
        let entry = self.pages.entry(page);
        entry.key.set(key);
        // The request itself is the first use.
        entry.flags.set(Flags::REFERENCED.0);
        self.slots[key as usize] = Slot(page.0);
        self.policy.insert(&self.pages, page, Insert::Read { shadow: slot.shadow() });
    }

    /// Evicts one page, and returns its number.
    fn evict(&mut self) -> FrameNumber {
        let mut victims = Victims::new();
        loop {
            self.policy.victims(&self.pages, 1, &mut victims);
            let page = victims.pop().expect("a full cache has a victim");
            let touched = u32::from(self.pages.test_clear(page, Flags::USED_AGAIN));
            let is_referenced = self.pages.is(page, Flags::REFERENCED);
            let seen = Seen { touched, is_referenced, is_anon: false };
            match self.policy.judge(&self.pages, page, seen) {
                Verdict::Reclaim | Verdict::ReclaimClean => {
                    let shadow = self.policy.evicted(&self.pages, page);
                    let left = shadow.map_or(Slot::NONE, |shadow| Slot(shadow.bits() | Slot::IS_SHADOW));
                    self.slots[self.pages.entry(page).key.get() as usize] = left;
                    return page;
                }
                verdict @ (Verdict::Activate | Verdict::Keep) => self.policy.put_back(&self.pages, page, verdict),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;
    use crate::lru::policy::classic::{ClassicModel, HighwaterModel, LinuxModel};
    use crate::lru::policy::multigen::MultigenModel;
    use crate::lru::policy::simple::{Clock, Lru};
    use std::collections::VecDeque;

    /// Returns requests, many of which are for the same few keys.
    fn requests() -> impl Iterator<Item = u32> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (a, b) = ((state >> 33) as u32 % 1000, (state >> 43) as u32 % 1000);
            a.min(b)
        })
        .take(50_000)
    }

    /// Passes the keys of [`requests`] in order to `request`, which implements a simple cache and returns whether the
    /// key was cached. Returns these results. Panics if the cache ever holds more than `capacity` keys.
    fn naive(capacity: usize, mut request: impl FnMut(&mut VecDeque<(u32, bool)>, u32) -> bool) -> Vec<bool> {
        let mut cache = VecDeque::new();
        requests()
            .map(|key| {
                let is_hit = request(&mut cache, key);
                assert!(cache.len() <= capacity);
                is_hit
            })
            .collect()
    }

    #[test]
    fn lru_and_clock_match_the_naive_ones() {
        const CAPACITY: usize = 100;
        let lru = naive(CAPACITY, |cache, key| {
            let at = cache.iter().position(|(cached, _)| *cached == key);
            at.map(|at| cache.remove(at));
            cache.truncate(CAPACITY - 1);
            cache.push_front((key, false));
            at.is_some()
        });
        let clock = naive(CAPACITY, |cache, key| {
            if let Some((_, is_used)) = cache.iter_mut().find(|(cached, _)| *cached == key) {
                *is_used = true;
                return true;
            }
            while cache.len() == CAPACITY {
                if let Some((kept, true)) = cache.pop_back() {
                    cache.push_front((kept, false));
                }
            }
            cache.push_front((key, false));
            false
        });
        let mut ours = Replay::new(Lru::default(), CAPACITY as u32, 1000);
        assert_eq!(requests().map(|key| ours.request(key)).collect::<Vec<_>>(), lru);
        let mut ours = Replay::new(Clock::default(), CAPACITY as u32, 1000);
        assert_eq!(requests().map(|key| ours.request(key)).collect::<Vec<_>>(), clock);
        let hits = Replay::new(Clock::default(), CAPACITY as u32, 1000).run(&requests().collect::<Vec<_>>());
        assert_eq!(hits as usize, clock.iter().filter(|is_hit| **is_hit).count());
    }

    #[test]
    fn classic_keeps_what_is_used_twice_beside_a_pass_over_everything() {
        let hits = |policy: &mut dyn FnMut(u32) -> bool| {
            let mut hits = 0;
            for round in 0..50_u32 {
                // Each hot page is used twice. Then cold pages are used, twice as many as the cache has room for.
                (0..2).for_each(|_| hits += (0..50).filter(|key| policy(*key)).count());
                (0..300).for_each(|cold| _ = policy(100 + (round * 300 + cold) % 5000));
            }
            hits
        };
        let mut classic = Replay::new(ClassicModel::default(), 150, 6000);
        let mut clock = Replay::new(Clock::default(), 150, 6000);
        let (classic, clock) = (hits(&mut |key| classic.request(key)), hits(&mut |key| clock.request(key)));
        assert!(classic > 4800 && classic > clock, "{classic}, clock {clock} of 5000");
    }

    /// Returns the pages that a policy lists, in order.
    fn listed(replay: &Replay<impl Policy<Slab>>) -> Vec<u32> {
        let mut pages = Vec::new();
        replay.policy.for_each(&replay.pages, &mut |page| pages.push(page.0));
        pages.sort_unstable();
        pages
    }

    /// Replays requests to a cache of 100 pages with `policy`. The policy must then list each of the pages once. Then
    /// removes the pages in turn; each removal must shorten the list by one.
    fn lists_each_page_once(policy: impl Policy<Slab>) {
        let mut replay = Replay::new(policy, 100, 1000);
        replay.run(&requests().collect::<Vec<_>>());
        assert_eq!(listed(&replay), (0..100).collect::<Vec<_>>());
        for page in 0..100 {
            replay.policy.remove(&replay.pages, FrameNumber(page));
            assert_eq!(listed(&replay).len(), 99 - page as usize);
        }
    }

    #[test]
    fn models_of_the_engines_policies_list_each_page_once() {
        lists_each_page_once(ClassicModel::default());
        lists_each_page_once(LinuxModel::new(100));
        lists_each_page_once(HighwaterModel::new(100));
        for kernel in ["mglru-v1", "mglru-v2", "6.1-mglru", "6.14-mglru", "7.2-mglru"] {
            let kernel = Kernel::built_in(kernel).expect("the engine has this kernel");
            lists_each_page_once(MultigenModel::new(kernel.choices.multigen));
        }
    }
}
