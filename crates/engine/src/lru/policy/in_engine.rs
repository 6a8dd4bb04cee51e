//! Policies other than classic, in the engine: one lock and one value of the policy for each lruvec.
//!
//! Pages of both families are in one order, and are counted as inactive file pages (`lru.lists = "two"`). There are no batches:
//! an insertion takes the lock, and so does a use where the policy wants to know each. Otherwise a use is a store to the page's
//! word: `REFERENCED` for the first, `USED_AGAIN` for those after it, which a judgement takes back.

use super::classic::{Family, ListKind};
use super::simple;
use super::{CLUSTER, Insert, Pages, Policy, Seen, Taken, Verdict, Victims};
use crate::anonymous::Owners;
use crate::lru::Lru;
use crate::lru::choices::PolicyKind;
use crate::memory::{Flags, FrameTable, Warmth, Zone, ZoneKind};
use crate::page_cache::Shadow;
use crate::stat::ZoneEvent;
use machine::{FrameNumber, Func, Lock, LockClass, Machine, Order, Step};
use std::sync::OnceLock;

/// A policy for the engine.
pub type OwnPolicy = Box<dyn Policy<FrameTable>>;

/// Makes the policy that a program brought.
static OWN: OnceLock<fn() -> OwnPolicy> = OnceLock::new();

/// Brings a policy of the program's own: kernels with `lru.policy = "own"` run it from now on, with one value for each lruvec.
///
/// # Errors
/// When the program has brought one before.
pub fn set_own(make: fn() -> OwnPolicy) -> Result<(), AlreadySet> {
    OWN.set(make).map_err(|_| AlreadySet)
}

/// The program has brought a policy before ([`set_own`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadySet;

impl std::fmt::Display for AlreadySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this program has brought a policy before")
    }
}

impl std::error::Error for AlreadySet {}

/// Has the program brought a policy?
pub(crate) fn has_own() -> bool {
    OWN.get().is_some()
}

/// A policy of this kind; none where classic does it.
///
/// # Panics
/// When the program has brought none and a kernel asks for it; [`crate::kernel::Choices::check`] refuses that before.
fn make(kind: PolicyKind) -> Option<OwnPolicy> {
    match kind {
        PolicyKind::Classic | PolicyKind::Multigen => None,
        PolicyKind::Lru => Some(Box::new(simple::Lru::default())),
        PolicyKind::Clock => Some(Box::new(simple::Clock::default())),
        PolicyKind::Own => Some(OWN.get().expect("the choices were checked")()),
    }
}

/// The policies of all lruvecs, by lruvec.
pub(in crate::lru) struct InEngine<M: Machine> {
    by_lruvec: Vec<M::Lock<OwnPolicy>>,
    moves_on_use: bool,
}

impl<M: Machine> InEngine<M> {
    /// One for each lruvec, unless the kind is classic.
    pub(in crate::lru) fn new(machine: &M, kind: PolicyKind, lruvecs: usize) -> Option<Self> {
        let first = make(kind)?;
        let moves_on_use = first.moves_on_use();
        let others = (1..lruvecs).filter_map(|_| make(kind));
        let by_lruvec =
            std::iter::once(first).chain(others).map(|policy| machine.lock(LockClass::Lru, policy)).collect();
        Some(Self { by_lruvec, moves_on_use })
    }
}

/// All pages are counted there.
const COUNTED: ListKind = ListKind::InactiveFile;

/// Calls of [`Lru`] where a policy other than classic rules; `own` is that.
impl<M: Machine> Lru<M> {
    pub(in crate::lru) fn own_of<'a>(&self, own: &'a InEngine<M>, zone: &Zone<M>) -> &'a M::Lock<OwnPolicy> {
        &own.by_lruvec[usize::from(zone.lruvec.0)]
    }

    pub(in crate::lru) fn insert_own(&self, own: &InEngine<M>, frame: FrameNumber, how: Insert) {
        let _span = self.machine.span(Func::PagevecLruAdd);
        let zone = self.zone_of(frame);
        let refault = match how {
            Insert::SwapIn { .. } => ZoneEvent::WorkingsetRefaultAnon,
            Insert::Read { .. } | Insert::Ahead { .. } | Insert::Write | Insert::Fault => {
                ZoneEvent::WorkingsetRefaultFile
            }
        };
        zone.stat.count(refault, how.shadow().is_some().into());
        let mut policy = self.own_of(own, zone).lock();
        self.machine.spend(Step::LruMove, 1);
        self.frames[frame].set(Flags::LRU);
        zone.gauges.add(COUNTED.gauge(), self.frames.weight(frame) as i64);
        policy.insert(&self.frames, frame, how);
    }

    /// A page was used, whose flags were `flags` before.
    pub(in crate::lru) fn note_own_use(&self, own: &InEngine<M>, frame: FrameNumber, flags: Flags) {
        if !flags.has(Flags::REFERENCED) {
            self.frames[frame].set(Flags::REFERENCED);
        }
        if own.moves_on_use {
            let zone = self.zone_of(frame);
            let mut policy = self.own_of(own, zone).lock();
            self.machine.spend(Step::LruMove, 1);
            // Under the lock: nobody takes it off meanwhile.
            if self.frames[frame].is(Flags::LRU) {
                policy.used(&self.frames, frame);
            }
        } else if flags.has(Flags::REFERENCED) {
            self.frames[frame].set(Flags::USED_AGAIN);
        }
    }

    pub(in crate::lru) fn isolate_own(&self, own: &InEngine<M>, zone: &Zone<M>, pages: u64) -> Taken {
        let _span = self.machine.span(Func::IsolateLruPages);
        let mut victims = Victims::new();
        let mut policy = self.own_of(own, zone).lock();
        policy.victims(&self.frames, pages.min(CLUSTER), &mut victims);
        let scanned = victims.len() as u64;
        self.machine.spend_on(Step::IsolatePage, zone.start, scanned as u32);
        let mut by_zone = [0; ZoneKind::ALL.len()];
        victims.retain(|frame| {
            let is_taken = self.frames[*frame].get_unless_zero();
            match is_taken {
                true => {
                    self.frames[*frame].clear(Flags::LRU);
                    by_zone[self.list_zone(zone, *frame).kind as usize] += self.frames.weight(*frame);
                }
                // Its last reference is falling: whoever drops it takes it off.
                false => policy.put_back(&self.frames, *frame, Verdict::Keep),
            }
            is_taken
        });
        let weight = self.uncount(zone, COUNTED, by_zone);
        zone.gauges.add(Family::File.isolated(), weight as i64);
        zone.note_scanned(scanned);
        Taken { entries: victims, pages: weight, scanned }
    }

    /// A given page was taken off the policy's list.
    pub(in crate::lru) fn count_own_isolated(
        &self,
        zone: &Zone<M>,
        frame: FrameNumber,
        by_family: &mut [u64; Family::ALL.len()],
    ) {
        let weight = self.frames.weight(frame);
        self.list_zone(zone, frame).gauges.add(COUNTED.gauge(), -(weight as i64));
        zone.gauges.add(Family::File.isolated(), weight as i64);
        by_family[Family::File as usize] += weight;
    }

    pub(in crate::lru) fn put_back_own(&self, own: &InEngine<M>, zone: &Zone<M>, pages: &[FrameNumber]) {
        let _span = self.machine.span(Func::PutbackInactivePages);
        let mut gone = Victims::new();
        {
            let mut policy = self.own_of(own, zone).lock();
            for &frame in pages {
                let descriptor = &self.frames[frame];
                // What reclaim made of it; the policy has marks of its own.
                let verdict = match descriptor.test_clear(Flags::ACTIVE) {
                    true => Verdict::Activate,
                    false => Verdict::Keep,
                };
                policy.put_back(&self.frames, frame, verdict);
                let weight = self.frames.weight(frame);
                if descriptor.put() {
                    // Everybody else let go meanwhile.
                    policy.remove(&self.frames, frame);
                    gone.push(frame);
                } else {
                    descriptor.set(Flags::LRU);
                    self.list_zone(zone, frame).gauges.add(COUNTED.gauge(), weight as i64);
                }
            }
            self.machine.spend(Step::LruMove, pages.len() as u32);
        }
        gone.into_iter().for_each(|frame| self.free(frame, Order::ZERO, Warmth::Cold));
    }

    pub(in crate::lru) fn unlink_own(&self, own: &InEngine<M>, zone: &Zone<M>, pages: &[FrameNumber]) {
        let mut policy = self.own_of(own, zone).lock();
        let mut moved = 0;
        for frame in pages.iter().filter(|frame| self.frames[**frame].is(Flags::LRU)) {
            policy.remove(&self.frames, *frame);
            self.frames[*frame].clear(Flags::LRU);
            zone.gauges.add(COUNTED.gauge(), -(self.frames.weight(*frame) as i64));
            moved += 1;
        }
        self.machine.spend(Step::LruMove, moved);
    }

    pub(in crate::lru) fn judge_own(&self, own: &InEngine<M>, frame: FrameNumber, owners: &mut Owners<M>) -> Verdict {
        let descriptor = &self.frames[frame];
        let mapped = self.page_referenced(frame, owners);
        let touched = mapped.touched + u32::from(descriptor.test_clear(Flags::USED_AGAIN));
        let is_referenced = descriptor.is(Flags::REFERENCED);
        self.close_page(frame, owners);
        let seen = Seen { touched, is_referenced, is_anon: descriptor.is_anon() };
        self.own_of(own, self.zone_of(frame)).lock().judge(&self.frames, frame, seen)
    }

    pub(in crate::lru) fn shadow_of_own(&self, own: &InEngine<M>, frame: FrameNumber) -> Option<Shadow> {
        self.own_of(own, self.zone_of(frame)).lock().evicted(&self.frames, frame)
    }

    pub(in crate::lru) fn for_each_own(
        &self,
        own: &InEngine<M>,
        zone: &Zone<M>,
        mut visit: impl FnMut(ListKind, FrameNumber),
    ) {
        self.own_of(own, zone).lock().for_each(&self.frames, &mut |frame| visit(COUNTED, frame));
    }
}
