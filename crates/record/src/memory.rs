//! The memory of a recorded program over time: figures from `/proc` and from the program's cgroup, read at intervals.

use crate::working_set;
use figures::cgroup::{Cgroup, Version};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// Largest number of memory samples that are kept. When it is reached, every second sample is dropped.
const SAMPLES_MAX: usize = 8192;

/// Least anonymous memory of a process, bytes, for which the recorder finds out how much of it other processes share.
const SHARED_MIN: u64 = 1 << 20;

/// The options by which the memory of recorded processes is sampled.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Interval between two samples of memory.
    pub every: Duration,
    /// Length of the intervals for which the working set is measured: the anonymous memory that is touched in an
    /// interval. `None` if it is not measured.
    pub working_set: Option<Duration>,
    /// The cgroup that contains only the recorded program; `None` if there is no such cgroup.
    pub cgroup: Option<Cgroup>,
}

/// The memory of the recorded processes at one time, bytes. The fields from `anon` to `page_tables` are sums over the
/// processes. An anonymous page that several processes share after a fork counts once; a page of a file or of shared
/// memory counts once for each process that maps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    time_us: u64,
    processes: u64,
    anon: u64,
    file: u64,
    shmem: u64,
    swap: u64,
    page_tables: u64,
    /// The cgroup's anonymous memory, page cache and kernel memory, bytes; `None` without a cgroup.
    cgroup: Option<[u64; 3]>,
}

impl Sample {
    /// Returns the resident anonymous and shared memory of the processes, bytes.
    const fn resident(&self) -> u64 {
        self.anon + self.shmem
    }

    fn described(&self) -> Value {
        let mut map = Map::new();
        let fields = [
            ("time_us", self.time_us),
            ("processes", self.processes),
            ("anon_bytes", self.anon),
            ("file_bytes", self.file),
            ("shmem_bytes", self.shmem),
            ("swap_bytes", self.swap),
            ("page_table_bytes", self.page_tables),
        ];
        let of_cgroup = self.cgroup.into_iter().flat_map(|values| CGROUP_FIELDS.into_iter().zip(values));
        for (name, value) in fields.into_iter().chain(of_cgroup) {
            map.insert(name.to_owned(), json!(value));
        }
        Value::Object(map)
    }
}

const CGROUP_FIELDS: [&str; 3] = ["cgroup_anon_bytes", "cgroup_cache_bytes", "cgroup_kernel_bytes"];

/// Samples of memory and of the working set over the time of a recording.
#[derive(Debug)]
pub struct Course {
    watch: Watch,
    samples: Vec<Sample>,
    /// One of this many samples is kept.
    thinned: u32,
    looks: u32,
    next: Instant,
    peak: Sample,
    peak_resident: u64,
    working_sets: Vec<working_set::Sample>,
    next_set: Instant,
    /// Processes whose accessed bits were cleared at the last measurement of the working set.
    cleared: BTreeSet<u32>,
}

impl Course {
    /// Creates an empty record of memory use. The first sample is due at once.
    #[must_use]
    pub fn new(watch: Watch) -> Self {
        let now = Instant::now();
        Self {
            watch,
            samples: Vec::new(),
            thinned: 1,
            looks: 0,
            next: now,
            peak: Sample::default(),
            peak_resident: 0,
            working_sets: Vec::new(),
            next_set: now,
            cleared: BTreeSet::new(),
        }
    }

    /// Returns whether the next sample of memory is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Takes a sample of the memory of `processes`. Also measures the working set if its interval is over. `time_us` is
    /// the time of the sample. `own` says how much of a process's resident shared memory belongs to the recording, bytes;
    /// this memory is not counted.
    pub fn look(&mut self, time_us: u64, processes: &BTreeSet<u32>, own: &dyn Fn(u32) -> u64) {
        let now = Instant::now();
        // After a long pause the lost looks are not made up for.
        self.next = (self.next + self.watch.every).max(now);
        let sample = self.sample(time_us, processes, own);
        self.keep(sample);
        if let Some(interval) = self.watch.working_set
            && now >= self.next_set
        {
            self.next_set = (self.next_set + interval).max(now);
            let touched = working_set::look(time_us, processes, &self.cleared);
            self.working_sets.extend(touched);
            self.cleared = working_set::forget(processes);
        }
    }

    fn keep(&mut self, sample: Sample) {
        let max = |one: &mut u64, other: u64| *one = (*one).max(other);
        max(&mut self.peak.anon, sample.anon);
        max(&mut self.peak.file, sample.file);
        max(&mut self.peak.shmem, sample.shmem);
        max(&mut self.peak.swap, sample.swap);
        max(&mut self.peak.page_tables, sample.page_tables);
        max(&mut self.peak.processes, sample.processes);
        max(&mut self.peak_resident, sample.resident());
        if let Some(new) = sample.cgroup {
            let peak = self.peak.cgroup.get_or_insert_default();
            peak.iter_mut().zip(new).for_each(|(peak, new)| *peak = (*peak).max(new));
        }
        self.looks += 1;
        if !self.looks.is_multiple_of(self.thinned) {
            return;
        }
        self.samples.push(sample);
        if self.samples.len() >= SAMPLES_MAX {
            let mut number = 0_u32;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.thinned *= 2;
        }
    }

    fn sample(&self, time_us: u64, processes: &BTreeSet<u32>, own: &dyn Fn(u32) -> u64) -> Sample {
        let mut sample = Sample { time_us, ..Sample::default() };
        let is_alone = processes.len() == 1;
        for process in processes {
            let Ok(text) = fs::read_to_string(format!("/proc/{process}/status")) else { continue };
            let of = |name: &str| kib(&text, name).unwrap_or(0) << 10;
            sample.processes += 1;
            let anon = of("RssAnon:");
            let is_shared = !is_alone && anon >= SHARED_MIN;
            sample.anon += is_shared.then(|| share_of_anon(*process)).flatten().unwrap_or(anon);
            sample.file += of("RssFile:");
            sample.shmem += of("RssShmem:").saturating_sub(own(*process));
            sample.swap += of("VmSwap:");
            sample.page_tables += of("VmPTE:");
        }
        sample.cgroup = self.watch.cgroup.as_ref().map(of_cgroup);
        sample
    }

    /// Returns the largest resident memory of all processes together, bytes. Pages of files are not included.
    #[must_use]
    pub const fn peak_resident(&self) -> u64 {
        self.peak_resident
    }

    /// Returns the largest kernel memory of the cgroup, bytes; without a cgroup, the largest size of the processes'
    /// page tables.
    #[must_use]
    pub fn peak_kernel(&self) -> u64 {
        self.peak.cgroup.map_or(self.peak.page_tables, |[_, _, kernel]| kernel)
    }

    /// Returns whether the program runs in a cgroup of its own. Then [`Self::peak_kernel`] is all kernel memory of the
    /// cgroup; otherwise it is only the memory of page tables.
    #[must_use]
    pub const fn has_cgroup(&self) -> bool {
        self.watch.cgroup.is_some()
    }

    /// Returns the samples of memory as JSON, for the metadata of a trace.
    #[must_use]
    pub fn described(&self) -> Value {
        Value::Array(self.samples.iter().map(Sample::described).collect())
    }

    /// Returns the largest value of each kind of memory as JSON, for the metadata of a trace. The values may be of
    /// different times.
    #[must_use]
    pub fn peaks(&self) -> Value {
        let mut peaks = self.peak.described();
        if let Some(map) = peaks.as_object_mut() {
            map.remove("time_us");
            map.insert("resident_bytes".to_owned(), json!(self.peak_resident));
            map.insert("kernel_bytes".to_owned(), json!(self.peak_kernel()));
            map.insert("kernel_of".to_owned(), json!(if self.has_cgroup() { "cgroup" } else { "page tables" }));
        }
        peaks
    }

    /// Returns the measured working sets as JSON, for the metadata of a trace; `None` if they were not measured.
    #[must_use]
    pub fn working_sets(&self) -> Option<Value> {
        let interval = self.watch.working_set?;
        Some(json!({
            "interval_us": interval.as_micros() as u64,
            "samples": self.working_sets.iter().map(working_set::Sample::described).collect::<Vec<_>>(),
        }))
    }
}

/// Returns the number, KiB, that follows `name` in a text of `/proc`, such as 123 in `RssAnon:   123 kB`.
pub fn kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// Returns the anonymous memory of a process, bytes, where a page that n processes share counts as an nth of a page. After
/// a fork, parent and child share their pages until one of them writes. Returns `None` if the kernel does not say (before
/// Linux 5.4), or if the process has ended.
fn share_of_anon(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    Some(kib(&text, "Pss_Anon:")? << 10)
}

/// Returns anonymous memory, page cache and kernel memory of a cgroup, bytes.
fn of_cgroup(cgroup: &Cgroup) -> [u64; 3] {
    let stat = cgroup.stat();
    let of = |name: &str| stat.get(name).copied().unwrap_or(0);
    match cgroup.version {
        Version::V1 => {
            let kernel = fs::read_to_string(cgroup.path.join("memory.kmem.usage_in_bytes"));
            let kernel = kernel.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            [of("rss"), of("cache"), kernel]
        }
        Version::V2 => [of("anon"), of("file"), of("kernel")],
    }
}

/// Returns the given processes and all their descendants.
#[must_use]
pub fn descendants(roots: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open: Vec<u32> = roots.into_iter().collect();
    while let Some(process) = open.pop() {
        if !found.insert(process) {
            continue;
        }
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            open.extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_seen_and_long_courses_are_thinned() {
        let watch = Watch { every: Duration::from_millis(1), working_set: None, cgroup: None };
        let mut course = Course::new(watch);
        let own = BTreeSet::from([std::process::id(), u32::MAX]);
        course.look(5, &own, &|_| 0);
        assert!(course.samples[0].anon > 100 << 10 && course.samples[0].processes == 1, "{:?}", course.samples);
        for time_us in 0..100_000 {
            course.keep(Sample { time_us, anon: time_us, ..Sample::default() });
        }
        assert!(course.samples.len() < SAMPLES_MAX && course.samples.len() > SAMPLES_MAX / 4);
        assert!(course.samples.is_sorted_by_key(|sample| sample.time_us) || course.samples[0].time_us == 5);
        assert!(course.peak_resident() >= 99_999);
    }

    #[test]
    fn a_process_descends_from_itself() {
        let own = std::process::id();
        assert!(descendants([own]).contains(&own));
    }
}
