//! Tests the declarations that say when the engine does not read a choice of a kernel file
//! (`engine::kernel::choice::Choice::unused`). In a world where a choice is not read, its value must change nothing.

use super::{draw::World, run_drawn};
use catalogue::difference::plain;
use engine::kernel::choice::{self, Choice};
use std::collections::BTreeSet;

/// Number of random worlds that these tests run. They suffice: the declaration of a choice may say that some kernels or
/// machines never read the choice, and each such choice is unread in at least one of these worlds.
const WORLDS: u64 = 40;

/// Returns, as text, one value of a random world. The name `what` is a key of its kernel file (`section.key`) or a
/// property of its machine (such as `swap slots`). Returns `None` if the kernel file does not set the key.
fn value_of(world: &World, what: &str) -> Option<String> {
    match what {
        "memory nodes" => Some((1 + world.more_nodes.pages.len()).to_string()),
        "swap slots" => Some(world.swap_slots.to_string()),
        "synchronous swap" => Some(if world.cgroup.swap_is_synchronous { "yes" } else { "no" }.to_owned()),
        key => {
            let (section, key) = key.split_once('.')?;
            let setting = world.kernel.settings.iter().find(|it| it.section == section && it.key == key)?;
            Some(plain(&setting.value))
        }
    }
}

/// Draws the random world (a kernel file and a machine) of `seed`. Then sets each of `choices` in the kernel file to a
/// value other than the drawn one.
fn changed(seed: u64, choices: &[&Choice]) -> World {
    let mut world = World::draw(seed);
    for choice in choices {
        let path = choice.path();
        let current = value_of(&world, &path);
        let another = choice.drawn().into_iter().find(|value| Some(value.trim_matches('"')) != current.as_deref());
        world.kernel.set(&path, &another.expect("a swarm draws several values")).expect("a value that is drawn");
    }
    world
}

#[test]
fn a_choice_whose_condition_does_not_hold_changes_nothing() {
    let (mut seen, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..WORLDS {
        let world = World::draw(seed);
        let unread: Vec<&Choice> =
            choice::all().filter(|choice| choice.unused(&|what| value_of(&world, what)).is_some()).collect();
        if unread.is_empty() {
            continue;
        }
        seen.extend(unread.iter().map(|choice| choice.path()));
        let expected = run_drawn(&world);
        if run_drawn(&changed(seed, &unread)) == expected {
            continue;
        }
        let has_effect = |choice: &&&Choice| run_drawn(&changed(seed, &[**choice])) != expected;
        let names: Vec<String> = unread.iter().filter(has_effect).map(|choice| choice.path()).collect();
        wrong.insert((if names.is_empty() { vec!["several together".to_owned()] } else { names }, seed));
    }
    assert!(
        wrong.is_empty(),
        "choices that are said not to be read have an effect, each in the world of a seed: {wrong:?}"
    );
    let never: Vec<String> = choice::all()
        .filter(|choice| choice.conditions().next().is_some())
        .map(Choice::path)
        .filter(|path| !seen.contains(path))
        .collect();
    assert!(never.is_empty(), "{WORLDS} worlds read {never:?} all the time: nothing proves their conditions");
}
