//! Random draws.

use sim::Rng;

/// The seed with which a swarm run puts wrong contents into a page on purpose. A test uses it to check that a run finds
/// the failure, and that the failure can be replayed.
pub const CORRUPTING_SEED: u64 = 0xbad_5eed;

/// Returns a random number from `low` to `high`. Numbers with few and with many binary digits are equally likely
/// (log-uniform).
pub(super) fn log_between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let (low_digits, high_digits) = (low.max(1).ilog2(), high.max(1).ilog2());
    let digits = u64::from(low_digits) + rng.below(u64::from(high_digits - low_digits) + 1);
    ((1 << digits) + rng.below(1 << digits)).clamp(low, high)
}

/// Returns one of several values at random, all equally likely.
pub(super) fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}
