//! Draws a workload and its parameters for those random worlds (machine and kernel of a `highwater swarm` run) that run
//! a workload instead of random tasks.

use super::chance::{CORRUPTING_SEED, log_between, pick};
use crate::system::sim::SimSystem;
use sim::Rng;
use sim::disk::DiskConfig;
use std::fmt;
use workloads::anon::Anon;
use workloads::choose::Distribution;
use workloads::random::Access;
use workloads::randread::Randread;
use workloads::randwrite::Randwrite;
use workloads::scan::Scan;
use workloads::system::SystemError;
use workloads::workload::{Measurements, Resources, Workload};
use workloads::{anon, randread, randwrite, scan};

/// A workload with its drawn parameters.
#[derive(Clone, Debug)]
pub(super) enum Drawn {
    Randread(randread::Params),
    Randwrite(randwrite::Params),
    Anon(anon::Params),
    Scan(scan::Params),
}

impl Drawn {
    /// Draws a workload, for one world in ten; returns `None` for the other worlds. The draw has its own random stream,
    /// so that it does not change the other properties of worlds.
    pub fn draw(seed: u64, pages: u64, swap_slots: u32, disk: &DiskConfig) -> Option<Self> {
        let rng = &mut Rng::new(seed, u64::MAX - 9);
        if rng.below(10) > 0 || seed == CORRUPTING_SEED {
            return None;
        }
        let tasks = 1 + rng.below(8);
        let operations = Some(log_between(rng, 16, 4096) / tasks);
        let distribution = pick(rng, &[Distribution::Uniform, Distribution::Zipf]);
        let theta = pick(rng, &[0.5, 0.99, 1.0, 1.5]);
        let access = pick(rng, &[Access::Copy, Access::InPlace]);
        let file_percent = 10 + rng.below(200);
        Some(match rng.below(4) {
            0 => Self::Randread(randread::Params {
                file_percent,
                distribution,
                theta,
                tasks,
                access,
                operations,
                ..randread::Params::default()
            }),
            1 => {
                let sync_every = pick(rng, &[0, 1, 10, 100]);
                Self::Randwrite(randwrite::Params {
                    file_percent,
                    tasks,
                    sync_every,
                    operations,
                    ..randwrite::Params::default()
                })
            }
            // This workload reads its hot set until the pass over a file ends, which would take too long on a slow
            // disk.
            2 if matches!(disk, DiskConfig::Flash(_)) => Self::Scan(scan::Params {
                hot_percent: 10 + rng.below(90),
                cold_mib: Some(1 + rng.below(4)),
                distribution,
                theta,
                tasks: 1 + rng.below(3),
                access,
                alone_s: 0,
                ..scan::Params::default()
            }),
            _ => {
                // The region is somewhat smaller than memory and swap together, because a workload ends when a task
                // gets no memory.
                let most = ((pages * 7 / 10 + u64::from(swap_slots) * 9 / 10) * 100 / pages).min(250);
                Self::Anon(anon::Params {
                    region_percent: 20 + rng.below(most - 20),
                    distribution,
                    theta,
                    store_percent: rng.below(101),
                    tasks,
                    operations,
                    ..anon::Params::default()
                })
            }
        })
    }

    pub fn check(&self, resources: &Resources) -> Result<(), String> {
        match self {
            Self::Randread(params) => Randread::check(params, resources),
            Self::Randwrite(params) => Randwrite::check(params, resources),
            Self::Anon(params) => Anon::check(params, resources),
            Self::Scan(params) => Scan::check(params, resources),
        }
    }

    pub fn run(&self, system: &SimSystem) -> Result<Measurements, SystemError> {
        match self {
            Self::Randread(params) => Randread::run(system, params),
            Self::Randwrite(params) => Randwrite::run(system, params),
            Self::Anon(params) => Anon::run(system, params),
            Self::Scan(params) => Scan::run(system, params),
        }
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Randread(params) => write!(f, "randread {params:?}"),
            Self::Randwrite(params) => write!(f, "randwrite {params:?}"),
            Self::Anon(params) => write!(f, "anon {params:?}"),
            Self::Scan(params) => write!(f, "scan {params:?}"),
        }
    }
}
