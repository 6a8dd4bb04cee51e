//! Fills memory before a workload starts, as the section `[before]` of a machine file describes it.
//!
//! Published measurements never state the contents of memory before a run, although much depends on them. So machine
//! files state an assumption, which is the same for all kernels.

use crate::system::sim::SimSystem;
use catalogue::hardware::{Before, MIB_PAGES, Programs};
use figures::scale::Scale;
use machine::Nanos;
use workloads::choose::Chooser;
use workloads::system::{MapMode, Sharing, System, SystemError, page_bytes};

/// Fills memory as `before` says: takes kernel memory, touches the memory of idle processes once, starts programs,
/// reads files into the page cache, and starts the writer of inode tables.
///
/// # Errors
/// When memory or the device is too small for these contents.
pub fn prepare(before: &Before, system: &SimSystem, scale: Scale) -> Result<(), SystemError> {
    if let Some(order) = before.dma_pool(scale) {
        system.take_dma_pool(order)?;
    }
    let kernel_mib = before.kernel_mib.value;
    let peak_mib = before.kernel_peak_mib.as_ref().map_or(kernel_mib, |peak| peak.value);
    system.take_kernel_memory(scale.of(peak_mib * MIB_PAGES), scale.of(kernel_mib * MIB_PAGES))?;
    let idle_pages = scale.of(before.idle_anon_mib.value * MIB_PAGES) as u32;
    let idle = system.map(idle_pages)?;
    system.touch(&idle, 0..idle_pages, true)?;

    if let Some(programs) = &before.programs {
        start_programs(programs, system, scale)?;
    }

    let cache_pages = scale.of(before.file_cache_mib.value * MIB_PAGES);
    let file_pages = (before.file_kib.value / 4).max(1);
    let files = cache_pages / file_pages;
    let active_files = files * before.file_cache_active_percent.value / 100;
    let mut buffer = vec![0; page_bytes(file_pages) as usize];
    let mut open = Vec::new();
    for n in 0..files {
        let mut file = system.import_file(&format!("old/{n}"), page_bytes(file_pages))?;
        system.read(&mut file, 0, &mut buffer)?;
        open.push(file);
    }
    // The active files are spread evenly among the others, as files in use lie among old files.
    for n in (0..files).filter(|n| (n + 1) * active_files / files > n * active_files / files) {
        system.read(&mut open[n as usize], 0, &mut buffer)?;
    }
    let tables_bytes = scale.of(before.inode_tables_mib.value << 20);
    if tables_bytes > 0 {
        system.import_file("inode tables", tables_bytes)?;
        let rest = before.inode_tables_rest.value;
        system.spawn("ext4lazyinit", move |system| write_inode_tables(system, rest));
    }
    Ok(())
}

/// Number of the random stream that decides which pages the programs use. The streams of workloads are numbered from 0,
/// so their numbers are far below this one.
const PROGRAMS_STREAM: u64 = 1 << 32;

/// Maps the files of programs, uses every page once, and starts the task that uses some of the pages again from time to
/// time.
fn start_programs(programs: &Programs, system: &SimSystem, scale: Scale) -> Result<(), SystemError> {
    let Programs { mapped_mib, file_kib, wake_s, touched_pages } = programs;
    let file_pages = (file_kib.value / 4).max(1) as u32;
    let files = (scale.of(mapped_mib.value * MIB_PAGES) / u64::from(file_pages)).max(1);
    let (touches, sleep) = (scale.of(touched_pages.value), Nanos::from_secs(wake_s.value));
    let text = MapMode { sharing: Sharing::Private, is_executable: true, ..MapMode::default() };
    let map = move |system: &SimSystem, n: u64| -> Result<_, SystemError> {
        let file = system.open(&format!("lib/{n}"))?;
        system.map_file(&file, 0..file_pages, text)
    };
    for n in 0..files {
        system.import_file(&format!("lib/{n}"), page_bytes(file_pages.into()))?;
        let region = map(system, n)?;
        system.touch(&region, 0..file_pages, false)?;
        system.unmap(region);
    }
    system.spawn("programs", move |system| {
        let mut random = system.rng(PROGRAMS_STREAM);
        let regions: Result<Vec<_>, SystemError> = (0..files).map(|n| map(system, n)).collect();
        let Ok(regions) = regions else { return };
        let chooser = Chooser::zipf_by_rejection(1.0, files * u64::from(file_pages));
        while !system.is_killed() {
            system.sleep(sleep);
            for _ in 0..touches {
                let page = chooser.next(&mut random);
                let region = &regions[(page / u64::from(file_pages)) as usize];
                let page = (page % u64::from(file_pages)) as u32;
                // If memory is exhausted, the programs end, as any program would.
                if system.is_killed() || system.touch(region, page..page + 1, false).is_err() {
                    return;
                }
            }
        }
    });
    Ok(())
}

/// Number of pages of the inode table of one block group, which has 8192 inodes of 256 bytes.
const GROUP_TABLE_PAGES: u64 = 512;

/// Writes the inode tables of a fresh file system, one block group after the other. The writes bypass the page cache.
/// After each write, the task sleeps for `rest` times as long as the write took.
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
