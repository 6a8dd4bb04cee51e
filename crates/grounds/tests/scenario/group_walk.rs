//! Walks over memory control groups: which groups a reclaim visits, and in which order.

use crate::ground::{Found, Ground, PAGES, Plan, choices_of};
use engine::kernel::Choices;
use engine::lru::ListKind;
use engine::memory::{GroupEvent, GroupId, Groups, Layout, Limit};
use engine::reclaim::choices::GroupWalk;
use sim::Sim;

fn plan(choices: Choices, groups: u16) -> Plan {
    let mut plan = Plan { choices, swap_slots: 0, ..Plan::default() };
    plan.layout.groups = groups;
    plan
}

/// Number of pages of a group that is so large that a scan at the first priority takes some of its pages.
const LARGE: u32 = 5000;

/// Returns a machine with memory for four groups of [`LARGE`] pages, on which global reclaim visits groups as `walk`
/// says.
fn large_plan(walk: GroupWalk) -> Plan {
    let mut choices = choices_of("6.1-mglru");
    choices.reclaim.group_walk = walk;
    let mut plan = plan(choices, 0);
    plan.layout = Layout { groups: 8, ..Layout::flat(8 * PAGES) };
    plan
}

fn groups(ground: &Ground) -> &Groups<Sim> {
    ground.engine.memory().groups.as_ref().expect("the layout has room for groups")
}

fn file_pages(ground: &Ground, group: GroupId) -> u64 {
    let lruvecs = ground.engine.lru().lruvecs_of_group(group);
    lruvecs.iter().map(|lruvec| lruvec.listed(ListKind::InactiveFile) + lruvec.listed(ListKind::ActiveFile)).sum()
}

/// Creates a group below `parent` that has read `pages` pages of a file.
fn reader(ground: &Ground, parent: GroupId, pages: u32) -> GroupId {
    let group = ground.engine.lru().create_group(parent).unwrap();
    let file = ground.import(pages);
    let before = std::mem::replace(&mut ground.task.borrow_mut().group, group);
    ground.read(&file, 0..pages).unwrap();
    ground.task.borrow_mut().group = before;
    ground.engine.lru().drain_all();
    group
}

/// Reads a file of four times memory in the root group.
fn stream(ground: &Ground) {
    let file = ground.import(4 * PAGES as u32);
    ground.read(&file, 0..4 * PAGES as u32).unwrap();
    ground.engine.lru().drain_all();
}

/// Returns the groups in the two generations of the memcg LRU, each in the order in which global reclaim visits them:
/// first the old generation, then the young one.
fn listed(ground: &Ground) -> [Vec<GroupId>; 2] {
    let lru = ground.engine.lru();
    lru.memcg_lru_order(&lru.lruvecs_of_group(GroupId::ROOT)[0])
}

/// A walk over all groups always begins at the first group, so small reclaims take pages only from the first child.
/// Walks with a shared position begin at the group after the one at which the previous walk ended.
#[test]
fn a_walk_goes_on_behind_the_group_where_the_last_one_ended() {
    let lost = |walk| {
        let found = Found::default();
        let told = found.clone();
        large_plan(walk).run(move |ground| {
            let parent = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
            let children = [(); 4].map(|()| reader(ground, parent, LARGE));
            let reclaim = || {
                ground.engine.reclaim().reclaim_group(&mut ground.task.borrow_mut(), parent, 32, None);
                ground.engine.lru().drain_all();
            };
            // The first scan of a group only finds that its oldest generation is empty.
            reclaim();
            let mut lost = [[0; 4]; 4];
            for lost in &mut lost {
                let before = children.map(|child| file_pages(ground, child));
                reclaim();
                *lost = [0, 1, 2, 3].map(|n| before[n] - file_pages(ground, children[n]));
            }
            told.set(lost);
            ground.check();
        });
        found.get()
    };
    let of_each = |lost: [[u64; 4]; 4]| [0, 1, 2, 3].map(|child| lost.iter().map(|lost| lost[child]).sum::<u64>());
    let [first, others @ ..] = of_each(lost(GroupWalk::All));
    assert_eq!((first, others), (256, [0; 3]), "each reclaim takes its pages from the first child");
    for walk in [GroupWalk::SharedPosition, GroupWalk::SharedByPriority, GroupWalk::SharedEndingEarly] {
        let lost = lost(walk);
        assert_eq!(of_each(lost), [64; 4], "{walk:?}: {lost:?}");
        // The parent has no pages. Each reclaim takes one batch, from the child behind that of the last reclaim.
        let first = lost[0].iter().position(|pages| *pages > 0).unwrap();
        for (n, lost) in lost.iter().enumerate() {
            assert_eq!(lost[(first + n) % 4], 64, "{walk:?}: {lost:?}");
        }
    }
}

/// Large groups fill memory, and a task reads a file and so reclaims directly. With the walk of Linux 5.1 to 5.4, each
/// reclaim stops visiting groups once it has freed enough pages. With the walk of earlier kernels, it goes on to the
/// last group, and so frees more pages.
#[test]
fn a_task_that_wants_a_page_ends_its_walk_early() {
    let freed_at_a_time = |walk| {
        let found = Found::default();
        let told = found.clone();
        let mut plan = large_plan(walk);
        plan.with_kswapd = false;
        plan.choices.lru.policy = choices_of("5.4").lru.policy;
        plan.run(move |ground| {
            let groups = [(); 4].map(|()| reader(ground, GroupId::ROOT, LARGE));
            let [freed, stalls] = ["pgsteal_direct_normal", "allocstall"].map(|name| ground.count(name));
            let file = ground.import(8 * PAGES as u32);
            ground.read(&file, 0..8 * PAGES as u32).unwrap();
            let left = groups.map(|group| file_pages(ground, group));
            assert!(left.iter().all(|pages| *pages < u64::from(LARGE)), "all groups lose pages: {left:?}");
            let [freed, stalls] =
                [("pgsteal_direct_normal", freed), ("allocstall", stalls)].map(|(name, n)| ground.count(name) - n);
            told.set(freed / stalls.max(1));
            ground.check();
        });
        found.get()
    };
    let [early, all] = [GroupWalk::SharedEndingEarly, GroupWalk::SharedByPriority].map(freed_at_a_time);
    assert!(early >= 32 && early < all, "{early} and {all} pages in each reclaim");
}

/// Two tasks that reclaim at the same time take pages of different groups.
#[test]
fn tasks_that_reclaim_at_a_time_share_a_walk() {
    large_plan(GroupWalk::SharedPosition).run(move |ground| {
        let parent = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
        let children = [(); 4].map(|()| reader(ground, parent, LARGE));
        let tasks = ["a", "b", "c", "d"].map(|name| {
            ground.spawn(name, move |ground| {
                ground.engine.reclaim().reclaim_group(&mut ground.task.borrow_mut(), parent, 32, None);
            })
        });
        tasks.iter().for_each(|task| {
            ground.sim.join(*task);
        });
        ground.engine.lru().drain_all();
        assert_eq!(children.map(|child| file_pages(ground, child)), [u64::from(LARGE) - 64; 4]);
        ground.check();
    });
}

/// A reclaim that frees nothing from the groups after the shared position starts again and visits all groups, so that
/// it does not fail while a group before the position has pages.
#[test]
fn a_reclaim_that_finds_nothing_behind_the_position_visits_all_groups() {
    let mut choices = choices_of("6.12-classic");
    choices.reclaim.group_walk = GroupWalk::SharedPosition;
    plan(choices, 8).run(move |ground| {
        let parent = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
        let full = reader(ground, parent, 800);
        let _empty = [(); 3].map(|()| ground.engine.lru().create_group(parent).unwrap());
        let reclaim = |pages| ground.engine.reclaim().reclaim_group(&mut ground.task.borrow_mut(), parent, pages, None);
        assert!(reclaim(32) >= 32 && reclaim(700) >= 700);
        assert!(file_pages(ground, full) < 100);
        ground.check();
    });
}

/// New groups come into the old generation. A removed group goes to the old generation, and leaves the list with its last
/// page.
#[test]
fn a_group_is_on_the_list_while_it_exists() {
    plan(choices_of("6.6-mglru"), 8).run(move |ground| {
        let [a, b, c] = [(); 3].map(|()| reader(ground, GroupId::ROOT, 300));
        let sorted = |mut groups: Vec<GroupId>| {
            groups.sort_unstable();
            groups
        };
        let [old, young] = listed(ground);
        assert_eq!((sorted(old), young), (vec![GroupId::ROOT, a, b, c], Vec::new()));
        ground.engine.lru().remove_group(b).unwrap();
        assert!(listed(ground)[0].contains(&b), "it has pages");
        ground.check();
        stream(ground);
        assert_eq!(groups(ground).usage(b), 0, "the pages of a removed group are taken");
        // The next group gets the number of the removed one.
        let new = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
        assert_eq!(new, b);
        assert_eq!(sorted(listed(ground).concat()), [GroupId::ROOT, a, b, c]);
        ground.check();
    });
}

/// A walk over the groups ends as soon as it has freed enough pages. Nevertheless each group loses pages in the course
/// of several reads of a large file, because a group that was aged goes to the young generation and is not visited
/// again before the others.
#[test]
fn the_list_of_groups_is_fair_over_time() {
    for kernel in ["6.6-mglru", "6.14-mglru", "7.2-mglru"] {
        let mut choices = choices_of(kernel);
        choices.memory.min_free_kbytes = 1024;
        plan(choices, 8).run(move |ground| {
            let children = [(); 6].map(|()| reader(ground, GroupId::ROOT, 400));
            let mut was_young = false;
            for _ in 0..4 {
                stream(ground);
                was_young |= !listed(ground)[1].is_empty();
            }
            let left = children.map(|child| file_pages(ground, child));
            assert!(left.iter().all(|pages| *pages < 400), "{kernel}: {left:?}");
            assert!(was_young, "{kernel}: no group was aged");
            ground.check();
        });
    }
}

/// Multi-gen LRU with the list of groups. When reclaim visits a group within its `min` protection, the group goes to
/// the young generation and keeps its pages. A group within its `low` protection first goes to the tail of its
/// generation's list. The second visit takes its pages, and counts a `low` event.
#[test]
fn protection_puts_a_group_aside() {
    let run = |limit| {
        let mut choices = choices_of("6.6-mglru");
        choices.memory.min_free_kbytes = 1024;
        let found = Found::default();
        let told = found.clone();
        plan(choices, 8).run(move |ground| {
            let group = reader(ground, GroupId::ROOT, 800);
            groups(ground).set_limit(group, limit, 900);
            stream(ground);
            told.set((file_pages(ground, group), groups(ground).events(group, GroupEvent::Low)));
            ground.check();
        });
        found.get()
    };
    assert_eq!(run(Limit::Min), (800, 0));
    let (left, low) = run(Limit::Low);
    assert_eq!(left < 800, low > 0, "{left} pages are left after {low} events");
}

/// If each pass of reclaim visits all groups, kswapd's CPU time grows with the number of groups, even if all groups but
/// one have a single page. With the list of groups (`multigen.memcg_lru`), it does not.
#[test]
fn the_list_of_groups_saves_kswapd_the_visits() {
    let kswapd_ns = |kernel: &str, count: u16| {
        let mut choices = choices_of(kernel);
        choices.memory.min_free_kbytes = 1024;
        let found = Found::default();
        let told = found.clone();
        plan(choices, 320).run(move |ground| {
            (0..count).for_each(|_| {
                reader(ground, GroupId::ROOT, 1);
            });
            let (before, freed) = (ground.sim.cpu_time_of("kswapd"), ground.count("pgsteal_kswapd_normal"));
            stream(ground);
            let freed = ground.count("pgsteal_kswapd_normal") - freed;
            told.set(ground.sim.cpu_time_of("kswapd").since(before).0 / freed.max(1));
        });
        found.get()
    };
    let growth = |kernel| kswapd_ns(kernel, 300) as f64 / kswapd_ns(kernel, 1) as f64;
    let (walk, list) = (growth("6.1-mglru"), growth("6.6-mglru"));
    assert!(walk > 2.0 && list < 1.5, "{walk} and {list} times as much for each page");
}
