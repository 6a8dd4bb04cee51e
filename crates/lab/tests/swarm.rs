//! Tests that random worlds pass every check, and that a failing world can be replayed.
//!
//! Two hundred seeds draw a machine, a kernel, and tasks that verify every page they read. One more seed, which
//! deliberately puts a wrong stamp into a page, must fail, and must fail in the same way when it is run again.

use engine::stat::Vmstat;
use lab::job::Failure;
use lab::{runner, swarm};
use std::process::Command;

const WORLDS: u64 = 200;

/// Counters of reclaim that must be above zero in at least one world. Otherwise the worlds are too easy.
const MUST_HAPPEN: [&str; 30] = [
    "pgscan_kswapd_normal",
    "pgscan_kswapd_dma",
    "pgscan_direct_normal",
    "pgsteal_kswapd_normal",
    "pgsteal_direct_normal",
    "pgrefill_normal",
    "pswpin",
    "pswpout",
    "pgmajfault",
    "pgactivate",
    "pgdeactivate",
    "pgrotated",
    "allocstall",
    "pageoutrun",
    "nr_vmscan_write",
    "nr_vmscan_immediate_reclaim",
    "kswapd_low_wmark_hit_quickly",
    "kswapd_high_wmark_hit_quickly",
    "slabs_scanned",
    "compact_stall",
    "alloc_failed",
    "oom",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_split",
    "thp_collapse_alloc",
    "thp_collapse_alloc_failed",
    "nr_mapped",
    "numa_miss",
    "zone_reclaim_failed",
];

#[test]
fn two_hundred_worlds_hold_every_check() {
    let run = |seed: &u64| swarm::run(*seed).map_err(|failure| Failure(failure.to_string()));
    let seeds: Vec<u64> = (1..=WORLDS).collect();
    let mut sum = Vmstat::new();
    let mut workloads = [("randread", 0), ("randwrite", 0), ("anon", 0), ("scan", 0)];
    for (_, result) in runner::each(&seeds, runner::all_cores(), run) {
        match result {
            Ok(report) => {
                for (name, count) in &mut workloads {
                    // A workload does not end regularly if a request for memory failed.
                    let has_ended = report.vmstat.get("oom").is_none_or(|refusals| *refusals == 0);
                    *count += u32::from(has_ended && report.drawn.contains(&format!("; {name} Params")));
                }
                report.vmstat.into_iter().for_each(|(name, n)| *sum.entry(name).or_default() += n);
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    let missing: Vec<_> = MUST_HAPPEN.iter().filter(|name| sum.get(**name).copied().unwrap_or(0) == 0).collect();
    assert!(missing.is_empty(), "in no world happened {missing:?}: {sum:?}");
    assert!(workloads.iter().all(|(_, count)| *count > 0), "a workload ran in no world: {workloads:?}");
}

#[test]
fn a_seed_ends_on_the_same_fingerprint_twice() {
    for seed in 1000..1010 {
        let (first, second) = (swarm::run(seed).unwrap(), swarm::run(seed).unwrap());
        assert_eq!(first, second, "seed {seed:#x}");
    }
    assert_ne!(swarm::run(1000).unwrap().fingerprint, swarm::run(1001).unwrap().fingerprint);
}

/// In this world, tasks of the workload `anon` are killed, and the others must not wait for them.
#[test]
fn a_killed_task_of_a_workload_is_not_waited_for() {
    let report = swarm::run(0x713).unwrap();
    assert!(report.vmstat["oom_kill"] > 0, "draw another world");
}

#[test]
fn the_corrupting_seed_fails_and_replays_with_the_same_message() {
    let failure = swarm::run(swarm::CORRUPTING_SEED).unwrap_err();
    let message = failure.to_string();
    assert!(failure.message.contains("page 0 of store 1 (file 0) holds stamp 0x8001"), "{message}");
    assert!(message.starts_with("seed 0xbad5eed: "), "{message}");
    assert!(message.ends_with("\n  replay: highwater swarm --seed 0xbad5eed"), "{message}");

    // The world is run again with the command that the message states.
    let replay = message.lines().last().unwrap().trim().strip_prefix("replay: highwater ").unwrap().to_owned();
    let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(replay.split(' ')).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        place_cut_off(&String::from_utf8(output.stderr).unwrap()),
        place_cut_off(&format!("error: {message}\n"))
    );
}

/// Returns a message without the source file and line, which appear in only one of the two ways to run a world.
fn place_cut_off(message: &str) -> String {
    message.lines().map(|line| line.split(" (at crates/").next().unwrap().trim_end().to_owned() + "\n").collect()
}

#[test]
fn the_command_says_what_a_sound_world_drew() {
    let highwater = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(arguments.split(' ')).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, text) = highwater("swarm --seed 1");
    assert_eq!(status, Some(0));
    assert!(text.starts_with("seed 0x1: ") && text.contains("\nfingerprint "), "{text}");
    let (status, text) = highwater("swarm --seed 1 --count 3");
    assert_eq!(
        (status, text.as_str()),
        (Some(0), "3 worlds, seeds 0x1 to 0x3, each a random machine, kernel and set of tasks: every check holds\n")
    );
}

#[test]
fn the_command_says_how_many_worlds_ran_and_goes_on_where_asked() {
    let before = swarm::CORRUPTING_SEED - 1;
    let swarm = |more: &str| {
        let arguments = format!("swarm --seed {before:#x} --count 3 --jobs 1{more}");
        let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(arguments.split(' ')).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    let replay = "\n  replay: highwater swarm --seed 0xbad5eed\n";
    let (stops, goes_on) = (swarm(""), swarm(" --keep-going"));
    for text in [&stops, &goes_on] {
        assert!(text.starts_with("error: seed 0xbad5eed: ") && text.matches(replay).count() == 1, "{text}");
    }
    assert!(
        stops.ends_with("2 of 3 worlds ran, seeds 0xbad5eec to 0xbad5eee: 1 passed every check, 1 failed\n"),
        "{stops}"
    );
    assert!(
        goes_on.ends_with("3 of 3 worlds ran, seeds 0xbad5eec to 0xbad5eee: 2 passed every check, 1 failed\n"),
        "{goes_on}"
    );
}
