//! Spin locks.
//!
//! A free lock belongs to the caller from the moment of the call, and the call costs [`Step::LockAcquire`]. If the lock
//! is held, the caller's CPU spins until the holder hands the lock over; this time is charged to `_raw_spin_lock`. The
//! handover costs [`Step::LockHandover`], during which the lock already belongs to the waiter. Waiters form a list
//! through their lanes, so a lock is small: a machine may have a million of them. If another CPU had the lock last, the
//! new holder also waits until the lock's cache lines have travelled ([`crate::CacheLines`]).
//!
//! These bugs are reported by a panic: taking a lock whose rank is not higher than that of a held lock; taking, in an
//! interrupt handler, a lock whose holders leave interrupts on; sleeping while holding a lock.

use crate::cache_line::LastCpu;
use crate::cause::{SLOT, cause_name};
use crate::config::LockFairness;
use crate::cpu::{Lane, LaneId, NO_LANE, cpu_of, is_handler};
use crate::fiber::Ask;
use crate::record::fingerprint::Mark;
use crate::record::locks::add;
use crate::schedule::Point;
use crate::world::World;
use machine::{Func, LockClass, Step};
use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The lane (a CPU's task or interrupt handler) that counts as the holder of a lock if the lock was taken while no task
/// ran: during set-up or the inspection of results.
const OUTSIDE: LaneId = NO_LANE - 1;

/// The holder of a lock, and the tasks that spin for it.
pub(crate) struct RawLock {
    holder: Cell<LaneId>,
    first: Cell<LaneId>,
    last: Cell<LaneId>,
    /// Time at which the present holder took the lock.
    since: Cell<u64>,
    /// The CPU that had the lock last.
    last_cpu: LastCpu,
}

impl RawLock {
    pub(crate) fn new() -> Self {
        Self {
            holder: Cell::new(NO_LANE),
            first: Cell::new(NO_LANE),
            last: Cell::new(NO_LANE),
            since: Cell::new(0),
            last_cpu: LastCpu::default(),
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.holder.get() == NO_LANE
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.first.get() != NO_LANE
    }

    pub(crate) fn is_held_by(&self, lane: LaneId) -> bool {
        self.holder.get() == lane
    }
}

impl World {
    /// Takes a lock or a per-CPU slot for the running task or handler. While another task or handler holds it, spins.
    /// The caller has already counted the lock or slot among those that the running task or handler holds.
    pub(crate) fn acquire(&self, raw: &RawLock, cause: u8) {
        let id = self.lane.get();
        if id == NO_LANE {
            assert!(raw.is_free(), "`{}` is held, and nobody runs who could release it", cause_name(cause));
            return raw.holder.set(OUTSIDE);
        }
        let counts = &self.lock_counts[usize::from(cause)];
        counts.acquisitions.set(counts.acquisitions.get() + 1);
        if raw.is_free() {
            raw.holder.set(id);
            raw.since.set(self.clock.get());
            if cause != SLOT {
                let travel = self.lock_travel(&raw.last_cpu, id, cause);
                self.spend_picos(self.costs[Step::LockAcquire as usize] + travel);
            }
            return;
        }
        // A holder that takes the lock again would pass the check after the wait, and would get a second guard.
        assert!(!raw.is_held_by(id), "`{}` is taken by a task that holds it already", cause_name(cause));
        self.assert_on_own_stack();
        counts.contended.set(counts.contended.get() + 1);
        let lane = &self.lanes[id as usize];
        lane.next_waiter.set(NO_LANE);
        match raw.last.replace(id) {
            NO_LANE => raw.first.set(id),
            last => self.lanes[last as usize].next_waiter.set(id),
        }
        let began = self.clock.get();
        self.within(Func::SpinLock, || {
            lane.spins_for.set(cause);
            lane.is_spinning.set(true);
            self.suspend(Ask::Spin);
        });
        assert!(raw.is_held_by(id), "a waiter is resumed when the lock is its own");
        let waited = self.clock.get() - began;
        add(&counts.wait_total, &counts.wait_max, waited);
        self.profile.charge_wait(self.lanes[id as usize].node.get(), cause, waited);
        self.note_lock(began, cause, true);
        // Now that the CPU has the lock, the cache lines of the lock and its data travel to it.
        self.spend_picos(self.lock_travel(&raw.last_cpu, id, cause));
    }

    /// Releases a lock or a per-CPU slot. Returns `true` if the running task or handler held it; the caller then notes
    /// the release. Returns `false` if the lock was taken outside of the run, or if the run is over or ending.
    ///
    /// # Panics
    /// When another task or handler holds the lock or per-CPU slot.
    #[must_use]
    #[inline]
    pub(crate) fn release(&self, raw: &RawLock, cause: u8) -> bool {
        // The lock was taken before the run, or is released after it, or the run is ending.
        if raw.holder.get() == OUTSIDE || self.lane.get() == NO_LANE || self.is_dying() {
            raw.holder.set(NO_LANE);
            return false;
        }
        assert!(raw.is_held_by(self.lane.get()), "`{}` is released by who does not hold it", cause_name(cause));
        let counts = &self.lock_counts[usize::from(cause)];
        add(&counts.hold_total, &counts.hold_max, self.clock.get() - raw.since.get());
        if raw.first.get() == NO_LANE {
            raw.holder.set(NO_LANE);
        } else {
            self.note_lock(raw.since.get(), cause, false);
            self.hand_over(raw, cause);
        }
        true
    }

    fn hand_over(&self, raw: &RawLock, cause: u8) {
        let winner = match self.config.lock_fairness {
            LockFairness::Fifo => raw.first.get(),
            LockFairness::Random => self.draw_winner(raw),
        };
        self.unlink(raw, winner);
        let cost = if cause == SLOT { 0 } else { self.costs[Step::LockHandover as usize] };
        let clock = self.clock.get() + cost;
        raw.holder.set(winner);
        raw.since.set(clock);
        self.fingerprint.mix(Mark::HandOver, self.clock.get(), u64::from(winner) << 8 | u64::from(cause));
        let lane = &self.lanes[winner as usize];
        lane.is_spinning.set(false);
        let cpu = cpu_of(winner);
        if self.cpus[cpu].front(cpu) == winner {
            self.set_running(cpu, clock);
        } else {
            lane.resume_at.set(clock);
            lane.is_granted.set(true);
        }
    }

    /// Returns a random one of the tasks and handlers that are spinning for the lock now. A task that a handler has
    /// interrupted is left out. If all are interrupted, returns the one that has waited longest.
    fn draw_winner(&self, raw: &RawLock) -> LaneId {
        let looks = |lane: &LaneId| self.cpus[cpu_of(*lane)].front(cpu_of(*lane)) == *lane;
        let waiters = || {
            std::iter::successors(Some(raw.first.get()), |&lane| {
                Some(self.lanes[lane as usize].next_waiter.get()).filter(|&next| next != NO_LANE)
            })
        };
        match waiters().filter(looks).count() as u64 {
            0 => raw.first.get(),
            looking => {
                let drawn = self.schedule.borrow_mut().winner(looking) as usize;
                waiters().filter(looks).nth(drawn).expect("one of those counted")
            }
        }
    }

    fn unlink(&self, raw: &RawLock, lane: LaneId) {
        let next = self.lanes[lane as usize].next_waiter.get();
        if raw.first.get() == lane {
            raw.first.set(next);
            if next == NO_LANE {
                raw.last.set(NO_LANE);
            }
            return;
        }
        let mut before = raw.first.get();
        while self.lanes[before as usize].next_waiter.get() != lane {
            before = self.lanes[before as usize].next_waiter.get();
        }
        self.lanes[before as usize].next_waiter.set(next);
        if next == NO_LANE {
            raw.last.set(before);
        }
    }

    fn check_rank(&self, lane: &Lane, class: LockClass) {
        let not_lower = lane.held.get() >> (8 * class.rank());
        if not_lower != 0 {
            let held = LockClass::ALL[(class.rank() as u32 + not_lower.trailing_zeros() / 8) as usize];
            panic!("lock `{}` taken while holding lock `{}`: ranks must rise", class.name(), held.name());
        }
        let is_inner = class.may_be_taken_in_slot();
        assert!(lane.slots.get() == 0 || is_inner, "lock `{}` taken while holding a per-CPU slot", class.name());
    }

    /// Notes that the running task or handler is about to hold a lock of `class`. Does nothing if no task or handler
    /// runs.
    #[inline]
    fn note_taking(&self, class: LockClass) {
        let Some(lane) = self.running() else { return };
        let may = class.interrupts_off() || !is_handler(self.lane.get());
        assert!(may, "lock `{}` taken in an interrupt handler: its holders leave interrupts on", class.name());
        lane.held.set(lane.held.get() + (1 << (8 * class.rank())));
        if class.interrupts_off() {
            self.mask(lane, class as u8);
        }
    }

    #[inline]
    fn note_released(&self, class: LockClass) {
        let Some(lane) = self.running() else { return };
        lane.held.set(lane.held.get() - (1 << (8 * class.rank())));
        if class.interrupts_off() {
            self.unmask(lane);
        }
        self.look_up();
    }
}

/// A lock of the simulated machine.
pub struct SpinLock<T> {
    world: Rc<World>,
    class: LockClass,
    raw: RawLock,
    value: UnsafeCell<T>,
}

impl<T> SpinLock<T> {
    pub(crate) fn new(world: Rc<World>, class: LockClass, value: T) -> Self {
        Self { world, class, raw: RawLock::new(), value: UnsafeCell::new(value) }
    }
}

impl<T: 'static> machine::Lock<T> for SpinLock<T> {
    type Guard<'a> = SpinGuard<'a, T>;

    fn lock(&self) -> SpinGuard<'_, T> {
        self.world.schedule_point(Point::Step);
        if let Some(lane) = self.world.running() {
            self.world.check_rank(lane, self.class);
        }
        self.world.note_taking(self.class);
        self.world.acquire(&self.raw, self.class as u8);
        SpinGuard { lock: self }
    }

    fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.world.schedule_point(Point::Step);
        if !self.raw.is_free() {
            self.world.spend(Step::LockAcquire, 1);
            return None;
        }
        self.world.note_taking(self.class);
        self.world.acquire(&self.raw, self.class as u8);
        Some(SpinGuard { lock: self })
    }

    fn is_contended(&self) -> bool {
        self.raw.is_waited_for()
    }
}

/// Holds a [`SpinLock`] until it is dropped.
pub struct SpinGuard<'a, T: 'static> {
    lock: &'a SpinLock<T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held by this guard, one holder at a time, and a world stays on one thread.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let world = &self.lock.world;
        if world.release(&self.lock.raw, self.lock.class as u8) {
            world.note_released(self.lock.class);
        }
    }
}
