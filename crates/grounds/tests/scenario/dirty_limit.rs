//! The limits of dirty pages of files.

use crate::ground::{DISK, Found, Plan, choices_of};
use engine::memory::Layout;
use engine::writeback::choices::DeviceLimits;
use machine::{DeviceId, Machine, Nanos};
use std::cell::Cell;
use std::rc::Rc;

/// Returns how many of the 1500 pages that a task writes to a file are on the disk 2 s later. `bytes` are the values of
/// `dirty_bytes` and `dirty_background_bytes`; with `None`, the default limits hold.
fn written_of_1500_pages(bytes: Option<(u64, u64)>) -> u64 {
    let mut plan = Plan::default();
    if let Some((dirty, background)) = bytes {
        (plan.choices.writeback.dirty_bytes, plan.choices.writeback.dirty_background_bytes) = (dirty, background);
    }
    let vmstat = plan.run(move |ground| {
        let file = ground.create();
        ground.write(&file, 0..1500).unwrap();
        ground.pause_ms(2_000);
    });
    vmstat["nr_written"]
}

#[test]
fn limits_in_bytes_take_the_place_of_ratios() {
    assert!(written_of_1500_pages(None) > 500, "a tenth of memory is less");
    assert_eq!(written_of_1500_pages(Some((12 << 20, 8 << 20))), 0);
    assert!(written_of_1500_pages(Some((1 << 20, 0))) > 1200, "all but a megabyte");
}

/// Returns the number of page writes that a task makes in 20 s, while it writes all pages of a file again and again. If
/// `is_beside`, another task does so with a file on a disk that is 100 times slower, and began 10 s earlier.
fn written_beside_a_slow_disk(limits: DeviceLimits, is_beside: bool) -> u64 {
    // With 4 channels the disks write 20,000 and 200 pages a second, so the slow disk could need 800 s for all pages
    // that may be dirty.
    let mut plan = Plan {
        choices: choices_of("highwater"),
        layout: Layout::flat(1 << 16),
        write_ns: 200_000,
        more_disks_write_ns: vec![20_000_000],
        ..Plan::default()
    };
    plan.choices.writeback.device_limits = limits;
    let found = Found::default();
    let written = found.clone();
    plan.run(move |ground| {
        let is_over = Rc::new(Cell::new(false));
        let writer = |disk, pages: u32| {
            let (is_over, found) = (is_over.clone(), found.clone());
            move |ground: &crate::ground::Ground| {
                let file = ground.create_on(disk);
                let mut written = 0;
                while !is_over.get() {
                    let page = written as u32 % pages;
                    ground.write(&file, page..page + 1).unwrap();
                    written += 1;
                }
                if disk == DISK {
                    found.set(written);
                }
            }
        };
        let slow = is_beside.then(|| ground.spawn("slow", writer(DeviceId(1), 20_000)));
        ground.sim.pause(Nanos::from_secs(10));
        let fast = ground.spawn("fast", writer(DISK, 10_000));
        ground.sim.pause(Nanos::from_secs(20));
        is_over.set(true);
        slow.into_iter().chain([fast]).for_each(|task| _ = ground.sim.join(task));
    });
    written.get()
}

/// A slow disk does not delay writers of a fast one if each disk has its own limits. With common limits, it does.
#[test]
fn a_slow_disk_does_not_hold_up_writers_of_a_fast_one() {
    let [apart, together] = [DeviceLimits::Apart, DeviceLimits::Together].map(|limits| {
        let [alone, beside] = [false, true].map(|is_beside| written_beside_a_slow_disk(limits, is_beside));
        beside as f64 / alone as f64
    });
    // The ratios are 1.00 and 0.00.
    assert!(apart >= 0.9 && together < 0.5, "apart {apart:.2}, together {together:.2}");
}
