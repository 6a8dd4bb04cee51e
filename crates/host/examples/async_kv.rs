//! A key-value store for reading, in one file that is larger than memory, with 10,000 misses at a time on two threads.
//!
//! Each page of the file has the value of one key. [`Store::get`] is an async function: while the page of a key is being
//! read, the thread serves other keys. The program compares this with threads that wait: it reads keys by 10,000 tasks on
//! two threads of an executor, and by 32 threads, in turns and each time with empty memory. It prints how many values a
//! second each of them read, how much CPU time a value took, and the ratio of the rates. It exits with 1 on a wrong byte.
//!
//! Run: `cargo run --release -p highwater --example async_kv`, with `-- --help` for sizes. The file should lie on a disk,
//! not on tmpfs; `--folder` says where.

use clap::Parser;
use highwater::{Advice, File, Memory, OpenOptions};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const PAGE: usize = 4096;
const MIB: u64 = 1 << 20;

/// Sizes and times of the comparison.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// Size of the file, MiB
    #[arg(long, default_value_t = 2048)]
    file_mib: u64,
    /// Size of the memory, MiB; four times as large as the pages that are read at a time, or larger
    #[arg(long, default_value_t = 192)]
    memory_mib: u64,
    /// Number of tasks, each of which reads one key at a time
    #[arg(long, default_value_t = 10_000)]
    tasks: u64,
    /// Number of threads of the executor
    #[arg(long, default_value_t = 2)]
    executor_threads: usize,
    /// Number of threads that wait, for comparison
    #[arg(long, default_value_t = 32)]
    threads: u64,
    /// Time of each run, seconds; a fifth more is spent before it, to fill memory
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Number of runs of each kind
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Time for which the library is left idle at the end, seconds, to measure its CPU time
    #[arg(long, default_value_t = 5.0)]
    idle_seconds: f64,
    /// Folder of the file, which is deleted at the end; the folder of temporary files if not given
    #[arg(long)]
    folder: Option<PathBuf>,
}

// ---- the store ----

/// A store of one value for each key from 0 on.
pub struct Store {
    file: Arc<File>,
    keys: u64,
}

/// Returns the bytes of a key's value: 8 bytes that depend on the key, again and again.
fn value_word(key: u64) -> [u8; 8] {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d).to_le_bytes()
}

fn is_value_of(key: u64, page: &[u8]) -> bool {
    page.len() == PAGE && page.chunks_exact(8).step_by(64).all(|word| word == value_word(key))
}

impl Store {
    /// Writes the file of a store without the library, so that no page is in memory.
    fn create(path: &Path, keys: u64) -> Outcome {
        let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
        for key in 0..keys {
            file.write_all(&value_word(key).repeat(PAGE / 8))?;
        }
        file.into_inner()?.sync_all()?;
        Ok(())
    }

    fn open(memory: &Memory, path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().open(memory, path)?;
        file.advise(0..0, Advice::Random);
        let keys = file.len() / PAGE as u64;
        Ok(Self { file: Arc::new(file), keys })
    }

    /// Calls `look` with the value of a key, in place. The thread serves other tasks while the value is read.
    pub async fn get<R>(&self, key: u64, look: impl FnOnce(&[u8]) -> R) -> Outcome<R> {
        let page = self.file.page_async(key).await?;
        Ok(look(&page))
    }

    /// Calls `look` with the value of a key. The thread waits while the value is read.
    pub fn get_blocking<R>(&self, key: u64, look: impl FnOnce(&[u8]) -> R) -> Outcome<R> {
        let page = self.file.page(key)?;
        Ok(look(&page))
    }
}

// ---- the comparison ----

/// The state of a run: how many values were read, and whether the run is over.
#[derive(Default)]
struct Run {
    read: AtomicU64,
    is_over: AtomicBool,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Values read per second.
    rate: f64,
    /// CPU time of the process for each value, microseconds.
    cpu_us: f64,
    /// Number of threads of the process during the run.
    threads: u64,
    /// Part of the values that were not in memory.
    missed: f64,
}

/// A simple pseudo-random number generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Returns the CPU time that this process has used, seconds.
fn cpu_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?.1;
    // The fields 14 and 15 of the line, in ticks of a hundredth of a second.
    let ticks: Vec<f64> = after_name.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

fn thread_count() -> Outcome<u64> {
    Ok(std::fs::read_dir("/proc/self/task")?.count() as u64)
}

/// Measures a run that other threads carry out: waits until memory is full, then counts for the time of a run.
fn measure(options: &Options, memory: &Memory, run: &Run) -> Outcome<Figures> {
    let time = Duration::from_secs_f64(options.seconds);
    thread::sleep(time / 5);
    let count = || (run.read.load(Ordering::Relaxed), memory.vmstat().get("pgpgin"));
    let (before, cpu_before, began) = (count(), cpu_seconds()?, Instant::now());
    thread::sleep(time);
    let (after, cpu, seconds) = (count(), cpu_seconds()? - cpu_before, began.elapsed().as_secs_f64());
    let threads = thread_count()?;
    run.is_over.store(true, Ordering::Relaxed);
    let values = (after.0 - before.0).max(1) as f64;
    let missed = (after.1 - before.1) as f64 * 1024.0 / PAGE as f64 / values;
    Ok(Figures { rate: values / seconds, cpu_us: cpu * 1e6 / values, threads, missed })
}

/// Reads keys by tasks on an executor.
fn by_tasks(options: &Options, memory: &Memory, store: Store) -> Outcome<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(options.executor_threads).build()?;
    let (store, run) = (Arc::new(store), Arc::new(Run::default()));
    let tasks: Vec<_> = (0..options.tasks)
        .map(|number| {
            let (store, run) = (store.clone(), run.clone());
            runtime.spawn(async move {
                let mut chance = Chance(number);
                while !run.is_over.load(Ordering::Relaxed) {
                    let key = chance.below(store.keys);
                    if !store.get(key, |value| is_value_of(key, value)).await? {
                        return Err(format!("key {key} has a wrong value").into());
                    }
                    run.read.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Ok(())
            })
        })
        .collect();
    let figures = measure(options, memory, &run)?;
    runtime.block_on(async {
        for task in tasks {
            task.await??;
        }
        Outcome::Ok(())
    })?;
    Ok(figures)
}

/// Reads keys by threads that wait.
fn by_threads(options: &Options, memory: &Memory, store: &Store) -> Outcome<Figures> {
    let run = Run::default();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..options.threads)
            .map(|number| {
                let run = &run;
                scope.spawn(move || {
                    let mut chance = Chance(number);
                    while !run.is_over.load(Ordering::Relaxed) {
                        let key = chance.below(store.keys);
                        if !store.get_blocking(key, |value| is_value_of(key, value))? {
                            return Err(format!("key {key} has a wrong value").into());
                        }
                        run.read.fetch_add(1, Ordering::Relaxed);
                    }
                    Outcome::Ok(())
                })
            })
            .collect();
        let figures = measure(options, memory, &run);
        for reader in readers {
            reader.join().map_err(|_| "a reader panicked")??;
        }
        figures
    })
}

fn print(name: &str, figures: Figures) {
    let Figures { rate, cpu_us, threads, missed } = figures;
    let missed = 100.0 * missed;
    println!("{name:24} {rate:9.0} values/s  {cpu_us:6.1} us CPU  {threads:3} threads  {missed:3.0} % missed");
}

/// Measures the part of a CPU that the library uses while nobody calls it, after futures have used it.
fn idle_share(options: &Options, memory: &Memory, store: &Store) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let is_right = runtime.block_on(store.get(0, |value| is_value_of(0, value)))?;
    assert!(is_right && memory.size() > 0);
    thread::sleep(Duration::from_millis(200));
    let (before, began) = (cpu_seconds()?, Instant::now());
    thread::sleep(Duration::from_secs_f64(options.idle_seconds));
    Ok((cpu_seconds()? - before) / began.elapsed().as_secs_f64().max(1e-9))
}

/// Runs the comparison, and returns the median of the ratios: values by tasks, divided by values by threads.
fn compare(options: &Options) -> Outcome<f64> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let path = folder.path().join("store");
    Store::create(&path, options.file_mib * MIB / PAGE as u64)?;
    let start = || Memory::builder().size(options.memory_mib * MIB).start();
    let mut ratios = Vec::new();
    for _ in 0..options.rounds.max(1) {
        let memory = start()?;
        let threads = by_threads(options, &memory, &Store::open(&memory, &path)?)?;
        print(&format!("{} threads", options.threads), threads);
        let memory = start()?;
        let tasks = by_tasks(options, &memory, Store::open(&memory, &path)?)?;
        print(&format!("{} tasks, {} threads", options.tasks, options.executor_threads), tasks);
        memory.notices().iter().for_each(|notice| eprintln!("note: {notice}"));
        ratios.push(tasks.rate / threads.rate);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    println!("tasks read {ratio:.2} times as many values as threads (median of {})", ratios.len());
    let memory = start()?;
    let idle = idle_share(options, &memory, &Store::open(&memory, &path)?)?;
    println!("idle, the library uses {:.2} % of a CPU", 100.0 * idle);
    Ok(ratio)
}

fn main() -> Outcome {
    compare(&Options::parse()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_threads_read_right_values() {
        let options = "async_kv --file-mib 16 --memory-mib 8 --tasks 1000 --threads 4 --seconds 0.1 --rounds 1 \
                       --idle-seconds 0";
        let options = Options::parse_from(options.split_whitespace());
        assert!(compare(&options).unwrap() > 0.0);
    }
}
