//! Tests of what the library does when the system refuses memory, io_uring, files or address space, and of which data
//! other processes can see. A test that changes its process irreversibly runs in a child process: this program,
//! restarted for the one test.

mod common;

use common::{builder, folder, memory};
use highwater::{Error, Memory, Notice};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

const PAGE: u64 = 4096;

/// Runs `test`, the body of the test called `name`, in a child process, and panics if the child fails.
fn in_child(name: &str, test: impl FnOnce()) {
    const CHILD: &str = "HIGHWATER_TEST_CHILD";
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        return test();
    }
    let mut child = Command::new(std::env::current_exe().expect("this program is there"));
    child.args(["--exact", name, "--test-threads=1", "--nocapture"]).env(CHILD, name);
    let output = child.output().expect("a process is granted");
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {printed}", output.status);
    assert!(printed.contains("1 passed"), "the test has another name: {printed}");
}

/// Returns the flags of the mapping of `address` in `/proc/self/smaps`.
fn mapping_flags(address: usize) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/smaps").expect("it is there");
    let mut is_here = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        if let Some((start, end)) = range
            && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
        {
            is_here = (start..end).contains(&address);
        }
        if is_here && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("no mapping at {address:#x}");
}

fn address(memory: &Memory) -> usize {
    let region = memory.anonymous(PAGE).unwrap();
    region.write_at(&[1], 0).unwrap();
    region.page(0).unwrap().as_ptr() as usize
}

#[test]
fn a_core_dump_has_nothing_of_the_memory() {
    let memory = memory();
    let flags = mapping_flags(address(&memory));
    assert!(flags.iter().any(|flag| flag == "dd"), "{flags:?}");
    assert!(flags.iter().all(|flag| flag != "lo"), "{flags:?}");
}

/// A `Memory` with `lock_memory` is resized to more, less, and more memory again. After each change, all of its memory
/// must be locked (`mlock`).
#[test]
fn locked_memory_stays_locked_when_it_is_resized() {
    let locked = builder().size(4 << 20).size_max(16 << 20).lock_memory(true).start();
    let memory = match locked {
        Ok(memory) => memory,
        Err(error) => {
            assert!(error.to_string().contains("locking 4194304 bytes in memory"), "{error}");
            return println!("skipped: {error}");
        }
    };
    let all_locked = || {
        let region = memory.anonymous(memory.size() / 2).unwrap();
        for page in (0..memory.size() / 2 / PAGE).step_by(97) {
            region.write_at(&[1], page * PAGE).unwrap();
            let flags = mapping_flags(region.page(page).unwrap().as_ptr() as usize);
            assert!(flags.iter().any(|flag| flag == "lo"), "{flags:?}");
        }
    };
    for mib in [4, 8, 5, 16] {
        memory.resize(mib << 20).unwrap();
        all_locked();
    }
}

/// If the system does not let the process lock memory, the start fails with an error that says so.
#[test]
fn memory_that_cannot_be_locked_is_an_error() {
    in_child("memory_that_cannot_be_locked_is_an_error", || {
        refuse(&[libc::SYS_mlock2]);
        let error = builder().lock_memory(true).start().unwrap_err().to_string();
        assert!(error.contains("locking 8388608 bytes in memory (see `ulimit -l`): "), "{error}");
    });
}

/// A seccomp filter forbids io_uring while requests are in flight. I/O threads take over, and nothing is lost.
#[test]
fn io_uring_may_be_refused_after_the_start() {
    in_child("io_uring_may_be_refused_after_the_start", || {
        const PAGES: u64 = 4096;
        let folder = folder();
        let memory = Memory::builder().size(8 << 20).swap(16 << 20).swap_folder(folder.path()).start().unwrap();
        if memory.notices().iter().any(|notice| matches!(notice, Notice::NoIoUring { .. })) {
            return println!("skipped: io_uring was never permitted");
        }
        let page = |number: u64| (number + 1).to_le_bytes().repeat(PAGE as usize / 8);
        let file = memory.create(folder.path().join("file")).unwrap();
        let region = memory.anonymous(8 << 20).unwrap();
        (0..PAGES).for_each(|number| file.write_all_at(&page(number), number * PAGE).unwrap());
        file.sync_data().unwrap();
        let rounds = |thread: u64| {
            for round in 0..30 {
                // Readahead of a sequential reader, which the background ring carries out.
                let start = (thread * 31 + round * 97) % (PAGES - 300);
                for number in start..start + 300 {
                    let mut found = vec![0; PAGE as usize];
                    file.read_exact_at(&mut found, number * PAGE).unwrap();
                    assert!(found == page(number), "page {number}");
                }
                // A batch of parallel reads, which a borrowed ring carries out.
                let mut many = vec![vec![0; PAGE as usize]; 32];
                let number = |n: usize| (thread * 1009 + round * 331 + n as u64 * 127) % PAGES;
                let mut reads: Vec<(&mut [u8], u64)> =
                    many.iter_mut().enumerate().map(|(n, found)| (found.as_mut_slice(), number(n) * PAGE)).collect();
                assert!(file.read_many_at(&mut reads).unwrap().iter().all(|bytes| *bytes == PAGE as usize));
                for (n, found) in many.iter().enumerate() {
                    assert!(*found == page(number(n)), "page {}", number(n));
                }
                let at = thread * 400 * PAGE;
                (0..400).for_each(|n| region.write_at(&page(n + round), at + n * PAGE).unwrap());
                file.write_all_at(&page(start), start * PAGE).unwrap();
                file.sync_data().unwrap();
                memory.drop_caches();
            }
        };
        thread::scope(|scope| {
            (0..3).for_each(|thread| drop(scope.spawn(move || rounds(thread))));
            thread::sleep(Duration::from_millis(50));
            refuse(&[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]);
        });
        rounds(3);
        let is_noted = |notice: &Notice| *notice == Notice::NoIoUring { os_error: libc::EPERM };
        assert!(memory.notices().iter().any(is_noted), "{:?}", memory.notices());
        memory.check().unwrap();
        drop((file, region));
        memory.shutdown().unwrap();
    });
}

/// A seccomp filter forbids io_uring to one thread of the application. The library's threads continue to use it.
#[test]
fn io_uring_may_be_refused_to_one_thread() {
    in_child("io_uring_may_be_refused_to_one_thread", || {
        let folder = folder();
        let memory = memory();
        let file = memory.create(folder.path().join("file")).unwrap();
        file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
        file.sync_data().unwrap();
        let read = || {
            memory.drop_caches();
            let mut many = vec![vec![0; PAGE as usize]; 32];
            let mut reads: Vec<(&mut [u8], u64)> =
                many.iter_mut().enumerate().map(|(n, found)| (found.as_mut_slice(), n as u64 * 7 * PAGE)).collect();
            assert!(file.read_many_at(&mut reads).unwrap().iter().all(|bytes| *bytes == PAGE as usize));
            assert!(many.iter().flatten().all(|byte| *byte == 7));
        };
        read();
        let before = memory.notices();
        thread::scope(|scope| {
            scope.spawn(|| {
                refuse_here(&[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]);
                (0..3).for_each(|_| read());
            });
        });
        read();
        assert_eq!(memory.notices(), before);
    });
}

/// Returns this process's address space, bytes.
fn address_space() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").expect("it is there");
    pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * PAGE
}

/// Limits the process to its present address space and `more` bytes.
fn limit_address_space(more: u64) {
    let bytes = address_space() + more;
    rlimit::setrlimit(rlimit::Resource::AS, bytes, bytes).expect("less can always be had");
}

/// A region takes address space only as it is written: even the largest region needs none at the start.
#[test]
fn a_region_of_16_tib_is_made_as_it_is_used() {
    in_child("a_region_of_16_tib_is_made_as_it_is_used", || {
        const BYTES: u64 = (16 << 40) - (4 << 20);
        let memory = memory();
        limit_address_space(16 << 20);
        let region = memory.anonymous(BYTES).unwrap();
        let places = [0, 1 << 30, 1 << 40, BYTES - PAGE];
        places.iter().for_each(|at| region.write_at(&at.to_le_bytes(), *at).unwrap());
        for at in places {
            let mut found = [0; 8];
            region.read_at(&mut found, at).unwrap();
            assert_eq!(u64::from_le_bytes(found), at);
        }
        memory.check().unwrap();
        drop(region);
        memory.shutdown().unwrap();
    });
}

/// A memory of 1 TiB of which little is used takes little memory. The rest costs only address space, and page
/// descriptors take memory at their first use.
#[test]
fn a_memory_of_a_tib_is_taken_as_it_is_used() {
    in_child("a_memory_of_a_tib_is_taken_as_it_is_used", || {
        let resident = || {
            let pages = fs::read_to_string("/proc/self/statm").expect("it is there");
            pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * PAGE
        };
        let before = resident();
        let memory = match builder().size(1 << 40).start() {
            Ok(memory) => memory,
            // The address space for the descriptors is 8 GiB, which may be more than the computer has.
            Err(error) => return assert!(error.to_string().contains("no memory for the descriptors"), "{error}"),
        };
        let region = memory.anonymous(1 << 30).unwrap();
        region.write_at(&[1; 100_000], 0).unwrap();
        assert_eq!(memory.size(), 1 << 40);
        let taken = resident() - before;
        assert!(taken < 64 << 20, "{taken} bytes");
        memory.shutdown().unwrap();
    });
}

/// The process has a limit of address space (`RLIMIT_AS`). When the system refuses memory for this reason, the caller
/// gets an error, and the process is not aborted.
#[test]
fn a_limit_of_address_space_is_an_error() {
    in_child("a_limit_of_address_space_is_an_error", || {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        limit_address_space(1 << 30);
        let mut started = 0;
        for mib in [4, 60, 300, 600, 800, 1100, 1 << 20] {
            let swap = |builder: highwater::Builder| builder.swap(64 << 20).swap_folder(folder.path());
            for memory in [builder().size(mib << 20).start(), swap(builder().size(mib << 20)).start()] {
                let Ok(memory) = memory else { continue };
                started += 1;
                let Ok(file) = memory.open(&path) else { continue };
                let mut bytes = vec![0; 1 << 20];
                if file.read_at(&mut bytes, 0).is_ok() {
                    assert!(bytes.iter().all(|byte| *byte == 7));
                }
                let regions: Vec<_> = (0..50).map_while(|_| memory.anonymous(1 << 40).ok()).collect();
                let places = (0..1 << 40).step_by(1 << 36);
                let written =
                    regions.iter().try_for_each(|region| places.clone().try_for_each(|at| region.write_at(b"x", at)));
                if let Err(error) = written {
                    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
                }
                drop(regions);
                let _ = file.write_all_at(&bytes, 0);
                let _ = file.set_len(1 << 41);
                let _ = file.write_all_at(b"far out", 1 << 40);
                let _ = file.set_len(1 << 20);
                let _ = memory.shutdown();
            }
        }
        assert!(started >= 4, "{started} of 14 memories");
    });
}

/// A process that may open only few files gets errors, or I/O threads instead of io_uring.
#[test]
fn a_limit_of_open_files_is_an_error() {
    in_child("a_limit_of_open_files_is_an_error", || {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let open = fs::read_dir("/proc/self/fd").expect("it is there").count() as u64;
        let (mut opened, mut refused) = (0, 0);
        for limit in (open.saturating_sub(2)..open + 8).rev() {
            rlimit::setrlimit(rlimit::Resource::NOFILE, limit, limit).expect("less can always be had");
            for swaps in [false, true] {
                let builder = Memory::builder().size(8 << 20);
                let builder = if swaps { builder.swap(16 << 20).swap_folder(folder.path()) } else { builder };
                let file = builder.start().and_then(|memory| memory.open(&path).map(|file| (memory, file)));
                let (memory, file) = match file {
                    Ok(both) => both,
                    Err(error) => {
                        let words = error.to_string();
                        assert!(words.contains("Too many open files"), "with {limit} descriptors: {words}");
                        refused += 1;
                        continue;
                    }
                };
                opened += 1;
                let mut many = vec![vec![0; PAGE as usize]; 32];
                let mut reads: Vec<(&mut [u8], u64)> =
                    many.iter_mut().enumerate().map(|(n, found)| (found.as_mut_slice(), n as u64 * 7 * PAGE)).collect();
                assert!(file.read_many_at(&mut reads).unwrap().iter().all(|bytes| *bytes == PAGE as usize));
                assert!(many.iter().flatten().all(|byte| *byte == 7));
                file.write_all_at(&[7; 100], 0).unwrap();
                file.sync_data().unwrap();
                memory.shutdown().unwrap();
            }
        }
        assert!(opened >= 4 && refused >= 4, "{opened} of 20 files, {refused} errors");
    });
}

/// Makes the system calls `calls` fail with EPERM in all threads of the process.
fn refuse(calls: &[i64]) {
    seccompiler::apply_filter_all_threads(&filter(calls)).expect("filters are granted");
}

/// Makes the system calls `calls` fail with EPERM in this thread only.
fn refuse_here(calls: &[i64]) {
    seccompiler::apply_filter(&filter(calls)).expect("filters are granted");
}

fn filter(calls: &[i64]) -> seccompiler::BpfProgram {
    use seccompiler::{SeccompAction, SeccompFilter};
    let arch = std::env::consts::ARCH.try_into().expect("a processor with filters");
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).expect("a filter");
    filter.try_into().expect("it is short")
}
