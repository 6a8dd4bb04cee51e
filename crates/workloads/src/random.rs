//! Parts shared by workloads of random accesses: sizes and lengths from parameters, checks of parameters, and a task
//! that reads random pages of a file.

use super::big_file;
use super::meter::{Length, Tally};
use crate::choose::{Chooser, Distribution};
use crate::extent::Extent;
use crate::system::contents::{Kept, Pattern};
use crate::system::{MapMode, System, SystemError, page_bytes};
use engine::ReadPattern;
use figures::scale::Scale;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// Number of the first random stream ([`System::rng`]): task number `n` uses the stream `STREAM + n`.
const STREAM: u64 = 3000;

/// The way in which a page is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// The page is copied, as by `pread`.
    #[default]
    Copy,
    /// The page is read where it is in memory, without a copy. The engine pins the page while it is read. On the
    /// grounds `linux` and `guest`, the page is read in a shared mapping of the file.
    InPlace,
    /// The page is read through a mapping of the file, which causes faults and sets accessed bits of page tables. A
    /// system that cannot map files reads the page in place instead.
    Mapped,
}

/// The part of a page that is verified after a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// All contents of the page, as far as the system keeps them.
    #[default]
    All,
    /// The page's first eight bytes, which identify it. This choice is for measuring rates, because verifying 4096
    /// bytes takes about the time of a hit.
    Stamps,
}

impl Verify {
    /// Returns the part of each page that is verified with this choice, on a system that keeps the part `kept` of a
    /// page's contents.
    fn of(self, kept: Kept) -> Kept {
        match (self, kept) {
            (Self::Stamps, Kept::Bytes | Kept::First(_)) => Kept::Stamps,
            (Self::All | Self::Stamps, kept) => kept,
        }
    }
}

/// Options of a task's random reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    pub access: Access,
    pub verify: Verify,
    /// `true` if the kernel is told that the reads are random.
    pub random_advice: bool,
    /// Number of reads before the measurement begins.
    pub warm_up: u64,
    /// Number of measured reads between two drops of clean pages; 0: no page is dropped.
    pub drop_every: u64,
}

/// A size: a share of the memory that the system manages, or an absolute size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Size in percent of memory.
    pub percent: u64,
    /// Size in MiB at full scale; if given, `percent` does not matter.
    pub mib: Option<u64>,
}

impl Size {
    /// Returns this size in pages, on a system that has `memory_pages` pages of memory, at the scale `scale`.
    #[must_use]
    pub fn pages(self, memory_pages: u64, scale: Scale) -> u64 {
        self.mib
            .map_or_else(|| memory_pages.saturating_mul(self.percent) / 100, |mib| scale.of(mib.saturating_mul(256)))
    }
}

/// Refuses a `theta` for which the distribution `zipf` cannot be drawn. Other distributions do not use `theta`.
pub(super) fn check_theta(distribution: Distribution, theta: f64) -> Result<(), String> {
    const MOST: f64 = 10.0;
    if distribution == Distribution::Zipf && !(theta > 0.0 && theta <= MOST) {
        return Err(format!("`theta` is {theta}: must be above 0 and at most {MOST}"));
    }
    Ok(())
}

/// Returns the extent of a run that ends after `operations` operations of each task, or after `time_s` seconds if
/// `operations` is none.
pub(super) fn extent(operations: Option<u64>, tasks: u64, time_s: u64, file_pages: u64) -> Extent {
    let done = operations.map_or(0, |operations| operations.saturating_mul(tasks));
    let time_s = if operations.is_none() { Some(time_s) } else { None };
    // The operations include the file's pages, which are written first.
    Extent { time_s, operations: done.saturating_add(file_pages), file_pages, wait_s: 0 }
}

/// Refuses a number of tasks that is not from 1 to 1024. Also refuses fewer pages than tasks, and pages that take 16
/// TiB or more.
pub(super) fn check_sizes(tasks: u64, pages: u64, what: &str) -> Result<(), String> {
    if !(1..=1024).contains(&tasks) {
        return Err(format!("{tasks} tasks: from 1 to 1024 can be started"));
    }
    if !(tasks..u64::from(u32::MAX)).contains(&pages) {
        return Err(format!(
            "{what} of {pages} pages for {tasks} tasks: at least a page for each, and less than 16 TiB"
        ));
    }
    Ok(())
}

/// Returns the end of a measurement: after `operations` operations by each task. If `operations` is none, the
/// measurement ends `full_s` seconds after memory became full; memory counts as full at the latest `filling_s` seconds
/// after the start.
pub(super) fn length(operations: Option<u64>, full_s: u64, filling_s: u64) -> Length {
    let time = Length::Time { full: Nanos::from_secs(full_s), filling: Nanos::from_secs(filling_s) };
    operations.map_or(time, Length::Operations)
}

/// Reads random pages of a file and verifies each page. The first `warm_up` reads are not measured. The reads after
/// them go on until the measurement is over, and `tally` records their times.
pub(super) fn read_at_random<S: System>(
    system: &S,
    name: &str,
    chooser: &Chooser,
    Reads { access, verify, random_advice, warm_up, drop_every }: Reads,
    task: u64,
    tally: &mut Tally,
) -> Result<(), SystemError> {
    let kept = verify.of(system.kept());
    let pattern = Pattern::new(name, 1);
    let mut rng = system.rng(STREAM + task);
    let mut file = system.open(name)?;
    if random_advice {
        // Without readahead, each page that is read in is a miss.
        system.expect_random_reads(&mut file);
    }
    let mut bytes = vec![0; PAGE_BYTES];
    let region = match access {
        Access::Mapped if system.maps_files() => {
            let pages = system.length(&file).div_ceil(page_bytes(1)) as u32;
            let pattern = if random_advice { ReadPattern::Random } else { ReadPattern::Normal };
            let mode = MapMode { pattern, ..MapMode::default() };
            Some(system.map_file(&file, 0..pages, mode)?)
        }
        Access::Copy | Access::InPlace | Access::Mapped => None,
    };
    let mut read = |tally: Option<&mut Tally>| {
        let page = chooser.next(&mut rng);
        let offset = page_bytes(page);
        let started = system.now();
        let ended = match (access, &region) {
            (Access::Copy, _) => {
                big_file::read_whole(system, &mut file, name, offset, &mut bytes)?;
                let ended = system.now();
                pattern.verify(kept, offset, &bytes)?;
                ended
            }
            (Access::Mapped, Some(region)) => {
                system.load(region, offset, &mut bytes)?;
                let ended = system.now();
                pattern.verify(kept, offset, &bytes)?;
                ended
            }
            // The page is verified where it is read: the time of the access includes the verification.
            (Access::InPlace | Access::Mapped, _) => {
                system.read_in_place(&mut file, page, |bytes| pattern.verify(kept, offset, bytes))??;
                system.now()
            }
        };
        tally.into_iter().for_each(|tally| tally.count(ended.since(started)));
        Ok::<_, SystemError>(())
    };
    for _ in 0..warm_up {
        if system.is_killed() {
            break;
        }
        read(None)?;
    }
    tally.begin(system);
    let mut until_drop = drop_every;
    while !tally.is_over() && !system.is_killed() {
        read(Some(tally))?;
        if drop_every > 0 {
            until_drop -= 1;
            if until_drop == 0 {
                system.drop_caches()?;
                until_drop = drop_every;
            }
        }
    }
    region.into_iter().for_each(|region| system.unmap(region));
    Ok(())
}
