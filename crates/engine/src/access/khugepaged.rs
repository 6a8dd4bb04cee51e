//! Khugepaged: ranges of small pages become huge pages (`collapse_huge_page`).
//!
//! A range whose fault got no huge page, because no block was free, may get one later. Khugepaged scans the regions
//! that may have huge pages, a few ranges at a time. If enough pages of a range are present, and all of these are
//! writable and without other owners, khugepaged allocates a huge page, copies the pages into it and lets one entry map
//! it. Otherwise the range stays as it is until the next scan. *Locks*: the range's `page_table`. *Description*: the
//! kernel's own, Documentation/vm/transhuge.txt.

use super::Access;
use super::choices::{HugePages, Khugepaged, KhugepagedDefrag};
use crate::anonymous::Region;
use crate::anonymous::region::ENTRIES;
use crate::lru::Insert;
use crate::memory::GroupId;
use crate::memory::{Flags, Gfp, PAGEBLOCK_ORDER};
use crate::stat::Event;
use crate::task::Task;
use machine::atomic::AtomicU64;
use machine::atomic::Ordering::{Acquire, Relaxed};
use machine::{FrameNumber, Func, Lock, Machine, Nanos, Step};
use std::sync::Arc;

/// Counts of khugepaged's work, as its folder in sysfs shows them.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Number of ranges that became huge pages (`pages_collapsed`).
    collapsed: AtomicU64,
    /// Number of completed scans of all regions (`full_scans`).
    full_scans: AtomicU64,
}

/// The place at which khugepaged continues its scan of regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ScanPosition {
    /// Number of the first region that is not scanned yet.
    region: u32,
    /// Number of the first page in `region` that is not scanned yet.
    page: u32,
}

/// The outcome of khugepaged's scan of one range, or of a round of several ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// Khugepaged continues with the next ranges. Each scanned range became a huge page, or could not become one.
    GoesOn,
    /// A range could become a huge page, but khugepaged got no memory for it.
    NoMemory,
}

impl<M: Machine> Access<M> {
    /// Returns whether this kernel has a khugepaged.
    pub(crate) fn has_khugepaged(&self) -> bool {
        match (self.choices.huge_pages, self.choices.khugepaged) {
            (HugePages::Always, Khugepaged::On) => true,
            (HugePages::Never, _) | (_, Khugepaged::Off) => false,
        }
    }

    /// Returns the number of ranges that khugepaged has collapsed into huge pages (`khugepaged/pages_collapsed`).
    #[must_use]
    pub fn pages_collapsed(&self) -> u64 {
        self.khugepaged.collapsed.load(Relaxed)
    }

    /// Returns the number of completed scans of all regions (`khugepaged/full_scans`).
    #[must_use]
    pub fn full_scans(&self) -> u64 {
        self.khugepaged.full_scans.load(Relaxed)
    }

    /// Runs khugepaged; returns when it is killed.
    pub(crate) fn run_khugepaged(&self) {
        let mut task = Task::khugepaged();
        let mut place = ScanPosition::default();
        while !self.machine.is_killed() {
            let sleeps_ms = match self.khugepaged_round(&mut task, &mut place) {
                Looked::GoesOn => self.choices.khugepaged_scan_sleep_ms,
                Looked::NoMemory => self.choices.khugepaged_alloc_sleep_ms,
            };
            self.machine.pause(Nanos::from_millis(sleeps_ms));
        }
    }

    /// Scans the next ranges until it has scanned `khugepaged_pages_to_scan` pages or each range once. Ends early with
    /// [`Looked::NoMemory`] if a range qualifies but no huge page can be allocated.
    fn khugepaged_round(&self, task: &mut Task, place: &mut ScanPosition) -> Looked {
        let _span = self.machine.span(Func::Khugepaged);
        // A page in a batch, on its way to an LRU list, has one reference too many for a collapse. So the batch of this
        // CPU is drained. A page in the batch of another CPU stays there and prevents the collapse. This is assumed; no
        // source describes it for these kernels.
        self.lru().drain_before_use();
        let mut regions = self.anonymous().regions();
        regions.retain(|region| region.is_huge_allowed);
        regions.sort_unstable_by_key(|region| region.id);
        let (behind, before): (Vec<_>, Vec<_>) = regions.into_iter().partition(|region| region.id < place.region);
        let mut left = self.choices.khugepaged_pages_to_scan;
        for (n, regions) in [before, behind].into_iter().enumerate() {
            if n == 1 {
                self.khugepaged.full_scans.fetch_add(1, Relaxed);
                *place = ScanPosition::default();
            }
            for region in regions {
                let first = if region.id == place.region { place.page } else { 0 };
                *place = ScanPosition { region: region.id, page: first };
                while place.page + ENTRIES <= region.pages {
                    if left == 0 || self.machine.is_killed() {
                        return Looked::GoesOn;
                    }
                    left = left.saturating_sub(ENTRIES);
                    let start = place.page;
                    place.page += ENTRIES;
                    if self.look_at_range(task, &region, start) == Looked::NoMemory {
                        return Looked::NoMemory;
                    }
                    self.machine.cond_resched();
                }
                // A visit to a region costs something even if the region has no range, so it counts as a page.
                left = left.saturating_sub(1);
                *place = ScanPosition { region: region.id + 1, page: 0 };
            }
        }
        Looked::GoesOn
    }

    /// Collapses a range into a huge page, if possible. Returns the result for this range.
    fn look_at_range(&self, task: &mut Task, region: &Arc<Region<M>>, start: u32) -> Looked {
        let first = {
            let _guard = region.page_table(start).lock();
            match self.collapsible_pages(region, start) {
                Some(frames) => frames.first().map(|(_, frame)| *frame),
                None => None,
            }
        };
        let Some(first) = first else { return Looked::GoesOn };
        let wait = match self.choices.khugepaged_defrag {
            KhugepagedDefrag::Yes => true,
            KhugepagedDefrag::No => false,
        };
        let gfp = Gfp { wait, node: Some(self.memory().zone_of(first).node), ..Gfp::HUGE_PAGE };
        // The huge page is charged to the group that has the small ones.
        task.group = self.frames.group(first);
        let head = self.allocate(task, gfp, PAGEBLOCK_ORDER);
        (task.group, task.over_high_pages) = (GroupId::ROOT, 0);
        let Ok(head) = head else {
            self.stat.count(Event::ThpCollapseAllocFailed, 1);
            return Looked::NoMemory;
        };
        self.stat.count(Event::ThpCollapseAlloc, 1);
        if self.collapse(region, start, head) {
            self.khugepaged.collapsed.fetch_add(1, Relaxed);
            self.lru().add(head, Insert::Moved, self.choices.new_anonymous.is_active());
            self.lru().put(head);
        } else {
            self.memory().free_block(head, PAGEBLOCK_ORDER);
        }
        Looked::GoesOn
    }

    /// Returns the frames of a range's pages, each with its page's number in the range; `None` if the range cannot be
    /// collapsed. It can be collapsed if enough pages are present, at least one of them was touched lately, and each of
    /// them is writable and has only the reference of its page-table entry. A page that is pinned, isolated, in a batch
    /// or in the swap cache prevents this, and so does the shared zero page. The caller holds the entries' lock.
    fn collapsible_pages(&self, region: &Region<M>, start: u32) -> Option<Vec<(u32, FrameNumber)>> {
        let entries = region.small_entries(start)?;
        let (mut frames, mut absent, mut is_touched) = (Vec::new(), 0, false);
        let mut looked = 0;
        let is_fit = (0..).zip(entries).all(|(n, entry)| {
            looked += 1;
            if entry.is_none() {
                absent += 1;
                return absent <= self.choices.khugepaged_max_ptes_none;
            }
            let Some(frame) = entry.frame() else { return false };
            let descriptor = &self.frames[frame];
            frames.push((n, frame));
            is_touched |= entry.is_accessed();
            entry.allows(true)
                && descriptor.references_exact() == 1
                && descriptor.is(Flags::UPTODATE)
                && !descriptor.is(Flags::SWAPCACHE)
                && !descriptor.is(Flags::LOCKED)
                && !descriptor.is(Flags::HAZARD)
        });
        // Reading the entries costs little, because a cache line of the table holds eight entries. The descriptors of
        // the pages cost more: each lies in another cache line.
        self.machine.spend(Step::ScanFrame, looked);
        let may_change = !region.is_closing.load(Acquire) && !region.is_filling();
        (is_fit && is_touched && may_change).then_some(frames)
    }

    /// Copies the pages of a range into a fresh block, and makes one entry map the block as a huge page. Returns
    /// `false` if the range can no longer be collapsed. On success the caller has a reference to the huge page, because
    /// the region may be dropped before the page is on a list.
    fn collapse(&self, region: &Region<M>, start: u32, head: FrameNumber) -> bool {
        let _span = self.machine.span(Func::CollapseHugePage);
        let frames = {
            let _guard = region.page_table(start).lock();
            let Some(frames) = self.collapsible_pages(region, start) else { return false };
            // No simulated time may pass from here until the entry is changed, because a task that finds a frozen page
            // tries again in a loop.
            let frozen = frames.iter().take_while(|(_, frame)| self.frames[*frame].freeze(1)).count();
            if frozen < frames.len() {
                frames[..frozen].iter().for_each(|(_, frame)| self.frames[*frame].set_references(1));
                return false;
            }
            let mut next = 0;
            let zero = |from: u32, to: u32| (from..to).for_each(|n| self.machine.zero_frame(FrameNumber(head.0 + n)));
            for (n, frame) in &frames {
                zero(next, *n);
                self.machine.copy_frame(*frame, FrameNumber(head.0 + n));
                next = n + 1;
            }
            zero(next, ENTRIES);
            region.replace_by_huge(start, head);
            for (_, frame) in &frames {
                let has_reference = self.anonymous().unmapped(*frame);
                debug_assert!(has_reference, "{frame} was frozen as a page of its own");
            }
            self.frames[head].get();
            self.map_new_huge(region, start, head);
            // Each page has its last reference again, as after any unmapping. Dropping this reference below frees the
            // page, which then leaves its list.
            frames.iter().for_each(|(_, frame)| self.frames[*frame].set_references(1));
            let copied = frames.len() as u32;
            self.machine.spend_on(Step::CopyPage, head, copied);
            self.machine.spend_on(Step::ZeroPage, head, ENTRIES - copied);
            self.machine.spend(Step::PteSet, ENTRIES);
            self.machine.spend(Step::FreePage, copied);
            frames
        };
        let frames: Vec<FrameNumber> = frames.into_iter().map(|(_, frame)| frame).collect();
        self.lru().put_pages(&frames);
        true
    }
}
