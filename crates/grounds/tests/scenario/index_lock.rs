//! The lock of a file's index, and the number of pages for which it is held at a time (`page_cache.index_lock`).

use crate::ground::{Found, PAGES, Plan, stamp};
use engine::page_cache::choices::IndexLock;
use machine::LockClass;

/// Reads three files, each twice as large as memory: 64 pages of each in turn. Also writes 4 pages of a fourth file in
/// each turn. Returns how often the locks of file indexes were taken, and the number of pages reclaimed.
fn read_in_turns(index_lock: IndexLock) -> (u64, u64) {
    let mut plan = Plan::default();
    plan.choices.page_cache.index_lock = index_lock;
    let taken: Found<u64> = Found::default();
    let seen = taken.clone();
    let vmstat = plan.run(move |ground| {
        let pages = 2 * PAGES as u32;
        let files = [(); 3].map(|()| ground.import(pages));
        let dirty = ground.create();
        for run in 0..pages / 64 {
            ground.write(&dirty, run * 4..run * 4 + 4).unwrap();
            for file in &files {
                ground.read(file, run * 64..run * 64 + 64).unwrap();
            }
        }
        let stamps = ground.read(&dirty, 0..pages / 64 * 4).unwrap();
        assert!(
            (0..).zip(&stamps).all(|(page, found)| *found == stamp(page)),
            "a page that was written has other contents"
        );
        ground.check();
        seen.set(ground.sim.lock_statistics()[LockClass::IPages as usize].acquisitions);
    });
    let reclaimed = vmstat["pgsteal_kswapd_normal"] + vmstat["pgsteal_direct_normal"];
    (taken.get(), reclaimed)
}

/// With `IndexLock::ByFile`, reclaim takes the lock of a file's index once, and removes many pages of the file. With
/// `PerPage`, it takes the lock for each page. `ByFile` must save at least eight of ten lock operations for the
/// reclaimed pages, and no page may lose its contents.
#[test]
fn pages_of_one_file_leave_under_one_hold() {
    let (one_by_one, reclaimed) = read_in_turns(IndexLock::PerPage);
    let (by_file, reclaimed_by_file) = read_in_turns(IndexLock::ByFile);
    assert!(reclaimed > 4 * PAGES && reclaimed_by_file > 4 * PAGES, "{reclaimed} and {reclaimed_by_file} pages");
    let saved = one_by_one.saturating_sub(by_file);
    assert!(saved > reclaimed_by_file * 8 / 10, "{one_by_one} and {by_file} holds for {reclaimed_by_file} pages");
}
