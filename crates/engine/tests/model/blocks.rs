//! A model test: the free blocks of a device are compared with a set of block numbers.

use engine::writeback::blocks::FreeBlocks;
use proptest::prelude::*;
use std::collections::BTreeSet;

const BLOCKS: std::ops::Range<u64> = 1..600;

/// Returns the number of free blocks that follow each other from `start` on, at most `blocks`.
fn run(free: &BTreeSet<u64>, start: u64, blocks: u64) -> u64 {
    (start..).take_while(|block| free.contains(block)).take(blocks as usize).count() as u64
}

/// Returns the starts of free extents, and their lengths.
fn extents(free: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let starts = free.iter().copied().filter(|block| !free.contains(&(block - 1)));
    starts.map(|start| (start, run(free, start, u64::MAX))).collect()
}

/// Returns where an allocation begins: at the goal if it is free, else at the first of the next 64 extents after the
/// goal that holds all blocks, else at the next extent after the goal, else at the first extent of all.
fn place(free: &BTreeSet<u64>, goal: u64, blocks: u64) -> Option<u64> {
    if free.contains(&goal) {
        return Some(goal);
    }
    let extents = extents(free);
    let mut after = extents.iter().filter(|(start, _)| *start >= goal);
    let fitting = after.clone().take(64).find(|(_, length)| *length >= blocks);
    fitting.or_else(|| after.next()).or_else(|| extents.first()).map(|(start, _)| *start)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn free_blocks_match_naive(steps in prop::collection::vec((any::<bool>(), 0..700_u64, 1..90_u64), 1..300)) {
        let mut blocks = FreeBlocks::new(BLOCKS);
        let mut free: BTreeSet<u64> = BLOCKS.collect();
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (takes, goal, wanted) in steps {
            if takes || taken.is_empty() {
                let expected = place(&free, goal, wanted).map(|start| (start, run(&free, start, wanted)));
                prop_assert_eq!(blocks.take(goal, wanted), expected);
                if let Some((start, length)) = expected {
                    (start..start + length).for_each(|block| assert!(free.remove(&block)));
                    taken.push((start, length));
                }
            } else {
                // A part of an extent is returned, or all of it.
                let at = goal as usize % taken.len();
                let (start, length) = taken[at];
                let part = wanted.min(length);
                blocks.give(start, part);
                free.extend(start..start + part);
                taken[at] = (start + part, length - part);
                taken.retain(|(_, length)| *length > 0);
            }
            prop_assert_eq!(blocks.free(), free.len() as u64);
        }
        taken.into_iter().for_each(|(start, length)| blocks.give(start, length));
        prop_assert_eq!(blocks.take(BLOCKS.start, u64::MAX), Some((BLOCKS.start, BLOCKS.end - BLOCKS.start)), "one extent again");
    }
}
