//! A file server on which a large process ends. The report shows whether the server uses the freed memory again.
//!
//! The server has many small files, more than memory holds, and daemons that use their memory slowly. Readers open a
//! random file, read it whole, send it to a client and close it. Sent data stay in socket buffers until the client has
//! them. After a while a large process ends and leaves free memory. A server whose readers wait for a disk should fill
//! this memory with files within minutes.
//!
//! The workload measures free memory by zone, pages that had to be read again, swap, and the duration of single runs of
//! kswapd.

use super::big_file::read_whole;
use super::meter::{add_profile, counter_rows};
use crate::extent::{self, Extent, MEMORY_MAX_MIB, TIME_MAX_S};
use crate::system::contents::Pattern;
use crate::system::{Started, System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use ::sim::Rng;
use documented::DocumentedFields;
use engine::Unacknowledged;
use engine::memory::NodeId;
use engine::reclaim::KswapdCalls;
use engine::stat::vmstat;
use figures::counters::difference;
use figures::engine_view::{EngineView, ZoneView};
use figures::figure::{Better, Format, Row, RowName, duration_rows, names};
use figures::scale::Scale;
use machine::{Nanos, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The daemons draw their random numbers from the stream of this number ([`System::rng`]), and the readers from the
/// streams after it.
const STREAM: u64 = 7000;

/// Interval at which free memory is sampled.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);

/// Number of pages in a MiB.
const MIB_PAGES: u64 = 256;

/// Interval at which the server frees data that clients have received. If the server may not accept another client, a
/// reader checks again after this interval. The interval is short compared with the time that a client takes.
const ACKNOWLEDGE_EVERY: Nanos = Nanos::from_millis(10);

/// Longest duration of a run, seconds.
const LONGEST_S: u64 = TIME_MAX_S;

/// Largest number of reading tasks. There is a limit because each task has a stack of its own.
const READERS_MAX: u64 = 4096;

/// Largest number of files that the workload may have. There is a limit because a simulation keeps a name and an inode
/// for each file.
const FILES_MAX: u64 = 1 << 20;

/// CPU time that a reader spends on one file.
const COMPUTE: Nanos = Nanos(200_000);

/// Parameters of the workload `simon`, from `[params]` in an experiment's file. Sizes are those at full scale.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Memory of the daemons, MiB. Default 1000.
    pub daemons_mib: u64,
    /// Time between two touches of random pages in the daemons' memory, us. Default 2000.
    pub touch_every_us: u64,
    /// Memory of the large process that ends, MiB. Default 1500.
    pub process_mib: u64,
    /// Time at which the large process ends, counted in seconds from the moment when all tasks are at work. Default
    /// 180.
    pub ends_s: u64,
    /// Size of all files together, MiB. Default 3500.
    pub files_mib: u64,
    /// Size of each file, KiB. Default 64.
    pub file_kib: u64,
    /// Number of tasks that read files, at most 4096. Default 32.
    pub readers: u64,
    /// Mean time until a client has received its file, ms. The times of the clients are uniform between 0 and twice the
    /// mean. Default 500, the time for 64 KiB at 1 Mbit/s. If the mean is 0, nothing is sent.
    pub client_ms: u64,
    /// Largest number of clients served at a time, at full scale. While this many clients are served, readers wait.
    /// Default 8192, a number that is not reached if clients take 500 ms. With files of 64 KiB, the data sent to 8192
    /// clients take 740 MiB.
    pub clients: u64,
    /// Start of the period in which free memory is judged, seconds after all tasks are at work. The report has the
    /// least, mean and most free memory in this period. Default 480.
    pub judged_from_s: u64,
    /// Duration of the period that starts at `judged_from_s`, seconds. Default 300.
    pub judged_s: u64,
    /// Seconds between two printed samples of free memory. Default 60.
    pub print_every_s: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            daemons_mib: 1000,
            touch_every_us: 2000,
            process_mib: 1500,
            ends_s: 180,
            files_mib: 3500,
            file_kib: 64,
            readers: 32,
            client_ms: 500,
            clients: 8192,
            judged_from_s: 480,
            judged_s: 300,
            print_every_s: 60,
        }
    }
}

impl Params {
    fn daemon_pages(&self, scale: Scale) -> u32 {
        scale.of(self.daemons_mib * MIB_PAGES) as u32
    }

    fn process_pages(&self, scale: Scale) -> u32 {
        scale.of(self.process_mib * MIB_PAGES) as u32
    }

    fn file_pages(&self) -> u64 {
        (self.file_kib / 4).max(1)
    }

    fn files(&self, scale: Scale) -> u64 {
        scale.of(self.files_mib.saturating_mul(MIB_PAGES)) / self.file_pages()
    }
}

/// The workload `simon`: a file server on which a large process ends.
#[derive(Debug)]
pub struct Simon;

impl Workload for Simon {
    type Params = Params;

    const NAME: &'static str = "simon";

    const ABOUT: &'static str = "a file server on which a large process ends";

    const VERIFIES: bool = true;

    const SIM_ONLY: Option<&'static str> = Some("the other grounds have no network of their own");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let positive = [
            ("touch_every_us", params.touch_every_us),
            ("readers", params.readers),
            ("judged_s", params.judged_s),
            ("print_every_s", params.print_every_s),
            ("file_kib", params.file_kib),
            ("clients", params.clients),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("`{name}` is 0: must be at least 1"));
        }
        let times_s = [
            ("ends_s", params.ends_s),
            ("judged_from_s", params.judged_from_s),
            ("judged_s", params.judged_s),
            ("client_ms", params.client_ms / 1000),
            ("touch_every_us", params.touch_every_us / 1_000_000),
        ];
        if let Some((name, _)) = times_s.into_iter().find(|(_, time_s)| *time_s > LONGEST_S) {
            return Err(format!("`{name}` is longer than {LONGEST_S} s"));
        }
        if params.ends_s >= params.judged_from_s {
            return Err(format!(
                "`judged_from_s` is {}: the process ends at {} s, and memory is judged after that",
                params.judged_from_s, params.ends_s
            ));
        }
        let sizes = [("daemons_mib", params.daemons_mib), ("process_mib", params.process_mib)];
        if let Some((name, mib)) = sizes.into_iter().find(|(_, mib)| *mib > MEMORY_MAX_MIB) {
            return Err(format!("`{name}` is {mib}: must be at most {MEMORY_MAX_MIB}"));
        }
        if params.readers > READERS_MAX {
            return Err(format!("`readers` is {}: must be at most {READERS_MAX}", params.readers));
        }
        if params.files(Scale::FULL) == 0 {
            let Params { files_mib, file_kib, .. } = params;
            return Err(format!("there is no file to read: `files_mib` is {files_mib}, and `file_kib` {file_kib}"));
        }
        if params.files(Scale::FULL) > FILES_MAX {
            let (files, Params { files_mib, file_kib, .. }) = (params.files(Scale::FULL), params);
            return Err(format!(
                "`files_mib` is {files_mib}, and `file_kib` {file_kib}: {files} files, and {FILES_MAX} are the most"
            ));
        }
        if params.file_pages() > resources.memory_pages / 4 {
            return Err(format!("`file_kib` is {}: a file must take a quarter of memory at most", params.file_kib));
        }
        Ok(())
    }

    fn extent(params: &Params, _: &Resources, scale: Scale) -> Extent {
        let time_s = params.judged_from_s.saturating_add(params.judged_s);
        let touches = extent::times(time_s, params.touch_every_us.saturating_mul(1000));
        let file_pages = extent::mib_pages(params.files_mib, scale);
        let operations = touches.saturating_add(file_pages);
        Extent { time_s: Some(time_s), wait_s: params.print_every_s, operations, file_pages }
    }

    fn row_names(params: &Params, _: &Resources) -> Option<Vec<RowName>> {
        let zones = ["DMA32", "Normal"].map(|name| ZoneView { node: NodeId(0), name, pages: 0, free: 0 });
        let look = |at_s| Look { at_s, free: 0, zones: zones.into() };
        let seen = Seen {
            looks: (0..=params.judged_from_s + params.judged_s).map(look).collect(),
            calls: Some(KswapdCalls::default()),
            counters: vmstat::zeroes(),
            reads: 0,
            refaults: Some(0),
            elapsed_s: 1.0,
            user_s: 0.0,
            system_s: 0.0,
            profile: Vec::new(),
        };
        Some(names(seen.rows(params)))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        let scale = system.given().scale;
        if params.files(scale) == 0 {
            return Err(SystemError(format!("there is no file to read at scale {scale}")));
        }
        let clients = Clients::new(scale.of(params.clients).max(1), Nanos::from_millis(params.client_ms));
        let course = Arc::new(Course::new(clients));
        let files = Arc::new(Files::make(system, params.files(scale), params.file_pages())?);
        let (daemon_pages, process_pages) = (params.daemon_pages(scale), params.process_pages(scale));
        let touch_every = Nanos(params.touch_every_us * 1000);
        let mut tasks = Vec::new();
        let shared = course.clone();
        tasks.push(system.start("daemons", move |system| {
            shared.ending(touch_at_random(system, daemon_pages, touch_every, &shared))
        }));
        let shared = course.clone();
        tasks.push(
            system.start("process", move |system| shared.ending(hold_until_it_ends(system, process_pages, &shared))),
        );
        while course.ready.load(Relaxed) < 2 && !course.has_failed() && !system.is_killed() {
            system.sleep(LOOK_EVERY);
        }
        let shared = course.clone();
        tasks.push(system.start("network", move |system| {
            while !shared.is_over() && !system.is_killed() {
                system.sleep(ACKNOWLEDGE_EVERY);
                shared.clients.take_until(system, system.now());
            }
            Ok(())
        }));
        for n in 0..params.readers {
            let (files, shared) = (files.clone(), course.clone());
            let read = move |system: &S| shared.ending(read_at_random(system, n, &files, &shared));
            tasks.push(system.start(&format!("reader {n}"), read));
        }
        let seen = watch(system, params, &course, &files);
        let ended = join(system, tasks);
        // Sent data are freed even if a task failed.
        course.clients.take_until(system, Nanos(u64::MAX));
        let removed = files.remove(system);
        ended.and(removed)?;
        let (rows, profile) = (seen.rows(params), seen.profile);
        Ok(Measurements { rows, profile, ..Measurements::default() })
    }
}

/// State of the run before the large process is told to end.
const RUNNING: u8 = 0;
/// State of the run after the large process was told to end.
const PROCESS_ENDS: u8 = 1;
/// State of the run after its time is over.
const OVER: u8 = 2;
/// State of the run after a task has failed.
const FAILED: u8 = 3;

/// State shared by the tasks and their watcher.
#[derive(Debug)]
struct Course {
    /// Number of tasks that have touched all of their memory.
    ready: AtomicU64,
    /// State of the run: `RUNNING`, `PROCESS_ENDS`, `OVER` or `FAILED`. The state never goes back to a smaller value.
    state: AtomicU8,
    /// Number of files that the tasks have read so far.
    reads: AtomicU64,
    clients: Clients,
}

impl Course {
    fn new(clients: Clients) -> Self {
        Self { ready: AtomicU64::new(0), state: AtomicU8::new(RUNNING), reads: AtomicU64::new(0), clients }
    }

    fn is_over(&self) -> bool {
        self.state.load(Relaxed) >= OVER
    }

    fn has_failed(&self) -> bool {
        self.state.load(Relaxed) == FAILED
    }

    fn go_to(&self, state: u8) {
        self.state.fetch_max(state, Relaxed);
    }

    /// Returns the result of a task unchanged. If the task failed, tells the other tasks to end.
    fn ending(&self, result: Result<(), SystemError>) -> Result<(), SystemError> {
        if result.is_err() {
            self.go_to(FAILED);
        }
        result
    }
}

/// The clients that request files from the server, and wait for them.
#[derive(Debug)]
struct Clients {
    /// Mean time until a client has received its file. If it is 0, nothing is sent.
    mean_time: Nanos,
    waiting: Mutex<Waiting>,
}

/// The clients that are being served, and the number of clients that the server may still accept.
#[derive(Debug, Default)]
struct Waiting {
    /// Number of clients that the server may still accept, in addition to the clients that it serves now.
    more: u64,
    /// Data that were sent and not yet freed. The first part of the key is the time at which the client has received
    /// the data. The second part, the number of the read, makes keys unique.
    sent: BTreeMap<(Nanos, u64), Unacknowledged>,
}

impl Clients {
    fn new(count: u64, mean_time: Nanos) -> Self {
        Self { mean_time, waiting: Mutex::new(Waiting { more: count, ..Waiting::default() }) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a client's request for a file, and returns `true`. Returns `false` if the server already serves the
    /// largest number of clients.
    fn accept(&self) -> bool {
        let mut waiting = self.waiting();
        let can = waiting.more > 0;
        waiting.more -= u64::from(can);
        can
    }

    /// Sends `bytes` bytes of a file to the client that asked for the file. `n` is the number of the file's read,
    /// counted over the whole run. If the mean time in which clients receive their files is 0, sends nothing: the
    /// client then has its file at once.
    fn answer<S: System>(&self, system: &S, rng: &mut Rng, n: u64, bytes: u64) -> Result<(), SystemError> {
        if self.mean_time == Nanos(0) {
            self.waiting().more += 1;
            return Ok(());
        }
        let sent = system.send(bytes)?;
        let received_at = system.now() + Nanos(rng.below(2 * self.mean_time.0 + 1));
        self.waiting().sent.insert((received_at, n), sent);
        Ok(())
    }

    /// Frees the data that clients have received by the time `now`.
    fn take_until<S: System>(&self, system: &S, now: Nanos) {
        let received = {
            let mut waiting = self.waiting();
            let later = waiting.sent.split_off(&(now, u64::MAX));
            let received = std::mem::replace(&mut waiting.sent, later);
            waiting.more += received.len() as u64;
            received
        };
        received.into_values().for_each(|sent| system.acknowledge(sent));
    }
}

fn join<S: System>(system: &S, tasks: Vec<Started<S, Result<(), SystemError>>>) -> Result<(), SystemError> {
    // All tasks are joined before the first error is returned.
    let ended: Vec<_> = tasks.into_iter().map(|task| task.join(system)).collect();
    ended.into_iter().collect()
}

/// The small files that the server serves.
#[derive(Debug)]
struct Files {
    count: u64,
    pages: u64,
    /// For each file: 1 if it was read at least once, otherwise 0.
    was_read: Vec<AtomicU8>,
}

impl Files {
    fn name(n: u64) -> String {
        format!("mail/{n}")
    }

    fn make<S: System>(system: &S, count: u64, pages: u64) -> Result<Self, SystemError> {
        let mut bytes = vec![0; page_bytes(pages) as usize];
        for n in (0..count).take_while(|_| !system.is_killed()) {
            let name = Self::name(n);
            let file = system.create(&name)?;
            Pattern::new(&name, 1).fill(system.kept(), 0, &mut bytes);
            system.write(&file, 0, &bytes)?;
        }
        // Dirty pages must be written before the files are read again.
        for n in (0..count).take_while(|_| !system.is_killed()) {
            system.sync(&system.open(&Self::name(n))?)?;
        }
        Ok(Self { count, pages, was_read: (0..count).map(|_| AtomicU8::new(0)).collect() })
    }

    fn remove<S: System>(&self, system: &S) -> Result<(), SystemError> {
        (0..self.count).try_for_each(|n| system.remove(&Self::name(n)))
    }

    /// Returns the size, in pages, of all files that were read at least once.
    fn pages_read_once(&self) -> u64 {
        self.was_read.iter().map(|was| u64::from(was.load(Relaxed))).sum::<u64>() * self.pages
    }
}

/// Maps a region, and touches a random page of it at intervals of `every`, until the run is over.
fn touch_at_random<S: System>(system: &S, pages: u32, every: Nanos, course: &Course) -> Result<(), SystemError> {
    let mut rng = system.rng(STREAM);
    let region = system.map(pages)?;
    system.touch(&region, 0..pages, true)?;
    course.ready.fetch_add(1, Relaxed);
    while !course.is_over() && !system.is_killed() {
        system.sleep(every);
        let page = rng.below(pages.max(1).into()) as u32;
        system.touch(&region, page..page + 1, false)?;
    }
    system.unmap(region);
    Ok(())
}

fn hold_until_it_ends<S: System>(system: &S, pages: u32, course: &Course) -> Result<(), SystemError> {
    let region = system.map(pages)?;
    system.touch(&region, 0..pages, true)?;
    course.ready.fetch_add(1, Relaxed);
    while course.state.load(Relaxed) == RUNNING && !system.is_killed() {
        system.sleep(Nanos::from_millis(100));
    }
    system.unmap(region);
    Ok(())
}

fn read_at_random<S: System>(system: &S, reader: u64, files: &Files, course: &Course) -> Result<(), SystemError> {
    let mut rng = system.rng(STREAM + 1 + reader);
    let kept = system.kept();
    let mut bytes = vec![0; page_bytes(files.pages) as usize];
    while !course.is_over() && !system.is_killed() {
        if !course.clients.accept() {
            system.sleep(ACKNOWLEDGE_EVERY);
            continue;
        }
        let n = rng.below(files.count);
        let name = Files::name(n);
        let mut file = system.open(&name)?;
        read_whole(system, &mut file, &name, 0, &mut bytes)?;
        Pattern::new(&name, 1).verify(kept, 0, &bytes)?;
        files.was_read[n as usize].store(1, Relaxed);
        let read = course.reads.fetch_add(1, Relaxed);
        course.clients.answer(system, &mut rng, read, bytes.len() as u64)?;
        system.compute(COMPUTE);
    }
    Ok(())
}

/// A sample of free memory at one time.
#[derive(Clone, Debug)]
struct Look {
    /// Time of the sample, seconds after all tasks were at work.
    at_s: u64,
    /// Number of free pages in all zones.
    free: u64,
    /// The zones with their free pages; empty if the system does not report zones.
    zones: Vec<ZoneView>,
}

/// The record of a run: samples of free memory, counters, reads and CPU time.
#[derive(Debug)]
struct Seen {
    looks: Vec<Look>,
    calls: Option<KswapdCalls>,
    /// Growth of counters since all tasks were at work.
    counters: engine::stat::Vmstat,
    reads: u64,
    refaults: Option<u64>,
    elapsed_s: f64,
    user_s: f64,
    system_s: f64,
    /// CPU time as folded stacks, separately for the time before the large process ended and for the time after.
    profile: Vec<String>,
}

/// Samples free memory until the end of the run, and tells the large process and the other tasks when to end. Returns
/// the record of the run.
fn watch<S: System>(system: &S, params: &Params, course: &Course, files: &Files) -> Seen {
    system.begin_measured();
    let (counters, cpu, read_in) = (system.vmstat(), system.cpu_times(), system.pages_read_in());
    let began = system.now();
    if let Some(engine) = system.engine_view() {
        engine.take_kswapd_calls();
    }
    let mut looks = Vec::new();
    let mut profile = Vec::new();
    let mut spent = system.profile();
    let length_s = params.judged_from_s + params.judged_s;
    system.expect_end(began + Nanos::from_secs(length_s));
    for at_s in 0..=length_s {
        if at_s == params.ends_s {
            course.go_to(PROCESS_ENDS);
            add_profile(&mut profile, "before the end", &mut spent, system.profile());
        }
        let zones = system.engine_view().map_or_else(Vec::new, EngineView::zones);
        looks.push(Look { at_s, free: system.free_pages(), zones });
        if course.has_failed() || system.is_killed() {
            break;
        }
        if at_s < length_s {
            system.sleep(Nanos((began + Nanos::from_secs(at_s + 1)).since(system.now()).0));
        }
    }
    course.go_to(OVER);
    add_profile(&mut profile, "after the end", &mut spent, system.profile());
    let calls = system.engine_view().map(EngineView::take_kswapd_calls);
    system.end_measured();
    let counters = difference(&counters, &system.vmstat());
    let cpu = system.cpu_times().since(cpu);
    let swapped_in = counters.get("pswpin").copied().unwrap_or(0);
    let of_files = |read_in: u64, before: u64| (read_in - before).saturating_sub(swapped_in);
    let refaults = system
        .pages_read_in()
        .zip(read_in)
        .map(|(now, before)| of_files(now, before).saturating_sub(files.pages_read_once()));
    Seen {
        looks,
        calls,
        counters,
        reads: course.reads.load(Relaxed),
        refaults,
        elapsed_s: system.now().since(began).as_secs_f64(),
        user_s: cpu.user.as_secs_f64(),
        system_s: cpu.system.as_secs_f64(),
        profile,
    }
}

fn mib(pages: u64) -> f64 {
    pages as f64 * PAGE_BYTES as f64 / f64::from(1 << 20)
}

impl Seen {
    fn rows(&self, params: &Params) -> Vec<Row> {
        [
            self.judged_rows(params),
            self.course_rows(params),
            self.kswapd_rows(),
            self.read_rows(),
            duration_rows(self.user_s, self.system_s, self.elapsed_s),
            counter_rows(&self.counters),
        ]
        .concat()
    }

    /// Returns the rows of the least, mean and most free memory in the period that starts at `judged_from_s`. Free
    /// memory is that of all zones together.
    fn judged_rows(&self, params: &Params) -> Vec<Row> {
        let judged = || self.looks.iter().filter(|look| look.at_s >= params.judged_from_s).map(|look| look.free);
        let row =
            |name: &str, pages: u64| Row::new("free", name, "MiB", Better::Lower, Format::Decimals(0), mib(pages));
        let count = judged().count().max(1) as u64;
        vec![
            row("Free least", judged().min().unwrap_or(0)),
            row("Free mean", judged().sum::<u64>() / count),
            row("Free most", judged().max().unwrap_or(0)),
        ]
    }

    /// Returns rows for the course of free memory: a row for each zone except DMA, every `print_every_s` seconds. If
    /// the system reports no zones, the rows are for memory as a whole.
    fn course_rows(&self, params: &Params) -> Vec<Row> {
        let printed = self.looks.iter().filter(|look| look.at_s % params.print_every_s == 0);
        let row = |what: &str, at_s: u64, pages: u64| {
            let name = format!("Free {what} at {at_s} s");
            Row::new("free", name, "MiB", Better::Neutral, Format::Decimals(0), mib(pages))
        };
        let of_look = |look: &Look| {
            let at_s = look.at_s;
            let zones = look.zones.iter().filter(|zone| zone.name != "DMA");
            let zones: Vec<Row> = zones.map(|zone| row(&zone.to_string(), at_s, zone.free)).collect();
            if zones.is_empty() { vec![row("memory", at_s, look.free)] } else { zones }
        };
        printed.flat_map(of_look).collect()
    }

    fn kswapd_rows(&self) -> Vec<Row> {
        let count = |name: &str| self.counters.get(name).copied();
        let event = |name: &str, counter: &str| {
            Some(Row::new("kswapd", name, "events", Better::Neutral, Format::Decimals(0), count(counter)? as f64))
        };
        let mut rows = Vec::new();
        if let Some(KswapdCalls { calls, longest, total }) = self.calls {
            let row = |name, unit, format, value| Row::new("kswapd", name, unit, Better::Lower, format, value);
            rows.push(row("Kswapd longest call", "s", Format::Decimals(2), longest.as_secs_f64()));
            let percent = 100.0 * total.as_secs_f64() / self.elapsed_s.max(1e-9);
            rows.push(row("Kswapd time in calls", "%", Format::Decimals(1), percent));
            rows.push(row("Kswapd calls", "events", Format::Decimals(0), calls as f64));
        }
        rows.extend(event("Kswapd low wmark quickly", "kswapd_low_wmark_hit_quickly"));
        rows.extend(event("Kswapd high wmark quickly", "kswapd_high_wmark_hit_quickly"));
        rows.extend(event("Kswapd skip congestion_wait", "kswapd_skip_congestion_wait"));
        rows.extend(event("Order > 0 requests", "alloc_high_order"));
        if let (Some(all), Some(slow)) = (count("alloc_high_order"), count("alloc_high_order_slow")) {
            let percent = if all > 0 { 100.0 * slow as f64 / all as f64 } else { 0.0 };
            let name = "Order > 0 requests below low";
            rows.push(Row::new("kswapd", name, "%", Better::Lower, Format::Decimals(2), percent));
        }
        for (name, counter) in [("Kswapd inode steals", "kswapd_inodesteal"), ("Slabs scanned", "slabs_scanned")] {
            let value = self.counters.get(counter).map(|value| *value as f64);
            let unit = if counter == "slabs_scanned" { "objects" } else { "pages" };
            rows.extend(value.map(|value| Row::new("kswapd", name, unit, Better::Neutral, Format::Decimals(0), value)));
        }
        rows
    }

    fn read_rows(&self) -> Vec<Row> {
        let rate = self.reads as f64 / self.elapsed_s.max(1e-9);
        let mut rows = vec![Row::new("Ops", "Ops simon", "files/s", Better::Higher, Format::Decimals(2), rate)];
        let refaults = self.refaults.map(|pages| pages as f64);
        rows.extend(
            refaults.map(|pages| Row::new("Ops", "Refaults", "pages", Better::Lower, Format::Decimals(0), pages)),
        );
        rows
    }
}
