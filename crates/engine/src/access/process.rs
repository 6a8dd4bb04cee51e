//! Release of the memory of processes that end (`exit_mm`), or that were killed and do not end soon (`oom_reaper`).
//!
//! *Flow*: the user of the engine calls [`Access::exit_process`] after the last task of a killed process has ended. If
//! a killed process does not end within two seconds, the reaper frees its anonymous memory. *Locks*: those of
//! [`Access::drop_region`]. *Description*: mechanisms/killer, 3.

use super::Access;
use crate::anonymous::{Process, Region, Sharing};
use machine::Machine;
use machine::atomic::Ordering::Release;

impl<M: Machine> Access<M> {
    /// Ends a killed process: drops the regions that the process still has. Its tasks must have ended. This function
    /// may sleep.
    pub fn exit_process(&self, process: &Process) {
        for region in self.anonymous().regions_of(process.id) {
            self.drop_region(&region);
        }
        process.set_gone();
        self.forget_to_reap(process.id);
    }

    /// Frees the memory of killed processes until the calling task is killed.
    pub(super) fn run_reaper(&self) {
        while !self.machine.is_killed() {
            let ticket = self.machine.ticket(self.reaper_queue());
            let (due, next) = self.take_to_reap(self.machine.now());
            for process in &due {
                self.reap(process);
            }
            if due.is_empty() {
                self.machine.sleep(self.reaper_queue(), ticket, next);
            }
        }
    }

    /// Frees the anonymous memory of a killed process, and private copies of pages of files. A page that a task of the
    /// process maps meanwhile is freed when the process exits.
    #[doc(alias = "__oom_reap_task_mm")]
    fn reap(&self, process: &Process) {
        let is_private =
            |region: &Region<M>| region.file.as_ref().is_none_or(|mapped| mapped.mode.sharing == Sharing::Private);
        for region in self.anonymous().regions_of(process.id).iter().filter(|region| is_private(region)) {
            region.is_closing.store(true, Release);
            self.empty_region(region);
        }
        process.set_reaped();
    }
}
