//! Kernel builds, two at a time, in little memory (MMTests `multibuild`; mechanisms/benchmarks, 1.2).
//!
//! A build unpacks a source tree, runs many compilers, of which eight run at the same time, and links
//! ([`super::build`]). The driver waits for all builds, whereas the driver of MMTests did not wait for the last builds.

use super::build::{self, Build};
use crate::extent::Extent;
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::counters::difference;
use figures::cputime::{Built, cputime_rows};
use figures::figure::{RowName, duration_rows, names};
use figures::mmtests;
use figures::scale::Scale;
use figures::usage::CpuTimes;
use machine::{Func, Nanos};
use serde::{Deserialize, Serialize};
use sim::Sourced;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Interval at which the main task looks for finished builds.
const REAP_EVERY: Nanos = Nanos::from_secs(5);

/// Parameters of the workload `multibuild` at full scale, from `[params]` in an experiment's file. Sizes of memory and
/// of the tree follow the scale. A parameter that the MMTests script sets has the script's value as its default; a
/// parameter with an assumed value has no default.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of builds. Default 12.
    #[serde(default = "builds")]
    pub builds: u64,
    /// Number of builds that run at a time. Default 2.
    #[serde(default = "at_once")]
    pub at_once: u64,
    /// Number of compilers that run at a time in each build. Default 8.
    #[serde(default = "jobs")]
    pub jobs: u64,
    /// Number of files in an unpacked source tree.
    pub tree_files: Sourced<u64>,
    /// Size of each file of the tree, KiB.
    pub tree_file_kib: Sourced<u64>,
    /// Number of source files that are compiled.
    pub units: Sourced<u64>,
    /// Total size of the headers that each compiler reads, KiB.
    pub headers_kib: Sourced<u64>,
    /// Number of header files.
    pub headers: Sourced<u64>,
    /// Size of the compiler's text, MiB.
    pub text_mib: Sourced<u64>,
    /// Two numbers: the least and the most memory that a compiler uses, MiB. Each compiler uses a random amount between
    /// them.
    pub memory_mib: Sourced<[u64; 2]>,
    /// A compiler does its work in 32 parts. In each part it touches again this share of the memory that it has already
    /// touched, percent. The pages touched again are contiguous and lie at a random place. Default 0: each page is
    /// touched only once.
    #[serde(default)]
    pub touched_again_percent: Option<Sourced<u64>>,
    /// Mean CPU time for compiling one source file, ms.
    pub unit_ms: Sourced<u64>,
    /// Size of an object file, KiB.
    pub object_kib: Sourced<u64>,
    /// Two numbers: the memory that the linker uses, and the size of the image that the linker makes, MiB.
    pub link_mib: Sourced<[u64; 2]>,
    /// CPU time of the linker, ms.
    pub link_ms: Sourced<u64>,
}

fn builds() -> u64 {
    12
}

fn at_once() -> u64 {
    2
}

fn jobs() -> u64 {
    8
}

impl Params {
    /// Returns the parameters of one build.
    fn build(&self) -> build::Params {
        build::Params {
            tree_files: self.tree_files.clone(),
            tree_file_kib: self.tree_file_kib.clone(),
            units: self.units.clone(),
            headers_kib: self.headers_kib.clone(),
            headers: self.headers.clone(),
            text_mib: self.text_mib.clone(),
            memory_mib: self.memory_mib.clone(),
            unit_ms: self.unit_ms.clone(),
            object_kib: self.object_kib.clone(),
            link_mib: self.link_mib.clone(),
            link_ms: self.link_ms.clone(),
            touched_again_percent: self.touched_again_percent.clone(),
            huge_pages: false,
        }
    }
}

/// The workload `multibuild`: a number of kernel builds, of which a few run at a time.
#[derive(Debug)]
pub struct Multibuild;

impl Workload for Multibuild {
    type Params = Params;

    const NAME: &'static str = "multibuild";

    const ABOUT: &'static str = "kernel builds, two at a time";

    const SIM_ONLY: Option<&'static str> =
        Some("its compilers map their text, and their times are told apart by task, which the other grounds cannot");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        if [params.builds, params.at_once, params.jobs, params.units.value].contains(&0) {
            return Err("`builds`, `at_once`, `jobs` and `units` must be above 0".to_owned());
        }
        params.build().check()?;
        if resources.memory_pages < 4096 {
            return Err(format!("too small for multibuild: {} pages, and 4096 are needed", resources.memory_pages));
        }
        Ok(())
    }

    fn extent(params: &Params, _: &Resources, _: Scale) -> Extent {
        let build = params.build();
        let tree = build.tree_pages();
        let operations = tree.saturating_add(params.units.value.saturating_mul(build.unit_operations()));
        Extent {
            operations: operations.saturating_mul(params.builds),
            file_pages: tree.saturating_mul(params.at_once),
            wait_s: build.wait_s(),
            time_s: None,
        }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let rows = [cputime_rows(&[Built::default()]), duration_rows(1.0, 1.0, 1.0)];
        Some([names(rows.concat()), mmtests::vmstat_row_names()].concat())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let model = Build::of(&params.build(), system.given().scale);
        model.install(system)?;
        system.begin_measured();
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let at_once = params.at_once.min(params.builds);
        for build in 0..at_once {
            model.unpack(system, build)?;
        }
        let (mut next, mut active, mut built) = (0, Vec::new(), Vec::new());
        while built.len() < params.builds as usize && !system.is_killed() {
            while active.len() < at_once as usize && next < params.builds {
                if next >= at_once {
                    model.unpack(system, next)?;
                }
                let (build, jobs, is_done) = (next, params.jobs, Arc::new(AtomicU64::new(0)));
                let done = is_done.clone();
                let task = system.start(&build::task_name(build), move |system| {
                    let result = model.make(system, build, jobs);
                    done.store(1, Relaxed);
                    result
                });
                active.push((build, is_done, task));
                next += 1;
            }
            system.sleep(REAP_EVERY);
            let (ended, going): (Vec<_>, Vec<_>) =
                active.into_iter().partition(|(_, is_done, _)| is_done.load(Relaxed) > 0);
            active = going;
            for (build, _, task) in ended {
                let elapsed = task.join(system)?;
                built.push(Built { elapsed, cpu: cpu_of(system, build) });
                model.remove(system, build)?;
            }
        }
        active.iter().for_each(|(_, _, task)| task.kill(system));
        active.into_iter().try_for_each(|(_, _, task)| task.join(system).map(drop))?;
        let elapsed_s = system.now().since(started).as_secs_f64();
        system.end_measured();
        let counters = difference(&counters, &system.vmstat());
        let cpu = system.cpu_times().since(cpu);
        system.remove(build::COMPILER)?;
        let mut rows = cputime_rows(&built);
        rows.extend(duration_rows(cpu.user.as_secs_f64(), cpu.system.as_secs_f64(), elapsed_s));
        rows.extend(mmtests::vmstat_rows(&counters, elapsed_s));
        let profile = system.profile().into_iter().map(|(path, time)| format!("run;{path} {}", time.0)).collect();
        Ok(Measurements { rows, profile, ..Measurements::default() })
    }
}

/// Returns the CPU time of the tasks of build number `build`.
fn cpu_of<S: System>(system: &S, build: u64) -> CpuTimes {
    let name = build::task_name(build);
    let mut times = CpuTimes::default();
    for (path, time) in system.profile() {
        if path.split(';').next() == Some(name.as_str()) {
            if path.ends_with(Func::User.name()) { times.user += time } else { times.system += time }
        }
    }
    times
}
