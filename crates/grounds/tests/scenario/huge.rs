//! Requests of order 9: compaction runs, fails and is deferred, and reclaim stops so that compaction can work.

use crate::ground::{PAGES, Plan, choices_of};
use engine::Task;
use engine::access::choices::HugePages;
use engine::lru::choices::ScanUnit;
use engine::memory::{Folio, Gfp, PAGEBLOCK_ORDER};
use engine::reclaim::choices::SplitPages;
use engine::stat::Vmstat;
use machine::Order;
use machine::atomic::Ordering::Relaxed;

/// Every fourth page is kernel memory, so that no block of order 9 can be free, and each attempt at compaction fails.
/// With each failure, more of the following requests leave compaction out, and reclaim with it.
#[test]
fn order_9_requests_are_deferred_after_failures() {
    let vmstat = Plan { cpus: 1, ..Plan::default() }.run(|ground| {
        let mut pages = ground.take_until_free(64);
        pages.sort_unstable();
        let (kept, freed): (Vec<_>, Vec<_>) = pages.into_iter().partition(|page| page.0 % 4 == 0);
        ground.give_back(freed);
        ground.engine.memory().drain_all_per_cpu();
        let free = ground.free();
        assert!(free > 2 * PAGES / 3, "{free} pages are free, none of them in a large block");
        let request = || ground.engine.allocate().allocate(&mut Task::user(), Gfp::HUGE_PAGE, PAGEBLOCK_ORDER);
        assert!(request().is_err());
        assert!(ground.count("compact_stall") > 0);
        for _ in 0..100 {
            assert!(request().is_err());
        }
        let zone = &ground.engine.memory().zones[0];
        assert!(ground.engine.compact().defer_shift(zone) > 0);
        let stalls = ground.count("compact_stall");
        assert!(stalls < 100, "compaction was left out: {stalls} stalls");
        assert_eq!(ground.count("compact_fail"), stalls);
        ground.give_back(kept);
        ground.engine.memory().drain_all_per_cpu();
        let head = request().expect("all is free again");
        ground.engine.memory().free_block(head, PAGEBLOCK_ORDER);
    });
    assert_eq!((vmstat["alloc_failed"], vmstat["pswpout"]), (101, 0));
}

/// File pages fill memory, and blocks of order 9 are requested. For each, reclaim frees single pages only until there
/// are enough for compaction. So the requests do not empty the page cache.
#[test]
fn reclaim_leaves_off_when_compaction_can_go_on() {
    let mut plan = Plan { with_kswapd: false, ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 512;
    plan.run(|ground| {
        let file = ground.import(PAGES as u32);
        ground.read(&file, 0..3900).unwrap();
        let before = file.index.pages();
        for _ in 0..8 {
            if let Ok(head) = ground.engine.allocate().allocate(&mut Task::user(), Gfp::USER_MOVABLE, PAGEBLOCK_ORDER) {
                ground.engine.memory().free_block(head, PAGEBLOCK_ORDER);
            }
        }
        let left = file.index.pages();
        assert!(left < before && left > before / 3, "{before} pages before, {left} after");
    });
}

/// A fault in a region that may have huge pages gets one when a block is free, and small pages otherwise.
#[test]
fn a_fault_falls_back_to_small_pages() {
    let vmstat = Plan { cpus: 1, swap_slots: 0, ..Plan::default() }.run(|ground| {
        let region = ground.engine.anonymous().create_region(None, 1024, true);
        ground.touch(&region, 0..1, true).unwrap();
        assert_eq!((ground.count("thp_fault_alloc"), ground.count("nr_anon_pages")), (1, 512));
        let kernel = ground.take_until_free(400);
        ground.touch(&region, 512..513, true).unwrap();
        assert_eq!((ground.count("thp_fault_fallback"), ground.count("nr_anon_pages")), (1, 513));
        ground.give_back(kernel);
        ground.engine.access().drop_region(&region);
    });
    assert_eq!(vmstat["nr_anon_pages"], 0);
}

/// A block is freed while a late lookup still holds a reference to the block's first page. The other seven pages become
/// free at once, and the first page when the lookup releases it.
#[test]
fn a_block_is_freed_while_a_late_lookup_holds_its_first_page() {
    Plan::default().run(|ground| {
        ground.engine.memory().drain_all_per_cpu();
        let before = ground.free();
        let head = ground.engine.allocate().allocate(&mut Task::user(), Gfp::USER_MOVABLE, Order(3)).unwrap();
        assert!(ground.engine.memory().frames[head].get_unless_zero());
        ground.engine.memory().free_block(head, Order(3));
        ground.engine.memory().drain_all_per_cpu();
        assert_eq!(ground.free(), before - 1);
        ground.engine.lru().put(head);
        ground.engine.memory().drain_all_per_cpu();
        assert_eq!(ground.free(), before);
    });
}

/// A huge page is one entry of a list and of a page table, and counts as 512 pages. It is freed as one block.
#[test]
fn a_huge_page_is_one_entry_until_its_region_goes() {
    let vmstat = Plan { cpus: 1, swap_slots: 0, ..Plan::default() }.run(|ground| {
        let blocks = || {
            ground.engine.memory().zones[0].nr_free[9..]
                .iter()
                .zip([1, 2])
                .map(|(n, of)| n.load(Relaxed) * of)
                .sum::<u64>()
        };
        ground.engine.memory().drain_all_per_cpu();
        let region = ground.engine.anonymous().create_region(None, 512, true);
        ground.touch(&region, 0..1, true).unwrap();
        ground.engine.lru().drain_all();
        let with_page = blocks();
        let active = || ground.count("nr_active_anon") + ground.count("nr_inactive_anon");
        assert_eq!(
            (ground.count("nr_anon_transparent_hugepages"), ground.count("nr_anon_pages"), active()),
            (1, 512, 512)
        );
        let mut listed = Vec::new();
        ground.engine.lru().for_each_listed(&ground.engine.memory().zones[0], |_, frame| listed.push(frame));
        assert_eq!(listed.len(), 1, "one entry");
        let head = ground.engine.memory().frames.folio(listed[0]);
        assert_eq!(head, Folio { head: listed[0], order: PAGEBLOCK_ORDER });
        // All pages can be touched without a fault and without a split.
        let faults = ground.count("pgfault");
        ground.touch(&region, 0..512, true).unwrap();
        assert_eq!((ground.count("pgfault"), ground.count("thp_split")), (faults, 0));
        ground.check();
        ground.engine.access().drop_region(&region);
        assert_eq!((active(), blocks()), (0, with_page + 1), "the block is whole again");
    });
    assert_eq!((vmstat["nr_anon_transparent_hugepages"], vmstat["thp_split"]), (0, 0));
}

/// A copy into one page of a huge page latches this page alone. So the huge page is split into small pages, each of
/// which is on a list and mapped by its own entry.
#[test]
fn a_page_that_is_latched_is_no_part_of_a_huge_page() {
    let vmstat = Plan { cpus: 1, swap_slots: 0, ..Plan::default() }.run(|ground| {
        for drains in [false, true] {
            let region = ground.engine.anonymous().create_region(None, 512, true);
            ground.touch(&region, 0..1, true).unwrap();
            if drains {
                ground.engine.lru().drain_all();
            }
            ground.engine.access().write_region(&mut Task::user(), &region, 511 * 4096, b"h").unwrap();
            ground.check();
            let mut bytes = [0];
            ground.engine.access().read_region(&mut Task::user(), &region, 511 * 4096, &mut bytes).unwrap();
            assert_eq!(&bytes, b"h");
            assert_eq!((ground.count("nr_anon_transparent_hugepages"), ground.count("nr_anon_pages")), (0, 512));
            ground.engine.access().drop_region(&region);
        }
    });
    assert_eq!((vmstat["thp_fault_alloc"], vmstat["thp_split"]), (2, 2));
}

/// A program that stores and loads bytes uses the huge page as a whole: one touch makes it, none splits it.
#[test]
fn a_program_that_stores_bytes_leaves_a_huge_page_whole() {
    let vmstat = Plan { cpus: 1, swap_slots: 0, ..Plan::default() }.run(|ground| {
        let (access, mut task) = (ground.engine.access(), Task::user());
        let region = ground.engine.anonymous().create_region(None, 1024, true);
        let mut bytes = [1; 4096 + 3];
        access.load(&mut task, &region, 5 * 4096, &mut bytes).unwrap();
        assert_eq!((&bytes[..3], ground.count("pgfault")), ([0; 3].as_slice(), 0), "what was never stored is zeroes");
        // From the last page of the first huge page into the second. The machine keeps the first bytes of each page.
        let mut stored = [0; 4096 + 3];
        stored[..3].copy_from_slice(b"one");
        stored[4096..].copy_from_slice(b"two");
        access.store(&mut task, &region, 511 * 4096, &stored).unwrap();
        access.load(&mut task, &region, 511 * 4096, &mut bytes).unwrap();
        assert_eq!((&bytes[..3], &bytes[4096..], ground.count("pgfault")), (b"one".as_slice(), b"two".as_slice(), 2));
        assert_eq!((ground.count("nr_anon_transparent_hugepages"), ground.count("nr_anon_pages")), (2, 1024));
        ground.check();
        // A page that is latched splits its huge page alone, and keeps its bytes.
        access.read_region(&mut task, &region, 511 * 4096, &mut bytes[..3]).unwrap();
        assert_eq!((&bytes[..3], ground.count("nr_anon_transparent_hugepages")), (b"one".as_slice(), 1));
        stored[4096..].copy_from_slice(b"TWO");
        access.store(&mut task, &region, 511 * 4096, &stored).unwrap();
        access.load(&mut task, &region, 511 * 4096, &mut bytes).unwrap();
        assert_eq!((&bytes[..3], &bytes[4096..]), (b"one".as_slice(), b"TWO".as_slice()));
        ground.check();
        ground.engine.access().drop_region(&region);
    });
    assert_eq!((vmstat["thp_fault_alloc"], vmstat["thp_split"]), (2, 1));
}

/// A machine of the kernel `kernel`, without kswapd, whose programs get huge pages.
fn with_huge_pages(kernel: &str) -> Plan {
    let mut plan = Plan { cpus: 1, swap_slots: 16385, with_kswapd: false, ..Plan::default() };
    plan.choices = choices_of(kernel);
    plan.choices.access.huge_pages = HugePages::Always;
    plan.choices.memory.min_free_kbytes = 1024;
    plan
}

/// Fills memory beside a region of huge pages until reclaim splits some of these. Returns the counters of the run.
fn reclaim_of_huge_pages(change: impl Fn(&mut Plan)) -> Vmstat {
    let mut plan = with_huge_pages("6.1-classic");
    change(&mut plan);
    plan.run(|ground| {
        let region = ground.engine.anonymous().create_region(None, 5 * 512, true);
        ground.touch(&region, 0..5 * 512, true).unwrap();
        let more = ground.engine.anonymous().create_region(None, 2 * PAGES as u32, false);
        let before = ground.count("thp_split");
        let mut page = 0;
        while ground.count("thp_split") == before {
            ground.touch(&more, page..page + 1, true).unwrap();
            page += 1;
        }
        ground.check();
        ground.engine.access().drop_region(&region);
        ground.engine.access().drop_region(&more);
    })
}

/// Up to Linux 3.9, the pages of a split huge page wait on their list for the next scan. Later kernels write all of them
/// at once.
#[test]
fn reclaim_writes_all_pages_of_a_split_huge_page_at_once() {
    let [now, later] = [SplitPages::AtOnce, SplitPages::Later].map(|split_pages| {
        let vmstat = reclaim_of_huge_pages(|plan| plan.choices.reclaim.split_pages = split_pages);
        (vmstat["thp_split"] * 512, vmstat["pswpout"])
    });
    assert_eq!(now.0, now.1, "all pages of the huge pages");
    assert!(later.0 > later.1, "{later:?}");
}

/// Up to Linux 5.2, a scan counts a huge page once, and takes 32 of them. Later kernels count 512 pages, and take one.
#[test]
fn a_scan_takes_one_huge_page_or_32() {
    let [by_page, by_folio] = [ScanUnit::Pages, ScanUnit::Folios].map(|scan_unit| {
        let vmstat = reclaim_of_huge_pages(|plan| plan.choices.lru.scan_unit = scan_unit);
        let scanned = vmstat.iter().filter(|(name, _)| name.starts_with("pgscan_direct_")).map(|(_, count)| count);
        (vmstat["thp_split"], scanned.sum::<u64>())
    });
    assert!(by_page.0 < by_folio.0, "split: {by_page:?}, {by_folio:?}");
    assert!(by_page.1 >= 5 * 512 && by_folio.1 < by_page.1, "scanned: {by_page:?}, {by_folio:?}");
}

/// A walk of page tables examines the entry of each huge page, although its Bloom filter does not know the table. So the
/// huge pages of a new program are young before reclaim comes to them, and it activates none.
#[test]
fn walks_find_the_huge_pages_of_a_new_program() {
    let vmstat = with_huge_pages("6.1-mglru").run(|ground| {
        for is_huge in [false, true] {
            let region = ground.engine.anonymous().create_region(None, 6 * 512, is_huge);
            ground.touch(&region, 0..6 * 512, true).unwrap();
            let more = ground.engine.anonymous().create_region(None, PAGES as u32, false);
            ground.touch(&more, 0..PAGES as u32, true).unwrap();
            ground.check();
            ground.engine.access().drop_region(&region);
            ground.engine.access().drop_region(&more);
        }
    });
    assert!(vmstat["thp_fault_alloc"] >= 4 && vmstat["pswpout"] > 512, "{vmstat:?}");
    assert!(vmstat["pgactivate"] < 512, "{} pages activated", vmstat["pgactivate"]);
}

/// Huge pages take more than memory. Reclaim splits them to swap them out, page by page.
#[test]
fn reclaim_splits_what_it_swaps_out() {
    let vmstat = Plan { cpus: 1, swap_slots: 8192, ..Plan::default() }.run(|ground| {
        let region = ground.engine.anonymous().create_region(None, 2 * PAGES as u32, true);
        ground.touch(&region, 0..2 * PAGES as u32, true).unwrap();
        ground.engine.access().drop_region(&region);
    });
    assert!(vmstat["thp_fault_alloc"] > 1 && vmstat["pswpout"] > 512, "{vmstat:?}");
    assert!(vmstat["thp_split"] > 0 && vmstat["thp_split"] <= vmstat["thp_fault_alloc"], "{vmstat:?}");
    assert_eq!((vmstat["nr_anon_transparent_hugepages"], vmstat["nr_anon_pages"]), (0, 0));
}
