//! Each rule fires at its threshold, is silent just below, and says what it lacks.

use super::*;
use crate::doctor::Diagnosis;

/// Below a threshold by a hair.
const BELOW: f64 = 0.999;

/// Ten seconds in which reclaim did something and nothing was wrong.
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
        usage: None,
        blocked: None,
        zeroes_in: None,
        zeroes_out: None,
        log: None,
        slabs: Vec::new(),
        processes: Vec::new(),
        is_since_start: false,
        assumed: Vec::new(),
        missing: Vec::new(),
    }
}

fn file_system(free_percent: f64) -> FileSystem {
    FileSystem { mount: "/data".into(), bytes: 1e9, free_bytes: 1e7 * free_percent }
}

fn zone(free: f64, blocks: &[f64]) -> Zone {
    Zone { name: "Normal".into(), free, marks: [100.0, 200.0, 300.0], blocks: blocks.into() }
}

/// What a rule finds once sound signs were changed.
fn found(rule: Rule, change: impl FnOnce(&mut Signs)) -> Option<Finding> {
    let mut signs = sound();
    change(&mut signs);
    rule(&signs).expect("all signs are known")
}

/// What a rule lacks once sound signs were changed.
fn lacks(rule: Rule, change: impl FnOnce(&mut Signs)) -> String {
    let mut signs = sound();
    change(&mut signs);
    rule(&signs).expect_err("a sign is missing")
}

/// At `threshold` a rule fires, and below it does not.
fn turns_at(rule: Rule, threshold: f64, change: impl Fn(&mut Signs, f64)) -> Finding {
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
        ..sound()
    };
    for (cause, rule) in ALL {
        let finding = rule(&ill).unwrap().unwrap_or_else(|| panic!("{cause} is silent"));
        assert_eq!(finding.cause, cause);
        assert!(
            !finding.figures.is_empty() && !finding.rule.is_empty() && finding.sentence.ends_with('.'),
            "{finding:?}"
        );
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
    let (weight, sentence) = with_free(199.0);
    assert!(
        weight == Weight::Illness && sentence.ends_with("Below even the low mark at the end: Normal."),
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
    // Where nothing is scanned, compacted or read back nobody waits.
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
    // The computer's counters do not see what a cgroup reclaims at its limit.
    turns_at(anonymous_thrashing, SWAP_LEAVES_MIN, |signs, leaves| swap(signs, 1000.0, 10.0 * leaves, 0.0));
    // Programs come back after a want that is over.
    assert_eq!(found(anonymous_thrashing, |signs| swap(signs, 100_000.0, 0.0, 100_000.0)), None);
    // Without the count of pages reclaimed the rest decides.
    assert!(
        found(anonymous_thrashing, |signs| {
            swap(signs, 1000.0, 1000.0, 0.0);
            signs.kswapd.stolen = None;
        })
        .is_some()
    );
    assert_eq!(lacks(anonymous_thrashing, |signs| signs.swapped_in = None), "pswpin");
}

/// Since 6.12 they are neither written nor read, and counted apart.
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
fn scanning_in_vain_is_told_of_each_who_scans() {
    type Of = fn(&mut Signs) -> &mut Scan;
    let rules: [(Rule, Of); 2] =
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
    // dma32 has the rest, which is more, and is used as much.
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
    // The end of some is not counted: what counts is how the others ended.
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
    assert_eq!(lacks(reclaim_meets_unwritten, |signs| signs.met_unwritten = None), "nr_vmscan_immediate_reclaim");
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
        let disk = |name: &str, busy| Disk { name: name.into(), busy_percent: Some(busy), write_wait_ms: None };
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
    assert!(finding.sentence.contains("/b and 1 more came to"), "{}", finding.sentence);
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
    // The kernel counts those of cgroups, too: none is told twice.
    let both = |kills: f64| {
        let of_cgroup = OutOfMemory { times: 1.0, kills: 3.0, ..OutOfMemory::default() };
        let finding = found(killed, |signs| {
            (signs.killed, signs.out_of_memory) = (Some(kills), Some([("/a".to_owned(), of_cgroup)].into()));
        });
        finding.expect("processes were killed").sentence
    };
    assert!(both(3.0).starts_with("The cgroup /a was out of memory"), "{}", both(3.0));
    assert!(both(4.0).starts_with("The kernel killed 1 process for want of memory. The cgroup /a"), "{}", both(4.0));
    // What the engine counts is told as its own.
    let refused =
        found(killed, |signs| (signs.killed, signs.exhausted) = (None, Some(2.0))).expect("memory was exhausted");
    assert_eq!(refused.figures[0].name, "oom");
    assert!(refused.sentence.starts_with("Memory was exhausted 2 times, and requests failed"), "{}", refused.sentence);
}
