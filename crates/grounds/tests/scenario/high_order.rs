//! Requests of an order above 0 while memory is full: how long kswapd reclaims for them, and which pages it takes.

use crate::ground::{Found, Ground, Plan, choices_of};
use engine::Layout;
use engine::Task;
use engine::access::choices::DirtyThrottle;
use engine::kernel::Choices;
use engine::lru::choices::{FamilyWeights, FileOnly, HopelessScan, SmallTargets};
use engine::memory::{Gfp, NodeId, Zone};
use engine::reclaim::choices::*;
use engine::slab::choices::SlabOrder;
use engine::stat::Vmstat;
use engine::writeback::choices::WritebackChunk;
use machine::{FrameNumber, Order};
use sim::Sim;

const NORMAL_PAGES: u64 = 1024;

fn plan(choices: Choices) -> Plan {
    let mut plan = Plan { choices, layout: Layout::single_node(0, 7168, NORMAL_PAGES), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan
}

fn normal(ground: &Ground) -> &Zone<Sim> {
    ground.engine.memory().zones.last().unwrap()
}

/// Makes every fifth page of the Normal zone kernel memory, so that the zone cannot have a free block of order 3.
fn scatter_kernel_pages(ground: &Ground) -> Vec<FrameNumber> {
    let zone = normal(ground);
    let mut taken = ground.take_until_free(0);
    let kept = |frame: &FrameNumber| zone.holds(*frame) && (frame.0 - zone.start.0).is_multiple_of(5);
    let scattered = taken.extract_if(.., |frame| kept(frame)).collect();
    ground.give_back(taken);
    scattered
}

/// Requests a block of order 3 as SLUB does.
fn ask_for_block(ground: &Ground) {
    let gfp = Gfp { no_retry: true, ..Gfp::RECLAIMABLE };
    if let Ok(head) = ground.engine.allocate().allocate(&mut Task::user(), gfp, Order(3)) {
        ground.engine.memory().free_block(head, Order(3));
    }
}

fn stream_with_requests(ground: &Ground, pages: u32) {
    let file = ground.import(pages);
    for start in (0..pages).step_by(100) {
        ground.read(&file, start..start + 100).unwrap();
        ask_for_block(ground);
        ground.pause_ms(1);
    }
}

/// Reads 20,000 pages while blocks of order 3 are requested. Returns the largest number of free pages in the small
/// zone, and the counters.
fn run_stream(choices: Choices) -> (u64, Vmstat) {
    let found = Found::default();
    let result = found.clone();
    let vmstat = plan(choices).run(move |ground| {
        let kernel = scatter_kernel_pages(ground);
        let file = ground.import(20_000);
        let mut most_free = 0;
        for start in (0..20_000).step_by(100) {
            ground.read(&file, start..start + 100).unwrap();
            ask_for_block(ground);
            ground.pause_ms(1);
            if start > 10_000 {
                most_free = most_free.max(normal(ground).free_pages());
            }
        }
        result.set(most_free);
        ground.give_back(kernel);
    });
    (found.get(), vmstat)
}

/// Scattered kernel pages keep the small zone (Normal) from ever having a free block of order 3, for which kswapd is
/// woken. With `ZoneBalance::AllZones`, kswapd frees all pages of this zone that it can, and then gives up. If it is
/// enough that balanced zones have a quarter of the node's pages, kswapd stops at once. The choice
/// `reclaim.zone_balance` alone makes this difference.
#[test]
fn kswapd_empties_a_zone_that_cannot_have_the_order() {
    let (before, vmstat) = run_stream(choices_of("2.6.37-traceonly"));
    assert!(vmstat["alloc_high_order_slow"] > 0, "no request found memory low");
    let (after, _) = run_stream(choices_of("2.6.37-kanyzone"));
    let mut without = choices_of("2.6.37-kanyzone");
    without.reclaim.zone_balance = ZoneBalance::AllZones;
    let (all_zones, _) = run_stream(without);
    let found = format!("free in Normal at most: traceonly {before}, kanyzone {after}, with all zones {all_zones}");
    assert!(before > 600 && all_zones > 600 && after < 400, "{found}");
}

/// Returns how often kswapd found a zone below its high mark while pages were read one after the other. The machine has
/// the zones DMA32 and Normal. DMA32 keeps a reserve from requests for Normal (`lowmem_reserve`).
fn high_wmark_hits(kernel: &str) -> u64 {
    let layout = Layout::single_node(512, 7168, 7168);
    let vmstat = Plan { layout, ..plan(choices_of(kernel)) }.run(|ground| {
        let file = ground.import(40_000);
        for start in (0..40_000).step_by(100) {
            ground.read(&file, start..start + 100).unwrap();
            ground.pause_ms(10);
        }
    });
    assert_eq!(vmstat["alloc_high_order_slow"], 0, "no order is in play");
    vmstat["kswapd_high_wmark_hit_quickly"]
}

/// Before kswapd sleeps, it tests whether free pages suffice for the zone that `balance_pgdat` has returned. Kanyzone's
/// test adds the reserve (`lowmem_reserve`) that lower zones keep from requests for this zone. The check at the end of
/// `balance_pgdat` does not add it. So kswapd first finds that it may not sleep, and calls `balance_pgdat` once more.
/// This call has nothing to do and returns the lowest zone, for which there is no reserve, and kswapd naps. Traceonly's
/// test adds no reserve.
#[test]
fn kanyzone_calls_once_more_before_it_naps() {
    let [before, after] = ["2.6.37-traceonly", "2.6.37-kanyzone"].map(high_wmark_hits);
    assert!(before < 10 && (100..1000).contains(&after), "traceonly {before}, kanyzone {after}");
}

/// If a pass of kswapd for a block frees fewer than 32 pages (`SWAP_CLUSTER_MAX`), kswapd continues with order 0.
/// Otherwise it would work for ever in a kernel that wants a free block in every zone.
#[test]
fn an_order_is_given_up_when_nothing_can_be_freed() {
    let choices = choices_of("2.6.37-traceonly");
    let found = Found::default();
    let result = found.clone();
    plan(choices).run(move |ground| {
        let kernel = scatter_kernel_pages(ground);
        stream_with_requests(ground, 10_000);
        ground.pause_ms(20_000);
        // No task takes memory any more. All file pages of the zone are freed, and then no more can be.
        ground.engine.reclaim().take_kswapd_calls(NodeId(0));
        ground.pause_ms(20_000);
        result.set(ground.engine.reclaim().take_kswapd_calls(NodeId(0)).total.as_secs_f64());
        ground.give_back(kernel);
    });
    let total = found.get();
    assert!(total < 1.0, "kswapd worked for {total} s of 20 in which nobody took memory");
}

/// Each choice that came with the kernels of 2.6.37 changes behaviour when it is switched alone.
#[test]
fn each_choice_of_2_6_37_alone_changes_something() {
    type Change = fn(&mut Choices);
    let changes: [(&str, Change); 20] = [
        ("high_order", |c| c.reclaim.high_order = HighOrder::ByCompaction),
        ("zone_balance", |c| c.reclaim.zone_balance = ZoneBalance::AllZones),
        ("zone_balance of 3.10", |c| c.reclaim.zone_balance = ZoneBalance::QuarterOfUsable),
        ("kswapd_gap", |c| c.reclaim.kswapd_gap = KswapdGap::Balance),
        ("sleep_test put right", |c| c.reclaim.sleep_test = SleepTest::Quarter),
        ("kswapd_nap", |c| c.reclaim.kswapd_nap = KswapdNap::None),
        ("slab_zones", |c| c.reclaim.slab_zones = SlabZones::Shrunk),
        ("lumpy_reclaim", |c| c.reclaim.lumpy_reclaim = LumpyReclaim::Never),
        ("for_compaction", |c| c.reclaim.for_compaction = ForCompaction::Obeyed),
        ("file_only", |c| c.lru.file_only = FileOnly::WhileInactiveSuffices),
        ("small_targets", |c| c.lru.small_targets = SmallTargets::AsTheyAre),
        ("hopeless_scan", |c| c.lru.hopeless_scan = HopelessScan::ACluster),
        ("family_weights", |c| c.lru.family_weights = FamilyWeights::AsItIs),
        ("stolen_pages", |c| c.reclaim.stolen_pages = StolenPages::Counted),
        ("deferred_objects", |c| c.reclaim.deferred_objects = DeferredObjects::Damped),
        ("pageout_trigger", |c| c.reclaim.pageout_trigger = PageoutTrigger::Priority),
        ("activation_batch", |c| c.lru.activation_batch = engine::lru::choices::ActivationBatch::Batched),
        ("dirty_throttle", |c| c.access.dirty_throttle = DirtyThrottle::Sleeps),
        ("writeback_chunk", |c| c.writeback.chunk = WritebackChunk::ByBandwidth),
        ("slab_order", |c| c.slab.order = SlabOrder::SinglePages),
    ];
    let run = |kernel: &str, change: Change| {
        let mut choices = choices_of(kernel);
        change(&mut choices);
        let crowded = Plan { write_ns: 400_000, ..plan(choices.clone()) }.run(crowded);
        // The disk's queue is short, most of memory is dirty, and there is no swap.
        let mut congested = Plan { write_ns: 2_000_000, nr_requests: 4, swap_slots: 0, ..plan(choices) };
        congested.choices.writeback.dirty_ratio = 90;
        congested.choices.writeback.dirty_background_ratio = 80;
        [crowded, congested.run(small_files_beside_a_writer)]
    };
    let kernels = ["2.6.37-traceonly", "2.6.37-kanyzone"];
    let bases = kernels.map(|kernel| run(kernel, |_| ()));
    let is_same = |change| kernels.iter().zip(&bases).all(|(kernel, base)| run(kernel, change) == *base);
    let changes_nothing: Vec<&str> =
        changes.into_iter().filter(|(_, change)| is_same(*change)).map(|(name, _)| name).collect();
    assert_eq!(changes_nothing, [""; 0]);
}

/// Runs a writer, a stream of reads and requests for blocks, while other memory is in use.
fn crowded(ground: &Ground) {
    let kernel = scatter_kernel_pages(ground);
    let log = ground.create();
    let writer = ground.spawn("writer", move |ground| {
        for start in (0..4000).step_by(100) {
            ground.write(&log, start..start + 100).unwrap();
            for page in start..start + 20 {
                ground.write(&log, page..page + 1).unwrap();
            }
        }
    });
    let region = ground.region(9000);
    for round in 0..6 {
        ground.touch(&region, round * 1000..round * 1000 + 1500, true).unwrap();
        // There are inodes for several batches, so that the treatment of the rest of a batch shows.
        for _ in 0..100 {
            ground.create();
        }
        stream_with_requests(ground, 1500);
    }
    ground.sim.join(writer);
    ground.give_back(kernel);
}

/// Touches anonymous pages that fill the small zone and stay there, because there is no swap. Then reads many small
/// files and requests blocks of order 3, while another task rewrites a file.
fn small_files_beside_a_writer(ground: &Ground) {
    let region = ground.region(3000);
    ground.touch(&region, 0..3000, true).unwrap();
    let log = ground.create();
    ground.write(&log, 0..2500).unwrap();
    ground.fsync(&log).unwrap();
    let writer = ground.spawn("writer", move |ground| {
        for _ in 0..4 {
            ground.write(&log, 0..2500).unwrap();
        }
    });
    for n in 0..3000 {
        let file = ground.import(2);
        ground.read(&file, 0..2).unwrap();
        if n % 20 == 0 {
            ask_for_block(ground);
        }
    }
    ground.sim.join(writer);
    ground.engine.access().drop_region(&region);
}
