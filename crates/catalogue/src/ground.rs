//! The grounds, which are the environments in which an experiment may run. The crate `grounds` implements them. All but
//! the simulator run in real time and need the feature `linux`.

use figures::cgroup::Version;
use std::fmt;
use std::path::PathBuf;

/// The ground: the environment in which an experiment runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// A simulated machine, in virtual time.
    #[default]
    Sim,
    /// The engine on real memory, threads and files, in a process of its own.
    Host,
    /// The kernel of this computer. The workload runs in a process whose memory a cgroup can limit.
    Linux,
    /// A kernel image in a virtual machine that has the memory, CPUs and disks of the machine file.
    Guest,
}

impl Ground {
    /// Returns whether a run on the ground takes real time. Other load on the computer then affects it, and no two runs
    /// are equal.
    #[must_use]
    pub fn is_timed_by_the_wall(self) -> bool {
        match self {
            Self::Sim => false,
            Self::Host | Self::Linux | Self::Guest => true,
        }
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Host => "host",
            Self::Linux => "linux",
            Self::Guest => "guest",
        })
    }
}

/// Options for the grounds that run in real time: `host`, `linux` and `guest`.
#[derive(Clone, Debug)]
pub struct GroundOptions {
    /// The folder in which a run makes a fresh folder for its files.
    pub folder: PathBuf,
    /// True if the ground `linux` limits memory. Without a limit a run may use all pages of the computer.
    pub is_limited: bool,
    /// True if the ground `linux` makes a swap file for the duration of a run.
    pub makes_swap: bool,
    /// Kernel images for the ground `guest`. Each image gets a column in the report.
    pub kernel_images: Vec<PathBuf>,
    /// The folder of kernel modules for the kernel images. By default modules are searched near each image and on this
    /// computer.
    pub kernel_modules: Option<PathBuf>,
    /// The way in which the guests that boot the kernel images are started.
    pub start: Start,
    /// The program file of `highwater`, to be started once more for a job that needs its own process or virtual
    /// machine.
    pub program: PathBuf,
}

/// The way in which a guest is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Words to append to the kernel's command line.
    pub append: String,
    /// Version of the cgroup that limits the workload's memory in the guest, if the machine file has a limit.
    pub cgroup: Version,
    /// True if a guest is emulated with a clock that advances by one nanosecond for each instruction.
    pub counts_instructions: bool,
}

impl Default for Start {
    fn default() -> Self {
        Self { append: String::new(), cgroup: Version::V2, counts_instructions: false }
    }
}

impl Default for GroundOptions {
    fn default() -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| "highwater".into());
        Self {
            folder: std::env::temp_dir(),
            is_limited: true,
            makes_swap: false,
            kernel_images: Vec::new(),
            kernel_modules: None,
            start: Start::default(),
            program,
        }
    }
}
