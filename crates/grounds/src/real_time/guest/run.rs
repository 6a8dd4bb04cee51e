//! One run in a guest, seen from outside: from its start to the answer of its worker.

use super::{VERB, found, room, settings::settings};
use crate::job::{Described, Failure, Job, Outcome, Runnable};
use crate::real_time::apart::{Answer, GRACE, LOOK_EVERY, interrupted};
use crate::real_time::folder::Folder;
use catalogue::ground::Place;
use guest::image::Image;
use guest::inside::{Line, Plan, State};
use guest::modules::Modules;
use guest::vm::{Accelerator, Vm, Wanted, memory_kib_for};
use kit::interrupt;
use kit::progress::Progress;
use machine::PAGE_BYTES;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time in which a guest starts; under emulation it takes ten to thirty seconds.
const BOOT_LIMIT: Duration = Duration::from_secs(180);

/// The longest time until the first line of a console. Under emulation it comes after two seconds, on a busy computer after ten.
const FIRST_LINE_LIMIT: Duration = Duration::from_secs(60);

/// Interval between looks at the console of a guest that says nothing.
const CONSOLE_EVERY: Duration = Duration::from_secs(1);

/// Pages of room on a device at which it is taken for full: less than ext4 takes at a time.
const FULL_PAGES: u64 = 256;

/// The longest time in which a worker says nothing. It speaks five times a second where it gets memory and a CPU.
const SILENT_LIMIT: Duration = Duration::from_secs(120);

/// Starts of a guest for one run: after the first its memory is corrected by what its kernel manages.
const STARTS: usize = 3;

/// The largest difference between the pages of the machine file and those that a guest's kernel manages, one part in so many.
const EXACTNESS: u64 = 500;

/// Bytes of the file system's journal and tables beside the room for files.
const FILE_SYSTEM_BYTES: u64 = 256 << 20;

/// Memory of guests that had the right number of pages, KiB, by image and pages.
static FITTED: Mutex<BTreeMap<(PathBuf, u64), u64>> = Mutex::new(BTreeMap::new());

/// A line that came by the port.
enum Heard {
    Up(State),
    Told,
    Ended(Result<Box<Outcome>, String>),
}

/// Runs a job in a guest and waits for it.
///
/// # Errors
/// When the guest cannot be started, hangs or ends before its worker answers, and when the job failed or was interrupted.
pub(super) fn run(workload: &dyn Runnable, job: &Job, place: &Place, progress: &Progress) -> Result<Outcome, Failure> {
    let _guard = interrupt::guard();
    let path = job.kernel_image.as_ref().ok_or_else(|| Failure("no kernel image".into()))?;
    let (image, modules) = found(path, place)?;
    let params = workload.params(&job.params).ok_or_else(|| Failure("its parameters cannot be passed on".into()))?;
    let described = Described {
        workload: workload.name().to_owned(),
        params,
        memory_pages: job.memory_pages(),
        seed: job.seed,
        scale: job.scale.to_string(),
        series_every: job.series_every,
        generations_every_ns: job.generations_every.map(|every| every.0),
        has_limit: job.layout().limit_pages.is_some(),
    };
    let line = serde_json::to_string(&described).map_err(|error| Failure(error.to_string()))?;
    let pages: u64 = job.layout().nodes.iter().flat_map(|node| &node.zones).map(|zone| zone.managed_pages).sum();
    let accelerator = Accelerator::of_this_computer(&image);
    let key = (path.clone(), pages);
    let known = || FITTED.lock().unwrap_or_else(PoisonError::into_inner);
    let fitted = known().get(&key).copied();
    let mut memory_kib = fitted.unwrap_or_else(|| memory_kib_for(&image, pages));
    for start in 1..=STARTS {
        let mut guest = Guest::start(job, place, (&image, modules.as_ref()), memory_kib, accelerator)?;
        let state = guest.wait_until_up().map_err(|failure| explained(failure, place))?;
        let missing = pages.cast_signed() - state.managed_pages().cast_signed();
        let is_exact = missing.unsigned_abs() <= pages / EXACTNESS;
        if is_exact {
            known().insert(key.clone(), memory_kib);
        } else if start < STARTS {
            memory_kib = memory_kib.saturating_add_signed(missing * (PAGE_BYTES as i64 / 1024));
            continue;
        }
        let mut outcome = *guest.work(&line, progress).map_err(|failure| explained(failure, place))?;
        outcome.notes.push(told_of(&image, &state, accelerator));
        if !is_exact {
            let managed = state.managed_pages();
            outcome.notes.push(format!(
                "its kernel manages {managed} pages, and the machine file has {pages}: compare with care"
            ));
        }
        if !state.lacks.is_empty() {
            outcome.notes.push(format!("settings that its kernel lacks or refuses: {}", state.lacks.join(", ")));
        }
        if accelerator == Accelerator::Emulation {
            outcome.rows.retain(|row| !row.is_of_time());
            outcome.times.clear();
        }
        return Ok(outcome);
    }
    unreachable!("the last start is taken as it is")
}

/// Returns the failure of a guest, whose files still exist, with its cause if that is the device under them.
fn explained(Failure(message): Failure, place: &Place) -> Failure {
    match room(&place.folder) {
        Some(..FULL_PAGES) => Failure(format!("the device of --dir is full: {message}")),
        _ => Failure(message),
    }
}

/// Returns the line about a guest.
fn told_of(image: &Image, state: &State, accelerator: Accelerator) -> String {
    let zones: Vec<String> = state.zones.iter().map(|(name, pages)| format!("{name} {pages}")).collect();
    let times = match accelerator {
        Accelerator::Kvm => "KVM",
        Accelerator::Emulation => "emulated (TCG): times and rates are the emulator's, and left out",
    };
    let built_as = if image.built_as == image.release { String::new() } else { format!(" ({})", image.built_as) };
    // In MiB it is the same at each start.
    let (release, zones, kernel) = (&state.release, zones.join(", "), state.kernel_pages / 256);
    format!(
        "kernel {release}{built_as}, {times}; pages managed: {zones}; {kernel} MiB of them the kernel's own and this program's"
    )
}

/// A running guest and its port. Dropped from the first to the last: the machine ends before its files go.
struct Guest {
    vm: Vm,
    stdin: Option<std::process::ChildStdin>,
    heard: Receiver<Heard>,
    accelerator: Accelerator,
    _folder: Folder,
}

impl Guest {
    fn start(
        job: &Job,
        place: &Place,
        (image, modules): (&Image, Option<&Modules>),
        memory_kib: u64,
        accelerator: Accelerator,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure(format!("cannot make a folder for the guest's disks: {error}"));
        let folder = Folder::new(&place.folder).map_err(failed)?;
        let huge = settings(&job.kernel).into_iter().find(|setting| setting.name == "access.huge_pages");
        let command_line = huge.map_or_else(String::new, |it| format!("transparent_hugepage={}", it.value));
        let limit_bytes = job.layout().limit_pages.map(|pages| pages * PAGE_BYTES as u64);
        let plan = Plan { settings: settings(&job.kernel), worker: vec![VERB.into()], limit_bytes, ..Plan::default() };
        let room = job.file_pages().min(job.device_pages.unwrap_or(u64::MAX));
        let wanted = Wanted {
            image,
            modules,
            program: &place.program,
            plan,
            memory_kib,
            cpus: job.machine.cpu.count.value,
            disk_bytes: room.saturating_mul(PAGE_BYTES as u64).saturating_add(FILE_SYSTEM_BYTES),
            swap_pages: job.swap_pages(),
            command_line: &command_line,
            accelerator,
        };
        let (vm, stdin, stdout) = Vm::start(&wanted, &folder.0)?;
        let (send, heard) = mpsc::channel();
        thread::spawn(move || listen(stdout, |it| send.send(it).is_ok()));
        Ok(Self { vm, stdin: Some(stdin), heard, accelerator, _folder: folder })
    }

    /// Waits until the first process is about to start the worker.
    fn wait_until_up(&mut self) -> Result<State, Failure> {
        let began = Instant::now();
        let is_late = |vm: &Vm| {
            let waited = began.elapsed();
            waited > BOOT_LIMIT || (waited > FIRST_LINE_LIMIT && !vm.has_spoken())
        };
        loop {
            // Who starts has nothing to end in order.
            match self.next(is_late, Duration::ZERO)? {
                Heard::Up(state) => return Ok(state),
                Heard::Told => {}
                Heard::Ended(Ok(_)) => return Err(Failure("the guest answered what nobody asked".into())),
                Heard::Ended(Err(message)) => return Err(Failure(message)),
            }
        }
    }

    /// Hands the job to the worker and waits for its answer.
    fn work(&mut self, line: &str, progress: &Progress) -> Result<Box<Outcome>, Failure> {
        let told = |error: io::Error| Failure(format!("cannot tell the guest its job: {error}"));
        let began = Instant::now();
        if let Some(stdin) = &mut self.stdin {
            writeln!(stdin, "{line}").and_then(|()| stdin.flush()).map_err(told)?;
        }
        loop {
            let waits_since = Instant::now();
            match self.next(|_| waits_since.elapsed() > SILENT_LIMIT, GRACE)? {
                Heard::Up(_) | Heard::Told => progress.set_now_ns(began.elapsed().as_nanos() as u64),
                Heard::Ended(answer) => return answer.map_err(Failure),
            }
        }
    }

    /// Waits for what comes next by the port. An interrupted guest has a time of grace.
    fn next(&mut self, is_late: impl Fn(&Vm) -> bool, grace: Duration) -> Result<Heard, Failure> {
        let (mut told_at, mut looked_at) = (None, Instant::now());
        loop {
            match self.heard.recv_timeout(LOOK_EVERY) {
                Ok(heard) => return if interrupt::is_set() { Err(interrupted()) } else { Ok(heard) },
                Err(RecvTimeoutError::Disconnected) => {
                    if interrupt::is_set() {
                        return Err(interrupted());
                    }
                    self.vm.settle();
                    return Err(Failure(format!("the guest ended{}", self.vm.last_words())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt::is_set() {
                // The worker is told by the end of its input.
                self.stdin.take();
                if told_at.get_or_insert_with(Instant::now).elapsed() >= grace {
                    return Err(interrupted());
                }
            } else if looked_at.elapsed() > CONSOLE_EVERY {
                looked_at = Instant::now();
                let what = match (self.vm.is_halted(), is_late(&self.vm), self.accelerator) {
                    (true, _, _) => "the guest's kernel has halted",
                    (false, true, Accelerator::Kvm) => "the guest hangs: it has said nothing in time",
                    (false, true, Accelerator::Emulation) => "the guest (emulated) hangs: it has said nothing in time",
                    (false, false, _) => continue,
                };
                return Err(Failure(format!("{what}{}", self.vm.last_words())));
            }
        }
    }
}

/// Reads what comes by the port, until nobody listens.
fn listen(stdout: impl Read, mut tell: impl FnMut(Heard) -> bool) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let heard = match (serde_json::from_str(&line), serde_json::from_str(&line)) {
            (Ok(Answer::Progress { .. }), _) => Heard::Told,
            (Ok(Answer::Found(outcome)), _) => Heard::Ended(Ok(outcome)),
            (Ok(Answer::Failed(message)), _) | (_, Ok(Line::Failed(message))) => Heard::Ended(Err(message)),
            (_, Ok(Line::Up(state))) => Heard::Up(state),
            (Err(error), _) => Heard::Ended(Err(format!("its answer cannot be read: {error}"))),
        };
        if !tell(heard) {
            return;
        }
    }
}
