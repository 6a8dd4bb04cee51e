//! The ground `guest`: kernel images in virtual machines.
//!
//! What boots needs QEMU and an image, in `HIGHWATER_KERNEL_IMAGE`; where one is missing, these tests say so and skip.

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

fn image() -> Option<PathBuf> {
    let image = std::env::var_os("HIGHWATER_KERNEL_IMAGE").map(PathBuf::from).filter(|_| has_qemu());
    if image.is_none() {
        println!("skipped: HIGHWATER_KERNEL_IMAGE names no kernel image");
    }
    image
}

/// Returns a command that runs a small job on an image, with its files in `folder`.
fn small(image: &Path, folder: &Path) -> Command {
    let mut command = highwater();
    command.args(["run", "randread", "--on", "guest", "--scale", "1/4", "--all", "--format", "csv"]);
    command.args(["--set", "params.operations=4000", "--kernel-image"]).arg(image).arg("--dir").arg(folder);
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
fn a_workload_runs_on_a_kernel_image_and_leaves_nothing() {
    let Some(image) = image() else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = small(&image, folder.path()).output().unwrap();
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    let value = |name: &str| {
        let line =
            told.lines().find(|line| line.contains(&format!("{name},"))).unwrap_or_else(|| panic!("{name}: {told}"));
        line.split(',').nth(5).and_then(|word| word.parse::<f64>().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    // 64,000 reads of a file of four times memory, most of which miss.
    assert!(value("pgsteal_kswapd") > 1000.0, "{told}");
    assert!(is_empty(folder.path()), "its disks are gone");
}

#[test]
fn a_guest_without_its_disk_says_so_with_its_console() {
    let Some(image) = image() else { return };
    let (folder, modules) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(modules.path().join("kernel")).unwrap();
    // All that is needed is built in, this says, and it is not.
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
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success() && began.elapsed() < Duration::from_secs(90), "{status:?}");
    assert!(is_empty(folder.path()), "its disks are gone");
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
