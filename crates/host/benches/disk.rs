//! Compares the speed of the machine's disk requests with that of plain system calls: random reads of one file that
//! bypass the kernel's page cache.
//!
//! `cargo bench -p highwater --bench disk` runs at full size on a file in `HIGHWATER_BENCH_DIR`, or in the target
//! folder; an argument selects the lines whose names contain it. `cargo test` runs the bench at a small size, silently.
//!
//! Each line of the output compares two sides, which run in turns. The line's figure is the median of the ratios
//! between neighbouring runs of both sides. Both sides read the same blocks, as a hash of the contents proves.

#![allow(missing_docs)]

use highwater::machine::{Config, Host};
use io_uring::{IoUring, cqueue, opcode, types::Fd};
use machine::{BLOCK_BYTES, Completions, DeviceId, FrameNumber, IoError, Machine, Operation, Request};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Number of requests in flight at a time, in the measurements that keep several requests in flight.
const DEPTH: usize = 32;
/// Number of pages of a readahead window. [`WINDOWS`] windows are in flight at a time.
const WINDOW: u32 = 32;
const WINDOWS: usize = 4;

/// The sizes of a run: one set for the bench, a smaller one for tests.
struct Sizes {
    blocks: u64,
    reads: u64,
    rounds: usize,
}

const FULL: Sizes = Sizes { blocks: 1 << 17, reads: 100_000, rounds: 9 };
const SMALL: Sizes = Sizes { blocks: 1 << 9, reads: 256, rounds: 2 };

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

#[derive(Default)]
struct Receiver(AtomicU64);

impl Completions for Receiver {
    fn complete(&self, request: Request, result: Result<(), IoError>) {
        result.expect("the disk works");
        self.0.fetch_add(request.frames.len() as u64, Ordering::Release);
    }
}

struct Ground {
    host: Host,
    receiver: Arc<Receiver>,
    device: DeviceId,
    /// A second handle of the device's file, for the plain system calls.
    file: File,
    blocks: u64,
}

impl Ground {
    fn new(blocks: u64) -> Self {
        let directory = std::env::var_os("HIGHWATER_BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
        let path = PathBuf::from(directory).join(format!("highwater-bench-{}", std::process::id()));
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
        let file = options.open(&path).expect("the folder can be written to");
        let mut chance = Chance(1);
        let mut page = vec![0; BLOCK_BYTES];
        for block in 0..blocks {
            // Random contents, so that a file system or disk that compresses gains nothing.
            page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&chance.next().to_le_bytes()));
            file.write_all_at(&page, block * BLOCK_BYTES as u64).expect("there is room");
        }
        file.sync_all().expect("the disk works");
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let direct = direct.unwrap_or_else(|_| File::open(&path).expect("it is there"));
        std::fs::remove_file(&path).expect("it is there");

        // SAFETY: the bytes of a frame are accessed only after its requests have finished.
        let host = unsafe { Host::new(&Config::new(4096)) }.expect("16 MiB are there");
        host.arena().populate(0..4096).expect("16 MiB are there");
        let device = host.add_device(file, "bench").expect("threads are there");
        let receiver = Arc::new(Receiver::default());
        let dynamic: Arc<dyn Completions + Send + Sync> = receiver.clone();
        host.attach([Arc::downgrade(&dynamic)]);
        Self { host, receiver, device, file: direct, blocks }
    }

    /// Returns the first word of a frame.
    fn word(&self, frame: u32) -> u64 {
        let mut bytes = [0; 8];
        self.host.read_frame(FrameNumber(frame), 0, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn pointer(&self, frame: u32) -> *mut u8 {
        self.host.arena().pointer(FrameNumber(frame))
    }

    fn request(&self, block: u64, frames: std::ops::Range<u32>) -> Request {
        let (device, operation) = (self.device, Operation::Read);
        Request { device, operation, block, frames: frames.map(FrameNumber).collect(), is_sync: true }
    }

    fn one_by_one(&self, thread: u32, reads: u64) -> u64 {
        let mut chance = Chance(u64::from(thread) + 7);
        (0..reads).fold(0, |hash, _| {
            self.host.submit(self.request(chance.below(self.blocks), thread..thread + 1));
            hash ^ self.word(thread)
        })
    }

    fn one_by_one_plain(&self, thread: u32, reads: u64) -> u64 {
        let mut chance = Chance(u64::from(thread) + 7);
        let buffer = self.pointer(thread);
        (0..reads).fold(0, |hash, _| {
            let offset = (chance.below(self.blocks) * BLOCK_BYTES as u64) as libc::off_t;
            // SAFETY: the buffer is a frame that nothing else uses.
            let read = unsafe { libc::pread(self.file.as_raw_fd(), buffer.cast(), BLOCK_BYTES, offset) };
            assert_eq!(read, BLOCK_BYTES as isize);
            hash ^ self.word(thread)
        })
    }

    fn batches(&self, _: u32, reads: u64) -> u64 {
        let mut chance = Chance(7);
        let mut hash = 0;
        for _ in 0..reads / DEPTH as u64 {
            let plug = self.host.plug();
            for frame in 0..DEPTH as u32 {
                self.host.submit(self.request(chance.below(self.blocks), frame..frame + 1));
            }
            drop(plug);
            hash = (0..DEPTH as u32).fold(hash, |hash, frame| hash ^ self.word(frame));
        }
        hash
    }

    fn batches_plain(&self, _: u32, reads: u64) -> u64 {
        let mut ring = IoUring::builder().setup_coop_taskrun().build(DEPTH as u32).expect("rings are permitted");
        let mut chance = Chance(7);
        let mut hash = 0;
        for _ in 0..reads / DEPTH as u64 {
            for frame in 0..DEPTH as u32 {
                let offset = chance.below(self.blocks) * BLOCK_BYTES as u64;
                let read = opcode::Read::new(Fd(self.file.as_raw_fd()), self.pointer(frame), BLOCK_BYTES as u32);
                // SAFETY: the buffer is a frame that nothing else uses, and all requests are waited for.
                unsafe { ring.submission().push(&read.offset(offset).build()) }.expect("there is room");
            }
            ring.submit_and_wait(DEPTH).expect("the ring works");
            let read =
                ring.completion().map(|entry: cqueue::Entry| assert_eq!(entry.result(), BLOCK_BYTES as i32)).count();
            assert_eq!(read, DEPTH);
            hash = (0..DEPTH as u32).fold(hash, |hash, frame| hash ^ self.word(frame));
        }
        hash
    }

    fn windows(&self, reads: u64, is_plugged: bool) -> u64 {
        let window = u64::from(WINDOW);
        let mut chance = Chance(7);
        let mut hash = 0;
        for _ in 0..reads / (WINDOWS as u64 * window) {
            let before = self.receiver.0.load(Ordering::Acquire);
            let plug = is_plugged.then(|| self.host.plug());
            for n in 0..WINDOWS as u32 {
                let block = chance.below(self.blocks - window);
                self.host.submit(self.request(block, n * WINDOW..(n + 1) * WINDOW));
            }
            drop(plug);
            while self.receiver.0.load(Ordering::Acquire) - before < WINDOWS as u64 * window {
                thread::yield_now();
            }
            hash = (0..WINDOWS as u32 * WINDOW).fold(hash, |hash, frame| hash ^ self.word(frame));
        }
        hash
    }

    fn windows_together(&self, _: u32, reads: u64) -> u64 {
        self.windows(reads, true)
    }

    fn windows_in_background(&self, _: u32, reads: u64) -> u64 {
        self.windows(reads, false)
    }

    fn windows_plain(&self, _: u32, reads: u64) -> u64 {
        let window = u64::from(WINDOW);
        let mut ring = IoUring::builder().setup_coop_taskrun().build(DEPTH as u32).expect("rings are permitted");
        let mut chance = Chance(7);
        let mut hash = 0;
        for _ in 0..reads / (WINDOWS as u64 * window) {
            for n in 0..WINDOWS as u32 {
                let offset = chance.below(self.blocks - window) * BLOCK_BYTES as u64;
                let (buffer, bytes) = (self.pointer(n * WINDOW), WINDOW * BLOCK_BYTES as u32);
                let read = opcode::Read::new(Fd(self.file.as_raw_fd()), buffer, bytes).offset(offset).build();
                // SAFETY: the buffer consists of frames that nothing else uses, and all requests are waited for.
                unsafe { ring.submission().push(&read) }.expect("there is room");
            }
            ring.submit_and_wait(WINDOWS).expect("the ring works");
            let bytes = (WINDOW * BLOCK_BYTES as u32) as i32;
            assert_eq!(
                ring.completion().map(|entry: cqueue::Entry| assert_eq!(entry.result(), bytes)).count(),
                WINDOWS
            );
            hash = (0..WINDOWS as u32 * WINDOW).fold(hash, |hash, frame| hash ^ self.word(frame));
        }
        hash
    }
}

type Act = fn(&Ground, u32, u64) -> u64;

/// Runs `act` on `threads` threads, each of which does `reads` reads. Returns the reads per second of all threads
/// together, and a hash of the contents that they read.
fn rate(ground: &Ground, threads: u32, reads: u64, act: Act) -> (f64, u64) {
    let began = Instant::now();
    let hash = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || act(ground, thread, reads))).collect();
        threads.into_iter().fold(0, |hash, thread| hash ^ thread.join().expect("nothing fails"))
    });
    (f64::from(threads) * reads as f64 / began.elapsed().as_secs_f64(), hash)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let sizes = if is_bench { FULL } else { SMALL };
    let ground = Ground::new(sizes.blocks);
    for notice in ground.host.notices() {
        eprintln!("notice: {notice}");
    }
    let mut rows: Vec<(&str, u32, Act, Act)> = vec![
        ("4 KiB, one by one, beside pread", 1, Ground::one_by_one, Ground::one_by_one_plain),
        ("4 KiB, one by one, 2 threads, beside pread", 2, Ground::one_by_one, Ground::one_by_one_plain),
    ];
    // Without permission for io_uring there is nothing to compare with.
    if IoUring::new(1).is_ok() {
        rows.push(("4 KiB, 32 together, beside io_uring", 1, Ground::batches, Ground::batches_plain));
        rows.push(("128 KiB, 4 together, beside io_uring", 1, Ground::windows_together, Ground::windows_plain));
        let own = Ground::windows_in_background;
        rows.push(("128 KiB, 4 in the background, beside io_uring", 1, own, Ground::windows_plain));
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, threads, own, plain) in rows.into_iter().filter(|(name, ..)| name.contains(&wanted)) {
        let (mut own_rates, mut plain_rates, mut ratios, mut hash) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for round in 0..sizes.rounds {
            let run = |act| rate(&ground, threads, sizes.reads, act);
            // The sides change their order from round to round, so that a drift in speed favours neither side.
            let ((own_rate, own_hash), (plain_rate, plain_hash)) = if round % 2 == 0 {
                let own = run(own);
                (own, run(plain))
            } else {
                let plain = run(plain);
                (run(own), plain)
            };
            assert_eq!(own_hash, plain_hash, "{name}: the two sides read different things");
            hash = own_hash;
            own_rates.push(own_rate);
            plain_rates.push(plain_rate);
            ratios.push(own_rate / plain_rate);
        }
        if is_bench {
            println!(
                "{name}: ratio {:.3} ({:.0} and {:.0} thousand pages/s, medians of {}), work {hash:016x}",
                median(ratios),
                median(own_rates) / 1e3,
                median(plain_rates) / 1e3,
                sizes.rounds
            );
        }
    }
}
