//! Khugepaged: ranges of small pages become huge pages, if nothing prevents it.

use crate::ground::{Ground, Plan, choices_of, stamp};
use engine::access::choices::{Khugepaged, KhugepagedDefrag};
use engine::anonymous::Region;
use engine::stat::Vmstat;
use engine::{KernelTask, Task};
use machine::Machine;
use sim::{Sim, TaskId};
use std::sync::Arc;

/// Returns a machine on which khugepaged sleeps for 10 ms after each scan of all regions, and for 500 ms after a failed
/// allocation.
fn plan() -> Plan {
    let mut choices = choices_of("3.10-rc4-vanilla");
    choices.memory.min_free_kbytes = 1024;
    choices.access.khugepaged_scan_sleep_ms = 10;
    choices.access.khugepaged_alloc_sleep_ms = 500;
    Plan { choices, cpus: 1, ..Plan::default() }
}

fn start_khugepaged(ground: &Ground) -> TaskId {
    let task = ground.engine.khugepaged().expect("the kernel has it");
    assert_eq!((task, task.name().as_str(), task.node()), (KernelTask::Khugepaged, "khugepaged", None));
    ground.spawn("khugepaged", move |ground| ground.engine.run(task))
}

fn end(ground: &Ground, task: TaskId) {
    ground.sim.kill(task);
    ground.sim.join(task);
}

/// Creates a region that may have huge pages but has small pages. No block is free at the first touches of its ranges,
/// so that each touch gets a small page. The first `written` pages hold their stamps.
fn small_pages(ground: &Ground, pages: u32, written: u32) -> Arc<Region<Sim>> {
    let region = ground.engine.anonymous().create_region(None, pages, true);
    let others = ground.take_until_free(300);
    for start in (0..pages).step_by(512) {
        ground.touch(&region, start..start + 1, true).unwrap();
    }
    ground.give_back(others);
    ground.engine.memory().drain_all_per_cpu();
    ground.write_stamps(&region, 0..written).unwrap();
    assert_eq!(ground.count("nr_anon_transparent_hugepages"), 0);
    ground.engine.lru().drain_all();
    region
}

fn collapsed(ground: &Ground) -> u64 {
    ground.engine.access().pages_collapsed()
}

/// All small pages become huge pages. As many frames are free as before, minus one for each page that was never
/// touched. Every byte is kept, and pages that were never touched read as zeroes.
#[test]
fn small_pages_become_one_huge_page_with_all_their_bytes() {
    let vmstat = plan().run(|ground| {
        let region = small_pages(ground, 1200, 700);
        // The pages at the end of the region do not fill a range, so they stay as they are.
        ground.touch(&region, 1024..1200, true).unwrap();
        ground.engine.lru().drain_all();
        ground.engine.memory().drain_all_per_cpu();
        let (free, anonymous) = (ground.free(), ground.count("nr_anon_pages"));
        assert_eq!(anonymous, 700 + 176);
        let khugepaged = start_khugepaged(ground);
        ground.pause_ms(50);
        end(ground, khugepaged);
        assert_eq!((collapsed(ground), ground.count("nr_anon_transparent_hugepages")), (2, 2));
        assert_eq!(ground.count("nr_anon_pages"), 1024 + 176);
        ground.engine.memory().drain_all_per_cpu();
        assert_eq!(ground.free(), free - (1024 - 700), "frames of pages that nobody had touched");
        ground.check();
        // For the processor, all pages of a huge page are touched and written, because they share an entry.
        for page in [0, 511, 512, 1023] {
            let entry = region.entry(page);
            assert!(entry.is_huge() && entry.is_accessed() && entry.is_dirty() && entry.allows(true), "{entry:?}");
        }
        let faults = ground.count("pgfault");
        ground.touch(&region, 0..1200, true).unwrap();
        assert_eq!(ground.count("pgfault"), faults);
        // Each page is latched by itself, which splits the huge page.
        for page in 0..1024 {
            let expected = if page < 700 { stamp(page) } else { [0; 8] };
            assert_eq!(ground.read_stamp(&region, page).unwrap(), expected, "page {page}");
        }
        assert!(ground.engine.access().full_scans() > 2);
        ground.engine.access().drop_region(&region);
    });
    assert_eq!((vmstat["thp_collapse_alloc"], vmstat["thp_collapse_alloc_failed"], vmstat["thp_split"]), (2, 0, 2));
    assert_eq!((vmstat["nr_anon_pages"], vmstat["nr_anon_transparent_hugepages"]), (0, 0));
}

/// A task has pinned one page of a range of 512 small pages. Khugepaged does not collapse the range while the page is
/// pinned, and collapses it after the release.
#[test]
fn a_pinned_page_is_in_the_way() {
    plan().run(|ground| {
        let region = small_pages(ground, 512, 512);
        let mut task = Task::user();
        let pinned = ground.engine.access().pin_region(&mut task, &region, 77, false).unwrap().unwrap();
        let khugepaged = start_khugepaged(ground);
        ground.pause_ms(100);
        assert_eq!((collapsed(ground), ground.count("thp_collapse_alloc")), (0, 0));
        assert_eq!(region.entry(77).frame(), Some(pinned));
        ground.engine.access().unpin_region(pinned, false);
        ground.pause_ms(100);
        assert_eq!((collapsed(ground), ground.count("thp_collapse_alloc")), (1, 1));
        end(ground, khugepaged);
        assert_eq!(ground.read_stamp(&region, 77).unwrap(), stamp(77));
    });
}

/// Khugepaged leaves a range alone if one of its pages was read from swap and still has its slot, or is the shared page
/// of zeroes.
#[test]
fn a_page_with_a_place_in_swap_and_the_page_of_zeroes_are_in_the_way() {
    plan().run(|ground| {
        // The second range has the shared page of zeroes.
        let region = small_pages(ground, 1024, 512);
        ground.touch(&region, 900..901, false).unwrap();
        assert!(region.entry(900).is_zero_page());
        // Another region pushes some pages of the first range into swap. A read brings one of them back, which keeps
        // its slot.
        let others = ground.region(3800);
        ground.touch(&others, 0..3800, true).unwrap();
        ground.engine.access().drop_region(&others);
        ground.wait_for_devices();
        let swapped = (0..512).filter(|page| region.entry(*page).slot().is_some()).collect::<Vec<_>>();
        assert!(!swapped.is_empty() && ground.count("thp_fault_alloc") == 0);
        for page in 0..512 {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        }
        let is_cached = |page: &u32| {
            let frame = region.entry(*page).frame().expect("just read");
            ground.engine.memory().frames[frame].is(engine::memory::Flags::SWAPCACHE)
        };
        assert!(swapped.iter().any(is_cached));
        ground.engine.lru().drain_all();
        let khugepaged = start_khugepaged(ground);
        ground.pause_ms(100);
        assert_eq!((collapsed(ground), ground.count("thp_collapse_alloc")), (0, 0));
        // A write frees the swap slots.
        ground.write_stamps(&region, 0..513).unwrap();
        ground.touch(&region, 900..901, true).unwrap();
        ground.engine.lru().drain_all();
        ground.pause_ms(100);
        end(ground, khugepaged);
        assert_eq!(collapsed(ground), 2);
        assert!((0..512).all(|page| ground.read_stamp(&region, page).unwrap() == stamp(page)));
    });
}

/// Khugepaged collapses a range only if at most `khugepaged_max_ptes_none` of its pages are missing (here 64), and if
/// at least one page has been accessed since the last scan. Of two ranges, one lacks 65 pages and the other has not
/// been accessed.
#[test]
fn a_range_that_is_empty_or_idle_is_left_alone() {
    let mut plan = plan();
    plan.choices.access.khugepaged_max_ptes_none = 64;
    plan.run(|ground| {
        let region = small_pages(ground, 1024, 447);
        ground.touch(&region, 512..960, true).unwrap();
        ground.engine.lru().drain_all();
        assert!((512..960).all(|page| region.test_clear_accessed(page)));
        let khugepaged = start_khugepaged(ground);
        ground.pause_ms(100);
        assert_eq!(collapsed(ground), 0, "65 are missing in one range, and nobody touches the other");
        ground.touch(&region, 700..701, false).unwrap();
        ground.pause_ms(100);
        assert_eq!((collapsed(ground), region.huge_page(512).is_some()), (1, true));
        ground.touch(&region, 447..448, true).unwrap();
        ground.engine.lru().drain_all();
        ground.pause_ms(100);
        assert_eq!(collapsed(ground), 2);
        end(ground, khugepaged);
    });
}

/// No block is free, and none can be made: khugepaged reports this, and sleeps longer.
#[test]
fn it_rests_after_it_got_no_huge_page() {
    let story = |defrag: KhugepagedDefrag| -> Vmstat {
        let mut plan = plan();
        plan.choices.access.khugepaged_defrag = defrag;
        plan.run(|ground| {
            let region = small_pages(ground, 512, 512);
            // Every fourth page is kernel memory.
            let mut pages = ground.take_until_free(300);
            pages.sort_unstable();
            let (kept, freed): (Vec<_>, Vec<_>) = pages.into_iter().partition(|page| page.0 % 4 == 0);
            ground.give_back(freed);
            ground.engine.memory().drain_all_per_cpu();
            // Taking these pages pushed the region's pages into swap.
            ground.write_stamps(&region, 0..512).unwrap();
            ground.engine.lru().drain_all();
            let khugepaged = start_khugepaged(ground);
            ground.pause_ms(1900);
            assert_eq!((collapsed(ground), ground.count("thp_collapse_alloc_failed")), (0, 4), "every 500 ms");
            ground.give_back(kept);
            ground.engine.memory().drain_all_per_cpu();
            ground.pause_ms(500);
            assert_eq!((collapsed(ground), ground.count("thp_collapse_alloc_failed")), (1, 4));
            end(ground, khugepaged);
            ground.engine.access().drop_region(&region);
        })
    };
    let stalls = [KhugepagedDefrag::Yes, KhugepagedDefrag::No].map(|defrag| story(defrag)["compact_stall"]);
    assert!(stalls[0] > stalls[1], "with and without compaction: {stalls:?}");
}

/// A task touches pages all the time, and other tasks drop and create regions. Khugepaged works beside them, and
/// nothing is lost.
#[test]
fn it_works_beside_others() {
    let vmstat = Plan { cpus: 4, ..plan() }.run(|ground| {
        let regions: Vec<_> = (0..2).map(|_| small_pages(ground, 512, 400)).collect();
        // Creating the second region pushed the first into swap.
        ground.write_stamps(&regions[0], 0..400).unwrap();
        ground.engine.lru().drain_all();
        let khugepaged = start_khugepaged(ground);
        let writers: Vec<TaskId> = regions
            .iter()
            .cloned()
            .map(|region| {
                ground.spawn("writer", move |ground| {
                    for n in 0..3000 {
                        let page = n * 37 % 400;
                        ground.touch(&region, page..page + 1, true).unwrap();
                        if n % 16 == 0 {
                            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
                        }
                        ground.sim.compute(machine::Nanos(20_000));
                    }
                })
            })
            .collect();
        let dropper = ground.spawn("dropper", |ground| {
            for _ in 0..30 {
                let region = ground.engine.anonymous().create_region(None, 512, true);
                ground.touch(&region, 0..1, true).unwrap();
                // A copy splits the huge page; khugepaged makes it a huge page again.
                ground.write_stamps(&region, 5..6).unwrap();
                ground.engine.machine().pause(machine::Nanos::from_millis(1 + collapsed(ground) % 7));
                ground.engine.access().drop_region(&region);
            }
        });
        writers.into_iter().chain([dropper]).for_each(|task| assert!(ground.sim.join(task)));
        end(ground, khugepaged);
        for region in &regions {
            assert!((0..400).all(|page| ground.read_stamp(region, page).unwrap() == stamp(page)));
            ground.engine.access().drop_region(region);
        }
        assert!(collapsed(ground) > 5, "{}", collapsed(ground));
    });
    assert_eq!(vmstat["nr_anon_pages"], 0);
}

/// A kernel without huge pages at faults has no khugepaged, either.
#[test]
fn khugepaged_is_there_where_faults_try_for_huge_pages() {
    let has = |kernel: &str, change: fn(&mut Plan)| {
        let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
        change(&mut plan);
        let found = crate::ground::Found::<bool>::default();
        let has = found.clone();
        plan.run(move |ground| has.set(ground.engine.khugepaged().is_some()));
        found.get()
    };
    assert!(has("3.6-capture-v5", |_| {}) && !has("2.6.23-rc5", |_| {}));
    assert!(!has("3.6-capture-v5", |plan| plan.choices.access.khugepaged = Khugepaged::Off));
}
