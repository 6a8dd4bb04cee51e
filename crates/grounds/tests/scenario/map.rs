//! Mapped files: faults, dirtying through page tables, reclaim, truncation, copies.

use crate::ground::{Ground, PAGES, Plan, stamp};
use engine::access::choices::MapReadahead;
use engine::anonymous::{MapMode, Region, Sharing};
use engine::memory::Flags;
use engine::page_cache::{File, ReadPattern};
use engine::{Error, Task};
use machine::{Machine, Nanos, PAGE_BYTES};
use sim::{Rng, Sim};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

pub const PRIVATE: MapMode = MapMode { sharing: Sharing::Private, is_executable: false, pattern: ReadPattern::Normal };
pub const SHARED: MapMode = MapMode { sharing: Sharing::Shared, ..PRIVATE };

impl Ground {
    pub fn map(&self, file: &Arc<File<Sim>>, mode: MapMode) -> Arc<Region<Sim>> {
        self.engine.access().map_file(&mut self.task.borrow_mut(), file, 0, file.length_pages(), mode).unwrap()
    }

    pub fn set_pages(&self, file: &Arc<File<Sim>>, pages: u32) {
        self.engine
            .access()
            .set_length(&mut self.task.borrow_mut(), file, u64::from(pages) * PAGE_BYTES as u64)
            .unwrap();
    }
}

/// Returns a file of `pages` pages, which hold their stamps on the disk and are not in memory.
fn written(ground: &Ground, pages: u32) -> Arc<File<Sim>> {
    let file = ground.create();
    ground.write(&file, 0..pages).unwrap();
    ground.fsync(&file).unwrap();
    ground.engine.access().drop_caches();
    assert_eq!(file.index.pages(), 0);
    file
}

/// Page 200 of a file is touched. This reads the page and the pages around it, in one major fault. Faults on the other
/// pages are minor then.
#[test]
fn a_fault_reads_the_pages_around() {
    let vmstat = Plan::default().run(|ground| {
        let file = written(ground, 400);
        let region = ground.map(&file, SHARED);
        ground.touch(&region, 200..201, false).unwrap();
        assert_eq!((file.index.pages(), ground.faults()), (32, (0, 1)));
        assert!(file.index.get(183).is_none() && file.index.get(184).is_some() && file.index.get(215).is_some());
        assert_eq!(ground.count("nr_mapped"), 1);
        ground.touch(&region, 184..208, false).unwrap();
        assert_eq!((ground.faults(), ground.count("nr_mapped")), ((23, 1), 24));
        // Page 208, in the last quarter of the window, has the readahead mark. A touch of this page continues the
        // readahead.
        ground.touch(&region, 208..209, false).unwrap();
        assert!(ground.faults().1 == 1 && file.index.pages() > 32);
        assert_eq!(ground.read_stamp(&region, 190).unwrap(), stamp(190));
        ground.engine.access().drop_region(&region);
        assert_eq!(ground.count("nr_mapped"), 0);
    });
    assert_eq!(vmstat["pgmajfault"], 1);
}

/// All pages of a mapping are touched in order. If the kernel reads ahead as for sequential reads, one fault waits for
/// the disk. With random advice, nothing is read ahead, and each fault waits.
#[test]
fn consecutive_faults_are_read_ahead_like_reads() {
    let majors = |map_readahead, pattern| {
        let mut plan = Plan::default();
        plan.choices.access.map_readahead = map_readahead;
        let vmstat = plan.run(move |ground| {
            let file = written(ground, 1000);
            let region = ground.map(&file, MapMode { pattern, ..SHARED });
            ground.touch(&region, 0..1000, false).unwrap();
            ground.engine.access().drop_region(&region);
        });
        vmstat["pgmajfault"]
    };
    assert_eq!(majors(MapReadahead::SequentialOrAround, ReadPattern::Normal), 1);
    assert_eq!(majors(MapReadahead::Around, ReadPattern::Sequential), 1);
    assert_eq!(majors(MapReadahead::Around, ReadPattern::Random), 1000);
    let around = majors(MapReadahead::Around, ReadPattern::Normal);
    assert!(around < 1000 / 16, "{around} major faults");
}

/// A shared page is written through its mapping and is dirty at once. After it was written to the disk, the next write
/// faults and makes the page dirty again, so nothing is lost.
#[test]
fn a_shared_page_is_dirty_from_its_write_fault_to_its_writeback() {
    let vmstat = Plan::default().run(|ground| {
        let file = written(ground, 10);
        let (region, other) = (ground.map(&file, SHARED), ground.map(&file, SHARED));
        ground.touch(&region, 0..10, false).unwrap();
        assert_eq!(ground.count("nr_dirty"), 0);
        for round in 1..=3 {
            let minor = ground.faults().0;
            for page in 0..10 {
                let offset = u64::from(page) * PAGE_BYTES as u64;
                ground
                    .engine
                    .access()
                    .write_region(&mut Task::user(), &region, offset, &stamp(1000 * round + page))
                    .unwrap();
                assert_eq!(ground.read_stamp(&other, page).unwrap(), stamp(1000 * round + page));
            }
            assert_eq!(ground.count("nr_dirty"), 10);
            ground.touch(&region, 0..10, true).unwrap();
            assert_eq!(ground.faults().0 - minor, if round == 1 { 10 } else { 0 }, "of the other mapping");
            ground.engine.access().sync_region(&mut Task::user(), &region).unwrap();
            assert_eq!(ground.count("nr_dirty"), 0);
        }
        ground.engine.access().drop_region(&other);
        ground.engine.access().drop_region(&region);
        ground.engine.access().drop_caches();
        assert_eq!(ground.read(&file, 0..10).unwrap(), (0..10).map(|page| stamp(3000 + page)).collect::<Vec<_>>());
    });
    assert_eq!(vmstat["nr_dirtied"], 40);
}

/// The dirty limit is 0, and a task writes pages through a mapping. For each page, the flusher writes the page back and
/// maps it read-only before the task has written, so the task faults again. The task is paused once, and then its write
/// must succeed, so no page becomes dirty more than about twice.
#[test]
fn a_write_through_a_mapping_comes_to_its_end_though_its_page_is_written_back_first() {
    let mut plan = Plan::default();
    (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (0, 0);
    let vmstat = plan.run(|ground| {
        let file = ground.create();
        ground.set_pages(&file, 100);
        let region = ground.map(&file, SHARED);
        ground.write_stamps(&region, 0..100).unwrap();
        let held = ground.engine.access().pin_region(&mut Task::user(), &region, 0, true).unwrap().unwrap();
        ground.engine.access().unpin_region(held, true);
        ground.engine.access().drop_region(&region);
    });
    assert!((100..=202).contains(&vmstat["nr_dirtied"]), "{} pages", vmstat["nr_dirtied"]);
}

/// A task that pins a page for writing is paused before it has the page. So the page's readers do not wait as well, and
/// the old version of the page is not written in the meantime.
#[test]
fn who_pins_a_page_for_writing_is_held_back_before() {
    let mut plan = Plan { write_ns: 1_000_000, ..Plan::default() };
    (plan.choices.writeback.dirty_ratio, plan.choices.writeback.dirty_background_ratio) = (0, 0);
    let vmstat = plan.run(|ground| {
        let file = ground.import(50);
        let began = ground.sim.now();
        for page in 0..50 {
            let held = ground.engine.access().pin_for_write(&mut ground.task.borrow_mut(), &file, page).unwrap();
            assert!((1..20).contains(&ground.count("nr_dirty")), "page {page}, and most before it are written");
            ground.engine.access().unpin_write(&file, held);
        }
        let took = ground.sim.now().since(began);
        assert!(took > Nanos::from_millis(10), "{took}: nobody was held back");
        ground.fsync(&file).unwrap();
    });
    assert_eq!((vmstat["nr_dirtied"], vmstat["nr_written"]), (50, 50));
}

/// A sparse file of four times memory is written through a shared mapping, page by page. All contents come back.
#[test]
fn a_file_of_four_times_memory_is_written_through_its_mapping() {
    let pages = 4 * PAGES as u32;
    let vmstat = Plan::default().run(move |ground| {
        let file = ground.create();
        ground.set_pages(&file, pages);
        let region = ground.map(&file, SHARED);
        ground.write_stamps(&region, 0..pages).unwrap();
        for page in 0..pages {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page), "page {page}");
        }
        ground.engine.access().drop_region(&region);
        ground.engine.access().unlink(&file);
    });
    assert!(vmstat["pgsteal_kswapd_normal"] > 4 * PAGES && vmstat["nr_mapped"] == 0);
    assert_eq!(vmstat["pswpout"], 0, "nothing but the file was used");
}

/// A private mapping is written: the file stays as it is, and the copies go to swap like any anonymous memory.
#[test]
fn a_private_mapping_copies_what_it_writes() {
    let vmstat = Plan::default().run(|ground| {
        let pages = PAGES as u32;
        let file = written(ground, pages);
        let region = ground.map(&file, PRIVATE);
        // Half of the pages were read before.
        ground.touch(&region, 0..pages / 2, false).unwrap();
        for page in 0..pages {
            let offset = u64::from(page) * PAGE_BYTES as u64;
            ground.engine.access().write_region(&mut Task::user(), &region, offset + 8, &stamp(5)).unwrap();
            ground.engine.access().write_region(&mut Task::user(), &region, offset, &stamp(9000 + page)).unwrap();
        }
        assert_eq!(ground.count("nr_dirty"), 0);
        ground.read(&file, 0..pages).unwrap();
        for page in 0..pages {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(9000 + page), "page {page}");
        }
        assert_eq!(ground.read(&file, 0..pages).unwrap(), (0..pages).map(stamp).collect::<Vec<_>>());
        ground.engine.access().drop_region(&region);
    });
    assert!(vmstat["pswpout"] > 0 && vmstat["pswpin"] > 0 && vmstat["nr_anon_pages"] == 0);
}

/// A file is truncated while it is mapped. Pages behind the new end are unmapped, also private copies, and an access
/// there fails. When the file grows again, this part reads as zeroes.
#[test]
fn truncation_unmaps_what_is_behind_the_end() {
    Plan::default().run(|ground| {
        let file = written(ground, 100);
        let (shared, private) = (ground.map(&file, SHARED), ground.map(&file, PRIVATE));
        ground.touch(&shared, 0..100, true).unwrap();
        ground.touch(&private, 0..50, false).unwrap();
        ground.touch(&private, 50..100, true).unwrap();
        ground.set_pages(&file, 40);
        assert_eq!((ground.count("nr_mapped"), ground.count("nr_anon_pages"), file.index.pages()), (40, 0, 40));
        let error = Error::BeyondEnd { file: file.id, offset: 40 * 4096 };
        for region in [&shared, &private] {
            assert_eq!(ground.touch(region, 40..41, true), Err(error.clone()));
            ground.touch(region, 39..40, true).unwrap();
        }
        assert!(error.to_string().contains("after the end of its file"));
        ground.set_pages(&file, 100);
        assert_eq!(ground.read_stamp(&shared, 60).unwrap(), [0; 8]);
        ground.engine.access().drop_region(&shared);
        ground.engine.access().drop_region(&private);
        ground.engine.access().unlink(&file);
    });
}

/// A read fault on a page that is in memory also maps the pages around it that are in memory: those of the aligned
/// block of sixteen. A write fault maps one page.
#[test]
fn a_read_fault_maps_what_is_in_memory_around_it() {
    let faults = |fault_around_pages| {
        let mut plan = Plan::default();
        plan.choices.access.fault_around_pages = fault_around_pages;
        let seen = Rc::new(RefCell::new(Vec::new()));
        let faults = seen.clone();
        plan.run(move |ground| {
            let file = written(ground, 100);
            let mode = MapMode { pattern: ReadPattern::Random, ..PRIVATE };
            let first = ground.map(&file, mode);
            for page in [20, 21, 40] {
                ground.touch(&first, page..page + 1, false).unwrap();
            }
            assert_eq!(ground.faults(), (0, 3));
            let second = ground.map(&file, mode);
            let note = |page: u32, write| {
                ground.touch(&second, page..page + 1, write).unwrap();
                faults.borrow_mut().push(ground.faults());
            };
            note(21, true);
            note(20, false);
            note(21, false);
            note(40, false);
            note(99, false);
            for region in [first, second] {
                ground.engine.access().drop_region(&region);
            }
            assert_eq!(ground.count("nr_mapped"), 0);
        });
        seen.take()
    };
    for pages in [1, 16] {
        assert_eq!(
            faults(pages),
            [(1, 3), (2, 3), (2, 3), (3, 3), (3, 4)],
            "a write maps its own copy, and 20 is not with it"
        );
    }
    let both = |fault_around_pages| {
        let mut plan = Plan::default();
        plan.choices.access.fault_around_pages = fault_around_pages;
        plan.run(|ground| {
            let file = written(ground, 100);
            let regions = [(); 2].map(|()| ground.map(&file, MapMode { pattern: ReadPattern::Random, ..SHARED }));
            for region in &regions {
                (15..34).step_by(2).for_each(|page| ground.touch(region, page..page + 1, false).unwrap());
            }
            let accessed = (16..32).filter(|page| regions[1].entry(*page).is_accessed()).count();
            assert_eq!((ground.count("nr_mapped"), accessed), (10, 8), "what is not in memory is not mapped");
            regions.iter().for_each(|region| ground.engine.access().drop_region(region));
        })["pgfault"]
    };
    assert_eq!((both(1), both(16)), (20, 13), "ten, and one for each of three blocks");
}

/// A read fault waits until its page is read, and is then handled from the beginning, so that it maps the pages that were
/// read with its page. A fault that wrote maps its page alone.
#[test]
fn a_read_fault_that_waited_maps_what_was_read_around_it() {
    for (fault_around_pages, write, mapped) in [(16, false, 16), (1, false, 1), (16, true, 1)] {
        let mut plan = Plan::default();
        plan.choices.access.fault_around_pages = fault_around_pages;
        plan.run(move |ground| {
            let file = ground.import(100);
            let region = ground.map(&file, SHARED);
            ground.touch(&region, 40..41, write).unwrap();
            assert_eq!(ground.faults().1, 1);
            assert_eq!(ground.count("nr_mapped"), mapped, "{fault_around_pages} pages, write: {write}");
            ground.engine.access().drop_region(&region);
        });
    }
}

/// Reclaim has evicted pages of the text of a running program. The program waits for them to be read again, which
/// counts as memory pressure.
#[test]
fn waits_for_text_that_comes_back_are_pressure() {
    for kernel in ["6.1-classic", "3.10-rc4-vanilla"] {
        let mut plan = Plan { choices: crate::ground::choices_of(kernel), swap_slots: 0, ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        let vmstat = plan.run(move |ground| {
            let pages = PAGES as u32 / 2;
            let text = ground.import(pages);
            let mode = MapMode { is_executable: true, pattern: ReadPattern::Random, ..PRIVATE };
            let region = ground.map(&text, mode);
            (0..3).for_each(|_| ground.touch(&region, 0..pages, false).unwrap());
            let hog = ground.region(PAGES as u32 * 3 / 4);
            ground.touch(&hog, 0..PAGES as u32 * 3 / 4, true).unwrap();
            let mut rng = Rng::new(1, 1);
            let mut touch_at_random = || {
                let page = rng.below(pages.into()) as u32;
                ground.touch(&region, page..page + 1, false).unwrap();
            };
            // This goes on until the pages that are touched often have been active and have been evicted.
            (0..20_000).for_each(|_| touch_at_random());
            let (began, before) = (ground.sim.now(), ground.sim.pressure(0).some.total_us);
            (0..20_000).for_each(|_| touch_at_random());
            let waited = (ground.sim.pressure(0).some.total_us - before) * 1000;
            let elapsed = ground.sim.now().since(began).0;
            // 3.10 keeps no shadow of a page that left, so it does not recognise its return.
            let is_known = kernel != "3.10-rc4-vanilla";
            assert_eq!(20 * waited > elapsed, is_known, "{kernel}: {waited} of {elapsed} ns");
            [hog, region].iter().for_each(|region| ground.engine.access().drop_region(region));
        });
        assert!(vmstat["pgmajfault"] > PAGES / 2, "{kernel}");
    }
}

/// The pages of a mapped file are touched once, and then a file of three times the size of memory is read. If the
/// mapped file is a program's text, its pages become active when reclaim first examines them. If not, they are kept for
/// one round and are then evicted.
#[test]
fn text_becomes_active_at_the_first_look() {
    for is_executable in [true, false] {
        let vmstat = Plan::default().run(move |ground| {
            let text = written(ground, 200);
            let stream = ground.import(3 * PAGES as u32);
            let region = ground.map(&text, MapMode { is_executable, ..PRIVATE });
            ground.touch(&region, 0..200, false).unwrap();
            ground.read(&stream, 0..3 * PAGES as u32).unwrap();
            assert_eq!(ground.count("nr_mapped"), if is_executable { 200 } else { 0 });
            // The activation leaves the page marked, so one more use on the inactive list makes it active again.
            let is_marked = |page| ground.engine.memory().frames[text.index.get(page).unwrap()].is(Flags::REFERENCED);
            assert!(!is_executable || (0..200).all(is_marked));
            ground.engine.access().drop_region(&region);
        });
        assert_eq!(vmstat["pgactivate"], if is_executable { 200 } else { 0 });
    }
}

/// Three mappings of one file are declared to be used sequentially (as by `MADV_SEQUENTIAL`), and each page is touched
/// once through each mapping. When memory is short, reclaim unmaps the pages from all three and frees them.
#[test]
fn reclaim_unmaps_pages_that_are_no_longer_touched() {
    let vmstat = Plan::default().run(|ground| {
        let (file, stream) = (written(ground, 500), ground.import(6 * PAGES as u32));
        let mode = MapMode { pattern: ReadPattern::Sequential, ..SHARED };
        let regions: Vec<_> = (0..3).map(|_| ground.map(&file, mode)).collect();
        for region in &regions {
            ground.touch(region, 0..500, false).unwrap();
        }
        let frame = file.index.get(7).unwrap();
        assert_eq!((ground.engine.memory().frames[frame].mappings(), ground.count("nr_mapped")), (3, 500));
        ground.read(&stream, 0..6 * PAGES as u32).unwrap();
        assert_eq!((file.index.pages(), ground.count("nr_mapped")), (0, 0));
        assert!(regions.iter().all(|region| region.entry(7).frame().is_none()));
        regions.iter().for_each(|region| ground.engine.access().drop_region(region));
    });
    assert_eq!(vmstat["pgactivate"], 0);
}

/// The device has no free block. A write fault that needs one fails with an error that says so.
#[test]
fn a_write_fault_fails_when_the_device_is_full() {
    Plan::default().run(|ground| {
        let (hog, file) = (ground.import((1 << 17) - 5), ground.create());
        ground.set_pages(&file, 100);
        let region = ground.map(&file, SHARED);
        let offset = 5 * PAGE_BYTES as u64;
        assert_eq!(ground.touch(&region, 0..100, true), Err(Error::NoSpace { file: file.id, offset }));
        assert!(!ground.engine.memory().frames[file.index.get(5).unwrap()].is(Flags::DIRTY));
        ground.engine.access().drop_region(&region);
        ground.engine.access().unlink(&file);
        ground.engine.access().unlink(&hog);
    });
}

/// Tasks read and write a file and its mappings, shared and private, in an order given by a seed, while the file
/// shrinks and grows and memory is short. Each task writes pages of its own. Truncated parts read as zeroes, and
/// nothing else is lost.
#[test]
fn nothing_is_lost_of_mapped_files_whatever_happens() {
    const TASKS: u32 = 3;
    const FILE_PAGES: u32 = 3000;
    for seed in 1..=6 {
        let vmstat = Plan { swap_slots: 20_000, ..Plan::default() }.run(move |ground| {
            let file = ground.create();
            ground.set_pages(&file, FILE_PAGES);
            let tasks: Vec<_> = (0..TASKS)
                .map(|n| {
                    let file = file.clone();
                    ground
                        .spawn(&format!("user {n}"), move |ground| use_file(ground, &file, n, Rng::new(seed, n.into())))
                })
                .collect();
            let hog = ground.region(PAGES as u32);
            let mut rng = Rng::new(seed, 99);
            for _ in 0..40 {
                ground.pause_ms(rng.below(20));
                let start = rng.below(u64::from(hog.pages) - 300) as u32;
                ground.touch(&hog, start..start + 300, true).unwrap();
                if rng.below(4) == 0 {
                    ground.engine.access().drop_caches();
                }
            }
            for task in tasks {
                ground.sim.join(task);
            }
            ground.engine.access().drop_region(&hog);
            ground.engine.access().unlink(&file);
        });
        assert!(vmstat["pgsteal_kswapd_normal"] > 0 && vmstat["pswpout"] > 0, "seed {seed}: memory was never short");
    }

    fn use_file(ground: &Ground, file: &Arc<File<Sim>>, n: u32, mut rng: Rng) {
        let (shared, private) = (ground.map(file, SHARED), ground.map(file, PRIVATE));
        // The versions that each of the task's pages holds: in the file, and in its own copy if it has one.
        let mut versions = vec![(0_u32, None::<u32>); (FILE_PAGES / TASKS) as usize];
        let contents = |version: u32| if version == 0 { [0; 8] } else { stamp(version) };
        for step in 1..=1500_u32 {
            let own = rng.below(versions.len() as u64) as usize;
            let page = own as u32 * TASKS + n;
            let offset = u64::from(page) * PAGE_BYTES as u64;
            let version = step * TASKS + n;
            let mut task = ground.task.borrow_mut();
            match rng.below(8) {
                0 => {
                    ground.engine.access().write(&mut task, file, offset, &stamp(version)).unwrap();
                    versions[own].0 = version;
                }
                1 | 2 => {
                    ground.engine.access().write_region(&mut task, &shared, offset, &stamp(version)).unwrap();
                    versions[own].0 = version;
                }
                3 => {
                    ground.engine.access().write_region(&mut task, &private, offset, &stamp(version)).unwrap();
                    versions[own].1 = Some(version);
                }
                4 if rng.below(64) == 0 => ground.engine.access().sync_region(&mut task, &shared).unwrap(),
                _ => {
                    let (of_file, of_copy) = versions[own];
                    let mut found = [0; 8];
                    ground.engine.access().read_region(&mut task, &shared, offset, &mut found).unwrap();
                    assert_eq!(found, contents(of_file), "task {n}, step {step}, page {page} of the file");
                    ground.engine.access().read_region(&mut task, &private, offset, &mut found).unwrap();
                    assert_eq!(found, contents(of_copy.unwrap_or(of_file)), "task {n}, step {step}, copy of {page}");
                }
            }
        }
        ground.engine.access().drop_region(&shared);
        ground.engine.access().drop_region(&private);
    }
}
