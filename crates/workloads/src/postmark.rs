//! Small files that are created, read, extended and removed, beside an idle program that holds half of memory (postmark
//! 1.51 with the background reader of MMTests; mechanisms/benchmarks, 1.6).

use crate::extent::{Extent, MEMORY_MAX_MIB};
use crate::system::{System, SystemError};
use crate::workload::{Measurements, Resources, Workload};
use documented::DocumentedFields;
use figures::counters::difference;
use figures::figure::{Better, Format, Row, RowName, names};
use figures::scale::Scale;
use figures::vmscan;
use machine::{NANOS_PER_SECOND, Nanos};
use serde::{Deserialize, Serialize};
use sim::{Rng, Sourced};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Number of bytes that the C library reads or writes at once, although the program requests 512 bytes at a time.
const BUFFER_BYTES: u64 = 4096;

/// Number of 512-byte blocks, the units in which the program reads and writes, in a buffer of the C library.
const BUFFER_BLOCKS: u64 = BUFFER_BYTES / 512;

/// Number of blocks into which the background program divides its memory.
const HOG_BLOCKS: u64 = 8;

/// Number of times that the background program touches the used part of a block, each time it uses the block.
const HOG_ROUNDS: u64 = 64;

/// Parameters of the workload `postmark` at full scale, from `[params]` in an experiment's file. The numbers of files
/// and transactions and the memory of the background program follow the scale. A parameter that the MMTests script sets
/// has the script's value as its default; a parameter with an assumed value has no default.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of files at the start. Default 5000.
    #[serde(default = "files")]
    pub files: u64,
    /// Number of transactions. Default 30000.
    #[serde(default = "transactions")]
    pub transactions: u64,
    /// Smallest size of a file, bytes. Default 5120.
    #[serde(default = "least_bytes")]
    pub least_bytes: u64,
    /// Largest size of a file, bytes. Default 524288.
    #[serde(default = "most_bytes")]
    pub most_bytes: u64,
    /// Memory of the background program, MiB; 0: there is no such program. Default 2048.
    #[serde(default = "hog_mib")]
    pub hog_mib: u64,
    /// Size of the part that the background program uses of each of the eight blocks of its memory, MiB. Default 4.
    #[serde(default = "hog_used_mib")]
    pub hog_used_mib: u64,
    /// Time for which the background program sleeps after it has used a block, seconds. Default 15.
    #[serde(default = "hog_sleep_s")]
    pub hog_sleep_s: u64,
    /// Seed of postmark's own random numbers, equal in every run. Default 42.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Time for which the background program uses a block, ms.
    pub hog_use_ms: Sourced<u64>,
    /// CPU time that the program and the C library spend on a block of 512 bytes, ns.
    pub block_ns: Sourced<u64>,
}

fn files() -> u64 {
    5000
}

fn transactions() -> u64 {
    30_000
}

fn least_bytes() -> u64 {
    5120
}

fn most_bytes() -> u64 {
    524_288
}

fn hog_mib() -> u64 {
    2048
}

fn hog_used_mib() -> u64 {
    4
}

fn hog_sleep_s() -> u64 {
    15
}

fn seed() -> u64 {
    42
}

/// The workload `postmark`: small files that are made, read, extended and removed, beside a background program that
/// mostly sleeps.
#[derive(Debug)]
pub struct Postmark;

impl Workload for Postmark {
    type Params = Params;

    const NAME: &'static str = "postmark";

    const ABOUT: &'static str = "small files that are made, read, extended and removed, beside an idle program";

    const SIM_ONLY: Option<&'static str> =
        Some("its idle program holds half of that computer's memory, and takes 15 s a step");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        if params.least_bytes == 0 || params.least_bytes >= params.most_bytes {
            return Err("`least_bytes` must be above 0 and below `most_bytes`".to_owned());
        }
        if params.files == 0 || params.hog_used_mib.saturating_mul(HOG_BLOCKS) > params.hog_mib && params.hog_mib > 0 {
            return Err("`files` must be above 0, and `hog_used_mib` at most an eighth of `hog_mib`".to_owned());
        }
        if params.hog_mib > MEMORY_MAX_MIB {
            return Err(format!("`hog_mib` is {}: must be at most {MEMORY_MAX_MIB}", params.hog_mib));
        }
        if resources.memory_pages < 4096 {
            return Err(format!("too small for postmark: {} pages, and 4096 are needed", resources.memory_pages));
        }
        Ok(())
    }

    fn extent(params: &Params, _: &Resources, _: Scale) -> Extent {
        let Params { files, transactions, least_bytes, most_bytes, hog_sleep_s, .. } = params;
        // A file of mean size has this number of pages; a transaction reads or writes one file.
        let pages = (least_bytes / 2 + most_bytes / 2) / machine::PAGE_BYTES as u64 + 1;
        let wait_s = (*hog_sleep_s).max(params.hog_use_ms.value / 1000).max(params.block_ns.value / 1_000_000_000);
        let operations = files.saturating_add(*transactions).saturating_mul(pages);
        Extent { operations, file_pages: files.saturating_mul(pages), wait_s, time_s: None }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some([names(rows([0.0; 7])), vmscan::row_names()].concat())
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        system.begin_measured();
        let (counters, cpu, started) = (system.vmstat(), system.cpu_times(), system.now());
        let is_filled = Arc::new(AtomicBool::new(params.hog_mib == 0));
        let hog = {
            let (params, is_filled) = (params.clone(), is_filled.clone());
            system.start("hog", move |system| {
                let result = hold_memory(system, &params, &is_filled);
                is_filled.store(true, Relaxed);
                result
            })
        };
        while !is_filled.load(Relaxed) && !system.is_killed() {
            system.sleep(Nanos::from_millis(10));
        }
        let mut rng = Rng::new(params.seed, 1);
        let marked = Mark::new(system, params).run(&mut rng);
        let elapsed_s = system.now().since(started).as_secs_f64();
        system.end_measured();
        let counters = difference(&counters, &system.vmstat());
        hog.kill(system);
        hog.join(system)?;
        let mut rows = marked?;
        rows.extend(vmscan::duration_rows(system.cpu_times().since(cpu), elapsed_s));
        rows.extend(vmscan::rows(&counters));
        let profile = system.profile().into_iter().map(|(path, time)| format!("run;{path} {}", time.0)).collect();
        Ok(Measurements { rows, profile, ..Measurements::default() })
    }
}

/// Runs the background program, which writes all of its memory once and then uses a small part of one block after
/// another until it is told to end.
fn hold_memory<S: System>(system: &S, params: &Params, is_filled: &AtomicBool) -> Result<(), SystemError> {
    let scale = system.given().scale;
    let pages = |mib: u64| scale.of(mib * 256) as u32;
    let (all, used) = (pages(params.hog_mib), pages(params.hog_used_mib));
    if all == 0 {
        return Ok(());
    }
    let memory = system.map(all)?;
    let mut result = system.touch(&memory, 0..all, true);
    is_filled.store(true, Relaxed);
    let mut block = 0;
    while result.is_ok() && !system.is_killed() {
        let start = all / HOG_BLOCKS as u32 * block;
        for _ in 0..HOG_ROUNDS {
            result = result.and_then(|()| system.touch(&memory, start..start + used, true));
            system.compute(Nanos(params.hog_use_ms.value * 1_000_000 / HOG_ROUNDS));
        }
        system.sleep(Nanos::from_secs(params.hog_sleep_s));
        block = (block + 1) % HOG_BLOCKS as u32;
    }
    system.unmap(memory);
    if system.is_killed() { Ok(()) } else { result }
}

/// Makes rows of the seven figures that postmark prints, in the order in which postmark prints them.
fn rows(figures: [f64; 7]) -> Vec<Row> {
    let columns = [
        ("Transactions", "transactions/s"),
        ("Data megabytes read", "MB/s"),
        ("Data megabytes written", "MB/s"),
        ("Files created alone", "files/s"),
        ("Files create/transact", "files/s"),
        ("Files deleted alone", "files/s"),
        ("Files delete/transact", "files/s"),
    ];
    let row = |((name, unit), figure): ((&str, &str), f64)| {
        Row::new("postmark", format!("{name} per second"), unit, Better::Higher, Format::Decimals(2), figure)
    };
    columns.into_iter().zip(figures).map(row).collect()
}

/// The state of one run of postmark.
struct Mark<'a, S> {
    system: &'a S,
    params: &'a Params,
    /// Number and length of each existing file.
    live: Vec<(u64, u64)>,
    next: u64,
    created: u64,
    deleted: u64,
    read_bytes: u64,
    written_bytes: u64,
    buffer: Vec<u8>,
}

impl<'a, S: System> Mark<'a, S> {
    fn new(system: &'a S, params: &'a Params) -> Self {
        let buffer = vec![0; BUFFER_BYTES as usize];
        let (live, next, created, deleted) = (Vec::new(), 0, 0, 0);
        Self { system, params, live, next, created, deleted, read_bytes: 0, written_bytes: 0, buffer }
    }

    fn run(mut self, rng: &mut Rng) -> Result<Vec<Row>, SystemError> {
        let scale = self.system.given().scale;
        let (files, transactions) = (scale.of(self.params.files).max(1), scale.of(self.params.transactions));
        // Postmark's clock counts whole seconds.
        let clock = |system: &S| system.now().0 / NANOS_PER_SECOND;
        let begun = clock(self.system);
        for _ in 0..files {
            self.create(rng)?;
        }
        let filled = clock(self.system);
        let (created, deleted) = (self.created, self.deleted);
        for _ in 0..transactions {
            if self.system.is_killed() {
                break;
            }
            if !self.live.is_empty() {
                if rng.below(2) == 0 { self.read(rng)? } else { self.append(rng)? }
            }
            if self.live.is_empty() || rng.below(2) == 0 { self.create(rng)? } else { self.delete(rng)? }
        }
        let done = clock(self.system);
        let (created, deleted) = (self.created - created, self.deleted - deleted);
        let left = self.live.len() as u64;
        while !self.live.is_empty() {
            self.delete(rng)?;
        }
        let ended = clock(self.system);
        let per = |count: u64, from: u64, to: u64| (count / (to - from).max(1)) as f64;
        let megabytes = |bytes: u64| bytes as f64 / (1 << 20) as f64 / (ended - begun).max(1) as f64;
        Ok(rows([
            per(transactions, filled, done),
            megabytes(self.read_bytes),
            megabytes(self.written_bytes),
            per(files, begun, filled),
            per(created, filled, done),
            per(left, done, ended),
            per(deleted, filled, done),
        ]))
    }

    fn name(number: u64) -> String {
        format!("postmark {number}")
    }

    fn create(&mut self, rng: &mut Rng) -> Result<(), SystemError> {
        let number = self.next;
        self.next += 1;
        self.created += 1;
        let bytes = self.params.least_bytes + rng.below(self.params.most_bytes - self.params.least_bytes);
        let file = self.system.create(&Self::name(number))?;
        self.live.push((number, bytes));
        self.write(&file, 0, bytes)
    }

    fn append(&mut self, rng: &mut Rng) -> Result<(), SystemError> {
        let at = rng.below(self.live.len() as u64) as usize;
        let (number, length) = self.live[at];
        let room = self.params.most_bytes.saturating_sub(length);
        if room == 0 {
            return Ok(());
        }
        let bytes = 1 + rng.below(room);
        let file = self.system.open(&Self::name(number))?;
        self.live[at].1 += bytes;
        self.write(&file, length, bytes)
    }

    fn write(&mut self, file: &S::File, start: u64, bytes: u64) -> Result<(), SystemError> {
        self.written_bytes += bytes;
        let end = start + bytes;
        let mut at = start;
        while at < end {
            let n = (BUFFER_BYTES - at % BUFFER_BYTES).min(end - at);
            self.system.compute(Nanos(self.params.block_ns.value * BUFFER_BLOCKS));
            self.system.write(file, at, &self.buffer[..n as usize])?;
            at += n;
        }
        Ok(())
    }

    fn read(&mut self, rng: &mut Rng) -> Result<(), SystemError> {
        let (number, length) = self.live[rng.below(self.live.len() as u64) as usize];
        self.read_bytes += length;
        let mut file = self.system.open(&Self::name(number))?;
        for at in (0..length).step_by(BUFFER_BYTES as usize) {
            self.system.compute(Nanos(self.params.block_ns.value * BUFFER_BLOCKS));
            self.system.read(&mut file, at, &mut self.buffer)?;
        }
        Ok(())
    }

    fn delete(&mut self, rng: &mut Rng) -> Result<(), SystemError> {
        let (number, _) = self.live.swap_remove(rng.below(self.live.len() as u64) as usize);
        self.deleted += 1;
        self.system.remove(&Self::name(number))
    }
}
