//! How much of files may be dirty.

use crate::ground::Plan;

/// Pages written back within 2 s of 1500 that a task writes to a file, with `dirty_bytes` and `dirty_background_bytes`.
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
