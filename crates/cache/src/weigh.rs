//! The weight of an object, which is its share of a cache's capacity: 1 for each object, or the object's size in bytes.

use std::sync::Arc;

/// The weight of objects, in the unit of a cache's capacity.
///
/// A policy is generic over this trait, so that a cache counted in pages neither stores nor reads sizes.
pub trait Weigh: Clone + Send + 'static {
    /// Returns the weight of the object `id`. It is at least 1 and never changes.
    fn of(&self, id: u32) -> u64;

    /// Returns the mean weight of all objects.
    fn mean(&self) -> f64;
}

/// Every object weighs 1, so that the capacity is a number of objects or pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct One;

impl Weigh for One {
    #[inline(always)]
    fn of(&self, _: u32) -> u64 {
        1
    }

    fn mean(&self) -> f64 {
        1.0
    }
}

/// Weights by size: an object weighs as much as its number of bytes, so the capacity of the cache is a number of bytes.
#[derive(Clone, Debug)]
pub struct Bytes(Arc<[u32]>);

impl Bytes {
    /// Creates weights from the sizes of objects, by id. An object of 0 bytes weighs 1.
    #[must_use]
    pub fn new(sizes: Arc<[u32]>) -> Self {
        Self(sizes)
    }
}

impl Weigh for Bytes {
    #[inline(always)]
    fn of(&self, id: u32) -> u64 {
        u64::from(self.0[id as usize].max(1))
    }

    fn mean(&self) -> f64 {
        let sum: u64 = self.0.iter().map(|size| u64::from((*size).max(1))).sum();
        sum as f64 / self.0.len().max(1) as f64
    }
}
