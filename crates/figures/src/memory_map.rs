//! Records of the contents of physical memory over time, for the options `--memory-map` and `--buddyinfo`.

use std::{borrow::Cow, io};

use engine::memory::{MigrateType, Use, ZoneMap};
use machine::Nanos;
use serde::{Deserialize, Serialize};

use crate::csv_error::io_error;
use crate::moments::OfRun;

/// The contents of physical memory at one moment of a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Moment {
    /// Time since the system started, ns.
    pub now_ns: u64,
    /// The name that the workload gave to this moment; `None` for a moment that was recorded at the regular interval.
    pub mark: Option<Cow<'static, str>>,
    /// The zones, from the one with the lowest addresses to the one with the highest.
    pub zones: Vec<Zone>,
}

impl Moment {
    /// Returns the contents of `zones` at the time `now`. `mark` is the name that the workload gave to this moment, if
    /// it gave one.
    #[must_use]
    pub fn of(now: Nanos, mark: Option<&'static str>, zones: &[ZoneMap]) -> Self {
        Self { now_ns: now.0, mark: mark.map(Cow::from), zones: zones.iter().map(Zone::of).collect() }
    }
}

/// The contents of one zone at one moment of a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Zone {
    /// Node that contains the zone.
    pub node: u8,
    /// Name of the zone as the kernel prints it.
    pub name: Cow<'static, str>,
    /// The migrate types that the kernel has, with their free blocks and pageblocks.
    pub kinds: Vec<Kind>,
    /// For each pageblock, from low to high frame numbers, the kind of contents that fills most of it.
    pub most: Vec<Most>,
}

/// The free blocks and the pageblocks of one migrate type in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Kind {
    /// Name of the migrate type as `/proc/pagetypeinfo` prints it.
    pub name: Cow<'static, str>,
    /// Number of free blocks by order.
    pub free: Vec<u64>,
    /// Number of pageblocks of this type.
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

/// The kind of contents that fills more than half of a pageblock, for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Most {
    /// Free pages.
    Free,
    /// Pages of files on LRU lists.
    File,
    /// Anonymous pages on LRU lists.
    Anonymous,
    /// Kernel memory.
    Kernel,
    /// A block of pages that was allocated as a whole, or a huge page.
    Whole,
    /// None of the other kinds fills more than half of the pageblock. Pinned and offline pages belong to none of them.
    Mixed,
}

impl Most {
    /// All kinds of contents, in declaration order: `ALL[m as usize] == m`.
    pub const ALL: [Self; 6] = [Self::Free, Self::File, Self::Anonymous, Self::Kernel, Self::Whole, Self::Mixed];

    /// Returns the kind of contents that fills more than half of a pageblock. `pages` has the number of the pageblock's
    /// pages for each use.
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

    /// Returns the name of this kind of contents in the legend of a picture.
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

/// The contents of physical memory over one run.
pub type RunMemory = OfRun<Moment>;

/// Writes the memory of runs as CSV. For each moment, zone and migrate type there is a line for each order, with the
/// number of free blocks of this order. One more line, without an order, has the number of pageblocks of the migrate
/// type. The last field is the workload's name for the moment, if any.
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
