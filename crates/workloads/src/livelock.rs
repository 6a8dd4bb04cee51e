//! Programs whose code no longer fits in memory: an anonymous hog takes memory, and only code can be reclaimed.
//!
//! Each program has an executable of its own and libraries that all processes share. A server forks workers, which all
//! map the server's executable. Each request to the server calls functions of the executable and the libraries, and
//! uses a little of the worker's own memory. Other programs wake from time to time. Functions are called by Zipf's law.
//! Beside these programs a hog stores page after page.
//!
//! At the first refused request for memory Linux would call its OOM killer. The workload kills the hog at that point,
//! and the refused process tries again, as an allocation does after a kill.

mod code;
mod progress;

use super::meter::{FullDetector, Signs, counter_rows, latency_rows};
use crate::extent::Extent;
use crate::system::{Pressure, Started, System, SystemError, page_bytes};
use crate::workload::{Measurements, Resources, Workload};
use code::{Code, Use};
use documented::DocumentedFields;
use engine::stat::Vmstat;
use figures::counters::difference;
use figures::figure::{Better, Format, Row, RowName, duration_rows, names};
use figures::histogram::Times;
use figures::scale::Scale;
use figures::usage::CpuTimes;
use hdrhistogram::Histogram;
use machine::Nanos;
use machine::pressure::Stalls;
use serde::{Deserialize, Serialize};
use sim::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Worker number `n` of the server draws its random numbers from stream `STREAMS[0] + n` ([`System::rng`]), and program
/// number `n` beside the server from stream `STREAMS[1] + n`.
const STREAMS: [u64; 2] = [7000, 7500];

/// Number of the stream from which the hog, the program that takes memory page by page, draws its random numbers
/// ([`System::rng`]).
const STREAM_OF_HOG: u64 = 6999;

/// Name of the file with the server's code.
const SERVER: &str = "server";
/// Prefix of the names of code files: of the files with the code of the programs that run beside the server.
const PROGRAM: &str = "program";
/// Name of the files with the code of the shared libraries.
const LIBRARY: &str = "library";
/// Name of the file with the hog's code.
const HOG: &str = "hog";

/// Name of the file that a task reads again and again while the programs run.
const READ_BESIDE: &str = "read beside";

/// Interval at which the workload checks whether memory is full and whether a request for memory was refused.
const LOOK_EVERY: Nanos = Nanos::from_millis(10);

/// Shortest gap that is reported. A gap is a period in which no request of the server ends.
const LONG_GAP: Nanos = Nanos::from_secs(1);

/// Time for which the hog, the program that takes memory page by page, sleeps after each of its steps.
const HOG_STEP: Nanos = Nanos::from_millis(10);

/// Time for which a process waits after it was refused memory, before it tries again. The hog is killed meanwhile.
const AFTER_REFUSAL: Nanos = Nanos::from_millis(10);

/// Largest number of workers, of programs beside the server, and of libraries. There is a limit because each worker and
/// each program has a stack of its own.
const PROCESSES_MAX: u64 = 256;

/// Parameters of the workload `livelock`, from `[params]` in an experiment's file. Counts "at full scale" are
/// multiplied by the scale of a run, as memory is. So the programs take the same time at every scale until they have
/// used all their code once.
#[derive(Clone, Debug, Deserialize, DocumentedFields, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Number of the server's workers: processes that map the server's executable. Default 2.
    pub workers: u64,
    /// Size of the server's executable, percent of memory. Default 4.
    pub server_percent: u64,
    /// Number of programs beside the server, each with an executable of its own. Default 6.
    pub programs: u64,
    /// Size of the executable of each program except the server, percent of memory. Default 1.
    pub program_percent: u64,
    /// Number of shared libraries, which every process maps. Default 4.
    pub libraries: u64,
    /// Size of each library, percent of memory. Default 1.
    pub library_percent: u64,
    /// Number of consecutive pages of code that form a function and are used together. Default 4.
    pub function_pages: u64,
    /// Exponent of Zipf's law for calls of functions: above 0. Default 1.
    pub theta: f64,
    /// Number of calls of functions that a request makes, at full scale. The default, 1024 calls, reaches about 600
    /// different functions with 10 MiB of code, about as much as a browser needs to show a web page.
    pub calls: u64,
    /// Share of a process's calls that go to functions in libraries, percent. Default 50.
    pub library_calls_percent: u64,
    /// Mean CPU time of a call, ns. Default 4000.
    pub call_ns: u64,
    /// Mean time from the end of a worker's request to the start of the worker's next request, ms. Default 50.
    pub think_ms: u64,
    /// Mean time for which a program beside the server sleeps before it wakes again, ms. Default 200.
    pub wake_ms: u64,
    /// Number of functions that a program beside the server calls at a wake-up, at full scale. The hog calls as many
    /// after each step. Default 256.
    pub wake_calls: u64,
    /// Anonymous memory of each process, thousandths of memory. Default 2.
    pub heap_permille: u64,
    /// Number of stores that a request does to random pages of the process's anonymous memory, at full scale. Default
    /// 32.
    pub heap_stores: u64,
    /// Size at which the hog stops growing, percent of memory. If memory and swap cannot hold this size, the hog grows
    /// until it is refused memory. Default 400.
    pub hog_percent: u64,
    /// Growth of the hog per second, percent of memory; slower when the hog waits for memory. The hog grows every 10 ms
    /// and then runs code. Like the other programs, it has an executable of its own. Default 10.
    pub hog_percent_per_s: u64,
    /// Share of its memory that the hog uses again each second, percent. Default 0: the hog never uses its memory
    /// again.
    pub hog_uses_percent_per_s: u64,
    /// Size of a file that a task reads from beginning to end, again and again, percent of memory. Default 0: there is
    /// no such task.
    pub read_beside_percent: u64,
    /// Time for which the server runs before the hog starts, s. Default 5.
    pub before_s: u64,
    /// Time for which the server runs with the hog, s. Default 80.
    pub beside_s: u64,
    /// A second counts as without progress if the number of requests that end in it is below this share of the mean
    /// number per second before the hog started, percent. Default 20.
    pub progress_percent: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            workers: 2,
            server_percent: 4,
            programs: 6,
            program_percent: 1,
            libraries: 4,
            library_percent: 1,
            function_pages: 4,
            theta: 1.0,
            calls: 1024,
            library_calls_percent: 50,
            call_ns: 4000,
            think_ms: 50,
            wake_ms: 200,
            wake_calls: 256,
            heap_permille: 2,
            heap_stores: 32,
            hog_percent: 400,
            hog_percent_per_s: 10,
            hog_uses_percent_per_s: 0,
            read_beside_percent: 0,
            before_s: 5,
            beside_s: 80,
            progress_percent: 20,
        }
    }
}

impl Params {
    /// Returns the size of all code files, percent of memory.
    fn code_percent(&self) -> u64 {
        // The hog has an executable, too.
        let programs = self.programs.saturating_add(1).saturating_mul(self.program_percent);
        let libraries = self.libraries.saturating_mul(self.library_percent);
        self.server_percent.saturating_add(programs).saturating_add(libraries)
    }

    fn shape(&self, memory_pages: u64, scale: Scale) -> Shape {
        let pages = |percent: u64| (memory_pages * percent / 100).max(self.function_pages) as u32;
        Shape {
            pages: [self.server_percent, self.program_percent, self.library_percent].map(pages),
            libraries: self.libraries,
            how: Use { function_pages: self.function_pages as u32, theta: self.theta, call: Nanos(self.call_ns) },
            calls: [self.calls, self.wake_calls].map(|calls| scale.of(calls).max(1)),
            library_calls_percent: self.library_calls_percent,
            heap_pages: (memory_pages * self.heap_permille / 1000).max(1) as u32,
            heap_stores: scale.of(self.heap_stores),
        }
    }
}

/// The sizes of the programs, and the numbers of their calls and stores, at the scale of a run.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Number of pages of the server's executable, of another program's executable, and of a library.
    pages: [u32; 3],
    libraries: u64,
    how: Use,
    /// Number of function calls by the server for a request, and number of function calls by another program each time
    /// it wakes up.
    calls: [u64; 2],
    library_calls_percent: u64,
    heap_pages: u32,
    heap_stores: u64,
}

/// The workload `livelock`: a hog takes more and more anonymous memory, and reclaim takes the code of all other
/// programs from memory, page by page.
#[derive(Debug)]
pub struct Livelock;

impl Workload for Livelock {
    type Params = Params;

    const NAME: &'static str = "livelock";

    const ABOUT: &'static str = "programs whose code an anonymous hog takes from them, page by page";

    const MEASURES_KILLS: bool = true;

    const SIM_ONLY: Option<&'static str> =
        Some("where memory is exhausted, the other grounds end the process that all its programs are");

    fn about_param(key: &str) -> Option<&'static str> {
        Params::get_field_docs(key).ok()
    }

    fn check(params: &Params, resources: &Resources) -> Result<(), String> {
        let Resources { memory_pages, used_pages, .. } = *resources;
        let positive = [
            ("workers", params.workers),
            ("libraries", params.libraries),
            ("function_pages", params.function_pages),
            ("calls", params.calls),
            ("think_ms", params.think_ms),
            ("wake_ms", params.wake_ms),
            ("hog_percent_per_s", params.hog_percent_per_s),
            ("before_s", params.before_s),
            ("beside_s", params.beside_s),
            ("wake_calls", params.wake_calls),
            ("progress_percent", params.progress_percent),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("`{name}` is 0: must be at least 1"));
        }
        let processes = [("workers", params.workers), ("programs", params.programs), ("libraries", params.libraries)];
        if let Some((name, n)) = processes.into_iter().find(|(_, n)| *n > PROCESSES_MAX) {
            return Err(format!("`{name}` is {n}: must be at most {PROCESSES_MAX}"));
        }
        if !(params.theta > 0.0 && params.theta.is_finite()) {
            return Err(format!("`theta` is {}: must be above 0", params.theta));
        }
        if params.library_calls_percent > 100 {
            return Err(format!("`library_calls_percent` is {}: must be at most 100", params.library_calls_percent));
        }
        if params.function_pages > memory_pages / 100 {
            return Err(format!(
                "`function_pages` is {}: must be at most a hundredth of memory",
                params.function_pages
            ));
        }
        let heaps = (params.workers + params.programs).saturating_mul(params.heap_permille) / 10;
        let percent = params.code_percent().saturating_add(heaps);
        // A tenth of memory is left for what is neither code nor anonymous memory of the processes.
        if percent > 90 || memory_pages * percent / 100 + used_pages > memory_pages / 10 * 9 {
            return Err(format!("code and memory of all programs, {percent} % of memory, do not fit it"));
        }
        Ok(())
    }

    fn extent(params: &Params, resources: &Resources, scale: Scale) -> Extent {
        let time_s = params.before_s.saturating_add(params.beside_s);
        let a_second = |processes: u64, every_ms: u64| processes.saturating_mul(1000) / every_ms.max(1);
        let rounds = a_second(params.workers, params.think_ms) + a_second(params.programs, params.wake_ms);
        let calls = scale.of(params.calls.max(params.wake_calls));
        let touches = calls.saturating_mul(params.function_pages).saturating_add(params.heap_stores);
        // The hog uses a share of its pages, which are at most memory and some swap.
        let uses_a_second = resources.memory_pages.saturating_mul(params.hog_uses_percent_per_s) / 100;
        let percent = params.code_percent().saturating_add(params.read_beside_percent);
        // A call takes up to one and a half times its mean, a rest up to twice its mean. No process ends during a
        // request.
        let request_s = calls.saturating_mul(params.call_ns).saturating_mul(3) / 2_000_000_000;
        Extent {
            time_s: Some(time_s),
            wait_s: (params.think_ms.max(params.wake_ms) / 500).max(request_s),
            operations: rounds.saturating_mul(touches).saturating_add(uses_a_second).saturating_mul(time_s),
            file_pages: resources.memory_pages.saturating_mul(percent) / 100,
        }
    }

    fn row_names(_: &Params, _: &Resources) -> Option<Vec<RowName>> {
        Some(names(Course::with_everything().rows(1)))
    }

    fn run<S: System>(system: &S, params: &Params) -> Result<Measurements, SystemError> {
        // The workload itself decides when the hog is killed.
        system.set_oom_score_adj(engine::anonymous::Process::NEVER);
        let shape = params.shape(system.memory_pages(), system.given().scale);
        let [server_pages, program_pages, library_pages] = shape.pages;
        code::install(system, SERVER, 1, server_pages)?;
        code::install(system, PROGRAM, params.programs, program_pages)?;
        code::install(system, LIBRARY, params.libraries, library_pages)?;
        code::install(system, HOG, 1, program_pages)?;
        let course = run_all(system, params, shape)?;
        code::remove(system, SERVER, 1)?;
        code::remove(system, PROGRAM, params.programs)?;
        code::remove(system, LIBRARY, params.libraries)?;
        code::remove(system, HOG, 1)?;
        let times = course.times().into_iter().filter_map(|(name, times)| Times::of(name, times)).collect();
        Ok(Measurements { rows: course.rows(params.progress_percent), times, ..Measurements::default() })
    }
}

/// The state that all processes of a run share.
#[derive(Debug)]
struct Shared {
    /// Number of processes that have started and used all their code once.
    ready: AtomicU64,
    /// True once the run is over.
    is_over: AtomicBool,
    /// The time at which a request for memory was first refused, ns; 0 if none was refused.
    refused_at: AtomicU64,
    /// True while no hog runs: before the hog starts, and after it has ended.
    is_hog_gone: AtomicBool,
    /// Number of requests that have ended.
    requests: AtomicU64,
    /// Number of requests for memory that were refused before this run.
    exhausted_before: u64,
}

impl Shared {
    fn new<S: System>(system: &S) -> Self {
        Self {
            ready: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            refused_at: AtomicU64::new(0),
            is_hog_gone: AtomicBool::new(true),
            requests: AtomicU64::new(0),
            exhausted_before: exhausted(system),
        }
    }

    fn is_over<S: System>(&self, system: &S) -> bool {
        self.is_over.load(Relaxed) || system.is_killed()
    }

    /// Returns the time at which a request for memory was first refused; none if none was refused.
    fn refused_at(&self) -> Option<Nanos> {
        Some(self.refused_at.load(Relaxed)).filter(|at| *at > 0).map(Nanos)
    }

    /// Returns whether the caller should repeat an access to memory that ended with `outcome`. This is so if the access
    /// failed for lack of memory while the hog (the program that fills memory) is being killed. Records the time of the
    /// first refusal.
    ///
    /// # Errors
    /// When the access failed for another reason than a lack of memory, or when there is no hog to kill.
    fn is_refused<S: System>(&self, system: &S, outcome: Result<(), SystemError>) -> Result<bool, SystemError> {
        let Err(error) = outcome else { return Ok(false) };
        if self.is_over(system) {
            return Ok(false);
        }
        let is_exhausted = exhausted(system) > self.exhausted_before;
        if !is_exhausted || self.is_hog_gone.load(Relaxed) {
            return Err(error);
        }
        let _ = self.refused_at.compare_exchange(0, system.now().0.max(1), Relaxed, Relaxed);
        Ok(true)
    }
}

/// Returns the number of allocations that have failed so far because memory was exhausted.
fn exhausted<S: System>(system: &S) -> u64 {
    system.vmstat().get("oom").copied().unwrap_or(0)
}

/// A running process: its mapped code, its anonymous memory and its random generator.
struct Process<S: System> {
    own: Code<S>,
    libraries: Code<S>,
    heap: S::Region,
    shape: Shape,
    rng: Rng,
}

impl<S: System> Process<S> {
    /// Starts a process. Maps its executable (number `n` of the files with the name `name`), the libraries and
    /// anonymous memory, and touches each of their pages once. Returns the process.
    fn start(system: &S, stream: u64, name: &str, n: u64, pages: u32, shape: Shape) -> Result<Self, SystemError> {
        let own = Code::map(system, name, n..n + 1, pages, shape.how)?;
        let libraries = Code::map(system, LIBRARY, 0..shape.libraries, shape.pages[2], shape.how)?;
        let heap = system.map(shape.heap_pages)?;
        own.start(system)?;
        libraries.start(system)?;
        system.touch(&heap, 0..shape.heap_pages, true)?;
        Ok(Self { own, libraries, heap, shape, rng: system.rng(stream) })
    }

    /// Calls a random function of the executable or of a library.
    fn call(&mut self, system: &S) -> Result<(), SystemError> {
        let is_library = self.rng.below(100) < self.shape.library_calls_percent;
        let code = if is_library { &self.libraries } else { &self.own };
        code.call(system, &mut self.rng)
    }

    /// Calls random functions: as many as `wake_calls` says, scaled to the run. Each program except the server does so
    /// at each wake-up.
    fn run_code(&mut self, system: &S) -> Result<(), SystemError> {
        (0..self.shape.calls[1]).try_for_each(|_| self.call(system))
    }

    /// Calls `calls` random functions of the program, then stores to random pages of the process's memory. Repeats each
    /// call or store that fails because memory is refused.
    fn work(&mut self, system: &S, calls: u64, shared: &Shared) -> Result<(), SystemError> {
        for _ in 0..calls {
            self.until_served(system, shared, Self::call)?;
        }
        for _ in 0..self.shape.heap_stores {
            self.until_served(system, shared, |process, system| {
                let page = process.rng.below(process.shape.heap_pages.into()) as u32;
                system.touch(&process.heap, page..page + 1, true)
            })?;
        }
        Ok(())
    }

    fn until_served(
        &mut self,
        system: &S,
        shared: &Shared,
        mut attempt: impl FnMut(&mut Self, &S) -> Result<(), SystemError>,
    ) -> Result<(), SystemError> {
        while shared.is_refused(system, attempt(self, system))? {
            system.sleep(AFTER_REFUSAL);
        }
        Ok(())
    }

    /// Sleeps for a random time, on average `mean`.
    fn rest(&mut self, system: &S, mean: Nanos) {
        system.sleep(Nanos(self.rng.below(2 * mean.0 + 1)));
    }

    fn end(self, system: &S) {
        self.own.unmap(system);
        self.libraries.unmap(system);
        system.unmap(self.heap);
    }
}

/// A completed request to the server: the time of its end, and its duration.
#[derive(Clone, Copy, Debug)]
struct Request {
    end: Nanos,
    time: Nanos,
}

/// Runs worker number `n` of the server, which does one request after another until the run is over. Returns the end
/// and the duration of each request that it did.
fn serve<S: System>(
    system: &S,
    n: u64,
    think: Nanos,
    shape: Shape,
    shared: &Shared,
) -> Result<Vec<Request>, SystemError> {
    let mut process = Process::start(system, STREAMS[0] + n, SERVER, 0, shape.pages[0], shape)?;
    shared.ready.fetch_add(1, Relaxed);
    let mut requests = Vec::new();
    loop {
        process.rest(system, think);
        let started = system.now();
        process.work(system, shape.calls[0], shared)?;
        if shared.is_over(system) {
            break;
        }
        let end = system.now();
        requests.push(Request { end, time: end.since(started) });
        shared.requests.fetch_add(1, Relaxed);
    }
    process.end(system);
    Ok(requests)
}

/// Runs program number `n` beside the server until the run is over. The program alternates: it sleeps for a random
/// time, on average `every`, then calls functions of its code.
fn wake_now_and_then<S: System>(
    system: &S,
    n: u64,
    every: Nanos,
    shape: Shape,
    shared: &Shared,
) -> Result<(), SystemError> {
    let mut process = Process::start(system, STREAMS[1] + n, PROGRAM, n, shape.pages[1], shape)?;
    shared.ready.fetch_add(1, Relaxed);
    while !shared.is_over(system) {
        process.rest(system, every);
        process.work(system, shape.calls[1], shared)?;
    }
    process.end(system);
    Ok(())
}

/// The growth of the hog: its final size, the growth per second, and the share of its memory that it uses again each
/// second.
#[derive(Clone, Copy, Debug)]
struct Growth {
    pages: u32,
    pages_per_s: u64,
    uses_percent_per_s: u64,
}

impl Growth {
    fn of(params: &Params, memory_pages: u64) -> Self {
        let pages = (memory_pages.saturating_mul(params.hog_percent) / 100).min(u64::from(u32::MAX / 2));
        // The fastest growth takes all pages of the hog in one step.
        let at_once = pages * (Nanos::from_secs(1).0 / HOG_STEP.0);
        Self {
            pages: pages as u32,
            pages_per_s: (memory_pages.saturating_mul(params.hog_percent_per_s) / 100).min(at_once).max(1),
            uses_percent_per_s: params.hog_uses_percent_per_s,
        }
    }
}

/// Runs the hog, a program that takes memory. It stores page after page until it has its final size, and keeps the
/// pages until the run is over. It ends earlier if a request for memory is refused, or if it is killed. Returns the
/// number of pages stored.
fn grow<S: System>(system: &S, growth: Growth, shape: Shape, shared: &Shared) -> Result<u64, SystemError> {
    let Growth { pages, pages_per_s, uses_percent_per_s } = growth;
    let mut process = Process::start(system, STREAM_OF_HOG, HOG, 0, shape.pages[1], shape)?;
    let region = system.map(pages)?;
    let is_to_end = || shared.is_over(system) || shared.refused_at().is_some();
    // A fraction of a page that a step leaves over counts towards the next step.
    let (mut had, mut owed, mut owed_uses) = (0, 0, 0);
    let a_second = Nanos::from_secs(1).0;
    let mut outcome = Ok(());
    while outcome.is_ok() && !is_to_end() {
        owed += pages_per_s * HOG_STEP.0;
        let end = pages.min(had + (owed / a_second) as u32);
        owed %= a_second;
        while had < end && outcome.is_ok() && !is_to_end() {
            outcome = system.touch(&region, had..had + 1, true);
            had += u32::from(outcome.is_ok());
        }
        let uses = u64::from(had).saturating_mul(uses_percent_per_s).saturating_mul(HOG_STEP.0);
        owed_uses = uses.saturating_add(owed_uses);
        for _ in 0..owed_uses / (100 * a_second) {
            if outcome.is_err() || is_to_end() {
                break;
            }
            let page = process.rng.below(had.into()) as u32;
            outcome = system.touch(&region, page..page + 1, true);
        }
        owed_uses %= 100 * a_second;
        outcome = outcome.and_then(|()| process.run_code(system));
        system.sleep(HOG_STEP);
    }
    let outcome = shared.is_refused(system, outcome);
    system.unmap(region);
    process.end(system);
    shared.is_hog_gone.store(true, Relaxed);
    outcome.map(|_| had.into())
}

/// Reads a file again and again, until the run is over.
fn read_beside<S: System>(system: &S, pages: u64, shared: &Shared) -> Result<(), SystemError> {
    const PIECE_PAGES: u64 = 32;
    let mut file = system.open(READ_BESIDE)?;
    let mut bytes = vec![0; page_bytes(PIECE_PAGES) as usize];
    while !shared.is_over(system) {
        for page in (0..pages).step_by(PIECE_PAGES as usize) {
            if shared.is_over(system) {
                break;
            }
            let read = system.read(&mut file, page_bytes(page), &mut bytes).map(|_| ());
            if shared.is_refused(system, read)? {
                system.sleep(AFTER_REFUSAL);
            }
        }
    }
    Ok(())
}

/// Counters and CPU times at one moment.
#[derive(Clone, Debug, Default)]
struct Seen {
    at: Nanos,
    counters: Vmstat,
    cpu: CpuTimes,
    /// CPU time of kswapd; 0 if the system does not measure it.
    kswapd: Nanos,
    /// Pressure on memory (PSI) at this moment; all values are 0 if the system does not report PSI.
    pressure: Pressure,
}

impl Seen {
    fn of<S: System>(system: &S) -> Self {
        let machine = system.machine_view();
        Self {
            at: system.now(),
            counters: system.vmstat(),
            cpu: system.cpu_times(),
            kswapd: machine.map_or(Nanos(0), |machine| machine.cpu_time_of("kswapd")),
            pressure: system.pressure(None).ok().flatten().unwrap_or_default(),
        }
    }
}

/// The record of a run: when its phases began and ended, and the requests that the server completed.
#[derive(Debug)]
struct Course {
    /// Time at which all processes but the hog had started.
    started: Nanos,
    /// Time at which the hog started.
    hog: Nanos,
    /// State at the moment when memory became full, or when the hog started if memory never became full.
    full: Seen,
    /// State at the moment when a request for memory was first refused, right before the hog was killed for this
    /// reason. If no request was refused, the state when the run ended.
    trouble_ended: Seen,
    /// Time when the run ended.
    ended: Nanos,
    refused_at: Option<Nanos>,
    hog_pages: u64,
    memory_pages: u64,
    /// Completed requests, in the order in which they ended.
    requests: Vec<Request>,
    /// Durations of the requests before the hog started, and durations of the requests while memory was full.
    latencies: [Histogram<u64>; 2],
}

/// The running processes except the hog: the server's workers and the other programs.
struct Running<S: System> {
    workers: Vec<Started<S, Result<Vec<Request>, SystemError>>>,
    others: Vec<Started<S, Result<(), SystemError>>>,
    /// Number of pages in the file that another task reads again and again while the programs run; 0 if there is no
    /// such file.
    pages_beside: u64,
}

impl<S: System> Running<S> {
    /// Starts all processes except the hog, and waits until every process has used its code once. Returns the
    /// processes.
    fn start(system: &S, params: &Params, shape: Shape, shared: &Arc<Shared>) -> Result<Self, SystemError> {
        let (think, wake) = (Nanos::from_millis(params.think_ms), Nanos::from_millis(params.wake_ms));
        let worker = |n: u64| {
            let shared = shared.clone();
            system
                .start(&format!("{SERVER} {n}"), move |system| ending(&shared, serve(system, n, think, shape, &shared)))
        };
        let workers = (0..params.workers).map(worker).collect();
        let program = |n: u64| {
            let shared = shared.clone();
            system.start(&format!("{PROGRAM} {n}"), move |system| {
                ending(&shared, wake_now_and_then(system, n, wake, shape, &shared))
            })
        };
        let mut others: Vec<_> = (0..params.programs).map(program).collect();
        while shared.ready.load(Relaxed) < params.workers + params.programs && !shared.is_over(system) {
            system.sleep(LOOK_EVERY);
        }
        let pages_beside = system.memory_pages().saturating_mul(params.read_beside_percent) / 100;
        if pages_beside > 0 {
            super::big_file::provide(system, READ_BESIDE, pages_beside)?;
            let shared = shared.clone();
            let read = move |system: &S| ending(&shared, read_beside(system, pages_beside, &shared));
            others.push(system.start("reader", read));
        }
        Ok(Self { workers, others, pages_beside })
    }

    /// Waits until all processes and the hog have ended. Returns the requests in the order of their ends, and the
    /// number of pages that the hog had.
    fn end(self, system: &S, hog: Started<S, Result<u64, SystemError>>) -> Result<(Vec<Request>, u64), SystemError> {
        let workers: Vec<_> = self.workers.into_iter().map(|worker| worker.join(system)).collect();
        let hog_pages = hog.join(system);
        let others: Vec<_> = self.others.into_iter().map(|other| other.join(system)).collect();
        let mut requests = Vec::new();
        for of_worker in workers {
            requests.extend(of_worker?);
        }
        others.into_iter().collect::<Result<(), SystemError>>()?;
        if self.pages_beside > 0 {
            system.remove(READ_BESIDE)?;
        }
        requests.sort_by_key(|request| request.end);
        Ok((requests, hog_pages?))
    }
}

/// Starts the server and the other programs, later the hog, and watches them until the run is over. Returns the record
/// of the run.
fn run_all<S: System>(system: &S, params: &Params, shape: Shape) -> Result<Course, SystemError> {
    let memory_pages = system.memory_pages();
    let shared = Arc::new(Shared::new(system));
    let running = Running::start(system, params, shape, &shared)?;
    let started = system.now();
    let end = started + Nanos::from_secs(params.before_s + params.beside_s);
    system.expect_end(end);
    watch_until(system, &shared, started + Nanos::from_secs(params.before_s), |_| false);
    system.begin_measured();
    let hog_began = Seen::of(system);
    let growth = Growth::of(params, memory_pages);
    shared.is_hog_gone.store(false, Relaxed);
    let hog = {
        let shared = shared.clone();
        system.start("hog", move |system| ending(&shared, grow(system, growth, shape, &shared)))
    };
    let mut detector = FullDetector::new(memory_pages, system.now());
    let mut full = None;
    watch_until(system, &shared, end, |system| {
        let signs = Signs { free: system.free_pages(), high_mark: system.high_mark_pages(), reclaimed: None };
        if full.is_none() && detector.is_full(system.now(), signs) {
            system.begin_measured();
            full = Some(Seen::of(system));
        }
        shared.refused_at().is_some()
    });
    system.end_measured();
    let trouble_ended = Seen::of(system);
    if shared.refused_at().is_some() {
        hog.kill(system);
    }
    watch_until(system, &shared, end, |_| false);
    let ended = system.now();
    shared.is_over.store(true, Relaxed);
    let (requests, hog_pages) = running.end(system, hog)?;
    let refused_at = shared.refused_at();
    let full = full.unwrap_or_else(|| hog_began.clone());
    let latencies =
        [(started, hog_began.at), (full.at, trouble_ended.at)].map(|(from, to)| latencies(&requests, from, to));
    let hog = hog_began.at;
    Ok(Course { started, hog, full, trouble_ended, ended, refused_at, hog_pages, memory_pages, requests, latencies })
}

/// Returns the outcome of a process unchanged. If the process failed, tells the other processes to end.
fn ending<T>(shared: &Shared, outcome: Result<T, SystemError>) -> Result<T, SystemError> {
    if outcome.is_err() {
        shared.is_over.store(true, Relaxed);
    }
    outcome
}

/// Waits until the time `end`. Returns earlier if the run is over, or if `is_enough` returns true, which is checked at
/// intervals.
fn watch_until<S: System>(system: &S, shared: &Shared, end: Nanos, mut is_enough: impl FnMut(&S) -> bool) {
    while system.now() < end && !shared.is_over(system) {
        system.sleep(LOOK_EVERY.min(end.since(system.now())));
        system.given().progress.set_operations(shared.requests.load(Relaxed));
        if is_enough(system) {
            break;
        }
    }
}

/// Returns the durations of the requests that ended between `from` and `to`.
fn latencies(requests: &[Request], from: Nanos, to: Nanos) -> Histogram<u64> {
    let mut times = Histogram::new(3).expect("three digits are a precision");
    for request in requests.iter().filter(|request| (from..to).contains(&request.end)) {
        // The histogram grows as needed, so recording cannot fail.
        let _ = times.record(request.time.0.max(1));
    }
    times
}

impl Course {
    /// Returns an invented record from which [`Self::rows`] makes every row that a run can have. It serves to list the
    /// names of rows.
    fn with_everything() -> Self {
        let [start, hog, full, killed, ended] = [0, 1, 2, 3, 4].map(Nanos::from_secs);
        let counters: Vmstat = super::meter::counter_names().map(|name| (name.to_owned(), 0)).collect();
        let seen = |at| Seen { at, counters: counters.clone(), ..Seen::default() };
        let requests = vec![Request { end: hog, time: Nanos(1) }];
        let latencies = [(); 2].map(|()| latencies(&requests, start, ended));
        Self {
            started: start,
            hog,
            full: seen(full),
            trouble_ended: seen(killed),
            ended,
            refused_at: Some(killed),
            hog_pages: 1,
            memory_pages: 1,
            requests,
            latencies,
        }
    }

    /// Returns two histograms of request durations, each with its name in the report: for requests before the hog
    /// began, and for requests while memory was full.
    fn times(&self) -> [(&'static str, &Histogram<u64>); 2] {
        let [before, beside] = &self.latencies;
        [("Request before", before), ("Request", beside)]
    }

    /// Returns the number of requests that ended per second between `from` and `to`.
    fn rate(&self, from: Nanos, to: Nanos) -> f64 {
        let ended = self.requests.iter().filter(|request| (from..to).contains(&request.end)).count();
        ended as f64 / to.since(from).as_secs_f64().max(1e-9)
    }

    /// Returns the report rows of the run. A second counts as without progress if fewer requests ended in it than
    /// `progress_percent` of the mean number per second before the hog.
    fn rows(&self, progress_percent: u64) -> Vec<Row> {
        use Better::{Higher, Lower, Neutral};
        let (full, trouble_ended) = (&self.full, &self.trouble_ended);
        let row = |group: &str, name: &str, unit: &str, better, decimals, value: f64| {
            Row::new(group, name, unit, better, Format::Decimals(decimals), value)
        };
        let ends: Vec<Nanos> = self.requests.iter().map(|request| request.end).collect();
        let rate_before = self.rate(self.started, self.hog);
        let least = rate_before * progress_percent as f64 / 100.0;
        let slow = progress::slow_seconds(&ends, full.at, self.ended, least);
        let gaps = progress::gaps(&ends, full.at, self.ended, LONG_GAP);
        let (all, longest) = (gaps.iter().fold(Nanos(0), |sum, gap| sum + *gap), gaps.iter().max().copied());
        let until_killer = self.refused_at.map_or(0.0, |at| at.since(full.at).as_secs_f64().max(0.01));
        let trouble_s = trouble_ended.at.since(full.at).as_secs_f64();
        let mut rows = vec![
            row("progress", "Time without progress", "s", Lower, 0, slow as f64),
            row("progress", "Time without any request", "s", Lower, 2, all.as_secs_f64()),
            row("progress", "Longest without any request", "s", Lower, 2, longest.unwrap_or_default().as_secs_f64()),
            Row::new("progress", "Until the killer", "s", Neutral, Format::Moment(2), until_killer),
            row("progress", "Ops requests-before", "requests/s", Higher, 1, rate_before),
            row("progress", "Ops requests", "requests/s", Higher, 1, self.rate(full.at, trouble_ended.at)),
            row("progress", "Memory full", "s", Neutral, 2, trouble_s),
            row(
                "progress",
                "Memory of the hog",
                "% of memory",
                Neutral,
                2,
                percent(self.hog_pages as f64, self.memory_pages as f64),
            ),
        ];
        rows.extend(self.times().into_iter().flat_map(|(name, times)| latency_rows(name, times)));
        let counters = difference(&full.counters, &trouble_ended.counters);
        let counted = |names: &[&str]| {
            let sums: Option<Vec<u64>> = names.iter().map(|name| figures::counters::sum(&counters, name)).collect();
            sums.map(|sums| sums.iter().sum::<u64>() as f64 / trouble_s.max(1e-9))
        };
        let rates: [(&str, &str, &str, f64, &[&str]); 5] = [
            ("faults", "Major faults", "faults/s", 1.0, &["pgmajfault"]),
            ("faults", "Refaults of files", "pages/s", 1.0, &["workingset_refault_file"]),
            ("faults", "Read from disk", "MiB/s", 1024.0, &["pgpgin"]),
            ("reclaim", "Pages scanned", "pages/s", 1.0, &["pgscan_kswapd", "pgscan_direct"]),
            ("reclaim", "Pages reclaimed", "pages/s", 1.0, &["pgsteal_kswapd", "pgsteal_direct"]),
        ];
        rows.extend(rates.into_iter().filter_map(|(group, name, unit, less, names)| {
            Some(row(group, name, unit, Lower, 1, counted(names)? / less))
        }));
        let share = |group: &str, name: &str, unit: &str, from: Nanos, to: Nanos| {
            row(group, name, unit, Lower, 2, percent(to.since(from).as_secs_f64(), trouble_s))
        };
        let stalled = |line: fn(&Pressure) -> Stalls| {
            [full, trouble_ended].map(|seen| Nanos(line(&seen.pressure).total_us.saturating_mul(1000)))
        };
        let [[some_before, some_after], [full_before, full_after]] = [stalled(|it| it.some), stalled(|it| it.full)];
        rows.push(share("reclaim", "kswapd CPU", "% of a CPU", full.kswapd, trouble_ended.kswapd));
        rows.push(share("pressure", "memory some", "% of the time", some_before, some_after));
        rows.push(share("pressure", "memory full", "% of the time", full_before, full_after));
        let CpuTimes { user, system } = trouble_ended.cpu.since(full.cpu);
        rows.extend(duration_rows(user.as_secs_f64(), system.as_secs_f64(), trouble_s));
        rows.extend(counter_rows(&counters));
        rows.push(row("vmstat", "oom", "events", Lower, 0, counters.get("oom").copied().unwrap_or(0) as f64));
        rows
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}
