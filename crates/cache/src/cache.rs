//! The trait of a simulated cache.

/// A simulated cache: it knows which objects are cached, and decides which of them leave.
///
/// Objects are dense numbers from 0, as a [`Requests`](crate::Requests) gives them out, so that a policy can keep its
/// state in arrays. A policy of one's own implements [`Cache::request`], and may implement the rest for speed:
///
/// ```
/// use cache::{Cache, Requests};
/// use std::collections::VecDeque;
///
/// /// Evicts the object that was inserted last.
/// struct Lifo {
///     pages: usize,
///     inside: VecDeque<u32>,
/// }
///
/// impl Cache for Lifo {
///     fn request(&mut self, id: u32) -> bool {
///         if self.inside.contains(&id) {
///             return true;
///         }
///         if self.inside.len() == self.pages {
///             self.inside.pop_back();
///         }
///         self.inside.push_back(id);
///         false
///     }
///
///     fn bytes(&self) -> u64 {
///         (self.inside.capacity() * size_of::<u32>()) as u64
///     }
/// }
///
/// let requests = Requests::from_keys([10, 20, 30, 10, 20]);
/// let mut lifo = Lifo { pages: 2, inside: VecDeque::new() };
/// // 30 evicts 20, and 20 then evicts 30.
/// assert_eq!(lifo.run(requests.ids()), 1);
/// ```
pub trait Cache: Send {
    /// Requests an object. Returns whether the object was in the cache. Afterwards it is in the cache, unless the
    /// policy does not admit it, for example because it is larger than the cache.
    fn request(&mut self, id: u32) -> bool;

    /// Prefetches the first word that a later request for the object will read.
    #[inline]
    fn look_far(&self, _id: u32) {}

    /// Prefetches the other words that a later request for the object will read. Their addresses depend on the first
    /// word, which [`Cache::look_far`] prefetches. So this method is called some requests after that one, when the
    /// first word has been loaded.
    #[inline]
    fn look_near(&self, _id: u32) {}

    /// Returns the number of bytes of memory that the state of the simulated cache occupies now: index, lists, ghosts,
    /// counters. Data that all caches of a replay share are not counted.
    fn bytes(&self) -> u64;

    /// Requests the objects `ids` in order. Returns how many of the requests were hits.
    ///
    /// This is faster than a call of [`Cache::request`] through `dyn Cache` for each object: the loop is compiled for
    /// each policy, and memory for later requests is loaded while earlier ones are handled.
    fn run(&mut self, ids: &[u32]) -> u64 {
        let mut hits = 0;
        for (n, id) in ids.iter().enumerate() {
            if let Some(soon) = ids.get(n + FAR) {
                self.look_far(*soon);
            }
            if let Some(soon) = ids.get(n + NEAR) {
                self.look_near(*soon);
            }
            hits += u64::from(self.request(*id));
        }
        hits
    }

    /// Requests the objects `ids` in order; `sizes` has the number of bytes of each request. Returns the number of
    /// hits, and their bytes.
    fn run_sized(&mut self, ids: &[u32], sizes: &[u32]) -> (u64, u64) {
        let (mut hits, mut bytes) = (0, 0);
        for (n, (id, size)) in ids.iter().zip(sizes).enumerate() {
            if let Some(soon) = ids.get(n + FAR) {
                self.look_far(*soon);
            }
            if let Some(soon) = ids.get(n + NEAR) {
                self.look_near(*soon);
            }
            if self.request(*id) {
                hits += 1;
                bytes += u64::from(*size);
            }
        }
        (hits, bytes)
    }
}

/// Distance, in requests, between the request that is handled and the one for which [`Cache::look_far`] is called.
const FAR: usize = 16;

/// Distance, in requests, between the request that is handled and the one for which [`Cache::look_near`] is called.
const NEAR: usize = 8;
