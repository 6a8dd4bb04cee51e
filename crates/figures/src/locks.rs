//! The rows that the option `--locks` adds to a report: how often and how long locks were taken, waited for and held,
//! and how long interrupts were off.
//!
//! The rows cover all CPUs and the whole run, including the time before the workload. If the workload itself measures
//! times without interrupts, the rows about interrupts cover only the time of the workload.

use crate::figure::{self, Better, Format, Row, RowName};
use machine::Nanos;
use sim::{LockStatistics, MaskStatistics, Sim};

/// Names of the figures that each class of locks has, such as `wait max`, the longest wait.
const OF_LOCKS: [&str; 6] = ["taken", "contended", "wait total", "wait max", "hold total", "hold max"];

/// Names of the figures that each cause of disabled interrupts has: how often interrupts were disabled, how long in
/// total, and how long at most.
const OF_MASKS: [&str; 3] = ["times", "total", "max"];

/// Returns the rows of a simulated run about locks, and about the times during which interrupts were disabled. A class
/// of locks that was not taken has rows, too, so that all columns of a report have the same rows.
#[must_use]
pub fn rows(sim: &Sim) -> Vec<Row> {
    let locks = sim.lock_statistics();
    let masks = sim.mask_statistics();
    locks.iter().flat_map(lock_rows).chain(masks.iter().flat_map(mask_rows)).collect()
}

/// Returns the names of the rows that [`rows`] returns.
#[must_use]
pub fn names() -> Vec<RowName> {
    figure::names(rows(&Sim::new(sim::Config::uniform(1, 1))))
}

fn count(group: &str, name: String, value: u64) -> Row {
    Row::new(group, name, "times", Better::Lower, Format::Decimals(0), value as f64)
}

fn total(group: &str, name: String, value: Nanos) -> Row {
    Row::new(group, name, "ms", Better::Lower, Format::Decimals(3), value.0 as f64 / 1e6)
}

fn longest(group: &str, name: String, value: Nanos) -> Row {
    Row::new(group, name, "us", Better::Lower, Format::Decimals(3), value.0 as f64 / 1e3)
}

fn lock_rows(lock: &LockStatistics) -> [Row; OF_LOCKS.len()] {
    let name = |what: usize| format!("Lock {} {}", lock.class, OF_LOCKS[what]);
    [
        count("locks", name(0), lock.acquisitions),
        count("locks", name(1), lock.contended),
        total("locks", name(2), lock.wait_total),
        longest("locks", name(3), lock.wait_max),
        total("locks", name(4), lock.hold_total),
        longest("locks", name(5), lock.hold_max),
    ]
}

/// Returns the rows for one cause of disabled interrupts: how often interrupts were disabled, how long in total, and
/// how long at most.
#[must_use]
pub fn mask_rows(mask: &MaskStatistics) -> [Row; OF_MASKS.len()] {
    let name = |what: usize| format!("Interrupts off by {} {}", mask.cause, OF_MASKS[what]);
    [
        count("interrupts off", name(0), mask.count),
        total("interrupts off", name(1), mask.total),
        longest("interrupts off", name(2), mask.max),
    ]
}
