//! Tests of anonymous folios that are smaller than a huge page: they are touched, written, swapped out and dropped in
//! any order, and every byte is verified.

use crate::ground::{Ground, Plan, choices_of, stamp};
use engine::Error;
use engine::anonymous::Region;
use engine::compact::choices::{Folios, Scanners};
use engine::swap::choices::SwapFolios;
use machine::Order;
use proptest::prelude::*;
use sim::Sim;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Number of pages of a region; three regions take three quarters of memory.
const REGION: u32 = 1024;
const REGIONS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Touch {
        region: usize,
        pages: Range<u32>,
        write: bool,
    },
    Write {
        region: usize,
        pages: Range<u32>,
    },
    Read {
        region: usize,
        pages: Range<u32>,
    },
    /// Touches a region while other tasks have all memory except `free` pages.
    Squeeze {
        free: u64,
        region: usize,
    },
    Replace(usize),
    /// Moves folios: compacts all of memory.
    Compact,
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    let pages = || (0..REGION, 1..200_u32).prop_map(|(first, count)| first..(first + count).min(REGION));
    prop_oneof![
        4 => (0..REGIONS, pages(), any::<bool>()).prop_map(|(region, pages, write)| Step::Touch { region, pages, write }),
        4 => (0..REGIONS, pages()).prop_map(|(region, pages)| Step::Write { region, pages }),
        3 => (0..REGIONS, pages()).prop_map(|(region, pages)| Step::Read { region, pages }),
        2 => (300..900_u64, 0..REGIONS).prop_map(|(free, region)| Step::Squeeze { free, region }),
        1 => (0..REGIONS).prop_map(Step::Replace),
        2 => Just(Step::Compact),
        2 => Just(Step::Check),
    ]
}

fn live(steps: Vec<Step>, order: u32, folios: SwapFolios, kernel: &str) {
    let mut plan = Plan { choices: choices_of(kernel), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan.choices.access.anonymous_folio_order = order;
    plan.choices.swap.folios = folios;
    plan.choices.compact.scanners = Scanners::Both;
    plan.choices.compact.folios = Folios::Moved;
    plan.run(move |ground| {
        let region = |ground: &Ground| ground.region(REGION);
        let mut regions: Vec<Arc<Region<Sim>>> = (0..REGIONS).map(|_| region(ground)).collect();
        let mut written = vec![BTreeSet::new(); REGIONS];
        let read = |region: &Region<Sim>, written: &BTreeSet<u32>, pages: Range<u32>| {
            for page in pages {
                let expected = if written.contains(&page) { stamp(page) } else { [0; 8] };
                assert_eq!(ground.read_stamp(region, page).unwrap(), expected, "page {page}");
            }
        };
        for step in steps {
            match step {
                Step::Touch { region, pages, write } => ground.touch(&regions[region], pages, write).unwrap(),
                Step::Write { region, pages } => {
                    ground.write_stamps(&regions[region], pages.clone()).unwrap();
                    written[region].extend(pages);
                }
                Step::Read { region, pages } => read(&regions[region], &written[region], pages),
                Step::Squeeze { free, region } => {
                    let taken = ground.take_until_free(free);
                    let touched = ground.touch(&regions[region], 0..REGION, true);
                    assert!(matches!(touched, Ok(()) | Err(Error::OutOfMemory { .. })), "{touched:?}");
                    ground.give_back(taken);
                }
                Step::Replace(n) => {
                    ground.engine.access().drop_region(&regions[n]);
                    regions[n] = region(ground);
                    written[n].clear();
                }
                Step::Compact => ground.engine.compact().compact_memory(),
                Step::Check => {
                    ground.check();
                }
            }
        }
        for (region, written) in regions.iter().zip(&written) {
            read(region, written, 0..REGION);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_of_memory_in_folios_is_wrong(
        steps in prop::collection::vec(step(), 1..40),
        order in 0..=8u32,
        is_whole: bool,
        is_multigen: bool,
    ) {
        let folios = if is_whole { SwapFolios::Whole } else { SwapFolios::InPages };
        live(steps, order, folios, if is_multigen { "6.1-mglru" } else { "6.1-classic" });
    }
}

/// A folio goes to swap as a whole, so its pages have adjacent slots. Each page comes back by itself.
#[test]
fn a_folio_goes_to_swap_as_a_whole_into_one_block_of_slots() {
    let mut plan = Plan { choices: choices_of("6.1-classic"), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan.choices.access.anonymous_folio_order = 4;
    plan.choices.swap.folios = SwapFolios::Whole;
    let vmstat = plan.run(|ground| {
        let region = ground.region(2000);
        ground.write_stamps(&region, 32..48).unwrap();
        let other = ground.region(6000);
        ground.touch(&other, 0..6000, true).unwrap();
        let slots: Vec<u32> = (32..48).map(|page| region.entry(page).slot().expect("it is in swap")).collect();
        assert!(slots[0].is_multiple_of(16) && slots.iter().zip(slots[0]..).all(|(slot, n)| *slot == n), "{slots:?}");
        for page in 32..48 {
            assert_eq!(ground.read_stamp(&region, page).unwrap(), stamp(page));
        }
        ground.check();
        [region, other].iter().for_each(|region| ground.engine.access().drop_region(region));
        assert_eq!((ground.count("nr_anon_pages"), ground.engine.swap().free_slots()), (0, 16384));
    });
    assert!(vmstat["pswpout"] > 0);
}

/// A fault makes a folio of the largest order that fits into the region and into free memory. The folio is one entry of
/// an LRU list. The folio is split when its pages go to swap, and the pages come back one by one.
#[test]
fn a_folio_comes_in_one_fault_and_goes_to_swap_in_pages() {
    let mut plan = Plan { choices: choices_of("6.1-classic"), ..Plan::default() };
    plan.choices.memory.min_free_kbytes = 1024;
    plan.choices.access.anonymous_folio_order = 4;
    let vmstat = plan.run(|ground| {
        let region = ground.region(2000);
        ground.write_stamps(&region, 37..38).unwrap();
        let frames = &ground.engine.memory().frames;
        let folio = frames.folio(region.entry(40).frame().unwrap());
        assert_eq!((folio.order, frames[folio.head].index(), frames[folio.head].references()), (Order(4), 32, 2));
        assert_eq!((ground.count("nr_anon_pages"), ground.count("pgfault")), (16, 1));
        ground.touch(&region, 32..48, true).unwrap();
        assert_eq!(ground.count("pgfault"), 1, "all are mapped");
        // This region alone is larger than memory, so it pushes the first region into swap.
        let other = ground.region(6000);
        ground.touch(&other, 0..6000, true).unwrap();
        assert!(region.entry(37).slot().is_some(), "it is in swap");
        assert_eq!(ground.read_stamp(&region, 37).unwrap(), stamp(37));
        ground.check();
        assert_eq!(frames.folio(region.entry(37).frame().unwrap()).order, Order(0));
        [region, other].iter().for_each(|region| ground.engine.access().drop_region(region));
        assert_eq!(ground.count("nr_anon_pages"), 0);
    });
    assert!(vmstat["pswpout"] > 0 && vmstat["thp_split"] == 0);
}

/// When anonymous pages cannot be swapped, reclaim gives up their oldest generation without moving its pages
/// (`inc_min_seq`). The generation's lists are used again for the youngest generation, so their pages become young,
/// including pages to which a walk had given another generation.
#[test]
fn pages_outlive_the_generation_that_a_walk_gave_them() {
    let steps = vec![
        Step::Write { region: 1, pages: 1020..1021 },
        Step::Replace(2),
        Step::Squeeze { free: 866, region: 0 },
        Step::Check,
        Step::Write { region: 0, pages: 441..489 },
        Step::Write { region: 1, pages: 111..145 },
        Step::Squeeze { free: 634, region: 0 },
        Step::Squeeze { free: 546, region: 1 },
        Step::Write { region: 0, pages: 1002..1024 },
        Step::Touch { region: 2, pages: 684..779, write: true },
        Step::Write { region: 2, pages: 306..476 },
        Step::Touch { region: 0, pages: 67..91, write: false },
        Step::Squeeze { free: 516, region: 0 },
        Step::Check,
    ];
    live(steps, 2, SwapFolios::Whole, "6.1-mglru");
}
