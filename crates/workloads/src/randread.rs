//! Reads of 4 KiB at random offsets in a file that is larger than memory, by several tasks.
//!
//! The file is written, synced and dropped from memory, so the first reads miss. Memory fills with read pages until
//! every miss has to evict a page. The report lists the rates just before that moment and after it.

use super::big_file;
use super::meter::{Course, LOOK_EVERY, Measured, measure};
use super::random::{Access, Reads, Size, Verify, check_sizes, check_theta, extent, length, read_at_random};
use crate::choose::{Chooser, Distribution};
use crate::extent::Extent;
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{RowName, names};
use figures::scale::Scale;
use serde::{Deserialize, Serialize};

/// Name of the file that is read.
const FILE: &str = "randread.dat";

/// Parameters of the workload `randread`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of the file, percent of memory. Default 400.
    pub file_percent: u64,
    /// Size of the file in MiB at full scale, instead of `file_percent`.
    pub file_mib: Option<u64>,
    /// How often each page is read. Default: all pages equally often.
    pub distribution: Distribution,
    /// Exponent of the distribution `zipf`: above 0. Default 1.2.
    pub theta: f64,
    /// Number of tasks that read. Default 16.
    pub tasks: u64,
    /// How a page is read. Default: copied.
    pub access: Access,
    /// `true`: the kernel is told that the reads are random, so that it reads no pages ahead. Under multi-gen LRU,
    /// accesses through a mapping with this advice do not protect a page from reclaim. Default: `true`.
    pub random_advice: bool,
    /// Part of each page that is verified. Default: the whole page.
    pub verify: Verify,
    /// The run ends when each task has done this number of measured operations. Default: the run ends after the time
    /// `full_s`.
    pub operations: Option<u64>,
    /// Number of operations that each task does before the measurement begins. Default 0.
    pub warm_up_operations: u64,
    /// Each task drops all clean pages of files from memory (`drop_caches`) whenever it has done this number of
    /// measured operations. Default 0: no page is dropped.
    pub drop_caches_every: u64,
    /// Measured time after memory is full, seconds, if `operations` is not given. Default 10.
    pub full_s: u64,
    /// Time after which memory counts as full even if it is not, s. Default 60.
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
            random_advice: true,
            verify: Verify::All,
            operations: None,
            warm_up_operations: 0,
            drop_caches_every: 0,
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

/// The workload `randread`: random reads of 4 KiB from a file larger than memory.
#[derive(Debug)]
pub struct Randread;

impl Workload for Randread {
    type Params = Params;

    const NAME: &'static str = "randread";

    const ABOUT: &'static str = "random reads of 4 KiB of a file larger than memory";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        check_theta(params.distribution, params.theta)?;
        check_sizes(params.tasks, params.size().pages(resources.memory_pages, Scale::FULL), "a file")
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let pages = params.size().pages(resources.memory_pages, scale);
        extent(params.operations, params.tasks, params.full_s.saturating_add(params.filling_s), pages)
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&Course::with_everything())))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let pages = params.size().pages(system.memory_pages(), system.given().scale);
        big_file::make(system, FILE, pages)?;
        let chooser = Chooser::new(params.distribution, params.theta, pages);
        let reads = Reads {
            access: params.access,
            verify: params.verify,
            random_advice: params.random_advice,
            warm_up: params.warm_up_operations,
            drop_every: params.drop_caches_every,
        };
        let length = length(params.operations, params.full_s, params.filling_s);
        let measured = Measured {
            name: "randread",
            tasks: params.tasks,
            length,
            fills_memory: true,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        let course = measure(system, &measured, move |system, n, tally| {
            read_at_random(system, FILE, &chooser, reads, n, tally)
        })?;
        system.remove(FILE)?;
        Ok(Measurements { rows: rows(&course), times: course.times("Read"), ..Measurements::default() })
    }
}

fn rows(course: &Course) -> Vec<figures::figure::Row> {
    let hits = course.hit_row("Hit ratio", 0).into_iter().collect();
    [course.rate_rows("randread"), hits, course.latency_rows("Read"), course.cost_rows()].concat()
}
