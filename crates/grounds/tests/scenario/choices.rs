//! Each choice of `[reclaim]`, and each choice of `[lru]` that a scan depends on, is changed alone. It must change the
//! behaviour of reclaim.

use crate::ground::{Ground, PAGES, Plan};
use engine::allocate::choices::{ReserveThrottle, ZoneDirtyShare};
use engine::kernel::Choices;
use engine::lru::choices::{AtPriorityZero, EarlyExit};
use engine::memory::{Gfp, PAGEBLOCK_ORDER};
use engine::reclaim::choices::{
    DirectNap, DirtyAccounting, KswapdCompact, KswapdFloor, KswapdPriority, KswapdTarget, ListStall, MinScanPriority,
    PageoutTrigger, WritebackMet, ZoneWriteback,
};
use engine::stat::Vmstat;
use engine::swap::SwapLayout;
use engine::writeback::DeviceLayout;
use engine::{Engine, Layout, Task};
use machine::{DeviceId, Machine, Nanos};
use sim::Sim;
use sim::disk::Fault;

/// Runs a mixed workload: dirty files, clean streams, anonymous memory, a disk that stalls, large blocks.
pub fn everything(ground: &Ground) {
    let (log, stream) = (ground.create(), ground.import(PAGES as u32));
    let writer = {
        let log = log.clone();
        ground.spawn("writer", move |ground| {
            for start in (0..6000).step_by(100) {
                ground.write(&log, start..start + 100).unwrap();
            }
        })
    };
    let region = ground.region(3 * PAGES as u32);
    for round in 0..6u32 {
        if round % 3 == 1 {
            ground.inject(Fault::StallUntil(ground.sim.now() + Nanos::from_millis(1500)));
        }
        let start = round * 1000;
        let _ = ground.touch(&region, start..start + 1500, true);
        let _ = ground.read(&stream, 0..2000);
        let _ = ground.touch(&region, 0..300, false);
        if let Ok(head) = ground.engine.allocate().allocate(&mut Task::user(), Gfp::USER_MOVABLE, PAGEBLOCK_ORDER) {
            ground.engine.memory().free_block(head, PAGEBLOCK_ORDER);
        }
    }
    ground.sim.join(writer);
}

/// Stalls the disk, and fills memory with dirty pages and the disk's queue with writes. The callers' machine has no
/// kswapd, so all reclaim is direct.
fn congestion(ground: &Ground) {
    let file = ground.create();
    ground.inject(Fault::StallUntil(Nanos::from_millis(2500)));
    ground.write(&file, 0..3300).unwrap();
    let region = ground.region(1500);
    let _ = ground.touch(&region, 0..1500, true);
}

fn run(change: impl Fn(&mut Choices)) -> [Vmstat; 2] {
    let mut plan = Plan { layout: Layout::single_node(0, 1024, 3072), write_ns: 400_000, ..Plan::default() };
    plan.choices.writeback.dirty_ratio = 60;
    plan.choices.writeback.dirty_background_ratio = 30;
    change(&mut plan.choices);
    let mut alone = Plan { swap_slots: 0, with_kswapd: false, nr_requests: 4, ..plan.clone() };
    alone.choices.writeback.dirty_ratio = 95;
    alone.choices.writeback.dirty_background_ratio = 50;
    alone.choices.allocate.reserve_throttle = ReserveThrottle::Off;
    alone.choices.allocate.zone_dirty_share = ZoneDirtyShare::Off;
    [plan.run(everything), alone.run(congestion)]
}

fn vanilla(choices: &mut Choices) {
    choices.reclaim.kswapd_target = KswapdTarget::Unbounded;
    choices.lru.early_exit = EarlyExit::BelowDefaultPriority;
    choices.reclaim.kswapd_priority = KswapdPriority::RestartAfterCluster;
    choices.reclaim.kswapd_floor = KswapdFloor::Zero;
    choices.reclaim.pageout_trigger = PageoutTrigger::Priority;
    choices.reclaim.writeback_met = WritebackMet::Mark;
    choices.reclaim.dirty_accounting = DirtyAccounting::AtWrite;
    choices.reclaim.list_stall = ListStall::WhenWriteback;
    choices.reclaim.direct_nap = DirectNap::WaitIffCongested;
    choices.reclaim.kswapd_compact = KswapdCompact::AfterBalance;
}

/// Changes each choice alone, once in the oldest kernel (vanilla) and once in the newest one. In at least one of the
/// two kernels, the change must alter the counters. Two kernels are needed, because a choice may have an effect only
/// together with other choices of its time.
#[test]
fn each_choice_alone_changes_something() {
    type Change = fn(&mut Choices);
    let later: [(&str, Change); 14] = [
        ("swappiness", |c| c.lru.swappiness = 0),
        ("kswapd_target", |c| c.reclaim.kswapd_target = KswapdTarget::Unbounded),
        ("early_exit", |c| c.lru.early_exit = EarlyExit::BelowDefaultPriority),
        ("kswapd_priority", |c| c.reclaim.kswapd_priority = KswapdPriority::RestartAfterCluster),
        ("kswapd_floor", |c| c.reclaim.kswapd_floor = KswapdFloor::Zero),
        ("min_scan_priority", |c| c.reclaim.min_scan_priority = MinScanPriority::OneUntilStuck),
        ("pageout_trigger", |c| c.reclaim.pageout_trigger = PageoutTrigger::Priority),
        ("writeback_met", |c| c.reclaim.writeback_met = WritebackMet::Mark),
        ("zone_writeback", |c| c.reclaim.zone_writeback = ZoneWriteback::All),
        ("dirty_accounting", |c| c.reclaim.dirty_accounting = DirtyAccounting::AtWrite),
        ("list_stall", |c| c.reclaim.list_stall = ListStall::Never),
        ("direct_nap", |c| c.reclaim.direct_nap = DirectNap::WaitIffCongested),
        ("kswapd_compact", |c| c.reclaim.kswapd_compact = KswapdCompact::AfterBalance),
        ("at_priority_zero", |c| c.lru.at_priority_zero = AtPriorityZero::Fraction),
    ];
    let earlier: [(&str, Change); 14] = [
        ("swappiness", |c| c.lru.swappiness = 0),
        ("kswapd_target", |c| c.reclaim.kswapd_target = KswapdTarget::HighWatermark),
        ("early_exit", |c| c.lru.early_exit = EarlyExit::Proportional),
        ("kswapd_priority", |c| c.reclaim.kswapd_priority = KswapdPriority::ByScanVolume),
        ("kswapd_floor", |c| c.reclaim.kswapd_floor = KswapdFloor::One),
        ("min_scan_priority", |c| c.reclaim.min_scan_priority = MinScanPriority::OneUntilStuck),
        ("pageout_trigger", |c| c.reclaim.pageout_trigger = PageoutTrigger::DirtySeen),
        ("writeback_met", |c| c.reclaim.writeback_met = WritebackMet::CountImmediate),
        ("zone_writeback", |c| c.reclaim.zone_writeback = ZoneWriteback::All),
        ("dirty_accounting", |c| c.reclaim.dirty_accounting = DirtyAccounting::OnSight),
        ("list_stall", |c| c.reclaim.list_stall = ListStall::Never),
        ("direct_nap", |c| c.reclaim.direct_nap = DirectNap::None),
        ("kswapd_compact", |c| c.reclaim.kswapd_compact = KswapdCompact::ByProgress),
        ("at_priority_zero", |c| c.lru.at_priority_zero = AtPriorityZero::Fraction),
    ];
    let (base, old_base) = (run(|_| ()), run(vanilla));
    assert_eq!(base, run(|_| ()), "the same choices end on the same counters");
    let mut changes_nothing = Vec::new();
    for ((name, change), (old_name, old_change)) in later.into_iter().zip(earlier) {
        assert_eq!(name, old_name);
        let is_same = run(change) == base;
        let is_same_before = run(|choices| {
            vanilla(choices);
            old_change(choices);
        }) == old_base;
        if is_same && is_same_before {
            changes_nothing.push(name);
        }
    }
    // Two choices may show nothing. `direct_nap`: if tasks stall after scanning a list, the naps of direct reclaim come
    // too late to show; and with the earlier accounting of dirty pages, no zone is ever marked congested. So the naps
    // show only if tasks do not stall after lists. `kswapd_compact`: no compaction scanner runs here, so the moment at
    // which kswapd compacts shows at most in the time that this takes.
    changes_nothing.retain(|name| *name != "kswapd_compact");
    assert_eq!(changes_nothing, ["direct_nap"]);
    let no_stall = |choices: &mut Choices| choices.reclaim.list_stall = ListStall::Never;
    let naps = |choices: &mut Choices| {
        no_stall(choices);
        choices.reclaim.direct_nap = DirectNap::WaitIffCongested;
    };
    assert_ne!(run(naps), run(no_stall));
}

/// Choices that were changed in Rust have the same limits as choices in a file. For example, a batch must have at least
/// one page, because a batch of no page would never be put back.
#[test]
fn an_engine_is_not_made_of_choices_that_no_file_may_have() {
    let mut plan = Plan::default();
    plan.choices.lru.putback = engine::lru::choices::Putback::InBatches;
    for batch in [0, 65] {
        plan.choices.lru.batch = batch;
        let sim = Sim::new(sim::Config { frames: PAGES as usize, ..sim::Config::uniform(1, 100) });
        let swap =
            SwapLayout { device: DeviceId(0), first_block: 1, slots: 0, is_synchronous: false, memory_percent: 0 };
        let devices = [DeviceLayout { file_blocks: 0..1 }];
        let refused = Engine::new(sim, &plan.choices, &plan.layout, &devices, swap).err().unwrap().to_string();
        assert_eq!(refused, format!("choices, [lru]: `batch`: expected 1 to 64, found {batch}"));
    }
}
