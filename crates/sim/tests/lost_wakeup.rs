//! Tests that random priorities find a lost wake-up in far fewer runs than virtual time with random delays does.
//!
//! The bug: kswapd checks the number of free pages, finds enough, and goes to sleep without a second check. Meanwhile
//! programs take pages. A program wakes kswapd only when it takes the page that brings the number below the mark. If it
//! does so between kswapd's check and its sleep, the wake-up is lost. Then the programs take the remaining pages and
//! wait for ever, which the simulator reports as a deadlock. The bug shows only if the program is scheduled at one
//! particular step of some hundreds.

use machine::{Lock, LockClass, Machine, Nanos, Step};
use sim::{Config, Decisions, Failure, Interleaving, Pct, Perturb, Rng, Sim, WaitQueue};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Number of free pages below which kswapd is woken.
const MARK: u64 = 8;
const PROGRAMS: u32 = 3;
const PAGES_OF_EACH: u32 = 12;

struct Memory {
    sim: Sim,
    free: Cell<u64>,
    kswapd: WaitQueue,
    programs: WaitQueue,
    zone: <Sim as Machine>::Lock<()>,
    /// Number of pages that kswapd frees at once.
    batch: u64,
    looks_again: bool,
}

fn kswapd(memory: &Memory) {
    let Memory { sim, free, kswapd, programs, zone, batch, looks_again } = memory;
    while !sim.is_killed() {
        if free.get() < MARK {
            sim.spend(Step::ScanPage, 8);
            let _zone = zone.lock();
            free.set(free.get() + batch);
            sim.wake(programs);
            continue;
        }
        sim.spend(Step::ScanPage, 4);
        let ticket = sim.ticket(kswapd);
        if !looks_again || free.get() >= MARK {
            sim.sleep(kswapd, ticket, None);
        }
    }
}

fn program(memory: &Memory) {
    let Memory { sim, free, kswapd, programs, zone, .. } = memory;
    for _ in 0..PAGES_OF_EACH {
        sim.compute(Nanos(sim.with_rng(|rng| 20_000 + rng.below(100_000))));
        loop {
            let ticket = sim.ticket(programs);
            let guard = zone.lock();
            let left = free.get().checked_sub(1);
            free.set(left.unwrap_or(0));
            drop(guard);
            if left == Some(MARK - 1) {
                sim.wake(kswapd);
            }
            if left.is_some() || sim.is_killed() {
                break;
            }
            sim.sleep(programs, ticket, None);
        }
        sim.spend(Step::ZeroPage, 1);
    }
}

fn run(seed: u64, interleaving: Interleaving, batch: u64, looks_again: bool) -> (Result<(), Failure>, Decisions, u64) {
    let config = Config { seed, interleaving, keep_decisions: true, ..Config::uniform(4, 100) };
    let sim = Sim::new(config);
    let memory = Rc::new(Memory {
        sim: sim.clone(),
        free: Cell::new(MARK + batch),
        kswapd: sim.wait_queue(),
        programs: sim.wait_queue(),
        zone: sim.lock(LockClass::Zone, ()),
        batch,
        looks_again,
    });
    let reclaimer = memory.clone();
    sim.spawn("kswapd0", move || kswapd(&reclaimer));
    let tasks: Vec<_> = (0..PROGRAMS)
        .map(|_| {
            let memory = memory.clone();
            sim.spawn("program", move || program(&memory))
        })
        .collect();
    let main = sim.clone();
    let result = sim.run("main", move || {
        for task in tasks {
            main.join(task);
        }
    });
    (result, sim.decisions(), sim.fingerprint())
}

/// Returns an interleaving with random delays and yields. Their chances and lengths are drawn from the seed, from the
/// ranges that `highwater swarm` uses.
fn perturbed(seed: u64) -> Interleaving {
    let mut rng = Rng::new(seed, u64::MAX - 9);
    let mut log_below = |digits: u64| {
        let digits = rng.below(digits);
        (1 << digits) + rng.below(1 << digits)
    };
    Interleaving::Perturbed(Perturb {
        delay_chance: log_below(11) as u32,
        delay_max: Nanos(100 * log_below(12)),
        yield_chance: log_below(12) as u32,
    })
}

fn by_priority(depth: u32) -> Interleaving {
    Interleaving::ByPriority(Pct { depth, steps: 400, patience: 1 << 12 })
}

/// A name, and a function that returns the interleaving for a seed.
type Named = (&'static str, fn(u64) -> Interleaving);

/// Runs the seeds 1 to `of`, with a kswapd that frees `batch` pages at once. Returns the first seed that shows the bug,
/// and the number of such seeds.
fn worlds(interleaving: impl Fn(u64) -> Interleaving, batch: u64, of: u64) -> (Option<u64>, usize) {
    let found: Vec<u64> = (1..=of).filter(|seed| run(*seed, interleaving(*seed), batch, false).0.is_err()).collect();
    (found.first().copied(), found.len())
}

/// Kswapd loses a wake-up in this model only if kswapd is delayed while programs take many pages. Virtual time makes a
/// long delay rarer than a short one. Random priorities make both equally likely, and so find the bug with more seeds.
#[test]
fn random_priorities_find_a_lost_wakeup_in_fewer_worlds() {
    let of = 2000;
    let orders: [Named; 5] = [
        ("in time", |_| Interleaving::InTime),
        ("perturbed", perturbed),
        ("priorities, depth 1", |_| by_priority(1)),
        ("priorities, depth 2", |_| by_priority(2)),
        ("priorities, depth 3", |_| by_priority(3)),
    ];
    let found = orders.map(|(name, order)| (name, worlds(order, 2, of), worlds(order, 4, of)));
    let expected = [
        ("in time", (Some(1424), 1), (None, 0)),
        ("perturbed", (Some(161), 44), (Some(40), 12)),
        ("priorities, depth 1", (None, 0), (None, 0)),
        ("priorities, depth 2", (Some(22), 47), (Some(31), 33)),
        ("priorities, depth 3", (Some(15), 103), (Some(50), 78)),
    ];
    assert_eq!(found, expected, "the first world in which it shows, and in how many of {of}, of each batch");
}

#[test]
fn who_looks_again_loses_no_wakeup_in_any_order() {
    for seed in 1..=500 {
        for interleaving in [Interleaving::InTime, perturbed(seed), by_priority(2), by_priority(3)] {
            let (result, ..) = run(seed, interleaving.clone(), 2, true);
            result.unwrap_or_else(|failure| panic!("seed {seed}, {interleaving:?}: {failure}"));
        }
    }
}

#[test]
fn what_was_found_is_replayed_from_its_decisions() {
    let seed = worlds(|_| by_priority(2), 2, 200).0.expect("found in the first hundred worlds");
    let (result, decisions, fingerprint) = run(seed, by_priority(2), 2, false);
    assert!(result.as_ref().unwrap_err().message.starts_with("deadlock: "), "{result:?}");
    // The decisions consist of a rank for each task, and the changes of ranks.
    assert!(decisions.len() < 20, "{decisions:?}");
    let replayed = run(seed, Interleaving::Replayed(Arc::new(decisions.clone())), 2, false);
    assert_eq!(replayed, (result, decisions, fingerprint));
}
