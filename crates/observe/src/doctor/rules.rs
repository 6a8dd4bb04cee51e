//! The rules, one for each illness.
//!
//! A rule returns its finding, none, or the name of a missing sign. Every threshold is a constant with its reason; the
//! text of the rule in a finding uses the same constant. Before a rule states a cause, it checks the facts that would
//! refute this cause ([`Rule::unless`]). If these facts are unknown, the finding says so.

mod blocks;
mod disks;
pub(super) mod group_bounds;
mod groups;
mod marks;
mod nodes;
mod swap;

pub mod kernel_log;
pub mod memory_use;

pub use swap::{SWAPPINESS_LOW, fit, is_much_free};

use super::signs::{Disk, FileSystem, Missing, OutOfMemory, Scan, Signs, Zone, need};
use super::{Evidence, Finding, Weight};
use engine::memory::PAGEBLOCK_ORDER;
use machine::PAGE_BYTES;

/// The answer of a rule: a finding, or `None` if the rule finds nothing. If the input lacks a sign (counter or level)
/// that the rule needs, the answer is an error with the name of this sign.
pub type Said = Result<Option<Finding>, Missing>;

/// The function of a rule. It judges the signs (counters and levels) of one period.
pub type Ask = fn(&Signs) -> Said;

/// The periods of a recording to which a rule is applied: the whole recording only, or also shorter spans of it.
#[derive(Clone, Copy, Debug)]
pub enum Over {
    /// The rule is asked about the whole observed period only.
    Whole,
    /// The rule is asked about the whole observed period and about spans in it. The function returns the load of a
    /// span, in seconds: the amount of reclaim work in the span, divided by the smallest rate of such work that counts
    /// as an illness. The span with the largest load is the worst. A finding over the whole period is dropped if a few
    /// seconds caused at least half of the load.
    Spans(fn(&Signs) -> f64),
    /// The rule, which is about a share of time or about many events, is asked about the whole observed period and
    /// about spans in it. The function returns the load of a span, as for [`Over::Spans`]. Unlike with [`Over::Spans`],
    /// a finding over the whole period is kept even if a few seconds caused most of the load.
    Shares(fn(&Signs) -> f64),
    /// As [`Over::Shares`], but spans in which the rule finds only a notice are reported, too.
    Notices(fn(&Signs) -> f64),
    /// The rule, which is about levels or about single events, is asked about the whole observed period. If it finds an
    /// illness, it is also asked about each interval, and the intervals with the illness are reported.
    Moments,
}

impl Over {
    /// Returns the function that computes the load of a span (a part of the recording), as [`Over::Spans`] describes
    /// it; none if the rule is not asked about spans.
    #[must_use]
    pub fn load(self) -> Option<fn(&Signs) -> f64> {
        match self {
            Self::Spans(load) | Self::Shares(load) | Self::Notices(load) => Some(load),
            Self::Whole | Self::Moments => None,
        }
    }
}

/// A rule of the doctor: a function that finds one illness, and the periods about which it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the illness that the rule finds.
    pub cause: &'static str,
    /// The function that judges the signs (counters and levels) of one period.
    pub ask: Ask,
    /// The periods to which the rule is applied: the whole input, or also spans in it.
    pub over: Over,
    /// Facts, in words, that would refute the illness or its cause. The rule finds the illness only if these facts do
    /// not hold. Empty if there are none.
    pub unless: &'static str,
}

/// Smallest rate, pages/s, at which a rule considers the work of reclaim a problem: 100 KiB/s. For a moment, any
/// computer reaches this rate.
pub const RATE_MIN: f64 = 25.0;

/// Smallest share of a CPU, percent, at which kswapd's CPU time is an illness by itself. Reclaim that keeps up with a
/// disk takes less than 5 %.
pub const KSWAPD_CPU_MIN: f64 = 10.0;

/// Name of an illness: most scanning is in a zone in which few pages are allocated.
pub const ONE_ZONE: &str = "one-zone";

/// Name of an illness: a memory node is full while other nodes have free memory.
pub const ONE_NODE: &str = "one-node";

/// Illnesses whose rules need counters that most inputs lack. Since Linux 4.8 kernels do not count scanning by zone,
/// and computers with one node provide no values by node.
pub const SELDOM: [&str; 2] = [ONE_ZONE, ONE_NODE];

/// Smallest number of direct reclaims per second that slows tasks down noticeably. Each direct reclaim is a pause of
/// milliseconds, and at one per second the pauses recur steadily.
pub const STALLS_MIN: f64 = 1.0;

/// Smallest share of all scanning, percent, that tasks must do to show that kswapd is too slow. kswapd wakes at the low
/// mark so that tasks need not reclaim, but in bursts tasks still do a few percent of the scanning.
pub const DIRECT_MIN: f64 = 10.0;

/// Smallest share of time, percent, in which at least one task waits for memory (`some` of PSI), from which programs
/// notice the waits. 0.1 % is a millisecond in each second.
pub const WAITED_MIN: f64 = 0.1;

/// Smallest share of time, percent, in which all tasks wait for memory (`full` of PSI), from which the doctor reports
/// the waits as an illness. No work is done in this time.
pub const ALL_WAITED_MIN: f64 = 5.0;

/// Smallest number of pages swapped in per 100 pages swapped out at which programs seem to need their swapped pages
/// again. The pages of idle programs go out and stay out. If programs thrash, the number may exceed 100, since clean
/// pages can leave again without a write.
pub const SWAP_BACK_MIN: f64 = 25.0;

/// For each 100 pages swapped in, at least this many pages must be reclaimed or swapped out, so that swap-ins count as
/// the cause of reclaim. If fewer pages leave memory, swap-ins merely fill free memory again after a shortage.
pub const SWAP_LEAVES_MIN: f64 = 50.0;

/// Smallest number of file refaults per 100 reclaimed pages at which the cache counts as too small: one page in five
/// was needed again.
pub const REFAULT_MIN: f64 = 20.0;

/// Smallest number of pages reclaimed per 100 scanned at which scanning counts as effective. Each page may get a second
/// chance, so even healthy reclaim may scan two pages for each page that it reclaims, which gives 50. At 30, the kernel
/// scans more than three pages for each page that it reclaims.
pub const EFFICIENCY_MIN: f64 = 30.0;

/// Number of failures from which on the doctor reports that requests for blocks of several pages fail. A few such
/// requests fail on any computer.
pub const FAILURES_MIN: f64 = 10.0;

/// Smallest share of failures, percent, among all page faults that want a huge page, that counts as an illness. A fault
/// fails if it gets no huge page.
pub const HUGE_FAILED_MIN: f64 = 10.0;

/// Smallest percentage of failed compactions, of those with a known result, that counts as an illness.
pub const COMPACTIONS_FAILED_MIN: f64 = 50.0;

/// Smallest percentage of samples with throttled writers that counts as an illness. One sample in five is more than a
/// burst.
pub const HELD_BACK_MIN: f64 = 20.0;

/// Number of unwritten pages per 100 scanned pages from which on reclaim counts as waiting for disks. Unwritten pages
/// are those that reclaim found under writeback, and those that it wrote itself. Flushers should have written these
/// pages before reclaim found them at the tail of an inactive list.
pub const UNWRITTEN_MIN: f64 = 10.0;

/// Free share of swap, percent, below which swap counts as full. The kernel itself treats swap as full when half is
/// used; below this threshold, what is left is too small for any program.
pub const SWAP_FREE_MIN: f64 = 5.0;

/// Free share of a file system, percent, below which the file system counts as full, because there is no room for a
/// large file.
pub const DISK_FREE_MIN: f64 = 1.0;

/// Smallest share of all scanning, percent, that must be in one zone before the zone counts as the cause of reclaim.
pub const ZONE_SCAN_MIN: f64 = 50.0;

/// A zone counts as the cause of reclaim only if its share of all scanning is at least this many times its share of all
/// allocations.
pub const ZONE_EXCESS_MIN: f64 = 3.0;

/// Share of memory, percent. If at least this share is free all the time, the doctor says that much memory is free. The
/// kernel's own watermarks keep only a few percent free.
pub const FREE_MUCH: f64 = 15.0;

/// Number of pages scanned in vain that count as much as one reclaimed page when the work of reclaim in a span of time
/// is computed. Scanning a page costs less than a microsecond, and even in normal work each page may be scanned twice.
const IN_VAIN_TIMES: f64 = 100.0;

/// Number of refaults of file pages per 100 reclaimed pages from which on a short span counts as thrashing. The ratio
/// fluctuates in short spans, so this number is larger than [`REFAULT_MIN`], which applies to the mean over a long
/// time.
const REFAULT_SPAN_MIN: f64 = 50.0;

/// The rules that are asked about every input.
pub const ALL: [Rule; 19] = [
    Rule { cause: "killed", ask: killed, over: Over::Moments, unless: "" },
    Rule {
        cause: "all-wait",
        ask: all_wait,
        over: Over::Shares(|signs| signs.all_waited_percent.unwrap_or(0.0) * seconds(signs)),
        unless: "",
    },
    Rule {
        cause: "direct-reclaim",
        ask: direct_reclaim,
        over: Over::Spans(|signs| {
            (signs.direct.scanned.unwrap_or(0.0) / RATE_MIN).max(signs.stalls.unwrap_or(0.0) / STALLS_MIN)
        }),
        unless: "nobody waits (PSI)",
    },
    Rule {
        cause: "anonymous-thrashing",
        ask: swap::anonymous_thrashing,
        over: Over::Spans(swap::exchanged),
        unless: "pages only come back, into memory that was free",
    },
    Rule {
        cause: "swap-beside-cache",
        ask: swap::swap_beside_cache,
        over: Over::Spans(swap::exchanged),
        unless: "page cache is small, or much is free",
    },
    Rule {
        cause: "marks-too-high",
        ask: marks::marks_too_high,
        over: Over::Spans(marks::worked),
        unless: "kswapd does nothing, known marks are low, another node is full, or whole blocks are wanted",
    },
    Rule {
        cause: "file-cache-thrashing",
        ask: file_cache_thrashing,
        over: Over::Spans(|signs| {
            let back = signs.refaulted_file.unwrap_or(0.0);
            let is_large = percent(back, signs.stolen().unwrap_or(0.0)) >= REFAULT_SPAN_MIN;
            if is_large { back / RATE_MIN } else { 0.0 }
        }),
        unless: "most of what is reclaimed is not wanted again, or nearly all of it is of one group at its limit while the computer has free \
                 memory",
    },
    Rule {
        cause: "group-thrashing",
        ask: groups::group_thrashing,
        over: Over::Whole,
        unless: "the group was not reclaimed, or its major faults are a program's that starts",
    },
    Rule {
        cause: "kswapd-in-vain",
        ask: kswapd_in_vain,
        over: Over::Shares(|signs| in_vain_load(signs.kswapd)),
        unless: "",
    },
    Rule {
        cause: "direct-in-vain",
        ask: direct_in_vain,
        over: Over::Shares(|signs| in_vain_load(signs.direct)),
        unless: "",
    },
    Rule { cause: ONE_ZONE, ask: one_zone, over: Over::Whole, unless: "" },
    Rule {
        cause: ONE_NODE,
        ask: nodes::one_node,
        over: Over::Spans(nodes::scanned),
        unless: "no other node has free memory all the time",
    },
    Rule {
        cause: "high-orders-fail",
        ask: high_orders_fail,
        over: Over::Shares(|signs| signs.huge_failed.unwrap_or(0.0).max(signs.compactions_failed.unwrap_or(0.0))),
        unless: "",
    },
    Rule {
        cause: "dirty-throttling",
        ask: dirty_throttling,
        over: Over::Shares(|signs| {
            signs.dirty.map_or(0.0, |dirty| dirty.held_back_percent / HELD_BACK_MIN) * seconds(signs)
        }),
        unless: "little becomes dirty",
    },
    Rule {
        cause: "reclaim-meets-unwritten",
        ask: reclaim_meets_unwritten,
        over: Over::Shares(|signs| met_unwritten(signs).map_or(0.0, |(met, ..)| met / RATE_MIN)),
        unless: "pages that were rotated were swapped out",
    },
    Rule { cause: "swap-full", ask: swap::swap_full, over: Over::Moments, unless: "nothing is in swap" },
    Rule { cause: "disk-full", ask: disk_full, over: Over::Moments, unless: "" },
    Rule {
        cause: "cgroup-limit",
        ask: groups::cgroup_limit,
        over: Over::Moments,
        unless: "the group's tasks do not wait",
    },
    Rule {
        cause: "kswapd-awake",
        ask: kswapd_awake,
        over: Over::Spans(|signs| signs.kswapd_cpu_s.map_or(0.0, |time| 100.0 * time / KSWAPD_CPU_MIN)),
        unless: "",
    },
];

/// The illnesses that consist in the waiting of tasks. Each is an effect of other illnesses.
const FELT: [&str; 3] = ["all-wait", "direct-reclaim", "process-faults"];

/// Illnesses in which reclaim has much work, effective or not. Their causes are lack of memory or settings, and their
/// effect is that tasks wait.
const WORK: [&str; 8] = [
    "anonymous-thrashing",
    "file-cache-thrashing",
    "group-thrashing",
    "kswapd-in-vain",
    "direct-in-vain",
    "high-orders-fail",
    "dirty-throttling",
    "reclaim-meets-unwritten",
];

/// Returns the stage of the illness `cause` in the order from causes to effects. 0: possible causes, such as a setting,
/// a limit or something full, and reports of the kernel that state their reason. 1: work of reclaim. 2: effects on
/// tasks.
#[must_use]
pub fn stage(cause: &str) -> usize {
    if FELT.contains(&cause) { 2 } else { usize::from(WORK.contains(&cause)) }
}

/// Returns whether the illness `cause` is file-cache thrashing of a single cgroup: nearly all refaults of the computer
/// are those of one cgroup at its own limit. No spans of time with this illness are then searched for, because counters
/// of cgroups exist only for the whole observed period. `signs` are those of the whole period.
#[must_use]
pub fn is_of_group(cause: &str, signs: &Signs) -> bool {
    cause == "file-cache-thrashing" && groups::have_most(signs, |signs| signs.refaulted_file)
}

/// The rules about the uses of memory. They are asked if the size of memory is known.
pub const OF_USE: [Rule; 4] = [
    Rule { cause: "memory-held", ask: memory_use::held, over: Over::Moments, unless: "" },
    Rule { cause: "page-tables", ask: memory_use::page_tables, over: Over::Moments, unless: "" },
    Rule { cause: "reclaimable-slab", ask: memory_use::reclaimable_slab, over: Over::Moments, unless: "" },
    Rule { cause: "memory-short", ask: memory_use::short, over: Over::Notices(memory_use::shortage), unless: "" },
];

/// A function that returns whether an input has the signs that a rule needs.
pub type Brings = fn(&Signs) -> bool;

/// Rules that are asked only if the input has the signs that they need, such as those of a process, a kernel log, disks
/// or bounds of cgroups. Each rule comes with a function that tests whether the input has its signs. If it does not,
/// the report does not list the rule among those that could not be asked.
pub const OF_SOURCE: [(Brings, Ask); 14] = [
    (|signs| signs.process.is_some(), groups::process_faults),
    (|signs| signs.log.is_some(), kernel_log::allocation_failed),
    (|signs| signs.log.is_some(), kernel_log::stood_still),
    (marks::is_of_a_moment, marks::marks_keep_much),
    (|signs| signs.is_since_start && signs.group.is_none(), since_start),
    (|signs| !signs.disks.is_empty(), disks::busy_disk),
    (blocks::are_known, blocks::in_pieces),
    (nodes::are_of_a_moment, nodes::full_node),
    (marks::are_of_a_moment, marks::below_marks),
    (groups::is_made_known, groups::since_made),
    (group_bounds::are_known, group_bounds::held_at_high),
    (group_bounds::are_known, group_bounds::protection_broken),
    (memory_use::is_alone, memory_use::largest),
    (|signs| signs.kswapd_shown_percent.is_some(), kswapd_shown),
];

fn seconds(signs: &Signs) -> f64 {
    signs.elapsed_s.unwrap_or(0.0)
}

fn in_vain_load(scan: Scan) -> f64 {
    let scanned = scan.scanned.unwrap_or(0.0);
    (scanned - scan.stolen.unwrap_or(0.0)).max(0.0) / (RATE_MIN * IN_VAIN_TIMES)
}

/// Converts pages to MiB.
fn mib(pages: f64) -> f64 {
    pages * PAGE_BYTES as f64 / f64::from(1 << 20)
}

fn figure(name: &str, value: f64, unit: &'static str) -> Evidence {
    Evidence { name: name.into(), value, unit }
}

/// Returns a figure that supports a finding; none if its value is unknown.
fn if_known(name: &str, value: Option<f64>, unit: &'static str) -> Option<Evidence> {
    value.map(|value| figure(name, value, unit))
}

fn ill(cause: &'static str, sentence: String, figures: Vec<Evidence>, rule: String) -> Option<Finding> {
    Some(Finding::new(cause, sentence, figures, rule))
}

/// Returns the share of `part` in `all`, percent; 0 if `all` is 0.
fn percent(part: f64, all: f64) -> f64 {
    if all > 0.0 { 100.0 * part / all } else { 0.0 }
}

/// Returns a finding if kswapd scans pages at a rate that matters, or takes much of a CPU. The finding names the zones
/// for which kswapd works, if they are known. It is an illness if kswapd takes much of a CPU, or if a zone is below its
/// min mark at the end of the period; otherwise it is a notice.
fn kswapd_awake(signs: &Signs) -> Said {
    let scanned = need(signs.kswapd.scanned, "pgscan_kswapd")?;
    let rate = scanned / signs.seconds()?;
    let cpu = signs.kswapd_cpu_s.map(|time| percent(time, signs.elapsed_s.unwrap_or_default()));
    if rate < RATE_MIN && cpu.is_none_or(|cpu| cpu < KSWAPD_CPU_MIN) {
        return Ok(None);
    }
    let zones = signs.zones.as_deref().unwrap_or_default();
    let under = |mark: usize| {
        let found = zones.iter().filter(|zone| zone.marks[mark] > 0.0 && zone.free < zone.marks[mark]);
        found.map(|zone| zone.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (under_min, under_low, under_high) = (under(0), under(1), under(2));
    let busiest = signs.scanned_by_zone.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|(_, pages)| **pages > 0.0);
    let for_whom = match (&*under_min, &*under_low, &*under_high, signs.zones.is_some(), busiest) {
        ("", "", "", true, _) => "All zones are at their high marks at the end: it keeps up.".to_owned(),
        ("", "", zones, true, _) => format!("Below the high mark at the end: {zones}."),
        ("", zones, _, true, _) => format!("Below even the low mark at the end: {zones}."),
        (zones, _, _, true, _) => format!("Below even the min mark at the end: {zones}."),
        (.., Some((zone, pages))) => {
            let all = signs.scanned_by_zone.values().sum();
            format!("{:.0} % of what is scanned lies in {zone}.", percent(*pages, all))
        }
        _ => "For which zone is not known.".to_owned(),
    };
    let is_busy = cpu.is_some_and(|cpu| cpu >= KSWAPD_CPU_MIN);
    let busy = if is_busy { " and takes much of a CPU" } else { "" };
    let figures = [
        Some(figure("pgscan_kswapd", scanned, "pages")),
        Some(figure("a second", rate, "pages")),
        if_known("pgsteal_kswapd", signs.kswapd.stolen, "pages"),
        if_known("CPU of kswapd", cpu, "% of a CPU"),
    ];
    let free = signs.usage.as_ref().and_then(|usage| usage.least.free);
    let how_full = match (signs.free_share(), free) {
        (Some(share), Some(free)) if share >= FREE_MUCH => {
            format!("Never less than {:.0} MiB ({share:.0} %) of memory are free, and yet kswapd", mib(free))
        }
        (Some(_), _) => "Memory is full and kswapd".to_owned(),
        _ => "kswapd".to_owned(),
    };
    Ok(Some(Finding {
        weight: if is_busy || !under_min.is_empty() { Weight::Illness } else { Weight::Notice },
        ..Finding::new(
            "kswapd-awake",
            format!("{how_full} makes room in the background: it scans {rate:.0} pages a second{busy}. {for_whom}"),
            figures.into_iter().flatten().collect(),
            format!(
                "kswapd scans at least {RATE_MIN} pages a second, or takes {KSWAPD_CPU_MIN} % of a CPU; an illness with the latter, or \
                 where a zone is under its min mark at the end: at the low mark it begins; that memory is full is said where less than \
                 {FREE_MUCH} % is free"
            ),
        )
    }))
}

/// Finds a kswapd that takes much of a CPU by the list of processes, where no counter tells what it does.
fn kswapd_shown(signs: &Signs) -> Said {
    let cpu = need(signs.kswapd_shown_percent, "kswapd in top or ps")?;
    let counters = signs.kswapd.scanned.is_some() && signs.elapsed_s.is_some();
    if cpu < KSWAPD_CPU_MIN || counters {
        return Ok(None);
    }
    let free = match (signs.free_share(), signs.usage.as_ref().and_then(|usage| usage.last.free)) {
        (Some(share), Some(free)) if share >= FREE_MUCH => format!(
            " {:.0} MiB ({share:.0} %) of memory are free meanwhile: it works for one zone or node, or for large blocks, or in vain.",
            mib(free)
        ),
        (Some(share), _) => format!(" {share:.0} % of memory are free."),
        (None, _) => String::new(),
    };
    let sentence = format!(
        "kswapd takes {cpu:.0} % of a CPU, by the list of processes.{free} Whether it frees pages, two copies of /proc/vmstat tell."
    );
    let rule = format!(
        "top or ps shows a kswapd with at least {KSWAPD_CPU_MIN} % of a CPU, and no counters of reclaim are given"
    );
    Ok(ill("kswapd-awake", sentence, vec![figure("CPU of kswapd", cpu, "% of a CPU")], rule))
}

/// Finds tasks that reclaim memory themselves, and how long they spend on it.
fn direct_reclaim(signs: &Signs) -> Said {
    let (kswapd, direct) = (need(signs.kswapd.scanned, "pgscan_kswapd")?, need(signs.direct.scanned, "pgscan_direct")?);
    let seconds = signs.seconds()?;
    let share = percent(direct, kswapd + direct);
    let stalls = signs.stalls.map(|stalls| stalls / seconds);
    let is_frequent = stalls.is_some_and(|stalls| stalls >= STALLS_MIN);
    let is_large = share >= DIRECT_MIN && direct / seconds >= RATE_MIN;
    let is_felt = signs.some_waited_percent.is_none_or(|waited| waited >= WAITED_MIN);
    if !(is_frequent || is_large) || !is_felt {
        return Ok(None);
    }
    // `allocstall` does not count reclaim at a cgroup's limit.
    let how_often = match stalls {
        Some(stalls) if stalls >= 0.05 => format!(", {stalls:.1} times a second"),
        _ => format!(", {:.0} pages a second", direct / seconds),
    };
    let wait = match (signs.some_waited_percent, signs.direct_s) {
        (Some(waited), _) => format!("Some task waited for memory {waited:.1} % of the time."),
        (None, Some(time)) => format!("They spent {time:.3} s in it."),
        (None, None) => "How long they wait is not known.".to_owned(),
    };
    let figures = [
        if_known("allocstall", signs.stalls, "events"),
        Some(figure("pgscan_direct", direct, "pages")),
        if_known("pgsteal_direct", signs.direct.stolen, "pages"),
        Some(figure("share of all scanned", share, "%")),
        if_known("some waited for memory", signs.some_waited_percent, "% of the time"),
        if_known("time in direct reclaim", signs.direct_s, "s"),
    ];
    let sentence = format!(
        "Tasks that want memory have to reclaim it themselves{how_often}: {share:.0} % of what is scanned. {} {wait}",
        why_direct(signs, kswapd / seconds)
    );
    let rule = format!(
        "at least {STALLS_MIN} direct reclaim a second, or {DIRECT_MIN} % of what is scanned and {RATE_MIN} pages a second; where PSI \
         is known, some task waits at least {WAITED_MIN} % of the time; that kswapd is behind is said where it scans {RATE_MIN} pages a \
         second itself, and {KSWAPD_RATE_MIN} or {KSWAPD_SHARE_MIN} % of all"
    );
    Ok(ill("direct-reclaim", sentence, figures.into_iter().flatten().collect(), rule))
}

/// Share of all scanning, percent, below which kswapd counts as idle, provided that it scans less than
/// [`KSWAPD_RATE_MIN`].
const KSWAPD_SHARE_MIN: f64 = 5.0;

/// Scan rate, pages/s, below which kswapd may count as idle if tasks scan much more ([`KSWAPD_SHARE_MIN`]). It is one
/// batch of 32 pages every tenth of a second.
const KSWAPD_RATE_MIN: f64 = 320.0;

/// If tasks reclaim fewer pages than this per 100 that they scan, kswapd may have given up on a node. As soon as pages
/// are reclaimed, kswapd works again. Source: docs/mechanisms/modern.md, 4.12.
const GIVEN_UP_EFFICIENCY_MAX: f64 = 1.0;

/// Returns whether kswapd scans nothing, or hardly anything compared with tasks, and takes little CPU time.
#[must_use]
pub fn is_kswapd_idle(signs: &Signs) -> bool {
    let Ok(seconds) = signs.seconds() else { return false };
    let [kswapd, direct] = [signs.kswapd, signs.direct].map(|scan| scan.scanned.unwrap_or(0.0) / seconds);
    let of_cpu = signs.kswapd_cpu_s.map_or(0.0, |time| percent(time, seconds));
    let is_beside = kswapd < KSWAPD_RATE_MIN && percent(kswapd, kswapd + direct) < KSWAPD_SHARE_MIN;
    (kswapd < RATE_MIN || is_beside) && of_cpu < KSWAPD_CPU_MIN
}

/// Returns a sentence on why tasks reclaim memory themselves. A request that finds no free pages wakes kswapd first. So
/// if kswapd is idle, tasks reclaim for another reason than a lack of free pages.
fn why_direct(signs: &Signs, kswapd_rate: f64) -> String {
    let is_idle = is_kswapd_idle(signs);
    let idle = if kswapd_rate == 0.0 { "kswapd scans nothing" } else { "kswapd scans next to nothing" };
    let at_limit = signs.at_limit.iter().flatten().max_by(|a, b| a.1.total_cmp(b.1)).filter(|(_, times)| **times > 0.0);
    match at_limit {
        Some((name, times)) if is_idle => {
            return format!(
                "{idle}, since it is not asked: {} came to its limit {times:.0} times, and its tasks reclaim its own pages.",
                groups::called(name)
            );
        }
        _ => {}
    }
    let mode = signs.settings.get("vm.zone_reclaim_mode").map(String::as_str);
    let is_own = signs.node_reclaims.is_some_and(|times| times > 0.0) || mode.is_some_and(|mode| mode != "0");
    let is_by_node = is_own || nodes::uneven(signs).is_some();
    let Scan { scanned, stolen } = signs.direct;
    let has_given_up =
        scanned.zip(stolen).is_some_and(|(scanned, stolen)| percent(stolen, scanned) < GIVEN_UP_EFFICIENCY_MAX);
    match (is_idle, is_by_node) {
        (true, false) if has_given_up => format!(
            "{idle}: it has given up after passes that reclaimed nothing, or is not asked, as for a cgroup at its limit or a node that \
             reclaims itself (vm.zone_reclaim_mode)."
        ),
        (true, true) if is_own => {
            format!("{idle}: tasks reclaim their own node before they take memory of another (vm.zone_reclaim_mode).")
        }
        (true, true) if mode.is_some() => {
            format!(
                "{idle}: tasks are bound to a node that is full (cpuset, mempolicy), since vm.zone_reclaim_mode is 0."
            )
        }
        (true, true) => format!(
            "{idle}: tasks reclaim their own node before they take memory of another, if vm.zone_reclaim_mode is not 0, or are bound to it."
        ),
        (true, false) => format!(
            "{idle}, so that it is not for want of free pages: a cgroup is at its limit, a node reclaims itself \
             (vm.zone_reclaim_mode), or somebody asks for reclaim."
        ),
        (false, _) => "kswapd does not keep up, or has no room to.".into(),
    }
}

/// Returns whether the counters show that no task can have waited for memory: no page was scanned, compacted or read
/// back.
fn nobody_could_wait(signs: &Signs) -> bool {
    // Kernels without compaction have no counter for compactions, so a missing one counts as 0. A kernel without a
    // counter for file refaults leaves the answer open. Only `stolen_together` includes the pages that cgroups reclaim
    // at their limits.
    let known = [signs.kswapd.scanned, signs.direct.scanned, signs.swapped_in, signs.refaulted_file];
    let others = [signs.compactions, signs.refaulted_anon, signs.zeroes_in, signs.stolen_together];
    let others = others.map(|pages| pages.or(Some(0.0)));
    known.into_iter().chain(others).all(|pages| pages == Some(0.0))
}

/// Reports counters from one copy of `/proc/vmstat` as totals since boot.
fn since_start(signs: &Signs) -> Said {
    let figures = [
        if_known("pgscan_kswapd", signs.kswapd.scanned, "pages"),
        if_known("pgscan_direct", signs.direct.scanned, "pages"),
        if_known("pgscan_anon and pgscan_file", signs.scanned_together, "pages"),
        if_known("allocstall", signs.stalls, "events"),
        if_known("pswpin", signs.swapped_in, "pages"),
        if_known("pswpout", signs.swapped_out, "pages"),
        if_known("workingset_refault_file", signs.refaulted_file, "pages"),
        if_known("pgmajfault", signs.major_faults, "faults"),
        if_known("oom_kill", signs.killed, "events"),
    ];
    let scanned = signs.kswapd.scanned.unwrap_or(0.0) + signs.direct.scanned.unwrap_or(0.0);
    let reclaimed = signs.stolen().filter(|_| scanned > 0.0).map(|stolen| format!(" and reclaimed {}", pages(stolen)));
    // A copy may have only the counters by kind of page.
    let by_kind = signs.scanned_together.unwrap_or(0.0);
    let reclaim = match signs.kswapd.scanned.zip(signs.direct.scanned) {
        _ if scanned > 0.0 => format!(
            "reclaim scanned {}, {:.0} % of them by tasks that waited for it,{}",
            pages(scanned),
            percent(signs.direct.scanned.unwrap_or(0.0), scanned),
            reclaimed.unwrap_or_default()
        ),
        _ if by_kind > 0.0 => {
            let stolen = signs.stolen().map(|stolen| format!(" and reclaimed {}", pages(stolen)));
            format!("reclaim scanned {}{}", pages(by_kind), stolen.unwrap_or_default())
        }
        Some(_) => "reclaim had nothing to do".to_owned(),
        None => "an unknown number of pages was scanned (no pgscan_kswapd and pgscan_direct)".to_owned(),
    };
    let swap = signs.swapped_in.zip(signs.swapped_out).map(|(come, left)| match (come, left) {
        (0.0, 0.0) => "; nothing was swapped".to_owned(),
        (come, left) => format!("; {} left for swap and {} came back", pages(left), pages(come)),
    });
    let sentence = format!(
        "Since this computer was started {}{}. When, and how fast, one copy of /proc/vmstat does not tell: a second one some time later, \
         given behind the first with --seconds, does.",
        reclaim.trim_end_matches(','),
        swap.unwrap_or_default()
    );
    Ok(Some(Finding {
        weight: Weight::Notice,
        ..Finding::new(
            "since-start",
            sentence,
            figures.into_iter().flatten().collect(),
            "there is one copy of /proc/vmstat".to_owned(),
        )
    }))
}

/// Finds times in which all tasks wait for memory at once: all of the computer or, where its PSI is not known, all of a
/// cgroup.
fn all_wait(signs: &Signs) -> Said {
    let of_group = |(name, group): (&String, &Signs)| Some((name.clone(), group.all_waited_percent?));
    let groups = signs.groups.iter().filter_map(of_group);
    let worst = groups.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| signs.all_waited_percent.is_none());
    if worst.is_none() && signs.all_waited_percent.is_none() && nobody_could_wait(signs) {
        return Ok(None);
    }
    let all = need(worst.as_ref().map(|(_, all)| *all).or(signs.all_waited_percent), "PSI of memory")?;
    if all < ALL_WAITED_MIN {
        return Ok(None);
    }
    let some = match &worst {
        Some((name, _)) => signs.groups[name].some_waited_percent,
        None => signs.some_waited_percent,
    };
    let figures = [
        Some(figure("all waited for memory", all, "% of the time")),
        if_known("some waited for memory", some, "% of the time"),
    ];
    let whose = worst.map_or_else(String::new, |(name, _)| format!(" of {}", groups::called(&name)));
    let sentence = format!("In {all:.0} % of the time all tasks{whose} that had something to do waited for memory.");
    let rule = format!("`full` of /proc/pressure/memory grows by at least {ALL_WAITED_MIN} % of the time");
    Ok(ill("all-wait", sentence, figures.into_iter().flatten().collect(), rule))
}

/// Returns a finding if many file pages were read again after reclaim had taken them.
fn file_cache_thrashing(signs: &Signs) -> Said {
    let back = need(signs.refaulted_file, "workingset_refault_file")?;
    // Pages that cgroups reclaim at their limits are counted by kind of page (since 5.8), not by reclaimer.
    let stolen = need(signs.stolen(), "pgsteal_kswapd and pgsteal_direct")?;
    let rate = back / signs.seconds()?;
    let share = percent(back, stolen);
    if rate < RATE_MIN || share < REFAULT_MIN || groups::have_most(signs, |signs| signs.refaulted_file) {
        return Ok(None);
    }
    let soon = match signs.activated_file {
        Some(activated) if activated > 0.0 => {
            format!(" {:.0} % of them had left so recently that they became active at once.", percent(activated, back))
        }
        _ => String::new(),
    };
    let figures = [
        Some(figure("workingset_refault_file", back, "pages")),
        Some(figure("a second", rate, "pages")),
        Some(figure("pages reclaimed", stolen, "pages")),
        if_known("workingset_activate_file", signs.activated_file, "pages"),
    ];
    let sentence = format!(
        "The cache of files is too small for what is read: for each 100 pages that reclaim took, {share:.0} pages of files were read \
         again, {rate:.0} a second.{soon}"
    );
    let rule =
        format!("at least {RATE_MIN} refaults of files a second, and {REFAULT_MIN} for each 100 pages reclaimed");
    Ok(ill("file-cache-thrashing", sentence, figures.into_iter().flatten().collect(), rule))
}

fn kswapd_in_vain(signs: &Signs) -> Said {
    in_vain(signs, "kswapd-in-vain", "kswapd", signs.kswapd)
}

fn direct_in_vain(signs: &Signs) -> Said {
    in_vain(signs, "direct-in-vain", "direct", signs.direct)
}

/// Finds that kswapd or tasks scan in vain: most scanned pages are not reclaimed. `who` names the reclaimer as in
/// counters: `kswapd` or `direct`.
fn in_vain(signs: &Signs, cause: &'static str, who: &str, Scan { scanned, stolen }: Scan) -> Said {
    let names = ["pgscan", "pgsteal"].map(|it| format!("{it}_{who}"));
    let scanned = need(scanned, &names[0])?;
    if scanned / signs.seconds()? < RATE_MIN {
        return Ok(None);
    }
    // One reclaimer cannot have reclaimed more than all of them together.
    let together = signs.stolen_together.filter(|pages| percent(*pages, scanned) < EFFICIENCY_MIN);
    let is_exact = stolen.is_some();
    let stolen = need(stolen.or(together), &names[1])?;
    let efficiency = percent(stolen, scanned);
    if efficiency >= EFFICIENCY_MIN {
        return Ok(None);
    }
    let whose = if who == "direct" { "Direct reclaim" } else { "kswapd" };
    let (of_whom, share, at_most) = match is_exact {
        true => (&*names[1], "efficiency", ""),
        false => ("pages reclaimed by all", "efficiency, at most", "at most "),
    };
    let figures =
        vec![figure(&names[0], scanned, "pages"), figure(of_whom, stolen, "pages"), figure(share, efficiency, "%")];
    let sentence = format!(
        "{whose} scans in vain: of 100 pages it can reclaim {at_most}{efficiency:.0}. The others are in use, locked, dirty or under \
         writeback, or it scans what it must not take."
    );
    let rule = format!("at least {RATE_MIN} pages a second scanned, and fewer than {EFFICIENCY_MIN} of 100 reclaimed");
    Ok(ill(cause, sentence, figures, rule))
}

/// Finds that most pages that reclaim scans, but few pages that are allocated, are in one zone.
fn one_zone(signs: &Signs) -> Said {
    let sum = |by_zone: &std::collections::BTreeMap<String, f64>, name: &str| {
        let sum: f64 = by_zone.values().sum();
        if by_zone.is_empty() { Err(format!("{name} by zone")) } else { Ok(sum) }
    };
    let scanned = sum(&signs.scanned_by_zone, "pages scanned")?;
    let allocated = sum(&signs.allocated_by_zone, "pages allocated")?;
    if scanned / signs.seconds()? < RATE_MIN {
        return Ok(None);
    }
    let Some((zone, pages)) = signs.scanned_by_zone.iter().max_by(|a, b| a.1.total_cmp(b.1)) else { return Ok(None) };
    let used = signs.allocated_by_zone.get(zone).copied().unwrap_or(0.0);
    let (share, of_allocations) = (percent(*pages, scanned), percent(used, allocated));
    if share < ZONE_SCAN_MIN || share < ZONE_EXCESS_MIN * of_allocations {
        return Ok(None);
    }
    let figures = vec![
        figure(&format!("scanned in {zone}"), *pages, "pages"),
        figure("share of all scanned", share, "%"),
        figure("share of all allocated", of_allocations, "%"),
    ];
    let sentence = format!(
        "Zone {zone} drives reclaim: {share:.0} % of all scanning is in it, and {of_allocations:.0} % of all pages are allocated there."
    );
    let rule = format!(
        "at least {ZONE_SCAN_MIN} % of what is scanned lies in a zone, and {ZONE_EXCESS_MIN} times its share of allocations"
    );
    Ok(ill(ONE_ZONE, sentence, figures, rule))
}

/// Explains from the free blocks of the zones why requests for blocks of several pages find none. Returns a sentence,
/// and the figures that prove it.
fn why_no_blocks(zones: Option<&[Zone]>) -> (String, Vec<Evidence>) {
    let known: Vec<&Zone> = zones.unwrap_or_default().iter().filter(|zone| !zone.blocks.is_empty()).collect();
    if known.is_empty() {
        return ("Whether memory is short or in pieces is not known: free blocks are not.".into(), Vec::new());
    }
    let free: f64 = known.iter().map(|zone| zone.free).sum();
    let high: f64 = known.iter().map(|zone| zone.marks[2]).sum();
    let pages_in = |zone: &&Zone| {
        let blocks = zone.blocks.iter().enumerate().skip(usize::from(PAGEBLOCK_ORDER.0));
        blocks.map(|(order, blocks)| blocks * (1_u64 << order) as f64).sum::<f64>()
    };
    let whole: f64 = known.iter().map(pages_in).sum();
    let figures = vec![
        figure("free", free, "pages"),
        figure("of them in blocks of order 9 and above", whole, "pages"),
        figure("high marks", high, "pages"),
    ];
    let needed = PAGEBLOCK_ORDER.pages() as f64;
    let why = if free < high + needed {
        "Memory is short: free pages are at the high marks, and compaction has nowhere to move pages to."
    } else if whole < needed {
        "Memory is in pieces: enough is free, but not in a block of this size."
    } else {
        "At the end blocks of this size are free: the want is over, or such blocks are kept for others."
    };
    (why.into(), figures)
}

/// Judges whether too many huge-page faults or direct compactions end without a block. The finding says whether memory
/// is short, or only broken into blocks that are too small.
fn high_orders_fail(signs: &Signs) -> Said {
    let huge = signs.huge_got.zip(signs.huge_failed);
    // Some kernels also count compactions that neither succeeded nor failed.
    let ended = signs.compactions_succeeded.zip(signs.compactions_failed).map(|(good, bad)| good + bad);
    let compactions = ended.or(signs.compactions).zip(signs.compactions_failed);
    if huge.is_none() && compactions.is_none() {
        return Err("thp_fault_fallback or compact_fail".into());
    }
    let huge_ill =
        huge.filter(|(got, failed)| *failed >= FAILURES_MIN && percent(*failed, got + failed) >= HUGE_FAILED_MIN);
    let compactions_ill = compactions
        .filter(|(tried, failed)| *failed >= FAILURES_MIN && percent(*failed, *tried) >= COMPACTIONS_FAILED_MIN);
    let mut what = Vec::new();
    if let Some((got, failed)) = huge_ill {
        what.push(format!("{:.0} % of the faults that want a huge page get none", percent(failed, got + failed)));
    }
    if let Some((tried, failed)) = compactions_ill {
        what.push(format!(
            "{:.0} % of the compactions that tasks do for a block end without one",
            percent(failed, tried)
        ));
    }
    if what.is_empty() {
        return Ok(None);
    }
    let (why, free) = why_no_blocks(signs.zones.as_deref());
    let figures = [
        if_known("thp_fault_alloc", signs.huge_got, "events"),
        if_known("thp_fault_fallback", signs.huge_failed, "events"),
        if_known("compact_stall", signs.compactions, "events"),
        if_known("compact_success", signs.compactions_succeeded, "events"),
        if_known("compact_fail", signs.compactions_failed, "events"),
    ];
    let rule = format!(
        "at least {FAILURES_MIN} failures: {HUGE_FAILED_MIN} % of the huge pages that faults want, or {COMPACTIONS_FAILED_MIN} % of \
         direct compactions; no illness of counters since the start of the computer"
    );
    let figures = figures.into_iter().flatten().chain(free).collect();
    // Over some weeks a few thousand requests fail on any computer, and totals since boot do not show whether any fail
    // now.
    let (since, weight) = match signs.is_since_start {
        true => (" since this computer was started", Weight::Notice),
        false => ("", Weight::Illness),
    };
    let sentence = format!("Blocks of several pages fail{since}: {}. {why}", what.join(", and "));
    Ok(Some(Finding { weight, ..Finding::new("high-orders-fail", sentence, figures, rule) }))
}

/// Finds writers that are throttled because too many pages are dirty.
fn dirty_throttling(signs: &Signs) -> Said {
    let dirty = signs.dirty.ok_or("nr_dirty and its limits over time")?;
    let is_quiet = match dirty.dirtied {
        Some(pages) => pages / signs.seconds()? < RATE_MIN,
        None => false,
    };
    if is_quiet || dirty.held_back_percent < HELD_BACK_MIN {
        return Ok(None);
    }
    let figures = [
        Some(figure("looks at which writers are held back", dirty.held_back_percent, "%")),
        Some(figure("most dirty or under writeback", dirty.most, "pages")),
        Some(figure("held back from", dirty.from, "pages")),
        if_known("nr_dirtied", dirty.dirtied, "pages"),
    ];
    let by_business = |a: &&Disk, b: &&Disk| a.busy_percent.unwrap_or(0.0).total_cmp(&b.busy_percent.unwrap_or(0.0));
    let busiest = signs.disks.iter().max_by(by_business);
    let of_disk = busiest.into_iter().flat_map(|Disk { name, busy_percent, write_wait_ms, .. }| {
        [
            if_known(&format!("{name} busy"), *busy_percent, "% of the time"),
            if_known(&format!("a write to {name}"), *write_wait_ms, "ms"),
        ]
    });
    let figures = figures.into_iter().chain(of_disk);
    let sentence = format!(
        "Writers are held back: at {:.0} % of the looks more was dirty or under writeback than half-way between the two limits. They \
         write faster than the disk takes it.",
        dirty.held_back_percent
    );
    let rule = format!(
        "nr_dirty + nr_writeback is at least half-way between nr_dirty_background_threshold and nr_dirty_threshold at \
         {HELD_BACK_MIN} % of the looks, and at least {RATE_MIN} pages a second become dirty"
    );
    Ok(ill("dirty-throttling", sentence, figures.flatten().collect(), rule))
}

/// Returns three numbers of pages: the unwritten file pages (those that reclaim met under writeback or wrote itself),
/// those of them that only `pgrotated` counts, and all scanned pages.
///
/// Reclaim marks a page that it meets under writeback. When the write ends, the page goes to the tail of its list,
/// which `pgrotated` counts. Sometimes no other counter has such pages: multi-gen LRU sorts them out before it scans,
/// and at a cgroup's limit no page is counted as met. Pages written to swap are in `pgrotated`, too, and are
/// subtracted.
fn met_unwritten(signs: &Signs) -> Result<(f64, f64, f64), Missing> {
    let counted = signs.file_writes.zip(signs.met_unwritten).map(|(writes, met)| writes + met);
    let rotated = signs.rotated.zip(signs.swapped_out).map(|(rotated, swapped)| (rotated - swapped).max(0.0));
    if counted.is_none() && rotated.is_none() {
        need(signs.file_writes, "nr_vmscan_write and pswpout")?;
        need(signs.met_unwritten, "nr_vmscan_immediate_reclaim")?;
    }
    let by_who = need(signs.kswapd.scanned, "pgscan_kswapd")? + need(signs.direct.scanned, "pgscan_direct")?;
    let scanned = by_who.max(signs.scanned_together.unwrap_or(0.0));
    let counted = counted.unwrap_or(0.0);
    let met = counted.max(rotated.unwrap_or(0.0));
    Ok((met, met - counted, scanned))
}

/// Finds reclaim that reaches dirty pages before the flushers write them.
fn reclaim_meets_unwritten(signs: &Signs) -> Said {
    let (met, uncounted, scanned) = met_unwritten(signs)?;
    let share = percent(met, scanned);
    if scanned / signs.seconds()? < RATE_MIN || share < UNWRITTEN_MIN {
        return Ok(None);
    }
    let figures = [
        if_known("pages of files written by reclaim", signs.file_writes, "pages"),
        if_known("nr_vmscan_immediate_reclaim", signs.met_unwritten, "pages"),
        if_known("pgrotated", signs.rotated, "pages"),
        Some(figure("pages scanned", scanned, "pages")),
        if_known("pgrefill", signs.refilled.filter(|pages| *pages > scanned), "pages"),
        if_known("most dirty or under writeback", signs.dirty.map(|dirty| dirty.most), "pages"),
    ];
    let how = if uncounted > met / 2.0 {
        " Most of that no counter of its own tells: pages that go to the tail of their list when they are written (pgrotated) do."
    } else {
        ""
    };
    let limit = signs.at_limit.iter().flatten().max_by(|a, b| a.1.total_cmp(b.1)).filter(|(_, times)| **times > 0.0);
    let whose = limit.map_or_else(String::new, |(name, _)| {
        format!(" {} is at its limit: what is dirty of it counts against that, and the flushers begin by the limits of the computer.", groups::capitalized(name))
    });
    let sentence = format!(
        "Reclaim comes to pages of files before they are written: {:.0} of 100 that it scans it has to write or to leave. The flushers \
         are behind.{how}{whose}",
        share.min(100.0)
    );
    let rule = format!(
        "pages of files that reclaim writes, meets unwritten, or that go to the tail of their list when they are written, those on the \
         way to swap left out, are at least {UNWRITTEN_MIN} of 100 scanned"
    );
    Ok(ill("reclaim-meets-unwritten", sentence, figures.into_iter().flatten().collect(), rule))
}

/// Finds full file systems.
fn disk_full(signs: &Signs) -> Said {
    let all = signs.file_systems.as_ref().ok_or("room on file systems")?;
    let is_full = |it: &&FileSystem| it.bytes > 0.0 && percent(it.free_bytes, it.bytes) < DISK_FREE_MIN;
    let full: Vec<&FileSystem> = all.iter().filter(is_full).collect();
    if full.is_empty() {
        return Ok(None);
    }
    let names = full.iter().map(|it| it.mount.as_str()).collect::<Vec<_>>().join(", ");
    let figures = full.iter().flat_map(|it| {
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        [
            figure(&format!("{}: size", it.mount), mib(it.bytes), "MiB"),
            figure(&format!("{}: free", it.mount), mib(it.free_bytes), "MiB"),
        ]
    });
    let sentence = format!(
        "A disk is full: {names}. What needs a new block there fails (ENOSPC), at the write or, where blocks are chosen late, when dirty \
         pages are written; how often it did the kernel does not count."
    );
    let rule = format!("less than {DISK_FREE_MIN} % of a file system is left for users");
    Ok(ill("disk-full", sentence, figures.collect(), rule))
}

/// Reports the processes that were killed for lack of memory. The engine of this project kills none; of its runs,
/// reports the requests for memory that failed.
fn killed(signs: &Signs) -> Said {
    if signs.killed.or(signs.exhausted).is_none() && signs.out_of_memory.is_none() && signs.log.is_none() {
        return Err("oom_kill".into());
    }
    let of_log = signs.log.as_deref().map(kernel_log::kills).unwrap_or_default();
    let kernel_log::Told { mut sentences, mut figures, kills: told } = of_log;
    // A kernel counts kills. The engine kills no process, and counts failed requests instead.
    if let Some(kills) = signs.killed.filter(|kills| *kills > told as f64) {
        // The kernel's counter includes kills at the limits of cgroups, which the cgroups report themselves.
        let at_limits = signs.out_of_memory.iter().flatten().filter(|(_, cgroup)| cgroup.times > 0.0);
        let others = kills - at_limits.map(|(_, cgroup)| cgroup.kills).sum::<f64>();
        if others > 0.0 {
            let since = if signs.is_since_start { " since this computer was started" } else { "" };
            sentences.push(format!("The kernel killed {} for want of memory{since}.", processes(others)));
        }
        figures.push(figure("oom_kill", kills, "events"));
    } else if let Some(times) = signs.exhausted.filter(|times| *times > 0.0) {
        let often = how_often(times);
        sentences
            .push(format!("Memory was exhausted {often}, and requests failed for it: Linux kills processes then."));
        figures.push(figure("oom", times, "events"));
    }
    for (name, cgroup) in signs.out_of_memory.iter().flatten() {
        let since = if groups::is_since_made(signs, name) { " since it was made" } else { "" };
        sentences.extend(out_of_memory(name, cgroup, since));
        let OutOfMemory { times, kills, group_kills, is_waiting } = *cgroup;
        let counted = [("oom", times), ("oom_kill", kills), ("oom_group_kill", group_kills)];
        let counted = counted.into_iter().filter(|(_, events)| *events > 0.0);
        figures.extend(
            counted
                .map(|(counter, events)| figure(&format!("{counter} of {}", groups::called(name)), events, "events")),
        );
        if is_waiting {
            figures.push(figure(&format!("under_oom of {}", groups::called(name)), 1.0, ""));
        }
    }
    // What one copy of a cgroup's files counts may have been long ago.
    let is_of_now = signs.log.as_deref().is_some_and(kernel_log::tells_of_kills)
        || signs.killed.or(signs.exhausted).is_some_and(|times| times > 0.0)
        || signs.out_of_memory.iter().flatten().any(|(name, cgroup)| {
            cgroup.is_waiting || cgroup.times + cgroup.kills > 0.0 && !groups::is_since_made(signs, name)
        });
    let of_group = if signs.is_v1 {
        "`oom_kill` of memory.oom_control grows, or its `under_oom` is 1 at the end"
    } else {
        "`oom`, `oom_kill` or `oom_group_kill` of memory.events grows"
    };
    let rule = format!(
        "`oom_kill` grows, or `oom` of a simulated run; of a cgroup {of_group}; the log has a report of the kernel's killer, or a line of \
         systemd-oomd, earlyoom or kubelet; no illness where one copy of a cgroup's files alone counts it"
    );
    if sentences.is_empty() {
        return Ok(None);
    }
    let weight = if is_of_now { Weight::Illness } else { Weight::Notice };
    Ok(Some(Finding { weight, ..Finding::new("killed", sentences.join(" "), figures, rule) }))
}

fn pages(n: f64) -> String {
    if n == 1.0 { "1 page".to_owned() } else { format!("{n:.0} pages") }
}

fn how_often(times: f64) -> String {
    if times == 1.0 { "once".to_owned() } else { format!("{times:.0} times") }
}

fn processes(n: f64) -> String {
    if n == 1.0 { "1 process".to_owned() } else { format!("{n:.0} processes") }
}

/// Returns sentences on what happened because a cgroup lacked memory. `since` is empty, or words for a period that
/// began when the cgroup was made.
fn out_of_memory(name: &str, cgroup: &OutOfMemory, since: &str) -> Vec<String> {
    let OutOfMemory { times, kills, group_kills, is_waiting } = *cgroup;
    let mut sentences = Vec::new();
    let as_a_whole = if group_kills > 0.0 { ", as a whole" } else { "" };
    match (times > 0.0, kills > 0.0) {
        (true, true) => sentences.push(format!(
            "{} was out of memory at its limit {}{since}, and the kernel killed {} of it{as_a_whole}.",
            groups::capitalized(name),
            how_often(times),
            processes(kills)
        )),
        (true, false) => sentences.push(format!(
            "{} was out of memory at its limit {}{since}, and no process of its own was killed for it.",
            groups::capitalized(name),
            how_often(times)
        )),
        (false, true) => {
            sentences.push(format!(
                "In {} the kernel killed {}{as_a_whole}{since}.",
                groups::called(name),
                processes(kills)
            ));
        }
        (false, false) => {}
    }
    if is_waiting {
        sentences.push(format!(
            "A process in {} waits for memory that nobody frees: its limit cannot be met, and nothing is killed for it.",
            groups::called(name)
        ));
    }
    sentences
}

#[cfg(test)]
mod tests;
