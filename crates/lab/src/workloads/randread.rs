//! Reads of 4 KiB at random places of a file that is larger than memory, by several tasks.
//!
//! The file is written, synced, and dropped from memory; so the first reads miss, and memory fills with what is read
//! until it is full and every miss has to make room. Rates stand in the report for just before that and after.

use super::big_file;
use super::meter::{Course, Length, Measured, Tally, measure};
use crate::choose::{Chooser, Distribution};
use crate::extent::Extent;
use crate::figure::names;
use crate::scale::Scale;
use crate::system::contents::{Kept, Pattern};
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Found, Resources, Workload};
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// Name of the file.
const FILE: &str = "randread.dat";

/// Stream of the first task's chance.
const STREAM: u64 = 3000;

/// How a page is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Copied, as `pread` does.
    #[default]
    Copy,
    /// In place, where it lies in memory: pinned by the engine; on `linux`, in a shared mapping of the file.
    InPlace,
}

/// How much of a page that was read is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// All that the system keeps of it.
    #[default]
    All,
    /// Its first eight bytes: which page it is. For rates, to which verifying 4096 bytes adds as much as a hit.
    Stamps,
}

impl Verify {
    /// What is verified, of what is kept.
    fn of(self, kept: Kept) -> Kept {
        match (self, kept) {
            (Self::Stamps, Kept::Bytes) => Kept::Stamps,
            (Self::All | Self::Stamps, kept) => kept,
        }
    }
}

/// Sizes that many workloads share: a file, or memory, as a part of what the system manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Percent of memory.
    pub percent: u64,
    /// MiB at full scale, in place of that.
    pub mib: Option<u64>,
}

impl Size {
    /// In pages, on a system with so many, at a scale.
    #[must_use]
    pub fn pages(self, memory_pages: u64, scale: Scale) -> u64 {
        self.mib
            .map_or_else(|| memory_pages.saturating_mul(self.percent) / 100, |mib| scale.of(mib.saturating_mul(256)))
    }
}

/// Refuses an exponent of which no numbers can be drawn.
pub(super) fn check_theta(distribution: Distribution, theta: f64) -> Result<(), String> {
    const MOST: f64 = 10.0;
    if distribution == Distribution::Zipf && !(theta > 0.0 && theta <= MOST) {
        return Err(format!("`theta` is {theta}: must be above 0 and at most {MOST}"));
    }
    Ok(())
}

/// What a run takes that ends after so many operations of each task, or else after so many seconds.
pub(super) fn extent(operations: Option<u64>, tasks: u64, time_s: u64, file_pages: u64) -> Extent {
    let done = operations.map_or(0, |operations| operations.saturating_mul(tasks));
    let time_s = if operations.is_none() { Some(time_s) } else { None };
    // The file is written first.
    Extent { time_s, operations: done.saturating_add(file_pages), file_pages, wait_s: 0 }
}

/// Refuses what makes no tasks or no pages.
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

/// The `[params]` of an experiment.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of the file, percent of memory. Default 400.
    pub file_percent: u64,
    /// Size of the file in MiB at full scale, in place of that.
    pub file_mib: Option<u64>,
    /// How often each page is read. Default: each as often as any other.
    pub distribution: Distribution,
    /// For zipf, how uneven: above 0. Default 1.2.
    pub theta: f64,
    /// Tasks that read. Default 16.
    pub tasks: u64,
    /// How a page is read. Default: copied.
    pub access: Access,
    /// What is verified of it. Default: all.
    pub verify: Verify,
    /// Operations of each task, if they are what ends the run.
    pub operations: Option<u64>,
    /// Otherwise seconds after memory is full. Default 10.
    pub full_s: u64,
    /// Seconds that memory may take to fill. Default 60.
    pub filling_s: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            file_percent: 400,
            file_mib: None,
            distribution: Distribution::Uniform,
            theta: 1.2,
            tasks: 16,
            access: Access::Copy,
            verify: Verify::All,
            operations: None,
            full_s: 10,
            filling_s: 60,
        }
    }
}

impl Params {
    fn size(&self) -> Size {
        Size { percent: self.file_percent, mib: self.file_mib }
    }
}

/// How long a run is measured, by the keys that the workloads share.
pub(super) fn length(operations: Option<u64>, full_s: u64, filling_s: u64) -> Length {
    let time = Length::Time { full: Nanos::from_secs(full_s), filling: Nanos::from_secs(filling_s) };
    operations.map_or(time, Length::Operations)
}

/// The workload.
#[derive(Debug)]
pub struct Randread;

impl Workload for Randread {
    type Params = Params;

    const NAME: &'static str = "randread";

    const ABOUT: &'static str = "reads of 4 KiB at random places of a file that is larger than memory";

    const VERIFIES: bool = true;

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        check_theta(params.distribution, params.theta)?;
        check_sizes(params.tasks, params.size().pages(resources.memory_pages, Scale::FULL), "a file")
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let pages = params.size().pages(resources.memory_pages, scale);
        extent(params.operations, params.tasks, params.full_s.saturating_add(params.filling_s), pages)
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<String>> {
        Some(names(rows(&Course::with_everything())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Found, SystemError> {
        let pages = params.size().pages(system.memory_pages(), system.given().scale);
        big_file::make(system, FILE, pages)?;
        let chooser = Chooser::new(params.distribution, params.theta, pages);
        let (access, verify) = (params.access, params.verify);
        let length = length(params.operations, params.full_s, params.filling_s);
        let measured =
            Measured { name: "randread", tasks: params.tasks, length, fills_memory: true, keeps_step: false };
        let course = measure(system, &measured, move |system, n, tally| {
            read_at_random(system, FILE, &chooser, (access, verify), n, tally)
        })?;
        system.remove(FILE)?;
        Ok(Found { rows: rows(&course), ..Found::default() })
    }
}

fn rows(course: &Course) -> Vec<crate::figure::Row> {
    let hits = course.hit_row("Hit ratio", 0).into_iter().collect();
    [course.rate_rows("randread"), hits, course.latency_rows("Read"), course.cost_rows()].concat()
}

/// Reads pages of a file at random, verifies each, and counts how long reading took, until the tally is over.
pub(super) fn read_at_random<S: System>(
    system: &S,
    name: &str,
    chooser: &Chooser,
    (access, verify): (Access, Verify),
    task: u64,
    tally: &mut Tally,
) -> Result<(), SystemError> {
    let kept = verify.of(system.kept());
    let pattern = Pattern::new(name, 1);
    let mut rng = system.rng(STREAM + task);
    let mut file = system.open(name)?;
    // Then a page that is read in is a miss, on every ground: nothing is read ahead.
    system.expect_random_reads(&mut file);
    let mut bytes = vec![0; PAGE_BYTES];
    tally.begin(system);
    while !tally.is_over() && !system.is_killed() {
        let page = chooser.next(&mut rng);
        let offset = page_bytes(page);
        let started = system.now();
        let ended = match access {
            Access::Copy => {
                big_file::read_whole(system, &mut file, name, offset, &mut bytes)?;
                let ended = system.now();
                pattern.verify(kept, offset, &bytes)?;
                ended
            }
            // What is read is what is verified: its time is that of the access.
            Access::InPlace => {
                system.read_in_place(&mut file, page, |bytes| pattern.verify(kept, offset, bytes))??;
                system.now()
            }
        };
        tally.count(ended.since(started));
    }
    Ok(())
}
