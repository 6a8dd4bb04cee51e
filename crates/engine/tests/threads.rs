//! The engine on real threads: tasks use twice as much memory as there is, and every byte is verified.
//!
//! In each test tasks share 8 MiB, with kswapd and the flusher beside them. In most tests, some tasks write and read
//! anonymous pages at random, and others use files, by calls and through a mapping. In another test, three tasks read
//! files and drop pages of one file, and a fourth task truncates this file. In other tests, pages and folios move,
//! writes to the device fail now and then, or khugepaged makes huge pages of pages in use. Nothing may be lost, and at
//! the end every frame is in one place.
//!
//! The tests do not control which thread has a CPU. So their checks of counters hold in every order, even if the tasks
//! run one after another.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

#[path = "../../machine/tests/threads/machine.rs"]
mod thread_machine;

use engine::anonymous::MapMode;
use engine::compact::choices::Folios;
use engine::lru::choices::PolicyKind;
use engine::page_cache::{File, Tag};
use engine::stat::Vmstat;
use engine::swap::SwapLayout;
use engine::swap::choices::SwapFolios;
use engine::writeback::DeviceLayout;
use engine::writeback::choices::{StablePages, WriteFailure};
use engine::{Engine, Error, KernelTask, Layout, ReadPattern, ReadState, Task, kernel};
use machine::{Completions, DeviceId, PAGE_BYTES};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;
use thread_machine::ThreadMachine;

struct World {
    engine: Engine<ThreadMachine>,
    /// A file that all tasks use.
    file: Arc<File<ThreadMachine>>,
    /// Number of tasks whose work is not done.
    at_work: AtomicUsize,
    /// The barrier at which a task waits when its work is done. So no task releases its memory before all have done
    /// their work.
    together: Barrier,
    /// `true` if writes to files may fail.
    is_failing: bool,
}

impl World {
    /// Repeats an operation that a failing disk may refuse for a while.
    fn insist(&self, mut attempt: impl FnMut() -> Result<(), Error>) {
        loop {
            match attempt() {
                Ok(()) => return,
                Err(Error::Write { .. }) if self.is_failing => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

type Shared = Arc<World>;

/// A guard that a task holds while it works. When the guard is dropped, because the work is done or has failed, the
/// task waits at the barrier. Without the guard, a failed task would keep the other tasks waiting for ever.
struct AtWork<'a>(&'a World);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Relaxed);
        self.0.together.wait();
    }
}

/// The work of a task.
type Job = fn(&Shared, usize);

/// One task uses a file of its own, the others use regions.
const EACH_ITS_OWN: [Job; 4] = [use_file, use_region, use_region, use_region];

const MEMORY_PAGES: u64 = 2048;
const REGION_PAGES: u32 = 1024;
const ROUNDS: u32 = 8000;

fn assert_sync<T: Send + Sync>(_: &T) {}

/// A random generator that is good enough to choose pages.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

fn contents(worker: usize, page: u32, version: u32) -> Vec<u8> {
    let seed = (worker as u32) << 28 ^ page << 12 ^ version;
    if version == 0 { vec![0; PAGE_BYTES] } else { seed.to_le_bytes().repeat(PAGE_BYTES / 4) }
}

fn use_region(world: &Shared, worker: usize) {
    use_region_of(world, worker, REGION_PAGES, false);
}

/// Reads and writes random pages of a region that may become a huge page. In odd rounds, each read or write splits the
/// huge page; in even rounds it is used as a whole. Every 16 rounds, all pages of the region are touched.
fn use_huge_page(world: &Shared, worker: usize) {
    use_region_of(world, worker, 512, true);
}

fn use_region_of(world: &Shared, worker: usize, pages: u32, is_huge_allowed: bool) {
    let at_work = AtWork(world);
    let engine = &world.engine;
    let mut task = Task::user();
    let region = engine.anonymous().create_region(None, pages, is_huge_allowed);
    let mut versions = vec![0; pages as usize];
    let mut chance = Chance(worker as u64 + 1);
    let mut found = vec![0; PAGE_BYTES];
    for round in 1..=ROUNDS {
        let page = chance.below(pages);
        if is_huge_allowed && round % 16 == 0 {
            // A program touches its memory without a copy: page after page, and by one entry where there is a huge
            // page.
            engine.access().touch(&mut task, &region, 0..pages, round % 32 == 0).expect("memory for all");
            thread::sleep(Duration::from_micros(100));
        }
        let offset = bytes(page);
        let version = &mut versions[page as usize];
        if chance.below(2) == 0 {
            *version = round;
            let stored = contents(worker, page, round);
            let done = match round % 2 {
                0 => engine.access().store(&mut task, &region, offset, &stored),
                _ => engine.access().write_region(&mut task, &region, offset, &stored),
            };
            done.expect("swap has room");
        } else {
            let done = match round % 2 {
                0 => engine.access().load(&mut task, &region, offset, &mut found),
                _ => engine.access().read_region(&mut task, &region, offset, &mut found),
            };
            done.expect("swap can be read");
            assert!(found == contents(worker, page, *version), "worker {worker}, page {page}, version {version}");
        }
    }
    // Khugepaged gets its turn now, whichever threads had a CPU before: a block is free, and only batches of this CPU
    // hold the pages.
    let began = std::time::Instant::now();
    while is_huge_allowed && engine.access().pages_collapsed() < 2 && began.elapsed() < Duration::from_secs(60) {
        engine.access().touch(&mut task, &region, 0..pages, true).expect("memory for all");
        engine.lru().drain_before_use();
        thread::sleep(Duration::from_millis(1));
    }
    drop(at_work);
    // Now all tasks together use twice as many pages as memory holds, in whatever order they ran. Half of the pages are
    // on the device.
    for (page, version) in (0..).zip(versions) {
        engine.access().read_region(&mut task, &region, bytes(page), &mut found).expect("swap can be read");
        assert!(found == contents(worker, page, version), "worker {worker}, page {page}, version {version} at the end");
    }
    engine.access().drop_region(&region);
}

/// Number of pages of a file that fills memory.
const FILE_PAGES: u32 = 4096;

fn bytes(pages: u32) -> u64 {
    u64::from(pages) * PAGE_BYTES as u64
}

/// Reads random pages, in turn 32 of an own file that fills memory and 32 of the file that all tasks use. After each
/// turn, drops the clean pages of the common file.
fn read_and_drop(world: &Shared, worker: usize) {
    let at_work = AtWork(world);
    let engine = &world.engine;
    let mut task = Task::user();
    let own = engine.access().create(&mut task, DeviceId(0)).expect("memory for an inode");
    for page in 0..FILE_PAGES {
        engine.access().write(&mut task, &own, bytes(page), &contents(worker, page, 1)).expect("memory for a page");
    }
    let mut chance = Chance(worker as u64 + 1);
    let mut state = ReadState::default();
    state.pattern = ReadPattern::Random;
    let (mut found, mut dropped) = (vec![0; PAGE_BYTES], 0);
    for round in 1..=2 * ROUNDS {
        let page = chance.below(FILE_PAGES);
        // The part of the common file after its end was never written.
        let (file, version) = if round % 64 < 32 { (&own, 1) } else { (&world.file, 0) };
        let n = engine.access().read(&mut task, file, &mut state, bytes(page), &mut found).expect("the device works");
        assert!(found[..n] == contents(worker, page, version)[..n], "worker {worker}, page {page}, version {version}");
        assert!(version == 0 || n == PAGE_BYTES, "worker {worker}, page {page}: {n} bytes");
        if round % 64 == 63 {
            dropped += engine.lru().invalidate_file(&world.file);
        }
    }
    assert!(dropped > 0, "the file for all had no pages");
    drop(at_work);
    engine.access().unlink(&own);
}

/// Truncates and extends the common file.
fn cut(world: &Shared, _: usize) {
    let at_work = AtWork(world);
    let mut task = Task::user();
    while world.at_work.load(Relaxed) > 1 {
        for pages in [1, FILE_PAGES] {
            world.engine.access().set_length(&mut task, &world.file, bytes(pages)).expect("nothing is cut in a page");
        }
        thread::sleep(Duration::from_micros(50));
    }
    drop(at_work);
}

/// Compacts memory again and again, with a pause after each run that is at least as long as the run. Without pauses,
/// reclaim in the small zone would mostly wait for pages that a run has taken off their lists.
fn compact(world: &Shared, _: usize) {
    let at_work = AtWork(world);
    while world.at_work.load(Relaxed) > 1 {
        let began = std::time::Instant::now();
        world.engine.compact().compact_memory();
        thread::sleep(began.elapsed().max(Duration::from_micros(200)));
    }
    drop(at_work);
}

fn use_file(world: &Shared, worker: usize) {
    let at_work = AtWork(world);
    let engine = &world.engine;
    let mut task = Task::user();
    let file = engine.access().create(&mut task, DeviceId(0)).expect("memory for an inode");
    engine.access().set_length(&mut task, &file, bytes(REGION_PAGES)).expect("longer takes no room");
    let mapped =
        engine.access().map_file(&mut task, &file, 0, REGION_PAGES, MapMode::default()).expect("memory for an inode");
    let mut versions = vec![0; REGION_PAGES as usize];
    let mut chance = Chance(worker as u64 + 1);
    let mut state = ReadState::default();
    let mut found = vec![0; PAGE_BYTES];
    for round in 1..=ROUNDS {
        let page = chance.below(REGION_PAGES);
        let offset = bytes(page);
        if chance.below(2) == 0 {
            versions[page as usize] = round;
            let bytes = contents(worker, page, round);
            if chance.below(2) == 0 {
                world.insist(|| engine.access().write(&mut task, &file, offset, &bytes));
            } else {
                world.insist(|| engine.access().write_region(&mut task, &mapped, offset, &bytes));
            }
        } else if chance.below(2) == 0 {
            engine.access().read_region(&mut task, &mapped, offset, &mut found).expect("the device works");
            assert!(found == contents(worker, page, versions[page as usize]), "page {page} through the mapping");
        } else {
            let n = engine.access().read(&mut task, &file, &mut state, offset, &mut found).expect("the device works");
            let expected = contents(worker, page, versions[page as usize]);
            assert!(found[..n] == expected[..n], "file page {page}, version {}", versions[page as usize]);
        }
        if round % 1000 == 0 {
            let synced = engine.access().fsync(&mut task, &file);
            assert!(synced.is_ok() || world.is_failing, "{synced:?}");
        }
    }
    drop(at_work);
    for (page, version) in (0..).zip(versions) {
        let n = engine.access().read(&mut task, &file, &mut state, bytes(page), &mut found).expect("the device works");
        assert!(found[..n] == contents(worker, page, version)[..n], "file page {page}, version {version} at the end");
        assert_eq!(n, PAGE_BYTES, "file page {page} at the end");
    }
    world.insist(|| engine.access().fsync(&mut task, &file));
    assert_eq!(file.index.next_tagged(0, Tag::WriteFailed), None, "a good sync leaves nothing unwritten");
    engine.access().drop_region(&mapped);
    engine.access().unlink(&file);
}

#[test]
fn nothing_is_lost_on_real_threads_with_twice_the_memory_in_use() {
    assert_was_short(&run(choices(), &EACH_ITS_OWN));
}

#[test]
fn nothing_is_lost_where_pages_wait_for_their_list() {
    let [file, region, ..] = EACH_ITS_OWN;
    // The task that reads uses more than memory by itself, whatever the other tasks do.
    let vmstat = run(by_refault(), &[file, region, region, region, read_and_drop]);
    assert_was_short(&vmstat);
    assert!(vmstat["lru_used_once_normal"] > 0 && vmstat["workingset_refault_file"] > 0, "{vmstat:?}");
}

/// Three tasks read random pages of a file and drop its pages now and then, even pages that wait for admission, while
/// the fourth truncates it.
#[test]
fn pages_that_wait_are_dropped_and_cut_off_at_the_same_time() {
    let vmstat = run(by_refault(), &[cut, read_and_drop, read_and_drop, read_and_drop]);
    assert!(vmstat["lru_used_once_normal"] > 0, "{vmstat:?}");
}

/// With a policy that implements the trait `Policy`, reclaim may put a page back on its list while another task frees
/// this page. Nothing may be lost.
#[test]
fn policies_behind_the_trait_lose_nothing() {
    let [file, region, ..] = EACH_ITS_OWN;
    for policy in [PolicyKind::Lru, PolicyKind::Clock] {
        let mut choices = choices();
        choices.lru.policy = policy;
        assert_was_short(&run(choices, &[file, region, region, read_and_drop, cut]));
    }
}

/// Pages move to other frames while tasks read, write, map and swap them.
#[test]
fn nothing_is_lost_while_pages_move() {
    let [file, region, ..] = EACH_ITS_OWN;
    for choices in [choices(), by_refault()] {
        let vmstat = run(choices, &[file, region, region, compact]);
        assert!(vmstat["pgmigrate_success"] > 0, "{vmstat:?}");
    }
}

/// Compaction moves folios of files and of anonymous memory, as well as single pages, while tasks use them.
#[test]
fn nothing_is_lost_while_folios_move() {
    let [file, region, ..] = EACH_ITS_OWN;
    for order in [2, 4] {
        let mut choices = choices();
        choices.compact.folios = Folios::Moved;
        choices.access.file_folio_order = order;
        choices.access.anonymous_folio_order = order;
        choices.swap.folios = SwapFolios::Whole;
        let vmstat = run(choices, &[file, region, region, compact]);
        assert!(vmstat["pgmigrate_success"] > 0, "{vmstat:?}");
    }
}

/// Khugepaged copies ranges into huge pages while tasks read and write these ranges, and split the huge pages.
#[test]
fn nothing_is_lost_while_small_pages_become_huge_ones() {
    let mut choices = choices();
    choices.access.khugepaged_scan_sleep_ms = 1;
    choices.access.khugepaged_alloc_sleep_ms = 1;
    let vmstat = run_beside(choices, &[use_huge_page, use_huge_page], Engine::khugepaged);
    // The last check of each task splits the huge pages that it has then.
    assert!(vmstat["thp_collapse_alloc"] >= 2 && vmstat["thp_split"] >= 2, "{vmstat:?}");
}

/// One in three writes of files fails. Pages whose write failed are written again while other tasks dirty them.
#[test]
fn what_could_not_be_written_is_written_again() {
    let mut choices = choices();
    choices.writeback.write_failure = WriteFailure::KeepDirty;
    let vmstat = run(choices, &[use_file, use_file, use_region, use_region, use_region]);
    assert_was_short(&vmstat);
    assert_eq!(vmstat["nr_write_failed"], 0, "the files are gone");
}

/// Tasks change file pages by copies and through mappings while the flusher writes the pages to the disk. No page
/// changes during its write (stable pages), with any way of keeping it stable.
#[test]
fn no_page_of_a_file_changes_while_it_is_written() {
    for stable_pages in [StablePages::Wait, StablePages::Copy, StablePages::CopyWhenChanged] {
        let mut choices = choices();
        choices.writeback.stable_pages = stable_pages;
        choices.writeback.dirty_background_ratio = 1;
        // No task uses a region here, because pages of swap may change while they are written.
        run(choices, &[use_file as Job; 4]);
    }
}

/// Returns the choices of the kernel of these tests; some tests change them.
fn choices() -> kernel::Choices {
    kernel::Kernel::built_in("mm1-mmotm-20130606").expect("it comes with the engine").choices
}

/// Checks that memory was short: pages were read from swap, and pages were reclaimed. The counts of kswapd and of
/// direct reclaim are added, because the scheduler decides which of them reclaims.
fn assert_was_short(vmstat: &Vmstat) {
    let taken = vmstat["pgsteal_kswapd_normal"] + vmstat["pgsteal_direct_normal"];
    assert!(vmstat["pswpin"] > 0 && taken > 0, "memory was never short: {vmstat:?}");
}

fn by_refault() -> kernel::Choices {
    let mut choices = choices();
    choices.lru.activation = engine::lru::choices::Activation::AtScan;
    choices.lru.admission = engine::lru::choices::Admission::ByRefault;
    choices.page_cache.index_lock = engine::page_cache::choices::IndexLock::None;
    choices
}

/// Runs the jobs, and returns the counters at the end.
fn run(choices: kernel::Choices, jobs: &[Job]) -> Vmstat {
    run_beside(choices, jobs, |_| None)
}

/// Runs the jobs as [`run`] does, and returns the counters. Meanwhile one more kernel task runs, if `one_more` returns
/// one.
fn run_beside(
    mut choices: kernel::Choices,
    jobs: &[Job],
    one_more: fn(&Engine<ThreadMachine>) -> Option<KernelTask>,
) -> Vmstat {
    choices.memory.min_free = engine::memory::choices::MinFree::Formula;
    // The kernel tasks are kswapd, the flusher, and perhaps one more.
    let (workers, kernel_tasks_max) = (jobs.len(), 3);
    let machine = ThreadMachine::new(workers + kernel_tasks_max, MEMORY_PAGES as u32);
    let devices = [DeviceLayout { file_blocks: 1..100_000 }];
    let swap =
        SwapLayout { device: DeviceId(0), first_block: 200_000, slots: 8192, is_synchronous: false, memory_percent: 0 };
    let engine = Engine::new(machine.clone(), &choices, &Layout::flat(MEMORY_PAGES), &devices, swap);
    let engine = engine.expect("8 MiB are enough");
    let is_failing = matches!(choices.writeback.write_failure, WriteFailure::KeepDirty);
    let is_stable = !matches!(choices.writeback.stable_pages, StablePages::No);
    if is_failing {
        machine.fail_writes(3, swap.first_block);
    }
    let file = engine.page_cache().create_file(DeviceId(0));
    engine.access().set_length(&mut Task::user(), &file, bytes(FILE_PAGES)).expect("longer takes no room");
    let world: Shared = Arc::new(World {
        engine,
        file,
        at_work: AtomicUsize::new(workers),
        together: Barrier::new(workers),
        is_failing,
    });
    assert_sync(&world);
    let receiver = Arc::downgrade(&world);
    machine.receive_with(Box::new(move |_, request, result| {
        receiver.upgrade().expect("the engine outlives its requests").engine.complete(request, result);
    }));
    thread::scope(|scope| {
        let device = machine.clone();
        scope.spawn(move || device.serve());
        let kernel: Vec<_> = world
            .engine
            .kernel_tasks()
            .into_iter()
            .chain(one_more(&world.engine))
            .enumerate()
            .map(|(n, task)| {
                let world = world.clone();
                scope.spawn(move || {
                    world.engine.machine().enter_task(workers + n);
                    world.engine.run(task);
                })
            })
            .collect();
        let kernel_tasks = kernel.len();
        assert!((2..=kernel_tasks_max).contains(&kernel_tasks));
        let running: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(worker, job)| {
                let world = world.clone();
                scope.spawn(move || {
                    world.engine.machine().enter_task(worker);
                    job(&world, worker);
                })
            })
            .collect();
        let results: Vec<_> = running.into_iter().map(|worker| worker.join()).collect();
        (0..kernel_tasks).for_each(|n| machine.kill(workers + n));
        let ended: Vec<_> = kernel.into_iter().map(|task| task.join()).collect();
        machine.end();
        for result in results.into_iter().chain(ended) {
            result.expect("a task failed");
        }
    });
    assert_eq!(machine.failed_writes() > 0, is_failing);
    assert!(!is_stable || machine.unstable_writes() == 0, "{} pages changed", machine.unstable_writes());
    let vmstat = world.engine.vmstat();
    world.engine.check().unwrap_or_else(|broken| panic!("{broken}"));
    vmstat
}
