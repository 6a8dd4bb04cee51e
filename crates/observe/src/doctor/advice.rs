//! Next steps after a diagnosis: a setting with its present and a suggested value, a command that shows more, or a
//! simulated experiment that shows the same illness. [`next`] returns the steps for an illness.

use super::rules;
use super::signs::{OutOfMemory, Signs};
use engine::memory::PAGEBLOCK_ORDER;
use recordings::PAGE_KIB;
use serde::Serialize;

/// A step that the doctor suggests to a user against an illness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Step {
    /// Try another value for a setting.
    Setting {
        /// The setting's name: `vm.swappiness`, `memory.max`.
        name: String,
        /// The present value of the setting; none if unknown.
        now: Option<String>,
        /// The value to try.
        suggested: String,
        /// The reason why this value of the setting is suggested.
        why: String,
    },
    /// The user should look at the output of a command.
    Command {
        /// The command line of this command.
        line: String,
        /// The fact about memory that the user can see in the command's output.
        why: String,
    },
    /// The user should run a simulation in which the illness occurs.
    Experiment {
        /// The command line that runs the simulation.
        line: String,
        /// The fact about the illness that the simulation shows.
        why: String,
    },
}

impl Step {
    /// Returns the suggested step in words.
    #[must_use]
    pub fn show(&self) -> String {
        match self {
            Self::Setting { name, now, suggested, why } => {
                let now = now.as_ref().map_or_else(String::new, |now| format!(" (now {now})"));
                format!("set {name}{now} to {suggested}: {why}")
            }
            Self::Command { line, why } => format!("look at `{line}`: {why}"),
            Self::Experiment { line, why } => format!("simulate it by `{line}`: {why}"),
        }
    }
}

/// An entry of the table [`ADVICE`], from which a [`Step`] for the examined computer or cgroup is made.
enum Advice {
    /// A change of a setting: the setting's name, its new value, and the reason for the change.
    Set(&'static str, &'static str, &'static str),
    /// A setting, a function that computes its new value from the signs (none if no value is suggested), and the
    /// reason.
    SetTo(&'static str, fn(&Signs) -> Option<String>, &'static str),
    /// A step that applies only if a condition holds.
    Where(fn(&Signs) -> bool, &'static Self),
    /// A command whose output helps to understand the illness, and what the output shows.
    Look(&'static str, &'static str),
    /// The name of a cgroup file, and what the file shows. The file is that of the examined cgroup; if no cgroup is
    /// examined, the user must find the cgroup.
    File(&'static str, &'static str),
    /// A command of `highwater` that simulates the illness, and what the simulation shows.
    Simulate(&'static str, &'static str),
}

use Advice::{File, Look, Set, SetTo, Simulate, Where};

/// Returns the steps against the illness `cause`, the most useful first. `signs` are the counters and levels in which a
/// rule found the illness. A command is left out if all that it shows was given.
#[must_use]
pub fn next(cause: &str, signs: &Signs) -> Vec<Step> {
    let of_cause = ADVICE.iter().filter(|(causes, _)| causes.contains(&cause));
    let steps = of_cause.flat_map(|(_, advice)| advice.iter()).filter_map(|advice| advice.step(signs));
    steps.filter(|step| !matches!(step, Step::Command { line, .. } if is_given(line, signs))).collect()
}

/// Files and commands that the commands of next steps read, by the names that [`Signs::given`] uses.
const SOURCES: [&str; 14] = [
    "dmesg",
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/proc/buddyinfo",
    "/proc/pagetypeinfo",
    "/proc/[0-9]",
    "slabtop",
    "swapon",
    "ps -eo rss",
    "memory.stat",
    "memory.current",
    "memory.usage_in_bytes",
    "memory.pressure",
];

/// Returns whether all that the command `line` reads was given.
fn is_given(line: &str, signs: &Signs) -> bool {
    let mut sources = SOURCES.iter().filter(|source| line.contains(**source)).peekable();
    sources.peek().is_some() && sources.all(|source| signs.given.contains(source))
}

/// Puts the process and the cgroup that are examined into a command line, in place of `PID` and `GROUP`. Returns none
/// if one is unknown although the diagnosis is about a process or a cgroup: then the user need not look for another.
fn filled(line: &str, signs: &Signs) -> Option<String> {
    let is_open = signs.group.is_none() && signs.process.is_none();
    let put = |line: String, place: &str, value: Option<String>| match value {
        _ if !line.contains(place) => Some(line),
        Some(value) => Some(line.replace(place, &value)),
        None => is_open.then_some(line),
    };
    let pid = signs.process.as_ref().map(|process| process.pid.to_string());
    put(line.to_owned(), "PID", pid).and_then(|line| put(line, "GROUP", group_of(signs)))
}

/// The folder at which the cgroup file system is mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// Returns the path, below [`MOUNT`], of the cgroup that next steps are about: the one that is examined, that of the
/// examined process, or the one that came to its limit most often. Returns none if its path is unknown.
fn group_of(signs: &Signs) -> Option<String> {
    let most = || signs.at_limit.iter().flatten().filter(|(_, times)| **times > 0.0).max_by(|a, b| a.1.total_cmp(b.1));
    let of_process = || signs.process.as_ref()?.folder.as_ref();
    let folder = signs.group.as_ref().or_else(of_process).or_else(|| most().map(|(name, _)| name))?;
    let path = folder.strip_prefix(MOUNT).unwrap_or(folder).trim_matches('/');
    (folder.starts_with('/') && !path.is_empty()).then(|| path.to_owned())
}

/// Returns a text about a cgroup in which the names of sizes in `memory.stat` are those of version 1.
fn in_v1(text: &str) -> String {
    const NAMES: [(&str, &str); 4] =
        [("`file_dirty`", "`dirty`"), ("`file_writeback`", "`writeback`"), ("`file`", "`cache`"), ("`anon`", "`rss`")];
    NAMES.iter().fold(text.to_owned(), |text, (name, of_v1)| text.replace(name, of_v1))
}

impl Advice {
    /// Returns what the report recommends for this advice: a setting, a command or an experiment. Returns none if the
    /// advice does not apply to the examined computer or cgroup, or if the setting already has the suggested value.
    fn step(&self, signs: &Signs) -> Option<Step> {
        let set = |name: &'static str, suggested: &str, why: &str| {
            let name = if signs.is_v1 { name_of_v1(name)? } else { name };
            let now = signs.settings.get(name).cloned();
            let told = |text: &str| if signs.is_v1 { in_v1(text) } else { text.to_owned() };
            let (suggested, why) = (told(suggested), told(why));
            (now.as_ref() != Some(&suggested)).then(|| Step::Setting { name: name.to_owned(), now, suggested, why })
        };
        match *self {
            Set(name, suggested, why) => set(name, suggested, why),
            SetTo(name, value, why) => set(name, &value(signs)?, why),
            Where(helps, advice) => helps(signs).then(|| advice.step(signs))?,
            Look(line, why) => Some(Step::Command { line: filled(line, signs)?, why: why.to_owned() }),
            File(name, why) => {
                let (name, why) = match signs.is_v1 {
                    true => (name_of_v1(name)?, in_v1(why)),
                    false => (name, why.to_owned()),
                };
                Some(Step::Command { line: filled(&format!("cat {MOUNT}/GROUP/{name}"), signs)?, why })
            }
            Simulate(line, why) => Some(Step::Experiment { line: format!("highwater {line}"), why: why.to_owned() }),
        }
    }
}

/// Returns the name that the cgroup file `name` (of version 2) has in version 1; none if version 1 has no such file. A
/// name that is not of a cgroup file is returned unchanged.
fn name_of_v1(name: &'static str) -> Option<&'static str> {
    match name {
        "memory.max" => Some("memory.limit_in_bytes"),
        "memory.current" => Some("memory.usage_in_bytes"),
        "memory.events" => Some("memory.failcnt"),
        "memory.low" => Some("memory.soft_limit_in_bytes"),
        "memory.high" | "memory.min" | "memory.pressure" | "memory.swap.max" | "cgroup.stat" => None,
        other => Some(other),
    }
}

/// Returns whether a cgroup is involved: the signs are those of a cgroup, or a cgroup reached its limit or was out of
/// memory.
fn has_group(signs: &Signs) -> bool {
    let came = signs.at_limit.iter().flatten().any(|(_, times)| *times > 0.0);
    let was_out = signs.out_of_memory.iter().flatten().any(|(_, it)| *it != OutOfMemory::default());
    let of_log = signs.log.iter().flat_map(|log| &log.reports).any(|report| report.cgroup.is_some());
    signs.group.is_some() || came || was_out || of_log
}

/// Returns whether the log has a failed request that could not wait for reclaim. Also returns `true` if a request does not
/// say so.
fn cannot_wait(signs: &Signs) -> bool {
    let mut reports = signs.log.iter().flat_map(|log| &log.reports).peekable();
    reports.peek().is_none() || reports.any(|report| report.gfp.as_ref().is_none_or(|gfp| !gfp.may_sleep))
}

/// Returns whether the signs come from the whole computer.
fn is_of_computer(signs: &Signs) -> bool {
    signs.group.is_none()
}

/// Returns whether the computer has swap. Also returns `true` if this is unknown.
fn may_swap(signs: &Signs) -> bool {
    let is_used =
        signs.swapped_out.is_some_and(|pages| pages > 0.0) || signs.swap_used.is_some_and(|pages| pages > 0.0);
    is_used || signs.swap.is_none_or(|[total, _]| total > 0.0)
}

/// Returns whether pages came back from swap.
fn swaps(signs: &Signs) -> bool {
    signs.swapped_in.is_some_and(|pages| pages > 0.0) && may_swap(signs)
}

/// Returns whether it is possible that programs read their own code again and again. It is possible if no cgroup is
/// involved and reclaim takes no anonymous pages, that is, if there is no swap or no page came back from swap.
fn reads_code(signs: &Signs) -> bool {
    !has_group(signs) && (!may_swap(signs) || signs.swapped_in == Some(0.0))
}

/// Default of `vm.watermark_scale_factor`, in units of 0.01 % of memory.
const SCALE_FACTOR: f64 = 10.0;

/// Returns the min, low and high marks, each summed over all zones, in pages; none if they are unknown.
fn marks(signs: &Signs) -> Option<[f64; 3]> {
    let zones = signs.zones.as_ref().filter(|zones| zones.iter().any(|zone| zone.marks[2] > 0.0))?;
    let sum = |mark: usize| zones.iter().map(|zone| zone.marks[mark]).sum();
    Some([sum(0), sum(1), sum(2)])
}

/// Returns the value that a kernel chooses for `vm.min_free_kbytes` at boot: the square root of 16 times the size of
/// memory in KiB, but at least 128 and at most 262,144 KiB. Source of the rule: docs/mechanisms/reclaim/memory.md,
/// "Watermarks". That chapter states the maximum of older kernels, 65,536 KiB. The maximum of later kernels, used here,
/// is not from the book.
fn min_free_kib(signs: &Signs) -> Option<f64> {
    let kib = memory_kib(signs)?;
    Some((kib * 16.0).sqrt().floor().clamp(128.0, 262_144.0))
}

/// Returns the value, in KiB, to which a kernel raises `vm.min_free_kbytes` if huge pages are on: 11 pageblocks for
/// each of the computer's two or three zones, but at most a twentieth of memory. Source:
/// docs/mechanisms/reclaim/memory.md, "Huge-page adjustment".
fn min_free_huge_kib(signs: &Signs) -> Option<f64> {
    /// Size of memory, KiB, above which a computer has the zone Normal in addition to DMA and DMA32.
    const NORMAL_FROM_KIB: f64 = 4.0 * 1024.0 * 1024.0;
    let kib = memory_kib(signs)?;
    let zones = if kib > NORMAL_FROM_KIB { 3.0 } else { 2.0 };
    let block_kib = PAGEBLOCK_ORDER.pages() as f64 * PAGE_KIB;
    Some(min_free_kib(signs)?.max((11.0 * zones * block_kib).min(kib / 20.0).floor()))
}

/// Returns whether `vm.watermark_scale_factor` is so high that the kernel keeps too much memory free. If the value of
/// the setting is unknown, the distance between the marks decides. Returns `false` if both are unknown.
fn is_scale_high(signs: &Signs) -> bool {
    let told = number(signs, "vm.watermark_scale_factor");
    let by_marks = || {
        let [min, low, _] = marks(signs)?;
        let total = signs.usage.as_ref()?.total()?;
        let distance = low - min;
        // If the factor gives a shorter distance, the kernel uses a quarter of the min mark.
        Some(distance > min / 2.0 && distance > 2.0 * total * SCALE_FACTOR / 10_000.0)
    };
    told.map(|factor| factor > SCALE_FACTOR).or_else(by_marks).unwrap_or(false)
}

/// Returns whether `vm.min_free_kbytes` is too high: more than 10 % above the largest value that the kernel would
/// choose. If the setting is unknown, judges the sum of the zones' min marks instead. If the sum or the kernel's value
/// is unknown, too, returns `true` unless `vm.watermark_scale_factor` is the setting that is too high.
fn is_min_free_high(signs: &Signs) -> bool {
    let told = number(signs, "vm.min_free_kbytes");
    let by_marks = || marks(signs).map(|[min, ..]| min * PAGE_KIB);
    match (told.or_else(by_marks), min_free_huge_kib(signs)) {
        (Some(now), Some(largest)) => now > largest * 1.1,
        _ => !is_scale_high(signs),
    }
}

/// Returns whether the two settings that determine the marks, `vm.min_free_kbytes` and `vm.watermark_scale_factor`, are
/// known.
fn is_known(signs: &Signs) -> bool {
    ["vm.min_free_kbytes", "vm.watermark_scale_factor"].iter().all(|name| signs.settings.contains_key(*name))
}

/// Returns the suggested value of `vm.min_free_kbytes` in words: the value that the kernel chooses at boot. Adds the
/// value that the kernel sets when huge pages are on, if that value is larger.
fn min_free(signs: &Signs) -> Option<String> {
    Some(match min_free_kib(signs).zip(min_free_huge_kib(signs)) {
        Some((kib, huge)) if huge > kib => format!("{kib:.0}, or {huge:.0} where huge pages are on"),
        Some((kib, _)) => format!("{kib:.0}"),
        None => "what it was at the start of the computer".to_owned(),
    })
}

fn is_at_limit(signs: &Signs) -> bool {
    rules::is_kswapd_idle(signs) && signs.at_limit.iter().flatten().any(|(_, times)| *times > 0.0)
}

fn is_of_node(signs: &Signs) -> bool {
    rules::is_kswapd_idle(signs) && !is_at_limit(signs)
}

/// Returns the suggested value of `vm.nr_hugepages`: as many huge pages as shared memory needs beside those of the pool
/// that are used or reserved, if shared memory is the reason for large page tables.
fn huge_pages(signs: &Signs) -> Option<String> {
    let Some(now) =
        signs.usage.as_ref().map(|usage| &usage.last).filter(|_| rules::memory_use::sharers(signs).is_some())
    else {
        return Some("what many processes share, in huge pages".to_owned());
    };
    let unused = (now.huge_free.unwrap_or(0.0) - now.huge_reserved.unwrap_or(0.0)).max(0.0);
    let pages = now.shmem? + (now.huge_pool.unwrap_or(0.0) - unused).max(0.0);
    let size = PAGEBLOCK_ORDER.pages() as f64;
    Some(format!(
        "{:.0} (huge pages of {:.0} MiB for the shared memory of now)",
        (pages / size).ceil(),
        size * PAGE_KIB / 1024.0
    ))
}

/// Returns the suggested value of a cgroup's limit in words. Version 1 has no `memory.high`.
fn more_of_limit(signs: &Signs) -> Option<String> {
    Some(if signs.is_v1 { "more" } else { "more, or memory.high to a tenth below" }.to_owned())
}

fn memory_kib(signs: &Signs) -> Option<f64> {
    signs.usage.as_ref()?.total().map(|pages| pages * PAGE_KIB)
}

/// Returns the number that a setting has at present; none if it is unknown.
fn number(signs: &Signs, name: &str) -> Option<f64> {
    signs.settings.get(name).and_then(|value| value.parse().ok())
}

/// Returns the suggested value of `vm.swappiness` in words, which is below the present one. If the setting is very low
/// already, it is not the reason for the swapping, and nothing is suggested.
fn less_swappiness(signs: &Signs) -> Option<String> {
    match number(signs, "vm.swappiness") {
        Some(now) if now <= rules::SWAPPINESS_LOW => None,
        Some(now) if now <= 60.0 => Some(format!("{:.0} to {:.0}", rules::SWAPPINESS_LOW, (now / 2.0).floor())),
        _ => Some("60 or less; 100 or more is for swap in memory (zram)".to_owned()),
    }
}

/// Returns the suggested value of `vm.watermark_scale_factor` in words, which is above the present one. From 100 on,
/// nothing is suggested.
fn more_scale_factor(signs: &Signs) -> Option<String> {
    match number(signs, "vm.watermark_scale_factor").unwrap_or(SCALE_FACTOR) {
        ..30.0 => Some("30 to 100".to_owned()),
        now if now < 100.0 => Some("100".to_owned()),
        _ => None,
    }
}

/// The experiment that the doctor suggests if the code of running programs is evicted and read from the disk again and
/// again.
const LIVELOCK: Advice = Simulate(
    "run livelock --kernel 6.18-classic --scale 1/64",
    "programs whose own code leaves memory beside a hog, without swap",
);

/// The experiment that is suggested if a cgroup is at its limit.
const IN_GROUP: Advice = Simulate(
    "run randread --machine cgroup-512m --kernel 6.18-classic --scale 1/64",
    "a file that does not fit in a cgroup",
);

/// The command that shows how many cgroups are gone but still have memory.
const LEFT_BEHIND: Advice = Where(
    |signs| !signs.is_v1,
    &Look("cat /proc/cgroups; find /sys/fs/cgroup -name cgroup.stat | xargs grep nr_dying", "groups left behind"),
);

/// The command for cgroups of version 1: the kernel counts more of them than have folders if some are left behind.
const LEFT_BEHIND_V1: Advice = Where(
    |signs| signs.is_v1,
    &Look("grep memory /proc/cgroups; find /sys/fs/cgroup/memory -type d | wc -l", "groups left behind"),
);

/// Returns whether the value of `vm.zone_reclaim_mode` is known.
fn is_mode_known(signs: &Signs) -> bool {
    signs.settings.contains_key("vm.zone_reclaim_mode")
}

/// The setting with which tasks no longer reclaim their own node first, if it is known to have another value.
const OWN_NODE_FIRST: Advice = Where(
    is_mode_known,
    &Set("vm.zone_reclaim_mode", "0", "tasks take memory of other nodes before they reclaim their own"),
);

/// The command that is suggested in place of [`OWN_NODE_FIRST`] if the value of the setting is unknown. It is 0 by default.
const SEE_OWN_NODE_FIRST: Advice = Look(
    "cat /proc/sys/vm/zone_reclaim_mode",
    "if it is not 0, set it to 0: tasks then take memory of other nodes before they reclaim their own",
);

/// The experiment that is suggested if the watermarks of the zones are too high.
const MARKS: Advice = Simulate(
    "compare anon --scale 1/64 --set params.region_percent=65 --set memory.min_free_kbytes=2000,40000",
    "programs that fit, and are swapped for the marks",
);

/// The experiment that is suggested if programs are swapped out while the cache is large.
const BESIDE_READS: Advice = Simulate(
    "compare anon-under-reads --scale 1/64 --set lru.swappiness=10,60,200",
    "programs beside reads, by swappiness",
);

/// Groups of illnesses, each with the advice that helps against them. For each illness, the most useful step comes
/// first.
const ADVICE: &[(&[&str], &[Advice])] = &[
    (
        &["killed"],
        &[
            Look("dmesg -T | grep -A 40 -i 'oom-killer'", "who was killed, for whom, and what memory was used for"),
            Where(
                has_group,
                &Set(
                    "memory.max",
                    "more, or that of a service to less",
                    "the kill is of a limit where a cgroup is named",
                ),
            ),
            Look("ps -eo rss,pid,comm --sort=-rss | head", "who has most of memory now"),
            Simulate("run exhaust --kernel 6.18-classic --scale 1/64", "programs that want more than memory and swap"),
        ],
    ),
    (
        &["all-wait"],
        &[
            Where(
                |signs| is_of_computer(signs) && !signs.is_v1,
                &Look("grep -H . /sys/fs/cgroup/*/memory.pressure", "which group waits"),
            ),
            Look("highwater stat --every 1 --seconds 30", "what is scanned and read back meanwhile"),
            Where(
                swaps,
                &Simulate("run anon --kernel 6.18-classic --scale 1/64", "programs of which all wait for swap"),
            ),
            Where(reads_code, &LIVELOCK),
            Where(has_group, &IN_GROUP),
        ],
    ),
    (
        &["direct-reclaim"],
        &[
            Look("grep -E 'allocstall|pgscan_|zone_reclaim' /proc/vmstat", "who reclaims, for which zone"),
            Where(is_at_limit, &SetTo("memory.max", more_of_limit, "its reclaim is its tasks' own")),
            Where(is_of_node, &OWN_NODE_FIRST),
            Where(|signs| is_of_node(signs) && !is_mode_known(signs), &SEE_OWN_NODE_FIRST),
            // A higher mark makes kswapd begin earlier only if requests wake it.
            Where(
                |signs| !rules::is_kswapd_idle(signs) && !rules::is_much_free(signs),
                &SetTo(
                    "vm.watermark_scale_factor",
                    more_scale_factor,
                    "kswapd begins earlier, so that bursts find free pages",
                ),
            ),
            Simulate(
                "explain stall anon --kernel 6.18-classic --scale 1/64",
                "for what each task stood still, and on whom it waited",
            ),
        ],
    ),
    (
        &["anonymous-thrashing"],
        &[
            Look("grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail", "which processes are in swap"),
            Where(
                |signs| signs.process.is_none(),
                &Look("highwater doctor --pid PID", "whether one of them waits, and its group with it"),
            ),
            Where(
                |signs| !rules::fit(signs),
                &Simulate(
                    "compare anon --scale 1/64 --set params.region_percent=80,110,150",
                    "where programs begin to be larger than memory",
                ),
            ),
            Where(rules::is_much_free, &MARKS),
            Where(|signs| rules::fit(signs) && !rules::is_much_free(signs), &BESIDE_READS),
        ],
    ),
    (
        &["swap-beside-cache"],
        &[
            SetTo("vm.swappiness", less_swappiness, "less of reclaim falls on anonymous memory"),
            Look(
                "grep -E 'pgscan_(anon|file)|workingset_refault' /proc/vmstat",
                "which kind is scanned, and which comes back",
            ),
            BESIDE_READS,
        ],
    ),
    (
        &["marks-too-high"],
        &[
            Where(
                is_min_free_high,
                &SetTo(
                    "vm.min_free_kbytes",
                    min_free,
                    "a kernel's own for so much memory; nobody can use what it keeps free",
                ),
            ),
            Where(
                is_scale_high,
                &Set("vm.watermark_scale_factor", "10", "it is the distance between the marks, in 0.01 % of memory"),
            ),
            Where(
                |signs| !is_known(signs),
                &Look("sysctl vm.min_free_kbytes vm.watermark_scale_factor", "which of both is high"),
            ),
            Look("grep -E 'zone|pages free|min|low|high ' /proc/zoneinfo", "free pages and marks of each zone"),
            MARKS,
        ],
    ),
    (
        &[rules::ONE_NODE],
        &[
            OWN_NODE_FIRST,
            Where(|signs| !is_mode_known(signs), &SEE_OWN_NODE_FIRST),
            Look("numastat -m; numactl --hardware", "how much is free on each node"),
            Look("grep -H . /proc/[0-9]*/numa_maps | grep -m 20 bind", "who is bound to a node"),
            Simulate(
                "compare randread --machine randread-4nodes --scale 1/16 --set reclaim.zone_reclaim_mode=0,1",
                "reads of a file that is larger than a node",
            ),
        ],
    ),
    (
        &["file-cache-thrashing"],
        &[
            Where(is_of_computer, &Look("highwater doctor --cgroup GROUP", "whether one group reads it all")),
            Look("grep -E 'Cached|Active.file|Inactive.file|Mapped' /proc/meminfo", "how large the cache is"),
            Set(
                "memory.low",
                "the size of the working set, for the group that is to keep it",
                "others' pages go first",
            ),
            Where(
                |signs| !has_group(signs) && may_swap(signs),
                &Simulate(
                    "compare randread --scale 1/64 --kernels 6.18-classic,7.2-mglru",
                    "a file that does not fit, by kernels",
                ),
            ),
            Where(|signs| reads_code(signs) && !may_swap(signs), &LIVELOCK),
            Where(has_group, &IN_GROUP),
        ],
    ),
    (
        &["kswapd-in-vain", "direct-in-vain"],
        &[
            Look(
                "grep -E 'pgscan|pgsteal|pgrotated|nr_writeback |nr_unevictable|nr_mlock' /proc/vmstat",
                "what keeps pages",
            ),
            Look(
                "echo 1 > /sys/kernel/tracing/events/vmscan/mm_vmscan_lru_shrink_inactive/enable",
                "why pages stay, by pass",
            ),
            Simulate("run parallelio --kernel 3.10-rc4-vanilla --scale 1/64", "kswapd that scans without a target"),
        ],
    ),
    (
        &[rules::ONE_ZONE],
        &[
            Look("grep -E 'zone|pages free|present|managed|protection' /proc/zoneinfo", "how large each zone is"),
            Simulate("run simon --kernel 2.6.37-traceonly --scale 1/64", "a small zone that drives reclaim"),
        ],
    ),
    (
        &["high-orders-fail"],
        &[
            Look("cat /proc/buddyinfo /proc/pagetypeinfo", "free blocks by order, and by what they are kept for"),
            Set(
                "vm.watermark_boost_factor",
                "15000",
                "reclaim makes whole blocks free after pages of two kinds met in one",
            ),
            Look(
                "cat /sys/kernel/mm/transparent_hugepage/defrag",
                "who compacts itself for a huge page: `madvise` asks for it",
            ),
            Simulate(
                "run thp --kernel 6.18-classic --scale 1/64",
                "faults that want huge pages in memory that is in pieces",
            ),
        ],
    ),
    (
        &["dirty-throttling"],
        &[
            Set("vm.dirty_background_bytes", "what the disk writes in a second", "flushers begin earlier"),
            Look(
                "grep -E 'nr_dirty|nr_writeback' /proc/vmstat; iostat -x 1",
                "how much is dirty, and which disk is behind",
            ),
            Simulate("run randwrite --kernel 6.18-classic --scale 1/64", "a writer that is faster than the disk"),
        ],
    ),
    (
        &["reclaim-meets-unwritten"],
        &[
            Set(
                "vm.dirty_background_bytes",
                "what the disk writes in a second",
                "pages are written before reclaim comes",
            ),
            Where(
                has_group,
                &File(
                    "memory.stat",
                    "`file_dirty` and `file_writeback` beside `file`: how much of a group cannot be reclaimed now",
                ),
            ),
            Where(
                has_group,
                &Set("memory.high", "a tenth below memory.max", "writers are slowed down before the limit is met"),
            ),
            Simulate(
                "run randwrite --kernel 3.10-rc4-vanilla --scale 1/64 --set writeback.dirty_ratio=95 --set \
                 writeback.dirty_background_ratio=90",
                "reclaim that meets what nobody is held back for",
            ),
        ],
    ),
    (
        &["swap-full"],
        &[
            Look("swapon --show; grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail", "what is in it"),
            Look("grep -E 'Committed_AS|CommitLimit|Shmem:' /proc/meminfo", "what is promised, and what tmpfs has"),
            Simulate(
                "run anon --kernel 6.18-classic --scale 1/64 --set params.region_percent=280",
                "programs that fill it",
            ),
        ],
    ),
    (
        &["memory-short"],
        &[
            Look("ps -eo rss,pid,comm --sort=-rss | head", "who has it"),
            Look(
                "grep -E 'Shmem|Hugetlb|SUnreclaim|PageTables|Mlocked' /proc/meminfo",
                "what is no memory of programs",
            ),
            Simulate("run exhaust --kernel 6.18-classic --scale 1/64", "programs that want more than memory and swap"),
        ],
    ),
    (
        &["unreclaimable-slab"],
        &[
            Look(
                "slabtop -o -s c | head -20",
                "the cache that grows from one hour to the next names the part of the kernel that leaks or keeps",
            ),
            LEFT_BEHIND,
            LEFT_BEHIND_V1,
        ],
    ),
    (
        &["reclaimable-slab"],
        &[
            Look(
                "slabtop -o -s c | head -20",
                "which caches: dentry has names of files, those with inode in their name have inodes",
            ),
            Look(
                "cat /proc/sys/fs/dentry-state",
                "the fifth number, since Linux 5.0: dentries of names that do not exist",
            ),
            Look(
                "strace -f -c -e trace=%file -p PID",
                "a program with many errors there looks up names that do not exist, and each leaves a dentry",
            ),
            Set("vm.vfs_cache_pressure", "200", "reclaim takes dentries and inodes more readily beside page cache"),
        ],
    ),
    (
        &["page-tables"],
        &[
            Look("grep -H VmPTE /proc/[0-9]*/status | sort -k2 -n | tail", "whose they are"),
            SetTo(
                "vm.nr_hugepages",
                huge_pages,
                "with `huge_pages = on` of PostgreSQL or `use_large_pages = only` of Oracle they map it by much smaller tables",
            ),
            Where(
                |signs| rules::memory_use::sharers(signs).is_some(),
                &Set(
                    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                    "always, or advise for programs that ask by madvise",
                    "shared memory in huge pages without a pool, for segments that are made after it (4.8 on)",
                ),
            ),
        ],
    ),
    (
        &["unused-huge-pages", "huge-pages"],
        &[
            Set("vm.nr_hugepages", "what programs use", "pages of the pool are for nobody else"),
            Look("grep -H HugetlbPages /proc/[0-9]*/status | sort -k2 -n | tail", "who uses them"),
        ],
    ),
    (&["kernel-stacks"], &[Look("ps -eo nlwp,pid,comm --sort=-nlwp | head", "who has so many threads")]),
    (&["percpu-memory"], &[LEFT_BEHIND, LEFT_BEHIND_V1]),
    (&["shared-memory"], &[Look("df -t tmpfs; ipcs -m", "whose it is")]),
    (&["locked-memory"], &[Look("grep -H VmLck /proc/[0-9]*/status | sort -k2 -n | tail", "whose it is")]),
    (
        &["unaccounted-memory"],
        &[
            Look("grep -E '^(c|size) ' /proc/spl/kstat/zfs/arcstats", "what ZFS has"),
            Look("dmesg | grep -i balloon", "whether the hypervisor took it"),
            Look(
                "cat /sys/kernel/debug/page_owner",
                "who took each page, on a kernel that was started with page_owner=on",
            ),
        ],
    ),
    (
        &["allocation-failed"],
        &[
            Look("cat /proc/buddyinfo", "whether blocks of the order that failed are free, and in which zone"),
            Where(
                cannot_wait,
                &Set(
                    "vm.min_free_kbytes",
                    "twice what it is",
                    "requests that may not wait, of drivers, find free pages",
                ),
            ),
            Simulate("run highalloc --kernel 6.18-classic --scale 1/64", "requests for large blocks under load"),
        ],
    ),
    (
        &["disk-full"],
        &[
            Look("df -h; df -i", "what is left, and of inodes"),
            Simulate(
                "run exhaust --kernel 6.18-classic --scale 1/64 --set params.of=disk",
                "writers that find no block",
            ),
        ],
    ),
    (
        &["cgroup-limit"],
        &[
            File("memory.stat", "what it is used for: programs, files, shared memory, slab"),
            Where(
                is_of_computer,
                &Look("highwater doctor --cgroup GROUP", "whether it suffers from that, or only keeps a cache"),
            ),
            Set("memory.max", "more, if it does", "what it reclaims is its own"),
            Simulate("run randread --machine cgroup-512m --kernel 6.18-classic --scale 1/64", "a file in a cgroup"),
        ],
    ),
    (
        &["group-high"],
        &[
            File("memory.pressure", "how long its tasks wait"),
            File(
                "memory.stat",
                "whether it has anything to reclaim: `file` and swapped memory are, `anon` without swap is not",
            ),
            Set("memory.high", "more, if they wait", "a line for reclaim, under memory.max, the limit for kills"),
            Simulate("run cgroup-high --kernel 6.1-classic", "a task that writes above its memory.high"),
        ],
    ),
    (
        &["protection-broken"],
        &[
            Where(
                is_of_computer,
                &Look(
                    "grep -r . /sys/fs/cgroup --include=memory.low --include=memory.min",
                    "what all groups protect together: above what there is, nothing is protected",
                ),
            ),
            File("memory.current", "whether it needs as much as it protects"),
            Set(
                "memory.min",
                "what it must never lose",
                "reclaim never takes these pages, and the killer comes instead",
            ),
            Simulate("run cgroup-protect --kernel 6.1-classic", "a protected server beside a backup"),
        ],
    ),
    (
        &["group-thrashing"],
        &[
            Set(
                "memory.max",
                "what `anon`, `shmem` and its mapped files take together, and not less than now",
                "its own code has to fit beside its data",
            ),
            File("memory.stat", "pages that came back, major faults, and what it is used for"),
            File("memory.pressure", "how long its tasks wait"),
            IN_GROUP,
        ],
    ),
    (
        &["process-faults"],
        &[
            Look("cat /proc/PID/smaps_rollup", "`Swap`, and how much of what it has mapped is in memory (`Rss`)"),
            File("memory.pressure", "whether its group waits"),
            Set("memory.low", "the size of its working set, for its group", "others' pages go first"),
            Simulate("run anon --kernel 6.18-classic --scale 1/64", "programs that wait for their pages"),
        ],
    ),
    (
        &["below-marks"],
        &[
            Look("grep -E 'zone|pages free|min|low|high ' /proc/zoneinfo", "whether it stays so a second later"),
            Look("highwater stat --every 1 --seconds 30", "whether kswapd and tasks reclaim meanwhile"),
        ],
    ),
    (
        &["memory-in-pieces"],
        &[
            Look("cat /proc/pagetypeinfo", "which kinds of pages lie between the free ones"),
            Set(
                "vm.compaction_proactiveness",
                "20 to 50",
                "kcompactd joins free pages before they are wanted (5.9 on)",
            ),
            Simulate(
                "run highalloc --kernel 6.18-classic --scale 1/64",
                "requests for large blocks in memory that is in pieces",
            ),
        ],
    ),
    (
        &["stood-still"],
        &[
            Look("highwater stat --every 1 --seconds 30", "what is scanned and read back while tasks wait"),
            Look("iostat -x 1", "whether the disk of swap or files is what they wait for"),
            Simulate(
                "explain stall anon --kernel 6.18-classic --scale 1/64",
                "for what each task stood still, and on whom it waited",
            ),
        ],
    ),
    (
        &["kswapd-awake"],
        &[
            Look("grep -E 'zone|pages free|min|low|high ' /proc/zoneinfo", "for which zone it is awake"),
            Simulate("run streaming-read --kernel 6.18-classic --scale 1/64", "kswapd behind a stream"),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{MemoryUse, Usage};

    #[test]
    fn every_illness_has_something_to_do_and_something_to_simulate() {
        for rule in rules::ALL {
            let steps = next(rule.cause, &Signs::default());
            assert!(steps.iter().any(|step| !matches!(step, Step::Experiment { .. })), "{}", rule.cause);
            assert!(steps.iter().all(|step| step.show().contains(": ")), "{}", rule.cause);
        }
    }

    #[test]
    fn what_is_simulated_fits_what_was_found() {
        let simulated = |cause: &str, signs: &Signs| {
            let steps = next(cause, signs).into_iter().filter(|step| matches!(step, Step::Experiment { .. }));
            steps.map(|step| step.show()).collect::<Vec<_>>().join("; ")
        };
        let without = Signs { swap: Some([0.0, 0.0]), swapped_in: Some(0.0), ..Signs::default() };
        for cause in ["all-wait", "file-cache-thrashing"] {
            assert!(simulated(cause, &without).contains("run livelock"), "{cause}: {}", simulated(cause, &without));
            assert!(!next(cause, &without).iter().any(|step| step.show().contains("swap ")), "{cause}");
        }
        let swapping = Signs { swap: Some([9.0, 1.0]), swapped_in: Some(5.0), ..Signs::default() };
        assert!(simulated("all-wait", &swapping).contains("run anon "), "{}", simulated("all-wait", &swapping));
        let now = MemoryUse { total: Some(100.0), free: Some(60.0), ..MemoryUse::default() };
        let free = Signs { usage: Some(Usage::at(now)), ..swapping };
        let fits = simulated("anonymous-thrashing", &free);
        assert!(fits.contains("min_free_kbytes") && !fits.contains("150"), "{fits}");
        // No step names a cgroup if no cgroup is known.
        let sets = |signs: &Signs| next("killed", signs).iter().any(|step| step.show().contains("memory.max"));
        let at_limit = Signs { at_limit: Some([("/a".to_owned(), 3.0)].into()), ..Signs::default() };
        assert!(!sets(&Signs::default()) && sets(&at_limit));
    }

    #[test]
    fn a_cgroup_of_version_1_is_told_the_names_of_its_files() {
        let settings = [("memory.limit_in_bytes".to_owned(), "64 MiB".to_owned())].into();
        let group = Some("/sys/fs/cgroup/memory/a".to_owned());
        let signs = Signs { settings, group, is_v1: true, ..Signs::default() };
        let shown = |cause: &str| next(cause, &signs).iter().map(Step::show).collect::<Vec<_>>().join("\n");
        for cause in ["cgroup-limit", "group-thrashing"] {
            let shown = shown(cause);
            assert!(shown.contains("set memory.limit_in_bytes (now 64 MiB)"), "{shown}");
            assert!(!["memory.max", "memory.pressure", "--cgroup"].iter().any(|it| shown.contains(it)), "{shown}");
        }
    }

    #[test]
    fn the_examined_process_and_group_are_named_and_files_of_version_1_have_their_names() {
        let process = super::super::signs::Process {
            pid: 812,
            folder: Some("/sys/fs/cgroup/memory/docker/a".into()),
            ..Default::default()
        };
        let at_limit = Some([("/memory/docker/a".to_owned(), 3.0)].into());
        let v1 = Signs { process: Some(process), at_limit, is_v1: true, ..Signs::default() };
        let of = |cause: &str, signs: &Signs| next(cause, signs).iter().map(Step::show).collect::<Vec<_>>().join("\n");
        let of_version_2 =
            ["memory.max", "memory.high", "memory.pressure", "memory.low", "memory.current", "memory.events"];
        for (causes, _) in ADVICE {
            for cause in *causes {
                let told = of(cause, &v1);
                assert!(!["PID", "GROUP"].iter().any(|place| told.contains(place)), "{cause}: {told}");
                if !["group-high", "protection-broken"].contains(cause) {
                    assert!(!of_version_2.iter().any(|file| told.contains(file)), "{cause}: {told}");
                }
            }
        }
        assert!(of("process-faults", &v1).contains("cat /proc/812/smaps_rollup"));
        assert!(of("cgroup-limit", &v1).contains("cat /sys/fs/cgroup/memory/docker/a/memory.stat"));
        assert!(of("cgroup-limit", &v1).contains("doctor --cgroup memory/docker/a"));
        // Of the whole computer, the group that came to its limit most often is named, if one is known.
        let computer = Signs { at_limit: v1.at_limit.clone(), ..Signs::default() };
        assert!(of("cgroup-limit", &computer).contains("cat /sys/fs/cgroup/memory/docker/a/memory.stat"));
        assert!(of("anonymous-thrashing", &computer).contains("--pid PID"));
    }

    #[test]
    fn a_command_whose_output_was_given_is_no_step() {
        let first = |cause: &str, given: &[&'static str]| {
            let signs = Signs { given: given.iter().copied().collect(), ..Signs::default() };
            next(cause, &signs)[0].show()
        };
        assert!(first("killed", &[]).starts_with("look at `dmesg"));
        assert!(first("killed", &["dmesg"]).starts_with("look at `ps -eo rss"), "{}", first("killed", &["dmesg"]));
        assert!(first("unreclaimable-slab", &["slabtop"]).contains("nr_dying"));
        // A command that also shows a file that was not given is a step.
        assert!(first("high-orders-fail", &["/proc/buddyinfo"]).contains("/proc/pagetypeinfo"));
        let all: Vec<&'static str> = SOURCES.into();
        assert!(rules::ALL.iter().all(|rule| {
            let signs = Signs { given: all.iter().copied().collect(), ..Signs::default() };
            !next(rule.cause, &signs).is_empty()
        }));
    }

    #[test]
    fn a_setting_that_has_the_value_already_is_no_step() {
        let of = |mode: &str| {
            let settings = [("vm.zone_reclaim_mode".to_owned(), mode.to_owned())].into();
            next(rules::ONE_NODE, &Signs { settings, ..Signs::default() })
        };
        let sets = |steps: &[Step]| steps.iter().any(|step| matches!(step, Step::Setting { .. }));
        assert!(sets(&of("1")) && !sets(&of("0")));
    }

    #[test]
    fn a_suggested_number_is_on_the_side_that_helps() {
        let set = |cause: &str, name: &str, now: &str| {
            let settings = [(name.to_owned(), now.to_owned())].into();
            let steps = next(cause, &Signs { settings, ..Signs::default() });
            steps.into_iter().find_map(|step| match step {
                Step::Setting { name: of, suggested, .. } if of == name => Some(suggested),
                _ => None,
            })
        };
        let swappiness = |now: &str| set("swap-beside-cache", "vm.swappiness", now);
        assert_eq!(swappiness("60").as_deref(), Some("10 to 30"));
        assert!(swappiness("100").unwrap().starts_with("60 or less") && swappiness("10").is_none());
        let scale = |now: &str| set("direct-reclaim", "vm.watermark_scale_factor", now);
        assert_eq!(
            [scale("10").as_deref(), scale("50").as_deref(), scale("500").as_deref()],
            [Some("30 to 100"), Some("100"), None]
        );
    }

    #[test]
    fn a_setting_is_told_with_what_it_is_now() {
        let signs = Signs {
            settings: [("vm.swappiness".to_owned(), "200".to_owned())].into(),
            group: Some("/sys/fs/cgroup/a/".into()),
            ..Signs::default()
        };
        let steps = next("swap-beside-cache", &signs);
        assert!(steps[0].show().starts_with("set vm.swappiness (now 200) to 60 or less"), "{}", steps[0].show());
        let marks = |total_kib: f64, set: &[(&str, &str)]| {
            let memory = MemoryUse { total: Some(total_kib / PAGE_KIB), ..MemoryUse::default() };
            let settings = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let signs = Signs { usage: Some(Usage::at(memory)), settings, ..Signs::default() };
            let steps = next("marks-too-high", &signs);
            steps.iter().map(Step::show).filter(|step| step.starts_with("set")).collect::<Vec<_>>()
        };
        // The suggested value is the kernel's own for this size of memory. Nothing is suggested if the value is as low
        // already.
        assert!(
            marks(16_777_216.0, &[])[0]
                .starts_with("set vm.min_free_kbytes to 16384, or 67584 where huge pages are on")
        );
        let small = marks(524_260.0, &[("vm.min_free_kbytes", "157000"), ("vm.watermark_scale_factor", "5")]);
        assert_eq!(small.len(), 1, "{small:?}");
        assert!(small[0].starts_with("set vm.min_free_kbytes (now 157000) to 2896, or 26213 where"), "{small:?}");
        let by_distance = marks(524_260.0, &[("vm.min_free_kbytes", "2896"), ("vm.watermark_scale_factor", "1000")]);
        assert_eq!(by_distance.len(), 1, "{by_distance:?}");
        assert!(by_distance[0].starts_with("set vm.watermark_scale_factor (now 1000) to 10: "), "{by_distance:?}");
        let of_group = next("cgroup-limit", &signs);
        assert!(of_group[0].show().starts_with("look at `cat /sys/fs/cgroup/a/memory.stat`: "), "{of_group:?}");
    }
}
