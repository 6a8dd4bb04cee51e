//! The ground `host`: runs a job on the library, in the process that is started for the job.

use super::ground::RealGround;
use crate::job::{Inside, Job};
use crate::system::host::HostSystem;
use catalogue::ground::Ground;
use workloads::system::{Given, SystemError, page_bytes};

/// The ground `host`: workloads on the library.
#[derive(Debug)]
pub struct Host;

impl RealGround for Host {
    const GROUND: Ground = Ground::Host;

    type System = HostSystem;

    fn check_memory(job: &Job) -> Result<(), String> {
        engine::memory::check_layout(&job.layout()).map_err(|error| error.to_string())
    }

    fn start(job: &Job, inside: &Inside, given: Given) -> Result<HostSystem, SystemError> {
        HostSystem::new(&inside.folder, &job.kernel, job.memory_pages(), job.swap_pages(), given)
    }

    fn finish(system: HostSystem, job: &Job, _: &Inside) -> Result<Vec<String>, SystemError> {
        let mut notes = vec![format!("{} MiB in the process", page_bytes(job.memory_pages()) >> 20)];
        notes.extend(system.notices());
        system.finish()?;
        Ok(notes)
    }
}
