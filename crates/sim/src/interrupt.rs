//! Interrupt handlers, and the periods with interrupts off that delay them.
//!
//! A handler runs on its own fiber in front of its CPU's task, which stands still meanwhile. If an interrupt comes
//! while a task spends time on a step, the step takes longer by the time of the handler. Handlers do not nest, and one
//! run of a handler handles all waiting interrupts.

use crate::cause::{HANDLER, cause_name};
use crate::cpu::handler_lane;
use crate::device::CARD;
use crate::record::fingerprint::Mark;
use crate::record::masks::MaskCounts;
use crate::record::trace::Activity;
use crate::world::World;
use machine::{Func, Step};

impl World {
    /// Sets the counts of handlers and of periods with interrupts off to 0.
    pub(crate) fn restart_interrupt_counts(&self) {
        self.mask_counts.iter().for_each(MaskCounts::clear);
        self.lanes.iter().for_each(|lane| lane.longest_off.set(0));
        for cpu in &self.cpus {
            [&cpu.handlers, &cpu.pages_total, &cpu.pages_max].into_iter().for_each(|cell| cell.set(0));
        }
        self.off_windows.borrow_mut().clear();
    }

    /// Records the end of a handler, and the period for which interrupts were off because of it. If the task had
    /// interrupts off until the handler began, and so delayed it, the period begins when the task turned interrupts
    /// off. Otherwise the period begins with the handler.
    fn note_handled(&self, cpu: usize) {
        let [below, lane] = [&self.lanes[2 * cpu], &self.lanes[handler_lane(cpu) as usize]];
        let [began, now] = [self.cpus[cpu].handler_began.get(), self.clock.get()];
        let from = if below.off[1].get() == began { below.off[0].get() } else { began };
        lane.longest_off.set(lane.longest_off.get().max(now - from));
        self.note(began, now, || Activity::InterruptsOff { cpu, cause: cause_name(HANDLER) });
        if now - from >= self.cpus[cpu].keep_off_from.get() {
            let mut windows = self.off_windows.borrow_mut();
            // The task's part of the period was already kept as a window. The whole period replaces it.
            if windows.last().is_some_and(|last| last.0 == from && last.1 == began) {
                windows.pop();
            }
            windows.push((from, now));
        }
        let state = &self.cpus[cpu];
        let pages = state.handled_pages.take();
        if pages > 0 {
            state.handlers.set(state.handlers.get() + 1);
            state.pages_total.set(state.pages_total.get() + pages);
            state.pages_max.set(state.pages_max.get().max(pages));
        }
    }

    /// Starts what had to wait until the task on `cpu` turned interrupts or preemption on again: the interrupt handler
    /// if an interrupt waits, otherwise the switch to another task.
    pub(crate) fn unmasked(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        state.attention.set(false);
        self.clocks.run(cpu, self.clock.get());
        if state.pending.borrow().is_empty() {
            self.switch_if_possible(cpu);
        } else {
            self.begin_handler(cpu);
        }
    }

    /// Raises the interrupt of a device on its CPU, at the present time.
    pub(crate) fn raise_interrupt(&self, cpu: usize, device: u8) {
        let state = &self.cpus[cpu];
        state.pending.borrow_mut().push_back(device);
        if state.in_handler.get() {
            // The running handler also takes this interrupt, before it ends.
        } else if state.task.get().is_some() && self.lanes[2 * cpu].masked.get() > 0 {
            state.attention.set(true);
        } else {
            self.begin_handler(cpu);
        }
    }

    fn begin_handler(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        let now = self.clock.get();
        if state.task.get().is_some() {
            let below = &self.lanes[2 * cpu];
            below.resume_at.set(state.clock.get());
            below.is_granted.set(false);
        } else {
            self.leave_idle(cpu);
        }
        state.in_handler.set(true);
        state.handler_began.set(now);
        let lane = &self.lanes[handler_lane(cpu) as usize];
        lane.node.set(self.profile.child(self.profile.root("interrupt"), Func::IoInterrupt));
        lane.mark.set(now);
        lane.masked.set(0);
        let world = self.rc();
        lane.fiber.set(self.take_fiber(Box::new(move || world.handle_pending(cpu))));
        self.fingerprint.mix(Mark::Interrupt, now, cpu as u64);
        self.set_running(cpu, now);
        self.mask(lane, HANDLER);
    }

    /// Handles all pending interrupts of a CPU. This function is the body of the CPU's interrupt handler.
    fn handle_pending(&self, cpu: usize) {
        loop {
            let Some(device) = self.next_pending(cpu) else { return };
            let (from, before) = (self.clock.get(), self.cpus[cpu].handled_pages.get());
            self.spend(Step::InterruptEntry, 1);
            match device {
                CARD => self.answer_packets(),
                disk => self.complete_finished(usize::from(disk)),
            }
            self.note_interrupt(from, cpu, device, self.cpus[cpu].handled_pages.get() - before);
        }
    }

    /// Takes a device with a waiting interrupt off the CPU's queue, and returns it. Disks come before the network card.
    /// Returns `None` if no interrupt waits.
    fn next_pending(&self, cpu: usize) -> Option<u8> {
        let mut pending = self.cpus[cpu].pending.borrow_mut();
        let disk = if self.network.is_some() { pending.iter().position(|device| *device != CARD) } else { None };
        pending.remove(disk.unwrap_or(0))
    }

    pub(crate) fn end_handler(&self, cpu: usize) {
        let state = &self.cpus[cpu];
        let lane = &self.lanes[handler_lane(cpu) as usize];
        let now = self.clock.get();
        if lane.held.get() != 0 || lane.slots.get() != 0 {
            return self.fail(format!("a completion returned while holding {}", lane.held_words()));
        }
        self.charge(lane);
        lane.used.set(0);
        self.unmask(lane);
        self.note_handled(cpu);
        self.give_fiber(lane.fiber.replace(std::ptr::null()));
        state.in_handler.set(false);
        let took = now - state.handler_began.get();
        state.interrupt_total.set(state.interrupt_total.get() + took);
        self.fingerprint.mix(Mark::InterruptEnd, now, cpu as u64);
        if state.task.get().is_none() {
            return self.schedule(cpu);
        }
        let below = &self.lanes[2 * cpu];
        below.mark.set(below.mark.get() + took);
        if below.is_spinning.get() {
            self.clocks.stop(cpu);
            return;
        }
        // If the task got a lock while the handler ran, it continues at the time of the handover, but not before now.
        // Otherwise the interrupted step ends later by the time of the handler.
        let resume_at = below.resume_at.get();
        self.set_running(cpu, if below.is_granted.get() { resume_at.max(now) } else { resume_at + took });
        self.switch_if_possible(cpu);
    }
}
