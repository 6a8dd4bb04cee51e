//! Tests of blocks of contiguous memory. To free a block, the engine moves pages of files and regions, while threads
//! read, write, truncate and swap them. No byte is lost.

mod common;

use common::pages::{Chance, PAGE, check_file, page, soak_seconds, use_region};
use common::{builder, folder};
use highwater::{Contiguous, Error, Memory, Order};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HUGE: Order = Order(9);

#[test]
fn a_block_is_its_holders_alone_and_begins_as_zeroes() {
    let memory = builder().start().unwrap();
    for round in 0..3u8 {
        let mut blocks: Vec<Contiguous> = Vec::new();
        while let Ok(block) = memory.contiguous(HUGE) {
            blocks.push(block);
        }
        assert!((2..4).contains(&blocks.len()), "{} blocks of 2 MiB in 8 MiB", blocks.len());
        for (n, block) in blocks.iter_mut().enumerate() {
            assert!(block.iter().all(|byte| *byte == 0));
            assert_eq!((block.order(), block.as_ptr() as usize % (2 << 20)), (HUGE, 0));
            block.fill(n as u8 + round + 1);
        }
        for (n, block) in blocks.iter().enumerate() {
            assert!(block.iter().all(|byte| *byte == n as u8 + round + 1), "block {n}");
        }
        let vmstat = memory.vmstat();
        memory.check().unwrap();
        drop(blocks);
        assert!(memory.vmstat().get("nr_free_pages") > vmstat.get("nr_free_pages") + 1000, "they were given back");
    }
    let held = memory.contiguous(Order(0)).unwrap();
    assert!(matches!(memory.contiguous(Order(11)), Err(Error::OrderTooLarge { order: Order(11) })));
    assert!(matches!(memory.contiguous(Order(200)), Err(Error::OrderTooLarge { .. })));
    memory.shutdown().unwrap();
    // The memory was shut down, but the block `held` keeps its frames alive.
    assert!(held.iter().all(|byte| *byte == 0));
}

/// Compaction does not move pages that a guard holds, whether the guard has a hazard pointer or a reference.
#[test]
fn pages_that_guards_hold_do_not_move() {
    const PAGES: u64 = 3000;
    let folder = folder();
    let memory = builder().size(32 << 20).swap(16 << 20).swap_folder(folder.path()).start().unwrap();
    let open = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, (0..PAGES).flat_map(|n| page(n, 1)).collect::<Vec<u8>>()).unwrap();
        memory.open(&path).unwrap()
    };
    let (file, other) = (open("file"), open("other"));
    let region = memory.anonymous(256 * PAGE).unwrap();
    (0..256).for_each(|n| region.write_at(&page(n, 2), n * PAGE).unwrap());
    // Pages of the two files are read in turns, so that every second frame becomes free when `other` is truncated. Each
    // page is read so often that readers may hold it by hazard pointers.
    for n in (0..PAGES).step_by(2).chain((1..PAGES).step_by(2)) {
        for file in [&file, &other] {
            (0..8).for_each(|_| assert!(file.page(n).unwrap()[..] == page(n, 1)[..]));
        }
    }
    other.set_len(0).unwrap();
    let free = memory.buddyinfo();
    let held: Vec<_> = (0..PAGES).step_by(97).map(|n| (n, file.page(n).unwrap())).collect();
    let of_region: Vec<_> = (0..256).step_by(59).map(|n| (n, region.page(n).unwrap())).collect();
    let mut written = region.page_mut(255).unwrap();
    memory.compact();
    let vmstat = memory.vmstat();
    assert!(vmstat.get("pgmigrate_success") > PAGES / 8, "{free:?} {vmstat}");
    let blocks: Vec<_> = std::iter::from_fn(|| memory.contiguous(Order(5)).ok()).take(20).collect();
    written.copy_from_slice(&page(255, 3));
    drop(written);
    assert!(held.iter().all(|(n, bytes)| bytes[..] == page(*n, 1)[..]));
    assert!(of_region.iter().all(|(n, bytes)| bytes[..] == page(*n, 2)[..]));
    drop((held, of_region));
    (0..PAGES).for_each(|n| assert!(file.page(n).unwrap()[..] == page(n, 1)[..]));
    (0..255).for_each(|n| assert!(region.page(n).unwrap()[..] == page(n, 2)[..]));
    assert!(region.page(255).unwrap()[..] == page(255, 3)[..]);
    drop(blocks);
    memory.check().unwrap();
}

/// Threads use nine tenths of 64 MiB, and swap as well, while one thread takes blocks of 2 MiB and gives them back. The
/// test takes three seconds, or as many as HIGHWATER_SOAK_SECONDS says.
#[test]
fn nothing_is_lost_while_pages_move() {
    let seconds = soak_seconds(3);
    let folder = folder();
    let memory = builder().size(64 << 20).swap(64 << 20).swap_folder(folder.path()).start().unwrap();
    let is_done = AtomicBool::new(false);
    let (operations, taken) = std::thread::scope(|scope| {
        let (memory, is_done) = (&memory, &is_done);
        let path = folder.path();
        let users = [
            scope.spawn(move || use_file(memory, path, 0, is_done)),
            scope.spawn(move || use_file(memory, path, 1, is_done)),
            scope.spawn(move || use_region(memory, 2, OWN_PAGES, || is_done.load(Ordering::Relaxed))),
            scope.spawn(move || use_region(memory, 3, OWN_PAGES, || is_done.load(Ordering::Relaxed))),
        ];
        let taken = take_blocks(memory, Duration::from_secs(seconds));
        is_done.store(true, Ordering::Relaxed);
        let operations: u64 = users.into_iter().map(|user| user.join().expect("a thread failed")).sum();
        (operations, taken)
    });
    let vmstat = memory.vmstat();
    memory.check().unwrap();
    assert!(taken.got > 0 && vmstat.get("pgmigrate_success") > 0, "{vmstat}");
    memory.shutdown().unwrap();
    println!(
        "{operations} operations in {seconds} s, every byte as written; {} pages moved; {taken}",
        vmstat.get("pgmigrate_success")
    );
}

/// The outcome of requests for contiguous blocks: how many were granted, and how long each took.
#[derive(Default)]
struct Taken {
    got: usize,
    asked: usize,
    took: Vec<Duration>,
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut took = self.took.clone();
        took.sort();
        let at = |percent: usize| took[(took.len() - 1) * percent / 100];
        let Self { got, asked, .. } = self;
        write!(f, "{got} of {asked} blocks, p50 {:?}, p99 {:?}, longest {:?}", at(50), at(99), at(100))
    }
}

/// Takes up to six contiguous blocks and frees them, again and again for `time`. Between two rounds, other threads use
/// the freed memory. Returns the outcome.
fn take_blocks(memory: &Memory, time: Duration) -> Taken {
    let end = Instant::now() + time;
    let mut taken = Taken::default();
    // Continues beyond `time` until a page was moved, because a slow computer needs longer to fill the memory.
    let has_moved = || memory.vmstat().get("pgmigrate_success") > 0 || Instant::now() > end + Duration::from_secs(60);
    while Instant::now() < end || !has_moved() {
        let mut held = Vec::new();
        for value in 1..=6 {
            let began = Instant::now();
            let block = memory.contiguous(HUGE);
            taken.took.push(began.elapsed());
            taken.asked += 1;
            if let Ok(mut block) = block {
                assert!(block.iter().all(|byte| *byte == 0));
                taken.got += 1;
                block.fill(value);
                held.push((value, block));
            }
        }
        let is_own = |(value, block): &(u8, Contiguous)| block.iter().all(|byte| byte == value);
        assert!(held.iter().all(is_own), "a block was written to");
        drop(held);
        std::thread::sleep(Duration::from_millis(30));
    }
    taken
}

/// Number of pages that each thread uses: 64 MiB for all threads together.
const OWN_PAGES: u64 = 4096;

fn use_file(memory: &Memory, folder: &std::path::Path, n: u64, is_done: &AtomicBool) -> u64 {
    let path = folder.join(format!("file {n}"));
    let file = memory.create(&path).unwrap();
    let mut chance = Chance(n + 1);
    let mut versions = vec![0; OWN_PAGES as usize];
    let mut operations = 0;
    let mut found = vec![0; PAGE as usize];
    while !is_done.load(Ordering::Relaxed) {
        operations += 1;
        let number = chance.below(OWN_PAGES);
        let pages = file.len() / PAGE;
        let version = &mut versions[number as usize];
        match chance.below(1_000_000) {
            0..150_000 => {
                *version = operations;
                file.write_all_at(&page(number, operations), number * PAGE).unwrap();
            }
            150_000..200_000 if number < pages => {
                *version = operations;
                file.page_mut(number).unwrap().copy_from_slice(&page(number, operations));
            }
            200_000..900_000 if number < pages => {
                // The first sixteenth of the pages is read most, so readers may hold these pages by hazard pointers.
                let number = if operations % 4 > 0 { number / 16 } else { number };
                let bytes = file.page(number).unwrap();
                assert!(bytes[..] == page(number, versions[number as usize])[..], "file {n}, page {number} in place");
            }
            999_990..999_998 => {
                let keep = pages - chance.below(pages / 8 + 1);
                file.set_len(keep * PAGE).unwrap();
                versions[keep as usize..].fill(0);
            }
            999_998 => {
                memory.drop_caches();
            }
            999_999 => file.sync_data().unwrap(),
            _ => {
                let got = file.read_at(&mut found, number * PAGE).unwrap();
                assert_eq!(got, if number < pages { PAGE as usize } else { 0 });
                assert!(found[..got] == page(number, *version)[..got], "file {n}, page {number}, version {version}");
            }
        }
    }
    let len = file.len();
    drop(file);
    check_file(&path, len, &versions);
    operations
}
