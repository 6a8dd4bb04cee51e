//! Whole-machine invariants: every frame is in exactly one place, and counters add up.
//!
//! The checks may run only while no task is in the middle of an operation: after a run, or between two steps of a
//! machine with one task.

use crate::access::Access;
use crate::anonymous::region::ENTRIES;
use crate::lru::ListName;
use crate::memory::{Flags, GroupGauge, GroupId, MAX_ORDERS, MigrateType, Owner, PAGEBLOCK_ORDER};
use crate::page_cache::Tag;
use crate::slab::index_nodes::NODE_PAGES;
use crate::stat::Gauge;
use machine::{FrameNumber, Lock, Machine};
use std::collections::BTreeMap;

/// An invariant that does not hold, as a text with the expected state and the state that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

fn ensure(fact: bool, message: impl FnOnce() -> String) -> Result<(), Broken> {
    if fact { Ok(()) } else { Err(Broken(message())) }
}

/// The place at which a check has found a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    Nowhere,
    Buddy,
    PerCpu,
    Listed(ListName),
    Kernel,
    Offline,
}

impl<M: Machine> Access<M> {
    /// Checks all invariants; see [`crate::Engine::check`].
    pub(crate) fn check(&self) -> Result<(), Broken> {
        self.lru().drain_all();
        // Frames that never came online are in no place, and there may be many of them, so they are not checked.
        let end = self.zones.iter().map(|zone| zone.start.index() + zone.online() as usize).max();
        let mut places = vec![Location::Nowhere; end.unwrap_or(0)];
        self.check_free(&mut places)?;
        self.check_lists(&mut places)?;
        self.check_kernel(&mut places)?;
        self.check_files()?;
        self.check_devices()?;
        let mapped = self.check_regions()?;
        self.check_swap()?;
        self.check_groups(end.unwrap_or(0))?;
        self.check_frames(&places, &mapped)
    }

    /// Checks that the usage of each group is the number of pages of the group and its descendants, plus the pages in
    /// their stocks (pages charged in advance). Checks the usage of swap slots in the same way.
    fn check_groups(&self, end: usize) -> Result<(), Broken> {
        let Some(groups) = &self.groups else { return Ok(()) };
        self.lru().check_memcg_lru().map_err(Broken)?;
        let mut pages = vec![0; groups.room()];
        let mut slots = vec![0; groups.room()];
        // Pages of files; the dirty ones among them; those whose last write failed.
        let mut of_files = vec![[0; 3]; groups.room()];
        let mut swapped_out = vec![0; groups.room()];
        {
            let all = self.swap.slots.lock();
            all.owners().for_each(|owner| slots[usize::from(owner.0)] += 1);
            if groups.version().counts_memsw() {
                all.owners_of_swapped_out().for_each(|owner| swapped_out[usize::from(owner.0)] += 1);
            }
        }
        for frame in (0..end as u32).map(FrameNumber) {
            let group = self.frames.group(frame);
            if !group.is_root() {
                pages[usize::from(group.0)] += 1;
                if matches!(self.frames[frame].owner(), Owner::File(_)) {
                    let [file, dirty, failed] = &mut of_files[usize::from(group.0)];
                    let pages = self.frames.pages(frame);
                    *file += pages;
                    *dirty += if self.frames[frame].is(Flags::DIRTY) { pages } else { 0 };
                    *failed += if self.has_failed(frame) { pages } else { 0 };
                }
            }
        }
        for group in groups.subtree(GroupId::ROOT).iter().copied().skip(1) {
            let below = groups.subtree(group);
            let held = |id: &GroupId| pages[usize::from(id.0)] + groups.stocked_pages(*id) + groups.kernel_pages(*id);
            let found: u64 = below.iter().map(held).sum();
            let usage = groups.usage(group);
            ensure(found == usage, || {
                format!("group {}: {found} pages and objects in its subtree and in stocks, charged {usage}", group.0)
            })?;
            let counted = [GroupGauge::File, GroupGauge::FileDirty, GroupGauge::FileWriteFailed];
            let counted = counted.map(|gauge| groups.gauge(group, gauge));
            let found = of_files[usize::from(group.0)];
            ensure(found == counted, || {
                format!("group {}: {found:?} pages of files, dirty ones, and failed ones, counted {counted:?}", group.0)
            })?;
            let found: u64 = below.iter().map(|id| slots[usize::from(id.0)]).sum();
            let usage = groups.swap_usage(group);
            ensure(found == usage, || {
                format!("group {}: {found} swap slots of its subtree, charged {usage}", group.0)
            })?;
            let found: u64 = below.iter().map(|id| swapped_out[usize::from(id.0)]).sum();
            let counted = groups.swapped_out(group);
            ensure(found == counted, || {
                format!(
                    "group {}: {found} slots of its subtree whose page is not in memory, counted {counted}",
                    group.0
                )
            })?;
        }
        Ok(())
    }

    /// Returns whether the last write of a page failed, and the page is not being written again.
    fn has_failed(&self, frame: FrameNumber) -> bool {
        self.frames[frame].is(Flags::WRITE_FAILED) && !self.frames[frame].is(Flags::WRITEBACK)
    }

    fn place(&self, places: &mut [Location], frame: FrameNumber, place: Location) -> Result<(), Broken> {
        let was = std::mem::replace(&mut places[frame.index()], place);
        ensure(was == Location::Nowhere, || {
            format!("{frame} is in two places: {was:?} and {place:?}; {:?}", self.frames[frame])
        })
    }

    fn check_free(&self, places: &mut [Location]) -> Result<(), Broken> {
        for zone in &self.zones {
            let mut free = 0;
            let area = zone.free.lock();
            for order in 0..MAX_ORDERS {
                let mut blocks = 0;
                for kind in MigrateType::ALL {
                    for head in area.list(order, kind).iter(&self.frames) {
                        blocks += 1;
                        for n in 0..1 << order {
                            self.place(places, FrameNumber(head.0 + n), Location::Buddy)?;
                        }
                    }
                }
                let counted = zone.nr_free[order].load(machine::atomic::Ordering::Relaxed);
                ensure(blocks == counted, || {
                    format!("{zone}: {blocks} free blocks of order {order}, counted {counted}")
                })?;
                free += blocks << order;
            }
            let deferred = zone.deferred();
            ensure(free + deferred == zone.free_pages(), || {
                let (name, counted) = (zone.kind.name(), zone.free_pages());
                format!("zone {name}: {free} pages on free lists and {deferred} deferred, nr_free_pages {counted}")
            })?;
        }
        let mut result = Ok(());
        self.memory().for_each_per_cpu_page(|frame| {
            if result.is_ok() {
                result = self.place(places, frame, Location::PerCpu);
            }
        });
        result
    }

    fn check_lists(&self, places: &mut [Location]) -> Result<(), Broken> {
        for zone in &self.zones {
            let mut result = Ok(());
            let counts = self.lru().check_lists_of(zone, |list, frame| {
                for n in 0..self.frames.pages(frame) as u32 {
                    if result.is_ok() {
                        result = self.place(places, FrameNumber(frame.0 + n), Location::Listed(list));
                    }
                }
            });
            result?;
            counts.map_err(Broken)?;
        }
        Ok(())
    }

    fn check_kernel(&self, places: &mut [Location]) -> Result<(), Broken> {
        let mut kernel = 0;
        for n in 0..places.len() as u32 {
            if self.frames[FrameNumber(n)].is(Flags::KERNEL) {
                self.place(places, FrameNumber(n), Location::Kernel)?;
                kernel += 1;
            }
        }
        for zone in &self.zones {
            let frames = (0..zone.online() as u32).map(|offset| FrameNumber(zone.start.0 + offset));
            let mut offline = 0;
            for frame in frames.filter(|frame| self.frames[*frame].is(Flags::OFFLINE)) {
                self.place(places, frame, Location::Offline)?;
                offline += 1;
            }
            ensure(zone.managed() + offline == zone.present(), || {
                let (managed, present) = (zone.managed(), zone.present());
                format!("{zone}: {managed} pages managed and {offline} offline, of {present}")
            })?;
        }
        let gauges = [Gauge::NrSlabReclaimable, Gauge::NrSlabUnreclaimable, Gauge::NrPageTablePages, Gauge::NrBounce];
        let counted: u64 = gauges.into_iter().map(|gauge| self.memory().gauge(gauge)).sum();
        let lent = self.memory().lent_pages();
        ensure(kernel == counted + lent, || format!("{kernel} kernel pages, gauges say {counted}, and {lent} are lent"))
    }

    fn check_files(&self) -> Result<(), Broken> {
        let (mut pages, mut dirty, mut failed, mut nodes) = (0, 0, 0, 0);
        for file in self.page_cache().files() {
            let mut next = 0;
            let (mut found, mut failed_here) = (0, 0);
            let mut node = None;
            while let Some((page, frame)) = file.index.next_present(next) {
                next = page + 1;
                found += 1;
                nodes += u64::from(node.replace(page / NODE_PAGES) != Some(page / NODE_PAGES));
                let descriptor = &self.frames[frame];
                ensure(self.page_cache().is_page_of(frame, Owner::File(file.id), page), || {
                    format!("file {} page {page} is in {frame}, which says {descriptor:?}", file.id)
                })?;
                let is_dirty = descriptor.is(Flags::DIRTY);
                dirty += u64::from(is_dirty);
                ensure(!is_dirty || file.index.is_to_be_written(page), || {
                    format!("file {} page {page} is dirty but not tagged", file.id)
                })?;
                let is_written = descriptor.is(Flags::WRITEBACK);
                let has_failed = self.has_failed(frame);
                failed_here += i64::from(has_failed);
                ensure(!has_failed || is_dirty && file.index.has_tag(page, Tag::WriteFailed), || {
                    format!(
                        "file {} page {page} could not be written: {descriptor:?}, not dirty or not tagged",
                        file.id
                    )
                })?;
                ensure(is_written == file.index.has_tag(page, Tag::Writeback), || {
                    format!("file {} page {page}: writeback {is_written}, its tag says otherwise", file.id)
                })?;
            }
            ensure(found == file.index.pages(), || {
                format!("file {}: {found} pages in the index, counted {}", file.id, file.index.pages())
            })?;
            pages += u64::from(found);
            let counted = file.failed_pages.pages();
            ensure(failed_here == counted, || {
                format!("file {}: {failed_here} pages could not be written, counted {counted}", file.id)
            })?;
            failed += failed_here;
        }
        let counted = self.index_nodes.nodes();
        let takes_memory = self.index_nodes.slabs().is_some();
        ensure(!takes_memory || nodes == counted, || format!("{nodes} nodes of files' indexes, counted {counted}"))?;
        let cached = u64::from(self.swap.cache.pages());
        let counted = self.memory().gauge(Gauge::NrFilePages);
        ensure(pages + cached == counted, || {
            format!("{pages} file pages and {cached} in the swap cache, nr_file_pages {counted}")
        })?;
        let counted = self.memory().gauge(Gauge::NrDirty);
        ensure(dirty == counted, || format!("{dirty} dirty file pages, nr_dirty {counted}"))?;
        let counted = self.memory().gauge(Gauge::NrWriteFailed);
        ensure(failed == counted as i64, || format!("{failed} pages could not be written, nr_write_failed {counted}"))
    }

    /// Checks that each block of each device is either free or used by a file. Also checks that the dirty pages of all
    /// devices add up to the gauges of all zones.
    fn check_devices(&self) -> Result<(), Broken> {
        let (mut dirty, mut writeback, mut failed) = (0, 0, 0);
        for backing in self.backings.iter() {
            let files = self.page_cache().files();
            let of_device = files.iter().filter(|file| file.backing == backing.device);
            let used: u64 = of_device.map(|file| file.taken_blocks()).sum();
            let free = backing.blocks.lock().free();
            ensure(free + used == backing.total_blocks, || {
                format!("device {}: {free} blocks free, {used} used, of {}", backing.device.0, backing.total_blocks)
            })?;
            dirty += backing.dirty.load(machine::atomic::Ordering::Relaxed);
            writeback += backing.writeback.load(machine::atomic::Ordering::Relaxed);
            failed += backing.failed_files.pages();
        }
        let counted = self.memory().gauge(Gauge::NrWriteFailed);
        ensure(failed == counted as i64, || format!("{failed} failed pages by device, nr_write_failed {counted}"))?;
        let counted = self.memory().gauge(Gauge::NrDirty);
        ensure(dirty == counted as i64, || format!("{dirty} dirty pages by device, nr_dirty {counted}"))?;
        let counted = self.memory().gauge(Gauge::NrWriteback);
        ensure(writeback <= counted as i64, || format!("{writeback} pages written by device, nr_writeback {counted}"))
    }

    /// Checks the page-table entries of all regions against frames, gauges and swap slots. Returns the number of
    /// mappings of each frame.
    fn check_regions(&self) -> Result<BTreeMap<u32, u32>, Broken> {
        let mut mapped = BTreeMap::new();
        let (mut file_pages, mut huge_pages) = (0, 0);
        let mut slots: BTreeMap<u32, u16> = BTreeMap::new();
        for region in self.anonymous().regions() {
            if let Some(mapped) = &region.file {
                let is_known =
                    self.anonymous().mappers(&mapped.file).iter().any(|other| std::sync::Arc::ptr_eq(other, &region));
                ensure(is_known, || format!("region {} maps file {}, which does not know", region.id, mapped.file.id))?;
            }
            for page in region.parts_with_table(0).flatten() {
                let entry = region.entry(page);
                if entry.is_huge() && page % ENTRIES > 0 {
                    let (head, frame) = (region.huge_page(page), entry.frame());
                    let folio = frame.map(|frame| self.frames.folio(frame));
                    let offset = head.zip(frame).map(|(head, frame)| frame.0 - head.0);
                    ensure(head == folio.map(|folio| folio.head) && offset == Some(page % ENTRIES), || {
                        format!(
                            "region {} page {page} is part of {head:?} in {frame:?}, which is of {folio:?}",
                            region.id
                        )
                    })?;
                    continue;
                }
                if let Some(frame) = entry.frame() {
                    huge_pages += u64::from(entry.is_huge());
                    let is_anon_huge = !entry.is_file() && self.frames.pages(frame) == u64::from(ENTRIES);
                    ensure(entry.is_huge() == is_anon_huge, || {
                        format!("region {} page {page}: {entry:?} of {frame}, {:?}", region.id, self.frames[frame])
                    })?;
                    let mappings = mapped.entry(frame.0).or_insert(0);
                    *mappings += 1;
                    let descriptor = &self.frames[self.frames.head(frame)];
                    let expected = match &region.file {
                        Some(mapped) if entry.is_file() => (Owner::File(mapped.file.id), mapped.first_page + page),
                        _ => (Owner::Region(region.id), page),
                    };
                    let found = (descriptor.owner(), self.page_cache().index_of(frame));
                    let is_of_tree = matches!(found.0, Owner::Region(owner) if region.descends_from(owner));
                    ensure(found == expected || is_of_tree && found.1 == page, || {
                        format!("region {} page {page} maps {frame}, which says {descriptor:?}", region.id)
                    })?;
                    file_pages += u64::from(entry.is_file() && *mappings == 1);
                    ensure(!entry.is_file() || !entry.allows(true) || descriptor.is(Flags::DIRTY), || {
                        format!("region {} page {page} may write {frame}, which is not dirty", region.id)
                    })?;
                }
                if let Some(slot) = entry.slot() {
                    *slots.entry(slot).or_insert(0) += 1;
                }
            }
        }
        let counted = self.memory().gauge(Gauge::NrAnonPages);
        let anon_pages = mapped.len() as u64 - file_pages + huge_pages * (u64::from(ENTRIES) - 1);
        ensure(anon_pages == counted, || format!("{anon_pages} mapped anonymous pages, nr_anon_pages {counted}"))?;
        let counted = self.memory().gauge(Gauge::NrAnonTransparentHugepages);
        ensure(huge_pages == counted, || format!("{huge_pages} huge pages, nr_anon_transparent_hugepages {counted}"))?;
        let counted = self.memory().gauge(Gauge::NrMapped);
        ensure(file_pages == counted, || format!("{file_pages} mapped pages of files, nr_mapped {counted}"))?;
        let map = self.swap.slots.lock();
        for slot in 1..=self.swap.total_slots() {
            let (used, counted) = (slots.get(&slot).copied().unwrap_or(0), map.uses(slot));
            ensure(used == counted, || format!("swap slot {slot}: {used} page-table entries, count {counted}"))?;
        }
        Ok(mapped)
    }

    fn check_swap(&self) -> Result<(), Broken> {
        let map = self.swap.slots.lock();
        let mut free = 0;
        for slot in 1..=self.swap.total_slots() {
            let cached = self.swap.cached(slot);
            ensure(map.is_cached(slot) == cached.is_some(), || {
                format!("swap slot {slot}: cached {cached:?}, the slot says {}", map.is_cached(slot))
            })?;
            if let Some(frame) = cached {
                let descriptor = &self.frames[frame];
                ensure(self.swap_floor().has_swap_slot(frame, slot), || {
                    format!("swap slot {slot} is cached in {frame}, which says {descriptor:?}")
                })?;
            }
            free += u32::from(map.uses(slot) == 0 && cached.is_none());
        }
        ensure(free == map.free(), || format!("{free} swap slots are free, counted {}", map.free()))
    }

    /// Compares the counts of mappings in a frame's descriptor with `mapped`, the numbers of page-table entries that
    /// were found for each frame. Returns the number of mappings found: of the whole folio if the frame is a folio's
    /// head, otherwise of the frame's page.
    fn check_mappings(&self, frame: FrameNumber, mapped: &BTreeMap<u32, u32>) -> Result<u32, Broken> {
        let (folio, of_page) = (self.frames.folio(frame), mapped.get(&frame.0).copied().unwrap_or(0));
        let of_folio = || folio.frames().filter_map(|part| mapped.get(&part.0)).sum();
        let found = if frame == folio.head { of_folio() } else { of_page };
        let counted = self.frames[frame].mappings();
        ensure(found == counted, || {
            format!("{frame}: {found} mappings, counted {counted}: {folio:?}, {:?}", self.frames[frame])
        })?;
        // The single entry of a huge page is counted as a mapping of the folio, and as a mapping of none of its pages.
        let of_page_counted = self.frames.mappings_of_page(frame);
        let is_huge = folio.order == PAGEBLOCK_ORDER && self.frames[folio.head].is_anon();
        ensure(is_huge || of_page == of_page_counted, || {
            format!("{frame}: {of_page} mappings of the page, counted {of_page_counted}: {folio:?}")
        })?;
        Ok(found)
    }

    fn check_frames(&self, places: &[Location], mapped: &BTreeMap<u32, u32>) -> Result<(), Broken> {
        for zone in &self.zones {
            for offset in 0..zone.online() as u32 {
                let frame = FrameNumber(zone.start.0 + offset);
                let descriptor = &self.frames[frame];
                let place = places[frame.index()];
                let flags = descriptor.flags();
                let mappings = self.check_mappings(frame, mapped)?;
                if flags.has(Flags::COMPOUND) {
                    let folio = self.frames.folio(frame);
                    let head = folio.head;
                    let is_whole = folio.is_large() && folio.holds(frame) && self.frames.folio(head) == folio;
                    ensure(is_whole && self.frames[head].references() > 0, || {
                        format!("{frame} is part of {folio:?}: {descriptor:?}, {:?}", self.frames[head])
                    })?;
                    if frame != head {
                        let has_nothing = descriptor.references() == 0
                            && descriptor.owner() == Owner::None
                            && flags.without(Flags::COMPOUND) == Flags::default()
                            && place == places[head.index()];
                        ensure(has_nothing, || {
                            format!("{frame} is a tail of {head}, and has {descriptor:?}, {place:?}")
                        })?;
                        continue;
                    }
                }
                match place {
                    Location::Nowhere => {
                        return Err(Broken(format!("{frame} is nowhere: {descriptor:?}")));
                    }
                    Location::Buddy | Location::PerCpu => ensure(descriptor.references() == 0, || {
                        format!("{frame} is free but has references: {descriptor:?}")
                    })?,
                    Location::Kernel | Location::Offline => {}
                    Location::Listed(list) => {
                        ensure(list == self.lru().list_of(frame) && flags.has(Flags::LRU), || {
                            format!("{frame} is on {list:?}, its flags say otherwise: {descriptor:?}")
                        })?;
                        let is_file = matches!(descriptor.owner(), Owner::File(_));
                        // All mappings of a large folio together hold one reference.
                        let mappings = if flags.has(Flags::COMPOUND) { mappings.min(1) } else { mappings };
                        let expected = mappings + u32::from(flags.has(Flags::SWAPCACHE)) + u32::from(is_file);
                        ensure(descriptor.references() == expected, || {
                            format!("{frame} should have {expected} references: {descriptor:?}")
                        })?;
                    }
                }
            }
        }
        Ok(())
    }
}
