//! Tests of disk requests on real files: requests that end early, requests that fail, and files that change meanwhile.

mod common;

use common::{Receiver, page, reopen, request, temporary_file};
use highwater::machine::disk::faults::{Fault, Faults, Script};
use highwater::machine::{Cause, Checks, Config, Host, Io, Notice};
use machine::{Completions, DeviceId, FrameNumber, IoError, Machine, Operation, PAGE_BYTES};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

const WAYS: [Io; 2] = [Io::Auto, Io::Threads];
const PAGE: u64 = PAGE_BYTES as u64;

fn start(io: Io) -> (Host, Arc<Receiver>) {
    // SAFETY: each test accesses frames only after its requests have finished.
    let host = unsafe { Host::new(&Config { io, ..Config::new(1024) }) }.expect("4 MiB are there");
    let receiver = Receiver::new();
    let dynamic: Arc<dyn Completions + Send + Sync> = receiver.clone();
    host.attach([Arc::downgrade(&dynamic)]);
    (host, receiver)
}

fn start_with_faults(io: Io) -> (Host, Arc<Receiver>, DeviceId, Arc<Script>) {
    let (host, receiver) = start(io);
    let script = Script::new();
    let device = host
        .add_device_behind(temporary_file(), "test.dat", Checks::AsConfigured, |inner| Faults::wrap(&script, inner));
    (host, receiver, device.expect("threads are there"), script)
}

fn contents(host: &Host, frame: u32) -> Vec<u8> {
    let mut bytes = vec![1; PAGE_BYTES];
    host.read_frame(FrameNumber(frame), 0, &mut bytes);
    bytes
}

fn fill(host: &Host, frames: std::ops::Range<u32>) {
    frames.for_each(|frame| host.write_frame(FrameNumber(frame), 0, &page(frame + 1)));
}

#[test]
fn scattered_frames_are_written_and_read_in_block_order() {
    for io in WAYS {
        let (host, receiver) = start(io);
        let file = temporary_file();
        let device = host.add_device(common::reopen(&file), "test.dat").expect("threads are there");
        fill(&host, 0..600);
        // No frame follows the one before it, so each is a run of its own. One system call does not take so many runs.
        let scattered: Vec<u32> = (0..300).map(|n| 598 - 2 * n).collect();
        host.submit(request(device, Operation::Write, 10, scattered.iter().copied()));
        assert_eq!(receiver.one(), Ok(()));
        for (n, frame) in scattered.iter().enumerate() {
            let mut bytes = vec![0; PAGE_BYTES];
            file.read_exact_at(&mut bytes, (10 + n as u64) * PAGE).expect("it was written");
            assert!(bytes == page(frame + 1), "block {n} through {io:?}");
        }
        for (blocks, first) in [(1, 600), (3, 601), (300, 700)] {
            host.submit(request(device, Operation::Read, 10, first..first + blocks));
            assert_eq!(receiver.one(), Ok(()));
            for n in 0..blocks {
                assert!(contents(&host, first + n) == page(scattered[n as usize] + 1), "block {n} through {io:?}");
            }
        }
    }
}

#[test]
fn what_is_beyond_the_end_reads_as_zeroes_unless_it_should_be_there() {
    for io in WAYS {
        for blocks in [4, 16] {
            let (host, receiver) = start(io);
            let file = temporary_file();
            file.write_all_at(&page(7)[..1500], PAGE).expect("there is room");
            let device = host.add_device(file, "test.dat").expect("threads are there");
            fill(&host, 0..16);
            host.submit(request(device, Operation::Read, 0, 0..blocks));
            assert_eq!(receiver.one(), Ok(()));
            assert_eq!(contents(&host, 0), [0; PAGE_BYTES]);
            assert_eq!(contents(&host, 1)[..1500], page(7)[..1500]);
            assert_eq!(contents(&host, 1)[1500..], [0; PAGE_BYTES - 1500]);
            assert!((2..blocks).all(|frame| contents(&host, frame) == [0; PAGE_BYTES]));

            let device = host.device(device).expect("it was added");
            device.expect_len(3 * PAGE);
            host.submit(request(device.id(), Operation::Read, 0, 0..blocks));
            assert_eq!(receiver.one(), Err(IoError::Truncated));
            let errors = device.take_errors();
            assert_eq!(errors.len(), 1);
            assert_eq!(errors[0].cause, Cause::Truncated { end: PAGE + 1500, expected_end: 3 * PAGE });
            assert_eq!(
                errors[0].to_string(),
                format!(
                    "test.dat: read of {} bytes at byte 0 failed: the file ends at byte 5596, but at least 12288 bytes \
                     were in it",
                    u64::from(blocks) * PAGE
                )
            );
        }
    }
}

/// The engine submits a read of some blocks, and before the read begins, the file's length becomes shorter (as reported
/// through `follow_length`). The blocks after the new end must read as zeroes, without a checksum error.
#[test]
fn checksums_expect_nothing_of_what_is_cut_off_before_a_read_begins() {
    for io in WAYS {
        let (host, receiver) = start(io);
        let device = host.add_device_behind(temporary_file(), "test.dat", Checks::Checksums, |inner| inner);
        let device = host.device(device.expect("threads are there")).expect("it was added");
        let length = Arc::new(AtomicU64::new(4 * PAGE));
        let now = length.clone();
        device.follow_length(move || now.load(SeqCst));
        fill(&host, 0..4);
        host.submit(request(device.id(), Operation::Write, 0, 0..4));
        assert_eq!(receiver.one(), Ok(()));
        length.store(2 * PAGE, SeqCst);
        fill(&host, 10..14);
        host.submit(request(device.id(), Operation::Read, 0, 10..14));
        assert_eq!(receiver.one(), Ok(()), "through {io:?}");
        assert!((0..2).all(|n| contents(&host, 10 + n) == page(n + 1)));
        assert!((12..14).all(|frame| contents(&host, frame) == [0; PAGE_BYTES]));
    }
}

/// A device writes beyond the end of its file, and its owner does not report the new length. The device takes the
/// length from these writes, so it notices that another process truncates the file.
#[test]
fn what_was_written_beyond_the_end_is_missed_when_somebody_else_cuts_it_off() {
    for io in WAYS {
        let (host, receiver) = start(io);
        let file = temporary_file();
        let other = reopen(&file);
        let device = host.add_device(file, "test.dat").expect("threads are there");
        fill(&host, 0..16);
        host.submit(request(device, Operation::Write, 4, 0..8));
        assert_eq!(receiver.one(), Ok(()));
        // The owner may itself have truncated the file within the last block, so a truncation there is not noticed.
        for end in [12 * PAGE, 11 * PAGE + 1, 11 * PAGE] {
            other.set_len(end).expect("it is shorter then");
            host.submit(request(device, Operation::Read, 4, 0..8));
            assert_eq!(receiver.one(), Ok(()), "{end} bytes");
        }
        other.set_len(11 * PAGE - 1).expect("it is shorter then");
        for (block, result) in [(4, Ok(())), (5, Err(IoError::Truncated))] {
            host.submit(request(device, Operation::Read, block, 0..6));
            assert_eq!(receiver.one(), result, "from block {block}");
        }
        let device = host.device(device).expect("it was added");
        assert_eq!(device.take_errors()[0].cause, Cause::Truncated { end: 11 * PAGE - 1, expected_end: 11 * PAGE });
    }
}

#[test]
fn a_request_that_is_cut_short_is_continued() {
    for io in WAYS {
        for bytes in [512, 4096, 4096 + 512, 3 * 4096] {
            let (host, receiver, device, script) = start_with_faults(io);
            fill(&host, 0..8);
            script.set_all(Some(Fault::Shorten(bytes)));
            host.submit(request(device, Operation::Write, 0, 0..8));
            assert_eq!(receiver.one(), Ok(()));
            for blocks in [4, 8] {
                (100..108).for_each(|frame| host.zero_frame(FrameNumber(frame)));
                host.submit(request(device, Operation::Read, 0, 100..100 + blocks));
                assert_eq!(receiver.one(), Ok(()));
                for n in 0..blocks {
                    assert!(contents(&host, 100 + n) == page(n + 1), "block {n}, cut to {bytes}, through {io:?}");
                }
            }
        }
    }
}

#[test]
fn errors_name_file_offset_and_cause() {
    for io in WAYS {
        let (host, receiver, device, script) = start_with_faults(io);
        script.set(1, Fault::Fail(libc_errno::EIO));
        script.set(2, Fault::Fail(libc_errno::ENOSPC));
        let failed = IoError::Os(libc_errno::EIO);
        for (blocks, expected) in [(1, Ok(())), (2, Err(failed)), (3, Err(IoError::NoSpace)), (4, Ok(()))] {
            host.submit(request(device, Operation::Write, 5, 0..blocks));
            assert_eq!(receiver.one(), expected);
        }
        let device = host.device(device).expect("it was added");
        let errors: Vec<String> = device.take_errors().iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "test.dat: write of 8192 bytes at byte 20480 failed: Input/output error (os error 5)",
                "test.dat: write of 12288 bytes at byte 20480 failed: No space left on device (os error 28)",
            ]
        );
        assert_eq!(device.take_errors(), []);
        assert_eq!(script.seen(), 4);
    }
}

/// Error numbers of Linux.
mod libc_errno {
    pub const EIO: i32 = 5;
    pub const ENOSPC: i32 = 28;
}

#[test]
fn the_systems_own_errors_come_back() {
    for io in WAYS {
        let (host, receiver) = start(io);
        // The file is open for reading only, so each write fails.
        let file = std::fs::File::open("/proc/self/exe").expect("this program is there");
        let device = host.add_device(file, "exe").expect("threads are there");
        host.submit(request(device, Operation::Read, 0, 0..1));
        assert_eq!(receiver.one(), Ok(()));
        assert_eq!(contents(&host, 0)[..4], *b"\x7fELF");
        host.submit(request(device, Operation::Write, 0, 0..1));
        assert_eq!(receiver.one(), Err(IoError::Os(9)));
        let errors = host.device(device).expect("it was added").take_errors();
        assert_eq!(errors[0].cause, Cause::Os(9), "EBADF through {io:?}");
    }
}

#[test]
fn held_back_requests_go_together() {
    for io in WAYS {
        let (host, receiver) = start(io);
        let devices: Vec<DeviceId> = (0..2)
            .map(|n| host.add_device(temporary_file(), format!("file {n}")).expect("threads are there"))
            .collect();
        fill(&host, 0..300);
        {
            let _outer = host.plug();
            let _inner = host.plug();
            for n in 0..150 {
                host.submit(request(devices[n as usize % 2], Operation::Write, u64::from(n), n..n + 1));
            }
            drop(_inner);
            assert!(host.device(devices[0]).expect("it was added").in_flight() > 0);
        }
        assert!(receiver.take(150).iter().all(|(_, result)| result.is_ok()));
        {
            let _plug = host.plug();
            for n in 0..50 {
                host.submit(request(devices[n as usize % 2], Operation::Read, u64::from(n), 300 + n..301 + n));
            }
            assert_eq!(receiver.count(), 0, "nothing goes yet");
        }
        let finished = receiver.take(50);
        assert!(finished.iter().all(|(_, result)| result.is_ok()));
        for n in 0..50 {
            assert!(contents(&host, 300 + n) == page(n + 1), "block {n} through {io:?}");
        }
        // Before a thread sleeps in the machine, its held-back requests are submitted: it might wait for one of them.
        let _plug = host.plug();
        host.submit(request(devices[0], Operation::Read, 0, 0..1));
        host.submit(request(devices[1], Operation::Read, 1, 1..2));
        assert_eq!(receiver.count(), 0);
        host.pause(machine::Nanos(1));
        receiver.take(2);
    }
}

#[test]
fn devices_come_and_go_while_others_work() {
    for io in WAYS {
        let (host, receiver) = start(io);
        let first = host.add_device(temporary_file(), "first").expect("threads are there");
        let others = (1..4u32).map(|worker| {
            let host = host.clone();
            thread::spawn(move || {
                for round in 0..20 {
                    let file = temporary_file();
                    file.write_all_at(&page(worker * 1000 + round), 3 * PAGE).expect("there is room");
                    let device = host.add_device(file, "other").expect("threads are there");
                    assert_ne!(device, DeviceId(0));
                    let frame = worker * 10;
                    host.submit(request(device, Operation::Write, 100, [frame + 1; 1]));
                    host.submit(request(device, Operation::Read, 3, [frame; 1]));
                    let removed = host.remove_device(device).expect("it was added");
                    assert_eq!(removed.in_flight(), 0);
                    assert!(contents(&host, frame) == page(worker * 1000 + round));
                }
            })
        });
        let others: Vec<_> = others.collect();
        for n in 0..200 {
            host.submit(request(first, Operation::Write, n, 500..540));
        }
        others.into_iter().for_each(|other| other.join().expect("nothing fails"));
        let finished = receiver.take(200 + 3 * 20 * 2);
        assert!(finished.iter().all(|(_, result)| result.is_ok()));
        assert!(host.remove_device(DeviceId(1)).is_none());
        host.submit(request(DeviceId(1), Operation::Write, 0, 0..1));
        assert_eq!(receiver.one(), Err(IoError::Device));
    }
}

#[test]
fn a_machine_can_go_while_requests_are_in_flight() {
    for io in WAYS {
        let (host, receiver) = start(io);
        let device = host.add_device(temporary_file(), "test.dat").expect("threads are there");
        for n in 0..200 {
            host.submit(request(device, Operation::Write, n * 8, 0..8));
        }
        drop(host);
        receiver.take(200);
    }
}

#[test]
fn what_is_not_granted_is_noticed() {
    let (host, _receiver) = start(Io::Auto);
    let is_over_rings = !host.notices().iter().any(|notice| matches!(notice, Notice::NoIoUring { .. }));
    let (reader, _writer) = std::io::pipe().expect("pipes are there");
    let pipe = std::fs::File::from(std::os::fd::OwnedFd::from(reader));
    // A pipe stands for a file that cannot bypass the page cache. It cannot be read at an offset, so the test makes no
    // request.
    let device = host.add_device(pipe, "a pipe").expect("threads are there");
    let is_direct = host.device(device).expect("it was added").is_direct();
    let noticed = host.notices().contains(&Notice::Buffered { name: "a pipe".to_owned() });
    assert_eq!(noticed, !is_direct, "io_uring: {is_over_rings}");
}
