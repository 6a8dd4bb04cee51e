//! Programs that fill memory and end, one after another, beside one program that stays.
//!
//! The program that stays stores its memory once. Each other program then stores memory of its own, page by page, and
//! after every few pages the staying program touches a random page of its memory. When a program ends, its pages and
//! its swap slots are free at once. Then the staying program alone does some touches, which bring pages back from swap.
//! One task does all of this in a fixed order. A program's end is an unmapping of all its memory, as at a process exit.

use super::meter::{Course, LOOK_EVERY, Length, Measured, Tally, measure};
use super::random::{Size, check_sizes};
use crate::extent::Extent;
use crate::system::contents::Pattern;
use crate::system::{System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::figure::{Row, RowName, names};
use figures::scale::Scale;
use machine::PAGE_BYTES;
use serde::{Deserialize, Serialize};
use sim::Rng;

/// Number of the random stream ([`System::rng`]) from which the pages to touch are drawn.
const STREAM: u64 = 7500;

/// The name from which the test pattern of the staying program's memory is made.
const STAYS: &str = "stays";

/// Parameters of the workload `exits`, from `[params]` in an experiment's file.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Size of the staying program, which runs from the start to the end, percent of the machine's memory. Default 40.
    pub stays_percent: u64,
    /// Size of the staying program, which runs from the start to the end, MiB at full scale; given instead of
    /// `stays_percent`.
    pub stays_mib: Option<u64>,
    /// Size of each program that fills memory and then ends, percent of the machine's memory. Default 80.
    pub program_percent: u64,
    /// Size of each program that fills memory and then ends, MiB at full scale; given instead of `program_percent`.
    pub program_mib: Option<u64>,
    /// Number of programs that fill memory and then end, one after the other. Default 3.
    pub programs: u64,
    /// `true`: memory of the programs that end may have huge pages. Default: `false`.
    pub huge_pages: bool,
    /// Number of pages that a program stores between two touches of the staying program. Default 4.
    pub stores_per_touch: u64,
    /// Number of touches that the staying program does after the end of each other program. Default 10000.
    pub touches_after: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            stays_percent: 40,
            stays_mib: None,
            program_percent: 80,
            program_mib: None,
            programs: 3,
            huge_pages: false,
            stores_per_touch: 4,
            touches_after: 10_000,
        }
    }
}

impl Params {
    /// Returns the memory that each program uses, in pages: first that of the program that stays, then that of each
    /// program that ends.
    fn pages(&self, memory_pages: u64, scale: Scale) -> (u64, u64) {
        let stays = Size { percent: self.stays_percent, mib: self.stays_mib };
        let program = Size { percent: self.program_percent, mib: self.program_mib };
        (stays.pages(memory_pages, scale), program.pages(memory_pages, scale))
    }

    /// Returns the number of touches that the staying program makes in a run. `program` is the number of pages of each
    /// program that fills memory and then ends.
    fn touches(&self, program: u64) -> u64 {
        (program / self.stores_per_touch.max(1)).saturating_add(self.touches_after).saturating_mul(self.programs)
    }
}

/// The workload `exits`: programs that fill memory and end, beside one that stays.
#[derive(Debug)]
pub struct Exits;

impl Workload for Exits {
    type Params = Params;

    const NAME: &'static str = "exits";

    const ABOUT: &'static str = "programs that fill memory and end, beside one that stays";

    const VERIFIES: bool = true;

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let Resources { memory_pages, used_pages, swap_pages } = *resources;
        let (stays, program) = params.pages(memory_pages, Scale::FULL);
        check_sizes(1, stays, "a staying program")?;
        check_sizes(1, program, "a program")?;
        match params.stores_per_touch {
            0 => return Err("stores_per_touch is 0: at least a page must be stored before each touch".into()),
            stores if stores > program => {
                return Err(format!("stores_per_touch is {stores}, and a program has {program} pages"));
            }
            _ => {}
        }
        if params.programs == 0 {
            return Err("programs is 0: at least one must end".into());
        }
        let pages = stays.saturating_add(program);
        // A tenth of memory is left for pages outside the programs.
        if pages.saturating_add(used_pages) > memory_pages / 10 * 9 + swap_pages {
            return Err(format!(
                "{pages} pages of two programs do not fit {memory_pages} pages of memory and {swap_pages} of swap"
            ));
        }
        Ok(())
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let (stays, program) = params.pages(resources.memory_pages, scale);
        let stores = stays.saturating_add(program.saturating_mul(params.programs));
        Extent { operations: stores.saturating_add(params.touches(program)), ..Extent::default() }
    }

    fn row_names(params: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(rows(&Course::with_everything(), params.huge_pages)))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let (stays, program) = params.pages(system.memory_pages(), system.given().scale);
        let measured = Measured {
            name: "exits",
            tasks: 1,
            length: Length::Operations(params.touches(program)),
            fills_memory: false,
            keeps_step: false,
            look_every: LOOK_EVERY,
        };
        let (has_huge, params) = (params.huge_pages, params.clone());
        let course = measure(system, &measured, move |system, _, tally| {
            let mut staying = Staying::start(system, stays)?;
            tally.begin(system);
            for number in 0..params.programs {
                run_program(system, &mut staying, (number, program), &params, tally)?;
                for _ in 0..params.touches_after {
                    staying.touch(system, tally)?;
                }
            }
            staying.end(system);
            Ok(())
        })?;
        Ok(Measurements { rows: rows(&course, has_huge), times: course.times("Touch"), ..Measurements::default() })
    }
}

/// The program that does not exit: its memory, and the random generator that chooses the pages it touches.
struct Staying<S: System> {
    region: S::Region,
    pages: u64,
    rng: Rng,
    bytes: Vec<u8>,
}

impl<S: System> Staying<S> {
    fn start(system: &S, pages: u64) -> Result<Self, SystemError> {
        let region = system.map(pages as u32)?;
        let mut bytes = vec![0; PAGE_BYTES];
        for offset in (0..pages).map(page_bytes).take_while(|_| !system.is_killed()) {
            Pattern::new(STAYS, 1).fill(system.kept(), offset, &mut bytes);
            system.store(&region, offset, &bytes)?;
        }
        Ok(Self { region, pages, rng: system.rng(STREAM), bytes })
    }

    /// Loads a random page and verifies it.
    fn touch(&mut self, system: &S, tally: &mut Tally) -> Result<(), SystemError> {
        if system.is_killed() {
            return Ok(());
        }
        let offset = page_bytes(self.rng.below(self.pages));
        let started = system.now();
        system.load(&self.region, offset, &mut self.bytes)?;
        tally.count(system.now().since(started));
        Pattern::new(STAYS, 1).verify(system.kept(), offset, &self.bytes)?;
        Ok(())
    }

    fn end(self, system: &S) {
        system.unmap(self.region);
    }
}

/// Runs program number `number` from its start to its end: the program stores to each of its `pages` pages, and then
/// frees them. After every `stores_per_touch` stores, the staying program touches its memory.
fn run_program<S: System>(
    system: &S,
    staying: &mut Staying<S>,
    (number, pages): (u64, u64),
    params: &Params,
    tally: &mut Tally,
) -> Result<(), SystemError> {
    let pattern = Pattern::new("program", number);
    let region = if params.huge_pages { system.map_huge(pages as u32)? } else { system.map(pages as u32)? };
    let mut bytes = vec![0; PAGE_BYTES];
    for page in (0..pages).take_while(|_| !system.is_killed()) {
        pattern.fill(system.kept(), page_bytes(page), &mut bytes);
        system.store(&region, page_bytes(page), &bytes)?;
        if (page + 1).is_multiple_of(params.stores_per_touch) {
            staying.touch(system, tally)?;
        }
    }
    system.unmap(region);
    Ok(())
}

fn rows(course: &Course, has_huge: bool) -> Vec<Row> {
    let hits = course.fault_hit_row("Hit ratio").into_iter().collect();
    let huge = if has_huge { course.huge_page_rows() } else { Vec::new() };
    [course.rate_rows("exits"), hits, course.latency_rows("Touch"), course.cost_rows(), huge].concat()
}
