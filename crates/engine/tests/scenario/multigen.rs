//! The multi-generational LRU, in its versions.

use crate::choices::everything;
use crate::ground::{Found, Ground, PAGES, Plan, choices_of};
use engine::lru::Family;

/// All that there are.
const VERSIONS: [&str; 5] = ["mglru-v1", "mglru-v2", "6.1-mglru", "6.14-mglru", "7.2-mglru"];

/// Those whose controller has tiers.
const TIERED: [&str; 4] = ["mglru-v2", "6.1-mglru", "6.14-mglru", "7.2-mglru"];

fn plan(kernel: &str) -> Plan {
    let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan
}

/// Numbers that look drawn by chance.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

fn file_tier_limit(ground: &Ground) -> usize {
    let zone = ground.engine.memory().zones.last().unwrap();
    ground.engine.lru().tier_limit(zone, Family::File).expect("the kernel has generations")
}

/// Dirty files, streams, anonymous memory, a disk that stalls, large blocks: contents and counts are verified at the end.
#[test]
fn every_version_reclaims_files_and_anonymous_memory() {
    for kernel in VERSIONS {
        let vmstat = plan(kernel).run(everything);
        assert!(vmstat["pswpout"] > 500 && vmstat["pgsteal_kswapd_normal"] > 1000, "{kernel}: {vmstat:?}");
    }
}

/// Random reads of a file of four times the memory, each block as likely as the others.
fn read_at_random(ground: &Ground, pages: u32, reads: u32, mut each: impl FnMut(u32)) {
    let file = ground.import(pages);
    let mut numbers = Numbers(7);
    for n in 0..reads {
        let page = numbers.below(pages);
        ground.read(&file, page..page + 1).unwrap();
        each(n);
    }
}

/// mechanisms/multigen, 10.5: a fifth of memory is anonymous and idle, and there is swap. Later versions begin generations by what
/// is left of those that can be evicted, and so take it in the end: `idle_anonymous_memory_goes_once_in_7_2`.
#[test]
fn idle_anonymous_memory_stays_under_reads_of_a_file() {
    for kernel in ["mglru-v2", "6.1-mglru", "6.14-mglru"] {
        let vmstat = plan(kernel).run(|ground| {
            let region = ground.region(PAGES as u32 / 5);
            ground.touch(&region, 0..PAGES as u32 / 5, true).unwrap();
            read_at_random(ground, 4 * PAGES as u32, 8 * PAGES as u32, |_| {});
        });
        let stolen = vmstat["pgsteal_kswapd_normal"] + vmstat["pgsteal_direct_normal"];
        assert!(stolen > 3 * PAGES, "{kernel}: {vmstat:?}");
        assert_eq!(vmstat["pswpout"], 0, "{kernel}: swapped beside {stolen} pages of the file");
    }
}

/// What is not used goes, since pages of files come back and it does not. It is written once.
#[test]
fn idle_anonymous_memory_goes_once_in_7_2() {
    let vmstat = plan("7.2-mglru").run(|ground| {
        let region = ground.region(PAGES as u32 / 5);
        ground.touch(&region, 0..PAGES as u32 / 5, true).unwrap();
        read_at_random(ground, 4 * PAGES as u32, 8 * PAGES as u32, |_| {});
    });
    assert_eq!((vmstat["pswpout"], vmstat["pswpin"]), (PAGES / 5, 0));
}

/// Pages that were read twice by chance are no better than others: no tier is protected.
#[test]
fn uniform_reads_protect_no_tier() {
    for kernel in TIERED {
        let limits = Found::<[u32; 4]>::default();
        let found = limits.clone();
        let vmstat = plan(kernel).run(move |ground| {
            let mut limits = [0; 4];
            read_at_random(ground, 2 * PAGES as u32, 16 * PAGES as u32, |n| {
                if n >= 8 * PAGES as u32 {
                    limits[file_tier_limit(ground)] += 1;
                }
            });
            found.set(limits);
        });
        let limits = limits.get();
        assert!(limits[3] * 100 >= limits.iter().sum::<u32>() * 95, "{kernel}: {limits:?}");
        let hits = 1.0 - vmstat["pgpgin"] as f64 / 4.0 / (16.0 * PAGES as f64);
        // What is kept free, and what the engine itself takes, is not in the cache; and the first reads fill it.
        assert!(hits > 0.40 && hits < 0.5, "{kernel}: {hits}");
    }
}

/// A hot set is read again and again beside a scan that never repeats: what was read often is protected from that.
#[test]
fn a_hot_set_beside_a_scan_that_never_repeats_is_protected() {
    for kernel in TIERED {
        let limits = Found::<[u32; 4]>::default();
        let found = limits.clone();
        plan(kernel).run(move |ground| {
            let hot_pages = PAGES as u32 / 2;
            let (hot, stream) = (ground.import(hot_pages), ground.import(24 * PAGES as u32));
            let mut numbers = Numbers(3);
            let mut limits = [0; 4];
            for page in 0..24 * PAGES as u32 {
                ground.read(&stream, page..page + 1).unwrap();
                let hot_page = numbers.below(hot_pages);
                ground.read(&hot, hot_page..hot_page + 1).unwrap();
                if page > 12 * PAGES as u32 {
                    limits[file_tier_limit(ground)] += 1;
                }
            }
            found.set(limits);
        });
        let limits = limits.get();
        // There history is folded often, and 64 refaults, below which none is protected, are much for a memory of 16 MiB.
        let part = if kernel == "7.2-mglru" { 2 } else { 10 };
        assert!(limits[3] * part < limits.iter().sum::<u32>(), "{kernel}: {limits:?}");
    }
}

/// With nothing but anonymous memory, and no kswapd, tasks begin generations themselves.
#[test]
fn anonymous_memory_alone_is_reclaimed_by_tasks() {
    for kernel in VERSIONS {
        let vmstat = Plan { with_kswapd: false, ..plan(kernel) }.run(|ground| {
            let region = ground.region(3 * PAGES as u32);
            ground.write_stamps(&region, 0..3 * PAGES as u32).unwrap();
            for page in 0..3 * PAGES as u32 {
                assert_eq!(ground.read_stamp(&region, page).unwrap(), crate::ground::stamp(page));
            }
        });
        assert!(vmstat["pswpin"] > PAGES, "{kernel}: {vmstat:?}");
    }
}

/// What debugfs shows, and its two commands: a generation begins, and old ones are evicted.
#[test]
fn generations_are_shown_and_commanded() {
    use engine::lru::policy::multigen::view::Refused;
    use engine::memory::NodeId;
    plan("mglru-v2").run(|ground| {
        let (lru, reclaim) = (ground.engine.lru(), ground.engine.reclaim());
        let file = ground.import(1000);
        ground.read(&file, 0..1000).unwrap();
        lru.drain_all();
        let text = lru.lru_gen();
        let rows: Vec<Vec<u64>> = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(text.starts_with("memcg     0 /\n node     0\n"), "{text}");
        assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), [0, 1, 2, 3], "{text}");
        assert_eq!((rows[0][3], rows.iter().map(|row| row[2] + row[3]).sum::<u64>()), (1000, 1000), "{text}");
        let node = NodeId(0);
        assert_eq!(lru.begin_generation_now(node, 2), Err(Refused::WrongGeneration));
        lru.begin_generation_now(node, 3).unwrap();
        let zone = ground.engine.memory().zones.last().unwrap();
        assert_eq!(lru.generation_numbers(zone).unwrap().max, 4);
        let evict = |oldest, pages| reclaim.evict_generations(&mut ground.task.borrow_mut(), node, oldest, pages);
        assert_eq!(evict(3, 10), Err(Refused::WrongGeneration));
        assert_eq!(evict(2, 10).unwrap(), 32, "a batch");
        assert_eq!(evict(2, 10_000).unwrap(), 968);
        assert_eq!(evict(2, 10_000).unwrap(), 0);
        assert!(lru.generation_numbers(zone).unwrap().min[1] > 2);
    });
    plan("3.10-rc4-vanilla").run(|ground| {
        assert_eq!(ground.engine.lru().lru_gen(), "");
        assert_eq!(ground.engine.lru().begin_generation_now(NodeId(0), 3), Err(Refused::NoGenerations));
    });
}

/// Some memory is used all the time, more and more is used once, and all of it goes to swap. A walk finds what is used before
/// reclaim comes to it.
#[test]
fn a_walk_keeps_used_anonymous_memory() {
    use engine::lru::policy::multigen::choices::{LookAround, Walk};
    for kernel in TIERED {
        let run = |is_walked: bool| {
            let mut plan = plan(kernel);
            if !is_walked {
                plan.choices.multigen.walk = Walk::Never;
                plan.choices.multigen.look_around = LookAround::Never;
            }
            plan.run(|ground| {
                let (hot, once) = (ground.region(1000), ground.region(4 * PAGES as u32));
                ground.touch(&hot, 0..1000, true).unwrap();
                for start in (0..4 * PAGES as u32).step_by(64) {
                    ground.touch(&once, start..start + 64, true).unwrap();
                    ground.touch(&hot, 0..1000, false).unwrap();
                }
            })
        };
        let (walked, not) = (run(true), run(false));
        assert!(walked["pswpout"] > 2 * PAGES, "{kernel}: {walked:?}");
        // A page may go that two walks have looked at before it is touched again: kswapd of a whole node does much at once.
        let most = walked["pswpout"] / 8;
        assert!(walked["pswpin"] <= most, "{kernel}: {} pages came back", walked["pswpin"]);
        let activated = [&walked, &not].map(|vmstat| vmstat["pgactivate"]);
        assert!(activated[0] * 2 < activated[1], "{kernel}: {activated:?} pages were found used by reclaim");
    }
}
