//! Signs from recordings of other tools: texts in the [`formats`](recordings::formats), and log directories of MMTests.
//!
//! A recording has fewer values than the running kernel. A missing value stays none, so that the rules that need it are
//! reported as not asked.

use super::course::{Course, Extent, Interval};
use super::looks::Looks;
use super::signs::{Disk, Scan, Signs};
use super::source::{DirtyLooks, Moment, course_of, of_counters};
use super::usage::{MemoryUse, Usage};
use super::{Diagnosis, Patient};
use engine::stat::Vmstat;
use figures::counters::difference;
use kit::wrong::Wrong;
use recordings::format::{Recording, Told};
use recordings::formats::Document;
use recordings::looks::Meminfo;
use recordings::looks::formats::{COPIES_OF_MEMINFO, COPIES_OF_PRESSURE, COPIES_OF_VMSTAT};
use recordings::mmtests::{Benchmark, Monitors, Recorded, read_all};
use recordings::{Figures, PAGE_KIB, Sample, most_in_swap};
use std::path::Path;
use std::sync::Arc;

/// Returns the patients (subjects of a diagnosis) in files that were given together. Each recording makes one patient.
/// All texts that show one moment, such as outputs of `free`, together make one more patient. But if there is exactly
/// one recording, these texts are added to the recording's patient. Texts with counters or about a cgroup are not
/// added, because they cover another time or subject.
///
/// `interval_s` is the interval between samples of recordings without times. `seconds` is the time between two copies
/// of a text, if the user gave it.
///
/// # Errors
/// When the user gave a time that no text needs.
pub fn patients(
    documents: Vec<Document>,
    interval_s: Option<f64>,
    seconds: Option<f64>,
) -> Result<Vec<Patient>, Wrong> {
    let file = documents.first().map(|document| document.file.clone()).unwrap_or_default();
    check_times(&file, &documents, interval_s, seconds)?;
    let mut patients: Vec<Patient> = Vec::new();
    let mut looks = Looks::default();
    let (mut files_of_looks, mut left_out_of_looks) = (Vec::new(), Vec::new());
    let are_several = documents.len() > 1;
    let recordings = || documents.iter().flat_map(Document::recordings);
    let over_time = recordings().filter(|recording| !recording.samples.is_empty()).count();
    let mut disks_beside: Vec<Recording> = Vec::new();
    for Document { file, told, left_out } in documents {
        let mut left_out = Some(left_out);
        for (_, told) in told {
            match told {
                // A recording with figures of disks alone belongs to the same computer as the only recording over time.
                Told::Recording(recording) if recording.samples.is_empty() && over_time == 1 => {
                    disks_beside.push(recording);
                }
                Told::Recording(recording) => {
                    let patient = of_recording(&file, recording);
                    patients.push(Patient { left_out: left_out.take().unwrap_or_default(), ..patient });
                }
                Told::Look(look) => looks.add(look),
            }
        }
        if let Some(left_out) = left_out {
            let named = |it: String| if are_several { format!("{file}: {it}") } else { it };
            left_out_of_looks.extend(left_out.into_iter().map(named));
            files_of_looks.push(file);
        }
    }
    for Recording { tool, disks, assumed, .. } in disks_beside {
        if let Some(patient) = patients.first_mut() {
            patient.signs.disks.extend(disks.iter().map(|(name, figures)| disk(name, figures)));
            patient.signs.assumed.extend(assumed);
            patient.name = format!("{tool} and {}", patient.name);
        }
    }
    share_uses(&mut patients);
    if looks.is_empty() {
        return Ok(patients);
    }
    let signs = looks.signs(seconds);
    match patients.as_mut_slice() {
        // Texts with counters or about a cgroup cover another time or subject than the recording, and make their own
        // patient.
        [patient] if signs.swapped_in.is_none() && signs.kswapd.scanned.is_none() && signs.group.is_none() => {
            complement(patient, signs);
            patient.name = [vec![std::mem::take(&mut patient.name)], files_of_looks].concat().join(", ");
            patient.left_out.extend(left_out_of_looks);
        }
        _ => {
            let name = if files_of_looks.is_empty() { file } else { files_of_looks.join(", ") };
            patients.push(Patient { left_out: left_out_of_looks, ..Patient::new(name, signs) });
        }
    }
    Ok(patients)
}

/// Checks that each time that the user gave is needed. `interval_s` is needed if a recording contains no times.
/// `seconds`, the time between two copies of a text, is needed if the input has two copies of a text.
///
/// # Errors
/// When the user gave a time that is not needed. The message names `file`.
pub fn check_times(
    file: &str,
    documents: &[Document],
    interval_s: Option<f64>,
    seconds: Option<f64>,
) -> Result<(), Wrong> {
    let lacks_times = |document: &Document| document.recordings().any(|recording| !recording.has_times);
    if interval_s.is_some() && !documents.iter().any(lacks_times) {
        let what = "--interval is for the text of `vmstat` without -t: what is read here has its own times";
        return Err(Wrong::of(file, what));
    }
    let mut looks = Looks::default();
    if seconds.is_some() {
        for (_, told) in documents.iter().flat_map(|document| &document.told) {
            if let Told::Look(look) = told {
                looks.add(look.clone());
            }
        }
        if !looks.has_two() {
            let what = "--seconds is for the running kernel, and for two copies of /proc/vmstat, of files of a cgroup or of PSI: here are no \
                 two";
            return Err(Wrong::of(file, what));
        }
    }
    Ok(())
}

/// If exactly one of the recordings is of `/proc/meminfo`, adds to the others what it says of memory and they do not, such as
/// its size.
fn share_uses(patients: &mut [Patient]) {
    let is_of_meminfo = |patient: &&Patient| patient.name.starts_with(COPIES_OF_MEMINFO);
    let mut of_meminfo = patients.iter().filter(is_of_meminfo);
    let (Some(only), None) = (of_meminfo.next(), of_meminfo.next()) else { return };
    let Some(usage) = only.signs.usage.clone() else { return };
    patients.iter_mut().filter(|it| !is_of_meminfo(&&**it)).for_each(|patient| complement_usage(patient, &usage.last));
}

/// Adds to the uses of memory in a recording what `last` says of memory and they do not.
fn complement_usage(patient: &mut Patient, last: &MemoryUse) {
    let add = |usage: &mut Option<Usage>| usage.iter_mut().for_each(|usage| usage.complement(last));
    add(&mut patient.signs.usage);
    patient.course.for_each_mut(|signs| add(&mut signs.usage));
}

/// Adds the signs `moment` to those of a recording, from which `patient` was made. `moment` comes from texts that show a
/// single moment, such as the output of `free`. A level that the recording has is not replaced.
fn complement(patient: &mut Patient, moment: Signs) {
    if let Some(Usage { last, .. }) = &moment.usage {
        complement_usage(patient, last);
    }
    let signs = &mut patient.signs;
    signs.zones = signs.zones.take().or(moment.zones);
    if signs.nodes.is_empty() {
        signs.nodes = moment.nodes;
    }
    signs.usage = signs.usage.take().or(moment.usage);
    signs.swap = signs.swap.or(moment.swap);
    signs.some_waited_percent = signs.some_waited_percent.or(moment.some_waited_percent);
    signs.all_waited_percent = signs.all_waited_percent.or(moment.all_waited_percent);
    signs.at_limit = signs.at_limit.take().or(moment.at_limit);
    signs.out_of_memory = signs.out_of_memory.take().or(moment.out_of_memory);
    // The groups know that their counters are those since they were made, and not of the recording.
    if signs.groups.is_empty() {
        signs.groups = moment.groups;
    }
    signs.slabs = moment.slabs;
    signs.processes = moment.processes;
    signs.kswapd_shown_percent = moment.kswapd_shown_percent;
    signs.log = moment.log;
    signs.is_v1 |= moment.is_v1;
    signs.given.extend(moment.given);
    signs.settings.extend(moment.settings);
    signs.assumed.extend(moment.assumed);
    signs.missing.extend(moment.missing);
}

fn of_recording(file: &str, recording: Recording) -> Patient {
    let Recording { tool, kernel, samples, disks, mut assumed, .. } = recording;
    let course = match tool {
        "vmstat" => of_vmstat(&samples),
        "atop" => of_atop(&samples),
        COPIES_OF_VMSTAT => of_copies(&samples),
        COPIES_OF_PRESSURE => of_pressure(&samples),
        COPIES_OF_MEMINFO => of_meminfo(&samples),
        _ => {
            let reclaimed = Reclaimed::of(kernel.as_deref(), &samples);
            assumed.extend(reclaimed.assumed(&samples));
            of_sar(&samples, &reclaimed)
        }
    };
    let mut patient = Patient::of_course(format!("{tool}, {file}"), course);
    patient.signs.disks = disks.iter().map(|(name, figures)| disk(name, figures)).collect();
    patient.signs.assumed.extend(assumed);
    patient
}

/// Makes a patient (a subject of a diagnosis) of each benchmark in a log directory of MMTests. Also returns the faults
/// in the logs; parts of logs with faults are left out.
///
/// # Errors
/// When the folder is not a log directory of MMTests.
pub fn patients_of_mmtests(folder: &Path) -> Result<(Vec<Patient>, Vec<Wrong>), Wrong> {
    let Recorded { benchmarks, mut wrong } = read_all(folder)?;
    let patients = benchmarks.iter().map(|benchmark| of_mmtests(benchmark, &benchmark.monitors(&mut wrong))).collect();
    Ok((patients, wrong))
}

/// Returns the place of a sample in the recording: its times, or its line if it has no time.
fn place(sample: &Sample) -> Extent {
    match sample.at_s {
        Some(to) => Extent::Times { from: to - sample.seconds, to },
        None => Extent::Lines { first: sample.line, last: sample.line },
    }
}

/// Returns the course of a recording of `vmstat`: its intervals, one for each sample. The signs of an interval are free
/// memory, caches, and swap traffic.
fn of_vmstat(samples: &[Sample]) -> Course {
    let mut earlier: Option<Arc<MemoryUse>> = None;
    let interval = |sample: &Sample| {
        let of = |name: &str| sample.values.get(name);
        let pages = |name: &str| of(name).map(|kib| kib / PAGE_KIB);
        let moved = |name: &str| Some(pages(name)? * sample.seconds);
        let now =
            MemoryUse { free: pages("free"), buffers: pages("buff"), cached: pages("cache"), ..MemoryUse::default() };
        let signs = Signs {
            elapsed_s: Some(sample.seconds),
            swapped_in: moved("si"),
            swapped_out: moved("so"),
            swap_used: pages("swpd"),
            blocked: of("b"),
            usage: Some(following(&mut earlier, now)),
            ..Signs::default()
        };
        Interval { place: place(sample), signs }
    };
    samples.iter().map(interval).collect()
}

/// Returns the course of a loop that printed `/proc/vmstat`: its intervals, one from each copy to the next.
fn of_copies(samples: &[Sample]) -> Course {
    let copy = |sample: &Sample| -> Vmstat {
        sample.values.iter().map(|(name, value)| (name.to_owned(), value as u64)).collect()
    };
    let copies: Vec<Vmstat> = samples.iter().map(copy).collect();
    let interval = |(pair, sample): (&[Vmstat], &Sample)| {
        let [before, after] = pair else { return None };
        let grown = difference(before, after);
        let mut dirty = DirtyLooks::default();
        pair.iter().for_each(|levels| dirty.look(levels));
        let usage = MemoryUse::of_vmstat(before).zip(MemoryUse::of_vmstat(after));
        let signs = Signs {
            dirty: dirty.finish(grown.get("nr_dirtied").map(|pages| *pages as f64)),
            usage: usage.map(|(before, after)| Usage::between(&Arc::new(before), &Arc::new(after))),
            ..of_counters(&grown, sample.seconds)
        };
        Some(Interval { place: place(sample), signs })
    };
    copies.windows(2).zip(samples.iter().skip(1)).filter_map(interval).collect()
}

/// Returns the course of a loop that printed `/proc/pressure/memory`: its intervals, one from each copy to the next.
fn of_pressure(samples: &[Sample]) -> Course {
    let interval = |pair: &[Sample]| {
        let [before, after] = pair else { return None };
        let share = |name: &str| {
            let grown = after.values.get(name)? - before.values.get(name)?;
            Some((grown / 1e4 / after.seconds).max(0.0))
        };
        let signs = Signs {
            elapsed_s: Some(after.seconds),
            some_waited_percent: share("some"),
            all_waited_percent: share("full"),
            ..Signs::default()
        };
        Some(Interval { place: place(after), signs })
    };
    samples.windows(2).filter_map(interval).collect()
}

/// Returns the course of a loop or an archive that printed `/proc/meminfo`: its intervals, one from each copy to the next.
fn of_meminfo(samples: &[Sample]) -> Course {
    let copy = |sample: &Sample| {
        let values = sample.values.iter().map(|(name, kib)| (name.to_owned(), kib as u64)).collect();
        Meminfo { values, ..Meminfo::default() }
    };
    let copies: Vec<Meminfo> = samples.iter().map(copy).collect();
    let usages: Vec<Option<Arc<MemoryUse>>> =
        copies.iter().map(|copy| MemoryUse::of_meminfo(copy).map(Arc::new)).collect();
    let interval = |(n, sample): (usize, &Sample)| {
        let usage = usages[n - 1].as_ref().zip(usages[n].as_ref());
        let signs = Signs {
            elapsed_s: Some(sample.seconds),
            usage: usage.map(|(before, after)| Usage::between(before, after)),
            swap: copies[n].swap_kib().map(|kib| kib.map(|kib| kib as f64 / PAGE_KIB)),
            ..Signs::default()
        };
        Interval { place: place(sample), signs }
    };
    samples.iter().enumerate().skip(1).map(interval).collect()
}

/// Returns how many pages kswapd and direct reclaim together scanned per second (`pgscank/s` plus `pgscand/s`). Returns
/// `None` if the sample has no `pgscank/s`.
fn scanned(sample: &Sample) -> Option<f64> {
    Some(sample.values.get("pgscank/s")? + sample.values.get("pgscand/s").unwrap_or_default())
}

/// Number of times that the column `pgsteal/s` of a `sar` recording counts each reclaimed page.
///
/// Since Linux 5.8 `/proc/vmstat` counts each reclaimed page twice: by reclaimer (`pgsteal_kswapd`, `pgsteal_direct`)
/// and by kind (`pgsteal_anon`, `pgsteal_file`). Versions of sysstat before May 2026 sum all four counters.
#[derive(Clone, Debug, PartialEq)]
enum Reclaimed {
    /// `pgsteal/s` counts each reclaimed page once.
    Once,
    /// `pgsteal/s` counts each reclaimed page twice. This is proved by the line with this number, which has more
    /// reclaimed pages than scanned pages.
    Twice(usize),
    /// It is unknown whether each reclaimed page is counted once or twice.
    Unknown,
}

/// First version of Linux that counts reclaimed pages also by kind (anonymous pages, file pages).
const BY_KIND_SINCE: (u32, u32) = (5, 8);

/// If an interval has more reclaimed pages than scanned pages, this proves double counting only if the difference is
/// larger than this number. Two batches of 32 pages may have been scanned before the interval and reclaimed within it.
const LATE_PAGES: f64 = 64.0;

/// Share of an interval's scanned pages, percent. More reclaimed pages than scanned pages prove that reclaimed pages
/// were counted twice only if the difference is larger than this share. A smaller difference may be pages that were
/// scanned in the interval before, on a computer with many CPUs.
const LATE_PERCENT: f64 = 2.0;

impl Reclaimed {
    fn of(kernel: Option<&str>, samples: &[Sample]) -> Self {
        let stolen = |sample: &Sample| sample.values.get("pgsteal/s").filter(|pages| *pages > 0.0);
        let is_more = |sample: &&Sample| {
            let (Some(scanned), Some(stolen)) = (scanned(sample), stolen(sample)) else {
                return false;
            };
            (stolen - scanned) * sample.seconds > LATE_PAGES && stolen > scanned * (1.0 + LATE_PERCENT / 100.0)
        };
        if kernel.and_then(version).is_some_and(|version| version < BY_KIND_SINCE) {
            return Self::Once;
        }
        match samples.iter().find(is_more) {
            Some(proof) => Self::Twice(proof.line),
            None if samples.iter().any(|sample| stolen(sample).is_some()) => Self::Unknown,
            None => Self::Once,
        }
    }

    fn assumed(&self, samples: &[Sample]) -> Option<String> {
        let why = "sysstat before May 2026 counts each page twice on Linux 5.8 and later";
        match self {
            Self::Once => None,
            Self::Twice(line) => {
                Some(format!("half of pgsteal/s, since on line {line} it is more than what was scanned: {why}"))
            }
            Self::Unknown => {
                let sum = |of: &dyn Fn(&Sample) -> Option<f64>| -> f64 {
                    samples.iter().filter_map(|sample| Some(of(sample)? * sample.seconds)).sum()
                };
                let of_100 = 100.0 * sum(&|sample| sample.values.get("pgsteal/s")) / sum(&scanned);
                of_100.is_finite().then(|| {
                    let range = format!("{:.0} to {of_100:.0} of 100 pages scanned are reclaimed", of_100 / 2.0);
                    format!("that {range}, since pgsteal/s may be twice what it should: {why}")
                })
            }
        }
    }
}

/// Returns the first two numbers of a kernel's version, such as 5 and 8; none if the text does not begin with two
/// numbers.
fn version(word: &str) -> Option<(u32, u32)> {
    let mut numbers = word.split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Makes a course from the samples of a `sar` recording. `sar` counts scanned pages separately for kswapd and for
/// tasks, but reclaimed pages only in total. With the options `-r` and `-S` it also shows the use of memory and of
/// swap, and with `-q` the share of time in which tasks waited for memory (PSI).
fn of_sar(samples: &[Sample], reclaimed: &Reclaimed) -> Course {
    let mut earlier: Option<Arc<MemoryUse>> = None;
    let interval = |sample: &Sample| {
        let level = |name: &str| sample.values.get(name);
        let of = |name: &str| Some(level(name)? * sample.seconds);
        let (by_kswapd, by_others, counted) = (of("pgscank/s"), of("pgscand/s"), of("pgsteal/s"));
        let stolen = match reclaimed {
            Reclaimed::Twice(_) => counted.map(|pages| pages / 2.0),
            _ => counted,
        };
        // If only one reclaimer scanned, all reclaimed pages are its own.
        let own = |scanned: Option<f64>, others: Option<f64>| match (scanned, others) {
            (Some(0.0), _) => Some(0.0),
            (_, Some(0.0)) => stolen.filter(|pages| *reclaimed != Reclaimed::Unknown || *pages == 0.0),
            _ => None,
        };
        let usage = memory_use(sample).map(|now| following(&mut earlier, now));
        let signs = Signs {
            elapsed_s: Some(sample.seconds),
            kswapd: Scan { scanned: by_kswapd, stolen: own(by_kswapd, by_others) },
            direct: Scan { scanned: by_others, stolen: own(by_others, by_kswapd) },
            stolen_together: stolen,
            swapped_in: of("pswpin/s"),
            swapped_out: of("pswpout/s"),
            major_faults: of("majflt/s"),
            some_waited_percent: level("%smem"),
            all_waited_percent: level("%fmem"),
            swap: swap(sample),
            usage,
            ..Signs::default()
        };
        Interval { place: place(sample), signs }
    };
    samples.iter().map(interval).collect()
}

/// Makes a course from the samples of an `atop` recording. `atop` counts the pages of kswapd and of tasks together. If
/// no task reclaimed, all these pages are kswapd's.
fn of_atop(samples: &[Sample]) -> Course {
    let mut earlier: Option<Arc<MemoryUse>> = None;
    let interval = |sample: &Sample| {
        let of = |name: &str| sample.values.get(name);
        let stalls = of("allocstall");
        let by_kswapd = of("pgscan").filter(|_| stalls == Some(0.0));
        let signs = Signs {
            elapsed_s: Some(sample.seconds),
            kswapd: Scan { scanned: by_kswapd, stolen: by_kswapd.and(of("pgsteal")) },
            direct: Scan { scanned: by_kswapd.and(stalls), stolen: by_kswapd.and(stalls) },
            stalls,
            stolen_together: of("pgsteal"),
            swapped_in: of("pswpin"),
            swapped_out: of("pswpout"),
            compactions: of("compact_stall"),
            killed: of("oom_kill"),
            some_waited_percent: of("%smem"),
            all_waited_percent: of("%fmem"),
            swap: swap(sample),
            usage: memory_use(sample).map(|now| following(&mut earlier, now)),
            ..Signs::default()
        };
        Interval { place: place(sample), signs }
    };
    samples.iter().map(interval).collect()
}

/// Returns the use of memory at the end of a sample, from columns of `sar -r`; none if it is unknown.
fn memory_use(sample: &Sample) -> Option<MemoryUse> {
    let level = |name: &str| sample.values.get(name);
    let pages = |name: &str| Some(level(name)? / PAGE_KIB);
    let free = Some(pages("kbmemfree")?);
    // Versions of `sar` differ in what counts as used, but `%memused` is always a share of all memory.
    let by_share = || Some(pages("kbmemused")? * 100.0 / level("%memused").filter(|share| *share > 0.0)?);
    Some(MemoryUse {
        total: pages("kbmemtotal").or_else(by_share),
        free,
        available: pages("kbavail"),
        buffers: pages("kbbuffers"),
        cached: pages("kbcached"),
        dirty: pages("kbdirty"),
        anon: pages("kbanonpg"),
        shmem: pages("kbshmem"),
        slab_reclaimable: pages("kbslabreclaimable"),
        slab_unreclaimable: pages("kbslabunreclaimable"),
        kernel_stack: pages("kbkstack"),
        page_tables: pages("kbpgtbl"),
        vmalloc_used: pages("kbvmused"),
        huge_pool: pages("kbhugfree").zip(pages("kbhugused")).map(|(free, used)| free + used),
        huge_free: pages("kbhugfree"),
        huge_reserved: pages("kbhugrsvd"),
        ..MemoryUse::default()
    })
}

/// Returns the use of memory from the moment `earlier` to the moment `now`, and replaces `earlier` by `now` for the
/// next call. If `earlier` is `None`, the result describes `now` alone.
fn following(earlier: &mut Option<Arc<MemoryUse>>, now: MemoryUse) -> Usage {
    let now = Arc::new(now);
    let usage = Usage::between(earlier.as_ref().unwrap_or(&now), &now);
    *earlier = Some(now);
    usage
}

/// Returns the size of swap and the free part of it at the end of a sample, pages.
fn swap(sample: &Sample) -> Option<[f64; 2]> {
    let pages = |name: &str| Some(sample.values.get(name)? / PAGE_KIB);
    let free = pages("kbswpfree")?;
    Some([pages("kbswptotal").or_else(|| Some(free + pages("kbswpused")?))?, free])
}

fn of_mmtests(benchmark: &Benchmark, monitors: &Monitors) -> Patient {
    let Benchmark { run, name, elapsed_s, before, after, .. } = benchmark;
    let Monitors { counters, vmstat, disks, .. } = monitors;
    let iteration = benchmark.iteration().map_or_else(String::new, |n| format!(", iter-{n}"));
    // If there are no copies before and after the benchmark, the monitor's first and last copies are used.
    let (grown, seconds) = match (before, after, counters.first().zip(counters.last())) {
        (Some(before), Some(after), _) => (difference(before, after), elapsed_s.unwrap_or_default()),
        (_, _, Some(((begun, first), (ended, last)))) => (difference(&first.vmstat(), &last.vmstat()), ended - begun),
        _ => Default::default(),
    };
    let mut dirty = DirtyLooks::default();
    counters.iter().for_each(|(_, levels)| dirty.look(&levels.vmstat()));
    let mut signs = of_counters(&grown, seconds);
    signs.dirty = dirty.finish(grown.get("nr_dirtied").map(|pages| *pages as f64));
    signs.swap_used = most_in_swap(vmstat);
    signs.swap = benchmark.least_free_swap(monitors);
    if let Some([some, full]) = benchmark.stalled_percent() {
        (signs.some_waited_percent, signs.all_waited_percent) = (Some(some), Some(full));
    }
    signs.disks = disks.iter().map(|(name, samples)| disk(name, samples)).collect();
    let unasked = Diagnosis::of(&signs).unasked;
    let lacking = SOURCES.iter().filter(|(cause, _)| unasked.iter().any(|it| it.cause == *cause));
    signs.missing = lacking.map(|(_, what)| (*what).to_owned()).collect();
    let start_s = counters.first().map_or(0.0, |(first, _)| *first);
    let moments = counters.iter().map(|(at_s, levels)| Moment { at_s: at_s - start_s, values: levels.vmstat() });
    let sources = vec![benchmark.folder.display().to_string()];
    Patient { course: course_of(moments), sources, ..Patient::new(format!("{run}{iteration}, {name}"), signs) }
}

/// Illnesses whose rules need a file that may be missing in the logs of MMTests, each with words about this file.
const SOURCES: [(&str, &str); 2] = [
    (
        "all-wait",
        "/proc/pressure/memory: the logs have no copy of it before and after the benchmark, or not how long that took",
    ),
    (
        "swap-full",
        "/proc/meminfo: the logs have no copy of it after the benchmark, and none of the monitor proc-meminfo",
    ),
];

/// Returns the means of a device's figures over all `iostat` samples.
fn disk(name: &str, samples: &[Figures]) -> Disk {
    let mean = |names: &[&str]| {
        let column = names.iter().find(|name| samples.iter().any(|sample| sample.get(name).is_some()))?;
        // A sample without a write does not show how long a write takes.
        let told: Vec<f64> = samples.iter().filter_map(|sample| sample.get(column)).collect();
        Some(told.iter().sum::<f64>() / told.len() as f64)
    };
    Disk {
        name: name.to_owned(),
        busy_percent: mean(&["%util"]),
        read_wait_ms: mean(&["r_await", "await"]),
        write_wait_ms: mean(&["w_await", "await"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Weight;
    use recordings::formats;

    fn patient(file: &str, text: &str, every_s: Option<f64>) -> Result<Patient, Wrong> {
        Ok(patients(vec![formats::read(file, text, every_s)?], every_s, None)?.remove(0))
    }

    const BUSY: &str = "Device r/s r_await w/s w_await %util\nsda 1 1 1 1 1\n\nDevice r/s r_await w/s w_await %util\nsda 300 9 200 180 99\n";

    #[test]
    fn a_loop_that_prints_the_time_and_a_file_is_a_recording() {
        let clock = |n: u32| format!("Thu Nov 26 10:{:02}:{:02} CET 2026\n", n / 6, n % 6 * 10);
        // From copy 20 to copy 30 the counters grow.
        let grown = |n: u32, by: u32| by * n.clamp(20, 30);
        let vmstat = |n: u32| {
            format!(
                "{}nr_free_pages 30000\nnr_file_pages 90000\npswpin {}\npswpout {}\npgscan_kswapd {}\npgsteal_kswapd {}\n",
                clock(n),
                grown(n, 30_000),
                grown(n, 31_000),
                grown(n, 90_000),
                grown(n, 80_000)
            )
        };
        let psi = |n: u32| {
            format!(
                "{}some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n",
                clock(n),
                grown(n, 6_000_000)
            )
        };
        let found = |text: String, cause: &str| {
            let given = documents(&text);
            let patients = patients(given, None, None).unwrap();
            let diagnosis = Diagnosis::of_patient(&patients[0]);
            let finding = diagnosis.findings.into_iter().find(|it| it.cause == cause).expect(cause);
            (finding.when.expect("a span").worst.place, finding.sentence)
        };
        let (place, sentence) = found((0..60).map(vmstat).collect(), "anonymous-thrashing");
        assert_eq!(place, "10:03:20 to 10:05:00");
        assert!(sentence.contains("3000 pages a second come back"), "{sentence}");
        let (place, sentence) = found((0..60).map(psi).collect(), "all-wait");
        assert_eq!(place, "10:03:20 to 10:05:00");
        assert!(sentence.contains("In 60 % of the time"), "{sentence}");
    }

    #[test]
    fn an_archive_of_meminfo_has_times_and_an_hour_without_memory_is_found_in_it() {
        let copy = |minute: u32, available: u32| {
            format!(
                "zzz ***Thu Nov 26 10:{minute:02}:00 UTC 2026\nMemTotal: 8000000 kB\nMemFree: 90000 kB\nMemAvailable: {available} kB\n\
                 Buffers: 9 kB\nCached: 200000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
            )
        };
        let short = |minute: u32| if (20..30).contains(&minute) { 80_000 } else { 4_000_000 };
        let text: String = (0..60).map(|minute| copy(minute, short(minute))).collect();
        let patient = patient("oswmeminfo/m.dat", &text, None).unwrap();
        assert_eq!((patient.signs.elapsed_s, patient.left_out.len()), (Some(3540.0), 0));
        let findings = Diagnosis::of_patient(&patient).findings;
        let found = findings.iter().find(|it| it.cause == "memory-short").unwrap();
        let when = found.when.as_ref().unwrap();
        assert_eq!((&*when.worst.place, when.count), ("10:19:00 to 10:29:00", 1), "{when:?}");
    }

    #[test]
    fn memory_that_is_short_in_the_middle_of_a_recording_is_named_with_its_span_where_swap_has_room() {
        let copy = |minute: u32| {
            let available = if (20..30).contains(&minute) { 80_000 } else { 4_000_000 };
            format!(
                "zzz ***Thu Nov 26 10:{minute:02}:00 UTC 2026\nMemTotal: 8000000 kB\nMemFree: 90000 kB\nMemAvailable: {available} kB\n\
                 Buffers: 9 kB\nCached: 200000 kB\nSwapTotal: 4000000 kB\nSwapFree: 3900000 kB\n"
            )
        };
        let found = |minutes: std::ops::Range<u32>| {
            let patient = patient("m.dat", &minutes.map(copy).collect::<String>(), None).unwrap();
            Diagnosis::of_patient(&patient).findings.into_iter().find(|it| it.cause == "memory-short")
        };
        let finding = found(0..60).unwrap();
        assert_eq!(finding.weight, Weight::Notice);
        assert!(
            finding.sentence.starts_with("For 10 min (10:19:00 to 10:29:00): Next to nothing is left"),
            "{finding:?}"
        );
        assert_eq!(finding.when.unwrap().worst.place, "10:19:00 to 10:29:00");
        assert_eq!(found(30..60), None);
    }

    #[test]
    fn kills_of_one_copy_of_a_groups_files_are_not_of_the_recording_beside_it() {
        let row = " 1  1 0 900000 1000 10000 0 0 9 9 1 1 1 1 1 97 0\n";
        let vmstat = format!(
            " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n{}",
            row.repeat(20)
        );
        let group = |name: &str, kills: u32| {
            ["low 0", "high 0", "max 1234", "oom 12", &format!("oom_kill {kills}")]
                .map(|line| format!("/sys/fs/cgroup/{name}/memory.events:{line}\n"))
                .concat()
        };
        let files = [("v.txt", vmstat), ("g.txt", group("a", 9) + &group("b", 0))];
        let documents = files.iter().map(|(name, text)| formats::read(name, text, None).unwrap()).collect();
        let all = patients(documents, None, None).unwrap();
        let [patient] = &all[..] else { panic!("{all:?}") };
        let finding = Diagnosis::of_patient(patient).findings.into_iter().find(|it| it.cause == "killed").unwrap();
        assert_eq!((finding.weight, &finding.when), (Weight::Notice, &None));
        assert!(finding.sentence.contains("12 times since it was made"), "{}", finding.sentence);
    }

    #[test]
    fn spans_of_an_archive_are_as_long_as_its_clock_says() {
        // Three lines every 30 s, the first of which is the average since boot; 5 minutes of 30 are ill.
        let section = |n: u32| {
            let moved = if (20..30).contains(&n) { 4000 } else { 0 };
            let row = |moved: u32| format!(" 1  1 900000 100000 1000 10000 {moved} {moved} 9 9 1 1 1 1 1 97 0\n");
            format!(
                "zzz ***Thu Nov 26 10:{:02}:{:02} UTC 2026\nprocs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n{}{}{}",
                n / 2,
                n % 2 * 30,
                row(5),
                row(moved),
                row(moved)
            )
        };
        let patient = patient("oswvmstat.dat", &(0..60).map(section).collect::<String>(), None).unwrap();
        let text = crate::doctor::text(std::slice::from_ref(&patient), report::Look::default());
        assert!(text.contains("oswvmstat.dat, 1772.0 s, of which samples cover 120.0 s: 1 illness"), "{text}");
        let finding = Diagnosis::of_patient(&patient).findings.remove(0);
        let when = finding.when.unwrap();
        assert_eq!((finding.cause, &*when.worst.place), ("anonymous-thrashing", "10:10:00 to 10:14:32"));
        assert_eq!((when.worst.seconds, when.together_s, when.of_s, when.over_for_s), (272.0, 272.0, 1772.0, 872.0));
        assert!(finding.sentence.starts_with("For 272 s (10:10:00 to 10:14:32): "), "{}", finding.sentence);
    }

    #[test]
    fn the_time_above_lines_counts_if_their_own_is_of_another_zone() {
        let heading =
            " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 CET\n";
        let row = |at: &str| format!(" 1  1 9000 100000 1000 10000 0 0 9 9 1 1 1 1 1 97 0 2026-11-26 {at}\n");
        let text = format!(
            "zzz ***Thu Nov 26 10:00:00 UTC 2026\n{heading}{}{}{}",
            row("11:00:00"),
            row("11:00:10"),
            row("11:00:20")
        );
        let patient = patient("v", &text, None).unwrap();
        let places: Vec<String> = patient.course.iter().map(|it| it.place.to_string()).collect();
        assert_eq!(places, ["10:00:00 to 10:00:10", "10:00:10 to 10:00:20"]);
    }

    fn documents(text: &str) -> Vec<Document> {
        vec![recordings::formats::read("f", text, None).unwrap()]
    }

    #[test]
    fn disks_alone_are_a_patient_and_beside_a_recording_of_its_computer() {
        let alone = patient("io.txt", BUSY, None).unwrap();
        let findings = Diagnosis::of_patient(&alone).findings;
        assert_eq!(findings.iter().map(|it| it.cause).collect::<Vec<_>>(), ["busy-disk"]);
        let sentence = &findings[0].sentence;
        assert!(
            sentence.starts_with("The disk sda is busy 99 % of the time: a read takes 9 ms, a write takes 180 ms."),
            "{sentence}"
        );
        assert!(sentence.contains("disks do not tell"), "{sentence}");
        let line = |si: u32| format!(" 1 3 500000 10000 10 100 {si} 3000 9 9 1 1 1 1 1 97 0\n");
        let vmstat = |si: u32| {
            let heading = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
            format!("{heading}{}{}{}", line(si), line(si), line(si))
        };
        for (si, part) in
            [(4000, "Memory has a part in it: 1000 pages a second come back from swap."), (0, "do not tell")]
        {
            let files = [("io.txt", BUSY.to_owned()), ("v.txt", vmstat(si))];
            let documents = files.iter().map(|(name, text)| formats::read(name, text, None).unwrap()).collect();
            let all = patients(documents, None, None).unwrap();
            let [patient] = &all[..] else { panic!("{all:?}") };
            assert_eq!(patient.name, "iostat and vmstat, v.txt");
            let found = Diagnosis::of_patient(patient).findings.into_iter().find(|it| it.cause == "busy-disk").unwrap();
            assert!(found.sentence.contains(part), "{}", found.sentence);
        }
    }

    fn found(signs: &Signs) -> (Vec<&'static str>, Vec<&'static str>) {
        let Diagnosis { findings, unasked, .. } = Diagnosis::of(signs);
        (findings.iter().map(|it| it.cause).collect(), unasked.iter().map(|it| it.cause).collect())
    }

    #[test]
    fn vmstat_tells_of_swap_alone() {
        let line = |si: u32, so: u32| format!(" 1  1 9000 100000 1000 10000 {si} {so} 9 9 1 1 1 1 1 97 0\n");
        let heading =
            "procs ---memory--\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
        let text = [heading, &line(0, 0), &line(800, 600), &line(400, 0)].concat();
        let of = |every_s| patient("v", &text, every_s).unwrap().signs;
        let signs = of(None);
        assert_eq!((signs.elapsed_s, signs.swapped_in, signs.swapped_out), (Some(2.0), Some(300.0), Some(150.0)));
        assert_eq!(signs.assumed, ["an interval of 1 s, since the text tells none (--interval does)"]);
        let every_five = of(Some(5.0));
        assert_eq!((every_five.elapsed_s, every_five.swapped_in), (Some(10.0), Some(1500.0)));
        assert!(every_five.assumed.is_empty());
        let (causes, unasked) = found(&signs);
        assert_eq!(causes, ["anonymous-thrashing"]);
        assert!(["direct-reclaim", "kswapd-awake", "swap-full", "killed"].iter().all(|it| unasked.contains(it)));
    }

    #[test]
    fn sar_does_not_tell_whose_pages_were_reclaimed() {
        let text = |direct: u32| {
            format!(
                "Linux 6.1 (vm) 11/25/26 _x86_64_ (2 CPU)\n\n10:00:00 pgscank/s pgscand/s pgsteal/s majflt/s\n\
                 10:00:10 1000.00 {direct}.00 200.00 1.00\n\n10:00:00 pswpin/s pswpout/s\n10:00:10 0.00 0.00\n"
            )
        };
        let (causes, unasked) = found(&patient("s", &text(0), None).unwrap().signs);
        assert_eq!(causes, ["kswapd-in-vain", "kswapd-awake"]);
        assert!(!unasked.contains(&"direct-reclaim") && unasked.contains(&"file-cache-thrashing"));
        let both = patient("s", &text(500), None).unwrap().signs;
        let (causes, unasked) = found(&both);
        assert_eq!((both.elapsed_s, both.stolen_together), (Some(10.0), Some(2000.0)));
        // Per 100 pages that kswapd scanned, all reclaimers together reclaimed 20; per 100 that tasks scanned, 40.
        assert!(causes.contains(&"direct-reclaim") && causes.contains(&"kswapd-in-vain"), "{causes:?} {unasked:?}");
        assert!(!causes.contains(&"direct-in-vain") && unasked.contains(&"direct-in-vain"), "{causes:?} {unasked:?}");
        let finding = Diagnosis::of(&both).findings.into_iter().find(|it| it.cause == "kswapd-in-vain").unwrap();
        assert!(finding.sentence.contains("it can reclaim at most 20."), "{}", finding.sentence);
        // A reclaimer that scans next to nothing does not count as ineffective.
        let (causes, unasked) = found(&patient("s", &text(1), None).unwrap().signs);
        assert!(!causes.contains(&"direct-in-vain") && !unasked.contains(&"direct-in-vain"), "{unasked:?}");
    }

    #[test]
    fn a_setting_that_is_given_beside_a_recording_is_told_with_what_is_found() {
        let heading =
            "procs ---memory--\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
        let line = " 1  1 900000 100000 1000 3000000 900 900 9 9 1 1 1 1 1 97 0\n";
        let text = [heading, line, line].concat();
        let step = |swappiness: &str| {
            let read = |file: &str, text: &str| formats::read(file, text, None).unwrap();
            let sysctl = format!("vm.swappiness = {swappiness}\n");
            let all = patients(vec![read("v", &text), read("s", &sysctl)], None, None).unwrap();
            let [patient] = all.as_slice() else { panic!("{all:?}") };
            let finding = Diagnosis::of(&patient.signs).findings.into_iter().find(|it| it.cause == "swap-beside-cache");
            let finding = finding.unwrap();
            assert!(finding.sentence.contains(&format!("vm.swappiness is {swappiness}")), "{}", finding.sentence);
            finding.next[0].show()
        };
        assert!(step("100").starts_with("set vm.swappiness (now 100) to 60 or less"), "{}", step("100"));
        assert!(!step("5").contains("swappiness"), "it is low already: {}", step("5"));
    }

    /// Diagnoses one patient from several files. `files` has the name and the text of each. Returns the cause, weight
    /// and sentence of each finding.
    fn of_files(files: &[(&str, &str)], seconds: Option<f64>) -> Vec<(&'static str, Weight, String)> {
        let read = |(file, text): &(&str, &str)| formats::read(file, text, None).unwrap();
        let all = patients(files.iter().map(read).collect(), None, seconds).unwrap();
        let [patient] = all.as_slice() else { panic!("{all:?}") };
        let findings = Diagnosis::of(&patient.signs).findings.into_iter();
        findings.map(|it| (it.cause, it.weight, it.sentence)).collect()
    }

    #[test]
    fn files_of_one_cgroup_are_a_patient_of_their_own() {
        let stat = |pages: u64| {
            format!(
                "anon 4096\nfile 8192\npgfault 9\npgmajfault {pages}\nworkingset_refault_file {pages}\npgscan {0}\npgsteal {0}\n",
                2 * pages
            )
        };
        let (earlier, later) = (stat(100_000), stat(200_000));
        let waits =
            "some avg10=60.00 avg60=10.00 avg300=0.00 total=9\nfull avg10=48.00 avg60=0.00 avg300=0.00 total=5\n";
        // A file `memory.pressure` is recognised by its name, too.
        let found = of_files(&[("memory.pressure", waits)], None);
        assert_eq!((found.len(), found[0].0, found[0].1), (1, "all-wait", Weight::Illness));
        let found = of_files(&[("memory.stat", &earlier)], None);
        assert_eq!((found.len(), found[0].0, found[0].1), (1, "group-thrashing", Weight::Notice));
        assert!(
            found[0].2.starts_with(
                "Since the cgroup of these files was made 100000 pages came back that reclaim had taken, 50 for"
            ),
            "{found:?}"
        );
        let found = of_files(&[("./memory.stat", &earlier), ("./memory.pressure", waits)], None);
        let causes: Vec<_> = found.iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(causes, [("group-thrashing", Weight::Illness), ("all-wait", Weight::Illness)]);
        for names in [["memory.stat.before", "memory.stat.after"], ["a/memory.stat", "b/memory.stat"]] {
            let found = of_files(&[(names[0], &earlier), (names[1], &later)], Some(10.0));
            let it = found.iter().find(|it| it.0 == "group-thrashing").expect("the group thrashes");
            assert!(
                it.1 == Weight::Illness && it.2.contains("took of it, 10000 refaults a second"),
                "{names:?}: {it:?}"
            );
        }
    }

    #[test]
    fn what_a_cgroup_counted_since_it_was_made_is_no_illness_of_now() {
        let events = "low 0\nhigh 0\nmax 120000\noom 3\noom_kill 1\n";
        let found = of_files(&[("./memory.events", events)], None);
        let causes: Vec<_> = found.iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(causes, [("killed", Weight::Notice), ("cgroup-limit", Weight::Notice)]);
        assert!(
            found[0]
                .2
                .starts_with("The cgroup of these files was out of memory at its limit 3 times since it was made"),
            "{found:?}"
        );
        assert!(found[1].2.contains("by a limit: the cgroup of these files came to its limit."), "{found:?}");
    }

    #[test]
    fn a_text_that_tells_no_size_of_memory_is_shown() {
        let slabtop = "  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME\n\
                       734506000 734506000 100%    0.06K 11476600       64  45906400K ebitmap_node\n\
                       382000 323000  84%    0.19K   9100       42     72800K dentry\n";
        let found = of_files(&[("slabtop.txt", slabtop)], None);
        assert_eq!((found.len(), found[0].0, found[0].1), (1, "largest-users", Weight::Notice));
        assert!(found[0].2.contains("are ebitmap_node (44830 MiB, 100 %), dentry"), "{found:?}");
        assert!(found[0].2.contains("/proc/meminfo beside it"), "{found:?}");
    }

    #[test]
    fn an_empty_swap_is_not_full_however_large_it_is() {
        let heading =
            "procs ---memory--\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
        let line = |used: u32| format!(" 1  1 {used} 100000 1000 10000 0 0 9 9 1 1 1 1 1 97 0\n");
        let unasked = |used: u32| {
            let text = [heading, &line(0), &line(0), &line(used)].concat();
            found(&patient("v", &text, None).unwrap().signs).1
        };
        assert!(!unasked(0).contains(&"swap-full") && unasked(8).contains(&"swap-full"));
    }

    /// Returns the illnesses found, the rules that could not be asked, and the missing files, for a log directory of
    /// MMTests with the given files.
    fn of_logs(files: &[(&str, String)]) -> (Vec<&'static str>, Vec<&'static str>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let (patients, wrong) = patients_of_mmtests(folder.path()).unwrap();
        assert_eq!(wrong, []);
        let signs = &patients[0].signs;
        let (causes, unasked) = found(signs);
        (causes, unasked, signs.missing.clone())
    }

    fn copies(scanned: u32, others: &str, others_after: &str) -> String {
        let counters = |scanned: u32| {
            format!(
                "/proc/vmstat\npgscan_kswapd {scanned}\npgscan_direct 0\npswpin 0\npswpout 0\nworkingset_refault_file 0\n"
            )
        };
        format!(
            "test begin :: a 10\nfile start :: {}{others}file end :: {}{others_after}test end :: a 20\n",
            counters(0),
            counters(scanned)
        )
    }

    #[test]
    fn stalls_and_free_swap_of_mmtests_are_asked_where_its_logs_tell_them() {
        let both = |wanted: &[&'static str]| ["all-wait", "swap-full"].map(|cause| wanted.contains(&cause));
        // Memory was short, and no other file was kept.
        let (_, unasked, missing) = of_logs(&[("tests-timestamp", copies(5000, "", ""))]);
        assert_eq!(both(&unasked), [true, true]);
        assert!(missing[0].starts_with("/proc/pressure/memory: ") && missing[1].starts_with("/proc/meminfo: "));
        // On a computer with enough memory, no task waits.
        let (causes, unasked, missing) = of_logs(&[("tests-timestamp", copies(0, "", ""))]);
        assert_eq!((both(&causes), both(&unasked), missing.len()), ([false, false], [false, true], 1));
        let pressure = |when: &str, full: u32| {
            let line = |who: &str, total: u32| format!("{who} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
            format!("file {when} :: /proc/pressure/memory\n{}{}", line("some", 9_000_000), line("full", full))
        };
        let meminfo = |free: u32| format!("MemFree: 5 kB\nSwapTotal:  4000 kB\nSwapFree:  {free} kB\n");
        let after =
            |full: u32, free: u32| format!("{}file end :: /proc/meminfo\n{}", pressure("end", full), meminfo(free));
        // Some task waited 2 of 10 s, and swap is free at the end.
        let timestamp = copies(5000, &pressure("start", 1_000_000), &after(3_000_000, 3000));
        let (causes, unasked, missing) = of_logs(&[("tests-timestamp", timestamp.clone())]);
        assert_eq!((both(&causes), both(&unasked), missing.len()), ([true, false], [false, false], 0));
        // Swap was full during the benchmark, as either of two monitors shows.
        let monitor = format!("time: 10\n{}time: 15\n{}", meminfo(3000), meminfo(8));
        let vmstat = " procs ---memory--\n r b swpd si\n 1 1 0 0\n 1 1 3996 0\n".to_owned();
        for file in [("proc-meminfo-a", monitor), ("vmstat-a", vmstat)] {
            let (causes, ..) = of_logs(&[("tests-timestamp", timestamp.clone()), file]);
            assert_eq!(both(&causes), [true, true]);
        }
    }
}
