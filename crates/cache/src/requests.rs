//! The requests of a replay, which all its caches share: the numbers of the requested objects, and data that only some
//! policies need.

use crate::keys::{Keys, TooManyKeys};
use crate::list::NONE;
use std::sync::{Arc, OnceLock};

/// A sequence of requests. Objects are numbered from 0 without gaps, so that a request takes 4 bytes, or 8 with its
/// size.
///
/// The 64-bit keys of a trace are numbered once, by [`RequestsBuilder`], for all policies and sizes.
#[derive(Debug, Default)]
pub struct Requests {
    ids: Arc<Vec<u32>>,
    /// Number of bytes of each request; empty if all requests are for a page.
    sizes: Vec<u32>,
    /// The key of each object, indexed by the object's number.
    keys: Vec<u64>,
    /// For each object, the number of bytes of its first request; empty if `sizes` is empty.
    object_sizes: Arc<[u32]>,
    next: OnceLock<Arc<[u32]>>,
    hashes: OnceLock<Arc<[[u32; 2]]>>,
}

/// Builds [`Requests`]. The keys of a trace are added in blocks.
#[derive(Debug, Default)]
pub struct RequestsBuilder {
    keys: Keys,
    ids: Vec<u32>,
    sizes: Vec<u32>,
    object_sizes: Vec<u32>,
}

/// The largest number of requests that a replay can hold. The limit exists because positions of requests are stored in
/// 32 bits.
pub const REQUESTS_MAX: usize = NONE as usize - 1;

/// The reason why requests could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There are more distinct objects than a policy can number.
    TooManyKeys(TooManyKeys),
    /// There are more than [`REQUESTS_MAX`] requests.
    TooManyRequests,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooManyKeys(error) => error.fmt(f),
            Self::TooManyRequests => write!(f, "the trace has more than {REQUESTS_MAX} requests, which is the limit"),
        }
    }
}

impl std::error::Error for Refused {}

impl RequestsBuilder {
    /// Adds requests for pages.
    ///
    /// # Errors
    /// When there are too many requests or distinct keys.
    pub fn add(&mut self, keys: &[u64]) -> Result<(), Refused> {
        if self.ids.len() + keys.len() > REQUESTS_MAX {
            return Err(Refused::TooManyRequests);
        }
        self.keys.number(keys, &mut self.ids).map_err(Refused::TooManyKeys)
    }

    /// Adds requests, each with the key and the size of its object; sizes are in bytes. If requests for one object
    /// differ in size, the object keeps the size of its first request, and the requested bytes are the sum of the sizes
    /// of all requests.
    ///
    /// # Errors
    /// When there are too many requests or distinct keys.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn add_sized(&mut self, keys: &[u64], sizes: &[u32]) -> Result<(), Refused> {
        assert_eq!(keys.len(), sizes.len(), "each request has a size");
        let from = self.ids.len();
        self.add(keys)?;
        self.sizes.extend_from_slice(sizes);
        for (id, size) in self.ids[from..].iter().zip(sizes) {
            if *id as usize == self.object_sizes.len() {
                self.object_sizes.push(*size);
            }
        }
        Ok(())
    }

    /// Returns the collected requests.
    ///
    /// # Panics
    /// When some requests were added with sizes and others without.
    #[must_use]
    pub fn finish(self) -> Requests {
        let Self { keys, ids, sizes, object_sizes } = self;
        assert!(sizes.is_empty() || sizes.len() == ids.len(), "either all requests have sizes, or none");
        Requests {
            ids: Arc::new(ids),
            sizes,
            keys: keys.into_keys(),
            object_sizes: object_sizes.into(),
            next: OnceLock::new(),
            hashes: OnceLock::new(),
        }
    }
}

impl Requests {
    /// Creates requests for pages from 64-bit keys.
    ///
    /// # Panics
    /// When there are too many requests or distinct keys; [`RequestsBuilder`] returns an error instead.
    #[must_use]
    pub fn from_keys(keys: impl IntoIterator<Item = u64>) -> Self {
        let keys: Vec<u64> = keys.into_iter().collect();
        let mut builder = RequestsBuilder::default();
        builder.add(&keys).expect("fewer requests than the limit");
        builder.finish()
    }

    /// Returns the id of the object of each request.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the id of the object of each request. The list is shared, so a cache can keep it without a copy.
    #[must_use]
    pub(crate) fn shared_ids(&self) -> Arc<Vec<u32>> {
        self.ids.clone()
    }

    /// Returns the size of each request, in bytes; an empty slice if requests have no sizes.
    #[must_use]
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether there is no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the number of distinct objects.
    #[must_use]
    pub fn distinct(&self) -> u32 {
        self.keys.len() as u32
    }

    /// Returns the key of each object, by id.
    #[must_use]
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Returns the sizes of the objects, bytes, by id. The size of an object is that of its first request. The slice is
    /// empty if requests have no sizes.
    #[must_use]
    pub fn object_sizes(&self) -> &Arc<[u32]> {
        &self.object_sizes
    }

    /// Returns the number of bytes of all distinct objects; the number of objects if requests have no sizes.
    #[must_use]
    pub fn distinct_bytes(&self) -> u64 {
        match self.sizes.is_empty() {
            true => u64::from(self.distinct()),
            false => self.object_sizes.iter().map(|size| u64::from(*size)).sum(),
        }
    }

    /// Returns, for each request, the position of the next request for the same object; [`NEVER`] if there is none. The
    /// result is computed at the first call, in one pass from the end.
    #[must_use]
    pub fn next_uses(&self) -> Arc<[u32]> {
        let compute = || {
            let mut next = vec![NEVER; self.ids.len()];
            let mut last = vec![NEVER; self.keys.len()];
            for (at, id) in self.ids.iter().enumerate().rev() {
                next[at] = std::mem::replace(&mut last[*id as usize], at as u32);
            }
            next.into()
        };
        self.next.get_or_init(compute).clone()
    }

    /// Returns two hashes of each object's key, indexed by object id. Policies that estimate frequencies with sketches
    /// use them. The first call computes the hashes, and later calls return them again.
    #[must_use]
    pub fn hashes(&self) -> Arc<[[u32; 2]]> {
        self.hashes.get_or_init(|| self.keys.iter().map(|key| crate::xxh64::pair(*key)).collect()).clone()
    }
}

/// The value that [`Requests::next_uses`] has in place of a position if no later request is for the same object.
pub const NEVER: u32 = NONE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_uses_point_to_the_next_request_of_the_object() {
        let requests = Requests::from_keys([7, 8, 7, 7, 9, 8]);
        assert_eq!(requests.ids(), [0, 1, 0, 0, 2, 1]);
        assert_eq!(*requests.next_uses(), [2, 5, 3, NEVER, NEVER, NEVER]);
        assert_eq!((requests.distinct(), requests.distinct_bytes(), requests.keys()), (3, 3, &[7, 8, 9][..]));
    }

    #[test]
    fn an_object_keeps_the_size_of_its_first_request() {
        let mut builder = RequestsBuilder::default();
        builder.add_sized(&[5, 6], &[10, 20]).unwrap();
        builder.add_sized(&[5, 7], &[11, 30]).unwrap();
        let requests = builder.finish();
        assert_eq!(requests.sizes(), [10, 20, 11, 30]);
        assert_eq!((requests.object_sizes().as_ref(), requests.distinct_bytes()), (&[10, 20, 30][..], 60));
    }
}
