//! Tests of the whole disk: fixed sequences of requests, and random sequences whose invariants are checked.

use super::config::samples::{flash, rotational, with_queue};
use super::config::{CfqConfig, DeadlineConfig, ElevatorConfig, EraseConfig, SyncArrival};
use super::*;
use crate::sourced::{Origin, Sourced};
use machine::{DeviceId, FrameNumber, NANOS_PER_SECOND};

fn request(operation: Operation, block: u64, blocks: u64, is_sync: bool) -> Request {
    let frames = (0..blocks).map(|i| FrameNumber((block + i) as u32)).collect();
    Request { device: DeviceId(0), operation, block, frames, is_sync }
}

fn read(block: u64, blocks: u64) -> Request {
    request(Operation::Read, block, blocks, true)
}

fn write(block: u64, blocks: u64) -> Request {
    request(Operation::Write, block, blocks, false)
}

/// A disk, and a clock that goes from one event of the disk to the next.
struct World {
    disk: Disk,
    now: Nanos,
    /// All finished requests, each with the time at which it was finished.
    done: Vec<(Nanos, Finished)>,
}

impl World {
    fn new(config: &DiskConfig) -> Self {
        Self { disk: Disk::new(config), now: Nanos(0), done: Vec::new() }
    }

    fn submit(&mut self, request: Request) {
        self.disk.submit(self.now, request);
    }

    /// Goes to the disk's next event and lets the disk do what is due. Returns `false` if there is no event.
    fn step(&mut self) -> bool {
        let Some(time) = self.disk.next_event() else { return false };
        assert!(time >= self.now, "the next event, {time}, is before {}", self.now);
        self.now = time;
        let mut done = Vec::new();
        self.disk.advance(self.now, &mut done);
        self.done.extend(done.into_iter().map(|finished| (self.now, finished)));
        true
    }

    fn run_until(&mut self, until: Nanos) {
        while self.disk.next_event().is_some_and(|time| time <= until) {
            self.step();
        }
        self.now = until;
        self.disk.advance(until, &mut Vec::new());
    }

    fn run_until_idle(&mut self) {
        while self.step() {}
    }

    /// Submits a request, and waits until it is finished. Returns the length of the wait.
    fn wait_for(&mut self, request: Request) -> Nanos {
        let begin = self.now;
        self.submit(request.clone());
        while !self.done.iter().rev().any(|(time, finished)| *time >= begin && finished.request == request) {
            assert!(self.step(), "the disk is idle, but {request:?} has not come back");
        }
        self.now.since(begin)
    }

    fn blocks_done(&self) -> Vec<u64> {
        self.done.iter().map(|(_, finished)| finished.request.block).collect()
    }
}

/// Random numbers from a seed, by SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn bytes_per_s(bytes: u64, time: Nanos) -> u64 {
    bytes * 1000 / (time.0 / 1_000_000)
}

#[test]
fn sequential_writes_of_1_mib_run_at_113_mb_per_s() {
    let mut world = World::new(&rotational());
    for i in 0..256 {
        world.submit(write(i * 256, 256));
    }
    world.run_until_idle();
    let rate = bytes_per_s(256 << 20, world.now);
    println!("sequential 1 MiB writes: {rate} bytes/s");
    assert!((112_000_000..=113_000_000).contains(&rate), "{rate} bytes/s");
}

/// Returns the mean time of single reads of one block at random places in the first `region_gib` GiB.
fn mean_random_read(region_gib: u64) -> Nanos {
    let mut world = World::new(&rotational());
    let mut random = Random(region_gib);
    let mut sum = Nanos(0);
    for _ in 0..2000 {
        sum += world.wait_for(read(random.below(region_gib << 18), 1));
        world.now += Nanos(random.below(1_000_000)); // the reader computes
    }
    Nanos(sum.0 / 2000)
}

#[test]
fn isolated_random_reads_take_7_to_8_ms() {
    for region_gib in [8, 16, 32, 48, 64, 128, 465] {
        println!("random 4 KiB reads within {region_gib} GiB: {}", mean_random_read(region_gib));
    }
    // Experiments keep swap and files within tens of GiB of each other, so the arm does not move over the whole disk.
    for region_gib in [32, 64] {
        let mean = mean_random_read(region_gib);
        assert!((7_000_000..=8_000_000).contains(&mean.0), "{mean} within {region_gib} GiB");
    }
}

#[test]
fn sequential_beats_random_by_two_orders_of_magnitude() {
    let time = |blocks: &mut dyn Iterator<Item = u64>| {
        let config = with_queue(rotational(), 4096, 1, ElevatorConfig::Noop);
        let mut world = World::new(&config);
        blocks.for_each(|block| world.submit(read(block, 1)));
        world.run_until_idle();
        world.now
    };
    let mut random = Random(1);
    let sequential = time(&mut (0..1000));
    let scattered = time(&mut (0..1000).map(|_| random.below(1 << 26)));
    assert!(scattered.0 > 100 * sequential.0, "{scattered} against {sequential}");
}

#[test]
fn the_sweep_is_one_way_and_saves_seeks() {
    let cfq = with_queue(rotational(), 128, 1, ElevatorConfig::default());
    let mut world = World::new(&cfq);
    world.wait_for(read(5000, 1));
    for block in [1000, 9000, 4000, 7000] {
        world.submit(read(block, 1));
    }
    world.run_until_idle();
    assert_eq!(world.blocks_done(), [5000, 7000, 9000, 1000, 4000]);
}

#[test]
fn requests_of_one_moment_merge_before_the_disk_starts() {
    let mut world = World::new(&rotational());
    for block in [3, 1, 2, 0] {
        world.submit(write(block, 1));
    }
    assert_eq!(world.disk.allocated(Operation::Write), 1);
    world.run_until_idle();
    assert_eq!(world.blocks_done(), [0, 1, 2, 3]);
    let statistics = world.disk.statistics(world.now);
    assert_eq!((statistics.writes.ios, statistics.writes.merges, statistics.writes.sectors), (1, 3, 32));
}

#[test]
fn a_request_larger_than_the_largest_is_served_in_one_piece() {
    let mut world = World::new(&with_queue(rotational(), 4, 8, ElevatorConfig::Noop));
    world.submit(write(0, 100));
    world.submit(write(100, 1));
    assert_eq!(world.disk.allocated(Operation::Write), 2, "it does not merge");
    world.run_until_idle();
    assert_eq!(world.done.len(), 2);
}

#[test]
fn a_full_queue_still_takes_what_merges() {
    let mut world = World::new(&with_queue(rotational(), 2, 256, ElevatorConfig::default()));
    world.submit(write(0, 1));
    world.submit(write(1000, 1));
    assert!(!world.disk.has_room(Operation::Write) && world.disk.has_room(Operation::Read));
    assert!(world.disk.can_take(&write(1, 1)) && !world.disk.can_take(&write(2000, 1)));
    world.submit(write(1, 1));
    world.run_until_idle();
    assert_eq!(world.done.len(), 3);
}

#[test]
#[should_panic(expected = "submitted to a full queue")]
fn a_request_without_a_slot_is_a_bug() {
    let mut world = World::new(&with_queue(rotational(), 1, 256, ElevatorConfig::default()));
    world.submit(write(0, 1));
    world.submit(write(1000, 1));
}

/// Runs a reader beside a deep queue of background writes. Returns the mean wait of the reader's reads, and the number
/// of writes done in 10 s.
fn reader_beside_writer(elevator: ElevatorConfig, think: Nanos) -> (Nanos, u64) {
    let mut world = World::new(&with_queue(rotational(), 4096, 256, elevator));
    let mut random = Random(7);
    for i in 0..2000 {
        world.submit(write((1 << 24) + i * 256, 256));
    }
    let (mut sum, mut reads) = (Nanos(0), 0);
    while world.now < Nanos::from_secs(10) {
        sum += world.wait_for(read(random.below(1 << 21), 1));
        reads += 1;
        world.run_until(world.now + think);
    }
    (Nanos(sum.0 / reads), world.disk.statistics(world.now).writes.ios)
}

#[test]
fn reads_are_preferred_and_writes_do_not_starve() {
    let cfq = |sync_arrival| ElevatorConfig::Cfq(CfqConfig { sync_arrival, ..CfqConfig::default() });
    let think = Nanos(100_000);
    let (waiting, writes_waiting) = reader_beside_writer(cfq(SyncArrival::WaitsForSlice), think);
    let (preempting, writes_preempting) = reader_beside_writer(cfq(SyncArrival::Preempts), think);
    let (deadline, writes_deadline) = reader_beside_writer(ElevatorConfig::Deadline(DeadlineConfig::default()), think);
    let (noop, _) = reader_beside_writer(ElevatorConfig::Noop, think);
    println!("one reader beside 2000 writes of 1 MiB, mean read wait and writes in 10 s:");
    println!("cfq, reads wait: {waiting}, {writes_waiting}; cfq, reads preempt: {preempting}, {writes_preempting}");
    println!("deadline: {deadline}, {writes_deadline}; noop: {noop}");

    assert!(waiting < Nanos::from_millis(20), "a read waited for {waiting}");
    assert!(preempting < waiting, "{preempting} against {waiting}");
    assert!(noop > Nanos::from_secs(5), "the first read waits for every write: {noop}");
    // Writes run at 113 MB/s for 40 of every 140 ms, which is 32 MB/s. Two seeks in each 140 ms reduce this a little.
    assert!((200..=320).contains(&writes_waiting), "{writes_waiting} writes in 10 s");
    assert!(writes_preempting >= 50, "{writes_preempting} writes in 10 s");
    assert!(writes_deadline >= 100, "{writes_deadline} writes in 10 s");
}

#[test]
fn the_background_waits_8_ms_for_the_next_read() {
    let mut world = World::new(&rotational());
    world.wait_for(read(1000, 1));
    let completed = world.now;
    world.submit(write(1 << 20, 1));
    assert_eq!(world.disk.next_event(), Some(completed), "the elevator is asked");
    world.step();
    assert_eq!(world.disk.next_event(), Some(completed + Nanos::from_millis(8)), "and waits");

    world.run_until(completed + Nanos::from_millis(5));
    world.submit(read(1001, 1));
    world.run_until_idle();
    assert_eq!(world.blocks_done(), [1000, 1001, 1 << 20], "the read came in time");
}

#[test]
fn a_background_slice_ends_after_16_requests() {
    let mut world = World::new(&with_queue(rotational(), 128, 1, ElevatorConfig::default()));
    for i in 0..40 {
        world.submit(write(i, 1));
    }
    world.step();
    world.submit(read(1 << 20, 1));
    world.run_until_idle();
    assert_eq!(world.done[16].1.request.operation, Operation::Read, "{:?}", world.blocks_done());
}

#[test]
fn an_old_slice_gives_no_claim() {
    let mut world = World::new(&rotational());
    world.wait_for(read(1000, 1));
    world.run_until(Nanos::from_secs(1));
    world.submit(write(1 << 20, 1));
    world.submit(read(2000, 1));
    world.run_until_idle();
    assert_eq!(world.blocks_done(), [1000, 2000, 1 << 20], "the read goes first, although a slice has ended");
}

#[test]
fn an_old_write_is_not_passed_by_a_sequential_writer_for_ever() {
    for elevator in [ElevatorConfig::default(), ElevatorConfig::Deadline(DeadlineConfig::default())] {
        let mut world = World::new(&with_queue(rotational(), 128, 256, elevator.clone()));
        world.submit(write(1000, 1));
        world.wait_for(write(1000, 1));
        let mut next = 2000;
        world.submit(write(next, 256));
        world.step();
        world.submit(write(0, 1));
        while !world.blocks_done().contains(&0) {
            assert!(world.now < Nanos::from_secs(6), "{elevator:?}: block 0 waits at {}", world.now);
            if world.disk.allocated(Operation::Write) < 10 {
                next += 256;
                world.submit(write(next, 256));
            } else {
                world.step();
            }
        }
    }
}

#[test]
fn flash_serves_random_reads_in_parallel() {
    let mut world = World::new(&flash());
    let mut random = Random(3);
    let (mut submitted, reads) = (0, 100_000);
    while world.done.len() < reads {
        while submitted < reads && world.disk.allocated(Operation::Read) < 128 {
            world.submit(read(random.below(1 << 26), 1));
            submitted += 1;
        }
        world.step();
    }
    let rate = reads as u64 * NANOS_PER_SECOND / world.now.0;
    println!("random 4 KiB flash reads at depth 128: {rate}/s");
    // 32 channels with 80 us a read can do 400,000 reads a second. Channels that by chance have nothing to do reduce
    // this.
    assert!((330_000..=400_000).contains(&rate), "{rate}/s");
}

#[test]
fn faults_hit_their_requests_and_no_others() {
    let mut world = World::new(&rotational());
    world.disk.inject(Fault::Nth { nth: 2, error: IoError::NoSpace });
    world.disk.inject(Fault::Blocks { blocks: 12..13, operation: Some(Operation::Write), error: IoError::Device });
    for block in [10, 11, 12, 13] {
        world.submit(write(block, 1));
    }
    world.submit(read(12, 1));
    world.run_until_idle();
    let failed: Vec<_> = world.done.iter().filter_map(|(_, f)| Some((f.request.block, f.result.err()?))).collect();
    assert_eq!(failed, [(11, IoError::NoSpace), (12, IoError::Device)]);
    assert_eq!(world.disk.statistics(world.now).writes.ios, 1, "one merged request, of which two parts failed");
    world.disk.inject(Fault::Mended);
    world.submit(write(12, 1));
    world.run_until_idle();
    assert_eq!(world.done.last().unwrap().1.result, Ok(()));
}

#[test]
fn a_stalled_disk_starts_nothing_and_loses_nothing() {
    let mut world = World::new(&rotational());
    let stall = Nanos::from_secs(3);
    world.disk.inject(Fault::StallUntil(stall));
    world.submit(read(0, 1));
    world.run_until_idle();
    assert_eq!(world.done.len(), 1);
    assert!(world.now > stall && world.now < stall + Nanos::from_millis(30), "done at {}", world.now);
}

fn all_configs() -> Vec<DiskConfig> {
    let preempts = CfqConfig { sync_arrival: SyncArrival::Preempts, ..CfqConfig::default() };
    let elevators = [
        ElevatorConfig::Noop,
        ElevatorConfig::Deadline(DeadlineConfig::default()),
        ElevatorConfig::default(),
        ElevatorConfig::Cfq(preempts),
    ];
    let constant = |value| Sourced::new(value, Origin::Fitted, "test");
    let (mut zoned, mut erasing) = (rotational(), flash());
    if let DiskConfig::Rotational(disk) = &mut zoned {
        disk.inner_bandwidth_bytes_per_s = Some(constant(60_000_000));
    }
    if let DiskConfig::Flash(disk) = &mut erasing {
        disk.erase = Some(EraseConfig { every_pages: constant(5), stall_ns: constant(2_000_000) });
        disk.queue_depth = constant(4);
    }
    let mut configs = Vec::new();
    for disk in [rotational(), zoned, flash(), erasing] {
        for elevator in &elevators {
            for (nr_requests, max_request_pages) in [(1, 1), (16, 1), (128, 8), (1024, 256)] {
                configs.push(with_queue(disk.clone(), nr_requests, max_request_pages, elevator.clone()));
            }
        }
    }
    configs
}

/// Draws a request. Half of the requests are near a place that moves, so that many merge; the others are anywhere on
/// the disk.
fn draw(random: &mut Random, number: u32) -> Request {
    let blocks = 1 + random.below(4);
    let block =
        if random.below(2) == 0 { u64::from(number / 20) * 4 + random.below(64) } else { random.below(1 << 22) };
    let operation = if random.below(3) == 0 { Operation::Read } else { Operation::Write };
    let is_sync = operation == Operation::Read || random.below(4) == 0;
    // The first frame is made from the request's number, which tells requests for the same blocks apart.
    let frames = (0..blocks as u32).map(|i| FrameNumber(number * 8 + i)).collect();
    Request { device: DeviceId(0), operation, block, frames, is_sync }
}

#[test]
fn in_random_worlds_every_request_comes_back_once_and_statistics_add_up() {
    for (world_number, config) in all_configs().iter().enumerate() {
        for seed in 0..6 {
            let story = format!("disk {world_number}, seed {seed}: {:?}", config.queue());
            let mut random = Random(seed * 1000 + world_number as u64);
            let mut world = World::new(config);
            let (mut submitted, mut blocks) = (std::collections::BTreeMap::new(), [0; 2]);
            for number in 0..400 {
                let request = draw(&mut random, number);
                while !world.disk.can_take(&request) {
                    assert!(world.step(), "{story}: idle with a full queue");
                }
                blocks[request.operation as usize] += request.frames.len() as u64;
                submitted.insert(request.frames[0], (world.now, request.clone()));
                world.submit(request);
                if random.below(8) == 0 {
                    let until = world.now + Nanos(random.below(30_000_000));
                    while world.disk.next_event().is_some_and(|time| time <= until) {
                        world.step();
                    }
                    world.now = until;
                }
            }
            world.run_until_idle();

            let mut waits = [Nanos(0); 2];
            for (time, finished) in &world.done {
                let (entered, request) = submitted.remove(&finished.request.frames[0]).expect("it came back twice");
                assert_eq!((&finished.request, finished.result), (&request, Ok(())), "{story}");
                waits[request.operation as usize] += time.since(entered);
            }
            assert!(submitted.is_empty(), "{story}: {} requests are lost", submitted.len());

            let statistics = world.disk.statistics(world.now);
            let (reads, writes) = (statistics.reads, statistics.writes);
            assert_eq!(reads.ios + reads.merges + writes.ios + writes.merges, 400, "{story}");
            assert_eq!([reads.sectors, writes.sectors], blocks.map(|blocks| blocks * 8), "{story}");
            assert_eq!(statistics.in_flight, 0, "{story}");
            assert!(statistics.io_ticks <= world.now && statistics.io_ticks <= statistics.weighted, "{story}");
            assert!(statistics.weighted >= reads.ticks + writes.ticks, "{story}");
            if reads.merges + writes.merges == 0 {
                assert_eq!([reads.ticks, writes.ticks], waits, "{story}");
                assert_eq!(statistics.weighted, waits[0] + waits[1], "{story}");
            }
            for operation in [Operation::Read, Operation::Write] {
                assert_eq!(world.disk.allocated(operation), 0, "{story}");
                assert!(!world.disk.is_congested(operation), "{story}");
            }
        }
    }
}

#[test]
fn a_world_that_comes_by_late_changes_nothing_in_the_disk() {
    for config in all_configs().iter().filter(|config| config.queue().nr_requests.value == 1024) {
        let mut punctual = World::new(config);
        let mut late = Disk::new(config);
        let mut random = Random(11);
        for number in 0..300 {
            let now = punctual.now + Nanos(random.below(4_000_000));
            while punctual.disk.next_event().is_some_and(|time| time < now) {
                punctual.step();
            }
            punctual.now = now;
            let request = draw(&mut random, number);
            punctual.submit(request.clone());
            late.submit(now, request);
        }
        punctual.run_until_idle();
        let mut late_done = Vec::new();
        assert_eq!(late.next_event(), Some(punctual.done[0].0), "the first request is overdue");
        late.advance(punctual.now, &mut late_done);
        assert_eq!(late.next_event(), None);
        assert_eq!(late.statistics(punctual.now), punctual.disk.statistics(punctual.now));
        let in_time: Vec<_> = punctual.done.into_iter().map(|(_, finished)| finished).collect();
        assert_eq!(late_done, in_time);
    }
}

#[test]
fn two_runs_are_equal() {
    let run = || {
        let mut world = World::new(&rotational());
        let mut random = Random(5);
        for number in 0..500 {
            world.submit(draw(&mut random, number));
            world.run_until(world.now + Nanos(random.below(3_000_000)));
        }
        world.run_until_idle();
        (world.now, world.blocks_done(), world.disk.statistics(world.now))
    };
    assert_eq!(run(), run());
}
