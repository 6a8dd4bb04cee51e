//! Counters for many threads that count at the same time.
//!
//! If a counter were one word, threads would take its cache line from each other, which would cost more than all other
//! work of a page-cache miss. So each counter has a word in each of several rows. Threads count in different rows, as
//! far as there are enough rows, and the value of the counter is the sum over its rows. One row is enough if only one
//! thread ever runs ([`machine::Machine::counter_rows`]).

use machine::atomic::{AtomicU64, Ordering::Relaxed};
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;

/// `N` counters. Each counter has one word in every row, so that threads can count in different rows. The value of a
/// counter is the sum of its words.
#[derive(Debug)]
pub struct Sharded<const N: usize>(Box<[Row<N>]>);

/// A row of [`Sharded`]: one word of each counter. A row fills whole pairs of cache lines, because processors fetch two
/// lines at a time.
#[derive(Debug)]
#[repr(align(128))]
struct Row<const N: usize>([AtomicU64; N]);

thread_local! {
    /// The number of this thread. Threads are numbered from 1, in the order in which they first counted. The number is
    /// 0 until the thread first counts.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

#[cold]
fn take_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let number = THREADS.fetch_add(1, Relaxed) + 1;
    NUMBER.set(number);
    number
}

impl<const N: usize> Sharded<N> {
    /// Creates counters that are all 0. The number of their rows is `rows`, rounded up to a power of two.
    ///
    /// # Panics
    /// Panics when `rows` is 0.
    #[must_use]
    pub fn new(rows: usize) -> Self {
        assert!(rows > 0, "counters have a row at least");
        let row = |_| Row(std::array::from_fn(|_| AtomicU64::new(0)));
        Self((0..rows.next_power_of_two()).map(row).collect())
    }

    /// Adds `n` to a counter. A negative `n` is added as its two's complement, which wraps around.
    #[inline]
    pub fn add(&self, counter: usize, n: u64) {
        let row = match self.0.len() {
            1 => 0,
            rows => {
                let number = NUMBER.get();
                (if number == 0 { take_number() } else { number }) & (rows - 1)
            }
        };
        self.0[row].0[counter].fetch_add(n, Relaxed);
    }

    /// Returns the value of a counter. If other threads are counting, the value may include only a part of their
    /// changes.
    #[inline]
    #[must_use]
    pub fn get(&self, counter: usize) -> u64 {
        self.0.iter().map(|row| row.0[counter].load(Relaxed)).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_in_rows_and_the_sum_is_theirs() {
        let counters = Sharded::<3>::new(3);
        assert_eq!(counters.0.len(), 4);
        std::thread::scope(|scope| {
            for n in 1..=6 {
                let counters = &counters;
                scope.spawn(move || (0..1000).for_each(|_| counters.add(1, n)));
            }
        });
        counters.add(2, 5);
        counters.add(2, (-7_i64).cast_unsigned());
        assert_eq!([0, 1, 2].map(|at| counters.get(at).cast_signed()), [0, 21_000, -2]);
        assert!(counters.0.iter().filter(|row| row.0[1].load(Relaxed) > 0).count() > 1, "all in one row");
    }
}
