//! Random numbers from a seed: every generator is Xoshiro256++, whose stream is fixed by its definition.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded generator of random numbers. The same seed and stream give the same numbers on every computer and in every
/// version of this crate.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Returns the generator with number `stream` for a seed. Generators with the same seed and different numbers give
    /// different random numbers.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mixed = seed ^ stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// Returns a random `u64`.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random number below `end`; all are equally likely.
    ///
    /// # Panics
    /// When `end` is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(end);
            // A low half below 2^64 mod `end` is drawn again, because it would make some numbers more likely.
            if wide as u64 >= end || wide as u64 >= end.wrapping_neg() % end {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Returns `true` with a probability of `of_65536` / 65536.
    #[inline]
    pub fn chance(&mut self, of_65536: u32) -> bool {
        (self.next_u64() >> 48) < u64::from(of_65536)
    }
}

impl RngCore for Rng {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut rng = Rng::new(1, 0);
        let drawn = [rng.next_u64(), rng.below(1000), u64::from(rng.chance(65536))];
        let mut again = Rng::new(1, 0);
        assert_eq!(drawn, [again.next_u64(), again.below(1000), 1]);
        assert_ne!(Rng::new(1, 1).next_u64(), drawn[0]);
        assert_ne!(Rng::new(2, 0).next_u64(), drawn[0]);
    }
}
