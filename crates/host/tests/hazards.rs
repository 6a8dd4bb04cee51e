//! Tests of pages that readers hold by hazard pointers. A task that needs such a page exclusively waits, or takes
//! another.

mod common;

use common::{builder, folder};
use highwater::{Advice, File, Memory, Notice, PageRead};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

fn file(memory: &Memory, folder: &Path, name: &str, pages: usize) -> File {
    let path = folder.join(name);
    let bytes: Vec<u8> = (0..pages).flat_map(|page| [page as u8; PAGE]).collect();
    std::fs::write(&path, bytes).expect("there is room");
    let file = memory.open(&path).expect("it is there");
    file.advise(0..0, Advice::Random);
    file
}

fn is_open(page: &PageRead<'_>) -> bool {
    format!("{page:?}").contains("hazard pointer")
}

/// Reads a page so often that readers may hold it by hazard pointers (it is *open*). Returns a guard of it; `None` if
/// the system does not permit hazard pointers.
fn open_page<'a>(memory: &Memory, file: &'a File, page: u64) -> Option<PageRead<'a>> {
    // Repeated reads of one page count as one use, so the neighbouring page is read in between.
    let is_permitted = !memory.notices().contains(&Notice::NoHazardPointers);
    // A page that was written before takes hundreds of reads.
    for _ in 0..if is_permitted { 50_000 } else { 4 } {
        if is_open(&file.page(page).expect("the disk works")) {
            break;
        }
        drop(file.page(page ^ 1).expect("the disk works"));
    }
    let found = file.page(page).expect("the disk works");
    assert_eq!(is_open(&found), is_permitted);
    Some(found).filter(is_open)
}

fn is_filled(bytes: &[u8], with: u8) -> bool {
    bytes.len() == PAGE && bytes.iter().all(|byte| *byte == with)
}

#[test]
fn a_writer_waits_for_who_holds_an_open_page() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let file = file(&memory, folder.path(), "data", 8);
    let Some(page) = open_page(&memory, &file, 3) else { return };
    let is_written = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            file.page_mut(3).unwrap().fill(77);
            is_written.store(true, Ordering::SeqCst);
        });
        thread::sleep(Duration::from_millis(50));
        assert!(is_filled(&page, 3) && !is_written.load(Ordering::SeqCst));
        drop(page);
    });
    let page = file.page(3).unwrap();
    assert!(is_filled(&page, 77) && !is_open(&page), "dirty pages are not open");
    drop(page);
    file.sync_data().unwrap();
    assert!(is_filled(&file.page(3).unwrap(), 77));
    memory.check().unwrap();
}

/// After a write, a page is open to hazard pointers again only after many reads. So a page that is written often does
/// not cost each writer a wait for all readers.
#[test]
fn a_page_that_was_written_is_open_again_after_many_reads() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let file = file(&memory, folder.path(), "data", 8);
    let Some(page) = open_page(&memory, &file, 3) else { return };
    drop(page);
    file.page_mut(3).unwrap().fill(77);
    file.sync_data().unwrap();
    let read = || {
        let pages = [file.page(3).unwrap(), file.page(2).unwrap()];
        assert!(is_filled(&pages[0], 77));
        is_open(&pages[0])
    };
    // One read in 32 is counted, at random, and the page opens after 32 counted reads. That 64 reads open it is
    // practically impossible; that 4096 reads do is practically certain.
    assert!((0..64).all(|_| !read()), "the next writer would wait for this");
    assert!((0..4096).any(|_| read()), "its readers count themselves for ever");
    memory.check().unwrap();
}

/// A reader gets a page again although a writer waits for the page. If readers had to queue behind the writer, a reader
/// that holds the page already would wait for itself.
#[test]
fn who_holds_an_open_page_gets_it_again_beside_a_writer_that_waits() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let file = file(&memory, folder.path(), "data", 8);
    let Some(page) = open_page(&memory, &file, 3) else { return };
    thread::scope(|scope| {
        scope.spawn(|| file.page_mut(3).unwrap().fill(77));
        thread::sleep(Duration::from_millis(50));
        let again = file.page(3).unwrap();
        let mut copy = vec![0; PAGE];
        file.read_exact_at(&mut copy, 3 * PAGE as u64).unwrap();
        assert!(is_filled(&again, 3) && is_filled(&page, 3) && is_filled(&copy, 3));
        drop((page, again));
    });
    assert!(is_filled(&file.page(3).unwrap(), 77));
    memory.check().unwrap();
}

#[test]
fn an_open_page_that_is_held_stays_when_memory_is_needed() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let small = file(&memory, folder.path(), "small", 40);
    let large = file(&memory, folder.path(), "large", 8192);
    let Some(first) = open_page(&memory, &small, 0) else { return };
    // The thread holds more pages than it has hazard pointers; it holds the other pages by references.
    let mut held = vec![first];
    held.extend((1..40).map(|page| {
        (0..4).for_each(|_| drop(small.page(page)));
        small.page(page).unwrap()
    }));
    assert_eq!(held.iter().filter(|page| is_open(page)).count(), 16, "a thread has so many");
    let mut bytes = vec![0; PAGE];
    for round in 0..3 {
        assert_eq!(memory.drop_caches() > 0, round > 0);
        for page in 0..8192u64 {
            large.read_exact_at(&mut bytes, page * PAGE as u64).unwrap();
            assert!(is_filled(&bytes, page as u8));
        }
    }
    for (number, page) in held.iter().enumerate() {
        assert!(is_filled(page, number as u8));
    }
    let pages = held.len() as u64;
    memory.drop_caches();
    drop(held);
    assert_eq!(memory.drop_caches(), pages, "all of them were in memory");
    memory.check().unwrap();
}

/// Readers hold pages by hazard pointers in both parts of a file's page index: in the head, which has as many slots as
/// the file had pages when it was opened, and in the part after the head.
#[test]
fn pages_of_a_file_that_has_grown_are_open_too() {
    const PAGES: u64 = 300;
    let folder = folder();
    let memory = builder().start().unwrap();
    let grown = memory.create(folder.path().join("grown")).unwrap();
    (0..PAGES).for_each(|page| grown.write_all_at(&[page as u8; PAGE], page * PAGE as u64).unwrap());
    grown.sync_data().unwrap();
    let mut copy = vec![0; PAGE];
    for page in [0, 63, 64, 255, PAGES - 1] {
        let Some(held) = open_page(&memory, &grown, page) else { return };
        grown.read_exact_at(&mut copy, page * PAGE as u64).unwrap();
        assert!(is_filled(&held, page as u8) && is_filled(&copy, page as u8));
        // A second page that the thread holds at the same time takes another hazard pointer.
        let next = open_page(&memory, &grown, 128).unwrap();
        assert!(is_filled(&next, 128) && is_filled(&held, page as u8));
    }
    memory.check().unwrap();
}

#[test]
fn an_open_page_that_is_cut_off_stays_until_it_is_let_go() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let path = folder.path().join("cut");
    std::fs::write(&path, [9; 16 * PAGE]).unwrap();
    let file = memory.create(&path).unwrap();
    file.write_all_at(&[9; 16 * PAGE], 0).unwrap();
    file.sync_data().unwrap();
    let other = self::file(&memory, folder.path(), "other", 4096);
    let Some(page) = open_page(&memory, &file, 5) else { return };
    let twice = open_page(&memory, &file, 5).expect("it was open");
    file.set_len(0).unwrap();
    assert!(file.page(5).is_err() && file.is_empty());
    // Reads now fill memory, but the frame that the guards hold must not get another page.
    let mut bytes = vec![0; PAGE];
    (0..4096).for_each(|page| other.read_exact_at(&mut bytes, page * PAGE as u64).unwrap());
    // Another thread may drop the guard, and then end.
    thread::scope(|scope| {
        scope.spawn(move || assert!(is_filled(&page, 9)));
    });
    assert!(is_filled(&twice, 9));
    drop(twice);
    drop(file);
    memory.drop_caches();
    memory.check().unwrap();
    assert_eq!(memory.vmstat().get("nr_file_pages"), 0);
}

/// Threads read a few pages by guard; the bytes of each page must come from one write. Other threads write, sync and
/// drop the pages, truncate and extend the file, and read data that fill memory.
#[test]
fn nobody_reads_half_of_a_page() {
    const HOT: u64 = 12;
    let seconds = std::env::var("HIGHWATER_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(2);
    let folder = folder();
    let memory = builder().start().unwrap();
    let path = folder.path().join("hot");
    let hot = memory.create(&path).unwrap();
    hot.write_all_at(&[1; HOT as usize * PAGE], 0).unwrap();
    let cold = file(&memory, folder.path(), "cold", 8192);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (opened, counted) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for reader in 0..2 {
            let (hot, opened, counted) = (&hot, &opened, &counted);
            scope.spawn(move || {
                let mut kept = None;
                for n in reader.. {
                    if n % 1024 == reader && Instant::now() > end {
                        break;
                    }
                    // The last page may have been truncated just now.
                    let Ok(page) = hot.page(n * 7 % HOT) else { continue };
                    assert!(is_filled(&page, page[0]), "{:?}", &page[..8]);
                    if n % 16 == 0 {
                        let kind = if is_open(&page) { opened } else { counted };
                        kind.fetch_add(1, Ordering::Relaxed);
                    }
                    // Now and then one page stays pinned while others are read. Two pinned pages could make threads
                    // wait for each other in a circle.
                    if n % 64 == 0 && is_open(&page) {
                        kept = Some(page);
                    } else if n % 64 == 8 {
                        kept = None;
                    }
                }
                drop(kept);
            });
        }
        scope.spawn(|| {
            for n in 0u64.. {
                if Instant::now() > end {
                    break;
                }
                match n % 16 {
                    0 => hot.sync_data().unwrap(),
                    3 => {
                        hot.set_len((HOT - 1) * PAGE as u64).unwrap();
                        hot.write_all_at(&[n as u8; PAGE], (HOT - 1) * PAGE as u64).unwrap();
                    }
                    4 => hot.advise(0..u64::MAX, Advice::DontNeed),
                    8 => hot.write_all_at(&[n as u8; PAGE], n / 16 % HOT * PAGE as u64).unwrap(),
                    12 => hot.page_mut(n / 16 * 5 % HOT).unwrap().fill(n as u8),
                    _ => thread::sleep(Duration::from_micros(300)),
                }
            }
        });
        scope.spawn(|| {
            let mut bytes = vec![0; PAGE];
            for n in 0u64.. {
                if n % 64 == 0 && Instant::now() > end {
                    break;
                }
                cold.read_exact_at(&mut bytes, n % 8192 * PAGE as u64).unwrap();
                assert!(is_filled(&bytes, (n % 8192) as u8));
            }
        });
    });
    memory.check().unwrap();
    hot.sync_data().unwrap();
    let has_hazards = open_page(&memory, &hot, 0).is_some();
    let (opened, counted) = (opened.into_inner(), counted.into_inner());
    assert!(counted > 0 && (opened > 0 || !has_hazards), "{opened} open pages read, and {counted} others");
}
