//! The multi-generational LRU in its versions.

use crate::choices::everything;
use crate::ground::{Found, Ground, PAGES, Plan, choices_of};
use engine::anonymous::MapMode;
use engine::lru::Family;
use engine::lru::policy::multigen::choices::{Faulted, IsolatedMarks, KswapdStops, RefaultMarks, Walk};
use engine::lru::policy::multigen::command::{CommandError, Refused};
use engine::memory::{Layout, NodeId};
use engine::{ReadPattern, Task};
use machine::{Machine, Nanos, Step};

/// Kernels with each version of the multi-gen LRU.
const VERSIONS: [&str; 5] = ["mglru-v1", "mglru-v2", "6.1-mglru", "6.14-mglru", "7.2-mglru"];

/// Kernels with a version of the multi-gen LRU that has tiers.
const TIERED: [&str; 4] = ["mglru-v2", "6.1-mglru", "6.14-mglru", "7.2-mglru"];

fn plan(kernel: &str) -> Plan {
    let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan
}

/// A generator of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

fn file_tier_limit(ground: &Ground) -> usize {
    let zone = ground.engine.memory().zones.last().unwrap();
    ground
        .engine
        .lru()
        .tier_limit(ground.engine.lru().lruvec_of(zone), Family::File)
        .expect("the kernel has generations")
}

/// Runs a mixed workload: dirty files, streams, anonymous memory, a disk that stalls, large blocks. Contents and counts
/// are verified at the end.
#[test]
fn every_version_reclaims_files_and_anonymous_memory() {
    for kernel in VERSIONS {
        let vmstat = plan(kernel).run(everything);
        assert!(vmstat["pswpout"] > 500 && vmstat["pgsteal_kswapd_normal"] > 1000, "{kernel}: {vmstat:?}");
    }
}

/// Reads `reads` pages of a file of `pages` pages. Each page is drawn at random, and all are equally likely. Calls
/// `each` with the number of each read, from 0, after the read.
fn read_at_random(ground: &Ground, pages: u32, reads: u32, mut each: impl FnMut(u32)) {
    let file = ground.import(pages);
    let mut numbers = Numbers(7);
    for n in 0..reads {
        let page = numbers.below(pages);
        ground.read(&file, page..page + 1).unwrap();
        each(n);
    }
}

/// mechanisms/multigen, 10.5: a fifth of memory is anonymous and idle, swap is free, and a file is read at random. Up
/// to 6.14 the idle memory stays. Later versions begin generations by the number of evictable pages, and so evict it in
/// the end: `idle_anonymous_memory_goes_once_in_7_2`.
#[test]
fn idle_anonymous_memory_stays_under_reads_of_a_file() {
    for kernel in ["mglru-v2", "6.1-mglru", "6.14-mglru"] {
        let vmstat = plan(kernel).run(|ground| {
            let region = ground.region(PAGES as u32 / 5);
            ground.touch(&region, 0..PAGES as u32 / 5, true).unwrap();
            read_at_random(ground, 4 * PAGES as u32, 8 * PAGES as u32, |_| {});
        });
        let stolen = vmstat["pgsteal_kswapd_normal"] + vmstat["pgsteal_direct_normal"];
        assert!(stolen > 3 * PAGES, "{kernel}: {vmstat:?}");
        assert_eq!(vmstat["pswpout"], 0, "{kernel}: swapped beside {stolen} pages of the file");
    }
}

/// A fifth of memory is anonymous and idle, and a file is read at random. All idle pages are swapped out, because file
/// pages refault and idle pages do not. Each is written to swap once.
#[test]
fn idle_anonymous_memory_goes_once_in_7_2() {
    let vmstat = plan("7.2-mglru").run(|ground| {
        let region = ground.region(PAGES as u32 / 5);
        ground.touch(&region, 0..PAGES as u32 / 5, true).unwrap();
        read_at_random(ground, 4 * PAGES as u32, 8 * PAGES as u32, |_| {});
    });
    assert_eq!((vmstat["pswpout"], vmstat["pswpin"]), (PAGES / 5, 0));
}

/// Pages of a file are read at random, all with the same probability. A page that was read twice is then no more likely
/// to be read again, so no tier is protected.
#[test]
fn uniform_reads_protect_no_tier() {
    for kernel in TIERED {
        let limits = Found::<[u32; 4]>::default();
        let found = limits.clone();
        let mut plan = plan(kernel);
        // Half of the file is in memory, so that chance makes runs of pages that look like a stream. Pages that are read
        // ahead would count as misses here.
        plan.choices.access.readahead_history = engine::access::choices::ReadaheadHistory::Ignored;
        let vmstat = plan.run(move |ground| {
            let mut limits = [0; 4];
            read_at_random(ground, 2 * PAGES as u32, 16 * PAGES as u32, |n| {
                if n >= 8 * PAGES as u32 {
                    limits[file_tier_limit(ground)] += 1;
                }
            });
            found.set(limits);
        });
        let limits = limits.get();
        assert!(limits[3] * 100 >= limits.iter().sum::<u32>() * 95, "{kernel}: {limits:?}");
        let hits = 1.0 - vmstat["pgpgin"] as f64 / 4.0 / (16.0 * PAGES as f64);
        // Pages that are kept free, and pages that the engine itself takes, are not in the cache. The first reads only
        // fill the cache.
        assert!(hits > 0.40 && hits < 0.5, "{kernel}: {hits}");
    }
}

/// A hot set is read repeatedly beside a scan that never repeats. Pages that were read often are protected from the
/// scan.
#[test]
fn a_hot_set_beside_a_scan_that_never_repeats_is_protected() {
    for kernel in TIERED {
        let limits = Found::<[u32; 4]>::default();
        let found = limits.clone();
        plan(kernel).run(move |ground| {
            let hot_pages = PAGES as u32 / 2;
            let (hot, stream) = (ground.import(hot_pages), ground.import(24 * PAGES as u32));
            let mut numbers = Numbers(3);
            let mut limits = [0; 4];
            for page in 0..24 * PAGES as u32 {
                ground.read(&stream, page..page + 1).unwrap();
                let hot_page = numbers.below(hot_pages);
                ground.read(&hot, hot_page..hot_page + 1).unwrap();
                if page > 12 * PAGES as u32 {
                    limits[file_tier_limit(ground)] += 1;
                }
            }
            found.set(limits);
        });
        let limits = limits.get();
        // In 7.2, the counts of refaults are folded into their history often, and a tier is protected only from 64
        // refaults on. These are many for a memory of 16 MiB.
        let part = if kernel == "7.2-mglru" { 2 } else { 10 };
        assert!(limits[3] * part < limits.iter().sum::<u32>(), "{kernel}: {limits:?}");
    }
}

/// With only anonymous memory, and no kswapd, tasks begin generations themselves.
#[test]
fn anonymous_memory_alone_is_reclaimed_by_tasks() {
    for kernel in VERSIONS {
        let vmstat = Plan { with_kswapd: false, ..plan(kernel) }.run(|ground| {
            let region = ground.region(3 * PAGES as u32);
            ground.write_stamps(&region, 0..3 * PAGES as u32).unwrap();
            for page in 0..3 * PAGES as u32 {
                assert_eq!(ground.read_stamp(&region, page).unwrap(), crate::ground::stamp(page));
            }
        });
        assert!(vmstat["pswpin"] > PAGES, "{kernel}: {vmstat:?}");
    }
}

/// Returns the rows of generations that debugfs shows: number, age in ms, anonymous pages, file pages.
fn rows(ground: &Ground) -> Vec<[u64; 4]> {
    let text = ground.engine.lru().lru_gen();
    assert!(text.starts_with("memcg     0 /\n node     0\n"), "{text}");
    let row = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        numbers.try_into().expect("four numbers")
    };
    text.lines().skip(2).map(row).collect()
}

fn command(ground: &Ground, text: &str) -> Result<u64, CommandError> {
    ground.engine.reclaim().lru_gen_command(&mut ground.task.borrow_mut(), text)
}

/// The view of debugfs and its two commands: generations begin, pages grow old with them, and old ones are evicted.
#[test]
fn generations_are_shown_and_commanded() {
    for kernel in VERSIONS {
        plan(kernel).run(move |ground| {
            let file = ground.import(1000);
            ground.read(&file, 0..1000).unwrap();
            ground.engine.lru().drain_all();
            let before = rows(ground);
            let youngest = before.last().unwrap()[0];
            let first = before.iter().find(|row| row[3] > 0).unwrap()[0];
            assert_eq!(before.iter().map(|row| row[2] + row[3]).sum::<u64>(), 1000, "{kernel}: {before:?}");
            let refused = |text: &str, why: Refused| {
                assert_eq!(command(ground, text), Err(CommandError::Refused { number: 1, why }), "{kernel}");
            };
            refused(&format!("+ 0 0 {}", youngest - 1), Refused::NotYoungest { named: youngest - 1, youngest });
            refused(&format!("+ 1 0 {youngest}"), Refused::NoCgroup { cgroup: 1 });
            refused(&format!("+ 0 3 {youngest}"), Refused::NoNode { node: NodeId(3) });
            refused(&format!("- 0 0 {}", youngest - 1), Refused::TooYoung { named: youngest - 1, youngest });
            assert_eq!(rows(ground), before, "{kernel}: a refusal changes nothing");
            ground.sim.pause(Nanos::from_millis(20));
            assert_eq!(command(ground, &format!("+ 0 0 {youngest}")), Ok(0), "{kernel}");
            ground.sim.pause(Nanos::from_millis(20));
            let after = rows(ground);
            let [seq, age, anon, files] = after[after.len() - 1];
            assert_eq!((seq, anon, files), (youngest + 1, 0, 0), "{kernel}: a young generation is empty");
            assert!((20..30).contains(&age) && after[after.len() - 2][1] >= 40, "{kernel}: {after:?}");
            assert_eq!(after.iter().map(|row| row[3]).sum::<u64>(), 1000, "{kernel}: {after:?}");
            assert!(after.iter().find(|row| row[3] > 0).unwrap()[0] >= first, "{kernel}: {after:?}");
            // The pages that a command must leave to the two youngest generations are old by now.
            assert_eq!(command(ground, &format!("+ 0 0 {}; + 0 0 {}", youngest + 1, youngest + 2)), Ok(0));
            let old = youngest + 1;
            assert_eq!(command(ground, &format!("- 0 0 {old} 60 10")), Ok(10), "{kernel}: as many as were asked for");
            assert_eq!(command(ground, &format!("- 0 0 {old} max")), Ok(0), "{kernel}: no anonymous pages");
            assert_eq!(command(ground, &format!("- 0 0 {old}")), Ok(990), "{kernel}: {:?}", rows(ground));
            assert_eq!(command(ground, &format!("- 0 0 {old}")), Ok(0), "{kernel}");
            assert_eq!(rows(ground).iter().map(|row| row[2] + row[3]).sum::<u64>(), 0, "{kernel}");
            // The second command is invalid, so the first is not carried out, either.
            let bad = command(ground, &format!("+ 0 0 {}, ? 0 0 1", youngest + 3)).unwrap_err();
            assert!(bad.to_string().contains("expected `+` or `-`, found `?`"), "{bad}");
            assert_eq!(rows(ground).last().unwrap()[0], youngest + 3, "{kernel}");
        });
    }
    plan("3.10-rc4-vanilla").run(|ground| {
        assert_eq!(ground.engine.lru().lru_gen_full(), "");
        let refused = CommandError::Refused { number: 1, why: Refused::NoGenerations };
        assert_eq!(command(ground, "+ 0 0 3"), Err(refused));
    });
}

/// A command's swappiness selects the type that is evicted, whatever the kernel's swappiness is. Ageing finds the used
/// pages.
#[test]
fn a_command_evicts_the_type_that_it_names() {
    for kernel in TIERED {
        plan(kernel).run(move |ground| {
            let (region, file) = (ground.region(500), ground.import(500));
            ground.write_stamps(&region, 0..500).unwrap();
            ground.read(&file, 0..500).unwrap();
            ground.engine.lru().drain_all();
            let of_types = || rows(ground).iter().fold([0, 0], |[anon, file], row| [anon + row[2], file + row[3]]);
            let age = || {
                let youngest = rows(ground).last().unwrap()[0];
                command(ground, &format!("+ 0 0 {youngest}")).unwrap();
                youngest + 1
            };
            let youngest = (0..4).fold(0, |_, _| age());
            assert_eq!(of_types(), [500, 500], "{kernel}");
            command(ground, &format!("- 0 0 {} 0 100", youngest - 2)).unwrap();
            assert_eq!(of_types(), [500, 400], "{kernel}: files alone go with 0");
            let vmstat = ground.engine.vmstat();
            assert_eq!(vmstat["pswpout"], 0, "{kernel}");
            command(ground, &format!("- 0 0 {} max 100", youngest - 2)).unwrap();
            // Pages that have to be written to swap first are freed later.
            assert!(ground.engine.vmstat()["pswpout"] > 0, "{kernel}: anonymous pages go with max");
            assert_eq!(of_types()[1], 400, "{kernel}: files do not");
            // The walk finds pages that were used meanwhile.
            ground.touch(&region, 0..500, false).unwrap();
            age();
            let in_swap = ground.engine.vmstat()["pswpin"];
            let youngest = rows(ground).last().unwrap()[0];
            command(ground, &format!("- 0 0 {}", youngest - 2)).unwrap();
            for page in 0..500 {
                assert_eq!(ground.read_stamp(&region, page).unwrap(), crate::ground::stamp(page), "{kernel}");
            }
            // Later versions keep a page only if it is found used twice. When the page moves out of a generation that
            // is given up, its first use is forgotten.
            if ["mglru-v2", "6.1-mglru"].contains(&kernel) {
                assert_eq!(ground.engine.vmstat()["pswpin"], in_swap, "{kernel}: what was used has stayed");
            }
            assert_eq!(of_types()[1], 0, "{kernel}: what was not is gone");
        });
    }
}

/// Touches pages of a mapped file again and again. Returns four counters of reclaim: pages kept, refaults, activations,
/// restorations.
fn touch_mapped(kernel: &str, pattern: ReadPattern) -> [u64; 4] {
    let vmstat = plan(kernel).run(move |ground| {
        let pages = 2 * PAGES as u32;
        let file = ground.import(pages);
        let mode = MapMode { pattern, ..MapMode::default() };
        let map = ground.engine.access().map_file(&mut Task::user(), &file, 0, pages, mode).unwrap();
        let mut numbers = Numbers(7);
        for _ in 0..12 * PAGES {
            let page = numbers.below(pages);
            // Two thirds of the touches go to a third of the pages.
            ground.touch(&map, page / 3..page / 3 + 1, false).unwrap();
            ground.touch(&map, page..page + 1, false).unwrap();
        }
        ground.engine.access().drop_region(&map);
    });
    let of = |name: &str| vmstat.get(name).copied().unwrap_or_default();
    [of("pgactivate"), of("workingset_refault_file"), of("workingset_activate_file"), of("workingset_restore_file")]
}

/// mechanisms/multigen, 8.6: a page that refaults through a mapping counts as restored in 6.1, and as activated in
/// 6.14.
#[test]
fn a_refault_through_a_mapping_restores_in_6_1_and_activates_in_6_14() {
    let [_, refaults, activated, restored] = touch_mapped("6.1-mglru", ReadPattern::Normal);
    assert!(refaults > 100 && restored == refaults && activated < refaults, "{refaults} {activated} {restored}");
    let [_, refaults, activated, restored] = touch_mapped("6.14-mglru", ReadPattern::Normal);
    assert!(activated > 100 && activated <= refaults && restored < activated, "{refaults} {activated} {restored}");
}

/// Reads a file of twice the memory once. After every fourth page, touches a random page of a mapped hot set of two
/// fifths of memory. Returns the number of major faults in the hot set.
fn hot_set_beside_a_stream(faulted: Faulted) -> u64 {
    let mut plan = plan("7.2-mglru");
    plan.choices.multigen.faulted = faulted;
    let found = Found::default();
    let lost = found.clone();
    plan.run(move |ground| {
        let (hot, cold) = (2 * PAGES as u32 / 5, 2 * PAGES as u32);
        let (hot_file, cold_file) = (ground.import(hot), ground.import(cold));
        let mode = MapMode::default();
        let map = ground.engine.access().map_file(&mut Task::user(), &hot_file, 0, hot, mode).unwrap();
        (0..2).for_each(|_| ground.touch(&map, 0..hot, false).unwrap());
        let (mut numbers, before) = (Numbers(7), ground.faults().1);
        for page in 0..cold {
            ground.read(&cold_file, page..page + 1).unwrap();
            if page % 4 == 3 {
                let page = numbers.below(hot);
                ground.touch(&map, page..page + 1, false).unwrap();
            }
        }
        lost.set(ground.faults().1 - before);
        ground.engine.access().drop_region(&map);
    });
    found.get()
}

/// mechanisms/multigen, 2.3: a page that a fault brings is promoted when it is found used once more, and not earlier. If
/// such pages come as active, the hot set loses nearly twice as many pages (68 and 36). Those that come back are in the
/// workingset, and so need no second sighting.
#[test]
fn a_mapped_hot_set_outlives_a_stream_in_7_2() {
    let (used_once, active) = (hot_set_beside_a_stream(Faulted::UsedOnce), hot_set_beside_a_stream(Faulted::Active));
    assert!(used_once * 3 < active * 2, "{used_once} major faults, {active} where pages come as active");
}

/// Reads random pages of a file that is larger than memory, on a machine with a small DMA zone. Returns the mean number
/// of pages that one call of `balance_pgdat` frees (`pgsteal_kswapd` divided by `pageoutrun`).
fn freed_per_call(stops: KswapdStops) -> u64 {
    let mut plan = Plan { layout: Layout::single_node(1024, 15 * 1024, 0), ..plan("7.2-mglru") };
    plan.choices.memory.lowmem_reserve_ratio = [32; 3];
    plan.choices.multigen.kswapd_stops = stops;
    let vmstat = plan.run(|ground| read_at_random(ground, 16 * PAGES as u32, 12 * PAGES as u32, |_| ()));
    let freed: u64 = ["dma", "dma32"].map(|zone| vmstat[&format!("pgsteal_kswapd_{zone}")]).iter().sum();
    freed / vmstat["pageoutrun"]
}

/// mechanisms/multigen, 6.1: the DMA zone has pages up to its high mark, but never the 480 more that it reserves
/// against requests for a higher zone. A kswapd that stops only when zones are above mark and reserve therefore frees
/// its whole target in each call. One that stops at high marks frees less.
#[test]
fn kswapd_frees_its_whole_target_where_its_stop_asks_for_the_reserve() {
    let (with_reserve, without) =
        (freed_per_call(KswapdStops::AboveReserves), freed_per_call(KswapdStops::AtHighMarks));
    assert!(with_reserve * 5 > 6 * without, "{with_reserve} pages a call, {without} where high marks are enough");
}

/// Writes a region of 1.5 times the memory, and touches the region's pages at random. Page tables are never walked, so
/// only scans of the lists find used pages. Returns the number of pages scanned and the number of pages protected.
fn touch_swapped(isolated_marks: IsolatedMarks, refault_marks: RefaultMarks) -> [u64; 2] {
    let mut plan = plan("6.1-mglru");
    plan.choices.multigen.walk = Walk::Never;
    plan.choices.multigen.isolated_marks = isolated_marks;
    plan.choices.multigen.refault_marks = refault_marks;
    let vmstat = plan.run(|ground| {
        let pages = 3 * PAGES as u32 / 2;
        let region = ground.region(pages);
        ground.touch(&region, 0..pages, true).unwrap();
        let mut numbers = Numbers(7);
        for _ in 0..4 * PAGES {
            // The first half of the pages is used most.
            let page = numbers.below(pages) / (1 + numbers.below(2));
            ground.touch(&region, page..page + 1, false).unwrap();
        }
    });
    ["pgscan_kswapd_normal", "workingset_activate_anon"].map(|name| vmstat.get(name).copied().unwrap_or_default())
}

/// mechanisms/multigen, 6.2: if one page of a batch was used, reclaim also looks at the page-table entries around that
/// page's, and clears their accessed bits. If another page of the batch is among them, reclaim must record that it was
/// used. Otherwise it would evict this page.
#[test]
fn pages_found_used_while_they_are_isolated_stay() {
    let scanned = |isolated_marks| touch_swapped(isolated_marks, RefaultMarks::FaultOrFourUses)[0];
    let (kept, evicted) = (scanned(IsolatedMarks::FirstTaken), scanned(IsolatedMarks::Kept));
    assert!(kept * 4 > evicted * 5, "{kept} pages scanned, {evicted} where they go");
}

/// mechanisms/multigen, 8.6: in 6.1, a page that a fault brought back from swap is protected from one eviction. If a
/// rule looks only at the page's tier, no such page is protected.
#[test]
fn what_came_back_by_a_fault_is_protected_once_in_6_1() {
    let protected = |refault_marks| touch_swapped(IsolatedMarks::FirstTaken, refault_marks)[1];
    let (by_faults, by_tiers) = (protected(RefaultMarks::FaultOrFourUses), protected(RefaultMarks::TierAboveFirst));
    assert!(by_faults > 100 && by_tiers == 0, "{by_faults} {by_tiers}");
}

/// mechanisms/multigen, 8.6: uses through a mapping with random advice do not count as recent.
#[test]
fn uses_through_a_mapping_with_random_advice_keep_no_page() {
    for kernel in TIERED {
        let kept = |pattern| touch_mapped(kernel, pattern)[0];
        let (normal, random) = (kept(ReadPattern::Normal), kept(ReadPattern::Random));
        assert!(normal > 10 * random, "{kernel}: {normal} pages kept, {random} with advice");
    }
}

/// The text of `lru_gen_full` has a line for each tier under the oldest and under the youngest generation. Under the
/// oldest, a line has the tier's refaulted, evicted and protected pages.
#[test]
fn the_full_view_counts_tiers() {
    plan("7.2-mglru").run(|ground| {
        read_at_random(ground, 2 * PAGES as u32, 8 * PAGES as u32, |_| {});
        let (lru, zone) = (ground.engine.lru(), ground.engine.memory().zones.last().unwrap());
        let (text, seqs) = (lru.lru_gen_full(), lru.generation_numbers(lru.lruvec_of(zone)).unwrap());
        let counts = lru.tier_counts(lru.lruvec_of(zone), Family::File).unwrap();
        let under = |seq: u64| {
            let row =
                |line: &&str| line.split_whitespace().next() == Some(&seq.to_string()) && !line.ends_with(['x', 'p']);
            let lines: Vec<&str> = text.lines().collect();
            let at = lines.iter().position(row).unwrap_or_else(|| panic!("no {seq} in {text}"));
            lines[at + 1..at + 5].iter().map(|line| line.split_whitespace().collect()).collect::<Vec<Vec<&str>>>()
        };
        for (tier, words) in under(seqs.min[1]).iter().enumerate() {
            let [refaulted, evicted, protected] = counts[tier];
            let of_files = [format!("{refaulted}r"), format!("{evicted}e"), format!("{protected}p")];
            assert_eq!(
                (words[0], &words[4..]),
                (&*tier.to_string(), &of_files.each_ref().map(|it| &**it)[..]),
                "{text}"
            );
        }
        let young = under(seqs.max);
        assert!(young.iter().all(|words| words[4].ends_with('R') && words[5].ends_with('T')), "{text}");
        assert!(young[0][5] != "0T" && counts[0][1] > 0, "pages were evicted: {text}");
    });
}

/// A region of 1,000 pages is touched again and again, while the pages of a region four times as large as memory are
/// touched once each. There is swap for all of them. If page tables are walked, the walk finds the pages in use before
/// reclaim scans them, so few of them are swapped out.
#[test]
fn a_walk_keeps_used_anonymous_memory() {
    use engine::lru::policy::multigen::choices::LookAround;
    for kernel in TIERED {
        let run = |is_walked: bool| {
            let mut plan = plan(kernel);
            if !is_walked {
                plan.choices.multigen.walk = Walk::Never;
                plan.choices.multigen.look_around = LookAround::Never;
            }
            plan.run(|ground| {
                let (hot, once) = (ground.region(1000), ground.region(4 * PAGES as u32));
                ground.touch(&hot, 0..1000, true).unwrap();
                for start in (0..4 * PAGES as u32).step_by(64) {
                    ground.touch(&once, start..start + 64, true).unwrap();
                    ground.touch(&hot, 0..1000, false).unwrap();
                }
            })
        };
        let (walked, not) = (run(true), run(false));
        assert!(walked["pswpout"] > 2 * PAGES, "{kernel}: {walked:?}");
        // A page may be evicted if two walks have looked at it before it is touched again, because kswapd of a whole
        // node does much at once.
        let most = walked["pswpout"] / 8;
        assert!(walked["pswpin"] <= most, "{kernel}: {} pages came back", walked["pswpin"]);
        let activated = [&walked, &not].map(|vmstat| vmstat["pgactivate"]);
        assert!(activated[0] * 2 < activated[1], "{kernel}: {activated:?} pages were found used by reclaim");
    }
}

/// Sixteen programs write one region each, together 1.5 times as large as memory. While one of them walks page tables
/// so that a generation can begin, the others can reclaim nothing. They help with the walk, wait, and get no
/// out-of-memory error.
#[test]
fn tasks_that_reclaim_at_once_share_the_walk() {
    for kernel in VERSIONS {
        // The walk is given the time that it takes for gigabytes of memory.
        let plan = Plan { with_kswapd: false, cpus: 8, costs: vec![(Step::ReferenceWalk, 1_000_000)], ..plan(kernel) };
        let vmstat = plan.run(|ground| {
            let pages = 3 * PAGES as u32 / 32;
            let tasks: Vec<_> = (0..16)
                .map(|n| {
                    ground.spawn(&format!("writer {n}"), move |ground| {
                        let region = ground.region(pages);
                        for _ in 0..3 {
                            ground.touch(&region, 0..pages, true).unwrap();
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| _ = ground.sim.join(task));
        });
        assert!(vmstat["pswpout"] > PAGES / 2, "{kernel}: {vmstat:?}");
        assert_eq!(vmstat["oom"], 0, "{kernel}");
    }
}
