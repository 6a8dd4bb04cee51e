//! Tests of write-ahead logging and of pages that are held: however a process ends, a page of its tree is on the disk only
//! if the log has the page's last record.

mod common;

use common::{builder, folder, memory};
use highwater::{ErrorKind, File};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const PAGE: usize = 4096;
/// The tree is twice as large as the memory.
const PAGES: u64 = 4096;

/// The environment variable that makes this program the process to be killed: the way in which the log is written, a
/// space, and the folder.
const VICTIM: &str = "HIGHWATER_LOG_ORDER_VICTIM";

fn kills() -> u64 {
    env::var("HIGHWATER_KILLS").map_or(3, |kills| kills.parse().expect("HIGHWATER_KILLS is a number"))
}

/// Changes pages of the tree. Each change has a record, the number of its page, in the list `records`. The page gets the
/// number of the record, both as its contents and as its log number.
fn change_pages(tree: &File, records: &Mutex<Vec<u64>>, mut random: u64) -> ! {
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut page = tree.page_mut(random % PAGES).unwrap();
        let number = {
            let mut records = records.lock().unwrap();
            records.push(random % PAGES);
            records.len() as u64
        };
        page.raise_log_number(number).unwrap();
        page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
    }
}

/// Changes pages of the tree as [`change_pages`] does, but holds them and gives them no log number. A page that is held is
/// not changed again before it is released.
fn hold_pages(tree: &File, records: &Mutex<Vec<u64>>, held: &Mutex<HashSet<u64>>, mut random: u64) -> ! {
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let number = random % PAGES;
        if !held.lock().unwrap().insert(number) {
            continue;
        }
        let mut page = tree.page_mut(number).unwrap();
        while let Err(error) = page.hold() {
            assert_eq!(error.kind(), ErrorKind::TooManyHeld);
            thread::sleep(Duration::from_millis(1));
        }
        let record = {
            let mut records = records.lock().unwrap();
            records.push(number);
            records.len() as u64
        };
        page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&record.to_le_bytes()));
    }
}

/// Writes the records to the log at intervals, and then releases their pages. The way `how` is `held`, or, to be found out,
/// `held wrong`.
fn log_what_is_held(
    how: &str,
    tree: &File,
    records: &Mutex<Vec<u64>>,
    held: &Mutex<HashSet<u64>>,
    log: &fs::File,
) -> ! {
    let mut durable = 0;
    loop {
        thread::sleep(Duration::from_millis(5));
        let new: Vec<u64> = records.lock().unwrap()[durable..].to_vec();
        let release = || {
            for page in &new {
                assert!(held.lock().unwrap().remove(page) && tree.release(*page));
            }
        };
        if how == "held-wrong" {
            release();
            thread::sleep(Duration::from_millis(20));
        }
        (&mut &*log).write_all(&new.iter().flat_map(|page| page.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        log.sync_data().unwrap();
        durable += new.len();
        if how == "held" {
            release();
        }
        println!("durable {durable}");
    }
}

/// The main function of the process that the test kills; does nothing in a normal run of the tests.
#[test]
fn victim() {
    let Ok(orders) = env::var(VICTIM) else { return };
    let (how, folder) = orders.split_once(' ').expect("the folder follows");
    let memory = builder().start().unwrap();
    let tree = memory.create(Path::new(folder).join("tree")).unwrap();
    tree.set_len(PAGES * PAGE as u64).unwrap();
    let log = fs::File::create(Path::new(folder).join("log")).unwrap();
    let records = Mutex::new(Vec::new());
    if how.starts_with("held") {
        let held = Mutex::new(HashSet::new());
        return thread::scope(|scope| {
            for seed in 1..3 {
                let (tree, records, held) = (&tree, &records, &held);
                scope.spawn(move || hold_pages(tree, records, held, seed));
            }
            log_what_is_held(how, &tree, &records, &held, &log)
        });
    }
    thread::scope(|scope| {
        (1..3).for_each(|seed| {
            _ = scope.spawn({
                let (tree, records) = (&tree, &records);
                move || change_pages(tree, records, seed)
            })
        });
        let mut durable = 0;
        loop {
            let wanted = tree.wait_for_log_wanted(Duration::from_secs(1));
            let Some(wanted) = wanted else { continue };
            if how == "wrong" {
                tree.note_log_durable(wanted);
                thread::sleep(Duration::from_millis(20));
            }
            let bytes: Vec<u8> =
                records.lock().unwrap()[durable..wanted as usize].iter().flat_map(|page| page.to_le_bytes()).collect();
            (&log).write_all(&bytes).unwrap();
            log.sync_data().unwrap();
            durable = wanted as usize;
            tree.note_log_durable(wanted);
            println!("durable {durable}");
        }
    });
}

/// Kills a process that changes pages, and returns the number of pages on the disk that have a record, and the number of
/// those whose record is not in the log.
fn kill_one(how: &str, round: u64) -> [u64; 2] {
    let folder = folder();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM, format!("{how} {}", folder.path().display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let begun = lines.by_ref().filter(|line| line.contains("durable")).nth(2 + (round % 7) as usize);
    assert!(begun.is_some(), "the process changes pages");
    thread::sleep(Duration::from_millis(round * 13 % 50));
    child.kill().unwrap();
    child.wait().unwrap();
    let log = fs::read(folder.path().join("log")).unwrap();
    let tree = fs::File::open(folder.path().join("tree")).unwrap();
    let (mut written, mut wrong) = (0, 0);
    for page in 0..PAGES {
        let mut bytes = [0; PAGE];
        tree.read_exact_at(&mut bytes, page * PAGE as u64).unwrap();
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.chunks_exact(8).all(|word| word == &bytes[..8]), "page {page} is torn");
        let Some(record) = number.checked_sub(1) else { continue };
        written += 1;
        let found = log.get(record as usize * 8..record as usize * 8 + 8);
        wrong += u64::from(found != Some(&page.to_le_bytes()[..]));
    }
    [written, wrong]
}

/// The process is killed 3 times, or as often as `HIGHWATER_KILLS` says: one that gives its pages log numbers, and one that
/// holds them.
#[test]
fn no_page_is_on_the_disk_before_its_record() {
    for how in ["right", "held"] {
        let mut written = 0;
        for round in 0..kills() {
            let [found, wrong] = kill_one(how, round);
            assert_eq!(wrong, 0, "{how}, round {round}: of {found} pages on the disk");
            written += found;
        }
        assert!(written > 100 * kills(), "{how}: {written} pages were on the disk");
    }
}

/// A program that says too early that its log is durable, or releases its pages too early, is found out by the same check.
#[test]
fn a_log_that_is_behind_its_word_is_found_out() {
    for how in ["wrong", "held-wrong"] {
        let wrong: u64 = (0..4).map(|round| kill_one(how, round)[1]).sum();
        assert!(wrong > 0, "{how}: each page on the disk had its record");
    }
}

/// Nobody writes the log. A thread that changes pages is refused after some time, and a sync fails. Other files are
/// written as before. After the log has caught up, everything is written.
#[test]
fn writers_are_refused_while_the_log_is_behind() {
    let folder = folder();
    let memory = memory();
    let (tree, other) =
        (memory.create(folder.path().join("tree")).unwrap(), memory.create(folder.path().join("other")).unwrap());
    tree.set_len(PAGES * PAGE as u64).unwrap();
    let began = Instant::now();
    let refused = (0..PAGES).find_map(|page| match tree.page_mut(page) {
        Ok(mut guard) => {
            guard.fill(1);
            guard.raise_log_number(page + 1).unwrap();
            None
        }
        Err(error) => Some((page, error)),
    });
    let (refused, error) = refused.expect("memory is smaller than the file");
    assert_eq!(error.kind(), ErrorKind::LogBehind, "{error}");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(error.to_string().contains("the log is not durable"), "{error}");
    other.write_all_at(&[2; 1 << 20], 0).unwrap();
    other.sync_data().unwrap();
    assert_eq!(tree.sync_data().unwrap_err().kind(), ErrorKind::LogBehind);
    assert_eq!(tree.sync_range(0..4096).unwrap_err().kind(), ErrorKind::LogBehind);
    assert_eq!(fs::read(folder.path().join("tree")).unwrap().iter().map(|byte| u64::from(*byte)).sum::<u64>(), 0);
    tree.note_log_durable(refused / 2);
    assert_eq!(tree.sync_data().unwrap_err().kind(), ErrorKind::LogBehind);
    tree.note_log_durable(refused);
    tree.sync_data().unwrap();
    assert_eq!(memory.vmstat().get("nr_write_failed"), 0);
    let found = fs::read(folder.path().join("tree")).unwrap();
    assert_eq!(found.iter().map(|byte| u64::from(*byte)).sum::<u64>(), refused * PAGE as u64);
    // What waits for the log when the file is closed is lost, as in a crash, and the error says so.
    tree.page_mut(refused).unwrap().fill(3);
    let mut page = tree.page_mut(refused).unwrap();
    page.fill(4);
    page.raise_log_number(PAGES + 1).unwrap();
    drop(page);
    assert_eq!(tree.close().unwrap_err().kind(), ErrorKind::LogBehind);
    assert!(fs::read(folder.path().join("tree")).unwrap()[refused as usize * PAGE] < 4);
    memory.shutdown().unwrap();
}

/// A thread answers each request for the log at once. A sync that returns without an error has written every page.
#[test]
fn a_sync_that_succeeds_has_written_every_page() {
    let folder = folder();
    let memory = memory();
    let tree = memory.create(folder.path().join("tree")).unwrap();
    tree.set_len(8 * PAGE as u64).unwrap();
    let on_disk = fs::File::open(folder.path().join("tree")).unwrap();
    let is_done = AtomicBool::new(false);
    let mut refused = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                tree.wait_for_log_wanted(Duration::from_millis(10)).into_iter().for_each(|n| tree.note_log_durable(n));
            }
        });
        for number in 1..2000_u64 {
            let mut page = tree.page_mut(number % 8).unwrap();
            page[..8].copy_from_slice(&number.to_le_bytes());
            page.raise_log_number(number).unwrap();
            drop(page);
            while tree.sync_data().is_err() {
                refused += 1;
            }
            let mut found = [0; 8];
            on_disk.read_exact_at(&mut found, number % 8 * PAGE as u64).unwrap();
            assert_eq!(u64::from_le_bytes(found), number);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(refused > 0, "no sync was early");
}

/// A guard outlives its page, which was cut off the file. No other page gets its log number. A kernel that changes pages
/// while they are written has no log numbers, and neither has a region.
#[test]
fn log_numbers_belong_to_pages_of_files() {
    let folder = folder();
    let memory = memory();
    let tree = memory.create(folder.path().join("tree")).unwrap();
    tree.write_all_at(&[1; 4 * PAGE], 0).unwrap();
    let mut page = tree.page_mut(3).unwrap();
    thread::scope(|scope| scope.spawn(|| tree.set_len(PAGE as u64).unwrap()).join().unwrap());
    page.raise_log_number(9).unwrap();
    drop(page);
    tree.sync_data().unwrap();
    assert_eq!(tree.log_wanted(), None);
    let region = memory.anonymous(PAGE as u64).unwrap();
    assert_eq!(region.page_mut(0).unwrap().raise_log_number(1).unwrap_err().kind(), ErrorKind::Unsupported);
    let other = builder().kernel("7.2-mglru").start().unwrap();
    let file = other.create(folder.path().join("file")).unwrap();
    file.set_len(PAGE as u64).unwrap();
    let error = file.page_mut(0).unwrap().raise_log_number(1).unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("stable_pages")), (ErrorKind::Unsupported, true), "{error}");
}

/// A thread waits for work on the log. It ends as soon as the memory is shut down.
#[test]
fn a_shutdown_ends_a_wait_for_the_log() {
    let folder = folder();
    let memory = memory();
    let tree = memory.create(folder.path().join("tree")).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| tree.wait_for_log_wanted(Duration::from_secs(600)));
        thread::sleep(Duration::from_millis(50));
        memory.shutdown().unwrap();
        assert_eq!(waiter.join().unwrap(), None);
    });
    assert_eq!(tree.wait_for_log_wanted(Duration::from_secs(600)), None);
    assert!(began.elapsed() < Duration::from_secs(300));
}

/// Many pages wait for a late record, and behind them some for an early one. As soon as the log has the early one, these are
/// written, although nobody syncs the file.
#[test]
fn pages_behind_many_that_wait_are_written() {
    let folder = folder();
    let memory = builder().size(128 << 20).start().unwrap();
    let tree = memory.create(folder.path().join("tree")).unwrap();
    tree.set_len(PAGES * PAGE as u64).unwrap();
    let change = |page: u64, number| {
        let mut page = tree.page_mut(page).unwrap();
        page.raise_log_number(number).unwrap();
        page.fill(1);
    };
    (0..3000).for_each(|page| change(page, 3));
    (3000..3100).for_each(|page| change(page, 2));
    assert!(tree.sync_data().is_err());
    tree.note_log_durable(2);
    let on_disk = || fs::read(folder.path().join("tree")).unwrap().iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let began = Instant::now();
    while on_disk() < 100 * PAGE as u64 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} bytes", on_disk());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((on_disk(), tree.log_wanted()), (100 * PAGE as u64, Some(3)));
    tree.note_log_durable(3);
    tree.sync_data().unwrap();
}

/// A thread changes pages of several files, which have one log, while another makes the log durable as far as it is wanted.
/// Each page that a reader finds on the disk has its record in the log.
#[test]
fn files_with_one_log_keep_its_order() {
    let folder = folder();
    let memory = builder().size(16 << 20).start().unwrap();
    let log = memory.log();
    let files = ["a", "b", "c"].map(|name| memory.create(folder.path().join(name)).unwrap());
    for file in &files {
        file.set_log(&log).unwrap();
        file.set_len(PAGES * PAGE as u64).unwrap();
    }
    let (next, durable, is_done) = (Mutex::new(1_u64), Mutex::new(0_u64), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let Some(wanted) = log.wait_for_wanted(Duration::from_millis(100)) else { continue };
                *durable.lock().unwrap() = wanted;
                log.note_durable(wanted);
            }
        });
        let on_disk = |name: &str| {
            let bytes = fs::read(folder.path().join(name)).unwrap();
            bytes.chunks_exact(PAGE).map(|page| u64::from_le_bytes(page[..8].try_into().unwrap())).max()
        };
        for n in 0..3 * PAGES {
            let mut page = files[n as usize % 3].page_mut(n * 7 % PAGES).unwrap();
            let number = *next.lock().unwrap();
            page.raise_log_number(number).unwrap();
            page[..8].copy_from_slice(&number.to_le_bytes());
            *next.lock().unwrap() += 1;
            if n % 1000 == 999 {
                let found = ["a", "b", "c"].map(on_disk).into_iter().flatten().max().unwrap();
                assert!(
                    found <= *durable.lock().unwrap(),
                    "record {found} is not durable, and its page is on the disk"
                );
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let last = *next.lock().unwrap();
    log.note_durable(last);
    files.iter().for_each(|file| file.sync_data().unwrap());
    assert_eq!((log.wanted(), memory.vmstat().get("nr_write_failed")), (None, 0));
}

/// A file has one log, which stays until the last handle is closed. A log of another memory is refused.
#[test]
fn a_file_has_one_log() {
    let folder = folder();
    let (memory, other) = (memory(), builder().start().unwrap());
    let (log, path) = (memory.log(), folder.path().join("tree"));
    let tree = memory.create(&path).unwrap();
    assert_eq!(tree.log_wanted(), None);
    tree.set_log(&log).unwrap();
    tree.set_log(&log.clone()).unwrap();
    for refused in [tree.set_log(&memory.log()), tree.set_log(&other.log())] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    drop(tree);
    let tree = memory.open(&path).unwrap();
    tree.note_log_durable(3);
    assert!(tree.set_log(&log).is_err(), "it has a log of its own now");
    let waiter = thread::spawn(move || log.wait_for_wanted(Duration::from_secs(600)));
    thread::sleep(Duration::from_millis(50));
    memory.shutdown().unwrap();
    assert_eq!(waiter.join().unwrap(), None);
}

/// Held pages stay in memory and off the disk, while the rest of a file larger than memory is written, read and synced.
/// They are written after their release, without a sync.
#[test]
fn held_pages_are_written_after_their_release() {
    const HELD: u64 = 100;
    let folder = folder();
    let memory = memory();
    let tree = memory.create(folder.path().join("tree")).unwrap();
    tree.set_len(PAGES * PAGE as u64).unwrap();
    for page in (0..HELD).map(|page| page * 7) {
        let mut page = tree.page_mut(page).unwrap();
        page.hold().unwrap();
        page.hold().unwrap();
        page.fill(1);
    }
    let is_held = |page: u64| page.is_multiple_of(7) && page < 7 * HELD;
    (0..PAGES).filter(|page| !is_held(*page)).for_each(|page| tree.page_mut(page).unwrap().fill(2));
    (0..PAGES).for_each(|page| assert_eq!(tree.page(page).unwrap()[9], if is_held(page) { 1 } else { 2 }));
    assert_eq!(tree.sync_data().unwrap_err().kind(), ErrorKind::Held);
    let on_disk = || fs::read(folder.path().join("tree")).unwrap();
    for (page, bytes) in (0..).zip(on_disk().chunks_exact(PAGE)) {
        assert!(bytes.iter().all(|byte| *byte == if is_held(page) { 0 } else { 2 }), "page {page}");
    }
    // A page that waits for the log is told of before one that is held, and waits for both.
    tree.page_mut(7).unwrap().raise_log_number(5).unwrap();
    assert_eq!(tree.sync_data().unwrap_err().kind(), ErrorKind::LogBehind);
    assert_eq!(tree.log_wanted(), Some(5));
    (0..HELD).for_each(|page| assert!(tree.release(page * 7)));
    assert!(!tree.release(7) && !tree.release(u64::MAX));
    assert_eq!(tree.sync_data().unwrap_err().kind(), ErrorKind::LogBehind);
    tree.note_log_durable(5);
    let began = Instant::now();
    while on_disk()[7 * PAGE] != 1 {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
    tree.sync_data().unwrap();
    for (page, bytes) in (0..).zip(on_disk().chunks_exact(PAGE)) {
        assert!(bytes.iter().all(|byte| *byte == if is_held(page) { 1 } else { 2 }), "page {page}");
    }
    assert_eq!(memory.vmstat().get("nr_write_failed"), 0);
}

/// As many pages can be held as the error says, in all files together. Pages that are cut off, and those of a file that is
/// closed, are released, and the close says what is lost.
#[test]
fn the_number_of_held_pages_is_limited() {
    let folder = folder();
    let memory = memory();
    let [one, two] = ["one", "two"].map(|name| memory.create(folder.path().join(name)).unwrap());
    for file in [&one, &two] {
        file.set_len(PAGES * PAGE as u64).unwrap();
    }
    let hold = |file: &File, page: u64| {
        let mut page = file.page_mut(page)?;
        page.hold()?;
        page.fill(1);
        Ok::<(), highwater::Error>(())
    };
    let fill = || {
        let refused = (0..PAGES).find_map(|page| hold(&one, page).err().map(|error| (page, error)));
        let (held, error) = refused.expect("memory is smaller than the file");
        assert_eq!(error.kind(), ErrorKind::TooManyHeld, "{error}");
        held
    };
    let most = fill();
    assert!((100..PAGES / 2).contains(&most), "{most}");
    assert_eq!(hold(&two, 0).unwrap_err().kind(), ErrorKind::TooManyHeld);
    hold(&one, 0).unwrap();
    // Other files and pages are written as before.
    two.write_all_at(&vec![2; 16 << 20], 0).unwrap();
    two.sync_data().unwrap();
    // The limit changes a little with the memory that is free.
    let nearly = most / 4 * 3;
    (nearly..most).for_each(|page| assert!(one.release(page)));
    hold(&two, 0).unwrap();
    one.set_len(0).unwrap();
    assert!(!one.release(4), "it was cut off");
    one.set_len(PAGES * PAGE as u64).unwrap();
    assert!(fill() >= nearly);
    assert_eq!(one.close().unwrap_err().kind(), ErrorKind::Held);
    assert!(fs::read(folder.path().join("one")).unwrap().iter().all(|byte| *byte == 0));
    (0..nearly).for_each(|page| hold(&two, page).unwrap());
    (0..nearly).for_each(|page| assert!(two.release(page)));
    two.sync_data().unwrap();
    let region = memory.anonymous(PAGE as u64).unwrap();
    assert_eq!(region.page_mut(0).unwrap().hold().unwrap_err().kind(), ErrorKind::Unsupported);
    let error = two.page_mut(0).unwrap().raise_log_number(1 << 63).unwrap_err();
    assert!(error.to_string().contains("2^63"), "{error}");
    memory.shutdown().unwrap();
}
