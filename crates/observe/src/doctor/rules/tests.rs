//! Tests that each rule fires at its threshold, is silent just below, and names the sign that is missing.

use super::groups::{cgroup_limit, group_thrashing, process_faults};
use super::marks::marks_too_high;
use super::nodes::one_node;
use super::swap::{anonymous_thrashing, swap_beside_cache, swap_full};
use super::*;
use crate::doctor::signs::{Node, Process};
use crate::doctor::{Diagnosis, MemoryUse, Step, Usage};

/// Factor that makes a value lie just below a threshold.
const BELOW: f64 = 0.999;

/// Returns the signs of a healthy system that was observed for ten seconds and reclaimed memory meanwhile.
fn sound() -> Signs {
    Signs {
        elapsed_s: Some(10.0),
        kswapd: Scan { scanned: Some(200.0), stolen: Some(190.0) },
        direct: Scan { scanned: Some(0.0), stolen: Some(0.0) },
        kswapd_cpu_s: Some(0.0),
        scanned_by_zone: [("dma32".to_owned(), 100.0), ("normal".to_owned(), 100.0)].into(),
        allocated_by_zone: [("dma32".to_owned(), 100.0), ("normal".to_owned(), 100.0)].into(),
        stalls: Some(0.0),
        direct_s: None,
        some_waited_percent: Some(0.0),
        all_waited_percent: Some(0.0),
        swapped_in: Some(0.0),
        swapped_out: Some(0.0),
        refaulted_anon: None,
        refaulted_file: Some(0.0),
        activated_file: Some(0.0),
        major_faults: Some(0.0),
        huge_got: Some(0.0),
        huge_failed: Some(0.0),
        compactions: Some(0.0),
        compactions_succeeded: Some(0.0),
        compactions_failed: Some(0.0),
        zones: Some(vec![zone(1000.0, &[1000.0])]),
        dirty: Some(crate::doctor::signs::Dirty { from: 100.0, dirtied: Some(1000.0), ..Default::default() }),
        stolen_together: None,
        disks: Vec::new(),
        file_systems: Some(vec![file_system(50.0)]),
        file_writes: Some(0.0),
        met_unwritten: Some(0.0),
        swap: Some([0.0, 0.0]),
        at_limit: Some([("/quiet".to_owned(), 0.0)].into()),
        out_of_memory: None,
        killed: Some(0.0),
        exhausted: None,
        swap_used: None,
        usage: Some(used(900.0, 50.0)),
        blocked: None,
        nodes: vec![node("0", 10.0), node("1", 20.0)],
        node_reclaims: None,
        scanned_together: None,
        refilled: None,
        rotated: Some(0.0),
        group: None,
        bounds: None,
        process: None,
        groups: [("/quiet".to_owned(), Signs { elapsed_s: Some(10.0), ..Signs::default() })].into(),
        is_v1: false,
        given: [].into(),
        settings: Default::default(),
        zeroes_in: None,
        zeroes_out: None,
        log: None,
        slabs: Vec::new(),
        processes: Vec::new(),
        kswapd_shown_percent: None,
        is_since_start: false,
        assumed: Vec::new(),
        missing: Vec::new(),
    }
}

/// Returns the memory use of a system with 1,000 pages, of which `files` are in the page cache and `free` are free.
fn used(files: f64, free: f64) -> Usage {
    let now = MemoryUse { total: Some(1000.0), free: Some(free), cached: Some(files), ..MemoryUse::default() };
    Usage::at(now)
}

/// Returns a node of 1,000 pages, of which `free` are free.
fn node(name: &str, free: f64) -> Node {
    Node { name: name.into(), pages: 1000.0, free, by_tasks: None, by_kswapd: None }
}

fn file_system(free_percent: f64) -> FileSystem {
    FileSystem { mount: "/data".into(), bytes: 1e9, free_bytes: 1e7 * free_percent }
}

fn zone(free: f64, blocks: &[f64]) -> Zone {
    Zone { name: "Normal".into(), free, marks: [100.0, 200.0, 300.0], blocks: blocks.into() }
}

/// Makes the signs of a healthy system, changes them by `change`, and returns what a rule finds in them.
fn found(rule: Ask, change: impl FnOnce(&mut Signs)) -> Option<Finding> {
    let mut signs = sound();
    change(&mut signs);
    rule(&signs).expect("all signs are known")
}

/// Makes the signs of a healthy system, of which `change` removes one. Returns the name of the sign that the rule then
/// reports as missing.
fn lacks(rule: Ask, change: impl FnOnce(&mut Signs)) -> String {
    let mut signs = sound();
    change(&mut signs);
    rule(&signs).expect_err("a sign is missing")
}

/// Checks that a rule finds something if `change` sets a value to `threshold`, and nothing if it sets the value just
/// below. Returns the finding at the threshold.
fn turns_at(rule: Ask, threshold: f64, change: impl Fn(&mut Signs, f64)) -> Finding {
    assert_eq!(found(rule, |signs| change(signs, threshold * BELOW)), None, "just below {threshold}");
    found(rule, |signs| change(signs, threshold)).expect("it fires at its threshold")
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let diagnosis = Diagnosis::of(&sound());
    assert_eq!((diagnosis.findings.as_slice(), diagnosis.unasked.as_slice()), (&[][..], &[][..]));
}

#[test]
fn every_finding_is_called_as_its_rule() {
    let ill = Signs {
        elapsed_s: Some(1.0),
        kswapd: Scan { scanned: Some(10_000.0), stolen: Some(1000.0) },
        direct: Scan { scanned: Some(10_000.0), stolen: Some(1000.0) },
        kswapd_cpu_s: Some(1.0),
        scanned_by_zone: [("dma".to_owned(), 20_000.0)].into(),
        stalls: Some(100.0),
        some_waited_percent: Some(50.0),
        all_waited_percent: Some(50.0),
        swapped_in: Some(1000.0),
        swapped_out: Some(1000.0),
        refaulted_file: Some(1000.0),
        huge_failed: Some(1000.0),
        dirty: Some(crate::doctor::signs::Dirty { held_back_percent: 100.0, ..Default::default() }),
        file_writes: Some(9000.0),
        swap: Some([1000.0, 0.0]),
        file_systems: Some(vec![file_system(0.0)]),
        at_limit: Some([("/loud".to_owned(), 7.0)].into()),
        killed: Some(1.0),
        nodes: vec![node("0", 10.0), node("1", 900.0)],
        groups: [("/loud".to_owned(), thrashing_group())].into(),
        ..sound()
    };
    for Rule { cause, ask, .. } in ALL {
        let free = if cause == "marks-too-high" { 400.0 } else { 50.0 };
        // A full node would explain why much is free.
        let nodes = if cause == "marks-too-high" { Vec::new() } else { ill.nodes.clone() };
        let zones = if cause == "marks-too-high" { None } else { ill.zones.clone() };
        let ill = Signs { usage: Some(used(900.0, free)), nodes, zones, ..ill.clone() };
        let finding = ask(&ill).unwrap().unwrap_or_else(|| panic!("{cause} is silent"));
        assert_eq!(finding.cause, cause);
        assert!(
            !finding.figures.is_empty() && !finding.rule.is_empty() && finding.sentence.ends_with('.'),
            "{finding:?}"
        );
    }
}

/// Returns the signs of a cgroup that reads most of its reclaimed pages again.
fn thrashing_group() -> Signs {
    Signs {
        elapsed_s: Some(10.0),
        refaulted_file: Some(5000.0),
        major_faults: Some(4000.0),
        stolen_together: Some(6000.0),
        at_limit: Some([("/loud".to_owned(), 7.0)].into()),
        ..Signs::default()
    }
}

#[test]
fn kswapd_awake_is_a_notice_until_it_costs() {
    let scan = |signs: &mut Signs, rate: f64| signs.kswapd.scanned = Some(10.0 * rate);
    assert_eq!(turns_at(kswapd_awake, RATE_MIN, scan).weight, Weight::Notice);
    let busy = turns_at(kswapd_awake, KSWAPD_CPU_MIN, |signs, cpu| signs.kswapd_cpu_s = Some(cpu / 10.0));
    assert_eq!(busy.weight, Weight::Illness);
    let with_free = |free: f64| {
        let finding = found(kswapd_awake, |signs| {
            signs.kswapd.scanned = Some(1000.0);
            signs.zones = Some(vec![zone(free, &[])]);
        });
        finding.map(|it| (it.weight, it.sentence)).expect("it is awake")
    };
    let (weight, sentence) = with_free(99.0);
    assert!(
        weight == Weight::Illness && sentence.ends_with("Below even the min mark at the end: Normal."),
        "{sentence}"
    );
    // A zone below its low mark is a notice.
    let (weight, sentence) = with_free(199.0);
    assert!(
        weight == Weight::Notice && sentence.ends_with("Below even the low mark at the end: Normal."),
        "{sentence}"
    );
    let (weight, sentence) = with_free(200.0);
    assert!(weight == Weight::Notice && sentence.ends_with("Below the high mark at the end: Normal."), "{sentence}");
    assert!(with_free(300.0).1.contains("keeps up"));
    let by_counters = found(kswapd_awake, |signs| {
        (signs.kswapd.scanned, signs.zones) = (Some(1000.0), None);
        signs.scanned_by_zone.insert("normal".into(), 300.0);
    });
    assert!(by_counters.unwrap().sentence.ends_with("75 % of what is scanned lies in normal."));
    assert_eq!(lacks(kswapd_awake, |signs| signs.kswapd.scanned = None), "pgscan_kswapd");
    assert_eq!(lacks(kswapd_awake, |signs| signs.elapsed_s = None), "elapsed time");
}

#[test]
fn direct_reclaim_is_told_where_it_is_frequent_or_large_and_felt() {
    turns_at(direct_reclaim, STALLS_MIN, |signs, rate| {
        (signs.stalls, signs.some_waited_percent) = (Some(10.0 * rate), Some(1.0));
    });
    turns_at(direct_reclaim, DIRECT_MIN, |signs, share| {
        signs.direct.scanned = Some(1e5 * share);
        signs.kswapd.scanned = Some(1e5 * (100.0 - share));
        signs.some_waited_percent = None;
    });
    turns_at(direct_reclaim, RATE_MIN, |signs, rate| {
        signs.direct.scanned = Some(10.0 * rate);
        signs.some_waited_percent = None;
    });
    let felt = turns_at(direct_reclaim, WAITED_MIN, |signs, waited| {
        (signs.stalls, signs.some_waited_percent) = (Some(1000.0), Some(waited));
    });
    assert!(
        felt.sentence.contains("100.0 times a second") && felt.sentence.ends_with("0.1 % of the time."),
        "{felt:?}"
    );
    let timed = found(direct_reclaim, |signs| {
        (signs.stalls, signs.some_waited_percent, signs.direct_s) = (Some(1000.0), None, Some(0.25));
    });
    assert!(timed.unwrap().sentence.ends_with("They spent 0.250 s in it."));
    assert_eq!(lacks(direct_reclaim, |signs| signs.direct.scanned = None), "pgscan_direct");
}

#[test]
fn all_wait_at_a_twentieth_of_the_time() {
    turns_at(all_wait, ALL_WAITED_MIN, |signs, share| signs.all_waited_percent = Some(share));
    assert_eq!(lacks(all_wait, |signs| signs.all_waited_percent = None), "PSI of memory");
    // If no page is scanned, compacted or read back, no task waits.
    let quiet = |signs: &mut Signs| {
        (signs.all_waited_percent, signs.kswapd.scanned) = (None, Some(0.0));
    };
    assert_eq!(found(all_wait, quiet), None);
    let others: [fn(&mut Signs); 4] = [
        |signs| signs.stolen_together = Some(1.0),
        |signs| signs.refaulted_file = Some(1.0),
        |signs| signs.refaulted_file = None,
        |signs| signs.compactions = Some(1.0),
    ];
    for other in others {
        let lacking = lacks(all_wait, |signs| {
            quiet(signs);
            other(signs);
        });
        assert_eq!(lacking, "PSI of memory");
    }
}

#[test]
fn anonymous_memory_thrashes_where_what_leaves_comes_back() {
    let swap = |signs: &mut Signs, come: f64, left: f64, stolen: f64| {
        (signs.swapped_in, signs.swapped_out, signs.kswapd.stolen) = (Some(come), Some(left), Some(stolen));
    };
    turns_at(anonymous_thrashing, RATE_MIN, |signs, rate| swap(signs, 10.0 * rate, 250.0, 1000.0));
    turns_at(anonymous_thrashing, SWAP_BACK_MIN, |signs, back| swap(signs, 100.0 * back, 10_000.0, 10_000.0));
    turns_at(anonymous_thrashing, SWAP_LEAVES_MIN, |signs, leaves| swap(signs, 1000.0, 400.0, 10.0 * leaves));
    // The computer's counters do not include what a cgroup reclaims at its limit.
    turns_at(anonymous_thrashing, SWAP_LEAVES_MIN, |signs, leaves| swap(signs, 1000.0, 10.0 * leaves, 0.0));
    // Programs come back from swap after a shortage that is over.
    assert_eq!(found(anonymous_thrashing, |signs| swap(signs, 100_000.0, 0.0, 100_000.0)), None);
    // If the number of reclaimed pages is unknown, the other signs decide.
    assert!(
        found(anonymous_thrashing, |signs| {
            swap(signs, 1000.0, 1000.0, 0.0);
            signs.kswapd.stolen = None;
        })
        .is_some()
    );
    assert_eq!(lacks(anonymous_thrashing, |signs| signs.swapped_in = None), "pswpin");
}

/// Since Linux 6.12 pages filled with zeroes are neither written nor read, and have their own counters.
#[test]
fn pages_of_zeroes_are_told_but_are_no_illness() {
    let swap = |signs: &mut Signs, pages: f64, zeroes: f64| {
        (signs.swapped_in, signs.swapped_out, signs.kswapd.stolen) = (Some(pages), Some(pages), None);
        (signs.zeroes_in, signs.zeroes_out) = (Some(zeroes), Some(zeroes));
    };
    let zeroes = turns_at(anonymous_thrashing, RATE_MIN, |signs, rate| swap(signs, 0.0, 10.0 * rate));
    assert_eq!(zeroes.weight, Weight::Notice);
    assert!(zeroes.sentence.contains("25 pages of zeroes a second come back"), "{}", zeroes.sentence);
    assert!(zeroes.figures.iter().any(|it| (&*it.name, it.value) == ("swpin_zero", 250.0)));
    let both = found(anonymous_thrashing, |signs| swap(signs, 1000.0, 500.0)).unwrap();
    assert_eq!(both.weight, Weight::Illness);
    assert!(both.sentence.contains(": 100 pages a second come back") && both.sentence.contains("500 pages of zeroes"));
    let none = found(anonymous_thrashing, |signs| swap(signs, 1000.0, 0.0)).unwrap();
    assert!(!none.sentence.contains("zeroes") && !none.rule.contains("zeroes"));
}

#[test]
fn the_cache_of_files_thrashes_where_each_fifth_page_is_wanted_again() {
    turns_at(file_cache_thrashing, RATE_MIN, |signs, rate| signs.refaulted_file = Some(10.0 * rate));
    let finding = turns_at(file_cache_thrashing, REFAULT_MIN, |signs, share| {
        (signs.refaulted_file, signs.kswapd.stolen) = (Some(100.0 * share), Some(10_000.0));
        signs.activated_file = Some(50.0 * share);
    });
    assert!(finding.sentence.ends_with("50 % of them had left so recently that they became active at once."));
    assert_eq!(lacks(file_cache_thrashing, |signs| signs.refaulted_file = None), "workingset_refault_file");
}

#[test]
fn the_cache_does_not_thrash_where_one_group_has_the_refaults_and_the_computer_has_room() {
    let with = |of_group: f64, free: f64| {
        move |signs: &mut Signs| {
            (signs.refaulted_file, signs.kswapd.stolen) = (Some(5000.0), Some(6000.0));
            signs.kswapd.scanned = Some(6000.0);
            signs.usage = Some(used(900.0 - free, free));
            signs.groups = [("/loud".to_owned(), Signs { refaulted_file: Some(of_group), ..thrashing_group() })].into();
        }
    };
    assert_eq!(found(file_cache_thrashing, with(4900.0, 500.0)), None);
    // The whole computer's refaults are a finding if other cgroups have a part in them, or if the computer is full.
    assert!(found(file_cache_thrashing, with(3000.0, 500.0)).is_some());
    assert!(found(file_cache_thrashing, with(4900.0, 20.0)).is_some());
}

#[test]
fn causes_stand_before_what_follows_from_them() {
    assert!(super::stage("marks-too-high") < super::stage("anonymous-thrashing"));
    assert!(super::stage("cgroup-limit") < super::stage("group-thrashing"));
    assert!(super::stage("group-thrashing") < super::stage("all-wait"));
}

#[test]
fn scanning_in_vain_is_told_of_each_who_scans() {
    type Of = fn(&mut Signs) -> &mut Scan;
    let rules: [(Ask, Of); 2] =
        [(kswapd_in_vain, |signs| &mut signs.kswapd), (direct_in_vain, |signs| &mut signs.direct)];
    for (rule, of) in rules {
        let scan = |scanned: f64, stolen: f64| {
            found(rule, |signs| *of(signs) = Scan { scanned: Some(scanned), stolen: Some(stolen) })
        };
        assert!(scan(1000.0, 10.0 * EFFICIENCY_MIN * BELOW).is_some());
        assert_eq!(scan(1000.0, 10.0 * EFFICIENCY_MIN), None);
        assert!(scan(10.0 * RATE_MIN, 0.0).is_some());
        assert_eq!(scan(10.0 * RATE_MIN * BELOW, 0.0), None);
    }
    let alone = |signs: &mut Signs, together: Option<f64>| {
        signs.direct = Scan { scanned: Some(1000.0), stolen: None };
        signs.stolen_together = together;
    };
    for together in [None, Some(10.0 * EFFICIENCY_MIN)] {
        assert_eq!(lacks(direct_in_vain, |signs| alone(signs, together)), "pgsteal_direct");
    }
    let finding = found(direct_in_vain, |signs| alone(signs, Some(10.0 * EFFICIENCY_MIN * BELOW)));
    assert!(finding.is_some_and(|it| it.sentence.contains("at most 30")));
    assert_eq!(found(direct_in_vain, |signs| signs.direct = Scan { scanned: Some(0.0), stolen: None }), None);
}

#[test]
fn one_zone_is_told_where_it_is_scanned_more_than_used() {
    let shares = |signs: &mut Signs, scanned: f64, allocated: f64| {
        let of = |share: f64| [("normal".to_owned(), 100.0 * share), ("dma32".to_owned(), 100.0 * (100.0 - share))];
        (signs.scanned_by_zone, signs.allocated_by_zone) = (of(scanned).into(), of(allocated).into());
    };
    let share = 20.0 * ZONE_EXCESS_MIN;
    turns_at(one_zone, share, |signs, scanned| shares(signs, scanned, 20.0));
    // The rest, a larger share, is in dma32, where as many pages are allocated as scanned.
    turns_at(one_zone, ZONE_SCAN_MIN, |signs, scanned| shares(signs, scanned, 10.0));
    turns_at(one_zone, RATE_MIN, |signs, rate| {
        shares(signs, 90.0, 10.0);
        signs.scanned_by_zone = [("normal".to_owned(), 10.0 * rate)].into();
    });
    assert_eq!(lacks(one_zone, |signs| signs.scanned_by_zone.clear()), "pages scanned by zone");
}

#[test]
fn blocks_fail_for_want_of_memory_or_of_whole_blocks() {
    let huge = |got: f64, failed: f64| {
        move |signs: &mut Signs| (signs.huge_got, signs.huge_failed) = (Some(got), Some(failed))
    };
    turns_at(high_orders_fail, HUGE_FAILED_MIN, |signs, share| huge(1000.0 - 10.0 * share, 10.0 * share)(signs));
    turns_at(high_orders_fail, FAILURES_MIN, |signs, failed| huge(0.0, failed)(signs));
    turns_at(high_orders_fail, COMPACTIONS_FAILED_MIN, |signs, share| {
        (signs.compactions, signs.compactions_failed) = (Some(1000.0), Some(10.0 * share));
        signs.compactions_succeeded = None;
    });
    // Some compactions have no counted result: only those with one decide.
    turns_at(high_orders_fail, COMPACTIONS_FAILED_MIN, |signs, share| {
        (signs.compactions, signs.compactions_failed) = (Some(5000.0), Some(10.0 * share));
        signs.compactions_succeeded = Some(1000.0 - 10.0 * share);
    });
    let why = |free: f64, blocks: &[f64]| {
        let finding = found(high_orders_fail, |signs| {
            huge(0.0, 100.0)(signs);
            signs.zones = Some(vec![zone(free, blocks)]);
        });
        finding.expect("it fires").sentence
    };
    let one_huge = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    assert!(why(811.0, &[811.0]).contains("Memory is short"));
    assert!(why(812.0, &[812.0]).contains("Memory is in pieces"));
    assert!(why(812.0, &one_huge).contains("blocks of this size are free"));
    assert!(why(812.0, &[]).contains("not known"));
    // Totals since boot are no illness.
    let since_start = found(high_orders_fail, |signs| {
        huge(0.0, 100.0)(signs);
        signs.is_since_start = true;
    });
    let since_start = since_start.expect("it fires");
    assert_eq!(since_start.weight, Weight::Notice);
    assert!(since_start.sentence.starts_with("Blocks of several pages fail since this computer was started: "));
    let only_huge = |signs: &mut Signs| (signs.compactions_failed, signs.huge_failed) = (None, Some(100.0));
    assert!(found(high_orders_fail, only_huge).is_some());
    let neither = |signs: &mut Signs| (signs.compactions_failed, signs.huge_failed) = (None, None);
    assert_eq!(lacks(high_orders_fail, neither), "thp_fault_fallback or compact_fail");
}

#[test]
fn writers_are_held_back_at_each_fifth_look() {
    turns_at(dirty_throttling, HELD_BACK_MIN, |signs, share| {
        signs.dirty.as_mut().unwrap().held_back_percent = share;
    });
    turns_at(dirty_throttling, RATE_MIN, |signs, rate| {
        let dirty = signs.dirty.as_mut().unwrap();
        (dirty.held_back_percent, dirty.dirtied) = (100.0, Some(10.0 * rate));
    });
    assert!(lacks(dirty_throttling, |signs| signs.dirty = None).starts_with("nr_dirty"));
}

#[test]
fn reclaim_meets_what_the_flushers_have_not_written() {
    turns_at(reclaim_meets_unwritten, UNWRITTEN_MIN, |signs, share| {
        signs.kswapd.scanned = Some(1000.0);
        (signs.file_writes, signs.met_unwritten) = (Some(4.0 * share), Some(6.0 * share));
    });
    turns_at(reclaim_meets_unwritten, RATE_MIN, |signs, rate| {
        (signs.kswapd.scanned, signs.file_writes) = (Some(10.0 * rate), Some(1000.0));
    });
    let lacking = |signs: &mut Signs| (signs.met_unwritten, signs.rotated) = (None, None);
    assert_eq!(lacks(reclaim_meets_unwritten, lacking), "nr_vmscan_immediate_reclaim");
}

#[test]
fn swap_is_full_where_a_twentieth_is_left() {
    let free = |percent: f64| found(swap_full, |signs| signs.swap = Some([1000.0, 10.0 * percent]));
    assert!(free(SWAP_FREE_MIN * BELOW).is_some());
    assert_eq!((free(SWAP_FREE_MIN), found(swap_full, |signs| signs.swap = Some([0.0, 0.0]))), (None, None));
    let used = |signs: &mut Signs, pages: f64| (signs.swap, signs.swap_used) = (None, Some(pages));
    assert_eq!(found(swap_full, |signs| used(signs, 0.0)), None);
    assert_eq!(lacks(swap_full, |signs| used(signs, 1.0)), "free swap");
    assert_eq!(lacks(swap_full, |signs| signs.swap = None), "free swap");
}

#[test]
fn a_disk_is_full_where_a_hundredth_is_left() {
    let free = |percent: f64| {
        found(disk_full, |signs| signs.file_systems = Some(vec![file_system(60.0), file_system(percent)]))
    };
    let finding = free(DISK_FREE_MIN * BELOW).expect("it is full");
    assert!(finding.sentence.starts_with("A disk is full: /data. "), "{}", finding.sentence);
    assert_eq!((free(DISK_FREE_MIN), finding.figures.len()), (None, 2));
    assert_eq!(lacks(disk_full, |signs| signs.file_systems = None), "room on file systems");
}

#[test]
fn pages_that_cgroups_reclaimed_count_where_the_kernel_counts_them() {
    let thrash = |together: Option<f64>| {
        found(file_cache_thrashing, |signs| {
            (signs.kswapd.stolen, signs.refaulted_file) = (Some(0.0), Some(1000.0));
            signs.stolen_together = together;
        })
    };
    assert!(thrash(Some(5000.0)).is_some());
    assert_eq!((thrash(Some(5100.0)), thrash(None)), (None, None));
}

#[test]
fn the_busiest_disk_stands_beside_writers_that_are_held_back() {
    let finding = found(dirty_throttling, |signs| {
        signs.dirty = Some(crate::doctor::signs::Dirty { held_back_percent: 100.0, ..Default::default() });
        let disk = |name: &str, busy| Disk { name: name.into(), busy_percent: Some(busy), ..Disk::default() };
        signs.disks = vec![disk("sda", 3.0), disk("sdb", 99.0)];
    });
    let figures = finding.expect("they are").figures;
    assert_eq!(figures.last().map(|it| (&*it.name, it.value)), Some(("sdb busy", 99.0)));
}

#[test]
fn cgroups_at_their_limit_are_named_by_how_often() {
    let finding = found(cgroup_limit, |signs| {
        let hits = [("/a", 1.0), ("/b", 9.0), ("/c", 0.0)];
        signs.at_limit = Some(hits.map(|(name, times)| (name.to_owned(), times)).into());
    });
    let finding = finding.unwrap();
    assert!(finding.sentence.contains("/b and 1 more came to") && finding.weight == Weight::Illness, "{finding:?}");
    assert_eq!(finding.figures.iter().map(|it| it.value).collect::<Vec<_>>(), [9.0, 1.0]);
    assert!(lacks(cgroup_limit, |signs| signs.at_limit = None).contains("cgroups"));
}

#[test]
fn a_process_killed_is_told() {
    assert!(found(killed, |signs| signs.killed = Some(1.0)).is_some());
    assert_eq!(lacks(killed, |signs| signs.killed = None), "oom_kill");
    let cgroup = |of: OutOfMemory| {
        let finding = found(killed, |signs| signs.out_of_memory = Some([("/a".to_owned(), of)].into()));
        finding.map(|it| (it.sentence, it.figures.len())).unwrap_or_default()
    };
    assert_eq!(cgroup(OutOfMemory::default()), Default::default());
    let waits = cgroup(OutOfMemory { is_waiting: true, ..OutOfMemory::default() });
    assert!(waits.0.starts_with("A process in the cgroup /a waits for memory that nobody frees") && waits.1 == 1);
    let refused = cgroup(OutOfMemory { times: 2.0, ..OutOfMemory::default() });
    assert!(refused.0.contains("at its limit 2 times, and no process of its own was killed"), "{}", refused.0);
    let of_all = cgroup(OutOfMemory { times: 1.0, kills: 3.0, group_kills: 1.0, is_waiting: false });
    assert!(
        of_all.0.ends_with("at its limit once, and the kernel killed 3 processes of it, as a whole.") && of_all.1 == 3,
        "{}",
        of_all.0
    );
    let of_others = cgroup(OutOfMemory { kills: 1.0, ..OutOfMemory::default() });
    assert_eq!(of_others.0, "In the cgroup /a the kernel killed 1 process.");
    // The kernel's counter includes kills in cgroups. No kill is reported twice.
    let both = |kills: f64| {
        let of_cgroup = OutOfMemory { times: 1.0, kills: 3.0, ..OutOfMemory::default() };
        let finding = found(killed, |signs| {
            (signs.killed, signs.out_of_memory) = (Some(kills), Some([("/a".to_owned(), of_cgroup)].into()));
        });
        finding.expect("processes were killed").sentence
    };
    assert!(both(3.0).starts_with("The cgroup /a was out of memory"), "{}", both(3.0));
    assert!(both(4.0).starts_with("The kernel killed 1 process for want of memory. The cgroup /a"), "{}", both(4.0));
    // Failed requests that the engine counts are reported as such.
    let refused =
        found(killed, |signs| (signs.killed, signs.exhausted) = (None, Some(2.0))).expect("memory was exhausted");
    assert_eq!(refused.figures[0].name, "oom");
    assert!(refused.sentence.starts_with("Memory was exhausted 2 times, and requests failed"), "{}", refused.sentence);
}

#[test]
fn programs_are_called_too_large_only_beside_little_cache_and_little_free_memory() {
    let sentence = |usage: Option<Usage>, swap_used: Option<f64>| {
        let finding = found(anonymous_thrashing, |signs| {
            (signs.swapped_in, signs.swapped_out, signs.kswapd.stolen) = (Some(5000.0), Some(5000.0), Some(5000.0));
            (signs.usage, signs.swap_used, signs.swap) = (usage, swap_used, None);
        });
        finding.expect("it thrashes").sentence
    };
    let claims = "Programs are larger than memory: only";
    assert!(sentence(Some(used(50.0, 20.0)), None).contains(claims));
    for (files, free, in_swap) in [(300.0, 20.0, None), (150.0, 20.0, Some(100.0)), (50.0, 400.0, None)] {
        let told = sentence(Some(used(files, free)), in_swap);
        assert!(!told.contains("are larger than memory"), "{told}");
    }
    assert!(sentence(Some(used(50.0, 400.0)), None).contains("2 MiB (40 %) of memory are free all the time. kswapd"));
    assert!(sentence(None, None).contains("how much there is of it is not known"));
    // The memory of a cgroup is its limit.
    let of_group = found(anonymous_thrashing, |signs| {
        (signs.swapped_in, signs.swapped_out, signs.kswapd.stolen) = (Some(5000.0), Some(5000.0), Some(5000.0));
        (signs.usage, signs.group) = (Some(used(50.0, 20.0)), Some("/a".into()));
    });
    assert!(of_group.unwrap().sentence.contains("Programs are larger than the limit of their cgroup"));
}

#[test]
fn what_comes_back_into_free_memory_is_no_thrashing() {
    // `vmstat` does not show reclaimed pages. 1,000 pages came back from swap, and 900 fewer are free.
    let come_back = |free_after: f64| {
        found(anonymous_thrashing, |signs| {
            (signs.swapped_in, signs.swapped_out) = (Some(1000.0), Some(300.0));
            signs.kswapd.stolen = None;
            let at = |free: f64| MemoryUse { free: Some(free), cached: Some(100.0), ..MemoryUse::default() };
            signs.usage = Some(Usage::between(&at(5000.0).into(), &at(free_after).into()));
        })
    };
    assert_eq!(come_back(4100.0), None);
    assert!(come_back(4990.0).is_some());
}

#[test]
fn swapping_beside_a_large_cache_is_a_choice() {
    let swap = |signs: &mut Signs, files: f64, in_swap: f64| {
        (signs.swapped_in, signs.swapped_out, signs.kswapd.stolen) = (Some(5000.0), Some(5000.0), Some(5000.0));
        (signs.usage, signs.swap_used, signs.swap) = (Some(used(files, 20.0)), Some(in_swap), None);
    };
    let finding =
        turns_at(swap_beside_cache, super::swap::CACHE_LARGE_MIN, |signs, share| swap(signs, 10.0 * share, 1e6));
    assert!(finding.sentence.contains("vm.swappiness says how much"), "{}", finding.sentence);
    // All pages in swap would fit in place of the cache.
    turns_at(swap_beside_cache, 100.0, |signs, files| swap(signs, files, 100.0));
    let set = |value: &str| {
        let finding = found(swap_beside_cache, |signs| {
            swap(signs, 500.0, 100.0);
            signs.settings.insert("vm.swappiness".into(), value.into());
        });
        finding.unwrap().sentence
    };
    assert!(set("200").contains("vm.swappiness is 200: it says") && set("1").contains("is 1 already"));
    assert_eq!(
        lacks(swap_beside_cache, |signs| {
            swap(signs, 0.0, 0.0);
            signs.usage = None;
        }),
        "size of page cache"
    );
}

#[test]
fn marks_are_too_high_where_much_is_free_while_kswapd_works() {
    let work = |signs: &mut Signs, free: f64| {
        (signs.kswapd.scanned, signs.zones) = (Some(1000.0), None);
        signs.usage = Some(used(300.0, free));
    };
    let finding = turns_at(marks_too_high, FREE_MUCH, |signs, share| work(signs, 10.0 * share));
    assert!(
        finding.sentence.contains("min_free_kbytes or watermark_scale_factor is set too high."),
        "{}",
        finding.sentence
    );
    // If marks are known, they decide: high marks at 30 % of memory are too high, at 0.3 % they are not.
    let with_marks = |high: f64| {
        found(marks_too_high, |signs| {
            work(signs, 400.0);
            signs.zones = Some(vec![Zone { marks: [high / 2.0, high / 1.5, high], ..zone(400.0, &[]) }]);
        })
    };
    assert!(with_marks(300.0).is_some() && with_marks(3.0).is_none());
    // If marks are unknown, the sysctls that determine them decide.
    let with_settings = |kib: &str, scale: &str| {
        found(marks_too_high, |signs| {
            work(signs, 300.0);
            signs.settings.insert("vm.min_free_kbytes".into(), kib.into());
            signs.settings.insert("vm.watermark_scale_factor".into(), scale.into());
        })
    };
    assert!(with_settings("800", "10").is_some() && with_settings("40", "10").is_none());
    assert!(with_settings("40", "1000").is_some());
    // Known marks decide instead of a share of memory: 12 % are free, between a low mark of 11 % and a high one of 21 %.
    let between = |free: f64| {
        found(marks_too_high, |signs| {
            work(signs, free);
            signs.settings.insert("vm.watermark_scale_factor".into(), "1000".into());
            signs.zones = Some(vec![Zone { marks: [10.0, 110.0, 210.0], ..zone(free, &[]) }]);
        })
    };
    assert!(between(120.0).is_some() && between(210.0).is_some());
    // kswapd is late below the low mark, and far above the high mark memory is free for another reason.
    assert!(between(50.0).is_none() && between(900.0).is_none());
    let others: [fn(&mut Signs); 4] = [
        |signs| signs.kswapd.scanned = Some(0.0),
        |signs| signs.nodes = vec![node("0", 10.0), node("1", 900.0)],
        |signs| signs.compactions = Some(1000.0),
        |signs| signs.usage = Some(used(300.0, 100.0)),
    ];
    for refute in others {
        let finding = found(marks_too_high, |signs| {
            work(signs, 400.0);
            refute(signs);
        });
        assert_eq!(finding, None);
    }
}

#[test]
fn a_node_is_full_beside_free_ones_by_whoever_reclaims_it() {
    let scan = |signs: &mut Signs, by_tasks: f64, by_kswapd: f64, free: f64| {
        let busy = Node { by_tasks: Some(by_tasks), by_kswapd: Some(by_kswapd), ..node("1", 10.0) };
        let quiet = Node { by_tasks: Some(0.0), by_kswapd: Some(0.0), ..node("0", free) };
        signs.nodes = vec![quiet, busy];
    };
    let finding = turns_at(one_node, RATE_MIN, |signs, rate| scan(signs, 10.0 * rate, 0.0, 900.0));
    assert_eq!(finding.weight, Weight::Illness);
    assert!(
        finding.sentence.starts_with("Node 1 is reclaimed while memory of others is free (0): 100 % of what"),
        "{finding:?}"
    );
    assert!(finding.sentence.contains("vm.zone_reclaim_mode"));
    turns_at(one_node, FREE_MUCH, |signs, share| scan(signs, 1000.0, 0.0, 10.0 * share));
    let by_kswapd = |signs: &mut Signs| scan(signs, 0.0, 1000.0, 900.0);
    assert_eq!(found(one_node, by_kswapd).map(|it| it.weight), Some(Weight::Notice));
    let bound = found(one_node, |signs| {
        scan(signs, 1000.0, 0.0, 900.0);
        signs.settings.insert("vm.zone_reclaim_mode".into(), "0".into());
    });
    assert!(bound.unwrap().sentence.contains("is 0: whoever runs there is bound to it"));
    assert_eq!(found(one_node, |signs| signs.nodes = vec![node("0", 10.0)]), None);
    assert_eq!(lacks(one_node, |signs| signs.nodes.clear()), "free memory by node");
}

#[test]
fn kswapd_is_blamed_only_where_it_scanned() {
    let why = |change: fn(&mut Signs)| {
        let finding = found(direct_reclaim, |signs| {
            (signs.kswapd.scanned, signs.direct.scanned) = (Some(0.0), Some(10_000.0));
            (signs.stalls, signs.some_waited_percent) = (Some(0.0), Some(40.0));
            change(signs);
        });
        finding.expect("tasks reclaim").sentence
    };
    let blames = |sentence: &str| sentence.contains("does not keep up");
    assert!(blames(&why(|signs| signs.kswapd.scanned = Some(5000.0))));
    // A trickle beside the tasks' scanning does not count as kswapd's work; a batch every tenth of a second does.
    assert!(!blames(&why(|signs| (signs.kswapd.scanned, signs.direct.scanned) = (Some(1000.0), Some(1e5)))));
    assert!(blames(&why(|signs| (signs.kswapd.scanned, signs.direct.scanned) = (Some(3300.0), Some(1e5)))));
    let given_up = why(|signs| signs.direct.stolen = Some(9.0));
    assert!(given_up.contains("it has given up") && !given_up.contains("not for want of free pages"), "{given_up}");
    assert!(why(|signs| signs.direct.stolen = Some(9000.0)).contains("not for want of free pages"));
    let idle = why(|_| ());
    assert!(!blames(&idle) && idle.contains("kswapd scans nothing") && !idle.contains("0.0 times"), "{idle}");
    assert!(idle.contains("1000 pages a second"), "{idle}");
    let at_limit = why(|signs| signs.at_limit = Some([("/a".to_owned(), 226.0)].into()));
    assert!(at_limit.contains("/a came to its limit 226 times") && !blames(&at_limit), "{at_limit}");
    let by_node = why(|signs| signs.node_reclaims = Some(5.0));
    assert!(by_node.contains("tasks reclaim their own node") && !blames(&by_node), "{by_node}");
}

#[test]
fn a_group_thrashes_by_its_own_counters_or_by_faults_that_refaults_bear_out() {
    let of = |change: &dyn Fn(&mut Signs)| {
        let mut group = thrashing_group();
        change(&mut group);
        found(group_thrashing, |signs| signs.groups = [("/a/b".to_owned(), group)].into())
    };
    let finding = of(&|_| ()).expect("it thrashes");
    assert!(finding.sentence.contains("The cgroup /a/b thrashes"), "{}", finding.sentence);
    assert!(finding.sentence.contains("500 refaults a second and 400 major faults a second"), "{}", finding.sentence);
    // A copied file passes through the cgroup's cache: most evicted pages are not needed again.
    assert_eq!(of(&|group| group.stolen_together = Some(1e6)), None);
    assert_eq!(of(&|group| group.refaulted_file = Some(10.0 * RATE_MIN * BELOW)), None);
    // A cgroup without refault counters of its own: the report has the command's major faults and the computer's
    // refaults.
    let faults = |refaults: f64, at_limit: f64| {
        found(group_thrashing, |signs| {
            let group = Signs {
                elapsed_s: Some(10.0),
                major_faults: Some(28_000.0),
                at_limit: Some([("/c".to_owned(), at_limit)].into()),
                ..Signs::default()
            };
            (signs.groups, signs.refaulted_file) = ([("/c".to_owned(), group)].into(), Some(refaults));
        })
    };
    let told = faults(22_000.0, 26_000.0).expect("it thrashes").sentence;
    assert!(told.contains("2800 major faults a second") && told.contains("26000 times"), "{told}");
    assert!(faults(22_000.0, 0.0).is_none(), "it was not reclaimed");
    assert!(faults(1000.0, 26_000.0).is_none(), "a program that starts reads its pages for the first time");
    // The counters of a cgroup include those of the cgroups below it.
    let nested = found(group_thrashing, |signs| {
        signs.groups = ["/a", "/a/b", "/ab"].map(|name| (name.to_owned(), thrashing_group())).into();
    });
    let told = nested.unwrap().sentence;
    assert!(told.starts_with("The cgroup /a/b thrashes: ") && told.ends_with("So do /ab."), "{told}");
    // The signs are those of the cgroup itself.
    let mut own = thrashing_group();
    own.group = Some("/sys/fs/cgroup/loud".into());
    assert!(group_thrashing(&own).unwrap().is_some());
    assert!(lacks(group_thrashing, |signs| signs.groups.clear()).contains("cgroups"));
}

#[test]
fn a_group_that_keeps_a_cache_at_its_limit_is_not_ill() {
    let of = |group: Signs| {
        let finding = found(cgroup_limit, |signs| {
            (signs.at_limit, signs.groups) =
                (Some([("/a".to_owned(), 90.0)].into()), [("/a".to_owned(), group)].into());
        });
        finding.expect("it is at its limit").weight
    };
    let waits = |waited: f64| Signs {
        elapsed_s: Some(10.0),
        some_waited_percent: Some(waited),
        refaulted_file: Some(0.0),
        ..Signs::default()
    };
    assert_eq!((of(waits(0.5)), of(waits(1.0))), (Weight::Notice, Weight::Illness));
    assert_eq!(of(Signs { some_waited_percent: Some(0.0), ..thrashing_group() }), Weight::Illness);
    let timed = Signs { elapsed_s: Some(10.0), ..Signs::default() };
    assert_eq!(of(timed), Weight::Illness, "how long it waits is not known");
    let once = Signs { is_since_start: true, ..Signs::default() };
    assert_eq!(of(once), Weight::Notice, "when that was is not known");
}

#[test]
fn dirty_pages_that_no_counter_tells_are_known_by_where_they_go_when_written() {
    let limit = |rotated: f64, swapped: f64| {
        found(reclaim_meets_unwritten, |signs| {
            (signs.direct.scanned, signs.rotated, signs.swapped_out) = (Some(14_000.0), Some(rotated), Some(swapped));
            signs.at_limit = Some([("the cgroup of the run".to_owned(), 226.0)].into());
        })
    };
    let told = limit(13_000.0, 0.0).expect("most are met dirty").sentence;
    assert!(told.contains("(pgrotated)") && told.contains("The cgroup of the run is at its limit"), "{told}");
    assert_eq!(limit(13_000.0, 13_000.0), None, "they went to swap");
    assert_eq!(limit(1000.0, 0.0), None);
}

#[test]
fn a_process_waits_for_its_pages_unless_it_grows_by_them() {
    let of = |faults: f64, grown: f64| {
        found(process_faults, |signs| {
            let pages = |mib: f64| 256.0 * mib;
            signs.process = Some(Process {
                pid: 7,
                folder: None,
                name: "7 (a)".into(),
                major_faults: faults,
                resident: pages(50.0),
                resident_grown: grown,
                resident_file: pages(2.0),
                swapped: pages(30.0),
            });
        })
    };
    turns_at(process_faults, RATE_MIN, |signs, rate| {
        signs.process = Some(Process { major_faults: 10.0 * rate, ..Process::default() });
    });
    let told = of(1000.0, -5.0).unwrap().sentence;
    assert!(
        told.starts_with("Process 7 (a) waits for its own pages: 100 of") && told.contains("30 MiB of it are in swap"),
        "{told}"
    );
    assert_eq!(of(1000.0, 1000.0), None);
    assert_eq!(lacks(process_faults, |signs| signs.process = None), "process");
}

#[test]
fn free_memory_in_pieces_is_told_by_the_order_that_is_lacking() {
    let blocks = |blocks: &[f64]| Zone { name: "Normal".into(), blocks: blocks.into(), ..Zone::default() };
    let ask = |zones: Vec<Zone>| {
        let signs = Signs { zones: Some(zones), ..Signs::default() };
        let said = super::blocks::in_pieces(&signs).unwrap();
        said.map(|it| (it.weight, it.sentence))
    };
    // 196 MiB are free in blocks of up to 8 pages, except for three blocks of 16 pages.
    let pieces = || blocks(&[20_000.0, 9000.0, 2000.0, 500.0, 3.0]);
    let (weight, sentence) = ask(vec![pieces()]).unwrap();
    assert_eq!(weight, Weight::Illness);
    assert!(
        sentence.starts_with(
            "Memory is in pieces: 196 MiB are free, and next to nothing of it in blocks of 64 KiB or more;"
        ),
        "{sentence}"
    );
    assert!(sentence.contains("the largest blocks have 64 KiB (order 4), and there are 3 of them."), "{sentence}");
    // Large blocks in zone DMA do not count, since other requests cannot use them. Large blocks in zone DMA32 do.
    let dma = Zone { name: "DMA".into(), ..blocks(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 3.0]) };
    assert_eq!(ask(vec![dma, pieces()]).unwrap().0, Weight::Illness);
    let dma32 = Zone { name: "DMA32".into(), ..blocks(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0]) };
    let (weight, sentence) = ask(vec![dma32, pieces()]).unwrap();
    assert!(weight == Weight::Notice && sentence.contains("are free in zone Normal"), "{sentence}");
    // Only blocks for huge pages are lacking. This is a notice if much memory is free.
    let middling = |count: f64| blocks(&[0.0, 0.0, 0.0, 0.0, 0.0, count]);
    let (weight, sentence) = ask(vec![middling(3000.0)]).unwrap();
    assert!(weight == Weight::Notice && sentence.contains("in blocks of 2048 KiB or more"), "{sentence}");
    assert_eq!(ask(vec![middling(1500.0)]), None);
    // There are large blocks; the zone is at its marks; too little is free to matter.
    let well = [5000.0, 4000.0, 3000.0, 2000.0, 1000.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0];
    assert_eq!(ask(vec![blocks(&well)]), None);
    assert_eq!(ask(vec![Zone { marks: [30_000.0, 45_000.0, 60_000.0], ..pieces() }]), None);
    assert_eq!(ask(vec![blocks(&[9000.0, 10.0])]), None);
}

#[test]
fn disks_are_told_where_requests_wait_on_them() {
    let ask = |busy: Option<f64>, read: Option<f64>, write: Option<f64>, swapped: Option<f64>| {
        let disk = Disk { name: "sda".into(), busy_percent: busy, read_wait_ms: read, write_wait_ms: write };
        let signs = Signs { elapsed_s: Some(10.0), disks: vec![disk], swapped_in: swapped, ..Signs::default() };
        super::disks::busy_disk(&signs).unwrap().map(|it| (it.weight, it.sentence))
    };
    let (weight, sentence) = ask(Some(97.0), Some(40.0), None, Some(5000.0)).unwrap();
    assert_eq!(weight, Weight::Notice);
    assert!(
        sentence.contains("busy 97 % of the time: a read takes 40 ms. Memory has a part in it: 500 pages a second"),
        "{sentence}"
    );
    assert!(ask(Some(97.0), None, None, None).is_some() && ask(None, None, Some(40.0), None).is_some());
    // A disk that serves many requests at once is not slow, and neither is an idle disk.
    for quiet in [
        ask(Some(97.0), Some(1.0), Some(2.0), None),
        ask(Some(50.0), Some(40.0), None, None),
        ask(None, None, Some(5.0), None),
    ] {
        assert_eq!(quiet, None);
    }
}

#[test]
fn zones_under_their_marks_are_told_of_a_moment() {
    let ask = |free: f64| {
        let signs = Signs { zones: Some(vec![zone(900.0, &[]), zone(free, &[])]), ..Signs::default() };
        assert!(super::marks::are_of_a_moment(&signs));
        super::marks::below_marks(&signs).unwrap().map(|it| (it.weight, it.sentence))
    };
    let (weight, sentence) = ask(99.0).unwrap();
    assert!(
        weight == Weight::Illness && sentence.contains("under its min mark: 99 pages are free of 100;"),
        "{sentence}"
    );
    assert_eq!(ask(150.0).map(|it| it.0), Some(Weight::Notice));
    assert_eq!(ask(250.0), None);
    // If scanning is counted, the rule about kswapd reports the zone.
    assert!(!super::marks::are_of_a_moment(&sound()));
}

#[test]
fn a_node_that_is_full_at_one_moment_beside_a_free_one_is_worth_knowing() {
    let of = |free: [f64; 2], mode: Option<&str>| {
        let nodes = vec![node("0", free[0]), node("1", free[1])];
        let settings = mode.map(|mode| ("vm.zone_reclaim_mode".to_owned(), mode.to_owned())).into_iter().collect();
        Diagnosis::of(&Signs { nodes, settings, ..Signs::default() }).findings
    };
    let findings = of([10.0, 400.0], None);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.cause, finding.weight), (ONE_NODE, Weight::Notice));
    assert!(
        finding
            .sentence
            .starts_with("Node 0 is full, 1.0 % of it is free, while others have free memory: node 1 40 %.")
    );
    let sets = |finding: &Finding| finding.next.iter().any(|step| matches!(step, Step::Setting { .. }));
    let steps: Vec<String> = finding.next.iter().map(Step::show).collect();
    assert!(!sets(finding) && steps[0].contains("zone_reclaim_mode`: if it is not 0"), "{steps:?}");
    assert!(sets(&of([10.0, 400.0], Some("1"))[0]) && !sets(&of([10.0, 400.0], Some("0"))[0]));
    assert!(of([100.0, 400.0], None).is_empty() && of([10.0, 20.0], None).is_empty());
}
