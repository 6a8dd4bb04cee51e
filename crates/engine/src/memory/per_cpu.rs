//! Per-CPU lists of single pages, in front of the zone lock.
//!
//! *Locks*: interrupts are off on the CPU while its lists are used. Inside, the zone's `free` lock is taken for a
//! refill or a flush of one batch. *Description*: mechanisms/reclaim, 7.

use super::buddy::{FreeLists, prefetch_buddies};
use super::choices::PerCpuSize;
use super::frame::Flags;
use super::free_area::{MigrateType, Mixing};
use super::list::List;
use super::per_cpu_size::Tuning;
use super::{Memory, Zone};
use machine::{FrameNumber, Func, Lock, Machine, Order, PerCpu, Step};
use std::collections::VecDeque;

/// A CPU's free pages of one zone.
#[derive(Debug, Default)]
pub struct PerCpuPages {
    lists: [VecDeque<FrameNumber>; MigrateType::PER_CPU],
    count: u32,
    tuning: Tuning,
    /// The page, on a free list of the zone, up to which descriptors of pages were prefetched for the next refill;
    /// `None` if no page is left to prefetch.
    refill_from: Option<FrameNumber>,
}

impl PerCpuPages {
    /// Returns the pages on the lists: one list for each migrate type, each from its head to its tail.
    pub fn pages(&self) -> impl Iterator<Item = FrameNumber> + '_ {
        self.lists.iter().flatten().copied()
    }
}

/// The likelihood that the CPU's cache holds a page. It decides at which end of a per-CPU list a freed page is put, or
/// a page is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// The CPU's cache is likely to hold the page, so the page is put at, or taken from, the head of the list.
    Hot,
    /// The CPU's cache is not likely to hold the page, so the page is put at, or taken from, the tail of the list.
    Cold,
}

impl<M: Machine> Memory<M> {
    /// Takes a single page from the local CPU's list. If the list is empty, refills it from the zone first. Returns
    /// `None` if the zone has no page either.
    pub(super) fn take_per_cpu(
        &self,
        zone: &Zone<M>,
        kind: MigrateType,
        warmth: Warmth,
        mixing: Mixing,
    ) -> Option<FrameNumber> {
        let mut slots = self.per_cpu.local();
        let pages = &mut slots[usize::from(zone.id.0)];
        let list = &mut pages.lists[kind as usize];
        if list.is_empty() {
            let _span = self.machine.span(Func::RmqueueBulk);
            let mut area = zone.free.lock();
            let refill = pages.tuning.refill(zone.per_cpu_size(), pages.count, || Self::is_scarce(zone));
            let mut lists = FreeLists::new(zone, &self.frames, &mut area);
            while (list.len() as u32) < refill {
                let Some(frame) = lists.take(Order::ZERO, kind, mixing, &self.choices) else { break };
                self.frames[frame].set_free(Flags::PER_CPU);
                // Each page goes to the tail, so that pages leave the list in ascending order of addresses.
                list.push_back(frame);
                pages.count += 1;
            }
            pages.refill_from = lists.first_single(kind);
            drop(lists);
            self.machine.spend(Step::BuddyTake, list.len() as u32);
        }
        let frame = match warmth {
            Warmth::Hot => list.pop_front(),
            Warmth::Cold => list.pop_back(),
        }?;
        pages.count -= 1;
        self.frames[frame].clear_free(Flags::PER_CPU);
        // Prefetches for the next refill, which walks under the zone's lock through pages that were not touched lately.
        pages.refill_from = pages.refill_from.and_then(|next| List::look_behind(&self.frames, next));
        self.machine.spend(Step::AllocateFast, 1);
        Some(frame)
    }

    /// Adds a freed page to the local CPU's list of the page's migrate type. If the CPU's lists then hold too many
    /// pages, moves a batch of them to the zone's free lists.
    pub(super) fn free_per_cpu(&self, zone: &Zone<M>, frame: FrameNumber, warmth: Warmth) {
        let kind = match zone.block_type(frame) {
            MigrateType::Reserve => MigrateType::Movable,
            kind => kind,
        };
        let mut slots = self.per_cpu.local();
        let pages = &mut slots[usize::from(zone.id.0)];
        self.frames[frame].set_free(Flags::PER_CPU);
        if warmth == Warmth::Cold {
            // A page at the tail is among the next to be flushed, so its buddies are prefetched.
            prefetch_buddies(zone, &self.frames, frame);
        }
        match warmth {
            Warmth::Hot => pages.lists[kind as usize].push_front(frame),
            Warmth::Cold => pages.lists[kind as usize].push_back(frame),
        }
        pages.count += 1;
        self.machine.spend(Step::AllocateFast, 1);
        let rule = self.choices.per_cpu_size;
        // With fixed sizes, there is no limit to adapt when a page is freed below it.
        if matches!(rule, PerCpuSize::SixBatches) && pages.count < zone.per_cpu_high_min() {
            return;
        }
        let size = zone.per_cpu_size();
        let limit = pages.tuning.limit_at_free(rule, size, zone.kswapd_works(), || Self::is_scarce(zone));
        if pages.count >= limit {
            self.flush(zone, pages, size.batch);
        }
    }

    /// Returns whether a zone is below its high mark.
    fn is_scarce(zone: &Zone<M>) -> bool {
        zone.free_pages() < zone.high()
    }

    /// Moves all pages from the lists of all CPUs to the free lists.
    pub fn drain_all_per_cpu(&self) {
        self.per_cpu.for_each_cpu(|slots| self.drain(slots));
    }

    /// Moves all pages from the lists of the local CPU to the free lists.
    pub fn drain_local_per_cpu(&self) {
        let mut slots = self.per_cpu.local();
        self.drain(&mut slots);
    }

    fn drain(&self, slots: &mut [PerCpuPages]) {
        for (zone, pages) in self.zones.iter().zip(slots) {
            if pages.count > 0 {
                self.flush(zone, pages, pages.count);
            }
        }
    }

    /// Moves `n` pages from a CPU's lists to the free lists. The lists that have pages are visited in turn. From each
    /// of them, one page is taken, plus one page for each empty list that was just passed over. If only one list has
    /// pages, all `n` pages are taken from it.
    fn flush(&self, zone: &Zone<M>, pages: &mut PerCpuPages, n: u32) {
        let _span = self.machine.span(Func::FreePcppagesBulk);
        let mut area = zone.free.lock();
        zone.note_freed();
        let mut lists = FreeLists::new(zone, &self.frames, &mut area);
        let mut left = n.min(pages.count);
        let mut kind = 0;
        self.machine.spend(Step::BuddyTake, left);
        while left > 0 {
            let mut take = 0;
            loop {
                take += 1;
                kind = (kind + 1) % MigrateType::PER_CPU;
                if !pages.lists[kind].is_empty() {
                    break;
                }
            }
            if take == MigrateType::PER_CPU as u32 {
                take = left;
            }
            while take > 0 && left > 0 {
                let Some(frame) = pages.lists[kind].pop_back() else { break };
                self.frames[frame].clear_free(Flags::PER_CPU);
                lists.free(frame, Order::ZERO, zone.block_type(frame));
                take -= 1;
                left -= 1;
                pages.count -= 1;
            }
        }
    }
}
