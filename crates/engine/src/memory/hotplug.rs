//! Memory that comes online and goes offline while the engine runs, and the sizes that depend on the amount of memory.
//!
//! Frames come online for the first time in ascending order ([`Memory::online_pages`]). Frames that never came online
//! cost nothing. Single pages, at any place, can go offline again after a caller has allocated them
//! ([`Memory::take_offline`]). A balloon ([`crate::allocate::balloon`]) takes pages offline. After such changes,
//! watermarks, reserves and the sizes of per-CPU lists are computed anew ([`Memory::set_marks`]). *Description*:
//! mechanisms/reclaim, 2, 3, 7.

use super::buddy::FreeLists;
use super::free_area::{BLOCK_PAGES, MigrateType};
use super::per_cpu_size::PerCpuSize;
use super::{Flags, Memory, Zone, watermark};
use crate::stat::Gauge;
use machine::atomic::Ordering::Relaxed;
use machine::{FrameNumber, Lock, Machine, Order};

/// Largest number of deferred pages (free pages that are on no list yet) that are put on the free lists at a time: 2^16
/// pages (256 MiB), whose descriptors fill one huge page.
const LISTED_NEXT: u64 = 1 << 16;

impl<M: Machine> Memory<M> {
    /// Returns the number of pages that never count as dirtyable, summed over all zones.
    pub fn reserve_pages(&self) -> u64 {
        self.reserve_pages.load(Relaxed)
    }

    /// Returns the number of pages that the allocator manages at present, summed over all zones.
    pub fn managed_pages(&self) -> u64 {
        self.zones.iter().map(Zone::managed).sum()
    }

    /// Brings frames of a zone online for the first time, at most `pages` of them. Returns the number of frames added.
    pub fn online_pages(&self, zone: &Zone<M>, pages: u64) -> u64 {
        let added = self.bring_online(zone, pages);
        zone.managed.fetch_add(added, Relaxed);
        self.set_marks();
        added
    }

    /// Takes a page away from the allocator, so that the machine under the engine may take the page's memory. The
    /// caller has allocated the page. The watermarks do not change until the caller calls [`Memory::set_marks`].
    #[doc(alias = "adjust_managed_page_count")]
    pub fn take_offline(&self, frame: FrameNumber) {
        self.frames[frame].set(Flags::OFFLINE);
        self.zone_of(frame).managed.fetch_sub(1, Relaxed);
    }

    /// Gives a page that was taken offline back to the allocator.
    pub fn put_online(&self, frame: FrameNumber) {
        self.zone_of(frame).managed.fetch_add(1, Relaxed);
        self.frames[frame].clear(Flags::OFFLINE);
        self.free_block(frame, Order::ZERO);
    }

    /// Returns the present `min_free_kbytes`, in KiB. This is the value that was set last. If no value was set, it is
    /// computed from the choices and the number of managed pages.
    pub fn min_free_kbytes(&self) -> u64 {
        match self.min_free_kbytes.load(Relaxed) {
            0 => watermark::min_free_kbytes(&self.choices, self.managed_pages(), self.zones.len() as u64),
            kib => kib,
        }
    }

    /// Sets the sysctl `min_free_kbytes`, in KiB, while the engine runs, and computes the watermarks anew. With 0, the
    /// choices decide the value again. The reserve pageblocks, which were chosen at the start, stay as they are.
    #[doc(alias = "min_free_kbytes_sysctl_handler")]
    pub fn set_min_free_kbytes(&self, kib: u64) {
        self.min_free_kbytes.store(kib, Relaxed);
        self.set_marks();
    }

    /// Computes watermarks, reserves and the sizes of per-CPU lists from the present number of managed pages, and sets
    /// them.
    #[doc(alias = "setup_per_zone_wmarks")]
    pub fn set_marks(&self) {
        self.set_lowmem_reserves();
        let lowmem_pages = self.managed_pages();
        let min_free_kbytes = self.min_free_kbytes();
        let mut total = min_free_kbytes / 4;
        // CPUs of each node, if all nodes have the same number.
        let cpus = (self.machine.cpus() / self.nodes.len()).max(1) as u64;
        for zone in &self.zones {
            let managed = zone.managed();
            let marks = watermark::marks(min_free_kbytes, managed, lowmem_pages, self.choices.watermark_scale_factor);
            zone.boost_max
                .store(watermark::boost_max(self.choices.watermark_boost_factor, managed, marks.high), Relaxed);
            for (mark, pages) in zone.marks.iter().zip([marks.min, marks.low, marks.high]) {
                mark.store(pages, Relaxed);
            }
            zone.distance.fetch_min(zone.distance_max(), Relaxed);
            let largest = zone.lowmem_reserve.iter().map(|pages| pages.load(Relaxed)).max().unwrap_or(0);
            let reserve = managed.min(largest + marks.high);
            zone.dirty_balance_reserve.store(reserve, Relaxed);
            zone.set_per_cpu_size(PerCpuSize::new(self.choices.per_cpu_size, managed, marks.low, cpus));
            total += reserve;
        }
        self.reserve_pages.store(total, Relaxed);
    }

    /// Sets the `lowmem_reserve` of all zones (mechanisms/reclaim, 2).
    fn set_lowmem_reserves(&self) {
        for node in &self.nodes {
            for class in 0..3 {
                let mut above = 0;
                for id in node.zones.iter().rev() {
                    let zone = self.zone(*id);
                    let kind = zone.kind as usize;
                    if kind > class {
                        continue;
                    }
                    if kind < class {
                        let reserve = above / self.choices.lowmem_reserve_ratio[kind].max(1);
                        zone.lowmem_reserve[class].store(reserve, Relaxed);
                    }
                    above += zone.managed();
                }
            }
        }
    }

    /// Sets some pageblocks of an empty zone aside as a reserve for requests that no other pageblock can serve.
    pub(super) fn set_reserve_blocks(&self, zone: &Zone<M>) {
        let reserve = zone.min().div_ceil(BLOCK_PAGES).min(self.choices.reserve_pageblocks);
        for block in 0..reserve.min(zone.managed() / BLOCK_PAGES / 4) {
            let frame = FrameNumber(zone.start.0 + (block * BLOCK_PAGES) as u32);
            zone.set_block_type(frame, MigrateType::Reserve);
        }
    }

    /// Brings frames of the zone online for the first time, at most `pages` of them, and makes them free. Frames beyond
    /// the zone's `listed_first` become deferred: they count as free, but are on no list yet. Returns the number of
    /// frames added.
    pub(super) fn bring_online(&self, zone: &Zone<M>, pages: u64) -> u64 {
        let mut area = zone.free.lock();
        let added = pages.min(zone.spanned - zone.present());
        let now = match zone.listed_first {
            None => added,
            Some(_) if zone.deferred() > 0 => 0,
            Some(first) => first.saturating_sub(zone.online()).min(added),
        };
        FreeLists::new(zone, &self.frames, &mut area).list_next(now);
        if added > now {
            zone.deferred.fetch_add(added - now, Relaxed);
            zone.gauges.add(Gauge::NrFreePages, (added - now) as i64);
        }
        added
    }
}

impl<M: Machine> FreeLists<'_, M> {
    /// Puts the next `pages` frames of the zone on the free lists: those that follow the frames that have been online
    /// so far.
    fn list_next(&mut self, pages: u64) {
        let zone = self.zone();
        let (start, end) = (zone.online(), zone.online() + pages);
        // A merged block goes to the list of the part that was freed last. Reserve pageblocks are freed last, so they
        // stay on the reserve's list.
        for is_reserve in [false, true] {
            let mut offset = start;
            while offset < end {
                // Blocks are whole pageblocks, or smaller where the last call ended, or this call ends, in the middle
                // of a pageblock.
                let fits = |order: &Order| offset.is_multiple_of(order.pages()) && order.pages() <= end - offset;
                let largest = (0..=super::PAGEBLOCK_ORDER.0).rev().map(Order).find(fits).unwrap_or(Order::ZERO);
                let head = FrameNumber(zone.start.0 + offset as u32);
                let kind = zone.block_type(head);
                if (kind == MigrateType::Reserve) == is_reserve {
                    self.free(head, largest, kind);
                }
                offset += largest.pages();
            }
        }
        zone.online.store(end, Relaxed);
    }

    /// Puts deferred frames (free frames that are on no list yet) on the free lists, and returns whether there were
    /// any. The gauge of free pages counts deferred frames already.
    #[cold]
    pub(super) fn list_deferred(&mut self) -> bool {
        let zone = self.zone();
        let pages = zone.deferred().min(LISTED_NEXT - zone.online() % LISTED_NEXT);
        if pages == 0 {
            return false;
        }
        self.list_next(pages);
        zone.deferred.fetch_sub(pages, Relaxed);
        self.uncount(pages);
        true
    }
}
