//! Regions that were forked from one another: shared pages, copies, swap, and the ends of parents and children.

use crate::ground::{Found, Ground, PAGES, Plan, choices_of, stamp};
use engine::Error;
use engine::access::choices::HugePages;
use engine::anonymous::{Owners, Region};
use engine::memory::Flags;
use machine::{Machine, Nanos, PAGE_BYTES, Step};
use sim::Sim;
use std::sync::Arc;

fn fork(ground: &Ground, region: &Arc<Region<Sim>>) -> Arc<Region<Sim>> {
    ground.engine.access().fork_region(&mut ground.task.borrow_mut(), region, None).unwrap()
}

fn drop_region(ground: &Ground, region: &Region<Sim>) {
    ground.engine.access().drop_region(region);
}

/// Writes to each page of `pages` the stamp of the page that lies `shift` pages further.
fn write_shifted(ground: &Ground, region: &Region<Sim>, pages: std::ops::Range<u32>, shift: u32) {
    for page in pages {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let mut task = ground.task.borrow_mut();
        ground.engine.access().write_region(&mut task, region, offset, &stamp(page + shift)).unwrap();
    }
}

fn has_shifted(ground: &Ground, region: &Region<Sim>, pages: std::ops::Range<u32>, shift: u32) {
    for page in pages {
        let found = ground.read_stamp(region, page).unwrap();
        assert_eq!(found, stamp(page + shift), "page {page} of region {}", region.id);
    }
}

/// A fork copies no page. The first write to a page, by the parent or the child, copies it. The second writer of a page
/// is then alone with it, and copies nothing.
#[test]
fn a_fork_shares_pages_until_one_side_writes() {
    Plan::default().run(|ground| {
        let parent = ground.region(600);
        ground.write_stamps(&parent, 0..600).unwrap();
        let child = fork(ground, &parent);
        assert_eq!(ground.count("nr_anon_pages"), 600);
        write_shifted(ground, &child, 0..100, 1000);
        assert_eq!(ground.count("nr_anon_pages"), 700);
        write_shifted(ground, &parent, 0..100, 2000);
        assert_eq!(ground.count("nr_anon_pages"), 700, "the parent has these pages for itself");
        write_shifted(ground, &parent, 100..200, 2000);
        assert_eq!(ground.count("nr_anon_pages"), 800);
        has_shifted(ground, &child, 0..100, 1000);
        has_shifted(ground, &child, 100..600, 0);
        has_shifted(ground, &parent, 0..200, 2000);
        has_shifted(ground, &parent, 200..600, 0);
        ground.check();
        drop_region(ground, &child);
        assert_eq!(ground.count("nr_anon_pages"), 600);
        has_shifted(ground, &parent, 200..600, 0);
        write_shifted(ground, &parent, 200..600, 2000);
        assert_eq!(ground.count("nr_anon_pages"), 600, "nobody else has them any more");
        drop_region(ground, &parent);
        assert_eq!((ground.count("nr_anon_pages"), ground.engine.anonymous().regions().len()), (0, 0));
    });
}

/// A parent ends before its children. The pages that it made are still found by reclaim in the children, go to swap and
/// come back, although the parent's page tables are gone.
#[test]
fn what_a_parent_leaves_to_its_children_can_be_swapped() {
    let vmstat = Plan::default().run(|ground| {
        let pages = PAGES as u32 / 3;
        let parent = ground.region(pages);
        ground.write_stamps(&parent, 0..pages).unwrap();
        let child = fork(ground, &parent);
        let grandchild = fork(ground, &child);
        drop_region(ground, &parent);
        ground.check();
        let hog = ground.region(PAGES as u32);
        ground.write_stamps(&hog, 0..PAGES as u32).unwrap();
        assert!((0..pages).any(|page| grandchild.entry(page).slot().is_some()), "nothing went to swap");
        ground.check();
        has_shifted(ground, &child, 0..pages, 0);
        write_shifted(ground, &child, 0..pages / 2, 5000);
        has_shifted(ground, &grandchild, 0..pages, 0);
        ground.check();
        drop_region(ground, &child);
        has_shifted(ground, &grandchild, 0..pages, 0);
        drop_region(ground, &grandchild);
        drop_region(ground, &hog);
        ground.wait_for_devices();
        assert_eq!((ground.count("nr_anon_pages"), ground.engine.anonymous().regions().len()), (0, 0));
    });
    assert!(vmstat["pswpout"] > PAGES / 3 && vmstat["pswpin"] > 0, "{vmstat:?}");
}

/// Swap slots are shared by a fork, too. A page that comes back for one side is not writable as long as the other side
/// needs it.
#[test]
fn a_fork_shares_what_is_in_swap() {
    Plan::default().run(|ground| {
        let pages = 2 * PAGES as u32;
        let parent = ground.region(pages);
        ground.write_stamps(&parent, 0..pages).unwrap();
        let child = fork(ground, &parent);
        ground.check();
        write_shifted(ground, &child, 0..pages, 100_000);
        has_shifted(ground, &parent, 0..pages, 0);
        write_shifted(ground, &parent, 0..pages, 200_000);
        has_shifted(ground, &child, 0..pages, 100_000);
        has_shifted(ground, &parent, 0..pages, 200_000);
        drop_region(ground, &parent);
        has_shifted(ground, &child, 0..pages, 100_000);
        ground.check();
    });
}

/// Under each policy and with memory that is swapped at once, a parent writes while its children read, as a store does
/// that writes snapshots.
#[test]
fn snapshots_beside_a_writer_stay_as_they_were() {
    for kernel in ["6.1-classic", "6.1-mglru", "6.18-classic", "7.2-mglru"] {
        let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
        plan.choices.access.huge_pages = HugePages::Never;
        plan.run(|ground| {
            let pages = PAGES as u32 * 3 / 4;
            let parent = ground.region(pages);
            for round in 0..6 {
                write_shifted(ground, &parent, 0..pages, round * 10_000);
                let snapshot = fork(ground, &parent);
                let reader = {
                    let snapshot = snapshot.clone();
                    ground.spawn("snapshot", move |ground| has_shifted(ground, &snapshot, 0..pages, round * 10_000))
                };
                write_shifted(ground, &parent, 0..pages / 2, 90_000);
                ground.sim.join(reader);
                has_shifted(ground, &snapshot, 0..pages, round * 10_000);
                drop_region(ground, &snapshot);
            }
            ground.check();
        });
    }
}

/// Huge pages are split by a fork, so that each of their pages is shared and copied by itself.
#[test]
fn a_fork_splits_huge_pages() {
    let mut plan = Plan::default();
    plan.choices.access.huge_pages = HugePages::Always;
    let vmstat = plan.run(|ground| {
        let parent = ground.engine.anonymous().create_region(None, 1024, true);
        ground.write_stamps(&parent, 0..1024).unwrap();
        assert_eq!(ground.count("thp_fault_alloc"), 2);
        let child = fork(ground, &parent);
        write_shifted(ground, &child, 500..530, 3000);
        has_shifted(ground, &parent, 0..1024, 0);
        has_shifted(ground, &child, 500..530, 3000);
        ground.check();
        drop_region(ground, &parent);
        has_shifted(ground, &child, 530..1024, 0);
    });
    assert_eq!(vmstat["thp_split"], 2);
}

/// Large folios whose pages have entries of their own are copied by a fork.
#[test]
fn a_fork_copies_large_folios() {
    let mut plan = Plan::default();
    plan.choices.access.anonymous_folio_order = 4;
    plan.run(|ground| {
        let parent = ground.region(256);
        ground.write_stamps(&parent, 0..256).unwrap();
        let child = fork(ground, &parent);
        assert_eq!(ground.count("nr_anon_pages"), 512);
        write_shifted(ground, &parent, 0..256, 1000);
        has_shifted(ground, &child, 0..256, 0);
        ground.check();
    });
}

/// Without memory for the child's page tables, a fork fails, and the parent goes on.
#[test]
fn a_fork_without_memory_leaves_nothing() {
    Plan { swap_slots: 0, ..Plan::default() }.run(|ground| {
        let parent = ground.region(2048);
        ground.write_stamps(&parent, 0..2048).unwrap();
        let taken = ground.take_until_free(0);
        let child = ground.engine.access().fork_region(&mut ground.task.borrow_mut(), &parent, None);
        assert!(matches!(child, Err(Error::OutOfMemory { .. })), "{:?}", child.err());
        ground.give_back(taken);
        assert_eq!(ground.engine.anonymous().regions().len(), 1);
        write_shifted(ground, &parent, 0..2048, 7);
        has_shifted(ground, &parent, 0..2048, 7);
        ground.check();
    });
}

/// Khugepaged makes no huge page of a child's range while the fork fills it, and none of shared pages.
#[test]
fn khugepaged_leaves_a_fork_alone() {
    let mut plan = Plan { choices: choices_of("7.2-mglru"), ..Plan::default() };
    plan.choices.access.anonymous_folio_order = 4;
    plan.choices.access.huge_pages = HugePages::Always;
    plan.choices.access.khugepaged_scan_sleep_ms = 1;
    plan.run(|ground| {
        let task = ground.engine.khugepaged().expect("this kernel has it");
        let (engine, sim) = (ground.engine.clone(), ground.sim.clone());
        let khugepaged = sim.spawn(&task.name(), move || engine.run(task));
        let parent = ground.engine.anonymous().create_region(None, 1024, true);
        ground.write_stamps(&parent, 0..1024).unwrap();
        for round in 1..20 {
            let child = fork(ground, &parent);
            ground.pause_ms(5);
            has_shifted(ground, &child, 0..1024, (round - 1) * 1000);
            write_shifted(ground, &parent, 0..1024, round * 1000);
            has_shifted(ground, &child, 0..1024, (round - 1) * 1000);
            drop_region(ground, &child);
        }
        ground.sim.kill(khugepaged);
        ground.sim.join(khugepaged);
        ground.check();
    });
}

/// A group at its limit forks: shared pages are charged once, to the parent's group, and copies to the writer's.
#[test]
fn shared_pages_are_charged_once() {
    let plan = crate::groups::plan("6.1-classic");
    plan.run(|ground| {
        let [mine, other] = [(); 2].map(|()| crate::groups::group_with(ground, &[]));
        let parent = ground.region(512);
        crate::groups::within(ground, mine, || ground.write_stamps(&parent, 0..512)).unwrap();
        let usage = |group| crate::groups::groups(ground).usage(group);
        let before = usage(mine);
        let child = crate::groups::within(ground, other, || fork(ground, &parent));
        // Pages that were charged ahead may have been given back.
        assert!((512..=before).contains(&usage(mine)), "{} of {before}", usage(mine));
        let tables = usage(other);
        crate::groups::within(ground, other, || write_shifted(ground, &child, 0..300, 7));
        assert!((300..364 + tables).contains(&usage(other)), "{}", usage(other));
        drop_region(ground, &parent);
        has_shifted(ground, &child, 300..512, 0);
        ground.check();
    });
}

/// Each time that a task has allocated a page for a copy, reclaim has unmapped the page that is to be copied. The fault
/// keeps the copy for its next try, so it ends.
#[test]
fn a_copy_is_kept_until_it_is_used() {
    let plan = Plan { costs: vec![(Step::AllocateFast, 10_000_000)], ..Plan::default() };
    plan.run(|ground| {
        let parent = ground.region(64);
        ground.write_stamps(&parent, 0..64).unwrap();
        let child = fork(ground, &parent);
        let hog = ground.region(PAGES as u32);
        ground.write_stamps(&hog, 0..PAGES as u32).unwrap();
        drop_region(ground, &hog);
        ground.wait_for_devices();
        assert!(child.entry(7).slot().is_some(), "the page is not in swap");
        let unmapped = Found::default();
        let reclaim = {
            let (child, unmapped) = (child.clone(), unmapped.clone());
            ground.spawn("reclaim", move |ground| unmapped.set(unmap_each_ms(ground, &child, 7)))
        };
        write_shifted(ground, &child, 7..8, 1000);
        ground.sim.kill(reclaim);
        ground.sim.join(reclaim);
        assert!((1..4).contains(&unmapped.get()), "the page was unmapped {} times", unmapped.get());
        has_shifted(ground, &child, 7..8, 1000);
        has_shifted(ground, &parent, 0..64, 0);
    });
}

/// Unmaps a page of the swap cache that a region maps, as reclaim does, until the task is killed. Looks each
/// millisecond. Returns how often it has unmapped the page.
fn unmap_each_ms(ground: &Ground, region: &Region<Sim>, page: u32) -> u32 {
    let frames = &ground.engine.memory().frames;
    let mut count = 0;
    while !ground.sim.is_killed() {
        let found = region.entry(page).frame().filter(|frame| frames[*frame].is(Flags::SWAPCACHE));
        if let Some(frame) = found.filter(|frame| frames[*frame].try_lock()) {
            ground.engine.anonymous().try_to_unmap(frame, &mut Owners::default());
            ground.engine.page_cache().unlock_page(frame);
            count += 1;
        }
        ground.sim.pause(Nanos::from_millis(1));
    }
    count
}
