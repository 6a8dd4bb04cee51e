//! Kernel builds, two at a time, in little memory (MMTests `multibuild`; mechanisms/benchmarks, 1.2).
//!
//! A build is a tree of sources that is unpacked, many compilers, eight at once, and a link. A compiler is a program
//! whose text is mapped; it reads a source and the headers that all share, touches memory while it computes, and
//! writes an object. The driver waits for all builds; that of MMTests did not wait for the last ones.

use crate::extent::{Extent, kib_pages, mib_pages};
use crate::figure::{Better, Format, Row, names};
use crate::report::{duration_rows, mmtests};
use crate::scale::Scale;
use crate::system::{CpuTimes, MapMode, Sharing, System, SystemError, difference, page_bytes};
use crate::workload::{Found, Resources, Workload};
use machine::{Func, Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use sim::Sourced;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often the driver looks for builds that have ended.
const REAP_EVERY: Nanos = Nanos::from_secs(5);

/// Parts in which a compiler touches its memory and computes.
const PARTS: u64 = 32;

/// The `[params]` of an experiment, at full scale: what follows it are sizes of memory and of the tree. What the script
/// of MMTests says has a default; what is assumed of a build has none.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Builds. Default 12.
    #[serde(default = "builds")]
    pub builds: u64,
    /// Builds at a time. Default 2.
    #[serde(default = "at_once")]
    pub at_once: u64,
    /// Compilers of one build at a time. Default 8.
    #[serde(default = "jobs")]
    pub jobs: u64,
    /// Files of an unpacked tree.
    pub tree_files: Sourced<u64>,
    /// Size of each of them, KiB.
    pub tree_file_kib: Sourced<u64>,
    /// Sources that are compiled.
    pub units: Sourced<u64>,
    /// Headers that each compiler reads, KiB in all.
    pub headers_kib: Sourced<u64>,
    /// Headers.
    pub headers: Sourced<u64>,
    /// Text of the compiler, MiB.
    pub text_mib: Sourced<u64>,
    /// Memory of a compiler, MiB: the least, and the most.
    pub memory_mib: Sourced<[u64; 2]>,
    /// Time of a compiler, ms.
    pub unit_ms: Sourced<u64>,
    /// Size of an object, KiB.
    pub object_kib: Sourced<u64>,
    /// Memory of the linker, and size of what it makes, MiB.
    pub link_mib: Sourced<[u64; 2]>,
    /// Time of the linker, ms.
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

/// Sizes at the scale of a run, in pages.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    tree_files: u64,
    tree_file_pages: u64,
    units: u64,
    header_pages: u64,
    headers: u64,
    text_pages: u32,
    memory_pages: [u64; 2],
    object_pages: u64,
    link_pages: u64,
    image_pages: u64,
    unit: Nanos,
    link: Nanos,
}

impl Sizes {
    fn of<S: System>(system: &S, params: &Params) -> Self {
        let scale = system.given().scale;
        let mib = |mib: u64| scale.of(mib * 256).max(1);
        let headers = params.headers.value.max(1);
        Self {
            tree_files: scale.of(params.tree_files.value),
            tree_file_pages: params.tree_file_kib.value.div_ceil(4),
            units: params.units.value,
            header_pages: scale.of(params.headers_kib.value / 4).div_ceil(headers).max(1),
            headers,
            text_pages: mib(params.text_mib.value) as u32,
            memory_pages: params.memory_mib.value.map(mib),
            object_pages: scale.of(params.object_kib.value / 4).max(1),
            link_pages: mib(params.link_mib.value[0]),
            image_pages: mib(params.link_mib.value[1]),
            unit: Nanos(params.unit_ms.value * 1_000_000),
            link: Nanos(params.link_ms.value * 1_000_000),
        }
    }
}

/// What one build took.
#[derive(Clone, Copy, Debug, Default)]
struct Built {
    elapsed: Nanos,
    cpu: CpuTimes,
}

/// The workload.
#[derive(Debug)]
pub struct Multibuild;

impl Workload for Multibuild {
    type Params = Params;

    const NAME: &'static str = "multibuild";

    const ABOUT: &'static str = "kernel builds, two at a time";

    const SIM_ONLY: Option<&'static str> =
        Some("its compilers map their text, and their times are told apart by task, which the other grounds cannot");

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        if [params.builds, params.at_once, params.jobs, params.units.value].contains(&0) {
            return Err("`builds`, `at_once`, `jobs` and `units` must be above 0".to_owned());
        }
        if params.memory_mib.value[0] > params.memory_mib.value[1] {
            return Err("`memory_mib` is the least, then the most".to_owned());
        }
        if resources.memory_pages < 4096 {
            return Err(format!("too small for multibuild: {} pages, and 4096 are needed", resources.memory_pages));
        }
        Ok(())
    }

    fn extent(params: &Params, _: &Resources, _: Scale) -> Extent {
        let tree = params.tree_files.value.saturating_mul(kib_pages(params.tree_file_kib.value));
        let [least, most] = params.memory_mib.value.map(|mib| mib_pages(mib, Scale::FULL));
        let unit = kib_pages(params.headers_kib.value).saturating_add(least.midpoint(most)).saturating_add(1);
        let build = tree.saturating_add(params.units.value.saturating_mul(unit));
        let wait_s = (params.unit_ms.value / 1000).max(params.link_ms.value / 1000);
        Extent {
            operations: build.saturating_mul(params.builds),
            file_pages: tree.saturating_mul(params.at_once),
            wait_s,
            time_s: None,
        }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<String>> {
        let rows = [cputime_rows(&[Built::default()]), duration_rows(1.0, 1.0, 1.0)];
        Some([names(rows.concat()), mmtests::vmstat_row_names()].concat())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Found, SystemError> {
        let sizes = Sizes::of(system, params);
        write_file(system, "cc1", sizes.text_pages.into())?;
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let at_once = params.at_once.min(params.builds);
        for build in 0..at_once {
            unpack(system, build, sizes)?;
        }
        let (mut next, mut active, mut built) = (0, Vec::new(), Vec::new());
        while built.len() < params.builds as usize && !system.is_killed() {
            while active.len() < at_once as usize && next < params.builds {
                if next >= at_once {
                    unpack(system, next, sizes)?;
                }
                let (build, jobs, is_done) = (next, params.jobs, Arc::new(AtomicU64::new(0)));
                let done = is_done.clone();
                let task = system.start(&format!("make-{build}"), move |system| {
                    let result = make(system, build, jobs, sizes);
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
                remove_tree(system, build, sizes)?;
            }
        }
        active.iter().for_each(|(_, _, task)| task.kill(system));
        active.into_iter().try_for_each(|(_, _, task)| task.join(system).map(drop))?;
        let elapsed_s = system.now().since(started).as_secs_f64();
        let counters = difference(&counters, &system.vmstat());
        let cpu = system.cpu_times().since(cpu);
        system.remove("cc1")?;
        let mut rows = cputime_rows(&built);
        rows.extend(duration_rows(cpu.user.as_secs_f64(), cpu.system.as_secs_f64(), elapsed_s));
        rows.extend(mmtests::vmstat_rows(&counters, elapsed_s));
        let profile = system.profile().into_iter().map(|(path, time)| format!("run;{path} {}", time.0)).collect();
        Ok(Found { rows, profile, ..Found::default() })
    }
}

/// CPU time of the tasks of a build.
fn cpu_of<S: System>(system: &S, build: u64) -> CpuTimes {
    let name = format!("make-{build}");
    let mut times = CpuTimes::default();
    for (path, time) in system.profile() {
        if path.split(';').next() == Some(name.as_str()) {
            if path.ends_with(Func::User.name()) { times.user += time } else { times.system += time }
        }
    }
    times
}

fn write_file<S: System>(system: &S, name: &str, pages: u64) -> Result<(), SystemError> {
    let file = system.create(name)?;
    let bytes = vec![0; PAGE_BYTES];
    (0..pages).try_for_each(|page| system.write(&file, page_bytes(page), &bytes))
}

/// The sources of a tree are its first files, the headers those after them.
fn tree_file(build: u64, n: u64) -> String {
    format!("{build}/{n}")
}

fn unpack<S: System>(system: &S, build: u64, sizes: Sizes) -> Result<(), SystemError> {
    (0..sizes.units + sizes.headers).chain(sizes.units + sizes.headers..sizes.tree_files).try_for_each(|n| {
        let is_header = (sizes.units..sizes.units + sizes.headers).contains(&n);
        write_file(system, &tree_file(build, n), if is_header { sizes.header_pages } else { sizes.tree_file_pages })
    })
}

fn remove_tree<S: System>(system: &S, build: u64, sizes: Sizes) -> Result<(), SystemError> {
    let files = sizes.tree_files.max(sizes.units + sizes.headers);
    (0..files).try_for_each(|n| system.remove(&tree_file(build, n)))?;
    (0..sizes.units).try_for_each(|unit| system.remove(&object(build, unit)))?;
    system.remove(&format!("{build}/vmlinux"))
}

fn object(build: u64, unit: u64) -> String {
    format!("{build}/{unit}.o")
}

/// One build; returns how long it took.
fn make<S: System>(system: &S, build: u64, jobs: u64, sizes: Sizes) -> Result<Nanos, SystemError> {
    let started = system.now();
    let next = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..jobs)
        .map(|_| {
            let next = next.clone();
            system.start(&format!("make-{build}"), move |system| {
                loop {
                    let unit = next.fetch_add(1, Relaxed);
                    if unit >= sizes.units || system.is_killed() {
                        return Ok(());
                    }
                    compile(system, build, unit, sizes)?;
                }
            })
        })
        .collect();
    let ended: Vec<Result<(), SystemError>> = workers.into_iter().map(|worker| worker.join(system)).collect();
    ended.into_iter().collect::<Result<Vec<()>, _>>()?;
    if !system.is_killed() {
        link(system, build, sizes)?;
    }
    Ok(system.now().since(started))
}

fn read_all<S: System>(system: &S, name: &str, buffer: &mut [u8]) -> Result<(), SystemError> {
    let mut file = system.open(name)?;
    let length = system.length(&file);
    let mut at = 0;
    while at < length {
        at += system.read(&mut file, at, buffer)?.max(1) as u64;
    }
    Ok(())
}

fn compile<S: System>(system: &S, build: u64, unit: u64, sizes: Sizes) -> Result<(), SystemError> {
    // All builds are of one tree: a unit costs the same in each of them.
    let mut rng = system.rng(unit);
    let mut buffer = vec![0; 8 * PAGE_BYTES];
    let text = system.open("cc1")?;
    let mode = MapMode { sharing: Sharing::Private, is_executable: true, ..MapMode::default() };
    let text = system.map_file(&text, 0..sizes.text_pages, mode)?;
    let [least, most] = sizes.memory_pages;
    let pages = (least + rng.below(most - least + 1)) as u32;
    let memory = system.map(pages)?;
    let mut result = read_all(system, &tree_file(build, unit), &mut buffer);
    // A quarter of the sources take half as long, a quarter half again.
    let time = Nanos(sizes.unit.0 / 2 + rng.below(sizes.unit.0 + 1));
    for part in 0..PARTS {
        let piece = |all: u64| (all * part / PARTS)..(all * (part + 1) / PARTS);
        let touched = |all: u32| {
            let range = piece(all.into());
            range.start as u32..range.end as u32
        };
        result = result.and_then(|()| {
            for header in piece(sizes.headers) {
                read_all(system, &tree_file(build, sizes.units + header), &mut buffer)?;
            }
            system.touch(&text, touched(sizes.text_pages), false)?;
            system.touch(&memory, touched(pages), true)
        });
        if result.is_err() || system.is_killed() {
            break;
        }
        system.compute(Nanos(time.0 / PARTS));
    }
    system.unmap(memory);
    system.unmap(text);
    result?;
    write_file(system, &object(build, unit), sizes.object_pages)
}

fn link<S: System>(system: &S, build: u64, sizes: Sizes) -> Result<(), SystemError> {
    let mut buffer = vec![0; 32 * PAGE_BYTES];
    let pages = sizes.link_pages as u32;
    let memory = system.map(pages)?;
    let mut result = Ok(());
    for unit in 0..sizes.units {
        let start = (u64::from(pages) * unit / sizes.units) as u32;
        let end = (u64::from(pages) * (unit + 1) / sizes.units) as u32;
        result =
            read_all(system, &object(build, unit), &mut buffer).and_then(|()| system.touch(&memory, start..end, true));
        if result.is_err() || system.is_killed() {
            break;
        }
        system.compute(Nanos(sizes.link.0 / sizes.units));
    }
    result = result.and_then(|()| write_file(system, &format!("{build}/vmlinux"), sizes.image_pages));
    system.unmap(memory);
    result
}

/// One figure of a build.
type Part = fn(&Built) -> f64;

/// The group `cputime`: figures over the builds; the deviation is that of the population.
fn cputime_rows(built: &[Built]) -> Vec<Row> {
    let parts: [(&str, &str, Better, Part); 4] = [
        ("User", "s", Better::Lower, |built| built.cpu.user.as_secs_f64()),
        ("System", "s", Better::Lower, |built| built.cpu.system.as_secs_f64()),
        ("Elapsed", "s", Better::Lower, |built| built.elapsed.as_secs_f64()),
        ("CPU", "%", Better::Neutral, |built| {
            let cpu = (built.cpu.user + built.cpu.system).as_secs_f64();
            (100.0 * cpu / built.elapsed.as_secs_f64().max(1e-9)).trunc()
        }),
    ];
    let mut rows = Vec::new();
    if built.is_empty() {
        return rows;
    }
    for (name, unit, better, part) in parts {
        let values: Vec<f64> = built.iter().map(part).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
        let (min, max) = (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max));
        let statistics =
            [("min", min), ("mean", mean), ("stddev", libm::sqrt(variance)), ("max", max), ("range", max - min)];
        rows.extend(statistics.map(|(statistic, value)| {
            Row::new("cputime", format!("{name} {statistic}"), unit, better, Format::Decimals(2), value)
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_the_population() {
        let built = [100, 104].map(|s| Built {
            elapsed: Nanos::from_secs(s),
            cpu: CpuTimes { user: Nanos::from_secs(3 * s), system: Nanos::from_secs(s) },
        });
        let rows = cputime_rows(&built);
        let value = |name: &str| rows.iter().find(|row| row.name == name).unwrap().value;
        let statistics = ["min", "mean", "stddev", "max", "range"].map(|name| value(&format!("Elapsed {name}")));
        assert_eq!(statistics, [100.0, 102.0, 2.0, 104.0, 4.0]);
        assert_eq!((value("CPU mean"), value("User range")), (400.0, 12.0));
    }
}
