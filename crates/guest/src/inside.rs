//! The first process in a guest. It is this same program, started by the guest's kernel.
//!
//! The process begins in the archive: it mounts the file systems that programs need, loads the modules, and copies
//! itself to the disk. It moves to the disk, and removes the archive, because reclaim could not free the archive's
//! pages. Then it executes itself again. After that, it makes the settings, adds swap, drops the caches, reports the
//! state of the guest, and starts the worker. When the worker has ended, the process ends the machine.

use crate::disk;
use crate::zoneinfo::{self, Zone};
use figures::cgroup::Version;
use machine::PAGE_BYTES;
use rustix::fs::sync;
use rustix::mm::{Advice, MlockAllFlags, madvise, mlockall};
use rustix::mount::{MountFlags, mount, mount_move};
use rustix::process::{chdir, chroot};
use rustix::system::{RebootCommand, init_module, reboot};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The file through which the kernel is told to drop caches: a 1 written to it drops the page cache, a 2 drops
/// reclaimable objects, and a 3 drops both.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// The path of this program in the guest.
pub const PROGRAM: &str = "/highwater";

/// The file in the guest that contains the [`Plan`], which tells the guest's first process what to do.
pub const PLAN: &str = "/plan.json";

/// The folder in a guest's first file system (the archive) that holds kernel modules. Each module is a file `NN-NAME`,
/// where NN gives the order of loading.
pub const MODULES: &str = "/modules";

/// The folder in the guest for the files of the workload.
pub const FILES: &str = "/files";

/// The path in the guest of the file that a workload reads, if it reads one.
pub const GIVEN: &str = "/given";

/// The name of the virtual serial port that connects the guest with the program outside of the guest.
pub const PORT: &str = "highwater";

/// The first characters of a console line that says why the guest cannot continue.
pub const CANNOT: &str = "highwater: ";

/// The folder of the root group of cgroups of version 2.
pub const HIERARCHY: &str = "/sys/fs/cgroup";

/// The devices of a guest's two disks: [`DISK`] has the file system, and [`SWAP`] is the swap area.
const DISK: &str = "/dev/vda";
const SWAP: &str = "/dev/vdb";

/// Files for swap in compressed memory: the device [`ZRAM`], the file [`ZRAM_SIZE`] that sets its size, and the file
/// [`ZRAM_STATE`] that shows its state.
const ZRAM: &str = "/dev/zram0";
const ZRAM_SIZE: &str = "/sys/block/zram0/disksize";
const ZRAM_STATE: &str = "/sys/block/zram0/mm_stat";

/// The argument with which a guest's first process executes its program anew, after it has moved the program from the
/// archive to the disk.
const MOVED: &str = "in-guest";

/// Time for which a guest waits after it has dropped caches, because the kernel frees a part of the dropped caches a
/// little later.
const SETTLES_IN: Duration = Duration::from_secs(1);

/// The longest wait for a device to appear.
const DEVICE_WAIT: Duration = Duration::from_secs(30);

/// The description of what a guest's first process must do. The program outside of the guest writes it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Plan {
    /// Settings of the guest's kernel. The first process makes them in this order.
    pub settings: Vec<Setting>,
    /// The kind and size of swap to set up.
    pub swap: Swap,
    /// Limit of the worker's memory, bytes, and the version of the cgroup that enforces it; `None` if there is no
    /// limit.
    pub limit: Option<(u64, Version)>,
    /// Command-line arguments of the worker, the process that runs the workload.
    pub worker: Vec<String>,
}

/// The kind of swap that a guest uses, with its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Swap {
    /// No swap.
    #[default]
    None,
    /// Swap on a disk.
    Disk {
        /// Number of pages of swap.
        pages: u64,
    },
    /// Swap in compressed memory.
    Zram {
        /// Number of pages of swap.
        pages: u64,
    },
}

/// A setting of the kernel: a file of `/proc/sys` or `/sys`, and the value that is written to it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Setting {
    /// Path of the file of `/proc/sys` or `/sys` to which the value is written.
    pub path: String,
    /// The value that is written to the file.
    pub value: String,
    /// The key of a kernel file of Highwater that corresponds to the setting, such as `lru.swappiness`. Reports show
    /// this key.
    pub name: String,
}

/// The state of a guest, which the guest reports before the worker starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct State {
    /// The release of the guest's kernel.
    pub release: String,
    /// The zones that have pages.
    pub zones: Vec<Zone>,
    /// Number of managed pages that reclaim cannot free: pages that are neither free (on lists of zones or of CPUs) nor
    /// on an evictable LRU list. They are the kernel's own pages, including reclaimable objects that a drop of caches
    /// has left, and the pages of this program.
    pub kernel_pages: u64,
    /// Names of settings that the kernel lacks or refuses, each with the cause.
    pub lacks: Vec<String>,
}

impl State {
    /// Returns the number of managed pages of all zones.
    #[must_use]
    pub fn managed_pages(&self) -> u64 {
        self.zones.iter().map(|zone| zone.managed).sum()
    }
}

/// A line that the first process writes to the serial port for the program outside of the guest. The worker, the
/// process that runs the workload, writes lines of another type.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The guest is ready, and the worker, which runs the workload, is about to start.
    Up(State),
    /// The worker, which runs the workload, failed and gave no reason itself. The text is the reason that the first
    /// process found.
    Failed(String),
}

/// Keeps this program in memory, so that reclaim finds only pages of the workload. Locks each page of the program when
/// it is first used. Turns readahead off for the program's files, so that no unused pages come into memory.
///
/// Machine files count the locked pages as the kernel's own memory. If the kernel refuses to lock, reclaim may free the
/// program's pages.
pub fn keep_program() {
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for range in maps.lines().filter_map(range_of_file) {
        // SAFETY: the advice changes only when pages of a file are read, not contents or mappings. If another thread
        // has mapped something else at these addresses meanwhile, the advice applies to that mapping.
        let _ = unsafe { madvise(std::ptr::without_provenance_mut(range.start), range.len(), Advice::Random) };
    }
    // Drops pages that were read ahead before the advice and were not used.
    let _ = fs::write(DROP_CACHES, "1");
}

/// Returns the range of addresses in a line of `/proc/PID/maps`; `None` if no file is mapped there.
fn range_of_file(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_file = words.nth(4)?.starts_with('/');
    let address = |text| usize::from_str_radix(text, 16).ok();
    is_file.then_some(address(start)?..address(end)?)
}

/// If this is the first process of a guest, does the work of that process and ends the virtual machine. Otherwise
/// returns at once.
pub fn act_if_first() {
    if std::process::id() != 1 || !Path::new(PLAN).exists() {
        return;
    }
    let is_moved = std::env::args_os().nth(1).is_some_and(|word| word == MOVED);
    let result = if is_moved { work() } else { move_to_disk() };
    if let Err(error) = result {
        eprintln!("{CANNOT}{error}");
    }
    sync();
    // If the power-off fails, the end of the first process makes the kernel panic, which ends the machine.
    let _ = reboot(RebootCommand::PowerOff);
}

fn move_to_disk() -> Result<(), String> {
    mount_all(&[("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")])?;
    let mut modules: Vec<PathBuf> = fs::read_dir(MODULES).into_iter().flatten().flatten().map(|it| it.path()).collect();
    modules.sort();
    for path in &modules {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        match init_module(&bytes, c"") {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => eprintln!("{}: {error}", path.display()),
        }
    }
    wait_for(DISK, "the disk (driver virtio_blk)")?;
    let (flags, root) = (MountFlags::NOATIME, Path::new("/disk"));
    // The inode tables are zeroes already, so the kernel need not write them.
    mount(DISK, root, "ext4", flags, Some(c"noinit_itable"))
        .map_err(|error| format!("the disk cannot be mounted (file system ext4): {error}"))?;
    let told = |error: io::Error| format!("cannot move to the disk: {error}");
    for folder in ["proc", "sys", "dev", "files"] {
        fs::create_dir_all(root.join(folder)).map_err(told)?;
    }
    let mut files = vec![PROGRAM.into(), PLAN.into()];
    for folder in ["/lib", "/lib64"] {
        files.extend(fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()));
    }
    for path in &files {
        let to = root.join(path.strip_prefix("/").unwrap_or(path));
        to.parent().map_or(Ok(()), fs::create_dir_all).map_err(told)?;
        fs::copy(path, &to).map_err(told)?;
    }
    files.iter().chain(&modules).for_each(|path| drop(fs::remove_file(path)));
    for folder in ["/proc", "/sys", "/dev"] {
        mount_move(folder, root.join(&folder[1..])).map_err(|error| told(error.into()))?;
    }
    chdir(root).and_then(|()| mount_move(root, "/")).map_err(|error| told(error.into()))?;
    chroot(".").and_then(|()| chdir("/")).map_err(|error| told(error.into()))?;
    Err(told(Command::new(PROGRAM).arg(MOVED).exec()))
}

fn work() -> Result<(), String> {
    keep_program();
    let plan = fs::read(PLAN).map_err(|error| error.to_string())?;
    let plan: Plan = serde_json::from_slice(&plan).map_err(|error| format!("{PLAN}: {error}"))?;
    let mut port = wait_for_port()?;
    // Only some workloads need these file systems, and a kernel may lack either.
    let _ = mount_all(&[("cgroup2", "/sys/fs/cgroup"), ("debugfs", "/sys/kernel/debug")]);
    let mut lacks = Vec::new();
    for Setting { path, value, name } in &plan.settings {
        if let Err(error) = fs::write(path, value) {
            let why = if error.kind() == io::ErrorKind::NotFound { "it has none".into() } else { error.to_string() };
            lacks.push(format!("{name} ({why})"));
        }
    }
    let area = match plan.swap {
        Swap::None => None,
        Swap::Disk { .. } => {
            wait_for(SWAP, "the disk for swap")?;
            Some(SWAP)
        }
        Swap::Zram { pages } => {
            make_zram(pages)?;
            Some(ZRAM)
        }
    };
    if let Some(area) = area {
        computer::sys::swap_on(Path::new(area)).map_err(|error| format!("no swap: {error}"))?;
    }
    sync();
    fs::write(DROP_CACHES, "3").map_err(|error| format!("drop_caches: {error}"))?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    // Dropped objects are freed a little later, after RCU grace periods.
    thread::sleep(SETTLES_IN);
    let zones = zoneinfo::read(&read("/proc/zoneinfo"));
    let others = pages_of_reclaim(&read("/proc/vmstat")) + zones.iter().map(|zone| zone.of_cpus).sum::<u64>();
    let mut state = State { release, zones, lacks, ..State::default() };
    state.kernel_pages = state.managed_pages().saturating_sub(others);
    tell(&mut port, &Line::Up(state))?;
    let mut worker = Command::new(PROGRAM);
    if let Some((bytes, version)) = plan.limit {
        let number = version.number();
        limit(bytes, version).map_err(|error| format!("no cgroup of version {number} can be made: {error}"))?;
        computer::sys::start_in(&mut worker, Path::new(cgroup(version)).join("cgroup.procs"));
    }
    let clones = port.try_clone().and_then(|input| Ok((input, port.try_clone()?)));
    let (input, output) = clones.map_err(|error| format!("the port: {error}"))?;
    let status = worker.args(&plan.worker).current_dir(FILES).stdin(input).stdout(output).status();
    let status = status.map_err(|error| format!("cannot start the worker: {error}"))?;
    let why = match (status.signal(), status.code()) {
        (_, Some(0)) => return Ok(()),
        (Some(KILL), _) => "killed for want of memory, by the guest's kernel".to_owned(),
        (Some(signal), _) => format!("signal {signal} ended the process in the guest"),
        (None, code) => format!("the process in the guest ended with status {}", code.unwrap_or_default()),
    };
    tell(&mut port, &Line::Failed(why))
}

/// Returns the largest number of pages of memory that compressed swap has ever taken; `None` if there is no compressed
/// swap.
#[must_use]
pub fn zram_pages_max() -> Option<u64> {
    let state = fs::read_to_string(ZRAM_STATE).ok()?;
    // The first fields of `mm_stat` are the original size, the compressed size, the used memory, its limit, and the
    // most memory ever used.
    let most: u64 = state.split_whitespace().nth(4)?.parse().ok()?;
    Some(most / PAGE_BYTES as u64)
}

/// Prepares a zram device (compressed memory) as swap space for `pages` pages. The compression algorithm is the
/// kernel's default.
fn make_zram(pages: u64) -> Result<(), String> {
    wait_for(ZRAM_SIZE, "compressed memory for swap (driver zram)")?;
    let bytes = (pages + 1) * PAGE_BYTES as u64;
    let made = fs::write(ZRAM_SIZE, bytes.to_string())
        .and_then(|()| OpenOptions::new().write(true).open(ZRAM))
        .and_then(|device| disk::write_swap_header(&device, pages));
    made.map_err(|error| format!("compressed memory for swap: {error}"))
}

/// Returns the folder of the cgroup that limits the memory of the worker, the process that runs the workload.
#[must_use]
pub const fn cgroup(version: Version) -> &'static str {
    match version {
        Version::V1 => "/cgroup/work",
        Version::V2 => "/sys/fs/cgroup/work",
    }
}

/// Makes a cgroup with a memory limit of `bytes` bytes for the worker, the process that runs the workload.
fn limit(bytes: u64, version: Version) -> io::Result<()> {
    let folder = Path::new(cgroup(version));
    let file = match version {
        Version::V1 => {
            let root = folder.parent().unwrap_or(folder);
            fs::create_dir(root)?;
            mount("cgroup", root, "cgroup", MountFlags::empty(), Some(c"memory"))?;
            "memory.limit_in_bytes"
        }
        Version::V2 => {
            fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")?;
            "memory.max"
        }
    };
    fs::create_dir(folder)?;
    fs::write(folder.join(file), bytes.to_string())
}

/// The number of SIGKILL.
const KILL: i32 = 9;

fn tell(port: &mut File, line: &Line) -> Result<(), String> {
    let line = serde_json::to_string(line).map_err(|error| error.to_string())?;
    writeln!(port, "{line}").map_err(|error| format!("the port: {error}"))
}

fn mount_all(mounts: &[(&str, &str)]) -> Result<(), String> {
    mounts.iter().try_for_each(|(kind, folder)| {
        fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
        mount(*kind, *folder, *kind, MountFlags::empty(), None).map_err(|error| format!("{folder}: {error}"))
    })
}

/// Waits until the file `path` of a device exists. `what` names the device in the error.
fn wait_for(path: &str, what: &str) -> Result<(), String> {
    wait_until(|| Path::new(path).exists().then_some(())).ok_or_else(|| format!("{what} does not appear as {path}"))
}

/// Waits until the serial port with the name [`PORT`] exists, and opens it.
fn wait_for_port() -> Result<File, String> {
    let find = || {
        let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
        let is_it = |port: &PathBuf| fs::read_to_string(port.join("name")).is_ok_and(|name| name.trim() == PORT);
        let port = ports.map(|entry| entry.path()).find(is_it)?;
        let path = Path::new("/dev").join(port.file_name()?);
        OpenOptions::new().read(true).write(true).open(path).ok()
    };
    wait_until(find).ok_or_else(|| "the port does not appear (driver virtio_console)".into())
}

fn wait_until<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = find();
        if found.is_some() || began.elapsed() > DEVICE_WAIT {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of pages that are free or on an evictable LRU list, from the text of `/proc/vmstat`.
fn pages_of_reclaim(vmstat: &str) -> u64 {
    const GAUGES: [&str; 5] =
        ["nr_free_pages", "nr_inactive_anon", "nr_active_anon", "nr_inactive_file", "nr_active_file"];
    let values = vmstat.lines().filter_map(|line| line.split_once(' '));
    let values = values.filter(|(name, _)| GAUGES.contains(name));
    values.filter_map(|(_, value)| value.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_mapped_files_are_read() {
        let file = "7f5c1a000000-7f5c1a028000 r-xp 00002000 fe:00 131 /highwater";
        assert_eq!(range_of_file(file), Some(0x7f5c_1a00_0000..0x7f5c_1a02_8000));
        for other in
            ["7ffd8a5e1000-7ffd8a602000 rw-p 00000000 00:00 0 [stack]", "5581-5582 rw-p 00000000 00:00 0", "", "x"]
        {
            assert_eq!(range_of_file(other), None, "{other}");
        }
    }

    #[test]
    fn pages_of_reclaim_are_free_or_on_its_lists() {
        let vmstat = "nr_free_pages 100\nnr_zone_inactive_file 7\nnr_inactive_file 7\nnr_slab_unreclaimable 9\n";
        assert_eq!(pages_of_reclaim(vmstat), 107);
    }
}
