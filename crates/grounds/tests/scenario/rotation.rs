//! Rotation of written pages to the tail of their list: one by one, or through batches with and without a reference.

use crate::ground::{PAGES, Plan, choices_of, stamp};
use engine::stat::Vmstat;

const KERNELS: [&str; 3] = ["2.6.23-rc5", "2.6.23-rc5-pagevec", "2.6.23-rc6-modified"];

/// Writes a region 1.5 times as large as memory, so that pages are swapped out, and reads it. Returns the run's
/// counters.
fn swap_with(kernel: &str) -> Vmstat {
    let mut choices = choices_of(kernel);
    choices.memory.min_free_kbytes = 1024;
    Plan { choices, ..Plan::default() }.run(move |ground| {
        let pages = PAGES as u32 * 3 / 2;
        let region = ground.region(pages);
        ground.write_stamps(&region, 0..pages).unwrap();
        for page in 0..pages {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page), "page {page}");
        }
        ground.engine.access().drop_region(&region);
        ground.wait_for_devices();
    })
}

/// Batches change the time at which a written page is rotated, but not the number of rotated pages. So about as many
/// pages are written and rotated as without batches, and no page is lost.
#[test]
fn batches_rotate_what_is_rotated_one_by_one() {
    let found = KERNELS.map(swap_with);
    for (vmstat, kernel) in found.iter().zip(KERNELS) {
        let (written, rotated) = (vmstat["pswpout"], vmstat["pgrotated"]);
        assert!(written >= PAGES / 2, "{kernel}: {written} pages written");
        assert!(rotated * 10 >= written * 8, "{kernel}: {rotated} of {written} written pages rotated");
    }
    let written = found.map(|vmstat| vmstat["pswpout"]);
    let (least, most) = (written.iter().min().unwrap(), written.iter().max().unwrap());
    assert!(most * 10 <= least * 12, "pages written: {written:?}");
}

/// All pages are on two lists, and the counters of the file lists count them.
#[test]
fn two_lists_hold_anonymous_pages_and_pages_of_files() {
    let vmstat = Plan { choices: choices_of("2.6.23-rc5"), ..Plan::default() }.run(|ground| {
        let region = ground.region(100);
        ground.touch(&region, 0..100, true).unwrap();
        ground.engine.lru().drain_all();
        assert_eq!((ground.count("nr_active_anon"), ground.count("nr_anon_pages")), (0, 100));
        assert!(ground.count("nr_active_file") >= 100);
    });
    assert_eq!(vmstat["nr_inactive_anon"], 0);
}
