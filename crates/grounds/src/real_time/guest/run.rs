//! Runs a job in a guest: starts the guest, waits for the worker that runs the workload in it, and returns the worker's
//! answer.

use super::{VERB, beyond, found, room, settings::settings};
use crate::job::{Described, Failure, Job, Outcome, Runnable};
use crate::real_time::apart::{Answer, GRACE, LOOK_EVERY, interrupted};
use crate::real_time::folder::Folder;
use catalogue::ground::GroundOptions;
use catalogue::hardware::Disk;
use engine::memory::{ZoneKind, ZoneLayout};
use figures::cgroup::Version;
use guest::image::Image;
use guest::inside::{self, Line, Plan, State, Swap};
use guest::memory::{Aim, Memory};
use guest::modules::Modules;
use guest::vm::{Accelerator, Vm, Wanted};
use kit::interrupt;
use kit::progress::Progress;
use machine::PAGE_BYTES;
use placed::{Node, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a guest may take to start. Under emulation the start takes ten to thirty seconds.
const BOOT_LIMIT: Duration = Duration::from_secs(180);

/// The longest time until a guest writes the first line to its console. Under emulation it takes two seconds, or ten on
/// a busy computer.
const FIRST_LINE_LIMIT: Duration = Duration::from_secs(60);

/// Interval at which the console of a guest is checked while the guest reports nothing.
const CONSOLE_EVERY: Duration = Duration::from_secs(1);

/// Limit for the free space, in pages of 4 KiB, of the device that holds the files of a guest's disks. With less free
/// space the device counts as full, because the guest's ext4 takes more than this at a time.
const FULL_PAGES: u64 = 256;

/// The longest time for which the worker, the process in a guest that runs the workload, may report nothing. It reports
/// progress five times a second if it gets memory and a CPU.
const SILENT_LIMIT: Duration = Duration::from_secs(120);

/// A guest that uses less than this share of a CPU, percent, gets too little CPU time, because other processes use the
/// computer. A guest that is idle ([`IDLE_PERCENT`]) is excepted.
const STARVED_PERCENT: u128 = 25;
/// A guest that uses less than this share of a CPU, percent, counts as idle.
const IDLE_PERCENT: u128 = 2;

/// The factor by which a guest may exceed its time limits while it gets too little CPU time.
const PATIENCE: u32 = 5;

/// Largest number of times that a guest is started for one run. If the kernel of a started guest manages too few or too
/// many pages, the guest is started again with corrected memory, unless this was the last start.
const STARTS: usize = 3;

/// Bytes that the journal and the tables of a guest's file system take, in addition to the space for files.
const FILE_SYSTEM_BYTES: u64 = 256 << 20;

/// Memory sizes that were right for earlier guests. For each kernel image and numbers of pages that a machine file
/// wants, this is the memory with which the guest's kernel managed these numbers of pages.
static FITTED: Mutex<BTreeMap<(PathBuf, Aim), Memory>> = Mutex::new(BTreeMap::new());

/// A line that came from the guest through the serial port.
enum Heard {
    Up(State),
    Told,
    Ended(Result<Box<Outcome>, String>),
}

/// Runs a job in a guest, waits for its end, and returns the outcome.
///
/// # Errors
/// When the guest cannot be started, or hangs or ends before it answers; also when the job failed or was interrupted.
pub(super) fn run(
    workload: &dyn Runnable,
    job: &Job,
    place: &GroundOptions,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    let _guard = interrupt::guard();
    let path = job.kernel_image.as_ref().ok_or_else(|| Failure("no kernel image".into()))?;
    let (image, modules) = found(path, place)?;
    let mut params = job.params.clone();
    let file = workload.file().and_then(|key| params.get_mut(key));
    let given = file.map(|path| std::mem::replace(path, Node::new("the guest", Value::Text(inside::GIVEN.into()))));
    let given = given.as_ref().and_then(Node::as_text).map(Path::new);
    let described = Described {
        workload: workload.name().to_owned(),
        params,
        memory_pages: job.memory_pages(),
        seed: job.seed,
        scale: job.scale.to_string(),
        series_every: job.series_every,
        generations_every_ns: job.generations_every.map(|every| every.0),
        memory_every_ns: job.memory_every.map(|every| every.0),
        cgroup: job.layout().limit_pages.map(|_| place.start.cgroup),
        groups: job.machine.groups.clone(),
        compressed_percent: match swap(job) {
            Swap::Zram { .. } => {
                job.machine.swap_disk().and_then(|(_, disk)| Some(disk.memory_percent.as_ref()?.value))
            }
            Swap::None | Swap::Disk { .. } => None,
        },
    };
    let line = serde_json::to_string(&described).map_err(|error| Failure(error.to_string()))?;
    let accelerator = match Accelerator::of_this_computer(&image) {
        _ if place.start.counts_instructions => Accelerator::Counted,
        found => found,
    };
    let aim = aim(job);
    let key = (path.clone(), aim.clone());
    let known = || FITTED.lock().unwrap_or_else(PoisonError::into_inner);
    let fitted = known().get(&key).cloned();
    let mut memory = fitted.unwrap_or_else(|| Memory::first(&image, &aim));
    for start in 1..=STARTS {
        let mut guest = Guest::start(job, place, (&image, modules.as_ref()), given, &memory, accelerator)?;
        let state = guest.wait_until_up().map_err(|failure| explained(failure, place))?;
        let corrected = memory.corrected(&aim, &state.zones);
        let is_exact = corrected.is_none();
        match corrected {
            None => drop(known().insert(key.clone(), memory.clone())),
            Some(better) if start < STARTS => {
                memory = better;
                continue;
            }
            Some(_) => {}
        }
        let mut outcome = *guest.work(&line, progress).map_err(|failure| explained(failure, place))?;
        outcome.notes.push(told_of(&image, &state, accelerator));
        if !is_exact {
            let (managed, pages) = (state.managed_pages(), aim.pages());
            outcome.notes.push(format!(
                "its kernel manages {managed} pages, and the machine file has {pages}: compare with care"
            ));
        }
        outcome.notes.extend(beyond::line(job, &state.zones));
        if place.start.cgroup == Version::V1 && described.cgroup.is_none() {
            outcome.notes.push("--cgroup-version is unused: the machine file has no `limit_pages`".into());
        }
        if !state.lacks.is_empty() {
            outcome.notes.push(format!("settings that its kernel lacks or refuses: {}", state.lacks.join(", ")));
        }
        if accelerator != Accelerator::Kvm {
            outcome.rows.retain(|row| !row.is_of_time());
            outcome.times.clear();
        }
        return Ok(outcome);
    }
    unreachable!("the last start is taken as it is")
}

/// Returns the failure of a guest. If the device that holds the guest's disks is full, the message begins with this
/// reason. The function must be called while the disks still exist, because their removal frees blocks of the device.
fn explained(Failure(message): Failure, place: &GroundOptions) -> Failure {
    match room(&place.folder) {
        Some(..FULL_PAGES) => Failure(format!("the device of --dir is full: {message}")),
        _ => Failure(message),
    }
}

/// Returns a line for readers of the report: the guest's kernel, how it was run, and its memory.
fn told_of(image: &Image, state: &State, accelerator: Accelerator) -> String {
    let zones: Vec<String> = state.zones.iter().map(|zone| format!("{} {}", zone.called(), zone.managed)).collect();
    let times = match accelerator {
        Accelerator::Kvm => "KVM",
        Accelerator::Emulation => "emulated (TCG): times and rates are the emulator's, and left out",
        Accelerator::Counted => "emulated (TCG), an instruction a nanosecond: times and rates are left out",
    };
    let built_as = if image.built_as == image.release { String::new() } else { format!(" ({})", image.built_as) };
    // The number of pages differs a little between starts. Rounded to MiB, it does not.
    let (release, zones, kernel) = (&state.release, zones.join(", "), state.kernel_pages / 256);
    format!(
        "kernel {release}{built_as}, {times}; pages managed: {zones}; {kernel} MiB of them the kernel's own and this program's"
    )
}

/// Returns the numbers of pages that the kernel of a guest should manage, according to the machine file.
fn aim(job: &Job) -> Aim {
    let layout = job.layout();
    let sum = |zones: &mut dyn Iterator<Item = &ZoneLayout>| zones.map(|zone| zone.managed_pages).sum::<u64>();
    let nodes = layout.nodes.iter().map(|node| sum(&mut node.zones.iter())).collect();
    let is_low = |zone: &&ZoneLayout| zone.kind != ZoneKind::Normal;
    Aim::new(nodes, sum(&mut layout.nodes.iter().flat_map(|node| &node.zones).filter(is_low)))
}

/// Returns the kind of swap that a guest gets. Swap is compressed memory if the machine file sets `memory_percent`, or
/// sets `synchronous` to true, for the disk with swap.
fn swap(job: &Job) -> Swap {
    let pages = job.swap_pages();
    let is_compressed = |disk: &Disk| {
        disk.memory_percent.is_some() || disk.synchronous.as_ref().is_some_and(|synchronous| synchronous.value)
    };
    match job.machine.swap_disk() {
        _ if pages == 0 => Swap::None,
        Some((_, disk)) if is_compressed(disk) => Swap::Zram { pages },
        _ => Swap::Disk { pages },
    }
}

/// A running guest, and the lines from its serial port. The fields are dropped in the order of declaration, so the
/// virtual machine ends before its files are removed.
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
        place: &GroundOptions,
        (image, modules): (&Image, Option<&Modules>),
        given: Option<&Path>,
        memory: &Memory,
        accelerator: Accelerator,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure(format!("cannot make a folder for the guest's disks: {error}"));
        let folder = Folder::new(&place.folder).map_err(failed)?;
        let huge = settings(&job.kernel).into_iter().find(|setting| setting.name == "access.huge_pages");
        let huge = huge.map_or_else(String::new, |it| format!("transparent_hugepage={} ", it.value));
        let limit = job.layout().limit_pages.map(|pages| (pages * PAGE_BYTES as u64, place.start.cgroup));
        let plan = Plan { settings: settings(&job.kernel), worker: vec![VERB.into()], limit, swap: swap(job) };
        let room = job.file_pages().min(job.device_pages.unwrap_or(u64::MAX));
        let given_bytes = given.and_then(|path| fs::metadata(path).ok()).map_or(0, |about| about.len());
        let room_bytes = room.saturating_mul(PAGE_BYTES as u64).saturating_add(given_bytes);
        let wanted = Wanted {
            image,
            modules,
            program: &place.program,
            plan,
            memory,
            cpus: job.machine.cpu.node_of_each(job.machine.memory.nodes.len()),
            distances: job.machine.memory.all_distances(),
            disk_bytes: room_bytes.saturating_add(FILE_SYSTEM_BYTES),
            given,
            command_line: &format!("{huge}{}", place.start.append),
            accelerator,
        };
        let (vm, stdin, stdout) = Vm::start(&wanted, &folder.0)?;
        let (send, heard) = mpsc::channel();
        thread::spawn(move || listen(stdout, |it| send.send(it).is_ok()));
        Ok(Self { vm, stdin: Some(stdin), heard, accelerator, _folder: folder })
    }

    /// Waits until the guest's first process is about to start the worker, which runs the workload; and returns the
    /// guest's state.
    fn wait_until_up(&mut self) -> Result<State, Failure> {
        let wait = Wait::begin(&self.vm);
        let is_late =
            |vm: &Vm| wait.exceeds(BOOT_LIMIT, vm) || (!vm.has_spoken() && wait.exceeds(FIRST_LINE_LIMIT, vm));
        loop {
            // After an interrupt the guest gets no time to end, because a guest that is still starting has no work to
            // end in order.
            match self.next(is_late, Duration::ZERO)? {
                Heard::Up(state) => return Ok(state),
                Heard::Told => {}
                Heard::Ended(Ok(_)) => return Err(Failure("the guest answered what nobody asked".into())),
                Heard::Ended(Err(message)) => return Err(Failure(message)),
            }
        }
    }

    /// Sends the job to the worker, the process in the guest that runs the workload. Waits for the answer, and returns
    /// the outcome.
    fn work(&mut self, line: &str, progress: &Progress) -> Result<Box<Outcome>, Failure> {
        let told = |error: io::Error| Failure(format!("cannot tell the guest its job: {error}"));
        let began = Instant::now();
        if let Some(stdin) = &mut self.stdin {
            writeln!(stdin, "{line}").and_then(|()| stdin.flush()).map_err(told)?;
        }
        loop {
            let wait = Wait::begin(&self.vm);
            match self.next(|vm| wait.exceeds(SILENT_LIMIT, vm), GRACE)? {
                Heard::Up(_) | Heard::Told => progress.set_now_ns(began.elapsed().as_nanos() as u64),
                Heard::Ended(answer) => return answer.map_err(Failure),
            }
        }
    }

    /// Waits for the next line from the guest.
    ///
    /// # Errors
    /// When the guest has ended, its kernel has halted, or `is_late` returns true: the guest has been silent for too
    /// long. Also when the user has interrupted the run: then the guest has the time `grace` to end its work first.
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
                // The end of its input tells the worker of the interrupt.
                self.stdin.take();
                if told_at.get_or_insert_with(Instant::now).elapsed() >= grace {
                    return Err(interrupted());
                }
            } else if looked_at.elapsed() > CONSOLE_EVERY {
                looked_at = Instant::now();
                let what = match (self.vm.is_halted(), is_late(&self.vm), self.accelerator) {
                    (true, _, _) => "the guest's kernel has halted",
                    (false, true, Accelerator::Kvm) => "the guest hangs: it has said nothing in time",
                    (false, true, Accelerator::Emulation | Accelerator::Counted) => {
                        "the guest (emulated) hangs: it has said nothing in time"
                    }
                    (false, false, _) => continue,
                };
                return Err(Failure(format!("{what}{}", self.vm.last_words())));
            }
        }
    }
}

/// A wait for a guest, with the CPU time that the guest uses meanwhile.
struct Wait {
    began: Instant,
    /// CPU time of the guest at the beginning of the wait.
    used_before: Duration,
}

impl Wait {
    fn begin(vm: &Vm) -> Self {
        Self { began: Instant::now(), used_before: vm.cpu_time() }
    }

    fn exceeds(&self, limit: Duration, vm: &Vm) -> bool {
        is_too_long(self.began.elapsed(), vm.cpu_time().saturating_sub(self.used_before), limit)
    }
}

/// Returns whether the wait for a guest is too long, given the CPU time that the guest used meanwhile. A guest that
/// works but gets little CPU time may take longer.
fn is_too_long(waited: Duration, used: Duration, limit: Duration) -> bool {
    let percent = used.as_millis() * 100 / waited.as_millis().max(1);
    let is_starved = (IDLE_PERCENT..STARVED_PERCENT).contains(&percent);
    waited > if is_starved { limit * PATIENCE } else { limit }
}

/// Reads lines from a guest's serial port, and passes the meaning of each to `tell`. Returns when the port closes or
/// `tell` returns `false`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_gets_little_of_the_cpus_has_more_time() {
        let is_too_long =
            |waited, used| is_too_long(Duration::from_secs(waited), Duration::from_secs(used), BOOT_LIMIT);
        assert!(!is_too_long(170, 170) && is_too_long(200, 200), "it works, and does not come up");
        assert!(is_too_long(200, 0), "it waits for what does not come");
        assert!(!is_too_long(200, 20) && is_too_long(1000, 100), "others use the computer");
    }
}
