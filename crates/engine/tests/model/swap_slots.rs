//! A model test: swap slots are compared with a count for each slot.

use engine::swap::area::Slots;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Take,
    Duplicate(usize),
    Release(usize),
    Cache(usize),
    Uncache(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Take),
        2 => any::<usize>().prop_map(Step::Duplicate),
        3 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::Cache),
        3 => any::<usize>().prop_map(Step::Uncache),
    ]
}

/// The uses of a slot by page tables and by the swap cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uses {
    tables: u16,
    is_cached: bool,
}

impl Uses {
    fn is_free(self) -> bool {
        self == Self::default()
    }
}

/// Returns one of the slots for which `fits` returns `true`: the one at index `which`, modulo their number. Returns
/// `None` if there is no such slot.
fn choose(naive: &[Uses], which: usize, fits: impl Fn(&Uses) -> bool) -> Option<u32> {
    let slots: Vec<u32> = (1..naive.len() as u32).filter(|slot| fits(&naive[*slot as usize])).collect();
    (!slots.is_empty()).then(|| slots[which % slots.len()])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn swap_slots_match_naive(
        count in prop_oneof![Just(0_u32), Just(1), 2..40_u32, 600..1400_u32],
        before in 0..1400_usize,
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut slots = Slots::new(count);
        let mut naive = vec![Uses::default(); count.max(1) as usize];
        let steps = std::iter::repeat_n(Step::Take, before.min(count as usize / 2)).chain(steps);
        for step in steps {
            match step {
                Step::Take => {
                    let is_any_free = naive[1..].iter().any(|uses| uses.is_free());
                    let taken = slots.take(false).map(|found| found.slot);
                    prop_assert_eq!(taken.is_some(), is_any_free);
                    if let Some(slot) = taken {
                        prop_assert!(slot > 0 && naive[slot as usize].is_free(), "slot {} was given twice", slot);
                        naive[slot as usize].is_cached = true;
                    }
                }
                Step::Duplicate(which) => {
                    if let Some(slot) = choose(&naive, which, |uses| !uses.is_free()) {
                        slots.duplicate(slot);
                        naive[slot as usize].tables += 1;
                    }
                }
                Step::Release(which) => {
                    if let Some(slot) = choose(&naive, which, |uses| uses.tables > 0) {
                        naive[slot as usize].tables -= 1;
                        prop_assert_eq!(slots.release(slot), naive[slot as usize].is_free());
                    }
                }
                Step::Cache(which) => {
                    if let Some(slot) = choose(&naive, which, |uses| uses.tables > 0 && !uses.is_cached) {
                        slots.set_cached(slot);
                        naive[slot as usize].is_cached = true;
                    }
                }
                Step::Uncache(which) => {
                    if let Some(slot) = choose(&naive, which, |uses| uses.is_cached) {
                        naive[slot as usize].is_cached = false;
                        prop_assert_eq!(slots.clear_cached(slot), naive[slot as usize].is_free());
                    }
                }
            }
            prop_assert_eq!(slots.free() as usize, naive[1..].iter().filter(|uses| uses.is_free()).count());
        }
        for slot in 1..count {
            let uses = Uses { tables: slots.uses(slot), is_cached: slots.is_cached(slot) };
            prop_assert_eq!(uses, naive[slot as usize], "slot {}", slot);
            prop_assert_eq!(slots.is_free(slot), uses.is_free());
        }
    }
}

/// Pages that are swapped out together get adjacent slots: new slots come from runs of 256 free slots.
#[test]
fn slots_follow_each_other_in_a_run() {
    let mut slots = Slots::new(2048);
    let taken: Vec<u32> = (0..1024).filter_map(|_| slots.take(false)).map(|found| found.slot).collect();
    assert_eq!(taken, (1..=1024).collect::<Vec<_>>());
    // Single free slots are not used as long as there is a run.
    taken.iter().filter(|slot| *slot % 3 == 0).for_each(|slot| assert!(slots.clear_cached(*slot)));
    let next: Vec<u32> = (0..256).filter_map(|_| slots.take(false)).map(|found| found.slot).collect();
    assert_eq!(next, (1025..=1280).collect::<Vec<_>>());
}
