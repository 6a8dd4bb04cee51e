//! A balloon, which takes memory offline while other tasks use memory. Below the low mark, the balloon takes at most as
//! many pages as it has reclaimed itself.

use super::fast::Until;
use super::{Allocate, OutOfMemory};
use crate::memory::{Gfp, MarkRights};
use crate::reclaim::direct::Progress;
use crate::task::Task;
use machine::note::Work;
use machine::{FrameNumber, Machine, Nanos, Order, WaitReason, Waiting};

/// Time that the balloon waits after a reclaim that freed nothing, before it reclaims again.
const RETRY_WAIT: Nanos = Nanos::from_millis(2);

/// The balloon gives up once its score is above this number, because memory is too full to shrink. Each reclaim after
/// which the balloon gets no page adds to the score: 100 if nothing can be scanned or freed, 10 if another try is worth
/// it, for example because pages are being written, and 1 if other tasks took the freed pages. So the balloon gives up
/// after a tenth of a second, after a second, or after ten seconds.
const FRUITLESS_MAX: u32 = 5000;

impl<M: Machine> Allocate<M> {
    /// Takes at least one and at most `most` pages offline, and adds them to `taken`. The calling task may sleep.
    ///
    /// Above the low mark, takes free pages as any request does. Below the low mark, takes at most as many pages as
    /// this task has just reclaimed, so that the balloon does not reduce the number of free pages that other tasks
    /// find. Afterwards the marks are computed anew for the memory that remains.
    ///
    /// # Errors
    /// Fails when no page can be freed any more.
    pub fn take_offline_pages(
        &self,
        task: &mut Task,
        most: usize,
        taken: &mut Vec<FrameNumber>,
    ) -> Result<(), OutOfMemory> {
        let gfp = Gfp::USER_MOVABLE;
        let had = taken.len();
        let mut fruitless = 0;
        self.take_pages_offline(gfp, Until::Low, most, taken);
        while taken.len() == had {
            let zonelist = self.zonelist(gfp);
            self.wake_kswapds(zonelist, Order::ZERO, self.classzone(gfp));
            let progress =
                self.try_to_free_pages(task, zonelist, Order::ZERO, gfp, fruitless > 0, &mut Work::default());
            // Freed pages may lie on per-CPU lists. The last pages that can be freed may wait in batches on their way
            // to a list.
            self.lru().drain_all();
            self.memory().drain_all_per_cpu();
            if let Progress::Freed(pages) = progress {
                self.take_pages_offline(gfp, Until::Min, most.min(pages as usize), taken);
            }
            if taken.len() == had {
                fruitless += match progress {
                    Progress::Nothing | Progress::Blind => 100,
                    Progress::Hope | Progress::Waited => 10,
                    Progress::Freed(_) => 1,
                };
                if fruitless > FRUITLESS_MAX || self.machine.is_killed() {
                    return Err(OutOfMemory::of_memory(Order::ZERO));
                }
                let waiting = Waiting::begin(&self.machine, WaitReason::FruitlessReclaim);
                self.machine.pause(RETRY_WAIT);
                drop(waiting);
                self.take_pages_offline(gfp, Until::Low, most, taken);
            }
        }
        self.memory().set_marks();
        Ok(())
    }

    fn take_pages_offline(&self, gfp: Gfp, until: Until, most: usize, taken: &mut Vec<FrameNumber>) {
        for _ in 0..most {
            let Some(frame) = self.take_from_zonelist(gfp, Order::ZERO, until, MarkRights::default()) else { break };
            self.memory().take_offline(frame);
            taken.push(frame);
        }
    }
}
