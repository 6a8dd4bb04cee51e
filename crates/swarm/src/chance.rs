//! How numbers are drawn.

use sim::Rng;

/// The seed whose world puts a wrong stamp into a page, so that its failure can be replayed.
pub const CORRUPTING_SEED: u64 = 0xbad_5eed;

/// A number with as many binary digits as any other.
pub(super) fn log_between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let (low_digits, high_digits) = (low.max(1).ilog2(), high.max(1).ilog2());
    let digits = u64::from(low_digits) + rng.below(u64::from(high_digits - low_digits) + 1);
    ((1 << digits) + rng.below(1 << digits)).clamp(low, high)
}

/// One of several, each as likely as any other.
pub(super) fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}
