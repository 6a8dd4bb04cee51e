//! Shrinking one zone whose pages have generations: batches that the policy chooses, one after the other, until it ends the scan
//! (mechanisms/multigen, 6.1 and 6.2). The fate of pages is as everywhere.

use super::shrink_lruvec::reclaim_events;
use super::shrink_pages::ListCounts;
use super::{Reclaim, ScanControl};
use crate::lru::policy::multigen::GenerationScan;
use crate::lru::policy::multigen::command::{Command, CommandError, Evict, Refused};
use crate::lru::policy::multigen::evict::Batch;
use crate::memory::{Gfp, Zone};
use crate::task::Task;
use machine::{Func, Machine, Order};

impl<M: Machine> Reclaim<M> {
    /// Reclaims from a zone until the policy's budget, or what is wanted, is reached.
    pub(super) fn shrink_generations(&self, task: &mut Task, zone: &Zone<M>, control: &mut ScanControl) {
        if control.priority == 0 {
            self.note_priority_zero(zone, control);
        }
        let demand = self.demand(control);
        let mut scan = GenerationScan::new(demand, control.order);
        let mut freed = 0;
        self.drain_before_scan();
        while !self.machine.is_killed() {
            while !control.is_kswapd && self.are_too_many_isolated_of_any(zone, &demand) {
                self.wait_for_putback(|| self.are_too_many_isolated_of_any(zone, &demand));
                if self.machine.is_killed() {
                    break;
                }
            }
            let Some(batch) = self.next_batch(zone, &mut scan, freed) else { break };
            freed += self.shrink_batch(task, zone, &batch, control);
            self.machine.cond_resched();
        }
        control.reclaimed += freed;
        self.throttle_vm_writeout(control.gfp);
    }

    /// Carries out the commands of a text as debugfs takes them in `lru_gen`, one after the other; returns how many pages those
    /// freed that evict (mechanisms/multigen, 11). *May sleep.*
    ///
    /// # Errors
    /// When something in the text is no command: then nothing was done. When a command is refused: those before it were carried out.
    pub fn lru_gen_command(&self, task: &mut Task, text: &str) -> Result<u64, CommandError> {
        let commands = Command::parse_all(text).map_err(CommandError::Bad)?;
        let mut freed = 0;
        for (n, command) in commands.iter().enumerate() {
            let done = match command {
                Command::Age(age) => self.begin_generation_now(age).map(|()| 0),
                Command::Evict(evict) => self.evict_generations(task, evict),
            };
            freed += done.map_err(|why| CommandError::Refused { number: n + 1, why })?;
        }
        Ok(freed)
    }

    /// Reclaims pages of a node's old generations now, as far as they can go; returns how many were freed. Where zones have lruvecs
    /// of their own, those of its highest zone. *May sleep.*
    ///
    /// # Errors
    /// When the kernel has no generations, there is no such cgroup or node, or fewer than two generations would stay.
    pub fn evict_generations(&self, task: &mut Task, evict: &Evict) -> Result<u64, Refused> {
        let zone = self.check_eviction(evict)?;
        let mut control = ScanControl::direct(Gfp::KERNEL, Order::ZERO);
        self.drain_before_scan();
        // Pages that cannot go are met again.
        let mut left = 2 * self.listed_pages(zone);
        let mut freed = 0;
        while freed < evict.pages && left > 0 && !self.machine.is_killed() {
            let budget = left.min(evict.pages - freed);
            let Some(batch) = self.next_old_batch(zone, evict, budget) else { break };
            left = left.saturating_sub(batch.scanned);
            freed += self.shrink_batch(task, zone, &batch, &mut control);
            self.machine.cond_resched();
        }
        Ok(freed)
    }

    /// Decides the fate of a batch; returns the pages freed (`evict_folios`).
    #[doc(alias = "evict_folios")]
    fn shrink_batch(&self, task: &mut Task, zone: &Zone<M>, batch: &Batch, control: &mut ScanControl) -> u64 {
        let _span = self.machine.span(Func::ShrinkInactiveList);
        let (scan_event, steal_event) = reclaim_events(control);
        zone.stat.count(scan_event, self.counted_as_scanned(batch));
        if batch.pages.is_empty() {
            // All that can be taken waits to be written, and nobody may be about to.
            if batch.to_write > 0 {
                self.wake_flushers(batch.to_write);
            }
            return 0;
        }
        let mut counts = ListCounts::default();
        let mut stay = self.shrink_clusters(task, zone, &batch.pages, control, &mut counts);
        let again = self.take_out_retried(&mut stay, true);
        if !again.is_empty() {
            let mut stay_again = self.shrink_clusters(task, zone, &again, control, &mut counts);
            self.take_out_retried(&mut stay_again, false);
            stay.append(&mut stay_again);
        }
        // Nobody writes what is met here: the flushers are told of each such batch.
        let taken = batch.pages.len() as u64;
        if counts.dirty.max(counts.unqueued_dirty) >= taken {
            self.wake_flushers(taken);
        }
        // A huge page has become small ones before its first is freed: each entry that does not survive is one page.
        let freed = (batch.pages.len() - stay.len()) as u64;
        zone.stat.count(steal_event, freed);
        self.put_back_batch(zone, batch, &stay);
        self.wake_direct_waiters(freed);
        self.stall_after_list(zone, control, &counts, taken);
        freed
    }
}
