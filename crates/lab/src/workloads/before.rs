//! What memory held before a run: the section `[before]` of a machine file.
//!
//! Nobody prints it and it decides much, so it is a stated assumption, the same for all kernels.

use crate::scale::Scale;
use crate::system::sim::{SimSystem, page_bytes};
use crate::system::{System, SystemError};
use machine::Nanos;
use serde::{Deserialize, Serialize};
use sim::disk::Sourced;

/// Pages of one MiB.
const MIB_PAGES: u64 = 256;

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

impl Before {
    /// Pages that all of it takes.
    #[must_use]
    pub fn pages(&self, scale: Scale) -> u64 {
        let mib = self.kernel_mib.value + self.idle_anon_mib.value + self.file_cache_mib.value;
        scale.of(mib * MIB_PAGES)
    }

    /// Brings memory into that state: takes kernel memory, touches idle memory once, reads the files.
    ///
    /// # Errors
    /// When memory or the device is too small for it.
    pub fn prepare(&self, system: &SimSystem, scale: Scale) -> Result<(), SystemError> {
        system.take_kernel_memory(scale.of(self.kernel_mib.value * MIB_PAGES))?;
        let idle_pages = scale.of(self.idle_anon_mib.value * MIB_PAGES) as u32;
        let idle = system.map(idle_pages);
        system.touch(&idle, 0..idle_pages, true)?;

        let cache_pages = scale.of(self.file_cache_mib.value * MIB_PAGES);
        let file_pages = (self.file_kib.value / 4).max(1);
        let files = cache_pages / file_pages;
        let active_files = files * self.file_cache_active_percent.value / 100;
        let mut buffer = vec![0; page_bytes(file_pages) as usize];
        let mut open = Vec::new();
        for n in 0..files {
            let mut file = system.import(&format!("old/{n}"), page_bytes(file_pages))?;
            system.read(&mut file, 0, &mut buffer)?;
            open.push(file);
        }
        // The active ones are spread among the others, as files in use are among old ones.
        for n in (0..files).filter(|n| (n + 1) * active_files / files > n * active_files / files) {
            system.read(&mut open[n as usize], 0, &mut buffer)?;
        }
        let tables_bytes = scale.of(self.inode_tables_mib.value << 20);
        if tables_bytes > 0 {
            system.import("inode tables", tables_bytes)?;
            let rest = self.inode_tables_rest.value;
            system.spawn("ext4lazyinit", move |system| write_inode_tables(system, rest));
        }
        Ok(())
    }
}

/// Inode table of one block group: 8192 inodes of 256 bytes.
const GROUP_TABLE_PAGES: u64 = 512;

/// Writes the inode tables of a fresh file system, group by group, past the page cache, resting in
/// between.
fn write_inode_tables(system: &SimSystem, rest: u64) {
    let pages = system.length_pages("inode tables");
    for start in (0..pages).step_by(GROUP_TABLE_PAGES as usize) {
        let started = system.now();
        if system.is_killed()
            || system.write_direct("inode tables", start, GROUP_TABLE_PAGES.min(pages - start)).is_err()
        {
            return;
        }
        system.sleep(Nanos(system.now().since(started).0 * rest));
    }
}
