//! The dirty limits of groups: a writer is throttled by the lower of its group's limits and those of all memory.

use crate::ground::{Found, Ground};
use crate::groups::{KERNELS, group_with, groups, plan, plan_of, within};
use engine::memory::{GroupEvent, GroupId, GroupVersion, Limit};
use engine::writeback::choices::{GroupLimits, WriteFailure};
use machine::{IoError, Machine, Nanos, Operation, PAGE_BYTES};
use sim::disk::Fault;

/// Largest number of pages that may be charged to a group in the scenarios.
const MAX_PAGES: u64 = 1000;

const PAGE: u64 = PAGE_BYTES as u64;

fn dirty(ground: &Ground, group: GroupId) -> u64 {
    let stat = ground.engine.lru().group_stat(group);
    stat["file_dirty"] + stat["file_writeback"]
}

/// Returns the largest number of dirty pages that a group has while its task writes 4000 pages to a slow disk.
fn most_dirty(kernel: &str, limits: GroupLimits, group_limits: &'static [(Limit, u64)]) -> u64 {
    // Four channels: 2000 pages a second.
    let mut plan = crate::ground::Plan { write_ns: 2_000_000, ..plan(kernel) };
    plan.choices.writeback.group_limits = limits;
    (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (20, 10);
    let found = Found::default();
    let told = found.clone();
    plan.run(move |ground| {
        let group = group_with(ground, group_limits);
        let file = ground.create();
        let writer =
            ground.spawn("writer", move |ground| within(ground, group, || ground.write(&file, 0..4000)).unwrap());
        let mut most = 0;
        while !ground.sim.is_finished(writer) {
            ground.pause_ms(1);
            most = most.max(dirty(ground, group));
        }
        told.set(most);
        ground.check();
    });
    found.get()
}

/// A task of a group writes to a slow disk. The group has a limit of 1,000 pages. With dirty limits by group, a fifth
/// of these pages may be dirty. Without them, the limit of all memory holds, which is higher, so the group has more
/// dirty pages.
#[test]
fn a_group_has_a_share_of_its_own_memory_dirty() {
    for kernel in KERNELS {
        let by_group = most_dirty(kernel, GroupLimits::ByGroup, &[(Limit::Max, MAX_PAGES)]);
        let by_high = most_dirty(kernel, GroupLimits::ByGroup, &[(Limit::High, MAX_PAGES)]);
        let of_memory = most_dirty(kernel, GroupLimits::Off, &[(Limit::Max, MAX_PAGES)]);
        // A writer looks at the limit only once in some pages. `high` refuses no charge, so the group may also have some
        // more pages of files, of which a fifth may be dirty.
        assert!((100..=MAX_PAGES / 4).contains(&by_group), "{kernel}: {by_group}");
        assert!((100..=MAX_PAGES / 4).contains(&by_high), "{kernel}: {by_high}");
        assert!(of_memory > MAX_PAGES * 2 / 5, "{kernel}: {of_memory}");
    }
}

/// A group has no memory limit of its own. It may have as many dirty pages with dirty limits by group as without,
/// because the dirty limits of all memory hold for it.
#[test]
fn a_group_without_limits_has_those_of_memory() {
    let [by_group, of_memory] =
        [GroupLimits::ByGroup, GroupLimits::Off].map(|limits| most_dirty("6.1-classic", limits, &[]));
    assert!(by_group.abs_diff(of_memory) <= of_memory / 4, "{by_group} {of_memory}");
}

/// A group of version 1 has no dirty limits of its own, so its task fills it with dirty pages. The task then reclaims at
/// the limit, and waits there until pages are written.
#[test]
fn a_group_of_version_1_has_the_dirty_limits_of_memory() {
    for version in [GroupVersion::V1, GroupVersion::V1WithMemsw] {
        for kernel in KERNELS {
            let mut plan = crate::ground::Plan { write_ns: 2_000_000, ..plan_of(version, kernel) };
            assert!(matches!(plan.choices.writeback.group_limits, GroupLimits::ByGroup), "{kernel}");
            (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (20, 10);
            plan.run(move |ground| {
                let group = group_with(ground, &[(Limit::Max, MAX_PAGES)]);
                let file = ground.create();
                let writer = ground
                    .spawn("writer", move |ground| within(ground, group, || ground.write(&file, 0..4000)).unwrap());
                let mut most = 0;
                while !ground.sim.is_finished(writer) {
                    ground.pause_ms(1);
                    most = most.max(dirty(ground, group));
                }
                assert!(most > MAX_PAGES * 2 / 5, "{kernel}: at most {most} pages are dirty");
                let events = |event| groups(ground).events(group, event);
                assert!(events(GroupEvent::Max) > 0, "{kernel}: the task has reached the limit of memory");
                assert_eq!(events(GroupEvent::Oom), 0, "{kernel}: the task has waited for the disk");
                ground.check();
            });
        }
    }
}

/// Two groups dirty 140 pages each. For one of them, this is above the group's background limit, so the flusher writes
/// its files. The other group has no limit of its own, and its dirty pages are below the limit of all memory, so its
/// files are not written.
#[test]
fn the_flusher_begins_at_the_background_limit_of_a_group() {
    for (limits, written) in [(GroupLimits::ByGroup, true), (GroupLimits::Off, false)] {
        let mut plan = plan("6.1-classic");
        plan.choices.writeback.group_limits = limits;
        (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (20, 10);
        plan.run(move |ground| {
            let (limited, free) = (group_with(ground, &[(Limit::Max, MAX_PAGES)]), group_with(ground, &[]));
            for (group, pages) in [(free, 140), (limited, 140)] {
                let file = ground.create();
                within(ground, group, || ground.write(&file, 0..pages)).unwrap();
            }
            ground.pause_ms(1000);
            assert_eq!(dirty(ground, free), 140, "a tenth of memory is more");
            assert_eq!(dirty(ground, limited) < 140, written, "{}", dirty(ground, limited));
            ground.check();
        });
    }
}

/// A group dirties pages of a file that another group dirtied first. These pages are written, too, so their writer is
/// not throttled for ever.
#[test]
fn pages_in_files_of_other_groups_are_written() {
    let mut plan = plan("6.1-classic");
    plan.choices.writeback.dirty_expire_ms = 1 << 40;
    plan.run(|ground| {
        let (limited, free) = (group_with(ground, &[(Limit::Max, MAX_PAGES)]), group_with(ground, &[]));
        let file = ground.create();
        within(ground, free, || ground.write(&file, 0..1)).unwrap();
        within(ground, limited, || ground.write(&file, 1..3000)).unwrap();
        ground.pause_ms(1000);
        assert!(dirty(ground, limited) <= MAX_PAGES / 5, "{}", dirty(ground, limited));
        ground.check();
    });
}

/// Some pages of a group cannot be written. The dirty limits are in bytes and low, so the group's part of them is no
/// page at all. The failed pages do not count, so a task of the group that writes another file is not throttled for
/// ever.
#[test]
fn pages_that_cannot_be_written_throttle_nobody_in_their_group() {
    let mut plan = plan("6.1-classic");
    plan.choices.writeback.write_failure = WriteFailure::KeepDirty;
    (plan.choices.writeback.dirty_bytes, plan.choices.writeback.dirty_background_bytes) = (64 * PAGE, 16 * PAGE);
    plan.run(|ground| {
        let group = group_with(ground, &[(Limit::Max, MAX_PAGES / 10)]);
        let (failing, other) = (ground.import(20), ground.create());
        ground.inject(Fault::Blocks { blocks: 1..21, operation: Some(Operation::Write), error: IoError::Device });
        within(ground, group, || ground.write(&failing, 0..20)).unwrap();
        assert!(ground.fsync(&failing).is_err());
        ground.pause_ms(100);
        assert_eq!(ground.engine.lru().group_stat(group)["file_write_failed"], 20);
        let began = ground.sim.now();
        within(ground, group, || ground.write(&other, 0..200)).unwrap();
        let took = ground.sim.now().since(began);
        assert!(took < Nanos::from_secs(20), "200 writes took {took}");
        ground.check();
    });
}
