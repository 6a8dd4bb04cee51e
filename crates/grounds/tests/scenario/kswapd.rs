//! Kswapd: when it wakes, how much it reclaims, when it sleeps.

use crate::ground::{Found, PAGES, Plan, choices_of};
use engine::allocate::choices::ZoneDirtyShare;
use engine::memory::{Gfp, ZoneFlag, ZoneKind};
use engine::reclaim::choices::{CongestionEnds, KswapdPriority, KswapdRequest, SleepTest, ZoneBalance};
use engine::stat::Gauge;
use engine::{Layout, Task};
use machine::{Machine, Nanos};
use sim::disk::Fault;

/// A stream of file pages goes through three zones. When it ends, kswapd brings each zone to its high mark and does
/// nothing more.
#[test]
fn kswapd_sleeps_once_every_zone_is_above_high() {
    let plan = Plan { layout: Layout::single_node(512, 1536, 2048), ..Plan::default() };
    plan.run(|ground| {
        let file = ground.import(2 * PAGES as u32);
        ground.read(&file, 0..2 * PAGES as u32).unwrap();
        ground.pause_ms(1000);
        for zone in &ground.engine.memory().zones {
            assert!(zone.free_pages() > zone.marks().high, "{}: {} free", zone.kind.name(), zone.free_pages());
        }
        let (passes, scanned) = (ground.count("pageoutrun"), ground.count("pgscan_kswapd_normal"));
        assert!(passes > 0 && scanned > 0);
        ground.pause_ms(60_000);
        assert_eq!((ground.count("pageoutrun"), ground.count("pgscan_kswapd_normal")), (passes, scanned));
    });
}

/// As long as more than the low mark is free, kswapd sleeps. The first request that finds less wakes it. It reclaims up
/// to the high mark, and no other task has to.
#[test]
fn an_allocation_below_low_wakes_kswapd() {
    let vmstat = Plan::default().run(|ground| {
        // By now kswapd has found all zones above their high marks and sleeps without a timeout.
        ground.pause_ms(200);
        let file = ground.import(PAGES as u32);
        ground.read(&file, 0..1000).unwrap();
        let kernel = ground.take_until_free(330);
        ground.pause_ms(1000);
        assert_eq!((ground.count("pageoutrun"), ground.count("pgscan_kswapd_normal")), (0, 0));
        ground.read(&file, 1000..1100).unwrap();
        ground.pause_ms(1000);
        assert!(ground.free() > 384, "{} pages free", ground.free());
        ground.give_back(kernel);
    });
    assert!(vmstat["pageoutrun"] > 0 && vmstat["pgsteal_kswapd_normal"] > 0);
    assert_eq!((vmstat["allocstall"], vmstat["pgscan_direct_normal"]), (0, 0));
}

/// The upper zone is marked as congested but has enough free pages. Kswapd is woken for a request that only the lower
/// zone may serve. Up to Linux 3.2, kswapd then does not check the upper zone, which stays marked as congested.
#[test]
fn a_zone_above_those_that_lack_pages_stays_congested_before_3_3() {
    let stays_congested = |ends| {
        let found = Found::default();
        let result = found.clone();
        let choices = choices_of("2.6.37-traceonly");
        let mut plan = Plan { choices, layout: Layout::single_node(0, 3072, 1024), ..Plan::default() };
        plan.choices.memory.min_free_kbytes = 1024;
        plan.choices.reclaim.congestion_ends = ends;
        plan.run(move |ground| {
            let [lower, upper] = &ground.engine.memory().zones[..] else { panic!("two zones") };
            let (first, second) = (ground.import(700), ground.import(1500));
            ground.read(&first, 0..700).unwrap();
            ground.read(&second, 0..1500).unwrap();
            ground.engine.access().unlink(&first);
            ground.pause_ms(1000);
            let runs = ground.count("pageoutrun");
            upper.set(ZoneFlag::CONGESTED);
            let gfp = Gfp { highest_zone: ZoneKind::Dma32, ..Gfp::KERNEL };
            let mut kernel = Vec::new();
            while ground.count("pageoutrun") == runs {
                let page = ground.engine.allocate().allocate_kernel(&mut Task::user(), gfp, Gauge::NrSlabUnreclaimable);
                kernel.push(page.unwrap());
            }
            ground.pause_ms(1000);
            assert!(lower.free_pages() > lower.high() && upper.free_pages() > upper.high());
            result.set(upper.is(ZoneFlag::CONGESTED));
            ground.give_back(kernel);
        });
        found.get()
    };
    assert!(stays_congested(CongestionEnds::WhereItWorks));
    assert!(!stays_congested(CongestionEnds::OnSight));
}

/// Anonymous memory is touched faster than the disk takes it. Kswapd waits for the disk, and the task that needs pages
/// has to reclaim, too.
#[test]
fn tasks_reclaim_themselves_when_kswapd_cannot_follow() {
    let vmstat = Plan { write_ns: 2_000_000, ..Plan::default() }.run(|ground| {
        let region = ground.region(2 * PAGES as u32);
        ground.touch(&region, 0..2 * PAGES as u32, true).unwrap();
        ground.engine.access().drop_region(&region);
    });
    assert!(vmstat["allocstall"] > 0 && vmstat["pgsteal_direct_normal"] > 0 && vmstat["pgsteal_kswapd_normal"] > 0);
    assert!(vmstat["pswpout"] >= PAGES, "{}", vmstat["pswpout"]);
}

/// Returns whether kswapd scans all pages when a write fills memory and the disk stands still.
fn comes_to_priority_zero(kernel: &str) -> bool {
    let found = Found::default();
    let result = found.clone();
    let mut plan = Plan { choices: choices_of(kernel), swap_slots: 0, ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan.choices.writeback.dirty_ratio = 90;
    plan.choices.writeback.dirty_background_ratio = 80;
    plan.choices.allocate.zone_dirty_share = ZoneDirtyShare::Off;
    plan.run(move |ground| {
        let file = ground.create();
        ground.write(&file, 0..2800).unwrap();
        ground.inject(Fault::StallUntil(ground.sim.now() + Nanos::from_secs(60)));
        let kernel = ground.take_until_free(350);
        // Free memory is below the low mark, so that kswapd wakes, but above the min mark, so that no other task
        // reclaims.
        ground.touch(&ground.region(64), 0..64, true).unwrap();
        ground.pause_ms(30_000);
        assert_eq!(ground.count("allocstall"), 0);
        assert!(ground.count("pgscan_kswapd_normal") > 0);
        result.set(ground.engine.reclaim().take_first_priority_zero().is_some_and(|first| first.is_kswapd));
        ground.give_back(kernel);
    });
    found.get()
}

/// Memory is full of dirty pages, and the disk completes no request. So kswapd frees nothing, and lowers the priority
/// with every pass. In 3.10 it comes to priority 0, which scans whole lists. In the later kernels it stops at priority
/// 1, which scans half of each list.
#[test]
fn kswapd_of_3_10_scans_everything_where_mmotm_scans_half() {
    assert!(comes_to_priority_zero("3.10-rc4-vanilla"));
    assert!(!comes_to_priority_zero("mm1-mmotm-20130606"));
    assert!(!comes_to_priority_zero("mm1-lessdisrupt-v1"));
}

/// Under the same stream of clean pages, 3.10 counts a run for each restart at priority 12. Later kernels, which do not
/// restart, count a run for each call of `balance_pgdat`.
#[test]
fn restarts_are_counted_as_runs() {
    let runs = |priority| {
        let mut plan = Plan::default();
        plan.choices.reclaim.kswapd_priority = priority;
        let vmstat = plan.run(|ground| {
            let file = ground.import(4 * PAGES as u32);
            ground.read(&file, 0..4 * PAGES as u32).unwrap();
        });
        (vmstat["pageoutrun"], vmstat["pgsteal_kswapd_normal"])
    };
    let (restarting, by_restarts) = runs(KswapdPriority::RestartAfterCluster);
    let (descending, by_descents) = runs(KswapdPriority::ByScanVolume);
    assert!(restarting > descending, "{restarting} runs freed {by_restarts}, {descending} freed {by_descents}");
}

/// The reserve (`lowmem_reserve`) that the lower zone keeps from requests for the upper zone is larger than the lower
/// zone. A kswapd that knows no class zone ignores the reserve, and so falls asleep. If it required the reserve too, it
/// would never sleep, because the lower zone cannot have so many free pages.
#[test]
fn a_reserve_larger_than_its_zone_does_not_keep_a_kswapd_awake_that_knows_no_class_zones() {
    let layout = Layout::single_node(0, 1024, 3072);
    let mut plan = Plan { layout, ..Plan::default() };
    plan.choices.memory.lowmem_reserve_ratio = [1, 1, 1];
    plan.choices.reclaim.kswapd_request = KswapdRequest::Order;
    plan.choices.reclaim.kswapd_priority = KswapdPriority::RestartAfterCluster;
    plan.choices.reclaim.zone_balance = ZoneBalance::AnySuitableZone;
    plan.choices.reclaim.sleep_test = SleepTest::Quarter;
    plan.run(|ground| {
        let file = ground.import(2 * PAGES as u32);
        ground.read(&file, 0..2 * PAGES as u32).unwrap();
        // If pages are freed there while kswapd naps, the lower zone no longer counts as hopeless. If it counted as
        // hopeless, kswapd would not look at it.
        let gfp = Gfp { highest_zone: ZoneKind::Dma32, ..Gfp::KERNEL };
        for _ in 0..200 {
            let page =
                ground.engine.allocate().allocate_kernel(&mut Task::user(), gfp, Gauge::NrSlabUnreclaimable).unwrap();
            ground.give_back([page]);
            ground.engine.memory().drain_all_per_cpu();
            ground.pause_ms(1);
        }
        let passes = ground.count("pageoutrun");
        assert!(passes > 0);
        ground.pause_ms(10_000);
        assert_eq!(ground.count("pageoutrun"), passes);
    });
}
