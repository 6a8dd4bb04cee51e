//! Soft limits of groups: kswapd takes pages from the group that is farthest above its limit.

use crate::ground::{Found, PAGES};
use crate::groups::{group_with, groups, plan_of, within};
use engine::memory::{GroupVersion, Limit};
use engine::slab::choices::SlabOrder;

/// Number of file pages that each of the two groups reads.
const READ: u32 = PAGES as u32 / 4;

/// Returns how many pages two groups have left after a task of the root group has read more than memory has. The first
/// group has a soft limit.
fn left(kernel: &str, soft: u64) -> [u64; 2] {
    let found = Found::default();
    let told = found.clone();
    plan_of(GroupVersion::V1, kernel).run(move |ground| {
        let both = [group_with(ground, &[(Limit::Soft, soft)]), group_with(ground, &[])];
        for group in both {
            let file = ground.import(READ);
            within(ground, group, || {
                // Twice, so that the pages are active: else the stream would not leave any.
                ground.read(&file, 0..READ).unwrap();
                ground.read(&file, 0..READ).unwrap();
            });
            ground.engine.lru().drain_all();
        }
        let stream = ground.import(2 * PAGES as u32);
        ground.read(&stream, 0..2 * PAGES as u32).unwrap();
        assert!(ground.count("pageoutrun") > 0, "kswapd has run");
        told.set(both.map(|group| groups(ground).usage(group)));
        ground.check();
    });
    found.get()
}

#[test]
fn kswapd_pushes_a_group_back_to_its_soft_limit() {
    for kernel in ["3.10-rc4-vanilla", "4.18", "6.1-classic", "6.1-mglru"] {
        let soft = u64::from(READ) / 4;
        let [limited, free] = left(kernel, soft);
        let [unlimited, beside] = left(kernel, u64::MAX);
        assert!(limited < unlimited && limited <= soft + 64, "{kernel}: {limited} of {unlimited} pages");
        assert!(free >= beside, "{kernel}: the other group has {free} pages, and {beside} without the soft limit");
    }
}

/// A soft limit does nothing while memory is free.
#[test]
fn a_soft_limit_refuses_no_charge() {
    plan_of(GroupVersion::V1, "6.1-classic").run(|ground| {
        let group = group_with(ground, &[(Limit::Soft, 100)]);
        let file = ground.import(1000);
        within(ground, group, || ground.read(&file, 0..1000)).unwrap();
        ground.engine.lru().drain_all();
        assert!(groups(ground).usage(group) >= 1000 && groups(ground).soft_excess(group) >= 900);
        ground.check();
    });
}

/// Multi-gen LRU with the list of groups (`memcg_lru`): kswapd puts a group above its soft limit at the head of the
/// list. So it reclaims from this group before the other groups of the same list generation.
#[test]
fn a_group_above_its_soft_limit_goes_to_the_head_of_the_list() {
    let mut plan = plan_of(GroupVersion::V1, "6.6-mglru");
    // Nodes of indexes take no memory, so that a group's usage is its file pages.
    plan.choices.slab.order = SlabOrder::SinglePages;
    plan.run(|ground| {
        let both = [group_with(ground, &[]), group_with(ground, &[(Limit::Soft, 100)])];
        for group in both {
            let file = ground.import(READ);
            within(ground, group, || ground.read(&file, 0..READ)).unwrap();
        }
        let stream = ground.import(2 * PAGES as u32);
        ground.read(&stream, 0..2 * PAGES as u32).unwrap();
        ground.engine.lru().drain_all();
        let [free, limited] = both.map(|group| groups(ground).usage(group));
        assert!(limited <= free, "{limited} {free}");
        ground.check();
    });
}
