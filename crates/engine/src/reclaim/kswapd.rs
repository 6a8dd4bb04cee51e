//! Kswapd: a node's reclaim task, and how it sleeps and is woken (mechanisms/reclaim, 18.1 to 18.3).

use super::Reclaim;
use super::choices::{KswapdRequest, KswapdSleep, WakeRecord, ZoneBalance};
use super::throttle::WriteWaiters;
use crate::memory::choices::MarkDistance;
use crate::memory::{MarkRights, Node, NodeId, Zone, ZoneId};
use crate::stat::{Event, ZoneEvent};
use crate::task::Task;
use machine::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use machine::{Func, Lock, LockClass, Machine, Nanos, Order};

/// Length of kswapd's trial sleep. If the node is still balanced after this sleep, kswapd sleeps until it is woken.
const TRIAL_SLEEP: Nanos = Nanos::from_millis(100);

/// Time that must remain, at the present rate of allocation, between kswapd's wake-up and the moment at which free
/// pages would reach the min mark. The number of pages that are allocated in this time is added to the distance from
/// the min mark to the low mark (`MarkDistance::ByRate`).
///
/// Kswapd gets a CPU a few milliseconds after it was woken, even when other threads compete for the CPU. 2, 5, 10 and
/// 20 ms were tried with two threads on two CPUs; the threads took 470 thousand reclaimed pages a second. With 5 ms,
/// one request in ten thousand led to direct reclaim, and 5 % of memory was unused; with 20 ms, 11 % was unused. With 5
/// ms and 16 threads on the two CPUs, one request in a thousand led to direct reclaim if the system gave kswapd short
/// slices (Linux 6.12), and otherwise one in a hundred.
const MARKS_LEAD: Nanos = Nanos::from_millis(5);

/// Shortest time between two changes of the watermarks. A rate that is measured over a shorter time is mostly noise.
const MARKS_REST: Nanos = Nanos::from_millis(5);

/// Number of consecutive passes that freed nothing, after which no task waits for kswapd any more. Tasks then reclaim
/// for themselves, and notice that memory is exhausted. The value is 16 fruitless runs, as in "mm: fix 100% CPU kswapd
/// busyloop on unreclaimable nodes" (Linux 4.12), each of 12 passes. Earlier kernels let tasks wait endlessly.
const FRUITLESS_PASSES_MAX: u32 = 16 * 12;

/// The class zone of a request that can use all zones. Kswapd assumes this class zone as long as no request names
/// another.
const ANY_CLASSZONE: u32 = 2;

/// The request to a node's kswapd, and a flag that is set while kswapd sleeps.
///
/// Kswapd first notes that it sleeps, and then reads the watermarks and the request. A task first takes pages and notes
/// its request, and then reads whether kswapd sleeps. At least one of them must see the other, hence the fences.
#[derive(Debug)]
pub struct Requests {
    /// `true` while kswapd sleeps. Only then do tasks check the watermarks and wake kswapd.
    is_sleeping: AtomicBool,
    /// The highest order that was requested since kswapd last took the request.
    max_order: AtomicU32,
    /// The class zone of the request that raised `max_order`. If several requests raised it, the lowest of their class
    /// zones.
    classzone: AtomicU32,
    /// The highest class zone that was requested since kswapd last took the request, plus 1; 0 if there was no request.
    highest: AtomicU32,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            is_sleeping: AtomicBool::new(false),
            max_order: AtomicU32::new(0),
            classzone: AtomicU32::new(ANY_CLASSZONE),
            highest: AtomicU32::new(0),
        }
    }
}

impl Requests {
    /// Records that kswapd is asked to free a block of order `order` in the zones up to `classzone`. Returns whether
    /// kswapd sleeps, so that the caller must wake it.
    #[inline]
    pub fn note(&self, order: Order, classzone: u32) -> bool {
        if self.max_order.fetch_max(u32::from(order.0), Relaxed) < u32::from(order.0) {
            self.classzone.fetch_min(classzone, Relaxed);
        }
        self.highest.fetch_max(classzone + 1, Relaxed);
        fence(SeqCst);
        self.is_sleeping.load(Relaxed)
    }

    /// Records a request of order 0 for all zones of the node, unless a request is recorded already. The request is
    /// made on behalf of tasks that wait for the node's reserve, which is spread over all zones. Otherwise kswapd would
    /// keep the class zone of its last request. If a raised mark caused that request, its class zone may exclude the
    /// zone that lacks pages.
    pub fn note_waiters(&self) {
        let _ = self.highest.compare_exchange(0, ANY_CLASSZONE + 1, Relaxed, Relaxed);
    }

    /// Notes that kswapd is about to sleep. From now on, either kswapd sees the request of a task, or the task wakes
    /// kswapd.
    pub fn begin_sleep(&self) {
        self.is_sleeping.store(true, Relaxed);
        fence(SeqCst);
    }

    /// Notes that kswapd no longer sleeps.
    pub fn end_sleep(&self) {
        self.is_sleeping.store(false, Relaxed);
    }

    /// Returns whether a higher order than `order` was requested since kswapd last looked.
    pub fn is_above(&self, order: Order) -> bool {
        self.max_order.load(Relaxed) > u32::from(order.0)
    }

    /// Returns the highest order that was requested, and the highest class zone of all requests. If there was no
    /// request, returns the class zone `last`.
    fn highest(&self, last: usize) -> Request {
        let classzone = (self.highest.load(Relaxed) as usize).checked_sub(1).unwrap_or(last);
        Request { order: Order(self.max_order.load(Relaxed) as u8), classzone }
    }

    /// Returns the highest order that was requested and the highest class zone of all requests, like [`Self::highest`],
    /// and forgets these requests.
    fn take_highest(&self, last: usize) -> Request {
        let classzone = (self.highest.swap(0, Relaxed) as usize).checked_sub(1).unwrap_or(last);
        Request { order: Order(self.max_order.swap(0, Relaxed) as u8), classzone }
    }

    fn take(&self) -> Request {
        Request {
            order: Order(self.max_order.swap(0, Relaxed) as u8),
            classzone: self.classzone.swap(ANY_CLASSZONE, Relaxed) as usize,
        }
    }
}

/// The state that a node's kswapd and its callers share.
pub(super) struct NodeState<M: Machine> {
    /// The queue in which kswapd sleeps.
    pub kswapd_wait: M::WaitQueue,
    pub requests: Requests,
    /// The queue of direct reclaimers that wait until the node's reserve is filled.
    pub reserve_wait: M::WaitQueue,
    /// Number of direct reclaimers that wait until the node's reserve is filled.
    pub waiters: AtomicU32,
    /// Tasks that are throttled until pages of the node are written.
    pub write_waiters: WriteWaiters<M>,
    /// Number of consecutive passes of kswapd that freed nothing.
    fruitless_passes: AtomicU32,
    /// Number of consecutive times that kswapd came down to its lowest priority and freed nothing (`kswapd_failures`).
    pub failures: AtomicU32,
    /// The time at which the watermarks were last moved, and the values that two counters of each zone of the node had
    /// then: the number of allocated pages (`pgalloc`), and the number of pages that were used once and never joined an
    /// LRU list (`lru_used_once`).
    marks_moved: M::Lock<(Nanos, Vec<[u64; 2]>)>,
    /// Durations of kswapd's runs of `balance_pgdat`.
    pub calls: CallTimes,
}

/// Number and durations of kswapd's runs of `balance_pgdat`, here named calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KswapdCalls {
    /// Number of runs of `balance_pgdat` that began after the counters were reset, or were in progress then.
    pub calls: u64,
    /// Duration of the longest run of `balance_pgdat`. If a run is in progress, its duration is the time until now.
    pub longest: Nanos,
    /// Sum of the durations of all runs of `balance_pgdat`.
    pub total: Nanos,
}

impl KswapdCalls {
    /// Combines the runs of `balance_pgdat` (calls) of two kswapd threads: adds their numbers, adds their total
    /// durations, and takes the longer of the longest durations.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            longest: self.longest.max(other.longest),
            total: self.total + other.total,
        }
    }
}

/// Counters of kswapd's calls of `balance_pgdat`: their number, their longest duration and their total duration. Only
/// kswapd adds to the counters; [`CallTimes::take`] resets them.
#[derive(Debug, Default)]
pub(super) struct CallTimes {
    calls: AtomicU64,
    longest: AtomicU64,
    total: AtomicU64,
    /// Time at which the run of `balance_pgdat` in progress began, ns; [`CallTimes::NONE`] if none is in progress.
    began: AtomicU64,
}

impl CallTimes {
    const NONE: u64 = u64::MAX;

    pub fn begin(&self, now: Nanos) {
        self.calls.fetch_add(1, Relaxed);
        self.began.store(now.0, Relaxed);
    }

    pub fn end(&self, now: Nanos) {
        let time = now.since(Nanos(self.began.swap(Self::NONE, Relaxed))).0;
        self.longest.fetch_max(time, Relaxed);
        self.total.fetch_add(time, Relaxed);
    }

    /// Returns the number and the durations of kswapd's runs of `balance_pgdat` since the last call of this function. A
    /// run in progress counts up to `now`; the next result counts it again, from `now` on.
    pub fn take(&self, now: Nanos) -> KswapdCalls {
        let goes_on = self.calls.load(Relaxed) > 0 && self.began.load(Relaxed) != Self::NONE;
        if goes_on {
            self.end(now);
        }
        let was = KswapdCalls {
            calls: self.calls.swap(0, Relaxed),
            longest: Nanos(self.longest.swap(0, Relaxed)),
            total: Nanos(self.total.swap(0, Relaxed)),
        };
        if goes_on {
            self.begin(now);
        }
        was
    }
}

impl<M: Machine> NodeState<M> {
    pub fn new(machine: &M, node: &Node) -> Self {
        Self {
            kswapd_wait: machine.wait_queue(),
            requests: Requests::default(),
            reserve_wait: machine.wait_queue(),
            waiters: AtomicU32::new(0),
            write_waiters: WriteWaiters::new(machine),
            fruitless_passes: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            marks_moved: machine.lock(LockClass::Other, (Nanos(0), vec![[0; 2]; node.zones.len()])),
            calls: CallTimes::default(),
        }
    }
}

/// The request that a node's kswapd is to serve by its reclaim: an order and a class zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub order: Order,
    pub classzone: usize,
}

impl<M: Machine> Reclaim<M> {
    /// Runs a node's kswapd; returns when its task is killed.
    pub fn run_kswapd(&self, node: NodeId) {
        let _span = self.machine.span(Func::Kswapd);
        let mut task = Task::kswapd();
        let any = Request { order: Order::ZERO, classzone: ANY_CLASSZONE as usize };
        let mut wanted = any;
        let mut balanced = any;
        while !self.machine.is_killed() {
            wanted = match self.choices.kswapd_request {
                KswapdRequest::Order => self.next_order(node, wanted),
                KswapdRequest::OrderAndClasszone => self.next_request(node, wanted, wanted, true),
                // A new request is read at once only if the last one was met. After a failure, kswapd first tries to
                // sleep, and does not just try again.
                KswapdRequest::LastBalanced => {
                    let is_met = balanced.classzone >= wanted.classzone && balanced.order == wanted.order;
                    self.next_request(node, wanted, balanced, is_met)
                }
                KswapdRequest::HighestZone => {
                    let requests = &self.node_state(node).requests;
                    let has_given_up = balanced.order < wanted.order;
                    let noted = requests.highest(wanted.classzone);
                    let order = if has_given_up { balanced.order } else { noted.order };
                    self.kswapd_try_to_sleep(node, Request { order, ..noted });
                    requests.take_highest(noted.classzone)
                }
            };
            if self.machine.is_killed() {
                return;
            }
            self.move_marks(node);
            balanced = self.balance_node(&mut task, node, wanted);
            match self.choices.kswapd_request {
                KswapdRequest::OrderAndClasszone => wanted = balanced,
                KswapdRequest::Order | KswapdRequest::LastBalanced | KswapdRequest::HighestZone => {}
            }
        }
    }

    /// Returns the request that kswapd works on next. A new request that is stricter than `wanted` (of a higher order,
    /// or of a lower class zone) is returned at once. Otherwise the function first tries to sleep, which it does only
    /// if the node is balanced for `achieved`, and then returns the request that is recorded by then. If `looks` is
    /// `false`, it tries to sleep without looking for a new request first.
    fn next_request(&self, node: NodeId, wanted: Request, achieved: Request, looks: bool) -> Request {
        let requests = &self.node_state(node).requests;
        let mut new = Request { order: Order::ZERO, classzone: ANY_CLASSZONE as usize };
        if looks {
            new = requests.take();
        }
        if wanted.order < new.order || wanted.classzone > new.classzone {
            return new;
        }
        self.kswapd_try_to_sleep(node, achieved);
        requests.take()
    }

    /// Returns the request that kswapd balances next, under the choice `KswapdRequest::Order`: only the highest order
    /// that was requested is recorded, and no class zone. If that order is above the order of `wanted`, returns at
    /// once; otherwise tries to sleep first. After a sleep, the returned order stays recorded while `balance_pgdat`
    /// runs. So requests of at most this order that arrive during the run are forgotten when the run ends.
    fn next_order(&self, node: NodeId, wanted: Request) -> Request {
        let requests = &self.node_state(node).requests;
        let any = ANY_CLASSZONE as usize;
        let new = Order(requests.max_order.swap(0, Relaxed) as u8);
        if wanted.order < new {
            return Request { order: new, classzone: any };
        }
        self.kswapd_try_to_sleep(node, wanted);
        Request { order: Order(requests.max_order.load(Relaxed) as u8), classzone: any }
    }

    /// Sets the distance from the min mark to the low mark of each zone of a node, by the rate at which pages were
    /// allocated since the last change. Pages that were dropped at once after one use count only up to the number of
    /// pages that may wait for admission, because the memory of a dropped page is free again.
    fn move_marks(&self, node: NodeId) {
        match self.memory().choices.mark_distance {
            MarkDistance::QuarterOfMin => return,
            MarkDistance::ByRate => {}
        }
        let mut moved = self.node_state(node).marks_moved.lock();
        let now = self.machine.now();
        let time = now.since(moved.0);
        if time < MARKS_REST {
            return;
        }
        for (n, id) in self.memory().node(node).zones.iter().enumerate() {
            let zone = self.memory().zone(*id);
            let counts = [ZoneEvent::Pgalloc, ZoneEvent::LruUsedOnce].map(|event| zone.stat.get(event));
            let before = std::mem::replace(&mut moved.1[n], counts);
            let [taken, given_back] = [0, 1].map(|n| {
                let lately = counts[n] - before[n];
                (u128::from(lately) * u128::from(MARKS_LEAD.0) / u128::from(time.0)) as u64
            });
            let in_lead = taken.saturating_sub(given_back) + given_back.min(self.lru().waiting_max_of_all());
            // The distance grows at once and falls by halves, because another burst often follows.
            let wanted = in_lead.max(zone.distance.load(Relaxed) / 2).min(zone.distance_max());
            zone.distance.store(wanted, Relaxed);
        }
        moved.0 = now;
    }

    /// Sleeps until kswapd is woken. With `KswapdSleep::AtOnce`, kswapd sleeps at once. Otherwise it first naps for 100
    /// ms, and sleeps only if the node is still balanced afterwards.
    fn kswapd_try_to_sleep(&self, node: NodeId, balanced: Request) {
        let state = self.node_state(node);
        let mut ticket = self.machine.ticket(&state.kswapd_wait);
        state.requests.begin_sleep();
        let mut time_left = Nanos(0);
        match self.choices.kswapd_sleep {
            KswapdSleep::AtOnce => {
                // A task that requested a higher order before it could see kswapd sleep has not woken kswapd.
                let is_done = !state.requests.is_above(balanced.order) && !self.releases_waiters(node);
                if is_done && !self.machine.is_killed() {
                    self.machine.sleep(&state.kswapd_wait, ticket, None);
                }
                return state.requests.end_sleep();
            }
            KswapdSleep::AfterNap => {}
        }
        if self.may_sleep(node, time_left, balanced) {
            let deadline = self.machine.now() + TRIAL_SLEEP;
            time_left = self.machine.sleep(&state.kswapd_wait, ticket, Some(deadline));
            ticket = self.machine.ticket(&state.kswapd_wait);
        }
        if self.may_sleep(node, time_left, balanced) {
            self.memory().node(node).zones.iter().for_each(|id| self.note_kswapd_sleeps(self.memory().zone(*id)));
            self.machine.sleep(&state.kswapd_wait, ticket, None);
        } else if time_left > Nanos(0) {
            self.stat.count(Event::KswapdLowWmarkHitQuickly, 1);
        } else {
            self.stat.count(Event::KswapdHighWmarkHitQuickly, 1);
        }
        state.requests.end_sleep();
    }

    fn may_sleep(&self, node: NodeId, time_left: Nanos, balanced: Request) -> bool {
        if time_left > Nanos(0) || self.machine.is_killed() {
            return false;
        }
        !self.releases_waiters(node) && self.is_balance_kept(node, balanced)
    }

    /// Wakes the direct reclaimers that wait until the node's reserve is filled, and returns whether there were any.
    /// Called before kswapd sleeps, because no task may wait for a sleeping kswapd.
    fn releases_waiters(&self, node: NodeId) -> bool {
        let state = self.node_state(node);
        let are_there = state.waiters.load(Relaxed) > 0;
        if are_there {
            self.machine.wake(&state.reserve_wait);
        }
        are_there
    }

    /// Wakes the kswapds of the zones in a zonelist because of a request, as [`Reclaim::wake_kswapd`] does. With
    /// `ZoneBalance::AnyUsableZone`, which looks at all zones of a node, each node is asked once ("mm, vmscan: only
    /// wakeup kswapd once per node for the requested classzone", Linux 4.8).
    pub(crate) fn wake_kswapds(&self, zonelist: &[ZoneId], order: Order, classzone: usize) {
        let zones = zonelist.iter().map(|id| self.memory().zone(*id));
        let wake = |zone| self.wake_kswapd(zone, order, classzone);
        match self.choices.zone_balance {
            ZoneBalance::AnyUsableZone => {
                let mut last = None;
                zones.filter(|zone| last.replace(zone.node) != Some(zone.node)).for_each(wake);
            }
            ZoneBalance::AllZones | ZoneBalance::AnySuitableZone | ZoneBalance::QuarterOfUsable => zones.for_each(wake),
        }
    }

    /// Wakes the kswapd of a zone's node because of a request, if kswapd sleeps and the zone is below its low mark.
    /// With `ZoneBalance::AnyUsableZone`, the zone's low mark does not matter: kswapd is woken if no zone of the node
    /// that the request can use is above its high mark.
    pub(crate) fn wake_kswapd(&self, zone: &Zone<M>, order: Order, classzone: usize) {
        let state = self.node_state(zone.node);
        let is_above_low = || match self.choices.zone_balance {
            ZoneBalance::AnyUsableZone => {
                self.has_kswapd_failed(zone.node)
                    || !self.is_boosted(zone.node, classzone)
                        && self.is_any_zone_balanced(zone.node, Request { order, classzone })
            }
            ZoneBalance::AllZones | ZoneBalance::AnySuitableZone | ZoneBalance::QuarterOfUsable => {
                zone.is_above(zone.low() + zone.boost(), order, 0, MarkRights::default())
            }
        };
        match self.choices.wake_record {
            WakeRecord::BelowLow if is_above_low() => return,
            WakeRecord::BelowLow | WakeRecord::Always => {}
        }
        if !state.requests.note(order, classzone as u32) || is_above_low() {
            return;
        }
        self.machine.wake(&state.kswapd_wait);
    }

    /// Ends a pass of kswapd. Releases waiting direct reclaimers if the reserve is full again, or if kswapd cannot fill
    /// it.
    pub(super) fn end_pass(&self, node: NodeId, reclaimed: u64) {
        let state = self.node_state(node);
        if reclaimed > 0 {
            state.fruitless_passes.store(0, Relaxed);
        } else {
            state.fruitless_passes.fetch_add(1, Relaxed);
        }
        if state.waiters.load(Relaxed) > 0 && !self.waits_for_reserve(node) {
            self.machine.wake(&state.reserve_wait);
        }
    }

    /// Returns whether direct reclaim has to wait for the node's kswapd: the node's reserve
    /// ([`Reclaim::is_reserve_ok`]) is used up, and kswapd has not failed to fill it lately.
    pub(super) fn waits_for_reserve(&self, node: NodeId) -> bool {
        let has_kswapd = !self.has_kswapd_failed(node);
        let is_in_vain = self.node_state(node).fruitless_passes.load(Relaxed) > FRUITLESS_PASSES_MAX;
        has_kswapd && !self.is_reserve_ok(node) && !is_in_vain
    }
}
