//! Pressure on memory (PSI): which waits and which work of the engine count as stalls, and whose.

use crate::ground::{Ground, PAGES, Plan, choices_of};
use crate::groups::{KERNELS, group_with, plan, within};
use engine::memory::{GroupId, Limit};
use engine::page_cache::File;
use engine::{ReadPattern, ReadState};
use machine::{Nanos, PAGE_BYTES};
use sim::Sim;
use std::sync::Arc;

/// Returns a group's stall times *some* and *full* (PSI) so far, us.
fn totals(ground: &Ground, group: GroupId) -> [u64; 2] {
    let pressure = ground.sim.pressure(group.0);
    [pressure.some.total_us, pressure.full.total_us]
}

/// Runs `work`. Returns the time that it adds to a group's stall times *some* and *full* (PSI), us.
fn during(ground: &Ground, group: GroupId, work: impl FnOnce()) -> [u64; 2] {
    let before = totals(ground, group);
    work();
    let after = totals(ground, group);
    [after[0] - before[0], after[1] - before[1]]
}

/// Reads one page of a file, without any readahead.
fn read_page(ground: &Ground, file: &Arc<File<Sim>>, page: u32) {
    let mut bytes = vec![0; PAGE_BYTES];
    let mut state = ReadState::default();
    state.pattern = ReadPattern::Random;
    let offset = u64::from(page) * PAGE_BYTES as u64;
    ground.engine.access().read(&mut ground.task.borrow_mut(), file, &mut state, offset, &mut bytes).unwrap();
}

/// The sleep of a task whose group is above `memory.high` is a stall. For the group, it is full if no other task of the
/// group runs. For the whole machine, it is not full while a task outside of the group works on the same CPU.
#[test]
fn the_sleep_above_high_is_full_when_nobody_else_runs() {
    for (kernel, others) in KERNELS.into_iter().flat_map(|kernel| [(kernel, false), (kernel, true)]) {
        let plan = Plan { swap_slots: 0, cpus: 1, ..plan(kernel) };
        plan.run(move |ground| {
            let group = group_with(ground, &[(Limit::High, 1024)]);
            let region = ground.region(1344);
            let touch = |pages| within(ground, group, || ground.touch(&region, pages, true)).unwrap();
            touch(0..1280);
            if others {
                ground.spawn("other", |ground| ground.sim.compute(Nanos::from_millis(1000)));
            }
            let of_machine = totals(ground, GroupId::ROOT);
            let [some, full] = during(ground, group, || touch(1280..1344));
            assert!((1_900_000..2_200_000).contains(&some) && full == some, "{kernel}: {some} {full}");
            let [_, full_of_machine] = totals(ground, GroupId::ROOT);
            let full_of_machine = full_of_machine - of_machine[1];
            let worked = some - full_of_machine;
            assert!(worked.abs_diff(if others { 1_000_000 } else { 0 }) < 10_000, "{kernel}: {worked}");
        });
    }
}

/// A task that reclaims at its group's limit counts as stalled, for its group and for the group's ancestors. A task
/// that writes to `memory.reclaim` does not count as stalled.
#[test]
fn reclaim_at_a_limit_is_a_stall_and_reclaim_on_demand_is_not() {
    for kernel in KERNELS {
        plan(kernel).run(move |ground| {
            let [outer, other] = [group_with(ground, &[]), group_with(ground, &[])];
            let inner = ground.engine.lru().create_group(outer).unwrap();
            let groups = ground.engine.memory().groups.as_ref().unwrap();
            groups.set_limit(inner, Limit::Max, 500);
            let file = ground.import(PAGES as u32);
            within(ground, inner, || ground.read(&file, 0..PAGES as u32)).unwrap();
            let [some, full] = totals(ground, inner);
            assert!(some > 1000 && some == full, "{kernel}: {some} {full}");
            assert_eq!([totals(ground, outer), totals(ground, GroupId::ROOT)], [[some, full]; 2], "{kernel}");
            assert_eq!(totals(ground, other), [0, 0]);
            let on_demand = during(ground, inner, || {
                let mut task = ground.task.borrow_mut();
                assert!(ground.engine.reclaim().reclaim_group(&mut task, inner, 200, None) >= 200);
            });
            assert_eq!(on_demand, [0, 0], "{kernel}");
        });
    }
}

/// Uses each page of a set of 3,000 twice, then each page of a second set, and so on in ten turns. Memory has room for
/// one set only. So pages become active, are evicted, and come back. `uses` is called to use a page. Its second
/// argument is `true` in the last four turns. The pauses are long enough for kswapd to keep up.
fn use_two_sets(ground: &Ground, mut uses: impl FnMut(u32, bool)) {
    for turn in 0..10 {
        let part = turn % 2;
        for _ in 0..2 {
            for page in part * 3000..(part + 1) * 3000 {
                uses(page, turn >= 6);
                if page % 8 == 0 {
                    ground.pause_ms(1);
                }
            }
            ground.engine.lru().drain_all();
        }
    }
}

/// A task reads evicted pages of a file again. The read counts as a stall (PSI) if the page's shadow has the mark of
/// the workingset, and otherwise not.
#[test]
fn a_refault_stalls_if_its_shadow_has_the_mark_of_the_workingset() {
    let mut plan = Plan { choices: choices_of("6.1-classic"), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    let vmstat = plan.run(|ground| {
        let file = ground.import(6000);
        let mut stalls = [0, 0];
        use_two_sets(ground, |page, is_measured| {
            if !is_measured || file.index.get(page).is_some() {
                return read_page(ground, &file, page);
            }
            let restored = ground.count("workingset_restore_file");
            let [some, full] = during(ground, GroupId::ROOT, || read_page(ground, &file, page));
            let is_marked = ground.count("workingset_restore_file") > restored;
            assert_eq!((some > 70, some), (is_marked, full), "page {page}: {some} us for a read that takes 80 us");
            stalls[usize::from(is_marked)] += 1;
        });
        assert!(stalls.into_iter().all(|stalls| stalls > 20), "{stalls:?}");
    });
    assert_eq!(vmstat["pgscan_direct_normal"], 0);
}

/// In a kernel that leaves shadow entries for swapped pages, a swap-in counts as a memory stall (PSI) only if the
/// shadow entry says that the page was in the working set. In a kernel without them, every swap-in counts.
#[test]
fn a_swap_in_stalls_if_its_shadow_has_the_mark_or_there_are_no_shadows() {
    for (kernel, has_shadows) in [("6.1-classic", true), ("3.10-rc4-vanilla", false)] {
        let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.choices.swap.page_cluster = 0;
        plan.run(move |ground| {
            let region = ground.region(6000);
            let restored = || if has_shadows { ground.count("workingset_restore_anon") } else { 0 };
            let mut stalls = [0, 0];
            use_two_sets(ground, |page, is_measured| {
                let touch = || ground.touch(&region, page..page + 1, true).unwrap();
                if !is_measured {
                    return touch();
                }
                let (before, swapped_in, scanned) =
                    (restored(), ground.count("pswpin"), ground.count("pgscan_direct_normal"));
                let [some, full] = during(ground, GroupId::ROOT, touch);
                if ground.count("pswpin") > swapped_in && ground.count("pgscan_direct_normal") == scanned {
                    let is_marked = restored() > before || !has_shadows;
                    assert_eq!((some > 70, some), (is_marked, full), "{kernel}, page {page}: {some} {full}");
                    stalls[usize::from(is_marked)] += 1;
                }
            });
            assert!(stalls[1] > 20 && (stalls[0] > 0) == has_shadows, "{kernel}: {stalls:?}");
            ground.engine.access().drop_region(&region);
        });
    }
}

/// kswapd keeps up with a slow reader. It reclaims and waits, but no program is stalled.
#[test]
fn kswapd_does_not_count() {
    let vmstat = Plan::default().run(|ground| {
        let file = ground.import(3 * PAGES as u32);
        for page in 0..3 * PAGES as u32 {
            ground.read(&file, page..page + 1).unwrap();
            if page % 32 == 0 {
                ground.pause_ms(1);
            }
        }
        assert_eq!(totals(ground, GroupId::ROOT), [0, 0]);
    });
    assert!(vmstat["pgscan_kswapd_normal"] > PAGES && vmstat["pgscan_direct_normal"] == 0);
}

/// Without kswapd, each task that needs a page reclaims, and all of them are stalled.
#[test]
fn direct_reclaim_is_a_stall() {
    Plan { with_kswapd: false, cpus: 1, ..Plan::default() }.run(|ground| {
        let file = ground.import(3 * PAGES as u32);
        ground.read(&file, 0..3 * PAGES as u32).unwrap();
        let [some, full] = totals(ground, GroupId::ROOT);
        assert!(ground.count("pgscan_direct_normal") > PAGES && some > 1000 && some == full, "{some} {full}");
    });
}
