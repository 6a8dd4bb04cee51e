//! Starts QEMU with a kernel image and an archive, and ends it.
//!
//! The guest's serial port is the standard input and output of QEMU. So the program that starts QEMU talks to the
//! worker, which runs the workload in the guest, as to a child process. QEMU ends when the guest ends, when its [`Vm`]
//! is dropped, and when the thread that started it ends in any way.

use crate::archive::Archive;
use crate::disk;
use crate::image::Image;
use crate::inside::{self, Plan, Swap};
use crate::memory::Memory;
use crate::modules::{Module, Modules, NEEDED, ZRAM};
use crate::program::Program;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The program that runs a virtual machine.
pub const QEMU: &str = "qemu-system-x86_64";

/// The file to which the guest's console is written, in the folder of the virtual machine.
const CONSOLE: &str = "console.log";

/// Number of lines of the console that are shown when a guest fails.
const TAIL: usize = 12;

/// The longest wait for the end of QEMU after the guest's serial port has closed. QEMU closes the port a little before
/// its end.
const ENDS_IN: Duration = Duration::from_secs(1);

/// The text that a kernel image writes to the console if it cannot be unpacked. The guest's CPU then stops for ever.
const HALTED: &[u8] = b"System halted";

/// The ways in which the instructions of a guest are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor of this computer executes the instructions.
    Kvm,
    /// QEMU translates the instructions. This is 10 to 50 times slower than execution by the processor.
    Emulation,
    /// QEMU translates the instructions, for one CPU at a time. Each instruction takes one nanosecond of the guest's
    /// time.
    Counted,
}

impl Accelerator {
    /// Returns [`Accelerator::Kvm`] if this user may use KVM and `image` writes to its console when it boots with KVM;
    /// otherwise [`Accelerator::Emulation`]. On some computers that are virtual themselves, an image writes nothing
    /// with KVM. The first call tests this, for a few seconds at most.
    #[must_use]
    pub fn of_this_computer(image: &Image) -> Self {
        static FOUND: OnceLock<Accelerator> = OnceLock::new();
        let is_there = || fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        *FOUND.get_or_init(|| if is_there() && speaks_with_kvm(image) { Self::Kvm } else { Self::Emulation })
    }
}

/// The longest wait for the first line on a guest's console with KVM. Usually this line comes within a second.
const KVM_WAIT: Duration = Duration::from_secs(5);

/// Starts a kernel image in a virtual machine with KVM. Returns whether the kernel soon writes something to its
/// console.
fn speaks_with_kvm(image: &Image) -> bool {
    let mut command = Command::new(QEMU);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "pc", "-m", "256M"]);
    command.args(["-accel", "kvm", "-cpu", "host", "-serial", "stdio", "-append", "console=ttyS0 panic=-1"]);
    command.arg("-kernel").arg(&image.path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    computer::sys::end_with_this_thread(&mut command);
    let Ok(mut child) = command.spawn() else { return false };
    let Some(mut stdout) = child.stdout.take() else { return false };
    let (send, receive) = mpsc::channel();
    let reader = thread::spawn(move || {
        let spoke = stdout.read(&mut [0; 1]).is_ok_and(|bytes| bytes > 0);
        // An error means that the answer came too late: the receiver no longer waits.
        let _ = send.send(spoke);
    });
    let spoke = receive.recv_timeout(KVM_WAIT).unwrap_or(false);
    let _ = child.kill();
    let _ = child.wait();
    let _ = reader.join();
    spoke
}

/// The description of a virtual machine to start.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The kernel image.
    pub image: &'a Image,
    /// The modules of the kernel, if there are any.
    pub modules: Option<&'a Modules>,
    /// The program to run in the machine.
    pub program: &'a Path,
    /// The plan of the first process in the virtual machine, which says what this process must do.
    pub plan: Plan,
    /// The memory of the machine.
    pub memory: &'a Memory,
    /// The number of the memory node of each CPU.
    pub cpus: Vec<u8>,
    /// Distances between memory nodes: `distances[a][b]` is the distance from the CPUs of node `a` to the memory of
    /// node `b`. The distance within a node is 10 (as in ACPI).
    pub distances: Vec<Vec<u8>>,
    /// Size of the disk for files, bytes.
    pub disk_bytes: u64,
    /// A file of this computer that the guest gets, at [`inside::GIVEN`].
    pub given: Option<&'a Path>,
    /// Options that are added to the kernel's command line.
    pub command_line: &'a str,
    /// The way in which the machine's instructions are executed.
    pub accelerator: Accelerator,
}

/// A running virtual machine. Dropping this value ends the machine.
#[derive(Debug)]
pub struct Vm {
    child: Child,
    console: PathBuf,
}

/// Returns the name of the QEMU program, and its version as QEMU prints it.
///
/// # Errors
/// When QEMU is missing. The error names the program and how to get it, in words for the user.
pub fn qemu_version() -> Result<String, String> {
    let missing =
        || format!("{QEMU} cannot be run here: the package qemu-system-x86 of Debian has it, qemu-kvm of Fedora");
    let output = Command::new(QEMU).arg("--version").stdin(Stdio::null()).output().map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().filter(|_| output.status.success()).ok_or_else(missing)?;
    Ok(first.to_owned())
}

/// Checks that a guest with this kernel image has all needed drivers, as far as this can be found out before the
/// guest's start.
///
/// # Errors
/// When a driver is neither built in nor a module. The error names all such drivers, and how the user can provide them.
pub fn check_drivers(image: &Image, modules: Option<&Modules>) -> Result<(), String> {
    // If there are no modules, the image may have all drivers built in. If it lacks a driver, the guest says so at its
    // start.
    let Some(modules) = modules else { return Ok(()) };
    let lacking: Vec<&str> = NEEDED.into_iter().filter(|name| !modules.has(name)).collect();
    match lacking.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}: neither built in nor in {}: {}; `kernel.config` of the crate `highwater-guest` has the options",
            image.release,
            modules.folder.display(),
            lacking.join(", ")
        )),
    }
}

impl Vm {
    /// Makes the archive (a guest's first files) and the disks in `folder`, which must be empty, and starts the virtual
    /// machine. Returns the machine, and the input and output of its serial port.
    ///
    /// # Errors
    /// When a step fails. The error names the step, in words for the user.
    pub fn start(wanted: &Wanted<'_>, folder: &Path) -> Result<(Self, ChildStdin, ChildStdout), String> {
        let told = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let plan = &wanted.plan;
        let of_swap = matches!(plan.swap, Swap::Zram { .. }).then_some(ZRAM);
        let needed: Vec<&str> = NEEDED.into_iter().chain(of_swap).collect();
        let modules = wanted.modules.map_or(Ok(Vec::new()), |modules| modules.load_order(&needed))?;
        let program = Program::read(wanted.program).map_err(told("cannot read the program"))?;
        let archive = folder.join("archive");
        write_archive(&archive, &program, &modules, plan).map_err(told("cannot write the archive"))?;
        let packed = fs::metadata(&archive).map_err(told("cannot read the archive"))?.len();
        let parts = program.libraries.iter().map(|(_, bytes)| bytes).chain(modules.iter().map(|module| &module.bytes));
        let unpacked = parts.chain([&program.bytes]).map(|bytes| bytes.len() as u64).sum();
        wanted.memory.check_start(wanted.image, packed, unpacked)?;
        let disk = folder.join("disk");
        let contents = folder.join("contents");
        if let Some(given) = wanted.given {
            let told = |error: io::Error| format!("cannot give {} to the guest: {error}", given.display());
            fs::create_dir(&contents).map_err(told)?;
            let copy = contents.join(&inside::GIVEN[1..]);
            // No link: `given` may be a symbolic link, which would lead nowhere in the guest.
            fs::copy(given, &copy).map_err(told)?;
        }
        disk::with_file_system(&disk, wanted.disk_bytes, wanted.given.map(|_| contents.as_path()))?;
        let _ = fs::remove_dir_all(&contents);
        let mut drives = vec![disk];
        if let Swap::Disk { pages } = plan.swap {
            let swap = folder.join("swap");
            disk::with_swap(&swap, pages).map_err(told("cannot make the disk for swap"))?;
            drives.push(swap);
        }
        let console = folder.join(CONSOLE);
        let mut command = command(wanted, &archive, &console);
        for (n, path) in drives.into_iter().enumerate() {
            // In QEMU's options, a comma within a value is written twice.
            let file = path.display().to_string().replace(',', ",,");
            // `cache=unsafe`: data that the guest has written need not reach this computer's disk.
            let drive = format!("file={file},format=raw,if=none,id=d{n},cache=unsafe,discard=unmap");
            // If this computer's disk is full, the guest gets an error. Otherwise QEMU would stop the guest without a
            // message.
            command.args(["-drive", &format!("{drive},werror=report,rerror=report")]);
            command.args(["-device", &format!("virtio-blk-pci,drive=d{n}")]);
        }
        let errors = File::create(folder.join("errors")).map_err(told("cannot write"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        computer::sys::end_with_this_thread(&mut command);
        let mut child = command.spawn().map_err(told("cannot start qemu-system-x86_64"))?;
        let ends = (child.stdin.take(), child.stdout.take());
        let vm = Self { child, console };
        let (Some(stdin), Some(stdout)) = ends else { return Err("QEMU has no port".into()) };
        Ok((vm, stdin, stdout))
    }

    /// Returns whether the guest's kernel has halted without ending the virtual machine. Nothing more comes from such a
    /// guest.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        fs::read(&self.console).is_ok_and(|console| console.windows(HALTED.len()).any(|bytes| bytes == HALTED))
    }

    /// Returns whether the guest has written anything to its console.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        fs::metadata(&self.console).is_ok_and(|console| console.len() > 0)
    }

    /// Returns the CPU time that QEMU has used so far; zero if it cannot be found out.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name is followed by the state and ten further fields; then come the ticks in user mode and in the kernel,
        // 100 a second.
        let fields = stat.rsplit_once(')').map_or("", |(_, behind)| behind).split_whitespace().skip(11).take(2);
        Duration::from_millis(10 * fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>())
    }

    /// Waits until QEMU has ended, but at most one second. This must be called after the guest's serial port has
    /// closed. QEMU closes the port a little before it ends.
    pub fn settle(&mut self) {
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < ENDS_IN {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns text to append to a message such as "the guest ended". It contains the cause, if a line of the output
    /// names one or a signal ended QEMU, and the last lines of the console and of QEMU's messages.
    #[must_use]
    pub fn last_words(&mut self) -> String {
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let (console, errors) = (read(&self.console), read(&self.console.with_file_name("errors")));
        let lines: Vec<&str> =
            console.lines().chain(errors.lines()).map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let cause = lines.iter().rev().find_map(|line| Some(line.split_once(inside::CANNOT)?.1));
        let panic = lines.iter().find_map(|line| Some(&line[line.find("Kernel panic")?..]));
        let tail =
            lines[lines.len().saturating_sub(TAIL)..].iter().map(|line| format!("\n  {}", kit::shown::harmless(line)));
        let signal = match self.child.try_wait() {
            Ok(Some(status)) => status.signal().map(|signal| format!("signal {signal} ended QEMU")),
            _ => None,
        };
        let cause = cause.or(panic).map(|cause| kit::shown::harmless(cause).into_owned()).or(signal);
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        match lines.is_empty() {
            true => format!("{cause}; its console has no line"),
            false => format!("{cause}; the last lines of its console:{}", tail.collect::<String>()),
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Errors are ignored, because QEMU may have ended just now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn write_archive(path: &Path, program: &Program, modules: &[Module], plan: &Plan) -> io::Result<()> {
    let mut archive = Archive::new(io::BufWriter::new(File::create(path)?));
    for folder in ["/proc", "/sys", "/dev", "/disk"] {
        archive.folder(Path::new(folder))?;
    }
    archive.file(Path::new(inside::PROGRAM), &program.bytes)?;
    for (path, bytes) in &program.libraries {
        archive.file(path, bytes)?;
    }
    for (n, Module { name, bytes }) in modules.iter().enumerate() {
        archive.file(&Path::new(inside::MODULES).join(format!("{n:02}-{name}")), bytes)?;
    }
    archive.file(Path::new(inside::PLAN), &serde_json::to_vec(plan).map_err(io::Error::other)?)?;
    archive.finish()?.into_inner().map_err(|error| error.into_error()).map(drop)
}

fn command(wanted: &Wanted<'_>, archive: &Path, console: &Path) -> Command {
    let mut command = Command::new(QEMU);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    match wanted.accelerator {
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        Accelerator::Emulation => command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]),
        // With these settings the processor's random numbers, the clock and the idle time are the same in each run.
        Accelerator::Counted => command.args([
            "-accel",
            "tcg,thread=single",
            "-cpu",
            "max",
            "-icount",
            "shift=0,sleep=off",
            "-rtc",
            "base=2026-01-01,clock=vm",
            "-seed",
            "1",
        ]),
    };
    let Memory { nodes_kib, low_kib } = wanted.memory;
    let low = low_kib.map_or_else(String::new, |kib| format!(",max-ram-below-4g={}", kib * 1024));
    command.args(["-machine", &format!("pc{low}")]);
    command.args(["-m", &format!("{}K", wanted.memory.kib()), "-smp", &wanted.cpus.len().to_string()]);
    if nodes_kib.len() > 1 {
        command.args(nodes(wanted));
    }
    command.arg("-kernel").arg(&wanted.image.path).arg("-initrd").arg(archive);
    // If the kernel does not know a word with `=`, such as `LD_LIBRARY_PATH`, it passes the word to its first process
    // as an environment variable. The first file system is a ramfs, because a tmpfs has room for only half of memory,
    // and on a small machine the program needs more.
    let line = format!(
        "console=ttyS0 earlyprintk=ttyS0 rdinit={} LD_LIBRARY_PATH={} panic=-1 nokaslr norandmaps mitigations=off random.trust_cpu=on psi=1 rootfstype=ramfs {}{}",
        inside::PROGRAM,
        crate::program::LIBRARIES,
        // An emulated timer is late when the computer is busy, and a kernel that checks the timer gives up.
        if wanted.accelerator == Accelerator::Kvm { "" } else { "no_timer_check " },
        wanted.command_line
    );
    command.args(["-append", line.trim_end()]);
    let console = console.display().to_string().replace(',', ",,");
    command.args(["-chardev", &format!("file,id=console,path={console}"), "-serial", "chardev:console"]);
    command.args(["-chardev", "stdio,id=port,signal=off", "-device", "virtio-serial-pci"]);
    command.args(["-device", &format!("virtserialport,chardev=port,name={}", inside::PORT)]);
    command
}

/// Returns the arguments of QEMU for memory and CPUs on several nodes.
fn nodes(wanted: &Wanted<'_>) -> Vec<String> {
    let mut arguments = Vec::new();
    for (node, kib) in wanted.memory.nodes_kib.iter().enumerate() {
        let cpus = wanted.cpus.iter().enumerate().filter(|(_, of)| usize::from(**of) == node);
        let cpus: String = cpus.map(|(cpu, _)| format!(",cpus={cpu}")).collect();
        arguments.extend(["-object".into(), format!("memory-backend-ram,id=m{node},size={kib}K")]);
        arguments.extend(["-numa".into(), format!("node,nodeid={node},memdev=m{node}{cpus}")]);
    }
    for (from, row) in wanted.distances.iter().enumerate() {
        for (to, distance) in row.iter().enumerate().filter(|(to, _)| *to != from) {
            arguments.extend(["-numa".into(), format!("dist,src={from},dst={to},val={distance}")]);
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_memory_and_cpus_and_its_distance_from_the_others() {
        let image = Image { path: "bzImage".into(), release: "6.1".into(), built_as: "6.1".into(), needed_bytes: 0 };
        let memory = Memory { nodes_kib: vec![4096, 2048], low_kib: Some(3072) };
        let wanted = Wanted {
            image: &image,
            modules: None,
            program: Path::new("/program"),
            plan: Plan::default(),
            memory: &memory,
            cpus: vec![0, 0, 1],
            distances: vec![vec![10, 21], vec![31, 10]],
            given: None,
            disk_bytes: 0,
            command_line: "movablecore=1M",
            accelerator: Accelerator::Emulation,
        };
        let command = command(&wanted, Path::new("archive"), Path::new("console"));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let text = words.join(" ");
        for part in [
            "-machine pc,max-ram-below-4g=3145728 -m 6144K -smp 3 ",
            "-object memory-backend-ram,id=m0,size=4096K -numa node,nodeid=0,memdev=m0,cpus=0,cpus=1 ",
            "-object memory-backend-ram,id=m1,size=2048K -numa node,nodeid=1,memdev=m1,cpus=2 ",
            "-numa dist,src=0,dst=1,val=21 -numa dist,src=1,dst=0,val=31 ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains(" no_timer_check movablecore=1M"), "{text}");
    }
}
