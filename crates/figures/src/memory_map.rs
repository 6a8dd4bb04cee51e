//! Physical memory over time, for `--memory-map` and `--buddyinfo`.

use std::io;

use engine::memory::{MAX_ORDERS, MigrateType, Use, ZoneMap};
use machine::Nanos;

use crate::csv_error::io_error;
use crate::moments::OfRun;

/// Memory at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time since the system started, ns.
    pub now_ns: u64,
    /// The workload's name for the moment, if any.
    pub mark: Option<&'static str>,
    /// The zones, lowest first.
    pub zones: Vec<Zone>,
}

impl Moment {
    /// Returns the contents of zones now.
    #[must_use]
    pub fn of(now: Nanos, mark: Option<&'static str>, zones: &[ZoneMap]) -> Self {
        Self { now_ns: now.0, mark, zones: zones.iter().map(Zone::of).collect() }
    }
}

/// A zone at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The zone's node.
    pub node: u8,
    /// The zone's name as the kernel prints it.
    pub name: &'static str,
    /// Free blocks by order and migrate type.
    pub free: [[u64; MigrateType::ALL.len()]; MAX_ORDERS],
    /// Pageblocks by type.
    pub pageblocks: [u64; MigrateType::ALL.len()],
    /// The main contents of each pageblock, from low to high frames.
    pub most: Vec<Most>,
}

impl Zone {
    fn of(map: &ZoneMap) -> Self {
        Self {
            node: map.node.0,
            name: map.name,
            free: map.free,
            pageblocks: MigrateType::ALL.map(|kind| map.pageblocks(kind)),
            most: map.blocks.iter().map(|block| Most::of(block.most())).collect(),
        }
    }
}

/// The kind of contents that more than half of a pageblock has, for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most {
    /// Free.
    Free,
    /// Pages of files on LRU lists.
    File,
    /// Anonymous pages on LRU lists.
    Anonymous,
    /// Kernel memory.
    Kernel,
    /// An allocated block, or a huge page.
    Whole,
    /// No kind has more than half.
    Mixed,
}

impl Most {
    /// All kinds; `ALL[m as usize] == m`.
    pub const ALL: [Self; 6] = [Self::Free, Self::File, Self::Anonymous, Self::Kernel, Self::Whole, Self::Mixed];

    const fn of(most: Option<Use>) -> Self {
        match most {
            Some(Use::Free) => Self::Free,
            Some(Use::File) => Self::File,
            Some(Use::Anonymous) => Self::Anonymous,
            Some(Use::Kernel) => Self::Kernel,
            Some(Use::Huge | Use::Lent) => Self::Whole,
            Some(Use::Pinned | Use::Offline | Use::Other) | None => Self::Mixed,
        }
    }

    /// Returns the name in a legend.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::File => "movable, file",
            Self::Anonymous => "movable, anonymous",
            Self::Kernel => "kernel",
            Self::Whole => "handed out, or huge",
            Self::Mixed => "mixed",
        }
    }
}

/// The memory of a run.
pub type RunMemory = OfRun<Moment>;

/// Writes runs as CSV. Each moment, zone and migrate type has a line for each order with its free blocks, and one
/// without an order with its pageblocks. The last field is the workload's name for the moment, if any.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(runs: &[RunMemory], out: &mut dyn io::Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().from_writer(out);
    let head =
        ["column", "seed", "seconds", "node", "zone", "migrate_type", "order", "free_blocks", "pageblocks", "mark"];
    csv.write_record(head).map_err(io_error)?;
    for RunMemory { column, seed, moments } in runs {
        let seed = seed.to_string();
        for Moment { now_ns, mark, zones } in moments {
            let mark = mark.unwrap_or_default();
            let seconds = format!("{:.3}", *now_ns as f64 / 1e9);
            for zone in zones {
                let node = zone.node.to_string();
                for kind in MigrateType::ALL {
                    let mut line = |order: &str, free: &str, pageblocks: &str| {
                        let fields =
                            [column, &*seed, &seconds, &node, zone.name, kind.name(), order, free, pageblocks, mark];
                        csv.write_record(fields).map_err(io_error)
                    };
                    for (order, kinds) in zone.free.iter().enumerate() {
                        line(&order.to_string(), &kinds[kind as usize].to_string(), "")?;
                    }
                    line("", "", &zone.pageblocks[kind as usize].to_string())?;
                }
            }
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::memory_run as run;

    #[test]
    fn each_order_and_type_has_its_line_and_so_have_pageblocks() {
        let mut out = Vec::new();
        write(&[run()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1 + 8 * 4 * 12);
        for line in ["a,7,2.000,0,Normal,Movable,9,5,,", "a,7,3.000,0,Normal,Unmovable,,,1,here"] {
            assert!(text.lines().any(|it| it == line), "{line}");
        }
    }
}
