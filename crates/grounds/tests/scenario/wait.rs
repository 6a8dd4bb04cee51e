//! The time that reclaimers wait for writes and for each other.

use crate::ground::{Found, Ground, PAGES, Plan, choices_of};
use engine::Error;
use engine::allocate::choices::ReserveThrottle;
use engine::kernel::Choices;
use engine::lru::choices::{EarlyExit, IsolatedWait, UnwrittenPages};
use engine::memory::NodeId;
use engine::reclaim::choices::{DirectNap, ListStall, WriteoutThrottle};
use machine::{DeviceId, Machine, Nanos, Order, PAGE_BYTES};
use sim::disk::Fault;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// Returns the virtual time that `tasks` tasks take to write one region each, at the same time and without kswapd. All
/// regions together are 1.5 times as large as memory.
fn time_to_swap(tasks: u32, change: impl Fn(&mut Choices)) -> Nanos {
    swapped_by(tasks, change).0
}

/// Returns the time that [`time_to_swap`] measures, and the engine's counters at the end of the run.
fn swapped_by(tasks: u32, change: impl Fn(&mut Choices)) -> (Nanos, BTreeMap<String, u64>) {
    let mut plan = Plan { with_kswapd: false, cpus: tasks as usize, write_ns: 200_000, ..Plan::default() };
    plan.choices.writeback.dirty_ratio = 2;
    plan.choices.writeback.dirty_background_ratio = 1;
    plan.choices.reclaim.list_stall = ListStall::Never;
    plan.choices.reclaim.direct_nap = DirectNap::None;
    plan.choices.allocate.reserve_throttle = ReserveThrottle::Off;
    change(&mut plan.choices);
    let found = Arc::new(OnceLock::new());
    let told = found.clone();
    plan.run(move |ground| {
        let pages = PAGES as u32 * 3 / 2 / tasks;
        let began = ground.engine.machine().now();
        let write = |n: u32| {
            let region = ground.region(pages);
            ground.spawn(&format!("writer {n}"), move |ground| ground.touch(&region, 0..pages, true).unwrap())
        };
        let writers: Vec<_> = (0..tasks).map(write).collect();
        writers.into_iter().for_each(|writer| {
            ground.sim.join(writer);
        });
        told.set((ground.engine.machine().now().since(began), ground.engine.vmstat())).expect("it runs once");
    });
    found.get().expect("it ran").clone()
}

/// Many pages are on their way to swap, and the disk takes 0.2 ms for a page. A task that waits for one of them does
/// not wait for 100 ms, nor for the 10 ms after which it would check without a wake-up.
#[test]
fn writeout_is_waited_for_as_long_as_it_takes() {
    let time = |throttle| time_to_swap(1, |choices| choices.reclaim.writeout_throttle = throttle);
    let (by_limit, for_writeback) = (time(WriteoutThrottle::ByLimit), time(WriteoutThrottle::ForWriteback));
    assert!(by_limit > Nanos::from_millis(500), "{by_limit}: nobody waited");
    assert!(for_writeback < Nanos::from_millis(200), "{for_writeback}");
}

/// Four tasks reclaim at once. For some microseconds, they have isolated more pages of a short list than are left on
/// it. A further task must wait for the isolated pages. In a kernel in which it waits until they are put back, the
/// tasks together are faster than in one in which it waits as for a congested disk.
#[test]
fn a_putback_is_not_waited_for_like_a_disk() {
    let time = |wait| {
        time_to_swap(4, |choices| {
            (choices.lru.isolated_wait, choices.reclaim.writeout_throttle) = (wait, WriteoutThrottle::ForWriteback);
        })
    };
    let congestion = time(IsolatedWait::CongestionWait);
    for putback in [IsolatedWait::ForPutback, IsolatedWait::ReclaimThrottle].map(time) {
        assert!(putback.0 < congestion.0 / 10 * 9, "{putback}, {congestion}");
    }
}

/// Returns the time that a wait took.
fn time_of(ground: &Ground, wait: impl FnOnce()) -> Nanos {
    let began = ground.sim.now();
    wait();
    ground.sim.now().since(began)
}

#[test]
fn who_finds_too_many_isolated_looks_again_after_20_ms() {
    let time = |wait, are_too_many: bool| {
        let mut plan = Plan::default();
        plan.choices.lru.isolated_wait = wait;
        let found = Found::default();
        let result = found.clone();
        plan.run(move |ground| {
            result.set(time_of(ground, || ground.engine.lru().wait_for_putback(|| are_too_many)).0 / 1_000_000);
        });
        found.get()
    };
    assert_eq!(time(IsolatedWait::ReclaimThrottle, true), 20);
    assert_eq!(time(IsolatedWait::ForPutback, true), 10);
    assert_eq!(time(IsolatedWait::CongestionWait, true), 100);
    assert_eq!(time(IsolatedWait::ReclaimThrottle, false), 0, "they came back while it looked");
}

/// Starts `tasks` reclaimers that are throttled for writeback while a sync writes `pages` pages. Returns for how many
/// ms each of them is throttled, and `nr_throttled_written`: the number of pages written while a task was throttled.
fn throttled_while(tasks: u32, pages: u32) -> (Vec<u64>, u64) {
    let times = Rc::new(std::cell::RefCell::new(Vec::new()));
    let all = times.clone();
    let vmstat = Plan { cpus: 4, ..Plan::default() }.run(move |ground| {
        let file = ground.create();
        ground.write(&file, 0..pages).unwrap();
        let reclaimer = |n: u32| {
            let times = times.clone();
            ground.spawn(&format!("reclaimer {n}"), move |ground| {
                let time = time_of(ground, || ground.engine.access().throttle_for_writeback(NodeId(0)));
                times.borrow_mut().push(time.0 / 1_000_000);
            })
        };
        let reclaimers: Vec<_> = (0..tasks).map(reclaimer).collect();
        ground.pause_ms(1);
        ground.fsync(&file).unwrap();
        reclaimers.into_iter().for_each(|reclaimer| {
            ground.sim.join(reclaimer);
        });
    });
    (all.take(), vmstat["nr_throttled_written"])
}

/// From Linux 5.16 on, a task that is throttled for writeback sleeps until 32 pages have been written for each task
/// that is throttled, and for 100 ms at most.
#[test]
fn who_is_throttled_for_writeback_goes_on_when_a_cluster_was_written_for_each() {
    assert_eq!(throttled_while(1, 0), (vec![100], 0));
    assert_eq!(throttled_while(1, 31), (vec![100], 31));
    let (one, counted) = throttled_while(1, 200);
    assert!(one[0] < 20 && counted >= 32, "{one:?}, {counted}");
    assert_eq!(throttled_while(2, 63), (vec![100, 100], 63), "enough for one, and both wait");
    let (two, counted) = throttled_while(2, 200);
    assert!(two.iter().all(|time| *time < 20) && counted >= 64, "{two:?}, {counted}");
}

/// A reclaimer that made no progress, or met a congested zone, sleeps for a tick (1 ms). It does not sleep if at most
/// half of the reclaimable pages are dirty or under writeback.
#[test]
fn a_tick_is_waited_only_while_much_is_to_be_written() {
    let mut plan = Plan { with_flusher: false, ..Plan::default() };
    (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (90, 80);
    plan.run(|ground| {
        let tick = || time_of(ground, || ground.engine.access().throttle_for_a_tick(NodeId(0)));
        let (clean, dirty) = (ground.import(1000), ground.create());
        ground.read(&clean, 0..1000).unwrap();
        ground.write(&dirty, 0..990).unwrap();
        assert!(tick() < Nanos::from_millis(1), "half of what can be freed is clean");
        ground.write(&dirty, 990..1200).unwrap();
        let time = tick();
        assert!(time >= Nanos::from_millis(1) && time < Nanos::from_millis(2), "{time}");
    });
}

/// A disk stops completing requests while it has dirty pages to write, and reads from another disk continue. Kswapd
/// meets the same pages under writeback again, and waits.
#[test]
fn kswapd_is_throttled_when_it_meets_pages_under_writeback_again() {
    let run = |stall| {
        let mut plan =
            Plan { choices: choices_of("6.1-classic"), more_disks_write_ns: vec![20_000], ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.choices.reclaim.list_stall = stall;
        // A pass continues after it has freed enough, and so meets pages again.
        plan.choices.lru.early_exit = EarlyExit::Proportional;
        plan.choices.lru.unwritten_pages = UnwrittenPages::StayInactive;
        (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (80, 5);
        plan.run(|ground| {
            let (log, stream) = (ground.create(), ground.create_on(DeviceId(1)));
            let bytes = 8 * PAGES * PAGE_BYTES as u64;
            assert!(ground.engine.writeback().allocate_blocks(&stream, bytes));
            ground.inject(Fault::StallUntil(ground.sim.now() + Nanos::from_millis(300)));
            ground.write(&log, 0..2000).unwrap();
            ground.read(&stream, 0..8 * PAGES as u32).unwrap();
        })
    };
    let (throttled, never) = (run(ListStall::ReclaimThrottle), run(ListStall::Never));
    assert!(throttled["nr_throttled_written"] > 0, "nobody waited: {throttled:?}");
    assert_eq!(never["nr_throttled_written"], 0);
    assert!(throttled["pgscan_kswapd_normal"] < never["pgscan_kswapd_normal"], "waiting saves no scan");
}

/// Anonymous pages fill memory, and there is no swap. With the waits of Linux 5.16 (`reclaim_throttle`), memory must be
/// reported as exhausted within a second.
#[test]
fn memory_is_exhausted_soon_where_waits_do_not_help() {
    let mut plan = Plan { choices: choices_of("6.1-classic"), swap_slots: 0, ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan.run(|ground| {
        let region = ground.region(2 * PAGES as u32);
        let time = time_of(ground, || {
            assert!(matches!(ground.touch(&region, 0..2 * PAGES as u32, true), Err(Error::OutOfMemory { .. })));
        });
        assert!(time < Nanos::from_secs(1), "{time}");
        let rest =
            ground.engine.allocate().allocate(&mut ground.task.borrow_mut(), engine::memory::Gfp::KERNEL, Order::ZERO);
        assert!(rest.is_err());
    });
}

/// Of forty tasks that all need pages, three may reclaim. The others wait until these three have freed some pages, so
/// that not all tasks scan the lists.
#[test]
fn few_reclaim_directly_for_many() {
    let swapped = |direct_reclaimers, cpus_per_direct_reclaimer| {
        let (time, counts) = swapped_by(40, |choices| {
            (choices.lru.isolated_wait, choices.reclaim.writeout_throttle) =
                (IsolatedWait::ForPutback, WriteoutThrottle::ForWriteback);
            choices.reclaim.direct_reclaimers = direct_reclaimers;
            choices.reclaim.cpus_per_direct_reclaimer = cpus_per_direct_reclaimer;
        });
        (time, counts["pgscan_direct_normal"], counts["direct_reclaim_wait"], counts["oom"])
    };
    let (all, all_scanned, nobody, _) = swapped(0, 1);
    let (three, three_scanned, waited, exhausted) = swapped(3, 0);
    assert_eq!((nobody, exhausted), (0, 0));
    assert!(waited > 100, "{waited}");
    assert!(three_scanned < all_scanned / 2, "{three_scanned}, {all_scanned}");
    assert!(three.0 < all.0 / 10 * 11, "{three}, {all}");
    assert_eq!(swapped(3, 20), swapped(3, 0), "two for 40 CPUs, and at least three");
    assert_eq!(swapped(3, 1).2, 0, "one for each of 40 CPUs, and forty tasks");
}

/// The test holds all pages on lists, so kswapd frees nothing, and it has taken the reserve. It returns a page now and
/// then, so the zone never counts as hopeless. A task that waits for kswapd to refill the reserve stops waiting after
/// some passes of kswapd that freed nothing, and reclaims by itself.
#[test]
fn nobody_waits_for_ever_for_a_kswapd_that_frees_nothing() {
    let mut plan = Plan { swap_slots: 0, ..Plan::default() };
    plan.choices.allocate.reserve_throttle = ReserveThrottle::On;
    plan.run(|ground| {
        let memory = ground.engine.memory();
        let file = ground.import(200);
        ground.read(&file, 0..200).unwrap();
        ground.engine.lru().drain_all();
        let held: Vec<_> = (0..200).filter_map(|page| file.index.get(page)).collect();
        held.iter().for_each(|frame| memory.frames[*frame].get());
        let mut taken = ground.take_until_free(memory.zones[0].min() / 4);
        let is_over = Rc::new(Cell::new(false));
        let ended = is_over.clone();
        let asker = ground.spawn("asker", move |ground| {
            let region = ground.region(1);
            assert!(matches!(ground.touch(&region, 0..1, true), Err(Error::OutOfMemory { .. })));
            ended.set(true);
        });
        // The waiting task may have been released and may have reclaimed. Until then it can only hope that a page comes
        // back.
        let mut waited_us = 0;
        while ground.count("pgscan_direct_normal") == 0 && waited_us < 2_000_000 {
            let page = taken.pop();
            ground.give_back(page);
            ground.sim.pause(Nanos(20_000));
            taken.extend(ground.take_until_free(memory.zones[0].min() / 4));
            waited_us += 20;
        }
        assert!(ground.count("pgscan_direct_throttle") > 0, "he did not wait at all");
        assert!(ground.count("pgscan_direct_normal") > 0, "he waits still, after two seconds");
        assert!(ground.sim.join(asker) && is_over.get());
        ground.give_back(taken);
        held.iter().for_each(|frame| ground.engine.lru().put(*frame));
    });
}
