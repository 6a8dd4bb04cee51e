//! File pages: the order in which they leave, their writeback, and failed writes.

use crate::ground::{DISK, FILE_BLOCKS, PAGES, Plan, choices_of, stamp};
use engine::access::choices::DirtyThrottle;
use engine::page_cache::File;
use engine::reclaim::choices::DeferredObjects;
use engine::slab::choices::SlabOrder;
use engine::slab::object_cache::ObjectKind;
use engine::stat::Gauge;
use engine::writeback::choices::{WriteFailure, WritebackChunk};
use engine::{Error, ReadState, Task};
use machine::atomic::AtomicU32;
use machine::{IoError, Machine, Nanos, Operation};
use sim::Rng;
use sim::disk::Fault;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// A file is written to all the time, so the flusher never finishes it. A sync of the file gets the next turn. The sync
/// takes as long as the disk needs for the dirty pages, 0.4 s, and does not also wait for the rest of the flusher's
/// chunk.
#[test]
fn a_sync_has_its_turn_though_the_flusher_always_has_more_of_the_file() {
    let mut plan = Plan { cpus: 4, write_ns: 2_000_000, ..Plan::default() };
    (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (20, 1);
    plan.run(|ground| {
        let file = ground.import(2000);
        let (end, written) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let writers: Vec<_> = (0..2)
            .map(|n| {
                let (file, end, written) = (file.clone(), end.clone(), written.clone());
                ground.spawn("writer", move |ground| {
                    let mut rng = Rng::new(7, n);
                    while !end.get() {
                        let page = rng.below(2000) as u32;
                        ground.write(&file, page..page + 1).unwrap();
                        written.set(written.get() + 1);
                    }
                })
            })
            .collect();
        ground.pause_ms(1000);
        for round in 0..5 {
            let (began, before) = (ground.sim.now(), written.get());
            ground.fsync(&file).unwrap();
            let took = ground.sim.now().since(began);
            assert!(took < Nanos::from_millis(650), "sync {round} took {took}, {} writes", written.get() - before);
            ground.pause_ms(50);
        }
        end.set(true);
        writers.into_iter().for_each(|writer| {
            ground.sim.join(writer);
        });
    });
}

/// A file is appended to during a sync. The sync does not wait for pages that were added after it began.
#[test]
fn a_sync_ends_though_the_file_grows() {
    const PAGES_MAX: u32 = 100_000;
    let plan = Plan { cpus: 4, write_ns: 200_000, choices: choices_of("highwater"), ..Plan::default() };
    plan.run(|ground| {
        let file = ground.create();
        let is_synced = Rc::new(Cell::new(false));
        let (grows, seen) = (file.clone(), is_synced.clone());
        let writer = ground.spawn("writer", move |ground| {
            (0..PAGES_MAX).take_while(|_| !seen.get()).for_each(|page| ground.write(&grows, page..page + 1).unwrap());
        });
        ground.pause_ms(500);
        let (began, pages) = (ground.sim.now(), file.length_pages());
        ground.fsync(&file).unwrap();
        let took = ground.sim.now().since(began);
        is_synced.set(true);
        ground.sim.join(writer);
        let grown = file.length_pages();
        assert!(grown < PAGES_MAX, "the sync took {took}, while the file grew from {pages} to {grown} pages");
    });
}

/// All writes of a file fail from now on. A task that writes to it gets an error once more of its pages could not be
/// written than may be dirty without throttling. So memory remains for other files. The flusher retries the failed
/// writes at intervals.
#[test]
fn a_file_that_cannot_be_written_is_refused_more_and_left_alone() {
    // Each write fails at once, so writes fail as fast as the flusher submits them.
    let mut plan = Plan { nr_requests: 4, ..Plan::default() };
    plan.choices.writeback.write_failure = WriteFailure::KeepDirty;
    let vmstat = plan.run(|ground| {
        let (file, other) = (ground.import(3000), ground.import(1000));
        ground.inject(Fault::Blocks { blocks: 1..3001, operation: Some(Operation::Write), error: IoError::Device });
        let began = ground.sim.now();
        let written = (0..3000).find(|page| match ground.write(&file, *page..page + 1) {
            Ok(()) => false,
            Err(Error::Write { file: failed, source: IoError::Device, .. }) => failed == file.id,
            Err(error) => panic!("{error}"),
        });
        let (written, took) = (written.expect("it is refused in the end"), ground.sim.now().since(began));
        let limits = ground.engine.writeback().dirty_limits();
        assert!(
            u64::from(written) > limits.background && u64::from(written) < 2 * limits.dirty,
            "{written}, {limits:?}"
        );
        assert!(took < Nanos::from_secs(5), "{written} writes took {took}");
        let pinned = ground.engine.access().pin_for_write(&mut Task::user(), &file, 0);
        assert!(matches!(pinned, Err(Error::Write { .. })), "{pinned:?}");

        let began = ground.sim.now();
        ground.write(&other, 0..1000).unwrap();
        let took = ground.sim.now().since(began);
        assert!(took < Nanos::from_secs(5), "1000 writes of another file took {took}");
        ground.pause_ms(60_000);
        assert_eq!(
            ground.count("nr_dirty") + ground.count("nr_writeback"),
            u64::from(written),
            "they are to be written"
        );
        assert!(matches!(ground.fsync(&file), Err(Error::Write { .. })));
        assert!(ground.fsync(&file).is_err(), "and still cannot be");
        ground.fsync(&other).unwrap();
    });
    let tried = vmstat["nr_written"];
    assert!((1000..1_000_000).contains(&tried), "{tried} pages were tried");
}

fn unwritable(blocks: std::ops::Range<u64>) -> Fault {
    Fault::Blocks { blocks, operation: Some(Operation::Write), error: IoError::NoSpace }
}

/// Returns how long a task takes to write and sync a file that is four times as large as memory. If `is_failing`,
/// another file has dirty pages that cannot be written, so many that further writes to that file fail.
fn time_beside_a_failing_file(is_failing: bool, write_ns: u64) -> Nanos {
    const FAILING: u32 = 2000;
    let taken = Rc::new(Cell::new(Nanos(0)));
    let time = taken.clone();
    let vmstat = Plan { choices: choices_of("highwater"), write_ns, ..Plan::default() }.run(move |ground| {
        let file = ground.import(FAILING);
        if is_failing {
            ground.inject(unwritable(1..u64::from(FAILING) + 1));
            let refused = (0..FAILING).find(|page| ground.write(&file, *page..page + 1).is_err());
            refused.expect("it is refused in the end");
            assert!(ground.count("nr_write_failed") > ground.engine.writeback().dirty_limits().background);
        }
        let failed = ground.count("nr_write_failed");
        let other = ground.create();
        let began = ground.sim.now();
        for start in (0..4 * PAGES as u32).step_by(8) {
            ground.write(&other, start..start + 8).unwrap();
        }
        ground.fsync(&other).unwrap();
        taken.set(ground.sim.now().since(began));
        assert!(ground.count("nr_write_failed") + 16 >= failed, "but for a few that are tried, they are as before");
        ground.inject(Fault::Mended);
        ground.pause_ms(10_000);
        assert_eq!(ground.count("nr_write_failed"), 0, "the next periodic look has written them");
    });
    assert_eq!(vmstat["nr_vmscan_write"], 0);
    time.get()
}

/// A task that needs all of memory and the disk is not delayed by a file that cannot be written. Retries take a small
/// part of the disk's time, even if the disk is slow. The task lacks only the memory of that file.
#[test]
fn a_file_that_cannot_be_written_is_not_in_the_way_of_others() {
    for write_ns in [20_000, 2_000_000] {
        let (alone, beside) = (time_beside_a_failing_file(false, write_ns), time_beside_a_failing_file(true, write_ns));
        assert!(beside.0 < alone.0 * 5 / 4, "{alone} alone, {beside} beside what cannot be written");
    }
}

/// Half of memory holds pages that could not be written. Then the disk works again. A task that needs the memory gets
/// it, even without a periodic flusher.
#[test]
fn memory_that_can_be_written_again_is_there_for_who_needs_it() {
    let mut plan = Plan { choices: choices_of("highwater"), swap_slots: 0, ..Plan::default() };
    plan.choices.writeback.dirty_writeback_ms = 0;
    let vmstat = plan.run(|ground| {
        let file = ground.import(2501);
        let region = ground.map(&file, crate::map::SHARED);
        ground.inject(unwritable(1..2001));
        ground.touch(&region, 0..2000, true).unwrap();
        ground.touch(&region, 2500..2501, true).unwrap();
        assert!(ground.fsync(&file).is_err());
        ground.engine.access().drop_region(&region);
        assert_eq!(ground.count("nr_write_failed"), 2000);
        ground.inject(Fault::Mended);
        ground.pause_ms(200);
        let region = ground.region(3300);
        ground.touch(&region, 0..3300, true).unwrap();
        assert_eq!(ground.count("nr_write_failed"), 0);
        ground.engine.access().drop_region(&region);
    });
    assert_eq!(vmstat["oom"], 0);
}

/// All writes of two files fail. When too many pages of both files together could not be written, a task that writes to
/// either file gets errors. One file is truncated to nothing. Then writes to it succeed again, and writes to the other
/// file still fail.
#[test]
fn a_file_that_has_nothing_unwritten_is_refused_nothing() {
    let vmstat = Plan { choices: choices_of("highwater"), ..Plan::default() }.run(|ground| {
        let (full, cut) = (ground.import(3000), ground.import(3000));
        ground.inject(unwritable(1..6001));
        ground.write(&cut, 0..20).unwrap();
        assert!(ground.fsync(&cut).is_err());
        (0..3000).find(|page| ground.write(&full, *page..page + 1).is_err()).expect("it is refused in the end");
        assert!(ground.write(&cut, 20..21).is_err());
        ground.engine.access().set_length(&mut Task::user(), &cut, 0).unwrap();
        let began = ground.sim.now();
        ground.write(&cut, 100..101).unwrap();
        assert!(ground.sim.now().since(began) < Nanos::from_millis(1));
        assert!(ground.write(&full, 2999..3000).is_err());
    });
    assert!(vmstat["nr_write_failed"] > 500);
}

/// The disk is full, and pages without a block cannot be written. These pages are counted separately until the disk has
/// free blocks again, or until the file is truncated.
#[test]
fn pages_without_a_block_count_apart_on_a_full_disk() {
    Plan { choices: choices_of("highwater"), ..Plan::default() }.run(|ground| {
        let (file, filler) = (ground.create(), ground.create());
        ground.write(&file, 0..300).unwrap();
        let limit = ground.engine.writeback().dirty_limits().dirty;
        assert!(ground.engine.writeback().allocate_blocks(&filler, FILE_BLOCKS * 4096));
        assert!(matches!(ground.fsync(&file), Err(Error::Write { source: IoError::NoSpace, .. })));
        assert_eq!((ground.count("nr_write_failed"), ground.count("nr_dirty")), (300, 300));
        assert!(ground.engine.writeback().dirty_limits().dirty + 50 < limit);
        ground.engine.access().set_length(&mut Task::user(), &file, 200 * 4096).unwrap();
        assert_eq!((ground.count("nr_write_failed"), ground.count("nr_dirty")), (200, 200));
        ground.engine.access().set_length(&mut Task::user(), &filler, 0).unwrap();
        let _ = ground.fsync(&file);
        ground.fsync(&file).unwrap();
        assert_eq!((ground.count("nr_write_failed"), ground.count("nr_dirty")), (0, 0));
    });
}

/// One file is read twice, then a stream three times as long as memory passes: the file stays.
#[test]
fn file_pages_read_once_go_before_pages_read_twice() {
    let vmstat = Plan::default().run(|ground| {
        let (twice, once) = (ground.import(500), ground.import(3 * PAGES as u32));
        for _ in 0..2 {
            ground.read(&twice, 0..500).unwrap();
            ground.engine.lru().drain_all();
        }
        ground.engine.lru().drain_all();
        assert_eq!(ground.count("nr_active_file"), 500);
        ground.read(&once, 0..3 * PAGES as u32).unwrap();
        assert_eq!(twice.index.pages(), 500, "read twice, and all still there");
        assert!(u64::from(once.index.pages()) < PAGES - 500);
        assert!(once.index.get(0).is_none() && once.index.get(3 * PAGES as u32 - 1).is_some(), "the oldest went first");
    });
    assert_eq!(vmstat["pgactivate"], 500);
    assert!(vmstat["pgsteal_kswapd_normal"] > 2 * PAGES);
}

/// Three hundred small files are read once, and ten of them stay open. Then a large file is read, which fills memory.
/// It displaces most directory entries of the closed files, and none of the open ones.
#[test]
fn shrinkers_leave_open_files_alone() {
    let vmstat = Plan::default().run(|ground| {
        let files: Vec<_> = (0..300).map(|_| ground.import(1)).collect();
        let open = &files[..10];
        open.iter().for_each(|file| ground.engine.access().open(&mut Task::user(), file).unwrap());
        files.iter().for_each(|file| drop(ground.read(file, 0..1).unwrap()));
        let stream = ground.import(6 * PAGES as u32);
        ground.read(&stream, 0..6 * PAGES as u32).unwrap();
        let has_entry = |file: &File<_>| ground.engine.slab().object_caches.get(ObjectKind::Dentry).hold(file.id);
        assert!(open.iter().all(|file| has_entry(file)));
        let left = files[10..].iter().filter(|file| has_entry(file)).count();
        assert!(left < 200, "{left} entries of closed files are left");
        open.iter().for_each(|file| ground.engine.access().close(file));
    });
    assert!(vmstat["slabs_scanned"] > 0);
}

/// Objects that shrinker calls leave for later add up to at most twice the size of a cache. So a cache with fewer
/// objects than a batch is scanned in the end. If they may add up only to half of the cache, it is never scanned.
#[test]
fn a_cache_smaller_than_a_batch_is_shrunk_unless_damped() {
    let slabs_scanned = |deferred_objects| {
        let mut plan = Plan::default();
        plan.choices.reclaim.deferred_objects = deferred_objects;
        let vmstat = plan.run(|ground| {
            let files: Vec<_> = (0..100).map(|_| ground.import(1)).collect();
            files.iter().for_each(|file| drop(ground.read(file, 0..1).unwrap()));
            let stream = ground.import(6 * PAGES as u32);
            ground.read(&stream, 0..6 * PAGES as u32).unwrap();
        });
        vmstat["slabs_scanned"]
    };
    assert!(slabs_scanned(DeferredObjects::All) > 0);
    assert_eq!(slabs_scanned(DeferredObjects::Damped), 0);
}

/// Two tasks notice that a file's directory entry was dropped, and both add one. The file has one afterwards.
#[test]
fn a_file_has_one_directory_entry_however_many_add_it() {
    Plan::default().run(|ground| {
        let file = ground.import(1);
        let entries = ground.engine.slab().object_caches.get(ObjectKind::Dentry);
        let before = entries.count();
        for _ in 0..2 {
            ground.engine.access().add_object(&mut Task::user(), ObjectKind::Dentry, Some(file.id)).unwrap();
        }
        assert_eq!(entries.count(), before);
        assert!(entries.hold(file.id));
        assert_eq!(entries.count(), before - 1);
    });
}

/// The places of removed inodes are used for new inodes. A slab is freed only if no place in it is in use, and a few
/// empty slabs are kept.
#[test]
fn places_of_removed_inodes_are_used_again() {
    let mut plan = Plan::default();
    plan.choices.slab.order = SlabOrder::Slub;
    plan.run(|ground| {
        let slabs = ground.engine.slab().object_caches.get(ObjectKind::Inode).slabs();
        let slab_pages = || ground.count("nr_slab_reclaimable");
        let before = slab_pages();
        let mut files: Vec<_> = (0..600).map(|_| ground.import(1)).collect();
        let full = slab_pages();
        assert!(full > before + 100, "{before} and {full} pages of slabs");
        for round in 0..10 {
            // Half of the inodes of each slab are removed, and as many are created.
            let half = || (0..600).skip(round % 2).step_by(2);
            half().for_each(|n| ground.engine.access().unlink(&files[n]));
            half().for_each(|n| files[n] = ground.import(1));
        }
        let pages = slab_pages();
        assert!(pages <= full + 4 * slabs.order().pages(), "{pages} pages for as many inodes as {full} held");
        files.iter().for_each(|file| ground.engine.access().unlink(file));
        let kept = slabs.idle_pages();
        assert!(kept > 0 && kept <= 7 * slabs.order().pages(), "{kept} pages are kept");
    });
}

/// Reclaim marks dirty pages and leaves them to the flusher. When their write ends, they are moved to the tail of their
/// list and are evicted next.
#[test]
fn a_dirty_page_is_marked_for_reclaim_and_rotated_when_its_write_ends() {
    let mut plan = Plan { swap_slots: 0, ..Plan::default() };
    plan.choices.writeback.dirty_ratio = 90;
    plan.choices.writeback.dirty_background_ratio = 85;
    plan.choices.writeback.dirty_expire_ms = 2000;
    plan.choices.writeback.dirty_writeback_ms = 1000;
    plan.choices.allocate.zone_dirty_share = engine::allocate::choices::ZoneDirtyShare::Off;
    let vmstat = plan.run(|ground| {
        let (dirty, clean) = (ground.create(), ground.import(PAGES as u32));
        ground.write(&dirty, 0..2000).unwrap();
        assert_eq!(ground.count("nr_dirty"), 2000);
        ground.read(&clean, 0..PAGES as u32).unwrap();
        assert!(ground.count("nr_vmscan_immediate_reclaim") > 0);
        ground.pause_ms(5000);
        ground.engine.lru().drain_all();
        let rotated = ground.count("pgrotated");
        assert!(rotated > 0 && rotated <= 2000, "{rotated} pages rotated");
    });
    assert_eq!((vmstat["nr_dirty"], vmstat["nr_written"]), (0, 2000));
}

/// Files are removed while their pages are being written, or wait to be written. Nothing is left of the files.
#[test]
fn a_file_can_be_removed_during_its_writeback() {
    let mut plan = Plan::default();
    plan.choices.writeback.dirty_expire_ms = 0;
    plan.choices.writeback.dirty_writeback_ms = 5;
    let vmstat = plan.run(|ground| {
        for round in 0..20 {
            let file = ground.create();
            ground.write(&file, 0..200).unwrap();
            ground.pause_ms(round % 7);
            ground.engine.access().unlink(&file);
            assert_eq!(ground.engine.memory().gauge(Gauge::NrFilePages), 0);
        }
        assert!(ground.count("nr_written") > 0, "some were written");
    });
    assert_eq!((vmstat["nr_dirty"], vmstat["nr_writeback"]), (0, 0));
    assert!(vmstat["nr_written"] < 4000, "not all were written: {}", vmstat["nr_written"]);
}

/// The disk fails to write some blocks. The first sync reports this, a second sync does not.
#[test]
fn fsync_reports_a_write_error_once() {
    Plan::default().run(|ground| {
        let file = ground.create();
        ground.inject(Fault::Blocks { blocks: 1..1000, operation: Some(Operation::Write), error: IoError::Device });
        ground.write(&file, 0..10).unwrap();
        let error = ground.fsync(&file).unwrap_err();
        assert_eq!(error, Error::Write { file: file.id, offset: 9 * 4096, source: IoError::Device });
        assert_eq!(error.to_string(), format!("file {}, offset 36864: write failed: device error", file.id));
        ground.fsync(&file).unwrap();
        let (first, second) = (AtomicU32::new(0), AtomicU32::new(0));
        for seen in [&first, &second] {
            ground.engine.access().fsync_since(&mut Task::user(), &file, seen).expect_err("each handle is told");
            ground.engine.access().fsync_since(&mut Task::user(), &file, seen).expect("once");
        }
    });
}

/// A read of a block fails once. The reader's error names the block, and the next reader gets the page.
#[test]
fn a_read_error_reaches_the_reader() {
    let mut plan = Plan::default();
    plan.choices.access.read_ahead_kb = 0;
    plan.run(|ground| {
        let file = ground.import(10);
        ground.read(&file, 0..3).unwrap();
        ground.inject(Fault::Nth { nth: 1, error: IoError::Device });
        let error = ground.read(&file, 3..4).unwrap_err();
        assert_eq!(error, Error::Read { file: file.id, offset: 3 * 4096, source: IoError::Device });
        ground.read(&file, 3..4).unwrap();
    });
}

/// A writer is faster than its disk. Near the dirty limit it is paused, so that dirty pages never exceed the limit. In
/// the end it writes as fast as the disk.
#[test]
fn a_writer_is_held_back_near_the_dirty_limit() {
    // The disk has 4 channels and takes 1 ms for a page: it writes 4000 pages a second.
    let mut plan = Plan { write_ns: 1_000_000, ..Plan::default() };
    plan.choices.writeback.write_failure = WriteFailure::KeepDirty;
    let vmstat = plan.run(|ground| {
        let file = ground.create();
        // The write that fails once is repeated with the rest.
        ground.inject(Fault::Nth { nth: 1, error: IoError::Device });
        let mut failed = Vec::new();
        let started = ground.engine.machine().now();
        for start in (0..8000).step_by(8) {
            ground.write(&file, start..start + 8).unwrap();
            let (dirty, limit) =
                (ground.engine.reclaim().dirty_pages(), ground.engine.writeback().dirty_limits().dirty);
            assert!(dirty <= limit + 64, "{dirty} pages dirty or being written, limit {limit}");
            failed.push(ground.count("nr_write_failed"));
        }
        assert!(failed.contains(&256) && failed.last() == Some(&0), "{failed:?}");
        let elapsed = ground.engine.machine().now().since(started);
        assert!(elapsed > Nanos::from_millis(1500), "8000 pages in {elapsed}");
        assert!(elapsed < Nanos::from_secs(20), "8000 pages in {elapsed}");
        let slept = ground.sim.sleep_profile();
        assert!(
            slept.iter().any(|line| line.starts_with("story;") && line.contains("balance_dirty_pages")),
            "{slept:?}"
        );
    });
    assert_eq!(vmstat["nr_dirtied"], 8000);
}

/// A few dirty pages stay in memory until they are old; then the flusher writes them.
#[test]
fn the_flusher_writes_after_dirty_expire() {
    let mut plan = Plan::default();
    plan.choices.writeback.dirty_expire_ms = 3000;
    plan.choices.writeback.dirty_writeback_ms = 500;
    let vmstat = plan.run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..100).unwrap();
        ground.pause_ms(2900);
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_written")), (100, 0));
        ground.pause_ms(700);
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_written")), (0, 100));
        ground.engine.access().drop_caches();
        assert_eq!(file.index.pages(), 0);
        assert_eq!(ground.read(&file, 7..8).unwrap(), [stamp(7)]);
    });
    assert_eq!(vmstat["pgpgout"], 400);
}

/// Three tasks read files while another drops all clean pages again and again. The drop must look up each page again by
/// its number. Otherwise the frame that it found may hold a page of another file by then, and the drop would take and
/// release the lock of that page.
#[test]
fn caches_are_dropped_while_others_read() {
    let vmstat = Plan { cpus: 4, ..Plan::default() }.run(|ground| {
        let readers: Vec<_> = (0..3)
            .map(|n| {
                ground.spawn("reader", move |ground| {
                    let file = ground.import(1500);
                    for _ in 0..3 {
                        ground.read(&file, n * 10..1500).unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..200 {
            ground.engine.access().drop_caches();
            ground.pause_ms(1);
        }
        readers.into_iter().for_each(|reader| assert!(ground.sim.join(reader)));
    });
    assert!(vmstat["pgpgin"] > 3 * 1500 * 4);
}

/// A file is truncated in the middle of a page while some of its pages are in memory, and grows again. The truncated
/// part reads as zeroes, on the device too; the rest is unchanged.
#[test]
fn a_file_that_was_cut_and_grows_again_reads_as_zeroes() {
    let vmstat = Plan::default().run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..20).unwrap();
        ground.fsync(&file).unwrap();
        let task = &mut Task::user();
        ground.engine.access().set_length(task, &file, 5 * 4096 + 4).unwrap();
        assert_eq!((file.length(), file.index.pages()), (5 * 4096 + 4, 6));
        ground.engine.access().set_length(task, &file, 20 * 4096).unwrap();
        ground.fsync(&file).unwrap();
        ground.engine.access().drop_caches();
        assert_eq!(file.index.pages(), 0);
        let stamps = ground.read(&file, 0..20).unwrap();
        assert!((0..5).all(|page| stamps[page] == stamp(page as u32)));
        assert_eq!(stamps[5][..4], stamp(5)[..4]);
        assert!(stamps[5][4..] == [0; 4] && stamps[6..].iter().all(|stamp| *stamp == [0; 8]));
    });
    assert_eq!(vmstat["nr_dirty"], 0);
}

/// The file's blocks are placed by a file system below the engine. First, a page that was never written is pinned; it
/// reads as zeroes, without a request to the device. A task then changes this pinned page in place before and after a
/// sync writes it. The second change makes the page dirty again and reaches the device too.
#[test]
fn a_page_is_written_in_place() {
    let vmstat = Plan::default().run(|ground| {
        let file = ground.engine.page_cache().add_placed_file(DISK, DISK, 0);
        let task = &mut Task::user();
        ground.engine.access().set_length(task, &file, 8 * 4096).unwrap();
        let pinned = ground.engine.access().pin_for_write(task, &file, 7).unwrap();
        assert_eq!(ground.count("pgpgin"), 0, "nothing is stored yet");
        ground.engine.machine().write_frame(pinned.frame, 0, &stamp(1));
        assert!(ground.engine.access().pin_cached(&file, 6, || true).is_none());
        ground.fsync(&file).unwrap();
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_written")), (0, 1));
        ground.engine.machine().write_frame(pinned.frame, 0, &stamp(2));
        ground.engine.access().unpin_write(&file, pinned);
        assert_eq!(ground.count("nr_dirty"), 1);
        ground.fsync(&file).unwrap();
        ground.engine.access().drop_caches();
        let frame = ground.engine.access().pin_for_read(task, &file, &mut ReadState::default(), 7, 1).unwrap();
        let (second, _) = ground.engine.access().pin_cached(&file, 7, || true).unwrap();
        let mut found = [0; 8];
        ground.engine.machine().read_frame(frame, 0, &mut found);
        assert_eq!((frame, found), (second, stamp(2)));
        assert_eq!(ground.engine.access().drop_caches(), 0, "a pinned page stays");
        ground.engine.access().unpin_read(frame);
        ground.engine.access().unpin_read(second);
        assert_eq!(ground.engine.access().drop_caches(), 1);
    });
    assert_eq!(vmstat["nr_written"], 2);
}

/// A file is dropped while two of its pages are pinned. Code that has no access to the LRU lists then releases the last
/// reference to each page. The pages become free when all per-CPU batches are drained, which every reclaim does first.
#[test]
fn a_page_that_its_last_reader_outlived_is_free_when_batches_are_drained() {
    Plan::default().run(|ground| {
        let free = || {
            ground.engine.memory().drain_all_per_cpu();
            ground.free()
        };
        let file = ground.import(2);
        ground.read(&file, 0..2).unwrap();
        let pin = |page| ground.engine.access().pin_cached(&file, page, || true).unwrap();
        let pinned = [pin(0), pin(1)];
        ground.engine.access().unlink(&file);
        ground.engine.lru().drain_all();
        let before = free();
        let [(first, _), (second, _)] = pinned;
        ground.engine.access().unpin_read(first);
        assert_eq!(free(), before, "it is put aside");
        ground.engine.lru().drain_all();
        assert_eq!(free(), before + 1);
        ground.engine.access().unpin_read(second);
        assert_eq!(free(), before + 1);
        ground.engine.lru().drain_all();
        assert_eq!(free(), before + 2);
    });
}

/// With `dirty_writeback_centisecs = 0`, as on laptops, there is no periodic writeback of old dirty pages. Nothing is
/// written until a task requests it.
#[test]
fn without_periodic_writeback_nothing_is_written_until_asked() {
    let mut plan = Plan::default();
    plan.choices.writeback.dirty_writeback_ms = 0;
    plan.choices.writeback.dirty_expire_ms = 10;
    let vmstat = plan.run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..10).unwrap();
        ground.pause_ms(60_000);
        assert_eq!((ground.count("nr_written"), ground.count("nr_dirty")), (0, 10));
        ground.fsync(&file).unwrap();
    });
    assert_eq!(vmstat["nr_written"], 10);
}

/// In kernels with SLUB, the nodes of a file's index take memory, which becomes free together with the file's pages.
#[test]
fn nodes_of_an_index_lie_in_slabs_of_several_pages() {
    let mut plan = Plan::default();
    plan.choices.slab.order = SlabOrder::Slub;
    plan.run(|ground| {
        let nodes = &ground.engine.slab().index_nodes;
        let slabs = nodes.slabs().unwrap();
        let order = slabs.order();
        assert!(order.0 > 0, "{order:?}");
        let (file, sparse) = (ground.import(640), ground.import(6400));
        let before = ground.count("nr_slab_reclaimable");
        ground.read(&file, 0..640).unwrap();
        assert_eq!(nodes.nodes(), 10);
        let slab = ground.count("nr_slab_reclaimable") - before;
        assert!(slab >= order.pages() && slab <= 4 * order.pages(), "{slab} pages for 10 nodes");
        for n in 0..100 {
            ground.read(&sparse, n * 64..n * 64 + 1).unwrap();
        }
        assert_eq!(nodes.nodes(), 110, "a page in each node");
        ground.engine.access().unlink(&file);
        ground.engine.access().unlink(&sparse);
        assert_eq!(nodes.nodes(), 0);
        // Five slabs are kept, and one for each CPU.
        assert!(slabs.idle_pages() <= 7 * order.pages(), "{} pages are kept", slabs.idle_pages());
    });
}

/// Returns the virtual time in which a task writes `percent` percent of the dirty limit's pages, each of them fifty
/// times. The device takes 0.4 ms for a page.
fn time_to_rewrite(throttle: DirtyThrottle, percent: u64) -> Nanos {
    let mut plan = Plan { write_ns: 400_000, ..Plan::default() };
    plan.choices.access.dirty_throttle = throttle;
    let time = Arc::new(OnceLock::new());
    let told = time.clone();
    plan.run(move |ground| {
        let file = ground.create();
        let pages = (ground.engine.writeback().dirty_limits().dirty * percent / 100) as u32;
        let began = ground.engine.machine().now();
        for _ in 0..50 {
            ground.write(&file, 0..pages).unwrap();
        }
        told.set(ground.engine.machine().now().since(began)).expect("it runs once");
    });
    *time.get().expect("it ran")
}

/// A task writes the same pages of a file again and again. A write to a page that is already dirty makes no work for
/// the device. So with half as many pages as may be dirty, a task that is throttled by writeback never waits. With
/// twice as many, it is as slow as the device in any case.
#[test]
fn a_writer_waits_for_pages_that_become_dirty_alone() {
    let [sleeps, waits] = [DirtyThrottle::Sleeps, DirtyThrottle::ForWriteback].map(|it| time_to_rewrite(it, 50));
    assert!(waits.0 < sleeps.0 / 10, "{waits}, {sleeps}");
    let [sleeps, waits] = [DirtyThrottle::Sleeps, DirtyThrottle::ForWriteback].map(|it| time_to_rewrite(it, 200));
    assert!(waits.0 < sleeps.0 / 10 * 11, "{waits}, {sleeps}");
}

/// A writer is faster than the device. With each way of throttling, it is held back near the dirty limit. The writer
/// sleeps, waits for writeback, or writes pages itself. In the last case there may be twice as many dirty pages as the
/// limit, because those in the device's queue come on top.
#[test]
fn a_fast_writer_is_held_near_the_dirty_limit() {
    for (throttle, most_percent) in
        [(DirtyThrottle::Sleeps, 125), (DirtyThrottle::ForWriteback, 110), (DirtyThrottle::Writes, 200)]
    {
        let mut plan = Plan { write_ns: 400_000, ..Plan::default() };
        plan.choices.access.dirty_throttle = throttle;
        plan.choices.writeback.chunk = WritebackChunk::Fixed;
        plan.run(move |ground| {
            let file = ground.create();
            let mut most = 0;
            for start in (0..4 * PAGES as u32).step_by(64) {
                ground.write(&file, start..start + 64).unwrap();
                most = most.max(ground.engine.reclaim().dirty_pages());
            }
            let limit = ground.engine.writeback().dirty_limits().dirty;
            let range = limit / 2..limit * most_percent / 100;
            assert!(range.contains(&most), "{throttle:?}: {most} dirty, the limit is {limit}");
            let profile = ground.sim.profile();
            let by_writer = profile
                .iter()
                .any(|line| line.contains("balance_dirty_pages;writeback_single_inode") && !line.starts_with("flush"));
            assert_eq!(by_writer, matches!(throttle, DirtyThrottle::Writes), "{profile:#?}");
        });
    }
}
