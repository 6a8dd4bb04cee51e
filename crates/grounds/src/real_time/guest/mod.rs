//! The ground `guest`: a kernel image in a virtual machine (crate `guest`), which has the memory, CPUs, disks and swap
//! of the machine file, and the settings of the kernel file.
//!
//! In the guest, this program runs as the first process, and a second time as the worker, which runs the workload. The
//! worker reads a [`Described`] job from the serial port. It answers with the same lines as the process of a job on
//! `linux` ([`super::apart`]).

mod beyond;
mod known;
mod memory;
mod run;
mod settings;

use super::records::Records;
use super::{fits, outcome_of, room};
use crate::backend::Backend;
use crate::groups;
use crate::job::{Described, Failure, Job, NamedJob, Outcome, Runnable};
use crate::load::{Load, Needs};
use crate::system::linux::LinuxSystem;
use crate::system::linux::groups::Groups;
use catalogue::ground::{Ground, GroundOptions};
use catalogue::versions;
use computer::counters::Counters;
use figures::cgroup::Cgroup;
use figures::nodes;
use guest::image::Image;
use guest::modules::Modules;
use guest::vm::Accelerator;
use guest::{inside, vm};
use kit::progress::Progress;
use machine::{Nanos, PAGE_BYTES};
use std::io;
use std::path::Path;
use workloads::system::contents::Kept;
use workloads::system::{Given, SystemError};
use workloads::workload::Resources;

pub use guest::inside::act_if_first;

/// Hidden subcommand with which this program is started as the worker of a guest, the process that runs the workload.
const VERB: &str = "in-guest-work";

/// The first release that has the multi-generational LRU.
const FIRST_WITH_GENERATIONS: versions::Version = (6, 1);

/// The ground `guest`: workloads on a kernel in a virtual machine.
#[derive(Debug)]
pub struct Guest;

impl Backend for Guest {
    const GROUND: Ground = Ground::Guest;

    type System = LinuxSystem;

    fn fitting_kernels(place: &GroundOptions) -> Vec<&'static str> {
        let image = place.kernel_images.first().and_then(|path| Image::open(path).ok());
        image.and_then(|image| image.version()).map_or_else(Vec::new, fitting)
    }

    fn device_pages(place: &GroundOptions) -> Option<u64> {
        room(&place.folder)
    }

    fn ready(place: &GroundOptions, memory_bytes: u64) -> Result<(), String> {
        if place.kernel_images.is_empty() {
            return Err("it needs a kernel: --kernel-image FILE, see `highwater guest check`".into());
        }
        vm::qemu_version()?;
        guest::disk::check_tools()?;
        for path in &place.kernel_images {
            let (image, modules) = found(path, place)?;
            vm::check_drivers(&image, modules.as_ref())?;
        }
        let free = computer::counters::available_bytes();
        match free.filter(|free| *free < memory_bytes) {
            Some(free) => {
                let [needed, free] = [memory_bytes, free].map(|bytes| bytes >> 20);
                Err(format!(
                    "the machine has {needed} MiB, and this computer {free} MiB to spare; --scale makes it smaller"
                ))
            }
            None => Ok(()),
        }
    }

    fn resources(job: &Job) -> Result<Resources, Failure> {
        Ok(Resources { memory_pages: job.memory_pages(), used_pages: 0, swap_pages: job.swap_pages() })
    }

    fn check(job: &Job, needs: &dyn Needs) -> Result<(), Failure> {
        groups::check(&job.machine.name, &job.machine.groups, &needs.groups()).map_err(Failure)?;
        let told = |why| Failure(format!("ground `{}`: {why}", Ground::Guest));
        let mut of_version_1 = job.machine.groups.iter().filter_map(|group| Some((group, group.key_of_version_1()?)));
        if let Some((group, key)) = of_version_1.next() {
            let why = format!("`{key}` is of version 1, and the groups of a guest are of version 2");
            return Err(told(format!("group `{}`: {why}", group.name)));
        }
        if !job.machine.groups.is_empty() && job.layout().group_version.is_v1() {
            return Err(told(
                "`group_version` is that of version 1, and the groups of a guest are of version 2".to_owned(),
            ));
        }
        fits(needs, job, &Self::resources(job)?).map_err(told)
    }

    fn run(_: &Job, _: Load<LinuxSystem>, _: &Progress) -> Result<Outcome, Failure> {
        Err(Failure(format!("ground `{}` runs in a machine of its own only", Ground::Guest)))
    }

    fn carry_out(
        workload: &dyn Runnable,
        job: &Job,
        _: &NamedJob,
        place: &GroundOptions,
        progress: &Progress,
    ) -> Result<Outcome, Failure> {
        run::run(workload, job, place, progress)
    }
}

/// Returns the names of the kernel files nearest to a version of Linux: one file without the multi-generational LRU
/// and, if the version has it, one file with it.
fn fitting(version: versions::Version) -> Vec<&'static str> {
    let mut kernels = vec![versions::nearest(version, false)];
    kernels.extend((version >= FIRST_WITH_GENERATIONS).then(|| versions::nearest(version, true)));
    kernels
}

/// Checks each part that a guest needs. Returns for each part a line that describes it or, as an error, a line that
/// says what is missing. All lines are in words for the user.
#[must_use]
pub fn check(place: &GroundOptions) -> Vec<Result<String, String>> {
    let mut parts = vec![
        vm::qemu_version().map(|version| version.trim().to_owned()),
        guest::disk::check_tools().map(|()| "mkfs.ext4, which makes the guest's disk".to_owned()),
    ];
    if place.kernel_images.is_empty() {
        let running = format!("/boot/vmlinuz-{}", computer::counters::release());
        let hint = if Path::new(&running).exists() {
            format!(": --kernel-image {running} is that of this computer")
        } else {
            String::new()
        };
        parts.push(Err(format!("a kernel{hint}; docs/guest.md says where others are to be had")));
    }
    for path in &place.kernel_images {
        match found(path, place) {
            Ok((image, modules)) => parts.extend(parts_of(&image, modules.as_ref())),
            Err(why) => parts.push(Err(why)),
        }
    }
    parts
}

/// Returns lines about a kernel image: the release and the amount of memory that the kernel itself needs; the folder of
/// its modules (an error if a needed driver is missing); and whether KVM boots it.
fn parts_of(image: &Image, modules: Option<&Modules>) -> Vec<Result<String, String>> {
    let (path, release) = (image.path.display(), &image.release);
    let mut parts =
        vec![Ok(format!("{path}: kernel {release}, {} MiB of memory for itself", image.needed_bytes >> 20))];
    match modules {
        None => parts.push(Ok(format!(
            "no modules of {release}: it must have built in {}, or --kernel-modules names their folder",
            guest::modules::NEEDED.join(", ")
        ))),
        Some(modules) => parts.push(
            vm::check_drivers(image, Some(modules)).map(|()| format!("its drivers, in {}", modules.folder.display())),
        ),
    }
    parts.push(Ok(match Accelerator::of_this_computer(image) {
        Accelerator::Kvm => "KVM: times are those of this computer".to_owned(),
        Accelerator::Emulation | Accelerator::Counted => {
            "no KVM that boots it: emulation, 10 to 50 times slower; counts are the kernel's, times are not".to_owned()
        }
    }));
    parts
}

/// Opens the kernel image in the file `path`, and finds the modules of its release. The modules are `None` if the user
/// named no folder of modules, and none was found.
///
/// # Errors
/// When the file is no kernel image, or when the folder that the user named (`--kernel-modules`) has no modules of the
/// image's release. The error is a message for the user.
fn found(path: &Path, place: &GroundOptions) -> Result<(Image, Option<Modules>), String> {
    let image = Image::open(path)?;
    let modules = Modules::find(path, &image.release, place.kernel_modules.as_deref());
    match (&place.kernel_modules, &modules) {
        (Some(folder), None) => {
            let folder = folder.display();
            Err(format!("--kernel-modules {folder}: no modules of {} are there, in a folder `kernel`", image.release))
        }
        _ => Ok((image, modules)),
    }
}

/// Runs a job in the guest to which it was sent, and returns the outcome. This process runs in the guest, on the
/// guest's kernel.
///
/// # Errors
/// When the guest lacks what the job needs, or the workload fails.
pub fn run_described(job: &Described, load: Load<LinuxSystem>, progress: &Progress) -> Result<Outcome, Failure> {
    let given = Given { seed: job.seed, scale: job.scale.parse()?, progress: progress.clone() };
    let told = |error: SystemError| Failure(error.0);
    let cgroup = job.cgroup.map(|version| Cgroup { path: inside::cgroup(version).into(), version });
    let counters = Counters::new(cgroup.clone());
    let kept = job.compressed_percent.map_or(Kept::Bytes, |percent| {
        Kept::First((percent * PAGE_BYTES as u32 / 100).clamp(8, PAGE_BYTES as u32) as u16)
    });
    let system = LinuxSystem::new(inside::FILES.into(), job.memory_pages, counters, given, kept).map_err(told)?;
    let scale = job.scale.parse()?;
    let system = match job.groups.as_slice() {
        [] => system,
        groups => {
            let made = Groups::create(Path::new(inside::HIERARCHY), groups, scale).map_err(told)?;
            system.with_groups(made).map_err(told)?
        }
    };
    let records = Records {
        series: job.series_every,
        more: Some(Box::new(move |values| known::add(values, cgroup.as_ref()))),
        groups: job.groups.iter().map(|group| group.name.clone()).collect(),
        generations: job.generations_every_ns.map(Nanos),
        memory: job.memory_every_ns.map(|every| (Nanos(every), memory::now as _)),
    };
    let mut outcome = outcome_of(&system, load.body, records).map_err(told)?;
    let of_zram = |pages| format!("swap is compressed memory (zram), which took at most {pages} pages of memory");
    outcome.notes.extend(inside::zram_pages_max().map(of_zram));
    let rows = outcome.rows.into_iter().chain(system.group_rows()).chain(nodes::rows(&known::nodes())).collect();
    Ok(Outcome { rows, ..outcome })
}

/// If this process was started as the worker of a guest (the process that runs the workload), runs the job that comes
/// through the serial port. Returns `None` in any other process.
///
/// # Errors
/// When the job cannot be read, or the answer cannot be written.
pub fn work_if_told(find: impl Fn(&str) -> Option<&'static dyn Runnable>) -> Option<io::Result<()>> {
    let work = |job: Described, progress: &Progress| {
        let workload = find(&job.workload);
        let workload = workload.ok_or_else(|| Failure(format!("no workload is called `{}`", job.workload)))?;
        workload.run_described(&job, progress)
    };
    std::env::args_os().skip(1).eq([VERB]).then(|| {
        inside::keep_program();
        super::apart::answer_to(work)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_held_against_the_files_of_its_release() {
        assert_eq!(fitting((5, 10)), ["5.10"]);
        assert_eq!(fitting((6, 1)), ["6.1-classic", "6.1-mglru"]);
        assert_eq!(fitting((6, 12)), ["6.12-classic", "6.12-mglru"]);
        assert_eq!(fitting((7, 2)), ["6.18-classic", "7.2-mglru"]);
    }
}
