//! Admission to the lists: pages that are read once, and whether they join a list (`lru.admission`).

use crate::ground::{Found, Ground, PAGES, Plan, choices_of};
use crate::map::SHARED;
use engine::anonymous::MapMode;
use engine::lru::choices::{AccessedInBatch, Activation, Admission};
use engine::page_cache::File;
use engine::{ReadPattern, ReadState};
use machine::{Machine, PAGE_BYTES, Step};
use sim::Sim;
use std::sync::Arc;

fn plan(admission: Admission) -> Plan {
    let mut plan = Plan { choices: choices_of("highwater"), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan.choices.lru.admission = admission;
    plan
}

/// Reads single pages of a file, without any readahead.
fn read(ground: &Ground, file: &Arc<File<Sim>>, pages: impl IntoIterator<Item = u32>) {
    let mut bytes = vec![0; PAGE_BYTES];
    for page in pages {
        let mut state = ReadState::default();
        state.pattern = ReadPattern::Random;
        let offset = u64::from(page) * PAGE_BYTES as u64;
        ground.engine.access().read(&mut ground.task.borrow_mut(), file, &mut state, offset, &mut bytes).unwrap();
    }
}

/// Returns a file whose first pages have filled memory, so that each further page that is read replaces another.
fn filled(ground: &Ground, pages: u32) -> Arc<File<Sim>> {
    let file = read_more_than_memory(ground, pages);
    assert!(ground.count("lru_used_once_normal") > 0, "memory is full");
    file
}

fn read_more_than_memory(ground: &Ground, pages: u32) -> Arc<File<Sim>> {
    let file = ground.import(pages);
    read(ground, &file, 0..PAGES as u32 + 500);
    file
}

fn is_cached(file: &File<Sim>, page: u32) -> bool {
    file.index.get(page).is_some()
}

/// The cost of storing a shadow is set to 1 ms. With `Admission::ByRefault`, a page that is used once leaves a shadow,
/// so the run takes longer. With `Admission::Always`, such pages leave none, and the run takes no longer.
#[test]
fn a_shadow_costs_time_where_pages_leave_one() {
    let time = |admission, shadow_ns| {
        let (time, ended) = (Found::default(), Found::default());
        let result = (time.clone(), ended.clone());
        Plan { costs: vec![(Step::ShadowStore, shadow_ns)], ..plan(admission) }.run(move |ground| {
            read_more_than_memory(ground, 2 * PAGES as u32);
            result.0.set(ground.sim.now().0);
            result.1.set(ground.count("lru_used_once_normal"));
        });
        (time.get(), ended.get())
    };
    let (free, left): (u64, u64) = time(Admission::ByRefault, 0);
    let (dear, _) = time(Admission::ByRefault, 1_000_000);
    assert!(left > 0 && dear > free + 1_000_000 * left / 2, "{left} pages left, {free} and {dear} ns");
    assert_eq!(time(Admission::Always, 0), time(Admission::Always, 1_000_000));
}

/// A file of 1,000 pages is read twice. Then a file four times as large as memory is read once. All pages of the first
/// file stay in memory, and with `Admission::ByRefault` kswapd scans less than a quarter as many pages.
#[test]
fn what_is_read_once_passes_by() {
    let passed = |admission| {
        plan(admission).run(|ground| {
            let hot = ground.import(1000);
            for _ in 0..2 {
                read(ground, &hot, 0..1000);
                ground.engine.lru().drain_all();
            }
            let cold = ground.import(4 * PAGES as u32);
            read(ground, &cold, 0..4 * PAGES as u32);
            assert_eq!(hot.index.pages(), 1000);
        })
    };
    let (by_refault, always) = (passed(Admission::ByRefault), passed(Admission::Always));
    assert!(by_refault["lru_used_once_normal"] > 2 * PAGES);
    assert_eq!((always["lru_used_once_normal"], always.get("workingset_refault_file")), (0, None));
    let [few, all] = [&by_refault, &always].map(|vmstat| vmstat["pgscan_kswapd_normal"]);
    assert!(few < all / 4, "kswapd scans {few} pages for {all}");
}

#[test]
fn a_page_goes_on_a_list_when_it_is_read_again_soon() {
    plan(Admission::ByRefault).run(|ground| {
        let file = filled(ground, 4 * PAGES as u32);
        let (page, others) = (5000, 6000..6200);
        read(ground, &file, [page]);
        assert!(is_cached(&file, page), "it waits");
        read(ground, &file, others.clone());
        assert!(!is_cached(&file, page), "nobody used it again");
        let refaults = ground.count("workingset_refault_file");
        read(ground, &file, [page]);
        assert_eq!(ground.count("workingset_refault_file"), refaults + 1);
        read(ground, &file, others.start + 1000..others.end + 1000);
        assert!(is_cached(&file, page), "it was missed");
    });
}

/// A page that waits for admission joins a list when it is used again. This holds after any number of uses, and also
/// with choices that treat a second use in another way.
#[test]
fn a_page_goes_on_a_list_when_it_is_used_again_while_it_waits() {
    let of = |activation, accessed_in_batch, uses| {
        let mut plan = plan(Admission::ByRefault);
        plan.choices.lru.activation = activation;
        plan.choices.lru.accessed_in_batch = accessed_in_batch;
        plan.run(move |ground| {
            let file = filled(ground, 4 * PAGES as u32);
            read(ground, &file, vec![5000; uses]);
            read(ground, &file, 6000..6200);
            assert!(is_cached(&file, 5000), "{uses} uses, {activation:?}, {accessed_in_batch:?}");
        });
    };
    for uses in 2..5 {
        of(Activation::AtScan, AccessedInBatch::Obeyed, uses);
        of(Activation::OnSecondAccess, AccessedInBatch::Obeyed, uses);
        of(Activation::OnSecondAccess, AccessedInBatch::Ignored, uses);
    }
}

/// A page is evicted, and read again only after as many other pages as memory holds. Such a page is treated like one
/// that was never in memory, and is dropped when its wait for admission ends.
#[test]
fn a_page_that_left_long_ago_is_not_missed() {
    plan(Admission::ByRefault).run(|ground| {
        let file = filled(ground, 4 * PAGES as u32);
        read(ground, &file, [5000]);
        read(ground, &file, 6000..6000 + PAGES as u32);
        read(ground, &file, [5000]);
        read(ground, &file, 12_000..12_200);
        assert!(!is_cached(&file, 5000));
    });
}

/// A page that is written or held while it waits for admission stays in memory, with its new contents.
#[test]
fn a_page_that_is_written_while_it_waits_stays() {
    plan(Admission::ByRefault).run(|ground| {
        let file = filled(ground, 4 * PAGES as u32);
        read(ground, &file, [5000]);
        ground.engine.access().write(&mut ground.task.borrow_mut(), &file, 5000 * PAGE_BYTES as u64, b"new").unwrap();
        read(ground, &file, 6000..6200);
        assert!(is_cached(&file, 5000));
        let mut bytes = [0; 3];
        let mut state = ReadState::default();
        let offset = 5000 * PAGE_BYTES as u64;
        ground.engine.access().read(&mut ground.task.borrow_mut(), &file, &mut state, offset, &mut bytes).unwrap();
        assert_eq!(&bytes, b"new");
    });
}

/// Pages that a page fault reads do not wait for admission. Since they are mapped, they join a list as soon as their
/// batch of 31 is full.
#[test]
fn pages_that_faults_read_do_not_wait() {
    plan(Admission::ByRefault).run(|ground| {
        let file = ground.import(62);
        let pages_listed = || ground.count("nr_inactive_file") + ground.count("nr_active_file");
        read(ground, &file, 0..30);
        assert_eq!(pages_listed(), 0, "pages that are read wait with up to 63 others");
        let region = ground.map(&file, MapMode { pattern: ReadPattern::Random, ..SHARED });
        ground.touch(&region, 30..60, false).unwrap();
        assert_eq!(pages_listed(), 0, "30 wait in a batch of 31");
        ground.touch(&region, 60..62, false).unwrap();
        assert_eq!(pages_listed(), 31, "a batch of 31");
    });
}

/// Pages that are read ahead wait for admission like others. A page whose wait ends before it is used for the first
/// time goes on a list, and is not dropped. So a stream of 1,000 pages drops at most the 64 that are still waiting.
#[test]
fn pages_that_are_read_ahead_go_on_lists() {
    plan(Admission::ByRefault).run(|ground| {
        let file = filled(ground, 4 * PAGES as u32);
        let before = ground.count("lru_used_once_normal");
        ground.read(&file, 8000..9000).unwrap();
        let dropped = ground.count("lru_used_once_normal") - before;
        // The dropped pages are those that were still waiting.
        assert!(dropped <= 64, "{dropped} pages dropped");
    });
}

/// Each page is read twice, the second time after 300 reads of other pages. Nearly all second reads hit, although the
/// pages wait for admission: the device reads less than 15 % more than without admission. It would read twice as much
/// if all second reads missed.
#[test]
fn pages_that_are_missed_more_than_others_are_all_kept() {
    let reads = |admission| {
        let vmstat = plan(admission).run(|ground| {
            let file = ground.import(8 * PAGES as u32);
            read(ground, &file, (0..8 * PAGES as u32).flat_map(|page| [page, page.saturating_sub(300)]));
        });
        vmstat["pgpgin"] as f64
    };
    let more = reads(Admission::ByRefault) / reads(Admission::Always);
    assert!(more < 1.15, "{more} times as much is read");
}

/// Returns numbers drawn at random from `0..end`.
fn drawn(end: u32) -> impl Iterator<Item = u32> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((state >> 33) * u64::from(end)) >> 31) as u32
    })
}

/// A file of four times memory is read at random, each page with the same probability. Some pages come back soon by
/// chance, but keeping these in place of others gains nothing. Admission by refault puts few pages on lists, and reads
/// at most 2 % more than admission of all pages.
#[test]
fn pages_that_come_back_soon_by_chance_are_let_go() {
    const READS: u64 = 12 * PAGES;
    let vmstat = |admission| {
        plan(admission).run(|ground| {
            let file = ground.import(4 * PAGES as u32);
            read(ground, &file, drawn(4 * PAGES as u32).take(READS as usize));
        })
    };
    let (by_refault, always) = (vmstat(Admission::ByRefault), vmstat(Admission::Always));
    assert!(by_refault["workingset_refault_file"] > READS / 3);
    let reclaimed = by_refault["pgsteal_kswapd_normal"] + by_refault["pgsteal_direct_normal"];
    assert!(reclaimed < READS / 12, "{reclaimed} of {READS} pages read");
    let [few, all] = [&by_refault, &always].map(|vmstat| vmstat["pgpgin"]);
    assert!(few < all * 51 / 50, "{few} KiB read for {all}");
}

/// Memory is full of pages that no task uses again. Then a set of pages is read again and again, beside more pages that
/// are read once. The set comes into memory page by page, as its pages refault.
#[test]
fn pages_that_come_back_soon_because_they_are_used_more_go_on_lists() {
    const HOT: u32 = PAGES as u32 * 6 / 10;
    plan(Admission::ByRefault).run(|ground| {
        let (stream, hot) = (filled(ground, 20 * PAGES as u32), ground.import(HOT));
        let beside = 2 * PAGES as u32..;
        drawn(HOT).zip(beside).take(4 * PAGES as usize).for_each(|(page, passing)| {
            read(ground, &hot, [page]);
            read(ground, &stream, [passing]);
        });
        let there = hot.index.pages();
        assert!(there > HOT * 9 / 10, "{there} of {HOT} pages are in memory");
    });
}

/// Anonymous memory leaves little room for files. Even so, a few pages that are read again and again stay in memory.
#[test]
fn a_small_set_stays_where_files_have_little_room() {
    for (anon, hot) in [(3800, 50), (3750, 100), (3900, 100)] {
        let vmstat = plan(Admission::ByRefault).run(move |ground| {
            let region = ground.region(anon);
            ground.touch(&region, 0..anon, true).unwrap();
            let file = ground.import(hot);
            (0..200).for_each(|_| read(ground, &file, 0..hot));
            ground.engine.access().drop_region(&region);
        });
        let reads = vmstat["pgpgin"] / 4;
        assert!(reads < 3 * u64::from(hot), "{reads} reads of {hot} pages beside {anon}");
    }
}

/// A truncation removes the shadows after the new end. When the file grows again, reads of that part are no refaults;
/// reads before it still are.
#[test]
fn pages_that_were_cut_off_are_not_missed() {
    plan(Admission::ByRefault).run(|ground| {
        let file = filled(ground, 4 * PAGES as u32);
        let (kept, cut_off) = (6000..6300, 7000..7300);
        read(ground, &file, kept.clone().chain(cut_off.clone()).chain(8000..8100));
        let bytes = file.length();
        for length in [u64::from(cut_off.start) * PAGE_BYTES as u64, bytes] {
            ground.engine.access().set_length(&mut ground.task.borrow_mut(), &file, length).unwrap();
        }
        let refaults = || ground.count("workingset_refault_file");
        let before = refaults();
        read(ground, &file, cut_off);
        assert_eq!(refaults(), before);
        read(ground, &file, kept);
        assert!(refaults() >= before + 300, "those before the cut left shadows");
    });
}

/// A page of one file and pages of another wait for admission. When the other file is dropped, the first file's page
/// goes on waiting, and leaves memory later as a page that was used once.
#[test]
fn dropping_a_file_leaves_those_that_wait_of_others() {
    plan(Admission::ByRefault).run(|ground| {
        let (file, other) = (filled(ground, 4 * PAGES as u32), ground.import(10));
        read(ground, &other, 0..10);
        read(ground, &file, [5000]);
        assert_eq!(ground.engine.lru().invalidate_file(&other), 10);
        let before = ground.count("lru_used_once_normal");
        read(ground, &file, 6000..6200);
        assert!(!is_cached(&file, 5000) && ground.count("lru_used_once_normal") > before);
    });
}

/// `drop_caches` also drops the pages that wait for admission. It counts them among the dropped pages, and not as pages
/// that were used once.
#[test]
fn pages_that_wait_are_dropped_on_request() {
    plan(Admission::ByRefault).run(|ground| {
        let file = filled(ground, 4 * PAGES as u32);
        let (cached, passed) = (u64::from(file.index.pages()), ground.count("lru_used_once_normal"));
        assert_eq!(ground.engine.access().drop_caches(), cached);
        assert_eq!((file.index.pages(), ground.count("lru_used_once_normal")), (0, passed));
    });
}
