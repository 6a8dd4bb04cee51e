//! Interrupts: when they are off, for how long, and the handlers.
//!
//! A handler runs on a fiber of its own in front of its CPU's task, which stands still: a spend in which the interrupt
//! falls takes so much longer. Handlers do not nest, and the interrupts that wait are handled by the same run.

use crate::clock::nanos;
use crate::cpu::{Lane, cpu_of, handler_lane, is_handler};
use crate::fingerprint::Mark;
use crate::lock::{CAUSES, HANDLER, cause_name};
use crate::network::CARD;
use crate::trace::Activity;
use crate::world::World;
use machine::{Func, Nanos, Step};
use std::cell::Cell;

const BUCKETS: usize = 40;

/// How long interrupts were off on a CPU, for one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskStatistics {
    /// The class of the lock that turned them off first, `per_cpu`, or `interrupt` for handlers.
    pub cause: &'static str,
    /// How often.
    pub count: u64,
    /// For how long altogether.
    pub total: Nanos,
    /// For how long at most.
    pub max: Nanos,
    /// Entry `i` counts the times of at least 2^(i-1) and less than 2^i ns; entry 0 those below 1 ns.
    pub by_log2_ns: Vec<u64>,
}

#[derive(Clone)]
pub(crate) struct MaskCounts {
    count: Cell<u64>,
    total: Cell<u64>,
    max: Cell<u64>,
    buckets: [Cell<u64>; BUCKETS],
}

impl MaskCounts {
    pub(crate) fn table() -> Box<[Self]> {
        let empty = Self {
            count: Cell::new(0),
            total: Cell::new(0),
            max: Cell::new(0),
            buckets: [const { Cell::new(0) }; BUCKETS],
        };
        vec![empty; CAUSES].into()
    }

    fn clear(&self) {
        [&self.count, &self.total, &self.max].into_iter().chain(&self.buckets).for_each(|cell| cell.set(0));
    }

    fn add(&self, time: u64) {
        self.count.set(self.count.get() + 1);
        self.total.set(self.total.get() + time);
        self.max.set(self.max.get().max(time));
        let bits = u64::BITS - nanos(time).0.leading_zeros();
        let bucket = &self.buckets[(bits as usize).min(BUCKETS - 1)];
        bucket.set(bucket.get() + 1);
    }

    pub(crate) fn statistics(&self, cause: u8) -> MaskStatistics {
        MaskStatistics {
            cause: cause_name(cause),
            count: self.count.get(),
            total: nanos(self.total.get()),
            max: nanos(self.max.get()),
            by_log2_ns: self.buckets.iter().map(Cell::get).collect(),
        }
    }
}

impl World {
    /// Counts anew how long interrupts are off and what handlers do.
    pub(crate) fn restart_interrupt_counts(&self) {
        self.mask_counts.iter().for_each(MaskCounts::clear);
        self.lanes.iter().for_each(|lane| lane.longest_off.set(0));
        for cpu in &self.cpus {
            [&cpu.handlers, &cpu.pages_total, &cpu.pages_max].into_iter().for_each(|cell| cell.set(0));
        }
        self.off_windows.borrow_mut().clear();
    }

    /// One more reason for interrupts to be off on the running lane's CPU.
    #[inline]
    pub(crate) fn mask(&self, lane: &Lane, cause: u8) {
        let reasons = lane.masked.get();
        lane.masked.set(reasons + 1);
        if reasons == 0 {
            lane.masked_at.set(self.clock.get());
            lane.masked_by.set(cause);
        }
    }

    /// One reason less.
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

    /// A handler ends: the time without interrupts began with it, or with what it had to wait for.
    fn note_handled(&self, cpu: usize) {
        let [below, lane] = [&self.lanes[2 * cpu], &self.lanes[handler_lane(cpu) as usize]];
        let [began, now] = [self.cpus[cpu].handler_began.get(), self.clock.get()];
        let from = if below.off[1].get() == began { below.off[0].get() } else { began };
        lane.longest_off.set(lane.longest_off.get().max(now - from));
        self.note(began, now, || Activity::InterruptsOff { cpu, cause: cause_name(HANDLER) });
        if now - from >= self.cpus[cpu].keep_off_from.get() {
            let mut windows = self.off_windows.borrow_mut();
            // The time that it waited for was kept alone.
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

    #[cold]
    fn look_at_off(&self, from: u64, to: u64, cause: u8) {
        if to - from >= self.cpus[cpu_of(self.lane.get())].keep_off_from.get() {
            self.off_windows.borrow_mut().push((from, to));
        }
        self.note_off(from, to, cause);
    }

    /// Something was given up: lets what waited for that happen.
    #[inline]
    pub(crate) fn look_up(&self) {
        let id = self.lane.get();
        if self.cpus[cpu_of(id)].attention.get() && !is_handler(id) {
            let lane = &self.lanes[id as usize];
            if lane.masked.get() == 0 {
                self.suspend(crate::fiber::Ask::Unmasked);
            }
        }
    }

    /// The task on `cpu` has interrupts on again.
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

    /// A device asks for its CPU, at the present time.
    pub(crate) fn raise_interrupt(&self, cpu: usize, device: u8) {
        let state = &self.cpus[cpu];
        state.pending.borrow_mut().push_back(device);
        if state.in_handler.get() {
            // The handler takes this one too, before it ends.
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

    /// The handler's own work.
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

    /// The next device whose interrupt waits; the network card last.
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
        // A lock that it got meanwhile it has had since; a spend goes on where it stood.
        let resume_at = below.resume_at.get();
        self.set_running(cpu, if below.is_granted.get() { resume_at.max(now) } else { resume_at + took });
        self.switch_if_possible(cpu);
    }
}
