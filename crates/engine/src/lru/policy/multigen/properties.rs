//! Tests of properties of generations that hold after any sequence of operations (mechanisms/multigen, 15).

use super::choices::{
    self, Ageing, Choices, DirtyAtTail, FileUse, Ineligible, Placement, Promotion, Rejected, Saturated, TypeRule,
    UseMarks,
};
use super::generations::{GENERATIONS, GENERATIONS_MIN, Seqs, slot_in, slot_of};
use super::scan::GenerationScan;
use super::walk::{Pending, Search};
use crate::anonymous::Anonymous;
use crate::lru::choices::PolicyKind;
use crate::lru::policy::{Demand, Entries, Insert};
use crate::lru::{Family, Lru};
use crate::memory::choices::LruvecOf;
use crate::memory::{Flags, Layout, Memory, MigrateType, Warmth};
use crate::page_cache::{PageCache, Shadow};
use crate::slab::Slab;
use crate::stat::Event;
use crate::swap::{Swap, SwapLayout};
use crate::writeback::Writeback;
use machine::{DeviceId, FrameNumber, Order};
use proptest::prelude::*;
use sim::{Config, Sim};

#[derive(Clone, Copy, Debug)]
enum Step {
    Add {
        is_anon: bool,
        is_active: bool,
    },
    Use(usize),
    Rotate(usize),
    /// A walk, or else a look-around, finds a page used. The sizes of the generations are changed at the next `Scan` or
    /// `Age`.
    Promote {
        n: usize,
        is_walk: bool,
    },
    Dirty(usize),
    Scan {
        priority: u32,
        pages: u64,
    },
    Age,
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<(bool, bool)>().prop_map(|(is_anon, is_active)| Step::Add { is_anon, is_active }),
        6 => any::<usize>().prop_map(Step::Use),
        1 => any::<usize>().prop_map(Step::Rotate),
        2 => any::<(usize, bool)>().prop_map(|(n, is_walk)| Step::Promote { n, is_walk }),
        1 => any::<usize>().prop_map(Step::Dirty),
        3 => (0..3_u32, 1..40_u64).prop_map(|(priority, pages)| Step::Scan { priority, pages }),
        1 => Just(Step::Age),
        1 => any::<usize>().prop_map(Step::Free),
    ]
}

fn generations() -> impl Strategy<Value = Choices> {
    let rules = (
        prop::sample::select(vec![
            TypeRule::OlderThenTierZero,
            TypeRule::OlderAnonThenTierZero,
            TypeRule::AllTiersStrictly,
        ]),
        prop::sample::select(vec![Placement::OldestOrYoungest, Placement::SecondOldest, Placement::ByUse]),
        prop::sample::select(vec![Saturated::LikeOthers, Saturated::Protected, Saturated::Lifted]),
        prop::sample::select(vec![UseMarks::WorkingsetSecond, UseMarks::WorkingsetFifth]),
        prop::sample::select(vec![Rejected::SecondOldest, Rejected::Active, Rejected::LikeActive]),
        prop::sample::select(vec![Ageing::BeforeRounds, Ageing::KeepsThree, Ageing::AtThree, Ageing::WithinScan]),
    );
    let others = (
        1..=4_u32,
        prop::sample::select(vec![Promotion::FirstSighting, Promotion::SecondSighting]),
        prop::sample::select(vec![DirtyAtTail::Moved, DirtyAtTail::Isolated]),
        prop::sample::select(vec![FileUse::Counted, FileUse::Activates]),
        0..3_u64,
    );
    (rules, others).prop_map(|(rules, (tiers, promotion, dirty_at_tail, file_use, refault_floor))| Choices {
        type_rule: rules.0,
        placement: rules.1,
        saturated: rules.2,
        use_marks: rules.3,
        rejected: rules.4,
        ageing: rules.5,
        tiers,
        promotion,
        dirty_at_tail,
        file_use,
        refault_floor,
        rate_smoothing: choices::RateSmoothing::ByBatch,
        ..Choices::default()
    })
}

/// Returns the LRU lists of a small memory with the multi-generational policy. Swap has `slots` slots, but no page is
/// written to it.
fn lru(generations: Choices, slots: u32) -> Lru<Sim> {
    lru_of(&Layout::flat(2048), generations, slots)
}

/// As [`lru`], but with memory of the layout `layout`, and one lruvec for each node.
fn lru_of(layout: &Layout, generations: Choices, slots: u32) -> Lru<Sim> {
    let choices = crate::memory::choices::Choices { lruvec_of: LruvecOf::Node, ..Default::default() };
    let memory = Memory::new(Sim::new(Config::uniform(1, 0)), choices, layout).unwrap();
    let page_cache = PageCache::new(Slab::new(memory, Default::default()), Default::default());
    let swap = SwapLayout { device: DeviceId(0), first_block: 1, slots, is_synchronous: false, memory_percent: 0 };
    let anonymous = Anonymous::new(Swap::new(page_cache, Default::default(), swap));
    let choices = crate::lru::Choices { policy: PolicyKind::Multigen, batch: 4, ..Default::default() };
    Lru::new(Writeback::new(anonymous, Default::default(), &[]), choices, generations)
}

fn seqs(lru: &Lru<Sim>) -> Seqs {
    lru.generation_numbers(lru.lruvec_of(&lru.zones[0])).unwrap()
}

/// The pages that the lists must have after the steps of the test so far, and the numbers of pages that came and left.
#[derive(Default)]
struct Model {
    /// The pages that came to memory in the test and have not been reclaimed yet.
    pages: Vec<FrameNumber>,
    /// The shadows of file pages that were reclaimed.
    shadows: Vec<Shadow>,
    pending: Pending,
    /// Number of pages that came to memory.
    came: u64,
    /// Number of pages that left memory.
    left: u64,
}

impl Model {
    /// Runs one scan of the generations to its end. Of the pages that the scan takes, dirty ones are put back on lists,
    /// and all others are reclaimed. Fails if the scan protects a page of the first tier although none may be
    /// protected.
    fn scan(&mut self, lru: &Lru<Sim>, demand: Demand) -> Result<(), TestCaseError> {
        let (zone, multigen) = (&lru.zones[0], lru.multigen().unwrap());
        let (reach, lruvec) = (lru.reach(zone), lru.lruvec_of(zone));
        let mut scan = GenerationScan::new(demand, Order::ZERO);
        let protected = || lru.tier_counts(lruvec, Family::File).unwrap()[0][2];
        let mut freed = 0;
        for _ in 0..1000 {
            let (youngest, counted) = (seqs(lru).max, protected());
            let Some(batch) = lru.take_batch(multigen, reach, &mut scan, freed) else { break };
            let has_aged = seqs(lru).max != youngest;
            // Counts of the past may have been folded, but a scan protected no page of the first tier.
            let is_full = matches!(multigen.choices.saturated, Saturated::Protected) || multigen.choices.tiers == 1;
            prop_assert!(has_aged || is_full || protected() <= counted, "a page of the first tier was protected");
            let (stay, go): (Vec<_>, Vec<_>) =
                batch.entries.iter().partition(|frame| lru.frames[**frame].is(Flags::DIRTY));
            let mut staying = Entries::default();
            staying.add(&stay);
            let again = lru.take_out_retried(&mut staying, false);
            prop_assert!(again.is_empty());
            lru.put_back_batch(reach, &batch, &staying, 0, 0);
            freed += go.len() as u64;
            go.into_iter().for_each(|frame| self.reclaim(lru, frame));
        }
        prop_assert!(lru.take_batch(multigen, reach, &mut scan, u64::MAX).is_none());
        Ok(())
    }

    /// Frees an isolated page, and keeps the shadow of a file's page.
    fn reclaim(&mut self, lru: &Lru<Sim>, frame: FrameNumber) {
        let multigen = lru.multigen().unwrap();
        let shadow = lru.shadow_of_generation(multigen, frame);
        lru.note_generations_evicted(multigen, &[frame]);
        if !lru.frames[frame].is(Flags::SWAPBACKED) {
            self.shadows.push(shadow);
        }
        self.pages.retain(|other| *other != frame);
        // Drops the reference of isolation and the owner's.
        lru.put(frame);
        lru.put(frame);
        self.left += 1;
    }
}

/// mechanisms/multigen, 6.2: a request that can use only ZONE_DMA takes no page of other zones. But it may move those of
/// the oldest generation to the next one, and then the generation ends.
#[test]
fn pages_of_zones_that_a_request_cannot_use_make_way() {
    let expected = [(Ineligible::Left, (0, 0, [100, 0]), 0), (Ineligible::Moved, (100, 1, [0, 100]), 99)];
    for (ineligible, expected, next) in expected {
        let lru = lru_of(&Layout::single_node(1024, 0, 1024), Choices { ineligible, ..Choices::default() }, 0);
        let (dma, normal, multigen) = (&lru.zones[0], &lru.zones[1], lru.multigen().unwrap());
        let pages: Vec<_> = (0..100)
            .map(|_| {
                let frame = lru.take(normal, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
                lru.add(frame, Insert::Read { shadow: None }, false);
                frame
            })
            .collect();
        lru.drain_all();
        let oldest = seqs(&lru).min[Family::File as usize];
        let take = |zone| {
            let mut scan =
                GenerationScan::new(Demand { to_reclaim_pages: 32, priority: 0, ..Demand::ANY }, Order::ZERO);
            lru.take_batch(multigen, lru.reach(zone), &mut scan, 0).unwrap()
        };
        let batch = take(dma);
        assert!(batch.entries.is_empty(), "{ineligible:?}");
        let sizes =
            [oldest, oldest + 1].map(|seq| lru.lruvec_of(normal).generational().generations.pages(seq, Family::File));
        assert_eq!((batch.scanned, seqs(&lru).min[Family::File as usize] - oldest, sizes), expected, "{ineligible:?}");
        // Moved pages join the tail of the next generation one by one, so that the last of them is the next to go.
        assert_eq!(take(normal).entries.iter().next(), Some(&pages[next]), "{ineligible:?}");
    }
}

/// mechanisms/multigen, 5.3: a look-around in 6.1 leaves a page of the youngest generation its marks of use. A walk
/// takes them.
#[test]
fn a_look_around_leaves_young_pages_their_uses() {
    for (search, keeps) in [(Search::WindowGathered, true), (Search::Window, false), (Search::Walk, false)] {
        let lru = lru(Choices::default(), 0);
        let (zone, multigen) = (&lru.zones[0], lru.multigen().unwrap());
        for is_active in [true, false] {
            let frame = lru.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
            lru.add(frame, Insert::Read { shadow: None }, is_active);
            lru.drain_all();
            lru.frames[frame].set(Flags::WORKINGSET);
            let mut pending = Pending::default();
            lru.promote(multigen, lru.lruvec_of(zone), frame, search, &mut pending);
            lru.count_pending(lru.lruvec_of(zone), &mut pending);
            assert_eq!(lru.frames[frame].is(Flags::WORKINGSET), keeps && is_active, "{search:?}");
        }
    }
}

/// mechanisms/multigen, 5.3: a look-around of a task activates each page that it finds used. In 6.1 it activates a few
/// pages one by one, and promotes many at once, which `pgactivate` does not count.
#[test]
fn a_task_activates_the_pages_that_its_look_around_finds() {
    for (search, found, activated) in
        [(Search::WindowGathered, 3, 3), (Search::WindowGathered, 4, 0), (Search::Window, 4, 4)]
    {
        let lru = lru(Choices::default(), 0);
        let (zone, multigen) = (&lru.zones[0], lru.multigen().unwrap());
        let lruvec = lru.lruvec_of(zone);
        let mut pending = Pending::for_activation();
        let pages: Vec<_> = (0..found)
            .map(|_| {
                let frame = lru.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
                lru.add(frame, Insert::Read { shadow: None }, false);
                lru.drain_all();
                lru.frames[frame].set(Flags::WORKINGSET);
                lru.promote(multigen, lruvec, frame, search, &mut pending);
                assert_ne!(slot_in(lru.frames[frame].flags()), slot_of(seqs(&lru).max), "not yet moved");
                frame
            })
            .collect();
        let noted = pending.to_activate.take().unwrap();
        assert_eq!(noted, pages);
        lru.activate_found(multigen, lruvec, search, &noted, &mut pending);
        lru.count_pending(lruvec, &mut pending);
        lru.drain_all();
        assert!(pages.iter().all(|frame| slot_in(lru.frames[*frame].flags()) == slot_of(seqs(&lru).max)));
        assert_eq!(lru.stat.get(Event::Pgactivate), activated, "{search:?}, {found} pages");
        lru.check_lists_of(zone, |_, _| ()).unwrap();
    }
}

/// mechanisms/multigen, 5.3: a page of the workingset that is found used was found used before.
#[test]
fn a_page_of_the_workingset_needs_no_second_sighting() {
    let lru = lru(Choices { promotion: Promotion::SecondSighting, ..Choices::default() }, 0);
    let (zone, multigen) = (&lru.zones[0], lru.multigen().unwrap());
    for (flags, is_promoted) in [(Flags::default(), false), (Flags::REFERENCED, true), (Flags::WORKINGSET, true)] {
        let frame = lru.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot).unwrap();
        lru.add(frame, Insert::Read { shadow: None }, false);
        lru.drain_all();
        lru.frames[frame].set(flags);
        let mut pending = Pending::default();
        lru.promote(multigen, lru.lruvec_of(zone), frame, Search::Walk, &mut pending);
        lru.count_pending(lru.lruvec_of(zone), &mut pending);
        let now = lru.frames[frame].flags();
        assert_eq!(slot_in(now) == slot_of(seqs(&lru).max), is_promoted, "{flags:?}");
        assert!(now.has(if is_promoted { Flags::WORKINGSET } else { Flags::REFERENCED }), "{flags:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_grow_sizes_are_those_of_words_and_no_page_is_lost(
        steps in prop::collection::vec(step(), 1..300),
        choices in generations(),
        slots in prop::sample::select(vec![0_u32, 100]),
    ) {
        let lru = lru(choices, slots);
        let (zone, multigen) = (&lru.zones[0], lru.multigen().unwrap());
        let lruvec = lru.lruvec_of(zone);
        let mut model = Model::default();
        let mut before = seqs(&lru);
        for step in steps {
            let chosen = |n: usize| (!model.pages.is_empty()).then(|| model.pages[n % model.pages.len()]);
            match step {
                Step::Add { is_anon, is_active } => {
                    let Some(frame) = lru.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot) else { continue };
                    if is_anon {
                        lru.frames[frame].set(Flags::SWAPBACKED);
                    }
                    let shadow = if is_anon { None } else { model.shadows.pop() };
                    lru.add(frame, Insert::Read { shadow }, is_active);
                    model.pages.push(frame);
                    model.came += 1;
                }
                Step::Use(n) => chosen(n).into_iter().for_each(|frame| lru.mark_accessed(frame)),
                Step::Rotate(n) => chosen(n).into_iter().for_each(|frame| lru.rotate(frame)),
                Step::Dirty(n) => chosen(n).into_iter().for_each(|frame| lru.frames[frame].set(Flags::DIRTY)),
                Step::Promote { n, is_walk } => {
                    if let Some(frame) = chosen(n) {
                        let search = if is_walk { Search::Walk } else { Search::WindowGathered };
                        lru.promote(multigen, lruvec, frame, search, &mut model.pending);
                    }
                }
                Step::Age => {
                    lru.count_pending(lruvec, &mut model.pending);
                    lru.age_generations(multigen, lruvec, [slots > 0, true], false);
                }
                Step::Free(n) => {
                    if let Some(frame) = chosen(n) {
                        model.pages.retain(|other| *other != frame);
                        lru.drain_all();
                        lru.put(frame);
                        model.left += 1;
                    }
                }
                Step::Scan { priority, pages: wanted } => {
                    lru.count_pending(lruvec, &mut model.pending);
                    lru.drain_all();
                    model.scan(&lru, Demand { priority, to_reclaim_pages: wanted, ..Demand::ANY })?;
                }
            }
            let now = seqs(&lru);
            prop_assert!(now.max >= before.max && now.min[0] >= before.min[0] && now.min[1] >= before.min[1]);
            for family in Family::ALL {
                prop_assert!((GENERATIONS_MIN..=GENERATIONS as u64).contains(&now.generations(family)), "{:?}", now);
            }
            before = now;
        }
        lru.count_pending(lruvec, &mut model.pending);
        lru.drain_all();
        let mut listed = 0;
        lru.check_lists_of(zone, |_, _| listed += 1).unwrap();
        prop_assert_eq!(model.came, listed + model.left);
        prop_assert_eq!(listed, model.pages.len() as u64);
    }
}
