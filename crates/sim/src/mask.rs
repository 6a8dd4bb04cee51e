//! Turning interrupts off and on again on the CPU of the running task or handler.

use crate::cpu::{Lane, cpu_of, is_handler};
use crate::fiber::Ask;
use crate::world::World;

impl World {
    /// Adds a reason for which interrupts are off on the CPU of the running task or handler, `lane`.
    #[inline]
    pub(crate) fn mask(&self, lane: &Lane, cause: u8) {
        let reasons = lane.masked.get();
        lane.masked.set(reasons + 1);
        if reasons == 0 {
            lane.masked_at.set(self.clock.get());
            lane.masked_by.set(cause);
        }
    }

    /// Removes one of the reasons for which interrupts are off on the CPU of the running task or handler. Interrupts
    /// are on again when no reason is left. `lane` is the lane of the CPU in which this task or handler runs.
    #[inline]
    pub(crate) fn unmask(&self, lane: &Lane) {
        let reasons = lane.masked.get() - 1;
        lane.masked.set(reasons);
        if reasons == 0 {
            let (from, to) = (lane.masked_at.get(), self.clock.get());
            self.mask_counts[usize::from(lane.masked_by.get())].add(to - from);
            lane.off[0].set(from);
            lane.off[1].set(to);
            if to - from > lane.longest_off.get() {
                lane.longest_off.set(to - from);
            }
            if to - from >= lane.note_off_from.get() {
                self.look_at_off(from, to, lane.masked_by.get());
            }
        }
    }

    #[cold]
    fn look_at_off(&self, from: u64, to: u64, cause: u8) {
        if to - from >= self.cpus[cpu_of(self.lane.get())].keep_off_from.get() {
            self.off_windows.borrow_mut().push((from, to));
        }
        self.note_off(from, to, cause);
    }

    /// Performs a delayed interrupt or task switch, if nothing delays it any more: interrupts and preemption are on.
    /// Called after a lock or a per-CPU slot was released.
    #[inline]
    pub(crate) fn look_up(&self) {
        let id = self.lane.get();
        if self.cpus[cpu_of(id)].attention.get() && !is_handler(id) {
            let lane = &self.lanes[id as usize];
            if lane.masked.get() == 0 {
                self.suspend(Ask::Unmasked);
            }
        }
    }
}
