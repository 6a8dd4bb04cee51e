//! Tests of the library as an application uses it, on real files: nothing is lost, and errors reach the affected
//! callers.

mod common;

use common::pages::{Chance, PAGE, check_file, page, soak_seconds, use_region};
use common::{builder, folder, memory};
use highwater::{Builder, Error, IoError, Memory, OpenOptions, Order};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Four threads share 8 MiB of memory and use 32 MiB. Two threads have a file each, which they write, read, lengthen,
/// truncate, sync and drop from memory; two have a region each. They access pages by copy and in place. The test takes
/// three seconds, or as many as HIGHWATER_SOAK_SECONDS says.
#[test]
fn nothing_is_lost_with_four_times_the_memory_in_use() {
    use_four_times_the_memory(builder());
}

/// Four threads use four times as much memory as there is, with checksums of files turned on. No checksum reports an
/// error, and nothing is lost.
#[test]
fn nothing_is_lost_with_checksums() {
    use_four_times_the_memory(builder().checksums(true));
}

/// With the multi-generational LRU of Linux 7.2, four threads use four times the memory, and nothing is lost.
#[test]
fn nothing_is_lost_with_generations() {
    use_four_times_the_memory(builder().kernel("7.2-mglru"));
}

fn use_four_times_the_memory(builder: highwater::Builder) {
    let folder = folder();
    let seconds = soak_seconds(3);
    let memory = builder.swap(64 << 20).swap_folder(folder.path()).start().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let operations: u64 = std::thread::scope(|scope| {
        let (memory, folder) = (&memory, folder.path());
        let work = |n: u64| {
            scope.spawn(move || {
                let is_done = || Instant::now() >= end;
                if n < 2 { use_file(memory, folder, n, end) } else { use_region(memory, n, OWN_PAGES, is_done) }
            })
        };
        let threads: Vec<_> = (0..4).map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread failed")).sum()
    });
    let vmstat = memory.vmstat();
    memory.check().unwrap();
    assert!(vmstat.get("pgsteal_kswapd_normal") > 0 && vmstat.get("pswpin") > 0, "memory was never short: {vmstat}");
    memory.shutdown().unwrap();
    println!("{operations} operations in {seconds} s, every byte as written");
}

const OWN_PAGES: u64 = 2048;

fn use_file(memory: &Memory, folder: &Path, n: u64, end: Instant) -> u64 {
    let path = folder.join(format!("file {n}"));
    let file = memory.create(&path).unwrap();
    let mut chance = Chance(n + 1);
    let mut versions = vec![0; OWN_PAGES as usize];
    let mut operations = 0;
    let mut found = vec![0; PAGE as usize];
    while Instant::now() < end {
        operations += 1;
        let number = chance.below(OWN_PAGES);
        let pages = file.len() / PAGE;
        let version = &mut versions[number as usize];
        match chance.below(1000) {
            0..400 => {
                *version = operations;
                file.write_all_at(&page(number, operations), number * PAGE).unwrap();
            }
            400..500 if number < pages => {
                *version = operations;
                file.page_mut(number).unwrap().copy_from_slice(&page(number, operations));
            }
            500..700 if number < pages => {
                assert!(
                    file.page(number).unwrap()[..] == page(number, *version)[..],
                    "file {n}, page {number} in place"
                );
            }
            998 => {
                let keep = pages / 2 + chance.below(pages / 2 + 1);
                file.set_len(keep * PAGE).unwrap();
                versions[keep as usize..].fill(0);
            }
            999 => {
                file.sync_data().unwrap();
                let len = file.len();
                assert_eq!(fs::metadata(&path).unwrap().len(), len);
                // Other programs that read the file find durable data, too.
                let other = fs::File::open(&path).unwrap();
                let number = number.min((len / PAGE).saturating_sub(1));
                if len > 0 {
                    other.read_exact_at(&mut found, number * PAGE).unwrap();
                    assert!(found == page(number, versions[number as usize]), "file {n}, page {number} after sync");
                }
            }
            997 => {
                memory.drop_caches();
            }
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

/// `Memory::check` may be called between operations. It stops the memory's threads and starts them again, so that
/// kswapd continues to free pages.
#[test]
fn everything_is_in_its_place_at_any_time() {
    let folder = folder();
    let memory = builder().size(4 << 20).swap(64 << 20).swap_folder(folder.path()).start().unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    let region = memory.anonymous(OWN_PAGES * PAGE).unwrap();
    let stolen_by_kswapd = || memory.vmstat().get("pgsteal_kswapd_normal");
    let mut at_first = None;
    for round in 0..20 {
        for number in 0..OWN_PAGES {
            region.write_at(&page(number, round + 1), number * PAGE).unwrap();
            file.write_all_at(&page(number, round + 1), number * PAGE).unwrap();
        }
        memory.check().unwrap();
        at_first.get_or_insert_with(stolen_by_kswapd);
    }
    assert!(Some(stolen_by_kswapd()) > at_first, "kswapd went on");
    memory.shutdown().unwrap();
}

#[test]
fn a_file_keeps_its_length_to_the_byte() {
    let folder = folder();
    let path = folder.path().join("short");
    let memory = memory();
    let file = memory.create(&path).unwrap();
    file.write_all_at(b"ten bytes!", 5000).unwrap();
    file.sync_all().unwrap();
    assert_eq!((file.len(), fs::metadata(&path).unwrap().len()), (5010, 5010));
    let again = memory.open(&path).unwrap();
    let mut found = [1; 20];
    assert_eq!(again.read_at(&mut found, 4996).unwrap(), 14);
    assert_eq!(&found[..14], b"\0\0\0\0ten bytes!");
    assert_eq!(again.page(1).unwrap()[910..914], *b"tes!");
    assert_eq!(again.page(1).unwrap()[914..], [0; 4096 - 914]);
    drop((file, again));
    assert_eq!(fs::read(&path).unwrap().len(), 5010);
    memory.shutdown().unwrap();
}

#[test]
fn handles_of_one_file_share_its_pages() {
    let folder = folder();
    let path = folder.path().join("shared");
    let memory = memory();
    let (first, second) = (memory.create(&path).unwrap(), memory.open(&path).unwrap());
    first.write_all_at(b"seen", 0).unwrap();
    let mut found = [0; 4];
    second.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"seen");
    drop(first);
    second.sync_data().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"seen");
}

#[test]
fn wrong_use_is_an_error_that_names_what_was_wrong() {
    let folder = folder();
    let path = folder.path().join("read only");
    fs::write(&path, [7; 5000]).unwrap();
    let memory = memory();
    let file = OpenOptions::new().open(&memory, &path).unwrap();
    let words = |error: Error| error.to_string();
    let shown = path.display();
    assert_eq!(words(file.write_at(b"x", 0).unwrap_err()), format!("{shown}: opened for reading only"));
    for page in [2, 1 << 26, 1 << 32, 1 << 40, u64::MAX] {
        let after = format!("page {page} is after the end: there are 2 pages");
        assert_eq!(words(file.page(page).unwrap_err()), after);
    }
    assert!(words(file.read_exact_at(&mut [0; 2], 4999).unwrap_err()).starts_with(&format!("{shown}: ")));
    let missing = words(memory.open(folder.path().join("missing")).unwrap_err());
    assert!(missing.contains("missing: cannot open the file: No such file"), "{missing}");
    let region = memory.anonymous(10_000).unwrap();
    assert!(region.page(2).is_ok());
    assert_eq!(words(region.page(3).unwrap_err()), "page 3 is after the end: there are 3 pages");
    let after = words(region.write_at(b"xy", 9_999).unwrap_err());
    assert_eq!(after, "2 bytes at byte 9999 do not lie within the region: it has 10000 bytes");
    let too_long = words(memory.anonymous(1 << 44).unwrap_err());
    assert_eq!(too_long, "17592186044416 bytes are too many for a file or region: 17592181850112 are the most");

    let error = |builder: Builder| words(builder.start().unwrap_err());
    let few = "size: 1048576 bytes of memory are too few: at least 4194304 are needed";
    assert_eq!(error(Memory::builder().size(1 << 20)), few);
    let unknown = error(Memory::builder().kernel("nonesuch"));
    assert!(unknown.starts_with("there is no kernel `nonesuch`, only 3.10-rc4-vanilla, "), "{unknown}");
    assert!(unknown.ends_with(", highwater"), "{unknown}");
    let kernel = folder.path().join("mine.toml");
    fs::write(&kernel, "base = \"highwater\"\n[lru]\nactivaton = \"at-scan\"\n").unwrap();
    let message = error(Memory::builder().kernel(kernel.display().to_string()));
    assert!(message.contains("mine.toml:3") && message.contains("activation"), "{message}");
    let many = "size: 17592186044416 bytes of memory are too many: 4398046511104 are the most";
    assert_eq!(error(Memory::builder().size(1 << 44)), many);
    let fewer = "size_max: 8388608 bytes are fewer than `size`, 16777216";
    assert_eq!(error(Memory::builder().size(16 << 20).size_max(8 << 20)), fewer);
    assert_eq!(error(Memory::builder().shards(0)), "shards: 0 cannot be: 1 to 1024 can");
    assert_eq!(error(Memory::builder().io_threads(2000)), "io_threads: 2000 cannot be: 1 to 1024 can");
    let other = folder.path().join("other");
    fs::write(&other, [7; 5000]).unwrap();
    let foreign = error(builder().swap(1 << 20).swap_file(&other));
    assert!(foreign.contains("not a swap file but a file that begins with"), "{foreign}");
    assert_eq!(fs::read(&other).unwrap(), [7; 5000]);
}

/// A swap file that is in use cannot be opened as a data file: not through its own [`Memory`], not through another
/// `Memory` of the process, and not by a second hard link.
#[test]
fn a_swap_file_that_is_used_cannot_be_opened() {
    let folder = folder();
    let path = folder.path().join("swap");
    let memory = builder().swap(8 << 20).swap_file(&path).start().unwrap();
    let link = folder.path().join("link");
    fs::hard_link(&path, &link).unwrap();
    let other = self::memory();
    for (memory, path) in [(&memory, &path), (&memory, &link), (&other, &path)] {
        let error = memory.open(path).unwrap_err().to_string();
        assert!(error.ends_with(": cannot open the file: it is a swap file of this process"), "{error}");
        assert!(memory.create(path).is_err() && OpenOptions::new().open(memory, path).is_err());
    }
    memory.shutdown().unwrap();
    assert!(other.open(&path).is_ok());
}

/// An empty file may become a swap file, but not while any [`Memory`] of this process has the file open.
#[test]
fn an_open_file_is_nobodys_swap() {
    let folder = folder();
    let path = folder.path().join("data");
    fs::write(&path, []).unwrap();
    let (memory, other) = (memory(), memory());
    let reading = OpenOptions::new();
    let (file, again) = (reading.open(&memory, &path).unwrap(), reading.open(&other, &path).unwrap());
    for _ in 0..2 {
        let error = builder().swap(8 << 20).swap_file(&path).start().unwrap_err().to_string();
        assert!(
            error.ends_with("not a swap file but a file that this process has open; it was not touched"),
            "{error}"
        );
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert!(reading.open(&memory, &path).is_ok(), "a handle that goes while another stays changes nothing");
    }
    drop(file);
    assert!(builder().swap(8 << 20).swap_file(&path).start().is_err());
    drop(again);
    builder().swap(8 << 20).swap_file(&path).start().unwrap().shutdown().unwrap();
}

/// A page has the largest possible number of read guards. One more guard is refused with an error, and the caller does
/// not wait for ever.
#[test]
fn a_page_has_so_many_readers_and_no_more() {
    const MOST: usize = engine::memory::READERS_MAX as usize;
    let folder = folder();
    let memory = memory();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&page(0, 1), 0).unwrap();
    let region = memory.anonymous(PAGE).unwrap();
    region.write_at(&page(0, 1), 0).unwrap();
    let refused = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::TooManyReaders { page: 0 }), "{error}");
    };
    for round in 0..2 {
        let mut guards: Vec<_> = (0..MOST).map(|_| file.page(0).unwrap()).collect();
        refused(file.page(0).map(drop));
        refused(file.read_at(&mut [0; 10], 0).map(drop));
        drop(guards.pop());
        assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 10, "round {round}");
        drop(guards);
        drop(file.page_mut(0).unwrap());
        let guards: Vec<_> = (0..MOST).map(|_| region.page(0).unwrap()).collect();
        refused(region.page(0).map(drop));
        refused(region.read_at(&mut [0; 10], 0));
        drop(guards);
        drop(region.page_mut(0).unwrap());
    }
    memory.check().unwrap();
}

/// Pages are pinned until memory is exhausted and no page can be freed. After they are released, all of them can be
/// freed for the next reader.
#[test]
fn pages_that_were_held_while_memory_was_exhausted_can_be_freed_afterwards() {
    let folder = folder();
    let memory = builder().size(4 << 20).start().unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    let pages = 4096;
    (0..pages).for_each(|number| file.write_all_at(&page(number, 1), number * PAGE).unwrap());
    file.sync_data().unwrap();
    let mut chance = Chance(1);
    let mut found = vec![0; PAGE as usize];
    for _ in 0..3 {
        let mut guards = Vec::new();
        let error = loop {
            match file.page(chance.below(pages)) {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert!(guards.len() > 700, "{} pages: {error}; {}", guards.len(), memory.vmstat());
        drop(guards);
        for _ in 0..2000 {
            let number = chance.below(pages);
            file.read_exact_at(&mut found, number * PAGE).unwrap();
            assert!(found == page(number, 1), "page {number}");
        }
    }
    // Pins many pages, but not all, again and again.
    for _ in 0..30 {
        let guards: Vec<_> = (0..600).map(|_| file.page(chance.below(pages)).unwrap()).collect();
        drop(guards);
    }
    memory.check().unwrap();
}

/// A page far into a file needs a large index. If the system grants no memory for it, the writer gets an error.
#[test]
fn a_refused_index_is_an_error_to_who_needs_it() {
    const CHILD: &str = "HIGHWATER_TEST_FAR";
    const FAR: u64 = 15 << 40;
    if let Ok(path) = std::env::var(CHILD) {
        let memory = memory();
        let file = memory.create(path).unwrap();
        file.write_all_at(&page(1, 1), PAGE).unwrap();
        // Limits the process to 1 GiB more address space.
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        let bytes = pages.split(' ').next().unwrap().parse::<u64>().unwrap() * PAGE + (1 << 30);
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: the call only reads the limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let error = file.write_at(&page(2, 2), FAR).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert!(error.to_string().contains("no memory for the index of the file up to byte"), "{error}");
        assert_eq!(file.len(), 2 * PAGE);
        assert!(file.page(1).unwrap()[..] == page(1, 1)[..]);
        memory.check().unwrap();
        drop(file);
        memory.shutdown().unwrap();
        return;
    }
    let folder = folder();
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_refused_index_is_an_error_to_who_needs_it", "--nocapture"])
        .env(CHILD, folder.path().join("file"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
}

/// A file has a hole of 4 TiB before its last page. No operation takes longer because of the hole.
#[test]
fn a_hole_of_terabytes_costs_nothing() {
    const FAR: u64 = 4 << 40;
    let folder = folder();
    let memory = builder().checksums(true).start().unwrap();
    let path = folder.path().join("sparse");
    let mut found = vec![0; PAGE as usize];
    for round in 0..20 {
        let file = memory.create(&path).unwrap();
        for number in [3, FAR / PAGE] {
            if let Err(error) = file.write_all_at(&page(number, round + 1), number * PAGE) {
                return println!("skipped: {error}");
            }
        }
        match file.sync_data() {
            Ok(()) => {}
            // EFBIG: not every file system allows files of this size.
            Err(Error::Write { source: IoError::Os(27), .. }) => return println!("skipped: no files of 4 TiB here"),
            Err(error) => panic!("{error}"),
        }
        memory.drop_caches();
        for number in [3, FAR / PAGE] {
            file.read_exact_at(&mut found, number * PAGE).unwrap();
            assert!(found == page(number, round + 1), "page {number}");
        }
        file.set_len(FAR - 5).unwrap();
        file.set_len(100 * PAGE).unwrap();
    }
    memory.check().unwrap();
}

/// Another process truncates a file. A reader of a lost page gets an error that names the file and the page; readers of
/// other pages get no error.
#[test]
fn a_file_that_somebody_else_cut_is_an_error_to_who_reads_what_is_gone() {
    let folder = folder();
    let path = folder.path().join("cut");
    fs::write(&path, [7; 20 * 4096]).unwrap();
    let memory = memory();
    let file = memory.open(&path).unwrap();
    file.advise(0..0, highwater::Advice::Random);
    assert_eq!(file.page(3).unwrap()[0], 7);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10 * PAGE).unwrap();
    let error = file.page(15).unwrap_err();
    let expected = format!("{}: read at byte {} failed: the file ended early", path.display(), 15 * PAGE);
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(matches!(error, Error::Read { source: IoError::Truncated, .. }));
    assert_eq!(file.page(9).unwrap()[0], 7);
}

/// With checksums, a read of a page that another program has changed on the disk returns an error.
#[test]
fn what_something_else_has_changed_is_an_error_to_who_reads_it() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = builder().checksums(true).start().unwrap();
    let file = memory.create(&path).unwrap();
    file.advise(0..0, highwater::Advice::Random);
    (0..100).for_each(|number| file.write_all_at(&page(number, 1), number * PAGE).unwrap());
    file.sync_data().unwrap();
    memory.drop_caches();
    let other = fs::OpenOptions::new().write(true).open(&path).unwrap();
    other.write_all_at(b"!", 70 * PAGE + 9).unwrap();
    other.sync_all().unwrap();
    let error = file.page(70).unwrap_err();
    let expected = format!("{}: read at byte {} failed: the contents are not", path.display(), 70 * PAGE);
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(matches!(error, Error::Read { source: IoError::Checksum, .. }));
    assert!(file.page(69).unwrap()[..] == page(69, 1)[..]);
    // Once this process has written a wrong page again, the page can be read.
    file.write_all_at(&page(70, 2), 70 * PAGE).unwrap();
    file.sync_data().unwrap();
    memory.drop_caches();
    assert!(file.page(70).unwrap()[..] == page(70, 2)[..]);
}

/// A truncation fails because the page at the new end cannot be read. The file keeps its length. Later another process
/// truncates the file, and readers of the lost bytes get errors.
#[test]
fn a_file_that_could_not_be_cut_is_as_long_as_it_was() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = builder().checksums(true).start().unwrap();
    let file = memory.create(&path).unwrap();
    file.advise(0..0, highwater::Advice::Random);
    (0..20).for_each(|number| file.write_all_at(&page(number, 1), number * PAGE).unwrap());
    file.sync_data().unwrap();
    memory.drop_caches();
    let other = fs::OpenOptions::new().write(true).open(&path).unwrap();
    [5, 12].iter().for_each(|number| other.write_all_at(b"!", number * PAGE).unwrap());
    other.sync_all().unwrap();
    // Five more pages are written, which are dirty and not on the disk yet.
    (20..25).for_each(|number| file.write_all_at(&page(number, 1), number * PAGE).unwrap());
    let error = file.set_len(5 * PAGE + 100).unwrap_err();
    assert!(matches!(error, Error::Read { source: IoError::Checksum, .. }), "{error}");
    assert_eq!(file.len(), 25 * PAGE);
    let error = file.page(12).unwrap_err();
    assert!(matches!(error, Error::Read { source: IoError::Checksum, .. }), "{error}");
    assert!(file.page(19).unwrap()[..] == page(19, 1)[..]);
    other.set_len(10 * PAGE).unwrap();
    let error = file.page(15).unwrap_err();
    assert!(matches!(error, Error::Read { source: IoError::Truncated, .. }), "{error}");
}

/// The system refuses writes beyond a limit of file size. Writers of the file get errors with the file's name and the
/// cause before dirty pages of this file fill the memory. Other files are written as before.
#[test]
fn a_write_to_a_file_that_cannot_be_written_is_refused() {
    const CHILD: &str = "HIGHWATER_TEST_REFUSED";
    if let Ok(path) = std::env::var(CHILD) {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        // SAFETY: the calls only read the limit, and set no signal handler.
        unsafe {
            assert_ne!(libc::signal(libc::SIGXFSZ, libc::SIG_IGN), libc::SIG_ERR);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        }
        let memory = memory();
        let file = memory.create(&path).unwrap();
        let mut numbers = 0..1 << 20;
        let failed = numbers.find_map(|number| file.write_at(&page(number, 1), number * PAGE).err());
        let error = failed.expect("4 GiB do not fit");
        assert!(matches!(&error, Error::Write { source: IoError::NoSpace, .. }), "{error}");
        assert!(error.to_string().starts_with(&path), "{error}");
        // After the first refusal a few more writes may succeed: the dirty limit depends on free memory, and pages
        // whose write is being repeated do not count as dirty.
        let refused = numbers.find_map(|number| {
            let refused = file.page_mut(0).err();
            let _ = file.write_at(&page(number, 1), number * PAGE);
            refused
        });
        assert!(matches!(refused, Some(Error::Write { .. })), "{refused:?}");
        assert!(memory.vmstat().get("nr_write_failed") > 0);
        let other = memory.create(format!("{path}.other")).unwrap();
        (0..200).for_each(|number| other.write_all_at(&page(number, 2), number * PAGE).unwrap());
        other.sync_data().unwrap();
        file.sync_data().expect_err("what lies after the limit cannot be written");
        // The file is truncated before the pages that cannot be written. All other pages can then be written.
        file.set_len(1 << 20).unwrap();
        let _ = file.sync_data();
        file.sync_data().unwrap();
        assert_eq!(memory.vmstat().get("nr_write_failed"), 0);
        file.write_all_at(&page(7, 3), 7 * PAGE).unwrap();
        drop(other);
        drop(file);
        memory.check().unwrap();
        memory.shutdown().unwrap();
        return;
    }
    let folder = folder();
    let path = folder.path().join("file");
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_write_to_a_file_that_cannot_be_written_is_refused", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let (found, others) = (fs::read(&path).unwrap(), fs::read(format!("{}.other", path.display())).unwrap());
    for (number, found) in (0..).zip(found.chunks(PAGE as usize)) {
        assert!(found == page(number, if number == 7 { 3 } else { 1 }), "page {number}");
    }
    assert_eq!((found.len(), others.len()), (1 << 20, 200 * PAGE as usize));
    assert!((0..).zip(others.chunks(PAGE as usize)).all(|(number, found)| found == page(number, 2)));
}

/// One bit of a swapped page flips in the swap file. Each read of this page returns an error; all other pages are
/// right.
#[test]
fn a_bit_that_turns_over_in_swap_is_an_error_to_who_reads_its_page() {
    use std::os::unix::fs::OpenOptionsExt;
    const REGION_PAGES: u64 = 4096;
    let folder = folder();
    let path = folder.path().join("swap");
    let memory = builder().size(4 << 20).swap(32 << 20).swap_file(&path).checksums(true).start().unwrap();
    let region = memory.anonymous(REGION_PAGES * PAGE).unwrap();
    (0..REGION_PAGES).for_each(|number| region.write_at(&page(number, 1), number * PAGE).unwrap());

    // The test bypasses the system's page cache, as the library does. Otherwise neither would see the other's writes.
    let direct = fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path);
    let Ok(swap) = direct else { return println!("skipped: no O_DIRECT in {}", folder.path().display()) };
    let mut buffer = vec![0; 2 * PAGE as usize];
    let aligned = buffer.as_ptr().align_offset(PAGE as usize);
    let block = &mut buffer[aligned..aligned + PAGE as usize];
    let mut find = || {
        for at in (PAGE..32 << 20).step_by(PAGE as usize) {
            swap.read_exact_at(block, at).unwrap();
            // The pages that were written first have left memory long ago.
            if let Some(number) = (100..200).find(|number| block == page(*number, 1)) {
                block[1234] ^= 1 << 5;
                swap.write_all_at(block, at).unwrap();
                return number;
            }
        }
        panic!("none of the first pages is in swap");
    };
    let victim = find();
    let mut found = vec![0; PAGE as usize];
    for _ in 0..2 {
        for number in 0..REGION_PAGES {
            match region.read_at(&mut found, number * PAGE) {
                Ok(()) => assert!(number != victim && found == page(number, 1), "page {number}"),
                Err(Error::SwapRead { source: IoError::Checksum, .. }) => assert_eq!(number, victim),
                Err(error) => panic!("page {number}: {error}"),
            }
        }
    }
    drop(region);
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

/// Threads read, write, sync, truncate and drop pages of one file at the same time. Checksums report no error, and no
/// page is torn.
#[test]
fn checksums_raise_no_false_alarm() {
    const PAGES: u64 = 3000;
    let folder = folder();
    let memory = builder().size(4 << 20).checksums(true).start().unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.set_len(PAGES * PAGE).unwrap();
    let end = Instant::now() + Duration::from_secs(soak_seconds(3));
    let is_whole = |bytes: &[u8]| {
        // The file may have been truncated within the page and lengthened again; the rest of the page is then zero.
        let cut = bytes.iter().position(|byte| *byte != bytes[0]).unwrap_or(bytes.len());
        bytes[cut..].iter().all(|byte| *byte == 0)
    };
    // The file may be truncated before the page is read, which is an `OutOfRange`. No other error is allowed.
    let there = |result: Result<bool, Error>| match result {
        Ok(is_right) => assert!(is_right, "a page is torn"),
        Err(Error::OutOfRange { .. }) => {}
        Err(error) => panic!("{error}"),
    };
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (file, memory) = (&file, &memory);
            scope.spawn(move || {
                let mut chance = Chance(n);
                let mut buffers = vec![vec![0; PAGE as usize]; 16];
                while Instant::now() < end {
                    let number = chance.below(PAGES);
                    match chance.below(1000) {
                        0..300 => there(file.page(number).map(|page| is_whole(&page))),
                        300..600 => there(file.page_mut(number).map(|mut page| {
                            page.fill(chance.below(255) as u8 + 1);
                            true
                        })),
                        600..700 => {
                            let bytes = [chance.below(255) as u8 + 1; PAGE as usize];
                            file.write_all_at(&bytes, number * PAGE).unwrap();
                        }
                        700..980 => {
                            let mut reads: Vec<(&mut [u8], u64)> =
                                buffers.iter_mut().map(|b| (b.as_mut_slice(), chance.below(PAGES) * PAGE)).collect();
                            let counts = file.read_many_at(&mut reads).unwrap();
                            let mut found = buffers.iter().zip(counts).map(|(bytes, count)| &bytes[..count]);
                            there(Ok(found.all(|bytes| bytes.is_empty() || is_whole(bytes))));
                        }
                        980..990 => file.set_len(PAGES * PAGE).unwrap(),
                        990..994 => file.set_len(number * PAGE + chance.below(PAGE)).unwrap(),
                        994..997 => drop(memory.drop_caches()),
                        _ => file.sync_data().unwrap(),
                    }
                }
            });
        }
    });
    file.sync_all().unwrap();
    drop(file);
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

/// Three threads append records to one file, and each syncs after each record. A sync sets the file's length in the
/// system, and must not cut off a record that another thread has appended meanwhile.
#[test]
fn a_sync_cuts_nothing_off_that_others_append() {
    const RECORD: u64 = 777;
    let folder = folder();
    let path = folder.path().join("log");
    let memory = memory();
    let log = memory.create(&path).unwrap();
    let next = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        let append = || {
            for _ in 0..150 {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let record = vec![(number % 255) as u8 + 1; RECORD as usize];
                log.write_all_at(&record, number * RECORD).unwrap();
                log.sync_data().unwrap();
                // The contents are compared only at the end. A read here would go through the system's page cache, and
                // disturb the writes of other threads, which bypass it.
                assert!(fs::metadata(&path).unwrap().len() >= (number + 1) * RECORD, "record {number} was synced");
                if number.is_multiple_of(16) {
                    memory.drop_caches();
                }
            }
        };
        (0..3).for_each(|_| drop(scope.spawn(append)));
    });
    memory.check().unwrap();
    drop(log);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, 450 * RECORD);
    for (number, record) in bytes.chunks(RECORD as usize).enumerate() {
        assert!(record.iter().all(|byte| *byte == (number % 255) as u8 + 1), "record {number}");
    }
}

/// One thread drops the last handle of a file while another opens the file. The file keeps its length.
#[test]
fn a_file_is_whole_for_who_opens_it_while_its_last_handle_goes() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = memory();
    for round in 0..40 {
        let file = memory.create(&path).unwrap();
        file.write_all_at(&[7; 100_001], 0).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(file));
            scope.spawn(|| assert_eq!(memory.open(&path).unwrap().len(), 100_001, "round {round}"));
        });
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_001, "round {round}");
    }
    // Dropping a handle through which nothing was written does not truncate what another program has appended.
    let idle = memory.open(&path).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap();
    drop(idle);
    assert_eq!(fs::metadata(&path).unwrap().len(), 100_005);
}

/// Only regular files and block devices are opened. Setting a length that the system refuses changes nothing.
#[test]
fn what_is_no_file_is_refused_and_a_refused_length_changes_nothing() {
    let folder = folder();
    let memory = memory();
    for (path, word) in [(folder.path(), "folder"), (Path::new("/dev/null"), "neither")] {
        let error = OpenOptions::new().open(&memory, path).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&[1; 5000], 0).unwrap();
    // Most file systems refuse a file of nearly 16 TiB. If this one accepts it, it must also be shortened again.
    match file.set_len((1 << 44) - (8 << 20)) {
        Ok(()) => file.set_len(5000).unwrap(),
        Err(_) => assert_eq!(file.len(), 5000),
    }
    file.sync_data().unwrap();
}

/// A write guard gives access to the whole last page of a file, of which only the first bytes are in the file. The
/// program fills the page through the guard. The bytes after the end of the file must read as zeroes, and must not be
/// written.
#[test]
fn bytes_after_the_end_are_zeroes_whatever_a_guard_left_there() {
    let folder = folder();
    let memory = builder().checksums(true).start().unwrap();
    let file = memory.create(folder.path().join("file")).unwrap();
    file.write_all_at(&[1; 5000], 0).unwrap();
    file.page_mut(1).unwrap().fill(7);
    assert!(file.page(1).unwrap()[5000 - 4096..].iter().all(|byte| *byte == 0));
    file.sync_data().unwrap();
    memory.drop_caches();
    let mut found = [9; 4096];
    assert_eq!(file.read_at(&mut found, 4096).unwrap(), 904);
    assert!(found[..904].iter().all(|byte| *byte == 7));
    file.set_len(8192).unwrap();
    assert!(file.page(1).unwrap()[904..].iter().all(|byte| *byte == 0));
    memory.check().unwrap();
}

/// Threads write parts of pages, which must be read from the disk first, while another thread truncates the file and
/// lengthens it again.
#[test]
fn a_file_may_be_cut_while_others_write_parts_of_its_pages() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = memory();
    let file = memory.create(&path).unwrap();
    file.set_len(64 * PAGE).unwrap();
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (file, memory) = (&file, &memory);
            scope.spawn(move || {
                let mut chance = Chance(n);
                for round in 0..2000 {
                    file.write_all_at(&[n as u8 + 1; 100], chance.below(64) * PAGE + 50).unwrap();
                    if round % 8 == 0 {
                        memory.drop_caches();
                    }
                }
            });
        }
        let mut chance = Chance(9);
        for _ in 0..300 {
            file.set_len(chance.below(64) * PAGE + 10).unwrap();
            file.set_len(64 * PAGE).unwrap();
        }
    });
    file.sync_data().unwrap();
    memory.check().unwrap();
    assert_eq!(memory.vmstat().get("nr_dirty"), 0);
    drop(file);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, 64 * PAGE);
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == 0 || (50..150).contains(&(at % 4096)) && *byte <= 2));
}

/// A batch of reads returns the same bytes as single reads, whether the pages are in memory or not, and stops at the
/// end of the file.
#[test]
fn many_reads_at_once_find_what_single_reads_find() {
    let folder = folder();
    let memory = memory();
    let file = memory.create(folder.path().join("file")).unwrap();
    (0..5000).for_each(|number| file.write_all_at(&page(number, 1), number * PAGE).unwrap());
    file.set_len(5000 * PAGE - 100).unwrap();
    let mut chance = Chance(3);
    for round in 0..20 {
        let offsets: Vec<u64> = (0..200).map(|_| chance.below(5010 * PAGE)).collect();
        let lengths: Vec<usize> =
            (0..200).map(|_| chance.below(if round == 0 { 1 << 20 } else { 9000 }) as usize).collect();
        let mut buffers: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0; *length]).collect();
        let mut reads: Vec<(&mut [u8], u64)> =
            buffers.iter_mut().map(Vec::as_mut_slice).zip(offsets.iter().copied()).collect();
        let counts = file.read_many_at(&mut reads).unwrap();
        assert_eq!(counts.len(), 200);
        for (((found, offset), length), count) in buffers.iter().zip(&offsets).zip(lengths).zip(counts) {
            let mut expected = vec![0; length];
            assert_eq!(file.read_at(&mut expected, *offset).unwrap(), count);
            assert!(found[..count] == expected[..count], "{count} bytes at {offset}");
        }
    }
    assert_eq!(file.read_many_at(&mut []).unwrap(), Vec::<usize>::new());
}

/// One page is written in each of many regions. Each region also needs a page for its page table, which cannot be
/// evicted. Page tables must not take all memory: at some point a write to a new region is refused, and existing files
/// and regions continue to work.
#[test]
fn tables_of_many_regions_leave_memory_to_others() {
    let folder = folder();
    let memory = builder().swap(64 << 20).swap_folder(folder.path()).start().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![7; 2 << 20]).unwrap();
    let file = memory.open(&path).unwrap();
    let mut regions = Vec::new();
    let refused = loop {
        let region = memory.anonymous(PAGE).unwrap();
        match region.write_at(&[regions.len() as u8], 0) {
            Ok(()) => regions.push(region),
            Err(error) => break error,
        }
        assert!(regions.len() < 3000, "tables of {} regions in 2048 pages", regions.len());
    };
    assert!(matches!(refused, Error::OutOfMemory { .. }) && refused.to_string().contains("page tables"), "{refused}");
    assert!(regions.len() > 500, "{} regions, of 2048 pages", regions.len());
    assert_eq!(memory.vmstat().get("nr_page_table_pages"), regions.len() as u64);
    file.read_exact_at(&mut vec![0; 2 << 20], 0).unwrap();
    file.write_all_at(&[1; 100_000], 0).unwrap();
    file.sync_data().unwrap();
    for (n, region) in regions.iter().enumerate() {
        assert_eq!(region.page(0).unwrap()[0], n as u8);
        region.write_at(&[n as u8], 1).unwrap();
    }
    memory.check().unwrap();
    // Dropped regions free the pages of their page tables.
    regions.truncate(100);
    memory.anonymous(PAGE).unwrap().write_at(&[1], 0).unwrap();
    memory.check().unwrap();
}

/// Page tables and contiguous blocks, which cannot be reclaimed, take at most half of memory, in whichever order a
/// program makes them, and also after the memory became smaller. Files can always be read and written.
#[test]
fn what_cannot_be_reclaimed_leaves_memory_to_others() {
    let folder = folder();
    let memory = builder().size(16 << 20).swap(64 << 20).swap_folder(folder.path()).start().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![7; 2 << 20]).unwrap();
    let file = memory.open(&path).unwrap();
    let use_file = || {
        file.read_exact_at(&mut vec![0; 2 << 20], 0).unwrap();
        file.write_all_at(&[1; 100_000], 0).unwrap();
        file.sync_data().unwrap();
    };
    let new_region = || {
        let region = memory.anonymous(PAGE).unwrap();
        region.write_at(&[1], 0).map(|()| region)
    };
    let new_block = || memory.contiguous(Order(0));
    let refused = |error: Error, words: &str| {
        assert!(matches!(error, Error::OutOfMemory { .. }) && error.to_string().contains(words), "{error}");
    };
    let mut blocks: Vec<_> = (0..1500).map(|_| new_block().unwrap()).collect();
    let mut regions = Vec::new();
    let error = loop {
        match new_region() {
            Ok(region) => regions.push(region),
            Err(error) => break error,
        }
    };
    refused(error, "and contiguous blocks 1500, which together is half of memory");
    assert_eq!(regions.len() + blocks.len(), 2048);
    refused(new_block().unwrap_err(), "no contiguous block of order 0: page tables and contiguous blocks take 2048 of");
    use_file();
    // The memory would be smaller than twice the tables and blocks.
    refused(memory.resize(12 << 20).unwrap_err(), "page tables and contiguous blocks take 2048 pages");
    assert_eq!(memory.size(), 16 << 20);
    // A dropped block makes room for a table, and a dropped region for a block.
    drop(blocks.pop());
    regions.push(new_region().unwrap());
    drop(regions.pop());
    blocks.push(new_block().unwrap());
    blocks.truncate(700);
    memory.resize(12 << 20).unwrap();
    while let Ok(block) = new_block() {
        blocks.push(block);
    }
    assert_eq!(regions.len() + blocks.len(), 1536);
    use_file();
    assert!(regions.iter().all(|region| region.page(0).unwrap()[0] == 1));
    memory.check().unwrap();
}

/// Swap is full. A thread that needs one more page gets an error; the contents of existing pages stay.
#[test]
fn a_full_swap_is_an_error_to_who_needs_a_page() {
    let folder = folder();
    let memory = builder().swap(4 << 20).swap_folder(folder.path()).start().unwrap();
    let small = memory.anonymous(100 * PAGE).unwrap();
    (0..100).for_each(|number| small.write_at(&page(number, 1), number * PAGE).unwrap());
    let large = memory.anonymous(64 << 20).unwrap();
    let mut written = 0;
    let error = loop {
        match large.write_at(&page(written, 2), written * PAGE) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert!(error.to_string().contains("swap is full"), "{error}");
    assert!(written * PAGE > 9 << 20, "{written} pages fit into 12 MiB");
    drop(large);
    let mut found = vec![0; PAGE as usize];
    for number in 0..100 {
        small.read_at(&mut found, number * PAGE).unwrap();
        assert!(found == page(number, 1), "page {number}");
    }
    memory.check().unwrap();
}

/// Reads a terabyte that was never written, without taking pages or tables.
#[test]
fn reading_what_was_never_written_takes_no_memory() {
    let memory = memory();
    let region = memory.anonymous(1 << 40).unwrap();
    let free = memory.vmstat().get("nr_free_pages");
    let mut found = vec![7; 2 * PAGE as usize];
    for at in (0..region.len()).step_by(64 << 20) {
        region.read_at(&mut found, at + 100).unwrap();
        assert!(found.iter().all(|&byte| byte == 0), "at {at}");
        assert!(region.page(at / PAGE + 7).unwrap().iter().all(|&byte| byte == 0), "at {at}");
        found.fill(7);
    }
    assert_eq!(memory.vmstat().get("nr_page_table_pages"), 0);
    assert_eq!(memory.vmstat().get("nr_free_pages"), free);
    // A read of a page that was never written and a page that was written.
    region.write_at(&[1], PAGE).unwrap();
    region.read_at(&mut found, 0).unwrap();
    assert_eq!((found[0], found[PAGE as usize]), (0, 1));
    assert!(region.page(2).unwrap().iter().all(|&byte| byte == 0));
    assert_eq!(memory.vmstat().get("nr_page_table_pages"), 1);
    memory.check().unwrap();
}

/// Memory and swap are both full. All pages that fitted can still be read and overwritten, although there is no free
/// page for swapping them in.
#[test]
fn what_filled_memory_and_swap_can_be_read() {
    const THREADS: u64 = 3;
    let folder = folder();
    let memory = builder().size(4 << 20).swap(4 << 20).swap_folder(folder.path()).start().unwrap();
    let region = memory.anonymous(64 << 20).unwrap();
    let written = (0..).take_while(|&number| region.write_at(&page(number, 1), number * PAGE).is_ok()).count() as u64;
    assert!(written * PAGE > 7 << 20, "{written} pages fit into 8 MiB");
    for round in 0..3 {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let region = &region;
                scope.spawn(move || {
                    let mut chance = Chance(THREADS * round + thread);
                    let mut left: Vec<u64> = (thread..written).step_by(THREADS as usize).collect();
                    let mut found = vec![0; PAGE as usize];
                    while !left.is_empty() {
                        let number = left.swap_remove(chance.below(left.len() as u64) as usize);
                        region.read_at(&mut found, number * PAGE).unwrap();
                        assert!(found == page(number, round.max(1)), "page {number}");
                        if round > 0 {
                            region.write_at(&page(number, round + 1), number * PAGE).unwrap();
                        }
                    }
                });
            }
        });
    }
    memory.check().unwrap();
}

#[test]
fn after_shutdown_handles_say_so() {
    let folder = folder();
    let path = folder.path().join("file");
    let memory = memory();
    let file = memory.create(&path).unwrap();
    file.write_all_at(b"kept", 0).unwrap();
    memory.shutdown().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"kept");
    assert!(matches!(file.write_at(b"late", 0), Err(Error::ShutDown)));
    assert_eq!(file.sync_data().unwrap_err().to_string(), "the memory was shut down");
}

#[test]
fn everything_may_be_used_from_any_thread() {
    fn check<T: Send + Sync>() {}
    check::<Memory>();
    check::<highwater::File>();
    check::<highwater::Region>();
    check::<Error>();
    let folder = folder();
    let memory = Arc::new(memory());
    let file = Arc::new(memory.create(folder.path().join("many")).unwrap());
    file.set_len(64 * PAGE).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..2000 {
                    let number = (round * 7 + u64::from(thread)) % 64;
                    if round % 3 == 0 {
                        // While this thread holds the write guard, no other thread has the page.
                        let mut page = file.page_mut(number).unwrap();
                        page.fill(thread);
                        assert!(page.iter().all(|byte| *byte == thread));
                    } else {
                        let page = file.page(number).unwrap();
                        assert!(page.iter().all(|byte| *byte == page[0]), "half of a write was seen");
                    }
                }
            });
        }
    });
    memory.check().unwrap();
}

/// A process writes pages, syncs every few pages, and is killed. Afterwards the file has all data of completed syncs.
#[test]
fn what_was_synced_survives_a_kill() {
    const CHILD: &str = "HIGHWATER_TEST_WRITER";
    if let Ok(path) = std::env::var(CHILD) {
        write_until_killed(Path::new(&path));
    }
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let folder = folder();
    for round in 0..5u32 {
        let path = folder.path().join(format!("log {round}"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_synced_survives_a_kill", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let synced = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("synced ")?.parse::<u64>().ok());
        let mut last = 0;
        for count in synced {
            last = count;
            if count >= 50 * u64::from(round + 1) {
                let _ = child.kill();
            }
        }
        child.wait().unwrap();
        assert!(last >= 50, "the writer said {last}");
        let file = fs::File::open(&path).unwrap();
        let mut found = vec![0; PAGE as usize];
        for number in 0..last {
            file.read_exact_at(&mut found, number * PAGE).unwrap();
            assert!(found == page(number, 1), "round {round}: page {number} of {last} that were synced");
        }
    }
}

fn write_until_killed(path: &Path) -> ! {
    let memory = memory();
    let file = memory.create(path).unwrap();
    for number in 0.. {
        file.write_all_at(&page(number, 1), number * PAGE).unwrap();
        if number % 5 == 4 {
            file.sync_data().unwrap();
            println!("synced {}", number + 1);
        }
    }
    unreachable!("it is killed")
}

/// Room to grow (`size_max`) costs only address space until it is used.
#[test]
fn room_to_grow_is_free() {
    // The descriptors of all pages would take 2 GiB.
    let memory = builder().size_max(1 << 38).start().unwrap();
    let resident = || {
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * PAGE
    };
    assert!(resident() < 1 << 30, "{} bytes", resident());
    let region = memory.anonymous(64 << 20).unwrap();
    memory.resize(100 << 20).unwrap();
    (0..region.len() / PAGE).for_each(|number| region.write_at(&page(number, 1), number * PAGE).unwrap());
    let error = memory.resize(32 << 20).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!(memory.size(), 100 << 20);
    let mut found = vec![0; PAGE as usize];
    for number in 0..region.len() / PAGE {
        region.read_at(&mut found, number * PAGE).unwrap();
        assert!(found == page(number, 1), "page {number}");
    }
    drop(region);
    memory.resize(5 << 20).unwrap();
    memory.check().unwrap();
    let too_much = builder().size_max(1 << 50).start().unwrap_err().to_string();
    assert_eq!(too_much, "size_max: 1125899906842624 bytes of memory are too many: 4398046511104 are the most");
}

/// Memory is resized while two threads use it: nothing is lost, and released memory returns to the system.
#[test]
fn memory_can_be_resized_while_it_is_used() {
    let folder = folder();
    let memory = builder().size(16 << 20).size_max(32 << 20).swap(64 << 20).swap_folder(folder.path()).start().unwrap();
    let end = Instant::now() + Duration::from_secs(soak_seconds(2));
    std::thread::scope(|scope| {
        let (memory, folder) = (&memory, folder.path());
        scope.spawn(move || use_file(memory, folder, 0, end));
        scope.spawn(move || use_region(memory, 2, OWN_PAGES, || Instant::now() >= end));
        let (mut resized, mut refused) = (0, 0);
        for mib in [32, 4, 24, 8, 32, 5].into_iter().cycle().take_while(|_| Instant::now() < end) {
            let before = memory.size();
            // If the computer is busy for seconds, pages may not be swapped out in time, and the resize is refused.
            match memory.resize(mib << 20) {
                Ok(()) => assert_eq!(memory.size(), mib << 20),
                Err(Error::OutOfMemory { .. }) => {
                    assert_eq!(memory.size(), before);
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            resized += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(2 * refused <= resized, "{refused} of {resized} were refused");
    });
    let message = memory.resize(33 << 20).unwrap_err().to_string();
    assert_eq!(message, "resize: 34603008 bytes of memory are too many: 33554432 are the most");
    memory.check().unwrap();
    memory.shutdown().unwrap();
}
