//! The grounds: what an experiment may run on. `grounds` says what each does with a job.
//! Those of real time need the feature `linux`.

use std::fmt;
use std::path::PathBuf;

/// The ground that an experiment runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// A simulated machine, in virtual time.
    #[default]
    Sim,
    /// The engine on real memory, threads and files of a process of its own.
    Host,
    /// The kernel that this computer runs, with a process limited by a cgroup.
    Linux,
}

impl Ground {
    /// Does it take real time? Then what runs beside it matters, and no two runs are alike.
    #[must_use]
    pub fn is_timed_by_the_wall(self) -> bool {
        match self {
            Self::Sim => false,
            Self::Host | Self::Linux => true,
        }
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Host => "host",
            Self::Linux => "linux",
        })
    }
}

/// Where and how the grounds of real time run.
#[derive(Clone, Debug)]
pub struct Place {
    /// Files lie in a fresh folder of this one.
    pub folder: PathBuf,
    /// Is memory limited on `linux`? If not, its pages are those of the whole computer.
    pub is_limited: bool,
    /// Does `linux` get a swap file for the time of a run?
    pub makes_swap: bool,
    /// The command that runs a job in a process of its own.
    pub program: PathBuf,
}

impl Default for Place {
    fn default() -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| "highwater".into());
        Self { folder: std::env::temp_dir(), is_limited: true, makes_swap: false, program }
    }
}
