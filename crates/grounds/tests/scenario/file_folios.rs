//! Files whose pages are in folios of any order are read, written, mapped, cut, synced and reclaimed, and every byte is
//! verified.

use crate::ground::{Found, Ground, Plan, stamp};
use crate::map::SHARED;
use engine::Error;
use engine::anonymous::Region;
use engine::compact::choices::{Folios, Scanners};
use engine::memory::Folio;
use engine::page_cache::File;
use engine::stat::Vmstat;
use machine::{Order, PAGE_BYTES};
use proptest::prelude::*;
use sim::Sim;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Largest number of pages of the file; memory has 4,096.
const PAGES: u32 = 2600;

#[derive(Clone, Debug)]
enum Step {
    /// Reads pages in order, and verifies them.
    Read(Range<u32>),
    /// Requests a whole range for reading at once. Without the growing window of readahead, folios are as large as
    /// alignment allows.
    Prefetch(Range<u32>),
    /// Writes whole pages, which may extend the file.
    Write(Range<u32>),
    /// Writes a few bytes of a page, so that the page has to be read first.
    Patch(u32),
    /// Reads pages through a mapping, and verifies them.
    ReadMapped(Range<u32>),
    /// Writes pages through a shared mapping.
    WriteMapped(Range<u32>),
    /// Sets the length of the file in pages, which may cut a folio.
    SetPages(u32),
    /// Syncs the file.
    Sync,
    /// Drops the clean pages that are not in use.
    Drop,
    /// Drops the clean pages of a range, which may begin in the middle of a folio.
    Invalidate(Range<u32>),
    /// Allocates memory until only this number of pages is free, so that pages are reclaimed.
    Squeeze(u64),
    /// Moves folios: compacts all of memory.
    Compact,
    /// Checks that the state of the whole machine is consistent.
    Check,
}

fn within(pages: u32, most: u32) -> impl Strategy<Value = Range<u32>> {
    (0..pages, 1..most).prop_map(move |(first, count)| first..(first + count).min(pages))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => within(PAGES, 1200).prop_map(Step::Read),
        4 => within(PAGES, 1200).prop_map(Step::Prefetch),
        4 => within(PAGES, 300).prop_map(Step::Write),
        2 => (0..PAGES).prop_map(Step::Patch),
        3 => within(PAGES, 400).prop_map(Step::ReadMapped),
        3 => within(PAGES, 200).prop_map(Step::WriteMapped),
        2 => (0..PAGES).prop_map(Step::SetPages),
        2 => Just(Step::Sync),
        1 => Just(Step::Drop),
        1 => within(PAGES, 800).prop_map(Step::Invalidate),
        2 => (300..1500_u64).prop_map(Step::Squeeze),
        2 => Just(Step::Compact),
        2 => Just(Step::Check),
    ]
}

/// The file, and the contents that it must have.
struct World<'a> {
    ground: &'a Ground,
    file: Arc<File<Sim>>,
    /// Pages that hold their stamp; all other pages read as zeroes.
    written: BTreeSet<u32>,
    /// Orders of the folios seen so far.
    orders: BTreeSet<u8>,
}

impl World<'_> {
    fn expected(&self, page: u32) -> [u8; 8] {
        if self.written.contains(&page) { stamp(page) } else { [0; 8] }
    }

    fn mapped(&self, pages: Range<u32>, act: impl FnOnce(&Region<Sim>, Range<u32>)) {
        let pages = pages.start.min(self.file.length_pages())..pages.end.min(self.file.length_pages());
        if !pages.is_empty() {
            let region = self.ground.map(&self.file, SHARED);
            act(&region, pages);
            self.ground.engine.access().drop_region(&region);
        }
    }

    fn act(&mut self, step: Step) {
        let ground = self.ground;
        let pages_of =
            |pages: Range<u32>| pages.start.min(self.file.length_pages())..pages.end.min(self.file.length_pages());
        match step {
            Step::Read(pages) => {
                let pages = pages_of(pages);
                let read = ground.read(&self.file, pages.clone()).unwrap();
                for (page, found) in pages.zip(read) {
                    assert_eq!(found, self.expected(page), "page {page}");
                }
            }
            Step::Prefetch(pages) => {
                let mut task = ground.task.borrow_mut();
                ground.engine.access().prefetch(&mut task, &self.file, pages);
            }
            Step::Write(pages) => {
                ground.write(&self.file, pages.clone()).unwrap();
                self.written.extend(pages);
            }
            Step::Patch(page) => {
                let offset = u64::from(page) * PAGE_BYTES as u64;
                let mut task = ground.task.borrow_mut();
                ground.engine.access().write(&mut task, &self.file, offset, &stamp(page)).unwrap();
                self.written.insert(page);
            }
            Step::ReadMapped(pages) => self.mapped(pages, |region, pages| {
                for page in pages {
                    assert_eq!(ground.read_stamp(region, page).unwrap(), self.expected(page), "page {page}");
                }
            }),
            Step::WriteMapped(pages) => {
                self.mapped(pages.clone(), |region, pages| ground.write_stamps(region, pages).unwrap());
                self.written.extend(pages_of(pages));
            }
            Step::SetPages(pages) => {
                ground.set_pages(&self.file, pages);
                self.written.retain(|page| *page < pages);
            }
            Step::Sync => ground.fsync(&self.file).unwrap(),
            Step::Drop => drop(ground.engine.access().drop_caches()),
            Step::Invalidate(pages) => drop(ground.engine.lru().invalidate_pages(&self.file, pages)),
            Step::Squeeze(free) => {
                let taken = ground.take_until_free(free);
                let region = ground.region(2 * free as u32);
                let touched = ground.touch(&region, 0..2 * free as u32, true);
                assert!(matches!(touched, Ok(()) | Err(Error::OutOfMemory { .. })), "{touched:?}");
                ground.engine.access().drop_region(&region);
                ground.give_back(taken);
            }
            Step::Compact => ground.engine.compact().compact_memory(),
            Step::Check => self.check(),
        }
        self.look();
    }

    /// Notes the orders of the file's folios.
    fn look(&mut self) {
        let frames = &self.ground.engine.memory().frames;
        let mut next = 0;
        while let Some((page, head)) = self.file.index.next_present(next) {
            let folio: Folio = frames.folio(head);
            self.orders.insert(folio.order.0);
            next = page / folio.pages() * folio.pages() + folio.pages();
        }
    }

    fn check(&self) {
        self.ground.check();
    }
}

/// Carries out the steps with folios up to `order`, and verifies the file at the end. Returns the orders seen, and the
/// counters.
fn live(steps: Vec<Step>, order: u32, change: impl FnOnce(&mut Plan)) -> (BTreeSet<u8>, Vmstat) {
    let mut plan = Plan { cpus: 2, ..Plan::default() };
    plan.choices.access.file_folio_order = order;
    plan.choices.access.read_ahead_kb = 4096;
    plan.choices.access.fault_around_pages = 16;
    change(&mut plan);
    plan.choices.compact.scanners = Scanners::Both;
    plan.choices.compact.folios = Folios::Moved;
    let seen = Found::default();
    let orders = seen.clone();
    let vmstat = plan.run(move |ground| {
        let mut world = World { ground, file: ground.create(), written: BTreeSet::new(), orders: BTreeSet::new() };
        steps.into_iter().for_each(|step| world.act(step));
        world.check();
        world.act(Step::Sync);
        world.act(Step::Drop);
        world.act(Step::Read(0..PAGES));
        world.check();
        orders.set(world.orders);
    });
    (seen.get(), vmstat)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_of_a_file_in_folios_is_wrong(steps in prop::collection::vec(step(), 1..40), order in 0..=9u32) {
        live(steps, order, |_| {});
    }

    #[test]
    fn nor_with_generations(steps in prop::collection::vec(step(), 1..40), order in 1..=9u32) {
        live(steps, order, |plan| plan.choices = engine::kernel::Choices { access: plan.choices.access.clone(), ..crate::ground::choices_of("6.1-mglru") });
    }
}

/// A fixed sequence of operations, with folios of each order from 0 to 9.
#[test]
fn folios_of_every_order_come_and_go() {
    let mut steps = vec![Step::Write(0..PAGES), Step::Sync, Step::Drop];
    for order in 0..=9u32 {
        // The file has so few pages that only folios up to this order fit.
        let (pages, next) = (1 << order, (1 << order) + 1);
        steps.extend([Step::SetPages(pages), Step::Drop, Step::Prefetch(0..pages), Step::Read(0..pages), Step::Check]);
        steps.extend([Step::Write(0..PAGES.min(next)), Step::Write(0..PAGES), Step::Sync, Step::Drop]);
    }
    steps.extend([
        Step::Read(0..PAGES),
        Step::WriteMapped(100..900),
        Step::Check,
        Step::Squeeze(600),
        Step::Read(0..PAGES),
    ]);
    let (orders, vmstat) = live(steps, 9, |_| {});
    assert_eq!(orders, (0..=9).collect());
    assert!(vmstat["pgscan_kswapd_normal"] > 0 || vmstat["pgscan_direct_normal"] > 0, "{vmstat:?}");
}

/// A folio of 16 pages is one entry in the index, and is dirtied and freed as a whole. The counters count all its
/// pages: 16 in the cache, dirty and written, and 5 mapped if a mapping touches 5.
#[test]
fn a_folio_is_one_entry_and_counts_its_pages() {
    let mut plan = Plan::default();
    plan.choices.access.file_folio_order = 4;
    plan.choices.access.read_ahead_kb = 64;
    plan.run(|ground| {
        let file = ground.import(16);
        let before = ground.count("nr_file_pages");
        ground.engine.access().prefetch(&mut ground.task.borrow_mut(), &file, 0..16);
        ground.read(&file, 0..16).unwrap();
        let frames = &ground.engine.memory().frames;
        let folio = frames.folio(file.index.get(5).unwrap());
        assert_eq!(
            (folio.order, file.index.get(0), file.index.get(15)),
            (Order(4), Some(folio.head), Some(folio.head))
        );
        assert_eq!((ground.count("nr_file_pages") - before, file.index.pages()), (16, 16));
        ground.write(&file, 3..4).unwrap();
        assert_eq!(ground.count("nr_dirty"), 16, "a folio is dirty as a whole");
        ground.fsync(&file).unwrap();
        assert_eq!((ground.count("nr_dirty"), ground.count("nr_written")), (0, 16));
        let region = ground.map(&file, SHARED);
        ground.touch(&region, 2..7, false).unwrap();
        assert_eq!((ground.count("nr_mapped"), frames[folio.head].mappings()), (5, 5));
        assert_eq!(ground.engine.lru().invalidate_file(&file), 0, "it is mapped");
        ground.engine.access().drop_region(&region);
        // A use of the folio waits in a batch.
        ground.engine.lru().drain_all();
        assert_eq!((ground.count("nr_mapped"), ground.engine.lru().invalidate_file(&file)), (0, 16));
        assert_eq!((file.index.pages(), ground.count("nr_file_pages")), (0, before));
    });
}
