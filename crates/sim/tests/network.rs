//! Tests of a network card beside a disk: when packets are answered, and when the disk's interrupt handler finds a next
//! complete request each time and does not return until the queue is empty.

mod common;

use common::{free_kernel, hard_disk, now};
use machine::{Completions, DeviceId, FrameNumber, IoError, Lock, LockClass, Machine, Nanos, Operation, Request, Step};
use sim::disk::DiskConfig;
use sim::{Config, NetworkConfig, Origin, RoundTrip, Sim, Sourced, Turn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const WIRE: Nanos = Nanos(60_000);
const PACKET: Nanos = Nanos(10_000);

/// Number of pages that each disk command writes.
const COMMAND: u64 = 32;

fn card(turn: Turn) -> NetworkConfig {
    NetworkConfig { cpu: 0, wire: WIRE, packet: PACKET, turn, keep_from: Nanos(1_000_000) }
}

/// The receiver of completions, which takes some time for every page.
struct Handler {
    sim: Sim,
    page: Nanos,
    pages: Cell<u64>,
}

impl Completions for Handler {
    fn complete(&self, request: Request, _: Result<(), IoError>) {
        self.sim.compute(Nanos(self.page.0 * request.frames.len() as u64));
        self.pages.set(self.pages.get() + request.frames.len() as u64);
    }
}

/// Sends ten packets, one each millisecond from 1 ms on, while `act` runs on the card's CPU.
fn pinged(act: impl Fn(&Sim) + 'static) -> (Vec<RoundTrip>, Sim) {
    let sim = Sim::new(Config { network: Some(card(Turn::AfterDisks)), ..free_kernel(1) });
    let machine = sim.clone();
    sim.run("main", move || {
        machine.send_packets(Nanos::from_millis(1), Nanos::from_millis(1), 10);
        act(&machine);
    })
    .unwrap();
    (sim.round_trips(), sim)
}

fn took(trip: &RoundTrip) -> Nanos {
    trip.returned.expect("it came back").since(trip.sent)
}

#[test]
fn an_idle_machine_answers_in_the_time_of_wire_and_packet() {
    let (trips, sim) = pinged(|sim| sim.pause(Nanos::from_millis(20)));
    assert_eq!(trips.len(), 10);
    assert!(trips.iter().all(|trip| took(trip) == WIRE + PACKET), "{trips:?}");
    assert_eq!((trips[0].sent, trips[9].sent), (Nanos::from_millis(1), Nanos::from_millis(10)));
    assert!(
        sim.profile().contains(&"interrupt;end_bio_bh_io_sync;net_rx_action 100000".to_owned()),
        "{:?}",
        sim.profile()
    );
}

#[test]
fn packets_wait_while_interrupts_are_off_and_are_answered_together() {
    let (trips, sim) = pinged(|sim| {
        let lock = sim.lock(LockClass::Lru, ());
        let guard = lock.lock();
        sim.compute(Nanos(5_500_000));
        drop(guard);
        sim.compute(Nanos::from_millis(20));
    });
    let end = Nanos(5_500_000) + Nanos(WIRE.0 / 2);
    let answered: Vec<Nanos> = trips.iter().take(5).map(|trip| trip.returned.unwrap()).collect();
    assert_eq!(answered, (1..=5).map(|n| end + Nanos(n * PACKET.0)).collect::<Vec<_>>());
    assert!(trips.iter().skip(5).all(|trip| took(trip) == WIRE + PACKET));
    let windows = sim.off_windows();
    assert_eq!(windows.len(), 1);
    assert_eq!((windows[0].from, windows[0].length()), (Nanos(0), Nanos(5_550_000)), "the answers take interrupts too");
    assert_eq!(sim.cpu_statistics()[0].longest_off, Nanos(5_550_000));
}

#[test]
fn what_the_main_task_does_not_wait_for_stays_under_way() {
    let (trips, _) = pinged(|sim| sim.compute(Nanos(2_500_000)));
    assert_eq!(trips.len(), 2);
}

fn disk(depth: u64) -> DiskConfig {
    let test = |value| Sourced::new(value, Origin::Assumed, "a test");
    let mut disk = hard_disk();
    let queue = disk.queue_mut();
    queue.max_request_pages = test(COMMAND);
    queue.command_depth = Some(test(depth));
    disk
}

/// Writes 64 commands of consecutive blocks, while packets arrive every millisecond. The handler of completions needs
/// the time `page` for each page. Returns the statistics of the CPU's handlers, the total time in ns, and the longest
/// round trip of a packet.
fn written(depth: u64, page: Nanos, turn: Turn) -> (sim::CpuStatistics, u64, Nanos) {
    let sim = Sim::new(Config { disks: vec![disk(depth)], network: Some(card(turn)), ..free_kernel(2) });
    let handler = Rc::new(Handler { sim: sim.clone(), page, pages: Cell::new(0) });
    sim.attach(Rc::clone(&handler) as _);
    let (machine, end) = (sim.clone(), Rc::new(RefCell::new(0)));
    let ended = Rc::clone(&end);
    sim.run("main", move || {
        machine.send_packets(Nanos(0), Nanos::from_millis(1), 1000);
        for command in 0..64 {
            let frames = (0..COMMAND as u32).map(FrameNumber).collect();
            let (device, operation, block) = (DeviceId(0), Operation::Write, 1_000_000 + command * COMMAND);
            machine.submit(Request { device, operation, block, frames, is_sync: false });
        }
        while handler.pages.get() < 64 * COMMAND {
            machine.pause(Nanos::from_millis(1));
        }
        *ended.borrow_mut() = now(&machine);
        machine.pause(Nanos::from_millis(5));
    })
    .unwrap();
    let longest = sim.round_trips().iter().filter(|trip| trip.returned.is_some()).map(took).max().unwrap();
    let end = *end.borrow();
    (sim.cpu_statistics()[0], end, longest)
}

/// The disk finishes a page every 36 us. A handler that takes 18 us for a page ends one command before the next is
/// complete, and returns. A handler that takes 80 us for a page always finds the next command complete, and runs until
/// the queue is empty.
#[test]
fn a_handler_that_is_slower_than_the_disk_never_leaves() {
    let (fast, _, fast_trip) = written(32, Nanos(18_000), Turn::AfterDisks);
    assert_eq!((fast.handled_pages, fast.handled_pages_max), (64 * COMMAND, COMMAND));
    assert!(fast_trip < Nanos::from_millis(1), "{fast_trip}");
    let (slow, _, slow_trip) = written(32, Nanos(80_000), Turn::AfterDisks);
    assert_eq!((slow.handlers, slow.handled_pages_max), (1, 64 * COMMAND));
    assert!(slow_trip > Nanos::from_millis(100), "{slow_trip}");
    assert!(slow.longest_off >= slow_trip.since(WIRE), "{slow:?} {slow_trip}");
}

#[test]
fn a_turn_after_each_request_bounds_the_wait() {
    let (slow, _, trip) = written(32, Nanos(80_000), Turn::AfterRequest);
    assert_eq!(slow.handlers, 1, "the handler stays all the same");
    assert!(trip < Nanos::from_millis(4), "{trip}");
}

/// A device that holds one command begins the next command only when the handler has ended the last. So a handler never
/// finds another command complete.
#[test]
fn with_one_command_the_disk_waits_for_the_handler() {
    let (one, alone, _) = written(1, Nanos(80_000), Turn::AfterDisks);
    assert_eq!(one.handled_pages_max, COMMAND);
    let (_, many, _) = written(32, Nanos(80_000), Turn::AfterDisks);
    assert!(alone > many + many / 4, "{alone} ns with one command, {many} with 32");
}

#[test]
fn a_machine_without_a_card_cannot_be_pinged() {
    let sim = Sim::new(free_kernel(1));
    sim.spend(Step::ScanPage, 1);
    assert!(sim.round_trips().is_empty() && sim.network_cpu().is_none());
    let machine = sim.clone();
    let failure = sim.run("main", move || machine.send_packets(Nanos(0), Nanos(1), 1)).unwrap_err();
    assert!(failure.to_string().contains("the machine has a network card"), "{failure}");
}
