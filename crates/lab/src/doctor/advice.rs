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

fn command(line: &str, why: &str) -> Step {
    Step::Command { line: line.into(), why: why.into() }
}

fn experiment(line: &str, why: &str) -> Step {
    Step::Experiment { line: format!("highwater {line}"), why: why.into() }
}

/// Returns the steps against an illness, the most useful first. `signs` are those in which it was found.
#[must_use]
pub fn next(cause: &str, signs: &Signs) -> Vec<Step> {
    let set = |name: &str, suggested: &str, why: &str| Step::Setting {
        name: name.into(),
        now: signs.settings.get(name).cloned(),
        suggested: suggested.into(),
        why: why.into(),
    };
    let group = signs.group.as_deref();
    // A file of the group that was asked, or of that to be found.
    let file =
        |name: &str| format!("{}/{name}", group.map_or("/sys/fs/cgroup/GROUP", |group| group.trim_end_matches('/')));
    let of_group = |name: &str, why: &str| command(&format!("cat {}", file(name)), why);
    match cause {
        "killed" => vec![
            command("dmesg -T | grep -A 40 -i 'oom-killer'", "who was killed, for whom, and what memory was used for"),
            set("memory.max", "more, or that of a service to less", "the kill is of a limit where a cgroup is named"),
            experiment(
                "run exhaust --kernel 6.18-classic --scale 1/64",
                "programs that want more than memory and swap",
            ),
        ],
        "all-wait" => vec![
            command("grep -H . /sys/fs/cgroup/*/memory.pressure", "which group waits"),
            command("highwater stat --every 1 --seconds 30", "what is scanned, read back and swapped meanwhile"),
            experiment("run anon --kernel 6.18-classic --scale 1/64", "programs of which all wait for swap"),
        ],
        "direct-reclaim" => vec![
            command("grep -E 'allocstall|pgscan_|zone_reclaim' /proc/vmstat", "who reclaims, for which zone"),
            match signs.kswapd.scanned {
                // What kswapd is not asked for, no mark hastens.
                Some(0.0) if signs.at_limit.iter().flatten().any(|(_, times)| *times > 0.0) => {
                    set("memory.max", "more, or memory.high to a tenth below", "its reclaim is its tasks' own")
                }
                Some(0.0) => {
                    set("vm.zone_reclaim_mode", "0", "tasks take memory of other nodes before they reclaim their own")
                }
                _ => set(
                    "vm.watermark_scale_factor",
                    "30 to 100",
                    "kswapd begins earlier, so that bursts find free pages",
                ),
            },
            experiment(
                "explain stall anon --kernel 6.18-classic --scale 1/64",
                "for what each task stood still, and on whom it waited",
            ),
        ],
        "anonymous-thrashing" => vec![
            command("grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail", "which processes are in swap"),
            command("highwater doctor --pid PID", "whether one of them waits, and its group with it"),
            experiment(
                "compare anon --scale 1/64 --set params.region_percent=80,110,150",
                "where programs begin to be larger than memory",
            ),
        ],
        "swap-beside-cache" => vec![
            set(
                "vm.swappiness",
                "60 or less; 100 or more is for swap in memory (zram)",
                "less of reclaim falls on anonymous memory",
            ),
            command(
                "grep -E 'pgscan_(anon|file)|workingset_refault' /proc/vmstat",
                "which kind is scanned, and which comes back",
            ),
            experiment(
                "compare anon-under-reads --scale 1/64 --set lru.swappiness=10,60,200",
                "programs beside reads, by swappiness",
            ),
        ],
        "marks-too-high" => vec![
            set(
                "vm.min_free_kbytes",
                "67584, or what it was at the start of the computer",
                "what it keeps free nobody can use",
            ),
            set("vm.watermark_scale_factor", "10", "it is the distance between the marks, in 0.01 % of memory"),
            command("grep -E 'zone|pages free|min|low|high ' /proc/zoneinfo", "free pages and marks of each zone"),
            experiment(
                "compare anon --scale 1/64 --set params.region_percent=65 --set memory.min_free_kbytes=2000,40000",
                "programs that fit, and are swapped for the marks",
            ),
        ],
        rules::ONE_NODE => vec![
            set("vm.zone_reclaim_mode", "0", "tasks take memory of other nodes before they reclaim their own"),
            command("numastat -m; numactl --hardware", "how much is free on each node"),
            command("grep -H . /proc/[0-9]*/numa_maps | grep -m 20 bind", "who is bound to a node"),
            experiment(
                "compare randread --machine randread-4nodes --scale 1/16 --set reclaim.zone_reclaim_mode=0,1",
                "reads of a file that is larger than a node",
            ),
        ],
        "file-cache-thrashing" => vec![
            command("highwater doctor --cgroup GROUP", "whether one group reads it all"),
            command("grep -E 'Cached|Active.file|Inactive.file|Mapped' /proc/meminfo", "how large the cache is"),
            set(
                "memory.low",
                "the size of the working set, for the group that is to keep it",
                "others' pages go first",
            ),
            experiment(
                "compare randread --scale 1/64 --kernels 6.18-classic,7.2-mglru",
                "a file that does not fit, by kernels",
            ),
        ],
        "kswapd-in-vain" | "direct-in-vain" => vec![
            command(
                "grep -E 'pgscan|pgsteal|pgrotated|nr_writeback |nr_unevictable|nr_mlock' /proc/vmstat",
                "what keeps pages",
            ),
            command(
                "echo 1 > /sys/kernel/tracing/events/vmscan/mm_vmscan_lru_shrink_inactive/enable",
                "why pages stay, by pass",
            ),
            experiment("run parallelio --kernel 3.10-rc4-vanilla --scale 1/64", "kswapd that scans without a target"),
        ],
        rules::ONE_ZONE => vec![
            command("grep -E 'zone|pages free|present|managed|protection' /proc/zoneinfo", "how large each zone is"),
            experiment("run simon --kernel 2.6.37-traceonly --scale 1/64", "a small zone that drives reclaim"),
        ],
        "high-orders-fail" => vec![
            command("cat /proc/buddyinfo /proc/pagetypeinfo", "free blocks by order, and by what they are kept for"),
            set(
                "vm.watermark_boost_factor",
                "15000",
                "reclaim makes whole blocks free after pages of two kinds met in one",
            ),
            command(
                "cat /sys/kernel/mm/transparent_hugepage/defrag",
                "who compacts itself for a huge page: `madvise` asks for it",
            ),
            experiment(
                "run thp --kernel 6.18-classic --scale 1/64",
                "faults that want huge pages in memory that is in pieces",
            ),
        ],
        "dirty-throttling" => vec![
            set("vm.dirty_background_bytes", "what the disk writes in a second", "flushers begin earlier"),
            command(
                "grep -E 'nr_dirty|nr_writeback' /proc/vmstat; iostat -x 1",
                "how much is dirty, and which disk is behind",
            ),
            experiment("run randwrite --kernel 6.18-classic --scale 1/64", "a writer that is faster than the disk"),
        ],
        "reclaim-meets-unwritten" => vec![
            set(
                "vm.dirty_background_bytes",
                "what the disk writes in a second",
                "pages are written before reclaim comes",
            ),
            of_group(
                "memory.stat",
                "`file_dirty` and `file_writeback` beside `file`: how much of a group cannot be reclaimed now",
            ),
            set("memory.high", "a tenth below memory.max", "writers are slowed down before the limit is met"),
            experiment(
                "run randwrite --kernel 3.10-rc4-vanilla --scale 1/64 --set writeback.dirty_ratio=95 --set \
                 writeback.dirty_background_ratio=90",
                "reclaim that meets what nobody is held back for",
            ),
        ],
        "swap-full" => vec![
            command("swapon --show; grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail", "what is in it"),
            command("grep -E 'Committed_AS|CommitLimit|Shmem:' /proc/meminfo", "what is promised, and what tmpfs has"),
            experiment(
                "run anon --kernel 6.18-classic --scale 1/64 --set params.region_percent=280",
                "programs that fill it",
            ),
        ],
        "disk-full" => vec![
            command("df -h; df -i", "what is left, and of inodes"),
            experiment(
                "run exhaust --kernel 6.18-classic --scale 1/64 --set params.of=disk",
                "writers that find no block",
            ),
        ],
        "cgroup-limit" => vec![
            of_group("memory.stat", "what it is used for: `anon`, `file`, `shmem`, `slab`"),
            command("highwater doctor --cgroup GROUP", "whether it suffers from that, or only keeps a cache"),
            set("memory.max", "more, if it does", "its reclaim is its own"),
            experiment("run randread --machine cgroup-512m --kernel 6.18-classic --scale 1/64", "a file in a cgroup"),
        ],
        "group-thrashing" => vec![
            set(
                "memory.max",
                "what `anon` and its mapped files take together",
                "its own code has to fit beside its data",
            ),
            of_group("memory.stat", "`workingset_refault_file`, `pgmajfault`, `anon`, `file_mapped`"),
            of_group("memory.pressure", "how long its tasks wait"),
            experiment(
                "run randread --machine cgroup-512m --kernel 6.18-classic --scale 1/64",
                "a file that does not fit in a cgroup",
            ),
        ],
        "process-faults" => vec![
            command("cat /proc/PID/smaps_rollup", "`Swap`, and how much of what it has mapped is in memory (`Rss`)"),
            of_group("memory.pressure", "whether its group waits"),
            set("memory.low", "the size of its working set, for its group", "others' pages go first"),
            experiment("run anon --kernel 6.18-classic --scale 1/64", "programs that wait for their pages"),
        ],
        "kswapd-awake" => vec![
            command("grep -E 'zone|pages free|min|low|high ' /proc/zoneinfo", "for which zone it is awake"),
            experiment("run streaming-read --kernel 6.18-classic --scale 1/64", "kswapd behind a stream"),
        ],
        _ => Vec::new(),
    }
}

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
