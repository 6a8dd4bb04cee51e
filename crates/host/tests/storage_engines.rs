//! Tests of what storage engines need beside reads, writes and syncs: guards that are kept, tried, timed, upgraded and
//! downgraded; versions of pages; ranges that are allocated, punched out, discarded and synced; handles that are cloned,
//! adopted and closed. Every byte is compared with a model.

mod common;

use common::pages::{Chance, PAGE, soak_seconds};
use common::{builder, folder};
use highwater::machine::disk::faults::{Fault, Faults, Script};
use highwater::{Builder, Error, ErrorKind, File, Memory, OpenOptions, OwnedPageRead, PageRead};
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Largest length of the file in the model tests.
const MOST: u64 = 300 * PAGE;

/// A file, and the bytes that it must have.
struct Modelled {
    file: Arc<File>,
    model: Vec<u8>,
    chance: Chance,
}

impl Modelled {
    /// Draws a range of at most `most` bytes that begins before [`MOST`].
    fn range(&mut self, most: u64) -> std::ops::Range<u64> {
        let start = self.chance.below(MOST);
        let aligned = if self.chance.below(2) == 0 { start / PAGE * PAGE } else { start };
        aligned..(aligned + 1 + self.chance.below(most)).min(MOST)
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        let seed = self.chance.below(251) as u8 + 1;
        (0..count).map(|at| seed.wrapping_add((at / 7) as u8) | 1).collect()
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        self.model.resize(self.model.len().max(end), 0);
        self.model[offset as usize..end].copy_from_slice(bytes);
    }

    /// Returns the bytes that page `page` must have, zeroes after the end of the file included.
    fn page(&self, page: u64) -> Vec<u8> {
        let start = (page * PAGE) as usize;
        let mut bytes = self.model.get(start..).map_or(Vec::new(), |rest| rest[..rest.len().min(4096)].to_vec());
        bytes.resize(PAGE as usize, 0);
        bytes
    }

    /// Changes a page through a guard, which may be tried, timed, owned, upgraded or downgraded.
    fn change_page(&mut self) {
        let pages = (self.model.len() as u64).div_ceil(PAGE);
        if pages == 0 {
            return;
        }
        let page = self.chance.below(pages);
        let within = (self.model.len() as u64 - page * PAGE).min(PAGE);
        let (before, at, byte) = (self.page(page), self.chance.below(within) as usize, self.chance.below(255) as u8);
        let file = self.file.clone();
        let mut expected = before.clone();
        expected[at] = byte;
        match self.chance.below(5) {
            0 => {
                let mut owned = file.page_mut_owned(page).unwrap();
                assert!(owned[..] == before[..], "page {page}");
                owned[at] = byte;
                assert!(owned.downgrade()[..] == expected[..]);
            }
            1 => {
                let Some(mut guard) = file.try_page_mut(page).unwrap() else { return };
                assert!(guard[..] == before[..], "page {page}");
                guard[at] = byte;
            }
            2 => {
                let mut guard = file.page_mut_timeout(page, Duration::from_secs(9)).unwrap().unwrap();
                guard[at] = byte;
            }
            3 => {
                let read = file.page(page).unwrap();
                assert!(read[..] == before[..], "page {page}");
                let Ok(mut guard) = file.try_upgrade(read) else { return };
                guard[at] = byte;
                assert!(guard.downgrade()[..] == expected[..]);
            }
            _ => {
                let mut guard = file.page_mut(page).unwrap();
                guard[at] = byte;
                let read = guard.downgrade();
                assert!(read[..] == expected[..] && file.page(page).unwrap()[..] == expected[..]);
            }
        }
        self.put(page * PAGE + at as u64, &[byte]);
    }

    /// Carries out a random operation on file and model.
    fn step(&mut self, memory: &Memory) {
        match self.chance.below(16) {
            0..=2 => {
                let range = self.range(3 * PAGE);
                let bytes = self.bytes(range.end - range.start);
                self.file.write_all_at(&bytes, range.start).unwrap();
                self.put(range.start, &bytes);
            }
            3 => {
                let count = 1 + self.chance.below(2 * PAGE);
                let bytes = self.bytes(count);
                if self.model.len() as u64 + count <= MOST {
                    assert_eq!(self.file.append(&bytes).unwrap(), self.model.len() as u64);
                    self.model.extend(bytes);
                }
            }
            4..=5 => {
                let range = self.range(40 * PAGE);
                self.file.punch_hole(range.clone()).unwrap();
                let end = self.model.len().min(range.end as usize);
                if let Some(punched) = self.model.get_mut(range.start as usize..end) {
                    punched.fill(0);
                }
            }
            6 => {
                let range = self.range(20 * PAGE);
                self.file.allocate(range.clone()).unwrap();
                self.model.resize(self.model.len().max(range.end as usize), 0);
            }
            7 => {
                let len = self.chance.below(MOST);
                self.file.set_len(len).unwrap();
                self.model.resize(len as usize, 0);
            }
            8 => {
                let range = self.range(50 * PAGE);
                self.file.sync_range(range).unwrap();
            }
            9 => self.file.sync_data().unwrap(),
            10 => _ = memory.drop_caches(),
            11..=13 => self.change_page(),
            _ => {
                let range = self.range(5 * PAGE);
                let mut found = vec![9; (range.end - range.start) as usize];
                let n = self.file.read_at(&mut found, range.start).unwrap();
                let end = self.model.len().min(range.end as usize);
                let expected = self.model.get(range.start as usize..end).unwrap_or(&[]);
                assert!(found[..n] == *expected, "{range:?} of {} bytes", self.model.len());
            }
        }
        assert_eq!(self.file.len(), self.model.len() as u64);
    }
}

/// Random operations on a file match those on a vector of bytes, in memory, after a drop of all pages, and on the disk
/// after the file was closed.
#[test]
fn operations_on_a_file_match_a_model() {
    for seed in 0..6 {
        let folder = folder();
        let path = folder.path().join("file");
        let memory = builder().checksums(seed % 2 == 0).start().unwrap();
        let file = Arc::new(memory.create(&path).unwrap());
        let mut world = Modelled { file, model: Vec::new(), chance: Chance(seed) };
        for _ in 0..400 {
            world.step(&memory);
        }
        let mut found = vec![9; world.model.len()];
        memory.drop_caches();
        world.file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == world.model, "seed {seed}");
        memory.check().unwrap();
        Arc::into_inner(world.file).expect("the last handle").close().unwrap();
        assert!(fs::read(&path).unwrap() == world.model, "seed {seed}, on the disk");
        memory.shutdown().unwrap();
    }
}

/// Random writes and discards in a region match those in a vector of bytes, with and without huge pages, and with a part
/// of the region in swap.
#[test]
fn discarding_parts_of_a_region_matches_a_model() {
    for (seed, is_huge) in [(0, false), (1, true), (2, false), (3, true)] {
        let memory = builder().swap(32 << 20).start().unwrap();
        let bytes: u64 = (12 << 20) + 100;
        let region = if is_huge { memory.anonymous_huge(bytes) } else { memory.anonymous(bytes) }.unwrap();
        let (mut model, mut chance) = (vec![0u8; bytes as usize], Chance(seed));
        for step in 0..400 {
            let start = chance.below(bytes);
            let most = if step % 5 == 0 { 4 << 20 } else { 3 * PAGE };
            let end = (start + 1 + chance.below(most)).min(bytes);
            let range = start as usize..end as usize;
            match chance.below(3) {
                0 => {
                    region.discard(start..end).unwrap();
                    model[range].fill(0);
                }
                1 => {
                    model[range.clone()].fill(step as u8 | 1);
                    region.write_at(&model[range], start).unwrap();
                }
                _ => {
                    let mut found = vec![9; range.len()];
                    region.read_at(&mut found, start).unwrap();
                    assert!(found == model[range], "seed {seed}, step {step}: {start} to {end}");
                }
            }
        }
        let mut found = vec![9; model.len()];
        region.read_at(&mut found, 0).unwrap();
        assert!(found == model, "seed {seed}");
        region.discard(0..bytes).unwrap();
        assert!(region.page(bytes / PAGE).unwrap().iter().all(|byte| *byte == 0));
        assert!(region.discard(1..bytes + 1).is_err());
        memory.check().unwrap();
        drop(region);
        memory.shutdown().unwrap();
    }
}

/// Discarding gives memory back: all of a region that is larger than memory without swap can be written part by part.
#[test]
fn discarded_memory_can_be_used_again() {
    let memory = builder().start().unwrap();
    let region = memory.anonymous(64 << 20).unwrap();
    for part in 0..32 {
        region.write_at(&vec![part as u8 + 1; 2 << 20], part * (2 << 20)).unwrap();
        region.discard(part * (2 << 20)..(part + 1) * (2 << 20)).unwrap();
    }
    memory.check().unwrap();
}

/// A page with a writer or a reader is not given at once to a thread that wants to write it. A timed wait ends after its
/// time, or as soon as the page is free.
#[test]
fn a_latch_is_tried_and_waited_for_no_longer_than_wanted() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&[1; 4 * PAGE as usize], 0).unwrap();
    file.sync_data().unwrap();
    let short = Duration::from_millis(20);
    for is_open in [false, true] {
        if is_open {
            // Pages that are read often can be held by hazard pointers.
            (0..3000).for_each(|_| assert_eq!(file.page(0).unwrap()[0], 1));
        }
        let reader = file.page(0).unwrap();
        assert!(file.try_page(0).unwrap().is_some() && file.page_timeout(0, short).unwrap().is_some());
        let began = Instant::now();
        assert!(file.page_mut_timeout(0, short).unwrap().is_none() && began.elapsed() >= short);
        assert!(file.try_page_mut(0).unwrap().is_none());
        drop(reader);
        let writer = file.page_mut(0).unwrap();
        assert!(file.try_page(0).unwrap().is_none() && file.try_page_mut(0).unwrap().is_none());
        let began = Instant::now();
        assert!(file.page_timeout(0, short).unwrap().is_none() && began.elapsed() >= short);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| file.page_timeout(0, Duration::from_secs(60)).unwrap().map(|page| page[0]));
            let other = scope.spawn(|| file.page_mut_timeout(0, Duration::from_secs(60)).unwrap().map(|page| page[0]));
            thread::sleep(short);
            drop(writer);
            assert_eq!((waiter.join().unwrap(), other.join().unwrap()), (Some(1), Some(1)));
        });
        file.sync_data().unwrap();
        assert!(file.try_page_mut(0).unwrap().is_some());
        file.sync_data().unwrap();
    }
    memory.drop_caches();
    assert!(file.try_page(1).unwrap().is_none() && file.try_page_mut(1).unwrap().is_none(), "not in memory");
    assert!(file.page_timeout(1, short).unwrap().is_some() && file.try_page(1).unwrap().is_some());
    assert!(matches!(file.try_page(4), Err(Error::OutOfRange { .. })));
    assert!(matches!(file.try_page_mut(4), Err(Error::OutOfRange { .. })));
    memory.check().unwrap();
}

/// Threads count in a page by guards that they upgrade and downgrade. No count is lost, and nobody changes the page
/// between the two halves of an upgrade or a downgrade.
#[test]
fn nobody_comes_in_between_an_upgrade_or_a_downgrade() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&[0; 2 * PAGE as usize], 0).unwrap();
    let count = |page: &[u8]| u64::from_le_bytes(page[..8].try_into().unwrap());
    let (counted, upgrades, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (file, counted, upgrades, is_over) = (&file, &counted, &upgrades, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    if thread == 3 {
                        file.sync_data().unwrap();
                        continue;
                    }
                    let mut guard = file.page_mut(0).unwrap();
                    let next = count(&guard) + 1;
                    guard[..8].copy_from_slice(&next.to_le_bytes());
                    counted.fetch_add(1, Ordering::Relaxed);
                    let read = guard.downgrade();
                    assert_eq!(count(&read), next);
                    thread::yield_now();
                    assert_eq!(count(&read), next);
                    if let Ok(mut again) = file.try_upgrade(read) {
                        assert_eq!(count(&again), next);
                        again[..8].copy_from_slice(&(next + 1).to_le_bytes());
                        counted.fetch_add(1, Ordering::Relaxed);
                        upgrades.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(300) * soak_seconds(1) as u32);
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(count(&file.page(0).unwrap()), counted.into_inner());
    assert!(upgrades.into_inner() > 0, "no guard was ever upgraded");
    // A guard of another file, and one of a handle for reading only, are given back.
    let path = folder.path().join("other");
    fs::write(&path, [1; PAGE as usize]).unwrap();
    let reader = OpenOptions::new().open(&memory, &path).unwrap();
    assert!(reader.try_upgrade(reader.page(0).unwrap()).is_err());
    assert!(file.try_upgrade(reader.page(0).unwrap()).is_err());
    // A page that was cut off while it was read is not writable any more.
    let held = file.page(1).unwrap();
    file.set_len(PAGE).unwrap();
    assert!(file.try_upgrade(held).is_err());
    memory.check().unwrap();
}

/// An owned guard is stored beside its file, keeps the file open when the last handle is dropped, and may be dropped by
/// another thread.
#[test]
fn an_owned_guard_keeps_its_file_open_and_can_be_sent() {
    struct Cursor {
        page: Option<OwnedPageRead>,
    }
    let folder = folder();
    let path = folder.path().join("file");
    let memory = builder().start().unwrap();
    let file = Arc::new(memory.create(&path).unwrap());
    file.write_all_at(&[7; 3 * PAGE as usize], 0).unwrap();
    let cursors: Vec<Cursor> = (0..3).map(|page| Cursor { page: file.page_owned(page).ok() }).collect();
    drop(file);
    // The file is still open here, and therefore locked against others.
    let other = builder().start().unwrap();
    assert_eq!(other.open(&path).unwrap_err().kind(), ErrorKind::AlreadyOpen);
    thread::spawn(move || {
        for cursor in &cursors {
            assert!(cursor.page.as_ref().unwrap().iter().all(|byte| *byte == 7));
        }
    })
    .join()
    .unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 3 * PAGE, "the file was closed, and so written back");
    drop(other.open(&path).unwrap());
    let region = Arc::new(memory.anonymous(1 << 20).unwrap());
    region.page_mut_owned(3).unwrap()[9] = 1;
    let (page, empty) = (region.page_owned(3).unwrap(), region.page_owned(4).unwrap());
    drop(region);
    assert_eq!((page[9], empty[9]), (1, 0));
    drop((page, empty));
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

/// Writers change pairs of pages, and a reader reads the pages without holding both. Where the version of the first page
/// is the same before and after, what the reader has read belongs together.
#[test]
fn an_unchanged_version_means_an_unchanged_page() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.set_len(64 * PAGE).unwrap();
    let is_over = AtomicBool::new(false);
    let (mut kept, mut changed) = (0, 0);
    let value = |page: PageRead<'_>| u64::from_le_bytes(page[..8].try_into().unwrap());
    thread::scope(|scope| {
        for writer in 0..2u64 {
            let (file, memory, is_over) = (&file, &memory, &is_over);
            scope.spawn(move || {
                let (mut chance, mut n) = (Chance(writer), writer);
                while !is_over.load(Ordering::Relaxed) {
                    n += 2;
                    let pair = chance.below(32) / 2 * 2 + writer;
                    // The first page is changed before the second.
                    file.page_mut(pair).unwrap()[..8].copy_from_slice(&n.to_le_bytes());
                    file.write_all_at(&n.to_le_bytes(), (32 + pair) * PAGE).unwrap();
                    if chance.below(100) == 0 {
                        file.sync_data().unwrap();
                        memory.drop_caches();
                    }
                    thread::yield_now();
                }
            });
        }
        let mut chance = Chance(9);
        let end = Instant::now() + Duration::from_millis(400) * soak_seconds(1) as u32;
        while Instant::now() < end {
            let pair = chance.below(32);
            let seen = file.version(pair);
            let first = value(file.page(pair).unwrap());
            let second = value(file.page(32 + pair).unwrap());
            if file.version(pair) == seen {
                kept += 1;
                assert!(second <= first, "pair {pair}: {second} after {first}, and the version is the same");
            } else {
                changed += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(kept > 0, "{kept} kept, {changed} changed");
    let seen = file.version(5);
    file.sync_data().unwrap();
    memory.drop_caches();
    drop(file.page(5).unwrap());
    assert_eq!(file.version(5), seen, "the page left memory and came back");
    file.write_all_at(&[1], 5 * PAGE).unwrap();
    assert_ne!(file.version(5), seen);
    let seen = file.version(5);
    file.punch_hole(9 * PAGE..10 * PAGE).unwrap();
    assert_ne!(file.version(5), seen);
    let seen = file.version(5);
    file.set_len(60 * PAGE).unwrap();
    assert_ne!(file.version(5), seen);
}

/// Threads read and write pages while a part of the file is punched out again and again. No old bytes come back: a page
/// has what was written since the last hole, or zeroes.
#[test]
fn what_is_punched_out_does_not_come_back() {
    punch_out_beside_threads(builder());
}

/// With checksums, a write beside a hole leaves no checksum of a block that the hole has freed.
#[test]
fn what_is_punched_out_leaves_no_checksum() {
    punch_out_beside_threads(builder().checksums(true));
}

fn punch_out_beside_threads(builder: Builder) {
    const PAGES: u64 = 200;
    let hole = 10 * PAGE + 5..150 * PAGE + 9;
    let folder = folder();
    let path = folder.path().join("file");
    let memory = builder.start().unwrap();
    let file = memory.create(&path).unwrap();
    let is_over = AtomicBool::new(false);
    for round in 1..=30u8 {
        file.write_all_at(&vec![2 * round; (PAGES * PAGE) as usize], 0).unwrap();
        if round % 2 == 0 {
            file.sync_data().unwrap();
            memory.drop_caches();
        }
        is_over.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for thread in 0..2 {
                let (file, is_over, memory) = (&file, &is_over, &memory);
                scope.spawn(move || {
                    let mut chance = Chance(u64::from(round) * 2 + thread);
                    while !is_over.load(Ordering::Relaxed) {
                        let page = chance.below(PAGES);
                        match thread {
                            // One byte of each page belongs to the writers.
                            0 => file.write_all_at(&[2 * round + 1], page * PAGE + 77).unwrap(),
                            _ if chance.below(50) == 0 => file.sync_data().unwrap(),
                            _ if chance.below(50) == 0 => _ = memory.drop_caches(),
                            _ => drop(file.page(page).unwrap()),
                        }
                    }
                });
            }
            file.punch_hole(hole.clone()).unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        for from in ["memory", "the disk"] {
            for page in 0..PAGES {
                for (at, byte) in file.page(page).unwrap().iter().enumerate() {
                    let offset = page * PAGE + at as u64;
                    let expected = if hole.contains(&offset) { 0 } else { 2 * round };
                    let is_writers = at == 77 && *byte == 2 * round + 1;
                    assert!(*byte == expected || is_writers, "{from}, round {round}: byte {offset} is {byte}");
                }
            }
            file.sync_data().unwrap();
            memory.drop_caches();
        }
        memory.check().unwrap();
    }
}

/// A file that is open in the system is adopted; files that the library could not use are refused with the reason.
#[test]
fn an_open_file_is_adopted() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = builder().start().unwrap();
    let unnamed = memory.adopt(tempfile::tempfile_in(folder.path()).unwrap()).unwrap();
    unnamed.write_all_at(&[5; 3 * PAGE as usize], 0).unwrap();
    unnamed.sync_all().unwrap();
    memory.drop_caches();
    assert_eq!(unnamed.page(2).unwrap()[9], 5);
    assert_eq!(unnamed.metadata().unwrap().len(), 3 * PAGE);
    fs::write(&path, "there").unwrap();
    let reader = memory.adopt(fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.path(), path.canonicalize().unwrap());
    assert_eq!(reader.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(reader);
    let writer = memory.adopt(fs::File::options().read(true).write(true).open(&path).unwrap()).unwrap();
    writer.write_all_at(b"T", 0).unwrap();
    let mut shared = [0; 5];
    memory.open(&path).unwrap().read_exact_at(&mut shared, 0).unwrap();
    assert_eq!(&shared, b"There", "one cache for both handles");
    for (options, reason) in [
        (fs::File::options().write(true), "for writing only"),
        (fs::File::options().read(true).append(true), "O_APPEND"),
    ] {
        let error = memory.adopt(options.open(&path).unwrap()).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains(reason), "{error}");
    }
    let folder_error = memory.adopt(fs::File::open(folder.path()).unwrap()).unwrap_err();
    assert!(folder_error.to_string().contains("it is a folder"), "{folder_error}");
    let appends = OpenOptions::new().write(true).custom_flags(libc::O_APPEND).open(&memory, &path).unwrap_err();
    assert_eq!(appends.kind(), ErrorKind::InvalidInput, "{appends}");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(OpenOptions::new().custom_flags(libc::O_NOFOLLOW).open(&memory, &link).is_err());
    assert!(writer.as_fd().try_clone_to_owned().is_ok());
    writer.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"There");
}

/// Closing a handle returns the error of pages that cannot be written; the shutdown does not return it again. A clone
/// gets the errors that its source had not returned.
#[test]
fn a_close_returns_what_could_not_be_written() {
    let folder = folder();
    let script = Script::new();
    let memory = {
        let script = script.clone();
        builder().behind(move |inner| Faults::wrap(&script, inner)).start().unwrap()
    };
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&[1; PAGE as usize], 0).unwrap();
    script.set_all(Some(Fault::Fail(libc::ENOSPC)));
    let error = file.close().unwrap_err();
    assert!(matches!(error, Error::Write { .. }) && error.kind() == ErrorKind::StorageFull, "{error}");
    script.set_all(None);
    let first = memory.create(folder.path().join("file")).unwrap();
    first.write_all_at(&[1; PAGE as usize], 0).unwrap();
    script.set_all(Some(Fault::Fail(libc::EIO)));
    let second = first.clone();
    assert!(second.sync_data().is_err());
    script.set_all(None);
    second.sync_data().unwrap();
    let third = first.clone();
    assert!(first.close().is_err() && third.sync_range(0..PAGE).is_err());
    third.sync_range(0..PAGE).unwrap();
    third.close().unwrap();
    second.close().unwrap();
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), [1; PAGE as usize]);
    memory.shutdown().unwrap();
}

/// A range is synced without the rest of the file, and a commit of one page is one request to the disk.
#[test]
fn a_sync_writes_what_is_wanted_and_no_more() {
    let folder = folder();
    let script = Script::new();
    let memory = {
        let script = script.clone();
        builder().behind(move |inner| Faults::wrap(&script, inner)).start().unwrap()
    };
    let path = folder.path().join("file");
    let file = memory.create(&path).unwrap();
    file.write_all_at(&[1; 100 * PAGE as usize], 0).unwrap();
    file.sync_range(20 * PAGE..30 * PAGE).unwrap();
    assert_eq!(memory.vmstat().get("nr_dirty"), 90);
    let mut found = [0; 10 * PAGE as usize];
    fs::File::open(&path).unwrap().read_exact_at(&mut found, 20 * PAGE).unwrap();
    assert!(found.iter().all(|byte| *byte == 1));
    file.sync_data().unwrap();
    for page in [5, 99, 0] {
        let before = script.seen();
        file.write_all_at(&[2; 10], page * PAGE).unwrap();
        file.sync_data().unwrap();
        assert_eq!((script.seen() - before, memory.vmstat().get("nr_dirty")), (1, 0), "page {page}");
        let mut found = [0; 10];
        fs::File::open(&path).unwrap().read_exact_at(&mut found, page * PAGE).unwrap();
        assert_eq!(found, [2; 10]);
    }
    memory.check().unwrap();
}

/// The standard library's traits for streams and files work on a file of the library.
#[test]
fn a_file_is_a_stream_and_a_file_of_the_standard_library() {
    fn last(file: &impl FileExt, at: u64) -> std::io::Result<[u8; 4]> {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, at).map(|()| bytes)
    }
    let folder = folder();
    let memory = builder().start().unwrap();
    let mut stream = memory.create(folder.path().join("file")).unwrap().into_stream();
    let text: Vec<u8> = (0..50_000u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(std::io::copy(&mut &text[..], &mut stream).unwrap(), text.len() as u64);
    assert_eq!(stream.seek(SeekFrom::End(-8)).unwrap(), text.len() as u64 - 8);
    stream.flush().unwrap();
    let mut end = Vec::new();
    stream.read_to_end(&mut end).unwrap();
    assert_eq!(end, text[text.len() - 8..]);
    assert_eq!(stream.seek(SeekFrom::Current(-4)).unwrap(), text.len() as u64 - 4);
    assert_eq!(stream.seek(SeekFrom::Current(i64::MIN)).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(stream.stream_position().unwrap(), text.len() as u64 - 4, "a refused seek changes nothing");
    assert_eq!(last(stream.file(), text.len() as u64 - 4).unwrap(), 49_999u32.to_le_bytes());
    assert!(last(&stream.into_file(), text.len() as u64).is_err());
}

/// Appending threads get ranges that do not overlap, and all of what they appended is in the file.
#[test]
fn appending_threads_do_not_overwrite_each_other() {
    let folder = folder();
    let memory = builder().start().unwrap();
    let log = memory.create(folder.path().join("log")).unwrap();
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let log = log.clone();
            scope.spawn(move || {
                for n in 0..100u8 {
                    let record = [thread + 1, n, thread + 1, n, 0xee];
                    let at = log.append(&record).unwrap();
                    let mut found = [0; 5];
                    log.read_exact_at(&mut found, at).unwrap();
                    assert_eq!(found, record);
                }
            });
        }
    });
    assert_eq!(log.len(), 4 * 100 * 5);
}
