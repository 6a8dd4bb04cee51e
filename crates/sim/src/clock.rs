//! The virtual clocks of all CPUs, in a tournament tree that finds the CPU to run next.
//!
//! Inside this crate, virtual time is in picoseconds, so that a step may cost a fraction of a nanosecond. A key is a
//! clock with the CPU's number in its low bits, so equal clocks are ordered by CPU. The keys are the leaves of a tree
//! of pairwise minima, and the smallest key belongs to the next CPU to run. Each level of the tree costs one
//! branch-free `min`.

use machine::Nanos;
use std::cell::Cell;

/// Picoseconds in a nanosecond.
pub(crate) const PICOS: u64 = 1000;
/// Number of low bits that hold the CPU's number in a CPU's key. The other bits of the key hold the CPU's clock, ps.
/// The CPU with the smallest key runs next.
pub(crate) const CPU_BITS: u32 = 8;
/// Largest number of CPUs of a simulated machine.
pub const CPUS_MAX: usize = 1 << CPU_BITS;
/// The end of virtual time, ps: 20 hours. No clock reaches it, and an event that is due later never comes.
pub(crate) const END_OF_TIME: u64 = (1 << (64 - CPU_BITS)) - 1;
/// The key of a CPU that does not compete to run next, because it is idle or spins. The key of every CPU that competes
/// is smaller.
pub(crate) const NOT_RUNNING: u64 = u64::MAX;

/// Converts a time of the crate `machine`, which is in nanoseconds, to picoseconds.
pub(crate) fn picos(time: Nanos) -> u64 {
    time.0.saturating_mul(PICOS)
}

/// Converts picoseconds to a time of the crate `machine`, which is in nanoseconds. Rounds down.
pub(crate) fn nanos(picos: u64) -> Nanos {
    Nanos(picos / PICOS)
}

/// Returns the latest time, ps, up to which CPU `cpu` may run before it is another CPU's turn. `other` is the key
/// (clock and number) of that other CPU.
pub(crate) fn horizon_below(other: u64, cpu: usize) -> u64 {
    other.saturating_sub(1 + cpu as u64) >> CPU_BITS
}

/// A tree of minima over the keys (clock and number) of all CPUs. It finds the CPU that runs next.
pub(crate) struct Clocks {
    /// The tree as an array: `nodes[1]` is the root, the children of `nodes[i]` are `nodes[2 * i]` and
    /// `nodes[2 * i + 1]`, and the second half holds the leaves.
    nodes: Box<[Cell<u64>]>,
}

impl Clocks {
    pub(crate) fn new(cpus: usize) -> Self {
        assert!((1..=CPUS_MAX).contains(&cpus), "a machine has 1 to {CPUS_MAX} CPUs, not {cpus}");
        Self { nodes: vec![Cell::new(NOT_RUNNING); 2 * cpus.next_power_of_two()].into() }
    }

    /// Notes that CPU `cpu` competes to run next. `clock` is the time of the CPU's clock, ps.
    #[inline]
    pub(crate) fn run(&self, cpu: usize, clock: u64) {
        assert!(clock < END_OF_TIME, "virtual time ran past its end, {} s", END_OF_TIME / PICOS / 1_000_000_000);
        self.set(cpu, clock << CPU_BITS | cpu as u64);
    }

    /// Notes that CPU `cpu` does not compete to run next, because it is idle or spins.
    pub(crate) fn stop(&self, cpu: usize) {
        self.set(cpu, NOT_RUNNING);
    }

    /// Returns whether the clock of CPU `cpu` is among those of which the earliest runs next. The clocks of idle and of
    /// spinning CPUs are not.
    pub(crate) fn is_running(&self, cpu: usize) -> bool {
        self.nodes[self.nodes.len() / 2 + cpu].get() != NOT_RUNNING
    }

    #[inline]
    fn set(&self, cpu: usize, key: u64) {
        let mut node = self.nodes.len() / 2 + cpu;
        let mut least = key;
        self.nodes[node].set(key);
        while node > 1 {
            least = least.min(self.nodes[node ^ 1].get());
            node >>= 1;
            self.nodes[node].set(least);
        }
    }

    /// Returns the smallest key: the clock and number of the CPU that runs next.
    #[inline]
    pub(crate) fn least(&self) -> u64 {
        self.nodes[1].get()
    }

    /// Returns the smallest key (clock and number of a CPU) among the CPUs other than `cpu`.
    #[inline]
    pub(crate) fn least_other(&self, cpu: usize) -> u64 {
        let mut node = self.nodes.len() / 2 + cpu;
        let mut least = NOT_RUNNING;
        while node > 1 {
            least = least.min(self.nodes[node ^ 1].get());
            node >>= 1;
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_matches_a_naive_scan() {
        for cpus in [1, 2, 3, 7, 64] {
            let clocks = Clocks::new(cpus);
            let mut naive = vec![NOT_RUNNING; cpus];
            let mut x = 1u64;
            for _ in 0..2000 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let cpu = (x >> 33) as usize % cpus;
                if x >> 60 == 0 {
                    clocks.stop(cpu);
                    naive[cpu] = NOT_RUNNING;
                } else {
                    clocks.run(cpu, x >> 50 & 63);
                    naive[cpu] = (x >> 50 & 63) << CPU_BITS | cpu as u64;
                }
                assert_eq!(clocks.least(), *naive.iter().min().unwrap());
                let others = naive.iter().enumerate().filter(|&(i, _)| i != cpu).map(|(_, &key)| key);
                assert_eq!(clocks.least_other(cpu), others.min().unwrap_or(NOT_RUNNING));
            }
        }
    }

    #[test]
    fn equal_clocks_order_by_cpu() {
        assert_eq!(horizon_below(5 << CPU_BITS | 3, 2), 5);
        assert_eq!(horizon_below(5 << CPU_BITS | 3, 4), 4);
    }
}
