//! A model test: the lists of a zone are compared with plain vectors.

use crate::{choices, memory};
use engine::lru::choices::{AddFlush, ListChoice, Rotation};
use engine::lru::{Choices, Family, Insert, ListKind, Lru, Recent, Taken};
use engine::memory::{FOLIO_ORDER_MAX, Flags, Layout, MigrateType, Owner, Warmth};
use engine::stat::Event;
use machine::{FrameNumber, Order};
use proptest::prelude::*;
use sim::Sim;

#[derive(Clone, Copy, Debug)]
enum Step {
    Add {
        anon: bool,
        active: bool,
        order: Order,
    },
    Accessed(usize),
    Rotate(usize),
    /// Isolates pages from a list, activates every other page, and puts all pages back. The fields are the index of the
    /// list and the largest number of pages.
    Isolate(usize, u64),
    Free(usize),
}

/// Single pages mostly, and folios of any order.
fn order() -> impl Strategy<Value = Order> {
    prop_oneof![3 => Just(Order::ZERO), 1 => (1..=FOLIO_ORDER_MAX.0).prop_map(Order)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<(bool, bool)>(), order()).prop_map(|((anon, active), order)| Step::Add { anon, active, order }),
        4 => any::<usize>().prop_map(Step::Accessed),
        2 => any::<usize>().prop_map(Step::Rotate),
        2 => (0..4_usize, 1..40_u64).prop_map(|(list, pages)| Step::Isolate(list, pages)),
        1 => any::<usize>().prop_map(Step::Free),
    ]
}

/// The pages of each list from head to tail, and the pages that are marked referenced.
#[derive(Default)]
struct Naive {
    lists: [Vec<FrameNumber>; 4],
    referenced: Vec<FrameNumber>,
}

impl Naive {
    fn pages(&self) -> Vec<FrameNumber> {
        self.lists.iter().flatten().copied().collect()
    }

    fn take(&mut self, frame: FrameNumber) -> ListKind {
        let list = self.lists.iter_mut().position(|list| list.contains(&frame)).expect("it is on a list");
        self.lists[list].retain(|other| *other != frame);
        ListKind::ALL[list]
    }

    fn push(&mut self, kind: ListKind, frame: FrameNumber) {
        self.lists[kind as usize].insert(0, frame);
    }
}

fn lru(choices: Choices) -> Lru<Sim> {
    Lru::over(memory(&Layout::flat(2048)), choices)
}

/// Isolates up to `n` pages of a list and puts them back, every other page active. Compares what was isolated with the
/// naive lists.
fn isolates_as_naive(lru: &Lru<Sim>, naive: &mut Naive, list: usize, n: u64) -> Result<(), TestCaseError> {
    let zone = &lru.zones[0];
    let kind = ListKind::ALL[list];
    let Taken { entries: taken, pages, scanned, .. } = lru.isolate(lru.reach(zone), kind, n);
    let expected: Vec<_> = naive.lists[list].iter().rev().take(n.min(32) as usize).copied().collect();
    prop_assert_eq!(&taken[..], &expected[..]);
    prop_assert_eq!(scanned, expected.len() as u64);
    for (n, &frame) in taken.iter().enumerate() {
        naive.take(frame);
        if n % 2 == 0 {
            lru.frames[frame].set(Flags::ACTIVE);
        }
        naive.push(ListKind::of(lru.frames[frame].flags()), frame);
    }
    lru.putback(lru.lruvec_of(zone), kind.family(), &taken, Recent::default());
    prop_assert_eq!(pages, taken.iter().map(|frame| lru.frames.pages(*frame)).sum::<u64>());
    lru.end_isolation(lru.lruvec_of(zone), kind.family(), pages);
    Ok(())
}

/// Compares the lists and their page counts with the naive lists.
fn lists_are_as_naive(lru: &Lru<Sim>, naive: &Naive) -> Result<(), TestCaseError> {
    let zone = &lru.zones[0];
    let mut found: [Vec<FrameNumber>; 4] = Default::default();
    lru.for_each_listed(zone, |kind, frame| found[kind as usize].push(frame));
    prop_assert_eq!(&found, &naive.lists);
    for kind in ListKind::ALL {
        let pages = naive.lists[kind as usize].iter().map(|frame| lru.frames.pages(*frame));
        prop_assert_eq!(lru.list_pages(lru.reach(zone), kind), pages.sum::<u64>());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_match_naive(
        steps in prop::collection::vec(step(), 1..200),
        batch in prop_oneof![Just(1_u32), Just(14), Just(31)],
        at_add in any::<bool>(),
        when_filled in any::<bool>(),
        one_by_one in any::<bool>(),
    ) {
        let lru = Lru::over(memory(&Layout::flat(2048)), Choices {
            batch,
            list_choice: if at_add { ListChoice::AtAdd } else { ListChoice::AtFlush },
            add_flush: if when_filled { AddFlush::WhenFilled } else { AddFlush::WhenFull },
            rotation: if one_by_one { Rotation::OneByOne } else { Rotation::Batched },
            ..choices().lru
        });
        let zone = &lru.zones[0];
        let mut naive = Naive::default();
        for step in steps {
            let pages = naive.pages();
            let choose = |n: usize| (!pages.is_empty()).then(|| pages[n % pages.len()]);
            match step {
                Step::Add { anon, active, order } => {
                    let Some(frame) = lru.take(zone, order, MigrateType::Movable, Warmth::Hot) else { continue };
                    if order > Order::ZERO {
                        lru.frames.make_folio(frame, order);
                    }
                    if anon {
                        lru.frames[frame].set(Flags::SWAPBACKED);
                    }
                    lru.add(frame, Insert::Read { shadow: None }, active);
                    let family = if anon { Family::Anon } else { Family::File };
                    naive.push(if active { family.active() } else { family.inactive() }, frame);
                }
                Step::Accessed(n) => {
                    let Some(frame) = choose(n) else { continue };
                    lru.mark_accessed(frame);
                    let is_inactive = |kind: ListKind| !kind.is_active() && naive.lists[kind as usize].contains(&frame);
                    let from = ListKind::ALL.into_iter().find(|kind| is_inactive(*kind));
                    match from {
                        Some(kind) if naive.referenced.contains(&frame) => {
                            naive.take(frame);
                            naive.push(kind.family().active(), frame);
                            naive.referenced.retain(|other| *other != frame);
                        }
                        _ if naive.referenced.contains(&frame) => {}
                        _ => naive.referenced.push(frame),
                    }
                }
                Step::Rotate(n) => {
                    let Some(frame) = choose(n) else { continue };
                    lru.rotate(frame);
                    let kind = ListKind::of(lru.frames[frame].flags());
                    if !kind.is_active() {
                        naive.take(frame);
                        naive.lists[kind as usize].push(frame);
                    }
                }
                Step::Isolate(list, n) => isolates_as_naive(&lru, &mut naive, list, n)?,
                Step::Free(n) => {
                    let Some(frame) = choose(n) else { continue };
                    naive.take(frame);
                    naive.referenced.retain(|other| *other != frame);
                    lru.put(frame);
                }
            }
            lru.drain_before_use();
            lists_are_as_naive(&lru, &naive)?;
        }
    }
}

/// Two pages wait in a batch to be rotated, and the batch holds no references. One page is freed, and its frame gets
/// another page. When the batch is flushed, it must leave this frame alone (mechanisms/reclaim, 8.2), and rotate the
/// other page.
#[test]
fn a_batch_without_references_moves_no_stranger() {
    let lru = lru(Choices { rotation: Rotation::BatchedWithoutReference, ..choices().lru });
    let zone = &lru.zones[0];
    let add = |owner| {
        let frame = lru.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
        lru.frames[frame].set_owner(owner, 5);
        lru.add(frame, Insert::Read { shadow: None }, false);
        frame
    };
    let [last, kept, freed] = [0; 3].map(|_| add(Owner::File(1)));
    lru.drain_before_use();
    lru.rotate(kept);
    lru.rotate(freed);
    lru.put(freed);
    assert_eq!(add(Owner::File(2)), freed, "the frame that was freed last is taken first");
    lru.drain_before_use();
    let mut found = Vec::new();
    lru.for_each_listed(zone, |_, frame| found.push(frame));
    assert_eq!(found, [freed, last, kept]);
    assert_eq!(lru.stat.get(Event::Pgrotated), 1);
}

/// The pages of a batch that is not full are put on their lists before a scan of the lists, and before a use of the
/// pages.
#[test]
fn a_batch_is_applied_before_uses_and_scans() {
    let lru = lru(choices().lru);
    let zone = &lru.zones[0];
    let drains: [fn(&Lru<Sim>); 3] = [Lru::drain_before_use, Lru::drain_before_scan, Lru::drain_all];
    for (drain, before) in drains.into_iter().zip(0..) {
        let frame = lru.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
        lru.add(frame, Insert::Read { shadow: None }, false);
        let listed = || ListKind::ALL.map(|kind| lru.list_pages(lru.reach(zone), kind)).iter().sum::<u64>();
        assert_eq!(listed(), before);
        drain(&lru);
        assert_eq!(listed(), before + 1);
    }
}
