//! Differences of reclaim in 2.6.23 from later kernels (the rows `23` of mechanisms/reclaim, 8 to 20).

use crate::ground::{Found, PAGES, Plan, choices_of, stamp};
use crate::map::SHARED;
use engine::lru::choices::MappedPages;
use engine::memory::{Flags, Gfp, NodeId};
use engine::reclaim::choices::{KswapdGap, LumpyReclaim};
use engine::{Layout, Task};
use machine::{Lock, Machine, Nanos, Order};

/// Returns a machine with the choices of 2.6.23-rc5, and with marks of 256, 320 and 384 pages.
fn plan() -> Plan {
    let mut choices = choices_of("2.6.23-rc5");
    choices.memory.min_free_kbytes = 1024;
    Plan { choices, ..Plan::default() }
}

/// mechanisms/reclaim, 9: when a scan of the active list checks whether a page was used, it reads and clears both the
/// accessed bits in page tables and `PG_referenced`. All pages of a region have both. Pages that the scan has checked
/// must have neither.
#[test]
fn a_look_at_an_active_page_clears_all_that_says_it_was_used() {
    plan().run(|ground| {
        let pages = PAGES as u32 * 3 / 4;
        let region = ground.region(pages);
        ground.touch(&region, 0..pages, true).unwrap();
        ground.engine.lru().drain_all();
        let frame = |page: u32| region.entry(page).frame();
        (0..pages).filter_map(frame).for_each(|frame| ground.engine.lru().mark_accessed(frame));
        let kernel = ground.take_until_free(300);
        ground.touch(&ground.region(1), 0..1, true).unwrap();
        let is_seen = |page: &u32| frame(*page).is_some() && !region.entry(*page).is_accessed();
        let mut seen = Vec::new();
        // The first sweep of the active list has just begun.
        for _ in 0..1000 {
            ground.sim.pause(Nanos(20_000));
            seen = (0..pages).filter(is_seen).collect();
            if !seen.is_empty() {
                break;
            }
        }
        let is_marked = |page: &&u32| ground.engine.memory().frames[frame(**page).unwrap()].is(Flags::REFERENCED);
        assert!(!seen.is_empty());
        assert_eq!(seen.iter().filter(is_marked).count(), 0, "of {} pages", seen.len());
        ground.give_back(kernel);
    });
}

/// mechanisms/reclaim, 12.2 and 13.4: for a costly order, recent use does not save a page. This still holds after
/// reclaim has met a page that it must keep. Here, the oldest page of the file is locked, and all other pages of the
/// file have been used.
#[test]
fn a_costly_order_takes_used_pages_past_one_that_stays() {
    let plan = Plan { with_kswapd: false, ..plan() };
    plan.run(|ground| {
        let file = ground.import(3000);
        let _region = ground.map(&file, SHARED);
        ground.read(&file, 0..3000).unwrap();
        ground.engine.lru().drain_all();
        let kernel = ground.take_until_free(256);
        let first = &ground.engine.memory().frames[file.index.get(0).unwrap()];
        assert!(first.try_lock());
        let (active, freed) = (ground.count("pgactivate"), ground.count("pgsteal_direct_normal"));
        let gfp = Gfp { no_retry: true, ..Gfp::USER_MOVABLE };
        let block = ground.engine.allocate().allocate(&mut Task::user(), gfp, Order(4));
        first.clear(Flags::LOCKED);
        assert!(ground.count("pgsteal_direct_normal") >= freed + 31);
        assert_eq!(ground.count("pgactivate"), active, "none is saved by its use");
        block.into_iter().for_each(|head| ground.engine.memory().free_block(head, Order(4)));
        ground.give_back(kernel);
    });
}

/// mechanisms/reclaim, 20.4: swap readahead reads the slots from the start of the aligned block up to the first free
/// slot. If the wanted slot lies after that free slot, it is then read by itself.
#[test]
fn swap_is_read_from_the_start_of_the_block_and_then_where_it_is_wanted() {
    plan().run(|ground| {
        let pages = 2 * PAGES as u32;
        let (region, others) = (ground.region(pages), ground.region(pages / 8));
        for n in 0..pages / 8 {
            ground.write_stamps(&region, 7 * n..7 * n + 7).unwrap();
            ground.touch(&others, n..n + 1, true).unwrap();
        }
        ground.wait_for_devices();
        ground.engine.access().drop_region(&others);
        let swap = ground.engine.swap();
        let is_in_use = |slot: u32| swap.slots.lock().uses(slot) > 0;
        let is_out = |slot: u32| is_in_use(slot) && swap.cached(slot).is_none();
        // The block has slots in use at its start, then free slots, then slots in use again.
        let hole = |start: u32| {
            let hole = (start + 2..start + 6).find(|slot| !is_in_use(*slot))?;
            (start..start + 8).all(|slot| slot == hole || is_out(slot)).then_some(hole)
        };
        let (start, hole) =
            (8..9000).step_by(8).find_map(|start| Some((start, hole(start)?))).expect("a block with a hole");
        let page = (0..pages).find(|page| region.entry(*page).slot() == Some(hole + 1)).unwrap();
        let (major, read) = (ground.faults().1, ground.count("pswpin"));
        assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        assert_eq!(ground.faults().1, major + 1);
        assert_eq!(ground.count("pswpin"), read + u64::from(hole - start) + 1);
        let read: Vec<u32> = (start..start + 8).filter(|slot| swap.cached(*slot).is_some()).collect();
        assert_eq!(read, (start..hole).chain([hole + 1]).collect::<Vec<_>>());
    });
}

/// In each pass, kswapd checks a zone before it shrinks the zone (mechanisms/reclaim, 18.4). So kswapd notices only in
/// the next pass that a zone has reached its high mark. If the priority is below 10, it waits for 100 ms before this
/// next pass, which then shrinks nothing. The priority of this last pass is the one that is kept for the next reclaim
/// (mechanisms/reclaim, 11.1). The zone's marks are 128, 160 and 192 pages.
#[test]
fn kswapd_waits_after_the_pass_that_suffices() {
    let story = |kswapd_gap| {
        let found = Found::default();
        let result = found.clone();
        let mut plan = Plan { layout: Layout::flat(16384), ..plan() };
        plan.choices.memory.min_free_kbytes = 512;
        plan.choices.reclaim.kswapd_gap = kswapd_gap;
        plan.run(move |ground| {
            let file = ground.import(15000);
            ground.read(&file, 0..15000).unwrap();
            let kernel = ground.take_until_free(160);
            ground.touch(&ground.region(1), 0..1, true).unwrap();
            ground.pause_ms(1000);
            assert!(ground.free() > 192 && ground.count("allocstall") == 0);
            let calls = ground.engine.reclaim().take_kswapd_calls(NodeId(0));
            let priority = ground.engine.lru().lruvec_of(&ground.engine.memory().zones[0]).previous_priority();
            result.set((calls.calls, calls.longest.0 / 1_000_000, priority));
            ground.give_back(kernel);
        });
        found.get()
    };
    let (calls, longest_ms, priority) = story(KswapdGap::NeverLeft);
    assert!(calls == 1 && longest_ms >= 100 && priority == 12, "{calls} calls, {longest_ms} ms, {priority}");
    let (calls, longest_ms, priority) = story(KswapdGap::Balance);
    assert!(calls == 1 && longest_ms < 100 && priority < 10, "{calls} calls, {longest_ms} ms, {priority}");
}

/// mechanisms/reclaim, 11.1: mapped pages stay active until all pages on the zone's lists were scanned three times.
/// This is true with two lists and with four, and for file pages and others.
#[test]
fn a_zone_is_near_its_end_when_all_of_its_pages_were_looked_at_thrice() {
    let mut plan = Plan::default();
    plan.choices.lru.mapped_pages = MappedPages::ByDistress;
    plan.choices.lru.swappiness = 0;
    plan.run(|ground| {
        let pages = PAGES as u32 * 3 / 4;
        let region = ground.region(pages);
        ground.touch(&region, 0..pages, true).unwrap();
        ground.engine.lru().drain_all();
        let kernel = ground.take_until_free(300);
        ground.touch(&ground.region(1), 0..1, true).unwrap();
        let until = ground.sim.now() + Nanos::from_secs(10);
        while ground.count("pgdeactivate") == 0 && ground.sim.now() < until {
            ground.sim.pause(Nanos(20_000));
        }
        let (deactivated, looked_at) = (ground.count("pgdeactivate"), ground.count("pgrefill_normal"));
        assert!(deactivated > 0 && looked_at >= 3 * u64::from(pages), "{deactivated} of {looked_at}");
        ground.give_back(kernel);
    });
}

/// mechanisms/reclaim, 11.1: for an order above 0, the scan of an active page at the tail also scans the active pages
/// in the same block. A block of order 8 has 256 pages, and all of them are scanned, even if fewer were to be scanned.
/// In this test, all pages of a file are active, because each was used twice.
#[test]
fn active_pages_are_looked_at_in_blocks() {
    let looked_at = |lumpy_reclaim| {
        let mut plan = Plan { with_kswapd: false, ..plan() };
        plan.choices.reclaim.lumpy_reclaim = lumpy_reclaim;
        let before = Found::default();
        let result = before.clone();
        let vmstat = plan.run(move |ground| {
            let file = ground.import(3000);
            for _ in 0..2 {
                ground.read(&file, 0..3000).unwrap();
                ground.engine.lru().drain_all();
            }
            assert!(ground.count("nr_active_file") >= 3000);
            let kernel = ground.take_until_free(256);
            result.set(ground.count("pgrefill_normal"));
            let gfp = Gfp { no_retry: true, ..Gfp::USER_MOVABLE };
            let block = ground.engine.allocate().allocate(&mut Task::user(), gfp, Order(8));
            block.into_iter().for_each(|head| ground.engine.memory().free_block(head, Order(8)));
            ground.give_back(kernel);
        });
        vmstat["pgrefill_normal"] - before.get()
    };
    let [blocks, tail] = [LumpyReclaim::ByOrder, LumpyReclaim::Never].map(looked_at);
    assert!(blocks >= 2 * tail && blocks.is_multiple_of(256), "{blocks} by blocks, {tail} from the tail");
}
