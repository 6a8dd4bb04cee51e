//! Exhausted memory, in which nothing can be freed: every request ends, and reports this.

use crate::ground::{Ground, PAGES, Plan, choices_of};
use engine::allocate::choices::{AfterReclaim, FruitlessReclaim};
use engine::anonymous::{MapMode, Sharing};
use engine::kernel::Choices;
use engine::lru::choices::Lists;
use engine::memory::Gfp;
use engine::reclaim::choices::{DirectNap, ListStall};
use engine::stat::Gauge;
use engine::writeback::choices::{DirtyMapped, Dirtyable, SwapWriteback, WriteFailure};
use engine::{Error, Task};
use machine::{IoError, Machine, Nanos, Operation, Order};
use sim::disk::Fault;
use std::cell::Cell;
use std::rc::Rc;

/// Runs `work`, and checks that it ends within `seconds` seconds of virtual time.
fn within<R>(ground: &Ground, seconds: u64, work: impl FnOnce() -> R) -> R {
    let has_ended = Rc::new(Cell::new(false));
    let seen = has_ended.clone();
    ground.spawn("watch", move |ground| {
        ground.pause_ms(1000 * seconds);
        assert!(seen.get(), "the story goes on after {seconds} s");
    });
    let result = work();
    has_ended.set(true);
    result
}

/// Touches memory until a touch is refused; returns the number of pages touched.
fn touch_until_refused(ground: &Ground) -> u32 {
    let region = ground.region(2 * PAGES as u32);
    let refused = (0..region.pages).find(|page| match ground.touch(&region, *page..*page + 1, true) {
        Ok(()) => false,
        Err(Error::OutOfMemory { .. }) => true,
        Err(error) => panic!("{error}"),
    });
    refused.expect("the region is larger than memory and swap")
}

/// Pages of a file cannot be written and stay dirty. The flusher retries them, and every swap slot is taken. A reclaim
/// that finds nothing during such a retry waits for that write, which frees nothing. The wait must not reset the task's
/// count of fruitless reclaims. Found by seed 0x7e57000acb of the swarm, where two tasks went round in direct reclaim
/// for 19,000 s.
#[test]
fn a_write_that_fails_again_and_again_does_not_keep_memory_from_being_exhausted() {
    let mut plan = Plan { swap_slots: 64, write_ns: 50_000_000, ..Plan::default() };
    plan.choices.writeback.write_failure = WriteFailure::KeepDirty;
    plan.choices.writeback.dirty_writeback_ms = 10;
    plan.choices.reclaim.list_stall = ListStall::ForWriteback;
    plan.choices.reclaim.direct_nap = DirectNap::CongestionWait;
    let vmstat = plan.run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..16).unwrap();
        ground.fsync(&file).unwrap();
        let fault = Fault::Blocks { blocks: 1..1 << 17, operation: Some(Operation::Write), error: IoError::Device };
        ground.inject(fault);
        ground.write(&file, 0..16).unwrap();
        ground.fsync(&file).unwrap_err();
        within(ground, 60, || touch_until_refused(ground));
        assert_eq!(ground.engine.swap().free_slots(), 0);
    });
    assert_eq!(vmstat["oom"], 1);
}

/// All reclaimable pages wait in the batches of other CPUs, where reclaim does not find them. A task whose reclaim was
/// fruitless puts them on lists.
#[test]
fn what_waits_in_batches_is_found_before_memory_counts_as_exhausted() {
    let touched = |fruitless_reclaim| {
        let mut plan = Plan { cpus: 8, swap_slots: 0, ..Plan::default() };
        plan.choices.lru.batch = 64;
        plan.choices.allocate.fruitless_reclaim = fruitless_reclaim;
        let pages = Rc::new(Cell::new(0));
        let told = pages.clone();
        plan.run(move |ground| {
            let read = |n: u32| {
                let file = ground.import(60);
                ground.spawn(&format!("reader {n}"), move |ground| {
                    ground.read(&file, 0..60).unwrap();
                })
            };
            let readers: Vec<_> = (0..8).map(read).collect();
            readers.into_iter().for_each(|reader| {
                ground.sim.join(reader);
            });
            told.set(touch_until_refused(ground));
        });
        pages.get()
    };
    let (left_there, found) = (touched(FruitlessReclaim::Repeats), touched(FruitlessReclaim::DrainsBatches));
    assert!(found >= left_there + 5 * 60, "{found} pages, {left_there}");
}

/// Memory and swap are both full, and three tasks read swapped pages. For each page that is read, another one is
/// swapped out. If a task needs a page that is under writeback, it waits until this write ends. A fixed wait of 100 ms
/// instead would make the reads far slower than the 8 ms a page that the test allows.
#[test]
fn memory_and_swap_that_are_full_are_read_at_the_speed_of_the_disk() {
    let mut choices = choices_of("highwater");
    choices.memory.min_free_kbytes = 1024;
    Plan { choices, swap_slots: PAGES as u32, write_ns: 1_000_000, ..Plan::default() }.run(|ground| {
        let region = ground.region(4 * PAGES as u32);
        let is_refused = |page: &u32| ground.touch(&region, *page..*page + 1, true).is_err();
        let written = (0..region.pages).find(is_refused).expect("the region is larger than memory and swap");
        let began = ground.sim.now();
        let readers = Rc::new(Cell::new(3));
        for reader in 0..3 {
            let (region, readers) = (region.clone(), readers.clone());
            ground.spawn("reader", move |ground| {
                for n in 0..300 {
                    let page = (3 * n + reader) * 7919 % written;
                    ground.touch(&region, page..page + 1, false).unwrap();
                }
                readers.set(readers.get() - 1);
            });
        }
        while readers.get() > 0 {
            ground.pause_ms(10);
        }
        let each = ground.sim.now().since(began).0 / 900;
        assert!(each < 8_000_000, "a page takes {each} ns");
    });
}

/// One task takes a page below the watermarks and returns it, again and again. Each return makes the zone count as
/// worth another scan, though the scan finds nothing. Another task needs memory. After some seconds without success,
/// memory counts as exhausted for it nevertheless. Found by seed 0x25a00fc56 of the swarm: in that simulated run, pages
/// were written from copies, the writes failed, and two tasks stayed in direct reclaim for 16,000 s.
#[test]
fn a_page_that_others_take_and_give_back_does_not_keep_memory_from_being_exhausted() {
    let mut plan = Plan { swap_slots: 64, ..Plan::default() };
    plan.choices.lru.lists = Lists::Two;
    plan.choices.allocate.after_reclaim = AfterReclaim::DrainsPerCpu;
    let vmstat = plan.run(|ground| {
        let has_ended = Rc::new(Cell::new(false));
        let seen = has_ended.clone();
        ground.spawn("receiver", move |ground| {
            let mut task = Task::user();
            while !seen.get() {
                let page = ground.engine.allocate().allocate_kernel(&mut task, Gfp::ATOMIC, Gauge::NrSlabUnreclaimable);
                ground.sim.pause(Nanos(200_000));
                ground.give_back(page);
                ground.engine.memory().drain_all_per_cpu();
                ground.sim.pause(Nanos(200_000));
            }
        });
        within(ground, 60, || touch_until_refused(ground));
        has_ended.set(true);
        assert_eq!(ground.engine.swap().free_slots(), 0);
    });
    assert_eq!(vmstat["oom"], 1);
}

/// Anonymous pages fill memory, and there is no swap, so the dirty limit is 0 pages. A task writes to a page through a
/// mapping. Because of the limit, the flusher writes the page back and maps it read-only before the task has written,
/// so the task faults again. The task must be paused once for a write, and not at each fault. Found by seed 0x89585e of
/// the swarm, where faults and pauses repeated for 55,000 s.
#[test]
fn a_write_through_a_mapping_ends_though_the_dirty_limit_has_sunk_to_nothing() {
    let mut plan = Plan { swap_slots: 0, ..Plan::default() };
    plan.choices.writeback.dirty_mapped = DirtyMapped::LowersRatio;
    plan.choices.writeback.swap_writeback = SwapWriteback::Ignored;
    plan.run(|ground| {
        let room = ground.region(64);
        ground.touch(&room, 0..64, true).unwrap();
        touch_until_refused(ground);
        ground.engine.access().drop_region(&room);
        let mut task = Task::user();
        let file = ground.create();
        ground.engine.access().set_length(&mut task, &file, 10 << 12).unwrap();
        let mode = MapMode { sharing: Sharing::Shared, ..MapMode::default() };
        let region = ground.engine.access().map_file(&mut task, &file, 0, 10, mode).unwrap();
        assert_eq!(ground.count("nr_dirty_threshold"), 0);
        within(ground, 60, || ground.write_stamps(&region, 0..10)).unwrap();
        assert!(ground.count("nr_written") >= 10, "nobody was held back");
        ground.engine.access().drop_region(&region);
    });
}

/// Requests a block of 16 pages with `__GFP_REPEAT`, while reclaim can free nothing.
fn ask_again_and_again(ground: &Ground) {
    let gfp = Gfp { repeat: true, ..Gfp::KERNEL };
    let got = within(ground, 10, || ground.engine.allocate().allocate(&mut Task::user(), gfp, Order(4)));
    assert!(got.is_err(), "a block was free");
}

/// Memory is full of anonymous pages, and swap is full too. With `Lists::Two`, anonymous pages and file pages share
/// lists, so scans see anonymous pages, though none can be reclaimed. A request with `__GFP_REPEAT` must end once it
/// has scanned as many pages as there are. Found by seed 0x4c4d44 of the swarm.
#[test]
fn a_request_that_repeats_ends_when_swap_is_full() {
    for lists in [Lists::Two, Lists::Four] {
        let mut plan = Plan { swap_slots: 64, ..Plan::default() };
        plan.choices.lru.lists = lists;
        plan.choices.reclaim.list_stall = ListStall::Never;
        plan.run(move |ground| {
            touch_until_refused(ground);
            ask_again_and_again(ground);
        });
    }
}

/// A request with `__GFP_REPEAT` ends although the disk writes none of the dirty pages on the lists. The request must
/// not wait for these pages for ever, just as it must not wait for pages that get no swap slot.
#[test]
fn a_request_that_repeats_ends_when_no_dirty_page_is_written() {
    let mut plan = Plan { swap_slots: 0, ..Plan::default() };
    let Choices { writeback, reclaim, .. } = &mut plan.choices;
    (writeback.dirty_ratio, writeback.dirty_background_ratio, writeback.dirtyable) = (100, 99, Dirtyable::All);
    reclaim.list_stall = ListStall::Never;
    plan.choices.allocate.zone_dirty_share = engine::allocate::choices::ZoneDirtyShare::Off;
    plan.run(|ground| {
        ground.inject(Fault::StallUntil(Nanos::from_secs(60)));
        let file = ground.create();
        ground.write(&file, 0..2000).unwrap();
        let region = ground.region(1000);
        ground.touch(&region, 0..1000, true).unwrap();
        // The free memory consists of single pages.
        let mut kernel = ground.take_until_free(0);
        ground.give_back(kernel.extract_if(.., |frame| frame.0.is_multiple_of(3)));
        ask_again_and_again(ground);
        ground.give_back(kernel);
    });
}
