//! Memory control groups of a random world: a tree whose limits change while tasks move between groups, and whose groups
//! come and go.

use super::chance::{log_between, pick};
use engine::memory::{GroupError, GroupId, GroupVersion, Groups, Limit};
use engine::{Engine, Task};
use sim::{Rng, Sim};
use std::cell::RefCell;

/// Largest number of memory control groups that exist at a time in a random world. A removed group counts until all its
/// pages are freed.
pub(super) const ROOM: u16 = 8;

/// A task changes something about groups in one of `ONE_IN` steps on average.
const ONE_IN: u64 = 40;

/// Draws whether a random world has memory control groups. A world that runs a workload (`is_workload`) has none. The
/// draw has its own random stream, so that it does not change the other properties of worlds.
pub(super) fn draw(seed: u64, is_workload: bool) -> bool {
    Rng::new(seed, u64::MAX - 32).below(4) == 0 && !is_workload
}

/// Draws the version of a random world's memory control groups, from a random stream of its own.
pub(super) fn draw_version(seed: u64) -> GroupVersion {
    let versions = [GroupVersion::V2, GroupVersion::V2, GroupVersion::V1, GroupVersion::V1WithMemsw];
    pick(&mut Rng::new(seed, u64::MAX - 41), &versions)
}

/// The groups of a world, with the number of tasks in each.
#[derive(Debug, Default)]
pub(super) struct Tree {
    live: RefCell<Vec<(GroupId, u32)>>,
}

impl Tree {
    /// Creates some groups if the world has memory control groups.
    pub fn grow(&self, engine: &Engine<Sim>, rng: &mut Rng) {
        let Some(groups) = &engine.memory().groups else { return };
        (0..1 + rng.below(5)).for_each(|_| self.create(groups, engine, rng));
    }

    /// Changes something about groups, in one of [`ONE_IN`] calls on average: moves the task, sets a limit, removes a
    /// group and makes another, or reclaims a group's pages. Does nothing in the other calls.
    ///
    /// # Panics
    /// When a group without tasks and without children cannot be removed.
    pub fn meddle(&self, engine: &Engine<Sim>, task: &mut Task, rng: &mut Rng) {
        let Some(groups) = &engine.memory().groups else { return };
        if rng.below(ONE_IN) > 0 {
            return;
        }
        let known: Vec<GroupId> = self.live.borrow().iter().map(|(id, _)| *id).collect();
        let Some(any) = (!known.is_empty()).then(|| known[rng.below(known.len() as u64) as usize]) else { return };
        match rng.below(8) {
            0..3 => self.enter(engine, task, if rng.below(4) == 0 { GroupId::ROOT } else { any }),
            3..6 => set_limit(groups, any, engine, rng),
            6 => {
                let is_unused = self.live.borrow().iter().any(|(id, tasks)| *id == any && *tasks == 0);
                if is_unused && groups.children(any).iter().all(|child| !groups.is_live(*child)) {
                    self.live.borrow_mut().retain(|(id, _)| *id != any);
                    engine
                        .lru()
                        .remove_group(any)
                        .unwrap_or_else(|error| panic!("group {} has no tasks: {error}", any.0));
                }
                self.create(groups, engine, rng);
            }
            _ => {
                let pages = log_between(rng, 1, 512);
                let swappiness = (rng.below(2) == 0).then(|| rng.below(201));
                engine.reclaim().reclaim_group(task, any, pages, swappiness);
            }
        }
    }

    /// Moves a task back to the root group, because the task ends.
    pub fn leave(&self, engine: &Engine<Sim>, task: &mut Task) {
        self.enter(engine, task, GroupId::ROOT);
    }

    fn enter(&self, engine: &Engine<Sim>, task: &mut Task, group: GroupId) {
        for (id, tasks) in self.live.borrow_mut().iter_mut() {
            *tasks -= u32::from(*id == task.group);
            *tasks += u32::from(*id == group);
        }
        engine.memory().enter_group(task, group);
    }

    fn create(&self, groups: &Groups<Sim>, engine: &Engine<Sim>, rng: &mut Rng) {
        let mut parents: Vec<GroupId> = self.live.borrow().iter().map(|(id, _)| *id).collect();
        parents.push(GroupId::ROOT);
        match engine.lru().create_group(parents[rng.below(parents.len() as u64) as usize]) {
            Ok(id) => {
                self.live.borrow_mut().push((id, 0));
                (0..rng.below(3)).for_each(|_| set_limit(groups, id, engine, rng));
            }
            // Removed groups are there until their last page is freed.
            Err(GroupError::NoRoom { .. }) => {}
            Err(error) => panic!("a live group is a parent: {error}"),
        }
    }
}

/// Draws one of the limits and protections that a group of its version can have, and sets it to a random value or to
/// its default. Also draws whether the out-of-memory killer kills the group as a whole, which is possible in version 2.
fn set_limit(groups: &Groups<Sim>, id: GroupId, engine: &Engine<Sim>, rng: &mut Rng) {
    let memory = engine.memory().usable_pages();
    let limits: Vec<Limit> = Limit::ALL.into_iter().filter(|limit| groups.version().has_limit(*limit)).collect();
    let limit = pick(rng, &limits);
    let most = match limit {
        Limit::Max | Limit::High | Limit::Soft | Limit::Memsw => memory,
        Limit::Low | Limit::Min | Limit::SwapMax => memory / 8,
    };
    let pages = if rng.below(3) == 0 { limit.default_pages() } else { log_between(rng, 64, most) };
    groups.set_limit(id, limit, pages);
    groups.set_oom_group(id, rng.below(8) == 0 && !groups.version().is_v1());
}
