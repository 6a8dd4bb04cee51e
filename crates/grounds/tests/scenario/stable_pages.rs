//! Stable pages, which must not change while they are written: otherwise a crash could leave half of a change on the
//! disk.

use crate::ground::{Ground, Plan};
use engine::Task;
use engine::anonymous::Region;
use engine::page_cache::File;
use engine::writeback::choices::StablePages;
use machine::{Machine, Nanos};
use sim::Sim;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Time that the device takes to write a page.
const WRITE: Nanos = Nanos::from_millis(20);

fn plan(stable_pages: StablePages) -> Plan {
    let mut plan = Plan { write_ns: WRITE.0, with_kswapd: false, with_flusher: false, ..Plan::default() };
    plan.choices.writeback.stable_pages = stable_pages;
    plan
}

/// Starts a sync of a file in a task of its own, and lets the sync run until its write is at the device.
fn begin_sync(ground: &Ground, file: &Arc<File<Sim>>) -> (sim::TaskId, Rc<Cell<bool>>) {
    let (file, is_synced) = (file.clone(), Rc::new(Cell::new(false)));
    let done = is_synced.clone();
    let sync = ground.spawn("sync", move |ground| {
        ground.fsync(&file).unwrap();
        done.set(true);
    });
    ground.pause_ms(1);
    (sync, is_synced)
}

/// Returns the time that a second write to a page takes if it begins while the device writes the page's first version.
fn time_to_change_a_page_under_writeback(stable_pages: StablePages) -> Nanos {
    let taken = Rc::new(Cell::new(Nanos(0)));
    let time = taken.clone();
    plan(stable_pages).run(move |ground| {
        let file = ground.create();
        ground.write(&file, 0..1).unwrap();
        let (sync, _) = begin_sync(ground, &file);
        assert_eq!(ground.count("nr_writeback"), 1);
        let began = ground.sim.now();
        ground.write(&file, 0..1).unwrap();
        time.set(ground.sim.now().since(began));
        ground.sim.join(sync);
    });
    taken.get()
}

#[test]
fn who_changes_a_page_under_writeback_waits_until_it_is_written() {
    assert!(time_to_change_a_page_under_writeback(StablePages::No) < Nanos::from_millis(1));
    let waited = time_to_change_a_page_under_writeback(StablePages::Wait);
    assert!(waited > Nanos::from_millis(15) && waited <= WRITE + Nanos::from_millis(1), "{waited}");
    assert!(time_to_change_a_page_under_writeback(StablePages::Copy) < Nanos::from_millis(1));
}

/// The device writes the page's contents at the beginning of its write. A page that becomes dirty again meanwhile is
/// written again.
#[test]
fn a_page_is_written_from_a_copy_and_changed_meanwhile() {
    plan(StablePages::Copy).run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..40).unwrap();
        let (sync, _) = begin_sync(ground, &file);
        assert_eq!((ground.count("nr_writeback"), ground.count("nr_bounce")), (40, 40));
        ground.write(&file, 0..40).unwrap();
        assert_eq!((ground.count("nr_writeback"), ground.count("nr_dirty")), (40, 40));
        ground.sim.join(sync);
        assert_eq!((ground.count("nr_bounce"), ground.count("nr_dirty")), (0, 40));
        ground.fsync(&file).unwrap();
        assert_eq!(ground.count("nr_written"), 80);
    });
}

/// If no page is free for a copy, a task that changes the page waits.
#[test]
fn without_memory_for_a_copy_who_changes_a_page_waits() {
    plan(StablePages::Copy).run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..1).unwrap();
        let taken = ground.take_until_free(200);
        let (sync, _) = begin_sync(ground, &file);
        assert_eq!((ground.count("nr_writeback"), ground.count("nr_bounce")), (1, 0));
        let began = ground.sim.now();
        ground.write(&file, 0..1).unwrap();
        assert!(ground.sim.now().since(began) > Nanos::from_millis(15));
        ground.give_back(taken);
        ground.sim.join(sync);
    });
}

/// The first task that changes a page of a file under writeback waits. From then on, writeback copies each page of the
/// file and writes the copy. It stops when it has made 2,048 copies since a task last changed a page under writeback.
/// Pages of other files are not copied.
#[test]
fn pages_are_written_from_copies_once_somebody_waited() {
    plan(StablePages::CopyWhenChanged).run(|ground| {
        let (changed, other) = (ground.import(2500), ground.import(10));
        let copies_of_sync = |file: &Arc<File<Sim>>, pages: std::ops::Range<u32>, is_changed: bool| {
            ground.write(file, pages.clone()).unwrap();
            let (sync, _) = begin_sync(ground, file);
            let (written, copies) = (ground.count("nr_writeback"), ground.count("nr_bounce"));
            assert_eq!(written, u64::from(pages.end - pages.start));
            let began = ground.sim.now();
            if is_changed {
                ground.write(file, pages.start..pages.start + 1).unwrap();
            }
            let waited = ground.sim.now().since(began);
            ground.sim.join(sync);
            (copies, waited > Nanos::from_millis(10))
        };
        assert_eq!(copies_of_sync(&changed, 0..3, false), (0, false));
        assert_eq!(copies_of_sync(&changed, 0..3, true), (0, true), "this one waits");
        assert_eq!(copies_of_sync(&changed, 0..3, true), (3, false), "and this one need not");
        assert_eq!(copies_of_sync(&other, 0..3, true), (0, true), "another file is written as before");
        // The page that was changed is dirty, and is the first page of the next sync.
        for first in (0..2000).step_by(200) {
            assert_eq!(copies_of_sync(&changed, first..first + 200, false).0, 200, "from {first}");
        }
        assert_eq!(copies_of_sync(&changed, 2000..2100, false).0, 48, "of 2,048");
        assert_eq!(copies_of_sync(&changed, 2100..2200, false).0, 0, "none was of use");
    });
}

#[test]
fn readers_go_on_beside_who_waits_to_change_a_page() {
    plan(StablePages::Wait).run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..1).unwrap();
        let (sync, _) = begin_sync(ground, &file);
        let changed = file.clone();
        let writer = ground.spawn("writer", move |ground| ground.write(&changed, 0..1).unwrap());
        ground.pause_ms(1);
        let began = ground.sim.now();
        ground.read(&file, 0..1).unwrap();
        assert!(ground.sim.now().since(began) < Nanos::from_millis(1), "the reader waited");
        ground.sim.join(sync);
        ground.sim.join(writer);
    });
}

/// A task holds a page for writing while the flusher writes the file and another task syncs it. The page is not
/// written, and the sync does not end, until the task releases the page.
#[test]
fn a_page_that_is_being_changed_is_written_when_it_is_let_go() {
    let mut plan = plan(StablePages::Wait);
    plan.with_flusher = true;
    plan.choices.writeback.dirty_expire_ms = 10;
    plan.choices.writeback.dirty_writeback_ms = 10;
    plan.run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..3).unwrap();
        let frame = ground.engine.access().pin_for_write(&mut Task::user(), &file, 1).unwrap();
        ground.pause_ms(200);
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_written")), (1, 2), "the flusher wrote the others");
        let (sync, is_synced) = begin_sync(ground, &file);
        ground.pause_ms(200);
        assert!(!is_synced.get() && ground.count("nr_written") == 2, "half of a change was written");
        ground.engine.access().unpin_write(&file, frame);
        ground.sim.join(sync);
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_written")), (0, 3));
    });
}

/// A program changes one page in place, again and again. Between two changes it releases the page only for a moment. A
/// sync of the file gets the page after the current change.
#[test]
fn a_sync_does_not_wait_for_who_changes_a_page_again_and_again() {
    const CHANGES: u32 = 2000;
    let mut plan = plan(StablePages::Copy);
    plan.write_ns = 1000;
    plan.run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..3).unwrap();
        let (changed, changer_file) = (Rc::new(Cell::new(0)), file.clone());
        let changes = changed.clone();
        let changer = ground.spawn("changer", move |ground| {
            for _ in 0..CHANGES {
                let pinned = ground.engine.access().pin_for_write(&mut Task::user(), &changer_file, 1).unwrap();
                ground.sim.compute(Nanos::from_millis(1));
                ground.engine.access().unpin_write(&changer_file, pinned);
                changes.set(changes.get() + 1);
            }
        });
        ground.pause_ms(5);
        let before = changed.get();
        ground.fsync(&file).unwrap();
        let during = changed.get() - before;
        assert!(during <= 3, "a sync let {during} changes of a page go first");
        ground.sim.join(changer);
    });
}

/// A program changes a page in place, again and again, in a file and in a region. Other tasks want to read the page, to
/// write it by a copy, and to change it in place. None of them waits for long. A simulated task that is woken has its
/// CPU at once, so no other task overtakes it here. So the test shows that no wake is lost; it does not show the
/// advantage of being next.
#[test]
fn nobody_waits_long_for_who_changes_a_page_again_and_again() {
    const CHANGES: u32 = 200;
    type Wanted = fn(&Ground, &Arc<File<Sim>>, &Region<Sim>);
    let pin = |ground: &Ground, region: &Region<Sim>, write: bool| {
        let access = ground.engine.access();
        access.pin_region(&mut Task::user(), region, 1, write).unwrap().expect("somebody has written it")
    };
    let of_file: [(&str, Wanted); 3] = [
        ("a read", |ground, file, _| _ = ground.read(file, 1..2).unwrap()),
        ("a write", |ground, file, _| ground.write(file, 1..2).unwrap()),
        ("a change in place", |ground, file, _| {
            let pinned = ground.engine.access().pin_for_write(&mut Task::user(), file, 1).unwrap();
            ground.engine.access().unpin_write(file, pinned);
        }),
    ];
    let of_region: [(&str, Wanted); 2] = [
        ("a read of a region", |ground, _, region| {
            ground.engine.access().read_region(&mut Task::user(), region, 4096, &mut [0; 9]).unwrap();
        }),
        ("a write to a region", |ground, _, region| {
            ground.engine.access().write_region(&mut Task::user(), region, 4096, &[1; 9]).unwrap();
        }),
    ];
    let cases = of_file.map(|case| (case, false)).into_iter().chain(of_region.map(|case| (case, true)));
    for ((what, wanted), is_region) in cases {
        plan(StablePages::Copy).run(move |ground| {
            let (file, region) = (ground.create(), ground.region(3));
            ground.write(&file, 0..3).unwrap();
            ground.touch(&region, 0..3, true).unwrap();
            let changes = Rc::new(Cell::new(0));
            let (changed, its_file, its_region) = (changes.clone(), file.clone(), region.clone());
            let changer = ground.spawn("changer", move |ground| {
                let access = ground.engine.access();
                for _ in 0..CHANGES {
                    if is_region {
                        let frame = pin(ground, &its_region, true);
                        ground.sim.compute(Nanos::from_millis(1));
                        access.unpin_region(frame, true);
                    } else {
                        let pinned = access.pin_for_write(&mut Task::user(), &its_file, 1).unwrap();
                        ground.sim.compute(Nanos::from_millis(1));
                        access.unpin_write(&its_file, pinned);
                    }
                    changed.set(changed.get() + 1);
                }
            });
            ground.pause_ms(5);
            let before = changes.get();
            wanted(ground, &file, &region);
            let during = changes.get() - before;
            assert!(during <= 4, "{what} let {during} changes of a page go first");
            ground.sim.join(changer);
        });
    }
}

/// One task pins more pages for writing than the dirty limit permits, and releases none. It must not be throttled until
/// its pages are written, because no task can write pinned pages. All 900 pins succeed within 100 s.
#[test]
fn who_holds_all_that_is_dirty_is_not_held_back_for_ever() {
    let mut plan = plan(StablePages::Wait);
    plan.with_flusher = true;
    plan.run(|ground| {
        let file = ground.import(2000);
        let mut task = Task::user();
        let began = ground.sim.now();
        let held: Vec<_> =
            (0..900).map(|page| ground.engine.access().pin_for_write(&mut task, &file, page).unwrap()).collect();
        assert!(
            held.len() as u64 > ground.engine.writeback().dirty_limits().dirty,
            "{:?}",
            ground.engine.writeback().dirty_limits()
        );
        assert!(ground.sim.now().since(began) < Nanos::from_secs(100), "{}", ground.sim.now().since(began));
        held.into_iter().for_each(|frame| ground.engine.access().unpin_write(&file, frame));
        ground.fsync(&file).unwrap();
    });
}
