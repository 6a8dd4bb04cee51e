//! Tests of events that coincide, such as a read and a truncation, a writer and a shutdown, the drop of a handle and
//! the end of its thread, or the use of a file and changes by another process.

mod common;

use common::gate::{Gate, Gated};
use common::{builder, folder, memory};
use highwater::{Advice, Error, File, IoError, Memory, OpenOptions};
use std::cell::RefCell;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;

/// A read during a truncation returns the old bytes, or fewer bytes, but never zeroes in place of truncated bytes.
#[test]
fn a_read_beside_a_cut_gets_what_the_file_had() {
    const LONG: u64 = 3 * PAGE + 100;
    let folder = folder();
    let memory = memory();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&vec![0xaa; LONG as usize], 0).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..2000_u64 {
                file.set_len(PAGE + round % 2000).unwrap();
                file.write_all_at(&vec![0xaa; LONG as usize], 0).unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut bytes = vec![0; LONG as usize];
            while !is_over.load(Ordering::Acquire) {
                bytes.fill(1);
                let n = file.read_at(&mut bytes, 0).unwrap();
                assert!(n as u64 >= PAGE && n as u64 <= LONG, "{n} bytes");
                let wrong = bytes[..n].iter().position(|byte| *byte != 0xaa);
                assert_eq!(wrong, None, "byte {wrong:?} of {n} that were read");
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                match file.page(3) {
                    Ok(guard) => drop(guard),
                    Err(error) => assert!(matches!(error, Error::OutOfRange { page: 3, .. }), "{error}"),
                }
            }
        });
    });
    memory.check().unwrap();
}

/// `set_len` shortens a file to an end within page 5, and waits before it truncates the file in the system, because a
/// write of page 0 is held up. Meanwhile page 5 is changed, synced, dropped from memory and read. The truncated bytes
/// of page 5 must not come back from the disk, and no part of page 5 may be written before the truncation.
#[test]
fn what_a_cut_takes_from_a_page_does_not_come_back_from_the_disk() {
    const CUT: u64 = 5;
    const IN_PAGE: usize = 100;
    for has_checksums in [false, true] {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, [7; 8 * PAGE as usize]).unwrap();
        let (gate, (at_gate, arrivals)) = (Arc::<Gate>::default(), mpsc::channel());
        let held = gate.clone();
        let memory = builder()
            .checksums(has_checksums)
            .behind(move |inner| Arc::new(Gated::new(inner, &held, &at_gate).only_at(0)))
            .start()
            .unwrap();
        let file = memory.open(&path).unwrap();
        file.read_exact_at(&mut [0; PAGE as usize], CUT * PAGE).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                file.write_all_at(&[1], 0).unwrap();
                file.sync_data().unwrap();
            });
            arrivals.recv().unwrap();
            scope.spawn(|| {
                file.set_len(CUT * PAGE + IN_PAGE as u64).unwrap();
                file.set_len(8 * PAGE).unwrap();
                is_over.store(true, Ordering::Release);
            });
            while file.len() == 8 * PAGE {
                thread::yield_now();
            }
            scope.spawn(|| {
                file.write_all_at(&[2], CUT * PAGE).unwrap();
                file.sync_data().unwrap();
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    file.advise(CUT * PAGE..(CUT + 1) * PAGE, Advice::DontNeed);
                    file.read_at(&mut [0; PAGE as usize], CUT * PAGE).unwrap();
                }
            });
            thread::sleep(Duration::from_millis(200));
            let stored = fs::read(&path);
            gate.open();
            let stored = stored.unwrap();
            let page = &stored[(CUT * PAGE) as usize..((CUT + 1) * PAGE) as usize];
            assert!(
                stored.len() as u64 == 8 * PAGE && page.iter().all(|byte| *byte == 7),
                "half of a page was written"
            );
        });
        let mut bytes = [1; PAGE as usize];
        file.read_exact_at(&mut bytes, CUT * PAGE).unwrap();
        assert!(bytes[0] == 2 && bytes[1..IN_PAGE].iter().all(|byte| *byte == 7));
        assert_eq!(bytes[IN_PAGE..].iter().position(|byte| *byte != 0), None, "checksums: {has_checksums}");
        file.sync_data().unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap()[(CUT * PAGE) as usize..][..PAGE as usize], bytes);
        memory.check().unwrap();
    }
}

/// Returns a file in memory (`memfd_create`) and its path. The file can be sealed: the system then refuses to make it
/// shorter, or longer.
fn sealable() -> (fs::File, String) {
    // SAFETY: the name ends with a zero, and nothing else uses the returned descriptor.
    let file = unsafe {
        let number = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC);
        assert!(number >= 0);
        fs::File::from_raw_fd(number)
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path)
}

fn seal(file: &fs::File, seal: i32) {
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seal) }, 0);
}

/// Bytes were written to a file through the library, but not yet by the library to the system's file, which is empty. A
/// truncation to a length above 0 must then lengthen the system's file. The system refuses this, and nothing is
/// truncated.
#[test]
fn a_cut_that_the_system_refuses_room_for_changes_nothing() {
    let (sealed, path) = sealable();
    let memory = memory();
    let file = memory.open(&path).unwrap();
    let bytes: Vec<u8> = (0..3 * PAGE).map(|n| n as u8 | 1).collect();
    file.write_all_at(&bytes, 0).unwrap();
    seal(&sealed, libc::F_SEAL_GROW);
    for end in [PAGE, PAGE + 5] {
        let error = file.set_len(end).unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
        let mut found = vec![0; 3 * PAGE as usize];
        assert_eq!((file.len(), file.read_at(&mut found, 0).unwrap()), (3 * PAGE, 3 * PAGE as usize));
        assert!(found == bytes);
    }
    memory.check().unwrap();
}

/// The kernel refuses to truncate a sealed file. The library still shortens the file as its users see it, and the bytes
/// beyond the new end never come back.
#[test]
fn what_the_system_does_not_cut_off_stays_cut_off_here() {
    const END: u64 = 5 * PAGE + 100;
    let (sealed, path) = sealable();
    let memory = memory();
    let file = memory.open(&path).unwrap();
    file.write_all_at(&[7; 8 * PAGE as usize], 0).unwrap();
    file.sync_data().unwrap();
    seal(&sealed, libc::F_SEAL_SHRINK);
    file.set_len(END).unwrap_err();
    for _ in 0..2 {
        file.sync_data().unwrap();
        memory.drop_caches();
        assert_eq!((file.len(), file.read_at(&mut [0; 8 * PAGE as usize], 5 * PAGE).unwrap()), (END, 100));
        let page = file.page(5).unwrap();
        assert!(page[..100] == [7; 100] && page[100..].iter().all(|byte| *byte == 0));
        drop(page);
        file.set_len(8 * PAGE).unwrap_err();
        file.write_at(&[1], 8 * PAGE).unwrap_err();
    }
    memory.check().unwrap();
}

/// Two instances of `Memory` have separate caches. So both may have a file open only as long as both only read it.
#[test]
fn a_file_is_written_by_one_memory_alone() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, [7; 5000]).unwrap();
    let (memory, other) = (memory(), memory());
    let reading = OpenOptions::new();
    let refused = |file: Result<File, Error>| {
        let error = file.unwrap_err().to_string();
        assert!(error.ends_with("another memory of this process has it, and one of both would write it"), "{error}");
    };
    let first = reading.open(&memory, &path).unwrap();
    let second = reading.open(&other, &path).unwrap();
    drop(first);
    refused(memory.open(&path));
    drop(second);
    let first = memory.open(&path).unwrap();
    let again = memory.open(&path).unwrap();
    refused(reading.open(&other, &path));
    drop(first);
    refused(other.open(&path));
    drop(again);
    assert!(other.open(&path).is_ok());
}

/// A thread writes to a file while another shuts the library down. The writes either succeed or return an error. The
/// thread must not wait for ever for kswapd or the flusher, which have ended.
#[test]
fn a_shutdown_lets_a_writer_go_on() {
    let folder = folder();
    let memory = memory();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.set_len(64 << 20).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let block = vec![3; 1 << 20];
            (0..64).map(|n| file.write_at(&block, n << 20)).find_map(Result::err)
        });
        while memory.vmstat().get("nr_dirtied") < 500 {
            thread::yield_now();
        }
        memory.shutdown().unwrap();
        let failed = writer.join().unwrap();
        assert!(matches!(failed, None | Some(Error::ShutDown | Error::OutOfMemory { .. })), "{failed:?}");
    });
}

/// A program may keep a handle in a thread-local variable. The handle is then dropped at the thread's end, possibly
/// after the library's own thread-local data.
#[test]
fn a_handle_may_end_with_its_thread() {
    thread_local! {
        static FILE: RefCell<Option<File>> = const { RefCell::new(None) };
        static REGION: RefCell<Option<highwater::Region>> = const { RefCell::new(None) };
    }
    let folder = folder();
    let path = folder.path().join("file");
    let memory = memory();
    thread::scope(|scope| {
        let ended = scope.spawn(|| {
            FILE.set(None);
            REGION.set(None);
            let (file, region) = (memory.create(&path).unwrap(), memory.anonymous(64 * PAGE).unwrap());
            file.write_all_at(&[9; 100 * PAGE as usize], 0).unwrap();
            file.sync_data().unwrap();
            file.write_all_at(&[5; 10], 0).unwrap();
            region.write_at(&[1; PAGE as usize], 5 * PAGE).unwrap();
            FILE.set(Some(file));
            REGION.set(Some(region));
        });
        // `join` waits until the thread's local values are dropped; the end of the scope would not.
        ended.join().unwrap();
    });
    memory.check().unwrap();
    assert_eq!(fs::read(&path).unwrap()[..12], [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 9, 9]);
}

/// A sync through one handle makes the bytes durable that were written through another handle, and also the exact
/// length of the file.
#[test]
fn a_reader_may_sync_what_a_writer_wrote() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = memory();
    let writer = memory.create(&path).unwrap();
    let reader = OpenOptions::new().open(&memory, &path).unwrap();
    writer.write_all_at(b"hello", 0).unwrap();
    reader.sync_data().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello");
}

/// Another process truncates a file. A reader of the lost bytes gets an error, and a sync does not make the file long
/// again.
#[test]
fn a_sync_does_not_bring_back_what_others_cut_off() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, [7; 10 * PAGE as usize]).unwrap();
    let memory = memory();
    let file = memory.open(&path).unwrap();
    file.write_all_at(&[1], 0).unwrap();
    OpenOptions::new().open(&memory, &path).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(10_000).unwrap();
    for _ in 0..2 {
        let error = file.read_at(&mut [0; 10], 5 * PAGE).unwrap_err();
        assert!(matches!(error, Error::Read { source: IoError::Truncated, .. }), "{error}");
        file.sync_data().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 10_000);
        memory.check().unwrap();
    }
}

/// If the disk has too little space for a swap file, an empty file that existed before stays, and a file that was made
/// for swap is removed.
#[test]
fn a_swap_file_that_finds_no_room_leaves_things_as_they_were() {
    let folder = folder();
    let (there, new) = (folder.path().join("there"), folder.path().join("new"));
    fs::write(&there, []).unwrap();
    for path in [&there, &new] {
        let error = builder().swap(1 << 43).swap_file(path).start().unwrap_err().to_string();
        assert!(error.contains("cannot allocate"), "{error}");
    }
    assert_eq!(fs::metadata(&there).unwrap().len(), 0);
    assert!(!new.exists());
}

/// Another process truncates a file, to a length within a page or at a page boundary. Some of the file's pages are in
/// memory; one of them is dirty, and one is pinned. Readers of lost bytes get errors, nothing else is lost, and
/// `Memory::check` passes.
#[test]
fn what_others_cut_off_is_an_error_to_its_readers_and_breaks_nothing() {
    for cut in [0, 100, 3 * PAGE, 3 * PAGE + 1, 7 * PAGE + 4095] {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, [7; 16 * PAGE as usize]).unwrap();
        let memory = memory();
        let file = memory.open(&path).unwrap();
        file.read_exact_at(&mut [0; 12 * PAGE as usize], 0).unwrap();
        file.write_all_at(&[1; 10], 5 * PAGE).unwrap();
        let pinned = file.page(9).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(cut).unwrap();
        assert!(pinned.iter().all(|byte| *byte == 7), "what is pinned stays");
        drop(pinned);
        memory.check().unwrap();
        file.sync_data().unwrap();
        memory.check().unwrap();
        memory.drop_caches();
        for page in 0..16 {
            let (mut bytes, is_whole) = ([0; PAGE as usize], (page + 1) * PAGE <= cut);
            match file.read_at(&mut bytes, page * PAGE) {
                Ok(n) => assert!(
                    (is_whole || page == 5) && n == PAGE as usize && bytes[10..].iter().all(|byte| *byte == 7),
                    "page {page} of a file that others cut to {cut} bytes"
                ),
                Err(Error::Read { source: IoError::Truncated, .. }) => assert!(!is_whole && page != 5, "page {page}"),
                Err(error) => panic!("page {page}: {error}"),
            }
        }
        memory.check().unwrap();
        // Once this process has set the file's length itself, the file can be written and read again.
        file.set_len(0).unwrap();
        file.write_all_at(&[2; 2 * PAGE as usize], 0).unwrap();
        file.read_exact_at(&mut [0; 2 * PAGE as usize], 0).unwrap();
        memory.check().unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), [2; 2 * PAGE as usize]);
    }
}

/// A write guard fills the whole last page of a file, which lies only partly within the file. While the guard exists,
/// the file becomes longer. The added bytes are zeroes, both in the library's cache and in the kernel's file.
#[test]
fn what_makes_a_file_longer_adds_zeroes_whatever_a_guard_left_there() {
    const LONG: u64 = 4096 + 904;
    type Grow = fn(&File);
    let grows: [(&str, u64, Grow); 4] = [
        ("within the page", 2 * PAGE - 7, |file| file.set_len(2 * PAGE - 7).unwrap()),
        ("to the end of the page", 2 * PAGE, |file| file.set_len(2 * PAGE).unwrap()),
        ("far behind", 9 * PAGE + 5, |file| file.set_len(9 * PAGE + 5).unwrap()),
        ("by a write", 6 * PAGE + 3, |file| file.write_all_at(&[5; 3], 6 * PAGE).unwrap()),
    ];
    for (how, len, grow) in grows {
        let folder = folder();
        let path = folder.path().join("file");
        let memory = builder().checksums(true).start().unwrap();
        let file = memory.create(&path).unwrap();
        file.write_all_at(&[1; LONG as usize], 0).unwrap();
        let mut guard = file.page_mut(1).unwrap();
        guard.fill(7);
        grow(&file);
        guard.fill(8);
        drop(guard);
        let mut expected = vec![0; len as usize];
        expected[..PAGE as usize].fill(1);
        expected[PAGE as usize..LONG as usize].fill(8);
        if how == "by a write" {
            expected[6 * PAGE as usize..].fill(5);
        }
        for _ in 0..2 {
            let mut found = vec![9; len as usize];
            file.read_exact_at(&mut found, 0).unwrap();
            let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "{how}: byte {wrong:?}");
            file.sync_data().unwrap();
            memory.drop_caches();
        }
        assert!(fs::read(&path).unwrap() == expected, "{how}");
        // The file is longer now, so a new guard may fill the whole page.
        if len >= 2 * PAGE {
            file.page_mut(1).unwrap().fill(3);
            assert!(file.page(1).unwrap().iter().all(|byte| *byte == 3), "{how}");
        }
        memory.check().unwrap();
    }
}

/// With kernels that write a page while a guard may change it, a write guard fills the whole last page of a file, of
/// which only a part lies within the file. While the guard exists, the file becomes longer, and another thread syncs
/// it. What the guard has stored after the old end does not reach the kernel's file.
#[test]
fn a_sync_beside_a_guard_writes_zeroes_after_the_old_end() {
    const LONG: u64 = 4096 + 904;
    type Grow = fn(&File);
    let grows: [(&str, Grow); 3] = [
        ("set_len", |file| file.set_len(9 * PAGE).unwrap()),
        ("allocate", |file| file.allocate(0..9 * PAGE).unwrap()),
        ("a write", |file| file.write_all_at(&[5; PAGE as usize], 8 * PAGE).unwrap()),
    ];
    for kernel in ["highwater", "3.10-rc4-vanilla", "7.2-mglru"] {
        for (how, grow) in grows {
            let folder = folder();
            let path = folder.path().join("file");
            let memory = builder().kernel(kernel).start().unwrap();
            let file = memory.create(&path).unwrap();
            file.write_all_at(&[1; LONG as usize], 0).unwrap();
            let mut guard = file.page_mut(1).unwrap();
            guard.fill(7);
            grow(&file);
            thread::scope(|scope| {
                let sync = scope.spawn(|| file.sync_data().unwrap());
                let end = Instant::now() + Duration::from_millis(200);
                while !sync.is_finished() && Instant::now() < end {
                    thread::sleep(Duration::from_millis(5));
                }
                let disk = fs::read(&path).unwrap();
                let added = disk.iter().take(8 * PAGE as usize).skip(LONG as usize);
                assert!(added.clone().all(|byte| *byte == 0), "{kernel}, {how}: {:?}", added.max());
                drop(guard);
            });
            file.sync_data().unwrap();
            let disk = fs::read(&path).unwrap();
            assert_eq!(disk.len() as u64, 9 * PAGE, "{kernel}, {how}");
            assert!(disk[PAGE as usize..LONG as usize].iter().all(|byte| *byte == 7), "{kernel}, {how}");
            assert!(disk[LONG as usize..8 * PAGE as usize].iter().all(|byte| *byte == 0), "{kernel}, {how}");
            // A guard of a whole page keeps nobody from writing the page.
            drop(file.page_mut(1).unwrap());
            file.sync_data().unwrap();
            memory.check().unwrap();
        }
    }
}

/// With kernels that let a guard change a page while the page is written, a guard for writing of the page in which the
/// file ends still waits for the end of the page's write, which might store what the guard puts after the end.
#[test]
fn a_guard_of_the_last_page_waits_for_its_write() {
    let folder = folder();
    let (gate, (at_gate, arrivals)) = (Arc::<Gate>::default(), mpsc::channel());
    let held = gate.clone();
    let memory = builder()
        .kernel("3.10-rc4-vanilla")
        .behind(move |inner| Arc::new(Gated::new(inner, &held, &at_gate)))
        .start()
        .unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&[1; 5000], 0).unwrap();
    thread::scope(|scope| {
        let sync = scope.spawn(|| file.sync_data().unwrap());
        arrivals.recv().unwrap();
        let at_once = [0, 1].map(|page| file.try_page_mut(page).unwrap().is_some());
        let guard = scope.spawn(|| drop(file.page_mut(1).unwrap()));
        thread::sleep(Duration::from_millis(50));
        let are_over = guard.is_finished() || sync.is_finished();
        // The gate is opened before anything is asserted, so that the threads end in any case.
        gate.open();
        assert_eq!((at_once, are_over), ([true, false], false));
    });
    assert!(file.try_page_mut(1).unwrap().is_some());
    memory.check().unwrap();
}

/// Returns whether the file is locked against other processes.
fn is_locked(path: &Path) -> bool {
    let file = fs::File::open(path).unwrap();
    // SAFETY: no memory is passed.
    let refused = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) } != 0;
    refused && std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock
}

/// A file is opened without a lock, and then again with a lock. The second open locks the file for all handles of the
/// file.
#[test]
fn whoever_asks_for_a_lock_has_it_also_where_the_file_is_open_without() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, [7; 100]).unwrap();
    let memory = memory();
    let options = OpenOptions::new().write(true);
    let unlocked = options.lock(false).open(&memory, &path).unwrap();
    assert!(!is_locked(&path));
    let locked = options.open(&memory, &path).unwrap();
    assert!(is_locked(&path));
    // The lock belongs to the file until its last handle is dropped.
    drop(locked);
    assert!(is_locked(&path));
    drop(unlocked);
    assert!(!is_locked(&path));

    // While another process has the lock, an open that asks for a lock is refused, and an open without one succeeds.
    let unlocked = options.lock(false).open(&memory, &path).unwrap();
    let other = fs::File::open(&path).unwrap();
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::flock(other.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, 0);
    let error = options.open(&memory, &path).unwrap_err().to_string();
    assert!(error.ends_with("another process has locked it"), "{error}");
    unlocked.write_all_at(&[1], 0).unwrap();
    drop(other);
    options.open(&memory, &path).unwrap();
    memory.check().unwrap();
}

/// A file that the caller has locked is adopted without a lock of the library. Dropping the handle does not release the
/// caller's lock.
#[test]
fn a_lock_of_the_caller_outlasts_a_handle_without_one() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, [7; 100]).unwrap();
    let own = fs::File::options().read(true).write(true).open(&path).unwrap();
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::flock(own.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, 0);
    let memory = memory();
    let adopt = |lock| OpenOptions::new().lock(lock).adopt(&memory, own.try_clone().unwrap()).unwrap();
    drop(adopt(false));
    assert!(is_locked(&path));
    // A lock that the library is asked for is the library's to release.
    drop(adopt(true));
    assert!(!is_locked(&path));
}

/// `Advice::WillNeed` is given for a range of 128 times the memory. Only as many pages are read ahead as there is room
/// for, and pages in use stay in memory.
#[test]
fn advice_for_more_than_memory_reads_what_there_is_room_for() {
    const LONG: u64 = 1 << 30;
    let folder = folder();
    let memory = memory();
    let path = folder.path().join("file");
    // The file gets its length before the memory opens it, because only bytes that exist then are read from the disk.
    fs::File::create(&path).unwrap().set_len(LONG).unwrap();
    let file = memory.open(&path).unwrap();
    let mut all = 0;
    for range in [0..LONG, 0..u64::MAX, LONG / 2..LONG] {
        let before = memory.vmstat().get("pgpgin");
        file.advise(range.clone(), Advice::WillNeed);
        let read = memory.vmstat().get("pgpgin") - before;
        assert!(read <= (memory.size() >> 10) / 2 + 4, "{read} KiB were read for {range:?}");
        all += read;
    }
    assert!(all >= memory.size() >> 12, "only {all} KiB were read");
    // A range that fits into memory is read ahead as a whole.
    memory.drop_caches();
    let small = memory.create(folder.path().join("small")).unwrap();
    small.write_all_at(&[7; 64 * PAGE as usize], 0).unwrap();
    small.sync_data().unwrap();
    memory.drop_caches();
    small.advise(0..64 * PAGE, Advice::WillNeed);
    assert!((0..64).all(|page| small.page(page).unwrap()[0] == 7));
    memory.check().unwrap();
}

/// A file of four times the memory is read by one request, with and without the advice that reads are random, and by
/// `read_many_at`. Each page is read from the disk once: a request does not read so far ahead that its own pages are
/// evicted before they are used.
#[test]
fn a_request_for_more_than_memory_reads_each_page_once() {
    const LONG: u64 = 32 << 20;
    let folder = folder();
    let memory = memory();
    let path = folder.path().join("file");
    // The file gets its length before the memory opens it, because only bytes that exist then are read from the disk.
    fs::File::create(&path).unwrap().set_len(LONG).unwrap();
    let file = memory.open(&path).unwrap();
    let mut bytes = vec![1; LONG as usize];
    let mut check = |how: &str, read: &dyn Fn(&mut [u8])| {
        memory.drop_caches();
        let before = memory.vmstat().get("pgpgin");
        read(&mut bytes);
        let read = (memory.vmstat().get("pgpgin") - before) << 10;
        assert!((LONG..LONG + LONG / 4).contains(&read), "{how}: {read} bytes were read");
    };
    for advice in [Advice::Normal, Advice::Random] {
        file.advise(0..0, advice);
        check(&format!("{advice:?}"), &|bytes| file.read_exact_at(bytes, 0).unwrap());
        check(&format!("{advice:?}, many"), &|bytes| drop(file.read_many_at(&mut [(bytes, 0)]).unwrap()));
    }
    memory.check().unwrap();
}

fn make_pipe(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Calls `call` in another thread and returns its result. Panics if the call takes longer than a minute.
#[track_caller]
fn within_a_minute<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(call()));
    done.recv_timeout(Duration::from_secs(60)).expect("it waits for ever")
}

/// A pipe is refused with an error that says so, even if it replaces a file while the file is being opened.
#[test]
fn an_open_never_waits_for_the_other_end_of_a_pipe() {
    let folder = folder();
    let (pipe, socket, path) = (folder.path().join("pipe"), folder.path().join("socket"), folder.path().join("file"));
    make_pipe(&pipe);
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let memory = Arc::new(memory());
    for (path, word) in [(&pipe, "pipe"), (&socket, "socket"), (&"/dev/zero".into(), "character device")] {
        for writes in [false, true] {
            let (memory, path) = (memory.clone(), path.clone());
            let opened = within_a_minute(move || OpenOptions::new().write(writes).open(&memory, &path).map(drop));
            let error = opened.unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
    // A pipe or a terminal is refused as a kernel file, too.
    let (mut master, mut slave) = (0, 0);
    let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: the call writes two numbers; the pointers that are null are not used.
    assert_eq!(unsafe { libc::openpty(&mut master, &mut slave, name, settings, size) }, 0);
    let terminal = fs::read_link(format!("/proc/self/fd/{slave}")).unwrap();
    for (path, word) in [(&pipe, "pipe"), (&terminal, "character device")] {
        let kernel = path.to_string_lossy().into_owned();
        let started = within_a_minute(move || Memory::builder().size(8 << 20).kernel(&kernel).start().map(drop));
        assert!(matches!(&started, Err(Error::Builder(error)) if error.contains(word)), "{started:?}");
    }

    let is_over = Arc::new(AtomicBool::new(false));
    let replacer = thread::spawn({
        let (is_over, path, folder) = (is_over.clone(), path.clone(), folder.path().to_owned());
        move || {
            while !is_over.load(Ordering::Acquire) {
                let new = folder.join("new");
                make_pipe(&new);
                fs::rename(&new, &path).unwrap();
                fs::write(&new, [7; 10]).unwrap();
                fs::rename(&new, &path).unwrap();
            }
        }
    });
    let opener = {
        let memory = memory.clone();
        move || {
            for _ in 0..2000 {
                match OpenOptions::new().open(&memory, &path) {
                    Ok(file) => assert_eq!(file.len(), 10),
                    // The system may not find the name at the moment in which it is replaced.
                    Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => assert!(error.to_string().contains("pipe"), "{error}"),
                }
            }
        }
    };
    within_a_minute(opener);
    is_over.store(true, Ordering::Release);
    replacer.join().unwrap();
    memory.check().unwrap();
}
