//! Limits of memory and swap together (`memory.memsw.limit_in_bytes`): when tasks reclaim without swapping, and when
//! nothing is left to reclaim.

use crate::ground::{Ground, PAGES, stamp};
use crate::groups::{KERNELS, group_with, groups, plan_of, within};
use engine::Error;
use engine::memory::{GroupEvent, GroupId, GroupVersion, Limit};

/// Page tables of a region of up to 1,024 pages.
const TABLES: u64 = 2;

/// Returns the pages of a group in memory, in swap without a page in memory, and in both together, without the pages
/// that CPUs hold in stock.
fn held(ground: &Ground, group: GroupId) -> [u64; 3] {
    let groups = groups(ground);
    let stock = groups.stocked_pages(group);
    let [memory, both] = [groups.usage(group), groups.memsw_usage(group)].map(|pages| pages - stock);
    [memory, both - memory, both]
}

/// Both limits of a group are 800 pages. Swapping a page out would not lower the sum of memory and swap, so a task drops
/// file pages instead, and leaves the anonymous pages in memory.
#[test]
fn at_the_limit_of_memory_and_swap_no_page_goes_to_swap() {
    for kernel in KERNELS {
        plan_of(GroupVersion::V1WithMemsw, kernel).run(move |ground| {
            let file = ground.import(PAGES as u32);
            let group = group_with(ground, &[(Limit::Max, 800), (Limit::Memsw, 800)]);
            within(ground, group, || {
                let region = ground.region(500);
                ground.write_stamps(&region, 0..500).unwrap();
                ground.read(&file, 0..PAGES as u32).unwrap();
                (0..500).for_each(|page| assert_eq!(ground.read_stamp(&region, page), Ok(stamp(page)), "{kernel}"));
            });
            let groups = groups(ground);
            assert_eq!((ground.count("pswpout"), groups.swap_usage(group)), (0, 0), "{kernel}");
            assert!(groups.memsw_failures(group) > PAGES / 256, "{kernel}: {}", groups.memsw_failures(group));
            assert_eq!(groups.events(group, GroupEvent::Max), 0, "{kernel}: not the limit of memory");
            assert_eq!(groups.memsw_usage(group), groups.usage(group), "{kernel}");
            assert!((700..=800).contains(&groups.memsw_peak(group)), "{kernel}: {}", groups.memsw_peak(group));
            let stat = ground.engine.lru().group_stat(group);
            assert_eq!(stat["memory.memsw.failcnt"], groups.memsw_failures(group), "{kernel}");
            ground.check();
        });
    }
}

/// A group may have 500 pages in memory and 800 in memory and swap. Its anonymous pages go to swap until the sum is at
/// its limit. Then nothing can be reclaimed, although swap has room, and the charge fails.
#[test]
fn a_group_swaps_until_memory_and_swap_are_full() {
    for kernel in KERNELS {
        plan_of(GroupVersion::V1WithMemsw, kernel).run(move |ground| {
            let group = group_with(ground, &[(Limit::Max, 500), (Limit::Memsw, 800)]);
            let region = ground.region(1000);
            let error = within(ground, group, || ground.touch(&region, 0..1000, true)).unwrap_err();
            let Error::OutOfMemory { cause, free_slots, .. } = error else { panic!("{kernel}: {error}") };
            assert_eq!(cause.full, Some((group, Limit::Memsw, 800)), "{kernel}");
            assert!(cause.to_string().ends_with("its 800 pages (memory.memsw.limit_in_bytes)"), "{cause}");
            assert!(u64::from(free_slots) > PAGES, "{kernel}: swap is not full");
            let in_use = |page: &u32| region.entry(*page).frame().is_some() || region.entry(*page).slot().is_some();
            assert_eq!((0..1000).filter(in_use).count() as u64 + TABLES, 800, "{kernel}");
            let [memory, swap, both] = held(ground, group);
            assert!(both == 800 && memory <= 500 && swap >= 300, "{kernel}: {memory} {swap} {both}");
            let groups = groups(ground);
            assert!(groups.events(group, GroupEvent::Max) > 0 && groups.memsw_failures(group) > 0, "{kernel}");
            assert_eq!(groups.events(group, GroupEvent::Oom), 1, "{kernel}");
            ground.check();
            ground.engine.access().drop_region(&region);
            ground.wait_for_devices();
            assert_eq!(held(ground, group)[1], 0, "{kernel}: no slot is left");
            ground.check();
        });
    }
}

/// Pages that come back from swap do not raise the sum of memory and swap. So a group at this limit can use all its
/// pages, although only a part of them is in memory at a time.
#[test]
fn pages_come_back_from_swap_at_the_limit_of_memory_and_swap() {
    for kernel in KERNELS {
        plan_of(GroupVersion::V1WithMemsw, kernel).run(move |ground| {
            let group = group_with(ground, &[(Limit::Max, 400), (Limit::Memsw, 700 + TABLES)]);
            within(ground, group, || {
                let region = ground.region(700);
                ground.write_stamps(&region, 0..700).unwrap();
                for round in 0..3 {
                    for page in 0..700 {
                        assert_eq!(ground.read_stamp(&region, page), Ok(stamp(page)), "{kernel}, round {round}");
                    }
                }
                assert_eq!(held(ground, group)[2], 700 + TABLES, "{kernel}");
            });
            assert!(ground.count("pswpin") > 700, "{kernel}: {}", ground.count("pswpin"));
            assert_eq!(groups(ground).events(group, GroupEvent::Oom), 0, "{kernel}");
            ground.check();
        });
    }
}

/// The limit does not hold kswapd back: it swaps out pages of a group that is at its limit of memory and swap, and the
/// sum stays as it is.
#[test]
fn kswapd_swaps_pages_of_a_group_at_its_limit_of_memory_and_swap() {
    plan_of(GroupVersion::V1WithMemsw, "6.1-classic").run(|ground| {
        let group = group_with(ground, &[(Limit::Max, 1000 + TABLES), (Limit::Memsw, 1000 + TABLES)]);
        let region = ground.region(1000);
        within(ground, group, || ground.write_stamps(&region, 0..1000)).unwrap();
        let others = ground.region(2 * PAGES as u32);
        ground.touch(&others, 0..2 * PAGES as u32, true).unwrap();
        let [memory, swap, both] = held(ground, group);
        assert!(swap > 100 && memory < 900 && both == 1000 + TABLES, "{memory} {swap} {both}");
        (0..1000).for_each(|page| assert_eq!(ground.read_stamp(&region, page), Ok(stamp(page))));
        assert_eq!(held(ground, group)[2], 1000 + TABLES, "read by a task of the root group");
        ground.check();
    });
}

/// A parent's limit of memory and swap holds for its children: what one child has in swap, another cannot charge.
#[test]
fn a_parents_limit_of_memory_and_swap_holds_for_its_children() {
    plan_of(GroupVersion::V1WithMemsw, "6.1-classic").run(|ground| {
        let parent = group_with(ground, &[(Limit::Memsw, 800)]);
        let [a, b] = [(); 2].map(|()| ground.engine.lru().create_group(parent).unwrap());
        let [of_a, of_b] = [(); 2].map(|()| ground.region(600));
        within(ground, a, || ground.write_stamps(&of_a, 0..600)).unwrap();
        ground.engine.reclaim().reclaim_group(&mut ground.task.borrow_mut(), a, 400, Some(200));
        ground.wait_for_devices();
        assert!(held(ground, a)[1] >= 350, "{:?}", held(ground, a));
        let error = within(ground, b, || ground.touch(&of_b, 0..600, true)).unwrap_err();
        assert!(error.to_string().contains("memory.memsw.limit_in_bytes"), "{error}");
        let had = (0..600).filter(|page| of_b.entry(*page).frame().is_some()).count() as u64;
        assert_eq!(had + 1, 800 - (600 + TABLES), "with a page table");
        assert!(groups(ground).memsw_failures(parent) > 0 && groups(ground).memsw_failures(b) == 0);
        ground.check();
    });
}
