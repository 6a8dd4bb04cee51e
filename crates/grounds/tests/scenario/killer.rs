//! The out-of-memory killer: which process is killed, in which group, and which memory becomes free.

use crate::ground::{Ground, PAGES, Plan, choices_of, stamp};
use engine::allocate::out_of_memory::{Exhausted, Kill};
use engine::anonymous::Process;
use engine::memory::{Gfp, GroupEvent, GroupId, Groups, Limit};
use engine::stat::Gauge;
use engine::{Error, KernelTask};
use machine::{Machine, Nanos, Order};
use sim::{Sim, TaskId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

fn plan() -> Plan {
    let mut plan = Plan { choices: choices_of("6.1-classic"), swap_slots: 0, ..Plan::default() };
    plan.layout.groups = 4;
    plan
}

/// The tasks of all processes, each with the number of its process. When the OOM killer kills a process, its tasks are
/// killed.
#[derive(Clone, Default)]
struct Tasks(Rc<RefCell<Vec<(u32, TaskId)>>>);

impl Tasks {
    fn of(ground: &Ground) -> Self {
        let tasks = Self::default();
        let (listed, sim) = (tasks.0.clone(), ground.sim.clone());
        ground.sim.on_kill_process(move |process| {
            let of_process = |(_, task): &(u32, TaskId)| *task;
            let killed: Vec<_> = listed.borrow().iter().filter(|(of, _)| *of == process).map(of_process).collect();
            killed.into_iter().for_each(|task| sim.kill(task));
        });
        tasks
    }

    /// Starts a task that runs `body` as the only task of a new process. The process exits when `body` returns.
    fn start(
        &self,
        ground: &Ground,
        name: &str,
        group: GroupId,
        adj: i16,
        body: impl FnOnce(&Ground) + 'static,
    ) -> (Arc<Process>, TaskId) {
        let process = ground.engine.anonymous().create_process(name, group);
        process.set_oom_score_adj(adj);
        let own = process.clone();
        let task = ground.spawn(name, move |ground| {
            ground.task.borrow_mut().process = Some(own.id);
            ground.task.borrow_mut().group = group;
            body(ground);
            ground.engine.access().exit_process(&own);
        });
        self.0.borrow_mut().push((process.id.0, task));
        (process, task)
    }
}

fn groups(ground: &Ground) -> &Groups<Sim> {
    ground.engine.memory().groups.as_ref().expect("the layout has room for groups")
}

fn free_pages(ground: &Ground) -> u64 {
    ground.engine.memory().drain_all_per_cpu();
    ground.engine.memory().gauge(Gauge::NrFreePages)
}

/// Maps and stamps pages, waits, and verifies them. Returns whether the program was killed before that.
fn hold(ground: &Ground, pages: u32, wait_ms: u64) -> bool {
    let region = ground.region(pages);
    match ground.write_stamps(&region, 0..pages) {
        Ok(()) => {}
        Err(Error::Killed) => return true,
        Err(error) => panic!("{error}"),
    }
    ground.pause_ms(wait_ms);
    if !ground.sim.is_killed() {
        (0..pages).for_each(|page| assert_eq!(ground.read_stamp(&region, page), Ok(stamp(page))));
    }
    ground.sim.is_killed()
}

fn only_kill(ground: &Ground) -> Kill {
    let mut kills = ground.engine.allocate().kills();
    assert_eq!(kills.len(), 1, "{kills:?}");
    kills.remove(0)
}

/// A program that needs more than all memory is killed, because it is the largest process. The other programs keep
/// their pages, and all memory of the killed program becomes free.
#[test]
fn the_largest_program_is_killed_and_its_memory_comes_back() {
    let vmstat = plan().run(|ground| {
        let free = free_pages(ground);
        let tasks = Tasks::of(ground);
        let fates = Rc::new(RefCell::new(Vec::new()));
        let start = |name: &'static str, pages, wait_ms| {
            let fates = fates.clone();
            let body = move |ground: &Ground| {
                let fate = hold(ground, pages, wait_ms);
                fates.borrow_mut().push((name, fate));
            };
            tasks.start(ground, name, GroupId::ROOT, 0, body)
        };
        let small = start("small", 300, 20_000);
        let medium = start("medium", 900, 20_000);
        ground.pause_ms(100);
        let large = start("large", 2 * PAGES as u32, 0);
        for (_, task) in [&large, &small, &medium] {
            ground.sim.join(*task);
        }
        assert_eq!(*fates.borrow(), [("large", true), ("small", false), ("medium", false)]);
        let kill = only_kill(ground);
        let Kill { exhausted, ref by, victim, ref candidates, .. } = kill;
        assert_eq!((exhausted, candidates[victim].id), (Exhausted::Memory, large.0.id));
        assert_eq!(*by, Some(("large".to_owned(), 0)));
        let sizes: Vec<_> = candidates.iter().map(|it| (it.name.as_str(), it.resident.anon)).collect();
        assert_eq!(sizes[..2], [("small", 300), ("medium", 900)]);
        assert!(candidates[victim].resident.anon > PAGES - 300 - 900 - 700, "{candidates:?}");
        assert_eq!(candidates[0].resident.tables, 1);
        assert_eq!(free_pages(ground), free);
        assert!(ground.engine.anonymous().processes().is_empty());
    });
    assert_eq!((vmstat["oom_kill"], vmstat["oom"]), (1, 0));
}

/// A group reaches its memory limit. The killer ends a process of this group, although a larger process runs outside of
/// the group and memory is free.
#[test]
fn a_full_group_kills_its_own() {
    plan().run(|ground| {
        let tasks = Tasks::of(ground);
        let group = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
        let inner = ground.engine.lru().create_group(group).unwrap();
        groups(ground).set_limit(group, Limit::Max, 600);
        let outside = tasks.start(ground, "outside", GroupId::ROOT, 0, |ground| assert!(!hold(ground, 2000, 5000)));
        let beside = tasks.start(ground, "beside", group, 0, |ground| assert!(!hold(ground, 200, 5000)));
        ground.pause_ms(100);
        let inside = tasks.start(ground, "inside", inner, 0, |ground| assert!(hold(ground, 700, 0)));
        for (_, task) in [&inside, &outside, &beside] {
            ground.sim.join(*task);
        }
        let kill = only_kill(ground);
        assert_eq!(kill.exhausted, Exhausted::Group(group));
        assert_eq!(kill.candidates.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["beside", "inside"]);
        assert_eq!(kill.candidates[kill.victim].id, inside.0.id);
        let events = |id| [GroupEvent::Oom, GroupEvent::OomKill].map(|event| groups(ground).events(id, event));
        assert_eq!((events(group), events(inner)), ([1, 0], [0, 1]));
        // The removal empties the stocks of all CPUs.
        ground.engine.lru().remove_group(inner).unwrap();
        assert_eq!(groups(ground).usage(group), 0);
    });
}

/// The page tables of a program take its group to the limit. Nothing can be reclaimed, so the program is killed, and its
/// page tables are uncharged.
#[test]
fn a_program_whose_page_tables_fill_its_group_is_killed() {
    Plan { swap_slots: 16385, ..plan() }.run(|ground| {
        let tasks = Tasks::of(ground);
        let group = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
        groups(ground).set_limit(group, Limit::Max, 100);
        let (program, task) = tasks.start(ground, "sparse", group, 0, |ground| {
            // One page of each page table, which maps 512 pages.
            let region = ground.region(200 * 512);
            let touched = (0..200).try_for_each(|n| ground.touch(&region, n * 512..n * 512 + 1, true));
            assert!(matches!(touched, Err(Error::Killed)), "{touched:?}");
        });
        ground.sim.join(task);
        let kill = only_kill(ground);
        assert_eq!((kill.exhausted, kill.candidates[kill.victim].id), (Exhausted::Group(group), program.id));
        let resident = kill.candidates[kill.victim].resident;
        // Up to 15 pages are in a CPU's LRU batch, where reclaim does not find them.
        assert!((80..=100).contains(&resident.tables) && resident.swapped >= 80, "{resident:?}");
        assert_eq!(ground.engine.lru().group_stat(group)["pagetables"], 0);
        ground.engine.lru().drain_all();
        ground.engine.lru().remove_group(group).unwrap();
        assert_eq!(groups(ground).usage(group), 0);
    });
}

/// A group with `memory.oom.group` is killed as a whole, except for a process that may never be killed.
#[test]
fn a_group_can_be_killed_as_a_whole() {
    let vmstat = plan().run(|ground| {
        let tasks = Tasks::of(ground);
        let group = ground.engine.lru().create_group(GroupId::ROOT).unwrap();
        groups(ground).set_limit(group, Limit::Max, 600);
        groups(ground).set_oom_group(group, true);
        let never = Process::NEVER;
        let kept = tasks.start(ground, "kept", group, never, |ground| assert!(!hold(ground, 100, 5000)));
        let small = tasks.start(ground, "small", group, 0, |ground| assert!(hold(ground, 50, 60_000)));
        ground.pause_ms(100);
        let large = tasks.start(ground, "large", group, 0, |ground| assert!(hold(ground, 700, 0)));
        for (_, task) in [&large, &small, &kept] {
            ground.sim.join(*task);
        }
        let kill = only_kill(ground);
        assert_eq!((kill.victim, kill.whole, kill.others), (2, Some(group), vec![1]));
        let events = [GroupEvent::OomKill, GroupEvent::OomGroupKill].map(|event| groups(ground).events(group, event));
        assert_eq!(events, [2, 1]);
        assert!(ground.sim.now() < Nanos::from_secs(10), "the small program was waiting");
    });
    assert_eq!(vmstat["oom_kill"], 2);
}

/// No process is killed if the only process has an `oom_score_adj` of -1000, nor for a request of a costly order. In
/// both cases the request fails.
#[test]
fn a_request_fails_if_nobody_can_be_killed() {
    let vmstat = plan().run(|ground| {
        let tasks = Tasks::of(ground);
        let (_, task) = tasks.start(ground, "never", GroupId::ROOT, Process::NEVER, |ground| {
            let region = ground.region(2 * PAGES as u32);
            let error = ground.write_stamps(&region, 0..region.pages).unwrap_err();
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
            let process = ground.engine.anonymous().processes().remove(0);
            process.set_oom_score_adj(0);
            let costly = Gfp { repeat: true, ..Gfp::KERNEL };
            let refused = ground.engine.allocate().allocate(&mut ground.task.borrow_mut(), costly, Order(4));
            assert_eq!(refused.unwrap_err().order, Order(4));
        });
        ground.sim.join(task);
        assert!(ground.engine.allocate().kills().is_empty());
    });
    assert_eq!((vmstat["oom_kill"], vmstat["oom"]), (0, 1));
}

/// A killed program computes on and does not end. The reaper frees its memory after two seconds, and until then nobody
/// else is killed.
#[test]
fn the_reaper_frees_the_memory_of_a_program_that_does_not_end() {
    plan().run(|ground| {
        let tasks = Tasks::of(ground);
        let reaper = KernelTask::OomReaper;
        let engine = ground.engine.clone();
        let reaper = ground.sim.spawn(&reaper.name(), move || engine.run(reaper));
        let (stuck, stuck_task) = tasks.start(ground, "stuck", GroupId::ROOT, 0, |ground| {
            let region = ground.region(2500);
            ground.write_stamps(&region, 0..2500).unwrap();
            while ground.sim.now() < Nanos::from_secs(20) {
                ground.sim.compute(Nanos::from_millis(10));
            }
            assert!(ground.sim.is_killed());
            assert_eq!(ground.touch(&region, 0..1, false), Err(Error::Killed), "its page is gone");
        });
        ground.pause_ms(1000);
        let served_at = Rc::new(Cell::new(Nanos(0)));
        let told = served_at.clone();
        let (_, other) = tasks.start(ground, "other", GroupId::ROOT, 0, move |ground| {
            assert!(!hold(ground, 2000, 0));
            told.set(ground.sim.now());
        });
        ground.sim.join(other);
        let kill = only_kill(ground);
        assert_eq!(kill.candidates[kill.victim].id, stuck.id);
        let took = served_at.get().since(kill.at);
        assert!((Nanos::from_secs(2)..Nanos::from_secs(3)).contains(&took), "{took:?}");
        ground.sim.join(stuck_task);
        ground.sim.kill(reaper);
        ground.sim.join(reaper);
    });
}
