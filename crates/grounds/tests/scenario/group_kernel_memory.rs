//! Kernel memory that is charged to groups: objects in slabs, index nodes, stacks, page tables.

use crate::ground::{Ground, PAGES};
use crate::groups::{KERNELS, group_with, groups, plan, within};
use engine::memory::group::kernel::STACK_BYTES;
use engine::memory::{GroupEvent, GroupId, KernelMemory, Limit};
use engine::slab::choices::SlabOrder;

/// Returns the values of the counters `names` in a group's `memory.stat`, pages.
fn stat<const N: usize>(ground: &Ground, group: GroupId, names: [&str; N]) -> [u64; N] {
    let stat = ground.engine.lru().group_stat(group);
    names.map(|name| stat[name])
}

/// Returns the number of pages charged to a group, without those that CPUs have charged in advance (stocks).
fn used(ground: &Ground, group: GroupId) -> u64 {
    groups(ground).usage(group) - groups(ground).stocked_pages(group)
}

fn look_up(ground: &Ground, numbers: std::ops::Range<u32>) -> Result<(), engine::Error> {
    let mut task = ground.task.borrow_mut();
    for number in numbers {
        ground.engine.access().look_up(&mut task, number)?;
    }
    Ok(())
}

/// Drops all objects that are charged to groups (`drop_slabs`). A shrinker drops nothing while a cache has few objects,
/// so 400 objects of the root group are created first.
fn drop_objects(ground: &Ground) {
    look_up(ground, 1000..1400).unwrap();
    ground.engine.reclaim().drop_slabs(&mut ground.task.borrow_mut());
}

/// Two groups look up inodes and directory entries, some of them the same. Each object is charged by its size to the
/// group that looks it up first, because that lookup creates it. The charge ends when reclaim drops the object.
#[test]
fn objects_are_charged_to_the_group_that_made_them() {
    for kernel in KERNELS {
        plan(kernel).run(move |ground| {
            let [first, second] = [(); 2].map(|()| group_with(ground, &[]));
            within(ground, first, || look_up(ground, 0..100)).unwrap();
            within(ground, second, || look_up(ground, 50..150)).unwrap();
            // 100 inodes of 1016 bytes and 100 entries of 192 bytes are 29.5 pages, and half as many are 14.7.
            assert_eq!([first, second].map(|group| used(ground, group)), [30, 15], "{kernel}");
            assert_eq!(stat(ground, second, ["slab_reclaimable", "slab_unreclaimable"]), [15, 0], "{kernel}");
            ground.check();
            drop_objects(ground);
            assert_eq!([first, second].map(|group| used(ground, group)), [0, 0], "{kernel}");
            ground.check();
        });
    }
}

/// The index nodes of a file are charged to the group of the file's pages, and are freed together with the pages.
#[test]
fn index_nodes_are_charged_with_the_pages_of_a_file() {
    for kernel in KERNELS {
        let mut plan = plan(kernel);
        plan.choices.slab.order = SlabOrder::Slub;
        plan.run(move |ground| {
            let group = group_with(ground, &[]);
            let file = ground.import(640);
            within(ground, group, || ground.read(&file, 0..640)).unwrap();
            // Ten nodes of 560 bytes.
            assert_eq!(stat(ground, group, ["slab_reclaimable"]), [2], "{kernel}");
            assert_eq!(used(ground, group), 642, "{kernel}");
            ground.check();
            ground.engine.access().drop_caches();
            assert_eq!((stat(ground, group, ["slab_reclaimable"]), used(ground, group)), ([0], 0), "{kernel}");
        });
    }
}

/// Tasks of a group create more kernel objects than the group's limit allows. The charge fails, and the group counts an
/// OOM. After the objects are dropped, new ones can be charged.
#[test]
fn objects_beyond_a_limit_are_refused() {
    plan("6.1-classic").run(|ground| {
        let group = group_with(ground, &[(Limit::Max, 20)]);
        assert!(within(ground, group, || look_up(ground, 0..100)).is_err());
        assert_eq!(groups(ground).events(group, GroupEvent::Oom), 1);
        assert_eq!(used(ground, group), 20, "a limit is met to the page");
        ground.check();
        drop_objects(ground);
        within(ground, group, || look_up(ground, 0..50)).unwrap();
        assert_eq!(used(ground, group), 15);
    });
}

/// A group is removed while kernel objects are charged to it. The objects are then charged to its parent. The group
/// leaves the tree at once, and its number becomes free when the objects are dropped.
#[test]
fn the_objects_of_a_removed_group_go_to_its_parent() {
    plan("6.1-mglru").run(|ground| {
        let parent = group_with(ground, &[]);
        let child = ground.engine.lru().create_group(parent).unwrap();
        within(ground, child, || look_up(ground, 0..100)).unwrap();
        ground.engine.lru().remove_group(child).unwrap();
        assert_eq!(groups(ground).subtree(GroupId::ROOT)[..], [GroupId::ROOT, parent]);
        assert_eq!((used(ground, parent), stat(ground, parent, ["slab_reclaimable"])), (30, [30]));
        ground.check();
        let next = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
        assert_ne!(next, child, "objects still name the removed group");
        ground.engine.reclaim().drop_slabs(&mut ground.task.borrow_mut());
        assert_eq!((used(ground, parent), used(ground, next)), (0, 0));
        assert_eq!(ground.engine.lru().create_group(GroupId::ROOT), Ok(child), "its number is free again");
        ground.check();
    });
}

/// The stack of a task is charged to the group of the task that starts it, and page tables to the group of the task
/// that needs them.
#[test]
fn stacks_and_page_tables_are_counted_by_group() {
    plan("6.1-classic").run(|ground| {
        let group = group_with(ground, &[]);
        let start = || ground.engine.allocate().charge_stack(&mut ground.task.borrow_mut());
        assert_eq!((start(), within(ground, group, start)), (GroupId::ROOT, group));
        let region = ground.region(600);
        within(ground, group, || ground.touch(&region, 0..600, true)).unwrap();
        assert_eq!(stat(ground, group, ["kernel_stack", "pagetables"]), [4, 2]);
        assert_eq!(used(ground, group), 606);
        let tight = group_with(ground, &[(Limit::Max, 2)]);
        assert_eq!(within(ground, tight, start), tight, "a task starts over the limit");
        assert_eq!(used(ground, tight), 4);
        ground.check();
        for group in [group, tight] {
            ground.engine.memory().free_object(group, KernelMemory::KernelStack, STACK_BYTES);
        }
        ground.engine.access().drop_region(&region);
        assert_eq!((used(ground, group), stat(ground, group, ["kernel_stack", "pagetables"])), (0, [0, 0]));
        ground.check();
    });
}

/// Dirty pages of files, and pages that are being written, are counted by the group that is charged for them.
#[test]
fn dirty_pages_are_counted_by_group() {
    for kernel in KERNELS {
        plan(kernel).run(move |ground| {
            let group = group_with(ground, &[]);
            let file = ground.import(PAGES as u32 / 8);
            within(ground, group, || ground.write(&file, 0..100)).unwrap();
            assert_eq!(stat(ground, group, ["file_dirty", "file_writeback"]), [100, 0], "{kernel}");
            ground.check();
            ground.fsync(&file).unwrap();
            assert_eq!(stat(ground, group, ["file_dirty", "file_writeback"]), [0, 0], "{kernel}");
        });
    }
}
