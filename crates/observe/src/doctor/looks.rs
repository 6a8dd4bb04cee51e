//! Signs from texts about a moment: files of `/proc` and of cgroups, `free`, `top`, `slabtop`, a kernel log.
//!
//! All texts from one computer make one patient, which is the subject of a diagnosis. If a text comes twice, the growth
//! of its counters is used. If it comes once, its counters cover the time since boot, without a rate unless `top`
//! states the uptime.

use super::group_stat;
use super::signs::{Bounds, Node, OutOfMemory, Signs, Zone};
use super::source::{DirtyLooks, of_counters};
use super::usage::{MemoryUse, Usage};
use engine::stat::Vmstat;
use figures::counters::difference;
use machine::PAGE_BYTES;
use recordings::PAGE_KIB;
use recordings::kernel_log::{Log, Report};
use recordings::looks::free::{Sizes, Unit};
use recordings::looks::{
    Buddyinfo, CgroupFiles, Free, Meminfo, Pressure, Processes, Resource, Slabs, Swaps, Sysctls, Told, VmstatFile,
    Zoneinfo, zoneinfo,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Texts that each show one computer at a moment, such as copies of `/proc/meminfo`. The texts are sorted by kind.
/// Texts of one kind are kept in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looks {
    meminfo: Vec<Meminfo>,
    vmstat: Vec<VmstatFile>,
    zoneinfo: Vec<Zoneinfo>,
    buddyinfo: Vec<Buddyinfo>,
    slabs: Vec<Slabs>,
    pressure: Vec<(Option<Resource>, Pressure)>,
    cgroups: Vec<CgroupFiles>,
    swaps: Vec<Swaps>,
    free: Vec<(Free, Option<Unit>)>,
    processes: Vec<Processes>,
    sysctls: Vec<Sysctls>,
    log: Option<Log>,
}

impl Looks {
    /// Adds a text to the texts of its kind.
    pub fn add(&mut self, told: Told) {
        match told {
            Told::Meminfo(look) => {
                // Each node has a file of its own, which is added to the files of the nodes before it.
                let another = match self.meminfo.last_mut() {
                    Some(last) => last.add_nodes(look).err(),
                    None => Some(look),
                };
                self.meminfo.extend(another);
            }
            Told::Vmstat(look) => self.vmstat.push(look),
            Told::Zoneinfo(look) => self.zoneinfo.push(look),
            Told::Buddyinfo(look) => self.buddyinfo.push(look),
            Told::Slabs(look) => self.slabs.push(look),
            Told::Pressure(resource, look) => self.pressure.push((resource, look)),
            Told::Cgroup(look) => self.cgroups.push(look),
            Told::Swaps(look) => self.swaps.push(look),
            Told::Free(look, unit) => self.free.push((look, unit)),
            Told::Processes(look) => self.processes.push(look),
            Told::Sysctls(look) => self.sysctls.push(look),
            Told::Log(log) => match &mut self.log {
                Some(known) => known.extend(log),
                None => self.log = Some(log),
            },
        }
    }

    /// Returns whether no text was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the input contains at least two copies of a text with counters, taken at different times, such
    /// as two of `/proc/vmstat`. Otherwise, no time between copies needs to be known.
    #[must_use]
    pub fn has_two(&self) -> bool {
        let kinds = [Resource::Memory, Resource::MemoryOfGroup];
        let has_two_of_psi = kinds.into_iter().any(|of| self.memory_pressure(Some(of)).count() >= 2);
        let has_stalls = |look: &&&CgroupFiles| look.pressure.some.is_some();
        let of_groups = || {
            let groups = self.groups(Some(1.0));
            groups.values().any(|looks| are_copies(looks) || looks.iter().filter(has_stalls).count() >= 2)
        };
        self.vmstat.len() >= 2 || has_two_of_psi || of_groups()
    }

    /// Returns the largest number of copies that the input has of a file of PSI or of a cgroup; 0 if no file was given
    /// twice.
    fn copies(&self) -> usize {
        if !self.has_two() {
            return 0;
        }
        let kinds = [Resource::Memory, Resource::MemoryOfGroup];
        let of_psi = kinds.into_iter().map(|of| self.memory_pressure(Some(of)).count());
        let of_groups = self.groups(Some(1.0)).into_values().map(|looks| looks.len());
        of_psi.chain(of_groups).max().unwrap_or(0)
    }

    /// Returns whether the input has files of a cgroup of version 1.
    fn is_v1(&self) -> bool {
        const FILES: [&str; 4] =
            ["memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt", "memory.oom_control"];
        self.cgroups.iter().any(|look| FILES.iter().any(|file| look.files.contains_key(*file)))
    }

    /// Returns the names of the files and commands in the input, as next steps name them.
    fn given(&self) -> BTreeSet<&'static str> {
        let kinds = [
            ("/proc/meminfo", self.meminfo.iter().any(|look| look.nodes.is_empty())),
            ("numastat -m", self.meminfo.iter().any(|look| !look.nodes.is_empty())),
            ("/proc/vmstat", !self.vmstat.is_empty()),
            ("/proc/zoneinfo", !self.zoneinfo.is_empty()),
            ("/proc/buddyinfo", !self.buddyinfo.is_empty()),
            ("slabtop", !self.slabs.is_empty()),
            ("swapon", !self.swaps.is_empty()),
            ("ps -eo rss", self.processes.iter().any(|look| !look.all.is_empty())),
            ("dmesg", self.log.is_some()),
        ];
        let has_file = |file: &&str| {
            let is_it = |look: &CgroupFiles| {
                look.files.contains_key(*file) || *file == "memory.pressure" && look.pressure.some.is_some()
            };
            self.cgroups.iter().any(is_it)
        };
        let files = ["memory.stat", "memory.current", "memory.pressure", "memory.usage_in_bytes"];
        let kinds = kinds.into_iter().filter_map(|(name, is_given)| is_given.then_some(name));
        kinds.chain(files.into_iter().filter(has_file)).collect()
    }

    /// Returns the PSI of `resource` in each text that has it. PSI in a text that does not state the resource counts as
    /// that of the computer's memory.
    fn memory_pressure(&self, resource: Option<Resource>) -> impl Iterator<Item = &Pressure> {
        let is_it = move |of: &Option<Resource>| of.or(Some(Resource::Memory)) == resource;
        self.pressure.iter().filter(move |(of, _)| is_it(of)).map(|(_, look)| look)
    }

    /// Returns the signs in all texts. `seconds` is the time between two copies of a text, if known.
    #[must_use]
    pub fn signs(&self, seconds: Option<f64>) -> Signs {
        let mut signs = Signs { is_v1: self.is_v1(), given: self.given(), ..self.counters(seconds) };
        self.stalls(&mut signs, seconds);
        self.cgroups(&mut signs, seconds);
        if self.is_of_one_group(&signs)
            && let Some((name, group)) = signs.groups.pop_first()
        {
            let (at_limit, out_of_memory) = (signs.at_limit.take(), signs.out_of_memory.take());
            // If PSI comes without a name, it belongs to the cgroup whose files are given with it.
            let some_waited_percent = group.some_waited_percent.or(signs.some_waited_percent);
            let all_waited_percent = group.all_waited_percent.or(signs.all_waited_percent);
            let (settings, assumed) = (self.settings(), signs.assumed);
            let is_mounted = self.cgroups.iter().any(|look| look.path.as_ref().is_some_and(|it| it.starts_with(MOUNT)));
            let folder = if is_mounted { format!("{MOUNT}{name}") } else { name };
            let (is_v1, given) = (signs.is_v1, signs.given);
            let group = Signs { group: Some(folder), some_waited_percent, all_waited_percent, is_v1, given, ..group };
            return Signs { at_limit, out_of_memory, settings, assumed, ..group };
        }
        signs.zones = self.zones();
        signs.nodes = self.nodes();
        signs.usage = self.usage(&mut signs.assumed);
        if self.meminfo.iter().any(|look| look.values.get("MemTotal") == Some(&0)) {
            signs.missing.push("MemTotal: it is 0 kB, so that no share of memory can be computed".to_owned());
        }
        signs.swap = self.swap(&mut signs.assumed).or(signs.swap);
        let kib = |kib: f64| kib / PAGE_KIB;
        if let Some(slabs) = self.slabs.last() {
            signs.slabs = of_slabs(slabs);
        }
        // Since 4.15 the kernel's report names unreclaimable caches when they have much memory.
        let of_report = || self.log.iter().flat_map(|log| &log.reports).rfind(|report| !report.slabs.is_empty());
        if let Some(report) = of_report().filter(|_| signs.slabs.is_empty()) {
            signs.slabs = largest_first(report.slabs.iter().map(|(name, size)| (name.clone(), kib(*size as f64))));
        }
        if let Some(processes) = self.processes.iter().rev().find(|look| !look.all.is_empty()) {
            let all = processes.all.iter().filter(|process| process.rss_kib > 0.0);
            signs.processes = largest_first(all.map(|process| (process.name.clone(), kib(process.rss_kib))));
        }
        // `ps` puts the names of threads of the kernel in brackets.
        let is_kswapd = |name: &str| {
            name.trim_matches(['[', ']']).strip_prefix("kswapd").is_some_and(|node| node.parse::<u32>().is_ok())
        };
        let shown = self.processes.iter().flat_map(|look| &look.all).filter(|process| is_kswapd(&process.name));
        signs.kswapd_shown_percent = shown.filter_map(|process| process.cpu_percent).reduce(f64::max);
        signs.log = self.log.clone().map(Arc::new);
        signs.settings = self.settings();
        signs
    }

    /// Returns the signs from copies of `/proc/vmstat`: the growth of its counters between two copies or, with one
    /// copy, their values since boot.
    fn counters(&self, seconds: Option<f64>) -> Signs {
        let (Some(VmstatFile(first)), Some(VmstatFile(last))) = (self.vmstat.first(), self.vmstat.last()) else {
            let copies = self.copies();
            let mut signs = Signs { elapsed_s: over_all(seconds, copies).filter(|_| copies >= 2), ..Signs::default() };
            if copies >= 2 && seconds.is_none() && self.pressure.len() >= 2 {
                signs.missing.push("the time between one copy of PSI and the next (--seconds tells it)".to_owned());
            }
            return signs;
        };
        if self.vmstat.len() == 1 {
            let uptime_s = self.processes.iter().find_map(|look| look.uptime_s);
            return Signs {
                elapsed_s: uptime_s,
                is_since_start: true,
                ..of_counters(last, uptime_s.unwrap_or_default())
            }
            .without_time_if(uptime_s.is_none());
        }
        let mut assumed = Vec::new();
        let (before, after) = if went_back(first, last) {
            assumed.push(
                "the copy of /proc/vmstat that was given last is the earlier one, since its counters are less"
                    .to_owned(),
            );
            (last, first)
        } else {
            (first, last)
        };
        let grown = difference(before, after);
        let elapsed_s = over_all(seconds, self.vmstat.len());
        let mut signs = of_counters(&grown, elapsed_s.unwrap_or_default()).without_time_if(elapsed_s.is_none());
        let mut dirty = DirtyLooks::default();
        self.vmstat.iter().for_each(|VmstatFile(levels)| dirty.look(levels));
        signs.dirty = dirty.finish(grown.get("nr_dirtied").map(|pages| *pages as f64));
        signs.assumed = assumed;
        if seconds.is_none() {
            let which = if self.vmstat.len() > 2 {
                "one copy of /proc/vmstat and the next"
            } else {
                "both copies of /proc/vmstat"
            };
            signs.missing.push(format!("the time between {which} (--seconds tells it)"));
        }
        signs
    }

    /// Adds the PSI of the computer's memory to `signs`.
    fn stalls(&self, signs: &mut Signs, seconds: Option<f64>) {
        let of_groups = self.cgroups.iter().filter(|look| look.pressure.some.is_some()).count();
        let of_computer = self.memory_pressure(Some(Resource::Memory)).count();
        if of_computer + self.memory_pressure(Some(Resource::MemoryOfGroup)).count() + of_groups == 0 {
            return;
        }
        if self.pressure.iter().any(|(resource, _)| resource.is_none()) {
            signs.assumed.push("a text of PSI whose resource is not told is of memory".to_owned());
        }
        (signs.some_waited_percent, signs.all_waited_percent) = self.stalls_of(Some(Resource::Memory), seconds);
        if self.pressure.len().max(of_groups) < 2 || seconds.is_none() {
            signs.assumed.push("of PSI the worst of the last 10, 60 and 300 s".to_owned());
        }
    }

    /// Returns two shares of time, percent: the time in which at least one task waited for `resource` (`some` of PSI),
    /// and the time in which all tasks waited for it (`full`). If the texts contain two copies of the resource's
    /// pressure file, and the time between them is known, the shares are of that time. Otherwise, each share is the
    /// largest of the averages over 10, 60 and 300 s.
    fn stalls_of(&self, resource: Option<Resource>, seconds: Option<f64>) -> (Option<f64>, Option<f64>) {
        stalls_in(&self.memory_pressure(resource).collect::<Vec<_>>(), seconds)
    }

    /// Adds the cgroups that the texts describe to `signs`, each with its counters: their growth between two copies of
    /// a text, or, if there is only one copy, their values since the cgroup was made.
    fn cgroups(&self, signs: &mut Signs, seconds: Option<f64>) {
        for (name, looks) in self.groups(seconds) {
            let grown = |file: &str, counter: &str| {
                let told: Vec<u64> = looks.iter().filter_map(|look| look.get(file, counter)).collect();
                let last = *told.last()?;
                Some(if told.len() >= 2 { last.saturating_sub(told[0]) } else { last } as f64)
            };
            let mut group = of_stat(&looks, seconds);
            let events =
                |counter: &str| grown("memory.events.local", counter).or_else(|| grown("memory.events", counter));
            group.bounds = Bounds { high_events: events("high"), low_events: events("low"), ..bounds(&looks) }.if_any();
            let stalls: Vec<&Pressure> =
                looks.iter().map(|look| &look.pressure).filter(|it| it.some.is_some()).collect();
            (group.some_waited_percent, group.all_waited_percent) = stalls_in(&stalls, seconds);
            if let Some(times) = events("max").or_else(|| grown("memory.failcnt", "")) {
                signs.at_limit.get_or_insert_default().insert(name.clone(), times);
                group.at_limit = Some([(name.clone(), times)].into());
            }
            let last = |file: &str, counter: &str| looks.iter().rev().find_map(|look| look.get(file, counter));
            let control = |counter: &str| last("memory.oom_control", counter);
            let kills = events("oom_kill").or_else(|| grown("memory.oom_control", "oom_kill"));
            if let Some(kills) = kills {
                let told = OutOfMemory {
                    times: events("oom").unwrap_or(0.0),
                    kills,
                    group_kills: events("oom_group_kill").unwrap_or(0.0),
                    is_waiting: control("under_oom") == Some(1) && control("oom_kill_disable") == Some(1),
                };
                let all = signs.out_of_memory.get_or_insert_default();
                if told != OutOfMemory::default() {
                    all.insert(name.clone(), told);
                }
            }
            signs.groups.insert(name, group);
        }
        let stalls = self.stalls_of(Some(Resource::MemoryOfGroup), seconds);
        // If there are several cgroups, the text does not say which one waited.
        let is_one = signs.groups.len() == 1;
        if let Some(group) = signs.groups.values_mut().next().filter(|_| is_one) {
            group.some_waited_percent = group.some_waited_percent.or(stalls.0);
            group.all_waited_percent = group.all_waited_percent.or(stalls.1);
        } else if signs.some_waited_percent.is_none() {
            (signs.some_waited_percent, signs.all_waited_percent) = stalls;
        }
    }

    /// Returns the cgroup files by the name of their cgroup, in the order in which they were given. If the files were
    /// saved outside the cgroup file system and the user stated the time between copies, all of them count as files of
    /// one cgroup.
    fn groups(&self, seconds: Option<f64>) -> BTreeMap<String, Vec<&CgroupFiles>> {
        const OF_FILES: &str = "the cgroup of these files";
        let mut by_name: BTreeMap<String, Vec<&CgroupFiles>> = BTreeMap::new();
        let is_saved = |look: &&CgroupFiles| look.path.as_ref().is_none_or(|path| !path.starts_with(MOUNT));
        if seconds.is_some() && self.cgroups.iter().all(|look| is_saved(&look)) && !self.cgroups.is_empty() {
            return [(OF_FILES.to_owned(), self.cgroups.iter().collect())].into();
        }
        for look in &self.cgroups {
            let path = look.path.as_deref().map(|path| path.trim_start_matches(MOUNT));
            let name = path.filter(|path| !path.is_empty()).unwrap_or(OF_FILES);
            by_name.entry(name.to_owned()).or_default().push(look);
        }
        by_name
    }

    /// Returns whether the input has the texts of exactly one cgroup, and no text about the whole computer.
    fn is_of_one_group(&self, signs: &Signs) -> bool {
        let Self { meminfo, vmstat, zoneinfo, buddyinfo, slabs, free, processes, log, .. } = self;
        let others = [meminfo.len(), vmstat.len(), zoneinfo.len(), buddyinfo.len(), slabs.len(), free.len()];
        signs.groups.len() == 1 && others == [0; 6] && processes.is_empty() && log.is_none()
    }

    /// Returns the zones of the last `/proc/zoneinfo`, with the free blocks of the last `/proc/buddyinfo`. Without
    /// `/proc/zoneinfo`, the zones come from `/proc/buddyinfo` alone. Returns none if neither file was given.
    fn zones(&self) -> Option<Vec<Zone>> {
        let blocks = self.buddyinfo.last().map(|look| look.zones.as_slice()).unwrap_or_default();
        let of_zone = |node: u32, name: &str| {
            let found = blocks.iter().find(|(its, zone, _)| (*its, &**zone) == (node, name));
            found.map(|(.., blocks)| blocks.iter().map(|count| *count as f64).collect()).unwrap_or_default()
        };
        if let Some(zoneinfo) = self.zoneinfo.last() {
            return Some(
                zoneinfo
                    .zones
                    .iter()
                    .filter(|zone| zone.managed() > 0)
                    .map(|zone| Zone {
                        name: zone.called(),
                        free: zone.get("free").unwrap_or(0) as f64,
                        marks: ["min", "low", "high"].map(|mark| zone.get(mark).unwrap_or(0) as f64),
                        blocks: of_zone(zone.node, &zone.name),
                    })
                    .collect(),
            );
        }
        (!blocks.is_empty()).then(|| {
            let zone = |(node, name, blocks): &(u32, String, Vec<u64>)| {
                let blocks: Vec<f64> = blocks.iter().map(|count| *count as f64).collect();
                let free = blocks.iter().zip(0..).map(|(count, order)| count * f64::from(1_u32 << order)).sum();
                Zone { name: zoneinfo::called(*node, name), free, blocks, ..Zone::default() }
            };
            blocks.iter().map(zone).collect()
        })
    }

    /// Returns the memory nodes from the last `/proc/zoneinfo` or, if there is none, from the `meminfo` files of the
    /// nodes.
    fn nodes(&self) -> Vec<Node> {
        let mut by_node: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
        for zone in self.zoneinfo.last().iter().flat_map(|look| &look.zones) {
            let [pages, free] = by_node.entry(zone.node).or_default();
            *pages += zone.managed() as f64;
            *free += zone.get("free").unwrap_or(0) as f64;
        }
        if let Some(look) = self.meminfo.iter().rfind(|look| !look.nodes.is_empty()).filter(|_| by_node.is_empty()) {
            let pages = |kib: u64| kib as f64 / PAGE_KIB;
            by_node.extend(look.nodes.iter().map(|(node, [total, free])| (*node, [pages(*total), pages(*free)])));
        }
        let node =
            |(node, [pages, free]): (u32, [f64; 2])| Node { name: node.to_string(), pages, free, ..Node::default() };
        by_node.into_iter().map(node).collect()
    }

    /// Returns the use of memory from the text that shows it in most detail: from `/proc/meminfo` if there is one, or
    /// else from `free` or another text. Returns none if no text shows it.
    fn usage(&self, assumed: &mut Vec<String>) -> Option<Usage> {
        // Files of nodes have less than `/proc/meminfo`.
        let has_whole = self.meminfo.iter().any(|look| look.nodes.is_empty());
        let looks = self.meminfo.iter().filter(|look| look.nodes.is_empty() || !has_whole);
        let looks: Vec<Arc<MemoryUse>> = looks.filter_map(MemoryUse::of_meminfo).map(Arc::new).collect();
        if let (Some(first), Some(last)) = (looks.first(), looks.last()) {
            return Some(Usage::between(first, last));
        }
        let of_report = || self.log.iter().flat_map(|log| &log.reports).rev().find_map(of_report);
        let of_free = self.free.last().map(|(look, unit)| Usage::at(of_sizes(&sizes(look, *unit, assumed))));
        let of_top = || self.processes.iter().rev().find_map(of_top).map(Usage::at);
        let of_vmstat = || {
            let total =
                self.zoneinfo.last().map(|look| look.zones.iter().map(zoneinfo::Zone::managed).sum::<u64>() as f64);
            let levels =
                |VmstatFile(levels): &VmstatFile| Some(Arc::new(MemoryUse { total, ..MemoryUse::of_vmstat(levels)? }));
            Some(Usage::between(&self.vmstat.first().and_then(levels)?, &self.vmstat.last().and_then(levels)?))
        };
        let of_zoneinfo = || {
            let zones = &self.zoneinfo.last()?.zones;
            let free = zones.iter().filter_map(|zone| zone.get("free")).sum::<u64>() as f64;
            let total = zones.iter().map(zoneinfo::Zone::managed).sum::<u64>() as f64;
            Some(MemoryUse { total: Some(total), free: Some(free), ..MemoryUse::default() })
        };
        let of_others = || of_report().or_else(of_zoneinfo).map(Usage::at);
        of_free.or_else(of_top).or_else(of_vmstat).or_else(of_others)
    }

    /// Returns the size of swap and the free part of it, pages. If several texts show swap, returns the values of the
    /// text with the least free swap.
    fn swap(&self, assumed: &mut Vec<String>) -> Option<[f64; 2]> {
        let of_meminfo = self.meminfo.iter().filter_map(|look| look.swap_kib()).map(|kib| kib.map(|kib| kib as f64));
        let of_top = self.processes.iter().filter_map(|look| look.swap_kib);
        let mut units = Vec::new();
        let of_free: Vec<[f64; 2]> =
            self.free.iter().filter_map(|(look, unit)| sizes(look, *unit, &mut units).swap).collect();
        units.retain(|unit| !assumed.contains(unit));
        assumed.extend(units);
        let all = self.swaps.iter().map(Swaps::kib).chain(of_meminfo).chain(of_free).chain(of_top);
        let least = all.min_by(|a, b| a[1].total_cmp(&b[1]));
        least.map(|kib| kib.map(|kib| kib / PAGE_KIB))
    }

    /// Returns the settings (sysctls) in the texts. If a setting occurs twice, its last value counts.
    fn settings(&self) -> BTreeMap<String, String> {
        self.sysctls.iter().flat_map(|look| look.values.clone()).collect()
    }
}

impl Signs {
    /// Removes the length of the observed period from the signs if `is_unknown`.
    fn without_time_if(mut self, is_unknown: bool) -> Self {
        if is_unknown {
            self.elapsed_s = None;
        }
        self
    }
}

/// Returns the time from the first of `copies` copies of a text to the last, s. `seconds` is the time from one copy to the
/// next, if known.
fn over_all(seconds: Option<f64>, copies: usize) -> Option<f64> {
    seconds.map(|seconds| seconds * copies.saturating_sub(1).max(1) as f64)
}

/// Returns the shares of time, in percent, in which at least one task was stalled (PSI `some`) and in which all tasks
/// were stalled (PSI `full`). `looks` are the texts of one PSI file, in the order of time. `seconds` is the time
/// from one text to the next. If it is unknown or there is only one text, the largest average in the last
/// text is the share.
fn stalls_in(looks: &[&Pressure], seconds: Option<f64>) -> (Option<f64>, Option<f64>) {
    let of = |of: fn(&Pressure) -> Option<recordings::looks::pressure::Stalls>| {
        let (first, last) = (of(looks.first()?)?, of(looks.last()?)?);
        Some(match over_all(seconds, looks.len()).filter(|_| looks.len() >= 2) {
            Some(seconds) => last.total_us.abs_diff(first.total_us) as f64 / 1e4 / seconds,
            None => last.percent.into_iter().fold(0.0, f64::max),
        })
    };
    (of(|it| it.some), of(|it| it.full))
}

/// Returns the limits and the protection of a cgroup, and the number of pages charged to it. If there are several
/// copies of a file, the last one counts.
fn bounds(looks: &[&CgroupFiles]) -> Bounds {
    let of = |name: &str| {
        looks.iter().rev().find_map(|look| match look.get(name, "") {
            Some(bytes) => Some(bytes as f64 / PAGE_BYTES as f64),
            None => look.unlimited.iter().any(|file| file == name).then_some(f64::INFINITY),
        })
    };
    let (max, high, low) = (of("memory.max"), of("memory.high"), of("memory.low"));
    Bounds { used: of("memory.current"), max, high, low, ..Bounds::default() }
}

/// Returns whether the user gave two or more copies of a cgroup's file with counters. Copies of different times show
/// how much the counters grew.
fn are_copies(looks: &[&CgroupFiles]) -> bool {
    const COUNT: [&str; 5] =
        ["memory.stat", "memory.events", "memory.events.local", "memory.failcnt", "memory.oom_control"];
    COUNT.iter().any(|file| looks.iter().filter(|look| look.files.contains_key(*file)).count() >= 2)
}

/// Returns the signs (counters and levels) that copies of a cgroup's `memory.stat` show. With two or more copies,
/// counters are the growth from the first copy to the last. With one copy, they are the counts since the cgroup was
/// created.
fn of_stat(looks: &[&CgroupFiles], seconds: Option<f64>) -> Signs {
    let stats: Vec<&Vmstat> = looks.iter().filter_map(|look| look.files.get("memory.stat")).collect();
    let has_two = are_copies(looks);
    let seconds = over_all(seconds, stats.len());
    let mut signs = match stats.as_slice() {
        [] => Signs { elapsed_s: seconds.filter(|_| has_two), ..Signs::default() },
        [one] => group_stat::signs(one, None),
        [first, .., last] if went_back(first, last) => group_stat::signs(&difference(last, first), seconds),
        [first, .., last] => group_stat::signs(&difference(first, last), seconds),
    };
    signs.is_since_start = !has_two;
    if has_two && seconds.is_none() {
        signs.missing.push("the time between both copies of the files of the cgroup (--seconds tells it)".to_owned());
    }
    let last = |names: [&str; 2]| names.iter().find_map(|name| looks.iter().rev().find_map(|look| look.get(name, "")));
    let used = last(["memory.current", "memory.usage_in_bytes"]);
    let limit = last(["memory.max", "memory.limit_in_bytes"]).filter(|bytes| *bytes < NO_LIMIT);
    let stat = stats.last().copied().cloned().unwrap_or_default();
    signs.usage = used.map(|used| Usage::at(group_stat::usage(&stat, used, limit)));
    signs
}

/// The folder at which the cgroup file system is mounted on a running computer.
const MOUNT: &str = "/sys/fs/cgroup";

/// Smallest number of bytes in a limit file that means "no limit". Without a limit, a cgroup of version 1 prints the
/// largest number that it can store.
const NO_LIMIT: u64 = 1 << 60;

/// Returns whether more counters fell than grew from the copy `first` to the copy `last`, which shows that the copies
/// were given in the wrong order.
fn went_back(first: &Vmstat, last: &Vmstat) -> bool {
    // Counters that never fall.
    const GROW: [&str; 8] =
        ["pgfault", "pgfree", "pgpgin", "pgpgout", "pgscan_kswapd", "pswpin", "pgmajfault", "workingset_refault_file"];
    let both = GROW.iter().filter_map(|name| first.get(*name).zip(last.get(*name)));
    let (back, forth) = both
        .fold((0, 0), |(back, forth), (first, last)| (back + u32::from(last < first), forth + u32::from(last > first)));
    back > forth
}

/// Returns the names of slab caches, each with the memory that the cache takes, pages. The largest cache comes first.
#[must_use]
pub fn of_slabs(slabs: &Slabs) -> Vec<(String, f64)> {
    largest_first(slabs.kib.iter().map(|(name, kib)| (name.clone(), kib / PAGE_KIB)))
}

fn largest_first(all: impl Iterator<Item = (String, f64)>) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = all.collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// Returns the sizes that `free` printed. The unit of its numbers is known if the text shows the option that `free` was
/// called with. Otherwise the unit is inferred from the numbers, and `assumed` gets a note on this.
fn sizes(look: &Free, told: Option<Unit>, assumed: &mut Vec<String>) -> Sizes {
    let numbers = look.bare_numbers();
    let unit = told.or_else(|| Unit::of_numbers(&numbers)).unwrap_or(Unit::Kib);
    if told.is_none() && unit != Unit::Kib && numbers.iter().any(|number| *number > 0.0) {
        assumed.push(format!("`free` in {}, as its numbers say", unit.name()));
    }
    look.sizes(unit)
}

fn of_sizes(sizes: &Sizes) -> MemoryUse {
    let pages = |kib: Option<f64>| kib.map(|kib| kib / PAGE_KIB);
    MemoryUse {
        total: pages(sizes.total).filter(|pages| *pages > 0.0),
        free: pages(sizes.free),
        available: pages(sizes.available),
        cached: pages(sizes.cache),
        shmem: pages(sizes.shared),
        ..MemoryUse::default()
    }
}

fn of_top(look: &Processes) -> Option<MemoryUse> {
    let [total, free, cache] = look.memory_kib?.map(|kib| Some(kib / PAGE_KIB));
    Some(MemoryUse {
        total,
        free,
        cached: cache,
        available: look.available_kib.map(|kib| kib / PAGE_KIB),
        ..MemoryUse::default()
    })
}

/// Returns the use of memory in a memory report of the kernel log, as the OOM killer prints it. Returns none if the
/// report is about a cgroup or has no counters.
#[must_use]
pub fn of_report(report: &Report) -> Option<MemoryUse> {
    let scale = report.page_kib() as f64 / PAGE_KIB;
    let of = |name: &str| report.counters.get(name).map(|pages| *pages as f64 * scale);
    let managed: u64 = report.zones.iter().map(|zone| zone.kib("managed")).sum();
    let ram =
        report.pages.get("RAM").map(|pages| pages.saturating_sub(report.pages.get("reserved").copied().unwrap_or(0)));
    let (managed, ram) = ((managed > 0).then_some(managed as f64 / PAGE_KIB), ram.map(|pages| pages as f64 * scale));
    // If the beginning of the report is missing, some zones may be, too.
    let total = if report.is_cut { [managed, ram].into_iter().flatten().reduce(f64::max) } else { managed.or(ram) };
    let of_zones = |name: &str| report.zones.iter().map(|zone| zone.kib(name)).sum::<u64>() as f64 / PAGE_KIB;
    let stacks =
        report.node_kib.get("kernel_stack").map_or_else(|| of_zones("kernel_stack"), |kib| *kib as f64 / PAGE_KIB);
    let shmem = of("shmem");
    // The kernel's report counts shared memory on the lists of anonymous pages. Other sources count it in the page
    // cache.
    let anon = of("active_anon").zip(of("inactive_anon"));
    let anon = anon.map(|(active, inactive)| {
        (active + inactive + of("isolated_anon").unwrap_or(0.0) - shmem.unwrap_or(0.0)).max(0.0)
    });
    let files = of("active_file").zip(of("inactive_file")).map(|(active, inactive)| active + inactive);
    let huge = |pages: fn(&recordings::kernel_log::HugePages) -> u64| {
        Some(report.huge.iter().map(|pool| pages(pool) as f64 * pool.size_kib as f64 / PAGE_KIB).sum())
    };
    let mut usage = MemoryUse {
        total,
        // A report whose beginning is missing has the free memory of zones alone.
        free: Some(of("free").or_else(|| managed.filter(|_| report.is_cut).map(|_| of_zones("free")))?),
        cached: files.map(|files| files + shmem.unwrap_or(0.0)),
        active_anon: of("active_anon"),
        inactive_anon: of("inactive_anon"),
        active_file: of("active_file"),
        inactive_file: of("inactive_file"),
        unevictable: of("unevictable"),
        mlocked: Some(of_zones("mlocked")),
        dirty: of("dirty"),
        writeback: of("writeback"),
        anon,
        mapped: of("mapped"),
        shmem,
        slab_reclaimable: of("slab_reclaimable"),
        slab_unreclaimable: of("slab_unreclaimable"),
        kernel_stack: Some(stacks),
        page_tables: of("pagetables"),
        huge_pool: huge(|pool| pool.total),
        huge_free: huge(|pool| pool.free),
        ..MemoryUse::default()
    };
    // A report that was cut within its zones shows only some of them.
    if usage.known().zip(usage.total).is_some_and(|(known, total)| known > total) {
        usage.total = None;
    }
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Diagnosis;
    use crate::doctor::Weight::{Illness, Notice};
    use recordings::looks::Look as _;

    fn looks(all: Vec<Told>) -> Looks {
        let mut looks = Looks::default();
        all.into_iter().for_each(|told| looks.add(told));
        looks
    }

    fn causes(signs: &Signs) -> Vec<&'static str> {
        Diagnosis::of(signs).findings.iter().map(|finding| finding.cause).collect()
    }

    /// Returns a `/proc/vmstat` of a computer that has been thrashing for `n` minutes.
    fn vmstat(n: u64) -> Told {
        let text = format!(
            "nr_free_pages 9000\nnr_dirty 50\nnr_writeback 0\nnr_dirty_threshold 5000\nnr_dirty_background_threshold 2500\n\
             workingset_refault_anon {}\nworkingset_refault_file {}\npgfault {}\npgmajfault {}\npswpin {}\npswpout {}\n\
             pgscan_kswapd {}\npgscan_direct {}\npgsteal_kswapd {}\npgsteal_direct {}\nallocstall_normal {}\n\
             compact_stall {}\ncompact_fail {}\ncompact_success {}\noom_kill {}\n",
            700 + n * 20_000,
            800 + n * 80_000,
            1_000_000 + n * 400_000,
            1000 + n * 30_000,
            600 + n * 20_000,
            900 + n * 25_000,
            10_000 + n * 400_000,
            1000 + n * 90_000,
            5000 + n * 100_000,
            900 + n * 20_000,
            10 + n * 700,
            n * 50,
            n * 45,
            n * 5,
            n
        );
        Told::Vmstat(VmstatFile::of(&text))
    }

    #[test]
    fn two_copies_of_counters_tell_what_grew_in_the_time_between() {
        let both = looks(vec![vmstat(0), vmstat(1)]);
        let signs = both.signs(Some(60.0));
        assert_eq!((signs.elapsed_s, signs.kswapd.scanned, signs.killed), (Some(60.0), Some(400_000.0), Some(1.0)));
        for cause in [
            "killed",
            "direct-reclaim",
            "anonymous-thrashing",
            "file-cache-thrashing",
            "kswapd-in-vain",
            "direct-in-vain",
            "high-orders-fail",
        ] {
            assert!(causes(&signs).contains(&cause), "{cause}: {:?}", causes(&signs));
        }
        // If the copies are in the wrong order, the signs are the same, and a note says so.
        let swapped = looks(vec![vmstat(1), vmstat(0)]).signs(Some(60.0));
        assert_eq!((swapped.kswapd, swapped.assumed.len()), (signs.kswapd, 1));
        // Without the time between the copies no rate is known, and the signs say that the time is missing.
        let timeless = both.signs(None);
        assert_eq!((timeless.elapsed_s, timeless.missing.len(), both.has_two()), (None, 1, true));
        assert!(causes(&timeless).contains(&"killed") && !causes(&timeless).contains(&"direct-reclaim"));
    }

    #[test]
    fn one_copy_tells_what_happened_since_the_start() {
        let signs = looks(vec![vmstat(3)]).signs(Some(60.0));
        assert_eq!((signs.elapsed_s, signs.is_since_start, signs.killed), (None, true, Some(3.0)));
        assert!(causes(&signs).contains(&"since-start"), "{:?}", causes(&signs));
        let top = "top - 10:00:00 up 10 min,  2 users,  load average: 9.00, 8.01, 0.05\n";
        let timed = looks(vec![vmstat(3), Told::Processes(Processes::of(top))]).signs(None);
        assert_eq!(timed.elapsed_s, Some(600.0));
        assert!(causes(&timed).contains(&"anonymous-thrashing"));
    }

    #[test]
    fn counters_by_kind_of_page_are_work_of_reclaim_since_the_start() {
        let of = |text: &str| {
            let signs = looks(vec![Told::Vmstat(VmstatFile::of(text))]).signs(None);
            let findings = Diagnosis::of(&signs).findings;
            findings.into_iter().find(|it| it.cause == "since-start").unwrap().sentence
        };
        let told = of("pgscan_anon 200\npgscan_file 700\npgsteal_anon 50\npgsteal_file 400\n");
        assert!(told.contains("reclaim scanned 900 pages and reclaimed 450 pages. When,"), "{told}");
        assert!(told.contains("a second one some time later"), "{told}");
        let told = of("pgfault 9\npswpin 0\npswpout 0\n");
        assert!(told.contains("an unknown number of pages was scanned"), "{told}");
        assert!(of("pgscan_kswapd 0\npgscan_direct 0\n").contains("reclaim had nothing to do"));
    }

    #[test]
    fn the_period_of_copies_of_pressure_is_from_the_first_to_the_last() {
        let psi = |total: u64| {
            let text = format!("some avg10=9.00 avg60=0.00 avg300=0.00 total={total}\n");
            Told::Pressure(Some(Resource::Memory), Pressure::of(&text))
        };
        let three = || looks(vec![psi(0), psi(1_000_000), psi(3_000_000)]);
        let signs = three().signs(Some(10.0));
        assert_eq!((signs.elapsed_s, signs.some_waited_percent), (Some(20.0), Some(15.0)));
        let signs = three().signs(None);
        assert_eq!((signs.elapsed_s, signs.missing.len()), (None, 1));
        assert!(signs.missing[0].contains("between one copy of PSI and the next"), "{:?}", signs.missing);
        assert_eq!(looks(vec![psi(0)]).signs(None).missing, Vec::<String>::new());
    }

    #[test]
    fn marks_in_zoneinfo_beside_two_copies_of_counters_are_found_to_be_too_high() {
        let zoneinfo = "Node 0, zone   Normal\n  pages free     900000\n        min      16000\n        low      436000\n        \
                        high     856000\n        managed  4200000\n";
        let copy = |free: u64, scanned: u64| {
            let text =
                format!("nr_free_pages {free}\npgscan_kswapd {scanned}\npgscan_direct 0\npgsteal_kswapd {scanned}\n");
            Told::Vmstat(VmstatFile::of(&text))
        };
        let found = |free: u64, zoneinfo: &str| {
            let zones = Told::Zoneinfo(Zoneinfo::of(zoneinfo));
            let sysctls = Told::Sysctls(Sysctls::of("vm.watermark_scale_factor = 1000\n"));
            let signs = looks(vec![zones, sysctls, copy(free, 0), copy(free + 9000, 90_000)]).signs(Some(10.0));
            causes(&signs).contains(&"marks-too-high")
        };
        assert!(found(480_000, zoneinfo) && found(850_000, zoneinfo));
        // A program has just ended, and the marks are low.
        let low = zoneinfo.replace("436000", "20000").replace("856000", "24000");
        assert!(!found(2_000_000, &low) && !found(2_000_000, zoneinfo));
    }

    const MEMINFO: &str = "MemTotal: 8000000 kB\nMemFree: 90000 kB\nMemAvailable: 200000 kB\nBuffers: 9000 kB\nCached: 200000 kB\n\
                           SwapTotal: 0 kB\nSwapFree: 0 kB\nAnonPages: 1900000 kB\nShmem: 5000 kB\nSReclaimable: 60000 kB\n\
                           SUnreclaim: 5600000 kB\nPageTables: 20000 kB\n";

    #[test]
    fn files_of_one_computer_complete_each_other() {
        let slabs =
            " OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME\n9 9 100% 0.06K 9 64 5500000K bad_node\n";
        let all = looks(vec![Told::Meminfo(Meminfo::of(MEMINFO)), Told::Slabs(Slabs::of(slabs))]).signs(None);
        let diagnosis = Diagnosis::of(&all);
        let finding = diagnosis.findings.iter().find(|it| it.cause == "unreclaimable-slab").unwrap();
        assert!(
            finding.sentence.contains("70 % of memory") && finding.sentence.contains("bad_node has 5371 MiB"),
            "{}",
            finding.sentence
        );
        assert_eq!(causes(&all), ["unreclaimable-slab", "memory-short"]);
    }

    #[test]
    fn free_and_top_tell_what_is_left() {
        let free = "               total        used        free      shared  buff/cache   available\n\
                    Mem:           15885       15500          90           5         295         150\nSwap:           2047        2047           0\n";
        let signs = looks(vec![Told::Free(Free::of(free), None)]).signs(None);
        assert_eq!(causes(&signs), ["swap-full", "memory-short"]);
        assert_eq!(signs.assumed, ["`free` in MiB, as its numbers say"]);
        let top = "top - 10:00:00 up 1 day,  2 users,  load average: 9.00, 8.01, 0.05\n\
                   KiB Mem : 16266448 total,    90508 free, 15912344 used,   263596 buff/cache\n\
                   KiB Swap:        0 total,        0 free,        0 used.   150000 avail Mem\n\n\
                   \x20 PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n\
                   \x20 812 mysql     20   0 20.1g  11.5g  12345 S  98.7 74.2  99:59.99 mysqld\n";
        let signs = looks(vec![Told::Processes(Processes::of(top))]).signs(None);
        let finding = Diagnosis::of(&signs).findings.into_iter().find(|it| it.cause == "memory-short").unwrap();
        assert!(
            finding.sentence.contains("The largest processes are mysqld (11776 MiB). There is no swap"),
            "{}",
            finding.sentence
        );
    }

    #[test]
    fn a_kswapd_that_is_busy_in_a_list_of_processes_is_found() {
        let top = |cpu: &str| {
            let text = format!(
                "MiB Mem :  15885.0 total,   4301.2 free,   6550.1 used,   5033.7 buff/cache\n\n    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n     98 root      20   0       0      0      0 R  {cpu}   0.0 6000:00.00 kswapd0\n"
            );
            looks(vec![Told::Processes(Processes::of(&text))]).signs(None)
        };
        let busy = top("99.9");
        let finding = Diagnosis::of(&busy).findings.into_iter().find(|it| it.cause == "kswapd-awake").unwrap();
        assert!(
            finding.sentence.contains("100 % of a CPU") && finding.sentence.contains("(27 %) of memory are free"),
            "{finding:?}"
        );
        assert_eq!(causes(&top("1.0")), [""; 0]);
    }

    #[test]
    fn pressure_is_asked_between_two_copies_or_as_the_worst_of_its_means() {
        let text = |total: u64| {
            format!(
                "some avg10=9.00 avg60=40.00 avg300=5.00 total={total}\nfull avg10=7.00 avg60=30.00 avg300=2.00 total={total}\n"
            )
        };
        let look = |total: u64| Told::Pressure(Some(Resource::Memory), Pressure::of(&text(total)));
        let one = looks(vec![look(5)]).signs(None);
        assert_eq!((one.all_waited_percent, causes(&one)), (Some(30.0), vec!["all-wait"]));
        let two = looks(vec![look(0), look(600_000)]).signs(Some(10.0));
        assert_eq!((two.all_waited_percent, two.elapsed_s), (Some(6.0), Some(10.0)));
        let three = looks(vec![look(0), look(500_000), look(1_000_000)]).signs(Some(1.0));
        assert_eq!(three.some_waited_percent, Some(50.0), "1 s of stalls in two times 1 s");
        let other = looks(vec![Told::Pressure(Some(Resource::Io), Pressure::of(&text(5)))]).signs(None);
        assert_eq!(other.all_waited_percent, None);
        assert_eq!(Resource::of_path("sys/fs/cgroup/a/memory.pressure"), Some(Resource::MemoryOfGroup));
        assert_eq!(Resource::of_path("cat /proc/pressure/io"), Some(Resource::Io));
        assert_eq!(Resource::of_path("psi.txt"), None);
    }

    #[test]
    fn cgroups_tell_of_their_limits() {
        let files = |max: u64| {
            CgroupFiles::of(&format!(
                "/sys/fs/cgroup/a/memory.events:max {max}\n/sys/fs/cgroup/a/memory.events:oom_kill 1\n"
            ))
        };
        let one = looks(vec![Told::Cgroup(files(7))]).signs(None);
        assert_eq!(one.at_limit, Some([("/a".to_owned(), 7.0)].into()));
        assert_eq!(causes(&one), ["killed", "cgroup-limit"]);
        // When the cgroup came to its limit is unknown. The limit is an illness if the cgroup is at it now, or if its
        // tasks wait.
        let with = |files: &str| {
            let texts = ["memory.events:max 7\nmemory.events:oom_kill 0\nmemory.failcnt:7\n", files].concat();
            let named: String = texts.lines().map(|line| format!("/sys/fs/cgroup/a/{line}\n")).collect();
            let signs = looks(vec![Told::Cgroup(CgroupFiles::of(&named))]).signs(None);
            let findings = Diagnosis::of(&signs).findings;
            findings.iter().map(|it| (it.cause, it.weight)).collect::<Vec<_>>()
        };
        assert_eq!(with(""), [("cgroup-limit", Notice)]);
        assert_eq!(with("memory.current:30000000\nmemory.max:67108864\n"), [("cgroup-limit", Notice)]);
        assert_eq!(with("memory.current:67108864\nmemory.max:67108864\n"), [("cgroup-limit", Illness)]);
        assert_eq!(
            with("memory.usage_in_bytes:67000000\nmemory.limit_in_bytes:67108864\n"),
            [("cgroup-limit", Illness)]
        );
        // Each file may be given as a separate text.
        let waits = looks(
            [
                "memory.oom_control:oom_kill_disable 1\n/sys/fs/cgroup/a/memory.oom_control:under_oom 1\n\
              /sys/fs/cgroup/a/memory.oom_control:oom_kill 0",
                "memory.failcnt:3",
            ]
            .map(|text| Told::Cgroup(CgroupFiles::of(&format!("/sys/fs/cgroup/a/{text}\n"))))
            .into(),
        );
        assert_eq!(causes(&waits.signs(None)), ["killed", "cgroup-limit"]);
        let two = looks(vec![Told::Cgroup(files(7)), Told::Cgroup(files(9))]).signs(None);
        assert_eq!((two.at_limit, two.out_of_memory), (Some([("/a".to_owned(), 2.0)].into()), Some(BTreeMap::new())));
    }

    #[test]
    fn settings_that_are_pasted_are_known_to_rules() {
        let sysctls = Sysctls::of("vm.swappiness = 200\nvm.min_free_kbytes=67584\n");
        let signs = looks(vec![Told::Sysctls(sysctls)]).signs(None);
        assert_eq!(signs.settings["vm.swappiness"], "200");
        assert_eq!(signs.settings["vm.min_free_kbytes"], "67584");
    }

    #[test]
    fn zones_have_marks_and_blocks() {
        let zoneinfo = "Node 0, zone   Normal\n  pages free     120\n        min      10\n        low      20\n        high     30\n        managed  4000\nNode 0, zone  Movable\n  pages free 0\n        managed 0\n";
        let buddyinfo = "Node 0, zone   Normal     3      2      1 \n";
        let both =
            looks(vec![Told::Zoneinfo(Zoneinfo::of(zoneinfo)), Told::Buddyinfo(Buddyinfo::of(buddyinfo))]).signs(None);
        let [zone] = both.zones.as_deref().unwrap() else { panic!("{:?}", both.zones) };
        assert_eq!(
            (&*zone.name, zone.free, zone.marks, &*zone.blocks),
            ("Normal", 120.0, [10.0, 20.0, 30.0], &[3.0, 2.0, 1.0][..])
        );
        // A full node beside a free one is shown by zones, or by the nodes' own files.
        let of_nodes = |free: [u64; 2]| {
            let zone = |(node, free): (usize, &u64)| {
                format!(
                    "Node {node}, zone   Normal\n  pages free     {free}\n        min      10\n        managed  4000\n"
                )
            };
            let zones: String = free.iter().enumerate().map(zone).collect();
            let file = |(node, free): (usize, &u64)| {
                Told::Meminfo(Meminfo::of(&format!(
                    "Node {node} MemTotal: 16000 kB\nNode {node} MemFree: {} kB\n",
                    free * 4
                )))
            };
            let files: Vec<Told> = free.iter().enumerate().map(file).collect();
            [vec![Told::Zoneinfo(Zoneinfo::of(&zones))], files].map(|told| {
                let signs = looks([vec![vmstat(0), vmstat(1)], told].concat()).signs(Some(60.0));
                assert_eq!((signs.nodes.len(), signs.usage.as_ref().and_then(Usage::total)), (2, Some(8000.0)));
                causes(&signs).contains(&"one-node")
            })
        };
        assert_eq!((of_nodes([20, 3000]), of_nodes([20, 30])), ([true; 2], [false; 2]));
        // Only a setting makes marks this high. They are an illness if programs are in swap because of them.
        let with = |mark: u64, swap: &str| {
            let zoneinfo = zoneinfo.replace("high     30", &format!("high {mark}"));
            let meminfo = Meminfo::of(&format!("MemTotal: 16000 kB\nMemFree: 480 kB\n{swap}"));
            let signs = looks(vec![Told::Zoneinfo(Zoneinfo::of(&zoneinfo)), Told::Meminfo(meminfo)]).signs(None);
            let findings = Diagnosis::of(&signs).findings;
            findings.into_iter().map(|it| (it.cause, it.weight)).collect::<Vec<_>>()
        };
        assert_eq!(with(390, ""), []);
        assert_eq!(with(400, ""), [("marks-too-high", Notice)]);
        assert_eq!(with(400, "SwapTotal: 8000 kB\nSwapFree: 7800 kB\n"), [("marks-too-high", Illness)]);
        let zones = looks(vec![Told::Zoneinfo(Zoneinfo::of(&zoneinfo.replace("high     30", "high 1200")))]);
        let finding = Diagnosis::of(&zones.signs(None)).findings.remove(0);
        assert!(finding.sentence.contains("kswapd keeps 5 MiB (30 %) of memory free"), "{}", finding.sentence);
        let alone = looks(vec![Told::Buddyinfo(Buddyinfo::of(buddyinfo))]).signs(None);
        assert_eq!(alone.zones.unwrap()[0].free, 11.0);
    }

    #[test]
    fn reports_of_a_leak_and_of_a_full_tmpfs_name_the_holder() {
        let report = |anon: u32, shmem: u32, slab: u32| {
            format!(
                "a invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0\nMem-Info:\n\
                 active_anon:{shmem} inactive_anon:{anon} isolated_anon:0\n active_file:100 inactive_file:100 isolated_file:0\n \
                 unevictable:0 dirty:0 writeback:0\n slab_reclaimable:5000 slab_unreclaimable:{slab}\n mapped:90 shmem:{shmem} \
                 pagetables:2000\n free:9000 free_pcp:0 free_cma:0\n\
                 Node 0 Normal free:36000kB min:40000kB low:50000kB high:60000kB present:4194304kB managed:4000000kB\n\
                 lowmem_reserve[]: 0 0\nUnreclaimable slab info:\nName                      Used          Total\n\
                 kmalloc-1k            1999984KB      2000000KB\nTasks state (memory values in pages):\n\
                 Out of memory: Killed process 5 (a) total-vm:9kB, anon-rss:9kB, file-rss:0kB, shmem-rss:0kB\n"
            )
        };
        let found = |text: &str| {
            let signs = looks(vec![Told::Log(recordings::kernel_log::read(text))]).signs(None);
            let findings = Diagnosis::of(&signs).findings;
            findings.iter().map(|it| (it.cause, it.sentence.clone())).collect::<Vec<_>>()
        };
        let leak = found(&report(300_000, 1000, 600_000));
        assert_eq!(leak.iter().map(|it| it.0).collect::<Vec<_>>(), ["killed", "unreclaimable-slab"]);
        assert!(leak[1].1.contains("60 % of memory") && leak[1].1.contains("kmalloc-1k has 1953 MiB"), "{}", leak[1].1);
        let tmpfs = found(&report(200_000, 700_000, 40_000));
        assert_eq!(tmpfs.iter().map(|it| it.0).collect::<Vec<_>>(), ["killed", "shared-memory"]);
        assert!(
            tmpfs[0].1.contains("Memory was: shared memory and tmpfs 70 %, memory of programs 20 %."),
            "{}",
            tmpfs[0].1
        );
        // If a report was cut within its zones, the size of memory is unknown, and no share of it is reported.
        let zones = "lowmem_reserve[]: 0 0\n";
        let (before, _) =
            report(930_000, 1000, 30_000).split_once(zones).map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let cut = found(&before.replace("managed:4000000kB", "managed:400000kB"));
        assert_eq!(cut.iter().map(|it| it.0).collect::<Vec<_>>(), ["killed"]);
        assert!(!cut[0].1.contains("Memory was"), "{}", cut[0].1);
        // Memory that programs use is no finding: memory is there for programs, and the report names them.
        assert_eq!(found(&report(930_000, 1000, 30_000)).len(), 1);
    }

    #[test]
    fn a_report_of_the_killer_tells_what_memory_was_used_for() {
        let text = recordings::kernel_log::samples::GLOBAL_6_1;
        let signs = looks(vec![Told::Log(recordings::kernel_log::read(text))]).signs(None);
        assert_eq!(causes(&signs), ["killed", "unused-huge-pages"]);
        let usage = signs.usage.unwrap();
        assert_eq!((usage.last.kernel_stack, usage.last.huge_free), (Some(1404.0), Some(524_288.0)));
    }

    #[test]
    fn a_report_whose_beginning_is_missing_tells_of_huge_pages_that_lie_unused() {
        let text = recordings::kernel_log::samples::GLOBAL_6_1;
        // The zones, the pools of huge pages and the killed process are left.
        let first = text.lines().position(|line| line.contains("Normal free:")).unwrap();
        let cut: String = text.lines().skip(first).flat_map(|line| [line, "\n"]).collect();
        let signs = looks(vec![Told::Log(recordings::kernel_log::read(&cut))]).signs(None);
        assert_eq!(causes(&signs), ["killed", "unused-huge-pages"]);
    }
}
