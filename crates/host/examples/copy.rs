//! Copies a large file while a hot set is in use, without evicting the hot set from memory.
//!
//! A server reads random pages of a hot file that takes half of its memory. At times the same process must copy a file
//! several times as large as memory, and needs each page of this file only once. The careful copy tells the library so.
//! It reads with [`Advice::Sequential`], so that pages are read ahead. Every few MiB it writes its data back, and drops
//! the copied pages with [`Advice::DontNeed`]. The naive copy only reads and writes, as `cp` does.
//!
//! The program runs both. For each copy it prints the duration, the hit ratio of the hot reads during the copy, and the
//! number of hot pages that had to be read from the disk afterwards. The program compares every hot page with its
//! expected contents, and both copies with the original, and exits with 1 on a wrong byte.
//!
//! Run: `cargo run --release -p highwater --example copy`, with `-- --help` for sizes.

use clap::Parser;
use highwater::{Advice, File, Memory};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Number of bytes that are read and written at a time.
const CHUNK: u64 = 256 << 10;
/// Number of bytes after which the careful copy drops the copied pages from memory: small, to save memory, but large
/// enough for efficient writes.
const GIVEN_UP: u64 = 2 * MIB;

/// The way in which a file is copied: either without advice to the memory, or so that the copied pages do not replace
/// the hot set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Naive,
    Careful,
}

impl Manner {
    const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Careful => "careful",
        }
    }
}

/// Copies all of `from` to `to`, and calls `serve` after each chunk.
fn copy(from: &File, to: &File, manner: Manner, mut serve: impl FnMut() -> Outcome) -> Outcome {
    let is_careful = manner == Manner::Careful;
    if is_careful {
        from.advise(0..0, Advice::Sequential);
    }
    let mut buffer = vec![0; CHUNK as usize];
    let (mut at, mut kept) = (0, 0);
    while at < from.len() {
        let n = from.read_at(&mut buffer, at)?;
        to.write_all_at(&buffer[..n], at)?;
        at += n as u64;
        if is_careful && (at - kept >= GIVEN_UP || at == from.len()) {
            // `DontNeed` drops only clean pages, so dirty pages are written first.
            to.sync_data()?;
            to.advise(kept..at, Advice::DontNeed);
            from.advise(kept..at, Advice::DontNeed);
            kept = at;
        }
        serve()?;
    }
    to.sync_data()?;
    Ok(())
}

/// Returns the contents of page `number` of a file, which are pseudo-random; `seed` is [`HOT`] or [`LARGE`].
fn contents(seed: u64, number: u64) -> Vec<u8> {
    let mut word = (seed << 48 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..PAGE / 8).flat_map(|_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    });
    words.collect()
}

fn check(what: &str, file: &File, seed: u64, number: u64) -> Outcome {
    if file.page(number)?[..] == contents(seed, number)[..] {
        return Ok(());
    }
    Err(format!("{what}: page {number} has other bytes").into())
}

/// The server, which reads random pages of the hot file and counts those that had to be read from the disk.
struct Server<'a> {
    memory: &'a Memory,
    hot: &'a File,
    pages: u64,
    chance: u64,
    reads: u64,
    misses: u64,
}

impl Server<'_> {
    fn serve(&mut self, reads: u64) -> Outcome {
        // The counter of disk reads also counts those of the copy, but when they start, which is outside this function.
        // So only reads of hot pages change it here.
        let before = self.memory.vmstat().get("pgpgin");
        for _ in 0..reads {
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            check("hot file", self.hot, HOT, (self.chance >> 33) % self.pages)?;
        }
        self.reads += reads;
        self.misses += (self.memory.vmstat().get("pgpgin") - before) / 4;
        Ok(())
    }

    /// Reads every page of the hot file once. Returns the number of pages that had to be read from the disk.
    fn visit_all(&self) -> Outcome<u64> {
        let before = self.memory.vmstat().get("pgpgin");
        (0..self.pages).try_for_each(|number| check("hot file", self.hot, HOT, number))?;
        Ok((self.memory.vmstat().get("pgpgin") - before) / 4)
    }
}

/// Seed of the contents of the hot file. [`LARGE`] is the seed for the copied file.
const HOT: u64 = 1;
const LARGE: u64 = 2;

/// Copies a large file beside a hot set: naively, and carefully.
#[derive(Parser, Clone, Debug)]
struct Options {
    /// Memory, MiB.
    #[arg(long, default_value_t = 16)]
    memory: u64,
    /// The hot file, MiB.
    #[arg(long, default_value_t = 8)]
    hot: u64,
    /// The file that is copied, MiB.
    #[arg(long, default_value_t = 64)]
    large: u64,
    /// Hot reads for each 256 KiB that are copied.
    #[arg(long, default_value_t = 200)]
    reads: u64,
    /// Folder of the files, which are removed at the end.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
}

/// The effect of one copy on the hot set.
struct Effect {
    reads: u64,
    misses: u64,
    gone: u64,
}

fn copy_once(options: &Options, folder: &std::path::Path, manner: Manner) -> Outcome<Effect> {
    let memory = Memory::builder().size(options.memory * MIB).start()?;
    let (hot, large) = (memory.open(folder.join("hot"))?, memory.open(folder.join("large"))?);
    let target = memory.create(folder.join("copy"))?;
    hot.advise(0..0, Advice::Random);
    let mut server = Server { memory: &memory, hot: &hot, pages: hot.len() / PAGE, chance: 7, reads: 0, misses: 0 };
    // Warms up: every page is read once, and then used again.
    server.visit_all()?;
    server.serve(4 * server.pages)?;
    (server.reads, server.misses) = (0, 0);

    let began = Instant::now();
    copy(&large, &target, manner, || server.serve(options.reads))?;
    let seconds = began.elapsed().as_secs_f64();
    let effect = Effect { reads: server.reads, misses: server.misses, gone: server.visit_all()? };
    let hits = 100.0 * (1.0 - effect.misses as f64 / effect.reads.max(1) as f64);
    let gone = format!("{} of {}", effect.gone, server.pages);
    let held = memory.vmstat().get("nr_file_pages");
    println!("{:<9}{seconds:>8.2} s{hits:>20.2} %{gone:>21}{held:>20}", manner.name());

    target.advise(0..0, Advice::Sequential);
    if target.len() != large.len() {
        return Err(format!("the copy has {} bytes, not {}", target.len(), large.len()).into());
    }
    (0..target.len() / PAGE).try_for_each(|number| check("copy", &target, LARGE, number))?;
    drop((hot, large, target));
    memory.shutdown()?;
    Ok(effect)
}

fn run(options: &Options) -> Outcome<(Effect, Effect)> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let memory = Memory::builder().size(options.memory * MIB).start()?;
    for (name, seed, mib) in [("hot", HOT, options.hot), ("large", LARGE, options.large)] {
        let file = memory.create(folder.path().join(name))?;
        for number in 0..mib * MIB / PAGE {
            file.write_all_at(&contents(seed, number), number * PAGE)?;
        }
        file.sync_all()?;
    }
    memory.notices().iter().for_each(|notice| println!("notice: {notice}"));
    memory.shutdown()?;

    println!("{} MiB copied beside a hot set of {} MiB, {} MiB of memory", options.large, options.hot, options.memory);
    println!("copy           time    hot hits meanwhile  hot gone afterwards     pages in memory");
    let naive = copy_once(options, folder.path(), Manner::Naive)?;
    let careful = copy_once(options, folder.path(), Manner::Careful)?;
    println!("all hot pages and both copies are as they should be");
    Ok((naive, careful))
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn a_careful_copy_leaves_the_hot_set_in_memory() {
    let options = ["copy", "--memory", "12", "--hot", "4", "--large", "24", "--reads", "20"];
    let (naive, careful) = run(&Options::parse_from(options)).unwrap();
    assert!(careful.misses <= naive.misses, "{} and {} of {}", careful.misses, naive.misses, careful.reads);
    assert_eq!(careful.gone, 0);
}
