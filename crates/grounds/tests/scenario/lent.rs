//! Tests of what a user of the engine may do at run time: borrow blocks of memory, set `min_free_kbytes` and so the
//! watermarks, and drop slab objects.

use crate::ground::{PAGES, Plan};
use engine::Task;
use engine::memory::{Gfp, MigrateType, Use};
use engine::slab::choices::SlabOrder;
use machine::Order;

/// Four blocks are lent. Their pages are not free and count as lent, and the map of memory shows them as lent. All
/// checks of the engine pass meanwhile. When the blocks are taken back, as many pages are free as before.
#[test]
fn a_block_that_is_lent_is_missing_until_it_is_taken_back() {
    Plan { with_kswapd: false, ..Plan::default() }.run(|ground| {
        let (engine, mut task) = (&ground.engine, Task::user());
        let free = || engine.memory().zones[0].free_pages();
        let before = free();
        let blocks: Vec<_> =
            (0..4).map(|_| engine.access().take_block(&mut task, Gfp::USER_MOVABLE, Order(9)).unwrap()).collect();
        assert_eq!((before - free(), engine.memory().lent_pages()), (2048, 2048));
        engine.check().unwrap();
        // The map of memory shows the same numbers, block by block.
        let map = &engine.memory().map()[0];
        let pages = |of: Use| map.blocks.iter().map(|block| u64::from(block.pages[of as usize])).sum::<u64>();
        assert_eq!((map.blocks.len(), pages(Use::Lent)), (8, 2048));
        assert_eq!(map.blocks.iter().filter(|block| block.most() == Some(Use::Lent)).count(), 4);
        assert!(pages(Use::Free) >= free() && Use::ALL.into_iter().map(pages).sum::<u64>() == PAGES);
        assert_eq!(MigrateType::ALL.map(|kind| map.pageblocks(kind)).iter().sum::<u64>(), 8);
        assert!(map.buddyinfo().starts_with("Node 0, zone   Normal "), "{}", map.buddyinfo());
        assert!(map.to_string().contains("type      Movable "), "{map}");
        assert!(blocks.iter().all(|block| block.head().0 % 512 == 0 && block.order() == Order(9)));
        blocks.into_iter().for_each(|block| engine.memory().take_back(block));
        assert_eq!((free(), engine.memory().lent_pages()), (before, 0));
        // More blocks are requested than the machine has.
        let mut taken = Vec::new();
        while let Ok(block) = engine.access().take_block(&mut task, Gfp::HUGE_PAGE, Order(9)) {
            taken.push(block);
        }
        assert!((5..=7).contains(&taken.len()), "{} of 8 blocks", taken.len());
        engine.check().unwrap();
        taken.into_iter().for_each(|block| engine.memory().take_back(block));
    });
}

#[test]
fn marks_follow_what_is_set_and_come_back() {
    Plan::default().run(|ground| {
        let memory = ground.engine.memory();
        let marks = || memory.zones[0].marks();
        let before = marks();
        assert_eq!((memory.min_free_kbytes(), before.min), (1024, 256));
        memory.set_min_free_kbytes(4096);
        assert_eq!((memory.min_free_kbytes(), marks().min, marks().high), (4096, 1024, 1536));
        memory.set_min_free_kbytes(0);
        assert_eq!((memory.min_free_kbytes(), marks()), (1024, before));
    });
}

/// A walk of the file system leaves inodes in memory. A second walk finds them there, unless they were dropped
/// meanwhile.
#[test]
fn a_walk_finds_what_was_not_dropped() {
    let mut plan = Plan { cpus: 4, ..Plan::default() };
    plan.choices.slab.order = SlabOrder::Slub;
    plan.run(|ground| {
        let (engine, mut task) = (&ground.engine, Task::user());
        let slab_pages = || ground.count("nr_slab_reclaimable");
        let mut walk = || (0..4000).filter(|n| engine.access().look_up(&mut task, *n).unwrap()).count();
        assert_eq!(walk(), 4000);
        // 16 inodes take four pages, and 21 directory entries take one page.
        assert!((4000 / 4..4000 / 4 + 4000 / 21 + 20).contains(&slab_pages()), "{} pages", slab_pages());
        assert_eq!(walk(), 0);
        let dropped = engine.reclaim().drop_slabs(&mut Task::user());
        assert!((7700..=8000).contains(&dropped), "{dropped} objects");
        assert!(slab_pages() < PAGES / 32, "{} pages stay", slab_pages());
        assert!(walk() > 3800);
    });
}
