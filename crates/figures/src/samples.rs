//! Made-up results of runs, for the tests of this crate and of others.

use crate::{
    memory_map::{Kind, Moment, Most, RunMemory, Zone},
    profile::RunProfile,
};
use engine::memory::{MAX_ORDERS, MigrateType};

/// Returns a run's profile that has the given folded stacks. `column` is the id of the run's column, and `root` the
/// run's name.
#[must_use]
pub fn profile_run(column: &str, root: &str, stacks: &[&str]) -> RunProfile {
    let stacks = stacks.iter().map(|stack| (*stack).to_owned()).collect();
    RunProfile { column: column.to_owned(), root: root.to_owned(), stacks }
}

/// Returns the contents of memory over a run with one zone. The first of its eight pageblocks is always kernel memory.
/// The other seven are free at first, and one more of them is allocated at each later moment.
#[must_use]
pub fn memory_run() -> RunMemory {
    let moment = |n: u64| {
        let most = |block| match block {
            0 => Most::Kernel,
            block if block <= n => Most::Whole,
            _ => Most::Free,
        };
        let kind = |(kind, pageblocks): (MigrateType, u64)| {
            let mut free = vec![0; MAX_ORDERS];
            free[9] = if kind == MigrateType::Movable { 7 - n } else { 0 };
            Kind { name: kind.name().into(), free, pageblocks }
        };
        let kinds = MigrateType::ALL.into_iter().zip([1, 0, 7, 0]).map(kind).collect();
        let zone = Zone { node: 0, name: "Normal".into(), kinds, most: (0..8).map(most).collect() };
        let mark = (n == 3).then(|| "here".into());
        Moment { now_ns: n * 1_000_000_000, mark, zones: vec![zone] }
    };
    RunMemory { column: "a".into(), seed: 7, moments: (0..8).map(moment).collect() }
}
