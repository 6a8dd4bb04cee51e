//! Allocation when memory is short.

use crate::ground::{Plan, stamp};
use engine::allocate::choices::{AfterWait, DirectCompact, RetryWait};
use engine::memory::Gfp;
use engine::reclaim::choices::MinScanPriority;
use engine::stat::Gauge;
use engine::{Error, Layout, Task};
use machine::{Machine, Nanos, Order};

/// Fewer pages are free than half of the min mark. With the throttle on, a task that needs to reclaim waits until
/// another task has freed pages. With the throttle off, it does not wait.
#[test]
fn a_task_waits_while_the_reserve_is_used_up() {
    let waits = |throttle| {
        let mut plan = Plan { with_kswapd: false, ..Plan::default() };
        plan.choices.allocate.reserve_throttle = throttle;
        let vmstat = plan.run(|ground| {
            let file = ground.import(500);
            ground.read(&file, 0..500).unwrap();
            let mut kernel = ground.take_until_free(100);
            let freer = ground.spawn("freer", move |ground| {
                ground.pause_ms(300);
                ground.give_back(kernel.drain(..));
            });
            let started = ground.engine.machine().now();
            ground.touch(&ground.region(1), 0..1, true).unwrap();
            let elapsed = ground.engine.machine().now().since(started);
            let has_waited = elapsed >= Nanos::from_millis(299);
            assert_eq!(has_waited, ground.count("pgscan_direct_throttle") > 0, "{elapsed}");
            ground.sim.join(freer);
        });
        vmstat["pgscan_direct_throttle"]
    };
    use engine::allocate::choices::ReserveThrottle;
    // The task may wait twice, for the page table and for the page, if the first wait was not enough for both.
    assert!((1..=2).contains(&waits(ReserveThrottle::On)));
    assert_eq!(waits(ReserveThrottle::Off), 0);
}

/// A task reclaims, gets no page, and waits. Meanwhile another task frees pages. After the wait, kernels up to Linux
/// 3.2 reclaim once more before they try to allocate. Later kernels try first, and so reclaim once less.
#[test]
fn a_task_that_has_waited_tries_before_it_reclaims() {
    let stalls = |after_wait| {
        let mut plan = Plan { with_kswapd: false, swap_slots: 0, ..Plan::default() };
        plan.choices.allocate.after_wait = after_wait;
        plan.choices.allocate.direct_compact = DirectCompact::Never;
        plan.choices.allocate.retry_wait = RetryWait::CongestionWait;
        let vmstat = plan.run(|ground| {
            // Every other page is kernel memory, so no two free pages are adjacent.
            let mut kernel = ground.take_until_free(0);
            let other = kernel.extract_if(.., |frame| frame.0 % 2 == 1).collect::<Vec<_>>();
            ground.give_back(other);
            let file = ground.import(3000);
            ground.read(&file, 0..3000).unwrap();
            let block: Vec<_> = kernel.extract_if(.., |frame| (2048..2560).contains(&frame.0)).collect();
            let freer = ground.spawn("freer", move |ground| {
                ground.pause_ms(10);
                ground.engine.access().drop_caches();
                ground.give_back(block);
                ground.engine.memory().drain_all_per_cpu();
            });
            let before = ground.count("allocstall");
            let head = ground.engine.allocate().allocate(&mut Task::user(), Gfp::KERNEL, Order(1)).unwrap();
            assert!(ground.count("allocstall") > before, "nothing had to be reclaimed");
            ground.engine.memory().free_block(head, Order(1));
            ground.sim.join(freer);
            ground.give_back(kernel);
        });
        vmstat["allocstall"]
    };
    assert_eq!(stalls(AfterWait::Reclaims), stalls(AfterWait::TriesFirst) + 1);
}

/// Anonymous pages that cannot be reclaimed fill memory, and the test takes most of the reserve, so nothing can refill
/// it. A task that needs a page must not wait for kswapd to refill the reserve. It must get an error within a second,
/// and kswapd must go to sleep.
#[test]
fn nobody_waits_for_a_reserve_that_cannot_be_filled() {
    let vmstat = Plan { swap_slots: 0, ..Plan::default() }.run(|ground| {
        let region = ground.region(5000);
        assert!(ground.touch(&region, 0..5000, true).is_err());
        let kernel = ground.take_until_free(100);
        let started = ground.engine.machine().now();
        assert!(matches!(ground.touch(&region, 0..5000, true), Err(Error::OutOfMemory { .. })));
        assert!(ground.engine.machine().now().since(started) < Nanos::from_secs(1));
        ground.pause_ms(1000);
        let runs = ground.count("pageoutrun");
        ground.pause_ms(10_000);
        assert_eq!(ground.count("pageoutrun"), runs, "kswapd sleeps");
        ground.give_back(kernel);
    });
    assert!(vmstat["oom"] >= 2);
}

/// No task marks a zone hopeless while kswapd sleeps or does not exist. A reclaiming task must notice itself that there
/// is nothing to reclaim.
#[test]
fn memory_is_exhausted_even_if_kswapd_never_looks() {
    let plan = Plan { with_kswapd: false, swap_slots: 0, ..Plan::default() };
    let vmstat = plan.run(|ground| {
        let region = ground.region(5000);
        let error = ground.touch(&region, 0..5000, true).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { cause, .. } if cause.order == Order::ZERO), "{error}");
    });
    assert_eq!(vmstat["oom"], 1);
}

/// One file page is left among anonymous pages that cannot be reclaimed. At priority 1, reclaim scans half of a list,
/// and half of one page is rounded down to 0. So reclaim must also use priority 0. Otherwise the page would never be
/// scanned, its zone would never count as hopeless, and the allocation would never fail.
#[test]
fn a_last_page_does_not_keep_a_request_waiting() {
    let mut plan = Plan { swap_slots: 0, ..Plan::default() };
    plan.choices.reclaim.min_scan_priority = MinScanPriority::OneUntilStuck;
    plan.run(|ground| {
        let file = ground.create();
        ground.write(&file, 0..1).unwrap();
        ground.engine.lru().drain_all();
        let region = ground.region(5000);
        for _ in 0..3 {
            assert!(matches!(ground.touch(&region, 0..5000, true), Err(Error::OutOfMemory { .. })));
        }
        assert_eq!(ground.read(&file, 0..1).unwrap_or(vec![stamp(0)]), [stamp(0)]);
        ground.engine.access().drop_region(&region);
    });
}

/// The Normal zone is full of kernel memory. The free pages of DMA32 are reserved against requests that could have used
/// Normal. With swappiness 0, the anonymous pages of DMA32 are not scanned while so many pages are free. So nothing is
/// ever scanned, and no zone becomes hopeless. The request must end nevertheless.
#[test]
fn a_request_ends_when_reclaim_may_look_at_nothing() {
    let mut plan = Plan { layout: Layout::single_node(0, 2048, 512), ..Plan::default() };
    plan.choices.memory.lowmem_reserve_ratio = [1, 1, 1];
    plan.choices.memory.min_free_kbytes = 256;
    plan.choices.lru.swappiness = 0;
    plan.run(|ground| {
        let mut task = Task::user();
        let mut kernel = Vec::new();
        let normal = &ground.engine.memory().zones[1];
        while normal.free_pages() > normal.min() + 8 {
            let page = ground.engine.allocate().allocate_kernel(&mut task, Gfp::KERNEL, Gauge::NrSlabUnreclaimable);
            kernel.push(page.unwrap());
        }
        let region = ground.region(3000);
        assert!(matches!(ground.touch(&region, 0..3000, true), Err(Error::OutOfMemory { .. })));
        assert!(ground.engine.swap().free_slots() > 0);
        ground.engine.access().drop_region(&region);
        ground.give_back(kernel);
    });
}

/// If there is memory for a file's inode but not for its directory entry, the file is not left behind.
#[test]
fn a_file_that_cannot_be_created_leaves_nothing() {
    let plan = Plan { with_kswapd: false, swap_slots: 0, ..Plan::default() };
    plan.run(|ground| {
        let region = ground.region(5000);
        assert!(ground.touch(&region, 0..5000, true).is_err());
        let mut files = 0;
        loop {
            match ground.engine.access().create(&mut Task::user(), crate::ground::DISK) {
                Ok(_) => files += 1,
                Err(error) => break assert!(matches!(error, Error::OutOfMemory { .. })),
            }
        }
        assert_eq!(ground.engine.page_cache().files().len(), files);
    });
}
