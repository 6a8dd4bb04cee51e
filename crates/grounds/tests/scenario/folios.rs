//! Huge pages among small ones, on the same lists. All counts must add up after any sequence of operations.

use crate::ground::{Ground, Plan, stamp};
use engine::Error;
use engine::anonymous::Region;
use engine::memory::PAGEBLOCK_ORDER;
use engine::page_cache::File;
use engine::stat::Vmstat;
use proptest::prelude::*;
use sim::Sim;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Number of pages of a region: two huge pages.
const REGION: u32 = 1024;
/// Number of regions; together with the file they are nearly as large as memory.
const REGIONS: usize = 3;
/// Number of pages of the file.
const FILE: u32 = 768;

#[derive(Clone, Debug)]
enum Step {
    /// Touches pages; a fault brings a huge page if a block is free.
    Touch { region: usize, pages: Range<u32>, write: bool },
    /// Latches a page to copy into it, which splits a huge page.
    Write { region: usize, page: u32 },
    /// Reads pages of the file, which are small.
    Read(Range<u32>),
    /// Other tasks take all memory except `free` pages. Then a region is touched; reclaim splits the huge pages that it
    /// swaps out.
    Squeeze { free: u64, region: usize },
    /// Waits, so that khugepaged makes huge pages of suitable ranges.
    Wait,
    /// Drops a region, with its huge pages as a whole, and creates another.
    Replace { region: usize, is_huge_allowed: bool },
    /// Waits for the devices, and then checks that each frame is in one place and that all counts add up.
    Check,
}

fn within(pages: u32) -> impl Strategy<Value = Range<u32>> {
    (0..pages, 1..200_u32).prop_map(move |(first, count)| first..(first + count).min(pages))
}

fn step() -> impl Strategy<Value = Step> {
    let touched = (0..REGIONS, within(REGION), any::<bool>());
    prop_oneof![
        6 => touched.prop_map(|(region, pages, write)| Step::Touch { region, pages, write }),
        2 => (0..REGIONS, 0..REGION).prop_map(|(region, page)| Step::Write { region, page }),
        2 => within(FILE).prop_map(Step::Read),
        // More than half of the min mark is left: below that, a task waits for a kswapd, and there is none.
        1 => (300..900_u64, 0..REGIONS).prop_map(|(free, region)| Step::Squeeze { free, region }),
        1 => Just(Step::Wait),
        2 => (0..REGIONS, any::<bool>()).prop_map(|(region, is_huge_allowed)| Step::Replace { region, is_huge_allowed }),
        2 => Just(Step::Check),
    ]
}

/// The regions and files on the machine, and the state of their huge pages.
struct World<'a> {
    ground: &'a Ground,
    regions: Vec<Arc<Region<Sim>>>,
    /// For each region, the pages that have their stamp.
    written: Vec<BTreeSet<u32>>,
    file: Arc<File<Sim>>,
    /// Number of huge pages that were freed whole with their region.
    gone_whole: u64,
}

impl World<'_> {
    fn huge_pages(&self, region: &Region<Sim>) -> u64 {
        (0..REGION).step_by(1 << PAGEBLOCK_ORDER.0).filter(|page| region.huge_page(*page).is_some()).count() as u64
    }

    fn act(&mut self, step: Step) {
        let ground = self.ground;
        match step {
            Step::Touch { region, pages, write } => ground.touch(&self.regions[region], pages, write).unwrap(),
            Step::Write { region, page } => {
                ground.write_stamps(&self.regions[region], page..page + 1).unwrap();
                self.written[region].insert(page);
            }
            Step::Read(pages) => drop(ground.read(&self.file, pages).unwrap()),
            Step::Squeeze { free, region } => {
                let taken = ground.take_until_free(free);
                // If nothing else can be reclaimed, memory is exhausted. What was touched until then must add up, too.
                let touched = ground.touch(&self.regions[region], 0..REGION, true);
                assert!(matches!(touched, Ok(()) | Err(Error::OutOfMemory { .. })), "{touched:?}");
                ground.give_back(taken);
            }
            Step::Wait => ground.pause_ms(15),
            Step::Replace { region, is_huge_allowed } => {
                self.gone_whole += self.huge_pages(&self.regions[region]);
                ground.engine.access().drop_region(&self.regions[region]);
                self.regions[region] = ground.engine.anonymous().create_region(None, REGION, is_huge_allowed);
                self.written[region].clear();
            }
            Step::Check => self.add_up(),
        }
    }

    fn add_up(&self) {
        let ground = self.ground;
        ground.wait_for_devices();
        // Every frame is in exactly one place, and gauges agree with page tables.
        ground.check();
        let (memory, mut listed, mut huge_listed) = (ground.engine.memory(), 0, 0);
        for zone in &memory.zones {
            ground.engine.lru().for_each_listed(zone, |_, frame| {
                listed += memory.frames.pages(frame);
                huge_listed += u64::from(memory.frames.pages(frame) > 1);
            });
        }
        let lists = ["nr_inactive_anon", "nr_active_anon", "nr_inactive_file", "nr_active_file"];
        assert_eq!(lists.map(|list| ground.count(list)).iter().sum::<u64>(), listed, "pages on lists");
        let mapped: u64 = self.regions.iter().map(|region| self.huge_pages(region)).sum();
        assert_eq!((mapped, mapped), (huge_listed, ground.count("nr_anon_transparent_hugepages")), "huge pages");
        let became = mapped + self.gone_whole + ground.count("thp_split");
        let came = ground.count("thp_fault_alloc") + ground.engine.access().pages_collapsed();
        assert_eq!(came, became, "each huge page is there, went whole, or was split");
    }
}

/// Carries out all steps on a machine, and returns its counters.
fn live(steps: Vec<Step>, with_khugepaged: bool) -> Vmstat {
    let mut plan = Plan { cpus: 1, with_kswapd: false, with_flusher: false, ..Plan::default() };
    plan.choices.access.khugepaged_scan_sleep_ms = 10;
    plan.choices.access.khugepaged_alloc_sleep_ms = 10;
    plan.run(move |ground| {
        let khugepaged = ground.engine.khugepaged().filter(|_| with_khugepaged);
        let khugepaged = khugepaged.map(|task| ground.spawn("khugepaged", move |ground| ground.engine.run(task)));
        let regions = (0..REGIONS).map(|_| ground.engine.anonymous().create_region(None, REGION, true)).collect();
        let written = vec![BTreeSet::new(); REGIONS];
        let mut world = World { ground, regions, written, file: ground.import(FILE), gone_whole: 0 };
        steps.into_iter().for_each(|step| world.act(step));
        world.add_up();
        for (region, written) in world.regions.iter().zip(&world.written) {
            for page in written {
                assert_eq!(ground.read_stamp(region, *page).unwrap(), stamp(*page), "page {page}");
            }
        }
        world.add_up();
        if let Some(task) = khugepaged {
            ground.sim.kill(task);
            ground.sim.join(task);
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn huge_and_small_pages_add_up(steps in prop::collection::vec(step(), 1..40), with_khugepaged: bool) {
        live(steps, with_khugepaged);
    }
}

/// A fixed sequence of steps in which huge pages are made by faults, are freed whole with their region, and are split
/// by a copy and by reclaim.
#[test]
fn huge_pages_come_and_go_in_every_way() {
    let all = |region| Step::Touch { region, pages: 0..REGION, write: true };
    let vmstat = live(
        vec![
            all(0),
            Step::Read(0..FILE),
            all(1),
            Step::Check,
            Step::Write { region: 0, page: 700 },
            Step::Check,
            Step::Replace { region: 0, is_huge_allowed: false },
            all(0),
            Step::Check,
            Step::Squeeze { free: 200, region: 2 },
        ],
        false,
    );
    assert_eq!(vmstat["thp_fault_alloc"], 4, "of regions 0 and 1; no block was free for region 2");
    assert_eq!(vmstat["thp_split"], 3, "one was written, one went whole, and reclaim swapped out the others");
    assert!(vmstat["pswpout"] > 0);
}
