//! Replacement for `real_time` in builds without the feature `linux`: refuses the grounds `host`, `linux` and `guest`.

use crate::backend::Backend;
use crate::job::{Failure, Job, NamedJob, Outcome, Runnable};
use crate::load::{Load, Needs};
use crate::system::sim::SimSystem;
use catalogue::ground::{Ground, GroundOptions};
use kit::progress::Progress;
use workloads::workload::Resources;

/// A ground (system on which workloads run) that this build does not have, because the ground needs the feature
/// `linux`.
pub trait Missing {
    /// The ground's name.
    const GROUND: Ground;

    /// Returns a text for the user that says what this build lacks.
    #[must_use]
    fn why() -> String {
        format!("this `highwater` was built without the feature `linux`, which the ground `{}` needs", Self::GROUND)
    }
}

impl<M: Missing> Backend for M {
    const GROUND: Ground = <M as Missing>::GROUND;

    /// A stand-in: no workload runs on it.
    type System = SimSystem;

    fn ready(_: &GroundOptions, _: u64) -> Result<(), String> {
        Err(M::why())
    }

    fn resources(_: &Job) -> Result<Resources, Failure> {
        Err(Failure(M::why()))
    }

    fn check(_: &Job, _: &dyn Needs) -> Result<(), Failure> {
        Err(Failure(M::why()))
    }

    fn run(_: &Job, _: Load<SimSystem>, _: &Progress) -> Result<Outcome, Failure> {
        Err(Failure(M::why()))
    }

    fn carry_out(_: &dyn Runnable, _: &Job, _: &NamedJob, _: &GroundOptions, _: &Progress) -> Result<Outcome, Failure> {
        Err(Failure(M::why()))
    }
}

/// Replaces the module of the ground `host` in builds without the feature `linux`, and refuses the ground's jobs.
pub mod host {
    use super::{Ground, Missing};

    /// The ground `host`, which this build lacks.
    #[derive(Debug)]
    pub struct Host;

    impl Missing for Host {
        const GROUND: Ground = Ground::Host;
    }
}

/// Replacement for the module of the ground `linux`: refuses every job for this ground.
pub mod linux {
    use super::{Ground, Missing};

    /// The ground `linux`, which this build lacks.
    #[derive(Debug)]
    pub struct Linux;

    impl Missing for Linux {
        const GROUND: Ground = Ground::Linux;
    }
}

/// Replacement for the module of the ground `guest`: refuses every job for this ground.
pub mod guest {
    use super::{Failure, Ground, Load, Missing, Outcome, Progress, SimSystem};
    use crate::job::{Described, Runnable};
    use std::io;

    /// The ground `guest`, which this build lacks.
    #[derive(Debug)]
    pub struct Guest;

    impl Missing for Guest {
        const GROUND: Ground = Ground::Guest;
    }

    /// Refuses the job, because this build has no guests.
    ///
    /// # Errors
    /// Always.
    pub fn run_described(_: &Described, _: Load<SimSystem>, _: &Progress) -> Result<Outcome, Failure> {
        Err(Failure(Guest::why()))
    }

    /// Returns at once, because this build never runs as the first process of a guest.
    pub fn act_if_first() {}

    /// Returns `None`, because this build never runs in a guest.
    pub fn work_if_told(_: impl Fn(&str) -> Option<&'static dyn Runnable>) -> Option<io::Result<()>> {
        None
    }
}

/// Replacement for the module that runs each job in a process of its own. This build starts no such process.
pub mod apart {
    use super::Runnable;
    use std::io;

    /// Returns `None`, because this build is never started as the process that runs one job.
    pub fn work_if_told(_: impl Fn(&str) -> Option<&'static dyn Runnable>) -> Option<io::Result<()>> {
        None
    }
}

/// Replaces the module that measures how fast file pages in memory are read, in builds without the feature `linux`.
pub mod hits {
    use crate::job::Failure;
    use figures::figure::Row;
    use std::path::Path;

    /// Replaces the type for the files whose pages are read. Builds without the feature `linux` have no such files.
    #[derive(Debug)]
    pub struct Hits;

    impl Hits {
        /// Returns a value without files, because this build cannot measure how fast file pages in memory are read.
        ///
        /// # Errors
        /// This version never fails.
        pub fn new(_: u64, _: &Path) -> Result<Self, Failure> {
            Ok(Self)
        }

        /// Returns a note for readers of `bench`: the measurement of reads was skipped.
        #[must_use]
        pub fn notes(&self) -> Vec<String> {
            vec!["hits: skipped: this `highwater` was built without the feature `linux`".into()]
        }

        /// Returns no rows, because this build lacks the feature `linux` and measures nothing.
        ///
        /// # Errors
        /// Never.
        pub fn rows(&self, _: u64, _: u64) -> Result<Vec<Row>, Failure> {
            Ok(Vec::new())
        }

        /// Returns at once: a build without the feature `linux` makes no files to remove.
        ///
        /// # Errors
        /// Never.
        pub fn finish(self) -> Result<(), Failure> {
            Ok(())
        }
    }
}
