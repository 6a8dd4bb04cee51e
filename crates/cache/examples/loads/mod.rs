//! Helpers of the examples: random keys, and the CPU time of a thread.

#![allow(dead_code, reason = "each example uses a part")]

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this thread, seconds.
pub fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A sequence of random numbers.
pub struct Random(pub u64);

impl Random {
    /// Returns the next random number, from 0 to less than 1.
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A distribution of ranks from 1 that follows Zipf's law with exponent 1. Element `n` is the sum of the weights 1 /
/// rank of the ranks up to `n + 1`.
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// Creates ranks from 1 to `keys`.
    pub fn new(keys: u32) -> Self {
        let mut sum = 0.0;
        let below = (1..=keys).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Self(below.collect())
    }

    /// Returns a random rank (from 1), drawn by Zipf's law.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let point = random.next() * self.0.last().unwrap();
        self.0.partition_point(|below| *below < point) as u64 + 1
    }
}

/// Returns 64-bit keys whose ranks follow Zipf's law with exponent 1. A key is a hash of its rank ([`mix`]), so that
/// keys are spread over all 64 bits.
pub fn zipf(keys: u32, requests: usize) -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(keys), Random(1));
    (0..requests).map(|_| mix(zipf.draw(&mut random))).collect()
}

/// Returns a mixture of three kinds of requests: six of ten draw keys of a popular set by Zipf's law, three draw keys
/// of a set that shifts over time, and one scans a set of keys again and again.
pub fn mixture(keys: u32, requests: usize) -> Vec<u64> {
    let (zipf, mut random, mut scan) = (Zipf::new(keys / 2), Random(2), 0);
    let place = |n: usize| n as f64 / requests as f64 * f64::from(keys) / 2.0;
    let draw = |n: usize| match (random.next() * 10.0) as u32 {
        0..6 => mix(zipf.draw(&mut random)),
        6..9 => mix(1 << 40 | (place(n) + random.next() * f64::from(keys) / 10.0) as u64),
        _ => {
            scan = (scan + 1) % u64::from(keys / 4);
            mix(1 << 41 | scan)
        }
    };
    (0..requests).map(draw).collect()
}

pub fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
