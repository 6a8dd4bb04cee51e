//! Tests that record a second process of this test binary. An environment variable names the action of that process.

use crate::found::{Found, record};
use record::Means;
use std::env;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const WHAT: &str = "RECORDING_TEST_WHAT";
const PAGE: usize = 4096;

/// Records this test binary while it runs the action `what`.
fn own(folder: &TempDir, what: &str, pages_open: u64) -> Found {
    let program = env::current_exe().unwrap().display().to_string();
    let place = format!("{WHAT}={what} {}", folder.path().display());
    let words = ["env", &place, &program, "--exact", "own::program", "--nocapture"];
    let recorded = record(folder, &words, |options| options.means = Means::Shim { pages_open }).unwrap();
    let is_good = recorded.status.is_some_and(|status| status.success());
    assert_eq!(is_good, what != "abort", "{:?}", recorded.status);
    Found::read(folder, recorded)
}

/// The recorded program, which performs the actions that an environment variable names. Without the variable, it does
/// nothing.
#[test]
fn program() {
    let Ok(text) = env::var(WHAT) else { return };
    let (what, folder) = text.split_once(' ').unwrap();
    let folder = PathBuf::from(folder);
    match what {
        "files" => files(&folder),
        "mappings" => mappings(&folder),
        "closed" => closed(&folder),
        "threads" => threads(&folder),
        "fork" => fork(&folder),
        "memory" => memory(),
        "calls" => calls(&folder),
        "copies" => copies(),
        "abort" => {
            read_all(&folder.join("a"), 100);
            std::process::abort();
        }
        "exit" => {
            read_all(&folder.join("a"), 100);
            // SAFETY: it ends this process at once.
            unsafe { libc::_exit(0) };
        }
        other => panic!("{other}"),
    }
}

fn read_all(path: &Path, bytes: usize) {
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; bytes];
    while file.read(&mut buffer).unwrap() > 0 {}
}

fn files(folder: &Path) {
    let path = folder.join("a");
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.write_all(&[1; 100]).unwrap();
    file.write_all_at(&[2; 5000], 10_000).unwrap();
    file.seek(SeekFrom::Start(50)).unwrap();
    file.read_exact(&mut [0; 20]).unwrap();
    file.read_exact_at(&mut [0; 30], 9_990).unwrap();
    let mut copy = file.try_clone().unwrap();
    copy.read_exact(&mut [0; 5]).unwrap();
    drop(copy);
    file.sync_all().unwrap();
    for code in [libc::POSIX_FADV_RANDOM, libc::POSIX_FADV_DONTNEED] {
        // SAFETY: the descriptor is open.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 8192, code) };
    }
    file.set_len(12_000).unwrap();
    let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
    appended.write_all(&[3; 7]).unwrap();
    fs::rename(&path, folder.join("b")).unwrap();
    let parts = [std::io::IoSlice::new(&[4; 3]), std::io::IoSlice::new(&[4; 6])];
    assert_eq!(file.write_vectored(&parts).unwrap(), 9);
    drop(file);
    fs::remove_file(folder.join("b")).unwrap();
}

#[test]
fn each_call_is_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let found = own(&folder, "files", 0);
    let expected = [
        "open a 0+0",
        "truncate a 0+0",
        "write a 0+100",
        "write a 10000+5000",
        "read a 50+20",
        "read a 9990+30",
        "read a 70+5",
        "sync a 0+0",
        "advise-random a 0+8192",
        "advise-dontneed a 0+8192",
        "truncate a 12000+0",
        "open a 0+12000",
        "write a 12000+7",
        "write a 75+9",
        "close a 0+0",
        "delete a 0+0",
        "close a 0+0",
    ];
    assert_eq!(found.lines, expected);
}

/// Maps the first `bytes` bytes of a file as a shared mapping. Returns the address of the mapping.
fn map(file: &File, bytes: usize, is_writable: bool) -> *mut u8 {
    let prot = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
    // SAFETY: a new mapping where the system likes.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

fn mappings(folder: &Path) {
    let bytes = 64 * PAGE;
    let file = OpenOptions::new().read(true).write(true).open(folder.join("a")).unwrap();
    let at = map(&file, bytes, true);
    let page = |number: usize| at.wrapping_add(number * PAGE + 7);
    for number in [3, 0, 3, 40, 41, 3] {
        // SAFETY: the mapping has these pages.
        assert_eq!(unsafe { page(number).read_volatile() }, 9);
    }
    // SAFETY: as above, and it is writable.
    unsafe { page(5).write_volatile(1) };
    // A system call reads from, and writes into, closed pages.
    let other = File::create(folder.join("b")).unwrap();
    // SAFETY: as above.
    other.write_all_at(unsafe { std::slice::from_raw_parts(page(8), 10) }, 0).unwrap();
    // SAFETY: as above.
    file.read_exact_at(unsafe { std::slice::from_raw_parts_mut(page(9), 10) }, 0).unwrap();
    // SAFETY: the ranges are mapped.
    unsafe {
        libc::madvise(at.cast(), 8 * PAGE, libc::MADV_SEQUENTIAL);
        libc::msync(at.cast(), bytes, libc::MS_SYNC);
        libc::munmap(at.cast(), bytes);
    }
}

#[test]
fn mappings_are_recorded_and_their_pages_on_request() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), vec![9; 64 * PAGE]).unwrap();
    let bytes = 64 * PAGE;
    let found = own(&folder, "mappings", 0);
    let of_a = |found: &Found| found.lines.iter().filter(|line| line.contains(" a ")).cloned().collect::<Vec<_>>();
    let [open, map, read, advise, sync, unmap, close] = [
        format!("open a 0+{bytes}"),
        format!("map a 0+{bytes}"),
        "read a 0+10".to_owned(),
        format!("advise-sequential a 0+{}", 8 * PAGE),
        format!("sync a 0+{bytes}"),
        format!("unmap a 0+{bytes}"),
        "close a 0+0".to_owned(),
    ];
    assert_eq!(of_a(&found), [&open, &map, &read, &advise, &sync, &unmap, &close].map(Clone::clone));
    assert!(found.not_seen.iter().any(|line| line.contains("mapped files not followed")), "{:?}", found.not_seen);

    // The file is larger than what counts as memory for locks. Two pages are open at a time.
    fs::write(folder.path().join("a"), vec![9; 64 * PAGE]).unwrap();
    let found = own(&folder, "mappings", 2);
    let touch = |kind: &str, number: usize| format!("{kind} a {}+{PAGE}", number * PAGE);
    let load = |number| touch("load", number);
    let expected = [
        open,
        map,
        load(3),
        load(0),
        // Page 3 is still open at its second touch.
        load(40),
        load(41),
        load(3),
        touch("store", 5),
        load(8),
        touch("store", 9),
        read,
        advise,
        sync,
        unmap,
        close,
    ];
    assert_eq!(of_a(&found), expected);
}

fn closed(folder: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(folder.join("a")).unwrap();
    let at = map(&file, 4 * PAGE, false);
    drop(file);
    // The number of the descriptor, and perhaps that of the open file description, is used again.
    let other = File::open(folder.join("b")).unwrap();
    // SAFETY: the mapping has these pages, and is unmapped once.
    unsafe {
        assert_eq!([2, 1].map(|number| at.wrapping_add(number * PAGE).read_volatile()), [9; 2]);
        libc::munmap(at.cast(), 4 * PAGE);
    }
    drop(other);
}

/// A program maps a file, closes the descriptor, and then touches pages, as git does.
#[test]
fn pages_of_a_mapping_are_recorded_after_its_file_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), vec![9; 4 * PAGE]).unwrap();
    fs::write(folder.path().join("b"), "b").unwrap();
    let found = own(&folder, "closed", 1);
    let of_a = found.lines.iter().filter(|line| line.contains(" a ")).cloned().collect::<Vec<_>>();
    let bytes = 4 * PAGE;
    let load = |number: usize| format!("load a {}+{PAGE}", number * PAGE);
    let (open, map, unmap) = (format!("open a 0+{bytes}"), format!("map a 0+{bytes}"), format!("unmap a 0+{bytes}"));
    assert_eq!(of_a, [open, map, "close a 0+0".into(), load(2), load(1), unmap]);
}

fn threads(folder: &Path) {
    let file = File::open(folder.join("a")).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4_u64 {
            let file = &file;
            scope.spawn(move || {
                for at in 0..5000 {
                    file.read_exact_at(&mut [0; 1], number * 5000 + at).unwrap();
                }
            });
        }
    });
}

#[test]
fn nothing_of_several_threads_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), vec![9; 20_000]).unwrap();
    let found = own(&folder, "threads", 0);
    assert_eq!(found.covered("read", "a"), 20_000);
    assert_eq!(found.lines.iter().filter(|line| line.starts_with("read a")).count(), 20_000);
    assert!(found.tasks >= 5, "{}", found.tasks);
}

/// Reads 3 bytes of a file, forks a child that reads the next 4 and ends, and then reads 5. Parent and child share the
/// file position. The child calls only `read` and `_exit`, because other calls might not be safe after a fork.
fn fork(folder: &Path) {
    let path = CString::new(folder.join("a").as_os_str().as_bytes()).unwrap();
    let mut byte = [0_u8; 8];
    // SAFETY: the child calls nothing but read and _exit.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY);
        assert_eq!(libc::read(fd, byte.as_mut_ptr().cast(), 3), 3);
        let child = libc::fork();
        if child == 0 {
            libc::read(fd, byte.as_mut_ptr().cast(), 4);
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
        assert_eq!(libc::read(fd, byte.as_mut_ptr().cast(), 5), 5);
    }
}

#[test]
fn a_child_shares_the_position() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), vec![9; 100]).unwrap();
    let found = own(&folder, "fork", 0);
    let reads = found.lines.iter().filter(|line| line.starts_with("read")).collect::<Vec<_>>();
    assert_eq!(reads, ["read a 0+3", "read a 3+4", "read a 7+5"]);
}

#[test]
fn crashes_and_immediate_ends_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), vec![9; 10_000]).unwrap();
    for what in ["abort", "exit"] {
        let found = own(&folder, what, 0);
        assert_eq!(found.covered("read", "a"), 10_000, "{what}");
        assert_eq!(found.lines.iter().filter(|line| line.starts_with("read a")).count(), 100, "{what}");
    }
}

/// Allocates 32 MiB of memory, and touches the first 8 MiB again and again for 0.8 s.
fn memory() {
    let mut memory = vec![1_u8; 32 << 20];
    let end = std::time::Instant::now() + std::time::Duration::from_millis(800);
    while std::time::Instant::now() < end {
        memory[..8 << 20].chunks_mut(PAGE).for_each(|page| page[0] = page[0].wrapping_add(1));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::hint::black_box(&memory);
}

/// Makes so many calls that their events fill 6 MiB of the ring, and lives long enough to be looked at.
fn calls(folder: &Path) {
    fs::write(folder.join("a"), [7]).unwrap();
    let file = File::open(folder.join("a")).unwrap();
    for _ in 0..6 << 15 {
        file.read_exact_at(&mut [0], 0).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
}

/// Fills 32 MiB of memory, and forks three children that share it for 0.4 s.
fn copies() {
    let memory = vec![1_u8; 32 << 20];
    // SAFETY: the children only sleep and end.
    let children = [(); 3].map(|()| unsafe {
        match libc::fork() {
            0 => {
                libc::usleep(400_000);
                libc::_exit(0)
            }
            child => child,
        }
    });
    for child in children {
        // SAFETY: it waits for a child of this process; the status is not wanted.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    }
    std::hint::black_box(&memory);
}

#[test]
fn memory_that_forked_processes_share_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    own(&folder, "copies", 0);
    let trace = trace::Trace::open(&crate::found::output(&folder)).unwrap();
    let peaks = &trace.metadata()["memory_peak"];
    assert!(peaks["processes"].as_u64() >= Some(4), "{peaks}");
    let mib = peaks["anon_bytes"].as_u64().unwrap() >> 20;
    assert!((32..48).contains(&mib), "{mib}");
}

#[test]
fn the_recording_is_no_memory_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let found = own(&folder, "calls", 0);
    assert!(found.lines.len() > 6 << 15, "{}", found.lines.len());
    let trace = trace::Trace::open(&crate::found::output(&folder)).unwrap();
    let shared = trace.metadata()["memory_peak"]["shmem_bytes"].as_u64().unwrap();
    assert!(shared < 1 << 20, "{shared}");
}

#[test]
fn the_working_set_is_what_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let program = env::current_exe().unwrap().display().to_string();
    let place = format!("{WHAT}=memory {}", folder.path().display());
    let words = ["env", &place, &program, "--exact", "own::program", "--nocapture"];
    let interval = std::time::Duration::from_millis(100);
    let recorded = record(&folder, &words, |options| options.watch.working_set = Some(interval)).unwrap();
    assert!(recorded.status.is_some_and(|status| status.success()));
    let trace = trace::Trace::open(&crate::found::output(&folder)).unwrap();
    let set = &trace.metadata()["working_set"];
    assert_eq!(set["interval_us"], 100_000);
    let samples = set["samples"].as_array().unwrap();
    if samples.is_empty() {
        eprintln!("skipped: clear_refs is not to be had here");
        return;
    }
    let mib = |sample: &serde_json::Value, name: &str| sample[name].as_u64().unwrap() >> 20;
    let is_set = |sample: &&serde_json::Value| {
        mib(sample, "resident_bytes") >= 32 && (8..16).contains(&mib(sample, "touched_bytes"))
    };
    assert!(samples.iter().filter(is_set).count() >= 2, "{set:#}");
}
