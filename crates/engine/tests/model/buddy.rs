//! A model test: the free lists are compared with a set of free pages.

use crate::memory;
use engine::memory::choices::{PageblockClaim, WatermarkBoostBy};
use engine::memory::{Layout, MAX_ORDERS, Memory, MigrateType, Mixing, Use, Warmth};
use machine::{FrameNumber, Lock, Order};
use proptest::prelude::*;
use sim::{Config, Sim};
use std::collections::{BTreeMap, BTreeSet};

const PAGES: u64 = 3 * 1024 + 77;

#[derive(Clone, Copy, Debug)]
enum Step {
    Take(u8, usize),
    Free(usize),
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..MAX_ORDERS as u8, 0..3_usize).prop_map(|(order, kind)| Step::Take(order / 2, kind)),
        2 => (0..MAX_ORDERS as u8, 0..3_usize).prop_map(|(order, kind)| Step::Take(order, kind)),
        8 => any::<usize>().prop_map(Step::Free),
        1 => Just(Step::Drain),
    ]
}

/// Returns the heads of free blocks, by order.
fn blocks(memory: &Memory<Sim>) -> BTreeMap<usize, BTreeSet<u32>> {
    let zone = &memory.zones[0];
    let area = zone.free.lock();
    (0..MAX_ORDERS)
        .map(|order| {
            let heads =
                MigrateType::ALL.iter().flat_map(|kind| area.list(order, *kind).iter(&memory.frames).map(|f| f.0));
            (order, heads.collect())
        })
        .collect()
}

fn listed_pages(memory: &Memory<Sim>) -> BTreeSet<u32> {
    let mut pages = BTreeSet::new();
    for (order, heads) in blocks(memory) {
        for head in heads {
            assert_eq!(head % (1 << order), 0, "a block of order {order} at {head:#x} is not aligned");
            for page in head..head + (1 << order) {
                assert!(pages.insert(page), "page {page:#x} is free twice");
            }
        }
    }
    memory.for_each_per_cpu_page(|frame| assert!(pages.insert(frame.0), "{frame} is free twice"));
    pages
}

/// Checks that the map of memory shows as many free blocks of each order as the free lists have, that the pages of each
/// pageblock add up to its size, and that its free pages are those in `free`.
fn check_map(memory: &Memory<Sim>, free: &BTreeSet<u32>) -> Result<(), TestCaseError> {
    let map = &memory.map()[0];
    for (order, heads) in blocks(memory) {
        prop_assert_eq!(map.free[order].iter().sum::<u64>(), heads.len() as u64);
        prop_assert_eq!(memory.free_blocks(&memory.zones[0])[order], heads.len() as u64);
    }
    for (n, block) in map.blocks.iter().enumerate() {
        let (first, end) = (512 * n as u64, (512 * (n as u64 + 1)).min(PAGES));
        prop_assert_eq!(block.pages.iter().map(|pages| u64::from(*pages)).sum::<u64>(), end - first);
        let expected = free.range(first as u32..end as u32).count();
        prop_assert_eq!(usize::from(block.pages[Use::Free as usize]), expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn buddy_matches_naive(steps in prop::collection::vec(step(), 1..300)) {
        let memory = memory(&Layout::flat(PAGES));
        let mut free: BTreeSet<u32> = (0..PAGES as u32).collect();
        let mut taken: Vec<(FrameNumber, Order)> = Vec::new();
        for step in steps {
            match step {
                Step::Take(order, kind) => {
                    let order = Order(order);
                    let Some(head) = memory.take(&memory.zones[0], order, MigrateType::ALL[kind], Warmth::Hot) else {
                        // `largest` is the largest block at this moment. The drain of the per-CPU lists may complete a
                        // larger one.
                        let largest = blocks(&memory).into_iter().rev().find(|(_, heads)| !heads.is_empty());
                        prop_assert!(
                            largest.as_ref().is_none_or(|(found, _)| *found < usize::from(order.0)) || order == Order::ZERO,
                            "refused {order} with a block of {largest:?}"
                        );
                        continue;
                    };
                    for page in head.0..head.0 + order.pages() as u32 {
                        prop_assert!(free.remove(&page), "page {page:#x} was given twice");
                    }
                    taken.push((head, order));
                }
                Step::Free(which) if !taken.is_empty() => {
                    let (head, order) = taken.swap_remove(which % taken.len());
                    free.extend(head.0..head.0 + order.pages() as u32);
                    prop_assert!(memory.frames[head].put());
                    memory.free(head, order, Warmth::Cold);
                }
                Step::Free(_) => {}
                Step::Drain => memory.drain_all_per_cpu(),
            }
            prop_assert_eq!(&listed_pages(&memory), &free);
            check_map(&memory, &free)?;
        }
        for (head, order) in taken {
            prop_assert!(memory.frames[head].put());
            memory.free(head, order, Warmth::Cold);
        }
        memory.drain_all_per_cpu();
        prop_assert_eq!(memory.zones[0].free_pages(), PAGES);
        for (order, heads) in blocks(&memory).into_iter().filter(|(order, _)| *order < MAX_ORDERS - 1) {
            for head in &heads {
                prop_assert!(!heads.contains(&(head ^ (1 << order))), "order {order}: {head:#x} has a free buddy");
            }
        }
    }
}

/// A zone begins with one pageblock of the type `Reserve`, for requests that no other block can satisfy. A task takes
/// all blocks of the zone, and gets those of the reserve last. This does not change the pageblock's type. When all
/// blocks are freed again and merge with their buddies, the pageblock still has the type `Reserve`.
#[test]
fn the_reserve_is_taken_last() {
    let memory = memory(&Layout::flat(4096));
    let zone = &memory.zones[0];
    assert!(zone.min() <= 512, "more than one block");
    let reserve = || -> usize {
        let area = zone.free.lock();
        (0..MAX_ORDERS).map(|order| area.list(order, MigrateType::Reserve).iter(&memory.frames).count() << order).sum()
    };
    let at_first = reserve();
    assert!(at_first >= 512, "{at_first} pages");
    let mut taken = Vec::new();
    while let Some(head) = memory.take(zone, Order(3), MigrateType::Unmovable, Warmth::Hot) {
        let others = zone.free_pages() as usize > at_first;
        assert!(!others || reserve() == at_first, "the reserve is used before others are");
        taken.push(head);
    }
    assert_eq!((zone.free_pages(), zone.block_type(zone.start)), (0, MigrateType::Reserve));
    for head in taken {
        assert!(memory.frames[head].put());
        memory.free(head, Order(3), Warmth::Cold);
    }
    assert_eq!((zone.free_pages(), zone.block_type(zone.start)), (4096, MigrateType::Reserve));
}

/// Free memory consists of the reserve and of single pages in pageblocks of another migrate type than the request's. A
/// request that must not mix types gets no page; one that may mix them gets a single page. With
/// `WatermarkBoostBy::EachFallback` this boosts the watermarks. With `Claim` it does so only if the request may claim
/// the pageblock. Then the pageblock and its other free pages get the request's type.
#[test]
fn a_part_of_another_types_pageblock_is_taken_as_the_choices_say() {
    use MigrateType::{Movable, Reclaimable, Unmovable};
    use PageblockClaim::{ForReclaimable, ForUnmovable};
    use WatermarkBoostBy::{Claim, EachFallback};
    for (donor, kind, claim, boost_by, is_boosted, is_claimed) in [
        (Movable, Unmovable, ForReclaimable, EachFallback, true, false),
        (Movable, Unmovable, ForReclaimable, Claim, false, false),
        (Movable, Unmovable, ForUnmovable, Claim, true, true),
        (Movable, Reclaimable, ForReclaimable, Claim, true, true),
        (Unmovable, Movable, ForUnmovable, EachFallback, true, false),
        (Unmovable, Movable, ForUnmovable, Claim, false, false),
    ] {
        let memory = boosted_memory(claim, boost_by);
        let zone = &memory.zones[0];
        let taken: Vec<_> = std::iter::from_fn(|| memory.take(zone, Order::ZERO, donor, Warmth::Hot)).collect();
        let in_reserve = |head: &FrameNumber| zone.block_type(*head) == MigrateType::Reserve;
        for head in taken.iter().filter(|head| in_reserve(head) || head.0.is_multiple_of(2)) {
            assert!(memory.frames[*head].put());
            memory.free(*head, Order::ZERO, Warmth::Cold);
        }
        memory.drain_all_per_cpu();
        let (free, before) = (zone.free_pages(), zone.boost());
        assert!(free > 8000 && taken.iter().any(in_reserve), "{free}");
        assert_eq!(memory.take_mixing(zone, Order::ZERO, kind, Warmth::Hot, Mixing::Avoided), None);
        assert_eq!((zone.free_pages(), zone.boost()), (free, before));

        let head = memory.take_mixing(zone, Order::ZERO, kind, Warmth::Hot, Mixing::Allowed).unwrap();
        let case = format!("{kind:?} from {donor:?}, {claim:?}, {boost_by:?}");
        assert_eq!(zone.boost() > before, is_boosted, "{case}");
        assert_eq!(zone.block_type(head) == kind, is_claimed, "{case}: half of it is free");
        memory.drain_all_per_cpu();
        let area = zone.free.lock();
        assert_eq!(area.list(0, kind).first().is_some(), is_claimed, "{case}");
    }
}

/// A request for a reclaimable page finds only free pageblocks of other types, and must not mix types within a
/// pageblock. It takes a whole free pageblock, which then has the request's type. No watermark is boosted, because
/// nothing was mixed.
#[test]
fn a_whole_pageblock_of_another_type_mixes_nothing() {
    let memory = boosted_memory(PageblockClaim::ForUnmovable, WatermarkBoostBy::EachFallback);
    let zone = &memory.zones[0];
    let head = memory.take_mixing(zone, Order::ZERO, MigrateType::Reclaimable, Warmth::Hot, Mixing::Avoided).unwrap();
    assert_eq!((zone.block_type(head), zone.boost()), (MigrateType::Reclaimable, 0));
}

fn boosted_memory(claim: PageblockClaim, boost_by: WatermarkBoostBy) -> Memory<Sim> {
    let mut choices = crate::choices().memory;
    choices.watermark_boost_factor = 15_000;
    (choices.pageblock_claim, choices.watermark_boost_by) = (claim, boost_by);
    Memory::new(Sim::new(Config::uniform(1, 0)), choices, &Layout::flat(8 * 4096)).expect("the layout is sound")
}

/// The frames of a large zone may be put on the free lists in parts, each when it is needed (`listed_first`). All of
/// them count as free from the start. If all memory is allocated, each frame must be given out once.
#[test]
fn deferred_frames_come_when_they_are_needed() {
    const ALL: u64 = 3 << 16;
    let memory = memory(&Layout::growing(ALL, ALL + 1000));
    let zone = &memory.zones[0];
    assert_eq!((zone.online(), zone.free_pages()), (ALL, ALL), "a small one is there at once");

    let mut layout = Layout::growing(ALL, ALL + 1000);
    layout.nodes[0].zones[0].listed_first = Some(1024);
    let memory = crate::memory(&layout);
    let zone = &memory.zones[0];
    assert_eq!((zone.online(), zone.free_pages(), zone.managed()), (1024, ALL, ALL));
    assert_eq!(memory.online_pages(zone, 2000), 1000);
    let mut taken = vec![false; ALL as usize + 1000];
    let mut count = 0_u64;
    while let Some(head) = memory.take(zone, Order::ZERO, MigrateType::Movable, Warmth::Hot) {
        assert!(!std::mem::replace(&mut taken[head.index()], true), "{head} was given twice");
        count += 1;
        assert!(
            zone.online() <= (count + 2048).next_multiple_of(1 << 16),
            "{} frames for {count} pages",
            zone.online()
        );
    }
    assert_eq!((count, zone.free_pages(), zone.deferred()), (ALL + 1000, 0, 0));
}
