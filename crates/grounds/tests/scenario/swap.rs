//! Anonymous memory and swap.

use crate::ground::{Ground, PAGES, Plan, stamp};
use engine::anonymous::Region;
use engine::memory::{Flags, Gfp};
use engine::reclaim::choices::WrittenPages;
use engine::stat::Gauge;
use engine::swap::choices::SwapWindows;
use engine::{Error, Task};
use machine::{IoError, Machine, Nanos, Step};
use sim::Sim;
use sim::disk::Fault;

const TWICE: u32 = 2 * PAGES as u32;

/// Returns the first page of a region that is not in memory but in swap.
fn swapped_out(ground: &Ground, region: &Region<Sim>) -> u32 {
    let is_out =
        |page: &u32| region.entry(*page).slot().is_some_and(|slot| ground.engine.swap().cached(slot).is_none());
    (0..region.pages).find(is_out).expect("some page is in swap only")
}

/// A region of twice the memory is written. Its swapped pages come back by major faults, with their contents.
#[test]
fn a_swapped_page_comes_back_with_its_contents_by_a_major_fault() {
    let vmstat = Plan::default().run(|ground| {
        let region = ground.region(TWICE);
        ground.write_stamps(&region, 0..TWICE).unwrap();
        let page = swapped_out(ground, &region);
        let (_, major) = ground.faults();
        assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        assert_eq!(ground.faults().1, major + 1);
        for page in 0..TWICE {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page), "page {page}");
        }
        ground.engine.access().drop_region(&region);
        ground.wait_for_devices();
        assert_eq!(ground.count("nr_anon_pages"), 0);
    });
    assert!(
        vmstat["pswpout"] >= PAGES && vmstat["pswpin"] >= PAGES,
        "{} out, {} in",
        vmstat["pswpout"],
        vmstat["pswpin"]
    );
    assert!(vmstat["pgmajfault"] >= PAGES / 8, "eight slots are read at once: {}", vmstat["pgmajfault"]);
}

/// Writes all pages of a region twice as large as memory, and then reads page `order(n)` for each `n`. Returns the
/// number of pages read from swap for each major fault.
fn swapped_in_per_fault(swap_window: SwapWindows, order: impl Fn(u32) -> u32 + Send + Sync + 'static) -> f64 {
    let mut plan = Plan::default();
    plan.choices.swap.window = swap_window;
    let vmstat = plan.run(move |ground| {
        let region = ground.region(TWICE);
        ground.write_stamps(&region, 0..TWICE).unwrap();
        for page in (0..TWICE).map(&order) {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page), "page {page}");
        }
    });
    assert!(vmstat["pgmajfault"] > 100, "{} faults", vmstat["pgmajfault"]);
    vmstat["pswpin"] as f64 / vmstat["pgmajfault"] as f64
}

/// With `SwapWindows::ByUse`, faults on pages in ascending or descending order read several pages each. Faults in a
/// scattered order read hardly more than one page each, because the pages that were read ahead are not used.
#[test]
fn a_swap_window_by_use_is_large_for_faults_in_order_and_small_for_others() {
    // The step has no divisor in common with the number of pages. So each page is touched once, far from the one
    // before.
    let scattered = |nth: u32| (u64::from(nth) * 2_654_435_761 % u64::from(TWICE)) as u32;
    assert!(swapped_in_per_fault(SwapWindows::ByUse, |nth| nth) > 4.0);
    assert!(swapped_in_per_fault(SwapWindows::ByUse, |nth| TWICE - 1 - nth) > 4.0);
    assert!(swapped_in_per_fault(SwapWindows::Fixed, scattered) > 4.0);
    assert!(swapped_in_per_fault(SwapWindows::ByUse, scattered) < 1.2);
}

/// The disk writes a page faster than reclaim gets through its batch of isolated pages. If the write of a page ends
/// while the page is isolated, the page is not moved to the tail of its list and has to go through the whole list
/// again. A plug holds the write requests back until the batch is on its list again.
#[test]
fn pages_written_under_a_plug_leave_from_the_tail_of_their_list() {
    let run = |written_pages| {
        let costs = vec![(Step::UnmapPage, 20_000)];
        let mut plan = Plan { write_ns: 1000, costs, with_kswapd: false, ..Plan::default() };
        plan.choices.reclaim.written_pages = written_pages;
        let vmstat = plan.run(|ground| {
            let region = ground.region(TWICE);
            ground.write_stamps(&region, 0..TWICE).unwrap();
            (0..TWICE).step_by(7).for_each(|page| assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page)));
        });
        (vmstat["pswpout"], vmstat["pgrotated"])
    };
    let ((at_once, few), (plugged, rotated)) = (run(WrittenPages::AtOnce), run(WrittenPages::Plugged));
    assert!(rotated * 10 > plugged * 9, "{rotated} of {plugged} pages were moved to the tail");
    assert!(few * 2 < at_once && at_once > plugged, "{few} of {at_once}; plugged {plugged}");
}

/// The disk stands still while pages are being swapped out. A touch of such a page finds it in the swap cache: a minor
/// fault without I/O.
#[test]
fn a_fault_on_a_page_under_writeback_to_swap_is_minor() {
    Plan::default().run(|ground| {
        let region = ground.region(PAGES as u32);
        ground.inject(Fault::StallUntil(Nanos::from_secs(30)));
        ground.write_stamps(&region, 0..3600).unwrap();
        let kernel = ground.take_until_free(300);
        // A request below the low mark wakes kswapd, which starts to swap.
        ground.touch(&region, 3600..3601, true).unwrap();
        ground.pause_ms(500);
        let being_written = |page: &u32| {
            let cached = region.entry(*page).slot().and_then(|slot| ground.engine.swap().cached(slot));
            cached.is_some_and(|frame| ground.engine.memory().frames[frame].is(Flags::WRITEBACK))
        };
        let page = (0..3600).find(being_written).expect("some page is on its way to swap");
        let (minor, major) = ground.faults();
        assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        assert_eq!(ground.faults(), (minor + 1, major));
        assert!(ground.engine.machine().now() < Nanos::from_secs(30), "nobody waited for the disk");
        ground.give_back(kernel);
    });
}

/// A page in swap is read by a read fault. The page keeps its swap slot and is mapped read-only. As long as no task
/// writes to it, it can be evicted without another write to swap. The first write is a minor fault; later writes cause
/// no fault.
#[test]
fn a_read_fault_maps_read_only_and_the_first_write_is_a_minor_fault() {
    Plan::default().run(|ground| {
        let region = ground.region(TWICE);
        ground.write_stamps(&region, 0..TWICE).unwrap();
        ground.wait_for_devices();
        let page = swapped_out(ground, &region);
        let (minor, major) = ground.faults();
        ground.touch(&region, page..page + 1, false).unwrap();
        assert_eq!(ground.faults(), (minor, major + 1));
        assert!(region.entry(page).allows(false) && !region.entry(page).allows(true));
        ground.touch(&region, page..page + 1, true).unwrap();
        assert_eq!(ground.faults(), (minor + 1, major + 1));
        ground.touch(&region, page..page + 1, true).unwrap();
        assert_eq!(ground.faults(), (minor + 1, major + 1));
        assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
    });
}

/// One task fills memory and swap, gets an error, and frees its memory. Another task, whose memory was swapped out
/// meanwhile, notices nothing.
#[test]
fn swap_full_reaches_the_faulting_task_only() {
    let vmstat = Plan { swap_slots: 1001, ..Plan::default() }.run(|ground| {
        let bystander = ground.spawn("bystander", |ground| {
            let region = ground.region(200);
            ground.write_stamps(&region, 0..200).unwrap();
            ground.pause_ms(60_000);
            for page in 0..200 {
                assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
            }
        });
        ground.pause_ms(100);
        let region = ground.region(2 * TWICE);
        let error = ground.touch(&region, 0..2 * TWICE, true).unwrap_err();
        let Error::OutOfMemory { free_slots, total_slots, .. } = error else { panic!("{error}") };
        assert_eq!((free_slots, total_slots), (0, 1000));
        assert!(error.to_string().ends_with("swap is full: all 1000 slots in use)"), "{error}");
        ground.engine.access().drop_region(&region);
        assert!(ground.sim.join(bystander));
    });
    assert!(vmstat["oom"] > 0 && vmstat["pswpout"] >= 1000);
}

/// Without swap, anonymous memory cannot be evicted.
#[test]
fn without_swap_memory_is_exhausted_with_a_clear_text() {
    let vmstat = Plan { swap_slots: 0, ..Plan::default() }.run(|ground| {
        let region = ground.region(TWICE);
        let error = ground.touch(&region, 0..TWICE, true).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("out of memory: no page can be made free ("), "{text}");
        assert!(text.ends_with(" pages in reserve, 0 dirty or being written; there is no swap)"), "{text}");
        ground.engine.access().drop_region(&region);
        ground.touch(&ground.region(100), 0..100, true).unwrap();
    });
    assert_eq!(vmstat["pswpout"], 0);
}

/// Pages that cannot be written to swap stay in memory, with their contents.
#[test]
fn a_failed_write_to_swap_loses_nothing() {
    let vmstat = Plan::default().run(|ground| {
        let region = ground.region(TWICE);
        for nth in 1..40 {
            ground.inject(Fault::Nth { nth, error: IoError::Device });
        }
        ground.write_stamps(&region, 0..TWICE).unwrap();
        for page in 0..TWICE {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page), "page {page}");
        }
    });
    assert!(vmstat["pswpin"] > 0);
}

/// A read of a swapped page also reads its neighbours in swap, eight slots in all. Only three frames are free, and none
/// is left for the page itself. Its reader gets an error. The neighbours that did get frames must be read nevertheless,
/// because they are locked.
#[test]
fn a_swap_in_without_memory_leaves_no_page_locked() {
    let plan = Plan { with_kswapd: false, cpus: 1, ..Plan::default() };
    plan.run(|ground| {
        let region = ground.region(TWICE);
        ground.write_stamps(&region, 0..TWICE).unwrap();
        ground.wait_for_devices();
        let is_last_of_eight = |page: &u32| {
            let slot = |page: u32| {
                let slot = region.entry(page).slot()?;
                ground.engine.swap().cached(slot).is_none().then_some(slot)
            };
            slot(*page).is_some_and(|last| last % 8 == 7 && (1..8).all(|n| slot(*page - n) == Some(last - n)))
        };
        let page = (8..TWICE).find(is_last_of_eight).expect("pages written together lie together");
        let keep: Vec<u32> = (page - 7..=page).collect();
        let kernel = take_all(ground, &region, 256 + 3);
        let error = ground.read_stamp(&region, page);
        assert!(matches!(error, Err(Error::OutOfMemory { .. })), "{error:?}");
        ground.wait_for_devices();
        ground.give_back(kernel);
        for page in keep {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        }
    });
}

/// Pushes all pages of a region out of memory, then takes free pages until `free` are left; returns the taken pages.
fn take_all(ground: &Ground, region: &Region<Sim>, free: u64) -> Vec<machine::FrameNumber> {
    let mut kernel = Vec::new();
    loop {
        kernel.extend(ground.take_until_free(free));
        let mapped = (0..region.pages).any(|page| region.entry(page).frame().is_some());
        if !mapped && ground.engine.swap().cache.pages() == 0 {
            return kernel;
        }
        let page = ground.engine.allocate().allocate_kernel(&mut Task::user(), Gfp::KERNEL, Gauge::NrSlabUnreclaimable);
        kernel.extend(page);
        ground.wait_for_devices();
    }
}
