//! How long reclaimers wait for writes, and for each other.

use crate::ground::{PAGES, Plan};
use engine::Error;
use engine::allocate::choices::ReserveThrottle;
use engine::kernel::Choices;
use engine::lru::choices::IsolatedWait;
use engine::reclaim::choices::{DirectNap, ListStall, WriteoutThrottle};
use machine::{Machine, Nanos};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// Virtual time in which `tasks` write regions of half of memory more than there is, with nobody else to reclaim.
fn time_to_swap(tasks: u32, change: impl Fn(&mut Choices)) -> Nanos {
    swapped_by(tasks, change).0
}

/// The same, and what was counted.
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

/// Much is on its way to swap, and the disk takes 0.2 ms for a page: who waits for that is not kept for 100 ms, nor for the
/// 10 ms after which he would look without having been woken.
#[test]
fn writeout_is_waited_for_as_long_as_it_takes() {
    let time = |throttle| time_to_swap(1, |choices| choices.reclaim.writeout_throttle = throttle);
    let (by_limit, for_writeback) = (time(WriteoutThrottle::ByLimit), time(WriteoutThrottle::ForWriteback));
    assert!(by_limit > Nanos::from_millis(500), "{by_limit}: nobody waited");
    assert!(for_writeback < Nanos::from_millis(200), "{for_writeback}");
}

/// Four tasks reclaim at once, and hold more of a short list than is left on it, for some microseconds.
#[test]
fn a_putback_is_not_waited_for_like_a_disk() {
    let time = |wait| {
        time_to_swap(4, |choices| {
            (choices.lru.isolated_wait, choices.reclaim.writeout_throttle) = (wait, WriteoutThrottle::ForWriteback);
        })
    };
    let (congestion, putback) = (time(IsolatedWait::CongestionWait), time(IsolatedWait::ForPutback));
    assert!(putback.0 < congestion.0 / 10 * 9, "{putback}, {congestion}");
}

/// Of forty tasks that all need pages, three may reclaim. The others wait until these have freed some, and the lists are not
/// scanned by all of them.
#[test]
fn few_reclaim_directly_for_many() {
    let swapped = |direct_reclaimers| {
        let (time, counts) = swapped_by(40, |choices| {
            (choices.lru.isolated_wait, choices.reclaim.writeout_throttle) =
                (IsolatedWait::ForPutback, WriteoutThrottle::ForWriteback);
            choices.reclaim.direct_reclaimers = direct_reclaimers;
        });
        (time, counts["pgscan_direct_normal"], counts["direct_reclaim_wait"], counts["oom"])
    };
    let (all, all_scanned, nobody, _) = swapped(0);
    let (three, three_scanned, waited, exhausted) = swapped(3);
    assert_eq!((nobody, exhausted), (0, 0));
    assert!(waited > 100, "{waited}");
    assert!(three_scanned < all_scanned / 2, "{three_scanned}, {all_scanned}");
    assert!(three.0 < all.0 / 10 * 11, "{three}, {all}");
}

/// The reserve is used up, and all that lists have is held, so that kswapd frees nothing. Somebody else gives a page
/// back now and then, so that the zone never counts as hopeless. Who waits for kswapd to fill the reserve is let go
/// after some passes in vain, and looks for pages himself.
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
        // He may be let go, and he may have looked. Until then his only hope is that a page comes back.
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
