//! A key-value store in one file that is four times as large as the memory.
//!
//! The file is a hash table of pages. A key belongs to a bucket. A bucket is a chain of pages: it begins as one page,
//! and a full page points to a further one. Nothing is cached twice, and no value is copied: [`Store::get`] gives
//! access to the value in place, in the page that [`highwater::File::page`] has pinned.
//!
//! The guard of a bucket's first page is the bucket's lock. A thread that holds its [`highwater::PageWrite`] has the
//! whole chain to itself; threads that hold its [`highwater::PageRead`] share the chain. A thread takes the guards of a
//! chain from front to back, and has guards of only one chain at a time, so threads do not wait for each other in a
//! circle.
//!
//! The program fills a store from several threads. It then replaces, deletes and reads keys, mostly from a tenth of
//! them, and syncs. Last, it opens the file again with empty memory, and compares every key with the expected value. It
//! exits with 1 on a wrong byte.
//!
//! Run: `cargo run --release -p highwater --example key_value`, with `-- --help` for sizes.
//!
//! A crash in the middle of a `put` may damage the table. A real store would write a log first, which is not shown.

use clap::Parser;
use highwater::{Advice, File, Memory, PageRead, PageWrite};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const PAGE: usize = 4096;
const MIB: u64 = 1 << 20;

// ---- the store ----

/// The first bytes of page 0, which mark the file as a store.
const MAGIC: [u8; 8] = *b"buckets1";
/// Number of bytes of the header of a bucket's page. The header has the number of the bucket's next page or 0 (u32),
/// and the number of bytes in use after the header (u32). Entries follow: the lengths of key and value (u16 each), the
/// key and the value.
const HEADER: usize = 8;
const ENTRY_HEADER: usize = 4;
/// Number of pages by which the file grows at a time.
const GROWTH: u64 = 256;

/// A store of keys and values in one file. All methods may be called from any thread.
pub struct Store {
    file: File,
    buckets: u64,
    /// The number of the first page of the file that belongs to no chain yet; all later pages are free, too.
    free: Mutex<u64>,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")).into()
}

fn set_number(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 4].copy_from_slice(&u32::try_from(number).expect("fewer than 2^32 pages").to_le_bytes());
}

fn next_page(page: &[u8]) -> Option<u64> {
    Some(number(page, 0)).filter(|next| *next != 0)
}

/// Returns the number of bytes in use in a bucket's page, with the header.
fn used(page: &[u8]) -> usize {
    HEADER + number(page, 4) as usize
}

fn short(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

/// The place of an entry in a page: the offsets of the entry's start, of its value, and of its end, which is also the
/// end of the value.
#[derive(Clone, Copy)]
struct Entry {
    start: usize,
    value: usize,
    end: usize,
}

fn find(page: &[u8], key: &[u8]) -> Option<Entry> {
    let mut start = HEADER;
    while start < used(page) {
        let value = start + ENTRY_HEADER + short(page, start);
        let end = value + short(page, start + 2);
        if page[start + ENTRY_HEADER..value] == *key {
            return Some(Entry { start, value, end });
        }
        start = end;
    }
    None
}

fn remove(page: &mut [u8], entry: Entry) {
    let used = used(page);
    page.copy_within(entry.end..used, entry.start);
    set_number(page, 4, (used - (entry.end - entry.start) - HEADER) as u64);
}

fn append(page: &mut [u8], key: &[u8], value: &[u8]) -> bool {
    let start = used(page);
    let end = start + ENTRY_HEADER + key.len() + value.len();
    if end > PAGE {
        return false;
    }
    page[start..start + 2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    page[start + 2..start + 4].copy_from_slice(&(value.len() as u16).to_le_bytes());
    page[start + ENTRY_HEADER..end - value.len()].copy_from_slice(key);
    page[end - value.len()..end].copy_from_slice(value);
    set_number(page, 4, (end - HEADER) as u64);
    true
}

impl Store {
    /// Makes an empty store of `buckets` buckets, and replaces an existing file.
    pub fn create(memory: &Memory, path: &Path, buckets: u64) -> Outcome<Self> {
        let file = memory.create(path)?;
        file.set_len((1 + buckets) * PAGE as u64)?;
        let mut head = file.page_mut(0)?;
        head[..MAGIC.len()].copy_from_slice(&MAGIC);
        set_number(&mut head, MAGIC.len(), buckets);
        drop(head);
        Ok(Self::over(file, buckets))
    }

    /// Opens an existing store.
    pub fn open(memory: &Memory, path: &Path) -> Outcome<Self> {
        let file = memory.open(path)?;
        let head = file.page(0)?;
        if head[..MAGIC.len()] != MAGIC {
            return Err(format!("{}: not a store", path.display()).into());
        }
        let buckets = number(&head, MAGIC.len());
        drop(head);
        Ok(Self::over(file, buckets))
    }

    fn over(file: File, buckets: u64) -> Self {
        // The hashes of keys come in no order, so pages that are read ahead would not be used.
        file.advise(0..0, Advice::Random);
        let pages = file.len() / PAGE as u64;
        Self { file, buckets, free: Mutex::new(pages) }
    }

    /// Returns the number of the first page of a key's chain.
    fn bucket(&self, key: &[u8]) -> u64 {
        let hash = key
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        1 + mixed(hash) % self.buckets
    }

    /// Calls `look` with the value of a key, which is not copied. Returns the result of `look`; `None` if there is no
    /// such key.
    pub fn get<R>(&self, key: &[u8], look: impl FnOnce(&[u8]) -> R) -> Outcome<Option<R>> {
        let first = self.file.page(self.bucket(key))?;
        if let Some(entry) = find(&first, key) {
            return Ok(Some(look(&first[entry.value..entry.end])));
        }
        // The guard `first` is held to the end, so that no thread changes the chain meanwhile.
        let mut next = next_page(&first);
        while let Some(number) = next {
            let page: PageRead = self.file.page(number)?;
            if let Some(entry) = find(&page, key) {
                return Ok(Some(look(&page[entry.value..entry.end])));
            }
            next = next_page(&page);
        }
        Ok(None)
    }

    /// Sets the value of a key. An earlier value of the key is replaced.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Outcome {
        if HEADER + ENTRY_HEADER + key.len() + value.len() > PAGE {
            return Err(format!("{} bytes of key and value do not fit a page", key.len() + value.len()).into());
        }
        self.change(key, Some(value)).map(|_| ())
    }

    /// Removes a key, and returns whether it existed.
    pub fn delete(&self, key: &[u8]) -> Outcome<bool> {
        self.change(key, None)
    }

    /// Removes the entry of a key, if there is one. If `value` is given, adds an entry with this value. The new entry
    /// goes to the first page of the key's chain with enough free bytes, or to a page that is added to the chain.
    /// Returns whether the key had an entry before.
    fn change(&self, key: &[u8], value: Option<&[u8]>) -> Outcome<bool> {
        let mut first: PageWrite = self.file.page_mut(self.bucket(key))?;
        let mut was_there = remove_key(&mut first, key);
        let mut left = value.filter(|value| !append(&mut first, key, value));
        let mut last: Option<PageWrite> = None;
        while let Some(next) = next_page(last.as_deref().unwrap_or(&first)) {
            if was_there && left.is_none() {
                break;
            }
            let mut page = self.file.page_mut(next)?;
            was_there |= remove_key(&mut page, key);
            left = left.filter(|value| !append(&mut page, key, value));
            last = Some(page);
        }
        if let Some(value) = left {
            let new = self.new_page()?;
            assert!(append(&mut self.file.page_mut(new)?, key, value), "an empty page has room for any entry");
            set_number(last.as_deref_mut().unwrap_or(&mut first), 0, new);
        }
        Ok(was_there)
    }

    /// Takes a zeroed page that belongs to no chain, and returns its number. Extends the file if it has none left.
    fn new_page(&self) -> Outcome<u64> {
        let mut free = self.free.lock().expect("nobody panicked with it");
        let page = *free;
        if page * PAGE as u64 == self.file.len() {
            self.file.set_len((page + GROWTH) * PAGE as u64)?;
        }
        *free += 1;
        Ok(page)
    }

    /// Makes earlier puts and deletes durable.
    pub fn sync(&self) -> Outcome {
        Ok(self.file.sync_data()?)
    }
}

fn remove_key(page: &mut [u8], key: &[u8]) -> bool {
    let found = find(page, key);
    if let Some(entry) = found {
        remove(page, entry);
    }
    found.is_some()
}

// ---- the program ----

/// A key-value store larger than memory: fill, change, sync, open again, compare.
#[derive(Parser, Clone, Debug)]
struct Options {
    /// Memory, MiB.
    #[arg(long, default_value_t = 8)]
    memory: u64,
    /// Size of the table, MiB.
    #[arg(long, default_value_t = 32)]
    table: u64,
    /// Number of operations (reads, replacements and deletions) after the table was filled.
    #[arg(long, default_value_t = 100_000)]
    operations: u64,
    /// Threads; each has keys of its own.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Folder for the file; the file is removed at the end.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
}

fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % end
    }
}

fn key(number: u64) -> [u8; 24] {
    format!("customer-{number:015}").into_bytes().try_into().expect("9 and 15 letters")
}

/// Returns version `version` of the value of key `number`: 200 to 1000 bytes.
fn value(number: u64, version: u32) -> Vec<u8> {
    let word = mixed(number << 20 | u64::from(version));
    let length = 200 + (word % 801) as usize;
    word.to_le_bytes().into_iter().cycle().take(length).collect()
}

/// The expected version of each key's value; `None` for a deleted key.
type Known = BTreeMap<u64, Option<u32>>;

fn compare(store: &Store, number: u64, version: Option<u32>) -> Outcome {
    let expected = version.map(|version| value(number, version));
    let is_right = match store.get(&key(number), |found| Some(found) == expected.as_deref())? {
        Some(is_right) => is_right,
        None => expected.is_none(),
    };
    if is_right { Ok(()) } else { Err(format!("key {number}, version {version:?}: another value was found").into()) }
}

/// Puts all keys into the store.
fn fill(store: &Store, known: Known) -> Outcome<Known> {
    let put = |number| store.put(&key(number), &value(number, 0)).map(|()| (number, Some(0)));
    known.into_keys().map(put).collect()
}

/// Carries out operations on the store. Nine in ten operations use the first tenth of the keys; four in five operations
/// are reads.
fn use_store(store: &Store, mut known: Known, operations: u64) -> Outcome<Known> {
    let (first, keys) = (*known.keys().next().expect("keys"), known.len() as u64);
    let mut chance = Chance(first);
    for version in 1..=operations {
        let among = if chance.below(10) < 9 { keys.div_ceil(10) } else { keys };
        let number = first + chance.below(among);
        let entry = known.get_mut(&number).expect("known");
        match chance.below(100) {
            0..80 => compare(store, number, *entry)?,
            80..97 => {
                store.put(&key(number), &value(number, version as u32))?;
                *entry = Some(version as u32);
            }
            _ => {
                if store.delete(&key(number))? != entry.is_some() {
                    return Err(format!("key {number} was there or not, unlike expected").into());
                }
                *entry = None;
            }
        }
    }
    Ok(known)
}

fn look(store: &Store, known: Known) -> Outcome<Known> {
    known.iter().try_for_each(|(number, version)| compare(store, *number, *version))?;
    Ok(known)
}

/// Starts one thread for each element of `known`, with the keys that belong to the thread, and runs `work` on it.
/// Prints the number of operations, their rate, and the number of pages that were read from disk. Returns the results
/// of `work`.
fn phase(
    what: &str,
    memory: &Memory,
    operations: u64,
    known: Vec<Known>,
    work: impl Fn(Known) -> Outcome<Known> + Sync,
) -> Outcome<Vec<Known>> {
    let read_before = memory.vmstat().get("pgpgin");
    let began = Instant::now();
    let known = thread::scope(|scope| {
        let threads: Vec<_> = known.into_iter().map(|known| scope.spawn(|| work(known))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Outcome<Vec<_>>>()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let read = (memory.vmstat().get("pgpgin") - read_before) / 4;
    println!("{what:<22}{operations:>9}{seconds:>10.3} s{:>11.0} /s{read:>12} pages read", operations as f64 / seconds);
    Ok(known)
}

fn run(options: &Options) -> Outcome {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let path = folder.path().join("table");
    let start = || Memory::builder().size(options.memory * MIB).start();
    let buckets = (options.table * MIB / PAGE as u64).max(1);
    // An entry has 628 bytes on average, so some buckets need a second page.
    let (threads, per_thread) = (options.threads.max(1), buckets * 4 / options.threads.max(1));
    let keys = per_thread * threads;
    println!("{keys} keys in {} MiB, {} MiB of memory, {threads} threads", options.table, options.memory);

    let memory = start()?;
    let store = Store::create(&memory, &path, buckets)?;
    memory.notices().iter().for_each(|notice| println!("notice: {notice}"));
    let known = (0..threads).map(|t| (t * per_thread..(t + 1) * per_thread).map(|number| (number, None)).collect());
    let known = phase("fill", &memory, keys, known.collect(), |known| fill(&store, known))?;
    let per_thread = options.operations / threads;
    let known =
        phase("read, put, delete", &memory, per_thread * threads, known, |known| use_store(&store, known, per_thread))?;
    let began = Instant::now();
    store.sync()?;
    println!("{:<31}{:>10.3} s", "sync", began.elapsed().as_secs_f64());
    drop(store);
    memory.shutdown()?;

    let memory = start()?;
    let store = Store::open(&memory, &path)?;
    let known = phase("opened anew, compare", &memory, keys, known, |known| look(&store, known))?;
    drop(store);
    memory.shutdown()?;
    let deleted = known.iter().flat_map(BTreeMap::values).filter(|version| version.is_none()).count();
    println!("all {keys} keys are as they should be, {deleted} of them deleted");
    Ok(())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn every_key_is_found_again() {
    let options = Options { operations: 5000, ..Options::parse_from(["key_value", "--memory", "4", "--table", "8"]) };
    run(&options).unwrap();
}
