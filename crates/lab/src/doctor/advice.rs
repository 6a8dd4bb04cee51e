//! Next steps of a diagnosis: a setting with its present and a suggested value, a command that shows more, a simulated experiment that
//! shows the same. [`next`] says it of each illness.

use super::rules;
use super::signs::Signs;
use serde::Serialize;

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Step {
    /// Try another value of a setting.
    Setting {
        /// Its name: `vm.swappiness`, `memory.max`.
        name: String,
        /// The present value, where that is known.
        now: Option<String>,
        /// The value to try.
        suggested: String,
        /// The reason.
        why: String,
    },
    /// Look at what a command shows.
    Command {
        /// The command.
        line: String,
        /// The fact that it shows.
        why: String,
    },
    /// Simulate it.
    Experiment {
        /// The command.
        line: String,
        /// The fact that it shows.
        why: String,
    },
}

impl Step {
    /// In words.
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

/// A step for each computer, before it is known which one it is.
enum Advice {
    /// Another value of a setting: its name, the value, the reason.
    Set(&'static str, &'static str, &'static str),
    /// The same, only where it helps.
    Where(fn(&Signs) -> bool, &'static str, &'static str, &'static str),
    /// A command, and what it shows.
    Look(&'static str, &'static str),
    /// A file of the cgroup that was looked at, or of the one to be found, and what it shows.
    File(&'static str, &'static str),
    /// A command of `highwater` that simulates it, and what it shows.
    Simulate(&'static str, &'static str),
}

use Advice::{File, Look, Set, Simulate, Where};

/// Returns the steps against an illness, the most useful first. `signs` are those in which it was found.
#[must_use]
pub fn next(cause: &str, signs: &Signs) -> Vec<Step> {
    let of_cause = ADVICE.iter().filter(|(causes, _)| causes.contains(&cause));
    of_cause.flat_map(|(_, advice)| advice.iter()).filter_map(|advice| advice.step(signs)).collect()
}

impl Advice {
    /// Makes a step of it; none where it does not help, or the setting has the value.
    fn step(&self, signs: &Signs) -> Option<Step> {
        let set = |name: &str, suggested: &str, why: &str| {
            let now = signs.settings.get(name).cloned();
            let (suggested, why) = (suggested.to_owned(), why.to_owned());
            (now.as_ref() != Some(&suggested)).then(|| Step::Setting { name: name.to_owned(), now, suggested, why })
        };
        match *self {
            Set(name, suggested, why) => set(name, suggested, why),
            Where(helps, name, suggested, why) => helps(signs).then(|| set(name, suggested, why))?,
            Look(line, why) => Some(Step::Command { line: line.to_owned(), why: why.to_owned() }),
            File(name, why) => {
                let folder = signs.group.as_deref().map_or("/sys/fs/cgroup/GROUP", |it| it.trim_end_matches('/'));
                Some(Step::Command { line: format!("cat {folder}/{name}"), why: why.to_owned() })
            }
            Simulate(line, why) => Some(Step::Experiment { line: format!("highwater {line}"), why: why.to_owned() }),
        }
    }
}

fn is_at_limit(signs: &Signs) -> bool {
    rules::is_kswapd_idle(signs) && signs.at_limit.iter().flatten().any(|(_, times)| *times > 0.0)
}

fn is_of_node(signs: &Signs) -> bool {
    rules::is_kswapd_idle(signs) && !is_at_limit(signs)
}

/// Returns whether a lower `vm.swappiness` may help: it is not so low already that it is not what chooses.
fn swaps_by_choice(signs: &Signs) -> bool {
    let now = signs.settings.get("vm.swappiness").and_then(|value| value.parse::<f64>().ok());
    now.is_none_or(|now| now > rules::SWAPPINESS_LOW)
}

/// Advice by the illnesses that it is against, the most useful first.
const ADVICE: &[(&[&str], &[Advice])] = &[
    (
        &["killed"],
        &[
            Look("dmesg -T | grep -A 40 -i 'oom-killer'", "who was killed, for whom, and what memory was used for"),
            Set("memory.max", "more, or that of a service to less", "the kill is of a limit where a cgroup is named"),
            Simulate("run exhaust --kernel 6.18-classic --scale 1/64", "programs that want more than memory and swap"),
        ],
    ),
    (
        &["all-wait"],
        &[
            Look("grep -H . /sys/fs/cgroup/*/memory.pressure", "which group waits"),
            Look("highwater stat --every 1 --seconds 30", "what is scanned, read back and swapped meanwhile"),
            Simulate("run anon --kernel 6.18-classic --scale 1/64", "programs of which all wait for swap"),
        ],
    ),
    (
        &["direct-reclaim"],
        &[
            Look("grep -E 'allocstall|pgscan_|zone_reclaim' /proc/vmstat", "who reclaims, for which zone"),
            Where(is_at_limit, "memory.max", "more, or memory.high to a tenth below", "its reclaim is its tasks' own"),
            Where(
                is_of_node,
                "vm.zone_reclaim_mode",
                "0",
                "tasks take memory of other nodes before they reclaim their own",
            ),
            // A mark hastens kswapd only where kswapd is asked.
            Where(
                |signs| !rules::is_kswapd_idle(signs),
                "vm.watermark_scale_factor",
                "30 to 100",
                "kswapd begins earlier, so that bursts find free pages",
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
            Look("highwater doctor --pid PID", "whether one of them waits, and its group with it"),
            Simulate(
                "compare anon --scale 1/64 --set params.region_percent=80,110,150",
                "where programs begin to be larger than memory",
            ),
        ],
    ),
    (
        &["swap-beside-cache"],
        &[
            Where(
                swaps_by_choice,
                "vm.swappiness",
                "60 or less; 100 or more is for swap in memory (zram)",
                "less of reclaim falls on anonymous memory",
            ),
            Look(
                "grep -E 'pgscan_(anon|file)|workingset_refault' /proc/vmstat",
                "which kind is scanned, and which comes back",
            ),
            Simulate(
                "compare anon-under-reads --scale 1/64 --set lru.swappiness=10,60,200",
                "programs beside reads, by swappiness",
            ),
        ],
    ),
    (
        &["marks-too-high"],
        &[
            Set(
                "vm.min_free_kbytes",
                "67584, or what it was at the start of the computer",
                "what it keeps free nobody can use",
            ),
            Set("vm.watermark_scale_factor", "10", "it is the distance between the marks, in 0.01 % of memory"),
            Look("grep -E 'zone|pages free|min|low|high ' /proc/zoneinfo", "free pages and marks of each zone"),
            Simulate(
                "compare anon --scale 1/64 --set params.region_percent=65 --set memory.min_free_kbytes=2000,40000",
                "programs that fit, and are swapped for the marks",
            ),
        ],
    ),
    (
        &[rules::ONE_NODE],
        &[
            Set("vm.zone_reclaim_mode", "0", "tasks take memory of other nodes before they reclaim their own"),
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
            Look("highwater doctor --cgroup GROUP", "whether one group reads it all"),
            Look("grep -E 'Cached|Active.file|Inactive.file|Mapped' /proc/meminfo", "how large the cache is"),
            Set(
                "memory.low",
                "the size of the working set, for the group that is to keep it",
                "others' pages go first",
            ),
            Simulate(
                "compare randread --scale 1/64 --kernels 6.18-classic,7.2-mglru",
                "a file that does not fit, by kernels",
            ),
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
            File(
                "memory.stat",
                "`file_dirty` and `file_writeback` beside `file`: how much of a group cannot be reclaimed now",
            ),
            Set("memory.high", "a tenth below memory.max", "writers are slowed down before the limit is met"),
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
            File("memory.stat", "what it is used for: `anon`, `file`, `shmem`, `slab`"),
            Look("highwater doctor --cgroup GROUP", "whether it suffers from that, or only keeps a cache"),
            Set("memory.max", "more, if it does", "its reclaim is its own"),
            Simulate("run randread --machine cgroup-512m --kernel 6.18-classic --scale 1/64", "a file in a cgroup"),
        ],
    ),
    (
        &["group-thrashing"],
        &[
            Set(
                "memory.max",
                "what `anon` and its mapped files take together",
                "its own code has to fit beside its data",
            ),
            File("memory.stat", "`workingset_refault_file`, `pgmajfault`, `anon`, `file_mapped`"),
            File("memory.pressure", "how long its tasks wait"),
            Simulate(
                "run randread --machine cgroup-512m --kernel 6.18-classic --scale 1/64",
                "a file that does not fit in a cgroup",
            ),
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

    #[test]
    fn every_illness_has_something_to_do_and_something_to_simulate() {
        for rule in rules::ALL {
            let steps = next(rule.cause, &Signs::default());
            assert!(steps.iter().any(|step| !matches!(step, Step::Experiment { .. })), "{}", rule.cause);
            assert!(steps.iter().all(|step| step.show().contains(": ")), "{}", rule.cause);
        }
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
    fn a_setting_is_told_with_what_it_is_now() {
        let signs = Signs {
            settings: [("vm.swappiness".to_owned(), "200".to_owned())].into(),
            group: Some("/sys/fs/cgroup/a/".into()),
            ..Signs::default()
        };
        let steps = next("swap-beside-cache", &signs);
        assert!(steps[0].show().starts_with("set vm.swappiness (now 200) to 60 or less"), "{}", steps[0].show());
        let of_group = next("cgroup-limit", &signs);
        assert!(of_group[0].show().starts_with("look at `cat /sys/fs/cgroup/a/memory.stat`: "), "{of_group:?}");
    }
}
