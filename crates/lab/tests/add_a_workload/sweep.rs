//! A program that sweeps over more memory than there is.

use lab::system::contents::Pattern;
use lab::system::{System, SystemError, page_bytes};
use lab::workload::{Measurements, Resources, Workload};

use figures::figure::{Better, Format, Row};
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// The `[params]` of an experiment.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Pages that it sweeps over, percent of memory.
    pub percent: u64,
    /// How often it does.
    pub sweeps: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self { percent: 110, sweeps: 3 }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Sweep;

impl Workload for Sweep {
    type Params = Params;

    const NAME: &'static str = "sweep";

    const ABOUT: &'static str = "a program that sweeps over more memory than there is";

    const VERIFIES: bool = true;

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let Resources { memory_pages, used_pages, swap_pages } = *resources;
        if memory_pages * params.percent / 100 + used_pages > memory_pages / 10 * 9 + swap_pages {
            return Err(format!("{} % of memory do not fit memory and swap", params.percent));
        }
        Ok(())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let pages = system.memory_pages() * params.percent / 100;
        let region = system.map(pages as u32)?;
        let kept = system.kept();
        let mut bytes = vec![0; PAGE_BYTES];
        let mut found = Measurements::default();
        for sweep in 1..=params.sweeps {
            let started = system.now();
            for offset in (0..pages).map(page_bytes) {
                system.compute(Nanos(2_000));
                if sweep > 1 {
                    system.load(&region, offset, &mut bytes)?;
                    Pattern::new("memory", sweep - 1).verify(kept, offset, &bytes)?;
                }
                Pattern::new("memory", sweep).fill(kept, offset, &mut bytes);
                system.store(&region, offset, &bytes)?;
            }
            let time_s = system.now().since(started).as_secs_f64();
            let name = format!("Ops sweep-{sweep}");
            found.rows.push(Row::new("Ops", name, "s", Better::Lower, Format::Decimals(2), time_s));
        }
        system.unmap(region);
        Ok(found)
    }
}
