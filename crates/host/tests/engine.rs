//! Tests of the engine on the library's machine, with real files: tasks use four times the memory that exists, and
//! every byte is verified.
//!
//! In each test, four tasks share 8 MiB. Two tasks write and read anonymous pages at random, and two write and read a
//! file each. Kswapd and the flusher run at the same time; the disks are a file and a swap file. Nothing may be lost,
//! and at the end every frame is in exactly one place. One test uses io_uring, one uses I/O threads, and in one the
//! system calls move fewer bytes than requested.

mod common;

use engine::anonymous::Region;
use engine::page_cache::File;
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::{Engine, Error, Kernel, Layout, ReadState, Task};
use highwater::machine::disk::faults::{Fault, Faults, Script};
use highwater::machine::{Checks, Config, Host, Io, SwapFile};
use machine::{Completions, DeviceId, PAGE_BYTES};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

struct World {
    engine: Arc<Engine<Host>>,
    files: DeviceId,
}

/// The region or the file of a finished task. The test keeps it until all tasks have finished.
enum Used {
    Region(Arc<Region<Host>>),
    File(Arc<File<Host>>),
}

const WORKERS: usize = 4;
const MEMORY_PAGES: u32 = 2048;
/// Number of pages of each of the four tasks. Together they have four times the memory.
const OWN_PAGES: u32 = MEMORY_PAGES;
const ROUNDS: u32 = 12_000;

/// A simple pseudo-random number generator, used to choose pages.
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

/// Carries out `access`, and repeats it after `OutOfMemory` as long as swap has free slots. Reclaim as in the kernels
/// of 2013 gives up after six scans of all pages, and by then a disk may not have written any.
fn patiently<T>(world: &World, mut access: impl FnMut() -> Result<T, Error>) -> T {
    for _ in 0..1000 {
        match access() {
            Ok(done) => return done,
            Err(Error::OutOfMemory { free_slots, .. }) if free_slots > 0 => thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
    let in_flight = [0, 1].map(|id| world.engine.machine().device(DeviceId(id)).map(|device| device.in_flight()));
    let vmstat = world.engine.vmstat();
    panic!("out of memory for five seconds, and swap has room; {in_flight:?} requests in flight; {vmstat:?}");
}

fn use_region(world: &World, worker: usize) -> Used {
    let engine = &world.engine;
    let mut task = Task::user();
    let region = engine.anonymous().create_region(None, OWN_PAGES, false);
    let mut versions = vec![0; OWN_PAGES as usize];
    let mut chance = Chance(worker as u64 + 1);
    let mut found = vec![0; PAGE_BYTES];
    for round in 1..=ROUNDS {
        let page = chance.below(OWN_PAGES);
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let version = &mut versions[page as usize];
        if chance.below(2) == 0 {
            *version = round;
            let bytes = contents(worker, page, round);
            patiently(world, || engine.access().write_region(&mut task, &region, offset, &bytes));
        } else {
            patiently(world, || engine.access().read_region(&mut task, &region, offset, &mut found));
            assert!(found == contents(worker, page, *version), "worker {worker}, page {page}, version {version}");
        }
    }
    Used::Region(region)
}

fn use_file(world: &World, worker: usize) -> Used {
    let engine = &world.engine;
    let mut task = Task::user();
    let file = engine.access().create(&mut task, world.files).expect("memory for an inode");
    let mut versions = vec![0; OWN_PAGES as usize];
    let mut chance = Chance(worker as u64 + 1);
    let mut state = ReadState::default();
    let mut found = vec![0; PAGE_BYTES];
    for round in 1..=ROUNDS {
        let page = chance.below(OWN_PAGES);
        let offset = u64::from(page) * PAGE_BYTES as u64;
        if chance.below(2) == 0 {
            versions[page as usize] = round;
            let bytes = contents(worker, page, round);
            patiently(world, || engine.access().write(&mut task, &file, offset, &bytes));
        } else {
            let n = patiently(world, || engine.access().read(&mut task, &file, &mut state, offset, &mut found));
            let expected = contents(worker, page, versions[page as usize]);
            assert!(found[..n] == expected[..n], "file page {page}, version {}", versions[page as usize]);
        }
        if round % 1000 == 0 {
            engine.access().fsync(&mut task, &file).expect("the device works");
        }
    }
    Used::File(file)
}

/// Returns the kernel (set of reclaim policies) that applications get by default.
fn kernel() -> Kernel {
    Kernel::built_in("highwater").expect("the kernel is there")
}

fn nothing_is_lost(io: Io, fault: Option<Fault>) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    // SAFETY: only an engine uses the host.
    let host = unsafe { Host::new(&Config { io, ..Config::new(MEMORY_PAGES) }) }.expect("8 MiB are there");
    let script = Script::new();
    script.set_all(fault);
    let wrap = |inner| if fault.is_some() { Faults::wrap(&script, inner) } else { inner };
    let files = host
        .add_device_behind(common::temporary_file(), "files", Checks::AsConfigured, wrap)
        .expect("threads are there");
    let swap_file = SwapFile::open(directory.path().join("swap"), 64 << 20).expect("64 MiB are there");
    let slots = swap_file.slots();
    let swap =
        host.add_device_behind(swap_file.into_parts().0, "swap", Checks::Checksums, wrap).expect("threads are there");

    let devices = [DeviceLayout { file_blocks: 1..100_000 }];
    let swap = SwapLayout {
        device: swap,
        first_block: SwapFile::FIRST_BLOCK,
        slots,
        is_synchronous: false,
        memory_percent: 0,
    };
    let engine = Engine::new(host.clone(), &kernel().choices, &Layout::flat(u64::from(MEMORY_PAGES)), &devices, swap);
    let engine = Arc::new(engine.expect("8 MiB are enough"));
    let receiver: Arc<dyn Completions + Send + Sync> = engine.clone();
    host.attach([Arc::downgrade(&receiver)]);
    for task in engine.kernel_tasks() {
        let engine = Arc::clone(&engine);
        host.spawn(&task.name(), move || engine.run(task)).expect("threads are there");
    }

    let world = World { engine: Arc::clone(&engine), files };
    let worked = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let world = &world;
                scope.spawn(move || if worker < 2 { use_file(world, worker) } else { use_region(world, worker) })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join()).collect::<Result<Vec<Used>, _>>()
    });
    for used in worked.iter().flatten() {
        match used {
            Used::Region(region) => engine.access().drop_region(region),
            Used::File(file) => engine.access().unlink(file),
        }
    }
    let ended = host.end_tasks();
    worked.expect("a task failed");
    ended.expect("a task of the engine failed");

    let vmstat = engine.vmstat();
    assert!(vmstat["pswpin"] > 0 && vmstat["pgsteal_kswapd_normal"] > 0, "memory was never short: {vmstat:?}");
    for device in [files, swap.device] {
        let device = host.remove_device(device).expect("it was added");
        assert_eq!(device.take_errors(), []);
    }
    engine.check().unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn nothing_is_lost_through_io_uring_with_four_times_the_memory_in_use() {
    nothing_is_lost(Io::Auto, None);
}

#[test]
fn nothing_is_lost_through_threads_with_four_times_the_memory_in_use() {
    nothing_is_lost(Io::Threads, None);
}

#[test]
fn nothing_is_lost_when_the_system_cuts_requests_short() {
    nothing_is_lost(Io::Auto, Some(Fault::Shorten(512)));
}
