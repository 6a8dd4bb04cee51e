//! The sections of a machine file that the laboratory itself reads: CPUs, disks, and what memory held
//! before a run.

use crate::machine_file::MachineFile;
use engine::memory::Layout;
use serde::{Deserialize, Serialize};
use sim::CostModel;
use sim::Sourced;
use sim::disk::DiskConfig;

/// The machine files that jobs run on.
pub type Machine = MachineFile<Layout, Cpu, CostModel, Disk, Before>;

/// The section `[cpu]` of a machine file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Logical CPUs.
    pub count: Sourced<usize>,
    /// The CPU that takes the disks' interrupts.
    pub interrupt_cpu: Sourced<usize>,
}

/// One `[[disk]]` of a machine file; the first holds files and swap.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Disk {
    /// Blocks for files, first and one past the last, at full scale.
    pub file_blocks: Sourced<[u64; 2]>,
    /// Block of the first swap slot.
    pub swap_first_block: Sourced<u64>,
    /// Swap slots of 4 KiB, at full scale; 0 for no swap.
    pub swap_slots: Sourced<u64>,
    /// The device.
    pub device: DiskConfig,
}

/// What memory held before a run. Sizes are of the machine at full scale.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Memory of the kernel itself, which is never freed, MiB.
    pub kernel_mib: Sourced<u64>,
    /// Anonymous memory of idle processes, MiB.
    pub idle_anon_mib: Sourced<u64>,
    /// Clean page cache of files that nobody reads any more, MiB.
    pub file_cache_mib: Sourced<u64>,
    /// Part of that cache that was read twice, and so is active, percent.
    pub file_cache_active_percent: Sourced<u64>,
    /// Size of each of those files, KiB.
    pub file_kib: Sourced<u64>,
    /// Inode tables that a fresh file system still has to write in the background, MiB.
    pub inode_tables_mib: Sourced<u64>,
    /// The background task rests this many times as long as each piece took.
    pub inode_tables_rest: Sourced<u64>,
}
