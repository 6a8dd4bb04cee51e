//! Tests of the ground `guest`: kernel images in virtual machines.
//!
//! Tests that boot a kernel need QEMU and an image. `HIGHWATER_KERNEL_IMAGE` names the image, or `.ci/run` puts one
//! into the target folder. If either is missing, the tests say so and are skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn highwater() -> Command {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn has_qemu() -> bool {
    let has = guest::vm::qemu_version().is_ok() && guest::disk::check_tools().is_ok();
    if !has {
        println!("skipped: QEMU or mkfs.ext4 is missing");
    }
    has
}

/// Returns the image that `HIGHWATER_KERNEL_IMAGE` names, or one from a distribution's package below `kernel` in the
/// target folder; none if there is none.
fn image() -> Option<PathBuf> {
    let named = std::env::var_os("HIGHWATER_KERNEL_IMAGE").map(PathBuf::from);
    let boot = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernel").join("boot");
    let files = boot.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let is_image =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz-"));
    let image = named.or_else(|| files.into_iter().find(is_image)).filter(|_| has_qemu());
    if image.is_none() {
        println!("skipped: no kernel image lies in {}, and HIGHWATER_KERNEL_IMAGE names none", boot.display());
    }
    image
}

/// Returns a command that runs a small job on an image. The job's files are in `folder`.
fn small(image: &Path, folder: &Path) -> Command {
    let mut command = highwater();
    command.args(["run", "randread", "--on", "guest", "--all", "--format", "csv", "--set", "params.operations=2000"]);
    command.args(["--set", "params.file_percent=100", "--kernel-image"]).arg(image).arg("--dir").arg(folder);
    command
}

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn what_is_no_kernel_is_wrong_usage_and_named() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bzImage");
    std::fs::write(&file, "no kernel").unwrap();
    let output = highwater().args(["run", "randread", "--on", "guest", "--kernel-image"]).arg(&file).output().unwrap();
    let told = text(&output);
    assert!(output.status.code() == Some(2) && told.contains("bzImage: no kernel image for x86-64"), "{told}");
    let output = highwater().args(["run", "randread", "--on", "guest"]).output().unwrap();
    assert!(output.status.code() == Some(2) && text(&output).contains("--kernel-image FILE"), "{}", text(&output));
    let output = highwater().args(["guest", "check", "--kernel-image"]).arg(&file).output().unwrap();
    let told = text(&output);
    assert!(output.status.code() == Some(1) && told.starts_with("A guest cannot run here"), "{told}");
}

#[test]
fn a_workload_runs_on_a_kernel_image_which_tells_of_its_memory_and_leaves_nothing() {
    let Some(image) = image() else { return };
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let beside = ["series", "buddyinfo", "lru-gen", "memory-map"].map(|name| (name, files.path().join(name)));
    let mut command = small(&image, folder.path());
    command.args(["--kernel", "6.1-mglru"]);
    for (name, path) in &beside {
        command.arg(format!("--{name}")).arg(path);
    }
    let output = command.output().unwrap();
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    let value = |name: &str| {
        let line =
            told.lines().find(|line| line.contains(&format!("{name},"))).unwrap_or_else(|| panic!("{name}: {told}"));
        line.split(',').nth(5).and_then(|word| word.parse::<f64>().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    // The file is read 32,000 times, and does not fit into the memory that the kernel leaves.
    assert!(value("pgsteal_kswapd") > 1000.0, "{told}");
    assert!(is_empty(folder.path()), "its disks are gone");
    let [series, blocks, generations, map] = beside.map(|(_, path)| std::fs::read_to_string(path).unwrap());
    for name in
        ["nr_free_pages_dma32", "psi_memory_some_us", "kswapd_cpu_us", "nr_swap_free", "sda_reads", "pgsteal_file"]
    {
        let last = series.lines().rfind(|line| line.contains(&format!(",{name},")));
        let value = last.and_then(|line| line.split(',').nth(4)?.parse::<u64>().ok());
        assert!(value.is_some_and(|value| value > 0), "{name}: {last:?}");
    }
    let movable =
        blocks.lines().filter(|line| line.contains(",DMA32,Movable,10,") || line.contains(",DMA32,Movable,,"));
    let counts: Vec<u64> = movable.filter_map(|line| line.rsplit(',').find_map(|word| word.parse().ok())).collect();
    assert!(counts.iter().any(|count| *count > 0), "{blocks}");
    assert!(generations.contains("memcg"), "{generations}");
    assert!(map.starts_with("<svg ") && map.contains("time, s"), "{map}");
}

#[test]
fn a_guest_without_its_disk_says_so_with_its_console() {
    let Some(image) = image() else { return };
    let (folder, modules) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(modules.path().join("kernel")).unwrap();
    // The list states that all needed modules are built in, but they are not.
    let built_in = guest::modules::NEEDED.map(|name| format!("kernel/{name}.ko\n")).concat();
    std::fs::write(modules.path().join("modules.builtin"), built_in).unwrap();
    let output = small(&image, folder.path()).arg("--kernel-modules").arg(modules.path()).output().unwrap();
    let told = text(&output);
    assert!(output.status.code() == Some(1) && told.contains("the disk (driver virtio_blk) does not appear"), "{told}");
    assert!(told.contains("the last lines of its console"), "{told}");
    assert!(is_empty(folder.path()), "its disks are gone");
}

#[test]
fn an_interrupt_ends_the_guest_and_removes_its_disks() {
    let Some(image) = image() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut child = small(&image, folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let has_console = || {
        let folders = folder.path().read_dir().unwrap().flatten();
        folders.into_iter().any(|entry| entry.path().join("console.log").metadata().is_ok_and(|file| file.len() > 0))
    };
    while !has_console() {
        assert!(began.elapsed() < Duration::from_secs(60), "no guest was started");
        std::thread::sleep(Duration::from_millis(50));
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success() && began.elapsed() < Duration::from_secs(90), "{status:?}");
    assert!(is_empty(folder.path()), "its disks are gone");
}

/// Returns the beginning of a kernel image, with the fields that the code under test reads.
fn header() -> Vec<u8> {
    let mut bytes = vec![0; 0x1000];
    let parts: [(usize, &[u8]); 5] = [
        (0x202, b"HdrS"),
        (0x206, &[0x0f, 2]),
        (0x20e, &[0, 4]),
        (0x260, &[0, 0, 0, 3]),
        (0x600, b"6.1.0-none (a@b) #1 SMP\0"),
    ];
    parts.into_iter().for_each(|(at, part)| bytes[at..at + part.len()].copy_from_slice(part));
    bytes
}

/// A fake QEMU, which runs a script instead of a guest. In the script, `$console` is the file of the console.
struct StandIn {
    folder: tempfile::TempDir,
    files: tempfile::TempDir,
}

impl StandIn {
    /// Makes a fake QEMU that runs the shell commands `acts`; none if other tools that guests need are missing.
    fn new(acts: &str) -> Option<Self> {
        if let Err(missing) = guest::disk::check_tools() {
            println!("skipped: {missing}");
            return None;
        }
        let [folder, files] = [(); 2].map(|()| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*--version*) echo QEMU emulator version 0; exit;;\n*'accel kvm'*) exit 1;;\nesac\n\
             console=$(echo \"$*\" | sed 's/.*id=console,path=\\([^ ]*\\).*/\\1/')\necho $$ >> \"${{0%/*}}/pids\"\n{acts}\n"
        );
        let path = folder.path().join(guest::vm::QEMU);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("bzImage"), header()).unwrap();
        Some(Self { folder, files })
    }

    /// Returns a command that runs a small job with the fake QEMU.
    fn small(&self) -> Command {
        let mut command = small(&self.folder.path().join("bzImage"), self.files.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.path().display()));
        command
    }

    /// Checks that a run fails within this many seconds, that its message has these words, and that nothing is left
    /// behind.
    fn fails_with(&self, words: &[&str], seconds: u64) {
        let began = Instant::now();
        let output = self.small().output().unwrap();
        let told = text(&output);
        assert!(output.status.code() == Some(1) && began.elapsed() < Duration::from_secs(seconds), "{told}");
        words.iter().for_each(|word| assert!(told.contains(word), "{word}: {told}"));
        self.check_left();
    }

    fn check_left(&self) {
        assert!(is_empty(self.files.path()), "its disks are gone");
        let pids = std::fs::read_to_string(self.folder.path().join("pids")).unwrap();
        let mut alive = pids.lines().filter(|pid| Path::new("/proc").join(pid).exists());
        assert_eq!(alive.next(), None, "a process is left");
    }
}

/// The message that a guest's first process sends when the guest is up.
const UP: &str = r#"{"up":{"release":"6.1.0-none","zones":[{"node":0,"name":"DMA32","free":25000,"of_cpus":0,"managed":30000,"spanned":32000,"start":0}],"kernel_pages":5000,"lacks":[]}}"#;

#[test]
fn a_guest_that_is_killed_from_outside_says_so() {
    let Some(qemu) = StandIn::new("echo Linux version 6.1 > \"$console\"; kill -9 $$") else { return };
    qemu.fails_with(&["the guest ended: signal 9 ended QEMU", "Linux version 6.1"], 60);
}

#[test]
fn a_guest_that_panics_at_its_start_or_at_work_says_why() {
    let panics = "echo '[ 1.0] Kernel panic - not syncing: no memory' > \"$console\"";
    let told = ["the guest ended: Kernel panic - not syncing: no memory", "the last lines of its console"];
    let Some(qemu) = StandIn::new(panics) else { return };
    qemu.fails_with(&told, 60);
    let Some(qemu) = StandIn::new(&format!("echo '{UP}'; read job; {panics}")) else { return };
    qemu.fails_with(&told, 60);
}

#[test]
fn a_guest_whose_image_cannot_be_unpacked_is_not_waited_for() {
    let Some(qemu) = StandIn::new("echo ' -- System halted' > \"$console\"; exec sleep 300") else { return };
    qemu.fails_with(&["the guest's kernel has halted", "-- System halted"], 60);
}

#[test]
fn a_guest_that_speaks_nonsense_is_ended() {
    let Some(qemu) = StandIn::new("echo hello; exec sleep 300") else { return };
    qemu.fails_with(&["its answer cannot be read"], 60);
}

#[test]
fn what_qemu_says_when_it_does_not_start_is_shown() {
    let Some(qemu) = StandIn::new("echo cannot set up guest memory >&2; exit 1") else { return };
    qemu.fails_with(&["the guest ended", "cannot set up guest memory"], 60);
}

#[test]
fn an_interrupt_while_a_guest_starts_ends_it_at_once() {
    let Some(qemu) = StandIn::new("exec sleep 300") else { return };
    let mut child = qemu.small().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !qemu.folder.path().join("pids").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "no guest was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let began = Instant::now();
    // A shell makes commands in the background ignore SIGINT. Tests may run there, so SIGTERM is sent.
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert!(status.code() == Some(130) && began.elapsed() < Duration::from_secs(5), "{status:?}");
    qemu.check_left();
}

#[test]
fn a_folder_without_the_modules_of_an_image_is_wrong_usage() {
    let Some(qemu) = StandIn::new("exit 1") else { return };
    let empty = tempfile::tempdir().unwrap();
    let output = qemu.small().arg("--kernel-modules").arg(empty.path()).output().unwrap();
    let told = text(&output);
    assert!(output.status.code() == Some(2) && told.contains("no modules of 6.1.0-none are there"), "{told}");
    assert!(is_empty(qemu.files.path()));
}

#[test]
fn truth_refuses_what_it_does_not_know_and_says_what_there_is() {
    let output = highwater().args(["truth", "reads", "--kernel-image", "/none/such"]).output().unwrap();
    let told = text(&output);
    assert!(output.status.code() == Some(2) && told.contains("no load is called `reads`"), "{told}");
    assert!(told.contains("reads-zipf"), "{told}");
    if has_qemu() {
        let output = highwater().args(["truth", "--kernel-image", "/none/such"]).output().unwrap();
        assert!(output.status.code() == Some(2) && text(&output).contains("/none/such"), "{}", text(&output));
    }
}
