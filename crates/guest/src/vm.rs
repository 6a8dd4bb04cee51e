//! A virtual machine: QEMU with a kernel image and an archive.
//!
//! The guest's port is the standard input and output of QEMU, so whoever starts it talks to the worker inside as to a process
//! of its own. QEMU ends with the guest, when it is dropped, and with the thread that started it, however that ends.

use crate::archive::Archive;
use crate::disk;
use crate::image::Image;
use crate::inside::{self, Plan};
use crate::modules::{Module, Modules, NEEDED};
use crate::program::Program;
use machine::PAGE_BYTES;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The program that is a virtual machine.
pub const QEMU: &str = "qemu-system-x86_64";

/// The file of the console in the folder of a machine.
const CONSOLE: &str = "console.log";

/// Lines of the console that are shown when a guest fails.
const TAIL: usize = 12;

/// The longest time between the end of the port and that of QEMU, which closes all that it has open when it ends.
const ENDS_IN: Duration = Duration::from_secs(1);

/// The text on the console of a kernel that cannot be unpacked and stops its CPU for ever.
const HALTED: &[u8] = b"System halted";

/// The executor of a guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor of this computer.
    Kvm,
    /// QEMU, by translation: 10 to 50 times slower, and not evenly.
    Emulation,
}

impl Accelerator {
    /// Returns what this computer offers: KVM where this user may use it and an image then says something on its console, as it
    /// does not on some computers that are virtual themselves. Found out once, in a few seconds at most.
    #[must_use]
    pub fn of_this_computer(image: &Image) -> Self {
        static FOUND: OnceLock<Accelerator> = OnceLock::new();
        let is_there = || fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        *FOUND.get_or_init(|| if is_there() && speaks_with_kvm(image) { Self::Kvm } else { Self::Emulation })
    }
}

/// The longest wait for the first line of a console with KVM; it comes within a second.
const KVM_WAIT: Duration = Duration::from_secs(5);

/// Returns whether an image says something on its console with KVM.
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
        // Nobody asks any more where it came too late.
        let _ = send.send(spoke);
    });
    let spoke = receive.recv_timeout(KVM_WAIT).unwrap_or(false);
    let _ = child.kill();
    let _ = child.wait();
    let _ = reader.join();
    spoke
}

/// A machine to start.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The kernel image.
    pub image: &'a Image,
    /// Its modules, if there are any.
    pub modules: Option<&'a Modules>,
    /// The program to run in it.
    pub program: &'a Path,
    /// The work of its first process. Whether there is swap follows from `swap_pages`.
    pub plan: Plan,
    /// Memory, KiB.
    pub memory_kib: u64,
    /// CPUs.
    pub cpus: usize,
    /// Room of the disk for files, bytes.
    pub disk_bytes: u64,
    /// Pages of swap.
    pub swap_pages: u64,
    /// Words for the kernel's command line.
    pub command_line: &'a str,
    /// The executor of its instructions.
    pub accelerator: Accelerator,
}

/// A running machine. It ends when dropped.
#[derive(Debug)]
pub struct Vm {
    child: Child,
    console: PathBuf,
}

/// Returns the program, and its version as it prints it.
///
/// # Errors
/// The missing part and how to get it, in words for the user.
pub fn qemu_version() -> Result<String, String> {
    let missing =
        || format!("{QEMU} cannot be run here: the package qemu-system-x86 of Debian has it, qemu-kvm of Fedora");
    let output = Command::new(QEMU).arg("--version").stdin(Stdio::null()).output().map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().filter(|_| output.status.success()).ok_or_else(missing)?;
    Ok(first.to_owned())
}

/// Checks that a guest of this image would have all drivers, as far as can be told from outside.
///
/// # Errors
/// The drivers that are neither built in nor modules, and how to give them.
pub fn check_drivers(image: &Image, modules: Option<&Modules>) -> Result<(), String> {
    // An image without modules has all that it needs built in, or says at its start what it lacks.
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
    /// Makes the archive and the disks in `folder`, which is empty, and starts the machine. Returns it with its port.
    ///
    /// # Errors
    /// The step that failed, in words for the user.
    pub fn start(wanted: &Wanted<'_>, folder: &Path) -> Result<(Self, ChildStdin, ChildStdout), String> {
        let told = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let plan = Plan { has_swap: wanted.swap_pages > 0, ..wanted.plan.clone() };
        let modules = wanted.modules.map_or(Ok(Vec::new()), |modules| modules.load_order(&NEEDED))?;
        let program = Program::read(wanted.program).map_err(told("cannot read the program"))?;
        let archive = folder.join("archive");
        write_archive(&archive, &program, &modules, &plan).map_err(told("cannot write the archive"))?;
        let disk = folder.join("disk");
        disk::with_file_system(&disk, wanted.disk_bytes)?;
        let swap = folder.join("swap");
        if plan.has_swap {
            disk::with_swap(&swap, wanted.swap_pages).map_err(told("cannot make the disk for swap"))?;
        }
        let console = folder.join(CONSOLE);
        let mut command = command(wanted, &archive, &console);
        let mut drives = vec![&disk];
        drives.extend(plan.has_swap.then_some(&swap));
        for (n, path) in drives.into_iter().enumerate() {
            // Commas in values are written twice.
            let file = path.display().to_string().replace(',', ",,");
            // What the guest has written need not reach this computer's disk.
            let drive = format!("file={file},format=raw,if=none,id=d{n},cache=unsafe,discard=unmap");
            // Where this computer's disk is full, the guest is told; else QEMU would stop it and say nothing.
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

    /// Returns whether nothing more can come from it: its kernel has ended itself without ending the machine.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        fs::read(&self.console).is_ok_and(|console| console.windows(HALTED.len()).any(|bytes| bytes == HALTED))
    }

    /// Returns whether its console has a line.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        fs::metadata(&self.console).is_ok_and(|console| console.len() > 0)
    }

    /// Waits until QEMU, whose port is closed, has ended, a second at most.
    pub fn settle(&mut self) {
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < ENDS_IN {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns how QEMU ended, the last lines of the console and of what QEMU says, and first the cause if one of them names it.
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
            // It may have ended just now.
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
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "pc"]);
    match wanted.accelerator {
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        Accelerator::Emulation => command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]),
    };
    command.args(["-m", &format!("{}K", wanted.memory_kib), "-smp", &wanted.cpus.to_string()]);
    command.arg("-kernel").arg(&wanted.image.path).arg("-initrd").arg(archive);
    // A word with `=` that the kernel does not know is a variable of its first process.
    let line = format!(
        "console=ttyS0 earlyprintk=ttyS0 rdinit={} LD_LIBRARY_PATH={} panic=-1 nokaslr norandmaps mitigations=off random.trust_cpu=on {}",
        inside::PROGRAM,
        crate::program::LIBRARIES,
        wanted.command_line
    );
    command.args(["-append", line.trim_end()]);
    let console = console.display().to_string().replace(',', ",,");
    command.args(["-chardev", &format!("file,id=console,path={console}"), "-serial", "chardev:console"]);
    command.args(["-chardev", "stdio,id=port,signal=off", "-device", "virtio-serial-pci"]);
    command.args(["-device", &format!("virtserialport,chardev=port,name={}", inside::PORT)]);
    command
}

/// Returns the memory, KiB, of a machine whose kernel manages so many pages, by experience: what it manages is less by its
/// text and data, and by a descriptor of 64 bytes for each page.
///
/// An image asks for room to unpack itself, and a running kernel keeps less. Debian's 6.1.176 keeps 49.6 MiB of the 63.6 that it asks
/// for, 7.2.12 47.1 of 60.3: both 0.78.
#[must_use]
pub fn memory_kib_for(image: &Image, pages: u64) -> u64 {
    let managed = pages * PAGE_BYTES as u64;
    (managed + managed / 64 + image.needed_bytes / 32 * 25) / 1024
}
