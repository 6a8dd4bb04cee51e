//! Write-ahead logging: no page is written before the log is durable up to the page's log number, or while it is held.

use crate::ground::{Ground, PAGES, Plan, choices_of, stamp};
use engine::Task;
use engine::page_cache::{File, Log};
use engine::writeback::choices::WriteFailure;
use machine::{IoError, Machine, Nanos, Operation};
use sim::Sim;
use sim::disk::Fault;
use std::sync::Arc;

/// Kernels that differ in who writes dirty pages under memory pressure: direct reclaim and kswapd, kswapd, the flusher
/// alone.
const KERNELS: [&str; 5] = ["2.6.23-rc5", "2.6.37-kanyzone", "mm1-mmotm-20130606", "6.1-classic", "highwater"];

fn log_of(ground: &Ground, file: &File<Sim>) -> Arc<Log<Sim>> {
    ground.engine.access().log_of(file)
}

/// Writes pages of a file, each with the log number `number`.
fn write_with(ground: &Ground, file: &Arc<File<Sim>>, pages: std::ops::Range<u32>, number: u64) {
    for page in pages {
        ground.write(file, page..page + 1).unwrap();
        let access = ground.engine.access();
        let pinned = access.pin_for_write(&mut Task::user(), file, page).unwrap();
        access.raise_log_number(file, page, number);
        access.unpin_write(file, pinned);
    }
}

/// The log is behind. Neither reclaim, nor the flusher, nor a sync writes the pages, and reads of a file that is twice as
/// large as memory do not push them out. Once the log is durable, all are written, although nobody syncs the file.
#[test]
fn no_page_is_written_before_its_record() {
    for kernel in KERNELS {
        let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        (plan.choices.writeback.dirty_expire_ms, plan.choices.writeback.dirty_writeback_ms) = (100, 100);
        plan.run(move |ground| {
            let (file, other) = (ground.import(200), ground.import(2 * PAGES as u32));
            let access = ground.engine.access();
            write_with(ground, &file, 0..200, 7);
            // Some pages were written with their old contents, before they had a log number.
            ground.pause_ms(2000);
            let written = ground.count("nr_written");
            write_with(ground, &file, 0..200, 8);
            assert_eq!(ground.count("nr_written"), written, "{kernel}");
            ground.read(&other, 0..2 * PAGES as u32).unwrap();
            let held = access.first_put_off(&file).expect("pages wait for the log");
            assert_eq!(held.source, IoError::LogBehind);
            access.write_dirty_pages(&file);
            access.note_log_durable(&log_of(ground, &file), 7);
            ground.pause_ms(2000);
            assert_eq!(ground.count("nr_written"), written, "{kernel}: the log is durable up to 7 only");
            assert_eq!(
                (ground.count("nr_write_failed"), access.log_wanted(&log_of(ground, &file))),
                (200, Some(8)),
                "{kernel}"
            );
            ground.check();

            access.note_log_durable(&log_of(ground, &file), 8);
            ground.pause_ms(2000);
            assert_eq!(ground.count("nr_written"), written + 200, "{kernel}");
            assert_eq!((ground.count("nr_dirty"), ground.count("nr_write_failed")), (0, 0), "{kernel}");
            assert_eq!(
                (access.first_put_off(&file), access.log_wanted(&log_of(ground, &file))),
                (None, None),
                "{kernel}"
            );
            ground.fsync(&file).unwrap();
            let stamps = ground.read(&file, 0..200).unwrap();
            assert!((0..200).all(|page| stamps[page as usize] == stamp(page)), "{kernel}");
        });
    }
}

/// Reclaim alone meets the pages, in kernels where it writes dirty pages of files. It puts their writes off.
#[test]
fn reclaim_writes_no_page_before_its_record() {
    for kernel in &KERNELS[..2] {
        let mut plan = Plan { choices: choices_of(kernel), with_flusher: false, ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.run(move |ground| {
            let (file, other) = (ground.import(300), ground.import(2 * PAGES as u32));
            write_with(ground, &file, 0..300, 8);
            ground.read(&other, 0..2 * PAGES as u32).unwrap();
            assert_eq!(ground.count("nr_written"), 0, "{kernel}");
            assert!(
                ground.engine.access().log_wanted(&log_of(ground, &file)) == Some(8),
                "{kernel}: reclaim has met no page"
            );
            ground.check();
        });
    }
}

/// A page whose write was put off is written after the log has become durable, and then the device fails. With `forget`,
/// the page is clean like any other. With `keep-dirty`, it is written later.
#[test]
fn a_device_that_fails_after_the_log_leaves_no_trace() {
    for (write_failure, failed) in [(WriteFailure::Forget, 0), (WriteFailure::KeepDirty, 50)] {
        let mut plan = Plan::default();
        plan.choices.writeback.write_failure = write_failure;
        plan.run(move |ground| {
            let (file, other) = (ground.import(50), ground.import(2 * PAGES as u32));
            let access = ground.engine.access();
            write_with(ground, &file, 0..50, 1);
            assert!(matches!(ground.fsync(&file), Err(engine::Error::Write { source: IoError::LogBehind, .. })));
            ground.inject(Fault::Blocks { blocks: 1..51, operation: Some(Operation::Write), error: IoError::Device });
            access.note_log_durable(&log_of(ground, &file), 1);
            assert!(matches!(ground.fsync(&file), Err(engine::Error::Write { source: IoError::Device, .. })));
            assert_eq!(ground.count("nr_write_failed"), failed);
            ground.check();
            ground.read(&other, 0..2 * PAGES as u32).unwrap();
            write_with(ground, &file, 0..50, 2);
            assert!(ground.fsync(&file).is_err());
            assert_eq!(ground.count("nr_write_failed"), 50);
            ground.check();
        });
    }
}

/// The log was behind for long, and then becomes durable at once. A writer of the file waits for the device, which needs
/// longer than a second for the pages, and is not refused.
#[test]
fn a_log_that_has_caught_up_refuses_nobody() {
    let mut plan = Plan { write_ns: 20_000_000, ..Plan::default() };
    plan.choices.writeback.write_failure = WriteFailure::KeepDirty;
    plan.run(|ground| {
        let file = ground.import(3000);
        let access = ground.engine.access();
        let write = |page| {
            let pinned = access.pin_for_write(&mut ground.task.borrow_mut(), &file, page)?;
            access.raise_log_number(&file, page, 1);
            access.unpin_write(&file, pinned);
            Ok::<(), engine::Error>(())
        };
        let refused = (0..3000).find(|page| write(*page).is_err()).expect("the log is behind");
        access.note_log_durable(&log_of(ground, &file), 1);
        let began = ground.sim.now();
        (refused..refused + 100).for_each(|page| write(page).unwrap());
        let took = ground.sim.now().since(began);
        assert!(took > Nanos::from_secs(1), "{refused} pages were written in {took}");
        ground.fsync(&file).unwrap();
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_write_failed")), (0, 0));
    });
}

/// A task writes the log as far as it is wanted. Another task writes a file that is four times as large as memory, with a
/// log number for each page, and is not refused.
#[test]
fn a_task_that_writes_the_log_keeps_writers_going() {
    for kernel in KERNELS {
        let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.run(move |ground| {
            const NUMBERS: u64 = 4 * PAGES;
            let file = ground.import(NUMBERS as u32);
            let logged = file.clone();
            let log = ground.spawn("log", move |ground| {
                let access = ground.engine.access();
                let mut durable = 0;
                while durable < NUMBERS {
                    let end = ground.sim.now() + Nanos::from_millis(100);
                    // A record is durable some time after it was wanted. The log is at the most one batch ahead.
                    ground.pause_ms(1);
                    durable = access
                        .wait_for_log_wanted(&log_of(ground, &logged), end)
                        .map_or(durable + 64, |number| number + 64);
                    access.note_log_durable(&log_of(ground, &logged), durable);
                }
            });
            for page in 0..NUMBERS as u32 {
                write_with(ground, &file, page..page + 1, u64::from(page) + 1);
            }
            ground.sim.join(log);
            ground.fsync(&file).unwrap();
            assert_eq!((ground.count("nr_dirty"), ground.count("nr_write_failed")), (0, 0), "{kernel}");
            ground.check();
            let stamps = ground.read(&file, 0..NUMBERS as u32).unwrap();
            assert!((0..NUMBERS as u32).all(|page| stamps[page as usize] == stamp(page)), "{kernel}");
        });
    }
}

/// Nobody writes the log. A writer of the file is refused when too many pages wait for it; another file is written as
/// before. Pages that are cut off the file wait no more.
#[test]
fn too_many_pages_that_wait_for_the_log_are_refused() {
    for write_failure in [WriteFailure::KeepDirty, WriteFailure::Forget] {
        let mut plan = Plan::default();
        plan.choices.writeback.write_failure = write_failure;
        plan.run(|ground| {
            let (file, other) = (ground.import(3000), ground.create());
            let access = ground.engine.access();
            let refused = (0..3000).find(|page| {
                let pinned = match access.pin_for_write(&mut ground.task.borrow_mut(), &file, *page) {
                    Err(engine::Error::Write { source: IoError::LogBehind, .. }) => return true,
                    pinned => pinned.unwrap(),
                };
                access.raise_log_number(&file, *page, 1);
                access.unpin_write(&file, pinned);
                false
            });
            let refused = refused.expect("the log is behind for ever");
            let began = ground.sim.now();
            ground.write(&other, 0..2000).unwrap();
            ground.fsync(&other).unwrap();
            let took = ground.sim.now().since(began);
            assert!(took < Nanos::from_secs(5), "{refused} pages wait; 2000 writes of another file took {took}");
            access.set_length(&mut Task::user(), &file, 0).unwrap();
            assert_eq!((ground.count("nr_write_failed"), access.first_put_off(&file)), (0, None));
            ground.write(&file, 0..100).unwrap();
            ground.fsync(&file).unwrap();
            assert_eq!(ground.count("nr_dirty"), 0, "new pages have no log numbers");
        });
    }
}

/// Two files have one log. The log is wanted up to the larger number, and what becomes durable concerns both files. A file
/// that has log numbers of its own gets no other log.
#[test]
fn files_may_have_one_log() {
    Plan::default().run(|ground| {
        let access = ground.engine.access();
        let (log, files) = (access.create_log(), [(); 3].map(|()| ground.import(20)));
        let [one, two, own] = &files;
        assert!(access.set_log(one, &log) && access.set_log(two, &log) && access.set_log(one, &log));
        assert!(!access.set_log(one, &access.create_log()));
        write_with(ground, one, 0..20, 5);
        write_with(ground, two, 0..20, 7);
        write_with(ground, own, 0..20, 9);
        assert!(!access.set_log(own, &log), "it has log numbers already");
        assert_eq!(access.log_wanted(&log), None, "no write was put off yet");
        let is_behind =
            |file| matches!(ground.fsync(file), Err(engine::Error::Write { source: IoError::LogBehind, .. }));
        assert!(files.iter().all(is_behind));
        assert_eq!((access.log_wanted(&log), access.log_wanted(&log_of(ground, own))), (Some(7), Some(9)));
        access.note_log_durable(&log, 5);
        ground.pause_ms(500);
        assert_eq!((ground.count("nr_write_failed"), access.log_wanted(&log)), (40, Some(7)));
        ground.fsync(one).unwrap();
        // A file that is removed waits no more.
        ground.engine.access().unlink(two);
        assert_eq!(access.log_wanted(&log), None);
        access.note_log_durable(&log, 8);
        write_with(ground, one, 0..20, 8);
        ground.fsync(one).unwrap();
        write_with(ground, one, 0..20, 10);
        assert!(is_behind(one));
        assert_eq!(access.log_wanted(&log), Some(10));
        access.note_log_durable(&log, 10);
        access.note_log_durable(&log_of(ground, own), 9);
        ground.pause_ms(500);
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_write_failed")), (0, 0));
    });
}

/// A page with a large number is gone. A task that waits until the log is wanted is woken for a page with a smaller number,
/// of the same file or of another one.
#[test]
fn a_smaller_number_than_before_wakes_the_task_of_the_log() {
    Plan::default().run(|ground| {
        let access = ground.engine.access();
        let (log, files) = (access.create_log(), [(); 3].map(|()| ground.import(20)));
        assert!(files.iter().all(|file| access.set_log(file, &log)));
        let [gone, other, again] = &files;
        write_with(ground, gone, 0..20, 100);
        write_with(ground, again, 0..1, 50);
        assert!(ground.fsync(gone).is_err() && ground.fsync(again).is_err());
        access.unlink(gone);
        access.note_log_durable(&log, 80);
        ground.pause_ms(500);
        assert_eq!(access.log_wanted(&log), None);
        for (file, pages) in [(other, 0..10), (other, 10..20), (again, 0..20)] {
            let waiting = log.clone();
            let writer = ground.spawn("log", move |ground| {
                let end = ground.sim.now() + Nanos::from_secs(1000);
                assert_eq!(ground.engine.access().wait_for_log_wanted(&waiting, end), Some(100));
            });
            ground.pause_ms(10);
            write_with(ground, file, pages, 90);
            let began = ground.sim.now();
            assert!(ground.fsync(file).is_err());
            ground.sim.join(writer);
            assert!(ground.sim.now().since(began) < Nanos::from_secs(100), "the task was not woken");
        }
    });
}

/// A page could not be written, because the device failed. Then it gets a log number: the log is wanted at once.
#[test]
fn a_page_that_has_failed_makes_the_log_wanted() {
    let mut plan = Plan { with_flusher: false, ..Plan::default() };
    plan.choices.writeback.write_failure = WriteFailure::KeepDirty;
    plan.run(|ground| {
        let (access, file) = (ground.engine.access(), ground.import(1));
        ground.write(&file, 0..1).unwrap();
        ground.inject(Fault::Blocks { blocks: 1..51, operation: Some(Operation::Write), error: IoError::Device });
        assert!(ground.fsync(&file).is_err());
        write_with(ground, &file, 0..1, 4);
        assert_eq!(access.log_wanted(&log_of(ground, &file)), Some(4));
    });
}

/// Writes pages of a file and holds each.
fn write_held(ground: &Ground, file: &Arc<File<Sim>>, pages: std::ops::Range<u32>) {
    for page in pages {
        let access = ground.engine.access();
        let pinned = access.pin_for_write(&mut Task::user(), file, page).unwrap();
        assert!(access.hold_page(file, page));
        access.unpin_write(file, pinned);
        ground.write(file, page..page + 1).unwrap();
    }
}

/// Neither reclaim, nor the flusher, nor a sync writes pages that are held, even if the log is durable for ever. Once they
/// are released, they are written, although nobody syncs the file.
#[test]
fn no_page_is_written_while_it_is_held() {
    for kernel in KERNELS {
        let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        (plan.choices.writeback.dirty_expire_ms, plan.choices.writeback.dirty_writeback_ms) = (100, 100);
        plan.run(move |ground| {
            let (file, other) = (ground.import(60), ground.import(2 * PAGES as u32));
            let access = ground.engine.access();
            write_held(ground, &file, 0..60);
            ground.read(&other, 0..2 * PAGES as u32).unwrap();
            access.note_log_durable(&log_of(ground, &file), u64::MAX);
            ground.pause_ms(2000);
            let sync = || ground.fsync(&file);
            assert!(matches!(sync(), Err(engine::Error::Write { source: IoError::Held, .. })), "{kernel}");
            assert_eq!((ground.count("nr_written"), access.held_pages()), (0, 60), "{kernel}");
            assert_eq!(access.first_put_off(&file).map(|page| page.source), Some(IoError::Held), "{kernel}");
            assert_eq!(access.log_wanted(&log_of(ground, &file)), None, "{kernel}: the log would not help");
            ground.check();

            assert!((0..50).all(|page| access.release_page(&file, page)) && !access.release_page(&file, 0), "{kernel}");
            ground.pause_ms(2000);
            assert_eq!((ground.count("nr_written"), ground.count("nr_write_failed")), (50, 10), "{kernel}");
            assert!(matches!(sync(), Err(engine::Error::Write { source: IoError::Held, .. })), "{kernel}");
            access.set_length(&mut Task::user(), &file, 50 * machine::PAGE_BYTES as u64).unwrap();
            assert_eq!((access.held_pages(), ground.count("nr_write_failed")), (0, 0), "{kernel}: they were cut off");
            sync().unwrap();
            let stamps = ground.read(&file, 0..50).unwrap();
            assert!((0..50).all(|page| stamps[page as usize] == stamp(page)), "{kernel}");
        });
    }
}

/// The device fails for one page, which lies behind many that are held. The page is written again as soon as the device
/// works. Later the file is removed, and its pages are held no more.
#[test]
fn held_pages_are_not_in_the_way_of_failed_ones() {
    let mut plan = Plan::default();
    plan.choices.writeback.write_failure = WriteFailure::KeepDirty;
    plan.run(|ground| {
        let (file, access) = (ground.import(61), ground.engine.access());
        let held = 0..access.held_pages_max().min(60) as u32;
        assert!(held.len() > 2 * 16, "more than are tried at a time: {}", held.len());
        write_held(ground, &file, held.clone());
        assert!(ground.fsync(&file).is_err());
        ground.write(&file, 60..61).unwrap();
        ground.inject(Fault::Blocks { blocks: 1..200, operation: Some(Operation::Write), error: IoError::Device });
        assert!(matches!(ground.fsync(&file), Err(engine::Error::Write { source: IoError::Device, .. })));
        assert_eq!(ground.count("nr_write_failed"), held.len() as u64 + 1);
        ground.inject(Fault::Mended);
        ground.pause_ms(10_000);
        assert_eq!(ground.count("nr_write_failed"), held.len() as u64);
        access.unlink(&file);
        drop(file);
        assert_eq!((access.held_pages(), ground.count("nr_dirty")), (0, 0));
    });
}
