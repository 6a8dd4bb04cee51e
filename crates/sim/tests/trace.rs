//! Tests of the contents of a trace, and that tracing does not change a run.

mod common;

use common::{free_kernel, hard_disk};
use machine::{
    Completions, DeviceId, FrameNumber, Func, IoError, Lock, LockClass, Machine, Nanos, Observe, Operation, Request,
    Step,
};
use sim::trace::{Activity, Slice, Trace, TraceConfig};
use sim::{Config, NetworkConfig, Sim, Turn};
use std::rc::Rc;

const EVERYTHING: TraceConfig =
    TraceConfig { from: Nanos(0), to: Nanos(u64::MAX), max_slices: 1000, shortest_off: Nanos(1000), waits_of: None };

/// The receiver of completions, which takes a microsecond for each page of a request.
struct Handler(Sim);

impl Completions for Handler {
    fn complete(&self, request: Request, _: Result<(), IoError>) {
        self.0.compute(Nanos(1000 * request.frames.len() as u64));
    }
}

/// Runs a machine on which two tasks compete for a lock that each holds for a millisecond, one task reclaims, a write
/// request is served, and two packets arrive. Returns the trace and the fingerprint.
fn run(config: Option<TraceConfig>) -> (Option<Trace>, u64) {
    let card = NetworkConfig {
        cpu: 0,
        wire: Nanos(60_000),
        packet: Nanos(10_000),
        turn: Turn::AfterDisks,
        keep_from: Nanos(1),
    };
    let sim = Sim::new(Config { disks: vec![hard_disk()], network: Some(card), ..free_kernel(2) });
    sim.attach(Rc::new(Handler(sim.clone())));
    if let Some(config) = config {
        sim.start_trace(config);
    }
    let machine = sim.clone();
    sim.run("main", move || {
        machine.send_packets(Nanos(500_000), Nanos(40_000_000), 2);
        let lock = Rc::new(machine.lock(LockClass::Lru, ()));
        let (other, locked) = (machine.clone(), Rc::clone(&lock));
        let task = machine.spawn("kswapd0", move || {
            let _span = other.span(Func::BalancePgdat);
            let guard = locked.lock();
            other.compute(Nanos::from_millis(1));
            drop(guard);
            other.pause(Nanos::from_millis(2));
        });
        let guard = lock.lock();
        machine.spend(Step::ScanPage, 1000);
        drop(guard);
        let frames = (0..8).map(FrameNumber).collect();
        let (device, operation) = (DeviceId(0), Operation::Write);
        machine.submit(Request { device, operation, block: 4096, frames, is_sync: false });
        machine.join(task);
        machine.pause(Nanos::from_millis(50));
    })
    .unwrap();
    (sim.take_trace(), sim.fingerprint())
}

fn find(trace: &Trace, is: impl Fn(&Activity) -> bool) -> Vec<Slice> {
    trace.slices.iter().filter(|slice| is(&slice.what)).copied().collect()
}

#[test]
fn everything_that_takes_a_time_is_a_slice() {
    let (trace, _) = run(Some(EVERYTHING));
    let trace = trace.unwrap();
    assert_eq!((trace.cpus, trace.left_out, &trace.tasks[..]), (2, 0, &["main".to_owned(), "kswapd0".to_owned()][..]));

    let waits = find(&trace, |what| matches!(what, Activity::LockWait { class: "lru", .. }));
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert!(waits[0].to.since(waits[0].from) >= Nanos(990_000), "{waits:?}");
    let holds = find(&trace, |what| matches!(what, Activity::LockHold { class: "lru", .. }));
    assert_eq!((holds.len(), holds[0].to), (1, waits[0].to), "only the first hold was waited for");

    let off = find(&trace, |what| matches!(what, Activity::InterruptsOff { cause: "lru", .. }));
    assert_eq!(off.len(), 2, "{off:?}");
    let passes = find(&trace, |what| matches!(what, Activity::Function { func: Func::BalancePgdat, .. }));
    assert!(passes.len() == 1 && passes[0].to.since(passes[0].from) > Nanos::from_millis(3), "{passes:?}");

    let packets = find(&trace, |what| matches!(what, Activity::Packet { .. }));
    let took: Vec<bool> = packets.iter().map(|packet| packet.to.since(packet.from) == Nanos(10_000)).collect();
    assert_eq!(took, [false, true], "the first came while interrupts were off: {packets:?}");

    let requests = find(&trace, |what| matches!(what, Activity::Request { .. }));
    let [Slice { from, to, what: Activity::Request { pages: 8, block: 4096, done, has_failed: false, .. } }] =
        requests[..]
    else {
        panic!("{requests:?}")
    };
    assert!(from < done && to == done + Nanos(8000), "{requests:?}");
    let ended = find(&trace, |what| matches!(what, Activity::Interrupt { disk: Some(DeviceId(0)), pages: 8, .. }));
    assert_eq!((ended.len(), ended[0].to), (1, to));
    let runs = find(&trace, |what| matches!(what, Activity::Runs { .. }));
    for cpu in 0..2 {
        let on = |slice: &&Slice| matches!(slice.what, Activity::Runs { cpu: on, .. } if on == cpu);
        let on: Vec<&Slice> = runs.iter().filter(on).collect();
        assert!(!on.is_empty() && on.windows(2).all(|pair| pair[0].to <= pair[1].from), "CPU {cpu}: {on:?}");
    }
}

#[test]
fn a_run_is_the_same_with_a_trace_and_without() {
    let (none, without) = run(None);
    assert_eq!((none, without), (None, run(Some(EVERYTHING)).1));
}

#[test]
fn what_the_interrupts_of_one_cpu_wait_for_is_recorded_alone() {
    let trace = run(Some(TraceConfig { waits_of: Some(0), ..EVERYTHING })).0.unwrap();
    let is_other = |what: &Activity| match *what {
        Activity::InterruptsOff { cpu, .. } | Activity::Interrupt { cpu, .. } | Activity::LockWait { cpu, .. } => {
            cpu != 0
        }
        Activity::Request { .. } | Activity::Packet { .. } => false,
        Activity::Runs { .. }
        | Activity::Queued { .. }
        | Activity::LockHold { .. }
        | Activity::Wait { .. }
        | Activity::Function { .. } => true,
    };
    assert_eq!(find(&trace, is_other), []);
    assert_eq!(find(&trace, |what| matches!(what, Activity::Packet { .. })).len(), 2);
    assert!(!find(&trace, |what| matches!(what, Activity::Interrupt { disk: Some(_), .. })).is_empty());
}

#[test]
fn a_window_and_a_limit_bound_it() {
    let whole = run(Some(EVERYTHING)).0.unwrap();
    let window = TraceConfig { from: Nanos(600_000), to: Nanos(900_000), ..EVERYTHING };
    let part = run(Some(window)).0.unwrap();
    let overlaps = |slice: &&Slice| slice.to >= window.from && slice.from < window.to;
    let cut = |slice: &Slice| Slice { from: slice.from.max(window.from), to: slice.to.min(window.to), ..*slice };
    assert_eq!(part.slices, whole.slices.iter().filter(overlaps).map(cut).collect::<Vec<_>>());
    assert!(!part.slices.is_empty() && part.slices.len() < whole.slices.len());
    let few = run(Some(TraceConfig { max_slices: 5, ..EVERYTHING })).0.unwrap();
    assert_eq!(few.slices, whole.slices[..5]);
    assert_eq!(few.left_out as usize, whole.slices.len() - 5);
    assert_eq!(few.full_at, Some(whole.slices[5].to));
}
