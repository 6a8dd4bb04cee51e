//! A hot set beside one pass over a file that is larger than memory, in a fixed order of reads and touches.
//!
//! One task does both: it reads some pages of the large file, then touches a random page of the hot set, and repeats
//! this until it has read the large file once. So the number of hot touches for each page of the pass is equal on every
//! ground, however fast the ground is. The workload `scan` does the same with tasks that run side by side.

use super::big_file;
use super::meter::{Course, LOOK_EVERY, Length, Measured, Tally, measure};
use super::pass::{COLD, Files, HOT};
use super::random::{Access, Size};
use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{MapMode, System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use engine::ReadPattern;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use machine::PAGE_BYTES;
use serde::{Deserialize, Serialize};

/// Number of the random stream ([`System::rng`]) that decides which pages of the hot set are touched.
const STREAM: u64 = 7000;

/// Parameters of the workload `hotset`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of the hot set, percent of memory. Default 40.
    pub hot_percent: u64,
    /// Size of the hot set in MiB at full scale, instead of `hot_percent`.
    pub hot_mib: Option<u64>,
    /// Size of the large file that is read once, percent of memory. Default 400.
    pub cold_percent: u64,
    /// Size of the large file that is read once, in MiB at full scale, instead of `cold_percent`.
    pub cold_mib: Option<u64>,
    /// Number of pages of the large file that are read from one touch of the hot set to the next. Default 4.
    pub reads_per_touch: u64,
    /// The way in which a page of the hot set is read. Default: through a mapping.
    pub access: Access,
    /// The memory control group in which the hot set is used, a section `[[group]]` of the machine file. Default: the
    /// group in which the task starts.
    pub hot_group: Option<String>,
    /// The control group in which the hot set is read once before all else. The pages of the hot set are then charged
    /// to this group. Default: there is no such read, and the pages are charged to `hot_group`, in which they are first
    /// touched.
    pub first_group: Option<String>,
    /// The control group in which the large file is read. Default: the group in which the task starts.
    pub cold_group: Option<String>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            hot_percent: 40,
            hot_mib: None,
            cold_percent: 400,
            cold_mib: None,
            reads_per_touch: 4,
            access: Access::Mapped,
            hot_group: None,
            first_group: None,
            cold_group: None,
        }
    }
}

impl Params {
    /// Returns the sizes of the hot set's file and of the large file.
    fn files(&self, memory_pages: u64, scale: Scale) -> Files {
        let hot = Size { percent: self.hot_percent, mib: self.hot_mib };
        let cold = Size { percent: self.cold_percent, mib: self.cold_mib };
        Files::of(hot, cold, memory_pages, scale)
    }
}

/// The workload `hotset`: a hot set that is touched at a fixed rate while a file larger than memory is read once.
#[derive(Debug)]
pub struct Hotset;

impl Workload for Hotset {
    type Params = Params;

    const NAME: &'static str = "hotset";

    const ABOUT: &'static str = "a hot set, touched at a fixed rate beside one pass over a file larger than memory";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let files = params.files(resources.memory_pages, Scale::FULL);
        files.check(1)?;
        let cold = files.cold;
        match params.reads_per_touch {
            0 => Err("reads_per_touch is 0: at least a page must be read before each touch".into()),
            reads if reads > cold => Err(format!("reads_per_touch is {reads}, and the file has {cold} pages")),
            _ => Ok(()),
        }
    }

    fn groups(params: &Params) -> Vec<&str> {
        let named = [&params.hot_group, &params.first_group, &params.cold_group];
        named.into_iter().flatten().map(String::as_str).collect()
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let file_pages = params.files(resources.memory_pages, scale).pages();
        Extent { wait_s: 0, operations: file_pages, file_pages, time_s: None }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&Course::with_everything(), Some(0))))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let files = params.files(system.memory_pages(), system.given().scale);
        let Files { hot, cold } = files;
        files.make(system)?;
        if params.first_group.is_some() {
            enter(system, &params.first_group)?;
            big_file::read_through(system, HOT, hot, |_| Pattern::new(HOT, 1))?;
            system.enter_group(None)?;
        }
        let (access, reads) = (params.access, params.reads_per_touch);
        let groups = [params.hot_group.clone(), params.cold_group.clone()];
        let measured = Measured {
            name: "hotset",
            tasks: 1,
            length: Length::Operations((cold / reads).max(1)),
            fills_memory: false,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        let course = measure(system, &measured, move |system, _, tally| {
            let groups = &groups;
            enter(system, &groups[0])?;
            let mut set = HotSet::open(system, hot, access)?;
            let done = pass_beside(system, &mut set, reads, groups, tally);
            set.close(system);
            done
        })?;
        enter(system, &params.hot_group)?;
        let left = pages_left(system, hot, access)?;
        Files::remove(system)?;
        Ok(Measurements { rows: rows(&course, left), times: course.times("Touch"), ..Measurements::default() })
    }
}

/// The open file of the hot set, with its mapping if the touches go through a mapping.
struct HotSet<S: System> {
    file: S::File,
    region: Option<S::Region>,
    pages: u64,
    access: Access,
    bytes: Vec<u8>,
}

impl<S: System> HotSet<S> {
    fn open(system: &S, pages: u64, access: Access) -> Result<Self, SystemError> {
        let file = system.open(HOT)?;
        let is_mapped = matches!(access, Access::Mapped) && system.maps_files();
        let mode = MapMode { pattern: ReadPattern::Normal, ..MapMode::default() };
        let region = is_mapped.then(|| system.map_file(&file, 0..pages as u32, mode)).transpose()?;
        Ok(Self { file, region, pages, access, bytes: vec![0; PAGE_BYTES] })
    }

    /// Reads a page of the hot set, and verifies it.
    fn touch(&mut self, system: &S, page: u64) -> Result<(), SystemError> {
        let (kept, pattern, offset) = (system.kept(), Pattern::new(HOT, 1), page_bytes(page));
        match (&self.region, self.access) {
            (Some(region), _) => system.load(region, offset, &mut self.bytes)?,
            (None, Access::Copy) => big_file::read_whole(system, &mut self.file, HOT, offset, &mut self.bytes)?,
            (None, Access::InPlace | Access::Mapped) => {
                system.read_in_place(&mut self.file, page, |bytes| pattern.verify(kept, offset, bytes))??;
                return Ok(());
            }
        }
        pattern.verify(kept, offset, &self.bytes)?;
        Ok(())
    }

    fn close(self, system: &S) {
        self.region.into_iter().for_each(|region| system.unmap(region));
    }
}

/// Moves the task to the control group `group`. Does nothing if `group` is none.
fn enter<S: System>(system: &S, group: &Option<String>) -> Result<(), SystemError> {
    group.as_deref().map_or(Ok(()), |group| system.enter_group(Some(group)))
}

/// Touches the hot set twice from its beginning to its end. Then reads the large file once, and touches a random page
/// of the hot set after every `reads` pages. Stops early if the measurement is over.
fn pass_beside<S: System>(
    system: &S,
    set: &mut HotSet<S>,
    reads: u64,
    [hot_group, cold_group]: &[Option<String>; 2],
    tally: &mut Tally,
) -> Result<(), SystemError> {
    let kept = system.kept();
    let mut rng = system.rng(STREAM);
    let mut cold = system.open(COLD)?;
    let pages = set.pages;
    for page in (0..2).flat_map(|_| 0..pages) {
        if system.is_killed() {
            break;
        }
        set.touch(system, page)?;
    }
    tally.begin(system);
    let (mut next, mut bytes) = (0, vec![0; PAGE_BYTES]);
    while !tally.is_over() && !system.is_killed() {
        enter(system, cold_group)?;
        for page in next..next + reads {
            big_file::read_whole(system, &mut cold, COLD, page_bytes(page), &mut bytes)?;
            Pattern::new(COLD, 1).verify(kept, page_bytes(page), &bytes)?;
        }
        next += reads;
        enter(system, hot_group)?;
        let started = system.now();
        set.touch(system, rng.below(set.pages))?;
        tally.count(system.now().since(started));
    }
    Ok(())
}

/// Returns how many pages of the hot set are still in memory. Touches each page of the hot set, and counts those for
/// which the task does not wait for the disk. Returns none if the hot set is not mapped, or if the system does not
/// count faults.
fn pages_left<S: System>(system: &S, pages: u64, access: Access) -> Result<Option<u64>, SystemError> {
    let mut set = HotSet::open(system, pages, access)?;
    if set.region.is_none() {
        return Ok(None);
    }
    let faults = |system: &S| system.vmstat().get("pgmajfault").copied();
    let before = faults(system);
    let touched = (0..pages).take_while(|_| !system.is_killed()).try_for_each(|page| set.touch(system, page));
    set.close(system);
    touched?;
    let missing = before.zip(faults(system)).map(|(before, after)| after.saturating_sub(before));
    Ok(missing.map(|missing| pages.saturating_sub(missing)))
}

fn rows(course: &Course, left: Option<u64>) -> Vec<Row> {
    let left = left
        .map(|pages| Row::new("pages", "Hot pages left", "pages", Better::Higher, Format::Decimals(0), pages as f64));
    let hits = course.fault_hit_row("Hit ratio").into_iter().collect();
    let left = left.into_iter().collect();
    [course.rate_rows("hotset"), hits, left, course.latency_rows("Touch"), course.cost_rows()].concat()
}
