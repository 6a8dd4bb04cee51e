//! Physical memory over time, for `--memory-map` and `--buddyinfo`.

use std::{borrow::Cow, io};

use engine::memory::{MigrateType, Use, ZoneMap};
use machine::Nanos;
use serde::{Deserialize, Serialize};

use crate::csv_error::io_error;
use crate::moments::OfRun;

/// Memory at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Moment {
    /// Time since the system started, ns.
    pub now_ns: u64,
    /// The workload's name for the moment, if any.
    pub mark: Option<Cow<'static, str>>,
    /// The zones, lowest first.
    pub zones: Vec<Zone>,
}

impl Moment {
    /// Returns the contents of zones now.
    #[must_use]
    pub fn of(now: Nanos, mark: Option<&'static str>, zones: &[ZoneMap]) -> Self {
        Self { now_ns: now.0, mark: mark.map(Cow::from), zones: zones.iter().map(Zone::of).collect() }
    }
}

/// A zone at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Zone {
    /// The zone's node.
    pub node: u8,
    /// The zone's name as the kernel prints it.
    pub name: Cow<'static, str>,
    /// Free blocks and pageblocks of each migrate type that the kernel has.
    pub kinds: Vec<Kind>,
    /// The main contents of each pageblock, from low to high frames.
    pub most: Vec<Most>,
}

/// A migrate type of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Kind {
    /// The type's name as `/proc/pagetypeinfo` prints it.
    pub name: Cow<'static, str>,
    /// Free blocks by order.
    pub free: Vec<u64>,
    /// Pageblocks of the type.
    pub pageblocks: u64,
}

impl Zone {
    fn of(map: &ZoneMap) -> Self {
        let kind = |kind: MigrateType| Kind {
            name: kind.name().into(),
            free: map.free.iter().map(|kinds| kinds[kind as usize]).collect(),
            pageblocks: map.pageblocks(kind),
        };
        Self {
            node: map.node.0,
            name: map.name.into(),
            kinds: MigrateType::ALL.map(kind).into(),
            most: map.blocks.iter().map(|block| Most::of_pages(&block.pages)).collect(),
        }
    }
}

/// The kind of contents that more than half of a pageblock has, for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
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

    /// Returns the kind of a pageblock whose pages were counted by use.
    #[must_use]
    pub fn of_pages(pages: &[u16; Use::ALL.len()]) -> Self {
        let all: u16 = pages.iter().sum();
        match Use::ALL.into_iter().find(|it| 2 * pages[*it as usize] > all) {
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
            let mark = mark.as_deref().unwrap_or_default();
            let seconds = format!("{:.3}", *now_ns as f64 / 1e9);
            for zone in zones {
                let node = zone.node.to_string();
                for kind in &zone.kinds {
                    let mut line = |order: &str, free: &str, pageblocks: &str| {
                        let fields =
                            [column, &*seed, &seconds, &node, &zone.name, &kind.name, order, free, pageblocks, mark];
                        csv.write_record(fields).map_err(io_error)
                    };
                    for (order, blocks) in kind.free.iter().enumerate() {
                        line(&order.to_string(), &blocks.to_string(), "")?;
                    }
                    line("", "", &kind.pageblocks.to_string())?;
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
