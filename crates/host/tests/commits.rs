//! Tests of commits (writes that are synced). Synced data survive, whichever thread synced them and however the process
//! ends. The file on the disk is never longer than the file that the library's users see.

mod common;

use common::{builder, folder};
use highwater::machine::Device;
use highwater::machine::Durable;
use highwater::machine::disk::backend::{Backend, Transfer};
use highwater::machine::disk::faults::{Faults, Script};
use highwater::{Error, IoError};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const RECORD: u64 = 200;
const PAGE: u64 = 4096;

fn record(number: u64) -> [u8; RECORD as usize] {
    let mut bytes = [(number % 251) as u8 + 1; RECORD as usize];
    bytes[..8].copy_from_slice(&(number + 1).to_le_bytes());
    bytes
}

/// A backend that records in `durable` what would remain of a file after a loss of power: the file's contents before
/// the last sync that the system completed.
struct Durably {
    inner: Arc<dyn Backend>,
    path: PathBuf,
    durable: Arc<Mutex<Vec<u8>>>,
}

impl Backend for Durably {
    fn sync(&self, device: &Device, wanted: Durable) -> std::io::Result<()> {
        let found = fs::read(&self.path)?;
        self.inner.sync(device, wanted)?;
        *self.durable.lock().unwrap() = found;
        Ok(())
    }

    fn run(&self, transfer: Transfer) {
        self.inner.run(transfer);
    }

    fn run_all(&self, transfers: Vec<Transfer>) {
        self.inner.run_all(transfers);
    }

    fn start(&self, transfer: Transfer) {
        self.inner.start(transfer);
    }
}

/// Threads append and sync in parallel, and one thread's sync covers the writes of others. When a sync returns, all
/// writes from before its call are in the file that the system has made durable.
#[test]
fn a_commit_is_in_the_file_before_the_system_makes_that_durable() {
    let folder = folder();
    let (path, durable) = (folder.path().join("log"), Arc::new(Mutex::new(Vec::new())));
    let behind = {
        let (path, durable) = (path.clone(), durable.clone());
        move |inner| -> Arc<dyn Backend> { Arc::new(Durably { inner, path: path.clone(), durable: durable.clone() }) }
    };
    let memory = builder().behind(behind).start().unwrap();
    let log = memory.create(&path).unwrap();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..6 {
            let (log, next, durable) = (&log, &next, &durable);
            scope.spawn(move || {
                for _ in 0..60 {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let at = (number * RECORD) as usize;
                    log.write_all_at(&record(number), at as u64).unwrap();
                    if thread == 0 { log.sync_all() } else { log.sync_data() }.unwrap();
                    let durable = durable.lock().unwrap();
                    assert_eq!(durable.get(at..at + RECORD as usize), Some(&record(number)[..]), "record {number}");
                }
            });
        }
    });
    memory.check().unwrap();
    memory.shutdown().unwrap();
}

/// Each open handle gets the error of a failed sync once. A handle that was opened later does not get the error.
#[test]
fn every_handle_is_told_once_of_a_sync_that_failed() {
    let folder = folder();
    let (path, script) = (folder.path().join("file"), Script::new());
    let memory = {
        let script = script.clone();
        builder().behind(move |inner| Faults::wrap(&script, inner)).start().unwrap()
    };
    let (first, second) = (memory.create(&path).unwrap(), memory.open(&path).unwrap());
    first.write_all_at(b"written", 0).unwrap();
    script.fail_sync(libc::EIO);
    let error = first.sync_data().unwrap_err();
    assert!(matches!(&error, Error::File { source, .. } if source.raw_os_error() == Some(libc::EIO)), "{error}");
    let later = memory.open(&path).unwrap();
    later.sync_data().unwrap();
    let error = second.sync_all().unwrap_err();
    assert!(matches!(error, Error::Write { source: IoError::Os(libc::EIO), .. }), "{error}");
    [&first, &second, &later].iter().for_each(|handle| handle.sync_data().unwrap());
    assert_eq!(script.syncs(), 6);
    drop((first, second, later));
    memory.shutdown().unwrap();
}

/// The flusher writes back a file whose length is no multiple of the page size, while a thread makes the file longer.
/// The length that the operating system reports must never be above the length in the library.
#[test]
fn a_file_is_at_no_moment_longer_in_the_system_than_it_is() {
    let folder = folder();
    let kernel = folder.path().join("hasty.toml");
    fs::write(&kernel, "base = \"highwater\"\n[writeback]\ndirty_expire_ms = 1\ndirty_writeback_ms = 1\n").unwrap();
    let memory = builder().kernel(kernel.to_str().unwrap()).start().unwrap();
    let path = folder.path().join("file");
    let file = memory.create(&path).unwrap();
    let in_system = || fs::metadata(&path).unwrap().len();
    let written_back = |bytes: &[u8]| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while fs::read(&path).unwrap() != bytes {
            assert!(Instant::now() < deadline && in_system() <= file.len(), "{} bytes in the system", in_system());
            thread::yield_now();
        }
    };
    file.write_all_at(b"five.", 0).unwrap();
    file.set_len(5).unwrap();
    assert_eq!(in_system(), 5);
    written_back(b"five.");
    // One thread makes the file longer and syncs it; another one compares the lengths.
    let (longest, is_over) = (AtomicU64::new(5), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // The length in the system is read before the other one, because the file only becomes longer.
                let (in_system, longest) = (in_system(), longest.load(Ordering::SeqCst));
                assert!(in_system <= longest, "{in_system} bytes in the system, {longest} is the longest ever");
            }
        });
        for round in 0..150 {
            let more = if round % 3 == 2 { 1001 } else { 3000 };
            let bytes = longest.fetch_add(more, Ordering::SeqCst) + more;
            match round % 3 {
                2 => file.set_len(bytes).unwrap(),
                _ => file.write_all_at(&vec![1; more as usize], bytes - more).unwrap(),
            }
            match round % 3 {
                0 => file.sync_data().unwrap(),
                _ => drop(memory.drop_caches()),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    file.sync_data().unwrap();
    assert_eq!(in_system(), file.len());
    for bytes in [100_001, 70_000, 65_536, 5] {
        file.write_all_at(&[7; 100], bytes + 5000).unwrap();
        file.set_len(bytes).unwrap();
        assert_eq!(in_system(), bytes);
        file.write_all_at(b"!", 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(in_system(), bytes);
    }
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), [b"!", &[b'i', b'v', b'e', b'.'][..]].concat());
    memory.shutdown().unwrap();
}

/// A process commits records from several threads and is killed at a random moment. Afterwards the file holds every
/// record that was reported as committed, and nothing that was not written. `HIGHWATER_KILLS` sets the number of kills
/// (default 3).
#[test]
fn what_was_committed_survives_kills() {
    const CHILD: &str = "HIGHWATER_TEST_COMMITS";
    if let Ok(path) = std::env::var(CHILD) {
        commit_until_killed(Path::new(&path));
    }
    let kills = std::env::var("HIGHWATER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(3);
    let folder = folder();
    let mut all = 0;
    for round in 0..kills {
        let path = folder.path().join("log");
        let _ = fs::remove_file(&path);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_committed_survives_kills", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let numbers = lines.filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok());
        let mut committed = Vec::new();
        for number in numbers {
            committed.push(number);
            if committed.len() == 30 + 37 * (round % 20) {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(committed.len() >= 30, "the writer committed {}", committed.len());
        all += committed.len();
        let log = fs::read(&path).unwrap();
        for &number in &committed {
            let at = (number * RECORD) as usize;
            let found = log.get(at..at + RECORD as usize);
            assert_eq!(found, Some(&record(number)[..]), "round {round}: record {number} was committed");
        }
        // The file ends after a record, or after a whole page of records.
        let bytes = log.len() as u64;
        assert!(bytes.is_multiple_of(RECORD) || bytes.is_multiple_of(PAGE), "{bytes} bytes");
        for (number, found) in (0..).zip(log.chunks(RECORD as usize)) {
            for (found, written) in found.iter().zip(record(number)) {
                assert!([0, written].contains(found), "round {round}: byte {found} in record {number}");
            }
        }
    }
    assert!(all >= 30 * kills);
}

fn commit_until_killed(path: &Path) -> ! {
    let memory = builder().start().unwrap();
    let log = memory.create(path).unwrap();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    log.write_all_at(&record(number), number * RECORD).unwrap();
                    log.sync_data().unwrap();
                    println!("committed {number}");
                }
            });
        }
    });
    unreachable!("it is killed")
}

/// Another process truncates the file, and then this process writes after the new end. Readers of the lost bytes get
/// errors, until this process writes these bytes again or truncates the file itself.
#[test]
fn what_others_cut_off_does_not_become_zeroes_behind_a_later_write() {
    for later in ["a sync", "the flusher", "a new length"] {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, [7; 10 * PAGE as usize]).unwrap();
        let memory = builder().start().unwrap();
        let file = memory.open(&path).unwrap();
        file.advise(0..0, highwater::Advice::Random);
        fs::File::options().write(true).open(&path).unwrap().set_len(2 * PAGE + 100).unwrap();
        match later {
            "a sync" => {
                file.write_all_at(b"behind", 20 * PAGE).unwrap();
                file.sync_data().unwrap();
            }
            "the flusher" => {
                file.write_all_at(&[9; 100 * PAGE as usize], 20 * PAGE).unwrap();
                let others = memory.create(folder.path().join("others")).unwrap();
                (0..2000).for_each(|page| others.write_all_at(&[1; PAGE as usize], page * PAGE).unwrap());
                file.sync_data().unwrap();
            }
            _ => file.set_len(30 * PAGE).unwrap(),
        }
        for _ in 0..3 {
            memory.drop_caches();
            for page in 2..10 {
                let error = file.read_at(&mut [0; 10], page * PAGE).unwrap_err();
                assert!(matches!(error, Error::Read { source: IoError::Truncated, .. }), "{later}: {error}");
            }
            assert_eq!(file.page(1).unwrap()[..], [7; PAGE as usize]);
            assert_eq!(file.page(15).unwrap()[..], [0; PAGE as usize], "{later}: a hole of our own");
        }
        // A lost page that this process writes as a whole can be read again.
        file.write_all_at(&[8; PAGE as usize], 5 * PAGE).unwrap();
        file.sync_data().unwrap();
        memory.drop_caches();
        assert_eq!(file.page(5).unwrap()[..], [8; PAGE as usize]);
        assert!(file.page(6).is_err() && file.page(4).is_err());
        // Bytes that this process truncates itself are no longer lost, and read as zeroes once the file is longer
        // again.
        file.set_len(6 * PAGE).unwrap();
        file.set_len(9 * PAGE).unwrap();
        assert_eq!(file.page(7).unwrap()[..], [0; PAGE as usize]);
        assert!(file.page(4).is_err());
        memory.check().unwrap();
    }
}

/// A file that is opened for reading has a shared lock (`flock`); a file that is opened for writing has an exclusive
/// one.
#[test]
fn an_open_file_is_locked_against_other_processes() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "in the file").unwrap();
    let memory = builder().start().unwrap();
    let (write, read) = (highwater::OpenOptions::new().write(true), highwater::OpenOptions::new());
    // The handle `other` stands for another process: an `flock` belongs to an open handle, not to a process.
    let other = fs::File::open(&path).unwrap();
    let lock = |how| {
        // SAFETY: no memory is passed.
        (unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(&other), how | libc::LOCK_NB) }) == 0
    };
    let writer = write.open(&memory, &path).unwrap();
    assert!(!lock(libc::LOCK_EX) && !lock(libc::LOCK_SH));
    drop(writer);
    let reader = read.open(&memory, &path).unwrap();
    assert!(!lock(libc::LOCK_EX) && lock(libc::LOCK_SH));
    drop(reader);
    let error = write.open(&memory, &path).unwrap_err().to_string();
    assert!(error.contains("another process has locked it"), "{error}");
    assert_eq!(read.open(&memory, &path).unwrap().len(), 11);
    assert!(lock(libc::LOCK_EX));
    assert!(read.open(&memory, &path).is_err());
    let unlocked = write.lock(false).open(&memory, &path).unwrap();
    unlocked.write_all_at(b"!", 10).unwrap();
    drop(unlocked);
    assert!(lock(libc::LOCK_UN));
    assert_eq!(memory.open(&path).unwrap().len(), 11);
    assert_eq!(fs::File::open(&path).unwrap().read_at(&mut [0; 20], 0).unwrap(), 11);
}
