//! Calls that meet: a read and a cut, two syncs, a writer and the end, a handle and the end of its thread, a file and what
//! others do to it.

mod common;

use common::gate::{Gate, Gated};
use common::{builder, folder, memory};
use highwater::{Advice, Error, File, IoError, OpenOptions};
use std::cell::RefCell;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const PAGE: u64 = 4096;

/// What is cut off is gone, and never zeroes to who reads it at that moment.
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

/// A cut waits for a write of another page before the system cuts, too. Meanwhile the page that it cuts is changed, synced,
/// dropped and read: what was cut off does not come back from the disk, and the disk never has half of the change.
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

/// A file in memory that the system will not make shorter, or longer, once that is sealed.
fn sealable() -> (fs::File, String) {
    // SAFETY: the name ends with a zero, and a descriptor that is returned is nobody else's.
    let file = unsafe {
        let number = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC);
        assert!(number >= 0);
        fs::File::from_raw_fd(number)
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path)
}

fn seal(file: &fs::File, seal: i32) {
    // SAFETY: it changes what the system allows with the file, and no memory.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seal) }, 0);
}

/// The system's file is not yet as long as the new end of a cut, and may not become so: nothing is cut.
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

/// The system refuses to cut its file: here it is cut, and what was cut off never comes back.
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

/// Each memory has a cache of its own: nobody writes a file beside another.
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

/// Who writes much is not left waiting for threads that have ended.
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

/// Handles may lie in a thread's own memory and go with it, when the library's own part of that is gone already.
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
        // The scope alone waits for what the thread does, and not for what it has of its own to go.
        ended.join().unwrap();
    });
    memory.check().unwrap();
    assert_eq!(fs::read(&path).unwrap()[..12], [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 9, 9]);
}

/// A sync is for the file: what other handles wrote, and its length to the byte.
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

/// What somebody else cut off is not there again after a sync, and who reads it is told.
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
    }
}

/// An empty file that was there stays where swap finds no room; one that was made goes.
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
